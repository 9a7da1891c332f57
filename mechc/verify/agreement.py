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
from itertools import pairwise, product
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

    `ask` answers with bounds on log delta, or None where nothing is proved.
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
        where = f"{count} * {smaller} and {count} * {larger}; epsilon={epsilon}, "
        a, b = (ask(count * event, epsilon, direction) for event in (smaller, larger))
        yield from _at_most(statement, a, b, f"{where}direction={direction}")


EPSILONS = (0.1, 0.5, 1.0, 3.0)
LOOP = 64  # longest composition that is also built step by step


@dataclass(frozen=True)
class Report:
    """What was compared.

    Attributes:
        comparisons: how many pairs of answers were compared.
        violations: those that contradict each other, each with a way to see it.
    """

    comparisons: int
    violations: tuple[Comparison, ...]

    @property
    def ok(self) -> bool:
        """Nothing contradicts."""
        return not self.violations

    def __str__(self) -> str:
        """One line, or one paragraph for each violation."""
        if self.ok:
            return f"{self.comparisons} comparisons, no contradiction"
        parts = [f"{v.statement}: {v.found}\n    run = {v.reproduction}" for v in self.violations]
        return "\n".join(parts)


def check(run: Run, epsilons: Sequence[float] = EPSILONS, certified: bool = False) -> Report:
    """Compare all methods with each other and with what must hold.

    Args:
        run: a composition.
        epsilons: where.
        certified: include the certified answer (slower; needs python-flint).
    """
    made = [
        *(c for e in epsilons for c in _methods(run, e, certified)),
        *(c for e in epsilons for c in _statements(run, e)),
        *(c for pair in pairwise(sorted(epsilons)) for c in _falling(run, *pair)),
        *comparisons(run, epsilons, _ask),
    ]
    return Report(len(made), tuple(one for one in made if not one.fine))


def _ask(run: Run, epsilon: float, direction: str = "both", **how: Any) -> Interval | None:
    """Log delta, None where nothing is proved."""
    try:
        bound = run.log_delta(epsilon, direction=direction, **how)
    except MechcError:
        return None
    lower, upper = float(bound.lower), float(bound.upper)
    return None if math.isnan(lower) and math.isnan(upper) else (lower, upper)


def _at_most(
    statement: str, small: Interval | None, large: Interval | None, where: str, words: str = ""
) -> Iterator[Comparison]:
    """One interval does not lie above another."""
    if small is not None and large is not None:
        found = f"{words}log delta >= {small[0]}, and <= {large[1]}"
        yield Comparison(statement, not small[0] > large[1], found, where)


def _methods(run: Run, epsilon: float, certified: bool) -> Iterator[Comparison]:
    """All bounded methods, and the certified answer if wanted, share a value."""
    for direction in ("remove", "add", "both"):
        names = ("auto", *(m.name for m in methods()))
        known = {name: _ask(run, epsilon, direction, method=name) for name in names}
        if certified:
            known["certified"] = _ask(run, epsilon, direction, certified=True)
        where = f"{run!r}; epsilon={epsilon}, direction={direction}"
        for one, other in product(known, known):
            words = f"{one} and {other}: "
            yield from _at_most("bounds overlap", known[one], known[other], where, words)


def _falling(run: Run, low: float, high: float) -> Iterator[Comparison]:
    where = f"{run!r}; epsilon={low} and {high}"
    yield from _at_most("delta falls with epsilon", _ask(run, high), _ask(run, low), where)


def _statements(run: Run, epsilon: float) -> Iterator[Comparison]:
    """Delta rises with the steps, has no order of parts, and is the maximum of the directions."""
    where = f"{run!r}; epsilon={epsilon}"
    for name in ("auto", "renyi"):
        once, twice = (_ask(each, epsilon, method=name) for each in (run, 2 * run))
        yield from _at_most("delta rises with the number of steps", once, twice, where, name + ": ")
    first = _ask(run, epsilon)
    same = [_sum(n * event for event, n in reversed(run.parts))]
    if run.count <= LOOP:
        same.append(_sum(1 * event for event, count in run.parts for _ in range(count)))
    for found in (_ask(other, epsilon) for other in same):
        statement = "order and counting are irrelevant"
        if first is None or found is None:
            yield Comparison(statement, first is found, f"{first} and {found}", where)
        yield from _at_most(statement, first, found, where)
        yield from _at_most(statement, found, first, where)
    remove, add = (_ask(run, epsilon, direction) for direction in ("remove", "add"))
    if remove and add:
        both = max(remove[0], add[0]), max(remove[1], add[1])
        yield from _at_most("both is the maximum of the directions", first, both, where)
        yield from _at_most("both is the maximum of the directions", both, first, where)


def _sum(parts: Iterable[Run]) -> Run:
    return reduce(add, parts)
