"""Choices inside an expression become if / else around it.

Input: a printable block. Output: the same block with every `Select` that is certainly evaluated
turned into a `Chain`, so that each arm is read, shared and printed on its own. A choice between two
leaves stays a conditional expression, and so does one after the first `MAX_ARMS`. And in `cgf`
every call that depends on the complex variable becomes its `complex_` primitive; calls on
parameters alone stay real.
"""

from __future__ import annotations

from collections.abc import Iterator

from mechc.errors import LoweringError
from mechc.kernel import ir
from mechc.kernel.ir import Block, Expr
from mechc.kernel.prelude import PRIMITIVES

MAX_ARMS = 4  # choices in a row that become statements


def lift(block: Block, arms: int = MAX_ARMS) -> Block:
    """Lift choices out of the values of a block."""
    if isinstance(block.tail, ir.Chain):
        lifted = tuple((guard, lift(arm, arms)) for guard, arm in block.tail.arms)
        return Block(block.lets, ir.Chain(lifted))
    found = next(_choices(block.tail), None)
    if found is None or arms < 2:
        return block
    then, other = (
        lift(Block((), ir.replaced(block.tail, {found: arm})), arms // 2)
        for arm in (found.then, found.other)
    )
    return Block(block.lets, ir.Chain(((found.condition, then), (None, other))))


def _choices(expr: Expr) -> Iterator[ir.Select]:
    """Choices that are certainly evaluated, outermost first."""
    if isinstance(expr, ir.Select):
        if ir.children(expr.then) or ir.children(expr.other):
            yield expr
        return
    for arg in ir.children(expr):
        yield from _choices(arg)


def complexify(expr: Expr, variable: str) -> Expr:
    """Name the complex functions, or refuse a function or comparison that has no complex form."""
    if not ir.depends_on(expr, frozenset((ir.Var(variable),))):
        return expr
    args = tuple(complexify(arg, variable) for arg in ir.children(expr))
    if isinstance(expr, ir.Compare):
        raise LoweringError(f"a comparison of the complex {variable} has no meaning")
    if isinstance(expr, ir.Call):
        name = f"complex_{expr.name}"
        if name not in PRIMITIVES:
            raise LoweringError(f"{expr.name} has no complex form")
        return ir.Call(name, args)
    return _real_factor(ir.rebuild(expr, args), variable)


def _real_factor(expr: Expr, variable: str) -> Expr:
    """A product or quotient as a real factor times the rest: a complex division takes long."""
    top, bottom = (expr.top, expr.bottom) if isinstance(expr, ir.Div) else (expr, ir.ONE)
    z = frozenset((ir.Var(variable),))
    if not isinstance(expr, (ir.Mul, ir.Div)) or ir.depends_on(bottom, z):
        return expr
    factors = ir.factors_of(top)
    real = ir.mul(*(factor for factor in factors if not ir.depends_on(factor, z)))
    if bottom != ir.ONE:
        real = ir.Div(real, bottom)
    bound = (factor for factor in factors if ir.depends_on(factor, z))
    return expr if real == ir.ONE else ir.Mul((real, *bound))
