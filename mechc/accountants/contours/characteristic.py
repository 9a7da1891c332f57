"""The tilted characteristic function of a composed privacy loss, and a proof that it decays.

For a contour Re z = c let L~ be the loss under exp(cL - K(c)) dP. Then M(c+iy)/M(c) =
E exp(iy L~) =: phi(y), a product over the steps. With D = L~ - L~' (an independent copy)

    g(y) := 1 - |phi(y)|^2 = 2 E sin^2(yD/2),   so   sqrt g(y+d) >= sqrt g(y) - sqrt g(d),

because |sin a| <= |sin(a+b)| + |sin b| and by Minkowski's inequality in L2, and g(d) <= d^2 Var L~.
A few evaluations therefore bound |phi| on whole intervals, whose length grows with y; revivals
cannot hide between them. Far out the total variation of the tilted density takes over: writing
the density on a branch as min(f, G) + (f - G)_+,

    |phi(y)| <= (mass of atoms) + sum_branches [ TV(min(f, G)) / y + int (f - G)_+ ]

for every level G, which also covers the |l - l*|^(-1/2) singularity at an extremum of the loss.

log phi at equidistant frequencies follows by a recurrence that is started afresh in time. Sums of
waves for proofs of decay go through the vector units of the processor (`moments.waves`).
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.contours import gridding
from mechc.accountants.contours.law import Law
from mechc.loss.moments import exponentials, waves
from mechc.loss.quadrature import TURN
from mechc.loss.quadrature.rule import DERIVATIVE, ENDS, ORDER, TOP
from mechc.numeric.allowance import spend
from mechc.numeric.jit import compiled, subroutine
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import Floats, Integers

# (sin x - x) / x^3 in x^2, the highest term first; |x| < 1/2, remainder 1e-18
_SINE = np.array([(-1.0) ** n / math.factorial(2 * n + 1) for n in range(7, 0, -1)])
BLOCK = 32  # frequencies that the recurrence for exp(i n theta) runs through in a row
FRESH = 1024  # frequencies between fresh starts of the recurrence from block to block
TILE = 256  # nodes whose recurrences fit the first cache together
LANES = 8  # of a sum that are added up side by side


@subroutine("float64(float64)")
def _sin_excess(x):  # type: ignore[no-untyped-def]
    """Return sin(x) - x to full relative accuracy."""
    if abs(x) > 0.5:
        return math.sin(x) - x
    q = x * x
    series = 0.0
    for n in range(_SINE.size):
        series = series * q + _SINE[n]
    return x * q * series


@subroutine("void(float64[::1], int64, float64[:,::1])")
def _turn(theta, n, out):  # type: ignore[no-untyped-def]
    """Rows cos(n theta) - 1, sin(n theta) - n theta and sin(n theta)."""
    for j in range(theta.size):
        angle = n * theta[j]
        s = math.sin(0.5 * angle)
        out[0, j] = -2.0 * s * s
        out[1, j] = _sin_excess(angle)
        out[2, j] = out[1, j] + angle


@subroutine("void(float64[::1], int64, float64[:,::1], float64[:,::1])")
def _further(theta, n, now, step):  # type: ignore[no-untyped-def]
    """Turn the first two rows at n theta by the angles of `step`."""
    for j in range(theta.size):
        c, c1, sine1 = now[0, j], step[0, j], step[2, j]
        sine = now[1, j] + n * theta[j]
        now[0, j] = c + c1 + c * c1 - sine * sine1
        now[1, j] = now[1, j] + step[1, j] + c * sine1 + sine * c1


def log_phi(
    offsets: NDArray[np.int64], counts: Floats, centred: Floats, weight: Floats, h: float,
    begin: int, end: int,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Log of the composed tilted characteristic function at y = n h, begin <= n < end.

    Per node u_n = exp(i n theta) - 1 - i n theta follows from u_{n-1} by additions of terms of
    one sign while n theta is small, so that phi - 1 = sum w u_n (the loss is centred) never
    cancels. It runs through `BLOCK` frequencies, whose first follow from one another likewise.

    Returns:
        Its real part and its imaginary part.
    """
    re, im = np.zeros(end - begin), np.zeros(end - begin)
    tiles, sums = np.empty((12, TILE)), np.empty((2, end - begin))
    _log_phi(offsets, counts, centred, weight, h, begin, tiles, sums, re, im)
    return re, im


