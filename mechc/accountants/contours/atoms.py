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

Laws of atoms and piecewise polynomials: their Fourier transform at a cost without waves.

On every panel of the quadrature the density of the loss is a polynomial in the loss, in Legendre's
basis; its Fourier transform is a sum of spherical Bessel functions (Filon's rule),

    int_{-1}^{1} P_n(u) e^(iwu) du = 2 i^n j_n(w),    j_{n+1} = (2n+1)/w j_n - j_{n-1},

for which a panel needs one sine and one cosine a frequency, however many waves it holds. The error
is the integral of |density - polynomial|, the same at all frequencies.

On `BesideAtoms` nodes carry the remainder phi - A - B instead of phi; the trapezoid sum of A + B
over all frequencies takes the place of the frequencies that are not evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from mechc.accountants.contours.characteristic import Law, Tilted, variation
from mechc.accountants.contours.trapezoid import Complexes, Contour
from mechc.accountants.fft import periodic_payoff
from mechc.loss.privacy_loss import Step
from mechc.loss.quadrature.rule import ENDS, NODES, ORDER, WEIGHTS, halved
from mechc.numeric.allowance import spend
from mechc.numeric.jit import compiled, subroutine
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats

STABLE = 8.0  # smallest phase of half a panel at which the recurrence goes upward
GOOD = 1e-13  # error of a panel that needs no halving
HALVINGS = 12
APART = 1e-6  # distance of two nodes, in half panels, below which they are one to a polynomial
OUTSIDE = 1.5  # of a panel, in half lengths: nodes that lie there have rounded losses
SAFETY = 8.0  # on the size of the coefficients that are cut off, judged by the last two
_ANALYSIS = legendre.legvander(NODES, ORDER - 1) * WEIGHTS[:, None] * (np.arange(ORDER) + 0.5)


@subroutine("UniTuple(float64, 2)(float64[::1], float64)")
def _filon(coefficient, w):  # type: ignore[no-untyped-def]
    """Return sum_n coefficient_n i^n j_n(w)."""
    inverse = 1.0 / w
    before = math.sin(w) * inverse
    now = (before - math.cos(w)) * inverse
    re = coefficient[0] * before
    im = coefficient[1] * now
    for n in range(2, coefficient.size, 4):
        after = (2 * n - 1) * inverse * now - before
        re -= coefficient[n] * after
        before = (2 * n + 1) * inverse * after - now
        im -= coefficient[n + 1] * before
        if n + 2 == coefficient.size:
            break
        now = (2 * n + 3) * inverse * before - after
        re += coefficient[n + 2] * now
        after = (2 * n + 5) * inverse * now - before
        im += coefficient[n + 3] * after
        before, now = now, after
    return re, im


@compiled(
    "void(int64[::1], int64[::1], float64[:,::1], float64[:,::1], float64[:,::1], float64[:,::1],"
    " float64[::1], float64[::1], float64, int64, float64[:,:,:,::1])",
)
def _transforms(  # type: ignore[no-untyped-def]
    panels, atoms, place, series, centred, weight, at, mass, h, first, out
):
    """Add the transforms of each step's atoms and of its density at y = n h, n >= first, to out."""
    for n in range(out.shape[2]):
        y = (first + n) * h
        for i in range(out.shape[1]):
            re, im = 0.0, 0.0
            for m in range(atoms[i], atoms[i + 1]):
                re += mass[m] * math.cos(y * at[m])
                im += mass[m] * math.sin(y * at[m])
            out[0, i, n, 0], out[0, i, n, 1] = re, im
            re, im = 0.0, 0.0
            for m in range(panels[i], panels[i + 1]):
                w = y * place[m, 1]
                if w < STABLE:
                    for j in range(ORDER):
                        theta = y * centred[m, j]
                        re += weight[m, j] * math.cos(theta)
                        im += weight[m, j] * math.sin(theta)
                else:
                    a, b = _filon(series[m], w)
                    c, s = math.cos(y * place[m, 0]), math.sin(y * place[m, 0])
                    re += a * c - b * s
                    im += a * s + b * c
            out[1, i, n, 0], out[1, i, n, 1] = re, im


def _log(z: Complexes) -> Complexes:
    """Principal logarithm, of zero that of almost zero."""
    log: Complexes = np.log(np.maximum(np.abs(z), 1e-300)) + 1j * np.angle(z)
    return log


@subroutine("float64(float64, float64, float64, float64, float64)")
def _payoff(x, c, period, further, share):  # type: ignore[no-untyped-def]
    """The periodic payoff G at x (see `fft.periodic_payoff`)."""
    x -= period * math.floor(x / period)
    return math.exp(-c * x) * (-math.expm1(-x) + further * math.exp(-x)) * share


@subroutine("float64(float64[::1], float64)")
def _series(coefficient, u):  # type: ignore[no-untyped-def]
    """Return sum_n coefficient_n P_n(u)."""
    before = 1.0
    now = u
    total = coefficient[0] + coefficient[1] * u
    for n in range(2, coefficient.size):
        before, now = now, ((2 * n - 1) * u * now - (n - 1) * before) / n
        total += coefficient[n] * now
    return total


@compiled(
    "float64(float64[::1], float64[::1], float64[:,::1], float64[:,::1], float64[:,::1],"
    " float64[:,::1], float64, float64)",
)
def mean_payoff(at, mass, place, coefficient, centred, weight, c, period):  # type: ignore[no-untyped-def]
    """Return sum_a mass_a int G(at_a + l) density(l) dl, cutting panels where G has its kinks."""
    images = math.exp(-c * period)
    further = images * -math.expm1(-period) / (1.0 - images * math.exp(-period))
    share = 1.0 / -math.expm1(-c * period)
    total = 0.0
    for a in range(at.size):
        value = 0.0
        for m in range(place.shape[0]):
            half = place[m, 1]
            left = at[a] + place[m, 0] - half
            right = left + 2.0 * half
            kink = period * math.ceil(left / period)
            if kink >= right:
                for j in range(ORDER):
                    value += weight[m, j] * _payoff(
                        at[a] + centred[m, j], c, period, further, share
                    )
                continue
            low = left
            while low < right:
                high = min(kink, right)
                middle = 0.5 * (low + high)
                length = 0.5 * (high - low)
                for j in range(ORDER):
                    x = middle + length * NODES[j]
                    u = min(1.0, max(-1.0, (x - left) / half - 1.0))
                    density = 0.5 * _series(coefficient[m], u) / half
                    value += density * length * WEIGHTS[j] * _payoff(x, c, period, further, share)
                low = high
                kink += period
        total += mass[a] * value
    return total


class Oscillation:
    """Tilted laws of all steps as atoms and piecewise polynomials on the loss axis.

    Attributes:
        error: bound on the error of phi of the composition that the polynomials make.
        mean: where each step is centred.
        tables: per step, bounds on the transform of its density (see `variation`).
    """

    def __init__(self, law: Law, tilted: Tilted, floor: float) -> None:
        """Fit panels.

        Args:
            law: the composition, on panels that need not resolve any frequency.
            tilted: where it is tilted and centred.
            floor: tilted mass of a step that may be left out.
        """
        parts, self.error = [], 0.0
        self.tables: list[Floats] = []
        self.mean, self._counts = tilted.mean, law.counts
        weights = Tilted(law, tilted.c).weights
        for step, w, mean in zip(law.steps, weights, tilted.mean, strict=True):
            n = step.loss.loss.size
            fields = (w[:n], step.loss.loss - mean, step.loss.spacing)
            weight, centred, spacing = (v.reshape(-1, ORDER) for v in fields)
            seen = weight.sum(axis=1) > floor / max(weight.shape[0], 1)
            self.error += step.count * float(weight[~seen].sum())
            branch = step.loss.region[::ORDER][seen]
            start, panels = _panels(weight[seen], centred[seen], spacing[seen])
            weight, centred, spacing, place, coefficient, error = panels
            self.tables.append(variation(weight, spacing, branch[start]))
            self.error += step.count * float(error.sum())
            atoms = (step.loss.atom_loss - mean, w[n:])
            parts.append((place, coefficient, centred, weight, *atoms))
        self._panels, self._atoms = (
            np.cumsum([0, *(part[i].shape[0] for part in parts)]).astype(np.int64) for i in (0, 4)
        )
        self._arrays = [
            np.ascontiguousarray(np.concatenate(column)) for column in zip(*parts, strict=True)
        ]

    @property
    def cost(self) -> float:
        """Work of one frequency, in node evaluations of Tilted."""
        return 12.0 * float(self._panels[-1] + self._atoms[-1])

    def panels(self, step: int) -> tuple[Floats, ...]:
        """Return places, coefficients, centred losses and weights of a step's panels."""
        mine = slice(self._panels[step], self._panels[step + 1])
        return tuple(array[mine] for array in self._arrays[:4])

    def atoms(self, step: int) -> tuple[Floats, Floats]:
        """Return centred losses and weights of a step's atoms."""
        mine = slice(self._atoms[step], self._atoms[step + 1])
        return self._arrays[4][mine], self._arrays[5][mine]

    def remainders(self, order: int, h: float, begin: int, end: int) -> tuple[Complexes, Floats]:
        """Return phi without its terms that have fewer than `order` densities, 0, 1 or 2.

        Returns:
            phi - A (- B) at y = n h, begin <= n < end, and |phi| + |A| (+ |B|), the scale of its
            rounding.
        """
        parts = np.empty((2, self._counts.size, end - begin, 2))
        _transforms(self._panels, self._atoms, *self._arrays, h, begin, parts)
        atoms, density = parts.view(np.complex128)[..., 0]
        terms = [np.exp(self._counts @ _log(atoms + density))]
        if order > 0:
            logs = _log(atoms)
            whole = self._counts @ logs
            terms.append(np.exp(whole))
        if order > 1:
            terms.append(self._counts @ (density * np.exp(whole - logs)))
        size: Floats = np.abs(terms).sum(axis=0)
        return terms[0] - np.sum(terms[1:], axis=0), size


def _fit(weight: Floats, loss: Floats, spacing: Floats) -> tuple[Floats, Floats, Floats]:
    """Return (middle, half length), coefficients and integral error of every panel."""
    ends = loss @ ENDS.T
    place = np.stack([ends.mean(axis=1), 0.5 * np.abs(ends[:, 1] - ends[:, 0])], axis=1)
    with np.errstate(all="ignore"):
        u = (loss - place[:, :1]) / place[:, 1:]
        apart = np.diff(u, axis=1) * np.sign(u[:, -1:] - u[:, :1])
        turns = ~((apart > APART).all(axis=1) & (np.abs(u) < OUTSIDE).all(axis=1))
        u[turns] = NODES  # the loss turns, rests or is rounded inside: no function of the loss
        basis = legendre.legvander(u, ORDER - 1)
        density = weight / spacing
        found = np.linalg.solve(basis, density[:, :, None])[:, :, 0]
        coefficient = 2.0 * place[:, 1:] * found
        error = SAFETY * np.abs(coefficient[:, -2:]).sum(axis=1)
    error[turns | ~np.isfinite(error)] = np.inf
    return place, coefficient, error


def _panels(*fields: Floats) -> tuple[NDArray[np.int64], list[Floats]]:
    """Halve panels by the polynomials in x that they stand for, until they are some in the loss."""
    scales = (WEIGHTS, np.ones(ORDER), WEIGHTS)
    series = np.stack([v / scale @ _ANALYSIS for v, scale in zip(fields, scales, strict=True)])

    def look(lo: Floats, hi: Floats) -> tuple[tuple[Floats, ...], NDArray[np.bool_]]:
        panel, length = lo.astype(np.int64), (hi - lo)[:, None]
        x = 2.0 * (lo - panel)[:, None] - 1.0 + length * (1.0 + NODES)
        values = np.einsum("pjn,kpn->kpj", legendre.legvander(x, ORDER - 1), series[:, panel])
        weight, spacing = np.maximum(values[::2] * (length * WEIGHTS), 0.0)
        place, coefficient, error = _fit(weight, values[1], spacing)
        short = (error > GOOD) & (hi - lo > 0.5**HALVINGS)
        return (weight, values[1], spacing, place, coefficient, error), short

    edges = np.arange(fields[0].shape[0] + 1.0)
    lo, _, *found = halved(edges, look, MOST_PANELS, "sums of atoms: a density has too many panels")
    return lo.astype(np.int64), found


MOST_SUMS = 400_000  # composed atoms that are listed
MOST_PANELS = 100_000  # panels that the linear part is integrated over
LEAST_SHARE = math.log(1e-22)  # of the tilted mass of composed atoms left to the contour
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


def power(loss: Floats, log_weight: Floats, count: int) -> Sums | None:
    """All sums of `count` draws from a few atoms; None if they are many."""
    ways = ways_to_draw(count, loss.size)
    if ways > MOST_SUMS:
        return None
    spend(10.0 * min(count, loss.size) * ways)  # passes of `draws` over that many
    noise = 16.0 * EPS * (2.0 + math.lgamma(count + 1.0))
    return Sums(*draws(loss, log_weight, count), noise).without_negligible()


def all_sums(steps: Sequence[Step], weights: Sequence[Floats], less: int = -1) -> Sums | None:
    """Sums of the atoms of all steps, with one draw `less` of one step; None if too many."""
    sums: Sums | None = Sums(np.zeros(1), np.zeros(1), 0.0)
    for i, (step, weight) in enumerate(zip(steps, weights, strict=True)):
        seen = weight > 0.0
        one = power(step.loss.atom_loss[seen], np.log(weight[seen]), step.count - (i == less))
        sums = sums.plus(one) if sums is not None and one is not None else None
    return sums


@subroutine(
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
        """List the sums that A and B need, where they are few enough."""
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
        error = 4.0 * EPS * slope * shaky + (dropped + self.law.error) * height
        return value, error + (noise + 64.0 * EPS) * value

    def truncation(self, start: float) -> float:
        """Bound the integral of |remainder| / y^2 beyond `start`."""
        found = excess_integral(
            self._tables, self._atoms, self._density, self._counts, self.order, start
        )
        return self._mass * float(found)


CHEAP = 2_000_000  # node evaluations that are spent for more than rtol asks for
WORK = 300_000_000  # node evaluations before a wide bound is returned instead
NEGLECTED, ENOUGH = 1e-3, 0.2  # truncation, in rtol, that is worth CHEAP work, and any work
START = 128  # frequencies evaluated first
ROUNDS = 12  # extensions of one contour


class BesideAtoms(Contour):
    """A contour whose nodes carry only what has several densities."""

    def __init__(self, atomic: AtomicPart, *arguments: Any) -> None:
        """Fix the contour."""
        super().__init__(*arguments)
        self.atomic = atomic
        self._remainder = np.empty(0, np.complex128)
        self._scale: Floats = np.empty(0)

    @property
    def nodes(self) -> int:
        """Number of frequencies evaluated so far."""
        return int(self._scale.size)

    def extend(self, nodes: int) -> None:
        """Evaluate the remainder until `nodes` frequencies are known."""
        have = self._scale.size
        if nodes > have:
            law, order = self.atomic.law, self.atomic.order
            values, scale = law.remainders(order, self.h, have + 1, nodes + 1)
            self._remainder = np.concatenate([self._remainder, values])
            self._scale = np.concatenate([self._scale, scale])
            self.decay = self.atomic.truncation(self.h * nodes)

    @property
    def cost(self) -> float:
        """Work of one more frequency, in node evaluations."""
        return self.atomic.law.cost

    def waves(self, epsilon: float) -> tuple[Floats, Complexes, Floats]:
        """Return y, the remainder's g(c + iy) / g(c) at the nodes, and its rounding in EPS."""
        y = self.h * np.arange(1.0, self._scale.size + 1.0)
        law, counts = self.atomic.law, float(self.tilted.counts.sum())
        mean = float(self.tilted.counts @ law.mean)
        factor = self.payoff.transform(np.asarray(self.c + 1j * y, np.complex128), epsilon)
        factor /= self.weight(epsilon)
        value: Complexes = factor * self._remainder * np.exp(1j * y * (mean - epsilon))
        turns = y * (abs(mean) + abs(epsilon) + self.atomic.reach)
        noise = self._scale * (8.0 + 8.0 * counts + 4.0 * turns) + law.error / EPS
        return y, value, np.abs(factor) * noise

    def first(self, epsilon: float) -> tuple[float, float]:
        """The remainder at frequency 0, all frequencies of the atomic part, and their error."""
        if self.atomic.order == 0:
            return 1.0, 0.0
        scale = self.period / self.weight(epsilon)
        value, error = self.atomic.aliased(epsilon, self.period)
        return 1.0 - self.atomic.share + scale * value, scale * error + 4.0 * EPS

    def settle(self, epsilon: float, rtol: float) -> None:
        """Add nodes until little is left of the truncation, or more is not worth its cost."""
        nodes = START
        for _ in range(ROUNDS):
            self.extend(nodes)
            factor = self.factor(epsilon, self.terms(epsilon)[0]) / rtol
            affordable = CHEAP / self.cost
            share = factor * self.decay
            if share <= NEGLECTED or (share <= ENOUGH and affordable < 2.0 * nodes):
                return
            more = 2.0 * nodes
            left = factor * self.atomic.truncation(self.h * more)
            while left > NEGLECTED and (left > ENOUGH or more < affordable):
                more *= 1.5
                left = factor * self.atomic.truncation(self.h * more)
                if self.cost * more > WORK:
                    return
            nodes = math.ceil(more)
