"""Laws of atoms and piecewise polynomials: their Fourier transform at a cost without waves.

On every panel of the quadrature the density of the loss is a polynomial in the loss, in Legendre's
basis; its Fourier transform is a sum of spherical Bessel functions (Filon's rule),

    int_{-1}^{1} P_n(u) e^(iwu) du = 2 i^n j_n(w),    j_{n+1} = (2n+1)/w j_n - j_{n-1},

for which a panel needs one sine and one cosine a frequency, however many waves it holds. The error
is the integral of |density - polynomial|, the same at all frequencies.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from mechc.accountants.characteristic import Law, Tilted, variation
from mechc.loss.compiled import compiled
from mechc.loss.rule import NODES, ORDER, WEIGHTS

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

STABLE = 8.0  # smallest phase of half a panel at which the recurrence goes upward
GOOD = 1e-13  # error of a panel that needs no halving
HALVINGS = 12
APART = 1e-6  # distance of two nodes, in half panels, below which they are one to a polynomial
SAFETY = 8.0  # on the size of the coefficients that are cut off, judged by the last two
_DEGREES = np.arange(ORDER)
_ANALYSIS = (legendre.legvander(NODES, ORDER - 1) * WEIGHTS[:, None]).T * (_DEGREES + 0.5)[:, None]
_HALVES = [legendre.legvander(0.5 * NODES + at, ORDER - 1) @ _ANALYSIS for at in (-0.5, 0.5)]
_AT_ENDS = np.stack([_ANALYSIS.T @ (-1.0) ** _DEGREES, _ANALYSIS.sum(axis=0)], axis=1)


@compiled("UniTuple(float64, 2)(float64[::1], float64)")
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
    "void(int64[::1], int64[::1], float64[::1], float64[:,::1], float64[:,::1], float64[:,::1],"
    " float64[:,::1], float64[::1], float64[::1], int64, float64, int64, complex128[::1],"
    " float64[::1])",
)
def _remainders(  # type: ignore[no-untyped-def]
    panels, atoms, counts, place, series, centred, weight, at, mass, order, h, first, out, size
):
    """Return phi, phi - A or phi - A - B for order 0, 1, 2, and its scale, y = n h, n >= first."""
    steps = counts.size
    log_a = np.empty(steps, np.complex128)
    c = np.empty(steps, np.complex128)
    for n in range(out.size):
        y = (first + n) * h
        all_a = 0j
        all_phi = 0j
        for i in range(steps):
            a = 0j
            for m in range(atoms[i], atoms[i + 1]):
                a += mass[m] * complex(math.cos(y * at[m]), math.sin(y * at[m]))
            density = 0j
            for m in range(panels[i], panels[i + 1]):
                w = y * place[m, 1]
                if w < STABLE:
                    for j in range(ORDER):
                        theta = y * centred[m, j]
                        density += weight[m, j] * complex(math.cos(theta), math.sin(theta))
                else:
                    re, im = _filon(series[m], w)
                    theta = y * place[m, 0]
                    density += complex(re, im) * complex(math.cos(theta), math.sin(theta))
            both = a + density
            if order > 0:
                c[i] = density
                log_a[i] = complex(math.log(max(abs(a), 1e-300)), math.atan2(a.imag, a.real))
                all_a += counts[i] * log_a[i]
            all_phi += counts[i] * complex(
                math.log(max(abs(both), 1e-300)), math.atan2(both.imag, both.real)
            )
        phi, sums, once = np.exp(all_phi), 0j, 0j
        if order > 0:
            sums = np.exp(all_a)
        if order > 1:
            for i in range(steps):
                once += counts[i] * c[i] * np.exp(all_a - log_a[i])
        out[n] = phi - sums - once
        size[n] = abs(phi) + abs(sums) + abs(once)


@compiled("float64(float64, float64, float64, float64, float64)")
def _payoff(x, c, period, further, share):  # type: ignore[no-untyped-def]
    """The periodic payoff G at x (see `transform.periodic_payoff`)."""
    x -= period * math.floor(x / period)
    return math.exp(-c * x) * (-math.expm1(-x) + further * math.exp(-x)) * share


@compiled("float64(float64[::1], float64)")
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
            shape = (-1, ORDER)
            fields = (w[:n], step.loss.loss - mean, step.loss.spacing)
            weight, centred, spacing = (v.reshape(shape) for v in fields)
            seen = weight.sum(axis=1) > floor / max(weight.shape[0], 1)
            self.error += step.count * float(weight[~seen].sum())
            place = np.flatnonzero(seen).astype(np.float64)  # in the order of x, for their branches
            panels = (weight[seen], centred[seen], spacing[seen], place)
            for _ in range(HALVINGS):
                error = _fit(*panels[:3])[2]
                if not (error > GOOD).any():
                    break
                panels = _halve(error > GOOD, *panels)
            weight, centred, spacing, place = panels
            branch = step.loss.region[::ORDER][place.astype(np.int64)]
            self.tables.append(variation(weight, spacing, branch))
            place, coefficient, error = _fit(weight, centred, spacing)
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
        out, size = np.empty(end - begin, np.complex128), np.empty(end - begin)
        law = (self._panels, self._atoms, self._counts, *self._arrays)
        _remainders(*law, order, h, begin, out, size)
        return out, size


def _fit(weight: Floats, loss: Floats, spacing: Floats) -> tuple[Floats, Floats, Floats]:
    """Return (middle, half length), coefficients and integral error of every panel."""
    ends = loss @ _AT_ENDS
    place = np.stack([ends.mean(axis=1), 0.5 * np.abs(ends[:, 1] - ends[:, 0])], axis=1)
    with np.errstate(all="ignore"):
        u = (loss - place[:, :1]) / place[:, 1:]
        apart = np.diff(u, axis=1) * np.sign(u[:, -1:] - u[:, :1])
        turns = ~(apart > APART).all(axis=1)
        u[turns] = NODES  # the loss turns or rests inside the panel: no function of the loss
        basis = legendre.legvander(u, ORDER - 1)
        density = weight / spacing
        found = np.linalg.solve(basis, density[:, :, None])[:, :, 0]
        coefficient = 2.0 * place[:, 1:] * found
        error = SAFETY * np.abs(coefficient[:, -2:]).sum(axis=1)
    error[turns | ~np.isfinite(error)] = np.inf
    return place, coefficient, error


def _halve(
    bad: NDArray[np.bool_], weight: Floats, loss: Floats, spacing: Floats, place: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Cut panels in two, by the polynomials in x that they stand for, and sort them by place.

    A panel at place i becomes two in [i, i + 1), of which only the order matters.
    """
    width = np.diff(np.append(place, math.floor(place[-1]) + 1.0))
    width = np.minimum(width, np.floor(place) + 1.0 - place)
    order = np.argsort(np.concatenate([place[~bad], place[bad], (place + 0.5 * width)[bad]]))
    out = []
    for values, scale in ((weight, WEIGHTS), (loss, np.ones(ORDER)), (spacing, WEIGHTS)):
        share = 0.5 if scale is WEIGHTS else 1.0
        halves = [(values[bad] / scale) @ half.T * (share * scale) for half in _HALVES]
        out.append(np.concatenate([values[~bad], *halves])[order])
    places = np.concatenate([place[~bad], place[bad], (place + 0.5 * width)[bad]])[order]
    return np.maximum(out[0], 0.0), out[1], np.maximum(out[2], 0.0), places
