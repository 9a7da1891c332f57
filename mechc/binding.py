"""Parameter values from users: named numbers in, the parameter vector of a kernel out.

Checked once, when a mechanism is called; jitted code behind it checks nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mechc.errors import DeclarationError
from mechc.inputs import as_array
from mechc.kernel.protocol import ParameterInfo

LARGEST = 1e15  # size of anything counted: doubles hold all integers up to it


def bind(
    mechanism: str,
    parameters: Sequence[ParameterInfo],
    values: Mapping[str, Any],
    assumptions: Sequence[str] = (),
) -> tuple[float, ...]:
    """Return the parameter vector, defaults filled in.

    Args:
        mechanism: name for messages.
        parameters: the kernel's parameters.
        values: values by name.
        assumptions: what is said of parameters, for the message about one that is missing.

    Raises:
        DeclarationError: a name is unknown or missing, or a value is outside its domain.
    """
    unknown = [name for name in values if all(p.name != name for p in parameters)]
    if unknown:
        listed = ", ".join(p.name for p in parameters) or "none"
        raise DeclarationError(
            f"{mechanism}: unknown parameter {unknown[0]!r} (parameters: {listed})"
        )
    theta = []
    for info in parameters:
        if info.name in values:
            theta.append(check(mechanism, info, values[info.name]))
        elif info.default is not None:
            theta.append(info.default)
        else:
            of_it = [w for w in assumptions if re.search(rf"\b{info.name}\b", w)]
            said = "".join(f"; {words}" for words in of_it)
            raise DeclarationError(
                f"{mechanism}: missing parameter {info.name} (expected {domain(info)}{said})"
            )
    return tuple(theta)


def without_lists(mechanism: str, values: Mapping[str, Any]) -> tuple[int | None, dict[str, Any]]:
    """Spread values that are lists over the parameters name_1, name_2, ... that stand for them.

    Args:
        mechanism: name for messages.
        values: values by name, some of them one-dimensional sequences.

    Returns:
        The common length of the lists (None if there are none), and all values as numbers.

    Raises:
        DeclarationError: lists of different lengths, or an empty one.
    """
    lists = {name: v for name, v in values.items() if isinstance(v, (list, tuple, np.ndarray))}
    if not lists:
        return None, dict(values)
    spread = {name: v for name, v in values.items() if name not in lists}
    for name, sequence in lists.items():
        if np.ndim(sequence) != 1 or not len(sequence):
            raise DeclarationError(f"{mechanism}: {name}={sequence!r} is not a non-empty list")
        spread.update({f"{name}_{i + 1}": value for i, value in enumerate(sequence)})
    lengths = {name: len(sequence) for name, sequence in lists.items()}
    if len(set(lengths.values())) > 1:
        words = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise DeclarationError(f"{mechanism}: lists must have one length, but {words}")
    return next(iter(lengths.values())), spread


def probabilities(mechanism: str, name: str, values: Any) -> list[float]:
    """Return a list of probabilities that add up to one.

    Raises:
        DeclarationError: they are not numbers in [0, 1] with sum 1.
    """
    array = as_array(f"{mechanism}: {name}", values)
    if array.ndim != 1 or not array.size or not ((array >= 0) & (array <= 1)).all():
        raise DeclarationError(f"{mechanism}: {name}={values!r} (expected numbers in [0, 1])")
    total = math.fsum(array.tolist())
    if not abs(total - 1) <= 1e-12 * array.size:
        raise DeclarationError(f"{mechanism}: {name} add up to {total!r} (expected 1)")
    return [float(v) for v in array]


def check(mechanism: str, info: ParameterInfo, value: Any) -> float:
    """Return one value as a float inside its domain.

    Raises:
        DeclarationError: it is not a finite number of the domain.
    """
    number = math.nan
    if not isinstance(value, (bool, np.bool_, str, bytes)):
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
    problem = _problem(info, number)
    if problem:
        shown = value if isinstance(value, str) or not math.isfinite(number) else f"{number:g}"
        raise DeclarationError(
            f"{mechanism}: {info.name}={shown} {problem} (expected {domain(info)})"
        )
    return number


def positive(owner: str, name: str, value: Any) -> float:
    """Return a finite number > 0; raises what `check` raises."""
    return check(owner, ParameterInfo(name, 0.0, math.inf, True, True, False, None, (1, 1)), value)


def share(owner: str, name: str, value: Any) -> float:
    """Return a number in [0, 1]; raises what `check` raises."""
    return check(owner, ParameterInfo(name, 0.0, 1.0, False, False, False, None, (0, 1)), value)


def size(owner: str, name: str, value: Any) -> int:
    """Return an integer >= 1, given in any type of numbers; raises what `check` raises."""
    check(owner, ParameterInfo(name, 1.0, LARGEST, False, False, True, None, (1, 1)), value)
    return int(value)


def _problem(info: ParameterInfo, number: float) -> str:
    """Say what is wrong with a number, "" if nothing."""
    if not math.isfinite(number):
        return "is not a finite number"
    if info.integer and not number.is_integer():
        return "is not an integer"
    below = number < info.lo or (number == info.lo and info.lo_open)
    above = number > info.hi or (number == info.hi and info.hi_open)
    if below and info.lo == 0:
        return "is not positive" if info.lo_open else "is negative"
    if below:
        return "is too small"
    return "is too large" if above else ""


def domain(info: ParameterInfo) -> str:
    """Return the domain of a parameter in words, such as "scale > 0"."""
    kind = "integer " if info.integer else ""
    left = f"{info.lo:g} {'<' if info.lo_open else '<='} "
    right = f" {'<' if info.hi_open else '<='} {info.hi:g}"
    if info.lo == -math.inf and info.hi == math.inf:
        return f"a finite {kind or 'number '}{info.name}"
    if info.hi == math.inf:
        return f"{kind}{info.name} {'>' if info.lo_open else '>='} {info.lo:g}"
    if info.lo == -math.inf:
        return f"{kind}{info.name}{right}"
    return f"{kind}{left}{info.name}{right}"
