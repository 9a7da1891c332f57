"""What sums of unlike signs leave of the digits of a mass.

Input: the log of a mass, frozen. Output: an expression for the relative error of the mass in units
of a rounding, zero where no sum can cancel. A sum whose terms are rounded is off by a rounding of
the sizes of its terms, and a product by the errors of its factors together.
"""

from __future__ import annotations

from mechc.kernel import ir
from mechc.kernel.ir import Expr
from mechc.kernel.passes.stability import stabilise

PASSING = frozenset({"expm1", "log1mexp", "tanh", "sinh", "erf", "sin", "atan", "atan2", "asin"})
"""Functions that pass relative errors of small arguments on."""


def lost_digits(log_mass: Expr) -> Expr:
    """The relative error of exp(log_mass) that its sums make, in units of a rounding."""
    stable = stabilise(log_mass)
    terms = stable.args if isinstance(stable, ir.Add) else (stable,)
    return ir.add(*(_of_log(term) for term in terms))


def _of_log(term: Expr) -> Expr:
    """The same for one term of a log."""
    match ir.split_number(term)[1]:
        case ir.Call("log", (arg,)):
            return _of(arg)
        case ir.Call("log1p", (arg,)):
            return _of_sum((ir.ONE, *(arg.args if isinstance(arg, ir.Add) else (arg,))))
        case ir.Call("log_ratio", (top, bottom, _)):
            return ir.add(_of(top), _of(bottom))
        case ir.Call("log_sum", (v, a, w, b)):
            sizes = ir.call("log_sum", ir.call("fabs", v), a, ir.call("fabs", w), b)
            alike = _negative(v) == _negative(w)
            return ir.ZERO if alike else ir.call("exp", ir.add(sizes, ir.mul(ir.number(-1), term)))
        case ir.Call("log_exp_difference", (_, _, gap)):
            return _of(gap)
        case ir.Call(name, args) if name in PASSING:
            return ir.add(*map(_of, args))
    return ir.ZERO


def _of(expr: Expr) -> Expr:
    """The same for a factor of a mass."""
    match expr:
        case ir.Add(terms):
            return _of_sum(terms)
        case ir.Mul(factors):
            return ir.add(*map(_of, factors))
        case ir.Pow(base, ir.Number(power)):
            return ir.mul(ir.number(abs(power)), _of(base))
        case ir.Call(name, args) if name in PASSING:
            return ir.add(*map(_of, args))
    return ir.ZERO


def _of_sum(terms: tuple[Expr, ...]) -> Expr:
    if len({_negative(term) for term in terms}) == 1:
        return ir.ZERO
    if len(terms) == 2 and all(_is_exact(term) for term in terms):
        return ir.ZERO
    sizes = ir.add(*(ir.call("fabs", term) for term in terms))
    return ir.mul(sizes, ir.Pow(ir.call("fabs", ir.Add(terms)), ir.number(-1)))


def _negative(term: Expr) -> bool:
    return ir.split_number(term)[0] < 0


def _is_exact(term: Expr) -> bool:
    coefficient, rest = ir.split_number(term)
    return (isinstance(rest, ir.Param) and abs(coefficient) == 1) or isinstance(term, ir.Number)
