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

Interpolation between members of a family with a proven error: alternating profiles.

A family alternates to order n in a coordinate x that grows towards privacy if the divided
differences over x of its profiles H_eps have the sign (-1)^k for k <= n, at every eps; order one is
domination (T9). On n + 1 neighbouring points, the polynomials through the first n and through the
last n of them then lie on two sides of H_eps between these points, at every eps at once, so that
H_eps is within half their gap of their mean. The gap is a non-negative combination of profiles, and
M(z) = z (z+1) int e^{z eps} H_eps d eps carries it over to complex z:

    |M(z) - mean(z)| <= |z (z+1)| / (c (c+1)) * gap(c) / 2,    c = Re z.

What is left is the distance of the ledger's spline from the mean, both known in closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.errors import DeclarationError
from mechc.loss.rounding import EPS

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


Values = NDArray[Any]

HIGHEST = 4  # order that is of use
POWERS = (1, 2, 4)  # of the parameter, tried as coordinates
_LEBESGUE = 1.25  # of three points at the ends and in the middle
_CUBIC = 0.0642  # max |tau (tau^2 - 1)| / 6 on [-1, 1]
_PARTS = 24  # of a bucket at most
_COLUMNS = 128  # columns handled at a time


def reached(x: Floats, low: Floats, high: Floats) -> int:
    """Return the order to which profiles alternate, as far as these values tell.

    Args:
        x: coordinates of neighbouring members, increasing.
        low: lower bounds on their profiles, shape (members, epsilons); their order is known.
        high: upper bounds on the same.
    """
    difference, error = (low + high) / 2, (high - low) / 2 + 4 * EPS * (high + 1e-300)
    for k in range(1, HIGHEST + 1):
        run = (x[k:] - x[:-k])[:, None]
        difference = (difference[:-1] - difference[1:]) / run
        error = (error[1:] + error[:-1]) / run
        if (difference < -error).any():
            return max(k - 1, 1)
    return HIGHEST


def subdivision(grid: Grid, order: int, power: int, share: float) -> Floats:
    """Return the positions of a family's members between the knots that its brackets need.

    Planned for K that decreases with the square of the parameter.

    Args:
        grid: the grid.
        order: to which the family alternates.
        power: of the coordinate.
        share: error, relative to K, that is aimed for.
    """
    bucket = abs(np.log(grid.best / grid.worst)) / grid.buckets
    factor = math.prod((2.0 + power * j) / (j + 1.0) for j in range(order))
    parts = min(max(math.ceil(bucket * (factor / share) ** (1.0 / order)), 2), _PARTS)
    inner = np.arange(grid.buckets)[:, None] + np.arange(1, parts) / parts
    near = 0.5 / parts  # brackets are one-sided at the ends
    return np.concatenate([inner.ravel(), [near, grid.buckets - near]])


