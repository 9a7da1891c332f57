"""Rényi divergences of random allocation from those of a step.

In: the law of the loss of a step, t, and an order. Out: bounds on D_alpha of (1/t) sum_i Q^(i-1) P
Q^(t-i) from Q^t, of which the likelihood ratio W is the mean of t copies of X = exp(L) under Q, and

    E_Q[W^a] = sum_j C(t, j) a! [z^a] g(z)^j / t^a,    g(z) = sum_{k >= 1} E_Q[X^k] z^k / k!,

for an integer a: all terms are positive. Between integers log E_Q[W^a] is convex in a, and the
divergence grows with a. For every a > 1 the divergence of a step is no smaller (Jensen), and, as
W^a is at least the sum of all (X / t)^a, larger by no more than log t.

For adding a record, with phi(s) = E_Q[exp(-sX/t)]^t and log phi convex,

    E_Q[W^-c] = int_0^inf s^(c-1) phi(s) ds / Gamma(c),

of which s > S have no more than phi(S)^(1 - 1/t) t^c E_Q[X^-c].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import gammaln, logsumexp

from mechc.accountants.contours.put import Shares, Term
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.numeric.allowance import OutOfWorkError, apart
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats

OfStep = Callable[[PrivacyLoss, float], tuple[float, float]]
FINER = 64  # points of an integral for one of phi
FEWEST = 8  # orders, of which all below are found at once, and more by powers of two
MOST = 128  # the most of them
_FOUND: WeakKeyDictionary[PrivacyLoss, dict[Any, Any]] = WeakKeyDictionary()


def _kept(find: Callable[..., Any]) -> Callable[..., Any]:
    """Keep what is found of a law for as long as that is, so that no question pays for it."""

    @wraps(find)
    def found(law: PrivacyLoss, *rest: Any) -> Any:
        known, key = _FOUND.setdefault(law, {}), (find, *rest)
        if key not in known:
            with apart():
                known[key] = find(law, *rest)
        return known[key]

    return found


def mean_divergence(
    law: PrivacyLoss, steps: int, alpha: float, of_step: OfStep
) -> tuple[float, float]:
    """Return bounds on D_alpha of one epoch, in the direction of removing a record.

    Args:
        law: of the privacy loss of a step.
        steps: t.
        alpha: order, more than 1 and finite.
        of_step: bounds on the divergence of a step of one order.
    """
    lower, upper = of_step(law, alpha)
    lower = max(lower - math.log(steps) * (1.0 + 4.0 * EPS), 0.0)
    n = math.floor(alpha)
    if n + 1 > MOST or upper == math.inf:
        return lower, upper
    try:
        rows = _log_moments(law, steps, max(FEWEST, 1 << n.bit_length()), of_step)
    except OutOfWorkError:
        return lower, upper
    (_, before), (least, below), (_, above) = rows[n - 1 : n + 2].tolist()
    further, pad = alpha - n, 1.0 - 8.0 * EPS
    lower = max(lower, (least + further * (least - before)) * pad / (alpha - 1.0))
    most = below + further * (above - below) if further else below
    return lower, max(min(upper, most / pad / (alpha - 1.0)), lower)


@_kept
def _log_moments(law: PrivacyLoss, steps: int, most: int, of_step: OfStep) -> Floats:
    """Rows a = 0 to `most` of bounds on log E_Q[W^a]."""
    k = np.arange(most + 1.0)
    each = [of_step(law, order) for order in k[2:].tolist()]
    moments = (k[2:] - 1.0)[:, None] * each  # log E_Q[X^k]
    known = 2 + int(np.append(np.isinf(moments[:, 1]), True).argmax())  # up to the first unknown
    k, log_x, error = k[:known], np.zeros(known), np.zeros(known)
    log_x[2:], error[2:] = moments[: known - 2].mean(axis=1), np.ptp(moments[: known - 2], axis=1)
    log_g = np.append(-math.inf, log_x[1:] - gammaln(k[1:] + 1.0))
    lags = np.subtract.outer(k, k).astype(int)
    spread = np.where(lags > 0, log_g[np.maximum(lags, 0)], -math.inf)
    power, total, ways = np.where(k > 0.0, -math.inf, 0.0), np.full(known, -math.inf), 0.0
    for j in range(1, min(known - 1, steps) + 1):  # log [z^a] g^j for a >= j
        power = logsumexp(spread[j:, j - 1 : -1] + power[:-1], axis=1)
        ways += math.log((steps - j + 1) / j)
        total[j:] = np.logaddexp(total[j:], power + ways)
    total += gammaln(k + 1.0) - k * math.log(steps)
    size = 4.0 + gammaln(k + 2.0) + k * math.log(steps) + np.maximum.accumulate(np.abs(log_x))
    off = (1.0 + k) * (16.0 * EPS * size + np.maximum.accumulate(error))
    rows = np.tile([0.0, math.inf], (most + 1, 1))
    rows[:known] = np.stack([total - off, total + off], axis=1)
    rows[:2] = 0.0
    return rows


def mean_divergence_of_adding(law: PrivacyLoss, steps: int, alpha: float, of_step: OfStep) -> float:
    """Return an upper bound on D_alpha of one epoch, in the direction of adding a record.

    Args:
        law: of the privacy loss of a step, in that direction.
        steps: t.
        alpha: order, more than 1 and finite.
        of_step: bounds on the divergence of a step of one order.
    """
    upper = of_step(law, alpha)[1]
    if upper == math.inf or max(law.early) > -math.inf:
        return upper
    c = alpha - 1.0
    try:
        s, log_phi = _transform(law, steps)
    except (NumericError, OutOfWorkError, UnsupportedError):
        return upper
    log_s = np.log(s)
    parts = c * log_s[1:] + np.log(-np.expm1(-c * np.diff(log_s))) + log_phi[:-1]
    below = np.logaddexp.accumulate(np.append(c * log_s[0], parts)) - gammaln(c + 1.0)
    beyond = (1.0 - 1.0 / steps) * log_phi + c * (math.log(steps) + upper)
    off = 64.0 * EPS * (1.0 + gammaln(c + 2.0) + c * (float(np.abs(log_s).max()) + math.log(steps)))
    off += c * (law.loss_error + law.loss_rounding)
    return min(upper, float(np.logaddexp(below, beyond).min() + off) / c)


@_kept
def _transform(law: PrivacyLoss, steps: int) -> tuple[Floats, Floats]:
    """Increasing s, and upper bounds on log phi there."""
    s, log_phi = Term(((Shares(law.first().reversed(), steps), steps),)).above(1)
    at = np.arange(0.0, s.size - 1.0, 1.0 / FINER)
    finer = np.exp(np.interp(at, np.arange(s.size), np.log(s)))
    return finer, np.interp(finer, s, log_phi)
