"""Find the parameter value, or the count, that just meets a privacy target.

In: a mechanism, the parameter to solve for, the other parameters, a target (epsilon, delta).
Out: a value whose proven *upper* bound on delta(epsilon) is at most delta. Least noise is found up
to a relative tolerance and assuming that delta is monotone in the parameter; that the value meets
the target needs no such assumption, it is evaluated.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any

from mechc.accountants.bound import Bound, Quantity, Recorded
from mechc.accountants.classical.clt import log_gaussian_delta
from mechc.composition.events import Composition, Event
from mechc.composition.inputs import (
    MAX_COUNT,
    Setting,
    as_delta,
    as_epsilon,
    as_work,
    asked,
    from_log,
    share,
)
from mechc.composition.mechanism import Mechanism, load
from mechc.composition.queries.divergences import true_positive
from mechc.composition.training import WORDS, dpsgd, solvable
from mechc.errors import (
    LONGEST_NAME,
    DeclarationError,
    UnsupportedError,
    as_named,
    check_text,
    public,
)
from mechc.hints import ARGUMENTS, TRAINING, meaning, suggestion
from mechc.numeric.allowance import MAX_WORK, limited
from mechc.numeric.logs import HALF_LOG_TWO_PI, log1mexp
from mechc.numeric.roots import root
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import ParameterInfo

if TYPE_CHECKING:
    from mechc.composition.queries.evaluation import Evaluation


TOLERANCE = 1e-9  # of a parameter, relative
MAX_TURNS = 200  # of a bracket or a search
DEEP = 4.0, 30.0  # times the log of the target, and nats below that
NEAR_STEP = 0.3  # log of a factor by which no guess gets that deep
SHORT_STEP = 1e-6  # the same, after which a guess is likely to be the last one
DEEPEST = 1e6  # nats below the target that count as no more than this
GUESSES = 16  # values that secants try, from the middle of the typical range
LARGEST_STEP = math.log(30.0)  # log of the largest factor from one to the next
MAX_NEWTON = 50  # steps to the Gaussian of a point
STEEPEST = 50.0  # power of the parameter beyond which a secant is not believed
FARTHEST_VALUE = 1e12  # of parameters without an end, farther than which nothing is tried
LARGEST_EPSILON = 1e10  # of a target: rounding of such losses is more than 1e-6
PLATEAU = 10, 3  # times in a row, of ranges and of guesses, that delta stays, beyond which it will
FLAT = 1e-3  # share of the way to the target by which it may change
JUMP = 1e-5  # nats below the target at which a least value is not at the target
SURE = 1e-9  # nats by which delta has to fall to be proved not monotone


@dataclass(frozen=True)
class Calibration(Recorded):
    """A parameter value and the bounds on delta it leads to; unpacks into these two.

    `float(found)` and formats such as `f"{found:.3f}"`, rounded to nearest, are of the value.

    Attributes:
        value: value of the parameter, or the count.
        bound: bounds on delta(epsilon), or on the true positive rate that was asked for, at that
            value; `upper` is at most the target.
        count: number of steps.
        name: of the parameter.
    """

    value: float
    bound: Bound
    count: int

    name: str = ""

    def __iter__(self) -> Iterator[Any]:
        """Unpack into value and bound."""
        return iter((self.value, self.bound))

    def __str__(self) -> str:
        """One line: the value with all its digits, and what it leads to."""
        return f"{self.name or 'value'} = {self.value!r}: {self.bound}"

    def __float__(self) -> float:
        """Return the value."""
        return float(self.value)

    def __format__(self, spec: str) -> str:
        """Format the value; without a format, the line."""
        return format(self.value, spec) if spec else str(self)

    def record(self) -> dict[str, Any]:
        """Return the value, the count and the bound in plain numbers and words."""
        bound = self.bound.record()  # which has no parameter's name in it
        name = "value" if self.name in {"", *bound} else self.name
        return {name: self.value, "count": self.count, **bound}

    def _repr_html_(self) -> str:
        """Show the value, and what it leads to, in notebooks."""
        line = html.escape(f"{self.name or 'value'} = {self.value!r}")
        return f"<b>{line}</b><br>{self.bound._repr_html_()}"


@public
def calibrate(
    mechanism: Mechanism | str | PathLike[str] | Callable[..., Composition],
    *,
    solve_for: str,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    count: int = 1,
    beside: Event | Composition | None = None,
    method: str = "auto",
    direction: str = "both",
    max_work: float = MAX_WORK,
    parameters: Mapping[str, Any] | None = None,
    **fixed: Any,
) -> Calibration:
    """Return the least noisy value of one parameter that meets a target.

    The target is (epsilon, delta), or an advantage, or a true positive rate at a false positive
    rate, for all that is composed: the mechanism and what is beside it.

    Args:
        mechanism: the mechanism, possibly sampled, or what `mechc.load` takes for it; or
            `mechc.dpsgd`, whose words are then the parameters.
        solve_for: name of a parameter, or "count" for the largest number of steps; of `dpsgd`
            "noise_multiplier", or the largest whole "batch_size", "epochs" or "steps".
        epsilon: target epsilon.
        delta: target delta in [0, 1]; 0 asks for pure differential privacy.
        advantage: largest advantage of a membership test, in (0, 1]: delta at epsilon 0.
        tpr: largest true positive rate ...
        fpr: ... at this false positive rate.
        count: number of steps.
        beside: an event or a composition that is released as well, whatever the value.
        method: an accountant with a proven upper side.
        direction: "both", "remove" or "add".
        max_work: work that each value tried may take, see `Queries`.
        parameters: the other parameters; defaults fill the rest.
        **fixed: the same as keywords, where their names are not taken.

    Raises:
        DeclarationError: an argument is not acceptable.
        UnsupportedError: no value in the domain meets the target, every value does, or the method
            proves no upper bound.
    """
    training = mechanism is dpsgd
    if isinstance(mechanism, (str, PathLike)):
        mechanism = load(mechanism)
    if not isinstance(mechanism, Mechanism) and not training:
        raise DeclarationError(
            f"calibrate: {mechanism!r} is not a mechanism (expected mechc.load(name), not yet "
            "called with its parameters, or mechc.dpsgd)"
        )
    check_text("solve_for", solve_for, LONGEST_NAME)
    others = {**as_named("parameters", parameters), **fixed}
    own, words = frozenset(WORDS), TRAINING
    if isinstance(mechanism, Mechanism):
        own, words = frozenset(p.name for p in mechanism.parameters), ARGUMENTS
    known = own | signature(calibrate).parameters.keys()
    for word in sorted(fixed.keys() - own):
        if meant := meaning(word, known, words):
            raise DeclarationError(f"{word}={fixed[word]!r} is not known; did you mean {meant}?")
    counting = isinstance(mechanism, Mechanism) and solve_for == "count"
    taken = count if counting and count != 1 else others.get(solve_for)
    if taken is not None:
        raise DeclarationError(
            f"calibrate: {solve_for}={taken!r} is given and solved for (expected one of the two)"
        )
    if beside is not None and not isinstance(beside, (Event, Composition)):
        raise DeclarationError(f"beside={beside!r} (expected an event or a composition)")

    def run(value: float) -> Composition:
        if counting:
            made = mechanism(**others) * int(value)
        else:
            made = mechanism(**{**others, solve_for: value}) * count
        return made if beside is None else made + beside

    how = {"method": method, "direction": direction, "max_work": as_work(max_work)}
    profile = _target(run, epsilon, delta, advantage, tpr, fpr, how)
    if isinstance(mechanism, Mechanism):
        name, info = mechanism.name, _parameter(mechanism, solve_for)
    else:
        name, info = "dpsgd", solvable(solve_for, others)
    if beside is not None and (alone := profile.ask(beside)).lower > math.exp(profile.log_target):
        raise UnsupportedError(f"{name}: no {solve_for} meets the target: beside alone has {alone}")
    value = least_noisy(profile, info, name)
    bound = profile.told(value)
    bound.detail.update(profile.unresolved(info.name, value))
    return Calibration(value, bound, int(value) if counting else count, solve_for)


def least_noisy(profile: Profile, info: ParameterInfo, owner: str) -> float:
    """Return the least noisy value of a parameter that meets the target, sought near `typical`."""
    ends = None if info.integer else _by_secants(profile, info)
    if ends is None:
        ends = straddle(profile, info, owner)
        value = _between(profile, *ends) if info.integer else _settle(profile.excess, *ends)
    else:
        value = ends[0]
    if words := profile.turn(info.name, *ends):
        raise UnsupportedError(f"{owner}: {words}")
    return int(value) if info.integer else value


def _target(
    run: Callable[[float], Composition], epsilon: float | None, delta: float | None,
    advantage: float | None, tpr: float | None, fpr: float | None, how: dict[str, Any],
) -> Profile:  # fmt: skip
    """What is to be met: one of the three kinds of targets, checked."""
    kinds = ((epsilon, delta), (advantage,), (tpr, fpr))
    given = [kind for kind in kinds if any(value is not None for value in kind)]
    if len(given) > 1:
        raise DeclarationError(
            "calibrate: give one target, epsilon= with delta=, or advantage=, or tpr= with fpr="
        )
    if tpr is not None and fpr is not None:
        low, high = share("calibrate", "fpr", fpr), share("calibrate", "tpr", tpr)
        if not 0.0 < low < high:
            raise UnsupportedError(
                f"calibrate: no mechanism meets tpr={high:g} at fpr={low:g}, as guessing has the "
                "power fpr (expected 0 < fpr < tpr)"
            )
        return Power(run, how, math.log(high / low), math.log(high), fpr=low)
    if advantage is not None:
        epsilon, delta = 0.0, share("calibrate", "advantage", advantage)
    if epsilon is None or delta is None:
        raise DeclarationError(
            "calibrate: give a target, epsilon= with delta=, or advantage=, or tpr= with fpr="
        )
    quantity = Quantity.DELTA if advantage is None else Quantity.ADVANTAGE
    return Profile(run, how, *attainable("calibrate", epsilon, delta), quantity)


def attainable(owner: str, epsilon: Any, delta: Any) -> tuple[float, float]:
    """Return a target as epsilon and log delta, refused where no mechanism meets it."""
    log_target, at = as_delta(delta), as_epsilon(epsilon)
    if log_target < log1mexp(at):
        raise UnsupportedError(
            f"{owner}: no mechanism meets epsilon={at:g} and delta={math.exp(log_target):g}, as "
            "delta(epsilon) >= 1 - exp(epsilon)"
        )
    if at > LARGEST_EPSILON:
        raise UnsupportedError(
            f"{owner}: epsilon={at:g} is no target (expected one up to {LARGEST_EPSILON:g}, as "
            "rounding of larger losses shows in delta)"
        )
    return at, log_target


@dataclass
class Profile:
    """Bounds on log delta as a function of the parameter, less the target; remembered.

    Attributes:
        run: the composition at a value.
        how: the words of the question.
        epsilon: where delta is asked.
        log_target: log of the largest value allowed.
        quantity: what it is called.
        known: bounds by value, as they were found.
        far: whether the next value may be so far below the target that a bound is enough.
        worse: the direction in which delta was larger the last time.
    """

    run: Callable[[float], Composition]
    how: dict[str, Any]
    epsilon: float
    log_target: float
    quantity: Quantity = Quantity.DELTA

    def __post_init__(self) -> None:
        """Know nothing yet."""
        self.far, self.worse = True, ""
        self.known: dict[float, tuple[float, float]] = {}
        self._last: tuple[float, Composition] | None = None
        self._answer: tuple[float, Bound] | None = None

    def ask(self, run: Event | Composition) -> Bound:
        """Return the bounds that users are told."""
        return replace(run.delta(self.epsilon, **self.how), quantity=self.quantity)

    def told(self, value: float) -> Bound:
        """Return what `ask` does at a value, which may have been answered on the way."""
        run = self.at(value)
        if self._answer is None or self._answer[0] != value:
            return self.ask(run)
        return from_log(self._answer[1]).stands_for(run.claim, self.quantity)

    def excess(self, value: float, only: str = "") -> float:
        """Return the proven upper bound of log delta minus the target: at most 0 is good.

        Of one direction `only`, it steers, and is not kept.
        """
        if value not in self.known:
            with asked(), limited(self.how["max_work"], self.how["method"]):
                setting = Setting.of(self.how["method"], only or self.how["direction"])
                bounds = self._bounds(self.at(value).evaluation(setting), value)
            if only:
                self._answer = None
                return bounds[1]
            self.known[value] = bounds
        return self.known[value][1]

    def _bounds(self, evaluation: Evaluation, value: float) -> tuple[float, float]:
        """By the first method of "auto" alone, which steers, unless it may be on either side."""
        if self.log_target == -math.inf:  # the largest loss has to be at most epsilon
            if evaluation.log_infinite_range()[1] > -math.inf:
                return math.inf, math.inf
            top, rounding = evaluation.largest_loss()
            return max(top - rounding, 0.0) - self.epsilon, top + rounding - self.epsilon
        # a bound is all that a search has to know of delta far below, if there is any
        if self.far and not evaluation.single:  # one step costs less than its bound
            count = max(1, *(sum(n for _, n in some) for some in evaluation.steps.values()))
            if not evaluation.single_steps_exceed(self.epsilon / count, self.log_target):
                lower, over = (
                    log - self.log_target
                    for log in evaluation.by_single_steps(self.epsilon, self.log_target)
                )
                if over <= 0.0 and over - lower < NEAR_STEP:
                    return lower, max(over, -DEEPEST)
            level = DEEP[0] * self.log_target - DEEP[1]
            inside = [d for d in evaluation.directions
                      if self.epsilon < evaluation.largest_loss_in(d)[0]]  # fmt: skip
            # delta of all is at least that of any
            if not (
                evaluation.normal_exceeds(self.epsilon, level)
                or evaluation.single_steps_exceed(self.epsilon, level + math.log(count))
            ):
                deep = [evaluation.bounded(d, self.epsilon, level, best=True) for d in inside]
                known = [bound for bound in deep if bound is not None]
                if len(known) == len(evaluation.directions):
                    return -math.inf, max(max(known) - self.log_target, -DEEPEST)
        bound = evaluation.log_delta(self.epsilon, math.nan)
        if float(bound.lower) <= self.log_target < float(bound.upper) - evaluation.rtol:
            bound = evaluation.log_delta(self.epsilon)
        if len(evaluation.directions) > 1:
            self.worse = bound.detail.get("direction", "")
        if float(bound.width) <= evaluation.rtol:  # what anybody is told
            self._answer = value, bound
        slack = 2 * EPS * (abs(self.log_target) + 4.0)
        over = max(self._checked(bound) - self.log_target + slack, -DEEPEST)
        return float(bound.lower) - self.log_target, over

    def _checked(self, bound: Bound) -> float:
        if math.isnan(float(bound.upper)):
            raise UnsupportedError(
                f"calibrate: method {self.how['method']!r} proves no upper bound"
            )
        return float(bound.upper)

    def height(self, excess: float) -> float:
        """Return a function of what `excess` is that is nearly a power of a parameter, in logs.

        The mu of Gaussian noise through the same point, over that of the target. nan: there is
        none.
        """
        if self.log_target == -math.inf:
            return math.log1p(max(excess / self.epsilon, -1.0 + EPS)) if self.epsilon else math.nan
        if excess <= -DEEPEST or self.epsilon < 0.0:
            return math.nan
        at, aim = (
            _log_mu(self.epsilon, log) for log in (self.log_target + excess, self.log_target)
        )
        return at - aim

    def at(self, value: float) -> Composition:
        """Return the composition at a value, the last one kept with what it knows."""
        if self._last is None or self._last[0] != value:
            self._last = value, self.run(value)
        return self._last[1]

    def unresolved(self, parameter: str, value: float) -> dict[str, str]:
        """Say where delta may still meet the target beyond a value found, without a proof of it."""
        # bounds may jump over the target where a method begins to fail
        if self.known.get(value, (0.0, 0.0))[1] > -JUMP:
            return {}
        bad = [v for v, (lower, upper) in self.known.items() if lower <= 0.0 < upper]
        if not bad:
            return {}
        nearest = min(bad, key=lambda v: abs(v - value))
        return {"least": f"{parameter}={nearest:.10g} may meet the target: no method settles it"}

    def turn(self, parameter: str, good: float, bad: float) -> str:
        """Say where delta is proved to fall on the way from a good value to a bad one, if it is."""
        highest, where = -math.inf, good
        for value in sorted(self.known, reverse=good > bad):
            lower, upper = self.known[value]
            if highest > upper + SURE:
                return (
                    f"delta is not monotone in {parameter}: larger at {where:g} than at "
                    f"{value:g}; fix {parameter} and solve for another parameter"
                )
            if lower > highest:
                highest, where = lower, value
        return ""


@dataclass
class Power(Profile):
    """The same of the log of the true positive rate at a false positive rate."""

    fpr: float = 0.0

    def ask(self, run: Event | Composition) -> Bound:
        """Return the bounds that users are told."""
        return run.tpr(self.fpr, **self.how)

    def _bounds(self, evaluation: Evaluation, value: float) -> tuple[float, float]:
        """Of small samples by the distance of P and Q: the rate is between fpr and fpr + that."""
        distance = math.exp(evaluation.by_single_steps(0.0)[1]) if self.far else 1.0
        room = math.log1p(distance / self.fpr)
        least = math.log(self.fpr) - self.log_target
        if least + room <= 0.0 and room < NEAR_STEP:
            return least, least + room
        bound = true_positive(evaluation, self.fpr)
        over = math.log(self._checked(bound)) - self.log_target + 8 * EPS
        return math.log(max(float(bound.lower), self.fpr)) - self.log_target, over

    def height(self, excess: float) -> float:
        """The same by the power of Gaussian noise, Phi(Phi^-1(fpr) + mu)."""
        from statistics import NormalDist  # scipy.special takes 0.15 s longer

        rates = (math.exp(self.log_target + excess), math.exp(self.log_target))
        if not (min(rates) > 0.0 and max(rates) < 1.0):
            return math.nan
        quantile = NormalDist().inv_cdf
        at, aim = (quantile(rate) - quantile(self.fpr) for rate in rates)
        return math.log(at / aim) if min(at, aim) > 0.0 else math.nan


def _log_mu(epsilon: float, log_delta: float) -> float:
    """About the log of the mu whose Gaussian profile passes through a point, nan where none does.

    Newton's method from below, as log delta is a concave function of log mu.
    """
    if not log_delta < 0.0:
        return math.nan
    deep = math.sqrt(-2.0 * log_delta)  # Chernoff's bound, and delta <= mu / sqrt(2 pi)
    least = 2.0 * epsilon / (deep + math.sqrt(deep * deep + 2.0 * epsilon))
    mu = max(least, math.exp(log_delta) * math.sqrt(2.0 * math.pi), 1e-300)
    for _ in range(MAX_NEWTON):
        at = log_gaussian_delta(mu, epsilon)
        log_slope = -0.5 * (epsilon / mu - 0.5 * mu) ** 2 - HALF_LOG_TWO_PI + math.log(mu) - at
        step = (log_delta - at) * math.exp(-min(max(log_slope, -MOST_LOG), MOST_LOG))
        mu *= math.exp(min(step, LARGEST_STEP))
        if not abs(step) > 1e-13:
            break
    return math.log(mu)


def _parameter(mechanism: Mechanism, name: str) -> ParameterInfo:
    """The parameter that is solved for, which may be the count."""
    if name == "count":
        return ParameterInfo(name, 1.0, float(MAX_COUNT), False, False, True, None, (1.0, 1024.0))
    for info in mechanism.parameters:
        if info.name == name:
            return info
    listed = [*(p.name for p in mechanism.parameters), "count"]
    hint = suggestion(name, listed)
    if not hint and "sampling_rate" in (name, *ARGUMENTS.get(name, ())):
        hint = "; did you mean mechc.poisson(mechanism), which has a sampling_rate?"
    raise DeclarationError(
        f"{mechanism.name}: solve_for={name!r} is not a parameter{hint} "
        f"(expected one of {', '.join(listed)})"
    )


def _between(profile: Profile, good: float, bad: float) -> float:
    """Best integer between a good and a bad one: secant steps in the log, and bisection."""
    for turn in range(MAX_TURNS):
        if abs(bad - good) <= 1:
            break
        middle = 0.5 * (good + bad)
        if turn % 3 and min(good, bad) > 0:
            eg, eb = profile.excess(good), profile.excess(bad)
            share = -eg / (eb - eg) if eb > eg else 0.5
            middle = math.exp(math.log(good) + share * (math.log(bad) - math.log(good)))
        low, high = sorted((good, bad))
        middle = min(max(float(round(middle)), low + 1), high - 1)
        good, bad = (middle, bad) if profile.excess(middle) <= 0 else (good, middle)
    return good


def straddle(profile: Profile, info: ParameterInfo, name: str) -> tuple[float, float]:
    """Return (good, bad): values that do and do not meet the target, grown from `typical`."""
    lo, hi = info.typical
    at_lo, at_hi = profile.excess(lo), profile.excess(hi)
    same = 0  # times that a wider range has changed nothing
    for _ in range(MAX_TURNS):
        if at_lo <= 0 < at_hi:
            return lo, hi
        if at_hi <= 0 < at_lo:
            return hi, lo
        wider = _wider(lo, hi, info)
        # with both bad the way leads past the better one, with both good past the worse one
        upward = at_hi < at_lo if at_lo > 0 else at_hi > at_lo
        either = at_lo == at_hi
        down = wider[0] != lo and (either or not upward or wider[1] == hi)
        up = wider[1] != hi and (either or upward or wider[0] == lo)
        if not (down or up) or same == PLATEAU[0]:
            break
        before = max(at_lo, at_hi)
        if down:
            lo, at_lo = wider[0], profile.excess(wider[0])
        if up:
            hi, at_hi = wider[1], profile.excess(wider[1])
        same = same + 1 if _is_plateau(before, max(at_lo, at_hi)) else 0
    words = profile.turn(info.name, *((lo, hi) if at_lo < at_hi else (hi, lo)))
    word = "every" if at_lo <= 0 else "no"
    tried = f" that was tried meets the target, and {words}" if words else " meets the target"
    end = "on" if hi >= info.hi else f"to {hi:g}"
    endless = profile.log_target == -math.inf and at_lo == math.inf == at_hi
    pure = ": delta=0 asks for a largest loss, and there is none" if endless else ""
    raise UnsupportedError(f"{name}: {word} {info.name} from {lo:g} {end}{tried}{pure}")


def _is_plateau(before: float, after: float) -> bool:
    """Whether delta, below the target, stays where it was: it will not get there at this pace."""
    return -DEEPEST < before <= 0.0 and abs(after - before) <= FLAT * abs(before)


def _wider(lo: float, hi: float, info: ParameterInfo) -> tuple[float, float]:
    """Grow a range inside the domain: factors of four, or towards finite ends."""
    new_lo, new_hi = lo, hi
    if lo > info.lo > -math.inf and lo - info.lo > 1e-12:
        new_lo = info.lo + (lo - info.lo) / 4.0
    if math.isinf(info.hi) or info.integer:
        new_hi = min(hi * 4, info.hi) if hi < FARTHEST_VALUE else hi
    elif info.hi - hi > 1e-12 * abs(info.hi):
        new_hi = hi + 0.75 * (info.hi - hi) if info.hi_open else info.hi
    return (math.floor(new_lo), math.ceil(new_hi)) if info.integer else (new_lo, new_hi)


def _by_secants(profile: Profile, info: ParameterInfo) -> tuple[float, float] | None:
    """Return (good, bad), the good one within the tolerance; None where a few guesses fail."""
    # Secants, and parabolas, through the log of the parameter as a function of the `height` of a
    # profile, which is taken to fall like one over the parameter, as of noise, to begin with, or
    # like its inverse, as of what noise is added to. Where two guesses look the same, as far from
    # the target, the next ones lie on both sides in turn. Guesses lie on the good side by a share
    # of the tolerance; one whose height says so too is taken. Brent's method where the height has a
    # cliff.
    lo, hi = info.typical
    if not 0.0 < lo < hi:
        return None
    place = 0.5 * (math.log(lo) + math.log(hi))
    run = 1.0 if info.name == "sensitivity" else -1.0
    known: list[tuple[float, float]] = []
    turns, last, before, same = 1, math.nan, math.nan, 0
    ends: dict[bool, float] = {}  # the last values that meet the target, and that do not
    step = math.inf
    for _ in range(GUESSES):
        value = math.exp(place)
        if not info.lo < value < info.hi:
            return None
        # on the way it is enough to know the direction that was worse before
        only = profile.worse if abs(step) > SHORT_STEP else ""
        height = profile.height(excess := profile.excess(value, only))
        if only and excess <= 0.0 and abs(height * run) <= TOLERANCE:
            height = profile.height(excess := profile.excess(value))
        if excess <= 0.0 and abs(height * run) <= TOLERANCE:
            return value, value * (1.0 + math.copysign(TOLERANCE, run))
        ends[excess <= 0.0] = value
        same, before = (same + 1 if _is_plateau(before, excess) else 0), excess
        if same == PLATEAU[1]:
            return None
        if not math.isfinite(height):
            if len(ends) == 2:
                break
            height, known = math.copysign(1.0, excess), []
        else:
            known = [p for p in known[-2:] if p[0] != height]  # of bounds, far below the target
            known.append((height, place))
        if height == last:
            run, turns = -run, turns + 1
        last = height
        runs = [(q[1] - p[1]) / (q[0] - p[0]) for p, q in pairwise(known)]
        if runs and 1.0 / STEEPEST < abs(runs[-1]) < STEEPEST:
            run = runs[-1]
        step = -height * run
        if len(runs) == 2:
            bend = height * known[1][0] * (runs[1] - runs[0]) / (height - known[0][0])
            step += bend if abs(bend) < 0.5 * abs(step) else 0.0
        step -= math.copysign(0.4 * TOLERANCE, run)
        profile.far = abs(step) > NEAR_STEP
        place += min(max(step, -LARGEST_STEP), LARGEST_STEP) * (1 if runs else turns)
    profile.far = len(ends) < 2 or abs(math.log(ends[True] / ends[False])) > NEAR_STEP
    if len(ends) < 2 or not profile.excess(ends[True]) <= 0.0 < profile.excess(ends[False]):
        return None
    return _settle(profile.excess, ends[True], ends[False]), ends[False]


def _settle(excess: Callable[[float], float], good: float, bad: float) -> float:
    """Return a value within the tolerance of the root, on the good side of it."""
    # Brent's method in the log of the parameter, or in the parameter where it is not positive.
    geometric = min(good, bad) > 0
    forward: Callable[[float], float] = math.log if geometric else float
    backward: Callable[[float], float] = math.exp if geometric else float
    scale = TOLERANCE * (1.0 if geometric else max(abs(good), abs(bad)))

    def at(place: float) -> float:
        inside = min(max(backward(place), min(good, bad)), max(good, bad))
        return good if place == ends[0] else bad if place == ends[1] else inside

    def height(place: float) -> float:
        return math.asinh(min(excess(at(place)), 1e300))  # far from the root its size says little

    ends = (forward(good), forward(bad))
    if excess(good) == 0.0:
        return good
    near = root(height, *ends, xtol=0.2 * scale, turns=MAX_TURNS)
    step = math.copysign(0.3 * scale, ends[0] - ends[1])
    for _ in range(MAX_TURNS):
        value = at(near + step)
        if value == good or excess(value) <= 0:
            return value
        step *= 3.0
    return good
