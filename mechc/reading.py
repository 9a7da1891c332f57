"""What a mechanism file says, as exact expressions in plain symbols, or an error that says why not.

Input: numbers and SymPy expressions in parameter symbols. Output: expressions without floats, in
which every symbol is the declared variable or a declared parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sympy import Basic, Expr, Float, I, Rational, S, Sum, Symbol, nan, sympify, zoo
from sympy.core.function import AppliedUndef

from mechc.errors import DeclarationError
from mechc.parameters import Parameter, ParameterSymbol

Masses = tuple[tuple[Expr, Expr, Expr], ...]


class Reader:
    """Turns what a file says into exact SymPy expressions in plain symbols."""

    def __init__(self, name: str, variable: Symbol, parameters: tuple[Parameter, ...]) -> None:
        """Read for the mechanism `name`, in `variable` and `parameters`."""
        self.name = name
        self.variable = variable
        self.plain: dict[Basic, Symbol] = {ParameterSymbol(p): p.symbol for p in parameters}
        self.symbols = {p.symbol for p in parameters}

    def expression(self, label: str, value: Any) -> Expr:
        """`value` in the variable and the parameters."""
        return self._read(label, value, self.symbols | {self.variable})

    def constant(self, label: str, value: Any) -> Expr:
        """`value` in the parameters alone."""
        return self._read(label, value, self.symbols)

    def atoms(self, atoms: Sequence[tuple[Any, Any, Any]]) -> Masses:
        """Point masses; every row must have a place and two masses."""
        for row in atoms:
            if not isinstance(row, (tuple, list)) or len(row) != 3:
                raise DeclarationError(f"{self.name}: atom {row!r} is not (x, mass_p, mass_q)")
        return tuple(
            (self.constant("atoms", x), self.constant("atoms", p), self.constant("atoms", q))
            for x, p, q in atoms
        )

    def _read(self, label: str, value: Any, allowed: set[Symbol]) -> Expr:
        where = f"{self.name}: {label}"
        if isinstance(value, (str, bool)) or value is None:
            raise DeclarationError(f"{where}={value!r} is not an expression")
        try:
            read = sympify(value, strict=True).xreplace(self.plain)
        except (TypeError, ValueError, AttributeError) as error:
            raise DeclarationError(f"{where}={value!r} is not an expression") from error
        if not isinstance(read, Expr):
            raise DeclarationError(f"{where}={value!r} is not an expression")
        read = _with_named_indices(read.xreplace({f: exact(f) for f in read.atoms(Float)}))
        if read.has(nan, zoo, I):
            raise DeclarationError(f"{where}={read} is not a real number or expression")
        unknown = {str(u) for u in read.atoms(AppliedUndef)}
        unknown |= {_described(s, allowed) for s in read.free_symbols - allowed}
        if unknown:
            raise DeclarationError(
                f"{where} uses {', '.join(sorted(unknown))}; known here are "
                f"{', '.join(sorted(map(str, allowed))) or 'no symbols'}"
            )
        return read


def _with_named_indices(expr: Expr) -> Expr:
    """Give every index of summation a name of its own, equal in every process.

    A `Dummy` is numbered by the process that made it, which no digest may depend on.
    """
    taken = {s.name for s in expr.free_symbols}

    def renamed(total: Sum) -> Sum:
        inner = len(total.function.atoms(Sum))
        names = {}
        for i, limit in enumerate(total.limits):
            name = f"k_{inner + i}"
            while name in taken:
                name += "_"
            names[limit[0]] = Symbol(name, integer=True)
        return total.xreplace(names)

    return expr.replace(lambda e: isinstance(e, Sum), renamed)


def exact(number: Float) -> Expr:
    """The rational number that a float literal was written as, e.g. 0.1 -> 1/10."""
    return Rational(repr(float(number))) if number.is_finite else S(number)


def _described(symbol: Symbol, allowed: set[Symbol]) -> str:
    """An unknown symbol in words: most often a second symbol of a known name."""
    if str(symbol) in {str(s) for s in allowed}:
        return f"another symbol named {symbol} (made by a different call)"
    return str(symbol)
