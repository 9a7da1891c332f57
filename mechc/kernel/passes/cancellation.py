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
    return _of_log(stabilise(log_mass))


def _of_log(expr: Expr) -> Expr:
    """The same for a log that is stable."""
    match expr:
        case ir.Add(terms):
            return ir.add(*map(_of_log, terms))
        case ir.Select(condition, then, other):
            arms = _of_log(then), _of_log(other)
            return arms[0] if arms[0] == arms[1] else ir.Select(condition, *arms)
    coefficient, term = ir.split_number(expr)
    return ir.mul(ir.number(abs(coefficient)), _of_function(term))


def _of_function(term: Expr) -> Expr:
    """The same for a function whose value is one term of it."""
    match term:
        case ir.Call("log", (arg,)):
            return _of(arg)
        case ir.Call("log1p", (arg,)):
            return _of(ir.Add((ir.ONE, *(arg.args if isinstance(arg, ir.Add) else (arg,)))))
        case ir.Call("log_ratio", (top, bottom, _)):
            return ir.add(_of(top), _of(bottom))
        case ir.Call("log_sum", (v, a, w, b)):
            lost = [_error(v), _error(w)]
            if _negative(v) != _negative(w):
                lost = [ir.add(ir.call("fabs", x), _error(x)) for x in (v, w)]
            if lost == [ir.ZERO, ir.ZERO]:
                return ir.ZERO
            sizes = ir.call("log_sum", lost[0], a, lost[1], b)
            return ir.call("exp", ir.add(sizes, ir.negate(term)))
        case ir.Call("log_exp_difference", (_, _, gap)):
            return _of(gap)
        case ir.Call(name, args) if name in PASSING:
            return ir.add(*map(_of, args))
    return ir.ZERO


def _of(expr: Expr) -> Expr:
    """The same for a factor of a mass."""
    match expr:
        case ir.Add():
            error = _error(expr)
            below = ir.Pow(ir.call("fabs", expr), ir.number(-1))
            return error if error == ir.ZERO else ir.mul(error, below)
        case ir.Mul(factors):
            return ir.add(*map(_of, factors))
        case ir.Pow(base, ir.Number(power)):
            return ir.mul(ir.number(abs(power)), _of(base))
        case ir.Call(name, args) if name in PASSING:
            return ir.add(*map(_of, args))
    return ir.ZERO


def _error(expr: Expr) -> Expr:
    """The error of an expression, which may be zero, by sums in it that may cancel."""
    match expr:
        case ir.Add(terms):
            return ir.add(*_sizes(terms), *map(_error, terms))
        case ir.Mul(factors):
            found = [(i, error) for i, f in enumerate(factors) if (error := _error(f)) != ir.ZERO]
            return ir.add(*(
                ir.mul(error, ir.call("fabs", ir.mul(ir.ONE, *factors[:i], *factors[i + 1 :])))
                for i, error in found
            ))  # fmt: skip
    relative = _of(expr)
    return relative if relative == ir.ZERO else ir.mul(relative, ir.call("fabs", expr))


def _sizes(terms: tuple[Expr, ...]) -> list[Expr]:
    """The sizes of terms of unlike signs, which are rounded."""
    if len({_negative(term) for term in terms}) == 1:
        return []
    if len(terms) == 2 and all(_is_exact(term) for term in terms):
        return []
    return [ir.call("fabs", term) for term in terms]


def _negative(term: Expr) -> bool:
    return ir.split_number(term)[0] < 0


def _is_exact(term: Expr) -> bool:
    coefficient, rest = ir.split_number(term)
    shifted = coefficient.numerator.bit_count() == coefficient.denominator.bit_count() == 1
    return (isinstance(rest, ir.Param) and shifted) or isinstance(term, ir.Number)
