"""Random allocation: every record takes part in k of t steps of an epoch, drawn at random.

Balls and bins, as training loops shuffle: not a Poisson sample of every step. One epoch with k = 1
is answered by its exact profile, on both sides (`mechc.accountants.allocation`), one of few steps
by the law of its likelihood ratio. Epochs compose by that law, point masses and a density, on both
sides too, and else by a table that dominates one epoch, which proves upper bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from mechc.accountants.allocation.epoch import WIDE, Epoch, is_narrow, lattice
from mechc.accountants.allocation.grids import listed
from mechc.accountants.bound import ESTIMATED, Bound, Place, below
from mechc.accountants.classical.renyi import RenyiAccountant, of_epoch
from mechc.adjacency import Adjacency, Claim, refuse_groups, weakest
from mechc.composition import inputs
from mechc.composition.description import described
from mechc.composition.events import (
    Composition,
    Event,
    as_event,
    compose,
    unsupported_on_composition,
)
from mechc.composition.inputs import MAX_COUNT, asked, current
from mechc.composition.mechanism import Mechanism, WithoutKernel, load
from mechc.composition.operations import poisson
from mechc.composition.queries.evaluation import Evaluation
from mechc.composition.tables import NumericEvent, Table, named
from mechc.errors import DeclarationError, NumericError, UnsupportedError, public
from mechc.loss.privacy_loss import PrivacyLoss, Step
from mechc.loss.tabulated import Tabulated
from mechc.numeric.allowance import OutOfWorkError, apart
from mechc.protocol import ParameterInfo

MOST_STEPS, USUAL = 10_000_000, 1000  # of an epoch: refused above, and typical
OPEN = 0  # steps that are yet to be named
NAME, WORDS = "random_allocation", ("steps", "selected", "epochs")
UPPER = (
    "upper bound only: the likelihood ratio has point masses or no density that is resolved, and "
    "epochs of random allocation are composed by a table that dominates one"
)
BLOCKS = (
    "upper bound only: an epoch in which a record takes part in several steps is bounded by epochs "
    "of fewer steps with one (T11)"
)


@public
def random_allocation(
    what: Any, steps: int | None = None, selected: int = 1, epochs: int = 1
) -> Any:
    """Return a mechanism that runs in every step, each record taking part in some steps only.

    In every epoch each record is put into `selected` of the `steps` steps, drawn uniformly and
    independently of all other records, and of the data. The pair of one epoch with one step
    selected is (1/t) sum_i Q^(i-1) P Q^(t-i) against Q^t (T11), and is answered exactly. So is one
    with k steps selected where noise has few values; else it is bounded from above by k epochs of
    about t/k steps with one selected, from below by what one sum over the steps tells.

    Args:
        what: a mechanism for add/remove neighbours with a pair (its sensitivity the clipping norm),
            or an event of one; or a list of events, one for each step, as noise schedules have.
        steps: number t of steps in an epoch, 1 to 10^7, or else a parameter of what is
            returned; of a list its length.
        selected: number of steps of an epoch in which a record takes part, 1 to t.
        epochs: number of epochs, each drawn anew.

    Returns:
        For a mechanism, what is called with its parameters (steps and epochs are parameters too)
        to get the event, or, where that is several events, the composition; for an event, these
        themselves.

    Raises:
        DeclarationError: a number is not a positive integer in its range.
        UnsupportedError: `what` is a composition, is for groups or for replacing records, or has no
            pair.

    Source: Feldman and Shenfeld (2025, 2026, arXiv 2602.17284); Chua et al. (2024); Choquette-Choo
    et al. (2025).
    """
    several = isinstance(what, Iterable) and not isinstance(what, (str, bytes, Composition))
    several = several and getattr(what, "ndim", 1) > 0  # arrays of no dimension say that they are
    schedule = list(what) if several else []
    if steps is None and isinstance(what, Event):
        raise DeclarationError(f"{NAME}: steps of an epoch are missing (expected steps=)")
    is_open = steps is None and not several
    if steps is None:
        steps = USUAL if is_open else len(schedule)
    numbers = zip(WORDS, (steps, selected, epochs), (MOST_STEPS,) * 2 + (MAX_COUNT,), strict=True)
    t, k, n = (inputs.size(NAME, *each) for each in numbers)
    if k > t and not is_open:
        raise DeclarationError(
            f"{NAME}: selected={k} of steps={t} (expected 1 <= selected <= steps)"
        )
    if several:
        return _of_schedule(schedule, t, k, n)
    if isinstance(what, Composition):
        raise unsupported_on_composition(NAME)
    if isinstance(what, Event):
        return allocated(what, t, k, n)
    return Allocation(load(what), OPEN if is_open else t, k, n)


def allocated(event: Event, steps: int, selected: int, epochs: int) -> Event | Composition:
    """Return epochs in which a record takes part in `selected` of `steps` uses of an event."""
    _check(event)
    least, longer = divmod(steps, selected)
    drawn = selected if selected < steps else 1
    parts: list[tuple[Event, int]] = []
    if not event.is_identity and _several(event, steps, drawn) is not None:
        least, selected, longer = steps, 1, 0  # one block, of which so many are drawn
    blocks = (least, selected - longer), (least + 1, longer)
    for length, count in (block for block in blocks if block[1]):
        plain = (length == 1 and drawn == 1) or event.is_identity
        one = event if plain else epoch(((event, length),), steps, drawn)
        parts.append((one, count * epochs))
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    return compose(*parts)


def _check(what: Event | Mechanism) -> None:
    """Refuse what T11 is not about."""
    event = what.name if isinstance(what, Mechanism) else what
    if what.claim.group:
        refuse_groups(NAME, str(event))
    if what.adjacency is Adjacency.REPLACE:
        raise UnsupportedError(
            f"{NAME}({event}): the pair is for replacing a record, and the theorem (T11) needs one "
            "for adding and removing one"
        )
    if isinstance(what, Event) and what.joint_evaluation is not None:
        raise UnsupportedError(
            f"{NAME}({event}): no pair of distributions is known, which the theorem (T11) needs"
        )


def _allocated_claim(known: Claim, steps: int, drawn: int) -> Claim:
    """What T11 makes of the claim of the steps."""
    some = drawn if drawn > 1 else "one"
    assumed = (
        f"every record takes part in {some} of {steps or 'all'} steps, drawn uniformly and "
        "independently of the data and of all other records"
    )
    assumptions = (*known.assumptions, assumed)
    return replace(known, theorem="T11", adjacency=Adjacency.ADD_REMOVE, assumptions=assumptions)


def _of_schedule(events: list[Any], steps: int, selected: int, epochs: int) -> Any:
    """Epochs whose steps are these events."""
    if len(events) != steps:
        raise DeclarationError(
            f"{NAME}: steps={steps} and a list of {len(events)} events (expected one for each step)"
        )
    for event in events:
        _check(as_event(f"{NAME}: event", event))
    parts = Composition((event, 1) for event in events).parts
    if len(parts) == 1:
        return allocated(parts[0][0], steps, selected, epochs)
    if selected > 1:
        raise UnsupportedError(
            f"{NAME}: selected={selected} with steps that are not alike: no theorem is known that "
            "cuts them into blocks (T11)"
        )
    one = epoch(parts, steps, 1)
    return one if epochs == 1 else one * epochs


@described
def epoch(parts: Any, steps: int, selected: int) -> AllocatedEvent:
    """Return an epoch, or a block of one of which `selected` of `steps` are drawn: see there."""
    known = Composition(parts).parts
    t, k = inputs.size(NAME, "steps", steps), inputs.size(NAME, "selected", selected)
    for event, _ in known:
        _check(event)
    length, alike = sum(count for _, count in known), len(known) == 1
    whole = length == t and (k == 1 or (alike and _several(known[0][0], t, k) is not None))
    block = alike and 1 < k < t and length in (t // k, -(-t // k))
    if not (whole or block):
        raise DeclarationError(
            f"{NAME}: {length} steps of {known!r}, selected={k} of steps={t}, are no block of an "
            "epoch"
        )
    return AllocatedEvent(known, (t, k))


class AllocatedEvent(NumericEvent):
    """One epoch of random allocation with one step selected.

    Attributes:
        allocated: the distinct steps, with counts.
        base, steps: the first of them, and t.
        drawn: in how many of them a record takes part.
        whole: t and k of the epoch of which this is a block, where k of t steps are drawn.
    """

    __slots__ = ("allocated", "base", "drawn", "steps", "whole")

    def __init__(self, parts: tuple[tuple[Event, int], ...], whole: tuple[int, int]) -> None:
        """Hold the events and t; users call `random_allocation` instead."""
        steps, base = sum(count for _, count in parts), parts[0][0]
        several = len(parts) > 1
        known = base.claim
        if several:
            known = weakest(
                tuple((str(event), event.claim) for event, _ in parts), Adjacency.ADD_REMOVE
            )
        drawn = whole[1] if whole[0] == steps else 1
        claim = _allocated_claim(known, steps, drawn)
        text = f"{NAME} {[(event.key, count) for event, count in parts]!r} {whole} {claim}"
        selected = f", selected={drawn}" if drawn > 1 else ""
        name = f"{NAME}([{', '.join(f'{n} * {event}' for event, n in parts)}])"
        table: Any = Table(
            name if several else f"{NAME}({base}, steps={steps}{selected})",
            False, claim, named(text),
            references=() if several else tuple(base.mechanism.references),
        )  # fmt: skip
        Event.__init__(self, table, ())
        self.allocated, self.base, self.steps, self.whole = parts, base, steps, whole
        self.drawn = drawn

    @property
    def upper_only(self) -> str:
        """Why the law is only one that dominates the epoch; "" where it is the epoch's."""
        if self.steps < self.whole[0]:
            return BLOCKS
        why = next((event.upper_only for event, _ in self.allocated if event.upper_only), "")
        if why or self.whole[1] > 1:
            return why
        exact = all(e.exact is not None for e in _epochs(self.allocated).values())
        return "" if exact else UPPER

    def beneath(self, count: int) -> list[tuple[Event, int]] | None:
        """Return epochs of which sums are told alone, or None where one step is only bounded."""
        t, k = self.whole
        if any(event.upper_only for event, _ in self.allocated):
            return None
        if self.steps > t // k:  # blocks of the other length stand for the epoch
            return []
        whole = self.allocated if k == 1 else ((self.base, t),)
        try:
            return [(told(whole, k), count // (k - t % k))]
        except (NumericError, OutOfWorkError):  # no grid is long enough
            return None

    def _law(self, direction: str) -> PrivacyLoss:
        """Return the law of the loss of the epoch, or one on a grid that dominates it."""
        if self.steps == 1:
            return self.base.loss(direction)
        if self.whole[0] == self.steps and (found := _several(self.base, *self.whole)):
            return found[direction]
        laws, key = current().laws, (self.key, direction)
        if key not in laws:
            epochs = _epochs(self.allocated)
            exact = epochs[direction].exact
            if exact is None or epochs["add"].exact is None:
                with apart():
                    made = lattice(epochs[direction].above, True)
                laws[key] = _standing_for(self.allocated, made, direction)
            elif direction == "add" and epochs["add"].ratio is epochs["remove"].ratio:
                laws[key] = self.loss("remove").reversed()
            else:
                laws[key] = exact.fork()
        law: PrivacyLoss = laws[key]
        return law

    def loss_of_sample(self, direction: str, rate: float) -> PrivacyLoss:
        """Return the law on a Poisson sample, or of one of a step where that bounds the epoch."""
        law = self.loss(direction)
        if law.source is None or isinstance(law.source.kernel, Tabulated):
            return super().loss_of_sample(direction, rate)
        return poisson(self.base, rate).loss(direction)

    def rho_bound(self) -> float:
        """Return that of a step, no smaller (Jensen), where losses have no bound of their own."""
        ends = [e.loss(d).support[1] for e, _ in self.allocated for d in ("remove", "add")]
        if self.whole[1] > 1 or max(ends) < math.inf:
            return math.nan
        rhos = [event.rho_bound() for event, _ in self.allocated]
        return math.nan if any(map(math.isnan, rhos)) else max(rhos)

    def lone_evaluation(self, directions: Sequence[str]) -> Evaluation | None:
        """Return what answers for this epoch alone, None where its law does."""
        if self.whole[1] > 1:
            return None
        profile = AllocationEvaluation(self, directions)
        short = all(epoch.is_short for epoch in _epochs(self.allocated).values())
        return FewStepsEvaluation(self, profile) if short else profile


def _epochs(parts: tuple[tuple[Event, int], ...]) -> dict[str, Epoch]:
    """Both directions, begun for the question at hand; their laws on grids are kept."""
    laws, key = current().laws, (NAME, parts)
    if key not in laws:
        laws[key] = _begun(parts, last_epochs(parts))
    found: dict[str, Epoch] = laws[key]
    return found


@lru_cache(maxsize=2)  # those of lattices take half a gigabyte
def last_epochs(parts: tuple[tuple[Event, int], ...]) -> dict[str, Epoch]:
    """What keeps laws on grids for all questions, and is asked for nothing else."""
    return _begun(parts, {})


def _begun(parts: tuple[tuple[Event, int], ...], kept: dict[str, Epoch]) -> dict[str, Epoch]:
    """Both directions on laws that nothing has been asked of, with laws on grids of others."""
    steps = sum(count for _, count in parts)
    laws: list[list[tuple[PrivacyLoss, int]]] = [[], []]
    for event, count in sorted(parts, key=lambda part: -part[1]):  # proofs begin with the first
        both = event.loss("remove"), event.loss("add")
        remove = both[0].first()  # as before any question
        one_pair = both[0].source is both[1].source
        laws[0].append((remove, count))
        laws[1].append((remove.reversed() if one_pair else both[1].first(), count))
    (first, *rest), (other, *others) = laws
    known = Epoch(first[0], "remove", steps, None, rest, kept.get("remove"))
    add = Epoch(other[0], "add", steps, known, others, kept.get("add"))
    return {"remove": known, "add": add}


@lru_cache(maxsize=16)
def _several(event: Event, steps: int, drawn: int) -> dict[str, PrivacyLoss] | None:
    """The laws of an epoch with several steps drawn, None where its sums are not listed."""
    if drawn == 1:
        return None
    try:
        with apart(), asked(afresh=True):
            epochs = _epochs(((event, steps),))
            laws = {d: listed(epoch.ratio.shares, drawn) for d, epoch in epochs.items()}
    except (NumericError, OutOfWorkError, UnsupportedError):
        return None
    found = {d: w.reversed() if d == "add" else w for d, w in laws.items() if w is not None}
    return found if len(found) == len(laws) else None


@lru_cache(maxsize=16)
def told(parts: tuple[tuple[Event, int], ...], drawn: int) -> NumericEvent:
    """What is revealed at least by an epoch of which so many steps are drawn."""
    with apart(), asked(afresh=True):
        if any(e.loss(d).log_early > -math.inf for e, _ in parts for d in ("remove", "add")):
            raise NumericError(f"{parts[0][0]}: a tail is known by its masses alone")
        laws = {
            d: lattice(epoch.ratio.between(drawn).below(epoch.adding), False)
            for d, epoch in _epochs(parts).items()
        }
        laws = {d: replace(_standing_for(parts, law, d), drawn=drawn) for d, law in laws.items()}
    steps = ", ".join(f"{count} * {event}" for event, count in parts)
    claim = weakest(tuple((str(event), event.claim) for event, _ in parts), Adjacency.ADD_REMOVE)
    name = f"sums of points in {NAME}([{steps}], selected={drawn})"
    table = Table(name, False, replace(claim, theorem="T9"))
    return NumericEvent(table, laws["remove"], laws["add"])


def _standing_for(
    parts: tuple[tuple[Event, int], ...], law: PrivacyLoss, direction: str
) -> PrivacyLoss:
    """A law that bounds that of an epoch, with the steps that it is of."""
    if law.source is not None:  # that of one step
        return law
    adding, steps = direction == "add", []
    for event, count in parts:
        remove, add = event.loss("remove").first(), event.loss("add").first()
        one_pair = not adding or remove.source is add.source
        steps.append(Step(remove if one_pair else add.reversed(), count))
    return replace(law, parts=tuple(steps), is_reversed=adding)


class EpochEvaluation(Evaluation):
    """One epoch, of which nothing is known to the last digit."""

    def told_mass(self) -> float:
        """Return nan: what an epoch reveals is computed."""
        return math.nan

    def exact_largest_loss(self, direction: str) -> Fraction | None:
        """Return that it is not known to the last digit."""
        return None

    def log_mass_at_largest_loss(self, direction: str) -> tuple[float, float]:
        """Return that nothing is known."""
        return -math.inf, 0.0


class AllocationEvaluation(EpochEvaluation):
    """One epoch, by the exact profile: bounds on both sides."""

    is_rough_first = True  # laws on grids are made for the place of the answer alone
    stands_in = True

    def __init__(self, event: AllocatedEvent, directions: Sequence[str]) -> None:
        """Take the laws of one step."""
        epochs = _epochs(event.allocated)
        self._epochs = {d: epochs[d] for d in directions}
        # a search begins with one step of each kind, of which the epoch reveals no more
        steps = {d: [Step(e.loss(d), 1) for e, _ in event.allocated] for d in directions}
        no_lower = next((e.upper_only for e, _ in event.allocated if e.upper_only), "")
        super().__init__(steps, "auto", WIDE, (), no_lower)
        self.method = "put"

    def bounded(
        self, direction: str, epsilon: float, level: float, *, best: bool = False
    ) -> float | None:
        """Return Chernoff's bound on W if that is at most `level`, always of the best tilt."""
        return self._epochs[direction].bounded(epsilon, level)

    def log_infinite_range(self) -> tuple[float, float]:
        """Return bounds on the log mass at infinity."""
        masses = [epoch.log_infinite for epoch in self._epochs.values()]
        return max(low for low, _ in masses), max(high for _, high in masses)

    def inverted(self, direction: str, log_delta: float, near: float) -> Bound | Place | None:
        """Return bounds on epsilon of a contour; they prove nothing here."""
        return self._epochs[direction].epsilon(log_delta, near)

    def log_delta_in(self, direction: str, epsilon: float, target: float | None = None) -> Bound:
        """Return bounds on log delta(epsilon) in one direction."""
        epoch = self._epochs[direction]
        self.methods_used.add("put")
        top, rounding = self.largest_loss_in(direction)
        least, most = epoch.log_infinite
        estimated = False
        if math.isinf(epsilon) and epsilon < 0:
            lower = estimate = upper = 0.0
        elif epsilon < top:
            lower, estimate, upper, estimated = epoch.log_delta(epsilon, target is not None)
        else:  # next to the largest loss rounding decides
            beyond = epsilon >= top + rounding
            upper = most
            if not beyond:
                upper, estimated = epoch.log_delta(epsilon)[2:]
            lower = estimate = least
        status = ESTIMATED if estimated else "proven"
        answer = Bound(lower, estimate, upper, "put", status, {"direction": direction})
        answer = replace(answer, status=self.said(answer, direction))
        return self.of_mechanisms(answer, lambda e: e.log_delta_in(direction, epsilon, target))

    def renyi(self, direction: str, order: float) -> Bound:
        """Return that of the law; if it is not known moments of W, or that of a step (Jensen)."""
        epoch = self._epochs[direction]
        exact = epoch.exact
        laws = [step.loss for step in self.steps[direction]] if exact is None else [exact.fork()]
        each = [RenyiAccountant([Step(law, 1)]).renyi(order) for law in laws]
        found = max(each, key=lambda bound: float(bound.upper))
        found.detail["direction"] = direction
        if any(law.estimated for law in laws):
            found = replace(found, status=ESTIMATED)
        if exact is None and len(laws) == 1:
            lower, upper = of_epoch(laws[0], epoch.steps, order, direction == "add")
            found = replace(found, lower=lower, estimate=upper, upper=upper)
        elif exact is None:
            why = self.no_lower or "upper bound only: the Rényi divergence of one step (T11)"
            return replace(found, lower=math.nan, estimate=math.nan, status=why)
        return self.of_mechanisms(found, lambda e: e.renyi(direction, order))

    def largest_loss_in(self, direction: str) -> tuple[float, float]:
        """Return the largest finite loss, that of one step, and its rounding."""
        laws = self._epochs[direction].laws
        if direction == "add" and any(law.log_infinite > -math.inf for law, _ in laws):
            return math.inf, 0.0  # some X is 0, others are not
        return super().largest_loss_in(direction)


class FewStepsEvaluation(EpochEvaluation):
    """One epoch of few steps, by the law of its loss; by the exact profile where that is wide."""

    def __init__(self, event: AllocatedEvent, profile: AllocationEvaluation) -> None:
        """Take the law, and what answers where it does not."""
        steps = {d: [Step(event.loss(d), 1)] for d in profile.directions}
        super().__init__(steps, "auto", WIDE, (), profile.no_lower)
        self._profile = profile

    def log_infinite_range(self) -> tuple[float, float]:
        """Return bounds on the log mass at infinity."""
        return self._profile.log_infinite_range()

    def largest_loss_in(self, direction: str) -> tuple[float, float]:
        """Return that of the profile; where the law ends it may only not be resolved."""
        return self._profile.largest_loss_in(direction)

    def bounded(
        self, direction: str, epsilon: float, level: float, *, best: bool = False
    ) -> float | None:
        """Return Chernoff's bound of the profile, which lacks no tail, or that of the law."""
        found = self._profile.bounded(direction, epsilon, level)
        return super().bounded(direction, epsilon, level, best=best) if found is None else found

    def log_delta_in(self, direction: str, epsilon: float, target: float | None = None) -> Bound:
        """Return bounds on log delta(epsilon) in one direction."""
        found = super().log_delta_in(direction, epsilon, target)
        lower, upper = float(found.lower), float(found.upper)
        if is_narrow(lower, upper) or target is not None or self.no_lower:
            return found
        beside = self._profile.log_delta_in(direction, epsilon)
        self.methods_used.add(beside.method)
        if lower <= float(beside.lower) and float(beside.upper) <= upper:
            return beside
        upper = min(upper, float(beside.upper))
        lower = below(max(lower, float(beside.lower)), upper, self.steps[direction][0].loss.label)
        estimate = min(max(float(beside.estimate), lower), upper)
        return replace(found, lower=lower, estimate=estimate, upper=upper, method=beside.method)

    def renyi(self, direction: str, order: float) -> Bound:
        """Return that of the profile, which knows the law."""
        return self._profile.renyi(direction, order)


class Allocation(WithoutKernel):
    """Random allocation of a mechanism whose parameters are still open."""

    what = "an epoch"
    inside = "mechanism inside"

    @cached_property
    def parameters(self) -> tuple[ParameterInfo, ...]:
        """Those of the mechanism inside, then "steps" and "epochs" unless it has such."""
        taken = {"selected", *(info.name for info in self.base.parameters)}
        found = []
        for word, n, most in zip(WORDS, self.numbers, (MOST_STEPS, 0, MAX_COUNT), strict=True):
            if word not in taken:
                usual = n or USUAL
                typical = max(usual // 2, 1), min(2 * usual, most)
                value = None if n == OPEN else n
                found.append(ParameterInfo(word, 1.0, most, False, False, True, value, typical))
        return (*self.base.parameters, *found)

    def _split(self, values: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        """Values of the mechanism inside, and numbers."""
        open_here = {info.name for info in self.parameters[len(self.base.parameters) :]}
        rest = {word: value for word, value in values.items() if word not in open_here}
        own = {word: value for word, value in values.items() if word in open_here}
        return rest, [own.get(word, n or None) for word, n in zip(WORDS, self.numbers, strict=True)]

    def bind(self, **values: Any) -> Any:
        """Return this with some parameters fixed and the others still open."""
        rest, numbers = self._split(values)
        return random_allocation(self.base.bind(**rest), *numbers)

    def __call__(self, **values: Any) -> Any:
        """Bind all parameters; return an event, or a composition of several."""
        rest, numbers = self._split(values)
        return random_allocation(self.base(**rest), *numbers)

    @cached_property
    def name(self) -> str:
        """Name for people."""
        numbers = zip(WORDS, self.numbers, (0, 1, 1), strict=True)
        shown = "".join(f", {word}={n}" for word, n, usual in numbers if n > usual)
        return f"{NAME}({self.base.name}{shown})"

    @cached_property
    def claim(self) -> Claim:
        """What the pair of one epoch stands for, by T11."""
        _check(self.base)
        return _allocated_claim(self.base.claim, *self.numbers[:2])
