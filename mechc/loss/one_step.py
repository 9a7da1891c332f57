"""What branches tell of one step, without tilts: delta, shares, the part of moderate losses.

`log_hockey_stick` is log of E_P[(1 - exp(epsilon - L))_+] of the part with a density, one integral
over the outputs above epsilon. All terms are positive, so that deep tails keep their digits.

`within` takes a bound B and tells outputs with |L| > B apart: their mass under P stands at infinite
loss, that under Q at minus infinite loss. So does what is so close to an end that doubles do not
resolve it, however small the loss there (`early`). The new pair dominates the old one (T9: two
outputs are folded into one), and every tilt of its loss has a finite moment.

`log_shares` bounds P(L <= t), an integral of p alone, and the rest. Where P and Q are millions of
standard deviations apart these are the questions that matter, and the only ones with an answer,
whether or not nodes settle.
"""

from __future__ import annotations

import math
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc import protocol
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.atoms import LossesFrom, loss_rounding
from mechc.loss.bound_kernel import KernelSource
from mechc.loss.branches import (
    LOG_ULPS,
    Branch,
    above,
    between_modes,
    branches_of,
    extrema,
    inverse,
    losses_at,
    ulps_of_logs,
)
from mechc.loss.infinite_mass import LogMass, rounded, total
from mechc.loss.moments import log_total
from mechc.loss.quadrature import laid, of_mass
from mechc.loss.quadrature.rule import (
    ORDER,
    TOP,
    WEIGHTS,
    log_densities,
    losses_moved,
    misplaced,
    nodes,
    off_lines,
)
from mechc.loss.quadrature.unresolved import CUT
from mechc.numeric.allowance import spend
from mechc.numeric.rounding import EPS, MASS_TOLERANCE, MOST_LOG
from mechc.protocol import Floats

SINGULAR = 16.0  # times the highest coefficients: error where panels cannot be halved
GRAIN, NEXT_TO_0 = 1e-9, 1e-290  # width of such panels, as a share of their place, and there
ALIKE, PARTS = 3e-13, 3  # relative error up to which epsilons share nodes; parts of panels then
LEFT_OUT = 1e-16  # of both laws, ten times what quadrature aims for
SHARP = 1e-3  # relative error up to which roundings of losses are counted at the nodes
FEW_DOUBLES = 16.0  # ulps in a row that quadrature cannot halve
EVEN = 0.5  # nats by which a density may change in it; more is an end where it has a pole or zero
LEAST = 1e-300  # distance from an end that is resolved, besides the share `CUT` of the end
SMALLEST = -60.0  # no probability is claimed to be below exp of this
ROOM = 0.01  # share of the log by which rounding may move a small probability


def log_hockey_stick(source: KernelSource, epsilon: float, reverse: bool) -> tuple[float, float]:
    """Log of E_P[(1 - exp(eps - L))_+; L finite, continuous part] and a relative error bound.

    Next to a largest loss that is taken inside, where the loss is flat, its rounding decides which
    outputs are above epsilon at all: what is above epsilon less that rounding bounds it.
    """
    value, error, hidden = _log_hockey_stick(source, epsilon, reverse)
    if value > -math.inf and error < SHARP and not hidden:
        return value, error
    less = epsilon - _rounding_of_losses(source, epsilon, reverse)
    most, its_error, _ = _log_hockey_stick(source, less, reverse)
    if most == -math.inf:
        return value, error
    if most - value > 30.0:  # nothing is known from below
        return most, 1.0 + its_error
    return value, max(error, math.exp(max(most - value, 0.0)) * (1.0 + its_error) - 1.0)


def _rounding_of_losses(source: KernelSource, epsilon: float, reverse: bool) -> float:
    """What doubles may move losses by where they are next to epsilon: ulps of the logs there."""
    size = LOG_ULPS * EPS * (1.0 + abs(epsilon))
    rows, _ = above(source, epsilon - size, reverse)
    x = rows[np.isfinite(rows)]
    return float(ulps_of_logs(source, x, np.full(x.size, epsilon)).max(initial=size))