@compiled(
    "void(int64[::1], float64[::1], float64[::1], float64[::1], float64, int64, float64[:,::1],"
    " float64[:,::1], float64[::1], float64[::1])"
)
def _log_phi(offsets, counts, centred, weight, h, begin, tiles, sums, re, im):  # type: ignore[no-untyped-def]
    """See `log_phi`: adds to `re` and `im`, with room beside the nodes of a tile."""
    one, block, mark, now = tiles[:3], tiles[3:6], tiles[6:9], tiles[9:11]
    x, y, end = sums[0], sums[1], begin + re.size
    for i in range(counts.size):
        for n in range(re.size):
            x[n] = y[n] = 0.0
        for start in range(offsets[i], offsets[i + 1], TILE):
            stop = min(start + TILE, offsets[i + 1])
            w, theta = weight[start:stop], tiles[11, : stop - start]
            for j in range(w.size):
                theta[j] = h * centred[start + j]
            _turn(theta, 1, one)
            if re.size > BLOCK:
                _turn(theta, BLOCK, block)
            for first in range(begin, end, BLOCK):
                if (first - begin) % FRESH == 0:
                    _turn(theta, first, mark)
                else:
                    _further(theta, first - BLOCK, mark, block)
                for j in range(w.size):
                    now[0, j] = mark[0, j]
                    now[1, j] = mark[1, j]
                for n in range(first, min(first + BLOCK, end)):
                    if n > first:
                        _further(theta, n - 1, now, one)
                    real = 0.0
                    imaginary = 0.0
                    for j in range(w.size):
                        real += w[j] * now[0, j]
                        imaginary += w[j] * now[1, j]
                    x[n - begin] += real
                    y[n - begin] += imaginary
        for n in range(re.size):
            inner = 2.0 * x[n] + x[n] * x[n] + y[n] * y[n]
            if inner > -0.9:
                re[n] += counts[i] * 0.5 * math.log1p(inner)
            else:
                square = (1.0 + x[n]) * (1.0 + x[n]) + y[n] * y[n]
                re[n] += counts[i] * 0.5 * math.log(max(square, 1e-300))  # no log of zero
            im[n] += counts[i] * math.atan2(y[n], 1.0 + x[n])


@subroutine("UniTuple(float64, 2)(float64[::1], float64[::1], float64, float64[:,::1])")
def turned(centred, weight, y, work):  # type: ignore[no-untyped-def]
    """Return sum w (1 - cos(y d)) and sum w sin(y d); the first has no cancellation.

    `work` is room of shape (5, TILE).
    """
    half, cosine, sine, real, imaginary = work[0], work[1], work[2], work[3], work[4]
    for m in range(LANES):
        real[m] = imaginary[m] = 0.0
    for j in range(TILE):
        half[j] = 0.0
    for first in range(0, centred.size, TILE):
        size = min(TILE, centred.size - first)
        for j in range(size):
            half[j] = 0.5 * y * centred[first + j]
        waves(half[:size], cosine, sine)
        for j in range(0, size - size % LANES, LANES):
            for m in range(LANES):
                w = 2.0 * weight[first + j + m]
                real[m] += w * sine[j + m] * sine[j + m]
                imaginary[m] += w * sine[j + m] * cosine[j + m]
        for j in range(size - size % LANES, size):
            w = 2.0 * weight[first + j]
            real[0] += w * sine[j] * sine[j]
            imaginary[0] += w * sine[j] * cosine[j]
    a = b = 0.0
    for m in range(LANES):
        a, b = a + real[m], b + imaginary[m]
    return a, b


