"""Passes on small expressions: what they turn into, and that the function stays the same."""

from fractions import Fraction

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from mpmath import mp

from mechc.kernel import ir
from mechc.kernel.passes import finish, finish_expression
from mechc.kernel.passes.sharing import hoist, share
from mechc.kernel.printer import Printer, runnable

X, Y, S = ir.Var("x"), ir.Param("y"), ir.Param("s")
NAMES = ("x", "y", "s")


def half(expr):
    return ir.mul(ir.Number(Fraction(1, 2)), expr)


def log(expr):
    return ir.call("log", expr)


def exp(expr):
    return ir.call("exp", expr)


def text(expr):
    return Printer()(finish_expression(expr))


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (log(ir.add(ir.ONE, X)), "math.log1p(x)"),
        (log(ir.add(ir.ONE, exp(X))), "softplus(x)"),
        (log(ir.add(ir.ONE, ir.Pow(X, S))), "softplus(s * math.log(x))"),
        (
            log(ir.add(ir.ONE, ir.mul(Y, ir.Pow(X, ir.number(2)), ir.Pow(S, ir.number(-2))))),
            "log1p_power(y, x, s, 2.0)",
        ),
        (
            log(ir.add(ir.Pow(S, ir.number(2)), ir.Pow(X, ir.number(2)))),
            "math.log(s * s) + log1p_power(1.0, x, s, 2.0)",
        ),
        (
            log(
                ir.mul(
                    ir.add(ir.Pow(X, ir.number(2)), S),
                    ir.Pow(ir.add(ir.Pow(X, ir.number(2)), ir.ONE), ir.number(-1)),
                )
            ),
            "log_ratio(x * x + s, x * x + 1.0, s - 1.0)",
        ),
        (
            log(ir.add(ir.Pow(X, ir.number(2)), X, ir.ONE)),
            "log_ratio(x * x + x + 1.0, 1.0, x * (x + 1.0))",
        ),
        (log(ir.add(ir.ONE, ir.negate(exp(X)))), "log1mexp(x)"),
        (log(ir.add(ir.ONE, ir.negate(S), ir.mul(S, exp(X)))), "log_mix(s, x)"),
        (
            log(ir.add(S, ir.mul(ir.add(ir.ONE, ir.negate(S)), exp(X)))),
            "log_mix_rest(s, 1.0 - s, x)",
        ),
        (log(ir.mul(S, exp(X))), "x + math.log(s)"),
        (
            log(ir.mul(S, ir.add(X, ir.negate(Y), ir.ONE))),
            "math.log(s * sum_of_three(x, -y, 1.0))",
        ),
        (ir.add(exp(X), ir.number(-1)), "math.expm1(x)"),
        (ir.add(ir.mul(S, exp(X)), ir.negate(S)), "s * math.expm1(x)"),
        (ir.add(exp(X), ir.negate(exp(ir.add(X, Y)))), "exp_difference(x, x + y, -y)"),
        (
            ir.add(
                exp(ir.mul(X, ir.Pow(S, ir.number(-1)))),
                ir.negate(exp(ir.mul(ir.add(X, Y), ir.Pow(S, ir.number(-1))))),
            ),
            "exp_difference(x / s, (x + y) / s, -y / s)",
        ),
        (ir.mul(exp(X), exp(Y)), "math.exp(x + y)"),
        (log(ir.call("erfc", X)), "log_erfc(x)"),
        (log(half(ir.call("erfc", X))), "log_half_erfc(x)"),
        (log(ir.call("cosh", X)), "log_cosh(x)"),
        (ir.add(half(ir.ONE), half(ir.call("erf", X))), "0.5 * math.erfc(-x)"),
        (ir.add(half(ir.ONE), ir.negate(half(ir.call("erf", X)))), "0.5 * math.erfc(x)"),
        (ir.add(ir.ONE, ir.negate(half(ir.call("erfc", X)))), "0.5 * math.erfc(-x)"),
        (
            ir.add(ir.ONE, ir.call("cos", X)),
            "2.0 * (math.cos(0.5 * x) * math.cos(0.5 * x))",
        ),
        (
            log(ir.add(ir.ONE, ir.call("cos_quarters", X, Y, S))),
            "math.log(2.0 * (cos_quarters(x, y, 2.0 * s) * cos_quarters(x, y, 2.0 * s)))",
        ),
        (ir.Pow(X, ir.number(3)), "x * x * x"),
        (ir.Pow(X, ir.number(-2)), "1.0 / (x * x)"),
        (ir.Pow(X, ir.Number(Fraction(-1, 2))), "1.0 / math.sqrt(x)"),
        (ir.Pow(X, ir.Number(Fraction(3, 2))), "x * math.sqrt(x)"),
        (ir.Pow(X, S), "math.pow(x, s)"),
        (ir.mul(ir.Number(Fraction(1, 3)), X), "x / 3.0"),
        (ir.mul(ir.Number(Fraction(-2, 3)), X, ir.Pow(S, ir.number(-1))), "-2.0 * x / (3.0 * s)"),
        (ir.add(ir.negate(X), Y), "y - x"),
    ],
)  # fmt: skip
def test_stable_and_printable_forms(expr, expected):
    assert text(expr) == expected


