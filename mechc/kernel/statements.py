"""The statements that a kernel text may hold: it computes numbers, and does nothing else.

A kernel is Python that is run, and what names, sentences and references its text quotes may come
from anybody. So a text is read before it is run, when it is emitted and when it is loaded: a
docstring, the imports, constants written out, compiled functions of numbers, and word for word the
law of one step and the self-check. Inside compiled functions there are only arithmetic,
comparisons, loops, and calls of `math`, of a few functions of numpy and of one another.
"""

from __future__ import annotations

import ast
import builtins
import functools
import math
import re
import textwrap
from collections.abc import Iterator

from mechc.kernel.law import law_text
from mechc.protocol import Measure

IMPORTS = """\
import math
import sys

import numba
import numpy as np

COMPILE = {"error_model": "numpy", "no_cfunc_wrapper": True,
           "cache": __name__ in sys.modules}  # numba finds machine code by the module's name"""

DECORATOR = '''\
class Compiled:
    """A function of declared types, which numba compiles when it is first needed; a plain one,
    called once a query, runs as Python where Python calls it and nothing overflows."""

    def __init__(self, function, types, plain, inline):
        self.py_func, self.types, self.plain, self.made = function, types, plain, None
        self.options = {"forceinline": True, **COMPILE} if inline else COMPILE
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    @property
    def machine_code(self):
        if self.made is None:
            self.made = numba.njit(self.types, **self.options)(self.py_func)
        return self.made

    @property
    def _numba_type_(self):
        return self.machine_code._numba_type_

    def __call__(self, *arguments):
        if self.plain:
            try:
                with np.errstate(all="ignore"):
                    return self.py_func(*arguments)
            except (ArithmeticError, ValueError):
                pass
        return self.machine_code(*arguments)


def compiled(types, plain=False, inline=False):
    """Declare the types of a function."""
    return lambda function: Compiled(function, types, plain, inline)'''


def jitted(signature: str, text: str, *, plain: bool = False, inline: bool = False) -> str:
    """A function text under its compile decorator."""
    how = ", plain=True" * plain + ", inline=True" * inline
    return f'@compiled("{signature}"{how})\n{text}'


TOLERANCE = 1e-10
"""Far above what the kernels lose (1e-14 where nothing cancels), far below any wrong formula."""

SELF_CHECK = f'''\
def self_check():
    """Return a list of (function, points, largest relative error) against CHECKS."""
    errors = {{}}
    for theta, rows in CHECKS:
        for x, p, q, ell, branch, back in rows:
            values = ("log_p", x, p), ("log_q", x, q), ("loss", x, ell)
            for name, at, value in (*values, (f"loss_inverse_{{branch}}", ell, back)):
                if value is not None:
                    gap = abs(globals()[name](at, np.array(theta)) - value)
                    error = gap / max(abs(value), 1e-300)
                    errors.setdefault(name, []).append(error if error == error else math.inf)
    return [(name, len(found), max(found)) for name, found in errors.items()]


if __name__ == "__main__":
    rows = self_check()
    print(f"{{NAME}} {{DIGEST}}: relative error against values to 50 digits")
    for name, points, error in rows:
        print(f"  {{name:<18}} {{points:>3}} points  {{error:8.1e}}  \
{{'ok' if error <= {TOLERANCE} else 'FAILED'}}")
    raise SystemExit(any(error > {TOLERANCE} for _, _, error in rows))'''

BUILTINS = frozenset({"range", "max", "min", "float", "int", "complex", "abs"})
NUMPY = frozenset({"array", "concatenate", "empty", "float64", "int64", "unique"})
FIELDS = frozenset({"real", "imag", "size", "shape", "view"})
MATH = frozenset(name for name in vars(math) if not name.startswith("_"))
CODING = re.compile(r"[ \t\f]*#.*?coding[:=]")  # what Python looks for in the first two lines
TYPES = re.compile(r"(?:void|boolean|(?:float|int|complex)\d+|[\[\]():, 1])+")  # numba evaluates it
ANNOTATIONS = frozenset({"float", "int", "complex"})
ALLOWED = (
    ast.Assign, ast.AugAssign, ast.Expr, ast.Return, ast.If, ast.For, ast.While, ast.Break,
    ast.Continue, ast.BinOp,
    ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.Name, ast.Attribute,
    ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop, ast.expr_context,
)  # fmt: skip


