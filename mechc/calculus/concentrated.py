"""Concentrated differential privacy of a declared pair, where a theorem gives it in closed form.

Two normal laws of one variance: D_alpha = alpha (m_p - m_q)^2 / (2 variance), exactly. The same two
discrete Gaussians around integers: at most that (Canonne, Kamath, Steinke 2020, Theorem 4).

Mixtures with a common part: exp((alpha - 1) D_alpha) is jointly convex and 1 for equal laws, so it
is at most that of the parts that differ. Hence sampling a mechanism does not raise its rho.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from sympy import Expr, Integer, Rational, oo, simplify

from mechc.adjacency import Adjacency
from mechc.calculus.cases import Piece, explored
from mechc.declare.declaration import Declaration, Derived, Poisson, Shift
from mechc.declare.transforms import Shuffled, Vector, WithoutReplacement
from mechc.errors import UnsupportedError
from mechc.protocol import Measure

SAME_PAIR = (Shuffled, Vector, WithoutReplacement)
"""Steps whose pair is that of the base, or mixes a common part into it."""


def rho(declaration: Declaration) -> Expr | None:
    """Return a bound on D_alpha / alpha for all alpha > 1, both ways; None without a theorem."""
    built = declaration.construction
    if isinstance(built, Poisson):
        base = rho(built.base)
        # under replacement the pair has the noise moved to both sides of the middle
        moved = 4 if built.adjacency is Adjacency.REPLACE else 1
        shifted = moved == 1 or isinstance(built.base.construction, Shift)
        return moved * base if base is not None and shifted else None
    if isinstance(built, Derived):
        return rho(built.base) if isinstance(built.step, SAME_PAIR) else None
    if declaration.reverse is not None or (built is not None and not isinstance(built, Shift)):
        return None
    if declaration.measure is Measure.LATTICE and built is None:
        return None
    try:
        pieces = [piece for _, case in explored(declaration) for piece in case.pieces]
        whole = not any(case.atoms for _, case in explored(declaration))
    except UnsupportedError:
        return None
    return _normal(declaration, pieces[0]) if whole and len(pieces) == 1 else None


def rho_at(declaration: Declaration, values: Mapping[str, float]) -> float:
    """Return the value of `rho`, rounded up; nan where no theorem applies."""
    found = rho(declaration)
    if found is None:
        return math.nan
    exact = {p.symbol: Rational(values[p.name]) for p in declaration.parameters}
    return math.nextafter(float(found.subs(exact).evalf(30)), math.inf)


def _normal(declaration: Declaration, piece: Piece) -> Expr | None:
    """Of two normal laws, continuous or on the integers, of one variance."""
    x = declaration.variable
    if (piece.lo, piece.hi) != (-oo, oo) or len(piece.p) != 1 or len(piece.q) != 1:
        return None
    p, q = (terms[0].log_density.as_poly(x) for terms in (piece.p, piece.q))
    if p is None or q is None or p.degree() != 2 or q.degree() != 2:
        return None
    square = p.coeff_monomial(x**2)
    if simplify(square - q.coeff_monomial(x**2)) != 0:
        return None
    centre = simplify(q.coeff_monomial(x) / (2 * square))
    if declaration.measure is Measure.LATTICE and not centre.is_integer:
        return None  # between integers its mass is not the largest
    apart = simplify(p.coeff_monomial(x) - q.coeff_monomial(x))
    return -(apart**2) / (Integer(4) * square)
