"""Find the parameter value, or the count, that just meets a privacy target.

In: a mechanism, the parameter to solve for, the other parameters, a target (epsilon, delta).
Out: a value whose proven *upper* bound on delta(epsilon) is at most delta. Least noise is found up
to a relative tolerance and assuming that delta is monotone in the parameter; that the value meets
the target needs no such assumption, it is evaluated.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mechc.accountants.bound import Bound, plain
from mechc.accountants.fft import log1mexp
from mechc.composition import tradeoff
from mechc.composition.events import Composition, Event
from mechc.composition.inputs import MAX_COUNT, as_delta, as_epsilon, as_work, share
from mechc.composition.mechanism import Mechanism
from mechc.composition.question import asked
from mechc.composition.training import dpsgd, solvable
from mechc.errors import MEANT, DeclarationError, MechcError, UnsupportedError, suggestion
from mechc.loss.allowance import MAX_WORK, limited
from mechc.loss.rounding import EPS

if TYPE_CHECKING:
    from mechc.composition.evaluation import Evaluation
    from mechc.protocol import ParameterInfo


TOLERANCE = 1e-9
MAX_TURNS = 200
FAR = 1e6  # nats below the target that count as no more than this
GUESSES = 6  # values tried on the way from the middle of the typical range to both sides
WIDEST, BEYOND = 4.0, 1.05  # largest factor from one to the next, and factor past the place guessed
SURE = 1e-9  # nats by which delta has to fall to be proved not monotone


@dataclass(frozen=True)
class Calibration:
    """A parameter value and the bounds on delta it leads to; unpacks into these two.

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
        """One line: the value, and what it leads to."""
        return f"{self.name or 'value'} = {self.value:.10g}: {self.bound}"

    def record(self) -> dict[str, Any]:
        """Return the value, the count and the bound in plain numbers and words."""
        return {self.name or "value": self.value, "count": self.count, **self.bound.record()}

    def to_json(self) -> str:
        """Return `record()` as JSON."""
        return json.dumps(plain(self.record()))

    def _repr_html_(self) -> str:
        """Show the value, and what it leads to, in notebooks."""
        line = html.escape(f"{self.name or 'value'} = {self.value!r}")
        return f"<b>{line}</b><br>{self.bound._repr_html_()}"


