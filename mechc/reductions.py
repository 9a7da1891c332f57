"""Mechanisms whose privacy is that of a simpler one: what to account for instead.

Each function computes the parameters of the simpler mechanism and returns an event or composition.
The argument of each is in docs/reductions.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mechc.adjacency import refuse_groups
from mechc.composition import allocation, inputs
from mechc.composition.events import Composition, Event, as_event
from mechc.composition.inputs import as_array
from mechc.composition.mechanism import built_in
from mechc.composition.operations import LEAST, UNLIKELY, group, poisson, subset_of_groups
from mechc.composition.operations import truncated_poisson as truncated_poisson
from mechc.composition.tables import mixture
from mechc.errors import DeclarationError, UnsupportedError, check_one_of, public
from mechc.numeric.rounding import EPS

PATTERNS = ("single", "every", "apart")
SPACED = PATTERNS[1:]
DRAWN = ("allocation", "random_allocation", "balls_and_bins", "shuffled", "poisson")
FEW_BITS, EXACT = 2.0**15, 2.0**52  # entries that are multiples of one over it; sums up to here,
# of which no root that is no integer is rounded to one
MOST_PARTS = 200  # of a mixture that is made here


@public
def matrix_mechanism(
    encoder: Any,
    sigma: float,
    participations: str | Sequence[Sequence[int]] | NDArray[np.int64] | None = None,
    *,
    separation: int | None = None,
    most: int | None = None,
) -> Event:
    """Return the Gaussian mechanism that the whole matrix mechanism C x + sigma z amounts to.

    Adaptive choice of the inputs does not change that (Denisov et al. 2022, Theorem 2.1). Without
    a list of patterns, those of a least separation are searched by dynamic programming, exactly
    where columns so far apart are orthogonal, as in a matrix with so many bands (Choquette-Choo et
    al. 2023), and else by bounds on the norm.

    Args:
        encoder: the matrix C, shape (rows, steps). What neighbours add to a step differs by at most
            1 in norm: where one record replaces another, contributions have norm at most 1/2.
        sigma: standard deviation of the noise.
        participations: for each pattern the steps in which one record may take part; or the name
            of all patterns: "single", one step alone, by default, so that mu is the largest column
            norm over sigma; "every", each separation-th step from any of the first ones on;
            "apart", any steps that are so far apart; "allocation", one step drawn at random (T11),
            for a matrix that correlates none: no row has two entries.
        separation: the distance of steps, of two steps of one record the least under "apart".
        most: under "apart", the largest number of steps of one record.

    Raises:
        DeclarationError: nan or infinite entries, or patterns that are not steps.
        UnsupportedError: steps drawn at random, which no theorem reduces to one mechanism where
            noise is correlated.
    """
    matrix, unit = _matrix("matrix_mechanism", encoder)
    gram = np.abs(matrix.T @ matrix)
    made = partial(_gaussian, "matrix_mechanism", sigma=sigma, unit=unit)
    named = participations if isinstance(participations, str) else None
    if named == "allocation" and (np.count_nonzero(matrix, axis=1) <= 1).all():
        norms = np.sqrt(np.diag(gram)).tolist()
        schedule = [made(norm, terms=_terms(matrix, 1, norm)) for norm in norms]
        return cast(Event, allocation.random_allocation(schedule))
    if named in DRAWN:
        raise UnsupportedError(
            f"matrix_mechanism: participations={named!r}: no theorem is known for steps that are "
            "drawn at random with noise that is correlated between them; banded_matrix has one for "
            "samples of groups in turn"
        )
    if named is not None:
        check_one_of("participations", named, PATTERNS, "matrix_mechanism")
    if separation is not None or most is not None or named in SPACED:
        told_twice = named == "every" and most is not None
        if told_twice or (participations is not None and named not in SPACED):
            raise DeclarationError(
                "matrix_mechanism: participations= says already what separation= and most= "
                "describe (expected one of them)"
            )
        given = 1 if separation is None else separation
        apart = inputs.size("matrix_mechanism", "separation", given)
        if named != "every":
            times = None if most is None else inputs.size("matrix_mechanism", "most", most)
            most_steps = -(-matrix.shape[1] // apart)
            norm = _norm_apart(gram, apart, times)
            return made(norm, terms=_terms(matrix, most_steps, norm))
        steps = range(matrix.shape[1])
        participations = [list(steps[first::apart]) for first in steps[:apart]]
    patterns = _patterns(None if named == "single" else participations, matrix.shape[1])
    # |sum C_i g_i|^2 <= sum |<C_i, C_j>|, with equality when all products are >= 0
    square = max(float(gram[np.ix_(pattern, pattern)].sum()) for pattern in patterns)
    norm = math.sqrt(square)
    return made(norm, terms=_terms(matrix, max(map(len, patterns)), norm))


def _terms(matrix: Any, columns: int, norm: float) -> int:
    """Roundings in the norm of a sum of so many columns; none where it is the root of a square."""
    few = matrix * FEW_BITS  # of which the square is a sum of bits, with a root of half as many
    is_exact = (few == np.rint(few)).all() and (norm * FEW_BITS).is_integer()
    if is_exact and columns**2 * int(matrix.shape[0]) < EXACT / FEW_BITS**2:
        return 0
    # |<C_i, C_j>| is off by rows * U |C_i| |C_j|, and the sum of the norms is at most sqrt(columns)
    # times the root of the sum of their squares
    return columns * (int(matrix.shape[0]) + 2 * columns)


def _norm_apart(gram: NDArray[np.float64], separation: int, most: int | None) -> float:
    """Largest norm of a sum of columns so far apart, or a bound on it."""
    square = np.diag(gram)
    if not np.triu(gram, separation).any():
        return math.sqrt(float(_heaviest(square, separation, most)))
    # sum over i and j in u of |<C_i, C_j>|: at most what the worst pattern makes of every row
    rows = _heaviest(gram, separation, most)
    by_rows = math.sqrt(float(_heaviest(rows, separation, most)))
    return min(by_rows, float(_heaviest(np.sqrt(square), separation, most)))


def _heaviest(weight: NDArray[np.float64], separation: int, most: int | None) -> Any:
    """Largest sums over the last axis of weights that are so far apart, at most so many."""
    n = weight.shape[-1]
    many = most is None or most >= -(-n // separation)
    before = np.zeros((n + 1, *weight.shape[:-1]))
    for _ in range(1 if many else most or 1):
        best = np.zeros_like(before)
        for j in range(n):
            rest = (best if many else before)[max(j + 1 - separation, 0)]
            best[j + 1] = np.maximum(best[j], rest + weight[..., j])
        before = best
    return before[n]


def _patterns(given: Any, steps: int) -> list[NDArray[np.int64]]:
    """The steps of every pattern of participation, checked."""
    if given is None:
        return [np.array([i]) for i in range(steps)]
    accepted = f"(expected a list of non-empty lists of steps, integers from 0 to {steps - 1})"
    patterns = list(given) if np.iterable(given) else []
    if not patterns:
        raise DeclarationError(f"matrix_mechanism: participations={given!r} {accepted}")
    found = []
    for pattern in patterns:
        array = as_array("matrix_mechanism: participations", pattern)
        known = np.asarray(pattern).dtype != bool and np.isin(array, np.arange(steps)).all()
        if array.ndim != 1 or not array.size or not known:
            raise DeclarationError(f"matrix_mechanism: pattern {pattern!r} {accepted}")
        found.append(array.astype(np.int64))
    return found


@public
def tree_aggregation(steps: int, sigma: float) -> Event:
    """Return the Gaussian mechanism of prefix sums by a binary tree, one participation a record.

    Args:
        steps: number of leaves; a record changes its leaf, and all nodes above it, by at most 1 in
            norm (where one replaces another, contributions have norm at most 1/2).
        sigma: standard deviation of the noise in every node.

    Raises:
        DeclarationError: not a positive number of steps.
    """
    levels = (inputs.size("tree_aggregation", "steps", steps) - 1).bit_length() + 1
    norm = math.sqrt(levels)
    return _gaussian("tree_aggregation", norm, sigma, terms=0 if norm.is_integer() else 1)


@public
def banded_matrix(encoder: Any, sigma: float, *, sampling_rate: float) -> Composition:
    """Return the sampled Gaussians of a banded matrix mechanism with sampling by blocks.

    With b bands, and every record taking part only in steps i, i + b, i + 2b, ... of its own group,
    C x + sigma z is ceil(steps / b) Poisson sampled Gaussians of sensitivity max column norm
    (Choquette-Choo et al. 2023, Theorem 4).

    Args:
        encoder: the banded lower triangular matrix C, square; a record contributes at most 1 in
            norm to a step, and neighbours differ by a record more or less.
        sigma: standard deviation of the noise.
        sampling_rate: probability with which a record of the group is sampled: b times the
            expected batch over the number of records.

    Raises:
        DeclarationError: nan or infinite entries, or a matrix that is not lower triangular.
    """
    matrix, unit = _matrix("banded_matrix", encoder)
    steps = matrix.shape[1]
    if matrix.shape[0] != steps or np.triu(matrix, 1).any():
        raise DeclarationError("banded_matrix: the matrix is not square and lower triangular")
    row, column = np.nonzero(matrix)
    bands = int((row - column).max()) + 1 if row.size else 1
    norm = float(np.linalg.norm(matrix, axis=0).max())
    terms = _terms(matrix, 1, norm)
    step = poisson(_gaussian("banded_matrix", norm, sigma, terms, unit), sampling_rate)
    return Composition(((step, -(-steps // bands)),))


def random_allocation(sigma: float, sensitivity: float = 1.0) -> Composition:
    """Return the exact pair of a record that takes part in one of two Gaussian steps.

    P = (N(D e_1, s^2 I) + N(D e_2, s^2 I)) / 2 against N(0, s^2 I), in coordinates turned by 45
    degrees: N(D / sqrt 2) in one, and a balanced mixture of N(+-D / sqrt 2) in the other,
    independent of each other.

    Args:
        sigma: standard deviation of the noise in each step.
        sensitivity: norm of the contribution D.
    """
    distance = inputs.positive("random_allocation", "sensitivity", sensitivity)
    turned = distance / math.sqrt(2.0) * (1.0 + 2.0 * EPS)
    return built_in("gaussian")(sigma=sigma, sensitivity=turned) + built_in("balanced_gaussian")(
        sigma=sigma, sensitivity=turned
    )


@public
def drawn_with_replacement(event: Event, *, dataset_size: int, batch_size: int) -> Event:
    """Return a proven pair for batches drawn with replacement, whatever the other records are.

    A record is drawn at least once with probability r = 1 - (1 - 1/n)^m. Given that it is drawn k
    times, the batches differ in k records, and telling k (T9) leaves a subset of rate r whose
    members move the query k times as far: the profile of Balle, Barthe, Gaboardi (2018), Theorem
    10, and its mirror image as in T7.

    Args:
        event: symmetric unimodal additive noise, its sensitivity the distance by which *replacing*
            a record that occurs once moves the query (twice a clipping norm).
        dataset_size: number n of records.
        batch_size: number m of draws.

    Returns:
        An event that gives upper bounds.

    Raises:
        DeclarationError: a size is not a positive integer.
        UnsupportedError: other noise, or for groups.
    """
    from scipy.stats import binom

    name = "drawn_with_replacement"
    n = inputs.size(name, "dataset_size", dataset_size)
    m = inputs.size(name, "batch_size", batch_size)
    event = as_event(f"{name}: event", event)
    if event.claim.group:
        refuse_groups("with_replacement", str(event))
    law = binom(m, 1.0 / n)
    rate = float(law.sf(0))
    first = max(int(law.ppf(UNLIKELY)), 1)
    # by the tail itself: its inverse is off where the tail is below a rounding error of one
    beyond = law.sf(np.arange(first, first + MOST_PARTS)) <= UNLIKELY * rate
    if not beyond.any():
        raise UnsupportedError(
            f"{name}: a record occurs {first} to more than {first + MOST_PARTS - 1} times with "
            f"batch_size={m} and dataset_size={n}, and each number of times is a mechanism of its "
            f"own (at most {MOST_PARTS})"
        )
    times = range(first, first + int(beyond.argmax()) + 1)
    weights = [float(law.pmf(k)) / rate for k in times]
    rest = max(1.0 - math.fsum(weights), UNLIKELY)
    parts = [subset_of_groups(group(event, k), rate) for k in times]
    return mixture(parts, weights, adjacency="replace", revealing=rest)


def _matrix(name: str, encoder: Any) -> tuple[Any, int]:
    """A matrix in units of a power of two, so that squares neither vanish nor overflow."""
    matrix = as_array(f"{name}: matrix", encoder)
    if matrix.ndim != 2 or not matrix.size or not np.isfinite(matrix).all():
        raise DeclarationError(f"{name}: the matrix is not two-dimensional with finite entries")
    unit = math.frexp(float(np.abs(matrix).max()))[1]
    return np.ldexp(matrix, -unit), unit


def _gaussian(name: str, norm: float, sigma: float, terms: int = 0, unit: int = 0) -> Event:
    """Gaussian noise on a move by a norm, known up to so many roundings, in a unit 2^unit."""
    if not norm > 0:
        raise DeclarationError(f"{name}: the matrix is zero, so that nothing is published")
    with np.errstate(over="ignore"):
        distance = float(np.ldexp(norm * (1.0 + terms * EPS), unit))
    if distance < LEAST:  # where doubles lose digits
        distance = math.nextafter(distance, math.inf)
    return built_in("gaussian")(sigma=sigma, sensitivity=distance)
