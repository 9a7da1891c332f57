"""What may be called proven: theorem T1 for shifts, T6 for sampling, and nothing else."""

import copy
import pickle
from dataclasses import fields, replace

import pytest
from built_in import declaration
from front_evaluate import normalised
from front_examples import BIMODAL, BY_NAME
from sympy import Abs, Piecewise, Rational, atan, cos, exp, oo, pi, sqrt, tanh

import mechc
from mechc.calculus import normalise
from mechc.calculus.claims import claim_of
from mechc.calculus.noise_shape import centre_of, is_log_concave
from mechc.calculus.transform.sampling import poisson
from mechc.calculus.transform.sensitivity import random_sensitivity
from mechc.declare import Claim, additive, count, dominates, integer, mechanism, positive, real
from mechc.declare.declaration import Derived
from mechc.declare.transforms import Unlisted
from mechc.errors import DeclarationError, UnsupportedError

x, n = real("x"), integer("n")
scale, sensitivity = positive("scale"), positive("sensitivity", default=1)


def _noise(density, parameters=(sensitivity,), **options):
    return additive("n", noise=density, variable=x, sensitivity=sensitivity, parameters=parameters,
                    **options)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["gaussian", "laplace", "logistic", "student_t", "cauchy", "subbotin", "discrete_laplace",
     "discrete_gaussian", "uniform"],
)  # fmt: skip
def test_symmetric_unimodal_noise_is_proven_for_both_signs(name):
    claim = normalised(BY_NAME[name]).claim
    assert (claim.status, claim.theorem, claim.adjacency) == ("proven", "T1", "any")


@pytest.mark.parametrize(
    "name",
    ["hyperbolic_secant", "squared_secant", "two_gaussians", "truncated_laplace", "triangular",
     "huber", "parabola", "zeta", "three_points"],
)  # fmt: skip
def test_symmetric_examples_are_proven(name):
    claim = claim_of(BY_NAME[name])
    assert (claim.status, claim.theorem, claim.adjacency) == ("proven", "T1", "any")


@pytest.mark.parametrize(
    "name",
    ["binomial", "gaussian_scale_mixture", "huber", "hyperbolic_secant", "raised_cosine",
     "truncated_laplace"],
)  # fmt: skip
def test_unimodal_noise_of_the_catalogue_is_proven(name):
    claim = claim_of(declaration(name))
    assert (claim.status, claim.theorem, claim.adjacency) == ("proven", "T1", "any")


@pytest.mark.parametrize(
    "name",
    [
        "gumbel",
        "exponential",
        "asymmetric_laplace",
        "heaviside",
        "geometric",
        "gamma",
        "modified_gaussian",
        "skew_normal",
    ],
)
def test_asymmetric_noise_is_proven_for_upward_moves_only(name):
    claim = claim_of(BY_NAME[name])
    assert (claim.status, claim.theorem, claim.adjacency) == ("proven", "T1", "add_remove")
    assert "only upwards" in claim.assumptions[0]


def test_what_is_only_sampled_is_declared():
    skew = exp(-((x / scale) ** 2) / 2) * (1 + tanh(x / scale) / 3) / (scale * sqrt(2 * pi))
    claim = claim_of(_noise(skew, (scale, sensitivity)))
    assert claim.status == "declared"
    assert "not proved" in claim.assumptions[0]


def test_one_plus_cosine_is_proven():
    assert claim_of(BY_NAME["raised_cosine"]).status == "proven"


def test_bimodal_noise_is_never_proven():
    # the shift by 3 tells more than the shift by 6: delta(0) is .996 against .500
    claim = claim_of(BIMODAL)
    assert claim.status == "declared"
    assert claim.theorem is None
    assert "not unimodal" in claim.assumptions[0]
    assert "by exactly sensitivity" in claim.assumptions[0]


def _hills(height, width):
    normal = exp(-(x**2) / 2) / sqrt(2 * pi)
    hill = exp(-((x - 4) ** 2) / (2 * width**2)) / (width * sqrt(2 * pi))
    return (1 - height) * normal + height * hill


@pytest.mark.parametrize(
    "density",
    [
        _hills(Rational(1, 10), Rational(1, 2)),
        _hills(Rational(1, 1000), Rational(1, 10)),
        Piecewise((Rational(1, 8), Abs(x) < 1), (Rational(3, 8), Abs(x) < 2), (0, True)),
        Piecewise((exp(-x) * x**2 / 4, x > 0), (exp(x) * x**2 / 4, True)),
    ],
    ids=["hill", "small hill", "trench", "two gammas"],
)
def test_other_shapes_with_two_maxima_are_not_proven(density):
    claim = claim_of(_noise(density))
    assert claim.status == "declared"


