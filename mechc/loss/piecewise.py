"""Positive functions on an interval as piecewise Chebyshev polynomials, from samples.

In: a function that can be sampled anywhere, accurate relative to its value. Out: a piecewise
polynomial g~ with |g~ - g| <= relative * g + floor, halving panels until that is so. The
interpolation error of a panel is estimated twice, by continuing the decay of the coefficients and
by the deviation observed at both ends of the panel, which are no nodes; the larger counts, times a
guard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from mechc.loss.chebyshev_tables import DEGREE
from mechc.loss.rule import halved

Floats = NDArray[np.float64]

POINTS = np.ascontiguousarray(-np.cos(np.pi * (np.arange(DEGREE) + 0.5) / DEGREE))
ANALYSIS = np.ascontiguousarray(
    np.linalg.inv(chebyshev.chebvander(POINTS, DEGREE - 1))
)  # values at POINTS -> coefficients
_SIGNS = (-1.0) ** np.arange(DEGREE)
_HALVES = [
    ANALYSIS @ chebyshev.chebvander(0.5 * POINTS + at, DEGREE - 1) for at in (-0.5, 0.5)
]  # coefficients -> coefficients on the lower and the upper half of the panel
MAX_PANELS = 240
NARROWEST = 1e-14  # panel width, as a share of the largest edge
GUARD = 3.0  # factor on estimated errors
ROUNDING = 2e-15  # of a sample, Lebesgue's constant of POINTS included


@dataclass(frozen=True, eq=False)
class Piecewise:
    """A piecewise polynomial, zero outside its edges.

    Attributes:
        edges: increasing, shape (m + 1,).
        coefficients: Chebyshev coefficients, shape (m, 16).
        relative: estimated largest error as a share of the value, where the share asked for was
            reached.
        error: estimated largest error elsewhere.
    """

    edges: Floats
    coefficients: Floats
    relative: float
    error: float


def halve(function: Piecewise, chosen: NDArray[np.bool_]) -> Piecewise:
    """Return the same function on panels of which the chosen ones are cut in two."""
    edges, c = function.edges, function.coefficients
    repeats = 1 + chosen
    middles = 0.5 * (edges[:-1] + edges[1:])[chosen]
    parts = np.repeat(c, repeats, axis=0)
    first = np.flatnonzero(np.repeat(chosen, repeats))[::2]
    parts[first], parts[first + 1] = (c[chosen] @ half.T for half in _HALVES)
    return Piecewise(
        np.sort(np.concatenate([edges, middles])), parts, function.relative, function.error
    )


def points(edges: Floats) -> Floats:
    """Return the sampling points of all panels, shape (16 m,)."""
    return _points(edges[:-1], edges[1:])


def _points(lo: Floats, hi: Floats) -> Floats:
    x = 0.5 * (lo + hi)[:, None] + 0.5 * (hi - lo)[:, None] * POINTS
    return np.ascontiguousarray(x.ravel())


def judge(values: Floats, at_lo: Floats, at_hi: Floats) -> tuple[Floats, Floats, Floats]:
    """Return coefficients, estimated errors and least values of panels from their samples."""
    c = values @ ANALYSIS.T
    size = np.abs(c)
    top, middle = size[:, -2:].max(axis=1), size[:, 6:8].max(axis=1)
    decay = np.minimum((top / np.maximum(middle, 1e-300)) ** 0.125, 0.9)
    seen = np.maximum(np.abs(at_lo - c @ _SIGNS), np.abs(at_hi - c.sum(axis=1)))
    error = GUARD * np.maximum(2.0 * top * decay / (1.0 - decay), seen)
    error += ROUNDING * np.abs(values).max(axis=1)
    least = np.minimum(np.abs(values).min(axis=1), np.minimum(np.abs(at_lo), np.abs(at_hi)))
    return c, error, least


def interpolate(
    function: Callable[[Floats, int], Floats], edges: Floats, relative: float, floor: float
) -> Piecewise:
    """Represent a function to a relative error, or an absolute one where that is less.

    Args:
        function: its values, by so many parts of a rule: one at nodes, two at ends of panels.
        edges: first panels; a kink has to be an edge.
        relative: largest error wanted as a share of the value.
        floor: largest error wanted where the value is small.

    Raises:
        NumericError: too many panels or halvings.
    """

    def look(lo: Floats, hi: Floats) -> tuple[tuple[Floats, ...], NDArray[np.bool_]]:
        values = function(_points(lo, hi), 1).reshape(-1, DEGREE)
        ends = function(np.concatenate([lo, hi]), 2)
        c, error, least = judge(values, ends[: lo.size], ends[lo.size :])
        tiny = hi - lo <= NARROWEST * np.maximum(np.abs(lo), np.abs(hi))
        return (c, error, least), (error > np.maximum(relative * least, floor)) & ~tiny

    refusal = f"direct: the recursion over steps needs more than {MAX_PANELS} panels"
    lo, hi, c, error, least = halved(edges, look, MAX_PANELS, refusal)
    return assemble(np.append(lo, hi[-1:]), c, error, least, relative)


def assemble(
    edges: Floats, coefficients: Floats, error: Floats, least: Floats, relative: float
) -> Piecewise:
    """Make a piecewise polynomial; the errors of the panels that reached `relative` are shares."""
    good = error <= relative * least
    share = error[good] / np.maximum(least[good], 1e-300)
    return Piecewise(
        edges,
        np.ascontiguousarray(coefficients),
        float(share.max(initial=0.0)),
        float(error[~good].max(initial=0.0)),
    )
