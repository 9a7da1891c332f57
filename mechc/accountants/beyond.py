"""What the frequencies beyond the last node may add, bounded by the steps that fade soonest.

|phi| of a composition is a product of factors that are at most 1, so that a few of them may prove
that it is small. Of many distinct steps those with the largest variances are asked first: to
resolve the others at high frequencies costs as much, and they prove little.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.accountants.characteristic import Law, Tilted
from mechc.accountants.covered import SEVERAL
from mechc.accountants.trapezoid import Contour
from mechc.errors import NumericError
from mechc.loss.measure import Step

SHARES = (0.8, 0.95)  # of the variance, that some of many distinct steps have
SIGHT = 1.5  # standard deviations of a step, inverted: where its total variation takes over
FARTHEST = 64.0  # times that, up to which nodes go to where it has taken over indeed ...
ROOM = 1.05  # ... and somewhat farther
FARTHER, ROUNDS = 3.0, 6  # from one frequency to the next, and how many are tried
FLOOR = 1e-3  # share of the composition's mass that need not be resolved
LARGEST = 50_000  # nodes beyond which no higher frequency is asked for


def decay(
    steps: tuple[Step, ...], contour: Contour, edge: float, start: float, wanted: float
) -> float:
    """Return a bound on the integral of sup |phi| / y^2 beyond `start`.

    Args:
        steps: the composition, on the nodes of the contour.
        contour: for its tilt, and the law there.
        edge: end of a periodic integrand's half period, or infinity.
        start: the last frequency that is evaluated.
        wanted: a bound below which a smaller one is worth nothing.
    """
    best, goal = math.inf, math.log(wanted * start)
    for share in SHARES if len(steps) >= SEVERAL else ():
        some = _soonest(steps, contour, share)
        near = Tilted(Law.of(some), contour.c)
        if float(near.log_phi(start, 1, 2)[0][0]) > goal:
            continue  # they have not faded themselves
        best = min(best, _decay(some, near, contour.reach, edge, start, wanted))
        if best < wanted:
            return best
    return min(best, _decay(steps, contour.tilted, contour.reach, edge, start, wanted))


def _soonest(steps: tuple[Step, ...], contour: Contour, share: float) -> tuple[Step, ...]:
    """As few steps as carry a share of the tilted variance."""
    variance = contour.tilted.counts * contour.tilted.spread**2
    order = np.argsort(-variance)
    sums = np.cumsum(variance[order])
    enough = 1 + int(np.searchsorted(sums, share * sums[-1]))
    return tuple(steps[i] for i in sorted(order[:enough].tolist()))


def _decay(
    steps: tuple[Step, ...], near: Tilted, resolved: float, edge: float, start: float, wanted: float
) -> float:
    """As `decay`, by all steps given, with nodes that see far enough.

    That is up to where the total variation of one step takes over, for the bulk of the mass.
    `near` are the tilted steps on the nodes of the contour, which resolve frequencies up to
    `resolved`.
    """
    goal = min(math.log(wanted * start), -1.0)
    count = float(near.counts.sum())
    variance = float(near.counts @ near.spread**2)
    reach = max(2.0 * start, SIGHT * math.sqrt(count / max(variance, 1e-300)))
    levelled = ROOM * near.levelled(goal)
    reach = levelled if levelled < FARTHEST * reach else reach
    best, far = math.inf, near
    for _ in range(ROUNDS):
        if reach > resolved:
            try:
                far = Tilted(far_law(near.c, reach, FLOOR / count, steps), near.c, FLOOR / count)
            except NumericError:
                break
        bound, behind = far.decay(start, reach, edge, goal)
        helps = behind > 0.3 * bound and bound < 0.5 * best
        best = min(best, bound)
        if best < wanted or not helps or far.nodes > LARGEST:
            break
        reach *= FARTHER
    return best


def far_law(c: float, reach: float, floor: float, steps: tuple[Step, ...]) -> Law:
    """Return steps with nodes for high frequencies, which nobody keeps."""
    return Law.of(tuple(Step(s.loss.covering(-1.0, c, c, reach, floor), s.count) for s in steps))
