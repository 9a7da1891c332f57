"""Compiled loops over people: choice of contour, and Theorem A solved for epsilon or delta.

Notation of `accountants.contours.trapezoid`: S = (1/T) e^{K(c) - c eps} / (c(c+1)) * total(eps),
total = 1 + 2 sum_n Re w_n e^{-i n h eps}, w_n = phi(nh) c(c+1) / (z_n (z_n + 1)), and

    S - e^{-cT}/(1 - e^{-cT}) - right images <= delta <= S - known left images

up to the truncation and to the error of the tables. If E_n bounds that of log M(z_n), term n is
within |w_n| (e^{E_n} - 1) of its true value over e^{K(c)}.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.accountants.contours.columns import SLACK
from mechc.accountants.contours.inversion import (
    AT,
    BEND,
    FIRST_B,
    NOISE,
    bounds_on_sum,
    evaluate,
    root,
    sides,
)
from mechc.accountants.contours.trapezoid import (
    FRONT,
    LOG_M,
    NOISE_M,
    PERIOD,
    TAIL,
    C,
)
from mechc.individual.tilts import UNKNOWN
from mechc.loss.moments import exponentials, waves
from mechc.numeric.jit import compiled, subroutine
from mechc.numeric.rounding import EPS, MOST_LOG

# what `choose` says
UPPER, START, LENGTH, NODES, LEVEL, ALLOWED, TILT, BEST, WORK, KNOWN = range(10)
STRIDE = 4  # contours go through every fourth tilt, so that there are few
CANCELLATION = 6.0  # nats by which a contour may miss the saddle
NEGLIGIBLE = 0.5  # of what is lost beyond the nodes, that further nodes may be
COARSE = 0.5  # share of the sum beyond which table errors leave nothing
BELOW = 18  # tilts below the saddle tried as contour
ABOVE = 14  # tilts above a contour tried for its right images
# tilts before that of the best Chernoff bound, whose logs of K tell epsilon
BEFORE = np.array([0, 4, 10, 18])
# the least and the largest log of epsilon over the bound that was seen, the constant, and the
# weights of the log of the bound and of these
LESSON = 4 + BEFORE.size
LEAST = 5e-324  # a positive delta that no double is as small as
TERMS, PHASE = 33.0, 8.0  # EPS that sums and terms are off by, times log phi, and its largest phase
GUESSED = 1e-4  # of the sum's first term, that a guess may be off by
CAP = 16.0  # times a first guess of epsilon and one: the largest answer that is looked for


@subroutine("int64(float64[::1])")
def _least(values):  # type: ignore[no-untyped-def]
    """Return the place of the least of some values, none of which is nan."""
    j = 0
    for i in range(values.size):
        j = i if values[i] < values[j] else j
    return j


@subroutine("float64(float64[::1], float64[::1], int64, float64, float64)")
def _period(log_b, t, i, epsilon, goal):  # type: ignore[no-untyped-def]
    """Return the shortest period at c = t[i] that keeps all images below exp(goal)."""
    right = np.inf
    for r in range(i + 1, min(i + 1 + ABOVE, t.size)):
        image = log_b[r] - t[r] * epsilon - goal
        right = min(right, image / (t[r] - t[i]))
    left = min(-goal / t[i], (epsilon - goal) / (t[i] + 1.0))
    return max(left, right)


@subroutine("float64(float64[::1], float64[::1], int64, int64, float64)")
def _beside(k, t, i, j, bend):  # type: ignore[no-untyped-def]
    """Return minus the log of the share that what makes up the law tilted by t[j] has at t[i]."""
    # Where rare large losses begin to outweigh the others K'' is that between both parts, while
    # |phi| falls no faster than that of either.
    far, slope = t[i] - t[j], (k[j + 1] - k[j - 1]) / (t[j + 1] - t[j - 1])
    return max(k[i] - k[j] - slope * far - 0.5 * bend * far * far, 0.0)


@compiled(
    "void(float64[:,::1], float64[::1], float64[::1], boolean[::1], float64, float64, float64,"
    " float64, float64, float64[::1], int64[::1], float64[:,::1], float64[:,:])",
    nogil=True,
    makes_arrays=True,
)
def choose(  # type: ignore[no-untyped-def]
    rows, t, peak, useful, log_delta, epsilon, rtol, log_small, away, known, below, lessons, out
):
    """Bound the answer by Chernoff and choose contour, period and number of nodes per person.

    Contours below the saddle need fewer nodes when few steps matter, and tables are more accurate
    there; both are weighed against cancellation. `rows` are products with `Tilts.together`, `peak`
    is that of the payoff at the tilts t, contours may go through `useful` ones (without any there
    are bounds alone), images may have exp(log_small) of delta, `away` is the least cost of
    cancellation in units of work, `known` are estimates of the answers, nan where there are none,
    contours go through tilts `below` these, and `lessons` say how epsilon follows from the bound at
    the tilt where it is best, nan where nothing is known of that.

    `out`, of shape (10, people), has at places with these names: UPPER bound on epsilon or log
    delta; an epsilon to START from; LENGTH of the shortest period; NODES that may be needed; LEVEL,
    the log of the sum that is expected, relative to its first term; ALLOWED, the relative error of
    delta that is as good as the width asked for; TILT, the index of the tilt through which the
    contour goes, -1 if none is needed, -2 if none serves, most often because the tables are too
    coarse; BEST, that of the tilt with the best upper bound; WORK that the contour takes in nodes;
    KNOWN, the estimate of the answer that all this fits, nan if it is for a guess. Without a
    contour that could serve there are UPPER, TILT and BEST alone.
    """
    strides, some = (rows.shape[1] - t.size) // 2, useful.any()
    log_b, values = np.empty(t.size), np.empty(t.size)
    poles = np.log(t) + np.log1p(t)
    for p in range(rows.shape[0]):
        radius = rows[p, :strides]
        k = rows[p, strides : strides + t.size]
        bend = rows[p, strides + t.size :]
        for i in range(t.size):
            less = log_delta if math.isnan(epsilon) else t[i] * epsilon
            log_b[i] = k[i] + peak[i] + 16.0 * EPS * (4.0 + abs(k[i]) - peak[i] + abs(less))
            log_b[i] = log_b[i] if k[i] < UNKNOWN else np.inf
            values[i] = log_b[i] - less
            values[i] = values[i] / t[i] if math.isnan(epsilon) else values[i]
        j = _least(values)
        best = values[j]
        out[UPPER, p] = best
        out[BEST, p] = j
        untouched = k[t.size - 1] == 0.0
        out[TILT, p] = -1.0 if untouched else -2.0
        if not (some or untouched):  # memory that is not needed is not touched
            continue
        out[LENGTH, p], out[NODES, p], out[LEVEL, p] = 1.0, 1.0, 0.0
        out[ALLOWED, p], out[WORK, p], out[KNOWN, p] = rtol, np.inf, known[p]
        if untouched:
            continue
        goal = log_delta
        if math.isnan(log_delta):
            goal = min(best, 0.0) - 2.0
            if known[p] > 0.0:
                goal = min(best, math.log(known[p]))
        goal += log_small
        eps = known[p] if math.isnan(epsilon) else epsilon
        lesson = lessons[j]
        if math.isnan(eps) and best > 0.0 and lesson[0] < np.inf:
            ratio = lesson[2] + (lesson[3] - 1.0) * math.log(best)
            for m in range(BEFORE.size):
                ratio += lesson[4 + m] * math.log(max(k[max(j - BEFORE[m], 0)], 1e-300))
            if lesson[0] <= ratio <= lesson[1]:
                eps = best * math.exp(ratio)
                out[KNOWN, p] = eps
        if math.isnan(eps):  # by the saddle point: images are planned with no larger one
            eps = best
            for m in range(bend.size):
                c = t[m * STRIDE]
                curve = bend[m] + 1.0 / (c * c) + 1.0 / ((c + 1.0) * (c + 1.0))
                value = k[m * STRIDE] - poles[m * STRIDE] - log_delta
                eps = min(eps, (value - 0.5 * math.log(2.0 * math.pi * curve)) / c)
            eps = max(eps, 0.0)
        out[START, p] = eps
        for i in range(t.size):
            values[i] = k[i] - t[i] * eps - poles[i]
        j = _least(values)
        lowest = values[j]
        tolerance = max(rtol * t[j] * eps if math.isnan(epsilon) else rtol, 1e-12)
        out[ALLOWED, p] = tolerance
        error = 0.0
        for i in range(min(j + 2, t.size - 2), max(j - BELOW, -1), -1):
            c, m, level = t[i], i // STRIDE, values[i] - lowest
            if i % STRIDE or not useful[i] or i >= below[p]:
                continue
            if level > (CANCELLATION if out[TILT, p] >= 0.0 else MOST_LOG):
                continue
            length = _period(log_b, t, i, eps, goal)
            fall = max(level, 0.0) - log_small
            need = fall / max(bend[m], 1e-300)
            if m and i > STRIDE:
                stays = fall - _beside(k, t, i, i - STRIDE, bend[m - 1])
                need = max(need, stays / max(bend[m - 1], 1e-300))
            need = length * math.sqrt(2.0 * need) / (2.0 * math.pi)
            off = max(1000.0 * radius[m] / tolerance, away)
            weighed = max(need, 16.0) * (1.0 + off * math.exp(level))
            if weighed < out[WORK, p]:
                out[LENGTH, p], out[NODES, p], out[WORK, p] = length, need, weighed
                share = (goal - log_small) + c * eps - k[i] + poles[i]
                out[LEVEL, p], out[TILT, p] = share + math.log(length), i
                error = radius[m] * math.exp(level)
        if error > COARSE:
            out[TILT, p] = -2.0


@compiled(
    "void(float64[:,::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[::1],"
    " int64[::1])",
    nogil=True,
)
def reach(beyond, y, scale, wanted, most, lost, shell):  # type: ignore[no-untyped-def]
    """Find for each person the last of decreasing frequencies y beyond which little is lost.

    What is lost is scale times the integral of sup |phi| / y^2, `beyond` having the logs of the
    suprema; `wanted` is little, `most` the highest frequency that may be taken. Where nothing is
    little enough that one is found, and `lost` is inf where there is none.
    """
    for p in range(lost.size):
        lost[p], shell[p] = np.inf, 0
        tail, before = 0.0, 0.0
        for m in range(y.size):
            tail += scale[p] * math.exp(min(beyond[p, m], 0.0)) * (1.0 / y[m] - before)
            before = 1.0 / y[m]
            if y[m] <= most[p]:
                if lost[p] < np.inf and tail > wanted[p]:
                    break
                lost[p], shell[p] = tail, m


@subroutine(
    "float64(float64[::1], float64[::1], float64[::1], int64[::1], float64[::1])",
)
def _moved(size, log_phi, growth, band, gamma):  # type: ignore[no-untyped-def]
    """Bound the sum of all |v - w| for |v| = size and |w / v - 1| <= e^error - 1."""
    # error is gamma growth, gamma that of the band of each node; |v| is e^log_phi / growth, and
    # log |w growth| is at most gamma[0].
    large, total = 0, 0.0
    for i in range(size.size):
        error = gamma[band[i + 1]] * growth[i + 1]
        small = min(error, 0.5)
        total += size[i] * small * (1.0 + 0.6 * small)  # expm1(x) <= x (1 + 0.6 x) up to 0.5
        large += error > 0.5
    for i in range(size.size if large else 0):
        error = gamma[band[i + 1]] * growth[i + 1]
        if error > 0.5:  # what was added for it stays
            most = math.exp(min(log_phi[i] + error, gamma[0]))
            total += size[i] + most / growth[i + 1]
    return total


@subroutine(
    "Tuple((int64, float64))(float64[::1], float64[::1], float64, float64[::1], float64[::1],"
    " float64[::1], int64[::1], complex128[::1], float64[:,::1], float64[::1])"
)
def _prepare(row, beside, lost, growth, fade, phase, band, g, work, facts):  # type: ignore[no-untyped-def]
    """Fill w_n and, in `work`, their sizes; what is left out, and errors of tables, become facts.

    Returns how many w_n matter, as the others are left out, and what errors of tables do.
    """
    n, gamma = g.size, beside[1:]
    size, cosine, sine, re, im = work[0], work[1], work[2], row[:n], row[n:]
    facts[LOG_M], facts[NOISE_M] = beside[0], 64.0 * EPS
    exponentials(re, size)
    for i in range(n):
        size[i] *= fade[i + 1]
    error = math.expm1(gamma[0]) + 2.0 * _moved(size, re, growth, band, gamma)
    left, most = 0.0, n
    while most > 1 and left + 2.0 * size[most - 1] <= NEGLIGIBLE * lost:
        most -= 1
        left += 2.0 * size[most]
    for i in range(most):
        im[i] -= phase[i]
    waves(im[:most], cosine, sine)
    for i in range(most):
        g[i] = complex(size[i] * cosine[i], size[i] * sine[i])
    facts[TAIL] = lost * math.exp(gamma[0]) + left + error
    return most, error


@compiled(
    "void(float64[:,::1], float64[:,::1], float64[:,::1], float64[::1], float64[::1],"
    " float64[::1], int64[::1], float64[::1], float64[::1], float64, boolean, boolean,"
    " float64[:,::1])",
    nogil=True,
    makes_arrays=True,
)
def solve(  # type: ignore[no-untyped-def]
    nodes, beside, images, facts, growth, phase, band, lost, start, target, inverse, only, out
):  # fmt: skip
    """Bound epsilon (inverse, from `start`, target a log delta) or delta for a block of people.

    `nodes` and `beside` are products of ledger rows with those of a `ContourTable`, `lost` bounds
    the sum over further nodes, `images` those right of c as `evaluate` has them but for K; `nodes`,
    `images` and `facts` are written to. `out` becomes [lower, estimate, upper, numeric share, share
    of the tables' errors] of each person; the estimate is all of it with `only`.
    """
    h, n, c = 2.0 * math.pi / facts[PERIOD], nodes.shape[1] // 2, facts[C]
    g, fade, nothing = np.empty(n, np.complex128), 1.0 / growth, np.empty(0, np.complex128)
    work, last = np.empty((3, n)), np.zeros(FIRST_B + 1)
    right, slack = images.shape[1], SLACK * (abs(target) + 4.0)
    if only:  # a guess needs no images
        images = np.empty((images.shape[0], 0))
    for p in range(out.shape[0]):
        more = beside[p, right:]
        out[p, :3], out[p, 3:] = np.nan, np.inf
        if not more[more.size - 1] < 1e6 or not lost[p] < np.inf:  # some step has no table here
            continue
        for r in range(images.shape[1]):
            images[1, r] = beside[p, r] if beside[p, r] < UNKNOWN else np.inf
        about = (growth, fade, phase, band, g, work, facts)
        most, tables = _prepare(nodes[p], more, lost[p], *about)
        re, im, size = nodes[p, :most], nodes[p, n : n + most], work[0, :most]
        cap = CAP * (1.0 + start[p]) if inverse else abs(target)
        off = PHASE * TERMS * EPS
        noise, last[BEND] = bounds_on_sum(TERMS, re, im, size, h, 0.0, cap, off, 0.0)
        last[AT], last[NOISE] = np.nan, GUESSED if only else noise
        now = (1.0, g[:most], nothing, last, cap, facts, images)
        if inverse:
            found = root(start[p], target - slack, *now)
            out[p, 1] = max(found[0], 0.0)
            low, middle, high = found[2], found[3], found[4]
        else:
            low, middle, high, _ = evaluate(1.0, target, g[:most], nothing, last, facts, images)
            out[p, :3] = math.exp(low), math.exp(middle), max(math.exp(high), LEAST)
        if not middle > -np.inf:
            continue
        front = more[0] - c * last[AT] + facts[FRONT]
        out[p, 4] = tables * math.exp(min(front - middle, MOST_LOG))
        share = 0.5 * (math.expm1(min(high - middle, MOST_LOG)) - math.expm1(low - middle))
        out[p, 3] = max(share - out[p, 4], 0.0)
        if inverse and not only:
            out[p, 0], out[p, 1], out[p, 2] = sides(found, target - slack, target + slack, *now)
