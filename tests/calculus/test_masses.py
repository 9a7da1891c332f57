"""What is not a pair of laws is refused, with the numbers found; what is one is accepted."""

import math

import mpmath
import numpy as np
import pytest
from front_evaluate import normalised
from front_examples import ADDITIVE, PAIRS
from sympy import (
    Abs,
    E,
    Heaviside,
    Piecewise,
    Rational,
    Sum,
    atan,
    besseli,
    exp,
    log,
    loggamma,
    oo,
    pi,
    sin,
    sqrt,
    zeta,
)  # fmt: skip

from mechc.calculus import normalise
from mechc.calculus.transform.sampling import poisson
from mechc.declare import (
    additive,
    count,
    integer,
    mechanism,
    parameter,
    positive,
    rate,
    real,
    shape,
)
from mechc.declare.text import declaration_from_text
from mechc.errors import DeclarationError
from mechc.symbolic import evaluate, quadrature
from mechc.symbolic.evaluate import Evaluator

x, n = real("x"), integer("n")
scale, sensitivity = positive("scale"), positive("sensitivity", default=1)
normal = exp(-(x**2) / 2) / sqrt(2 * pi)


def test_wrong_constant_is_reported_with_the_mass_found():
    declared = mechanism("half", variable=x, p=normal / 2, q=normal)
    with pytest.raises(DeclarationError, match=r"half: P has mass 0\.5, not 1"):
        normalise(declared)


@pytest.mark.parametrize(
    ("p", "q", "support"),
    [
        ("a*(1+x)**(-a-1)", "b*exp(-b*x)", ("0", "oo")),
        ("a*x**(-a-1)", "b*x**(-b-1)", ("1", "oo")),
        ("x**(a-1)*exp(-x)/gamma(a)", "x**(-b-1)*exp(-1/x)/gamma(b)", ("0", "oo")),
    ],
    ids=["lomax", "pareto", "inverse gamma"],
)
def test_heavy_tails_have_mass_one(p, q, support):
    declared = declaration_from_text(
        "heavy", p=p, q=q, support=support, parameters=["a > 0", "b > 0"]
    )
    assert normalise(declared).notes


def test_a_normaliser_right_for_one_scale_only_is_caught():
    # the published bug of a library: log(1/4) instead of log(1/(2 scale))
    declared = additive("stale", noise=exp(-Abs(x) / scale) / 4, variable=x,
                        sensitivity=sensitivity, parameters=(scale, sensitivity))  # fmt: skip
    with pytest.raises(DeclarationError, match=r"mass .* at scale="):
        normalise(declared)


@pytest.mark.parametrize(
    "density",
    [-normal, normal * (1 + 2 * sin(x)), normal * x],
    ids=["everywhere", "somewhere", "half"],
)
def test_negative_densities_are_refused(density):
    with pytest.raises(DeclarationError, match="negative"):
        normalise(mechanism("sinking", variable=x, p=density, q=normal))


def test_a_density_that_is_not_real_is_refused():
    with pytest.raises(DeclarationError, match=r"not a real number, as log\(x\) is none, at x="):
        normalise(mechanism("complex", variable=x, p=normal * log(x), q=normal))


def test_a_constant_that_is_not_real_is_named():
    """Which was said to overflow."""
    a, b = positive("a", typical=(1, 2)), positive("b", typical=(3, 4))
    for p in (sqrt(a - b) * normal, shape(sqrt(a - b) * normal)):
        with pytest.raises(DeclarationError, match=r": sqrt\(a - b\) is not a real number at a="):
            normalise(mechanism("complex", variable=x, p=p, q=normal, parameters=(a, b)))


def test_masses_that_cancel_in_doubles_say_so():
    """Student-t noise with three degrees of freedom on integers: tails n^-4, terms n^-2."""
    scale = positive("scale", typical=(0.5, 5))

    def below(y):
        u = y / (sqrt(3) * scale)
        return (atan(u) + u / (1 + u**2)) / pi

    masses = below(n + Rational(1, 2)) - below(n - Rational(1, 2))
    with pytest.raises(DeclarationError, match="terms that cancel"):
        normalise(additive("rounded", noise=masses, variable=n, sensitivity=1, lattice=True,
                           parameters=(scale,)))  # fmt: skip


