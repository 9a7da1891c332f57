"""Events, an accountant and privacy loss distributions of Google's dp_accounting (optional).

`MechcAccountant` and `from_event` come from `dp_events` beside this file when they are asked for. A
pessimistic distribution becomes an event; an event of ours becomes a pessimistic distribution by
the same connect-the-dots rule, on the interval that dp_accounting is asked to use.
"""

from __future__ import annotations

import math
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from mechc.adjacency import Adjacency
from mechc.composition import inputs
from mechc.composition.events import Event, as_event
from mechc.composition.tables import NumericEvent, from_losses
from mechc.errors import DeclarationError, library, public

if TYPE_CHECKING:
    from mechc.integrations.dp_events import MechcAccountant as MechcAccountant
    from mechc.integrations.dp_events import from_event as from_event

__all__ = ["MechcAccountant", "from_dp_accounting", "from_event", "to_dp_accounting"]
MOST_LIFTED = 1e-5  # excess mass under P or Q that an import repairs
MISSING = "what is missing reveals everything"
TOO_MUCH = "what is too much is taken from where it reveals least"


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
        DeclarationError: it is optimistic, or not a PrivacyLossDistribution, or its directions
            are on two meshes, or the relation is not known.
    """
    try:
        remove, add = pld._pmf_remove, pld._pmf_add
        steps = {float(pmf._discretization) for pmf in (remove, add)}
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
    if len(steps) > 1:
        raise DeclarationError(
            f"from_dp_accounting: the directions have losses on multiples of {min(steps)!r} and of "
            f"{max(steps)!r} (expected one discretization)"
        )
    (step,), same = steps, remove is add
    laws, gaps = zip(*map(_repaired, [remove] if same else [remove, add]), strict=True)
    because = "a pessimistic distribution of dp_accounting, which is above the mechanism's"
    for gap in filter(None, gaps):
        because += f"; its masses sum to {1.0 - gap!r}, and {MISSING if gap > 0 else TOO_MUCH}"
    (losses, masses, infinite), *others = laws
    return from_losses(
        losses, masses, infinite_mass=infinite, step=step, symmetric=same,
        add=others[0] if others else None, name=name, adjacency=relation, because=because,
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
    as_event("to_dp_accounting: event", event, "self_compose repeats and compose adds the result")
    discretization = inputs.positive("to_dp_accounting", "discretization", discretization)
    theirs = library("dp_accounting.pld.privacy_loss_distribution")
    laws = {d: _rounded(event, d, discretization) for d in ("remove", "add")}
    made = theirs.PrivacyLossDistribution.create_from_rounded_probability(
        laws["remove"][0], laws["remove"][1], discretization, pessimistic_estimate=True,
        rounded_probability_mass_function_add=laws["add"][0], infinity_mass_add=laws["add"][1],
        symmetric=False,
    )  # fmt: skip
    made.adjacency = event.adjacency
    return made


def _repaired(pmf: Any) -> tuple[tuple[Any, Any, float], float]:
    """Steps, masses and mass at infinity that sum to one, and how much was missing before."""
    # What is missing is taken to reveal everything. What is too much goes from the lowest losses:
    # the profile stays as it is above them, and below it is the chord to 1 at exp(epsilon) = 0,
    # with no convex function above it.
    dense = pmf.to_dense_pmf()
    masses = np.asarray(dense._probs, np.float64)
    kept = masses > 0
    if not kept.any():  # all of it may stand at infinity
        kept[:1] = True
    steps, masses = (dense._lower_loss + np.arange(masses.size))[kept], masses[kept]
    infinite = float(dense._infinity_mass)
    missing = 1.0 - math.fsum([*masses.tolist(), infinite])
    if -MOST_LIFTED < missing < 0.0:
        masses = np.clip(np.cumsum(masses) + missing, 0.0, masses)
    # Cutting the lower tail leaves slightly too much mass under Q: a little of P goes from the
    # lowest losses to the one next to 0, until Q has mass one; larger losses are on the safe side.
    # More than a little is left where it is, for the check behind this one to refuse.
    with np.errstate(over="ignore"):  # too much mass under Q, which is refused
        ratios = np.exp(-steps * dense._discretization)
    excess = math.fsum((masses * ratios).tolist()) - 1.0
    if 0 < excess < MOST_LIFTED:
        target = int(np.argmin(np.abs(steps)))
        gain = ratios[:target] - ratios[target]
        lost = np.clip(
            excess + gain * masses[:target] - np.cumsum(gain * masses[:target]), 0.0, None
        )
        moved = np.minimum(lost / gain, masses[:target])
        masses[:target] -= moved
        masses[target] += moved.sum()
    return (steps, masses, min(infinite + max(missing, 0.0), 1.0)), missing


def _rounded(event: Event, direction: str, step: float) -> tuple[dict[int, float], float]:
    """Masses on multiples of the step, from above, and the mass at infinity."""
    from mechc.loss.discretise import rounded_up

    law = event.loss(direction)
    if law.log_finite == -math.inf:  # every output tells
        return {0: 0.0}, 1.0
    law = rounded_up(law, step)
    index = np.round(law.atom_loss / step).astype(int).tolist()
    masses = np.exp(law.atom_log_mass).tolist()
    return dict(zip(index, masses, strict=True)), math.exp(law.log_infinite)
