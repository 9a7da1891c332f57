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
from mechc.loss.infinite_mass import log_complement
from mechc.loss.jit import compiled
from mechc.loss.moments import excess
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.loss.rounding import EPS
from mechc.loss.rule import ORDER

Floats = NDArray[np.float64]

TURN = 9.0  # radians that the wave may turn in a panel of nodes
UNCUT = 1e-22  # mass of a panel in which it may turn further
MOST_PARTS, MOST_NODES = 400, 400_000
ROUNDS = 6  # of cutting into eight before
MOST_FREQUENCIES = 200_000
IMAGES = 46.0  # nats by which the first image is smaller than the answer
FADED = -40.0  # log of |phi| at the last frequency
QUADRATURE = 1e-14  # relative error of masses, beside that which the law states
CAP = 300.0  # largest log X that is told from larger ones
FEW = 8  # steps that let phi fade too slowly
CLOSE = 1.25  # ratio of one real part to the next
LOWEST, HIGHEST = -35.0, 90.0  # logs of real parts
DEEP = 9.0  # standard deviations from where on they are closer
FURTHER = 1e4  # times the last frequency that is resolved for the proof of decay
MOST_WORK = 1e9  # nodes times frequencies of a contour
LASTING = -45.0  # log of the mass of atoms of the epoch that keeps phi from fading
FINER = 8  # parts of a panel where some are left out
WIDE = 0.1  # nats between bounds, beyond which Chernoff's may be better
FLOOR = 1e-15  # mass beyond all panels


@dataclass(frozen=True, eq=False)
class Shares:
    """The law of X = exp(L) under Q.

    Attributes:
        law: the law of the loss it was made from.
        flipped: that is the law of log(q/p) under Q.
        steps: t.
        log_cap: log X beyond which panels are left out: the law of the others has less mass.
        log_infinite, log_zero: logs of P(q = 0) and of Q(p = 0).
        mass_error: of the log of the first.
    """

    law: PrivacyLoss
    flipped: bool
    steps: int
    log_cap: float = math.inf

    @property
    def log_infinite(self) -> float:
        """Log of P(q = 0)."""
        return self.law.log_minus_infinite if self.flipped else self.law.log_infinite

    @property
    def log_zero(self) -> float:
        """Log of Q(p = 0)."""
        return self.law.log_infinite if self.flipped else self.law.log_minus_infinite

    @property
    def mass_error(self) -> float:
        """Error of the log of P(q = 0)."""
        return self.law.mass_errors[1 if self.flipped else 0]

    @property
    def error(self) -> float:
        """Relative error of masses, that of moving X included."""
        law = self.law
        ends = law.unresolved(0.0) + law.unresolved(-1.0)
        return QUADRATURE + law.tolerance + law.loss_error + ends

    @cached_property
    def square(self) -> bool:
        """Whether nodes resolve E_Q[X^2], so that their errors enter in the second order."""
        source = self.law.source
        if source is None or not source.continuous:
            return True
        aligned = self.law.is_reversed == self.flipped
        tilts = (-1.0, 1.0) if aligned else (-2.0, 0.0)
        if source.ends or not (source.strip[0] < tilts[0] and tilts[1] < source.strip[1]):
            return False
        try:
            source.cover(*tilts)
        except NumericError:
            return False
        return True

    @property
    def aligned(self) -> tuple[bool, float]:
        """Whether Q is the second law of the source, and log X as a multiple of its loss."""
        source = self.law.source
        aligned = source is not None and self.law.is_reversed == self.flipped
        return aligned, 1.0 if aligned else -1.0

    @cached_property
    def panels(self) -> tuple[Any, float, float]:
        """The panels of the part with a density, and masses under Q and P of those left out."""
        source = self.law.source
        assert source is not None
        aligned, sign = self.aligned
        tilts = (-1.0, 1.0) if self.square else (-1.0, 0.0)
        panels = source.cover(*(tilts if aligned else (-1.0 - tilts[1], -1.0 - tilts[0])))
        if self.log_cap == math.inf:
            return panels, 0.0, 0.0
        panels = panels.cut(np.full(panels.lo.size, FINER))
        log_x = sign * panels.loss
        mass = np.exp(panels.spread()[0].reshape(log_x.shape) - (panels.loss if aligned else 0.0))
        kept = log_x.max(axis=1) <= self.log_cap
        left_out = mass[~kept]
        return (
            panels.among(kept),
            float(left_out.sum()),
            float((left_out * np.exp(np.minimum(log_x[~kept], CAP))).sum()),
        )

    @property
    def beyond(self) -> tuple[float, float]:
        """The masses under Q and under P of the panels that are left out."""
        source = self.law.source
        return self.panels[1:] if source is not None and source.continuous else (0.0, 0.0)

    def mean(self) -> float:
        """Return E_Q W = 1 - P(q = 0)."""
        return math.exp(log_complement(self.log_infinite))

    def loss(self, reach: float) -> tuple[PrivacyLoss, float]:
        """Return the law of -X/t under Q, resolved up to a frequency, and the mass that is not."""
        law, t = self.law, float(self.steps)
        sign = -1.0 if self.flipped else 1.0
        atoms = sign * law.atom_loss
        atom_log_mass = law.atom_log_mass - (0.0 if self.flipped else law.atom_loss)
        log_x, log_weight, spacing = np.empty(0), np.empty(0), np.empty(0)
        region, missed = np.empty(0, np.int64), 0.0
        source = law.source
        if source is not None and source.continuous:
            aligned, sign = self.aligned
            panels = self.panels[0]
            for _ in range(ROUNDS):
                x = np.exp(np.minimum(sign * panels.loss, CAP)) / t
                log_mass = panels.spread()[0].reshape(x.shape) - (panels.loss if aligned else 0.0)
                mass = np.exp(log_mass).sum(axis=1)
                wanted = np.ptp(x, axis=1) * reach / TURN
                coarse = (mass >= UNCUT) & (wanted > MOST_PARTS)
                if not coarse.any():
                    break
                panels = panels.cut(np.where(coarse, 8, 1).astype(np.int64))
            far = (mass < UNCUT) | (wanted > MOST_PARTS)
            missed = float(mass[far & (wanted > 1.0)].sum())
            parts = np.where(far, 1.0, np.maximum(np.ceil(wanted), 1.0)).astype(np.int64)
            if parts.sum() * ORDER > MOST_NODES:
                raise NumericError(f"{law.label}: too many nodes for the frequency {reach:g}")
            panels = panels.cut(parts)
            log_weight, spacing = panels.spread()
            flat = panels.loss.ravel()
            log_weight = log_weight - flat if aligned else log_weight.copy()
            log_x = np.minimum(sign * flat, CAP)
            spacing = spacing * np.exp(log_x) / t
            region = panels.region.repeat(ORDER)
        kept = np.append(atoms <= self.log_cap, self.log_zero > -math.inf)
        atoms = np.append(-np.exp(np.minimum(atoms, CAP)) / t, 0.0)
        atom_log_mass = np.append(atom_log_mass, self.log_zero)
        kept &= atom_log_mass > -math.inf
        loss = -np.exp(log_x) / t
        made = PrivacyLoss(
            loss=loss, log_weight=log_weight, atom_loss=atoms[kept],
            atom_log_mass=atom_log_mass[kept], log_infinite=-math.inf,
            log_minus_infinite=-math.inf, support=(-math.inf, 0.0), strip=(0.0, math.inf),
            tilts=(0.0, math.inf), contour=0.0, frequency=reach, tolerance=self.error + missed,
            lattice=None, symmetric=False, label=law.label, spacing=spacing, region=region,
        )  # fmt: skip
        return made, missed


