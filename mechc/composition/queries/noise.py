"""The noise of an additive mechanism: moments, mean error, entropy and quantiles.

In: one use of a mechanism declared by `additive`. Out: numbers with an estimate of their error, by
quadrature of the compiled density over panels that are halved until they agree (sums on a lattice);
or, with `certified=True`, with a proven one, in ball arithmetic from the declaration.
Errors of an answer are counted from the median, a known constant that whoever releases it takes
off: noise that is one-sided or skewed is not charged for its offset.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mechc.composition.inputs import as_array, as_number, check
from mechc.errors import NumericError, UnsupportedError, as_flag, library, public
from mechc.hints import Hinted
from mechc.numeric.roots import root
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats, Measure, ParameterInfo
from mechc.symbolic.quadrature import integral_and_doubt, sum_over

if TYPE_CHECKING:
    from mechc.protocol import Described, Use
    from mechc.verify.certified.noise import CertifiedNoise, Interval

AGREEMENT = 1e-12  # relative error that halved panels leave
SEEN = 1e-6  # of the mass of all outcomes that may not be found
TURNS = 18  # of a search for the largest density
TAIL_PLACES = np.array([1e15, 1e22])  # where the power of a tail is read off, in extents
# domain of `quantile`: open on both sides
PROBABILITY = ParameterInfo("probability", 0.0, 1.0, True, True, False, None, (0.1, 0.9))


class Moment(float):
    """A number about the noise, infinite where an integral diverges.

    Attributes:
        error: what it may be off by: an estimate, or with the method "certified" a theorem.
        method: "quadrature", "symmetry" of a mean, or "certified".
    """

    error: float
    method: str

    def __new__(cls, value: float, error: float = 0.0, method: str = "quadrature") -> Moment:
        """Combine them."""
        made = super().__new__(cls, value)
        made.error, made.method = error, method
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Copy and pickle all of it."""
        return float(self), self.error, self.method

    @property
    def value(self) -> float:
        """The number alone."""
        return float(self)

    def __str__(self) -> str:
        """One line: the value and how it was found."""
        return f"{float(self):.10g} ({self.method}, +- {self.error:.1g})"

    __repr__ = __str__


