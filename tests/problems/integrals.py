"""Log delta of hand-written densities by quadrature in balls, with no line of mechc inside.

A continuous pair is two log densities written by hand as functions of a ball x. From them

* `one_step`    integrates (p - e^eps q)_+ between the sign changes,
* `contour`     integrates M(z) = int p (p/q)^z on Re z = c and sums the inversion formula

        delta(eps) = 1/(2 pi i) int M(z) e^(-eps z) / (z (z + 1)) dz

  with so small a step and so far out that neither matters; `contour` repeats itself on another
  contour with another step and insists that both agree.

Every function returns log delta as a float, rounded from about 50 digits.
"""

import math
from itertools import pairwise

from flint import acb, arb
from truth import ball, narrow

NODES = 30  # Gauss-Legendre nodes a piece
NATS = 12.0  # how far log of the integrand, and its phase, may change over one piece
DEPTH = 95.0  # nats below its maximum at which an integrand is dropped

RULE = [arb.legendre_p_root(NODES, i, weight=True) for i in range(NODES)]
RULE = [(x.mid(), w.mid()) for x, w in RULE]
SAMPLE = [-0.97, -0.8, -0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 0.97]


class Pair:
    """Two densities: log_p and log_q of a ball x, with the points where they are not smooth.

    `breaks` are in increasing order, the outermost ones the ends of the common support (or
    infinite); `scale` is a length over which the densities are analytic around any point that is
    not close to a break; `infinite` is P(q = 0).
    """

    def __init__(self, log_p, log_q, breaks, scale, infinite=0.0, minus_infinite=0.0):
        self.log_p, self.log_q = log_p, log_q
        self.breaks, self.scale = breaks, scale
        self.infinite, self.minus_infinite = infinite, minus_infinite

    def reversed(self):
        return Pair(
            self.log_q, self.log_p, self.breaks, self.scale, self.minus_infinite, self.infinite
        )

    def sampled(self, rate):
        """P replaced by the mixture (1 - rate) Q + rate P."""
        rate = ball(rate)

        def log_p(x):
            a, b = self.log_q(x), self.log_p(x)
            top = a if a > b else b
            return top + ((1 - rate) * (a - top).exp() + rate * (b - top).exp()).log()

        # where only Q lives, the mixture lives too: the loss is log(1 - rate) there
        assert not self.infinite and not self.minus_infinite
        return Pair(log_p, self.log_q, self.breaks, self.scale)

    def values(self, x):
        p = self.log_p(x)
        return p, p - self.log_q(x)

    def first_edges(self):
        """Edges graded towards every break and, in a tail, away from all of them."""
        out = set()
        finite = [b for b in self.breaks if math.isfinite(b)] or [0.0]
        for lo, hi in pairwise(self.breaks):
            near = [e for e in (lo, hi) if math.isfinite(e)]
            for e in near or [0.0]:
                for n in range(-60 if near else -1, 60):
                    for side in (-1.0, 1.0):
                        x = e + side * self.scale * 2.0**n
                        if lo < x < hi:
                            out.add(x)
        out.update(finite)
        return sorted(out)


class Divergent(ArithmeticError):
    """The integral does not exist: the tilt lies outside the strip."""


def nodes(pair, tilt, frequency=0.0):
    """Log weights and losses that integrate p exp(zL), Re z = tilt, |Im z| <= frequency."""
    edges = pair.first_edges()
    pending = list(pairwise(edges))
    done, top = [], -math.inf
    while pending:
        judged = []
        for lo, hi in pending:
            a, b = ball(lo), ball(hi)
            middle, half = (a + b) / 2, (b - a) / 2
            psi, phase = [], []
            for s in SAMPLE:
                p, loss = pair.values((middle + half * s).mid())
                value = float(p + tilt * loss)
                psi.append(max(value, -1e15) if value == value else -1e15)
                phase.append(frequency * max(-1e15, min(1e15, float(loss))))
            judged.append((lo, hi, psi, phase, math.log(hi - lo)))
            top = max(top, max(psi) + math.log(hi - lo))
        far = [max(psi) + width for lo, hi, psi, _, width in judged if hi - lo > 1e15 * pair.scale]
        if max(far, default=-math.inf) > top - 1.0:
            raise Divergent(f"tilt {tilt}")
        pending = []
        for lo, hi, psi, phase, width in judged:
            jump = max(abs(u - v) for u, v in pairwise(psi))
            if max(psi) + jump + width < top - DEPTH:
                continue
            swing = max(max(psi) - min(psi), max(phase) - min(phase))
            rough = hi - lo > 1.01 * max(pair.scale, 0.5 * _distance(pair.breaks, lo, hi))
            middle = 0.5 * (lo + hi)
            if (swing > NATS or rough) and lo < middle < hi:
                pending += [(lo, middle), (middle, hi)]
            else:
                done.append((lo, hi, max(psi) + width))
    out = []
    for lo, hi, size in done:
        if size < top - DEPTH:
            continue
        a, b = ball(lo), ball(hi)
        middle, half = (a + b) / 2, (b - a) / 2
        for s, w in RULE:
            p, loss = pair.values((middle + half * s).mid())
            out.append((((p + tilt * loss).exp() * w * half).mid(), loss.mid()))
    return out


