"""The k-fold sum of laws on one mesh by the tilted fast Fourier transform, rounding bounded.

In: grid laws with the same step, their counts, a tilt c and a transform length n (a power of 2).
Out: for any eps the aliased payoff

    S(eps) = sum_m exp(c m T) H(eps + m T),   H(x) = E_P[(1 - exp(x - S))_+],   T = n * step,

its rounding error, and nothing else: which of the images matters is the caller's business.
Weights are tilted by exp(c l) before the transform and the tilt is undone inside the payoff
(Keich 2005; Wilson and Keich 2016), so that errors are relative to H and not to one.

The transform is accurate normwise, ||error||_2 <= eta ||input||_2 (Higham 2002, Theorem 24.2; the
constant is that of radix 2, which the library's radix-4 steps and its real split stay below). A
k-th power on the unit disc multiplies an error by at most k.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from mechc.errors import NumericError, UnsupportedError
from mechc.loss.discretise import GridLaw
from mechc.numeric.allowance import spend
from mechc.numeric.jit import compiled
from mechc.numeric.logs import log1mexp
from mechc.numeric.rounding import U
from mechc.protocol import Complexes, Floats

TRANSFORM, PAYOFF = 10.0, 1.0  # work for one point of a transform or of a power, and of a payoff
BYTES = 200  # of memory per mesh point, at the peak of a composition


def check_memory(what: str, points: float, max_bytes: float, each: int = BYTES) -> None:
    """Refuse a mesh of so many points that takes more memory than is allowed.

    Raises:
        UnsupportedError: it does; the message begins with `what`.
    """
    if points * each > max_bytes:
        raise UnsupportedError(
            f"{what} needs a mesh of {points:.3g} points or {points * each:.2g} bytes, more than "
            f"max_bytes={max_bytes}"
        )


class TiltedSum:
    """The law of a sum of grid losses, tilted, folded to a period, by FFT.

    Attributes:
        tilt: c.
        period: T.
        size: n.
        offset: the sum lives on offset + step * integer.
        step: the mesh.
        log_scale: log of the moment generating function of the sum at the tilt.
        log_mgf: the same at the probes.
        log_finite: log of the probability that no step is infinite.
        relative: bound on the relative error of any answer, from rounding of the weights.
        slack: how far labels may be on the wrong side, in units of loss (GridLaw.slack, summed).
    """

    def __init__(self, tilt: float, size: int, probes: Sequence[float] = ()) -> None:
        """Start with the law of the empty sum.

        Args:
            tilt: c >= 0.
            size: number of points of the period.
            probes: where else the generating function will be wanted.
        """
        self.tilt, self.size = tilt, size
        self.step = self.period = math.nan
        self.log_scale = self.log_finite = self.relative = self.slack = 0.0
        self.log_mgf = dict.fromkeys(probes, 0.0)
        self._origin = 0
        self._offsets: list[float] = []
        self._spectrum: Complexes = np.ones(size // 2 + 1, np.complex128)
        self._turned: tuple[int, Floats] | None = None
        self._error = 0.0  # 2-norm over the whole spectrum, divided by sqrt(size)

    @classmethod
    def of(
        cls,
        laws: Iterable[tuple[GridLaw, int]],
        tilt: float,
        size: int,
        probes: Sequence[float] = (),
    ) -> TiltedSum:
        """Compose laws and counts in one call; the laws are taken one at a time."""
        total = cls(tilt, size, probes)
        for law, count in laws:
            total.add(law, count)
        return total.close()

    def add(self, law: GridLaw, count: int) -> None:
        """Add `count` copies of a law: one transform and one power."""
        spend(TRANSFORM * (self.size + law.mass.size))
        folded, centre, log_mgf, relative = _tilted(law, self.tilt, self.size)
        spectrum = np.fft.rfft(folded)
        self.step, self.period = law.step, law.step * self.size
        self.log_scale += count * log_mgf
        self.log_finite += count * log1mexp(law.log_infinite)
        self.relative += count * relative
        self.slack += count * law.slack
        self._origin += count * centre
        self._offsets.append(count * law.offset)
        for t in self.log_mgf:
            self.log_mgf[t] += count * law.log_mgf(t)
        self._error += count * transform_error(self.size) * _norm(folded)
        if count > 1:
            self._error += _power(spectrum, count)
        self._spectrum *= spectrum

    def close(self) -> TiltedSum:
        """Transform back; nothing can be added afterwards."""
        self._sum: Floats = np.fft.irfft(self._spectrum, self.size)
        del self._spectrum
        last = transform_error(self.size) + len(self._offsets) * 4 * U
        self._error += last * _norm(self._sum)
        self.offset = math.fsum(self._offsets)
        self.relative += 8 * U * abs(self.log_scale)
        self.slack += 8 * U * (math.fsum(map(abs, self._offsets)) + self.period)
        return self

    @cached_property
    def _rows(self) -> tuple[Floats, Floats]:
        """1 - exp(-x) and exp(-cx) at all distances x on the mesh, for every epsilon."""
        x = self.step * np.arange(self.size)
        return -np.expm1(-x), np.exp(-self.tilt * x)

    def _rise(self, first: float, size: int | None = None) -> Floats:
        """1 - exp(-x) on the mesh from `first` on: both terms are positive, nothing cancels."""
        found = math.exp(-first) * self._rows[0][:size]
        found -= math.expm1(-first)
        return found

    def _from(self, start: int) -> Floats:
        """The law from a point of the mesh on, once for all questions about one window."""
        known = self._turned
        if known is None or known[0] != start:
            known = self._turned = start, np.roll(self._sum, (self._origin - start) % self.size)
        return known[1]

    def payoff(self, epsilon: float) -> tuple[float, float, float]:
        """Return (log_factor, value, error) with S(eps) = exp(log_factor) * (value +- error)."""
        spend(PAYOFF * self.size)
        start = math.floor((epsilon - self.offset) / self.step) + 1
        first = max((self.offset - epsilon) + self.step * start, 0.0)
        decay = math.exp(-self.tilt * first) * self._rows[1]
        gain = _with_images(self._rise(first), decay, self.tilt, self.period)
        terms = np.roll(self._sum, (self._origin - start) % self.size) * gain
        error = self._error * _norm(gain)
        error += 256 * U * float(np.abs(terms).sum())
        return self.log_scale - self.tilt * epsilon, float(terms.sum()), error

    def plain_payoff(self, epsilon: float, lowest: float) -> tuple[float, float]:
        """Return E[(1 - exp(epsilon - S))_+] of the folded, untilted law, and its error.

        The fold is onto the period that starts at `lowest`: this is the answer of the classical
        Fourier methods, relative to the finite mass; the tilt has to be 0.
        """
        start = math.ceil((lowest - self.offset) / self.step)
        beyond = min(max(math.floor((epsilon - self.offset) / self.step) + 1 - start, 0), self.size)
        first = max(self.offset + self.step * (start + beyond) - epsilon, 0.0)
        gain = self._rise(first, self.size - beyond)
        error = self._error * _norm(gain)
        gain *= self._from(start)[beyond:]
        return float(gain.sum()), error + 256 * U * float(np.abs(gain, out=gain).sum())


def periodic_payoff(x: Floats, tilt: float, period: float) -> Floats:
    """Return sum_{r >= 0} f(x + r T) for f(x) = exp(-cx)(1 - exp(-x)) and 0 <= x < T."""
    return _with_images(-np.expm1(-x), np.exp(-tilt * x), tilt, period)


def _with_images(rise: Floats, decay: Floats, tilt: float, period: float) -> Floats:
    """The same from 1 - exp(-x) and exp(-cx)."""
    images = math.exp(-tilt * period)  # exp(-cT)
    if images > 0.0:
        further = images * -math.expm1(-period)
        further /= 1.0 - images * math.exp(-period)
        rise = (rise + further * (1.0 - rise)) / -math.expm1(-tilt * period)
    return rise * decay


def transform_error(size: int) -> float:
    """Return eta with ||computed - exact||_2 <= eta ||exact||_2 for a transform of `size` points.

    Higham 2002, Theorem 24.2, with twiddle factors good to two units in the last place, and two
    more levels than the radix 2 transform has for the split of real input and for the scaling.
    """
    twiddle = 2 * U
    gamma = 4 * U / (1 - 4 * U)
    level = twiddle + gamma * (math.sqrt(2.0) + twiddle)
    levels = 2.0 + sum(p if p > 2 else 1 for p in _factors(size))
    return levels * level / (1 - levels * level)


def _norm(x: Floats) -> float:
    return math.sqrt(float((x * x).sum()))


def _factors(size: int) -> list[int]:
    """Prime factors as the library uses them; a large one is replaced by Bluestein's transforms."""
    # A butterfly of p points is counted as p levels of two, a Bluestein transform as three
    # transforms of four times the size and its chirps.
    factors, rest = [], size
    for p in (2, 3, 5, 7, 11):
        while rest % p == 0:
            factors.append(p)
            rest //= p
    if rest > 1:
        factors += [2] * (3 * math.ceil(math.log2(4 * rest)) + 8)
    return factors


