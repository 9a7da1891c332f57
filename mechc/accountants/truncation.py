"""What a contour of `sweep` leaves out: the integral of sup |phi| / y^2 beyond its nodes, bounded.

The proof of decay (`characteristic`) looks as far as its nodes resolve phi; where what lies beyond
decides, it is repeated with nodes for three times that frequency.
"""

from __future__ import annotations

import math

from mechc.accountants.characteristic import Law, Tilted
from mechc.accountants.trapezoid import Contour
from mechc.loss.measure import Step

FARTHER = 5  # times the proof may look three times as far ...
LARGEST = 20_000  # ... with so many nodes at most
BEYOND, BETTER = 0.3, 0.5  # share of a bound that lies beyond, and gain, for another try


def resolved(steps: tuple[Step, ...], c: float, frequency: float, floor: float) -> Law:
    """Return the law with nodes that resolve a frequency at Re z = c, but a share of a step."""
    floor /= sum(s.count for s in steps)
    return Law.of(
        tuple(Step(s.loss.covering(-1.0, 0.0, c, frequency, floor), s.count) for s in steps)
    )


def integral(contour: Contour, steps: tuple[Step, ...], wanted: float) -> float:
    """Bound the integral; `wanted` is small enough."""
    count = float(sum(s.count for s in steps))
    start = contour.h * contour.re.size
    goal = min(math.log(wanted * start), -1.0)
    reach = max(2.0 * start, 1.5 * math.sqrt(count / contour.variance))
    best = math.inf
    for _ in range(FARTHER):
        far = Tilted(resolved(steps, contour.c, reach, 1e-3), contour.c, 1e-3 / count)
        bound, beyond = far.decay(start, reach, math.inf, goal)
        helps = beyond > BEYOND * bound and bound < BETTER * best and far.weight.size < LARGEST
        best = min(best, bound)
        if best < wanted or not helps:
            break
        reach *= 3.0
    return best
