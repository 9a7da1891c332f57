"""Which noise should be added? Mechanisms at one guarantee, compared by the errors they make.

In: a target (epsilon, delta) for `count` releases, perhaps on samples, and mechanisms declared as
additive noise. Out: each with the least noise whose *proven* upper bound of delta meets the target,
ranked by an error of its noise; or the shape parameters for which that error is least.

The noise of most mechanisms can be stretched: a list of parameters (found from the density) scales
with the outputs, and how far is solved for. Of other noise, as on a lattice, it is the parameter
that moves the variance most.
"""

from __future__ import annotations

import html
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mechc.accountants.bound import Bound, Recorded, as_table
from mechc.adjacency import joined, weakest
from mechc.composition import inputs
from mechc.composition.events import Composition, Event
from mechc.composition.inputs import as_count, positive, share
from mechc.composition.mechanism import Mechanism, available, load
from mechc.composition.operations import poisson
from mechc.composition.queries.calibration import Profile, attainable, least_noisy
from mechc.composition.queries.noise import Noise
from mechc.errors import (
    DeclarationError,
    MechcError,
    NumericError,
    UnsupportedError,
    as_named,
    check_one_of,
    listed,
    public,
)
from mechc.hints import VALUES, suggestion
from mechc.numeric.roots import lowest
from mechc.numeric.telling import telling
from mechc.protocol import Measure, ParameterInfo

if TYPE_CHECKING:
    import os

ERRORS: dict[str, Callable[[Noise], float]] = {
    "standard_deviation": lambda noise: noise.standard_deviation().value,
    "absolute_error": lambda noise: noise.absolute_error().value,
    "entropy": lambda noise: noise.entropy().value,
    "quantile_95": lambda noise: noise.error_quantile(0.95).value,
    "quantile_999": lambda noise: noise.error_quantile(0.999).value,
}
"""The errors of a tournament, each a function of `Noise`; "variance" is a word for the first."""
STRETCH = ParameterInfo("stretch", 0.0, math.inf, True, True, False, None, (0.5, 8.0))
"""What is solved for: noise against that at the usual parameters, by the distance of the query."""
POWERS = (1, 0, -1, 2)  # of the stretch, that a parameter may scale with
PLACES = np.array([0.137, 0.61, 1.9, -0.77, -2.3])  # where densities are compared
WORK = 1e8  # that each question may take, see `Queries`: a tenth of the usual
BESIDE = 1.25  # factor between values of neighbouring shapes
FAR_BELOW = 0.1  # share of the target below which a value is not the least


@dataclass(frozen=True)
class Entrant(Recorded):
    """One mechanism at the guarantee.

    Attributes:
        name: of the mechanism, with what was bound where several have one name.
        event: one release with its parameters; None if there is none.
        errors: by the names of `ERRORS`.
        bound: proven bounds on delta of all releases; None without an event.
        seconds: how long it took.
        why: why there is no event.
    """

    name: str
    event: Event | None
    errors: Mapping[str, float]
    bound: Bound | None
    seconds: float
    why: str = ""

    def record(self) -> dict[str, Any]:
        """Return it in plain numbers and words."""
        return {
            "mechanism": self.name,
            "parameters": {} if self.event is None else self.event.parameters, **self.errors,
            "bound": None if self.bound is None else self.bound.record(), "seconds": self.seconds,
            "why": self.why,
        }  # fmt: skip


