"""Certified delta of compositions whose losses are atoms.

Losses on one lattice are composed as polynomials, of balls or, where these would be long, of
tilted whole numbers; other atoms are left to meshes. That losses lie on a lattice is not assumed:
each is within a known radius of its lattice point, and the composed loss is a ball with the sum of
the radii.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

from flint import arb, arb_poly, ctx, fmpz_poly

from mechc.errors import NumericError, UnsupportedError
from mechc.verify.certified import mesh
from mechc.verify.certified.contour import Law
from mechc.verify.certified.mesh import MAX_POINTS

MAX_DEGREE = 200_000  # of the product of polynomials


class Placed(NamedTuple):
    """Atoms, each within `radius` of first + place * step: (place, loss, mass)."""

    rows: list[tuple[int, Any, Any]]
    first: Any
    step: Any
    radius: Any


def finite_part(laws: Sequence[Law], epsilon: Any, tilt: float, smallest: Any) -> Any:
    """Ball around the part of delta at finite losses; long sums are tilted.

    An infinite lattice lacks at most a mass of `smallest` under P.

    Raises:
        UnsupportedError: some losses have a density, there are too many integers, or the atoms lie
            on no common lattice.
        NumericError: they lie on one, and sums have too many points.
    """
    counts = [law.count for law in laws]
    try:
        found = [law.oracle.losses(arb(1), arb(0), smallest, MAX_POINTS) for law in laws]
    except NumericError as e:
        raise UnsupportedError(f"{e}; atoms are listed up to {MAX_POINTS}") from e
    if not all(rows or densities for rows, _, densities in found):
        return arb(0)  # P and Q share no outcome of some step
    if any(densities for *_, densities in found):
        raise UnsupportedError("certified: a density among the laws")
    atoms = [merged(rows) for rows, *_ in found]
    missing = sum((n * rest.upper() for n, (_, rest, _) in zip(counts, found, strict=True)), arb(0))
    step = _common_step(atoms)
    if step is None:
        raise UnsupportedError("certified: atoms on no common lattice")
    placed = [_on_lattice(rows, step.mid()) for rows in atoms]
    if sum(n * one.rows[-1][0] for n, one in zip(counts, placed, strict=True)) > MAX_DEGREE:
        c = arb(tilt)
        whole = [_whole_numbers(one, c) for one in placed]
        return mesh.composed_part(whole, counts, epsilon, c) + arb(0).union(missing)
    return _by_polynomials(placed, counts, epsilon) + arb(0).union(missing)


def merged(rows: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Overlapping losses as one atom: the union of the balls with the sum of the masses."""
    merged: list[tuple[Any, Any]] = []
    for loss, mass in sorted(rows, key=lambda row: float(row[0].mid())):
        if merged and merged[-1][0].overlaps(loss):
            last, sum_ = merged[-1]
            merged[-1] = (last.union(loss), sum_ + mass)
        else:
            merged.append((loss, mass))
    return merged


def _common_step(atoms: Sequence[list[tuple[Any, Any]]]) -> Any:
    """A step of which all differences are multiples, to working accuracy."""
    gaps = [b[0] - a[0] for rows in atoms for a, b in itertools.pairwise(rows)]
    least = min(gaps, key=lambda g: float(g.mid()), default=arb(1))
    for step in (least / divisor for divisor in range(1, 7)):
        shares = [gap / step for gap in gaps]
        misses = [abs(share - round(float(share.mid()))) for share in shares]
        if all(miss < arb(2) ** (40 - ctx.prec) for miss in misses):
            return step
    return None


def _on_lattice(atoms: list[tuple[Any, Any]], step: Any) -> Placed:
    first = atoms[0][0].mid()
    rows = [(round(float(((loss - first) / step).mid())), loss, mass) for loss, mass in atoms]
    misses = (abs(loss - first - place * step).upper() for place, loss, _ in rows)
    return Placed(rows, first, step, reduce(arb.max, misses))


def _by_polynomials(placed: Sequence[Placed], counts: Sequence[int], epsilon: Any) -> Any:
    power, offset, radius, total = arb_poly([1]), arb(0), arb(0), arb(0)
    for one, count in zip(placed, counts, strict=True):
        table = [arb(0)] * (one.rows[-1][0] + 1)
        for place, _, mass in one.rows:
            table[place] += mass
        radius += count * one.radius
        offset += count * one.first
        power *= arb_poly(table) ** count
    for n in range(power.length()):
        loss = offset + n * placed[0].step + arb(0, radius.upper())
        if not loss < epsilon:
            total += power[n] * (-(epsilon - loss).expm1()).max(arb(0))
    return total


def _whole_numbers(one: Placed, c: Any) -> mesh.Law:
    """Masses times e^(c loss) as whole numbers, below and above."""
    points = [one.first + place * one.step for place, *_ in one.rows]
    tilted = [m * (c * point).exp() for point, (*_, m) in zip(points, one.rows, strict=True)]
    total = sum(tilted, start=arb(0))
    scale = float(total.log().mid())
    unit = arb(2) ** mesh.WORD * (-arb(scale)).exp()
    lower, tested, upper = ([0] * (one.rows[-1][0] + 1) for _ in range(3))
    for (place, loss, _), point, weight in zip(one.rows, points, tilted, strict=True):
        under_q = weight * (point - loss).exp()
        lower[place] += int((weight * unit).lower().floor().unique_fmpz())
        tested[place] += int((under_q * unit).upper().ceil().unique_fmpz())
        upper[place] += int((weight * unit).upper().ceil().unique_fmpz())
    around = arb(one.first, one.radius)
    below, test, above = (
        mesh.Weights(0, first, one.step, fmpz_poly(weights))
        for first, weights in ((one.first, lower), (one.first, tested), (around, upper))
    )
    return mesh.Law(below, test, above, scale, arb(0), total.upper())
