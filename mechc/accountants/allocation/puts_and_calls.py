"""The mean W of t independent copies of X = exp(L) under Q: puts and calls, with proven bounds.

In random allocation a record takes part in one of t steps, and W is the likelihood ratio of the
epoch (docs/theorems.md, T11). With phi(s) = E_Q[exp(-sX/t)]^t, period T and h = 2 pi / T,

    (exp(ac) / T) sum_n phi(s_n) exp(i n h c) / s_n^2 = sum_m exp(-amT) f(c + mT),    s_n = a + inh,

where f(c) = E_Q[(c - W)_+] for a > 0, and f(c) = E_Q[(W - c)_+] for a < 0 (Poisson summation, as
Theorem A in `trapezoid`). The images m != 0 are positive. The sum over n is that of
`characteristic` for the loss -X/t under Q at the tilt a, and what is left out is bounded by its
proof of decay.

A put exists for every mechanism, as X >= 0; X > tc contribute nothing to it, and are left out. A
call needs exponential moments. Split the law of X into parts: small ones up to about b, large ones
up to about U, and those beyond tc, where the call is in the money whatever the others are. Then

    E (W - c)_+ = sum_m C(t, m) E[(W - c)_+; m large, t - m small] + E[W - c; some X beyond],

all terms positive: the last is elementary, the others have transforms psi^m phi^(t-m), and lines of
their own through their own saddle points, so that the sum has relative accuracy to any depth. Parts
end little by little, by a share between 0 and 1 of every X, so that their transforms fade.

Atoms do not let phi fade, and few steps let it fade slowly. Then W + U has a transform that does,
phi(s) exp(v^2 s^2 / 2) for normal U of standard deviation v and density p. A payoff f is convex,
with the law of W for its second derivative, and E(U - |x|)_+ <= v^2 p(x), so that

    E f(c + U) - v^2 p_(W + U)(c) <= f(c) <= E f(c + U),

of which the density comes from the same frequencies. With v = blur / |a| that is an interval of
about blur^2 of f(c), at any depth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from mechc.accountants.contours.characteristic import LEVELS, PROVEN, Tilted
from mechc.accountants.contours.law import Law
from mechc.errors import NumericError
from mechc.loss.atoms import mirrored
from mechc.loss.infinite_mass import log_complement
from mechc.loss.moments import dot, excess
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.loss.quadrature import TURN
from mechc.loss.quadrature.rule import ORDER
from mechc.numeric.allowance import spend
from mechc.numeric.jit import compiled
from mechc.numeric.logs import log_of
from mechc.numeric.rounding import EPS, MOST_LOG, U
from mechc.protocol import Floats

UNCUT = 1e-22  # tilted mass of a panel in which it may turn further ...
LOOSE = 0.01  # ... over t, in the proof of decay, if less than of a phi that has faded
MOST_PARTS, MOST_NODES = 400, 400_000  # of one panel; of all panels
ROUNDS = 6  # of cutting into eight before
STEEP = 1.0  # nats of X in a panel: exp(-sX) is at most one as far as Im log X = pi/2, at any s > 0
MOST_FREQUENCIES = 200_000  # of one contour
FADED = -40.0  # log of |phi| at the last frequency, by an estimate ...
DONE = -36.0  # ... and of what it makes of a term
QUADRATURE = 1e-14  # relative error of masses, beside that which the law states
CAP = 300.0  # largest log X that is told from larger ones
FURTHER, FAR = 8.0, 1e5  # times the last frequency that is resolved to prove decay of few steps
STAGE, OFTEN = 3e3, 100.0  # of frequencies, last over first; X over t, times the first of them
BEYOND_LEVEL = 1.25  # times the frequency from where on total variation keeps it faded
LASTING = -45.0  # log of the mass of atoms of the epoch that keeps phi from fading
FLOOR = 1e-15  # mass beyond all panels
BLURRED = 6.5  # standard deviations of what is added to W, times the last frequency
BLURS = 5e-4, 1.5e-3, 6e-3, 3e-2  # standard deviations that are tried, over |a|
WIDTH, EDGE = 0.05, 6.0  # of ends of a part of X, in log X; and in units of that what is beyond
FINER, PART = 8, 3.0  # parts of a panel there; and what in these units is short


def _below(log_x: Floats, end: float, width: float) -> Floats:
    """A smooth step from 1 to 0 around an end, 1 and 0 within 2e-17 beyond its edges."""
    if not width or end == math.inf:
        return np.where(log_x <= end, 1.0, 0.0)
    z = np.clip((log_x - end) / width, -2.0 * EDGE, 2.0 * EDGE)
    step = np.where(z < -EDGE, 1.0, 0.5 * scipy.special.erfc(z))
    return np.where(z > EDGE, 0.0, step)


@dataclass(frozen=True, eq=False)
class Shares:
    """The law of X = exp(L) under Q."""

    law: PrivacyLoss  # of the loss of removing a record
    steps: int  # t
    # X outside of this range are left out, little by little so that the law of the others, which
    # has less mass, has a smooth density; from below point masses alone
    log_floor: float = -math.inf
    log_cap: float = math.inf
    width: float = WIDTH  # of these ends, in log X; 0 where they are ends of parts of panels

    @property
    def error(self) -> float:
        """Relative error of masses, that of moving X included."""
        law = self.law
        ends = law.unresolved(0.0) + law.unresolved(-1.0)
        masses = law.tolerance + law.density_error + law.mass_errors[1]
        return QUADRATURE + masses + law.loss_error + ends

    @property
    def continuous(self) -> bool:
        """Whether X has a density beside atoms."""
        return self.law.source is not None and self.law.source.continuous

    @property
    def sign(self) -> float:
        """Log X as a multiple of the loss of the source, of which Q is the second law, or first."""
        return -1.0 if self.law.is_reversed else 1.0

    @property
    def points(self) -> tuple[Floats, Floats]:
        """Log X that have masses, -inf among them, and logs of these under Q."""
        law, zero = self.law, self.law.log_minus_infinite
        log_x, log_q = law.atom_loss, law.atom_log_mass - law.atom_loss
        if zero > -math.inf:
            log_x, log_q = np.append(-math.inf, log_x), np.append(zero, log_q)
        return log_x, log_q

    @cached_property
    def square(self) -> bool:
        """Whether nodes resolve E_Q[X^2], so that their errors enter in the second order."""
        source = self.law.source
        if source is None or not source.continuous:
            return True
        tilts = self._tilts(1.0)
        if source.ends or not (source.strip[0] < tilts[0] and tilts[1] < source.strip[1]):
            return False
        try:
            source.cover(*tilts)
        except NumericError:
            return False
        return True

    def _tilts(self, highest: float) -> tuple[float, float]:
        return mirrored(-1.0, highest) if self.law.is_reversed else (-1.0, highest)

    def masses(self, panels: Any) -> tuple[Floats, Floats]:
        """Return log X, and logs of masses under Q, at the nodes of panels."""
        log_mass = panels.log_weight.reshape(panels.loss.shape)
        return self.sign * panels.loss, log_mass - (0.0 if self.law.is_reversed else panels.loss)

    def taken(self, log_x: Floats) -> Floats:
        """The share of X that belongs to this part, by its logarithm."""
        return _below(log_x, self.log_cap, self.width) * _below(-log_x, -self.log_floor, self.width)

    @cached_property
    def panels(self) -> Any:
        """The panels of this part of what has a density."""
        found = self._all_panels
        if found is None:
            return None
        return found.among(self.taken(self.sign * found.loss).max(axis=1) > 0.0)

    @cached_property
    def _all_panels(self) -> Any:
        """The panels of all that has a density, short at the end of this part."""
        source = self.law.source
        if source is None or not source.continuous:
            return None
        panels = source.cover(*self._tilts(1.0 if self.square else 0.0))
        end, w = self.log_cap, self.width
        if not w:
            return panels.cut(np.full(panels.lo.size, FINER))
        for _ in range(ROUNDS if end < math.inf else 0):
            lo, hi = np.sort(self.sign * panels.loss[:, [0, -1]], axis=1).T
            near = (lo - w < end + EDGE * w) & (end - EDGE * w < hi + w) & (hi - lo > PART * w)
            if not near.any():
                break
            panels = panels.cut(np.where(near, FINER, 1))
        return panels

    @cached_property
    def above(self) -> tuple[float, float]:
        """Masses under Q and P of what is left out above."""
        log_x, log_q = self.points
        if self.continuous:
            found = self.masses(self._all_panels)
            log_x, log_q = (np.append(a, b) for a, b in zip((log_x, log_q), found, strict=True))
        share = _below(-log_x, -self.log_cap, self.width)
        return dot(np.exp(log_q), share), dot(np.exp(log_q + log_x), share)

    @cached_property
    def mean(self) -> tuple[float, float]:
        """E_Q W = 1 - P(q = 0), and its error."""
        law, log_infinite = self.law, self.law.log_infinite
        off = math.exp(log_infinite) * math.expm1(law.mass_errors[0]) + math.exp(law.log_early)
        return math.exp(log_complement(log_infinite)), off

    @property
    def left_out(self) -> tuple[float, float]:
        """Masses under Q and P of what is left out, inf and 0 where they are not known."""
        return self.above if self.log_floor == -math.inf else (math.inf, 0.0)

    @property
    def kept_mean(self) -> tuple[float, float]:
        """What this part has of E_Q X/t, and its error."""
        beyond = self.left_out[1]
        mean, off = self.mean
        return (mean - beyond) / self.steps, (off + self.error * beyond) / self.steps

    def generating(self, law: PrivacyLoss, a: Floats, n: int) -> tuple[Floats, float, bool]:
        """Return rows K, error of n steps at real parts, by nodes of a law of -X/t under Q.

        Also how far the mean of the nodes is off, and whether errors enter in the second order: the
        mean is known then.
        """
        (loss, log_weight), (mean, off) = law.nodes(), self.kept_mean
        weight = np.exp(log_weight)
        spend(4.0 * weight.size * a.size)
        drift = mean + dot(weight, loss)
        square = self.log_floor == -math.inf and self.square and self.steps * abs(drift) < 1e-9
        rows = np.empty((a.size, 2))
        for row, each in zip(rows, a.tolist(), strict=True):
            plain, first, centred, second = _cgf(
                loss, weight, each, float(n), mean, off, self.left_out[0], self.error
            )
            second = second if square else math.inf
            row[0] = plain if first <= second else centred
            row[1] = min(first, second) + EPS * 4.0 * abs(row[0])
        return rows, drift if square else 0.0, square

    @cached_property
    def log_unlisted(self) -> tuple[float, float]:
        """Logs of masses under P and Q of integers that no list of point masses has.

        Nothing where they have the losses of some that it has, and no share of their masses.
        """
        law, source, p = self.law, self.law.source, self.law.log_unlisted
        if source is None or p == -math.inf:
            return p, p
        q, off = law.reversed().log_unlisted, law.loss_rounding + law.loss_error
        for x, limit, _ in source.listed():  # losses go on from that of x to the limit
            near = np.abs(law.atom_loss - self.sign * limit) <= off
            level = abs(float(source.kernel.loss(x, source.theta)) - limit) <= off
            most, log_p = max(p, q) - math.log(U), law.atom_log_mass[near]
            if not (level and (np.minimum(log_p, log_p - law.atom_loss[near]) > most).any()):
                return p, q
        return -math.inf, -math.inf

    @cached_property
    def rough(self) -> Law:
        """The law of -W under Q, on nodes that resolve no frequency."""
        return Law((Step(self.plain, self.steps),))

    @cached_property
    def plain(self) -> PrivacyLoss:
        """The law of -X/t under Q, on nodes that resolve exp(-sX), s > 0, and no frequency."""
        return self.loss(0.0, steep=STEEP)[0]

    @property
    def lasting(self) -> float:
        """Log of the mass of atoms of the epoch under Q."""
        mass = float(np.exp(self.plain.atom_log_mass).sum())
        return self.steps * log_of(min(mass, 1.0))

    @np.errstate(divide="ignore")
    def loss(
        self, reach: float, a: float = 0.0, uncut: float = UNCUT, steep: float = math.inf
    ) -> tuple[PrivacyLoss, float]:
        """Return the law of -X/t under Q, resolved up to a frequency, and the mass that is not.

        Panels with less mass than `uncut`, tilted at `a`, need not be resolved; in others log X
        varies by `steep` at most.
        """
        law, t = self.law, float(self.steps)
        log_x, log_weight, spacing = np.empty(0), np.empty(0), np.empty(0)
        region, missed = np.empty(0, np.int64), 0.0
        if self.continuous:
            panels = self.panels
            for _ in range(ROUNDS):
                log_x, log_mass = self.masses(panels)
                x = np.exp(np.minimum(log_x, CAP)) / t
                tilted = log_mass + np.log(self.taken(log_x)) - a * x
                tilted = np.exp(tilted - max(tilted.max(initial=-math.inf), -MOST_LOG))
                mass = tilted.sum(axis=1) / max(float(tilted.sum()), 1e-300)
                wanted = np.ptp(np.clip(log_x, -CAP, CAP), axis=1) / steep
                wanted = np.maximum(wanted, np.ptp(x, axis=1) * reach / TURN)
                coarse = (mass >= uncut) & (wanted > MOST_PARTS)
                if not coarse.any():
                    break
                panels = panels.cut(np.where(coarse, 8, 1).astype(np.int64))
            far = (mass < uncut) | (wanted > MOST_PARTS)
            missed = float(mass[far & (wanted > 1.0)].sum())
            parts = np.where(far, 1.0, np.maximum(np.ceil(wanted), 1.0)).astype(np.int64)
            if parts.sum() * ORDER > MOST_NODES:
                raise NumericError(f"{law.label}: too many nodes for the frequency {reach:g}")
            panels = panels.cut(parts)
            log_x, log_weight = (each.ravel() for each in self.masses(panels))
            log_weight = log_weight + np.log(self.taken(log_x))
            log_x = np.minimum(log_x, CAP)
            spacing = panels.spacing * np.exp(log_x) / t
            region = panels.region.repeat(ORDER)
        at, log_mass = self.points
        log_mass = log_mass + np.log(self.taken(at))
        kept = log_mass > -math.inf
        made = PrivacyLoss(
            loss=-np.exp(log_x) / t, log_weight=log_weight,
            atom_loss=-np.exp(np.minimum(at[kept], CAP)) / t,
            atom_log_mass=log_mass[kept], log_infinite=-math.inf,
            log_minus_infinite=-math.inf, support=(-math.inf, 0.0), strip=(0.0, math.inf),
            tilts=(0.0, math.inf), contour=0.0, frequency=reach, tolerance=self.error + missed,
            lattice=None, label=law.label, spacing=spacing, region=region,
        )  # fmt: skip
        return made, missed


@compiled(
    "UniTuple(float64, 4)(float64[::1], float64[::1], float64, float64, float64, float64, float64,"
    " float64)"
)
def _cgf(loss, weight, a, n, mean, off, beyond, share):  # type: ignore[no-untyped-def]
    """Log phi(a)^n and its error by the deviation from 1; the same by that from 1 - a mean."""
    # `off` is the error of the mean, `beyond` the mass that the nodes do not have, `share` the
    # relative error of weights and of that.
    first, second, whole, noise, less, bends, moved = -beyond, -beyond, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(loss.size):
        u = a * loss[j]
        size = 16.0 - 4.0 * math.log(max(weight[j], 1e-300)) + 2.0 * abs(u)
        term = weight[j] * math.expm1(u)
        bend = weight[j] * excess(u) if u > -1.0 else term - weight[j] * u
        own = weight[j] * math.exp(u)
        first += term
        second += bend
        whole += own
        noise += min(abs(term), own) * size
        less += abs(bend) * (size + 32.0)
        bends += abs(bend)
        moved += abs(term)
    second -= a * mean
    whole = max(whole, 1e-300)
    near = first < -0.5
    one = EPS * noise + (
        (8.0 * EPS + share) * whole if near else share * (min(moved, whole) + beyond)
    )
    two = np.inf
    if second > -0.9:
        two = EPS * (less + 4.0 * abs(a) * mean) + abs(a) * off + share * (bends + beyond)
    return (
        n * math.log(whole) if near else n * math.log1p(first),
        -n * math.log1p(-one / whole) if one < whole else np.inf,
        n * math.log1p(max(second, -1.0 + 1e-16)),
        -n * math.log1p(-two / whole) if two < whole else np.inf,
    )


@compiled(
    "float64[:,::1](float64[::1], float64[::1], float64[::1], float64[::1], float64[::1],"
    " float64[::1], float64)",
    makes_arrays=True,
)
def _sums(turn, y, size, phase, wander, noise, ulp):  # type: ignore[no-untyped-def]
    """Rows: 1 + 2 sum size cos(phase + y turn), and its error; turns are rounded once."""
    out = np.zeros((turn.size, 2))
    for i in range(turn.size):
        total, off, partial = 0.0, 0.0, 0.0
        for n in range(y.size - 1, -1, -1):  # every partial sum is rounded
            total += size[n] * math.cos(phase[n] + y[n] * turn[i])
            off += size[n] * (12.0 + wander[n] + 3.0 * y[n] * abs(turn[i])) * ulp + noise[n]
            partial += abs(total)
        out[i, 0] = 1.0 + 2.0 * total
        out[i, 1] = 2.0 * off + 4.0 * ulp * (2.0 + partial)
    return out


Factors = Sequence[tuple[Shares, int]]


def together(factors: Factors) -> Law:
    """The law of -W under Q, or of a part of it, on nodes that resolve no frequency."""
    return Law(tuple(Step(shares.plain, count) for shares, count in factors))


class Contour:
    """One contour: the frequencies of phi, for all c that it serves.

    Attributes:
        a, period: real part and T.
        k, k_error: log of the transform at a, and its error.
    """

    def __init__(
        self, factors: Factors, a: float, period: float, most: float, blur: float = 0.0
    ) -> None:
        """Evaluate phi out to where it has faded, refused beyond `most` nodes times frequencies."""
        # `blur` is the standard deviation of what is added to W, times |a|
        self.a, self.period, rough = a, period, together(factors)
        self.steps = float(factors[0][1])
        self.blur, variance = blur, (blur / a) ** 2 if blur else 0.0
        h = 2.0 * math.pi / period
        # far out a few large ones decide, and the others fade as they do in the middle
        frequency = float(rough.fading(np.array([a, max(a, 0.0)]), FADED).max())
        if blur:
            frequency = BLURRED * abs(a) / blur
        count = math.ceil(frequency / h) + 2
        if blur and count > 2 * MOST_FREQUENCIES:
            raise NumericError(f"{factors[0][0].law.label}: too many frequencies at {a:g}")
        count = count if blur else min(count, MOST_FREQUENCIES)
        self._h, self._factors = h, factors
        while True:
            last = h * (count + 0.5)
            found = [(shares.loss(last, a), shares, n) for shares, n in factors]
            work = sum(resolved.loss.size for (resolved, _), _, _ in found) * count
            if work > most:
                label = factors[0][0].law.label
                raise NumericError(f"{label}: phi fades too slowly at {a:g}")
            tilted = [Tilted(Law((Step(resolved, n),)), a) for (resolved, _), _, n in found]
            logs = [each.log_phi(h, 1, count + 1) for each in tilted]
            re, im = np.sum(logs, axis=0)
            size = re[-1] - 0.5 * variance * last * last
            size -= 2.0 * math.log(last / abs(a)) if a else 0.0
            if size < DONE or 4.0 * work > most:
                break
            count *= 2
        self._last = last
        self.y = y = h * np.arange(1.0, count + 1.0)
        s = np.asarray(a + 1j * y, np.complex128)
        self.k, self.k_error = 0.0, 0.0
        self._means: list[float] = []  # parts of the mean of the tilted -W, exactly
        moved, rest = np.zeros(count), np.zeros(count)
        for each, log_phi, ((resolved, missed), shares, n) in zip(tilted, logs, found, strict=True):
            rest += (1.0 - 1.0 / n) * log_phi[0]
            mean = float(each.mean[0])
            short = float(np.float32(mean))
            self._means += short * n, (mean - short) * n
            moved += self._add(shares, resolved, missed, n, s) + each.lost
        steps = tuple(Step(resolved, n) for (resolved, _), _, n in found)
        self._near, self._missed = Law(steps), np.array([missed for (_, missed), _, _ in found])
        self.k += 0.5 * blur * blur
        re, im = re - 0.5 * variance * y * y, im + variance * a * y
        factor = (a / s) ** 2
        self.plain = re, im
        self.size = np.exp(re) * np.abs(factor)
        self.phase = im + np.angle(factor)
        self.wander = np.abs(re) + 2.0 * np.abs(im)
        self.off = np.exp(rest - 0.5 * variance * y * y) * moved
        self.noise = np.abs(factor) * self.off

    def _add(self, shares: Shares, resolved: PrivacyLoss, missed: float, n: int, s: Any) -> Floats:
        """Add to K what X of this kind contribute; return how far they may move phi."""
        a, share, (loss, log_weight) = self.a, shares.error, resolved.nodes()
        weight = np.exp(log_weight)
        rows, drift, square = shares.generating(resolved, np.array([a]), n)
        (k, error), (_, off), without = rows[0].tolist(), shares.kept_mean, shares.left_out[0]
        missed += math.exp(min(shares.log_unlisted[1] - k / n, 300.0))
        self.k += k
        self.k_error += error + 2.0 * n * missed
        self._means.append(-drift * n)
        # one of n factors is off by the quadrature, by no more than E |exp(-sX/t) - 1|
        tilt = np.maximum(a * loss, 0.0) if shares.continuous else a * loss  # of masses: relative
        boost = np.exp(np.minimum(tilt - k / n, 300.0))
        boosted, size = weight * boost, np.abs(s)
        each = np.minimum(2.0 * float(boosted.sum()), size * -dot(boosted, loss))
        # Of one factor f the mean is off by d, which f(s) - s d makes good, over f(a) - a d. The
        # turn exp(-iyd) does but for d (s (1 - f(s)) - a r (1 - f(a))), r = f(s) / f(a), and d^2
        bent_by = abs(drift) * size * (2.0 * each + 2.0 * abs(drift) * size)
        if square:
            bent = size**2 * 0.5 * dot(boosted, loss**2) + size * off / share
            each = np.minimum(each, bent)
        each += without * math.exp(min(-k / n, 300.0)) if without < math.inf else 0.0
        moved: Floats = 2.0 * n * (share * each + bent_by + 2.0 * missed)
        return moved

    @cached_property
    def tail(self) -> float:
        """Bound on what is left out of the sum."""
        if self.blur:
            return self._faded * (self.a / (self._last - 0.5 * self._h)) ** 2
        last, a, near = self._last, self.a, Tilted(self._near, self.a)
        few = self.steps <= PROVEN
        # of many factors those of small X are enough: the others are at most 1
        used = self._factors if few else self._factors[:1]
        level = BEYOND_LEVEL * near.levelled(FADED)  # what is not resolved there counts
        reach = min(max(2.0 * last, level), (FURTHER if few else FAR) * last)
        loose = min(LOOSE / self.steps, math.exp(FADED / self.steps) / 8.0)
        start, lacks, total = last - 0.5 * self._h, np.zeros(len(used)), 0.0
        while True:
            end = min(reach, STAGE * start)
            try:
                found = [shares.loss(end, a, loose) for shares, _ in used]
                steps = tuple(Step(f[0], n) for f, (_, n) in zip(found, used, strict=True))
                proof = Tilted(Law(steps), a)
                missed = lacks + [missed for _, missed in found]
            except NumericError:  # then total variation has to do
                reach, end, proof, missed = last, last, near, self._missed
            proof.slack += 8.0 * missed
            # |phi| <= v / y + e: of panels that are not resolved nothing but a mass is known
            proof.variations[1][:, : LEVELS + 1, 1] += 8.0 * missed[:, None]
            edge = math.inf if end == reach else end
            total += float(proof.decay(start, end, edge, FADED)[0])
            if end == reach:
                return total * self.period * a * a / math.pi
            start = end - self._h
            if a > 0.0:  # X that turn often there, and are rare, count as not resolved
                shares, n = self._factors[0]
                cap = min(shares.log_cap, math.log(OFTEN * shares.steps / end))
                cut = replace(shares, log_cap=cap)
                used, lacks = [(cut, n)], np.array([cut.above[0] * math.exp(min(a / n, MOST_LOG))])

    def _turns(self, c: Floats) -> Floats:
        """The distance of c from the mean of the tilted W."""
        return np.array([math.fsum((*self._means, each)) for each in c.tolist()])

    @property
    def _faded(self) -> float:
        """Bound on the sum of |phi| that is left out, by what is added to W."""
        v, y = self.blur / abs(self.a), self._last + 0.5 * self._h
        return 2.0 * math.exp(-0.5 * (v * y) ** 2) / -math.expm1(-v * v * y * self._h)

    def _blurred(self, c: Floats) -> Floats:
        """Bounds on v^2 times the density of W + U, in units of exp(K + ac) / (a^2 T)."""
        size = np.exp(self.plain[0])
        found = _sums(self._turns(c), self.y, size, self.plain[1], self.wander, self.off, EPS)
        out: Floats = self.blur**2 * (found.sum(axis=1) + self._faded)
        return out

    def payoffs(self, c: Floats, log_image: Floats) -> Floats:
        """Return rows (lower, estimate, upper) of the logs of f(c).

        Args:
            c: at least 0.
            log_image: log of a bound on the sum of all images, for every c.
        """
        a, period = self.a, self.period
        spend(6.0 * c.size * self.y.size)
        turns = self._turns(c)
        found = _sums(turns, self.y, self.size, self.phase, self.wander, self.noise, EPS)
        total, noise = found.T
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            log_s = self.k + a * c + math.log(1.0 / (a * a * period))
            log_s += np.log(np.maximum(total, 1e-300))
            share = (noise + self.tail) / np.maximum(total, 1e-300)
            off = self.k_error + EPS * (40.0 + 2.0 * abs(self.k) + 3.0 * abs(a) * c)
            image = np.exp(np.minimum(log_image - log_s + off, 600.0))
            less = self._blurred(c) / np.maximum(total, 1e-300) if self.blur else np.zeros(c.size)
            rows = np.stack([
                np.log(np.maximum(1.0 - share - image - less * (1.0 + 8.0 * EPS), 0.0)) - off,
                np.log1p(-0.5 * np.minimum(less, 1.0)),
                np.log1p(share) + off,
            ])  # fmt: skip
            rows += log_s
            bad = ~(total > 0.0) | ~np.isfinite(log_s) | np.isnan(rows).any(axis=0)
            bad |= ~(share + off < 1e6)
            rows[0, bad], rows[1, bad], rows[2, bad] = -math.inf, math.nan, math.inf
        return np.ascontiguousarray(rows.T)

    def densities(self, w: Floats, fewer: int = 0) -> tuple[Floats, Floats]:
        """Return the density of the mean without so many of its terms, and its error.

        Both are estimates, in units of exp(K + aw).
        """
        part = 1.0 - fewer / self.steps
        log_size, phase = self.plain
        size = np.exp(part * log_size)
        spend(6.0 * w.size * self.y.size)
        turns = w + part * math.fsum(self._means)
        found = _sums(turns, self.y, size, part * phase, self.wander, self.off, EPS)
        noise = found[:, 1] + 2.0 * float(size[-1]) * size.size + self.k_error
        return found[:, 0] / self.period, noise / self.period


CLOSE_CONTOURS = math.log(1.25)  # between logs of real parts, of periods, and of the largest U
SMALLEST, LARGEST = -8.0, 60.0  # logs of real parts, in units of the inverse standard deviation
DEEP = 9.0  # standard deviations from where on they are closer
SHORT = 5.0  # times c, or 1, that a period need not be shorter than
LOSS = {1: 0.5, -1: 6.0}  # nats that rounding may grow for it
IMAGES = 46.0  # nats by which images are smaller than the answer
MOST_PERIODS = 60  # of a grid, tried one after the other
MOST_WORK = 5e7  # nodes times frequencies of a contour, for each kind of steps


class Term:
    """Puts and calls on W where so many X are of these kinds, and the contours that they take."""

    def __init__(self, factors: Factors, log_ways: float = 0.0) -> None:
        """Hold the factors of the transform, and the log of how often they occur."""
        self.factors, self.log_ways, self.rough = factors, log_ways, together(factors)
        self.drawn = sum(count for _, count in factors[1:])
        self._rows: dict[int, tuple[Floats, Floats]] = {}
        self._contours: dict[tuple[float, float, float], Contour | None] = {}
        lasting = sum(shares.lasting / shares.steps * n for shares, n in factors)
        self.blurs = (0.0, *BLURS)[lasting > LASTING + float(self.rough.roughly(0.0)[0, 0]) :]

    def rows(self, sign: int) -> tuple[Floats, Floats]:
        """Return |a|, increasing, and rows K, K', K'' and rounding of K there."""
        if sign not in self._rows:
            if sign > 0:
                spread = math.sqrt(max(float(self.rough.roughly(0.0)[0, 2]), 1e-300))
                size = np.exp(np.arange(SMALLEST, LARGEST, CLOSE_CONTOURS)) / spread
            else:
                size = CAP / max(-float(self.rough.loss.min()), 1e-300)
                size = size * np.exp(np.arange(SMALLEST - LARGEST / 2.0, 0.0, CLOSE_CONTOURS))
            spend(1.5 * self.rough.loss.size * size.size)
            self._rows[sign] = size, self.rough.sums(sign * size)
        return self._rows[sign]

    def above(self, sign: int) -> tuple[Floats, Floats]:
        """Return |a|, increasing, and upper bounds on K there."""
        size, rows = self.rows(sign)
        k, rounding = rows[:, 0], rows[:, 3]
        lacks = sum(
            n * (2.0 * s.error + np.logaddexp(0.0, math.log(FLOOR) - k / n))
            for s, n in self.factors
        )
        return size, k + rounding + lacks

    @property
    def log_mean(self) -> float:
        """Log of E[W; so many X of these kinds], nearly."""
        if not all(shares.plain.nodes()[0].size for shares, _ in self.factors):
            return -math.inf
        k, slope = (float(each) for each in self.rough.roughly(0.0)[0, :2])
        return self.log_ways + k + math.log(max(-slope, 1e-300)) if k > -math.inf else k

    def chernoff(self, c: float, sign: int) -> float:
        """Log, nearly, of an upper bound: (c - w)_+ <= exp(a (c - w)) / (ae), and likewise."""
        size, rows = self.rows(sign)
        return float(np.min(rows[:, 0] + sign * size * c - np.log(size))) - 1.0 + self.log_ways

    def payoff(self, c: Floats, sign: int, at: float) -> Floats:
        """Return rows (lower, estimate, upper) of logs of puts, or of calls for a sign of -1.

        Args:
            c: where.
            sign: 1 or -1.
            at: c whose saddle point is used for all.
        """
        none = np.tile([-math.inf, math.nan, math.inf], (c.size, 1))
        size, rows = self.rows(sign)
        level = 2.0 / size - sign * rows[:, 1]  # of which c is the best one served
        if sign > 0:
            log_a = float(
                np.interp(-math.log(at), -np.log(np.maximum(level, 1e-300)), np.log(size))
            )
        else:
            level = -2.0 / size - rows[:, 1]
            log_a = float(np.interp(at, np.maximum.accumulate(level), np.log(size)))
        # a larger one has a shorter period; it costs little while exp(K + ac) / a^2 is nearly least
        cost = rows[:, 0] + sign * size * at - 2.0 * np.log(size)
        best = float(np.interp(log_a, np.log(size), cost))
        wanted = math.log((IMAGES + max(0.0, -best)) / (SHORT * max(at, 1.0)))
        dear = (cost > best + LOSS[sign]) & (np.log(size) > log_a)
        wanted = min(wanted, float(np.log(size[dear.argmax() - 1])) if dear.any() else math.inf)
        log_a = max(log_a, wanted)
        a = math.exp(log_a)
        bend = 2.0 + a * a * float(self.rough.roughly(sign * a)[0, 2])
        spacing = CLOSE_CONTOURS * 0.5 ** math.ceil(math.log2(max(math.sqrt(bend) / DEEP, 1.0)))
        a = math.exp(round(log_a / spacing) * spacing)
        period, log_image = self._images(a, sign, c, at)
        if period == math.inf:
            return none
        most = _coarse(1.25 * max(at, float(c.max()), 0.8)) if sign > 0 else math.inf
        key = sign * a, period, most
        if key not in self._contours:
            used = self.factors
            if sign > 0:  # larger X contribute nothing
                cap = math.log(most) + EDGE * WIDTH
                used = [(replace(s, log_cap=cap + math.log(s.steps)), n) for s, n in used]
            self._contours[key], most_work = None, MOST_WORK * len(used)
            for blur in self.blurs:
                try:
                    self._contours[key] = Contour(used, sign * a, period, most_work, blur)
                    break
                except NumericError:
                    continue
        found = self._contours[key]
        return none if found is None else found.payoffs(c, log_image) + self.log_ways

    def _images(self, a: float, sign: int, c: Floats, at: float) -> tuple[float, Floats]:
        """A period for a place, and logs of bounds on images elsewhere."""
        k = float(self.rough.roughly(sign * a)[0, 0])
        depth = k + sign * a * at - 2.0 * math.log(a)  # of the answer, nearly
        size, high = self.above(sign)
        mass, slope = self.rough.roughly(0.0)[0, :2].tolist()
        mass = math.exp(mass)
        size, high = size[size > a], high[size > a]
        high -= np.log(size) + 1.0
        high += 0.5 * (self.blurs[-1] * size / a) ** 2  # with what may be added to W
        least = depth - IMAGES
        period = _coarse(max(-least, 1.0) / a)
        # in the money f is at most its distance from there, or from E W, and E |U| < T / 1000
        inside = float(c.max()) if sign > 0 else -slope
        for _ in range(MOST_PERIODS if size.size else 0):
            less = -math.expm1(-a * period)
            near = math.log(1.001 * max(mass, sign) * period + inside)
            near -= a * period + 2.0 * math.log(less)
            off = (size - a) * period
            beyond = high + sign * size * at - off - np.log(-np.expm1(-off))
            best = int(np.argmin(beyond))
            if np.logaddexp(near, beyond[best]) < least:
                return period, np.logaddexp(near, beyond[best] + sign * size[best] * (c - at))
            period *= math.exp(CLOSE_CONTOURS)
        return math.inf, c


def _coarse(period: float) -> float:
    """The next period of a grid, so that contours are shared."""
    return math.exp(CLOSE_CONTOURS * math.ceil(math.log(period) / CLOSE_CONTOURS))