@dataclass(frozen=True, repr=False)
class Tournament(Recorded):
    """Mechanisms at one guarantee, the best first; those without an answer last.

    Attributes:
        entrants: one for each mechanism.
        epsilon: the target.
        delta: the target.
        count: how many releases meet it together.
        sampling: Poisson rate of each; None for all records.
        rank: the error they are ranked by.
    """

    entrants: tuple[Entrant, ...]
    epsilon: float
    delta: float
    count: int
    sampling: float | None
    rank: str

    @property
    def best(self) -> Entrant:
        """The first."""
        return self.entrants[0]

    def __iter__(self) -> Iterator[Entrant]:
        """Iterate over the entrants, the best first."""
        return iter(self.entrants)

    def __getitem__(self, name: str) -> Entrant:
        """Return the entrant of a name, of several the best."""
        known = {entrant.name: entrant for entrant in reversed(self.entrants)}
        check_one_of("name", name, known, "tournament")
        return known[name]

    @property
    def title(self) -> str:
        """The guarantee in words."""
        releases = "one release" if self.count == 1 else f"{self.count:,} releases together"
        rate = self.sampling
        sampled = "" if rate is None else f", each on a Poisson sample at {rate:g}"
        return f"epsilon {self.epsilon:g}, delta {self.delta:g} for {releases}{sampled}"

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table as text: mechanism, parameters, the errors."""
        return [
            (e.name, e.why, *("-" for _ in ERRORS)) if e.event is None else
            (e.name, ", ".join(f"{k}={inputs.shown(v)}" for k, v in e.event.parameters.items()),
             *(f"{e.errors[word]:.5g}" for word in ERRORS))
            for e in self.entrants
        ]  # fmt: skip

    def __str__(self) -> str:
        """The mechanisms and their errors, one a line; the best, and why some have no answer."""
        shown = [("mechanism", *ERRORS), *((row[0], *row[2:]) for row in self.rows())]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = (
            "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in
                      enumerate(zip(row, widths, strict=True))).rstrip()
            for row in shown
        )  # fmt: skip
        found = [f"best: {self.best.event}"] if self.best.event else []
        found += [self.whole] if self.whole else []
        whys = ((e.name, e.why) for e in self.entrants if e.why)
        refused = (why if name in why else f"{name}: {why}" for name, why in whys)
        return "\n".join([self.title, *lines, *found, *refused])

    @property
    def whole(self) -> str:
        """Which noise is of no use to a query that is not an integer, "" where all is alike."""
        lattice = {e.name: e.event.noise.lattice for e in self.entrants if e.event is not None}
        names = ", ".join(name for name, known in lattice.items() if known)
        return f"for integers alone: {names}" if len({*lattice.values()}) == 2 else ""

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Show the table in notebooks."""
        table = as_table(self.rows(), ("mechanism", "parameters", *ERRORS))
        return f"<b>{self.title}</b>{table}{self.whole}"

    def record(self) -> dict[str, Any]:
        """Return all of it in plain numbers and words."""
        words = {k: v for k, v in vars(self).items() if k != "entrants"}
        claims = [(e.name, e.bound.claim) for e in self.entrants if e.bound and e.bound.claim]
        claim: dict[str, Any]
        try:
            claim = weakest(tuple(claims), joined(claims, "tournament")).record()
        except DeclarationError:  # of several relations: every entrant has its own
            claim = {"adjacency": None}
        return {**words, "claim": claim, "adjacency": claim["adjacency"],
                "entrants": [entrant.record() for entrant in self.entrants]}  # fmt: skip

    def plot(self, path: str | os.PathLike[str] | None = None, **how: Any) -> Any:
        """Draw the errors of all that have an answer, as `plot` of a run does; `ax=` for where."""
        from mechc.report import plot

        shown = [e for e in self.entrants if e.event is not None]
        path = None if path is None else inputs.as_path(path)
        return plot.bars(
            {e.name: [e.errors[word] for word in ("standard_deviation", "absolute_error",
                                                   "quantile_95", "quantile_999")] for e in shown},
            ("standard deviation", "mean absolute error", "95 % of errors", "99.9 % of errors"),
            path, title=self.title, xlabel="error, in units of the query", **how,
        )  # fmt: skip


