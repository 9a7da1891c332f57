"""Inverses of the loss of a kernel against the ball oracle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from mechc.kernel.protocol import DECREASING, INCREASING
from mechc.verify.ball import ULP, Oracle
from mechc.verify.checks import NEAR_ENDS, NEAR_ZERO, listed, tolerance
from mechc.verify.result import Check

STRAY = 1e-9  # relative error of an inverse after which it is looked at closely
INSIDE = 2.0**-30  # share of a branch next to an end where its slope is taken


def inverses(kernel: Any, oracle: Oracle, xs: Sequence[float], check: Check) -> None:
    """loss(inverse(l)) = l on every monotone branch that has a closed inverse."""
    theta = np.array(oracle.theta)
    check.tolerance = tolerance(oracle.declaration, check)
    for lo, hi, kind, left, right, index in np.asarray(kernel.branches(theta)):
        if kind not in (INCREASING, DECREASING):
            continue
        lowest, highest = min(left, right), max(left, right)
        targets = [float(oracle.loss(x).mid()) for x in xs if lo < x < hi]
        targets = [t for t in targets if lowest < t < highest and math.isfinite(t)]
        if targets and _is_bracketed(kernel, int(index), targets[0], theta):
            check.note(f"branch {int(index)}: no closed inverse, bracketed at run time")
            continue
        branch = Branch(lo, hi, left, right, int(index))
        for target in (*targets, *_doubtful(kernel, branch, targets, theta)):
            _inverse(kernel, oracle, branch, target, check)


class Branch(NamedTuple):
    """A monotone branch: its ends, the limits of the loss there, the code of its inverse."""

    lo: float
    hi: float
    left: float
    right: float
    code: int


def _inverse(kernel: Any, oracle: Oracle, branch: Branch, target: float, check: Check) -> None:
    """One loss: the inverse lies on the branch and has it."""
    theta = np.array(oracle.theta)
    lo, hi, left, right, _ = branch
    found = float(_solved(kernel, branch.code, [target], theta)[0])
    if math.isinf(found) and math.isinf(hi if found > 0 else lo):
        # past the last loss that a double can tell from the limit
        back = arb(right if found > 0 else left)
        error = float((abs(back - target) / max(abs(target), NEAR_ZERO)).upper())
    elif not (_between(found, lo, hi) or _is_beside(oracle, found, branch)):
        error = math.inf
    else:
        error = _round_trip(oracle, found, target, branch, check.tolerance)
        error = listed(oracle, error, found, target, check)
    if error > check.tolerance and _is_next_to(oracle, found, target, branch):
        check.note("the loss is steep: right to a few units in the last place of x")
        return
    guarded = _critical(target, min(left, right), max(left, right)) and error > check.tolerance
    if guarded and not _accepted(kernel, found, target, theta):
        check.note("near loss 0 and the ends: rejected by the run-time round trip, "
                   "bracketed instead")  # fmt: skip
        return
    check.record(error, loss=target, branch=branch.code, theta=oracle.theta, found=found)


def _solved(kernel: Any, index: int, losses: Sequence[float], theta: Any) -> Any:
    out = np.empty(len(losses))
    kernel.loss_inverse_many(index, np.array(losses), theta, out)
    return out


def _is_bracketed(kernel: Any, index: int, target: float, theta: Any) -> bool:
    """Whether a branch leaves its inverse to the run time."""
    absent = not hasattr(kernel, f"loss_inverse_{index}")
    return absent and math.isnan(_solved(kernel, index, [target], theta)[0])


def _doubtful(kernel: Any, branch: Branch, targets: Sequence[float], theta: Any) -> list[float]:
    """Losses between tested ones whose inverse does not give them back in the kernel itself.

    Root finders go astray at few losses only: many are looked at, in double precision.
    """
    shares = np.array([0.11, 0.38, 0.64, 0.87])[:, None]
    known = np.unique(targets)
    losses = (known[:-1] + shares * np.diff(known)).ravel()
    if not losses.size:
        return []
    back = np.empty(losses.size)
    with np.errstate(all="ignore"):
        kernel.loss_many(_solved(kernel, branch.code, losses, theta), theta, back)
        astray = ~(np.abs(back - losses) <= STRAY * np.maximum(np.abs(losses), NEAR_ZERO))
    return [float(v) for v in losses[astray]]


def _critical(target: float, lowest: float, highest: float) -> bool:
    """Whether a loss is close to zero or to an end of its range, where formulas may lose digits."""
    reach = min(highest - lowest, 1.0)
    ends = (e for e in (lowest, highest) if math.isfinite(e))
    return abs(target) <= 1e-3 * reach or any(abs(target - e) <= 1e-6 * reach for e in ends)


def _is_next_to(oracle: Oracle, found: float, target: float, branch: Branch) -> bool:
    """Whether the loss takes the value `target` within a few units in the last place of a point."""
    lo, hi, left, right, _ = branch
    if not (math.isfinite(found) and _between(found, lo, hi)):
        return False
    reach = NEAR_ENDS * math.ulp(found)
    # what is rounded is the place relative to the ends as well, and they as the parameters are
    reach = max(reach, *(math.ulp(e) for e in (lo, hi) if abs(found - e) < abs(e)), 0.0)
    for end in (e for e in (lo, hi) if math.isfinite(e)):
        moved = NEAR_ENDS * oracle.end_rounding(end)
        reach = max(reach, moved if abs(found - end) <= moved else 0.0)
    below = arb(left) if found - reach <= lo else oracle.loss(found - reach)
    above = arb(right) if found + reach >= hi else oracle.loss(found + reach)
    return bool(below <= target <= above or below >= target >= above)


def _accepted(kernel: Any, found: float, target: float, theta: Any) -> bool:
    """Whether the numeric side would use this inverse: it checks every one by the kernel's loss."""
    if not math.isfinite(found):
        return False
    back = float(kernel.loss(found, theta))
    return abs(back - target) <= 1e-12 * (abs(target) + abs(back))


