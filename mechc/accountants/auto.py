"""method="auto": which accountants are asked about a composition, and which answer is returned.

The first answer whose proven width in log delta is at most `rtol` is returned, else the narrowest
of those tried, in the order of `STRATEGIES`, which says of which compositions a method is asked,
why, and for how much of the work (docs/methods.md, auto). Where none of them answers, or delta may
be nearly one, `accountants.bounds` does: a lower bound from one event, Chernoff's upper bound, and
the refusals in the details. It never raises; nor does it where the work allowed is used up: then
the narrowest answer so far is returned, or this.

A method takes at most a share of the work that is left, a smaller one beside an answer at hand, and
is not asked again where that does not suffice: others stand behind it, and a search for epsilon has
other places to look at. A contour of point masses on no lattice, whose transform need not fade, has
a small one: it is soon there, or a mesh is. A search for epsilon is content with an answer on one
side of the delta that it looks for.

Steps whose loss has no exponential moments on a side, or cannot be resolved, are replaced by ones
that have them before (`heavy_tails`).

What a refused request is answered with: the method, the reason, and the methods that can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mechc.accountants import bounds, heavy_tails, registry
from mechc.accountants.bound import Bound
from mechc.accountants.convolution import Nodes
from mechc.accountants.sparse import STEPS
from mechc.errors import MechcError, NumericError, UnsupportedError
from mechc.loss.privacy_loss import distinct
from mechc.numeric.allowance import OutOfWorkError, share

if TYPE_CHECKING:
    from mechc.accountants.contours.columns import Columns
    from mechc.loss.privacy_loss import Step


MESHED = 1_000_000  # steps beyond which a mesh outgrows memory


def explained(method: str, steps: Sequence[Step], error: MechcError) -> UnsupportedError:
    """Return the error with the method in front and, behind, those to use instead.

    That a method does not settle is a refusal like any other: the methods behind do.
    """
    others = [name for name in able(steps) if name != method]
    use = ", ".join(others[1:]) + " or " * (len(others) > 1) + "".join(others[:1])
    return UnsupportedError(f"{named(method, error)}; use {use}" if use else named(method, error))


def named(method: str, error: Exception) -> str:
    """Return the words of an error, the method in front."""
    words = str(error)
    return words if method in words.partition(":")[0] else f"{method}: {words}"


def able(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return the methods that bound delta of these steps on both sides; "auto" always does."""
    from mechc.accountants.contour import common_lattice
    from mechc.accountants.direct import (
        MAX_STEPS,
        enumerable,  # only once a method has refused
    )

    if not all(step.loss.is_resolved for step in steps):
        return ("auto",)
    count = sum(step.count for step in steps)
    listed = enumerable(steps)
    tilted = all(step.loss.strip[1] > 0.0 for step in steps)
    few = count == 1 or (count <= MAX_STEPS and not heavy_tails.lacks_moments(steps))
    can = {
        "auto": True, "contour": tilted, "direct": listed or few,
        "lattice": tilted and common_lattice(steps) is not None, "pld": tilted and count <= MESHED,
    }  # fmt: skip
    return tuple(name for name, able in can.items() if able)


NEARLY_DISJOINT = -1e-2  # log delta of two laws that are nearly disjoint
MANY = 6_000  # atoms of one loss that only a grid takes cheaply
SMALLEST = -745.2  # log of the smallest double: below it only the contour is tried
FAR_BELOW = -1e5  # the same for few steps
FAR_EPSILON = 1e5  # epsilon beyond which the contour is asked first: its bound is soon there
ONE_BY_ONE = 12  # steps that auto composes one by one ...
DISTINCT = 7  # ... if no more of them are different, whose kinks multiply ...
SMOOTH = 6  # ... before it asks the contour, where losses have atoms or steps are fewer than this
STRICT = 0.1  # share of rtol up to which so few steps are not composed one by one as well
STEERING = 1.0  # width in log delta of an answer that steers a search
FIRST = 0.75  # share of the work for a method that others stand behind
BRIEF = 0.08  # for what is soon there, or others are sooner: contours of atoms, few steps, one loss
SHARE_OF_FEW = 0.02  # for few steps one by one: the same
ANOTHER = 0.3  # share of the work left for a method that may be narrower than an answer at hand
CLOSE_EPSILONS = 1e-2  # relative distance of epsilons that the same method is likely to settle
ALIKE = 0.25  # the same where that was a mesh
MORE = 100  # steps that may be gone through one by one where the contour's answer is too wide
ROUGH = 1e-3  # width in log delta beyond which a lattice sum is not what it can be
GRID_BYTES = 2**29  # for a grid that nobody has asked for: some ten seconds of work
KINDS, WORTH = 24, 1e-2  # kinds of steps with atoms, and width from which a mesh may be narrower
BARE = -30.0  # log delta below which only rounding is left