def _distance(breaks, lo, hi):
    finite = [b for b in breaks if math.isfinite(b)]
    return min((max(lo - b, b - hi, 0.0) for b in finite), default=0.0) + (hi - lo)


def tilted(pair, tilt):
    """K, K', K'' at a real tilt."""
    table = nodes(pair, tilt)
    m0 = sum((w for w, _ in table), arb(0))
    m1 = sum((w * loss for w, loss in table), arb(0)) / m0
    m2 = sum((w * (loss - m1) ** 2 for w, loss in table), arb(0)) / m0
    return m0.log(), m1, m2


def cumulant(steps, tilt):
    """K, K', K'' of a composition [(pair, count), ...]."""
    parts = [(count, tilted(pair, tilt)) for pair, count in steps]
    return tuple(sum((n * part[i] for n, part in parts), arb(0)) for i in range(3))


def saddle(steps, epsilon, start=1.0):
    """A tilt near the saddle point of exp(K(z) - eps z) / (z (z + 1)), and the curvature there."""
    t, low, high = start, 0.0, math.inf
    for _ in range(60):
        try:
            _, k1, k2 = (float(v) for v in cumulant(steps, t))
        except Divergent:
            high, t = t, 0.5 * (low + t)
            continue
        slope = k1 - epsilon - 1.0 / t - 1.0 / (t + 1.0)
        curve = k2 + t**-2 + (t + 1.0) ** -2
        low, high = (t, high) if slope < 0 else (low, t)
        step = max(-1.5, min(1.5, -slope / (curve * t)))
        if abs(step) < 0.02:
            break
        t *= math.exp(step)
        if not low < t < high:
            t = math.sqrt(max(low, 1e-9) * min(high, 1e9))
    return t, curve


def contour(steps, epsilon, digits=18, limit=3000):
    """Log delta of a composition whose tilted characteristic function decays.

    Two contours with two periods have to agree; what they agree on is returned.
    """
    t, curve = saddle(steps, epsilon)
    first = _bromwich(steps, epsilon, t, curve, digits, limit)
    second = _bromwich(steps, epsilon, 0.93 * t, curve, digits + 2, limit)
    miss = abs(float((first - second) / first))
    assert miss < 10.0 ** (4 - digits), f"contours disagree by {miss:g}"
    return narrow(first + at_infinity(steps))


def at_infinity(steps):
    """1 - prod (1 - P(q = 0))^count."""
    steps = [(ball(p.infinite), n) for p, n in steps if p.infinite]
    if not steps:
        return arb(0)
    return -sum((n * (-d).log1p() for d, n in steps), arb(0)).expm1()


def _bromwich(steps, epsilon, c, curve, digits, limit):
    nats = digits * math.log(10.0)
    k, _, k2 = cumulant(steps, c)
    size = float(k) - c * epsilon - math.log(c * (c + 1.0)) - 0.5 * math.log(2 * math.pi * curve)
    # images: exp(-Tc) on the left; on the right E exp(sL) with a somewhat larger tilt s
    right = math.inf
    for share in (0.2, 0.4, 0.8, 1.6):
        gap = share * math.sqrt(2.0 * nats / curve)
        try:
            above = float(cumulant(steps, c + gap)[0]) - (c + gap) * epsilon
        except Divergent:
            break
        right = min(right, (above - size + nats) / gap)
    period = max((nats - size) / c, right, 4.0 / (1.0 + c))
    h = ball(2.0 * math.pi / period)
    reach = 1.3 * math.sqrt(2.0 * nats / float(k2 + 2 / (1 + c) ** 2))
    total = _trapezoid(steps, epsilon, c, h, reach, digits, limit)
    return (total * (k - ball(c) * ball(epsilon)).exp() * h / arb.pi()).mid()


