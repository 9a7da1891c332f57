"""The best of a random number of runs: what it is known to reveal, as a Rényi curve.

A run is repeated K times and its best output published, in any fixed order of the outputs; K is
drawn apart from the data. No pair that dominates this is known. Papernot and Steinke (2022,
Theorems 2 and 6) bound its Rényi divergences by those of one run, D, and by its profile:

    order L, K truncated negative binomial of shape s:
        D_L + (1 + s) min_M ((1 - 1 / M) D_M + log(1 / g) / M) + log(E K) / (L - 1),   M >= 1,
    order L, K Poisson:   D_L + E K delta(log(1 + 1 / (L - 1))) + log(E K) / (L - 1),

the larger directions throughout; g is the parameter with the mean E K = s (1 - g) / g (1 - g^s)^-1.
As divergences grow with the order, what bounds one of a larger order is a bound too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from mechc.adjacency import Claim
from mechc.composition.description import described
from mechc.composition.events import Composition, Event, compose
from mechc.composition.inputs import as_number
from mechc.composition.renyi_curves import FARTHEST, CurveEvent
from mechc.composition.tables import Table, named
from mechc.errors import NumericError, UnsupportedError, public
from mechc.numeric.roots import lowest

LOGS = np.arange(-6.0, 14.5, 0.5)  # of tilts at which the least bounds are looked for
CLOSE = 1e-6  # in logs of tilts, of the least
HALVINGS = 200  # of an interval with g in it
TINY = 1e-12  # share of the mean that rounding may make


@public
def repeat_and_select(run: Any, *, mean: float, shape: float) -> CurveEvent:
    """Return the event that the best of a random number of repetitions of a run is published.

    Only upper bounds on delta and epsilon follow (Papernot, Steinke 2022, Theorems 2 and 6).

    Args:
        run: what is repeated, an event or a composition.
        mean: the expected number of repetitions, at least 1.
        shape: of the truncated negative binomial law of their number: 0 the logarithmic, 1 the
            geometric law, inf the Poisson law, which allows none at all.

    Raises:
        DeclarationError: mean or shape is not such a number.
    """
    parts = compose(run).parts
    return selection([event for event, _ in parts], [n for _, n in parts], mean, shape)


@described
def selection(events: Sequence[Event], counts: Any, mean: Any, shape: Any) -> CurveEvent:
    """The same of events so often each, as run files hold it."""
    name = "repeat_and_select"
    mean = as_number(f"{name}: mean", mean, "1 <= mean < inf", 1.0, np.finfo(float).max)
    shape = as_number(f"{name}: shape", shape, "0 <= shape <= inf", 0.0, math.inf)
    run = compose(*(int(n) * event for event, n in zip(events, np.atleast_1d(counts), strict=True)))
    theorem = 6 if math.isinf(shape) else 2
    claim = Claim("declared", None, run.adjacency, (), (
        f"one run: {run.claim.heading}", *run.claim.assumptions,
        f"the bound of Papernot and Steinke (2022), Theorem {theorem}, for a number of runs drawn "
        "apart from the data",
    ), run.claim.group)  # fmt: skip
    label = f"{name}({run}, mean={mean:g}, shape={shape:g})"
    table = Table(label, True, claim, named(f"{label} {claim} {mean!r} {shape!r}"))
    defaulted = frozenset(word for event, _ in run.parts for word in event.known_defaults)
    return CurveEvent(table, _curve(run, mean, shape), FARTHEST, defaulted)


def _curve(run: Composition, mean: float, shape: float) -> Callable[[float], float]:
    """K(t) = t D_(1 + t) of the best output, at most."""

    @lru_cache(maxsize=4096)
    def one(tilt: float) -> float:
        """K(t) of one run."""
        try:
            found = tilt * float(run.renyi(1.0 + tilt).upper)
        except UnsupportedError as why:
            raise NumericError(f"repeat_and_select: {why}") from why
        if not found < math.inf:
            raise NumericError(f"repeat_and_select: no divergence of order {1.0 + tilt:g} is known")
        return found

    if math.isinf(shape):
        profile = lru_cache(maxsize=4096)(lambda epsilon: mean * float(run.delta(epsilon).upper))
    else:
        log_g = -math.log(_parameter(mean, shape))
        least = _least(lambda tilt: (one(tilt) + log_g) / (1.0 + tilt))[1]
        with suppress(UnsupportedError):
            least = min(least, float(run.renyi(math.inf).upper))
        constant = (1.0 + shape) * min(least, log_g)  # of order 1

    def more(tilt: float) -> float:
        """What the number of runs adds, beside its mean."""
        return profile(math.log1p(1.0 / tilt)) if math.isinf(shape) else constant

    def divergence(tilt: float) -> float:
        return (one(tilt) + math.log(mean)) / tilt + more(tilt)

    turn, bound = _least(divergence)
    if not bound < math.inf:
        raise UnsupportedError(f"repeat_and_select: no Rényi divergence of {run} is known")

    def bounded(tilt: float) -> float:
        best = min(bound, divergence(tilt)) if tilt <= turn else divergence(tilt)
        return tilt * best * (1.0 + TINY)

    return bounded


def _least(function: Callable[[float], float]) -> tuple[float, float]:
    """A tilt at which a function that falls and rises is about least, and its value there."""

    def at(log: float) -> float:
        try:
            return function(math.exp(log))
        except NumericError:
            return math.inf

    values = [at(log) for log in LOGS.tolist()]
    best = int(np.argmin(values))
    ends = LOGS[max(best - 1, 0)], LOGS[min(best + 1, LOGS.size - 1)]
    log, found = lowest(at, *map(float, ends), xtol=CLOSE)
    if not found <= values[best]:
        log, found = float(LOGS[best]), values[best]
    return math.exp(log), found


def _parameter(mean: float, shape: float) -> float:
    """A bound from below on g of the law with this mean."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        g = 0.5 * (low + high)
        if not low < g < high:
            break
        # E K = ((1 - g) / g) s / (1 - g^s), for s = 0 its limit
        log = math.log(g)
        share = -1.0 / log if shape == 0.0 else -shape / math.expm1(shape * log)
        low, high = (g, high) if (1.0 - g) / g * share >= mean * (1.0 + TINY) else (low, g)
    return low if mean > 1.0 else 1.0
