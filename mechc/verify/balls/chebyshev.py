"""Proved interpolation in Chebyshev points, for many values at a time.

What an interpolant errs is said in mechc.verify.balls.ellipse. It is evaluated in floating point
with matrices whose entries are rounded balls; a product of N terms loses at most (N + 6) u of the
sum of sizes.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from flint import arb, arb_mat, ctx
from numpy.typing import NDArray

from mechc.loss.rounding import U
from mechc.verify.balls import ellipse

Floats = NDArray[np.float64]

POINTS = 32
CUTS = (8, 64, 256, 1024)  # equal cells that a panel may be cut into
_BITS = 128


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
    rho = ellipse.rho()
    return 4 * rho ** (1 - POINTS) / (rho - 1)


@cache
def rule(cells: int) -> Rule:
    """The matrices of a panel cut into equal cells."""
    with ctx.workprec(_BITS):
        grid = [arb(2 * j) / cells - 1 for j in range(cells + 1)]
        tables = [_polynomials(u, POINTS + 1) for u in grid]
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


def _polynomials(u: Any, count: int) -> list[Any]:
    """T_0 .. T_(count-1) at u."""
    row = [arb(1), u]
    while len(row) < count:
        row.append(2 * u * row[-1] - row[-2])
    return row[:count]


def _antiderivatives(row: list[Any]) -> list[Any]:
    """Antiderivatives of T_0 .. T_(POINTS-1) from the values of all T up to POINTS."""
    u = row[1]
    return [u, u * u / 2] + [
        (row[k + 1] / (k + 1) - row[k - 1] / (k - 1)) / 2 for k in range(2, POINTS)
    ]


def _transform() -> Any:
    """Values at the points to coefficients."""
    tables = [_polynomials(u, POINTS) for u in points(_BITS)]
    return arb_mat([[row[k] * (2 if k else 1) / POINTS for row in tables] for k in range(POINTS)])


@cache
def _coefficients() -> Floats:
    with ctx.workprec(_BITS):
        return _floats(_transform())


def _floats(matrix: Any) -> Floats:
    return np.array([[float(v.mid()) for v in row] for row in matrix.tolist()])
