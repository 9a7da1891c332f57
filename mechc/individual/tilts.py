"""Generating functions along the grid: K(t) of every member at real tilts, as ledger columns.

Everything a person needs is a sum over steps of some function of the step's parameter, hence a
product of the ledger's row with columns of a table. A table is evaluated at the knots and, for
splines, at members between them, from which the error of the spline is proven (`brackets`). It
comes in three readings of the ledger:

* "splines": the steps as they were, up to that error;
* "worse": every step at the worse knot of its bucket, an upper bound by T9;
* "better": every step at the better knot, steps beyond the last knot left out, a lower bound.

Members whose K(t) exceeds `TOO_FAR` at a tilt cannot matter there: their columns are set to a value
that keeps every person who used them away from that tilt.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.individual.family import Family
from mechc.individual.splines import Brackets, Grid, spline_coefficients, subdivision
from mechc.loss import moments
from mechc.loss.jit import compiled
from mechc.loss.privacy_loss import PrivacyLoss

Floats = NDArray[np.float64]
Values = NDArray[Any]

TOO_FAR = 100.0  # nats of K per step beyond which a tilt is of no use to anyone
FORBIDDEN = 1e12  # stands for K where it is too far, or diverges
RATIO = 1.12  # between neighbouring tilts
_TILTS = 0.05 * RATIO ** np.arange(168.0)  # up to 8e6
_NEAR, _STRIDE = 20.0, 1.6  # tilts covered at first, and how much further every time
STENCIL = 3  # knots outside a bucket that its spline depends on
_ERROR = 2e-6  # of K between knots, where the family allows it


class Members:
    """The laws at the knots of a grid and between them, in one direction.

    Attributes:
        grid: the grid.
        positions: places on the grid; knots first, then (for splines) what brackets need.
        values: parameter values there.
    """

    def __init__(self, family: Family, grid: Grid, direction: str) -> None:
        """Bind the family to the grid's parameter values."""
        self.grid, self._direction, self._family = grid, direction, family
        self._alternates = family.alternates
        between = subdivision(grid, *family.alternates, _ERROR) if grid.splines else np.empty(0)
        self.positions = np.concatenate([np.arange(grid.buckets + 1.0), between])
        self.values = grid.values(self.positions)
        self._brackets: dict[int, Brackets] = {}
        self._losses: dict[int, PrivacyLoss] = {}
        self._rows: dict[int, _Row] = {}

    def loss(self, index: int) -> PrivacyLoss:
        """Return the law of one member, with nodes of its own.

        Nodes accumulate in a law: one that has served a far tilt would be slow on every contour.
        """
        if index not in self._losses:
            self._losses[index] = self._family.loss(self.values[index], self._direction)
        return self._losses[index].fork()

    @property
    def untouched(self) -> float:
        """The parameter value that stands for "not touched"."""
        return self._family.untouched

    def at(self, value: float) -> PrivacyLoss:
        """Return the law at any parameter value."""
        return self._family.loss(value, self._direction)

    def row(self, index: int, reach: float) -> Floats:
        """Return K, its error and K'' of one member at useful tilts up to `reach` or further."""
        if index not in self._rows:
            self._rows[index] = _Row(self.loss(index))
        return self._rows[index].up_to(reach)

    def needed(self, bucket: int, reach: int = STENCIL) -> NDArray[np.bool_]:
        """Return which members tables for this bucket and more private ones depend on."""
        return self.positions >= bucket - reach

    def columns(
        self, reading: str, table: Values, radius: Floats, growth: Floats | None = None
    ) -> tuple[Values, Floats]:
        """Turn rows for members into rows for columns of the ledger.

        Args:
            reading: "splines", "worse" or "better".
            table: values at the members, nan where they are too far; shape (members, m): K at real
                tilts, or K(c) and log phi at nodes.
            radius: error of log M, same shape.
            growth: |z (z+1)| / (c (c+1)) of the nodes, shape (m,); None for real tilts.

        Returns:
            (coefficients, radius), shape (columns, m) each; nan in both for the counts of buckets
            next to a member that is too far.
        """
        n = self.grid.buckets
        out = self.coefficients(reading, table)
        errors = np.zeros(out.shape)
        if reading == "better":
            errors[:n] = radius[1 : n + 1]
            return out, errors
        errors[: n + 1] = radius[: n + 1]
        first = _unknown(table[: n + 1])
        if reading == "splines" and n - first >= 3:
            log_m, a = table, out[n + 1 + first :]
            if growth is not None:  # log phi is log M less log M(c)
                log_m, a = table.copy(), a.copy()
                log_m[:, 1:] += log_m[:, :1]
                a[:, 1:] += a[:, :1]
            errors[first:n] = self._bracketed(first).radius(log_m, radius, growth, a)
        errors[np.isnan(out.real)] = np.nan
        return out, errors

    def coefficients(self, reading: str, table: Values) -> Values:
        """Turn rows for members into rows for columns of the ledger, without their errors.

        Args:
            reading: as for `columns`.
            table: as for `columns`.
        """
        n = self.grid.buckets
        out = np.zeros((self.grid.columns, table.shape[1]), table.dtype)
        if reading == "better":
            out[:n] = table[1 : n + 1]
            return out
        out[: n + 1] = table[: n + 1]
        if reading == "splines":
            first = _unknown(table[: n + 1])
            out[:n] = 0.0 if n - first >= 3 else np.nan
            out[: min(first, n)] = np.nan
            if n - first >= 3:
                out[n + 1 + first :] = spline_coefficients(table[first : n + 1])
        return out

    def _bracketed(self, first: int) -> Brackets:
        if first not in self._brackets:
            self._brackets[first] = Brackets(self.grid, self.positions, first, *self._alternates)
        return self._brackets[first]