def _tilted(law: GridLaw, tilt: float, size: int) -> tuple[Floats, int, float, float]:
    """Tilt, centre and fold one law: masses, the index at 0, log of the mgf, relative error."""
    kept = np.flatnonzero(law.mass > 0)
    if not kept.size:
        raise NumericError("pld: no mass is left on the mesh under the tilt")
    points = law.points()[kept]
    exponent = tilt * points
    top = float((np.log(law.mass[kept]) + exponent).max())
    with np.errstate(over="ignore"):  # masses below 1e-300
        weight = law.mass[kept] * np.exp(exponent - top)
    total = float(weight.sum())
    if not 0.0 < total < math.inf:
        raise NumericError(f"pld: masses on the mesh are beyond doubles under the tilt {tilt:g}")
    weight /= total
    log_mgf = top + math.log(total)
    relative = law.inflation + U * (16 + 4 * abs(tilt) * float(np.abs(points).max()) + 4 * abs(top))
    index = law.first + kept
    centre = round(float((weight * index).sum()))
    folded: Floats = np.zeros(size)
    np.add.at(folded, (index - centre) % size, weight)
    return folded, centre, log_mgf, relative


@compiled("float64(complex128[::1], int64)")
def _raise(spectrum, count):  # type: ignore[no-untyped-def]
    """Replace a spectrum by its power in place; returns the sum of |power|^2 over a period."""
    total = 0.0
    for j in range(spectrum.size):
        factor = spectrum[j]
        power = 1.0 + 0.0j
        left = count
        while left > 0:
            if left & 1:
                power *= factor
            left >>= 1
            if left > 0:
                factor *= factor
        spectrum[j] = power
        square = power.real * power.real + power.imag * power.imag
        total += square if j == 0 or j == spectrum.size - 1 else 2.0 * square
    return total


def _power(spectrum: Complexes, count: int) -> float:
    """Raise a spectrum on the unit disc in place; return its rounding error as a root mean square.

    Repeated squaring: a complex product is off by sqrt(5) units of rounding at most (Brent,
    Percival, Zimmermann 2007), errors of factors add up, so that the power is off by
    (count - 1) sqrt(5) units; below the range of doubles it is zero, which is closer than 1e-300.
    """
    total = _raise(spectrum, count)
    rounding = 1.01 * math.sqrt(5.0) * count * U
    return rounding * math.sqrt(total / (2 * (spectrum.size - 1))) + 1e-300
