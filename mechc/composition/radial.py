"""Noise on vectors whose density depends on the Euclidean length alone, by the profile of a number.

The density f of additive noise on the line, symmetric and falling, is taken as a profile: the noise
on R^d has density proportional to f(|x|). Its level sets are balls, so that a move of length D, the
l2 sensitivity, in any direction dominates all shorter ones (T2). The law of the loss follows from
two distances (`mechc.loss.radial`), in any dimension.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from mechc.adjacency import Adjacency, Claim
from mechc.composition import inputs
from mechc.composition.description import described
from mechc.composition.events import Composition, Event, unsupported_on_composition
from mechc.composition.mechanism import WithoutKernel, load
from mechc.composition.tables import NumericEvent, Table, named
from mechc.errors import DeclarationError, UnsupportedError, public
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.loss.radial import Fall, radial_loss
from mechc.protocol import Described, Floats, Measure

NAME = "radial"
MOST_DIMENSIONS = 10_000  # for which laws of a radius were tried
PROBES = np.geomspace(1e-6, 1e6, 25)  # radii at which a profile is seen to be symmetric
UNCERTIFIED = "the law of the loss is found by quadrature: there are no certified answers"


@described
@public
def radial(what: Any, dimension: int) -> Any:
    """Return noise on vectors with density proportional to f(|x|_2), f that of noise on a number.

    The sensitivity becomes that in the l2 norm. Radial Laplace noise is planar Laplace noise for
    dimension 2, radial Gaussian noise is independent Gaussian noise, and radial Student-t noise
    with nu and scale is the multivariate t with n = nu + 1 - dimension degrees of freedom and the
    shape scale * sqrt(nu / n). Any density of a number can be declared as a profile, also one known
    up to its constant (`mechc.declare.shape`). Sample events, not the mechanism:
    `poisson(radial(...)(...), rate)`.

    Args:
        what: a mechanism with noise declared by `additive`, symmetric, falling strictly and nowhere
            zero; or an event of one.
        dimension: d, an integer from 1 to 10^4; 1 is the noise on a number itself.

    Returns:
        For a mechanism, what is called with its parameters to get the event; for an event, another.

    Raises:
        DeclarationError: the dimension is no such integer.
        UnsupportedError: `what` is a composition, or no such noise.

    Source: theorem T2; Andrés, Bordenabe, Chatzikokolakis, Palamidessi (2013) for planar Laplace.
    """
    d = inputs.size(NAME, "dimension", dimension)
    if d > MOST_DIMENSIONS:
        raise DeclarationError(
            f"{NAME}: dimension={d} is too large (expected at most {MOST_DIMENSIONS})"
        )
    if isinstance(what, Composition):
        raise unsupported_on_composition(NAME)
    if isinstance(what, Event):
        return what if d == 1 else RadialEvent(what, d)
    return Radial(load(what), d)


class RadialEvent(NumericEvent):
    """One use of radial noise: `base` is that of its profile, in `dimension` >= 2."""

    __slots__ = ("base", "dimension")

    def __init__(self, base: Event, dimension: int) -> None:
        """Check the profile; users call `radial` instead."""
        name = f"{NAME}({base}, dimension={dimension})"
        distance = _distance(base, name)
        claim, moves = _claim(base.claim), f"the move has l2 norm at most {distance!r}"
        claim = replace(claim, assumptions=(*claim.assumptions, moves))
        key = named(f"{NAME} {base.key!r} {dimension} {claim}")
        references = tuple(base.mechanism.references)
        table: Any = Table(name, True, claim, key, references=references,
                           uncertified=UNCERTIFIED)  # fmt: skip
        Event.__init__(self, table, (), base.known_defaults)
        self.base, self.dimension = base, dimension

    def _law(self, direction: str) -> PrivacyLoss:
        """Return the law of the loss, the same in both directions."""
        found: PrivacyLoss = inputs.kept(self.key, lambda: _law(self).fork())
        return found.reversed() if direction == "add" else found


@lru_cache(maxsize=64)
def _law(event: RadialEvent) -> PrivacyLoss:
    """The law that every question begins with."""
    base, name = event.base, str(event)
    return radial_loss(_fall(base), event.dimension, _distance(base, name), name)


def _log_density(event: Event) -> Any:
    """Log of the density of the noise on a number."""
    numbers = np.array(event.theta, np.float64)

    def log_density(x: Floats) -> Floats:
        out = np.empty(x.size)
        event.mechanism.kernel.log_q_many(x, numbers, out)
        return out

    return log_density


def _fall(event: Event) -> Fall:
    """How the density of the noise falls, by its declaration."""
    from mechc.calculus.noise_shape import slope_of

    return Fall(_log_density(event), *slope_of(event.mechanism.declaration, event.theta))


def _distance(event: Event, name: str) -> float:
    """How far the query moves."""
    built, log_density = _noise(event.mechanism, name), _log_density(event)
    with np.errstate(all="ignore"):
        if not np.allclose(log_density(PROBES), log_density(-PROBES), rtol=1e-9, equal_nan=True):
            raise UnsupportedError(f"{name}: the noise on a number is not symmetric about 0")
    named = event.parameters
    return float(built.sensitivity.subs({s: named[s.name] for s in built.sensitivity.free_symbols}))


def _noise(mechanism: Described, name: str) -> Any:
    """How a profile was declared, refused where it is no noise with a density."""
    from mechc.declare.declaration import Shift

    built = mechanism.declaration.construction
    if not isinstance(built, Shift) or mechanism.kernel.MEASURE != Measure.DENSITY:
        raise UnsupportedError(
            f"{name}: needs noise with a density, declared with additive(), as a profile; sample "
            "what is radial, not the profile"
        )
    return built


def _claim(claim: Claim) -> Claim:
    """What T2 makes of the claim of unimodal noise on a number that moves it in both directions."""
    known = claim.theorem == "T1" and claim.adjacency is Adjacency.ANY
    known = known and claim.status == "proven"
    return replace(
        claim, theorem="T2", status="proven" if known else "declared",
        assumptions=() if known else claim.assumptions,
        conditions=("the density falls with the length of x, so that its level sets are balls",),
    )  # fmt: skip


class Radial(WithoutKernel):
    """Radial noise whose parameters are still open; the sensitivity is that in the l2 norm."""

    what = "radial noise"
    inside = "profile"

    def __call__(self, **values: Any) -> Event:
        """Bind all parameters; return an event."""
        event: Event = radial(self.base(**values), *self.numbers)
        return event

    @cached_property
    def name(self) -> str:
        """Name for people."""
        return f"{NAME}({self.base.name}, dimension={self.numbers[0]})"

    @cached_property
    def claim(self) -> Claim:
        """What the pair stands for, by T2."""
        _noise(self.base, self.name)
        return _claim(self.base.claim)
