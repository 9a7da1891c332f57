"""Whether every loss lies on offset + step * integer, proved from the formulas.

Input: the regions and atoms of all cases. Output: `Closed(Tuple(offset, step))` or `Unavailable`.
The finite losses are those of plateaus and atoms, and on an integer output also affine losses
offset + slope*n. They form a lattice when all differences and slopes are rational multiples of one
of them (which may use that a parameter is an integer), or when there are only two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sympy import (
    Add,
    Expr,
    Piecewise,
    Rational,
    S,
    Symbol,
    Tuple,
    cancel,
    exp,
    expand,
    expand_log,
    ilcm,
    log,
    true,
)

from mechc.calculus.facts import Facts, Undecided
from mechc.calculus.shape import affine_in, quotient
from mechc.calculus.signs import sign
from mechc.calculus.types import Closed, Entry, Region, Unavailable

if TYPE_CHECKING:
    from mechc.pair import Atom


def lattice_of(
    regions: Sequence[Region], atoms: Sequence[Atom], x: Symbol, facts: Facts, integer: bool
) -> Entry:
    """The lattice of the losses of one case.

    Args:
        regions: of the case.
        atoms: declared atoms.
        x: the variable.
        facts: what holds in the case.
        integer: whether the output is an integer.
    """
    losses: list[Expr] = [atom_loss(a) for a in atoms if a.p and a.q]
    slopes: list[Expr] = []
    for region in regions:
        if region.kind in ("p_only", "q_only"):
            continue
        affine = affine_in(region.loss, x) if integer and region.loss is not None else None
        if region.kind == "plateau" and region.loss is not None:
            losses.append(region.loss)
        elif affine is not None:
            slopes.append(affine[0])
            losses.append(affine[1])
        else:
            return Unavailable(f"the loss varies continuously or irregularly on {region.interval}")
    if not losses:
        return Closed(Tuple(S.Zero, S.One), "no finite loss")
    return _lattice([expand(loss) for loss in losses], slopes, facts)


def atom_loss(atom: Atom) -> Expr:
    """Loss of an atom with mass under both."""
    p, q = (Add(*(t.weight * exp(t.log_density) for t in side)) for side in (atom.p, atom.q))
    return expand(expand_log(log(quotient(p, q)), force=True))


def _lattice(losses: list[Expr], slopes: list[Expr], facts: Facts) -> Entry:
    offset = losses[0]
    gaps = [g for g in (expand(loss - offset) for loss in losses) if g != 0]
    if not gaps and not slopes:
        return Closed(Tuple(offset, S.One), "a single finite loss")
    for unit in dict.fromkeys((*slopes, *gaps)):
        step = _common_step(unit, (*slopes, *gaps))
        if step is not None:
            step = step * _orientation(step, facts)
            return Closed(Tuple(offset, step), "all gaps between losses are multiples of the step")
    return Unavailable("the differences of the losses are not proved to be commensurate")


def _common_step(unit: Expr, gaps: Sequence[Expr]) -> Expr | None:
    """unit/n such that every gap is an integer multiple of it."""
    denominator = 1
    for gap in gaps:
        ratio = cancel(gap / unit)
        if ratio.is_integer:
            continue
        if not isinstance(ratio, Rational):
            return None
        denominator = int(ilcm(denominator, int(ratio.q)))
    return unit / denominator


def _orientation(step: Expr, facts: Facts) -> Expr:
    """The sign that makes a step positive."""
    try:
        return S(sign(step, facts))
    except Undecided:
        return Piecewise((S.One, step > 0), (S.NegativeOne, true))
