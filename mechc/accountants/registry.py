"""The accountants by name: what each one proves, needs and costs.

In: a method name (optionally with one option behind a colon, "saddlepoint:msd1"), a list of steps.
Out: an object with `log_delta(epsilon) -> Bound` for one direction. Accountant modules are
imported when they are first asked for.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import signature
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import numpy as np

from mechc.accountants.bound import Bound
from mechc.errors import DeclarationError, public
from mechc.hints import VALUES, meaning, suggestion

if TYPE_CHECKING:
    from mechc.accountants.contours.columns import Columns
    from mechc.loss.privacy_loss import Step

OF_QUESTIONS = ("epsilon", "delta", "log_delta", "fpr", "alpha", "orders", "counts")  # their words
KEPT = 4  # states of a method that are remembered for other epsilons
ALIKE = 1.2  # times its own first width, at which what was made for one epsilon serves another


class Accountant(ABC):
    """What every accountant offers for a composition in one direction, and what some do.

    Attributes:
        inverts: whether `epsilon` may have an answer.
    """

    inverts = False

    @abstractmethod
    def log_delta(self, epsilon: float) -> Bound:
        """Return bounds on log delta at epsilon."""

    def epsilon(self, log_delta: float, near: float) -> Bound | None:
        """Return epsilon where log delta is the target, None where delta is to be asked for.

        Without the status "proven" it says where to ask, and proves nothing.
        """
        return None

    def columns(self) -> Columns | None:
        """Return the columns that a contour stands on, None where there is no contour."""
        return None

    def at_hand(self, epsilon: float) -> Bound | None:
        """Return bounds as narrow as those computed for other epsilons, by these, if there are."""
        return None


Accounts = Callable[..., Accountant]
"""The class of an accountant: steps, rtol and its options in."""


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
        refs: keys of the works to cite, in `report/references.bib`.
        place: module of this folder and class; accountants compile much, so that each is imported
            when it is first asked for.
    """

    name: str
    answers: str
    needs: str
    cost: str
    options: tuple[str, ...]
    source: str
    refs: tuple[str, ...]
    place: str

    def accountant(self) -> Accounts:
        """Import and return the class."""
        return _imported(self.place)


@cache
def _imported(place: str) -> Accounts:
    found: Accounts = resolve_name(f"mechc.accountants.{place}")
    return found


METHODS = (
    Method("contour", "interval", "any composition; wide where few steps carry atoms and a density",
           "O(distinct steps), independent of counts and of delta", (),
           "inversion formula on the saddle contour, trapezoid rule with one-sided aliasing",
           ("zhu2022optimal", "trefethen2014exponentially"), "contour:ContourAccountant"),
    Method("direct", "interval", "few steps in all",
           "O(1) root finding for one step; a small matrix for each distinct step of a few", (),
           "delta(eps) = P(L > eps) - e^eps Q(L > eps), step by step", ("balle2018improving",),
           "direct:DirectAccountant"),
    Method("lattice", "interval", "all losses on one lattice",
           "O(lattice points), independent of counts", (),
           "inversion formula folded onto one period",
           ("zhu2022optimal", "trefethen2014exponentially"), "contour:LatticeAccountant"),
    Method("pld", "interval", "any composition",
           "O(distinct steps * n log n) on a grid of n points", ("grid", "max_bytes"),
           "Doroshenko et al. 2022 (connect the dots), exponentially tilted",
           ("doroshenko2022connect",), "pld:PldAccountant"),
    Method("prv", "interval", "any composition; absolute error, so delta above about 1e-10",
           "O(sqrt(count) log count) for one distinct step",
           ("eps_error", "delta_error", "max_bytes"), "Gopi, Lee, Wutschitz 2021",
           ("gopi2021numerical",), "classical.prv:PrvAccountant"),
    Method("fourier", "interval", "losses with a density", "O(distinct steps * n log n)",
           ("n", "window", "max_bytes"), "Koskela, Jälkö, Honkela 2020", ("koskela2020computing",),
           "classical.fourier:FourierAccountant"),
    Method("saddlepoint", "depends",
           "finite moments around the saddle point; clt and moments are proven, msd is an estimate",
           "O(distinct steps), independent of counts", ("variant", "order"), "Alghamdi et al. 2023",
           ("alghamdi2023saddle",), "classical.saddlepoint:SaddlepointAccountant"),
    Method("edgeworth", "depends", "losses without a lattice, many steps",
           "O(distinct steps), independent of counts", ("order", "interval", "error", "tilted"),
           "Wang et al. 2022", ("wang2022edgeworth",), "classical.edgeworth:EdgeworthAccountant"),
    Method("renyi", "upper", "any composition", "O(distinct steps) per order", (),
           "Mironov 2017; conversion of Asoodeh et al. / Canonne, Kamath, Steinke 2020",
           ("mironov2017renyi", "canonne2020discrete"), "classical.renyi:RenyiAccountant"),
    Method("clt", "estimate", "many steps", "O(distinct steps)", (), "Bu, Dong, Long, Su 2020",
           ("bu2020deep",), "classical.clt:CltAccountant"),
)  # fmt: skip


