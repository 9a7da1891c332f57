"""Rényi divergences of random allocation from those of a step.

In: the law of the loss of a step, t, and an order. Out: bounds on D_alpha of (1/t) sum_i Q^(i-1) P
Q^(t-i) from Q^t, of which the likelihood ratio W is the mean of t copies of X = exp(L) under Q, and

    E_Q[W^a] = sum_j C(t, j) a! [z^a] g(z)^j / t^a,    g(z) = sum_{k >= 1} E_Q[X^k] z^k / k!,

for an integer a: all terms are positive. Between integers log E_Q[W^a] is convex in a, and the
divergence grows with a. For every a > 1 the divergence of a step is no smaller (Jensen), and, as
W^a is at least the sum of all (X / t)^a, larger by no more than log t. Where a record takes part
in any step at a rate r alone, W becomes V = 1 - r + rW, with moments by the binomial theorem.

Smaller powers, and those of adding a record, follow from phi(s) = E_Q[exp(-sX/t)]^t and m = E_Q W:

    E_Q[W^p] = m^p + p (p - 1) / Gamma(2 - p) int_0^inf (phi(s) - exp(-ms)) s^(-1-p) ds,    p < 2,

as for a number in place of W, by parts; for p = 0, or p = m = 1, the integral itself is E_Q[log m -
log W], or E_Q[W log W]. The integrand is positive (Jensen). log phi is convex: it lies below its
chords and above their prolongations. What is beyond S is at most phi(S) S^-p / p, and, as phi(s) <=
E_Q[exp(-sX/t)]^j phi(S)^(1 - j/t), for every j < t and c >= -p at most phi(S)^(1 - j/t) S^(-p-c)
(t/j)^c E_Q[X^(-c/j)]^j Gamma(c), as a mean of j is no smaller than the product of their roots.
For V at s = u/r there are phi(u) exp(-(1 - r) u/r) in place of phi, and a factor r^p.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import gammaln, logsumexp

from mechc.accountants.allocation.puts_and_calls import CLOSE_CONTOURS, FLOOR, Shares, Term
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.numeric.allowance import OutOfWorkError, apart
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats

OfStep = Callable[[PrivacyLoss, float], tuple[float, float]]
FIRST, LAST = -12.0, -750.0  # logs of the first s, over the deviation of W, and of phi at the last
APART = CLOSE_CONTOURS / 16.0  # between logs of s
NODES, STEEP = 16, 20.0  # of a quadrature between two, and change of log phi that it does not see
FARTHEST = STEEP / APART  # power
CLOSE = 0.1  # s over the deviation of W
FEWEST = 8  # orders, of which all below are found at once, and more by powers of two
MOST = 128  # the most of them
CLOSE_ORDER = 1e-4  # to one, where a bound on a sample is that of all
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


def sampled_divergence(divergence: float, alpha: float, rate: float) -> float:
    """Return a bound on that on a sample, at least: powers of 1 - r + rW are convex in r."""
    t = alpha - 1.0 if alpha < math.inf else 1.0
    if abs(t) < CLOSE_ORDER or divergence == math.inf or rate == 1.0:
        return divergence  # a sample reveals less
    value = float(np.logaddexp(math.log1p(-rate), math.log(rate) + t * divergence)) / t
    return min(value + 8.0 * EPS * (1.0 / abs(t) + abs(value)), divergence)


def mean_divergence(
    law: PrivacyLoss, steps: int, alpha: float, of_step: OfStep, rate: float = 1.0
) -> tuple[float, float]:
    """Return bounds on D_alpha of one epoch, in the direction of removing a record.

    Args:
        law: of the privacy loss of a step.
        steps: t.
        alpha: order, more than 1 and finite.
        of_step: bounds on the divergence of a step of one order.
        rate: the probability that a record takes part in any step.
    """
    lower, upper = of_step(law, alpha)
    least = math.log(steps) - alpha / (alpha - 1.0) * math.log(rate)
    lower = max(lower - least * (1.0 + 4.0 * EPS), 0.0)
    upper = sampled_divergence(upper, alpha, rate)
    n = math.floor(alpha)
    if n + 1 > MOST or upper == math.inf:
        return lower, upper
    try:
        rows = _log_moments(law, steps, max(FEWEST, 1 << n.bit_length()), of_step)
    except OutOfWorkError:
        return lower, upper
    rows = _of_sample(rows, rate) if rate < 1.0 else rows
    (_, before), (least, below), (last, above) = rows[n - 1 : n + 2].tolist()
    further, pad = alpha - n, 1.0 - 8.0 * EPS
    lower = max(lower, (least + further * (least - before)) * pad / (alpha - 1.0))
    if further and n + 2 < rows.shape[0]:  # the same from the other side
        behind = last - (1.0 - further) * (float(rows[n + 2, 1]) - last)
        lower = max(lower, behind * pad / (alpha - 1.0))
    most = below + further * (above - below) if further else below
    return lower, max(min(upper, most / pad / (alpha - 1.0)), lower)


def _of_sample(rows: Floats, rate: float) -> Floats:
    """The same moments of 1 - r + rW."""
    n = np.arange(rows.shape[0], dtype=float)
    rest = np.subtract.outer(n, n)
    with np.errstate(divide="ignore", invalid="ignore"):  # all but the moments less one add up to 1
        ways = gammaln(n + 1.0)[:, None] - gammaln(n + 1.0) - gammaln(rest + 1.0)
        ways += rest * math.log1p(-rate) + n * math.log(rate)
        less = np.maximum(rows, 0.0)
        less = np.where(less > 0.0, less + np.log(-np.expm1(-less)), -math.inf)
    each = np.where(rest >= 0.0, ways, -math.inf)[:, :, None] + less
    off = 64.0 * EPS * (1.0 + gammaln(n[-1] + 2.0) + n[-1] * abs(math.log(rate)))
    out: Floats = np.logaddexp(0.0, logsumexp(each, axis=1) + np.array([-off, off]))
    return out


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


class Transform(NamedTuple):
    """Bounds on phi, between lines."""

    log_s: Floats  # of nodes of a quadrature in log s, a row for every line
    log_weight: Floats
    log_low: Floats  # bounds on logs of phi(s) - exp(-ms)
    log_high: Floats
    log_ends: Floats  # logs of s at the ends of lines, and upper bounds on log phi there
    log_phi: Floats
    rise: float  # an upper bound on log phi + ms at the first of them
    mean: tuple[float, float]  # m and its error

    def sampled(self, rate: float) -> Transform:
        """Return the same of 1 - r + rW, in units of s by r."""
        more, (mean, off) = (1.0 - rate) / rate, self.mean
        nodes, ends = more * np.exp(self.log_s), more * np.exp(self.log_ends)
        more, less = 1.0 + 8.0 * EPS, 1.0 - 8.0 * EPS
        return self._replace(
            log_low=self.log_low - nodes * more, log_high=self.log_high - nodes * less,
            log_phi=self.log_phi - ends * less, mean=(1.0 - rate * (1.0 - mean), rate * off),
        )  # fmt: skip


def by_transform(
    law: PrivacyLoss, steps: int, alpha: float, adding: bool, of_step: OfStep, rate: float = 1.0
) -> tuple[float, float]:
    """Return bounds on D_alpha of one epoch by phi; from below 0 where there are none.

    Args:
        law: of the privacy loss of a step, in that direction.
        steps: t.
        alpha: order, finite.
        adding: whether a record is added; of removing one only orders below 2 are known so.
        of_step: bounds on the divergence of a step of one order.
        rate: the probability that a record takes part in any step; of adding one 1.
    """
    (lower, upper), power = of_step(law, alpha), 1.0 - alpha if adding else alpha
    if lower == math.inf:
        return lower, upper
    upper = sampled_divergence(upper, alpha, rate)
    if upper == math.inf or not -FARTHEST < power < 2.0 or max(law.early) > -math.inf:
        return 0.0, upper
    try:
        phi = _transform(law, steps, adding)
    except (NumericError, OutOfWorkError, UnsupportedError):
        return 0.0, upper
    p, c, first = power, max(-power, 1.0), float(phi.log_ends[0])
    second = of_step(law.reversed() if adding else law, 2.0)[1]  # log E_Q X^2
    near = math.inf
    if second < MOST_LOG:  # (log phi)'' is at most E (X - 1)^2 / t over E exp(-sX/t)
        near = math.log(math.expm1(second) / (2.0 * steps * (2.0 - p))) + (2.0 - p) * first
        near += math.exp(first) / steps
    if p < 1.0:  # log phi + ms grows no faster than to the first end
        near = min(near, math.log(phi.rise) - p * first - math.log(1.0 - p))
    if rate < 1.0:
        phi = phi.sampled(rate)
    at = phi.log_weight - p * phi.log_s
    known = np.logaddexp.accumulate(logsumexp(at + phi.log_high, axis=1))
    s, fars = phi.log_ends[1:], []
    if p > 0.0:
        fars.append(phi.log_phi[1:] - p * s - math.log(p))
    for j in (1 << i for i in range((steps - 1).bit_length() if adding else 0)):
        inverse = c * (of_step(law, 1.0 + c / j)[1] - math.log(j))  # of (X_1 + .. + X_j)^-c
        if inverse < math.inf:
            far = (1.0 - j / steps) * phi.log_phi[1:] - (p + c) * s
            fars.append(far + float(gammaln(c)) + c * math.log(steps) + inverse)
    if not fars:
        return 0.0, upper
    above = float(np.logaddexp(np.logaddexp(known, np.min(fars, axis=0)).min(), near))
    below = float(logsumexp(at + phi.log_low))
    size = float(np.abs(phi.log_s).max()) + math.log(steps / rate)
    size = 8.0 + abs(p) * size
    size = 64.0 * EPS * (size + float(gammaln(alpha + 3.0)))
    mean, off = phi.mean
    unit = -gammaln(alpha) if adding else math.log(alpha) - gammaln(2.0 - alpha)
    unit += p * math.log(rate / mean)
    size += abs(p) * off
    low, high = (_of_integral(log + unit + sign * size, alpha)
                 for log, sign in ((below, -1.0), (above, 1.0)))  # fmt: skip
    share = -1.0 if adding else alpha / (alpha - 1.0) if mean < 1.0 else 0.0
    moved, off = share * math.log(mean), abs(share) * off
    low = max(low + moved - off, 0.0)
    return low, max(min(upper, high + moved + off), low)


def _of_integral(log_value: float, alpha: float) -> float:
    """D_alpha where E[(p/q)^(alpha - 1)] is 1 + (alpha - 1) times what has this log."""
    t = alpha - 1.0
    if t > 0.0:
        return float(np.logaddexp(0.0, math.log(t) + log_value)) / t * (1.0 + 4.0 * EPS)
    value = math.exp(min(log_value, MOST_LOG))
    if t == 0.0:
        return value
    return math.log1p(t * value) / t if -t * value < 1.0 else math.inf


@_kept
def _transform(law: PrivacyLoss, steps: int, adding: bool) -> Transform:
    """Bounds on phi, between lines."""
    law = law.first().reversed() if adding else law.first()
    shares, t = Shares(law, steps), float(steps)
    whole = Term(((shares, steps),))
    size, rough = whole.rows(1)
    spread = math.sqrt(max(float(whole.rough.roughly(0.0)[0, 2]), 1e-300))
    deepest = min(t * math.log(FLOOR), LAST)
    last = size[min(int((rough[:, 0] > deepest).sum()), size.size - 1)]
    s = np.exp(np.arange(FIRST - math.log(spread), math.log(last) + 3.0 * APART, APART))
    close = int(np.searchsorted(s, CLOSE / spread))  # where log phi + ms needs digits of its own
    rows = whole.rough.sums(s)[:, [0, 3]]
    rows[:, 1] += 2.0 * t * shares.error
    rows[:close] = shares.generating(shares.plain, s[:close], steps)[0]
    (k, error), (mean, off) = rows.T, shares.mean
    error = error + (law.loss_error + law.loss_rounding) * s
    none = np.logaddexp(math.log(FLOOR), shares.log_unlisted[1])  # mass that no node has
    low, high = k - error, np.minimum(k + error + t * np.logaddexp(0.0, none - k / t), 0.0)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    log_s = np.log(s[1:-2])[:, None] + 0.5 * APART * (nodes + 1.0)
    x, rise = np.exp(log_s), np.diff(high) / np.diff(s)
    lines = high[1:-2, None] + rise[1:-1, None] * (x - s[1:-2, None])
    before = (low[1:-2] - high[:-3]) / (s[1:-2] - s[:-3])
    behind = (high[3:] - low[2:-1]) / (s[3:] - s[2:-1])
    under = [low[1:-2, None] + before[:, None] * (x - s[1:-2, None]),
             low[2:-1, None] + behind[:, None] * (x - s[2:-1, None])]  # fmt: skip
    logs = []  # at nodes: of what is analytic for Re s > 0 the quadrature has all digits
    for line, sign in ((lines, 1.0), *((each, -1.0) for each in under)):
        excess = np.maximum(line + (mean + sign * off) * x, 0.0) + sign * 8.0 * EPS * x
        with np.errstate(divide="ignore", invalid="ignore"):
            logs.append(np.where(excess > 0.0, line + np.log(-np.expm1(-excess)), -math.inf))
    steep = high[1:-2] - high[2:-1] > STEEP
    logs[0][steep] = high[1:-2][steep, None]
    logs[1][steep] = logs[2][steep] = -math.inf
    log_weight = np.broadcast_to(np.log(0.5 * APART * weights), x.shape)
    ends = np.log(s[1:-1])
    rise = max(float(high[1] + (mean + off) * s[1]), 0.0) + 8.0 * EPS * float(s[1])
    return Transform(
        log_s, log_weight, np.maximum(*logs[1:]), logs[0], ends, high[1:-1], rise, (mean, off)
    )
