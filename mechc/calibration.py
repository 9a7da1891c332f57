"""Find the parameter value, or the count, that just meets a privacy target.

In: a mechanism, the parameter to solve for, the other parameters, a target (epsilon, delta).
Out: a value whose proven *upper* bound on delta(epsilon) is at most delta. Least noise is found up
to a relative tolerance and assuming that delta is monotone in the parameter; that the value meets
the target needs no such assumption, it is evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from mechc.accountants.bound import Bound
from mechc.composition import MAX_COUNT
from mechc.errors import DeclarationError, UnsupportedError
from mechc.queries import as_delta, as_epsilon

if TYPE_CHECKING:
    from mechc.kernel.protocol import ParameterInfo
    from mechc.mechanism import Mechanism

TOLERANCE = 1e-9
ULP = 2.0**-52
MAX_TURNS = 200


class Calibration(NamedTuple):
    """A parameter value and the bounds on delta it leads to.

    Attributes:
        value: value of the parameter, or the count.
        bound: bounds on delta(epsilon) at that value; `upper` is at most the target.
    """

    value: float
    bound: Bound


def calibrate(
    mechanism: Mechanism,
    *,
    solve_for: str,
    epsilon: float,
    delta: float,
    count: int = 1,
    method: str = "auto",
    direction: str = "both",
    parameters: Mapping[str, float] | None = None,
    **fixed: float,
) -> Calibration:
    """Return the least noisy value of one parameter that meets (epsilon, delta).

    Args:
        mechanism: the mechanism, possibly sampled.
        solve_for: name of a parameter, or "count" for the largest number of steps.
        epsilon: target epsilon.
        delta: target delta in (0, 1].
        count: number of steps.
        method: an accountant with a proven upper side.
        direction: "both", "remove" or "add".
        parameters: the other parameters; defaults fill the rest.
        **fixed: the same as keywords, where their names are not taken.

    Raises:
        DeclarationError: an argument is not acceptable.
        UnsupportedError: no value in the domain meets the target, every value does, or the method
            proves no upper bound.
    """
    if as_delta(delta) == -math.inf:
        raise DeclarationError("delta=0 is out of range (expected 0 < delta <= 1)")
    at = as_epsilon(epsilon)
    others = {**(parameters or {}), **fixed}

    def bound_at(value: float) -> Bound:
        if solve_for == "count":
            run = mechanism(**others) * value
        else:
            run = mechanism(**{**others, solve_for: value}) * count
        return run.delta(at, method=method, direction=direction)

    def excess(value: float) -> float:
        upper = float(bound_at(value).upper)
        if math.isnan(upper):
            raise UnsupportedError(f"calibrate: method {method!r} proves no upper bound")
        if upper == 0:
            return -math.inf
        return math.log(upper / delta) if upper <= delta else max(math.log(upper / delta), ULP)

    if solve_for == "count":
        return _count(excess, bound_at)
    info = _parameter(mechanism, solve_for)
    value = _settle(excess, *_straddle(excess, info, mechanism.name), info)
    return Calibration(value, bound_at(value))


def _parameter(mechanism: Mechanism, name: str) -> ParameterInfo:
    for info in mechanism.parameters:
        if info.name == name:
            return info
    listed = ", ".join([p.name for p in mechanism.parameters] + ["count"])
    raise DeclarationError(
        f"{mechanism.name}: solve_for={name!r} is not a parameter (expected one of {listed})"
    )


def _count(excess: Callable[[float], float], bound_at: Callable[[float], Bound]) -> Calibration:
    """Largest count that meets the target: doubling, then bisection on integers."""
    good, bad = 0, 1
    while excess(bad) <= 0:
        good, bad = bad, 2 * bad
        if bad > MAX_COUNT:
            raise UnsupportedError(f"calibrate: even {good} steps meet the target")
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if excess(middle) <= 0 else (good, middle)
    return Calibration(good, bound_at(good))


def _straddle(
    excess: Callable[[float], float], info: ParameterInfo, name: str
) -> tuple[float, float]:
    """Return (good, bad): values that do and do not meet the target, grown from `typical`."""
    lo, hi = info.typical
    at_lo, at_hi = excess(lo), excess(hi)
    for _ in range(MAX_TURNS):
        if at_lo <= 0 < at_hi:
            return lo, hi
        if at_hi <= 0 < at_lo:
            return hi, lo
        wider = _wider(lo, hi, info)
        if wider == (lo, hi):
            break
        if wider[0] != lo:
            lo, at_lo = wider[0], excess(wider[0])
        if wider[1] != hi:
            hi, at_hi = wider[1], excess(wider[1])
    word = "every" if at_lo <= 0 else "no"
    raise UnsupportedError(f"{name}: {word} {info.name} from {lo:g} to {hi:g} meets the target")


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


def _settle(
    excess: Callable[[float], float], good: float, bad: float, info: ParameterInfo
) -> float:
    """Shrink (good, bad) to the tolerance and return the good end.

    Secant steps in the parameter (geometric where it is positive), aimed slightly at the good
    side; bisection when they leave the bracket or every third turn.
    """
    geometric = min(good, bad) > 0 and not info.integer
    forward: Callable[[float], float] = math.log if geometric else float
    backward: Callable[[float], float] = math.exp if geometric else float
    g, b = forward(good), forward(bad)
    eg, eb = excess(good), excess(bad)
    for turn in range(MAX_TURNS):
        if info.integer and abs(backward(g) - backward(b)) <= 1:
            break
        if abs(g - b) <= TOLERANCE * (1.0 if geometric else max(abs(g), abs(b))):
            break
        middle = 0.5 * (g + b)
        if math.isfinite(eg + eb) and turn % 3 and eb > eg:
            middle = g + (b - g) * min(max(-eg / (eb - eg), 0.0), 1.0)
            middle += 0.25 * TOLERANCE * (1 if g > b else -1)
            middle = middle if min(g, b) < middle < max(g, b) else 0.5 * (g + b)
        if info.integer:
            middle = float(round(middle))
            middle = middle if middle not in (g, b) else 0.5 * (g + b)
        e = excess(backward(middle) if not info.integer else math.floor(middle))
        middle = float(math.floor(middle)) if info.integer else middle
        g, eg, b, eb = (middle, e, b, eb) if e <= 0 else (g, eg, middle, e)
    return backward(g)
