"""Theorem A for many counts on one contour: compiled evaluation and inversion.

The sum for n repetitions is 1 + 2 Re sum_j g_j(n) r^j with g_j(n) = W(z_j) / W(c) phi(jh)^n and
r = exp(ih (n mean - eps)): from one count to the next each g_j takes one multiplication, and a
further epsilon is one more Horner scheme. Between epsilons so close that the remainder is less than
the rounding of the sum, or a hundredth of what is left out, its tangent does: 1e-7 serves, and
sides lie 1e-13 apart.

With losses on a lattice of step eta, a period T that is a multiple of eta, and p = epsilon + gap
the lattice point next above epsilon, all of docs/numerics.md, section 5, comes from two sums that
depend on p alone,

    B = (eta / T) sum_j M(z_j)^n exp(-p z_j) / (1 - exp(-eta (z_j + 1)))    [exp(p) Q(L >= p)],
    D = the same with 1 / (1 - exp(-eta z_j)) - 1 / (1 - exp(-eta (z_j + 1)))    [H(p)],

for H(epsilon) = D + B (1 - exp(-gap)): between lattice points the profile is a closed form, and so
is its inverse. For a smoothed payoff there are two sums as well, of the bound above and of how far
it may be too large (`Blurred`).
"""

from __future__ import annotations

import cmath
import math

import numpy as np

from mechc.accountants.contours.trapezoid import (
    FRONT,
    LOG_M,
    MEAN,
    NOISE_M,
    OFFSET,
    ONE,
    PERIOD,
    STEP,
    STRAYED,
    STRAYED_MOST,
    TAIL,
    UNRESOLVED,
    WITHIN,
    Blurred,
    C,
    Contour,
    Lattice,
    conclude,
    grown,
    moved,
    nearest_image,
)
from mechc.numeric.jit import compiled, subroutine
from mechc.numeric.rounding import EPS
from mechc.protocol import Complexes, Floats

FRESH_COUNTS = 32  # counts between fresh starts of the powers of phi
TURNS = 50  # Newton steps or halvings to the root
OUTWARD, NEWTON = 16, 8  # steps to a certified side, those by Newton's method first
ROOM = 1.012  # lest the width, a little larger where a tangent has been off, takes another step
# Newton stops when the next step would change log delta by less than the square of this, or than a
# share of the width of that, where it is wide
STEADY = 1e-6

NEAR = 0.01  # share of what is left out that the tangent of the sum, or a root, may be off by
BETWEEN_POINTS = 1e-12  # the same between lattice points, where each step is right up to images

# places in `last`: where the sum was taken, it and its derivative by the turn there; two more are
# bounds wherever it is taken: of its rounding, and of half its second derivative by epsilon. On a
# lattice: the point in steps from n offsets, D and B there; and, last, the terms j = 0 of both,
# or of both sums of a smoothed payoff
AT, TOTAL, TURNING, NOISE, BEND, FIRST, FIRST_B = range(7)


@compiled("UniTuple(float64, 2)(float64[::1], float64)")
def horner(g, turn):  # type: ignore[no-untyped-def]
    """Return 1 + 2 Re sum_j g_j r^j, j = 1, 2, ..., r = exp(i turn), and its derivative by turn.

    Two schemes, of the even and of the odd places, in r^2: neither waits for the other. The real
    and imaginary parts of g follow one another: complex numbers take twice as long to compile.
    """
    cosine, sine = math.cos(turn), math.sin(turn)
    x, y = (cosine - sine) * (cosine + sine), 2.0 * sine * cosine
    a, b, c, d = 0.0, 0.0, 0.0, 0.0  # a + ib the value, c + id its derivative by log r^2
    p, q, u, v = 0.0, 0.0, 0.0, 0.0
    last = g.size - g.size % 4
    if last < g.size:
        a, b = g[last], g[last + 1]
    for j in range(last - 4, -1, -4):
        c, d = c + a, d + b
        c, d = c * x - d * y, c * y + d * x
        a, b = a * x - b * y + g[j], a * y + b * x + g[j + 1]
        u, v = u + p, v + q
        u, v = u * x - v * y, u * y + v * x
        p, q = p * x - q * y + g[j + 2], p * y + q * x + g[j + 3]
    # sum_j g_j r^j = r (A + r B), and A, B have their derivatives 2i (c + id), 2i (u + iv)
    x, y = cosine, sine
    p, q = p * x - q * y, p * y + q * x
    u, v = u * x - v * y, u * y + v * x
    value = (a + p) * x - (b + q) * y
    real, imaginary = a + 2.0 * (p + c + u), b + 2.0 * (q + d + v)
    return 1.0 + 2.0 * value, -2.0 * (real * y + imaginary * x)


