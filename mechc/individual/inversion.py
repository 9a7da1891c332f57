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

from mechc.loss.jit import compiled
from mechc.loss.rounding import EPS

STRIDE = 4  # contours go through every fourth tilt, so that there are few
CANCELLATION = 6.0  # nats by which a contour may miss the saddle
NEGLIGIBLE = 0.5  # of what is lost beyond the nodes, that further nodes may be
LANES, AFRESH = 8, 256  # nodes that are summed side by side, and where rotations start afresh
COARSE = 0.5  # share of the sum beyond which table errors leave nothing
BELOW = 18  # tilts below the saddle tried as contour
ABOVE = 14  # tilts above a contour tried for its right images
CLOSE = 1e-6  # nats of delta by which Newton's last step may change the estimate: it squares that
SHORT = 1e-3  # share of a step to a side that is added, so that it seldom falls short
AT = 5  # place of the epsilon that bounds are of


@compiled("float64(float64[::1], float64[::1], int64, float64, float64)", nogil=True)
def _period(log_b, t, i, epsilon, goal):  # type: ignore[no-untyped-def]
    """Return the shortest period at c = t[i] that keeps all images below exp(goal)."""
    right = np.inf
    for r in range(i + 1, min(i + 1 + ABOVE, t.size)):
        image = log_b[r] - t[r] * epsilon - goal
        right = min(right, image / (t[r] - t[i]))
    left = min(-goal / t[i], (epsilon - goal) / (t[i] + 1.0))
    return max(left, right)


@compiled(
    "void(float64[:,::1], float64[::1], float64[::1], float64, float64, float64, float64,"
    " float64[::1], float64[:,::1])",
    nogil=True,
)
def choose(  # type: ignore[no-untyped-def]
    rows, t, peak, log_delta, epsilon, rtol, log_small, known, out
):
    """Bound the answer by Chernoff and choose contour, period and number of nodes per person.

    Contours below the saddle need fewer nodes when few steps matter, and tables are more accurate
    there; both are weighed against cancellation.

    Args:
        rows: for each person the errors of K(t) at every `STRIDE`-th tilt, upper bounds on K(t)
            at all tilts, and K''(t) at every `STRIDE`-th.
        t: the tilts.
        peak: of the payoff there.
        log_delta: log of the delta asked about, or nan.
        epsilon: the epsilon asked about, or nan.
        rtol: relative tolerance.
        log_small: log of the share of delta that images may have.
        known: an estimate of the answer for each person, nan where there is none.
        out: for each person [upper bound on epsilon or log delta, an epsilon to start from,
            period, nodes, log of the sum that is expected, tolerated relative error of delta, index
            of the tilt through which the contour goes, -1 if there is none, -2 if the tables are
            too coarse, index of the tilt with the best upper bound], shape (people, 8).
    """
    strides = (rows.shape[1] - t.size) // 2
    log_b = np.empty(t.size)
    poles = np.log(t) + np.log1p(t)
    for p in range(out.shape[0]):
        radius = rows[p, :strides]
        k = rows[p, strides : strides + t.size]
        bend = rows[p, strides + t.size :]
        best = np.inf
        j = 0
        for i in range(t.size):
            log_b[i] = k[i] + peak[i]
            value = log_b[i] - t[i] * epsilon
            if math.isnan(epsilon):
                value = (log_b[i] - log_delta) / t[i]
            if value < best:
                best = value
                j = i
        out[p, 0] = best
        out[p, 7] = j
        goal = log_delta
        if math.isnan(log_delta):
            goal = min(best, 0.0) - 2.0
            if known[p] > 0.0:
                goal = min(best, math.log(known[p]))
        goal += log_small
        out[p, 2], out[p, 3], out[p, 4], out[p, 5], out[p, 6] = 1.0, 1.0, 0.0, rtol, -1.0
        if k[t.size - 1] == 0.0:  # untouched
            continue
        eps = known[p] if math.isnan(epsilon) else epsilon
        if math.isnan(eps):  # by the saddle point: images are planned with no larger one
            eps = max(best, 0.0)
            for m in range(bend.size):
                c = t[m * STRIDE]
                curve = bend[m] + 1.0 / (c * c) + 1.0 / ((c + 1.0) * (c + 1.0))
                value = k[m * STRIDE] - poles[m * STRIDE] - log_delta
                eps = min(eps, max((value - 0.5 * math.log(2.0 * math.pi * curve)) / c, 0.0))
        out[p, 1] = eps
        lowest = np.inf
        for i in range(t.size):
            value = k[i] - t[i] * eps - poles[i]
            if value < lowest:
                lowest = value
                j = i
        tolerance = max(rtol * t[j] * eps if math.isnan(epsilon) else rtol, 1e-12)
        out[p, 5] = tolerance
        cost = np.inf
        error = 0.0
        for i in range(min(j + 2, t.size - 2), max(j - BELOW, -1), -1):
            c = t[i]
            m = i // STRIDE
            level = k[i] - c * eps - poles[i] - lowest
            if i % STRIDE or (level > CANCELLATION and out[p, 6] >= 0.0):
                continue
            length = _period(log_b, t, i, eps, goal)
            need = length * math.sqrt(2.0 * (max(level, 0.0) - log_small) / max(bend[m], 1e-300))
            need = need / (2.0 * math.pi)
            weighed = max(need, 16.0) * (1.0 + 1000.0 * radius[m] * math.exp(level) / tolerance)
            if weighed < cost:
                cost = weighed
                out[p, 2] = length
                out[p, 3] = need
                share = (goal - log_small) + c * eps - k[i] + poles[i]
                out[p, 4], out[p, 6] = share + math.log(length), i
                error = radius[m] * math.exp(level)
        if error > COARSE:
            out[p, 6] = -2.0


