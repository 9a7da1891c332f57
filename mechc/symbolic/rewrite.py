"""Targeted rewriting of expressions in one variable: no `simplify`, every rule is named here.

`tidy` brings a difference of log densities to readable form: polynomials in the variable are
expanded and collected (so that differences of squares cancel before any number is put in), other
functions of the variable stay whole, logarithms of algebraic functions with opposite coefficients
merge into one. `rational_in` writes an expression as a rational function of the variable and one
generator E = exp(c*x) (or t = tan(c*x/2)), where roots and signs can be found.

`factored` factors where that can end: SymPy writes exp(20 x/53) and exp(20 x/31) as powers of
exp(20 x/1643) and factors a polynomial of degree 1643; polynomials in a dozen variables may take
hours as well, and no sign is known to need their factors. What is left as it is has the same value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb, lcm, prod

import sympy as sp
from sympy import Add, Dummy, Expr, Mul, Pow, S, Symbol, exp, log
from sympy.polys.polyerrors import BasePolynomialError

from mechc.symbolic.functions import spell_out

HYPERBOLIC = (sp.sinh, sp.cosh, sp.tanh, sp.coth, sp.sech, sp.csch)
_TRIGONOMETRIC = (sp.sin, sp.cos, sp.tan, sp.sec, sp.csc)


@lru_cache(maxsize=4096)  # losses, their tails and their generating functions ask the same
def tidy(expr: Expr, x: Symbol) -> Expr:
    """Expand polynomials in x, keep other functions of x whole, merge opposite logarithms."""
    expr = expr.replace(lambda node: isinstance(node, log), lambda node: _split_log(node, x))
    expr = expr.replace(lambda node: isinstance(node, log), _log_of_factorials)
    opaque: dict[Expr, Dummy] = {}
    logs = {node: Dummy("l", real=True) for node in expr.atoms(log) if not node.has(x)}
    polynomial = _hide(expr.xreplace(logs), x, opaque)
    try:
        poly = sp.Poly(sp.expand(polynomial), x, *opaque.values())
    except sp.PolynomialError:
        return expr
    back = {dummy: node for node, dummy in logs.items()}
    shown = {dummy: node.xreplace(back) for node, dummy in opaque.items()} | back
    pairs = []
    for powers, coefficient in poly.terms():
        monomial = Mul(*(g**n for g, n in zip(poly.gens, powers, strict=True)))
        pairs.append((_constant(coefficient, shown), monomial.xreplace(shown)))
    return Add(*(c * f for c, f in _merge_logs(pairs, x)))


def _constant(coefficient: Expr, shown: dict[Dummy, Expr]) -> Expr:
    """A coefficient free of the variable: algebraic part factored, logarithms merged."""
    terms = Add.make_args(sp.expand(coefficient))
    logs = Add(*(a for a in terms if a.free_symbols & shown.keys()))
    algebraic = sp.factor_terms(sp.factor(coefficient - logs))
    return algebraic + merge_constant_logs(logs.xreplace(shown))


def merge_constant_logs(expr: Expr) -> Expr:
    """c*log(a) - c*log(b) + ... becomes c*log(a/b) for logarithms of positive constants."""
    grouped: dict[Expr, Expr] = {}
    rest = S.Zero
    for term in Add.make_args(expr):
        logs = [a for a in Mul.make_args(term) if isinstance(a, log)]
        if len(logs) != 1 or logs[0].has(exp):
            rest += term
            continue
        coefficient, argument = term / logs[0], logs[0].args[0]
        if coefficient.could_extract_minus_sign():
            coefficient, argument = -coefficient, 1 / argument
        grouped[coefficient] = grouped.get(coefficient, S.One) * argument
    return rest + Add(*(c * log(a) for c, a in grouped.items()))


def _split_log(node: Expr, x: Symbol) -> Expr:
    """Log of an algebraic function of x: factors free of x leave it."""
    argument = node.args[0]
    if not argument.has(x):
        return sp.expand_log(node) if argument.is_Mul else node
    if argument.atoms(exp) or argument.atoms(*HYPERBOLIC) or argument.atoms(*_TRIGONOMETRIC):
        return node
    numerator, denominator = fraction(argument)
    constant, dependent = denominator.as_independent(x, as_Add=False)
    outer, inner = numerator.as_independent(x, as_Add=False)
    if dependent != 1 or not (constant / outer).is_positive:
        return node
    return log(inner) - sp.expand_log(log(constant / outer))


def _log_of_factorials(node: Expr) -> Expr:
    """Logarithms of factorials, binomials and gamma functions of positive arguments."""
    (argument,) = node.args
    if isinstance(argument, sp.gamma):
        return sp.loggamma(argument.args[0])
    if isinstance(argument, sp.factorial):
        return sp.loggamma(argument.args[0] + 1)
    if isinstance(argument, sp.binomial):
        n, k = argument.args
        return sp.loggamma(n + 1) - sp.loggamma(k + 1) - sp.loggamma(n - k + 1)
    return node


def expanded_log(expr: Expr) -> Expr:
    """Logarithms multiplied out, unless that makes them complex."""
    found: Expr = sp.expand_log(expr)
    return expr if found.has(S.ImaginaryUnit) else found


def log_of_product(expr: Expr, x: Symbol) -> Expr | None:
    """Log of a product of what is positive, any of which may overflow; else None."""
    logs, varying = S.Zero, 0
    for part in Mul.make_args(expr):
        base, exponent = (S.Exp1, part.args[0]) if isinstance(part, exp) else part.as_base_exp()
        varying += bool(part.free_symbols)
        bessel = isinstance(base, (sp.besseli, sp.besselk)) and base.argument.is_positive
        positive = isinstance(base, (sp.gamma, sp.factorial, sp.binomial, sp.erfc))
        if not (base.is_positive or bessel or positive):
            return None
        logs += exponent * _log_of_factorials(log(base, evaluate=False)).doit()
    return logs if varying > 1 and expr.has(x) else None


def split_exponent(expr: Expr) -> tuple[Expr, Expr]:
    """`(c, u)` for a product c exp(u)."""
    parts = Mul.make_args(expr)
    exponent = Add(*(part.args[0] for part in parts if isinstance(part, exp)))
    return Mul(*(part for part in parts if not isinstance(part, exp))), exponent


def _hide(expr: Expr, x: Symbol, opaque: dict[Expr, Dummy]) -> Expr:
    """Replace maximal non-polynomial functions of x by dummies."""
    if not expr.has(x) or expr == x:
        return expr
    if isinstance(expr, (Add, Mul)):
        return expr.func(*(_hide(a, x, opaque) for a in expr.args))
    if isinstance(expr, Pow) and expr.exp.is_Integer and expr.exp > 0:
        return _hide(expr.base, x, opaque) ** expr.exp
    return opaque.setdefault(expr, Dummy("g", real=True))


def _merge_logs(pairs: list[tuple[Expr, Expr]], x: Symbol) -> list[tuple[Expr, Expr]]:
    """c*log(A) - c*log(B) becomes c*log(A/B) where A and B are algebraic in x."""
    merged: list[tuple[Expr, Expr]] = []
    for c, f in pairs:
        if not _is_algebraic_log(f, x):
            merged.append((c, f))
            continue
        for index, (d, g) in enumerate(merged):
            if _is_algebraic_log(g, x) and sp.expand(c + d) == 0:
                positive = c if not c.could_extract_minus_sign() else d
                over, under = (f, g) if positive is c else (g, f)
                merged[index] = (positive, log(over.args[0] / under.args[0]))
                break
        else:
            merged.append((c, f))
    return merged


def _is_algebraic_log(f: Expr, x: Symbol) -> bool:
    return isinstance(f, log) and f.args[0].is_rational_function(x)


def cancelled(ratio: Expr) -> Expr:
    """A ratio without common factors; as it is where that is beyond SymPy."""
    try:  # exp(a (1 + 1e-30)) is a power of exp(1e-30 a), of degree 1e30
        return ratio if degree(ratio) > MOST_CANCELLED else sp.cancel(ratio)
    except (BasePolynomialError, RecursionError):  # of high powers inside logs
        return ratio


@lru_cache(maxsize=4096)  # regions, generating functions and losses ask the same
def quotient(over: Expr, under: Expr) -> Expr:
    """over/under for constants, cancelled or factored where that makes it shorter."""
    ratio = over / under
    if not ratio.free_symbols or max(monomials(over), monomials(under)) > MAX_DEGREE:
        return ratio
    return min((ratio, cancelled(ratio), factored(ratio)), key=sp.count_ops)


_INVERSE = {exp: log, log: exp, sp.tan: sp.atan}


@dataclass(frozen=True)
class RationalForm:
    """A rational function `expr` of x and of one generator, if any.

    Attributes:
        symbol: the generator's, x where there is none.
        function: the generator is function(rate*x) for exp, tan or log; x**rate for Pow.
        rate: see there.
    """

    expr: Expr
    x: Symbol
    symbol: Symbol
    function: type[Expr] | None = None
    rate: Expr = S.One

    def of(self, x: Expr) -> Expr:
        """What the symbol stands for at some x."""
        if self.function in (None, Pow):
            return x**self.rate
        return self.function(self.rate * x)

    def place(self, root: Expr) -> Expr:
        """The x at which the symbol has a value."""
        if self.function in (None, Pow):
            return root ** (1 / self.rate)
        return _INVERSE[self.function](root) / self.rate


@lru_cache(maxsize=1024)  # cases of one declaration ask the same, and meet the same generator
def rational_in(expr: Expr, x: Symbol) -> RationalForm | None:
    """A rational function of x and one generator; None for other functions and several rates."""
    expr = spell_out(expr)
    expr = expr.replace(lambda n: isinstance(n, HYPERBOLIC), lambda n: n.rewrite(exp))
    found = _generator_exp(expr, x) if expr.atoms(exp) else None
    if found is None and any(n.has(x) for n in expr.atoms(*_TRIGONOMETRIC)):
        found = _generator_tan(expr, x)
    if found is None:
        found = RationalForm(expr, x, x)
    return found if found.expr.is_rational_function(x, found.symbol) else None


def _generator_exp(expr: Expr, x: Symbol) -> RationalForm | None:
    rates = {}
    for node in expr.atoms(exp):
        if node.has(x):
            affine = affine_in(node.args[0], x)
            if affine is None:
                return None
            rates[node] = affine
    if not rates:
        return None
    base = next(iter(sorted((k for k, _ in rates.values()), key=str)))
    ratios = {node: sp.factor(k / base) for node, (k, _) in rates.items()}
    if not all(isinstance(r, sp.Rational) for r in ratios.values()):
        return None
    scale = sp.ilcm(1, *(int(r.q) for r in ratios.values()))
    rate = base / scale
    if rate.could_extract_minus_sign():
        rate, scale = -rate, -scale
    generator = Dummy("E", positive=True)
    new = expr.xreplace(
        {n: generator ** (ratios[n] * scale) * exp(m) for n, (_, m) in rates.items()}
    )
    return RationalForm(new, x, generator, exp, rate)


def _generator_tan(expr: Expr, x: Symbol) -> RationalForm | None:
    """cos(k x + d), sin(k x + d) for one rate k by the half-angle substitution."""
    nodes = [n for n in expr.atoms(*_TRIGONOMETRIC) if n.has(x)]
    rates = {}
    for node in nodes:
        affine = affine_in(node.args[0], x)
        if affine is None:
            return None
        rates[node] = affine
    rate = abs_rate = next(iter(rates.values()))[0]
    if rate.could_extract_minus_sign():
        abs_rate = -rate
    t = Dummy("t", real=True)
    cosine, sine = (1 - t**2) / (1 + t**2), 2 * t / (1 + t**2)
    replaced = {}
    for node, (k, m) in rates.items():
        ratio = sp.factor(k / abs_rate)
        if ratio not in (S.One, S.NegativeOne):
            return None
        c = cosine * sp.cos(m) - ratio * sine * sp.sin(m)
        s = ratio * sine * sp.cos(m) + cosine * sp.sin(m)
        table = {sp.cos: c, sp.sin: s, sp.tan: s / c, sp.sec: 1 / c, sp.csc: 1 / s}
        replaced[node] = table[type(node)]
    return RationalForm(expr.xreplace(replaced), x, t, sp.tan, abs_rate / 2)


def rational_in_power(expr: Expr, x: Symbol) -> RationalForm | None:
    """A rational function of x > 0 and of its log, or of a power of a positive parameter."""
    logs = {node: node.args[0].as_independent(x, as_Add=False) for node in expr.atoms(log)}
    logs = {node: factor for node, (factor, rest) in logs.items() if rest == x}
    if logs and all(factor == 1 or factor.is_positive for factor in logs.values()):
        symbol = Dummy("l", real=True)
        new = expr.xreplace({node: log(factor) + symbol for node, factor in logs.items()})
        known = new.is_rational_function(x, symbol)
        return RationalForm(new, x, symbol, log) if known else None
    powers = {node: node.as_base_exp() for node in expr.atoms(Pow) if node.exp.free_symbols}
    rates = {}
    for node, (base, exponent) in powers.items():
        factor, rest = base.as_independent(x, as_Add=False)
        if rest == x and not exponent.has(x) and (factor == 1 or factor.is_positive):
            rates[node] = (factor, *sp.expand(exponent).as_coeff_Add())
    rate = next((rest for _, _, rest in rates.values()), S.Zero)
    rate = rate.as_coeff_Mul()[1]
    ratios = {node: sp.cancel(rest / rate) for node, (*_, rest) in rates.items()}
    whole = all(n.is_Integer and ratios[node].is_Integer for node, (_, n, _) in rates.items())
    if not ratios or not whole or not rate.is_positive:
        return None
    symbol = Dummy("P", positive=True)
    new = expr.xreplace(
        {
            node: factor ** (n + rest) * x**n * symbol ** ratios[node]
            for node, (factor, n, rest) in rates.items()
        }
    )
    if not new.is_rational_function(x, symbol):
        return None
    return RationalForm(new, x, symbol, Pow, rate)


def affine_in(expr: Expr, x: Symbol) -> tuple[Expr, Expr] | None:
    """Slope and intercept of an affine expression, else None."""
    coefficients = polynomial_in(expr, x, 1)
    if coefficients is None:
        return None
    intercept, slope = (*coefficients, S.Zero)[:2]
    return (slope, intercept) if slope != 0 else None


def polynomial_in(expr: Expr, x: Symbol, degree: int) -> tuple[Expr, ...] | None:
    """Coefficients (constant first) of a polynomial of at most `degree`, else None."""
    try:
        poly = sp.Poly(expr, x)
    except sp.PolynomialError:
        return None
    if poly.degree() > degree or any(c.has(x) for c in poly.all_coeffs()):
        return None
    return tuple(sp.factor(c) for c in reversed(poly.all_coeffs()))


MAX_DEGREE, MOST_CANCELLED = 40, 400  # of polynomials that are factored, and cancelled
MOST_FACTORED = 300
"""Monomials; no sign or root is known to need those of more, which take seconds to be found."""
EASY = 5
"""Symbols and exponentials with which factoring has always ended soon."""


@lru_cache(maxsize=1024)
def fraction(expr: Expr) -> tuple[Expr, Expr]:
    """Return numerator and denominator of an expression brought together."""
    found: tuple[Expr, Expr] = sp.fraction(sp.together(expr))
    return found


@lru_cache(maxsize=4096)
def factored(expr: Expr) -> Expr:
    """Return the expression as a product, or as it is where that is too much work."""
    if len(expr.free_symbols | expr.atoms(exp)) > EASY or monomials(expr) > MOST_FACTORED:
        return expr
    return expr if degree(expr) > MAX_DEGREE else sp.factor(expr)


def degree(expr: Expr) -> int:
    """Return the largest power of the generators exp(g) of which all exponentials are powers."""
    rates: dict[Expr, list[tuple[int, int]]] = {}
    for node in expr.atoms(exp):
        for term in Add.make_args(sp.expand(node.args[0])):
            rate, rest = term.as_coeff_Mul()
            if rate.is_Rational and rate != 0:
                rates.setdefault(rest, []).append((abs(int(rate.p)), int(rate.q)))
    highest = 0
    for found in rates.values():
        unit = lcm(*(q for _, q in found))
        highest = max(highest, *(p * unit // q for p, q in found))
    return highest


def monomials(expr: Expr) -> int:
    """Return about how many terms the expression has when multiplied out, like ones apart."""
    if expr.is_Add:
        return sum(map(monomials, expr.args))
    if expr.is_Mul:
        return prod(map(monomials, expr.args))
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
        n = monomials(expr.base)
        return comb(n + int(expr.exp) - 1, int(expr.exp))
    return 1
