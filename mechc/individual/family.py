"""A mechanism with one free number per person: its laws, and the side on which it is safe.

Rounding the parameter towards more noise would under-report. Which way that is, and that it is the
same way for every epsilon, is T9 for a family ordered by domination: H_eps of a noisier member is
smaller for all eps (equivalently the noisier pair is a post-processing of the other). The order is
a theorem for the noise of additive Gaussian, Laplace, ... mechanisms and for their Poisson sampled
versions; here it is checked numerically between neighbouring members for every family, and a
family that is seen to break it is refused.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from mechc.adjacency import NO_CLAIM, Claim
from mechc.composition.events import Composition, Event, bind_together
from mechc.composition.inputs import asked
from mechc.errors import DeclarationError, UnsupportedError, listed
from mechc.individual.budget import number
from mechc.individual.splines import HIGHEST, POWERS, reached
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.protocol import Floats

_MEMBERS = 33  # members compared in the check
_PLACES, _APART = 17, 0.01  # where the higher orders are checked, and how closely
_ALIKE = 1e-11  # relative error that profiles may have: a thousandth of their fourth differences
_SPREADS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.5, 6.0)  # epsilons, in standard deviations

_FAMILIES: WeakValueDictionary[str, Family] = WeakValueDictionary()  # of mechanisms, by key


class UnorderedError(UnsupportedError):
    """A member of a family loses more than a worse one: between members nothing is known."""


class Family:
    """Privacy losses of one mechanism along one scalar parameter.

    Attributes:
        worst, best: the ends of the span with most and least privacy loss.
        untouched: parameter value that stands for "not touched": inf for noise, 0 for sensitivity.
        checked: how the order of the family was checked, in words.
        made: what has been computed of the family, by all else that it depends on.
    """

    def __init__(
        self, name: str, parameter: str, law: Callable[[float, str], PrivacyLoss],
        directions: tuple[str, ...], span: tuple[float, float], identity: str = "",
        claim: Claim = NO_CLAIM, key: str = "",
    ) -> None:  # fmt: skip
        """Determine which end of the span is the private one and check the order.

        `law` is the privacy loss of a parameter value in one of the directions "remove" and "add",
        of which one is enough if they mirror each other; `identity` tells families of the same name
        apart in files, `key` is the digest of all that laws depend on: without one nothing is
        shared with others.

        Raises:
            DeclarationError: the span is not an interval of positive numbers.
            UnsupportedError: the family is not ordered by domination on the span.
        """
        lo, hi = (number("span", end) for end in listed("span", span, "two numbers", 2))
        if not 0.0 < lo < hi < np.inf:
            raise DeclarationError(f"span={span!r} (expected 0 < low < high, both finite)")
        self.name, self.parameter, self.directions = name, parameter, directions
        self.span, self.identity, self.claim = (lo, hi), identity or name, claim
        self._law, self.key = law, key
        self.made: dict[Hashable, Any] = {}
        members = np.geomspace(lo, hi, _MEMBERS)
        # divergences order what delta at 0 does not where it is one
        most, least = (self.loss(v, "remove").generating(0.0)[1] for v in (lo, hi))
        noisier_up = bool(least <= most)  # where nobody loses anything as well
        self.worst, self.best = (lo, hi) if noisier_up else (hi, lo)
        self.untouched = np.inf if noisier_up else 0.0
        self.checked = self._check(members if noisier_up else members[::-1])

    @classmethod
    def of(cls, mechanism: Any, parameter: str, span: tuple[float, float]) -> Family:
        """Return the family of a mechanism with all parameters bound but one; families stay.

        Raises:
            DeclarationError: no such parameter, or it is bound, or another one has no value; or a
                family has another parameter or span.
        """
        from mechc.composition.mechanism import load

        if isinstance(mechanism, Family):
            own = mechanism.parameter, *mechanism.span
            if (parameter, *listed("span", span, "two numbers", 2)) != own:
                name, low, high = own
                raise DeclarationError(
                    f"parameter={parameter!r}, span={span!r}: the family has {name},"
                    f" ({low:g}, {high:g})"
                )
            return mechanism
        loaded = load(mechanism)
        names = [p.name for p in loaded.parameters]
        if parameter not in names or parameter in loaded.bound:
            free = ", ".join(n for n in names if n not in loaded.bound)
            raise DeclarationError(f"{loaded.name}: parameter={parameter!r} (free: {free})")
        for other in loaded.parameters:
            if other.name not in {parameter, *loaded.bound} and other.default is None:
                raise DeclarationError(
                    f"{loaded.name}: {other.name} has no value (expected all parameters but"
                    f" {parameter} to be bound; mechanism.bind({other.name}=...) does that)"
                )
        others = {p.name: p.default for p in loaded.parameters if p.name != parameter}
        bound = ", ".join(f"{k}={v!r}" for k, v in sorted({**others, **loaded.bound}.items()))
        # of one name are pairs of several relations, and of a file before and after it was edited
        identity = f"{loaded.name}({bound}) {loaded.mathematics}"
        key = hashlib.sha256(repr((loaded.key, bound, parameter, span)).encode()).hexdigest()
        directions = ("remove",) if loaded.symmetric else ("remove", "add")
        law, claim = _Laws(loaded, parameter), loaded.claim
        known = _FAMILIES.get(key)
        if known is None:
            known = cls(loaded.name, parameter, law, directions, span, identity, claim, key)
        return _FAMILIES.setdefault(key, known)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the family without what has been computed of it."""
        return {**vars(self), "made": {}}

    def here(self) -> Family:
        """Return the family of the same laws that this process has, this one if it has none."""
        return _FAMILIES.setdefault(self.key, self) if self.key else self

    @cached_property
    def alternates(self) -> tuple[int, int]:
        """Order to which profiles alternate (`brackets`), and the power that is the coordinate.

        Checked within close groups of members, at epsilons where their profiles are smooth and
        between the ends of their losses. Where losses have atoms or several branches, profiles have
        kinks that allow no more than order two: an integral of positive parts is convex at a kink.
        """
        length = abs(np.log(self.best / self.worst))
        apart = min(_APART, length / 64)
        first = np.linspace(0.0, length - HIGHEST * apart, _PLACES)[:, None]
        ratio = np.exp(first + apart * np.arange(HIGHEST + 1))
        found = dict.fromkeys(POWERS, HIGHEST)
        for group in ratio:
            members = self.worst * group ** (1.0 if self.best > self.worst else -1.0)
            for direction in self._pairs:
                losses = self.losses(members.tolist(), direction)
                plain = all(len(set(loss.region.tolist())) == 1 for loss in losses)
                if not plain or any(loss.atom_loss.size for loss in losses):
                    found = {p: min(order, 2) for p, order in found.items()}
                bounds = np.exp([_profile(loss, _probes(losses)) for loss in losses])
                for p in POWERS:
                    found[p] = min(found[p], reached(group**p, bounds[:, 0], bounds[:, 1]))
                if not found[1]:
                    raise self.unordered(members[-1], members[0], "some epsilon")
        order, power = max((order, -p) for p, order in found.items())
        return order, -power

    @property
    def _pairs(self) -> tuple[str, ...]:
        """Directions with a pair of their own: both signs of epsilon cover the reversed one."""
        with asked():  # one question, in which both directions of a kernel are made of one law
            remove, *others = (self.loss(self.worst, d) for d in self.directions)
        return self.directions[: 1 if all(a.is_reversal_of(remove) for a in others) else None]

    def loss(self, value: float, direction: str) -> PrivacyLoss:
        """Return the privacy loss of one member, in the direction "remove" or "add"."""
        return self._law(float(value), direction)

    def run(self, steps: Iterable[tuple[float, int]]) -> Composition:
        """Return the composition of members, each so often."""
        if not isinstance(self._law, _Laws):
            raise UnsupportedError(f"{self.name}: its members are no events")
        return Composition((self._law.event(value), count) for value, count in steps)

    def losses(self, values: Sequence[float], direction: str) -> list[PrivacyLoss]:
        """Return those of many members, which are made together."""
        with asked():
            if isinstance(self._law, _Laws):
                self._law.prepare(values, direction)
            return [self.loss(value, direction) for value in values]

    def _check(self, members: Floats) -> str:
        """Compare neighbours, most revealing first."""
        first = [self.loss(members[0], d) for d in self.directions]
        if any(max(a.log_infinite, a.log_minus_infinite) > -np.inf for a in first):
            raise UnsupportedError(
                f"{self.name}: some outputs occur only with or only without a record, a loss"
                " without bound that individual accounting does not follow; account for the worst"
                " case with the mechanism's own epsilon and delta"
            )
        values = members.tolist()
        neighbours = itertools.chain.from_iterable(
            itertools.pairwise(zip(values, self.losses(values, d), strict=True))
            for d in self._pairs
        )
        for (worse, more), (better, less) in neighbours:
            _, mean, variance, _ = more.generating(0.0)
            spread = np.array(_SPREADS) * np.sqrt(max(variance, mean * mean))
            epsilons = np.concatenate([-spread[:0:-1], spread])
            high, low = _profile(more, epsilons)[1], _profile(less, epsilons)[0]
            wrong = np.flatnonzero(low > high)
            if wrong.size:
                raise self.unordered(better, worse, f"epsilon={epsilons[wrong[0]]:g}")
        return (
            f"delta decreases from {self.parameter}={members[0]:g} to {members[-1]:g}: checked for"
            f" {members.size - 1} neighbouring pairs at {2 * len(_SPREADS) - 1} epsilons"
        )

    def unordered(self, better: float, worse: float, where: str) -> UnorderedError:
        """Return the refusal of a family in which a member loses more than a worse one."""
        return UnorderedError(
            f"{self.name}: {self.parameter}={better:g} is less private than"
            f" {self.parameter}={worse:g} at {where} and more private elsewhere: without an order"
            " no side of a grid is safe. Use an ordered parameter (a noise scale, a sensitivity, a"
            " rate)."
        )


