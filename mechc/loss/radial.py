"""The law of the loss of radial noise on R^d: density proportional to f(|x|), moved by D.

Let a be the distance of the output to the centre of P and b that to the centre of Q, and
phi = -log f. The loss is phi(b) - phi(a), and a and b are all that matters of d dimensions: with
rho the distance from the axis through both centres (Heron's formula gives it), dx is
S rho^(d-3) a b / D da db, S the area of the unit sphere of R^(d-1). So the density of the loss l is

    g(l) = S / D * integral of rho^(d-3) a b f(a) / phi'(b) da,    phi(b) = phi(a) + l,

over the a with |a - b| <= D <= a + b. In cos(theta), which the ends of that interval make of log a,
the integrand is smooth for every whole d >= 2, but where a or b is a radius at which the formula of
f changes: there the interval is cut. Mirroring exchanges a and b: g(-l) = exp(-l) g(l).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from mechc.errors import NumericError, UnsupportedError
from mechc.loss.moments import log_total
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.loss.quadrature.rule import NODES, WEIGHTS
from mechc.loss.tabulated import Table, fit, tabulated_loss, unresolved
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats

DEPTH = 745.0  # nats below its largest value, where a density is nothing
FARTHEST = 32.0  # log of a in units of D, beyond which b - a has no digits
GRID = 4000  # radii between which the profile is inverted at first
STEPS = 7  # of Newton with the slopes of the grid, each of which gains two digits
PANELS = (250, 500, 1000, 2000, 4000)  # between two corners, for the mass
MARGIN = 0.1  # in log r, beyond the largest radius
HALVINGS = 54  # each to .55 of a bracket: to 1e-14 of it
NEXT = 8  # nodes next to an end, some of which rounding may have put beyond it
SHARE = 50.0  # nats below the largest value of an integrand, beyond which it is left out
ORDERS = (24, 48, 96, 192, 384, 768)  # of the rule in theta
SETTLED = 1e-12  # change from one order to the next
LAST = (4.5, 5.5, 6.5, 7.5, 8.5)  # atanh(l / top) up to which g may have to be computed ...
FURTHER = (0.5, 1.0, 1.5)  # in the same units, where its form at the end is held against it ...
AT_TOP, HALF = 16.0, 0.5  # atanh(l / top) and error up to which g serves where they do not
AGREED = 1e-7  # ... until they agree; by how much is an error of all that the form stands for
PAIRS = 2.0**48  # steps of a binade: sizes closer than 32 roundings are one
FIRST = (0.0, *(2.0**i for i in range(-9, 0)), *(0.5 * i for i in range(2, 17)))  # of panels
FAR = 40  # panels beyond these, so that `fit` is left some
SHORTEST = 1e-13  # of a panel
SLIVER = -34.0  # log of a mass that need not be resolved
RANGE = 60.0  # nats by which radii reach below D


class Fall(NamedTuple):
    """How a density falls with the radius r.

    Attributes:
        log: log f at radii, up to a constant.
        slope: r times the derivative of log f.
        corners: radii at which the formula of f changes.
    """

    log: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]
    corners: tuple[float, ...]


class Profile:
    """phi on log radii, its slope and its inverse.

    Attributes:
        scale: log of the largest radius that matters.
        top: log of one that is further by the distance.
        corners: logs of the radii at which the formula of phi changes.
    """

    def __init__(self, fall: Fall, dimension: int, distance: float) -> None:
        """Find the range of radii that matters.

        Raises:
            UnsupportedError: f vanishes, or does not fall strictly.
        """
        self._fall, self.dimension, self.distance = fall, dimension, distance
        centre = math.log(distance)
        y = centre + np.arange(-RANGE, 345.0, 0.05)
        with np.errstate(invalid="ignore"):
            shell = dimension * y + fall.log(np.exp(y))
        peak = np.nanmax(shell)
        seen = np.flatnonzero(shell > peak - DEPTH)
        if not shell[-1] < peak - SHARE:
            raise UnsupportedError("the density falls too slowly to have a finite mass")
        if not np.isfinite(shell[: seen[-1] + 2]).all():
            raise UnsupportedError("the density vanishes at some radius")
        self.scale = float(y[seen[-1]])
        self.top = math.log(math.exp(self.scale) + distance) + MARGIN
        self.corners = np.log(fall.corners)
        self.log_volume = self._log_volume(float(y[seen[0]]))
        grid = np.linspace(math.log(0.5 * distance), self.top, GRID)
        inner = self.corners[(grid[0] < self.corners) & (self.corners < self.top)]
        self._y = np.union1d(grid, inner)
        self._phi = self(self._y)
        if not (np.diff(self._phi) > 0.0).all():
            raise UnsupportedError("the density does not fall strictly with the radius")
        self._slopes = np.diff(self._phi) / np.diff(self._y)

    def _log_volume(self, low: float) -> float:
        inner = self.corners[(low < self.corners) & (self.corners < self.top)]
        ends, before = np.array([low, *inner, self.top]), math.nan
        for count in PANELS:
            edges = np.unique(np.linspace(ends[:-1], ends[1:], count + 1))
            half = 0.5 * np.diff(edges)[:, None]
            y = edges[:-1, None] + half * (1.0 + NODES)
            found = log_total((self.dimension * y - self(y) + np.log(half * WEIGHTS)).ravel())
            if abs(found - before) < SETTLED:
                return float(found)
            before = found
        raise NumericError("the mass of the radius is not resolved")

    def __call__(self, y: Floats) -> Floats:
        """Return phi at log radii, of any shape."""
        found: Floats = -self._fall.log(np.ascontiguousarray(np.exp(y).ravel())).reshape(y.shape)
        return found

    def slope(self, y: Floats) -> Floats:
        """Return d phi / d log r."""
        out: Floats = -self._fall.slope(np.exp(y).ravel()).reshape(y.shape)
        return out

    def inverse(self, phi: Floats) -> Floats:
        """Return log radii, at least half the distance, at which phi has these values."""
        flat = phi.ravel()
        y = np.interp(flat, self._phi, self._y)
        cell = np.clip(np.searchsorted(self._phi, flat) - 1, 0, self._slopes.size - 1)
        for _ in range(STEPS):
            y += (flat - self(y)) / self._slopes[cell]
            np.clip(y, self._y[0], self._y[-1], out=y)
        found: Floats = y.reshape(phi.shape)
        return found

    def largest(self) -> float:
        """Return the largest loss that matters, on the axis beyond the centre of P."""

        def rise(y: Floats) -> Floats:
            found: Floats = self(np.log(np.exp(y) + self.distance)) - self(y)
            return found

        y = np.linspace(math.log(self.distance) - RANGE, self.scale, GRID)
        found = rise(y)  # far out its digits are lost
        best = int(np.argmax(found > found.max() - 8.0 * EPS * np.abs(self(y)).max()))
        ends = y[[max(best - 1, 0), min(best + 1, GRID - 1)]]
        place = _least(lambda y: -rise(y), *(np.array([end]) for end in ends))
        return float(max(rise(place)[0], found[best]))


def _least(f: Callable[[Floats], Floats], lo: Floats, hi: Floats) -> Floats:
    """Where a function with one minimum has it, by sections."""
    for _ in range(HALVINGS):
        left, right = lo + 0.45 * (hi - lo), lo + 0.55 * (hi - lo)
        falls = f(left) > f(right)
        lo, hi = np.where(falls, left, lo), np.where(falls, hi, right)
    return 0.5 * (lo + hi)


def _edge(inside: Callable[[Floats], NDArray[np.bool_]], out: Floats, within: Floats) -> Floats:
    """The last place inside on the way from `within` to `out`, by halving."""
    if inside(out).all():
        return out
    for _ in range(HALVINGS):
        middle = 0.5 * (out + within)
        good = inside(middle)
        within, out = np.where(good, middle, within), np.where(good, out, middle)
    return within


@lru_cache(maxsize=16)
def _rule(order: int, periodic: bool) -> tuple[Floats, Floats]:
    """Nodes and weights in theta, for what is smooth, or an even periodic function as well."""
    if periodic:  # the midpoint rule, none of whose nodes is as near to an end
        places = np.arange(0.5, order, dtype=np.float64)
        return np.pi / order * places, np.full(order, np.pi / order, np.float64)
    x, weight = np.polynomial.legendre.leggauss(order)
    return 0.5 * np.pi * (1.0 + x), 0.5 * np.pi * weight


class Density:
    """g on positive losses."""

    def __init__(self, profile: Profile) -> None:
        """Hold the profile."""
        self.profile = profile
        d = profile.dimension
        # the ratio of the areas of the unit spheres of R^(d-1) and R^d
        self._log_areas = float(
            scipy.special.gammaln(0.5 * d) - scipy.special.gammaln(0.5 * (d - 1))
        ) - 0.5 * math.log(math.pi)

    def _other(self, y: Floats, loss: Floats) -> Floats:
        """Log b at log a and losses."""
        return self.profile.inverse(self.profile(y) + loss)

    def _log_integrand(self, y: Floats, loss: Floats) -> tuple[Floats, Floats]:
        """Log of rho^(d-3) (a b)^2 f(a) / (D b phi'(b)), what it is in log a, and its rounding."""
        profile, w = self.profile, self._other(y, loss)
        a, b, distance, power = np.exp(y), np.exp(w), profile.distance, profile.dimension - 3
        phi, slope = profile(y), profile.slope(w)
        more, less = a + b - distance, distance - (b - a)
        with np.errstate(divide="ignore", invalid="ignore"):
            square = more * (a + b + distance) * less * (distance + b - a)
            log_rho = 0.5 * np.log(square) - math.log(2.0 * distance)
            out = power * log_rho + 2.0 * (y + w) - math.log(distance) - phi - np.log(slope)
            # b is as good as phi
            moved = EPS * b * (1.0 + np.abs(phi + loss) / slope)
            rounding = 0.5 * abs(power) * moved * (1.0 / np.abs(more) + 1.0 / np.abs(less))
        inside = (more > 0.0) & (less > 0.0)
        return np.where(inside, out, -np.inf), np.where(inside, rounding, 0.0)

    def _ends_moved(self, y: Floats, loss: Floats) -> Floats:
        """By how much rounding of b may move an end in log a."""
        profile, w = self.profile, self._other(y, loss)
        a, b, slope = np.exp(y), np.exp(w), profile.slope(w)
        # at an end a + b or b - a is the distance, which may hardly change with a
        side = np.where(np.abs(a + b - profile.distance) < np.abs(b - a - profile.distance), 1, -1)
        change = np.abs(b * profile.slope(y) / slope + side * a)
        with np.errstate(divide="ignore"):
            moved = b * (1.0 + np.abs(profile(y) + loss) / slope) / change
        return np.asarray(np.minimum(EPS * (1.0 + np.abs(y) + moved), 1.0))

    def _cuts_moved(self, cuts: Floats, loss: Floats) -> Floats:
        """By how much rounding may move ends, and the places between them."""
        phi, slope = self.profile(cuts), self.profile.slope(cuts)
        moved = np.minimum(EPS * (1.0 + np.abs(cuts) + (1.0 + np.abs(phi + loss)) / slope), 1.0)
        moved[:, [0, -1]] = self._ends_moved(cuts[:, [0, -1]], loss)
        return moved

    def _interval(self, loss: Floats) -> tuple[Floats, Floats]:
        """Ends of the interval of log a, without what is next to nothing there."""
        profile = self.profile
        distance, middle = profile.distance, math.log(0.5 * profile.distance)
        first = np.full(loss.shape, math.log(distance) - RANGE)
        last = np.full(loss.shape, min(profile.scale, math.log(distance) + FARTHEST))

        def apart(y: Floats) -> Floats:
            found: Floats = np.exp(self._other(y, loss)) - np.exp(y)
            return found

        lo = _edge(
            lambda y: np.exp(self._other(y, loss)) + np.exp(y) >= distance, first,
            np.full(loss.shape, middle + 4.0 * EPS),
        )  # fmt: skip
        grid = lo + (last - lo) * np.linspace(0.0, 1.0, 65)
        best = np.argmin(apart(grid), axis=1)[:, None]
        around = [np.take_along_axis(grid, np.clip(best + i, 0, 64), axis=1) for i in (-1, 0, 1)]
        place = around[1]
        if ((best > 0) & (best < 64)).any():
            place = _least(apart, around[0], around[2])
        ends = [_edge(lambda y: apart(y) <= distance, end, place) for end in (lo, last)]
        for _ in range(4):
            grid = ends[0] + (ends[1] - ends[0]) * np.linspace(0.0, 1.0, 65)
            size = self._log_integrand(grid, loss)[0]
            seen = size > size.max(axis=1, keepdims=True) - SHARE
            low = np.maximum(np.argmax(seen, axis=1) - 1, 0)[:, None]
            high = 64 - np.maximum(np.argmax(seen[:, ::-1], axis=1) - 1, 0)[:, None]
            ends = [np.take_along_axis(grid, i, axis=1) for i in (low, high)]
        return ends[0], ends[1]

    def _cuts(self, lo: Floats, hi: Floats, loss: Floats) -> Floats:
        """The ends and the places between them at which a or b is at a corner, in order."""
        cuts = [lo, hi]
        for corner in self.profile.corners:
            cuts.append(np.clip(np.full_like(lo, corner), lo, hi))
            cuts.append(_edge(lambda y, at=corner: self._other(y, loss) <= at, hi, lo))  # type: ignore[misc]
        return np.sort(np.concatenate(cuts, axis=1), axis=1)

    def __call__(self, losses: Floats) -> tuple[Floats, Floats]:
        """Return log g at losses >= 0, and errors: changes from one rule to the next, rounding."""
        loss = losses[:, None]
        cuts = self._cuts(*self._interval(loss), loss)
        moved, hi = self._cuts_moved(cuts, loss), cuts[:, -1]
        found = np.full(losses.size, math.nan)
        error = np.full(losses.size, math.inf)
        todo = np.arange(losses.size)
        periodic = self.profile.dimension % 2 == 0 and cuts.shape[1] == 2
        for order in ORDERS:
            theta, weight = _rule(order, periodic)
            half = 0.5 * np.diff(cuts[todo])[:, :, None]
            y = cuts[todo, :-1, None] + half * (1.0 - np.cos(theta))
            terms, off = self._log_integrand(y.reshape(todo.size, -1), loss[todo])
            with np.errstate(invalid="ignore", divide="ignore"):  # where no y is left: nan
                log_weight = np.log(half * np.sin(theta) * weight).reshape(terms.shape)
                new, noise = self._summed(terms, log_weight, off, moved[todo])
            change = np.abs(new - found[todo])
            error[todo], found[todo] = change + noise, new
            todo = todo[~(change < np.maximum(SETTLED, noise))]
            if not todo.size:
                break
        error = np.where(np.isnan(error), math.inf, error)
        rounding = 8.0 * EPS * (1.0 + np.abs(self.profile(hi)))
        out: Floats = found + self._log_areas - self.profile.log_volume
        return out, np.asarray(error + rounding)

    def _summed(
        self, terms: Floats, log_weight: Floats, off: Floats, moved: Floats
    ) -> tuple[Floats, Floats]:
        """Log of the integral by its terms, and what their rounding and that of cuts moves."""
        log_size = terms + log_weight
        most = log_size.max(axis=1)
        share = np.exp(log_size - most[:, None])
        total = share.sum(axis=1)
        noise = (share * np.minimum(off, 1.0)).sum(axis=1) / total
        found = most + np.log(total)
        heights = np.exp(terms - found[:, None]).reshape(found.size, moved.shape[1] - 1, -1)
        # a cut that moves gives what is on its one side to the other
        jumps = np.abs(heights[:, 1:, 0] - heights[:, :-1, -1])
        noise += np.minimum(moved[:, 1:-1] * jumps, 1.0).sum(axis=1)
        if self.profile.dimension > 2:  # else the terms are infinite there, and rounded as such
            ends = np.stack(
                [heights[:, 0, :NEXT].max(axis=1), heights[:, -1, -NEXT:].max(axis=1)], axis=1
            )
            noise += np.minimum(moved[:, [0, -1]] * ends, 1.0).sum(axis=1)
        return found, noise


def radial_loss(fall: Fall, dimension: int, distance: float, label: str) -> PrivacyLoss:
    """Return the law of the loss of radial noise, which is its own mirror image.

    Args:
        fall: the density by its distance from the centre.
        dimension: d >= 2.
        distance: by which P is moved.
        label: words for messages.

    Raises:
        UnsupportedError: the density vanishes at some radius, or does not fall strictly.
        NumericError: the density of the loss is not resolved.
    """
    try:
        profile = Profile(fall, dimension, distance)
        top = profile.largest()
        table, errors = _tabulated(Density(profile), top, _corners(profile))
    except (NumericError, UnsupportedError) as why:
        raise type(why)(f"{label}: {why}") from why
    cut, sharp = unresolved(table, errors, top)
    error = float(errors[errors <= sharp].max(initial=0.0))
    return tabulated_loss(table, (-math.inf, -math.inf), (cut, cut), error, label, top)


def _corners(profile: Profile) -> Floats:
    """Losses at which g is not smooth: a or b is 0, or at a corner, at an end or both at once."""
    radii = np.exp(np.append(profile.corners, math.log(profile.distance) - RANGE))
    at = profile(np.log(radii))
    with np.errstate(divide="ignore"):
        beside = np.abs(radii + profile.distance * np.array([[1.0], [-1.0]]))
        ends = profile(np.log(np.maximum(beside, radii[-1]))) - at
    return np.unique(np.abs(np.append(ends, at[:, None] - at)))


def _tabulated(density: Density, top: float, corners: Floats) -> tuple[Table, Floats]:
    """Log density under Q of x = atanh(l / top), that is sqrt(g(l) g(-l)) exp(-l/2), and errors."""

    def even(x: Floats) -> tuple[Floats, Floats]:
        log_g, error = density(top * np.tanh(x))
        return log_g - 0.5 * top * np.tanh(x) + _log_slope(top, x), error

    form, last, end, gap = _form(even)

    def values(x: Floats) -> tuple[Floats, Floats]:
        part, power = np.frexp(np.abs(x))  # but for a rounding they come in pairs
        part = np.round(part * PAIRS) / PAIRS
        size, back = np.unique(np.ldexp(part, power), return_inverse=True)
        error = np.zeros(size.size)
        value = _rows(size) @ form
        near = size <= last
        if near.any():
            value[near], error[near] = even(size[near])
        return value[back] - 0.5 * top * np.tanh(x), error[back]

    def floor(x: Floats) -> Floats:
        small = SLIVER - np.log(np.abs(x) + 1e-300)
        return np.where(np.abs(x) < FIRST[1], small, -DEPTH) - 0.5 * top * np.tanh(x)

    # far out the form is a straight line
    edges = [*FIRST, *np.arange(9.0, end, max(1.0, (end - 9.0) / FAR)).tolist(), last, end]
    inner = corners[(corners > 0.0) & (corners < top * (1.0 - 1e-6))]
    edges.extend(np.arctanh(inner / top).tolist())
    some = np.unique([edge for edge in edges if edge <= end])
    table, errors = fit(values, np.concatenate([-some[:0:-1], some]), floor, shortest=SHORTEST)
    far = np.maximum(np.abs(table.edges[:-1]), np.abs(table.edges[1:])) > last
    return table, np.where(far, errors + gap, errors)


def _rows(x: Floats) -> Floats:
    """Terms of log g + log(dl/dx) towards the end, where it is k log(top - l) and a power series.

    There log(top - l) is -2x but for a constant.
    """
    return np.stack([np.ones(x.size), x, np.exp(-2.0 * x), np.exp(-4.0 * x)], axis=1)


def _form(
    even: Callable[[Floats], tuple[Floats, Floats]],
) -> tuple[Floats, float, float, float]:
    """Coefficients of these terms, where they stand for the function, to what end, and error."""
    for last in LAST:
        x = last + np.array([-1.5, -1.0, -0.5, 0.0, *FURTHER])
        seen, noise = even(x)
        form: Floats = np.linalg.solve(_rows(x[:4]), seen[:4]).astype(np.float64)
        gap = float(np.abs(_rows(x[4:]) @ form - seen[4:]).max() + noise.max())
        known = gap < AGREED and form[1] < 0.0
        if known or seen[3] < 0.9 * -DEPTH:
            break
    if not known:
        if not seen[3] < 0.9 * -DEPTH:
            x = np.arange(0.25, AT_TOP, 0.25)
            good = np.append(even(x)[1] < HALF, False)
            last = float(x[max(int(np.argmin(good)), 1) - 1])
        return form, last, last, 0.0
    level, slope = form[:2].tolist()
    return form, last, float(last + max(level + slope * last + DEPTH, 0.0) / -slope), gap


def _log_slope(top: float, x: Floats) -> Floats:
    """Log of the derivative of top tanh(x), x >= 0."""
    out: Floats = math.log(4.0 * top) - 2.0 * x - 2.0 * np.log1p(np.exp(-2.0 * x))
    return out
