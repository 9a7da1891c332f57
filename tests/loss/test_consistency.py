"""A kernel whose branches contradict its densities gives no answer, whatever is wrong with them."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

import mechc
from mechc.accountants.contour import ContourAccountant
from mechc.declare.text import declaration_from_text
from mechc.errors import NumericError, VerificationError
from mechc.loss.privacy_loss import Step, bound
from mechc.loss.truncated_loss import UnresolvedLoss


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
    bound(kernel, [theta])
    with pytest.raises(VerificationError, match="contradict"):
        bound(FAULTS[fault](kernel), [theta])


@pytest.mark.parametrize("what, theta", [
    (mechc.load("gumbel"), [1.0, 1.0]),
    (mechc.poisson(mechc.load("discrete_laplace")), [2.0, 1.0, 0.3]),
])  # fmt: skip
def test_a_symmetry_that_is_none_is_an_error(what, theta):
    kernel, theta = what.kernel, np.array(theta)
    with pytest.raises(VerificationError, match="mirror"):
        bound(Edited(kernel, SYMMETRIC=True), [theta])


def level_below(kernel, x_least):
    """The loss of a kernel, which far out goes on as it is at one output."""

    def loss_many(x, theta, out):
        kernel.loss_many(np.maximum(x, x_least), theta, out)

    return Edited(kernel, loss_many=loss_many)


def test_a_law_without_nodes_says_nothing_where_its_formulas_contradict_each_other():
    kernel, theta = mechc.load("gaussian").kernel, np.array([1.0, 1.0])
    sound, wrong = (
        UnresolvedLoss(k, theta, False, NumericError("too far out"))
        for k in (kernel, level_below(kernel, -15.0))
    )
    assert sound.log_above(1.0) < 0.0 and sound.log_below(-20.0) < -50.0
    assert wrong.log_above(1.0) == wrong.log_below(-20.0) == 0.0
    with pytest.raises(NumericError, match="too far out"):
        wrong.within(64.0)


def moved(kernel, by):
    """A kernel on the whole line whose outputs lie further up."""

    def at(name):
        return lambda x, theta, out: getattr(kernel, name)(x - by, theta, out)

    def loss_inverse_many(branch, loss, theta, out):
        kernel.loss_inverse_many(branch, loss, theta, out)
        out += by

    names = "log_p_many", "log_q_many", "loss_many"
    edits = {name: at(name) for name in names} | {"loss_inverse_many": loss_inverse_many}
    return Edited(kernel, loss=lambda x, theta: kernel.loss(x - by, theta), **edits)


def test_shares_are_as_wide_as_the_errors_of_their_masses():
    """Next to 1e10 doubles are 2e-6 apart, and a mass next to one is found to 1e-7."""
    kernel, theta = mechc.load("gaussian").kernel, np.array([1.0, 1.0])
    for by in (3e9, 1e10, 1e11):
        law = UnresolvedLoss(moved(kernel, by), theta, False, NumericError("too far out"))
        for threshold in (3.0, 5.0, 9.0):  # the loss is N(1/2, 1)
            assert law.log_below(threshold) >= norm.logcdf(threshold - 0.5)
            assert law.log_above(-threshold) >= norm.logsf(-threshold - 0.5)


def test_inverses_that_miss_are_replaced_by_searching():
    kernel, theta = mechc.load("gaussian").kernel, np.array([1.0, 1.0])
    sound, wrong = (bound(k, [theta])[0] for k in (kernel, mirrored(kernel)))
    assert wrong.hockey_stick_log(0.3)[1] == pytest.approx(
        sound.hockey_stick_log(0.3)[1], abs=1e-12
    )


def off_by(kernel, share):
    def loss_many(x, theta, out):
        kernel.loss_many(x, theta, out)
        out *= 1.0 + share

    return Edited(kernel, loss_many=loss_many)


@pytest.mark.few(1, 3, 5, 7, 9, 11)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("share", [5e-10, -5e-10])
@pytest.mark.parametrize("epsilon", [-1.5, 0.3, 2.5])
def test_losses_of_integers_that_are_not_those_of_their_masses_widen_answers(
    epsilon, share, reverse
):
    n, kernel = np.arange(-60.0, 61.0), mechc.load("discrete_gaussian").kernel
    p, q = (np.exp(-((n - shift) ** 2) / (2 * 1.3**2)) for shift in (2.0, 0.0))
    p, q = p / p.sum(), q / q.sum()
    if reverse:
        p, q = q, p
    (law,) = bound(off_by(kernel, share), [np.array([1.3, 2.0])])
    law = law.reversed() if reverse else law
    answers = [law.hockey_stick_log(epsilon)]
    found = ContourAccountant([Step(law, 2)]).log_delta(epsilon)
    answers.append((found.lower, found.estimate, found.upper))
    pairs = (p, q), (np.multiply.outer(p, p), np.multiply.outer(q, q))
    for (lower, _, upper), (joint_p, joint_q) in zip(answers, pairs, strict=True):
        truth = math.log(np.maximum(joint_p - math.exp(epsilon) * joint_q, 0.0).sum())
        assert lower <= truth <= upper < lower + 1e-5


def test_losses_of_integers_that_contradict_their_masses_are_an_error():
    kernel, theta = mechc.load("discrete_gaussian").kernel, np.array([1.3, 2.0])
    with pytest.raises(VerificationError, match="contradict"):
        bound(off_by(kernel, 1e-3), [theta])


@pytest.mark.parametrize("method", ["auto", "pld"])
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 12.0])
def test_a_density_that_loses_digits_next_to_its_zeros_is_no_contradiction(method, epsilon):
    """1 against 4/3 (1 - x^3): the log of the latter is as exact next to 1 as x is."""
    declared = declaration_from_text("cube", p="1", q="4/3*(1-x**3)", support=("0", "1"))
    with mpmath.workdps(40):
        x = mpmath.cbrt(1 - 3 * mpmath.exp(-epsilon) / 4)
        q = 4 * (1 - x - (1 - x**4) / 4) / 3
        truth = float(mpmath.log(1 - x - mpmath.exp(epsilon) * q))
    found = mechc.load(declared)().log_delta(epsilon, direction="remove", method=method)
    assert found.lower <= truth <= found.upper <= found.lower + 0.01