@public
class Noise(Hinted):
    """The noise of an additive mechanism.

    Each question takes parameters by name beside its own arguments, in place of those of the use or
    for those that a mechanism has open: `noise.variance(scale=3.0)`. With `certified=True` (needs
    python-flint) the error is proven, and what is not is refused: a tail without a bound, as where
    an integral diverges, and the entropy.

    Attributes:
        mechanism: the mechanism.
        lattice: whether it lives on the integers.
    """

    def __init__(self, mechanism: Described, event: Use | None = None) -> None:
        """Keep the mechanism, and one use of it if its parameters are bound."""
        if mechanism.moved_by is None:
            raise UnsupportedError(
                f"{mechanism.name} is not declared as noise added to a query (expected a "
                "mechanism made by mechc.declare.additive, not on a sample)"
            )
        self.mechanism, self._event = mechanism, event
        self.lattice = mechanism.kernel.MEASURE == Measure.LATTICE

    def __repr__(self) -> str:
        """Say whose noise it is."""
        return f"noise of {self.mechanism.name if self._event is None else self._event}"

    def at(self, **values: float) -> Noise:
        """Return the noise at values of some parameters, by name.

        Raises:
            DeclarationError: a parameter is unknown, missing or out of its domain.
        """
        if self._event is not None:
            return Noise(self.mechanism, self._event.at(**values)) if values else self
        return Noise(self.mechanism, self.mechanism(**values))

    def _asked(self, values: Mapping[str, Any], certified: Any) -> tuple[Noise, bool]:
        return self.at(**values), as_flag("certified", certified)

    @cached_property
    def event(self) -> Use:
        """The use, at the defaults if none was given."""
        return self.mechanism() if self._event is None else self._event

    def density(self, x: Any, **values: float) -> Floats:
        """Return the density (lattice: mass) of the noise.

        Args:
            x: points, any shape.
            values: see the class.
        """
        points = as_array("x", x)
        return np.exp(self.at(**values)._log_density(points.ravel())).reshape(points.shape)

    def _log_density(self, x: Floats) -> Floats:
        out = np.empty(x.size)
        self.event.mechanism.kernel.log_q_many(x, np.array(self.event.theta), out)
        return out

    def mean(self, *, certified: bool = False, **values: float) -> Moment:
        """Return the mean."""
        noise, certified = self._asked(values, certified)
        return _proven(noise._balls.mean(noise._about)) if certified else noise._mean

    def variance(self, *, certified: bool = False, **values: float) -> Moment:
        """Return the variance about the mean."""
        noise, certified = self._asked(values, certified)
        if certified:
            return _proven(noise._balls.variance(noise._about))
        unit = noise._unit * noise._unit  # beyond doubles where that is far from one
        found = float(noise._spread) * unit
        error = noise._spread.error * unit + math.ulp(found) if found < math.inf else 0.0
        return Moment(found, error)

    def standard_deviation(self, *, certified: bool = False, **values: float) -> Moment:
        """Return the root of the variance."""
        noise, certified = self._asked(values, certified)
        if certified:
            lower, upper = noise._balls.variance(noise._about)
            root = math.nextafter(math.sqrt(max(lower, 0.0)), 0.0)
            return _proven((root, math.nextafter(math.sqrt(upper), math.inf)))
        unit, root = noise._unit, math.sqrt(noise._spread)
        # sqrt(v) - sqrt(v - e) <= e / sqrt(v), and a rounding
        error = noise._spread.error / root + EPS * root if 0.0 < root < math.inf else 0.0
        return Moment(root * unit, error * unit)

    @cached_property
    def _spread(self) -> Moment:
        """The variance in units of the square of a power of two."""
        mean, off, unit = float(self._mean), self._mean.error, self._unit
        if math.isinf(mean):
            return Moment(math.inf)
        found = self._integral(lambda x, q: ((x - mean) / unit) ** 2 * q, 2)
        return Moment(found, found.error + (off / unit) * (off / unit))

    def absolute_error(self, *, certified: bool = False, **values: float) -> Moment:
        """Return the mean distance from the median."""
        noise, certified = self._asked(values, certified)
        if certified:
            return _proven(noise._balls.absolute_error(noise._proven_median))
        median = noise._median
        return noise._integral(lambda x, q: np.abs(x - median) * q, 1)

    mean_absolute_error = absolute_error

    def entropy(self, *, certified: bool = False, **values: float) -> Moment:
        """Return the (differential) entropy in nats."""
        noise, certified = self._asked(values, certified)
        if certified:
            raise UnsupportedError(
                f"{noise}: its entropy has no certified answer; certified=False estimates the error"
            )

        def surprise(x: Floats, q: Floats) -> Floats:
            return np.where(q > 0.0, -q * np.log(np.where(q > 0.0, q, 1.0)), 0.0)

        return noise._integral(surprise, 0, 1.0)

    def quantile(self, probability: float, *, certified: bool = False, **values: float) -> Moment:
        """Return the smallest x with P(noise <= x) >= probability.

        Args:
            probability: in (0, 1).
            certified: see the class.
            values: see the class.
        """
        noise, certified = self._asked(values, certified)
        apart, inf = float(noise.lattice), math.inf
        below, above = lambda x: noise.mass(-inf, x), lambda x: noise.mass(x + apart, inf)
        found = noise._solve(below, above, probability, False)
        return _proven(noise._balls.quantile(probability, found)) if certified else found

    def error_quantile(
        self, probability: float, *, certified: bool = False, **values: float
    ) -> Moment:
        """Return the smallest t with P(|noise - median| <= t) >= probability.

        Args:
            probability: in (0, 1).
            certified: see the class.
            values: see the class.
        """
        noise, certified = self._asked(values, certified)
        median, apart, inf = noise._median, float(noise.lattice), math.inf

        def outside(t: float) -> float:
            t += apart
            return noise.mass(-inf, median - t) + noise.mass(median + t, inf)

        found = noise._solve(
            lambda t: noise.mass(median - t, median + t), outside, probability, True
        )
        if certified:
            median_ball = noise._proven_median
            return _proven(noise._balls.error_quantile(probability, found, median_ball))
        return found

    def mass(self, lo: float, hi: float) -> float:
        """Return P(lo <= noise <= hi)."""
        return self._sum(lambda x, q: q, as_number("lo", lo), as_number("hi", hi))[0]

    @cached_property
    def extent(self) -> float:
        """The power of two x at which x times the density on both sides is largest."""
        x = 2.0 ** np.arange(-900.0, 901.0)
        with np.errstate(all="ignore"):
            share = x * (self.density(x) + self.density(-x))
        return float(x[np.nanargmax(share)])

    @cached_property
    def _unit(self) -> float:
        """The extent, a power of two, where doubles do not have the square of that; else 1."""
        far = not self.lattice and not 2.0**-300 < self.extent < 2.0**300
        return self.extent if far and self.density([self.extent, -self.extent]).any() else 1.0

    @cached_property
    def _median(self) -> float:
        return 0.0 if self._even else float(self.quantile(0.5))

    @property
    def _about(self) -> float:
        """A number near the mean, or the median where there is no mean."""
        mean = float(self._mean)
        return mean if math.isfinite(mean) else self._median

    @cached_property
    def _balls(self) -> CertifiedNoise:
        """The noise in ball arithmetic."""
        library("flint")
        from mechc.verify.certified.noise import CertifiedNoise

        theta, spread = self.event.theta, float(self.error_quantile(0.9))
        return CertifiedNoise(self.event.mechanism.declaration, theta, spread)

    @cached_property
    def _proven_median(self) -> Interval:
        return self._balls.quantile(0.5, self._median)

    @cached_property
    def _even(self) -> bool:
        """Whether the density is the same on both sides: proved of the pair, and seen here."""
        x = np.concatenate([np.arange(1.0, 40.0), 40.0 * 1.3 ** np.arange(20.0)])
        x = x if self.lattice else x * math.pi / 10.0
        same = np.array_equal(self._log_density(x), self._log_density(-x))
        return self.event.mechanism.symmetric and same

    @cached_property
    def _mean(self) -> Moment:
        if self._even and self._power() > 2.0:
            return Moment(0.0, method="symmetry")
        top = self._top  # far from 0 the mass that sums lack would count too often
        found = self._integral(lambda x, q: (x - top) * q, 1, self.extent)
        return Moment(top + found, found.error + EPS * abs(top))

    def _power(self) -> float:
        """The heavier of the powers at which the tails fall; infinite for light ones."""
        powers = []
        for side in (1.0, -1.0):
            near, far = self.density(side * self.extent * TAIL_PLACES)
            fall = math.log(near / far) if near > 0.0 < far else math.inf
            powers.append(fall / math.log(TAIL_PLACES[1] / TAIL_PLACES[0]))
        return min(powers)

    def _integral(
        self, f: Callable[[Floats, Floats], Floats], order: int, cancelled: float = 0.0
    ) -> Moment:
        """The integral of f(x, density), infinite where the tails are too heavy for x^order.

        About `cancelled` may be added and taken off again in it.
        """
        if self._power() <= order + 1.0 + 1e-9:
            return Moment(math.inf)
        value, doubt = self._sum(f, -math.inf, math.inf)
        return Moment(value, (abs(value) + cancelled) * (AGREEMENT + self._unseen) + doubt)

    @cached_property
    def _unseen(self) -> float:
        """The share of the mass that sums over the density do not find, which is small."""
        unseen = abs(self.mass(-math.inf, math.inf) - 1.0)
        if not unseen < SEEN:
            raise NumericError(
                f"{self}: sums over the density do not find its mass, up to {unseen:g}"
            )
        return unseen

    def _sum(
        self, f: Callable[[Floats, Floats], Floats], lo: float, hi: float
    ) -> tuple[float, float]:
        """The sum or integral of f(x, density), and how far heavy tails may put it off."""
        with np.errstate(all="ignore"):

            def g(x: Floats) -> Floats:
                q = self.density(x)
                return np.where(q > 0.0, f(x, q), 0.0)

            bends = sorted({self._top, *self._ends})  # where it may bend or break
            marks = np.array([x for x in bends if lo < x < hi])
            if self.lattice:
                return sum_over(g, lo, hi, marks), 0.0
            u = self.extent  # a power of two: what looks for mass at all scales starts at one
            value, doubt = integral_and_doubt(lambda x: g(u * x), lo / u, hi / u, marks / u)
            return u * value, u * doubt

    @cached_property
    def _ends(self) -> list[float]:
        kernel, theta = self.event.mechanism.kernel, np.array(self.event.theta)
        return [0.0, *(float(x) for x in kernel.breakpoints(theta) if math.isfinite(x))]

    @cached_property
    def _top(self) -> float:
        """Where the density is largest between the ends, if it has one top there."""
        lo, hi = min(self._ends), max(self._ends)
        x, top = np.full(15, lo), 0
        for _ in range(TURNS if lo < hi else 0):
            x = lo + (hi - lo) * np.arange(1.0, 16.0) / 16.0
            x = np.rint(x) if self.lattice else x
            top = int(np.argmax(self._log_density(x)))
            lo, hi = (x[top - 1] if top else lo), (x[top + 1] if top < 14 else hi)
        return float(x[top])

    def _solve(
        self,
        inside: Callable[[float], float],
        outside: Callable[[float], float],
        probability: float,
        positive: bool,
    ) -> Moment:
        """The smallest place with the probability inside; masses near one are those outside."""
        probability, _ = check("quantile", PROBABILITY, probability), self._unseen

        def spare(x: float) -> float:
            return inside(x) - probability if probability <= 0.5 else 1.0 - probability - outside(x)

        reach = max(1.0, self.extent) if self.lattice else self.extent
        lo, hi = 0.0 if positive else -reach, reach
        while spare(hi) < 0.0 and hi < 1e300:
            hi *= 2.0
        while not positive and spare(lo) >= 0.0 and lo > -1e300:
            lo *= 2.0
        if self.lattice:
            low, high = math.floor(lo) - 1, math.ceil(hi)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if spare(middle) >= 0.0 else (middle, high)
            return Moment(high)
        found = root(spare, lo, hi, xtol=1e-300, rtol=1e-13, turns=1000)
        return Moment(found, AGREEMENT * max(abs(found), hi))


def _proven(found: tuple[float, float]) -> Moment:
    """The middle of an interval, and what it may be off by."""
    lower, upper = found
    middle = 0.5 * (lower + upper) if upper < math.inf else lower
    error = max(upper - middle, middle - lower)
    return Moment(middle, math.nextafter(error, math.inf) if error else 0.0, "certified")
