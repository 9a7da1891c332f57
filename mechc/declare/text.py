"""Text to declarations, for the command line and configuration files, and back.

Input: formulas such as "exp(-abs(x - 1)/b) / (2*b)" in a small language: numbers, names, the
operators + - * / **, comparisons inside where(condition, a, b), and the functions of `FUNCTIONS`.
Output: SymPy expressions with exact numbers. The text is read with `ast` against a whitelist and is
never evaluated; its length, depth and the size of its numbers are bounded, and so is the work of
SymPy on it, which decides signs of constants by raising precision and by cases, and may not come
back.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import CO_GENERATOR
from types import FrameType
from typing import Any, NoReturn

import sympy as sp
from sympy import Basic, Expr, Symbol, oo
from sympy.logic.boolalg import Boolean
from sympy.printing.str import StrPrinter

from mechc.declare.declaration import Declaration, Shift, additive, mechanism
from mechc.errors import DeclarationError, MechcError, UnsupportedError
from mechc.protocol import Measure, ParameterInfo
from mechc.symbolic.functions import shape
from mechc.symbolic.parameters import ParameterSymbol, integer, parameter, positive, real

MAX_LENGTH = 4000  # characters of a formula
MAX_DEPTH = 60  # of expressions inside one another, and comparisons in a row
MAX_DIGITS = 60  # characters of a number, more than the 50 digits that checks are made with
MAX_EXPONENT = 400  # of ten in a number; doubles end at 308
MAX_POWER = 100  # that a formula raises to
MAX_ARGUMENT = 1000  # of functions that grow faster than powers
MAX_CALLS = 2_000_000  # of functions, about two seconds; ordinary formulas take thousands
MAX_BITS = 12_000
"""Numbers that a formula leads to, such as factorial(1000), which has 8530; Python prints 14284."""

_ONE_ARGUMENT = (
    sp.exp, sp.log, sp.sqrt, sp.sign, sp.sin, sp.cos, sp.tan, sp.atan,
    sp.sinh, sp.cosh, sp.tanh, sp.sech, sp.csch, sp.coth, sp.asinh, sp.erf,
    sp.erfc, sp.gamma, sp.loggamma, sp.factorial,
)  # fmt: skip
FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int | None]] = {
    # name: (function, fewest arguments, most arguments or None)
    **{function.__name__: (function, 1, 1) for function in _ONE_ARGUMENT},
    "abs": (sp.Abs, 1, 1),
    "heaviside": (sp.Heaviside, 1, 1),
    "max": (sp.Max, 1, None),
    "min": (sp.Min, 1, None),
    "binomial": (sp.binomial, 2, 2),
    "besseli": (sp.besseli, 2, 2),
    "besselk": (sp.besselk, 2, 2),
    "beta": (sp.beta, 2, 2),
    "zeta": (sp.zeta, 1, 2),
    "shape": (shape, 1, 1),
}
_AS_IN_SYMPY = {name.capitalize(): name for name in ("abs", "heaviside", "max", "min")}
CONSTANTS: dict[str, Expr] = {"pi": sp.pi, "oo": oo, "inf": oo}
_GROWING = ("gamma", "loggamma", "factorial", "binomial", "besseli", "besselk", "beta", "zeta")
_CHOOSING = (sp.Piecewise, sp.Max, sp.Min, sp.sign, sp.Heaviside)
_DECIDING = ("max", "min", "sign", "heaviside", "abs")
_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
_RELATIONS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Lt: sp.Lt,
    ast.LtE: sp.Le,
    ast.Gt: sp.Gt,
    ast.GtE: sp.Ge,
    ast.Eq: sp.Eq,
    ast.NotEq: sp.Ne,
}


def parse(text: str, symbols: Mapping[str, Symbol]) -> Expr:
    """Read one formula.

    Args:
        text: the formula.
        symbols: what its names mean; `pi` and `oo` are known too, unless redefined here.

    Returns:
        The expression, its numbers exact: 0.1 is 1/10.

    Raises:
        DeclarationError: anything outside the language, with what was found.
    """
    with _refusing(text):
        value = _Parser(text, symbols).expression(_tree(text), 0)
        if value.has(sp.nan, sp.zoo, sp.I):
            raise DeclarationError(f"cannot read {text!r}: it is not a real number")
    return value


def parse_parameter(text: str) -> ParameterSymbol:
    """Read a parameter and its domain: "sigma", "sigma > 0", "0 <= q <= 1", "integer k >= 1".

    A name alone is positive.

    Raises:
        DeclarationError: anything else.
    """
    whole, body = re.fullmatch(r"\s*(integer\s+)?(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    tree = _tree(body)
    if isinstance(tree, ast.Name):
        return parameter(tree.id, 1, integer=True) if whole else positive(tree.id)
    if isinstance(tree, ast.Compare):
        terms = [tree.left, *tree.comparators]
        names = [t for t in terms if isinstance(t, ast.Name) and t.id not in CONSTANTS]
        if len(names) == 1 and (len(terms) == 2 or terms[1:-1] == names):
            return _bounded(body, tree, names[0], bool(whole))
    raise DeclarationError(f"{text!r} is not a parameter; expected e.g. sigma > 0 or 0 <= q <= 1")


def declaration_from_text(
    name: str,
    *,
    p: str | None = None,
    q: str | None = None,
    noise: str | None = None,
    variable: str = "x",
    parameters: Iterable[str] = (),
    support: tuple[str, str] = ("-oo", "oo"),
    lattice: bool = False,
) -> Declaration:
    """Declare a mechanism in text: either `p` and `q`, or `noise` with a parameter `sensitivity`.

    Args:
        name: name of the mechanism.
        p: density with the record.
        q: density without it.
        noise: noise density, for additive mechanisms.
        variable: name of the output variable.
        parameters: domains as in `parse_parameter`; names that are not listed are positive, in
            order of the alphabet, after those that are.
        support: ends outside which the densities (the noise) are zero.
        lattice: masses on the integers instead of densities.

    Raises:
        DeclarationError: unreadable text, or what `mechanism` and `additive` refuse.
    """
    given = [parse_parameter(text) for text in parameters]
    formulas = [f for f in (p, q, noise, *support) if f is not None]
    known = {variable, *CONSTANTS, *(s.name for s in given)}
    unlisted = sorted(set().union(*(_names(f) for f in formulas)) - known)
    given += [positive(n) for n in unlisted]
    if noise is not None and "sensitivity" not in {s.name for s in given}:
        given.append(parameter("sensitivity", 1, integer=True, default=1, typical=(1, 5))
                     if lattice else positive("sensitivity", default=1))  # fmt: skip
    x = integer(variable) if lattice else real(variable)
    symbols = {variable: x, **{s.name: s for s in given}}
    ends = (parse(support[0], symbols), parse(support[1], symbols))
    if noise is not None and p is None and q is None:
        return additive(
            name, noise=parse(noise, symbols), variable=x, sensitivity=symbols["sensitivity"],
            parameters=given, support=ends, lattice=lattice,
        )  # fmt: skip
    if noise is not None or p is None or q is None:
        raise DeclarationError(f"{name}: expected p and q, or noise alone")
    return mechanism(
        name, variable=x, p=parse(p, symbols), q=parse(q, symbols), parameters=given,
        support=ends, lattice=lattice,
    )  # fmt: skip


class OutOfFuelError(BaseException):
    """The calls are used up; no `except Exception` on the way out may swallow it."""


@contextmanager
def limited(calls: int) -> Iterator[None]:
    """Run the body with at most so many calls in this thread, a running profiler suspended.

    They are counted by the interpreter's profiling hook: the same text always gets the same answer.
    """
    left = calls

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        if event == "call":
            left -= 1
            # a generator may be running because it is being closed, where errors get lost
            if left < 0 and not frame.f_code.co_flags & CO_GENERATOR:
                left = calls
                raise OutOfFuelError

    before: Any = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        written_in_c = before is not None and not callable(before)
        sys.setprofile(None if written_in_c else before)
        if written_in_c:  # cProfile, which cannot be set from here
            before.enable()


@contextmanager
def _refusing(text: str) -> Iterator[None]:
    """Turn whatever SymPy does with a formula, endless work included, into our refusal."""
    try:
        with limited(MAX_CALLS):
            yield
    except DeclarationError:
        raise
    except OutOfFuelError:
        raise DeclarationError(
            f"cannot read {_shortened(text)!r}: it takes more than {MAX_CALLS} steps to simplify"
        ) from None
    except (ArithmeticError, AttributeError, LookupError, NotImplementedError, RecursionError,
            TypeError, ValueError) as error:  # fmt: skip
        raise DeclarationError(f"cannot read {_shortened(text)!r}: {error}") from error


class _Parser:
    """Walks a syntax tree; every node type that is not listed here is refused."""

    def __init__(self, text: str, symbols: Mapping[str, Symbol]) -> None:
        self.text = text
        self.names: dict[str, Any] = {**CONSTANTS, **symbols}

    def expression(self, node: ast.AST, depth: int) -> Expr:
        """The node as a number-valued expression."""
        value = self._visit(node, depth)
        if not isinstance(value, Expr):
            self._refuse(node, "is not a number; conditions belong inside where(condition, a, b)")
        return value

    def condition(self, node: ast.AST, depth: int) -> Boolean:
        """The node as a condition."""
        value = self._visit(node, depth)
        if not isinstance(value, Boolean) or isinstance(value, Symbol):
            self._refuse(node, "is not a condition")
        return value

    def _visit(self, node: ast.AST, depth: int) -> Basic:
        if depth > MAX_DEPTH:
            self._refuse(node, f"is nested more than {MAX_DEPTH} deep")
        if isinstance(node, ast.Constant):
            return self._number(node)
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.BinOp):
            left, right = (
                self.expression(node.left, depth + 1),
                self.expression(node.right, depth + 1),
            )
            return self._power(node, left, right) if isinstance(node.op, ast.Pow) else self._apply(
                node, node.op, left, right)  # fmt: skip
        if isinstance(node, ast.UnaryOp):
            return self._unary(node, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, (ast.Compare, ast.BoolOp)):
            return self._logic(node, depth)
        self._refuse(node, "is not allowed in a formula")

    def _apply(self, node: ast.AST, op: ast.AST, left: Expr, right: Expr) -> Expr:
        operator = _OPERATORS.get(type(op))
        if operator is None:
            hint = "; write ** for powers" if isinstance(op, ast.BitXor) else ""
            self._refuse(node, f"uses an operator other than + - * / **{hint}")
        value: Expr = operator(left, right)
        if _bits(value.as_coeff_Mul()[0]) > MAX_BITS:
            self._refuse(node, f"leads to a number of more than {MAX_BITS} bits")
        return value

    def _power(self, node: ast.AST, base: Expr, exponent: Expr) -> Expr:
        # 9**9**9 must not be computed
        if exponent.is_number and not abs(exponent) <= MAX_POWER:
            self._refuse(node, f"has an exponent beyond {MAX_POWER}")
        largest = max(map(_bits, base.atoms(sp.Rational)), default=0)
        if exponent.is_number and not abs(exponent) * largest <= MAX_BITS:
            self._refuse(node, f"leads to a number of more than {MAX_BITS} bits")
        return base**exponent

    def _unary(self, node: ast.UnaryOp, depth: int) -> Basic:
        if isinstance(node.op, ast.Not):
            return sp.Not(self.condition(node.operand, depth + 1))
        value = self.expression(node.operand, depth + 1)
        if isinstance(node.op, ast.USub):
            return -value
        if isinstance(node.op, ast.UAdd):
            return value
        self._refuse(node, "uses an operator that is not allowed")

    def _number(self, node: ast.Constant) -> Expr:
        if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
            self._refuse(node, "is not a number")
        digits = (ast.get_source_segment(self.text, node) or "").replace("_", "")
        if len(digits) > MAX_DIGITS or not math.isfinite(node.value):
            self._refuse(node, f"is not a number of at most {MAX_DIGITS} characters")
        mantissa, _, exponent = digits.lower().partition("e")
        if isinstance(node.value, int):
            return sp.Integer(node.value)
        if exponent and abs(int(exponent)) > MAX_EXPONENT:
            self._refuse(node, f"has an exponent beyond {MAX_EXPONENT}")
        return sp.Rational(mantissa) * sp.Integer(10) ** int(exponent or 0)

    def _name(self, node: ast.Name) -> Basic:
        if node.id not in self.names:
            known = ", ".join(sorted(self.names))
            self._refuse(node, f"is unknown; known here are {known}")
        value: Basic = self.names[node.id]
        return value

    def _call(self, node: ast.Call, depth: int) -> Basic:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        name = _AS_IN_SYMPY.get(name, name)
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            self._refuse(node, "has keyword or starred arguments")
        if name == "where" and len(node.args) == 3:
            condition = self.condition(node.args[0], depth + 1)
            a, b = (self.expression(arg, depth + 1) for arg in node.args[1:])
            return sp.Piecewise((a, condition), (b, True))
        if name not in FUNCTIONS:
            self._refuse(node, f"is not a function of {', '.join(sorted([*FUNCTIONS, 'where']))}")
        function, fewest, most = FUNCTIONS[name]
        if len(node.args) < fewest or (most is not None and len(node.args) > most):
            self._refuse(node, "has the wrong number of arguments")
        args = [self.expression(arg, depth + 1) for arg in node.args]
        if name in _GROWING and any(a.is_number and not abs(a) <= MAX_ARGUMENT for a in args):
            self._refuse(node, f"has an argument beyond {MAX_ARGUMENT}")
        if name in _GROWING and any(a.has(*_CHOOSING) for a in args):
            self._refuse(node, "chooses its argument; choose between its values instead")
        if name in _DECIDING:
            self._decidable(node, *args)
        value: Basic = function(*args)
        return value

    def _decidable(self, node: ast.AST, *terms: Expr) -> None:
        """Refuse to compare constants such as 1 and erf(24): SymPy would never see them differ."""
        constants = [t for t in terms if t.is_number and not t.is_infinite]
        if (len(constants) > 1 or len(terms) == 1) and not all(t.is_Rational for t in constants):
            self._refuse(node, "compares constants that are not rational")

    def _logic(self, node: ast.Compare | ast.BoolOp, depth: int) -> Basic:
        if isinstance(node, ast.BoolOp):
            parts = [self.condition(value, depth + 1) for value in node.values]
            return sp.And(*parts) if isinstance(node.op, ast.And) else sp.Or(*parts)
        if len(node.ops) > MAX_DEPTH:  # each of which SymPy tries to decide
            self._refuse(node, f"compares more than {MAX_DEPTH} times in a row")
        terms = [self.expression(t, depth + 1) for t in (node.left, *node.comparators)]
        if any(type(op) not in _RELATIONS for op in node.ops):
            self._refuse(node, "uses a comparison other than < <= > >= == !=")
        self._decidable(node, *terms)
        pairs = zip(node.ops, terms[:-1], terms[1:], strict=True)
        return sp.And(*(_RELATIONS[type(op)](a, b) for op, a, b in pairs))

    def _refuse(self, node: ast.AST, why: str) -> NoReturn:
        part = ast.get_source_segment(self.text, node) or self.text
        raise DeclarationError(f"cannot read {_shortened(part)!r}: it {why}")


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _bits(value: Basic) -> int:
    """Length of a rational number, 0 for anything else."""
    if not isinstance(value, sp.Rational):
        return 0
    return int(max(int(value.p).bit_length(), int(value.q).bit_length()))


def _tree(text: str) -> ast.expr:
    """The syntax tree of a formula."""
    if not isinstance(text, str):
        raise DeclarationError(f"{text!r} is not text")
    if len(text) > MAX_LENGTH:
        raise DeclarationError(
            f"the formula has {len(text)} characters, at most {MAX_LENGTH} are read"
        )
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        hint = "; write Abs(x) for |x|" * ("|" in text)
        raise DeclarationError(f"cannot read {_shortened(text)!r}: {error.msg}{hint}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise DeclarationError(f"cannot read the formula: {error}") from error


def _names(text: str) -> set[str]:
    """The names in a formula that are not called."""
    nodes = list(ast.walk(_tree(text)))
    called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    return {n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called}


def _bounded(text: str, tree: ast.Compare, name: ast.Name, whole: bool) -> ParameterSymbol:
    """A parameter between the numbers of a comparison."""
    ends = [(-math.inf, False), (math.inf, False)]
    terms = [tree.left, *tree.comparators]
    for op, *sides in zip(tree.ops, terms[:-1], terms[1:], strict=True):
        if isinstance(op, (ast.Gt, ast.GtE)):
            sides.reverse()
        elif not isinstance(op, (ast.Lt, ast.LtE)):
            raise DeclarationError(f"{text!r}: only <, <=, >, >= bound a parameter")
        at = sides.index(name)
        with _refusing(text):
            end = float(_Parser(text.strip(), {}).expression(sides[1 - at], 0))
        ends[1 - at] = end, isinstance(op, (ast.Lt, ast.Gt))
    (lo, lo_open), (hi, hi_open) = ends
    return parameter(name.id, lo, hi, lo_open=lo_open, hi_open=hi_open, integer=whole)


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
    """Return the words of `declaration_from_text` for a declaration, refused where it has none."""
    built = declaration.construction
    plain = built is None or (isinstance(built, Shift) and built.group is None)
    if declaration.claim is not None or not plain:
        raise UnsupportedError(
            f"{declaration.name}: cannot be written as text: its claim is not part of its formulas"
        )
    words: dict[str, Any] = {
        "variable": declaration.variable.name,
        "parameters": [_inequality(p.info) for p in declaration.parameters],
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


def _inequality(info: ParameterInfo) -> str:
    """Such as "0.0 <= q < 1.0", as `parse_parameter` reads it."""
    kind = "integer " if info.integer else ""
    left, right = ("<" if is_open else "<=" for is_open in (info.lo_open, info.hi_open))
    return f"{kind}{info.lo!r} {left} {info.name} {right} {info.hi!r}"
