"""Tables along the grid: generating functions at real tilts, and log phi on one contour.

Everything a person needs is a sum over steps of some function of the step's parameter, hence a
product of the ledger's row with columns of a table: K(t) at real tilts t, log phi(y) at the nodes
of a contour, a bound on log |phi| beyond the last node. A table is evaluated at the knots and, for
splines, at the middles of the buckets, where the error of the spline is measured. It comes in three
readings of the ledger:

* "splines": the steps as they were, up to the measured error;
* "worse": every step at the worse knot of its bucket, an upper bound by T9;
* "better": every step at the better knot, steps beyond the last knot left out, a lower bound.

Members whose K(t) exceeds `TOO_FAR` at a tilt cannot matter there: their columns are set to a value
that keeps every person who used them away from that tilt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mechc.accountants.characteristic import Law, Tilted
from mechc.errors import NumericError
from mechc.individual.family import Family
from mechc.individual.grid import Grid, spline_coefficients, spline_radius
from mechc.loss.measure import PrivacyLoss, Step

Floats = NDArray[np.float64]
Values = NDArray[Any]

READINGS = ("splines", "worse", "better")
TOO_FAR = 300.0  # nats of K per step beyond which a tilt is of no use to anyone
FORBIDDEN = 1e12  # stands for K where it is too far, or diverges
FIRST, RATIO = 0.05, 1.25  # smallest tilt, and the ratio between neighbouring ones
SAMPLED = 0.9  # share of the measured decay that is relied on between knots

_JIT: dict[str, Any] = {"error_model": "numpy", "cache": True}


@nb.njit("float64(float64[:,::1], float64, float64)", **_JIT)
def _variation(levels, atoms, y):  # type: ignore[no-untyped-def]
    """Total-variation bound on |phi(y')| for all y' >= y."""
    best = 1.0
    for g in range(levels.shape[0]):
        best = min(best, atoms + levels[g, 0] / y + levels[g, 1])
    return best


@nb.njit(
    "float64(float64[::1], float64[::1], float64, float64, float64, float64[:,::1], float64,"
    " float64)",
    **_JIT,
)
def log_sup(  # type: ignore[no-untyped-def]
    centred, weight, spread, slack, atoms, levels, start, end
):
    """Bound log sup |phi(y)| over y >= start for one step; nodes resolve phi up to `end`.

    With g = 1 - |phi|^2, sqrt g(y + d) >= sqrt g(y) - d spread (see `characteristic`). Walking
    along y with steps that keep sqrt g above a level proves the level; beyond `end`, or once it
    is enough, total variation takes over.
    """
    y = start
    level = 1.0
    first = True
    while y < end:
        if _variation(levels, atoms, y) ** 2 <= 1.0 - level * level and not first:
            break
        a = 0.0
        b = 0.0
        for j in range(centred.size):
            s = math.sin(0.5 * y * centred[j])
            a -= 2.0 * weight[j] * s * s
            b += weight[j] * math.sin(y * centred[j])
        g = -(2.0 * a + a * a + b * b) - slack
        root = math.sqrt(g) if g > 0.0 else 0.0
        least = 0.05 * root / spread  # a smaller step would gain less than a tenth of the exponent
        if first or root - least * spread < level:
            level = min(level, root - least * spread)
        first = False
        if not level > 0.0:
            return 0.0
        y += max(least, (root - level) / spread)
    far = _variation(levels, atoms, max(y, start))
    return max(0.5 * math.log1p(-min(level * level, 1.0 - 1e-16)), math.log(far))


class Members:
    """The laws at the knots and middles of a grid, in one direction.

    Attributes:
        grid: the grid.
        values: parameter values; knots first, then (for splines) middles.
    """

    def __init__(self, family: Family, grid: Grid, direction: str) -> None:
        """Bind the family to the grid's parameter values."""
        self.grid, self._direction, self._family = grid, direction, family
        middles = grid.middles if grid.splines else np.empty(0)
        self.values = np.concatenate([grid.knots, middles])

    def loss(self, index: int) -> PrivacyLoss:
        """Return the law of one member, with nodes of its own.

        Nodes accumulate in a law: one that has served a far tilt would be slow on every contour.
        """
        return self._family.loss(self.values[index], self._direction)

    def columns(self, reading: str, table: Values, radius: Floats) -> tuple[Values, Floats]:
        """Turn rows for members into rows for columns of the ledger.

        Args:
            reading: "splines", "worse" or "better".
            table: values at the members, nan where they are too far; shape (members, m).
            radius: error of these values, same shape.

        Returns:
            (coefficients, radius), shape (columns, m) each; nan in both for the counts of buckets
            next to a member that is too far.
        """
        n = self.grid.buckets
        out = np.zeros((self.grid.columns, table.shape[1]), table.dtype)
        errors = np.zeros(out.shape)
        if reading == "better":
            out[:n], errors[:n] = table[1 : n + 1], radius[1 : n + 1]
            return out, errors
        out[: n + 1], errors[: n + 1] = table[: n + 1], radius[: n + 1]
        if reading == "worse":
            return out, errors
        first = int(np.isnan(table[: n + 1].real).any(axis=1).sum())
        out[:n] = 0.0 if n - first >= 3 else np.nan
        out[: min(first, n)] = np.nan
        if n - first >= 3:
            knots, middles = table[first : n + 1], table[n + 1 + first :]
            a = spline_coefficients(knots)
            out[n + 1 + first :] = a
            measured = np.fmax(radius[first:n], radius[n + 1 + first :])
            errors[first:n] = spline_radius(knots, middles, a) + measured
        errors[np.isnan(out.real)] = np.nan
        return out, errors


class Tilts:
    """K at real tilts; grows to larger tilts on demand.

    Attributes:
        members: whose K it is.
        t: tilts, increasing by `RATIO`, shape (m,).
        k: K(t) and its error at the members, nan where too far; one array of shape (members, 2)
            for each tilt.
        complete: whether larger tilts are too far even for the best member.
        mass: log M(0) at the knots, zero for spline columns, shape (columns,).
    """

    def __init__(self, members: Members) -> None:
        """Tabulate the first tilts."""
        self.members = members
        self._losses = [members.loss(i) for i in range(members.values.size)]
        self._alive = np.ones(members.values.size, np.bool_)
        self._upper: dict[str, Floats] = {}
        self.t = np.empty(0)
        self.k: list[Floats] = []
        counts = members.grid.counts
        self.mass = np.zeros(members.grid.columns)
        self.mass[:counts] = [loss.log_finite for loss in self._losses[:counts]]
        self.complete = False
        self.extend(32)

    def extend(self, count: int) -> None:
        """Add up to `count` larger tilts."""
        for _ in range(count):
            t = float(self.t[-1]) * RATIO if self.t.size else FIRST
            row = np.full((self._alive.size, 2), np.nan)
            for i in np.flatnonzero(self._alive):
                row[i], self._losses[i] = _generating(self._losses[i], t)
            self._alive &= row[:, 0] < TOO_FAR
            row[~self._alive] = np.nan
            self.k.append(row)
            self.t = np.append(self.t, t)
            if not self._alive[self.members.grid.buckets]:
                self.complete = True
                return

    def upper(self, reading: str) -> Floats:
        """Return columns of K(t) plus its error, `FORBIDDEN` where useless, (columns, m)."""
        known = self._upper.get(reading, np.empty((self.members.grid.columns, 0)))
        for row in self.k[known.shape[1] :]:
            k, radius = self.members.columns(reading, row[:, :1], row[:, 1:])
            known = np.append(known, np.where(np.isnan(k), FORBIDDEN, k + radius), axis=1)
        self._upper[reading] = known
        return known


def _generating(loss: PrivacyLoss, t: float) -> tuple[tuple[float, float], PrivacyLoss]:
    """Return (K(t), its error), (inf, 0) where it diverges, and the law with nodes for t."""
    if not t < loss.strip[1] * (1.0 - 1e-6):
        return (math.inf, 0.0), loss
    try:
        if t > loss.tilts[1]:
            loss = loss.covering(-1.0, min(max(1.6 * t, 20.0), loss.strip[1] * (1.0 - 1e-7)))
    except NumericError:
        return (math.inf, 0.0), loss
    k, _, _, rounding = loss.generating(t)
    return (k, rounding + loss.tolerance), loss


class Contour:
    """All members tilted at one c, ready for any period.

    Attributes:
        at: index of c among the tilts.
        frequency: the |Im z| up to which members are resolved.
    """

    def __init__(self, tilts: Tilts, at: int, frequency: float) -> None:
        """Tilt the members that are not too far at c, resolved up to `frequency` or beyond."""
        self.tilts, self.at, self.frequency = tilts, at, frequency
        self.c = float(tilts.t[at])
        self._tilted: dict[int, tuple[PrivacyLoss, Tilted]] = {}
        for i in np.flatnonzero(~np.isnan(tilts.k[at][:, 0])):
            try:
                self._tilted[int(i)] = self._tilt(tilts.members.loss(int(i)))
            except NumericError:  # no answer for those who used it, see `ContourTable.of`
                continue

    def _tilt(self, loss: PrivacyLoss) -> tuple[PrivacyLoss, Tilted]:
        """Tilt one law, resolved up to the frequency from which on its smoothness takes over."""
        loss = loss.covering(-1.0, self.c, self.c, 1.01 * self.frequency)
        tilted = Tilted(Law.of((Step(loss, 1),)), self.c)
        enough = _variation_reach(tilted.tables[0], float(tilted.atoms[0]))
        if loss.frequency < enough < 64.0 * self.frequency:
            try:
                loss = loss.covering(-1.0, self.c, self.c, 1.01 * enough)
                tilted = Tilted(Law.of((Step(loss, 1),)), self.c)
            except NumericError:
                pass
        return loss, tilted

    def nodes(self, h: float, count: int) -> tuple[NDArray[np.complex128], Floats, Floats]:
        """Return log M(c), log phi(h), ..., log phi(count h) of the members, errors, log sup.

        Returns:
            Shapes (members, count + 1), the same, and (members,): a bound on log |phi| beyond the
            last node. nan for members that are too far.
        """
        k = self.tilts.k[self.at]
        values = np.full((k.shape[0], count + 1), np.nan, np.complex128)
        errors = np.full(values.shape, np.nan)
        sup = np.zeros(k.shape[0])
        for i, (loss, tilted) in self._tilted.items():
            re, im = tilted.log_phi(h, 1, count + 1)
            drift = h * np.arange(1.0, count + 1.0) * loss.generating(self.c)[1]
            values[i, 0], errors[i, 0] = k[i]
            values[i, 1:] = re + 1j * (np.unwrap(im) + drift)
            errors[i, 1:] = (4.0 * loss.tolerance + 1e-15) * np.exp(-re)
            sup[i] = log_sup(
                tilted.centred,
                tilted.weight,
                max(float(tilted.spread[0]), 1e-300),
                float(tilted.slack[0]),
                float(tilted.atoms[0]),
                np.ascontiguousarray(tilted.tables[0]),
                h * (count + 1),
                loss.frequency,
            )
        return values, errors, sup


@dataclass(frozen=True)
class ContourTable:
    """log phi at the nodes c + inh of one contour, as columns, and what bounds the rest.

    Attributes:
        c, period: the contour and T = 2 pi / h.
        nodes: number N of nodes with n >= 1.
        growth: |z(z+1)| / (c(c+1)) at n = 0 ... N.
        bands: first node of each error band, then N + 1.
        table: coefficients, shape (columns, 2 N + 3 + bands): Re log phi, Im log phi (with the
            mean), K(c), the bound on log |phi| beyond the last node, what lower bounds add to the
            error in every band, and the error of log phi in each band; errors are multiples of
            `growth`.
    """

    c: float
    period: float
    nodes: int
    growth: Floats
    bands: NDArray[np.int64]
    table: Floats

    @classmethod
    def of(cls, contour: Contour, period: float, nodes: int) -> dict[str, ContourTable]:
        """Evaluate a contour; one table for each reading of the ledger."""
        members, c = contour.tilts.members, contour.c
        h = 2.0 * math.pi / period
        z = c + 1j * h * np.arange(nodes + 1.0)
        growth = np.abs(z * (z + 1.0)) / (c * (c + 1.0))
        bands = np.append(2 ** np.arange(int(math.log2(nodes)) + 1) - 1, nodes + 1)
        values, errors, decay = contour.nodes(h, nodes)
        tables = {}
        for reading in READINGS if members.grid.splines else READINGS[1:]:
            a, radius = members.columns(reading, values, errors)
            gamma = np.maximum.reduceat(radius / growth, bands[:-1], axis=1)
            sup, beyond = _sup(members.grid, reading, decay), np.zeros(a.shape[0])
            if reading == "splines":
                beyond[members.grid.buckets] = _leave_out(values[members.grid.buckets], growth)
            parts = [a[:, 1:].real, a[:, 1:].imag, a[:, :1].real, sup[:, None], beyond[:, None]]
            table = np.concatenate([*parts, gamma], axis=1)
            # no table, no answer: an error this large leaves no bound behind
            table[np.isnan(table).any(axis=1)] = [0.0] * (table.shape[1] - 1) + [FORBIDDEN]
            tables[reading] = cls(c, period, nodes, growth, bands, np.ascontiguousarray(table))
        return tables


def _sup(grid: Grid, reading: str, decay: Floats) -> Floats:
    """Return the bound on log |phi| beyond the last node, per column."""
    n, out = grid.buckets, np.zeros(grid.columns)
    if reading == "better":
        out[:n] = decay[1 : n + 1]
        return out
    out[: n + 1] = decay[: n + 1]
    if reading == "splines":
        out[:n] = np.maximum(np.maximum(decay[:n], decay[1 : n + 1]), decay[n + 1 :])
        out *= SAMPLED
    return out


def _variation_reach(levels: Floats, atoms: float) -> float:
    """Frequency beyond which total variation alone keeps |phi| below 0.9, inf if none."""
    room = 0.9 - atoms - levels[:, 1]
    good = room > 0
    return float(np.min(levels[good, 0] / room[good])) if good.any() else math.inf


def _leave_out(log_m: NDArray[np.complex128], growth: Floats) -> float:
    """Error of leaving a step out, as a multiple of `growth`.

    A dominated law has |M(z) - M_dominated(z)| <= growth (M(c) - 1), because the difference of
    their profiles is non-negative and its transform is (M - M_dominated) / (z (z+1)).
    """
    size = np.exp(log_m[0].real + np.concatenate([[0.0], log_m[1:].real]))
    share = growth * np.expm1(log_m[0].real) / size
    return float((-np.log1p(-np.minimum(share, 1.0 - 1e-12)) / growth).max())
