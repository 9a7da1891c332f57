"""Mass at infinite loss and distribution functions of the output, in closed form where possible.

Input: the regions and atoms of one case. Output: P(q = 0), and the distribution functions of the
output under P and Q as expressions in the variable, one `Piecewise` arm a region.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sympy import Expr, Piecewise, S, Symbol, Tuple, exp, oo, true

from mechc.calculus.cgf import stretches
from mechc.calculus.facts import Facts
from mechc.calculus.primitives import integral_to, mass
from mechc.calculus.types import Closed, Entry, Numeric, Region, Unavailable

if TYPE_CHECKING:
    from mechc.pair import Atom, Term


def infinite_mass(
    regions: Sequence[Region], atoms: Sequence[Atom], x: Symbol, facts: Facts, lattice: bool
) -> Entry:
    """P(q = 0) in closed form, as a tuple of masses that add up to it.

    Args:
        regions: of one case.
        atoms: declared atoms.
        x: the variable.
        facts: what holds in the case.
        lattice: sums over integers.
    """
    parts: list[Expr] = []
    for region in regions:
        for term in region.p if region.kind == "p_only" else ():
            part = mass((term,), x, region.lo, region.hi, facts, lattice)
            if part is None:
                return Numeric(f"no closed mass on {region.interval}; integrated when bound")
            parts.append(part)
    parts += [t.weight * exp(t.log_density) for a in atoms if not a.q for t in a.p]
    return Closed(Tuple(*parts), "closed masses" if parts else "no such region")


def distribution(
    regions: Sequence[Region], side: str, x: Symbol, facts: Facts, smooth: bool
) -> Entry:
    """Distribution function of the output under P (side "p") or Q ("q").

    Args:
        regions: of one case.
        side: "p" or "q".
        x: the variable.
        facts: what holds in the case.
        smooth: whether there is a density and no atom.
    """
    if not smooth:
        return Unavailable("only derived for densities without atoms")
    arms: list[tuple[Expr, object]] = []
    before: Expr = S.Zero
    last: Expr | None = None
    for region in _segments(regions):
        if last is not None and region.lo != last:
            arms.append((before, x < region.lo))  # a gap, such as between disjoint supports
        last = region.hi
        terms: tuple[Term, ...] = getattr(region, side)
        here = integral_to(terms, x, region.lo, facts)
        whole = mass(terms, x, region.lo, region.hi, facts, False) if region.hi != oo else S.Zero
        if here is None or whole is None:
            return Unavailable(f"no rule for the antiderivative on {region.interval}")
        arms.append((before + here, x < region.hi if region.hi != oo else true))
        before += whole
    if arms and arms[-1][1] != true:
        arms.append((S.One, true))
    if regions and regions[0].lo != -oo:
        arms.insert(0, (S.Zero, x < regions[0].lo))
    return Closed(Piecewise(*arms), "antiderivatives by rule")


def _segments(regions: Sequence[Region]) -> list[Region]:
    """All regions, those with one formula joined."""
    finite = stretches(regions)
    one_sided = [r for r in regions if r.loss is None]
    order = {r.lo: i for i, r in enumerate(regions)}
    return sorted([*finite, *one_sided], key=lambda r: order[r.lo])
