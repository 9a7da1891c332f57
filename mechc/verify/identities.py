"""Identities that a pair and its kernel satisfy exactly, tested by enclosures and proofs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from flint import acb, arb, ctx

from mechc.calculus.claims import claim_of
from mechc.errors import MechcError
from mechc.loss.running_error import known_masses
from mechc.numeric.rounding import EPS, MOST_LOG
from mechc.protocol import (
    DECREASING,
    INCREASING,
    P_ONLY,
    PLATEAU,
    Q_ONLY,
    UNSPLIT,
    Measure,
    is_closed,
)
from mechc.verify import shape_proofs
from mechc.verify.balls.oracle import ATOM_BITS, NUDGE, Oracle
from mechc.verify.kernel_checks import (
    MOMENT_BITS,
    NEAR_ENDS,
    listed,
    log_moment,
    point_error,
    text,
    tolerance,
)
from mechc.verify.result import Check

WIDTH = 1e-12  # widest enclosure of a mass that proves anything
CLOSER = tuple(MOMENT_BITS << k for k in range(4))
"""Bits at which masses are added up: beside a pole what is left out falls with the precision."""
COARSE = 24  # bits to which two moments are compared
ROUNDED = 4 * EPS  # what rounded parameters, such as weights, may do to a mass
LATTICE = 1e-12  # of a loss on a lattice, relative
NOTHING = 2.0**-200  # mass that is left where terms cancel
UNBOUNDED_TILT = 16.0  # a tilt that an unbounded strip must allow
FROM_END, TO_END = 0.02, 1e-10  # of an end of the strip, in widths of a side
LIMIT = 1e-12  # of a limit, relative
SETTLED = 1e-9  # change of a loss on the way to its limit, relative
BEYOND_DOUBLES = 100_000  # halvings of the smallest double
FARTHER = 64.0  # times as far as the outermost point


def symmetry(kernel: Any, oracle: Oracle, zs: Sequence[complex], check: Check) -> None:
    """M(z) = M(-1-z) where the kernel says SYMMETRIC, so that one direction answers for both."""
    for z in zs if kernel.SYMMETRIC else ():
        here, there = (log_moment(oracle, at, COARSE) for at in (z, -1 - z))
        if here is None or there is None:
            check.note(f"no enclosure at {z}")
            continue
        check.record(0.0, z=str(z), theta=oracle.theta, enclosure=text(here))
        if not here.overlaps(there):
            check.fail(f"SYMMETRIC, but M({z}) is not M({-1 - z}) at {oracle.theta}")


def pieces(oracle: Oracle, xs: Sequence[float], check: Check) -> None:
    """The pieces that integrals use are the declared densities."""
    with ctx.workprec(160):
        parts, lattice = oracle.parts(), oracle.measure is Measure.LATTICE
        parts = [part.plain for part in parts]
        for x in xs:
            ball = arb(x)
            around = [p for p in parts if p.lo <= ball and ball <= p.hi]
            inside = [p for p in around if lattice or (p.lo < ball and ball < p.hi)]
            if around and not inside:
                continue
            for law in "pq":
                sides = [p.p if law == "p" else p.q for p in inside[:1]]
                logs = [side.log(ball, False) for side in sides if not side.is_zero]
                piece = (logs or [arb.neg_inf()])[0]
                declared = oracle.raw_log_density(law, ball)
                check.points += 1
                if not (piece.overlaps(declared) or piece == declared or declared.is_nan()):
                    check.fail(f"{law} at {x}: piece {text(piece)}, declared {text(declared)}, "
                               f"theta {oracle.theta}")  # fmt: skip


def one_sided(kernel: Any, oracle: Oracle, check: Check) -> None:
    """`log_infinite_mass` is log P(q = 0), to relative accuracy however small that is.

    That there is none is no refusal, far from typical parameters neither.
    """
    found = float(kernel.log_infinite_mass(np.array(oracle.theta)))
    with ctx.workprec(MOMENT_BITS):
        truth = oracle.infinite_mass()
        if math.isnan(found) and not is_closed(kernel, "infinite_mass"):
            check.note("left to quadrature")
            return
        truth = arb.neg_inf() if truth.is_zero() else truth.log()
        error = point_error(found, truth, check.tolerance, lambda: oracle.integral_sensitivity(
            lambda o: o.infinite_mass().log()), near_zero=1.0)  # fmt: skip
    if found == -math.inf and truth > -MOST_LOG:
        check.fail(f"no mass at infinite loss, and its log is {text(truth)}, {oracle.theta}")
    check.record(error, theta=oracle.theta, found=found, enclosure=text(truth))


def atoms(kernel: Any, oracle: Oracle, check: Check) -> None:
    """Atoms are those declared, each mass up to what rounding may make of its formula."""
    theta, check.tolerance = np.array(oracle.theta), tolerance(oracle.declaration, check)
    rows, (lost, _) = np.asarray(kernel.atoms(theta)), known_masses(kernel, theta)
    declared = {float(x.mid()): masses for x, *masses in oracle.atoms}
    empty = {x for x, masses in declared.items() if all(map(_vanishes, masses))}
    left = sorted(tuple(map(float, (*row, *loss))) for row, loss in zip(rows, lost, strict=True)
                  if max(row[1:]) > -math.inf)  # fmt: skip
    full, places = [row for row in left if row[0] not in empty], sorted(declared.keys() - empty)
    if len(full) != len(places):
        check.fail(f"{len(full)} atoms, {len(places)} declared, at {oracle.theta}")
        return
    nothing = [(row, row[0]) for row in left if row[0] in empty]
    for (place, *logs), x in (*zip(full, places, strict=True), *nothing):
        error = abs(place - x) / max(abs(x), 1.0)
        check.record(error, atom=x, theta=oracle.theta, found=place)
        for column, law in enumerate("pq"):
            truth, error = _atom_error(oracle, logs[column], logs[column + 2], x, column)
            check.record(error, atom=x, law=law, theta=oracle.theta, found=logs[column],
                         enclosure=text(truth))  # fmt: skip


def _atom_error(
    oracle: Oracle, found: float, loss: float, x: float, column: int
) -> tuple[Any, float]:
    """The log mass and its error; what cancels to zero is no more than rounding makes of it."""

    def mass(one: Oracle) -> Any:
        return next(masses for at, *masses in one.atoms if float(at.mid()) == x)[column]

    with ctx.workprec(ATOM_BITS):
        if not _vanishes(mass(oracle)):
            truth = mass(oracle).log()
            excess = abs(truth - found) - loss
            error = float((excess / abs(truth).max(arb(1))).upper())
            return truth, max(error, 0.0) if math.isfinite(found) else math.inf
        sensitivity, rest = oracle.integral_sensitivity(mass, NUDGE), math.exp(found)
        return arb.neg_inf(), rest / sensitivity if sensitivity else math.inf if rest else 0.0


def _vanishes(mass: Any) -> bool:
    """Zero, or what is left of it after terms cancelled at the border between two cases."""
    return bool(mass.contains(0) and mass.upper() < NOTHING)


def branches(kernel: Any, oracle: Oracle, xs: Sequence[float], check: Check) -> None:
    """Every branch is monotone as it says, proved where bisection succeeds, and within its ends."""
    rows = np.asarray(kernel.branches(np.array(oracle.theta)))
    margin = NEAR_ENDS * max(math.ulp(e) for e in (0.0, *rows[:, :2].flat) if math.isfinite(e))
    lattice = oracle.measure is Measure.LATTICE
    for row in rows:
        lo, hi, kind, *_ = row
        if lattice and any(math.isfinite(e) and e % 1 for e in (lo, hi)):
            check.fail(f"({lo}, {hi}) are no integers, theta {oracle.theta}")
        inside = [x for x in xs if lo < x < hi or (lattice and lo <= x <= hi)]
        losses = [(x, oracle.loss(x)) for x in inside]
        if kind in (P_ONLY, Q_ONLY):
            limit = arb.pos_inf() if kind == P_ONLY else arb.neg_inf()
            if any(v != limit for _, v in losses):
                check.fail(f"the loss on ({lo}, {hi}) is finite, theta {oracle.theta}")
        elif kind in (INCREASING, DECREASING, PLATEAU):
            _ordered(oracle, losses, row, check)
            _limits(oracle, losses, row, check)
            if kind != PLATEAU and oracle.measure is Measure.DENSITY:
                _proved(oracle, lo, hi, int(kind), inside, margin, check)
        elif kind != UNSPLIT:
            check.fail(f"kind {kind} of the branch ({lo}, {hi}) is none of the protocol's")
        check.points += 1


def coverage(kernel: Any, oracle: Oracle, far: bool, check: Check) -> None:
    """The branches and atoms of the kernel carry all mass of P and Q, none twice.

    Far from typical parameters enclosures may be wide: what is missing has to be proved there. And
    weights that were moved one at a time may not add up to one: such parameters make no law.
    """
    ends = [(lo, hi) for lo, hi, *_ in np.asarray(kernel.branches(np.array(oracle.theta)))]
    for law, column in (("p", 1), ("q", 2)):
        for bits in CLOSER:
            with ctx.workprec(bits):
                total = sum((row[column] for row in oracle.atoms), start=arb(0))
                total += sum((_mass_between(oracle, law, *row) for row in ends), start=arb(0))
            if total.rad() <= WIDTH / 2:
                break
        gap = float(abs(total - 1).lower() if far else abs(total - 1).upper())
        if far and gap > WIDTH < abs(oracle.mass(law) - 1).lower():
            continue
        check.record(gap, law=law, theta=oracle.theta, branches=len(ends))


def _mass_between(oracle: Oracle, law: str, lo: float, hi: float) -> Any:
    """Mass of a branch, whose ends are rounded: next to a pole an ulp carries mass."""
    if oracle.measure is Measure.LATTICE:
        return oracle.part_mass(law, lo - 1.0, hi)
    total = arb(0)
    for part in oracle.parts():
        ends = []
        for end in (lo, hi):
            room = oracle.end_rounding(end) + math.ulp(end) if math.isfinite(end) else 0.0
            sides = (-math.inf, part.plain.lo), (math.inf, part.plain.hi)
            ends.append(next((s for s, exact in sides if abs(exact - end) <= room), end))
        total += part.mass(law, *ends)
    return total


def _limits(oracle: Oracle, losses: Any, row: Any, check: Check) -> None:
    """The stated limits are those of the loss, where the ends are finite or losses have settled."""
    lo, hi, _, left, right, _ = row
    if len(losses) < 2 or oracle.measure is Measure.LATTICE:
        return
    for end, limit, (x, near), (_, before) in (
        (lo, left, losses[0], losses[1]),
        (hi, right, losses[-1], losses[-2]),
    ):
        if not math.isfinite(limit) or not near.is_finite():
            continue
        if math.isfinite(end):
            x = float(np.nextafter(end, x))
            near = oracle.loss(x)
        else:
            x, inner = FARTHER * x, near
            near = oracle.loss(x)
            if abs(inner - before) > SETTLED or not (
                abs(near - inner) <= SETTLED * max(abs(limit), SETTLED)
            ):
                continue
        scale = max(abs(limit), oracle.sensitivity(Oracle.raw_loss, x), SETTLED)
        # the true end may be an ulp away from the double
        rounding = abs(oracle.loss(float(np.nextafter(x, losses[len(losses) // 2][0]))) - near)
        room = LIMIT * scale + (rounding if rounding.is_finite() else 0)
        if end == 0 and near.is_finite() and abs(near - limit) > room:
            closer = arb(x) * arb(2) ** -BEYOND_DOUBLES  # what moves as log x has not settled there
            near = oracle.at(partial(oracle.raw_loss, closer))
            if not near.is_finite():
                check.fail(f"the loss has no enclosure next to {end}, theta {oracle.theta}")
        if near.is_finite() and abs(near - limit) > room:
            check.fail(f"limit {limit!r} at {end}, but the loss is {text(near)} at {x}, "
                       f"theta {oracle.theta}")  # fmt: skip


def _ordered(oracle: Oracle, losses: Any, row: Any, check: Check) -> None:
    """Values lie between the limits, which a lattice takes, and in the order of their branch."""
    lo, hi, kind, left, right, _ = row
    lowest, highest = (right, left) if kind == DECREASING else (left, right)  # nan where not known
    exact, last = tolerance(oracle.declaration, check), None
    for x, value in losses:
        if not value.is_finite():
            check.fail(f"the loss at {x} is {value}, inside a finite branch, {oracle.theta}")
            return
        room = exact * max(abs(value), arb(oracle.sensitivity(Oracle.raw_loss, x)))
        beyond = lowest if value < lowest else highest if value > highest else value
        if _differs(oracle, x, value, beyond, room, check):
            check.fail(f"loss {text(value)} at {x} is outside [{lowest}, {highest}] of the branch "
                       f"({lo}, {hi}), theta {oracle.theta}")  # fmt: skip
        limit = left if x == lo else right if x == hi else math.nan
        if oracle.measure is Measure.LATTICE and _differs(oracle, x, value, limit, room, check):
            check.fail(f"limit {limit!r} at {x}, but the loss is {text(value)}, {oracle.theta}")
        if last is not None and kind * (value - last) < -room:
            check.fail(f"not monotone near {x} on ({lo}, {hi}), theta {oracle.theta}")
        last = value


def _differs(oracle: Oracle, x: float, value: Any, limit: Any, room: Any, check: Check) -> bool:
    """Whether a loss is not a stated limit, to the digits that the difference of two logs has."""
    exact = tolerance(oracle.declaration, check)
    return bool(abs(value - limit) > room) and listed(oracle, 1.0, x, limit, check, exact) > exact


def _proved(
    oracle: Oracle, lo: float, hi: float, direction: int, inside: Sequence[float], margin: float,
    check: Check,
) -> None:  # fmt: skip
    """The sign of dL/dx on a branch: bisection between tested points, order at infinity beyond."""
    line = shape_proofs.Line(oracle.declaration.variable, oracle.values)
    for part in (part.plain for part in oracle.parts() if part.is_shared):
        a, b = max(lo, float(part.lo.mid())), min(hi, float(part.hi.mid()))
        first, last = a + margin, b - margin
        points = [v for v in inside if first < v < last]
        if len(points) < 2:
            continue
        points = [v for v in (first, *points, last) if math.isfinite(v)]
        verdict = shape_proofs.verdict(part.piece, line, points, (a, b), direction)
        if verdict == shape_proofs.Verdict.OPPOSITE:
            check.fail(f"L' on ({lo}, {hi}) has the opposite sign, theta {oracle.theta}")
        check.note(f"sign of L' {verdict.words}")


def unimodality(oracle: Oracle, xs: Sequence[float], check: Check) -> None:
    """The noise of a shifted pair rises and then falls: proved, or compared at outputs."""
    noise = shape_proofs.noise_of(oracle.declaration)
    if noise is None:
        return
    check.points += 1
    if claim_of(oracle.declaration).theorem is None:  # T1 needs a unimodal noise
        check.note("the noise is not unimodal, and the claim says so")
        return
    density = Oracle(noise, [float(oracle.values[p.symbol]) for p in noise.parameters])
    broken, unproved = shape_proofs.unimodal_verdict(density)
    if broken is None and unproved is not None:
        check.note(f"sampled, not proved: {unproved}")
        logs = [v for v in (density.log_density("p", x) for x in xs) if v.is_finite()]
        signs = [b > a for a, b in itertools.pairwise(logs) if a > b or b > a]
        broken = "the density rises again" if signs != sorted(signs, reverse=True) else None
    elif broken is None:
        check.note("proved")
    if broken is not None:
        check.fail(f"{broken}, theta {oracle.theta}")


def strip(kernel: Any, oracle: Oracle, check: Check) -> None:
    """M(t) is finite, with a bound, close to the ends of the strip that the kernel states."""
    lo, hi = (float(v) for v in kernel.strip(np.array(oracle.theta)))
    if not lo <= -1.0 <= 0.0 <= hi:
        check.fail(f"strip ({lo}, {hi}) does not hold [-1, 0], theta {oracle.theta}")
    for end, inner in ((lo, -1.0), (hi, 0.0)):
        far, near = (  # where there is no end, far out
            math.copysign(UNBOUNDED_TILT, end) if math.isinf(end) else end + share * (inner - end)
            for share in (FROM_END, TO_END)
        )
        with ctx.workprec(64):
            try:
                if oracle.is_bounded(far):
                    # bounds follow exponents exactly: what proves the one proves the other
                    close = oracle.is_bounded(near)
                    check.record(0.0 if close else math.inf, t=near, theta=oracle.theta)
                    continue
                moment = oracle.moment(acb(far)).real
            except MechcError as error:
                check.fail(f"M({far}) is not bounded: {error}; strip ({lo}, {hi}), {oracle.theta}")
                continue
        check.record(0.0 if moment.is_finite() else math.inf, t=far, theta=oracle.theta,
                     enclosure=text(moment))  # fmt: skip


def lattice(kernel: Any, oracle: Oracle, xs: Sequence[float], check: Check) -> None:
    """All finite losses are offset + step * integer where the kernel says so."""
    offset, step = (float(v) for v in kernel.lattice(np.array(oracle.theta)))
    if math.isnan(step):
        return
    # where pieces meet the declaration may have another loss, at a point that has no mass
    parts = oracle.parts() if oracle.measure is Measure.DENSITY else ()
    null = {float(end.mid()) for part in parts for end in (part.plain.lo, part.plain.hi)}
    points = xs if oracle.measure is not Measure.FINITE else ()
    losses = [(x, oracle.loss(x)) for x in points if x not in null]
    with ctx.workprec(160):
        losses += [(float(x.mid()), (p / q).log()) for x, p, q in oracle.atoms if p > 0 and q > 0]
    for x, value in losses:
        if value.is_finite():
            position = float(((value - offset) / step).mid())
            error = abs(position - round(position)) / max(1.0, abs(position))
            check.record(error, x=x, theta=oracle.theta, step=step)