@compiled("UniTuple(float64, 4)(float64[::1], float64[::1], float64, float64, float64, float64)")
def _cgf(loss, weight, a, t, mean, beyond):  # type: ignore[no-untyped-def]
    """Log phi(a) and its rounding by the deviation from 1; the same by that from 1 - a mean / t.

    `beyond` is the mass that the nodes do not have.
    """
    first, second, whole, noise, less = -beyond, -beyond, 0.0, 0.0, 0.0
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
    second -= a * mean / t
    scale = t / max(whole, 1e-300)
    return (
        t * math.log(max(whole, 1e-300)) if first < -0.5 else t * math.log1p(first),
        scale * (noise + (whole * 8.0 if first < -0.5 else 0.0)),
        t * math.log1p(max(second, -1.0 + 1e-16)),
        scale * (less + 4.0 * a * mean / t) if second > -0.9 else np.inf,
    )


@compiled(
    "float64[:,::1](float64[::1], float64[::1], float64[::1], float64[::1], float64[::1],"
    " float64[::1], float64, float64)"
)
def _sums(c, y, size, phase, wander, noise, mean, ulp):  # type: ignore[no-untyped-def]
    """Rows: sum size cos(phase + y (mean + c)), its rounding, and that for mean + c as it is."""
    out = np.zeros((c.size, 3))
    for i in range(c.size):
        turn, far = mean + c[i], abs(mean) + abs(c[i])
        total, off, near = 0.0, 0.0, 0.0
        for n in range(y.size - 1, -1, -1):
            total += size[n] * math.cos(phase[n] + y[n] * turn)
            own = size[n] * (12.0 + wander[n] + 2.0 * y[n] * abs(turn)) * ulp + noise[n]
            off += own + size[n] * 2.0 * y[n] * far * ulp
            near += own
        out[i, 0], out[i, 1], out[i, 2] = total, off, near
    return out


