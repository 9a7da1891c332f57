"""Sums of atoms: what every contour would wait for in vain, listed and paid out in closed form.

Tilt every step's loss at c and split its characteristic function into atoms and density,
phi_j = A_j + C_j. Expanding the product of all steps,

    A = prod A_j^k_j                                  belongs to the sums of atoms,
    B = sum_i k_i C_i A_i^(k_i - 1) prod A_j^k_j      to one draw with a density, the rest atoms.

Both are sub-probability laws whose part of the trapezoid sum over all frequencies is known
(Theorem A for them alone): with w_l the tilted mass of a composed atom l,

    sum_l w_l G(l - eps),    G(x) = sum_{mT < x} e^(-c (x - mT)) (1 - e^(-(x - mT))),

and an integral over the one density for B. What remains, phi - A - B, has at least two densities:

    |phi - A - B| <= prod (alpha_j + gamma_j)^k_j - (same to first order in gamma) = O(1/y^2)

for |C_j(y)| <= gamma_j(y), alpha_j = A_j(0), so that frequencies beyond Y cost O(1/Y^3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from mechc.accountants.characteristic import Law, Tilted
from mechc.accountants.oscillation import Oscillation, mean_payoff
from mechc.accountants.transform import periodic_payoff
from mechc.loss.compiled import compiled
from mechc.loss.measure import Step
from mechc.loss.work import spend

Floats = NDArray[np.float64]

ULP = 2.2e-16
MOST_SUMS = 400_000  # composed atoms that are listed
MOST_PANELS = 100_000  # panels that the linear part is integrated over
LEAST_SHARE = 1e-22  # composed atoms of less tilted mass than this are left to the contour
NEGLIGIBLE = 1e-22  # tilted mass of a composed atom, as a share of the heaviest one's
FINE = 1.1  # ratio of the cells in which the remainder's bound is integrated
FAR = 600  # such cells


@dataclass(frozen=True, eq=False)
class Sums:
    """Composed atoms: losses, logs of tilted masses, the latter's rounding, and what is left out.

    Attributes:
        loss: shape (n,).
        log_weight: logs of tilted masses, shape (n,).
        noise: bound on the error of log_weight.
        dropped: tilted mass of the atoms left out.
    """

    loss: Floats
    log_weight: Floats
    noise: float
    dropped: float = 0.0

    def plus(self, other: Sums) -> Sums | None:
        """Convolve; None when there would be too many."""
        if self.loss.size * other.loss.size > MOST_SUMS:
            return None
        loss = (self.loss[:, None] + other.loss).ravel()
        log_weight = (self.log_weight[:, None] + other.log_weight).ravel()
        dropped = self.dropped + other.dropped
        return Sums(loss, log_weight, self.noise + other.noise, dropped).without_negligible()

    def without_negligible(self) -> Sums:
        """Drop the lightest sums."""
        kept = self.log_weight > self.log_weight.max() + math.log(NEGLIGIBLE)
        lost = float(np.exp(self.log_weight[~kept]).sum())
        return Sums(self.loss[kept], self.log_weight[kept], self.noise, self.dropped + lost)


def power(loss: Floats, log_weight: Floats, count: int) -> Sums | None:
    """All sums of `count` draws from a few atoms, the multinomial law; None if they are many."""
    m = loss.size
    ways = gammaln(count + m) - gammaln(count + 1.0) - gammaln(float(m))
    if ways > math.log(MOST_SUMS):
        return None
    spend(10.0 * m * math.exp(ways))
    rest = np.full(1, float(count))
    total, log_mass = np.zeros(1), np.full(1, gammaln(count + 1.0))
    for i in range(m):
        if i < m - 1:
            sizes = (rest + 1.0).astype(np.int64)
            drawn = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            rest, total, log_mass = (np.repeat(v, sizes) for v in (rest, total, log_mass))
        else:
            drawn = rest
        total = total + drawn * loss[i]
        log_mass = log_mass + drawn * log_weight[i] - gammaln(drawn + 1.0)
        rest = rest - drawn
    return Sums(total, log_mass, 16.0 * ULP * (2.0 + gammaln(count + 1.0))).without_negligible()


def all_sums(steps: Sequence[Step], weights: Sequence[Floats], less: int = -1) -> Sums | None:
    """Sums of the atoms of all steps, with one draw `less` of one step; None if too many."""
    sums: Sums | None = Sums(np.zeros(1), np.zeros(1), 0.0)
    for i, (step, weight) in enumerate(zip(steps, weights, strict=True)):
        seen = weight > 0.0
        one = power(step.loss.atom_loss[seen], np.log(weight[seen]), step.count - (i == less))
        sums = sums.plus(one) if sums is not None and one is not None else None
    return sums


@compiled(
    "float64(float64[:,:,::1], float64[::1], float64[::1], float64[::1], int64, float64)",
)
def _excess(tables, atoms, density, counts, order, y):  # type: ignore[no-untyped-def]
    """Bound |phi|, |phi - A| or |phi - A - B| for order 0, 1, 2, over A(0), from y on."""
    total = 0.0  # log of prod (1 + x_j)^k_j
    bend = 0.0  # the same without its linear part
    for i in range(counts.size):
        gamma = density[i]
        for g in range(tables.shape[1]):
            gamma = min(gamma, tables[i, g, 0] / y + tables[i, g, 1])
        x = gamma / atoms[i]
        total += counts[i] * math.log1p(x)
        if x > 1e-3:
            bend += counts[i] * (math.log1p(x) - x)
        else:
            bend -= counts[i] * x * x * (0.5 - x / 3.0)
    total = min(total, 700.0)
    if order == 0:
        return math.exp(total)
    if order == 1:
        return math.expm1(total)
    if total > 1e-2:
        return math.expm1(total) - total + bend
    return total * total * (0.5 + total / 6.0 * (1.0 + total)) + bend


@compiled(
    "float64(float64[:,:,::1], float64[::1], float64[::1], float64[::1], int64, float64)",
)
def excess_integral(tables, atoms, density, counts, order, start):  # type: ignore[no-untyped-def]
    """Bound the integral of |remainder| / A(0) / y^2 from `start` on; the bound decreases in y."""
    total = 0.0
    y = start
    for _ in range(FAR):
        size = _excess(tables, atoms, density, counts, order, y)
        total += size * (1.0 / y - 1.0 / (FINE * y))
        y *= FINE
    return total + _excess(tables, atoms, density, counts, order, y) / y


class AtomicPart:
    """The part of a composition with at most one density among its draws, tilted at c.

    Attributes:
        order: 2 with A and B, 1 with A alone, 0 where even that has too many sums.
        share: its tilted mass, A(0) + B(0).
        law: the steps as atoms and polynomials.
        reach: largest sum of centred atoms, for rounding.
    """

    def __init__(self, law: Law, tilted: Tilted, fitted: Oscillation) -> None:
        """List the sums that A and B need, where they are few enough.

        Args:
            law: the composition.
            tilted: where it is tilted.
            fitted: the same as atoms and polynomials.
        """
        self.law, self._c = fitted, tilted.c
        self._counts = law.counts
        weights = [fitted.atoms(i)[1] for i in range(law.counts.size)]
        self._atoms = np.array([float(w.sum()) for w in weights])
        self._density = np.maximum(1.0 - self._atoms, 0.0) + 1e-15
        self._tables = np.stack(fitted.tables)
        self._mass = math.exp(float(law.counts @ np.log(self._atoms)))
        self.reach = sum(s.count * float(np.abs(s.loss.atom_loss).max()) for s in law.steps)
        listed = all_sums(law.steps, weights)
        self._sums = Sums(np.empty(0), np.empty(0), 0.0) if listed is None else listed
        self._once = [] if listed is None else self._with_one_density(law, weights)
        self.order = 0 if listed is None else 1 + bool(self._once)
        densities = [float(fitted.panels(i)[3].sum()) for i in range(len(self._once))]
        once = sum(k * c / a for k, c, a in zip(law.counts, densities, self._atoms, strict=False))
        self.share = self._mass * (1.0 + once)

    def _with_one_density(self, law: Law, weights: list[Floats]) -> list[Sums]:
        """Sums of all draws but one, for every step that the one can be of; none if too many."""
        out, panels = [], 0
        for i in range(law.counts.size):
            fewer = all_sums(law.steps, weights, less=i)
            panels += 0 if fewer is None else fewer.loss.size * self.law.panels(i)[0].shape[0]
            if fewer is None or panels > MOST_PANELS:
                return []
            out.append(fewer)
        return out

    def aliased(self, epsilon: float, period: float) -> tuple[float, float]:
        """Return the part's trapezoid sum over all frequencies, over M(c) e^(-c eps), and an error.

        Args:
            epsilon: the query.
            period: T.
        """
        listed = self._sums.loss.size + sum(fewer.loss.size for fewer in self._once)
        spend(10.0 * listed)
        loss, weight = self._sums.loss, np.exp(self._sums.log_weight)
        x = np.mod(loss - epsilon, period)
        value = float(np.sort(weight * periodic_payoff(x, self._c, period)).sum())
        mass, noise, dropped = float(weight.sum()), self._sums.noise, self._sums.dropped
        for i, fewer in enumerate(self._once):
            weight = self._counts[i] * np.exp(fewer.log_weight)
            at = fewer.loss + self.law.mean[i] - epsilon
            place, series, centred, shares = self.law.panels(i)
            value += mean_payoff(at, weight, place, series, centred, shares, self._c, period)
            mass += float(weight.sum()) * float(shares.sum())
            noise, dropped = max(noise, fewer.noise), dropped + self._counts[i] * fewer.dropped
        # the payoff is at most 1 / (1 + c), its slope 1; images add at most max(1, c) e^(-cT)
        images = math.exp(-self._c * period) / -math.expm1(-self._c * period)
        slope, height = 1.0 + max(1.0, self._c) * images, 1.0 / (1.0 + self._c) + images
        shaky = mass * (self.reach + abs(epsilon) + period)
        error = 4.0 * ULP * slope * shaky + (dropped + self.law.error) * height
        return value, error + (noise + 64.0 * ULP) * value

    def truncation(self, start: float) -> float:
        """Bound the integral of |remainder| / y^2 beyond `start`."""
        found = excess_integral(
            self._tables, self._atoms, self._density, self._counts, self.order, start
        )
        return self._mass * float(found)


def matters(law: Law, tilted: Tilted) -> bool:
    """Whether sums of atoms carry so much of the tilted mass that they need a part of their own."""
    total = 0.0
    for step, weight in zip(law.steps, tilted.weights, strict=True):
        atoms = float(weight[step.loss.loss.size :].sum())
        if not atoms > 0.0:
            return False
        total += step.count * math.log(atoms)
    return total > math.log(LEAST_SHARE)
