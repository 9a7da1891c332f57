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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.characteristic import Law, Tilted
from mechc.errors import NumericError
from mechc.individual import decay
from mechc.individual.account import THREADS
from mechc.individual.family import Family
from mechc.individual.grid import Grid, spline_coefficients, spline_radius
from mechc.loss.measure import PrivacyLoss, Step

Floats = NDArray[np.float64]
Values = NDArray[Any]

READINGS = ("splines", "worse", "better")
TOO_FAR = 100.0  # nats of K per step beyond which a tilt is of no use to anyone
FORBIDDEN = 1e12  # stands for K where it is too far, or diverges
FIRST, RATIO = 0.05, 1.12  # smallest tilt, and the ratio between neighbouring ones
STENCIL = 3  # knots outside a bucket that its spline depends on
FURTHER = 8.0  # frequencies beyond the nodes that may be looked at to prove decay
SAMPLED = 0.9  # share of the measured decay that is relied on between knots


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
        k: K(t), its error, and K''(t) at the members, nan where too far; one array of shape
            (members, 3) for each tilt.
        complete: whether larger tilts are too far even for the best member.
        mass: log M(0) at the knots, zero for spline columns, shape (columns,).
    """

    def __init__(self, members: Members) -> None:
        """Tabulate the first tilts."""
        self.members = members
        self._losses = [members.loss(i) for i in range(members.values.size)]
        self._alive = np.ones(members.values.size, np.bool_)
        self._columns: dict[str, Floats] = {}
        self.t = np.empty(0)
        self.k: list[Floats] = []
        counts = members.grid.counts
        self.mass = np.zeros(members.grid.columns)
        self.mass[:counts] = [loss.log_finite for loss in self._losses[:counts]]
        self.complete = False
        self.extend(64)

    def extend(self, count: int) -> None:
        """Add up to `count` larger tilts."""
        for _ in range(count):
            t = float(self.t[-1]) * RATIO if self.t.size else FIRST
            row = np.full((self._alive.size, 3), np.nan)
            for i in np.flatnonzero(self._alive):
                row[i], self._losses[i] = _generating(self._losses[i], t)
            self._alive &= row[:, 0] < TOO_FAR
            row[~self._alive] = np.nan
            self.k.append(row)
            self.t = np.append(self.t, t)
            if not self._alive[self.members.grid.buckets]:
                self.complete = True
                return

    def columns(self, reading: str) -> Floats:
        """Return columns of K(t) plus its error, the error, and K''(t), (3, columns, m).

        K(t) is `FORBIDDEN` where the tilt is useless.
        """
        known = self._columns.get(reading, np.empty((3, self.members.grid.columns, 0)))
        new = [known]
        for row in self.k[known.shape[2] :]:
            pair, radius = self.members.columns(reading, row[:, [0, 2]], row[:, [1, 1]])
            k, error, bend = pair[:, 0], radius[:, 0], pair[:, 1]
            useless = np.isnan(k)
            three = np.stack([k + error, error, bend])
            three[:, useless] = [[FORBIDDEN], [0.0], [0.0]]
            new.append(three[:, :, None])
        self._columns[reading] = np.concatenate(new, axis=2)
        return self._columns[reading]


def _generating(loss: PrivacyLoss, t: float) -> tuple[tuple[float, ...], PrivacyLoss]:
    """Return (K(t), its error, K''(t)), inf where it diverges, and the law with nodes for t."""
    if not t < loss.strip[1] * (1.0 - 1e-6):
        return (math.inf, 0.0, 0.0), loss
    try:
        if t > loss.tilts[1]:
            loss = loss.covering(-1.0, min(max(1.6 * t, 20.0), loss.strip[1] * (1.0 - 1e-7)))
    except NumericError:
        return (math.inf, 0.0, 0.0), loss
    k, _, bend, rounding = loss.generating(t)
    return (k, rounding + loss.tolerance, bend), loss


class Contour:
    """All members tilted at one c, ready for any period.

    Attributes:
        at: index of c among the tilts.
        frequency: the |Im z| up to which members are resolved.
        bucket: the first bucket that is needed.
    """

    def __init__(self, tilts: Tilts, at: int, frequency: float, bucket: int) -> None:
        """Tilt the members that matter and are not too far, resolved up to `frequency`."""
        self.tilts, self.at, self.frequency, self.bucket = tilts, at, frequency, bucket
        self.c = float(tilts.t[at])
        knot = np.arange(tilts.members.values.size) % tilts.members.grid.counts
        near = ~np.isnan(tilts.k[at][:, 0]) & (knot >= bucket - STENCIL)
        chosen = [int(i) for i in np.flatnonzero(near)]
        with ThreadPoolExecutor(THREADS) as pool:
            self._tilted = dict(zip(chosen, pool.map(self._tilt, chosen), strict=True))

    def _tilt(self, index: int) -> tuple[PrivacyLoss, Tilted, Floats] | None:
        """Tilt one law, resolved up to the frequency from which on its smoothness takes over.

        None where the quadrature gives up: then there is no answer for those who used the member.
        """
        loss = self.tilts.members.loss(index)
        try:
            loss = loss.covering(-1.0, self.c, self.c, 1.01 * self.frequency)
        except NumericError:
            return None
        variation = decay.variation(loss, self.c)
        enough = decay.enough(variation)
        if loss.frequency < enough < FURTHER * self.frequency:
            try:
                loss = loss.covering(-1.0, self.c, self.c, 1.01 * enough)
                variation = decay.variation(loss, self.c)
            except NumericError:  # then nothing is proven about this step beyond the nodes
                pass
        return loss, Tilted(Law.of((Step(loss, 1),)), self.c), variation

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
        for i, found in self._tilted.items():
            if found is None:
                continue
            loss, tilted, variation = found
            re, im = tilted.log_phi(h, 1, count + 1)
            drift = h * np.arange(1.0, count + 1.0) * loss.generating(self.c)[1]
            values[i, 0], errors[i, 0] = k[i, :2]
            values[i, 1:] = re + 1j * (np.unwrap(im) + drift)
            errors[i, 1:] = (4.0 * loss.tolerance + 2.0 * tilted.lost + 1e-15) * np.exp(-re)
            spread, slack = float(tilted.spread[0]), float(tilted.slack[0])
            law = (tilted.centred, tilted.weight, spread, slack, variation)
            sup[i] = decay.log_sup(*law, h * (count + 1), loss.frequency)
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
        values, errors, log_sup = contour.nodes(h, nodes)
        tables = {}
        for reading in READINGS if members.grid.splines else READINGS[1:]:
            a, radius = members.columns(reading, values, errors)
            gamma = np.maximum.reduceat(radius / growth, bands[:-1], axis=1)
            sup, beyond = _sup(members.grid, reading, log_sup), np.zeros(a.shape[0])
            if reading == "splines":
                beyond[members.grid.buckets] = _leave_out(values[members.grid.buckets], growth)
            parts = [a[:, 1:].real, a[:, 1:].imag, a[:, :1].real, sup[:, None], beyond[:, None]]
            table = np.concatenate([*parts, gamma], axis=1)
            # no table, no answer: an error this large leaves no bound behind
            table[np.isnan(table).any(axis=1)] = [0.0] * (table.shape[1] - 1) + [FORBIDDEN]
            tables[reading] = cls(c, period, nodes, growth, bands, np.ascontiguousarray(table))
        return tables


def _sup(grid: Grid, reading: str, log_sup: Floats) -> Floats:
    """Return the bound on log |phi| beyond the last node, per column."""
    n, out = grid.buckets, np.zeros(grid.columns)
    if reading == "better":
        out[:n] = log_sup[1 : n + 1]
        return out
    out[: n + 1] = log_sup[: n + 1]
    if reading == "splines":
        out[:n] = np.maximum(np.maximum(log_sup[:n], log_sup[1 : n + 1]), log_sup[n + 1 :])
        out *= SAMPLED
    return out


def _leave_out(log_m: NDArray[np.complex128], growth: Floats) -> float:
    """Error of leaving a step out, as a multiple of `growth`.

    A dominated law has |M(z) - M_dominated(z)| <= growth (M(c) - 1), because the difference of
    their profiles is non-negative and its transform is (M - M_dominated) / (z (z+1)).
    """
    size = np.exp(log_m[0].real + np.concatenate([[0.0], log_m[1:].real]))
    share = growth * np.expm1(log_m[0].real) / size
    return float((-np.log1p(-np.minimum(share, 1.0 - 1e-12)) / growth).max())
