"""Names beside curves: each along its own curve and nearer to it than to any other.

In: axes with lines that have labels. Out: the labels as text; or, where one of them has no room, a
legend, which stands below the axes of a figure that is the library's own. All lengths are pixels.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mechc.protocol import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SPACING = 3.0  # of points on curves
PLACES = 80  # along a curve that are tried
GAPS = (3.0, 6.0, 10.0)  # between a curve and its name
MARGIN = 3.0  # of a name to anything else
NEARER = 1.5  # times as near to its own curve as to others
SHORT = 2.5  # heights: a shorter name is not turned
AFAR = 40.0  # further away from others is no better
TILT = 12.0  # what an upright name loses against a level one
ROW = 0.21  # inches of a row of a legend


def write(axes: Axes, below: bool) -> None:
    """Write the labels of all lines; or a legend, perhaps below axes: then the figure grows."""
    named = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    if not named:
        return
    figure: Any = axes.figure
    figure.draw_without_rendering()
    curves = {line: _curve(axes, line) for line in axes.lines}
    boxes = [text.get_window_extent().get_points() for text in axes.texts]
    taken = [_cover(box.mean(axis=0), box[1] - box[0]) for box in boxes]
    written: list[Any] = []
    for line in named:
        text = axes.text(0.0, 0.0, str(line.get_label()), color=line.get_color(),
                         fontsize="small", ha="center", va="center", rotation_mode="anchor",
                         transform=axes.transAxes)  # fmt: skip
        written.append(text)
        size = np.array(text.get_window_extent().size)
        others = np.concatenate([np.empty((0, 2)), *(curves[o] for o in axes.lines if o != line)])
        place = _best(curves[line], others, taken, size, axes.bbox)
        if place is None:
            _legend(axes, named, written, below)
            return
        _, middle, angle = place
        x, y = axes.transAxes.inverted().transform(middle)
        text.set_position((float(x), float(y)))
        text.set_rotation(np.degrees(angle))
        taken.append(_cover(middle, size, angle))


def _legend(axes: Axes, named: Sequence[Any], written: Sequence[Any], below: bool) -> None:
    """Remove what was written, and name all lines in a legend."""
    for text in written:
        text.remove()
    how: dict[str, Any] = {"frameon": False, "fontsize": "small"}
    if not below:
        axes.legend(**how)
        return
    figure: Any = axes.figure
    columns = 1 if max(len(str(line.get_label())) for line in named) > 32 else 2
    rows = -(-len(named) // columns)
    figure.set_figheight(figure.get_figheight() + ROW * rows)
    figure.legend(handles=list(named), loc="outside lower center", ncols=columns, **how)


def _curve(axes: Axes, line: Any) -> Floats:
    """Points of a line, `SPACING` apart, within the axes."""
    from matplotlib.cbook import STEP_LOOKUP_MAP

    x, y = STEP_LOOKUP_MAP[line.get_drawstyle()](line.get_xdata(), line.get_ydata())
    with np.errstate(all="ignore"):
        points = line.get_transform().transform(np.column_stack([x, y]).astype(float))
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return np.empty((0, 2))
    ends = axes.bbox.get_points()
    points = np.clip(points, ends[0] - AFAR, ends[1] + AFAR)
    length = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    at = np.linspace(0.0, length[-1], int(length[-1] / SPACING) + 2)
    dense = np.column_stack([np.interp(at, length, points[:, i]) for i in (0, 1)])
    seen: Floats = dense[((dense >= ends[0]) & (dense <= ends[1])).all(axis=1)]
    return seen


def _best(
    own: Floats, others: Floats, taken: Sequence[Floats], size: Floats, frame: Any
) -> tuple[float, Floats, float] | None:
    """How good the best place of a name of this size is, its middle and angle; None without one."""
    (left, low), (right, high) = frame.get_points()
    fixed = np.concatenate([np.empty((0, 2)), *taken])
    reach = max(int(0.5 * size[0] / SPACING), 2)
    places: list[tuple[float, Floats, float]] = []
    tried = np.unique(np.linspace(0, len(own) - 1, PLACES).astype(int)) if len(own) else ()
    for k, gap, side in itertools.product(tried, GAPS, (1.0, -1.0)):
        along = own[min(k + reach, len(own) - 1)] - own[max(k - reach, 0)]
        along = along if along[0] >= 0.0 else -along
        angle = float(np.arctan2(along[1], along[0])) if size[0] > SHORT * size[1] else 0.0
        turn = _turn(angle)
        middle = own[k] + side * (gap + 0.5 * size[1]) * turn[1]
        half = 0.5 * size @ np.abs(turn) + MARGIN
        if not (left + half[0] < middle[0] < right - half[0]
                and low + half[1] < middle[1] < high - half[1]):  # fmt: skip
            continue
        near, far, else_ = (
            float(np.min(np.max(abs((points - middle) @ turn.T) - 0.5 * size, 1), initial=AFAR))
            for points in (own, others, fixed)
        )
        if near < 1.5 or min(far, else_) < MARGIN or far < NEARER * gap:
            continue
        places.append((far - 0.5 * gap - TILT * abs(np.sin(angle)), middle, angle))
    return max(places, key=lambda place: place[0], default=None)


def _turn(angle: float) -> Floats:
    """Unit vectors along and across a text, one a row."""
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def _cover(middle: Floats, size: Floats, angle: float = 0.0) -> Floats:
    """Points that cover a text."""
    cells = np.stack(np.meshgrid(np.linspace(-0.5, 0.5, 24), np.linspace(-0.5, 0.5, 4)), axis=-1)
    covered: Floats = middle + (cells.reshape(-1, 2) * size) @ _turn(angle)
    return covered
