"""The numbers of one direction of a privacy loss (`Nodes`), and of point masses alone.

Point masses are sorted, those of equal losses added up, and looked for on a lattice; here are
checks of those that a caller hands over, their hockey stick, and how far their digits may be off.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.errors import DeclarationError, VerificationError
from mechc.loss.moments import log_total
from mechc.loss.quadrature.resolution import LOG_NEGLIGIBLE
from mechc.numeric.allowance import spend
from mechc.numeric.rounding import EPS, MASS_TOLERANCE, MOST_LOG
from mechc.protocol import Floats

MERGED = 20.0  # work for a point mass that is sorted and looked for on a lattice
LATTICE_ULP = 64.0  # how far, in ulp, computed losses may be off a lattice
ROUNDING = 4e-16  # of a difference of losses, relative to both; of a table they are numbers that
TABLED = 1e-15  # were computed before, which costs more
LEAST = 8.0 * EPS  # of a sum of logs, however small it comes out
UNSEEN = 1.5  # roundings of a log that its kernel may be off without showing it
SUMMANDS = 32.0  # of a log mass, none larger than it, rounded once each
CONTRADICTING = 2.0**-20  # of 1 + |log p| + |log q|: sums of logs of factorials keep more
ROUNDED = 4e-15  # the same, taken as rounding of the masses


class LossesFrom(Enum):
    """Where the losses of point masses come from, which says how their digits are rounded."""

    TABLE = "numbers computed before"
    FORMULA = "the formula of a kernel"


Atoms = tuple[Floats, tuple[Floats, ...], float, float]
"""Finite losses, logs of their masses under P and Q, and the masses that only one of them has."""


class Nodes(NamedTuple):
    """Nodes and atoms of one direction, ready to become fields of a PrivacyLoss."""

    loss: Floats
    log_weight: Floats
    spacing: Floats
    region: NDArray[np.int64]
    atom_loss: Floats
    atom_log_mass: Floats
    support: tuple[float, float]
    lattice: tuple[float, float] | None
    tolerance: float
    tilts: tuple[float, float]

    @classmethod
    def of_atoms(
        cls, loss: Floats, log_mass: Floats, tolerance: float = 0.0,
        tilts: tuple[float, float] = (-math.inf, math.inf),
    ) -> Nodes:  # fmt: skip
        """Make a discrete law, masses known to a relative `tolerance`; equal losses are merged."""
        spend(MERGED * loss.size)
        loss, (log_mass,) = merge(loss, log_mass)
        support = (float(loss[0]), float(loss[-1])) if loss.size else (math.nan, math.nan)
        none, nowhere = np.empty(0), np.empty(0, np.int64)
        return cls(
            none, none, none, nowhere, loss, log_mass, support, find_lattice(loss),
            tolerance, tilts,
        )  # fmt: skip

    def reversed(self, log_masses: Floats | None = None) -> Nodes:
        """Swap the roles of P and Q; the log masses of atoms under Q, unless exp(-loss) tells."""
        if log_masses is None:
            log_masses = self.atom_log_mass - self.atom_loss
        lattice = None if self.lattice is None else (-self.lattice[0], self.lattice[1])
        return Nodes(
            loss=-self.loss, log_weight=self.log_weight - self.loss, spacing=self.spacing,
            region=self.region, atom_loss=np.ascontiguousarray(-self.atom_loss[::-1]),
            atom_log_mass=np.ascontiguousarray(log_masses[::-1]),
            support=(-self.support[1], -self.support[0]), lattice=lattice, tolerance=self.tolerance,
            tilts=(-1.0 - self.tilts[1], -1.0 - self.tilts[0]),
        )  # fmt: skip


def _log_sums(log_mass: Floats, starts: NDArray[np.int64]) -> Floats:
    """Logs of the masses in the runs that begin at `starts`, none of them empty."""
    top = np.maximum.reduceat(log_mass, starts)
    unit = np.where(np.isfinite(top), top, 0.0)
    shares = np.exp(log_mass - unit.repeat(np.diff(starts, append=log_mass.size)))
    with np.errstate(divide="ignore"):  # a run without mass
        sums: Floats = unit + np.log(np.add.reduceat(shares, starts))
    return sums


def spent(
    log_p: Floats, log_q: Floats, tilts: Floats, left: bool, right: bool, log_reach: float
) -> bool:
    """Whether the tilted masses at the open ends, times the reach, are negligible at all tilts."""
    with np.errstate(invalid="ignore"):  # where both vanish there is no loss
        psi = log_p + tilts[:, None] * (log_p - log_q)
    psi = np.where(np.isfinite(psi), psi, -np.inf)
    ends = psi[:, [end for end, is_open in ((0, left), (-1, right)) if is_open]]
    least = psi.max(axis=1) + 2.0 * LOG_NEGLIGIBLE
    return bool((ends.max(axis=1, initial=-np.inf) + log_reach <= least).all())


def merge(loss: Floats, *log_masses: Floats) -> tuple[Floats, tuple[Floats, ...]]:
    """Sort atoms by loss and add up the masses of equal losses, under each law."""
    if loss.size < 2 or (loss[1:] > loss[:-1]).all():
        return loss, log_masses
    order = np.argsort(loss, kind="stable")
    loss = loss[order]
    starts = np.flatnonzero(np.append(True, loss[1:] != loss[:-1]))
    return loss[starts], tuple(_log_sums(masses[order], starts) for masses in log_masses)


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
    while step > 1e3 * noise:
        fits = np.abs(gaps - step * np.round(gaps / step)) <= noise * np.maximum(1.0, gaps / step)
        if fits.all():
            break
        first = int(np.argmin(fits))  # those before are multiples of the step
        gap, gaps = float(gaps[first]), gaps[first + 1 :]
        a, b = gap, step
        for _ in range(64):
            if b <= 1e3 * noise:
                return None
            a, b = b, abs(a - b * round(a / b))
            if b <= noise * max(1.0, gap / a):
                break
        step = a
    else:
        return None
    index = np.round((loss - loss[0]) / step)
    if index[-1] > 1e7:
        return None
    step = float((loss[-1] - loss[0]) / index[-1])
    if np.abs(loss - loss[0] - step * index).max() > noise:
        return None
    return float(loss[0]), step


def split_atoms(log_p: Floats, log_q: Floats, loss: Floats) -> Atoms:
    """Sort point masses into finite losses and the masses at plus and minus infinity."""
    p, q = log_p > -np.inf, log_q > -np.inf
    both = p & q
    with np.errstate(invalid="ignore"):  # a formula for the loss may overflow where logs do not
        loss = np.where(np.isfinite(loss), loss, log_p - log_q)
    return (
        np.ascontiguousarray(loss[both]), (log_p[both], log_q[both]),
        log_total(log_p[p & ~q]), log_total(log_q[q & ~p]),
    )  # fmt: skip


def formulas_apart(log_p: Floats, log_q: Floats, loss: Floats, label: str) -> tuple[float, float]:
    """How far losses are from differences of log masses, by their digits and beyond.

    One of the two formulas is off then, and nothing tells which.

    Returns:
        How far where digits do not explain it; elsewhere, in roundings of both logs.

    Raises:
        VerificationError: they contradict each other.
    """
    with np.errstate(invalid="ignore"):  # an outcome that has mass under one law, or under none
        apart, held, off = _apart(log_p, log_q, loss, SUMMANDS * EPS)
        if _apart(log_p, log_q, loss, CONTRADICTING)[2].any():
            raise VerificationError(
                f"{label}: losses and masses of the kernel contradict each other by up to "
                f"{float(apart[off].max())!r}; no answer is given. This is an error of mechc: "
                "please report the declaration and its parameters"
            )
    seen = held & ~off
    digits = apart[seen] / _rounding_of_logs(loss[seen], log_p[seen])
    return float(apart[off].max(initial=0.0)), float(digits.max(initial=UNSEEN))


def where_apart(log_p: Floats, log_q: Floats, loss: Floats) -> Any:
    """Where losses, and differences of log masses, are not the same but for their digits."""
    with np.errstate(invalid="ignore"):
        return _apart(log_p, log_q, loss, SUMMANDS * EPS)[2]


def _apart(log_p: Floats, log_q: Floats, loss: Floats, share: float) -> tuple[Floats, Any, Any]:
    """How far both formulas are apart, where that counts, and where by a share of logs."""
    apart = np.abs(log_p - log_q - loss)
    size = 1.0 + np.abs(log_p) + np.abs(log_q)
    held = np.isfinite(loss) & (np.maximum(log_p, log_q) > -MOST_LOG)
    return apart, held, held & (apart > share * size)  # where a formula overflows logs are used


def mirrored(lo: float, hi: float) -> tuple[float, float]:
    """Return the tilts -1 - hi and -1 - lo, rounded outward where the way back would miss any."""
    low, high = -1.0 - hi, -1.0 - lo
    return (
        math.nextafter(low, -math.inf) if -1.0 - low < hi else low,
        math.nextafter(high, math.inf) if -1.0 - high > lo else high,
    )


def log_hockey_stick(
    loss: Floats, log_mass: Floats, epsilon: float, mass_error: float, kind: LossesFrom,
    digits: float = 0.0,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return logs of the atoms' terms of delta(epsilon), and of what rounding may add to them.

    Args:
        loss: the atoms' losses.
        log_mass: logs of their masses under P.
        epsilon: any real number.
        mass_error: relative error of the masses, beside the rounding of their logs.
        kind: where the losses come from.
        digits: see `loss_rounding`.
    """
    gap = loss - epsilon
    up = gap > 0
    terms = log_mass[up] + np.log(-np.expm1(-gap[up]))
    shaky = loss_rounding(loss, log_mass, kind, digits)
    shaky += (TABLED if kind is LossesFrom.TABLE else ROUNDING) * abs(epsilon)
    near = gap > -shaky
    if not digits and kind is LossesFrom.FORMULA:  # the largest is counted apart
        near &= up | (loss < loss.max(initial=-math.inf))
    with np.errstate(divide="ignore"):
        noise = log_mass[near] - np.maximum(gap[near], 0.0) + np.log(shaky[near])
        rounded = mass_error + EPS * np.abs(log_mass[up])
        return terms, np.concatenate([noise, terms + np.log(rounded)])


