"""Functions of a kernel and their inverses against the ball oracle, and the points for that."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from flint import acb, arb, ctx
from sympy import Basic, Expr, Symbol
from sympy.core.relational import Relational

from mechc.calculus.cases import by_cases
from mechc.declare.declaration import Declaration
from mechc.errors import MechcError
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import DECREASING, INCREASING, Measure
from mechc.symbolic import evaluate
from mechc.symbolic.facts import eliminations
from mechc.symbolic.parameters import Parameter
from mechc.symbolic.typical import typical_values, typical_vectors
from mechc.verify.balls.oracle import COARSE_STEP, Oracle
from mechc.verify.result import Check

VALUES = 1e-14  # relative tolerances: of values at points ...
CGF = 1e-13  # ... of log moments ...
CDF = 1e-13  # ... of distribution functions
SPECIAL = 1e-13  # where the variable stands inside a Bessel, gamma or error function
NEAR_ZERO = 0.1  # values below this are compared absolutely
NEAR_ENDS = 4  # units in the last place within which an end of a branch may be rounded
MOMENT_BITS = 72  # with which a moment is enclosed first
SHARPER = (MOMENT_BITS, 2 * MOMENT_BITS, 4 * MOMENT_BITS)  # where M is small beside M(Re z)
ACCURATE_BITS = 52  # that are asked of it

Raw = Callable[[Oracle, Any], Any]


def tolerance(declaration: Declaration, check: Check) -> float:
    """The tolerance of values at points, with the reason where it is not `VALUES`."""
    kinds = (sp.besseli, sp.besselk, sp.binomial, sp.erf, sp.erfc,
             sp.factorial, sp.gamma, sp.loggamma)  # fmt: skip
    hard = {f for f in declaration.p.atoms(*kinds) if f.has(declaration.variable)}
    if not hard:
        return VALUES
    names = sorted({type(f).__name__ for f in hard})
    check.note(f"{', '.join(names)} of the variable in double precision: tolerance {SPECIAL:g}")
    return SPECIAL


def values(kernel: Any, oracle: Oracle, xs: Sequence[float], name: str, check: Check) -> None:
    """`log_p`, `log_q` or `loss`, scalar and array form, at the outputs `xs`."""
    theta = np.array(oracle.theta)
    check.tolerance = tolerance(oracle.declaration, check)
    out = np.empty(len(xs))
    with np.errstate(all="ignore"):
        getattr(kernel, f"{name}_many")(np.array(xs), theta, out)

    def raw(one: Oracle, x: Any) -> Any:
        return one.raw_loss(x) if name == "loss" else one.raw_log_density(name[-1], x)

    ends = [float(e) for e in np.asarray(kernel.breakpoints(theta))]
    for x, many in zip(xs, out, strict=True):
        truth = oracle.at(partial(raw, oracle, arb(x)))
        if truth.is_nan():
            continue  # neither law has mass here
        for found in {float(getattr(kernel, name)(x, theta)), float(many)}:
            error = _error(oracle, raw, x, found, ends, check)
            if name == "loss":
                error = listed(oracle, error, x, found, check, check.tolerance)
            nothing = name != "loss" and not truth.is_finite() and truth < 0
            where = {"x": x, "theta": oracle.theta, "found": found, "enclosure": text(truth)}
            check.record(error, nothing=nothing, **where)


def _error(
    oracle: Oracle, raw: Raw, x: float, found: float, ends: Sequence[float], check: Check
) -> float:
    """The error of a value at a place, or at one within the rounding of the place and of ends."""

    def error_at(at: float) -> tuple[Any, float]:
        truth = oracle.at(partial(raw, oracle, arb(at)))
        change = partial(oracle.sensitivity, raw, at)
        return truth, point_error(found, truth, check.tolerance, change)

    _, error = error_at(x)
    exact = oracle.measure is not Measure.DENSITY and x % 1 == 0  # integers are not rounded
    if error <= check.tolerance or exact or not math.isfinite(x):
        return error
    reach = _reach(oracle, x, ends)
    (below, under), (above, over) = error_at(x - reach), error_at(x + reach)
    if math.isinf(found) and not raw(oracle, arb(x, reach)).is_finite():
        check.note("next to a pole: infinite within the rounding of the place")
        return 0.0
    if (
        min(under, over) > check.tolerance
        and not below < found < above
        and not below > found > above
    ):
        return error
    check.note("steep, or next to an end of a branch: right within the rounding of the place")
    return 0.0


def _reach(oracle: Oracle, x: float, ends: Sequence[float]) -> float:
    """How far rounding of a place, of ends of branches and of their parameters moves it."""
    ends = [e for e in ends if math.isfinite(e)]
    reach = NEAR_ENDS * max(math.ulp(v) for v in (x, *(e for e in ends if abs(x - e) < abs(e))))
    moved = [NEAR_ENDS * oracle.end_rounding(e) for e in ends if abs(x - e) <= 1e-6 * abs(e)]
    return max([reach, *moved])


def point_error(
    found: float, truth: Any, enough: float, sensitivity: Callable[[], float],
    near_zero: float = NEAR_ZERO,
) -> float:  # fmt: skip
    """abs(found - truth), relative to the larger of the truth and the input sensitivity.

    The sensitivity is only asked for when the plain relative error is above `enough`. Truths below
    `near_zero` are compared absolutely.
    """
    if not truth.is_finite():
        infinite = math.inf if truth > 0 else -math.inf
        same = math.isnan(found) if truth.is_nan() else found == infinite
        return 0.0 if same else math.inf
    if not math.isfinite(found):
        return math.inf
    distance, size = float(abs(arb(found) - truth).upper()), float(abs(truth).mid())
    for scale in (size, near_zero):
        if distance <= enough * scale:
            return distance / scale if scale else 0.0
    scale = max(size, near_zero, sensitivity())
    return distance / scale if scale else math.inf


def listed(
    oracle: Oracle, error: float, x: float, found: float, check: Check, enough: float
) -> float:
    """The error of a loss, relative to the log densities whose difference it is.

    A loss that is the difference of two large log densities cannot be better than they are; where
    that is the reason it is said in the notes, with the error.
    """
    if error <= enough or not math.isfinite(error):
        return error
    with ctx.workprec(240):
        p, q = (oracle.raw_log_density(law, arb(x)) for law in "pq")
        size = float((abs(p) + abs(q)).mid())
        distance = float(abs(oracle.raw_loss(arb(x)) - found).upper())
    if not math.isfinite(size) or distance > enough * size:
        return error
    check.note("cancellation: accurate relative to log p and log q, not to their difference")
    return distance / size


def generating_function(kernel: Any, oracle: Oracle, zs: Sequence[complex], check: Check) -> None:
    """The closed `cgf` against rigorous quadrature at complex z."""
    for z in dict.fromkeys(zs):
        found, truth = complex(kernel.cgf(z, np.array(oracle.theta))), log_moment(oracle, z)
        if truth is None:
            check.note(f"no enclosure of M({z})")
            continue
        if nothing := not truth.is_finite():
            error = 0.0 if found.real == -math.inf else math.inf
        else:
            error = _complex_error(found, truth, oracle, z, check.tolerance)
        where = {"theta": oracle.theta, "found": str(found), "enclosure": text(truth)}
        check.record(error, nothing=nothing, z=str(z), **where)


def log_moment(oracle: Oracle, z: complex, accurate: int = ACCURATE_BITS) -> Any:
    """Ball around log M(z), -inf where M is none, None where quadrature does not converge."""
    found = None
    for bits in SHARPER:
        with ctx.workprec(bits):
            try:
                moment = oracle.moment(acb(z))
            except MechcError:
                break
            if moment.is_zero():
                return arb.neg_inf()
            found = None if moment.contains(0) else moment.log()
            if found is not None and moment.rel_accuracy_bits() >= accurate:
                break
    return found


def _complex_error(found: complex, truth: Any, oracle: Oracle, z: complex, enough: float) -> float:
    """Distance modulo 2 pi i, relative to the larger of the value and the input sensitivity."""
    if not (math.isfinite(found.real) and math.isfinite(found.imag)):
        return math.inf
    with ctx.workprec(SHARPER[0]):  # in fewer, turns are rounded by more than the error
        gap = acb(found) - truth
        turns = round(float(gap.imag.mid()) / (2 * math.pi))
        distance = float(abs(gap - acb(0, 2 * turns * arb.pi())).upper())
    size = float(abs(truth).mid())
    # log M is known to the rounding of M where M is close to one
    size = max(size, 1.0)
    if distance <= enough * size:
        return distance / size

    def near(one: Oracle, at: complex = z) -> Any:
        return truth if (moment := log_moment(one, at)) is None else moment

    scale = size + float(abs(near(oracle, z * (1 - COARSE_STEP)) - truth).mid()) / COARSE_STEP
    return distance / (scale + oracle.integral_sensitivity(near))


def distributions(kernel: Any, oracle: Oracle, xs: Sequence[float], check: Check) -> None:
    """cdf_p, sf_p, cdf_q, sf_q against rigorous integrals."""
    places, theta = sorted(set(xs)), np.array(oracle.theta)
    for law in "pq":
        with ctx.workprec(MOMENT_BITS):
            # each once: a tail is the sum of what lies between the places in it
            between = [oracle.mass(law, *ends) for ends in itertools.pairwise(
                (-math.inf, *places, math.inf))]  # fmt: skip
            below, above = itertools.accumulate(between), itertools.accumulate(between[::-1])
            truths = {"cdf": [*below][:-1], "sf": [*above][-2::-1]}
        for name, balls in truths.items():
            for x, truth in zip(places, balls, strict=True):
                found = float(getattr(kernel, f"{name}_{law}")(x, theta))
                with ctx.workprec(MOMENT_BITS):
                    error = _tail_error(oracle, law, name, x, found, truth, check.tolerance)
                check.record(error, function=f"{name}_{law}", x=x, theta=oracle.theta, found=found,
                             enclosure=text(truth))  # fmt: skip


def _tail_error(
    oracle: Oracle, law: str, name: str, x: float, found: float, truth: Any, enough: float
) -> float:
    """The error of a mass, beside what one relative unit in the input does to it."""

    def mass(one: Oracle) -> Any:
        return one.mass(law, hi=x) if name == "cdf" else one.mass(law, lo=x)

    def change() -> float:
        scale = abs(float(truth.mid())) + oracle.integral_sensitivity(mass)
        height = oracle.log_density(law, x)
        moves = oracle.measure is Measure.DENSITY and height.is_finite()
        return scale + (abs(x) * math.exp(float(height.mid())) if moves else 0.0)

    return point_error(found, truth, enough, change)


def text(ball: Any) -> str:
    """A ball as text with enough digits to reproduce it."""
    return str(ball.str(25))


STRAY = 1e-9  # relative error of an inverse after which it is looked at closely


def inverses(kernel: Any, oracle: Oracle, xs: Sequence[float], check: Check) -> None:
    """loss(inverse(l)) = l on every monotone branch that has a closed inverse."""
    theta = np.array(oracle.theta)
    check.tolerance = tolerance(oracle.declaration, check)
    for row in np.asarray(kernel.branches(theta)):
        branch = Branch(*map(float, row))
        if branch.kind not in (INCREASING, DECREASING):
            continue
        lowest, highest = sorted((branch.left, branch.right))
        targets = [float(oracle.loss(x).mid()) for x in xs if branch.lo < x < branch.hi]
        targets = [t for t in targets if lowest < t < highest and math.isfinite(t)]
        code = int(branch.code)
        single = getattr(kernel, f"loss_inverse_{code}", None)
        if targets and not single and math.isnan(_solved(kernel, code, targets[:1], theta)[0]):
            check.note(f"branch {code}: no closed inverse, bracketed at run time")
            continue
        for target in (*targets, *_doubtful(kernel, code, targets, theta)):
            answers = {float(_solved(kernel, code, [target], theta)[0])}
            answers |= {float(single(target, theta))} if single else set()
            for found in answers:
                _inverse(kernel, oracle, branch, target, found, check)


class Branch(NamedTuple):
    """A branch: its ends, its kind, the limits of the loss there, the code of its inverse."""

    lo: float
    hi: float
    kind: float
    left: float
    right: float
    code: float

    def loss(self, oracle: Oracle, x: Any) -> Any:
        """The loss on it, and its limits beyond."""
        if x < self.lo or x > self.hi or not math.isfinite(x):
            return arb(self.left if x <= self.lo else self.right)
        found = oracle.raw_loss(x)
        if self.lo < x < self.hi or found.is_finite():
            return found
        return arb(self.left if x == self.lo else self.right)


def _inverse(
    kernel: Any, oracle: Oracle, branch: Branch, target: float, found: float, check: Check
) -> None:
    """One loss: the inverse lies on the branch and has it."""
    theta, (lo, hi, _, left, right, code) = np.array(oracle.theta), branch
    error = math.inf
    if math.isinf(found) and math.isinf(hi if found > 0 else lo):
        # past the last loss that a double can tell from the limit
        back = arb(right if found > 0 else left)
        error = float((abs(back - target) / max(abs(target), NEAR_ZERO)).upper())
    elif math.isfinite(found):
        reach = _reach(oracle, found, (lo, hi))
        if math.isfinite(hi - lo):  # an end at 0 has no ulp of its own
            reach = max(reach, NEAR_ENDS * EPS * (hi - lo))
        if lo - reach <= found <= hi + reach:
            error = _error(oracle, branch.loss, found, target, (lo, hi), check)
            error = listed(oracle, error, found, target, check, check.tolerance)
    # next to loss 0 and to the ends of the range formulas may lose digits: the numeric side holds
    # every inverse against the kernel's own loss
    reach, limits = min(abs(right - left), 1.0), [e for e in (left, right) if math.isfinite(e)]
    critical = abs(target) <= 1e-3 * reach or any(abs(target - e) <= 1e-6 * reach for e in limits)
    if critical and error > check.tolerance:
        again = float(kernel.loss(found, theta)) if math.isfinite(found) else math.nan
        if not abs(again - target) <= 1e-12 * (abs(target) + abs(again)):
            check.note("near loss 0 and the ends: rejected by the run-time round trip, "
                       "bracketed instead")  # fmt: skip
            return
    check.record(error, loss=target, branch=int(code), theta=oracle.theta, found=found)


def _solved(kernel: Any, index: int, losses: Sequence[float], theta: Any) -> Any:
    out = np.empty(len(losses))
    kernel.loss_inverse_many(index, np.array(losses), theta, out)
    return out


def _doubtful(kernel: Any, code: int, targets: Sequence[float], theta: Any) -> list[float]:
    """Losses between tested ones whose inverse does not give them back in the kernel itself."""
    # Root finders go astray at few losses only: many are looked at, in double precision.
    shares = np.array([0.11, 0.38, 0.64, 0.87])[:, None]
    known = np.unique(targets)
    losses = (known[:-1] + shares * np.diff(known)).ravel()
    if not losses.size:
        return []
    back = np.empty(losses.size)
    with np.errstate(all="ignore"):
        kernel.loss_many(_solved(kernel, code, losses, theta), theta, back)
        astray = ~(np.abs(back - losses) <= STRAY * np.maximum(np.abs(losses), NEAR_ZERO))
    return [float(v) for v in losses[astray]]


CORNERS = 8  # of the typical ranges
# shares off the border between two cases; the first and last are an ulp or two
CLOSE = (-(2.0**-52), -(2.0**-31), 0.0, 2.0**-31, 2.0**-52)


def vectors(declaration: Declaration, count: int, corners: bool) -> list[tuple[float, ...]]:
    """Typical parameter vectors, and corners of the typical ranges: eight, or three if not all.

    The three are such that every parameter is once above and once below every other one. A case
    of the pair that no typical vector reaches gets one from outside the typical ranges.
    """
    parameters = declaration.parameters
    found = list(typical_vectors(parameters, count))
    ends = [tuple(map(float, v)) for v in itertools.product(*(p.typical for p in parameters))]
    found += ends[:CORNERS] if corners else [ends[k * len(ends) // 3] for k in range(3)]
    conditions = [case.condition for case in by_cases(declaration)]
    for condition in conditions if len(conditions) > 1 else ():
        if not any(evaluate.holds_at(condition, parameters, v) for v in found):
            outside = typical_values(parameters, 1, condition)
            found += [tuple(map(float, vector.values())) for vector in outside]
    found += _next_to_cases(parameters, conditions, tuple(found), CLOSE if corners else CLOSE[1:4])
    return list(dict.fromkeys(found))


def _next_to_cases(
    parameters: tuple[Parameter, ...], conditions: Sequence[Basic],
    bases: Sequence[tuple[float, ...]], shifts: Sequence[float],
) -> Iterator[tuple[float, ...]]:  # fmt: skip
    """Vectors on, just below and just above the border between two cases of the pair."""
    # Only there does a border that is slightly off exchange formulas.
    for relation in sorted(set().union(*(c.atoms(Relational) for c in conditions)), key=str):
        solved = eliminations(sp.Eq(relation.lhs, relation.rhs))
        for base in bases:
            near = [_moved(parameters, base, solved, shift) for shift in shifts]
            inside = [v for v in near if v is not None]
            reached = {
                tuple(evaluate.holds_at(c, parameters, v) for c in conditions) for v in inside
            }
            if len(reached) > 1:
                yield from inside
                break


def _moved(
    parameters: tuple[Parameter, ...], base: tuple[float, ...], solved: dict[Symbol, Expr],
    shift: float,
) -> tuple[float, ...] | None:  # fmt: skip
    """The vector with one parameter on the border or a share of itself off it, if that exists."""
    values = list(base)
    for i, p in enumerate(parameters):
        if p.symbol in solved:
            border = evaluate.value(solved[p.symbol], parameters, base)
            off = math.copysign(1.0, shift) if p.integer and shift else border * shift
            values[i] = border + off
            if not p.contains(values[i]):
                return None
    return tuple(values)


def is_near(oracle: Oracle, x: float) -> bool:
    """Whether one of the laws has some mass there that a double can tell."""
    logs = (oracle.log_density(law, x) for law in "pq")
    return oracle.measure is Measure.FINITE or any(v > -MOST_LOG for v in logs)


def tilts(strip: tuple[float, float], full: bool) -> list[complex]:
    """Points inside the strip of convergence, real and complex, 0 and -1 among them."""
    lo, hi = (max(strip[0], -8.0), min(strip[1], 7.0))
    real = [lo + (hi - lo) * f for f in ((0.03, 0.3, 0.62, 0.97) if full else (0.03, 0.97))]
    points = [complex(r, i) for r in real for i in ((0.0, 1.7, 23.0) if full else (0.0, 2.3))]
    return [*points, complex(1e-7 if strip[1] > 0 else -1e-7), -1.0 + 0j, 0j]
