"""The documentation runs: Python blocks are executed, and the text after one is its output."""

import contextlib
import io
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NEEDS = {"integrations.md": "dp_accounting"}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    return [(m.group(1), m.group(2)) for m in BLOCK.finditer(page.read_text("utf-8"))]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_blocks_run_and_print_what_they_say(page, tmp_path, monkeypatch):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "documentation"}
    output = None
    for language, text in blocks(page):
        if language == "python":
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile(text, str(page), "exec"), names)
            output = stream.getvalue()
        elif language == "text" and output is not None:
            assert output.strip() == text.strip()
            output = None


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_page_of_the_house_names_what_there_is():
    sources = {path: path.read_text("utf-8") for path in (ROOT / "mechc").rglob("*.py")}
    paths, words = {path.as_posix() for path in sources}, set(re.findall(r"\w+", str(sources)))
    page = BLOCK.sub("", (ROOT / "docs" / "architecture.md").read_text("utf-8"))
    for name in re.findall(r"`([\w./]+)`", page):
        if name.endswith(".py"):
            ours = any(path.endswith(f"/{name}") for path in paths)
            assert ours or (ROOT / name).exists(), name
        elif "/" not in name:
            assert name.split(".")[-1] in words, name


def test_shell_blocks_of_readme_are_the_two_that_are_run():
    shell = [text for language, text in blocks(ROOT / "README.md") if language in ("bash", "sh")]
    assert len(shell) == 2
    assert "mechc demo" in shell[0] and "pytest" in shell[1]


def test_each_shell_block_of_readme_is_one_line_that_can_be_pasted():
    for language, text in blocks(ROOT / "README.md"):
        if language == "bash":
            assert len(text.splitlines()) == 1
            assert text.index("pip install --upgrade pip") < text.index("pip install ", 60)


def test_every_page_is_in_the_site_and_the_site_asks_no_network(tmp_path):
    config = ROOT / "docs" / "site" / "mkdocs.yml"
    site = pytest.importorskip("mkdocs.config").load_config(str(config))
    text = config.read_text("utf-8")
    for page in PAGES[1:]:
        assert page.name in text
    from mkdocs.commands.build import build

    site["site_dir"] = str(tmp_path)
    build(site)
    for path in tmp_path.rglob("*.html"):
        for source in re.findall(r'(?:src|<link[^>]*href)="([^"]*)"', path.read_text("utf-8")):
            assert not source.startswith(("http", "//")), (path.name, source)


def test_extras_and_groups_of_readme_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    text = (ROOT / "README.md").read_text("utf-8")
    for listed in re.findall(r"'\.\[([\w,]+)\]'", text):
        assert set(listed.split(",")) <= set(project["project"]["optional-dependencies"])
    for group in re.findall(r"--group (\w+)", text):
        assert group in project["dependency-groups"]


def test_commands_of_readme_parse():
    from mechc.cli.commands import app

    pages = [ROOT / "README.md", ROOT / "docs" / "command-line.md", ROOT / "docs" / "dpsgd.md"]
    text = "\n".join(t for p in pages for language, t in blocks(p) if language == "console")
    text = text.replace("\\\n", " ")
    commands = [line[len("$ mechc ") :].split() for line in text.splitlines() if line[:1] == "$"]
    assert commands
    for words in commands:
        shown = CliRunner().invoke(app, [words[0], "--help"])
        assert shown.exit_code == 0
        for option in (w for w in words if w.startswith("--")):
            assert option in shown.output


def test_methods_page_covers_every_method():
    from mechc.accountants.registry import METHODS

    page = (ROOT / "docs" / "methods.md").read_text("utf-8")
    for method in METHODS:
        assert f"## {method.name}" in page
        assert f"`{method.name}`" in page