@compiled("UniTuple(float64, 2)(complex128[::1], complex128[::1], float64, float64, float64)")
def _sums(d, b, d0, b0, turn):  # type: ignore[no-untyped-def]
    """Return d0 + 2 Re sum_j d_j r^j and the same of b, j = 1, 2, ..., r = exp(i turn)."""
    x, y = math.cos(turn), math.sin(turn)
    p, q, u, v = 0.0, 0.0, 0.0, 0.0
    for j in range(d.size - 1, -1, -1):
        p, q = p + d[j].real, q + d[j].imag
        u, v = u + b[j].real, v + b[j].imag
        p, q = p * x - q * y, p * y + q * x
        u, v = u * x - v * y, u * y + v * x
    return d0 + 2.0 * p, b0 + 2.0 * u


@subroutine(
    "UniTuple(float64, 4)(float64, float64, complex128[::1], complex128[::1], float64[::1],"
    " float64[::1], float64[:,::1])",
)
def evaluate(n, epsilon, g, b, last, facts, images):  # type: ignore[no-untyped-def]
    """Return lower bound, estimate and upper bound of log H, and the slope of the estimate.

    Args:
        n: repetitions.
        epsilon: any real number.
        g: see the module, at n; on a lattice the terms of D.
        b: on a lattice the terms of B; of a smoothed payoff those of its excess.
        last: what is known of the sum over g by the names above; written where it is taken anew.
        facts: constants of the contour by the names above.
        images: rows s, K(s), and what else the bound on the right images has, for s > c.
    """
    c, period, grain = facts[C], facts[PERIOD], facts[STEP]
    h, low, middle = 2.0 * math.pi / period, 1.0, 1.0
    if grain > 0.0:
        place = math.floor((epsilon - n * facts[OFFSET]) / grain) + 1.0
        point = n * facts[OFFSET] + place * grain
        gap = max(point - epsilon, 0.0)
        if place != last[AT]:
            turn = h * (n * facts[MEAN] - point)
            last[TOTAL], last[TURNING] = _sums(g, b, last[FIRST], last[FIRST_B], turn)
            last[AT] = place
        total = last[TOTAL] - last[TURNING] * math.expm1(-gap)
        if not (total > 0.0 and last[TURNING] > 0.0):
            return -np.inf, np.nan, np.inf, np.nan
        log_s = n * facts[LOG_M] - c * point + facts[FRONT] + math.log(total)
        chernoff = math.exp(min(50.0, c * gap)) * period / (grain * total)
        mean = n * facts[STRAYED] + 4.0 * EPS * abs(epsilon)
        most = n * facts[STRAYED_MOST] + 4.0 * EPS * abs(epsilon)
        error = (last[NOISE] + facts[TAIL]) / total + moved(c, gap, mean, most, chernoff)
        error += grown(n * facts[UNRESOLVED]) * chernoff + EPS * 4.0 * abs(c * gap)
        slope = -last[TURNING] * math.exp(-gap) / total
    else:
        apart = epsilon - last[AT]
        turn = h * (n * facts[MEAN] - epsilon)
        if b.size or not last[BEND] * apart * apart <= last[NOISE] + NEAR * facts[TAIL]:
            last[TOTAL], last[TURNING] = horner(g.view(np.float64), turn)
            last[AT], apart = epsilon, 0.0
            if b.size:
                last[TOTAL] += last[FIRST] - 1.0
        total = last[TOTAL] - h * last[TURNING] * apart
        if not total > 0.0:
            return -np.inf, np.nan, np.inf, np.nan
        log_s = n * facts[LOG_M] - c * epsilon + facts[FRONT] + math.log(total)
        error = last[NOISE] + last[BEND] * apart * apart + facts[TAIL]
        if facts[UNRESOLVED] > 0.0:  # times Chernoff's bound
            error += grown(n * facts[UNRESOLVED]) * c * (c + 1.0) * period
        if b.size:
            excess = horner(b.view(np.float64), turn)[0] - 1.0 + last[FIRST_B]
            error += grown(n * facts[NOISE_M]) * abs(excess)
            low, middle = 1.0 - max(excess, 0.0) / total, 1.0 - WITHIN * max(excess, 0.0) / total
        error /= total
        slope = -c - h * last[TURNING] / total
    found = conclude(n, epsilon, log_s, low, middle, error, facts, images)
    return found[0], found[1], found[2], (found[3] + slope) / found[4]