def weighted(*terms):
    return ir.add(*(ir.mul(weight, exp(exponent)) for weight, exponent in terms))


def test_logs_of_long_sums_are_taken_in_log_space():
    twice = ir.mul(ir.number(2), X)
    three = weighted((S, X), (Y, twice), (ir.number(3), S))
    assert text(log(three)) == "log_sum(1.0, log_sum(s, x, y, 2.0 * x), 3.0, s)"
    product = ir.mul(S, exp(X), exp(Y))
    assert text(log(ir.add(product, exp(Y)))) == "log_sum(s, x + y, 1.0, y)"
    rest = ir.add(exp(X), ir.negate(ir.mul(S, exp(X))), S)  # one exponent, two weights
    assert text(log(rest)) == "log_sum(1.0 - s, x, s, 0.0)"
    other = ir.add(ir.ONE, ir.negate(S))
    assert "exp_difference" in text(log(weighted((other, X), (ir.negate(other), Y))))
    chosen = ir.Select(ir.Compare("<=", X, Y), ir.mul(S, exp(X)), ir.ZERO)
    assert text(log(ir.add(chosen, exp(Y)))) == "log_sum(s if x <= y else 0.0, x, 1.0, y)"


@pytest.mark.parametrize("centre", [-3.0, 0.0, 900.0, -900.0])
@pytest.mark.parametrize(
    "weights",
    [(0.0, 0.5, 0.3, -0.2), (0.5, 0.0, 0.0, -0.1), (0.0, 0.0, 0.7, 0.0), (1.0, 2.0, 0.0, -0.5)],
)
def test_logs_of_long_sums_against_high_precision(weights, centre):
    """Four exponentials, the last taken off the others, beyond the range of doubles."""
    exponents = [centre + step for step in (2.0, -1.0, 0.5, -4.0)]
    names = [*"abcd", *"uvwz"]
    a, b, c, d, u, v, w, z = map(ir.Param, names)
    expr = log(weighted((u, a), (v, b), (w, c), (ir.negate(z), d)))
    last = weights[3]
    found = runnable(finish_expression(expr), names)(*exponents, *weights[:3], -last)
    with mp.workdps(40):
        exact = mp.log(sum(w * mp.exp(mp.mpf(a)) for w, a in zip(weights, exponents, strict=True)))
    assert found == pytest.approx(float(exact), rel=1e-15, abs=1e-15)


def minus_one(power):
    return ir.add(ir.Pow(ir.add(ir.ONE, ir.negate(X)), ir.number(power)), ir.number(-1))


def test_what_cancels_above_a_denominator():
    assert text(minus_one(-1)) == "x / (1.0 - x)"
    assert text(minus_one(-2)) == "x * (2.0 - x) / ((1.0 - x) * (1.0 - x))"
    mixed = ir.add(ir.mul(X, ir.Pow(ir.add(Y, X), ir.number(-1))), ir.number(-1))
    assert text(mixed) == "-y / (y + x)"
    apart = ir.add(mixed, ir.Pow(ir.add(X, S), ir.number(-1)))
    assert text(apart) == "x / (y + x) + 1.0 / (x + s) - 1.0"


def test_lgamma_pairs_become_differences():
    expr = ir.add(ir.call("lgamma", ir.add(X, half(ir.ONE))), ir.negate(ir.call("lgamma", X)))
    assert text(expr) == "lgamma_difference(x, 0.5)"
    # of several pairs that whose arguments move together: others cancel for large arguments
    beside = [ir.call("lgamma", ir.add(Y, ir.ONE)), ir.call("lgamma", ir.add(X, ir.ONE))]
    expr = ir.add(ir.negate(ir.call("lgamma", ir.add(X, Y, ir.number(2)))), *beside)
    assert text(expr) == "math.lgamma(y + 1.0) - lgamma_difference(x + 1.0, y + 1.0)"


