"""The noise of an additive mechanism: moments, mean error, entropy and quantiles.

In: one use of a mechanism declared by `additive`. Out: numbers with an estimate of their error, by
quadrature of the compiled density over panels that are halved until they agree (sums on a lattice).
Errors of an answer are counted from the median, a known constant that whoever releases it takes
off: noise that is one-sided or skewed is not charged for its offset.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mechc.errors import UnsupportedError
from mechc.protocol import Measure

if TYPE_CHECKING:
    from mechc.protocol import Described, Use

Floats = NDArray[np.float64]

AGREEMENT = 1e-12  # relative error that halved panels leave
FAR = 1e150  # where the power of a tail is read off


@dataclass(frozen=True)
class Moment:
    """A number about the noise.

    Attributes:
        value: the number, infinite where the integral diverges.
        error: what it may be off by, an estimate.
        method: "quadrature", or "symmetry" of a mean.
    """

    value: float
    error: float
    method: str = "quadrature"

    def __float__(self) -> float:
        """Return the value."""
        return self.value

    def __format__(self, spec: str) -> str:
        """Format the value."""
        return format(self.value, spec) if spec else str(self)

    def __str__(self) -> str:
        """One line: the value and how it was found."""
        return f"{self.value:.10g} ({self.method}, +- {self.error:.1g})"


class Noise:
    """The noise of an additive mechanism.

    Each question takes parameters by name beside its own arguments, in place of those of the use or
    for those that a mechanism has open: `noise.variance(scale=3.0)`.

    Attributes:
        mechanism: the mechanism.
        lattice: whether it lives on the integers.
    """

    def __init__(self, mechanism: Described, event: Use | None = None) -> None:
        """Keep the mechanism, and one use of it if its parameters are bound.

        Raises:
            UnsupportedError: the mechanism is not declared as additive noise.
        """
        from mechc.declare.declaration import Shift

        if not isinstance(mechanism.declaration.construction, Shift):
            raise UnsupportedError(
                f"{mechanism.name} is not declared as noise added to a query (expected a "
                "mechanism made by mechc.declare.additive, not on a sample)"
            )
        self.mechanism, self._event = mechanism, event
        self.lattice = mechanism.kernel.MEASURE == Measure.LATTICE

    def at(self, **values: float) -> Noise:
        """Return the noise at values of some parameters, by name.

        Raises:
            DeclarationError: a parameter is unknown, missing or out of its domain.
        """
        if self._event is not None:
            return Noise(self.mechanism, self._event.at(**values)) if values else self
        return Noise(self.mechanism, self.mechanism(**values))

    @cached_property
    def event(self) -> Use:
        """The use, at the defaults if none was given."""
        found: Use = self.mechanism() if self._event is None else self._event
        return found

    def density(self, x: Any, **values: float) -> Floats:
        """Return the density (lattice: mass) of the noise.

        Args:
            x: points, any shape.
            values: see the class.
        """
        noise = self.at(**values)
        points = np.ravel(np.asarray(x, np.float64))
        out = np.empty_like(points)
        noise.event.mechanism.kernel.log_q_many(points, np.array(noise.event.theta), out)
        return np.exp(out).reshape(np.shape(x))

    def mean(self, **values: float) -> Moment:
        """Return the mean."""
        noise = self.at(**values)
        return noise._moment(1, 0.0)

    def variance(self, **values: float) -> Moment:
        """Return the variance about the mean."""
        noise = self.at(**values)
        mean = noise.mean().value
        return Moment(math.inf, 0.0) if math.isinf(mean) else noise._moment(2, mean)

    def standard_deviation(self, **values: float) -> Moment:
        """Return the root of the variance."""
        noise = self.at(**values)
        found = noise.variance()
        root = math.sqrt(found.value)
        error = found.error / (2.0 * root) if 0.0 < root < math.inf else 0.0
        return Moment(root, error, found.method)

    def absolute_error(self, **values: float) -> Moment:
        """Return the mean distance from the median."""
        noise = self.at(**values)
        median = noise._median
        return noise._integral(lambda x, q: np.abs(x - median) * q, 1)

    mean_absolute_error = absolute_error

    def entropy(self, **values: float) -> Moment:
        """Return the (differential) entropy in nats."""
        noise = self.at(**values)

        def surprise(x: Floats, q: Floats) -> Floats:
            return np.where(q > 0.0, -q * np.log(np.where(q > 0.0, q, 1.0)), 0.0)

        return noise._integral(surprise, 0)

    def quantile(self, probability: float, **values: float) -> float:
        """Return the smallest x with P(noise <= x) >= probability.

        Args:
            probability: in (0, 1).
            values: see the class.
        """
        noise = self.at(**values)
        return noise._solve(lambda x: noise.mass(-math.inf, x), probability, False)

    def error_quantile(self, probability: float, **values: float) -> float:
        """Return the smallest t with P(|noise - median| <= t) >= probability.

        Args:
            probability: in (0, 1).
            values: see the class.
        """
        noise = self.at(**values)
        median = noise._median
        return noise._solve(lambda t: noise.mass(median - t, median + t), probability, True)

    def mass(self, lo: float, hi: float) -> float:
        """Return P(lo <= noise <= hi)."""
        return self._sum(lambda x, q: q, lo, hi)

    @cached_property
    def _median(self) -> float:
        return 0.0 if self._even else self.quantile(0.5)

    @cached_property
    def _even(self) -> bool:
        """Whether the density is the same on both sides: proved of the pair, and seen here."""
        x = np.concatenate([np.arange(1.0, 40.0), 40.0 * 1.3 ** np.arange(20.0)])
        x = x if self.lattice else x * math.pi / 10.0
        same = np.array_equal(self.density(x), self.density(-x))
        return self.event.mechanism.symmetric and same

    def _moment(self, order: int, about: float) -> Moment:
        if order == 1 and self._even and self._power() > 2.0:
            return Moment(0.0, 0.0, "symmetry")
        return self._integral(lambda x, q: (x - about) ** order * q, order)

    def _power(self) -> float:
        """The heavier of the powers at which the tails fall; infinite for light ones."""
        powers = []
        for side in (1.0, -1.0):
            near, far = self.density(side * np.array([FAR ** 0.1, FAR ** 0.15]))
            fall = math.log(near / far) / (0.05 * math.log(FAR)) if near > 0.0 < far else math.inf
            powers.append(fall)
        return min(powers)

    def _integral(self, f: Callable[[Floats, Floats], Floats], order: int) -> Moment:
        """The integral of f(x, density), infinite where the tails are too heavy for x^order."""
        if self._power() <= order + 1.0 + 1e-9:
            return Moment(math.inf, 0.0)
        value = self._sum(f, -math.inf, math.inf)
        whole = abs(self.mass(-math.inf, math.inf) - 1.0)
        return Moment(value, abs(value) * (AGREEMENT + whole))

    def _sum(self, f: Callable[[Floats, Floats], Floats], lo: float, hi: float) -> float:
        from mechc.symbolic.evaluate import integral, sum_over

        with np.errstate(all="ignore"):
            def g(x: Floats) -> Floats:
                q = self.density(x)
                return np.where(q > 0.0, f(x, q), 0.0)

            marks = [x for x in self._marks if lo < x < hi]
            return (sum_over if self.lattice else integral)(g, lo, hi, marks)

    @cached_property
    def _marks(self) -> list[float]:
        """Where the density may bend or break: ends of branches, and the middle."""
        kernel, theta = self.event.mechanism.kernel, np.array(self.event.theta)
        ends = kernel.breakpoints(theta)
        return sorted({0.0, *(float(x) for x in ends if math.isfinite(x))})

    def _solve(self, mass: Callable[[float], float], probability: float, positive: bool) -> float:
        from scipy.optimize import brentq

        if not 0.0 < probability < 1.0:
            raise UnsupportedError(f"probability={probability!r} (expected 0 < probability < 1)")
        hi = 1.0
        while mass(hi) < probability and hi < 1e300:
            hi *= 2.0
        lo = 0.0 if positive else -1.0
        while not positive and mass(lo) >= probability and lo > -1e300:
            lo *= 2.0
        if self.lattice:
            low, high = math.floor(lo) - 1, math.ceil(hi)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if mass(middle) >= probability else (middle, high)
            return float(high)
        return float(brentq(lambda x: mass(x) - probability, lo, hi, xtol=1e-300, rtol=1e-13))
