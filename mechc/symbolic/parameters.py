"""The symbols a mechanism file is written in: the output variable and the parameters.

A parameter is a SymPy symbol that also knows its domain, its default and the range of values that
checks and generated tests use. While a file is written the symbol and the knowledge travel
together (`ParameterSymbol`); a finished declaration keeps them apart, so that everything behind it
handles ordinary SymPy symbols.
"""

from __future__ import annotations

import keyword
import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from sympy import Symbol

from mechc.errors import LONGEST_NAME, DeclarationError, as_flag, check_text, listed, public
from mechc.protocol import ParameterInfo

LONGEST_LIST = 10_000  # parameters of one list


@dataclass(frozen=True)
class Parameter:
    """One parameter of a mechanism.

    Attributes:
        name: the name users pass values under.
        symbol: the SymPy symbol, real, with the sign and integrality its domain implies.
        lo: lower end of the domain.
        hi: upper end of the domain.
        lo_open: whether `lo` itself is excluded.
        hi_open: whether `hi` itself is excluded.
        integer: whether only integers are allowed.
        default: value used when the user gives none.
        typical: range inside the domain that numeric checks and generated tests sample.
    """

    name: str
    symbol: Symbol
    lo: float
    hi: float
    lo_open: bool
    hi_open: bool
    integer: bool
    default: float | None
    typical: tuple[float, float]

    @property
    def info(self) -> ParameterInfo:
        """The same facts as plain numbers, as they stand in an emitted kernel."""
        return ParameterInfo(
            self.name, self.lo, self.hi, self.lo_open, self.hi_open, self.integer, self.default,
            self.typical,
        )  # fmt: skip

    @property
    def domain(self) -> str:
        """The domain in words, for messages."""
        kind = "an integer" if self.integer else "a number"
        left, right = "(" if self.lo_open else "[", ")" if self.hi_open else "]"
        return f"{kind} in {left}{self.lo:g}, {self.hi:g}{right}"

    def contains(self, value: float) -> bool:
        """Whether `value` is a finite number of the domain."""
        if not math.isfinite(value) or (self.integer and value != math.floor(value)):
            return False
        above = self.lo < value or (value == self.lo and not self.lo_open)
        below = value < self.hi or (value == self.hi and not self.hi_open)
        return above and below


class ParameterSymbol(Symbol):  # type: ignore[misc]
    """A symbol that carries its `Parameter`; two are equal when name and knowledge are."""

    __slots__ = ("parameter",)
    parameter: Parameter

    def __new__(cls, described: Parameter) -> ParameterSymbol:
        """Make the symbol that stands for `described` while a file is written."""
        plain = described.symbol
        # Symbol's cache keys on name and assumptions only, so it must be passed by
        self: ParameterSymbol = Symbol.__xnew__(cls, plain.name, **plain._assumptions_orig)
        self.parameter = described
        return self

    def __getnewargs_ex__(self) -> tuple[tuple[Parameter], dict[str, bool]]:
        """Pickle by the parameter alone."""
        return (self.parameter,), {}

    def _hashable_content(self) -> tuple[object, ...]:
        return (*super()._hashable_content(), self.parameter.info)


@public
def real(name: str) -> Symbol:
    """A real output variable, the point at which densities are evaluated."""
    return Symbol(_checked_name(name), real=True)


@public
def integer(name: str) -> Symbol:
    """An integer output variable, for mechanisms on a lattice."""
    return Symbol(_checked_name(name), integer=True)


@public
def positive(
    name: str, *, default: float | None = None, typical: tuple[float, float] = (0.1, 10.0)
) -> ParameterSymbol:
    """A parameter in (0, oo).

    Args:
        name: its name.
        default: value when the user gives none.
        typical: range of values for numeric checks and generated tests.
    """
    return parameter(name, 0.0, math.inf, lo_open=True, hi_open=True, default=default,
                     typical=typical)  # fmt: skip


@public
def rate(
    name: str, *, default: float | None = None, typical: tuple[float, float] = (0.001, 0.5)
) -> ParameterSymbol:
    """A parameter in [0, 1], such as a sampling rate; arguments as `positive`."""
    return parameter(name, 0.0, 1.0, default=default, typical=typical)


probability = rate


@public
def numbers(
    name: str,
    length: int,
    lo: float = -math.inf,
    hi: float = math.inf,
    *,
    typical: tuple[float, float] | None = None,
) -> tuple[ParameterSymbol, ...]:
    """Parameters name_1, name_2, ... in [lo, hi], to which a user may pass one list.

    Args:
        name: name of the list.
        length: how many.
        lo: lower end of the domain of each.
        hi: upper end of the domain of each.
        typical: range of values for numeric checks and generated tests.
    """
    places = range(as_length(name, length))
    return tuple(parameter(f"{name}_{i + 1}", lo, hi, typical=typical) for i in places)


@public
def probabilities(name: str, length: int) -> tuple[ParameterSymbol, ...]:
    """As `numbers`, for probabilities that add up to one; checks use equal ones."""
    share = 1 / as_length(name, length)
    return numbers(name, length, 0.0, 1.0, typical=(share, share))


def as_length(name: str, length: object) -> int:
    """Return how many parameters a list has."""
    if isinstance(length, int) and not isinstance(length, bool) and 1 <= length <= LONGEST_LIST:
        return length
    raise DeclarationError(f"{name}: length={length!r} (expected an integer from 1 to 10000)")


@public
def count(
    name: str, lo: int = 1, *, default: int | None = None, typical: tuple[int, int] | None = None
) -> ParameterSymbol:
    """An integer parameter in [lo, oo), typically up to lo + 4; other arguments as `positive`."""
    usual = (lo, _number(name, "lo", lo) + 4) if typical is None else typical
    return parameter(name, lo, math.inf, hi_open=True, integer=True, default=default,
                     typical=usual)  # fmt: skip


