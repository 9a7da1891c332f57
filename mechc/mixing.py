"""Mixtures of events whose output tells which of them ran.

One of several mechanisms runs, chosen by the same probabilities on both data sets. Telling which
can only reveal more (T9), and makes the privacy loss distribution the mixture of those of the
parts. Losses with a density are first rounded up to a grid, pessimistically; then there is no
lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mechc import binding
from mechc.composition import Event
from mechc.errors import DeclarationError, UnsupportedError
from mechc.imported import NumericEvent, Table, digest
from mechc.loss.grid import TAIL, rounded_up
from mechc.loss.measure import PrivacyLoss

MOST_CUT = 1e-2  # share of an improbable event that may be cut off a tail
ROUNDED = "upper bound only: losses with a density were rounded up to a grid before mixing"


def mixture(
    events: Sequence[Event],
    weights: Sequence[float],
    *,
    step: float = 1e-4,
    adjacency: str | None = None,
    revealing: float = 0.0,
) -> NumericEvent:
    """Return the event in which events[i] happens with probability weights[i], and says so.

    Args:
        events: uses of mechanisms.
        weights: probabilities with sum 1.
        step: distance of the losses to which densities are rounded up.
        adjacency: neighbouring relation that the mixture is for, where the parts' own differ.
        revealing: probability of an event that reveals everything; with the weights it sums to 1.

    Raises:
        DeclarationError: the lists differ in length, or are not of this kind.
        UnsupportedError: a tail of a loss without an exponential bound.
    """
    given = [*weights, revealing] if revealing else weights
    shares = binding.probabilities("mixture", "weights", given)[: len(weights)]
    if len(shares) != len(events) or not all(isinstance(e, Event) for e in events):
        raise DeclarationError(f"mixture: expected {len(shares)} events, one for each weight")
    used = [(event, w) for event, w in zip(events, shares, strict=True) if w > 0]
    for event, _ in used:
        if event.upper_only:
            raise UnsupportedError(f"mixture: {event}: {event.upper_only}")
    smooth = any(event.loss().loss.size for event, _ in used)
    listed = [f"{w:g} * {event}" for event, w in used]
    name = f"mixture({', '.join([*listed[:3], '...'] if len(listed) > 4 else listed)})"
    symmetric = all(event.mechanism.symmetric for event, _ in used)
    remove = _mixed(used, "remove", step, name, revealing)
    add = remove if symmetric else _mixed(used, "add", step, name, revealing)
    key, claim = digest("mixture", remove, add), _claim(used, adjacency)
    table = Table(name, key, symmetric, claim, upper_only=ROUNDED if smooth else "")
    return NumericEvent(table, remove, add)


def _mixed(
    used: Sequence[tuple[Event, float]], direction: str, step: float, name: str, revealing: float
) -> PrivacyLoss:
    """The mixture of the laws of one direction."""
    losses, masses, infinite, minus = [], [], revealing, revealing
    for event, weight in used:
        law = event.loss(direction)
        if law.loss.size:
            law = rounded_up(law, step, max(TAIL, min(MOST_CUT, TAIL / weight)))
        losses.append(law.atom_loss)
        masses.append(weight * np.exp(law.atom_log_mass))
        infinite += weight * float(np.exp(law.log_infinite))
        minus += weight * float(np.exp(law.log_minus_infinite))
    return PrivacyLoss.from_atoms(
        np.concatenate(losses), np.concatenate(masses), infinite, minus, label=name
    )


def _claim(used: Sequence[tuple[Event, float]], wanted: str | None) -> dict[str, Any]:
    parts = [event.mechanism.claim for event, _ in used]
    statuses = {part.get("status", "declared") for part in parts}
    adjacencies = {part.get("adjacency", "any") for part in parts} - {"any"}
    adjacencies = {wanted} if wanted is not None else adjacencies
    if len(adjacencies) > 1:
        raise DeclarationError(f"mixture: events for different adjacencies {sorted(adjacencies)}")
    gathered = {
        word: tuple(dict.fromkeys(w for part in parts for w in part.get(word, ())))
        for word in ("conditions", "assumptions")
    }
    return {
        "status": statuses.pop() if len(statuses) == 1 else "declared",
        "theorem": "T9",
        "adjacency": adjacencies.pop() if adjacencies else "any",
        "conditions": ("the output tells which event happened", *gathered["conditions"]),
        "assumptions": (*gathered["assumptions"], "which event happens does not depend on data"),
    }
