"""An accountant for Opacus, `PrivacyEngine(accountant="mechc")` once this file is imported.

It has the interface of Opacus' IAccountant and does without Opacus and torch itself: where Opacus
can be imported, the class is registered with it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, MutableMapping
from importlib import import_module
from typing import Any

from mechc.composition.events import Composition, Event, compose
from mechc.composition.inputs import as_count, as_number
from mechc.composition.mechanism import built_in
from mechc.composition.operations import poisson, random_sensitivity
from mechc.errors import DeclarationError, UnsupportedError, listed, public

NAME = "mechc"
Record = tuple[float, float, int, *tuple[int, ...]]


@public
class MechcAccountant:
    """An IAccountant of Opacus that answers with our proven upper side, under add/remove.

    Attributes:
        history: (noise multiplier, sampling rate, number of steps) in their order, as all
            accountants of Opacus have it, with the number of batches behind it where the gradients
            of several Poisson samples were added up before one step.
    """

    def __init__(self) -> None:
        """Start without steps."""
        self.history: list[Record] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step of DP-SGD on one Poisson sample.

        Args:
            noise_multiplier: deviation of the noise over the clipping norm, >= 0.
            sample_rate: probability in [0, 1] of taking a record.
        """
        self._record(noise_multiplier, sample_rate, 1)

    def _record(self, noise_multiplier: float, sample_rate: float, batches: int) -> None:
        """Add a step to the last entry if that is of the same kind."""
        several = (batches,) if batches > 1 else ()
        noise, rate, count, *rest = _entry((noise_multiplier, sample_rate, 1, *several))
        last = self.history[-1] if self.history else ()
        if (last[:2], last[3:]) == ((noise, rate), several):
            count += self.history.pop()[2]
        self.history.append((noise, rate, count, *rest))

    def composition(self) -> Composition:
        """Return the steps so far as a composition, for every other query.

        Raises:
            DeclarationError: a noise multiplier or a rate is not acceptable.
        """
        history = _history(self.history)
        return compose(*((_step(*entry), entry[2]) for entry in history if entry[1]))

    def get_epsilon(self, delta: float, **how: Any) -> float:
        """Return an upper bound on epsilon, inf where nothing is private or proven.

        Args:
            delta: target in [0, 1].
            how: keyword arguments of `Composition.epsilon`.

        Raises:
            DeclarationError: an argument, a noise multiplier or a rate is not acceptable.
        """
        delta = as_number("delta", delta, "0 <= delta <= 1", 0.0, 1.0)
        history = _history(self.history)
        if any(noise == 0 and rate > 0 and count for noise, rate, count, *_ in history):
            return math.inf
        upper = self.composition().epsilon(delta, **how).upper
        return math.inf if math.isnan(upper) else float(upper)

    def __len__(self) -> int:
        """Return the number of steps so far."""
        return sum(entry[2] for entry in self.history)

    def __repr__(self) -> str:
        """Show the steps so far."""
        return f"{type(self).__name__}(history={self.history!r})"

    def __bool__(self) -> bool:
        """Return true: an accountant without steps is one."""
        return True

    @classmethod
    def mechanism(cls) -> str:
        """Return the name Opacus knows it by."""
        return NAME

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """Return what Opacus' optimizer calls after every step.

        With gradients accumulated over k batches a record is in Binomial(k, sample_rate) of them
        and moves their sum as often; it is not in one sample of k times the rate.

        Args:
            sample_rate: of one batch.

        Raises:
            UnsupportedError: when it is called, by an optimizer that adapts its clipping norm.
        """

        def hook(optimizer: Any) -> None:
            if hasattr(optimizer, "target_unclipped_quantile"):
                raise UnsupportedError(
                    "opacus: adaptive clipping releases how many gradients were clipped, and the "
                    "size of the batch, beside the gradient; this accountant counts that alone"
                )
            self._record(optimizer.noise_multiplier, sample_rate, optimizer.accumulated_iterations)

        return hook

    def state_dict(
        self, destination: MutableMapping[str, Any] | None = None
    ) -> MutableMapping[str, Any]:
        """Return the history and the name of the accountant.

        Args:
            destination: where to put them; by default a new dictionary.
        """
        state = OrderedDict() if destination is None else destination
        state.update(history=list(self.history), mechanism=self.mechanism())
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over a history.

        Args:
            state_dict: what `state_dict` returned, lists instead of tuples included.

        Raises:
            DeclarationError: it is empty, of another accountant, or its history is not one.
        """
        found = state_dict if isinstance(state_dict, Mapping) else {}
        if found.get("mechanism") != self.mechanism() or "history" not in found:
            raise DeclarationError(
                f"load_state_dict: a state with mechanism={found.get('mechanism')!r} and entries "
                f"{[*found]} (expected a history and mechanism={self.mechanism()!r})"
            )
        self.history = _history(state_dict["history"])


def _history(entries: Any) -> list[Record]:
    """A history, lists instead of tuples included."""
    return [_entry(entry) for entry in listed("history", entries, "a list of entries")]


def _entry(entry: Any) -> Record:
    """One entry; whether its numbers are acceptable is said when an answer is asked for."""
    wanted = "noise multiplier, sampling rate and steps"
    values = listed("an entry of the history", entry, wanted)
    if len(values) not in (3, 4):
        raise DeclarationError(f"an entry of the history: {values!r} (expected {wanted})")
    noise, rate = as_number("noise_multiplier", values[0]), as_number("sample_rate", values[1])
    steps, *batches = map(as_count, values[2:])
    return (noise, rate, steps, *batches)


def _step(noise: float, rate: float, _: int, batches: int = 1) -> Event:
    """One step: a Poisson sample, or the sum of several (T8)."""
    gaussian = built_in("gaussian")(sigma=noise, sensitivity=1.0)
    if batches == 1:
        return poisson(gaussian, rate)
    from scipy.stats import binom

    times = range(batches + 1)
    return random_sensitivity(gaussian, [*times], binom.pmf(times, batches, rate).tolist())


def register() -> bool:
    """Make the accountant known to Opacus as "mechc"; importing this file does it.

    Returns:
        Whether Opacus is there.

    Raises:
        UnsupportedError: it is older than 1.6, which takes no accountants of others.
    """
    try:
        theirs = import_module("opacus.accountants")
    except ImportError:
        return False
    try:
        theirs.register_accountant(NAME, MechcAccountant, force=True)
    except AttributeError as error:
        raise UnsupportedError(
            "mechc.integrations.opacus: the installed Opacus is older than 1.6, which is the first "
            "to take accountants of others"
        ) from error
    theirs.IAccountant.register(MechcAccountant)
    return True


register()