def _between(x: float, lo: float, hi: float) -> bool:
    """Whether x lies in the branch, up to the rounding of its ends."""
    return lo - 4 * math.ulp(max(abs(lo), abs(x))) <= x <= hi + 4 * math.ulp(max(abs(hi), abs(x)))


def _is_beside(oracle: Oracle, found: float, branch: Branch) -> bool:
    """Whether a place beyond an end is no further than rounded inputs move it there."""
    lo, hi = branch.lo, branch.hi
    end, inward = (lo, 1.0) if found < lo else (hi, -1.0)
    if not (math.isfinite(found) and math.isfinite(lo) and math.isfinite(hi)):
        return False
    near, far = (end + inward * (hi - lo) * share for share in (INSIDE, 2.0 * INSIDE))
    rise = abs(oracle.loss(far) - oracle.loss(near))
    change = ULP * oracle.sensitivity(Oracle.raw_loss, near)
    return bool(abs(found - end) * rise <= NEAR_ENDS * change * abs(far - near))


def _round_trip(
    oracle: Oracle, found: float, target: float, branch: Branch, enough: float
) -> float:
    if not math.isfinite(found):
        return math.inf
    back = oracle.loss(found)
    if back.is_nan() and found in (branch.lo, branch.hi):
        back = arb(branch.left if found == branch.lo else branch.right)  # both densities vanish
    if not back.is_finite():
        return math.inf
    distance = float(abs(back - target).upper())
    if distance <= enough * abs(target):
        return distance / abs(target) if target else 0.0
    if distance <= enough * NEAR_ZERO:
        return distance / NEAR_ZERO
    return distance / max(abs(target), NEAR_ZERO, oracle.sensitivity(Oracle.raw_loss, found))
