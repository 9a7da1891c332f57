"""Emitted kernel text run in high precision: `math` is mpmath, numba compiles nothing."""

import ast
from types import ModuleType, SimpleNamespace

import mpmath
from mpmath import mp, mpc, mpf


def _log(x):
    return -mpmath.inf if x == 0 else mp.log(x)


MATH = SimpleNamespace(
    inf=mpmath.inf, nan=mpmath.nan, isinf=mpmath.isinf, isnan=mpmath.isnan, fabs=abs, exp=mp.exp,
    log=_log, log1p=lambda x: -mpmath.inf if x == -1 else mp.log1p(x), expm1=mp.expm1,
    sqrt=mp.sqrt, pow=mp.power, sin=mp.sin, cos=mp.cos, tan=mp.tan, asin=mp.asin, acos=mp.acos,
    atan=mp.atan, atan2=mp.atan2, hypot=mp.hypot, sinh=mp.sinh, cosh=mp.cosh, tanh=mp.tanh,
    copysign=lambda x, y: -abs(x) if y < 0 else abs(x), asinh=mp.asinh, acosh=mp.acosh,
    atanh=mp.atanh, floor=mp.floor, ceil=mp.ceil, erf=mp.erf,
    erfc=mp.erfc, gamma=mp.gamma, lgamma=mp.loggamma,
)  # fmt: skip


class Rows:
    """As much of a two-dimensional array as `branches` and `atoms` need."""

    def __init__(self, shape):
        self.shape = shape
        self.values = {}

    def __setitem__(self, place, value):
        self.values[place] = value

    def __getitem__(self, place):
        if isinstance(place, slice):
            rows, columns = range(place.stop), range(self.shape[1])
            return [[self.values[i, j] for j in columns] for i in rows]
        return self.values[place]


def _quotient(a, b):
    """a / b as numba's numpy error model has it."""
    if b == 0 and not isinstance(b, mpc):
        return mpmath.nan if a == 0 else mpmath.inf * mpmath.sign(a)
    return a / b


class _Quotients(ast.NodeTransformer):
    """Divisions become calls of `_quotient`."""

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if not isinstance(node.op, ast.Div):
            return node
        return ast.Call(ast.Name("_quotient", ast.Load()), [node.left, node.right], [])


def module(text):
    """The functions of an emitted kernel as functions of mpmath numbers.

    `theta` is any sequence. The precision is that of `mpmath.mp` at the time of the call.
    """
    numba, numpy = ModuleType("numba"), ModuleType("numpy")
    numpy.array, numpy.empty, numpy.errstate = list, Rows, lambda **_: lambda function: function
    namespace = {"__name__": "kernel", "complex": mpc, "float": mpf}
    body = text.replace("import math\n", "").replace("import numba\n", "")
    body = body.replace("import numpy as np\n", "").replace("@compiled(", "@_as_it_is(")
    namespace.update(math=MATH, numba=numba, np=numpy, _quotient=_quotient)
    namespace["_as_it_is"] = lambda *_, **__: lambda function: function
    tree = ast.fix_missing_locations(_Quotients().visit(ast.parse(body)))
    exec(compile(tree, "kernel", "exec"), namespace)
    namespace["log_mix"] = lambda q, d: _log(1 - q + q * mp.exp(d))  # made of the bits of doubles
    return SimpleNamespace(**namespace)
