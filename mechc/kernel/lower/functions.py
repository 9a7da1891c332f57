"""Functions of x, of the loss and of z: densities, loss, inverses, cgf, distribution functions."""

from __future__ import annotations

from sympy import Basic, Expr, Piecewise

from mechc.calculus.types import Calculus, CalculusCase, Closed, Entry, Region
from mechc.errors import LoweringError
from mechc.kernel import ir
from mechc.kernel.lower.chains import density_chain, loss_chain
from mechc.kernel.lower.choice import Chooser
from mechc.kernel.lower.context import Context
from mechc.kernel.lower.freeze import Freezer
from mechc.kernel.passes import finish
from mechc.kernel.passes.complexify import complexify


def densities(context: Context) -> list[ir.Function]:
    """log_p and log_q."""
    pair = context.calculus.pair
    word = "density" if pair.measure == "density" else "mass"
    found = []
    for side in ("p", "q"):
        cases = [
            (case.condition, density_chain(case, "p" if side == "p" else "q", context))
            for case in pair.cases
        ]
        doc = f"Log {word} of {side.upper()} at x."
        body = context.by_case(cases)
        found.append(ir.Function(f"log_{side}", "x", doc, body, array=True))
    return found


def loss(chooser: Chooser) -> ir.Function:
    """The privacy loss."""
    context = chooser.context
    cases = [(case.condition, loss_chain(case, chooser)) for case in context.calculus.cases]
    doc = "Privacy loss log(p/q); inf where only p > 0, -inf where only q > 0, nan where neither."
    return ir.Function("loss", "x", doc, context.by_case(cases), array=True)


def inverses(chooser: Chooser) -> tuple[ir.Inverse, ...]:
    """X as a function of the loss, for every strictly monotone region."""
    cases = chooser.context.calculus.cases
    regions = [(region, case) for case in cases for region in case.regions]
    return tuple(
        _inverse(index, region, case, chooser)
        for index, (region, case) in enumerate(regions)
        if region.kind in ("increasing", "decreasing")
    )


def _inverse(index: int, region: Region, case: CalculusCase, chooser: Chooser) -> ir.Inverse:
    context, place = chooser.context, f"inverse on ({region.lo}, {region.hi})"
    freeze = context.constant.at(f"{context.calculus.pair.name}: {place}")
    lo, hi = (finish(ir.Block((), freeze(end))) for end in (region.lo, region.hi))
    body, doc = None, f"x in ({region.lo}, {region.hi}) with loss(x) = ell"
    if isinstance(region.inverse, Closed):
        form = chooser.inverse(index, region, case)
        if form is None:
            doc += ", by bracketing (the closed form loses digits)"
        else:
            body = finish(ir.Block((), form))
    else:
        doc += f", by bracketing ({region.inverse.reason})"
    return ir.Inverse(index, doc + ".", region.kind == "increasing", body, lo, hi)


def cgf(context: Context, capabilities: dict[str, str]) -> list[ir.Function]:
    """Log M(z) where every parameter case has a closed form; says so in `capabilities`."""
    entries = [case.cgf for case in context.calculus.cases]
    capabilities["cgf"] = describe(entries)
    exprs = [entry.expr for entry in entries if isinstance(entry, Closed)]
    if len(exprs) < len(entries):
        return []
    try:
        body = _by_case(context.calculus, exprs, context, context.at_z)
        body = ir.map_block(body, lambda expr: complexify(expr, "z"))
    except LoweringError as error:
        capabilities["cgf"] = f"numeric: {error}"
        return []
    doc = "Cumulant generating function log E_P[exp(z L); L finite] for complex z."
    return [ir.Function("cgf", "z", doc, body, complex=True)]


def distribution_functions(context: Context, capabilities: dict[str, str]) -> list[ir.Function]:
    """cdf_p, sf_p, cdf_q, sf_q where all of them have closed forms."""
    entries = [e for case in context.calculus.cases for e in (case.cdf_p, case.cdf_q)]
    capabilities["cdf"] = describe(entries)
    if not all(isinstance(entry, Closed) for entry in entries):
        return []
    found = []
    try:
        for side in ("p", "q"):
            exprs = [_closed(case, side) for case in context.calculus.cases]
            word = f"Probability of (-inf, x] under {side.upper()}."
            body = _by_case(context.calculus, exprs, context, context.at_x)
            found.append(ir.Function(f"cdf_{side}", "x", word, body))
            word = f"Probability of (x, inf) under {side.upper()}."
            above = [_complement(expr) for expr in exprs]
            body = _by_case(context.calculus, above, context, context.at_x)
            found.append(ir.Function(f"sf_{side}", "x", word, body))
    except LoweringError as error:
        capabilities["cdf"] = f"unavailable: {error}"
        return []
    return found


def describe(entries: list[Entry]) -> str:
    """An entry for CAPABILITIES: "closed: how", "numeric: why" or "unavailable: why"."""
    for entry in entries:
        if not isinstance(entry, Closed):
            return f"{type(entry).__name__.lower()}: {entry.reason}"
    hows = dict.fromkeys(entry.how for entry in entries if isinstance(entry, Closed))
    return f"closed: {', '.join(hows)}"


def _closed(case: CalculusCase, side: str) -> Expr:
    entry = case.cdf_p if side == "p" else case.cdf_q
    assert isinstance(entry, Closed)
    return entry.expr


def _complement(expr: Expr) -> Expr:
    """1 - expr, inside the arms so that 1 - (1 - tail) becomes the tail."""
    if isinstance(expr, Piecewise):
        return Piecewise(*((1 - value, condition) for value, condition in expr.args))
    return 1 - expr


def _by_case(calculus: Calculus, exprs: list[Expr], context: Context, freeze: Freezer) -> ir.Block:
    cases: list[tuple[Basic, ir.Block]] = [
        (case.condition, _arms(expr, freeze))
        for case, expr in zip(calculus.cases, exprs, strict=True)
    ]
    return context.by_case(cases)


def _arms(expr: Expr, freeze: Freezer) -> ir.Block:
    """A block; a Piecewise becomes its arms."""
    if not isinstance(expr, Piecewise):
        return ir.Block((), freeze(expr))
    arms: list[tuple[ir.Expr | None, ir.Block]] = []
    for value, condition in expr.args:
        guard = None if condition == True else freeze(condition)  # noqa: E712
        arms.append((guard, ir.Block((), freeze(value))))
    if arms[-1][0] is not None:
        arms.append((None, ir.Block((), ir.NAN)))
    return ir.Block((), ir.Chain(tuple(arms)))