class Facts(NamedTuple):
    """What the choice of a method looks at."""

    total: int = 0  # steps, repetitions included
    distinct: int = 0
    plain: bool = False  # no loss has atoms
    atomic: bool = False  # no loss has a density
    lattices: bool = False  # all losses lie on lattices
    listed: bool = False  # all composed losses can be listed
    tables: bool = False  # several steps, and a loss of very many atoms, too many to list

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Facts:
        """Look at the steps."""
        total, most, atomic, lattices, listed = 0, 0, True, True, False
        for law, count in steps:
            total += count
            most = max(most, law.atom_loss.size)
            atomic = atomic and not law.loss.size
            lattices = lattices and bool(law.lattice)
        if atomic:
            from mechc.accountants.direct import enumerable

            listed = enumerable(steps)
        return cls(
            total=total, distinct=len(steps), plain=most == 0, atomic=atomic, lattices=lattices,
            listed=listed, tables=most > MANY and total > 1 and not listed,
        )  # fmt: skip

    @property
    def few(self) -> bool:
        """Several steps, but so few that they may be composed one by one."""
        return 1 < self.total <= ONE_BY_ONE and self.distinct <= DISTINCT and not self.tables

    @property
    def several(self) -> bool:
        """More than that, but so few that going through them one by one may be narrower."""
        alike = self.distinct <= (STEPS if self.plain else DISTINCT)
        return 1 < self.total <= MORE and alike and not (self.tables or self.listed or self.few)

    @property
    def light(self) -> bool:
        """One loss, without atoms."""
        return self.plain and self.distinct == 1

    @property
    def mixed(self) -> bool:
        """Of so many kinds, with atoms beside densities, that no mesh has all atoms on it."""
        return self.distinct > KINDS and not (self.plain or self.atomic)

    @property
    def smooth(self) -> bool:
        """More than a handful, and no loss has atoms."""
        return self.total >= SMOOTH and self.plain

    @property
    def many(self) -> bool:
        """More distinct steps than are taken apart by size, without atoms."""
        return self.plain and self.distinct > STEPS


class Strategy(NamedTuple):
    """A method that "auto" may ask, why, of which compositions, and the share of the work for it.

    A method may come twice: soon with a little of the work, and with more of it where nothing else
    was narrow enough.
    """

    method: str
    reason: str
    applies: Callable[[Facts], bool]
    share: float = FIRST


STEPS_ALONE = "few steps, or few atoms in all"
CONTOUR = "cost independent of the counts"
WIDE = "the contour's proof is wider than asked for"
STRATEGIES = (  # in order
    Strategy("lattice", "all losses are lattices", lambda f: f.total > 1 and f.lattices),
    Strategy("direct", STEPS_ALONE, lambda f: f.total == 1 or f.listed),
    Strategy("direct", STEPS_ALONE, lambda f: f.few and not (f.smooth or f.listed), SHARE_OF_FEW),
    Strategy("contour", CONTOUR, lambda f: f.few or f.light or f.atomic, BRIEF),
    Strategy("contour", CONTOUR, lambda f: not (f.few or f.light or f.atomic)),
    Strategy("direct", WIDE, lambda f: f.few and f.smooth, SHARE_OF_FEW),
    Strategy("direct", WIDE, lambda f: f.few and not f.listed),
    Strategy("direct", WIDE, lambda f: f.several, BRIEF),
    Strategy("contour", WIDE, lambda f: f.few and not f.atomic),
    Strategy("pld", WIDE, lambda f: True),
    # beside atoms of several steps that costs more than it gains
    Strategy("contour", WIDE, lambda f: (f.light or (f.atomic and f.distinct == 1)) and not f.few),
)


@lru_cache(maxsize=64)
def _applied(strategies: tuple[Strategy, ...], facts: Facts) -> tuple[Strategy, ...]:
    """Those for such compositions."""
    return tuple(strategy for strategy in strategies if strategy.applies(facts))


