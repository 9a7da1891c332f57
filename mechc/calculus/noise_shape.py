"""The shape of a noise density: unimodal, symmetric, log-concave, Gaussian; proved or only sampled.

Unimodal means: non-decreasing up to some point and non-increasing after it, jumps included. It is
proved by the signs of the derivative of the log density between its zeros, and on pieces where
those are out of reach by concavity of the log density, which allows one change from up to down. So
does a convolution of a log-concave law with exponential ones (Prekopa 1973), which is told by the
differential operators that undo them. A lattice is treated as the real pieces through its points:
unimodal there, unimodal here.

Log-concave, which theorems T3 and T8 ask for, means: concave on every piece, continuous where
pieces meet, with a slope that does not grow there; on the integers the three increments around a
joint must fall.

Signs of derivatives say something about a function only where it has no jump and no pole: cos(x)^2
has a concave logarithm between its zeros and many maxima. So a log density must be proved
continuous inside its piece, by its structure. What is not proved counts as false.

At given parameters `slope_of` has the slope of a log density as numbers, for radial profiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import sympy as sp
from sympy import Add, Dummy, Expr, S, Symbol, exp, log, oo
from sympy import together as over_one

from mechc.calculus.cases import MAX_SPLITS, Case, Piece, by_cases, explored, log_sum
from mechc.calculus.checks import Checker
from mechc.calculus.structure import reflections
from mechc.calculus.terms import Term, total
from mechc.declare.declaration import Declaration
from mechc.errors import UnsupportedError
from mechc.protocol import LOG_CONCAVE, Floats, Measure
from mechc.symbolic import evaluate
from mechc.symbolic.curvature import curvature
from mechc.symbolic.evaluate import Evaluator, Theta
from mechc.symbolic.facts import Facts, Undecided
from mechc.symbolic.functions import log_besselk
from mechc.symbolic.monotone import is_smooth, monotone_parts
from mechc.symbolic.rewrite import factored, split_exponent, tidy
from mechc.symbolic.signs import proved, weak_sign
from mechc.symbolic.typical import typical_vectors

UP, DOWN, FLAT = 1, -1, 0  # sign of the slope of a log density
# up and then down, or one of them: what a concave log density does
PEAK = 2
EVERY = 16  # of the points where doubles do not tell, at how many two maxima are looked for
VECTORS = 16  # at which two maxima are looked for


class Shape(NamedTuple):
    """What is known; None means neither proved nor refuted."""

    unimodal: bool | None
    symmetric: bool | None
    how: str


def shape_of(noise: Declaration) -> Shape:
    """The shape of the density `noise.p`: true if proved, not unimodal if samples refute it."""
    cases = explored(noise)
    symmetric = True if centre_of(noise) is not None else None
    proofs = [_proof(case.pieces, noise.variable, facts) for facts, case in cases]
    if None not in proofs:
        words, x = dict.fromkeys(p for p in proofs if p), Dummy("x", real=True)
        if all(_concave_logs(case.pieces, noise.variable, x, facts) for facts, case in cases):
            words[LOG_CONCAVE] = None
        return Shape(True, symmetric, "; ".join(words))
    for _, case in cases:
        refuted = _refutation(noise, case)
        if refuted:
            return Shape(False, symmetric, refuted)
    return Shape(None, symmetric, "sampled at typical parameters, not proved")


def _proof(pieces: Sequence[Piece], variable: Symbol, facts: Facts) -> str | None:
    """How unimodality follows, None when it could not be proved."""
    try:
        directions = _all_directions(pieces, variable, facts)
    except (_Unknown, UnsupportedError):
        return None
    except Undecided as undecided:
        if len(facts.known) >= MAX_SPLITS:
            return None
        cases = (facts.assume(undecided.expr, sign) for sign in (1, -1))
        proofs = [_proof(pieces, variable, case) for case in cases]
        return None if None in proofs else max(p for p in proofs if p)
    rising = True
    for direction in directions:
        if direction in (UP, PEAK) and not rising:
            return None
        rising = rising and direction in (UP, FLAT)
    return "log-concave pieces" if PEAK in directions else "signs of the derivative"


def _all_directions(pieces: Sequence[Piece], variable: Symbol, facts: Facts) -> list[int]:
    """The directions of the density from left to right, jumps included."""
    x = Dummy("x", real=True)
    directions: list[int] = []
    last: tuple[Expr, tuple[Term, ...]] | None = None
    for piece in pieces:
        if variable.is_integer and weak_sign(piece.hi - piece.lo, facts) not in (0, 1):
            # the steps below would lead through points that the piece may not have
            raise _Unknown
        terms = tuple(Term(t.weight, t.log_density.subs(variable, x)) for t in piece.p)
        directions.append(_jump(last, piece.lo, terms, x, variable, facts))
        try:
            directions += _directions(piece, terms, x, facts)
        except _Unknown:
            if not variable.is_integer or len(terms) != 1:
                raise
            directions.append(_by_steps(piece, terms[0].log_density, x, facts))
        last = (piece.hi, terms)
    return directions


def _by_steps(piece: Piece, log_mass: Expr, x: Symbol, facts: Facts) -> int:
    """The direction along integers, by the ratio of neighbouring masses."""
    # A ratio that exceeds one by (a + b x)/c with b <= 0 < c, or one that falls, leads up and then
    # down. So do masses I_n(z), log-concave as those of differences of Poisson variables.
    function = tidy(log_mass, x).as_independent(x, as_Add=True)[1]
    bessel = function.args[0] if isinstance(function, log) else None
    if isinstance(bessel, sp.besseli) and bessel.order.has(x) and not bessel.argument.has(x):
        steady = (bessel.order + x).is_number or (bessel.order - x).is_number
        if steady and bessel.argument.is_positive:
            return PEAK
    step = function.subs(x, x + 1) - function
    for node in sorted(function.atoms(sp.loggamma), key=str):
        u = node.args[0]
        change = sp.expand(u.subs(x, x + 1) - u)
        if change in (1, -1):
            factor = log(u) if change == 1 else -log(u - 1)
            step = step.xreplace({node.func(u.subs(x, x + 1)): node + factor})
    here = facts.within(x, piece.lo, piece.hi)
    step = sp.expand(step)
    if step.atoms(sp.loggamma) or not is_smooth(step, x, here):
        raise _Unknown
    excess, scale = sp.fraction(factored(over_one(exp(step) - 1)))
    side = weak_sign(scale, here)
    straight = excess.as_poly(x)
    if side and straight is not None and straight.degree() == 1:
        slope = weak_sign(straight.coeff_monomial(x), facts)
        if slope is not None and slope * side <= 0:
            return PEAK
    if weak_sign(factored(over_one(sp.diff(step, x))), here) in (DOWN, FLAT):
        return PEAK
    raise _Unknown


class _Unknown(Exception):
    """A direction could not be proved."""


def _jump(
    last: tuple[Expr, tuple[Term, ...]] | None,
    lo: Expr,
    terms: tuple[Term, ...],
    x: Symbol,
    variable: Symbol,
    facts: Facts,
) -> int:
    """Up or down from the end of the last piece to the start of this one."""
    if last is None:
        return UP
    end, before = last
    if end + (1 if variable.is_integer else 0) != lo:
        raise _Unknown
    change = None
    if len(terms) == len(before) == 1:
        ratio = terms[0].weight / before[0].weight
        gap = terms[0].log_density.subs(x, lo) - before[0].log_density.subs(x, end)
        if ratio == 1:
            change = gap
            if gap.has(log) and weak_sign(sp.expand(gap), facts) is None:
                # the logarithm of a ratio has the sign of what the ratio exceeds one by
                change = factored(over_one(exp(gap) - 1))
        elif ratio.count_ops() < before[0].weight.count_ops():  # without what all pieces share
            change = ratio * exp(gap) - 1
    if change is None:
        change = total(terms).subs(x, lo) - total(before).subs(x, end)
    if not change.is_finite and (change.has(oo, sp.zoo, sp.nan) or change.atoms(log_besselk)):
        return PEAK  # a pole: up or down, so there may be nothing but a fall after it
    found = weak_sign(sp.expand(change), facts)
    if found is None:
        raise _Unknown
    return found


def _directions(piece: Piece, terms: tuple[Term, ...], x: Symbol, facts: Facts) -> list[int]:
    """Directions along one piece, of all terms between the same turning points."""
    inside = facts.within(x, piece.lo, piece.hi)
    if not all(is_smooth(t.log_density, x, inside) for t in terms):
        raise _Unknown
    laws = [monotone_parts(t.log_density, x, piece.lo, piece.hi, facts) for t in terms]
    found: list[int] = []
    for parts in zip(*(parts for parts, _ in laws), strict=False):
        directions = {part.direction for part in parts} - {FLAT} or {FLAT}
        if len({(part.lo, part.hi) for part in parts}) > 1 or len(directions) > 1:
            raise _Unknown
        found.append(directions.pop())
    if None not in found:
        return found
    for question in (question for _, question in laws if question is not None):
        raise Undecided(question)
    if len(terms) == 1 and is_concave(terms[0].log_density, x, inside):
        return [PEAK]
    if (piece.lo, piece.hi) == (-oo, oo) and _is_convolution(terms, x, inside):
        return [PEAK]
    raise _Unknown


def is_concave(log_density: Expr, x: Symbol, here: Facts) -> bool:
    """Prove concavity by the second derivative, of the whole or of every summand."""
    if weak_sign(factored(over_one(sp.diff(log_density, x, 2))), here) in (DOWN, FLAT):
        return True
    return all(
        weak_sign(sp.diff(part, x, 2), here) in (DOWN, FLAT) or _bends_down(part, x, here)
        for part in Add.make_args(log_density)
    )


def _is_convolution(terms: Sequence[Term], x: Symbol, here: Facts) -> bool:
    """Whether a density on the line is a log-concave one convolved with exponential densities."""
    # Where f - f'/k = g, f is g convolved with the density abs(k) exp(k t) of one side, but for a
    # multiple of exp(k x), which no density contains.
    if x.is_integer or not all(t.log_density.has(sp.erfc) for t in terms):
        return False
    density, rates = total(terms), {sp.expand(t.log_density).coeff(x, 1) for t in terms}
    if not all(proved(rate, here) for rate in rates):
        return False
    for rate in rates:
        density = sp.expand(density - sp.diff(density, x) / rate, power_exp=False)
    weights: dict[Expr, Expr] = {}
    for part in Add.make_args(density):
        weight, exponent = split_exponent(part)
        exponent = sp.expand(exponent)
        weights[exponent] = weights.get(exponent, S.Zero) + weight
    left = [(e, w) for e, weight in weights.items() if (w := factored(over_one(weight))) != 0]
    return len(left) == 1 and all(
        not w.has(x) and weak_sign(w, here) == UP and is_concave(e, x, here) for e, w in left
    )


def _bends_down(part: Expr, x: Symbol, here: Facts) -> bool:
    """Concave by the rules of composition."""
    try:
        return curvature(part, x, here) in (DOWN, FLAT)
    except Undecided:
        return False


def is_log_concave(noise: Declaration) -> bool:
    """Whether log p was proved concave on the support, which was proved to be an interval."""
    try:
        cases = explored(noise)
        return all(_concave(case.pieces, noise.variable, facts) for facts, case in cases)
    except (UnsupportedError, Undecided):
        return False


def is_gaussian(noise: Declaration) -> bool:
    """Whether the density is that of a normal law: one piece, a quadratic exponent."""
    try:
        cases = explored(noise)
    except UnsupportedError:
        return False
    pieces = [piece for _, case in cases for piece in case.pieces]
    whole = [p for p in pieces if (p.lo, p.hi) == (-oo, oo) and len(p.p) == 1]
    exponents = [p.p[0].log_density.as_poly(noise.variable) for p in whole]
    normal = [e for e in exponents if e is not None and e.degree() == 2]
    return len(normal) == len(pieces) > 0


def _concave_logs(pieces: Sequence[Piece], variable: Symbol, x: Dummy, facts: Facts) -> list[Expr]:
    """Log densities, of a real x, of pieces of one term each, all proved concave; else none."""
    if any(len(piece.p) != 1 for piece in pieces):
        return []
    logs = [log(p.p[0].weight) + p.p[0].log_density.subs(variable, x) for p in pieces]
    for piece, ell in zip(pieces, logs, strict=True):
        here = facts.within(x, piece.lo, piece.hi)
        if not (is_smooth(ell, x, here) and is_concave(ell, x, here)):
            return []
    return logs


def _concave(pieces: Sequence[Piece], variable: Symbol, facts: Facts) -> bool:
    x = Dummy("x", real=True)
    if not pieces or any(len(piece.p) != 1 for piece in pieces):
        if [(piece.lo, piece.hi) for piece in pieces] != [(-oo, oo)]:
            return False
        whole = [Term(t.weight, t.log_density.subs(variable, x)) for t in pieces[0].p]
        return _is_convolution(whole, x, facts.within(x, -oo, oo))
    logs = _concave_logs(pieces, variable, x, facts)
    if not logs:
        return False
    joint = _falls_on_integers if variable.is_integer else _falls
    joints = zip(pairwise(pieces), pairwise(logs), strict=True)
    return all(joint(left, right, u, v, x, facts) for (left, right), (u, v) in joints)


def _falls(left: Piece, right: Piece, u: Expr, v: Expr, x: Symbol, facts: Facts) -> bool:
    """No gap, no jump, no upward kink."""
    if left.hi != right.lo:
        return False
    jump = _flat((v - u).subs(x, right.lo))
    kink = _flat((sp.diff(v, x) - sp.diff(u, x)).subs(x, right.lo))
    return jump == 0 and weak_sign(kink, facts) in (-1, 0)


def _falls_on_integers(
    left: Piece, right: Piece, u: Expr, v: Expr, x: Symbol, facts: Facts
) -> bool:
    """Increments before, across and after the joint do not grow."""
    if left.hi + 1 != right.lo or left.lo != -oo or right.hi != oo:
        return False
    at = right.lo
    across = v.subs(x, at) - u.subs(x, at - 1)
    before = u.subs(x, at - 1) - u.subs(x, at - 2)
    after = v.subs(x, at + 1) - v.subs(x, at)
    steps = (_flat(across - before), _flat(after - across))
    return all(weak_sign(step, facts) in (-1, 0) for step in steps)


def _flat(expr: Expr) -> Expr:
    return sp.expand(sp.expand_log(sp.expand(expr)))


def centre_of(noise: Declaration) -> Expr | None:
    """The c with p(x) = p(2c - x), proved; None where there is none or no proof."""
    x = noise.variable
    if sp.expand(noise.p.subs(x, -x) - noise.p, multinomial=False) == 0:
        return S.Zero
    exact = Checker(x, ())  # without places: nothing by numbers
    pieces = [case.pieces for case in by_cases(noise)]
    sums = [list(reflections(parts, exact)) for parts in pieces if parts]
    shared = (twice for twice in sums[0] if all(twice in others for others in sums)) if sums else ()
    return next((twice / 2 for twice in shared if twice.is_finite), None)


def _refutation(noise: Declaration, case: Case) -> str | None:
    """A parameter vector at which the density visibly has two maxima."""
    parameters, x = noise.parameters, noise.variable
    logs = [Evaluator(log_sum(p.p), x, parameters) if p.p else None for p in case.pieces]
    parts = [t.log_density for p in case.pieces for t in p.p]
    centres = evaluate.centres(parts, [e for p in case.pieces for e in (p.lo, p.hi)], x)
    for theta in typical_vectors(parameters, VECTORS, case.condition):
        middles = [evaluate.value(c, parameters, theta) for c in centres] or [0.0]
        heights = [
            log.at(theta, EVERY)(_grid(piece, noise, theta, middles))
            for piece, log in zip(case.pieces, logs, strict=True)
            if log is not None
        ]
        if _two_maxima(np.concatenate(heights)):
            named = zip(parameters, theta, strict=True)
            return "two maxima at " + ", ".join(f"{p.name}={v:.4g}" for p, v in named)
    return None


def _grid(piece: Piece, noise: Declaration, theta: Theta, middles: list[float]) -> Floats:
    """Points of the piece at every distance from the middles."""
    lo, hi = (evaluate.value(end, noise.parameters, theta) for end in (piece.lo, piece.hi))
    if noise.measure is Measure.LATTICE:
        away = np.arange(-2000.0, 2001.0)
        points = np.concatenate([np.round(m) + away for m in middles])
    else:
        away = np.geomspace(1e-6, 1e6, 1000)
        points = np.concatenate([np.concatenate([m - away, [m], m + away]) for m in middles])
    return np.unique(points[(points >= lo) & (points <= hi)])


def _two_maxima(heights: Floats) -> bool:
    """Whether the sequence rises after it has fallen, beyond rounding."""
    heights = heights[np.isfinite(heights)]
    changes = np.diff(heights)
    changes = changes[np.abs(changes) > 1e-9 * (1 + np.abs(heights[1:]))]
    falls = np.flatnonzero(changes < 0)
    return bool(falls.size and (changes[falls[0] :] > 0).any())


def slope_of(
    noise: Declaration, theta: Theta
) -> tuple[Callable[[Floats], Floats], tuple[float, ...]]:
    """How the density of Q falls on positive numbers.

    Returns:
        A function of x > 0, x times the derivative of the log density; and the positive numbers at
        which the formula of the density changes.
    """
    parameters, x = noise.parameters, noise.variable
    cases = by_cases(replace(noise, p=noise.q, construction=None))
    case = next(c for c in cases if evaluate.holds_at(c.condition, parameters, theta))
    given = {p.symbol: sp.Float(t) for p, t in zip(parameters, theta, strict=True)}
    pieces = []
    for piece in case.q:
        lo, hi = (evaluate.value(end, parameters, theta) for end in (piece.lo, piece.hi))
        if max(lo, 0.0) < hi:
            logs = [(term.log_density + log(term.weight)).xreplace(given) for term in piece.q]
            both = [(part, x * part.diff(x)) for part in logs]
            terms = [[Evaluator(e, x, ()).at(()) for e in pair] for pair in both]
            pieces.append((max(lo, 0.0), hi, terms))

    def slope(places: Floats) -> Floats:
        out = np.full(places.size, math.nan)
        for lo, hi, terms in pieces:
            here = (lo < places) & (places <= hi)
            slopes = np.array([change(places[here]) for _, change in terms])
            if len(terms) > 1:  # the share of each term in the density
                logs = np.array([value(places[here]) for value, _ in terms])
                share = np.exp(logs - logs.max(axis=0))
                slopes *= share / share.sum(axis=0)
            out[here] = slopes.sum(axis=0)
        return out

    corners = {end for lo, hi, _ in pieces for end in (lo, hi) if 0.0 < end < math.inf}
    return slope, tuple(sorted(corners))
