"""Sums of atoms: what every contour would wait for in vain, listed and paid out in closed form.

Tilt every step's loss at c and split its characteristic function into atoms and density,
phi_j = A_j + C_j. The product of all steps has a part that belongs to the sums of atoms alone,

    A = prod A_j^k_j,

a sub-probability law whose part of the trapezoid sum over all frequencies is known (Theorem A for
it alone): with w_l the tilted mass of a composed atom l,

    sum_l w_l G(l - eps),    G(x) = sum_{mT < x} e^(-c (x - mT)) (1 - e^(-(x - mT))).

What remains, phi - A, has a density among its draws,

    |phi - A| <= prod (alpha_j + gamma_j)^k_j - prod alpha_j^k_j = O(1/y)

for |C_j(y)| <= gamma_j(y), alpha_j = A_j(0), so that frequencies beyond Y cost O(1/Y^2). They are
many: phi comes from one fast transform (`gridding`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mechc.accountants.contours.characteristic import Tilted
from mechc.accountants.contours.decay import far_law
from mechc.accountants.contours.gridding import transform
from mechc.accountants.contours.trapezoid import MASSES, WAVE, Contour, grown
from mechc.accountants.fft import periodic_payoff
from mechc.loss.privacy_loss import Step
from mechc.numeric.allowance import spend
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats

MOST_SUMS = 400_000  # composed atoms that are listed
LEAST_SHARE = math.log(1e-22)  # of the tilted mass of composed atoms left to the contour
NEGLIGIBLE = math.log(1e-22)  # log of the mass of a composed atom, as a share of the heaviest one's


Sums = tuple[Floats, Floats, float, float]  # losses, masses, their relative error, and what is left


def ways_to_draw(count: int, atoms: int) -> float:
    """Return how many sums `count` draws from so many atoms have, no more than e^60."""
    ways = math.lgamma(count + atoms) - math.lgamma(count + 1.0) - math.lgamma(max(atoms, 1))
    return math.exp(min(60.0, ways))


def draws(loss: Floats, log_weight: Floats, count: int) -> tuple[Floats, Floats]:
    """Return all sums of `count` draws from a few atoms and their log weights: the multinomial law.

    Every way to share the draws among the atoms, or, where atoms outnumber the draws, every
    non-decreasing choice of them.
    """
    m = loss.size
    if 0 < count < m:
        last, run = np.arange(m), np.ones(m)
        total, log_mass = loss.copy(), log_weight + math.lgamma(count + 1.0)
        for _ in range(count - 1):
            times = m - last  # an atom is followed by itself or a later one
            start = np.cumsum(times) - times
            chosen = np.arange(int(times.sum())) - np.repeat(start - last, times)
            run = np.where(chosen == np.repeat(last, times), np.repeat(run, times) + 1.0, 1.0)
            total = np.repeat(total, times) + loss[chosen]
            log_mass = np.repeat(log_mass, times) + log_weight[chosen] - np.log(run)
            last = chosen
        return total, log_mass
    rest = np.full(1, float(count))
    total, log_mass = np.zeros(1), np.full(1, math.lgamma(count + 1.0))
    for i in range(m):
        drawn = rest
        if i < m - 1:
            sizes = (rest + 1.0).astype(np.int64)
            drawn = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            rest, total, log_mass = (np.repeat(v, sizes) for v in (rest, total, log_mass))
        total = total + drawn * loss[i]
        log_mass = log_mass + drawn * log_weight[i] - _log_factorials(drawn)
        rest = rest - drawn
    return total, log_mass


def _log_factorials(numbers: Floats) -> Floats:
    """Logs of factorials, each number once: importing SciPy's takes longer than most answers."""
    distinct, place = np.unique(numbers, return_inverse=True)
    return np.array([math.lgamma(n + 1.0) for n in distinct])[place]


def composed_atoms(steps: Sequence[Step], weights: Sequence[Floats]) -> Sums | None:
    """Return the sums of the atoms of all steps, which have these weights; None if too many."""
    loss, log_weight, noise, dropped = np.zeros(1), np.zeros(1), 16.0 * EPS, 0.0
    for (law, count), weight in zip(steps, weights, strict=True):
        seen = weight > 0.0
        ways = ways_to_draw(count, int(seen.sum()))
        if ways > MOST_SUMS:
            return None
        spend(10.0 * min(count, seen.sum()) * ways)  # passes of `draws` over that many
        total, log_mass = draws(law.atom_loss[seen], np.log(weight[seen]), count)
        kept = log_mass > log_mass.max() + NEGLIGIBLE
        if loss.size * kept.sum() > MOST_SUMS:
            return None
        loss = np.add.outer(loss, total[kept]).ravel()
        log_weight = np.add.outer(log_weight, log_mass[kept]).ravel()
        noise += 16.0 * EPS * (2.0 + math.lgamma(count + 1.0))
        dropped += float(np.exp(log_mass[~kept]).sum())
    return loss, np.exp(log_weight), noise, dropped


START, CHEAP, MOST = 1024, 2**16, 2**17  # frequencies at first, for more than is asked, and ever
NEGLECTED, ENOUGH = 1e-3, 0.2  # truncation, in rtol, that is worth the cheap ones, and all
FINE, FAR = 1.1, 600  # ratio of the cells in which the remainder's bound is integrated, and cells
FINER = 3.0  # grid points for every frequency: phi is 30 times as good as with two


