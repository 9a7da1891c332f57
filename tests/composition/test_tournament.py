"""Mechanisms at one guarantee: the least noise of each, against known designs; the best shapes."""

import json
import math

import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from sympy import exp

import mechc
from mechc.declare import additive, count, positive, real
from mechc.errors import DeclarationError

TARGET = (1.0, 1e-6)


def analytic_sigma(epsilon, delta):
    """Balle and Wang 2018, Theorem 8."""

    def excess(s):
        a, b = 0.5 / s - epsilon * s, -0.5 / s - epsilon * s
        return norm.cdf(a) - math.exp(epsilon) * norm.cdf(b) - delta

    return brentq(excess, 0.1, 100.0, xtol=1e-14)


def test_the_least_noise_of_known_designs():
    names = ["laplace", "gaussian", "uniform", "discrete_laplace", "randomized_response"]
    found = mechc.tournament(target=TARGET, mechanisms=names)
    assert found["gaussian"].event.parameters["sigma"] == pytest.approx(
        analytic_sigma(*TARGET), rel=1e-8
    )
    # 1 - exp((1 - epsilon scale) / (2 scale)) = delta for Laplace below its pure guarantee
    scale = brentq(lambda b: 1 - math.exp((b - 1) / (2 * b)) - 1e-6, 0.9, 1.0, xtol=1e-15)
    assert found["laplace"].event.parameters["scale"] == pytest.approx(scale, rel=1e-8)
    assert found["uniform"].event.parameters["halfwidth"] == pytest.approx(0.5e6, rel=1e-6)
    assert found["randomized_response"].event is None and found["randomized_response"].why
    deviations = [e.errors["standard_deviation"] for e in found if e.event is not None]
    assert deviations == sorted(deviations) and found.best.errors["standard_deviation"] < 1.5
    for entrant in found:
        if entrant.event is not None:
            assert entrant.bound.upper <= 1e-6
            assert entrant.event.delta(1.0).upper <= 1e-6
    assert "one release" in str(found) and "randomized_response" in found._repr_html_()
    assert f"\nbest: {found.best.event}\nfor integers alone: discrete_laplace\n" in repr(found)
    assert "\nrandomized_response is not declared as noise" in str(found)
    assert json.loads(found.to_json())["entrants"][0]["mechanism"] == found.best.name


def test_many_releases_of_other_sensitivity_and_a_file(tmp_path):
    path = tmp_path / "twice.py"
    path.write_text(
        "from sympy import exp, pi, sqrt\n"
        "from mechc.declare import additive, positive, real\n"
        'x, width = real("x"), positive("width", typical=(0.5, 20))\n'
        'd = positive("reach", default=1)\n'
        "twice = additive('twice', noise=exp(-2 * x**2 / width**2) * sqrt(2 / pi) / width,\n"
        "    variable=x, sensitivity=d, parameters=(width, d))\n"
    )
    found = mechc.tournament(
        target=TARGET, count=25, sensitivity=3.0, mechanisms=[path, "gaussian"], rank="quantile_95"
    )
    sigma = 3.0 * 5.0 * analytic_sigma(*TARGET)  # 25 Gaussians are one of five times the distance
    assert found["gaussian"].event.parameters["sigma"] == pytest.approx(sigma, rel=1e-8)
    assert found["twice"].event.parameters["width"] == pytest.approx(2 * sigma, rel=1e-8)
    assert found["twice"].errors["quantile_95"] == pytest.approx(sigma * norm.ppf(0.975), rel=1e-8)


def test_releases_on_samples_meet_the_target(gaussian):
    found = mechc.tournament(target=TARGET, count=50, sampling=0.01, mechanisms=[gaussian])
    event = found.best.event
    delta = (50 * mechc.poisson(event, 0.01)).delta(1.0)
    assert delta.upper <= 1e-6 and delta.lower >= 1e-6 * (1 - 1e-6)


@pytest.mark.slow
def test_the_best_truncation_is_that_of_the_literature():
    """Geng et al. 2020, for one release: scale 1 / epsilon, cut where delta is left."""
    how = {"over": {"scale": (0.9, 1.5)}, "tolerance": 1e-4}
    found = mechc.optimise("truncated_laplace", target=TARGET, **how)
    cut = math.log1p((math.e - 1) / 2e-6)
    known = mechc.load("truncated_laplace")(scale=1.0, halfwidth=cut)
    assert known.delta(1.0).upper == pytest.approx(1e-6, rel=1e-6)
    assert found.error <= known.noise.variance().value * (1 + 1e-4)
    assert found.bound.upper <= 1e-6
    assert json.loads(found.to_json())["scale"] == found.values["scale"]
    assert "truncated_laplace(" in found._repr_html_()


def test_shapes_with_an_answer_are_found_next_to_one_end():
    def error(event):
        beta = event.parameters["beta"]
        return (beta - 1.2) ** 2 if beta < 1.5 else math.inf

    found = mechc.optimise("subbotin", over={"beta": (1, 4)}, target=TARGET, minimise=error)
    assert abs(found.values["beta"] - 1.2) < 0.01


