"""Parameter vectors at which every comparison in a kernel is seen from both sides.

Emitted formulas switch where one of them would overflow or lose digits, often at ratios that no
typical vector has. The text of the kernel is run as plain Python with every comparison reporting
its outcome, on vectors further and further from the typical ones, until nothing new turns up.
"""

from __future__ import annotations

import ast
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from mechc.kernel.run import IEEE
from mechc.protocol import Measure
from mechc.symbolic.parameters import Parameter
from mechc.verify.recheck.kernel import OF_LAW

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


class Instrumented:
    """A kernel whose comparisons report what they found.

    Attributes:
        comparisons: how many there are.
        comparing: names of the functions that have any.
        functions: what the kernel defines.
    """

    def __init__(self, text: str) -> None:
        """Rewrite and load the text of a kernel."""
        self._found: set[Outcome] = set()
        tree = ast.parse(text)
        marks, self.comparing = _Marks(), set()
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                node.decorator_list = []
                before = marks.count
                if any(a.arg == "theta" for a in node.args.args) and not _is_left_out(node):
                    marks.visit(node)
                if marks.count > before:
                    self.comparing.add(node.name)
        tree.body = [n for n in tree.body if not isinstance(n, (ast.Import, ast.ImportFrom))]
        self.comparisons = marks.count
        self.functions: dict[str, Any] = {"math": IEEE, "np": np, "sys": sys, "_seen": self._seen}
        exec(compile(ast.fix_missing_locations(tree), "kernel", "exec"), self.functions)

    def _seen(self, number: int, outcome: Any) -> bool:
        self._found.add((number, bool(outcome)))
        return bool(outcome)

    def outcomes(self, name: str, *arguments: Any) -> set[Outcome]:
        """What the comparisons of a function find at these arguments."""
        self._found = set()
        try:
            self.functions[name](*arguments)
        except (ArithmeticError, ValueError, TypeError):
            return set()
        return self._found


class _Marks(ast.NodeTransformer):
    """Wraps every comparison."""

    count = 0

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`a < b` becomes `_seen(number, a < b)`."""
        self.generic_visit(node)
        self.count += 1
        return ast.Call(ast.Name("_seen", ast.Load()), [ast.Constant(self.count), node], [])


def _is_left_out(function: ast.FunctionDef) -> bool:
    name = function.name
    return name.endswith(LEFT_OUT) or name.startswith(LEFT_OUT) or _solves(function)


def _solves(function: ast.FunctionDef) -> bool:
    """Whether it is an inverse that iterates, which takes long in plain Python."""
    names = (node.id for node in ast.walk(function) if isinstance(node, ast.Name))
    return "solve_loss" in names


def further(
    kernel: Instrumented, parameters: Sequence[Parameter],
    known: Sequence[tuple[Theta, Sequence[float]]], tilts: Tilts,
) -> list[tuple[Theta, list[float]]]:  # fmt: skip
    """Vectors, and outputs for each, that show comparisons from a side not seen yet.

    Args:
        kernel: what is run.
        parameters: of the mechanism.
        known: vectors and outputs that are compared anyway.
        tilts: where the generating function is compared at a vector.
    """
    if not kernel.comparisons:
        return []
    found, seen = [], set()
    with np.errstate(all="ignore"):
        for theta, xs in known:
            seen |= set().union(*(outcomes for outcomes, _ in _looks(kernel, theta, xs, tilts)))
        for theta in _candidates(parameters, [theta for theta, _ in known[:2]]):
            if len(seen) == 2 * kernel.comparisons:
                break
            where, before = [], len(seen)
            for outcomes, x in _looks(kernel, theta, _spread(kernel, theta), tilts):
                if not outcomes <= seen:
                    seen |= outcomes
                    where += [] if x is None else [x]
            if len(seen) > before:
                found.append((theta, sorted(set(where))))
    return found


def _looks(
    kernel: Instrumented, theta: Theta, xs: Sequence[float], tilts: Tilts
) -> list[tuple[set[Outcome], float | None]]:
    """Outcomes of all functions at a vector, with the output where there is one."""
    array, comparing = np.array(theta), kernel.comparing
    found: list[tuple[set[Outcome], float | None]] = [
        (kernel.outcomes(name, array), None) for name in OF_THETA if name in comparing
    ]
    if "cgf" in comparing:
        found += [(kernel.outcomes("cgf", z, array), None) for z in tilts(theta)]
    values = [name for name in OF_X if name in comparing]
    inverses = [name for name in comparing if name.startswith("loss_inverse_")]
    for x in map(np.float64, xs if values or inverses else ()):
        depth = max(float(kernel.functions[f"log_{law}"](x, array)) for law in "pq")
        if not depth > DEEPEST:
            continue
        found += [(kernel.outcomes(name, x, array), float(x)) for name in values]
        level = np.float64(kernel.functions["loss"](x, array))
        if inverses and math.isfinite(level):
            found += [(kernel.outcomes(name, level, array), float(x)) for name in inverses]
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


def _spread(kernel: Instrumented, theta: Theta) -> list[float]:
    """Outputs around the ends of branches."""
    if kernel.functions["MEASURE"] == Measure.FINITE:
        return [float(row[0]) for row in kernel.functions["atoms"](np.array(theta))]
    ends = [float(e) for e in kernel.functions["breakpoints"](np.array(theta)) if math.isfinite(e)]
    unit = max(1.0, *(abs(a - b) for a, b in itertools.pairwise(ends))) if len(ends) > 1 else 1.0
    found = {e + side * d * unit for e in (ends or [0.0]) for d in DISTANCES for side in (1, -1)}
    if kernel.functions["MEASURE"] == Measure.LATTICE:
        found = {float(round(x)) for x in found}
    return sorted(found)
