"""The purely atomic part of a composition, which no contour can wait to decay.

Tilt every step's loss at c and split its characteristic function into atoms and density,
phi_j = A_j + C_j. The product A = prod A_j^k_j belongs to the sums of atoms, which can be listed.
What they contribute to the trapezoid sum of all frequencies is known in closed form (Theorem A for
the discrete part alone),

    (1 / T) sum_n A(nh) e^(...) W(c + inh) = sum_l w_l G(l - eps),
    G(x) = sum_{x > mT} e^(-c (x - mT)) (1 - e^(-(x - mT))),

w_l being the tilted mass of the composed atom l. Only the remainder phi - A is left to the nodes.
It has a density, and decays: by the product, with alpha_j = A_j(0) and |C_j(y)| <= gamma_j(y)

    |phi - A| <= prod (alpha_j + gamma_j)^k_j - prod alpha_j^k_j = O(1/y),

which the payoff's 1/y^2 makes a truncation error of O(1/Y^2), times the mass of the atoms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from mechc.accountants.characteristic import Law, Tilted
from mechc.accountants.transform import periodic_payoff

Floats = NDArray[np.float64]

_JIT: dict[str, Any] = {"error_model": "numpy", "cache": True}
ULP = 2.2e-16
MOST_SUMS = 400_000  # composed atoms that are listed
LEAST_SHARE = 1e-13  # composed atoms of less tilted mass than this are left to the contour
NEGLIGIBLE = 1e-22  # tilted mass of a composed atom, as a share of the heaviest one's
FINE = 1.1  # ratio of the cells in which the remainder's bound is integrated
FAR = 600  # such cells


@nb.njit(
    "void(int64[::1], float64[::1], float64[::1], float64[::1], float64, int64, int64,"
    " float64[::1], float64[::1])",
    **_JIT,
)
def log_atoms(offsets, counts, centred, weight, h, begin, end, re, im):  # type: ignore[no-untyped-def]
    """Log of prod_j (sum_a w_a exp(i n h d_a))^k_j for begin <= n < end."""
    for n in range(begin, end):
        size = 0.0
        angle = 0.0
        for i in range(counts.size):
            x = 0.0
            y = 0.0
            for j in range(offsets[i], offsets[i + 1]):
                theta = n * h * centred[j]
                x += weight[j] * math.cos(theta)
                y += weight[j] * math.sin(theta)
            size += counts[i] * 0.5 * math.log(max(x * x + y * y, 1e-300))
            angle += counts[i] * math.atan2(y, x)
        re[n - begin] = size
        im[n - begin] = angle


@nb.njit("float64(float64[:,:,::1], float64[::1], float64[::1], float64[::1], float64)", **_JIT)
def _excess(tables, atoms, density, counts, y):  # type: ignore[no-untyped-def]
    """Log of prod (1 + gamma_j(y) / alpha_j)^k_j."""
    total = 0.0
    for i in range(counts.size):
        gamma = density[i]
        for g in range(tables.shape[1]):
            gamma = min(gamma, tables[i, g, 0] / y + tables[i, g, 1])
        total += counts[i] * math.log1p(gamma / atoms[i])
    return total


@nb.njit(
    "float64(float64[:,:,::1], float64[::1], float64[::1], float64[::1], float64, float64)", **_JIT
)
def _remainder(tables, atoms, density, counts, log_share, start):  # type: ignore[no-untyped-def]
    """Bound the integral of |phi - A| / y^2 from `start` on; the bound on |phi - A| decreases."""
    total = 0.0
    y = start
    for _ in range(FAR):
        size = math.exp(log_share) * math.expm1(
            min(_excess(tables, atoms, density, counts, y), 700.0)
        )
        total += size * (1.0 / y - 1.0 / (FINE * y))
        y *= FINE
    return (
        total
        + math.exp(log_share)
        * math.expm1(min(_excess(tables, atoms, density, counts, y), 700.0))
        / y
    )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Composed atoms: losses, logs of tilted masses, and the rounding of the latter."""

    loss: Floats
    log_weight: Floats
    noise: float
    dropped: float = 0.0

    def plus(self, other: _Sums) -> _Sums | None:
        """Convolve; None when there would be too many."""
        if self.loss.size * other.loss.size > MOST_SUMS:
            return None
        loss = (self.loss[:, None] + other.loss).ravel()
        log_weight = (self.log_weight[:, None] + other.log_weight).ravel()
        dropped = self.dropped + other.dropped
        return _Sums(loss, log_weight, self.noise + other.noise, dropped).without_negligible()

    def without_negligible(self) -> _Sums:
        """Drop the lightest sums."""
        kept = self.log_weight > self.log_weight.max() + math.log(NEGLIGIBLE)
        lost = float(np.exp(self.log_weight[~kept]).sum())
        return _Sums(self.loss[kept], self.log_weight[kept], self.noise, self.dropped + lost)


