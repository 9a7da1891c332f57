"""Formulas as people write them: x - d, not -d + x; 1/sqrt(2*pi), not sqrt(2)/(2*sqrt(pi))."""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy import Expr, Mul, Pow, S, Symbol
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

from mechc.symbolic.functions import QuadratureSum, log_besselk, log_erf_gap, log_mix

LOG_OF = {
    log_besselk: sp.besselk,
    log_erf_gap: lambda u, h: sp.erf(u + h) - sp.erf(u - h),
    log_mix: lambda q, d: 1 - q + q * sp.exp(d),
}
"""What functions that kernels have are the logs of."""


def written(expr: Expr) -> str:
    """The text of a formula, common factors taken out where that is shorter."""
    return _text(_as_in_books(expr))


def typeset(expr: Expr) -> str:
    """The same as LaTeX."""
    return str(_Latex().doprint(_with_roots(_as_in_books(expr))))


def _as_in_books(expr: Expr) -> Expr:
    expr = expr.replace(sp.exp, _apart)
    expr = expr.replace(lambda e: isinstance(e, tuple(LOG_OF)), lambda e: sp.log(_whole(e)))
    return min((expr, sp.factor_terms(expr)), key=lambda e: len(_text(e))) if expr.is_Add else expr


def _text(expr: Expr) -> str:
    return str(_Text().doprint(_with_roots(expr)))


def _whole(logarithm: Expr) -> Expr:
    return LOG_OF[type(logarithm)](*logarithm.args)


def _apart(exponent: Expr) -> Expr:
    """The exponential of a sum, what it has logs of in front, and powers."""
    found, rest = S.One, S.Zero
    for term in sp.Add.make_args(exponent):
        logs = [factor for factor in Mul.make_args(term) if isinstance(factor, sp.log)]
        if isinstance(term, tuple(LOG_OF)):
            found *= _whole(term)
        elif len(logs) == 1:
            found *= logs[0].args[0] ** (term / logs[0])
        else:
            rest += term
    return found * sp.exp(rest)


class _Root(Symbol):  # type: ignore[misc]
    """The root of a constant: SymPy would take squares out of it, or put it under a fraction."""

    __slots__ = ("square",)

    def __new__(cls, square: Expr) -> _Root:
        """Stand for the root of `square`."""
        root: _Root = super().__new__(cls, f"sqrt({square})")
        root.square = square
        return root


class AddedFirst:
    """Of printers: what is added first, then what is taken away; integrals for rules."""

    def _as_ordered_terms(self, expr: Expr, order: Any = None) -> list[Expr]:
        terms = super()._as_ordered_terms(expr, order)  # type: ignore[misc]
        return sorted(terms, key=lambda term: term.could_extract_minus_sign())

    def _print_QuadratureSum(self, expr: QuadratureSum) -> Any:
        return self._print(expr.args[-1])  # type: ignore[attr-defined]


class _Text(AddedFirst, StrPrinter):  # type: ignore[misc]
    """SymPy's own text, but for the order of sums and for cases."""

    def _print_Piecewise(self, expr: Expr) -> str:
        """Each case with its condition, the last one without."""
        cases = [f"{self._print(e)} if {self._print(c)}" for e, c in expr.args]
        return f"({', else '.join([*cases[:-1], cases[-1].removesuffix(' if True')])})"


class _Latex(AddedFirst, LatexPrinter):  # type: ignore[misc]
    """SymPy's own LaTeX, but for the order of sums, roots of constants and long names."""

    def _print_Symbol(self, expr: Symbol, style: str = "plain") -> str:
        """A name, no product of letters."""
        name = str(super()._print_Symbol(expr, style))
        return rf"\mathit{{{name}}}" if len(name) > 1 and name.isalpha() else name

    def _print__Root(self, expr: _Root) -> str:
        return rf"\sqrt{{{self._print(expr.square)}}}"


def _with_roots(expr: Expr) -> Expr:
    """Constants such as sqrt(2)/(2*sqrt(pi)) as one root."""
    return expr.replace(lambda e: isinstance(e, Mul), _with_root)


def _with_root(product: Mul) -> Expr:
    numbers = [f for f in product.args if f.is_number]
    constant = Mul(*numbers)
    square = constant**2
    over, under = sp.fraction(square)
    rooted = any(not power.exp.is_Integer for power in constant.atoms(Pow))
    if not rooted or not all(n.subs(sp.pi, 1).is_Integer for n in (over, under)):
        return product
    tops = [_root(n) for n in (over, under)]
    value = tops[0] / tops[1]
    if not any(top.is_Rational for top in tops):
        value = _Root(square)
    return Mul(
        -value if constant.is_negative else value, *(f for f in product.args if not f.is_number)
    )


def _root(number: Expr) -> Expr:
    """The root of an integer, perhaps times pi, the part that is none as one symbol."""
    outside = sp.sqrt(number).as_coeff_Mul()[0]
    inside = number / outside**2
    return outside if inside is S.One else outside * _Root(inside)
