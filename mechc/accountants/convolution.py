"""A composition of many different steps on one mesh, convolved term by term.

Rare large losses beside many small ones make no sum that is likely under any tilt, so that the
rounding of a transform drowns it (`fft`), and a contour needs as many frequencies as there are
scales. Here laws of non-negative masses are convolved as they are: every sum has a relative error
of its own, however small it is. That is quick because the mesh may be coarse: connecting the dots
adds k h^2 t (t + 1) / 8 to log delta at most, and n points cost n^2 / 10 nanoseconds a product.

Steps of one count are multiplied first and raised to it together. What is cut off:

* of sums above `top` only the masses under P and Q are kept, and a bound below which they do not
  come any more. Above epsilon these sums have the share P - e^epsilon Q of delta; that is a lower
  bound in any case, and an upper one with the bound in the place of an epsilon above it;
* of every product the lowest sums, a share TRIM of its mass, go to the least that is kept (upper
  law), or are dropped (lower law).

Source of the upper law: Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022 (connect the dots).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.contours.composed import ComposedLoss
from mechc.errors import UnsupportedError
from mechc.loss import discretise
from mechc.loss.discretise import GridLaw
from mechc.loss.moments import dot
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.numeric.allowance import MAX_WORK, allowed, spend
from mechc.numeric.logs import HALF_ROOT, log_add, log_of
from mechc.numeric.roots import switch
from mechc.numeric.rounding import MOST_LOG, U
from mechc.protocol import Floats

PART, LAWS = 0.012, 50.0  # of the work allowed, for one composition, and once more for so many laws
MOST_PART = 0.1  # of that
CELL, PRODUCT = 60.0, 0.01  # work of a mesh point of one law, and of a product of two masses
FEWEST, MOST = 256, 16_384  # mesh points
PIECE = 8192  # masses: longer dot products take threads
LONGEST = 8  # range of one law, in ranges of the sum
TRIM = 1e-9  # share of the mass of a product that is moved or dropped, as its lowest sums
BELOW = 1e-12  # mass of one step below its mesh
LEAST_MASS = 1e-140  # masses, lest products be below the normal doubles
LARGEST_LOSS = 1e100  # loss whose square is a double
FAR_ABOVE = 7.0  # nats above epsilon, beyond which losses count as infinite ...
RARE = 1e-3  # ... or from where on one is so much rarer than one above epsilon
CERTAIN = 4.0  # ... or least sums above which no sum of some others brings one below epsilon
SPREADS, MORE = 6.0, 4.0  # standard deviations of small losses, below their mean and above epsilon
ROOM = 0.15  # share of an epsilon that a mesh goes above it
ROUNDS = 3  # of choosing a step and what it adds to the spread
TURNS = 100  # halvings


@dataclass(frozen=True)
class Sum:
    """A product of laws on a mesh.

    Attributes:
        offset, step, first: of the mesh; the lowest sum is offset + step * first.
        mass: masses of sums.
        far_p, far_q: masses of larger sums, under P and Q.
        floor: lower bound on these sums.
        infinite: mass of what counts as infinite.
        relative: bound on the relative error of masses.
        slack: bound on how far sums are off.
    """

    offset: float
    step: float
    first: int
    mass: Floats
    far_p: float
    far_q: float
    floor: float
    infinite: float
    relative: float
    slack: float

    @property
    def lowest(self) -> float:
        """The least sum."""
        return self.offset + self.step * self.first

    @cached_property
    def kept(self) -> tuple[float, float]:
        """Masses on the mesh under P and Q."""
        points = self.lowest + self.step * np.arange(self.mass.size)
        # what has less than exp(-700) of P is there from above alone, where Q may have too little
        return float(self.mass.sum()), dot(self.mass, np.exp(np.minimum(-points, MOST_LOG)))

    def __mul__(self, other: Sum) -> Sum:
        """The law of the sum of both."""
        spend(PRODUCT * self.mass.size * other.mass.size)
        (p, q), (r, s) = self.kept, other.kept
        few = min(self.mass.size, other.mass.size) + 8
        return Sum(
            self.offset + other.offset, self.step, self.first + other.first,
            _convolved(self.mass, other.mass),
            self.far_p * (r + other.far_p) + p * other.far_p,
            self.far_q * (s + other.far_q) + q * other.far_q,
            min(self.floor + min(other.floor, other.lowest), self.lowest + other.floor),
            self.infinite + other.infinite, self.relative + other.relative + few * U,
            self.slack + other.slack + 4.0 * U * (abs(self.offset) + abs(other.offset)),
        )  # fmt: skip

    def trimmed(self, top: float, upper: bool) -> Sum:
        """This law without sums above the top, and without the lowest ones."""
        mass, first, p, q = self.mass, self.first, self.far_p, self.far_q
        floor = self.floor
        size = max(math.ceil((top - self.offset) / self.step) - first, 0) + 1
        if size < mass.size:
            far, points = mass[size:], self.lowest + self.step * np.arange(size, mass.size)
            p, q = p + float(far.sum()), q + dot(far, np.exp(-points))
            mass, floor = mass[:size], min(floor, float(points[0]))
        below = np.cumsum(mass)
        cut = min(int(np.searchsorted(below, TRIM * below[-1])), mass.size - 1)
        mass = mass[cut:].copy()
        mass[0] += below[cut - 1] if upper and cut else 0.0
        mass = np.maximum(mass, LEAST_MASS) if upper else np.where(mass < LEAST_MASS, 0.0, mass)
        relative = self.relative + (self.mass.size + 8) * U
        return replace(
            self, first=first + cut, mass=mass, far_p=p, far_q=q, floor=floor, relative=relative
        )

    def payoff(self, epsilon: float) -> float:
        """E[(1 - exp(epsilon - S))_+] of sums on the mesh."""
        start = max(math.floor((epsilon - self.offset) / self.step) - self.first, 0)
        start = min(start, self.mass.size)  # no index is larger than a size
        points = self.lowest + self.step * np.arange(start, self.mass.size)
        return dot(self.mass[start:], -np.expm1(np.minimum(epsilon - points, 0.0)))

    def upper(self, epsilon: float) -> float:
        """Bound delta(epsilon) from above, but for the mass at infinite losses of the steps."""
        noise = math.expm1(2.0 * self.relative + 16.0 * U)
        far_q = self.far_q * math.exp(min(epsilon, self.floor) - self.slack)
        far = self.far_p * (1.0 + noise) - far_q * (1.0 - noise)
        value = self.payoff(epsilon - self.slack) + LEAST_MASS * self.mass.size
        return value * (1.0 + noise + self.mass.size * U) + far + self.infinite

    def lower(self, epsilon: float) -> float:
        """Bound the same from below."""
        epsilon += self.slack
        exponent, far = epsilon + self.relative + self.slack + 16.0 * U, 0.0
        if exponent < MOST_LOG:
            far = self.far_p * math.exp(-self.relative) - math.exp(exponent) * self.far_q
        value = (self.payoff(epsilon) - LEAST_MASS * self.mass.size) * math.exp(-self.relative)
        return value * (1.0 - self.mass.size * U) + max(far, 0.0)


class Composition:
    """An upper and a lower law of a composition, ready for any epsilon near the one it is for."""

    def __init__(
        self, composed: ComposedLoss, laws: Sequence[PrivacyLoss], counts: Sequence[int],
        epsilon: float,
    ) -> None:  # fmt: skip
        """Choose a mesh for one epsilon, as fine as the work allowed is, and compose.

        Raises:
            UnsupportedError: the range of one step is far larger than that of the sum.
        """
        self._composed, self.epsilon = composed, epsilon
        nodes = Nodes(laws, counts)
        mean, spread = nodes.small(epsilon)
        products = 2.0 * (len(laws) + sum(2.0 * k.bit_length() for k in set(counts)))
        self.points = _points(len(laws), products)
        least = math.fsum(k * law.support[0] for law, k in zip(laws, counts, strict=True))
        rare = min(max(nodes.reach(epsilon), 0.25 * epsilon + MORE * spread), FAR_ABOVE)
        self.step = 0.0
        for _ in range(ROUNDS):  # what the mesh adds to the spread depends on its step
            wider = math.hypot(spread, 0.5 * self.step * math.sqrt(composed.count))
            lowest = min(max(least, mean - SPREADS * wider), 0.0)
            highest = epsilon + min(rare, ROOM * epsilon + min(-least, -CERTAIN * lowest))
            self.step = (highest - lowest) / self.points
        upper, lower = [], []
        for law in laws:
            above, below = self._on_mesh(law, highest)
            upper.append(above)
            lower.append(below)
        self._upper = _product(upper, counts, highest, True)
        self._lower = _product(lower, counts, highest, False)
        self.width = float(self.bound(epsilon).width)

    def _on_mesh(self, law: PrivacyLoss, highest: float) -> tuple[Sum, Sum]:
        """One step above and below itself."""
        step = self.step
        loss, log_weight = law.nodes()
        order = np.argsort(loss)
        at = int(np.searchsorted(np.cumsum(np.exp(log_weight[order])), BELOW))
        lo = max(law.support[0], float(loss[order[min(at, loss.size - 1)]]))
        hi = max(min(highest, law.support[1]), lo)
        offset = _offset(law, step)
        first = math.floor((lo - offset) / step) - 1
        count = math.ceil((hi - offset) / step) + 2 - first
        if count > LONGEST * self.points:
            raise UnsupportedError(
                f"pld: losses of {law.label} from {lo:g} to {hi:g} have {count} multiples of "
                f"{step:g}, a mesh that is fit for the sum"
            )
        spend(CELL * count)
        cells = discretise.Cells.cut(law, offset, step, first, count, whole=True)
        below = discretise.dominated(cells, 0.0, free=True)
        above = discretise.dominating(cells, (-math.inf, -math.inf))
        p, q = float(cells.p[-1, 1]), float(cells.q[-1, 1])
        noise = below.inflation + float(discretise.displaced(law, cells.points[-1:])[0])
        known = max(1.0 - noise, 0.0)
        revealed = math.exp(above.log_infinite)
        infinite = max(revealed - math.exp(law.log_infinite), 0.0) + 4.0 * U * revealed
        floor = float(cells.points[-1]) - cells.nudge
        return (
            _sum(above, np.maximum(above.mass, LEAST_MASS), (p * (1.0 + noise), q * known),
                 floor, infinite),
            _sum(below, below.mass, (p * known, q * (1.0 + noise)), floor, 0.0),
        )  # fmt: skip

    def bound(self, epsilon: float) -> Bound:
        """Return bounds on log delta(epsilon)."""
        high = math.log(self._upper.upper(epsilon))
        below = self._lower.lower(epsilon)
        low = log_of(below)
        composed, outer = self._composed, self._composed.outer(epsilon)
        top = min(log_add(composed.log_infinite + 16.0 * U, high + 16.0 * U), outer.upper)
        bottom = min(max(composed.with_infinite(low) - 16.0 * U, outer.lower), top)
        estimate = 0.5 * (bottom + top) if bottom > -math.inf else top
        detail = {"step": self.step, "points": self.points, "reason": "convolved term by term"}
        return Bound(bottom, estimate, top, "pld", "proven", detail)


class Nodes:
    """What nodes say of all losses together, for choices that no proof rests on."""

    def __init__(self, laws: Sequence[PrivacyLoss], counts: Sequence[int]) -> None:
        """Sort all nodes, the largest losses first, and sum their masses, moments of losses too."""
        nodes = [law.nodes() for law in laws]
        loss = np.concatenate([each[0] for each in nodes])
        mass = np.concatenate([k * np.exp(each[1]) for k, each in zip(counts, nodes, strict=True)])
        order = np.argsort(-loss)
        self.loss, mass = loss[order], mass[order]
        under_q = mass * np.exp(np.minimum(-self.loss, MOST_LOG))
        near = np.clip(self.loss, -LARGEST_LOSS, LARGEST_LOSS)
        kinds = mass, under_q, mass * near, mass * near**2
        self._sums = [np.append(0.0, np.cumsum(kind)) for kind in kinds]

    def log_single(self, epsilon: float) -> float:
        """Log of the share of delta of one loss above epsilon."""
        at = int(np.searchsorted(-self.loss, -epsilon))
        single = self._sums[0][at] - math.exp(min(epsilon, MOST_LOG)) * self._sums[1][at]
        return log_of(single)

    def reach(self, epsilon: float) -> float:
        """Distance from epsilon at which a larger loss is rare beside those that count."""
        rare = RARE * math.exp(max(self.log_single(epsilon), -MOST_LOG))
        at = min(int(np.searchsorted(self._sums[0], rare)), self.loss.size - 1)
        return max(float(self.loss[at]) - epsilon, 0.0)

    def small(self, epsilon: float) -> tuple[float, float]:
        """Mean and standard deviation of the sum of losses below epsilon."""
        at = int(np.searchsorted(-self.loss, -epsilon))
        mean, square = (float(each[-1] - each[at]) for each in self._sums[2:])
        return mean, math.sqrt(max(square, 0.0))

    def epsilon(self, log_delta: float) -> float:
        """About the epsilon at which delta is the target, by one large loss or many small ones."""

        def exceeds(at: float) -> bool:
            mean, spread = self.small(at)
            z = (at - mean) / max(spread, 1e-300)
            normal = spread * (
                math.exp(-0.5 * min(z * z, 1400.0)) / 2.5 - z * 0.5 * math.erfc(z * HALF_ROOT)
            )
            known = max(self.log_single(at), log_of(normal))
            return known > log_delta

        return switch(exceeds, 1e-3, 0.0, MOST_LOG, TURNS)[1]


def _convolved(a: Floats, b: Floats) -> Floats:
    """Masses of sums, in pieces for which numpy takes no threads: those wait for one another."""
    out = np.zeros(a.size + b.size - 1)
    for start in range(0, b.size, PIECE):
        part = np.convolve(a, b[start : start + PIECE])
        out[start : start + part.size] += part
    return out


def _points(laws: int, products: float) -> int:
    """Mesh points for which one composition takes its part of the work."""
    work = min(PART * (1.0 + laws / LAWS), MOST_PART) * min(allowed(), 100.0 * MAX_WORK)
    each = CELL * laws
    root = math.sqrt(each * each + 4.0 * products * PRODUCT * work)
    return int(min(max((root - each) / (2.0 * products * PRODUCT), FEWEST), MOST))


def _offset(law: PrivacyLoss, step: float) -> float:
    """Where the mesh of one law lies: a point at its least loss, or half a step beyond its largest.

    What piles up at the least loss under sparse sampling is then next to a point.
    """
    if math.isfinite(law.support[0]):
        return law.support[0]
    return law.support[1] - 0.5 * step if math.isfinite(law.support[1]) else 0.0


def _sum(
    law: GridLaw, mass: Floats, far: tuple[float, float], floor: float, infinite: float
) -> Sum:
    """One grid law as a product of one."""
    mesh = law.offset, law.step, law.first
    return Sum(*mesh, mass, *far, floor, infinite, law.inflation, law.slack)


def _product(laws: Sequence[Sum], counts: Sequence[int], top: float, upper: bool) -> Sum:
    """The law of the sum, the powers of all counts by squaring together."""

    def times(a: Sum, b: Sum) -> Sum:
        return (a * b).trimmed(top, upper)

    groups: dict[int, Sum] = {}
    for law, count in zip(laws, counts, strict=True):
        own = law.trimmed(top, upper)
        groups[count] = times(groups[count], own) if count in groups else own
    factors: list[Sum] = []
    for bit in range(max(groups).bit_length() - 1, -1, -1):
        factors = 2 * factors + [law for count, law in groups.items() if count >> bit & 1]
        factors = [reduce(times, factors)]
    total = factors[0]
    far = total.step * max(abs(total.first), abs(total.first + total.mass.size))
    return replace(total, slack=total.slack + 8.0 * U * (abs(total.offset) + far))
