"""Many repetitions of one step whose loss has a density between two atoms at its ends.

Such a loss (Laplace noise, sampled or not) lies on [a, a + w], and after n steps the hockey-stick
function H_n has kinks at n a + k w only. In cells of width w it is a polynomial g_k, and a step

    H_(n+1)(u) = E[H_n(u - L)]      reads      g_k <- M_0 g_k + M_1 g_(k-1)

with two small matrices that are the same for all cells and all steps. No term cancels.

Error theory. The map is linear, positive and of norm at most one, and maps e^(-tu) to
e^(K(t) - tu): errors of at most r H_n + f e^(-tu) become at most r H_(n+1) + f e^(K(t) - tu). What
a step adds (coefficients beyond the degree kept, quadrature, rounding) counts as relative where it
is small against the least value of its cell, the one at the right end since H_n decreases; else as
floor, for several t at once. Only cells in a window are kept:

* above it H_n is taken to be 0: an error of at most the largest H_j(B_j), B_j its ends;
* below it H_n is taken to be 1: an error of at most the probability that the sum of up to n losses
  ever exceeds epsilon + A, with -A the window's lower end, or exp(n max(K(t), 0) - t (epsilon + A))
  (Doob's inequality for the martingale exp(t S_j - j K(t))).

One compiled pass goes through all levels, and inverts those asked for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from mechc.accountants.chebyshev_tables import DEGREE, Tabulated, series, tabulate
from mechc.errors import NumericError
from mechc.loss.privacy_loss import Step
from mechc.numeric.jit import compiled, subroutine
from mechc.numeric.logs import log_peak
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats

TURNS = 60  # of a root search in one cell
CELL_FOUND = 1e-15  # of a cell, at which bisection ends
RELATIVE = 3e-5  # error of a level that counts as relative, in units of the widest
ROOT = 1e-13  # relative error of a value where it is solved for
SLACK = 1.01  # for products of small errors
NO_FLOOR = -1e300  # log of no floor
HALF = 0.5  # nats by which a floor may change between an epsilon and its lower bound
FIRST, PATIENCE = 64, 8  # levels after which so many failures in a row end a run

# places in `facts`
LOWEST, WIDTH, PARTS, LAW, BARRIER, SPARE, WIDEST = range(7)


@subroutine("float64(float64[:,::1], int64, float64)")
def _root(cells, hint, target):  # type: ignore[no-untyped-def]
    """Return where the decreasing function falls to the target, in cells; nan outside."""
    i = min(max(hint, 0), cells.shape[0] - 1)
    while cells[i].sum() > target:
        i += 1
        if i == cells.shape[0]:
            return np.nan
    while i > 0 and cells[i - 1].sum() <= target:
        i -= 1
    low, high = -1.0, 1.0
    if series(cells[i], low)[0] <= target:
        return float(i) if i > 0 else np.nan
    f_low, f_high = series(cells[i], low)[0] - target, cells[i].sum() - target
    kept = 0
    for _ in range(TURNS):
        x = high - f_high * (high - low) / (f_high - f_low)  # regula falsi, Illinois variant
        if not low < x < high:
            x = 0.5 * (low + high)
        f = series(cells[i], x)[0] - target
        if f > 0.0:
            low, f_low = x, f
            f_high = 0.5 * f_high if kept == 1 else f_high
            kept = 1
        else:
            high, f_high = x, f
            f_low = 0.5 * f_low if kept == -1 else f_low
            kept = -1
        if high - low <= CELL_FOUND or abs(f) <= EPS * target:
            break
    return i + 0.5 * (1.0 + x)


@subroutine("float64(float64[:,::1], float64[::1], float64)")
def _floor(tilts, floors, epsilon):  # type: ignore[no-untyped-def]
    """Smallest of the bounds exp(floor - t epsilon)."""
    least = np.inf
    for i in range(floors.size):
        least = min(least, floors[i] - tilts[0, i] * epsilon)
    return math.exp(least)


@subroutine("float64(float64[:,::1], float64, float64)")
def _fallen(tilts, n, loss):  # type: ignore[no-untyped-def]
    """Doob's bound on the probability that a sum of up to n losses ever reaches `loss`."""
    least = 0.0
    for i in range(tilts.shape[1]):
        least = min(least, n * max(tilts[1, i], 0.0) - tilts[0, i] * loss)
    return math.exp(least)


