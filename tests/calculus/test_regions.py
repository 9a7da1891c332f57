"""Losses, directions, limits and coverage of the regions, against the declared densities."""

from itertools import pairwise

import mpmath
import pytest
from calculus_zoo import SHIPPED, SMOOTH, UNSEEN, cases, declared, density, derived, vectors
from sympy import S, Symbol, log

from mechc.calculus import normalise
from mechc.calculus.regions import refine
from mechc.calculus.terms import Term
from mechc.declare.text import limited
from mechc.symbolic.evaluate import evaluate
from mechc.symbolic.functions import clamped

NAMES = cases(
    *(m for m in SHIPPED if m not in ("randomized_response", "approximate_dp")),
    *(f"poisson:{m}" for m in SMOOTH),
    *(f"add:poisson:{m}" for m in ("gaussian", "laplace", "student_t", "gaussian_scale")),
    *UNSEEN,
    *(f"poisson:{m}" for m in ("gumbel", "huber", "one_sided", "two_normals")),
)


def ends_of(region, vector):
    return evaluate(region.lo, vector), evaluate(region.hi, vector)


def points(lo, hi, integer):
    """Points of an interval, deep tails included."""
    if lo == -mpmath.inf and hi == mpmath.inf:
        found = [mpmath.mpf(v) for v in ("-33.1", "-2.3", "0.41", "1.7", "29.3")]
    elif lo == -mpmath.inf:
        found = [hi - mpmath.mpf(v) for v in ("41.3", "3.1", "0.013")]
    elif hi == mpmath.inf:
        found = [lo + mpmath.mpf(v) for v in ("0.013", "3.1", "41.3")]
    else:
        found = [lo + (hi - lo) * mpmath.mpf(f) for f in ("0.00013", "0.371", "0.932")]
    if integer:
        found = sorted({min(max(mpmath.nint(v), lo), hi) for v in found})
    return found


def regions(name, count=1):
    calculus = derived(name)
    for case in calculus.cases:
        for vector in vectors(calculus, case, count):
            for region in case.regions:
                lo, hi = ends_of(region, vector)
                if lo < hi or (lo == hi and calculus.pair.measure == "lattice"):
                    yield calculus, vector, region, lo, hi


@pytest.mark.few(0, 6, 17, 28, 37, 43)
@pytest.mark.parametrize("name", NAMES)
def test_loss_is_the_logarithm_of_the_declared_ratio(name):
    p, q = density(name, "p"), density(name, "q")
    with mpmath.workdps(60):
        for calculus, vector, region, lo, hi in regions(name, count=2):
            x = calculus.pair.variable
            for at in points(lo, hi, calculus.pair.measure == "lattice"):
                over, under = p(at, vector), q(at, vector)
                assert (over > 0) == (region.kind != "q_only")
                assert (under > 0) == (region.kind != "p_only")
                if region.loss is not None:
                    truth = mpmath.log(over) - mpmath.log(under)
                    found = evaluate(region.loss, {**vector, x: at})
                    assert abs(found - truth) <= mpmath.mpf(10) ** -25 * (1 + abs(truth))


@pytest.mark.parametrize("name", NAMES)
def test_loss_moves_in_the_stated_direction(name):
    with mpmath.workdps(60):
        for calculus, vector, region, lo, hi in regions(name):
            if region.kind not in ("increasing", "decreasing", "plateau"):
                continue
            x = calculus.pair.variable
            at = points(lo, hi, calculus.pair.measure == "lattice")
            losses = [evaluate(region.loss, {**vector, x: v}) for v in at]
            sign = {"increasing": 1, "decreasing": -1, "plateau": 0}[region.kind]
            for left, right in pairwise(losses):
                assert mpmath.sign(right - left) == sign


@pytest.mark.parametrize("name", NAMES)
def test_limits_are_approached(name):
    # exp(exp(x)) has as many bits as exp(x) says
    steps = (4, 9) if "gumbel" in name else (8, 24)
    with mpmath.workdps(80):
        for calculus, vector, region, lo, hi in regions(name):
            if region.loss is None or calculus.pair.measure == "lattice":
                continue
            x = calculus.pair.variable
            for limit, path in ((region.loss_lo, (lo, hi)), (region.loss_hi, (hi, lo))):
                if limit is None:
                    assert any(end.has(clamped) for end in (region.lo, region.hi))
                    continue
                limit = evaluate(limit, vector)
                near, nearer = (
                    evaluate(region.loss, {**vector, x: approach(*path, step)}) for step in steps
                )
                if mpmath.isinf(limit):
                    assert mpmath.sign(nearer) == mpmath.sign(limit)
                    assert abs(nearer) > abs(near)
                else:
                    assert abs(nearer - limit) <= max(abs(near - limit), mpmath.mpf(10) ** -60)
                    assert abs(nearer - limit) < 0.02


