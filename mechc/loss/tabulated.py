"""A log density as polynomials on panels, and a kernel that reads it: a pair known by numbers.

In: log q of the loss x itself, log p = log q + x. Out: what an emitted kernel offers, so that a law
that nobody has a formula for composes like any other. On a Poisson sample of rate r the loss is
log(1 - r + r exp(x)) (T6), with the same q.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from mechc import protocol
from mechc.errors import NumericError
from mechc.loss.bound_kernel import KernelSource
from mechc.loss.infinite_mass import LogMass
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.loss.quadrature.panels import NONE
from mechc.loss.quadrature.rule import NODES, ORDER, WEIGHTS, halved
from mechc.loss.window import Offered
from mechc.numeric.jit import compiled
from mechc.numeric.rounding import MOST_LOG
from mechc.protocol import Floats

Values = Callable[[Floats], tuple[Floats, Floats]]

GOAL = 1e-11  # of what is left out of a panel
NOISY = 2.0  # times the error of values, below which nothing is resolved
AWAY = 2.0  # over which the fall at an end is seen, where next to it rounding may be
SHORTEST, LONGER = 1e-6, 1e-3  # length of a panel, as a share of the whole; if these are too many
MOST = 250  # panels
STRETCH = 0.4  # of the distance to the other end, that one panel of a convolution may have
SMOOTH, BEND = 0.2, 1.5  # r over w, and nats of m, up to which m is such a polynomial
NOTHING = 1e-15  # of a sum, that a panel need not add
NEAR = 0.02  # of w, from where on log(w - r) bends within a panel of log r
# errors that answers are widened by, and masses that may be unresolved beside them
SHARP = ((1e-11, 1e-300), (1e-10, 1e-300), (1e-9, 1e-200), (1e-8, 1e-100), (1e-7, 1e-40),
         (1e-11, 1e-10), (1e-10, 1e-10), (1e-9, 1e-10), (1e-8, 1e-10), (1e-6, 1e-9),
         (1e-6, 1e-6))  # fmt: skip
NO_ZEROS = np.zeros(4)  # values at the nodes of a panel without a zero
# Chebyshev points of a panel, and values at them -> coefficients
POINTS = np.cos(math.pi * (np.arange(ORDER) + 0.5) / ORDER)
FIT = np.linalg.inv(chebyshev.chebvander(POINTS, ORDER - 1))


@compiled("void(float64[::1], float64[::1], float64[:, ::1], float64[::1], float64[::1])")
def _read(x, edges, coefficients, zeros, out):  # type: ignore[no-untyped-def]
    """Sums of Chebyshev polynomials by Clenshaw's recurrence; -inf outside of all panels."""
    n = coefficients.shape[1]
    for i in range(x.size):
        if not (edges[0] <= x[i] <= edges[-1]):
            out[i] = -np.inf
            continue
        j = min(max(np.searchsorted(edges, x[i], side="right") - 1, 0), edges.size - 2)
        y = (2.0 * x[i] - edges[j] - edges[j + 1]) / (edges[j + 1] - edges[j])
        b1, b2 = 0.0, 0.0
        for m in range(n - 1, 0, -1):
            b1, b2 = 2.0 * y * b1 - b2 + coefficients[j, m], b1
        out[i] = y * b1 - b2 + coefficients[j, 0]
        if zeros[1] > 0.0:
            out[i] += zeros[1] * math.log(-math.expm1(zeros[0] - x[i]))
        if zeros[3] > 0.0:
            out[i] += zeros[3] * math.log(-math.expm1(x[i] - zeros[2]))


