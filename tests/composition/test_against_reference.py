"""Random questions about declared pairs, against a reference that knows two log densities only."""

import math

import pytest
import truth
from mpmath import mp

families = pytest.importorskip("families")
questions = pytest.importorskip("questions")
reference = pytest.importorskip("reference")
pytestmark = pytest.mark.oracle

EVERY = [(name, kind) for kind in ("plain", "poisson") for name in families.FAMILIES]
EVERY += [(name, "without_replacement") for name in families.SYMMETRIC]
VECTORS = 6


def by_hand(name, **values):
    return questions.by_hand(name, values)


@pytest.mark.parametrize("epsilon", [-3.0, 0.5, 28.0])
def test_one_step_of_the_reference_has_a_closed_form(epsilon):
    pair = by_hand("gaussian_noise", s=1.3, d=1.0)
    exact = truth.gaussian(1 / 1.3, epsilon)
    for least, most in (pair.one_step(epsilon), pair.one_step_in_balls(epsilon)):
        assert least <= exact + 1e-13 * abs(exact) and exact - 1e-13 * abs(exact) <= most
        assert most - least < 1e-9


@pytest.mark.parametrize(("count", "epsilon"), [(2, 0.7), (3, 50.0), (1000, 300.0)])
def test_many_steps_of_the_reference_have_a_closed_form(count, epsilon):
    least, most = by_hand("gaussian_noise", s=1.3, d=1.0).log_delta(epsilon, count)
    exact = truth.gaussian(math.sqrt(count) / 1.3, epsilon)
    assert least <= exact <= most
    assert most - least < 0.1


def test_the_reference_knows_that_a_loss_has_no_moments():
    """Nodes up to losses of 1e285 have all of them: by a tilt of 1e-8 delta was below exp(-669)."""
    pair = by_hand("reciprocal_exponentials", s=1.7975478598238397, t=1.0934378445481845)
    least, most = pair.reversed().log_delta(0.6259378623520635, 2)
    assert least <= -0.4497 <= most  # sampled 2e6 times


def test_listed_sums_of_the_reference_are_those_of_a_convolution():
    pair = by_hand("three_outcomes", zero=0.4, other=0.2, peak=0.3)
    law = [(math.log(0.12 / 0.14), 0.12), (math.log(0.28 / 0.06), 0.28), (math.log(0.6 / 0.8), 0.6)]
    least, most = pair.log_delta(1.0, 30)
    exact = truth.atoms(law, 30, 1.0)
    assert least - 1e-9 <= exact <= most + 1e-9
    assert most - least < 1e-8


def test_masses_of_the_reference_that_are_nearly_one_keep_their_digits():
    values = {"s": 0.93, "tau": 17.0, "d": 1.0, "sampling_rate": 1.5e-10}
    found = questions.by_hand("unseen_key", values, "poisson").atoms[:, 0].max()
    with mp.workdps(40):
        shown = mp.erfc((mp.mpf(17) - 1) / mp.mpf(0.93) / mp.sqrt(2)) / 2
        exact = -mp.mpf(1.5e-10) * shown  # to a share of its own size, 1e-76
    assert abs(found / float(exact) - 1) < 1e-14


@pytest.mark.few(0)
@pytest.mark.parametrize("name", ["exp_weibull", "gamma_integer_shapes"])
def test_nothing_contradicts_the_reference(name):
    judged, _, wrong, _ = questions.examine(name, 0, singles=12, others=1)
    assert judged and not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_nothing_contradicts_the_reference_anywhere(name, kind):
    """Some 40 000 questions in all, each set of parameters in processes of its own."""
    mechanism = questions.load(name, kind)
    for seed in range(VECTORS):
        _, _, wrong, _ = questions.examine(name, seed, kind, 60, 3, mechanism)
        assert not wrong, "\n".join(wrong)