@public
def parameter(
    name: str,
    lo: float = -math.inf,
    hi: float = math.inf,
    *,
    lo_open: bool = False,
    hi_open: bool = False,
    integer: bool = False,
    default: float | None = None,
    typical: tuple[float, float] | None = None,
) -> ParameterSymbol:
    """A parameter with an arbitrary interval as its domain.

    Args:
        name: its name.
        lo: lower end; an infinite end is always open.
        hi: upper end; likewise.
        lo_open: exclude `lo`.
        hi_open: exclude `hi`.
        integer: allow only integers.
        default: value when the user gives none; must lie in the domain.
        typical: range of values for numeric checks and generated tests; must lie in the domain.
            By default the domain itself, cut to a moderate size.

    Raises:
        DeclarationError: an empty domain, or a default or typical range outside it.
    """
    lo, hi = _number(name, "lo", lo), _number(name, "hi", hi)
    if not lo < hi:
        raise DeclarationError(f"{name}: the domain from {lo:g} to {hi:g} is empty")
    lo_open = as_flag(f"{name}: lo_open", lo_open) or math.isinf(lo)
    hi_open = as_flag(f"{name}: hi_open", hi_open) or math.isinf(hi)
    integer = as_flag(f"{name}: integer", integer)
    if typical is None:
        low, high = _moderate_range(lo, hi)
        typical = (math.ceil(low), math.floor(high)) if integer else (low, high)
    default = None if default is None else _number(name, "default", default)
    pair = listed(f"{name}: typical", typical, "(least, largest)", 2)
    ends = (_number(name, "typical", pair[0]), _number(name, "typical", pair[1]))
    symbol = Symbol(_checked_name(name), **_assumptions(lo, hi, lo_open, hi_open, integer))
    made = Parameter(name, symbol, lo, hi, lo_open, hi_open, integer, default, ends)
    for label, value in (("default", default), ("typical", ends[0]), ("typical", ends[1])):
        if value is not None and not made.contains(value):
            raise DeclarationError(f"{name}: {label}={value:g} is not {made.domain}")
    if ends[0] > ends[1]:
        raise DeclarationError(f"{name}: typical={ends} is not (low, high)")
    return ParameterSymbol(made)


def described_parameters(name: str, parameters: Iterable[Symbol]) -> tuple[Parameter, ...]:
    """Return what is known about the symbols given as parameters of a mechanism, names checked."""
    symbols = listed(f"{name}: parameters", parameters, "a list of them")
    for symbol in symbols:
        if not isinstance(symbol, ParameterSymbol):
            raise DeclarationError(
                f"{name}: parameter {symbol!r} was not made by positive(), rate(), count() or "
                "parameter()"
            )
    names = [s.name for s in symbols]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise DeclarationError(f"{name}: parameter {twice[0]} is declared twice")
    return tuple(s.parameter for s in symbols)


def check_words(name: object, about: object, refs: object) -> None:
    """Refuse a name that is not one printable line, and prose that is not text.

    All of it stands in kernels, tables and certificates.
    """
    check_text("name", name, LONGEST_NAME)
    check_text(f"{name}: about", about)
    for ref in listed(f"{name}: refs", refs, "a list of words"):
        check_text(f"{name}: refs", ref)


def check_variable(
    name: str, variable: object, lattice: bool, parameters: tuple[Parameter, ...]
) -> None:
    """Refuse a variable that is no symbol of the right kind with a name of its own."""
    word = 'integer("n")' if as_flag(f"{name}: lattice", lattice) else 'real("x")'
    if not isinstance(variable, Symbol) or isinstance(variable, ParameterSymbol):
        raise DeclarationError(f"{name}: variable={variable!r} is not a variable, e.g. {word}")
    if not (variable.is_integer if lattice else variable.is_real and not variable.is_integer):
        other = "" if lattice else ", or lattice=True for noise on the integers"
        raise DeclarationError(
            f"{name}: variable {variable} is of the wrong kind, expected {word}{other}"
        )
    if variable.name in {p.name for p in parameters}:
        raise DeclarationError(f"{name}: {variable} is both the variable and a parameter")


def _assumptions(
    lo: float, hi: float, lo_open: bool, hi_open: bool, integer: bool
) -> dict[str, bool]:
    """What the domain lets SymPy assume."""
    facts = {"integer": True} if integer else {"real": True}
    if lo > 0 or (lo == 0 and lo_open):
        facts["positive"] = True
    elif lo == 0:
        facts["nonnegative"] = True
    if hi < 0 or (hi == 0 and hi_open):
        facts["negative"] = True
    elif hi == 0:
        facts["nonpositive"] = True
    return facts


def _moderate_range(lo: float, hi: float) -> tuple[float, float]:
    """A bounded range inside the domain, away from its ends."""
    if math.isfinite(lo) and math.isfinite(hi):
        return lo + 0.1 * (hi - lo), hi - 0.1 * (hi - lo)
    if math.isfinite(lo):
        return lo + 1.0, lo + 5.0
    if math.isfinite(hi):
        return hi - 5.0, hi - 1.0
    return -3.0, 3.0


def _number(name: str, label: str, value: object) -> float:
    """`value` as a float that is not nan."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, str) or math.isnan(number):
        raise DeclarationError(f"{name}: {label}={value!r} is not a number")
    return number


def _checked_name(name: object) -> str:
    """`name` if it can be a keyword argument, and is spelled as Python spells it."""
    fine = isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)
    if not isinstance(name, str) or not fine or unicodedata.normalize("NFKC", name) != name:
        raise DeclarationError(f"{name!r} is not a name (expected letters, digits, underscores)")
    check_text("parameter", name, LONGEST_NAME)
    return name