@subroutine(
    "float64(float64[::1], float64[:,::1], int64, float64, float64, float64, float64[:,::1],"
    " float64[::1])",
    makes_arrays=True,
)
def _judge(least, missed, shift, left, width, limit, tilts, floors):  # type: ignore[no-untyped-def]
    """Return the largest relative error of a new level; those above `limit` go to the floors."""
    # `least` are the smallest values of the new cells, from the loss `left` on; `missed` is what
    # the image of each old row lacks, in its own cell and in the one above, `shift` cells before.
    worst = 0.0
    most = np.full(floors.size, NO_FLOOR)
    for i in range(least.size):
        error = missed[0, i + 1 + shift] + missed[1, i + shift]
        if error <= worst * least[i]:
            continue
        if error <= limit * least[i]:
            worst = error / least[i]
        elif error > 0.0:
            log_error, right = math.log(error), left + (i + 1.0) * width
            for j in range(floors.size):
                most[j] = max(most[j], log_error + tilts[0, j] * right)
    for j in range(floors.size):
        high, low = max(floors[j], most[j]), min(floors[j], most[j])
        floors[j] = high + math.log1p(math.exp(max(low - high, -MOST_LOG)))
    return worst


@subroutine(
    "boolean(float64[:,::1], float64, float64, float64, float64, float64[::1], float64[:,::1],"
    " float64[::1], float64[::1], float64[::1])"
)
def _answer(cells, n, start, near, relative, facts, tilts, floors, target, out):  # type: ignore[no-untyped-def]
    """Write bounds and estimate of epsilon, sought from panel `near`; say if they are narrow."""
    width, hint = facts[WIDTH] / facts[PARTS], int(near)
    middle = _root(cells, hint, target[0])
    epsilon = start + width * middle if math.isfinite(middle) else 0.0
    above, error = facts[SPARE] * target[0], SLACK * relative + ROOT
    if epsilon <= 0.0 and 0.0 < -start < width * cells.shape[0]:
        place = int(-start / width)
        at_zero = series(cells[place], 2.0 * (-start / width - place) - 1.0)[0]
        if at_zero * (1.0 + error) + 2.0 * _floor(tilts, floors, 0.0) + above <= target[0]:
            out[:] = 0.0
            return True
    if not math.isfinite(middle):
        return False
    floor = 2.0 * _floor(tilts, floors, epsilon) + above
    fallen = 2.0 * _fallen(tilts, n, epsilon + facts[BARRIER])
    if not error + (floor + fallen) / target[0] <= facts[WIDEST]:
        return False
    # H is at most what is found and `above`, at least what is found without `fallen`
    upper = _root(cells, hint, (target[0] - floor) / (1.0 + error))
    lower = _root(cells, hint, (target[1] + floor + fallen) * (1.0 + error))
    if not (math.isfinite(upper) and math.isfinite(lower)):
        return False
    noise = 16.0 * EPS * (abs(start) + n * abs(facts[LOWEST]) + width * cells.shape[0])
    low = start + width * lower - noise
    if low > 0.0 and tilts[0, -1] * (epsilon - low) > HALF:
        return False  # the floors there are not those at the estimate
    out[0] = max(0.0, low)
    out[1] = max(0.0, epsilon)
    out[2] = max(0.0, start + width * upper + noise)
    return True


