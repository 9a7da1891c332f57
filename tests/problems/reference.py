"""Delta of a pair of laws from nothing but a support and two log densities, in intervals.

A `Pair` is a list of pieces on which both log densities are smooth, beside atoms; everything else
is brute force:

* one step       the positive part of p - e^eps q, by Gauss-Legendre rules on panels that are halved
                 until nothing changes, in doubles and, where rounding decides, in balls;
* many steps     all outcomes listed where they are few; else two laws on a grid of losses, one that
                 dominates the pair and one that it dominates, exponentially tilted and composed by
                 Fourier transforms.

Log densities are written once, for doubles (arrays) and balls, with the functions of `DOUBLES` or
`BALLS`. Every answer is (lower, upper) for log delta.
"""

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from flint import arb, ctx
from scipy.special import gammaln, kve, log_ndtr

ULP = 2.0**-52
ORDER = 16  # nodes of a panel
U, W = np.polynomial.legendre.leggauss(ORDER)
LOG_W = np.log(W)
BITS, MOST_BITS = 260, 5000
DEEP = 900.0  # nats below the largest at which masses are dropped
GRID = 2**15  # points of a composed law
MOST_PANELS = 1 << 20  # of one round of halving: 128 MB an array of their nodes
FEW = 100  # atoms whose masses are computed in balls


def _in_balls():
    """The functions of `DOUBLES` for balls."""
    saved, ctx.prec = ctx.prec, 2 * BITS
    try:
        pi = arb.pi()
    finally:
        ctx.prec = saved
    names = ("exp", "log", "log1p", "expm1", "sqrt", "sinh", "cosh", "tanh", "atan", "cos")
    return SimpleNamespace(
        **{name: getattr(arb, name) for name in names},
        abs=abs, loggamma=arb.lgamma, inf=math.inf, pi=pi, number=arb,
        log_normal_cdf=lambda x: ((-x / arb(2).sqrt()).erfc() / 2).log(),
        logaddexp=lambda a, b: max(a, b, key=float) + (-abs(a - b)).exp().log1p(),
        log_bessel_k=lambda order, x: x.bessel_k(order).log(),
        log_hypot=lambda x: (1 + x * x).log() / 2,
    )  # fmt: skip


DOUBLES = SimpleNamespace(
    exp=np.exp, log=np.log, log1p=np.log1p, expm1=np.expm1, sqrt=np.sqrt, sinh=np.sinh,
    cosh=np.cosh, tanh=np.tanh, atan=np.arctan, cos=np.cos, abs=np.abs, loggamma=gammaln,
    inf=math.inf, pi=math.pi, number=float, log_normal_cdf=log_ndtr, logaddexp=np.logaddexp,
    log_bessel_k=lambda order, x: math.log(kve(order, x)) - x,
    log_hypot=lambda x: np.log(np.hypot(1.0, x)),
)  # fmt: skip
BALLS = _in_balls()


class Piece(NamedTuple):
    """An interval in a coordinate of one's choice, where both log densities are smooth.

    Nodes crowd at finite ends. `None` for a law that has no mass there.
    """

    lo: Any
    hi: Any
    log_p: Any
    log_q: Any


class Pair(NamedTuple):
    """Pieces, and atoms (log mass under P, log mass under Q), -inf for none."""

    pieces: tuple
    atoms: tuple = ()

    def reversed(self):
        return Pair(
            tuple(Piece(a, b, q, p) for a, b, p, q in self.pieces),
            tuple((q, p) for p, q in self.atoms),
        )


def sampled(m, pair, rate):
    """P replaced by (1 - rate) Q + rate P."""
    keep, drop = m.log(m.number(rate)), m.log1p(-m.number(rate))

    def mixed(p, q):
        if p is None or q is None:
            shift, only = (drop, q) if p is None else (keep, p)
            return lambda x: shift + only(x)
        return lambda x: m.logaddexp(drop + q(x), keep + p(x))

    def atom(p, q):
        if p == -m.inf or q == -m.inf:
            return drop + q if p == -m.inf else keep + p
        return m.logaddexp(drop + q, keep + p)

    pieces = tuple(Piece(a, b, mixed(p, q), q) for a, b, p, q in pair.pieces)
    return Pair(pieces, tuple((atom(p, q), q) for p, q in pair.atoms))


