"""Functions are compiled when first used, for the types that they declare."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba.core.errors import TypingError

from mechc.loss.jit import compiled


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
