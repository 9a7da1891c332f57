"""Signs of expressions from what the parameters' domains allow, and from the case at hand.

Input: an expression in parameters, or also in the variable on a stated interval. Output: +1 when it
is never negative, -1 when it is never positive, 0 when it is zero, None when that could not be
proved. Signs are weak on purpose: an expression that touches zero makes an interval empty or a
weight vanish, which no reader of a `Pair` has to treat specially.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import combinations

from sympy import (
    Add,
    Dummy,
    Expr,
    Gt,
    Integer,
    Le,
    Mul,
    Pow,
    Rational,
    S,
    Sum,
    Symbol,
    besseli,
    binomial,
    cancel,
    erf,
    erfc,
    exp,
    expand,
    fraction,
    oo,
    together,
)
from sympy.logic.boolalg import Boolean

from mechc.symbolic.parameters import Parameter


class Undecided(Exception):
    """The sign of `expr` is needed and differs within the parameters' domains."""

    def __init__(self, expr: Expr) -> None:
        """Remember whose sign it is."""
        super().__init__(str(expr))
        self.expr = expr


@dataclass(frozen=True)
class Facts:
    """What may be used in a proof: domains, the interval of the variable, the case.

    Attributes:
        parameters: their domains.
        known: (expr, True) states expr > 0 and (expr, False) states expr <= 0.
        places: symbols replaced by an expression in positive symbols that ranges over a dense part
            of their domain (non-negative ones over all of it, where they are integers).
    """

    parameters: tuple[Parameter, ...]
    known: tuple[tuple[Expr, bool], ...] = ()
    places: dict[Symbol, Expr] = field(default_factory=dict, compare=False)
    _memo: dict[Expr, int | None] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @staticmethod
    def of(parameters: tuple[Parameter, ...]) -> Facts:
        """The facts that the domains alone give."""
        places = {p.symbol: _ranging(p) for p in parameters}
        return Facts(parameters, (), {s: e for s, e in places.items() if s != e})

    def assuming(self, expr: Expr, positive: bool) -> Facts:
        """These facts and expr > 0, or expr <= 0."""
        return replace(self, known=(*self.known, (expr, positive)))

    def on(self, variable: Symbol, lo: Expr, hi: Expr) -> Facts:
        """These facts and lo <= variable <= hi."""
        return replace(self, places={**self.places, variable: _between(variable, lo, hi)})

    @property
    def condition(self) -> Boolean:
        """The case at hand as a condition on the parameters."""
        terms = [Gt(e, 0) if positive else Le(e, 0) for e, positive in self.known]
        result: Boolean = S.true
        for term in terms:
            result = result & term
        return result

    def sign(self, expr: Expr) -> int | None:
        """Weak sign of `expr`: 1, -1, 0, or None when not proved."""
        if expr not in self._memo:
            sign = self._sign_by_domains(expr)
            if sign is None and self.known:
                sign = self._sign_by_case(expr)
            self._memo[expr] = sign
        return self._memo[expr]

    def exceeds_zero(self, expr: Expr) -> bool:
        """Whether `expr` was proved to be positive inside the intervals, zero excluded."""
        if expr.is_positive:
            return True
        placed = expr.xreplace(self.places).xreplace(self.places)
        numerator, denominator = fraction(together(placed))
        tops, bottoms = expand(numerator), expand(denominator)
        return bool((tops.is_positive and bottoms.is_positive)
                    or (tops.is_negative and bottoms.is_negative))  # fmt: skip

    def decide(self, expr: Expr) -> int:
        """Weak sign of an expression in parameters.

        Raises:
            Undecided: when it cannot be proved; the caller then splits into two cases.
        """
        sign = self.sign(expr)
        if sign is None:
            raise Undecided(expr)
        return sign

    def _sign_by_domains(self, expr: Expr) -> int | None:
        sign = _assumed_sign(expr)
        if sign is None:
            sign = self._sign_by_structure(expr)
        if sign is not None or isinstance(expr, Mul):
            return sign
        # places may refer to parameters, which have places of their own
        placed = self._with_ranges(expr).xreplace(self.places).xreplace(self.places)
        numerator, denominator = fraction(together(placed))
        signs = _assumed_sign(expand(numerator)), _assumed_sign(expand(denominator))
        if None not in signs:
            return (signs[0] or 0) * (signs[1] or 0)
        return None

    def _sign_by_structure(self, expr: Expr) -> int | None:
        """From the signs of the parts; all parts of a declaration are taken to be real."""
        if isinstance(expr, (exp, erfc)):
            return 1
        if isinstance(expr, Pow) and (expr.exp.is_even or self.sign(expr.base) == 1):
            return 1
        if isinstance(expr, Add) and is_normal_tail(expr):
            return 1
        if isinstance(expr, (Mul, Add)):
            signs = [self.sign(part) for part in expr.args]
            known = [s for s in signs if s is not None]
            if len(known) < len(signs):
                return None
            if isinstance(expr, Mul):
                return math.prod(known)
            if min(known) >= 0 or max(known) <= 0:
                return max(known, key=abs)
        return None

    def _with_ranges(self, expr: Expr) -> Expr:
        """Replace functions by symbols with the same range, where SymPy does not know it.

        The symbols are independent of each other, so what holds for them holds for the functions.
        """
        positive = {e: Dummy(positive=True) for e in expr.atoms(Sum, besseli, binomial, erfc)
                    if _is_positive_function(e)}  # fmt: skip
        bounded = {}
        for e in expr.atoms(exp) - {expr}:
            sign = self.sign(e.exp)
            if sign is not None:
                # exp of something positive exceeds one, of something negative stays below
                bounded[e] = (1 + Dummy(positive=True)) ** sign
        for e in expr.atoms(Pow) - {expr}:
            # so does a power with an open exponent of something that exceeds one, or stays below
            if not e.exp.is_number and self.sign(e.base) == 1:
                signs = self.sign(e.exp), self.sign(e.base - 1)
                if None not in signs:
                    bounded[e] = (1 + Dummy(positive=True)) ** ((signs[0] or 0) * (signs[1] or 0))
        return expr.xreplace(positive).xreplace(bounded)

    def _sign_by_case(self, expr: Expr) -> int | None:
        """Use the case: expr = known fact times or plus something of known sign."""
        plain = replace(self, known=())
        non_negative = [e if positive else -e for e, positive in self.known]
        for fact in non_negative:
            ratio = plain.sign(cancel(expr / fact))
            if ratio is not None:
                return ratio
        sums = [Add(*chosen) for n in (1, 2) for chosen in combinations(non_negative, n)]
        for fact in sums:
            if plain.sign(expr - fact) in (0, 1):
                return 1
            if plain.sign(expr + fact) in (0, -1):
                return -1
        return None


