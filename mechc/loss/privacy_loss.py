"""PrivacyLoss: the law of L = log(p/q) under P as numbers, and the last object that knows a kernel.

In: a kernel and its parameters (or plain atoms). Out: nodes, atoms and masses at infinity with

    E_P[g(L); L finite] = sum_j exp(log_weight_j) g(loss_j)
                          + sum_a exp(atom_log_mass_a) g(atom_loss_a)

accurate for g(l) = exp(zl) on a stated strip of tilts. Weights under Q are weights under P times
exp(-loss); the reversed pair has K_rev(z) = K(-1-z), so both directions share one set of panels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.errors import DeclarationError, NumericError, UnsupportedError
from mechc.loss import atoms, branches, moments, one_step
from mechc.loss.atoms import LossesFrom, Nodes, mirrored
from mechc.loss.bound_kernel import KernelSource
from mechc.loss.bound_kernel import nodes as nodes_of
from mechc.loss.infinite_mass import log_complement, rounded
from mechc.loss.quadrature import unresolved
from mechc.loss.quadrature.panels import Waves
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats, Kernel, is_closed

FAR = 4.0  # times the tilts wanted, beyond which nodes for others are a burden


class Step(NamedTuple):
    """One distinct step of a composition: its privacy loss and how often it is repeated."""

    loss: PrivacyLoss
    count: int  # type: ignore[assignment]  # the field hides tuple.count, which nobody needs here


def distinct(steps: Iterable[Step]) -> tuple[list[PrivacyLoss], list[int]]:
    """Merge repetitions of one loss and drop steps that are never taken, in order of appearance."""
    laws, counts = {}, dict[int, int]()
    for loss, count in steps:
        if count > 0:
            laws[id(loss)], counts[id(loss)] = loss, counts.get(id(loss), 0) + int(count)
    return [*laws.values()], [*counts.values()]


@dataclass(frozen=True, eq=False)
class PrivacyLoss:
    """The privacy loss of one mechanism step in one direction.

    Attributes:
        loss: losses at the quadrature nodes of the part with a density, shape (n,).
        log_weight: log weights under P, shape (n,).
        atom_loss: finite losses that carry point masses, increasing, shape (m,).
        atom_log_mass: their log masses under P, shape (m,).
        log_infinite: log P(L = +inf), -inf when there is none.
        log_minus_infinite: log Q(p = 0), the reversed pair's mass at +inf.
        support: (ess inf, ess sup) of the finite loss.
        strip: (t_minus, t_plus), where E_P[exp(tL); L finite] converges.
        tilts: the real tilts for which the nodes are accurate.
        contour: the real part for which high frequencies are resolved.
        frequency: the |Im z| resolved there.
        tolerance: estimated quadrature error of E_P[exp(zL)] - E_P[1], as a share of
            E_P[exp(Re z L)], on the covered strip.
        lattice: (offset, step) when every loss is offset + step * integer, else None.
        label: words for messages.
        spacing: length on the loss axis that each node stands for, |L'(x)| times its weight in x:
            exp(log_weight) / spacing is the density of the loss on that branch, shape (n,).
        region: branch of each node; within a branch nodes are in the order of x, shape (n,).
        mass_errors: errors of the logs of the masses at infinite and at minus infinite loss.
        early: logs of the parts of these masses that may have a small loss, see `within`.
        density_error: relative error of the densities, the same of p and q, and so that of delta of
            one use.
        loss_error: how far losses of point masses may be off, beyond the rounding of their digits.
        digits: roundings of logs of masses that losses, being differences of two, are off; else 0.
        told: masses at infinite and minus infinite loss as doubles, nan unless they are declared.
        parts: without a source, steps of which a record takes part in some, drawn at random.
        drawn: in how many.
        rate: the probability that it takes part in any of them.
        side: 1 or -1 where this bounds a law from above or below; early masses are in no nodes.
        source: the bound kernel, None for plain atoms; for the modules of this room.
        is_reversed: this is the law of the reversed pair of its source.
        of_estimated: without a source, made of a law that is `estimated`.
    """

    loss: Floats
    log_weight: Floats
    atom_loss: Floats
    atom_log_mass: Floats
    log_infinite: float
    log_minus_infinite: float
    support: tuple[float, float]
    strip: tuple[float, float]
    tilts: tuple[float, float]
    contour: float
    frequency: float
    tolerance: float
    lattice: tuple[float, float] | None
    label: str
    spacing: Floats = field(repr=False, default_factory=lambda: np.empty(0))
    region: NDArray[np.int64] = field(repr=False, default_factory=lambda: np.empty(0, np.int64))
    mass_errors: tuple[float, float] = (0.0, 0.0)
    early: tuple[float, float] = (-math.inf, -math.inf)
    density_error: float = 0.0
    loss_error: float = 0.0
    digits: float = 0.0
    told: tuple[float, float] = (math.nan, math.nan)
    parts: tuple[Step, ...] = field(repr=False, default=())
    rate: float = 1.0
    drawn: int = 1
    side: int = 0
    source: KernelSource | None = field(repr=False, default=None)
    is_reversed: bool = False
    of_estimated: bool = False
    _memo: dict[Any, Any] = field(repr=False, default_factory=dict)
    is_resolved: ClassVar[bool] = True
    """Whether it has nodes; one that has none is an `UnresolvedLoss`."""

    def _with(self, source: KernelSource) -> PrivacyLoss:
        """Return this law with another source; `replace` takes longer, and laws are made often."""
        other = object.__new__(PrivacyLoss)
        vars(other).update(vars(self), source=source, _memo={})
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Pickle and copy the law; what was computed of it is computed again."""
        return {**vars(self), "_memo": {}}

    @classmethod
    def from_atoms(
        cls, losses: Sequence[float] | Floats, masses: Sequence[float] | Floats,
        infinite_mass: float = 0.0, minus_infinite_mass: float = 0.0, label: str = "atoms",
    ) -> PrivacyLoss:  # fmt: skip
        """Make a purely discrete privacy loss from finite losses and their masses under P.

        Args:
            losses: finite losses.
            masses: their masses under P.
            infinite_mass: P(L = +inf).
            minus_infinite_mass: Q(p = 0).
            label: words for messages.

        Raises:
            DeclarationError: a loss is not finite, a mass is negative, or masses do not sum to
                one (under P, and under Q after multiplication with exp(-loss)).
        """
        loss, mass = np.asarray(losses, np.float64), np.asarray(masses, np.float64)
        if not (mass >= 0).all():
            raise DeclarationError(f"masses={masses!r}: expected non-negative numbers with sum 1")
        with np.errstate(divide="ignore"):
            infinite = (float(np.log(infinite_mass)), float(np.log(minus_infinite_mass)))
            made = cls.from_log_atoms(loss, np.log(mass), *infinite, label)
            return replace(made, told=(float(infinite_mass), float(minus_infinite_mass)))

    @classmethod
    def from_log_atoms(
        cls, losses: Floats, log_masses: Floats, log_infinite: float, log_minus_infinite: float,
        label: str = "atoms", loss_error: float = 0.0, density_error: float = 0.0,
        early: tuple[float, float] = (-math.inf, -math.inf), bound: bool = False,
        digits: float = 0.0, parts: tuple[Step, ...] = (),
    ) -> PrivacyLoss:  # fmt: skip
        """As `from_atoms`, by the logs of all masses, with the errors and parts that are fields.

        Of a `bound` on a law the masses under Q need not sum to one.
        """
        nodes = atoms.checked(losses, log_masses, log_infinite, log_minus_infinite, bound)
        return cls(
            **nodes._asdict(), log_infinite=log_infinite, log_minus_infinite=log_minus_infinite,
            strip=(-math.inf, math.inf), contour=0.0, frequency=math.inf, label=label,
            mass_errors=(density_error, density_error), density_error=density_error,
            loss_error=loss_error, early=early, digits=digits, parts=parts,
        )  # fmt: skip

    @classmethod
    def of_source(
        cls, source: KernelSource, reverse: bool = False, lo: float = -1.0, hi: float = 0.0
    ) -> PrivacyLoss:
        """Return the law of a kernel that is bound already, with nodes as `covering` makes them."""
        return _of_sources([source], reverse, lo, hi)[0]

    @property
    def log_early(self) -> float:
        """Log of the mass at infinite loss that may have a small one, rounded up."""
        return self.early[0] + rounded(self.early[0]).error

    @property
    def above(self) -> tuple[Step, ...]:
        """Steps of which a record, or a sample of it, takes part in one, drawn at random."""
        found: tuple[Step, ...] = self.parts if self.source is None else self.source.above
        if found and self.is_reversed:  # always the same ones, of which much is kept
            made = tuple(Step(w.reversed(), n) for w, n in found)
            found = self._memo.setdefault("above", made)
        return found

    @property
    def estimated(self) -> bool:
        """Whether the error of the density is estimated and not proven."""
        return self.of_estimated or (self.source is not None and self.source.estimated)

    @property
    def loss_rounding(self) -> float:
        """How far the digits of the losses of point masses may be off."""
        about = self.atom_loss, self.atom_log_mass
        return float(atoms.loss_rounding(*about, *self._digits).max(initial=0.0))

    @property
    def top_rounding(self) -> float:
        """The same of the largest finite loss, if that is a point mass or taken inside."""
        kind, digits = self._digits
        if not self.atom_loss.size or not (digits or kind is LossesFrom.TABLE):
            return 0.0 if self.source is None else branches.top_error(self.source, self.is_reversed)
        about = self.atom_loss[-1:], self.atom_log_mass[-1:]
        return float(atoms.loss_rounding(*about, kind, digits)[0])

    @property
    def atom_error(self) -> float:
        """Relative error of the masses of atoms, beside `density_error`."""
        if self.source is None or not self.source.continuous:
            return self.tolerance
        return self.source.atom_error if self.atom_loss.size else 0.0

    @property
    def _digits(self) -> tuple[LossesFrom, float]:
        return LossesFrom.TABLE if self.source is None else LossesFrom.FORMULA, self.digits

    @property
    def apart(self) -> bool:
        """P and Q are so far apart that tilts between -1 and 0 are not resolved."""
        source = self.source
        return source is not None and source.continuous and source.panels.apart

    def covering(
        self, tilt_lo: float = -1.0, tilt_hi: float = 0.0, contour: float | None = None,
        frequency: float = 0.0, floor: float = 0.0,
    ) -> PrivacyLoss:  # fmt: skip
        """Return this law with nodes accurate for the tilts and frequencies asked for.

        Args:
            tilt_lo: smallest real tilt wanted, inside the open strip of convergence.
            tilt_hi: largest real tilt wanted, likewise.
            contour: real part on which `frequency` has to be resolved (default tilt_hi).
            frequency: largest |Im z| wanted there.
            floor: share of the tilted mass below which a panel need not resolve the frequency.

        Raises:
            UnsupportedError: a tilt is outside the strip of convergence.
            NumericError: the quadrature does not settle.
        """
        waves = ((frequency, floor),) if frequency > 0.0 else ()
        return covering([self], tilt_lo, tilt_hi, contour, waves)[0]

    @property
    def has_moments(self) -> bool:
        """Some moments E_P[exp(tL)] are known to be finite below t = -1 and above t = 0."""
        return self.strip[0] < -1.0 and self.strip[1] > 0.0

    @property
    def is_endless(self) -> bool:
        """Integers go on behind every list, the longer the closer a tilt is to a finite limit."""
        source = self.source
        return source is not None and any(map(math.isfinite, self.strip)) and bool(source.listed())

    def within(self, bound: float) -> PrivacyLoss:
        """Return a law that dominates this one, in which losses beyond +-bound are infinite.

        Raises:
            UnsupportedError: where the loss is that large is not known.
        """
        if self.source is None:
            return self
        return self.of_source(one_step.within(self.source, bound), self.is_reversed)

    @property
    def settled(self) -> tuple[float, float]:
        """Real tilts for which nodes are known already, here or in the other direction."""
        lo, hi = self.tilts if self.source is None else self.source.tilts
        return (-1.0 - hi, -1.0 - lo) if self.is_reversed else (lo, hi)

    def fork(self) -> PrivacyLoss:
        """Return a copy whose nodes grow apart: what is asked of it leaves this law lean."""
        return self if self.source is None else self._with(self.source.fork())

    def first(self) -> PrivacyLoss:
        """Return the law as it was before any tilt was asked for, of this or its reversal."""
        return self if self.source is None else self._with(self.source.lean())

    @property
    def is_steep(self) -> bool:
        """Whether the loss grows without limit towards an output that is a number."""
        return self.source is not None and self.source.continuous and self.source.is_steep

    def lean(self, tilt_lo: float, tilt_hi: float) -> PrivacyLoss:
        """Return this law without the nodes that tilts far beyond these have asked for."""
        source = self.source
        if source is None or not source.continuous:
            return self
        lo, hi = (-1.0 - tilt_hi, -1.0 - tilt_lo) if self.is_reversed else (tilt_lo, tilt_hi)
        if source.tilts[0] >= FAR * lo and source.tilts[1] <= FAR * hi:
            return self
        return self.of_source(source.lean(), self.is_reversed, tilt_lo, tilt_hi)

    def nodes(self) -> tuple[Floats, Floats]:
        """Return (loss, log_weight) of quadrature nodes and atoms together."""
        if self.atom_loss.size == 0:
            return self.loss, self.log_weight
        if self.loss.size == 0:
            return self.atom_loss, self.atom_log_mass
        if "nodes" not in self._memo:
            self._memo["nodes"] = (
                np.concatenate([self.loss, self.atom_loss]),
                np.concatenate([self.log_weight, self.atom_log_mass]),
            )
        both: tuple[Floats, Floats] = self._memo["nodes"]
        return both

    @property
    def log_finite(self) -> float:
        """Log of the finite mass P(L < inf)."""
        return self._log_rest(self.log_infinite, 0.0) if self.log_infinite > -math.inf else 0.0

    @property
    def log_covered(self) -> float:
        """Log of Q(p > 0)."""
        log_mass = self.log_minus_infinite
        return self._log_rest(log_mass, 1.0) if log_mass > -math.inf else 0.0

    def _log_rest(self, log_mass: float, under_q: float) -> float:
        """Log of all mass but this one, P(L = inf) or Q(p = 0)."""
        if self.source is None and not self.loss.size and log_mass > -math.log(2.0):
            # a table's mass next to one has none of the digits that are left for its atoms
            return moments.log_total(self.atom_log_mass - under_q * self.atom_loss)
        return log_complement(log_mass)

    @property
    def log_q_finite(self) -> float:
        """Log of Q(p > 0), which is K(-1); nan for plain atoms, whose masses only sum roughly."""
        if self.source is None and not self.loss.size:
            return math.nan
        return self.log_covered

    def generating(self, t: float) -> tuple[float, float, float, float]:
        """Return K(t), K'(t), K''(t) of the finite part, and what rounding may change of K(t).

        Raises:
            UnsupportedError: t is outside the strip of convergence.
            NumericError: P and Q are too far apart for t, or the quadrature does not settle.
        """
        law = self.covering(min(t, -1.0), max(t, 0.0))
        if -1.0 < t < 0.0 and law.apart:
            raise NumericError(f"{self.label}: P and Q are too far apart for the tilt {t:g}")
        row = law.generating_function.at(np.array([t], np.float64))[:, 0, 0].tolist()
        k, mean, bend, rounding = row
        return k, mean, bend, rounding + self.unresolved(t)

    @property
    def generating_function(self) -> moments.GeneratingFunction:
        """K of the finite part at any tilt that the nodes of the moment cover."""
        if "generating" not in self._memo:
            nodes, masses = self.nodes(), [(self.log_finite, self.log_q_finite)]
            offsets = np.array([0, nodes[0].size], np.int64)
            self._memo["generating"] = moments.GeneratingFunction(offsets, *nodes, masses)
        found: moments.GeneratingFunction = self._memo["generating"]
        return found

    def unresolved(self, t: float) -> float:
        """Return the share of the mass at tilt t that no node resolves."""
        if self.source is None or not self.source.every_end:
            return 0.0
        return self.source.unresolved(-1.0 - t if self.is_reversed else t)

    def log_mgf(self, t: float) -> float:
        """Return K(t) = log E_P[exp(tL); L finite] for real t; raises what `generating` raises."""
        return self.generating(t)[0]

    def closed_cgf(self, t: float) -> float:
        """Return K(t) at a tilt inside the strip by the kernel's formula; nan without one."""
        source = self.source
        if source is None or not is_closed(source.kernel, "cgf"):
            return math.nan
        found = source.kernel.cgf(complex(-1.0 - t if self.is_reversed else t), source.theta)
        return found.real if math.isfinite(found.real) else math.nan

    def cumulants(self, t: float, order: int) -> Floats:
        """Return [K(t), K'(t), ..., K^(order)(t)] of the finite part, shape (order + 1,)."""
        k, mean, _, _ = self.generating(t)
        loss, log_weight = self.covering(min(t, -1.0), max(t, 0.0)).nodes()
        return moments.cumulants(loss, log_weight, k, t, mean, order)

    def log_abs_central_moment3(self, t: float) -> float:
        """Return the log third absolute central moment of the tilted, normalised finite law."""
        k, mean, _, _ = self.generating(t)
        loss, log_weight = self.covering(min(t, -1.0), max(t, 0.0)).nodes()
        with np.errstate(divide="ignore"):
            logs = 3.0 * np.log(np.abs(loss - mean))
        return moments.log_total(log_weight + t * loss - k + logs)

    def hockey_stick_log(self, epsilon: float) -> tuple[float, float, float]:
        """Return (lower, estimate, upper) of log delta(epsilon) for one step, by the branches.

        All terms are positive (I1 without the difference), so that deep tails keep their
        relative accuracy.
        """
        known = -math.inf, 0.0
        if self.source is not None and self.source.continuous:
            known = one_step.log_hockey_stick(self.source, epsilon, self.is_reversed)
        return self._with_atoms(epsilon, *known)

    def hockey_sticks_log(self, epsilons: Floats, alike: float = one_step.ALIKE) -> Floats:
        """Return what `hockey_stick_log` does for many epsilons, shape (epsilons, 3).

        Nodes are shared where the relative error is below `alike`.
        """
        known = [(-math.inf, 0.0)] * epsilons.size
        if self.source is not None and self.source.continuous:
            known = one_step.log_hockey_sticks(self.source, epsilons, self.is_reversed, alike)
        pairs = zip(epsilons.tolist(), known, strict=True)
        return np.array([self._with_atoms(epsilon, *pair) for epsilon, pair in pairs])

    def _with_atoms(self, epsilon: float, value: float, error: float) -> tuple[float, float, float]:
        """Return bounds on log delta from the continuous part of it and its error."""
        beyond = -math.inf
        if self.source is not None and self.source.continuous:
            error += self.source.defect
            source = self.source
            about = source.kernel, source.theta, source.rows
            ends = unresolved.ends_of(*about, zero=True, least=unresolved.CLOSE)
            beyond = unresolved.log_lost(ends, self.is_reversed, epsilon)
        loss, log_mass, left_out = self.atom_loss, self.atom_log_mass, -math.inf
        if self.source is not None and self.source.listed():
            loss, log_mass, left_out = self.source.atoms_above(epsilon, self.is_reversed)
        error_of_atoms, digits = self.atom_error, self._digits
        terms, noise = atoms.log_hockey_stick(loss, log_mass, epsilon, error_of_atoms, *digits)
        noise = np.append(
            noise, [left_out, beyond, value + math.log(error) if error > 0 else -math.inf]
        )
        value = moments.log_total(np.concatenate([terms, [value, self.log_infinite]]))
        log_error = moments.log_total(noise)
        share = 1e-14 + EPS * abs(value) if value > -math.inf else 0.0
        left = -math.expm1(log_error - value) if log_error < value else 0.0
        lower = value + math.log(left) - share if left > 0.0 else -math.inf
        return lower, value, float(np.logaddexp(value, log_error)) + share

    def log_below(self, threshold: float) -> float:
        """Return an upper bound on log P(L <= threshold), found without tilts."""
        if self.source is None:
            slack = self.loss_error + self.loss_rounding
            small = self.atom_log_mass[self.atom_loss <= threshold + slack]
            error = 1e-9 + self.tolerance + self.density_error
            return min(float(np.logaddexp.reduce([-60.0, self.log_early, *small])) + error, 0.0)
        return one_step.log_shares(self.source, threshold, self.is_reversed)[0]

    def log_above(self, threshold: float) -> float:
        """Return an upper bound on log P(L > threshold), found without tilts; 0 for a table."""
        if self.source is None:
            return 0.0
        return one_step.log_shares(self.source, threshold, self.is_reversed)[1]

    def cell_masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the masses of L in the cells (edges[i], edges[i+1]] under P and Q, finite part.

        Args:
            edges: increasing losses, shape (n + 1,).
        """
        p, q = atoms.cell_masses(self.atom_loss, self.atom_log_mass, edges)
        if self.source is None or not self.source.continuous:
            return p, q
        more_p, more_q = branches.cell_masses(self.source, edges, self.is_reversed, *self.own_tilts)
        return p + more_p, q + more_q

    @property
    def support_error(self) -> float:
        """How far rounding may have moved an end of `support`; nothing for a table of losses."""
        return 0.0 if self.source is None else branches.support_error(self.source)

    @property
    def own_tilts(self) -> tuple[float, float]:
        """The tilts of the pair that is not reversed."""
        return mirrored(*self.tilts) if self.is_reversed else self.tilts

    @property
    def log_lost(self) -> float:
        """Log of the mass next to ends of the outputs that no cell has, see `unresolved`."""
        if self.source is None:
            return -math.inf
        return unresolved.log_lost(self.source.every_end, self.is_reversed)

    @property
    def log_unlisted(self) -> float:
        """Log of the mass of the integers that the atoms do not have."""
        if self.source is None:
            return -math.inf
        return self.source.log_unlisted(self.own_tilts, self.is_reversed)

    def density(self, loss: Floats) -> Floats:
        """Return the density of the loss under P at `loss` (I7).

        Raises:
            UnsupportedError: the loss has atoms, so that it has no density.
        """
        if self.source is None or self.atom_loss.size:
            raise UnsupportedError(f"{self.label}: the loss has atoms, it has no density")
        return branches.density(self.source, loss, self.is_reversed)

    def is_reversal_of(self, other: PrivacyLoss) -> bool:
        """Whether this is the law of the other's pair reversed, both of one kernel."""
        same = self.source is not None and self.source is other.source
        return same and self.is_reversed is not other.is_reversed

    def reversed(self) -> PrivacyLoss:
        """Return the privacy loss of the reversed pair (I3: K_rev(z) = K(-1-z))."""
        if self.source is not None:
            return _of_sources([self.source], not self.is_reversed, *mirrored(*self.tilts))[0]
        nodes = Nodes(*(getattr(self, name) for name in Nodes._fields)).reversed()
        nodes = nodes._replace(tolerance=nodes.tolerance + atoms.rounding(*self.nodes()))
        return replace(
            self, **nodes._asdict(), log_infinite=self.log_minus_infinite,
            log_minus_infinite=self.log_infinite, label=self.label + " reversed",
            early=self.early[::-1], mass_errors=self.mass_errors[::-1], told=self.told[::-1],
            is_reversed=bool(self.parts) and not self.is_reversed, _memo={},
        )  # fmt: skip


