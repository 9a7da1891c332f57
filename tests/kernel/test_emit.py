"""Emitted text: goldens, self-check, what it may contain, that every node and primitive occurs."""

import ast
import math
import re
import subprocess
import sys
import textwrap
from fractions import Fraction

import numpy as np
import pytest
from built_in import as_python, source
from sympy import Abs, Piecewise

from mechc.declare import additive, mechanism, positive, real
from mechc.kernel import cache, ir
from mechc.kernel.cache import sealed
from mechc.kernel.compiler import compile_declaration
from mechc.kernel.emit import ENDLESS_SERIES, SERIES, emit
from mechc.kernel.ir import Function, Module, Series
from mechc.kernel.lower.context import identifiers
from mechc.kernel.passes import share
from mechc.kernel.prelude import PRIMITIVES
from mechc.kernel.printer import MATH_FUNCTIONS, literal
from mechc.kernel.statements import DECORATOR, IMPORTS
from mechc.protocol import PROTOCOL

GOLDENS = ("gaussian", "laplace", "student_t", "approximate_dp", "poisson(gaussian)")


def golden_name(name):
    return name.replace("(", "_").replace(")", "") + ".py"


@pytest.mark.parametrize("name", GOLDENS)
def test_golden(name, golden):
    golden(golden_name(name), source(name))


@pytest.mark.parametrize("name", GOLDENS)
def test_texts_are_sealed_and_plain(name):
    text = source(name)
    assert sealed(text)
    assert "fastmath" not in text
    tree = ast.parse(text)
    imported = {alias.name for node in ast.walk(tree) for alias in getattr(node, "names", ())}
    assert imported == {"math", "numba", "numpy", "sys"}
    assert text.count("njit") == 1, "one compile policy for all"
    assert IMPORTS in text and DECORATOR.replace("\n\n\n", "\n\n") in text


def equally_large_parts():
    """Arms that share four operations of one size, for which names are chosen."""
    large = ir.Add(tuple(map(ir.Param, "abcdefghijkl")))
    parts = tuple(ir.Call(name, (large,)) for name in ("exp", "log", "sin", "cos"))
    arms = ((ir.Compare("<", ir.Var("x"), ir.ZERO), ir.Add(parts)), (None, ir.Mul(parts)))
    return ir.Block((), ir.Chain(tuple((guard, ir.Block((), arm)) for guard, arm in arms)))


