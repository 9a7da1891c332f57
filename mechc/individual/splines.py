"""The parameter grid: from a value to columns of the ledger, and from tables at knots to columns.

Knots run from the most revealing member of the family to the most private one. With r the loss of a
member relative to the worst (worst / parameter for noise, parameter / worst otherwise), "geometric"
knots are even in crowding r + log r: in the logarithm where noise is large, where K is a power of
r, and in r itself where it is small, where K bends most. "linear" ones are even in the parameter,
as in section D.2 of Koskela, Tobaben and Honkela (2023). A person's row holds

* spline weights: the four cubic B-splines that do not vanish at the value get their values there,
  non-negative, with sum `ONE`. A table f known at the knots is turned into spline coefficients a;
  then sum over steps of f(value) = sum over columns of weight * a / ONE, up to an error of fourth
  order in the width of a bucket, proven by `Brackets` and charged to the columns: B-splines add up
  to one, so that a bound for a column is the largest one of the buckets it reaches over. Values
  better than the last knot have a column of their own;
* or, if the grid is told so, counts (the paper): one for the bucket whose knot is the next worse
  value, the last one for values better than the last knot. Rounding to the safe side costs a
  bucket's width.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mechc.errors import DeclarationError
from mechc.loss.rounding import EPS

Floats = NDArray[np.float64]

ONE = 1 << 20  # units of a spline weight


@dataclass(frozen=True)
class Grid:
    """A parameter grid.

    Attributes:
        worst: most revealing parameter value, knot 0.
        best: most private parameter value, the last knot.
        buckets: number of buckets between them.
        spacing: "geometric" or "linear".
        splines: whether the ledger holds spline weights (else counts).
        crowding: how much more densely geometric knots lie at the worst end than at the best.
    """

    worst: float
    best: float
    buckets: int
    spacing: str
    splines: bool
    crowding: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.spacing not in ("geometric", "linear"):
            raise DeclarationError(f"spacing={self.spacing!r} (expected 'geometric' or 'linear')")
        whole = isinstance(self.buckets, int | np.integer)
        if not whole or not 4 <= self.buckets <= 1 << 16:
            raise DeclarationError(f"buckets={self.buckets!r} (expected 4 <= buckets <= 65536)")

    @property
    def columns(self) -> int:
        """Columns of a row."""
        return self.buckets + (4 if self.splines else 1)

    @property
    def unit(self) -> int:
        """What a step adds to a row in all."""
        return ONE if self.splines else 1

    @property
    def knots(self) -> Floats:
        """Parameter values at the ends of the buckets, worst first, shape (buckets + 1,)."""
        return self.values(np.arange(self.buckets + 1.0))

    def values(self, position: NDArray[Any]) -> Floats:
        """Return the parameter at positions 0 (worst) to buckets (best)."""
        share = position / self.buckets
        if self.spacing == "linear":
            return np.asarray(self.worst + share * (self.best - self.worst))
        level, k = -share * self.length, self.crowding
        ratio = special.lambertw(k * np.exp(k + level)).real / k if k else np.exp(level)
        ratio = np.where(position == self.buckets, self._least, np.where(share == 0.0, 1.0, ratio))
        return np.asarray(self.worst * ratio ** (1.0 if self.best < self.worst else -1.0))

    def position(self, values: Floats) -> Floats:
        """Return where values are, 0 (worst) to buckets (best); the inverse of `values`."""
        if self.spacing == "linear":
            share = (values - self.worst) / (self.best - self.worst)
        else:
            ratio = values / self.worst if self.best < self.worst else self.worst / values
            share = (self.crowding * (1.0 - ratio) - np.log(ratio)) / self.length
        return np.asarray(share * self.buckets)

    @property
    def length(self) -> float:
        """Length of the span in the coordinate in which geometric knots are even."""
        return self.crowding * (1.0 - self._least) - math.log(self._least)

    @property
    def _least(self) -> float:
        """The ratio r of the best knot."""
        return min(self.best / self.worst, self.worst / self.best)

    def coordinate(self, position: Floats, power: int) -> Floats:
        """Return how much more private positions are than the worst knot, to some power."""
        ratio = self.values(position) / self.worst
        return np.asarray(ratio ** (power if self.best > self.worst else -power))

    def stretch(self, position: Floats, power: int) -> Floats:
        """Bound the derivatives of `coordinate` between m + 1 increasing positions.

        Returns the largest first to fourth one if every interval has length 2, shape (4, m).
        """
        half, x = np.diff(position) / 2.0, self.coordinate(position, power)
        if self.spacing == "geometric":  # d/du = r s d/dr, s = 1 / (1 + crowding r)
            s = 1.0 / (1.0 + self.crowding * self.coordinate(position, 1) ** -1.0)
            rate, bend, size = (
                self.length / self.buckets * half * s[1:],
                1.0 - s[:-1],
                power * x[1:],
            )
            third = (power + 1.0) * (power + 2.0) - (3.0 * power + 5.0) * s + 3.0 * s**2
            third = np.maximum(third[1:], third[:-1])  # a parabola that opens upwards
            fourth = power * third + bend * (3.0 * third + 3.0 * power + 5.0)
            second = power + bend
            return np.stack([size * rate, size * second * rate**2, size * third * rate**3,
                             size * fourth * rate**4])  # fmt: skip
        signed = power if self.best > self.worst else -power
        ratio, slope = self.values(position) / self.worst, (self.best / self.worst - 1.0)
        rows, falling = [], 1.0
        for k in (1, 2, 3, 4):
            falling *= signed - k + 1
            ends = np.abs(falling * ratio ** (signed - k))
            rows.append(np.maximum(ends[1:], ends[:-1]) * np.abs(slope / self.buckets * half) ** k)
        return np.stack(rows)


def spline_coefficients(knots: Floats) -> Floats:
    """Return spline coefficients (n + 3) of tables known at n + 1 knots, without solving a system.

    a = f - d2 f / 6 + d4 f / 36 with central differences: exact for cubics, and local, so that a
    steep table spoils only its neighbourhood. Three knots beyond each end are extrapolated.
    """
    wide = list(knots)
    for _ in range(3):
        wide.insert(0, 4 * wide[0] - 6 * wide[1] + 4 * wide[2] - wide[3])
        wide.append(4 * wide[-1] - 6 * wide[-2] + 4 * wide[-3] - wide[-4])
    second = np.diff(np.stack(wide), n=2, axis=0)
    fourth = np.diff(second, n=2, axis=0)
    return np.asarray(np.stack(wide[2:-2]) - second[1:-1] / 6 + fourth / 36)


def basis(f: Floats) -> Floats:
    """Return the four cubic B-splines at places f in [0, 1] of a bucket, shape (..., 4)."""
    b = [(1 - f) ** 3, 3 * f**3 - 6 * f**2 + 4, -3 * f**3 + 3 * f**2 + 3 * f + 1, f**3]
    return np.stack(b, axis=-1) / 6.0


Values = NDArray[Any]

HIGHEST = 4  # order that is of use
POWERS = (1, 2, 4)  # of the parameter, tried as coordinates
_PLACES = np.array([-1.0, -0.5, 0.5, 1.0])  # on an interval, the extrema of a Chebyshev polynomial
_LEBESGUE = 1.67  # of these points
_QUARTIC = 0.0105  # max |(tau^2 - 1) (tau^2 - 1/4)| / 24 on [-1, 1]
PARTS = 4  # of a bucket at most
SHARE = 5e-7  # of K that may be lost between knots, where the family allows it
_COLUMNS = 128  # columns handled at a time


def reached(x: Floats, low: Floats, high: Floats) -> int:
    """Return the order to which profiles alternate, as far as these values tell.

    Of neighbouring members with coordinates x, increasing, and bounds (members, epsilons).
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

    Planned for K that decreases with the square of the parameter, and for an error of a share of K;
    no more than `PARTS` in a bucket, so that families that alternate to a low order get wider
    bounds instead of thousands of members.
    """
    width = np.abs(np.diff(np.log(grid.knots)))
    factor = math.prod((2.0 + power * j) / (j + 1.0) for j in range(order))
    parts = np.clip(np.ceil(width * (factor / share) ** (1.0 / order)), 2, PARTS).astype(int)
    inner = [i + np.arange(1, n) / n for i, n in enumerate(parts.tolist())]
    near = 0.5 / parts[[0, -1]]  # brackets are one-sided at the ends
    return np.concatenate([*inner, [near[0], grid.buckets - near[1]]])


class Brackets:
    """Brackets of a family around the splines of a grid, between two of its knots."""

    def __init__(
        self, grid: Grid, positions: Floats, known: tuple[int, int], order: int, power: int
    ) -> None:
        """Prepare the linear maps from members, at positions, knots first, to brackets."""
        first, last = known
        self._order = order
        self._members = np.flatnonzero((positions >= first) & (positions <= last))
        self._members = self._members[np.argsort(positions[self._members])]
        at = positions[self._members]
        x, span = grid.coordinate(at, power), np.arange(at.size - 1)
        begin = np.clip(span - 1, 0, at.size - 1 - order)
        self._window = begin[:, None] + np.arange(order + 1)
        middle, self._half = (x[1:] + x[:-1]) / 2, (x[1:] - x[:-1]) / 2
        y = (x[self._window] - middle[:, None]) / self._half[:, None]
        self._taylor, self._gap = _mean(y), _half_gap(y)
        self._bucket = np.minimum(at[:-1].astype(np.int64), last - 1) - first
        self._starts = np.searchsorted(self._bucket, np.arange(last - first))
        inside = (at[1:] + at[:-1]) / 2 + np.diff(at) / 2 * np.append(_PLACES, 0.0)[:, None]
        self._basis = basis(np.clip(inside - first - self._bucket, 0.0, 1.0))
        self._inside = ((grid.coordinate(inside[:-1], power) - middle) / self._half)[:, :, None]
        self._stretch = grid.stretch(at, power) / self._half
        self._width = np.diff(at)[:, None] / 2.0

    def radius(self, log_m: Values, error: Floats, growth: Floats | None, spline: Values) -> Floats:
        """Bound how far e^spline is from M of every member in each bucket.

        Args:
            log_m: log M at all members, nan where unknown, shape (members, m).
            error: relative error of M, same shape.
            growth: |z (z+1)| / (c (c+1)) of the columns, the first of which is c itself, shape
                (m,); None where all columns are real.
            spline: coefficients from the first known knot on, shape (buckets + 3, m).

        Returns:
            Shape (buckets, m), those between known knots: |prod M / e^{sum of splines} - 1| is
            at most e^{sum of these} - 1. inf where the profiles turn out not to alternate.
        """
        log_m, error = log_m[self._members], error[self._members]
        first = None if growth is None else self._gaps(*self._windows(log_m[:, :1], error[:, :1]))
        growth = np.ones(log_m.shape[1]) if growth is None else growth
        parts = []
        for begin in range(0, log_m.shape[1], _COLUMNS):
            s = slice(begin, begin + _COLUMNS)
            windows = self._windows(log_m[:, s], error[:, s])
            parts.append(self._part(*windows, growth[s], spline[:, s], first))
        return np.concatenate(parts, axis=1)

    def _windows(self, log_m: Values, error: Floats) -> tuple[Values, Floats]:
        """M - 1 at the points of every polynomial, and errors, shape (intervals, n + 1, m)."""
        off = np.exp(log_m.real) * (error + 4 * EPS)
        return np.expm1(log_m)[self._window], off[self._window]

    def _gaps(self, excess: Values, off: Floats) -> tuple[Values, Floats]:
        """Half the gap between the polynomials, and the error of it, (intervals, m)."""
        scale = self._gap[:, None]
        return (scale @ excess)[:, 0], (np.abs(scale) @ off)[:, 0]

    def _part(
        self,
        excess: Values,
        off: Floats,
        growth: Floats,
        spline: Values,
        first: tuple[Values, Floats] | None,
    ) -> Floats:
        """`radius` of some columns; `first` has the gaps at c itself."""
        gap, slack = self._gaps(excess, off)
        real, unsure = (gap, slack) if first is None else first
        allowed = growth * (np.maximum(real.real, 0.0) + unsure)
        alternating = (np.abs(gap) <= 1.0001 * allowed + slack) & (real.real >= -unsure)

        mean = np.moveaxis(self._taylor @ excess, 1, 0)
        a = spline[self._bucket[:, None] + np.arange(4)]
        points = np.moveaxis(np.moveaxis(self._basis, 0, 1) @ a, 1, 0)
        apart = np.abs(np.expm1(points[:-1]) - _polynomial(mean, self._inside)).max(axis=0)
        middle = points[-1].real

        one, two, three = (np.abs(np.diff(a, n=k, axis=1)).max(axis=1) for k in (1, 2, 3))
        slope, bend, third = one * self._width, two * self._width**2, three * self._width**3
        remainder = self._fourth_derivative(np.abs(mean))
        turned = slope**4 + 6.0 * slope**2 * bend + 3.0 * bend**2 + 4.0 * slope * third
        remainder += np.exp(middle + slope) * turned
        found = _LEBESGUE * apart + _QUARTIC * remainder + allowed + 4.0 * off.max(axis=1)
        found = np.log1p(found * np.exp(slope - middle))
        # places are rounded to units; what is then rounded of two weights leaves the first moment
        found += (0.501 * one + 2.0 * two) / ONE
        found[~alternating] = np.where(np.isnan(found[~alternating]), np.nan, np.inf)
        return np.asarray(np.maximum.reduceat(found, self._starts, axis=0))

    def _fourth_derivative(self, mean: Floats) -> Floats:
        """Bound the fourth derivative of the mean polynomial over an interval's [-1, 1]."""
        c = np.zeros((4, *mean.shape[1:]))
        c[: self._order] = mean
        one, two, three = c[1] + 2 * c[2] + 3 * c[3], 2 * c[2] + 6 * c[3], 6 * c[3]
        u, v, w, z = (row[:, None] for row in self._stretch)
        return np.asarray(6 * three * u**2 * v + two * (3 * v**2 + 4 * u * w) + one * z)


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


def _half_gap(y: Floats) -> Floats:
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