def approach(end, other, step):
    """A point near an end; the further the step the nearer."""
    if end == mpmath.inf:
        return mpmath.mpf(2) ** step
    if end == -mpmath.inf:
        return -(mpmath.mpf(2) ** step)
    width = 1 if mpmath.isinf(other) else (other - end)
    return end + mpmath.sign(other - end) * abs(width) * mpmath.mpf(10) ** -step


@pytest.mark.parametrize("name", NAMES)
def test_regions_follow_each_other(name):
    calculus = derived(name)
    for case in calculus.cases:
        for vector in vectors(calculus, case, 1):
            with mpmath.workdps(40):
                ends = [ends_of(region, vector) for region in case.regions]
                step = 1 if calculus.pair.measure == "lattice" else 0
                for (_, hi), (lo, _) in pairwise(ends):
                    assert lo >= hi + step or abs(lo - hi - step) < mpmath.mpf(10) ** -30


@pytest.mark.parametrize("name", ["student_t", "cauchy", "poisson:student_t"])
def test_extrema_of_student_t(name):
    """x = (D -+ sqrt(D^2 + 4 nu s^2))/2 and |L| <= (nu + 1) asinh(D/(2 sqrt(nu) s))."""
    calculus = derived(name)
    (case,) = calculus.cases
    assert [r.kind for r in case.regions] == ["decreasing", "increasing", "decreasing"]
    with mpmath.workdps(40):
        for vector in vectors(calculus, case):
            values = {s.name: v for s, v in vector.items()}
            nu, s, d = values.get("nu", 1), values["scale"], values["sensitivity"]
            root = mpmath.sqrt(d**2 + 4 * nu * s**2)
            lo, hi = ends_of(case.regions[1], vector)
            assert mpmath.almosteq(lo, (d - root) / 2)
            assert mpmath.almosteq(hi, (d + root) / 2)
            top = (nu + 1) * mpmath.asinh(d / (2 * mpmath.sqrt(nu) * s))
            if "sampling_rate" in values:
                r = values["sampling_rate"]
                top = mpmath.log(1 - r + r * mpmath.exp(top))
            assert mpmath.almosteq(evaluate(case.regions[1].loss_hi, vector), top)


def test_cases_of_subbotin():
    kinds = {str(c.condition): [r.kind for r in c.regions] for c in derived("subbotin").cases}
    assert kinds == {
        "beta > 1": ["increasing"] * 3,
        "Eq(beta, 1)": ["plateau", "increasing", "plateau"],
        "1 > beta": ["decreasing", "increasing", "decreasing"],
    }


def test_cases_of_gaussian_scale():
    kinds = {str(c.condition): [r.kind for r in c.regions] for c in derived("gaussian_scale").cases}
    assert kinds == {
        "sp > sq": ["decreasing", "increasing"],
        "Eq(sp, sq)": ["plateau"],
        "sq > sp": ["increasing", "decreasing"],
    }


@pytest.mark.parametrize("name", ["laplace", "poisson:laplace", "add:poisson:laplace"])
def test_plateaus_of_laplace(name):
    (case,) = derived(name).cases
    assert [r.kind for r in case.regions][::2] == ["plateau", "plateau"]


@pytest.mark.parametrize("name", ["scale_mixture", "exponential_against_weibull"])
def test_what_cannot_be_decided_is_unsplit(name):
    """As an extremum that has no formula."""
    (case,) = derived(name).cases
    assert [r.kind for r in case.regions] == ["unsplit"]
    assert any("split numerically" in note for note in derived(name).notes)


def test_singular_point_is_a_boundary():
    (case,) = derived("zero_inside").cases
    first = case.regions[0]
    assert (first.kind, first.hi, first.loss_hi.is_infinite) == ("increasing", 0, True)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["laplace_and_normal", "two_geometrics"])
def test_mixtures_are_left_unsplit_in_time(name):
    pair = normalise(declared(name))
    with limited(8_000_000):  # calls, which once were 43 million
        refined = refine(pair)  # laplace_and_normal without one of the two is a case
    kinds = [region.kind for region in refined[-1].regions]
    assert len(refined) <= 2 and kinds == ["unsplit", "increasing", "unsplit"]


def test_a_log_of_zero_at_the_end_of_a_domain():
    """A factor that is zero there takes the term away; one that is infinite does not."""
    x, w = Symbol("x", real=True), Symbol("w", positive=True)
    assert Term(S.One, log(1 - w) - x).subs(w, S.One).weight == 0
    assert Term(S.One, -log(1 - w) - x).subs(w, S.One).weight == 1
    assert Term(w, -x).subs(w, S.One) == Term(S.One, -x)
