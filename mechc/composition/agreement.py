"""Differential checks of a composition: what must agree, whatever the method.

Methods must agree with each other, directions with their maximum, and delta must move with each
parameter the way it has to. Two statements are behind that, neither about a mechanism in
particular:

* what dominates composes: if one step at one value of a parameter has at every epsilon at least the
  delta of a step at another value, so have any number of steps (Zhu, Dong, Wang 2022, Theorem 10).
  Which value dominates is read off the answers for one step, on a grid of epsilons; parameters for
  which neither does are passed over;
* a sensitivity in a pair that is claimed to dominate, and a sampling rate, only ever raise delta:
  the claim is about all queries that move by *at most* the sensitivity, and a sampled pair
  ((1 - r) Q + r P, Q) is that of a smaller rate processed less.

Every violation comes with the smallest question that shows it. An answer without a theorem (nan
sides) and a refusal prove nothing and are passed over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from mechc.accountants.registry import methods
from mechc.errors import MechcError
from mechc.protocol import ParameterInfo, Run, Use

Interval = tuple[float, float]
Ask = Callable[[Run, float, str], Interval | None]

GRID = (-20.0, -5.0, -2.0, -1.0, -0.5, -0.2, -0.05, 0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0)
SENSITIVITY = "sensitivity"
FACTOR = 1.5  # between neighbouring values of a parameter


class Comparison(NamedTuple):
    """One statement about two values of a parameter: whether it holds, and how to see it."""

    statement: str
    fine: bool
    found: str
    reproduction: str


def comparisons(run: Run, epsilons: Sequence[float], ask: Ask) -> Iterator[Comparison]:
    """Yield what was compared: every parameter of every event, at two neighbouring values.

    Args:
        run: a composition; each of its events is looked at by itself.
        epsilons: where the composition of each event is asked.
        ask: log delta of a composition at an epsilon in a direction, None where nothing is proved.
    """
    for event, count in run.parts:
        for info in event.mechanism.parameters:
            for other in _neighbours(event, info):
                for direction in ("remove", "add"):
                    yield from _compared(event, other, info, count, epsilons, direction, ask)


def _neighbours(event: Use, info: ParameterInfo) -> Iterator[Use]:
    """The event with one parameter a little larger; nothing if its domain ends there."""
    value = event.parameters[info.name]
    larger = max(math.floor(value * FACTOR), value + 1.0) if info.integer else value * FACTOR
    values = {**event.parameters, info.name: min(larger, info.hi)}
    try:
        other = event.at(**{info.name: values[info.name]})
        other.loss()  # some values are refused only together with others
    except MechcError:
        return
    if other.theta != event.theta:
        yield other


def _compared(
    event: Use, other: Use, info: ParameterInfo, count: int, epsilons: Sequence[float],
    direction: str, ask: Ask,
) -> Iterator[Comparison]:  # fmt: skip
    """Compare a value of a parameter with a larger one, in one direction."""
    if _must_rise(event, info):
        order: tuple[Use, Use] | None = (event, other)
        why = f"delta rises with {info.name}"
        yield from _below(event, other, 1, GRID, direction, why, ask)
    else:
        order = _dominated_first(event, other, direction, ask)
        why = f"what dominates composes ({info.name})"
    if order is not None and count > 1:
        yield from _below(*order, count, epsilons, direction, why, ask)


def _must_rise(event: Use, info: ParameterInfo) -> bool:
    claimed = event.claim.status == "proven"
    return info.name in event.mechanism.rates or (info.name == SENSITIVITY and claimed)


def _dominated_first(event: Use, other: Use, direction: str, ask: Ask) -> tuple[Use, Use] | None:
    """The two events, the one with the smaller deltas first; None if neither has them."""
    signs = set()
    for epsilon in GRID:
        a = ask(event.composition(), epsilon, direction)
        b = ask(other.composition(), epsilon, direction)
        if a is None or b is None:
            return None
        if a[1] < b[0] or b[1] < a[0]:
            signs.add(a[1] < b[0])
    if len(signs) != 1:
        return None
    return (event, other) if signs.pop() else (other, event)


def _below(
    smaller: Use, larger: Use, count: int, epsilons: Sequence[float], direction: str,
    statement: str, ask: Ask,
) -> Iterator[Comparison]:  # fmt: skip
    """Delta of the first is at most that of the second."""
    for epsilon in epsilons:
        a, b = ask(count * smaller, epsilon, direction), ask(count * larger, epsilon, direction)
        if a is not None and b is not None:
            found = f"log delta >= {a[0]} for {smaller}, <= {b[1]} for {larger}"
            where = f"{count} * {smaller} and {count} * {larger}; "
            where += f"epsilon={epsilon}, direction={direction}"
            yield Comparison(statement, not a[0] > b[1], found, where)


EPSILONS = (0.1, 0.5, 1.0, 3.0)
DIRECTIONS = ("remove", "add", "both")
LOOP = 64  # longest composition that is also built step by step


@dataclass(frozen=True)
class Violation:
    """A statement that failed, and how to see it."""

    statement: str
    found: str
    reproduction: str


@dataclass(frozen=True)
class Report:
    """What was compared.

    Attributes:
        comparisons: how many pairs of answers were compared.
        violations: those that contradict each other.
    """

    comparisons: int
    violations: tuple[Violation, ...]

    @property
    def ok(self) -> bool:
        """Nothing contradicts."""
        return not self.violations

    def __str__(self) -> str:
        """One line, or one paragraph for each violation."""
        if self.ok:
            return f"{self.comparisons} comparisons, no contradiction"
        parts = [f"{v.statement}: {v.found}\n    {v.reproduction}" for v in self.violations]
        return "\n".join(parts)


class _Checker:
    def __init__(self, run: Run, epsilons: Sequence[float], certified: bool) -> None:
        self.run, self.epsilons, self.certified = run, tuple(epsilons), certified
        self.comparisons = 0
        self.violations: list[Violation] = []

    def report(self) -> Report:
        for direction in DIRECTIONS:
            self._overlap(direction)
        self._monotone()
        self._order()
        self._renyi()
        self._directions()
        self._parameters()
        return Report(self.comparisons, tuple(self.violations))

    def _ask(self, run: Run, epsilon: float, **how: Any) -> tuple[float, float] | None:
        """(lower, upper), None where nothing is proved."""
        try:
            bound = run.log_delta(epsilon, **how)
        except MechcError:
            return None
        lower, upper = float(bound.lower), float(bound.upper)
        return None if math.isnan(lower) and math.isnan(upper) else (lower, upper)

    def _compare(self, statement: str, fine: bool, found: str, reproduction: str) -> None:
        self.comparisons += 1
        if not fine:
            self.violations.append(Violation(statement, found, f"run = {reproduction}"))

    def _overlap(self, direction: str) -> None:
        """All bounded methods, and the certified answer if wanted, share a value."""
        names = ["auto", *(m.name for m in methods())]
        for epsilon in self.epsilons:
            where = f"{self.run!r}; epsilon={epsilon}, direction={direction}"
            answers = {
                n: self._ask(self.run, epsilon, method=n, direction=direction) for n in names
            }
            if self.certified:
                answers["certified"] = self._ask(
                    self.run, epsilon, certified=True, direction=direction
                )
            known = {n: a for n, a in answers.items() if a is not None}
            for name, (lower, upper) in known.items():
                ordered = not lower > upper
                self._compare("lower <= upper", ordered, f"{name}: {lower}, {upper}", where)
                for other, (_, top) in known.items():
                    if name != other:
                        self._compare(
                            "bounds of two methods overlap", not lower > top,
                            f"{name} says log delta >= {lower}, {other} says <= {top}",
                            where,
                        )  # fmt: skip

    def _monotone(self) -> None:
        """Delta falls with epsilon and rises with the number of steps."""
        for low, high in zip(sorted(self.epsilons), sorted(self.epsilons)[1:], strict=False):
            first, second = self._ask(self.run, low), self._ask(self.run, high)
            if first and second:
                self._compare("delta falls with epsilon", not second[0] > first[1],
                              f"log delta({low}) <= {first[1]}, log delta({high}) >= {second[0]}",
                              repr(self.run))  # fmt: skip
        for epsilon in self.epsilons:
            for name in ("auto", "renyi"):
                once = self._ask(self.run, epsilon, method=name)
                twice = self._ask(2 * self.run, epsilon, method=name)
                if once and twice:
                    self._compare("delta rises with the number of steps", not once[0] > twice[1],
                                  f"{name}: {once[0]} once, at most {twice[1]} twice",
                                  f"{self.run!r}; epsilon={epsilon}")  # fmt: skip

    def _order(self) -> None:
        """Neither the order of the parts nor counting instead of repeating matters."""
        parts = list(self.run.parts)
        others = [_sum(n * event for event, n in reversed(parts))]
        if self.run.count <= LOOP:
            others.append(_sum(1 * event for event, count in parts for _ in range(count)))
        for other in others:
            for epsilon in self.epsilons:
                first, second = self._ask(self.run, epsilon), self._ask(other, epsilon)
                self._compare(
                    "order and counting are irrelevant", _same(first, second),
                    f"{first} and {second}", f"{self.run!r}; epsilon={epsilon}",
                )  # fmt: skip

    def _renyi(self) -> None:
        """No lower bound exceeds the conversion of the Renyi divergence."""
        for epsilon in self.epsilons:
            exact, converted = (
                self._ask(self.run, epsilon),
                self._ask(self.run, epsilon, method="renyi"),
            )
            if exact and converted and not math.isnan(converted[1]):
                self._compare(
                    "delta is at most the Renyi conversion", not exact[0] > converted[1],
                    f"{exact[0]} > {converted[1]}", f"{self.run!r}; epsilon={epsilon}",
                )  # fmt: skip

    def _directions(self) -> None:
        """Both directions: the maximum of each."""
        for epsilon in self.epsilons:
            both, remove, add = (
                self._ask(self.run, epsilon, direction=d) for d in ("both", "remove", "add")
            )
            if both and remove and add:
                top, bottom = max(remove[1], add[1]), max(remove[0], add[0])
                fine = not both[0] > top and not bottom > both[1]
                self._compare("both is the maximum of the directions", fine,
                              f"{both}, remove {remove}, add {add}",
                              f"{self.run!r}; epsilon={epsilon}")  # fmt: skip

    def _parameters(self) -> None:
        """Delta moves with each parameter of each event as it has to."""

        def ask(run: Run, epsilon: float, direction: str) -> tuple[float, float] | None:
            return self._ask(run, epsilon, direction=direction)

        for one in comparisons(self.run, self.epsilons, ask):
            self._compare(*one)


def _same(first: tuple[float, float] | None, second: tuple[float, float] | None) -> bool:
    """Overlapping intervals: a question that was asked before may have refined the nodes."""
    if first is None or second is None:
        return first is second
    return not (first[0] > second[1] or second[0] > first[1])


def check(run: Run, epsilons: Sequence[float] = EPSILONS, certified: bool = False) -> Report:
    """Compare all methods with each other and with what must hold.

    Args:
        run: a composition.
        epsilons: where.
        certified: include the certified answer (slower; needs python-flint).
    """
    return _Checker(run, epsilons, certified).report()


def _sum(parts: Iterable[Run]) -> Run:
    return reduce(add, parts)