@compiled(
    "void(int64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[:,::1],"
    " float64[:,::1])"
)
def _log_phi_at(offsets, counts, centred, weight, ys, work, out):  # type: ignore[no-untyped-def]
    """Write rows, both parts of log phi at every y, each by itself; `work` is that of `turned`."""
    for m in range(ys.size):
        out[0, m] = out[1, m] = 0.0
        for i in range(counts.size):
            nodes = slice(offsets[i], offsets[i + 1])
            a, b = turned(centred[nodes], weight[nodes], ys[m], work)
            size = max((a - 2.0) * a + b * b, EPS - 1.0)  # no log of zero
            out[0, m] += 0.5 * counts[i] * math.log1p(size)
            out[1, m] += counts[i] * math.atan2(b, 1.0 - a)


LEVELS = 28  # clipping levels tried in the total-variation bound, ...
LOWEST = 0.25  # ... the first, of one step, in mean densities: of many a small part is enough, ...
STRIDE = 2.5  # ... and from one to the next
HALVINGS = 8  # widths of a cell on which phi is bounded, the first as far as its beginning
NARROWEST = 2.0 * 0.5**HALVINGS  # width over the frequency
CELLS = 4000  # intervals tried before the decay proof falls back on total variation alone, ...
TURNED = 5e7  # ... and nodes of all of them: half a second
PROVEN = 64  # steps whose decay is proven by derivatives as well
HIGHEST = 10  # derivative of a density that proves decay; the cut-off of a band has eleven
UNRESOLVED = 16.0  # times its two highest coefficients: what a polynomial may miss of a density
SAMPLED_DERIVATIVE = 1.25  # slack on integrals of derivatives, which are sampled at the nodes
SAMPLED = 1.1  # slack on total variation and excess, which are sampled at the nodes
ROUNDED = 4e-15  # of the square of phi, for every standard deviation times frequency
TRANSFORM, NO_LOG = 10.0, 1e-150  # work for a node, and a frequency; least |phi| of a transform
FREQUENCY, DECAY = 0.1, 40.0  # work for one node: of one value of phi, of a proof of its decay
DYADIC = 2.0 ** np.arange(201.0)  # beginnings of far cells, of the first; the last has no end
LEVELLED = np.arange(-60.0, 61.0), np.arange(-99.0, 1.0) / 100.0  # octaves, then to a percent
OFTEN = 2.0 * TURN  # radians that a wave may turn in a panel: parts of one differ in losses
DROPPED = 1e-24  # tilted weight below which a node is left out of phi, and accounted for


@subroutine("float64(float64[::1], float64[::1])")
def _inner(a, b):  # type: ignore[no-untyped-def]
    """Inner product with compensated summation."""
    total = 0.0
    carry = 0.0
    for j in range(a.size):
        v = a[j] * b[j] - carry
        new = total + v
        carry = (new - total) - v
        total = new
    return total


def tilt(
    offsets: Integers, loss: Floats, log_weight: Floats, c: float, floor: float
) -> tuple[Floats, Floats, Integers, Floats, Floats]:
    """Tilt the nodes of every step at c, normalise and centre them.

    Nodes stay out of the second half of the answer while they carry at most `floor` of a step.

    Returns the weights of all nodes; rows means, standard deviations, weights left out of the
    steps; and offsets, centred losses and weights of the nodes that stay.
    """
    weights, work = log_weight + c * loss, np.empty((4, loss.size))
    kept, rows = np.zeros(offsets.size, np.int64), np.zeros((3, offsets.size - 1))
    work[0] = 1.0
    _tilt(offsets, loss, floor, weights, work, kept, rows)
    size = int(kept[-1])
    return weights, rows, kept, work[2, :size].copy(), work[3, :size].copy()


