"""Hostile formulas: nothing is executed, nothing hangs, every refusal is a DeclarationError."""

import signal
import sys
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sympy import Expr

from mechc.declare.text import FUNCTIONS, parse, parse_parameter
from mechc.errors import DeclarationError
from mechc.symbolic.parameters import positive, real

SYMBOLS = {"x": real("x"), "b": positive("b")}
SECONDS = 10

ESCAPES = [
    "__import__('os').system('touch {mark}')",
    "().__class__.__bases__[0].__subclasses__()",
    "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == 'Popen'][0]('true')",
    "(lambda: open('{mark}', 'w'))()",
    "open('{mark}', 'w')",
    'exec(\'open("{mark}", "w")\')',
    "eval('1')",
    "getattr(x, '__class__')",
    "x.__class__.__mro__",
    "exp.__globals__",
    "exp.__init__.__globals__['__builtins__']",
    "x.subs(x, 1)",
    "x.func(1)",
    "vars()",
    "globals()['x']",
    'f\'{{open("{mark}", "w")}}\'',
    "'{{0.__class__}}'.format(x)",
    "'%s' % x",
    "(yield x)",
    "(await x)",
    "(y := 1)",
    "x if open('{mark}', 'w') else 1",
    "{{x: 1}}[x]",
    "[x][0]",
    "print(x)",
    "breakpoint()",
    "exit()",
    "Symbol('y')",
    "sympify('1')",
    "S('__import__(\"os\")')",
    "exp(*[x])",
    "exp(**{{'x': 1}})",
    "@x",
    "x;import os",
    "x\nimport os",
    "#" * 3000,
    "__builtins__",
    "__debug__",
]
BOMBS = [
    "9**9**9**9",
    "(((9**99)**99)**99)**99",
    "((((2*x)**100)**100)**100)**100",
    "(factorial(1000)**100)**100",
    "factorial(1000)*" * 200 + "1",
    "binomial(1000, 500)**100",
    "factorial(factorial(factorial(9)))",
    "gamma(gamma(gamma(9)))",
    "exp(" * 300 + "1" + ")" * 300,
    "-" * 3000 + "1",
    "(" * 3000,
    "[" * 3000,
    "1+" * 1990 + "1",
    "x**" * 1000 + "x",
    "not " * 900 + "x",
    "1e" + "9" * 50,
    "9" * 3999,
    "0x" + "f" * 3000,
    "where(" * 500,
    "max(" + ",".join(["x"] * 1900) + ")",
    "1<" * 1500 + "1",
    "where(1 < erf(24), x, 1)",
    "max(1, erf(30))",
    "sign(1 - erf(30))",
    "where(where(0<x,0,1)<erf(20),where(0<0,0,0),1)",
    "where(x<erf(20),where(0<x,0,1),1)<erf(20)",
    "sqrt(-1) < b",
    "loggamma(1e60)",
    "where(loggamma(where(1e60<x,1e60,1))<x,1,2)",
    "\x00",
    "\ud800",
    "x" * 10_000_000,
]


@contextmanager
def limited(seconds):
    def stop(*_):
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of the processor: others may be busy
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def read_or_refused(text):
    with limited(SECONDS):
        for read in (lambda t: parse(t, SYMBOLS), parse_parameter):
            try:
                value = read(text)
            except DeclarationError as error:
                str(error)
                continue
            assert isinstance(value, Expr)
            str(value)


@pytest.mark.parametrize("text", ESCAPES)
def test_escapes_are_refused_and_nothing_runs(text, tmp_path, capsys):
    mark = tmp_path / "ran"
    modules = set(sys.modules)
    with pytest.raises(DeclarationError):
        parse(text.format(mark=mark), SYMBOLS)
    assert not mark.exists()
    assert set(sys.modules) == modules
    assert capsys.readouterr().out == ""


@pytest.mark.few(0, 6, 11, 18, 26, 31)
@pytest.mark.parametrize("text", BOMBS, ids=lambda text: ascii(text[:30]))
def test_bombs_are_cheap(text):
    read_or_refused(text)


def test_long_chains_of_comparisons_are_refused_unread():
    with pytest.raises(DeclarationError, match="compares more than 60 times in a row"):
        parse("where(" + "1<" * 61 + "2, x, 0)", SYMBOLS)


WORDS = st.sampled_from(
    ["x", "b", "pi", "oo", "y", "where", *FUNCTIONS, *ESCAPES, "9**99", "1e300", "0.1", "(", ")"]
)
SIGNS = st.sampled_from([*"+-*/()<>=,.[]{}:;'\"@^%&|!~ \n\t\\#", "**", "==", " and ", " if ", "=>"])
NUMBERS = st.integers(-(10**6), 10**6).map(str) | st.floats(allow_nan=False).map(repr)
HOSTILE = st.one_of(
    st.lists(WORDS | SIGNS | NUMBERS, max_size=25).map("".join),
    st.lists(WORDS | SIGNS | NUMBERS, max_size=25).map(" ".join),
    st.text(max_size=80),
    st.recursive(
        st.sampled_from(["x", "b", "9", "99", "0.5", "-1", "oo", "1e60"]),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "**"]), inner).map(
                lambda t: f"({t[0]}{t[1]}{t[2]})"
            ),
            st.tuples(st.sampled_from(sorted(FUNCTIONS)), inner).map(lambda t: f"{t[0]}({t[1]})"),
            st.tuples(inner, inner).map(lambda t: f"where({t[0]}<{t[1]},{t[0]},1)"),
        ),
        max_leaves=12,
    ),
)
CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=150, deadline=None, suppress_health_check=CHECKS)
@given(HOSTILE)
def test_hostile_text_is_read_or_refused(text):
    read_or_refused(text)


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None, suppress_health_check=CHECKS)
@given(HOSTILE)
def test_ten_thousand_hostile_texts_are_read_or_refused(text):
    read_or_refused(text)
