"""Certified delta of a composition by the trapezoid rule on a vertical line (Theorem A).

For 0 < c < t+ and a period T, with h = 2 pi/T and g(z) = exp(K(z) - eps z)/(z (z + 1)),

    (h/2 pi) sum_n g(c + inh) = sum_m e^(mTc) delta_f(eps + mT),

delta_f being the part of delta at finite losses. Hence delta_f is the sum, minus the left images,
which are M(0) rho/(1-rho) - e^eps M(-1) rho e^-T/(1 - rho e^-T) up to a small known remainder (rho
= e^-Tc), minus right images, which are bounded by exp(K(s) - s eps) s^s/(1+s)^(1+s) w/(1-w) with w
= e^-T(s-c) for any s in (c, t+). Nodes beyond a frequency Y are bounded through
mechc.verify.certified.decay. All four errors, and every M(z), are balls; only the choice of c, T, Y
and s is made in floating point, and it changes nothing but the width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flint import acb, arb, ctx

from mechc.accountants.contours.composed import ComposedLoss
from mechc.accountants.contours.saddle import saddle_target, solve
from mechc.errors import MechcError, NumericError
from mechc.verify.balls.oracle import Oracle
from mechc.verify.certified.decay import TAIL_NATS, Decay, decays
from mechc.verify.certified.moments import Wheel

MAX_NODES, AFFORDABLE, FEWEST = 20_000, 12_000, 500  # nodes; moments at all of them
TRIES = 5
TILTS = (2e-3, 4e3)  # between which contours lie
CANCELLED = 5.0  # nats by which left images may exceed the answer
SHARP = (100, 1000)  # nodes for which bounds on |M| leave flat losses out
FAINT, WIDE = 0.05, 1e-12  # share of the promised size, and relative radius, that call for more
MANY = 20  # distinct steps, beyond which one bound each, and for so many of them, is enough
COARSE = 3  # stride in the tilts that are tried then
RATIO = 1.04  # of neighbouring frequencies in the bound of the cut-off integral
STEEP = 30.0  # largest slope of a bound on left images in its tilt
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
        self._decays: dict[float, dict[int, list[Decay]]] = {}

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
        """(t, log of the size of delta there, width of the valley in log t)."""
        t = solve(self.guide, saddle_target(epsilon), epsilon).t
        t = min(max(t, TILTS[0]), TILTS[1], 0.999 * self.guide.strip[1])
        k, mean, variance = (float(v) for v in self.guide.cumulants(t, 2))
        if not math.isfinite(variance):
            raise NumericError(f"the generating function is not known at {t:.5g}")
        # derivatives of K(t) - epsilon t - log(t (1 + t)) in log t
        curve = t * (mean - epsilon) + t * t * variance - t / (1.0 + t) ** 2
        steep = math.sqrt(max(curve, 1e-3))
        size = k - epsilon * t - math.log1p(t) - math.log(steep) - 0.5 * math.log(2.0 * math.pi)
        return t, size, min(1.0 / steep, 1.0)

    def plan(self, epsilon: float, rtol: float) -> tuple[float, float, float, float]:
        """(c, T, s, log of the size of delta): contour, period, tilt for the right images."""
        t, size, width = self.saddle(epsilon)
        wanted = size + math.log(rtol)
        shifts = [t * math.exp(-1.8 + 0.3 * i) for i in range(12)]
        shifts += [t * math.exp(width * i) for i in (0.25, 0.5, 1.0, 2.0)]
        stride = 1 if len(self.laws) <= MANY else COARSE  # K of many steps takes its time
        tops = [
            (s, self.rough(s) - s * epsilon + s * math.log(s) - (1 + s) * math.log1p(s))
            for s in shifts[::stride]
        ]
        floor = self.rough(t) - t * epsilon - math.log(t) - math.log1p(t)
        best, near = (math.inf, t, t, t), 1.0 + 0.05 * width
        known = [c for c in self._decays if 0.17 * t <= c <= 1.02 * t]
        wide = [t * math.exp(-0.35 * i) for i in range(6)]
        wide += [t * math.exp(-width * i) for i in (0.5, 1.0, 2.0, 3.0)]
        for c in [*known, *wide[::stride]]:
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
        tops = self._left_tops(epsilon)
        if not tops:
            return -(wanted - 3.0) / c
        rests = [(top - wanted + 3.0) / (c + u) for u, top in tops]
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
        aims = self.rtols if len(self.laws) <= MANY else self.rtols[-2:]
        value, size, detail = self._aimed(epsilon, aims)
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
            if last <= max(AFFORDABLE / len(self.laws), FEWEST):
                break
        if cut > arb(size).exp():
            raise NumericError("the characteristic function decays too slowly")
        count = sum(law.count for law in self.laws)
        bits = max(int(24 - math.log2(rtol) + 2 * math.log2(1 + count)), 64)
        with ctx.workprec(bits):
            exact_c, exact_eps, h = arb(c), arb(epsilon), 2 * arb.pi() / arb(period)
            wheels = self._wheels(exact_c, h, last, arb(rtol) / (64 * count))
            total = self._terms(wheels, exact_c, exact_eps, h, last)
            cut *= self._others(c, [wheel.largest.log() for wheel in wheels])
            cut /= self._others(c, self._sizes(c))
            left = self._left(exact_c, exact_eps, arb(period))
            right = self._right(exact_c, exact_eps, arb(period), arb(s))
            value = total - left
            value = value + arb(0, cut.upper()) - right.upper() / 2 + arb(0, (right / 2).upper())
        detail = {
            "contour": c, "period": period, "nodes": last + 1, "bits": bits,
            "cut-off": float(cut.upper()), "right images": float(right.upper()),
        }  # fmt: skip
        return value, size, detail

    def chernoff(self, epsilon: float, tilts: Sequence[float]) -> Any:
        """The ball [0, min over tilts t of exp(K(t) - t eps) t^t/(1+t)^(1+t)] (SPA, (43))."""
        best = arb(1)
        with ctx.workprec(64):
            for t in map(arb, tilts):
                try:
                    moment = self.moment(t)
                except MechcError:
                    break
                bound = moment * (-t * epsilon + t * t.log() - (1 + t) * (1 + t).log()).exp()
                best = best.min(bound.upper()) if bound.is_finite() else best
        return arb(0).union(best)

    def moment(self, t: Any) -> Any:
        """Upper bound on M(t) of the composition, for real t."""
        total = arb(1)
        for law in self.laws:
            total *= law.oracle.moment_bound(t) ** law.count
        return total.upper()

    def _sizes(self, c: float) -> list[Any]:
        """Log M(c) of every step in floating point, as exact balls."""
        return [arb(float(k)) for k in self.guide.by_step(c, 2)[:, 0]]

    def _wheels(self, c: Any, h: Any, last: int, tolerance: Any) -> list[Wheel]:
        """The moments of every step, `tolerance` being relative to M(c)."""
        rows = zip(self.laws, self._sizes(float(c)), strict=True)
        return [Wheel(law.oracle, c, h, last, log.exp(), tolerance) for law, log in rows]

    def _terms(self, wheels: Sequence[Wheel], c: Any, epsilon: Any, h: Any, last: int) -> Any:
        """(h/2 pi) times the sum over |n| <= last."""
        total, front = arb(0), (-epsilon * c).exp()
        rows = zip(*(wheel.moments(last) for wheel in wheels), strict=True)
        for n, moments in enumerate(rows):
            z = acb(c, n * h)
            term = acb(0, -epsilon * n * h).exp() / (z * (z + 1))
            for law, moment in zip(self.laws, moments, strict=True):
                term *= moment**law.count
            total += term.real if n == 0 else 2 * term.real
        return total * front * h / (2 * arb.pi())

    def _left(self, c: Any, epsilon: Any, period: Any) -> Any:
        """The left images, their small remainder inside the ball."""
        rho, fall = (-period * c).exp(), (-period).exp()
        known = self._finite("p") * rho / (1 - rho)
        known -= epsilon.exp() * self._finite("q") * rho * fall / (1 - rho * fall)
        rest, every = self._left_rest(c, epsilon, period), (rho / (1 - rho)).upper()
        if not rest < every:  # delta is at most one everywhere
            return every / 2 + arb(0, (every / 2).upper())
        return known + rest / 2 + arb(0, (rest / 2).upper())

    def _left_rest(self, c: Any, epsilon: Any, period: Any) -> Any:
        """Bound on what the left images are besides their closed form, from the best tilt."""
        guesses = [
            (top - float(period) * (float(c) + u), u) for u, top in self._left_tops(float(epsilon))
        ]
        for _, u in sorted(guesses):
            try:
                moment = self.moment(arb(-u)) if u > 1.0 else self._finite("q")
            except MechcError:
                continue
            bound = moment * (u * epsilon).exp()
            if u > 1.0:
                bound *= ((u - 1) * arb(u - 1).log() - u * arb(u).log()).exp()
            each = (-period * (c + u)).exp()
            bound = (bound * each / (1 - each)).upper()
            if bound.is_finite():
                return bound
        return arb.pos_inf()

    def _left_tops(self, epsilon: float) -> list[tuple[float, float]]:
        """Tilts u, and rough logs of what exp(-u T) is multiplied by in their bounds."""
        tops = [(1.0, self.rough(-1.0) + epsilon)]
        for u in (2.0**i for i in range(1, 11)):
            top = self.rough(-u) + u * epsilon
            top += (u - 1.0) * math.log(u - 1.0) - u * math.log(u)
            if not top < tops[-1][1] + STEEP * u:
                break  # the period would have to be too long
            tops.append((u, top))
        return [row for row in tops if math.isfinite(row[1])]

    def _finite(self, law: str) -> Any:
        """M(0) (law "p") or M(-1) (law "q"): what is not at infinity."""
        total = arb(1)
        for step in self.laws:
            total *= (1 - step.oracle.infinite_mass(law)) ** step.count
        return total

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
        w = (-period * (s - c)).exp()
        exponent = -s * epsilon + s * s.log() - (1 + s) * (1 + s).log()
        return moment * exponent.exp() * w / (1 - w)

    def _cutoff(self, c: Any, epsilon: Any, h: Any, wanted: Any) -> tuple[int, Any]:
        """The last node, and a bound on what lies beyond, but for `_others` in floating point."""
        key = float(c)
        if key not in self._decays:
            frequencies = [n * float(h.mid()) for n in SHARP]
            nats = TAIL_NATS if len(self.laws) <= MANY else TAIL_NATS[:1]
            some = frequencies if len(self.laws) <= MANY else []
            self._decays[key] = {
                n: decays(self.laws[n].oracle, c, some, nats) for n in self._widest(key)
            }
        tables = self._decays[key]
        front = (-c * epsilon).exp() / arb.pi() * self._others(key, self._sizes(key))
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

    def _widest(self, c: float) -> list[int]:
        """The steps, or MANY of them, whose characteristic functions fall first."""
        counts = [law.count for law in self.laws]
        spread = counts * self.guide.by_step(c, 2)[:, 2]
        return sorted(range(len(counts)), key=lambda n: -spread[n])[:MANY]

    def _height(self, tables: dict[int, list[Decay]], y: Any) -> Any:
        """Bound on |M(c + iy)| of the steps with bounds, for this and all higher frequencies."""
        total = arb(1)
        for n, rows in tables.items():
            one = rows[0].at(y)
            for decay in rows[1:]:
                one = one.min(decay.at(y))
            total *= one ** self.laws[n].count
        return total

    def _others(self, c: float, logs: Sequence[Any]) -> Any:
        """Product of the sizes at c of all steps without bounds, from logs of every step's."""
        total = arb(0)
        for n, law in enumerate(self.laws):
            if n not in self._decays[c]:
                total += law.count * logs[n]
        return total.exp()
