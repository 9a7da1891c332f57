"""Parameter vectors at which every comparison in a kernel is seen from both sides.

Emitted formulas switch where one of them would overflow or lose digits, often at ratios that no
typical vector has. The text of the kernel is run as plain Python with every comparison reporting
its outcome, on vectors further and further from the typical ones, until nothing new turns up.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from mechc.protocol import Measure
from mechc.symbolic.parameters import Parameter
from mechc.verify.recheck.kernel import OF_LAW, Kernel

Outcome = tuple[int, bool]
Theta = tuple[float, ...]
Tilts = Callable[[Theta], Sequence[complex]]

# not run for their comparisons: other forms of the same functions, and loops
LEFT_OUT = ("_many", "solve_loss", "breakpoints", "series", "term_of_series", "self_check", *OF_LAW)
OF_THETA = ("log_infinite_mass", "branches", "atoms", "strip", "lattice")
OF_X = ("log_p", "log_q", "loss", "cdf_p", "sf_p", "cdf_q", "sf_q")
FACTORS = tuple(10.0 ** (side * k) for k in (0.5, 1.0, 1.5, 2.0, 3.0, 4.0) for side in (1, -1))
DISTANCES = tuple(2.0**k for k in range(-12, 21, 2))
DEEPEST = -700.0  # log density below which a point says nothing


def _compared(kernel: Kernel) -> dict[str, range]:
    """Functions of the parameters that compare, with their comparisons; none that iterate."""
    found = {}
    for name, marks in kernel.marks.items():
        nodes = [n for n in ast.walk(kernel.functions[name]) if isinstance(n, (ast.Name, ast.arg))]
        names = {n.id if isinstance(n, ast.Name) else n.arg for n in nodes}
        left_out = name.endswith(LEFT_OUT) or name.startswith(LEFT_OUT) or "solve_loss" in names
        if "theta" in names and not left_out:
            found[name] = marks
    return found


def _outcomes(kernel: Kernel, name: str, *arguments: Any) -> set[Outcome]:
    """What the comparisons of a function find at these arguments."""
    kernel(name, *arguments)
    return kernel.outcomes


def further(
    kernel: Kernel, parameters: Sequence[Parameter],
    known: Sequence[tuple[Theta, Sequence[float]]], tilts: Tilts,
) -> list[tuple[Theta, list[float]]]:  # fmt: skip
    """Vectors, and outputs for each, that show comparisons from a side not seen yet.

    `known` are those that are compared anyway; `tilts` says where the generating function is at a
    vector.
    """
    compared = _compared(kernel)
    wanted = {(n, side) for r in compared.values() for n in r for side in (True, False)}
    found, seen = list[tuple[Theta, list[float]]](), set[Outcome]()
    if not wanted:
        return found
    with np.errstate(all="ignore"):
        for theta, xs in known:
            shown = _looks(kernel, compared, theta, xs, tilts)
            seen |= set().union(*(outcomes for outcomes, _ in shown))
        for theta in _candidates(parameters, [theta for theta, _ in known[:2]]):
            if wanted <= seen:
                break
            where, before = [], len(seen & wanted)
            for outcomes, x in _looks(kernel, compared, theta, _spread(kernel, theta), tilts):
                if not outcomes & wanted <= seen:
                    seen |= outcomes
                    where += [] if x is None else [x]
            if len(seen & wanted) > before:
                found.append((theta, sorted(set(where))))
    return found


def _looks(
    kernel: Kernel, comparing: Collection[str], theta: Theta, xs: Sequence[float], tilts: Tilts
) -> list[tuple[set[Outcome], float | None]]:
    """Outcomes of all functions at a vector, with the output where there is one."""
    found: list[tuple[set[Outcome], float | None]] = [
        (_outcomes(kernel, name, theta), None) for name in OF_THETA if name in comparing
    ]
    if "cgf" in comparing:
        found += [(_outcomes(kernel, "cgf", z, theta), None) for z in tilts(theta)]
    values = [name for name in OF_X if name in comparing]
    inverses = [name for name in comparing if name.startswith("loss_inverse_")]
    for x in map(float, xs if values or inverses else ()):
        if not max(float(kernel(f"log_{law}", x, theta)) for law in "pq") > DEEPEST:
            continue
        found += [(_outcomes(kernel, name, x, theta), x) for name in values]
        level = float(kernel("loss", x, theta))
        if inverses and math.isfinite(level):
            found += [(_outcomes(kernel, name, level, theta), x) for name in inverses]
    return found


def _candidates(parameters: Sequence[Parameter], bases: Sequence[Theta]) -> Iterator[Theta]:
    """One parameter, then two, moved away from typical values, by larger and larger factors."""
    for size in (1, 2):
        for chosen in itertools.combinations(range(len(parameters)), size):
            for factors in zip(*(FACTORS, FACTORS[1:] + FACTORS[:1])[:size], strict=True):
                for base in bases:
                    values = list(base)
                    for i, factor in zip(chosen, factors, strict=True):
                        values[i] *= factor
                        if parameters[i].integer:
                            values[i] = float(round(values[i]))
                    if all(p.contains(v) for p, v in zip(parameters, values, strict=True)):
                        yield tuple(values)


def _spread(kernel: Kernel, theta: Theta) -> list[float]:
    """Outputs around the ends of branches."""
    if kernel["MEASURE"] == Measure.FINITE:
        return [float(row[0]) for row in kernel("atoms", theta)]
    ends = [float(e) for e in kernel("breakpoints", theta) if math.isfinite(e)]
    unit = max(1.0, *(abs(a - b) for a, b in itertools.pairwise(ends))) if len(ends) > 1 else 1.0
    found = {e + side * d * unit for e in (ends or [0.0]) for d in DISTANCES for side in (1, -1)}
    if kernel["MEASURE"] == Measure.LATTICE:
        found = {float(round(x)) for x in found}
    return sorted(found)
