"""The text of one step's law in an emitted kernel: cumulants, masses, delta, by its own quadrature.

Saddle-point accountants ask a step for its cgf and derivatives, Edgeworth accountants for
cumulants, FFT accountants for masses of cells, all of them for one step's delta. Each is a sum of
positive terms over outputs, of p exp(t L), of q, or of p (1 - exp(epsilon - L)): nothing cancels,
and tails keep their relative accuracy. Branches of a continuum are mapped to the line, their ends
to infinity, and cut until the two highest Chebyshev coefficients of 25 points vanish; halving finds
the levels of the loss as well. Integers are summed outwards from the end of their branch, a finite
set is listed.

Masses and deltas are good to some 1e-13 relative, K to that absolutely, cumulants to 1e-12 of
tilted moments. At a pole next to an output that is not 0, doubles hide what lies within its last
place; sums of more than four million terms are nan.
"""

from __future__ import annotations

from typing import NamedTuple

from mechc.protocol import Measure


class Part(NamedTuple):
    """One function of the text: its numba signature and its source."""

    signature: str
    source: str


_WEIGHT = '''\
float64(float64, float64, float64, float64[::1])
def weight(p, q, ell, ask):
    """Log of what an output of log densities p, q and loss ell adds to a sum: p exp(t ell), or q if
    t is -1, where low < ell <= high, for ask = (t, low, high, payoff, power, size); times
    1 - exp(low - ell) if there is a payoff, times 1 + |ell / size|**power if there is a power."""
    t, low, high, power = ask[0], ask[1], ask[2], ask[4]
    if not (low < ell <= high or ell == low == -math.inf):
        return -math.inf
    value = p if t == 0.0 else (q if t == -1.0 else p + t * ell)
    if ask[3] > 0.0:
        value += math.log(-math.expm1(low - ell))
    if power > 0.0:
        value += math.log1p(math.pow(math.fabs(ell) / ask[5], power))
    return value if value < math.inf else -math.inf'''

_START = '''\
float64[:, ::1](float64[::1], float64[::1])
def nodes(ask, theta):
    """Rows (loss, log weight) of outputs, see weight, that sum to what is asked."""
    atom, rows = atoms(theta), np.empty((4096, 2))
    n = atom.shape[0]
    for i in range(n):
        ell = {loss}
        rows[i, 0], rows[i, 1] = ell, weight(atom[i, 1], atom[i, 2], ell, ask)
'''

_PLACES = '''\
float64[:, ::1]()
def rule():
    """Clenshaw and Curtis' 25 points on (-1, 1): places, weights, and weights of the two highest
    Chebyshev coefficients."""
    out = np.empty((25, 4))
    for i in range(25):
        share, angle = (0.5 if i % 24 == 0 else 1.0) / 12.0, math.pi * i / 24.0
        out[i, 0], out[i, 1] = math.cos(angle), share * (1.0 - math.cos(24.0 * angle) / 575.0)
        for j in range(1, 12):
            out[i, 1] -= 2.0 * share * math.cos(2.0 * j * angle) / (4.0 * j * j - 1.0)
        out[i, 2], out[i, 3] = share * math.cos(23.0 * angle), share * math.cos(24.0 * angle)
    return out

void(float64, float64, float64[::1], float64[::1], float64[:, ::1], float64[:, ::1], float64[::1])
def sample(lo, hi, row, ask, points, out, theta):
    """Write loss, log weight, and that at any loss, at 25 points between lo and hi of the line to
    which a branch is mapped: by logits, by logs of distances from its only end, or by sinh."""
    a, b, free = row[0], row[1], np.array([ask[0], -math.inf, math.inf, 0.0, ask[4], ask[5]])
    for i in range(25):
        u = 0.5 * (lo + hi) + 0.5 * (hi - lo) * points[i, 0]
        far = math.exp(-math.fabs(u))
        if b - a < math.inf:
            x = a + (b - a) * far / (1.0 + far) if u < 0.0 else b - (b - a) * far / (1.0 + far)
            slope = math.log(b - a) - math.fabs(u) - 2.0 * math.log1p(far)
        elif a > -math.inf or b < math.inf:
            x, slope = (a + math.exp(u) if a > -math.inf else b - math.exp(u)), u
        else:
            x, slope = math.sinh(u), math.log(math.cosh(u))
        p, q, ell = log_p(x, theta), log_q(x, theta), loss(x, theta)
        out[i, 0], out[i, 1] = ell, weight(p, q, ell, ask) + slope
        out[i, 2] = max(weight(p, q, ell, free) + slope, -1e30)'''

