"""Differential checks of a composition: what must agree, whatever the method.

Methods must agree with each other, directions with their maximum, and a sensitivity in a pair that
is claimed to dominate, and a sampling rate, only ever raise delta: the claim is about all queries
that move by *at most* the sensitivity, and a sampled pair ((1 - r) Q + r P, Q) is that of a smaller
rate processed less.

Every violation comes with the smallest question that shows it. An answer without a theorem (nan
sides) and a refusal prove nothing and are passed over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, NamedTuple

from mechc.accountants.registry import methods
from mechc.errors import MechcError
from mechc.protocol import ParameterInfo, Run, Use

Interval = tuple[float, float]
Ask = Callable[[Run, float, str], Interval | None]

# epsilons at which one step is asked
GRID = (-20.0, -5.0, -2.0, -1.0, -0.5, -0.2, -0.05, 0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0)
FACTOR = 1.5  # between neighbouring values of a parameter


class Comparison(NamedTuple):
    """One statement about two answers: whether it holds, and how to see it."""

    statement: str
    fine: bool
    found: str
    reproduction: str


def comparisons(run: Run, epsilons: Sequence[float], ask: Ask) -> Iterator[Comparison]:
    """Yield what was compared: every parameter that raises delta, at two neighbouring values.

    `ask` answers with bounds on log delta, or None where nothing is proved.
    """
    for event, count in run.parts:
        for info in event.mechanism.parameters:
            for other in _larger(event, info):
                rows = [(1, e) for e in GRID] + [(count, e) for e in epsilons if count > 1]
                for direction, (n, epsilon) in product(("remove", "add"), rows):
                    where = f"{n} * {event} and {n} * {other}; epsilon={epsilon}, "
                    small, large = (ask(n * e, epsilon, direction) for e in (event, other))
                    yield from _at_most(f"delta rises with {info.name}", small, large,
                                        f"{where}direction={direction}")  # fmt: skip


def _larger(event: Use, info: ParameterInfo) -> Iterator[Use]:
    """The event with one parameter larger, if that raises delta and its domain goes on."""
    claimed = info.name == "sensitivity" and event.claim.status == "proven"
    if not claimed and info.name not in event.mechanism.rates:
        return
    value = event.parameters[info.name]
    larger = max(math.floor(value * FACTOR), value + 1.0) if info.integer else value * FACTOR
    try:
        other = event.at(**{info.name: min(larger, info.hi)})
        other.loss()  # some values are refused only together with others
    except MechcError:
        return
    if other.theta != event.theta:
        yield other


EPSILONS = (0.1, 0.5, 1.0, 3.0)  # at which runs are compared
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
    """Compare all methods with each other and with what must hold; certified answers, if asked."""
    made = [*comparisons(run, epsilons, _ask)]
    for epsilon in epsilons:
        made += [*_methods(run, epsilon, certified), *_statements(run, epsilon)]
    for low, high in pairwise(sorted(epsilons)):
        where = f"{run!r}; epsilon={low} and {high}"
        made += _at_most("delta falls with epsilon", _ask(run, high), _ask(run, low), where)
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


def _statements(run: Run, epsilon: float) -> Iterator[Comparison]:
    """Delta rises with the steps, has no order of parts, and is the maximum of the directions."""
    where = f"{run!r}; epsilon={epsilon}"
    for name in ("auto", "renyi"):
        once, twice = (_ask(each, epsilon, method=name) for each in (run, 2 * run))
        yield from _at_most("delta rises with the number of steps", once, twice, where, name + ": ")
    first, (remove, add) = _ask(run, epsilon), (_ask(run, epsilon, d) for d in ("remove", "add"))
    same = [(n * event for event, n in reversed(run.parts))]
    if run.count <= LOOP:
        same.append(1 * event for event, count in run.parts for _ in range(count))
    statement = "order and counting are irrelevant"
    for found in (_ask(sum(parts, 0 * run), epsilon) for parts in same):
        if first is None or found is None:
            yield Comparison(statement, first is found, f"{first} and {found}", where)
        yield from _equal(statement, first, found, where)
    if remove and add:
        both = max(remove[0], add[0]), max(remove[1], add[1])
        yield from _equal("both is the maximum of the directions", first, both, where)


def _equal(
    statement: str, one: Interval | None, other: Interval | None, where: str
) -> Iterator[Comparison]:
    yield from _at_most(statement, one, other, where)
    yield from _at_most(statement, other, one, where)