def _assumed_sign(expr: Expr) -> int | None:
    """What SymPy's assumptions know."""
    if expr.is_zero or expr is S.Zero:
        return 0
    if expr.is_extended_nonnegative:
        return 1
    if expr.is_extended_nonpositive:
        return -1
    return None


def _is_positive_function(expr: Expr) -> bool:
    if isinstance(expr, Sum):
        # the index runs over real numbers, whatever the author's symbol says
        real = {limit[0]: Dummy(real=True) for limit in expr.limits}
        return bool(expr.function.subs(real).is_nonnegative)
    if isinstance(expr, besseli):
        return bool(expr.order.is_integer and expr.argument.is_positive)
    if isinstance(expr, erfc):
        return True
    return all(bool(a.is_integer) for a in expr.args) and bool(expr.args[0].is_nonnegative)


def is_normal_tail(expr: Add) -> bool:
    """Whether this is a + b erf(u) or a - b erfc(u), positive by |erf| < 1 and erfc < 2."""
    constant, rest = expr.as_coeff_Add()
    coefficient, function = rest.as_coeff_Mul()
    if isinstance(function, erf):
        return bool(abs(coefficient) <= constant)
    return bool(isinstance(function, erfc) and -2 * coefficient <= constant)


def _ranging(parameter: Parameter) -> Expr:
    """An expression in a signed symbol that ranges over the domain."""
    lo, hi = exact_end(parameter.lo), exact_end(parameter.hi)
    if lo == 0 and hi == oo:
        return parameter.symbol
    return _between(parameter.symbol, lo, hi)


def _between(symbol: Symbol, lo: Expr, hi: Expr) -> Expr:
    """`symbol` as a function of a signed symbol, ranging over lo..hi."""
    if lo == -oo and hi == oo:
        return symbol
    # SymPy can use integrality only where no quotient is formed
    whole = bool(symbol.is_integer) and (lo == -oo or hi == oo)
    step = Dummy("r", integer=True, nonnegative=True) if whole else Dummy("r", positive=True)
    if hi == oo:
        return lo + step
    if lo == -oo:
        return hi - step
    return lo + (hi - lo) / (1 + step)


def exact_end(value: float) -> Expr:
    """The end of a domain as an exact number."""
    if math.isinf(value):
        return oo if value > 0 else -oo
    return Integer(int(value)) if value == int(value) else Rational(repr(value))
