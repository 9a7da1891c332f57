"""The functions of a kernel text, run as plain Python that reports its comparisons."""

from __future__ import annotations

import ast
import builtins
import hashlib
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeGuard

import numpy as np

from mechc.verify.recheck import forms

VALUES = ("log_p", "log_q", "loss")
TAILS = ("cdf_p", "sf_p", "cdf_q", "sf_q")
WORK = 1_000_000  # comparisons made by the search
_ARRAY = partial(np.array, dtype=float)
AS_NUMPY: dict[type, Any] = {list: _ARRAY, tuple: _ARRAY, float: np.float64, complex: np.complex128}


def sha256(text: str) -> str:
    """The digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    def answer(*arguments: Any) -> Any:
        try:
            return np.float64(function(*map(float, arguments)))
        except OverflowError:
            return np.float64(math.inf)
        except ValueError:
            return np.float64(math.nan)

    return answer


def words(*lines: str) -> list[str]:
    """The words of some lines."""
    return " ".join(lines).split()


def literal(node: ast.expr) -> Any:
    """A constant that is written out."""
    if isinstance(node, ast.Attribute):
        return {"math.inf": math.inf, "math.nan": math.nan}[ast.unparse(node)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -literal(node.operand)
    if isinstance(node, ast.Tuple):
        return tuple(map(literal, node.elts))
    if isinstance(node, ast.Dict):
        return {literal(k): literal(v) for k, v in zip(node.keys, node.values, strict=True) if k}
    return ast.literal_eval(node)


_NUMPY = words(
    "isinf isnan fabs exp log log1p expm1 sqrt sin cos tan hypot sinh cosh tanh floor ceil copysign"
) + words("pow=power asin=arcsin acos=arccos atan=arctan atan2=arctan2 asinh=arcsinh",
           "acosh=arccosh atanh=arctanh")  # fmt: skip
_MATH = SimpleNamespace(
    **{name: np.float64(getattr(math, name)) for name in ("inf", "nan", "pi")},
    **{word.partition("=")[0]: getattr(np, word.rpartition("=")[2]) for word in _NUMPY},
    **{name: _quiet(getattr(math, name)) for name in ("erf", "erfc", "gamma", "lgamma")},
)
_NODES = tuple(
    getattr(ast, name)
    for name in words(
        "Assign AugAssign Return If For While Break Continue Expr BinOp UnaryOp BoolOp Compare",
        "IfExp Call Name Attribute Subscript Slice Tuple List Constant operator unaryop boolop",
        "cmpop expr_context arguments arg",
    )
)
CODING = re.compile(r"[ \t\f]*#.*?coding[:=]")  # what Python looks for in the first two lines
_NP = {name: getattr(np, name) for name in words("array concatenate empty float64 int64 unique")}
_FIELDS = {"real", "imag", "size", "shape", "view", *_NP, *vars(_MATH)}
_TAKEN = {"math", "np", "numba", "sys", *dir(builtins)}
OF_THETA = (
    "branches", "breakpoints", "atoms", "weights", "strip", "lattice", "log_infinite_mass",
)  # fmt: skip
STATED = words("""
    PROTOCOL NAME MEASURE SYMMETRIC PARAMETERS BRANCHES CAPABILITIES CLAIM REFS ABOUT
""")
"""Constants that certificates repeat."""
_TABLE = "float64[:, ::1](float64[::1])"
TYPES = {
    "x": "float64(float64, float64[::1])", "z": "complex128(complex128, float64[::1])",
    **dict.fromkeys(("xs", "ells"), "void(float64[::1], float64[::1], float64[::1])"),
    "branch": "void(int64, float64[::1], float64[::1], float64[::1])",
    "log_infinite_mass": "float64(float64[::1])", "branches": _TABLE, "atoms": _TABLE,
    "weights": _TABLE, **dict.fromkeys(("strip", "lattice"), "float64[::1](float64[::1])"),
}  # fmt: skip
"""Types of functions by their first argument, or by name where that is theta; or one number."""
OF_LAW = words("""
    weighed outputs nodes summed log_masses loss_cdf_p loss_sf_p loss_cdf_q loss_sf_q loss_masses
    log_delta delta cgf_derivatives cumulants edgeworth_terms
