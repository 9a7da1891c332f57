"""Two steps exactly: H(eps) = E_{P_a}[h_b(eps - L_a)], h_b in one pass over the nodes of step b.

Contour integrals decay slowly for so few steps. Here every term is positive, so a tail keeps its
relative accuracy; the outer integral is cut where h_b is not smooth (at losses where a branch of
step b ends or an atom sits) and refined until its Legendre coefficients settle.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mechc.errors import NumericError
from mechc.loss import branches
from mechc.loss.rule import NODES, ORDER, TOP, WEIGHTS

if TYPE_CHECKING:
    from mechc.loss.measure import PrivacyLoss
    from mechc.loss.source import KernelSource

Floats = NDArray[np.float64]

_JIT: dict[str, Any] = {"error_model": "numpy", "cache": True}
SETTLED = 1e-13  # top Legendre coefficient of the outer integrand, as a share of the integral
ROUNDS = 80
MOST_PAIRS = 3e8  # of atoms, or of an outer and an inner node, that are worth it
SPAN = 8.0  # nats of exp(-tilt L) that one panel of 16 nodes may span
ACCURACY = 2e-12  # relative error allowed for nodes, cuts and outer quadrature together


@nb.njit("void(float64[::1], float64[::1], float64[::1], float64[::1])", **_JIT)
def _log_payoffs(loss, log_weight, epsilon, out):  # type: ignore[no-untyped-def]
    """Log of sum_j w_j (1 - exp(eps - loss_j))_+ for every eps."""
    for m in range(epsilon.size):
        top = -np.inf
        for j in range(loss.size):
            if loss[j] > epsilon[m] and log_weight[j] > top:
                top = log_weight[j]
        total = 0.0
        if top > -np.inf:
            for j in range(loss.size):
                if loss[j] > epsilon[m] and log_weight[j] > top - 80.0:
                    total -= math.exp(log_weight[j] - top) * math.expm1(epsilon[m] - loss[j])
        out[m] = top + math.log(total) if total > 0.0 else -np.inf


class OneStep:
    """log E_P[(1 - exp(eps - L))_+; L finite] of one step for arrays of eps."""

    def __init__(self, law: PrivacyLoss, tilt: float) -> None:
        """Take nodes accurate for tilts up to `tilt`, and the places where h is not smooth."""
        law = law.covering(-1.0, tilt)
        self._atoms = (law.atom_loss, law.atom_log_mass)
        self._panels: list[_Panels] = []
        kinks = [law.atom_loss]
        if law.source is not None and law.source.continuous:
            sign = -1.0 if law.is_reversed else 1.0
            lo, hi = (-1.0 - tilt, 0.0) if law.is_reversed else (-1.0, tilt)
            for branch in branches.branches_of(law.source, lo, hi):
                self._panels.append(_Panels(law.source, branch, law.is_reversed, tilt))
                kinks.append(sign * np.array([branch.loss_lo, branch.loss_hi]))
        self.kinks = np.unique(np.concatenate(kinks))

    @property
    def size(self) -> int:
        """Number of nodes and atoms that one value of h sums over."""
        return self._atoms[0].size + sum(panels.size for panels in self._panels)

    def __call__(self, epsilon: Floats) -> Floats:
        """Return log h at each epsilon."""
        total = np.empty(epsilon.size)
        _log_payoffs(*self._atoms, epsilon, total)
        for panels in self._panels:
            with np.errstate(invalid="ignore"):
                total = np.logaddexp(total, panels.log_payoff(epsilon))
        return total


class _Panels:
    """The panels of one branch in the order of their losses."""

    def __init__(
        self, source: KernelSource, branch: branches.Branch, reverse: bool, tilt: float
    ) -> None:
        self._source, self._branch = source, branch
        self._sign = -1.0 if reverse else 1.0
        self._density = source.kernel.log_q_many if reverse else source.kernel.log_p_many
        edges = source.panels
        inner = edges.lo[(edges.lo > branch.lo) & (edges.lo < branch.hi)]
        edge = np.unique(np.concatenate([[branch.lo], inner, [branch.hi]]))
        # above a cut the integrand falls like exp(-tilt L): panels have to be short against that
        rise = np.abs(np.diff(branches.losses_at(source, edge)))
        parts = np.ceil(np.clip(np.nan_to_num(tilt * rise / SPAN, posinf=1.0), 1, 400)).astype(int)
        self._edges = np.concatenate(
            [
                np.linspace(a, b, n, endpoint=False)
                for a, b, n in zip(edge[:-1], edge[1:], parts, strict=True)
            ]
            + [edge[-1:]]
        )
        self._up = branch.increasing != reverse  # losses above epsilon lie to the right
        middle = 0.5 * (self._edges[1:] + self._edges[:-1])
        half = 0.5 * np.diff(self._edges)
        self._loss, self._log_w = self._nodes(middle, half)
        self.size = self._loss.size

    def _nodes(self, middle: Floats, half: Floats) -> tuple[Floats, Floats]:
        x = np.ascontiguousarray((middle[:, None] + half[:, None] * NODES).ravel())
        log_f, loss = np.empty(x.size), np.empty(x.size)
        self._density(x, self._source.theta, log_f)
        self._source.kernel.loss_many(x, self._source.theta, loss)
        with np.errstate(divide="ignore"):
            log_w = log_f.reshape(-1, ORDER) + np.log(half[:, None] * WEIGHTS)
        return self._sign * loss.reshape(-1, ORDER), log_w

    def log_payoff(self, epsilon: Floats) -> Floats:
        """Whole panels above each epsilon, and the part above it of the panel that it cuts."""
        cut = branches.inverse(self._source, self._branch, self._sign * epsilon)
        place = np.clip(
            np.searchsorted(self._edges, cut, side="right") - 1, 0, self._edges.size - 2
        )
        out = np.empty(epsilon.size)
        # epsilons that cut the same panel share the whole panels above it
        order = np.argsort(place, kind="stable")
        bounds = np.flatnonzero(np.diff(place[order])) + 1
        for group in np.split(order, bounds):
            at = int(place[group[0]])
            whole = slice(at + 1, None) if self._up else slice(0, at)
            value = np.empty(group.size)
            _log_payoffs(
                np.ascontiguousarray(self._loss[whole].ravel()),
                np.ascontiguousarray(self._log_w[whole].ravel()),
                epsilon[group],
                value,
            )
            out[group] = value
        lo = cut if self._up else self._edges[place]
        hi = self._edges[place + 1] if self._up else cut
        loss, log_w = self._nodes(0.5 * (lo + hi), 0.5 * (hi - lo))
        gap = loss - epsilon[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            terms = log_w + np.log(np.where(gap > 0, -np.expm1(-gap), 0.0))
        part = np.logaddexp.reduce(np.where(np.isnan(terms), -np.inf, terms), axis=1)
        both: Floats = np.logaddexp(out, part)
        return both


def log_hockey_stick_pair(
    outer: PrivacyLoss, inner: PrivacyLoss, epsilon: float, tilt: float
) -> tuple[float, float]:
    """Log of H(epsilon) for two independent steps, finite parts, and its relative error.

    Args:
        outer: the step that is integrated over.
        inner: the step whose one-step answer is the integrand.
        epsilon: any real number.
        tilt: the saddle point of the pair at epsilon, or above; tails are resolved up to it.

    Raises:
        NumericError: the outer integral did not settle, or there are too many pairs of atoms.
    """
    h = OneStep(inner, tilt)
    outer = outer.covering(-1.0, tilt)
    if outer.atom_loss.size * h.kinks.size > MOST_PAIRS:
        raise NumericError(
            f"direct: {outer.atom_loss.size} atoms beside {h.kinks.size} are too many pairs; "
            "use lattice or contour"
        )
    parts = [outer.atom_log_mass + h(epsilon - outer.atom_loss)] if outer.atom_loss.size else []
    error = 0.0
    if outer.source is not None and outer.source.continuous:
        value, error = _outer(outer, h, epsilon)
        parts.append(np.array([value]))
    total = float(np.logaddexp.reduce(np.concatenate(parts))) if parts else -math.inf
    return total, error + ACCURACY + 4e-15 * abs(total)


def _outer(outer: PrivacyLoss, h: OneStep, epsilon: float) -> tuple[float, float]:
    """Adaptive integral of p(x) h(eps - L(x)) over the continuous part of the outer step."""
    source, reverse = outer.source, outer.is_reversed
    assert source is not None
    sign = -1.0 if reverse else 1.0
    density = source.kernel.log_q_many if reverse else source.kernel.log_p_many
    edges = []
    tilts = (-1.0 - outer.tilts[1], 0.0) if reverse else (-1.0, outer.tilts[1])
    for branch in branches.branches_of(source, *tilts):
        panels = source.panels
        inner = panels.lo[(panels.lo > branch.lo) & (panels.lo < branch.hi)]
        cuts = branches.inverse(source, branch, sign * (epsilon - h.kinks))
        ends = np.unique(np.concatenate([[branch.lo], inner, cuts, [branch.hi]]))
        edges.append(np.stack([ends[:-1], ends[1:]], axis=1))
    new = np.concatenate(edges)
    done_log: list[Floats] = []
    reference, uncertain, pairs = -math.inf, [], 0
    for _ in range(ROUNDS):
        pairs += ORDER * len(new) * h.size
        if pairs > MOST_PAIRS:
            break
        half = 0.5 * (new[:, 1] - new[:, 0])
        x = np.ascontiguousarray((0.5 * (new[:, :1] + new[:, 1:]) + half[:, None] * NODES).ravel())
        log_f, loss = np.empty(x.size), np.empty(x.size)
        density(x, source.theta, log_f)
        source.kernel.loss_many(x, source.theta, loss)
        with np.errstate(invalid="ignore"):
            value = (log_f + h(epsilon - sign * loss)).reshape(-1, ORDER)
        value = np.where(np.isnan(value), -np.inf, value)
        sums = np.logaddexp.reduce(value + np.log(half[:, None] * WEIGHTS), axis=1)
        reference = float(np.logaddexp.reduce(np.concatenate([*done_log, sums])))
        if reference == -math.inf:
            return reference, 0.0
        scaled = np.exp(np.minimum(value - reference, 600.0))
        top = np.abs(scaled @ TOP.T).max(axis=1) * half
        noise = 1e-14 * scaled.max(axis=1) * half
        width = 2.0 * half
        tiny = width <= 1e-15 * np.abs(new).max(axis=1)
        split = (top > SETTLED + noise) & ~tiny
        done_log.append(sums[~split])
        uncertain.append(float(top[~split].sum()))
        if not split.any():
            return reference, sum(uncertain)
        middle = 0.5 * (new[split, 0] + new[split, 1])
        new = np.concatenate(
            [
                np.stack([new[split, 0], middle], axis=1),
                np.stack([middle, new[split, 1]], axis=1),
            ]
        )
    raise NumericError(
        f"{outer.label}: the two-step integral at epsilon={epsilon:g} did not settle"
    )
