"""KernelIR: scalar expressions, and blocks of assignments and choices around them.

Input: `lower` builds these nodes from SymPy. Output: `printer` and `emit` turn them into text.
Invariants: nodes are immutable and compare by structure; every `Add` and `Mul` has at least two
arguments; rational constants are exact until they are printed; nothing here knows SymPy.
Expressions have one type, float64, except inside `cgf`, where `Var("z")` and all that depends on
it is complex128; conditions (`Compare`, `Logic`) occur only as the first argument of `Select` and
as guards of a `Chain`. A `Module` holds all parts of a kernel; its blocks are in printable form
(see `passes`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar, dataclass_transform

from mechc.protocol import Measure

Node = TypeVar("Node", bound="_Hashed")


class _Hashed:
    """A node that keeps its hash, as trees are asked for those of all their parts."""

    __slots__ = ("_hash",)
    _hash: int


@dataclass_transform(frozen_default=True)
def _node(cls: type[Node]) -> type[Node]:
    """Make a class of immutable nodes."""
    made = dataclass(frozen=True, slots=True)(cls)
    of_fields = made.__hash__

    def kept(self: Node) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", of_fields(self))
            return self._hash

    made.__hash__ = kept  # type: ignore[method-assign, assignment]
    return made


@_node
class Number(_Hashed):
    """An exact rational constant."""

    exact: Fraction

    @property
    def value(self) -> float:
        """The nearest double."""
        return float(self.exact)


@_node
class Constant(_Hashed):
    """An irrational or infinite constant: its name in mathematics and its nearest double."""

    label: str
    value: float


@_node
class Param(_Hashed):
    """A parameter of the mechanism, by the name it has in the emitted text."""

    name: str


@_node
class Var(_Hashed):
    """An argument of the function: the output `x`, the loss `ell`, the complex `z`, an index."""

    name: str


@_node
class Local(_Hashed):
    """A temporary that a `Block` assigns once."""

    name: str


@_node
class Helper(_Hashed):
    """The value of a module function of the parameters alone (a series)."""

    name: str


@_node
class Add(_Hashed):
    """A sum of two or more terms, added from left to right."""

    args: tuple[Expr, ...]


@_node
class Mul(_Hashed):
    """A product of two or more factors, multiplied from left to right."""

    args: tuple[Expr, ...]


@_node
class Neg(_Hashed):
    """The negative of its argument."""

    arg: Expr


@_node
class Div(_Hashed):
    """A quotient."""

    top: Expr
    bottom: Expr


@_node
class Pow(_Hashed):
    """A real power; integer exponents become `IntPow` in the arithmetic pass."""

    base: Expr
    exponent: Expr


@_node
class IntPow(_Hashed):
    """A small positive integer power, computed by multiplication."""

    base: Expr
    exponent: int


@_node
class Call(_Hashed):
    """A function of `math` or of the prelude."""

    name: str
    args: tuple[Expr, ...]


@_node
class Compare(_Hashed):
    """A comparison; `op` is one of < <= > >= == !=."""

    op: str
    left: Expr
    right: Expr


@_node
class Logic(_Hashed):
    """A Boolean combination; `op` is "and", "or" or "not"."""

    op: str
    args: tuple[Expr, ...]


@_node
class Select(_Hashed):
    """`then` where the condition holds, otherwise `other`; only the chosen arm is evaluated."""

    condition: Expr
    then: Expr
    other: Expr


Expr = (
    Number | Constant | Param | Var | Local | Helper | Add | Mul | Neg | Div | Pow | IntPow
    | Call | Compare | Logic | Select
)  # fmt: skip

ZERO, ONE = Number(Fraction(0)), Number(Fraction(1))
INF, NAN = Constant("oo", math.inf), Constant("nan", math.nan)
MINUS_INF = Constant("-oo", -math.inf)


def number(value: int | Fraction) -> Number:
    """The exact constant `value`."""
    return Number(Fraction(value))


def terms_of(expr: Expr) -> tuple[Expr, ...]:
    """What a sum adds up; itself for anything else."""
    return expr.args if isinstance(expr, Add) else (expr,)


def factors_of(expr: Expr) -> tuple[Expr, ...]:
    """What a product multiplies; itself for anything else."""
    return expr.args if isinstance(expr, Mul) else (expr,)


def add(*terms: Expr) -> Expr:
    """A sum, flattened, like terms collected, its rational constant last."""
    flat = [t for term in terms for t in terms_of(term)]
    constant = Fraction(0)
    collected: dict[Expr, Fraction] = {}
    for term in flat:
        if isinstance(term, Number):
            constant += term.exact
        else:
            coefficient, rest = split_number(term)
            collected[rest] = collected.get(rest, Fraction(0)) + coefficient
    parts = [mul(Number(c), rest) for rest, c in collected.items() if c != 0]
    if constant != 0 or not parts:
        parts.append(Number(constant))
    return parts[0] if len(parts) == 1 else Add(tuple(parts))


def split_number(expr: Expr) -> tuple[Fraction, Expr]:
    """The rational coefficient of a term, and the rest of it."""
    if isinstance(expr, Number):
        return expr.exact, ONE
    if isinstance(expr, Mul) and isinstance(expr.args[0], Number):
        rest = expr.args[1:]
        return expr.args[0].exact, rest[0] if len(rest) == 1 else Mul(rest)
    return Fraction(1), expr


def mul(*factors: Expr) -> Expr:
    """A product, flattened, with its rational constants folded and placed first."""
    flat = [f for factor in factors for f in factors_of(factor)]
    constant = Fraction(1)
    for factor in flat:
        if isinstance(factor, Number):
            constant *= factor.exact
    if constant == 0:
        return ZERO
    rest: tuple[Expr, ...] = tuple(f for f in flat if not isinstance(f, Number))
    if constant != 1 or not rest:
        rest = (Number(constant), *rest)
    return rest[0] if len(rest) == 1 else Mul(rest)


def negate(expr: Expr) -> Expr:
    """The negative of `expr`, term by term for a sum, so that like terms meet."""
    if isinstance(expr, Add):
        return Add(tuple(negate(arg) for arg in expr.args))
    return mul(number(-1), expr)


def call(name: str, *args: Expr) -> Call:
    """`name(*args)`."""
    return Call(name, args)


_OPERANDS: dict[type, tuple[str, ...]] = {
    Neg: ("arg",), IntPow: ("base",), Div: ("top", "bottom"), Pow: ("base", "exponent"),
    Compare: ("left", "right"), Select: ("condition", "then", "other"),
}  # fmt: skip
"""The fields that hold the operands of a node, where they are not one tuple."""


def children(expr: Expr) -> tuple[Expr, ...]:
    """The operands of a node, in evaluation order."""
    if isinstance(expr, (Add, Mul, Call, Logic)):
        return expr.args
    return tuple(getattr(expr, name) for name in _OPERANDS.get(type(expr), ()))


def rebuild(expr: Expr, args: tuple[Expr, ...]) -> Expr:
    """The same node with other operands."""
    match expr:
        case Add() | Mul():
            return type(expr)(args)
        case Call(head) | Logic(head):
            return type(expr)(head, args)
        case Compare(op):
            return Compare(op, *args)
        case IntPow(_, exponent):
            return IntPow(args[0], exponent)
        case Neg() | Div() | Pow() | Select():
            return type(expr)(*args)
        case _:
            return expr


def transform(expr: Expr, rule: Callable[[Expr], Expr]) -> Expr:
    """Apply `rule` to every node, operands first, once where it is repeated."""
    done: dict[Expr, Expr] = {}

    def visit(node: Expr) -> Expr:
        found = done.get(node)
        if found is None:
            args = children(node)
            renewed = tuple(map(visit, args))
            found = done[node] = rule(node if renewed == args else rebuild(node, renewed))
        return found

    return visit(expr)


def replaced(expr: Expr, names: Mapping[Expr, Expr]) -> Expr:
    """The expression with other nodes in place of some."""
    return transform(expr, lambda node: names.get(node, node))


def walk(expr: Expr) -> Iterator[Expr]:
    """Every node of the tree, operands first, repeated ones repeatedly."""
    for arg in children(expr):
        yield from walk(arg)
    yield expr


def depends_on(expr: Expr, leaves: frozenset[Expr]) -> bool:
    """Whether one of `leaves` occurs in `expr`."""
    return any(node in leaves for node in walk(expr))


OPERATIONS = (Add, Mul, Neg, Div, Pow, IntPow, Call, Compare)


def count_operations(block: Block) -> int:
    """Arithmetic operations, calls and comparisons written in a block."""
    total = 0
    for expr in expressions(block):
        for node in walk(expr):
            if isinstance(node, (Add, Mul)):
                total += len(node.args) - 1
            elif isinstance(node, OPERATIONS):
                total += 1
    return total


@dataclass(frozen=True, slots=True)
class Block:
    """Assignments in order, then a value, a row of values, or a choice between blocks."""

    lets: tuple[tuple[Local, Expr], ...]
    tail: Expr | Chain


@dataclass(frozen=True, slots=True)
class Chain:
    """if / elif / else: the first arm whose guard holds; the last guard is None."""

    arms: tuple[tuple[Expr | None, Block], ...]


def expressions(block: Block) -> Iterator[Expr]:
    """Every expression of a block and of the blocks below it, guards included."""
    for _, value in block.lets:
        yield value
    if isinstance(block.tail, Chain):
        for guard, arm in block.tail.arms:
            if guard is not None:
                yield guard
            yield from expressions(arm)
    else:
        yield block.tail


def map_block(block: Block, change: Callable[[Expr], Expr]) -> Block:
    """The block with `change` applied to every whole expression in it."""
    lets = tuple((name, change(value)) for name, value in block.lets)
    if isinstance(block.tail, Chain):
        arms = tuple(
            (None if guard is None else change(guard), map_block(arm, change))
            for guard, arm in block.tail.arms
        )
        return Block(lets, Chain(arms))
    return Block(lets, change(block.tail))


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
class Series:
    """A helper: the sum of `term` over all integers n, from 0 outwards, or from lo up to hi."""

    name: str
    doc: str
    term: Block
    ends: tuple[Block, Block] | None = None


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
    """Reference values for the self-check at one output.

    Attributes:
        theta: the parameters.
        x: the output.
        values: log p, log q and the loss there; None where infinite.
        inverse: index of the inverse of the branch, and the output that has this loss rounded.
    """

    theta: tuple[float, ...]
    x: float
    values: tuple[float | None, float | None, float | None]
    inverse: tuple[int, float] | None = None


@dataclass(frozen=True)
class Module:
    """Everything that an emitted kernel contains, before it is text."""

    name: str
    about: str
    refs: tuple[str, ...]
    claim: dict[str, Any]
    parameters: tuple[tuple[Any, ...], ...]
    names: tuple[str, ...]
    measure: Measure
    symmetric: bool
    capabilities: dict[str, str]
    branches: tuple[str, ...]
    formulas: tuple[str, ...]
    helpers: tuple[Series, ...]
    functions: tuple[Function, ...]
    inverses: tuple[Inverse, ...]
    tables: tuple[Table, ...]
    checks: tuple[Check, ...] = ()