@compiled("void(float64[::1], float64[::1], float64, float64, float64[::1])", nogil=True)
def _series(wr, wi, h, epsilon, out):  # type: ignore[no-untyped-def]
    """Set out = [total, d total / d epsilon]; the number of nodes is a multiple of LANES.

    By a rotation from every LANES-th node to the next, which starts afresh now and then.
    """
    cr, ci = np.empty(LANES), np.empty(LANES)
    total, slope = np.zeros(LANES), np.zeros(LANES)
    rr = math.cos(LANES * h * epsilon)
    ri = -math.sin(LANES * h * epsilon)
    for first in range(0, wr.size, LANES):
        if first % AFRESH == 0:
            for j in range(LANES):
                cr[j] = math.cos((first + j + 1) * h * epsilon)
                ci[j] = -math.sin((first + j + 1) * h * epsilon)
        for j in range(LANES):
            n = first + j
            total[j] += wr[n] * cr[j] - wi[n] * ci[j]
            slope[j] += (n + 1) * (wr[n] * ci[j] + wi[n] * cr[j])
            new = cr[j] * rr - ci[j] * ri
            ci[j] = cr[j] * ri + ci[j] * rr
            cr[j] = new
    out[0] = 1.0 + 2.0 * total.sum()
    out[1] = 2.0 * h * slope.sum()


@compiled("float64(float64, float64, float64, float64)", nogil=True)
def _moved(size, log_size, error, cap):  # type: ignore[no-untyped-def]
    """Bound |v - w| for |v| = size, |w / v - 1| <= e^error - 1 and log |w| <= cap."""
    if error < 0.5:  # expm1(x) <= x (1 + 0.6 x) up to there
        return size * error * (1.0 + 0.6 * error)
    return size + math.exp(min(log_size + error, cap))


