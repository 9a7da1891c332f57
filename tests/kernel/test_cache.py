"""The kernel cache: what is found, what is never trusted, what happens when the disk says no."""

import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from mechc.errors import CacheError, VerificationError
from mechc.kernel import cache
from mechc.kernel.cache import seal
from mechc.kernel.prelude import closure
from mechc.kernel.statements import DECORATOR, IMPORTS

TEXT = (
    '''"""A small kernel."""

'''
    + IMPORTS
    + """

PROTOCOL = 2
NAME = "small"
DIGEST = "0123456789abcdef"


"""
    + DECORATOR
    + """


@compiled("float64(float64, float64[::1])")
def loss(x, theta):
    return x * theta[0] + %s


@compiled("void(float64[::1], float64[::1], float64[::1])")
def loss_many(xs, theta, out):
    for i in range(xs.size):
        out[i] = loss(xs[i], theta)
"""
)

KEY = "a" * 64


def small(constant=1.0):
    return seal(TEXT % constant)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A cache of its own for every test, and no fallback left over from another."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)  # machine code lies beside kernels
    monkeypatch.setattr(cache, "_fallback", [])
    return tmp_path / "cache"


def loss(kernel):
    return kernel.loss(2.0, np.array([3.0]))


def test_stored_kernels_are_found():
    assert cache.lookup(KEY) is None
    assert loss(cache.store(KEY, "small", small())) == 7.0
    assert loss(cache.lookup(KEY)) == 7.0
    (entry,) = cache.entries()
    assert entry.name == "small"
    assert entry.size > len(small())
    assert not list(entry.path.parent.glob(".writing-*"))


def test_names_are_made_safe_for_files():
    cache.store(KEY, "poisson(../laplace)", small())
    (entry,) = cache.entries()
    assert entry.name == "poisson_laplace"
    assert entry.path.parent == cache.directory() / "kernels"


