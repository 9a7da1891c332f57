"""Functions are compiled when first used, for the types that they declare."""

import numpy as np
import pytest
from numba.core.errors import TypingError

from mechc.loss.compiled import compiled


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