@compiled(
    "float64[::1](float64[::1], float64, float64[::1], float64[:, ::1], float64[::1],"
    " float64[:, ::1], float64[::1], float64[:, ::1], float64[::1], float64[::1])",
    makes_arrays=True,
)
def convolve(  # type: ignore[no-untyped-def]
    w, share, edges, coefficients, zeros, density, mu_edges, mu, mu_zeros, jumps
):
    """Integral of g(r) m(w - r) over 0 < r < w share, for every w.

    Logs of r g(r) and of v m(v) are tables in log r and log v; `density` is r g(r) at the nodes of
    its panels, times their weights, `jumps` are the v at which m is not smooth. Where r is small
    beside w, m is nearly a polynomial in r: there all panels are one, its weights in `below`.
    """
    out, ends, least = np.zeros(w.size), np.exp(edges), math.exp(mu_edges[0])
    most = math.exp(mu_edges[-1])
    v, m, x, g = np.empty(16), np.empty(16), np.empty(16), np.empty(16)
    below, mass = np.zeros((edges.size, 16)), np.zeros(edges.size - 1)
    places = np.empty((edges.size - 1, 16))
    for j in range(edges.size - 1):
        half, moments = 0.5 * (edges[j + 1] - edges[j]), np.zeros(16)
        for n in range(32):
            if n < 16:
                r, own = 0.5 * ends[j] * (1.0 + POINTS[n]), below[j, n]
            else:
                r, own = ends[j] * math.exp(half * (1.0 + NODES[n - 16])), density[j, n - 16]
                places[j, n - 16] = r
                mass[j] += own
            y = 2.0 * r / ends[j + 1] - 1.0
            one, next_one = 1.0, y
            for k in range(16):
                moments[k] += own * one
                one, next_one = next_one, 2.0 * y * next_one - one
        for n in range(16):
            for k in range(16):
                below[j + 1, n] += FIT[k, n] * moments[k]
    highest = np.full(mu_edges.size + 1, -np.inf)  # of log v m(v) on panels, and around them
    for j in range(mu_edges.size - 1):
        highest[j + 1] = mu[j, 0] + np.abs(mu[j, 1:]).sum()
    for i in range(w.size):
        top, total = min(w[i] - least, share * w[i]), 0.0
        smooth = min(top, SMOOTH * w[i]) if w[i] <= most else 0.0
        for n in range(jumps.size):
            if jumps[n] < w[i]:
                smooth = min(smooth, w[i] - jumps[n])
        while True:
            first = max(np.searchsorted(ends, smooth, side="right") - 1, 0)
            if first == 0:
                break
            for n in range(16):
                v[n] = math.log(w[i] - 0.5 * ends[first] * (1.0 + POINTS[n]))
            _read(v, mu_edges, mu, mu_zeros, m)
            m -= v
            bend = m.max() - m.min()
            if bend <= BEND:
                for n in range(16):
                    total += below[first, n] * math.exp(m[n])
                break
            smooth = ends[first] * BEND / bend if bend < np.inf else 0.0
        far = 0
        for j in range(edges.size - 2, first - 1, -1):
            last = min(ends[j + 1], top)
            if last <= ends[j]:
                continue
            near = far
            far = int(np.searchsorted(mu_edges, math.log(w[i] - ends[j]), side="right"))
            bound = mass[j] * math.exp(highest[near : far + 1].max()) / (w[i] - last)
            if bound <= NOTHING * total:
                continue
            lo = max(ends[j], w[i] - most)
            while lo < last:
                hi = min(last, lo + STRETCH * (w[i] - lo))
                for n in range(jumps.size):
                    if lo * (1.0 + 1e-14) < w[i] - jumps[n] < hi:
                        hi = w[i] - jumps[n]
                if lo < NEAR * w[i] < hi:  # of a long panel the end next to w is a piece of its own
                    hi = NEAR * w[i]
                hi = last if last - hi < 1e-9 * last else hi
                whole = lo == ends[j] and hi == ends[j + 1]
                if whole:
                    for n in range(16):
                        v[n] = math.log(w[i] - places[j, n])
                    _read(v, mu_edges, mu, mu_zeros, m)
                    for n in range(16):
                        total += density[j, n] / (w[i] - places[j, n]) * math.exp(m[n])
                else:
                    a, b = math.log(lo), math.log(hi)
                    for n in range(16):
                        x[n] = 0.5 * (a + b) + 0.5 * (b - a) * NODES[n]
                        v[n] = math.log(w[i] - math.exp(x[n]))
                    _read(v, mu_edges, mu, mu_zeros, m)
                    _read(x, edges, coefficients, zeros, g)
                    for n in range(16):
                        size = 0.5 * (b - a) * WEIGHTS[n]
                        total += size * math.exp(g[n] + m[n] - v[n])
                lo = hi
        out[i] = total
    return out


def fit(
    values: Values, edges: Floats, floor: float | Callable[[Floats], Floats],
    nats: float = math.inf, shortest: float | None = None, zeros: Floats = NO_ZEROS,
) -> tuple[Table, Floats]:  # fmt: skip
    """Return a table of a function, and errors, on panels that are halved until it is resolved.

    Args:
        values: the function and its error, of points.
        edges: of the first panels.
        floor: below this, also as a function of the point, it need not be resolved.
        nats: by which it may change on a panel.
        shortest: length of a panel that is not halved.
        zeros: as of `Table`.

    Raises:
        NumericError: it takes too many panels, or there is none.
    """
    if edges.size < 2:
        raise NumericError("there is no panel to tabulate a function on")
    whole = float(np.ptp(edges))

    def look(
        shortest: float, lo: Floats, hi: Floats
    ) -> tuple[tuple[Floats, ...], NDArray[np.bool_]]:
        x = 0.5 * (lo + hi)[:, None] + 0.5 * (hi - lo)[:, None] * POINTS
        whole_value, error = (side.reshape(x.shape) for side in values(x.ravel()))
        value = whole_value
        for sign, at, power in zip((1.0, -1.0), zeros[::2], zeros[1::2], strict=True):
            if power > 0.0:
                value = value - power * np.log(-np.expm1(sign * (at - x)))
        found, noise = value @ FIT.T, error.max(axis=1)
        miss = np.abs(found[:, -3:]).sum(axis=1)
        matters = (whole_value - (floor(x) if callable(floor) else floor)).max(axis=1) > 0.0
        short = (miss > np.maximum(GOAL, NOISY * noise)) | (np.ptp(value, axis=1) > nats)
        return (found, np.maximum(miss, noise) * matters), short & matters & (hi - lo > shortest)

    refusal = "a function is not resolved by polynomials on panels"
    try:
        least = SHORTEST * whole if shortest is None else shortest
        found = halved(edges, partial(look, least), MOST, refusal)
    except NumericError:
        if shortest is not None:
            raise
        # noise where little depends on it: its size is in the errors
        found = halved(edges, partial(look, LONGER * whole), MOST, refusal)
    lo, hi, coefficients, errors = found
    return Table(np.append(lo, hi[-1:]), np.ascontiguousarray(coefficients), zeros), errors