@compiled(
    "void(int64[::1], float64[::1], float64, float64[::1], float64[:,::1], int64[::1],"
    " float64[:,::1])"
)
def _tilt(offsets, loss, floor, weights, work, kept, rows):  # type: ignore[no-untyped-def]
    """See `tilt`; `weights` are logs at first, the first row of `work` ones, all is written."""
    centred, weight, place = work[2], work[3], 0
    for i in range(offsets.size - 1):
        a, b = offsets[i], offsets[i + 1]
        w, x, one, d = weights[a:b], loss[a:b], work[0, a:b], work[1, a:b]
        top, square = -math.inf, 0.0
        for j in range(b - a):
            top = max(top, w[j])
        for j in range(b - a):
            w[j] -= top
            d[j] = w[j]
        exponentials(d, w)
        for j in range(b - a):
            if d[j] < -MOST_LOG:
                w[j] = 0.0
        total = _inner(w, one)
        for j in range(b - a):
            w[j] /= total
        first = _inner(w, x)
        for j in range(b - a):
            d[j] = x[j] - first
        second = _inner(w, d)  # what rounding has left of the mean
        for j in range(b - a):
            d[j] -= second
            square += w[j] * d[j] * d[j]
            if w[j] > floor / (b - a):
                weight[place], centred[place] = w[j], d[j]
                place += 1
            else:
                rows[2, i] += w[j]
        rows[0, i], rows[1, i] = first + second, math.sqrt(square)
        kept[i + 1] = place


@compiled("void(float64[:,:,::1], float64[::1], float64[::1], float64[::1], float64[::1])")
def log_variations(tables, atoms, counts, ys, out):  # type: ignore[no-untyped-def]
    """Log of bounds on |phi(y')|, y' >= y, at every y, by rows of `variation` and `smoothness`."""
    for m in range(ys.size):
        y, total = ys[m], 0.0
        for i in range(counts.size):
            best, jumps, power = 1.0, atoms[i], 1.0
            for g in range(tables.shape[1]):
                if g < LEVELS:
                    best = min(best, atoms[i] + tables[i, g, 0] / y + tables[i, g, 1])
                else:
                    jumps += tables[i, g, 1] * power
                    if g > LEVELS:
                        best = min(best, jumps + tables[i, g, 0] * power)
                    power /= y
            total += counts[i] * math.log(best)
        out[m] = total


@compiled(
    "int64(int64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[::1],"
    " float64[::1], float64[:,:,::1], float64, float64, float64, float64[:,::1], float64[::1],"
    " float64[:,::1])"
)
def _cells(  # type: ignore[no-untyped-def]
    offsets, counts, centred, weight, spread, slack, atoms, tables, start, end, goal, work, roots,
    rows,
):  # fmt: skip
    """Write where cells begin, from `start` on, and a bound on log |phi| in each; return how many.

    Each is the widest in which the goal is met; where none is, one in which phi changes little.
    They end past `end`, or where total variation shows enough, which it does most of the time.
    `work` is that of `turned`, `roots` room for a number a step.
    """
    m = 0
    rows[0, 0] = start
    while True:
        log_variations(tables, atoms, counts, rows[0, m : m + 1], rows[1, m : m + 1])
        y, far = rows[0, m], rows[1, m]
        if not y <= end or m + 1 == rows.shape[1] or far < goal:
            return m
        for i in range(counts.size):
            a, b, roots[i] = offsets[i], offsets[i + 1], 0.0
            if y * NARROWEST * spread[i] < 1.0:  # else no cell is so narrow that this tells of it
                real, imaginary = turned(centred[a:b], weight[a:b], y, work)
                g = 2.0 * real - real * real - imaginary * imaginary
                g -= slack[i] + ROUNDED * y * spread[i]
                roots[i] = math.sqrt(g) if g > 0.0 else 0.0
        width, value = 2.0 * y, 0.0
        for _ in range(HALVINGS):
            width, value = 0.5 * width, 0.0
            for i in range(counts.size):
                least = max(roots[i] - width * spread[i], 0.0)
                value += 0.5 * counts[i] * math.log1p(-least * least)
            if value < goal:
                break
        rows[0, m + 1] = y + (width if value < goal else 0.5 * width)
        rows[1, m] = min(value, far)
        m += 1