def test_constants_that_are_negative_somewhere_point_to_domains():
    """Zipf's law with an exponent that may be below one."""
    s = positive("s", typical=(0.5, 5))
    zipf = additive("zipf", variable=n, sensitivity=1, lattice=True,
                    noise=(Abs(n) + 1) ** -s / (2 * zeta(s) - 1), parameters=(s,))  # fmt: skip
    with pytest.raises(DeclarationError, match=r"negative density.*expected a domain.*lo=1"):
        normalise(zipf)


def test_negative_masses_are_refused():
    r = parameter("r", -1, 1)
    with pytest.raises(DeclarationError, match="negative"):
        normalise(mechanism("flip", outcomes=[(r, 1 - r), (1 - r, r)], parameters=(r,)))


def test_outcomes_must_add_up():
    r = rate("r", typical=(0.1, 0.4))
    with pytest.raises(DeclarationError, match="Q has mass"):
        normalise(mechanism("lost", outcomes=[(r, r), (1 - r, r)], parameters=(r,)))


def test_disjoint_supports_are_refused():
    declared = mechanism("open", variable=x, p=exp(-x) * Heaviside(x), q=exp(x) * Heaviside(-x))
    with pytest.raises(DeclarationError, match="share no outcome"):
        normalise(declared)


def test_noise_that_is_narrower_than_its_move_at_most_parameters_is_accepted():
    law = "gamma(a+3/2)/(gamma(a+1)*sqrt(pi)*w)*(1-(x/w)**2)**a"
    normalise(declaration_from_text("symmetric_beta", noise=law, support=("-w", "w")))


def test_wrong_support_is_refused():
    declared = mechanism("cut", variable=x, p=normal, q=normal, support=(-1, 1))
    with pytest.raises(DeclarationError, match=r"mass 0\.6826"):
        normalise(declared)


def test_infinite_mass_is_refused():
    with pytest.raises(DeclarationError, match="mass"):
        normalise(mechanism("flat", variable=x, p=1 / (1 + Abs(x)), q=normal))


def test_a_tail_that_doubles_do_not_reach_is_called_so():
    """Of 1 / (2 (e + |x|) log(e + |x|)^2) a mass of .0014 lies beyond the largest double."""
    slow = 1 / (2 * (E + Abs(x)) * log(E + Abs(x)) ** 2)
    with pytest.raises(DeclarationError, match="beyond all doubles"):
        normalise(
            additive(
                "slow", variable=x, sensitivity=sensitivity, parameters=(sensitivity,), noise=slow
            )
        )


def test_density_and_atoms_count_together():
    atoms = [(0, 0.25, 0.5)]
    with pytest.raises(DeclarationError, match=r"P has mass 0\.75"):
        normalise(mechanism("mixed", variable=x, p=normal / 2, q=normal / 2, atoms=atoms))
    normalise(mechanism("mixed", variable=x, p=3 * normal / 4, q=normal / 2, atoms=atoms))


def test_lattice_masses_are_summed_not_integrated():
    steps = count("sensitivity", default=1)
    with pytest.raises(DeclarationError, match="mass"):
        normalise(additive("sampled", noise=normal.subs(x, n), variable=n, sensitivity=steps,
                           parameters=(steps,), lattice=True))  # fmt: skip


@pytest.mark.few(0, 9, 14, 19, 30, 36, 41)
@pytest.mark.parametrize("declaration", [*ADDITIVE, *PAIRS], ids=lambda d: d.name)
@pytest.mark.parametrize("transform", [lambda d: d, poisson], ids=["plain", "poisson"])
def test_laws_are_accepted_and_the_error_noted(declaration, transform):
    assert "mass one" in normalised(transform(declaration)).notes[0]


def test_heavy_tails_and_far_narrow_peaks_are_integrated():
    s = positive("s", typical=(1e-3, 1e-2))
    far = additive("far", noise=exp(-((x / s) ** 2) / 2) / (s * sqrt(2 * pi)), variable=x,
                   sensitivity=1000, parameters=(s,))  # fmt: skip
    assert "mass one" in normalise(far).notes[0]
    pareto = Piecewise((x ** (-1.25) / 4, x > 1), (0, True))
    heavy = additive("pareto", noise=pareto, variable=x, sensitivity=1, parameters=(),
                     support=(0, oo))  # fmt: skip
    assert "mass one" in normalise(heavy).notes[0]