class Table(NamedTuple):
    """A function on an interval.

    Attributes:
        edges: of panels, shape (n + 1,).
        coefficients: of Chebyshev polynomials on each, shape (n, degree + 1).
        zeros: x, and k, of factors (1 - e^(x - y))^k of exp of the function of y, x below; and the
            same above.
    """

    edges: Floats
    coefficients: Floats
    zeros: Floats = NO_ZEROS

    def __call__(self, x: Floats) -> Floats:
        """Return values, -inf outside."""
        out = np.empty(x.size)
        _read(np.ascontiguousarray(x), self.edges, self.coefficients, self.zeros, out)
        return out

    def moved(self, distance: float) -> Table:
        """Return the function of x - distance."""
        zeros = self.zeros + np.array([distance, 0.0, distance, 0.0])
        return self._replace(edges=self.edges + distance, zeros=zeros)


class Tabulated(Offered):
    """A pair (P, Q) on the line of its own losses, offered as an emitted kernel is.

    Attributes:
        log_q: the log density of the loss x under Q; under P it is log_q + x.
        rate: of a Poisson sample on top: P is (1 - rate) Q + rate P.
        masses: logs of the masses that only P and only Q have.
        top: where finite, x stands for the loss top tanh(x).
        jumps: x at which the density is not smooth, its ends apart.
        points: x that have masses, and their logs under Q.
    """

    def __init__(
        self, log_q: Table, masses: tuple[float, float], name: str,
        top: float = math.inf, jumps: Floats = NONE, points: tuple[Floats, Floats] = (NONE, NONE),
    ) -> None:  # fmt: skip
        """Hold the numbers."""
        self.log_q, self.masses, self.NAME, self.rate, self.top = log_q, masses, name, 1.0, top
        self.jumps, self.points = jumps, points

    def sampled(self, rate: float) -> Tabulated:
        """Return the pair on a Poisson sample."""
        other = copy(self)
        other.rate = rate * self.rate
        return other

    def log_p_many(self, x: Floats, theta: Floats, out: Floats) -> None:
        """Write log p at x."""
        self.loss_many(x, theta, out)
        out += self.log_q(x)

    def log_q_many(self, x: Floats, theta: Floats, out: Floats) -> None:
        """Write log q at x."""
        out[:] = self.log_q(x)

    def loss_many(self, x: Floats, theta: Floats, out: Floats) -> None:
        """Write the losses at x."""
        plain = x if self.top == math.inf else self.top * np.tanh(x)
        if self.rate < 1.0:  # far beyond all panels no exponential
            plain = np.minimum(plain, MOST_LOG)
            small = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + plain)
            plain = np.where(plain < -1.0, small, np.log1p(self.rate * np.expm1(plain)))
        out[:] = plain

    def loss(self, x: float, theta: Floats) -> float:
        """Return the loss at x."""
        out = np.empty(1)
        self.loss_many(np.array([x]), theta, out)
        return float(out[0])

    def loss_inverse_many(self, branch: int, loss: Floats, theta: Floats, out: Floats) -> None:
        """Write where the loss has these values."""
        with np.errstate(invalid="ignore", divide="ignore"):
            plain = loss
            if self.rate < 1.0:
                small = np.log((np.exp(loss) - (1.0 - self.rate)) / self.rate)
                plain = np.where(loss < -1.0, small, np.log1p(np.expm1(loss) / self.rate))
            out[:] = plain if self.top == math.inf else np.arctanh(plain / self.top)

    def branches(self, theta: Floats) -> Floats:
        """Return one branch from jump to jump."""
        ends = [self.log_q.edges[0], *self.jumps.tolist(), self.log_q.edges[-1]]
        return np.array([
            [lo, hi, protocol.INCREASING, self.loss(lo, theta), self.loss(hi, theta), 0.0]
            for lo, hi in pairwise(ends)
        ])  # fmt: skip

    def atoms(self, theta: Floats) -> Floats:
        """Return point masses, and what only one of P and Q has, beyond the ends."""
        lo, hi = self.log_q.edges[[0, -1]]
        p, q = self.masses
        with np.errstate(divide="ignore"):
            log_rate, log_rest = math.log(self.rate), float(np.log1p(-self.rate))
        x, log_q = self.points
        loss = np.empty(x.size)
        self.loss_many(x, theta, loss)
        rows = [[hi + 1.0, p + log_rate, -math.inf], [lo - 1.0, q + log_rest, q]]
        rows += np.stack([x, log_q + loss, log_q], axis=1).tolist()
        return np.array([row for row in rows if max(row[1:]) > -math.inf]).reshape(-1, 3)

    def strip(self, theta: Floats) -> Floats:
        """Return the whole line: losses are bounded."""
        return np.array([-math.inf, math.inf])


