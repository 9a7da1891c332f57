"""Limits of a sum of exponentials whose rates may vanish, such as moves that may be zero.

Whether log(sum w_i exp(a_i x)) is bounded at an end depends on which of the a_i >= 0 are zero,
which is only known for given parameters: the limit is written with that condition in it.
"""

from __future__ import annotations

from sympy import Add, Expr, Gt, Le, Or, Piecewise, Poly, PolynomialError, S, Symbol, exp, log, oo

from mechc.calculus.words import log_mix


def limit_of_exponentials(loss: Expr, x: Symbol, end: Expr) -> Expr | None:
    """Limit at -oo or oo of log(sum of w exp(a x + b)), a >= 0, also inside `log_mix`.

    Args:
        loss: expression in x.
        x: the variable.
        end: -oo or oo.

    Returns:
        An expression in parameters, or None where the loss is of another kind.
    """
    if not end.is_infinite:
        return None
    if isinstance(loss, log_mix):
        inner = limit_of_exponentials(loss.args[1], x, end)
        return None if inner is None else log_mix(loss.args[0], inner)
    constant, rest = loss.as_independent(x, as_Add=True)
    if not isinstance(rest, log) or not isinstance(rest.args[0], Add):
        return None
    parts = [_rate(term, x) for term in rest.args[0].args]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or not all(a.is_nonnegative for a, _ in known):
        return None
    if all(a.is_positive or a == 0 for a, _ in known):
        return None
    at_rest = [w if a == 0 else Piecewise((w, Le(a, 0)), (S.Zero, True)) for a, w in known]
    if end == -oo:
        return constant + log(Add(*at_rest))
    growing = Or(*(Gt(a, 0) for a, _ in known if a != 0))
    return Piecewise((oo, growing), (constant + log(Add(*(w for _, w in known))), True))


def _rate(term: Expr, x: Symbol) -> tuple[Expr, Expr] | None:
    """(a, w exp(b)) of w exp(a x + b)."""
    weight, function = term.as_independent(x, as_Add=False)
    if function == 1:
        return S.Zero, weight
    try:
        poly = Poly(function.args[0], x) if isinstance(function, exp) else None
    except PolynomialError:
        return None
    if poly is None or poly.degree() != 1:
        return None
    return poly.coeff_monomial(x), weight * exp(poly.coeff_monomial(1))