def test_differences_of_large_terms_keep_their_digits():
    """Far out loggamma(n) - loggamma(n + 11) is 0 in double precision, in truth -11 log n."""
    n = integer("n")
    log = Evaluator(loggamma(n) - loggamma(n + 11), n, ()).at(())
    x = np.array([1e2, 1e6, 1e18, 1e60])
    exact = [float(mpmath.loggamma(v) - mpmath.loggamma(v + 11)) for v in map(mpmath.mpf, x[:2])]
    expected = [*exact, *(-11 * np.log(x[2:]))]
    assert log(x) == pytest.approx(expected, rel=1e-9)


def test_kinks_in_the_index_of_a_sum_cut_nothing():
    n, k, a = integer("n"), integer("k"), positive("a", typical=(0.5, 2))
    total = Sum(exp(-a * Abs(k)), (k, -oo, oo))
    declared = mechanism(
        "summed", variable=n, p=exp(-a * Abs(n - 1)) / total, q=exp(-a * Abs(n)) / total,
        parameters=(a,), lattice=True,
    )  # fmt: skip
    (case,) = normalise(declared).cases
    assert len(case.pieces) == 3  # left, between and right of the two centres


def test_waves_without_end_are_in_doubt_by_what_they_were_off():
    """Their periods are as many as there are doubles; as many panels would be laid."""
    asked = []

    def density(v):
        asked.append(v.size)
        return (np.sin(v) / v) ** 2 / math.pi

    found, doubt = quadrature.integral_and_doubt(density, -math.inf, math.inf, [0.0])
    assert abs(found - 1) <= doubt <= 1e-2
    assert sum(asked) < 2e6


def test_splines_vanish_at_their_ends_without_cancelling():
    """The sum of four uniform variables, each arm as the alternating sum in which books have it."""
    u = x + 4
    arms = [sum((-1) ** k * math.comb(4, k) * (u - 2 * k) ** 3 for k in range(j)) for j in range(5)]
    noise = Piecewise((0, u <= 0), *((arms[j], u <= 2 * j) for j in (1, 2, 3, 4)), (0, True)) / 96
    declared = additive(
        "spline", noise=noise, variable=x, sensitivity=sensitivity, parameters=(sensitivity,)
    )
    pair = normalise(declared)
    (last,) = [piece.q for piece in pair.cases[0].pieces if piece.q][-1]
    found = Evaluator(log(last.weight) + last.log_density, x, pair.parameters).at((1.0,))
    truth = 3 * math.log(1e-9) - math.log(96)
    assert found(np.array([4 - 1e-9]))[0] == pytest.approx(truth, abs=1e-5)


def test_logs_of_bessel_functions_far_beyond_tables():
    log_density = Evaluator(log(besseli(1, x)), x, ())
    with mpmath.workdps(30):
        truth = [float(mpmath.log(mpmath.besseli(1, v))) for v in (2e6, 1e10)]
    assert log_density.at(())(np.array([2e6, 1e10])) == pytest.approx(truth, rel=1e-15)


def test_heavy_tail_of_a_logarithm():
    """Beyond 1e8 the tail of log(1 + (s/x)^2) is lost where one and the square are added up."""
    mass = log(1 + (scale / x) ** 2) / (2 * pi * scale)
    normalise(mechanism("tail", variable=x, p=mass, q=mass, parameters=(scale,)))


def test_far_out_few_points_are_asked_for_exactly(monkeypatch):
    """Where exp(-x)/(1 + exp(-x))^2 is inf/inf in doubles; its mass is one all the same."""
    asked = []
    exactly = evaluate.evaluate
    monkeypatch.setattr(
        evaluate, "evaluate", lambda expr, given: asked.append(given) or exactly(expr, given)
    )
    w, u = rate("w", typical=(0.1, 0.4)), rate("u", typical=(0.1, 0.4))
    logistic = exp(-x) / (1 + exp(-x)) ** 2
    mixed = w * normal + u * exp(-Abs(x)) / 2 + (1 - w - u) * logistic
    normalise(mechanism("mixed", variable=x, p=mixed, q=mixed, parameters=(w, u)))
    assert len(asked) < 5000
