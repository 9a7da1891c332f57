"""Mixtures of events whose output tells which of them ran.

One of several mechanisms runs, chosen by the same probabilities on both data sets. Telling which
can only reveal more (T9), and makes the privacy loss distribution the mixture of those of the
parts. Losses with a density are first rounded up to a grid, pessimistically; then there is no
lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from mechc import binding
from mechc.adjacency import Adjacency, Claim, joined, weakest
from mechc.composition import Event
from mechc.errors import DeclarationError, UnsupportedError
from mechc.imported import NumericEvent, Table, digest
from mechc.inputs import as_array
from mechc.kernel.protocol import ParameterInfo
from mechc.loss.grid import TAIL, rounded_up
from mechc.loss.measure import PrivacyLoss

MOST_CUT = 1e-2  # share of an improbable event that may be cut off a tail
STEP = ParameterInfo("step", 0.0, 10.0, True, False, False, None, (1e-4, 1e-4))
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
    asked = as_array("mixture: weights", weights)
    revealing = binding.share("mixture", "revealing", revealing)
    given = np.append(asked, revealing) if revealing else asked
    shares = binding.probabilities("mixture", "weights", given)[: asked.size]
    parts = list(events) if isinstance(events, Iterable) else [events]
    for part in parts:
        if not isinstance(part, Event):
            raise DeclarationError(
                f"mixture: events: {part!r} is not one use of a mechanism (expected events; a "
                "mechanism first needs its parameters, a composition is several uses)"
            )
    if len(shares) != len(parts):
        raise DeclarationError(f"mixture: {len(parts)} events and {len(shares)} weights")
    step = binding.check("mixture", STEP, step)
    used = [(event, w) for event, w in zip(parts, shares, strict=True) if w > 0]
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
    losses, masses = [], []
    ends = [[math.log(revealing) if revealing else -math.inf] for _ in range(2)]
    error = tolerance = 0.0
    for event, weight in used:
        law, log_weight = event.loss(direction), math.log(weight)
        if law.loss.size:
            law = rounded_up(law, step, max(TAIL, min(MOST_CUT, TAIL / weight)))
        losses.append(law.atom_loss)
        masses.append(log_weight + law.atom_log_mass)
        for end, mass in zip(ends, (law.log_infinite, law.log_minus_infinite), strict=True):
            end.append(log_weight + mass)
        error, tolerance = max(error, law.loss_error), max(tolerance, law.tolerance)
    infinite, minus = (float(np.logaddexp.reduce(end)) for end in ends)
    made = PrivacyLoss.from_log_atoms(
        np.concatenate(losses), np.concatenate(masses), infinite, minus, name, loss_error=error
    )
    return replace(made, tolerance=max(tolerance, made.tolerance))


def _claim(used: Sequence[tuple[Event, float]], wanted: Adjacency | str | None) -> Claim:
    """The weakest claim of the parts, by T9; for another relation than theirs it is declared."""
    parts = [(str(event), event.claim) for event, _ in used]
    found = joined(parts, "mixture") if wanted is None else Adjacency.of(wanted)
    claim = weakest(parts, found)
    other = len({part.group for _, part in parts}) > 1 or any(
        part.adjacency not in (Adjacency.ANY, found) for _, part in parts
    )
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
