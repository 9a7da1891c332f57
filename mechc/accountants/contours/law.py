"""All steps of a composition on their nodes: K at real tilts, saddle points, where phi fades.

What chooses a contour, in one pass over the nodes each; what is proven of it is found on the law
that is tilted there (`characteristic`).
"""

from __future__ import annotations

import math

import numpy as np

from mechc.errors import NumericError
from mechc.loss.moments import GeneratingFunction, exponentials, sum_tilted
from mechc.loss.privacy_loss import Step
from mechc.numeric.allowance import spend
from mechc.numeric.jit import compiled
from mechc.protocol import Floats

TURNS, CLOSE = 200, 1e-4  # Newton steps to a saddle point, and a relative step that is the last
NEAR = 0.02  # nats of log delta at which they end, where a saddle point of delta is sought
HALF = 0.6  # -log |phi| of one step up to which 1 - |phi| tells the decay


class Law:
    """All steps of a composition in flat arrays, for the compiled loops.

    Attributes:
        steps: what it is the law of.
        offsets: where each step's nodes begin, and where the last ones end, shape (steps + 1,).
        counts: repetitions, shape (steps,).
        loss, log_weight: nodes of all steps.
        tolerance: what the quadrature of all steps may change of K, whatever the tilt.
        is_open: nodes do not resolve everything of some step.
    """

    def __init__(self, steps: tuple[Step, ...]) -> None:
        """Flatten the steps."""
        parts, ends, counts, tolerance, self.is_open = [], [0], [], 0.0, False
        for law, count in steps:
            part = law.nodes()
            parts.append(part)
            ends.append(ends[-1] + part[0].size)
            counts.append(count)
            tolerance += count * law.tolerance
            self.is_open = self.is_open or bool(law.source is not None and law.source.every_end)
        self.loss, self.log_weight = parts[0] if parts else (np.empty(0), np.empty(0))
        if len(parts) > 1:
            self.loss, self.log_weight = map(np.concatenate, zip(*parts, strict=True))
        self.steps, self.tolerance = steps, float(tolerance)
        self.offsets, self.counts = np.array(ends, np.int64), np.array(counts, np.float64)

    def composed(self, t: float) -> tuple[float, float, float, float]:
        """Return K, K', K'' and the rounding error of K at real t."""
        spend(4.0 * self.loss.size)
        masses = [(law.log_finite, law.log_q_finite) for law, _ in self.steps]
        each = GeneratingFunction(self.offsets, self.loss, self.log_weight, masses)
        rows = each.at(np.array([t], np.float64))[:, :, 0] * self.counts
        k, first, second, error = map(math.fsum, rows.tolist())
        return k, first, second, error + self.unresolved(t)

    def unresolved(self, t: float) -> float:
        """Return the sum over all steps of the shares at tilt t that no node resolves."""
        if not self.is_open:
            return 0.0
        return math.fsum(s.count * s.loss.unresolved(t) for s in self.steps)

    def roughly(self, *tilts: float) -> Floats:
        """Return rows K, K', K'' and rounding error of K at real tilts, to absolute accuracy."""
        out = self.sums(np.array(tilts, np.float64))
        if self.is_open:
            out[:, 3] += [self.unresolved(t) for t in tilts]
        out[:, 3] += self.tolerance
        return out

    def sums(self, tilts: Floats) -> Floats:
        """Return rows [K, K', K'', rounding of K] at real tilts, of the nodes alone.

        One exponential a node: to choose contours, not to answer. K is good to absolute accuracy
        only, and its rounding is returned with it, for bounds that are far from tight anyway.
        """
        spend(1.5 * self.loss.size * tilts.size)
        out = np.empty((tilts.size, self.counts.size, 4))
        work = np.empty((2, self.loss.size))
        sum_tilted(self.offsets, self.loss, self.log_weight, tilts, work, out)
        rows: Floats = self.counts @ out
        return rows

    def saddle(self, epsilon: float, limit: float, near: float = 0.0) -> tuple[float, float]:
        """Return the saddle point of epsilon, or `limit` where that is less, and F'' there.

        The root of F'(t), F(t) = K(t) - eps t - log t - log(1 + t), sought from `near` on.

        Raises:
            NumericError: doubles do not hold it.
        """
        t, bend, _ = self._solved(1.0, epsilon, math.nan, limit, math.inf, near)
        if math.isnan(t):
            raise NumericError(f"the saddle point of epsilon={epsilon:g} is beyond doubles")
        return t, bend

    def saddle_of_delta(
        self, log_delta: float, n: float, limit: float, end: float, near: float
    ) -> tuple[float, float, bool]:
        """Return the tilt and epsilon at which n repetitions have this log delta, nearly.

        By the leading term K(t) - t K'(t) + 1 - log(t (t + 1)) - log(2 pi F''(t)) / 2, at
        eps = K'(t) - 1/t - 1/(t+1), at least halfway below `end`; and whether that is it, or the
        first tilt above `limit` that Newton's method asked for.
        """
        t, found, epsilon = self._solved(n, math.nan, log_delta, limit, end, near)
        return t, epsilon, found > 0.0

    def _solved(self, *where: float) -> tuple[float, float, float]:
        spend(30.0 * self.loss.size)
        at, out = np.empty(1), np.empty((1, self.counts.size, 4))
        about = self.offsets, self.counts, self.loss, self.log_weight
        found: tuple[float, float, float]
        found = _saddle(*about, *where, at, np.empty((2, self.loss.size)), out)
        return found

    def fading(
        self, tilts: Floats, log_share: float, per: Floats | None = None, spare: float = 0.0
    ) -> Floats:
        """Estimate the frequencies at which log |phi|, tilted there, comes down to `log_share`.

        From 1 - |phi| ~ E min((yD)^2 / 2, 1), D the centred loss: unlike the variance it does not
        take a rare far mode for fast decay. Centred at the mean or at the heaviest node, whichever
        says less: beside a far mode the mean is far from either, and a shift is no decay. For few
        steps the decay is continued like a normal law's.

        Where several tilts cost `per` for each unit of frequency, they are looked at from the last
        to the first, those alone that may cost less than the best of them if their frequency is
        `spare` of its own; nan for the others.
        """
        near = min(-log_share, HALF * float(np.add.reduce(self.counts)))
        out = np.empty(tilts.size)
        further, work = math.sqrt(-log_share / near), np.empty((3, self.loss.size))
        nodes = self.offsets, self.counts, self.loss, self.log_weight
        per = np.ones(tilts.size) if per is None else further * per
        seen = _fading(*nodes, tilts, near, per, spare, out, work)
        spend(10.0 * self.loss.size * seen)
        return out * further


