"""Certified delta of a composition by the trapezoid rule on a vertical line (Theorem A).

For 0 < c < t+ and a period T, with h = 2 pi/T and g(z) = exp(K(z) - eps z)/(z (z + 1)),

    (h/2 pi) sum_n g(c + inh) = sum_m e^(mTc) delta_f(eps + mT),

delta_f being the part of delta at finite losses. Hence delta_f is the sum, minus the left images,
which are M(0) rho/(1-rho) - e^eps M(-1) rho e^-T/(1 - rho e^-T) up to a small known remainder
(rho = e^-Tc), minus right images, which are bounded by exp(K(s) - s eps) s^s/(1+s)^(1+s) w/(1-w)
with w = e^-T(s-c) for any s in (c, t+). Nodes beyond a frequency Y are bounded through
mechc.verify.decay. All four errors, and every M(z), are balls; only the choice of c, T, Y and s is
made in floating point, and it changes nothing but the width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flint import acb, arb, ctx

from mechc.accountants.composed import ComposedLoss
from mechc.errors import MechcError, NumericError
from mechc.verify.ball import Oracle
from mechc.verify.decay import TAIL_NATS, Decay, decays
from mechc.verify.wheel import Wheel

MAX_NODES, AFFORDABLE = 8000, 3000
TRIES = 5
GOLDEN = 28  # narrowings of the bracket of a saddle point
CANCELLED = 5.0  # nats by which left images may exceed the answer
SHARP = (100, 1000)  # nodes for which bounds on |M| leave flat losses out
FAINT, WIDE = 0.05, 1e-12  # share of the promised size, and relative radius, that call for more
MANY = 20  # distinct steps, beyond which each has one bound alone
RATIO = 1.04  # of neighbouring frequencies in the bound of the cut-off integral
RANGE = 800  # and how many of them


@dataclass(frozen=True)
class Law:
    """One distinct step of a composition in one direction."""

    oracle: Oracle
    count: int


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
        self._rough: dict[float, float] = {}
        self._decays: dict[float, list[list[Decay]]] = {}

    # -- floating point: where to integrate ----------------------------------------------------

    def rough(self, t: float) -> float:
        """K(t) to a few digits, inf where it is not finite."""
        if t not in self._rough:
            try:
                value = float(self.guide.cumulants(t, 0)[0])
            except MechcError:
                value = math.inf
            self._rough[t] = value if math.isfinite(value) else math.inf
        return self._rough[t]

    def saddle(self, epsilon: float) -> tuple[float, float, float]:
        """(t, log of the size of delta there, width of the valley in log t), by golden section."""

        def f(u: float) -> float:
            t = math.exp(u)
            return self.rough(t) - epsilon * t - u - math.log1p(t)

        grid = [-6.0 + 0.75 * i for i in range(20)]
        values = [f(u) for u in grid]
        best = min(range(len(grid)), key=values.__getitem__)
        a, b = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        ratio = (math.sqrt(5.0) - 1.0) / 2.0
        for _ in range(GOLDEN):
            x, y = b - ratio * (b - a), a + ratio * (b - a)
            a, b = (a, y) if f(x) <= f(y) else (x, b)
        u, step = (a + b) / 2.0, 0.05
        while step > 1e-9 and max(f(u + step), f(u - step)) > f(u) + 1.0:
            step /= 2.0  # the valley is narrow next to an end of the strip
        curve = (f(u + step) - 2.0 * f(u) + f(u - step)) / step**2
        t = math.exp(u)
        steep = math.sqrt(max(curve, 1e-3))
        size = f(u) - math.log(steep / t) - 0.5 * math.log(2.0 * math.pi)
        return t, size, min(1.0 / steep, 1.0)

    def plan(self, epsilon: float, rtol: float) -> tuple[float, float, float, float]:
        """(c, T, s, log of the size of delta): contour, period, tilt for the right images."""
        t, size, width = self.saddle(epsilon)
        wanted = size + math.log(rtol)
        shifts = [t * math.exp(-1.8 + 0.3 * i) for i in range(12)]
        shifts += [t * math.exp(width * i) for i in (0.25, 0.5, 1.0, 2.0)]
        tops = [
            (s, self.rough(s) - s * epsilon + s * math.log(s) - (1 + s) * math.log1p(s))
            for s in shifts
        ]
        floor = self.rough(t) - t * epsilon - math.log(t) - math.log1p(t)
        best, near = (math.inf, t, t, t), 1.0 + 0.05 * width
        known = [c for c in self._decays if 0.17 * t <= c <= 1.02 * t]
        wide = [t * math.exp(-0.35 * i) for i in range(6)]
        for c in [*known, *wide, *(t * math.exp(-width * i) for i in (0.5, 1.0, 2.0, 3.0))]:
            here = self.rough(c) - c * epsilon - math.log(c) - math.log1p(c)
            if here > floor + 7.0 or (known and c not in known and math.isfinite(best[0])):
                continue
            right = min(((top - wanted + 3.0) / (s - c), s) for s, top in tops if s > near * c)
            period = max(right[0], self._left_period(c, epsilon, size, wanted))
            best = min(best, (period, c, period, right[1]))
        if not math.isfinite(best[0]):
            raise NumericError("no contour: the generating function is not finite where needed")
        return best[1], best[2], best[3], size

    def _left_period(self, c: float, epsilon: float, size: float, wanted: float) -> float:
        """Shortest period whose left images are known, or smaller than the answer's accuracy.

        They are subtracted in closed form, so that they may exceed the answer by a few nats; the
        remainder falls like exp(K(-u) - T (c + u)).
        """
        if any(math.isinf(self.rough(-u)) for u in (1.0,)):
            return -(wanted - 3.0) / c
        rests = []
        for u in (1.0, *(2.0**i for i in range(1, 11))):
            top = self.rough(-u) + u * epsilon
            if u > 1.0:
                top += (u - 1.0) * math.log(u - 1.0) - u * math.log(u)
            rests.append((top - wanted + 3.0) / (c + u))
        known = (-size - CANCELLED) / c
        return min(-(wanted - 3.0) / c, max(min(rests), known, 0.1))

    # -- ball arithmetic ----------------------------------------------------------------------

    def delta(self, epsilon: float) -> tuple[Any, dict[str, Any]]:
        """Return a ball that contains the part at finite losses.

        Args:
            epsilon: any real number.

        Returns:
            The ball, and what was done.

        Raises:
            NumericError: no contour, or too many nodes.
        """
        value, size, detail = self._aimed(epsilon, self.rtols)
        share = float(value.upper() / arb(size).exp())
        if 0.0 < share < FAINT and value.rad() > WIDE * abs(value.mid()):
            # far less than the saddle point promises: terms cancel, and the aim was too high
            sharper, _, detail = self._aimed(epsilon, [share * rtol for rtol in self.rtols[1:]])
            value = value.intersection(sharper)
        return value, detail

    def _aimed(self, epsilon: float, rtols: Sequence[float]) -> tuple[Any, float, dict[str, Any]]:
        """The ball with errors below the first of `rtols` that few nodes reach, or the last.

        They are shares of what the saddle point promises, whose logarithm comes second.
        """
        for rtol in rtols:
            c, period, s, size = self.plan(epsilon, rtol)
            with ctx.workprec(64):
                h, scale = 2 * arb.pi() / arb(period), arb(size).exp() * rtol / 4
                last, cut = self._cutoff(arb(c), arb(epsilon), h, scale)
            if last <= AFFORDABLE:
                break
        if cut > arb(size).exp():
            raise NumericError("the characteristic function decays too slowly")
        count = sum(law.count for law in self.laws)
        bits = max(int(24 - math.log2(rtol) + 2 * math.log2(1 + count)), 64)
        with ctx.workprec(bits):
            exact_c, exact_eps, h = arb(c), arb(epsilon), 2 * arb.pi() / arb(period)
            total = self._terms(exact_c, exact_eps, h, last, arb(rtol) / (64 * count))
            left = self._left(exact_c, exact_eps, arb(period), scale)
            right = self._right(exact_c, exact_eps, arb(period), arb(s))
            value = total - left
            value = value + arb(0, cut.upper()) - right.upper() / 2 + arb(0, (right / 2).upper())
        detail = {
            "contour": c, "period": period, "nodes": last + 1, "bits": bits,
            "cut-off": float(cut.upper()), "right images": float(right.upper()),
        }  # fmt: skip
        return value, size, detail

    def chernoff(self, epsilon: float) -> Any:
        """The ball [0, min over some t of exp(K(t) - t eps) t^t/(1+t)^(1+t)] (SPA, (43))."""
        best = arb(1)
        with ctx.workprec(64):
            for i in range(-6, 14):
                t = arb(2.0**i)
                try:
                    moment = self.moment(acb(t)).real
                except MechcError:
                    break
                bound = moment * (-t * epsilon + t * t.log() - (1 + t) * (1 + t).log()).exp()
                best = best.min(bound.upper()) if bound.is_finite() else best
        return arb(0).union(best)

    def moment(self, z: Any) -> Any:
        """M(z) of the composition."""
        total = acb(1)
        for law in self.laws:
            total *= law.oracle.moment(z) ** law.count
        return total

    def _terms(self, c: Any, epsilon: Any, h: Any, last: int, tolerance: Any) -> Any:
        """(h/2 pi) times the sum over |n| <= last; `tolerance` is that of one step's moments."""
        wheels = [Wheel(law.oracle, c, h, last, tolerance) for law in self.laws]
        total, front = arb(0), (-epsilon * c).exp()
        rows = zip(*(wheel.moments(last) for wheel in wheels), strict=True)
        for n, moments in enumerate(rows):
            z = acb(c, n * h)
            term = acb(0, -epsilon * n * h).exp() / (z * (z + 1))
            for law, moment in zip(self.laws, moments, strict=True):
                term *= moment**law.count
            total += term.real if n == 0 else 2 * term.real
        return total * front * h / (2 * arb.pi())

    def _left(self, c: Any, epsilon: Any, period: Any, wanted: Any) -> Any:
        """The left images, their small remainder inside the ball."""
        rho, fall = (-period * c).exp(), (-period).exp()
        known = self.moment(acb(0)).real * rho / (1 - rho)
        known -= epsilon.exp() * self.moment(acb(-1)).real * rho * fall / (1 - rho * fall)
        rest = None
        for u in (1.0, *(2.0**i for i in range(1, 11))):
            try:
                moment = self.moment(acb(-u)).real
            except MechcError:
                break
            bound = moment * (u * epsilon).exp()
            if u > 1.0:
                bound *= ((u - 1) * arb(u - 1).log() - u * arb(u).log()).exp()
            each = (-period * (c + u)).exp()
            bound = (bound * each / (1 - each)).upper()
            rest = bound if rest is None or bound < rest else rest
            if rest < wanted:
                break
        every = (rho / (1 - rho)).upper()  # delta is at most one everywhere
        if rest is None or every < rest:
            return every / 2 + arb(0, (every / 2).upper())
        return known + rest / 2 + arb(0, (rest / 2).upper())

    def _right(self, c: Any, epsilon: Any, period: Any, s: Any) -> Any:
        """Bound on the right images."""
        for _ in range(TRIES):
            try:
                moment = self.moment(acb(s)).real
            except MechcError:
                moment = arb.pos_inf()
            if moment.is_finite():
                break
            s = ((s * c).sqrt()).mid()  # a weaker bound, from an integral that settles
        else:
            raise NumericError(f"no bound on M({s.str(5)})")
        w = (-period * (s - c)).exp()
        exponent = -s * epsilon + s * s.log() - (1 + s) * (1 + s).log()
        return moment * exponent.exp() * w / (1 - w)

    def _cutoff(self, c: Any, epsilon: Any, h: Any, wanted: Any) -> tuple[int, Any]:
        """The last node, and a bound on what lies beyond."""
        front = (-c * epsilon).exp() / arb.pi()
        key = float(c)
        if key not in self._decays:
            frequencies = [n * float(h.mid()) for n in SHARP]
            nats = TAIL_NATS if len(self.laws) <= MANY else TAIL_NATS[:1]
            some = frequencies if len(self.laws) <= MANY else []
            self._decays[key] = [decays(law.oracle, c, some, nats) for law in self.laws]
        tables = self._decays[key]
        ys = [h * arb(RATIO) ** i for i in range(RANGE)]
        heights = [front * self._height(tables, y) for y in ys]
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

    def _height(self, tables: list[list[Decay]], y: Any) -> Any:
        """Bound on |M(c + iy)| of the composition, for this and all higher frequencies."""
        total = arb(1)
        for law, rows in zip(self.laws, tables, strict=True):
            one = rows[0].at(y)
            for decay in rows[1:]:
                one = one.min(decay.at(y))
            total *= one**law.count
        return total
