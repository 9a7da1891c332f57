"""Where losses of a bound kernel are moderate: extreme ones revealed, small ones counted.

`within` takes a bound B and tells outputs with |L| > B apart: their mass under P stands at infinite
loss, that under Q at minus infinite loss. So does what is so close to an end that doubles do not
resolve it, however small the loss there (`early`). The new pair dominates the old one (T9: two
outputs are folded into one), and every tilt of its loss has a finite moment.

`log_shares` bounds P(L <= t), an integral of p alone over outputs that the branches tell, and the
rest. Where P and Q are millions of standard deviations apart these are the
questions that matter, and the only ones with an answer, whether or not nodes settle.
"""

from __future__ import annotations

import math
from copy import copy

import numpy as np

from mechc import protocol
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.atoms import LossesFrom, loss_rounding
from mechc.loss.bound_kernel import KernelSource
from mechc.loss.branches import Branch, above, between_modes, branches_of, extrema, inverse
from mechc.loss.infinite_mass import LogMass, rounded, total
from mechc.loss.moments import log_total
from mechc.loss.quadrature import laid
from mechc.numeric.allowance import spend
from mechc.numeric.rounding import MASS_TOLERANCE
from mechc.protocol import Floats

LEAST, CLOSE = 1e-300, 2.0**-42  # distance from an end, and its share of the end, that is resolved


def within(source: KernelSource, bound: float) -> KernelSource:
    """Return the source with losses beyond +-bound revealed.

    Args:
        source: a kernel at its parameters.
        bound: positive.

    Raises:
        UnsupportedError: the end of a branch on which the loss grows cannot be told.
        NumericError: a mass beyond the bound was not found.
    """
    if not source.continuous:
        return _atoms_within(source, bound)
    lo, hi = source.strip
    unsplit = source.rows[:, 2] == protocol.UNSPLIT
    if unsplit.any() and np.isfinite(source.rows[unsplit, 3:5]).all() and lo >= -1.0 and hi <= 0.0:
        raise UnsupportedError(
            f"{source.label}: the loss has no exponential moments on one side, and where it is "
            "large is not known in closed form; truncate() bounds it"
        )
    rows, beyond, early = source.rows.copy(), [], []
    for row in rows:
        for side in (0, 1):
            end, (outer, limit) = float(row[side]), _outermost(source, row, side)
            if abs(limit) > bound:
                part = _monotone_end(source, row, side, outer, limit)
                goal = np.array([math.copysign(bound, limit)])
                cut = float(inverse(source, Branch.whole(part), goal)[0])
                if abs(cut - end) < (least := LEAST + CLOSE * abs(end)):
                    cut = end + math.copysign(least, row[1 - side] - end)
                    early.append((min(end, cut), max(end, cut)))
                beyond.append((min(end, cut), max(end, cut)))
                row[side], row[3 + side] = cut, math.copysign(bound, limit)
    rows = rows[rows[:, 0] < rows[:, 1]]
    if not rows.size:
        raise NumericError(f"{source.label}: all losses are beyond {bound:g}")
    other = copy(source)
    other.infinite = _with_masses(source, source.infinite, beyond)
    other.early = _with_masses(source, source.early, early)
    other.cut_to(rows, laid(source.kernel, [source.theta], [rows[:, :2]])[0])
    return other


def _atoms_within(source: KernelSource, bound: float) -> KernelSource:
    """The same of point masses; integers that no list holds may have any loss."""
    far = np.abs(source.atom_loss) > bound
    unlisted = [LogMass(source.log_unlisted(source.tilts, reverse)) for reverse in (False, True)]
    error = source.atom_error + source.nodes(-1.0, 0.0).tolerance
    logs = [log_total(source.atom_log_masses(reverse)[far]) for reverse in (False, True)]
    beyond = [LogMass(log, rounded(log).error + error) for log in logs]
    other = copy(source)
    p, q = source.infinite
    other.infinite = total([p, beyond[0], unlisted[0]]), total([q, beyond[1], unlisted[1]])
    p, q = source.early
    other.early = total([p, unlisted[0]]), total([q, unlisted[1]])
    other.keep_atoms(~far)
    return other


