"""Several steps at sums of the losses of their atoms, and next to them, against all sums listed."""

import math

import pytest
from mpmath import mp, mpf

import mechc
from mechc.errors import UnsupportedError

PAIRS = {  # of two outcomes; masses under Q, P in doubles
    "likely": ((0.998412488397481, 0.00158751160251865), (1.0, 4.309663551200162e-24)),
    "rare": ((0.9997939128756579, 0.00020608712434212032), (1.0, 1e-150)),
    "plain": ((0.25, 0.75), (0.875, 0.125)),
}


def log_delta(p, q, count, epsilon):
    """By the binomial law of the draws of the first outcome."""
    total = mpf(0)
    for k in range(count + 1):
        ways = math.comb(count, k)
        mass = [ways * law[0] ** k * law[1] ** (count - k) for law in (p, q)]
        total += max(mpf(0), mass[0] - mp.exp(epsilon) * mass[1])
    return float(mp.log(total)) if total else -math.inf


@pytest.mark.parametrize("method", ["auto", "lattice", "contour", "direct", "pld"])
@pytest.mark.parametrize("rate", [1.0, 0.3, 1.9e-13])
@pytest.mark.parametrize("name", PAIRS)
def test_sums_of_losses(name, rate, method):
    with mp.workdps(60):
        p, q = ([*map(mpf, law)] for law in PAIRS[name])
        p, q = ([x / sum(law) for x in law] for law in (p, q))
        event = mechc.from_pmfs(*PAIRS[name])
        if rate < 1.0:
            event = mechc.poisson(event, sampling_rate=rate)
            p = [mpf(rate) * x + (1 - mpf(rate)) * y for x, y in zip(p, q, strict=True)]
        losses = [mp.log(x / y) for x, y in zip(p, q, strict=True)]
        top = max(range(2), key=losses.__getitem__)
        for count, most in ((3, 2), (5, 4)):
            epsilon = float(most * losses[top] + (count - most) * losses[1 - top])
            for at in (math.nextafter(epsilon, 0.0), epsilon, math.nextafter(epsilon, math.inf)):
                truth = log_delta(p, q, count, mpf(at))
                try:
                    found = (count * event).log_delta(at, direction="remove", method=method)
                except UnsupportedError:
                    return
                slack = 1e-15 * (1.0 + abs(truth))
                assert found.lower - slack <= truth <= found.upper + slack, (at, found)
