"""Next to the largest loss: most steps are at an atom there, few anywhere below it.

Let every step's law end in an atom of mass m_j at its largest loss, with a smooth density f_j of
the distance below it, down to the next atom. With g the distance of epsilon from the largest loss
of the composition, only draws closer than g matter:

    H(top - g) = prod_j m_j^k_j [ prod_j (1 + f_j * / m_j)^k_j h ](g),    h(g) = 1 - exp(-g),

where * is the convolution on (0, g). The binomial series of each factor has positive terms, which
fall like x^n / n!^2 with x = k_j P(0 < distance < g) / m_j; a few tens of them are all. Tilts run
off to infinity there, and a contour waits for atoms that never fade.

Functions on (0, g) are polynomials in Chebyshev's basis; the convolution of two of them is
integrated exactly. The error is six times the difference between two degrees: where a density
rises like an inverse root at its atom (Huber noise), coefficients only fall like n^-2.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.polynomial import chebyshev, legendre
from numpy.typing import NDArray

from mechc.accountants.fft import log1mexp
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.loss.rounding import EPS

Floats = NDArray[np.float64]
Logs = tuple[float, float, float]

LIMIT = "few steps are below their largest losses"  # nothing is sharper there
SIZES = (40, 32)  # coefficients of the answer, and of the one it is judged by
GUARD = 6.0  # times their difference: the error
MOST_TERMS = 28  # of a binomial series, before its degree is more than these can hold
MOST_DRAWS = 120.0  # x at which so many terms suffice
NEGLIGIBLE = 1e-18  # share of the sum at which a series ends
USEFUL = 3e-7  # error beyond which others answer better
LEAST = -600.0  # log mass of an atom at the largest loss below which others answer


def log_all_largest(steps: Sequence[Step]) -> tuple[float, float]:
    """Return log P(every step is at its largest loss), -inf without atoms there, and its error."""
    total, error = 0.0, 0.0
    for step in steps:
        law = step.loss
        if not _ends_in_atom(law):
            return -math.inf, 0.0
        total += step.count * float(law.atom_log_mass[-1])
        error += step.count * (law.tolerance + 4.0 * EPS * (1.0 + abs(law.atom_log_mass[-1])))
    return total, error + 4.0 * EPS * abs(total)


def log_finite(steps: Sequence[Step], epsilon: float) -> Logs | None:
    """Return logs of (lower bound, estimate, upper bound) of H(epsilon) next to the largest loss.

    Args:
        steps: distinct steps with their counts.
        epsilon: any real number.

    Returns:
        None where this is not the place for it: no atoms at the largest losses, too far from
        them, or densities that are not smooth on the way.
    """
    if not steps or not all(map(_ends_in_atom, _laws(steps))):
        return None
    tops = [s.count * s.loss.support[1] for s in steps]
    gap = math.fsum([*tops, -epsilon])
    rounding = 8.0 * EPS * math.fsum(map(abs, [*tops, epsilon]))
    if not -rounding < gap < min(map(_smooth_to, _laws(steps))):
        return None
    if gap <= rounding / USEFUL:
        return _within_rounding(steps, gap, rounding)
    values = []
    for size in SIZES:
        value, terms = _share(steps, gap, size)
        if not value > 0.0:
            return None
        values.append(value)
    log_mass, error = log_all_largest(steps)
    error += GUARD * abs(values[1] / values[0] - 1.0) + 1e-13 * (1.0 + terms)
    error += (1.0 + terms) * rounding / gap  # H grows at most like gap^(1 + terms)
    if not error < USEFUL:
        return None
    value = log_mass + math.log(values[0])
    return value - 2.0 * error, value, value + error


def _within_rounding(steps: Sequence[Step], gap: float, rounding: float) -> Logs | None:
    """Bound H where rounding of the losses decides: no step is further than gap from its atom.

    prod m_j^k_j (1 - exp(-gap)) <= H(top - gap) <= prod P(L_j >= top_j - gap)^k_j (1 - exp(-gap)).
    """
    log_mass, error = log_all_largest(steps)
    more = 0.0
    for step in steps:
        top = step.loss.support[1]
        reach = gap + rounding + 8.0 * EPS * abs(top)
        edges = np.array([top - reach, np.nextafter(top, -math.inf)])
        near = float(step.loss.cell_masses(edges)[0][0])
        more += step.count * math.log1p(2.0 * near * math.exp(-float(step.loss.atom_log_mass[-1])))
    low = log1mexp(rounding - gap) if gap > rounding else -math.inf
    high = log1mexp(-gap - rounding) + more
    middle = log1mexp(-max(gap, 0.0)) if gap > 0.0 else high
    return log_mass + low - 2.0 * error, log_mass + middle, log_mass + high + error


def _laws(steps: Sequence[Step]) -> list[PrivacyLoss]:
    return [s.loss for s in steps]


def _ends_in_atom(law: PrivacyLoss) -> bool:
    """Whether the largest loss is an atom, of a mass that doubles hold."""
    top = law.support[1]
    if not law.atom_loss.size or not math.isfinite(top) or law.atom_log_mass[-1] < LEAST:
        return False
    return bool(abs(law.atom_loss[-1] - top) <= 4.0 * EPS * abs(top))


def _smooth_to(law: PrivacyLoss) -> float:
    """Distance from the largest loss to the next atom, end of a branch, or end of the support."""
    top = law.support[1]
    others = [law.support[0], *law.atom_loss[-2:-1].tolist()]
    if law.source is not None:
        limits = (-1.0 if law.is_reversed else 1.0) * law.source.rows[:, 3:5].ravel()
        others += limits[limits < top - 8.0 * EPS * abs(top)].tolist()
    return float(top - max(others))


def _share(steps: Sequence[Step], gap: float, size: int) -> tuple[float, float]:
    """Return H(top - gap) over prod m_j^k_j, 0 where that is not found, and the terms it took."""
    basis = _basis(size)
    found, used = basis.coefficients @ -np.expm1(-gap * basis.nodes), 0
    for step in steps:
        law = step.loss
        if not law.loss.size:
            continue
        density = _density(law, gap, basis)
        mass = math.exp(float(law.atom_log_mass[-1]))
        expected = step.count / mass * float(density @ basis.integrals)
        if not 0.0 <= expected < MOST_DRAWS:
            return 0.0, 0.0
        once = basis.convolution(density) / mass
        term, total = found, found.copy()
        for n in range(1, min(step.count, MOST_TERMS) + 1):
            term = (step.count - n + 1) / n * (once @ term)
            total += term
            if term.sum() <= NEGLIGIBLE * total.sum():  # T_j(1) = 1: their values at the gap
                break
        else:
            if step.count > MOST_TERMS:
                return 0.0, 0.0
        found, used = total, used + n
    return (float(found.sum()), float(used)) if used <= MOST_TERMS else (0.0, 0.0)


def _density(law: PrivacyLoss, gap: float, basis: _Basis) -> Floats:
    """Coefficients of the density of distance / gap, from masses between the nodes."""
    top = min(float(law.atom_loss[-1]), law.support[1])
    edges = top - gap * basis.nodes[::-1]
    edges[-1] = np.nextafter(top, -math.inf)  # without the atom
    masses = law.cell_masses(edges)[0][::-1]
    found: Floats = basis.derivative @ np.concatenate([[0.0], np.cumsum(masses)])
    return found


class _Basis:
    """Polynomials on (0, 1) by their Chebyshev coefficients."""

    def __init__(self, size: int) -> None:
        self.nodes: Floats = 0.5 - 0.5 * np.cos(math.pi * np.arange(size) / (size - 1))
        vander = chebyshev.chebvander(2.0 * self.nodes - 1.0, size - 1)
        self.coefficients: Floats = np.asarray(np.linalg.inv(vander), np.float64)  # of nodal values
        slopes = np.stack([chebyshev.chebder(row, scl=2.0) for row in np.eye(size)])
        self.derivative: Floats = np.zeros((size, size))
        self.derivative[:-1] = slopes.T @ self.coefficients
        ends = [chebyshev.chebint(row, lbnd=-1.0, scl=0.5) for row in np.eye(size)]
        self.integrals: Floats = np.array([end.sum() for end in ends])
        points, weights = legendre.leggauss(size)
        self._weights: Floats = 0.5 * np.asarray(weights, np.float64)
        inner = np.outer(self.nodes, 0.5 + 0.5 * points)
        self._inner = chebyshev.chebvander(2.0 * inner - 1.0, size - 1)

    def convolution(self, density: Floats) -> Floats:
        """Return the matrix, between coefficients, of v -> int_0^u density(u - w) v(w) dw."""
        values = (self._inner @ density)[:, ::-1] * self._weights  # at u - w: the mirrored points
        images = self.nodes[:, None] * np.einsum("rq,rqj->rj", values, self._inner)
        matrix: Floats = self.coefficients @ images
        return matrix


@functools.cache
def _basis(size: int) -> _Basis:
    return _Basis(size)