LEAVES = st.sampled_from([X, Y, S, ir.ONE, ir.number(2), ir.Number(Fraction(1, 3))])


def compound(inner):
    return st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda a: ir.add(*a)),
        st.lists(inner, min_size=2, max_size=3).map(lambda a: ir.mul(*a)),
        inner.map(ir.negate),
        st.tuples(inner, st.sampled_from([-1, 2, 3])).map(lambda p: ir.Pow(p[0], ir.number(p[1]))),
        inner.map(exp),
        inner.map(lambda a: log(ir.add(ir.ONE, exp(a)))),
        st.tuples(inner, inner, inner).map(
            lambda t: ir.Select(ir.Compare("<", t[0], t[1]), t[1], t[2])
        ),
    )


@settings(max_examples=150, deadline=None)
@given(st.recursive(LEAVES, compound, max_leaves=8))
def test_passes_keep_the_function(expr):
    """Against a plain evaluation of the untouched tree."""
    values = {"x": 0.37, "y": -0.81, "s": 0.59}
    expected = plain(expr, values)
    found = runnable(finish_expression(expr), NAMES)(*values.values())
    if abs(expected) < 1e100:
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


def plain(expr, values):
    """The obvious interpreter."""
    import math

    go = lambda e: plain(e, values)  # noqa: E731
    match expr:
        case ir.Number(exact):
            return float(exact)
        case ir.Var(name) | ir.Param(name):
            return values[name]
        case ir.Add(args):
            return math.fsum(map(go, args)) if all(map(math.isfinite, map(go, args))) else math.nan
        case ir.Mul(args):
            return math.prod(map(go, args))
        case ir.Pow(base, exponent):
            try:
                return go(base) ** go(exponent)
            except (ZeroDivisionError, OverflowError):
                return math.inf
        case ir.Call("exp", (arg,)):
            if go(arg) > 700.0:
                reject()  # beyond doubles here; the stable form may well have a value
            return math.exp(go(arg))
        case ir.Call("log", (arg,)):
            return math.log(go(arg))
        case ir.Compare("<", left, right):
            return go(left) < go(right)
        case ir.Select(condition, then, other):
            return go(then) if go(condition) else go(other)
    raise AssertionError(expr)


def test_sharing_names_what_occurs_twice():
    shared = log(ir.add(X, S))
    block = share(ir.Block((), ir.mul(shared, ir.add(shared, Y))))
    assert [name.name for name, _ in block.lets] == ["t0"]
    assert Printer()(block.tail) == "t0 * (t0 + y)"


def test_sharing_never_crosses_a_guard():
    """log(x) belongs to the arm where x > 0, however often it occurs there."""
    guarded = ir.Select(ir.Compare(">", X, ir.ZERO), ir.mul(log(X), ir.add(log(X), Y)), ir.ZERO)
    block = share(ir.Block((), ir.add(guarded, Y)))
    assert all(value != log(X) for _, value in block.lets)
    lifted = share(finish(ir.Block((), guarded)))
    assert not lifted.lets
    assert isinstance(lifted.tail, ir.Chain)
    assert lifted.tail.arms[0][1].lets[0][1] == log(X)


def test_hoisting_takes_parameters_out_of_the_loop():
    """What calls nothing stays: compilers take it out themselves."""
    body = finish(ir.Block((), ir.add(ir.mul(ir.Pow(S, ir.number(-2)), X), log(S), log(Y))))
    before, inside = hoist(body, "x")
    assert len(before) == 1
    loop_free = {ir.Var("x")}
    assert all(not ir.depends_on(value, frozenset(loop_free)) for _, value in before)
    assert ir.count_operations(inside) == 3


def test_hoisting_names_a_part_before_the_whole():
    t = log(S)
    before, _ = hoist(ir.Block((), ir.mul(X, t, ir.add(X, ir.mul(t, t, Y)))), "x")
    names = [name.name for name, _ in before]
    assert len(names) == len(set(names))
    for i, (_, value) in enumerate(before):
        used = {node.name for node in ir.walk(value) if isinstance(node, ir.Local)}
        assert used <= set(names[:i])


def test_what_all_arms_evaluate_is_named_before_them():
    """A common factor stands once, and not twice its negative."""
    shared, guard = ir.mul(log(S), log(Y)), ir.Compare("<", X, ir.ZERO)
    arms = (guard, ir.Block((), ir.add(X, shared))), (None, ir.Block((), ir.Neg(shared)))
    body = share(ir.Block((), ir.Chain(arms)))
    assert [value for _, value in body.lets] == [shared]
    assert all(not arm.lets for _, arm in body.tail.arms)
