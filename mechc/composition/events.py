"""Events and compositions: which mechanism, with which parameters, how often.

An `Event` is a mechanism with all parameters bound and validated. A `Composition` is a multiset of
events; equal events are merged and the order is irrelevant, because adaptive composition of
dominating pairs is (Zhu, Dong, Wang 2022, Theorem 10: the product of the pairs dominates,
separately for each direction). Both answer the same queries.

    run = 500 * laplace(scale=20.0) + 2000 * poisson(gaussian, sampling_rate=0.01)(sigma=0.8)
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from sys import float_info
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mechc.adjacency import Adjacency, Claim, joined, weakest
from mechc.composition.inputs import (
    USUAL,
    Setting,
    as_count,
    bind,
    check_count,
    check_rate,
    current,
    kept,
    put,
    shown,
)
from mechc.composition.queries import Queries
from mechc.errors import (
    DeclarationError,
    NumericError,
    UnsupportedError,
    check_one_of,
    listed,
    public,
)
from mechc.numeric.allowance import OutOfWorkError, apart, spend

if TYPE_CHECKING:
    from mechc.composition.queries.evaluation import Evaluation
    from mechc.composition.queries.noise import Noise
    from mechc.loss.privacy_loss import PrivacyLoss, Step
    from mechc.protocol import Described


DIRECTIONS = ("both", "remove", "add")
Kernels = tuple[Any, ...]
"""That of a pair, and of an index that its output tells too, if it does; hashable."""
PAIR = "events, each with a count"


@public
class Event(Queries):
    """One use of a mechanism: a mechanism with its parameters bound.

    Attributes:
        mechanism: the mechanism.
        theta: parameter values in the order of the kernel's PARAMETERS.
        defaulted: names of the parameters that were left at their defaults.
    """

    __slots__ = ("_single", "defaulted", "mechanism", "theta")
    mechanism: Described
    theta: tuple[float, ...]
    defaulted: frozenset[str]
    _single: Composition | None

    joint_evaluation: ClassVar[Callable[..., Evaluation] | None] = None
    """What answers for events without a pair (`mechc.composition.renyi_curves`)."""

    lone_evaluation: ClassVar[Callable[..., Evaluation | None] | None] = None
    """What answers for one use alone, where its law is only a bound (`random_allocation`)."""
    allocated: tuple[tuple[Event, int], ...] = ()
    """Distinct steps with counts, where a record takes part in ..."""
    drawn: int = 1
    """... so many of them."""

    def __init__(
        self, mechanism: Described, theta: tuple[float, ...],
        defaulted: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        """Bind validated parameters; users call the mechanism instead."""
        put(self, "mechanism", mechanism)
        put(self, "theta", theta)
        put(self, "defaulted", defaulted)
        put(self, "_single", None)
        if any(0.0 < value < float_info.min for value in theta):
            for name in mechanism.rates:
                check_rate(mechanism.name, name, self.parameters[name])

    @property
    def key(self) -> tuple[str, tuple[float, ...], str]:
        """What makes two events the same, and sorts them: name, parameters and kernel."""
        return (self.mechanism.name, self.theta, self.mechanism.key)

    @property
    def claim(self) -> Claim:
        """What the pair stands for, the size of a group in digits."""
        claim = self.mechanism.claim
        if claim.group and not claim.group.isdigit():
            named = self.parameters
            size = math.prod(float(named.get(word, word)) for word in claim.group.split("*"))
            return replace(claim, group="" if size == 1 else f"{size:.0f}")
        return claim

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation that the pair is for."""
        return self.claim.adjacency

    @property
    def noise(self) -> Noise:
        """The noise of a mechanism that adds it: its moments, mean error, entropy and quantiles.

        Raises:
            UnsupportedError: the mechanism is not declared as additive noise.
        """
        from mechc.composition.queries.noise import Noise

        return Noise(self.mechanism, self)

    @property
    def upper_only(self) -> str:
        """Why only upper bounds hold for the mechanism; "" where lower bounds do too."""
        return self.mechanism.upper_only

    def beneath(self, count: int) -> Sequence[tuple[Event, int]] | None:
        """Return events that so many uses reveal at least, if `upper_only`; None if not known."""
        return None

    @property
    def parameters(self) -> dict[str, float]:
        """Parameter values by name."""
        return dict(zip((p.name for p in self.mechanism.parameters), self.theta, strict=True))

    @property
    def known_defaults(self) -> frozenset[str]:
        """`defaulted`, with "sensitivity" if how far a query moves was left at that of one record.

        Whatever the name of the parameter is.
        """
        left = self.defaulted
        if "sensitivity" in left or left.isdisjoint(self.mechanism.moving if left else ()):
            return left
        return left | {"sensitivity"}

    @property
    def is_identity(self) -> bool:
        """Whether nothing is revealed: a sampling rate of 0."""
        if 0.0 not in self.theta:
            return False
        return any(self.parameters[name] == 0.0 for name in self.mechanism.rates)

    def at(self, **values: float) -> Event:
        """Return this event with other values of some parameters.

        Raises:
            DeclarationError: a parameter is unknown or out of its domain.
        """
        if not values:  # also of events that have none
            return self
        known = self.mechanism.parameters
        theta = bind(self.mechanism.name, known, {**self.parameters, **values})
        return Event(self.mechanism, theta, self.defaulted.difference(values))

    def record(self) -> dict[str, Any]:
        """Return what a run file holds of the event, in plain words and numbers."""
        left = {"defaulted": sorted(self.defaulted)} if self.defaulted else {}
        return {**self.mechanism.record(), "parameters": self.parameters, **left}

    def rho_bound(self) -> float:
        """Return a rho of zCDP in closed form by the declaration, rounded up; nan without one."""
        from mechc.calculus.concentrated import rho_at

        try:
            return rho_at(self.mechanism.declaration, self.parameters)
        except UnsupportedError:  # a kernel has no declaration
            return math.nan

    def loss(self, direction: str = "remove") -> PrivacyLoss:
        """Return the law of the privacy loss in one direction ("remove" or "add").

        A declaration with a separate pair for "add" uses its own kernel; otherwise the add
        direction is the reversed pair of the same kernel.
        """
        check_one_of("direction", direction, DIRECTIONS[1:], "loss")
        return self._law(direction)

    def _law(self, direction: str) -> PrivacyLoss:
        """The same of a direction that is one."""
        kernels, theta, reverse = self._made_of(direction)
        try:
            law = _privacy_loss(kernels, theta)
        except (UnsupportedError, DeclarationError) as error:
            if len(kernels) == 1:
                raise
            raise UnsupportedError(f"{self!r}: {error}") from error
        found: PrivacyLoss = kept((kernels, theta, True), law.reversed) if reverse else law
        return found

    def _made_of(self, direction: str) -> tuple[Kernels, tuple[float, ...], bool]:
        """Kernels and parameters that the law is made of, and whether it is their reverse."""
        made = self.mechanism
        whole = made.unsampled(self.theta) if self.theta[-1:] == (1.0,) else None  # a rate of 1
        if whole is not None:
            found: tuple[Kernels, tuple[float, ...], bool] = whole._made_of(direction)
            return found
        adding = direction == "add"
        if made.tag_kernel is not None:
            return (made.kernel, made.tag_kernel), self.theta, adding
        if adding and made.reverse_kernel is not None:
            return (made.reverse_kernel,), self.theta, False
        return (made.law_kernel,), self.theta, adding

    def _stand_in(self, direction: str) -> Any:
        """As `_law`; where it cannot be resolved, an `UnresolvedLoss`, which bounds it."""
        try:
            return self._law(direction)
        except (NumericError, OutOfWorkError) as found:
            from mechc.loss.truncated_loss import UnresolvedLoss

            error = found if isinstance(found, NumericError) else NumericError(str(found))
            kernels, theta, reverse = self._made_of(direction)
            kernel = kernels[0] if len(kernels) == 1 else None  # else one parameter more: an index
            return UnresolvedLoss(kernel, np.array(theta, np.float64), reverse, error)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy what defines the event; what was computed is computed again."""
        return type(self), (self.mechanism, self.theta, self.defaulted)

    def composition(self) -> Composition:
        """Return the composition of this one event."""
        if self._single is None:
            self._single = Composition(((self, 1),))
        return self._single

    def __mul__(self, count: Any) -> Composition:
        """Repeat."""
        return Composition(((self, as_count(count)),))

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Composition:
        """Compose with another event or composition."""
        return self.composition().__add__(other)

    __radd__ = __add__

    def __eq__(self, other: object) -> bool:
        """Compare kernel and parameters; a composition may be this event, once."""
        return self.key == other.key if isinstance(other, Event) else NotImplemented

    def __hash__(self) -> int:
        """Hash kernel and parameters."""
        return hash(self.key)

    def __repr__(self) -> str:
        """Show the mechanism and its parameters."""
        inside = ", ".join(f"{name}={shown(value)}" for name, value in self.parameters.items())
        return f"{self.mechanism.name}({inside})" if inside else self.mechanism.name


@public
class Composition(Queries):
    """A multiset of events.

    Attributes:
        parts: distinct events with their counts, in an order that depends on the content only.
        adjacency: the neighbouring relation that all events are for.
    """

    __slots__ = ("_claims", "_used", "adjacency", "parts")
    parts: tuple[tuple[Event, int], ...]
    adjacency: Adjacency
    _claims: dict[tuple[str, Claim], None]
    _used: set[str]

    def __init__(
        self, parts: Iterable[tuple[Event, int]] = (), beside: Composition | None = None
    ) -> None:
        """Merge equal events and drop those that happen zero times or reveal nothing.

        Refused are too large a count, and events for different neighbouring relations. `parts` are
        added to those of `beside`.
        """
        given = []
        for part in listed("parts", parts, PAIR):
            event, count = listed("part", part, PAIR, 2)
            given.append((as_event("event", event), as_count(count)))
        merged = [] if beside is None else list(beside.parts)
        claims = {} if beside is None else beside._claims.copy()
        for event, count in sorted(given, key=_key):
            if not count or event.is_identity:
                continue
            at = bisect_left(merged, event.key, key=_key)
            if at < len(merged) and merged[at][0].key == event.key:
                first, before = merged[at]
                count += before  # a default that one of them was left at stays known
                known = max(first, event, key=lambda e: "sensitivity" in e.known_defaults)
                merged[at] = known, count
            else:
                merged.insert(at, (event, count))
            check_count(count, event)
            claims[event.mechanism.name, event.claim] = None
        put(self, "parts", tuple(merged))
        put(self, "_claims", claims)
        put(self, "_used", set())
        if beside is not None and len(claims) == len(beside._claims):
            relation = beside.adjacency
        else:
            relation = joined(claims, "composition")
        put(self, "adjacency", relation)
        if relation is Adjacency.REPLACE or any(claim.group for _, claim in claims):
            require_sensitivities("composition", [e for e, _ in self.parts], relation)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the events; what was computed is computed again."""
        return Composition, (self.parts,)

    def composition(self) -> Composition:
        """Return self; events and compositions answer the same queries."""
        return self

    @property
    def count(self) -> int:
        """Total number of steps."""
        return sum([count for _, count in self.parts])

    def unit(self) -> tuple[Composition, int]:
        """Return the shortest run that this one repeats, and how often it does."""
        times = math.gcd(*(count for _, count in self.parts))
        return Composition((event, count // max(times, 1)) for event, count in self.parts), times

    @property
    def symmetric(self) -> bool:
        """Whether both directions are the same, proved for every event."""
        return all(event.mechanism.symmetric for event, _ in self.parts)

    @property
    def methods_used(self) -> frozenset[str]:
        """Names of the methods that have answered queries on this composition."""
        return frozenset(self._used)

    @property
    def claim(self) -> Claim:
        """The weakest claim of the events, with what must be true for all of them."""
        return weakest(tuple(self._claims), self.adjacency)

    @property
    def claims(self) -> tuple[str, ...]:
        """One line for each mechanism: what its pair bounds, by which theorem, assuming what.

        It names the event, or, where several differ in their parameters only, how many they are.
        """
        mechanisms = {id(event.mechanism): event.mechanism for event, _ in self.parts}
        words = {key: str(m.claim) for key, m in mechanisms.items()}
        events: dict[tuple[str, str], list[Event]] = {}
        for event, _ in self.parts:
            about = (event.mechanism.name, words[id(event.mechanism)])
            events.setdefault(about, []).append(event)
        return tuple(
            f"{some[0] if len(some) == 1 else f'{name}, {len(some)} settings'}: {claim}"
            for (name, claim), some in events.items()
        )

    def steps(self, direction: str, *, resolved: bool = True) -> tuple[Step, ...]:
        """Return the distinct privacy losses of one direction with their counts.

        Losses that cannot be resolved are refused; unless `resolved`, they have stand-ins.
        """
        check_one_of("direction", direction, DIRECTIONS[1:], "steps")
        return self._steps(direction, resolved)

    def _steps(self, direction: str, resolved: bool) -> tuple[Step, ...]:
        from mechc.loss.privacy_loss import Step

        if len(self.parts) > 1:
            bind_together([event for event, _ in self.parts], direction)
        steps = []
        for event, count in self.parts:
            law = event._law(direction) if resolved else event._stand_in(direction)
            steps.append(Step(law, count))
        return tuple(steps)

    def evaluation(self, setting: Setting = USUAL) -> Evaluation:
        """Return log delta as a function, for all that one question asks of this composition."""
        found = self._evaluate(setting, self.directions(setting.direction))
        found.methods_used = self._used  # names, for `cite`; they change no answer
        return found

    def _evaluate(self, setting: Setting, wanted: tuple[str, ...]) -> Evaluation:
        from mechc.accountants.auto import explained
        from mechc.composition.queries.evaluation import Evaluation

        name, curves, count, no_lower = setting.method, list[Any](), 0, ""
        for event, times in self.parts:
            count += times
            no_lower = no_lower or event.upper_only
            if event.joint_evaluation:
                curves.append((event, times))
        if curves:
            others = Composition((e, n) for e, n in self.parts if not e.joint_evaluation)
            steps = {d: others.steps(d) for d in wanted}
            answers: Evaluation = curves[0][0].joint_evaluation(curves, steps, name)
            return answers
        lone = self.parts[0][0].lone_evaluation if count == 1 else None
        if lone is not None and name in ("auto", "direct"):
            alone = lone(wanted)
            if alone is not None:
                return alone
        steps = {}
        for direction in wanted:
            try:
                steps[direction] = self._steps(direction, name != "auto")
            except NumericError as why:
                raise explained(name, self._steps(direction, False), why) from why
        below = self._beneath() if no_lower else None
        lower = None if below is None else below._evaluate(setting, wanted)
        if name == "auto" and count > 1 and not no_lower:
            sides: dict[str, Any] = dict.fromkeys(steps)
            for d, some in steps.items():
                sizes = [law.atom_loss.size if law.is_resolved else -1 for law, _ in some]
                if min(sizes) >= 0 < max(sizes):
                    from mechc.loss.discretise import shortened

                    sides[d] = shortened(some)
            if any(sides.values()):
                no_lower = "long lists of losses were rounded up to a grid"
                least = {d: side[1] if side else steps[d] for d, side in sides.items()}
                steps = {d: side[0] if side else steps[d] for d, side in sides.items()}
                lower = Evaluation(least, name, setting.rtol, setting.options)
        return Evaluation(steps, name, setting.rtol, setting.options, no_lower, lower)

    def _beneath(self) -> Composition | None:
        """What is revealed at least, where events are known by bounds."""
        parts: list[tuple[Event, int]] = []
        for event, count in self.parts:
            found = event.beneath(count) if event.upper_only else ((event, count),)
            if found is None:
                return None
            parts.extend(found)
        return Composition(parts)

    def directions(self, direction: str) -> tuple[str, ...]:
        """Return the directions that have to be evaluated for "both", "remove" or "add"."""
        check_one_of("direction", direction, DIRECTIONS)
        if direction == "both":
            return ("remove",) if self.symmetric else ("remove", "add")
        return (direction,)

    def __mul__(self, count: Any) -> Composition:
        """Repeat everything."""
        times = as_count(count)
        return Composition((event, times * number) for event, number in self.parts)

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Composition:
        """Compose with another event or composition (0 is the empty one, for sum())."""
        if isinstance(other, (Event, Composition)):
            fewer, more = sorted((self, other.composition()), key=len)
            return Composition(fewer.parts, more)
        if isinstance(other, int) and other == 0:
            return self
        raise DeclarationError(
            f"{self} + {other!r}: expected an event or a composition (2 * run is a run twice)"
        )

    __radd__ = __add__

    def __iter__(self) -> Iterator[tuple[Event, int]]:
        """Iterate over distinct events with their counts."""
        return iter(self.parts)

    def __len__(self) -> int:
        """Number of distinct events."""
        return len(self.parts)

    def __eq__(self, other: object) -> bool:
        """Compare as multisets."""
        if isinstance(other, Event):
            return self.parts == ((other, 1),)
        return isinstance(other, Composition) and self.parts == other.parts

    def __hash__(self) -> int:
        """Hash as a multiset, of one event as that is hashed."""
        alone = len(self.parts) == 1 and self.parts[0][1] == 1
        return hash(self.parts[0][0] if alone else self.parts)

    def __repr__(self) -> str:
        """Show events with their counts, but for one."""
        words = (f"{count} * {event}" if count != 1 else repr(event) for event, count in self.parts)
        return " + ".join(words) or "Composition()"


def require_sensitivities(what: str, events: Sequence[Event], relation: Adjacency) -> None:
    """Refuse sensitivities left at that of one record that comes, beside other neighbours."""
    groups = [event for event in events if event.claim.group]
    for event in events:
        if "sensitivity" not in event.known_defaults:
            continue
        words = f"{what}: {event} has the default sensitivity, of one record"
        if groups and not event.claim.group:
            size = groups[0].claim.group
            raise DeclarationError(
                f"{words}, but neighbours of {groups[0]} differ in {size} (expected "
                f"sensitivity= of such neighbours, or mechc.group(m, {size}))"
            )
        if relation is Adjacency.REPLACE and event.adjacency is Adjacency.ANY:
            raise DeclarationError(
                f"{words} that comes or goes, but neighbours here replace one (expected "
                "sensitivity= of replacing it, twice a clipping norm)"
            )


def as_event(owner: str, value: Any, hint: str = "a composition is several") -> Event:
    """Return what is one use of a mechanism; anything else is refused."""
    if not isinstance(value, Event):
        raise DeclarationError(
            f"{owner}={value!r} is not one use of a mechanism (expected an event: a mechanism with "
            f"its parameters; {hint})"
        )
    return value


def _key(part: tuple[Event, int]) -> tuple[str, tuple[float, ...], str]:
    """What parts are sorted by."""
    return part[0].key


def _is_pair(part: Any) -> bool:
    """Whether a part of a composition comes with its count."""
    return isinstance(part, tuple) and len(part) == 2 and not isinstance(part[1], (Queries, tuple))


@public
def compose(*parts: Any) -> Composition:
    """Compose events, compositions, and (event, count) pairs.

    Args:
        parts: each an Event, a Composition, or a pair of one of these with a count; or one
            iterable of such parts, or a mapping to counts.

    Returns:
        The composition; the order of the parts is irrelevant.

    Raises:
        DeclarationError: a part is none of these, or a count is not acceptable.
    """
    flat: list[tuple[Event, int]] = []
    only = parts[0] if len(parts) == 1 else None
    if isinstance(only, Composition):  # its methods used are its own
        return Composition((), only)
    if isinstance(only, Mapping):
        parts = tuple(only.items())
    elif isinstance(only, Iterable) and not _is_pair(only):
        parts = listed("parts", only, PAIR)
    for part in parts:
        what, count = part if _is_pair(part) else (part, 1)
        if not isinstance(what, (Event, Composition)):
            raise DeclarationError(
                f"compose: {what!r} is neither an event nor a composition "
                "(expected event, composition, or (event, count))"
            )
        times, own = as_count(count), ((what, 1),) if isinstance(what, Event) else what.parts
        flat.extend((event, times * number) for event, number in own)
    return Composition(flat)


def _privacy_loss(kernels: Kernels, theta: tuple[float, ...]) -> PrivacyLoss:
    """The law for the question at hand, grown from the one that all questions begin with."""
    laws, key = current().laws, (kernels, theta)
    law: PrivacyLoss | None = laws.get(key)
    if law is None:
        law = laws[key] = _fork(_first.get(key) or _bind(kernels, [theta])[0])
    return law


MOST_FIRST = 2048  # laws that are kept for later questions
BINDING = 100.0, 2e4  # units of a law in a question, kept from before or not: a node, and each law
_first: dict[tuple[Kernels, tuple[float, ...]], PrivacyLoss | NumericError] = {}
_forgetting = Lock()


def _fork(law: PrivacyLoss | NumericError) -> PrivacyLoss:
    """A law for one question, which pays for it."""
    if isinstance(law, NumericError):
        raise NumericError(str(law))
    spend(BINDING[0] * (law.loss.size + law.atom_loss.size) + BINDING[1])
    return law.fork()


def _bind(
    kernels: Kernels, thetas: list[tuple[float, ...]]
) -> Sequence[PrivacyLoss | NumericError]:
    """Make first laws of one kernel, together where all of them have one, or say why not."""
    from mechc.loss.discretise import tagged_loss
    from mechc.loss.privacy_loss import bound

    arrays = [np.array(theta, np.float64) for theta in thetas]
    found: Sequence[PrivacyLoss | NumericError]
    try:
        with apart(math.inf):
            if len(kernels) == 1:
                found = bound(kernels[0], arrays)
            else:
                found = [tagged_loss(kernels[0], kernels[1], theta) for theta in arrays]
    except NumericError as why:
        if len(thetas) > 1:
            return [_bind(kernels, [theta])[0] for theta in thetas]
        found = [why.with_traceback(None)]
    with _forgetting:
        _first.update(zip([(kernels, theta) for theta in thetas], found, strict=True))
        while len(_first) > MOST_FIRST:
            _first.pop(next(iter(_first)))
    return found


def bind_together(events: Sequence[Event], direction: str) -> None:
    """Make first laws of many events, which are the same as those made one by one."""
    from mechc.loss.quadrature import TOGETHER

    wanted: dict[Kernels, dict[tuple[float, ...], None]] = {}
    turned: dict[tuple[Kernels, tuple[float, ...]], None] = {}
    for event in events:
        if type(event) is Event:
            kernels, theta, reverse = event._made_of(direction)
            wanted.setdefault(kernels, {})[theta] = None
            if reverse:
                turned[kernels, theta] = None
    known = current().laws  # of a question there may be more than are kept for later ones
    with suppress(OutOfWorkError):  # then each of the others has none
        for kernels, thetas in wanted.items():
            left = [theta for theta in thetas if (kernels, theta) not in known]
            for i in range(0, len(left), TOGETHER):
                missing = [t for t in left[i : i + TOGETHER] if (kernels, t) not in _first]
                if missing and len(kernels) == 1:
                    _bind(kernels, missing)
                for theta in left[i : i + TOGETHER]:
                    with suppress(NumericError, UnsupportedError, DeclarationError):
                        _privacy_loss(kernels, theta)
    keys = [key for key in turned if key in known and (*key, True) not in known]
    keys = [key for key in keys if known[key].source is not None]
    with suppress(NumericError, OutOfWorkError):
        known.update({(*key, True): known[key].reversed() for key in keys})


def unsupported_on_composition(name: str) -> UnsupportedError:
    """Return the error for a transformation that needs a single mechanism."""
    return UnsupportedError(
        f"{name}: acts on a mechanism or an event, not on a composition; apply it to each part"
    )


def forget_losses() -> None:
    """Drop all cached privacy losses; the next query builds its own."""
    with _forgetting:
        _first.clear()
