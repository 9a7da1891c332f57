"""Shared by the kernel tests: loaded kernels, golden files."""

import re

import pytest
from built_in import GOLDEN, source

from mechc.kernel import cache

WHOLE = "laplace.py"


def pytest_addoption(parser):
    parser.addoption(
        "--update-goldens", action="store_true", help="write emitted kernels to tests/golden"
    )


@pytest.fixture(scope="session")
def kernel_directory():
    """Where compiled kernels are kept: the same for all rooms, so that one compiles for all."""
    return cache.directory()


@pytest.fixture
def kernel_of(kernel_directory, monkeypatch):
    """A loaded kernel by name; machine code is kept between runs."""
    monkeypatch.setenv(cache.VARIABLE, str(kernel_directory))

    def load(name):
        text = source(name)
        key = cache.request_key(text)
        return cache.lookup(key) or cache.store(key, name, text)

    return load


def own(text):
    """A kernel text without what all kernels share."""
    shared = re.compile(r"(class|def) (Compiled|compiled|self_check)\b")
    parts = re.split(r"\n\n+(?=@|def |class |# theta|if )", text)
    return "\n\n".join(part for part in parts if not shared.search(part))


def unversioned(text):
    """A kernel text without the lines that change with versions of mechc and SymPy."""
    changing = ("Emitted by ", "DIGEST = ", "# sha256 ")
    return [line for line in text.splitlines() if not line.startswith(changing)]


@pytest.fixture
def golden(request):
    """Compare a text with its golden file, or write it under --update-goldens.

    One golden is whole; the others leave out what stands there too.
    """

    def compare(name, text):
        path, text = GOLDEN / name, text if name == WHOLE else own(text)
        if request.config.getoption("--update-goldens"):
            path.write_text(text, encoding="utf-8")
        assert unversioned(text) == unversioned(path.read_text(encoding="utf-8")), (
            f"{name} differs from what is emitted now; if that is wanted, run with --update-goldens"
        )

    return compare
