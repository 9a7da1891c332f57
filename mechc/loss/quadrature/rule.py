"""The rule of one panel: 16 Gauss-Legendre nodes, their coefficients, halving; losses at outputs.

The rule is exact up to degree 31. The Legendre coefficients that 16 values determine show whether
a function is resolved: their decay from degrees 6-7 to 14-15 continues to degree 32, the first one
that the rule gets wrong.

A kernel computes the loss by a formula that keeps digits where log p - log q cancels. Far out that
formula may be inf - inf where log p and log q are ordinary numbers; their difference is good then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.numeric.allowance import DENSITY, spend
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats, Kernel

ORDER = 16  # nodes of a panel: exact for polynomials to degree 31
NODES, WEIGHTS = legendre.leggauss(ORDER)

# _ANALYSIS[n, j]: f(x_j) -> n-th Legendre coefficient
_ANALYSIS = np.ascontiguousarray(
    ((2 * np.arange(ORDER) + 1) / 2)[:, None]
    * legendre.legvander(NODES, ORDER - 1).T
    * WEIGHTS[None, :]
)
_SLOPES = np.stack(
    [legendre.legval(NODES, legendre.legder(np.eye(ORDER)[n])) for n in range(ORDER)], axis=1
)

TOP = np.ascontiguousarray(_ANALYSIS[ORDER - 2 :])  # values at nodes -> top two coefficients
ENDS = np.ascontiguousarray(legendre.legvander(np.array([-1.0, 1.0]), ORDER - 1) @ _ANALYSIS)
PROBE = np.ascontiguousarray(_ANALYSIS[[ORDER - 1, ORDER - 2, 7, 6]])  # top two and middle two
DERIVATIVE = np.ascontiguousarray(_SLOPES @ _ANALYSIS)  # values at nodes -> d/dxi at nodes


def nodes(lo: Floats, hi: Floats) -> Floats:
    """Nodes of panels from lo to hi, shape (panels, 16)."""
    x: Floats = (0.5 * lo + 0.5 * hi)[:, None] + (0.5 * (hi - lo))[:, None] * NODES
    return x


def misplaced(x: Floats, values: Floats) -> float:
    """What rounded nodes may move of the integral of values at them: an ulp times the variation.

    Matters where the function lies many of its own widths away from the origin.
    """
    variation = np.add.reduce(np.abs(values[:, 1:] - values[:, :-1]), axis=1)
    return float(np.add.reduce(EPS * np.maximum.reduce(np.abs(x), axis=1) * variation))


def log_densities(kernel: Kernel, theta: Floats, x: Floats, laws: str = "pq") -> Floats:
    """Return log densities of laws, "p" and "q", at outputs x, shape (laws, n)."""
    x = np.ascontiguousarray(x, np.float64)
    spend(len(laws) * DENSITY * x.size)
    out = np.empty((len(laws), x.size))
    for law, row in zip(laws, out, strict=True):
        density = kernel.log_p_many if law == "p" else kernel.log_q_many
        (getattr(density, "made", None) or density)(x, theta, row)
    return out


def losses(kernel: Kernel, theta: Floats, x: Floats, out: Floats | None = None) -> Floats:
    """Return log(p/q) at outputs x; inf or -inf where one density is zero, nan where both are.

    Args:
        kernel: an emitted kernel.
        theta: its parameters.
        x: outputs, shape (n,).
        out: written to, where given.
    """
    x = np.ascontiguousarray(x, np.float64)
    spend(DENSITY * x.size)
    out = np.empty(x.size) if out is None else out
    # machine code that is there is called without what makes it
    (getattr(kernel.loss_many, "made", None) or kernel.loss_many)(x, theta, out)
    if not np.logical_and.reduce(np.isfinite(out)):
        finite_losses(kernel, theta, x, out)
    return out


def finite_losses(kernel: Kernel, theta: Floats, x: Floats, out: Floats) -> None:
    """Replace losses that are no numbers by differences of logs of densities."""
    lost = ~np.isfinite(out)
    log_p, log_q = log_densities(kernel, theta, x[lost])
    with np.errstate(invalid="ignore"):
        out[lost] = log_p - log_q


ULPS = 2.0  # by which parameters are moved to see what their last digits, and roundings, change


def losses_moved(kernel: Kernel, theta: Floats, x: Floats, loss: Floats) -> Floats:
    """Return how far losses may be off: what ulps of any parameter change, and so roundings inside.

    log(1 + q expm1(d / s)) has lost the digits of exp(d / s) where q is small, however short it is.
    """
    moved = np.zeros(x.size)
    for near in nearby(kernel, theta):
        with np.errstate(invalid="ignore"):
            change = np.abs(losses(kernel, near, x) - loss)
        moved += np.where(np.isfinite(change), change, 0.0)
    return moved


def nearby(kernel: Kernel, theta: Floats) -> Iterator[Floats]:
    """Yield the parameters with each that is no integer moved by ulps."""
    for i, (_, _, _, _, _, integer, *_) in enumerate(kernel.PARAMETERS[: theta.size]):
        if not integer:
            near = theta.copy()
            near[i] *= 1.0 - ULPS * EPS
            yield near


NEARBY = 2.0**-34  # of the half width of a panel, and of parameters: a step in which ...
GOOD = 32.0 * EPS  # of a loss: what 4 ulps of each may leave beside a straight line in it, ...
SEEN = 2.0  # ... in times what was seen: less than that may be off everywhere alike


@np.errstate(invalid="ignore", over="ignore")
def off_lines(
    beside: Callable[[Floats, float], Floats], x: Floats, loss: Floats, lo: Floats, hi: Floats
) -> Floats:
    """Return how far losses are off by more than their ulps, as terms of theirs cancel.

    Nearby, in outputs and parameters, a loss is a straight line, and what is off it is rounding.

    Args:
        beside: for the losses of parameters moved down (-1) or up (1) a little, at some outputs.
        x: outputs, shape (n,).
        loss: there.
        lo: lower ends of the panels of these outputs.
        hi: upper ends.
    """
    unit = np.spacing(np.maximum(-lo, hi))
    step = np.rint(0.5 * NEARBY * (hi - lo) / unit) * unit
    low, high = beside(x - step, -1.0), beside(x + step, 1.0)
    noise: Floats = SEEN * np.abs(low - 2.0 * loss + high)
    # nan where a loss is not finite, inf next to the largest double
    noise[~((noise > GOOD * np.abs(loss)) & (noise < np.inf))] = 0.0
    return noise


PLACES = 16  # near a parameter, at which roundings inside of a loss show ...
SLIGHTLY = 0.382 * EPS  # ... how far apart, in no ratio with ulps of 1
SCALE = 2.0**12 * SLIGHTLY  # of a parameter without an upper end that may be moved so


def loss_jitter(kernel: Kernel, theta: Floats, x: float) -> float:
    """Return how far a loss is off a straight line where a parameter moves by its ulps, or by less.

    1 / (1 - a) - 1 has lost digits that neither moves smoothly: they show as jumps.
    """
    off, share, at = 0.0, np.arange(PLACES + 1) / PLACES, np.empty(PLACES + 1)
    place = np.array([x])
    for i, (_, _, hi, *_) in enumerate(kernel.PARAMETERS[: theta.size]):
        # a scale may be so small that this is no slight move; a rate enters beside one
        slightly = SLIGHTLY if hi < np.inf or theta[i] > SCALE else 0.0
        for ulp in (EPS * theta[i], slightly):
            near = np.repeat(theta[None], PLACES + 1, axis=0)
            near[:, i] -= ulp * np.arange(PLACES + 1)
            for j, row in enumerate(near):
                kernel.loss_many(place, row, at[j : j + 1])
            jumps = np.abs(at - at[0] - share * (at[-1] - at[0]))
            off = max(off, float(jumps.max()) if np.isfinite(jumps).all() else 0.0)
    return off


ROUNDS = 60  # of halving


def halved(
    edges: Floats, look: Callable[[Floats, Floats], tuple[tuple[Floats, ...], NDArray[np.bool_]]],
    most: int, refusal: str,
) -> list[Floats]:  # fmt: skip
    """Halve panels until they resolve a function.

    Args:
        edges: increasing ends of the first panels.
        look: of lower and upper ends, what is known of each panel, and which are to be halved.
        most: panels.
        refusal: words for when there would be more.

    Returns:
        Lower ends, upper ends and what is known of all panels, in order.

    Raises:
        NumericError: too many panels or halvings.
    """
    lo, hi = edges[:-1], edges[1:]
    kept: list[tuple[Floats, ...]] = []
    count = 0
    for _ in range(ROUNDS):
        found, short = look(lo, hi)
        kept.append(tuple(column[~short] for column in (lo, hi, *found)))
        count += lo.size + int(short.sum())
        if not short.any():
            columns = [np.concatenate(parts) for parts in zip(*kept, strict=True)]
            order = np.argsort(columns[0])
            return [column[order] for column in columns]
        if count > most:
            break
        count -= 2 * int(short.sum())
        middle = (0.5 * lo + 0.5 * hi)[short]  # of places whose sum overflows
        lo, hi = np.concatenate([lo[short], middle]), np.concatenate([middle, hi[short]])
    raise NumericError(refusal)