def log_hockey_sticks(
    source: KernelSource, epsilons: Floats, reverse: bool, alike: float = ALIKE
) -> list[tuple[float, float]]:
    """As `log_hockey_stick` for many epsilons, with nodes in common where these err by less.

    Panels that resolve the law are cut into parts, and where its losses are one of the epsilons.
    """
    panels = source.cover(-1.0, 0.0)
    rows = [above(source, epsilon, reverse) for epsilon in epsilons.tolist()]
    cuts = [found.ravel() for found, _ in rows]
    parts = panels.lo + np.arange(PARTS)[:, None] / PARTS * (panels.hi - panels.lo)
    edges = np.concatenate([parts.ravel(), panels.hi, *cuts])
    edges = np.unique(edges[np.isfinite(edges)])
    middle = 0.5 * edges[1:] + 0.5 * edges[:-1]
    inside = np.zeros(middle.size, np.bool_)
    for row in np.unique(panels.region).tolist():
        own = panels.region == row
        inside |= (panels.lo[own].min() < middle) & (middle < panels.hi[own].max())
    at, found = _Density.on(source, edges[:-1][inside], edges[1:][inside], reverse), []
    largest = float(at.loss.max(initial=-math.inf))
    for epsilon, (_, hidden) in zip(epsilons.tolist(), rows, strict=True):
        value, error = at.log_hockey_stick(source.label, epsilon)
        if value > -math.inf:  # what panels may leave out is a share of the whole, not of delta
            most = -math.expm1(min(epsilon - largest, 0.0))
            error += LEFT_OUT * most * math.exp(min(-value, MOST_LOG))
        good = value > -math.inf and error < alike and not hidden
        found.append((value, error) if good else log_hockey_stick(source, epsilon, reverse))
    return found


def _log_hockey_stick(
    source: KernelSource, epsilon: float, reverse: bool
) -> tuple[float, float, bool]:
    """As `log_hockey_stick`, of the losses as they are in doubles; and see `above`."""
    rows, hidden = above(source, epsilon, reverse)
    if rows.size == 0:
        return -math.inf, 0.0, hidden
    at = _Density.on(source, *_panels(source, rows), reverse)
    return *at.log_hockey_stick(source.label, epsilon), hidden


class _Density(NamedTuple):
    """Density, loss and what rounding moves the loss by at the nodes of panels."""

    lo: Floats
    hi: Floats
    x: Floats
    log_f: Floats
    log_w: Floats
    loss: Floats
    moved: Floats

    @classmethod
    def on(cls, source: KernelSource, lo: Floats, hi: Floats, reverse: bool) -> _Density:
        """Evaluate on these panels, of Q and its loss if reversed."""
        x = nodes(lo, hi).ravel()
        (log_f,) = log_densities(source.kernel, source.theta, x, "q" if reverse else "p")
        loss = losses_at(source, x)
        first, last = lo.repeat(ORDER), hi.repeat(ORDER)
        # rounded onto an end where both have a pole: no output, and what is near it is `unresolved`
        onto = np.isnan(loss) & ((x == first) | (x == last))
        log_f[onto], loss[onto] = -np.inf, 0.0
        # what is off a line shows at some nodes, and may be as large at the others
        off = off_lines(lambda x, _: losses_at(source, x), x, loss, first, last)
        off = off.reshape(-1, ORDER).max(axis=1)
        moved = losses_moved(source.kernel, source.theta, x, loss) + off.repeat(ORDER)
        with np.errstate(divide="ignore"):
            log_w = log_f + np.log(((0.5 * (hi - lo))[:, None] * WEIGHTS).ravel())
        return cls(lo, hi, x, log_f, log_w, -loss if reverse else loss, moved)

    def log_hockey_stick(self, label: str, epsilon: float) -> tuple[float, float]:
        """Return the log of the payoff's integral and a relative error."""
        gap, log_w = self.loss - epsilon, self.log_w
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            payoff = np.where(gap > 0, -np.expm1(-gap), 0.0)
            terms = log_w + np.log(payoff)
        pole = terms == np.inf  # what lies there `unresolved` counts
        if pole.any():
            terms, log_w = np.where(pole, -np.inf, terms), np.where(pole, -np.inf, log_w)
        top = float(terms.max(initial=-math.inf))
        if top != top:
            raise NumericError(f"{label}: the density is not a number above loss {epsilon!r}")
        if top == -math.inf:
            return -math.inf, 0.0
        share = np.exp(terms - top)
        total = float(np.sum(np.sort(share)))
        # rounding of p, of L - eps, and the quadrature itself
        plain = np.exp(np.minimum(log_w - top, 600.0))
        loss = np.clip(self.loss, -1e300, 1e300)  # exp(-inf) inf is nothing
        moved = 4.0 * EPS * (np.abs(loss) + abs(epsilon)) + self.moved
        seen = (log_w > -math.inf) & (gap > -2.0 * moved)  # what is below for certain adds nothing
        rise = np.expm1(np.minimum(moved, MOST_LOG))  # and no payoff is above one
        shaky = plain * np.minimum(np.exp(-np.maximum(gap, 0.0)) * rise, 1.0)
        known = share[seen] * (8.0 + np.abs(self.log_f[seen]))
        noise = EPS * float(known.sum()) + float(shaky[seen].sum())
        values, half = share.reshape(-1, ORDER) / WEIGHTS, 0.5 * (self.hi - self.lo)[:, None]
        noise += _unresolved(self.lo, self.hi, values)
        x = self.x.reshape(-1, ORDER)  # in half widths, which may be so small that 1 / half is inf
        noise += misplaced(np.divide(x, half, out=np.zeros_like(x), where=half > 0.0), values)
        return top + math.log(total), noise / total