@compiled(
    "int64(float64[::1], float64[::1], float64, float64[::1], float64[::1], int64[::1],"
    " float64[::1], float64[::1], float64[::1])",
    nogil=True,
)
def _prepare(row, beside, lost, growth, phase, bands, wr, wi, errors):  # type: ignore[no-untyped-def]
    """Fill w_n; errors = [table error, extra for lower bounds, truncation, rounding] of total.

    Returns how many w_n matter; the others are counted as truncated.
    """
    n = wr.size
    beyond = beside[1]
    gamma = beside[2:]
    errors[0] = math.expm1(gamma[0])
    errors[1] = math.expm1(gamma[0] + beyond) - errors[0]
    errors[3] = EPS * (64.0 + 4.0 * abs(beside[0]))
    band = 0
    for i in range(n):
        if i + 1 == bands[band + 1]:
            band += 1
        re, g = row[i], growth[i + 1]
        phi = math.exp(re)
        wr[i] = phi / g
        error = _moved(phi, re, gamma[band] * g, gamma[0]) / g
        errors[0] += 2.0 * error
        if beyond > 0.0:
            both = _moved(phi, re, (gamma[band] + beyond) * g, gamma[0] + beyond) / g
            errors[1] += 2.0 * max(both - error, 0.0)
    left, most = 0.0, n
    while most > 1 and left + 2.0 * wr[most - 1] <= NEGLIGIBLE * lost:
        most -= 1
        left += 2.0 * wr[most]
    for i in range(most):
        re, im, size = row[i], row[n + i], wr[i]
        turn = im - phase[i]
        wr[i] = size * math.cos(turn)
        wi[i] = size * math.sin(turn)
        errors[3] += 2.0 * EPS * size * (64.0 + 64.0 * abs(re) + 64.0 * abs(im))
    errors[2] = lost * math.exp(gamma[0]) + left
    return most


@compiled("float64(float64, float64, float64, float64, float64)", nogil=True)
def _image(period, c, epsilon, s, log_b):  # type: ignore[no-untyped-def]
    """Bound the right images, sum_{m >= 1} e^{mTc} delta(epsilon + mT), by B_s at one s > c."""
    gap = period * (s - c)
    return math.exp(min(log_b - s * epsilon - gap, 700.0)) / -math.expm1(-gap)


@compiled("int64(float64, float64, float64, float64[::1], float64[::1])", nogil=True)
def _sharpest(period, c, epsilon, s, log_b):  # type: ignore[no-untyped-def]
    """Return which s bounds the right images best near an epsilon."""
    best = 0
    least = np.inf
    for r in range(s.size):
        value = log_b[r] - s[r] * epsilon - period * (s[r] - c)
        if value < least:
            least = value
            best = r
    return best


@compiled("float64(float64, float64)", nogil=True)
def _share(error, total):  # type: ignore[no-untyped-def]
    """Return error / total, inf where nothing is left of the total."""
    return error / total if total > 0.0 and error < np.inf else np.inf


@compiled(
    "void(float64[::1], float64[::1], float64, float64, float64, float64, float64[::1],"
    " float64, float64, float64[::1], float64[::1])",
    nogil=True,
)
def _bounds(wr, wi, c, h, k, epsilon, errors, s, log_b, series, out):  # type: ignore[no-untyped-def]
    """Set out = [lower, estimate, upper, slope, numeric share] of delta(epsilon), and epsilon.

    The slope is that of the estimate.
    """
    out[AT] = epsilon
    period = 2.0 * math.pi / h
    _series(wr, wi, h, epsilon, series)
    front = math.exp(min(k - c * epsilon, 700.0)) / (c * (c + 1.0) * period)
    first = math.exp(-c * period) / -math.expm1(-c * period)
    damped = (c + 1.0) * period
    second = math.exp(min(epsilon - damped, 700.0)) / -math.expm1(-damped)
    known = max(first - second, 0.0)
    right = _image(period, c, epsilon, s, log_b)
    numeric = errors[2] + errors[3] * (1.0 + abs(c * epsilon) + abs(epsilon))
    out[2] = front * (series[0] + errors[0] + numeric) - known
    out[1] = front * series[0] - known
    out[0] = front * (series[0] - errors[0] - errors[1] - numeric) - first - right
    out[3] = front * (series[1] - c * series[0]) + (second if first > second else 0.0)
    out[4] = _share(numeric + (first - known + right) / front, series[0])