def first_edges(lo, hi):
    """Edges that halve their distance to every finite end, and double it on the way to infinity."""
    if math.isinf(lo) and math.isinf(hi):
        raise ValueError("a piece needs a finite end")
    if math.isinf(lo):
        return -first_edges(-hi, math.inf)[::-1]
    top = hi - lo
    span = np.arange(-960 if lo == 0 else math.frexp(lo)[1] - 50, 1000)
    if math.isinf(hi):
        return np.concatenate([[lo], lo + np.ldexp(1.0, span)])
    near = np.ldexp(top, np.arange(-960 if lo == 0 else -50, 0))
    near = near[(near > 0) & (lo + near > lo)]
    far = np.ldexp(top, np.arange(-960 if hi == 0 else -50, -1))
    far = far[(far > 0) & (hi - far < hi)]
    return np.unique(np.concatenate([[lo], lo + near, hi - far, [hi]]))


class Panels(NamedTuple):
    """Panels of one piece with the logs of both densities at their nodes, shape (n, ORDER)."""

    piece: Piece
    lo: np.ndarray
    hi: np.ndarray
    p: np.ndarray
    q: np.ndarray

    @staticmethod
    def of(piece, lo, hi):
        half = 0.5 * (hi - lo)[:, None]
        x = lo[:, None] + half * (1.0 + U)
        none = np.full(x.shape, -np.inf)
        with np.errstate(all="ignore"):
            p = none if piece.log_p is None else piece.log_p(x)
            q = none if piece.log_q is None else piece.log_q(x)
            weight = LOG_W + np.log(half)
        p, q = (np.where(v < np.inf, np.broadcast_to(v, x.shape), -np.inf) for v in (p, q))
        return Panels(piece, lo, hi, p + weight, q + weight)

    def at(self, which):
        return Panels(self.piece, *(v[which] for v in self[1:]))

    def halves(self):
        middle = 0.5 * (self.lo + self.hi)
        inside = (self.lo < middle) & (middle < self.hi)
        lo, hi, middle = self.lo[inside], self.hi[inside], middle[inside]
        edges = np.concatenate([lo, middle]), np.concatenate([middle, hi])
        return Panels.of(self.piece, *edges)

    def joined(self, other):
        return Panels(
            self.piece, *(np.concatenate([a, b]) for a, b in zip(self[1:], other[1:], strict=True))
        )

    @property
    def loss(self):
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(self.p), -np.inf, self.p - self.q)


def log_sum(v):
    """Log of the sum of exp(v) over the last axis; -inf for none."""
    v = np.asarray(v, float)
    top = v.max(axis=-1, initial=-1e300)
    with np.errstate(divide="ignore"):
        return top + np.log(np.exp(v - top[..., None]).sum(axis=-1))


