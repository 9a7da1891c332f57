"""The mechanisms that can be named, with what is known about each: for the terminal and the docs.

In: names. Out: rows read from compiled kernels; a mechanism that has not been compiled is shown
with its first line alone, unless compiling it is asked for.
"""

from __future__ import annotations

import ast

from rich.table import Table

from mechc.adjacency import Claim
from mechc.composition.mechanism import Mechanism, load
from mechc.declare import catalog
from mechc.errors import MechcError
from mechc.protocol import TAG, Measure, is_closed

HEADINGS = {
    "name": "mechanism", "parameters": "parameters", "adjacency": "adjacency", "claim": "claim",
    "cgf": "CGF", "atoms": "atoms", "lattice": "lattice", "infinite": "infinite", "about": "about",
}  # fmt: skip
"""What is known about a mechanism, and the words above it in tables: its name and parameters, the
relation and the status of its claim, whether the generating function is closed or integrated,
whether the loss has point masses, lies on one lattice, or is infinite for some outputs; and the
first line of its file."""
Row = dict[str, str]
WIDE = 130  # characters of a line from which on there is room for all columns


def rows(compile_missing: bool = False) -> list[Row]:
    """Return what is known about each mechanism that can be named, empty if it is not compiled."""
    found = []
    for name in catalog.available():
        known = {**dict.fromkeys(HEADINGS, ""), "name": name, "about": _first_line(name)}
        try:
            mechanism = load(name)
            if compile_missing or mechanism.is_compiled:
                known |= _of_kernel(mechanism)
        except MechcError as error:
            known["about"] = f"cannot be used: {error}"
        found.append(known)
    return found


def table(found: list[Row], room: int) -> Table:
    """Return rows for a terminal of so many characters, without columns that are empty."""
    made = Table(box=None, pad_edge=False, expand=True)
    left_out = {"parameters"} if room >= WIDE else HEADINGS.keys() - {"name", "claim", "about"}
    shown = [w for w in HEADINGS if w not in left_out and any(row[w] for row in found)]
    for word in shown:
        width = max(len(HEADINGS[word]), *(len(row[word]) for row in found))
        last = word == "about"
        made.add_column(HEADINGS[word], no_wrap=not last, min_width=None if last else width,
                        ratio=1 if last else None)  # fmt: skip
    for row in found:
        made.add_row(*(row[word] for word in shown))
    if not all(row["claim"] for row in found):
        made.caption = "empty: not compiled yet (mechc list --compile), or it cannot be"
    return made


def markdown() -> str:
    """Return the rows as a table of the documentation, every mechanism compiled."""
    lines = [list(HEADINGS.values()), ["---"] * len(HEADINGS)]
    lines += [[f"`{row['name']}`", *list(row.values())[1:]] for row in rows(True)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def claim_word(claim: Claim) -> str:
    """Return a claim in a word or two: "proven T1", "declared"."""
    proven = claim.theorem and claim.status == "proven"
    return f"{claim.status} {claim.theorem}" if proven else claim.status


def _of_kernel(mechanism: Mechanism) -> Row:
    kernel, claim = mechanism.kernel, mechanism.claim
    can, branches = kernel.CAPABILITIES, kernel.BRANCHES
    infinite = any(words.startswith(("p_only", "q_only")) for words in branches)
    if kernel.MEASURE == Measure.FINITE:
        infinite = can["infinite_mass"] != "closed: no such region"
    plateau = any(words.startswith("plateau") for words in branches)
    words = ("no", "yes")
    return {
        "parameters": ", ".join(p.name for p in mechanism.parameters),
        "adjacency": claim.adjacency,
        "claim": claim_word(claim),
        "cgf": can["cgf"].partition(":")[0],
        "atoms": words[kernel.MEASURE != Measure.DENSITY or plateau],
        "lattice": words[is_closed(kernel, "lattice") and TAG not in can],
        "infinite": words[infinite],
    }


def _first_line(name: str) -> str:
    try:
        words = ast.get_docstring(ast.parse(catalog.find(name).path.read_text("utf-8"))) or ""
    except (SyntaxError, OSError) as error:
        return f"cannot be read: {error}"
    return words.partition("\n")[0]
