"""The accountants by name: what each one proves, needs and costs, and the rule of method="auto".

In: a method name (optionally with one option behind a colon, "saddlepoint:msd1"), a list of steps.
Out: an object with `log_delta(epsilon) -> Bound` for one direction. Accountant modules are
imported when they are first asked for.

The rule of "auto", in order; the first answer whose proven width in log delta is at most `rtol`
is returned, else the narrowest of those tried:

1. `lattice`, if all losses lie on one lattice: a finite sum, exact up to rounding;
2. `direct`, if there are few steps in all, or only atoms and few enough to list;
3. `pld`, if a loss is a table of very many atoms off any lattice;
4. `contour`: exact up to quadrature, with a cost that does not depend on the counts;
5. `direct` again, for up to 100 steps, where the contour's proof is wider than asked for;
6. `pld`, where the contour's proof is wider than asked for (atoms beside a density, few steps);
7. where none of them answers, or delta may be nearly one, `accountants.apart`: a lower bound from
   one event, the upper bound 1, and the refusals in the details. It never raises.

Steps whose loss has no exponential moments on a side are replaced by ones that have them before
(`accountants.revealing`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from mechc.accountants.bound import Bound
from mechc.errors import DeclarationError, NumericError, UnsupportedError
from mechc.loss.apart import UnresolvedLoss, is_resolved

if TYPE_CHECKING:
    from mechc.loss.measure import Step

_ROUGH = 1e-3  # width in log delta beyond which a lattice sum is not what it can be
_TINY = -30.0  # log delta below which only rounding is left


class Accountant(Protocol):
    """What every accountant offers: log delta of a composition in one direction."""

    def log_delta(self, epsilon: float) -> Bound:
        """Return bounds on log delta at epsilon."""


@dataclass(frozen=True)
class Method:
    """One accountant as a reader of a table wants to know it.

    Attributes:
        name: the word for `method=`.
        answers: "interval" (proven on both sides), "upper" (proven upper bound only), "estimate"
            (no proof), or "depends" (on the option).
        needs: what a composition must have.
        cost: how the work grows.
        options: keyword options it accepts besides rtol; the first may be written after a colon.
        source: the paper or theorem it implements.
        refs: keys of the works to cite, in `present/references.bib`.
    """

    name: str
    answers: str
    needs: str
    cost: str
    options: tuple[str, ...]
    source: str
    refs: tuple[str, ...]

    @property
    def module(self) -> str:
        """Name of the module that implements it."""
        return f"mechc.accountants.{self.name}"

    def accountant(self) -> Any:
        """Import and return the accountant class."""
        return getattr(import_module(self.module), f"{self.name.capitalize()}Accountant")


APART = -1e-2  # log delta of two laws that are nearly disjoint
MANY = 20_000  # atoms of one loss that only a grid takes cheaply
SMALLEST = -745.2  # log of the smallest double: below it only the contour is tried
FEW = 12  # steps that auto composes one by one
MORE = 100  # the same where the contour's answer is too wide

METHODS = (
    Method(
        "contour",
        "interval",
        "any composition; wide where few steps carry atoms and a density",
        "O(distinct steps), independent of counts and of delta",
        (),
        "inversion formula on the saddle contour, trapezoid rule with one-sided aliasing",
        ("zhu2022optimal", "trefethen2014exponentially"),
    ),
    Method(
        "direct",
        "interval",
        "few steps in all",
        "O(1) root finding for one step; a small matrix for each distinct step of a few",
        (),
        "delta(eps) = P(L > eps) - e^eps Q(L > eps), step by step",
        ("balle2018improving",),
    ),
    Method(
        "lattice",
        "interval",
        "all losses on one lattice",
        "O(lattice points), independent of counts",
        (),
        "inversion formula folded onto one period",
        ("zhu2022optimal", "trefethen2014exponentially"),
    ),
    Method(
        "pld",
        "interval",
        "any composition",
        "O(distinct steps * n log n) on a grid of n points",
        ("grid", "max_bytes"),
        "Doroshenko et al. 2022 (connect the dots), exponentially tilted",
        ("doroshenko2022connect",),
    ),
    Method(
        "prv",
        "interval",
        "any composition; absolute error, so delta above about 1e-10",
        "O(sqrt(count) log count) for one distinct step",
        ("eps_error", "delta_error", "max_bytes"),
        "Gopi, Lee, Wutschitz 2021",
        ("gopi2021numerical",),
    ),
    Method(
        "fourier",
        "interval",
        "losses with a density",
        "O(distinct steps * n log n)",
        ("n", "window", "max_bytes"),
        "Koskela, Jälkö, Honkela 2020",
        ("koskela2020computing",),
    ),
    Method(
        "saddlepoint",
        "depends",
        "finite moments around the saddle point; clt and moments are proven, msd is an estimate",
        "O(distinct steps), independent of counts",
        ("variant", "order"),
        "Alghamdi et al. 2023",
        ("alghamdi2023saddle",),
    ),
    Method(
        "edgeworth",
        "depends",
        "losses without a lattice, many steps",
        "O(distinct steps), independent of counts",
        ("order", "interval", "error", "tilted"),
        "Wang et al. 2022",
        ("wang2022edgeworth",),
    ),
    Method(
        "renyi",
        "upper",
        "any composition",
        "O(distinct steps) per order",
        (),
        "Mironov 2017; conversion of Asoodeh et al. / Canonne, Kamath, Steinke 2020",
        ("mironov2017renyi", "canonne2020discrete"),
    ),
    Method(
        "clt",
        "estimate",
        "many steps",
        "O(distinct steps)",
        (),
        "Bu, Dong, Long, Su 2020",
        ("bu2020deep",),
    ),
)


@cache
def methods() -> tuple[Method, ...]:
    """Return the accountants this installation has, with what they need, cost and prove."""
    return tuple(m for m in METHODS if find_spec(m.module) is not None)


def names() -> tuple[str, ...]:
    """Return the words that `method=` accepts."""
    return ("auto", *(m.name for m in methods()))


def resolve(method: str, options: dict[str, Any]) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """Check a method name and its options.

    Args:
        method: a name, or "name:value" where value is the method's first option.
        options: keyword options for the accountant.

    Returns:
        The bare name and the sorted options.

    Raises:
        DeclarationError: the name or an option is not known.
    """
    name, colon, value = str(method).partition(":")
    if name == "auto" and not colon and not options:
        return name, ()
    known = {m.name: m for m in methods()}
    if name not in known:
        listed = ", ".join(names())
        raise DeclarationError(f"method={method!r} is not known (expected one of {listed})")
    accepted = known[name].options
    if colon:
        if not accepted:
            raise DeclarationError(f"method={method!r}: {name} takes no option")
        options = {accepted[0]: _number_or_word(value), **options}
    for key in options:
        if key not in accepted:
            listed = ", ".join(accepted) or "none"
            raise DeclarationError(f"{key}={options[key]!r}: {name} accepts the options: {listed}")
    defaults = signature(known[name].accountant()).parameters if options else {}
    for key, value in options.items():
        _check_kind(f"{name}: {key}", value, defaults[key].default)
    return name, tuple(sorted(options.items()))


def _check_kind(label: str, value: Any, default: Any) -> None:
    """Refuse an option that is not of the kind of its default: a word, a truth, or a number."""
    if isinstance(default, (str, bool)):
        words = "a word" if isinstance(default, str) else "True or False"
        fine = isinstance(value, type(default))
    else:
        words = "a finite number"
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        fine = value is default or (number and abs(value) < sys.float_info.max)
    if not fine:
        raise DeclarationError(f"{label}={value!r} (expected {words})")


def _number_or_word(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def build(
    name: str, steps: Sequence[Step], rtol: float, options: tuple[tuple[str, Any], ...] = ()
) -> Accountant:
    """Return the accountant `name` on these steps.

    Raises:
        UnsupportedError: the method cannot do these steps.
    """
    if name == "auto":
        return Auto(steps, rtol)
    known = {m.name: m for m in METHODS}
    return cast(Accountant, known[name].accountant()(steps, rtol=rtol, **dict(options)))


def candidates(steps: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """Yield the methods that "auto" tries on these steps, in order, each with the reason."""
    have = {m.name for m in methods()}
    if not all(is_resolved(step.loss) for step in steps):
        return
    enumerable = import_module("mechc.accountants.direct").enumerable
    total = sum(step.count for step in steps)
    tables = max((s.loss.atom_loss.size for s in steps), default=0) > MANY
    few = total <= FEW and not tables
    wide = "the contour's proof is wider than asked for"
    rule = (
        ("lattice", all(s.loss.lattice for s in steps), "all losses are lattices"),
        ("direct", few or enumerable(steps), "few steps, or few atoms in all"),
        ("pld", tables, "a large table of losses"),
        ("contour", True, "cost independent of the counts"),
        ("direct", FEW < total <= MORE and not tables, wide),
        ("pld", not tables, wide),
    )
    yield from ((name, why) for name, applies, why in rule if applies and name in have)


class Auto:
    """The accountant behind method="auto": see the module's docstring for the rule."""

    def __init__(self, steps: Sequence[Step], rtol: float) -> None:
        """Prepare the candidates; none is built before it is needed."""
        self._steps, self._rtol = steps, rtol
        self._queue = list(candidates(steps))
        self._built: dict[str, Accountant] = {}
        self._tails = import_module("mechc.accountants.revealing")
        self._revealed: dict[float, Auto] = {}

    def log_delta(self, epsilon: float) -> Bound:
        """Return the first answer narrow enough, else the narrowest.

        Args:
            epsilon: any real number.
        """
        return self._answer(epsilon, self._rtol)

    def rough(self, epsilon: float) -> Bound:
        """Return the first answer, however wide: enough to steer a search.

        Args:
            epsilon: any real number.
        """
        return self._answer(epsilon, float("inf"))

    def _answer(self, epsilon: float, rtol: float) -> Bound:
        """Ask the methods; where none answers, or delta may be nearly one, bound it by an event."""
        try:
            for step in self._steps:
                if isinstance(step.loss, UnresolvedLoss):
                    raise step.loss.why
            answer = self._settled(epsilon, rtol)
        except (UnsupportedError, NumericError) as error:
            bound = self._apart(epsilon)
            bound.detail["refusals"] = str(error)
            return bound
        if float(answer.lower) < APART <= float(answer.upper):
            bound = self._apart(epsilon)
            return bound if float(bound.lower) > float(answer.lower) else answer
        return answer

    def _settled(self, epsilon: float, rtol: float) -> Bound:
        """Ask about the steps, or, where moments are lacking, about steps that reveal more."""
        if not self._tails.lacks_moments(self._steps):
            return self._first(epsilon, rtol)
        bound = self._tails.bound_for(self._steps, epsilon)
        try:
            if bound not in self._revealed:
                self._revealed[bound] = Auto(self._tails.revealed(self._steps, bound), self._rtol)
            answer = self._revealed[bound]._first(epsilon, rtol)
        except (UnsupportedError, NumericError):
            return self._first(epsilon, rtol)
        return cast(Bound, self._tails.corrected(answer, self._steps, epsilon, bound))

    def ceiling(self, epsilon: float) -> float:
        """Return an upper bound on log delta that costs next to nothing; 0 where there is none.

        Args:
            epsilon: any real number.
        """
        if not self._queue:
            return 0.0
        try:
            bound = getattr(self._accountant(self._queue[0][0]), "ceiling", None)
        except (UnsupportedError, NumericError):
            return 0.0
        return 0.0 if bound is None else float(bound(epsilon))

    def _first(self, epsilon: float, rtol: float) -> Bound:
        best: Bound | None = None
        refusals = []
        for name, reason in list(self._queue):
            try:
                answer = self._accountant(name).log_delta(epsilon)
            except (UnsupportedError, NumericError) as error:
                refusals.append(f"{name}: {error}")
                if isinstance(error, UnsupportedError):
                    self._queue.remove((name, reason))
                continue
            answer.detail["auto"] = reason
            exact = name == "lattice" and (_width(answer) <= _ROUGH or float(answer.upper) < _TINY)
            settled = exact or "limit" in answer.detail  # nothing is sharper there
            settled |= name == "contour" and float(answer.upper) < SMALLEST
            if _width(answer) <= rtol or settled:
                return answer
            if best is None or _rank(answer) < _rank(best):
                best = answer
        if best is None:
            raise UnsupportedError("auto: no method can answer; " + "; ".join(refusals))
        return best

    def _apart(self, epsilon: float) -> Bound:
        """Bound delta by one event, where P and Q are nearly disjoint."""
        return cast(Bound, import_module("mechc.accountants.apart").bound(self._steps, epsilon))

    def _accountant(self, name: str) -> Accountant:
        if name not in self._built:
            self._built[name] = build(name, self._steps, self._rtol)
        return self._built[name]


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
