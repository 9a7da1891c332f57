"""Generating functions along the grid: K(t) of every member at real tilts, as ledger columns.

Everything a person needs is a sum over steps of some function of the step's parameter, hence a
product of the ledger's row with columns of a table. A table is evaluated at the knots and, for
splines, at members between them, from which the error of the spline is proven (`Brackets`). Counts
stand for the worse knots of their buckets, an upper bound by T9; moved by a knot they put every
step at the better one, with those beyond the last knot left out: a lower bound by the same table
(`ledger.times`).

Members whose K(t) exceeds `TOO_FAR` at a tilt cannot matter there: their columns are set to a value
that keeps every person who used them away from that tilt.
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.individual.family import Family
from mechc.individual.splines import SHARE, Brackets, Grid, spline_coefficients, subdivision
from mechc.individual.storage import NOWHERE, Shelf
from mechc.loss.privacy_loss import PrivacyLoss, covering
from mechc.loss.quadrature import TOGETHER
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats

Values = NDArray[Any]

TOO_FAR = 100.0  # nats of K per step beyond which a tilt is of no use to anyone
FORBIDDEN = 1e30  # stands for K where it is too far, or diverges, and ...
UNKNOWN = 1e23  # less than the least weight of it, and more than all steps can have otherwise
RATIO = 1.12  # between neighbouring tilts
TILTS = 0.05 * RATIO ** np.arange(168.0)  # up to 8e6
REACHES = (240.0, 4000.0, 1e7)  # tilts looked at, the fewest that are enough for everybody
_NEAR, _STRIDE = 20.0, 4.0  # tilts covered at first, and how much further every time ...
_LEAST = 1.5  # ... until that is too far, down to this
STENCIL = 3  # knots outside a bucket that its spline depends on


class Members:
    """The laws at the knots of a grid and between them, in one direction.

    Attributes:
        grid: the grid.
        positions: places on the grid; knots first, then (for splines) what brackets need.
        values: parameter values there.
    """

    def __init__(self, family: Family, grid: Grid, direction: str) -> None:
        """Bind the family to the grid's parameter values."""
        self.grid, self._direction, self._family = grid, direction, family
        self._alternates = family.alternates if grid.splines else (1, 1)
        between = subdivision(grid, *self._alternates, SHARE) if grid.splines else np.empty(0)
        self.positions = np.concatenate([np.arange(grid.buckets + 1.0), between])
        self.values = grid.values(self.positions)
        self._brackets: dict[tuple[int, int], Brackets] = {}
        self._losses: dict[int, PrivacyLoss] = {}
        self._rows: dict[tuple[int, float], Floats] = {}
        self._widened: dict[int, PrivacyLoss | None] = {}  # by `rows`, None where they end

    def losses(self, indices: list[int]) -> list[PrivacyLoss]:
        """Return the laws of some members, with nodes of their own.

        Nodes accumulate in a law: one that has served a far tilt would be slow on every contour.
        """
        missing = [i for i in indices if i not in self._losses]
        made = self._family.losses(self.values[missing].tolist(), self._direction)
        self._losses.update(zip(missing, made, strict=True))
        return [self._losses[i].fork() for i in indices]

    def rows(self, indices: list[int], reach: float) -> list[Floats]:
        """Return K, its error and K'' of some members at useful tilts up to `reach`.

        A row continues those of nearer reach, whether these were asked for or not.
        """
        near = 0.0
        for far in (*(far for far in REACHES if far < reach), reach):
            missing = [i for i in indices if (i, far) not in self._rows]
            for begin in range(0, len(missing), TOGETHER):
                some = missing[begin : begin + TOGETHER]
                rows = [self._rows.get((i, near), np.empty((3, 0))) for i in some]
                laws = [self._widened.get(i) for i in some]
                if not near:
                    laws = [*self.losses(some)]
                at_tilts(laws, rows, far)
                self._rows.update(zip([(i, far) for i in some], rows, strict=True))
                self._widened.update(zip(some, laws, strict=True))
            near = far
        return [self._rows[i, reach] for i in indices]

    def require_order(self, t: Floats, k: Floats) -> None:
        """Refuse a family of which a member has a larger K(t) than a worse one.

        The order is checked at few members when the family is made; here are all that answers rest
        on. Listed ones stand for themselves alone.
        """
        order = np.argsort(self.positions)
        low, high = k[order, 0] - k[order, 1], k[order, 0] + k[order, 1]
        wrong = np.argwhere(low[1:] > high[:-1])
        if wrong.size and not self.grid.listed:
            i, at = wrong[0].tolist()
            better, worse = self.values[order[i + 1]], self.values[order[i]]
            raise self._family.unordered(better, worse, f"the moment of order {t[at]:g}")

    def needed(self, span: tuple[int, int], reach: int = STENCIL) -> NDArray[np.bool_]:
        """Return which members tables for buckets between these two depend on."""
        near = self.positions >= span[0] - reach
        return np.asarray(near & (self.positions <= span[1] + 1 + reach))

    def columns(
        self, table: Values, radius: Floats, span: tuple[int, int], growth: Floats | None = None,
    ) -> tuple[Values, Floats]:  # fmt: skip
        """Turn rows for members into rows for columns of the ledger, and their errors.

        `table` is K at real tilts, or K(c) and log phi at nodes, nan where a member is too far, and
        `radius` the error of log M, shape (members, m); steps may be in the buckets of `span`, and
        `growth` is |z (z+1)| / (c (c+1)) of the nodes, None for real tilts. What is returned has
        shape (columns, m), nan for buckets next to a member that is too far.
        """
        n = self.grid.buckets
        out = self.coefficients(table)
        if not self.grid.splines:
            return out, radius[: n + 1].copy()
        errors = np.zeros(out.shape)
        errors[n + 3] = radius[n]
        first, last = known(table[: n + 1])
        if last - first >= 3:
            log_m, a = table, out[first : last + 3]
            if growth is not None:  # log phi is log M less log M(c)
                log_m, a = table.copy(), a.copy()
                log_m[:, 1:] += log_m[:, :1]
                a[:, 1:] += a[:, :1]
            buckets = np.full((n, table.shape[1]), -np.inf)
            if (first, last) not in self._brackets:
                made = Brackets(self.grid, self.positions, (first, last), *self._alternates)
                self._brackets[first, last] = made
            brackets = self._brackets[first, last]
            buckets[first:last] = brackets.radius(log_m, radius, growth, a)
            errors[: n + 3] = per_column(buckets, span)
        errors[np.isnan(out.real)] = np.nan
        return out, errors

    def coefficients(self, table: Values) -> Values:
        """Turn rows for members into rows for columns of the ledger, without their errors."""
        n = self.grid.buckets
        if not self.grid.splines:
            return table[: n + 1].copy()
        out = np.full((n + 4, table.shape[1]), np.nan, table.dtype)
        first, last = known(table[: n + 1])
        if last - first >= 3:
            out[first : last + 3] = spline_coefficients(table[first : last + 1])
        out[n + 3] = table[n]
        return out