_CONTINUUM = '''\
    points, table, best = rule(), branches(theta), -math.inf  # what is surely there
    out, todo = np.empty((25, 3)), np.empty((160, 2))
    for i in range(table.shape[0]):
        for j in range(32):
            todo[j, 0], todo[j, 1] = 43.75 * (j - 16.0), 43.75 * (j - 15.0)
        k, start, end, peak = 0, 0.0, 0.0, -math.inf
        for j in range(48):  # the largest weight of 32 cells, then of smaller and smaller ones
            lo, hi = (todo[j, 0], todo[j, 1]) if j < 32 else (start, end)
            sample(lo, hi, table[i], ask, points, out, theta)
            for m in range(25):
                k = m if m == 0 or out[m, 1] > out[k, 1] else k
            after, before, half = min(k + 1, 24), max(k - 1, 0), 0.5 * (hi - lo)
            if out[k, 1] > peak or j >= 32:
                peak, start = out[k, 1], 0.5 * (lo + hi) + half * points[after, 0]
                end = 0.5 * (lo + hi) + half * points[before, 0]
                for m in (before, after):
                    width = math.fabs(points[k, 0] - points[m, 0]) * half
                    best = max(best, out[m, 1] + math.log(width)) if width > 0.0 else best
        k = 32
        while k > 0 and n < 4194304:  # halves of cells, until they are smooth or matter little
            k -= 1
            lo, hi, least, most = todo[k, 0], todo[k, 1], 0.0, 0.0
            peak, top, bound = -math.inf, -math.inf, -math.inf
            sample(lo, hi, table[i], ask, points, out, theta)
            for m in range(25):
                here, before, after = out[m, 2], out[max(m - 1, 0), 2], out[min(m + 1, 24), 2]
                bound = max(bound, here + max(math.fabs(here - before), math.fabs(here - after)))
                if out[m, 1] > -math.inf:
                    peak, top = max(peak, out[m, 1]), max(top, here)
                ell = out[m, 0]
                least, most = (min(least, ell), max(most, ell)) if m > 0 else (ell, ell)
            crossed = peak > -math.inf or (least <= ask[1] and most > ask[2])
            share = bound + math.log(hi - lo) - best
            if ask[3] > 0.0 and most > ask[1]:
                share += math.log(-math.expm1(ask[1] - most))
            if not crossed or share < -50.0:
                continue
            total, first, second = 0.0, 0.0, 0.0
            for m in range(25):
                term = math.exp(out[m, 1] - peak) if out[m, 1] > -math.inf else 0.0
                total += term * points[m, 1]
                first, second = first + term * points[m, 2], second + term * points[m, 3]
            rough, noise = math.fabs(first) + math.fabs(second), 1e-12 + 4e-15 * math.fabs(peak)
            if ask[3] > 0.0:  # payoffs are differences
                noise += min(4e-15 * math.fabs(ask[1]) * math.exp(top - peak), 1e-5)
            smooth = rough < noise or math.log(rough) + share < -37.0
            mid, half = 0.5 * (lo + hi), 0.5 * (hi - lo)
            if peak > -math.inf and smooth or half < 1e-15 * (1.0 + math.fabs(mid)):
                best = max(best, peak + math.log(half * total))
                if n + 25 > rows.shape[0]:
                    rows = np.concatenate((rows, rows))
                for m in range(25):
                    rows[n + m, 0] = out[m, 0]
                    rows[n + m, 1] = out[m, 1] + math.log(half * points[m, 1])
                n += 25
            else:
                todo[k, 0], todo[k, 1], todo[k + 1, 0], todo[k + 1, 1], k = lo, mid, mid, hi, k + 2
    if n >= 4194304:
        rows[0, 1] = math.nan
    return rows[:n]'''

