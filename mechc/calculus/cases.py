"""A declaration by cases: sorted pieces, each a sum of terms, and atoms.

Input: a declaration. Output: cases whose conditions on the parameters exclude each other and cover
the domain; in each the pieces are in order (mechc.symbolic.breakpoints) and every density is a sum
of terms (mechc.calculus.terms). A new case is opened only where a formula depends on a sign that
cannot be proved: the order of breakpoints does not, as pieces may be empty for some parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

import sympy as sp
from sympy import Add, Expr, Mul, Pow, S, Symbol, log, oo
from sympy.logic.boolalg import Boolean

from mechc.adjacency import Claim
from mechc.calculus.terms import Negative, Term, terms, total
from mechc.declare.declaration import Declaration, Poisson, Shift
from mechc.errors import DeclarationError, UnsupportedError
from mechc.protocol import Measure
from mechc.symbolic.breakpoints import real_zeros, split
from mechc.symbolic.facts import Facts, Undecided, facts_of
from mechc.symbolic.functions import clamped
from mechc.symbolic.parameters import Parameter
from mechc.symbolic.rewrite import fraction

MAX_SPLITS = 6  # signs that formulas may depend on: each may double the cases, 64 then
Arms = tuple[tuple[Expr, Boolean], ...]


@dataclass(frozen=True)
class Piece:
    """An interval on which P and Q have one formula each.

    Attributes:
        lo: left end, an expression in parameters or -oo.
        hi: right end. A lattice piece is the integers lo, ..., hi, both included. Pieces may be
            empty (hi <= lo, lattice hi < lo) for some parameters of the case.
        p: terms that add up to the density of P; () where it is zero.
        q: the same for Q.
        rate: where P is (1 - rate) Q + rate R, on a Poisson sample; None for other pairs.
        r: the terms of R.
    """

    lo: Expr
    hi: Expr
    p: tuple[Term, ...]
    q: tuple[Term, ...]
    rate: Expr | None = None
    r: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Atom:
    """A point with mass of its own; terms as in `Piece`, free of the variable."""

    x: Expr
    p: tuple[Term, ...]
    q: tuple[Term, ...]


@dataclass(frozen=True)
class Case:
    """Pieces and atoms for the parameters with `condition`.

    Attributes:
        condition: true for exactly one case.
        pieces: of both laws, in order.
        atoms: of both laws.
        p: pieces that tell the density of P, fewer where the order of all is not settled.
        q: the same for Q.
    """

    condition: Boolean
    pieces: tuple[Piece, ...]
    atoms: tuple[Atom, ...]
    p: tuple[Piece, ...]
    q: tuple[Piece, ...]


@dataclass(frozen=True)
class Pair:
    """A normalised pair.

    Attributes:
        name: name of the mechanism.
        variable: output variable.
        parameters: in the order in which kernels take them.
        measure: where it has its mass.
        cases: exactly one condition is true.
        claim: what the pair stands for, and whether that was proved.
        about: one sentence for people.
        refs: literature.
        notes: what was checked, and how.
        move: P is Q moved by this much; None for other pairs.
    """

    name: str
    variable: Symbol
    parameters: tuple[Parameter, ...]
    measure: Measure
    cases: tuple[Case, ...]
    claim: Claim | None
    about: str
    refs: tuple[str, ...]
    notes: tuple[str, ...]
    move: Expr | None


def log_sum(parts: tuple[Term, ...]) -> Expr | None:
    """log(sum of weight * exp(log_density)), None for the empty sum."""
    if not parts:
        return None
    if len(parts) == 1:
        return log(parts[0].weight) + parts[0].log_density
    return log(total(parts))


def by_cases(declaration: Declaration) -> tuple[Case, ...]:
    """Take a declaration apart.

    Raises:
        DeclarationError: a density is negative on a whole piece.
        UnsupportedError: a breakpoint that cannot be located.
    """
    return tuple(case for _, case in explored(declaration, ordered=False))


def explored(declaration: Declaration, *, ordered: bool = True) -> list[tuple[Facts, Case]]:
    """`by_cases`, each case with the facts that hold in it.

    Args:
        declaration: a pair, or noise beside itself.
        ordered: whether the ends of all pieces are put in order, by more cases.
    """
    try:
        return _cases(declaration, facts_of(declaration.parameters), ordered)
    except UnsupportedError as error:
        raise UnsupportedError(f"{declaration.name}: {error}") from None


def pieces_of(declaration: Declaration) -> tuple[Piece, ...]:
    """The pieces of a density in order; none where its formulas depend on the parameters' case."""
    try:
        pieces = _pieces(declaration, facts_of(declaration.parameters), ordered=False)
    except (Undecided, UnsupportedError):
        return ()
    return _merged(pieces, declaration.measure is Measure.LATTICE)