def bound(kernel: Kernel, thetas: Sequence[Floats]) -> list[PrivacyLoss]:
    """Bind a kernel to many parameter vectors, all at once.

    Args:
        kernel: an emitted kernel.
        thetas: parameter values in the order of kernel.PARAMETERS, already validated.

    Raises:
        NumericError: the masses of P or Q found numerically are not one, or the quadrature does
            not settle.
        VerificationError: the branches of the kernel contradict its densities.
    """
    theta = [np.ascontiguousarray(values, dtype=np.float64) for values in thetas]
    sources = KernelSource.many(kernel, theta)
    branches.require_consistent(sources)
    return _of_sources(sources, False, -1.0, 0.0)


def covering(
    laws: Sequence[PrivacyLoss], tilt_lo: float, tilt_hi: float, contour: float | None = None,
    waves: Waves = (),
) -> list[PrivacyLoss]:  # fmt: skip
    """Return what `PrivacyLoss.covering` does for each of many laws, whose nodes are made together.

    The first of the `waves` is that which a law has as its frequency. Raises what that does.
    """
    contour, frequency = tilt_hi if contour is None else contour, waves[0][0] if waves else 0.0
    found = list(laws)
    groups: dict[tuple[Any, ...], tuple[list[int], list[KernelSource]]] = {}
    for i, law in enumerate(laws):
        source, (lo, hi), (least, most) = law.source, law.tilts, law.strip
        resolved = not waves or math.isinf(law.frequency)
        resolved = resolved or (frequency <= law.frequency and contour == law.contour)
        if source is None or (lo <= tilt_lo and tilt_hi <= hi and resolved):
            continue
        for t in (tilt_lo, tilt_hi):
            if t not in (-1.0, 0.0) and not least < t < most:
                raise UnsupportedError(
                    f"{law.label}: tilt {t:g} is outside the strip of convergence ({least:g}, "
                    f"{most:g}), E[exp(tL)] is not known to be finite there"
                )
        key = law.is_reversed, min(tilt_lo, lo), max(tilt_hi, hi), id(source.kernel)
        places, sources = groups.setdefault(key, ([], []))
        places.append(i)
        sources.append(source)
    for (reverse, lo, hi, _), (places, sources) in groups.items():
        made = _of_sources(sources, reverse, lo, hi, contour, waves)
        for i, law in zip(places, made, strict=True):
            found[i] = law
    return found