def _with_masses(
    source: KernelSource, masses: tuple[LogMass, LogMass], intervals: list[tuple[float, float]]
) -> tuple[LogMass, LogMass]:
    """Masses of P and Q and those on intervals."""
    p, q = (
        total([mass, *(source.mass_on(lo, hi, law) for lo, hi in intervals)])
        for mass, law in zip(masses, "pq", strict=True)
    )
    return p, q


def _outermost(source: KernelSource, row: Floats, side: int) -> tuple[float, float]:
    """An end of a branch and the loss there; where its limit is open, the last output with mass."""
    if not math.isnan(row[3 + side]):
        return float(row[side]), float(row[3 + side])
    x, loss = between_modes(source, row)
    if not x.size:
        raise NumericError(f"{source.label}: doubles do not hold its losses")
    at = -1 if side else 0
    return float(x[at]), float(loss[at])


def _monotone_end(
    source: KernelSource, row: Floats, side: int, outer: float, limit: float
) -> Floats:
    """The part of a branch, next to one of its ends, on which the loss runs off to infinity."""
    part = row.copy()
    part[side], part[3 + side] = outer, limit
    if row[2] != protocol.UNSPLIT:
        return part
    try:
        mine = [b for b in branches_of(source) if row[0] <= b.lo and b.hi <= row[1]]
    except NumericError:
        mine = []
    if mine:
        part[1 - side] = mine[-1].lo if side else mine[0].hi
    else:
        turns = extrema(source, *between_modes(source, row))
        part[1 - side] = (turns[-1] if side else turns[0]) if turns else row[1 - side]
    part[4 - side] = math.nan
    part[2] = 1.0 if (limit > 0) == bool(side) else -1.0
    return part


SMALLEST = -60.0  # no probability is claimed to be below exp of this
ROOM = 0.01  # share of the log by which rounding may move a small probability


def log_shares(source: KernelSource, threshold: float, reverse: bool) -> tuple[float, float]:
    """Return upper bounds on logs of P(L <= threshold) and P(L > threshold), 0 for not known.

    What may lie too close to an end for any double may have any loss.

    Args:
        source: a kernel bound to parameters.
        threshold: any real number.
        reverse: L and P are those of the reversed pair.
    """
    spend(2.0 * source.atom_loss.size)
    loss, masses = (-1.0 if reverse else 1.0) * source.atom_loss, source.atom_log_masses(reverse)
    infinite, early = source.infinite[reverse], source.early[reverse]
    slack = loss_rounding(loss, masses, LossesFrom.FORMULA, source.digits) + source.loss_error
    below = [SMALLEST, early.log + early.error, *masses[loss <= threshold + slack]]
    beyond = [SMALLEST, infinite.log + infinite.error, *masses[loss > threshold - slack]]
    found, off, unknown = [infinite.log, *masses], MASS_TOLERANCE, False
    try:
        missing = source.log_missing(reverse)
        if source.continuous:
            for side, least, way in (below, -threshold, not reverse), (beyond, threshold, reverse):
                for lo, hi in above(source, least, way)[0].tolist():
                    try:
                        mass = source.mass_on(lo, hi, "q" if reverse else "p")
                    except NumericError:  # too far out, perhaps
                        unknown = True
                        continue
                    side.append(mass.log)
                    found.append(mass.log)
                    off += math.exp(min(mass.log, 0.0)) * mass.error
            # an interval whose end is far from a narrow mode may hide it, wherever it is
            lost = 1.0 - math.fsum(math.exp(min(log, 0.0)) for log in (missing, *found))
            if lost < -off:
                return 0.0, 0.0
            if unknown or lost > off:
                missing = float(np.logaddexp(missing, math.log(max(lost, 0.0) + off)))
    except NumericError:
        return 0.0, 0.0
    totals = (float(np.logaddexp.reduce([missing, *logs])) for logs in (below, beyond))
    low, high = (0.0 if math.isnan(t) else min(0.0, t * (1.0 - ROOM) + 1e-9) for t in totals)
    return low, high
