"""Sums of waves by gridding against the sums themselves."""

import numpy as np
import pytest

from mechc.accountants.contours import gridding


@pytest.mark.parametrize("nodes, count", [(1, 5), (300, 64), (2000, 777), (50, 2000)])
def test_gridding_agrees_with_the_sums(nodes, count):
    rng = np.random.default_rng(nodes)
    theta = 3.0 * rng.normal(size=nodes) + rng.exponential(20.0, nodes)
    weight = rng.random(nodes)
    weight /= weight.sum()
    exact = np.exp(1j * np.arange(1, count + 1)[:, None] * theta) @ weight
    # an angle of a thousand turns is itself known to 1e-13 only
    allowed = gridding.ERROR + 1e-15 * count * np.abs(theta).max() / np.sqrt(nodes)
    assert np.abs(gridding.transform(theta, weight, count) - exact).max() <= allowed
