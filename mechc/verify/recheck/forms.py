"""Whether an array function of a kernel is its scalar one, by their texts.

Both are followed at random complex numbers, with arithmetic and elementary functions as they are.
Whatever else a value depends on (a comparison and both sides that it chooses between, any other
function) gives a number that only the same numbers give again. Two texts agree at such a point if
one is the other with its sums and products regrouped, and else with probability 0: no window is too
narrow, for no comparison is decided.
"""

from __future__ import annotations

import ast
import cmath
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence

POINTS, AGREED = 6, 1e-9  # tried, for digits cancel at some; relative
Names = dict[str, complex]
ELEMENTARY: dict[str, Callable[..., complex]] = {
    f"math.{n}": getattr(cmath, n) for n in ("exp", "log", "sqrt", "sin", "cos", "tan")
}
BRANCH = r"(el)?if branch == (?P<n>\d+):\s+loss_inverse_(?P=n)_many\(ells, theta, out\)\s+"
SELECTED = rf"({BRANCH})*(else:\s+)?for i in range\(ells\.size\):\s+out\[i\] = math\.nan"


def is_selection(function: ast.FunctionDef) -> bool:
    """Whether `loss_inverse_many` does no more than call the array function of the branch."""
    documented = ast.get_docstring(function) is not None
    body = "\n".join(ast.unparse(node) for node in function.body[documented:])
    return re.fullmatch(SELECTED, body) is not None


def is_same(array: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef]) -> bool:
    """Whether each element of out is the scalar function of that of the array.

    Args:
        array: a function of an array of outputs or losses, theta and out.
        functions: all of the kernel by name, with the scalar one.
    """
    try:
        return any(_agree(array, _Point(n, functions)) for n in range(POINTS))
    except (KeyError, TypeError, ArithmeticError, ValueError):  # a statement that no form has
        return False


def _agree(array: ast.FunctionDef, here: _Point) -> bool:
    x, theta = here.drawn("x"), here.drawn("theta")
    xs, thetas, out = (a.arg for a in array.args.args)
    found = here.follow(array.body, {xs: x, thetas: theta, out: 0j})[0][out]
    value = here.called(array.name.removesuffix("_many"), [x, theta])
    return cmath.isfinite(value) and abs(found - value) <= AGREED * abs(value)


class _Point:
    """Random numbers for names, comparisons and functions that are not followed."""

    def __init__(self, number: int, functions: Mapping[str, ast.FunctionDef]) -> None:
        self._number, self._functions = number, functions

    def called(self, name: str, given: Sequence[complex]) -> complex:
        """What a function answers."""
        if name in ELEMENTARY:
            return ELEMENTARY[name](*given)
        if name not in self._functions or any(
            isinstance(node, (ast.For, ast.While)) for node in ast.walk(self._functions[name])
        ):
            return self.drawn(name, *given)
        function = self._functions[name]
        names = [a.arg for a in function.args.args]
        _, value = self.follow(function.body, dict(zip(names, given, strict=True)))
        return self.drawn(name, *given) if value is None else value

    def drawn(self, *key: object) -> complex:
        """The number that belongs to these words and numbers."""
        text = "|".join(f"{k:.7e}" if isinstance(k, complex) else str(k) for k in key)
        seed = hashlib.sha256(f"{self._number}|{text}".encode()).digest()
        first, second = (int.from_bytes(seed[i : i + 7], "big") / 2.0**56 for i in (0, 8))
        return complex(0.2 + first, second - 0.5)

    def follow(self, body: Sequence[ast.stmt], names: Names) -> tuple[Names, complex | None]:
        """Names after some statements, and what they return."""
        for number, node in enumerate(body):
            if isinstance(node, ast.Return) and node.value is not None:
                return names, self.value(node.value, names)
            if isinstance(node, ast.Assign):
                self._assign(node, names)
            elif isinstance(node, ast.For):  # over the elements, all of which are x
                names, _ = self.follow(node.body, names)
            elif isinstance(node, ast.If):
                test, rest = self.value(node.test, names), body[number + 1 :]
                (a, yes), (b, no) = (
                    self.follow(side, dict(names)) for side in (node.body, node.orelse)
                )
                if yes is not None or no is not None:
                    yes = self.follow(rest, a)[1] if yes is None else yes
                    no = self.follow(rest, b)[1] if no is None else no
                    return names, self._chosen(test, yes, no)
                names = {k: self._chosen(test, a.get(k), b.get(k)) for k in {**a, **b}}
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                first, theta, out = map(ast.unparse, node.value.args)  # of another array function
                name = ast.unparse(node.value.func).removesuffix("_many")
                names[out] = self.called(name, [names[first], names[theta]])
            elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                raise ValueError(type(node).__name__)
        return names, None

    def _chosen(self, test: complex, first: complex | None, second: complex | None) -> complex:
        if first is not None and first == second:
            return first
        return self.drawn("if", test, first, second)

    def _assign(self, node: ast.Assign, names: Names) -> None:
        (target,) = node.targets
        several = isinstance(target, ast.Tuple)
        values = node.value.elts if several else [node.value]  # type: ignore[attr-defined]
        targets = target.elts if several else [target]  # type: ignore[attr-defined]
        found = [self.value(value, names) for value in values]
        for one, value in zip(targets, found, strict=True):
            name = one.value if isinstance(one, ast.Subscript) else one
            names[name.id] = value  # type: ignore[union-attr]

    def value(self, node: ast.expr, names: Names) -> complex:
        """The number of an expression."""
        match node:
            case ast.Name():
                return names[node.id]
            case ast.Constant(value=bool()):
                return self.drawn(node.value)
            case ast.Constant(value=int() | float()):
                return complex(node.value)  # type: ignore[arg-type]
            case ast.UnaryOp(op=ast.USub()):
                return -self.value(node.operand, names)
            case ast.BinOp(op=ast.Add()):
                return self.value(node.left, names) + self.value(node.right, names)
            case ast.BinOp(op=ast.Sub()):
                return self.value(node.left, names) - self.value(node.right, names)
            case ast.BinOp(op=ast.Mult()):
                return self.value(node.left, names) * self.value(node.right, names)
            case ast.BinOp(op=ast.Div()):
                return self.value(node.left, names) / self.value(node.right, names)
            case ast.BinOp(op=ast.Pow()):
                return self.value(node.left, names) ** self.value(node.right, names)
            case ast.Subscript(value=ast.Name(id=of), slice=ast.Name(id="i")):
                return names[of]  # an element
            case ast.Call():
                return self.called(
                    ast.unparse(node.func), [self.value(a, names) for a in node.args]
                )
            case ast.Attribute():
                return self.drawn(ast.unparse(node))
        parts = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.Load)]
        return self.drawn(
            type(node).__name__,
            *(self.value(p, names) if isinstance(p, ast.expr) else type(p).__name__ for p in parts),
        )
