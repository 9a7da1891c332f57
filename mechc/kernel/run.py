"""Kernel text run as plain Python, with another arithmetic in place of `math`.

`IEEE` behaves like compiled code: overflow gives inf, log(0) gives -inf, nothing raises. It serves
to measure candidates before anything is compiled; tests run emitted text in high precision the
same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from mechc.kernel.ir import Expr
from mechc.kernel.prelude import PRIMITIVES
from mechc.kernel.printer import Printer


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
"""`math` without exceptions, on numpy scalars."""


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