def refusal(text: str) -> str | None:
    """Why a text is no kernel that may be run; None where it is one."""
    try:
        tree, lines = ast.parse(text), text.split("\n")
        if "\r" in text:
            raise ValueError("a carriage return, where lines are counted in two ways")
        if any(CODING.match(line) for line in lines[:2]):
            raise ValueError("it may be read in another encoding")
        functions = _functions(tree)
        for place, node in enumerate(tree.body):
            decorators = getattr(node, "decorator_list", None)
            begin = decorators[0].lineno if decorators else node.lineno
            if "\n".join(lines[begin - 1 : node.end_lineno]) in _fixed():
                continue
            if not _is_allowed(node, place):
                return f"line {node.lineno} is not a statement of a kernel: {_shown(node)}"
            for part in _strangers(node, functions) if isinstance(node, ast.FunctionDef) else ():
                return f"line {part.lineno} does what no kernel does: {_shown(part)}"
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"it is not Python: {error}"
    return None


@functools.cache
def _fixed() -> frozenset[str]:
    """Statements that are the same, letter by letter, in every kernel."""
    imports, _, compile_ = IMPORTS.partition("\n\nCOMPILE")
    texts = (DECORATOR, *map(law_text, Measure), SELF_CHECK)
    blocks = (block for text in texts for block in text.split("\n\n\n"))
    return frozenset({*filter(None, imports.split("\n")), f"COMPILE{compile_}", *blocks})


def commentary(text: str) -> str:
    """A text as it may stand in a comment or docstring of a kernel: printable, without an end."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain.replace("\\", "/").replace('"', "'").rstrip()


def _functions(tree: ast.Module) -> frozenset[str]:
    """Names of the compiled functions, which may call one another; each is defined once."""
    made = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    known = [node.name for node in made]
    compiled = frozenset(node.name for node in made if _is_compiled(node))
    taken = {*dir(builtins), "math", "np", "numba", "sys", "Compiled", "compiled", "self_check"}
    if len(set(known)) < len(known) or compiled & taken:
        raise ValueError("two functions have one name")
    return compiled


def _is_allowed(node: ast.stmt, place: int) -> bool:
    """Whether a statement may stand at the top of a kernel beside the fixed ones."""
    if place == 0 and isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    if isinstance(node, ast.Assign):
        (*others, target) = node.targets
        named = isinstance(target, ast.Name) and target.id.isupper() and target.id != "COMPILE"
        return named and not others and _is_literal(node.value)
    return _is_compiled(node)


def _is_literal(node: ast.expr) -> bool:
    """Numbers, strings, truths, and tuples and dictionaries of them."""
    if isinstance(node, ast.Tuple):
        return all(map(_is_literal, node.elts))
    if isinstance(node, ast.Dict):
        return all(key is not None and _is_literal(key) for key in node.keys) and all(
            map(_is_literal, node.values)
        )
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_literal(node.operand)
    return isinstance(node, ast.Constant) or ast.unparse(node) in ("math.inf", "math.nan")


def _is_compiled(node: ast.stmt) -> bool:
    """A function of plain arguments under the decorator with the types of numbers."""
    if not isinstance(node, ast.FunctionDef):
        return False
    a = node.args
    plain = not (a.posonlyargs or a.kwonlyargs or a.vararg or a.kwarg or a.defaults)
    notes = [arg.annotation for arg in a.args] + [node.returns]
    for note in notes:
        plain = plain and (note is None or ast.unparse(note) in ANNOTATIONS)
    if len(node.decorator_list) != 1 or getattr(node, "type_params", None):
        return False
    (call,) = node.decorator_list
    types = call.args[0] if isinstance(call, ast.Call) and call.args else None
    if not isinstance(types, ast.Constant) or not TYPES.fullmatch(str(types.value)):
        return False
    ways = ("", ", plain=True", ", inline=True")
    return plain and ast.unparse(call) in {f"compiled({types.value!r}{way})" for way in ways}


def _strangers(function: ast.FunctionDef, functions: frozenset[str]) -> Iterator[ast.expr]:
    """Nodes of a function that no kernel function has."""
    first, *rest = function.body
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    body = rest if documented else function.body
    nodes = [node for statement in body for node in ast.walk(statement)]
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound = stored | {argument.arg for argument in function.args.args}
    called = (functions | BUILTINS) - bound
    known = bound | called | {"math", "np"}
    for node in nodes:
        if isinstance(node, ast.Constant):
            fine = isinstance(node.value, (bool, int, float))
        elif isinstance(node, ast.Name):
            fine = node.id in known
        elif isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            modules = {"math": MATH, "np": NUMPY}
            fine = node.attr in modules.get(owner, FIELDS) and owner not in ("numba", "sys")
        elif isinstance(node, ast.Call):
            named = (
                node.func.id in called
                if isinstance(node.func, ast.Name)
                else (isinstance(node.func, ast.Attribute))
            )
            fine = named and not node.keywords
        else:
            fine = isinstance(node, ALLOWED)
        if not fine:
            yield node if hasattr(node, "lineno") else function  # type: ignore[misc]


def _shown(node: ast.AST) -> str:
    return textwrap.shorten(ast.unparse(node), 60, placeholder=" ...")
