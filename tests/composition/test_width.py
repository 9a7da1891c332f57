"""Compositions of declared pairs are answered by more than an event and Chernoff's bound."""

import math

import pytest
import questions


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
