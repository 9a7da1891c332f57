"""Training with differential privacy: from the words of a training loop to a composition.

In: sizes of the data set and of a batch, epochs or steps, a noise multiplier, how batches are
drawn. Out: a composition of Gaussian mechanisms, one for each step or, shuffled, for each epoch.

The noise of every step has standard deviation noise_multiplier * clip_norm, whatever the relation.
What differs is how far one record moves the sum of clipped gradients: by the clip norm when it is
added or removed, by twice the clip norm when it is replaced by another. So replace-one at noise
multiplier z is what add/remove is at z / 2, for a full batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from mechc.adjacency import Adjacency
from mechc.composition import inputs
from mechc.composition.events import Composition
from mechc.composition.mechanism import Mechanism, built_in
from mechc.composition.operations import poisson, truncated_poisson, without_replacement
from mechc.declare.transforms import Shuffled
from mechc.errors import DeclarationError, UnsupportedError, check_one_of, public
from mechc.hints import TRAINING, suggestion
from mechc.protocol import ParameterInfo

ASKED = ("delta", "epsilon", "target_delta", "target_epsilon", "eps")  # not words of a run
SOLVABLE = ("noise_multiplier", "batch_size", "epochs", "steps")
SAMPLERS = ("poisson", "truncated", "fixed", "allocation", "shuffled")
WORDS = (
    "dataset_size", "batch_size", "epochs", "steps", "noise_multiplier", "sampler", "adjacency",
    "clip_norm", "batch_cap",
)  # fmt: skip


@public
def dpsgd(
    *,
    dataset_size: int | None = None,
    batch_size: float | None = None,
    noise_multiplier: float | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    sampler: str = "poisson",
    adjacency: Adjacency | str | None = None,
    clip_norm: float = 1.0,
    batch_cap: int | None = None,
    **unknown: Any,
) -> Composition:
    """Return the composition that a run of DP-SGD amounts to; phases of a training add up by `+`.

    Every step releases the sum of gradients, each clipped to `clip_norm`, with Gaussian noise of
    standard deviation noise_multiplier * clip_norm on every coordinate (Abadi et al. 2016).

    Args:
        dataset_size: number of records.
        batch_size: records in a batch, from 1 to dataset_size; under "poisson" how many are
            expected, which need not be an integer.
        noise_multiplier: standard deviation of the noise divided by the clip norm, > 0, under every
            relation. Replacing a record moves the sum twice as far as removing one, so the same
            noise_multiplier protects less under "replace".
        epochs: passes over the data, >= 0; steps = ceil(epochs * dataset_size / batch_size).
        steps: number of steps, instead of epochs.
        sampler: how batches are drawn.

            * "poisson": every record enters every batch independently with probability
              batch_size / dataset_size (T6 for add/remove; declared for replace).
            * "truncated": the same, and a batch of more than batch_cap records is cut to so many,
              drawn at random (`reductions.truncated_poisson`, T12; add/remove).
            * "fixed": every batch is a uniformly random subset of exactly batch_size records, drawn
              anew for each step (T7; replace).
            * "allocation": in every epoch every record enters one of its ceil(dataset_size /
              batch_size) steps, drawn uniformly (`random_allocation`; add/remove). Of an epoch that
              ends early, after s of t steps, a record is in one of these with probability s / t.
            * "shuffled": the data are shuffled and cut into batches, as most data loaders do.
              This is not Poisson sampling, and its amplification is not counted: every record
              takes part once in an epoch, so that an epoch is one plain Gaussian release (T9).
        adjacency: "add_remove" or "replace"; by default "replace" for "fixed" and else
            "add_remove". Under add/remove "shuffled" supposes that the place of an absent record
            stays empty; the claim of every answer says so.
        clip_norm: largest norm of one record's gradient; it cancels, noise being a multiple of it.
        batch_cap: largest batch of "truncated", which needs it.
        **unknown: refused, with the word that is meant.

    Returns:
        A composition.

    Raises:
        DeclarationError: an argument is missing, unknown or not acceptable.
        UnsupportedError: the sampler has no pair for the relation.
    """
    for word in unknown:
        hint = suggestion(word, WORDS, TRAINING)
        if word in ASKED:
            hint = "; the run that is returned is asked: .epsilon(delta=...), .delta(epsilon=...)"
        listed = "" if hint else f"; expected {', '.join(WORDS)}"
        raise DeclarationError(f"dpsgd: {word}={unknown[word]!r} is not known{hint}{listed}")
    check_one_of("sampler", sampler, SAMPLERS, "dpsgd")
    if (sampler == "truncated") != (batch_cap is not None):
        raise DeclarationError(
            f"dpsgd: sampler={sampler!r} with batch_cap={batch_cap!r} (expected a largest batch "
            "for sampler='truncated', and none for the others)"
        )
    cap = None if batch_cap is None else inputs.size("dpsgd", "batch_cap", batch_cap)
    if (epochs is None) == (steps is None):
        raise DeclarationError("dpsgd: give exactly one of epochs= and steps=")
    relation = _relation(sampler, adjacency)
    size = inputs.size("dpsgd", "dataset_size", _given("dataset_size", dataset_size))
    batch = _batch(sampler, size, _given("batch_size", batch_size))
    clip = inputs.positive("dpsgd", "clip_norm", clip_norm)
    noise = inputs.positive(
        "dpsgd", "noise_multiplier", _given("noise_multiplier", noise_multiplier)
    )
    passes = None if epochs is None else _epochs(epochs)
    number = None if steps is None else inputs.as_count(steps, "steps")
    training = Training(size, batch, passes, number, relation, noise * clip, clip, cap)
    return RUNS[sampler](training)


def solvable(name: str, words: Mapping[str, Any]) -> ParameterInfo:
    """Return the domain of a word of `dpsgd` that can be solved for."""
    if name not in SOLVABLE:
        hint = suggestion(name, SOLVABLE)
        raise DeclarationError(
            f"dpsgd: solve_for={name!r} cannot be solved for{hint} (expected {', '.join(SOLVABLE)})"
        )
    if name == SOLVABLE[0]:
        return ParameterInfo(name, 0.0, math.inf, True, True, False, None, (0.5, 20.0))
    size = inputs.size("dpsgd", "dataset_size", _given("dataset_size", words.get("dataset_size")))
    most, usual = {
        "batch_size": (size, size),
        "epochs": (inputs.MAX_COUNT // size, 8),
        "steps": (inputs.MAX_COUNT, 1024),
    }[name]
    return ParameterInfo(name, 1.0, float(most), False, False, True, None, (1.0, float(usual)))


@dataclass(frozen=True)
class Training:
    """What `dpsgd` is given, checked: of `epochs` and `steps` one is None."""

    size: int
    batch: Fraction
    epochs: Fraction | None
    steps: int | None
    relation: Adjacency
    sigma: float
    clip: float
    cap: int | None = None

    @property
    def rate(self) -> float:
        """Share of the data in a batch."""
        return float(self.batch / self.size)

    def number(self) -> int:
        """How many steps there are."""
        if self.epochs is None:
            return self.steps or 0
        return inputs.as_count(math.ceil(self.epochs * self.size / self.batch))

    def passes(self, each: int) -> int:
        """How many epochs of so many steps are begun."""
        if self.epochs is None:
            return -(-(self.steps or 0) // each)
        return inputs.as_count(math.ceil(self.epochs))

    def uses(self, mechanism: Mechanism, distance: float, count: int) -> Composition:
        """The Gaussian so often, at a distance in units of the clip norm."""
        return mechanism(sigma=self.sigma, sensitivity=distance * self.clip) * count


def _given(name: str, value: Any) -> Any:
    if value is None:
        how = (
            f"; mechc.calibrate(mechc.dpsgd, solve_for={name!r}, ...) finds it, "
            f"or mechc dpsgd --solve-for {name}"
        )
        raise DeclarationError(f"dpsgd: {name} is needed" + how * (name != "dataset_size"))
    return value


def _relation(sampler: str, adjacency: Adjacency | str | None) -> Adjacency:
    """The relation, by default the one that the sampler is usually asked for."""
    fixed = sampler == "fixed"
    if adjacency is None:
        return Adjacency.REPLACE if fixed else Adjacency.ADD_REMOVE
    relation = Adjacency.of(adjacency, sampling=True)
    if fixed and relation is not Adjacency.REPLACE:
        raise UnsupportedError(
            "dpsgd: sampler='fixed' has batches of exactly batch_size records, so that a record "
            "more in the data takes the place of another in a batch: its pair (T7) is for "
            "adjacency='replace'; for add_remove use sampler='poisson' if that is how batches are "
            "drawn"
        )
    return relation


def _batch(sampler: str, size: int, batch_size: Any) -> Fraction:
    """The size of a batch, exactly as it was written."""
    if sampler in ("poisson", "truncated"):
        inputs.positive("dpsgd", "batch_size", batch_size)
        batch = exact(batch_size)
    else:
        batch = Fraction(inputs.size("dpsgd", "batch_size", batch_size))
    if batch < 1:  # a rate, taken for a size, would make the run look private
        raise DeclarationError(
            f"dpsgd: batch_size={float(batch):g} is less than one record (expected 1 <= batch_size "
            f"<= dataset_size={size}; of a sampling rate, rate * dataset_size)"
        )
    if batch > size:
        raise DeclarationError(
            f"dpsgd: batch_size={float(batch):g} is too large (expected batch_size <= "
            f"dataset_size={size})"
        )
    return batch


def _epochs(epochs: Any) -> Fraction:
    info = ParameterInfo("epochs", 0.0, inputs.LARGEST_SIZE, False, False, False, None, (1, 100))
    inputs.check("dpsgd", info, epochs)
    return exact(epochs)


def exact(number: Any) -> Fraction:
    """A number as it was written: 0.1 is one tenth."""
    if isinstance(number, (int, np.integer)):
        return Fraction(int(number))
    return Fraction(number if isinstance(number, (Fraction, Decimal)) else repr(float(number)))


def _poisson(run: Training) -> Composition:
    """One sampled Gaussian a step."""
    if run.batch == run.size and run.relation is Adjacency.REPLACE:
        return _fixed(run)  # all records, as a subset of all of them
    return run.uses(poisson(built_in("gaussian"), run.rate, run.relation), 1.0, run.number())


def _truncated(run: Training) -> Composition:
    """One cut sample a step."""
    if run.relation is not Adjacency.ADD_REMOVE or run.cap is None:
        raise UnsupportedError(
            "dpsgd: sampler='truncated' has a pair for adjacency='add_remove' alone (T12)"
        )
    event = built_in("gaussian")(sigma=run.sigma, sensitivity=run.clip)
    step = truncated_poisson(
        event, sampling_rate=run.rate, dataset_size=run.size, batch_cap=run.cap
    )
    return step * run.number()


def _fixed(run: Training) -> Composition:
    """One Gaussian on a random subset a step, at twice the clip norm."""
    return run.uses(without_replacement(built_in("gaussian"), run.rate), 2.0, run.number())


def _allocation(run: Training) -> Composition:
    """Epochs, in each of which a record enters one step; of one that is cut short a sample."""
    # The record's step is among the first s of t with probability s / t, and is then any of these
    # (T6, T11).
    from mechc.composition.allocation import random_allocation

    if run.relation is not Adjacency.ADD_REMOVE:
        raise UnsupportedError(
            "dpsgd: sampler='allocation' has a pair for adjacency='add_remove' alone"
        )
    each = math.ceil(run.size / run.batch)
    number = (run.steps or 0) if run.epochs is None else math.ceil(run.epochs * each)
    whole, rest = divmod(inputs.as_count(number), each)
    gaussian = built_in("gaussian")(sigma=run.sigma, sensitivity=run.clip)
    released: Composition = random_allocation(gaussian, steps=each) * whole
    if rest:
        released += poisson(random_allocation(gaussian, steps=rest), rest / each)
    return released


def _shuffled(run: Training) -> Composition:
    """One plain Gaussian an epoch; a part of an epoch counts as one."""
    # Of steps, an epoch has at least as many as there are full batches: a record may be in one of
    # them in each, also where the loader drops what is left over.
    shuffled = built_in("gaussian").transformed(Shuffled(run.relation))
    distance = 2.0 if run.relation is Adjacency.REPLACE else 1.0
    return run.uses(shuffled, distance, run.passes(math.floor(run.size / run.batch)))


RUNS: dict[str, Callable[[Training], Composition]] = dict(
    zip(SAMPLERS, (_poisson, _truncated, _fixed, _allocation, _shuffled), strict=True)
)