@pytest.mark.parametrize("damage", ["edit", "truncate", "binary", "empty", "missing"])
def test_damaged_files_are_never_loaded_and_are_rebuilt(damage):
    cache.store(KEY, "small", small())
    (entry,) = cache.entries()
    text = entry.path.read_text()
    if damage == "edit":
        entry.path.write_text(text.replace("+ 1.0", "+ 2.0"))
    elif damage == "truncate":
        entry.path.write_text(text[: len(text) // 2])
    elif damage == "binary":
        entry.path.write_bytes(b"\xff\xfe\x00")
    elif damage == "empty":
        entry.path.write_text("")
    else:
        entry.path.unlink()
    assert cache.lookup(KEY) is None
    assert loss(cache.store(KEY, "small", small())) == 7.0
    assert loss(cache.lookup(KEY)) == 7.0


@pytest.mark.parametrize("content", ["", "../../etc/passwd", "gone-0.py", "x.py\ny.py", "\x00"])
def test_a_nonsense_index_entry_is_no_entry(content, home):
    cache.store(KEY, "small", small())
    (home / "requests" / KEY).write_text(content)
    assert cache.lookup(KEY) is None


def test_what_is_kept_under_one_key_answers_no_other(home):
    """The file of another request, or of another fact, in the place of one."""
    other = "b" * len(KEY)
    cache.store(KEY, "small", small())
    cache.keep(KEY, [1])
    for part in ("requests", "derived"):
        (home / part / KEY).rename(home / part / other)
    assert cache.lookup(other) is None and cache.recall(other) is None


def test_unsealed_text_is_refused():
    with pytest.raises(CacheError, match="damaged"):
        cache.store(KEY, "small", TEXT)
    assert cache.entries() == []


def test_a_text_that_does_not_load_leaves_no_index_entry():
    with pytest.raises(CacheError, match="does not load"):
        cache.store(KEY, "broken", seal("raise ValueError('no')\n"))
    assert cache.lookup(KEY) is None
    assert cache.entries() == []


@pytest.mark.parametrize(("reference", "agrees"), [(7.0, True), (7.0 + 1e-8, False)])
def test_a_kernel_that_computes_other_values_than_declared_never_answers(reference, agrees, home):
    """Reference values come from the declaration; machine code that differs is not kept."""
    text = TEXT % 1.0 + f"CHECKS = (((3.0,), ((2.0, None, None, {reference!r}, None, None),)),)\n"
    kernel, out = cache.store(KEY, "small", seal(text)), np.zeros(1)
    if agrees:
        kernel.loss_many(np.array([2.0]), np.array([3.0]), out)
        assert out == 7.0
        return
    for _ in range(2):
        with pytest.raises(
            VerificationError,
            match=r"loss.* in the declaration; no answer is given. A part of the formula",
        ):
            kernel.loss_many(np.array([2.0]), np.array([3.0]), out)
    assert out == 0.0
    assert not any((home / "kernels" / "__pycache__").glob("*.nb*"))


def test_damaged_machine_code_is_compiled_again(home):
    cache.store(KEY, "small", small(4.0))
    for file in (home / "kernels" / "__pycache__").glob("*.nb*"):
        file.write_bytes(b"garbage")
    code = (
        "import numpy as np; from mechc.kernel import cache;"
        f"print(cache.lookup('{KEY}').loss(2.0, np.array([3.0])))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "10.0", run.stderr


def test_different_texts_live_side_by_side():
    cache.store(KEY, "small", small(1.0))
    cache.store("b" * 64, "small", small(5.0))
    assert loss(cache.lookup(KEY)) == 7.0
    assert loss(cache.lookup("b" * 64)) == 11.0
    assert len(cache.entries()) == 2


def test_clear_removes_everything(home):
    cache.store(KEY, "small", small())
    assert cache.clear() == 1
    assert cache.entries() == []
    assert cache.lookup(KEY) is None
    assert not list(home.rglob("*.nb*")) and not list(home.rglob("*.py"))
    assert cache.clear() == 0


def test_load_takes_any_kernel_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(small())
    assert loss(cache.load(path)) == 7.0
    with pytest.raises(CacheError, match="not a file"):
        cache.load(tmp_path / "none.py")
    path = tmp_path / "other.py"
    path.write_text("PROTOCOL = 99\n")
    with pytest.raises(CacheError, match="protocol"):
        cache.load(path)


def refuse(*args, **kwargs):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("what", ["file", "loop"])
def test_an_unwritable_directory_is_replaced_with_one_warning(what, home):
    place = home.parent / "cache"
    if what == "file":
        place.write_text("a file where the directory should be")
    else:
        place.symlink_to(place)
    with pytest.warns(cache.CacheWarning, match="MECHC_CACHE"):
        assert loss(cache.store(KEY, "small", small())) == 7.0
    assert cache.directory() != home
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loss(cache.store("b" * 64, "small", small(5.0))) == 11.0
        assert loss(cache.lookup(KEY)) == 7.0


def test_a_full_disk_is_an_error_of_our_own(monkeypatch):
    monkeypatch.setattr(cache.os, "replace", refuse)
    with (
        pytest.warns(cache.CacheWarning, match="No space left"),
        pytest.raises(CacheError, match="cannot write the kernel anywhere"),
    ):
        cache.store(KEY, "small", small())
    assert not list(cache.directory().rglob(".writing-*"))


def test_a_disk_that_is_full_of_texts_still_answers(monkeypatch):
    """Machine code is written when a query first needs it: numba's error was the answer."""
    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._save_data", refuse)
    kernel = cache.store(KEY, "small", small())
    assert kernel.loss.machine_code(2.0, np.array([3.0])) == 7.0


def test_a_read_only_cache_still_answers(home):
    """Found kernels load where nothing can be written, machine code included."""
    if os.geteuid() == 0:
        pytest.skip("the superuser may write anywhere")
    cache.store(KEY, "small", small())
    for path in [*home.rglob("*"), home]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert loss(cache.lookup(KEY)) == 7.0
        with pytest.warns(cache.CacheWarning):
            cache.store("b" * 64, "small", small(5.0))
    finally:
        for path in [home, *home.rglob("*")]:
            path.chmod(0o755)


def test_request_keys_depend_on_everything(monkeypatch):
    key = cache.request_key("digest", (("poisson", "add_remove"),))
    assert key == cache.request_key("digest", (("poisson", "add_remove"),))
    others = {
        cache.request_key("other", (("poisson", "add_remove"),)),
        cache.request_key("digest", (("poisson", "replace"),)),
        cache.request_key("digest", ()),
    }
    protocol = cache.PROTOCOL
    monkeypatch.setattr(cache, "PROTOCOL", protocol + 1)
    others.add(cache.request_key("digest", (("poisson", "add_remove"),)))
    monkeypatch.setattr(cache, "PROTOCOL", protocol)
    monkeypatch.setattr(cache, "_compiler_digest", lambda: "changed")
    others.add(cache.request_key("digest", (("poisson", "add_remove"),)))
    assert key not in others
    assert len(others) == 5


def write_many(home, number):
    os.environ[cache.VARIABLE] = str(home)
    for i in range(20):
        cache.store(f"{(number + i) % 4:064x}", "small", small(float((number + i) % 4)))


def test_many_processes_write_at_once(home):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_many, args=(home, n)) for n in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    for n in range(4):
        assert loss(cache.lookup(f"{n:064x}")) == 6.0 + n
    assert not list(home.rglob(".writing-*"))


def test_what_another_process_writes_is_left_alone_for_an_hour(home):
    kernel = cache.store("0" * 64, "small", small(1.0))
    machine = Path(kernel.__file__).parent / "__pycache__"
    fresh, old = (machine / f"{Path(kernel.__file__).stem}.f.nbc.tmp.{n}" for n in range(2))
    for file in (fresh, old):
        file.write_bytes(b"half")
    os.utime(old, (0, 0))
    assert loss(kernel) == 7.0
    made = cache.files(Path(kernel.__file__))
    assert len(made) == 3, "machine code, its index, and the seal"
    cache.forget(Path(kernel.__file__), damaged=True)
    assert cache.files(Path(kernel.__file__)) == made
    cache.forget(Path(kernel.__file__))
    assert cache.files(Path(kernel.__file__)) == []
    assert fresh.exists()
    cache.seal_code(Path(kernel.__file__), "loss")
    assert fresh.exists() and not old.exists()


@pytest.mark.parametrize("moment", [0.02, 0.3, 0.9])
def test_a_killed_writer_leaves_no_wrong_kernel(home, moment):
    context = multiprocessing.get_context("fork")
    writer = context.Process(target=write_many, args=(home, 0))
    writer.start()
    time.sleep(moment)
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    for n in range(4):
        found = cache.lookup(f"{n:064x}")
        assert found is None or loss(found) == 6.0 + n


def test_nothing_symbolic_is_imported():
    code = (
        "import sys; from mechc import protocol; from mechc.kernel import cache;"
        "print('sympy' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_a_cached_kernel_loads_without_the_symbolic_side(kernel_of, kernel_directory):
    from built_in import source

    kernel_of("gaussian")
    key = cache.request_key(source("gaussian"))
    code = (
        "import sys, numpy as np; from mechc.kernel import cache;"
        f"kernel = cache.lookup('{key}');"
        "print(kernel.loss(0.75, np.array([1.0, 1.0])), 'sympy' in sys.modules)"
    )
    environment = {**os.environ, cache.VARIABLE: str(kernel_directory)}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert run.stdout.strip() == "0.25 False"


def test_only_the_symbolic_packages_of_the_kernel_room_import_sympy():
    """Below kernel/, SymPy occurs in lower/ alone."""
    room = Path(cache.__file__).parent
    for path in room.rglob("*.py"):
        if "lower" not in path.parts:
            assert "import sympy" not in path.read_text() and "from sympy" not in path.read_text()


def test_edited_machine_code_is_never_run():
    """Numba would run it, and answer 2 x 3 + 5."""
    kernel = cache.store(KEY, "small", small(1.2345))
    assert loss(kernel) == 7.2345
    path = Path(kernel.__file__)
    (code,) = (path.parent / "__pycache__").glob(f"{path.stem}.*.nbc")
    edited = code.read_bytes().replace(struct.pack("<d", 1.2345), struct.pack("<d", 5.0))
    assert edited != code.read_bytes()
    code.write_bytes(edited)
    assert answer_of_a_new_process(KEY) == 7.2345


def test_machine_code_edited_after_the_kernel_was_loaded_is_never_run():
    kernel = cache.store(KEY, "small", small(1.2345))
    assert answer_of_a_new_process(KEY) == 7.2345
    (code,) = (Path(kernel.__file__).parent / "__pycache__").glob("*.loss-*.nbc")
    edited = code.read_bytes().replace(struct.pack("<d", 1.2345), struct.pack("<d", 5.0))
    assert edited != code.read_bytes()
    code.write_bytes(edited)
    assert loss(kernel) == 7.2345


def answer_of_a_new_process(key):
    code = (
        "import sys, numpy as np\nfrom mechc.kernel import cache\n"
        f"print(cache.lookup({key!r}).loss(2.0, np.array([3.0])))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def test_what_kernels_paste_word_for_word_is_compiled_once_for_all_of_them(home):
    """One that changed a function has its own, and its own of what calls it."""
    pasted = "\n\n\n".join(p.text for p in closure(["complex_log_sum"]))

    def kernel(constant, pasted):
        text = small(constant).partition(cache.MARK)[0]
        text = text.replace(
            '@compiled("float64(float64, f', f'{pasted}\n\n\n@compiled("float64(float64, f', 1
        )
        return cache.store(KEY, "small", seal(text))

    one, other = kernel(1.0, pasted), kernel(2.0, pasted)
    changed = kernel(1.0, pasted.replace("return complex(size *", "return complex(2.0 * size *"))
    for name in ("complex_log", "complex_exp", "complex_log_sum"):
        made = getattr(one, name).machine_code
        assert getattr(other, name).machine_code is made
        assert (getattr(changed, name).machine_code is made) is (name == "complex_log")
    assert changed.complex_exp.machine_code(0j) == 2.0 * one.complex_exp.machine_code(0j) == 2.0
    half = changed.complex_log_sum.machine_code(1 + 0j, 0j, 0.5 + 0j, 0j)
    assert abs(half - np.log(2.0)) < 1e-15
    assert {entry.name for entry in cache.entries()} == {"small"}
    assert any((home / "shared" / "__pycache__").glob("*complex_exp*.nbi"))


def test_machine_code_that_calls_what_was_pasted_serves_the_next_process(home):
    """It was made again in every one: numba had no module of the name that it came from."""
    pasted = "\n\n\n".join(p.text for p in closure(["softplus"]))
    text = small().partition(cache.MARK)[0].replace("return x *", "return softplus(x) *")
    first = '@compiled("float64(float64, f'
    kernel = cache.store(KEY, "small", seal(text.replace(first, f"{pasted}\n\n\n{first}", 1)))
    answer, path = loss(kernel), Path(kernel.__file__)
    times = {file.name: file.stat().st_mtime_ns for file in cache.files(path)}
    assert answer_of_a_new_process(KEY) == answer
    assert {file.name: file.stat().st_mtime_ns for file in cache.files(path)} == times != {}