def test_a_jump_upwards_after_the_mode_is_not_proven():
    # each piece falls, but the second starts above the end of the first
    density = Piecewise((exp(-x), (x >= 0) & (x < 1)), (exp(-(x - 1)) * exp(-1), x >= 1), (0, True))
    assert claim_of(_noise(density)).status == "proven"
    weight = 1 / (2 - exp(-1))
    jumping = Piecewise((weight * exp(-x), (x >= 0) & (x < 1)), (weight * exp(-(x - 1)), x >= 1),
                        (0, True))  # fmt: skip
    assert claim_of(_noise(jumping)).status == "declared"


def test_a_gap_in_the_support_is_not_proven():
    gap = Piecewise((Rational(1, 2), (Abs(x) > 1) & (Abs(x) < 2)), (0, True))
    assert claim_of(_noise(gap)).status == "declared"


def test_a_lattice_with_two_maxima_is_not_proven():
    d = count("sensitivity", default=1)
    density = Piecewise((Rational(1, 2), n**2 <= 4), (0, True)) * Piecewise(
        (0, n**2 < 4), (1, True)
    )
    claim = claim_of(additive("ends", noise=density, variable=n, sensitivity=d, parameters=(d,),
                              lattice=True))  # fmt: skip
    assert claim.status == "declared"


def test_almost_symmetric_noise_is_not_called_symmetric():
    tilt = Rational(1, 10**9)
    skew = Piecewise((exp(-x), x >= 0), (exp(x * (1 + tilt)), True)) / (1 + 1 / (1 + tilt))
    assert claim_of(_noise(skew)).adjacency == "add_remove"


def test_symmetry_about_another_point_is_found():
    moved = exp(-((x - 5) ** 2) / 2) / sqrt(2 * pi)
    assert claim_of(_noise(moved)).adjacency == "any"
    assert claim_of(_noise(exp(-Abs(x - scale)) / 2, (scale, sensitivity))).adjacency == "any"


def test_a_difference_of_an_odd_function_is_symmetric():
    smoothed = (atan((x + 1) / scale) - atan((x - 1) / scale)) / (2 * pi)
    assert claim_of(_noise(smoothed, (scale, sensitivity))).adjacency == "any"
    skew = (atan((x + 1) / scale) - atan((x - 2) / scale)) / (3 * pi)
    assert centre_of(_noise(skew, (scale, sensitivity))) != 0


def test_a_plain_pair_asserts_nothing_by_itself():
    claim = claim_of(mechanism("pair", variable=x, p=exp(-Abs(x - 1)) / 2, q=exp(-Abs(x)) / 2))
    assert claim.status == "declared"
    assert claim.theorem is None


def test_claims_put_into_copies_are_refused():
    """They were taken at their word: no construction of a copy asks its author again."""
    halves = (Rational(2, 3), Rational(1, 3))
    made = mechanism("given", outcomes=[halves, halves[::-1]], claim=dominates("any", because="so"))
    for again in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        other = again(made)
        object.__setattr__(other, "claim", Claim("proven", "T1", "any"))
        for use in (claim_of, normalise, lambda one: mechc.load(one)().epsilon(0.1)):
            with pytest.raises(DeclarationError, match="only what mechc has checked is proven"):
                use(other)


def test_the_authors_claim_stands_and_stays_declared():
    theirs = dominates("replace", because="by construction")
    made = _noise(exp(-Abs(x)) / 2, claim=theirs)
    assert claim_of(made) == Claim("declared", None, "replace", (), ("by construction",))


def test_sampling_rests_on_the_base_pair():
    proven = claim_of(poisson(BY_NAME["hyperbolic_secant"]))
    assert (proven.status, proven.theorem, proven.adjacency) == ("proven", "T6", "add_remove")
    assert any("independently" in a for a in proven.assumptions)
    upward = claim_of(poisson(BY_NAME["gumbel"]))
    assert upward.status == "proven"
    assert "only upwards" in upward.assumptions[0]
    assert claim_of(poisson(BIMODAL)).status == "declared"


def test_sampling_twice_rests_on_the_first_sampling():
    assert claim_of(poisson(poisson(BY_NAME["hyperbolic_secant"]))).status == "proven"


def test_sampling_a_pair_for_replacement_is_only_declared():
    response = BY_NAME["randomized_response"]
    claim = claim_of(poisson(response))
    assert claim.status == "declared"
    assert any("replacement" in a for a in claim.assumptions)


def test_sampling_under_replacement_is_only_declared():
    claim = claim_of(poisson(BY_NAME["hyperbolic_secant"], adjacency="replace"))
    assert (claim.status, claim.adjacency) == ("declared", "replace")


def test_one_sided_support_counts_as_a_jump():
    claim = claim_of(_noise(exp(-x), support=(0, oo)))
    assert claim.status == "proven"
    rising = _noise(exp(x), support=(-oo, 0))
    assert claim_of(rising).status == "proven"