def _cases(declaration: Declaration, facts: Facts, ordered: bool) -> list[tuple[Facts, Case]]:
    """One case, or two where a sign depends on the parameters."""
    try:
        pieces = _merged(
            _pieces(declaration, facts, ordered), declaration.measure is Measure.LATTICE
        )
        p, q = _alone(pieces, declaration, facts, ordered)
        return [(facts, Case(facts.condition, pieces, tuple(_atoms(declaration, facts)), p, q))]
    except Undecided as undecided:
        if len(facts.known) >= MAX_SPLITS:
            raise UnsupportedError(
                f"the formulas depend on more than {MAX_SPLITS} signs, the last one that of "
                f"{undecided.expr}"
            ) from None
        if not undecided.expr.free_symbols <= {p.symbol for p in declaration.parameters}:
            raise UnsupportedError(
                f"the sign of {undecided.expr} depends on a variable that is summed or integrated "
                "over; split that sum or integral where the sign changes"
            ) from None
        return [
            case
            for sign in (1, -1)
            for case in _cases(declaration, facts.assume(undecided.expr, sign), ordered)
        ]


def _pieces(
    declaration: Declaration, facts: Facts, ordered: bool
) -> list[tuple[Piece, tuple[Expr, ...]]]:
    """The pieces in order, those without mass left out, with what tells them from neighbours."""
    if declaration.measure is Measure.FINITE:
        return []
    lattice, variable = declaration.measure is Measure.LATTICE, declaration.variable
    lo, hi = declaration.support
    move = move_of(declaration) or S.Zero
    if lattice:
        lo, hi = sp.ceiling(lo) - 1, sp.floor(hi)
    pieces = []
    exprs = (declaration.p, declaration.q)
    zeros = () if lattice else tuple(_vanishing(exprs, variable, facts))
    sample = sample_of(declaration)
    kept = (sample.base.p,) if sample else ()
    for stretch in split((*exprs, *kept, *zeros), variable, lo, hi, facts, ordered=ordered):
        a, b = (stretch.lo + 1 if lattice else stretch.lo), stretch.hi
        here = facts.within(variable, a, b)
        where = f"on {a} .. {b}"
        # P is taken apart as Q is
        back = facts.within(variable, _less(a, move), _less(b, move))
        p = _terms(declaration, stretch.exprs[0].subs(variable, variable + move), back, where)
        p = tuple(term.subs(variable, variable - move) for term in p)
        q = _terms(declaration, stretch.exprs[1], here, where)
        r = _terms(declaration, stretch.exprs[2], here, where) if sample else ()
        if p or q:
            rate = sample.rate if sample else None
            pieces.append((Piece(a, b, p, q, rate, r), stretch.exprs[2 + len(kept) :]))
    return pieces


