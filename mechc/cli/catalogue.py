"""The mechanisms that can be named, with what is known about each: for the terminal and the docs.

In: names. Out: rows read from compiled kernels; a mechanism that has not been compiled is shown
with its first line alone, unless compiling it is asked for.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from rich.table import Table

from mechc.adjacency import Claim
from mechc.composition.mechanism import Mechanism, load
from mechc.declare import catalog
from mechc.errors import MechcError
from mechc.protocol import TAG, Kernel, Measure

HEADINGS = (
    "mechanism", "parameters", "adjacency", "claim", "CGF", "atoms", "lattice", "infinite",
    "about",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One mechanism.

    Attributes:
        name: what `mechc.load` takes.
        parameters: names, in order.
        adjacency: neighbouring relation of its claim.
        claim: "proven T1", "declared", ...
        cgf: whether the generating function is closed or integrated.
        atoms: whether the loss has point masses.
        lattice: whether all losses lie on one lattice.
        infinite: whether some outputs occur under one law alone.
        about: first line of its file.
    """

    name: str
    parameters: str
    adjacency: str
    claim: str
    cgf: str
    atoms: str
    lattice: str
    infinite: str
    about: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The attributes in the order of HEADINGS."""
        return tuple(vars(self).values())


def rows(compile_missing: bool = False) -> tuple[Row, ...]:
    """Return one row for each mechanism that can be named.

    Args:
        compile_missing: compile those that have no kernel yet, which takes seconds for each.
    """
    return tuple(row(name, compile_missing) for name in catalog.available())


def row(name: str, compile_missing: bool = False) -> Row:
    """Return the row of one mechanism; what is not known is left empty."""
    about = _first_line(name)
    try:
        mechanism = load(name)
        if compile_missing or mechanism.is_compiled:
            return _of_kernel(name, mechanism, about)
    except MechcError as error:
        about = f"cannot be used: {error}"
    return Row(name, "", "", "", "", "", "", "", about)


def table(found: tuple[Row, ...]) -> Table:
    """Return rows for a terminal."""
    made = Table(box=None, pad_edge=False, expand=True)
    shown = [
        (h, i)
        for i, h in enumerate(HEADINGS)
        if h != "parameters" and any(each.cells[i] for each in found)
    ]
    for heading, i in shown[:-1]:
        width = max(len(heading), *(len(each.cells[i]) for each in found))
        made.add_column(heading, no_wrap=True, min_width=width)
    made.add_column(HEADINGS[-1], no_wrap=True, ratio=1)
    for each in found:
        made.add_row(*(each.cells[i] for _, i in shown))
    if not all(each.claim for each in found):
        made.caption = "empty: not compiled yet (mechc list --compile), or it cannot be"
    return made


def markdown() -> str:
    """Return the rows as a table of the documentation, every mechanism compiled."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *(_with_code(r) for r in rows(True))]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _with_code(found: Row) -> tuple[str, ...]:
    return (f"`{found.name}`", *found.cells[1:])


def claim_word(claim: Claim) -> str:
    """Return a claim in a word or two: "proven T1", "declared"."""
    proven = claim.theorem and claim.status == "proven"
    return f"{claim.status} {claim.theorem}" if proven else claim.status


def _of_kernel(name: str, mechanism: Mechanism, about: str) -> Row:
    kernel = mechanism.kernel
    claim, can = mechanism.claim, kernel.CAPABILITIES
    return Row(
        name,
        ", ".join(p.name for p in mechanism.parameters),
        claim.adjacency,
        claim_word(claim),
        can["cgf"].partition(":")[0],
        "yes" if _has_atoms(kernel) else "no",
        "yes" if can["lattice"].startswith("closed") and TAG not in can else "no",
        "yes" if _is_one_sided(kernel) else "no",
        about,
    )


def _has_atoms(kernel: Kernel) -> bool:
    plateau = any(words.startswith("plateau") for words in kernel.BRANCHES)
    return kernel.MEASURE in ("lattice", "finite") or plateau


def _is_one_sided(kernel: Kernel) -> bool:
    if kernel.MEASURE == Measure.FINITE:
        return kernel.CAPABILITIES["infinite_mass"] != "closed: no such region"
    return any(words.startswith(("p_only", "q_only")) for words in kernel.BRANCHES)


def _first_line(name: str) -> str:
    try:
        words = ast.get_docstring(ast.parse(catalog.find(name).path.read_text("utf-8"))) or ""
    except (SyntaxError, OSError) as error:
        return f"cannot be read: {error}"
    return words.partition("\n")[0]
