"""Integers of the branches of a law, listed as far as they matter at the tilts asked for.

A list begins at the finite end of its branch, or at 0, and grows fourfold until what is past it
(`unlisted`) is nothing beside the whole at every tilt. A heavy tail on which the loss has all but
reached its limit is kept as one atom instead.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc import protocol
from mechc.errors import NumericError
from mechc.loss.atoms import SUMMANDS, spent, where_apart
from mechc.loss.moments import log_total
from mechc.loss.quadrature.resolution import LOG_NEGLIGIBLE
from mechc.loss.quadrature.rule import NODES, ORDER, WEIGHTS, log_densities
from mechc.loss.running_error import log_mass_errors
from mechc.loss.unlisted import (
    Laws,
    Listing,
    Past,
    Stop,
    Wholes,
    beyond,
    searched,
    tilts_between,
)
from mechc.numeric.logs import log_add
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats, Kernel

ONE_SIDED = (protocol.P_ONLY, protocol.Q_ONLY)
MAX_LATTICE = 2**22  # integers listed of a branch: 32 MB a column
FARTHEST = 2.0**52  # of integers around which others are doubles too
# integers listed of a heavy tail, and log of the mass for which the loss of its rest is not known
HEAVY = ((2**17, math.log(1e-5)), (2**12, math.log(1e-11)))
MOST_DECADES = 690.0  # log of the largest output that a tail is added up to
OPEN_GAP = 2.0  # allowed for losses beside those that are seen far out, of no known direction
LEAST_REACH = 64.0  # integers looked at on either side
SHORT, MOST_KEPT = 2**16, 64  # integers of a list that is kept, and how many of them
FADED = -1e5  # log of a share of the mass that no list holds
MOST_FOLLOWED = 1024  # integers at which the rounding of log masses is followed


class Lists:
    """The lists of one law, and what they have left out; not to be shared.

    Attributes:
        tails: of branches of which a tail is kept as one atom, by their ends: log masses of P and Q
            and the distance of the loss from its limit, a row a tail.
        faded: whether integers were left out, as their masses are nothing.
        estimated: whether what is past a list was looked for, and not bounded.
    """

    def __init__(self, kernel: Kernel, theta: Floats, rows: Floats, label: str) -> None:
        """Keep a kernel, its parameters, its branches and how it is called in messages."""
        self._kernel, self._theta, self._rows, self._label = kernel, theta, rows, label
        self._most = MAX_LATTICE
        self.tails: dict[tuple[float, float], Floats] = {}
        self._wholes: Wholes = {}  # what is past the first lists, written when these are made
        self.faded = self.estimated = False
        self._longer: dict[Any, tuple[Floats, tuple[Listing, ...], bool, bool]] = {}
        self._hidden = -math.inf, -math.inf  # logs of masses of P and Q in modes of kept tails

    def points(
        self, lo: float, hi: float, listings: tuple[Listing, ...] = ()
    ) -> tuple[Floats, tuple[Listing, ...]]:
        """Return all integers that matter for tilts lo..hi, and how far they reach on each branch.

        `listings` are those that were enough for fewer tilts.
        """
        asked = lo, hi, listings, self._most
        if asked in self._longer:  # every epsilon asks for the same tilts, one after another
            x, longer, faded, estimated = self._longer[asked]
            self.faded, self.estimated = self.faded or faded, self.estimated or estimated
            return x, longer
        before = self.faded, self.estimated
        self.faded = self.estimated = False
        rows = self._rows.tolist()
        first = [Listing(LEAST_REACH)] * len(rows)
        try:
            found = [
                self._range(row, lo, hi, listing.reach, first=not listings)
                for row, listing in zip(rows, listings or first, strict=True)
            ]
        finally:
            own = self.faded, self.estimated
            self.faded, self.estimated = self.faded or before[0], self.estimated or before[1]
        x, longer = np.concatenate([x for x, _ in found]), tuple(each for _, each in found)
        if listings and x.size < SHORT and len(self._longer) < MOST_KEPT:
            self._longer[asked] = x, longer, *own
        return x, longer

    def at(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Log masses and losses at integers; differences of logs where these are known better.

        Far out, where a loss is a difference of large numbers, its formula has lost its digits.
        """
        (log_p, log_q), loss = log_densities(self._kernel, self._theta, x), np.empty(x.size)
        self._kernel.loss_many(x, self._theta, loss)
        off = np.flatnonzero(where_apart(log_p, log_q, loss))[:MOST_FOLLOWED]
        if off.size:
            error = log_mass_errors(self._kernel, self._theta, x[off])
            better = off[error <= SUMMANDS * EPS * (1.0 + np.abs(log_p) + np.abs(log_q))[off]]
            loss[better] = log_p[better] - log_q[better]
        return log_p, log_q, loss

    def stops(self, listings: tuple[Listing, ...]) -> list[Stop]:
        """Where lists stop that go on."""
        found = []
        for row, (reach, past, _) in zip(self._rows.tolist(), listings, strict=True):
            lo, hi, kind, left, right, _ = row
            if not hi - lo <= MAX_LATTICE and (lo, hi) not in self.tails:
                anchor = _anchor(lo, hi)
                if kind == protocol.UNSPLIT:  # nothing is known between the list and the limit
                    left = right = math.nan
                ends = Stop(anchor - reach, left, past[0]), Stop(anchor + reach, right, past[1])
                found += [end for end in ends if lo < end.last < hi]
        return found

    def log_left_out(self, ends: list[Stop], epsilon: float, reverse: bool) -> float:
        """Log of the mass left out where losses may exceed epsilon."""
        faded = FADED + math.log(MAX_LATTICE * len(self._rows))
        rest = [faded if self.faded else -math.inf, self._hidden[reverse]]
        for x, limit, log_masses in ends:
            loss = self._kernel.loss(x, self._theta)
            highest = -np.minimum(loss, limit) if reverse else np.maximum(loss, limit)
            if not highest <= epsilon:  # nan, which Python's max would drop: not known
                rest.append(log_masses[reverse])
        return float(np.logaddexp.reduce(rest))

    def _range(
        self, row: list[float], tilt_lo: float, tilt_hi: float, reach: float, first: bool
    ) -> tuple[Floats, Listing]:
        """Integers of one branch, extended from its finite end (or 0) until the tails are spent."""
        # Whether a tail is kept as an atom is decided at `first`, when masses are added up.
        lo, hi, kind = row[:3]
        anchor = _anchor(lo, hi)
        if not abs(anchor) < FARTHEST:
            raise NumericError(f"{self._label}: integers near {anchor:g} are not told apart")
        if hi - lo <= MAX_LATTICE:
            return np.arange(lo, hi + 1), Listing(reach)
        tilts = np.array([tilt_lo, -1.0, 0.0, tilt_hi])

        def logs(x: Floats) -> tuple[Floats, Floats]:
            log_p, log_q = log_densities(self._kernel, self._theta, x)
            if kind in ONE_SIDED:  # no tilts: the mass itself counts
                log_p = log_q = log_p if kind == protocol.P_ONLY else log_q
            return log_p, log_q

        def ends(reach: float) -> tuple[float, float]:
            return max(lo, anchor - reach), min(hi, anchor + reach)

        if first:  # else a list of millions would have to show that
            size = np.append(np.exp2(np.arange(math.log2(self._most) + 1.0)), self._most + 1.0)
            x = np.unique(np.clip(anchor + np.append(-size, size), lo, hi))
            for log in logs(x):
                at = x[log.argmax()]
                if log.max() < FADED and at in x[[0, -1]] and lo < at < hi:
                    raise NumericError(f"{self._label}: a law has no mass near {anchor:g}")
        while reach <= self._most:
            x = np.arange(ends(reach)[0], ends(reach)[1] + 1)
            log_p, log_q = logs(x)
            past = None
            if not first and (lo, hi) in self.tails:
                past = Listing(reach).past
            elif spent(log_p, log_q, tilts, x[0] > lo, x[-1] < hi, math.log(reach)):
                more, past = self._past(row, tilts, x, first)
                x = np.concatenate([x, *more])
                log_p, log_q = logs(x)
            if past is not None:
                return x[self._counts(log_p, log_q, tilts)], Listing(reach, past, x.size)
            if first and x.size >= HEAVY[-1][0]:
                longest = reach * 4.0 ** math.floor(math.log(self._most / reach, 4.0))
                a, b = ends(longest)
                far_p, far_q = (
                    np.insert(far, 1, near)
                    for far, near in zip(logs(np.array([a, b])), (log_p, log_q), strict=True)
                )
                if not spent(far_p, far_q, tilts, a > lo, b < hi, math.log(longest)):
                    allowed = next(log for size, log in HEAVY if x.size >= size)
                    if self._tail_is_known(row, float(x[0]), float(x[-1]), allowed):
                        return x, Listing(reach)
            reach *= 4
        tried = self._most
        self._most = max(tried // 16, 2**16)  # searches for a tilt try many in vain
        raise NumericError(
            f"{self._label}: more than {tried} lattice points carry mass for tilts "
            f"[{tilt_lo:g}, {tilt_hi:g}]"
        )

    def _past(
        self, row: list[float], tilts: Floats, x: Floats, first: bool
    ) -> tuple[list[Floats], Past | None]:
        """Further integers that count, and logs of what P and Q have past a list besides.

        Nothing where that is no matter of less.
        """
        lo, hi, kind, *limits, _ = row
        alone = {protocol.P_ONLY: "p", protocol.Q_ONLY: "q"}.get(int(kind), "")
        if alone or kind == protocol.UNSPLIT:
            limits = [math.nan, math.nan]
        both = Laws(self._kernel, self._theta, alone or "pq", tilts_between(tilts), self._wholes)
        psi = both.at(x)
        least = np.where(np.isfinite(psi), psi, -np.inf).max(axis=1) + 2.0 * LOG_NEGLIGIBLE
        more, past = [], []
        for side, last, limit, end in zip((-1, 1), (x[0], x[-1]), (lo, hi), limits, strict=True):
            laws = both.monotone(end, side)
            found = beyond(laws, last, limit, least, self._most - x.size)
            if found is None:
                self.estimated = True
                found = searched(laws, last, limit, least, self._theta)
            if not (found.log_masses <= least).all():
                return [], None
            for a, b in found.islands:
                more.append(np.arange(a, b + 1.0))
                if not first and where_apart(*self.at(more[-1])).any():
                    raise NumericError(f"{self._label}: integers near {a:g} carry mass, and losses "
                                       "have lost their digits there")  # fmt: skip
            p, q = (float(found.log_masses[laws.tilts == t].max()) for t in (0.0, -1.0))
            past.append((p if alone != "q" else -math.inf, q if alone != "p" else -math.inf))
        return more, (past[0], past[1])

    def _counts(self, log_p: Floats, log_q: Floats, tilts: Floats) -> NDArray[np.bool_]:
        """Which integers have masses worth a list, at any of the tilts.

        Others, as on the steep side of exp(-exp(-x)), have losses whose rounding is beyond measure.
        """
        with np.errstate(invalid="ignore"):
            tilted = log_p + tilts[:, None] * (log_p - log_q)
        most = np.where(np.isnan(tilted), -np.inf, tilted).max(axis=1, keepdims=True)
        faded = (tilted < most + FADED).all(axis=0) & np.isfinite(most).all()
        self.faded |= bool(faded.any())
        return np.asarray(~faded)

    def _tail_is_known(self, row: list[float], first: float, last: float, allowed: float) -> bool:
        """Keep the masses beyond a list on which the loss has all but reached its limits."""
        # The loss is monotone out there, so it is within d = abs(L(end) - limit) of the log of the
        # ratio of the masses m_p, m_q beyond the end. One atom with that loss stands for the tail:
        # with q exp(loss) in place of p no delta changes by more than m_p (exp(d) - 1), whatever
        # follows; that is counted as mass at infinite loss. Where nothing is known of the loss it
        # is all of m_p, which has to be small for that.
        # A loss whose direction is open is looked at wherever the masses are.
        lo, hi, kind, *limits, _ = row
        is_open = kind == protocol.UNSPLIT
        if kind not in (protocol.INCREASING, protocol.DECREASING, protocol.PLATEAU) and not is_open:
            return False
        found, hidden = [], list[Floats]()
        for end, outer, limit, side in ((first, lo, limits[0], -1.0), (last, hi, limits[1], 1.0)):
            if end == outer:
                continue
            gap = abs(float(self._kernel.loss(end, self._theta)) - limit)
            x, log_size = _beyond(end, outer)
            logs = log_densities(self._kernel, self._theta, x)
            known = int(np.append(~(logs < np.inf).all(axis=0), True).argmax())
            terms = (logs + log_size)[:, :known]
            masses = [log_total(row) for row in terms]
            if known < x.size or math.isinf(outer):  # there may be more further out
                farthest = [log_total(row[-ORDER:]) for row in terms]
                faded = np.all(farthest <= np.array(masses) + math.log(EPS))
                if known < ORDER or not faded:
                    return False
            # what sums are off their integrals, by slopes: the one here, and a smaller one outside
            beside = log_densities(self._kernel, self._theta, end + side * np.arange(2.0))
            for m, log in zip(masses, beside, strict=True):
                if m > -math.inf:
                    gap += float(np.ptp(np.exp(np.minimum(log - m, MOST_LOG)))) / 12.0
            if is_open:
                there = np.isfinite(logs).all(axis=0)
                losses_there = logs[0, there] - logs[1, there]
                gap = OPEN_GAP * float(np.abs(losses_there - limit).max(initial=gap))
                self.estimated |= gap < 1.0
            if not gap < 1.0:  # nothing is known of it, so that longer lists say more
                gap = math.log(2.0)
                allowed = HEAVY[-1][1] if 4.0 * (last - first) < self._most else allowed
            if not max(masses) + math.log(math.expm1(gap) + EPS) < allowed:
                return False
            found.append((*masses, gap))
            laws = Laws(self._kernel, self._theta, "pq", np.array([0.0, -1.0]))
            rest = beyond(laws, end, outer, np.full(2, np.inf))
            self.estimated |= rest is None
            hidden += [rest.risen] if rest is not None else []
        for p, q in hidden:
            self._hidden = log_add(self._hidden[0], float(p)), log_add(self._hidden[1], float(q))
        self.tails[lo, hi] = np.array(found)
        return True


def _beyond(end: float, outer: float) -> tuple[Floats, Floats]:
    """Places, and log weights of what has them instead of the integers past one, up to another."""
    # The sum over n > N of a function of the order of a power is its integral from N + 1/2 on, up
    # to 1/24 of the slopes at its ends; that is taken over log(n - N), wherever the origin is.
    start, stop = math.log(0.5), min(MOST_DECADES, math.log(abs(outer - end) + 0.5))
    panels = math.ceil(stop - start)
    width = (stop - start) / panels
    t = start + width * (np.arange(panels)[:, None] + 0.5 * (1.0 + NODES))
    log_size = t.ravel() + np.log(np.tile(0.5 * width * WEIGHTS, panels))
    return end + math.copysign(1.0, outer - end) * np.exp(t.ravel()), log_size


def _anchor(lo: float, hi: float) -> float:
    """The integer from which a branch is listed: its finite end, or 0."""
    return lo if math.isfinite(lo) else hi if math.isfinite(hi) else 0.0
