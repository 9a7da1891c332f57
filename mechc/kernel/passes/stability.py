"""Rewrites that keep digits: log1p, expm1, softplus, log_mix, log_add, erfc tails, differences.

Input and output: one expression. Invariant: equal functions wherever the input is defined. Each
rule is a small function that returns the better form or None; `RULES` lists them by kinds of nodes,
outer ones first, until nothing changes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from mechc.kernel import ir
from mechc.kernel.ir import Expr

LOGS_OF_TWO = {math.log(2.0): 1, -math.log(2.0): -1}  # and the power of two they stand for
Rule = Callable[[Any], Expr | None]

X = ir.Var("x")
MINUS_X = ir.negate(X)
LEAVES = (ir.Var, ir.Param)

# logs of one plus so many times an exponential
ONE_AND = {ir.ONE: "softplus", ir.number(-1): "log1mexp"}
# functions f with a, b, s: a c + c f(u) = b c erfc(s u)
COMPLEMENTS = (("erf", 1, 1, -1), ("erf", -1, -1, 1), ("erfc", -2, -1, -1))
LOG_OF = {
    "cosh": "log_cosh", "sinh": "log_sinh", "erfc": "log_erfc", "gamma": "lgamma",
}  # fmt: skip


@functools.lru_cache(maxsize=2**14)  # what has changed is looked at again, with its operands
def stabilise(expr: Expr) -> Expr:
    """Apply the rules to a node before its operands: a log must see the sum it is of."""
    for rule in RULES.get(type(expr), ()):
        better = rule(expr)
        if better is not None:
            return stabilise(better)
    args = ir.children(expr)
    renewed = tuple(map(stabilise, args))
    return expr if renewed == args else stabilise(ir.rebuild(expr, renewed))


def _arguments(expr: Expr, name: str) -> tuple[Expr, ...] | None:
    return expr.args if isinstance(expr, ir.Call) and expr.name == name else None


def _factor_out(term: Expr, name: str) -> tuple[Expr, Expr] | None:
    """`(c, a)` if the term is `c * name(a)`."""
    found = _factor_of(term, name)
    return None if found is None else (found[0], found[1][0])


def _factor_of(term: Expr, name: str) -> tuple[Expr, tuple[Expr, ...]] | None:
    """`(c, arguments)` if the term is `c * name(*arguments)`."""
    if (found := _arguments(term, name)) is not None:
        return ir.ONE, found
    if isinstance(term, ir.Mul):
        for i, factor in enumerate(term.args):
            if (found := _arguments(factor, name)) is not None:
                return ir.mul(ir.ONE, *term.args[:i], *term.args[i + 1 :]), found
    return None


def exponential_product(expr: Expr) -> Expr | None:
    """exp(a) exp(b) = exp(a + b)."""
    if not isinstance(expr, ir.Mul):
        return None
    exponents = [arg[0] for factor in expr.args if (arg := _arguments(factor, "exp"))]
    if len(exponents) < 2:
        return None
    others = [factor for factor in expr.args if not _arguments(factor, "exp")]
    return ir.mul(*others, ir.call("exp", ir.add(*exponents)))


def log_of_product(expr: Expr) -> Expr | None:
    """log(c exp(a)) = log(c) + a; exp(a) must not overflow first."""
    if (arg := _arguments(expr, "log")) and (found := _factor_out(arg[0], "exp")):
        coefficient, exponent = found
        return ir.add(exponent, ir.call("log", coefficient))
    return None


def log_of_function(expr: Expr) -> Expr | None:
    """Log of cosh, sinh, erfc or gamma, which over- or underflow where their log does not."""
    if (arg := _arguments(expr, "log")) is None:
        return None
    for name, logarithm in LOG_OF.items():
        if (found := _factor_out(arg[0], name)) is not None:
            rest = () if found[0] == ir.ONE else (ir.call("log", found[0]),)
            return ir.add(ir.call(logarithm, found[1]), *rest)
    return None


def log_of_length(expr: ir.Call) -> Expr | None:
    """log(u) or -inf for log(max(u, 0)): Python, which runs what is asked once, has no log of 0."""
    match expr:
        case ir.Call("log", (ir.Select(ir.Compare(">=", u, ir.ZERO), v, ir.ZERO),)) if u == v:
            return ir.Select(ir.Compare(">", u, ir.ZERO), ir.call("log", u), ir.MINUS_INF)
    return None


def log_of_probability(expr: ir.Add) -> Expr | None:
    """log_erfc(u) - log(2), which may be nearly 0, or its negative."""
    for constant in expr.args:
        sign = -LOGS_OF_TWO.get(_constant(constant), 0)
        for term in expr.args:
            if sign and (arg := _arguments(ir.negate(term) if sign < 0 else term, "log_erfc")):
                others = [t for t in expr.args if t not in (term, constant)]
                return ir.add(ir.mul(ir.number(sign), ir.call("log_half_erfc", *arg)), *others)
    return None


def _constant(term: Expr) -> float:
    """The value of a constant or of the log of a number, else nan."""
    if isinstance(term, ir.Constant):
        return term.value
    arg = _arguments(term, "log")
    return math.log(arg[0].exact) if arg and isinstance(arg[0], ir.Number) else math.nan


def log_of_distance(expr: ir.Call) -> Expr | None:
    """Logs of factors x + a + b, which vanish where no double is: rounded once, not twice."""
    if expr.name not in ("log", "log_ratio"):
        return None
    args = tuple(map(_distances, expr.args))
    return None if args == expr.args else ir.Call(expr.name, args)


def _distances(expr: Expr) -> Expr:
    match expr:
        case ir.Add((_, _, _) as terms) if X in terms or MINUS_X in terms:
            parts = [ir.split_number(term) for term in terms]
            if all(abs(c) == 1 and isinstance(leaf, LEAVES) for c, leaf in parts if leaf != ir.ONE):
                return ir.call("sum_of_three", *terms)
        case ir.Mul(factors):
            return ir.mul(*map(_distances, factors))
        case ir.Pow(base, power):
            return ir.Pow(_distances(base), power)
    return expr


def log_of_polynomial(expr: Expr) -> Expr | None:
    """log(c + b^k) = log(c) + log1p(b^k/c) for c > 0; others and quotients nan where they overflow.

    An overflow in one of two densities would be an infinite loss, or hidden in a mixture.
    """
    match expr:
        case ir.Call("log", (ir.Add((*_, last)) as total,)) if last != ir.ONE:
            if not _overflows(total):
                return None
            steady = [term for term in total.args if not _has_output(term)]
            moving = [term for term in total.args if _has_output(term)]
            if len(steady) == len(moving) == 1 and _is_positive(steady[0]):
                share = ir.mul(*moving, _raised(steady[0], -1))
                return ir.add(ir.call("log", steady[0]), ir.call("log1p", share))
            return ir.call("log_ratio", total, ir.ONE, ir.add(total, ir.number(-1)))
        case ir.Call("log", (ir.Mul(factors),)):
            below = [f for f in factors if _divides(f)]
            n = ir.mul(ir.ONE, *(f for f in factors if f not in below))
            d = ir.mul(ir.ONE, *(base for f in below for base in _divides(f)))
            if _overflows(n) and _overflows(d):
                return ir.call("log_ratio", n, d, ir.add(n, ir.negate(d)))
    return None


def _overflows(expr: Expr) -> bool:
    """Whether there are powers of the output, but no functions of it."""
    nodes = [node for node in ir.walk(expr) if _has_output(node)]
    powers = [n for n in nodes if isinstance(n, ir.Pow) and _power(n) > 1 and _has_output(n.base)]
    products = [n for n in nodes if isinstance(n, ir.Mul) and sum(map(_has_output, n.args)) > 1]
    return bool(powers or products) and not any(isinstance(n, ir.Call | ir.Select) for n in nodes)


def _power(factor: Expr) -> Fraction:
    """The exponent of a power in numbers, else 0."""
    match factor:
        case ir.Pow(_, ir.Number(power)):
            return power
    return Fraction(0)


def _is_positive(expr: Expr) -> bool:
    """Whether a product is one of positive numbers and even powers."""
    factors = ir.factors_of(expr)
    return all((isinstance(f, ir.Number) and f.exact > 0) or _power(f) % 2 == 0 < _power(f) ** 2
               for f in factors)  # fmt: skip


def _raised(expr: Expr, power: int) -> Expr:
    """A product to a power, factor by factor."""
    return ir.mul(ir.ONE, *(
        ir.Number(f.exact**power) if isinstance(f, ir.Number)
        else ir.Pow(_base(f), ir.number((_power(f) or 1) * power)) for f in ir.factors_of(expr)
    ))  # fmt: skip


def log_of_sum(expr: Expr) -> Expr | None:
    """Log of a sum that contains exponentials, or 1."""
    if not ((arg := _arguments(expr, "log")) and isinstance(arg[0], ir.Add)):
        return None
    for rule in (cosine_sum, error_function_complement, complement_of_power):
        if (product := rule(arg[0])) is not None:
            return ir.call("log", product)
    split = [(term, _exponential(term)) for term in arg[0].args]
    exponentials = [found for _, found in split if found]
    rest = [term for term, found in split if not found]
    if len(exponentials) == 1:
        ((coefficient, exponent),) = exponentials
        if rest == [ir.ONE] and coefficient in ONE_AND:
            return ir.call(ONE_AND[coefficient], exponent)
        if ir.add(*rest, coefficient) == ir.ONE:
            return ir.call("log_mix", coefficient, exponent)
    if (found := _log_add(exponentials, rest)) or arg[0].args[-1] != ir.ONE:
        return found
    return ir.call("log1p", ir.add(arg[0], ir.number(-1)))


def _exponential(term: Expr) -> tuple[Expr, Expr] | None:
    """`(c, a)` if the term is c exp(a), or that under a condition and else 0, as c then is."""
    if isinstance(term, ir.Select) and term.other == ir.ZERO:
        found = _exponential(term.then)
        return found and (ir.Select(term.condition, found[0], ir.ZERO), found[1])
    return _factor_out(exponential_product(term) or term, "exp")


def _log_add(pairs: list[tuple[Expr, Expr]], rest: list[Expr]) -> Expr | None:
    """Log of exponentials and perhaps a remainder, in log space; those below 0 are added last."""
    terms = [*pairs, (ir.add(*rest), ir.ZERO)] if rest else pairs
    if not pairs or len(terms) < 2:
        return None
    weights: dict[Expr, Expr] = {}
    for weight, exponent in terms:
        weights[exponent] = ir.add(weights.get(exponent, ir.ZERO), weight)
    above = [(w, a) for a, w in weights.items() if ir.split_number(w)[0] > 0]
    below = [(w, a) for a, w in weights.items() if ir.split_number(w)[0] < 0]
    if not above:
        above, below = below, []
    opposite = len(weights) == 2 and ir.add(*weights.values()) == ir.ZERO
    if opposite and not isinstance(above[0][0], ir.Number):
        return None
    v, a = functools.reduce(_log_sum, above)
    if opposite:
        b = below[0][1]
        a = ir.call("log_exp_difference", a, b, _gap(a, b))
    elif below:
        w, b = functools.reduce(_log_sum, ((ir.negate(w), a) for w, a in below))
        v, a = _log_sum((v, a), (ir.negate(w), b))
    return a if v == ir.ONE else ir.add(a, ir.call("log", v))


def _log_sum(one: tuple[Expr, Expr], two: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    return ir.ONE, ir.call("log_sum", *one, *two)


def log_of_mixture(expr: Expr) -> Expr | None:
    """log(1 - q + q exp(d)) where q = 1 - r, and r is what is known."""
    if (found := _arguments(expr, "log_mix")) is None or not isinstance(found[0], ir.Add):
        return None
    rest = ir.add(ir.ONE, ir.negate(found[0]))
    return None if isinstance(rest, ir.Add) else ir.call("log_mix_rest", rest, *found)


def log1p_of_expm1(expr: Expr) -> Expr | None:
    """log1p(c expm1(a)) = log(1 - c + c exp(a)), where exp(a) must not overflow."""
    if (arg := _arguments(expr, "log1p")) and (found := _factor_out(arg[0], "expm1")):
        return ir.call("log_mix", *found)
    return None


def log1p_of_power(expr: Expr) -> Expr | None:
    """log1p(b^a) = softplus(a log(b)), as powers of large outputs overflow before their logs do.

    Of a power in numbers, log1p(c b^k / d^k): digits of small ones are not in their logs. Of other
    polynomials that overflow nothing is known.
    """
    match expr:
        case ir.Call("log1p", (ir.Pow(base, power),)) if not isinstance(power, ir.Number):
            return ir.call("softplus", ir.mul(power, ir.call("log", base)))
        case ir.Call("log1p", (product,)):
            moving = [factor for factor in ir.factors_of(product) if _has_output(factor)]
            match moving:
                case [ir.Pow(base, ir.Number(times))] if times > 1:
                    below = [
                        f
                        for f in ir.factors_of(product)
                        if f == ir.Pow(_base(f), ir.number(-times))
                    ]
                    rest = [f for f in ir.factors_of(product) if f not in (*moving, *below)]
                    bottom = ir.mul(ir.ONE, *map(_base, below))
                    args = ir.mul(ir.ONE, *rest), base, bottom, ir.number(times)
                    return ir.call("log1p_power", *args)
            if _overflows(product):
                return ir.call("log_ratio", ir.add(product, ir.ONE), ir.ONE, product)
    return None


def _base(factor: Expr) -> Expr:
    return factor.base if isinstance(factor, ir.Pow) else factor


def exponential_difference(expr: ir.Add) -> Expr | None:
    """C exp(a) - c = c expm1(a), beside 1 a mixture; c exp(a) - c exp(b), of a pair of terms."""
    found = [(term, pair) for term in expr.args if (pair := _factor_out(term, "exp"))]
    for term, (coefficient, exponent) in found:
        others = [t for t in expr.args if t is not term]
        opposite = ir.negate(coefficient)
        if opposite in others:
            rest = [t for t in others if t != opposite]
            if rest == [ir.ONE]:
                return ir.call("mix", coefficient, exponent)
            return ir.add(ir.mul(coefficient, ir.call("expm1", exponent)), *rest)
        for other, (second, below) in found:
            if second == opposite:
                difference = ir.call("exp_difference", exponent, below, _gap(exponent, below))
                rest = [t for t in others if t is not other]
                return ir.add(ir.mul(coefficient, difference), *rest)
    return None


def error_function_complement(expr: ir.Add) -> Expr | None:
    """C - c erf(u) = c erfc(u), c + c erf(u) = c erfc(-u), 2c - c erfc(u) = c erfc(-u)."""
    if len(expr.args) != 2:
        return None
    for term, other in (expr.args, expr.args[::-1]):
        for name, beside, times, sign in COMPLEMENTS:
            found = _factor_out(term, name)
            if found is not None and other == ir.mul(ir.number(beside), found[0]):
                arg = found[1] if sign > 0 else ir.negate(found[1])
                return ir.mul(ir.number(times), found[0], ir.call("erfc", arg))
    return None


def power_next_to_one(expr: ir.Pow) -> Expr | None:
    """(1 - u)^a of parameters by log1p(-u): rounding of the base counts a times."""
    base, power = expr.base, expr.exponent
    if isinstance(power, ir.Number) or not isinstance(base, ir.Add) or _has_output(expr):
        return None
    log = log_of_sum(ir.call("log", base))
    return log and ir.call("power", base, power, log)


def _has_output(expr: Expr) -> bool:
    return any(isinstance(node, ir.Var) for node in ir.walk(expr))


def complement_of_power(expr: ir.Add) -> Expr | None:
    """A difference c - c b^a of parameters, nothing where b is next to one, or a to zero."""
    if len(expr.args) != 2 or _has_output(expr):
        return None
    for one, other in (expr.args, expr.args[::-1]):
        factors = ir.factors_of(ir.negate(other))
        for i, factor in enumerate(factors):
            match factor:
                case ir.Pow(base, power) if (
                    not (isinstance(base, ir.Number) or _divides(factor))
                    and ir.mul(*factors[:i], *factors[i + 1 :]) == one
                ):
                    rest = ir.call("power_complement", base, power, ir.call("log", base))
                    return ir.mul(one, rest)
    return None


def common_denominator(expr: ir.Add) -> Expr | None:
    """C/d + e = (c + d e)/d where terms cancel above: 1/(1 - a) - 1 = a/(1 - a)."""
    found = [
        (term, below) for term in expr.args for below in ir.factors_of(term) if _divides(below)
    ]
    if len(found) != 1:
        return None
    ((term, below),) = found
    above = [other for other in expr.args if other is not term]
    for base in _divides(below):
        above = [_ordered(one, two) for one in above for two in ir.terms_of(base)]
    above.append(_ordered(*(factor for factor in ir.factors_of(term) if factor is not below)))
    kept = ir.add(*above)
    if len(ir.terms_of(kept)) < len({ir.split_number(one)[1] for one in above}):
        return ir.mul(kept, below)
    return None


def _divides(factor: Expr) -> list[Expr]:
    """What a factor divides by, as often as it does."""
    match factor:
        case ir.Pow(base, ir.Number(power)) if power in (-1, -2, -3):
            return [base] * -int(power)
    return []


def _ordered(*factors: Expr) -> Expr:
    """A product in which equal factors stand in one order, so that like terms meet."""
    product = ir.mul(*factors)
    return ir.mul(*sorted(ir.factors_of(product), key=repr))


def _gap(a: Expr, b: Expr) -> Expr:
    """A - b; where they share factors, by the difference of what is left, if terms cancel there."""
    (c, above), (d, below) = ir.split_number(a), ir.split_number(b)
    left, right = list(ir.factors_of(above)), list(ir.factors_of(below))
    common = []
    for factor in tuple(left):
        if factor in right:
            common.append(factor)
            left.remove(factor)
            right.remove(factor)
    terms = _terms(c, left), _terms(-d, right)
    rest = ir.add(*terms[0], *terms[1])
    if len(ir.terms_of(rest)) < len(terms[0]) + len(terms[1]):
        return ir.mul(*common, rest)
    return ir.add(a, ir.negate(b))


def _terms(coefficient: Fraction, factors: list[Expr]) -> list[Expr]:
    """The terms of a product in which at most one factor is a sum."""
    sums = [factor for factor in factors if isinstance(factor, ir.Add)]
    if len(sums) != 1:
        return [ir.mul(ir.Number(coefficient), *factors)]
    others = [factor for factor in factors if factor is not sums[0]]
    return [ir.mul(ir.Number(coefficient), *others, term) for term in ir.terms_of(sums[0])]


def cosine_sum(expr: ir.Add) -> Expr | None:
    """C + c cos(a) = 2 c cos(a/2)^2, which keeps its digits where both vanish together."""
    for name in ("cos", "cos_quarters"):
        for term in expr.args:
            found = _factor_of(term, name)
            if found is None or found[0] not in expr.args:
                continue
            coefficient, (*args, last) = found
            # the unit of cos_quarters is a denominator, the angle of cos is not
            scale = Fraction(2) if args else Fraction(1, 2)
            half = ir.call(name, *args, ir.mul(ir.Number(scale), last))
            rest = [t for t in expr.args if t not in (term, coefficient)]
            return ir.add(ir.mul(ir.number(2), coefficient, ir.Pow(half, ir.number(2))), *rest)
    return None


def gamma_difference(expr: ir.Add) -> Expr | None:
    """C lgamma(a) - c lgamma(b), which cancels for large arguments; first where a - b is steady."""
    found = [(term, pair) for term in expr.args if (pair := _factor_out(term, "lgamma"))]
    pairs = [
        (any(isinstance(node, ir.Var) for node in ir.walk(gap)), i, j, gap)
        for i, (_, (coefficient, above)) in enumerate(found)
        for j, (_, (opposite, below)) in enumerate(found)
        if opposite == ir.negate(coefficient)
        for gap in [ir.add(above, ir.negate(below))]
    ]
    if not pairs:
        return None
    _, i, j, gap = min(pairs, key=lambda pair: pair[:3])
    (term, (coefficient, _)), (other, (_, below)) = found[i], found[j]
    rest = [t for t in expr.args if t is not term and t is not other]
    return ir.add(ir.mul(coefficient, ir.call("lgamma_difference", below, gap)), *rest)


RULES: dict[type, tuple[Rule, ...]] = {
    ir.Mul: (exponential_product,),
    ir.Pow: (power_next_to_one,),
    ir.Call: (
        log_of_product,
        log_of_function,
        log_of_length,
        log_of_distance,
        log_of_polynomial,
        log_of_sum,
        log1p_of_expm1,
        log1p_of_power,
        log_of_mixture,
    ),
    ir.Add: (
        log_of_probability,
        exponential_difference,
        error_function_complement,
        complement_of_power,
        common_denominator,
        cosine_sum,
        gamma_difference,
    ),
}
