"""The answer of every accountant: an interval, an estimate, and what stands behind them."""

from __future__ import annotations

import html
import json
import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from enum import Enum
from functools import partialmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc.adjacency import Adjacency, Claim
from mechc.errors import DeclarationError, InternalError, public
from mechc.hints import Hinted
from mechc.numeric.logs import log_add, log_subtract

SMALL_SHOWN = 1e-4  # numbers that are shown by their power of ten
MOST_ROWS = 50  # of the table of a notebook


class Place(NamedTuple):
    """Where a search for epsilon is to begin, and the slope of log delta there, < 0."""

    epsilon: float
    slope: float


class Side(Enum):
    """The side of an interval that never under-reports what an attacker can do."""

    LOWER = "lower"
    UPPER = "upper"


class Quantity(Enum):
    """What a bound is about: its name, and its safe side."""

    BOUND = ("bound", Side.UPPER)
    EPSILON = ("epsilon", Side.UPPER)
    DELTA = ("delta", Side.UPPER)
    ADVANTAGE = ("advantage", Side.UPPER)
    LOG_DELTA = ("log delta", Side.UPPER)
    RENYI = ("Rényi divergence", Side.UPPER)
    MU = ("mu", Side.UPPER)
    RHO = ("rho", Side.UPPER)
    FALSE_NEGATIVE_RATE = ("false negative rate", Side.LOWER)
    TRUE_POSITIVE_RATE = ("true positive rate", Side.UPPER)
    BAYES_RISK = ("Bayes risk", Side.LOWER)
    RECONSTRUCTION = ("reconstruction probability", Side.UPPER)

    def __init__(self, words: str, safe: Side) -> None:
        """Name it; say which side is safe."""
        self.words, self.safe = words, safe


ESTIMATED = "proven but for the estimated error of a density"  # a status, see `Bound`


class Recorded(Hinted, ABC):
    """What has a `record` of plain numbers and words."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return it in plain numbers and words."""

    def to_json(self) -> str:
        """Return `record()` as JSON."""
        return json.dumps(plain(self.record()))


