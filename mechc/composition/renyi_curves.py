"""Guarantees that are only an upper bound on Rényi divergences: zCDP and RDP curves.

Such a guarantee implies no pair of distributions. With K(t) at most a known function for t > 0,
where K(t) = t D_(1+t), the only licensed conclusion is

    delta <= inf_t exp(K(t) - t eps) t^t / (1 + t)^(1 + t),

an upper bound; there is no lower bound, and a query for one gets nan and this reason. Composed with
mechanisms whose pair is known, their exact K(t) is added.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.contours.columns import LARGEST_TILT
from mechc.adjacency import Adjacency, Claim
from mechc.composition.description import MadeEvent, described
from mechc.composition.inputs import LEAST, as_array, as_number, shown
from mechc.composition.queries.evaluation import Evaluation
from mechc.composition.tables import Table, named
from mechc.errors import DeclarationError, NumericError, UnsupportedError, public
from mechc.loss.privacy_loss import Step
from mechc.numeric.roots import lowest
from mechc.numeric.rounding import EPS

if TYPE_CHECKING:
    from mechc.loss.privacy_loss import PrivacyLoss


STATUS = "upper bound only: a bound on Rényi divergences licenses no lower bound"
FARTHEST = 1e15  # tilt of a curve beyond which rounding leaves nothing
SMALLEST = -14.0  # log of the smallest tilt that is tried


class CurveEvent(MadeEvent):
    """One use of a mechanism of which only a bound on its Rényi divergences is known."""

    __slots__ = ("log_mgf_bound", "tilts")

    def __init__(
        self, table: Any, bound: Callable[[float], float], tilts: float,
        defaulted: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        """Hold K(t) <= bound(t) for 0 < t <= tilts; users call `zcdp` and `rdp` instead."""
        super().__init__(table, (), defaulted)
        self.log_mgf_bound, self.tilts = bound, tilts

    def rho_bound(self) -> float:
        """Return xi + rho, as xi <= xi alpha; infinity for a curve, which ends at an order."""
        given = self.log_mgf_bound
        return given.xi + given.rho if isinstance(given, Concentrated) else math.inf

    @staticmethod
    def joint_evaluation(
        curves: Sequence[tuple[CurveEvent, int]], steps: dict[str, Sequence[Step]], method: str
    ) -> CurveEvaluation:
        """Return what answers for these curves composed with steps whose pair is known."""
        return CurveEvaluation(curves, steps, method)

    def _law(self, direction: str) -> PrivacyLoss:
        """Refuse: there is no law of the loss."""
        raise UnsupportedError(
            f"{self.mechanism.name}: only a bound on Rényi divergences is known, which implies no "
            "pair of distributions; delta, epsilon and epsilon_curve give upper bounds"
        )


@dataclass(frozen=True)
class Concentrated:
    """K(t) of (xi, rho)-zCDP."""

    rho: float
    xi: float = 0.0

    def __call__(self, tilt: float) -> float:
        """Return the bound at a tilt."""
        return tilt * (self.xi + self.rho * (tilt + 1))


@dataclass(frozen=True)
class Chords:
    """K(t) between its values at increasing tilts, of which the first is 0."""

    tilts: tuple[float, ...]
    values: tuple[float, ...]

    def __call__(self, tilt: float) -> float:
        """Return the bound at a tilt."""
        return float(np.interp(tilt, self.tilts, self.values))


@described
@public
def zcdp(rho: float, xi: float = 0.0, *, adjacency: Adjacency | str = Adjacency.ANY) -> CurveEvent:
    """Return a mechanism known to be (xi, rho)-zCDP: D_alpha <= xi + rho alpha for every alpha > 1.

    Args:
        rho: positive, or 0 beside a positive xi.
        xi: not negative (Bun, Steinke 2016, Definition 1.1).
        adjacency: neighbouring relation of the guarantee; "any" leaves it open.

    Raises:
        DeclarationError: rho or xi is not such a number.
    """
    xi = as_number("zcdp: xi", xi, "a finite number >= 0", 0.0, sys.float_info.max)
    least, accepted = (0.0, "a finite number >= 0") if xi else (LEAST, "a finite number > 0")
    rho = as_number("zcdp: rho", rho, accepted, least, sys.float_info.max)
    words = f"rho={shown(rho)}" + (f", xi={shown(xi)}" if xi else "")
    table = _table(f"zcdp({words})", adjacency, rho, xi)
    return CurveEvent(table, Concentrated(rho, xi), LARGEST_TILT)


@described
@public
def rdp(
    orders: Sequence[float] | float,
    epsilons: Sequence[float] | float,
    *,
    adjacency: Adjacency | str = Adjacency.ANY,
) -> CurveEvent:
    """Return a mechanism known by a Rényi curve: D_alpha <= epsilons[i] at alpha = orders[i].

    Between the orders (alpha - 1) D_alpha, which is convex and 0 at alpha = 1, lies below the
    chords.

    Args:
        orders: increasing numbers > 1, or one.
        epsilons: bounds on the divergences, >= 0; as many.
        adjacency: neighbouring relation of the guarantee; "any" leaves it open.

    Raises:
        DeclarationError: the arrays are not of this kind.
    """
    alphas = np.atleast_1d(as_array("rdp: orders", orders))
    bounds = np.atleast_1d(as_array("rdp: epsilons", epsilons))
    if alphas.ndim != 1 or alphas.shape != bounds.shape or not alphas.size:
        raise DeclarationError("rdp: orders and epsilons are not two lists of one length")
    if not (alphas > 1).all() or not np.isfinite(alphas).all() or not (np.diff(alphas) > 0).all():
        raise DeclarationError(f"rdp: orders={orders!r} are not increasing numbers > 1")
    if not (bounds >= 0).all() or not np.isfinite(bounds).all():
        raise DeclarationError(f"rdp: epsilons={epsilons!r} are not finite numbers >= 0")
    t = np.concatenate([[0.0], alphas - 1.0])
    with np.errstate(over="ignore"):
        k = np.concatenate([[0.0], (alphas - 1.0) * bounds])
    if not np.isfinite(k).all():
        raise DeclarationError(f"rdp: epsilons={epsilons!r} times the orders are beyond doubles")
    table = _table(f"rdp({alphas.size} orders)", adjacency, *alphas, *bounds)
    chords = Chords(tuple(t.tolist()), tuple(k.tolist()))
    return CurveEvent(table, chords, min(float(t[-1]), FARTHEST))


class CurveEvaluation(Evaluation):
    """Upper bounds on log delta of a composition in which some steps are curves."""

    def __init__(
        self, curves: Sequence[tuple[CurveEvent, int]], steps: dict[str, Sequence[Step]],
        method: str,
    ) -> None:  # fmt: skip
        """Combine curves with the steps whose pair is known."""
        if method not in ("auto", "renyi"):
            raise UnsupportedError(
                f"{method}: {STATUS}; of the methods only renyi (and auto) can use it"
            )
        super().__init__(steps, "renyi", 1e-6, no_lower=STATUS)
        self._curves = tuple(curves)

    def log_delta_in(self, direction: str, epsilon: float, target: float | None = None) -> Bound:
        """Return an upper bound on log delta(epsilon); lower is nan."""
        steps, known = self.steps[direction], self.known[direction]
        infinite = min(known.infinite.log + known.infinite.error, 0.0)
        if math.isinf(epsilon):
            upper = infinite if epsilon > 0 else 0.0
            return Bound(math.nan, math.nan, upper, "renyi", STATUS, {"direction": direction})
        top = min(event.tilts for event, _ in self._curves)
        top = min([top, *(0.999 * s.loss.strip[1] for s in steps)])
        epsilon -= self._loss_shift(direction, epsilon)

        def exponent(log_t: float) -> float:
            t = min(math.exp(log_t), top)  # rounded it may be one beyond, of which nothing is known
            k = math.fsum(n * event.log_mgf_bound(t) for event, n in self._curves)
            for step in steps:
                value, _, _, rounding = step.loss.generating(t)
                k += step.count * (value + rounding + step.loss.tolerance)
            size = abs(k) + abs(t * epsilon) + 2 * t + 4
            return k - t * epsilon - t * math.log1p(1 / t) - math.log1p(t) + 16 * EPS * size

        lo, hi = _bracket(exponent, math.log(top))
        at, least = lowest(exponent, lo, hi, xtol=1e-6)
        best = min(least, exponent(hi), 0.0)
        upper = min(float(np.logaddexp(best + known.density, infinite)), 0.0)
        order = 1.0 + math.exp(at)
        detail = {"direction": direction, "order": order}
        return Bound(math.nan, math.nan, upper, "renyi", STATUS, detail)

    def renyi(self, direction: str, order: float) -> Bound:
        """Return an upper bound on the Rényi divergence of one order; lower is nan."""
        top = min(event.tilts for event, _ in self._curves)
        t = max(order - 1.0, math.exp(SMALLEST))  # divergences grow with the order
        if t > top:
            return Bound(math.nan, math.nan, math.inf, "renyi", STATUS, {"direction": direction})
        known = super().renyi(direction, order)
        curves = math.fsum(n * event.log_mgf_bound(t) / t for event, n in self._curves)
        upper = (float(known.upper) + curves) * (1 + 8 * EPS)
        return Bound(math.nan, math.nan, upper, "renyi", STATUS, {"direction": direction})

    def bounded(
        self, direction: str, epsilon: float, level: float, *, best: bool = False
    ) -> float | None:
        """Return None: what bounds the other steps says nothing about the curves."""
        return None

    def largest_loss_in(self, direction: str) -> tuple[float, float]:
        """Return infinity: nothing is known about it."""
        return math.inf, 0.0


def _bracket(exponent: Callable[[float], float], top: float) -> tuple[float, float]:
    """Ends around the minimum of a function that falls and then rises, below `top`."""
    here = min(SMALLEST, top)
    value = exponent(here)
    while here < top:
        try:
            there = exponent(min(here + 1.0, top))
        except NumericError:
            break
        if there > value:
            return max(here - 1.0, SMALLEST), min(here + 1.0, top)
        here, value = min(here + 1.0, top), there
    return here - 1.0, here


def _table(name: str, adjacency: Adjacency | str, *numbers: float) -> Table:
    claim = Claim("declared", None, Adjacency.of(adjacency), (), (
        "the bound on Rényi divergences holds in both directions",))  # fmt: skip
    return Table(name, True, claim, named(f"{name} {claim} {numbers!r}"))
