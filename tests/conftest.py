"""Fixtures of every room, and the order in which tests run.

With `--seconds` tests come in an order of the day and none begins when the time is over, so that
slow tests may run as far as there is time: `pytest -m slow --seconds 600`.

By default a test with many costly cases runs those that differ most, `pytest.mark.few(0, 3)` of
them by their places; the others are slow.
"""

import gc
import os
import random
import time
from collections import Counter
from datetime import date

# SymPy remembers a thousand values a function unless told otherwise, and forgets what the next
# test asks for: an eighth of the time of symbolic tests. It is read when SymPy is imported.
os.environ.setdefault("SYMPY_CACHE_SIZE", "20000")
# numba colours messages of errors that it raises and catches while it tries types
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

import pytest

import mechc

LONGEST = ("test_documentation.py", "test_demo.py", "test_distributed.py")
# One worker starts with rooms that compile accountants, the other one with symbolic rooms, so that
# in a new checkout both do not compile the same functions at the same time.
ROOMS = (
    "individual", "verify", "declare", "symbolic", "calculus", "kernel", "loss", "numeric", "cli",
    "report", "composition", "integrations", "accountants",
)  # fmt: skip


STARTED = time.monotonic()
CASES = pytest.StashKey[Counter]()  # of each test, collected so far


def pytest_addoption(parser):
    parser.addoption("--seconds", type=float, help="begin no test after so many seconds")


def pytest_itemcollected(item):
    """Of the cases of a test marked `few(2, 5)` those at places 2 and 5 run by default."""
    few = item.get_closest_marker("few")
    if few is not None:
        cases = item.config.stash.setdefault(CASES, Counter())
        of = item.parent.nodeid, item.originalname
        if cases[of] not in few.args:
            item.add_marker("slow")
        cases[of] += 1


def pytest_runtest_setup(item):
    seconds = item.config.getoption("seconds")
    if seconds is not None and time.monotonic() - STARTED > seconds:
        pytest.skip("no time left")


def pytest_collection_modifyitems(config, items):
    """Put the longest tests first, so that no worker is left alone with one of them at the end."""
    if config.getoption("seconds") is not None:
        random.Random(date.today().toordinal()).shuffle(items)
        return
    rooms = {room: place for place, room in enumerate(ROOMS, 1)}
    items.sort(
        key=lambda item: (
            0 if item.path.name in LONGEST else rooms.get(item.path.parent.name, len(ROOMS))
        )
    )


def pytest_collection_finish():
    """Let the garbage collector pass over what stays, and pass less often: a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)


@pytest.fixture(scope="session")
def gaussian():
    return mechc.load("gaussian")


@pytest.fixture(scope="session")
def laplace():
    return mechc.load("laplace")


@pytest.fixture(scope="session")
def sampled_gaussian(gaussian):
    """Poisson-subsampled Gaussian with sampling rate and sigma open."""
    return mechc.poisson(gaussian)