@pytest.mark.few(0)
@pytest.mark.parametrize("seed", ["0", "8"])
def test_emission_does_not_depend_on_hashing(seed):
    code = (
        "import sys; sys.path[:0] = ['tests/problems', 'tests/kernel'];"
        "from built_in import declaration; from test_emit import *;"
        "text = compile_declaration(declaration('logistic'));"
        "sys.stdout.write(text + repr(share(equally_large_parts())))"
    )
    environment = {"PYTHONHASHSEED": seed, "PATH": ""}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert run.stdout == source("logistic") + repr(share(equally_large_parts()))


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDENS)
def test_self_check_of_the_standalone_file(name, tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(source(name), encoding="utf-8")
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "ok" in run.stdout and "FAILED" not in run.stdout


def test_self_check_notices_a_wrong_constant(tmp_path):
    path = tmp_path / "kernel.py"
    text = source("approximate_dp")
    # x, log_p, log_q and a finite loss
    wrong = re.sub(r"(\(1\.0, \S+, \S+, )[\d.]+, None", r"\g<1>0.125, None", text, count=1)
    assert wrong != text
    path.write_text(wrong, encoding="utf-8")
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "FAILED" in run.stdout


def test_self_check_has_five_points_a_function():
    (checks,) = re.findall(r"^CHECKS = (.*?^\))$", source("laplace"), flags=re.M | re.S)
    rows = [row for _, rows in ast.literal_eval(checks) for row in rows]
    assert all(len([row for row in rows if row[i] is not None]) >= 5 for i in (1, 2, 3))
    assert len([row for row in rows if row[4] == 1]) >= 5


@pytest.mark.parametrize("name", GOLDENS)
def test_kernel_answers_the_protocol(name, kernel_of):
    kernel = kernel_of(name)
    assert kernel.PROTOCOL == PROTOCOL
    assert name == kernel.NAME
    assert re.fullmatch(r"[0-9a-f]{16}", kernel.DIGEST)
    assert kernel.MEASURE in ("density", "lattice", "finite")
    assert isinstance(kernel.SYMMETRIC, bool)
    assert all(re.match(r"closed|numeric|unavailable", v) for v in kernel.CAPABILITIES.values())
    theta = np.array([0.7 * (p[7][0] + p[7][1]) / 2 for p in kernel.PARAMETERS])
    rows = kernel.branches(theta)
    assert rows.shape[1:] == (6,)
    assert rows.dtype == np.float64
    assert len(kernel.BRANCHES) >= rows.shape[0]
    assert kernel.atoms(theta).shape[1:] == (3,)
    assert kernel.strip(theta).shape == kernel.lattice(theta).shape == (2,)
    assert isinstance(kernel.log_infinite_mass(theta), float)
    assert hasattr(kernel, "cgf") == kernel.CAPABILITIES["cgf"].startswith("closed")
    assert hasattr(kernel, "cdf_p") == kernel.CAPABILITIES["cdf"].startswith("closed")


def tiny(expr, **changes):
    """A module whose loss is the expression."""
    block = ir.Block((), expr)
    values = {
        "name": "tiny", "about": "", "refs": (), "claim": {}, "names": ("a",),
        "parameters": (("a", 0.0, float("inf"), True, True, False, None, (0.5, 2.0)),),
        "measure": "density", "symmetric": False, "capabilities": {}, "branches": (),
        "formulas": (), "helpers": (), "inverses": (), "tables": (),
        "functions": (Function("loss", "x", "Loss.", block, array=True),),
    }  # fmt: skip
    return Module(**(values | changes))


def test_every_node_is_emitted(monkeypatch, tmp_path):
    """One kernel that contains all node types compiles and computes the right number."""
    a, x = ir.Param("a"), ir.Var("x")
    series = Series(
        "sum_0", "Series.", ir.Block((), ir.call("exp", ir.Neg(ir.IntPow(ir.Var("n"), 2))))
    )
    condition = ir.Logic(
        "and", (ir.Compare("<", x, a), ir.Logic("not", (ir.Compare("==", x, ir.ZERO),)))
    )
    expr = ir.Add((
        ir.Mul((ir.Number(Fraction(3, 4)), x)), ir.Div(x, a), ir.Helper("sum_0"), ir.IntPow(a, 3),
        ir.Constant("pi", 3.141592653589793),
        ir.Select(condition, ir.call("pow", a, ir.number(2)), ir.ONE),
    ))  # fmt: skip
    text = emit(tiny(expr, helpers=(series,)))
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    kernel = cache.store("0" * 64, "tiny", text)
    expected = 0.75 * 0.5 + 0.5 / 1.3 + 1.3**3 + 1.7726372048266521 + np.pi + 1.3**2
    assert kernel.loss(0.5, np.array([1.3])) == pytest.approx(expected, rel=1e-15)
    out = np.empty(1)
    kernel.loss_many(np.array([0.5]), np.array([1.3]), out)
    assert out[0] == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("series", [SERIES, ENDLESS_SERIES])
def test_sums_go_on_where_the_first_terms_are_no_doubles(series):
    """Poisson masses of rate 5000, thousands of which are zeros to doubles; a sum of nothing."""

    def term(n, theta):
        return math.exp(n * math.log(5000.0) - 5000.0 - math.lgamma(n + 1.0))

    text = textwrap.indent(series.format(term="term", tail="tail"), "    ")
    space = {"math": math, "term": term, "tail": None}
    exec(f"def total(lo, hi, theta):\n{text}", space)
    assert space["total"](0.0, 1e5, ()) == pytest.approx(1.0, rel=1e-10)
    space["term"] = lambda n, theta: 0.0
    assert series is ENDLESS_SERIES or space["total"](0.0, 2e5, ()) == 0.0


def test_every_primitive_is_reachable():
    """Some mechanism, pass or whitelist entry leads to each prelude function."""
    from pathlib import Path

    import mechc.kernel

    room = Path(mechc.kernel.__file__).parent
    sources = [p.read_text() for p in room.rglob("*.py") if p.name != "prelude.py"]
    called = {callee for primitive in PRIMITIVES.values() for callee in primitive.calls}
    for name in PRIMITIVES:
        plain = name.removeprefix("complex_")
        assert name in called or any(f'"{plain}"' in text for text in sources), name


@pytest.mark.parametrize("value", [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -2.5, 1e22])
def test_literals_read_back_the_same(value):
    assert ast.literal_eval(literal(value)[0]) == value


def test_only_math_functions_that_numba_has():
    import math

    assert all(hasattr(math, name) for name in MATH_FUNCTIONS)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ["max", "float", "series_0", "term_of_series_1"],
            ("max_", "float_", "series_0_", "term_of_series_1_"),
        ),
        (("scale", "sensitivity"), ("scale", "sensitivity")),
        (("x", "theta", "lambda"), ("x_", "theta_", "lambda_")),
        (("t0", "log_p", "softplus"), ("t0_", "log_p_", "softplus_")),
        (("a b", "a_b", "2nd"), ("a_b", "a_b_", "p_2nd")),
    ],
)
def test_parameter_names_never_clash(names, expected):
    assert identifiers(names) == expected