@subroutine(
    "UniTuple(float64, 2)(float64, float64[::1], float64[::1], float64[::1], float64, float64,"
    " float64, float64, float64)",
)
def bounds_on_sum(n, re, im, size, h, mean, epsilon, error, share):  # type: ignore[no-untyped-def]
    """Bound the rounding of the sum, and half its second derivative by epsilon.

    The terms have these sizes, for all counts up to n and |eps| <= epsilon; `error` is by how much
    quadrature may be off at every frequency, times all factors but one, whose log is `share` times
    `re`, at most.
    """
    phases, sizes, first, second, off = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(re.size):  # without arrays: people are many
        y = h * (j + 1.0)
        phases += size[j] * (abs(re[j]) + 2.0 * abs(im[j]))
        sizes += size[j]
        off += size[j] * math.exp(-share * re[j])
        first += size[j] * y
        second += size[j] * y * y
    off *= error
    return rounding_of_sum(n, re.size, sizes, first, phases, mean, epsilon, off), second


@subroutine(
    "float64(float64, float64, float64, float64, float64, float64, float64, float64)",
)
def rounding_of_sum(n, nodes, sizes, first, phases, mean, epsilon, off):  # type: ignore[no-untyped-def]
    """Bound the rounding of the sum by what its terms are in size, times y, and times log phi."""
    total = sizes * (16.0 + 4.0 * nodes + 4.0 * FRESH_COUNTS)
    total += n * phases + 2.0 * first * (n * abs(mean) + epsilon)
    return 2.0 * (EPS * total + off)


@subroutine(
    "float64(float64, float64, float64, float64, float64, complex128[::1], complex128[::1],"
    " float64[::1], float64, float64[::1], float64[:,::1])",
)
def _certified(sign, start, step, target, n, g, b, last, cap, facts, images):  # type: ignore[no-untyped-def]
    """Move outward from `start` until the proven side is beyond the target; nan if it never is."""
    # sign 1: an epsilon whose proven upper bound is at most the target; sign -1: one whose proven
    # lower bound exceeds it, or 0.
    for again in range(OUTWARD):
        epsilon = start + sign * step
        if epsilon <= 0.0 and sign < 0.0:
            return 0.0
        if abs(epsilon) > cap:
            return np.nan
        lower, _, upper, slope = evaluate(n, epsilon, g, b, last, facts, images)
        short = upper - target if sign > 0.0 else target - lower
        if short < 0.0 or (short == 0.0 and sign > 0.0):
            return epsilon
        more = ROOM * short / -slope if slope < 0.0 and again < NEWTON else np.inf
        step = max(step + more, 1.02 * step) if more < np.inf else 3.0 * step
    return np.nan


