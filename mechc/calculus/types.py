"""What the calculus room hands to the compiler: a `Calculus`, entry by entry.

Input: nothing; these are plain frozen dataclasses. Invariant: no entry is ever missing silently.
Each derivable quantity is `Closed` (an expression and the rule that found it), `Numeric` (no
closed form, the numeric side computes it, and why) or `Unavailable` (nobody computes it, and why).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from sympy import Basic, Expr, Symbol

from mechc import protocol

if TYPE_CHECKING:
    from mechc.calculus.cases import Atom, Pair
    from mechc.calculus.terms import Term


class Kind(StrEnum):
    """How the loss moves on a region, or which of the laws alone has mass there."""

    INCREASING = "increasing"
    DECREASING = "decreasing"
    PLATEAU = "plateau"
    P_ONLY = "p_only"
    Q_ONLY = "q_only"
    UNSPLIT = "unsplit"

    @property
    def moves(self) -> bool:
        """Whether the loss is strictly monotone."""
        return self in (Kind.INCREASING, Kind.DECREASING)

    @property
    def code(self) -> int:
        """What stands for it in the branches of a kernel."""
        return CODES[self]


CODES = {
    Kind.INCREASING: protocol.INCREASING, Kind.DECREASING: protocol.DECREASING,
    Kind.PLATEAU: protocol.PLATEAU, Kind.P_ONLY: protocol.P_ONLY, Kind.Q_ONLY: protocol.Q_ONLY,
    Kind.UNSPLIT: protocol.UNSPLIT,
}  # fmt: skip


@dataclass(frozen=True)
class Closed:
    """A closed form.

    Attributes:
        expr: the expression (a `Tuple` where the entry has several components).
        how: which rule or strategy found it.
    """

    expr: Expr
    how: str


@dataclass(frozen=True)
class Numeric:
    """No closed form; `reason` says why, and what the numeric side uses instead."""

    reason: str


@dataclass(frozen=True)
class Unavailable:
    """Neither a closed form nor a numeric substitute; `reason` says why."""

    reason: str


Entry = Closed | Numeric | Unavailable


@dataclass(frozen=True)
class Region:
    """A maximal interval with one formula, on which the loss is strictly monotone or constant.

    Attributes:
        lo: left end, in parameters or -oo. For lattice measures regions are integer ranges, both
            ends included.
        hi: right end.
        p: terms of the density (mass) of P there; empty where p = 0.
        q: terms of the density (mass) of Q there.
        loss: log(p/q) in the variable of the pair; None where only one of p, q is positive.
        kind: `UNSPLIT` means that the sign of the derivative was not decided symbolically, and
            the numeric side splits the region when parameters are bound.
        loss_lo: one-sided limit of the loss at lo+ (+-oo allowed); None: evaluate numerically.
        loss_hi: one-sided limit at hi-.
        inverse: x as a function of the loss symbol on this region; Numeric: bracket.
    """

    lo: Expr
    hi: Expr
    p: tuple[Term, ...]
    q: tuple[Term, ...]
    loss: Expr | None
    kind: Kind
    loss_lo: Expr | None
    loss_hi: Expr | None
    inverse: Entry

    @property
    def interval(self) -> str:
        """The interval as it is written in messages."""
        return f"({self.lo}, {self.hi})"

    def subs(self, symbol: Symbol, value: Expr) -> Region:
        """The region with the formulas at a value of a parameter, its ends as they were."""
        p, q = (tuple(t.subs(symbol, value) for t in side) for side in (self.p, self.q))
        loss = None if self.loss is None else self.loss.subs(symbol, value)
        return replace(self, p=p, q=q, loss=loss)


def joined(regions: Sequence[Region]) -> list[Region]:
    """The regions in order, neighbours with one formula as one."""
    found: list[Region] = []
    for region in regions:
        last = found[-1] if found else None
        if last and (last.p, last.q) == (region.p, region.q) and last.hi == region.lo:
            kind = Kind.UNSPLIT if region.loss is not None else region.kind
            found[-1] = replace(last, hi=region.hi, loss_hi=region.loss_hi, kind=kind)
        else:
            found.append(region)
    return found


@dataclass(frozen=True)
class CalculusCase:
    """Everything that holds for the parameters with `condition` true.

    Attributes:
        condition: sympy Boolean in the parameters (`sympy.true` when it always holds).
        regions: sorted, disjoint.
        atoms: the declared atoms (plateaus are regions, not atoms).
        infinite_mass: P(q = 0); the entry is a tuple of masses that add up to it.
        cgf: log M(z), the finite part, in the complex symbol `Calculus.z`.
        cdf_p: distribution function of the output under P, in the variable of the pair.
        cdf_q: the same under Q.
    """

    condition: Basic
    regions: tuple[Region, ...]
    atoms: tuple[Atom, ...]
    infinite_mass: Entry
    cgf: Entry
    cdf_p: Entry
    cdf_q: Entry


@dataclass(frozen=True)
class Calculus:
    """The derived mathematics of one ordered pair.

    Attributes:
        pair: the pair it was derived from.
        ell: the symbol that stands for a value of the loss.
        z: the complex argument of the cumulant generating function.
        cases: one or more parameter cases; together they cover the parameter domain.
        strip: (t_minus, t_plus): E_P[exp(zL); L finite] is finite between them.
        lattice: Closed(Tuple(offset, step)) when every loss is offset + step * integer.
        symmetric: K(z) = K(-1 - z) is proved.
        tails: sentences about the decay of p, q and the loss at the ends.
        notes: what was decided how, and what was used instead of a decision.
    """

    pair: Pair
    ell: Symbol
    z: Symbol
    cases: tuple[CalculusCase, ...]
    strip: tuple[Expr, Expr]
    lattice: Entry
    symmetric: bool
    tails: tuple[str, ...]
    notes: tuple[str, ...]