def test_laws_that_overlap_in_any_order_are_told_apart_from_each_other():
    """Triangles of symbolic width: each density has its own pieces, and ends have names."""
    x, w, d = real("x"), positive("w", typical=(0.5, 5)), positive("d", default=1, typical=(0.1, 9))
    noise = Piecewise(((w - Abs(x)) / w**2, Abs(x) < w), (0, True))
    text = compile_declaration(
        additive("triangles", noise=noise, variable=x, sensitivity=d, parameters=(w, d))
    )
    of = {part.partition("(")[0]: part for part in re.split(r"\ndef ", text)}
    assert "d" not in re.findall(r"theta|\b[dw]\b", of["log_q"].partition("theta")[2])
    assert [line for line in text.splitlines() if "if x < " in line and " if " in line[12:]] == []
    kernel = as_python(text, {"__name__": "triangles"})
    for width, move in ((2.0, 0.5), (2.0, 3.0), (2.0, 5.0)):
        theta, xs = np.array([width, move]), np.linspace(-3.0, 9.0, 97) + 1e-3
        q, p = (np.maximum(width - abs(at), 0.0) / width**2 for at in (xs, xs - move))
        for name, density in (("log_q", q), ("log_p", p)):
            found, many = np.array([kernel[name](at, theta) for at in xs]), np.empty(xs.size)
            with np.errstate(divide="ignore"):
                kernel[f"{name}_many"](xs, theta, many)
                assert found == pytest.approx(np.log(density), rel=1e-13, abs=1e-13)
            assert (found == many).all() or found == pytest.approx(many, rel=1e-14)
        found = np.array([kernel["loss"](at, theta) for at in xs])
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = np.log(p) - np.log(q)
        assert found == pytest.approx(expected, rel=1e-11, abs=1e-13, nan_ok=True)


@pytest.mark.slow
def test_a_function_and_its_complement_are_one():
    """Beside erf(u), erfc(u) is 1 - erf(u): they stood in a tail as erf + erfc - 1 times exp."""
    text = source("huber")
    tail = text[text.index("def sf_q") : text.index("def cdf_p")]
    assert tail.count("math.erfc(") == 1
    x, a = real("x"), positive("a", typical=(1, 2))
    made = mechanism("ramp", variable=x, parameters=(a,), support=(0, a),
                     p=2 * (1 - x / a) / a, q=1 / a)  # fmt: skip
    header = compile_declaration(made).partition('"""\n\nimport')[0]
    assert "p = (2/a) * (1 - x/a)\n" in header
