"""Run files: a composition as data, read from TOML."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from mechc.composition.agreement import EPSILONS
from mechc.composition.events import Composition, compose
from mechc.composition.mechanism import available, load
from mechc.composition.operations import under
from mechc.errors import DeclarationError, MechcError


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
    if not allow_files and name not in available():
        raise DeclarationError(
            f"mechanism={name!r} is not one of {', '.join(available())}; a mechanism file is "
            "Python and runs: allow_files=True (--allow-files) loads the files that a run names"
        )
    values = row.get("parameters", {})
    relation = row.get("adjacency", adjacency)
    kept = under(load(name), row.get("poisson"), relation, values)
    return kept(**values), row.get("count", 1)
