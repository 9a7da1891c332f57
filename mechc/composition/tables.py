"""Events that are given by numbers: tables of losses and masses, lists of probabilities, mixtures.

They compose with events of mechanisms and answer the same queries. Bounds are bounds for the
table: whether the table itself bounds a mechanism is up to where it came from, which `claim`
records.

In a mixture one of several mechanisms runs, chosen by the same probabilities on both data sets.
Telling which can only reveal more (T9), and makes the privacy loss distribution the mixture of
those of the parts. Losses with a density are first rounded to a grid, up for upper bounds and down
for lower ones.

Post-processing rounds outputs to a finite alphabet. The rounded output of any two data sets is
dominated by the pair of the output itself (T9). The rounded pair, computed cell by cell from the
kernel, is smaller: that of the two data sets to which P and Q belong, and of no others. Other
values of a query, or shorter moves, meet other cells: a threshold far from 0 and the sensitivity
tells nearly nothing about them, and much about a query next to it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mechc import protocol
from mechc.adjacency import Adjacency, Claim, joined, weakest
from mechc.composition import inputs
from mechc.composition.description import MadeEvent, described
from mechc.composition.events import Event, as_event, require_sensitivities
from mechc.composition.inputs import as_array
from mechc.declare.transforms import WithoutReplacement, WithReplacement
from mechc.errors import (
    LONGEST_NAME,
    DeclarationError,
    NumericError,
    UnsupportedError,
    as_flag,
    check_text,
    public,
)
from mechc.loss.bound_kernel import declared_masses
from mechc.loss.discretise import rounded_down, rounded_up
from mechc.loss.infinite_mass import log_complement, rounded
from mechc.loss.lists import Laws, beyond, searched
from mechc.loss.moments import log_total
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.loss.quadrature.rule import log_densities
from mechc.numeric.logs import log_mean, log_of
from mechc.numeric.rounding import EPS, MASS_TOLERANCE, MOST_LOG
from mechc.protocol import Floats, Measure, ParameterInfo

if TYPE_CHECKING:
    from mechc.protocol import Kernel

LEAST_RATIO, LOG_LEAST_RATIO = 1e-300, -690.0  # that doubles hold to all their digits; its log
UNDERFLOW = 2e-323  # what a smaller number may be off
MOST_INTEGERS = 4_000_000  # masses of a lattice that are listed
NEGLIGIBLE = -90.0  # log of a share of its cell's mass that is left out
MASS_ERROR = 1e-13  # relative error allowed to the masses of cells
OTHER_OUTPUTS = WithoutReplacement, WithReplacement  # steps whose pairs have outputs made for them


@dataclass(frozen=True)
class Table:
    """What stands in the place of a mechanism.

    Attributes:
        name: name for people.
        symmetric: the add direction is the mirror image of remove.
        claim: what the table bounds, and why.
        key: what tables share only if they are the same; of laws alone a digest of all numbers.
        upper_only: why it bounds the mechanism from above alone; "" where it is exact.
        beneath: then, an event that one use reveals at least, where one is known.
        uncertified: why there are no certified answers.
        made: an operation and its arguments by name, from which the event is made again.
    """

    name: str
    symmetric: bool
    claim: Claim
    key: str = ""
    parameters: tuple[Any, ...] = ()
    references: tuple[str, ...] = ()
    upper_only: str = ""
    beneath: Event | None = None
    bound: dict[str, float] = field(default_factory=dict)
    rates: tuple[str, ...] = ()
    uncertified: str = "known by numbers alone; certified answers need a declaration"
    made: tuple[Callable[..., Any], dict[str, Any]] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def moved_by(self) -> None:
        """None: it is not declared as noise."""

    @property
    def moving(self) -> tuple[str, ...]:
        """No parameters: there are none."""
        return ()

    def derived(self, what: str, make: Callable[[], Any]) -> Any:
        """What is read off it, found each time."""
        return make()

    @property
    def declaration(self) -> Any:
        """Refused: there is none."""
        raise UnsupportedError(f"{self.name}: {self.uncertified}")


class NumericEvent(MadeEvent):
    """One use of a mechanism of which only the law of the privacy loss is known."""

    __slots__ = ("_laws",)

    def __init__(
        self, table: Any, remove: PrivacyLoss, add: PrivacyLoss | None,
        *, defaulted: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        """Combine the laws; users call `from_losses` and `from_pmfs` instead."""
        super().__init__(table, (), defaulted)
        self._laws = {"remove": remove, "add": add or remove.reversed()}
        object.__setattr__(table, "key", digest(table, *self._laws.values()))

    def rho_bound(self) -> float:
        """Return nan: numbers have no formula."""
        return math.nan

    def beneath(self, count: int) -> Sequence[tuple[Event, int]] | None:
        """Return what so many uses reveal at least, where that is known."""
        table = self.mechanism
        if not isinstance(table, Table) or table.beneath is None:
            return None
        return [(table.beneath, count)]

    def _law(self, direction: str) -> PrivacyLoss:
        """Return the law of the privacy loss in one direction ("remove" or "add")."""
        law: PrivacyLoss = inputs.kept((NumericEvent, self.key), self._begun)[direction]
        return law

    def _begun(self) -> dict[str, PrivacyLoss]:
        """The laws as they were before any question: those with densities grow."""
        remove, add = self._laws["remove"], self._laws["add"]
        if remove.source is None:
            return {"remove": remove, "add": add.first()}
        one_pair = remove.source is add.source and remove.is_reversed != add.is_reversed
        first = remove.first()
        return {"remove": first, "add": first.reversed() if one_pair else add.first()}

    def loss_of_sample(self, direction: str, rate: float) -> PrivacyLoss:
        """Return the law of the loss on a Poisson sample of a rate below one (T6)."""
        return _sampled(self.loss(direction), rate, direction == "add")

    def _made_of(self, direction: str) -> tuple[tuple[Any, ...], tuple[float, ...], bool]:
        """No kernels."""
        return (None, None), (), False


@described
@public
def from_losses(
    losses: Any,
    masses: Any,
    *,
    infinite_mass: float = 0.0,
    step: float | None = None,
    add: tuple[Any, Any, float] | None = None,
    symmetric: bool = False,
    adjacency: Adjacency | str = Adjacency.ANY,
    name: str = "imported",
    because: str = "the table of losses is the mechanism's, or dominates it",
) -> NumericEvent:
    """Return the event with a given privacy loss distribution.

    Args:
        losses: finite losses log(p/q), shape (n,); with `step`, integers that count steps.
        masses: their masses under P, shape (n,).
        infinite_mass: P(q = 0).
        step: distance of the losses, where they lie on a lattice through 0.
        add: (losses, masses, infinite_mass) of the other direction, of the law under Q of
            log(q/p). By default it follows from the first; what masses under Q, mass * exp(-loss),
            lack to one is its infinite_mass, and is known to the rounding of these numbers alone.
        symmetric: both directions have this same law.
        adjacency: neighbouring relation that the table is for; "any" leaves it open.
        name: name for people.
        because: why the table bounds the mechanism, in words.

    Raises:
        DeclarationError: a loss is not finite, a mass is negative, masses do not sum to one, or
            the masses under Q, mass * exp(-loss), sum to more than one: losses were rounded down.
    """
    claim = _claim(name, adjacency, because)
    symmetric = as_flag("symmetric", symmetric)
    if add is not None and not (isinstance(add, (tuple, list)) and len(add) == 3):
        raise DeclarationError(f"{name}: add={add!r} (expected losses, masses and infinite_mass)")
    if add is not None and symmetric:
        raise DeclarationError(
            f"{name}: add={add!r} is given with symmetric=True, by which it is the first law"
        )
    first = _law(name, losses, masses, infinite_mass, step)
    second = _law(f"{name} (add)", *add, step) if add is not None else None
    if symmetric:
        second = first
    return NumericEvent(Table(name, symmetric, claim), first, second or _following(first))


def _following(law: PrivacyLoss) -> PrivacyLoss:
    """The law of adding a record, by that of removing one: what Q has alone is a difference."""
    loss, log_p = law.atom_loss, law.atom_log_mass
    p, q = np.exp(log_p), np.exp(log_p - loss)
    gap = np.where(loss > -MOST_LOG, -p * np.expm1(np.minimum(-loss, MOST_LOG)), -q)
    missing = max(math.fsum([law.told[0], *gap.tolist()]), 0.0)
    # by roundings of logs, losses and sums, and by what masses of P are off one
    moved = EPS * ((4.0 + np.abs(log_p)) * np.abs(gap) + q * np.abs(loss))
    off = math.fsum(moved.tolist()) + law.tolerance
    off += EPS * missing if off > 0.0 else 0.0
    most = log_of(missing + off)
    return replace(
        law.reversed(), log_infinite=most, early=(min(most, log_of(2.0 * off)), -math.inf),
        told=(missing if off == 0.0 else math.nan, law.told[0]),
    )  # fmt: skip


@described
@public
def from_pmfs(
    p: Any,
    q: Any,
    *,
    adjacency: Adjacency | str = Adjacency.ANY,
    name: str = "pmfs",
    because: str = "p and q are the output laws of the worst data sets",
) -> NumericEvent:
    """Return the event with a finite pair of probability mass functions.

    Args:
        p: probabilities of the outcomes with the record present, shape (n,).
        q: the same without the record.
        adjacency: neighbouring relation that the pair is for; "any" leaves it open.
        name: name for people.
        because: why the pair bounds the mechanism, in words.

    Raises:
        DeclarationError: arrays of different shapes, negative entries, nan, or sums other than 1.
    """
    claim = _claim(name, adjacency, because)
    p, q = _masses(name, "p", p), _masses(name, "q", q)
    if p.shape != q.shape:
        raise DeclarationError(f"{name}: p has {p.size} entries and q has {q.size}")
    totals = [sum(map(Fraction, law.tolist())) for law in (p, q)]
    for side, total in zip("pq", totals, strict=True):
        _check_total(name, side, float(total))
    # scaled to masses of one their losses move by this: of 1 and 1e-30 the first may be 1 - 1e-30
    off = (1.0 + 2.0 * MASS_TOLERANCE) * float(abs(totals[0] - totals[1]))
    both = (p > 0) & (q > 0)
    if not both.any():
        raise DeclarationError(f"{name}: p and q share no outcome, so that every output tells")
    apart = [math.fsum(m.tolist()) for m in (p[q == 0], q[p == 0])]
    exact = [sum(map(Fraction, m.tolist())) for m in (p[q == 0], q[p == 0])]
    tell, other = map(log_of, apart)
    known = [mass == total for mass, total in zip(apart, exact, strict=True)]
    told = [m if k else math.nan for m, k in zip(apart, known, strict=True)]
    errors = [0.0 if k else rounded(log).error for log, k in zip((tell, other), known, strict=True)]
    loss, log_p, log_q = _log_ratio(p[both], q[both]), np.log(p[both]), np.log(q[both])
    laws = [
        PrivacyLoss.from_log_atoms(loss, log_p, tell, other, name, loss_error=off),
        PrivacyLoss.from_log_atoms(-loss, log_q, other, tell, f"{name} reversed", loss_error=off),
    ]
    laws = [
        replace(made, told=(told[i], told[1 - i]), mass_errors=(errors[i], errors[1 - i]))
        for i, made in enumerate(laws)
    ]
    return NumericEvent(Table(name, False, claim), *laws)


def sampled(event: NumericEvent, rate: float) -> NumericEvent:
    """Return the event on a Poisson sample, each direction by T6 from its own law.

    ((1-r) Q + r P, Q) has the loss log(1-r + r exp(l)), and (Q, (1-r) Q + r P) for adding has
    -log(1-r + r exp(-l)): with r < 1 what only Q, or only P, can tell becomes finite.
    """
    if rate == 1.0:
        return event
    laws = [event.loss_of_sample(d, rate) for d in ("remove", "add")]
    name = f"poisson({event}, sampling_rate={inputs.shown(rate)})"
    known = event.mechanism.claim
    assumption = f"every record enters the sample independently with probability {rate!r}"
    claim = replace(known, theorem="T6", adjacency=Adjacency.ADD_REMOVE,
                    assumptions=(*known.assumptions, assumption))  # fmt: skip
    why, told = event.upper_only, None
    match event.beneath(1) if why else None:
        case [(NumericEvent() as below, 1)]:
            told = sampled(below, rate)
    return NumericEvent(Table(name, False, claim, upper_only=why, beneath=told), *laws)


def _sampled(law: PrivacyLoss, r: float, adding: bool) -> PrivacyLoss:
    from mechc.loss.atoms import rounding
    from mechc.loss.tabulated import sampled_loss

    if r > 0.0 and (made := sampled_loss(law, r)) is not None:
        return made
    loss, log_p = law.atom_loss, law.atom_log_mass
    log_rest = math.log1p(-r)
    log_r = log_of(r)
    toward = -loss if adding else loss
    mixed = np.logaddexp(log_rest, log_r + toward)
    with np.errstate(over="ignore", invalid="ignore"):
        grown = r * np.expm1(toward)
    small = np.abs(grown) < 0.5  # by what it differs from 0, which keeps its digits
    mixed[small] = np.log1p(grown[small])
    # a rounding of the loss moves the mixed one by d mixed / d loss times as much
    inherited = np.exp(np.minimum(log_r + toward - mixed, 0.0)) * np.abs(loss)
    error = law.loss_error + EPS * float((2.0 * inherited - 4.0 * np.abs(mixed)).max(initial=0.0))
    error += UNDERFLOW if log_r < LOG_LEAST_RATIO else 0.0
    if adding:
        losses, masses = np.append(-mixed, -log_rest), np.append(log_p, law.log_infinite)
        infinite = (-math.inf, log_r + law.log_minus_infinite)
    else:
        losses = np.append(mixed, log_rest)
        masses = np.append(log_p - loss + mixed, log_rest + law.log_minus_infinite)
        infinite = (log_r + law.log_infinite, -math.inf)
    # what may have small losses is a part of the mixture as well
    q, p = law.early if adding else law.early[::-1]
    both = float(np.logaddexp(log_r + p, log_rest + q))
    made = PrivacyLoss.from_log_atoms(
        losses, masses, *infinite, loss_error=error, bound=True,
        density_error=law.density_error + max(law.mass_errors),
        early=(q, both) if adding else (both, q),
    )  # fmt: skip
    return replace(made, tolerance=law.tolerance + made.tolerance + rounding(loss, log_p),
                   mass_errors=law.mass_errors, of_estimated=law.estimated,
                   rate=r * law.rate, side=law.side, is_reversed=law.is_reversed,
                   parts=() if adding else law.parts)  # fmt: skip


def _log_ratio(p: Floats, q: Floats) -> Floats:
    """log(p/q); where it is small by the difference, which doubles hold exactly."""
    near = (p >= 0.5 * q) & (p <= 2.0 * q)
    with np.errstate(over="ignore", divide="ignore"):
        ratio = p / q
        out: Floats = np.where(near, np.log1p((p - q) / q), np.log(ratio))
    held = (ratio > LEAST_RATIO) & (ratio < 1.0 / LEAST_RATIO)
    return np.where(held, out, np.log(p) - np.log(q))


def _law(
    name: str, losses: Any, masses: Any, infinite_mass: float, step: float | None
) -> PrivacyLoss:
    loss, mass = as_array(f"{name}: losses", losses), _masses(name, "masses", masses)
    if loss.shape != mass.shape or not np.isfinite(loss).all():
        raise DeclarationError(f"{name}: losses are not finite numbers, one for each mass")
    if step is not None:
        step = inputs.positive(name, "step", step)
        if not (loss == np.round(loss)).all():
            raise DeclarationError(f"{name}: with step=, losses are integers that count steps")
        if not np.abs(loss).max() * step < math.inf:
            raise DeclarationError(f"{name}: step={step:g} times the losses is no finite number")
        loss = loss * step
    infinite_mass = inputs.share(name, "infinite_mass", infinite_mass)
    total = math.fsum(mass.tolist()) + infinite_mass
    _check_total(name, "masses with infinite_mass", total)
    with np.errstate(over="ignore", divide="ignore"):
        under_q = float(np.exp(np.log(mass) - loss).sum())
    if under_q > 1 + MASS_TOLERANCE:
        raise DeclarationError(
            f"{name}: the masses under Q, mass * exp(-loss), sum to {under_q!r}, more than 1: this "
            "is no law of a privacy loss but an optimistic rounding of one, which bounds nothing "
            "from above (expected a pessimistic or exact one)"
        )
    law = PrivacyLoss.from_atoms(loss, mass, infinite_mass, max(0.0, 1.0 - under_q), label=name)
    if step is None or not law.atom_loss.size:
        return law
    return replace(law, lattice=(float(law.atom_loss[0]), step))


def _masses(name: str, side: str, values: Any) -> Floats:
    array = np.atleast_1d(as_array(f"{name}: {side}", values))
    if array.ndim != 1 or not array.size or not (array >= 0).all() or not (array <= 1).all():
        raise DeclarationError(f"{name}: {side} are not one-dimensional numbers in [0, 1]")
    return array


def _check_total(name: str, side: str, total: float) -> None:
    if not abs(total - 1) <= MASS_TOLERANCE:
        raise DeclarationError(f"{name}: {side} sum to {total!r} (expected 1)")


def digest(table: Table, *laws: PrivacyLoss) -> str:
    """Return a name that tables share only if numbers and claims are the same."""
    about = f"{table.claim} {table.upper_only} {table.beneath and table.beneath.key}"
    found = hashlib.sha256(about.encode())
    for law in laws:
        errors = [law.tolerance, law.density_error, law.loss_error, *law.mass_errors, *law.early]
        errors.append(float(law.estimated))
        ends = law.log_infinite, law.log_minus_infinite, *(law.lattice or (math.nan, math.nan))
        nodes = law.loss, law.log_weight, law.atom_loss, law.atom_log_mass
        for array in (*nodes, np.array([*ends, *errors])):
            found.update(np.ascontiguousarray(array).tobytes())
    return f"numeric-{found.hexdigest()}"


def named(text: str) -> str:
    """Return a name that what is described by the same text alone shares."""
    return f"numeric-{hashlib.sha256(text.encode()).hexdigest()}"


def _claim(name: Any, adjacency: Adjacency | str, because: Any) -> Claim:
    """What a table stands for, in the words of the user, which have to be text."""
    check_text("name", name, LONGEST_NAME)
    check_text("because", because)
    return Claim("declared", None, Adjacency.of(adjacency), (), (because,))


TAIL = 1e-20  # mass of one law beyond its grid, which counts as infinite
MOST_CUT = 1e-2  # share of an improbable event that may be cut off a tail
# nats, of the grid that densities are rounded up to
STEP = ParameterInfo("step", 0.0, 10.0, True, False, False, None, (1e-4, 1e-4))
ROUNDED = "upper bound only: losses with a density were rounded up to a grid before mixing"


@described
@public
def mixture(
    events: Sequence[Event],
    weights: Sequence[float],
    *,
    step: float = 1e-4,
    adjacency: Adjacency | str | None = None,
    revealing: float = 0.0,
    assumed: Sequence[str] = (),
    beneath: Event | None = None,
) -> NumericEvent:
    """Return the event in which events[i] happens with probability weights[i], and says so.

    Densities are rounded to a grid, up and down, so that answers are intervals.

    Args:
        events: uses of mechanisms.
        weights: probabilities with sum 1.
        step: distance of the losses to which densities are rounded up.
        adjacency: neighbouring relation that the mixture is for, where the parts' own differ.
        revealing: probability of an event that reveals everything; with the weights it sums to 1.
        assumed: what must be true beside, in words.
        beneath: where a mixture stands for what reveals less, an event that this reveals at least.

    Raises:
        DeclarationError: the lists differ in length, or are not of this kind; `beneath` is for
            another neighbouring relation; a sensitivity was left at its default, for neighbours
            that replace a record or differ in a group.
        UnsupportedError: a tail of a loss without an exponential bound.
    """
    asked = as_array("mixture: weights", weights)
    revealing = inputs.share("mixture", "revealing", revealing)
    given = np.append(asked, revealing) if revealing else asked
    shares = inputs.probabilities("mixture", "weights", given)[: asked.size]
    parts: list[Any] = list(events) if np.iterable(events) else [events]
    for part in parts:
        as_event("mixture: event", part)
    if len(shares) != len(parts):
        raise DeclarationError(f"mixture: {len(parts)} events and {len(shares)} weights")
    step = inputs.check("mixture", STEP, step)
    if isinstance(assumed, str) or not isinstance(assumed, Sequence):
        raise DeclarationError(f"mixture: assumed={assumed!r} (expected a list of sentences)")
    used = [(event, w) for event, w in zip(parts, shares, strict=True) if w > 0]
    for event, _ in used:
        if event.upper_only:
            raise UnsupportedError(f"mixture: {event}: {event.upper_only}")
    claim = _claim_of_mixture(used, adjacency)
    require_sensitivities("mixture", [event for event, _ in used], claim.adjacency)
    if beneath is not None:
        below = as_event("mixture: beneath", beneath)
        joined([("the mixture", claim), (str(below), below.claim)], "mixture")
        assumed = (f"for lower bounds: what is mixed reveals at least {below}", *assumed)
    claim = replace(claim, assumptions=(*claim.assumptions, *assumed))
    smooth = any(event.loss().loss.size for event, _ in used)
    listed = [f"{inputs.shown(w)} * {event}" for event, w in used]
    name = f"mixture({', '.join([*listed[:3], '...'] if len(listed) > 4 else listed)})"
    symmetric = all(event.mechanism.symmetric for event, _ in used)
    upper: list[PrivacyLoss] = []
    lower: list[PrivacyLoss] = []
    for laws, up in ((upper, True), (lower, False))[: 1 + (smooth and beneath is None)]:
        laws.append(_mixed(used, "remove", step, name, revealing, up))
        same = symmetric and up  # rounding down is not the same for both
        laws.append(laws[0] if same else _mixed(used, "add", step, name, revealing, up))
    if lower:
        beneath = NumericEvent(Table(f"{name} rounded down", False, claim), *lower)
    why = ROUNDED if smooth or beneath is not None else ""
    table = Table(name, symmetric, claim, upper_only=why, beneath=beneath)
    defaulted = frozenset(name for event, _ in used for name in event.known_defaults)
    return NumericEvent(table, *upper, defaulted=defaulted)


def _mixed(
    used: Sequence[tuple[Event, float]], direction: str, step: float, name: str,
    revealing: float, up: bool,
) -> PrivacyLoss:  # fmt: skip
    """The mixture of the laws of one direction, rounded up or down."""
    losses, masses = [], []
    first, weights = 0.0 if revealing else -math.inf, [revealing, *(w for _, w in used)]
    ends, early = ([first], [first]), [-math.inf]
    error = tolerance = density = 0.0
    mass_errors, estimated = np.zeros(2), False
    for event, weight in used:
        law, log_weight = event.loss(direction), math.log(weight)
        estimated |= law.estimated
        if law.loss.size:
            rounded = rounded_up if up else rounded_down
            law = rounded(law, step, max(TAIL, min(MOST_CUT, TAIL / weight)))
        losses.append(law.atom_loss)
        masses.append(log_weight + law.atom_log_mass)
        ends[0].append(float(np.logaddexp(law.log_infinite, law.log_unlisted)))
        ends[1].append(law.log_minus_infinite)
        early.append(float(np.logaddexp(law.log_early, law.log_unlisted)))
        error = max(error, law.loss_error + law.loss_rounding)
        tolerance = max(tolerance, law.tolerance)
        density = max(density, law.density_error)
        mass_errors = np.maximum(mass_errors, law.mass_errors)
    infinite, minus, lost = (log_mean(end, weights) for end in (*ends, early))
    made = PrivacyLoss.from_log_atoms(
        np.concatenate(losses), np.concatenate(masses), infinite, minus, name, loss_error=error,
        density_error=density, early=(lost, -math.inf), bound=True,
    )  # fmt: skip
    off = float(mass_errors[0]), float(mass_errors[1])
    return replace(made, tolerance=max(tolerance, made.tolerance), mass_errors=off,
                   of_estimated=estimated)  # fmt: skip


def _claim_of_mixture(used: Sequence[tuple[Event, float]], wanted: Adjacency | str | None) -> Claim:
    """The weakest claim of the parts, by T9; for another relation than theirs it is declared."""
    parts = [(str(event), event.claim) for event, _ in used]
    found = joined(parts, "mixture") if wanted is None else Adjacency.of(wanted)
    claim = weakest(tuple(parts), found)
    other = len({part.group for _, part in parts}) > 1 or any(
        part.adjacency not in (Adjacency.ANY, found) for _, part in parts
    )
    conditions = dict.fromkeys(words for _, part in parts for words in part.conditions)
    stands = f"each pair also stands for {found.words} neighbours where the mixture uses it"
    return replace(
        claim,
        status="declared" if other else claim.status,
        theorem="T9",
        conditions=("the output tells which event happened", *conditions),
        assumptions=(*claim.assumptions, "which event happens does not depend on data",
                     *((stands,) if other else ())),
        about="",
    )  # fmt: skip


@described
@public
def post_process(event: Event, edges: Any) -> NumericEvent:
    """Return the event whose output is only the cell in which the output of `event` falls.

    Cells are (-inf, edges[0]], (edges[0], edges[1]], ..., (edges[-1], inf): rounding to a grid,
    clamping to an interval, a threshold test. The pair is that of a query which is 0 without the
    record and moves by exactly the sensitivity: declared. For all other queries use `event` itself,
    which dominates its rounded output too.

    Args:
        event: a mechanism with its parameters bound.
        edges: increasing numbers, shape (n,).

    Returns:
        A finite pair with n + 1 outcomes.

    Raises:
        DeclarationError: the edges are not finite and increasing.
        UnsupportedError: `event` has no output of its own, another pair for the add direction, or
            outputs that were made for its pair, as on subsets of fixed size.
        NumericError: masses of cells do not sum to one, or the law of `event` is not known.
        VerificationError: branches and densities of its kernel contradict each other.
    """
    cuts = np.atleast_1d(as_array("post_process: edges", edges))
    if cuts.ndim != 1 or not np.isfinite(cuts).all() or not (np.diff(cuts) > 0).all():
        raise DeclarationError(f"post_process: edges={edges!r} are not finite and increasing")
    if not isinstance(event, Event) or isinstance(event.mechanism, Table):
        raise UnsupportedError("post_process: acts on an event of a mechanism, before composition")
    mechanism: Any = event.mechanism
    if any(isinstance(step, OTHER_OUTPUTS) for step in mechanism.transforms):
        raise UnsupportedError(
            f"post_process: the pair of {mechanism.name} dominates its outputs, and has others"
        )
    if mechanism.reverse_kernel is not None or mechanism.tag_kernel is not None:
        raise UnsupportedError(
            f"post_process: {mechanism.name} has more than one pair on the line of outputs"
        )
    own = mechanism.unlisted
    # whatever is wrong with the law is wrong with its cells; its kernel may be another, as of a
    # window, that does not say where outputs are
    law = Event(own, event.theta).loss("remove")
    about = own.kernel, np.array(event.theta), law, cuts
    (log_p, error_p), (log_q, error_q) = (_cells(*about, side) for side in ("p", "q"))
    base = event.claim
    because = (
        f"outputs of {event} are rounded to {cuts.size + 1} cells, and have the laws P and Q of "
        "its pair: a query is 0 without the record and moves by exactly the sensitivity; the "
        "pair before rounding dominates for all others (T9)"
    )
    claim = Claim("declared", None, base.adjacency, (), (because,), group=base.group)
    both = (log_p > -math.inf) & (log_q > -math.inf)
    if not both.any():
        raise DeclarationError(f"post_process: {event}: no cell has mass under both P and Q")
    tells, told = (log_total(a[b == -math.inf]) for a, b in ((log_p, log_q), (log_q, log_p)))
    name, error = f"post_process({event})", error_p + error_q
    loss = log_p[both] - log_q[both]
    laws = [
        PrivacyLoss.from_log_atoms(loss, log_p[both], tells, told, name, loss_error=error),
        PrivacyLoss.from_log_atoms(-loss, log_q[both], told, tells, name, loss_error=error),
    ]
    laws = [replace(made, tolerance=max(made.tolerance, error), mass_errors=(error, error),
                    of_estimated=law.estimated) for made in laws]  # fmt: skip
    return NumericEvent(Table(name, False, claim), *laws, defaulted=event.known_defaults)


def _cells(
    kernel: Kernel, theta: Floats, law: PrivacyLoss, cuts: Floats, side: str
) -> tuple[Floats, float]:
    """Logs of the masses of the cells under P ("p") or Q ("q"), and their error."""
    # Where one cell has nearly all of the mass, its log is that of the complement of the others.
    column = 1 if side == "p" else 2
    atoms, off, _ = declared_masses(kernel, theta, kernel.atoms(theta), law.label)
    parts = [(np.searchsorted(cuts, atoms[:, 0]), atoms[:, column])]
    error = math.expm1(float(off.max(initial=0.0)))
    other = protocol.Q_ONLY if side == "p" else protocol.P_ONLY
    rows = np.asarray(kernel.branches(theta), np.float64).reshape(-1, 6)
    for lo, hi in rows[rows[:, 2] != other, :2]:
        if kernel.MEASURE == Measure.LATTICE:
            parts.append(_integers(kernel, theta, cuts, (lo, hi), side))
        else:
            found = _intervals(kernel, theta, cuts, (lo, hi), side)
            parts.append((np.arange(cuts.size + 1), found[:, 0]))
            error = max(error, float(found[:, 1].max()))
    cell, log_mass = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    logs = np.array([log_total(log_mass[cell == i]) for i in range(cuts.size + 1)])
    whole = math.fsum(np.exp(logs).tolist())
    if not abs(whole - 1.0) <= MASS_TOLERANCE + error:
        raise NumericError(
            f"post_process: masses of cells under {side.upper()} sum to {whole!r}, not 1: a mode "
            "of the noise is too narrow to be found beside the edges"
        )
    most = int(np.argmax(logs))
    if logs[most] > -math.log(2.0):
        logs[most] = log_complement(log_total(np.delete(logs, most)))
    known = logs[logs > -math.inf]
    source = law.source
    assert source is not None
    error += source.atom_error + source.density_error + source.loss_error
    return logs, MASS_ERROR + error + EPS * float(np.abs(known).max(initial=0.0))


def _intervals(
    kernel: Kernel, theta: Floats, cuts: Floats, branch: tuple[float, float], side: str
) -> Floats:
    """Log masses of the cells inside a branch with a density, and their errors."""
    from mechc.loss.quadrature import mass_and_error

    lo, hi = branch
    ends = np.clip(np.concatenate([[-math.inf], cuts, [math.inf]]), lo, hi)
    return np.array([mass_and_error(kernel, theta, a, b, side) for a, b in pairwise(ends.tolist())])


def _integers(
    kernel: Kernel, theta: Floats, cuts: Floats, branch: tuple[float, float], side: str
) -> tuple[NDArray[np.int64], Floats]:
    """The cells of the integers of a branch that matter to their own cell, and the log masses."""
    laws = Laws(kernel, theta, side, np.zeros(1))
    lo, hi = branch
    reach = 64.0 + math.ceil(float(np.abs(cuts).max(initial=0.0)))
    while reach <= MOST_INTEGERS:
        x: Floats = np.arange(np.clip(-reach, lo, hi), np.clip(reach, lo, hi) + 1)
        (logs,), cell = laws.at(x), np.searchsorted(cuts, x)
        known, found = True, [x]
        for end, last in ((0, lo), (-1, hi)):
            least = np.array([log_total(logs[cell == cell[end]]) + NEGLIGIBLE])
            past = beyond(laws, x[end], last, np.full(1, np.inf))
            if past is not None and past.log_masses[0] > least[0]:  # most of the cell, perhaps
                least = np.maximum(least, past.log_masses + 2.0 * NEGLIGIBLE)
                past = beyond(laws, x[end], last, least, MOST_INTEGERS)
            past = past or searched(laws, x[end], last, least, theta)
            known = known and bool(past.log_masses[0] <= least[0])
            found += [np.arange(a, b + 1.0) for a, b in past.islands]
        if known:
            x = np.concatenate(found)
            return np.searchsorted(cuts, x), log_densities(kernel, theta, x, side)[0]
        reach *= 4
    raise UnsupportedError(f"post_process: more than {MOST_INTEGERS} integers carry mass")
