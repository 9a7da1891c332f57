"""Generating functions along the grid: K(t) of every member at real tilts, as ledger columns.

Everything a person needs is a sum over steps of some function of the step's parameter, hence a
product of the ledger's row with columns of a table. A table is evaluated at the knots and, for
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.individual.family import Family
from mechc.individual.grid import Grid, spline_coefficients, spline_radius
from mechc.loss.measure import PrivacyLoss

Floats = NDArray[np.float64]
Values = NDArray[Any]

TOO_FAR = 100.0  # nats of K per step beyond which a tilt is of no use to anyone
FORBIDDEN = 1e12  # stands for K where it is too far, or diverges
FIRST, RATIO = 0.05, 1.12  # smallest tilt, and the ratio between neighbouring ones
STENCIL = 3  # knots outside a bucket that its spline depends on


class Members:
    """The laws at the knots and middles of a grid, in one direction.

    Attributes:
        grid: the grid.
        values: parameter values; knots first, then (for splines) middles.
        bucket: most revealing bucket that anybody has steps in.
    """

    def __init__(self, family: Family, grid: Grid, direction: str, bucket: int) -> None:
        """Bind the family to the grid's parameter values."""
        self.grid, self._direction, self._family = grid, direction, family
        self.bucket = bucket
        middles = grid.middles if grid.splines else np.empty(0)
        self.values = np.concatenate([grid.knots, middles])

    def loss(self, index: int) -> PrivacyLoss:
        """Return the law of one member, with nodes of its own.

        Nodes accumulate in a law: one that has served a far tilt would be slow on every contour.
        """
        return self._family.loss(self.values[index], self._direction)

    def needed(self, bucket: int, reach: int = STENCIL) -> NDArray[np.bool_]:
        """Return which members tables for this bucket and more private ones depend on."""
        return np.arange(self.values.size) % self.grid.counts >= bucket - reach

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
    """

    def __init__(self, members: Members) -> None:
        """Tabulate the first tilts."""
        self.members = members
        self._losses = [members.loss(i) for i in range(members.values.size)]
        self._alive = members.needed(members.bucket)
        self._columns: dict[str, Floats] = {}
        self.t = np.empty(0)
        self.k: list[Floats] = []
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