def _unresolved(lo: Floats, hi: Floats, values: Floats) -> float:
    """What panels may hold that their nodes do not see: the highest coefficients, which fall on."""
    # They do not next to a pole, where no double lies close enough for panels to be cut further:
    # for (1 - x)^(b - 1) they exceed the error of the rule down to b = 0.1, times SINGULAR to b =
    # 0.02.
    last = hi - lo <= np.maximum(GRAIN * np.maximum(np.abs(lo), np.abs(hi)), NEXT_TO_0)
    return float(np.abs(values @ TOP.T).max(axis=1) @ np.where(last, SINGULAR, 1.0))


def _panels(source: KernelSource, rows: Floats) -> tuple[Floats, Floats]:
    """Panels on `rows` that resolve p and q: the payoff p - exp(eps) q is as rough as either."""
    # None steps over what the law's own panels have found, whose masses were held against one.
    even = _even(source, rows)
    few, rows = rows[even].T, rows[~even]
    if not len(rows):
        return few[0], few[1]
    law = source.cover(-1.0, 0.0)
    ends = [law.lo, law.hi]
    for density in ("p", "q"):
        quadrature = of_mass(source.kernel, source.theta, rows, density)
        ends += [quadrature.lo, quadrature.hi]
    edges = np.unique(np.concatenate(ends))
    middle = 0.5 * edges[1:] + 0.5 * edges[:-1]
    inside = ((rows[:, :1] < middle) & (middle < rows[:, 1:])).any(axis=0)
    return np.append(edges[:-1][inside], few[0]), np.append(edges[1:][inside], few[1])


def _even(source: KernelSource, rows: Floats) -> NDArray[np.bool_]:
    """Whether rows hold so few doubles that no panel is narrower, and are no end of a density."""
    even = np.asarray(np.isfinite(rows).all(axis=1))
    lo, hi = rows[even].T
    even[even] = hi - lo <= FEW_DOUBLES * EPS * np.maximum(np.abs(lo), np.abs(hi))
    x = nodes(*rows[even].T)
    logs = log_densities(source.kernel, source.theta, x.ravel()).reshape(2, *x.shape)
    with np.errstate(invalid="ignore"):  # -inf where there is no mass
        even[even] = (np.ptp(logs, axis=2) < EVEN).all(axis=0)
    return even


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
                if abs(cut - end) < (least := LEAST + CUT * abs(end)):
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
    error = source.nodes(-1.0, 0.0).tolerance
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
    most = masses + source.atom_error
    below = [SMALLEST, early.log + early.error, *most[loss <= threshold + slack]]
    beyond = [SMALLEST, infinite.log + infinite.error, *most[loss > threshold - slack]]
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
                    side.append(mass.log + math.log1p(mass.error))
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
