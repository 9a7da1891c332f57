"""Logs of the normal law against mpmath."""

import math

import mpmath
import numpy as np

from mechc.accountants.classical.normal import log_mills, log_ndtr

PLACES = np.concatenate(
    [np.linspace(-45.0, 8.0, 400), -np.logspace(-300.0, 5.0, 80), np.logspace(-300.0, 0.9, 80)]
)


def test_log_ndtr():
    with mpmath.workdps(40):
        for x in PLACES.tolist():
            tail = mpmath.erfc(abs(mpmath.mpf(x)) / mpmath.sqrt(2)) / 2
            truth = mpmath.log(tail) if x < 0.0 else mpmath.log1p(-tail)
            assert abs(log_ndtr(x) - truth) <= 16 * 2.0**-53 * max(1, abs(truth)), x
    assert log_ndtr(-math.inf) == -math.inf and log_ndtr(math.inf) == 0.0


def test_log_mills():
    with mpmath.workdps(40):
        for x in PLACES.tolist():
            at = mpmath.mpf(x)
            ratio = mpmath.exp(at * at / 2) * mpmath.erfc(at / mpmath.sqrt(2)) / 2
            truth = mpmath.log(ratio * mpmath.sqrt(2 * mpmath.pi))
            assert abs(log_mills(x) - truth) <= 16 * 2.0**-53 * max(1, abs(truth)), x
