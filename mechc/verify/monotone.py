"""Whether delta moves with each parameter the way it has to.

Two statements, neither about any mechanism in particular:

* what dominates composes: if one step at one value of a parameter has at every epsilon at least the
  delta of a step at another value, so have any number of steps (Zhu, Dong, Wang 2022, Theorem 10).
  Which value dominates is read off the answers for one step, on a grid of epsilons; parameters for
  which neither does are passed over;
* a sensitivity in a pair that is claimed to dominate, and a sampling rate, only ever raise delta:
  the claim is about all queries that move by *at most* the sensitivity, and a sampled pair
  ((1 - r) Q + r P, Q) is that of a smaller rate processed less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from mechc import binding
from mechc.composition import Composition, Event
from mechc.errors import MechcError
from mechc.kernel.protocol import ParameterInfo
from mechc.mechanism import RATE, Mechanism

Interval = tuple[float, float]
Ask = Callable[[Composition, float, str], Interval | None]

GRID = (-20.0, -5.0, -2.0, -1.0, -0.5, -0.2, -0.05, 0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0)
SENSITIVITY = "sensitivity"
FACTOR = 1.5  # between neighbouring values of a parameter


class Comparison(NamedTuple):
    """One statement about two values of a parameter: whether it holds, and how to see it."""

    statement: str
    fine: bool
    found: str
    reproduction: str


def comparisons(run: Composition, epsilons: Sequence[float], ask: Ask) -> Iterator[Comparison]:
    """Yield what was compared: every parameter of every event, at two neighbouring values.

    Args:
        run: a composition; each of its events is looked at by itself.
        epsilons: where the composition of each event is asked.
        ask: log delta of a composition at an epsilon in a direction, None where nothing is proved.
    """
    for event, count in run.parts:
        if not isinstance(event.mechanism, Mechanism):
            continue  # an imported law has no parameters
        for info in event.mechanism.parameters:
            for other in _neighbours(event, info):
                for direction in ("remove", "add"):
                    yield from _compared(event, other, info, count, epsilons, direction, ask)


def _neighbours(event: Event, info: ParameterInfo) -> Iterator[Event]:
    """The event with one parameter a little larger; nothing if its domain ends there."""
    value = event.parameters[info.name]
    larger = max(math.floor(value * FACTOR), value + 1.0) if info.integer else value * FACTOR
    values = {**event.parameters, info.name: min(larger, info.hi)}
    try:
        theta = binding.bind(event.mechanism.name, event.mechanism.parameters, values)
        other = Event(event.mechanism, theta)
        other.loss()  # some values are refused only together with others
    except MechcError:
        return
    if theta != event.theta:
        yield other


def _compared(
    event: Event, other: Event, info: ParameterInfo, count: int, epsilons: Sequence[float],
    direction: str, ask: Ask,
) -> Iterator[Comparison]:  # fmt: skip
    """Compare a value of a parameter with a larger one, in one direction."""
    if _must_rise(event, info):
        order: tuple[Event, Event] | None = (event, other)
        why = f"delta rises with {info.name}"
        yield from _below(event, other, 1, GRID, direction, why, ask)
    else:
        order = _dominated_first(event, other, direction, ask)
        why = f"what dominates composes ({info.name})"
    if order is not None and count > 1:
        yield from _below(*order, count, epsilons, direction, why, ask)


def _must_rise(event: Event, info: ParameterInfo) -> bool:
    claimed = event.claim.status == "proven"
    return info.name.startswith(RATE) or (info.name == SENSITIVITY and claimed)


def _dominated_first(
    event: Event, other: Event, direction: str, ask: Ask
) -> tuple[Event, Event] | None:
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
    smaller: Event, larger: Event, count: int, epsilons: Sequence[float], direction: str,
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