""")
"""The law of one step, by functions that kernels have in common; all of them, or none."""
OF_MEASURE = {"nodes", "add_branch"}
"""Functions of which kernels of another measure have another."""
SHARED = words("""
    009c3a16086e 01ab7b86fda9 0292a17634f5 0387d8b7c396 0b534cd1e425 188c6b133977 1ff4af44c1f3
    29fe1e21e33f 2ae07b2b3e16 2caf507a6570 2d23bf7935e8 2e894d853454 306bda02a5f5 3129b94dae1e
    32e916793d0a 34345bb83b74 37a6bef126a9 39382ceee54e 3ee1650ce99f 40fceda3b8f4 4161a526a43d
    5583ceeed8ad 568191a72724 6019d119040a 64fc0230d2fd 67666e908364 676e000f8efc 6dadf7442018
    743d56f13567 745694c6d1d0 77406fdfc90f 795911c133d8 7c957ff1e1a0 7df470f12b60 7e5375eab738
    83416e01d425 87536afec35a 8a4e51b740e8 8c42bba3b310 8cd8609a16a2 903b0e725ed3 94c530e0fdd5
    9817c3a33e3e 9b68c6f3f7ef a4cd1bddad0f ab0b6c8aa66c af3fa010067d b20abced6aaf b452891b5630
    b658cd5aaf53 b755178a7f7a bc9802fa1b15 c1cd74830b23 c4ac7b0a378c ca20b1fc1ff8 ca67eb943bc7
    cbb3482a6fc0 ce0002b29300 ce0160c1e84d d356ab1af090 d441e8a1386f d6e6cb81dad0 ddd0dfea8dfc
    e370b215514d e7b7a4d34156 ec7cc2ab3f12 ef83e739eecd fc6f7424ab3f fd4ee4d46163 ff2fb116a79f
    ff62c792f8fa
