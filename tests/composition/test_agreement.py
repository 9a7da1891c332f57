"""No method's proven interval is disjoint from another's, and none is out of order or out of range.

A disagreement is a possible under-report. The default run takes cases of mechanisms that other
tests compile anyway; `-m slow` takes ten thousand of the whole catalogue.
"""

import pytest
from random_runs import answers, case, violations

COMMON = ("gaussian", "laplace", "randomized_response", "discrete_laplace", "logistic", "gumbel")
COMMON_SAMPLED = ("gaussian", "laplace")
QUICK = [
    "auto", "contour", "direct", "lattice", "msd1", "tilted clt", "moments", "tilted edgeworth",
    "edgeworth", "eeai", "renyi", "clt",
]  # fmt: skip
MESHES = ["auto", "pld", "prv", "fourier", "moments", "tilted clt"]


def check(drawn, methods):
    bounds, refusals = answers(drawn, methods)
    assert not violations(drawn, bounds), str(drawn)
    assert "auto" in bounds, refusals["auto"]
    for refusal in refusals.values():
        assert any(f" {m}" in refusal for m in ("auto", "contour", "pld", "direct")), refusal


def blocks(default, slow):
    """Blocks of seeds: the first in the default run, the others when slow tests are asked for."""
    more = (pytest.param(block, marks=pytest.mark.slow) for block in range(default, slow))
    return [*range(default), *more]


@pytest.mark.few(0)
@pytest.mark.parametrize("block", blocks(1, 10))
def test_methods_agree(block):
    for seed in range(10 * block, 10 * block + 10):
        check(case(seed, COMMON, COMMON_SAMPLED), QUICK)


@pytest.mark.parametrize("block", blocks(1, 4))
def test_meshes_agree(block):
    for seed in range(1000 + 5 * block, 1000 + 5 * block + 5):
        check(case(seed, COMMON, COMMON_SAMPLED), MESHES)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(500))
def test_all_methods_agree_on_the_whole_catalogue(block):
    for seed in range(20 * block, 20 * block + 20):
        drawn = case(seed)
        bounds, _ = answers(drawn)
        assert not violations(drawn, bounds), str(drawn)
