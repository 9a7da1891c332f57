"""What an attacker can do, in the words of attacks: true positives, errors, reconstruction.

In: a run seen through one method. Out: bounds that follow from its trade-off function f and its
profile delta(epsilon). H1 says that the record is present (under replacement: is the one), H0 that
it is not; both directions are covered, so that it does not matter which is which.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mechc.accountants.bound import Bound
from mechc.composition import tradeoff
from mechc.composition.inputs import from_log
from mechc.loss.rounding import EPS

if TYPE_CHECKING:
    from mechc.composition.evaluation import Evaluation


FLAT = 16 * EPS  # rounding of 1 - f, with that of f


def true_positive(evaluation: Evaluation, fpr: float) -> Bound:
    """Return bounds on 1 - f(fpr), the largest power of a test at a false positive rate.

    Power is also inf over epsilon of delta(epsilon) + e^epsilon fpr, so that any epsilon gives an
    upper bound; that one has its digits where 1 - f has lost them.

    Args:
        evaluation: the run by one method.
        fpr: false positive rate in [0, 1].
    """
    found = tradeoff.false_negative(evaluation, fpr)
    lower, middle, upper = (1.0 - float(s) for s in (found.upper, found.estimate, found.lower))
    lower, upper = lower - FLAT, upper + FLAT
    at = math.inf if fpr == 0.0 else float(found.detail.get("epsilon", math.nan))
    if not math.isnan(at) and not math.isnan(upper):
        there = from_log(evaluation.log_delta(at))
        cost = (
            math.exp(min(at, 700.0) + math.log(fpr)) * (1.0 + 8 * EPS * (abs(at) + 700.0))
            if fpr
            else 0.0
        )
        if at <= 700.0 or fpr == 0.0:
            upper = min(upper, (float(there.upper) + cost) * (1.0 + 2 * EPS))
        if fpr == 0.0:
            lower, middle = max(lower, float(there.lower)), float(there.estimate)
    lower = max(lower, fpr)
    upper = min(max(upper, fpr), 1.0) if upper == upper else upper
    middle = min(max(middle, lower), upper) if upper == upper else middle
    return Bound(lower, middle, upper, found.method, found.status, found.detail)


def bayes_risk(evaluation: Evaluation, prior: float) -> Bound:
    """Return bounds on the least probability of error where H1 has a prior probability.

    The smallest prior FNR + (1 - prior) FPR over all tests is prior (1 - delta(epsilon)) at
    epsilon = log((1 - prior) / prior), by the definition of delta as a supremum over tests.

    Args:
        evaluation: the run by one method.
        prior: in [0, 1].
    """
    if prior in (0.0, 1.0):
        return Bound(
            0.0, 0.0, 0.0, "prior", "proven", {"epsilon": math.inf if prior == 0 else -math.inf}
        )
    epsilon = math.log1p(-prior) - math.log(prior)
    found = evaluation.log_delta(epsilon)
    # 1 - delta changes by at most the factor e^r when epsilon changes by r
    pad = (abs(epsilon) + 16.0) * EPS
    most = min(prior, 1.0 - prior)
    sides = [-prior * math.expm1(float(s)) for s in (found.upper, found.estimate, found.lower)]
    lower, middle, upper = sides[0] * (1.0 - pad), min(sides[1], most), sides[2] * (1.0 + pad)
    upper = min(upper, most) if upper == upper else upper
    detail = {**found.detail, "epsilon": epsilon}
    return Bound(lower, middle, upper, found.method, found.status, detail)
