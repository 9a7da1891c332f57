"""One composition seen through one method: log delta as a function of epsilon.

In: the distinct steps of a composition for each direction, a method, a tolerance. Out: bounds on
log delta(epsilon), the maximum over the directions taken after composition, never before: the
direction that is worse for one step need not be worse for many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np

from mechc.accountants import registry
from mechc.accountants.auto import Auto, explained
from mechc.accountants.bound import ESTIMATED, Bound, Place, below, outward, worse
from mechc.accountants.bounds import log_all_largest, log_by_single_steps
from mechc.accountants.contours.columns import Columns
from mechc.accountants.convolution import Nodes
from mechc.errors import MechcError, NumericError, UnsupportedError
from mechc.loss.infinite_mass import NO_MASS, LogMass, composed, log_error
from mechc.loss.moments import log_total
from mechc.loss.privacy_loss import PrivacyLoss, Step, distinct
from mechc.loss.running_error import exact_largest
from mechc.numeric.allowance import OutOfWorkError
from mechc.numeric.logs import log1mexp, log_add, log_subtract
from mechc.numeric.rounding import EPS, SQUARABLE

TOP_ERROR = 8 * EPS  # of a largest loss in closed form, relative
NEXT = 1e6  # roundings from the largest loss within which they matter
CERTAIN = 1e-9  # nats that a bound is moved for its rounding
STRETCHED = 1e6  # tilts beyond which errors of the sums of nodes are those of the farthest
OWN_NODES = 64.0  # Renyi order above which nodes are made from those of its octave
FREE = 1e-12  # share of delta that rounding may add before it is looked at more closely
OWN_WIDTH = 0.02  # the same, of its own width


class Known(NamedTuple):
    """What is known of the steps of one direction before any accountant is asked.

    Attributes:
        infinite, opposite: masses at infinite loss, and of the reversed pairs.
        early: log of the mass at infinite loss that may have a small one.
        density: error of densities, and so of log delta.
        loss_error, digits: how far errors of losses of point masses, and their digits, move one.
        largest: the largest finite loss and what rounding may add to it.
    """

    infinite: LogMass
    opposite: LogMass
    early: float
    density: float
    loss_error: float
    digits: float
    largest: tuple[float, float]

    @property
    def is_plain(self) -> bool:
        """Whether masses are those that were declared, or computed to rounding."""
        return self.infinite.error == self.density == 0.0 and self.early == -math.inf

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Known:
        """Look at the steps."""
        early, densities, reveals = [], [], False
        for law, count in steps:
            reveals |= max(law.log_infinite, law.log_minus_infinite) > -math.inf
            if count and law.is_resolved:
                densities.append(count * law.density_error)
                if law.early[0] > -math.inf:
                    early.append(math.log(count) + law.log_early)
        masses = NO_MASS, NO_MASS
        if reveals:
            masses = composed(steps), composed(steps, reverse=True)
        log_early = log_total(np.array(early)) if early else -math.inf
        errors = loss_errors(steps)
        largest = _largest_loss(steps, errors[0])
        return cls(*masses, log_early, math.fsum(densities), *errors, largest)


class Evaluation:
    """Log delta of a composition by one method.

    Attributes:
        directions: the directions that are evaluated; one if the other is its mirror image.
        rtol: relative width of delta that "auto" aims at.
        no_lower, beneath: why lower bounds are not those of these steps, and what they are of.
        methods_used: names of the methods that have answered so far.
        profile: log delta by direction and epsilon, for trade-offs at further rates.
        stands_in: whether the steps are not those of the question, and only begin searches.
    """

    stands_in = False

    def __init__(
        self, steps: Mapping[str, Sequence[Step]], method: str, rtol: float,
        options: tuple[tuple[str, Any], ...] = (), no_lower: str = "",
        beneath: Evaluation | None = None,
    ) -> None:  # fmt: skip
        """Build one accountant for each direction."""
        self.no_lower, self.beneath = no_lower, beneath
        self.directions = tuple(steps)
        self.method = method
        self.methods_used: set[str] = set()
        self.profile: dict[tuple[str, float], Bound] = {}
        self.steps: dict[str, tuple[Step, ...]] = {}
        self.rtol, self._options = rtol, options
        self.single, self.known = True, dict[str, Known]()
        for direction, some in steps.items():
            self.steps[direction] = tuple(some)
            uses = 0
            for _, count in some:
                uses += count
            self.single = self.single and uses == 1
            self.known[direction] = Known.of(some)
        self._columns: dict[str, Columns] = {}
        self._octaves: dict[str, list[tuple[Step, ...] | MechcError]] = {}
        self._accountants: dict[str, registry.Accountant] = {}
        if method != "auto":  # which refuses nothing
            for direction in self.steps:
                self._accountant(direction)

    def _accountant(self, direction: str) -> registry.Accountant | None:
        """The accountant of one direction, None where there are no steps."""
        steps = self.steps[direction]
        if direction not in self._accountants and steps:
            try:
                self._accountants[direction] = (
                    Auto(steps, self.rtol)
                    if self.method == "auto"
                    else registry.build(self.method, steps, self.rtol, self._options)
                )
            except (UnsupportedError, NumericError) as error:
                raise explained(self.method, steps, error) from error
        return self._accountants.get(direction)

    def log_infinite_range(self) -> tuple[float, float]:
        """Return bounds on the log mass at infinity, where log delta ends; equal if declared."""
        least = upper = -math.inf
        for direction in self.steps:
            known = self.known[direction]
            log, error = known.infinite
            upper = max(upper, log + error)
            least = max(least, log_subtract(log - error, known.early))
        if self.no_lower:
            below = self.beneath
            return -math.inf if below is None else below.log_infinite_range()[0], upper
        return least, upper

    def told_mass(self) -> float:
        """Return the largest mass at infinity as the double that was declared; nan for none."""
        if not self.single or not all(self.steps.values()):
            return math.nan
        masses = [self.known[direction].infinite for direction in self.steps]
        most = max(mass.log for mass in masses)
        laws = [next(s.loss for s in steps if s.count) for steps in self.steps.values()]
        told = [law.told[0] for law, mass in zip(laws, masses, strict=True) if mass.log == most]
        return math.nan if any(map(math.isnan, told)) else max(told)

    def log_delta(self, epsilon: float, target: float | None = None) -> Bound:
        """Return bounds on log delta(epsilon), the worse of the directions; see `log_delta_in`."""
        worst = self.log_delta_in(self.directions[0], epsilon, target)
        for direction in self.directions[1:]:
            if self.bounded(direction, epsilon, float(worst.lower)) is None:
                worst = worse(worst, self.log_delta_in(direction, epsilon, target))
        return worst

    def bounded(
        self, direction: str, epsilon: float, level: float, *, best: bool = False
    ) -> float | None:
        """Return a bound on log delta that costs little, None if that is above `level`.

        A direction that is proven smaller does not have to be known: by Chernoff's bound, of the
        first tilts that do, or of the best.
        """
        steps, known = self.steps[direction], self.known[direction]
        infinite = known.infinite.log + known.infinite.error
        if not infinite < level:
            return None
        epsilon -= self._loss_shift(direction, epsilon)
        if not steps or not epsilon > 0.0 or not all(s.loss.has_moments for s in steps):
            return None
        level = log_subtract(level - CERTAIN - known.density, infinite)
        try:
            found, more = math.inf, True
            if not best and (turned := self._mirror_of(direction)) is not None:
                found, more = turned.chernoff(epsilon, reverse=True)
            if more and not found <= level:
                most = -math.inf if best else level
                found = self.columns(direction).chernoff_below(epsilon, most)
            if found <= level:
                return log_add(found, infinite) + CERTAIN + known.density
        except (NumericError, OutOfWorkError):  # then delta is bounded without more work
            pass
        return None

    def columns(self, direction: str) -> Columns:
        """The columns of one direction: those of its accountant, where that has some."""
        if direction not in self._columns:
            accountant = None if self.stands_in else self._accountant(direction)
            found = None if accountant is None else accountant.columns()
            self._columns[direction] = found or Columns(self.steps[direction])
        return self._columns[direction]

    def _mirror_of(self, direction: str) -> Columns | None:
        """Columns of the reversed pairs of all steps of a direction, if there are any already."""
        steps = self.steps[direction]
        for other, columns in self._columns.items():
            pairs = zip(steps, self.steps[other], strict=False)
            same = len(steps) == len(self.steps[other])
            if same and all(one.loss.is_reversal_of(two.loss) for one, two in pairs):
                return columns
        return None

    def single_steps_exceed(self, epsilon: float, log_delta: float) -> bool:
        """Whether deltas of all single steps at epsilon together are larger, as nodes tell.

        In some direction, by a factor of three: no proof, to save bounds that would be too large.
        """
        for steps in self.steps.values():
            resolved = steps and all(step.loss.is_resolved for step in steps)
            if resolved and Nodes(*distinct(steps)).log_single(epsilon) > log_delta + 1.0:
                return True
        return False

    def normal_exceeds(self, epsilon: float, log_delta: float) -> bool:
        """Whether delta at epsilon would be larger if the losses of some direction were normal.

        Rare large losses only make it larger still: no proof, to save bounds that would be.
        """
        for direction, steps in self.steps.items():
            if steps and all(s.loss.is_resolved and s.loss.has_moments for s in steps):
                mean, variance = self.columns(direction).spread
                away = max(epsilon - mean, 0.0)
                if away * away < -2.0 * log_delta * variance:
                    return True
        return False

    def by_single_steps(self, epsilon: float, level: float = 0.0) -> tuple[float, float]:
        """Return bounds on log delta by that of single steps, in all directions.

        Below an upper one that exceeds `level` no lower one is looked for.
        """
        found = []
        for direction, steps in self.steps.items():
            known, shift = self.known[direction], self._loss_shift(direction, epsilon)
            lower, upper = log_by_single_steps(steps, epsilon - shift, level)
            if shift > 0.0:
                lower = log_by_single_steps(steps, epsilon + shift)[0]
            if self.no_lower or not known.is_plain:
                lower = -math.inf
            error = log_error(known.infinite, known.opposite, epsilon)
            found.append((lower, log_add(upper, error) + known.density))
        lower, upper = map(max, zip(*found, strict=True))
        return lower, min(upper, 0.0)

    def log_delta_in(self, direction: str, epsilon: float, target: float | None = None) -> Bound:
        """Return bounds on log delta(epsilon) in one direction, cut to what always holds.

        Any pair satisfies max(1 - e^eps, mass at infinity) <= delta(eps) <= 1. Steps that bound
        their mechanisms from above alone prove no lower side, whatever answers for them. For a
        `target`, a log delta or nan, "auto" is content with an answer that steers a search for it.
        """
        answer = self._log_delta_of_pair(direction, epsilon, target)
        return self.of_mechanisms(answer, lambda e: e.log_delta_in(direction, epsilon, target))

    def of_pairs(self) -> Self:
        """Return what answers about the steps themselves, whatever they bound."""
        pairs = copy(self)
        pairs.no_lower, pairs.beneath = "", None
        return pairs

    def of_mechanisms(self, answer: Bound, lower: Callable[[Evaluation], Bound]) -> Bound:
        """Return an answer about pairs as one about mechanisms; `lower` asks `beneath`."""
        if not self.no_lower:
            return answer
        if self.beneath is None:
            but = f"; {ESTIMATED}" if answer.status == ESTIMATED else ""
            said = f"{self.no_lower}{but}"
            return replace(answer, lower=math.nan, estimate=math.nan, status=said)
        least, most = float(lower(self.beneath).lower), float(answer.upper)
        least = min(least, most)
        middle = 0.5 * (least + most) if math.isfinite(least) else most
        return replace(answer, lower=least, estimate=middle)

    def _log_delta_of_pair(self, direction: str, epsilon: float, target: float | None) -> Bound:
        """Bounds on log delta(epsilon) of the composed pairs."""
        known = self.known[direction]
        infinite, early, density = known.infinite, known.early, known.density
        floor = max(log1mexp(epsilon), infinite.log)
        error = log_error(infinite, known.opposite, epsilon)
        least = log_subtract(infinite.log - infinite.error, early)
        proven = max(log1mexp(epsilon) * (1.0 + 2.0 * EPS), least)
        if not self.steps[direction]:
            return Bound(floor, floor, floor, "identity", "proven", {"direction": direction})
        if proven > -EPS:
            return Bound(proven, floor, 0.0, "limit", "proven", {"direction": direction})
        if math.isinf(epsilon) or (known.is_plain and self._is_beyond(direction, epsilon)):
            known_all = all(step.loss.is_resolved for step in self.steps[direction])
            upper = log_add(floor, error) if known_all else 0.0
            detail = {"direction": direction}
            return Bound(proven, min(floor, upper), min(upper, 0.0), "limit", "proven", detail)
        if epsilon > SQUARABLE:  # delta falls; what is squared on the way stays a double
            far = self._log_delta_of_pair(direction, SQUARABLE, target)
            lower = far.lower if math.isnan(float(far.lower)) else proven
            return replace(far, lower=lower)
        try:
            rounding = self._rounding_next_to_top(direction, epsilon)
            answer = self._ask(direction, epsilon, target)
            answer = self._beside_rounded_losses(direction, epsilon, answer, target)
        except (UnsupportedError, NumericError) as why:
            raise explained(self.method, self.steps[direction], why) from why
        except MemoryError as full:
            raise NumericError(f"{self.method}: more memory than there is: {full}") from full
        if error > -math.inf or rounding > -math.inf:
            answer = outward(outward(answer, error), rounding)
        if early > -math.inf or density > 0.0:
            lower, upper = float(answer.lower), float(answer.upper) + density
            lower = lower if math.isnan(lower) else log_subtract(lower, early) - density
            answer = replace(answer, lower=lower, upper=upper)
        self.methods_used.add(answer.method.partition(" ")[0])
        lower, estimate, upper = map(float, (answer.lower, answer.estimate, answer.upper))
        if answer.status == "proven":  # a side that is no number proves nothing
            lower = -math.inf if math.isnan(lower) else lower
            upper = 0.0 if math.isnan(upper) else upper
        answer.detail["direction"] = direction
        return Bound(
            lower if math.isnan(lower) else min(max(lower, proven), 0.0),
            estimate if math.isnan(estimate) else min(max(estimate, floor), 0.0),
            upper if math.isnan(upper) else min(max(upper, floor), 0.0), answer.method,
            self.said(answer, direction), answer.detail,
        )  # fmt: skip

    def said(self, answer: Bound, *directions: str) -> str:
        """Return the status of an answer, by what is known of the laws of the steps."""
        for direction in directions if answer.status == "proven" else ():
            for law, _ in self.steps[direction]:
                if law.estimated:
                    return ESTIMATED
        return answer.status

    def _ask(self, direction: str, epsilon: float, target: float | None) -> Bound:
        """The accountant's answer; of "auto" the first that steers a search, if there is one."""
        accountant = self._accountant(direction)
        assert accountant is not None
        if isinstance(accountant, Auto):
            answer = accountant.log_delta(epsilon, target)
        else:
            answer = accountant.log_delta(epsilon)
        if answer.lower > answer.upper:
            lower, upper = float(answer.lower), float(answer.upper)
            return replace(answer, lower=below(lower, upper, answer.method))
        return answer

    @property
    def is_stretched(self) -> bool:
        """Whether nodes of a law are for tilts so far out that they serve usual ones badly.

        As those next to the largest loss are, which what is asked elsewhere is better off without.
        """
        return any(
            STRETCHED < abs(tilt) < math.inf
            for steps in self.steps.values()
            for law, _ in steps
            if law.is_resolved
            for tilt in law.settled
        )

    @property
    def is_rough_first(self) -> bool:
        """Whether rough answers are cheaper than others, and may be wider."""
        return self.method == "auto"

    def inverted(self, direction: str, log_delta: float, near: float) -> Bound | Place | None:
        """Return epsilon by a method that inverts, "proven" only if that is right as it is."""
        accountant = self._accountant(direction)
        found = accountant.epsilon(log_delta, near) if accountant else None
        if found is None:
            return None
        known, (top, beyond) = self.known[direction], self.largest_loss_in(direction)
        near_top = abs(float(found.upper) - top) < NEXT * max(beyond, TOP_ERROR * abs(top))
        self.methods_used.add(found.method)
        found.detail["direction"] = direction
        if shift := 1.01 * self._loss_shift(direction, near):
            lower, upper = float(found.lower) - shift, float(found.upper) + shift
            return replace(found, lower=lower, upper=upper, status="")
        status = self.said(found, direction) if known.is_plain and not near_top else ""
        return found if found.status == status else replace(found, status=status)

    def _loss_shift(self, direction: str, epsilon: float, digits: bool = True) -> float:
        """How far composed losses, less epsilon, may be off where steps have point masses."""
        known = self.known[direction]
        r = known.loss_error + digits * known.digits
        return r + EPS * abs(epsilon) if r > 0.0 else 0.0

    def _beside_rounded_losses(
        self, direction: str, epsilon: float, answer: Bound, target: float | None
    ) -> Bound:
        """An answer that holds for all losses within their rounding r of those that were composed.

        Delta is between those at epsilon + r and epsilon - r, and at most r away from either. One
        step's own sum over atoms has counted their digits.
        """
        counted = self.single and answer.method == "direct"
        shift = self._loss_shift(direction, epsilon, not counted)
        lower, upper = float(answer.lower), float(answer.upper)
        if shift == 0.0 or (math.isnan(lower) and math.isnan(upper)):
            return answer
        free = max(FREE, OWN_WIDTH * (upper - lower)) if lower > -math.inf else FREE
        moved = outward(answer, math.log(shift))
        if math.log(shift) <= math.log(free) + lower:
            return moved
        if lower > -math.inf:
            lower = min(float(self._ask(direction, epsilon + shift, target).lower), lower)
        upper = max(float(self._ask(direction, epsilon - shift, target).upper), upper)
        return replace(moved, lower=max(lower, moved.lower), upper=min(upper, moved.upper))

    def _is_beyond(self, direction: str, epsilon: float) -> bool:
        """Whether a largest loss that is known to the last digit is no larger than epsilon."""
        top, beyond = self.largest_loss_in(direction)
        exact = self.exact_largest_loss(direction) if abs(epsilon - top) <= beyond else None
        return exact is not None and epsilon >= exact

    def _rounding_next_to_top(self, direction: str, epsilon: float) -> float:
        """Log of how far rounding of the largest losses may move delta(epsilon)."""
        # Moving all losses by r moves delta by at most r. Beyond the largest loss and its rounding
        # there is nothing to move.
        top, beyond = self.largest_loss_in(direction)
        rounding = max(beyond, TOP_ERROR * abs(top))
        if not abs(epsilon - top) < NEXT * rounding or epsilon >= top + beyond:
            return -math.inf
        return math.log(2.0 * rounding)

    def renyi(self, direction: str, order: float) -> Bound:
        """Return bounds on the Rényi divergence of one order in one direction."""
        from mechc.accountants.classical.renyi import RenyiAccountant

        found = RenyiAccountant(self._on_nodes_for(direction, order)).renyi(order)
        found.detail["direction"] = direction
        found = replace(found, status=self.said(found, direction))
        return self.of_mechanisms(found, lambda e: e.renyi(direction, order))

    def _on_nodes_for(self, direction: str, order: float) -> tuple[Step, ...]:
        """Steps on nodes for this order alone; nodes made for all orders serve each of them badly.

        Those of a high order are made from its octave's, and these from those of the one below.
        """
        steps = self.steps[direction]
        if math.isinf(order) or not all(law.is_resolved for law, _ in steps):
            return steps
        below = tuple(Step(law.first().fork(), count) for law, count in steps)
        if not any(math.isnan(law.closed_cgf(order - 1.0)) for law, _ in steps):
            return below
        known = self._octaves.setdefault(direction, [])
        for rung in range(math.ceil(math.log2(max(order / OWN_NODES, 1.0)))):
            top = OWN_NODES * 2.0 ** (rung + 1)
            if rung == len(known):
                known.append(_covering(below, top))
            found = known[rung]
            if isinstance(found, NumericError) and order > top:
                raise found
            if isinstance(found, MechcError):  # of the whole octave, or outside the strip
                return tuple(Step(law.fork(), count) for law, count in below)
            below = found
        return below

    def largest_loss(self, *directions: str) -> tuple[float, float]:
        """Return the largest finite loss, where delta is the mass at infinity, and its rounding."""
        found = [self.largest_loss_in(direction) for direction in directions or self.steps]
        top = max(loss for loss, _ in found)
        if math.isinf(top):
            return top, 0.0
        exact = [self.exact_largest_loss(direction) for direction in directions or self.steps]
        # one that is a little smaller may be rounded more
        beyond = max(loss - top + rounding for loss, rounding in found)
        known = [loss for loss in exact if loss is not None]
        if len(known) == len(exact) and abs(float(max(known)) - top) <= beyond:
            return _between(max(known))
        return top, beyond

    def largest_loss_in(self, direction: str) -> tuple[float, float]:
        """Return the same in one direction."""
        return self.known[direction].largest

    def exact_largest_loss(self, direction: str) -> Fraction | None:
        """Return the largest finite loss in one direction where it is known to the last digit."""
        total = Fraction(0)
        for law, count in self.steps[direction]:
            exact = _exact_largest(law) if count else Fraction(0)
            if exact is None:
                return None
            total += count * exact
        return max(total, Fraction(0))

    def log_mass_at_largest_loss(self, direction: str) -> tuple[float, float]:
        """Return log P(L is the largest loss), -inf where it is not known, and its error."""
        if not all(step.loss.is_resolved for step in self.steps[direction]):
            return -math.inf, 0.0
        return log_all_largest(self.steps[direction])[:2]