def test_a_tent_on_the_integers_is_unimodal():
    """Its two pieces meet in log(reach + 1) and log(reach), symbolic both."""
    n, reach, moves = integer("n"), count("reach", lo=1), count("sensitivity", default=1)
    tent = additive(
        "tent", noise=(reach + 1 - Abs(n)) / (reach + 1) ** 2, variable=n, support=(-reach, reach),
        sensitivity=moves, parameters=(reach, moves), lattice=True,
    )  # fmt: skip
    assert claim_of(tent).status == "proven"


@pytest.mark.parametrize("noise", ["student_t", "cauchy"])
def test_random_moves_of_heavy_tailed_noise_are_declared_for_these_moves_only(noise):
    claim = claim_of(random_sensitivity(BY_NAME[noise], 2))
    assert (claim.status, claim.theorem) == ("declared", None)
    assert "by exactly sensitivities_i" in claim.assumptions[0]


def test_random_moves_of_log_concave_noise_are_proven():
    for noise in ("laplace", "discrete_laplace", "gumbel"):
        claim = claim_of(random_sensitivity(BY_NAME[noise], 2))
        assert (claim.status, claim.theorem, claim.adjacency) == ("proven", "T8", "add_remove")
        assert "by at most sensitivities_i" in claim.assumptions[0]


@pytest.mark.parametrize(
    ("density", "support"),
    [
        (cos(x) ** 2, (-5, 5)),
        ((x**2 - 1) ** 2, (Rational(-3, 2), Rational(3, 2))),
        (2 + atan(1 / x), (-1, 1)),
        (2 - tanh(1 / x), (-1, 1)),
        (1 + cos(x), (-9, 9)),
    ],
)
def test_signs_of_derivatives_prove_nothing_across_zeros_and_jumps(density, support):
    # concave logarithms, or slopes of one sign, on every side of places where they are infinite
    noise = _noise(density, support=support)
    assert claim_of(noise).status == "declared"
    assert not is_log_concave(replace(noise, q=noise.construction.noise, p=noise.q))


def test_nobody_else_may_say_proven():
    with pytest.raises(DeclarationError, match="only what mechc has checked is proven"):
        _noise(exp(-Abs(x)) / 2, claim=Claim("proven", "T1", "any"))


def test_what_an_author_asserts_of_noise_is_kept_at_other_distances():
    """Groups, longer and random moves were proven, for any neighbours, whatever the author says."""
    theirs = _noise(exp(-Abs(x)) / 2, claim=dominates("replace", because="by construction"))
    moved = (
        mechc.shift(theirs, 2.0), mechc.group(theirs, 2), mechc.random_sensitivity(theirs, [1], [1])
    )  # fmt: skip
    for made in moved:
        claim = made().claim
        assert (claim.status, claim.adjacency) == ("declared", "replace")
        assert claim.assumptions[0] == "by construction"
        with pytest.raises(UnsupportedError, match=r"for replacing a record|records of a group"):
            mechc.poisson(made, 0.1).claim  # noqa: B018 - compiles
    assert mechc.group(theirs, 2)().claim.group == "2"
    assert mechc.radial(mechc.load(theirs)(), 2).claim.assumptions[0] == "by construction"
    for size in ("abc", "2*", "-1"):
        with pytest.raises(DeclarationError, match="is no number, and no parameter"):
            _noise(exp(-Abs(x)) / 2, claim=Claim("declared", None, "any", group=size + "x"))


def test_what_was_built_is_told_by_the_formulas_as_they_are():
    """A digest that was kept, or a class that states another, spoke for a pair that is not it."""
    made = _noise(exp(-Abs(x)) / 2)
    near = made.q.subs(made.variable, made.variable - made.parameters[0].symbol / 9)
    other = replace(made, p=near)
    other.__dict__["canonical"] = made.canonical

    class Other(type(made)):
        canonical = made.canonical

    parts = {f.name: getattr(made, f.name) for f in fields(made)}
    for forged in (other, Other(**{**parts, "p": near})):
        with pytest.raises(DeclarationError, match="not those that the declaration was built with"):
            claim_of(forged)


def test_a_copy_with_unknown_symbols_is_refused():
    with pytest.raises(DeclarationError, match="n uses another symbol named sensitivity"):
        normalise(replace(_noise(exp(-Abs(x)) / 2), p=exp(-Abs(x - sensitivity / 9)) / 2))


def test_a_step_that_nobody_knows_is_refused():
    class Nothing(Unlisted):
        word = "nothing"

    made = _noise(exp(-Abs(x)) / 2)
    with pytest.raises(DeclarationError, match="is no known transformation"):
        claim_of(replace(made, construction=Derived(made, Nothing(), "T9", "any")))
