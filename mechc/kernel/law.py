"""The text of one step's law in an emitted kernel: cumulants, masses, delta, by its own quadrature.

Saddle-point accountants ask a step for its cgf and derivatives, Edgeworth accountants for
cumulants, FFT accountants for masses of cells, all of them for one step's delta. Each is a sum of
positive terms over outputs, of p exp(t L), of q, or of p (1 - exp(epsilon - L)): nothing cancels,
and tails keep their relative accuracy. All outputs of a level are asked at once, so that the text
is numpy around the kernel's array functions, and nothing of it has to be compiled.
"""

from __future__ import annotations

from mechc.protocol import Measure

_OUTPUTS = '''\
def weighed(t, ell, p, q, edges):
    """Losses, logs of p exp(t loss), or of q if t is -1, and the cells of edges they are in."""
    value = q if t == -1.0 else p + (0.0 if t == 0.0 else t * ell)
    return ell, np.where(value < math.inf, value, -math.inf), np.searchsorted(edges, ell)


def outputs(t, x, theta, edges):
    """The same at outputs, an array of any shape."""
    p, q, ell = np.empty((3, x.size))
    log_p_many(x.ravel(), theta, p)
    log_q_many(x.ravel(), theta, q)
    loss_many(x.ravel(), theta, ell)
    return weighed(t, ell.reshape(x.shape), p.reshape(x.shape), q.reshape(x.shape), edges)'''

_START = '''\
@np.errstate(all="ignore")
def nodes(t, edges, theta):
    """Outputs in three arrays: losses, log weights, and cells of the losses.

    Weights sum to E_P[exp(t L)] in each cell, or to Q's mass if t is -1. Cell 0 is all losses up to
    edges[0], cell k those in (edges[k - 1], edges[k]], the last what lies above all edges. {how}
    """
    atom, best, full = atoms(theta), np.full(edges.size + 1, {least}), False
    found = [weighed(t, {loss}, atom[:, 1], atom[:, 2], edges)]
'''

_CONTINUUM = """\
    angle, order = np.arange(25.0) * math.pi / 24.0, np.arange(1.0, 12.0)
    point, share = np.cos(angle), np.where(np.abs(angle - math.pi / 2.0) > 1.5, 1.0, 2.0) / 24.0
    rule = np.cos(2.0 * angle[:, None] * order) @ (2.0 / (4.0 * order * order - 1.0))
    rule = share * (1.0 - np.cos(24.0 * angle) / 575.0 - rule)
    last = share[:, None] * np.cos(angle[:, None] * np.array([23.0, 24.0]))
    for a, b in branches(theta)[:, :2]:
        lo, width = 43.75 * np.arange(-16.0, 16.0), np.full((32, 1), 43.75)
        while lo.size > 0 and not full:
            u = lo[:, None] + 0.5 * width * (1.0 + point)
            far = np.exp(-np.abs(u))
            if b - a < math.inf:  # by logits, by logs of distances from the only end, or by sinh
                part = (b - a) * far / (1.0 + far)
                x = np.where(u < 0.0, a + part, b - part)
                slope = math.log(b - a) - np.abs(u) - 2.0 * np.log1p(far)
            elif a > -math.inf or b < math.inf:
                x, slope = (a + np.exp(u) if a > -math.inf else b - np.exp(u)), u
            else:
                x, slope = np.sinh(u), np.log(np.cosh(u))
            ell, value, cell = outputs(t, x, theta, edges)
            value = value + slope
            peak, same = np.max(value, 1), cell[:, 1:] == cell[:, :-1]
            steps = np.abs(np.diff(np.maximum(value, -1e30)))
            sure = np.minimum(value[:, 1:], value[:, :-1]) + np.log(-0.5 * width * np.diff(point))
            np.maximum.at(best, cell[:, 1:], np.where(same, sure, -math.inf))
            size = peak + np.max(steps, 1) + np.log(width[:, 0]) - np.min(best[cell], 1)
            rough = np.sum(np.abs(np.exp(value - peak[:, None]) @ last), 1)
            fine = (rough < 4e-15 * (1.0 + np.abs(peak))) | (np.log(rough) + size < -37.0)
            fine = fine & np.all(same, 1) | (width[:, 0] < 2e-15 * (1.0 + np.abs(lo)))
            kept, value = (peak > -math.inf) & (size > -60.0), value + np.log(0.5 * width * rule)
            found.append([part[kept & fine].ravel() for part in (ell, value, cell)])
            lo, width = lo[kept & ~fine], 0.5 * width[kept & ~fine]
            lo, width = np.concatenate((lo, lo + width[:, 0])), np.concatenate((width, width))
            full = lo.size > 160000
"""

_INTEGERS = """\
    for a, b in branches(theta)[:, :2]:
        start = a if a > -math.inf else (b if b < math.inf else 0.0)
        for side in (1.0, -1.0):
            x, falls = start + side * np.arange(0.5 - 0.5 * side, 64.0), False
            while not (falls or full) and (x := x[(a <= x) & (x <= b)]).size > 0:
                found.append(outputs(t, x, theta, edges))
                value = found[-1][1]
                np.maximum.at(best, found[-1][2], value)
                falls = value[-1] <= min(value[0], np.min(best) - 60.0)
                x = x[-1] + side * np.arange(1.0, 2.0 * x.size + 1.0)
                full = x.size > 4194304
"""

_END = """\
    if full:
        found.append((best, best + math.nan, np.arange(best.size)))
    return [np.concatenate(part) for part in zip(*found)]"""