class Contour:
    """One contour: the frequencies of phi, for all c that it serves.

    Attributes:
        a, period: real part and T.
    """

    def __init__(
        self, shares: Shares, a: float, period: float, log_share: float, most: float = math.inf
    ) -> None:
        """Evaluate phi out to where it has faded, if that is not more than so much work."""
        t = float(shares.steps)
        self.a, self.period, self.steps = a, period, t
        self.mean = shares.mean()
        h = 2.0 * math.pi / period
        rough, _ = shares.loss(0.0)
        whole = Law.of((Step(rough, shares.steps),))
        # far out a few large ones decide, and the others fade as they do in the middle
        frequency = max(whole.fading(each, log_share) for each in {a, max(a, 0.0)})
        count = min(math.ceil(frequency / h) + 2, MOST_FREQUENCIES)
        last = h * (count + 0.5)
        resolved, missed = shares.loss(last)
        law = Law.of((Step(resolved, shares.steps),))
        if law.loss.size * count > most:
            raise NumericError(f"{resolved.label}: phi fades too slowly at {a:g}")
        tilted = Tilted(law, a)
        self._proof = shares, tilted, last, h, log_share
        weight = np.exp(law.log_weight)
        spend(4.0 * weight.size)
        share = shares.error
        without, beyond = shares.beyond
        mean = self.mean - beyond
        square, drift = math.inf, mean + t * float(weight @ law.loss)
        if shares.square and abs(drift) < 1e-9:  # the mean is known: second order is left
            square = 0.5 * t * float(weight @ law.loss**2)
        drift = drift if square < math.inf else 0.0
        plain, off, centred, less = _cgf(law.loss, weight, a, t, mean, without)
        first = EPS * off + share * min(abs(a), t)
        bent = EPS * less + share * a * a * square if square < math.inf else math.inf
        self.k = plain if first <= bent else centred
        self.k_error = min(first, bent) + EPS * 4.0 * abs(self.k) + 2.0 * t * missed
        re, im = tilted.log_phi(h, 1, count + 1)
        self.y = h * np.arange(1.0, count + 1.0)
        s = np.asarray(a + 1j * self.y, np.complex128)
        factor = (a / s) ** 2
        self.plain = re, im
        self.size = np.exp(re) * np.abs(factor)
        self.phase = im + np.angle(factor)
        # added up from the far end: every partial sum is rounded
        self.summed = EPS * (8.0 + 4.0 * float(np.cumsum(self.size[::-1]).sum()))
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
        shares, tilted, last, h, log_share = self._proof
        reach = min(max(2.0 * last, tilted.levelled(log_share)), FURTHER * last)
        try:
            further, _ = shares.loss(reach)
            proof = Tilted(Law.of((Step(further, shares.steps),)), self.a)
        except NumericError:  # then total variation has to do
            reach, proof = last, tilted
        decay, _ = proof.decay(last - 0.5 * h, reach, math.inf, log_share)
        return float(decay) * self.period * self.a * self.a / math.pi

    def puts(self, c: Floats) -> Floats:
        """Return rows (lower, estimate, upper) of the logs of g(c)."""
        a, period = self.a, self.period
        spend(6.0 * c.size * self.y.size)
        found = _sums(c, self.y, self.size, self.phase, self.wander, self.noise, self.turn, EPS)
        total = 1.0 + 2.0 * found[:, 0]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            log_s = self.k + a * c + math.log(1.0 / (a * a * period))
            # the other way to see the rounding of mean + c: c is moved, and the put by no more
            moved = 8.0 * EPS * (1.0 + abs(self.turn) + c) * np.exp(np.minimum(-log_s, 600.0))
            noise = np.minimum(2.0 * found[:, 1], 2.0 * found[:, 2] + moved) + self.tail
            noise += self.summed
            log_s += np.log(np.maximum(total, 1e-300))
            share = noise / np.maximum(total, 1e-300) + self.k_error
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
        bad = ~(total > 0.0) | ~np.isfinite(log_s) | np.isnan(rows).any(axis=0) | ~(share < 1e6)
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
        turn = part * self.turn
        found = _sums(w, self.y, size, part * phase, self.wander, self.off, turn, EPS)
        noise = 2.0 * found[:, 1] + EPS * (8.0 + 4.0 * float(np.cumsum(size[::-1]).sum()))
        noise += 2.0 * float(size[-1]) * size.size
        return (1.0 + 2.0 * found[:, 0]) / self.period, (noise + self.k_error) / self.period


def is_smooth(shares: Shares) -> bool:
    """Whether atoms of X are so few that phi fades nevertheless."""
    law, _ = shares.loss(0.0)
    atoms = float(np.exp(law.atom_log_mass).sum())
    return not atoms > 0.0 or shares.steps * math.log(min(atoms, 1.0)) <= LASTING


