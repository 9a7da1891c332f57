"""Calculus in, KernelIR module out: the last room that knows SymPy.

    freeze       one SymPy expression to IR, a whitelist
    forms        other forms of a formula, equal in exact arithmetic
    choose       the form that keeps the most digits, by measurement
    chains       pieces and regions to if / elif / else over x
    functions    densities, loss, inverses, cgf, distribution functions; formulas in words
    tables       branches, atoms, strip, lattice, mass at infinity
    samples      the declared formulas as numbers, and those of the self-check

Invariant: every entry of the calculus reappears either as a function of the module or as a
sentence in its `capabilities`; an entry that has no kernel form fails the build if accounting
needs it, and becomes "numeric" or "unavailable" with the reason if it is an optional closed form.
"""

from __future__ import annotations

from typing import Any

from mechc.calculus.types import Calculus
from mechc.kernel.ir import Module
from mechc.kernel.lower.choose import Chooser
from mechc.kernel.lower.context import context
from mechc.kernel.lower.functions import (
    branch_words,
    cgf,
    densities,
    describe,
    distribution_functions,
    formulas,
    inverses,
    loss,
)
from mechc.kernel.lower.samples import checks
from mechc.kernel.lower.tables import log_infinite_mass, tables, weights

__all__ = ["lower"]


def lower(calculus: Calculus) -> Module:
    """Lower a calculus to a kernel module.

    Returns:
        The module in printable form, with reference values for its self-check.

    Raises:
        LoweringError: an expression that accounting needs has no kernel form.
    """
    pair, room = calculus.pair, context(calculus)
    chooser = Chooser(room)
    capabilities: dict[str, str] = {}
    functions = [*densities(chooser), loss(chooser), log_infinite_mass(chooser, capabilities)]
    capabilities["lattice"] = describe([calculus.lattice])
    functions += [*cgf(room, capabilities), *distribution_functions(chooser, capabilities)]
    found, inverse_of = inverses(chooser)
    return Module(
        name=pair.name,
        about=pair.about,
        refs=pair.refs,
        claim={} if pair.claim is None else pair.claim.record(),
        parameters=tuple(_row(p.info) for p in pair.parameters),
        names=room.names,
        measure=pair.measure,
        symmetric=calculus.symmetric,
        capabilities=capabilities,
        branches=branch_words(calculus),
        formulas=formulas(calculus),
        functions=tuple(functions),
        inverses=found,
        tables=(*tables(chooser, inverse_of), weights(room, capabilities)),
        helpers=tuple(room.constant.helpers.found),
        checks=checks(calculus, inverse_of),
    )


def _row(info: tuple[Any, ...]) -> tuple[Any, ...]:
    """A parameter as plain numbers; whole defaults and ends stay short floats."""
    return tuple(
        float(v) if isinstance(v, (int, float)) and not isinstance(v, bool) else v for v in info
    )
