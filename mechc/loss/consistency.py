"""What a kernel says of its branches, held against its densities, whenever laws are bound."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError, VerificationError
from mechc.loss.bound_kernel import KernelSource
from mechc.loss.branches import CONSISTENT, between_modes, contradiction
from mechc.loss.moments import log_total
from mechc.loss.quadrature import Quadrature
from mechc.loss.quadrature.rule import ORDER, log_densities, loss_jitter, losses
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats

DIGITS = 16.0  # times jumps at ulps of parameters by which a right loss without digits may be off
BESIDES = np.arange(1.0, 33.0) / 8.0  # of their width: where losses are held beside panels
HALVES = -np.expm1(-math.log(2.0) * np.arange(1.0, 33.0))  # of the way to an end, next to it
QUARTERS = (-0.25, -0.75)  # tilts that change places when a pair is reversed
NO_BRANCH = np.zeros((1, 3))  # kind and limits where no branch is known
MIRRORED = 1e-8  # of log moments of laws that are equal, found by quadrature


CONTRADICTIONS = (
    "the loss is not log p - log q",
    "the loss does not move in the direction of its branch",
    "the loss passes the limits of its branch",
)


def require_consistent(source: KernelSource) -> None:
    """Hold what a kernel says of its branches against its densities, whenever laws are bound.

    Branches answer one step, nodes answer many, so that a sign that a compilation got wrong at some
    parameters would make the two contradict each other. Held are, at every node: the loss against
    the logs of the densities; the direction of a branch between neighbours; the limits at its ends;
    and, as soon as a question needs inverses, at a few losses, that the inverse lies between the
    nodes around it. Then {L > epsilon} holds the same nodes by branches as by losses, and the
    hockey-stick sums agree in both directions. Masses are summed in `KernelSource` itself.

    Raises:
        VerificationError: they contradict each other; no answer of this law can be trusted.
        NumericError: the loss of a right formula has lost its digits.
    """
    # point masses are answered by themselves, one direction for both
    if source.continuous:
        x, region = source.panels.x, source.panels.region
        parts = [x.ravel()]
        # deep tails, where one of two formulas alone may have lost its digits
        starts = region.searchsorted(np.arange(len(source.rows) + 1)).tolist()
        for row, a, b in zip(source.rows, starts, starts[1:], strict=False):
            parts.append(_beside(row, x[a:b]))
        source.untried = {"inverses"}
        _hold_formulas(source, parts, region.repeat(ORDER))
    _hold_symmetry(source)


def formulas_agree(source: KernelSource) -> bool:
    """Whether the loss is log p - log q wherever its densities are found to be something."""
    try:
        inner = [between_modes(source, row)[0] for row in source.rows]
    except NumericError:
        return True
    if not inner:
        return True
    beside = [_beside(row, x) for row, x in zip(source.rows, inner, strict=True)]
    try:
        _hold_formulas(source, inner + beside, np.empty(0, np.int64))
    except (NumericError, VerificationError):
        return False
    return True


@np.errstate(over="ignore", invalid="ignore")  # where a density is next to nothing
def _hold_formulas(source: KernelSource, parts: list[Floats], known: NDArray[np.int64]) -> None:
    """Hold losses against log densities at outputs; the first are in order on known branches."""
    x = np.concatenate(parts)
    loss = losses(source.kernel, source.theta, x)
    log_p, log_q = log_densities(source.kernel, source.theta, x)
    region = np.append(known, np.full(x.size - known.size, -1))
    off = np.abs(log_p - log_q - loss)
    seen = (np.maximum(log_p, log_q) > -MOST_LOG) & np.isfinite(loss)
    if not np.logical_and.reduce(seen):
        x, loss, log_p, log_q, off = [v[seen] for v in (x, loss, log_p, log_q, off)]
        region = region[seen]
    rows = np.concatenate([source.rows[:, 2:5], NO_BRANCH])
    kind, left, right = rows.take(region, axis=0).T
    size = 1.0 + np.abs(log_p) + np.abs(log_q)
    # where one of the two has no mass, as of exp(-1/(x - a)): a log is as exact as x - a is
    pole = (np.minimum(log_p, log_q) < -MOST_LOG) * (DIGITS * EPS * size)
    slack = np.maximum(CONSISTENT, pole) * size
    apart = np.isfinite(slack) & ~(off <= slack)
    if np.logical_or.reduce(apart):
        # a formula such as 1 - x^2 is as exact next to its zero as x is, whatever the loss's is
        logs = np.stack([log_p, log_q])[:, apart]
        near = x[apart] * (1.0 + DIGITS * EPS * np.array([[-1.0], [1.0]]))
        moved = log_densities(source.kernel, source.theta, near.ravel()).reshape(2, *near.shape)
        moved = np.abs(moved - logs[:, None])
        moved = np.where(np.isfinite(moved), moved, 0.0).max(axis=1).sum(axis=0)
        apart[apart] = ~(off[apart] <= slack[apart] + moved)
    monotone, falls = np.abs(kind) == 1.0, np.zeros(x.size, np.bool_)
    falls[1:] = kind[1:] * (loss[1:] - loss[:-1]) < -(slack[1:] + slack[:-1])
    falls[1:] &= region[1:] == region[:-1]
    beyond = (kind * (left - loss) > slack) | (kind * (loss - right) > slack)
    for what, found in zip(
        CONTRADICTIONS, (apart, falls & monotone, beyond & monotone), strict=True
    ):
        if not np.logical_or.reduce(found):
            continue
        worst = int(np.where(np.isfinite(off), off, 0.0).argmax())
        lost = DIGITS * loss_jitter(source.kernel, source.theta, float(x[worst]))
        at = float(x[found.argmax()])
        if what is CONTRADICTIONS[0] and off[worst] <= lost:
            raise NumericError(f"{source.label}: the loss has lost its digits at {at!r}")
        raise contradiction(source, f"{what} at {at!r}")


def _beside(row: Floats, inner: Floats) -> Floats:
    """Outputs of a branch on both sides of some, as far as densities are something."""
    if not inner.size:
        return inner.ravel()
    ends = row[:2].tolist()
    low, high = (float(side.reduce(inner, axis=None)) for side in (np.minimum, np.maximum))
    x = []
    with np.errstate(over="ignore"):  # far outputs of wide noise are no doubles, and not kept
        for end, at in zip(ends, (low, high), strict=True):
            if math.isfinite(end):
                x.append(at + (end - at) * HALVES)
            else:
                x.append(at + math.copysign(high - low, end) * BESIDES)
    found = np.concatenate(x)
    kept: Floats = found[(ends[0] < found) & (found < ends[1])]
    return kept


def _hold_symmetry(source: KernelSource) -> None:
    """Where the reversed pair is said to have the same law, K(-1/4) = K(-3/4)."""
    panels = source.panels if source.continuous else None
    if not source.symmetric or (panels and panels.apart) or _is_mirrored(source, panels):
        return
    # powers of a distance that are whole at 0 and -1 are not between, and want finer panels there
    if not panels or not _is_mirrored(source, panels.covering(-1.0, 0.0, *QUARTERS)):
        raise contradiction(source, "the pair is not the mirror image of its reversal")


def _is_mirrored(source: KernelSource, panels: Quadrature | None) -> bool:
    loss, log_mass = source.atom_loss, source.atom_log_masses(False)
    if panels:
        loss = np.append(panels.loss.ravel(), loss)
        log_mass = np.append(panels.spread()[0], log_mass)
    with np.errstate(invalid="ignore"):
        one, other = (log_total(log_mass + t * loss) for t in QUARTERS)
    allowed = MIRRORED + source.loss_error + source.mass_error + 32.0 * EPS * abs(one)
    return one == other or abs(one - other) <= allowed
