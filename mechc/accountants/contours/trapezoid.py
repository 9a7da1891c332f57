"""The trapezoid rule on one vertical contour, with the error terms of Theorem A.

For 0 < c < t_plus, period T and h = 2 pi / T (Poisson summation)

    S = (1 / T) sum_n M(z_n) exp(-eps z_n) W(z_n) = sum_m exp(mTc) H(eps + mT),   z_n = c + inh,

where H(eps) = E_P[(1 - exp(eps - L))_+; L finite] and W(z) = 1 / (z (z + 1)) is the transform of
the payoff. When every loss lies on a lattice of step eta the integrand is periodic and the sum
over one period, with T a multiple of eta, is the whole sum; W is then the lattice transform
(docs/numerics.md, section 5). All terms on the right are non-negative: m = 0 is the answer, m > 0
are bounded by Chernoff, and m < 0 lie between max(0, M(0) - exp(eps - mT) M(-1)) and M(0).

Where a characteristic function does not decay at all the payoff is smoothed. H(eps) is convex in
e^eps. For a random U with E e^U = 1 therefore E H(eps + U) >= H(eps), an upper bound whose
transform has the factor Phi(z) = E e^(-zU). U is normal with variance v^2 and mean -v^2/2, so that
Phi(z) = exp(v^2 z (z + 1) / 2). The excess is E psi(S - eps) for the composed loss S, where

    psi(x) = E (e^(U - x) - 1)_+ for x > 0,    E (1 - e^(U - x))_+ for x < 0,

and U has a log-concave density p, so that psi(x) / p(x) is largest at 0, where both sides agree:
p(x + s) / p(x) falls in x for s > 0. Hence

    E H(eps + U) - C E p(S - eps) <= H(eps) <= E H(eps + U),    C = psi(0) / p(0),

and E p(S - eps), the density of the smoothed loss, has the transform Phi alone. The width is about
v^2 / 2 times the density of the composed loss at eps: it falls with the square of the frequency.
Bounds on images by exp(K(s) - s eps) grow by Phi(s).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from mechc.accountants.contours.characteristic import Tilted
from mechc.accountants.contours.law import Law
from mechc.accountants.contours.placement import Placement
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.moments import dot
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.numeric.allowance import spend
from mechc.numeric.jit import compiled, subroutine
from mechc.numeric.logs import log_peak
from mechc.numeric.rounding import EPS, SQUARABLE
from mechc.protocol import Complexes, Floats

KEEPING = 50  # node evaluations that the memory of one frequency is worth
WAVE = 12.0  # work for one frequency of a sum
MASSES = 16.0 * EPS  # relative error of masses of atoms that kernels make of their parameters
# work for a frequency by a transform, of so many steps at most, where sums take more than this
TRANSFORMED, MOST_STEPS, SUMMED = 300.0, 10_000, 2.0**22
MOST_FREQUENCIES = 4_000_000  # 100 bytes each while they are summed


@dataclass(frozen=True)
class Answer:
    """Log of lower bound, estimate and upper bound of the finite part, and how it was found."""

    lower: float
    estimate: float
    upper: float
    detail: dict[str, float | str]

    @property
    def width(self) -> float:
        """Return upper minus lower, infinite without one of them."""
        if self.upper == -math.inf:
            return 0.0
        width = self.upper - self.lower
        return math.inf if math.isnan(width) else width


@dataclass(frozen=True)
class Smooth:
    """Payoff transform for losses with a density: W(z) = 1 / (z (z + 1)).

    `edge` is the largest distinct frequency; `size(c)` bounds |W(c + iy)| y^2 below it.
    """

    edge = math.inf

    def size(self, c: float) -> float:
        """Return 1: |z (z + 1)| >= y^2."""
        return 1.0

    def times(self, n: int) -> Smooth:
        """Return the transform for n repetitions, or, n = -1, for the reversed pair."""
        return self

    def period(self, wanted: float) -> float:
        """Any period will do."""
        return wanted

    def transform(self, z: Complexes, epsilon: float) -> Complexes:
        """Return W at the complex points z."""
        out: Complexes = 1.0 / (z * (z + 1.0))
        return out

    def nodes(self, period: float) -> float:
        """Number of distinct frequencies y > 0."""
        return math.inf


@dataclass(frozen=True)
class Lattice:
    """Payoff transform for losses on offset + step * Z.

    With g the distance from epsilon up to the next lattice point,
    W(z) = step * (exp(-zg) / (1 - exp(-step z)) - exp(-(z+1)g) / (1 - exp(-step (z+1)))).
    """

    offset: float
    step: float

    @property
    def edge(self) -> float:
        """Half a period of the integrand."""
        return math.pi / self.step

    def size(self, c: float) -> float:
        """Bound |W(c + iy)| y^2 for y <= edge, c > 0, part by part.

        From |1 - exp(-step z)| >= (2/pi) step y e^(...), or >= 1 - exp(-step c) where c is large.
        """

        def part(t: float) -> float:
            if self.step * t > 2.0:
                return self.step * self.edge**2 / -math.expm1(-self.step * t)
            return 0.5 * math.pi * math.exp(0.5 * self.step * t) * self.edge

        return part(c) + part(c + 1.0)

    def times(self, n: int) -> Lattice:
        """Return the transform for n repetitions, or, n = -1, for the reversed pair."""
        return Lattice(n * self.offset, self.step)

    def period(self, wanted: float) -> float:
        """An odd multiple of the step, so that no node falls on the edge of the period."""
        half = math.ceil(0.5 * wanted / self.step)
        return (2 * half + 1) * self.step

    def gap(self, epsilon: float) -> float:
        """Distance from epsilon up to the next lattice point."""
        place = (epsilon - self.offset) / self.step
        return self.step * (math.floor(place) + 1.0 - place)

    def transform(self, z: Complexes, epsilon: float) -> Complexes:
        """Return W at the complex points z."""
        gap = self.gap(epsilon)
        point, more = self.parts(z)
        out: Complexes = self.step * np.exp(-z * gap) * (point - more * math.expm1(-gap))
        return out

    def parts(self, z: Complexes) -> tuple[Complexes, Complexes]:
        """Return D and B of W(z) = step exp(-zg) (D + B (1 - exp(-g))): nothing cancels."""
        more = np.asarray(-1.0 / np.expm1(-self.step * (z + 1.0)), np.complex128)
        ratio = np.exp(-self.step * z) / np.expm1(-self.step * z)
        return np.asarray(math.expm1(-self.step) * more * ratio, np.complex128), more

    def nodes(self, period: float) -> float:
        """Number of distinct frequencies y > 0 in one period of the integrand."""
        return float(round((period / self.step - 1.0) / 2.0))


def _shaky(law: PrivacyLoss) -> Floats:
    """How many EPS losses on a lattice may be off: they are differences of logs of masses."""
    # The masses of a table have been rounded themselves.
    off: Floats = np.abs(law.atom_log_mass) + np.abs(law.atom_log_mass - law.atom_loss)
    return off + 2.0 if law.source is None else off


def rounded(law: Law, c: float, payoff: Smooth | Lattice) -> tuple[float, float, float]:
    """How far rounding of losses moves K(c), and them off the payoff's lattice in mean and at most.

    Such a loss is a difference of logs of masses, off by their rounding however small it is
    itself; moving a loss by d moves K(c) by c d.
    """
    common = payoff if isinstance(payoff, Lattice) else None
    moved, mean = 0.0, 4.0 * EPS * abs(common.offset) if common else 0.0
    most = mean
    for loss, count in law.steps:
        if loss.lattice is None:
            if common:  # at this tilt integers count that have no such losses
                raise UnsupportedError(f"lattice: losses of {loss.label} leave it at tilt {c:g}")
            continue
        log_weight = loss.atom_log_mass + c * loss.atom_loss
        weight = np.exp(log_weight - np.logaddexp.reduce(log_weight))
        shaky = EPS * _shaky(loss)
        moved += count * c * dot(weight, shaky)
        if common is None:
            continue
        place = (loss.atom_loss - loss.lattice[0]) / common.step
        apart = np.abs(place - np.rint(place)) * common.step + shaky
        apart += 4.0 * EPS * (np.abs(loss.atom_loss) + abs(loss.lattice[0]))
        mean += count * dot(weight, apart)
        most += count * float(apart.max())
    return moved, mean, most


class Contour:
    """One contour with its nodes: log phi at y = h, 2h, ...; re-used for many epsilons.

    Attributes:
        c, period: real part of the contour and T; the nodes are c + 2 pi i n / T.
        nodes: number of frequencies evaluated so far.
        cost: work of one more, in node evaluations.
        decay: bound on the integral of sup |phi| / y^2 beyond the last node.
        farther: factor to frequencies that the law resolves as far as proofs of decay need it.
    """

    def __init__(
        self, law: Law, payoff: Smooth | Lattice, where: Placement, farther: float = 1.0
    ) -> None:
        """Fix the contour, of a law resolved as far as the first nodes need, which follow."""
        self.c, self.period = where.c, payoff.period(where.period)
        self.payoff = payoff
        self.log_mass = self.log_q = self.lowest = 0.0
        for step, count in law.steps:
            self.log_mass += count * step.log_finite
            self.log_q += count * step.log_covered
            self.lowest += count * step.support[0]
        self.most = payoff.nodes(self.period)
        self.h = 2.0 * math.pi / self.period
        self.re, self.im, self.nodes = np.empty(0), np.empty(0), 0
        self._weight = math.nan, math.nan
        self.decay = math.inf
        self.blurred: Blurred | None = None  # a smoothed payoff, where its answers are narrower
        later = where.grid > where.c
        self._images = images_beyond(self.c, self.period, where.grid[later], where.log_b[later])
        self.resolve(law, farther)

    def resolve(self, law: Law, farther: float = 1.0) -> None:
        """Take a law whose nodes resolve higher frequencies; known values stay."""
        self.farther = farther
        self._terms = math.nan, 0, np.empty(0), 0.0
        self.k, self.mean, self.variance, self.rounding = law.composed(self.c)
        self.tilted = Tilted(law, self.c)
        self.reach, atoms = math.inf, 0
        for step, count in law.steps:
            self.reach = min(self.reach, step.frequency)
            atoms += count if step.atom_loss.size else 0
        # of point masses alone, on no lattice, one transform has all frequencies that are wanted
        few = float(np.add.reduce(law.counts)) <= MOST_STEPS
        self._transforms = few and math.isinf(self.reach) and math.isinf(self.most)
        size = float(max(self.tilted.weight.size, KEEPING))
        self.cost = min(size, TRANSFORMED) if self._transforms else size
        moved, *self.strayed = rounded(law, self.c, self.payoff)
        self.tolerance = law.tolerance + self.tilted.lost + 1e-15 + moved + MASSES * atoms
        self.unresolved = law.unresolved(self.c)

    def extend(self, nodes: int) -> None:
        """Evaluate log phi until `nodes` frequencies are known."""
        nodes = int(min(nodes, self.most))
        have = self.re.size
        if nodes > MOST_FREQUENCIES:
            raise NumericError(f"the inversion needs {nodes} frequencies (> {MOST_FREQUENCIES})")
        if nodes > have:
            if self._transforms and self.tilted.weight.size * nodes > SUMMED:
                re, im, error = self.tilted.transformed(self.h, nodes)
                self.tolerance, have = self.tolerance + error, 0
            else:
                re, im = self.tilted.log_phi(self.h, have + 1, nodes + 1)
            if have:
                re, im = np.concatenate([self.re, re]), np.concatenate([self.im, im])
            self.re, self.im, self.nodes = re, im, nodes
            self.decay = 0.0 if nodes == self.most else math.inf

    def weight(self, epsilon: float) -> float:
        """Return W(c), the size of the first term; 0 where doubles do not hold its digits."""
        if self._weight[0] != epsilon:  # asked several times for each epsilon
            at = float(self.payoff.transform(np.array([self.c + 0j]), epsilon)[0].real)
            self._weight = epsilon, at if at >= sys.float_info.min else 0.0
        return self._weight[1]

    @np.errstate(over="ignore", invalid="ignore")  # such a sum is refused by `conclude`
    def waves(self, epsilon: float) -> tuple[Floats, Complexes, Floats]:
        """Return y, g(c + iy) / g(c) at the nodes y = h, 2h, ..., and its rounding in EPS."""
        spend(WAVE * self.re.size)
        y = self.h * np.arange(1.0, self.re.size + 1.0)
        z = np.asarray(self.c + 1j * y, np.complex128)
        turn, size = self.mean - epsilon, abs(self.mean) + abs(epsilon)
        turns = 8.0 + np.abs(self.re) + 2.0 * (np.abs(self.im) + y * size)
        # M(z) and M(c) are off by the quadrature, whatever is left of a sum whose terms cancel: one
        # of the factors that make up exp(re), whose log is at most this share of re
        least = float(np.minimum.reduce(self.tilted.counts))
        error, share = 2.0 * grown(self.tolerance) / EPS, 1.0 / least
        factor = self.payoff.transform(z, epsilon) / self.weight(epsilon)
        noise = np.exp(self.re) * turns + np.exp((1.0 - share) * self.re) * error
        value: Complexes = factor * np.exp(self.re + 1j * (self.im + y * turn))
        noise *= np.abs(factor)
        return y, value, noise

    def terms(self, epsilon: float) -> tuple[Floats, float]:
        """Real parts of g(c + inh) / g(c) for n = 1, 2, ..., and a bound on their rounding."""
        if self._terms[:2] != (epsilon, self.nodes):  # to see that they are enough, and to answer
            _, value, noise = self.waves(epsilon)
            self._terms = epsilon, self.nodes, value.real, EPS * float(np.add.reduce(noise))
        return self._terms[2:]

    def first(self, epsilon: float) -> tuple[float, float]:
        """Return what to add the terms twice to, as a share of g(c), and its error: the term 0."""
        return 1.0, 0.0

    def factor(self, epsilon: float, values: Floats) -> float:
        """Return what a truncation costs for its decay, as a share of a sum of these terms.

        Of one that is far too small for its first term, less.
        """
        total = max(self.first(epsilon)[0] + 2.0 * float(np.add.reduce(values)), 1e-3)
        return self.payoff.size(self.c) * self.period / (math.pi * total * self.weight(epsilon))

    def answer(self, epsilon: float) -> Answer | None:
        """Evaluate Theorem A with the nodes at hand; None where the sum is not positive."""
        start = self.weight(epsilon)
        if not start > 0.0:
            return None  # the payoff underflows so far from this contour's own epsilon
        values, noise = self.terms(epsilon)
        first, error = self.first(epsilon)
        total = first + 2.0 * float(np.add.reduce(values[::-1]))
        noise = 2.0 * noise + error + EPS * 4.0 * float(np.add.reduce(np.abs(values)))
        tail = self.decay * self.payoff.size(self.c) * self.period / (math.pi * start)
        return self.conclude(epsilon, (total, total, total), noise, tail, self._images)

    def conclude(
        self, epsilon: float, sums: tuple[float, float, float], noise: float, truncation: float,
        images: Floats,
    ) -> Answer | None:  # fmt: skip
        """Subtract images from a trapezoid sum and allow for errors, as shares of the sum."""
        # sums in units of their first term, for payoffs not above the true one, close to it and not
        # below it; bounds on their rounding, and on what frequencies beyond the last add
        low, middle, total = sums
        start = self.weight(epsilon)
        if not (total > 0.0 and start * total > 0.0):  # a product may underflow
            return None
        log_s = self.k - self.c * epsilon + math.log(start / self.period) + math.log(total)
        tail = min(1e50, truncation / total)
        chernoff = self.period / (start * total)  # of the probability, in units of the sum
        error = tail + noise / total + grown(self.unresolved) * chernoff
        if isinstance(self.payoff, Lattice):
            mean, most = (d + 4.0 * EPS * abs(epsilon) for d in self.strayed)
            error += moved(self.c, self.payoff.gap(epsilon), mean, most, chernoff)
        low, middle = low / total, middle / total
        about = self.facts(), nearest_image(1.0, epsilon, images)
        found = conclude(1.0, epsilon, log_s, low, middle, error, *about)
        lower, estimate, upper, _, share, right, unknown, rounding = found
        if not upper < math.inf:
            return None
        detail = {
            "contour": self.c, "period": self.period, "nodes": float(self.nodes),
            "right_images": right / share, "left_images": unknown / share,
            "truncation": tail / share, "rounding": float((rounding - tail) / share),
        }  # fmt: skip
        return Answer(lower, estimate, upper, detail)

    def facts(self, n: float = 1.0) -> Floats:
        """Constants of the contour in their places, those of the law for one of n repetitions.

        TAIL, what is left out, is for whoever has chosen the nodes.
        """
        facts = constants(self.c, self.period)
        facts[MEAN], facts[LOG_M], facts[LOWEST] = self.mean / n, self.k / n, self.lowest / n
        facts[UNRESOLVED] = self.unresolved / n
        facts[NOISE_M] = (self.rounding + self.tolerance) / n
        facts[LOG_MASS], facts[LOG_Q] = self.log_mass / n, self.log_q / n
        facts[STRAYED], facts[STRAYED_MOST] = self.strayed[0] / n, self.strayed[1] / n
        facts[ONE] = n / float(np.minimum.reduce(self.tilted.counts))
        return facts

    def images(self, n: float) -> Floats:
        """Rows s, K(s) of one of n repetitions, and the rest of the bound on images right of c."""
        scaled = self._images.copy()
        peak = log_peak(scaled[0])
        scaled[1], scaled[2] = (scaled[1] - peak) / n, scaled[2] + peak
        return scaled


def images_beyond(c: float, period: float, tilts: Floats, log_b: Floats) -> Floats:
    """Rows for the bound on the images right of c: tilts s, bounds there, and the rest of it."""
    rows = np.array([tilts, log_b, _log_images(np.minimum(period * (tilts - c), 1e300))])
    rows[1][np.isnan(log_b)] = np.inf
    return rows


def nearest_image(n: float, epsilon: float, images: Floats) -> Floats:
    """The one row of `images_beyond` that says the least at an epsilon; it is a bound at any."""
    bounds = n * images[1] - epsilon * images[0] + images[2]
    bounds[np.isnan(bounds)] = np.inf
    best = int(bounds.argmin()) if bounds.size else 0
    return images[:, best : best + 1]


def _log_images(fade: Floats) -> Floats:
    """Log of the sum over images, each of which is smaller than the one before by exp(-fade)."""
    return np.asarray(-fade - np.log(-np.expm1(-fade)))


# places of a contour's constants in the array `facts`; all of one repetition
C, PERIOD, MEAN, LOG_M, NOISE_M, TAIL, LOG_MASS, LOG_Q, LOWEST = range(9)
UNRESOLVED = 9  # tilted mass that `Law.unresolved` bounds, of one repetition
OFFSET, STEP, STRAYED, STRAYED_MOST = range(10, 14)  # of a lattice
# logs of what the sum is multiplied by, and of the images of the masses of both laws
FRONT, IMAGES, IMAGES_Q = range(14, 17)
ONE = 17  # share of log phi of one repetition that one factor has at most
FACTS = 18  # their number


def constants(c: float, period: float) -> Floats:
    """Return those that follow from the contour and the period, zero for the others."""
    facts = np.zeros(FACTS)
    facts[C], facts[PERIOD], facts[FRONT] = c, period, -math.log(c * (c + 1.0) * period)
    facts[IMAGES : IMAGES_Q + 1] = _log_images(np.array([c, c + 1.0]) * period)
    return facts


@subroutine("float64(float64)")
def grown(error):  # type: ignore[no-untyped-def]
    """Relative error of M where its log is off by so much: errors of many steps are not small."""
    return math.expm1(min(50.0, error))


@subroutine("UniTuple(float64, 5)(float64, float64, float64, float64[::1], float64[:,::1])")
def _shares_of_images(n, epsilon, log_s, facts, images):  # type: ignore[no-untyped-def]
    """Return what the images add to a sum, as shares of it."""
    # returns those on the left as far as known, how much they fall with epsilon, their rounding,
    # how much more they may be, a bound on those on the right
    c, period = facts[C], facts[PERIOD]
    damped = (c + 1.0) * period
    first = math.exp(min(50.0, n * facts[LOG_MASS] + facts[IMAGES] - log_s))
    second = math.exp(min(50.0, n * facts[LOG_Q] + facts[IMAGES_Q] + epsilon - log_s))
    known, unknown, falling = first - second, 0.0, second
    if epsilon - period > n * facts[LOWEST]:
        falling = second if known > 0.0 else 0.0
        known = max(0.0, known)  # each image lies between max(0, ...) and its mass
        unknown = first - known
    # the rounding of log_s itself is that of the sum
    rounding = EPS * (16.0 + c * period) * (known + falling)
    rounding += EPS * (16.0 + 2.0 * (damped + abs(epsilon) + abs(n * facts[LOG_Q]))) * falling
    right = 50.0 + log_s
    for k in range(images.shape[1]):
        right = min(right, n * images[1, k] - epsilon * images[0, k] + images[2, k])
    right -= log_s
    return known, falling, rounding, unknown, math.exp(right)


@subroutine(
    "UniTuple(float64, 8)(float64, float64, float64, float64, float64, float64, float64[::1],"
    " float64[:,::1])",
)
def conclude(n, epsilon, log_s, low, middle, error, facts, images):  # type: ignore[no-untyped-def]
    """Theorem A: from a trapezoid sum to bounds on log H.

    Args:
        n: repetitions.
        epsilon: any real number.
        log_s: log of the sum for a payoff not below the true one.
        low: the sum for a payoff not above it, as a share of that.
        middle: the sum for one close to it, likewise.
        error: bound on truncation and rounding of the sum, likewise.
        facts: constants of the contour by the names above.
        images: rows s, K(s), and what else the bound on the right images has, for s > c.

    Returns:
        Lower bound, estimate and upper bound of log H (-inf, nan, inf where the sum shows none); by
        how much images fall with epsilon; shares of the sum: what is left of it, images on the
        right, unknown ones on the left, all that is rounding or truncation.
    """
    known, falling, rounding, unknown, right = _shares_of_images(n, epsilon, log_s, facts, images)
    rounding += math.expm1(min(50.0, n * facts[NOISE_M])) + error
    rounding += EPS * (40.0 + 4.0 * abs(n * facts[LOG_M]) + 4.0 * abs(facts[C] * epsilon))
    share, high = middle - known, 1.0 - known + rounding
    least = low - known - rounding - right - unknown
    return (
        log_s + math.log(least) if least > 0.0 else -np.inf,
        log_s + math.log(share) if share > 0.0 else -np.inf if high > 0.0 else np.nan,
        log_s + math.log(high) if high > 0.0 else np.inf, falling, max(share, rounding), right,
        unknown, rounding,
    )  # fmt: skip


@compiled("float64(float64, float64, float64, float64, float64)")
def moved(c, gap, mean, most, chernoff):  # type: ignore[no-untyped-def]
    """Bound what rounding of the lattice does to the payoff, as a share of the sum.

    Moving every loss by d moves the answer by at most d P(L > eps - d), where Chernoff's bound of
    the probability is `chernoff` sums at d = 0; and by at most the share d / (exp(gap - d) - 1),
    where the next lattice point, at a distance `gap`, is farther than d from epsilon.
    """
    # `mean` and `most` of d, the mean tilted at c
    share = mean * math.exp(min(50.0, c * most)) * chernoff
    if gap > most:
        share = min(share, most / math.expm1(min(gap - most, 50.0)))
    return share


LOST = 1e-11  # size of Phi at the last frequency
WITHIN = 0.4  # of what a smoothed payoff may be too large, the share that is expected
WIDEST = 1.0  # v, in units of 1 and of 1 / c, beyond which nothing is left


class Blur:
    """The random shift U of epsilon.

    Attributes:
        spread: v, its standard deviation.
        excess: C.
    """

    def __init__(self, spread: float) -> None:
        """Take v: psi(0) is P(-v^2 < U < 0)."""
        self.spread, v = spread, spread
        peak = math.exp(-v * v / 8.0) / (v * math.sqrt(2.0 * math.pi))
        self.excess = math.erf(v / math.sqrt(8.0)) / peak * (1.0 + 1e-14)

    def transform(self, z: Complexes) -> Complexes:
        """Return Phi(z) = E e^(-zU)."""
        out: Complexes = np.exp(0.5 * self.spread**2 * z * (z + 1.0))
        return out

    def tails(self, c: float, start: float) -> tuple[float, float]:
        """Bound the integrals of |Phi(c + iy)| / y^2 and of |Phi(c + iy)| from y = start on."""
        v = self.spread
        size = math.exp(min(0.5 * v * v * (c * (c + 1.0) - start * start), 300.0)) / (v * v * start)
        return size / (start * start), size


class Blurred:
    """The answers of a contour for a payoff smoothed as far as its frequencies need."""

    def __init__(self, contour: Contour) -> None:
        """Smooth so much that nothing is left of the last frequency of the contour."""
        self.contour = contour
        self._last = contour.h * contour.nodes
        self.blur = Blur(min(math.sqrt(-2.0 * math.log(LOST)) / self._last, WIDEST))
        self._factors: tuple[Complexes, Complexes, tuple[float, float], float] | None = None
        self._images = contour.images(1.0)
        self._images[1] += self.growth(self._images[0])

    def growth(self, tilts: Floats) -> Floats:
        """Return log Phi at real tilts, by which bounds on images grow."""
        return np.asarray(0.5 * self.blur.spread**2 * tilts * (tilts + 1.0))

    @property
    def serves(self) -> bool:
        """Whether doubles hold the smoothed payoff, and nothing of it is smoothed away."""
        contour = self.contour
        narrow = self.blur.spread * (1.0 + contour.c) <= WIDEST
        return narrow and max(contour.c, self._last) < SQUARABLE and contour.weight(0.0) > 0.0

    def weights(self, z: Complexes) -> tuple[Complexes, Complexes, float]:
        """Return the transforms of the payoff and of its excess as shares of W(c), at z.

        And a bound on what frequencies beyond the last add to sums of both.
        """
        contour, blur = self.contour, self.blur
        start = contour.weight(0.0)
        smoothed = blur.transform(z) / start
        tail, far = (v / (math.pi * start) for v in blur.tails(contour.c, self._last))
        left_out = (tail + blur.excess * far) * contour.period
        return smoothed * contour.payoff.transform(z, 0.0), smoothed * blur.excess, left_out

    def answer(self, epsilon: float) -> Answer | None:
        """Return bounds at epsilon; None where it or z is too far, or sums are not positive."""
        contour = self.contour
        if not self.serves:
            return None
        _, waves, noise = contour.waves(epsilon)
        spend(WAVE * noise.size)
        if self._factors is None or self._factors[0].size < noise.size:  # else as they were
            y = contour.h * np.arange(contour.nodes + 1.0)
            z = np.asarray(contour.c + 1j * y, np.complex128)
            weight, excess, left_out = self.weights(z)
            payoff = contour.payoff.transform(z[1:], 0.0) / contour.weight(0.0)
            ends = float(weight[0].real), float(excess[0].real)
            self._factors = weight[1:] / payoff, excess[1:] / payoff, ends, left_out
        factor, bump, ends, left_out = self._factors
        upper = ends[0] + 2.0 * float((waves * factor).real[::-1].sum())
        density = ends[1] + 2.0 * float((waves * bump).real[::-1].sum())
        error = EPS * float((noise * np.abs(factor)).sum())
        more = EPS * float((noise * np.abs(bump)).sum())
        more += (contour.tolerance + contour.rounding) * abs(density)
        density = max(density, 0.0)
        sums = upper - density, upper - WITHIN * density, upper
        return contour.conclude(epsilon, sums, 2.0 * (error + more), left_out, self._images)
