"""What notebooks show: everything escaped and balanced, numbers as they are."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import mechc
from mechc.errors import DeclarationError, UnsupportedError
from mechc.individual import GDPFilter, GDPOdometer, IndividualAccountant, SharedGDPFilter
from mechc.integrations.opacus import MechcAccountant as OpacusAccountant


def shown(what):
    html = what._repr_html_()
    page = ElementTree.fromstring(f"<div>{html.replace('<br>', '<br/>')}</div>")
    return " ".join("".join(page.itertext()).split())


def test_bounds_runs_and_calibrations_show_their_numbers_and_claims(gaussian, laplace):
    run = 1000 * gaussian(sigma=50.0) + laplace(scale=20.0)
    words = shown(run)
    for expected in ("1,000", "gaussian(sigma=50, sensitivity=1)", "proven by T1", "at most"):
        assert expected in words
    answer = run.epsilon(1e-5)
    assert repr(answer.upper) in shown(answer) and "assumed" in shown(answer)
    assert repr(answer).endswith("method='contour', status='proven')")
    found = mechc.calibrate(gaussian, solve_for="sigma", epsilon=1.0, delta=1e-5)
    assert shown(found).startswith(f"sigma = {found.value!r}")
    assert str(found).startswith("sigma = 3.7306316")
    many = gaussian(sigma=2.0).epsilon(np.logspace(-9, -1, 60))
    assert "the first 50 of 60" in shown(many) and "<b>" not in shown(many)


def test_each_of_several_answers_stands_beside_what_was_asked(gaussian):
    run = 10 * gaussian(sigma=9.0)
    for answer, word, values in (
        (run.delta([0.25, 0.75]), "epsilon", [0.25, 0.75]),
        (run.epsilon([1e-5, 1e-7]), "delta", [1e-5, 1e-7]),
        (run.epsilon(log_delta=[-50.0, -60.0]), "log_delta", [-50.0, -60.0]),
        (run.epsilon_curve(1e-5, [7, 3, 1])[:2], "count", [7, 3]),
        (run.tpr(np.array([[0.125, 0.5]])), "fpr", [[0.125, 0.5]]),
        (run.renyi([1.5, 4.0]), "order", [1.5, 4.0]),
    ):
        assert shown(answer).count(word) and answer.record()[word] == values
        for value, one in zip(np.ravel(values).tolist(), np.ravel(answer.upper), strict=True):
            lower = float(np.ravel(answer.lower)[np.ravel(answer.upper) == one][0])
            assert f"<tr><td>{value!r}</td><td>{lower!r}</td>" in answer._repr_html_()
    assert run.delta(0.25).at is None and run.delta([0.25, 0.75])[1].at is None
    given = np.array([0.25, 0.75])
    answer = run.delta(given)
    given[0] = 9.0
    assert answer.record()["epsilon"] == [0.25, 0.75]


def test_several_answers_are_a_sequence_whose_array_is_the_safe_side(gaussian):
    curve = gaussian(sigma=9.0).epsilon_curve(1e-5, [1, 10, 100])
    assert np.array_equal(np.asarray(curve), curve.upper) and curve[-1] == list(curve)[2]
    assert np.array_equal(curve[:2].lower, curve.lower[:2]) and curve[1].upper == curve.upper[1]
    rates = gaussian(sigma=9.0).beta([0.1, 0.2])
    assert np.array_equal(np.asarray(rates), rates.lower)
    with pytest.raises(DeclarationError, match="one bound, not several"):
        _, _ = curve[0]


def test_a_value_that_was_found_is_a_number(gaussian):
    found = mechc.calibrate(gaussian, solve_for="sigma", epsilon=1.0, delta=1e-5)
    assert float(found) == found.value and f"{found:.3f}" == f"{found.value:.3f}"


def test_runs_are_json_that_can_be_opened(gaussian, tmp_path):
    run = 3 * gaussian(sigma=5.0)
    (tmp_path / "run.json").write_text(run.to_json())
    assert mechc.open(tmp_path / "run.json") == run


def test_a_certificate_shows_its_checks(gaussian):
    certificate = gaussian.verify()
    assert str(certificate).startswith("gaussian: verified (quick, ")
    assert all(check.name in shown(certificate) for check in certificate.checks)


def test_whole_numbers_are_solved_for_as_such(gaussian):
    words = {"dataset_size": 1000, "batch_size": 10, "noise_multiplier": 2.0}
    found = mechc.calibrate(mechc.dpsgd, solve_for="steps", epsilon=1.0, delta=1e-5, **words)
    assert isinstance(found.value, int) and str(found.value) in str(found)


def test_the_home_folder_and_spaces_in_paths(gaussian, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "two words").mkdir()
    run = 3 * gaussian(sigma=5.0)
    assert mechc.open(run.save("~/two words/run.json")) == run
    assert mechc.open("~/two words/run.json") == run
    assert gaussian.emit("~/two words/kernel.py") == tmp_path / "two words" / "kernel.py"
    assert (tmp_path / "two words" / "kernel.py").is_file()
    run.plot("~/two words/run.svg")
    assert (tmp_path / "two words" / "run.svg").is_file()


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda m: mechc.poisson(m, sample_rate=0.1), "sampling_rate"),
        (lambda m: m(noise_multiplier=2.0), "sigma"),
        (lambda m: m(sigma=2.0).epsilon(target_delta=1e-5), "delta"),
        (lambda m: m(sigma=2.0).epsilon_curve(1e-5, steps=[1, 2]), "counts"),
        (lambda m: m(sigma=2.0).epsilon(1e-5, method="contuor"), "contour"),
        (lambda m: mechc.dpsgd(dataset_size=9, batch_size=3, stpes=2), "steps"),
        (lambda m: mechc.dpsgd(dataset_size=9, sample_rate=0.3, steps=2), "batch_size"),
        (lambda m: mechc.load("gausian"), "gaussian"),
        (lambda m: mechc.calibrate(m, solve_for="sampling_rate", epsilon=1, delta=1e-5),
         "mechc.poisson"),
        (lambda m: mechc.calibrate(mechc.poisson(m), solve_for="sample_rate", epsilon=1,
                                   delta=1e-5, sigma=1.0), "sampling_rate"),
        (lambda m: mechc.poisson(m, sampling_probability=0.1), "sampling_rate"),
        (lambda m: m(sigma=2.0).tpr(alpha=0.1), "fpr"),
        (lambda m: mechc.calibrate(m, solve_for="sigma", tpr=0.1, alpha=0.01), "fpr"),
        (lambda m: mechc.calibrate(m, solve_for="sigma", tpr=0.1, fpr=0.01, others=m(sigma=9)),
         "beside"),
        (lambda m: mechc.poisson(m, 0.1, adjacency="substitute"), "replace"),
        (lambda m: mechc.poisson(m, 0.1, adjacency="ADD_OR_REMOVE_ONE"), "add_remove"),
        (lambda m: mechc.dpsgd(dataset_size=9, neighbors="replace"), "adjacency"),
        (lambda m: mechc.dpsgd(dataset_size=9, shuffle=True), "sampler='shuffled'"),
        (lambda m: m(sigma=2.0).plot(kind="epochs"), "steps"),
        (lambda m: m(sigma=2.0).plot("steps"), "kind='steps'"),
        (lambda m: mechc.tournament(epsilon=1, delta=1e-6, mechanisms=[m]), "target"),
        (lambda m: mechc.load("subsampled_gaussian"), "mechc.poisson"),
        (lambda m: mechc.load("rr"), "randomized_response"),
        (lambda m: mechc.load("exponential")(epsilon=0.1), "exponential_mechanism"),
    ],
)  # fmt: skip
def test_the_message_names_the_word_that_is_meant(gaussian, call, meant):
    with pytest.raises(DeclarationError, match=f"did you mean {meant}"):
        call(gaussian)


@pytest.mark.parametrize(
    ("ask", "meant"),
    [
        (lambda m: m.epsilon(1e-5), r"asked of gaussian\(sigma=...\)"),
        (lambda m: mechc.poisson(m).plot(), r"asked of poisson\(gaussian\)\(sigma=..., sampling"),
        (lambda m: m(sigma=1.0).tpr_at_fpr(0.1), "did you mean tpr"),
        (lambda m: mechc.gaussian, r"did you mean mechc.load\('gaussian'\)"),
        (lambda m: (2 * m(sigma=1.0)).group(5), r"did you mean mechc.group\(...\)"),
        (lambda m: m(sigma=1.0).explain(), r"asked of a mechanism, mechc.load\(...\).explain"),
        (lambda m: m.poisson(0.1), r"did you mean mechc.poisson\(...\)"),
        (lambda m: m(sigma=1.0).rdp([2]), "did you mean renyi"),
        (lambda m: m(sigma=1.0).get_approxDP(1e-5), "did you mean epsilon"),
        (lambda m: mechc.PLDAccountant, "did you mean mechc.integrations.dp_accounting"),
        (lambda m: mechc.GaussianMechanism, r"did you mean mechc.load\('gaussian'\)"),
        (lambda m: mechc.compute_epsilon, r"asked of a run, such as mechc.dpsgd\(...\).epsilon"),
        (lambda m: mechc.get_noise_multiplier, r"did you mean mechc.calibrate\("),
        (lambda m: mechc.optimize, "did you mean mechc.optimise"),
        (lambda m: mechc.tree_aggregation, "did you mean mechc.reductions.tree_agg"),
        (lambda m: m(sigma=1.0).sigma, "did you mean parameters"),
        (lambda m: m(sigma=1.0).delta(1.0).value, "did you mean upper"),
        (lambda m: m(sigma=1.0).noise.std(), "did you mean standard_deviation"),
        (lambda m: mechc.calibrate(m, solve_for="sigma", advantage=0.1).sigma, "mean value"),
    ],
)
def test_what_there_is_not_names_what_is_meant(gaussian, ask, meant):
    with pytest.raises(AttributeError, match=meant):
        ask(gaussian)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m(sigma=2.0).epsilon(1e-5, bounded=True),
        lambda m: m(sigma=2.0).delta(1.0, neighbors="replace"),
        lambda m: mechc.calibrate(m, solve_for="sigma", epsilon=1, delta=1e-5, swap=True),
        lambda m: mechc.load("pure_dp")(epsilon=1.0, delta=1e-5),
    ],
)
def test_no_word_is_meant_that_would_be_refused_too(gaussian, call):
    with pytest.raises(DeclarationError) as refused:
        call(gaussian)
    assert not re.search("did you mean|calibrate", str(refused.value))


def test_words_are_not_refused_where_any_may_be_given():
    words = {"dataset_size": 60_000, "batch_size": 256, "epochs": 60}
    with pytest.raises(DeclarationError, match="solve_for is missing"):
        mechc.calibrate(mechc.dpsgd, epsilon=2.0, delta=1e-5, **words)


def test_calibration_takes_a_mechanism_by_its_name(gaussian):
    target = {"solve_for": "sigma", "epsilon": 1.0, "delta": 1e-5}
    assert mechc.calibrate("gaussian", **target).value == mechc.calibrate(gaussian, **target).value


def test_what_is_not_called_yet_and_accountants_say_what_they_are(laplace, gaussian):
    assert "radial(laplace, dimension=2)" in shown(mechc.radial(laplace, 2))
    assert "proven by T11" in shown(mechc.random_allocation(gaussian, 10))
    accountant = IndividualAccountant(gaussian, parameter="sigma", people=3, span=(1.0, 4.0))
    opacus = OpacusAccountant()
    opacus.step(noise_multiplier=1.0, sample_rate=0.01)
    for made, words in (
        (GDPFilter(people=3, mu=1.0), "GDPFilter(people=3, mu=1.0)"),
        (SharedGDPFilter(mu=1.0), "SharedGDPFilter(mu=1.0)"),
        (GDPOdometer([1.0]), "GDPOdometer(increments=[1.0])"),
        (accountant, "IndividualAccountant(mechanism='gaussian', parameter='sigma', people=3, "),
        (opacus, "MechcAccountant(history=[(1.0, 0.01, 1)])"),
    ):
        assert repr(made).startswith(words)


def test_an_entropy_is_not_certified_and_says_so(laplace):
    with pytest.raises(UnsupportedError, match="entropy has no certified answer"):
        laplace(scale=2.0).noise.entropy(certified=True)
