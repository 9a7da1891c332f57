"""Functions of a kernel against the ball oracle, point by point."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from flint import acb, arb, ctx
from sympy import besseli, binomial, erf, erfc, factorial, gamma, loggamma

from mechc.declare import Declaration
from mechc.errors import MechcError
from mechc.verify.ball import COARSE_STEP, Oracle
from mechc.verify.result import Check

VALUES = 1e-14
CGF = 1e-13
CDF = 1e-13
ABSOLUTE = 1e-15  # of distribution functions, whose tails may be differences from one
SPECIAL = 1e-13  # where the variable stands inside a Bessel, gamma or error function
NEAR_ZERO = 0.1  # values below this are compared absolutely
NEAR_ENDS = 4  # units in the last place within which an end of a branch may be rounded
MOMENT_BITS = 72
SHARPER = (MOMENT_BITS, 2 * MOMENT_BITS, 4 * MOMENT_BITS)  # where M is small beside M(Re z)
ACCURATE_BITS = 52
LOST = -90.0  # nats below M(Re z) at which |M| takes too many digits
STEEP = 0.1  # change of a logarithm over a few units in the last place

Raw = Callable[[Oracle, Any], Any]


def tolerance(declaration: Declaration, check: Check) -> float:
    """The tolerance of values at points, with the reason where it is not `VALUES`."""
    x = declaration.variable
    hard = declaration.p.atoms(besseli, binomial, erf, erfc, factorial, gamma, loggamma)
    names = sorted({type(f).__name__ for f in hard if f.has(x)})
    if not names:
        return VALUES
    check.note(f"{', '.join(names)} of the variable in double precision: tolerance {SPECIAL:g}")
    return SPECIAL


def _raw(name: str) -> Raw:
    if name == "loss":
        return Oracle.raw_loss
    law = name[-1]
    return lambda oracle, x: oracle.raw_log_density(law, x)


def values(kernel: Any, oracle: Oracle, xs: Sequence[float], name: str, check: Check) -> None:
    """`log_p`, `log_q` or `loss`, scalar and array form, at the outputs `xs`."""
    theta = np.array(oracle.theta)
    check.tolerance = tolerance(oracle.declaration, check)
    out = np.empty(len(xs))
    with np.errstate(all="ignore"):
        getattr(kernel, f"{name}_many")(np.array(xs), theta, out)
    scalar, raw = getattr(kernel, name), _raw(name)
    for x, many in zip(xs, out, strict=True):
        truth = oracle.at(partial(raw, oracle, arb(x)))
        if truth.is_nan():
            continue  # neither law has mass here
        for found in {float(scalar(x, theta)), float(many)}:
            error = point_error(found, truth, check.tolerance, _sensitivity(oracle, raw, x))
            if error > check.tolerance and _rounded_end(kernel, oracle, raw, x, found, theta):
                check.note("next to an end of a branch, within its rounding")
                continue
            if name == "loss":
                error = listed(oracle, error, x, found, check)
            check.record(error, x=x, theta=oracle.theta, found=found, enclosure=text(truth))


def _sensitivity(oracle: Oracle, raw: Raw, x: float) -> Callable[[], float]:
    return partial(oracle.sensitivity, raw, x)


def point_error(
    found: float, truth: Any, enough: float, sensitivity: Callable[[], float],
    near_zero: float = NEAR_ZERO,
) -> float:  # fmt: skip
    """abs(found - truth), relative to the larger of the truth and the input sensitivity.

    The sensitivity is only asked for when the plain relative error is above `enough`. Truths below
    `near_zero` are compared absolutely.
    """
    if not truth.is_finite():
        if truth.is_nan():
            return 0.0 if math.isnan(found) else math.inf
        return 0.0 if found == (math.inf if truth > 0 else -math.inf) else math.inf
    if not math.isfinite(found):
        return math.inf
    distance = float(abs(arb(found) - truth).upper())
    size = float(abs(truth).mid())
    if distance <= enough * size:
        return distance / size if size else 0.0
    if distance <= enough * near_zero:
        return distance / near_zero
    scale = max(size, near_zero, sensitivity())
    return distance / scale if scale else math.inf


def _rounded_end(kernel: Any, oracle: Oracle, raw: Raw, x: float, found: float, theta: Any) -> bool:
    """Whether the value is right for a place a few units in the last place away, at an end."""
    ends = [e for e in np.asarray(kernel.breakpoints(theta)) if math.isfinite(e)]
    spacing = math.ulp(max(abs(x), *map(abs, ends), 1e-300))
    if not any(abs(x - e) <= NEAR_ENDS * spacing for e in ends):
        return False
    truths = []
    # ends may be as close to each other as the place is to its neighbours
    for step in {k * u for k in range(-NEAR_ENDS, NEAR_ENDS + 1) for u in (math.ulp(x), spacing)}:
        truths.append(oracle.at(partial(raw, oracle, arb(x + step))))
        change = _sensitivity(oracle, raw, x + step)
        if point_error(found, truths[-1], VALUES, change) <= VALUES:
            return True
    known = [float(t.mid()) for t in truths if t.is_finite()]
    if not known or max(known) - min(known) < STEEP:
        return False
    # a density that vanishes at the end: the value is right for a place between two doubles
    return bool(min(truths) <= found <= max(truths))


def listed(oracle: Oracle, error: float, x: float, found: float, check: Check) -> float:
    """The error of a loss, relative to the log densities whose difference it is.

    A loss that is the difference of two large log densities cannot be better than they are; where
    that is the reason it is said in the notes, with the error.
    """
    if error <= check.tolerance or not math.isfinite(error):
        return error
    with ctx.workprec(240):
        p, q = (oracle.raw_log_density(law, arb(x)) for law in "pq")
        size = float((abs(p) + abs(q)).mid())
        distance = float(abs(oracle.raw_loss(arb(x)) - found).upper())
    if not math.isfinite(size) or distance > check.tolerance * size:
        return error
    check.note("cancellation: accurate relative to log p and log q, not to their difference")
    return distance / size


def generating_function(kernel: Any, oracle: Oracle, zs: Sequence[complex], check: Check) -> None:
    """The closed `cgf` against rigorous quadrature at complex z."""
    theta = np.array(oracle.theta)
    for z in dict.fromkeys(_within_reach(kernel, z, theta) for z in zs):
        found = complex(kernel.cgf(z, theta))
        truth = log_moment(oracle, z)
        if truth is None and oracle.moment(acb(z)).is_zero():
            truth, error = arb.neg_inf(), 0.0 if found.real == -math.inf else math.inf
        elif truth is None:
            check.note(f"no enclosure of M({z})")
            continue
        else:
            error = _complex_error(found, truth, oracle, z, check.tolerance)
        where = {"theta": oracle.theta, "found": str(found), "enclosure": text(truth)}
        check.record(error, z=str(z), **where)


def _within_reach(kernel: Any, z: complex, theta: Any) -> complex:
    """The place z, or one below it where |M| is not too small for quadrature."""
    for _ in range(20):
        gap = complex(kernel.cgf(z, theta)).real - complex(kernel.cgf(z.real, theta)).real
        if not gap < LOST:
            break
        z = complex(z.real, z.imag / 2)
    return z


def log_moment(oracle: Oracle, z: complex, accurate: int = ACCURATE_BITS) -> Any:
    """Ball around log M(z), None where quadrature does not converge.

    Args:
        oracle: the pair.
        z: inside the strip.
        accurate: correct bits after which no more are sought.
    """
    found = None
    for bits in SHARPER:
        with ctx.workprec(bits):
            try:
                moment = oracle.moment(acb(z))
            except MechcError:
                break
            found = None if moment.contains(0) else moment.log()
            if found is not None and moment.rel_accuracy_bits() >= accurate:
                break
    return found


def _complex_error(found: complex, truth: Any, oracle: Oracle, z: complex, enough: float) -> float:
    """Distance modulo 2 pi i, relative to the larger of the value and the input sensitivity."""
    if not (math.isfinite(found.real) and math.isfinite(found.imag)):
        return math.inf
    gap = acb(found) - truth
    turns = round(float(gap.imag.mid()) / (2 * math.pi))
    distance = float(abs(gap - acb(0, 2 * turns * arb.pi())).upper())
    size = float(abs(truth).mid())
    # log M is known to the rounding of M where M is close to one
    size = max(size, 1.0)
    if distance <= enough * size:
        return distance / size
    near = log_moment(oracle, z * (1 - COARSE_STEP))
    scale = size if near is None else size + float(abs(near - truth).mid()) / COARSE_STEP
    scale += oracle.integral_sensitivity(lambda o: _log_moment_or(o, z, truth))
    return distance / scale


def _log_moment_or(oracle: Oracle, z: complex, otherwise: Any) -> Any:
    found = log_moment(oracle, z)
    return otherwise if found is None else found


def distributions(kernel: Any, oracle: Oracle, xs: Sequence[float], check: Check) -> None:
    """cdf_p, sf_p, cdf_q, sf_q against rigorous integrals."""
    theta = np.array(oracle.theta)
    for law in "pq":
        for x, below, above in _cumulative(oracle, law, sorted(set(xs))):
            for name, truth in ((f"cdf_{law}", below), (f"sf_{law}", above)):
                found = float(getattr(kernel, name)(x, theta))
                error = point_error(found, truth, check.tolerance, lambda: 0.0)
                if error > check.tolerance and abs(arb(found) - truth) <= ABSOLUTE:
                    check.note(f"tails to absolute accuracy {ABSOLUTE:g} only")
                    continue
                if error > check.tolerance:
                    error = _distribution_error(oracle, law, name, x, found, truth)
                check.record(error, function=name, x=x, theta=oracle.theta, found=found,
                             enclosure=text(truth))  # fmt: skip


def _cumulative(oracle: Oracle, law: str, xs: Sequence[float]) -> list[tuple[float, Any, Any]]:
    """(x, mass at or below x, mass above x): two tails, and the stretches between neighbours."""
    with ctx.workprec(MOMENT_BITS):
        between = [oracle.mass(law, a, b) for a, b in itertools.pairwise(xs)]
        below = list(itertools.accumulate([oracle.mass(law, hi=xs[0]), *between]))
        above = list(itertools.accumulate([oracle.mass(law, lo=xs[-1]), *reversed(between)]))
    return list(zip(xs, below, reversed(above), strict=True))


def _distribution_error(
    oracle: Oracle, law: str, name: str, x: float, found: float, truth: Any
) -> float:
    """The error relative to what one relative unit in the input does to the value."""

    def mass(one: Oracle) -> Any:
        return one.mass(law, hi=x) if name.startswith("cdf") else one.mass(law, lo=x)

    with ctx.workprec(MOMENT_BITS):
        scale = abs(float(truth.mid())) + oracle.integral_sensitivity(mass)
        if oracle.measure == "density":
            height = oracle.log_density(law, x)
            if height.is_finite():
                scale += abs(x) * math.exp(float(height.mid()))
    return float(abs(arb(found) - truth).upper()) / scale if scale else math.inf


def text(ball: Any) -> str:
    """A ball as text with enough digits to reproduce it."""
    return str(ball.str(25))
