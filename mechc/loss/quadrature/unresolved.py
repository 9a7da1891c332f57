"""Ends of the support at which the loss runs off to infinity, and doubles end before it does.

In: a bound kernel and its branches. Out: for every end e != 0 of a branch where |L| grows without
limit (a density that falls to zero inside the other's support), what lies within an ulp of e. No
node can be there: outputs at a distance s from e are off by the share ulp(e) / s of that distance.
Next to an end at zero doubles go on, and panels end at 1e-300: what the first one has of a pole is
counted at every tilt, by its power. A limit that the loss is still far from there counts as well:
that of a sample at a rate near one, say.

`LOST` ulps from e a distance s is known to a sixteenth, and so are p and L there. Further in p and
L steepen, in log s, where one power takes over from another (p a mixture, sampled say): log p and
L are convex there. The outputs within that distance s hold at most

    s p(s) exp(t L(s)) / (1 + slope further in)

of the mass at tilt t. As a share of the whole it grows with |t|, for t > 0 where L rises to
infinity, for t < -1 where it falls. It is an error of M(t), and where it exceeds `SHARE` the strip
of tilts ends. That it falls with epsilon, as powers do, is said only of losses whose slope has
settled; and of a limit that is not known, all of it counts.

A density may also have a pole at e while the loss has a limit there (both beta laws, say): mass is
lost, though no large loss. Branches are cut before such poles (`before_poles`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mechc.loss.quadrature.rule import log_densities, losses
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats, Kernel

SHARE = 1e-2  # of the mass at a tilt that may lie too close to an end
WEIGHT = math.log(16.0)  # 1 / (1 + slope further in): powers of densities down to 1/16 - 1
KEPT = 0.05  # share of the strip that is kept, however little of it is resolved
MOVED = 8.0  # times ulp(e) / s: relative error of masses at distance s ...
LOST = 2.0 * MOVED  # ... and ulps from e within which outputs are revealed
POWER = 0.9  # share of the power of a density that is counted further in
APART, LOOKS = 16.0, 4  # distances that give the slopes: LOST ulps, and so many times further out
LOG_LOST = math.log(1e-13)  # of a mass that sums over nodes may miss
POLE = -0.02  # slope of a log density that runs off to infinity
CUT = 2.0**-42  # distance from a pole, as a share of its place, at which a branch is cut
TINY = (2.0**-1000, 2.0**-600, 2.0**-300, 2.0**-100)  # the first of them from an end at zero
ALIKE, FLAT = 0.02, 0.01  # slopes that differ by less, relative to the loss's, have settled ...
STILL = 0.01  # tilt times what a loss lacks to its limit, up to which that is no matter
FAR_OFF, CLOSE = 1e-3, 2.0**-30  # what it has to lack, as a share of 1 + its size; for one step
LEVEL = 1e-12  # ... and one below this is that of a loss with a limit, where none is declared


class End(NamedTuple):
    """How p and L run into an end: at the least distance that is resolved, and from there.

    Its place, logs of that distance and of the density of P there, the loss, the slopes of both in
    the log of the distance, whether these have settled, and the limit of the loss, which it is far
    from; nan where it is level and none is declared.
    """

    place: float
    log_width: float
    log_p: float
    loss: float
    slope: float
    slope_p: float
    settled: bool
    limit: float

    @property
    def lost(self) -> tuple[float, float]:
        """Log of the mass, times `WEIGHT`, and the loss of what sums over nodes do not have.

        Of powers that is what lies within an ulp: nodes nearer than LOST are right on average.
        """
        nearer = math.log(LOST) if self.settled else 0.0
        mass = self.log_width + self.log_p - (1.0 + self.slope_p) * nearer
        loss = self.limit if math.isfinite(self.limit) else self.loss - self.slope * nearer
        return mass + WEIGHT, loss

    def log_mass(self, t: float) -> float:
        """Log of the mass at tilt t that sums over nodes do not have, see `lost`."""
        if self.place or not self.settled:
            return self.lost[0] + t * self.lost[1]
        power = 1.0 + self.slope_p + t * self.slope  # doubles go on, panels do not
        if not power > LEVEL:
            return math.inf
        return self.log_width + self.log_p + t * self.loss - math.log(power)

    def rises(self, reverse: bool) -> bool:
        """Whether the loss, or its negative, grows towards the end; so may one without a limit."""
        return math.isnan(self.limit) or (self.limit > self.loss) != reverse


def ends_of(
    kernel: Kernel, theta: Floats, rows: Floats, zero: bool = False, least: float = FAR_OFF
) -> tuple[End, ...]:
    """Return ends of branches, rows of the kernel's table, where the loss is far from its limit.

    With `zero` those at zero as well, where doubles go on down to the smallest one. A loss lacks at
    least the share `least` of 1 + its size.
    """
    found, everywhere = [], rows[:, :2].ravel().tolist()
    for row in rows:
        for side in (0, 1):
            at, other, limit = float(row[side]), float(row[1 - side]), float(row[3 + side])
            if not math.isfinite(at) or (at == 0.0 and not (zero and not math.isfinite(limit))):
                continue
            end = _look(kernel, theta, at, other, limit)
            if end is None or abs(end.limit - end.loss) <= least * (1.0 + abs(end.loss)):
                continue
            # a level loss goes on into the next branch
            if not (math.isnan(end.limit) and everywhere.count(at) > 1):
                found.append(end)
    return tuple(found)


def before_poles(kernel: Kernel, theta: Floats, rows: Floats) -> tuple[Floats, float, float]:
    """Cut branches before poles of densities at which the loss has a limit and doubles end.

    Returns:
        The rows, and logs of the masses of P and Q between the cuts and the poles, to a factor of
        16: powers are taken to go on.
    """
    kept, found = rows, [[-math.inf], [-math.inf]]
    for i, row in enumerate(rows):
        for side in (0, 1):
            at, other, limit = float(row[side]), float(row[1 - side]), float(row[3 + side])
            if at == 0.0 or not (math.isfinite(at) and math.isfinite(limit)):
                continue
            end = _look(kernel, theta, at, other, limit)
            if end is None:
                continue
            laws = (end.log_p, end.slope_p), (end.log_p - end.loss, end.slope_p - end.slope)
            if not any(slope < POLE and end.log_width + log > LOG_LOST for log, slope in laws):
                continue
            cut = at + math.copysign(CUT * abs(at), other - at)
            kept = kept.copy() if kept is rows else kept
            kept[i, side], kept[i, 3 + side] = cut, losses(kernel, theta, np.array([cut]))[0]
            further = math.log(CUT * abs(at)) - end.log_width
            for (log, slope), logs in zip(laws, found, strict=True):
                power = max(1.0 + slope, 1.0 / 16.0)
                logs.append(end.log_width + log + (1.0 + slope) * further - math.log(power))
    if kept is rows:
        return rows, -math.inf, -math.inf
    p, q = map(float, map(np.logaddexp.reduce, found))
    return kept, p, q


def _look(kernel: Kernel, theta: Floats, end: float, other: float, limit: float) -> End | None:
    """What is seen next to an end; None where p or L is not finite, or no double is."""
    width = abs(other - end) if math.isfinite(other) else abs(end) or 1.0
    for least in [LOST * EPS * abs(end)] if end else TINY:
        distance: Floats = least * np.power(APART, np.arange(LOOKS, dtype=np.float64))
        distance = np.ascontiguousarray(distance[distance < 0.5 * width], np.float64)
        if not distance.size:
            continue
        x: Floats = end + math.copysign(1.0, other - end) * distance
        (log_p,), loss = log_densities(kernel, theta, x, "p"), losses(kernel, theta, x)
        if not (np.isfinite(log_p).all() and np.isfinite(loss).all()):
            continue
        slope_p, slope = np.diff(np.stack([log_p, loss])) / math.log(APART)
        at = float(slope[0]) if slope.size else 0.0
        if math.isnan(limit) and abs(at) >= LEVEL:
            limit = math.copysign(math.inf, -at)
        change = max(float(np.ptp(slope)), float(np.ptp(slope_p))) if slope.size else math.inf
        return End(
            end, math.log(least), float(log_p[0]), float(loss[0]), at,
            float(slope_p[0]) if slope.size else 0.0, change <= ALIKE * abs(at) and abs(at) >= FLAT,
            limit,
        )  # fmt: skip
    return None


def log_share(ends: tuple[End, ...], t: float, log_masses: tuple[float, float]) -> float:
    """Return log of the share of the mass at tilt t that lies too close to an end.

    Args:
        ends: see `ends_of`.
        t: a tilt, outside (-1, 0) or at its ends.
        log_masses: log of the finite masses of P and Q.
    """
    whole = log_masses[0] if t > -0.5 else log_masses[1]
    shares = [e.log_mass(t) - whole for e in ends if not e.place or _grows(e, t)]
    return min(float(np.logaddexp.reduce(shares)), 0.0)


def resolved_strip(
    ends: tuple[End, ...], strip: tuple[float, float], log_masses: tuple[float, float]
) -> tuple[float, float]:
    """Return the tilts of a strip at which what lies too close to the ends is below SHARE.

    Next to an end at zero, where sums count on all of it, below what they may miss.
    """
    least, most = strip
    # an infinite strip may rest on a limit that no double comes near
    lo, hi = (end if math.isfinite(end) else 0.0 for end in (least + 1.0, most))
    for e in ends:
        log_mass, loss = e.lost
        share = math.log(SHARE) if e.place else LOG_LOST
        for t, whole in zip((0.0, -1.0), log_masses, strict=True):
            if _grows(e, t) and loss * e.limit > 0.0:  # else it is still far from its limit
                room = share + whole - log_mass - t * loss
                lacks = STILL / (e.limit - e.loss)
                if t == 0.0:
                    most = min(most, max(room / loss, KEPT * hi, lacks))
                else:
                    least = max(least, min(-1.0 + room / loss, -1.0 + KEPT * lo, -1.0 + lacks))
    return least, most


def displacement(ends: tuple[End, ...], loss: Floats) -> Floats:
    """Return the relative error of masses of cells at losses next to the ends."""
    error = np.zeros(loss.size)
    for e in ends:
        if e.slope == 0.0 or math.isnan(e.limit):
            continue
        beyond = (loss - e.loss) / e.slope  # log of the distance in LOST ulps
        error = np.maximum(error, MOVED / LOST * np.exp(np.minimum(-beyond, math.log(LOST))))
    return np.minimum(error, 1.0)


def log_lost(ends: tuple[End, ...], reverse: bool, epsilon: float = -math.inf) -> float:
    """Return log of the mass with L > epsilon next to an end that no cell or panel has.

    Args:
        ends: see `ends_of`.
        reverse: of Q, whose losses are negated.
        epsilon: any number; only what lies further in than LOST ulps falls with it, as powers do,
            and only where these are seen.
    """
    lost = -math.inf
    for e in ends:
        near, limit = (-e.loss, -e.limit) if reverse else (e.loss, e.limit)
        if not e.rises(reverse) or limit <= epsilon:
            continue
        log_density, power = e.log_p, 1.0 + e.slope_p
        if reverse:
            log_density, power = e.log_p - e.loss, power - e.slope
        here = e.log_width + log_density
        if math.isfinite(limit):  # by how much the payoff of these outputs is not known
            at = max(epsilon, near)
            below = epsilon - at if epsilon > -math.inf else 0.0
            here += WEIGHT + below + math.log(-math.expm1(at - limit))
        elif e.settled and power > LEVEL:
            deeper = max((epsilon - abs(e.loss)) / abs(e.slope), 0.0)
            here -= math.log(power) + POWER * power * deeper
        else:
            here += WEIGHT
        lost = max(lost, here)
    return lost + math.log(len(ends)) if ends else lost


def _grows(end: End, t: float) -> bool:
    """Whether more tilting on this side of [-1, 0] puts more mass at the end."""
    return not math.isnan(end.limit) and end.rises(t < -0.5)
