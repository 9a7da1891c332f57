"""The parameter grid: from a value to columns of the ledger, and from tables at knots to columns.

Knots run from the most revealing member of the family to the most private one, evenly in the
logarithm of the parameter ("geometric") or in the parameter itself ("linear", as in section D.2 of
Koskela, Tobaben and Honkela 2023). A person's row holds

* counts (the paper): one for the bucket whose knot is the next worse value, the last one for
  values better than the last knot. Rounding to the safe side costs a bucket's width;
* spline weights, unless the grid is told to do without: the value is rounded down to one of
  `CELLS` cells of its bucket, and the four cubic B-splines that do not vanish there get their
  values, non-negative with sum `ONE`. A table f known at the knots is turned into spline
  coefficients a; then sum over steps of f(value) = sum over columns of weight * a / ONE, up to an
  error of fourth order in the width of a bucket, proven by `brackets` and charged to the bucket's
  count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.errors import DeclarationError

Floats = NDArray[np.float64]

CELLS = 1 << 16
ONE = 1 << 15


@dataclass(frozen=True)
class Grid:
    """A parameter grid.

    Attributes:
        worst: most revealing parameter value, knot 0.
        best: most private parameter value, the last knot.
        buckets: number of buckets between them.
        spacing: "geometric" or "linear".
        splines: whether the ledger holds spline weights (else counts).
    """

    worst: float
    best: float
    buckets: int
    spacing: str
    splines: bool

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.spacing not in ("geometric", "linear"):
            raise DeclarationError(f"spacing={self.spacing!r} (expected 'geometric' or 'linear')")
        whole = isinstance(self.buckets, int | np.integer)
        if not whole or not 4 <= self.buckets <= 1 << 16:
            raise DeclarationError(f"buckets={self.buckets!r} (expected 4 <= buckets <= 65536)")

    @property
    def counts(self) -> int:
        """Number of count columns."""
        return self.buckets + 1

    @property
    def weights(self) -> int:
        """Number of spline columns."""
        return self.buckets + 3 if self.splines else 0

    @property
    def columns(self) -> int:
        """Columns of a row, counts first."""
        return self.counts + self.weights

    @property
    def knots(self) -> Floats:
        """Parameter values at the ends of the buckets, worst first, shape (buckets + 1,)."""
        return self.values(np.arange(self.buckets + 1.0))

    def values(self, position: NDArray[Any]) -> Floats:
        """Return the parameter at positions 0 (worst) to buckets (best)."""
        share = position / self.buckets
        if self.spacing == "linear":
            return self.worst + share * (self.best - self.worst)
        return np.asarray(self.worst * (self.best / self.worst) ** share)

    def position(self, values: Floats) -> Floats:
        """Return where values are, 0 (worst) to buckets (best); the inverse of `values`."""
        a, b = self.scale
        return np.asarray(a * (values if self.spacing == "linear" else np.log(values)) + b)

    def coordinate(self, position: Floats, power: int) -> Floats:
        """Return how much more private positions are than the worst knot, to some power."""
        ratio = self.values(position) / self.worst
        return np.asarray(ratio ** (power if self.best > self.worst else -power))

    def stretch(self, position: Floats, power: int) -> Floats:
        """Bound the derivatives of `coordinate` between neighbouring positions.

        Args:
            position: increasing, shape (m + 1,).
            power: of the coordinate.

        Returns:
            Largest first, second and third derivative if every interval has length 2, (3, m).
        """
        half, x = np.diff(position) / 2.0, self.coordinate(position, power)
        if self.spacing == "geometric":
            rate = power * abs(np.log(self.best / self.worst)) / self.buckets
            return np.asarray(np.stack([(rate * half) ** k * x[1:] for k in (1, 2, 3)]))
        signed = power if self.best > self.worst else -power
        ratio, slope = self.values(position) / self.worst, (self.best / self.worst - 1.0)
        rows, falling = [], 1.0
        for k in (1, 2, 3):
            falling *= signed - k + 1
            ends = np.abs(falling * ratio ** (signed - k))
            rows.append(np.maximum(ends[1:], ends[:-1]) * np.abs(slope / self.buckets * half) ** k)
        return np.stack(rows)

    @property
    def scale(self) -> tuple[float, float]:
        """(a, b) with position = a x + b, x the parameter or its logarithm."""
        ends = np.array([self.worst, self.best])
        x = ends if self.spacing == "linear" else np.log(ends)
        return float(self.buckets / (x[1] - x[0])), float(-self.buckets * x[0] / (x[1] - x[0]))


def spline_weights() -> NDArray[np.uint16]:
    """Return the four B-spline values for each cell, integers with sum `ONE`, (CELLS, 4)."""
    exact = basis(np.arange(CELLS) / CELLS) * ONE
    weights = np.floor(exact)
    missing = (ONE - weights.sum(axis=1)).astype(int)
    order = np.argsort(weights - exact, axis=1)  # largest remainders first
    for rank in range(3):
        rows = np.flatnonzero(missing > rank)
        weights[rows, order[rows, rank]] += 1
    return weights.astype(np.uint16)


def spline_coefficients(knots: Floats) -> Floats:
    """Return spline coefficients of tables known at the knots, without solving a system.

    a = f - d2 f / 6 + d4 f / 36 with central differences: exact for cubics, and local, so that a
    steep table spoils only its neighbourhood. Two knots beyond each end are extrapolated.

    Args:
        knots: shape (n + 1, ...), real or complex.

    Returns:
        Shape (n + 3, ...).
    """
    f = knots
    before = [4 * f[0] - 6 * f[1] + 4 * f[2] - f[3]]
    before.insert(0, 4 * before[0] - 6 * f[0] + 4 * f[1] - f[2])
    before.insert(0, 4 * before[0] - 6 * before[1] + 4 * f[0] - f[1])
    after = [4 * f[-1] - 6 * f[-2] + 4 * f[-3] - f[-4]]
    after.append(4 * after[0] - 6 * f[-1] + 4 * f[-2] - f[-3])
    after.append(4 * after[1] - 6 * after[0] + 4 * f[-1] - f[-2])
    wide = np.concatenate([np.stack(before), f, np.stack(after)])
    second = wide[2:] - 2 * wide[1:-1] + wide[:-2]
    fourth = second[2:] - 2 * second[1:-1] + second[:-2]
    return np.asarray(wide[2:-2] - second[1:-1] / 6 + fourth / 36)


@cache
def weight_error() -> tuple[float, float]:
    """Bound what rounding weights to integers changes a spline by: (per slope, per bend).

    Slope is the largest first difference of neighbouring coefficients, bend the largest second one:
    the rounded-off parts of a cell's weights have sum zero, and their first moment is small.
    """
    f = np.arange(CELLS) / CELLS
    off = spline_weights() / ONE - basis(f)
    moment = np.abs(off @ (np.arange(4) - 1.5)).max()
    return float(moment), float(np.abs(off[:, 1:3]).sum(axis=1).max())


def basis(f: Floats) -> Floats:
    """Return the four cubic B-splines at places f in [0, 1] of a bucket, shape (..., 4)."""
    b = [(1 - f) ** 3, 3 * f**3 - 6 * f**2 + 4, -3 * f**3 + 3 * f**2 + 3 * f + 1, f**3]
    return np.stack(b, axis=-1) / 6.0