BY_NAME = {m.name: m for m in METHODS}
NAMES = ("auto", *BY_NAME)


class Methods(tuple[Method, ...]):
    """Accountants, one a line where they are shown."""

    def __repr__(self) -> str:
        """Show what each proves, and for what."""
        return "\n".join(f"{m.name:12} {m.answers:9} {m.needs}" for m in self)


@public
def methods() -> tuple[Method, ...]:
    """Return the accountants with what they need, cost and prove."""
    return Methods(METHODS)


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
    if isinstance(method, str) and method == "auto" and not options:
        return "auto", ()
    name, colon, value = str(method).partition(":")
    if name not in NAMES:
        hint, listed = suggestion(name, NAMES, VALUES), ", ".join(NAMES)
        raise DeclarationError(f"method={method!r} is not known{hint} (expected one of {listed})")
    accepted = BY_NAME[name].options if name != "auto" else ()
    if colon:
        if not accepted:
            raise DeclarationError(f"method={method!r}: {name} takes no option")
        options = {accepted[0]: _number_or_word(value), **options}
    for key in options:
        if key not in accepted:
            listed = ", ".join(accepted) or "none but rtol"
            words = (*accepted, "method", "direction", "rtol", "max_work", "certified")
            asked = meaning(key, OF_QUESTIONS)
            meant = f"; did you mean {asked}?" if asked else suggestion(key, words)
            if key == words[-1]:
                meant = "; delta, log_delta and epsilon have certified answers"
            raise DeclarationError(
                f"{key}={options[key]!r} is not known here{meant} (method={name!r} accepts the "
                f"options: {listed})"
            )
    defaults = signature(BY_NAME[name].accountant()).parameters if options else {}
    settled = [(key, _settled(f"{name}: {key}", value, defaults[key].default))
               for key, value in options.items()]  # fmt: skip
    return name, tuple(sorted(settled))


def _settled(label: str, value: Any, default: Any) -> Any:
    """An option of the kind of its default: a word, a truth, or a number, whole if it is."""
    found = value.item() if isinstance(value, np.generic) else value  # of doubles' range
    if isinstance(default, (str, bool)):
        fine = isinstance(found, type(default))
        words = "a word" if isinstance(default, str) else "True or False"
    else:
        number = isinstance(found, (int, float)) and not isinstance(found, bool)
        fine, words = found is default, "a finite number"
        if number and abs(found) < sys.float_info.max:
            return int(found) if found == int(found) else found
    if not fine:
        raise DeclarationError(f"{label}={value!r} (expected {words})")
    return found


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
    """Return the accountant `name` on these steps; "auto" is none of them, see `auto`.

    Raises:
        UnsupportedError: the method cannot do these steps.
    """
    return BY_NAME[name].accountant()(steps, rtol=rtol, **dict(options))
