"""Pieces and regions as if / elif / else over the output x.

Intervals are half-open, [lo, hi), except that the last one includes its right end; lattice ranges
include both ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from sympy import Expr, expand, log, oo

from mechc.calculus.cases import Case
from mechc.calculus.terms import Term, total
from mechc.calculus.types import CalculusCase, Kind
from mechc.kernel import ir
from mechc.kernel.lower.choose import Chooser
from mechc.kernel.lower.context import Context
from mechc.kernel.lower.freeze import log_of_terms
from mechc.protocol import Measure
from mechc.symbolic.rewrite import expanded_log, quotient

Span = tuple[Expr, Expr, ir.Expr]
X = ir.Var("x")


def density_chain(
    case: Case, side: Literal["p", "q"], context: Context, forms: Mapping[Expr, Expr]
) -> ir.Block:
    """The log density (or mass on a lattice) of P or Q in one parameter case.

    What stands in `forms` is written as is said there.
    """
    name, x = context.calculus.pair.name, context.calculus.pair.variable
    spans = []
    for piece in case.p if side == "p" else case.q:
        where = f"{name}: log {side} on ({piece.lo}, {piece.hi})"
        terms = piece.p if side == "p" else piece.q
        terms = tuple(Term(t.weight, t.log_density.xreplace(forms)) for t in terms)
        spans.append((piece.lo, piece.hi, log_of_terms(terms, x, context.at_x.at(where))))
    last = case.pieces[-1].hi
    if spans and spans[-1][1] != last:  # an end of one law alone is none of the support
        spans.append((spans[-1][1], last, ir.MINUS_INF))
    return _chain(spans, ir.MINUS_INF, context)


def loss_chain(case: CalculusCase, chooser: Chooser) -> ir.Block:
    """The loss in one parameter case."""
    context = chooser.context
    if context.calculus.pair.measure is Measure.FINITE:
        return _at_points(list(_point_losses(case, chooser)), ir.NAN, context)
    spans = []
    for region in case.regions:
        if region.loss is None:
            value: ir.Expr = ir.INF if region.kind is Kind.P_ONLY else ir.MINUS_INF
        else:
            value = chooser.loss(region.loss)
        spans.append((region.lo, region.hi, value))
    return _chain(spans, ir.NAN, context)


def _chain(spans: Sequence[Span], outside: ir.Expr, context: Context) -> ir.Block:
    """Arms over x for sorted spans, `outside` before, between and after them."""
    lattice = context.calculus.pair.measure is Measure.LATTICE
    arms: list[tuple[ir.Expr | None, ir.Block]] = []
    end: Expr = -oo
    spans = _merged(spans, lattice)
    for i, (lo, hi, value) in enumerate(spans):
        if lo != -oo and (i == 0 or not _touch(end, lo, lattice)):
            arms.append((ir.Compare("<", X, context.constant(lo)), ir.Block((), outside)))
        if hi == oo:
            arms.append((None, ir.Block((), value)))
            return ir.Block((), ir.Chain(tuple(arms)))
        closed = lattice or i == len(spans) - 1
        guard = ir.Compare("<=" if closed else "<", X, context.constant(hi))
        arms.append((guard, ir.Block((), value)))
        end = hi
    otherwise = ir.Block((), outside)
    while arms and arms[-1][1] == otherwise:
        arms.pop()
    return ir.Block((), ir.Chain((*arms, (None, otherwise))))


def _merged(spans: Sequence[Span], lattice: bool) -> list[Span]:
    """Touching spans with one formula as one (regions are cut at extrema, formulas are not)."""
    merged: list[Span] = []
    for lo, hi, value in spans:
        if merged and merged[-1][2] == value and _touch(merged[-1][1], lo, lattice):
            merged[-1] = (merged[-1][0], hi, value)
        else:
            merged.append((lo, hi, value))
    return merged


def _touch(end: Expr, start: Expr, lattice: bool) -> bool:
    gap = start - end - (1 if lattice else 0)
    return bool(gap == 0 or expand(gap) == 0)


def log_mass(terms: tuple[Term, ...], case: CalculusCase, chooser: Chooser) -> ir.Expr:
    """Log of the mass of an atom; -inf for none."""
    if not terms:
        return ir.MINUS_INF
    return chooser.constant(_log(total(terms)), case, chooser.context.constant, far=True)


def _log(value: Expr) -> Expr:
    """A log multiplied out, of a number as it is."""
    return expanded_log(log(value)) if value.free_symbols else log(value)


def listed_mass(x: ir.Expr, side: Literal["p", "q"]) -> ir.Expr:
    """A finite set: the log mass at a point, as its table of atoms has it."""
    rows, column = ir.call("atoms", ir.Local("theta")), ir.Local("1" if side == "p" else "2")
    return ir.call("log_mass", x, column, rows)


def _point_losses(case: CalculusCase, chooser: Chooser) -> Iterator[tuple[Expr, ir.Expr]]:
    """The loss at each point of a finite set."""
    for atom in case.atoms:
        if not atom.p or not atom.q:
            yield atom.x, ir.INF if atom.p else ir.MINUS_INF
            continue
        loss = _log(quotient(total(atom.p), total(atom.q)))
        yield atom.x, chooser.constant(loss, case, chooser.context.constant, far=True)


def _at_points(
    values: Sequence[tuple[Expr, ir.Expr]], outside: ir.Expr, context: Context
) -> ir.Block:
    arms: list[tuple[ir.Expr | None, ir.Block]] = [
        (ir.Compare("==", X, context.constant(x)), ir.Block((), value)) for x, value in values
    ]
    return ir.Block((), ir.Chain((*arms, (None, ir.Block((), outside)))))
