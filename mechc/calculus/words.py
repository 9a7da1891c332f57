"""SymPy functions with a meaning that the kernel room lowers to stable arithmetic.

They keep derived formulas exact where plain elementary functions would have a removable
singularity (`sinhc`, `expm1c`) or would lose the structure that a stable kernel needs (`log_mix`).
`BracketedRoot` names a root that has no closed form. `mechc.calculus.evaluate` gives each of them
its mpmath value.
"""

from __future__ import annotations

from typing import Any

from sympy import Dummy, Expr, Function, S, Symbol, cosh, exp, log, sinh, sympify


class log_mix(Function):  # type: ignore[misc]
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
            return log(1 - q)
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


class sinhc(Function):  # type: ignore[misc]
    """sinhc(u) = sinh(u)/u, entire, with sinhc(0) = 1."""

    nargs = 1

    @classmethod
    def eval(cls, u: Expr) -> Expr | None:
        """Fold the removable singularity."""
        return S.One if u.is_zero else None

    def fdiff(self, argindex: int = 1) -> Expr:
        """Derivative (singular form; take limits at u = 0)."""
        (u,) = self.args
        return (cosh(u) - sinhc(u)) / u

    def spelled_out(self) -> Expr:
        """The definition, sinh(u)/u."""
        (u,) = self.args
        return sinh(u) / u


class expm1c(Function):  # type: ignore[misc]
    """expm1c(u) = (exp(u) - 1)/u, entire, with expm1c(0) = 1."""

    nargs = 1

    @classmethod
    def eval(cls, u: Expr) -> Expr | None:
        """Fold the removable singularity."""
        return S.One if u.is_zero else None

    def fdiff(self, argindex: int = 1) -> Expr:
        """Derivative (singular form; take limits at u = 0)."""
        (u,) = self.args
        return (exp(u) - expm1c(u)) / u

    def spelled_out(self) -> Expr:
        """The definition, (exp(u) - 1)/u."""
        (u,) = self.args
        return (exp(u) - 1) / u


class BracketedRoot(Expr):  # type: ignore[misc]
    """The one root of `expr` in x between lo and hi, where it turns from negative to positive.

    Whoever makes it has proved that direction in the parameter case at hand. `x` is bound; lo and
    hi may be infinite. The root is real.
    """

    is_extended_real = True
    is_commutative = True

    def __new__(cls, expr: Expr, x: Symbol, lo: Expr, hi: Expr) -> BracketedRoot:
        """Bind `x` to a fixed dummy so that equal roots compare equal."""
        bound = x if isinstance(x, Dummy) else Dummy("x", real=True, dummy_index=0)
        expr = sympify(expr).xreplace({x: bound})
        node: BracketedRoot = Expr.__new__(cls, expr, bound, sympify(lo), sympify(hi))
        return node

    @property
    def bound_symbols(self) -> list[Symbol]:
        """The variable of the equation."""
        return [self.args[1]]

    @property
    def free_symbols(self) -> set[Any]:
        """Symbols of the equation and the bracket, without the bound one."""
        expr, x, lo, hi = self.args
        return set((expr.free_symbols - {x}) | lo.free_symbols | hi.free_symbols)


def spell_out(expr: Expr) -> Expr:
    """Replace `log_mix`, `sinhc` and `expm1c` by their definitions.

    Args:
        expr: any expression.

    Returns:
        The same function in elementary terms (with removable singularities, if it had them).
    """
    return expr.replace(
        lambda node: isinstance(node, (log_mix, sinhc, expm1c)), lambda node: node.spelled_out()
    )