def _power(loss: Floats, log_weight: Floats, count: int) -> _Sums | None:
    """All sums of `count` draws from a few atoms, the multinomial law."""
    m = loss.size
    ways = gammaln(count + m) - gammaln(count + 1.0) - gammaln(float(m))
    if ways > math.log(MOST_SUMS):
        return None
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
    return _Sums(total, log_mass, 16.0 * ULP * (2.0 + gammaln(count + 1.0))).without_negligible()


class AtomicPart:
    """The sums of atoms of a composition, tilted at the real part of a contour.

    Attributes:
        log_share: log of their tilted mass, A(0).
        re, im: log A at y = h, 2h, ..., as far as asked for; centred like Tilted.
    """

    def __init__(self, law: Law, tilted: Tilted, sums: _Sums, parts: list[Floats]) -> None:
        """Keep what `of` found: the composed atoms and the tilted weights of every step."""
        self._sums, self._c, self._counts = sums, tilted.c, law.counts
        self._atoms = np.array([float(w.sum()) for w in parts])
        self.log_share = float(law.counts @ np.log(self._atoms))
        sizes = [w.size for w in parts]
        self._offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._weight = np.concatenate(parts)
        self._centred = np.concatenate(
            [s.loss.atom_loss - m for s, m in zip(law.steps, tilted.mean, strict=True)]
        )
        self._reach = sum(s.count * float(np.abs(s.loss.atom_loss).max()) for s in law.steps)
        self.re, self.im = np.empty(0), np.empty(0)

    @classmethod
    def of(cls, law: Law, tilted: Tilted) -> AtomicPart | None:
        """Find the atomic part of a composition.

        Returns:
            None where it does not matter, or where its atoms are too many to list.
        """
        parts = [w[s.loss.loss.size :] for s, w in zip(law.steps, tilted.weights, strict=True)]
        if not all(w.size and w.sum() > 0.0 for w in parts):
            return None
        if law.counts @ np.log([w.sum() for w in parts]) < math.log(LEAST_SHARE):
            return None
        sums: _Sums | None = _Sums(np.zeros(1), np.zeros(1), 0.0)
        for step, weight in zip(law.steps, parts, strict=True):
            seen = weight > 0.0
            one = _power(step.loss.atom_loss[seen], np.log(weight[seen]), step.count)
            sums = sums.plus(one) if sums is not None and one is not None else None
        return None if sums is None else cls(law, tilted, sums, parts)

    def extend(self, h: float, nodes: int) -> None:
        """Evaluate log A until `nodes` frequencies are known."""
        have = self.re.size
        if nodes > have:
            re, im = np.empty(nodes - have), np.empty(nodes - have)
            args = (self._offsets, self._counts, self._centred, self._weight)
            log_atoms(*args, h, have + 1, nodes + 1, re, im)
            self.re, self.im = np.concatenate([self.re, re]), np.concatenate([self.im, im])

    def aliased(self, epsilon: float, period: float) -> tuple[float, float]:
        """Return sum_l w_l G(l - epsilon) and a bound on its error."""
        loss, weight = self._sums.loss, np.exp(self._sums.log_weight)
        x = np.mod(loss - epsilon, period)
        terms = weight * periodic_payoff(x, self._c, period)
        value = float(np.sort(terms).sum())
        # f is at most 1 / (1 + c) and its slope 1; both images sum to at most e^(-cT) max(1, c)
        images = math.exp(-self._c * period) / -math.expm1(-self._c * period)
        slope, height = 1.0 + max(1.0, self._c) * images, 1.0 / (1.0 + self._c) + images
        shaky = float(weight.sum()) * (self._reach + abs(epsilon) + period)
        error = 4.0 * ULP * slope * shaky + self._sums.dropped * height
        return value, error + (self._sums.noise + 64.0 * ULP) * value

    def remainder(self, tables: Floats, start: float) -> float:
        """Bound the integral of |phi - A| / y^2 beyond `start`.

        Args:
            tables: Tilted.variation().
            start: last frequency that was evaluated.
        """
        density = np.maximum(1.0 - self._atoms, 0.0) + 1e-15
        return float(_remainder(tables, self._atoms, density, self._counts, self.log_share, start))