def calibrate(
    mechanism: Mechanism | Callable[..., Composition],
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
        mechanism: the mechanism, possibly sampled; or `mechc.dpsgd`, whose words are then the
            parameters.
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
    if not isinstance(mechanism, Mechanism) and not training:
        raise DeclarationError(
            f"calibrate: {mechanism!r} is not a mechanism (expected mechc.load(name), not yet "
            "called with its parameters, or mechc.dpsgd)"
        )
    if not isinstance(solve_for, str):
        raise DeclarationError(f"solve_for={solve_for!r} (expected the name of a parameter)")
    others = _others(parameters, fixed)
    known = mechanism.parameters if isinstance(mechanism, Mechanism) else ()
    for word in MEANT.keys() & fixed.keys() - {p.name for p in known}:
        if not training:
            raise DeclarationError(
                f"{word}={fixed[word]!r} is not known; did you mean {MEANT[word]}=?"
            )
    if beside is not None and not isinstance(beside, (Event, Composition)):
        raise DeclarationError(f"beside={beside!r} (expected an event or a composition)")

    def run(value: float) -> Composition:
        if isinstance(mechanism, Mechanism) and solve_for == "count":
            made = mechanism(**others) * int(value)
        else:
            made = mechanism(**{**others, solve_for: value}) * count
        return made if beside is None else made + beside

    profile = _target(run, epsilon, delta, advantage, tpr, fpr, method, direction, max_work)
    if isinstance(mechanism, Mechanism) and solve_for == "count":
        steps = int(_count(profile, mechanism(**others)))
        if not steps:
            raise UnsupportedError(f"{mechanism.name}: no count from 1 on meets the target")
        return profile.answer(steps, steps, solve_for)
    if isinstance(mechanism, Mechanism):
        name, info = mechanism.name, _parameter(mechanism, solve_for)
    else:
        name, info = "dpsgd", solvable(solve_for, others)
    near = None if info.integer else _from_the_middle(profile, info)
    if near is not None:
        good, bad = near
        found = _settle(profile.steer, profile.excess, good, bad)
        if profile.excess(found) <= 0:
            profile.refuse_turns(name, solve_for, good, bad)
            return profile.answer(found, count, solve_for)
    good, bad = _straddle(profile, info, name)
    if info.integer:
        value = _between(profile, good, bad)
    else:
        value = _settle(profile.excess, profile.excess, good, bad)
    profile.refuse_turns(name, solve_for, good, bad)
    return profile.answer(int(value) if info.integer else value, count, solve_for)


def _target(
    run: Callable[[float], Composition], epsilon: float | None, delta: float | None,
    advantage: float | None, tpr: float | None, fpr: float | None, method: str, direction: str,
    max_work: float,
) -> Profile:  # fmt: skip
    """What is to be met: one of the three kinds of targets, checked."""
    kinds = ((epsilon, delta), (advantage,), (tpr, fpr))
    given = [kind for kind in kinds if any(value is not None for value in kind)]
    if len(given) > 1:
        raise DeclarationError(
            "calibrate: give one target, epsilon= with delta=, or advantage=, or tpr= with fpr="
        )
    work = as_work(max_work)
    if tpr is not None or fpr is not None:
        return Power(
            run, share("calibrate", "fpr", fpr), share("calibrate", "tpr", tpr), method, direction,
            work,
        )  # fmt: skip
    if advantage is not None:
        epsilon, delta = 0.0, share("calibrate", "advantage", advantage)
    log_target, at = as_delta(delta), as_epsilon(epsilon)
    if log_target < log1mexp(at):
        raise UnsupportedError(
            f"calibrate: no mechanism meets epsilon={at:g} and delta={math.exp(log_target):g}, as "
            "delta(epsilon) >= 1 - exp(epsilon)"
        )
    return Profile(run, at, log_target, method, direction, work)


class Profile:
    """Bounds on log delta as a function of the parameter, less the target; remembered."""

    def __init__(
        self,
        run: Callable[[float], Composition],
        epsilon: float,
        log_target: float,
        method: str,
        direction: str,
        max_work: float = MAX_WORK,
    ) -> None:
        """Keep what is needed to evaluate at a value."""
        self._max_work = max_work
        self._run, self.epsilon, self.log_target = run, epsilon, log_target
        self._method, self._direction = method, direction
        self._known: dict[float, tuple[float, float]] = {}
        self._steered: dict[float, float] = {}
        self._last: tuple[float, Composition] | None = None
        self._lead = ""  # the direction that was the worse one where both were evaluated

    def excess(self, value: float) -> float:
        """Return the proven upper bound of log delta minus the target: at most 0 is good.

        Evaluated by the first method of "auto" alone: a wide upper bound steers as well.
        """
        if value not in self._known:
            with asked(), limited(self._max_work, self._method):
                evaluation = self._at(value).evaluation(self._method, self._direction)
                if self.log_target == -math.inf:  # the largest loss has to be at most epsilon
                    self._known[value] = self._beyond(evaluation)
                    return self._known[value][1]
                bounds = {
                    d: self._checked(evaluation.log_delta_in(d, self.epsilon, rough=True))
                    for d in evaluation.directions
                }
            self._lead = max(bounds, key=lambda d: float(bounds[d].upper))
            lower = max(float(b.lower) for b in bounds.values())
            self._known[value] = lower - self.log_target, self._over(bounds[self._lead])
        return self._known[value][1]

    def steer(self, value: float) -> float:
        """Return the same for one direction alone: a guide, not a proof."""
        if value in self._known or not self._lead:
            return self.excess(value)
        if value not in self._steered:
            with asked(), limited(self._max_work, self._method):
                evaluation = self._at(value).evaluation(self._method, self._direction)
                if self._lead not in evaluation.directions:
                    return self.excess(value)
                bound = evaluation.log_delta_in(self._lead, self.epsilon, rough=True)
            self._steered[value] = self._over(self._checked(bound))
        return self._steered[value]

    def _beyond(self, evaluation: Evaluation) -> tuple[float, float]:
        """Bounds on what the largest loss is above epsilon."""
        if evaluation.log_infinite_range()[1] > -math.inf:
            return math.inf, math.inf
        top, rounding = evaluation.largest_loss()
        return max(top - rounding, 0.0) - self.epsilon, top + rounding - self.epsilon

    def _at(self, value: float) -> Composition:
        """The composition at a value, the last one kept with what it knows."""
        if self._last is None or self._last[0] != value:
            self._last = value, self._run(value)
        return self._last[1]

    def _over(self, bound: Bound) -> float:
        slack = 2 * EPS * (abs(self.log_target) + 4.0)
        return max(float(bound.upper) - self.log_target + slack, -FAR)

    def _checked(self, bound: Bound) -> Bound:
        if math.isnan(float(bound.upper)):
            raise UnsupportedError(f"calibrate: method {self._method!r} proves no upper bound")
        return bound

    def answer(self, value: float, count: int, name: str) -> Calibration:
        """Return the value with the bounds on delta there, for so many steps."""
        bound = self._at(value).delta(
            self.epsilon,
            method=self._method,
            direction=self._direction,
            max_work=self._max_work,
        )
        return Calibration(value, bound, count, name)

    def turn(self, parameter: str, good: float, bad: float) -> str:
        """Say where delta is proved to fall on the way from a good value to a bad one, if it is."""
        highest, where = -math.inf, good
        for value in sorted(self._known, reverse=good > bad):
            lower, upper = self._known[value]
            if highest > upper + SURE:
                return (
                    f"delta is not monotone in {parameter}: larger at {where:g} than at "
                    f"{value:g}; fix {parameter} and solve for another parameter"
                )
            if lower > highest:
                highest, where = lower, value
        return ""

    def refuse_turns(self, name: str, parameter: str, good: float, bad: float) -> None:
        """Refuse a parameter in which delta is proved not to be monotone where it was evaluated.

        Raises:
            UnsupportedError: delta falls on the way from a good value to a bad one.
        """
        words = self.turn(parameter, good, bad)
        if words:
            raise UnsupportedError(f"{name}: {words}")


class Power(Profile):
    """Bounds on the log of the true positive rate at a false positive rate, less the target."""

    def __init__(
        self,
        run: Callable[[float], Composition],
        fpr: float,
        tpr: float,
        method: str,
        direction: str,
        max_work: float,
    ) -> None:
        """Keep what is needed to evaluate at a value.

        Raises:
            UnsupportedError: guessing has more power than the target.
        """
        if not 0.0 < fpr < tpr:
            raise UnsupportedError(
                f"calibrate: no mechanism meets tpr={tpr:g} at fpr={fpr:g}, as guessing has the "
                "power fpr (expected 0 < fpr < tpr)"
            )
        guess = math.log(tpr / fpr)
        super().__init__(run, guess, math.log(tpr), method, direction, max_work)
        self._fpr = fpr

    def excess(self, value: float) -> float:
        """Return the log of the proven upper bound less that of the target."""
        if value not in self._known:
            with limited(self._max_work, self._method):
                evaluation = self._at(value).evaluation(self._method, self._direction)
                bound = self._checked(tradeoff.true_positive(evaluation, self._fpr))
            low = math.log(max(float(bound.lower), self._fpr))
            over = math.log(float(bound.upper)) - self.log_target + 8 * EPS
            self._known[value] = low - self.log_target, over
        return self._known[value][1]

    def steer(self, value: float) -> float:
        """Return the same: both directions are needed for it."""
        return self.excess(value)

    def answer(self, value: float, count: int, name: str) -> Calibration:
        """Return the value with the bounds on the true positive rate there."""
        bound = self._at(value).tpr(
            self._fpr,
            method=self._method,
            direction=self._direction,
            max_work=self._max_work,
        )
        return Calibration(value, bound, count, name)


def _others(parameters: Any, fixed: dict[str, Any]) -> dict[str, Any]:
    """The parameters that are given."""
    if not isinstance(parameters, (Mapping, type(None))):
        raise DeclarationError(f"parameters={parameters!r} (expected names with their values)")
    return {**(parameters or {}), **fixed}


def _parameter(mechanism: Mechanism, name: str) -> ParameterInfo:
    for info in mechanism.parameters:
        if info.name == name:
            return info
    listed = ", ".join([p.name for p in mechanism.parameters] + ["count"])
    raise DeclarationError(
        f"{mechanism.name}: solve_for={name!r} is not a parameter"
        f"{suggestion(name, listed.split(', '))} (expected one of {listed})"
    )


def _count(profile: Profile, event: Event) -> float:
    """Largest count that meets the target, from what a normal law of the loss would allow."""
    guess = _normal_count(profile, event)
    good, bad = 0.0, math.inf
    value = guess
    while bad == math.inf or good == 0.0:
        if profile.excess(value) <= 0:
            good = value
            if value >= MAX_COUNT:
                raise UnsupportedError(f"calibrate: even {int(good)} steps meet the target")
            value = min(4.0 * value, bad, float(MAX_COUNT))
        else:
            bad = value
            value = max(math.floor(value / 4.0), 1.0)
        if bad == 1.0 or value in (good, bad):
            break
    return _between(profile, good, bad) if bad - good > 1 else good


def _normal_count(profile: Profile, event: Event) -> float:
    """Count n with n mean + sqrt(2 n variance log(1 / delta)) = epsilon."""
    try:
        _, mean, variance, _ = event.loss().generating(0.0)
    except MechcError:
        return 1.0
    spread = math.sqrt(max(2.0 * variance * -profile.log_target, 0.0))
    epsilon = max(profile.epsilon, 1e-3)
    if not (mean > 0.0 and math.isfinite(mean + spread)):
        return 1.0
    root = 2.0 * epsilon / (spread + math.sqrt(spread * spread + 4.0 * mean * epsilon))
    return float(min(max(round(root * root), 1), MAX_COUNT))


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


def _straddle(profile: Profile, info: ParameterInfo, name: str) -> tuple[float, float]:
    """Return (good, bad): values that do and do not meet the target, grown from `typical`."""
    lo, hi = info.typical
    at_lo, at_hi = profile.excess(lo), profile.excess(hi)
    for _ in range(MAX_TURNS):
        if at_lo <= 0 < at_hi:
            return lo, hi
        if at_hi <= 0 < at_lo:
            return hi, lo
        wider = _wider(lo, hi, info)
        if wider == (lo, hi):
            break
        # with both bad the way leads past the better one, with both good past the worse one
        upward = at_hi < at_lo if at_lo > 0 else at_hi > at_lo
        either = at_lo == at_hi
        down = wider[0] != lo and (either or not upward or wider[1] == hi)
        up = wider[1] != hi and (either or upward or wider[0] == lo)
        if down:
            lo, at_lo = wider[0], profile.excess(wider[0])
        if up:
            hi, at_hi = wider[1], profile.excess(wider[1])
    words = profile.turn(info.name, *((lo, hi) if at_lo < at_hi else (hi, lo)))
    word = "every" if at_lo <= 0 else "no"
    tried = f" that was tried meets the target, and {words}" if words else " meets the target"
    raise UnsupportedError(f"{name}: {word} {info.name} from {lo:g} to {hi:g}{tried}")


def _wider(lo: float, hi: float, info: ParameterInfo) -> tuple[float, float]:
    """Grow a range inside the domain: factors of four, or towards finite ends."""
    new_lo = lo / 4 if info.lo == 0 and lo > 1e-12 else lo
    new_hi = hi * 4 if math.isinf(info.hi) and hi < 1e12 else hi
    if math.isfinite(info.hi) and hi < info.hi:
        gap = info.hi - hi
        new_hi = hi + 0.75 * gap if gap > 1e-12 * abs(info.hi) else hi
        if not info.hi_open:
            new_hi = info.hi
    if info.integer:
        return max(info.lo, math.floor(new_lo)), math.ceil(new_hi)
    return new_lo, new_hi


def _from_the_middle(profile: Profile, info: ParameterInfo) -> tuple[float, float] | None:
    """Return (good, bad) not far from each other, None where a few guesses do not find them.

    Log delta is taken to be a power of the parameter: of order two, as of noise, to begin with.
    """
    lo, hi = info.typical
    if not 0.0 < lo < hi:
        return None
    order, value = 2.0, math.sqrt(lo * hi)
    if profile.log_target == 0.0:
        return None
    known: list[tuple[float, float]] = []
    for _ in range(GUESSES):
        excess = profile.steer(value)
        for other, there in reversed(known):
            if (excess <= 0.0) != (there <= 0.0):
                return (value, other) if excess <= 0.0 else (other, value)
        now = profile.log_target + excess
        if not (now < 0.0 and math.isfinite(now)):
            return None
        if known:
            before = profile.log_target + known[-1][1]
            steps = math.log(value / known[-1][0])
            found = math.log(now / before) / steps if before < 0.0 and steps else 0.0
            order = found if 0.05 < abs(found) < 50.0 else order
        known.append((value, excess))
        factor = (profile.log_target / now) ** (1.0 / order)
        factor = factor * BEYOND if factor > 1.0 else factor / BEYOND
        value *= min(max(factor, 1.0 / WIDEST), WIDEST)
        if not info.lo < value < info.hi:
            return None
    return None


def _settle(
    steer: Callable[[float], float], excess: Callable[[float], float], good: float, bad: float
) -> float:
    """Return a value within the tolerance of the root, on the good side of it.

    Brent's method in the log of the parameter, or in the parameter where it is not positive.

    Args:
        steer: what to find the root of.
        excess: what has to be at most 0.
        good: value at which `steer` is at most 0.
        bad: value at which it is not.
    """
    from scipy.optimize import brentq

    geometric = min(good, bad) > 0
    forward: Callable[[float], float] = math.log if geometric else float
    backward: Callable[[float], float] = math.exp if geometric else float
    scale = TOLERANCE * (1.0 if geometric else max(abs(good), abs(bad)))

    def at(place: float) -> float:
        inside = min(max(backward(place), min(good, bad)), max(good, bad))
        return good if place == ends[0] else bad if place == ends[1] else inside

    def height(place: float) -> float:
        return math.asinh(min(steer(at(place)), 1e300))  # far from the root its size says little

    ends = (forward(good), forward(bad))
    if steer(good) == 0.0:
        return good
    root = float(brentq(height, *ends, xtol=0.2 * scale, maxiter=MAX_TURNS))
    step = 0.3 * scale
    toward = math.copysign(1.0, ends[0] - ends[1])
    for _ in range(MAX_TURNS):
        value = at(root + toward * step)
        if value == good or excess(value) <= 0:
            return value
        step *= 3.0
    return good
