"""SymPy functions with a meaning that the kernel room lowers to stable arithmetic.

They keep derived formulas exact where plain elementary functions would have a removable
singularity (`sinhc`, `expm1c`), would lose the structure that a stable kernel needs (`log_mix`),
would overflow (`log_besselk`) or cancel (`log_erf_gap`, `atan2`).
`clamped` is an end that others may overtake.
`mechc.symbolic.evaluate` gives each of them its mpmath value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp
from sympy import Basic, Dummy, Expr, S, Symbol, exp, log
from sympy.core.function import ArgumentIndexError


class log_mix(sp.Function):  # type: ignore[misc]
    """log_mix(q, d) = log(1 - q + q*exp(d)): the loss of a mixture of weight q and base loss d."""

    nargs = 2

    @classmethod
    def eval(cls, q: Expr, d: Expr) -> Expr | None:
        """Fold trivial weights and differences."""
        if q.is_zero or d.is_zero:
            return S.Zero
        if q == 1:
            return d
        if d is S.NegativeInfinity:
            return log(sp.factor(1 - q))
        if d is S.Infinity:
            return S.Infinity
        return None

    def fdiff(self, argindex: int = 1) -> Expr:
        """Derivative with respect to the weight (1) or the difference (2)."""
        q, d = self.args
        if argindex == 1:
            return (exp(d) - 1) / (1 - q + q * exp(d))
        return q * exp(d) / (1 - q + q * exp(d))

    def _eval_is_extended_real(self) -> bool | None:
        q, d = self.args
        return True if d.is_extended_real and q.is_nonnegative and (1 - q).is_nonnegative else None

    def spelled_out(self) -> Expr:
        """The definition, log(1 - q + q*exp(d))."""
        q, d = self.args
        return log(1 - q + q * exp(d))


class _Removable(sp.Function):  # type: ignore[misc]
    """top(u)/u for a function that vanishes at 0 with slope 1: entire, and 1 at 0."""

    nargs = 1
    top: Callable[[Expr], Expr]

    @classmethod
    def eval(cls, u: Expr) -> Expr | None:
        """Fold the removable singularity."""
        return S.One if u.is_zero else None

    def fdiff(self, argindex: int = 1) -> Expr:
        """Derivative (singular form; take limits at u = 0)."""
        u = Dummy("u")
        return (type(self).top(u).diff(u).subs(u, self.args[0]) - self) / self.args[0]

    def spelled_out(self) -> Expr:
        """The definition."""
        return type(self).top(self.args[0]) / self.args[0]


class sinhc(_Removable):
    """sinhc(u) = sinh(u)/u, entire, with sinhc(0) = 1."""

    top = staticmethod(sp.sinh)


class expm1c(_Removable):
    """expm1c(u) = (exp(u) - 1)/u, entire, with expm1c(0) = 1."""

    top = staticmethod(lambda u: exp(u) - 1)


class _LogOfPositive(sp.Function):  # type: ignore[misc]
    """The log of a function that is positive for a real first argument and a positive second."""

    nargs = 2

    def _eval_is_extended_real(self) -> bool | None:
        return True if self.args[0].is_real and self.args[1].is_positive else None


class log_besselk(_LogOfPositive):
    """log_besselk(n, z) = log(K_n(z)), z > 0: falls and is convex in z."""

    @classmethod
    def eval(cls, n: Expr, z: Expr) -> Expr | None:
        """The order without sign, as K_{-n} = K_n, and the closed form of order one half."""
        if n == sp.Rational(1, 2):
            return log(sp.pi / (2 * z)) / 2 - z
        return cls(-n, z) if n.could_extract_minus_sign() else None

    def fdiff(self, argindex: int = 2) -> Expr:
        """Derivative in z, by parts that never cancel for n >= 0 (DLMF 10.29.2)."""
        n, z = self.args
        if argindex != 2:
            raise ArgumentIndexError(self, argindex)
        return -n / z - exp(log_besselk(n - 1, z) - self)


class log_erf_gap(_LogOfPositive):
    """log_erf_gap(u, h) = log(erf(u + h) - erf(u - h)), h > 0: even and concave in u."""

    @classmethod
    def eval(cls, u: Expr, h: Expr) -> Expr | None:
        """The middle without a leading minus sign."""
        return cls(-u, h) if u.could_extract_minus_sign() else None

    def fdiff(self, argindex: int = 1) -> Expr:
        """Derivative with respect to the middle (1) or half the distance (2)."""
        u, h = self.args
        hyperbolic = -sp.sinh(2 * u * h) if argindex == 1 else sp.cosh(2 * u * h)
        return 4 / sp.sqrt(sp.pi) * hyperbolic * exp(-(u**2) - h**2 - self)


class atan2(sp.Function):  # type: ignore[misc]
    """atan2(y, x) = pi/2 - atan(x/y), y > 0: keeps its digits where x/y is large."""

    nargs = 2

    def fdiff(self, argindex: int = 1) -> Expr:
        """Derivative with respect to y (1) or x (2)."""
        y, x = self.args
        return (x if argindex == 1 else -y) / (x**2 + y**2)

    def _eval_is_extended_real(self) -> bool | None:
        return True if all(a.is_extended_real for a in self.args) else None


class clamped(sp.Function):  # type: ignore[misc]
    """clamped(c, a, b) = max(a, min(c, b)) for a <= b: the end of an interval that may be empty."""

    nargs = 3

    @classmethod
    def eval(cls, c: Expr, a: Expr, b: Expr) -> Expr | None:
        """Fold numbers, and the whole line."""
        if c.is_number and a.is_number and b.is_number:
            return sp.Max(a, sp.Min(c, b))
        return c if a is S.NegativeInfinity and b is S.Infinity else None

    def _eval_is_extended_real(self) -> bool:
        return True

    def _eval_is_extended_nonnegative(self) -> bool | None:
        return True if self.args[1].is_extended_nonnegative else None

    def _eval_is_integer(self) -> bool:
        return all(a.is_integer or a.is_infinite for a in self.args)

    def _sympystr(self, printer: Any) -> str:
        c, a, b = (printer.doprint(arg) for arg in self.args)
        below = c if self.args[2] is S.Infinity else f"Min({c}, {b})"
        return below if self.args[1] is S.NegativeInfinity else f"Max({a}, {below})"


class shape(sp.Function):  # type: ignore[misc]
    """shape(f): the density proportional to f, in declarations only."""

    nargs = 1


class QuadratureSum(sp.Sum):  # type: ignore[misc]
    """The sum of a quadrature rule, and last of its arguments the integral that it stands for.

    A constant that SymPy is not to look into: the same one, expanded, would no longer cancel.
    """

    is_Atom = True

    def __new__(cls, summand: Expr, limit: Any, integral: Expr) -> QuadratureSum:
        """The rule adds up `summand` over `limit`, that is (index, first, last)."""
        made: QuadratureSum = super().__new__(cls, summand, limit)
        made._args = (*made.args, integral)
        return made

    @property
    def limits(self) -> tuple[Expr, ...]:
        """Of the sum."""
        return (self.args[1],)

    @property
    def integral(self) -> sp.Integral:
        """What the sum stands for."""
        return self.args[2]

    @property
    def bound_symbols(self) -> list[Symbol]:
        """The index, and the variable of the integral."""
        return [*super().bound_symbols, *self.integral.bound_symbols]

    def _eval_subs(self, old: Basic, new: Basic) -> None:
        """In all arguments, as in any function."""

    def _eval_expand_basic(self, **hints: Any) -> Expr:
        """Return it as it is."""
        return self

    _eval_factor = _eval_simplify = _eval_expand_basic

    def _eval_derivative(self, x: Symbol) -> Expr:
        """Of the sum, in a parameter."""
        return sp.Sum(self.function, *self.limits).diff(x)


def argument_of_erfc(expr: Expr) -> Expr | None:
    """The u of erfc(u), which SymPy writes 2 - erfc(-u) when -u leads with a plus sign."""
    if isinstance(expr, sp.erfc):
        return expr.args[0]
    if not (expr.is_Add and expr.args[0].is_Integer and expr.args[0].p == 2):
        return None  # nearly all are told apart before a sum is made
    rest = -expr.as_coeff_Add()[1]
    return -rest.args[0] if isinstance(rest, sp.erfc) else None


def spell_out(expr: Expr) -> Expr:
    """Replace `log_mix`, `sinhc` and `expm1c` by their definitions."""
    return expr.replace(
        lambda node: isinstance(node, (log_mix, sinhc, expm1c)), lambda node: node.spelled_out()
    )
