"""The events of dp_accounting as compositions of ours, and an accountant that takes them.

An event names a mechanism by the norm C of one record's contribution; how far a neighbour moves the
query follows from the relation. `ADD_OR_REMOVE_ONE` and `REPLACE_SPECIAL` move it by C: a record
comes, or becomes the record that contributes nothing, and in both a Poisson sample leaves it out
with one probability. `REPLACE_ONE` moves it by 2 C. Needs dp_accounting;
`mechc.integrations.dp_accounting` imports this file when one of its names is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from sys import float_info
from types import MappingProxyType
from typing import Any

from mechc.accountants.bound import Bound
from mechc.adjacency import Adjacency
from mechc.composition.events import Composition, Event, compose
from mechc.composition.inputs import as_count, as_number, size
from mechc.composition.mechanism import built_in
from mechc.composition.operations import poisson, random_sensitivity, without_replacement
from mechc.composition.renyi_curves import zcdp
from mechc.composition.selection import repeat_and_select
from mechc.composition.tables import from_pmfs
from mechc.errors import DeclarationError, UnsupportedError, listed, public
from mechc.numeric.rounding import U
from mechc.reductions import drawn_with_replacement, tree_aggregation, truncated_poisson

try:
    from dp_accounting import dp_event as dp
    from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant
except ImportError as missing:
    raise UnsupportedError(
        "dp_accounting is not installed: pip install 'mechc[dp_accounting]'"
    ) from missing

Found = Event | Composition
ADD_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL
DISTANCE = MappingProxyType({ADD_REMOVE: 1, REPLACE: 2, SPECIAL: 1})  # moves, in units of C
ROUNDING = 8 * U  # of a few operations in doubles, relative
_drawn = lru_cache(maxsize=128)(drawn_with_replacement)
_truncated = lru_cache(maxsize=128)(truncated_poisson)


class RefusedError(UnsupportedError):
    """An event without a pair, and which part of it is to blame."""

    def __init__(self, event: Any, words: str) -> None:
        """Keep the part beside the words."""
        super().__init__(f"{event}: {words}")
        self.blamed = event, words


@public
def from_event(event: Any, neighboring_relation: Any = ADD_REMOVE) -> Composition:
    """Return the composition that a DpEvent of dp_accounting stands for.

    Args:
        event: the DpEvent, of any depth.
        neighboring_relation: a NeighboringRelation of dp_accounting. Distances follow from it;
            answers under `REPLACE_SPECIAL` carry the pairs of add/remove.

    Returns:
        A composition; a non-private event is one that reveals everything (epsilon is inf).

    Raises:
        DeclarationError: a parameter of the event, or the relation, is not acceptable.
        UnsupportedError: an event, or an event under this relation, for which no pair is known.
    """
    if not isinstance(neighboring_relation, NeighboringRelation):
        raise DeclarationError(
            f"from_event: neighboring_relation={neighboring_relation!r} is not known (expected a "
            "dp_accounting.NeighboringRelation)"
        )
    kind = KINDS.get(type(event))
    if kind is None:
        known = (
            "its Rényi divergences, if you bound them, are an event: mechc.rdp(orders, epsilons)"
        )
        raise RefusedError(event, f"no pair is known for this event; {known}")
    return kind(event, neighboring_relation).composition()


@public
class MechcAccountant(PrivacyAccountant):  # type: ignore[misc]
    """A PrivacyAccountant of dp_accounting whose answers are our proven upper sides.

    Attributes:
        composition: what has been composed, for every other query (`composition.claims` says what
            its pairs rest on).
    """

    composition: Composition

    def __init__(self, neighboring_relation: Any = ADD_REMOVE) -> None:
        """Start without events.

        Args:
            neighboring_relation: a NeighboringRelation of dp_accounting.

        Raises:
            DeclarationError: the relation is not one.
        """
        self.composition = from_event(dp.NoOpDpEvent(), neighboring_relation)
        super().__init__(neighboring_relation)

    def __repr__(self) -> str:
        """Show the relation, and what has been composed."""
        relation = self.neighboring_relation.name
        return f"{type(self).__name__}({relation}, composition={self.composition!r})"

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        """What is wrong with the event, or None; add it if asked to."""
        try:
            found = from_event(event, self.neighboring_relation)
        except UnsupportedError as refused:
            blamed, words = getattr(refused, "blamed", (event, str(refused)))
            return self.CompositionErrorDetails(blamed, words)
        if do_compose:
            self.composition = self.composition + count * found
        return None

    def get_epsilon(self, target_delta: float) -> float:
        """Return an upper bound on epsilon at a delta in [0, 1].

        Inf where nothing is private or nothing is proven.

        Raises:
            DeclarationError: the delta is not in [0, 1].
        """
        target_delta = as_number("target_delta", target_delta, "0 <= delta <= 1", 0.0, 1.0)
        return self._upper(self.composition.epsilon, target_delta, math.inf)

    def get_delta(self, target_epsilon: float) -> float:
        """Return an upper bound on delta at an epsilon; 1 where nothing is private or proven."""
        target_epsilon = as_number("target_epsilon", target_epsilon)
        return self._upper(self.composition.delta, target_epsilon, 1.0)

    def _upper(self, ask: Callable[[float], Bound], at: float, worst: float) -> float:
        """The upper side of an answer, the worst one where all is revealed or there is none."""
        if any(event == _revealing() for event, _ in self.composition):
            return worst
        upper: Any = ask(at).upper
        return worst if math.isnan(upper) else float(upper)


def _revealing() -> Event:
    return built_in("approximate_dp")(epsilon=0.0, delta=1.0)


def _only(event: Any, relation: NeighboringRelation, *accepted: NeighboringRelation) -> None:
    """Refuse an event that has no pair under the relation."""
    if relation not in accepted:
        names = " or ".join(f"`{r.name}`" for r in accepted)
        raise RefusedError(
            event,
            f"neighboring_relation must be {names} for `{type(event).__name__}`, "
            f"not `{relation.name}`",
        )


def _amount(event: Any, name: str, most: float = float_info.max, said: str = "") -> float:
    """A parameter that is a finite number >= 0."""
    accepted = f"0 <= {name} <= {most:g}" if most < float_info.max else "a non-negative number"
    about = f"{type(event).__name__}: {said}{name}"
    return as_number(about, getattr(event, name), accepted, 0.0, most)


def _multiplier(event: Any) -> float:
    """The deviation or scale of noise over the norm of a contribution."""
    return _amount(event, "noise_multiplier", said="Noise multiplier ")


def _rate(event: Any) -> float:
    """The probability of taking a record into a Poisson sample."""
    return _amount(event, "sampling_probability", 1.0, "Sampling rate ")


def _size(event: Any, name: str) -> int:
    """A parameter that is a positive integer."""
    return size(type(event).__name__, name, getattr(event, name))


def _composed(event: Any, relation: NeighboringRelation) -> Found:
    parts = listed("ComposedDpEvent: events", event.events, "a list of events")
    return compose(*(from_event(part, relation) for part in parts))


def _repeated(event: Any, relation: NeighboringRelation) -> Found:
    return from_event(event.event, relation) * as_count(event.count)


def _noise(event: Any, distance: int) -> Event:
    """Additive noise on a query that moves `distance` times as far."""
    # Gaussians on one sample are one: their means move along a single direction, by the norm of
    # their distances over their deviations.
    name, parameter = "gaussian", "sigma"
    if isinstance(event, dp.LaplaceDpEvent):
        name, parameter, level = "laplace", "scale", _multiplier(event)
    elif isinstance(event, dp.DiscreteLaplaceDpEvent):
        name, parameter, level = "discrete_laplace", "a", _amount(event, "noise_parameter")
        distance *= _size(event, "sensitivity")
    elif isinstance(event, dp.GaussianDpEvent):
        level = _multiplier(event)
    elif told := _told(event):
        level = (1 - ROUNDING) / told
    else:
        raise RefusedError(event, "there is no noise on the sample")
    return built_in(name)(**{parameter: level}, sensitivity=distance) if level else _revealing()


def _told(event: Any) -> float:
    """The distance over the deviation of Gaussians that see one sample, inf without noise."""
    if isinstance(event, dp.GaussianDpEvent):
        sigma = _multiplier(event)
        return 1 / sigma if sigma else math.inf
    if isinstance(event, dp.ComposedDpEvent):
        return math.hypot(*map(_told, event.events))
    if isinstance(event, dp.SelfComposedDpEvent):
        return math.sqrt(as_count(event.count)) * _told(event.event)
    raise RefusedError(event, "a sample is taken for one noise, or for several Gaussian ones")


def _unsampled(event: Any, relation: NeighboringRelation) -> Found:
    return _noise(event, DISTANCE[relation])


def _poisson(event: Any, relation: NeighboringRelation) -> Found:
    """T6; for replacement the pair with both moves, which is declared and is for Gaussian noise."""
    rate, inner = _rate(event), event.event
    if isinstance(
        inner, (dp.MixtureOfGaussiansDpEvent, dp.LaplaceDpEvent, dp.DiscreteLaplaceDpEvent)
    ):
        _only(event, relation, ADD_REMOVE, SPECIAL)
    mixed = isinstance(inner, dp.MixtureOfGaussiansDpEvent)
    base = _moves(inner, relation) if mixed else _blamed(event, inner, 1)
    if not rate or isinstance(base, Composition):
        return Composition()
    if base == _revealing():
        return base
    adjacency = Adjacency.REPLACE if relation is REPLACE else Adjacency.ADD_REMOVE
    return poisson(base, rate, adjacency)


def _blamed(event: Any, inner: Any, distance: int) -> Event:
    """The noise inside a sampler, which is to blame where there is none."""
    try:
        return _noise(inner, distance)
    except RefusedError as refused:
        raise RefusedError(event, str(refused)) from refused


def _batch(event: Any, relation: NeighboringRelation) -> Found:
    """A batch of a fixed size: T7 at the distance of replacement, for draws T7 and T9."""
    _only(event, relation, REPLACE)
    base = _blamed(event, event.event, DISTANCE[REPLACE])
    records = _size(event, "source_dataset_size")
    taken = as_count(event.sample_size, "sample_size")
    if not taken:
        return Composition()
    if base == _revealing():
        return base
    if isinstance(event, dp.SampledWithReplacementDpEvent):
        return _drawn(base, dataset_size=records, batch_size=taken)
    return without_replacement(base, taken / records)


def _cut(event: Any, relation: NeighboringRelation) -> Found:
    """A record that becomes a special one is dropped as often: plain sampling bounds that."""
    _only(event, relation, ADD_REMOVE, SPECIAL)
    sigma, rate = _multiplier(event), _rate(event)
    records = as_count(event.dataset_size, "dataset_size")
    most = as_count(event.truncated_batch_size, "truncated_batch_size")
    if not (rate and records and most):
        return Composition()
    if not sigma:
        return _revealing()
    return _truncated(sigma, dataset_size=records, sampling_rate=rate, batch_cap=most)


def _moves(event: Any, relation: NeighboringRelation) -> Found:
    """T8."""
    _only(event, relation, ADD_REMOVE, SPECIAL)
    sigma = _amount(event, "standard_deviation")
    if not any(event.sensitivities):
        return Composition()
    if not sigma:
        return _revealing()
    gaussian = built_in("gaussian")(sigma=sigma, sensitivity=1.0)
    return random_sensitivity(gaussian, list(event.sensitivities), list(event.sampling_probs))


def _response(event: Any, relation: NeighboringRelation) -> Found:
    """Two true categories; or one against a record without content, whose answer is uniform."""
    _only(event, relation, REPLACE, SPECIAL)
    p = _amount(event, "noise_parameter", 1.0)
    k = _size(event, "num_buckets")
    if k == 1 or p == 1:
        return Composition()
    if p == 0:
        return _revealing()
    if relation is REPLACE:
        epsilon = math.log1p(k * (1 - p) / p) * (1 + ROUNDING)
        return built_in("randomized_response")(epsilon=epsilon, categories=k)
    other = (k - 1) * p / k
    return from_pmfs(
        [(1 - p) + p / k, other],  # no digits are lost where p is nearly one
        [1 / k, 1 - 1 / k],
        name=f"randomized_response(noise={p:g}, categories={k}) against a uniform answer",
    )


def _concentrated(event: Any, relation: NeighboringRelation) -> Found:
    rho, xi = _amount(event, "rho"), _amount(event, "xi")
    return zcdp(rho, xi) if rho or xi else Composition()


def _tree(event: Any, relation: NeighboringRelation) -> Found:
    """The tallest tree: a record is in one of them, and in each complete subtree above it."""
    _only(event, relation, SPECIAL)
    given = event.step_counts
    steps = [given] if isinstance(given, int) else given
    most = max((as_count(count, "step_counts") for count in steps), default=0)
    sigma = _multiplier(event)
    if not most:
        return Composition()
    complete = 1 << (most.bit_length() - 1)
    return tree_aggregation(complete, sigma) if sigma else _revealing()


def _selected(event: Any, relation: NeighboringRelation) -> Found:
    """The best of a random number of runs: a bound on its Rényi divergences."""
    run = from_event(event.event, relation)
    if not run.parts:
        return run
    if any(part == _revealing() for part, _ in run):
        return _revealing()
    return repeat_and_select(run, mean=event.mean, shape=event.shape)


def _guaranteed(event: Any, relation: NeighboringRelation) -> Found:
    epsilon, delta = _amount(event, "epsilon"), _amount(event, "delta", 1.0)
    pair = built_in("approximate_dp")
    return pair(epsilon=epsilon, delta=delta) if epsilon or delta else Composition()


def _rounded(event: Any, relation: NeighboringRelation) -> Found:
    """Discrete Gaussian noise: of one number its pair, else the concentrated privacy of vectors."""
    sigma = _amount(event, "sigma")
    moves = DISTANCE[relation] * _amount(event, "sensitivity")
    if not moves:
        return Composition()
    if not sigma:
        return _revealing()
    if event.dimension == 1:
        return built_in("discrete_gaussian")(sigma=sigma, sensitivity=math.ceil(moves))
    return zcdp(0.5 * (moves / sigma) ** 2 * (1 + ROUNDING))  # Canonne et al. 2020, Theorem 14


def _chosen(event: Any, relation: NeighboringRelation) -> Found:
    epsilon = _amount(event, "epsilon")
    return built_in("exponential_mechanism")(epsilon=epsilon) if epsilon else Composition()


def _flipped(event: Any, relation: NeighboringRelation) -> Found:
    """Epsilon is for a record that comes or goes, as they take it."""
    _only(event, relation, ADD_REMOVE, SPECIAL)
    return built_in("permute_and_flip")(epsilon=_amount(event, "epsilon"))


_NAMES: dict[str, Callable[[Any, NeighboringRelation], Found]] = {
    "NoOpDpEvent": lambda event, relation: Composition(),
    "NonPrivateDpEvent": lambda event, relation: _revealing(),
    "ComposedDpEvent": _composed,
    "SelfComposedDpEvent": _repeated,
    "GaussianDpEvent": _unsampled,
    "LaplaceDpEvent": _unsampled,
    "DiscreteLaplaceDpEvent": _unsampled,
    "PoissonSampledDpEvent": _poisson,
    "SampledWithoutReplacementDpEvent": _batch,
    "SampledWithReplacementDpEvent": _batch,
    "TruncatedSubsampledGaussianDpEvent": _cut,
    "MixtureOfGaussiansDpEvent": _moves,
    "RandomizedResponseDpEvent": _response,
    "ZCDpEvent": _concentrated,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "RepeatAndSelectDpEvent": _selected,
    # newer than version 0.6.0
    "EpsilonDeltaDpEvent": _guaranteed,
    "DiscreteGaussianDpEvent": _rounded,
    "ExponentialMechanismDpEvent": _chosen,
    "PermuteAndFlipDpEvent": _flipped,
}
KINDS = {getattr(dp, name): found for name, found in _NAMES.items() if hasattr(dp, name)}
"""What each kind of event is; a subclass of one may mean something else, and is not taken."""
