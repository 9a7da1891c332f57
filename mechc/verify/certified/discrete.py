"""Certified delta of compositions whose losses are atoms.

Losses on one lattice are composed as polynomials, of balls or, where these would be long, of
tilted whole numbers; other atoms are left to meshes. That losses lie on a lattice is not assumed:
each is within a known radius of its lattice point, and the composed loss is a ball with the sum of
the radii.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from flint import arb, arb_poly, ctx

from mechc.errors import NumericError, UnsupportedError
from mechc.verify.balls.oracle import Oracle
from mechc.verify.certified import mesh
from mechc.verify.certified.contour import Law

MAX_DEGREE = 200_000
MAX_POINTS = 20_000


class Atoms(NamedTuple):
    """Finite losses with their masses, and a bound on the mass left out."""

    rows: list[tuple[Any, Any]]
    missing: Any


def atoms_of(oracle: Oracle, smallest: Any) -> Atoms:
    """The finite losses of a pair; an infinite lattice lacks at most a mass of `smallest` under P.

    Raises:
        UnsupportedError: some losses have a density, or there are too many integers.
    """
    try:
        rows, missing, densities = oracle.losses(arb(1), arb(0), smallest, MAX_POINTS)
    except NumericError as e:
        raise UnsupportedError(f"{e}; atoms are listed up to {MAX_POINTS}") from e
    if densities:
        raise UnsupportedError("certified: a density among the laws")
    return Atoms(_merged(rows), missing.upper())


def _merged(rows: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Overlapping losses as one atom: the union of the balls with the sum of the masses."""
    merged: list[tuple[Any, Any]] = []
    for loss, mass in sorted(rows, key=lambda row: float(row[0].mid())):
        if merged and merged[-1][0].overlaps(loss):
            last, sum_ = merged[-1]
            merged[-1] = (last.union(loss), sum_ + mass)
        else:
            merged.append((loss, mass))
    return merged


def finite_part(laws: Sequence[Law], atoms: Sequence[Atoms], epsilon: Any, tilt: float) -> Any:
    """Ball around the part of delta at finite losses; long sums are tilted.

    Raises:
        UnsupportedError: the atoms lie on no common lattice.
        NumericError: they lie on one, and sums have too many points.
    """
    missing = sum((law.count * a.missing for law, a in zip(laws, atoms, strict=True)), start=arb(0))
    if not all(one.rows for one in atoms):
        return arb(0)  # P and Q share no outcome of some step
    step = _common_step(atoms)
    if step is None:
        raise UnsupportedError("certified: atoms on no common lattice")
    placed = [_on_lattice(one, step.mid()) for one in atoms]
    counts = [law.count for law in laws]
    if sum(n * one.places[-1] for n, one in zip(counts, placed, strict=True)) > MAX_DEGREE:
        c = arb(tilt)
        whole = [_whole_numbers(one, c) for one in placed]
        found = mesh.composed_part(whole, counts, step.mid(), epsilon, c)
        return found + arb(0).union(missing)
    return _by_polynomials(placed, counts, epsilon) + arb(0).union(missing)


def _payoff(epsilon: Any, loss: Any) -> Any:
    return (-(epsilon - loss).expm1()).max(arb(0))


class Placed(NamedTuple):
    """Atoms within `radius` of first + place * step."""

    atoms: Atoms
    first: Any
    step: Any
    places: list[int]
    radius: Any


def _on_lattice(atoms: Atoms, step: Any) -> Placed:
    first = atoms.rows[0][0]
    places = [round(float(((loss - first) / step).mid())) for loss, _ in atoms.rows]
    radius = arb(0)
    for place, (loss, _) in zip(places, atoms.rows, strict=True):
        radius = radius.max(abs(loss - first.mid() - place * step).upper())
    return Placed(atoms, first.mid(), step, places, radius)


def _by_polynomials(placed: Sequence[Placed], counts: Sequence[int], epsilon: Any) -> Any:
    power, offset, radius = arb_poly([1]), arb(0), arb(0)
    for one, count in zip(placed, counts, strict=True):
        table = [arb(0)] * (one.places[-1] + 1)
        for place, (_, mass) in zip(one.places, one.atoms.rows, strict=True):
            table[place] += mass
        radius += count * one.radius
        offset += count * one.first
        power *= arb_poly(table) ** count
    total = arb(0)
    for n in range(power.length()):
        loss = offset + n * placed[0].step + arb(0, radius.upper())
        if not loss < epsilon:
            total += power[n] * _payoff(epsilon, loss)
    return total


def _whole_numbers(one: Placed, c: Any) -> mesh.Law:
    """Masses times e^(c loss) as whole numbers, below and above."""
    losses = [one.first + place * one.step for place in one.places]
    tilted = [
        mass * (c * loss).exp() for loss, (_, mass) in zip(losses, one.atoms.rows, strict=True)
    ]
    total = sum(tilted, start=arb(0))
    scale = float(total.log().mid())
    unit = arb(2) ** mesh.WORD * (-arb(scale)).exp()
    lower, tested, upper = ([0] * (one.places[-1] + 1) for _ in range(3))
    rows = zip(one.places, losses, tilted, one.atoms.rows, strict=True)
    for place, point, weight, (loss, _) in rows:
        lower[place] += int((weight * unit).lower().floor().unique_fmpz())
        under_q = weight * (point - loss).exp()
        tested[place] += int((under_q * unit).upper().ceil().unique_fmpz())
        upper[place] += int((weight * unit).upper().ceil().unique_fmpz())
    return mesh.Law(
        mesh.Weights(0, one.first, lower), mesh.Weights(0, one.first, tested),
        mesh.Weights(0, arb(one.first, one.radius), upper),
        scale, arb(0), total.upper(),
    )  # fmt: skip


def _common_step(atoms: Sequence[Atoms]) -> Any:
    """A step of which all differences are multiples, to working accuracy."""
    gaps = [b[0] - a[0] for one in atoms for a, b in itertools.pairwise(one.rows)]
    if not gaps:
        return arb(1)
    step = min(gaps, key=lambda g: float(g.mid()))
    for divisor in (1, 2, 3, 4, 5, 6):
        trial = step / divisor
        if all(_is_multiple(gap, trial) for gap in gaps):
            return trial
    return None


def _is_multiple(gap: Any, step: Any) -> bool:
    share = gap / step
    near = round(float(share.mid()))
    return bool(abs(share - near) < arb(2) ** (40 - ctx.prec))
