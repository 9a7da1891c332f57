"""Many point masses at once: sorted, added up, found on a lattice, and how far out they matter."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.loss.jit import compiled
from mechc.loss.moments import log_total
from mechc.loss.resolution import LOG_NEGLIGIBLE
from mechc.loss.rounding import EPS

Floats = NDArray[np.float64]

LATTICE_ULP = 64.0  # how far, in ulp, computed losses may be off a lattice


@compiled("float64[::1](float64[::1], int64[::1])")
def _log_sums(log_mass, bounds):  # type: ignore[no-untyped-def]
    """Logs of the masses in the runs between neighbouring bounds."""
    out = np.empty(bounds.size - 1)
    for i in range(out.size):
        run = log_mass[bounds[i] : bounds[i + 1]]
        top = run.max()
        total = 0.0
        for value in run:
            total += math.exp(value - top)
        out[i] = top + math.log(total) if top > -np.inf else top
    return out


@compiled("boolean(float64[::1], float64[::1], float64[::1], boolean, boolean, float64)")
def spent(log_p, log_q, tilts, left, right, log_reach):  # type: ignore[no-untyped-def]
    """Whether the tilted masses at the open ends, times the reach, are negligible at all tilts."""
    last = log_p.size - 1
    for z in tilts:
        most = -np.inf
        ends = -np.inf
        for i in range(log_p.size):
            psi = log_p[i] + z * (log_p[i] - log_q[i])
            if math.isfinite(psi):
                most = max(most, psi)
                if (i == 0 and left) or (i == last and right):
                    ends = max(ends, psi)
        if not ends + log_reach <= most + 2.0 * LOG_NEGLIGIBLE:
            return False
    return True


def merge(loss: Floats, log_mass: Floats) -> tuple[Floats, Floats]:
    """Sort atoms by loss and add up the masses of equal losses."""
    if (loss[1:] > loss[:-1]).all():
        return loss, log_mass
    order = np.argsort(loss, kind="stable")
    loss, log_mass = loss[order], log_mass[order]
    starts = np.flatnonzero(np.append(True, loss[1:] != loss[:-1]))
    return loss[starts], _log_sums(log_mass, np.append(starts, loss.size))


def find_lattice(loss: Floats) -> tuple[float, float] | None:
    """Return (offset, step) when all losses lie on a lattice up to rounding, else None.

    Euclid's algorithm on the differences. A computed loss may be a few ulp off; how much that
    moves an answer is part of the accountants' rounding allowance.
    """
    if loss.size == 0 or loss.size > 100_000:
        return None
    if loss.size == 1:
        return float(loss[0]), max(1.0, abs(float(loss[0])))
    noise = LATTICE_ULP * EPS * float(np.abs(loss).max())
    gaps = np.diff(loss)
    step = float(gaps.min())
    off = np.abs(gaps - step * np.round(gaps / step))
    fits = (off <= noise * np.maximum(1.0, gaps / step)) & (step > 1e3 * noise)
    first = gaps.size if fits.all() else int(np.argmin(fits))
    for gap in gaps[first:]:  # those before are multiples of the smallest
        a, b = float(gap), step
        for _ in range(64):
            if b <= 1e3 * noise:
                return None
            a, b = b, abs(a - b * round(a / b))
            if b <= noise * max(1.0, float(gap) / a):
                break
        step = a
    index = np.round((loss - loss[0]) / step)
    if index[-1] > 1e7:
        return None
    step = float((loss[-1] - loss[0]) / index[-1])
    if np.abs(loss - loss[0] - step * index).max() > noise:
        return None
    return float(loss[0]), step


def split_atoms(log_p: Floats, log_q: Floats, loss: Floats) -> tuple[Floats, Floats, float, float]:
    """Sort point masses into finite losses and the masses at plus and minus infinity."""
    p, q = log_p > -np.inf, log_q > -np.inf
    both = p & q
    with np.errstate(invalid="ignore"):  # a formula for the loss may overflow where logs do not
        loss = np.where(np.isfinite(loss), loss, log_p - log_q)
    return (
        np.ascontiguousarray(loss[both]),
        np.ascontiguousarray(log_p[both]),
        log_total(log_p[p & ~q]),
        log_total(log_q[q & ~p]),
    )