class Mean:
    """Bounds on E_Q[(c - W)_+] for all c > 0.

    Attributes:
        shares: the law of X, and t.
        known: phi fades, so that there are contours.
    """

    def __init__(self, shares: Shares) -> None:
        """Look at the law; contours are laid when they are asked for."""
        self.shares = shares
        self.mean = shares.mean()
        self.known = shares.steps > FEW and is_smooth(shares)
        resolved, _ = shares.loss(0.0)
        self._nodes, self._log_weight = resolved.nodes()
        self._weight = np.exp(self._log_weight)
        self._contours: dict[float, Contour | None] = {}

    def puts(self, c: Floats) -> Floats:
        """Return rows (lower, estimate, upper) of logs for every c > 0."""
        rows = self._found(c)
        with np.errstate(divide="ignore"):  # W >= 0, and E W is known
            least = np.log(np.maximum(c - self.mean - 8.0 * EPS * (1.0 + c), 0.0))
        most = np.log(c) + 8.0 * EPS
        wide = ~(rows[:, 2] - rows[:, 0] < WIDE)
        most[wide] = np.minimum(most[wide], self._chernoff(c[wide]))
        rows[:, 0] = np.minimum(np.fmax(rows[:, 0], least), most)
        rows[:, 2] = np.maximum(np.fmin(rows[:, 2], most), rows[:, 0])
        return rows

    def _found(self, c: Floats) -> Floats:
        rows = np.full((c.size, 3), math.nan)
        rows[:, 0], rows[:, 2] = -math.inf, math.inf
        if not self.known:
            return rows
        places = self._places(c)
        for a in np.unique(places).tolist():
            mine = places == a
            contour = self._contour(a)
            if contour is None:
                continue
            rows[mine] = contour.puts(c[mine])
        return rows

    def _chernoff(self, c: Floats) -> Floats:
        """Upper bounds of the logs: (c - w)_+ <= exp(a (c - w)) / (ae)."""
        log_a, _, _ = self._levels
        k, _ = self._slopes(log_a)
        t = float(self.shares.steps)
        off = t * (2.0 * self.shares.error + FLOOR * np.exp(np.minimum(-k / t, 600.0)))
        found = [np.min(k + off + np.exp(log_a) * each - log_a - 1.0) for each in c.tolist()]
        return np.array(found) + 1e-12

    def _slopes(self, log_a: Floats) -> tuple[Floats, Floats]:
        """Return K and K' at real parts."""
        tilts = np.exp(log_a)
        k, slope = np.empty(tilts.size), np.empty(tilts.size)
        t = self.shares.steps
        spend(4.0 * tilts.size * self._nodes.size)
        for i, a in enumerate(tilts.tolist()):
            w = self._weight * np.exp(a * self._nodes)
            total = float(w.sum())
            k[i] = t * math.log(max(total, 1e-300))
            slope[i] = t * float(w @ np.maximum(self._nodes, -1e250)) / max(total, 1e-300)
        return k, slope

    @cached_property
    def _levels(self) -> tuple[Floats, Floats, Floats]:
        """Real parts, the c for which each is the best, and by how much log a may be off."""
        log_a = np.arange(LOWEST, HIGHEST, math.log(CLOSE))
        slope = self._slopes(log_a)[1]
        level = 2.0 * np.exp(-log_a) - slope
        level = np.maximum(np.minimum.accumulate(level), 1e-300)  # falls, but for rounding
        a = np.exp(log_a)
        bend = 2.0 - np.gradient(level, log_a) * a
        finer = np.ceil(np.log2(np.maximum(np.sqrt(np.maximum(bend, 1.0)) / DEEP, 1.0)))
        return log_a, np.log(level), finer

    def _places(self, c: Floats) -> Floats:
        """The real part of the contour that serves each c, on grids that depend on the depth."""
        log_a, log_level, finer = self._levels
        order = log_level[::-1]
        found = np.interp(np.log(c), order, log_a[::-1])
        depth = np.interp(found, log_a, finer)
        spacing = math.log(CLOSE) * 0.5 ** np.ceil(depth)
        places: Floats = np.exp(np.rint(found / spacing) * spacing)
        return places

    def _contour(self, a: float) -> Contour | None:
        if a not in self._contours:
            around = math.log(a) + math.log(CLOSE) * np.array([-1.0, 0.0, 1.0])
            k, slope = self._slopes(around)
            near = 2.0 * np.exp(-around) - slope
            least = float(min(a * near + k[1] - math.log(a)))
            period = max(1.02 * float(near.max()) + 2.0, (IMAGES + max(0.0, -least)) / a)
            try:
                self._contours[a] = Contour(self.shares, a, period, FADED, MOST_WORK)
            except NumericError:
                self._contours[a] = None
        return self._contours[a]
