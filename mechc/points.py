"""One query at a number or at an array of numbers, and its answers in the same shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mechc.accountants.bound import Bound
from mechc.errors import DeclarationError
from mechc.inputs import as_work
from mechc.loss.work import MAX_WORK, limited

ULP = 2.0**-52


class Points(NamedTuple):
    """Checked arguments of a query: their values and, for an array, its shape."""

    values: tuple[float, ...]
    shape: tuple[int, ...] | None

    def ask(
        self,
        query: Callable[[float], Bound],
        rising: bool = False,
        max_work: float = MAX_WORK,
        method: str = "auto",
    ) -> Bound:
        """Apply a scalar query to each value; a number gives scalars, an array gives arrays.

        From the largest epsilon down, because a contour serves the epsilons below its own better
        than those above: falling values, or `rising` where epsilon falls with the value.

        Args:
            query: what is asked of each value.
            rising: see above.
            max_work: work that each value may take, see `loss.work`.
            method: the accountant that is asked.
        """
        allowed = as_work(max_work)

        def answer(value: float) -> Bound:
            with limited(allowed, method):
                return query(value)

        if self.shape is None:
            return answer(self.values[0])
        order = sorted(set(self.values), reverse=not rising)
        answers = {value: answer(value) for value in order}
        return collect([answers[value] for value in self.values], self.shape)


def checked(check: Callable[[Any], float], values: Any) -> Points:
    """Check a number, or every element of an array, before anything is computed."""
    if isinstance(values, (int, float)):
        return Points((check(values),), None)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DeclarationError(f"{values!r} is not an array of numbers: {error}") from error
    if array.ndim == 0:
        return Points((check(values),), None)
    return Points(tuple(check(value) for value in array.ravel()), array.shape)


def collect(answers: list[Bound], shape: tuple[int, ...]) -> Bound:
    """Stack scalar bounds into one bound of arrays; the details stand under "each"."""
    sides = np.array([(a.lower, a.estimate, a.upper) for a in answers], dtype=np.float64).reshape(
        -1, 3
    )
    names = sorted({a.method for a in answers})
    unproven = [a.status for a in answers if a.status != "proven"]
    return Bound(
        sides[:, 0].reshape(shape),
        sides[:, 1].reshape(shape),
        sides[:, 2].reshape(shape),
        "+".join(names),
        unproven[0] if unproven else "proven",
        {"each": tuple(a.detail for a in answers)},
    )


def from_log(bound: Bound) -> Bound:
    """Turn bounds on log delta into bounds on delta, rounding outward."""
    lower, upper = float(bound.lower), float(bound.upper)
    return Bound(
        lower if math.isnan(lower) else _exp_down(lower),
        math.exp(float(bound.estimate)),
        upper if math.isnan(upper) else _exp_up(upper),
        bound.method,
        bound.status,
        bound.detail,
    )


def _exp_down(log_value: float) -> float:
    if log_value == 0.0 or log_value == -math.inf:
        return math.exp(log_value)
    return math.exp(log_value) * max(0.0, 1.0 - (abs(log_value) + 2.0) * ULP)


def _exp_up(log_value: float) -> float:
    if log_value == 0.0 or log_value == -math.inf:
        return math.exp(log_value)
    value = math.exp(log_value) * (1.0 + (abs(log_value) + 2.0) * ULP)
    return min(max(value, math.ulp(0.0)), 1.0)
