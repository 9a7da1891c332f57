"""How likely a loss is to be small, of any law, whether or not its nodes settle.

P(L <= t) is an integral of p alone, over outputs that the branches tell. Where P and Q are millions
of standard deviations apart it is the one question that matters, and the only one with an answer.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.errors import NumericError
from mechc.loss.branches import above
from mechc.loss.quadrature import log_mass
from mechc.loss.source import KernelSource
from mechc.loss.work import spend

SMALLEST = -60.0  # no probability is claimed to be below exp of this
ROOM = 0.01  # share of the log by which rounding may move a small probability


def log_below(source: KernelSource, threshold: float, reverse: bool) -> float:
    """Return an upper bound on log P(L <= threshold), 0 where nothing is known.

    Args:
        source: a kernel bound to parameters.
        threshold: any real number.
        reverse: L and P are those of the reversed pair.
    """
    spend(2.0 * source.atom_loss.size)
    sign = -1.0 if reverse else 1.0
    small = sign * source.atom_loss <= threshold
    masses = source.atom_log_mass - (source.atom_loss if reverse else 0.0)
    logs = masses[small].tolist()
    try:
        if source.continuous:
            rows = above(source, -threshold, not reverse)
            label = "q" if reverse else "p"
            logs += [log_mass(source.kernel, source.theta, lo, hi, label) for lo, hi in rows]
    except NumericError:
        return 0.0
    total = float(np.logaddexp.reduce([SMALLEST, *logs]))
    return 0.0 if math.isnan(total) else min(0.0, total * (1.0 - ROOM) + 1e-9)
