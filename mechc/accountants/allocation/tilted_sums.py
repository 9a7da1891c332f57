"""Laws of sums of many integers, to any depth, every mass with a relative error of its own.

They are transforms of laws tilted by exp(as), a mesh of tilts apart by about one standard
deviation. A transform of masses x is off by eta |x|_1 in every place (`fft.transform_error`), what
a period folds is at most exp(K(b) - K(a) - (b - a) s).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.fft import transform_error
from mechc.errors import NumericError
from mechc.loss.moments import dot
from mechc.numeric.allowance import spend
from mechc.numeric.logs import log_add
from mechc.numeric.rounding import U
from mechc.protocol import Floats

Parts = Sequence[tuple[Floats, int]]
Drawn = Sequence[tuple[Floats, float]]

SIZE = 2**16  # points of a period
MOST_SUMS = 2**23  # points between the lowest and the highest sum that matter
TILTS_APART = 3.0  # standard deviations from one tilt to the next
JUMP = 4.0  # the same between their means, beyond which tilts are closer
DEPTH = -60.0  # log of a probability that matters
MOST_TILTS, BEYOND = 400, 3  # tilts; more of them for bounds at the ends
LEAST_DEVIATION = 0.02  # standard deviation, in steps of the grid, at an end
MANY_KINDS = 16  # of steps, beyond which periods are shorter
TRANSFORM = 15.0  # work of one point of a transform
NOTHING = 1e-150  # tilted mass, and |phi| of the sum, that is none


class Rung(NamedTuple):
    """A tilt; log of the moment generating function, mean and standard deviation there."""

    tilt: float
    log_mgf: float
    mean: float
    sd: float


class Sums(NamedTuple):
    """The law of a sum of points of a grid."""

    first: int  # the lowest sum that is listed
    log_mass: Floats
    share: Floats  # relative errors of masses, inf for what is not known
    rest: float  # log of the mass that is not listed
    highest: Rung  # the tilt that bounds those above best
    beyond: bool  # there are sums above those that are listed

    @property
    def indices(self) -> Floats:
        """The sums that are listed."""
        out: Floats = self.first + np.arange(float(self.share.size))
        return out


def sums(parts: Parts, depth: float = DEPTH, drawn: Drawn = ()) -> Sums:
    """Return the law of a sum of terms with these masses of points 0, 1, .., down to a log mass.

    Args:
        parts: masses, and how many terms have them.
        depth: log of a mass that matters.
        drawn: if one term, drawn by weights, has other masses, these and its weight for each part.
    """
    if not any(count for _, count in parts):
        return Sums(0, np.zeros(1), np.zeros(1), -math.inf, Rung(0.0, 0.0, 0.0, 0.0), False)
    terms = _Terms.of(parts, drawn)
    ladder, fewer, more = _ladder(terms, depth)
    used = ladder[fewer : len(ladder) - more]
    top = sum(count * (mass.size - 1) for mass, count in parts)
    means = np.array([rung.mean for rung in used])
    first = 0 if used[0].sd < 1.0 else max(0, math.floor(means[0]))
    last = top if used[-1].sd < 1.0 else min(top, math.ceil(means[-1]))
    if last - first > MOST_SUMS:
        raise NumericError(f"sums of points on a grid range over {last - first} of them")
    # the smallest bound, and of the masses that are known the one that is known best
    log_mass, share = np.full(last + 1 - first, np.inf), np.full(last + 1 - first, 2.0)
    for rung in used:
        np.minimum(log_mass, rung.log_mgf - rung.tilt * np.arange(first, last + 1), out=log_mass)
    size = min(period(len(parts)), 1 << math.ceil(math.log2(top + 2)))
    many = float(sum(count for _, count in parts))
    for rung in used:
        start = max(round(rung.mean) - size // 2, 0) if top >= size else 0
        lo, hi = max(first, start), min(last + 1, start + size)
        if lo >= hi:
            continue
        index = np.arange(lo, hi)
        exponent = rung.log_mgf - rung.tilt * index
        folded = _folded(ladder, rung, start, start + size, top)
        values, error = _tilted(terms, rung, size)
        value = values[index % size]
        with np.errstate(divide="ignore"):
            own = 2.0 * (error + folded) / np.maximum(value, 1e-300)
            found = np.log(np.maximum(value, error)) + exponent
            most = np.log(np.maximum(value, 0.0) + 2.0 * (error + folded)) + exponent
        own += 8.0 * U * (8.0 * many + np.abs(rung.log_mgf) + np.abs(rung.tilt * index))
        at = slice(lo - first, hi - first)
        better = (own < 1.0) & (own < share[at])
        least = np.where(share[at] < 2.0, log_mass[at], np.minimum(log_mass[at], most))
        log_mass[at] = np.where(better, found, least)
        share[at] = np.where(better, own, share[at])
    rest, highest = -math.inf, used[-1]
    if first > 0:
        rest = min(each.log_mgf - each.tilt * (first - 1.0) for each in ladder)
    if last < top:
        highest = min(ladder, key=lambda each: each.log_mgf - each.tilt * (last + 1.0))
        rest = log_add(rest, highest.log_mgf - highest.tilt * (last + 1.0))
    return Sums(first, log_mass, share, rest, highest, last < top)


class Points(NamedTuple):
    """Points with mass, as doubles, logs of their masses, and of how many terms they are."""

    at: Floats
    log_mass: Floats
    steps: int

    @classmethod
    def of(cls, mass: Floats, steps: int) -> Points:
        """Those that have some."""
        index = np.flatnonzero(mass)
        return cls(index.astype(float), np.log(mass[index]), steps)

    def tilted(self, tilt: float) -> tuple[Floats, float]:
        """Masses at a tilt, not normalised, and the log of their unit."""
        weight = tilt * self.at
        weight += self.log_mass
        top = float(weight.max())
        weight -= top
        return np.exp(weight, out=weight), top

    def moments(self, tilt: float) -> Floats:
        """Log of the moment generating function of one, its mean, and its variance."""
        w, top = self.tilted(tilt)
        total = float(w.sum())
        mean = dot(w, self.at) / total
        spend(6.0 * self.at.size)
        return np.array([top + math.log(total), mean, dot(w, (self.at - mean) ** 2) / total])


class _Terms(NamedTuple):
    """A sum of terms; one of these, drawn by weights, may have other masses."""

    points: list[Points]
    drawn: list[tuple[Points, float] | None]  # and logs of weights

    @classmethod
    def of(cls, parts: Parts, drawn: Drawn) -> _Terms:
        """Those that there are, by masses and counts; what is drawn by masses and weights."""
        some = [i for i, (_, count) in enumerate(parts) if count]
        others = [
            (Points.of(drawn[i][0], 1), math.log(drawn[i][1])) if drawn[i][0].any() else None
            for i in some[: len(drawn)]
        ]
        if drawn and not any(others):
            raise NumericError("no mass is drawn")
        return cls([Points.of(*parts[i]) for i in some], others)

    def moments(self, tilt: float) -> Rung:
        """The moments of the sum at a tilt."""
        each = [term.moments(tilt) for term in self.points]
        found = np.array([term.steps for term in self.points], float) @ each
        if self.drawn:
            others = [
                found - own + other[0].moments(tilt) + np.array([other[1], 0.0, 0.0])
                for own, other in zip(each, self.drawn, strict=True) if other is not None
            ]  # fmt: skip
            k, mean, variance = np.array(others).T
            share = np.exp(k - np.logaddexp.reduce(k))
            middle = dot(share, mean)
            spread = dot(share, variance + (mean - middle) ** 2)
            found = np.array([np.logaddexp.reduce(k), middle, spread])
        return Rung(tilt, float(found[0]), float(found[1]), math.sqrt(max(found[2], 0.0)))


def _ladder(terms: _Terms, deepest: float) -> tuple[list[Rung], int, int]:
    """Tilts for all sums that matter, in order; and which of them are beyond."""
    middle = terms.moments(0.0)
    sides = []
    for sign in (-1.0, 1.0):
        side: list[Rung] = []
        rung, more = middle, 0
        while len(side) < MOST_TILTS:
            if rung.sd < LEAST_DEVIATION:
                break
            depth = rung.log_mgf - middle.log_mgf - rung.tilt * rung.mean
            more += depth < deepest
            if more > BEYOND:
                break
            move = TILTS_APART / rung.sd
            for _ in range(12):
                found = terms.moments(rung.tilt + sign * move)
                if abs(found.mean - rung.mean) <= JUMP * min(found.sd, rung.sd) + 1.0:
                    break
                move *= 0.5
            rung = found
            side.append(rung)
        sides.append((side, more))
    (left, fewer), (right, more) = sides
    return [*left[::-1], middle, *right], max(fewer - 1, 0), max(more - 1, 0)


def period(kinds: int) -> int:
    """Points of a period."""
    return SIZE >> max(0, math.ceil(math.log2(kinds / MANY_KINDS)))


def _folded(ladder: Sequence[Rung], rung: Rung, start: int, end: int, top: int) -> float:
    """Bound on the tilted mass outside of a period."""
    found = 0.0
    for side, edge, sign in ((start > 0, start - 1, -1.0), (end <= top, end, 1.0)):
        if side:
            logs = [
                other.log_mgf - rung.log_mgf - (other.tilt - rung.tilt) * edge
                for other in ladder
                if sign * (other.tilt - rung.tilt) > 0.0
            ]
            found += math.exp(min(min(logs, default=0.0), 0.0))
    return found


class _Spectrum(NamedTuple):
    """A transform of masses, at half of the frequencies; bounds on its size and on its error."""

    values: NDArray[Any]
    far: Floats
    near: Floats

    @classmethod
    def of(cls, term: Points, tilt: float, size: int) -> _Spectrum:
        """That of one term, tilted, with a mass of one."""
        spend(TRANSFORM * size)
        weight, top = term.tilted(tilt)
        weight /= float(weight.sum())
        weight[weight < NOTHING] = 0.0
        # of exponents that count, 47 below the largest
        off = transform_error(size) + 4.0 * U * (55.0 + abs(top))
        values = np.fft.rfft(np.bincount(term.at.astype(np.int64) % size, weight, size))
        return cls(values, np.minimum(np.abs(values) + off, 1.0), np.full(values.size, off))

    def power(self, count: int) -> _Spectrum:
        """That of so many terms."""
        if count == 0:
            one = np.ones(self.far.size)
            return _Spectrum(one, one, np.zeros(one.size))
        seen = np.flatnonzero(self.far >= NOTHING ** (1.0 / count))  # the rest is slow to multiply
        raised, power = np.full(self.far.size, NOTHING), np.zeros(self.far.size, np.complex128)
        raised[seen] = self.far[seen] ** (count - 1)
        power[seen] = self.values[seen] ** count
        rounding = (8.0 * count + 1500.0) * U  # of powers, and of their products
        return _Spectrum(power, raised * self.far, raised * (count * self.near + rounding))

    def times(self, other: _Spectrum) -> _Spectrum:
        """That of a sum."""
        near = self.near * other.far + self.far * other.near
        return _Spectrum(self.values * other.values, self.far * other.far, near)


def _tilted(terms: _Terms, rung: Rung, size: int) -> tuple[Floats, float]:
    """The tilted law of the sum, folded to a period, and the error of every mass."""
    product: _Spectrum | None = None  # of terms so far
    mixed: _Spectrum | None = None  # where one of these is drawn
    whole = terms.moments(rung.tilt)
    known = sum(term.steps * term.moments(rung.tilt)[0] for term in terms.points)
    for i, term in enumerate(terms.points):
        one = _Spectrum.of(term, rung.tilt, size)
        power = one.power(term.steps)
        if mixed is not None:
            mixed = mixed.times(power)
        if terms.drawn and (other := terms.drawn[i]) is not None:
            points, log_weight = other
            own = _Spectrum.of(points, rung.tilt, size).power(1).times(one.power(term.steps - 1))
            own = own if product is None else product.times(own)
            log_share = known - whole.log_mgf + log_weight
            log_share += float(points.moments(rung.tilt)[0] - term.moments(rung.tilt)[0])
            own = _Spectrum(*(math.exp(log_share) * each for each in own))
            mixed = own if mixed is None else _Spectrum(*map(np.add, mixed, own))
        product = power if product is None else product.times(power)
    found = mixed if terms.drawn else product
    assert found is not None
    each = np.full(found.far.size, 2.0 / size)
    each[0] = each[-1] = 1.0 / size
    values: Floats = np.fft.irfft(found.values, size)
    return values, dot(each, found.near) + transform_error(size) * dot(each, found.far)