_SUMS = '''\
@np.errstate(all="ignore")
def summed(value, cell, cells):
    """Logs of the sums of exp(value) by cell; nan where that took too many outputs."""
    top = np.full(cells, -1e300)
    np.maximum.at(top, cell, value)
    return top + np.log(np.bincount(cell, np.exp(value - top[cell]), cells))


def log_masses(t, edges, theta):
    """Logs of what the losses in cells weigh, see nodes."""
    return np.minimum(summed(*nodes(t, edges, theta)[1:], edges.size + 1), 0.0)


def loss_cdf_p(ell, theta):
    """P(loss <= ell)."""
    return math.exp(log_masses(0.0, np.array([ell]), theta)[0])


def loss_sf_p(ell, theta):
    """P(loss > ell), infinite losses included."""
    return math.exp(log_masses(0.0, np.array([ell]), theta)[1])


def loss_cdf_q(ell, theta):
    """Q(loss <= ell), losses of -inf included."""
    return math.exp(log_masses(-1.0, np.array([ell]), theta)[0])


def loss_sf_q(ell, theta):
    """Q(loss > ell)."""
    return math.exp(log_masses(-1.0, np.array([ell]), theta)[1])


def loss_masses(edges, theta, out):
    """Masses of the cells of rising edges, see nodes, under P and Q: shape (2, edges.size + 1)."""
    out[0], out[1] = np.exp(log_masses(0.0, edges, theta)), np.exp(log_masses(-1.0, edges, theta))


@np.errstate(all="ignore")
def log_delta(epsilon, theta):
    """Log of E_P[(1 - exp(epsilon - loss))_+], the delta of one step."""
    ell, value, cell = nodes(0.0, np.array([epsilon]), theta)
    gain = np.log(-np.expm1(np.minimum(epsilon - ell, 0.0)))
    return min(float(summed(value + gain, cell, 2)[1]), 0.0)


def delta(epsilon, theta):
    """Delta of one step."""
    return math.exp(log_delta(epsilon, theta))


@np.errstate(all="ignore")
def cgf_derivatives(t, theta, out):
    """Write K(t), K'(t), ... for finite losses to out, at a real t; they err by 1e-12 of tilted
    moments about the mean. nan outside the strip; K alone if 0 or -1 is its end."""
    lo, hi = strip(theta)
    out[:] = math.nan
    if not (lo < t < hi or t == 0.0 or t == -1.0):
        return
    ell, value, cell = nodes(t, np.array([-math.inf, 1.7976931348623157e308]), theta)
    ell, value = ell[cell == 1], value[cell == 1]
    out[0] = summed(value, np.zeros(value.size, int), 1)[0]
    if lo < t < hi and out.size > 1:
        seen = value > out[0] - 300.0
        ell, weight = ell[seen], np.exp(value[seen] - out[0])
        weight = weight / np.sum(weight)
        out[1] = weight @ ell
        for k in range(2, out.size):
            out[k] = weight @ (ell - out[1]) ** k
        moments = out.copy()
        for k in range(4, out.size):
            blocks = [math.comb(k - 1, j - 1) * out[j] * moments[k - j] for j in range(2, k - 1)]
            out[k] = moments[k] - sum(blocks)


def cumulants(theta, out):
    """Write the cumulants of orders 1 to 8 of finite losses, under P and Q, to the rows of out."""
    one = np.empty(9)
    for law in range(2):
        cgf_derivatives(0.0 - law, theta, one)
        out[law] = one[1:]


def edgeworth_terms(theta, out):
    """Write Edgeworth's coefficients to out, shape (2, 4, 12), under Q to out[1]: n steps have
    P(S <= m + s y) = Phi(y) - phi(y) sum_r n**(-r/2) sum_j out[0, r - 1, j] He_j(y)."""
    kappa, out[:] = np.empty((2, 8)), 0.0
    cumulants(theta, kappa)
    for law in range(2):
        a, b, c, d = kappa[law, 2:6] / kappa[law, 1] ** np.array([1.5, 2.0, 2.5, 3.0])
        out[law, 0, 2] = a / 6.0
        out[law, 1, [3, 5]] = b / 24.0, a * a / 72.0
        out[law, 2, [4, 6, 8]] = c / 120.0, a * b / 144.0, a**3 / 1296.0
        out[law, 3, [5, 7]] = d / 720.0, b * b / 1152.0 + a * c / 720.0
        out[law, 3, [9, 11]] = a * a * b / 1728.0, a**4 / 31104.0'''

_HALVED = """Branches are mapped
    to the line, cut and halved until the two highest Chebyshev coefficients of 25 points vanish:
    masses are good to some 1e-13."""
_SUMMED = """Integers are
    asked outwards from the end of their branch, until what comes is e^-60 of every cell."""
_BETWEEN = "atom[:, 1] - atom[:, 2]"
_LISTED = "outputs(t, atom[:, 0], theta, edges)[0]"
_NODES = {
    Measure.DENSITY: _START.format(how=_HALVED, least="-math.inf", loss=_BETWEEN) + _CONTINUUM,
    Measure.LATTICE: _START.format(how=_SUMMED, least="-1000.0", loss=_BETWEEN) + _INTEGERS,
    Measure.FINITE: _START.format(how="", least="0.0", loss=_LISTED),
}


def law_text(measure: Measure) -> str:
    """The functions of one step's law, callees first."""
    return "\n\n\n".join((_OUTPUTS, _NODES[measure] + _END, _SUMS))
