"""Functions of the complex variable get their complex names.

Input: a printable expression of `cgf`. Output: the same, with every call that depends on the
complex variable turned into its `complex_` primitive; calls on parameters alone stay real.
"""

from __future__ import annotations

from mechc.errors import LoweringError
from mechc.kernel.ir import Call, Compare, Expr, Var, children, depends_on, rebuild
from mechc.kernel.prelude import PRIMITIVES


def complexify(expr: Expr, variable: str) -> Expr:
    """Name the complex functions.

    Args:
        expr: an expression in printable form.
        variable: the name of the complex variable.

    Returns:
        The expression with complex calls.

    Raises:
        LoweringError: when a function or comparison has no complex form.
    """
    if not depends_on(expr, frozenset((Var(variable),))):
        return expr
    args = tuple(complexify(arg, variable) for arg in children(expr))
    if isinstance(expr, Compare):
        raise LoweringError(f"a comparison of the complex {variable} has no meaning")
    if isinstance(expr, Call):
        name = f"complex_{expr.name}"
        if name not in PRIMITIVES:
            raise LoweringError(f"{expr.name} has no complex form")
        return Call(name, args)
    return rebuild(expr, args)