def _unknown(knots: Values) -> int:
    """Return how many knots, the worst ones, are too far in some column."""
    return int(np.isnan(knots.real).any(axis=1).sum())


class Tilts:
    """K at real tilts.

    Attributes:
        members: whose K it is.
        bucket: the most revealing bucket that is tabulated.
        t: tilts, increasing by `RATIO`.
        complete: whether larger tilts are too far even for the best member.
        k: K(t), its error and K''(t), nan where too far, shape (members, 3, tilts).
    """

    def __init__(self, members: Members, bucket: int, reach: float) -> None:
        """Tabulate tilts up to `reach`, or to where they are too far for everybody."""
        self.members, self.bucket = members, bucket
        given = _TILTS[reach >= _TILTS]
        useful = members.row(members.grid.buckets, reach).shape[1]
        self.t = given[:useful]
        self.complete = useful < given.size or given.size == _TILTS.size
        needed = members.needed(bucket)
        self.k = np.full((needed.size, 3, self.t.size), np.nan)
        for i in np.flatnonzero(needed):
            values = members.row(int(i), reach)[:, : self.t.size]
            self.k[i, :, : values.shape[1]] = values
        self._columns: dict[str, Floats] = {}

    def columns(self, reading: str) -> Floats:
        """Return columns of K(t) plus its error, the error, and K''(t), (3, columns, tilts).

        K(t) is `FORBIDDEN` where the tilt is useless.
        """
        if reading not in self._columns:
            members, k = self.members, self.k
            found = np.empty((3, members.grid.columns, self.t.size))
            unknown = np.isnan(k[: members.grid.counts, 0]).sum(axis=0)
            for first in np.unique(unknown):
                m = np.flatnonzero(unknown == first)
                value, error = members.columns(reading, k[:, 0, m], k[:, 1, m])
                bend = members.coefficients(reading, k[:, 2, m])
                useless = np.isnan(value)
                stand_in = zip((value + error, error, bend), (FORBIDDEN, 0.0, 0.0), strict=True)
                found[:, :, m] = [np.where(useless, away, v) for v, away in stand_in]
            self._columns[reading] = found
        return self._columns[reading]

    def around(self, reading: str, begin: int, end: int, stride: int) -> Floats:
        """Return columns next to each other: errors, K(t) plus its error, K''(t).

        Args:
            reading: as for `columns`.
            begin: first tilt, a multiple of `stride`.
            end: one behind the last tilt.
            stride: errors and K'' are returned for every so many tilts.
        """
        k, error, bend = self.columns(reading)[:, :, begin:end]
        return np.concatenate([error[:, ::stride], k, bend[:, ::stride]], axis=1)


@compiled(
    "float64[:,::1](float64[::1], float64[::1], float64, float64, float64[::1])",
    nogil=True,
)
def _generating(loss, log_weight, log_p_mass, log_q_mass, t):  # type: ignore[no-untyped-def]
    """Return rows K(t), rounding of K(t), K''(t) at all tilts."""
    out = np.empty((3, t.size))
    for i in range(t.size):
        found = moments.generating(loss, log_weight, log_p_mass, log_q_mass, t[i])
        out[0, i], out[1, i], out[2, i] = found[0], found[3], found[2]
    return out


class _Row:
    """K, its error and K'' of one member at its useful tilts, as far as somebody asked.

    Useful are the tilts within the strip before K(t) exceeds `TOO_FAR`. The law is widened in
    strides until they are covered, or the quadrature gives up.
    """

    def __init__(self, loss: PrivacyLoss) -> None:
        self._loss = loss
        self._t = _TILTS[loss.strip[1] * (1.0 - 1e-6) > _TILTS]
        self.values = np.empty((3, 0))

    def up_to(self, reach: float) -> Floats:
        """Return shape (3, useful tilts), at least those up to `reach`."""
        while (begin := self.values.shape[1]) < self._t.size and self._t[begin] <= reach:
            far = max(_STRIDE * float(self._t[begin]), _NEAR)
            end = int(np.searchsorted(self._t, far, side="right"))
            try:
                loss = self._loss = self._loss.covering(-1.0, float(self._t[end - 1]))
            except NumericError:
                self._t = self._t[:begin]
                break
            masses = (loss.log_finite, loss.log_q_finite)
            part = _generating(*loss.nodes(), *masses, self._t[begin:end])
            part[1] += loss.tolerance
            useful = int(np.argmax(np.append(part[0], math.inf) >= TOO_FAR))
            self.values = np.append(self.values, part[:, :useful], axis=1)
            if useful < end - begin:
                self._t = self._t[: begin + useful]
        return self.values
