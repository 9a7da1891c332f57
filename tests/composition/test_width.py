"""Compositions of declared pairs are answered by more than an event and Chernoff's bound."""

import math

import mpmath as mp
import pytest
import questions

import mechc


@pytest.mark.few(1, 4)
@pytest.mark.parametrize(("name", "kind", "values", "epsilon", "direction", "count"), [
    # a normaliser 1 - erfc(...) in both parts of a sample
    ("truncated_gaussian", "poisson", {"s": 0.4, "w": 3.0, "d": 0.3, "sampling_rate": 0.1}, 0.7,
     "remove", 2),
    ("truncated_gaussian", "poisson", {"s": 2.0, "w": 9.0, "d": 1.0, "sampling_rate": 0.01}, 0.03,
     "add", 30),
    # losses of integers without exponential moments
    ("poisson_geometric", "plain", {"s": 10.6, "zero": 0.144}, 99.8, "add", 10),
    ("poisson_geometric", "poisson", {"s": 3.0, "zero": 0.3, "sampling_rate": 0.2}, 0.3, "add", 3),
    # lists that grow without limit towards the end of the strip
    ("geometrics", "plain", {"zero": 0.0547, "other": 0.643}, 16.9, "add", 2),
    # no closed inverse, a loss that grows without limit towards 0
    pytest.param("gamma_rates", "poisson", {"a": 0.565, "b": 2.75, "s": 0.314, "t": 0.98,
                                            "sampling_rate": 0.29}, 54.6, "remove", 30,
                 marks=pytest.mark.slow),
    # a loss with a largest value inside, and epsilon close to twice that
    ("rayleigh_halfnormal", "plain", {"s": 0.674, "t": 0.808}, 0.95, "remove", 2),
])  # fmt: skip
def test_steps_of_one_kind(name, kind, values, epsilon, direction, count):
    pair = questions.by_hand(name, values, kind)
    pair = pair if direction == "remove" else pair.reversed()
    least, most = map(math.exp, pair.log_delta(epsilon, count))
    event = count * questions.load(name, kind)(**values)
    found = event.delta(epsilon, direction=direction)
    assert found.lower <= most and least <= found.upper
    assert found.upper - found.lower < 2e-3 * least


def leaky_and_levy():
    """Two uses of three outcomes, one of infinite loss, and one sampled law with an end at 0.

    Returns delta of the composition, as the sum over the outcomes of the first two.
    """
    zero, other = 3.4e-4, 6.9e-2
    values = {"a": 0.3, "b": 0.5, "sampling_rate": 0.99}
    event = 2 * questions.load("leaky")(zero=zero, other=other)
    event += questions.load("levy", "poisson")(**values)
    last = questions.by_hand("levy", values, "poisson")
    outcomes = [(zero, 0.0), ((1 - zero) * other, 1 - other), ((1 - zero) * (1 - other), other)]

    def delta(epsilon, direction):
        pair = last if direction == "remove" else last.reversed()
        rows = outcomes if direction == "remove" else [(q, p) for p, q in outcomes]
        total = 0.0
        for p, q in ((a * c, b * d) for a, b in rows for c, d in rows):
            if p > 0.0:
                log_ratio = math.log(p / q) if q > 0.0 else math.inf
                rest = pair.one_step(epsilon - log_ratio) if q > 0.0 else (0.0, 0.0)
                total += p * math.exp(0.5 * (rest[0] + rest[1]))
        return total

    return event, delta


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize(("epsilon", "direction"), [(5.3, "add"), (3.0, "remove"), (8.0, "remove")])
def test_outcomes_beside_a_density_that_hardly_fades(epsilon, direction):
    event, delta = leaky_and_levy()
    truth, found = delta(epsilon, direction), event.delta(epsilon, direction=direction)
    assert found.lower <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= found.upper
    assert found.upper - found.lower < 1e-4 * truth


def test_a_search_for_epsilon_is_steered_by_narrow_answers():
    event, delta = leaky_and_levy()
    found = event.epsilon(1e-3, direction="remove")
    assert delta(found.upper, "remove") <= 1e-3 * (1 + 1e-9)
    assert delta(found.lower, "remove") >= 1e-3 * (1 - 1e-9)
    assert found.upper - found.lower < 1e-4


def subbotin_delta(beta, scale, epsilon):
    """Delta(epsilon) of one release of noise exp(-|x / scale|^beta), moved by 1, by mpmath."""
    with mp.workdps(40):
        s, e = mp.mpf(scale), mp.mpf(epsilon)
        norm = 2 * s * mp.gamma(1 + 1 / mp.mpf(beta))

        def p(x):
            return mp.exp(-(abs(x / s) ** mp.mpf(beta))) / norm

        def loss(x):
            return abs((x - 1) / s) ** mp.mpf(beta) - abs(x / s) ** mp.mpf(beta)

        end = mp.findroot(lambda x: loss(x) - e, (-60 * s, 0.5), solver="anderson")
        assert end < 0  # left of both kinks, where the loss exceeds epsilon
        return mp.quad(lambda x: p(x) - mp.exp(e) * p(x - 1), [end - 30 * s, end - 5 * s, end])


