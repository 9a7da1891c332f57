"""The cache under stress: racing compilers, killed writers, a full disk, clocks that go backwards.

Whatever happens, a lookup answers with the kernel that was asked for or with nothing, the next
process starts, and only errors of our own leave `store`.
"""

import os
import resource
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from test_cache import small

from mechc.kernel import cache

DECLARED = """
from sympy import exp
from mechc.declare import mechanism, rate, real
w = rate("w", typical=(0.1, 0.9))
coin = mechanism("coin", outcomes=((w, 1 - w), (1 - w, w)), parameters=(w,))
"""
ASK = """
import sys, mechc
print(repr(mechc.load(sys.argv[1])(w=0.75).delta(0.5).upper))
"""
WRITE = """
import sys
from itertools import count
from mechc.kernel import cache
from test_cache_stress import long
for i in range(5):
    path = cache.store(f"{i:064x}", "small", long(i)).__file__
print("writing", flush=True)
for i in count():  # a kernel that is gone is written again, one that is there is not
    for path in (cache.directory() / "kernels").glob("*.py"):
        path.unlink(missing_ok=True)
    cache.store(f"{i % 5:064x}", "small", long(i % 5))
"""
CATCHING = ASK.replace(
    "print(", "from mechc.errors import MechcError\ntry:\n    print("
) + textwrap.dedent("""
    except MechcError as error:
        print(type(error).__name__)
""")
TRUTH = 0.75 - np.exp(0.5) * 0.25


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_fallback", [])
    return tmp_path / "cache"


@pytest.fixture
def coin(tmp_path):
    path = tmp_path / "coin.py"
    path.write_text(DECLARED)
    return path


def start(code, *arguments, **options):
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def answers(process, seconds=300):
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, err
    assert float(out) == pytest.approx(TRUTH, rel=1e-12)
    return err


@pytest.mark.slow
def test_sixteen_processes_compile_the_same_mechanism_at_once(home, coin):
    for process in [start(ASK, coin) for _ in range(16)]:
        answers(process)
    assert not list(home.rglob(".writing-*"))
    assert len({entry.path for entry in cache.entries()}) == 1


def long(i):
    """A kernel whose text takes a while to write."""
    return small(f"{float(i)}  # {'-' * 2_000_000}")


@pytest.mark.slow
def test_two_hundred_killed_writers(home):
    """Each dies at another moment; every kernel found in between is the right one."""
    for i in range(5):
        cache.store(f"{i:064x}", "small", long(i))
    for round_ in range(200):
        writer = start(WRITE)
        assert writer.stdout.readline() == "writing\n"
        time.sleep(0.05 * ((round_ * 0.6180339887) % 1.0))
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
        for i in range(5):
            found = cache.lookup(f"{i:064x}")
            assert found is None or found.loss(2.0, np.array([3.0])) == 6.0 + i
    unfinished = list(home.rglob(".writing-*"))
    print(f"{len(unfinished)} of 200 died in the middle of a file")
    assert len(unfinished) > 10
    for path in unfinished:
        os.utime(path, (1.0, 1.0))
    for i in range(5):
        assert cache.store(f"{i:064x}", "small", long(i)).loss(0.0, np.zeros(1)) == i
    assert len(cache.entries()) == 5
    assert not list(home.rglob(".writing-*"))


def test_what_killed_writers_left_is_swept_away(home):
    cache.store("a" * 64, "small", small())
    stale, fresh = home / "kernels" / ".writing-old", home / "requests" / ".writing-new"
    for path in (stale, fresh):
        path.write_text("half a ker")
    os.utime(stale, (1.0, 1.0))
    cache.store("b" * 64, "small", small(2.0))
    assert not stale.exists()
    assert fresh.exists()  # another process may be writing it


@pytest.mark.parametrize(
    "limit", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (200, 3000))]
)
def test_a_disk_that_fills_up(home, coin, limit):
    """No file may grow beyond the limit, here or in the temporary directory."""

    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    process = start(CATCHING, coin, preexec_fn=full)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert out.strip() == "CacheError", err
    assert not list(home.rglob("*.py")) and not list(home.rglob(".writing-*"))
    answers(start(ASK, coin))  # the next start, with room again


@pytest.mark.slow
@pytest.mark.parametrize("pages", [1, 3, 8, 32, 128, 512])
def test_a_small_tmpfs(home, coin, pages, monkeypatch):
    """The cache and the temporary directory on a file system of a few pages."""
    home.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={4 * pages}k", "tmpfs", home], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        monkeypatch.setenv("TMPDIR", str(home))
        out, err = start(CATCHING, coin).communicate(timeout=300)
        said = out.strip()
        assert said == "CacheError" or float(said) == pytest.approx(TRUTH, rel=1e-12), err
        print(f"{4 * pages} KiB: {said}")
        subprocess.run(["mount", "-o", "remount,size=64m", home], check=True)
        answers(start(ASK, coin))  # the next start, with room again
        assert not list(home.rglob(".writing-*"))
    finally:
        subprocess.run(["umount", home], check=True)


@pytest.mark.slow
def test_clocks_that_go_backwards(home, coin):
    """Ages of files decide nothing: a cache from the future and one from 1970 both answer."""
    answers(start(ASK, coin))
    for moment in (1.0, time.time() + 10 * 365 * 86400):
        for path in home.rglob("*"):
            os.utime(path, (moment, moment))
        answers(start(ASK, coin))
