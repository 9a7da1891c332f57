"""Events, an accountant and privacy loss distributions of Google's dp_accounting (optional).

`MechcAccountant` and `from_event` come from `dp_events` beside this file when they are asked for. A
pessimistic distribution becomes an event; an event of ours becomes a pessimistic distribution by
the same connect-the-dots rule, on the interval that dp_accounting is asked to use.
"""

from __future__ import annotations

import math
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mechc.adjacency import Adjacency
from mechc.composition import inputs
from mechc.composition.events import Event
from mechc.composition.tables import NumericEvent, from_losses
from mechc.errors import DeclarationError, UnsupportedError, public

if TYPE_CHECKING:
    from mechc.integrations.dp_events import MechcAccountant as MechcAccountant
    from mechc.integrations.dp_events import from_event as from_event

__all__ = ["MechcAccountant", "from_dp_accounting", "from_event", "to_dp_accounting"]
MOST_LIFTED = 1e-5  # excess mass under P or Q that an import repairs


RELATIONS = {"ADD_OR_REMOVE_ONE": Adjacency.ADD_REMOVE, "REPLACE_ONE": Adjacency.REPLACE}


def __getattr__(name: str) -> Any:
    """Import what needs dp_accounting when it is asked for."""
    if name in ("MechcAccountant", "from_event"):
        return getattr(import_module("mechc.integrations.dp_events"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what is there for users."""
    return __all__


@public
def from_dp_accounting(
    pld: Any, *, adjacency: Any = None, name: str = "dp_accounting"
) -> NumericEvent:
    """Return an event with the law of a dp_accounting PrivacyLossDistribution.

    Args:
        pld: pessimistic; both of its directions are taken over.
        adjacency: neighbouring relation it is for, as here or as a NeighboringRelation of
            dp_accounting. By default that of the event it was made from by `to_dp_accounting`,
            and "any" for others: a PrivacyLossDistribution does not say.
        name: name for people.

    Raises:
        DeclarationError: it is optimistic, or not a PrivacyLossDistribution, or the relation is
            not known.
    """
    try:
        remove, add = pld._pmf_remove, pld._pmf_add
    except AttributeError:
        raise DeclarationError(
            f"from_dp_accounting: {type(pld).__name__} is not a PrivacyLossDistribution"
        ) from None
    if not all(getattr(pmf, "_pessimistic_estimate", False) for pmf in (remove, add)):
        raise DeclarationError(
            "from_dp_accounting: the distribution is optimistic, it bounds nothing from above "
            "(expected pessimistic_estimate=True)"
        )
    if adjacency is None:
        relation = vars(pld).get("adjacency", Adjacency.ANY)
    else:
        named = adjacency.name if isinstance(adjacency, Enum) else ""
        relation = RELATIONS.get(named, adjacency)
    step = float(remove._discretization)
    same = remove is add
    tables = [_arrays(pmf) for pmf in ([remove] if same else [remove, add])]
    missed = [table.missing for table in tables if table.missing]
    words = "".join(
        f"; its masses sum to {1.0 - miss!r}, and what is missing reveals everything"
        if miss > 0
        else f"; its masses sum to {1.0 - miss!r}, and what is too much is taken from where it "
        "reveals least"
        for miss in missed
    )
    (losses, masses, infinite), *others = (table[:3] for table in tables)
    return from_losses(
        losses, masses, infinite_mass=infinite, step=step, symmetric=same,
        add=others[0] if others else None, name=name,
        adjacency=relation,
        because="a pessimistic distribution of dp_accounting, which is above the mechanism's"
        + words,
    )  # fmt: skip


@public
def to_dp_accounting(event: Event, *, discretization: float = 1e-4) -> Any:
    """Return a pessimistic dp_accounting PrivacyLossDistribution of an event.

    Its attribute `adjacency` holds the neighbouring relation, for `from_dp_accounting`; what
    dp_accounting composes of it does not have that.

    Args:
        event: one use of a mechanism.
        discretization: distance of losses, positive.

    Raises:
        DeclarationError: the distance is not positive, or what is given is not one event.
        UnsupportedError: dp_accounting is not installed.
    """
    if not isinstance(event, Event):
        raise DeclarationError(
            f"to_dp_accounting: event={event!r} is not one use of a mechanism (expected an event; "
            "dp_accounting repeats it by self_compose and adds others by compose)"
        )
    discretization = inputs.positive("to_dp_accounting", "discretization", discretization)
    try:
        theirs = import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError as error:
        raise UnsupportedError("to_dp_accounting: dp_accounting is not installed") from error
    laws = {d: _rounded(event, d, discretization) for d in ("remove", "add")}
    made = theirs.PrivacyLossDistribution.create_from_rounded_probability(
        laws["remove"][0], laws["remove"][1], discretization, pessimistic_estimate=True,
        rounded_probability_mass_function_add=laws["add"][0], infinity_mass_add=laws["add"][1],
        symmetric=False,
    )  # fmt: skip
    made.adjacency = event.adjacency
    return made


class _Masses(NamedTuple):
    """Steps, masses and mass at infinity; and by how much they fell short of one before."""

    steps: Any
    masses: Any
    infinite: float
    missing: float


def _arrays(pmf: Any) -> _Masses:
    """Read a dense or sparse probability mass function whose sum may have been rounded."""
    # What is missing is taken to reveal everything. What is too much goes from the lowest losses:
    # the profile stays as it is above them, and below it is the chord to 1 at exp(epsilon) = 0,
    # with no convex function above it.
    dense = pmf.to_dense_pmf()
    masses = np.asarray(dense._probs, np.float64)
    kept = masses > 0
    steps = dense._lower_loss + np.arange(masses.size)
    steps, masses, infinite = steps[kept], masses[kept].copy(), float(dense._infinity_mass)
    missing = 1.0 - math.fsum([*masses.tolist(), infinite])
    if -MOST_LIFTED < missing < 0.0:
        below = int(np.searchsorted(np.cumsum(masses), -missing))
        masses[below] = math.fsum([*masses[: below + 1].tolist(), missing])
        masses[:below] = 0.0
    _lift(steps, masses, dense._discretization)
    return _Masses(steps, masses, min(infinite + max(missing, 0.0), 1.0), missing)


def _lift(steps: Any, masses: Any, step: float) -> None:
    """Move a little mass from the lowest losses to the one next to 0, until Q has mass one."""
    # Cutting the lower tail leaves slightly too much mass under Q; larger losses are on the safe
    # side. More than a little is left where it is, for the check behind this one to refuse.
    target = int(np.argmin(np.abs(steps)))
    excess = math.fsum((masses * np.exp(-steps * step)).tolist()) - 1.0
    if not 0 < excess < MOST_LIFTED:
        return
    for i in range(target):
        gain = math.exp(-steps[i] * step) - math.exp(-steps[target] * step)
        moved = min(float(masses[i]), excess / gain)
        masses[i] -= moved
        masses[target] += moved
        excess -= moved * gain
        if excess <= 0:
            return


def _rounded(event: Event, direction: str, step: float) -> tuple[dict[int, float], float]:
    """Masses on multiples of the step, from above, and the mass at infinity."""
    from mechc.loss.discretise import rounded_up

    law = rounded_up(event.loss(direction), step)
    index = np.round(law.atom_loss / step).astype(int).tolist()
    masses = np.exp(law.atom_log_mass).tolist()
    return dict(zip(index, masses, strict=True)), math.exp(law.log_infinite)