def _trapezoid(steps, epsilon, c, h, reach, digits, limit):
    """Half the sum over n of M(c + inh) / M(c) exp(-i n h eps) / (z (z + 1))."""
    c, epsilon = ball(c), ball(epsilon)
    total = 1 / (c * (c + 1)) / 2
    n, quiet, tables = 0, 0, []
    while True:
        n += 1
        if not tables or float(h) * n > reach:
            reach = max(reach, 1.0) if not tables else 2.0 * reach
            tables = [_Wheel(pair, count, float(c), h, reach, n) for pair, count in steps]
        z = acb(c, n * h)
        value = acb(0, -n * h * epsilon).exp() / (z * (z + 1))
        for wheel in tables:
            value *= wheel.turn()
        total += value.real
        small = abs(float(value.real / total)) < 10.0 ** (-digits - 3)
        small = small and abs(float(value.imag / total)) < 10.0 ** (-digits - 3)
        quiet = quiet + 1 if small else 0
        if quiet > max(16, n // 3):
            return total
        assert n < limit, "the characteristic function does not decay"


class _Wheel:
    """phi(nh)^count for n = start, start + 1, ..., by multiplying e^(ihL) at every node."""

    def __init__(self, pair, count, c, h, reach, start):
        table = nodes(pair, c, reach)
        total = sum((w for w, _ in table), arb(0))
        self.count = count
        self.turns = [acb(0, h * loss).exp().mid() for _, loss in table]
        self.state = [
            (acb(0, (start - 1) * h * loss).exp() * (w / total)).mid() for w, loss in table
        ]

    def turn(self):
        self.state = [(s * r).mid() for s, r in zip(self.state, self.turns, strict=True)]
        phi = sum(self.state, acb(0)).mid()
        return (phi.log() * self.count).exp()


def one_step(pair, epsilon):
    """Log delta of one step: the integral of (p - e^eps q)_+ between the roots of L = eps."""
    total = ball(pair.infinite)
    edges = pair.first_edges()
    cuts = []
    grid = [e + (f - e) * s for e, f in pairwise(edges) for s in (0.013, 0.31, 0.52, 0.77)]
    signs = [pair.values(ball(x))[1] > epsilon for x in grid]
    for (a, b), (u, v) in zip(pairwise(grid), pairwise(signs), strict=True):
        if u != v:
            cuts.append(_bisect(pair, ball(a), ball(b), u, epsilon))
    points = sorted([*map(ball, edges), *cuts], key=lambda e: (float(e), 0))
    pieces = []
    for a, b in pairwise(points):
        middle = ((a + b) / 2).mid()
        loss = pair.values(middle)[1]
        if a < b and loss > epsilon:
            size = max(float(pair.values(x.mid())[0]) for x in (a, middle, b))
            pieces.append((a, b, size + math.log(float(b - a))))
    floor = max((size for _, _, size in pieces), default=0.0) - DEPTH
    for a, b, _ in pieces:
        total += _integral(pair, a, b, epsilon, floor)
    return narrow(total)


def _bisect(pair, a, b, high_left, epsilon):
    for _ in range(180):
        m = ((a + b) / 2).mid()
        a, b = (m, b) if (pair.values(m)[1] > epsilon) == high_left else (a, m)
    return m


def _integral(pair, a, b, epsilon, floor, depth=0):
    middle, half = ((a + b) / 2).mid(), ((b - a) / 2).mid()
    psi = [float(pair.values((middle + half * s).mid())[0]) for s in SAMPLE]
    if max(psi) + math.log(float(2 * half)) < floor:
        return arb(0)
    if max(psi) - min(psi) > NATS and depth < 40 and max(psi) > min(psi):
        return _integral(pair, a, middle, epsilon, floor, depth + 1) + _integral(
            pair, middle, b, epsilon, floor, depth + 1
        )
    rough = b - a > 1.01 * max(pair.scale, 0.5 * _distance(pair.breaks, float(a), float(b)))
    if rough and depth < 40:
        return _integral(pair, a, middle, epsilon, floor, depth + 1) + _integral(
            pair, middle, b, epsilon, floor, depth + 1
        )
    total = arb(0)
    for s, w in RULE:
        p, loss = pair.values((middle + half * s).mid())
        total += w * half * p.exp() * (1 - (ball(epsilon) - loss).exp())
    return total.mid()
