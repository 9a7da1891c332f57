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
  bucket's width;
* or counts of values that are listed, the only ones there are: nothing is rounded or interpolated.

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
from mechc.loss.moments import exponentials, waves
from mechc.numeric.jit import compiled, subroutine
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats

ONE = 1 << 20  # units of a spline weight
SPACINGS = ("geometric", "linear")  # of knots that are not listed


@dataclass(frozen=True)
class Grid:
    """A parameter grid.

    Attributes:
        worst, best: most revealing and most private parameter value, knot 0 and the last one.
        buckets: number of buckets between them.
        spacing: "geometric", "linear" or "listed".
        splines: whether the ledger holds spline weights (else counts).
        crowding: how much more densely geometric knots lie at the worst end than at the best.
        listed: the knots, worst first, where they are listed.
    """

    worst: float
    best: float
    buckets: int
    spacing: str
    splines: bool
    crowding: float = 0.0
    listed: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.listed:
            return
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
        if self.listed:  # which has nothing between its knots
            return np.array(self.listed)[position.astype(np.int64)]
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
            ratio = np.maximum(ratio, 1e-300)  # 0 and inf are not touched
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
    steep table spoils only its neighbourhood. Three knots beyond each end are extrapolated, by
    cubics, and by quintics if there are enough where members lose least and tables are smooth.
    """
    wide = list(knots)
    signs = (4, -6, 4, -1) if len(wide) < 6 else (6, -15, 20, -15, 6, -1)
    for _ in range(3):
        wide.insert(0, 4 * wide[0] - 6 * wide[1] + 4 * wide[2] - wide[3])
        wide.append(sum(sign * wide[-1 - i] for i, sign in enumerate(signs)))
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


def reached(x: Floats, low: Floats, high: Floats) -> int:
    """Return the order to which profiles alternate, as far as these values tell; 0 for none.

    Of neighbouring members with coordinates x, increasing, and bounds (members, epsilons).
    """
    difference, error = (low + high) / 2, (high - low) / 2 + 4 * EPS * (high + 1e-300)
    for k in range(1, HIGHEST + 1):
        run = (x[k:] - x[:-k])[:, None]
        difference = (difference[:-1] - difference[1:]) / run
        error = (error[1:] + error[:-1]) / run
        if (difference < -error).any():
            return k - 1
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
        self._members = np.flatnonzero((positions >= first) & (positions <= last))
        self._members = self._members[np.argsort(positions[self._members])]
        at = positions[self._members]
        x, span = grid.coordinate(at, power), np.arange(at.size - 1)
        begin = np.clip(span - 1, 0, at.size - 1 - order)
        self._window = begin[:, None] + np.arange(order + 1)
        middle, self._half = (x[1:] + x[:-1]) / 2, (x[1:] - x[:-1]) / 2
        y = (x[self._window] - middle[:, None]) / self._half[:, None]
        # from members to half the gap, then to coefficients of the mean
        self._maps = np.concatenate([_half_gap(y)[:, None], _mean(y)], axis=1)
        self._bucket = np.minimum(at[:-1].astype(np.int64), last - 1) - first
        inside = (at[1:] + at[:-1]) / 2 + np.diff(at) / 2 * np.append(_PLACES, 0.0)[:, None]
        weights = basis(np.clip(inside - first - self._bucket, 0.0, 1.0))
        self._weights = np.ascontiguousarray(np.moveaxis(weights, 0, 1))
        self._inside = ((grid.coordinate(inside[:-1], power) - middle) / self._half).T.copy()
        # times the size of each coefficient of the mean: its fourth derivative over [-1, 1]
        u, v, w, z = grid.stretch(at, power) / self._half
        square = 3.0 * v**2 + 4.0 * u * w
        rows = [0.0 * z, z, 2.0 * z + 2.0 * square, 3.0 * z + 6.0 * square + 36.0 * u**2 * v]
        self._bends = np.stack(rows[:order], axis=1)
        self._width = np.diff(at) / 2.0

    def radius(self, log_m: Values, error: Floats, growth: Floats | None, spline: Values) -> Floats:
        """Bound how far e^spline is from M of every member in each bucket, shape (buckets, m).

        |prod M / e^{sum of splines} - 1| is at most e^{sum of these} - 1; inf where the profiles
        turn out not to alternate. `log_m` is that of all members, nan where unknown, with bounds on
        its error, shape (members, m); `growth` is |z (z+1)| / (c (c+1)) of the columns, the first
        of which is c itself, None where all are real; `spline` are coefficients from the first
        known knot on, shape (buckets + 3, m).
        """
        known, a = (np.asarray(v, np.complex128) for v in (log_m[self._members], spline))
        off = np.expm1(np.minimum(error[self._members], MOST_LOG))
        found = np.zeros((spline.shape[0] - 3, spline.shape[1]))
        steep = []  # the largest first to third differences that each bucket sees
        for k in (1, 2, 3):
            sizes = np.abs(np.diff(a, n=k, axis=0))
            steep.append(np.maximum.reduce([sizes[i : i + len(found)] for i in range(4 - k)]))
        _radii(
            known.real.copy(), known.imag.copy(), off,
            np.ones(spline.shape[1]) if growth is None else growth, growth is not None,
            a.real.copy(), a.imag.copy(), np.stack(steep), self._window, self._maps, self._bucket,
            self._weights, self._inside, self._bends, self._width, found,
        )  # fmt: skip
        return found


@compiled(
    "void(float64[:,::1], float64[:,::1], float64[:,::1], float64[::1], boolean, float64[:,::1],"
    " float64[:,::1], float64[:,:,::1], int64[:,::1], float64[:,:,::1], int64[::1],"
    " float64[:,:,::1], float64[:,::1], float64[:,::1], float64[::1], float64[:,::1])",
    nogil=True,
    makes_arrays=True,
)
def _radii(  # type: ignore[no-untyped-def]
    re, im, off, growth, shared, ar, ai, steep, window, maps, bucket, weights, inside, bends, width,
    found
):  # fmt: skip
    """See `Brackets`; log M in `re` and `im` becomes M - 1, and `off` the error of that."""
    # `shared` says whether the gap of the first column bounds that of all, `ar` and `ai` are the
    # coefficients of the spline, `steep` the largest of their first to third differences that each
    # bucket sees, and `found` is the result, zeros to begin with.
    n, size = maps.shape[1], re.shape[1]
    x, y, cosine, sine = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    slack, most, apart, rest = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    p, q = np.empty((n, size)), np.empty((n, size))
    for i in range(re.shape[0]):
        exponentials(re[i], x)
        waves(im[i], cosine, sine)
        for m in range(size):
            off[i, m] = x[m] * (off[i, m] + EPS * (16.0 + 2.0 * abs(im[i, m])))
            re[i, m], im[i, m] = x[m] * cosine[m] - 1.0, x[m] * sine[m]
    for i in range(bucket.size):
        b = bucket[i]
        p[:], q[:] = 0.0, 0.0
        slack[:], most[:], apart[:], rest[:] = 0.0, 0.0, 0.0, 0.0
        for k in range(n):
            w = window[i, k]
            for j in range(n):
                _add(maps[i, j, k], re[w], p[j])
                _add(maps[i, j, k], im[w], q[j])
            share = abs(maps[i, 0, k])
            for m in range(size):
                slack[m] += share * off[w, m]
                most[m] = max(most[m], off[w, m])
        for j in range(1, n):
            for m in range(size):
                rest[m] += bends[i, j - 1] * math.sqrt(p[j, m] * p[j, m] + q[j, m] * q[j, m])
        for place in range(5):
            x[:], y[:] = 0.0, 0.0
            for k in range(4):
                _add(weights[i, place, k], ar[b + k], x)
                _add(weights[i, place, k], ai[b + k], y)
            if place == 4:
                break
            exponentials(x, x)
            waves(y, cosine, sine)
            u = inside[i, place]
            for m in range(size):
                real, imaginary = 0.0, 0.0
                for j in range(n - 1, 0, -1):
                    real, imaginary = real * u + p[j, m], imaginary * u + q[j, m]
                real, imaginary = x[m] * cosine[m] - 1.0 - real, x[m] * sine[m] - imaginary
                apart[m] = max(apart[m], real * real + imaginary * imaginary)
        for m in range(size):
            slope = steep[0, b, m] * width[i]
            sine[m], cosine[m] = min(x[m] + slope, MOST_LOG), min(slope - x[m], MOST_LOG)
        exponentials(sine, sine)
        exponentials(cosine, cosine)
        for m in range(size):
            lead = 0 if shared else m
            slope, bend = steep[0, b, m] * width[i], steep[1, b, m] * width[i] ** 2
            turned = slope**4 + 6.0 * slope**2 * bend + 3.0 * bend**2
            turned += 4.0 * slope * steep[2, b, m] * width[i] ** 3
            allowed = growth[m] * (max(p[0, lead], 0.0) + slack[lead])
            error = _LEBESGUE * math.sqrt(apart[m]) + _QUARTIC * (rest[m] + sine[m] * turned)
            error = math.log1p((error + allowed + 4.0 * most[m]) * cosine[m])
            # places are rounded to units; what is then rounded of two weights leaves the first
            # moment
            error += (0.501 * steep[0, b, m] + 2.0 * steep[1, b, m]) / ONE
            apart_by = math.sqrt(p[0, m] * p[0, m] + q[0, m] * q[0, m])
            alternating = apart_by <= 1.0001 * allowed + slack[m] and p[0, lead] >= -slack[lead]
            if error == error and (slope > 300.0 or not alternating):
                error = np.inf
            if error > found[b, m] or error != error:
                found[b, m] = error


@subroutine("void(float64, float64[::1], float64[::1])")
def _add(share, values, total):  # type: ignore[no-untyped-def]
    """Add a share of some values to a total."""
    for m in range(values.size):
        total[m] += share * values[m]


def _mean(y: Floats) -> Floats:
    """Map values at the points y to coefficients of the mean of both polynomials, (i, n, n + 1)."""
    n = y.shape[1] - 1
    out = np.zeros((y.shape[0], n, n + 1))
    for begin in (0, 1):
        powers = y[:, begin : begin + n, None] ** np.arange(n)
        out[:, :, begin : begin + n] += np.linalg.inv(powers) / 2.0
    return out


def _half_gap(y: Floats) -> Floats:
    """Map values at the points y to half the largest gap between both polynomials on [-1, 1]."""
    # The gap at y is (-1)^n times the divided difference, the distance of the outer points, and the
    # product of the distances to the inner points.
    n = y.shape[1] - 1
    inner = y[:, 1:-1]
    ends = (np.abs(inner) - 1.0) ** 2 < 1e-18  # the ends of the interval itself
    largest = np.where(ends, 1.0, np.abs(inner) + 1.0).prod(axis=1)
    largest *= np.where(ends.sum(axis=1) == 2, 1.0, 2.0 ** ends.sum(axis=1))
    apart = y[:, :, None] - y[:, None, :] + np.eye(n + 1)
    scale = (-1.0) ** n * (y[:, -1] - y[:, 0]) * largest / 2.0
    return np.asarray(scale[:, None] / apart.prod(axis=2))
