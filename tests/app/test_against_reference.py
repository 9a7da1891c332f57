"""Random questions about declared pairs, against a reference that knows two log densities only."""

import math
from random import Random

import pytest

pytest.importorskip("flint")
from families import FAMILIES, SYMMETRIC  # noqa: E402
from questions import examine  # noqa: E402
from reference import Pair, Reference, sampled  # noqa: E402

import truth  # noqa: E402

pytestmark = pytest.mark.oracle

EVERY = [(name, "plain") for name in FAMILIES] + [(name, "poisson") for name in FAMILIES]
EVERY += [(name, "without_replacement") for name in SYMMETRIC]
TODAY = Random(14).sample([n for n in FAMILIES if n.startswith(("gamma", "weib", "trunc"))], 2)


def by_hand(name, **values):
    return Reference(lambda m: FAMILIES[name].pair(m, **values))


@pytest.mark.parametrize("epsilon", [-3.0, 0.5, 15.0, 28.0])
def test_one_step_of_the_reference_has_a_closed_form(epsilon):
    pair = by_hand("gaussian_noise", s=1.3, d=1.0)
    exact = truth.gaussian(1 / 1.3, epsilon)
    for least, most in (pair.one_step(epsilon), pair.one_step_in_balls(epsilon)):
        assert least <= exact + 1e-12 and exact - 1e-12 <= most
        assert most - least < 2e-10


@pytest.mark.parametrize(("count", "epsilon"), [(2, 0.7), (2, 42.0), (30, 27.0), (1000, 300.0)])
def test_many_steps_of_the_reference_have_a_closed_form(count, epsilon):
    least, most = by_hand("gaussian_noise", s=1.3, d=1.0).log_delta(epsilon, count)
    exact = truth.gaussian(math.sqrt(count) / 1.3, epsilon)
    assert least <= exact <= most
    assert most - least < 0.02
