"""Ends of the support at which the loss runs off to infinity, and doubles end before it does.

In: a bound kernel and its branches. Out: for every end e != 0 of a branch where |L| grows without
limit (a density that falls to zero inside the other's support), what lies within an ulp of e. No
node can be there: outputs at a distance s from e are off by the share ulp(e) / s of that distance.
Next to an end at zero doubles go on, and nothing is lost.

Between two distances that are still resolved log p and L are taken to be linear in log s, as they
are where the densities are powers of s far in; s = u is an ulp. The outputs within an ulp hold

    u p(u) exp(t L(u)) / (1 + slope)

of the mass at tilt t. As a share of the whole it grows with |t|, for t > 0 where L rises to
infinity, for t < -1 where it falls. It is an error of M(t), and where it exceeds `SHARE` the strip
of tilts ends.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.loss.rounding import EPS
from mechc.loss.rule import losses
from mechc.protocol import Kernel

Floats = NDArray[np.float64]

FAR, NEAR = 2.0**-20, 2.0**-28  # distances, as shares of the branch, that give the slopes
LEAST = 2.0**14  # ulps of the nearer of them at least
SHARE = 1e-2  # of the mass at a tilt that may lie within an ulp
WEIGHT = math.log(16.0)  # 1 / (1 + slope), and errors of nodes some ulps away
KEPT = 0.05  # share of the strip that is kept, however little of it is resolved
MOVED = 8.0  # times ulp(e) / s: relative error of masses at distance s ...
POWER = 0.9  # share of the power of a density that is counted further in than an ulp
LOST = 2.0 * MOVED  # ... and ulps from e within which outputs are revealed


class End(NamedTuple):
    """Logs of an ulp and of the density of P there, the loss there, and slopes in log s of both."""

    log_ulp: float
    log_p: float
    loss: float
    slope: float
    slope_p: float


def ends_of(kernel: Kernel, theta: Floats, rows: Floats, zero: bool = False) -> tuple[End, ...]:
    """Return the ends of branches, rows of the kernel's table, where the loss is not bounded.

    With `zero` those at zero as well, where doubles go on down to the smallest one.
    """
    found = []
    for row in rows:
        for side in (0, 1):
            end, other, limit = float(row[side]), float(row[1 - side]), float(row[3 + side])
            if math.isfinite(end) and (zero or end != 0.0) and not math.isfinite(limit):
                found.append(_look(kernel, theta, end, other))
    return tuple(end for end in found if end is not None)


def _look(kernel: Kernel, theta: Floats, end: float, other: float) -> End | None:
    width = abs(other - end) if math.isfinite(other) else abs(end) or 1.0
    ulp = EPS * abs(end) or math.ulp(0.0)
    near = max(NEAR * width, LEAST * ulp)
    far = max(FAR * width, LEAST * near / 256.0)
    if not far < 0.5 * width:
        return None
    x = end + math.copysign(1.0, other - end) * np.array([near, far])
    log_p, loss = np.empty(2), losses(kernel, theta, x)
    kernel.log_p_many(x, theta, log_p)
    if not (np.isfinite(log_p).all() and np.isfinite(loss).all()):
        return None
    along, down = math.log(far / near), math.log(ulp / near)
    slope_p, slope = float(np.diff(log_p)[0]) / along, float(np.diff(loss)[0]) / along
    if abs(slope) < 1e-6:
        return None
    at_p, at_loss = float(log_p[0]) + slope_p * down, float(loss[0]) + slope * down
    return End(math.log(ulp), at_p, at_loss, slope, slope_p)


def log_share(ends: tuple[End, ...], t: float, log_masses: tuple[float, float]) -> float:
    """Return log of the share of the mass at tilt t that lies within an ulp of an end.

    Args:
        ends: see `ends_of`.
        t: a tilt, outside (-1, 0) or at its ends.
        log_masses: log of the finite masses of P and Q.
    """
    whole = log_masses[0] if t > -0.5 else log_masses[1]
    shares = [e.log_ulp + e.log_p + t * e.loss + WEIGHT - whole for e in ends if _grows(e, t)]
    return min(max(shares, default=-math.inf), 0.0)


def resolved_strip(
    ends: tuple[End, ...], strip: tuple[float, float], log_masses: tuple[float, float]
) -> tuple[float, float]:
    """Return the tilts of a strip at which what lies within an ulp of the ends is below SHARE."""
    lo, hi = strip
    least, most = lo, hi
    for e in ends:
        for t, whole in zip((0.0, -1.0), log_masses, strict=True):
            if _grows(e, t):
                room = math.log(SHARE) + whole - WEIGHT - e.log_ulp - e.log_p - t * e.loss
                if t == 0.0:
                    most = min(most, max(room / e.loss, KEPT * hi))
                else:
                    least = max(least, min(-1.0 + room / e.loss, -1.0 + KEPT * (lo + 1.0)))
    return least, most


def displacement(ends: tuple[End, ...], loss: Floats) -> Floats:
    """Return the relative error of masses of cells at losses next to the ends."""
    error = np.zeros(loss.size)
    for e in ends:
        beyond = (loss - e.loss) / e.slope  # log of the distance in ulps
        beyond = np.where(loss * e.loss > 0.0, beyond, math.inf)
        error = np.maximum(error, MOVED * np.exp(np.minimum(-beyond, 0.0)))
    return np.minimum(error, 1.0)


def log_lost(ends: tuple[End, ...], reverse: bool, epsilon: float = -math.inf) -> float:
    """Return log of the mass with L > epsilon next to an end that no cell or panel has.

    Args:
        ends: see `ends_of`.
        reverse: of Q, whose losses are negated.
        epsilon: any number; only what lies further in than LOST ulps falls with it, as powers do.
    """
    lost = -math.inf
    for e in ends:
        if (e.loss > 0.0) != reverse:
            log_density, power = e.log_p, 1.0 + e.slope_p
            if reverse:
                log_density, power = e.log_p - e.loss, power - e.slope
            deeper = (epsilon - abs(e.loss)) / abs(e.slope) - math.log(LOST)
            further_in = POWER * max(power, 0.0) * max(deeper, 0.0)
            lost = max(lost, e.log_ulp + log_density - further_in)
    return lost + math.log(len(ends) * LOST) if ends else lost


def _grows(end: End, t: float) -> bool:
    """Whether more tilting on this side of [-1, 0] puts more mass at the end."""
    return end.loss > 0.0 if t > -0.5 else end.loss < 0.0