""")
"""Digests of the functions that kernels share, as mechc ships them."""

FRAME = ("Compiled", "compiled", "statements")
"""What is the same, letter by letter, in all kernels; "statements" are all others."""


class Kernel:
    """The functions of a kernel text, run as plain Python that reports its comparisons.

    Attributes:
        about: the docstring.
        digest: of all but the imports, as `DIGEST` should state it.
        fingerprints: digests of the functions, by name.
        constants: every number in the text of the functions.
        functions: their text, by name.
        marks: the numbers of the comparisons in each function that has any.
        outcomes: the comparisons that the last call made, each with its outcome.
        work: comparisons made so far.
    """

    def __init__(self, text: str) -> None:
        """Read a text; nothing in it is run but functions of numbers, when they are called.

        Raises:
            ValueError: it holds something else.
        """
        tree = ast.parse(text)
        if any(CODING.match(line) for line in text.split("\n", 2)[:2]):
            raise ValueError("Python may read it in another encoding")
        self.about, self.digest = ast.get_docstring(tree, clean=False) or "", _digest(text)
        self._named: dict[str, Any] = {}
        self.functions: dict[str, ast.FunctionDef] = {}
        self._types: dict[str, str] = {}
        frame: dict[str, str] = {}
        rest: list[ast.stmt] = []
        for node in tree.body[bool(self.about) :]:
            if _is_constant(node):
                self._named[ast.unparse(node.targets[0])] = literal(node.value)
            elif (name := getattr(node, "name", "")) in (*FRAME[:2], *OF_LAW):
                if name in frame:
                    raise ValueError(f"{name} is defined twice")
                frame[name] = ast.unparse(node)
            elif isinstance(node, ast.FunctionDef) and node.name != "self_check":
                if node.name in self.functions or node.name in _TAKEN:
                    raise ValueError(f"{node.name} is defined twice")
                self.functions[node.name] = _plain(node)
                types = "".join(map(ast.unparse, node.decorator_list))
                self._types[node.name] = re.sub(r"(, (plain|inline)=True)+\)$", ")", types)
            else:
                rest.append(node)
        if rest:
            frame["statements"] = ast.unparse(ast.Module(rest, []))
        frame |= {name: _numberless(node, self._types[name])
                  for name, node in self.functions.items()}  # fmt: skip
        for name in OF_MEASURE & frame.keys():
            frame[name] += f" {self._named.get('MEASURE')}"
        self.fingerprints = {name: sha256(of)[:12] for name, of in frame.items()}
        marks = _Marks()
        body: list[ast.stmt] = [marks.visited(node) for node in self.functions.values()]
        self.constants, self.marks = sorted(marks.constants), marks.found
        self.outcomes: set[tuple[int, bool]] = set()
        self.work, self._limit, self._known = 0, 0, dict[Any, Any]()
        self._space: dict[str, Any] = {
            "__builtins__": {}, "math": _MATH, "max": max, "min": min, "abs": abs, "int": int,
            "float": np.float64, "complex": lambda a, b=0.0: np.complex128(complex(a, b)),
            "np": SimpleNamespace(**_NP), "range": _counted,
            "_seen": self._see,
        }  # fmt: skip
        module = ast.fix_missing_locations(ast.Module(body, []))
        exec(compile(module, "kernel", "exec"), self._space)
        for name, node in self.functions.items():
            if [a.arg for a in node.args.args] == ["theta"]:
                self._space[name] = self._remembered(name, self._space[name])

    def __getitem__(self, name: str) -> Any:
        """A constant of the text."""
        return self._named[name]

    def __contains__(self, name: str) -> bool:
        """Whether there is such a function."""
        return name in self.fingerprints

    def offers(self, name: str) -> bool:
        """Whether a closed form is stated."""
        stated = bool(str(self["CAPABILITIES"].get(name, "")).startswith("closed"))
        return stated and not (name == "cdf" and self["MEASURE"] == "finite")

    def admits(self, theta: Sequence[float]) -> bool:
        """Whether a vector is in the domain."""
        rows = self["PARAMETERS"]
        return len(rows) == len(theta) and all(
            math.isfinite(v)
            and (lo < v or (lo == v and not left))
            and (v < hi or (v == hi and not right))
            and not (whole and v % 1)
            for v, (_, lo, hi, left, right, whole, *_) in zip(theta, rows, strict=True)
        )

    def __call__(self, name: str, *arguments: Any) -> Any:
        """What a function answers, nan where it fails."""
        self.outcomes, self._limit = set(), self.work + WORK // 10
        typed = [AS_NUMPY[type(a)](a) if type(a) in AS_NUMPY else a for a in arguments]
        try:
            return self._space[name](*typed)
        except (ArithmeticError, TypeError, IndexError):
            return math.nan

    def many(self, name: str, xs: Sequence[float], theta: Any, *branch: int) -> Any:
        """What an array function writes."""
        out = np.full(len(xs), 0.123)
        self(name, *branch, list(xs), theta, out)
        return out

    def oddities(self) -> list[str]:
        """What is unlike any kernel, seen without running it."""
        law = OF_LAW * any(name in self for name in OF_LAW)
        frame = [name for name in (*FRAME, *law) if self.fingerprints.get(name) not in SHARED]
        problems = [f"{name} is not the one that mechc ships" for name in frame]
        for name, node in self.functions.items():
            shared = name.startswith(("solve_", "series_", "breakpoints"))
            first, *more = [a.arg for a in node.args.args]
            shared |= "theta" not in (first, *more)
            usual = "log_infinite_mass" if first == "theta" else "x"
            types = TYPES.get(name if first == "theta" else first, TYPES[usual])
            if not shared and self._types[name] != f"compiled('{types}')":
                problems.append(f"{name} is declared to be of other types")
            if shared and self.fingerprints[name] not in SHARED:
                problems.append(f"{name} is not the function that mechc ships under this name")
            same = forms.is_selection(node) if name == "loss_inverse_many" else (
                not name.endswith("_many") or forms.is_same(node, self.functions))  # fmt: skip
            if not same:
                problems.append(f"{name} is not the scalar function written for arrays")
        needed = [*VALUES, *(f"{v}_many" for v in VALUES), "loss_inverse_many", *OF_THETA]
        needed += ("cgf",) * self.offers("cgf") + TAILS * self.offers("cdf")
        return problems + [f"there is no {name}" for name in needed if name not in self]

    def _see(self, mark: int, outcome: Any) -> Any:
        self.outcomes.add((mark, bool(outcome)))
        self.work += 1
        if self.work > self._limit:
            raise ArithmeticError("too long")
        return outcome

    def _remembered(self, name: str, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A function of the parameters alone, asked once for each."""

        def answer(theta: Any) -> Any:
            key = name, theta.tobytes()
            if key not in self._known:
                outer, self.outcomes = self.outcomes, set()
                try:
                    self._known[key] = run(theta), self.outcomes
                finally:
                    self.outcomes = outer
            value, outcomes = self._known[key]
            self.outcomes |= outcomes
            return value.copy() if isinstance(value, np.ndarray) else value

        return answer