@public
@dataclass(frozen=True)
class Bound(Recorded):
    """An interval for a privacy quantity.

    Attributes:
        lower: proven lower bound, or nan where no theorem gives one.
        estimate: best value, or nan.
        upper: proven upper bound, or nan where no theorem gives one.
        method: name of the accountant that answered.
        status: "proven" (a theorem evaluated in float64 with a rounding allowance), "certified"
            (ball arithmetic), either "for the declared pair" where it is not proven that the pair
            dominates the mechanism (see `claim`), `ESTIMATED` where a law is known up to an error
            that is estimated, "estimate" (no theorem: lower and upper are nan), or a sentence that
            says why there is no answer.
        detail: what the method did: direction, contour, nodes, error terms, reasons.
        quantity: what is bounded; it says which side is safe.
        claim: the weakest claim of the steps, with all assumptions; None inside the library.
        at: of several answers, the word and the values that were asked about; None of one.

    `float(bound)`, formats such as `f"{bound:.3f}"` (rounded outward) and comparisons such as
    `bound < 5` take the safe side, which never under-reports: upper, but lower for false negative
    rates and Bayes risks. It is nan without a theorem. Scalars in give floats, arrays arrays: then
    `bound[i]` and iteration give single bounds, and `numpy.asarray(bound)` the safe side.
    """

    lower: float | NDArray[np.float64]
    estimate: float | NDArray[np.float64]
    upper: float | NDArray[np.float64]
    method: str
    status: str
    detail: dict[str, Any] = field(default_factory=dict, repr=False)
    quantity: Quantity = field(default=Quantity.BOUND, repr=False)
    claim: Claim | None = field(default=None, repr=False)
    at: tuple[str, NDArray[Any]] | None = field(default=None, repr=False)

    @property
    def adjacency(self) -> Adjacency | None:
        """The neighbouring relation of the answer."""
        return None if self.claim is None else self.claim.adjacency

    @property
    def safe(self) -> float | NDArray[np.float64]:
        """The side that never under-reports what an attacker can do."""
        return self.lower if self.quantity.safe is Side.LOWER else self.upper

    @property
    def _is_upper(self) -> bool:
        return self.quantity.safe is Side.UPPER

    @property
    def width(self) -> float | NDArray[np.float64]:
        """Return upper minus lower."""
        return self.upper - self.lower

    def stands_for(self, claim: Claim, quantity: Quantity) -> Bound:
        """Return this bound as the answer about mechanisms rather than about pairs.

        Args:
            claim: what the pairs stand for.
            quantity: what was asked.
        """
        status = self.status
        if claim.status != "proven":
            status = re.sub("^(proven|certified)", r"\1 for the declared pair", status)
        return replace(self, status=status, quantity=quantity, claim=claim)

    def under(self, adjacency: Adjacency) -> Bound:
        """Return an answer that is right for any relation as the one for a given relation."""
        return self if self.claim is None else replace(self, claim=self.claim.under(adjacency))

    def __float__(self) -> float:
        """Return the safe side.

        Raises:
            DeclarationError: there are several answers.
        """
        if np.ndim(self.safe):
            raise DeclarationError(
                f"{np.size(self.safe)} bounds on {self.quantity.words} are not one number "
                f"(expected bound.{self.quantity.safe.value}, an array)"
            )
        return float(self.safe)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the safe side as an array, for NumPy and for figures, rounded outward."""
        side, wanted = np.array(self.safe, np.float64), np.dtype(dtype or np.float64)
        if wanted.kind in "biu":
            self._no_number(wanted)
        with np.errstate(over="ignore"):
            made = side.astype(wanted)
        if wanted.kind != "f":
            return made
        short, end = (made < side, math.inf) if self._is_upper else (made > side, -math.inf)
        return np.where(short, np.nextafter(made, wanted.type(end)), made)

    def __getitem__(self, place: Any) -> Bound:
        """Return one of several answers, or some of them."""
        if not np.ndim(self.safe):
            raise DeclarationError(
                f"{self}: one bound, not several (expected bound.lower, .estimate, .upper)"
            )
        sides = (np.asarray(getattr(self, s))[place] for s in ("lower", "estimate", "upper"))
        lower, estimate, upper = (side if np.ndim(side) else float(side) for side in sides)
        at = None
        if self.at is not None and np.ndim(lower):
            at = self.at[0], self.at[1][place]
        return replace(self, lower=lower, estimate=estimate, upper=upper, at=at)

    def __iter__(self) -> Iterator[Bound]:
        """Iterate over several answers."""
        return map(self.__getitem__, range(len(np.asarray(self[:]))))

    def __eq__(self, other: object) -> bool:
        """Whether all that is said is the same; the sides alone are compared with `<` and `>`."""
        return isinstance(other, Bound) and self.record() == other.record()

    def __hash__(self) -> int:
        """Hash all that is said."""
        return hash(self.to_json())

    def _compared(self, how: Callable[[Any, Any], Any], sign: str, other: Any) -> Any:
        """Compare the safe side with a number, or with that of another bound."""
        try:
            if np.iscomplexobj(other):  # which NumPy orders
                raise TypeError
            return how(self.safe, other.safe if isinstance(other, Bound) else other)
        except (TypeError, ValueError, ArithmeticError):
            shape = np.shape(self.safe)
            several = f", or {shape[0] if len(shape) == 1 else shape} of them" if shape else ""
            raise DeclarationError(
                f"{self.quantity.words} {sign} {other!r}: expected a number or a bound{several}"
            ) from None

    __lt__ = partialmethod(_compared, operator.lt, "<")
    __le__ = partialmethod(_compared, operator.le, "<=")
    __gt__ = partialmethod(_compared, operator.gt, ">")
    __ge__ = partialmethod(_compared, operator.ge, ">=")
    __array_ufunc__ = None  # arrays leave it to the methods here

    def _no_number(self, *others: Any) -> Any:
        """Refuse arithmetic, as of what are intervals with a safe side."""
        beside = f" with {others[0]!r}" if others else ""
        raise DeclarationError(
            f"{self}{beside}: a bound is an interval, without arithmetic (expected float(bound), "
            f"which is its {self.quantity.safe.value} side, or bound.lower, .estimate, .upper)"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_number
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __neg__ = __abs__ = __round__ = _no_number
    __floor__ = __ceil__ = __trunc__ = __int__ = _no_number

    def __format__(self, spec: str) -> str:
        """Format the safe side, rounded outward: "2.382" for an epsilon of 2.3813.

        Raises:
            DeclarationError: it is no format of numbers.
        """
        if not spec:
            return str(self)
        try:
            format(Decimal(1), spec)
        except ValueError:
            raise DeclarationError(f"format {spec!r} (expected one of numbers, as .3f)") from None

        def text(value: Any) -> str:
            if not math.isfinite(value):
                return format(float(value), spec)
            with localcontext() as context:
                context.rounding = ROUND_CEILING if self._is_upper else ROUND_FLOOR
                return format(Decimal(repr(float(value))), spec)  # what reads back as it

        if np.ndim(self.safe) == 0:
            return text(float(self.safe))
        return np.array2string(
            np.asarray(self.safe), separator=", ", formatter={"float_kind": text}
        )

    def __str__(self) -> str:
        """One line: what, how much, and what stands behind it."""
        small = np.ndim(self.safe) == 0 and 0.0 < self.safe < SMALL_SHOWN
        shown = f"{self:{'.4e' if small else '.5g'}}"
        if np.isnan(self.safe).all():
            shown = f"unknown, estimate {_estimate(self):.5g}"
        words = [self.status, self.adjacency.words if self.adjacency else "", self.method]
        return f"{self.quantity.words} {shown} ({', '.join(filter(None, words))})"

    def _repr_html_(self) -> str:
        """Show the line, and on request the sides and what stands behind them."""
        word, asked = self.at or ("", np.empty(0))
        head = [word] * bool(word) + ["lower", "estimate", "upper"]
        columns = [asked] * bool(word) + [self.lower, self.estimate, self.upper]
        values = list(zip(*(np.ravel(column).tolist() for column in columns), strict=True))
        shown = [tuple(map(repr, row)) for row in values[:MOST_ROWS]]
        more = "" if len(values) <= MOST_ROWS else f"; the first {MOST_ROWS} of {len(values)}"
        words = [self.status, self.adjacency.words if self.adjacency else "", self.method]
        line = (
            str(self)
            if not np.ndim(self.safe)
            else (f"{self.quantity.words} ({', '.join(filter(None, words))}{more})")
        )
        behind = [] if self.claim is None else [str(self.claim)]
        behind += [f"{key}: {value}" for key, value in self.detail.items()]
        table = as_table(shown, head)
        return f"<b>{html.escape(line)}</b>{table}{folded('what stands behind it', behind)}"

    def record(self) -> dict[str, Any]:
        """Return the bound in plain numbers and words; nan is None, infinities are "inf"."""
        sides = {"lower": self.lower, "estimate": self.estimate, "upper": self.upper}
        words = {"quantity": self.quantity.words, "safe": self.quantity.safe.value,
                 "method": self.method, "status": self.status, "adjacency": self.adjacency,
                 "claim": None if self.claim is None else self.claim.record()}  # fmt: skip
        at = {} if self.at is None else dict([self.at])
        made: dict[str, Any] = plain({**at, **sides, **words, "detail": self.detail})
        return made


LEFT = ' style="text-align:left"'  # notebooks put cells to the right


def as_table(rows: Iterable[Sequence[Any]], head: Sequence[str]) -> str:
    """Return rows as an HTML table for notebooks, words to the left, everything escaped."""
    cells = [tuple(map(str, row)) for row in rows]
    left = [any(map(_is_words, column)) for column in zip(*cells, strict=True)] or [True] * len(
        head
    )
    lines = [("th", tuple(head)), *(("td", row) for row in cells)]
    body = "".join(
        "<tr>" + "".join(
            f'<{tag}{LEFT if words else ""}>{html.escape(cell)}</{tag}>'
            for cell, words in zip(row, left, strict=True)
        ) + "</tr>"
        for tag, row in lines
    )  # fmt: skip
    return f"<table>{body}</table>"


def _is_words(cell: str) -> bool:
    """Whether a cell is neither empty nor a number."""
    try:
        float(cell.replace(",", "") or 0)
    except ValueError:
        return True
    return False


def folded(heading: str, lines: Sequence[str]) -> str:
    """Return lines of HTML that are shown on request, everything escaped."""
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<details><summary>{html.escape(heading)}</summary><ul>{items}</ul></details>"


def plain(value: Any) -> Any:
    """Return a value as JSON knows it: nan becomes None and infinities "inf" and "-inf"."""
    value = value.record() if hasattr(value, "record") else value
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _estimate(bound: Bound) -> Bound:
    return replace(bound, lower=bound.estimate, upper=bound.estimate)


def worse(a: Bound, b: Bound) -> Bound:
    """Return bounds on the larger of two quantities.

    A lower bound on either is a lower bound on the larger; an upper bound needs both. A method
    without a proof may have no answer to one of them, such as a series that is not positive: that
    one is taken to be smaller, and said in `detail["no answer"]`.
    """
    first, second = (a, b) if _rank(a) >= _rank(b) else (b, a)
    lowers, estimates = (_known(side) for side in ((a.lower, b.lower), (a.estimate, b.estimate)))
    status, detail = first.status if first.status != "proven" else second.status, first.detail
    if not _known((second.estimate, second.upper, second.lower)) and _rank(first) > -math.inf:
        detail = {**detail, "no answer": f"{second.detail.get('direction')}: {second.status}"}
        status = first.status if first.status != "proven" else "estimate"
    elif len(estimates) == 1:  # no mass at all beside no answer
        estimates = []
    return Bound(
        max(lowers, default=math.nan), max(estimates, default=math.nan),
        float(np.maximum(a.upper, b.upper)), first.method, status, detail,
    )  # fmt: skip


def _known(values: tuple[Any, ...]) -> list[float]:
    return [float(v) for v in values if not math.isnan(float(v))]


def _rank(bound: Bound) -> float:
    """Key that orders two answers by how bad they are: estimate, else what there is."""
    return next(iter(_known((bound.estimate, bound.upper, bound.lower))), -math.inf)


CONTRADICTING = 1e-9  # share by which a lower bound exceeds an upper one


def below(lower: float, upper: float, label: str) -> float:
    """Return a lower bound on a log delta, which rounding alone may take above an upper one.

    Raises:
        InternalError: they contradict each other.
    """
    if lower > upper + CONTRADICTING * (1.0 + abs(upper)):
        raise InternalError(
            f"{label}: log delta is at least {lower!r} and at most {upper!r}; "
            "no answer is given. This is an error of mechc: please report it"
        )
    return min(lower, upper)


def outward(answer: Bound, log_moved: float) -> Bound:
    """Move both sides of a bound on log delta by an error of delta, given by its log."""
    if log_moved == -math.inf:
        return answer
    lower, upper = float(answer.lower), float(answer.upper)
    if not math.isnan(lower):
        lower = log_subtract(lower, log_moved)
    if not math.isnan(upper):
        upper = min(log_add(upper, log_moved), 0.0)
    return replace(answer, lower=lower, upper=upper)
