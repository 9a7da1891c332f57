"""KernelIR for people: every function of a module with its cases and expressions.

Input: a module in printable form. Output: text that shows what the passes made of each formula,
before subexpressions are shared and before there is Python around it.
"""

from __future__ import annotations

from collections.abc import Iterator

from mechc.kernel import ir
from mechc.kernel.parts import Module, Root
from mechc.kernel.printer import Printer, indent


def outline(module: Module) -> str:
    """Write a module as an indented list of definitions.

    Args:
        module: from `lower`.

    Returns:
        Text, one expression a line.
    """
    return "\n".join(_lines(module))


def _lines(module: Module) -> Iterator[str]:
    printer = Printer()
    for helper in module.helpers:
        body = helper.residual if isinstance(helper, Root) else helper.term
        yield from _definition(f"{helper.name}: {helper.doc}", body, printer)
    for function in module.functions:
        yield from _definition(f"{function.name}({function.variable})", function.body, printer)
    for inverse in module.inverses:
        name = f"loss_inverse_{inverse.index}(ell)"
        if inverse.body is None:
            yield f"{name}: bracketed"
        else:
            yield from _definition(name, inverse.body, printer)
    for table in module.tables:
        yield table.name
        arms = [
            (guard, [", ".join(map(printer, row.values)) for row in rows] or ["none"])
            for guard, rows in table.cases
        ]
        yield from indent(list(printer.chain(arms)))


def _definition(head: str, body: ir.Block, printer: Printer) -> Iterator[str]:
    yield head
    yield from indent(list(printer.block(body, "{}")))
