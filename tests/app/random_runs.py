"""Random compositions of catalogue mechanisms, and the question whether all methods agree.

A case is drawn from a seed alone: one to three mechanisms, plain or Poisson sampled, parameters
log-uniform over their typical ranges, counts log-uniform, epsilon in standard deviations of the
composed loss or out in the tails. Every method answers it; a proven interval must be an interval
of log probabilities, and no two of them may be disjoint.
"""

import math
import random
from typing import NamedTuple

import mechc
from mechc.errors import MechcError, NumericError, UnsupportedError

PLAIN = (
    "approximate_dp", "balanced_gaussian", "binomial", "cauchy", "discrete_gaussian",
    "discrete_laplace", "exponential", "exponential_mechanism", "exponentially_modified_gaussian",
    "gaussian", "gaussian_scale", "gaussian_scale_mixture", "gdp", "gumbel", "huber",
    "hyperbolic_secant", "laplace", "logistic", "permute_and_flip", "pure_dp", "raised_cosine",
    "randomized_response", "report_noisy_max", "shuffle", "skellam", "staircase", "student_t",
    "subbotin", "truncated_laplace", "uniform",
)  # fmt: skip
SAMPLED = (
    "gaussian", "laplace", "discrete_gaussian", "discrete_laplace", "logistic", "skellam",
    "student_t", "truncated_laplace", "hyperbolic_secant",
)  # fmt: skip

METHODS = {
    "auto": ("auto", {}),
    "contour": ("contour", {}),
    "direct": ("direct", {}),
    "lattice": ("lattice", {}),
    "pld": ("pld", {"grid": 2**13}),
    "prv": ("prv", {"eps_error": 0.2, "delta_error": 1e-8, "max_bytes": 2**23}),
    "fourier": ("fourier", {"n": 2**13}),
    "msd1": ("saddlepoint", {"variant": "msd1"}),
    "tilted clt": ("saddlepoint", {"variant": "clt"}),
    "moments": ("saddlepoint", {"variant": "moments"}),
    "tilted edgeworth": ("saddlepoint", {"variant": "edgeworth"}),
    "edgeworth": ("edgeworth", {"order": 3}),
    "eeai": ("edgeworth", {"interval": True}),
    "renyi": ("renyi", {}),
    "clt": ("clt", {}),
}


class Case(NamedTuple):
    """One composition, one direction and one epsilon."""

    parts: tuple
    direction: str
    epsilon: float

    def __str__(self):
        steps = " + ".join(f"{count} * {event!r}" for event, count in self.parts)
        return f"{steps}, {self.direction}, epsilon={self.epsilon!r}"

    @property
    def run(self):
        return mechc.compose(*self.parts)


_loaded = {}


def mechanism(name, sampled):
    if (name, sampled) not in _loaded:
        plain = mechc.load(name)
        _loaded[name, sampled] = mechc.poisson(plain) if sampled else plain
    return _loaded[name, sampled]


def event(draw, plain, sampled):
    """A random event; parameters that a declaration refuses together are drawn again."""
    choice = draw.randrange(len(plain) + len(sampled))
    is_sampled = choice >= len(plain)
    name = sampled[choice - len(plain)] if is_sampled else plain[choice]
    chosen = mechanism(name, is_sampled)
    for _ in range(20):
        values = {p.name: value(draw, p) for p in chosen.parameters}
        try:
            return chosen(**values)
        except MechcError:
            continue
    raise AssertionError(f"no parameters found for {name}")


def value(draw, parameter):
    if parameter.name == "sampling_rate":
        return 10.0 ** draw.uniform(-4.0, 0.0)
    if parameter.default is not None and draw.random() < 0.7:
        return parameter.default
    lo, hi = parameter.typical
    number = math.exp(draw.uniform(math.log(lo), math.log(hi)))
    return float(round(number)) if parameter.integer else number


def case(seed, plain=PLAIN, sampled=SAMPLED):
    """Draw one case."""
    draw = random.Random(seed)
    parts = []
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        count = int(10 ** draw.uniform(0.0, draw.choice([0.7, 3.0, 6.0])))
        drawn = event(draw, plain, sampled)
        while {"add_remove", "replace"} <= {drawn.adjacency, *(e.adjacency for e, _ in parts)}:
            drawn = event(draw, plain, sampled)
        parts.append((drawn, count))
    direction = draw.choice(["remove", "add"])
    return Case(tuple(parts), direction, epsilon(draw, parts, direction))


def epsilon(draw, parts, direction):
    losses = [(e.loss(direction), count) for e, count in parts]
    mean = sum(count * loss.generating(0.0)[1] for loss, count in losses)
    variance = sum(count * loss.generating(0.0)[2] for loss, count in losses)
    top = sum(count * loss.support[1] for loss, count in losses)
    if not math.isfinite(mean + variance):
        mean, variance = 1.0, 1.0
    kind = draw.randrange(6)
    if kind == 0:
        return draw.choice([0.0, 1e-9, -1.0, 1.0])
    if kind == 1 and math.isfinite(top):
        return top * draw.choice([1.0, 1.0 - 1e-9, 0.999, 0.9, 1.0 + 1e-12])
    if kind == 2:
        return draw.uniform(0.0, 5.0)
    return mean + math.sqrt(variance) * draw.uniform(-2.0, draw.choice([3.0, 6.0, 40.0]))


def answers(case, methods=METHODS):
    """Every method's bound, and refusals in words."""
    run, bounds, refusals = case.run, {}, {}
    for label in methods:
        name, options = METHODS[label]
        how = {"method": name, "direction": case.direction, **options}
        try:
            bounds[label] = run.log_delta(case.epsilon, **how)
        except (UnsupportedError, NumericError) as error:
            refusals[label] = str(error)
    return bounds, refusals


def violations(case, bounds):
    """What is wrong with these answers, in words; empty where nothing is."""
    found = []
    proven = {}
    for label, b in bounds.items():
        lower, estimate, upper = float(b.lower), float(b.estimate), float(b.upper)
        if b.status.startswith("proven"):
            proven[label] = (lower, upper)
            if not lower <= estimate <= upper <= 0.0:
                found.append(f"{label}: {lower!r} <= {estimate!r} <= {upper!r} <= 0 does not hold")
        elif not (math.isnan(lower) and math.isnan(upper)):
            found.append(f"{label}: status {b.status!r} with the interval [{lower}, {upper}]")
        elif b.status == "estimate" and not estimate <= 0.0:
            found.append(f"{label}: estimate {estimate!r}")
    if proven:
        highest = max(proven, key=lambda label: proven[label][0])
        lowest = min(proven, key=lambda label: proven[label][1])
        if proven[highest][0] > proven[lowest][1]:
            gap = proven[highest][0] - proven[lowest][1]
            found.append(
                f"disjoint by {gap:.3g}: {highest} {proven[highest]}, {lowest} {proven[lowest]}"
            )
    return found