def _of_sources(
    sources: list[KernelSource], reverse: bool, lo: float, hi: float, contour: float = 0.0,
    waves: Waves = (),
) -> list[PrivacyLoss]:  # fmt: skip
    """The laws of kernels that are bound already, all in the same direction."""
    frequency = waves[0][0] if waves else 0.0
    own, at = (mirrored(lo, hi), -1.0 - contour) if reverse else ((lo, hi), contour)
    found = []
    for source, nodes in zip(sources, nodes_of(sources, *own, at, waves), strict=True):
        infinite, early, strip = source.infinite, source.early, source.strip
        if reverse:
            nodes = nodes.reversed(source.atom_log_masses(True))
            infinite, early, strip = infinite[::-1], early[::-1], (-1.0 - strip[1], -1.0 - strip[0])
        law = object.__new__(PrivacyLoss)  # `__init__` takes ten times as long: laws are made often
        vars(law).update(
            zip(Nodes._fields, nodes, strict=True), log_infinite=infinite[0].log,
            log_minus_infinite=infinite[1].log, strip=strip, contour=contour,
            frequency=frequency if source.continuous else math.inf,
            label=source.label + (" reversed" if reverse else ""),
            mass_errors=(infinite[0].error, infinite[1].error),
            early=(early[0].log + early[0].error, early[1].log + early[1].error),
            density_error=source.density_error, loss_error=source.loss_error, digits=source.digits,
            told=source.told[:: -1 if reverse else 1], source=source, is_reversed=reverse, _memo={},
        )  # fmt: skip
        found.append(law)
    return found


SMALL = 1e-10  # share of the mass at a tilt that may be unresolved where an answer is to be sharp
MOST_STEPS = 40  # of a tenth, down to a tilt that is resolved


def sharp_tilt(laws: Iterable[PrivacyLoss], t: float) -> float:
    """Return the largest of t, 0.9 t, .. at which all laws are resolved but for a SMALL share."""
    laws = [law for law in laws if law.unresolved(t) > SMALL]
    for _ in range(MOST_STEPS):
        if all(law.unresolved(t) <= SMALL for law in laws):
            break
        t *= 0.9
    return t
