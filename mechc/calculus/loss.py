"""The privacy loss of a piece in readable, cancellation-free form.

Input: the terms of p and q on one piece, both positive there. Output: L = log p - log q as an
expression in the variable. One reference exponent is factored out of both sums; a side that
contains a multiple of the other becomes `log_mix(weight, base loss)`, which is what sampling
produces (Zhu, Dong, Wang 2022, Theorem 11: L_remove = log(1 - q + q e^l)).
"""

from __future__ import annotations

from sympy import Add, Expr, S, Symbol, exp, expand_log, factor, log

from mechc.calculus.terms import Term, total
from mechc.symbolic.facts import Facts
from mechc.symbolic.functions import log_mix
from mechc.symbolic.rewrite import cancelled, quotient, tidy
from mechc.symbolic.signs import exceeds_zero

Terms = tuple[Term, ...]


def log_sum(terms: Terms, x: Symbol) -> Expr:
    """log(sum of weight*exp(log_density)) as it stands, constants split off a single term."""
    if len(terms) == 1:
        return tidy(_log(terms[0].weight) + terms[0].log_density, x)
    return log(total(terms))


def loss_of(p: Terms, q: Terms, x: Symbol, facts: Facts) -> Expr:
    """Privacy loss log(p/q) where both are positive."""
    pairs_p = [(t.weight, t.log_density) for t in p]
    pairs_q = [(t.weight, t.log_density) for t in q]
    return _loss(pairs_p, pairs_q, x, facts)


_Pairs = list[tuple[Expr, Expr]]


def _loss(p: _Pairs, q: _Pairs, x: Symbol, facts: Facts) -> Expr:
    if len(p) == len(q) == 1:
        return tidy(_log(quotient(p[0][0], q[0][0])) + p[0][1] - q[0][1], x)
    for mine, other, orientation in ((p, q, 1), (q, p, -1)):
        mixture = _as_mixture(mine, other, x, facts)
        if mixture is not None:
            return orientation * mixture
    shared = _shared_part(p, q, x, facts)
    return _ratio_of_sums(p, q, x) if shared is None else shared


def _log(weight: Expr) -> Expr:
    return expand_log(log(weight)) if weight.has(exp) else log(weight)


def _proportion(one: tuple[Expr, Expr], two: tuple[Expr, Expr], x: Symbol) -> Expr | None:
    """The constant ratio of two terms, or None."""
    difference = tidy(one[1] - two[1], x)
    return None if difference.has(x) else cancelled(one[0] / two[0] * exp(difference))


def _as_mixture(p: _Pairs, q: _Pairs, x: Symbol, facts: Facts) -> Expr | None:
    """log(p/q) when p = r*q + rest with a constant r <= 1."""
    rest, ratios = list(p), set()
    for term in q:
        found = next(((t, r) for t in rest if (r := _proportion(t, term, x)) is not None), None)
        if found is None:
            return None
        rest.remove(found[0])
        ratios.add(found[1])
    if len(ratios) != 1:
        return None
    (ratio,) = ratios
    if not rest:
        return log(ratio)
    weight = factor(1 - ratio)  # expanded it would lose its digits next to one
    if not exceeds_zero(weight, facts):
        return None
    return log_mix(weight, _loss([(quotient(w, weight), a) for w, a in rest], q, x, facts))


def _shared_part(p: _Pairs, q: _Pairs, x: Symbol, facts: Facts) -> Expr | None:
    """Difference of two mixtures over the terms that p and q have in common."""
    common, rest_p, rest_q = [], [], list(q)
    for term in p:
        twin = next((t for t in rest_q if _proportion(term, t, x) == 1), None)
        if twin is None:
            rest_p.append(term)
        else:
            rest_q.remove(twin)
            common.append(term)
    if not common or not rest_p or not rest_q:
        return None
    sides = []
    for rest in (rest_p, rest_q):
        mass = Add(*(w for w, _ in rest))
        weight = cancelled(mass / (mass + Add(*(w for w, _ in common))))
        if not exceeds_zero(weight, facts):
            return None
        base = [(quotient(w, 1 - weight), a) for w, a in common]
        inner = _loss([(quotient(w, weight), a) for w, a in rest], base, x, facts)
        sides.append((weight, log_mix(weight, inner)))
    (weight_p, mix_p), (weight_q, mix_q) = sides
    constant = S.Zero if weight_p == weight_q else log(quotient(1 - weight_q, 1 - weight_p))
    return mix_p - mix_q + constant


def _ratio_of_sums(p: _Pairs, q: _Pairs, x: Symbol) -> Expr:
    weight, reference = q[0] if len(p) > 1 else p[0]
    sums = [
        Add(*(quotient(w, weight) * exp(tidy(a - reference, x)) for w, a in side))
        for side in (p, q)
    ]
    return log(sums[0]) - log(sums[1])