def _digest(text: str) -> str:
    """What `DIGEST` should be: of the text without its imports and its seal."""
    text = text.rpartition("# sha256 of the text above: ")[0]
    head, found, rest = text.partition("\n\nimport math\n")
    constants, parted, body = rest.partition("\n\n\n")
    _, _, constants = constants.partition('\nDIGEST = "')
    whole = "\n".join((head, constants.partition("\n")[2], body.rstrip("\n")))
    return sha256(whole)[:16] if found and parted else ""


def _is_constant(node: ast.stmt) -> TypeGuard[ast.Assign]:
    """Whether a statement sets one of the constants of a kernel."""
    known = [[name] for name in (*STATED, "DIGEST", "CHECKS")]
    return isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] in known


def _counted(*ends: int) -> range:
    if len(found := range(*ends)) > WORK:
        raise ArithmeticError("too long")
    return found


def _plain(node: ast.FunctionDef) -> ast.FunctionDef:
    """A function without decorator, annotations and docstring, of arithmetic alone."""
    made = ast.parse(f"def {node.name}(): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    documented = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
    made.args.args, made.body = [ast.arg(a.arg) for a in node.args.args], node.body[documented:]
    a, notes = node.args, [*(a.annotation for a in node.args.args), node.returns]
    fixed = a.posonlyargs or a.kwonlyargs or a.vararg or a.kwarg or a.defaults
    if fixed or {ast.unparse(n) for n in notes if n} - {"float", "int", "complex"}:
        raise ValueError(f"{node.name} has other arguments than any function of a kernel")
    for part in ast.walk(made):
        fine = part is made or isinstance(part, _NODES)
        if isinstance(part, ast.Attribute):
            fine = part.attr in _FIELDS
        elif isinstance(part, ast.Name):
            fine = part.id == "_" or not part.id.startswith("_")
        elif isinstance(part, ast.Constant):
            fine = isinstance(part.value, (int, float))
        elif isinstance(part, ast.Call):
            fine = not part.keywords
        if not fine:
            raise ValueError(f"{node.name} does what no kernel does: {ast.dump(part)[:60]}")
    return made


class _Marks(ast.NodeTransformer):
    """Makes comparisons, loops and choices report their outcomes, and collects numbers."""

    def __init__(self) -> None:
        self.count, self.constants, self.found = 0, set[float](), dict[str, range]()

    def visited(self, node: ast.FunctionDef) -> ast.stmt:
        """A copy of a function that reports."""
        before = self.count
        copy = ast.parse(ast.unparse(ast.fix_missing_locations(node))).body[0]
        marked: ast.stmt = self.visit(copy)
        if self.count > before:
            self.found[node.name] = range(before + 1, self.count + 1)
        return marked

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Numbers are places to look at."""
        if isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            self.constants.add(abs(float(node.value)))
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`a < b` becomes `_seen(number, a < b)`."""
        self.generic_visit(node)
        return self._seen(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        """Loops count as work."""
        self.generic_visit(node)
        node.test = self._seen(node.test)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`max(a, b)` becomes `a if _seen(number, a >= b) else b`."""
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in ("max", "min") or len(node.args) != 2:
            return node
        a, b = node.args
        order: ast.cmpop = ast.GtE() if name == "max" else ast.LtE()
        return ast.IfExp(self._seen(ast.Compare(a, [order], [b])), a, b)

    def _seen(self, node: ast.expr) -> ast.Call:
        self.count += 1
        return ast.Call(ast.Name("_seen", ast.Load()), [ast.Constant(self.count), node], [])


def _numberless(node: ast.FunctionDef, types: str) -> str:
    """A function and its types, numbered names without their numbers."""
    numbered = r"\b(sum|((one|term|tail)_of_)?series)_\d+\b"
    return types + re.sub(numbered, r"\1", ast.unparse(node))
