"""Parameter vectors at which formulas are looked at: irrational ones from the typical ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

import mpmath
from mpmath import mp
from sympy import Basic, Expr, S, Symbol

from mechc.symbolic.evaluate import Theta, evaluate, holds, holds_at
from mechc.symbolic.facts import eliminations
from mechc.symbolic.parameters import Parameter

with mp.workprec(53):  # whatever precision the importing program has set
    _STEPS = tuple(mpmath.sqrt(p) for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37))
_PATIENCE = 400  # vectors in a row that may violate a condition
_USUAL = 4  # vectors, or fewer, that all who look at a case ask for


def typical_values(
    parameters: tuple[Parameter, ...], how_many: int, condition: Basic = S.true
) -> tuple[Mapping[Symbol, Any], ...]:
    """Irrational parameter vectors from the typical ranges, at the precision of mpmath.

    Args:
        parameters: their `typical` ranges are covered, geometrically where both ends are positive.
        how_many: vectors that are wanted; there are fewer where hardly any meet the condition.
        condition: what they meet; if they never do there, the ranges are widened step by step.
    """
    return _values(parameters, max(how_many, _USUAL), condition, mp.prec)[:how_many]


def typical_vectors(
    parameters: tuple[Parameter, ...], how_many: int, condition: Basic = S.true
) -> Iterator[Theta]:
    """Of so many vectors those that meet a condition, as doubles."""
    with mp.workprec(53):
        found = typical_values(parameters, how_many)
    vectors = (tuple(map(float, vector.values())) for vector in found)
    return (vector for vector in vectors if holds_at(condition, parameters, vector))


@lru_cache(maxsize=256)  # all that looks at a case asks for its vectors
def _values(
    parameters: tuple[Parameter, ...], how_many: int, condition: Basic, precision: int
) -> tuple[dict[Symbol, Any], ...]:
    with mp.workprec(precision):
        return tuple(islice(_endless(parameters, condition, eliminations(condition)), how_many))


def _endless(
    parameters: tuple[Parameter, ...], condition: Basic, fixed: Mapping[Symbol, Expr]
) -> Iterator[dict[Symbol, Any]]:
    """A Kronecker sequence; what an equation in the condition eliminates follows the others."""
    missed, index = 0, 1
    while missed < _PATIENCE:
        vector = {
            p.symbol: _typical(p, (index * (j + 1) * _STEPS[j % len(_STEPS)]) % 1, missed // 50)
            for j, p in enumerate(parameters)
        }
        index += 1
        vector |= {s: evaluate(value, vector) for s, value in fixed.items()}
        if holds(condition, vector):
            missed = 0
            yield vector
        else:
            missed += 1


def _typical(parameter: Parameter, fraction: Any, wider: int) -> Any:
    """A value in the typical range, widened tenfold on both sides `wider` times."""
    lo, hi = (mpmath.mpf(end) for end in parameter.typical)
    reach = mpmath.mpf(10) ** wider
    if wider:
        lo = lo / reach if lo > 0 and parameter.lo <= 0 else max(lo - reach, parameter.lo)
        hi = (
            hi * reach if mpmath.isinf(parameter.hi) else parameter.hi - (parameter.hi - hi) / reach
        )
    value = lo * (hi / lo) ** fraction if lo > 0 else lo + (hi - lo) * fraction
    return mpmath.nint(value) if parameter.integer else value