@compiled(
    "UniTuple(float64, 3)(int64[::1], float64[::1], float64[::1], float64[::1], float64, float64,"
    " float64, float64, float64, float64, float64[::1], float64[:,::1], float64[:,:,::1])"
)
def _saddle(  # type: ignore[no-untyped-def]
    offsets, counts, loss, log_weight, n, epsilon, log_delta, limit, end, near, at, work, out
):
    """Newton's method inside a bracket, for `Law.saddle` or, of no epsilon, `saddle_of_delta`.

    Returns the tilt, nan where doubles do not hold it; F'' there, or whether it is the one sought;
    and its epsilon. `at`, `work` and `out` are room for `sum_tilted` at one tilt.
    """
    of_delta = math.isnan(epsilon)
    low, high, t, bend = 0.0, math.inf, near, math.nan
    if not of_delta and near > 0.0:
        t = min(near, 0.9 * limit)
    for _ in range(TURNS):
        if of_delta and t > limit:
            break
        at[0], k, mean, variance = t, 0.0, 0.0, 0.0
        sum_tilted(offsets, loss, log_weight, at, work, out)
        for i in range(counts.size):
            k += n * counts[i] * out[0, i, 0]
            mean += n * counts[i] * out[0, i, 1]
            variance += n * counts[i] * out[0, i, 2]
        if not t > 0.0:
            if of_delta:
                return math.nan, -1.0, math.nan
            # where a normal law has it
            gap, variance = epsilon - mean, max(variance, 1e-300)
            root = math.sqrt(gap * gap + 8.0 * variance)
            t = (gap + root) / (2.0 * variance) if gap > 0.0 else 4.0 / (root - gap)
            t = min(t, 0.9 * limit)
            continue
        rest = 1.0 / t + 1.0 / (t + 1.0)
        bend = variance + (1.0 / t) * (1.0 / t) + (1.0 + t) ** -2
        if of_delta:
            epsilon_here = mean - rest
            excess = k - epsilon_here * t - math.log(t) - math.log1p(t)
            excess -= 0.5 * math.log(2.0 * math.pi * bend) + log_delta
            if abs(excess) < NEAR:
                return t, 1.0, epsilon_here
            low, high = (t, high) if excess > 0.0 else (low, t)
            new = min(max(t + excess / (t * bend), t / 3.0), 3.0 * t, 0.5 * (t + end))
            if not low < new < high:  # K' jumps to losses far out, or the step was nan
                new = math.sqrt(low * high) if low > 0.0 else high / 3.0
        else:
            slope = mean - epsilon - rest
            if t == limit and not slope > 0.0:
                return t, bend, epsilon
            low, high = (t, high) if slope < 0.0 else (low, t)
            if not bend * t > 0.0:
                return math.nan, bend, epsilon
            step = -slope / (bend * t)
            if abs(step) < CLOSE or (high < math.inf and high - low <= 1e-6 * high):
                return t, bend, epsilon
            new = t * math.exp(min(1.5, max(-3.0, step)))
            if high == math.inf and not new < limit:  # is there a root below?
                new = limit
            elif not low < new < high:
                new = math.sqrt(low * high) if low > 0.0 else 0.1 * high
        t = new
    return t, -1.0 if of_delta else bend, epsilon