@pytest.mark.slow
def test_between_laplace_and_gaussian(laplace, gaussian):
    found = mechc.optimise("subbotin", over={"beta": (1, 2)}, target=TARGET, count=10)
    ends = mechc.tournament(target=TARGET, count=10, mechanisms=[laplace, gaussian])
    least = min(entrant.errors["standard_deviation"] for entrant in ends)
    assert 1.0 <= found.values["beta"] <= 2.0 and found.error < least**2
    own = mechc.optimise(
        "subbotin", over={"beta": (1, 2)}, target=TARGET, count=10, tolerance=1e-3,
        minimise=lambda event: event.noise.absolute_error().value,
    )  # fmt: skip
    word = mechc.optimise("subbotin", over={"beta": (1, 2)}, target=TARGET, count=10,
                          tolerance=1e-3, minimise="absolute_error")  # fmt: skip
    assert own.values == word.values


@pytest.mark.slow
def test_integer_shapes_are_tried_at_integers():
    x, scale = real("x"), positive("scale", typical=(0.5, 20))
    k, m = (count(name, typical=(1, 9)) for name in "km")
    noise = exp(-abs(x) / (k * m * scale)) / (2 * k * m * scale)
    d = positive("d", default=1)
    made = additive("wide", noise=noise, variable=x, sensitivity=d, parameters=(k, m, scale, d))
    for ends, aim in (((2, 5), 4.2), ((1, 9), 2.2), ((1, 9), 7.6), ((1, 9), 9), ((2, 3), 2.1)):
        found = mechc.optimise(
            made, over={"k": ends}, target=TARGET, parameters={"m": 1},
            minimise=lambda event, aim=aim: (event.parameters["k"] - aim) ** 2,
        )  # fmt: skip
        assert found.values == {"k": round(aim)}
    best = {"k": 2, "m": 81}
    found = mechc.optimise(
        made, over={"k": (1, 9), "m": (1, 90)}, target=TARGET,
        minimise=lambda event: sum((event.parameters[n] - best[n]) ** 2 for n in best),
    )  # fmt: skip
    assert found.values == best


def test_mechanisms_of_one_name_are_told_apart_by_what_is_bound(laplace):
    subbotin = mechc.load("subbotin")
    both = [subbotin.bind(beta=beta) for beta in (2, 1)]
    found = mechc.tournament(target=TARGET, mechanisms=[*both, laplace, laplace])
    assert {e.name for e in found} == {"subbotin(beta=2)", "subbotin(beta=1)", "laplace"}
    assert found["subbotin(beta=1)"].event.parameters["beta"] == 1
    assert found["laplace"].errors == found.entrants[1].errors


@pytest.mark.parametrize("reach", [1e-20, 1e17])
def test_queries_of_any_size(laplace, reach):
    found = mechc.tournament(target=TARGET, sensitivity=reach, mechanisms=[laplace]).best
    unit = mechc.tournament(target=TARGET, mechanisms=[laplace]).best
    assert found.errors["absolute_error"] == pytest.approx(reach * unit.errors["absolute_error"])


def best_beta(**how):
    return mechc.optimise("subbotin", over={"beta": (1, 2)}, target=TARGET, **how)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mechc.tournament(target=1.0), r"target=1.0 \(expected \(epsilon, delta\)\)"),
        (lambda: mechc.tournament(target=(1, 2)), "delta=2"),
        (lambda: mechc.tournament(target=TARGET, count=0), "count=0"),
        (lambda: mechc.tournament(target=TARGET, rank="varianc"), "rank='varianc'"),
        (lambda: mechc.tournament(target=TARGET, rank=["variance"]), r"rank=\['variance'\]"),
        (lambda: mechc.tournament(target=TARGET, rank={}), "rank={}"),
        (lambda: best_beta(parameters={"sensitivity": 1}, sensitivity=2), "sensitivity=1 is bound"),
        (lambda: best_beta(minimise=lambda event: None), r"minimise of subbotin\(.* is None"),
        (lambda: best_beta(minimise=["variance"]), r"minimise=\['variance'\]"),
        (lambda: best_beta(tolerance="tight"), "tolerance='tight'"),
        (lambda: best_beta(tolerance=[1e-3]), "tolerance="),
        (lambda: mechc.tournament(target=TARGET, mechanisms=[]), "at least one"),
        (lambda: mechc.optimise("subbotin", over={"bta": (1, 2)}, target=TARGET), "mean beta"),
        (
            lambda: mechc.optimise("subbotin", over={"beta": (2, 1)}, target=TARGET),
            r"\(lower, upper",
        ),
        (lambda: mechc.optimise("subbotin", over={"beta": 2}, target=TARGET), r"\(lower, upper"),
        (lambda: mechc.optimise("subbotin", over="beta", target=TARGET), "over='beta'"),
        (lambda: mechc.tournament(target=TARGET, mechanisms="laplace"), "a list of them"),
        (lambda: mechc.optimise("subbotin", over={}, target=TARGET), "over="),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(DeclarationError, match=message):
        call()


def test_what_noise_is_less_of_where_a_parameter_grows():
    """One release of discrete Laplace noise, exp(-a |x|): delta is (1 - e^(eps-a)) / (1 + e^-a)."""
    (entrant,) = mechc.tournament(target=(1.0, 1e-6), mechanisms=["discrete_laplace"])
    exact = -math.log((1.0 - 1e-6) / (math.e + 1e-6))
    assert entrant.event.parameters["a"] == pytest.approx(exact, rel=3e-9)


@pytest.mark.slow
def test_noise_that_is_dear_to_account_for_is_as_small_as_it_can_be():
    """Binomial noise of many trials is normal: refused on the way, its variance was tripled."""
    found = mechc.tournament(target=(1.0, 1e-6), count=1000, mechanisms=["gaussian", "binomial"])
    normal, binomial = (entrant.errors["standard_deviation"] for entrant in found.entrants)
    assert normal < binomial < 1.001 * normal
