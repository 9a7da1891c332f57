"""Functions of the parameters alone: branches, atoms, strip, lattice, the mass at infinity."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from sympy import Basic, Expr, S, nan
from sympy import Tuple as SymTuple

from mechc.calculus.masses import weights_of
from mechc.calculus.types import CalculusCase, Closed, Region
from mechc.errors import LoweringError
from mechc.kernel import ir
from mechc.kernel.ir import Function, Row, Table
from mechc.kernel.lower.chains import listed_mass, log_mass
from mechc.kernel.lower.choose import Chooser
from mechc.kernel.lower.context import Context
from mechc.kernel.lower.functions import describe
from mechc.kernel.passes import finish_expression
from mechc.protocol import Measure


def tables(chooser: Chooser, inverse_of: dict[int, int]) -> tuple[Table, ...]:
    """All table functions of the protocol, given which inverse each monotone region has."""
    context, calculus = chooser.context, chooser.context.calculus
    inside = "The open interval of real t in which E_P[exp(t L); L finite] is finite."
    whole = "All losses are offset + step * integer; nan: no."
    found = calculus.lattice.expr if isinstance(calculus.lattice, Closed) else None
    steps = tuple(found) if isinstance(found, SymTuple) else (nan, nan)
    strip = _vector(context, "strip", inside, calculus.strip)
    lattice = _vector(context, "lattice", whole, steps)
    return (_branches(chooser, inverse_of), _atoms(chooser), strip, lattice)


def log_infinite_mass(chooser: Chooser, capabilities: dict[str, str]) -> Function:
    """Log P(q = 0), summed from logs of positive parts; nan where only quadrature gives it."""
    context = chooser.context
    capabilities["infinite_mass"] = describe([c.infinite_mass for c in context.calculus.cases])
    cases: list[tuple[Basic, ir.Block]] = []
    for case in context.calculus.cases:
        try:
            value = _log_total(case, chooser)
        except LoweringError as error:
            capabilities["infinite_mass"], value = f"numeric: {error}", ir.NAN
        cases.append((case.condition, ir.Block((), value)))
    doc = "Log of P(q = 0), the mass at loss +inf; nan: by quadrature."
    return Function("log_infinite_mass", "", doc, context.by_case(cases))


def _log_total(case: CalculusCase, chooser: Chooser) -> ir.Expr:
    """Log of the mass at infinite loss, nan where it has no closed form."""
    if not isinstance(case.infinite_mass, Closed):
        return ir.NAN
    if chooser.context.calculus.pair.measure is Measure.FINITE:
        places = (chooser.context.constant(atom.x) for atom in case.atoms if not atom.q)
        logs = [listed_mass(x, "p") for x in places]
    else:
        logs = [chooser.log_tail(part, case) for part in case.infinite_mass.expr]
    return functools.reduce(lambda a, b: ir.call("log_add", a, b), logs) if logs else ir.MINUS_INF


def _table(
    context: Context, name: str, doc: str, columns: int, rows: Sequence[tuple[Row, ...]],
    cases: Sequence[Basic] = (),
) -> Table:  # fmt: skip
    conditions = cases or [case.condition for case in context.calculus.cases]
    if all(r == rows[0] for r in rows):
        conditions, rows = conditions[:1], rows[:1]
    guards: list[ir.Expr | None] = [
        finish_expression(context.constant(condition)) for condition in conditions[:-1]
    ]
    return Table(name, doc, columns, tuple(zip([*guards, None], rows, strict=True)))


def _row(doc: str, *values: ir.Expr) -> Row:
    return Row(doc, tuple(finish_expression(value) for value in values))


def _branches(chooser: Chooser, inverse_of: dict[int, int]) -> Table:
    context = chooser.context
    rows, index = [], 0
    for case in context.calculus.cases:
        found = []
        for region in case.regions:
            found.append(_branch(region, inverse_of.get(index, index), case, chooser))
            index += 1
        rows.append(tuple(found))
    doc = "Branches as in BRANCHES: lo, hi, kind, loss at lo+, loss at hi-, index of the inverse."
    return _table(context, "branches", doc, 6, rows)


def _branch(region: Region, index: int, case: CalculusCase, chooser: Chooser) -> Row:
    context = chooser.context
    freeze = context.constant.at(
        f"{context.calculus.pair.name}: branch on ({region.lo}, {region.hi})"
    )
    ends = (region.loss_lo, region.loss_hi)
    limits = [ir.NAN if v is None else chooser.constant(v, case, freeze) for v in ends]
    kind, position = ir.number(region.kind.code), ir.number(index)
    doc = f"{region.kind} on ({region.lo}, {region.hi})"
    return _row(doc, freeze(region.lo), freeze(region.hi), kind, *limits, position)


def _atoms(chooser: Chooser) -> Table:
    context = chooser.context
    masses = [
        tuple(
            _row(f"at {atom.x}", context.constant(atom.x),
                 *(log_mass(terms, case, chooser) for terms in (atom.p, atom.q)))
            for atom in case.atoms
        )
        for case in context.calculus.cases
    ]  # fmt: skip
    return _table(context, "atoms", "Atoms: x, log mass under P, log mass under Q.", 3, masses)


def weights(context: Context, capabilities: dict[str, str]) -> Table:
    """Weights that no law has where they are negative, with their words in `capabilities`."""
    pair = context.calculus.pair
    found = [(case, weights_of(case, pair.variable, pair.parameters)) for case in pair.cases]
    words = list(dict.fromkeys(weight for _, some in found for weight in some))
    partial = [w for w in words if any(w not in some for _, some in found)]
    for name, listed in (("weights", words), ("weights of some cases", partial)):
        capabilities |= {name: "; ".join(map(str, listed))} if listed else {}
    rows = [tuple(_row(str(w), context.constant(w if w in some else S.One)) for w in words)
            for _, some in found]  # fmt: skip
    doc = "Weights that are not negative; one for those of other cases."
    cases = [case.condition for case, _ in found]
    return _table(context, "weights", doc, 1, rows, cases)


def _vector(context: Context, name: str, doc: str, values: Sequence[Expr]) -> Table:
    row = _row("", *map(context.constant, values))
    return Table(name, doc, 0, ((None, (row,)),))
