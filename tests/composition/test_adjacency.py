"""Neighbouring relations: carried everywhere, never mixed; claims; what a Bound says of itself."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

import mechc
from mechc.accountants.bound import Bound, Quantity
from mechc.declare import transforms
from mechc.errors import DeclarationError, UnsupportedError

HALVES = ([0.5, 0.5], [0.4, 0.6])
LOSSES = ([math.log(1.25), math.log(5 / 6)], HALVES[0])


def replacing(sigma=1.0):
    return mechc.poisson(mechc.load("gaussian"), 0.01, adjacency="replace")(sigma=sigma)


def adding(sigma=1.0):
    return mechc.poisson(mechc.load("gaussian"), 0.01)(sigma=sigma)


@pytest.mark.parametrize(
    "other",
    [
        replacing,
        lambda: mechc.load("randomized_response")(epsilon=1.0, categories=2.0),
        lambda: mechc.from_pmfs(*HALVES, adjacency="replace"),
        lambda: mechc.from_losses(*LOSSES, adjacency="replace"),
        lambda: mechc.zcdp(0.1, adjacency="replace"),
        lambda: mechc.rdp([2.0], [0.1], adjacency=mechc.Adjacency.REPLACE),
    ],
)
def test_relations_are_not_mixed(other):
    assert other().adjacency is mechc.Adjacency.REPLACE
    for refused in (
        lambda: 10 * adding() + 10 * other(),
        lambda: other() + adding(),
        lambda: mechc.compose((adding(), 3), other()),
        lambda: mechc.product(other(), adding()),
        lambda: mechc.mixture([adding(), other()], [0.5, 0.5]),
        lambda: mechc.mixture([adding()], [1.0], beneath=other()),
    ):
        with pytest.raises(
            DeclarationError, match=r"add/remove .* replace |replace .* add/remove "
        ):
            refused()


@pytest.mark.parametrize("event", [adding, replacing])
def test_any_joins_either(event, gaussian):
    table = mechc.from_pmfs(*HALVES)
    run = 2 * event() + gaussian(sigma=2.0, sensitivity=2.0) + table
    assert table.adjacency == "any"
    assert run.adjacency is event().adjacency
    assert run.delta(0.5).adjacency is event().adjacency


def test_equal_tables_for_different_relations_are_different_events():
    one, other = (mechc.from_pmfs(*HALVES, adjacency=a) for a in ("add_remove", "replace"))
    assert one != other
    with pytest.raises(DeclarationError, match="pmfs"):
        one + other


def test_a_mixture_above_an_event_of_fewer_directions(gaussian):
    """A sampled pair is not symmetric, the event below it is."""
    above = mechc.mixture([mechc.poisson(gaussian, 0.5)(sigma=1.0)], [1.0],
                          beneath=gaussian(sigma=4.0))  # fmt: skip
    assert above.delta(0.0).lower == pytest.approx(2 * ndtr(0.125) - 1, rel=1e-9)
    assert above.delta(0.0).upper == pytest.approx(ndtr(0.5) - 0.5, rel=1e-3)
    # that it is below is the word of whoever says so
    assert any("at least gaussian(sigma=4" in words for words in above.delta(0.0).claim.assumptions)


def test_mixtures_above_different_events_are_different(gaussian):
    far, near = gaussian(sigma=50.0), gaussian(sigma=2.0)
    above = [mechc.mixture([near], [1.0], beneath=event) for event in (far, near)]
    least, most = (near + far).delta(0.5), (2 * near).delta(0.5)
    for run in (above[0] + above[1], above[1] + above[0]):
        assert run.delta(0.5).lower <= least.upper and run.delta(0.5).upper >= most.lower


def test_samples_of_mixtures_above_different_events_are_different():
    """What is below one of them was that of both, of the one that came first."""
    near, far = mechc.from_pmfs([0.8, 0.2], [0.2, 0.8]), mechc.from_pmfs([0.6, 0.4], [0.4, 0.6])
    one, other = (
        mechc.poisson(mechc.mixture([near], [1.0], beneath=event), 0.5) for event in (near, far)
    )
    assert one != other
    least = (mechc.poisson(near, 0.5) + mechc.poisson(far, 0.5)).delta(0.2)
    for run in (mechc.compose(one, other), mechc.compose(other, one)):
        assert run.delta(0.2).lower <= least.upper


@pytest.mark.few(0, 1, 2, 4, 5)
@pytest.mark.parametrize(
    "left",
    [
        lambda g: g.at(sigma=2.0),
        lambda g: g + g.at(sensitivity=1.0),
        lambda g: g.at(sensitivity=1.0) + g,
        lambda g: mechc.mixture([g], [1.0]),
        lambda g: mechc.radial(g, 3),
        lambda g: mechc.post_process(g, [0.5]),
    ],
)
def test_a_default_sensitivity_is_remembered(left, gaussian):
    g, other = gaussian(sigma=1.0), mechc.load("randomized_response")(epsilon=0.5)
    for refused in (
        lambda: left(g) + other,
        lambda: mechc.mixture([g, other], [0.5, 0.5]),
        lambda: mechc.mixture([g], [1.0], adjacency="replace"),
    ):
        with pytest.raises(DeclarationError, match="default sensitivity"):
            refused()
    assert (left(gaussian(sigma=1.0, sensitivity=1.0)) + other).adjacency == "replace"


@pytest.mark.parametrize(
    ("relation", "status"), [("add_remove", "proven"), ("replace", "declared")]
)
def test_noise_that_is_not_symmetric_is_not_proven_for_both_signs(relation, status):
    passed = mechc.load("exponential").transformed(transforms.Shuffled(relation))(
        scale=1.0, sensitivity=1.0
    )
    assert passed.adjacency == relation and passed.claim.status == status


def test_figures_of_several_relations_name_them():
    from matplotlib.text import Text

    drawn = adding().plot(kind="steps", counts=[1, 2], beside={"other": replacing()})
    words = " ".join(text.get_text() for text in drawn.findobj(Text))
    assert "this run (add/remove)" in words and "other (replace)" in words


def test_a_mixture_for_another_relation_is_declared():
    part = mechc.without_replacement(mechc.load("laplace"), 0.1)(scale=2.0, sensitivity=2.0)
    assert mechc.mixture([part], [1.0]).claim.status == "proven"
    handed = mechc.mixture([part], [1.0], adjacency="add_remove")
    assert (handed.claim.status, handed.adjacency) == ("declared", "add_remove")


@pytest.mark.parametrize("count", [1, 3])
def test_all_replace_against_a_closed_form(count):
    """At rate 1 under replacement the pair is N(1, s^2) against N(-1, s^2)."""
    sigma, epsilon = 3.0, 0.5
    mu = 2.0 * math.sqrt(count) / sigma
    exact = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    whole = mechc.poisson(mechc.load("gaussian"), 1.0, adjacency="replace")(sigma=sigma)
    assert (count * whole).delta(epsilon).upper == pytest.approx(exact, rel=1e-9)


def test_status_says_whether_the_pair_is_proven(gaussian):
    assert (3 * adding()).delta(1.0).status == "proven"
    declared = (3 * adding() + mechc.load("gdp")(mu=0.1)).delta([0.5, 1.0])
    assert declared.status == "proven for the declared pair"
    assert declared.claim.status == "declared" and declared.claim.about == "gdp"
    words = " ".join(declared.claim.assumptions)
    assert "mu-GDP" in words and "enters the sample" in words
    assert declared.adjacency == "add_remove"
    estimate = adding().epsilon(1e-5, method="saddlepoint")
    assert estimate.status == "estimate" and estimate.claim.status == "proven"


def test_every_query_carries_claim_and_relation():
    run = 4 * replacing(3.0)
    answers = (run.delta(0.1), run.log_delta(0.1), run.epsilon(1e-5), run.tradeoff(0.1),
               run.advantage(), run.renyi(2.0), run.gdp(),
               run.epsilon_curve(1e-5, [1, 2]))  # fmt: skip
    for answer in answers:
        assert answer.adjacency == "replace" and answer.claim.status == "declared"
        assert answer.status == "proven for the declared pair"
        assert json.loads(answer.to_json())["claim"]["adjacency"] == "replace"


def test_a_bound_compares_and_formats_as_its_safe_side():
    epsilon = Bound(2.38111, 2.38115, 2.38119, "contour", "proven", {}, Quantity.EPSILON)
    assert f"{epsilon:.3f}" == "2.382" and float(epsilon) == 2.38119
    assert epsilon < 2.4 and not epsilon < 2.38115 and epsilon >= 2.38119 and epsilon > 2.381
    missed = Bound(0.74561, 0.7457, 0.74579, "auto", "proven", {}, Quantity.FALSE_NEGATIVE_RATE)
    assert f"{missed:.3f}" == "0.745" and float(missed) == 0.74561
    assert missed <= 0.74561 and missed < 0.7457
    assert str(missed) == "false negative rate 0.74561 (proven, auto)"


def test_a_bound_in_fewer_digits_is_rounded_outward():
    for quantity, side in ((Quantity.EPSILON, 1.0), (Quantity.FALSE_NEGATIVE_RATE, -1.0)):
        exact = np.array([0.1, 0.3, 1 / 3, 2.70003, 1e-50, 1e300, math.nan])
        bound = Bound(exact, exact, exact, "auto", "proven", {}, quantity)
        for kind in (np.float16, np.float32):
            short = np.asarray(bound, kind).astype(float)
            assert (side * (short - exact)[:-1] >= 0.0).all() and math.isnan(short[-1])
        assert np.array_equal(np.asarray(bound), exact, equal_nan=True)
        for cut in (lambda b: np.asarray(b, int), lambda b: int(b[1]), lambda b: math.floor(b[1])):
            with pytest.raises(DeclarationError, match="without arithmetic"):
                cut(bound)


def test_arrays_print_and_compare(gaussian):
    answer = (10 * gaussian(sigma=20.0)).delta([0.1, 0.2, math.inf])
    assert f"{answer:.2e}".startswith("[") and f"{answer:.2e}".count(",") == 2
    assert str(answer).startswith("delta [") and str(answer).endswith("contour+limit)")
    assert (answer < 0.5).all() and (answer >= answer.upper).all()
    assert np.shape(json.loads(answer.to_json())["upper"]) == (3,)


def test_one_line_of_print(gaussian):
    run = 10 * adding(0.8)
    assert str(run.epsilon(1e-5)).endswith("(proven, add/remove, contour)")
    assert str(run.epsilon(1e-5)).startswith("epsilon ")
    nothing = run.epsilon(1e-5, method="saddlepoint")
    assert "unknown, estimate" in str(nothing) and f"{nothing:.3f}" == "nan"
    assert not nothing < 1e9


def run_cli(*words):
    from typer.testing import CliRunner

    from mechc.cli.commands import app

    return CliRunner().invoke(app, [str(w) for w in words])


GAUSSIAN = ("gaussian", "--set", "sigma=1")


@pytest.mark.parametrize(
    "command",
    [
        ("epsilon", *GAUSSIAN, "--delta", "1e-5"),
        ("delta", *GAUSSIAN, "--epsilon", "1"),
        ("curve", *GAUSSIAN, "--counts", "1,2"),
        ("compare", *GAUSSIAN, "--delta", "1e-5"),
        ("calibrate", "gaussian", "--solve-for", "sigma", "--epsilon", "1", "--delta", "1e-5"),
        ("show", "gaussian"),
        ("emit", "gaussian", "-o", "never.py"),
        ("report", "gaussian", "-o", "never.html"),
        ("verify", "gaussian"),
    ],
)
def test_the_option_is_refused_where_it_cannot_act(command):
    for word, said in (("bogus", "adjacency='bogus'"), ("replace", "twice the clipping norm")):
        refused = run_cli(*command, "--adjacency", word)
        assert refused.exit_code == 2 and refused.stdout == ""
        assert said in " ".join(refused.stderr.split())


def test_the_option_acts_or_agrees():
    """N(0, 1) moved by 2 is N(0, 1/4) moved by 1: Gaussian privacy with mu = 2."""
    words = ("--delta", "1e-5", "--adjacency", "replace", "--json")
    given = json.loads(run_cli("epsilon", *GAUSSIAN, "--set", "sensitivity=2", *words).stdout)
    whole = json.loads(run_cli("epsilon", *GAUSSIAN, "--poisson", "1", *words).stdout)
    plain = json.loads(run_cli("epsilon", "gdp", "--set", "mu=2", *words).stdout)
    assert given["upper"] == pytest.approx(plain["upper"], rel=1e-9)
    assert whole["upper"] == pytest.approx(plain["upper"], rel=1e-9)
    assert {a["adjacency"] for a in (given, whole, plain)} == {"replace"}
    assert (given["status"], whole["status"]) == ("proven", "proven for the declared pair")
    wrong = run_cli("epsilon", "randomized_response", "--set", "epsilon=1", "--set", "categories=2",
                    "--delta", "0.1", "--adjacency", "add_remove")  # fmt: skip
    assert wrong.exit_code == 2 and "replace neighbours" in wrong.stderr


def test_the_terminal_shows_claim_and_relation():
    words = ("--poisson", "0.01", "--delta", "1e-5")
    shown = " ".join(run_cli("epsilon", *GAUSSIAN, *words).stdout.split())
    assert "adjacency add/remove" in shown and "proven by T6" in shown
    assert "every record enters the sample independently" in shown
    shown = run_cli("epsilon", *GAUSSIAN, *words, "--adjacency", "replace").stdout
    assert "proven for the declared pair" in shown


def test_run_files_have_a_relation(tmp_path):
    step = '[[step]]\nmechanism = "gaussian"\npoisson = 0.1\nparameters = {sigma = 2.0}\n'
    file = tmp_path / "run.toml"
    file.write_text('epsilons = [1.0]\nadjacency = "replace"\n' + step)
    from mechc.composition.run_file import read

    assert read(file)[0].adjacency == "replace"
    for text in (step + step + 'adjacency = "replace"\n', 'adjacency = "bogus"\n' + step,
                 'adjacency = "replace"\n' + step.replace("poisson = 0.1\n", "")):  # fmt: skip
        file.write_text(text)
        with pytest.raises(DeclarationError, match="replace"):
            read(file)


def grouped(size=5):
    return mechc.group(mechc.load("gaussian"), size)


@pytest.mark.parametrize(
    "sampled",
    [
        lambda: mechc.poisson(grouped(), 0.01),
        lambda: mechc.poisson(grouped(), 0.01, adjacency="replace"),
        lambda: mechc.poisson(grouped()(sigma=0.3), 0.01),
        lambda: mechc.poisson(mechc.shift(grouped(), 2.0), 0.01),
        lambda: mechc.poisson(mechc.vector(grouped(), "l2"), 0.01),
        lambda: mechc.poisson(mechc.truncate(grouped(), -9.0, 9.0), 0.01),
        lambda: mechc.poisson(mechc.group(mechc.poisson(mechc.load("gaussian"), 0.1), 2), 0.1),
        lambda: mechc.poisson(mechc.post_process(grouped()(sigma=1.0), [0.5]), 0.01),
        lambda: mechc.poisson(mechc.mixture([grouped()(sigma=9.0)], [1.0]), 0.01),
        lambda: mechc.without_replacement(grouped(), 0.1),
        lambda: mechc.without_replacement(grouped()(sigma=0.3, sensitivity=2.0), 0.1),
        lambda: mechc.with_replacement(grouped(), dataset_size=100, batch_size=5),
        lambda: mechc.reductions.drawn_with_replacement(
            grouped()(sigma=0.3, sensitivity=2.0), dataset_size=100, batch_size=5
        ),
        lambda: mechc.random_sensitivity(grouped(), [1.0, 2.0], [0.5, 0.5]),
    ],
)
def test_groups_are_not_sampled_as_a_whole(sampled):
    with pytest.raises(UnsupportedError, match=r"group\(poisson\(m\), size\)|whole group"):
        sampled()


def test_moves_do_not_drop_a_factor():
    with pytest.raises(UnsupportedError, match="factor, sensitivity would do nothing"):
        mechc.random_sensitivity(mechc.shift(mechc.load("laplace"), 2.0), [1.0], [1.0])(scale=1.0)


@pytest.mark.parametrize("step", [
    transforms.Poisson(), transforms.WithoutReplacement(), transforms.WithReplacement(3),
    transforms.RandomSensitivity(2), transforms.Shuffled("add_remove"),
])  # fmt: skip
def test_declarations_of_groups_claim_nothing_on_samples(step):
    from mechc.calculus import transform
    from mechc.calculus.claims import claim_of
    from mechc.calculus.transform import sensitivity

    grouped = sensitivity.group(mechc.load("laplace").declaration)
    with pytest.raises(UnsupportedError, match="group"):
        claim_of(transform.apply(grouped, step))


@pytest.mark.slow
def test_a_group_sampled_record_by_record_against_brute_force():
    """Bin(5, .01) members are in the sample; each moves a Gaussian of scale .3 by one."""
    rate, sigma, size = 0.01, 0.3, 5
    x = np.linspace(-6.0, 11.0, 400_001)
    weights = [math.comb(size, k) * rate**k * (1 - rate) ** (size - k) for k in range(size + 1)]
    laws = [np.exp(-0.5 * ((x - k) / sigma) ** 2) for k in range(size + 1)]
    gap = np.dot(weights, laws) - laws[0]
    exact = np.maximum(gap, 0.0).sum() * (x[1] - x[0]) / (sigma * math.sqrt(2 * math.pi))
    event = mechc.group(mechc.poisson(mechc.load("gaussian"), rate), size)(sigma=sigma)
    assert exact == pytest.approx(0.0444, abs=5e-5)
    assert event.delta(0.0).upper == pytest.approx(exact, rel=1e-6)
    assert event.claim.status == "proven" and event.claim.group == "5"


def test_groups_compose_with_groups_of_their_size(gaussian):
    run = 3 * grouped(5)(sigma=9.0) + gaussian(sigma=4.0, sensitivity=5.0)
    assert run.claim.group == "5"
    twice = mechc.group(grouped(5), 2)(sigma=90.0)
    alone = gaussian(sigma=9.0, sensitivity=1.0).delta(0.0).upper
    assert twice.claim.group == "10" and twice.delta(0.0).upper == pytest.approx(alone, rel=1e-14)
    for other in (grouped(4)(sigma=9.0), adding()):
        with pytest.raises(DeclarationError, match="differ in"):
            run + other
    with pytest.raises(
        DeclarationError, match=r"default sensitivity.* differ in 5 .*group\(m, 5\)"
    ):
        run + mechc.load("laplace")(scale=9.0)
    assert (run + mechc.load("laplace")(scale=9.0, sensitivity=2.0)).claim.group == "5"
    many, more = (mechc.group(gaussian, 1_234_567 + i)(sigma=9.0) for i in range(2))
    with pytest.raises(DeclarationError, match=r"1234567 .* 1234568"):
        many + more


def test_the_sensitivity_of_a_subset_has_to_be_given(gaussian):
    from mechc.reductions import drawn_with_replacement

    for ask in (
        lambda: mechc.without_replacement(gaussian, 0.1)(sigma=1.0),
        lambda: mechc.without_replacement(gaussian(sigma=1.0), 0.1),
        lambda: mechc.without_replacement(mechc.load("discrete_laplace"), 0.1)(a=1.0),
        lambda: drawn_with_replacement(gaussian(sigma=1.0), dataset_size=9, batch_size=2),
    ):
        with pytest.raises(DeclarationError, match=r"sensitivity.*twice a clipping norm"):
            ask()


def test_samplers_say_which_norm_their_sensitivity_is(gaussian):
    replaced = mechc.without_replacement(gaussian, 0.1)(sigma=1.0, sensitivity=2.0)
    for other in (replaced, mechc.load("randomized_response")(epsilon=1.0)):
        for run in (
            lambda o=other: 3 * gaussian(sigma=1.0) + o,
            lambda o=other: o + gaussian(sigma=1.0),
        ):
            with pytest.raises(DeclarationError, match="twice a clipping norm"):
                run()
        both = gaussian(sigma=1.0, sensitivity=2.0) + other
        assert both.adjacency == "replace" and both.delta(1.0).lower >= other.delta(1.0).lower
    assert "twice a clipping norm" in str(replaced.delta(1.0).claim)
    draws = mechc.with_replacement(gaussian, dataset_size=50, batch_size=2)(sigma=1.0)
    for clipped in (replacing(), draws):
        assert ": a clipping norm" in str(clipped.claim)
        assert "a clipping norm" in str(clipped.mechanism.explain())


def test_claims_cannot_be_handed_in():
    from sympy import Symbol

    from mechc.calculus.claims import claim_of
    from mechc.calculus.transform.sampling import poisson
    from mechc.calculus.transform.sensitivity import vector
    from mechc.declare import Claim, Derived

    laplace = mechc.load("laplace").declaration
    proven = Claim("proven", "T1", "any")
    with pytest.raises(DeclarationError, match="only what mechc has checked is proven"):
        replace(laplace, claim=proven)
    wider = laplace.p.subs(Symbol("scale", positive=True), 2)
    sampled = poisson(laplace)
    step = vector(laplace, "l1").construction
    forged = (
        replace(laplace, p=wider),
        replace(laplace, construction=replace(laplace.construction, sensitivity=wider)),
        replace(sampled, p=laplace.p),
        replace(sampled, construction=replace(sampled.construction, adjacency="replace")),
        replace(vector(laplace, "l1"), construction=replace(step, theorem="T9")),
        replace(
            sampled,
            construction=Derived(laplace, transforms.Shift(), "T9", mechc.Adjacency.ANY),
        ),
    )
    for declaration in forged:
        with pytest.raises(DeclarationError, match="not those"):
            claim_of(declaration)
        with pytest.raises(DeclarationError, match="not those"):
            mechc.load(declaration).kernel  # noqa: B018


@pytest.mark.parametrize("name", ["claim", "origin", "transforms", "bound", "adjacency"])
def test_claims_are_not_handed_in(gaussian, name):
    for made in (gaussian, mechc.poisson(gaussian, 0.1)):
        with pytest.raises(AttributeError):
            setattr(made, name, made.claim)
        assert getattr(made, name) is not made.claim or name == "claim"


@pytest.mark.parametrize(
    "name", ["claim", "adjacency", "mechanism", "theta", "defaulted", "parts", "upper_only"]
)
def test_attributes_of_events_and_compositions_do_not_change(gaussian, name):
    event = gaussian(sigma=1.0)
    table = mechc.from_pmfs([0.5, 0.5], [0.4, 0.6], adjacency="replace")
    allocated = mechc.random_allocation(gaussian, steps=4)(sigma=1.0)
    for made in (event, 3 * event, event + gaussian(sigma=2.0), table, allocated, mechc.zcdp(0.1)):
        with pytest.raises(AttributeError):
            setattr(made, name, getattr(made, name, None))
