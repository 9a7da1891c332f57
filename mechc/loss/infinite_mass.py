"""Masses at infinite loss: logs with errors, made from tails and never as one minus something.

In: masses of single steps, in closed form and by quadrature. Out: `LogMass`, of a step and of a
composition, 1 - prod (1 - d_j)^n_j (I5). With the masses c d_j in place of d_j that is a concave
function of c >= 0 which vanishes at 0, so that a relative error of all d_j is one of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mechc.errors import InternalError
from mechc.loss.moments import log_total
from mechc.numeric.logs import log1mexp
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats

MASS_ERROR = 3e-14  # allowance for log of a composed mass at infinity, and of 1 - exp(eps) M(-1)
CERTAIN = 1e-16  # -log of a mass that is one in doubles
TINY = -40.0  # log of a mass beside which its square is nothing
FEW = 4.0  # roundings of the log of a mass
ROUNDED = 1e-12  # what rounding may leave of a closed form that is a complement
CONTRADICTION = 1e-6  # log of a closed form over what was found that rounding does not explain
UNCONFIRMED = math.log(2.0)  # error of a closed mass between ends that are one double


class LogMass(NamedTuple):
    """The log of a mass, and the error of that log: a relative error of the mass."""

    log: float = -math.inf
    error: float = 0.0


NO_MASS = LogMass()


def rounded(log_mass: float) -> LogMass:
    """A mass of which a formula gives the log."""
    return LogMass(log_mass, FEW * EPS * (1.0 - log_mass)) if log_mass > -math.inf else NO_MASS


def total(masses: Sequence[LogMass]) -> LogMass:
    """Sum of masses."""
    if not masses:
        return NO_MASS
    some = [m for m in masses if m.log > -math.inf]
    if len(some) < 2:
        return some[0]._replace(log=min(some[0].log, 0.0)) if some else NO_MASS
    log_mass = log_total(np.array([m.log for m in some]))
    # a part that hardly counts may have lost all its digits
    off = math.fsum(math.exp(m.log - log_mass) * math.expm1(min(m.error, MOST_LOG)) for m in some)
    return LogMass(min(log_mass, 0.0), math.log1p(off))


def agreed(closed: float, found: LogMass, label: str) -> LogMass:
    """The mass of which a closed form and quadrature (with atoms) give the logs.

    Where they differ by more than their errors, and by no more than a complement loses, the mass
    may be either, but for a closed form of nothing.

    Args:
        closed: log of the closed form, nan for none.
        found: what was found without it.
        label: for messages.

    Raises:
        InternalError: they contradict each other.
    """
    if math.isnan(closed) or closed == found.log:
        return found
    closed = min(closed, 0.0)
    if found.log == -math.inf:
        return LogMass(closed, UNCONFIRMED)
    gap = abs(closed - found.log)
    if gap <= found.error + rounded(closed).error:
        return LogMass(closed, gap + found.error)
    if gap <= CONTRADICTION:
        return LogMass(found.log, gap + found.error)
    if abs(math.exp(closed) - math.exp(found.log)) <= ROUNDED:
        return found if closed == -math.inf else LogMass(found.log, gap + found.error)
    raise InternalError(
        f"{label}: the mass at infinite loss is exp({closed!r}) in closed form, and "
        f"exp({found.log!r}) by quadrature with a relative error of {found.error:.1e}"
    )


def log_complement(log_mass: float) -> float:
    """Return log(1 - mass), -inf for a mass that is one in doubles."""
    if log_mass == -math.inf:
        return 0.0
    return -math.inf if log_mass >= -CERTAIN else log1mexp(log_mass)


def log_rate(masses: Iterable[tuple[float, int]]) -> float:
    """Return log of -sum n_j log(1 - d_j), from logs of the masses d_j and counts n_j."""
    terms = [
        math.log(count) + (math.log(-log_complement(m)) if m > TINY else m)
        for m, count in masses
        if count and m > -math.inf
    ]
    return log_total(np.array(terms)) if terms else -math.inf


def log_revealed(log_rate: Floats) -> Floats:
    """Return log(1 - exp(-rate)) elementwise: the log mass at infinity of a composition."""
    with np.errstate(over="ignore", divide="ignore"):
        logs: Floats = np.where(
            log_rate > TINY, np.log(-np.expm1(-np.exp(np.maximum(log_rate, TINY)))), log_rate
        )
    return logs


def composed(steps: Sequence[tuple[Any, int]], reverse: bool = False) -> LogMass:
    """Return the mass at infinity of steps, laws and how often, or that of the reversed pairs."""
    masses, counts = [], []
    for loss, count in steps:
        log = loss.log_minus_infinite if reverse else loss.log_infinite
        if count and log > -math.inf:
            masses.append(LogMass(log, loss.mass_errors[reverse]))
            counts.append(count)
    if not masses or sum([count for _, count in steps]) == 1:
        return masses[0] if masses else NO_MASS  # exact: a declared delta stays the same double
    rate = log_rate((m.log, count) for m, count in zip(masses, counts, strict=True))
    log_mass = float(log_revealed(np.array(rate)))
    # concave in a common factor of all masses, so that no relative error grows
    return LogMass(log_mass, max(m.error for m in masses) + rounded(log_mass).error)


def log_error(infinite: LogMass, opposite: LogMass, epsilon: float) -> float:
    """Return log of how far errors of masses at infinity may move delta(epsilon).

    Below epsilon = 0 delta is taken from the reversed pair, and so is its mass, `opposite`.
    """
    if infinite.error == 0.0 and (epsilon >= 0 or opposite.error == 0.0):
        return -math.inf
    moved = [(infinite, 0.0), (opposite, epsilon)] if epsilon < 0 else [(infinite, 0.0)]
    shares = [(m.log + e, m.error) for m, e in moved if m.error > 0.0]
    # times exp(x) - 1, however large an error x is
    return log_total(np.array([log + x + math.log(-math.expm1(-x)) for log, x in shares]))


@np.errstate(invalid="ignore")  # an estimate that is unknown stays so
def with_infinite(log_mass: float, finite: Iterable[float]) -> tuple[float, float, float]:
    """Add a mass at infinity to the logs of bounds and estimate of the finite part."""
    margins = np.array([log_mass - MASS_ERROR, log_mass, log_mass + MASS_ERROR])
    sums = np.minimum(np.logaddexp(margins, np.array([*finite])), 0.0)
    lower, estimate, upper = sums.tolist()
    return lower, estimate, upper
