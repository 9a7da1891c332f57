"""Fresh processes: import, cold compilation, a query on a cached kernel."""

import os
import subprocess
import sys
import time

import pytest

QUERY = (
    "import sys, mechc\n"
    "g = mechc.poisson(mechc.load('gaussian'), sampling_rate=0.01)\n"
    "print((2000 * g(sigma=0.8)).epsilon(1e-5).upper, 'sympy' in sys.modules)\n"
)
COMPILE = "import mechc; mechc.load('student_t').kernel"


def seconds(code, cache=None):
    environment = dict(os.environ)
    if cache is not None:
        environment["MECHC_CACHE"] = str(cache)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    return time.perf_counter() - start, done.stdout


@pytest.mark.parametrize("code", ["pass", "import mechc", "import sympy"])
def test_import(benchmark, report, code):
    benchmark.pedantic(lambda: seconds(code), rounds=5)
    report.notes.append(f"fresh process, {code!r}: {benchmark.stats.stats.median:.2f} s")


def test_cold_compile(benchmark, report, tmp_path):
    folders = (tmp_path / str(i) for i in range(100))
    benchmark.pedantic(lambda: seconds(COMPILE, next(folders)), rounds=3)
    report.notes.append(
        f"fresh process, empty cache, compile student_t: {benchmark.stats.stats.median:.2f} s"
    )


def test_query_on_a_cached_kernel(benchmark, report, tmp_path):
    seconds(QUERY, tmp_path)
    _, printed = seconds(QUERY, tmp_path)
    assert printed.split()[1] == "False"
    benchmark.pedantic(lambda: seconds(QUERY, tmp_path), rounds=5)
    report.notes.append(
        f"fresh process, cached kernel, epsilon: {benchmark.stats.stats.median:.2f} s"
    )
