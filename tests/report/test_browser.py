"""Datasheets and the site in a browser: nothing overflows, is said on the console, or is fetched.

Headless Chromium over its debugging pipe; skipped where there is none.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import mechc

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), "")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium")

# elements that reach beyond the page, unless something around them scrolls or is folded away, and
# formulas that are higher than their room
OVERFLOWING = """
(() => {
  const scrolls = ".scroll, pre, details:not([open]), .md-typeset__scrollwrap";
  const width = document.documentElement.clientWidth, found = [];
  if (document.documentElement.scrollWidth > width) found.push("page");
  for (const e of document.querySelectorAll("body *")) {
    if (e.closest("svg") && e.tagName !== "svg") continue;
    if (e.parentElement.closest(scrolls)) continue;
    if (e.getBoundingClientRect().right > width + 1) found.push(e.tagName + "." + e.className);
  }
  for (const e of document.querySelectorAll(".scroll")) {
    if (e.scrollHeight > e.clientHeight) found.push("high " + e.textContent.slice(0, 40));
  }
  return JSON.stringify({found, ink: getComputedStyle(document.body).backgroundColor});
})()
"""


class Browser:
    """Chromium's debugging protocol, one JSON message after another with NUL between them."""

    def __init__(self, profile):
        to_read, self.to = os.pipe()
        self.origin, from_write = os.pipe()
        command = [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
            "--disable-background-networking", "--no-first-run", f"--user-data-dir={profile}",
        ]  # fmt: skip

        def descriptors():
            os.dup2(to_read, 103)
            os.dup2(from_write, 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        self.process = subprocess.Popen(
            command, preexec_fn=descriptors, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(from_write)
        self.rest, self.number, self.events, self.session = b"", 0, [], None

    def read(self):
        while b"\0" not in self.rest:
            some = os.read(self.origin, 1 << 16)
            assert some, "Chromium ended"
            self.rest += some
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def ask(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def wait(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.read())

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=20)
        os.close(self.to)
        os.close(self.origin)


@pytest.fixture(scope="module")
def browser():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        found = Browser(profile)
        target = found.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = found.ask("Target.attachToTarget", targetId=target, flatten=True)
        found.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            found.ask(f"{domain}.enable")
        yield found
        found.close()


@pytest.fixture(scope="module")
def sheets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sheets")
    mechanisms = mechc.load("huber"), mechc.poisson(mechc.load("gaussian"))
    return [m.report(folder / f"{m.name}.html", certificate="none") for m in mechanisms]


@pytest.mark.parametrize("width", [1100, 420])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_datasheets_fit_and_are_quiet(browser, sheets, width, scheme):
    quiet(browser, sheets, width, scheme)


@pytest.mark.slow
def test_a_datasheet_with_its_certificate_fits(browser, tmp_path):
    path = mechc.load("gaussian").report(tmp_path / "sheet.html")
    assert "verified in ball arithmetic (quick)" in path.read_text("utf-8")
    quiet(browser, [path], 420, "light")


@pytest.mark.slow
@pytest.mark.parametrize("width", [1100, 420])
def test_pages_of_the_site_fit_and_ask_no_network(browser, tmp_path, width):
    build = pytest.importorskip("mkdocs.commands.build").build
    from mkdocs.config import load_config

    config = Path(__file__).parents[2] / "docs" / "site" / "mkdocs.yml"
    build(load_config(str(config), site_dir=str(tmp_path)))
    pages = [page for page in tmp_path.rglob("*.html") if page.name != "404.html"]
    assert len(pages) > 30
    quiet(browser, pages, width, "light", within=tmp_path)


def quiet(browser, sheets, width, scheme, within=None):
    """Nothing overflows, is said or fetched, but from files within a folder."""
    for path in sheets:
        browser.events.clear()
        browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=900,
                    deviceScaleFactor=1, mobile=False)  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.ask("Emulation.setEmulatedMedia", features=features)
        browser.ask("Page.navigate", url=path.as_uri())
        browser.wait("Page.loadEventFired")
        result = browser.ask("Runtime.evaluate", expression=OVERFLOWING)["result"]["value"]
        seen = json.loads(result)
        assert seen["found"] == []
        assert (seen["ink"] == "rgb(255, 255, 255)") == (scheme == "light")
        said = [e for e in browser.events if e["method"] in ("Runtime.consoleAPICalled",
                                                            "Runtime.exceptionThrown",
                                                            "Log.entryAdded")]  # fmt: skip
        assert said == []
        fetched = {
            e["params"]["request"]["url"]
            for e in browser.events
            if e["method"] == "Network.requestWillBeSent"
        }
        known = (within or path).as_uri(), "data:"
        assert within or fetched <= {path.as_uri()}
        assert all(url.startswith(known) for url in fetched)