class Tilted:
    """The law of every step tilted at Re z = c, normalised and centred.

    Attributes:
        c: the tilt.
        mean: mean of each step's tilted loss, shape (steps,).
        weights: per step, tilted and normalised weights of all nodes, then of all atoms.
        spread: standard deviation of each step's tilted loss, shape (steps,).
        lost: how far nodes left out can move log phi of the composition.
        slack: the same for g = 1 - |phi|^2 of one step, shape (steps,).
        nodes: how many the law has, those left out included.
    """

    def __init__(self, law: Law, c: float, floor: float = DROPPED) -> None:
        """Tilt the law at c; nodes are left out while they carry at most `floor` of a step."""
        spend(3.0 * law.loss.size)
        self._law, self.c = law, c
        self.counts = law.counts
        self.weight: Floats
        weights, rows, self.offsets, self.centred, self.weight = tilt(
            law.offsets, law.loss, law.log_weight, float(c), float(floor)
        )
        self.mean, self.spread, rest = rows
        self.weights: list[Floats] = []
        tolerances, a = [], 0
        for step in law.steps:
            b = a + step.loss.loss.size + step.loss.atom_loss.size
            self.weights.append(weights[a:b])
            tolerances.append(step.loss.tolerance)
            a = b
        self.lost = 2.0 * float(law.counts @ rest)
        tolerance = np.array(tolerances)
        tolerance += law.unresolved(c)
        self.slack = 4.0 * rest + 8.0 * tolerance + 1e-14
        self.nodes = law.loss.size

    def log_phi(self, h: float, begin: int, end: int) -> tuple[Floats, Floats]:
        """Return both parts of log phi at y = n h, begin <= n < end, centred at tilted means."""
        spend(FREQUENCY * self.weight.size * (end - begin))
        return log_phi(self.offsets, self.counts, self.centred, self.weight, h, begin, end)

    def transformed(self, h: float, count: int) -> tuple[Floats, Floats, float]:
        """Return what `log_phi` does for n = 1, ..., count, by one transform a step.

        And a share of the composition by which its phi may be off, where powers magnify that by
        what other factors leave of it.
        """
        re, im, error = np.zeros(count), np.zeros(count), 0.0
        for a, b, n in zip(self.offsets[:-1], self.offsets[1:], self.counts, strict=True):
            spend(TRANSFORM * (b - a + count))
            phi, off = gridding.transform(h * self.centred[a:b], self.weight[a:b], count)
            re += n * np.log(np.maximum(np.abs(phi), NO_LOG))
            im += n * np.angle(phi)
            # |a^n - b^n| <= n off (|b| + off)^(n - 1); where |b| < 8 n off nothing is left of it
            error += 1.14 * n * off + (count * (9.0 * n * off) ** n if n > 1.0 else 0.0)
        return re, im, error

    def log_phi_at(self, ys: Floats) -> Floats:
        """Return rows, both parts of log phi at any frequencies, the second up to whole turns.

        That may be off by 8 EPS for every standard deviation times frequency of a step.
        """
        spend(FREQUENCY * self.weight.size * ys.size)
        out = np.empty((2, ys.size))
        about = self.offsets, self.counts, self.centred, self.weight
        _log_phi_at(*about, ys, np.empty((5, TILE)), out)
        return out

    def decay(
        self, start: float, reach: float, edge: float, goal: float, lost: float | Floats = 0.0
    ) -> tuple[float, float]:
        """Bound the integral of sup |phi(y')| / y^2 over start < y < edge, y' between y and edge.

        The supremum makes the bound valid for the trapezoid sum as well.

        Args:
            start: where it begins.
            reach: the frequency that the nodes resolve.
            edge: the end of a periodic integrand's half period, or infinity.
            goal: log of |phi| that is small enough.
            lost: share of the mass of every step that they do not resolve there.

        Returns:
            The bound, and what it would be if only frequencies that total variation has to account
            for were large: they lift the supremum everywhere before them.
        """
        spend(DECAY * self.weight.size)
        most = int(min(CELLS, max(TURNED / max(self.weight.size, 1), PROVEN)))
        slack, rows = self.slack + 8.0 * lost, np.empty((2, most + 1))
        about = self.offsets, self.counts, self.centred, self.weight, self.spread, slack
        work = np.empty((5, TILE)), np.empty(self.counts.size)
        cells = _cells(*about, *self.variations, start, min(reach, edge), goal, *work, rows)
        left, log_b = rows[0, : cells + 1], rows[1, :cells]
        left[-1] = min(left[-1], edge)
        highest, total = -math.inf, 0.0
        if left[-1] < edge:  # by total variation alone, to infinity in dyadic cells
            y = left[-1] * DYADIC if math.isinf(edge) else left[-1:]
            shares = 0.5 / y if math.isinf(edge) else 1.0 / y - 1.0 / edge
            if math.isinf(edge):
                shares[-1] = 1.0 / y[-1]
            bounds = self._log_variations(y)
            highest, total = float(bounds[0]), float(np.add.reduce(np.exp(bounds) * shares))
        beyond = math.exp(highest) / start
        suprema = np.maximum(np.maximum.accumulate(log_b[::-1])[::-1], highest)
        shares = 1.0 / left[:-1] - 1.0 / left[1:]
        return total + float(np.add.reduce(np.exp(suprema) * shares)), beyond

    def unresolved(self, frequency: float) -> Floats:
        """Return the share of the mass of every step in panels in which a wave turns too often."""
        shares = np.zeros(self.counts.size)
        for i, (step, weights) in enumerate(zip(self._law.steps, self.weights, strict=True)):
            if step.loss.spacing.size:
                loss = step.loss.loss.reshape(-1, ORDER)
                long = (loss.max(axis=1) - loss.min(axis=1)) * frequency > OFTEN
                shares[i] = weights[: loss.size].reshape(-1, ORDER)[long].sum()
        return shares

    def _log_variations(self, y: Floats) -> Floats:
        """Log of bounds on |phi| beyond every y, by total variation."""
        atoms, tables = self.variations
        out = np.empty(y.size)
        log_variations(tables, atoms, self.counts, y, out)
        return out

    @property
    def atoms(self) -> list[Floats]:
        """Weights of the atoms of every step."""
        each = zip(self._law.steps, self.weights, strict=True)
        return [weights[step.loss.loss.size :] for step, weights in each]

    @property
    def lasting(self) -> float:
        """Log of the mass of atoms of the composition: no frequency brings the bounds below it."""
        masses = []
        for weights in self.atoms:
            masses.append(float(np.add.reduce(weights)))
            if not masses[-1] > 0.0:
                return -math.inf
        return float(self.counts @ np.log(masses))

    def levelled(self, goal: float) -> float:
        """Return the frequency from which total variation alone keeps log |phi| below `goal`."""
        highest = 0.0
        for further in LEVELLED:
            below = self._log_variations(2.0 ** (highest + further)) < goal
            first = int(below.argmax())
            if not below[first]:
                return math.inf
            highest += float(further[first])
        return float(2.0**highest)

    @cached_property
    def variations(self) -> tuple[Floats, Floats]:
        """Masses of atoms, and the table of `bounded`, of every step."""
        # of more, a first power each is enough
        few = float(np.add.reduce(self.counts)) <= PROVEN
        return np.array(list(map(np.add.reduce, self.atoms))), self.bounded(few)

    def bounded(self, few: bool) -> Floats:
        """Return rows of `variation`, and for few steps those of `smoothness`, of every step."""
        tables = []
        for s, w in zip(self._law.steps, self.weights, strict=True):
            n = s.loss.loss.size
            if not s.loss.spacing.size:  # of nodes alone nothing is known but their mass
                rows = LEVELS + (HIGHEST + 1 if few else 0)
                tables.append(np.tile([0.0, float(w[:n].sum())], (rows, 1)))
                continue
            density = w[:n].copy(), s.loss.spacing, s.loss.region[::ORDER].copy()
            tables.append(variation(*density, float(np.add.reduce(self.counts))))
            if few:
                tables[-1] = np.concatenate([tables[-1], smoothness(s.loss.loss, *density)])
        return np.array(tables)


