"""Bounds on what transforms have beyond their frequencies, or on a whole half line.

Of one step, by the two arguments of `characteristic`, there for a composition: walking along y with
steps that keep sqrt g, g = 1 - |phi|^2, above a level proves the level, and far out the total
variation of the tilted density takes over. Every person composes the steps differently.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mechc.accountants.contours.characteristic import (
    PROVEN,
    ROUNDED,
    TILE,
    Tilted,
    log_variations,
    turned,
)
from mechc.accountants.contours.law import Law
from mechc.accountants.contours.trapezoid import Contour
from mechc.errors import NumericError
from mechc.loss.privacy_loss import Step, covering
from mechc.numeric.jit import compiled
from mechc.protocol import Floats

WALK = 60.0  # most evaluations over a distance as long as it is from zero
LOST_BETWEEN = 0.07  # share of sqrt g that may be lost between evaluations
SHOWN = math.sqrt(1.0 - (1.0 - LOST_BETWEEN) ** 2)  # the least |phi| that such steps can show


def log_sups(tilted: Tilted, frequencies: Floats) -> Floats:
    """Bound log sup |phi(y)| of a law of one step over y >= each of some frequencies.

    Args:
        tilted: the law.
        frequencies: decreasing; its nodes resolve phi up to the first.
    """
    spread, slack = float(tilted.spread[0]), float(tilted.slack[0])
    about = (tilted.centred, tilted.weight, spread, slack, *tilted.variations)
    out = np.empty(frequencies.size)
    _log_sups(*about, tilted.counts, frequencies, np.empty((5, TILE)), out)
    return out


@compiled(
    "void(float64[::1], float64[::1], float64, float64, float64[::1], float64[:,:,::1],"
    " float64[::1], float64[::1], float64[:,::1], float64[::1])",
    nogil=True,
)
def _log_sups(centred, weight, spread, slack, atoms, tables, counts, frequencies, work, out):  # type: ignore
    """See `log_sups`; `work` is that of `turned`."""
    at, found = work[0, :1], work[1, :1]
    log_variations(tables, atoms, counts, frequencies[:1], out[:1])
    worst = math.exp(out[0])
    out[0] = math.log(worst)
    for m in range(1, frequencies.size):
        y, end = frequencies[m], frequencies[m - 1]
        least = y / WALK
        while y < end:
            at[0] = y
            log_variations(tables, atoms, counts, at, found)
            far = math.exp(found[0])
            if far <= worst:
                break
            if far < SHOWN:  # and falls further on
                worst = far
                break
            real, imaginary = turned(centred, weight, y, work)
            g = 2.0 * real - real * real - imaginary * imaginary
            g -= slack + ROUNDED * y * spread
            root = math.sqrt(g) if g > 0.0 else 0.0
            width = max(LOST_BETWEEN * root / max(spread, 1e-300), least)
            low = root - spread * min(width, end - y)
            value = math.sqrt(max(1.0 - low * low, 0.0)) if low > 0.0 else 1.0
            worst = max(worst, min(value, far))
            y += width
        out[m] = math.log(worst)


SIGHT = 1.5  # standard deviations of a step, inverted: where its total variation takes over
FARTHEST_NODES = 64.0  # times that, up to which nodes go to where it has taken over indeed ...
BEYOND_ROOM = 1.05  # ... and somewhat farther
LIFTED = 0.3  # share of a bound that is due to what lies beyond, for nodes there to help
FARTHER, ROUNDS = 3.0, 6  # from one frequency to the next, and how many are tried
FLOOR = 1e-3  # share of the composition's mass that a panel need not resolve there
LARGEST_LAW = 50_000  # nodes beyond which no higher frequency is asked for


def truncation(steps: tuple[Step, ...], contour: Contour, wanted: float) -> float:
    """Return a bound on the integral of sup |phi| / y^2 beyond the last node of a contour.

    Where the nodes at hand do not show it, it looks up to where the variation of one step takes
    over, for the bulk of the mass, on nodes of its own.

    Args:
        steps: the composition, on any nodes.
        contour: with its tilt, and the law there.
        wanted: a bound below which a smaller one is worth nothing.
    """
    near, resolved, edge = contour.tilted, contour.reach, contour.payoff.edge
    start = contour.h * contour.nodes
    goal = min(math.log(wanted * start), -1.0)
    count = float(np.add.reduce(near.counts))
    seen_to = contour.farther * resolved
    lost = near.unresolved(seen_to) if contour.farther > 1.0 else 0.0
    best, behind = near.decay(start, seen_to, edge, goal, lost)
    if best < wanted or not behind > LIFTED * best:
        return best
    # what lies beyond the frequencies of these nodes lifts their bound by more than what is wanted
    variance = float(near.counts @ near.spread**2)
    reach = max(2.0 * start, SIGHT * math.sqrt(count / max(variance, 1e-300)))
    levelled = BEYOND_ROOM * near.levelled(goal)
    reach = max(levelled if levelled < FARTHEST_NODES * reach else reach, BEYOND_ROOM * resolved)
    floor = FLOOR / count

    def seen(reach: float) -> Tilted:
        far = Tilted(far_law(near.c, reach, floor, steps), near.c, floor)
        if count > PROVEN:
            far.variations = near.variations  # which derivatives on other panels are not
        far.slack += 8.0 * far.unresolved(reach)
        return far

    return by_farther_nodes(seen, reach, edge, start, goal, best, wanted)


def by_farther_nodes(
    seen: Callable[[float], Tilted], reach: float, edge: float, start: float, goal: float,
    best: float = math.inf, wanted: float = 0.0,
) -> float:  # fmt: skip
    """Return the least such bound by laws that see as far as `reach`, and farther.

    `goal` is the log of |phi| that is small enough, `best` a bound that is known.
    """
    for _ in range(ROUNDS):
        try:
            far = seen(reach)
        except NumericError:
            break
        bound, behind = far.decay(start, reach, edge, goal)
        helps = behind > LIFTED * bound and bound < 0.5 * best
        best = min(best, bound)
        if best < wanted or not helps or far.nodes > LARGEST_LAW:
            break
        reach *= FARTHER
    return best


def far_law(c: float, reach: float, floor: float, steps: tuple[Step, ...]) -> Law:
    """Return steps with nodes for high frequencies, which nobody keeps."""
    laws, counts = zip(*steps, strict=True)
    return Law(tuple(map(Step, covering(laws, -1.0, c, c, [(reach, floor)]), counts)))
