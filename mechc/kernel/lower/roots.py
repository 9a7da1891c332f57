"""Which way the equation of a `BracketedRoot` crosses zero."""

from __future__ import annotations

from mpmath import mp, mpf

from mechc.calculus.evaluate import evaluate, typical_values
from mechc.calculus.types import Calculus
from mechc.calculus.words import BracketedRoot
from mechc.errors import InternalError
from mechc.kernel.lower.samples import DIGITS


def rises(root: BracketedRoot, calculus: Calculus) -> bool:
    """Whether the equation of a root goes from negative to positive there.

    Args:
        root: an equation that changes sign once.
        calculus: the direction is tried at a parameter vector of a case that uses the root.
    """
    for case in calculus.cases:
        ends = {end for region in case.regions for end in (region.lo, region.hi)}
        if not any(end.has(root) for end in ends):
            continue
        equation, bound, _, _ = root.args
        with mp.workdps(DIGITS):
            theta = next(typical_values(calculus.pair.parameters, case.condition))
            x = evaluate(root, theta)
            beyond = x + max(abs(x), mpf(1)) * mpf(10) ** (-DIGITS // 3)
            return bool(evaluate(equation, {**theta, bound: beyond}) > 0)
    raise InternalError(f"{calculus.pair.name}: {root} is the end of no region")