def _alone(
    pieces: tuple[Piece, ...], declaration: Declaration, facts: Facts, ordered: bool
) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Pieces of P, and of Q, taken apart without the other where both have a formula twice."""
    formulas = [
        [f for f, _ in groupby(sides)] for sides in zip(*((s.p, s.q) for s in pieces), strict=True)
    ]
    move, x = move_of(declaration), declaration.variable
    if move is None or all(len(set(found)) == len(found) for found in formulas):
        return pieces, pieces
    alone = replace(declaration, p=declaration.q, construction=None)
    q = _merged(_pieces(alone, facts, ordered), declaration.measure is Measure.LATTICE)
    p = [
        replace(piece, lo=_less(piece.lo, -move), hi=_less(piece.hi, -move),
                p=tuple(term.subs(x, x - move) for term in piece.p))
        for piece in q
    ]  # fmt: skip
    return tuple(p), q


def _less(end: Expr, move: Expr) -> Expr:
    """An end less a distance, as are those that it is clamped by, which facts look at."""
    constant, rest = end.as_coeff_Add()
    if isinstance(rest, clamped):
        return constant + clamped(*(_less(part, move) for part in rest.args))
    return end - move


def move_of(declaration: Declaration) -> Expr | None:
    """How far P is Q moved, None where it is not."""
    built, x = declaration.construction, declaration.variable
    if not isinstance(built, Shift) or declaration.atoms:
        return None
    moved = declaration.q.subs(x, x - built.sensitivity)
    return built.sensitivity if declaration.p == moved else None


def sample_of(declaration: Declaration) -> Poisson | None:
    """How P is a mixture of Q and a law without sampling, None where it is not."""
    built = declaration.construction
    if not isinstance(built, Poisson):
        return None
    q, r, rate = built.base.q, built.base.p, built.rate
    is_mixture = declaration.q == q and declaration.p == (1 - rate) * q + rate * r
    return built if is_mixture else None


def _vanishing(exprs: Iterable[Expr], variable: Symbol, facts: Facts) -> list[Expr]:
    """Sizes of factors with zeros that Poly can tell, where the loss may have a pole; else one."""
    found: set[Expr] = set()
    whole = set(exprs)
    waiting: list[tuple[Expr, tuple[Arms, ...]]] = [(expr, ()) for expr in exprs]
    while waiting:
        expr, arms = waiting.pop()
        if isinstance(expr, sp.Piecewise):
            whole |= {value for value, _ in expr.args if expr in whole}
            waiting += [
                (value, (expr.args[: i + 1], *arms)) for i, (value, _) in enumerate(expr.args)
            ]
        elif isinstance(expr, Mul):
            waiting += [(part, arms) for part in expr.args]
        elif isinstance(expr, Pow) and expr.exp.is_Integer:
            waiting.append((expr.base, arms))
        elif isinstance(expr, log):
            top, bottom = fraction(expr.args[0])  # odd zeros and poles end where it is real
            parts = (f for g in (top, bottom, top - bottom) for f in Mul.make_args(g))
            powers = [part.as_base_exp() for part in parts]
            waiting += [(base, arms) for base, power in powers if power.is_even]
        elif isinstance(expr, Add) and not expr.is_polynomial(variable):
            waiting += [(part, arms) for part in expr.args if isinstance(part, Mul)]
        elif expr in whole:  # which has no simple zero where it is a density
            continue
        elif expr.has(variable) and expr.is_polynomial(variable):
            try:
                if real_zeros(expr, variable, facts):
                    found.add(_inside(sp.Abs(expr), arms))
            except (Undecided, UnsupportedError):
                continue  # no case is opened for it
    return sorted(found, key=sp.default_sort_key)


def _inside(expr: Expr, arms: tuple[Arms, ...]) -> Expr:
    """An expression in the last of some arms, each inside the next; one in all others."""
    for *before, (_, condition) in arms:
        expr = sp.Piecewise(*((S.One, c) for _, c in before), (expr, condition), (S.One, True))
    return expr


def _atoms(declaration: Declaration, facts: Facts) -> list[Atom]:
    """The atoms, those without mass left out."""
    atoms = []
    for row in declaration.atoms:
        (stretch,) = split(row, declaration.variable, -oo, oo, facts)
        x, *masses = stretch.exprs
        p, q = (_terms(declaration, mass, facts, f"at {x}") for mass in masses)
        if p or q:
            atoms.append(Atom(x, p, q))
    return atoms


def _terms(declaration: Declaration, expr: Expr, facts: Facts, where: str) -> tuple[Term, ...]:
    """The terms of one expression, with the place in the error if there is one."""
    if expr.has(sp.nan):
        raise DeclarationError(f"{declaration.name}: there is no formula {where}; end the "
                               "Piecewise with (0, True)")  # fmt: skip
    try:
        return terms(expr, declaration.variable, facts)
    except Negative:
        raise DeclarationError(f"{declaration.name}: {expr} is negative {where}") from None


def _merged(pieces: list[tuple[Piece, tuple[Expr, ...]]], lattice: bool) -> tuple[Piece, ...]:
    """Adjacent pieces with the same formulas, and no zero between them, as one."""
    merged: list[tuple[Piece, tuple[Expr, ...]]] = []
    for piece, signs in pieces:
        last, before = merged[-1] if merged else (None, ())
        touching = last is not None and last.hi + (1 if lattice else 0) == piece.lo
        if (
            last is not None
            and touching
            and (replace(last, lo=piece.lo, hi=piece.hi), before) == (piece, signs)
        ):
            merged[-1] = replace(piece, lo=last.lo), signs
        else:
            merged.append((piece, signs))
    return tuple(piece for piece, _ in merged)