def smoothness(loss: Floats, weight: Floats, spacing: Floats, branch: NDArray[np.int64]) -> Floats:
    """Bound the transform of a density by its derivatives.

    Integrating by parts m times,

        |C(y)| <= e + sum over j < m of J_j / y^(j+1) + V_m / y^m,    V_m = integral of |f^(m)|,

    J_j the jumps of the j-th derivative, at the ends of branches and between panels. The density
    is a polynomial on every panel of 16 nodes, up to e. Rows (0, e), then (V_m, J_(m-1)).
    """
    table = np.full((HIGHEST + 1, 2), np.inf)
    loss, weight, spacing = (v.reshape(-1, ORDER) for v in (loss, weight, spacing))
    with np.errstate(all="ignore"):  # where a loss is flat or a density has a pole nothing fades
        slope = (loss - loss[:, ORDER // 2, None]) @ DERIVATIVE.T
        f = np.where(weight > 0.0, weight / spacing, 0.0)
        length = np.abs(spacing).sum(axis=1)
        table[0] = 0.0, UNRESOLVED * float((np.abs(f @ TOP.T).sum(axis=1) * length).sum())
        branch = branch if branch.size == len(f) else branch[::ORDER]
        inner = branch[1:] == branch[:-1]
        for m in range(1, HIGHEST + 1):
            left, right = (f @ ENDS.T).T
            jumps = np.abs(right[:-1] - left[1:])[inner].sum()
            ends = np.abs(right[:-1])[~inner].sum() + np.abs(left[1:])[~inner].sum()
            table[m, 1] = jumps + ends + abs(left[:1]).sum() + abs(right[-1:]).sum()
            f = f @ DERIVATIVE.T / slope
            table[m, 0] = SAMPLED_DERIVATIVE * float((spacing * np.abs(f)).sum())
    found: Floats = np.nan_to_num(table, nan=np.inf)
    return found


def variation(
    weight: Floats, spacing: Floats, branch: NDArray[np.int64], count: float = 1.0
) -> Floats:
    """Bound the transform of a density: every row (v, e) says |C(y)| <= v / y + e.

    Args:
        weight: tilted weights of nodes.
        spacing: their lengths.
        branch: of every node, or of every panel.
        count: of how many steps all have to fade together, which levels are chosen for.
    """
    table, density = np.empty((LEVELS, 2)), np.empty(weight.size)
    _variation(weight.ravel(), spacing.ravel(), branch, LOWEST / max(count, 1.0), density, table)
    return table


@compiled("void(float64[::1], float64[::1], int64[::1], float64, float64[::1], float64[:,::1])")
def _variation(weight, spacing, branch, lowest, density, table):  # type: ignore[no-untyped-def]
    """See `variation`: of densities cut off at levels, and of what lies above these."""
    total = squares = highest = 0.0
    for j in range(weight.size):
        w, space = weight[j], spacing[j]
        # the most where there is mass on no length
        density[j] = w / space if space > 0.0 else math.inf if w > 0.0 else 0.0
        total += w
        if space > 0.0:
            squares += w * density[j]
        highest = max(highest, density[j])
    level, nodes = lowest * squares / max(total, 1e-300), weight.size // max(branch.size, 1)
    for g in range(LEVELS):
        turned = above = before = 0.0
        for i in range(branch.size):
            if i > 0 and branch[i] != branch[i - 1]:
                # down to zero at the end of a branch, up from it at the next
                turned, before = turned + before, 0.0
            for j in range(i * nodes, (i + 1) * nodes):
                cut = min(density[j], level)
                turned, before = turned + abs(cut - before), cut
                above += max(weight[j] - level * spacing[j], 0.0)
        # of what lies above and what does not, the smaller one is off by what is allowed for
        above = min(SAMPLED * above, total - (total - above) / SAMPLED)
        table[g, 0], table[g, 1] = SAMPLED * (turned + before), above
        if level > highest:  # from there on nothing changes
            for m in range(g + 1, LEVELS):
                table[m, 0], table[m, 1] = table[g, 0], table[g, 1]
            break
        level *= STRIDE