def loss_rounding(loss: Floats, log_mass: Floats, kind: LossesFrom, digits: float = 0.0) -> Floats:
    """Return how far the digits of losses may be off.

    Args:
        loss: the losses.
        log_mass: logs of their masses under P.
        kind: where the losses come from.
        digits: for differences of two logs of masses, however small, in roundings of these; else 0.
    """
    rounded: Floats = (TABLED if kind is LossesFrom.TABLE else ROUNDING) * np.abs(loss)
    return rounded + digits * _rounding_of_logs(loss, log_mass) if digits else rounded


def _rounding_of_logs(loss: Floats, log_mass: Floats) -> Floats:
    """How far two logs of masses that are one rounding off move a loss."""
    off: Floats = LEAST + ROUNDING * (np.abs(log_mass) + np.abs(log_mass - loss))
    return off


def rounding(loss: Floats, log_mass: Floats) -> float:
    """Return the relative error of masses under Q, as the logs of those under P give them."""
    return EPS * float((np.abs(log_mass) + np.abs(loss)).max(initial=0.0))


def cell_masses(loss: Floats, log_mass: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Return the masses of atoms in the cells (edges[i], edges[i+1]] under P and Q."""
    p, q = np.zeros(edges.size - 1), np.zeros(edges.size - 1)
    cell = np.searchsorted(edges, loss, side="left") - 1
    keep = (cell >= 0) & (cell < p.size)
    np.add.at(p, cell[keep], np.exp(log_mass[keep]))
    np.add.at(q, cell[keep], np.exp(log_mass[keep] - loss[keep]))
    return p, q


def checked(
    losses: Floats, log_masses: Floats, log_infinite: float, log_minus_infinite: float,
    bound: bool = False,
) -> Nodes:  # fmt: skip
    """Return finite losses and their masses under P as nodes; a defect of the sums is their error.

    Args:
        losses: finite losses.
        log_masses: logs of their masses under P, -inf for none.
        log_infinite: log P(L = +inf).
        log_minus_infinite: log Q(p = 0).
        bound: they bound a law, and under Q may sum to anything.

    Raises:
        DeclarationError: a loss is not finite, or masses do not sum to one.
    """
    if losses.shape != log_masses.shape or losses.ndim != 1 or not np.isfinite(losses).all():
        raise DeclarationError(f"losses={losses!r}: expected finite numbers, one per mass")
    under = {
        "P": np.append(log_masses, log_infinite),
        "Q": np.append(log_masses - losses, log_minus_infinite),
    }
    if bound:
        del under["Q"]
    with np.errstate(over="ignore"):
        totals = {side: float(np.exp(logs).sum()) for side, logs in under.items()}
    for side, total in totals.items():
        if not abs(total - 1) < MASS_TOLERANCE:
            raise DeclarationError(
                f"masses under {side} sum to {total!r}, those at infinite loss among them"
                " (expected 1)"
            )
    defect = max(abs(total - 1.0) for total in totals.values())
    some = log_masses > -np.inf
    # what is infinite is taken as it is given, so that the rest of the mass is off by all of it
    rest = max(1.0 - math.exp(min(log_infinite, 0.0)), defect)
    off = 2.0 * defect / rest if defect > ROUNDED else 0.0
    return Nodes.of_atoms(losses[some], log_masses[some], off)