@compiled(
    "int64(int64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64,"
    " float64[::1], float64, float64[::1], float64[:,::1])"
)
def _fading(  # type: ignore[no-untyped-def]
    offsets, counts, loss, log_weight, tilts, near, per, spare, out, work
):
    """Write the frequency at which the log of the share of `Law.fading` comes down to -near.

    At tilts from the last to the first, which costs `per` for each of its frequencies, as long as
    one may cost less with `spare` times the frequency of the cheapest; nan for others. Returns of
    how many.
    """
    # tilted weights, and halves of squared distances to mean and mode
    w, by_mean, by_mode = work[0], work[1], work[2]
    least, faded_at, seen = math.inf, 0.0, 0
    for m in range(tilts.size - 1, -1, -1):
        t, variance = tilts[m], 0.0
        out[m] = math.nan
        if not per[m] * spare * faded_at < least:
            continue
        for i in range(counts.size):
            a, b = offsets[i], offsets[i + 1]
            total = mean = second = mode = 0.0
            top = -math.inf
            for j in range(a, b):
                w[j] = log_weight[j] + t * loss[j]
                if w[j] > top:
                    top, mode = w[j], loss[j]
            for j in range(a, b):
                w[j] -= top
            exponentials(w[a:b], w[a:b])
            for j in range(a, b):
                total += w[j]
                mean += w[j] * loss[j]
            mean /= total
            for j in range(a, b):
                w[j] /= total
                by_mean[j] = 0.5 * (loss[j] - mean) ** 2
                by_mode[j] = 0.5 * (loss[j] - mode) ** 2
                second += w[j] * by_mean[j]
            variance += 2.0 * counts[i] * second
        y = math.sqrt(2.0 * near / max(variance, 1e-300))
        for _ in range(12):
            faded = 0.0
            for i in range(counts.size):
                lost = other = 0.0
                for j in range(offsets[i], offsets[i + 1]):
                    lost += w[j] * min(y * y * by_mean[j], 1.0)
                    other += w[j] * min(y * y * by_mode[j], 1.0)
                faded -= counts[i] * math.log(max(1.0 - min(lost, other), 0.02))
            if faded > near:
                break
            y *= min(4.0, max(1.1, math.sqrt(near / max(faded, 1e-300))))
        out[m] = y
        seen += 1
        if per[m] * y < least:
            least, faded_at = per[m] * y, y
    return seen