@public
def tournament(
    *,
    target: tuple[float, float],
    count: int = 1,
    sampling: float | None = None,
    mechanisms: Iterable[Any] | None = None,
    sensitivity: float = 1.0,
    rank: str = "standard_deviation",
    progress: Callable[[str], None] | None = None,
) -> Tournament:
    """Return mechanisms with the least noise that meets a target, ranked by the errors they make.

    Shape parameters are at their defaults or in the middle of their typical ranges; `optimise`
    finds better ones, and `mechanisms` takes partly bound mechanisms such as
    mechc.load("subbotin").bind(beta=1.4).

    Args:
        target: (epsilon, delta) for all releases together.
        count: number of releases.
        sampling: every release is on a Poisson sample at this rate.
        mechanisms: names, paths, declarations or mechanisms; by default every mechanism that can
            be named (files in MECHC_PATH among them) and is declared as additive noise.
        sensitivity: how far the query moves, > 0; on a lattice an integer. Where a mechanism has
            it bound, the same.
        rank: one of `ERRORS`.
        progress: called with the name of each mechanism as it begins; by default a line says so.

    Raises:
        DeclarationError: an argument is not acceptable.
    """
    setting = Setting.of("tournament", target, count, sampling, sensitivity)
    check_one_of("rank", rank, ERRORS, "tournament")
    if not (progress is None or callable(progress)):
        raise DeclarationError(f"tournament: progress={progress!r} (expected a function)")
    given = available() if mechanisms is None else mechanisms
    known = [_known(what) for what in listed("tournament: mechanisms", given, "a list of them")]
    names, entrants = Counter(mechanism.name for mechanism in known), []
    with telling("tournament", progress) as tell:
        for mechanism in known:
            if mechanisms is None and not _is_additive(mechanism):
                continue
            name = mechanism.name
            if names[name] > 1 and mechanism.bound:
                name += (
                    f"({', '.join(f'{k}={inputs.shown(v)}' for k, v in mechanism.bound.items())})"
                )
            tell(name)
            entrants.append(_enter(name, mechanism, setting))
    entrants.sort(key=lambda e: (e.event is None, e.errors.get(rank, math.inf)))
    if not entrants:
        raise DeclarationError("tournament: mechanisms=[] (expected at least one)")
    return Tournament(
        tuple(entrants), setting.epsilon, setting.delta, setting.count, sampling, rank
    )


@dataclass(frozen=True, repr=False)
class Optimum(Recorded):
    """Shape parameters for which an error is least, at a guarantee.

    Attributes:
        values: the shape parameters.
        error: the error there.
        event: one release with all its parameters.
        bound: proven bounds on delta of all releases.
        tried: how many shapes were tried.
        minimised: what the error is: "variance", a name of `ERRORS`, or "error" of a function.
    """

    values: Mapping[str, float]
    error: float
    event: Event
    bound: Bound
    tried: int
    minimised: str = "error"

    def __str__(self) -> str:
        """One line: the values, the error, the release."""
        values = ", ".join(f"{name}={value:.6g}" for name, value in self.values.items())
        word = self.minimised.replace("_", " ")
        return f"{values}: {word} {self.error:.6g} with {self.event}, {self.bound}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Show the line in notebooks."""
        return html.escape(str(self))

    def record(self) -> dict[str, Any]:
        """Return it in plain numbers and words."""
        bound = self.bound.record()
        return {**self.values, "error": self.error, "minimised": self.minimised,
                "parameters": self.event.parameters,
                "mechanism": self.event.mechanism.name, "tried": self.tried, "bound": bound,
                "claim": bound["claim"], "adjacency": bound["adjacency"]}  # fmt: skip


