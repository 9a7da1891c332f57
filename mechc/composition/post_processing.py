"""Post-processing: outputs rounded to a finite alphabet, by the mass of every cell.

The rounded output of any two data sets is dominated by the pair of the output itself (data
processing, T9). The rounded pair, computed cell by cell from the kernel, is smaller: it is that of
the two data sets to which P and Q belong, and of no others. Other values of a query, or shorter
moves, meet other cells: a threshold far from 0 and the sensitivity tells nearly nothing about
them, and much about a query next to it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mechc.adjacency import Claim
from mechc.composition.events import Event
from mechc.composition.inputs import as_array
from mechc.composition.tables import NumericEvent, Table, digest
from mechc.errors import DeclarationError, UnsupportedError
from mechc.loss.infinite_mass import log_complement
from mechc.loss.moments import log_total
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.loss.rounding import EPS
from mechc.protocol import Measure

if TYPE_CHECKING:
    from mechc.protocol import Kernel


Floats = NDArray[np.float64]

MOST_INTEGERS = 4_000_000
NEGLIGIBLE = -90.0  # log of a share of its cell's mass that is left out
MASS_ERROR = 1e-13  # relative error allowed to the masses of cells


def post_process(event: Event, edges: Any) -> NumericEvent:
    """Return the event whose output is only the cell in which the output of `event` falls.

    Cells are (-inf, edges[0]], (edges[0], edges[1]], ..., (edges[-1], inf): rounding to a grid,
    clamping to an interval, a threshold test. The pair is that of a query which is 0 without the
    record and moves by exactly the sensitivity: declared. For all other queries use `event` itself,
    which dominates its rounded output too.

    Args:
        event: a mechanism with its parameters bound.
        edges: increasing numbers, shape (n,).

    Returns:
        A finite pair with n + 1 outcomes.

    Raises:
        DeclarationError: the edges are not finite and increasing.
        UnsupportedError: `event` has no output of its own, or another pair for the add direction.
    """
    cuts = np.atleast_1d(as_array("post_process: edges", edges))
    if cuts.ndim != 1 or not np.isfinite(cuts).all() or not (np.diff(cuts) > 0).all():
        raise DeclarationError(f"post_process: edges={edges!r} are not finite and increasing")
    if not isinstance(event, Event) or isinstance(event, NumericEvent):
        raise UnsupportedError("post_process: acts on an event of a mechanism, before composition")
    mechanism = event.mechanism
    if mechanism.reverse_kernel is not None or mechanism.tag_kernel is not None:
        raise UnsupportedError(
            f"post_process: {mechanism.name} has more than one pair on the line of outputs"
        )
    theta = np.array(event.theta)
    (log_p, error_p), (log_q, error_q) = (
        _cells(mechanism.kernel, theta, cuts, side) for side in ("p", "q")
    )
    base = event.claim
    because = (
        f"outputs of {event} are rounded to {cuts.size + 1} cells, and have the laws P and Q of "
        "its pair: a query is 0 without the record and moves by exactly the sensitivity; the "
        "pair before rounding dominates for all others (T9)"
    )
    claim = Claim("declared", None, base.adjacency, (), (because,), group=base.group)
    both = (log_p > -math.inf) & (log_q > -math.inf)
    if not both.any():
        raise DeclarationError(f"post_process: {event}: no cell has mass under both P and Q")
    tells, told = (log_total(a[b == -math.inf]) for a, b in ((log_p, log_q), (log_q, log_p)))
    name, error = f"post_process({event})", error_p + error_q
    loss = log_p[both] - log_q[both]
    laws = [
        PrivacyLoss.from_log_atoms(loss, log_p[both], tells, told, name, loss_error=error),
        PrivacyLoss.from_log_atoms(-loss, log_q[both], told, tells, name, loss_error=error),
    ]
    laws = [replace(law, tolerance=max(law.tolerance, error)) for law in laws]
    return NumericEvent(Table(name, digest("post_process", claim, laws[0]), False, claim), *laws)


def _cells(kernel: Kernel, theta: Floats, cuts: Floats, side: str) -> tuple[Floats, float]:
    """Logs of the masses of the cells under P ("p") or Q ("q"), and their error.

    Where one cell has nearly all of the mass, its log is that of the complement of the others.
    """
    column = 1 if side == "p" else 2
    atoms = np.asarray(kernel.atoms(theta), np.float64).reshape(-1, 3)
    parts = [(np.searchsorted(cuts, atoms[:, 0]), atoms[:, column])]
    error = 0.0
    for lo, hi in np.asarray(kernel.branches(theta), np.float64).reshape(-1, 6)[:, :2]:
        if kernel.MEASURE == Measure.LATTICE:
            parts.append(_integers(kernel, theta, cuts, (lo, hi), side))
        else:
            found = _intervals(kernel, theta, cuts, (lo, hi), side)
            parts.append((np.arange(cuts.size + 1), found[:, 0]))
            error = max(error, float(found[:, 1].max()))
    cell, log_mass = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    logs = np.array([log_total(log_mass[cell == i]) for i in range(cuts.size + 1)])
    most = int(np.argmax(logs))
    if logs[most] > -math.log(2.0):
        logs[most] = log_complement(log_total(np.delete(logs, most)))
    known = logs[logs > -math.inf]
    return logs, MASS_ERROR + error + EPS * float(np.abs(known).max(initial=0.0))


def _intervals(
    kernel: Kernel, theta: Floats, cuts: Floats, branch: tuple[float, float], side: str
) -> Floats:
    """Log masses of the cells inside a branch with a density, and their errors."""
    from mechc.loss.quadrature import mass_and_error

    lo, hi = branch
    ends = np.clip(np.concatenate([[-math.inf], cuts, [math.inf]]), lo, hi)
    return np.array([mass_and_error(kernel, theta, a, b, side) for a, b in pairwise(ends.tolist())])


def _integers(
    kernel: Kernel, theta: Floats, cuts: Floats, branch: tuple[float, float], side: str
) -> tuple[NDArray[np.int64], Floats]:
    """The cells of the integers of a branch that matter to their own cell, and the log masses."""
    log_many = kernel.log_p_many if side == "p" else kernel.log_q_many
    lo, hi = branch
    reach = 64.0 + math.ceil(float(np.abs(cuts).max(initial=0.0)))
    while reach <= MOST_INTEGERS:
        x: Floats = np.arange(max(lo, -reach), min(hi, reach) + 1)
        if x.size:
            logs = np.empty(x.size)
            log_many(x, theta, logs)
            cell = np.searchsorted(cuts, x)
            known = [
                x[end] == last or logs[end] < log_total(logs[cell == cell[end]]) + NEGLIGIBLE
                for end, last in ((0, lo), (-1, hi))
            ]
            if all(known):
                return cell, logs
        reach *= 4
    raise UnsupportedError(f"post_process: more than {MOST_INTEGERS} integers carry mass")
