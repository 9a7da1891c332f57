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

from mechc.composition import Event
from mechc.errors import DeclarationError, UnsupportedError
from mechc.imported import NumericEvent, Table, digest, from_pmfs
from mechc.inputs import as_array

if TYPE_CHECKING:
    from mechc.kernel.protocol import Kernel

Floats = NDArray[np.float64]

MOST_INTEGERS = 4_000_000
NEGLIGIBLE = -90.0  # log of a mass that is left out
MASS_ERROR = 1e-13  # relative error allowed to the masses of cells, beside what they miss of one


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
    p, q = (_cells(mechanism.kernel, theta, cuts, side) for side in ("p", "q"))
    base = event.claim
    because = (
        f"outputs of {event} are rounded to {cuts.size + 1} cells, and have the laws P and Q of "
        "its pair: a query is 0 without the record and moves by exactly the sensitivity; the "
        "pair before rounding dominates for all others (T9)"
    )
    made = from_pmfs(p, q, name=f"post_process({event})", because=because)
    claim = replace(made.claim, adjacency=base.adjacency, group=base.group)
    law = made.loss()
    table = Table(made.mechanism.name, digest("post_process", claim, law), False, claim)
    return NumericEvent(table, replace(law, tolerance=law.tolerance + MASS_ERROR), None)


def _cells(kernel: Kernel, theta: Floats, cuts: Floats, side: str) -> Floats:
    """Masses of the cells under P ("p") or Q ("q"), summing to one up to quadrature."""
    column = 1 if side == "p" else 2
    atoms = np.asarray(kernel.atoms(theta), np.float64).reshape(-1, 3)
    masses: Floats = np.zeros(cuts.size + 1)
    np.add.at(masses, np.searchsorted(cuts, atoms[:, 0]), np.exp(atoms[:, column]))
    for lo, hi in np.asarray(kernel.branches(theta), np.float64).reshape(-1, 6)[:, :2]:
        if kernel.MEASURE == "lattice":
            x, mass = _integers(kernel, theta, lo, hi, side)
            np.add.at(masses, np.searchsorted(cuts, x), mass)
        else:
            masses += _intervals(kernel, theta, np.concatenate([[lo], cuts, [hi]]), lo, hi, side)
    return np.minimum(masses, 1.0)


def _intervals(
    kernel: Kernel, theta: Floats, ends: Floats, lo: float, hi: float, side: str
) -> Floats:
    """Masses of the cells between `ends` inside the branch (lo, hi)."""
    from mechc.loss.quadrature import log_mass

    inside = [(max(a, lo), min(b, hi)) for a, b in pairwise([-math.inf, *ends[1:-1], math.inf])]
    return np.array(
        [math.exp(log_mass(kernel, theta, a, b, side)) if a < b else 0.0 for a, b in inside]
    )


def _integers(
    kernel: Kernel, theta: Floats, lo: float, hi: float, side: str
) -> tuple[Floats, Floats]:
    """The integers lo .. hi that matter, and their masses."""
    log_many = kernel.log_p_many if side == "p" else kernel.log_q_many
    reach = 64.0
    while reach <= MOST_INTEGERS:
        x: Floats = np.arange(max(lo, -reach), min(hi, reach) + 1)
        logs = np.empty(x.size)
        log_many(x, theta, logs)
        known = [x[0] == lo or logs[0] < NEGLIGIBLE, x[-1] == hi or logs[-1] < NEGLIGIBLE]
        if x.size and all(known):
            return x, np.exp(logs)
        reach *= 4
    raise UnsupportedError(f"post_process: more than {MOST_INTEGERS} integers carry mass")
