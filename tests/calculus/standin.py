"""Pairs written out by hand, in the form that normalisation delivers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sympy import Expr, S, Symbol, oo, true

try:
    from mechc.pair import Atom, Case, Pair, Piece, Term
except ImportError:
    from dataclasses import dataclass
    from typing import Any

    @dataclass(frozen=True)
    class Term:
        weight: Any
        log_density: Any

    @dataclass(frozen=True)
    class Piece:
        lo: Any
        hi: Any
        p: tuple
        q: tuple

    @dataclass(frozen=True)
    class Atom:
        x: Any
        p: tuple
        q: tuple

    @dataclass(frozen=True)
    class Case:
        condition: Any
        pieces: tuple
        atoms: tuple

    @dataclass(frozen=True)
    class Pair:
        name: str
        variable: Any
        parameters: tuple
        measure: str
        cases: tuple
        claim: Any = None
        about: str = ""
        refs: tuple = ()
        notes: tuple = ()
        reverse: Any = None


from mechc.parameters import positive, rate

X = Symbol("x", real=True)
N = Symbol("n", integer=True)


def plain(parameter):
    return parameter.parameter.symbol


def pair(name: str, parameters, pieces, atoms=(), measure="density", variable=X, condition=true) -> Pair:
    case = Case(condition=condition, pieces=tuple(pieces), atoms=tuple(atoms))
    return Pair(
        name=name,
        variable=variable,
        parameters=tuple(p.parameter for p in parameters),
        measure=measure,
        cases=(case,),
        claim=None,
        about="",
        refs=(),
        notes=(),
    )


def scaled(terms, weight):
    return tuple(Term(weight * t.weight, t.log_density) for t in terms)


def poisson(base: Pair, add: bool = False) -> Pair:
    q = rate("sampling_rate", typical=(0.01, 0.3))
    w = plain(q)

    def mixed(part):
        p = (*scaled(part.q, 1 - w), *scaled(part.p, w))
        ends = {"x": part.x} if hasattr(part, "x") else {"lo": part.lo, "hi": part.hi}
        return type(part)(**ends, p=part.q if add else p, q=p if add else part.q)

    cases = tuple(
        Case(c.condition, tuple(map(mixed, c.pieces)), tuple(map(mixed, c.atoms)))
        for c in base.cases
    )
    return Pair(
        name=f"poisson_{base.name}" + ("_add" if add else ""), variable=base.variable,
        parameters=(*base.parameters, q.parameter), measure=base.measure, cases=cases,
        claim=None, about="", refs=(), notes=(),
    )
