"""Fresh processes: import, cold compilation, a query on a cached kernel; their processor time."""

import os
import statistics
import subprocess
import sys

import pytest

QUERY = (
    "import sys, mechc\n"
    "g = mechc.poisson(mechc.load('gaussian'), sampling_rate=0.01)\n"
    "print((2000 * g(sigma=0.8)).epsilon(1e-5).upper, 'sympy' in sys.modules)\n"
)
COMPILE = "import mechc; mechc.load('student_t').kernel"


def run(code, cache):
    """Seconds of one process, with what it started, and what it printed."""
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "MECHC_CACHE": str(cache)},
    )  # fmt: skip
    after = os.times()
    spent = [after[i] - before[i] for i in (2, 3)]  # user and system time of children
    return sum(spent), done.stdout


def note(report, what, code, caches):
    median = statistics.median(run(code, cache)[0] for cache in caches)
    report.notes.append(f"fresh process, {what}: {median:.2f} s")


@pytest.mark.parametrize("code", ["pass", "import mechc", "import sympy"])
def test_import(report, tmp_path, code):
    note(report, repr(code), code, [tmp_path] * 5)


def test_cold_compile(report, tmp_path):
    caches = [tmp_path / str(i) for i in range(3)]
    note(report, "empty cache, compile student_t", COMPILE, caches)


def test_query_on_a_cached_kernel(report, tmp_path):
    run(QUERY, tmp_path)
    assert run(QUERY, tmp_path)[1].split()[1] == "False"
    note(report, "cached kernel, epsilon", QUERY, [tmp_path] * 5)
