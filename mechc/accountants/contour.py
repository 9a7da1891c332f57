"""Exact accounting by the trapezoid rule on a vertical contour, with bounds that are a theorem.

For 0 < c < t_plus and h = 2 pi / T (Poisson summation, numerics Theorem A)

    S = (h / 2 pi) sum_n g(c + inh) = sum_m exp(mTc) H(eps + mT),
    g(z) = exp(K(z) - eps z) / (z (z + 1)),   H(eps) = E_P[(1 - exp(eps - L))_+; L finite].

All terms on the right are non-negative: m = 0 is the answer, m > 0 are bounded by Chernoff, and
m < 0 are known up to r_m: H(eps - mT) = M(0) - exp(eps - mT) M(-1) + r_m with
0 <= r_m <= exp(eps - mT) M(-1). What the sum leaves out beyond frequency Y is bounded by
`characteristic.decay_integral`. The number of nodes does not depend on the number of steps.

Negative epsilon goes through the reversed pair (I3), so that nothing cancels:
delta(eps) = 1 - exp(eps) M(-1) + exp(eps) H_rev(-eps).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.bound import Bound
from mechc.accountants.characteristic import Law, Tilted
from mechc.errors import NumericError
from mechc.loss.measure import Step, log_infinite

Floats = NDArray[np.float64]

SHARE = 1e-13  # images and truncation may cost this share of delta
CANCELLATION = math.log(1e3)  # nats by which the contour may miss the saddle point
WORK = 400_000_000  # node evaluations per answer before a wide bound is returned instead
ULP = 2.2e-16


@dataclass(frozen=True)
class Answer:
    """Log of lower bound, estimate and upper bound of the finite part, and how it was found."""

    lower: float
    estimate: float
    upper: float
    detail: dict[str, float | str]


def log_add(a: float, b: float) -> float:
    """Return log(exp(a) + exp(b))."""
    return float(np.logaddexp(a, b))


def log_sub(a: float, b: float) -> float:
    """Return log(max(0, exp(a) - exp(b)))."""
    if b == -math.inf:
        return a
    return a + math.log(-math.expm1(b - a)) if b < a else -math.inf


class Contour:
    """One contour with its nodes: log phi at y = h, 2h, ...; re-used for many epsilons.

    Attributes:
        c, period: real part of the contour and T; the nodes are c + 2 pi i n / T.
        grid, log_b: real s > 0 and K(s) + s log s - (1+s) log(1+s); minus s eps they bound the
            hockey-stick divergence at eps (numerics (43)).
        decay: bound on the integral of sup |phi| / y^2 beyond the last node.
    """

    def __init__(self, law: Law, c: float, period: float, grid: Floats, log_b: Floats) -> None:
        """Fix the contour; nodes are evaluated on demand."""
        self.c, self.period, self.grid, self.log_b = c, period, grid, log_b
        self.h = 2.0 * math.pi / period
        self.re, self.im = np.empty(0), np.empty(0)
        self.decay = math.inf
        self.resolve(law)

    def resolve(self, law: Law) -> None:
        """Take a law whose nodes resolve higher frequencies; known values stay."""
        self.k, self.mean, self.variance, self.rounding = law.composed(self.c)
        self.tilted = Tilted(law, self.c)
        self.reach = min(s.loss.frequency for s in law.steps)
        self.tolerance = sum(s.count * s.loss.tolerance for s in law.steps)

    @property
    def work(self) -> int:
        """Node evaluations spent so far."""
        return self.re.size * self.tilted.weight.size

    def extend(self, nodes: int) -> None:
        """Evaluate log phi until `nodes` frequencies are known."""
        have = self.re.size
        if nodes > have:
            re, im = self.tilted.log_phi(self.h, have + 1, nodes + 1)
            self.re, self.im = np.concatenate([self.re, re]), np.concatenate([self.im, im])
            self.decay = math.inf

    def terms(self, epsilon: float) -> tuple[Floats, float]:
        """Real parts of g(c + inh) / g(c) for n = 1, 2, ..., and a bound on their rounding."""
        y = self.h * np.arange(1.0, self.re.size + 1.0)
        phase = self.im + y * (self.mean - epsilon)
        z = self.c + 1j * y
        factor = (self.c * (self.c + 1.0)) / (z * (z + 1.0))
        size = np.exp(self.re)
        value: Floats = (factor * size * np.exp(1j * phase)).real
        turns = np.abs(self.im) + y * (abs(self.mean) + abs(epsilon))
        noise = np.abs(factor) * size * (8.0 + np.abs(self.re) + 2.0 * turns)
        return value, ULP * float(noise.sum())

    def answer(self, epsilon: float) -> Answer | None:
        """Evaluate Theorem A at epsilon with the nodes at hand; None where the sum is not positive.

        All errors are shares of S, the trapezoid sum.
        """
        c, period = self.c, self.period
        values, noise = self.terms(epsilon)
        total = 1.0 + 2.0 * float(np.sum(values[::-1]))
        if not total > 0.0:
            return None
        log_s = self.k - c * epsilon - math.log(c) - math.log1p(c) - math.log(period)
        log_s += math.log(total)
        left = self._left_images(epsilon, log_s)
        later = self.grid > c
        decay = self.period * (self.grid[later] - c)
        with np.errstate(divide="ignore"):
            rights = self.log_b[later] - self.grid[later] * epsilon - decay - log_s
            rights -= np.log(-np.expm1(-decay))
        right = math.exp(min(50.0, float(rights.min())))
        tail = min(1e50, c * (c + 1.0) * self.decay * period / (math.pi * total))
        rounding = self.rounding + self.tolerance + ULP * (
            40.0 + 4.0 * abs(self.k) + 4.0 * abs(c * epsilon)
        )
        rounding += (2.0 * noise + ULP * 4.0 * float(np.abs(values).sum())) / total
        known, unknown = left
        rounding += 8.0 * ULP * abs(known)
        share = 1.0 - known
        low = share - rounding - tail - right - unknown
        high = share + rounding + tail
        if not high > 0.0:
            return None
        return Answer(
            log_s + math.log(low) if low > 0.0 else -math.inf,
            log_s + math.log(share) if share > 0.0 else -math.inf,
            log_s + math.log(high),
            {
                "contour": c,
                "period": period,
                "nodes": float(values.size),
                "right_images": right / high,
                "left_images": unknown / high,
                "truncation": tail / high,
                "rounding": rounding / high,
            },
        )

    def _left_images(self, epsilon: float, log_s: float) -> tuple[float, float]:
        """Closed form of the images m < 0 and a bound on what it leaves out, as shares of S."""
        c, period = self.c, self.period
        first = math.exp(min(50.0, self.log_mass - c * period - log_s)) / -math.expm1(-c * period)
        damped = (c + 1.0) * period
        second = math.exp(min(50.0, self.log_q + epsilon - damped - log_s)) / -math.expm1(-damped)
        if epsilon - period <= self.lowest:
            return first - second, 0.0
        known = max(0.0, first - second)  # each image lies between max(0, ...) and its mass
        return known, first - known

    def at(self, log_mass: float, log_q: float, lowest: float) -> Contour:
        """Set log M(0), log M(-1) and the smallest loss of the composition."""
        self.log_mass, self.log_q, self.lowest = log_mass, log_q, lowest
        return self


class ContourAccountant:
    """Trapezoid rule on Re z = c with proven lower and upper bounds (Theorem A).

    Args:
        steps: distinct steps with counts.
        rtol: relative width wanted; the rule aims far below it and reports what it reached.
    """

    def __init__(self, steps: Sequence[Step], *, rtol: float = 1e-6) -> None:
        """Keep the steps; nothing is computed before the first query."""
        self._steps = tuple(s for s in steps if s.count > 0)
        self._rtol = rtol
        self._log_infinite = log_infinite(self._steps)
        self._forward = _Side(self._steps)
        self._backward: _Side | None = None

    def log_delta(self, epsilon: float) -> Bound:
        """Return log delta(epsilon) with bounds.

        Args:
            epsilon: any real number.

        Raises:
            NumericError: the quadrature does not settle.
        """
        if epsilon >= 0:
            a = self._forward.finite(epsilon)
            logs = [log_add(self._log_infinite, v) for v in (a.lower, a.estimate, a.upper)]
        else:
            if self._backward is None:
                reverse = tuple(Step(s.loss.reversed(), s.count) for s in self._steps)
                self._backward = _Side(reverse)
            a = self._backward.finite(-epsilon)
            base = math.log(-math.expm1(epsilon + self._forward.log_q))
            logs = [log_add(base, epsilon + v) for v in (a.lower, a.estimate, a.upper)]
        lower, estimate, upper = (min(v, 0.0) for v in logs)
        return Bound(lower, estimate, upper, "contour", "proven", dict(a.detail))


class _Side:
    """The finite part H of one direction for epsilon >= 0, with everything that can be re-used."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = steps
        self._law = Law.of(steps)
        self._contours: list[Contour] = []
        self._lowest = sum(s.count * s.loss.support[0] for s in steps)
        self._highest = sum(s.count * s.loss.support[1] for s in steps)
        self._t_max = min(s.loss.strip[1] for s in steps) * (1.0 - 1e-4)
        self._log_mass = sum(s.count * s.loss.log_finite for s in steps)
        self.log_q = sum(
            s.count * math.log1p(-math.exp(s.loss.log_minus_infinite)) for s in steps
        )

    def finite(self, epsilon: float) -> Answer:
        """H(epsilon) = E_P[(1 - exp(epsilon - L))_+; L finite]."""
        if self._highest <= epsilon or not math.isfinite(self._log_mass):
            why = "epsilon is at or beyond the largest finite loss"
            return Answer(-math.inf, -math.inf, -math.inf, {"reason": why})
        if self._highest == self._lowest:
            value = self._log_mass + math.log(-math.expm1(epsilon - self._highest))
            return Answer(value - 1e-14, value, value + 1e-14, {"reason": "a single atom"})
        for contour in self._contours:
            answer = contour.answer(epsilon)
            if answer is not None and answer.upper - answer.lower <= 1e-10:
                return answer
        try:
            contour = self._choose(epsilon)
        except NumericError as error:
            return self._chernoff(epsilon, str(error))
        answer = self._run(contour, epsilon)
        if answer is None:
            return self._chernoff(epsilon, "the trapezoid sum is not positive")
        self._contours = [contour, *self._contours[:3]]
        return answer

    def _cover(self, tilt: float, contour: float = 0.0, frequency: float = 0.0) -> None:
        """Make all steps accurate for real tilts up to `tilt` and for one frequency."""
        steps = tuple(
            Step(s.loss.covering(-1.0, tilt, contour, frequency), s.count) for s in self._steps
        )
        if any(a.loss is not b.loss for a, b in zip(steps, self._steps, strict=True)):
            self._steps = steps
            self._law = Law.of(steps)

    def _saddle(self, epsilon: float) -> tuple[float, float]:
        """Root t0 of K'(t) = eps + 1/t + 1/(t+1) and F''(t0), extending the nodes on the way.

        Without a root below the end of the strip, the largest usable tilt is returned.
        """
        _, mean, variance, _ = self._law.composed(0.0)
        gap = epsilon - mean
        variance = max(variance, 1e-300)
        t = min((gap + math.sqrt(gap * gap + 8.0 * variance)) / (2.0 * variance), self._t_max)
        low, high = 0.0, self._t_max
        curvature = math.nan
        for _ in range(200):
            self._cover(t)
            _, k1, k2, _ = self._law.composed(t)
            slope = k1 - epsilon - 1.0 / t - 1.0 / (t + 1.0)
            curvature = k2 + t**-2 + (1.0 + t) ** -2
            low, high = (t, high) if slope < 0 else (low, t)
            step = -slope / (curvature * t)
            if abs(step) < 1e-4 or high - low <= 1e-6 * high:
                break
            if t * (self._highest - epsilon) > 1e9 and step > 0:
                break  # only the topmost atom counts by now
            new = t * math.exp(min(1.5, max(-3.0, step)))
            if not low < new < high:
                new = math.sqrt(low * high) if low > 0 else 0.1 * high
            t = new
        return t, curvature

    def _choose(self, epsilon: float) -> Contour:
        """Contour and period that need the fewest nodes (the rule of numerics 4.1b)."""
        t0, f2 = self._saddle(epsilon)
        top = min(3.0 * t0 + 8.0 / math.sqrt(f2), self._t_max)
        self._cover(top)
        below = t0 * np.exp(np.linspace(-3.0, 0.0, 11))
        grid = np.concatenate([below, np.geomspace(t0, top, 11)[1:]]) if top > t0 else below
        sums = np.array([self._law.composed(t)[:3] for t in grid])
        k, variance = sums[:, 0], sums[:, 2]
        exponent = k - epsilon * grid - np.log(grid) - np.log1p(grid)
        log_b = k + grid * np.log(grid) - (1.0 + grid) * np.log1p(grid)
        log_small = exponent[10] - 0.5 * math.log(2.0 * math.pi * f2) + math.log(SHARE)
        best, cost = (t0, 1.0), math.inf
        for i in range(min(11, grid.size - 1)):
            c = float(grid[i])
            if exponent[i] - exponent[10] > CANCELLATION:
                continue
            left = min(-log_small / c, (epsilon - log_small) / (c + 1.0))
            image = log_b[i + 1 :] - grid[i + 1 :] * epsilon - log_small
            period = max(left, float(np.min(image / (grid[i + 1 :] - c))), 1e-3 / (1.0 + c))
            nodes = period / math.sqrt(max(variance[i], 1e-300))
            if nodes < cost:
                best, cost = (c, period), nodes
        c, period = best
        variance_c = max(self._law.composed(c)[2], 1e-300)
        # far enough for the nodes, and to where one step's total variation takes over
        steps = float(self._law.counts.sum())
        reach = max(8.0 * math.sqrt(-2.0 * math.log(SHARE)), 20.0 * math.sqrt(steps))
        self._cover(top, c, 0.2 * reach / math.sqrt(variance_c))
        contour = Contour(self._law, c, period, grid, log_b)
        return contour.at(self._log_mass, self.log_q, self._lowest)

    def _run(self, contour: Contour, epsilon: float) -> Answer | None:
        """Add nodes until the truncation is proven small, or the work limit is reached."""
        nodes = 64
        while True:
            contour.extend(nodes)
            last = contour.h * nodes
            values, _ = contour.terms(epsilon)
            quiet = float(np.abs(values[-32:]).max()) < SHARE * 1e-2
            if quiet or contour.work > WORK:
                total = max(1.0 + 2.0 * float(values.sum()), 1e-3)
                factor = contour.c * (contour.c + 1.0) * contour.period / (math.pi * total)
                goal = math.log(SHARE * last / factor) if factor > 0 else math.log(SHARE)
                contour.decay = contour.tilted.decay(last, contour.reach, min(goal, -1.0))
                enough = factor * contour.decay < 4.0 * SHARE
                if enough or contour.work > WORK:
                    return contour.answer(epsilon)
            nodes = nodes + 64 if not quiet and nodes < 1024 else 2 * nodes
            if contour.h * nodes > contour.reach or quiet:
                reach = max(2.0 * contour.reach, 1.5 * contour.h * nodes)
                try:
                    self._cover(0.0, contour.c, reach)
                except NumericError:
                    contour.decay = contour.tilted.decay(last, contour.reach, -1.0)
                    return contour.answer(epsilon)
                contour.resolve(self._law)

    def _chernoff(self, epsilon: float, reason: str) -> Answer:
        """Upper bound (43) alone, where the contour has no answer."""
        log_upper = self._log_mass
        for t in np.geomspace(1e-3, max(self._steps[0].loss.tilts[1], 2e-3), 60):
            if t < self._t_max and all(t <= s.loss.tilts[1] for s in self._steps):
                k, _, _, rounding = self._law.composed(float(t))
                bound = k - t * epsilon + t * math.log(t) - (1.0 + t) * math.log1p(t)
                log_upper = min(log_upper, bound + rounding + 1e-12)
        return Answer(-math.inf, log_upper, log_upper, {"reason": reason})
