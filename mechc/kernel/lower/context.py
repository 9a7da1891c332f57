"""What every part of the lowering of one mechanism shares: names, freezers, helpers."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sympy import Basic, Symbol

from mechc.calculus.types import Calculus
from mechc.kernel import ir
from mechc.kernel.lower.freeze import Freezer, Helpers
from mechc.kernel.passes import finish
from mechc.kernel.prelude import PRIMITIVES
from mechc.kernel.statements import BUILTINS

RESERVED = frozenset({
    "x", "xs", "ell", "ells", "z", "n", "i", "out", "theta", "branch", "lo", "hi",
    "math", "np", "numba", "add_branch", "solve_loss", "log_mass",
}) | BUILTINS | frozenset(PRIMITIVES)  # fmt: skip
"""Names that the emitted text uses for something else."""

GENERATED = re.compile(
    r"[tcsuv]\d+|(sum|loss_inverse|((one|term|tail)_of_)?series)_\d+"
    r"|(log_[pq]|loss|loss_inverse)(_many)?"
    r"|branches|breakpoints|atoms|weights|log_infinite_mass|strip|lattice|cgf|[cs]df_[pq]|sf_[pq]|self_check"
)


@dataclass(frozen=True)
class Context:
    """The lowering of one calculus.

    Attributes:
        calculus: what is lowered.
        names: of the parameters in the emitted text.
        constant: freezes expressions in parameters alone.
        at_x: freezes expressions in the output variable.
        at_loss: freezes expressions in the loss symbol.
        at_z: freezes expressions in the complex symbol.
    """

    calculus: Calculus
    names: tuple[str, ...]
    constant: Freezer
    at_x: Freezer
    at_loss: Freezer
    at_z: Freezer

    def by_case(self, cases: Sequence[tuple[Basic, ir.Block]]) -> ir.Block:
        """Choose between frozen blocks by parameter case, and run the passes.

        The last one, or what most of them have, needs no guard.
        """
        blocks = [block for _, block in cases]
        common = max(reversed(blocks), key=blocks.count)
        arms = [(self.constant(condition), block) for condition, block in cases if block != common]
        return finish(ir.Block((), ir.Chain((*arms, (None, common)))))


def context(calculus: Calculus) -> Context:
    """Set up the lowering of a calculus."""
    pair = calculus.pair
    names = identifiers([p.name for p in pair.parameters])
    helpers = Helpers()
    leaves: dict[Symbol, ir.Expr] = {
        p.symbol: ir.Param(name) for p, name in zip(pair.parameters, names, strict=True)
    }

    def freezer(symbol: Symbol | None, name: str) -> Freezer:
        variable: dict[Symbol, ir.Expr] = {} if symbol is None else {symbol: ir.Var(name)}
        return Freezer({**leaves, **variable}, pair.name, helpers)

    return Context(
        calculus,
        names,
        constant=freezer(None, ""),
        at_x=freezer(pair.variable, "x"),
        at_loss=freezer(calculus.ell, "ell"),
        at_z=freezer(calculus.z, "z"),
    )


def identifiers(names: Iterable[str]) -> tuple[str, ...]:
    """Python names for parameters, different from one another and from all that is emitted."""
    taken: list[str] = []
    for name in names:
        candidate = re.sub(r"\W", "_", name, flags=re.ASCII)
        if not candidate or candidate[0].isdigit():
            candidate = f"p_{candidate}"
        while (
            candidate in taken
            or candidate in RESERVED
            or keyword.iskeyword(candidate)
            or GENERATED.fullmatch(candidate)
        ):
            candidate += "_"
        taken.append(candidate)
    return tuple(taken)