@pytest.mark.few(1)
@pytest.mark.parametrize("epsilon", [8.642e-13, 8.65085780787922e-13, 8.6595e-13])
def test_losses_of_the_size_of_their_rounding_leave_no_kink_in_a_panel(epsilon):
    """Losses of 1e-12, where rounding of logs of 1e-14 hides between which nodes they cross."""
    values = {
        "s": 1.16314205630036,
        "t": 2.3167891842237087,
        "sampling_rate": 4.290902462323115e-12,
    }
    pair = questions.by_hand("logistic_gaussian", values, "poisson").reversed()
    event = questions.load("logistic_gaussian", "poisson")(**values)
    found = event.log_delta(epsilon, direction="add")
    least, most = pair.one_step_in_balls(epsilon)
    assert found.lower <= most and least <= found.upper
    assert found.upper - found.lower < 1e-11


def test_a_largest_loss_is_as_sharp_as_the_terms_of_its_formula():
    """It is 8.8e-17 above this epsilon; 18 ulps of it are lost with log gamma functions."""
    values = {
        "a": 4.130563242271605,
        "b": 6.862002096177347,
        "c": 1.1805611295210885,
        "s": 2.7987009025286884,
    }
    found = questions.load("betas")(**values).log_delta(0.7043074766956336, direction="remove")
    assert found.lower <= -55.6008044113199 <= found.upper  # by mpmath with 60 digits


@pytest.mark.few(0, 2)
@pytest.mark.parametrize("ulps", [-9, -1, 0, 1])
def test_a_loss_that_turns_just_above_epsilon_is_counted_beside_farther_ones(ulps):
    """The top in the middle, not the largest loss, is 3e-16 above the epsilon of `ulps` = 0."""
    values = {"s": 0.48306755042176924, "t": 2.75099447742612}
    epsilon = questions.next_to(1.2722054257093163, ulps)
    found = questions.load("logistic_gaussian")(**values).log_delta(epsilon, direction="remove")
    least, most = by_hand("logistic_gaussian", **values).one_step_in_balls(epsilon)
    assert found.lower <= most and least <= found.upper < -43.0
    if ulps == 0:
        assert found.lower <= -53.959878411028009 <= found.upper  # by mpmath with 60 digits


@pytest.mark.few(0)
@pytest.mark.parametrize(
    ("name", "values", "epsilon"),
    [
        pytest.param(
            "cauchies", {"mean": 0.06294298724215867, "s": 0.3079630177826794,
                         "t": 2.551521257294886, "sampling_rate": 2.03290056391843e-07},
            1.7876855161798117e-07,
        ),
        ("truncated_laplace", {"s": 0.3864543414396769, "w": 22.192114190237987, "d": 1.0,
                               "sampling_rate": 0.5212055840848216}, 0.6578029238009533),
    ],
)  # fmt: skip
def test_turns_and_levels_at_epsilon_are_counted_beside_next_to_nothing(name, values, epsilon):
    """Half an ulp below a turn far out, and below a level that is not the largest loss."""
    reference = questions.by_hand(name, values, "poisson").reversed()
    found = questions.load(name, "poisson")(**values).log_delta(epsilon, direction="add")
    least, most = reference.one_step_in_balls(epsilon)
    assert found.lower <= most and least <= found.upper < -30.0


def test_a_top_an_ulp_above_epsilon_is_as_wide_as_doubles_place_it():
    """Its loss is 2.4e-16 above epsilon, in doubles at a few outputs only: .5 % of delta."""
    found = questions.load("logistic_gaussian")(s=0.40010077282285583, t=2.0097715638433304)
    bound = found.log_delta(1.1467040694145134, direction="remove")
    assert bound.lower <= -49.051254734 <= bound.upper < -44.0  # by mpmath with 50 digits


def test_no_mass_is_lost_where_densities_are_below_all_doubles():
    """A tail out to 1e301: what was beyond 1e295 was left out, 6e-10 and 1e-7 of delta.

    Truth by incomplete beta functions with 60 digits.
    """
    values = {"a": 2.288138295088525, "b": 0.889483593386061, "c": 3.382360845464689,
              "s": 1.810186960783694, "sampling_rate": 3.3716519268796748e-06}  # fmt: skip
    event = questions.load("beta_primes", "poisson")(**values)
    for epsilon, exact in (
        (550.0, -557.80377497891208), (588.9833436089853, -595.46524748284427),
        (600.0, -606.10834433767229),
    ):  # fmt: skip
        found = event.log_delta(epsilon, direction="remove")
        assert found.lower <= exact <= found.upper
