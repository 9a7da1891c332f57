"""The privacy loss at given outputs, also where its own formula overflows.

A kernel computes the loss by a formula that keeps digits where log p - log q cancels. Far out that
formula may be inf - inf where log p and log q are ordinary numbers; their difference is good then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mechc.kernel.protocol import Kernel
from mechc.loss.work import DENSITY, spend

Floats = NDArray[np.float64]


def losses(kernel: Kernel, theta: Floats, x: Floats) -> Floats:
    """Return log(p/q) at outputs x; inf or -inf where one density is zero, nan where both are.

    Args:
        kernel: an emitted kernel.
        theta: its parameters.
        x: outputs, shape (n,).
    """
    x = np.ascontiguousarray(x, np.float64)
    spend(DENSITY * x.size)
    out = np.empty(x.size)
    kernel.loss_many(x, theta, out)
    sound = np.isfinite(out)
    if not sound.all():
        broken = ~sound
        log_p, log_q = np.empty(broken.sum()), np.empty(broken.sum())
        kernel.log_p_many(x[broken], theta, log_p)
        kernel.log_q_many(x[broken], theta, log_q)
        with np.errstate(invalid="ignore"):
            out[broken] = log_p - log_q
    return out
