"""Losses where their own formula has no value."""

import math
from types import SimpleNamespace

import numpy as np

from mechc.loss.quadrature.rule import losses


def written(*values):
    def many(x, theta, out):
        out[:] = [values[int(i)] for i in x]

    return many


def test_a_formula_that_overflows_is_replaced_by_the_difference_of_logs():
    kernel = SimpleNamespace(
        loss_many=written(0.5, math.nan, math.inf, math.nan),
        log_p_many=written(-1.0, -30.0, -2.0, -math.inf),
        log_q_many=written(-7.0, -28.5, -math.inf, -math.inf),
    )
    found = losses(kernel, np.empty(0), np.arange(4.0))
    assert found[:3].tolist() == [0.5, -1.5, math.inf]
    assert math.isnan(found[3])
