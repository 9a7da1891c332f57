"""Characteristic functions by gridding, against plain sums in extended precision."""

import numpy as np
import pytest

from mechc.accountants.contours import gridding


@pytest.mark.parametrize("spread", [0.0, 0.3, 40.0])
@pytest.mark.parametrize(
    ("nodes", "count"), [(5, 1), (5, 2), (1, 511), (2, 1023), (200, 60), (500, 1000)]
)
def test_errors_are_within_their_bound(nodes, count, spread):
    draw = np.random.default_rng(nodes)
    theta = 0.4 + spread * draw.normal(size=nodes)
    weight = draw.exponential(size=nodes) ** 3
    phi, error = gridding.transform(theta, weight, count)
    n = np.arange(1, count + 1, dtype=np.longdouble)
    turns = n[:, None] * theta.astype(np.longdouble)
    exact = np.exp(1j * turns) @ weight
    assert np.abs(phi - exact).max() <= error <= 1e-10 * max(spread, 1.0) * weight.sum()
