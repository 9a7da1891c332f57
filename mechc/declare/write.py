"""Declarations to text: the opposite of `mechc.declare.text`, checked by reading it again."""

from __future__ import annotations

from typing import Any

from sympy import Basic, Expr
from sympy.printing.str import StrPrinter

from mechc.declare.declaration import Declaration, Shift
from mechc.declare.text import declaration_from_text
from mechc.errors import DeclarationError, MechcError, UnsupportedError
from mechc.protocol import Measure, ParameterInfo


class _Formula(StrPrinter):  # type: ignore[misc]
    """SymPy's own text, with the words of the small language where they differ."""

    def _print_Piecewise(self, expr: Basic) -> str:
        """Nested where()."""
        *first, last = expr.args
        if last.args[1] is not True and str(last.args[1]) != "True":
            raise UnsupportedError("a formula that is not given everywhere")
        text = self._print(last.args[0])
        for value, condition in (pair.args for pair in reversed(first)):
            text = f"where({self._print(condition)}, {self._print(value)}, {text})"
        return str(text)

    def _named(self, expr: Basic) -> str:
        inside = ", ".join(self._print(arg) for arg in expr.args)
        return f"{type(expr).__name__.lower()}({inside})"

    _print_Abs = _print_Max = _print_Min = _print_Heaviside = _named

    def _print_Exp1(self, expr: Basic) -> str:
        return "exp(1)"


def text_of(declaration: Declaration) -> dict[str, Any]:
    """Return the keyword arguments of `declaration_from_text` that give this declaration again.

    Raises:
        UnsupportedError: it holds what the small language does not, such as atoms or sums.
    """
    built = declaration.construction
    plain = built is None or (isinstance(built, Shift) and built.group is None)
    if declaration.claim is not None or not plain:
        raise UnsupportedError(
            f"{declaration.name}: cannot be written as text: its claim is not part of its formulas"
        )
    words: dict[str, Any] = {
        "variable": declaration.variable.name,
        "parameters": [_domain(p.info) for p in declaration.parameters],
        "support": [_text(end) for end in declaration.support],
        "lattice": declaration.measure is Measure.LATTICE,
    }
    if isinstance(built, Shift):
        words["noise"] = _text(built.noise)
    else:
        words |= {"p": _text(declaration.p), "q": _text(declaration.q)}
    why = "its formulas have no text of their own"
    try:
        again = declaration_from_text(declaration.name, **words)
        if again.digest == declaration.digest:
            return words
    except (MechcError, TypeError, ValueError) as error:
        why = str(error)
    raise UnsupportedError(f"{declaration.name}: cannot be written as text: {why}")


def _text(expr: Expr) -> str:
    return str(_Formula().doprint(expr))


def _domain(info: ParameterInfo) -> str:
    """Such as "0 <= q < 1", as `parse_parameter` reads it."""
    kind = "integer " if info.integer else ""
    left = "" if info.lo == -float("inf") else f"{info.lo!r} {'<' if info.lo_open else '<='} "
    right = "" if info.hi == float("inf") else f" {'<' if info.hi_open else '<='} {info.hi!r}"
    if not left and not right:
        raise DeclarationError(f"{info.name}: any number has no text as a domain")
    if not left or not right:
        sign = (">" if info.lo_open else ">=") if left else ("<" if info.hi_open else "<=")
        return f"{kind}{info.name} {sign} {(info.lo if left else info.hi)!r}"
    return f"{kind}{left}{info.name}{right}"
