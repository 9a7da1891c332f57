"""Functions of x, of the loss and of z: densities, loss, inverses, cgf, distribution functions.

The declaration and the branches in words stand here too, for the header of an emitted kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby, pairwise
from typing import Literal

import mpmath
from mpmath import mp
from sympy import (
    And,
    Basic,
    Expr,
    Mul,
    Not,
    Piecewise,
    S,
    Symbol,
    erf,
    erfc,
    exp,
    expand,
    log,
    oo,
    preorder_traversal,
    true,
)

from mechc.calculus.cases import Atom, Case, Pair
from mechc.calculus.terms import Term, total
from mechc.calculus.types import Calculus, CalculusCase, Closed, Entry, Kind, Region
from mechc.errors import LoweringError
from mechc.kernel import ir
from mechc.kernel.ir import Function, Inverse
from mechc.kernel.lower.chains import X, density_chain, listed_mass, loss_chain
from mechc.kernel.lower.choose import Chooser
from mechc.kernel.lower.context import Context
from mechc.kernel.lower.freeze import Freezer
from mechc.kernel.lower.samples import DIGITS, vectors
from mechc.kernel.passes import finish
from mechc.kernel.passes.guards import complexify
from mechc.protocol import Measure
from mechc.symbolic.evaluate import evaluate
from mechc.symbolic.functions import clamped
from mechc.symbolic.notation import written
from mechc.symbolic.rewrite import factored

READABLE = 600  # characters of a formula that somebody reads
CONTINUOUS = 1e-12  # by less than which densities do not jump
NAMED = 12  # characters beyond which a factor that is often repeated has a name in the header


def densities(chooser: Chooser) -> list[Function]:
    """log_q and log_p, callees first."""
    calculus, found = chooser.context.calculus, []
    word = "density" if calculus.pair.measure is Measure.DENSITY else "mass"
    move = _move(calculus)
    sides: tuple[Literal["p", "q"], ...] = ("q", "p")
    for side in sides:
        doc = f"Log {word} of {side.upper()} at x."
        moved = side == "p" and move is not None
        body = _moved("log_q", move, chooser) if moved else _density(side, chooser)
        found.append(Function(f"log_{side}", "x", doc, body, array=True))
    return found


def _move(calculus: Calculus) -> Expr | None:
    """How far P is Q moved, where x - move may be rounded: not next to a jump of a density."""
    pair = calculus.pair
    if pair.measure is Measure.DENSITY and not all(_continuous(c, calculus) for c in pair.cases):
        return None
    return pair.move


def _continuous(case: Case, calculus: Calculus) -> bool:
    """Whether Q has the whole line and jumps at most at 0, where x - move is exact."""
    x, pieces = calculus.pair.variable, case.pieces
    if pieces[0].lo != -oo or pieces[-1].hi != oo:
        return False
    joined = list(pairwise(pieces))
    for left, right in joined:
        if left.hi != right.lo or not left.q or not right.q:
            return False
    with mp.workdps(DIGITS):
        for theta in vectors(calculus, case, 2):
            for left, right in joined:
                if left.q != right.q and left.hi != 0:
                    here = {**theta, x: evaluate(left.hi, theta)}
                    below, above = (evaluate(total(side), here) for side in (left.q, right.q))
                    if not abs(below - above) <= CONTINUOUS * abs(above):
                        return False
    return True


def _moved(name: str, move: Expr, chooser: Chooser) -> ir.Block:
    """A function of Q at x - move, which is that of P."""
    place = ir.add(X, ir.negate(chooser.context.constant(move)))
    return finish(ir.Block((), ir.call(name, place, ir.Local("theta"))))


def _density(side: Literal["p", "q"], chooser: Chooser) -> ir.Block:
    """The log density or mass by pieces."""
    context = chooser.context
    pair = context.calculus.pair
    zeros: dict[Expr, Expr] = {}
    rounded = False
    if pair.measure is Measure.FINITE:
        return ir.Block((), listed_mass(X, side))
    if pair.measure is Measure.DENSITY:
        found = [zero for c in pair.cases for zero in _zeros(c, side, context.calculus)]
        zeros = {node: product for node, product, _ in found}
        rounded = any(past for *_, past in found)
    body = context.by_case(
        [(c.condition, density_chain(c, side, context, zeros)) for c in pair.cases]
    )
    return ir.map_block(body, _up_to_zero) if rounded else body


def _zeros(
    case: Case, side: Literal["p", "q"], calculus: Calculus
) -> Iterator[tuple[Expr, Expr, bool]]:
    """Logs of what falls to zero at an end of a piece, and whether doubles may pass that end."""
    # With each the same log with its argument as a product, if it is a polynomial: next to such an
    # end a sum has lost its digits.
    x = calculus.pair.variable
    with mp.workdps(DIGITS):
        places, tiny = vectors(calculus, case, 2), mpmath.mpf(10) ** (-DIGITS // 2)
        for piece in case.pieces:
            ends = [e for e in (piece.lo, piece.hi) if not e.is_infinite]
            for node in {
                node
                for term in (piece.p if side == "p" else piece.q)
                for node in term.log_density.atoms(log)
                if node.has(x)
            }:
                (inside,) = node.args
                found = [
                    end for end in ends
                    if all(abs(evaluate(inside, {**t, x: evaluate(end, t)})) < tiny for t in places)
                ]  # fmt: skip
                if found:
                    product = factored(inside) if inside.is_polynomial(x) else inside
                    past = not all(end.is_Integer for end in found)
                    yield node, log(product, evaluate=False), past


def _up_to_zero(expr: ir.Expr) -> ir.Expr:
    """Logarithms of what rounding may have carried past zero: -inf there, not nan."""

    def rule(node: ir.Expr) -> ir.Expr:
        match node:
            case ir.Call("log", (ir.IntPow(_, 2),)):
                return node
            case ir.Call("log" | "log1p" as name, (inside,)) if X in ir.walk(inside):
                least = ir.ZERO if name == "log" else ir.Neg(ir.ONE)
                return ir.call(name, ir.call("max", inside, least))
        return node

    return ir.transform(expr, rule)


def loss(chooser: Chooser) -> Function:
    """The privacy loss."""
    context = chooser.context
    cases = [(case.condition, loss_chain(case, chooser)) for case in context.calculus.cases]
    doc = "Privacy loss log(p/q); inf where only p > 0, -inf where only q > 0, nan where neither."
    return Function("loss", "x", doc, context.by_case(cases), array=True)


def inverses(chooser: Chooser) -> tuple[tuple[Inverse, ...], dict[int, int]]:
    """X as a function of the loss on monotone regions, and which of them each region has.

    Regions of different parameter cases share one where it is the same.
    """
    kept: list[Inverse] = []
    found: dict[object, int] = {}
    which: dict[int, int] = {}
    index = 0
    for case in chooser.context.calculus.cases:
        mine: dict[object, int] = {}
        for region in case.regions:
            if region.kind.moves:
                made = _inverse(index, region, case, chooser)
                key = made.rising, made.body or (made.lo, made.hi)
                if key not in found:
                    kept.append(made)
                    mine.setdefault(key, index)
                which[index] = found.get(key, index)
            index += 1
        found = {**mine, **found}
    return tuple(kept), which


def _inverse(index: int, region: Region, case: CalculusCase, chooser: Chooser) -> Inverse:
    context, place = chooser.context, f"inverse on ({region.lo}, {region.hi})"
    freeze = context.constant.at(f"{context.calculus.pair.name}: {place}")
    lo, hi = (finish(ir.Block((), freeze(end))) for end in (region.lo, region.hi))
    body, doc = None, f"x of loss ell in ({region.lo}, {region.hi})"
    if isinstance(region.inverse, Closed):
        form = chooser.inverse(index, region, case)
        if form is None:
            doc += ", by bracketing (the closed form loses digits)"
        else:
            body = finish(ir.Block((), form))
    else:
        doc += f", by bracketing ({region.inverse.reason})"
    return Inverse(index, doc + ".", region.kind is Kind.INCREASING, body, lo, hi)


def cgf(context: Context, capabilities: dict[str, str]) -> list[Function]:
    """Log M(z) where every parameter case has a closed form; says so in `capabilities`."""
    entries = [case.cgf for case in context.calculus.cases]
    capabilities["cgf"] = describe(entries)
    if not all(isinstance(entry, Closed) for entry in entries):
        return []
    try:
        blocks = [
            (case.condition, _by_arms(case.cgf, context.at_z, lambda expr, _: context.at_z(expr)))
            for case in context.calculus.cases
        ]
        body = ir.map_block(context.by_case(blocks), lambda expr: complexify(expr, "z"))
    except LoweringError as error:
        capabilities["cgf"] = f"numeric: {error}"
        return []
    doc = "Cumulant generating function log E_P[exp(z L); L finite] for complex z."
    return [Function("cgf", "z", doc, body, complex=True)]


def distribution_functions(chooser: Chooser, capabilities: dict[str, str]) -> list[Function]:
    """cdf_p, sf_p, cdf_q, sf_q where all of them have closed forms good in the tails."""
    cases = chooser.context.calculus.cases
    entries = [entry for case in cases for entry in (case.cdf_p, case.cdf_q)]
    capabilities["cdf"] = describe(entries)
    if not all(isinstance(entry, Closed) for entry in entries):
        return []
    try:
        return [
            _distribution(chooser, side, above) for side in ("q", "p") for above in (False, True)
        ]
    except LoweringError as error:
        capabilities["cdf"] = f"unavailable: {error}"
        return []


def _distribution(chooser: Chooser, side: str, above: bool) -> Function:
    blocks, move = [], _move(chooser.context.calculus)
    name, word = ("sf", "(x, inf)") if above else ("cdf", "(-inf, x]")
    doc = f"Probability of {word} under {side.upper()}."
    if side == "p" and move is not None:
        return Function(f"{name}_p", "x", doc, _moved(f"{name}_q", move, chooser))
    if above and _is_even(chooser.context.calculus.pair, side):
        mirrored = ir.call(f"cdf_{side}", ir.negate(X), ir.Local("theta"))
        return Function(f"sf_{side}", "x", doc, finish(ir.Block((), mirrored)))
    for case in chooser.context.calculus.cases:

        def arm(expr: Expr, condition: Basic, case: CalculusCase = case) -> ir.Expr:
            # the complement inside the arms, so that 1 - (1 - tail) becomes the tail
            expr = expand(1 - expr) if above else expr
            return chooser.probability(_without_complements(expr), condition, case)

        entry = case.cdf_p if side == "p" else case.cdf_q
        blocks.append((case.condition, _by_arms(entry, chooser.context.at_x, arm)))
    return Function(f"{name}_{side}", "x", doc, chooser.context.by_case(blocks))


def _is_even(pair: Pair, side: str) -> bool:
    """Whether a density is the same at -x, formula by formula."""
    x = pair.variable
    for case in pair.cases:
        sides = [(p.lo, p.hi, p.p) if side == "p" else (p.lo, p.hi, p.q) for p in case.pieces]
        runs = [list(run) for _, run in groupby(sides, key=lambda one: one[2])]
        whole = [(run[0][0], run[-1][1], run[0][2]) for run in runs if run[0][2]]
        mirrored = [(-hi, -lo, tuple(t.subs(x, -x) for t in terms)) for lo, hi, terms in whole]
        if case.atoms or whole != mirrored[::-1]:
            return False
    return pair.measure is Measure.DENSITY


def _without_complements(expr: Expr) -> Expr:
    """An expression without erfc(u) beside erf(u), which add up to one."""
    known = {f.args[0] for f in expr.atoms(erf)}
    both = {erfc(u): 1 - erf(u) for u in known if expr.has(erfc(u))}
    return expand(expr.xreplace(both)) if both else expr


def describe(entries: list[Entry]) -> str:
    """An entry for CAPABILITIES: "closed: how", "numeric: why" or "unavailable: why"."""
    for entry in entries:
        if not isinstance(entry, Closed):
            return f"{type(entry).__name__.lower()}: {entry.reason}"
    hows = dict.fromkeys(entry.how for entry in entries if isinstance(entry, Closed))
    return f"closed: {', '.join(hows)}"


def _by_arms(entry: Entry, freeze: Freezer, arm: Callable[[Expr, Basic], ir.Expr]) -> ir.Block:
    """A block for a closed entry; a Piecewise becomes its arms."""
    assert isinstance(entry, Closed)
    if not isinstance(entry.expr, Piecewise):
        return ir.Block((), arm(entry.expr, true))
    arms: list[tuple[ir.Expr | None, ir.Block]] = []
    earlier: list[Basic] = []
    for value, condition in entry.expr.args:
        guard = None if condition is true else freeze(condition)
        here = And(condition, *(Not(c) for c in earlier))
        arms.append((guard, ir.Block((), arm(value, here))))
        earlier.append(condition)
    if arms[-1][0] is not None:
        arms.append((None, ir.Block((), ir.NAN)))
    while len(arms) > 1 and arms[-2][1] == arms[-1][1]:
        del arms[-2]
    return ir.Block((), ir.Chain(tuple(arms)))


def branch_words(calculus: Calculus) -> tuple[str, ...]:
    """One phrase for each branch, e.g. "increasing on (0, sensitivity)"."""
    brackets = "{} .. {}" if calculus.pair.measure is Measure.LATTICE else "({}, {})"
    return tuple(
        f"{region.kind} on {brackets.format(region.lo, region.hi)}"
        for case in calculus.cases
        for region in case.regions
    )


def formulas(calculus: Calculus) -> tuple[str, ...]:
    """Densities, loss and its inverse by branches, atoms, and K: a formula a line.

    A factor that stands in front of many terms has a name, as have lengths of what may be empty in
    masses; parameter cases that are alike stand there once.
    """
    cases = calculus.cases
    sides = [side for case in cases for r in case.regions for side in (r.p, r.q)]
    often = Counter(t.weight for side in sides for t in side if t.log_density != 0)
    masses = [t.weight for case in cases for atom in case.atoms for t in (*atom.p, *atom.q)]
    often += Counter(part for mass in masses for part in (*Mul.make_args(mass), *_lengths(mass)))
    repeated = [factor for factor, n in often.items() if n > 2 and len(str(factor)) > NAMED]
    names = {factor: Symbol(f"c{i}") for i, factor in enumerate(repeated)}
    alike: dict[tuple[str, ...], list[str]] = {}
    for case in cases:
        alike.setdefault(tuple(_case(case, names)), []).append(str(case.condition))
    lines = [f"{name} = {written(factor)}" for factor, name in names.items()]
    for block, conditions in alike.items():
        if len(cases) > 1:
            lines.append(f"if {', or if '.join(conditions)}:" if len(alike) > 1 else "always:")
        lines += block
    return tuple(lines)


def _masses(atom: Atom, names: Mapping[Expr, Symbol]) -> str:
    p, q = _sum(atom.p, names), _sum(atom.q, names)
    if atom.p and atom.q:
        ratio = total(atom.p) / total(atom.q)
        if ratio == 1:
            return f"P and Q have mass {q}"
        if 4 * ratio.count_ops() < total(atom.q).count_ops():
            return f"P has mass {written(ratio)} times that of Q, which is {q}"
    return f"P has mass {p}, Q has mass {q}"


def _lengths(mass: Expr) -> list[Expr]:
    """Lengths of what may be empty, each once."""
    walk, found = preorder_traversal(mass), list[Expr]()
    for node in walk:
        if isinstance(node, clamped):
            walk.skip()
            found.append(node)
    return list(dict.fromkeys(found))


def _case(case: CalculusCase, names: Mapping[Expr, Symbol]) -> Iterator[str]:
    for region in case.regions:
        yield f"on ({written(region.lo)}, {written(region.hi)}), {region.kind.replace('_', ' ')}:"
        yield from (f"    p = {_sum(region.p, names)}", f"    q = {_sum(region.q, names)}")
        if region.loss is not None:
            yield f"    loss = {_shown(region.loss)}"
        if region.kind.moves and isinstance(region.inverse, Closed):
            yield f"    x = {_shown(region.inverse.expr)}  where loss = ell"
    for atom in case.atoms:
        yield f"at {written(atom.x)}: {_masses(atom, names)}"
    if isinstance(case.cgf, Closed):
        yield f"K(z) = log E_P[exp(z L); L finite] = {_shown(case.cgf.expr)}"


def _shown(expr: Expr) -> str:
    # which are sooner counted than written
    text = written(expr) if expr.count_ops() <= READABLE else ""
    return text if 0 < len(text) <= READABLE else "(see its function)"


def _sum(terms: tuple[Term, ...], names: Mapping[Expr, Symbol]) -> str:
    return " + ".join(_term(term, names) for term in terms) or "0"


def _term(term: Term, names: Mapping[Expr, Symbol]) -> str:
    if term.log_density == 0:
        return written(term.weight.xreplace(names))
    factor = S.One
    if term.weight != 1:
        factor = names.get(term.weight) or Symbol(f"({written(term.weight)})")
    return written(factor * exp(term.log_density))
