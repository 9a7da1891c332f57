"""Differential checks of a composition: what must agree, whatever the method.

Every violation comes with the smallest question that shows it. An answer without a theorem (nan
sides) and a refusal prove nothing and are passed over.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mechc
from mechc.composition import Composition, compose
from mechc.errors import DeclarationError, MechcError
from mechc.operations import under
from mechc.registry import methods
from mechc.verify import monotone

EPSILONS = (0.1, 0.5, 1.0, 3.0)
DIRECTIONS = ("remove", "add", "both")
LOOP = 64  # longest composition that is also built step by step


@dataclass(frozen=True)
class Violation:
    """A statement that failed, and how to see it."""

    statement: str
    found: str
    reproduction: str


@dataclass(frozen=True)
class Report:
    """What was compared.

    Attributes:
        comparisons: how many pairs of answers were compared.
        violations: those that contradict each other.
    """

    comparisons: int
    violations: tuple[Violation, ...]

    @property
    def ok(self) -> bool:
        """Nothing contradicts."""
        return not self.violations

    def __str__(self) -> str:
        """One line, or one paragraph for each violation."""
        if self.ok:
            return f"{self.comparisons} comparisons, no contradiction"
        parts = [f"{v.statement}: {v.found}\n    {v.reproduction}" for v in self.violations]
        return "\n".join(parts)


class _Checker:
    def __init__(self, run: Composition, epsilons: Sequence[float], certified: bool) -> None:
        self.run, self.epsilons, self.certified = run, tuple(epsilons), certified
        self.comparisons = 0
        self.violations: list[Violation] = []

    def report(self) -> Report:
        for direction in DIRECTIONS:
            self._overlap(direction)
        self._monotone()
        self._order()
        self._renyi()
        self._directions()
        self._parameters()
        return Report(self.comparisons, tuple(self.violations))

    def _ask(self, run: Composition, epsilon: float, **how: Any) -> tuple[float, float] | None:
        """(lower, upper), None where nothing is proved."""
        try:
            bound = run.log_delta(epsilon, **how)
        except MechcError:
            return None
        lower, upper = float(bound.lower), float(bound.upper)
        return None if math.isnan(lower) and math.isnan(upper) else (lower, upper)

    def _compare(self, statement: str, fine: bool, found: str, reproduction: str) -> None:
        self.comparisons += 1
        if not fine:
            self.violations.append(Violation(statement, found, f"run = {reproduction}"))

    def _overlap(self, direction: str) -> None:
        """All bounded methods, and the certified answer if wanted, share a value."""
        names = ["auto", *(m.name for m in methods())]
        for epsilon in self.epsilons:
            where = f"{self.run!r}; epsilon={epsilon}, direction={direction}"
            answers = {
                n: self._ask(self.run, epsilon, method=n, direction=direction) for n in names
            }
            if self.certified:
                answers["certified"] = self._ask(
                    self.run, epsilon, certified=True, direction=direction
                )
            known = {n: a for n, a in answers.items() if a is not None}
            for name, (lower, upper) in known.items():
                ordered = not lower > upper
                self._compare("lower <= upper", ordered, f"{name}: {lower}, {upper}", where)
                for other, (_, top) in known.items():
                    if name != other:
                        self._compare(
                            "bounds of two methods overlap", not lower > top,
                            f"{name} says log delta >= {lower}, {other} says <= {top}",
                            where,
                        )  # fmt: skip

    def _monotone(self) -> None:
        """Delta falls with epsilon and rises with the number of steps."""
        for low, high in zip(sorted(self.epsilons), sorted(self.epsilons)[1:], strict=False):
            first, second = self._ask(self.run, low), self._ask(self.run, high)
            if first and second:
                self._compare("delta falls with epsilon", not second[0] > first[1],
                              f"log delta({low}) <= {first[1]}, log delta({high}) >= {second[0]}",
                              repr(self.run))  # fmt: skip
        for epsilon in self.epsilons:
            for name in ("auto", "renyi"):
                once = self._ask(self.run, epsilon, method=name)
                twice = self._ask(2 * self.run, epsilon, method=name)
                if once and twice:
                    self._compare("delta rises with the number of steps", not once[0] > twice[1],
                                  f"{name}: {once[0]} once, at most {twice[1]} twice",
                                  f"{self.run!r}; epsilon={epsilon}")  # fmt: skip

    def _order(self) -> None:
        """Neither the order of the parts nor counting instead of repeating matters."""
        parts = list(self.run.parts)
        others = [compose(*reversed(parts))]
        if self.run.count <= LOOP:
            others.append(compose(*(event for event, count in parts for _ in range(count))))
        for other in others:
            for epsilon in self.epsilons:
                first, second = self._ask(self.run, epsilon), self._ask(other, epsilon)
                self._compare(
                    "order and counting are irrelevant", _same(first, second),
                    f"{first} and {second}", f"{self.run!r}; epsilon={epsilon}",
                )  # fmt: skip

    def _renyi(self) -> None:
        """No lower bound exceeds the conversion of the Renyi divergence."""
        for epsilon in self.epsilons:
            exact, converted = (
                self._ask(self.run, epsilon),
                self._ask(self.run, epsilon, method="renyi"),
            )
            if exact and converted and not math.isnan(converted[1]):
                self._compare(
                    "delta is at most the Renyi conversion", not exact[0] > converted[1],
                    f"{exact[0]} > {converted[1]}", f"{self.run!r}; epsilon={epsilon}",
                )  # fmt: skip

    def _directions(self) -> None:
        """Both directions: the maximum of each."""
        for epsilon in self.epsilons:
            both, remove, add = (
                self._ask(self.run, epsilon, direction=d) for d in ("both", "remove", "add")
            )
            if both and remove and add:
                top, bottom = max(remove[1], add[1]), max(remove[0], add[0])
                fine = not both[0] > top and not bottom > both[1]
                self._compare("both is the maximum of the directions", fine,
                              f"{both}, remove {remove}, add {add}",
                              f"{self.run!r}; epsilon={epsilon}")  # fmt: skip

    def _parameters(self) -> None:
        """Delta moves with each parameter of each event as it has to."""

        def ask(run: Composition, epsilon: float, direction: str) -> tuple[float, float] | None:
            return self._ask(run, epsilon, direction=direction)

        for one in monotone.comparisons(self.run, self.epsilons, ask):
            self._compare(*one)


def _same(first: tuple[float, float] | None, second: tuple[float, float] | None) -> bool:
    """Overlapping intervals: a question that was asked before may have refined the nodes."""
    if first is None or second is None:
        return first is second
    return not (first[0] > second[1] or second[0] > first[1])


def check(
    run: Composition, epsilons: Sequence[float] = EPSILONS, certified: bool = False
) -> Report:
    """Compare all methods with each other and with what must hold.

    Args:
        run: a composition.
        epsilons: where.
        certified: include the certified answer (slower; needs python-flint).
    """
    return _Checker(run, epsilons, certified).report()


def read(path: str | Path, *, allow_files: bool = False) -> tuple[Composition, tuple[float, ...]]:
    """Read a run from a TOML file: `[[step]]` tables and, if wanted, `epsilons` and `adjacency`.

    A step has `mechanism`, `parameters` (a table), and optionally `count`, `poisson` (a rate) and
    an `adjacency` of its own. A run is data: unless `allow_files`, `mechanism` is a name that is
    known here, not a file to be run.

    Raises:
        DeclarationError: the file cannot be read as one, or names a mechanism file.
    """
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
        steps = content["step"]
        epsilons = tuple(float(e) for e in content.get("epsilons", EPSILONS))
        relation = content.get("adjacency")
        return compose(*(_step(row, relation, allow_files) for row in steps)), epsilons
    except (OSError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, MechcError):
            raise
        raise DeclarationError(
            f"{path}: {error} (expected [[step]] tables with mechanism and parameters)"
        ) from error


def _step(row: dict[str, Any], adjacency: str | None, allow_files: bool) -> tuple[Any, int]:
    name = row["mechanism"]
    if not allow_files and name not in mechc.available():
        raise DeclarationError(
            f"mechanism={name!r} is not one of {', '.join(mechc.available())}; a mechanism file is "
            "Python and runs: allow_files=True (--allow-files) loads the files that a run names"
        )
    values = row.get("parameters", {})
    relation = row.get("adjacency", adjacency)
    kept = under(mechc.load(name), row.get("poisson"), relation, values)
    return kept(**values), row.get("count", 1)
