"""The shape of a noise density: unimodal or not, symmetric or not, proved or only sampled.

Unimodal means: non-decreasing up to some point and non-increasing after it, jumps included. It is
proved by the signs of the derivative of the log density between its zeros, and on pieces where
those are out of reach by concavity of the log density, which allows one change from up to down. On
either way the log density must be proved continuous inside its piece.
A lattice is treated as the real pieces through its points: unimodal there, unimodal here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sympy import (
    Abs,
    Add,
    Dummy,
    Expr,
    Mul,
    S,
    Symbol,
    diff,
    erfc,
    exp,
    expand,
    fraction,
    log,
    oo,
)
from sympy import together as over_one

from mechc import numeric
from mechc.cases import MAX_SPLITS, Case, Piece, by_cases, explored, log_sum
from mechc.continuity import is_continuous
from mechc.declare import Declaration
from mechc.errors import UnsupportedError
from mechc.factoring import factored
from mechc.numeric import Evaluator, Floats, Theta
from mechc.order import Facts, Undecided
from mechc.pieces import split
from mechc.terms import Term

UP, DOWN, FLAT = 1, -1, 0
# up and then down, or one of them: what a concave log density does
PEAK = 2
VECTORS = 4


class Shape(NamedTuple):
    """What is known; None means neither proved nor refuted."""

    unimodal: bool | None
    symmetric: bool | None
    how: str


def shape_of(noise: Declaration) -> Shape:
    """The shape of the density `noise.p`.

    Args:
        noise: a declaration whose `p` and `q` are both the noise.

    Returns:
        `unimodal` is True only when proved and False only when samples refute it; `symmetric` is
        True only when proved.
    """
    cases = explored(noise)
    symmetric = True if centre_of(noise) is not None else None
    proofs = [_proof(case.pieces, noise.variable, facts) for facts, case in cases]
    if None not in proofs:
        return Shape(True, symmetric, "; ".join(dict.fromkeys(p for p in proofs if p)))
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
        cases = (facts.assuming(undecided.expr, positive) for positive in (True, False))
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
        if variable.is_integer and facts.sign(piece.hi - piece.lo) not in (0, 1):
            # the steps below would lead through points that the piece may not have
            raise _Unknown
        terms = tuple(Term(t.weight, t.log_density.subs(variable, x)) for t in piece.p)
        directions.append(_jump(last, piece.lo, terms, x, variable, facts))
        directions += _directions(piece, terms, x, facts)
        last = (piece.hi, terms)
    return directions


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
    change = _at(terms, x, lo) - _at(before, x, end)
    if len(terms) == len(before) == 1 and terms[0].weight == before[0].weight:
        change = terms[0].log_density.subs(x, lo) - before[0].log_density.subs(x, end)
        if change.has(log) and facts.sign(expand(change)) is None:
            # the logarithm of a ratio has the sign of what the ratio exceeds one by
            change = factored(over_one(exp(change) - 1))
    return _known(facts.sign(expand(change)))


def _at(terms: tuple[Term, ...], x: Symbol, place: Expr) -> Expr:
    return Add(*(t.weight * exp(t.log_density.subs(x, place)) for t in terms))


def _known(sign: int | None) -> int:
    if sign is None:
        raise _Unknown
    return sign


def _directions(piece: Piece, terms: tuple[Term, ...], x: Symbol, facts: Facts) -> list[int]:
    """Directions along one piece."""
    inside = facts.on(x, piece.lo, piece.hi)
    if not all(is_continuous(t.log_density, x, inside) for t in terms):
        raise _Unknown
    slopes = [factored(over_one(diff(t.log_density, x))) for t in terms]
    turning = {f for s in slopes for f in Mul.make_args(fraction(s)[0]) if _can_cut(f, x)}
    marks = tuple(Abs(f) for f in sorted(turning, key=str)) or (x,)
    found: list[int] = []
    for stretch in split(marks, x, piece.lo, piece.hi, facts):
        here = facts.on(x, stretch.lo, stretch.hi)
        signs = {here.sign(s) for s in slopes}
        if signs <= {UP, FLAT} or signs <= {DOWN, FLAT}:
            found.append(UP if UP in signs else DOWN if DOWN in signs else FLAT)
        elif len(terms) == 1 and is_concave(terms[0].log_density, slopes[0], x, here):
            found.append(PEAK)
        else:
            raise _Unknown
    return found


def is_concave(log_density: Expr, slope: Expr, x: Symbol, here: Facts) -> bool:
    """Prove concavity by the second derivative, of the whole or of every summand."""
    if here.sign(factored(over_one(diff(slope, x)))) in (DOWN, FLAT):
        return True
    return all(
        _is_log_normal_tail(part, x, here) or here.sign(diff(part, x, 2)) in (DOWN, FLAT)
        for part in Add.make_args(log_density)
    )


def _is_log_normal_tail(part: Expr, x: Symbol, here: Facts) -> bool:
    """Whether this is a multiple of log erfc(a x + b), concave as the log of a normal integral."""
    factors, function = part.as_independent(x, as_Add=False)
    if not isinstance(function, log) or here.sign(factors) not in (0, 1):
        return False
    constant, rest = function.args[0].as_coeff_Add()
    coefficient, tail = rest.as_coeff_Mul()
    # 2 - erfc(u) is erfc(-u)
    if constant not in (0, -2 * coefficient) or not isinstance(tail, erfc):
        return False
    poly = tail.args[0].as_poly(x)
    return poly is not None and poly.degree() == 1


def _can_cut(part: Expr, x: Symbol) -> bool:
    poly = part.as_poly(x)
    return poly is not None and poly.degree() in (1, 2)


def centre_of(noise: Declaration) -> Expr | None:
    """The c with p(x) = p(2c - x), proved; None where there is none or no proof.

    Args:
        noise: as for `shape_of`.
    """
    x = noise.variable
    for centre in _possible_centres(noise):
        mirrored = replace(noise, q=noise.p.subs(x, 2 * centre - x))
        try:
            pieces = [piece for case in by_cases(mirrored) for piece in case.pieces]
        except UnsupportedError:
            continue
        if all(_same(piece, x, centre) for piece in pieces):
            return centre
    return None


def _possible_centres(noise: Declaration) -> list[Expr]:
    """Zero, the turning points of the exponents, and the middle of a bounded support."""
    cases = [case.pieces for case in by_cases(noise) if case.pieces]
    logs = [t.log_density for pieces in cases for p in pieces for t in p.p]
    middles = [(pieces[0].lo + pieces[-1].hi) / 2 for pieces in cases]
    found = [S.Zero, *numeric.centres(logs, [], noise.variable), *middles]
    return [c for c in dict.fromkeys(found) if c.is_finite]


def _same(piece: Piece, x: Symbol, centre: Expr) -> bool:
    """Whether P and Q have the same terms on the piece."""
    if len(piece.p) != len(piece.q):
        return False
    places = [p for p in (centre, piece.lo, piece.hi) if p not in (oo, -oo)]
    rest = list(piece.q)
    for term in piece.p:
        partner = next((t for t in rest if t.weight == term.weight and _is_zero(
            term.log_density - t.log_density, x, places)), None)  # fmt: skip
        if partner is None:
            return False
        rest.remove(partner)
    return True


def _is_zero(difference: Expr, x: Symbol, places: list[Expr]) -> bool:
    """Proof that an analytic expression vanishes: everywhere by expansion, or by its derivative."""
    if expand(difference) == 0:
        return True
    numerator = fraction(over_one(expand(diff(difference, x))))[0]
    return expand(numerator) == 0 and any(expand(difference.subs(x, p)) == 0 for p in places)


def _refutation(noise: Declaration, case: Case) -> str | None:
    """A parameter vector at which the density visibly has two maxima."""
    parameters, x = noise.parameters, noise.variable
    logs = [Evaluator(log_sum(p.p), x, parameters) if p.p else None for p in case.pieces]
    parts = [t.log_density for p in case.pieces for t in p.p]
    centres = numeric.centres(parts, [e for p in case.pieces for e in (p.lo, p.hi)], x)
    for theta in numeric.typical_vectors(parameters, VECTORS):
        if not numeric.holds(case.condition, parameters, theta):
            continue
        middles = [numeric.value(c, parameters, theta) for c in centres] or [0.0]
        heights = [
            log.at(theta)(_grid(piece, noise, theta, middles))
            for piece, log in zip(case.pieces, logs, strict=True)
            if log is not None
        ]
        if _two_maxima(np.concatenate(heights)):
            named = zip(parameters, theta, strict=True)
            return "two maxima at " + ", ".join(f"{p.name}={v:.4g}" for p, v in named)
    return None


def _grid(piece: Piece, noise: Declaration, theta: Theta, middles: list[float]) -> Floats:
    """Points of the piece at every distance from the middles."""
    lo, hi = (numeric.value(end, noise.parameters, theta) for end in (piece.lo, piece.hi))
    if noise.measure == "lattice":
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
