"""Evaluation of a declaration from its definition, by mpmath, sharing nothing with the compiler."""

import math
from functools import cache

import mpmath
from sympy import Dummy, Sum, lambdify

from mechc.calculus import normalise
from mechc.calculus.cases import Case, Pair
from mechc.declare import Declaration

normalised = cache(normalise)


@cache
def compiled(expr, arguments):
    """`expr` as a function of the arguments; infinite sums term by term."""
    sums = sorted(expr.atoms(Sum), key=str)
    stand_ins = [Dummy() for _ in sums]
    flat = expr.xreplace(dict(zip(sums, stand_ins, strict=True)))
    outer = lambdify([*arguments, *stand_ins], flat, "mpmath")
    inner = [lambdify([s.limits[0][0], *arguments], s.function, "mpmath") for s in sums]

    def value(*given):
        totals = [_sum(f, given[1:]) for f in inner]
        return outer(*given, *totals)

    return value


@cache
def _sum(summand, theta):
    """A sum over all integers of a summand below 1e-80 beyond 400, free of the variable."""
    return mpmath.fsum(summand(k, 0, *theta) for k in range(-400, 401))


def _arguments(declared):
    return (declared.variable, *(p.symbol for p in declared.parameters))


def definition(declaration: Declaration, expr):
    """`expr` as a function of (point, theta)."""
    inside = compiled(expr, _arguments(declaration))
    lo, hi = (compiled(end, _arguments(declaration)) for end in declaration.support)

    def value(point, theta):
        if not lo(point, *theta) <= point <= hi(point, *theta):
            return mpmath.mpf(0)
        return inside(point, *theta)

    return value


def case_at(pair: Pair, theta) -> Case:
    """The one case whose condition holds."""
    given = {p.symbol: value for p, value in zip(pair.parameters, theta, strict=True)}
    (case,) = [c for c in pair.cases if c.condition.subs(given) == True]  # noqa: E712
    return case


def by_pieces(pair: Pair, theta, point) -> tuple:
    """(p, q) at a point from the pieces of a pair; the point must not be a breakpoint."""
    given = {p.symbol: value for p, value in zip(pair.parameters, theta, strict=True)}
    found = []
    for piece in case_at(pair, theta).pieces:
        lo, hi = (float(end.subs(given)) for end in (piece.lo, piece.hi))
        if lo <= point <= hi:
            found.append(piece)
    assert len(found) <= 1, f"pieces overlap at {point}"
    if not found:
        return mpmath.mpf(0), mpmath.mpf(0)
    arguments = _arguments(pair)
    return tuple(
        mpmath.fsum(
            compiled(t.weight, arguments)(point, *theta)
            * mpmath.exp(compiled(t.log_density, arguments)(point, *theta))
            for t in side
        )
        for side in (found[0].p, found[0].q)
    )


def irrational_vectors(declaration: Declaration, how_many: int):
    """Vectors inside the typical ranges, by square roots of primes."""
    primes = (2, 3, 5, 7, 11, 13, 17, 19)
    for k in range(how_many):
        theta = []
        for i, p in enumerate(declaration.parameters):
            fraction = math.sqrt(primes[(i + 2 * k) % 8]) * (k + 1) % 1
            value = p.typical[0] + (p.typical[1] - p.typical[0]) * fraction
            theta.append(round(value) if p.integer else mpmath.mpf(value))
        yield tuple(theta)
