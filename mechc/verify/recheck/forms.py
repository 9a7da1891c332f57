"""Whether an array function of a kernel is its scalar one, by their texts.

Both are followed at random residues of a prime, where arithmetic is exact and nothing is too small
to count. Whatever else a value depends on (a comparison and both sides that it chooses between, any
function) gives a residue that only the same residues give again. Two texts agree at such a point if
one is the other with its sums and products regrouped, and else with a probability of about 1e-18:
no window is too narrow, for no comparison is decided. No element leaves anything to the next: what
is bound before a loop is not bound again in it.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from operator import add, mul, sub
from typing import Any

PRIME = 2**61 - 1  # modulus in which two formulas are compared
Names = dict[str, int]
EXACT: dict[type, Callable[[int, int], int]] = {
    ast.Add: add, ast.Sub: sub, ast.Mult: mul, ast.Div: lambda a, b: a * pow(b, -1, PRIME),
}  # fmt: skip
BRANCH = r"(el)?if branch == (?P<n>\d+):\s+loss_inverse_(?P=n)_many\(ells, theta, out\)\s+"
SELECTED = rf"({BRANCH})*(else:\s+)?out\[:\] = math\.nan"


def is_selection(function: ast.FunctionDef) -> bool:
    """Whether `loss_inverse_many` does no more than call the array function of the branch."""
    documented = ast.get_docstring(function) is not None
    body = "\n".join(ast.unparse(node) for node in function.body[documented:])
    return re.fullmatch(SELECTED, body) is not None


def is_same(array: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef]) -> bool:
    """Whether each element of out is the scalar function of that of outputs or losses."""
    try:
        xs, thetas, out = (a.arg for a in array.args.args)
        here = _Point(ast.unparse(array), functions, xs, out)  # so that no text knows its own point
        x, theta = here.drawn("x"), here.drawn("theta")
        found, _ = here.follow(array.body, {xs: x, thetas: theta, out: here.drawn("out")})
        return found[out] == here.called(array.name.removesuffix("_many"), [x, theta])
    except (KeyError, TypeError, ArithmeticError, ValueError):  # a statement that no form has
        return False


class _Point:
    """Random residues for names, comparisons and functions that are not followed."""

    def __init__(
        self, seed: str, functions: Mapping[str, ast.FunctionDef], xs: str, out: str
    ) -> None:
        self._seed, self._functions, self._xs, self._out = seed, functions, xs, out

    def called(self, name: str, given: Sequence[int]) -> int:
        """What a function answers."""
        function = self._functions.get(name)
        names = [a.arg for a in function.args.args] if function else []
        if (
            not function
            or names == ["theta"]
            or any(isinstance(node, (ast.For, ast.While)) for node in ast.walk(function))
        ):
            return self.drawn(name, *given)
        _, value = self.follow(function.body, dict(zip(names, given, strict=True)))
        return self.drawn(name, *given) if value is None else value

    def drawn(self, *key: object) -> int:
        """The residue that belongs to these words and residues."""
        text = "|".join(map(str, (self._seed, *key)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big") % PRIME

    def follow(self, body: Sequence[ast.stmt], names: Names) -> tuple[Names, int | None]:
        """Names after some statements, and what they return."""
        for number, node in enumerate(body):
            if isinstance(node, ast.Return) and node.value is not None:
                return names, self.value(node.value, names)
            if isinstance(node, ast.Assign):
                self._assign(node, names)
            elif isinstance(node, ast.For):  # over the elements, all of which are x
                bound = [n.id for part in node.body for n in ast.walk(part)
                         if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]  # fmt: skip
                loop = f"for i in range({self._xs}.size)", ast.unparse(node).partition(":")[0]
                if not {"i", *names}.isdisjoint(bound) or node.orelse or loop[0] != loop[1]:
                    raise ValueError("an element depends on those before it")
                names, _ = self.follow(node.body, {**names, "i": self.drawn("i")})
                del names["i"]
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

    def _chosen(self, test: int, first: int | None, second: int | None) -> int:
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
            if isinstance(one, ast.Name):
                if one.id in ("i", self._xs, self._out):
                    raise ValueError(f"{one.id} is bound again")
                names[one.id] = value
            elif ast.unparse(one) == f"{self._out}[{'i' if 'i' in names else ':'}]":
                names[self._out] = value
                names.pop(self._xs, None)  # who calls may write where it reads
            else:
                raise ValueError("another element")

    def value(self, node: ast.expr, names: Names) -> int:
        """The number of an expression."""
        if isinstance(node, ast.Name):
            return names[node.id]
        if isinstance(node, ast.Constant) and not isinstance(node.value, bool):
            top, bottom = Fraction(node.value).as_integer_ratio()  # type: ignore[arg-type]
            return top * pow(bottom, -1, PRIME) % PRIME
        if isinstance(node, ast.Constant | ast.Attribute):
            return self.drawn(ast.unparse(node))
        if isinstance(node, ast.Call):
            return self.called(ast.unparse(node.func), [self.value(a, names) for a in node.args])
        if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "i" in names:
            return self.value(node.value, names)  # an element
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in (self._xs, self._out):
            raise ValueError("another element")
        parts: list[Any] = [self.value(p, names) if isinstance(p, ast.expr) else type(p).__name__
                 for p in ast.iter_child_nodes(node) if not isinstance(p, ast.Load)]  # fmt: skip
        if isinstance(node, ast.BinOp) and (exact := EXACT.get(type(node.op))):
            return int(exact(parts[0], parts[2]) % PRIME)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return int(-parts[1] % PRIME)
        return self.drawn(type(node).__name__, *parts)
