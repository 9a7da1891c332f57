"""What a refused request is answered with: the method, the reason, and the methods that can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mechc.accountants.revealing import lacks_moments
from mechc.errors import MechcError, UnsupportedError
from mechc.loss.apart import is_resolved

if TYPE_CHECKING:
    from mechc.loss.measure import Step

MESHED = 1_000_000  # steps beyond which a mesh outgrows memory


def explained(method: str, steps: Sequence[Step], error: MechcError) -> UnsupportedError:
    """Return the error with the method in front and, behind, those to use instead.

    That a method does not settle is a refusal like any other: the methods behind do.

    Args:
        method: the method that was asked for.
        steps: what it was asked about.
        error: its reason.
    """
    others = [name for name in able(steps) if name != method]
    use = ", ".join(others[1:]) + " or " * (len(others) > 1) + "".join(others[:1])
    return UnsupportedError(f"{named(method, error)}; use {use}" if use else named(method, error))


def named(method: str, error: Exception) -> str:
    """Return the words of an error, the method in front."""
    words = str(error)
    return words if method in words.partition(":")[0] else f"{method}: {words}"


def able(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return the methods that bound delta of these steps on both sides; "auto" always does."""
    from mechc.accountants.direct import MAX_STEPS, enumerable  # only once a method has refused
    from mechc.accountants.lattice import common_lattice

    if not all(is_resolved(step.loss) for step in steps):
        return ("auto",)
    count = sum(step.count for step in steps)
    listed = enumerable(steps)
    tilted = all(step.loss.strip[1] > 0.0 for step in steps)
    few = count == 1 or (count <= MAX_STEPS and not lacks_moments(steps))
    can = {
        "auto": True,
        "contour": tilted,
        "direct": listed or few,
        "lattice": tilted and common_lattice(steps) is not None,
        "pld": tilted and count <= MESHED,
    }
    return tuple(name for name, able in can.items() if able)
