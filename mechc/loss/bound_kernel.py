"""From a kernel to nodes: what PrivacyLoss knows about its kernel, shared by both directions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc import protocol
from mechc.errors import DeclarationError, InternalError, NumericError
from mechc.loss import quadrature
from mechc.loss.atoms import Atoms, Nodes, formulas_apart, merge, split_atoms
from mechc.loss.infinite_mass import (
    CERTAIN,
    FEW,
    NO_MASS,
    LogMass,
    agreed,
    log_complement,
    rounded,
    total,
)
from mechc.loss.lists import MAX_LATTICE, ONE_SIDED, Listing, Lists, Stop
from mechc.loss.moments import log_total
from mechc.loss.quadrature import unresolved
from mechc.loss.quadrature.panels import NONE, Waves
from mechc.loss.quadrature.resolution import LOG_NEGLIGIBLE, SILENT
from mechc.loss.quadrature.rule import (
    ORDER,
    log_densities,
    loss_jitter,
    losses,
    losses_moved,
)
from mechc.loss.running_error import exact_losses, known_masses, known_weights
from mechc.numeric.allowance import DENSITY, spend
from mechc.numeric.rounding import EPS, MASS_TOLERANCE, MOST_LOG
from mechc.protocol import Floats, Kernel, Measure

SMOOTH = (protocol.INCREASING, protocol.DECREASING, protocol.UNSPLIT)
DEFECT = 1e-14  # of a total mass that quadrature itself does not explain ...
MISPLACED = 4.0  # ... beside so many times what rounding of the nodes may move
OPEN_ERROR = 1e-12  # of panels that are not next to an end where the loss is not bounded
SMALLEST = -745.2  # log of the smallest double
WIDENINGS, FURTHER = 12, 2.0  # of a list of integers, and factor from one tilt to the next
NEAR_ONE = -1.0  # log of the rest of the mass below which an atom is its complement
PLAIN = 6.0  # ulps by which those of parameters move quotients of them
# jumps seen, in what that allows for; and how much larger the rounding may be, of which jumps are a
# sample: no bound (twice was enough in 1250 draws, once was not in 4 of 500)
SHOWN, SEEN_OF = 3.0, 2.0
AT_POLES = 16.0  # factor to which the mass between a pole and a cut is known beforehand
MOVED = 4.0  # ulps of ends, and of parameters, between which a branch may be lost
SEEN = 1e-13  # relative rounding of weights beyond which it is counted
MOST_LOST = 0.1  # relative error of a declared mass that is no mass any more
SAME = 1e-3  # of logs: longer lists hold no more of what is left out
NO_ATOMS: Atoms = NONE, (NONE, NONE), -math.inf, -math.inf


class Course(NamedTuple):
    """Outputs of a branch, losses there, what rounding moves these by, and where the loss turns."""

    x: Floats
    loss: Floats
    rounding: Floats
    turns: list[float]


class KernelSource:
    """One kernel at one parameter vector; grows its panels as queries ask for wider strips.

    Threads may share it: panels, and atoms with their tilts, are replaced in one assignment.
    """

    @classmethod
    def many(
        cls, kernel: Kernel, thetas: Sequence[Floats], *, checked: bool = True,
        lacks: float | None = None,
    ) -> list[KernelSource]:  # fmt: skip
        """Bind a kernel to parameters, many at once, each as if it were alone.

        Without `checked` no nodes are made, and the masses need not add up to one. Of an estimated
        density the kernel counts `lacks` as infinite loss, at least what it lacks.

        Raises:
            NumericError: the masses of P and Q do not add up to one.
        """
        sources = [cls(kernel, theta, lacks) for theta in thetas]
        smooth = [s for s in sources if s.continuous]
        ends = [s.rows[:, :2] for s in smooth]
        panels = quadrature.laid(kernel, [s.theta for s in smooth], ends)
        if checked:
            panels = quadrature.covering(panels, -1.0, 0.0)
        for source, found in zip(smooth, panels, strict=True):
            source._panels = found
        for source in sources:
            source._complete(checked)
        return sources

    def __init__(self, kernel: Kernel, theta: Floats, lacks: float | None) -> None:
        """Read branches, atoms and masses, as far as they take no panels."""
        self.kernel, self.theta = kernel, theta
        self.label = f"{kernel.NAME}{tuple(theta.tolist())}"  # for messages
        self.symmetric = bool(kernel.SYMMETRIC)
        strip, table, closed, declared = _constants(kernel, theta)
        lowest, highest = np.asarray(strip).tolist()
        self.strip = (lowest, highest)
        rows = np.asarray(table, np.float64).reshape(-1, 6)
        kinds = [int(kind) for kind in rows[:, 2].tolist()]
        on_lattice = kernel.MEASURE == Measure.LATTICE
        self._lists = Lists(kernel, theta, rows, self.label) if on_lattice else None
        self._missing: dict[bool, float] = {}
        # by branch: nodes, and what `branches` has found of the loss between and beyond them
        self.followed: dict[int, tuple[Floats, Course]] = {}
        self._held = False  # masses against one
        self._gaps = False  # integers of unknown mass
        listings: tuple[Listing, ...] = ()
        smooth = [i for i, kind in enumerate(kinds) if kind in SMOOTH and not on_lattice]
        rows[smooth], *at_poles = unresolved.before_poles(kernel, theta, rows[smooth])
        self._at_poles = tuple(at_poles)  # logs of masses of P and Q
        self.rows = np.ascontiguousarray(rows[smooth])
        self.continuous = bool(smooth)
        bare = not self.continuous and not on_lattice and protocol.PLATEAU not in kinds
        # whether atoms and the closed mass at infinite loss are all of P, and of Q
        self._listed = bare, bare and protocol.Q_ONLY not in kinds
        self._all_atoms = bare and protocol.P_ONLY not in kinds  # whether atoms are all of P
        self.loss_error = 0.0  # of point masses, where losses are differences of logs, ...
        self.digits = 0.0  # ... of which so many roundings are seen; else 0
        self.mass_error = 0.0  # relative, of masses of atoms and plateaus
        self.defect = 0.0  # relative, of normalisers
        # held against the nodes before inverses are used, once for all forks: they share the set
        self.untried: set[str] = set()
        self.density_error = 0.0  # relative, that p and q have in common: likelihoods are right
        self._lacks = lacks
        self._hold_weights()
        self.told = math.nan, math.nan  # masses at infinite loss of P and Q that are parameters
        atoms, found = [self._declared_atoms(declared)], []
        for log, told in zip(atoms[0][2:], self.told, strict=True):
            found.append([self._by_formula(log, told)] if log > -math.inf else [])
        self._panels: quadrature.Quadrature | None = None
        if self._lists:
            x, listings = self._lists.points(-1.0, 0.0)
            atoms.append(self._lattice_atoms(self._lists, x, first=True))
            for masses, log in zip(found, atoms[1][2:], strict=True):
                masses.append(self._by_formula(log, math.nan))
        else:
            for (lo, hi), kind in zip(rows[:, :2].tolist(), kinds, strict=True):
                if kind == protocol.PLATEAU:
                    atoms.append(self._plateau(lo, hi))
                elif kind == protocol.P_ONLY:
                    found[0].append(self.mass_on(lo, hi, "p"))
                elif kind == protocol.Q_ONLY:
                    found[1].append(self.mass_on(lo, hi, "q"))
        tilts = (-1.0, 0.0) if on_lattice else (-math.inf, math.inf)
        self._atoms = (*_joined(atoms), tilts, listings)
        shared = [i for i, kind in enumerate(kinds) if kind not in ONE_SIDED]
        branches = rows[shared] if on_lattice else self.rows
        if on_lattice and not self._gaps:  # of integers all listed atoms tell more than limits
            branches = branches[~(branches[:, 1] - branches[:, 0] <= MAX_LATTICE)]
        self._unsplit = bool(np.logical_or.reduce(branches[:, 2] == protocol.UNSPLIT))
        self.support = self._find_support(branches)
        # P(L = inf) and Q(L = -inf)
        self.infinite = agreed(float(closed), total(found[0]), self.label), total(found[1])
        self.early = NO_MASS, NO_MASS  # at infinite loss, of P and Q, though their loss is not
        self.above: tuple[Any, ...] = ()  # steps of which one has no smaller Rényi divergence
        self._atom_error = 0.0
        self._find_ends()
        self._table = rows  # of the kernel, until first panels are there

    def _complete(self, checked: bool) -> None:
        """Find the masses that the kernel leaves open, by first panels if there are any."""
        kernel, rows = self.kernel, self._table
        if checked:
            self._check_masses()
        if kernel.MEASURE != Measure.LATTICE and not 0 < len(kernel.BRANCHES) <= len(rows):
            self._reveal(*self._between_doubles(rows))
        for tail in self._lists.tails.values() if self._lists else ():
            with np.errstate(divide="ignore"):  # where nothing is moved
                rise = np.log(np.expm1(tail[:, 2]))
            moved = [log_total(tail[:, i] + rise) for i in (0, 1)]
            self._reveal(LogMass(moved[0]), LogMass(moved[1]))
        self._first = self._panels, self._atoms

    def fork(self) -> KernelSource:
        """Return a copy whose panels and lattice grow on their own; neither is written to."""
        other = object.__new__(type(self))  # `copy` does the same in five times as long
        vars(other).update(vars(self), _missing={})
        other._lists = copy(self._lists)
        return other

    def lean(self) -> KernelSource:
        """Return a fork as it was before any tilt was asked for."""
        other = self.fork()
        other._panels, other._atoms = self._first
        return other

    def cut_to(self, rows: Floats, panels: quadrature.Quadrature) -> None:
        """Take shorter branches, on which the loss is bounded, and fresh panels for them."""
        self.rows, self._missing, self.followed = rows, {}, {}
        (self._panels,) = quadrature.covering([panels], -1.0, 0.0)
        self.strip = (-math.inf, math.inf)
        self.support = self._find_support(rows)
        self._find_ends()
        self._check_masses()
        self._first = self._panels, self._atoms

    def keep_atoms(self, kept: NDArray[np.bool_]) -> None:
        """Take these of the point masses for all that share outcomes."""
        loss, masses = self._atoms[0][kept], tuple(logs[kept] for logs in self._atoms[1])
        self._atoms = loss, masses, (-math.inf, math.inf), ()
        self._first = None, self._atoms
        self._lists = None
        self.strip = (-math.inf, math.inf)
        self.support = (float(loss[0]), float(loss[-1])) if loss.size else (0.0, 0.0)

    @property
    def estimated(self) -> bool:
        """Whether an error of densities, or what lists leave out, is estimated: not proven."""
        return self._lacks is not None or (self._lists is not None and self._lists.estimated)

    @property
    def is_steep(self) -> bool:
        """Whether the loss grows without limit towards an end of a branch that is a number."""
        return bool((np.isfinite(self.rows[:, :2]) & np.isinf(self.rows[:, 3:5])).any())

    def _find_ends(self) -> None:
        """Find what doubles do not resolve next to the ends of the support, and cut the strip."""
        ends = unresolved.ends_of(self.kernel, self.theta, self.rows, zero=True)
        self.ends, self.every_end = tuple(end for end in ends if end.place), ends
        p, q = [min(mass.log, -CERTAIN) for mass in self.infinite]
        self._log_finite = math.log1p(-math.exp(p)), math.log1p(-math.exp(q))
        if ends:
            self.strip = unresolved.resolved_strip(ends, self.strip, self._log_finite)

    def unresolved(self, t: float) -> float:
        """Return the share of the mass at tilt t that lies too close to an end for any node."""
        return math.exp(unresolved.log_share(self.every_end, t, self._log_finite))

    def mass_on(self, lo: float, hi: float, law: str) -> LogMass:
        """Return the mass of one law on a branch, by quadrature."""
        log_mass, error = quadrature.mass_and_error(self.kernel, self.theta, lo, hi, law)
        if log_mass == -math.inf:
            return LogMass()
        error += self._rounded_ends(lo, hi, law, log_mass)
        return LogMass(log_mass, error + self.defect)

    def log_missing(self, reverse: bool) -> float:
        """Log of what masses of P, or Q, lack to one: next to a finite end it may be any loss's.

        Where they were not held against one it may be anywhere.

        Raises:
            NumericError: a mass was not found.
        """
        ends = bool(np.isfinite(self.rows[:, :2]).any())
        if self._held and not ends:
            return -math.inf
        if reverse not in self._missing:
            gap, off = self._lacking(reverse)
            self._missing[reverse] = math.log(gap + off) if ends or gap > off else -math.inf
        return self._missing[reverse]

    def _lacking(self, reverse: bool) -> tuple[float, float]:
        """What masses of P, or Q, lack to one, and its error; branches have a quadrature each."""
        law = "q" if reverse else "p"
        found = [self.infinite[reverse]]
        found.append(LogMass(log_total(self.atom_log_masses(reverse)), self.atom_error))
        found += [self.mass_on(lo, hi, law) for lo, hi in self.rows[:, :2].tolist()]
        shares = [math.exp(min(m.log, MOST_LOG)) for m in found]
        off = math.fsum(s * m.error for s, m in zip(shares, found, strict=True))
        return abs(1.0 - math.fsum(shares)), off + FEW * EPS

    def _by_formula(self, log_mass: float, told: float) -> LogMass:
        """A declared mass; a parameter itself is not rounded."""
        log, error = rounded(log_mass) if math.isnan(told) else LogMass(log_mass)
        return LogMass(log, error + self.atom_error)

    def _rounded_ends(self, lo: float, hi: float, law: str, log_mass: float) -> float:
        """What lies between the ends of a branch and their roundings, as a share of a mass."""
        ends = np.array([lo, hi])
        known = np.isfinite(ends)
        inner, ends = np.nextafter(ends, ends[::-1])[known], ends[known]
        logs = log_densities(self.kernel, self.theta, inner, law)
        share = EPS * np.abs(ends) * np.exp(np.minimum(logs - log_mass, MOST_LOG))
        return float(share.sum()) + rounded(log_mass).error

    def _between_doubles(self, rows: Floats) -> tuple[LogMass, LogMass]:
        """Masses of P and Q that branches may have whose two ends are one double."""
        # These show in the table when a parameter moves by ulps of the largest; they lie at an end.
        ends = np.unique(rows[:, :2][np.isfinite(rows[:, :2]) & (rows[:, :2] != 0.0)])
        ulps = MOVED * EPS * float(np.abs(self.theta).max(initial=0.0))
        near = self.theta + ulps * np.vstack([np.eye(self.theta.size), -np.eye(self.theta.size)])
        if not ends.size or all(len(self.kernel.branches(moved)) <= len(rows) for moved in near):
            return LogMass(), LogMass()
        sides = np.concatenate([np.nextafter(ends, -np.inf), np.nextafter(ends, np.inf)])
        logs = log_densities(self.kernel, self.theta, sides)
        logs += np.log(MOVED * EPS * np.abs(np.tile(ends, 2)))
        logs[np.isnan(logs)] = -np.inf
        p, q = (LogMass(min(log_total(log), 0.0)) for log in logs)
        return p, q

    @property
    def panels(self) -> quadrature.Quadrature:
        """The panels of the continuous part."""
        if self._panels is None:
            raise InternalError(f"{self.label} has no continuous part")
        return self._panels

    @property
    def atom_loss(self) -> Floats:
        """Finite losses with point masses."""
        return self._atoms[0]

    def atom_log_masses(self, reverse: bool) -> Floats:
        """Their log masses under P, or Q."""
        return self._atoms[1][reverse]

    @property
    def atom_error(self) -> float:
        """Relative error of the masses of atoms."""
        return self.mass_error + self.defect

    @property
    def tilts(self) -> tuple[float, float]:
        """Real tilts covered so far, in the orientation of the kernel."""
        return self._atoms[2] if self._panels is None else self._panels.tilts

    def cover(self, tilt_lo: float, tilt_hi: float) -> quadrature.Quadrature:
        """Return panels that resolve these tilts, and keep them; those of before where they do not.

        Raises:
            NumericError: they did not settle.
        """
        (self._panels,) = found = quadrature.covering([self.panels], tilt_lo, tilt_hi)
        return found[0]

    def nodes(self, lo: float, hi: float) -> Nodes:
        """Return nodes accurate for real tilts lo..hi."""
        return nodes([self], lo, hi)[0]

    def _nodes_of_atoms(self, lo: float, hi: float) -> Nodes:
        """Nodes of a law without a density."""
        if self._lists and (lo < self.tilts[0] or hi > self.tilts[1]):
            self._widen(self._lists, lo, hi)
        loss, (log_mass, _), tilts, _ = self._atoms
        found = Nodes.of_atoms(loss, log_mass, self._atom_error + self.atom_error, tilts)
        return found._replace(support=self.support) if self._lists else found

    def nodes_on(self, panels: quadrature.Quadrature) -> Nodes:
        """Nodes of panels, and atoms."""
        # Panels next to an end are all that is left unresolved, at the largest tilts.
        error = min(panels.error, OPEN_ERROR) if self.ends else panels.error
        return Nodes(
            loss=panels.loss.ravel(), log_weight=panels.log_weight, spacing=panels.spacing,
            region=panels.region.repeat(ORDER), atom_loss=self._atoms[0],
            atom_log_mass=self._atoms[1][0], support=self.support, lattice=None,
            tolerance=error + self.mass_error + self.defect, tilts=panels.tilts,
        )  # fmt: skip

    def _find_support(self, branches: Floats) -> tuple[float, float]:
        """Range of the finite loss: limits of the branches and atoms."""
        limits = branches[:, 3:5].ravel().tolist()
        if self._unsplit or any(map(math.isnan, limits)):
            return -math.inf, math.inf
        if self.atom_loss.size:
            limits += [float(self.atom_loss[0]), float(self.atom_loss[-1])]
        # P and Q may share no outcome
        return (min(limits), max(limits)) if limits else (0.0, 0.0)

    def _hold_weights(self) -> None:
        """Refuse weights below zero, and count what rounding makes of others."""
        for words, (value, error) in known_weights(self.kernel, self.theta).items():
            if value + error < 0.0:
                rows = zip(self.kernel.PARAMETERS, self.theta.tolist(), strict=True)
                at = ", ".join(f"{row[0]}={v!r}" for row, v in rows)
                raise DeclarationError(
                    f"{self.kernel.NAME}: the weight {words} is {value!r} at {at} (expected "
                    "a weight that is not negative)"
                )
            masses = self.kernel.MEASURE == protocol.Measure.FINITE  # they have errors of their own
            if masses or value == error == 0.0 or error <= SEEN * value:
                continue
            if not error < MOST_LOST * value:
                raise NumericError(
                    f"{self.label}: rounding leaves nothing of the weight {words}, {value!r}"
                )
            if self._listed[0]:  # of regions that one law has alone
                self.defect += 2.0 * error / value
            else:
                self._lose(error / value)

    def _lose(self, share: float) -> None:
        """Count a relative error of p and q, and so of their quotient."""
        self.defect += 2.0 * share
        self.loss_error -= 2.0 * math.log1p(-share)

    def _declared_atoms(self, declared: Floats) -> Atoms:
        """Declared point masses: finite losses, their log masses, and the one-sided masses."""
        if not np.size(declared):
            return NO_ATOMS
        rows, errors, self.told = declared_masses(self.kernel, self.theta, declared, self.label)
        rounding = self._near_one(rows, errors)
        with np.errstate(invalid="ignore"):  # an outcome that has mass under neither law
            loss = rows[:, 1] - rows[:, 2]
        both = np.isfinite(loss)
        if self.kernel.MEASURE == Measure.FINITE:
            loss, rounding = self._closer(rows[:, 0], loss, rounding)
        # a loss that is 0 or a parameter by its formula is right whatever its masses are
        if errors.size:
            rounding = rounding + np.where(rounding > 0.0, errors.sum(axis=1), 0.0)
        self.loss_error = max(self.loss_error, float(rounding[both].max(initial=0.0)))
        # of the masses, not of their logs
        self.mass_error = max(self.mass_error, math.expm1(float(errors.max(initial=0.0))))
        return split_atoms(rows[:, 1], rows[:, 2], loss)

    def _near_one(self, rows: Floats, errors: Floats) -> Floats:
        """How far differences of the logs of atoms may be off; masses near one become complements.

        The formula of a mass near one is a sum, or a product, near one, however small its log is. A
        complement is off by what the other masses are; `errors` are shares of them.
        """
        error = FEW * EPS * (1.0 + np.abs(rows[:, 1:]))
        shared = np.isfinite(rows[:, 1:]).all(axis=1)
        unshared = [log_total(rows[~shared, column]) for column in (1, 2)]
        if not self._all_atoms:  # under P, by regions as well
            unshared[0] = float(self.kernel.log_infinite_mass(self.theta))
        for column, beside in enumerate(unshared):
            if not (shared.any() and self._listed[column] and beside < np.inf):
                continue
            logs = np.where(shared, rows[:, 1 + column], -np.inf)
            most = int(np.argmax(logs))
            rest = log_total(np.append(np.delete(logs, most), beside))
            if rest < NEAR_ONE:
                rows[most, 1 + column] = log_complement(rest)
                lost = np.delete(errors[:, column], most).max(initial=0.0) if errors.size else 0.0
                lost += rounded(rest).error + self.defect
                share = math.exp(rest)
                error[most, column] = lost * share / (1.0 - share * (1.0 + lost))
        return np.asarray(error.sum(1))

    def _closer(self, x: Floats, loss: Floats, rounding: Floats) -> tuple[Floats, Floats]:
        """Losses by their formula unless differences of logs are known better; errors of both."""
        # A formula such as log(a/b) loses the digits of small losses, which are relative to one.
        x, formula = np.ascontiguousarray(x), np.empty(x.size)
        self.kernel.loss_many(x, self.theta, formula)
        exact = np.isin(np.abs(formula), np.append(self.theta, 0.0))  # perhaps: in doubles
        exact[exact] = exact_losses(self.kernel, self.theta, x[exact])
        with np.errstate(invalid="ignore"):
            apart = np.abs(formula - loss)
            good = (apart <= rounding) | (formula == loss)  # or both infinite
        error = np.where(good, np.where(exact, 0.0, apart + rounding), rounding)
        return np.where(good, formula, loss), error

    def _plateau(self, lo: float, hi: float) -> Atoms:
        x = inside(lo, hi)
        value = float(losses(self.kernel, self.theta, np.array([x]))[0])
        mass = self.mass_on(lo, hi, "p")
        self.mass_error = max(self.mass_error, mass.error)
        moved = float(losses_moved(self.kernel, self.theta, np.array([x]), np.array([value]))[0])
        jitter = loss_jitter(self.kernel, self.theta, x)
        if max(moved, SHOWN * jitter) > PLAIN * EPS * abs(value):
            moved += SEEN_OF * jitter
            self.loss_error = max(self.loss_error, moved)
        masses = np.array([mass.log]), np.array([mass.log - value])
        return np.array([value]), masses, -math.inf, -math.inf

    def _lattice_atoms(self, lists: Lists, x: Floats, first: bool = False) -> Atoms:
        """Evaluate a lattice kernel on integers; the first time its errors are found, too."""
        spend(DENSITY * x.size)
        log_p, log_q, loss = lists.at(x)
        if first:
            self._gaps = bool((np.isnan(log_p) | np.isnan(log_q)).any())
            apart, self.digits = formulas_apart(log_p, log_q, loss, self.label)
            self.loss_error += apart
            self.defect += apart
        if lists.tails:
            tails = np.concatenate(list(lists.tails.values()))
            log_p, log_q = np.append(log_p, tails[:, 0]), np.append(log_q, tails[:, 1])
            loss = np.append(loss, tails[:, 0] - tails[:, 1])
        return split_atoms(log_p, log_q, loss)

    def listed(self) -> list[Stop]:
        """Return where lists of integers stop that go on."""
        return self._lists.stops(self._atoms[3]) if self._lists else []

    def log_unlisted(self, tilts: tuple[float, float], reverse: bool) -> float:
        """Return log of the mass of P, or Q, that lists made for these tilts do not hold."""
        if not self._lists:
            return -math.inf
        listings = self._atoms[3]
        if not np.allclose(tilts, self.tilts, rtol=1e-14, atol=0.0):  # they have grown since
            listings = self._lists.points(*tilts)[1]
        return self._lists.log_left_out(self._lists.stops(listings), -math.inf, reverse)

    def atoms_above(self, epsilon: float, reverse: bool) -> tuple[Floats, Floats, float]:
        """Return atoms, their log masses, and log of what integers not listed add to delta.

        Lists end where masses are nothing beside the whole, at the tilts asked for. Beside the mass
        of losses above a large epsilon they may be something still.
        """
        source = self.fork()  # what only one epsilon needs is a burden for others
        left_out, before, size = -math.inf, math.inf, 0
        for _ in range(WIDENINGS):
            loss, log_mass, ends = (
                source.atom_loss,
                source.atom_log_masses(reverse),
                source.listed(),
            )
            loss = -loss if reverse else loss
            up = loss > epsilon
            found = log_total(log_mass[up] + np.log(-np.expm1(epsilon - loss[up])))
            if source._lists:
                left_out = source._lists.log_left_out(ends, epsilon, reverse)
            if left_out <= found + LOG_NEGLIGIBLE:
                return loss, log_mass, -math.inf
            grown, size = source.atom_loss.size > size, source.atom_loss.size
            if grown and left_out >= before - SAME:  # longer lists hold no more of it
                break
            before = left_out
            if found == -math.inf and left_out < SMALLEST:
                break  # nothing is above, and what may be is no double
            (low, high), strip = source.tilts, source.strip
            try:  # the next tilts inside the strip of convergence
                if reverse:
                    next_ = max(-1.0 - FURTHER * max(-1.0 - low, 0.5), 0.5 * (low + strip[0]))
                    source.nodes(next_, 0.0)
                else:
                    most = min(FURTHER * max(high, 0.5), 0.5 * (high + strip[1]))
                    source.nodes(-1.0, most)
            except NumericError:
                break
        return loss, log_mass, left_out

    def _widen(self, lists: Lists, lo: float, hi: float) -> None:
        """Lengthen lists until they are enough for these tilts."""
        loss, masses, (low, high), listings = self._atoms
        tilts = min(lo, low), max(hi, high)
        x, wider = lists.points(*tilts, listings)
        if wider != listings or lists.faded:
            declared = self._declared_atoms(self.kernel.atoms(self.theta))
            loss, masses = _joined([declared, self._lattice_atoms(lists, x)])
        self._atoms = loss, masses, tilts, wider

    def _check_masses(self) -> None:
        """Masses of P and Q must be one: the two checks that find missed modes and wrong pairs."""
        # What they lack where branches were cut before poles stands at infinite loss.
        continuous, known = (-math.inf, -math.inf), DEFECT + self.mass_error
        revealed: list[LogMass] = []
        if self._panels is not None:
            panels = self._panels
            continuous = panels.log_masses
            known += MISPLACED * panels.misplaced(0.0)
        for name, shift, smooth, at_infinity in (
            ("P", 0.0, continuous[0], self.infinite[0].log),
            ("Q", -1.0, continuous[1], self.infinite[1].log),
        ):
            whole = math.exp(min(smooth, MOST_LOG)) + math.exp(at_infinity)
            rounding = self._lacks or 0.0
            if self.atom_loss.size:
                whole += math.exp(log_total(self.atom_log_masses(False) + shift * self.atom_loss))
                # masses under Q carry the rounding of the losses
                rounding += 1e-15 * abs(shift) * float(np.abs(self.atom_loss).max())
            # what lies within some ulps of an end of unbounded loss is counted with those losses
            rounding += math.exp(min(unresolved.log_lost(self.ends, name == "Q"), 0.0))
            expected, least = math.exp(min(self._at_poles[name == "Q"], 0.0)), -MASS_TOLERANCE
            if expected > 0.0:
                rounding += AT_POLES * expected
                least = expected / AT_POLES - known
                revealed.append(LogMass(math.log(max(1.0 - whole, 0.0) + known)))
            else:
                revealed.append(NO_MASS)
            if not least - rounding <= 1.0 - whole <= MASS_TOLERANCE + rounding:
                raise NumericError(
                    f"{self.label}: the mass of {name} found numerically is {whole!r}, not 1; "
                    "the declaration is not normalised at these parameters or the quadrature "
                    "missed a narrow mode"
                )
            defect = abs(1.0 - whole)
            if not self.continuous:  # log masses are differences of large logs of factorials
                self._atom_error = max(self._atom_error, 2.0 * defect if defect > 4e-15 else 0.0)
            if defect > known + rounding and self.continuous:
                # panels that tell changes of the law to all digits need not tell its mass at kinks
                defect = min(defect, sum(self._lacking(name == "Q")))
            if defect > known + rounding:  # a normaliser has lost digits: losses are off by as much
                # of integers with lists that stop alone a mode is out of sight
                stops = self._lists and not self._lists.tails and self.listed()
                log_mass = np.maximum(self.atom_log_masses(name == "Q"), -MOST_LOG)
                shown = self.digits * EPS * (1.0 - float(np.exp(log_mass) @ log_mass))
                missed = self.continuous or (stops and defect > known + self.loss_error + shown)
                if whole < 1.0 and missed and not (self.estimated or expected > 0.0):
                    # or a mode was missed
                    revealed[-1] = LogMass(math.log(defect + known))
                self._lose(defect)
                p, q = (LogMass(m.log, m.error + 2.0 * defect) for m in self.infinite)
                self.infinite = p, q
        self._reveal(*revealed)
        self._at_poles, self._held = (-math.inf, -math.inf), True

    def _reveal(self, p: LogMass, q: LogMass) -> None:
        """Count masses of P and Q, whatever their loss is, at infinite loss."""
        if p.log == q.log == -math.inf:
            return
        self.early = total([self.early[0], p]), total([self.early[1], q])
        self.infinite = total([self.infinite[0], p]), total([self.infinite[1], q])


def nodes(
    sources: Sequence[KernelSource], lo: float, hi: float, contour: float = 0.0, waves: Waves = ()
) -> list[Nodes]:
    """Return nodes of many laws, accurate for real tilts lo..hi and for waves at Re z = contour.

    Raises:
        NumericError: some did not settle; panels of before are kept.
    """
    smooth, panels = [], []
    for source in sources:
        if source._panels is not None:
            smooth.append(source)
            panels.append(source._panels)
    # for waves not kept, so that later questions do not pay for this one's
    points = (contour,) if waves else ()
    panels = quadrature.covering(panels, lo, hi, *points)
    for source, kept in zip(smooth, panels, strict=True):
        source._panels = kept
    if waves:
        panels = quadrature.with_waves(panels, contour, waves)
    found, made = [], iter(panels)
    for source in sources:
        smooth_one = source._panels is not None
        found.append(source.nodes_on(next(made)) if smooth_one else source._nodes_of_atoms(lo, hi))
    return found


def declared_masses(
    kernel: Kernel, theta: Floats, declared: Floats, label: str
) -> tuple[Floats, Floats, tuple[float, float]]:
    """Declared point masses: rows, errors of logs, and parameters that infinite masses are."""
    rows = np.array(declared, np.float64).reshape(-1, 3)
    if not (rows[:, 1:] < np.inf).all():
        raise NumericError(f"{label}: point masses are beyond the range of doubles")
    errors, told = known_masses(kernel, theta)
    sizes = np.abs(rows[:, 1:], where=rows[:, 1:] > -np.inf, out=np.zeros_like(errors))
    counted = FEW * EPS * (1.0 + sizes)  # with their logs
    errors[errors <= counted] = 0.0
    if (lost := ~(errors < MOST_LOST).all(axis=1)).any():
        raise NumericError(
            f"{label}: rounding leaves nothing of the mass at {float(rows[lost, 0][0])!r},"
            " a difference of numbers that nearly cancel here; declare it as a tail, such as "
            "erfc(x) for 1 - erf(x), or as a product"
        )
    return rows, errors, told


@SILENT
def _constants(kernel: Kernel, theta: Floats) -> list[Any]:
    """Strip, branches, log mass at infinite loss and atoms, as Python has them if nothing fails.

    Called by themselves they set up for that one by one.
    """
    tables: Any = kernel.strip, kernel.branches, kernel.log_infinite_mass, kernel.atoms
    try:
        return [
            (table.py_func if getattr(table, "plain", False) else table)(theta) for table in tables
        ]
    except (ArithmeticError, ValueError):
        return [table(theta) for table in tables]


def _joined(parts: list[Atoms]) -> tuple[Floats, tuple[Floats, ...]]:
    """Losses and masses of all, those of equal losses added up."""
    if len(parts) == 1:
        return merge(parts[0][0], *parts[0][1])
    loss = np.concatenate([part[0] for part in parts])
    return merge(loss, *(np.concatenate([part[1][i] for part in parts]) for i in (0, 1)))


def inside(lo: float, hi: float) -> float:
    """An output between two ends, either of which may be infinite."""
    if math.isfinite(lo + hi):
        return 0.5 * (lo + hi)
    return lo + 1.0 if math.isfinite(lo) else hi - 1.0 if math.isfinite(hi) else 0.0
