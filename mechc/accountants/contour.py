"""Exact accounting on a vertical contour, for every epsilon.

`side` answers for epsilon >= 0; negative epsilon goes through the reversed pair (I3), so that
nothing cancels: delta(eps) = 1 - exp(eps) M(-1) + exp(eps) H_rev(-eps).

A side chooses contour, period and length. The sum itself and its error terms are in
`contours.trapezoid`; what is left out beyond the last node is bounded by `contours.decay`. The
number of nodes does not depend on the number of steps.

Where all losses lie on one lattice (randomised response, discrete noise) the characteristic
function is periodic and the sum over one period is complete (docs/numerics.md, section 5): only
images a whole period away remain, bounded as in Theorem A. Computed losses may be off the lattice
by rounding; moving every loss by d changes K(z) by at most |z| d, which the rounding allows for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from mechc.accountants.bound import Bound
from mechc.accountants.contours import inversion
from mechc.accountants.contours.atoms import LEAST_SHARE, BesideAtoms, composed_atoms
from mechc.accountants.contours.characteristic import BLOCK, PROVEN, Tilted
from mechc.accountants.contours.columns import Columns, targets
from mechc.accountants.contours.decay import FARTHER, truncation
from mechc.accountants.contours.placement import Placement, place
from mechc.accountants.contours.trapezoid import Answer, Blurred, Contour, Lattice, Smooth
from mechc.accountants.registry import ALIKE, KEPT, Accountant
from mechc.accountants.sparse import STEPS, Jumps, by_largest_losses
from mechc.errors import NumericError, UnsupportedError
from mechc.loss.infinite_mass import composed, with_infinite
from mechc.loss.privacy_loss import Step, sharp_tilt
from mechc.numeric.logs import log1mexp
from mechc.numeric.rounding import EPS

Logs = tuple[float, float, float]  # lower side, estimate and upper side


LEFT_OUT, LONGEST = 1e-8, 16384  # of delta by truncation, and nodes, of a contour for many rows
LASTING = 1e-6  # times the first term of its sum that atoms alone keep beyond these nodes
SHARE = 1e-13  # images and truncation may cost this share of delta
PLENTY = 1e-6  # share of rtol below which no further node is worth its cost
BEFORE, JUMPS = 0.99, 1e3  # share of a saddle point, and factor by which curvature grows from there
AGAIN = 1e-3  # share of rtol that an answer from an earlier contour may be wide
ELSEWHERE = 1e-2  # the same for brackets made for another epsilon, or beside a contour
EASY = 20_000_000  # node evaluations after which rtol decides how much truncation is acceptable
WORK = 100_000_000  # node evaluations per answer before a wide bound is returned instead
BLURRED = 300_000_000  # the same for a smoothed payoff
MOST_NODES = 2**23  # frequencies of a smoothed payoff: some 1.6 GB
REUSED = 1e-10  # width with which a contour answers for another epsilon
CLOSE_EPSILONS = 1e-3  # relative distance of epsilons at which it does so however wide
FIRST = 32  # nodes to begin with
BEYOND = 1.2  # times the frequency at which phi is thought to have faded, to which it is resolved
FEW_NODES = 160  # nodes that are cheaper than anything else
CROWDED = 1600  # nodes beyond which small and large losses are taken apart at once
QUICK = 25_000_000  # node evaluations before that is tried for fewer nodes
GROWTH = 3.0  # times the nodes expected, likewise
PATIENCE, LOUD = 2048, math.log(1e-4)  # nodes after which no |phi| above this is waited out
NARROW, FINE = 0.3, 0.03  # width of a smoothed answer, in rtol, that is enough; for many rows
FITS = 4  # refinements of a smoothed payoff
NOTHING = math.log(1e-14)  # share of the mass that need not be told from none
UNSEEN = math.log(EPS) - 1.0  # share of delta that changes no digit
LOOSE = 2.0  # nats, width from which on Chernoff's bound may be narrower
ROUNDED = 1e-9  # blocks that rounding may add to a division
CROWD = 100_000  # nodes of a step's tilted law beyond which no higher frequency is asked for


class Side(Columns):
    """The finite part H of one direction for epsilon >= 0, with everything that can be re-used.

    Attributes:
        contours: the last ones that have answered, with their first epsilons and answers.
    """

    def __init__(self, steps: tuple[Step, ...], payoff: Smooth | Lattice, rtol: float) -> None:
        """Keep the steps; `payoff` says whether the losses lie on a lattice."""
        super().__init__(steps)
        self._coarse = steps
        self._payoff = payoff
        self._rtol = rtol
        self.contours: list[tuple[Contour | Blurred | Jumps, float, Answer]] = []
        self._log_mass = self.log_q = 0.0
        # sums of atoms may matter, which no contour serves without a part of their own
        self._has_sums = math.isinf(payoff.edge)
        for law, count in steps:
            self._log_mass += count * law.log_finite
            self.log_q += count * law.log_covered
            self._has_sums = self._has_sums and law.atom_loss.size > 0

    def finite(
        self,
        epsilon: float,
        whole: Callable[[Answer], Logs] | None = None,
        rest: float = -math.inf,
    ) -> tuple[Contour | Blurred | Jumps | None, Answer]:
        """H(epsilon) = E_P[(1 - exp(epsilon - L))_+; L finite]; and the contour that answered.

        `whole` makes log delta of it, of which H may be a small part beside `rest`, a log.
        """
        if self._highest <= epsilon or not math.isfinite(self._log_mass):
            why = "epsilon is at or beyond the largest finite loss"
            return None, Answer(-math.inf, -math.inf, -math.inf, {"reason": why})
        if self._highest == self._lowest:
            value = self._log_mass + math.log(-math.expm1(epsilon - self._highest))
            off = 1e-14 + self.law.tolerance
            return None, Answer(value - off, value, value + off, {"reason": "a single atom"})
        at_hand = self._at_hand(epsilon, whole) if self.contours else None
        if at_hand is not None:
            return at_hand
        if self.log_complement(epsilon) < NOTHING:
            low, high = self._log_mass - 2.0 * math.exp(NOTHING), self._log_mass
            return None, Answer(low, high, high, {"reason": "all losses are larger"})
        if not self._t_max > 0.0:
            raise UnsupportedError("no moment E[exp(tL)], t > 0, of the loss is known to be finite")
        try:
            if rest > -math.inf and self.chernoff_below(epsilon, rest + UNSEEN) <= rest + UNSEEN:
                return None, self._chernoff(epsilon, "finite losses are negligible")
            return self._fresh(epsilon)
        except NumericError as error:
            return None, self._chernoff(epsilon, str(error))

    def _at_hand(
        self, epsilon: float, whole: Callable[[Answer], Logs] | None
    ) -> tuple[Contour | Blurred | Jumps, Answer] | None:
        """A contour that has answered before and answers here as well, with its answer."""
        for known, at, first in self.contours:
            if at == epsilon:
                return known, first
            again = known.answer(epsilon)
            if again is None:
                continue
            share = AGAIN if type(known) is Contour else ELSEWHERE if type(known) is Jumps else 1.0
            most = math.inf if abs(epsilon - at) <= CLOSE_EPSILONS * at else self._rtol
            enough = max(REUSED, share * self._rtol, min(ALIKE * first.width, most))
            kept = again if whole is None else Answer(*whole(again), {})
            if kept.width <= enough < math.inf:
                return known, self._capped(epsilon, again)
        return None

    def _fresh(self, epsilon: float) -> tuple[Contour | Blurred | Jumps | None, Answer]:
        """H(epsilon) on a contour of its own, or by the largest losses where that is crowded."""
        where = self.choose(epsilon)
        one_scale = math.isfinite(self._payoff.edge) or (
            self._has_sums and Tilted(self.law, where.c).lasting > LEAST_SHARE
        )
        # frequencies that are expected to be needed, none where there is no other way
        nodes = 0.0 if one_scale else self._reach(where) * where.period / (2.0 * math.pi)
        if nodes > CROWDED and len(self._steps) > STEPS:
            why = f"{nodes:.2g} frequencies of many distinct steps"
            return None, self._chernoff(epsilon, why)
        contour = None if nodes > CROWDED else self.laid(where, one_scale)
        most, growth = (QUICK, GROWTH) if nodes > FEW_NODES else (math.inf, math.inf)
        answer = None if contour is None else self.run(contour, epsilon, most, growth)
        if not (answer and answer.width <= self._rtol) and not one_scale:
            found = by_largest_losses(self._steps, epsilon, self._rtol)
            if found is not None:
                jumps, rare = found
                if contour is not None and rare.width > ELSEWHERE * self._rtol:
                    answer = self.run(contour, epsilon, most)
                if answer is None or answer.width > rare.width:
                    return self._kept(jumps, epsilon, rare)
        contour = contour or self.laid(where, one_scale)
        answer = answer or self.run(contour, epsilon)
        answer = answer or self._chernoff(epsilon, "the trapezoid sum is not positive")
        return self._kept(contour.blurred or contour, epsilon, self._capped(epsilon, answer))

    def _capped(self, epsilon: float, answer: Answer) -> Answer:
        """An answer, where it is loose with Chernoff's bound."""
        if answer.width < LOOSE:
            return answer
        upper = min(answer.upper, self._log_mass, self.chernoff(epsilon)[0])
        return replace(answer, upper=upper, estimate=min(answer.estimate, upper))

    def _kept(
        self, contour: Contour | Blurred | Jumps, epsilon: float, answer: Answer
    ) -> tuple[Contour | Blurred | Jumps, Answer]:
        """Remember a contour that has answered."""
        self.contours = [(contour, epsilon, answer), *self.contours[: KEPT - 1]]
        return contour, answer

    def choose(self, epsilon: float) -> Placement:
        """Contour and period that need the fewest nodes (docs/numerics.md, section 4)."""
        t0, f2 = self.saddle(epsilon)
        if math.isinf(t0):
            raise NumericError("losses are too small for a tilt")
        sharp = sharp_tilt((s.loss for s in self._steps), t0) if self.law.is_open else t0
        before = BEFORE * t0
        bends = self.law.roughly(before, sharp)[:, 2]
        if f2 > JUMPS * float(bends[0] + before**-2 + (1.0 + before) ** -2):
            sharp = min(sharp, before)  # rare large losses begin to count
        if sharp < t0:
            t0, f2 = sharp, float(bends[int(sharp != before)]) + sharp**-2 + (1.0 + sharp) ** -2
        top = self.top(t0, f2)
        self._cover(top)
        # sums of atoms never fade: their contour is chosen as if they did, by the spread
        spread = self._has_sums and Tilted(self.law, t0).lasting > LEAST_SHARE
        return place(self.law, np.array([[1.0], [t0], [epsilon]]), top, SHARE, spread)

    def on(self, where: Placement, epsilon: float, most: float) -> Contour | Blurred | None:
        """A contour with as many nodes as `_wait` allows, None where these leave too much out.

        Of atoms that never fade one with a smoothed payoff.
        """
        contour = self.laid(where, False)
        if not contour.weight(epsilon) > 0.0:
            return None
        least = math.exp(contour.tilted.lasting) / (contour.h * LONGEST)  # that decay is left
        if math.isinf(contour.most) and least * contour.factor(epsilon, np.empty(0)) > LASTING:
            return self._smoothed(contour, epsilon) if self._has_sums else None
        self._wait(contour, epsilon, min(most, 2.0 * EASY), LONGEST / FIRST, blurs=False)
        if not contour.nodes:
            return None
        factor = contour.factor(epsilon, contour.terms(epsilon)[0])
        if not factor * contour.decay < LEFT_OUT:
            contour.decay = truncation(self._steps, contour, LEFT_OUT / factor)
        return contour if factor * contour.decay < LEFT_OUT else None

    def _smoothed(self, contour: Contour, epsilon: float) -> Blurred | None:
        """The contour with a smoothed payoff, None where that leaves answers wide."""
        if not self._resolve(contour, PATIENCE):
            return None
        contour.extend(PATIENCE)
        answer = self._blurred(contour, epsilon, FINE)
        return contour.blurred if answer is not None and answer.width <= self._rtol else None

    def _reach(self, where: Placement) -> float:
        """Last of as many frequencies as are likely to be needed, in whole blocks."""
        h = 2.0 * math.pi / self._payoff.period(where.period)
        return h * max(FIRST, BLOCK * math.ceil(min(BEYOND * where.frequency / h, 1e15) / BLOCK))

    def laid(self, where: Placement, one_scale: bool) -> Contour:
        """The contour chosen, beside sums of atoms in closed form where these matter."""
        if one_scale and self._has_sums:
            tilted = Tilted(self.law, where.c)
            sums = composed_atoms(self.law.steps, tilted.atoms)
            if sums is not None and tilted.lasting > LEAST_SHARE and tilted.spread.max() > 0.0:
                lean = (Step(s.loss.lean(-1.0 - where.c, where.c), s.count) for s in self._coarse)
                with suppress(NumericError):  # no nodes resolve frequencies
                    return BesideAtoms(sums, tuple(lean), self.law, self._payoff, where)
        reach = self._reach(where)
        # where few frequencies are needed, what lies beyond them is seen on the same nodes
        quick = self._total > PROVEN and reach * where.period < 2.0 * math.pi * FEW_NODES
        farther = FARTHER if quick else 1.0
        self._cover(float(where.grid[-1]), where.c, reach, farther)
        return Contour(self.law, self._payoff, where, farther)

    def run(
        self, contour: Contour, epsilon: float, most: float = math.inf, growth: float = math.inf
    ) -> Answer | None:
        """Add nodes as this law needs them, and return the narrowest answer that they give.

        None where that takes more than `most` node evaluations, or `growth` times the nodes that
        were expected.
        """
        if not contour.weight(epsilon) > 0.0:
            return None
        if isinstance(contour, BesideAtoms):
            with suppress(NumericError):
                contour.settle(epsilon, self._rtol)
            return contour.answer(epsilon)
        enough = self._wait(contour, epsilon, most, growth)
        plain = contour.answer(epsilon) if enough else None
        if contour.blurred is None:
            return plain
        smoothed = contour.blurred.answer(epsilon)
        if smoothed is None or (plain is not None and plain.width <= smoothed.width):
            contour.blurred = None
            return plain
        return smoothed

    def _wait(
        self, contour: Contour, epsilon: float, most: float, growth: float = math.inf,
        blurs: bool = True,
    ) -> bool:  # fmt: skip
        """Add nodes until the truncation is proven small, or a work limit is reached."""
        # False where that takes more, or where a smoothed payoff has answered.
        # about the nodes that the law was resolved for, where they are cheap and have no end
        endless = math.isinf(contour.most)  # one period of a lattice is exact without a blur
        wanted = min(contour.reach / contour.h, WORK / contour.cost, PATIENCE) if endless else 0.0
        first = nodes = max(FIRST, BLOCK * math.floor(wanted / BLOCK + ROUNDED))
        heavy = contour.tilted.lasting > LEAST_SHARE
        while True:
            if not self._resolve(contour, nodes):
                return True
            if nodes * contour.cost > most or nodes > growth * first:
                return False
            if nodes * contour.cost > 2.0 * WORK and contour.nodes:
                return True
            contour.extend(nodes)
            if contour.nodes >= contour.most:
                return True
            only_atoms = math.isinf(contour.reach)  # nothing proves that phi fades for good
            loud = only_atoms or (heavy and float(contour.re[-32:].max()) > LOUD)
            if blurs and nodes >= PATIENCE and loud and endless and contour.blurred is None:
                answer = self._blurred(contour, epsilon)
                if answer is not None and answer.width <= self._rtol:
                    return False  # it is there for whoever asks
            values, _ = contour.terms(epsilon)
            enough = max(SHARE, PLENTY * self._rtol)
            quiet = float(np.maximum.reduce(np.abs(values[-min(nodes // 4, 32) :]))) < 0.1 * enough
            work = nodes * contour.cost
            wanted = 0.3 * enough if work < EASY else 1e-3 * self._rtol
            if (quiet and not only_atoms) or work > EASY:
                factor = contour.factor(epsilon, values)
                crowd = CROWD * len(self._steps)
                large = work > WORK or contour.tilted.weight.size > crowd
                share = wanted / factor
                if large or float(contour.re[-1]) < math.log(share * contour.h * nodes):
                    contour.decay = truncation(self._steps, contour, share)
                if factor * contour.decay < wanted or large:
                    return True
            more = max(FIRST, nodes // 2) if not quiet and nodes < 1024 else nodes
            nodes += more
            nodes = max(nodes, PATIENCE) if only_atoms else nodes

    def _resolve(self, contour: Contour, nodes: int) -> bool:
        """Make the law good for so many frequencies; False where no quadrature resolves them."""
        if contour.h * min(nodes, contour.most) > contour.reach:
            try:
                self._cover(0.0, contour.c, 1.1 * contour.h * nodes)
            except NumericError:
                return False
            contour.resolve(self.law)
        return True

    def _blurred(self, contour: Contour, epsilon: float, narrow: float = NARROW) -> Answer | None:
        """Smooth the payoff, with nodes until the interval is narrow or they cost too much."""
        best: Answer | None = None
        for _ in range(FITS):
            contour.blurred = Blurred(contour)
            answer = contour.blurred.answer(epsilon)
            if answer is None:
                share = math.inf  # smoothed away: another order of magnitude may help
            else:
                best = answer
                share = answer.width / (narrow * self._rtol)
            if share <= 1.0:
                break
            nodes = math.ceil(contour.nodes * min(max(1.1 * math.sqrt(share), 1.5), 32.0))
            growth = max(1.0, contour.h * nodes / contour.reach)
            nodes = min(nodes, int(BLURRED / (contour.cost * growth)), MOST_NODES)
            if nodes <= contour.nodes or not self._resolve(contour, nodes):
                break
            contour.extend(nodes)
        return best

    def _chernoff(self, epsilon: float, reason: str) -> Answer:
        """Upper bound (43) alone, where the contour has no answer."""
        log_upper = min(self._log_mass, self.chernoff(epsilon)[0])
        return Answer(-math.inf, log_upper, log_upper, {"reason": reason})


class ContourAccountant(Accountant):
    """Trapezoid rule on Re z = c with proven lower and upper bounds (Theorem A).

    Args:
        steps: distinct steps with counts.
        rtol: relative width wanted; the rule aims far below it and reports what it reached.
    """

    method = "contour"
    inverts = True

    def __init__(self, steps: Sequence[Step], *, rtol: float = 1e-6) -> None:
        """Keep the steps; nothing is computed before the first query."""
        self._steps = tuple(s for s in steps if s.count > 0)
        self._rtol = rtol
        self._log_infinite = composed(self._steps).log
        self._payoff = self._find_payoff()
        self.forward = Side(self._steps, self._payoff, rtol)
        self._backward: Side | None = None

    def _find_payoff(self) -> Smooth | Lattice:
        return Smooth()

    def columns(self) -> Columns:
        """Return the columns that its contours stand on."""
        return self.forward

    def log_delta(self, epsilon: float) -> Bound:
        """Return log delta(epsilon) with bounds.

        Raises:
            UnsupportedError: the loss has no exponential moments.
            NumericError: the quadrature does not settle.
        """
        side, base, shift = self.forward, self._log_infinite, 0.0
        if epsilon < 0:
            if self._backward is None:
                reverse = tuple(Step(s.loss.reversed(), s.count) for s in self._steps)
                self._backward = Side(reverse, self._payoff.times(-1), self._rtol)
            side, base, shift = self._backward, log1mexp(epsilon + self.forward.log_q), epsilon

        def whole(part: Answer) -> Logs:
            sides = shift + part.lower, shift + part.estimate, shift + part.upper
            return with_infinite(base, sides)

        _, a = side.finite(abs(epsilon), whole, base - shift)
        lower, estimate, upper = whole(a)
        return Bound(lower, estimate, upper, self.method, "proven", dict(a.detail))

    def epsilon(self, log_delta: float, near: float) -> Bound | None:
        """Return epsilon where delta is the target, one row of a contour.

        Returns:
            None where that is not to be had from one contour.
        """
        if not near > 0.0 or not isinstance(self._payoff, Smooth):
            return None
        contour, answer = self.forward.finite(near)
        if not isinstance(contour, Blurred) and type(contour) is not Contour:
            return None
        if not answer.width <= self._rtol:
            return None
        row = np.array([1.0])
        level = targets(self._steps, log_delta, row)
        # far from `near` the contour may tell nothing
        known, widest = np.nan * row, 2.0 * self._rtol
        found = inversion.epsilons(contour, 1.0, row, level, near, known, widest)[:, 0]
        lower, root, upper = found.tolist()
        if math.isnan(lower + root + upper):
            return None
        return Bound(lower, root, upper, self.method, "proven", dict(answer.detail))


MAX_POINTS = 1e6  # finer than this share of a step, any two losses seem commensurate


def common_lattice(steps: Sequence[Step]) -> Lattice | None:
    """Return the lattice of the composed loss, or None when the steps have no common one.

    Euclid's algorithm on the steps of the lattices; a remainder below rounding counts as zero.
    """
    step = largest = 0.0
    for s in steps:
        if s.loss.lattice is None:
            return None
        if s.loss.support[0] == s.loss.support[1]:
            continue  # one point fits any lattice
        a, b = max(step, s.loss.lattice[1]), min(step, s.loss.lattice[1])
        largest = max(largest, a)
        noise = 1e-13 * a
        while b > noise:
            if largest / b > MAX_POINTS:
                return None
            a, b = b, abs(a - b * round(a / b))
            noise = max(noise, 1e-13 * a)
        step = a
    if step == 0.0:
        return None
    offset = math.fsum(s.count * s.loss.lattice[0] for s in steps if s.loss.lattice)
    return Lattice(offset, step)


class LatticeAccountant(ContourAccountant):
    """Contour accountant for losses on a common lattice, complete after one period.

    Args:
        steps: distinct steps with counts; every loss on a lattice, with commensurate steps.
        rtol: relative width wanted.

    Raises:
        UnsupportedError: the losses are not on a common lattice.
    """

    method = "lattice"

    def _find_payoff(self) -> Lattice:
        found = common_lattice(self._steps)
        if found is None:
            labels = ", ".join(s.loss.label for s in self._steps)
            raise UnsupportedError(f"lattice: the losses of {labels} are not on one lattice")
        return found