@compiled(
    "void(float64[:,::1], float64[:,::1], float64[:,::1], float64[:,::1], int64[:,::1],"
    " float64[::1], float64[:,::1], float64[::1], float64[:,::1], float64[:,::1])",
    makes_arrays=True,
)
def _run(same, below, errors, payoff, ends, facts, tilts, levels, targets, out):  # type: ignore[no-untyped-def]
    """Fill `out`: lower bound, estimate and upper bound of epsilon at each level, nan without one.

    `ends` has the first and last cell at levels 0, 1, ...; `tilts` t > 0 and K(t); `targets` delta
    to stay under, and to exceed. Row 0 of a level is the cell below its window, zeros follow it.
    """
    lowest, width, widest = facts[LOWEST], facts[WIDTH], facts[WIDEST]
    parts, size = int(facts[PARTS]), payoff.shape[1]
    degree, most = size // parts, (ends[1] - ends[0]).max() + 4
    old, new = np.zeros((most, size)), np.zeros((most, size))
    more, absolute, missed = np.empty((most, size)), np.empty((most, size)), np.empty((2, most))
    right_end = np.zeros(size)
    right_end[size - degree :] = 1.0
    for i in range(parts):
        old[0, i * degree] = new[0, i * degree] = 1.0
    old[1 : payoff.shape[0] + 1] = payoff
    relative = 8.0 * EPS
    floors = np.full(tilts.shape[1], NO_FLOOR)
    found, m, failed = np.empty(3), 0, 0
    near = 0.0
    for n in range(1, ends.shape[1]):
        shift = ends[0, n] - ends[0, n - 1]
        cells = ends[1, n] - ends[0, n] + 1
        rows = cells + shift + 1
        for i in range(rows):
            for j in range(size):
                absolute[i, j] = abs(old[i, j])
        np.dot(absolute[:rows], errors[0], missed[0, :rows])
        np.dot(absolute[:rows], errors[1], missed[1, :rows])
        np.dot(old[1 + shift : rows], same, new[1 : cells + 1])
        np.dot(old[shift : rows - 1], below, more[:cells])
        for i in range(cells):
            for j in range(size):
                new[i + 1, j] += more[i, j]
        new[cells + 1 :] = 0.0
        floors += tilts[1]
        start = ends[0, n] * width + n * lowest
        level = new[1 : cells + 1]
        relative += facts[LAW] + 4.0 * EPS
        least = np.dot(level, right_end)
        relative += _judge(least, missed, shift, start, width, RELATIVE * widest, tilts, floors)
        old, new = new, old
        if n < levels[m]:
            continue
        panels = level.reshape(cells * parts, degree)
        if _answer(
            panels, n, start, near, relative, facts, tilts, floors, targets[:, m].copy(), found
        ):
            out[:, m] = found
            near, failed = (found[1] - start) / width * parts, 0
        else:
            failed += 1
            if n > FIRST and failed > PATIENCE:
                return
        m += 1


SCHEMES = (1, 5), (1, 8), (1, 11), (1, 15), (2, 15), (4, 15), (8, 15)  # panels, degree
NODES = 40  # at which the image of a polynomial is found
END_SHARE = 1e-9  # share of delta that each end of the window may cost
AT_END = 1e-12  # relative distance of kinks from the ends of the loss that is rounding
FLOOR = 1e-20  # mass of a step that does not matter
TILTS = 12  # of floors and of the ends of the window
WORK = 1e9  # multiplications, some half a second
LEFT = 4  # counts without an answer that are not worth another scheme
WORTH = 300  # levels that are as cheap as one answer of its own
LEAST_TARGET = -500.0  # log of the smallest delta: nothing underflows


class Bands(NamedTuple):
    """One step on cells: Chebyshev coefficients of a cell's image, from the cell and the one below.

    A cell has one panel or more, each with its coefficients; m of them in all.

    Attributes:
        same, below: the matrices, shape (m, m).
        same_error, below_error: sup norm of what they miss, per coefficient, shape (m,).
    """

    same: Floats
    below: Floats
    same_error: Floats
    below_error: Floats


def epsilons(step: Step, counts: Floats, targets: Floats, widest: float) -> Floats:
    """As `recursion.epsilons`; nan everywhere for losses of another kind."""
    out = np.full((3, counts.size), np.nan)
    levels = int(counts[-1]) * step.count
    if levels > WORTH * counts.size or not targets.min() > LEAST_TARGET:
        return out
    table = _table(step)
    if table is None:
        return out
    law, lowest = step.loss, float(step.loss.atom_loss[0])
    width = float(law.atom_loss[1]) - lowest
    scale, relative = math.exp(law.log_finite), table.relative + law.tolerance
    window = _window(step, levels, width, float(targets[0].min()))
    if window is None:
        return out
    ends, tilts, k, barrier = window
    for parts, degree in SCHEMES:
        size = parts * (degree + 1)
        if float((ends[1] - ends[0] + 1).sum()) * 2.0 * size**2 > WORK:
            break
        bands = _bands(table, width, parts, degree, scale)
        if levels * (bands.same_error[0] + bands.below_error[0]) > widest:
            continue  # the density itself is not resolved
        left, found = np.isnan(out[2]), np.full((3, counts.size), np.nan)
        same, below = (np.ascontiguousarray(m.T) for m in (bands.same, bands.below))
        _run(
            same, below, np.stack([bands.same_error, bands.below_error]),
            _payoff(ends[0, 0], width, parts, degree), ends,
            np.array([lowest, width, parts, relative, barrier, END_SHARE, widest]),
            np.array([tilts, k]), counts * step.count, np.exp(targets), found,
        )  # fmt: skip
        out[:, left] = found[:, left]
        if np.isnan(out[2]).sum() <= LEFT:
            break  # the first few, next to their largest loss, are as cheap elsewhere
    return out