@subroutine(
    "UniTuple(float64, 6)(float64, float64, float64, complex128[::1], complex128[::1],"
    " float64[::1], float64, float64[::1], float64[:,::1])",
)
def root(start, target, n, g, b, last, cap, facts, images):  # type: ignore[no-untyped-def]
    """Find the epsilon >= 0 where the estimate, which falls, meets the target, by Newton's method.

    Inside a bracket, which is halved where a step leaves it or there is nothing to go by. On a
    lattice steps lead to the cell between points; inside it the inverse is explicit, but for the
    images.

    From `start` on, for n repetitions as in `evaluate`; `cap` is the largest epsilon looked at, up
    to which the rounding in `last` is one.

    Returns:
        Epsilon, 0 where the estimate is below the target already and nan where no step led to it;
        how far log H may be off there; and what `evaluate` returns at it or next to it.
    """
    epsilon, off, grain, low, high = max(start, 0.0), np.inf, facts[STEP], -1.0, cap
    lower, middle, upper, slope = -np.inf, np.nan, np.inf, -1.0
    for _ in range(TURNS):
        lower, middle, upper, slope = evaluate(n, epsilon, g, b, last, facts, images)
        excess = middle - target if middle > -np.inf else -np.inf
        if epsilon == 0.0 and excess <= 0.0:
            return 0.0, 0.0, lower, middle, upper, slope
        low, high = (epsilon, high) if excess > 0.0 else (low, epsilon)
        new = epsilon - excess / slope if slope < 0.0 else np.nan
        if grain == 0.0:
            off = excess * excess  # what Newton leaves is of the order of the square of its step
            left = NEAR * min(upper - lower, STEADY)
            if off < max(left, STEADY * STEADY) and slope < 0.0:
                return max(new, 0.0), off, lower, middle, upper, slope
        else:
            off = abs(excess)
            if off < BETWEEN_POINTS:
                return epsilon, off, lower, middle, upper, slope
            # H = D + B (1 - exp(-gap)) is to change by the factor exp(-excess)
            growth = math.expm1(-excess) / -slope
            inside = epsilon + math.log1p(-growth) if growth < 1.0 else -np.inf
            point = n * facts[OFFSET] + last[AT] * grain
            if point - grain <= inside <= point:
                new = inside  # up to what images change
            else:  # at least to the next cell
                new = max(new, point) if inside > point else min(new, point - grain)
        new = max(new, 0.0)
        epsilon = new if low < new < high else max(0.5 * (low + high), 0.0)
    return np.nan, off, lower, middle, upper, slope


@subroutine(
    "UniTuple(float64, 3)(UniTuple(float64, 6), float64, float64, float64, complex128[::1],"
    " complex128[::1], float64[::1], float64, float64[::1], float64[:,::1])",
)
def sides(found, low, high, n, g, b, last, cap, facts, images):  # type: ignore[no-untyped-def]
    """Return a lower bound, the root and an upper bound of an epsilon >= 0, nan where not.

    From what `root` has found; log H is to stay under `low`, and to exceed `high`.
    """
    epsilon, off, lower, middle, upper, slope = found
    at = (n, g, b, last, cap, facts, images)
    off += 4.0 * EPS * abs(slope * epsilon) + 1e-14
    if epsilon <= 0.0:
        lower, middle, upper, slope = evaluate(n, 0.0, g, b, last, facts, images)
        if upper <= low:
            return 0.0, 0.0, 0.0
        return 0.0, 0.0, _certified(1.0, 0.0, ROOM * (upper - low + off) / -slope, low, *at)
    above = ROOM * (upper - middle + off) / -slope
    below = abs(ROOM * (middle - lower + off + low - high) / -slope)
    most = _certified(1.0, epsilon, above, low, *at)
    return _certified(-1.0, epsilon, below, high, *at), epsilon, most