class Reference:
    """Delta of one pair, many steps or one. `make` gives the pair for `DOUBLES` or `BALLS`."""

    def __init__(self, make):
        self.make = make
        self.pair = make(DOUBLES)
        self.panels = [self._settled(piece) for piece in self.pair.pieces]
        atoms = self.pair.atoms if len(self.pair.atoms) > FEW else _in_precision(make)
        self.atoms = np.array(atoms, float).reshape(-1, 2)
        self.known = {}
        for side, total in zip("PQ", self.totals(), strict=True):
            if abs(total) > 1e-9:
                raise ValueError(f"log of the mass of {side} is {total!r}")

    def reversed(self):
        made = object.__new__(Reference)
        made.make = lambda m: self.make(m).reversed()
        made.pair = self.pair.reversed()
        made.panels = [
            Panels(piece, s.lo, s.hi, s.q, s.p)
            for piece, s in zip(made.pair.pieces, self.panels, strict=True)
        ]
        made.atoms, made.known = self.atoms[:, ::-1], {}
        return made

    def _settled(self, piece):
        """Panels on which both masses are known to a relative 1e-12, deep tails included."""
        edges = first_edges(float(piece.lo), float(piece.hi))
        pending = Panels.of(piece, edges[:-1], edges[1:])
        done = pending.at(slice(0))
        for _ in range(40):
            p, q = log_sum(pending.p), log_sum(pending.q)
            pending = pending.at(np.maximum(p, q) > -DEEP)
            if not pending.lo.size:
                break
            middle = 0.5 * (pending.lo + pending.hi)
            whole = (pending.lo < middle) & (middle < pending.hi)
            done, pending = done.joined(pending.at(~whole)), pending.at(whole)
            finer = pending.halves()
            n = pending.lo.size
            rough = np.zeros(n, bool)
            for a, b in ((pending.p, finer.p), (pending.q, finer.q)):
                whole, parts = log_sum(a), log_sum(b)
                parts = np.logaddexp(parts[:n], parts[n:])
                with np.errstate(invalid="ignore"):
                    known = np.abs(whole - parts) < 1e-12 + 8 * ULP * np.abs(whole)
                rough |= ~known & (parts > -DEEP)
            done = done.joined(pending.at(~rough))
            pending = finer.at(np.concatenate([rough, rough]))
        return done.joined(pending)

    def totals(self):
        """Logs of the masses of both laws."""
        found = [[log_sum(s.p.ravel()), log_sum(s.q.ravel())] for s in self.panels if s.lo.size]
        return log_sum(np.array(found + self.atoms.tolist()).T)

    def nodes(self):
        """All nodes as outcomes: loss, log mass under P."""
        loss = np.concatenate([s.loss.ravel() for s in self.panels] + [self._atom_losses()])
        log_p = np.concatenate([s.p.ravel() for s in self.panels] + [self.atoms[:, 0]])
        keep = log_p > -np.inf
        return loss[keep], log_p[keep]

    def _atom_losses(self):
        p, q = self.atoms.T
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(p), -np.inf, p - q)

    # one step

    def one_step(self, epsilon):
        """Log delta of one step: (lower, upper)."""
        values, noise = [], []
        for s in self.panels:
            value, error = self._positive(s, epsilon)
            values.append(value)
            noise.append(error)
        loss = self._atom_losses()
        p = self.atoms[:, 0]
        values.append(log_sum(excess(p, loss, epsilon)) if p.size else -np.inf)
        r = rounding(p, self.atoms[:, 1], epsilon)
        close = (loss > epsilon - r) & (p > -np.inf)
        noise.append(log_sum((p + np.log(r))[close]) if close.any() else -np.inf)
        total, error = log_sum(np.array(values)), log_sum(np.array(noise))
        with np.errstate(invalid="ignore"):
            share = math.exp(min(error - total, 0.0)) if total > -np.inf else 1.0
        if error == -np.inf and total == -np.inf:
            return -math.inf, -math.inf
        if share > 1e-9:
            return self.one_step_in_balls(epsilon)
        room = share + 1e-11
        return total + math.log1p(-room), total + math.log1p(room)

    def _positive(self, s, epsilon):
        """Log of the integral of (p - e^eps q)_+ over panels, and of its rounding."""
        parts, noise, top = [-np.inf], [-np.inf], -np.inf
        stats = self._stats(s)
        for _ in range(80):
            low, high, mass, r = stats
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                spread = np.where(high > low, high - low, 0.0)
                most = mass + np.log(-np.expm1(-(high + spread + r - epsilon).clip(0.0)))
                least = mass + np.log(-np.expm1(-(low - spread - r - epsilon).clip(0.0)))
            top = max(top, least.max(initial=-np.inf))
            keep = most > top - 45.0
            s = s.at(keep)
            low, high, r, most, spread = (v[keep] for v in (low, high, r, most, spread))
            if not s.lo.size:
                break
            crossed = (high + spread + r > epsilon) & (low - spread - r < epsilon)
            open_ = crossed & (spread > r) & (most > top - 32.0)
            done = s.at(~open_)
            if done.lo.size:
                parts.append(log_sum(excess(done.p, done.loss, epsilon).ravel()))
                each = rounding(done.p, done.q, epsilon)
                close = (done.loss > epsilon - each) & (done.p > -np.inf)
                if close.any():
                    noise.append(log_sum((done.p + np.log(each))[close]))
                top = max(top, parts[-1])
            s = s.at(open_).halves()
            stats = _stats(s, epsilon)
        return log_sum(parts), log_sum(noise)

    def _stats(self, s):
        """`_stats` of panels that every question begins with."""
        if id(s) not in self.known:
            self.known[id(s)] = _stats(s, 0.0)
        return self.known[id(s)]

    def one_step_in_balls(self, epsilon):
        """The same in balls: (lower, upper)."""
        saved, ctx.prec = ctx.prec, BITS
        try:
            return _one_step_in_balls(self.make(BALLS), self.panels, self.atoms, epsilon)
        finally:
            ctx.prec = saved

    # many steps

    def log_delta(self, epsilon, count):
        """Log delta of `count` steps: (lower, upper)."""
        if count == 1:
            return self.one_step(epsilon)
        listed = None if self.pair.pieces else self._listed(epsilon, count)
        found = self._composed(epsilon, count) if listed is None else listed
        # no pair is below 1 - e^eps, which masses near one in doubles do not show
        floor = math.log(-math.expm1(epsilon)) if epsilon < 0 else -math.inf
        return tuple(max(v, floor) for v in found)

    def chernoff(self, epsilon, count):
        """Chernoff's bound of log delta, and the tilt where it is attained."""
        loss, log_p = self.nodes()
        loss, log_p = loss[np.isfinite(loss)], log_p[np.isfinite(loss)]
        best = 0.0, 0.0
        for t in np.geomspace(1e-6, 1e6, 97):
            k = log_sum(log_p + t * loss)
            value = count * k - t * epsilon + t * math.log(t) - (1 + t) * math.log1p(t)
            if value < best[0]:
                best = value, t
        if not best[1]:  # no moment is finite, or none says anything
            return best
        lo, hi = math.log(best[1]) - 0.3, math.log(best[1]) + 0.3
        for _ in range(30):
            a, b = lo + 0.382 * (hi - lo), lo + 0.618 * (hi - lo)
            fa, fb = (
                count * log_sum(log_p + t * loss)
                - t * epsilon
                + t * math.log(t)
                - (1 + t) * math.log1p(t)
                for t in map(math.exp, (a, b))
            )
            lo, hi = (lo, b) if fa < fb else (a, hi)
            best = min(best, (fa, math.exp(a)), (fb, math.exp(b)))
        return best

    def infinite(self, count=1):
        """Log of the mass at infinite loss."""
        loss, log_p = self.nodes()
        once = log_sum(log_p[loss == np.inf]) if (loss == np.inf).any() else -np.inf
        if count == 1 or once == -np.inf:
            return float(once)
        if once > -1e-15:
            return 0.0
        if once < -36.0:
            return float(once + math.log(count))
        return float(log1mexp(count * log1mexp(once)))

    def _listed(self, epsilon, count):
        """All sums of finite losses, where they are few; losses within rounding count as one."""
        loss, p = self._atom_losses(), self.atoms[:, 0]
        keep = np.isfinite(loss)
        loss, p = loss[keep], p[keep]
        r = 64 * ULP * (count * (np.abs(loss) + np.abs(p)).max(initial=0.0) + abs(epsilon))
        if not r > 0.0:
            raise Undecided("masses so near one that their logs vanish")
        power, square, n = (np.zeros(1), np.zeros(1)), (loss, p), count
        while n:
            if n & 1:
                power = _summed(power, square, r)
            n >>= 1
            square = _summed(square, square, r) if n and square else square
            if power is None or square is None:
                return None
        infinite = self.infinite(count)
        low, high = (
            np.logaddexp(log_sum(excess(power[1], power[0], e)), infinite)
            for e in (epsilon + 2 * count * r, epsilon - 2 * count * r)  # what merging may move
        )
        return low - 1e-11, min(high + 1e-11, 0.0)

    def _composed(self, epsilon, count):
        """A law that dominates the pair and one that it dominates, on a grid of losses."""
        bound, t = self.chernoff(epsilon, count)
        loss, p = self.nodes()
        finite = np.isfinite(loss)
        loss, p = loss[finite], p[finite]
        order = np.argsort(loss)
        loss, p = loss[order], p[order]
        if np.ptp(loss[p > LOWEST_MASS]) < RESOLVED * ULP * count * -LOWEST_MASS:
            raise Undecided("losses of the size of their rounding")
        tilted = np.exp(p + t * loss - log_sum(p + t * loss))
        infinite = self.infinite(count)
        below, above = np.cumsum(tilted), np.cumsum(tilted[::-1])[::-1]
        beyond = np.logaddexp.accumulate(p[::-1])[::-1] + math.log(count)
        needed = (above > 1e-15 / count) | (beyond > max(bound - 6.0, infinite) - 23.0)
        last = np.flatnonzero(needed)[-1]
        raised = np.logaddexp.accumulate(p) + t * loss - log_sum(p + t * loss)
        needed = (below > 1e-15 / count) | (raised > -32.0 - math.log(count))
        first = min(np.flatnonzero(needed)[0], last)
        low, high = loss[first], loss[last]
        if last == loss.size - 1:  # losses between nodes may be larger than at any of them
            with np.errstate(invalid="ignore"):  # where one law has no mass
                reach = [s.loss.max(1) + np.ptp(s.loss, axis=1) for s in self.panels if s.lo.size]
            reach = [v[np.isfinite(v)].max(initial=high) for v in reach]
            high = min(max(reach, default=high), high + 0.1 * (high - low) + 1e-3)
        loss, tilted = loss[first : last + 1], tilted[first : last + 1]
        mean = float(tilted @ loss)
        deviation = math.sqrt(float(tilted @ (loss - mean) ** 2)) + 1e-12 * (1.0 + high - low)
        width = _reach(loss - mean, np.log(tilted + 1e-300), count, deviation)
        width = max(min(count * (high - low), 1.05 * width), 1e-7 * (1.0 + abs(low) + abs(high)))
        h = width / (GRID - 8 - 4 * min(count, GRID // 8))
        law = self._cells(low, high, h)
        room = 64 * ULP * (count * (abs(low) + abs(high) + 50.0) + abs(epsilon))
        grid = Grid(h, t, count, mean)
        lower = grid.log_delta(*_dominated(law, h, t), epsilon + room)
        upper = grid.log_delta(*_dominating(law, h, t), epsilon - room)
        torn = law.p[law.most > law.high]  # cells that reach beyond the highest point
        outside = log_sum(np.append(torn, -np.inf)) + math.log(count)
        left = math.log1p(-lower[1]) if lower[1] < 0.999 else -math.inf
        sides = [log_sum([lower[0] + left, infinite - 1e-11])]
        sides += [log_sum([upper[0] + math.log1p(upper[1]), infinite, outside])]
        return tuple(float(min(v, 0.0)) for v in sides)

    def _cells(self, low, high, h):
        """Panels across which the loss changes by less than h/2, and atoms, as a `Cells`."""
        rows = []
        for s in self.panels:
            if s.piece.log_p is None or s.piece.log_q is None:
                continue
            for _ in range(60):
                least, most = s.loss.min(1), s.loss.max(1)
                edge = 0.1 * (most - least)
                least, most = least - edge, most + edge
                inside = (most >= low) & (least <= high)
                fine = (most - least < 0.6 * h) | ~inside | (s.hi - s.lo <= 4 * ULP * np.abs(s.lo))
                p, q = log_sum(s.p[fine]), log_sum(s.q[fine])
                rows.append(np.array([least[fine], most[fine], p, q]))
                s = s.at(~fine).halves()
                if not s.lo.size:
                    break
                if s.lo.size > MOST_PANELS:
                    raise Undecided("too many panels for a loss that changes this fast")
            else:
                rows.append(np.array([s.loss.min(1), s.loss.max(1), log_sum(s.p), log_sum(s.q)]))
        loss = self._atom_losses()
        keep = np.isfinite(loss)
        rows.append(np.array([loss[keep], loss[keep], *self.atoms[keep].T]))
        least, most, p, q = np.concatenate(rows, axis=1)
        keep = p > -np.inf
        least, most, p, q = least[keep], most[keep], p[keep], q[keep]
        low, high = h * math.floor(low / h), h * math.ceil(high / h)
        return Cells(low, high, least, most, p, np.clip(p - q, least, most))


class Cells(NamedTuple):
    """Outcomes with losses up to `high`: range of the loss, log mass under P, log of P over Q."""

    low: float
    high: float
    least: np.ndarray
    most: np.ndarray
    p: np.ndarray
    middle: np.ndarray


class Grid(NamedTuple):
    """Sums of `count` losses on multiples of h, around `mean` tilted by t."""

    h: float
    t: float
    count: int
    mean: float

    def log_delta(self, first, weight, log_scale, shift, epsilon):
        """Log delta and its relative error.

        weight[i] = exp(tL - log_scale) times the mass at the loss L = (first + i) h + shift.
        """
        h, t, count = self.h, self.t, self.count
        total = weight.sum()
        w = weight / total
        size = 1 << max(1, (count * (w.size - 1)).bit_length())
        start = count * first
        if size > 2 * GRID:
            size = 2 * GRID
            start = round(count * (self.mean - shift) / h) - size // 2
        folded = np.bincount((first + np.arange(w.size)) % size, w, size)
        power = np.fft.irfft(np.fft.rfft(folded) ** count, size)
        place = start + np.arange(size)
        power = power[place % size].clip(0.0)
        u = place * h + count * shift - epsilon
        above = u > 0
        payoff = np.exp(-t * u[above]) * -np.expm1(-u[above])
        value = float(power[above] @ payoff)
        noise = 2e-15 * (count + 10) * math.sqrt(float(payoff @ payoff) * float(power @ power))
        noise += 1e-14 * payoff.max(initial=0.0)
        if not value > 0:
            return -math.inf, 1.0
        log_value = math.log(value) + count * (math.log(total) + log_scale) - t * epsilon
        return log_value, noise / value + 1e-11 * count**0.5


def _reach(centred, log_weight, count, deviation):
    """Width of an interval around the mean outside which sums have probability exp(-36)."""
    total = 0.0
    for side in (1.0, -1.0):
        best = np.inf
        for s in np.geomspace(1e-4, 10.0, 26) * 8.0 / deviation:
            cgf = float(log_sum(side * s * centred + log_weight))
            best = min(best, (37.0 + count * max(cgf, 0.0)) / s)
        total = max(total, best)
    return 2.0 * total


def _stats(s, epsilon):
    """Of every panel: range of the loss, log mass under P, rounding of the loss."""
    loss = s.loss
    return loss.min(1), loss.max(1), log_sum(s.p), rounding(s.p, s.q, epsilon).max(1)


def _dominating(law, h, t):
    """Every cell split between two points of the grid around it, with the same masses of P and Q.

    Losses below the lowest point are raised to it, cells that reach beyond the highest left out.
    """
    kept = law.most <= law.high
    a = np.floor(np.maximum(law.least[kept], law.low) / h)
    b = np.maximum(np.ceil(law.most[kept] / h), a + 1)
    middle = np.clip(law.middle[kept], a * h, b * h)
    share = np.clip(np.expm1(a * h - middle) / np.expm1((a - b) * h), 0.0, 1.0)
    below = a, (1 - share) * np.exp(t * (a * h - middle))
    above = b, share * np.exp(t * (b * h - middle))
    return (*_on_grid(law.p[kept] + t * middle, below, above), 0.0)


def _dominated(law, h, t):
    """Cells merged around the points of the grid, all lowered by a little, some by a point more."""
    middle = np.minimum(law.middle, law.high)
    kept = middle >= law.low
    p, middle = law.p[kept], middle[kept]
    a = np.floor(middle / h)
    share = middle / h - a
    log_p = p + t * middle
    up, down = middle - a * h, middle - (a + 1) * h
    p_ends = (a, (1 - share) * np.exp(-t * up)), (a + 1, share * np.exp(-t * down))
    first, tilted, scale = _on_grid(log_p, *p_ends)
    with np.errstate(all="ignore"):  # how far above its point the merged cell lies
        q_ends = (a, (1 - share) * np.exp(-(t + 1) * up)), (a + 1, share * np.exp(-(t + 1) * down))
        offset = np.nan_to_num(np.log(tilted / _on_grid(log_p, *q_ends)[1]))
    order = np.argsort(offset)
    dropped = (np.cumsum(tilted[order]) - tilted[order]) / tilted.sum()
    shift = min(float(offset[order][np.argmin(h * dropped - np.minimum(offset[order], 0))]), 0.0)
    moved = offset < shift
    placed = np.zeros(tilted.size + 1)
    placed[1:] += np.where(moved, 0.0, tilted)
    placed[:-1] += np.where(moved, tilted * math.exp(-t * h), 0.0)
    return first - 1, placed * math.exp(t * shift), scale, shift


def _on_grid(log_mass, *ends):
    """Masses exp(log_mass) share on points of the grid: the first, weights, log of scale."""
    top = float(log_mass.max())
    first = int(min(at.min() for at, _ in ends))
    last = int(max(at.max() for at, _ in ends))
    mass, weight = np.exp(log_mass - top), 0.0
    for at, share in ends:
        weight = weight + np.bincount((at - first).astype(int), mass * share, last - first + 1)
    return first, weight, top


def _summed(a, b, tolerance):
    """Sums of two finite laws (losses, log masses), equal ones merged; None if that fails."""
    if a[0].size * b[0].size > 3e6:
        return None
    loss = np.add.outer(a[0], b[0]).ravel()
    p = np.add.outer(a[1], b[1]).ravel()
    order = np.argsort(loss)
    loss, p = loss[order], p[order]
    new = np.flatnonzero(np.diff(loss, prepend=-np.inf) > tolerance)
    if (loss[np.append(new[1:] - 1, loss.size - 1)] - loss[new] > 4 * tolerance).any():
        return None  # a chain of neighbours, which are no equals
    return loss[new], np.logaddexp.reduceat(p, new)


def excess(log_p, loss, epsilon):
    """Log of p (1 - exp(eps - loss))_+."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gap = loss - epsilon
        return np.where(gap > 0, log_p + np.log(-np.expm1(-np.maximum(gap, 0))), -np.inf)


def rounding(log_p, log_q, epsilon):
    """How far rounding may move a loss."""
    sizes = (np.where(np.isfinite(v), np.abs(v), 0.0) for v in (log_p, log_q))
    return 8 * ULP * (sum(sizes) + abs(epsilon) + 1.0)


def log1mexp(x):
    """log(1 - e^x) for x < 0."""
    return np.log(-np.expm1(x)) if x > -0.7 else np.log1p(-np.exp(x))


# one step in balls

RULE: dict[int, list] = {}


def _rule(n):
    if n not in RULE:
        pairs = [arb.legendre_p_root(n, i, weight=True) for i in range(n)]
        RULE[n] = sorted(((x.mid(), w.mid()) for x, w in pairs), key=lambda row: float(row[0]))
    return RULE[n]


def _one_step_in_balls(pair, panels, atoms, epsilon):
    """Panels of the doubles that matter, cut where the loss crosses epsilon."""
    epsilon = arb(epsilon)
    total = arb(0)
    for p, q in pair.atoms:
        if q == -math.inf:
            total += arb(p).exp() if p != -math.inf else 0
        elif p != -math.inf and not p - q <= epsilon:  # balls that overlap are not decided
            part = p.exp() - (epsilon + q).exp()
            total += part if p - q > epsilon else arb(0).union(part)
    error, work, beyond = arb(0), [], -math.inf
    for piece, s in zip(pair.pieces, panels, strict=True):
        if piece.log_p is None or not s.lo.size:  # nothing, or nothing that doubles show
            continue
        for end, last in ((piece.lo, s.lo.argmin()), (piece.hi, s.hi.argmax())):
            if math.isinf(float(end)):
                beyond = max(beyond, float(log_sum(s.p[last])))
        for lo, hi, p, q in zip(s.lo, s.hi, s.p, s.q, strict=True):
            with np.errstate(invalid="ignore"):
                loss = np.where(np.isneginf(p), -np.inf, p - q)
                gap, spread = loss.max() - float(epsilon), loss.max() - loss.min()
            spread = spread if spread >= 0 else 0.0
            r = rounding(p, q, float(epsilon)).max()
            if gap + spread + r > 0:
                share = math.log(-math.expm1(-(gap + spread + r)))
                a = piece.lo if lo == float(piece.lo) else arb(float(lo))
                b = piece.hi if hi == float(piece.hi) else arb(float(hi))
                size = float(log_sum(p)) + share
                work.append((size, gap - spread - r > 0, piece, arb(a), arb(b)))
    work.sort(key=lambda job: -job[0])
    known = [size for size, above, *_ in work if above]
    floor = max(known) - 30.0 if known else max([job[0] for job in work], default=0.0) - 90.0
    for size, _, piece, a, b in work:
        if total > 0:
            floor = max(floor, float(total.log()) - 40.0)
        if size < floor:
            error += math.exp(size) if size > -700 else arb(size).exp()
            continue
        value, miss = _panel(piece, a, b, epsilon, arb(floor - 12.0).exp())
        total, error = total + value, error + miss
    low, high = (total - error).lower(), (total + error).upper()
    logs = [float(v.log().mid()) if v > 0 else -math.inf for v in (low, high)]
    if beyond > logs[1] - 30.0:
        raise Undecided("what lies beyond the last panel may matter")
    return tuple(v + s * 4 * ULP * max(abs(v), 1.0) if v > -math.inf else v
                 for v, s in zip(logs, (-1, 1), strict=True))  # fmt: skip


def _values(piece, a, b, rule):
    middle, half = (a + b) / 2, (b - a) / 2
    xs = [(middle + half * u).mid() for u, _ in rule]
    p = [piece.log_p(x) for x in xs]
    loss = [arb(math.inf)] * len(xs)
    if piece.log_q is not None:
        loss = [u - piece.log_q(x) for u, x in zip(p, xs, strict=True)]
    return xs, p, loss, half


def _integral(p, loss, rule, half, epsilon):
    return sum(
        (w * half * u.exp() * -(epsilon - v).expm1() if v < math.inf else w * half * u.exp()
         for (_, w), u, v in zip(rule, p, loss, strict=True)), arb(0),
    )  # fmt: skip


def _in_precision(make):
    """Logs of the masses of atoms, rounded once; the log of nearly one takes more bits."""
    saved, ctx.prec = ctx.prec, BITS
    try:
        while True:
            atoms = make(BALLS).atoms
            rough = (isinstance(v, arb) and v.rel_accuracy_bits() < 60 for a in atoms for v in a)
            if ctx.prec >= MOST_BITS or not any(rough):
                return [[float(v) for v in atom] for atom in atoms]
            ctx.prec *= 2
    finally:
        ctx.prec = saved


RESOLVED = 1e5  # of the range of losses, in roundings of the logs of masses ...
LOWEST_MASS = -50.0  # ... that matter


class Undecided(ArithmeticError):
    """Balls did not settle within the panels allowed."""


def _panel(piece, a, b, epsilon, tolerance, depth=0):
    """Integral of (p - e^eps q)_+ over one panel, and how far two rules differ."""
    if not a < b:
        return arb(0), arb(0)
    rule = _rule(24)
    xs, p, loss, half = _values(piece, a, b, rule)
    gaps = [v - epsilon for v in loss]
    signs = [bool(g > 0) for g in gaps]
    cuts = _cuts(piece, a, b, xs, signs, epsilon)
    high, low = max(map(float, gaps)), min(map(float, gaps))
    reach = high + 0.5 * (high - low) if high < math.inf else math.inf
    if all(signs) and not (cuts and depth < 30):
        value = _integral(p, loss, rule, half, epsilon)
        coarse = _rule(16)
        miss = abs(value - _integral(*_values(piece, a, b, coarse)[1:3], coarse, half, epsilon))
        if miss < value * arb(2) ** -60 + tolerance or depth > 60:
            return value.mid(), miss
    elif reach < 0 and not cuts:
        return arb(0), arb(0)
    else:
        most = 2 * half * max(p, key=float).exp() * 3 * (1 - (-arb(max(reach, 0.0))).exp())
        if most < tolerance or depth > 60:
            return arb(0), most
        if cuts and depth < 30:
            parts = [_panel(piece, u, v, epsilon, tolerance, depth + 31)
                     for u, v in pairwise([a, *cuts, b])]  # fmt: skip
            return sum((v for v, _ in parts), arb(0)), sum((e for _, e in parts), arb(0))
    middle = ((a + b) / 2).mid()
    parts = [_panel(piece, u, v, epsilon, tolerance, depth + 1)
             for u, v in ((a, middle), (middle, b))]  # fmt: skip
    return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]


def _cuts(piece, a, b, xs, signs, epsilon):
    """Where the loss crosses epsilon between nodes, or between them and the ends of a panel."""
    if piece.log_q is None:
        return []
    gaps = [piece.log_p(x) - piece.log_q(x) - epsilon for x in (a, b)]
    ends = [
        bool(g > 0) if g.is_finite() else s
        for g, s in zip(gaps, signs[:: len(xs) - 1], strict=True)
    ]
    rows = zip([a, *xs, b], [ends[0], *signs, ends[1]], strict=True)
    return [_crossing(piece, u, v, epsilon) for (u, s), (v, t) in pairwise(rows) if s != t]


def _crossing(piece, a, b, epsilon):
    """Where the loss equals epsilon between a and b, by bisection."""

    def above(x):
        return piece.log_p(x) - piece.log_q(x) > epsilon

    rising = above(b)
    for _ in range(200):
        middle = ((a + b) / 2).mid()
        if not a < middle < b or b - a < abs(b) * arb(2) ** -150:
            break
        a, b = (a, middle) if above(middle) == rising else (middle, b)
    return ((a + b) / 2).mid()
