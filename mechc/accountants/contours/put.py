"""The mean W of t independent copies of X = exp(L) under Q: E_Q[(c - W)_+] with proven bounds.

In random allocation a record takes part in one of t steps, and W is the likelihood ratio of the
epoch (docs/theorems.md, T11). As X >= 0 its transform exists for every mechanism. With
phi(s) = E_Q[exp(-sX/t)]^t, a > 0, period T > c and h = 2 pi / T,

    (exp(ac) / T) sum_n phi(s_n) exp(i n h c) / s_n^2 = sum_(m >= 0) exp(-amT) E_Q[(c + mT - W)_+],

s_n = a + inh (Poisson summation, as Theorem A in `trapezoid`). Images with m > 0 lie between
c + mT - E W and c + mT, those with m < 0 vanish. The sum over n is that of `characteristic` for the
loss -X/t under Q at the tilt a, and what is left out is bounded by its proof of decay.

Atoms do not let phi fade, and few steps let it fade slowly: for them there is `grids`.
Two bounds hold always: f(c) <= E (c - X)_+ (Jensen), and E (W - c)_+ >= E (X - tc)_+.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.contours.characteristic import Law, Tilted
from mechc.errors import NumericError
from mechc.loss.allowance import spend
from mechc.loss.atoms import mirrored
from mechc.loss.infinite_mass import log_complement
from mechc.loss.jit import compiled
from mechc.loss.moments import excess
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.loss.rounding import EPS
from mechc.loss.rule import ORDER

Floats = NDArray[np.float64]

TURN = 9.0  # radians that the wave may turn in a panel of nodes
UNCUT = 1e-22  # mass of a panel in which it may turn further ...
LOOSE = 0.01  # ... over t, in the proof of decay: a g of 80 / t is seen through it
MOST_PARTS, MOST_NODES = 400, 400_000
ROUNDS = 6  # of cutting into eight before
MOST_FREQUENCIES = 200_000
FADED = -40.0  # log of |phi| at the last frequency
QUADRATURE = 1e-14  # relative error of masses, beside that which the law states
CAP = 300.0  # largest log X that is told from larger ones
FURTHER = 1e4  # times the last frequency that is resolved for the proof of decay
LASTING = -45.0  # log of the mass of atoms of the epoch that keeps phi from fading
FINER = 8  # parts of a panel where some are left out


@dataclass(frozen=True, eq=False)
class Shares:
    """The law of X = exp(L) under Q.

    Attributes:
        law: the law of the loss of removing a record.
        steps: t.
        log_cap: log X beyond which panels are left out: the law of the others has less mass.
    """

    law: PrivacyLoss
    steps: int
    log_cap: float = math.inf

    @property
    def error(self) -> float:
        """Relative error of masses, that of moving X included."""
        law = self.law
        ends = law.unresolved(0.0) + law.unresolved(-1.0)
        return QUADRATURE + law.tolerance + law.loss_error + ends

    @property
    def continuous(self) -> bool:
        """Whether X has a density beside atoms."""
        return self.law.source is not None and self.law.source.continuous

    @property
    def sign(self) -> float:
        """Log X as a multiple of the loss of the source, of which Q is the second law, or first."""
        return -1.0 if self.law.is_reversed else 1.0

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
        log_mass = panels.spread()[0].reshape(panels.loss.shape)
        return self.sign * panels.loss, log_mass - (0.0 if self.law.is_reversed else panels.loss)

    @cached_property
    def panels(self) -> tuple[Any, float, float]:
        """The panels of the part with a density, and masses under Q and P of those left out."""
        source = self.law.source
        if source is None or not source.continuous:
            return None, 0.0, 0.0
        panels = source.cover(*self._tilts(1.0 if self.square else 0.0))
        if self.log_cap == math.inf:
            return panels, 0.0, 0.0
        panels = panels.cut(np.full(panels.lo.size, FINER))
        log_x, log_mass = self.masses(panels)
        kept = log_x.max(axis=1) <= self.log_cap
        log_x, mass = log_x[~kept], np.exp(log_mass[~kept])
        under_p = float((mass * np.exp(np.minimum(log_x, CAP))).sum())
        return panels.among(kept), float(mass.sum()), under_p

    @cached_property
    def mean(self) -> float:
        """E_Q W = 1 - P(q = 0)."""
        return math.exp(log_complement(self.law.log_infinite))

    @cached_property
    def rough(self) -> Law:
        """The law of -W under Q, on nodes that resolve no frequency."""
        return Law.of((Step(self.loss(0.0)[0], self.steps),))

    @property
    def lasting(self) -> float:
        """Log of the mass of atoms of the epoch under Q."""
        mass = float(np.exp(self.rough.steps[0].loss.atom_log_mass).sum())
        return self.steps * math.log(min(mass, 1.0)) if mass > 0.0 else -math.inf

    def loss(self, reach: float, uncut: float = UNCUT) -> tuple[PrivacyLoss, float]:
        """Return the law of -X/t under Q, resolved up to a frequency, and the mass that is not.

        Panels of less mass than `uncut` need not be resolved.
        """
        law, t = self.law, float(self.steps)
        log_x, log_weight, spacing = np.empty(0), np.empty(0), np.empty(0)
        region, missed = np.empty(0, np.int64), 0.0
        if self.continuous:
            panels = self.panels[0]
            for _ in range(ROUNDS):
                log_x, log_mass = self.masses(panels)
                x = np.exp(np.minimum(log_x, CAP)) / t
                mass = np.exp(log_mass).sum(axis=1)
                wanted = np.ptp(x, axis=1) * reach / TURN
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
            log_x = np.minimum(log_x, CAP)
            spacing = panels.spread()[1] * np.exp(log_x) / t
            region = panels.region.repeat(ORDER)
        kept = np.append(law.atom_loss <= self.log_cap, law.log_minus_infinite > -math.inf)
        atoms = np.append(-np.exp(np.minimum(law.atom_loss, CAP)) / t, 0.0)
        atom_log_mass = np.append(law.atom_log_mass - law.atom_loss, law.log_minus_infinite)
        kept &= atom_log_mass > -math.inf
        made = PrivacyLoss(
            loss=-np.exp(log_x) / t, log_weight=log_weight, atom_loss=atoms[kept],
            atom_log_mass=atom_log_mass[kept], log_infinite=-math.inf,
            log_minus_infinite=-math.inf, support=(-math.inf, 0.0), strip=(0.0, math.inf),
            tilts=(0.0, math.inf), contour=0.0, frequency=reach, tolerance=self.error + missed,
            lattice=None, label=law.label, spacing=spacing, region=region,
        )  # fmt: skip
        return made, missed


@compiled(
    "UniTuple(float64, 4)(float64[::1], float64[::1], float64, float64, float64, float64, float64)"
)
def _cgf(loss, weight, a, t, mean, beyond, share):  # type: ignore[no-untyped-def]
    """Log phi(a) and its error by the deviation from 1; the same by that from 1 - a mean / t.

    `beyond` is the mass that the nodes do not have, `share` the relative error of weights.
    """
    first, second, whole, noise, less, bends, moved = -beyond, -beyond, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(loss.size):
        u = a * loss[j]
        size = 16.0 - 4.0 * math.log(max(weight[j], 1e-300))
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
    second -= a * mean / t
    whole = max(whole, 1e-300)
    near = first < -0.5
    return (
        t * math.log(whole) if near else t * math.log1p(first),
        t / whole * (EPS * (noise + (8.0 * whole if near else 0.0)) + share * min(moved, whole)),
        t * math.log1p(max(second, -1.0 + 1e-16)),
        t / whole * (EPS * (less + 4.0 * a * mean / t) + share * bends)
        if second > -0.9
        else np.inf,
    )


@compiled(
    "float64[:,::1](float64[::1], float64[::1], float64[::1], float64[::1], float64[::1],"
    " float64[::1], float64, float64)"
)
def _sums(c, y, size, phase, wander, noise, mean, ulp):  # type: ignore[no-untyped-def]
    """Rows: 1 + 2 sum size cos(phase + y (mean + c)), and its error."""
    out = np.zeros((c.size, 2))
    for i in range(c.size):
        turn, far = mean + c[i], abs(mean) + abs(c[i])
        total, off, partial = 0.0, 0.0, 0.0
        for n in range(y.size - 1, -1, -1):  # every partial sum is rounded
            total += size[n] * math.cos(phase[n] + y[n] * turn)
            off += size[n] * (12.0 + wander[n] + 2.0 * y[n] * (abs(turn) + far)) * ulp + noise[n]
            partial += abs(total)
        out[i, 0] = 1.0 + 2.0 * total
        out[i, 1] = 2.0 * off + 4.0 * ulp * (2.0 + partial)
    return out


class Contour:
    """One contour: the frequencies of phi, for all c that it serves.

    Attributes:
        a, period: real part and T.
    """

    def __init__(self, shares: Shares, a: float, period: float, most: float) -> None:
        """Evaluate phi out to where it has faded, if that is not more than so much work.

        Raises:
            NumericError: it is.
        """
        t = float(shares.steps)
        self.a, self.period, self.steps = a, period, t
        self.mean = shares.mean
        h = 2.0 * math.pi / period
        # far out a few large ones decide, and the others fade as they do in the middle
        frequency = max(shares.rough.fading(each, FADED) for each in {a, max(a, 0.0)})
        count = min(math.ceil(frequency / h) + 2, MOST_FREQUENCIES)
        last = h * (count + 0.5)
        resolved, missed = shares.loss(last)
        law = Law.of((Step(resolved, shares.steps),))
        if law.loss.size * count > most:
            raise NumericError(f"{resolved.label}: phi fades too slowly at {a:g}")
        tilted = Tilted(law, a)
        self._proof = shares, tilted, last, h
        weight = np.exp(law.log_weight)
        spend(4.0 * weight.size)
        share = shares.error
        _, without, beyond = shares.panels
        mean = self.mean - beyond
        square, drift = math.inf, mean + t * float(weight @ law.loss)
        if shares.square and abs(drift) < 1e-9:  # the mean is known: second order is left
            square = 0.5 * t * float(weight @ law.loss**2)
        drift = drift if square < math.inf else 0.0
        plain, first, centred, second = _cgf(law.loss, weight, a, t, mean, without, share)
        second = second if square < math.inf else math.inf
        self.k = plain if first <= second else centred
        self.k_error = min(first, second) + EPS * 4.0 * abs(self.k) + 2.0 * t * missed
        re, im = tilted.log_phi(h, 1, count + 1)
        self.y = h * np.arange(1.0, count + 1.0)
        s = np.asarray(a + 1j * self.y, np.complex128)
        factor = (a / s) ** 2
        self.plain = re, im
        self.size = np.exp(re) * np.abs(factor)
        self.phase = im + np.angle(factor)
        self.wander = np.abs(re) + 2.0 * np.abs(im)
        # one of t factors is off by the quadrature, by no more than E |exp(-sX/t) - 1|
        far = np.minimum(2.0 * t, np.abs(s))
        moved = 2.0 * share * np.minimum(far, np.abs(s) ** 2 * square) + 4.0 * t * missed
        moved += tilted.lost
        rest = np.exp((1.0 - 1.0 / t) * re)
        self.off = rest * moved * math.exp(min(-self.k / t, 50.0))
        self.noise = np.abs(factor) * self.off
        self.turn = float(tilted.mean[0]) * t - drift

    @cached_property
    def tail(self) -> float:
        """Bound on what is left out of the sum."""
        shares, tilted, last, h = self._proof
        reach = min(max(2.0 * last, tilted.levelled(FADED)), FURTHER * last)
        try:
            further, missed = shares.loss(reach, LOOSE / shares.steps)
            proof = Tilted(Law.of((Step(further, shares.steps),)), self.a)
            proof.slack += 8.0 * missed * math.expm1(min(max(-self.k / self.steps, 0.0), 50.0))
        except NumericError:  # then total variation has to do
            reach, proof = last, tilted
        decay, _ = proof.decay(last - 0.5 * h, reach, math.inf, FADED)
        return float(decay) * self.period * self.a * self.a / math.pi

    def puts(self, c: Floats) -> Floats:
        """Return rows (lower, estimate, upper) of the logs of g(c)."""
        a, period = self.a, self.period
        spend(6.0 * c.size * self.y.size)
        found = _sums(c, self.y, self.size, self.phase, self.wander, self.noise, self.turn, EPS)
        total, noise = found.T
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            log_s = self.k + a * c + math.log(1.0 / (a * a * period))
            log_s += np.log(np.maximum(total, 1e-300))
            share = (noise + self.tail) / np.maximum(total, 1e-300) + self.k_error
            share += EPS * (40.0 + 4.0 * abs(self.k) + 8.0 * a * c)
            less = -math.expm1(-a * period)
            image = np.exp(np.minimum(-a * period - log_s, 600.0)) / less
            known, unknown = (c - self.mean + period / less) * image, self.mean * image
            rows = np.stack([
                np.log(np.maximum(1.0 - share - known * (1.0 + 16.0 * EPS) - unknown, 0.0)),
                np.log(np.maximum(1.0 - known, 0.0)),
                np.log(np.maximum(1.0 + share - known * (1.0 - 16.0 * EPS), 0.0)),
            ])  # fmt: skip
            rows += log_s
            bad = ~(total > 0.0) | ~np.isfinite(log_s) | np.isnan(rows).any(axis=0)
            bad |= ~(share < 1e6) | (c >= period)
            rows[0, bad], rows[1, bad], rows[2, bad] = -math.inf, math.nan, math.inf
            # W >= 0, and E W is known
            least = np.log(np.maximum(c - self.mean - 8.0 * EPS * (1.0 + c), 0.0))
        rows[2] = np.minimum(rows[2], np.log(c) + 8.0 * EPS)
        rows[0] = np.minimum(np.maximum(rows[0], least), rows[2])
        return np.ascontiguousarray(rows.T)

    def densities(self, w: Floats, fewer: int = 0) -> tuple[Floats, Floats]:
        """Return the density of the mean without so many of its terms, and its error.

        Both are estimates, in units of exp(K + aw).
        """
        part = 1.0 - fewer / self.steps
        log_size, phase = self.plain
        size = np.exp(part * log_size)
        spend(6.0 * w.size * self.y.size)
        turn = part * self.turn
        turn = part * self.turn
        found = _sums(w, self.y, size, part * phase, self.wander, self.off, turn, EPS)
        noise = found[:, 1] + 2.0 * float(size[-1]) * size.size + self.k_error
        return found[:, 0] / self.period, noise / self.period
