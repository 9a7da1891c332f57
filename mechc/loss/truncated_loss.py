"""Parts of a privacy loss: panels on which losses lie in a range, and laws that have no panels.

A positive measure chi(L) dP, chi smooth but quick, has the nodes of the law where these resolve
chi too: a `Band` is cut where chi changes fast. How well nodes do shows in the coefficients of
chi p exp(zL) on every panel.

Where P and Q are millions of standard deviations apart, losses of 1e12 and tilted laws between the
two defeat any quadrature. An `UnresolvedLoss` stands for such a law: it answers how likely a small
loss is, or a large one, and refuses the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.loss.bound_kernel import KernelSource
from mechc.loss.branches import formulas_agree
from mechc.loss.one_step import log_shares, within
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.loss.quadrature import Quadrature, with_waves
from mechc.loss.quadrature.rule import ORDER
from mechc.protocol import Floats, Kernel

Edges = tuple[float, float]

PIECES = 9.0  # panels on which a function rises from 0 to 1
AT_ONCE, ROUNDS, LARGEST = 10, 8, 1e6  # pieces of a panel at once, and how often
NATS, FADED = 8.0, 60.0  # by which the density may fall there on one panel, and at all
FLAT = 1e-13  # relative change of a loss that may be rounding
MARGIN = 0.1  # of a panel, beyond the outermost nodes


class Band:
    """Some panels of a privacy loss, and its atoms.

    Attributes:
        loss, log_weight: nodes, then atoms.
        smooth: how many nodes stand before the atoms.
        spacing: length on the loss axis that each node stands for, see PrivacyLoss.
        region: the interval of outputs that each node belongs to.
    """

    def __init__(self, law: PrivacyLoss) -> None:
        """Take all panels of a law."""
        source = law.source
        assert source is not None
        self._reverse = law.is_reversed
        self._atoms = law.atom_loss, law.atom_log_mass
        self._take(source.panels if source.continuous else None)

    def cut(self, edges: Sequence[Edges]) -> Band:
        """Return a copy with finer panels where a function of the loss rises between two edges."""
        band = self
        for _ in range(ROUNDS):
            if band._panels is None:
                break
            parts = band._pieces(edges)
            if not (parts > 1).any():
                break
            band = band._with(band._panels.cut(np.minimum(parts, AT_ONCE)))
        return band

    def _pieces(self, edges: Sequence[Edges]) -> NDArray[np.int64]:
        """Into how many each panel has to be cut, if all of it met the edges that it meets."""
        least, most = self._ranges()
        loss, log_p = (v[: self.smooth].reshape(-1, ORDER) for v in (self.loss, self.log_weight))
        with np.errstate(invalid="ignore"):
            steep = np.nan_to_num(np.ptp(log_p, axis=1), nan=0.0, posinf=0.0) / NATS
        parts = np.ones(least.size)
        for a, b in edges:
            meets = (most > a) & (least < b)
            beyond = np.where((loss > a) & meets[:, None], log_p, -np.inf).max(axis=1)
            matters = (beyond > beyond.max(initial=-np.inf) - FADED) | (least < a)
            pieces = np.maximum((most - least) * (PIECES / (b - a)), np.where(matters, steep, 1.0))
            parts = np.maximum(parts, np.where(meets, np.ceil(pieces), 1.0))
        return np.minimum(parts, LARGEST).astype(np.int64)

    def between(self, lo: float, hi: float) -> Band:
        """Return the panels, and the atoms, that reach into lo < L < hi."""
        loss, log_mass = self._atoms
        inside = (loss > lo) & (loss < hi)
        panels = self._panels
        if panels is not None:
            least, most = self._ranges()
            panels = panels.among((most > lo) & (least < hi))
        return self._with(panels, (loss[inside], log_mass[inside]))

    def resolved(self, contour: float, frequency: float, floor: float) -> Band:
        """Return a copy whose nodes are good for exp((contour + iy) L), |y| <= frequency.

        Args:
            contour: a real tilt that is covered.
            frequency: the largest |y|.
            floor: share of the tilted mass below which a panel need not resolve it.
        """
        if self._panels is None:
            return self
        at = -1.0 - contour if self._reverse else contour
        return self._with(with_waves([self._panels], at, [(frequency, floor)])[0])

    @property
    def monotone(self) -> bool:
        """The loss is monotone on every interval of outputs, but for its rounding."""
        loss, region = self.loss[: self.smooth], self.region
        step = np.diff(loss)
        within = (region[1:] == region[:-1]) & (np.abs(step) > FLAT * np.abs(loss[1:]))
        rising = np.bincount(region[1:][within], step[within] > 0, minlength=1)
        falling = np.bincount(region[1:][within], step[within] < 0, minlength=1)
        return not np.any((rising > 0) & (falling > 0))

    def outside(self, lo: float, hi: float) -> Edges:
        """Bound the losses in (lo, hi) of outputs beyond all panels; (inf, -inf) for none.

        Only for all panels of a law: beyond the last one of a branch the loss goes on as it came.
        """
        if self._panels is None:
            return math.inf, -math.inf
        if not self.monotone:
            return lo, hi
        below, above = (short.repeat(ORDER) for short in self._panels.falls_short())
        turns = np.flatnonzero(np.diff(self.region))
        first, last = np.append(0, turns + 1), np.append(turns, self.smooth - 1)
        first, last = first[below[first]], last[above[last]]
        end = self.loss[np.append(first, last)]
        rising = end > self.loss[np.append(first + 1, last - 1)]
        least, most = np.where(rising, np.maximum(end, lo), lo), np.where(rising, hi, end)
        most = np.minimum(most, hi)
        some = least < most
        return (
            float(least.min(initial=math.inf, where=some)),
            float(most.max(initial=-math.inf, where=some)),
        )

    def _ranges(self) -> tuple[Floats, Floats]:
        """Bound the losses on every panel, beyond its outermost nodes too."""
        assert self._panels is not None
        panels = self.loss[: self.smooth].reshape(-1, ORDER)
        least, most = panels.min(axis=1), panels.max(axis=1)
        margin = MARGIN * (most - least)
        ends = self._panels.losses_at_ends()
        if self._reverse:
            ends = -ends
        with np.errstate(invalid="ignore"):
            return (
                np.fmin(least - margin, np.fmin(ends[:, 0], ends[:, 1])),
                np.fmax(most + margin, np.fmax(ends[:, 0], ends[:, 1])),
            )

    def _with(self, panels: Quadrature | None, atoms: tuple[Floats, Floats] | None = None) -> Band:
        other = copy(self)
        other._atoms = self._atoms if atoms is None else atoms
        other._take(panels)
        return other

    def _take(self, panels: Quadrature | None) -> None:
        self._panels = panels
        loss = log_weight = self.spacing = np.empty(0)
        self.region = np.empty(0, np.int64)
        if panels is not None:
            log_weight, self.spacing = panels.log_weight, panels.spacing
            loss, self.region = panels.loss.ravel(), panels.region.repeat(ORDER)
            if self._reverse:
                loss, log_weight = -loss, log_weight - loss
        self.smooth = loss.size
        self.loss, self.log_weight = loss, log_weight
        if self._atoms[0].size:
            self.loss = np.concatenate([loss, self._atoms[0]])
            self.log_weight = np.concatenate([log_weight, self._atoms[1]])


class LogDensity:
    """The largest log density of the outputs with given losses, -inf where none is known.

    It is read off between the nodes: a guide, no value to answer with.
    """

    def __init__(self, law: PrivacyLoss) -> None:
        """Sort the nodes of every branch by their losses."""
        source = law.source
        self._branches: list[tuple[Floats, Floats]] = []
        if source is None or not source.continuous:
            return
        panels = source.panels
        loss, log_p = panels.loss, panels.log_p
        if law.is_reversed:
            loss, log_p = -loss, log_p - loss
        for branch in np.unique(panels.region):
            mine = panels.region == branch
            x, y = loss[mine].ravel(), log_p[mine].ravel()
            order = np.argsort(x)
            x, y = x[order], y[order]
            self._branches.append((x[np.isfinite(y)], y[np.isfinite(y)]))

    def __call__(self, losses: Floats) -> Floats:
        """Return the log density at every loss."""
        out = np.full(losses.shape, -np.inf)
        for x, y in self._branches:
            if x.size:
                out = np.maximum(out, np.interp(losses, x, y, -math.inf, -math.inf))
        return out


class UnresolvedLoss:
    """Stands for a privacy loss that could not be made; whatever else it is asked, it says why.

    Attributes:
        why: the error of the attempt.
        log_infinite: lower bound on the log mass at infinite loss: none is known.
        log_minus_infinite: the same for the reversed pair.
        support: range of the finite loss, as far as it is known.
        mass_errors: no mass at infinity is used, hence none is wrong.
        has_moments: no exponential moments are known to be finite.
        is_endless: no list of integers stands behind it.
    """

    mass_errors = (0.0, 0.0)
    has_moments = estimated = is_endless = is_resolved = False
    log_infinite = -math.inf
    log_minus_infinite = -math.inf
    support = (-math.inf, math.inf)

    def __init__(
        self, kernel: Kernel | None, theta: NDArray[np.float64], reverse: bool, why: NumericError
    ) -> None:
        """Keep what is needed for `log_below`; without a kernel of these parameters nothing."""
        self._kernel, self._theta, self._reverse = kernel, theta, reverse
        self.why = why

    def log_below(self, threshold: float) -> float:
        """Return an upper bound on log P(L <= threshold)."""
        source = self._source
        return 0.0 if source is None else log_shares(source, threshold, self._reverse)[0]

    def log_above(self, threshold: float) -> float:
        """Return an upper bound on log P(L > threshold)."""
        source = self._source
        return 0.0 if source is None else log_shares(source, threshold, self._reverse)[1]

    def within(self, bound: float) -> PrivacyLoss:
        """Return a law that dominates this one, in which losses beyond +-bound are infinite.

        Raises:
            NumericError: that law cannot be resolved either.
            UnsupportedError: where the loss is that large is not known.
        """
        source = self._source
        if source is None or not source.continuous:
            raise self.why
        return PrivacyLoss.of_source(within(source, bound), self._reverse)

    @cached_property
    def _source(self) -> KernelSource | None:
        """The kernel without nodes; None where even its masses, or losses, cannot be found."""
        if self._kernel is None:
            return None
        try:
            source = KernelSource.many(self._kernel, [self._theta], checked=False)[0]
        except NumericError:
            return None
        return source if formulas_agree(source) else None

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse everything that needs nodes."""
        raise NumericError(str(self.why))
