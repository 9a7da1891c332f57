"""KernelIR expressions and blocks as Python text.

Input: printable IR (see `passes`). Output: lines of Python that CPython and numba read alike.
Invariant: every number is a float literal that reads back as the same double; parentheses follow
from precedence numbers and from nothing else.

`runnable` runs an expression as plain Python, with `IEEE` in place of `math`: so candidates are
measured before anything is compiled. Tests run emitted text in high precision the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from mechc.errors import InternalError
from mechc.kernel import ir
from mechc.kernel.ir import Block, Expr
from mechc.kernel.prelude import PRIMITIVES
from mechc.numeric.rounding import SHORT

MATH_FUNCTIONS = frozenset({
    "exp", "log", "log1p", "expm1", "sqrt", "pow", "fabs", "sin", "cos", "tan", "asin", "acos",
    "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "gamma",
    "lgamma",
})  # fmt: skip

BUILTINS = frozenset({"max"})
KERNEL = frozenset({"log_q", "cdf_p", "cdf_q", "sf_q", "atoms", "log_mass"})
"""Functions of the kernel itself that others call."""

# precedence of operators, the loosest first
SELECT, OR, AND, NOT, COMPARE, SUM, TERM, UNARY, ATOM = range(9)


class Printer:
    """Prints expressions and blocks.

    Attributes:
        functions: prelude functions that were printed, in order of first use.
    """

    def __init__(self) -> None:
        """Start with no function used."""
        self.functions: dict[str, None] = {}

    def __call__(self, expr: Expr, outer: int = SELECT) -> str:
        """The text of `expr`, in parentheses if it binds more loosely than `outer`."""
        text, precedence = self._print(expr)
        return f"({text})" if precedence < outer else text

    def _print(self, expr: Expr) -> tuple[str, int]:
        match expr:
            case ir.Number(exact):
                text, precedence = literal(expr.value)
                # so short a literal would be taken as exact
                seems = exact != expr.value and (SHORT * math.frexp(expr.value)[0]).is_integer()
                return (f"math.fabs({text})", ATOM) if seems else (text, precedence)
            case ir.Constant():
                return literal(expr.value)
            case ir.Param(name) | ir.Var(name) | ir.Local(name):
                return name, ATOM
            case ir.Helper(name):
                return f"{name}(theta)", ATOM
            case ir.Add(args):
                return self._sum(args), SUM
            case ir.Mul(args):
                first, *rest = args
                return " * ".join([self(first, TERM), *(self(a, UNARY) for a in rest)]), TERM
            case ir.Neg(ir.Div(ir.Add((a, ir.Neg(b))), bottom)):
                return self._print(ir.Div(ir.Add((b, ir.Neg(a))), bottom))
            case ir.Neg(ir.Mul() | ir.Div() | ir.IntPow() as product):
                # the sign binds to the first factor, so the text is a product
                return f"-{self(product, TERM)}", TERM
            case ir.Neg(arg):
                return f"-{self(arg, UNARY)}", UNARY
            case ir.Div(top, bottom):
                return f"{self(top, TERM)} / {self(bottom, UNARY)}", TERM
            case ir.IntPow(base, exponent):
                return " * ".join([self(base, ATOM)] * exponent), TERM
            case ir.Call(name, args):
                return self._call(name, args), ATOM
            case _:
                return self._choice(expr)

    def _choice(self, expr: Expr) -> tuple[str, int]:
        match expr:
            case ir.Compare(op, left, right):
                return f"{self(left, SUM)} {op} {self(right, SUM)}", COMPARE
            case ir.Logic("not", (arg,)):
                return f"not {self(arg, NOT)}", NOT
            case ir.Logic(op, args):
                level = AND if op == "and" else OR
                return f" {op} ".join(self(arg, level + 1) for arg in args), level
            case ir.Select(condition, then, other):
                chosen = f"{self(then, OR)} if {self(condition, OR)} else {self(other)}"
                return chosen, SELECT
        raise InternalError(f"printer: no text for {type(expr).__name__} (run the passes first)")

    def _sum(self, args: tuple[Expr, ...]) -> str:
        if len(args) == 2 and isinstance(args[0], ir.Neg) and not isinstance(args[1], ir.Neg):
            args = args[::-1]
        text = self(args[0], SUM)
        for arg in args[1:]:
            if isinstance(arg, ir.Neg):
                text += f" - {self(arg.arg, TERM)}"
            elif isinstance(arg, ir.Constant) and arg.value < 0:
                text += f" - {literal(-arg.value)[0]}"
            else:
                text += f" + {self(arg, TERM)}"
        return text

    def _call(self, name: str, args: tuple[Expr, ...]) -> str:
        printed = ", ".join(self(arg) for arg in args)
        if name in MATH_FUNCTIONS:
            return f"math.{name}({printed})"
        if name not in BUILTINS | KERNEL:
            self.functions[name] = None
        return f"{name}({printed})"

    def block(self, block: Block, result: str) -> Iterator[str]:
        """Lines of a block; `result` is "return {}" or an assignment to "{}"."""
        for local, value in block.lets:
            yield f"{local.name} = {self(value)}"
        if not isinstance(block.tail, ir.Chain):
            yield result.format(self(block.tail))
            return
        yield from self.chain(
            (guard, list(self.block(arm, result))) for guard, arm in block.tail.arms
        )

    def chain(self, arms: Iterable[tuple[Expr | None, list[str]]]) -> Iterator[str]:
        """Lines of if / elif / else around the given lines; a lone else needs no guard."""
        keyword = "if"
        for guard, lines in arms:
            if guard is None and keyword == "if":
                yield from lines
                return
            yield "else:" if guard is None else f"{keyword} {self(guard)}:"
            yield from indent(lines)
            keyword = "elif"


def indent(lines: list[str]) -> list[str]:
    """The lines, one step further in."""
    return [f"    {line}" if line else line for line in lines]


def literal(value: float) -> tuple[str, int]:
    """A double as text that reads back the same, and its precedence."""
    if math.isnan(value):
        return "math.nan", ATOM
    if math.isinf(value):
        return ("math.inf", ATOM) if value > 0 else ("-math.inf", UNARY)
    return repr(float(value)), ATOM if value >= 0 else UNARY


def _total(function: Callable[..., float]) -> Callable[..., Any]:
    """The function with inf and nan in place of exceptions, on numpy scalars."""

    def quiet(*args: float) -> Any:
        try:
            return np.float64(function(*map(float, args)))
        except OverflowError:
            return np.float64(math.inf)
        except ValueError:
            return np.float64(math.nan)

    return quiet


IEEE = SimpleNamespace(
    inf=np.float64(math.inf), nan=np.float64(math.nan), pi=np.float64(math.pi),
    isinf=np.isinf, isnan=np.isnan, fabs=np.fabs, exp=np.exp, log=np.log, log1p=np.log1p,
    expm1=np.expm1, sqrt=np.sqrt, pow=np.power, sin=np.sin, cos=np.cos, tan=np.tan, asin=np.arcsin,
    acos=np.arccos, atan=np.arctan, atan2=np.arctan2, hypot=np.hypot, sinh=np.sinh, cosh=np.cosh,
    tanh=np.tanh, asinh=np.arcsinh, acosh=np.arccosh, atanh=np.arctanh, floor=np.floor,
    ceil=np.ceil, erf=_total(math.erf), erfc=_total(math.erfc), gamma=_total(math.gamma),
    lgamma=_total(math.lgamma),
)  # fmt: skip
"""`math` as in compiled code, on numpy scalars: overflow gives inf, log(0) gives -inf."""


@cache
def _prelude() -> dict[str, Any]:
    namespace: dict[str, Any] = {"math": IEEE, "np": np}
    for name, known in PRIMITIVES.items():
        namespace[name] = FunctionType(known.function.__code__, namespace)
    return namespace


def runnable(expr: Expr, names: Sequence[str]) -> Callable[..., float]:
    """A printable expression as a function of doubles, named in order, that never raises."""
    text = f"lambda {', '.join(names)}: {Printer()(expr)}"
    function = eval(text, _prelude())

    def run(*values: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*map(np.float64, values)))

    return run
