"""Text to expressions: what is read is exact, what is not is refused and never run."""

import ast
import math

import mpmath
import pytest
from front_evaluate import by_pieces
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Abs, Expr, Integer, Piecewise, Rational, exp, oo, pi, sqrt

from mechc.calculus import normalise
from mechc.declare.text import FUNCTIONS, declaration_from_text, parse, parse_parameter
from mechc.errors import DeclarationError
from mechc.symbolic.parameters import positive, real

x, b = real("x"), positive("b")
SYMBOLS = {"x": x, "b": b}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.1*x", x / 10),
        ("1e-3", Rational(1, 1000)),
        ("1_000", Integer(1000)),
        ("-x**2", -(x**2)),
        ("2**0.5", sqrt(2)),
        (" exp(-abs(x)/b)/(2*b) ", exp(-Abs(x) / b) / (2 * b)),
        ("+pi", pi),
        ("-oo", -oo),
        ("where(0 < x <= 1, 1, 0)", Piecewise((1, (x > 0) & (x <= 1)), (0, True))),
        ("where(not x < 0 and (x < 1 or x > 2), x, 0)",
         Piecewise((x, (x >= 0) & ((x < 1) | (x > 2))), (0, True))),
    ],
)  # fmt: skip
def test_formulas_are_read_exactly(text, expected):
    assert parse(text, SYMBOLS) == expected


def test_a_symbol_may_be_called_like_a_constant():
    assert parse("pi", {"pi": b}) == b


@pytest.mark.parametrize(
    "text",
    ["", "x +", "(x", "y", "x.real", "x[0]", "[x]", "{x}", "(x, x)", "lambda: x", "x if x else 1",
     "x := 1", "f'{x}'", "'x'", "b'x'", "True", "None", "1j", "x ^ 2", "x // 2", "x % 2", "x @ x",
     "x << 1", "~x", "x < 1", "x in x", "x is x", "not x", "where(x, 1, 2)", "where(x < 1, 2)",
     "where(x < 1, x < 2, 1)", "max()", "exp()", "exp(x, x)", "exp(x=1)", "exp(*x)", "f(x)",
     "exp.f(x)", "exp(exp)", "__import__('os')", "().__class__", "1/0", "log(0)", "0/0", "oo - oo",
     "9**9**9", "2**1000000", "x**1e9", "10**400", "1e999999999", "1e400", "gamma(10**9)",
     "factorial(2000)", "9" * 70, "(" * 300 + "x" + ")" * 300, "-" * 200 + "x", "x" * 5000,
     "(1)" * 40, "exp(" * 80 + "x" + ")" * 80, "\0", "x\n+1", "x; x", "import os", "# x", "...",
     "binomial(10**6, 5*10**5)", "(-1)**0.5*x", "1 < x < 2", "sqrt(-1)"],
)  # fmt: skip
def test_everything_else_is_refused(text):
    with pytest.raises(DeclarationError):
        parse(text, SYMBOLS)


@pytest.mark.parametrize("given_", [None, 3, b"x", ["x"]])
def test_only_text_is_read(given_):
    with pytest.raises(DeclarationError):
        parse(given_, SYMBOLS)


NAMES = st.sampled_from(["x", "b", "pi", "oo", "y", *FUNCTIONS, "where"])
TOKENS = st.one_of(
    NAMES,
    st.sampled_from([*"+-*/()<>=,.[]{}:;'\"@^%&|!~ \n\t\\#", "**", "==", "and", "not", "if"]),
    st.integers(-10, 1000).map(str),
    st.floats(allow_nan=False).map(repr),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(TOKENS, max_size=14).map(" ".join) | st.text(max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        value = parse(text, SYMBOLS)
    except DeclarationError:
        return
    assert isinstance(value, Expr)
    assert value.free_symbols <= {x, b}


FORMULAS = st.recursive(
    st.sampled_from(["x", "b", "2", "0.25", "pi"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda f: f"exp(-abs({f}))"),
        inner.map(lambda f: f"max({f}, 1)"),
        st.tuples(inner, inner, inner).map(lambda t: f"where({t[0]} < {t[1]}, {t[2]}, 3)"),
    ),
    max_leaves=8,
)
MEANING = {"exp": math.exp, "abs": abs, "max": max, "pi": math.pi,
           "where": lambda c, a, b: a if c else b}  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(FORMULAS)
def test_formulas_mean_what_python_says(text):
    names = {**MEANING, "x": 0.7316, "b": 1.9081}
    try:
        expected = eval(compile(ast.parse(text, mode="eval"), "t", "eval"), names)
    except (ZeroDivisionError, OverflowError):
        return
    try:
        value = parse(text, SYMBOLS).subs({x: 0.7316, b: 1.9081})
    except DeclarationError:
        return
    assert float(value) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sigma", (0, math.inf, True, True, False)),
        ("sigma > 0", (0, math.inf, True, True, False)),
        ("0 <= sigma <= 1", (0, 1, False, False, False)),
        ("1 >= sigma > 0", (0, 1, True, False, False)),
        ("sigma < -1/2", (-math.inf, -0.5, True, True, False)),
        ("2 < sigma", (2, math.inf, True, True, False)),
        ("integer sigma", (1, math.inf, False, True, True)),
        ("integer sigma >= 3", (3, math.inf, False, True, True)),
    ],
)
def test_parameters_are_read(text, expected):
    made = parse_parameter(text).parameter
    assert (made.name, made.lo, made.hi, made.lo_open, made.hi_open, made.integer) == (
        "sigma", *expected)  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "3", "a < b", "0 < 1", "a == 1", "0 < a != 2", "1 < a < 0", "a b", "0 < a < 1 < 2"]
)
def test_other_parameters_are_refused(text):
    with pytest.raises(DeclarationError):
        parse_parameter(text)


def test_a_pair_in_text_is_a_declaration():
    declared = declaration_from_text("typed", p="exp(-abs(x-d)/b)/(2*b)", q="exp(-abs(x)/b)/(2*b)",
                                     parameters=["d > 0"])  # fmt: skip
    assert [p.name for p in declared.parameters] == ["d", "b"]
    p, q = by_pieces(normalise(declared), (2.0, 1.5), mpmath.mpf("0.3"))
    assert mpmath.almosteq(p, mpmath.exp(-mpmath.mpf("1.7") / 1.5) / 3)
    assert mpmath.almosteq(q, mpmath.exp(-mpmath.mpf("0.3") / 1.5) / 3)


def test_noise_in_text_gets_a_sensitivity():
    declared = declaration_from_text("typed", noise="exp(-y**2/2)/sqrt(2*pi)", variable="y")
    assert [p.name for p in declared.parameters] == ["sensitivity"]
    assert normalise(declared).claim.status == "proven"
    lattice = declaration_from_text("typed", noise="(1-exp(-a))*exp(-a*k)", variable="k",
                                    support=("0", "oo"), lattice=True)  # fmt: skip
    assert lattice.parameters[-1].integer
    assert normalise(lattice).claim.status == "proven"


@pytest.mark.parametrize("given_", [{"p": "1"}, {}, {"p": "1", "q": "1", "noise": "1"}])
def test_text_must_give_a_pair_or_noise(given_):
    with pytest.raises(DeclarationError, match="expected p and q, or noise alone"):
        declaration_from_text("typed", **given_)
