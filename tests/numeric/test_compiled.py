"""Functions are compiled when first used, for the types that they declare."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError

import mechc
from mechc.numeric.jit import compiled, subroutine


@compiled("float64(float64)")
def cubed(x):
    return x * x * x


@compiled("float64(float64[::1])")
def sum_of_cubes(values):
    total = 0.0
    for x in values:
        total += cubed(x)
    return total


def test_nothing_is_compiled_before_it_is_used():
    @compiled("complex128(float64[::1])")
    def never_called(x):
        return x.no_such_attribute

    assert never_called.__name__ == "never_called"
    with pytest.raises(TypingError):
        never_called(np.ones(1))


def test_arguments_become_what_is_declared():
    assert cubed(10**7) == 1e21  # beyond int64
    assert sum_of_cubes(np.array([1.0, 2.0])) == 9.0
    with pytest.raises(TypeError):
        sum_of_cubes(np.array([1, 2]))


def test_subroutines_are_python_to_python_and_machine_code_to_machine_code():
    @subroutine("float64(float64)")
    def inverse(x):
        return 1.0 / x

    @compiled("float64(float64)")
    def twice_inverted(x):
        return inverse(inverse(x))

    assert inverse(4.0) == twice_inverted(0.25) == 0.25
    assert twice_inverted(0.0) == 0.0  # 1 / inf
    with pytest.raises(ZeroDivisionError):
        inverse(0.0)


def test_types_found_for_one_function_are_not_those_of_another():
    """numba is asked once for the types of a call: for others the code of `max` is another."""

    def largest(x):
        top = max(x[0], x[0])
        for j in range(1, x.size):
            top = max(top, x[j] * x[0] + x[j], np.float64(max(j, 1)))
        return top

    for fast in ({"contract"}, False, {"contract"}, False):
        made = compiled("float64(float64[::1])", cache=False, fastmath=fast)(largest)
        assert made(np.array([2.0, 1.0, 5.0])) == 15.0
        (text,) = made.machine_code.inspect_llvm().values()
        assert ("contract" in text) == bool(fast)


def test_functions_that_make_arrays_say_so():
    def squares(n):
        out = np.empty(n)
        for j in range(n):
            out[j] = j * j
        return out

    assert compiled("float64[::1](int64)", makes_arrays=True)(squares)(3).tolist() == [
        0.0,
        1.0,
        4.0,
    ]
    with pytest.raises(TypingError, match="empty"):
        compiled("float64[::1](int64)", cache=False)(squares)(3)


def test_threads_may_compile_at_once():
    """One holds numba's lock and meets another function, which a second thread is compiling."""

    @compiled()
    def doubled(x):
        return 2.0 * cubed(x)

    @compiled("float64(float64)")
    def tripled(x):
        return 3.0 * cubed(x)

    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(f, 2.0) for f in (doubled, tripled) * 2]
        assert [f.result(60.0) for f in found] == [16.0, 24.0] * 2


def test_no_sum_is_taken_in_any_order():
    """A copy of such a function in the machine code of a caller would give other digits."""
    for path in Path(mechc.__file__).parent.rglob("*.py"):
        found = re.findall(r"fastmath=([^,)\n]*)", path.read_text())
        assert set(found) <= {'{"contract"}'}, path


@pytest.mark.slow
def test_a_process_that_compiles_answers_as_later_ones_do(tmp_path, monkeypatch):
    """Three sampled Student-t steps, by the recursion: once differed in the fourteenth digit."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.setenv("MECHC_CACHE", str(tmp_path / "kernels"))
    question = (
        "import mechc\n"
        "noise = mechc.poisson(mechc.load('student_t'), sampling_rate=0.9976248607284419)\n"
        "run = 3 * noise(nu=0.5251525509516677, scale=9.24778169364674)\n"
        "bound = run.log_delta(0.01818562739426892, direction='remove', method='direct')\n"
        "print(repr(bound.lower), repr(bound.upper))\n"
    )
    command = [sys.executable, "-c", question]
    first, second = (subprocess.check_output(command, text=True) for _ in range(2))
    assert first == second


def test_a_damaged_file_in_the_cache_of_numba_is_compiled_anew(monkeypatch):
    from mechc.numeric import machine_code

    def njit(signature, cache, **options):
        if cache:
            raise UnicodeDecodeError("utf-8", b"\xdf", 0, 1, "invalid continuation byte")
        return real(signature, **options)

    real = machine_code.njit
    monkeypatch.setattr(machine_code, "njit", njit)
    assert compiled("float64(float64)")(lambda x: 2.0 * x)(1.5) == 3.0