@subroutine(
    "void(float64, float64[::1], float64[::1], complex128[::1], complex128[::1], complex128[::1],"
    " complex128[::1], float64[::1])"
)
def _terms(n, re, im, w, v, g, b, size):  # type: ignore[no-untyped-def]
    """Write the terms of the sums at n, and what they are in size together."""
    for j in range(re.size):  # arrays would take numba two seconds longer to compile
        wave = cmath.exp(complex(n * re[j], n * im[j]))
        g[j] = w[j] * wave
        size[j] = abs(g[j])
        if v.size:
            b[j] = v[j] * wave
            size[j] += abs(b[j])


@compiled(
    "void(float64[::1], float64[:,::1], float64, float64[::1], float64[::1], complex128[::1],"
    " complex128[::1], float64[::1], float64[::1], float64[:,::1], float64[::1], float64,"
    " float64[:,::1])",
    makes_arrays=True,
)
def invert(  # type: ignore[no-untyped-def]
    counts, targets, guess, re, im, w, v, last, facts, images, known, widest, out
):
    """Write lower bound, estimate, upper bound of epsilon(delta) at each count, nan where not."""
    # See `epsilons` and `evaluate`. `re` and `im` are log phi of one repetition at h, 2h, ..., w is
    # W(z_j) / W(c) there, or the weights of D, v those of B, none without a lattice. Where the
    # proven delta is on target at an epsilon that is known nothing more is computed: that is the
    # answer, with lower bound 0. A relative width of delta beyond `widest` is no answer.
    h, mean, first = 2.0 * math.pi / facts[PERIOD], facts[MEAN], abs(last[FIRST])
    first += abs(last[FIRST_B])
    g, power = np.empty(re.size, np.complex128), np.empty(re.size, np.complex128)
    b, size = np.empty(v.size, np.complex128), np.empty(re.size)
    gap, stale, cap = 0.0, 0, 0.0
    streak = 0  # counts in a row that have been solved
    for m in range(counts.size):
        n = counts[m]
        out[:, m] = np.nan
        if streak >= 3 and n - counts[m - 3] == 3.0 * gap:
            start = 3.0 * out[1, m - 1] - 3.0 * out[1, m - 2] + out[1, m - 3]
        else:
            start = out[1, m - 1] if streak else guess
        fresh = n - counts[m - 1] if m else 0.0
        if fresh != gap or stale == 0 or start > 0.5 * cap:
            if fresh != gap:
                gap = fresh
                for j in range(re.size):
                    power[j] = cmath.exp(gap * complex(re[j], im[j]))
            _terms(n, re, im, w, v, g, b, size)
            most = counts[min(m + FRESH_COUNTS, counts.size - 1)]
            stale, cap = FRESH_COUNTS, 4.0 * abs(start) + 1.0
            error, reach = 2.0 * grown(most * facts[NOISE_M]), cap + facts[STEP]
            share = facts[ONE]
            noise, last[BEND] = bounds_on_sum(most, re, im, size, h, mean, reach, error, share)
            last[NOISE] = noise + 4.0 * EPS * first
        else:
            stale -= 1
            for j in range(re.size):
                g[j] *= power[j]
                if v.size:
                    b[j] *= power[j]
        last[AT] = np.nan
        if known[m] >= 0.0 and known[m] <= cap:
            _, _, upper, _ = evaluate(n, known[m], g, b, last, facts, images)
            if upper <= targets[0, m]:
                out[0, m], out[1, m], out[2, m] = 0.0, known[m], known[m]
                streak, guess = 0, known[m]
                continue
        now = (n, g, b, last, cap, facts, images)
        found = root(start, targets[0, m], *now)
        solved, streak = streak + 1, 0
        if not (math.isfinite(found[0]) and found[4] - found[2] <= widest):
            continue
        out[0, m], out[1, m], out[2, m] = sides(found, targets[0, m], targets[1, m], *now)
        streak = solved if found[0] > 0.0 else 0


