"""Random runs with values of delta found without a line of mechc, one case for each number."""

import math
from dataclasses import dataclass

import integrals
import numpy as np
import pairs
import truth
from flint import arb

import mechc

SEED = 20261121


@dataclass(frozen=True)
class Case:
    """A run, a direction, an epsilon, and how to find log delta there.

    `exact(epsilon)` is log delta to about 15 digits of delta; `room` what is left open of it.
    """

    run: object
    direction: str
    epsilon: float
    exact: object
    room: float


def case(number):
    """Case `number`: of ten, four are one step, two atoms, three integers, one a composition."""
    rng = np.random.default_rng([SEED, number])
    families = 4 * (_one_step,) + 2 * (_atoms,) + 3 * (_lattice,) + (_composed,)
    return families[number % len(families)](rng)


def _log_uniform(rng, lo, hi):
    return float(np.exp(rng.uniform(math.log(lo), math.log(hi))))


def _epsilon(rng, run, direction, deepest):
    """An epsilon at which delta is somewhere between 0.1 and exp(deepest), in floating point."""
    target = rng.uniform(deepest, math.log(0.1))
    found = float(run.epsilon(log_delta=target, direction=direction).upper)
    found *= 1.0 - 10.0 ** -rng.uniform(1.0, 6.0)  # below the largest loss, where there is one
    return found if math.isfinite(found) and found > 0.0 else float(rng.uniform(0.1, 2.0))


DENSITIES = {
    "gaussian": lambda r: {"sigma": _log_uniform(r, 0.5, 5)},
    "logistic": lambda r: {"scale": _log_uniform(r, 0.4, 5)},
    "gumbel": lambda r: {"scale": _log_uniform(r, 0.5, 5)},
    "hyperbolic_secant": lambda r: {"scale": _log_uniform(r, 0.5, 5)},
    "student_t": lambda r: {"nu": _log_uniform(r, 1.5, 15), "scale": _log_uniform(r, 0.5, 4)},
    "cauchy": lambda r: {"scale": _log_uniform(r, 0.5, 4)},
    "gaussian_scale": lambda r: {"sp": _log_uniform(r, 0.8, 1.2), "sq": _log_uniform(r, 0.8, 1.2)},
}


def _density(rng, names):
    """(event, pair by hand) of one of `names`, half of them sampled."""
    name = str(rng.choice(names))
    values = DENSITIES[name](rng)
    pair, mechanism = pairs.PAIRS[name](*values.values()), mechc.load(name)
    if rng.random() < 0.5:
        rate = _log_uniform(rng, 1e-3, 0.5)
        pair, mechanism = pair.sampled(rate), mechc.poisson(mechanism, sampling_rate=rate)
    direction = str(rng.choice(["remove", "add"]))
    return mechanism(**values), pair.reversed() if direction == "add" else pair, direction


def _one_step(rng):
    event, pair, direction = _density(rng, list(DENSITIES))
    run = 1 * event
    epsilon = _epsilon(rng, run, direction, -40.0)
    return Case(run, direction, epsilon, lambda: integrals.one_step(pair, epsilon), 1e-14)


def _composed(rng):
    """Compositions whose characteristic functions decay fast enough for the plain sum.

    Gumbel noise that is not sampled has a closed form; its tail is long for the other engine.
    """
    smooth = ["gaussian", "logistic", "gumbel", "hyperbolic_secant"]
    event, pair, direction = _density(rng, smooth)
    count = int(_log_uniform(rng, 20, 3000))
    run = count * event
    epsilon = _epsilon(rng, run, direction, -60.0)
    if event.mechanism.name == "gumbel":
        scale = event.parameters["scale"]
        exact = lambda: truth.gumbels(scale, count, epsilon, direction)  # noqa: E731
        return Case(run, direction, epsilon, exact, 1e-14)
    return Case(run, direction, epsilon, lambda: integrals.contour([(pair, count)], epsilon), 1e-13)


def _atoms(rng):
    """Randomised response, pure and approximate differential privacy by listing multinomials."""
    name = str(rng.choice(["randomized_response", "pure_dp", "approximate_dp"]))
    count = int(_log_uniform(rng, 1, 60))
    a = _log_uniform(rng, 0.05, 3.0)
    infinite = 0.0
    values = {"epsilon": a}
    likely = 1 / (1 + (-truth.ball(a)).exp())
    law = [(truth.ball(a), likely), (-truth.ball(a), 1 - likely)]
    if name == "randomized_response":
        k = values["categories"] = int(rng.integers(2, 12))
        kept = truth.ball(a).exp() / (truth.ball(a).exp() + k - 1)
        rest = 1 / (truth.ball(a).exp() + k - 1)
        law = [(truth.ball(a), kept), (-truth.ball(a), rest), (truth.ball(0), (k - 2) * rest)]
    if name == "approximate_dp":
        infinite = values["delta"] = _log_uniform(rng, 1e-12, 1e-2)
        law = [(loss, (1 - truth.ball(infinite)) * mass) for loss, mass in law]
    run = count * mechc.load(name)(**values)
    # away from the losses themselves, where delta has kinks and its logarithm poles
    epsilon = a * (float(rng.integers(0, count + 1)) - float(rng.uniform(0.001, 0.999)))
    epsilon = max(epsilon, 0.25 * a)
    return Case(run, "remove", epsilon, lambda: truth.atoms(law, count, epsilon, infinite), 1e-14)


def _lattice(rng):
    """Noise on integers: masses summed here, composed by powers of a polynomial."""
    name = str(rng.choice(["discrete_gaussian", "discrete_laplace"]))
    count = int(_log_uniform(rng, 1, 40))
    moved = int(rng.integers(1, 4))
    if name == "discrete_gaussian":
        values = {"sigma": _log_uniform(rng, 1.0, 6.0), "sensitivity": moved}
        s2 = truth.ball(values["sigma"]) ** 2
        reach = int(40 * values["sigma"]) + moved

        def log_mass(n):
            return -truth.ball(n * n) / (2 * s2)

        step, offset = moved / s2, (-reach * moved - truth.ball(moved * moved) / 2) / s2
        kept = range(-reach, reach + 1)
        weights = [(log_mass(n - moved)).exp() for n in kept]
        total = sum(((log_mass(n)).exp() for n in range(-reach, reach + 1)), arb(0))
        masses = [w / total for w in weights]
    else:
        values = {"a": _log_uniform(rng, 0.1, 2.0), "sensitivity": moved}
        a = truth.ball(values["a"])
        norm = (1 - (-a).exp()) / (1 + (-a).exp())
        # losses a (|n| - |n - moved|) run from -a moved to a moved in steps of 2a
        step, offset = 2 * a, -a * moved
        tail = norm * (-a * moved).exp() / (1 - (-a).exp())  # n <= 0 under P
        middle = [norm * (-a * (moved - n)).exp() for n in range(1, moved)]
        masses = [tail, *middle, norm / (1 - (-a).exp())]
    run = count * mechc.load(name)(**values)
    epsilon = _epsilon(rng, run, "remove", -40.0)
    return Case(
        run, "remove", epsilon, lambda: truth.lattice(offset, step, masses, count, epsilon), 1e-14
    )