@public
def optimise(
    mechanism: Any,
    *,
    over: Mapping[str, tuple[float, float]],
    minimise: str | Callable[[Event], float] = "variance",
    target: tuple[float, float],
    count: int = 1,
    sampling: float | None = None,
    sensitivity: float = 1.0,
    parameters: Mapping[str, float] | None = None,
    tolerance: float = 1e-3,
) -> Optimum:
    """Return the shape parameters that minimise an error of additive noise at a guarantee.

    At each shape the noise is the least whose proven upper bound of delta meets the target, sought
    from that of the nearest shape that was tried. One parameter is found by Brent's method, several
    by that of Nelder and Mead, started at the middle: a local minimum. That the event
    returned meets the target needs no such assumption.

    Args:
        mechanism: a mechanism, or what `mechc.load` takes.
        over: shape parameters and the ranges in which to look, such as {"beta": (1, 4)}; of integer
            parameters only integers are tried.
        minimise: "variance", one of `tournament.ERRORS`, or a function of the event of one release.
        target: (epsilon, delta) for all releases together.
        count: number of releases.
        sampling: every release is on a Poisson sample at this rate.
        sensitivity: how far the query moves.
        parameters: other shape parameters; defaults or the middles of typical ranges otherwise.
        tolerance: relative tolerance of the values.

    Raises:
        DeclarationError: an argument is not acceptable.
        UnsupportedError: no shape in the range meets the target.
    """
    setting = Setting.of("optimise", target, count, sampling, sensitivity)
    tolerance = positive("optimise", "tolerance", tolerance)
    error = _error(minimise)
    given = as_named("parameters", parameters)
    kept = load(mechanism)
    kept.check({**kept.bound, **given}, None)
    names, ranges = zip(*_ranges(kept, given, over).items(), strict=True)
    kept = kept.bind(**given) if given else kept  # which compiles it
    found: dict[tuple[float, ...], Least] = {}
    tried: dict[tuple[float, ...], float] = {}
    integers = {info.name for info in kept.parameters if info.integer}
    whole = [i for i, name in enumerate(names) if name in integers]
    why = ", the error is no number or infinite"

    def apart(shape: tuple[float, ...], other: tuple[float, ...]) -> float:
        away = zip(shape, other, ranges, strict=True)
        return math.fsum(abs(s - o) / (b - a) for s, o, (a, b) in away)

    def at(place: Any) -> float:
        nonlocal why
        given = enumerate(np.ravel(place).tolist())
        shape = tuple(float(round(v)) if i in whole else v for i, v in given)
        if shape not in tried:
            bound_to = kept.bind(**dict(zip(names, shape, strict=True)))
            nearest = min(found, key=partial(apart, shape), default=None)
            try:
                found[shape] = setting.about(bound_to, found[nearest].value if nearest else None)
                size = error(found[shape].event)
                tried[shape] = size if math.isfinite(size) else math.inf
            except (UnsupportedError, NumericError) as refusal:
                why, tried[shape] = f": {refusal}", math.inf
        return tried[shape]

    if len(names) == 1:
        (lo, hi), xtol = ranges[0], tolerance * (ranges[0][1] - ranges[0][0])
        xtol = max(xtol, 1.0) if whole else xtol
        while hi - lo > xtol and math.isinf(at(0.5 * (lo + hi))):  # towards shapes with an answer
            known = math.isfinite(at(lo)), math.isfinite(at(hi))
            if known[0] == known[1]:
                break
            lo, hi = (lo, 0.5 * (lo + hi)) if known[0] else (0.5 * (lo + hi), hi)
        places = np.linspace(lo, hi, 5).tolist()
        step, here = min(xtol, 0.1 * (hi - lo)), 2
        while 0 < here < 4:  # downhill, as shapes at the ends may take longest
            beside = min(here - 1, here + 1, key=lambda i: at(places[i]))
            if not at(places[beside]) < at(places[here]):
                break
            here = beside
        if here in (0, 4):  # of the last quarter the end and what is next to it are known
            places[here : here + 1] = [lo, lo + step] if here == 0 else [hi - step, hi]
            here = 1 if here == 0 else 4
        inside = places[here]
        if math.isinf(at(inside)):
            lowest(at, lo, hi, xtol=xtol)
        elif at(inside) <= min(at(places[here - 1]), at(places[here + 1])):
            lowest(at, places[here - 1], places[here + 1], xtol=xtol, inside=inside)
    else:
        from scipy.optimize import minimize

        start = [0.5 * (lo + hi) for lo, hi in ranges]
        how = {"xatol": tolerance, "fatol": tolerance**2}
        minimize(at, start, method="Nelder-Mead", bounds=ranges, options=how)
    if whole:  # the error is level between integers, where searches for numbers end
        _stepped(at, min(tried, key=lambda values: tried[values]), ranges, whole)
    word = minimise if isinstance(minimise, str) else "error"
    for shape in sorted(tried, key=lambda values: tried[values]):
        if math.isinf(tried[shape]):
            break
        values, event = dict(zip(names, shape, strict=True)), found[shape].event
        try:
            return Optimum(values, tried[shape], event, setting.met(found[shape]), len(tried), word)
        except UnsupportedError as refusal:
            why = f": {refusal}"
    raise UnsupportedError(f"optimise: no shape of {kept.name} has an answer{why}")


