"""Reference values for the self-check of an emitted kernel, from the declared formulas.

Input: a calculus. Output: numbers to 50 digits from the terms of the pair, at points that cover
every region and its tails, for two irrational parameter vectors. Nothing here uses the derived
loss, the derived inverse or the passes: the self-check compares independent roads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from mpmath import mp

from mechc.calculus.types import Calculus, CalculusCase, Region
from mechc.kernel.lower.samples import DIGITS, Sample, vectors
from mechc.kernel.parts import Check

VECTORS = 2


def checks(calculus: Calculus) -> tuple[Check, ...]:
    """Reference values for log_p, log_q, loss and the inverses.

    Args:
        calculus: of one ordered pair.

    Returns:
        At least five points a function where the mechanism has that many; infinite values are
        left out.
    """
    found: list[Check] = []
    with mp.workdps(DIGITS):
        first = 0
        for case in calculus.cases:
            for theta in vectors(calculus, case, VECTORS):
                sample = Sample(calculus, theta)
                found += _at_atoms(sample, case)
                for index, region in enumerate(case.regions, start=first):
                    found += _in_region(sample, index, region)
            first += len(case.regions)
    return tuple(found)


def _in_region(sample: Sample, index: int, region: Region) -> Iterator[Check]:
    for x in sample.points(region):
        p, q = sample.log(region.p, x), sample.log(region.q, x)
        yield from _finite(sample, x, log_p=p, log_q=q, loss=p - q)
        if region.kind in ("increasing", "decreasing"):
            root = sample.solved(region, float(p - q), x)
            if root is not None:
                yield _check(sample, f"loss_inverse_{index}", float(p - q), root)


def _at_atoms(sample: Sample, case: CalculusCase) -> Iterator[Check]:
    """The masses of a finite set; atoms beside a density are not values of log_p."""
    if sample.calculus.pair.measure != "finite":
        return
    for atom in case.atoms:
        x = sample.value(atom.x)
        p, q = sample.log(atom.p, x), sample.log(atom.q, x)
        yield from _finite(sample, x, log_p=p, log_q=q, loss=p - q)


def _finite(sample: Sample, x: Any, **values: Any) -> Iterator[Check]:
    for name, value in values.items():
        if math.isfinite(float(value)):
            yield _check(sample, name, x, value)


def _check(sample: Sample, function: str, argument: Any, value: Any) -> Check:
    theta = tuple(float(v) for v in sample.theta.values())
    return Check(function, float(argument), theta, float(value))