@dataclass(frozen=True)
class _Laws:
    """The losses of a mechanism along its one free parameter."""

    mechanism: Any
    parameter: str

    def __call__(self, value: float, direction: str) -> PrivacyLoss:
        return self.event(value).loss(direction)

    def event(self, value: float) -> Event:
        """Return one of these, bound."""
        found: Event = self.mechanism(**{self.parameter: value})
        return found

    def prepare(self, values: Sequence[float], direction: str) -> None:
        """Bind what the losses of many values begin with, together, for the question at hand."""
        bind_together([self.event(value) for value in values], direction)


def _profile(loss: PrivacyLoss, epsilons: Floats) -> Floats:
    """Return [log lower, log upper] of delta at each epsilon, shape (2, n)."""
    return np.asarray(loss.hockey_sticks_log(epsilons, _ALIKE)[:, [0, 2]].T)


def _probes(losses: list[PrivacyLoss]) -> Floats:
    """Return epsilons of both signs at which close members of a family are to be compared."""
    _, mean, variance, _ = losses[0].generating(0.0)
    spread = np.array(_SPREADS) * np.sqrt(max(variance, mean * mean))
    found = [-spread[1:], spread]
    for end in (0, 1):
        edges = np.sort([loss.support[end] for loss in losses])
        length = edges[-1] - edges[0] if np.isfinite(edges).all() else 0.0
        if length > 0.0:
            inward = length if end == 0 else -length
            inside = edges[-1 if end == 0 else 0] + inward * np.array([0.1, 0.5, 2.0])
            found += [(edges[1:] + edges[:-1]) / 2, inside]
    return np.concatenate(found)