def rounding(table: Values) -> Floats:
    """Bound what products of ledger rows with columns are off by, for every step in a column.

    A sum of n products is off by at most n EPS / 2 times the sum of their sizes.
    """
    size: Floats = np.abs(table.real) + np.abs(table.imag)
    return EPS * (len(table) + 4.0) * size


def per_column(buckets: Floats, span: tuple[int, int]) -> Floats:
    """Return for every spline column the largest value of the buckets of a span it reaches over."""
    buckets = buckets.copy()
    buckets[: span[0]] = buckets[span[1] + 1 :] = -np.inf
    beside = np.full((3, *buckets.shape[1:]), -np.inf)
    wide = np.concatenate([beside, buckets, beside])
    n = buckets.shape[0] + 3
    found = np.maximum.reduce([wide[i : i + n] for i in range(4)])
    return np.where(np.isneginf(found), 0.0, found)  # columns that nobody used


def known(knots: Values) -> tuple[int, int]:
    """Return the first and the last knot between which all columns are known; (1, 0) if none."""
    there = ~np.isnan(knots.real).any(axis=1)
    if not there.any():
        return 1, 0
    last = int(np.flatnonzero(there)[-1])
    missing = np.flatnonzero(~there[:last])
    return (int(missing[-1]) + 1 if missing.size else 0), last