class Brackets:
    """Brackets of a family around the splines of a grid, from some bucket on."""

    def __init__(self, grid: Grid, positions: Floats, first: int, order: int, power: int) -> None:
        """Prepare the linear maps from members to brackets.

        Args:
            grid: the grid.
            positions: of the members, knots first.
            first: bucket from which members are known.
            order: to which the family alternates.
            power: of the coordinate.
        """
        self._order, self._first = order, first
        self._members = np.flatnonzero(positions >= first)
        self._members = self._members[np.argsort(positions[self._members])]
        at = positions[self._members]
        x, span = grid.coordinate(at, power), np.arange(at.size - 1)
        begin = np.clip(span - 1, 0, at.size - 1 - order)
        self._window = begin[:, None] + np.arange(order + 1)
        middle, self._half = (x[1:] + x[:-1]) / 2, (x[1:] - x[:-1]) / 2
        y = (x[self._window] - middle[:, None]) / self._half[:, None]
        self._taylor, self._gap = _mean(y), _half_gap(y, begin)
        self._bucket = np.minimum(at[:-1].astype(np.int64), grid.buckets - 1) - first
        self._starts = np.searchsorted(self._bucket, np.arange(grid.buckets - first))
        inside = np.stack([at[:-1], (at[1:] + at[:-1]) / 2, at[1:]]) - first - self._bucket
        self._basis = basis(inside)
        centre = (grid.coordinate((at[1:] + at[:-1]) / 2, power) - middle) / self._half
        self._centre = centre[:, None]
        self._stretch = grid.stretch(at, power) / self._half
        self._width = np.diff(at)[:, None] / 2.0

    def radius(self, log_m: Values, error: Floats, growth: Floats | None, spline: Values) -> Floats:
        """Bound how far e^spline is from M of every member in each bucket.

        Args:
            log_m: log M at all members, nan where unknown, shape (members, m).
            error: relative error of M, same shape.
            growth: |z (z+1)| / (c (c+1)) of the columns, the first of which is c itself, shape
                (m,); None where all columns are real.
            spline: coefficients from `first` on, shape (buckets - first + 3, m).

        Returns:
            Shape (buckets - first, m): |prod M / e^{sum of splines} - 1| is at most
            e^{sum of these} - 1. inf where the profiles turn out not to alternate.
        """
        log_m, error = log_m[self._members], error[self._members]
        base = None if growth is None else self._gaps(log_m[:, :1], error[:, :1])
        growth = np.ones(log_m.shape[1]) if growth is None else growth
        parts = []
        for begin in range(0, log_m.shape[1], _COLUMNS):
            s = slice(begin, begin + _COLUMNS)
            parts.append(self._part(log_m[:, s], error[:, s], growth[s], spline[:, s], base))
        return np.concatenate(parts, axis=1)

    def _gaps(self, log_m: Values, error: Floats) -> tuple[Values, Floats]:
        """Half the gap between the polynomials, and the error of it."""
        off = np.exp(log_m.real) * (error + 4 * EPS)
        noise = np.einsum("iw,iwm->im", np.abs(self._gap), off[self._window])
        return np.einsum("iw,iwm->im", self._gap, np.expm1(log_m)[self._window]), noise

    def _part(
        self,
        log_m: Values,
        error: Floats,
        growth: Floats,
        spline: Values,
        base: tuple[Values, Floats] | None,
    ) -> Floats:
        gap, noise = self._gaps(log_m, error)
        real, slack = (gap, noise) if base is None else base
        allowed = growth * (np.maximum(real.real, 0.0) + slack)
        alternating = (np.abs(gap) <= 1.0001 * allowed + noise) & (real.real >= -slack)

        size = np.exp(log_m.real)
        noise = 4.0 * (size * (error + 4 * EPS))[self._window].max(axis=1)
        mean = np.einsum("ikw,iwm->kim", self._taylor, np.expm1(log_m)[self._window])
        a = spline[self._bucket[:, None] + np.arange(4)]
        points = np.einsum("siw,iwm->sim", self._basis, a)
        y = np.stack([np.full_like(self._centre, -1.0), self._centre, np.ones_like(self._centre)])
        apart = np.abs(np.expm1(points) - _polynomial(mean, y)).max(axis=0)

        one, two, three = (np.abs(np.diff(a, n=k, axis=1)).max(axis=1) for k in (1, 2, 3))
        slope, bend, third = one * self._width, two * self._width**2, three * self._width**3
        high = np.exp(points[1].real + slope)
        remainder = self._third_derivative(np.abs(mean))
        remainder += high * (third + 3.0 * slope * bend + slope**3)
        off = _LEBESGUE * apart + _CUBIC * remainder + allowed + noise
        found = np.log1p(off * np.exp(slope - points[1].real))
        first, second = weight_error()
        found += (1.01 / CELLS + first) * one + second * two
        found[~alternating] = np.where(np.isnan(found[~alternating]), np.nan, np.inf)
        return np.asarray(np.maximum.reduceat(found, self._starts, axis=0))

    def _third_derivative(self, mean: Floats) -> Floats:
        """Bound the third derivative of the mean polynomial over an interval's [-1, 1]."""
        c = np.zeros((4, *mean.shape[1:]))
        c[: self._order] = mean
        one, two, three = c[1] + 2 * c[2] + 3 * c[3], 2 * c[2] + 6 * c[3], 6 * c[3]
        u, v, w = (row[:, None] for row in self._stretch)
        return np.asarray(three * u**3 + 3 * two * u * v + one * w)


def _polynomial(coefficients: Values, y: Floats) -> Values:
    """Evaluate polynomials, lowest coefficient first, at each y."""
    value = np.zeros(1)
    for c in coefficients[::-1]:
        value = value * y + c
    return value


def _mean(y: Floats) -> Floats:
    """Map values at the points y to coefficients of the mean of both polynomials, (i, n, n + 1)."""
    n = y.shape[1] - 1
    out = np.zeros((y.shape[0], n, n + 1))
    for begin in (0, 1):
        powers = y[:, begin : begin + n, None] ** np.arange(n)
        out[:, :, begin : begin + n] += np.linalg.inv(powers) / 2.0
    return out


def _half_gap(y: Floats, begin: NDArray[np.int64]) -> Floats:
    """Map values at the points y to half the largest gap between both polynomials on [-1, 1].

    The gap at y is (-1)^n times the divided difference, the distance of the outer points, and the
    product of the distances to the inner points.
    """
    n = y.shape[1] - 1
    inner = y[:, 1:-1]
    ends = (np.abs(inner) - 1.0) ** 2 < 1e-18  # the ends of the interval itself
    largest = np.where(ends, 1.0, np.abs(inner) + 1.0).prod(axis=1)
    largest *= np.where(ends.sum(axis=1) == 2, 1.0, 2.0 ** ends.sum(axis=1))
    apart = y[:, :, None] - y[:, None, :] + np.eye(n + 1)
    scale = (-1.0) ** n * (y[:, -1] - y[:, 0]) * largest / 2.0
    return np.asarray(scale[:, None] / apart.prod(axis=2))
