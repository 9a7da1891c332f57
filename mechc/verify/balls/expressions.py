"""SymPy expressions as functions on balls: constants, functions of one variable, conditions."""

from __future__ import annotations

from typing import Any

from flint import arb
from sympy import Basic, Expr, Symbol

from mechc.verify.balls.functions import Compiler, Function, Values
from mechc.verify.balls.sums import total


def constant(expr: Expr, values: Values) -> Any:
    """Ball around the value of an expression without variable; +-oo gives an infinite ball."""
    return Compiler(None, values, total).ball(expr)


def function(expr: Expr, variable: Symbol, values: Values) -> Function:
    """The expression as a function of a ball and the `analytic` flag, at the current precision.

    Args:
        expr: in `variable` and the symbols of `values`.
        variable: the symbol that stands for the ball.
        values: exact balls for the parameters.

    Raises:
        UnsupportedError: a function that has no ball form here.
    """
    return Compiler(variable, values, total).compile(expr)


def holds(condition: Basic, values: Values) -> bool | None:
    """Truth of a condition in parameters; None where the balls do not decide it."""
    return Compiler(None, values, total).truth(condition)(arb(0))