@pytest.mark.slow
@pytest.mark.parametrize(("beta", "scale"), [(1.635, 3.0), (2.6, 3.0)])
def test_a_kink_of_a_density_is_no_lack_of_its_mass(beta, scale):
    epsilon = 1.5
    true = subbotin_delta(beta, scale, epsilon)
    found = mechc.load("subbotin")(beta=beta, scale=scale).delta(epsilon)
    assert found.lower <= true <= found.upper
    assert found.upper - found.lower < 1e-12 * true
    sparse = 63 * mechc.poisson(mechc.load("gaussian"), sampling_rate=1.7e-4)(sigma=2.83)
    event = mechc.poisson(mechc.load("subbotin"), sampling_rate=0.0087)(beta=beta, scale=19.9)
    answer = (sparse + 71 * event).epsilon(1.3e-6)
    assert answer.upper - answer.lower < 1e-10 * answer.upper


@pytest.mark.parametrize(("rate", "sigma", "count", "epsilon"), [
    (0.001775, 1.949, 113, 3.918), (0.002828, 2.377, 257, 3.908), (0.001116, 1.343, 329, 3.835),
])  # fmt: skip
def test_rare_large_losses_far_out(rate, sigma, count, epsilon):
    event = mechc.poisson(mechc.load("gaussian"), sampling_rate=rate)(sigma=sigma)
    found = (count * event).log_delta(epsilon)
    assert found.upper - found.lower < 1e-7
    # at least as likely as that one sample alone reveals so much, the others nothing
    assert found.upper >= event.log_delta(epsilon + 0.1).lower


@pytest.mark.parametrize(("name", "values", "rate", "count", "epsilon"), [
    ("gaussian", {"sigma": 1.0}, 0.02, 3000, 1.0), ("gumbel", {"scale": 4.0}, None, 40, 2.0),
    ("laplace", {"scale": 2.0}, 0.1, 300, 1.5), ("gaussian", {"sigma": 0.9}, 0.3, 12, 3.0),
])  # fmt: skip
def test_both_directions_are_the_larger_of_them(name, values, rate, count, epsilon):
    mechanism = mechc.load(name)
    if rate is not None:
        mechanism = mechc.poisson(mechanism, sampling_rate=rate)
    run = count * mechanism(**values)
    both = run.delta(epsilon)
    each = [run.delta(epsilon, direction=direction) for direction in ("remove", "add")]
    assert both.lower >= max(one.lower for one in each) * (1.0 - 1e-11)
    assert both.upper >= max(one.lower for one in each)
    assert both.lower <= max(one.upper for one in each)


def test_delta_falls_where_atoms_leave_a_coarse_mesh_without_an_answer():
    poisson, load = mechc.poisson, mechc.load
    run = (
        27 * poisson(load("laplace"), sampling_rate=0.0176)(scale=0.54)
        + 8030 * poisson(load("discrete_laplace"), sampling_rate=0.000297)(a=0.0731)
        + 5 * poisson(load("gaussian"), sampling_rate=0.000189)(sigma=0.885)
    )
    near, far = (run.log_delta(epsilon) for epsilon in (1.0, 1.5))
    assert far.upper <= near.upper
    assert far.upper - far.lower < 0.02


@pytest.mark.few(1)
@pytest.mark.parametrize(("rate", "sigma", "count", "delta", "adjacency"), [
    (3.8e-6, 5.27, 21_970, 1.8e-11, "replace"),
    (1e-5, 8.0, 20_000, 1e-10, "add_remove"),
    (3.1e-6, 25.8, 131_669, 5.1e-13, "replace"),
])  # fmt: skip
def test_searches_begin_where_large_losses_are_rare(rate, sigma, count, delta, adjacency):
    """A fifteenth of the usual work suffices; delta, asked by another road, is where it should."""
    sampled = mechc.poisson(mechc.load("gaussian"), sampling_rate=rate, adjacency=adjacency)
    run = count * sampled(sigma=sigma, sensitivity=1.0)
    found = run.epsilon(delta, max_work=6e7)
    assert found.upper - found.lower < 1e-5 * found.upper
    assert run.delta(found.upper * 1.00001).lower < delta < run.delta(found.lower * 0.99999).upper


@pytest.mark.parametrize("count", [4, 8, 12])
def test_kinks_of_all_steps_are_known_beforehand(count):
    """An outcome of loss 0 between two densities; against another method."""
    half = mechc.without_replacement(mechc.load("gaussian"), sampling_rate=0.05)
    run = count * half(sigma=2.0, sensitivity=1.0)
    found = run.epsilon(1e-6, method="direct", max_work=2e7)
    other = run.epsilon(1e-6, method="contour")
    assert found.upper - found.lower < 1e-9
    assert found.lower <= other.upper and other.lower <= found.upper


@pytest.mark.slow
def test_many_uses_of_laws_on_grids_leave_room_for_a_small_delta():
    """What is cut off a tail counts as infinite, once a use."""
    allocated = mechc.random_allocation(mechc.load("skellam")(rate=12.5), steps=40, epochs=100)
    nearly = mechc.random_allocation(mechc.load("gaussian")(sigma=5.0), steps=40, epochs=100)
    found, like = allocated.epsilon(1e-12), float(nearly.epsilon(1e-12).upper)
    assert 0.97 * found.upper < found.lower and like == pytest.approx(found.upper, rel=0.1)


def test_many_batches_that_may_be_cut_leave_room_for_a_small_delta():
    cut = mechc.reductions.truncated_poisson(
        mechc.load("laplace")(scale=3.0), sampling_rate=0.01, dataset_size=1000, batch_cap=30
    )
    found = (2000 * cut).epsilon(1e-12)
    assert 0.98 * found.upper < found.lower
