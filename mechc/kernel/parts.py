"""The parts of an emitted kernel before they are text: functions, tables, helpers, checks.

`lower` fills a `Module`, `emit` writes it. Blocks inside are in printable form (see `passes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mechc.kernel.ir import Block, Expr


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function of one variable and the parameters.

    Attributes:
        name: its name in the module.
        variable: the name of its first argument; "" for a function of the parameters alone.
        doc: one line for the reader of the emitted text.
        body: what it computes.
        array: whether a `_many` form is emitted too.
        complex: whether argument and value are complex.
    """

    name: str
    variable: str
    doc: str
    body: Block
    array: bool = False
    complex: bool = False


@dataclass(frozen=True, slots=True)
class Root:
    """A helper: where `residual` turns from negative to positive between lo and hi."""

    name: str
    doc: str
    residual: Block
    lo: Block
    hi: Block


@dataclass(frozen=True, slots=True)
class Series:
    """A helper: the sum of `term` over all integers n, from 0 outwards."""

    name: str
    doc: str
    term: Block


@dataclass(frozen=True, slots=True)
class Inverse:
    """x as a function of the loss on one branch; without a body it is found by bracketing.

    Attributes:
        index: the branch index of the protocol.
        doc: one line for the reader.
        rising: whether the loss increases in x.
        body: closed form in the variable `ell`, or None.
        lo: left end of the branch, for bracketing.
        hi: right end.
    """

    index: int
    doc: str
    rising: bool
    body: Block | None
    lo: Block
    hi: Block


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table: a comment and its values."""

    doc: str
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A function of the parameters that returns rows of numbers, by parameter case.

    Attributes:
        name: its name in the module: "branches", "atoms", "strip" or "lattice".
        doc: one line for the reader.
        columns: how many numbers a row has.
        cases: guard and rows of each parameter case; the last guard is None.
    """

    name: str
    doc: str
    columns: int
    cases: tuple[tuple[Expr | None, tuple[Row, ...]], ...]


@dataclass(frozen=True, slots=True)
class Check:
    """Reference values for the self-check: `function(argument, theta)` should be `value`."""

    function: str
    argument: float
    theta: tuple[float, ...]
    value: float


@dataclass(frozen=True)
class Module:
    """Everything that an emitted kernel contains, before it is text."""

    name: str
    about: str
    refs: tuple[str, ...]
    claim: dict[str, Any]
    parameters: tuple[tuple[Any, ...], ...]
    names: tuple[str, ...]
    measure: str
    symmetric: bool
    capabilities: dict[str, str]
    branches: tuple[str, ...]
    formulas: tuple[str, ...]
    helpers: tuple[Root | Series, ...]
    functions: tuple[Function, ...]
    inverses: tuple[Inverse, ...]
    tables: tuple[Table, ...]
    checks: tuple[Check, ...] = ()
