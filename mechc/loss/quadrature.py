"""Adaptive quadrature of a kernel's densities, accurate for a whole strip of exponential tilts.

In: an emitted kernel, its parameters, the tilts z and the frequency y that a query needs.
Out: Gauss-Legendre nodes x with log p(x), the loss L(x) and its slope, such that the integrals of
p(x) exp(z L(x)) over every branch are resolved for all real tilts of an interval, and, in a copy,
those of p(x) exp((c + iy) L(x)) on one contour Re z = c for all |y| <= frequency.

Every panel carries 16 nodes. A panel is split while the top Legendre coefficients of the tilted
integrand are not negligible against the whole integral, and a branch is extended outwards while
its last panel still matters; both tests are relative to the tilted total, so that a tail is
resolved exactly when some tilt makes it count. The error estimate continues the decay of the
coefficients from degrees 6-7 to 14-15 on to degree 32, the first one a 16-point rule gets wrong.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.kernel.protocol import Kernel
from mechc.loss.moments import excess

Floats = NDArray[np.float64]

ORDER = 16
MASS_GOAL = 1e-10  # top Legendre coefficient of the tilted density, as a share of its total
GOAL = 1e-17  # estimated error of a panel for the sums that count, as a share of the sum
NEGLIGIBLE = 1e-24  # share of the tilted total that may be left out
LOG_NEGLIGIBLE = math.log(NEGLIGIBLE)
CLIFF = 20.0  # nats by which the integrand may fall between neighbouring nodes that matter
OUTWARD = 1.12 ** np.arange(-12.0, 60.0)  # where far modes are looked for, in lengths of a branch
OVERLAP = 0.15  # least affinity of the tilted laws at neighbouring test tilts
TURN = 9.0  # radians of the wave that a panel may span before it is cut without further tests
ROUNDS = 400
MAX_PANELS = 60_000
MAX_TESTS = 4_000_000  # panels times tilts that are judged at once

NODES, WEIGHTS = legendre.leggauss(ORDER)
_VANDER = legendre.legvander(NODES, ORDER - 1)
# _ANALYSIS[n, j]: f(x_j) -> n-th Legendre coefficient
_ANALYSIS = np.ascontiguousarray(
    ((2 * np.arange(ORDER) + 1) / 2)[:, None] * _VANDER.T * WEIGHTS[None, :]
)
_DEGREES = np.array([ORDER - 1, ORDER - 2, 7, 6])
_PROBE = np.ascontiguousarray(_ANALYSIS[_DEGREES])
TOP = np.ascontiguousarray(_ANALYSIS[ORDER - 2 :])  # values at nodes -> top two coefficients
_SYNTHESIS = np.stack(
    [legendre.legval(NODES, legendre.legder(np.eye(ORDER)[n])) for n in range(ORDER)], axis=1
)
DERIVATIVE = np.ascontiguousarray(_SYNTHESIS @ _ANALYSIS)  # values at nodes -> d/dxi at nodes

_JIT: dict[str, Any] = {"error_model": "numpy", "cache": True}


@nb.njit("float64[::1](float64[:,::1], float64[:,::1], float64[::1], float64[::1])", **_JIT)
def _log_totals(log_p, loss, half, tilts):  # type: ignore[no-untyped-def]
    """Log of the integral of p exp(z L) over all panels, for every tilt z."""
    out = np.empty(tilts.size)
    for a in range(tilts.size):
        z = tilts[a]
        top = -np.inf
        for i in range(half.size):
            for j in range(16):
                v = log_p[i, j] + z * loss[i, j]
                if v > top:
                    top = v
        total = 0.0
        if top > -np.inf:
            for i in range(half.size):
                for j in range(16):
                    v = log_p[i, j] + z * loss[i, j] - top
                    if v > -700.0:
                        total += half[i] * WEIGHTS[j] * math.exp(v)
        out[a] = top + math.log(total) if total > 0.0 else -np.inf
    return out


@nb.njit("float64(float64)", **_JIT)
def _exp(x):  # type: ignore[no-untyped-def]
    """Return exp(x), zero far down where only the time of denormal numbers would be spent."""
    return math.exp(x) if x > -700.0 else 0.0


@nb.njit(
    "void(float64[:,::1], float64[:,::1], float64[::1], float64[::1], float64[::1],"
    " float64[:,:,:,::1])",
    **_JIT,
)
def _judge(log_p, loss, half, tilts, log_total, out):  # type: ignore[no-untyped-def]
    """Per panel, tilt and integrand: its sum of absolute values and its estimated error.

    What has to be resolved is what the accountants sum: (0) p exp(zL) coarsely, for the mass; and
    for accuracy (1) p (exp(zL) - 1 + z (exp(-L) - 1)), because M(0) and M(-1) are known; where
    M(z) is far below them, p exp(zL) again.
    `out[i, a, b]` is (sum, error) of integrand b in units of exp(log_total[a]).
    """
    f = np.empty((2, 16))
    c = np.empty(4)
    back = np.empty(16)
    noise = np.empty(2)
    for i in range(half.size):
        for j in range(16):
            back[j] = excess(-loss[i, j]) if loss[i, j] > -600.0 else -1.0
        for a in range(tilts.size):
            z = tilts[a]
            # P and Q nearly disjoint: M(z) is no small change of M(0) but far below it
            apart = log_total[a] < -1.0
            noise[:] = 0.0
            for j in range(16):
                value = loss[i, j]
                lw = log_p[i, j] - log_total[a]
                size = 2.0 + abs(log_p[i, j]) + abs(z * value)
                if apart:
                    f[0, j] = f[1, j] = _exp(lw + z * value)
                    noise[0] = noise[1] = max(noise[0], size * f[0, j])
                    continue
                plain = _exp(lw)
                if abs(z * value) < 0.5:
                    bend = excess(z * value)
                    tilted = plain * (1.0 + z * value + bend)
                    f[1, j] = plain * bend
                else:
                    tilted = _exp(lw + z * value)
                    f[1, j] = tilted - plain * (1.0 + z * value)
                if back[j] >= 0.0:
                    f[1, j] += z * plain * back[j]
                else:
                    f[1, j] += z * _exp(lw - value)
                f[0, j] = tilted
                if z == 0.0 or z == -1.0:
                    f[1, j] = 0.0  # known masses, nothing to resolve
                for b in range(2):
                    noise[b] = max(noise[b], size * abs(f[b, j]))
                if abs(z * value) >= 0.5:
                    noise[1] = max(noise[1], size * (tilted + plain * (1.0 + abs(z * value))))
            for b in range(2):
                total = 0.0
                for j in range(16):
                    total += WEIGHTS[j] * abs(f[b, j])
                out[i, a, b, 0] = half[i] * total
                out[i, a, b, 1] = 0.0
                if total * half[i] < 1e-40:
                    continue
                c[:] = 0.0
                for j in range(16):
                    for m in range(4):
                        c[m] += _PROBE[m, j] * f[b, j]
                # what rounding leaves in a coefficient is not a lack of resolution
                high = max(abs(c[0]), abs(c[1])) - 4e-15 * noise[b]
                if high > 0.0:
                    out[i, a, b, 1] = half[i] * high
                    if b > 0:
                        ratio = high / max(abs(c[2]), abs(c[3]), high)
                        out[i, a, b, 1] *= max(ratio * ratio, high / (high + total))


@nb.njit(
    "void(float64[:,::1], float64[:,::1], float64[:,::1], int64[::1], float64, float64, b1[::1])",
    **_JIT,
)
def _summits(x, log_p, loss, region, z, total, flagged):  # type: ignore[no-untyped-def]
    """Flag panels where the slopes around a local maximum point to a higher summit that matters.

    A narrow mode between two nodes shows as a local maximum whose neighbours' secants meet far
    above it; for a log-concave mode they bound its height. A mode that ends at an edge of its panel
    shows as a cliff: what the next panel has of it lies before that panel's first node.
    """
    n = region.size * 16
    for i in range(1, n - 2):
        if region[(i - 1) // 16] != region[(i + 2) // 16]:
            continue
        x0, x1 = x[(i - 1) // 16, (i - 1) % 16], x[i // 16, i % 16]
        x2, x3 = x[(i + 1) // 16, (i + 1) % 16], x[(i + 2) // 16, (i + 2) % 16]
        p0 = log_p[(i - 1) // 16, (i - 1) % 16] + z * loss[(i - 1) // 16, (i - 1) % 16]
        p1 = log_p[i // 16, i % 16] + z * loss[i // 16, i % 16]
        p2 = log_p[(i + 1) // 16, (i + 1) % 16] + z * loss[(i + 1) // 16, (i + 1) % 16]
        p3 = log_p[(i + 2) // 16, (i + 2) % 16] + z * loss[(i + 2) // 16, (i + 2) % 16]
        gap = x2 - x1
        known = max(p1, p2)
        if abs(p1 - p2) > CLIFF and known + math.log(gap) - total > LOG_NEGLIGIBLE:
            flagged[(i + 1) // 16 if p1 > p2 else i // 16] = True
        left, right = (p1 - p0) / (x1 - x0), (p3 - p2) / (x3 - x2)
        if not (left > 0.0 and right < 0.0):
            continue
        step = (p2 - p1 - right * gap) / (left - right)
        summit = p1 + left * min(max(step, 0.0), gap)
        if summit > known + 2.0 and summit + math.log(gap) - total > LOG_NEGLIGIBLE:
            flagged[i // 16] = True
            flagged[(i + 1) // 16] = True


@dataclass
class _Tests:
    """What has been judged: tilts, units, and the report of `_judge` per panel."""

    tilts: Floats
    reference: Floats
    report: Floats

    @classmethod
    def none(cls) -> _Tests:
        empty = np.empty(0)
        return cls(empty, empty, np.empty((0, 0, 2, 2)))


class Quadrature:
    """Panels of one kernel at one parameter vector, extended on demand.

    Attributes:
        region: index of the branch each panel belongs to, shape (panels,).
        lo, hi: ends of the panels, shape (panels,).
        x, log_p, loss: values at the nodes, shape (panels, 16).
        tilts: the interval of real tilts covered so far.
        points: tilts inside that interval that were asked for and are covered exactly.
        error: estimated error of M(z) as a share of M(Re z), see `_judge`.
    """

    def __init__(self, kernel: Kernel, theta: Floats, rows: Floats, *, mass_of: str = "") -> None:
        """Lay the first panels on the branches `rows` (lo, hi); no adaptation yet.

        With `mass_of` "p" or "q" the integrand is that density alone and the loss is taken as 0:
        for plateaus and for outputs that only one of the two laws produces.
        """
        self._kernel = kernel
        self._theta = theta
        self._rows = rows
        self._mass_of = mass_of
        self.region = np.empty(0, np.int64)
        self.lo = self.hi = np.empty(0)
        self.x = self.log_p = self.loss = np.empty((0, ORDER))
        self.tilts = (0.0, 0.0)
        self.points: tuple[float, ...] | None = None  # None: nothing is settled yet
        self._tests = _Tests.none()
        self.error = math.inf
        self.log_totals: Floats = np.empty(0)
        for index, (lo, hi) in enumerate(rows):
            edges = self._first_edges(float(lo), float(hi))
            self._add(np.full(edges.size - 1, index), edges[:-1], edges[1:])

    def _first_edges(self, lo: float, hi: float) -> Floats:
        """Edges at the scale that carries most mass per octave, around the finite ends."""
        if math.isfinite(lo) and math.isfinite(hi):
            return np.linspace(lo, hi, 3)
        anchor = lo if math.isfinite(lo) else hi if math.isfinite(hi) else 0.0
        offsets = 10.0 ** np.linspace(-8, 12, 41)
        up = anchor + offsets[anchor + offsets < hi]
        down = anchor - offsets[anchor - offsets > lo]
        points = np.concatenate([up, down])
        points = points[points != anchor]  # an offset can be below the rounding of the anchor
        scales = np.abs(points - anchor)
        log_p, log_q = np.empty(points.size), np.empty(points.size)
        self._kernel.log_p_many(points, self._theta, log_p)
        self._kernel.log_q_many(points, self._theta, log_q)
        weight = np.fmax(log_p, log_q) + np.log(scales)
        scale = float(scales[int(np.argmax(np.where(np.isnan(weight), -np.inf, weight)))])
        steps = np.array([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0])
        edges = anchor + scale * steps
        return np.unique(edges[(edges >= lo) & (edges <= hi)])

    def _add(self, region: NDArray[np.int64], lo: Floats, hi: Floats) -> None:
        """Evaluate new panels and append them."""
        half = 0.5 * (hi - lo)
        x = 0.5 * (lo + hi)[:, None] + half[:, None] * NODES[None, :]
        flat = np.ascontiguousarray(x).ravel()
        log_p, loss = np.empty(flat.size), np.zeros(flat.size)
        density = self._kernel.log_q_many if self._mass_of == "q" else self._kernel.log_p_many
        density(flat, self._theta, log_p)
        if not self._mass_of:
            self._kernel.loss_many(flat, self._theta, loss)
        bad = ~(np.isfinite(log_p) & np.isfinite(loss))
        if bad.any():
            log_p[bad], loss[bad] = -np.inf, 0.0
        if self.region.size + region.size > MAX_PANELS:
            raise NumericError(
                f"{self._kernel.NAME}: the quadrature needs more than {MAX_PANELS} panels at "
                f"parameters {self._theta.tolist()}"
            )
        self.region = np.concatenate([self.region, region])
        self.lo, self.hi = np.concatenate([self.lo, lo]), np.concatenate([self.hi, hi])
        self.x = np.concatenate([self.x, x])
        self.log_p = np.concatenate([self.log_p, log_p.reshape(x.shape)])
        self.loss = np.concatenate([self.loss, loss.reshape(x.shape)])

    def _keep(self, mask: NDArray[np.bool_]) -> None:
        for name in ("region", "lo", "hi", "x", "log_p", "loss"):
            setattr(self, name, getattr(self, name)[mask])

    @property
    def half(self) -> Floats:
        """Half widths of the panels."""
        return 0.5 * (self.hi - self.lo)

    def cover(self, tilt_lo: float, tilt_hi: float, *points: float) -> None:
        """Refine until all real tilts in [tilt_lo, tilt_hi] are resolved, `points` exactly so.

        Raises:
            NumericError: the panels did not settle, with the branch where they did not.
        """
        wide = (min(tilt_lo, self.tilts[0]), max(tilt_hi, self.tilts[1]))
        if self.points is not None and wide == self.tilts and set(points) <= {*self.points, *wide}:
            return
        tilts = np.unique([*wide, -1.0, 0.0, *points])
        tilts = tilts[(tilts >= wide[0]) & (tilts <= wide[1])]
        rounds = ROUNDS
        while True:
            rounds = self._settle(tilts, rounds)
            if not rounds:
                raise NumericError(
                    f"{self._kernel.NAME}: quadrature did not settle in {ROUNDS} rounds at "
                    f"parameters {self._theta.tolist()}, tilts {wide}"
                )
            # tilts in between are covered by their neighbours only if the tilted laws overlap
            share = self._tests.report[:, :, 0, 0] / self._tests.report[:, :, 0, 0].sum(axis=0)
            overlap = np.sqrt(share[:, 1:] * share[:, :-1]).sum(axis=0)
            apart = overlap < OVERLAP
            if not apart.any():
                self.tilts, self.points = wide, points
                return
            tilts = np.unique(np.concatenate([tilts, 0.5 * (tilts[1:] + tilts[:-1])[apart]]))
            if tilts.size * self.region.size > MAX_TESTS:
                raise NumericError(
                    f"{self._kernel.NAME}: tilts {wide} at parameters {self._theta.tolist()} "
                    "span too many scales"
                )

    def _settle(self, tilts: Floats, rounds: int) -> int:
        """Split and grow until the tilts given are resolved; returns the rounds left over."""
        self._begin(tilts)
        goal = np.where(np.arange(2) == 0, 1e-14 if self._mass_of else MASS_GOAL, GOAL)
        while rounds:
            rounds -= 1
            tests = self._tests
            totals = tests.report.sum(axis=0)
            if not ((totals[:, 0, 0] > 1e-13) & (totals[:, 0, 0] < 1e13)).all():
                self._tests = _Tests.none()
                self._begin(tilts)
                continue
            short = tests.report[..., 1] / (goal * totals[..., 0] + 1e-300)
            width = self.hi - self.lo
            floor = 4e-16 * np.maximum(np.abs(self.lo), np.abs(self.hi))
            split = (short.max(axis=(1, 2)) > 1.0) & (width > floor)
            self.log_totals = tests.reference + np.log(totals[:, 0, 0])
            grown = self._grow((tests.report[:, :, 0, 0] / totals[:, 0, 0]).max(axis=1))
            if not split.any() and not grown:
                if self._grow_to_far_modes(tilts):
                    self._judge_new()
                    continue
                split = self._hidden_peaks(tilts, self.log_totals)
                if not split.any():
                    self.error = float((totals[:, 1:, 1] / totals[:, :1, 0]).max())
                    return rounds
            if split.any():
                self._split(split, np.full(int(split.sum()), 2))
            self._judge_new()
        return 0

    def _begin(self, tilts: Floats) -> None:
        """Set up the tests at the tilts given; what was judged before is kept."""
        old = self._tests
        fresh = ~np.isin(tilts, old.tilts)
        report = np.empty((self.region.size, tilts.size, 2, 2))
        reference = np.empty(tilts.size)
        if not fresh.all():
            place = np.searchsorted(old.tilts, tilts[~fresh])
            report[:, ~fresh], reference[~fresh] = old.report[:, place], old.reference[place]
        if fresh.any():
            part = np.empty((self.region.size, int(fresh.sum()), 2, 2))
            reference[fresh] = _log_totals(self.log_p, self.loss, self.half, tilts[fresh])
            _judge(self.log_p, self.loss, self.half, tilts[fresh], reference[fresh], part)
            report[:, fresh] = part
        self._tests = _Tests(tilts, reference, report)

    def _judge_new(self) -> None:
        """Judge the panels added since the last time."""
        tests = self._tests
        new = slice(tests.report.shape[0], None)
        part = np.empty((self.region[new].size, tests.tilts.size, 2, 2))
        _judge(
            self.log_p[new],
            self.loss[new],
            self.half[new],
            tests.tilts,
            tests.reference,
            part,
        )
        tests.report = np.concatenate([tests.report, part])

    def with_waves(self, contour: float, frequency: float, floor: float) -> Quadrature:
        """Return a copy that resolves exp(iyL), |y| <= frequency, in the law tilted at `contour`.

        Panels in which the wave would turn by more than `TURN` are cut, except where the tilted
        law has less than `floor` of its mass. The amplitude is resolved already, and 16 nodes
        integrate a wave of TURN radians to 1e-17.
        """
        other = copy(self)
        other._tests = _Tests.none()
        mass = np.exp(self.log_p + contour * self.loss - self._log_total(contour)) @ WEIGHTS
        turns = frequency * (self.loss.max(axis=1) - self.loss.min(axis=1)) / TURN
        turns = np.where(mass * self.half > floor, np.clip(turns, 1.0, 1e6), 1.0)
        parts = np.ceil(turns).astype(np.int64)
        if parts.sum() > MAX_PANELS:
            raise NumericError(
                f"{self._kernel.NAME}: frequency {frequency:g} would need {parts.sum()} panels"
            )
        if (parts > 1).any():
            other._split(parts > 1, parts[parts > 1])
        return other

    def _log_total(self, tilt: float) -> float:
        return float(_log_totals(self.log_p, self.loss, self.half, np.array([tilt]))[0])

    def _split(self, split: NDArray[np.bool_], parts: NDArray[np.int64]) -> None:
        """Cut the flagged panels into equal parts; panels added after their judgement stay last."""
        count = split.size
        region = self.region[:count][split]
        lo, hi = self.lo[:count][split], self.hi[:count][split]
        keep = np.ones(self.region.size, np.bool_)
        keep[:count] = ~split
        self._keep(keep)
        judged = self._tests.report.shape[0]
        self._tests.report = self._tests.report[~split[:judged]]
        which = np.repeat(np.arange(region.size), parts)
        place = np.arange(which.size) - np.repeat(np.cumsum(parts) - parts, parts)
        step = (hi - lo)[which] / parts[which]
        last = place + 1 == parts[which]
        self._add(
            region[which],
            lo[which] + place * step,
            np.where(last, hi[which], lo[which] + (place + 1) * step),
        )

    def _grow(self, share: Floats) -> bool:
        """Add a panel beyond an end of a branch whose last panel still matters."""
        regions, los, his = [], [], []
        for index, (lo, hi) in enumerate(self._rows):
            mine = np.flatnonzero(self.region == index)
            if mine.size == 0:
                continue
            last = mine[np.argmax(self.hi[mine])]
            first = mine[np.argmin(self.lo[mine])]
            reach = self.hi[last] - self.lo[first]
            if self.hi[last] < hi and share[last] > NEGLIGIBLE:
                regions.append(index)
                los.append(self.hi[last])
                his.append(min(hi, self._beyond(self.hi[last], reach)))
            if self.lo[first] > lo and share[first] > NEGLIGIBLE:
                regions.append(index)
                los.append(max(lo, -self._beyond(-self.lo[first], reach)))
                his.append(self.lo[first])
        if regions:
            self._add(np.array(regions), np.array(los), np.array(his))
        return bool(regions)

    def _grow_to_far_modes(self, tilts: Floats) -> bool:
        """Extend a branch to a mode that only a large tilt brings out, far beyond its panels.

        Under sparse sampling exp(zL) outgrows p only far out: the tilted density falls, and rises
        again. Points at geometric distances show such a mode by its flanks.
        """
        found = False
        for index, (lo, hi) in enumerate(self._rows):
            mine = np.flatnonzero(self.region == index)
            if mine.size == 0 or self._mass_of:
                continue
            first, last = float(self.lo[mine].min()), float(self.hi[mine].max())
            for edge, end, sign in ((last, hi, 1.0), (first, lo, -1.0)):
                x = edge + sign * (last - first) * OUTWARD
                x = np.ascontiguousarray(x[(x - end) * sign < 0.0])
                if x.size == 0 or edge == end:
                    continue
                log_p, loss = np.empty(x.size), np.empty(x.size)
                self._kernel.log_p_many(x, self._theta, log_p)
                self._kernel.loss_many(x, self._theta, loss)
                seen = np.isfinite(log_p) & np.isfinite(loss)
                size = np.where(seen, log_p, -np.inf) + np.log(np.abs(x - edge))
                psi = size + tilts[:, None] * np.where(seen, loss, 0.0) - self.log_totals[:, None]
                high = np.flatnonzero((psi > LOG_NEGLIGIBLE).any(axis=0))
                if high.size:
                    far = float(x[min(high[-1] + 1, x.size - 1)])
                    pair = (edge, far) if sign > 0 else (far, edge)
                    self._add(np.array([index]), np.array([pair[0]]), np.array([pair[1]]))
                    found = True
        return found

    def _beyond(self, edge: float, reach: float) -> float:
        far = edge + reach
        if not math.isfinite(far):
            raise NumericError(
                f"{self._kernel.NAME}: the tail still matters at {edge:g}; parameters "
                f"{self._theta.tolist()}"
            )
        return far

    def _hidden_peaks(self, tilts: Floats, totals: Floats) -> NDArray[np.bool_]:
        """Panels beside which a narrow mode may hide between nodes, see `_summits`."""
        order = np.lexsort((self.lo, self.region))
        flagged = np.zeros(order.size, np.bool_)
        x, log_p, loss = self.x[order], self.log_p[order], self.loss[order]
        for tilt, total in zip(tilts, totals, strict=True):
            _summits(x, log_p, loss, self.region[order], tilt, total, flagged)
        out = np.zeros(order.size, np.bool_)
        out[order] = flagged
        return out


def log_mass(kernel: Kernel, theta: Floats, lo: float, hi: float, mass_of: str) -> float:
    """Return the log of the mass that P (`mass_of="p"`) or Q ("q") puts on (lo, hi).

    Raises:
        NumericError: the quadrature did not settle.
    """
    quadrature = Quadrature(kernel, theta, np.array([[lo, hi]]), mass_of=mass_of)
    quadrature.cover(0.0, 0.0)
    return float(quadrature.log_totals[0])
