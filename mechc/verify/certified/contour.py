"""Certified delta of a composition by the trapezoid rule on a vertical line (Theorem A).

For 0 < c < t+ and a period T, with h = 2 pi/T and g(z) = exp(K(z) - eps z)/(z (z + 1)),

    (h/2 pi) sum_n g(c + inh) = sum_m e^(mTc) delta_f(eps + mT),

delta_f being the part of delta at finite losses. Hence delta_f is the sum, minus the left images,
which are M(0) rho/(1-rho) less at most e^eps M(-1) rho e^-T/(1 - rho e^-T) (rho = e^-Tc), minus
right images, which are bounded by exp(K(s) - s eps) s^s/(1+s)^(1+s) w/(1-w) with w = e^-T(s-c) for
any s in (c, t+). Nodes beyond a frequency Y are bounded through mechc.verify.certified.decay. All
four errors, and every M(z), are balls; only the choice of c, T, Y and s is made in floating point,
and it changes nothing but the width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

import numpy as np
from flint import acb, arb, ctx

from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.contours.placement import periods
from mechc.accountants.contours.saddle import saddle_target, solve
from mechc.errors import MechcError, NumericError, UnsupportedError
from mechc.numeric.logs import log_peak
from mechc.protocol import Use
from mechc.verify.balls.boxes import between
from mechc.verify.balls.oracle import Oracle, reversed_pair
from mechc.verify.certified.decay import TAIL_NATS, Decay, decays, least
from mechc.verify.certified.integrand import Powers
from mechc.verify.certified.moments import moments

MAX_NODES, AFFORDABLE, FEWEST = 20_000, 12_000, 500  # nodes; moments at all of them
TRIES = 5  # tilts for the images, each nearer the contour
TILTS = (2e-3, 4e3)  # between which contours lie
CANCELLED = 5.0  # nats by which left images may exceed the answer
BEARABLE = 7.0  # nats by which terms may
VALLEY = (-3.0, -2.0, -1.0, -0.5, 0.25, 0.5, 1.0, 2.0)  # widths of the valley at which K is known
MANY = 20  # distinct steps, beyond which one bound for each is enough
COARSE = 3  # stride in the tilts that are tried then
RATIO = 1.04  # of neighbouring frequencies in the bound of the cut-off integral
RANGE = 800  # and how many of them


@dataclass(frozen=True)
class Law:
    """One distinct step of a composition in one direction."""

    oracle: Oracle
    count: int

    @classmethod
    def of(cls, event: Use, direction: str, count: int) -> Law:
        """So many uses of a mechanism without an index, and no atom's mass may be zero."""
        declaration = event.mechanism.declaration
        if direction == "add":
            declaration = declaration.reverse or reversed_pair(declaration)
        if declaration.tag is not None:
            name = event.mechanism.name
            raise UnsupportedError(f"certified: {name} has an index in its output")
        oracle = Oracle(declaration, event.theta)
        if any(not (m > 0 or m.is_zero()) for _, *masses in oracle.atoms for m in masses):
            raise UnsupportedError(f"certified: an atom of {event} may have no mass")
        return cls(oracle, count)


def peak(t: Any) -> Any:
    """The largest value of e^(-tx) (1 - e^(-x)) for x > 0: t^t/(1+t)^(1+t)."""
    return (t * t.log() - (1 + t) * (1 + t).log()).exp()