def _stepped(
    at: Callable[[tuple[float, ...]], float], shape: tuple[float, ...],
    ranges: Sequence[tuple[float, float]], whole: Sequence[int],
) -> None:  # fmt: skip
    """Move integers by steps, halved down to one, for as long as the error falls."""
    step = max(max(ranges[i][1] - ranges[i][0] for i in whole) // 4, 1) if len(ranges) > 1 else 1
    while step >= 1:
        beside = [
            (*shape[:i], float(np.clip(shape[i] + move, *ranges[i])), *shape[i + 1 :])
            for i in whole
            for move in (-step, step)
        ]
        better = min(beside, key=at)
        if at(better) < at(shape):
            shape = better
        else:
            step //= 2


class Least(NamedTuple):
    """The least noise that a search has found.

    Attributes:
        value: what was solved for.
        event: one release.
        excess: log delta of all releases by the search, above the target.
        work: that each of its questions could take.
    """

    value: float
    event: Event
    excess: float
    work: float


@dataclass(frozen=True)
class Setting:
    """What all mechanisms have to meet."""

    epsilon: float
    delta: float
    count: int
    sampling: float | None
    sensitivity: float

    @classmethod
    def of(cls, owner: str, target: Any, count: Any, sampling: Any, sensitivity: Any) -> Setting:
        """Check the words."""
        if not isinstance(target, Sequence) or len(target) != 2:
            raise DeclarationError(f"{owner}: target={target!r} (expected (epsilon, delta))")
        epsilon, _ = attainable(owner, *target)
        number = as_count(count)
        rate = None if sampling is None else share(owner, "sampling", sampling)
        if not number:
            raise DeclarationError(f"{owner}: count=0 (expected at least one release)")
        distance = positive(owner, "sensitivity", sensitivity)
        return cls(epsilon, float(target[1]), number, rate, distance)

    def least_noise(self, mechanism: Mechanism) -> tuple[Event, Bound]:
        """Return one release with the least noise for the target, and delta of all releases."""
        for least in self._searches(mechanism):
            bound = self.met(least)
            if float(bound.upper) >= FAR_BELOW * self.delta:  # else less noise had no answer
                break
        return least.event, bound

    def about(self, mechanism: Mechanism, near: float | None) -> Least:
        """Return the same before it is asked whether it is `met`, sought from a value near by."""
        for least in self._searches(mechanism, near):
            if least.excess >= math.log(FAR_BELOW):
                break
        return least

    def met(self, least: Least) -> Bound:
        """Return delta of all releases, refused if it is above the target."""
        bound = self._all(least.event).delta(self.epsilon, max_work=least.work)
        if float(bound.upper) > self.delta:
            name = least.event.mechanism.name
            raise UnsupportedError(f"{name}: the target is not met at the noise found")
        return bound

    def _searches(self, mechanism: Mechanism, near: float | None = None) -> Iterator[Least]:
        """What is found with some work for each question, and with more."""
        info, release = self._family(mechanism)
        far = near is None or info is not STRETCH
        if near is not None and not far:
            info = info._replace(typical=(near / BESIDE, near * BESIDE))
        target = attainable(mechanism.name, self.epsilon, self.delta)
        for work in (WORK, 2.0 * WORK):
            how = {"method": "auto", "direction": "both", "max_work": work}
            profile = Profile(lambda value: self._all(release(value)), how, *target)
            profile.far = far
            value = least_noisy(profile, info, mechanism.name)
            yield Least(value, release(value), profile.excess(value), work)

    def _all(self, event: Event) -> Composition:
        """All releases."""
        return (event if self.sampling is None else poisson(event, self.sampling)) * self.count

    def _family(self, mechanism: Mechanism) -> tuple[ParameterInfo, Callable[[float], Event]]:
        """What is solved for, a stretch or a parameter, and the release at a value of it."""
        moved = mechanism.moved_by
        if moved is None:
            raise UnsupportedError(
                f"{mechanism.name} is not declared as noise added to a query (expected a mechanism "
                "made by mechc.declare.additive)"
            )
        if not moved:
            raise UnsupportedError(f"{mechanism.name}: its sensitivity is no parameter of its own")
        given = {moved: self.sensitivity, **mechanism.bound}
        if given[moved] != self.sensitivity:
            raise DeclarationError(
                f"{mechanism.name}: {moved}={given[moved]:g} is bound, where the query moves by "
                f"sensitivity={self.sensitivity:g} (expected it open, or the same)"
            )
        start = {info.name: given.get(info.name, info.usual) for info in mechanism.parameters}
        free = [info for info in mechanism.parameters if info.name not in given]
        whole = Mechanism(mechanism.origin, mechanism.transforms)
        powers = _stretch(whole, start, [info.name for info in free])
        if powers is not None:
            reach = self.sensitivity
            return STRETCH, lambda factor: whole(**_stretched(start, powers, factor * reach))
        if not free:
            raise UnsupportedError(
                f"{mechanism.name}: no parameter is left to solve for (expected one open, such as "
                "the scale of the noise)"
            )

        def spread(info: ParameterInfo) -> float:
            ends = (whole(**{**start, info.name: v}).noise.variance().value for v in info.typical)
            lo, hi = ends
            return abs(math.log(hi / lo)) if 0.0 < lo < math.inf and hi > 0.0 else -1.0

        info = max(free, key=spread)
        return info, lambda value: whole(**{**start, info.name: value})


def _known(what: Any) -> Mechanism:
    try:
        return load(what)
    except DeclarationError as error:
        raise DeclarationError(f"tournament: mechanisms: {error}") from error


def _is_additive(mechanism: Mechanism) -> bool:
    try:
        return mechanism.moved_by is not None
    except MechcError:
        return False


def _enter(name: str, mechanism: Mechanism, setting: Setting) -> Entrant:
    start = time.perf_counter()
    try:
        event, bound = setting.least_noise(mechanism)
        noise = event.noise
        errors = {word: error(noise) for word, error in ERRORS.items()}
    except MechcError as why:
        return Entrant(name, None, {}, None, time.perf_counter() - start, str(why))
    return Entrant(name, event, errors, bound, time.perf_counter() - start)


def _stretched(
    start: Mapping[str, float], powers: Mapping[str, int], factor: float
) -> dict[str, float]:
    """Parameters of outputs that are so many times as wide."""
    return {name: value * factor ** powers.get(name, 0) for name, value in start.items()}


def _stretch(
    whole: Mechanism, start: Mapping[str, float], free: Sequence[str]
) -> dict[str, int] | None:
    """Powers of a stretch of the outputs that open parameters scale with, None without any."""
    # Density q is a scale family in them if c q(c x) at the stretched parameters is q(x), here seen
    # to be so at several points for two stretches.
    if whole.kernel.MEASURE != Measure.DENSITY:
        return None
    noise = whole(**start).noise
    x = PLACES * noise.extent
    wanted = noise.density(x)

    def agrees(powers: Mapping[str, int], c: float) -> bool:
        try:
            found = c * whole(**_stretched(start, powers, c)).noise.density(c * x)
        except MechcError:
            return False
        return bool(np.allclose(found, wanted, rtol=1e-9, atol=0.0))

    candidates = itertools.product(POWERS, repeat=len(free))
    for tried in sorted(candidates, key=lambda p: sum(map(abs, p))):
        powers = dict(zip(free, tried, strict=True))
        if any(tried) and agrees(powers, 1.375) and agrees(powers, 0.8125):
            return powers
    return None


def _error(minimise: str | Callable[[Event], float]) -> Callable[[Event], float]:
    if callable(minimise):
        return partial(_asked, minimise)
    if not isinstance(minimise, str) or minimise not in ("variance", *ERRORS):
        hint = suggestion(str(minimise), ERRORS, VALUES)
        raise DeclarationError(
            f"optimise: minimise={minimise!r} is not known{hint} (expected variance, "
            f"{', '.join(ERRORS)}, or a function of an event)"
        )
    word, power = ("standard_deviation", 2) if minimise == "variance" else (minimise, 1)
    return lambda event: ERRORS[word](event.noise) ** power


def _asked(minimise: Callable[[Event], float], event: Event) -> float:
    """The error that a function of the user finds, which has to be a number."""
    found = minimise(event)
    try:
        return float(found)
    except (TypeError, ValueError, OverflowError):
        raise DeclarationError(
            f"optimise: minimise of {event} is {found!r} (expected a number)"
        ) from None


def _ranges(
    mechanism: Mechanism, given: Mapping[str, float], over: Any
) -> dict[str, tuple[float, float]]:
    """The ranges to look in, each from a lower to an upper end, inside its domain."""
    if not isinstance(over, Mapping) or not over:
        raise DeclarationError(f"optimise: over={over!r} (expected such as {{'beta': (1, 4)}})")
    found = {}
    for name, ends in over.items():
        pair = inputs.as_array(f"optimise: over {name}", ends)
        if pair.shape != (2,) or not pair[0] < pair[1]:
            raise DeclarationError(f"optimise: over {name}: {ends!r} (expected (lower, upper))")
        taken = {*mechanism.bound, *given}
        free = {p.name: p for p in mechanism.declared if p.name not in taken}
        if name not in free:
            raise DeclarationError(
                f"{mechanism.name}: over={name!r} is not open{suggestion(str(name), free)} (open: "
                f"{', '.join(free)})"
            )
        lo, hi = (inputs.check(mechanism.name, free[name], end) for end in ends)
        found[name] = lo, hi
    return found