def tabulated_loss(
    log_q: Table, masses: tuple[float, float], cut: tuple[float, float], error: float, label: str,
    top: float = math.inf, jumps: Floats = NONE, points: tuple[Floats, Floats] = (NONE, NONE),
    above: tuple[Step, ...] = (),
) -> PrivacyLoss:  # fmt: skip
    """Return the law of a loss by its density, of which the error is estimated, not proven.

    Args:
        log_q: log density of the loss under Q, also where it is known by less than its size.
        masses: logs of P(q = 0) and Q(p = 0).
        cut: logs of the masses under P and Q that the table does not have: they may stand at any
            loss, and reveal everything.
        error: of log_q.
        label: words for messages.
        top: as of `Tabulated`.
        jumps: likewise.
        points: likewise.
        above: steps of which a record takes part in one, drawn at random.
    """
    both = [float(np.logaddexp(*pair)) for pair in zip(masses, cut, strict=True)]
    kernel = Tabulated(log_q, (both[0], both[1]), label, top=top, jumps=jumps, points=points)
    return _bound(kernel, cut, error, above)


def unresolved(table: Table, errors: Floats, top: float) -> tuple[float, float]:
    """Return log of a mass that counts as revealing everything, and the error of all else.

    What is not known to a small share may be told from the rest, and so may what is beyond the
    ends, where the density falls as it does at the first of them, or faster. Of a law that is its
    own mirror image both P and Q have that much.

    Args:
        table: log density under Q of x, the loss being top tanh(x).
        errors: of it on every panel.
        top: see there.

    Raises:
        NumericError: too much is not resolved.
    """
    half = 0.5 * np.diff(table.edges)[:, None]
    x = table.edges[:-1, None] + half * (1.0 + NODES)
    mass = np.exp(table(x.ravel())).reshape(x.shape) * half @ WEIGHTS
    inner = max(1, int(np.searchsorted(table.edges, table.edges[0] + AWAY)))
    ends = table.edges[[0, min(inner, table.edges.size // 2)]]
    lowest, further = table(ends).tolist()
    slope = (further - lowest) / float(np.ptp(ends))
    if not slope > 0.0:
        raise NumericError("the density of the loss does not fall at its end")
    beyond = math.exp(lowest) * (1.0 + math.exp(-top)) / min(slope, 1.0)  # at both ends
    for sharp, useful in SHARP:
        cut = beyond + float(np.where(errors > sharp, np.minimum(errors, 1.0), 0.0) @ mass)
        if cut < useful:
            return max(math.log(max(cut, 1e-320)), -740.0), sharp
    raise NumericError(f"the density of the loss is not resolved, up to a mass of {cut:.1e}")


def sampled_loss(law: PrivacyLoss, rate: float) -> PrivacyLoss | None:
    """Return a tabulated law on a Poisson sample, None for other laws.

    Args:
        law: of removing, or, reversed, of adding a record.
        rate: in (0, 1).
    """
    source = law.source
    if source is None or not isinstance(source.kernel, Tabulated):
        return None
    p, q = (mass.log for mass in source.early)
    mixed = float(np.logaddexp(p + math.log(rate), q + math.log1p(-rate)))
    made = _bound(source.kernel.sampled(rate), (mixed, q), source.density_error, source.above)
    return made.reversed() if law.is_reversed else made


def _bound(
    kernel: Tabulated, cut: tuple[float, float], error: float, above: tuple[Step, ...]
) -> PrivacyLoss:
    lacks = math.exp(max(cut))
    source = KernelSource.many(cast(Any, kernel), [np.empty(0)], lacks=lacks)[0]
    source.above = above  # of which a sample has no larger divergence
    source.early, source.density_error = (LogMass(cut[0]), LogMass(cut[1])), error
    return PrivacyLoss.of_source(source)