class Auto(registry.Accountant):
    """The accountant behind method="auto": the module's docstring has the rule."""

    inverts = True

    def __init__(self, steps: Sequence[Step], rtol: float) -> None:
        """Choose the strategies; no accountant is built before it is needed."""
        self._steps, self._rtol = steps, rtol
        self._resolved = moments = True
        endless = False
        for law, _ in steps:
            self._resolved = self._resolved and law.is_resolved
            moments = moments and law.has_moments
            endless = endless or law.is_endless
        self._facts = Facts.of(steps) if self._resolved else Facts()
        self._applied = _applied(STRATEGIES, self._facts) if self._resolved else ()
        self._queue = list(self._applied)
        self._built: dict[str, registry.Accountant] = {}
        # where moments are lacking about steps that reveal more; one step as it is first: its
        # branches need none
        self._ways = [self._first, self._by_revealing]
        self._endless = self._facts.total > 1 and endless
        if self._endless or (not moments and heavy_tails.lacks_moments(steps)):
            self._ways = self._ways[::-1] if self._resolved else self._ways[1:]
        elif moments:
            self._ways = self._ways[:1]
        # within one question: the method that settled, or of all that were asked was the
        # narrowest, and where
        self._last, self._of_all = ("", math.nan), False
        self._revealed: dict[float, Auto] = {}

    def log_delta(self, epsilon: float, target: float | None = None) -> Bound:
        """Return the first answer narrow enough, else the narrowest.

        Where none answers, or delta may be nearly one, it is bounded by an event.

        Args:
            epsilon: any real number.
            target: a log delta, or nan: an answer that steers a search for it will do, because it
                is narrow enough, or on one side of it.
        """
        refused, rtol = "", self._rtol if target is None else STEERING
        aim = math.nan if target is None else target
        answer: Bound | None = None
        for way in self._ways:
            try:
                found = way(epsilon, rtol, aim)
                answer = found if answer is None else _meet(answer, found)
                if not (self._endless and float(answer.upper) < -heavy_tails.margin(self._steps)):
                    break  # else delta is below what may have been revealed
            except (UnsupportedError, NumericError) as error:
                refused = str(error)
            except OutOfWorkError as out:
                if answer is None:
                    return bounds.at_hand(self._steps, epsilon, str(out))
                answer.detail["max_work"] = str(out)
        if answer is None:
            bound = self._remaining(epsilon)
            bound.detail["refusals"] = refused
            return bound
        loose = float(answer.lower) < NEARLY_DISJOINT or not self._resolved
        if loose and float(answer.upper) >= NEARLY_DISJOINT:
            return _meet(self._remaining(epsilon), answer)
        if target is None and _width(answer) > STEERING:
            with share(BRIEF):
                return _meet(bounds.by_single_steps(self._steps, epsilon), answer)
        return answer

    def columns(self) -> Columns | None:
        """Return the columns of the contour, if it may be asked."""
        return self._accountant("contour").columns() if self._resolved else None

    def _by_revealing(self, epsilon: float, rtol: float, aim: float) -> Bound:
        """Ask about steps whose losses far out are infinite."""
        bound = heavy_tails.bound_for(self._steps, epsilon)
        if bound not in self._revealed:
            self._revealed[bound] = Auto(heavy_tails.revealed(self._steps, bound), self._rtol)
        revealed = self._revealed[bound]
        answer = revealed._first(epsilon, rtol, aim)
        return heavy_tails.corrected(answer, revealed._steps, epsilon, bound)

    def epsilon(self, log_delta: float, near: float) -> Bound | None:
        """Return epsilon where delta is the target, by the first method.

        Returns:
            None where that method does not invert, or steps lack moments.
        """
        if self._ways != [self._first]:
            return None
        asked = self._queue[:1]
        if self._facts.many:  # where large losses are rare this is close
            near, asked = Nodes(*distinct(self._steps)).epsilon(log_delta), self._queue
        elif self._facts.atomic and not self._facts.listed:
            asked = self._queue
        for strategy in list(asked):
            try:
                accountant = self._accountant(strategy.method)
                if not accountant.inverts:
                    continue
                with share(strategy.share):
                    found = accountant.epsilon(log_delta, near)
            except (UnsupportedError, NumericError, OutOfWorkError, MemoryError) as error:
                if not self._facts.atomic:
                    return None
                if isinstance(error, OutOfWorkError):
                    self._queue.remove(strategy)
                continue
            if found is not None:
                found.detail["auto"] = strategy.reason
                return found
            if self._facts.atomic:
                return None
        return None

    def _first(self, epsilon: float, rtol: float, aim: float) -> Bound:
        at_hand = self._at_hand(epsilon, rtol)
        if at_hand is not None:
            return at_hand
        best: Bound | None = None
        narrowest, refusals, tried = "", [], set()
        order = self._in_order(epsilon)
        enough = self._last[0] if self._of_all and self._is_close(epsilon) else ""
        for strategy in order:
            name = strategy.method
            width = math.inf if best is None else _width(best)
            narrow, two_sided = width <= rtol, math.isfinite(width)
            if strategy.reason == WIDE and strategy.share > SHARE_OF_FEW and narrow:
                break  # only the recursion might have been narrower still, and soon
            if name in tried or (name == "pld" and self._facts.mixed and width <= WORTH):
                continue
            part = 1.0 if strategy is order[-1] else strategy.share
            if best is not None and float(best.upper) < SMALLEST:
                part = min(part, BRIEF)  # no double is as small as delta
            elif two_sided:
                part = min(part, ANOTHER)
            try:
                with share(part):
                    answer = self._accountant(name).log_delta(epsilon)
            except OutOfWorkError as out:
                if best is None and strategy is order[-1]:
                    raise
                if best is not None and strategy.share == FIRST:
                    best.detail["max_work"] = str(out)
                self._queue.remove(strategy)  # what is left is for other epsilons of a search
                continue
            except (UnsupportedError, NumericError, MemoryError) as error:
                refusals.append(named(name, error))
                tried.add(name)
                # what it refuses are the steps, not this epsilon, or it costs too much here
                if name not in self._built or (name == "direct" and self._facts.total > 1):
                    self._queue.remove(strategy)
                continue
            tried.add(name)
            answer.detail["auto"] = strategy.reason
            exact = name == "lattice" and (_width(answer) <= ROUGH or float(answer.upper) < BARE)
            settled = exact or "limit" in answer.detail  # nothing is sharper there
            settled |= name == "direct" and self._facts.total == 1  # nor than one step's branches
            if name == "contour" and self._facts.few:  # the recursion over steps may be sharper
                settled |= float(answer.upper) < FAR_BELOW or _width(answer) <= STRICT * rtol
            elif (name == "contour" and float(answer.upper) < SMALLEST) or _width(answer) <= rtol:
                settled = True
            # on one side of what a search is for
            settled |= float(answer.upper) < aim or float(answer.lower) > aim
            if best is None or _rank(answer) < _rank(best):
                best, narrowest = answer, name
            if settled or name == enough:
                self._last, self._of_all = (name, epsilon), name == enough
                return best
        self._last, self._of_all = (narrowest, epsilon), rtol == self._rtol
        if best is None:
            raise UnsupportedError("auto: no method can answer; " + "; ".join(refusals))
        return best

    def _at_hand(self, epsilon: float, rtol: float) -> Bound | None:
        """What the method that settled has for this epsilon too, narrow enough or the narrowest."""
        name = self._last[0]
        answer = self._built[name].at_hand(epsilon) if name in self._built else None
        if answer is None or not (self._of_all or _width(answer) <= rtol):
            return None
        answer.detail["auto"] = next(s.reason for s in self._applied if s.method == name)
        return answer

    def _in_order(self, epsilon: float) -> list[Strategy]:
        """The strategies, first the one that settled a question close by; far out the contour."""
        far = epsilon > FAR_EPSILON and self._facts.total > 1
        name = "contour" if far else self._last[0] if self._is_close(epsilon) else ""
        return sorted(self._queue, key=lambda s: s.method != name)

    def _is_close(self, epsilon: float) -> bool:
        """Whether the last answer was for about the same place."""
        name, place = self._last
        # a mesh was asked because contours were too wide: they cost as much as it again
        close = ALIKE if name == "pld" else CLOSE_EPSILONS
        return abs(epsilon - place) <= close * abs(place)

    def _remaining(self, epsilon: float) -> Bound:
        """Bound delta where no method does, or P and Q are nearly disjoint."""
        try:
            return bounds.bound(self._steps, epsilon)
        except OutOfWorkError as out:
            return bounds.at_hand(self._steps, epsilon, str(out))

    def _accountant(self, name: str) -> registry.Accountant:
        if name not in self._built:
            options = (("max_bytes", GRID_BYTES),) if name == "pld" else ()
            self._built[name] = registry.build(name, self._steps, self._rtol, options)
        return self._built[name]


def _meet(bound: Bound, answer: Bound) -> Bound:
    """Both of two proven bounds at once, the answer itself where the other is not better."""
    if not (float(bound.lower) > float(answer.lower) or float(bound.upper) < float(answer.upper)):
        return answer
    lower = np.fmax(bound.lower, answer.lower)
    upper = np.fmax(np.fmin(bound.upper, answer.upper), lower)
    detail = {**answer.detail, **bound.detail}
    estimate = np.clip(np.fmax(answer.estimate, lower), lower, upper)
    return Bound(float(lower), float(estimate), float(upper), bound.method, bound.status, detail)


def _rank(bound: Bound) -> tuple[float, float]:
    """Narrower is better; of two without a lower bound, the one with the lower upper bound."""
    upper = float(bound.upper)
    return _width(bound), upper if upper == upper else float("inf")


def _width(bound: Bound) -> float:
    """Proven width in log delta; infinite without a proof on both sides."""
    lower, upper = float(bound.lower), float(bound.upper)
    if lower == upper:
        return 0.0
    width = upper - lower
    return width if width == width else float("inf")