_INTEGERS = '''\
    table, free = branches(theta), np.array([ask[0], -math.inf, math.inf, 0.0, 0.0, 1.0])
    for i in range(table.shape[0]):
        a, b = table[i, 0], table[i, 1]
        start = a if a > -math.inf else (b if b < math.inf else 0.0)
        for side in range(2):
            x, top, last, here = start - side, -1000.0, 0.0, 0.0
            while a <= x <= b and n < 4194304 and not here <= min(last, top - 60.0 - 5.0 * ask[4]):
                p, q, ell = log_p(x, theta), log_q(x, theta), loss(x, theta)
                last, here, value = here, weight(p, q, ell, free), weight(p, q, ell, ask)
                x += 1.0 - 2.0 * side
                if value > -math.inf:
                    if n == rows.shape[0]:
                        rows = np.concatenate((rows, rows))
                    rows[n, 0], rows[n, 1], n, top = ell, value, n + 1, max(top, value)
    if n >= 4194304:
        rows[0, 1] = math.nan
    return rows[:n]'''

_SUMS = '''\
float64(float64, float64, float64, float64, float64[::1])
def log_mass(t, low, high, payoff, theta):
    """Log of all weights with low < loss <= high, see weight; nan if that takes too many."""
    rows, top, total = nodes(np.array([t, low, high, payoff, 0.0, 1.0]), theta), -math.inf, 0.0
    for i in range(rows.shape[0]):
        top = max(top, rows[i, 1])
    if top == -math.inf:
        return top
    for i in range(rows.shape[0]):
        total += math.exp(rows[i, 1] - top)
    return min(top + math.log(total), 0.0)

float64(float64, float64[::1])
def loss_cdf_p(ell, theta):
    """P(loss <= ell)."""
    return math.exp(log_mass(0.0, -math.inf, ell, 0.0, theta))

float64(float64, float64[::1])
def loss_sf_p(ell, theta):
    """P(loss > ell), infinite losses included."""
    return math.exp(log_mass(0.0, ell, math.inf, 0.0, theta))

float64(float64, float64[::1])
def loss_cdf_q(ell, theta):
    """Q(loss <= ell), losses of -inf included."""
    return math.exp(log_mass(-1.0, -math.inf, ell, 0.0, theta))

float64(float64, float64[::1])
def loss_sf_q(ell, theta):
    """Q(loss > ell)."""
    return math.exp(log_mass(-1.0, ell, math.inf, 0.0, theta))

void(float64[::1], float64[::1], float64[:, ::1])
def loss_masses(edges, theta, out):
    """Masses under P and Q, the rows of out, of losses up to edges[0], then in (edges[j - 1],
    edges[j]], last above all edges, infinite losses included: shape (2, edges.size + 1)."""
    for j in range(edges.size + 1):
        low = edges[j - 1] if j > 0 else -math.inf
        high = edges[j] if j < edges.size else math.inf
        out[0, j] = math.exp(log_mass(0.0, low, high, 0.0, theta))
        out[1, j] = math.exp(log_mass(-1.0, low, high, 0.0, theta))

float64(float64, float64[::1])
def log_delta(epsilon, theta):
    """Log of E_P[(1 - exp(epsilon - loss))_+], the delta of one step."""
    return log_mass(0.0, epsilon, math.inf, 1.0, theta)

float64(float64, float64[::1])
def delta(epsilon, theta):
    """Delta of one step."""
    return math.exp(log_delta(epsilon, theta))

void(float64, float64[::1], float64[::1])
def cgf_derivatives(t, theta, out):
    """Write K(t), K'(t), ... for finite losses to out, at most 9 of them, at a real t. They err by
    1e-12 of tilted moments about the mean. nan outside the strip; K alone if 0 or -1 is its end."""
    ends, moments = strip(theta), np.empty(out.size)
    known = ends[0] < t < ends[1]
    if not (known or t == 0.0 or t == -1.0):
        for k in range(out.size):
            out[k] = math.nan
        return
    ask = np.array([t, -math.inf, math.inf, 0.0, 1.0, math.inf])
    for _ in range(2):  # first for the size of the losses
        rows, top, total, mean, square = nodes(ask, theta), -math.inf, 0.0, 0.0, 0.0
        for i in range(rows.shape[0]):
            top = max(top, rows[i, 1])
        for i in range(rows.shape[0]):
            ell = rows[i, 0] if rows[i, 1] > -math.inf else 0.0
            term = math.exp(rows[i, 1] - top) / (1.0 + math.pow(math.fabs(ell) / ask[5], ask[4]))
            ell = ell if term > 0.0 else 0.0
            rows[i, 0], rows[i, 1], total = ell, term, total + term
            mean, square = mean + term * ell, square + term * ell * ell
        ask[4], ask[5] = out.size - 1.0, max(math.sqrt(square / total), 1e-300)
    for k in range(out.size):
        moments[k], ways = 0.0, k - 1.0
        for i in range(rows.shape[0]):
            moments[k] += rows[i, 1] / total * math.pow(rows[i, 0] - mean / total, k)
        out[k] = moments[k]
        for j in range(2, k - 1):  # ways: how many of k - 1 are with the first one in a block of j
            out[k] -= ways * out[j] * moments[k - j]
            ways *= (k - j) / j
    out[0], out[1] = top + math.log(total), mean / total
    for k in range(1 if not known else out.size, out.size):
        out[k] = math.nan

void(float64[::1], float64[:, ::1])
def cumulants(theta, out):
    """Write the cumulants of orders 1 to 8 of finite losses, under P and Q, to the rows of out."""
    one = np.empty(9)
    for law in range(2):
        cgf_derivatives(0.0 - law, theta, one)
        for k in range(8):
            out[law, k] = one[k + 1]

void(float64[::1], float64[:, :, ::1])
def edgeworth_terms(theta, out):
    """Write Edgeworth's coefficients to out, shape (2, 4, 12), under Q to out[1]: n steps have
    P(S <= m + s y) = Phi(y) - phi(y) sum_r n**(-r/2) sum_j out[0, r - 1, j] He_j(y)."""
    kappa = np.empty((2, 8))
    cumulants(theta, kappa)
    for law in range(2):
        s = math.sqrt(kappa[law, 1])
        a, b = kappa[law, 2] / math.pow(s, 3.0), kappa[law, 3] / math.pow(s, 4.0)
        c, d = kappa[law, 4] / math.pow(s, 5.0), kappa[law, 5] / math.pow(s, 6.0)
        for r in range(4):
            for j in range(12):
                out[law, r, j] = 0.0
        out[law, 0, 2] = a / 6.0
        out[law, 1, 3], out[law, 1, 5] = b / 24.0, a * a / 72.0
        out[law, 2, 4], out[law, 2, 6] = c / 120.0, a * b / 144.0
        out[law, 2, 8] = a * a * a / 1296.0
        out[law, 3, 5], out[law, 3, 7] = d / 720.0, b * b / 1152.0 + a * c / 720.0
        out[law, 3, 9], out[law, 3, 11] = a * a * b / 1728.0, a * a * a * a / 31104.0'''

_ATOMS = "atom[i, 1] - atom[i, 2]"
_NODES = {
    Measure.DENSITY: f"{_PLACES}\n\n{_START.format(loss=_ATOMS)}{_CONTINUUM}",
    Measure.LATTICE: f"{_START.format(loss=_ATOMS)}{_INTEGERS}",
    Measure.FINITE: f"{_START.format(loss='loss(atom[i, 0], theta)')}    return rows[:n]",
}


def parts(measure: Measure) -> list[Part]:
    """The functions of one step's law, callees first.

    Args:
        measure: where the pair has its mass.
    """
    texts = "\n\n".join((_WEIGHT, _NODES[measure], _SUMS)).split("\n\n")
    return [Part(*text.split("\n", 1)) for text in texts]
