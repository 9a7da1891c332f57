"""Poisson samples that are cut, at random, where they exceed a largest batch (T12).

In: one use of additive noise, rate, sizes. Out: an event, or a composition, of one step.
"""

from __future__ import annotations

from mechc.composition import inputs
from mechc.composition.events import Composition, Event
from mechc.composition.mechanism import Mechanism, load
from mechc.composition.operations import poisson, shift
from mechc.composition.tables import mixture

UNLIKELY = 1e-16  # share of what is not listed, and taken to reveal everything
ROUNDING = 1e-9  # of the tail of a binomial law, relative
STEP = 1e-3  # nats; 1000 steps at a tilt of 10 take delta up by 1 %, mostly less than telling does
LEAST = 2.3e-308  # normal double


def truncated_poisson(
    event: float | Event, *, sampling_rate: float, dataset_size: int, batch_cap: int
) -> Event | Composition:
    """Return a pair for Poisson sampling whose batches are cut, at random, to a largest size.

    If the batch without the record is below the limit, the record is added to it; otherwise, with
    probability tau, it takes the place of another one with probability P(Bin(n, q) > B) B / (n tau)
    on average, which moves the sum twice as far. Telling which happens gives a mixture (T12; Chua
    et al. 2024, section 4.3, mix the replaced record into both sides, which reveals more). A tau
    below 1e-16, less than a mixture of densities costs by rounding them, is taken to reveal
    everything beside the plain mechanism. From below it is a Poisson sample of the rate at which
    the record is in the batch.

    Args:
        event: one use of additive noise, its sensitivity the clipping norm, or a noise multiplier
            of Gaussian noise.
        sampling_rate: probability q with which a record is sampled before batches are cut.
        dataset_size: number n of records.
        batch_cap: largest batch B.

    Raises:
        DeclarationError: sizes that are not positive integers, or a rate outside [0, 1].
        UnsupportedError: noise that is not additive.
    """
    from scipy.stats import binom

    name = "truncated_poisson"
    n = inputs.size(name, "dataset_size", dataset_size)
    most = inputs.size(name, "batch_cap", batch_cap)
    event = event if isinstance(event, Event) else load("gaussian")(sigma=event)
    plain = poisson(event, sampling_rate)
    q = plain.parameters[plain.mechanism.rates[-1]]
    tau = float(binom.sf(most - 1, n - 1, q))
    if most >= n or q == 0.0:
        return plain
    if tau < UNLIKELY:  # less than rounding densities to a grid would cost
        revealing = max(tau * (1.0 + ROUNDING), LEAST)
        told = load("approximate_dp")(epsilon=0.0, delta=revealing)
        return plain + mixture([told], [1.0], beneath=told.at(delta=0.0))
    replacing = min(float(binom.sf(most, n, q)) * most / (n * tau) * (1.0 + ROUNDING), 1.0)
    kept = (1.0 - tau) * q + tau * replacing * (1.0 - 2.0 * ROUNDING)
    tau = min(tau * (1.0 + ROUNDING), 1.0)
    return mixture(
        [plain, poisson(_twice_as_far(event), replacing)],
        [1.0 - tau, tau],
        step=STEP,
        adjacency="add_remove",
        assumed=(f"batches of more than {most} records are cut uniformly at random (T12)",),
        beneath=poisson(event, min(kept * (1.0 - ROUNDING), q)),
    )


def _twice_as_far(event: Event) -> Event:
    """The event at twice the sensitivity."""
    mechanism, values = event.mechanism, event.parameters
    plain = isinstance(mechanism, Mechanism) and not mechanism.transforms
    if plain and "sensitivity" in values and event.noise:
        return event.at(sensitivity=2.0 * values["sensitivity"])
    return shift(event, 2.0)
