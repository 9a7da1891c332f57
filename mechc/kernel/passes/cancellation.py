"""What sums of unlike signs leave of the digits of a mass.

Input: the log of a mass, frozen. Output: an expression for the relative error of the mass in units
of a rounding, zero where no sum can cancel. A sum whose terms are rounded is off by a rounding of
the sizes of its terms, and a product by the errors of its factors together.
"""

from __future__ import annotations

from mechc.kernel.ir import (
    ONE,
    ZERO,
    Add,
    Call,
    Expr,
    Mul,
    Number,
    Param,
    Pow,
    add,
    call,
    mul,
    number,
    split_number,
)
from mechc.kernel.passes.stability import stabilise

PASSING = frozenset({"expm1", "log1mexp", "tanh", "sinh", "erf", "sin", "atan", "atan2", "asin"})
"""Functions that pass relative errors of small arguments on."""


def lost_digits(log_mass: Expr) -> Expr:
    """The relative error of exp(log_mass) that its sums make, in units of a rounding."""
    stable = stabilise(log_mass)
    terms = stable.args if isinstance(stable, Add) else (stable,)
    return add(*(_of_log(term) for term in terms))


def _of_log(term: Expr) -> Expr:
    """The same for one term of a log."""
    match split_number(term)[1]:
        case Call("log", (arg,)):
            return _of(arg)
        case Call("log1p", (arg,)):
            return _of_sum((ONE, *(arg.args if isinstance(arg, Add) else (arg,))))
        case Call("log_ratio", (top, bottom, _)):
            return add(_of(top), _of(bottom))
        case Call("log_sum", (v, a, w, b)):
            sizes = call("log_sum", call("fabs", v), a, call("fabs", w), b)
            alike = _negative(v) == _negative(w)
            return ZERO if alike else call("exp", add(sizes, mul(number(-1), term)))
        case Call("log_exp_difference", (_, _, gap)):
            return _of(gap)
        case Call(name, args) if name in PASSING:
            return add(*map(_of, args))
    return ZERO


def _of(expr: Expr) -> Expr:
    """The same for a factor of a mass."""
    match expr:
        case Add(terms):
            return _of_sum(terms)
        case Mul(factors):
            return add(*map(_of, factors))
        case Pow(base, Number(power)):
            return mul(number(abs(power)), _of(base))
        case Call(name, args) if name in PASSING:
            return add(*map(_of, args))
    return ZERO


def _of_sum(terms: tuple[Expr, ...]) -> Expr:
    if len({_negative(term) for term in terms}) == 1:
        return ZERO
    if len(terms) == 2 and all(_is_exact(term) for term in terms):
        return ZERO
    sizes = add(*(call("fabs", term) for term in terms))
    return mul(sizes, Pow(call("fabs", Add(terms)), number(-1)))


def _negative(term: Expr) -> bool:
    return split_number(term)[0] < 0


def _is_exact(term: Expr) -> bool:
    coefficient, rest = split_number(term)
    return (isinstance(rest, Param) and abs(coefficient) == 1) or isinstance(term, Number)
