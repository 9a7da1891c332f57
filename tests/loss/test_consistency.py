"""A kernel whose branches contradict its densities gives no answer, whatever is wrong with them."""

import numpy as np
import pytest

import mechc
from mechc.errors import VerificationError
from mechc.loss.measure import PrivacyLoss


class Edited:
    """A kernel with some of its parts replaced."""

    def __init__(self, kernel, **parts):
        self.__dict__.update(parts)
        self.original = kernel

    def __getattr__(self, name):
        return getattr(self.original, name)


def edited(kernel, row, column, value):
    def branches(theta):
        rows = kernel.branches(theta).copy()
        rows[row, column] = value(rows)
        if column < 2:  # the next branch begins where this one ends
            rows[row + 1, 0] = rows[row, 1]
        return rows

    return Edited(kernel, branches=branches)


def mirrored(kernel):
    def loss_inverse_many(branch, ells, theta, out):
        kernel.loss_inverse_many(branch, -ells, theta, out)

    return Edited(kernel, loss_inverse_many=loss_inverse_many)


FAULTS = {
    "an extremum at the end": lambda k: edited(k, 0, 1, lambda rows: rows[0, 1] - 3.0),
    "an extremum too far": lambda k: edited(k, 0, 1, lambda rows: rows[0, 1] + 0.1),
    "a branch turned round": lambda k: edited(k, 1, 2, lambda rows: -rows[1, 2]),
    "a limit too small": lambda k: edited(k, 1, 4, lambda rows: 0.9 * rows[1, 4]),
    "another loss": lambda k: Edited(k, log_q_many=k.log_p_many),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_contradiction_is_an_error(fault):
    kernel, theta = mechc.load("student_t").kernel, np.array([3.0, 1.0, 1.0])
    PrivacyLoss.from_kernel(kernel, theta)
    with pytest.raises(VerificationError, match="contradict"):
        PrivacyLoss.from_kernel(FAULTS[fault](kernel), theta)


def test_a_symmetry_that_is_none_is_an_error():
    kernel, theta = mechc.load("gumbel").kernel, np.array([1.0, 1.0])
    with pytest.raises(VerificationError, match="mirror"):
        PrivacyLoss.from_kernel(Edited(kernel, SYMMETRIC=True), theta)


def test_inverses_that_miss_are_replaced_by_searching():
    kernel, theta = mechc.load("gaussian").kernel, np.array([1.0, 1.0])
    sound, wrong = (PrivacyLoss.from_kernel(k, theta) for k in (kernel, mirrored(kernel)))
    assert wrong.hockey_stick_log(0.3)[1] == pytest.approx(
        sound.hockey_stick_log(0.3)[1], abs=1e-12
    )
