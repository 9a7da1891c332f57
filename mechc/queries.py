"""What can be asked of an event or a composition.

In: numbers or arrays. Out: `Bound`s of the same shape with a proven lower and upper side (or nan
and a status where the chosen method proves nothing). `float(bound)` is the upper side.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mechc.accountants.bound import Bound
from mechc.errors import DeclarationError, UnsupportedError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mechc.composition import Composition
    from mechc.verify.certified import Answers
    from mechc.verify.differential import Report

ULP = 2.0**-52


class Queries(ABC):
    """The queries that `Event` and `Composition` share.

    Keyword arguments of all of them:

    * method: a name from `mechc.methods()`, "auto" (its rule: see `mechc.registry`), or
      "name:option" such as "saddlepoint:msd1";
    * direction: "both" (the maximum over the directions, taken after composition), "remove" (P
      contains the record) or "add";
    * rtol: relative width of delta that "auto" aims at;
    * certified: answer in ball arithmetic from the declaration, without any kernel (needs
      python-flint; delta, log_delta and epsilon only); `status` is then "certified";
    * further options go to the accountant.
    """

    __slots__ = ()

    @abstractmethod
    def composition(self) -> Composition:
        """Return the composition the queries are about."""

    def log_delta(
        self,
        epsilon: Any,
        *,
        method: str = "auto",
        direction: str = "both",
        rtol: float = 1e-6,
        certified: bool = False,
        **options: Any,
    ) -> Bound:
        """Return bounds on log delta(epsilon), far below the smallest double if need be.

        Args:
            epsilon: any real number, negative and infinite ones included, or an array of them.
            method: see the class, as for the rest.
            direction: see the class.
            rtol: see the class.
            certified: see the class.
            **options: see the class.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: the method cannot do this composition.
        """
        points = checked(as_epsilon, epsilon)
        if certified:
            return points.ask(self._certified(method, direction, options).log_delta)
        evaluation = self.composition().evaluation(method, direction, rtol, **options)
        return points.ask(evaluation.log_delta)

    def delta(
        self,
        epsilon: Any,
        *,
        method: str = "auto",
        direction: str = "both",
        rtol: float = 1e-6,
        certified: bool = False,
        **options: Any,
    ) -> Bound:
        """Return bounds on delta, the hockey-stick divergence E_P[(1 - exp(epsilon - L))_+].

        Arguments and errors as for `log_delta`. Below the smallest double the lower side is 0 and
        the upper side the smallest positive double.
        """
        points = checked(as_epsilon, epsilon)
        if certified:
            return points.ask(self._certified(method, direction, options).delta)
        evaluation = self.composition().evaluation(method, direction, rtol, **options)
        return points.ask(lambda e: from_log(evaluation.log_delta(e)))

    def epsilon(
        self,
        delta: Any = None,
        *,
        log_delta: Any = None,
        method: str = "auto",
        direction: str = "both",
        rtol: float = 1e-6,
        certified: bool = False,
        **options: Any,
    ) -> Bound:
        """Return bounds on the smallest epsilon >= 0 with delta(epsilon) <= delta.

        At the upper side the proven upper bound of delta is at most the target; at the lower side
        the proven lower bound exceeds it (or epsilon is 0). delta = 0 asks for pure differential
        privacy; a delta below the mass at infinite loss gives inf.

        Args:
            delta: target in [0, 1], or an array; or
            log_delta: its natural log, <= 0, for targets below the smallest double.
            method: see the class, as for the rest.
            direction: see the class.
            rtol: see the class.
            certified: see the class.
            **options: see the class.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: the method cannot do this composition.
            NumericError: the search does not settle.
        """
        from mechc import search

        if (delta is None) == (log_delta is None):
            raise DeclarationError("epsilon: give exactly one of delta= and log_delta=")
        target, check = (delta, as_delta) if log_delta is None else (log_delta, _as_log_delta)
        points = checked(check, target)
        evaluation = self.composition().evaluation(method, direction, rtol, **options)
        if certified:
            answers = self._certified(method, direction, options)
            return points.ask(
                lambda t: answers.epsilon(t, float(search.epsilon(evaluation, t).estimate))
            )
        return points.ask(lambda t: search.epsilon(evaluation, t), rising=True)

    def check(self, epsilons: Iterable[float] = (0.1, 0.5, 1.0, 3.0)) -> Report:
        """Compare all bounded methods with each other and with what must hold.

        Args:
            epsilons: where to compare.

        Returns:
            The number of comparisons and the contradictions, each with its reproduction.
        """
        from mechc.verify.differential import check

        return check(self.composition(), tuple(epsilons))

    def _certified(self, method: str, direction: str, options: dict[str, Any]) -> Answers:
        """The same questions answered in ball arithmetic."""
        from mechc.verify.certified import RTOL, Answers

        if method not in ("auto", "contour") or options:
            given = ", ".join((f"method={method!r}", *options))
            raise UnsupportedError(f"certified: method contour without options, not {given}")
        return Answers(self.composition(), direction, RTOL)

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        kind: str = "profile",
        delta: float = 1e-6,
        counts: Iterable[int] | None = None,
        **how: Any,
    ) -> Figure:
        """Draw what is proven and return the matplotlib figure (optional extra `plot`).

        Args:
            path: file to write as well; its suffix decides the format.
            kind: "profile" (epsilon against delta), "tradeoff" (false negative against false
                positive rate) or "steps" (epsilon after each number of repetitions).
            delta: target for "steps".
            counts: numbers of repetitions for "steps", default 1 to 100.
            how: keyword arguments of the query that is drawn.

        Raises:
            DeclarationError: the kind is not known.
            UnsupportedError: matplotlib is not installed, or the file cannot be written.
        """
        from mechc.present import plot

        return plot.run(self, path, kind=kind, delta=delta, counts=counts, **how)

    def cite(self) -> str:
        """Return BibTeX for the mechanisms and for the methods that have answered so far."""
        from mechc.present import cite

        return cite.bibtex(self.composition())

    def advantage(self, **how: Any) -> Bound:
        """Return bounds on the largest advantage of a membership test, delta(0).

        This is the total variation distance, the largest true positive rate minus false positive
        rate. Keyword arguments as for `delta`.
        """
        return self.delta(0.0, **how)

    def tradeoff(self, alpha: Any, **how: Any) -> Bound:
        """Return bounds on the smallest false negative rate at false positive rate alpha.

        f(alpha) = sup over epsilon of 1 - delta(epsilon) - e^epsilon alpha, over all real epsilon
        (Dong, Roth, Su 2022, Proposition 2.13); the smaller of the two directions. `lower` is the
        side that never under-reports what an attacker can do.

        Args:
            alpha: false positive rate in [0, 1], or an array.
            how: keyword arguments as for `delta`.
        """
        from mechc import tradeoff

        composition = self.composition()
        return checked(_as_rate, alpha).ask(lambda a: tradeoff.false_negative(composition, a, how))

    def renyi(self, orders: Any, *, direction: str = "both") -> Bound:
        """Return bounds on the Rényi divergence of the given orders, max over the directions.

        Args:
            orders: numbers > 0 (1 is the Kullback-Leibler divergence, inf the largest loss), or
                an array.
            direction: see the class.
        """
        from mechc import divergence

        composition = self.composition()
        return checked(_as_order, orders).ask(
            lambda order: divergence.renyi(composition, order, direction)
        )

    def gdp(self, *, epsilon_max: float | None = None, **how: Any) -> Bound:
        """Return bounds on the smallest mu such that the run is mu-GDP up to `epsilon_max`.

        Args:
            epsilon_max: the comparison covers |epsilon| <= epsilon_max; by default up to where
                delta is 1e-12. It cannot cover all epsilon: the tails of a subsampled
                mechanism are those of the mechanism without sampling. `detail` states the range
                and delta at its end.
            how: keyword arguments as for `delta`.
        """
        from mechc import divergence

        return divergence.gdp(self.composition(), epsilon_max, how)

    def epsilon_curve(self, delta: float, counts: Iterable[int], **how: Any) -> Bound:
        """Return bounds on epsilon after each number of repetitions of this whole run.

        Args:
            delta: target in (0, 1].
            counts: repetitions, in any order.
            how: keyword arguments as for `epsilon`.
        """
        from mechc import curve

        return curve.epsilon_curve(self.composition(), _as_positive_delta(delta), counts, how)


class Points(NamedTuple):
    """Checked arguments of a query: their values and, for an array, its shape."""

    values: tuple[float, ...]
    shape: tuple[int, ...] | None

    def ask(self, query: Callable[[float], Bound], rising: bool = False) -> Bound:
        """Apply a scalar query to each value; a number gives scalars, an array gives arrays.

        From the largest epsilon down, because a contour serves the epsilons below its own better
        than those above: falling values, or `rising` where epsilon falls with the value.
        """
        if self.shape is None:
            return query(self.values[0])
        order = sorted(set(self.values), reverse=not rising)
        answers = {value: query(value) for value in order}
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


def _number(name: str, value: Any, accepted: str) -> float:
    if isinstance(value, (bool, np.bool_, str, bytes)) or value is None:
        raise DeclarationError(f"{name}={value!r} is not a number (expected {accepted})")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise DeclarationError(f"{name}={value!r} is not a number (expected {accepted})") from None
    if math.isnan(number):
        raise DeclarationError(f"{name}=nan is not a number (expected {accepted})")
    return number


def as_epsilon(value: Any) -> float:
    """Return epsilon as a float; nan and what is not a number are refused."""
    return _number("epsilon", value, "any real number")


def _in_range(name: str, value: Any, accepted: str, lo: float, hi: float) -> float:
    number = _number(name, value, accepted)
    if not lo <= number <= hi:
        raise DeclarationError(f"{name}={number:g} is out of range (expected {accepted})")
    return number


def _as_rate(value: Any) -> float:
    return _in_range("alpha", value, "0 <= alpha <= 1", 0.0, 1.0)


def _as_log_delta(value: Any) -> float:
    return _in_range("log_delta", value, "log_delta <= 0", -math.inf, 0.0)


def as_delta(value: Any) -> float:
    """Return log delta for a delta in [0, 1]."""
    number = _in_range("delta", value, "0 <= delta <= 1", 0.0, 1.0)
    return math.log(number) if number else -math.inf


def _as_positive_delta(value: Any) -> float:
    number = as_delta(value)
    if number == -math.inf:
        raise DeclarationError("delta=0 is out of range (expected 0 < delta <= 1)")
    return number


def _as_order(value: Any) -> float:
    number = _number("orders", value, "orders > 0")
    if not number > 0:
        raise DeclarationError(f"orders={number:g} is not positive (expected orders > 0)")
    return number
