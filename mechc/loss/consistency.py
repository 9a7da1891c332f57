"""Whenever a law is bound: what a kernel says of its branches, held against its densities.

In: a KernelSource with nodes. Out: nothing, or an error. Branches answer one step, nodes answer
many, so that a sign that a compilation got wrong at some parameters would make the two contradict
each other. Held are, at every node: the loss against the logs of the densities; the direction of a
branch between neighbours; the limits at its ends; and, at a few losses, that the inverse lies
between the nodes around it. Then {L > epsilon} holds the same nodes by branches as by losses, and
the hockey-stick sums agree in both directions. Masses are summed in `KernelSource` itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mechc import protocol
from mechc.errors import VerificationError
from mechc.loss.bound_kernel import KernelSource
from mechc.loss.branches import Branch, inverse
from mechc.loss.moments import log_total

Floats = NDArray[np.float64]

ROUNDING = 2.0**-34  # of a loss, as a share of 1 + |log p| + |log q|: formulas keep far more digits
DEEPEST = -700.0  # log densities below are of no node that any sum notices
MIRRORED = 1e-8  # of log moments of laws that are equal, found by quadrature
PLACES = np.array([0.2, 0.5, 0.8])  # of the nodes of a branch, where its inverse is tried


def _first_contradiction(
    rows: Floats, region: NDArray[np.int64], x: Floats, loss: Floats, log_p: Floats, log_q: Floats
) -> tuple[str, float] | None:
    """The first contradiction of each kind at nodes sorted by branch and place, if there is one."""
    counts = (np.maximum(log_p, log_q) > DEEPEST) & np.isfinite(loss)
    region = region[counts]
    x, loss, log_p, log_q = (values[counts] for values in (x, loss, log_p, log_q))
    slack = ROUNDING * (1.0 + np.abs(log_p) + np.abs(log_q))
    wrong = np.isfinite(slack) & ~(np.abs(log_p - log_q - loss) <= slack)
    if wrong.any():
        return "the loss is not log p - log q", float(x[wrong.argmax()])
    kind, left, right = rows[region, 2:5].T
    monotone = np.abs(kind) == 1.0
    turns = kind[1:] * np.diff(loss) < -(slack[1:] + slack[:-1])
    turns &= monotone[1:] & (region[1:] == region[:-1])
    if turns.any():
        return "the loss does not move in the direction of its branch", float(x[turns.argmax() + 1])
    passes = monotone & ((kind * (left - loss) > slack) | (kind * (loss - right) > slack))
    if passes.any():
        return "the loss passes the limits of its branch", float(x[passes.argmax()])
    return None


def require_consistent(source: KernelSource) -> None:
    """Hold the branches of a bound kernel against its nodes.

    Raises:
        VerificationError: they contradict each other; no answer of this law can be trusted.
    """
    if not source.continuous:  # point masses are answered by themselves alone
        return
    panels, theta = source.panels, source.theta
    x = np.ascontiguousarray(panels.x.ravel())
    log_q = np.empty(x.size)
    source.kernel.log_q_many(x, theta, log_q)
    region, loss = panels.region.repeat(panels.loss.shape[1]), panels.loss.ravel()
    with np.errstate(invalid="ignore"):
        found = _first_contradiction(source.rows, region, x, loss, panels.log_p.ravel(), log_q)
    if found is not None:
        raise _contradiction(source, f"{found[0]} at {found[1]!r}")
    _hold_inverses(source, region, x, loss)
    _hold_symmetry(source)


def _hold_inverses(
    source: KernelSource, region: NDArray[np.int64], x: Floats, loss: Floats
) -> None:
    """Losses between those of two nodes have their outputs between the two."""
    for index, row in enumerate(source.rows):
        mine = np.flatnonzero((region == index) & np.isfinite(loss))
        if row[2] not in (protocol.INCREASING, protocol.DECREASING) or mine.size < 2:
            continue
        at = mine[(PLACES * (mine.size - 1)).astype(np.int64)]
        after = at + 1
        level = 0.5 * (loss[at] + loss[after])
        moved = np.abs(loss[after] - loss[at]) > ROUNDING * (1.0 + np.abs(level))
        if moved.any():
            found = inverse(source, Branch.whole(row), level[moved])
            if not ((x[at[moved]] <= found) & (found <= x[after[moved]])).all():
                raise _contradiction(source, f"a loss near {level[moved][0]!r} is found elsewhere")


def _hold_symmetry(source: KernelSource) -> None:
    """Where the reversed pair is said to have the same law, K(-1/4) = K(-3/4)."""
    if not source.symmetric or source.panels.apart:
        return
    loss = np.append(source.panels.loss.ravel(), source.atom_loss)
    log_mass = np.append(source.panels.spread()[0], source.atom_log_mass)
    with np.errstate(invalid="ignore"):
        one, other = (log_total(log_mass + t * loss) for t in (-0.25, -0.75))
    if not abs(one - other) <= MIRRORED:
        raise _contradiction(source, "the pair is not the mirror image of its reversal")


def _contradiction(source: KernelSource, what: str) -> VerificationError:
    return VerificationError(
        f"{source.label}: branches and densities of the kernel contradict each other ({what}); "
        "no answer is given. This is an error of mechc: please report the declaration and its "
        "parameters"
    )