class BesideAtoms(Contour):
    """A contour whose nodes carry phi - A, all frequencies of A beside them."""

    def __init__(self, sums: Sums, steps: tuple[Step, ...], *arguments: Any) -> None:
        """Take the sums, and the steps on nodes that resolve no frequency."""
        super().__init__(*arguments)
        self._sums, self._steps = sums, steps
        self._reach = sum(s.count * float(np.abs(s.loss.atom_loss).max()) for s in steps)
        self.extend(START)

    def extend(self, nodes: int) -> None:
        """Evaluate the remainder at so many frequencies, on nodes that resolve them."""
        counts = self.tilted.counts
        law = far_law(self.c, self.h * nodes, 1e-18 / float(counts.sum()), self._steps)
        far, logs, off = Tilted(law, self.c), np.zeros((2, nodes), np.complex128), 0.0
        spend(40.0 * (nodes * counts.size + far.weight.size))
        for i, (loss, count) in enumerate(law.steps):
            mine = slice(far.offsets[i], far.offsets[i + 1])
            both = far.centred[mine], far.weight[mine]
            alone = loss.atom_loss - far.mean[i], far.atoms[i]
            for row, (at, weight) in enumerate((both, alone)):
                value, error = transform(self.h * at, weight, nodes, FINER)
                logs[row] += count * (
                    np.log(np.maximum(np.abs(value), 1e-300)) + 1j * np.angle(value)
                )
                off += count * error
        phi, alone = np.exp(logs)
        off += 2.0 * grown(max(self.tolerance, law.tolerance) + far.lost)
        self._mean, self._tables = float(counts @ far.mean), far.bounded(few=False)
        self._atoms = np.array([float(weight.sum()) for weight in far.atoms])
        self._y = self.h * np.arange(1.0, nodes + 1.0)
        z = np.asarray(self.c + 1j * self._y, np.complex128)
        factor = self.payoff.transform(z, 0.0) / self.weight(0.0)  # at any epsilon
        size = np.abs(factor) * (np.abs(phi) + np.abs(alone))
        self._remainder, self.nodes = factor * (phi - alone), nodes
        noise = (8.0 + 8.0 * float(counts.sum())) * size.sum() + off / EPS * np.abs(factor).sum()
        self._noise = float(noise), 4.0 * float(size @ self._y)
        self.decay = self._truncation(self.h * nodes)

    def _truncation(self, start: float) -> float:
        """Bound the integral of |remainder| / y^2 beyond `start`."""
        atoms, tables = self._atoms, self._tables
        y = start * FINE ** np.arange(FAR + 1.0)
        density = tables[..., :1] / y + tables[..., 1:]
        density = np.minimum(density.min(axis=1), np.maximum(1.0 - atoms, 0.0)[:, None] + 1e-15)
        more = self.tilted.counts @ np.log1p(density / atoms[:, None])
        mass = math.exp(float(self.tilted.counts @ np.log(atoms)))
        return mass * float(np.expm1(np.minimum(more, MOST_LOG)) @ -np.diff(1.0 / y, append=0.0))

    def terms(self, epsilon: float) -> tuple[Floats, float]:
        """Real parts of the remainder's g(c + inh) / g(c), and a bound on their rounding."""
        if self._terms[:2] != (epsilon, self.nodes):
            spend(WAVE * self.nodes)
            angle, size = self._y * (self._mean - epsilon), abs(self._mean) + abs(epsilon)
            values = self._remainder.real * np.cos(angle) - self._remainder.imag * np.sin(angle)
            noise = self._noise[0] + self._noise[1] * (size + self._reach)
            self._terms = epsilon, self.nodes, values, EPS * noise
        return self._terms[2:]

    def first(self, epsilon: float) -> tuple[float, float]:
        """The remainder at frequency 0, all frequencies of the sums, and their error."""
        loss, weight, noise, dropped = self._sums
        c, period, mass = self.c, self.period, float(weight.sum())
        spend(10.0 * loss.size)
        x = np.mod(loss - epsilon, period)
        value = float(np.sort(weight * periodic_payoff(x, c, period)).sum())
        # the payoff is at most 1 / (1 + c), its slope 1; images add at most max(1, c) e^(-cT)
        images = math.exp(-c * period) / -math.expm1(-c * period)
        slope, height = 1.0 + max(1.0, c) * images, 1.0 / (1.0 + c) + images
        error = 4.0 * EPS * slope * mass * (self._reach + abs(epsilon) + period)
        error += dropped * height + noise * value
        scale = period / self.weight(epsilon)
        off = grown(MASSES * float(self.tilted.counts.sum()))
        error = scale * error + (noise + off) * mass + dropped
        return 1.0 - mass + scale * value, error

    def settle(self, epsilon: float, rtol: float) -> None:
        """Add nodes until little is left of the truncation, or more is not worth its cost."""
        factor = self.factor(epsilon, self.terms(epsilon)[0]) / rtol
        nodes, share = self.nodes, factor * self.decay
        while share > NEGLECTED and nodes < MOST and not (share <= ENOUGH and nodes >= CHEAP):
            nodes *= 2
            share = factor * self._truncation(self.h * nodes)
        if nodes > self.nodes:
            self.extend(nodes)
