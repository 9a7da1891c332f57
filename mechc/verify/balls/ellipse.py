"""Bernstein ellipses: the largest value of a function on one bounds the error of quadrature.

A function analytic inside the ellipse with foci -1 and 1 and half axis STRETCH, and of size at most
m there, differs from its interpolant in N Chebyshev points by at most 4 m rho^(1-N)/(rho - 1), and
its integral over (-1, 1) from the N-point Gauss-Legendre rule by at most
(64/15) m rho^(2-2N)/(1 - rho^-2) (Trefethen, Approximation Theory and Approximation Practice,
Theorems 8.2 and 19.3), with rho = STRETCH + sqrt(STRETCH^2 - 1).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from flint import acb, arb, ctx

STRETCH = 1.75  # half axis along the interval
RHO = STRETCH + math.sqrt(STRETCH * STRETCH - 1.0)
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