class Tilts:
    """K at real tilts.

    Attributes:
        members: whose K it is.
        span: the most revealing and the most private bucket that are tabulated.
        t: tilts, increasing by `RATIO`.
        complete: whether larger tilts are too far even for the best member.
        k: K(t), its error and K''(t), nan where too far, shape (members, 3, tilts).
    """

    def __init__(
        self, members: Members, span: tuple[int, int], reach: float, shelf: Shelf = NOWHERE,
    ) -> None:  # fmt: skip
        """Tabulate tilts up to `reach`, or to where they are too far for everybody."""
        self.members, self.span, self.key = members, span, (span, reach)
        found = shelf.take(("tilts", span, reach), partial(self._made, reach))
        self.t, self.k = found["t"], found["k"]
        members.require_order(self.t, self.k)
        self.complete = self.t.size < (reach >= TILTS).sum() or self.t.size == TILTS.size

    def _made(self, reach: float) -> dict[str, Floats]:
        """Tabulate."""
        members, span, needed = self.members, self.span, self.members.needed(self.span)
        useful = members.rows([min(span[1] + 1, members.grid.buckets)], reach)[0].shape[1]
        t = TILTS[reach >= TILTS][: max(useful, 1)].copy()  # one tells who is not touched
        k = np.full((needed.size, 3, t.size), np.nan)
        indices = np.flatnonzero(needed).tolist()
        for i, row in zip(indices, members.rows(indices, reach), strict=True):
            k[i, :, : row.shape[1]] = row[:, : t.size]
        return {"t": t, "k": k}

    @cached_property
    def columns(self) -> Floats:
        """Columns of K(t) plus its error, the error, and K''(t), (3, columns, tilts).

        The rounding of products of ledger rows with them is part of the error. K(t) is `FORBIDDEN`
        where the tilt is useless.
        """
        members, k = self.members, self.k
        found = np.empty((3, members.grid.columns, self.t.size))
        far = np.isnan(k[: members.grid.buckets + 1, 0]).sum(axis=0)
        for missing in np.unique(far):
            m = np.flatnonzero(far == missing)
            value, error = members.columns(k[:, 0, m], k[:, 1, m], self.span)
            error += rounding(value)
            bend = members.coefficients(k[:, 2, m])
            useless = ~np.isfinite(value + error)
            stand_in = zip((value + error, error, bend), (FORBIDDEN, 0.0, 0.0), strict=True)
            found[:, :, m] = [np.where(useless, away, v) for v, away in stand_in]
        return found

    def together(self, stride: int) -> Floats:
        """Return errors, K(t) plus its error, and K''(t); all but K for every so many tilts."""
        k, error, bend = self.columns
        return np.concatenate([error[:, ::stride], k, bend[:, ::stride]], axis=1)


def covered(laws: list[PrivacyLoss], *about: Any) -> list[PrivacyLoss | None]:
    """Return what `covering` makes of many laws; None of those for which the quadrature gives up.

    Each is what it would be alone.
    """
    try:
        return [*covering(laws, *about)]
    except NumericError:
        if len(laws) == 1:
            return [None]
        return [covered([law], *about)[0] for law in laws]


def at_tilts(laws: list[PrivacyLoss | None], rows: list[Floats], reach: float) -> None:
    """Extend rows of K, its error and K'' of members at the tilts of their strips up to `reach`.

    They end before K exceeds `TOO_FAR`; None stands for their laws then. Laws are widened in
    strides, all that are as far together; where the quadrature gives up a stride is halved.
    """
    most, strides = int(TILTS.searchsorted(reach, side="right")), [_STRIDE for _ in laws]
    open_ = [i for i, law in enumerate(laws) if law]
    while open_:
        alike: dict[tuple[int, int], list[tuple[int, PrivacyLoss]]] = {}
        for i in open_:
            law, begin = laws[i], rows[i].shape[1]
            if law is None:
                continue
            size = int(TILTS.searchsorted(law.strip[1] * (1.0 - 1e-6)))
            if begin >= min(size, most):
                laws[i] = law if size > most else None
                continue
            far = max(strides[i] * float(TILTS[begin]), _NEAR)
            end = max(int(TILTS.searchsorted(far, side="right")), begin + 1)
            alike.setdefault((begin, min(end, size, most)), []).append((i, law))
        open_ = []
        for (begin, end), some in alike.items():
            t = TILTS[begin:end].copy()
            wider = covered([law for _, law in some], -1.0, float(t[-1]))
            for (i, _), law in zip(some, wider, strict=True):
                if law is None and strides[i] > _LEAST and begin:
                    strides[i] = math.sqrt(strides[i])
                    open_.append(i)
                    continue
                laws[i], strides[i] = law, _STRIDE
                if law is None:
                    continue
                k, _, bend, error = law.generating_function.at(t)[:, 0]
                useful = int(np.argmax(np.append(k, math.inf) >= TOO_FAR))
                part = np.stack([k, error + law.tolerance, bend])[:, :useful]
                rows[i] = np.append(rows[i], part, axis=1)
                if useful < t.size:
                    laws[i] = None
                else:
                    open_.append(i)
