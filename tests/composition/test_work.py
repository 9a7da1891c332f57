"""The cap on the work of one query: counted, not timed; what is left then are wider bounds."""

import math

import pytest
from scipy.special import ndtr

import mechc
from mechc.composition.events import forget_losses
from mechc.errors import DeclarationError, MechcError, UnsupportedError
from mechc.numeric import allowance

CAPS = [1.0, 300.0, 3e3, 2e4, 1e5, 1e6]


def gaussian_delta(mu, epsilon):
    return ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


@pytest.fixture
def run():
    """Runs on losses that no other question has warmed; mu = 1, and nothing is kept of them."""

    def fresh():
        forget_losses()
        return 100 * mechc.load("gaussian")(sigma=10.0)

    yield fresh
    forget_losses()


@pytest.mark.parametrize("cap", CAPS)
def test_what_little_work_allows_holds_the_truth(run, cap):
    bound = run().delta(4.0, max_work=cap)
    assert 0.0 <= bound.lower <= gaussian_delta(1.0, 4.0) <= bound.upper <= 1.0
    epsilon = run().epsilon(gaussian_delta(1.0, 4.0), max_work=cap)
    assert 0.0 <= epsilon.lower <= 4.0 * (1 + 1e-9)
    assert epsilon.upper >= 4.0 * (1 - 1e-9)


def test_an_answer_says_that_the_cap_was_met_and_a_larger_one_is_not_spoilt_by_it(run):
    one = run()
    short = one.delta(4.0, max_work=3e3)
    assert "max_work=3000 is used up" in short.detail["max_work"]
    full = one.delta(4.0)
    assert "max_work" not in full.detail
    assert full.upper / full.lower - 1 < 1e-9
    assert short.upper > full.upper


def test_an_accountant_asked_for_by_name_is_refused(run):
    with pytest.raises(UnsupportedError, match=r"pld: max_work=1000 is used up.*max_work="):
        run().delta(4.0, method="pld", max_work=1e3)
    with pytest.raises(MechcError, match="max_work=10 is used up"):
        run().renyi(3.0, max_work=10)


@pytest.mark.parametrize("cap", [3e4, 1e5, 3e5, 5e5, 1e6])
def test_the_same_question_costs_the_same_whatever_was_asked_before(run, cap):
    """What was bound before was once free: little work answered .6, and .01 when asked again."""
    some = [mechc.load("gaussian")(sigma=1.0 + i) for i in range(8)]
    answers = []
    for before in ([], [], some, some[::3]):
        run()
        for event in before:
            event.delta(1.0)
        answers.append(mechc.compose(some).delta(2.0, max_work=cap))
        answers.append(mechc.compose(some).delta(2.0, max_work=cap))
    assert len({(a.lower, a.upper, a.method) for a in answers}) == 1


def test_masses_that_one_question_found_do_not_serve_the_next(run):
    """Of bounds on mu the second came .02215 as its estimate, above its upper side; the first nan.

    What masses lack to one was found once for all questions, and only the first paid for it.
    """
    run()
    steps = 300 * mechc.poisson(mechc.load("laplace"))(scale=2.3, sampling_rate=0.003)
    first, again = (steps.gdp(max_work=327403.94481861714) for _ in range(2))
    sides = [(b.lower, b.estimate, b.upper) for b in (first, again)]
    assert repr(sides[0]) == repr(sides[1])  # nan is not itself


def test_other_questions_keep_to_the_cap(run):
    assert math.isinf(run().gdp(max_work=1e3, epsilon_max=2.0).upper)
    curve = run().epsilon_curve(1e-6, [1, 2], max_work=1e3)
    assert (curve.upper > 0).all()
    rate = run().tradeoff(0.1, max_work=1e3)
    assert rate.lower <= ndtr(-1.0 - 1.2815515655446004 + 2 * 1.2815515655446004) <= rate.upper


def test_little_work_leaves_wide_bounds_on_mu():
    noise = mechc.load("logistic")(scale=2.0)
    whole = (10 * noise).gdp()
    for cap in (3e5, 1e6, 3e6, 5e6):
        part = (10 * noise).gdp(max_work=cap)
        assert part.lower <= whole.upper and whole.lower <= part.upper


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, "much", None])
def test_a_cap_is_a_positive_number(run, bad):
    with pytest.raises(DeclarationError, match="max_work"):
        run().delta(1.0, max_work=bad)


def test_work_outside_a_query_is_not_counted():
    allowance.spend(1e30)
    with allowance.limited(10.0, "auto"):
        allowance.spend(9.0)
        with allowance.limited(1e6, "auto"), pytest.raises(allowance.OutOfWorkError):
            allowance.spend(9.0)  # a question within a question has what the outer one has left
    assert allowance.allowed() == math.inf


def test_a_delta_of_nearly_one_does_not_tell_mu():
    """Once the largest mu at which a normal profile is one in doubles, 75, was an upper bound."""
    bound = mechc.load("gaussian")(sigma=1e-3).gdp(epsilon_max=1.0)
    assert bound.lower <= 1000.0 <= bound.upper


@pytest.mark.parametrize(
    "name", ["uniform", pytest.param("truncated_laplace", marks=pytest.mark.slow)]
)
def test_a_sample_of_all_records_is_none(name):
    """At rate 1 a branch of the sampled pair has mass under one law only: [0, 1] was the answer."""
    noise = mechc.load(name)
    values = {p.name: 2.0 if p.name == "scale" else 30.0 for p in noise.parameters}
    values["sensitivity"] = 1.0
    plain = (3 * noise(**values)).delta(0.1)
    whole = (3 * mechc.poisson(noise)(**values, sampling_rate=1.0)).delta(0.1)
    assert whole.upper == pytest.approx(plain.upper, rel=1e-12)
    assert whole.lower == pytest.approx(plain.lower, rel=1e-12)


def test_a_law_that_cannot_be_made_with_the_work_is_bounded():
    run = mechc.load("binomial")(trials=4000) * 100
    assert run.delta(1.0, max_work=1e5).upper == 1.0
