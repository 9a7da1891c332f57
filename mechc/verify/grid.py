"""Where a kernel is compared with its declaration: parameter vectors, outputs, tilts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from sympy import Basic, Eq, Expr, Symbol
from sympy.core.relational import Relational

from mechc import numeric
from mechc.calculus.evaluate import typical_values
from mechc.calculus.facts import eliminations
from mechc.cases import by_cases
from mechc.declare import Declaration
from mechc.parameters import Parameter
from mechc.verify.ball import Oracle

LOWEST_LOG = -700.0  # how deep into the tails
FARTHEST = 1e150
CLOSEST = 2.0**-12
CORNERS = 8
# shares off the border between two cases; the first and last are an ulp or two
CLOSE = (-(2.0**-52), -(2.0**-31), 0.0, 2.0**-31, 2.0**-52)


def vectors(declaration: Declaration, count: int, corners: bool) -> list[tuple[float, ...]]:
    """Typical parameter vectors, and corners of the typical ranges: eight, or three if not all.

    The three are such that every parameter is once above and once below every other one. A case
    of the pair that no typical vector reaches gets one from outside the typical ranges.
    """
    parameters = declaration.parameters
    found = [tuple(map(float, v)) for v in numeric.typical_vectors(parameters, count)]
    ends = [tuple(map(float, v)) for v in itertools.product(*(p.typical for p in parameters))]
    if corners:
        found += ends[:CORNERS]
    else:
        rising = [ends[0], *(
            tuple(p.typical[(i + side) % 2] for i, p in enumerate(parameters)) for side in (0, 1)
        )]  # fmt: skip
        found += [tuple(map(float, v)) for v in rising]
    conditions = [case.condition for case in by_cases(declaration)]
    for condition in conditions if len(conditions) > 1 else ():
        if not any(numeric.holds(condition, parameters, v) for v in found):
            outside = typical_values(parameters, condition, eliminations(condition))
            found += [tuple(float(v) for v in t.values()) for t in itertools.islice(outside, 1)]
    found += _next_to_cases(parameters, conditions, tuple(found), CLOSE if corners else CLOSE[1:4])
    return list(dict.fromkeys(found))


def _next_to_cases(
    parameters: tuple[Parameter, ...], conditions: Sequence[Basic],
    bases: Sequence[tuple[float, ...]], shifts: Sequence[float],
) -> Iterator[tuple[float, ...]]:  # fmt: skip
    """Vectors on, just below and just above the border between two cases of the pair.

    Only there does a border that is slightly off exchange formulas.
    """
    for relation in sorted(set().union(*(c.atoms(Relational) for c in conditions)), key=str):
        solved = eliminations(Eq(relation.lhs, relation.rhs))
        for base in bases:
            near = [_moved(parameters, base, solved, shift) for shift in shifts]
            inside = [v for v in near if v is not None]
            reached = {tuple(numeric.holds(c, parameters, v) for c in conditions) for v in inside}
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
            border = numeric.value(solved[p.symbol], parameters, base)
            off = math.copysign(1.0, shift) if p.integer and shift else border * shift
            values[i] = border + off
            if not p.contains(values[i]):
                return None
    return tuple(values)


def outputs(oracle: Oracle, breakpoints: Sequence[float], rng: np.random.Generator, count: int
) -> list[float]:  # fmt: skip
    """Outputs: breakpoints and their neighbours, tails to the smallest densities, random ones.

    Args:
        oracle: the pair.
        breakpoints: finite ends of branches.
        rng: for the random points.
        count: number of random points.
    """
    if oracle.measure == "finite":
        places = [float(row[0].mid()) for row in oracle.atoms]
        return sorted({x + d for x in places for d in (-0.5, 0.0, 0.5)})
    lattice = oracle.measure == "lattice"
    finite = sorted({float(b) for b in breakpoints if math.isfinite(b)})
    found = [p for b in finite for p in (np.nextafter(b, -np.inf), b, np.nextafter(b, np.inf))]
    centres = finite or [0.0]
    reach = []
    for side in (-1.0, 1.0):
        edge = centres[0] if side < 0 else centres[-1]
        tail = list(_outward(oracle, edge, side))
        reach.append(tail[len(tail) // 2] if tail else edge)
        found += tail
    lo, hi = min(*reach, *centres), max(*reach, *centres)
    found += list(rng.uniform(lo, hi, count))
    for a, b in itertools.pairwise(finite):
        found += [a + (b - a) * f for f in (1e-6, 0.01, 0.3, 0.5, 0.77, 0.999)]
    if lattice:
        steps = [c + d for c in centres for d in range(-3, 4)]
        found = [float(np.rint(p)) for p in (*found, *steps) if abs(p) < 1e9]
    return sorted({float(p) for p in found if math.isfinite(p)})


def _outward(oracle: Oracle, start: float, side: float) -> Iterator[float]:
    """Points at growing distance until both densities are below exp(LOWEST_LOG)."""
    away, factor, last = CLOSEST, 4.0, math.nan
    for _ in range(200):
        x = start + side * away
        size = max(_height(oracle, law, x) for law in "pq")
        if abs(x) > FARTHEST or size < LOWEST_LOG:
            return
        yield x
        if abs(size - last) < 2.0 and away > 1e3:
            factor = min(factor * factor, 1e6)
        away, last = away * factor if size - last > -40.0 or away < 1 else away * 1.3, size


def _height(oracle: Oracle, law: str, x: float) -> float:
    if oracle.measure == "lattice":
        x = float(np.rint(x))
    value = oracle.log_density(law, x)
    if value.is_nan():
        return -math.inf
    return float(value.mid()) if value.is_finite() else -math.inf


def tilts(strip: tuple[float, float], full: bool) -> list[complex]:
    """Points inside the strip of convergence, real and complex, 0 and -1 among them."""
    lo, hi = (max(strip[0], -8.0), min(strip[1], 7.0))
    real = [lo + (hi - lo) * f for f in ((0.03, 0.3, 0.62, 0.97) if full else (0.03, 0.97))]
    points = [complex(r, i) for r in real for i in ((0.0, 1.7, 23.0) if full else (0.0, 2.3))]
    return [*points, complex(1e-7 if strip[1] > 0 else -1e-7), -1.0 + 0j, 0j]
