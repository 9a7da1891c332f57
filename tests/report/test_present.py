"""What people read: numbers rounded to the safe side, explanations, figures."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mechc
from mechc.cli import comparison
from mechc.errors import UnsupportedError
from mechc.report.tables import number


@given(st.floats(min_value=1e-300, max_value=1e300), st.integers(2, 17))
def test_printed_bounds_stay_bounds(value, digits):
    lower, upper = (Decimal(number(value, side, digits)) for side in ("lower", "upper"))
    assert lower <= Decimal(value) <= upper
    assert upper - lower <= Decimal(10) ** (Decimal(value).adjusted() + 2 - digits)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "-"),
        (float("inf"), "inf"),
        (0.0, "0"),
        (0.25, "0.25"),
        (3.7e-134, "3.7e-134"),
    ],
)
def test_numbers_without_digits(value, text):
    assert number(value) == text


def test_explanation_in_three_forms(laplace):
    explanation = laplace.explain()
    text = str(explanation)
    assert "plateau on (-inf, 0)" in text
    assert "dominating, proven by T1" in text
    assert "assumed" in text and "sensitivity" in text
    assert "<table>" in explanation._repr_html_() and r"\frac" in explanation._repr_html_()
    assert explanation._repr_latex_().startswith("$$")
    assert laplace._repr_html_() == explanation._repr_html_()


def test_explanation_says_which_entries_are_numeric_and_why():
    text = str(mechc.load("student_t").explain())
    assert "closed (" in text
    for line in text.splitlines():
        if "numeric:" in line or "unavailable:" in line:
            assert len(line.split(":", 1)[1].strip()) > 5  # a reason follows


def test_explanation_shows_a_pair_declared_for_add(tmp_path):
    path = tmp_path / "two_pairs.py"
    path.write_text(
        "from sympy import exp, pi, sqrt\n"
        "from mechc.declare import mechanism, real\n"
        'x = real("x")\n'
        "n = lambda m: exp(-(x - m) ** 2 / 2) / sqrt(2 * pi)\n"
        'two_pairs = mechanism("two_pairs", variable=x, p=n(1), q=n(0), reverse=(n(2), n(0)))\n'
    )
    mechanism = mechc.load(path)
    assert "add direction: " in str(mechanism.explain())
    gaussian = mechc.load("gaussian")
    remove, add = (mechanism().delta(0.5, direction=d) for d in ("remove", "add"))
    assert remove.estimate == pytest.approx(gaussian(sigma=1.0).delta(0.5).estimate, rel=1e-9)
    assert add.estimate == pytest.approx(gaussian(sigma=0.5).delta(0.5).estimate, rel=1e-9)
    assert mechanism().delta(0.5).estimate == add.estimate
    again = mechc.load(path)  # both kernels from the cache
    assert again().delta(0.5, direction="add").estimate == pytest.approx(add.estimate)


def test_comparison_asks_every_method_and_shows_refusals(laplace):
    found = comparison.answers(laplace(scale=1.0).composition(), epsilon=0.5, delta=None)
    answer, seconds = found["lattice"]
    assert isinstance(answer, str) and "lattice" in answer
    assert seconds > 0
    assert {m.name for m in mechc.methods()} <= {label.split()[0].split(":")[0] for label in found}
    assert "edgeworth interval=True" in found


def test_both_edgeworth_intervals(laplace):
    run = 2000 * laplace(scale=40.0)
    published, sharper = (
        run.delta(2.0, method="edgeworth", interval=True, error=error)
        for error in ("moments", "best")
    )
    truth = run.delta(2.0)
    assert published.lower < sharper.lower < truth.lower
    assert truth.upper < sharper.upper < published.upper


def test_figure(tmp_path, laplace):
    asked = {"kind": "steps", "counts": [1, 2, 3], "methods": ("auto", "clt")}
    path = tmp_path / "figure.png"
    laplace(scale=9.0).plot(path, **asked)
    assert path.read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(UnsupportedError, match="cannot write the figure"):
        laplace(scale=9.0).plot(tmp_path / "missing" / "figure.png", **asked)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["laplace", "gaussian", "student_t"])
def test_an_explanation_of_a_simple_mechanism_is_read_on_a_screen(name):
    mechanism = mechc.load(name)
    short, whole = str(mechanism.explain()), str(mechanism.explain(whole=True))
    assert len(short.splitlines()) <= 25 < len(whole.splitlines()) <= 60
    assert max(map(len, short.splitlines())) < 500
    assert "explain(whole=True)" not in whole
    assert "cdf" not in short and "cdf under Q" in whole


def test_an_explanation_speaks_as_papers_do(laplace):
    text = str(laplace.explain())
    assert "b = scale" in text and "Delta = sensitivity" in text
    assert "(0, Delta): L = 2*x/b - Delta/b, x = Delta/2 + b*ell/2" in text
    assert r"\Delta" in laplace.explain()._repr_html_()
    assert "K(z) = log E[exp(zL)]" in text


def test_a_loss_of_several_branches_is_written_once():
    text = str(mechc.load("cauchy").explain())
    assert text.count(": L = ") == 1 and text.count(": L as above") == 2
    assert mechc.load("cauchy").explain()._repr_latex_().count("L as above") == 2
