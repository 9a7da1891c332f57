"""What a kernel says of itself, against the declaration it is verified with.

Nothing here is a number that a query adds up, and all of it is what an answer says of itself: the
claim, the literature, the parameters with their domains and defaults, the digest of the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mechc.claims import claim_of
from mechc.kernel.emit import digest_of

if TYPE_CHECKING:
    from mechc.declare import Declaration
    from mechc.verify.result import Check


def agree(declaration: Declaration, kernel: Any, text: str, check: Check) -> None:
    """Compare the constants of a kernel with what its declaration leads to.

    Args:
        declaration: what the kernel was made from; its claim is derived again.
        kernel: the module.
        text: its source.
        check: where differences are noted.
    """
    expected = {
        "NAME": declaration.name,
        "ABOUT": declaration.about,
        "REFS": tuple(declaration.refs),
        "CLAIM": claim_of(declaration).record(),
        "PARAMETERS": tuple(tuple(p.info) for p in declaration.parameters),
        "MEASURE": declaration.measure,
        "DIGEST": digest_of(text),
    }
    for name, value in expected.items():
        check.points += 1
        found = vars(kernel).get(name)
        if found != value:
            check.fail(f"{name} is {found!r}, and by the declaration {value!r}")
