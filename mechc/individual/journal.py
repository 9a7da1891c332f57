"""The journal: the steps as they were given, as long as they fit a memory limit.

A ledger cannot be refined after the fact; the journal can be replayed into a finer one for the
people whose bounds are too wide. Large populations outgrow it, and then the width reached with the
first grid is what there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechc.individual.account import Update
from mechc.individual.ledger import Ledger

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class Journal:
    """Recorded steps.

    Attributes:
        complete: whether every step is still there.
    """

    def __init__(self, people: int, limit: int) -> None:
        """Start empty.

        Args:
            people: population size.
            limit: bytes the journal may take before it gives up.
        """
        self._people, self._limit, self._left = people, limit, limit
        self._steps: list[tuple[Rows | None, NDArray[Any], int]] = []
        self.complete = limit > 0

    def __len__(self) -> int:
        """Number of recorded steps, without their repetitions."""
        return len(self._steps)

    def add(self, update: Update, count: int) -> None:
        """Record a step that a ledger has accepted.

        Args:
            update: parameter values, dense or (indices, values).
            count: repetitions.
        """
        if not self.complete:
            return
        where = None
        if isinstance(update, tuple):
            where, update = np.array(update[0], np.int64), update[1]
        values = np.array(update, np.float64)
        self._left -= values.nbytes + (0 if where is None else where.nbytes)
        self._steps.append((where, values, count))
        if self._left < 0:
            self.close()

    def take_back(self, people: Rows, untouched: float) -> None:
        """Undo the last step for some people; it must have been a dense one.

        Args:
            people: indices.
            untouched: the value that stands for "not touched".
        """
        if self.complete:
            self._steps[-1][1][people] = untouched

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the steps as arrays for a state file; none once it has given up."""
        if not self.complete:
            return {}
        sparse = [where for where, _, _ in self._steps if where is not None]
        rows = [(count, values.size, where is not None) for where, values, count in self._steps]
        return {
            "journal": np.array(rows, np.int64).reshape(-1, 3),
            "journal_people": np.concatenate([np.empty(0, np.int64), *sparse]),
            "journal_values": np.concatenate([np.empty(0), *(v for _, v, _ in self._steps)]),
        }

    def read(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `arrays` returned; gives up if that was nothing, or too much."""
        self.close()
        if "journal" not in arrays or self._limit == 0:
            return
        self._left, self.complete = self._limit, True
        people, values = arrays["journal_people"], arrays["journal_values"]
        for count, size, sparse in arrays["journal"].tolist():
            part, values = values[:size], values[size:]
            where, people = (people[:size], people[size:]) if sparse else (None, people)
            self.add(part if where is None else (where, part), count)

    def close(self) -> None:
        """Give up: free the memory and say so from now on."""
        self._steps, self.complete = [], False

    def gather(self, rows: Rows, untouched: float) -> tuple[Floats, Rows]:
        """Return all steps of some people: parameters, shape (steps, len(rows)), and counts.

        Args:
            rows: which people.
            untouched: the value that stands for "not touched".
        """
        position = np.full(self._people, -1)
        position[rows] = np.arange(rows.size)
        out = np.full((len(self._steps), rows.size), untouched)
        for line, (where, values, _) in zip(out, self._steps, strict=True):
            if where is None:
                line[:] = values[rows]
            else:
                keep = position[where] >= 0
                line[position[where[keep]]] = values[keep]
        return out, np.array([count for _, _, count in self._steps], np.int64)

    def replay(self, ledger: Ledger, rows: Rows, name: str, untouched: float) -> None:
        """Record all steps of some people in another ledger.

        Args:
            ledger: an empty ledger for len(rows) people.
            rows: which people, in the order of the ledger.
            name: as for `Ledger.add`.
            untouched: as for `Ledger.add`.
        """
        position = np.full(self._people, -1)
        position[rows] = np.arange(rows.size)
        for where, values, count in self._steps:
            if where is None:
                ledger.add(name, values[rows], untouched, count)
            else:
                keep = position[where] >= 0
                ledger.add(name, (position[where[keep]], values[keep]), untouched, count)
