"""What can be done to a mechanism before it is used: sampling, groups, random sensitivity.

All act on a mechanism or, by name of the same arguments, on an event; a group can be taken of a
composition too, the others apply to its parts. The pairs they lead to are derived in
`mechc.calculus.transform`; that of Poisson samples cut at a largest batch (T12) is made here.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from fractions import Fraction
from numbers import Real
from typing import Any, TypeVar, cast

import scipy

from mechc.adjacency import Adjacency, refuse_groups
from mechc.composition import inputs
from mechc.composition.description import described
from mechc.composition.events import (
    Composition,
    Event,
    as_event,
    compose,
    unsupported_on_composition,
)
from mechc.composition.inputs import as_array
from mechc.composition.mechanism import Mechanism, built_in, load
from mechc.composition.tables import NumericEvent, Table, mixture, sampled
from mechc.declare import transforms as steps
from mechc.errors import DeclarationError, NumericError, UnsupportedError, listed, public
from mechc.loss.discretise import rounded_up
from mechc.protocol import ParameterInfo

MOST_OCCURRENCES = 12  # with replacement: more occurrences of one record count as revealing all
UNLIKELY = 1e-16  # probability of what is taken to reveal everything instead of being listed
ROUNDING = 1e-9  # of the tail of a binomial law, relative
CUT_STEP = 1e-3  # nats; 1000 steps at a tilt of 10 take delta up by 1 %, mostly less than telling
LEAST = 2.3e-308  # normal double

Source = TypeVar("Source", Mechanism, Event)
Groupable = TypeVar("Groupable", Mechanism, Event, Composition)


@described
@public
def poisson(
    what: Source,
    sampling_rate: float | None = None,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
) -> Source:
    """Return a mechanism run on a Poisson sample: each record is kept independently.

    Theorem 11 of Zhu, Dong, Wang (2022) for "add_remove". Sampling a sample again multiplies the
    rates. The sensitivity of the mechanism is the distance by which *adding or removing* a record
    moves its query (a clipping norm), for "replace" too: the pair puts it on both sides of the
    middle, and is declared, not proven.

    Args:
        what: a mechanism, or an event (then an event is returned).
        sampling_rate: probability in [0, 1] of keeping a record; None leaves it as a parameter.
        adjacency: "add_remove" or "replace".

    Raises:
        DeclarationError: the rate or the adjacency is not acceptable.
        UnsupportedError: `what` is a composition.
    """
    adjacency = Adjacency.of(adjacency, sampling=True)
    rate = _checked_rate("poisson", what, sampling_rate)
    if isinstance(what, NumericEvent) and rate is not None and adjacency is Adjacency.ADD_REMOVE:
        if what.claim.group:
            refuse_groups("poisson", str(what))
        if what.adjacency is Adjacency.REPLACE:
            raise UnsupportedError(
                f"poisson({what}): the table is for replacing a record, and Poisson sampling under "
                "add/remove (T6) needs one for adding and removing one"
            )
        return cast(Source, sampled(what, rate))
    base, values = _opened("poisson", what)
    return _closed(what, _sampled(base, rate, adjacency), values)


@public
def without_replacement(what: Source, sampling_rate: float | None = None) -> Source:
    """Return a mechanism run on a uniformly random subset of fixed size, under replacement.

    The pair of Balle, Barthe, Gaboardi (2018), Theorem 9, for both orders of the two data sets.
    The sensitivity of the mechanism is the distance by which *replacing* a record moves its query:
    twice a clipping norm. It has to be given: a default of 1 would be half the truth for records
    clipped to norm 1.

    Args:
        what: a mechanism, or an event (then an event is returned).
        sampling_rate: size of the subset divided by that of the data set; None leaves it as a
            parameter.

    Raises:
        DeclarationError: the rate is not in [0, 1]; for an event, its sensitivity was left at the
            default.
        UnsupportedError: `what` is a composition, or for groups. When it is compiled also: no pair
            that dominates replacement in both orders.
    """
    rate = _checked_rate("without_replacement", what, sampling_rate)
    base, values = _opened("without_replacement", what)
    return _closed(what, base.transformed(steps.WithoutReplacement(), rate), values)


def subset_of_groups(event: Event, sampling_rate: float) -> Event:
    """Return `without_replacement` for a group of records that are in the subset together."""
    base, values = _opened("subset_of_groups", event)
    return base.transformed(steps.WithoutReplacement("whole"), sampling_rate)(**values)


@public
def with_replacement(what: Source, *, dataset_size: int, batch_size: int) -> Source:
    """Return a mechanism run on a batch drawn with replacement, under replacement of a record.

    A record occurs Bin(batch_size, 1/dataset_size) times. The pair is that of Koskela, Jälkö,
    Honkela (2020), section 6.3, in which all other records leave the query in the middle: declared,
    not proven. The sensitivity of the mechanism is the distance that one occurrence adds on either
    side (the clipping norm).

    Args:
        what: a mechanism with additive noise, or an event (then an event is returned).
        dataset_size: number of records.
        batch_size: number of draws.

    Raises:
        DeclarationError: a size is not a positive integer.
        UnsupportedError: `what` is a composition.
    """
    sizes = {"dataset_size": dataset_size, "batch_size": batch_size}
    n, m = (inputs.size("with_replacement", name, value) for name, value in sizes.items())
    base, values = _opened("with_replacement", what)
    weights, lost = occurrences(n, m)
    bound = {f"weights_{i + 1}": w for i, w in enumerate(weights)} | {"lost": lost}
    return _closed(what, base.transformed(steps.WithReplacement(len(weights)), **bound), values)


@public
def random_sensitivity(
    what: Source, sensitivities: Sequence[float], weights: Sequence[float]
) -> Source:
    """Return a mechanism whose query moves by sensitivities[i] with probability weights[i].

    With log-concave noise the pair dominates all shorter moves too (T8); with other noise it is
    that of moves by exactly these distances, and is declared as such.

    Args:
        what: a mechanism with additive noise, or an event (then an event is returned; its own
            sensitivity is replaced).
        sensitivities: numbers >= 0, integers for noise on the integers.
        weights: probabilities with sum 1.

    Raises:
        DeclarationError: the lists differ in length, or are not of this kind.
        UnsupportedError: `what` is a composition.
    """
    name = "random_sensitivity"
    shares = inputs.probabilities(name, "weights", weights)
    given = as_array(
        f"{name}: sensitivities", listed(f"{name}: sensitivities", sensitivities, "a list")
    )
    inputs.without_lists(name, {"sensitivities": given, "weights": shares})
    likely: dict[float, float] = {}
    for i, (move, share) in enumerate(zip(given.tolist(), shares, strict=True)):
        info = ParameterInfo(f"sensitivities[{i}]", 0.0, math.inf, False, True, False, None, (1, 1))
        checked = inputs.check(name, info, move)
        likely[checked] = likely.get(checked, 0.0) + share
    moves = sorted(likely)
    bound = {f"weights_{i + 1}": min(likely[move], 1.0) for i, move in enumerate(moves)}
    bound |= _rises(moves)
    base, values = _opened(name, what)
    made = base.transformed(steps.RandomSensitivity(len(moves)), **bound)
    if values:  # a sensitivity that the noise depends on as well stays
        left = {info.name for info in made.parameters}
        values = {k: v for k, v in values.items() if k in left or k != base.moved_by}
    return _closed(what, made, values)


@public
def shift(what: Source, factor: float | None = None) -> Source:
    """Return a mechanism whose query moves `factor` times as far.

    Args:
        what: a mechanism with additive noise, or an event (then an event is returned).
        factor: positive; None leaves it as a parameter.

    Raises:
        DeclarationError: the factor is not positive.
        UnsupportedError: `what` is a composition.
    """
    base, values = _opened("shift", what)
    times = None if factor is None else inputs.positive("shift", "factor", factor)
    return _closed(what, base.transformed(steps.Shift(), times), values)


@public
def group(what: Groupable, size: int) -> Groupable:
    """Return a mechanism between whose neighbours up to `size` records differ.

    Under add/remove one data set has all of them and the other none: on a sample, one that comes
    beside one that goes is no group of two, as its pair is another. Sample first: the records of a
    group are not sampled together, so a group cannot be.

    Args:
        what: a mechanism with additive noise, also on a Poisson sample, an event of one, or a
            composition of such events.
        size: number of records in a group.

    Raises:
        DeclarationError: the size is not a positive integer.
        UnsupportedError: nothing is known of groups for the mechanism, or for one of them.
    """
    members = inputs.size("group", "size", size)
    if isinstance(what, Composition):
        return compose(*((group(cast(Any, event), members), count) for event, count in what.parts))
    base, values = _opened("group", what)
    if base.transforms and isinstance(base.transforms[-1], steps.Poisson):
        return _closed(what, base.transformed(steps.Group(members)), values)
    return _closed(what, base.transformed(steps.Group(), float(members)), values)


@public
def truncate(what: Source, lower: float | None = None, upper: float | None = None) -> Source:
    """Return a mechanism of which outputs outside (lower, upper) count as revealing everything.

    Args:
        what: a mechanism with densities, or an event (then an event is returned).
        lower: negative; None leaves it as a parameter.
        upper: positive; likewise.

    Raises:
        DeclarationError: an end has the wrong sign.
        UnsupportedError: `what` is a composition.
    """
    base, values = _opened("truncate", what)
    bound = {}
    if lower is not None:
        info = ParameterInfo("lower", -math.inf, 0.0, True, True, False, None, (-1, -1))
        bound["lower"] = inputs.check("truncate", info, lower)
    if upper is not None:
        bound["upper"] = inputs.positive("truncate", "upper", upper)
    return _closed(what, base.transformed(steps.Truncate(), **bound), values)


@public
def vector(what: Source, norm: str) -> Source:
    """Return the same pair, claimed for a vector query with independent noise on every coordinate.

    Args:
        what: a mechanism with additive noise, or an event.
        norm: "l1" or "l2", in which the sensitivity bounds the move of the query.

    Raises:
        DeclarationError: an unknown norm.
        UnsupportedError: no theorem licenses one pair for this noise and norm; the message says
            which would, and what to do instead. Raised when the mechanism is compiled.
    """
    base, values = _opened("vector", what)
    return _closed(what, base.transformed(steps.Vector(norm)), values)


@public
def product(*parts: Event | Composition) -> Composition:
    """Return several outputs that are released together, their noises independent.

    The pair is the product of the pairs (T0), as for one release after the other: `a + b`.

    Args:
        parts: events or compositions.

    Raises:
        DeclarationError: a part is neither; a mechanism first needs its parameters.
    """
    return compose(*parts)


def under(
    what: Mechanism,
    sampling_rate: float | None,
    adjacency: Adjacency | str | None,
    given: Container[str] = (),
) -> Mechanism:
    """Return a mechanism for the relation that is asked for, on a Poisson sample if at a rate."""
    wanted = None if adjacency is None else Adjacency.of(adjacency, sampling=True)
    if sampling_rate is not None:
        return poisson(what, sampling_rate, wanted or Adjacency.ADD_REMOVE)
    if wanted in (None, Adjacency.ANY):
        return what
    if wanted is not what.adjacency and what.adjacency != Adjacency.ANY:
        raise DeclarationError(
            f"{what.name}: adjacency={wanted.value!r}, but the pair is for {what.adjacency.words} "
            f"neighbours (expected {what.adjacency.value!r})"
        )
    if wanted is not Adjacency.REPLACE or what.adjacency is not Adjacency.ANY:
        return what
    default = [p.name for p in what.parameters if p.default is not None and p.name not in given]
    if default:
        raise DeclarationError(
            f"{what.name}: adjacency='replace' without sampling says nothing about the default of "
            f"{', '.join(default)}; give the distance by which replacing one record moves the "
            "query, twice the clipping norm, or a Poisson sampling rate"
        )
    return what


def _opened(name: str, what: Any) -> tuple[Mechanism, dict[str, float]]:
    """The mechanism to transform, and the values an event has bound beyond it."""
    if isinstance(what, Composition):
        raise unsupported_on_composition(name)
    if isinstance(what, Event):
        if what.claim.group:
            refuse_groups(name, what.mechanism.name)
        if not isinstance(what.mechanism, Mechanism):
            raise UnsupportedError(
                f"{name}: {what} is given by numbers alone; apply it to the mechanism they are of"
            )
        set_elsewhere = {*what.mechanism.bound, *what.defaulted}
        return what.mechanism, {k: v for k, v in what.parameters.items() if k not in set_elsewhere}
    base = load(what)
    if any(isinstance(step, steps.Group) for step in base.transforms):
        refuse_groups(name, base.name)
    return base, {}


def _closed(what: Source, made: Mechanism, values: Mapping[str, float]) -> Source:
    """The same kind of thing that came in."""
    return made(**values) if isinstance(what, Event) else made


def _sampled(base: Mechanism, rate: float | None, adjacency: Adjacency) -> Mechanism:
    """On a sample; a sample of a sample is one at the product of the rates."""
    step = steps.Poisson(adjacency)
    if any(isinstance(earlier, steps.Poisson) for earlier in base.transforms):
        again, name = base.transforms[-1] == step, step.added(base.transforms[:-1])
        if not again or name not in base.bound or rate is None:
            raise UnsupportedError(
                f"poisson({base.name}): sampling a sample needs both rates and one adjacency"
            )
        both = base.bound[name] * rate
        if base.bound[name] and rate:
            inputs.check_rate(f"poisson({base.name})", name, both or math.ulp(0.0))
        bound = {**base.bound, name: both}
        return Mechanism(base.origin, base.transforms, bound)
    return base.transformed(step, rate)


def _rises(moves: Sequence[float]) -> dict[str, float]:
    """The first of increasing numbers, and by how much each exceeds the one before."""
    # Differences are rounded up where their sum would fall short: protection for a longer move.
    found, total = {}, Fraction(0)
    for name, move in zip(steps.RandomSensitivity(len(moves)).rises, moves, strict=True):
        wanted = Fraction(move) - total
        rise = float(wanted)
        if Fraction(rise) < wanted:
            rise = math.nextafter(rise, math.inf)
        total += Fraction(rise)
        found[name] = rise
    return found


def _checked_rate(name: str, what: Any, value: Any) -> float | None:
    """A sampling rate, which an event needs and a mechanism may leave open."""
    if isinstance(what, Event) and value is None:
        raise DeclarationError(f"{name}: sampling_rate is needed to sample an event")
    return None if value is None else inputs.share(name, steps.Sample.adds, value)


def occurrences(n: int, m: int) -> tuple[list[float], float]:
    """Binomial probabilities of 0, 1, 2, ... occurrences, and what the listed ones leave."""
    from scipy.stats import binom

    listed = min(m, MOST_OCCURRENCES)
    law = binom(m, 1.0 / n)
    weights: Iterable[float] = law.pmf(range(listed + 1))
    lost = float(law.sf(listed)) if listed < m else 0.0
    kept = [float(w) for w in weights]
    while len(kept) > 2 and lost + kept[-1] < 1e-30:
        lost += kept.pop()
    return kept, lost


@described
@public
def truncated_poisson(
    event: float | Event, *, sampling_rate: float, dataset_size: int, batch_cap: int
) -> Event | Composition:
    """Return a pair for Poisson sampling whose batches are cut, at random, to a largest size.

    If the batch without the record is below the limit, the record is added to it; otherwise, with
    probability tau, it takes the place of another one with probability P(Bin(n, q) > B) B / (n tau)
    on average, which moves the sum twice as far. Telling which happens gives a mixture (T12; Chua
    et al. 2024, section 4.3, mix the replaced record into both sides, which reveals more). Where
    noise is Gaussian, and that reveals less, batches of B - 1 others are not told from cut ones. A
    tau below 1e-16, less than a mixture of densities costs by rounding them, is taken to reveal
    everything beside the plain mechanism. From below it is a Poisson sample of the rate at which
    the record is in the batch.

    Args:
        event: one use of additive noise, its sensitivity the clipping norm, or a noise multiplier
            of Gaussian noise.
        sampling_rate: probability q with which a record is sampled before batches are cut.
        dataset_size: number n of records.
        batch_cap: largest batch B.

    Raises:
        DeclarationError: sizes that are not positive integers, or a rate outside [0, 1].
        UnsupportedError: noise that is not additive, or not proved symmetric.
    """
    name = "truncated_poisson"
    n = inputs.size(name, "dataset_size", dataset_size)
    most = inputs.size(name, "batch_cap", batch_cap)
    event = built_in("gaussian")(sigma=event) if isinstance(event, Real) else event
    event = as_event(f"{name}: event", event)
    _opened(name, event)  # a table has no mechanism to be sampled
    plain = poisson(event, sampling_rate)
    q = plain.parameters[plain.mechanism.rates[-1]]
    if most >= n or q == 0.0:
        return plain
    tau = _reached(most, n - 1, q)
    if tau < UNLIKELY:  # less than rounding densities to a grid would cost
        revealing = max(tau * (1.0 + ROUNDING), LEAST)
        told = built_in("approximate_dp")(epsilon=0.0, delta=revealing)
        return plain + mixture([told], [1.0], beneath=told.at(delta=0.0))
    if event.adjacency is not Adjacency.ANY:
        raise UnsupportedError(
            f"{name}({event}): a record that takes the place of another moves the query either "
            "way, and the noise was not proved symmetric (T12)"
        )
    replacing = min(_reached(most + 1, n, q) * most / (n * tau) * (1.0 + ROUNDING), 1.0)
    kept = (1.0 - tau) * q + tau * replacing * (1.0 - 2.0 * ROUNDING)
    apart = min(tau * (1.0 + ROUNDING), 1.0)
    cut: Event | None = None
    if event.mechanism.key == built_in("gaussian").key:
        full = min(_reached(most - 1, n - 1, q) * (1.0 + ROUNDING), 1.0) if most > 1 else 1.0
        beside = max(1.0 - apart / full * (1.0 + 4.0 * ROUNDING), 0.0)
        cut = _beside_full(event, q, replacing, beside)
    if cut is None:
        cut = poisson(_twice_as_far(event), replacing)
    else:
        apart = full
    return mixture(
        [plain, cut], [1.0 - apart, apart], step=CUT_STEP, adjacency="add_remove",
        assumed=(f"batches of more than {most} records are cut uniformly at random (T12)",),
        beneath=poisson(event, min(kept * (1.0 - ROUNDING), q)),
    )  # fmt: skip


def _reached(k: int, n: int, q: float) -> float:
    """P(Bin(n, q) >= k), 1 <= k <= n, by the incomplete beta function (DLMF 8.17.5)."""
    return float(scipy.special.betainc(k, n - k + 1, q))


def _beside_full(event: Event, q: float, replacing: float, full: float) -> Event | None:
    """On a sample, N(1) against full N(0) + (1 - full) N(-1); None where that reveals more."""
    sigma, move = event.parameters["sigma"], event.parameters["sensitivity"]
    far = math.exp(min(4.0 * (move / sigma) ** 2, 600.0))  # E (p/q)^2 at twice the distance
    if q * q >= replacing**2 * (full * far**0.75 + 1.0 - full):
        return None
    words = {"sensitivities": (move, 2.0 * move), "weights": (full, 1.0 - full)}
    away = built_in("mixture_of_gaussians")(sigma=sigma, **words)
    try:
        laws = [rounded_up(away.loss(direction), CUT_STEP) for direction in ("add", "remove")]
    except (NumericError, UnsupportedError):  # of losses that are too large
        return None
    name = f"one record against none, or another, in {event}"
    cut = sampled(NumericEvent(Table(name, False, event.claim), *laws), q)
    # on the grid that the other part is put on: sums of both are few
    laws = [rounded_up(cut.loss(direction), CUT_STEP) for direction in ("remove", "add")]
    return NumericEvent(Table(f"a sample of {name}", False, cut.claim), *laws)


def _twice_as_far(event: Event) -> Event:
    """The event at twice the sensitivity."""
    mechanism, values = event.mechanism, event.parameters
    if isinstance(mechanism, Mechanism) and not mechanism.transforms and mechanism.stretched_by:
        moved = mechanism.stretched_by
        return event.at(**{moved: 2.0 * values[moved]})
    return shift(event, 2.0)