@compiled(
    "float64(float64[::1], float64[::1], float64, float64, float64, float64, float64, int64,"
    " float64[::1], float64, float64, float64[::1], float64[::1])",
    nogil=True,
)
def _invert(  # type: ignore[no-untyped-def]
    wr, wi, c, h, k, start, delta, side, errors, s, log_b, series, out
):
    """Solve bound(side)(epsilon) = delta on its safe side; nan where it cannot be done.

    side 2: an epsilon >= 0 whose upper bound is at most delta. side 0: one whose lower bound is
    at least delta, or 0. side 1: the estimate. `out` ends with the bounds at the last epsilon
    looked at; those at the start are taken from there if that is the one.
    """
    epsilon = max(start, 0.0)
    low, high = -1.0, np.inf  # zero itself may be the answer
    for attempt in range(60):
        if epsilon != out[AT]:
            _bounds(wr, wi, c, h, k, epsilon, errors, s, log_b, series, out)
        value = out[side]
        fits = value <= delta if side == 2 else value >= delta
        if side != 1 and fits:
            return epsilon
        if epsilon == 0.0 and value <= delta:
            return 0.0
        if value > delta:
            low = epsilon
        else:
            high = epsilon
        if value > 0.0 and out[1] > 0.0 and out[3] < 0.0:
            move = math.log(delta / value) * out[1] / out[3]
            if side == 1 and c * abs(move) <= CLOSE:
                return max(epsilon + move, 0.0)
            nudge = 1e-14 * (attempt + 1) * (1.0 + epsilon) + SHORT * abs(move)
            epsilon = max(epsilon + move + nudge * (side - 1), 0.0)
        if not low < epsilon < high:  # Newton left the bracket, or had nothing to go by
            epsilon = max(0.5 * (low + high), 0.0) if high < np.inf else 2.0 * low + 0.1
    return epsilon if side == 1 else math.nan


@compiled(
    "void(float64[:,::1], float64[:,::1], float64[::1], float64[::1], float64, float64,"
    " float64[::1], float64[::1], int64[::1], float64[::1], float64[::1], float64, boolean,"
    " boolean, float64[:,::1])",
    nogil=True,
)
def solve(  # type: ignore[no-untyped-def]
    nodes, beside, s, peak, c, period, growth, phase, bands, lost, start, target, inverse, only, out
):
    """Bound epsilon or delta for a block of people.

    Args:
        nodes: log phi at N nodes, real and imaginary parts, shape (people, 2 N).
        beside: products of ledger rows with `ContourTable.beside`.
        s: tilts right of c.
        peak: of the payoff there.
        c: real part of the contour.
        period: of the table.
        growth: of the table.
        phase: of the table.
        bands: of the table.
        lost: bound on the sum over further nodes for each person.
        start: first guess of epsilon (inverse) for each person.
        target: delta (inverse) or epsilon.
        inverse: solve for epsilon, instead of evaluating delta.
        only: the estimate of epsilon is all that is wanted.
        out: [lower, estimate, upper, numeric share, share of the tables' errors] of each person.
    """
    h = 2.0 * math.pi / period
    n = nodes.shape[1] // 2
    vr, vi = np.empty(n + LANES), np.empty(n + LANES)
    errors, series, values = np.empty(4), np.empty(2), np.empty(AT + 1)
    log_b = np.empty(s.size)
    for p in range(out.shape[0]):
        more = beside[p, s.size :]
        if not more[more.size - 1] < 1e6 or not lost[p] < np.inf:  # some step has no table here
            out[p, :3] = np.nan
            out[p, 3:] = np.inf
            continue
        most = _prepare(nodes[p], more, lost[p], growth, phase, bands, vr[:n], vi[:n], errors)
        even = -(-most // LANES) * LANES
        vr[most:even] = vi[most:even] = 0.0
        wr, wi = vr[:even], vi[:even]
        k = more[0]
        for r in range(s.size):
            log_b[r] = beside[p, r] + peak[r]
        near = start[p] if inverse else target
        r = _sharpest(period, c, near, s, log_b)
        image = log_b[r]
        values[AT] = np.nan
        if inverse:
            out[p, 1] = _invert(
                wr, wi, c, h, k, near, target, 1, errors, s[r], image, series, values
            )
        else:
            _bounds(wr, wi, c, h, k, target, errors, s[r], image, series, values)
            out[p, :3] = values[:3]
        out[p, 3] = values[4]
        out[p, 4] = _share(errors[0] + errors[1], series[0])
        for side in (0, 2):
            if inverse and not only:
                out[p, side] = _invert(
                    wr, wi, c, h, k, values[AT], target, side, errors, s[r], image, series, values
                )