class Contour:
    """Certified delta at finite losses of a composition of pairs with densities."""

    def __init__(self, laws: Sequence[Law], guide: ComposedLoss, rtols: Sequence[float]) -> None:
        """Compose.

        Args:
            laws: distinct steps with counts.
            guide: the same composition in floating point, which chooses the contour.
            rtols: relative widths aimed at: the first one that few nodes reach, or the last.
        """
        self.laws, self.guide, self.rtols = tuple(laws), guide, tuple(rtols)
        self._decays: dict[float, list[list[Decay]]] = {}

    # -- floating point: where to integrate ----------------------------------------------------

    def _rough(self, t: float) -> float:
        """K(t) to a few digits, inf where it is not finite."""
        try:
            value = float(self.guide.cumulants(t, 0)[0])
        except MechcError:
            return math.inf
        return value if math.isfinite(value) else math.inf

    def plan(self, epsilon: float, rtol: float) -> tuple[float, float, float, float]:
        """(c, T, s, log of the size of delta): contour, period, tilt for the right images."""
        t = solve(self.guide, saddle_target(epsilon), epsilon).t
        t = min(max(t, TILTS[0]), TILTS[1], 0.999 * self.guide.strip[1])
        k, mean, variance = (float(v) for v in self.guide.cumulants(t, 2))
        if not math.isfinite(variance):
            raise NumericError(f"the generating function is not known at {t:.5g}")
        # derivatives of K(t) - epsilon t - log(t (1 + t)) in log t
        curve = t * (mean - epsilon) + t * t * variance - t / (1.0 + t) ** 2
        steep = math.sqrt(max(curve, 1e-3))
        size = k - epsilon * t - math.log1p(t) - math.log(steep) - 0.5 * math.log(2.0 * math.pi)
        width = min(1.0 / steep, 1.0)
        shifts = [*np.linspace(-1.8, 1.5, 12), *(width * np.array(VALLEY))]
        # K of many steps takes its time
        grid = t * np.exp(np.sort([*shifts[:: 1 if len(self.laws) <= MANY else COARSE], 0.0]))
        if known := [c for c in self._decays if 0.17 * t <= c <= 1.02 * t]:
            grid = np.union1d(grid, known)
        rough = np.array([self._rough(v) for v in grid])
        exponents = rough - epsilon * grid - np.log(grid * (1.0 + grid))
        fits = exponents <= float(exponents[grid == t][0]) + BEARABLE
        fits &= np.isin(grid, known) if known else grid <= t
        log_b, wanted = rough + log_peak(grid), size + math.log(rtol) - 3.0
        needed = periods(grid, grid.size, log_b, np.array([epsilon]), np.array([wanted]))[0]
        needed = np.where(fits, np.maximum(needed, (-size - CANCELLED) / grid), math.inf)
        i = int(np.argmin(needed))
        if not math.isfinite(needed[i]):
            raise NumericError("no contour: the generating function is not finite where needed")
        images = np.where(grid > grid[i], log_b - grid * (epsilon + needed[i]), math.inf)
        return float(grid[i]), float(needed[i]), float(grid[np.argmin(images)]), size

    # -- ball arithmetic ----------------------------------------------------------------------

    def delta(self, epsilon: float) -> tuple[Any, dict[str, Any]]:
        """Return a ball that contains the part at finite losses, and what was done."""
        for rtol in self.rtols if len(self.laws) <= MANY else self.rtols[-2:]:
            c, period, s, size = self.plan(epsilon, rtol)
            with ctx.workprec(64):
                h, scale = 2 * arb.pi() / arb(period), arb(size).exp() * rtol / 4
                last, cut = self._cutoff(arb(c), arb(epsilon), h, scale)
            if last <= max(AFFORDABLE / len(self.laws), FEWEST):
                break
        if cut > arb(size).exp():
            raise NumericError("the characteristic function decays too slowly")
        count = sum(law.count for law in self.laws)
        bits = max(int(24 - math.log2(rtol) + 2 * math.log2(1 + count)), 64)
        with ctx.workprec(bits):
            exact_c, exact_eps, h = arb(c), arb(epsilon), 2 * arb.pi() / arb(period)
            total = self._sum(exact_c, exact_eps, h, last, arb(rtol) / (64 * count))
            left = self._left(exact_c, exact_eps, arb(period))
            right = self._right(exact_c, exact_eps, arb(period), arb(s))
            value = total - left + arb(0, cut.upper()) - between(right)
        return value, {
            "contour": c, "period": period, "nodes": last + 1, "bits": bits,
            "cut-off": float(cut.upper()), "right images": float(right.upper()),
        }  # fmt: skip

    def chernoff(self, epsilon: float, tilts: Sequence[float]) -> Any:
        """The ball [0, min over tilts t of exp(K(t) - t eps) t^t/(1+t)^(1+t)] (SPA, (43))."""
        best = arb(1)
        with ctx.workprec(64):
            for t in map(arb, tilts):
                try:
                    moment = self.moment(t)
                except MechcError:
                    break
                bound = moment * (-t * epsilon).exp() * peak(t)
                best = best.min(bound.upper()) if bound.is_finite() else best
        return arb(0).union(best)

    def moment(self, t: Any) -> Any:
        """Upper bound on M(t) of the composition, for real t."""
        return self._product(lambda law: law.oracle.moment_bound(t)).upper()

    def _product(self, factor: Callable[[Law], Any]) -> Any:
        """The product over all steps of what each has."""
        return reduce(mul, (factor(law) ** law.count for law in self.laws), arb(1))

    def _sum(self, c: Any, epsilon: Any, h: Any, last: int, tolerance: Any) -> Any:
        """(h/2 pi) times the sum over |n| <= last; `tolerance` is of moments, relative to M(c)."""
        zs = [acb(c, n * h) for n in range(last + 1)]
        terms = [(-epsilon * z).exp() / (z * (z + 1)) for z in zs]
        for law, k in zip(self.laws, self.guide.by_step(float(c), 2)[:, 0], strict=True):
            size = arb(float(k)).exp()
            found = moments(law.oracle, Powers(c), h, last, size, tolerance)
            terms = [term * m**law.count for term, m in zip(terms, found, strict=True)]
        total = terms[0].real + 2 * sum((term.real for term in terms[1:]), start=arb(0))
        return total * h / (2 * arb.pi())

    def _left(self, c: Any, epsilon: Any, period: Any) -> Any:
        """The left images, their small remainder inside the ball."""
        rho, fall = (-period * c).exp(), (-period).exp()
        most = self.total_mass(0) * rho / (1 - rho)
        less = epsilon.exp() * self.total_mass(-1) * rho * fall / (1 - rho * fall)
        return most - between(less.min(most))

    def total_mass(self, z: int) -> Any:
        """M(0) or M(-1), not by 1 - P(q = 0): weights that are doubles seldom add up to one."""
        return self._product(lambda law: law.oracle.moment(acb(z)).real)

    def _right(self, c: Any, epsilon: Any, period: Any, s: Any) -> Any:
        """Bound on the right images."""
        for _ in range(TRIES):
            try:
                moment = self.moment(s)
            except MechcError:
                moment = arb.pos_inf()
            if moment.is_finite():
                break
            s = ((s * c).sqrt()).mid()  # a weaker bound, from an integral that settles
        else:
            raise NumericError(f"no bound on M({s.str(5)})")
        if not s > c:
            raise NumericError(f"no bound on M right of the contour at {c.str(5)}")
        w = (-period * (s - c)).exp()
        return moment * (-s * epsilon).exp() * peak(s) * w / (1 - w)

    def _cutoff(self, c: Any, epsilon: Any, h: Any, wanted: Any) -> tuple[int, Any]:
        """The last node, and a bound on what lies beyond."""
        if (key := float(c)) not in self._decays:
            nats = TAIL_NATS if len(self.laws) <= MANY else TAIL_NATS[:1]
            self._decays[key] = [decays(law.oracle, Powers(c), nats) for law in self.laws]
        front = (-c * epsilon).exp() / arb.pi()
        ys = [h * arb(RATIO) ** i for i in range(RANGE)]
        rows = list(zip(self.laws, self._decays[key], strict=True))
        heights = [
            reduce(mul, (least(bounds, y) ** law.count for law, bounds in rows), front) for y in ys
        ]
        # beyond ys[i]: sum of height * (1/y_j - 1/y_{j+1}), the last one out to infinity
        beyond = heights[-1] / ys[-1]
        best = (RANGE - 1, beyond)
        for i in range(RANGE - 2, -1, -1):
            beyond += heights[i] * (1 / ys[i] - 1 / ys[i + 1])
            nodes = int(float((ys[i] / h).mid())) + 1
            if beyond < wanted or nodes > MAX_NODES:
                best = (i, beyond)
            elif nodes <= MAX_NODES:
                break
        last = int(float((ys[best[0]] / h).mid())) + 1
        return last, best[1].upper()