def _table(step: Step) -> Tabulated | None:
    """The step as atoms and polynomials; None unless its loss is of the kind served here."""
    law = step.loss
    if law.atom_loss.size != 2 or not law.loss.size or not law.atom_loss[0] <= 0 < law.atom_loss[1]:
        return None
    try:
        table = tabulate(law, 0.0, law.log_finite, float(law.atom_loss[0]), FLOOR)
    except NumericError:
        return None
    ends = np.array([0.0, float(law.atom_loss[1] - law.atom_loss[0])])
    apart = np.abs(table.kinks[:, None] - ends).min(axis=1)
    return None if (apart > AT_END * ends[1]).any() or table.error > FLOOR else table


def _nodes(width: float, parts: int) -> tuple[Floats, Floats]:
    """Chebyshev nodes in the panels of a cell (0, width), and the map of values to coefficients."""
    x = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    places = width / parts * (np.arange(parts)[:, None] + 0.5 * (1.0 + x))
    return places, np.asarray(np.linalg.inv(chebyshev.chebvander(x, NODES - 1)), np.float64)


def _bands(table: Tabulated, width: float, parts: int, degree: int, scale: float) -> Bands:
    """The two matrices; `scale` is the mass of the step."""
    places, to_coefficients = _nodes(width, parts)
    edges = width * np.linspace(-1.0, 1.0, 2 * parts + 1)
    columns = DEGREE * np.arange(2 * parts)[:, None] + np.arange(degree + 1)
    values, again = (
        (scale * table.act(places.ravel(), edges, n))[:, columns.ravel()].reshape(
            parts, NODES, 2, parts * (degree + 1)
        )
        for n in (2, 4)
    )
    image = np.einsum("mn,pncs->pmcs", to_coefficients, again)
    kept, left_out = np.abs(image[:, : degree + 1]), np.abs(image[:, degree + 1 :])
    size = parts * (degree + 1)
    missed = left_out.sum(axis=1) + 2.0 * left_out[:, -4:].sum(axis=1)
    missed += 3.0 * np.abs(values - again).max(axis=1) + EPS * (size + 8.0) * kept.sum(axis=1)
    below, same = (image[:, : degree + 1, c].reshape(size, size) for c in (0, 1))
    below_error, same_error = missed.max(axis=0)
    return Bands(same, below, same_error, below_error)


def _payoff(first: int, width: float, parts: int, degree: int) -> Floats:
    """Coefficients of 1 - exp(u) in the cells first, ..., -1 below u = 0, a row for each."""
    places, to_coefficients = _nodes(width, parts)
    u = width * np.arange(first, 0)[:, None, None] + places
    c = -np.expm1(u) @ to_coefficients[: degree + 1].T
    return np.ascontiguousarray(c.reshape(u.shape[0], -1))


def _window(
    step: Step, levels: int, width: float, target: float
) -> tuple[NDArray[np.int64], Floats, Floats, float] | None:
    """First and last cell at levels 0, 1, ..., tilts with their K(t), and A."""
    law, lowest = step.loss, float(step.loss.atom_loss[0])
    n = np.arange(1.0, levels + 1.0)
    _, _, variance, _ = law.generating(0.0)
    spread = math.sqrt(max(variance, 1e-300))
    small = -(target + math.log(END_SHARE))
    tilts = np.geomspace(
        0.5 / (spread * math.sqrt(levels)), 2.0 * math.sqrt(2.0 * small) / spread, TILTS
    )
    try:
        k = np.array([law.generating(float(t))[0] for t in tilts])
    except NumericError:
        return None
    payoff = log_peak(np.asarray(tilts, np.float64))
    top = ((np.outer(n, k) + payoff + small) / tilts).min(axis=1)
    least = ((np.outer(n, k) + payoff - target + math.log(1e-3)) / tilts).min(axis=1)
    needed = (np.outer(n, np.maximum(k, 0.0)) + small) / tilts - np.maximum(least, 0.0)[:, None]
    barrier = max(float(needed.min(axis=1).max()), 2.0 * width)
    first = np.floor((-barrier - lowest * np.arange(levels + 1.0)) / width).astype(np.int64)
    last = np.ceil((np.append(0.0, top) - lowest * np.arange(levels + 1.0)) / width)
    last = np.minimum(last, np.arange(levels + 1.0) - 1.0).astype(np.int64)
    return np.array([first, np.maximum(last, first)]), tilts, k, barrier
