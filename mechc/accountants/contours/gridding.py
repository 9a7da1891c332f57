"""A characteristic function at many equidistant frequencies, by gridding and one fast transform.

sum_j w_j e^{i n theta_j} for 1 <= n <= N costs nodes times N when it is summed, and nodes times 34
here: every node is spread over a fine periodic grid as a narrow Gaussian, the grid is transformed,
and the transform of the Gaussian is divided out (Dutt and Rokhlin 1993; fast gridding after
Greengard and Lee 2004). Errors are absolute, in units of the weights' sum, where the sums of
`characteristic.log_phi` are accurate relative to phi - 1: that is for few steps and many
frequencies, this the other way round.

With W = `WIDTH` and R >= 2 grid points a mode, tau is such that what folds back onto mode n from
its images, and what the cut of the Gaussian leaves out once it is divided by its transform, are
each at most 2 exp(-pi W (R - 1) / (R - 1/2)), 7e-16 at R = 2. Division by the transform magnifies
rounding by at most exp(pi W / (4 R (R - 1/2))), 86 at R = 2; it is W multiplications in `_spread`
and log2 of the grid's size in its transform, below 25 and that many ulps.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechc.numeric.jit import compiled
from mechc.numeric.rounding import EPS

WIDTH = 17  # grid points that a node is spread over on either side


@compiled("void(float64[::1], float64[::1], float64, float64[::1])", nogil=True, makes_arrays=True)
def _spread(theta, weight, tau, grid):  # type: ignore[no-untyped-def]
    """Add w exp(-(x - theta)^2 / (4 tau)) of every node to the grid points around it."""
    # The grid has `WIDTH` further points at either end, which belong at the other one.
    size = grid.size - 2 * WIDTH
    step = 2.0 * math.pi / size
    far = np.empty(WIDTH + 1)
    for m in range(WIDTH + 1):
        far[m] = math.exp(-((m * step) ** 2) / (4.0 * tau))
    for j in range(theta.size):
        turns = theta[j] / (2.0 * math.pi)
        place = (turns - math.floor(turns)) * size
        middle = min(np.int64(place), size - 1)
        x = (place - middle) * step
        one = weight[j] * math.exp(-x * x / (4.0 * tau))
        right = math.exp(x * step / (2.0 * tau))
        left = 1.0 / right
        up, down = one, one
        here = middle + WIDTH
        grid[here] += one
        for m in range(1, WIDTH):
            up *= right
            down *= left
            grid[here + m] += up * far[m]
            grid[here - m] += down * far[m]
        grid[here + WIDTH] += up * right * far[WIDTH]


def transform(
    theta: NDArray[np.float64], weight: NDArray[np.float64], count: int, least: float = 2.0
) -> tuple[NDArray[np.complex128], float]:
    """Return sum_j w_j e^{i n theta_j} for n = 1 ... count, and a bound on their errors.

    Args:
        theta: angles, shape (nodes,).
        weight: non-negative, same shape.
        count: how many frequencies.
        least: grid points for every frequency of either sign, at least, from 2 on.
    """
    modes = 2 * count + 2
    size = 1 << math.ceil(math.log2(max(least * modes, 2.0 * WIDTH)))  # a Gaussian wraps once
    over = size / modes
    tau = math.pi * WIDTH / (modes * modes * over * (over - 0.5))
    wide = np.zeros(size + 2 * WIDTH)
    _spread(theta, weight, tau, wide)
    grid = wide[WIDTH:-WIDTH]
    grid[:WIDTH] += wide[-WIDTH:]
    grid[-WIDTH:] += wide[:WIDTH]
    n = np.arange(1.0, count + 1.0)
    scale = math.sqrt(math.pi / tau) * np.exp(n * n * tau) / size
    # theta in turns is rounded twice
    turned = 2.0 * EPS * count * float((weight * np.abs(theta)).sum())
    magnified = math.exp(math.pi * WIDTH / (4.0 * over * (over - 0.5))) * EPS
    folded = 4.0 * math.exp(-math.pi * WIDTH * (over - 1.0) / (over - 0.5))
    share = magnified * (25.0 + math.log2(size)) + folded
    error = share * float(weight.sum()) + turned
    return np.asarray(np.conj(np.fft.rfft(grid)[1 : count + 1]) * scale, np.complex128), error
