"""Whenever a law is bound: what a kernel says of its branches, held against its densities.

In: a KernelSource with nodes. Out: nothing, or an error. Branches answer one step, nodes answer
many, so that a sign that a compilation got wrong at some parameters would make the two contradict
each other. Held are, at every node: the loss against the logs of the densities; the direction of a
branch between neighbours; the limits at its ends; and, at a few losses, that the inverse lies
between the nodes around it. Then {L > epsilon} holds the same nodes by branches as by losses, and
the hockey-stick sums agree in both directions. Masses are summed in `KernelSource` itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.errors import VerificationError
from mechc.kernel import protocol
from mechc.loss.branches import roots
from mechc.loss.compiled import compiled
from mechc.loss.moments import log_total
from mechc.loss.source import KernelSource

Floats = NDArray[np.float64]

ROUNDING = 2.0**-34  # of a loss, as a share of 1 + |log p| + |log q|: formulas keep far more digits
DEEPEST = -700.0  # log densities below are of no node that any sum notices
MIRRORED = 1e-8  # of log moments of laws that are equal, found by quadrature
PLACES = np.array([0.2, 0.5, 0.8])  # of the nodes of a branch, where its inverse is tried
SAME, LOSS, DIRECTION, LIMIT = range(4)
WORDS = {
    LOSS: "the loss is not log p - log q",
    DIRECTION: "the loss does not move in the direction of its branch",
    LIMIT: "the loss passes the limits of its branch",
}


@compiled(
    "Tuple((int64, float64))(float64[:, ::1], int64[::1], float64[::1], float64[::1], "
    "float64[::1], float64[::1])"
)
def _first_contradiction(
    rows: Any, region: Any, x: Any, loss: Any, log_p: Any, log_q: Any
) -> tuple[int, float]:
    """The kind of the first contradiction at nodes sorted by branch and place, and its place."""
    before, slack_before, branch = math.nan, 0.0, -1
    for i in range(x.size):
        if region[i] != branch:
            branch, before = region[i], math.nan
        if not (max(log_p[i], log_q[i]) > DEEPEST and math.isfinite(loss[i])):
            continue
        kind, slack = rows[branch, 2], ROUNDING * (1.0 + abs(log_p[i]) + abs(log_q[i]))
        if math.isfinite(slack) and not abs(log_p[i] - log_q[i] - loss[i]) <= slack:
            return LOSS, x[i]
        if abs(kind) != 1.0:
            continue
        if kind * (loss[i] - before) < -(slack + slack_before):
            return DIRECTION, x[i]
        left, right = kind * rows[branch, 3], kind * rows[branch, 4]
        if left > kind * loss[i] + slack or right < kind * loss[i] - slack:
            return LIMIT, x[i]
        before, slack_before = loss[i], slack
    return SAME, 0.0


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
    kind, place = _first_contradiction(source.rows, region, x, loss, panels.log_p.ravel(), log_q)
    if kind != SAME:
        raise _contradiction(source, f"{WORDS[kind]} at {place!r}")
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
            found = roots(source, row, level[moved])
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
