"""What numbers of a kernel are exactly: rational functions of parameters, and literals such as 0.

Nearness proves nothing: epsilon + 1e-30 is epsilon in doubles at all parameters. So the emitted
functions are run as Python on parameters that know what they are. A `Known` has its exact value
beside what doubles make of it, and sums, products and quotients of such are `Known` as well;
whatever else is computed is a `Computed`; what is neither stands in the text of the kernel.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from mechc.errors import MechcError
from mechc.protocol import Floats, Kernel

FAILING = AttributeError, TypeError, ValueError, ArithmeticError, MechcError
"""What is raised by kernels that are no emitted text, or that do not run as Python."""
NEAR = 1e-9  # relative distance within which an end that is rounded may be the largest
SHORT = 2.0**24  # integers that a literal may be a multiple of a power of two by, to be exact


class Computed(float):
    """A number that may be rounded."""


class Known(Computed):
    """A number as it is computed, and its exact value."""

    def __new__(cls, value: float, exact: Fraction | None = None) -> Known:
        """Keep both; a parameter is what it is."""
        made = super().__new__(cls, value)
        made.exact = Fraction(value) if exact is None else exact
        return made

    exact: Fraction

    @property
    def is_rounded(self) -> bool:
        """Whether the number is not its exact value."""
        return Fraction(float(self)) != self.exact


def exact_value(number: float) -> Fraction | None:
    """Return what is known of a number: of literals those are exact that have few digits."""
    if isinstance(number, Computed):
        return number.exact if isinstance(number, Known) else None
    mantissa, _ = math.frexp(number)
    return Fraction(number) if (SHORT * mantissa).is_integer() else None  # of inf and nan it is no


def _operator(name: str) -> Any:
    """What arithmetic does, exactly too where that is known."""

    def operated(*operands: Any) -> Computed:
        value = getattr(float, name)(*map(float, operands))
        exact = [exact_value(operand) for operand in operands]
        if name.strip("_") not in RATIONAL or None in exact:
            return Computed(value)
        return Known(value, getattr(Fraction, name)(*exact))

    return operated


RATIONAL = {"neg", "pos", "abs"} | {
    f"{r}{w}" for r in ("", "r") for w in ("add", "sub", "mul", "truediv")
}
OTHER = {f"{r}{w}" for r in ("", "r") for w in ("pow", "mod", "floordiv")}
for _word in sorted(RATIONAL | OTHER):
    setattr(Computed, f"__{_word}__", _operator(f"__{_word}__"))


class LogOfKnown(Computed):
    """The log of a parameter."""

    def __new__(cls, parameter: float) -> LogOfKnown:
        """Take the log, and keep what it is of."""
        made = super().__new__(cls, math.log(parameter) if parameter > 0.0 else -math.inf)
        made.parameter = float(parameter)
        return made

    parameter: float


def _computing(function: Any) -> Any:
    def computed(*arguments: Any) -> Computed:
        if function is math.log and isinstance(arguments[0], Known) and not arguments[0].is_rounded:
            return LogOfKnown(arguments[0])
        return Computed(function(*map(float, arguments)))

    return computed


def _run(function: Any, *arguments: Any) -> Any:
    """What an emitted function says, on arrays that keep what is put in."""
    with np.errstate(all="ignore"):
        return _keeping(function.py_func)(*arguments)


@lru_cache(maxsize=64)
def _keeping(plain: FunctionType) -> FunctionType:
    """An emitted function that keeps what its parameters are."""
    space = dict[str, Any]()
    for name, value in plain.__globals__.items():
        numbers = hasattr(value, "py_func") and name != "add_branch"
        space[name] = _computing(value) if numbers else value
    functions = {n: _computing(v) if callable(v) else v for n, v in vars(math).items()}
    keeping = SimpleNamespace(
        empty=lambda shape: np.empty(shape, dtype=object),
        array=lambda rows: np.array(rows, dtype=object),
    )
    space |= {"math": SimpleNamespace(**functions), "np": keeping}
    return FunctionType(plain.__code__, space)


def exact_losses(kernel: Kernel, theta: Floats, x: Floats) -> list[bool]:
    """Return which losses at outputs are not rounded, as far as anything tells."""
    try:
        found = [_run(kernel.loss, at, list(map(Known, theta.tolist()))) for at in x.tolist()]
    except FAILING:
        return [False] * x.size
    exact = [exact_value(loss) for loss in found]
    return [e is not None and e == float(loss) for e, loss in zip(exact, found, strict=True)]


def told_masses(kernel: Kernel, theta: Floats) -> tuple[float, float]:
    """Return the one parameter that is the mass of an atom of P alone, and of Q; nan for none."""
    try:
        rows = _run(kernel.atoms, list(map(Known, theta.tolist())))
    except FAILING:
        return math.nan, math.nan
    found = []
    for own, other in ((1, 2), (2, 1)):
        alone = [row[own] for row in rows if row[other] == -math.inf < row[own]]
        told = len(alone) == 1 and isinstance(alone[0], LogOfKnown)
        found.append(alone[0].parameter if told else math.nan)
    return found[0], found[1]


def exact_largest(top: float, kernel: Kernel, theta: Floats, sign: float) -> Fraction | None:
    """Return the largest loss, times a sign, that is `top` in doubles; None where it is not known.

    Laplace noise has sensitivity / scale, which is known, and a Poisson sample of it a log.
    """
    known = list(map(Known, theta.tolist()))
    try:
        ends = [end for row in _run(kernel.branches, known) for end in row[3:5]]
        x = np.asarray(kernel.atoms(theta)).reshape(-1, 3)[:, 0].tolist()
        ends += [_run(kernel.loss, Computed(at), known) for at in x]
    except FAILING:
        return None
    found = []
    for end in ends:
        value = exact_value(end)
        if value is not None:
            found.append(int(sign) * value)
        elif math.isfinite(end) and not sign * float(end) < top - NEAR * abs(top):
            return None  # which of both is larger is not known
    exact = max(found, default=None)
    return exact if exact is not None and abs(exact - Fraction(top)) <= NEAR * abs(top) else None