def epsilons(
    contour: Contour | Blurred,
    n: float,
    counts: Floats,
    targets: Floats,
    near: float,
    known: Floats,
    widest: float = np.inf,
) -> Floats:
    """Return lower side, root and upper side of log H = target for rows on one contour.

    Args:
        contour: for n repetitions.
        n: the repetitions that it was laid for.
        counts: those of the rows, at least n, increasing.
        targets: logs to stay under, and to exceed, shape (2, rows).
        near: an epsilon near that of the first row.
        known: for each count an epsilon that is the answer if delta is on target there, or nan.
        widest: relative width of delta beyond which there is no answer.

    Returns:
        Shape (3, rows), nan where the contour does not serve.
    """
    out = np.full((3, counts.size), np.nan)
    smoothed = contour if isinstance(contour, Blurred) else None
    contour = contour.contour if isinstance(contour, Blurred) else contour
    facts, images = contour.facts(n), contour.images(n)
    last = np.array([math.nan, *(0.0,) * FIRST_B])
    z = np.asarray(contour.c + 1j * contour.h * np.arange(contour.nodes + 1.0), np.complex128)
    left_out = contour.decay * contour.payoff.size(contour.c) * contour.period / math.pi
    if isinstance(contour.payoff, Lattice):
        step = contour.payoff.step
        facts[OFFSET], facts[STEP] = contour.payoff.offset / n, step
        facts[FRONT] = math.log(step / contour.period)
        w, v = contour.payoff.parts(z)
        last[FIRST], last[FIRST_B] = w[0].real, v[0].real
        facts[TAIL], v = 2.0 * left_out / step, v[1:]  # of D and B, each of which `size` bounds
    else:
        start = contour.weight(0.0)
        w, v = contour.payoff.transform(z, 0.0) / start, np.empty(0, np.complex128)
        facts[TAIL] = left_out / start
    if smoothed is not None:
        w, v, facts[TAIL] = smoothed.weights(z)
        last[FIRST], last[FIRST_B], v = w[0].real, v[0].real, v[1:]
        images[2] += smoothed.growth(images[0])
    re, im = contour.re / n, contour.im / n
    about = re, im, w[1:], v, last, facts, images, known, widest, out
    if counts.size == 1 and not known[0] >= 0.0:
        try:  # not worth the compilation of all that follows from one sum
            row = float(counts[0]), targets[:, 0].tolist(), near, *about[:-3], widest
            out[:, 0] = _one_row(*row)
            return out
        except (ArithmeticError, ValueError):
            out[:] = np.nan
    invert(counts, targets, near, *about)
    return out


@np.errstate(all="ignore")
def _one_row(
    n: float, targets: list[float], near: float, re: Floats, im: Floats, w: Complexes,
    v: Complexes, last: Floats, facts: Floats, images: Floats, widest: float,
) -> tuple[float, float, float]:  # fmt: skip
    """The same as `invert` of one row, by Python and NumPy."""
    wave = np.exp(n * re + 1j * (n * im))
    g, b, known, cap = w * wave, v * wave[: v.size], facts.tolist(), 4.0 * abs(near) + 1.0
    size = np.abs(g)
    if v.size:
        size += np.abs(b)
    y = 2.0 * math.pi / known[PERIOD] * np.arange(1.0, re.size + 1.0)
    sizes, first = float(np.add.reduce(size)), float(np.add.reduce(size * y))
    last[BEND] = np.add.reduce(size * y * y)
    phases = float(np.add.reduce(size * (np.abs(re) + 2.0 * np.abs(im))))
    error, reach = 2.0 * grown(n * known[NOISE_M]), cap + known[STEP]
    off = error * float(np.add.reduce(size * np.exp(-known[ONE] * re)))
    noise = rounding_of_sum(n, re.size, sizes, first, phases, known[MEAN], reach, off)
    last[NOISE] = noise + 4.0 * EPS * (abs(last[FIRST]) + abs(last[FIRST_B]))
    # all of which are bounds: that for an epsilon nearby will do
    at = n, g, b, last.tolist(), cap, known, nearest_image(n, near, images)
    found = root(near, targets[0], *at)
    fits = math.isfinite(found[0]) and found[4] - found[2] <= widest
    return sides(found, *targets, *at) if fits else (math.nan,) * 3