def _covering(steps: tuple[Step, ...], tilt: float) -> tuple[Step, ...] | MechcError:
    """Steps on more nodes, for tilts up to this one, or why there are none."""
    try:
        return tuple(Step(law.fork().covering(-1.0, tilt), count) for law, count in steps)
    except (UnsupportedError, NumericError) as refusal:
        return refusal


def loss_errors(steps: Sequence[Step]) -> tuple[float, float]:
    """How far errors of the losses of point masses may move a composed loss, and their digits."""
    errors = digits = 0.0
    for law, count in steps:
        if law.is_resolved:
            errors += count * law.loss_error
            digits += count * law.loss_rounding if law.atom_loss.size else 0.0
    return errors, digits


def _largest_loss(steps: Sequence[Step], error: float) -> tuple[float, float]:
    """The largest finite loss of a composition, and what rounding and errors may add to it."""
    tops, uses = [], 0
    for law, count in steps:
        if count:
            tops.append(count * law.support[1])
            uses += count
    total = math.fsum(tops) if all(map(math.isfinite, tops)) else math.inf
    if math.isinf(total):
        return total, 0.0
    steps = [step for step in steps if step.count]
    source = steps[0].loss.source if total > 0.0 and uses == 1 else None
    if source is not None and total in source.theta and _exact_largest(steps[0].loss) == total:
        return total, 0.0
    # losses of tables and lattices are differences of two logs of masses
    logs = 0.0
    for law, count in steps:
        logs += count * law.top_rounding if law.is_resolved else 0.0
    rounding = TOP_ERROR * math.fsum(map(abs, tops)) + logs + error
    return (total, rounding) if total > 0.0 else (0.0, max(total + rounding, 0.0))


def _exact_largest(law: PrivacyLoss) -> Fraction | None:
    """The largest finite loss of one step, None where it is not known to the last digit."""
    if law.source is None or not math.isfinite(law.support[1]):
        return None
    sign = -1.0 if law.is_reversed else 1.0
    return exact_largest(law.support[1], law.source.kernel, law.source.theta, sign)


def _between(exact: Fraction) -> tuple[float, float]:
    """The double that is not above a number, and what brings it to one that is not below."""
    below = float(exact)
    if below > exact:
        below = math.nextafter(below, -math.inf)
    return below, 0.0 if below == exact else math.nextafter(below, math.inf) - below
