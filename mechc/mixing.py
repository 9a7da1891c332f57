"""Mixtures of events whose output tells which of them ran.

One of several mechanisms runs, chosen by the same probabilities on both data sets. Telling which
can only reveal more (T9), and makes the privacy loss distribution the mixture of those of the
parts. Losses with a density are first rounded up to a grid, pessimistically; then there is no
lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mechc import binding
from mechc.adjacency import Adjacency, Claim, joined, weakest
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
    adjacency: Adjacency | str | None = None,
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
    claim = _claim(used, adjacency)
    smooth = any(event.loss().loss.size for event, _ in used)
    listed = [f"{w:g} * {event}" for event, w in used]
    name = f"mixture({', '.join([*listed[:3], '...'] if len(listed) > 4 else listed)})"
    symmetric = all(event.mechanism.symmetric for event, _ in used)
    remove = _mixed(used, "remove", step, name, revealing)
    add = remove if symmetric else _mixed(used, "add", step, name, revealing)
    key = digest("mixture", claim, remove, add)
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


def _claim(used: Sequence[tuple[Event, float]], wanted: Adjacency | str | None) -> Claim:
    """The weakest claim of the parts, by T9; for another relation than theirs it is declared."""
    parts = [(str(event), event.claim) for event, _ in used]
    found = joined(parts, "mixture") if wanted is None else Adjacency.of(wanted)
    claim = weakest(parts, found)
    other = any(part.adjacency not in (Adjacency.ANY, found) for _, part in parts)
    conditions = dict.fromkeys(words for _, part in parts for words in part.conditions)
    stands = f"each pair also stands for {found.words} neighbours where the mixture uses it"
    return replace(
        claim,
        status="declared" if other else claim.status,
        theorem="T9",
        conditions=("the output tells which event happened", *conditions),
        assumptions=(*claim.assumptions, "which event happens does not depend on data",
                     *((stands,) if other else ())),
        about="",
    )  # fmt: skip
