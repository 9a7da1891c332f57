"""Proved interpolation and quadrature: the largest value on a Bernstein ellipse bounds the error.

A function analytic inside the ellipse with foci -1 and 1 and half axis STRETCH, and of size at most
m there, differs from its interpolant in N Chebyshev points by at most 4 m rho^(1-N)/(rho - 1), and
its integral over (-1, 1) from the N-point Gauss-Legendre rule by at most
(64/15) m rho^(2-2N)/(1 - rho^-2) (Trefethen, Approximation Theory and Approximation Practice,
Theorems 8.2 and 19.3), with rho = STRETCH + sqrt(STRETCH^2 - 1).

Interpolants are evaluated in floating point, many values at a time, with matrices whose entries are
rounded balls; a product of N terms loses at most (N + 6) u of the sum of sizes.
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb, arb_mat, ctx

from mechc.numeric.rounding import U
from mechc.protocol import Floats

STRETCH = 1.75  # half axis along the interval
RHO = STRETCH + math.sqrt(STRETCH * STRETCH - 1.0)  # sum of the half axes
BOXES = (9, 3)  # balls that cover the upper half of the ellipse; the lower half mirrors it


def rho() -> Any:
    """A ball around rho."""
    return arb(STRETCH) + (arb(STRETCH) ** 2 - 1).sqrt()


@cache
def cover(bits: int) -> tuple[Any, ...]:
    """Balls that cover the upper half of the ellipse of (-1, 1), highest first."""
    columns, rows = BOXES
    with ctx.workprec(bits):
        wide, high = arb(STRETCH) / columns, (arb(STRETCH) ** 2 - 1).sqrt() / (2 * rows)
        return tuple(
            acb(
                arb((wide * (2 * i + 1 - columns)).mid(), (wide * 1.0001).upper()),
                arb((high * (2 * j + 1)).mid(), (high * 1.0001).upper()),
            )
            for j in reversed(range(rows))
            for i in range(columns)
            if _meets(i, j)
        )


def _meets(column: int, row: int) -> bool:
    """Whether a box has points in the ellipse; doubtful ones are kept."""
    x = max(abs(2 * column + 1 - BOXES[0]) - 1, 0) / BOXES[0]
    return x**2 + (row / BOXES[1]) ** 2 <= 1.001


POINTS = 32  # Chebyshev points of a panel
CUTS = (8, 64, 256, 1024)  # equal cells that a panel may be cut into
_BITS = 128  # of the tables of polynomials


class Rule(NamedTuple):
    """Matrices that take values at the points to those at the ends of cells, and to means."""

    ends: Floats
    means: Floats


@cache
def points(bits: int) -> tuple[Any, ...]:
    """The Chebyshev points in (-1, 1) as balls."""
    with ctx.workprec(bits):
        return tuple((arb.pi() * (2 * i + 1) / (2 * POINTS)).cos() for i in range(POINTS))


def error_factor() -> Any:
    """What the bound on the ellipse is multiplied by."""
    return 4 * rho() ** (1 - POINTS) / (rho() - 1)


@cache
def rule(cells: int) -> Rule:
    """The matrices of a panel cut into equal cells."""
    with ctx.workprec(_BITS):
        grid = [arb(2 * j) / cells - 1 for j in range(cells + 1)]
        tables = [[u.chebyshev_t(k) for k in range(POINTS + 1)] for u in grid]
        sums = [_antiderivatives(row) for row in tables]
        ends = arb_mat([row[:POINTS] for row in tables]) * _transform()
        rows = [
            [(b - a) * cells / 2 for a, b in zip(*pair, strict=True)]
            for pair in itertools.pairwise(sums)
        ]
        return Rule(_floats(ends), _floats(arb_mat(rows) * _transform()))


def bend(values: Floats) -> float:
    """Bound on the second derivative of the interpolant in u."""
    coefficients = _coefficients() @ values
    slack = (POINTS + 6) * U * 2.0 * float(np.max(np.abs(values)))
    k = np.arange(POINTS, dtype=np.float64)
    return float(1.001 * np.sum((np.abs(coefficients) + slack) * k**2 * np.abs(k**2 - 1.0) / 3.0))


def apply(matrix: Floats, values: Floats) -> tuple[Floats, Floats]:
    """The product, and a bound on its rounding, that of matrix and values included."""
    return matrix @ values, np.abs(matrix) @ np.abs(values) * ((POINTS + 8) * U)


def _antiderivatives(row: list[Any]) -> list[Any]:
    """Antiderivatives of T_0 .. T_(POINTS-1) from the values of all T up to POINTS."""
    u = row[1]
    return [u, u * u / 2] + [
        (row[k + 1] / (k + 1) - row[k - 1] / (k - 1)) / 2 for k in range(2, POINTS)
    ]


def _transform() -> Any:
    """Values at the points to coefficients."""
    tables = [[u.chebyshev_t(k) for k in range(POINTS)] for u in points(_BITS)]
    return arb_mat([[row[k] * (2 if k else 1) / POINTS for row in tables] for k in range(POINTS)])


@cache
def _coefficients() -> Floats:
    with ctx.workprec(_BITS):
        return _floats(_transform())


def _floats(matrix: Any) -> Floats:
    return np.array([[float(v.mid()) for v in row] for row in matrix.tolist()])
