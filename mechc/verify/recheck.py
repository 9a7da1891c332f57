"""A small independent checker: re-verifies a certificate from the emitted file and the JSON alone.

Nothing of the compiler and no ball arithmetic: the declaration is rebuilt from its canonical text
against a whitelist of SymPy names and evaluated with mpmath; the kernel's functions are run as
plain Python, no statement of the file besides them. What it tests:

* the digests of declaration, kernel file and certificate, and that the kernel's parameters are
  those of the declaration;
* that the certificate claims success only if each of its checks does, that none which counts is
  missing or of another kind, that tolerances and enclosures are no wider than any kernel needs, and
  that its largest errors are those of the places it names;
* that what several kernels share (root finders, special functions) is what mechc ships;
* that array functions look at one element at a time and answer as the scalar ones do;
* log densities, loss, inverses, distribution functions, generating function, branches, atoms, mass
  at infinite loss, strip and lattice, by the declaration, at places of the checker's own: at
  typical parameters and far from them, on either side of every comparison in the kernel's text that
  a search reaches, among them all constants in the text;
* the masses of P and Q, by mpmath quadrature or summation.

    python -m mechc.verify.recheck KERNEL.py CERTIFICATE.json [DECLARATION]

DECLARATION is the SHA-256 of the canonical text of a declaration you know, or a file with it:
without it, nothing says which declaration the two files speak of.
"""

from __future__ import annotations

import ast
import cmath
import hashlib
import itertools
import json
import math
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import sympy

DIGITS = 60
NESTED = ("tag ", "density", "lattice", "finite")  # begins another declaration
LOWEST = mpmath.mpf("-1e310")
MOST_TERMS = 1_000_000
PATIENCE = 50  # negligible terms after which a sum ends
SCHEMA = 2
VALUES = ("log_p", "log_q", "loss")
TAILS = ("cdf_p", "sf_p", "cdf_q", "sf_q")
KINDS = {
    **dict.fromkeys((*VALUES, "loss_inverse", "cgf", "cdf", "atoms", "infinite_mass"), "values"),
    **dict.fromkeys(("masses", "lattice", "strip", "reversal", "pieces", "coverage"), "identity"),
    **dict.fromkeys(("branches", "unimodal"), "proof"),
    "emission": "identity",
}
NEEDED = {
    *VALUES,
    "loss_inverse",
    "atoms",
    "infinite_mass",
    "lattice",
    "masses",
    "reversal",
    "strip",
    "emission",
}
BRANCHES = {"branches", "coverage", "pieces"}  # of a pair that is not a few outcomes
LOOSEST = {"values": 1e-13, "identity": 1e-12, "proof": 0.0}  # tolerances by kind
MOST_POINTS = 10**7
SLACK = 4.0  # room for the rounding of recorded errors
MASS = 1e-9
CLOSE, FAR = 1e-11, 1e-9  # relative to the value and its sensitivity: at typical parameters, beyond
INTEGRAL = 1e-10  # relative error of what mpmath integrates here
LONGEST = 2003  # elements of an array: odd, and more than any block
WORK = 1_500_000  # comparisons made by the search
AGAIN = 3  # further places looked at where a comparison was seen from a new side
ENOUGH = 5  # problems, after which no more are looked for
FARTHEST = -700  # log density beyond which nobody looks
SEED = 20240229
RANGE = 8.0  # nats and radians over which 16 nodes integrate to the last digits
NEGLIGIBLE = 50.0  # nats below the largest term
OUTWARD, INWARD = 80, 24  # powers of two, and of four, that panels reach out and in
MOST_PANELS, MOST_SUMMED = 600, 40_000
CANCELLED = 1e-7  # share of its terms below which a sum has lost too many digits
_ROOTS = np.polynomial.legendre.leggauss(16)
_NODES_AT = [mpmath.mpf(float(t)) / 2 + mpmath.mpf("0.5") for t in _ROOTS[0]]
_LOG_WEIGHTS = np.log(_ROOTS[1] / 2)


def recheck(
    kernel_path: str | Path, certificate: str | Path, declaration: str | None = None
) -> list[str]:
    """Return what is wrong; an empty list is success.

    Args:
        kernel_path: the emitted module.
        certificate: the JSON file.
        declaration: digest of the canonical text that is meant, or path of a file that holds it.
    """
    text = Path(kernel_path).read_text("utf-8")
    try:
        content = json.loads(Path(certificate).read_text("utf-8"))
        kernel = Kernel(text)
        problems = _digests(text, content, declaration) + _identity(kernel, content)
        problems += _claims(kernel, content) + kernel.oddities()
        return problems or _compared(kernel, content)
    except (
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        ValueError,
        SyntaxError,
        ArithmeticError,
        RecursionError,
        MemoryError,
    ) as error:
        return [f"not a certificate of a kernel: {type(error).__name__}: {error}"]


def _digests(text: str, content: dict[str, Any], declaration: str | None) -> list[str]:
    problems = []
    if hashlib.sha256(text.encode()).hexdigest() != content["kernel_sha256"]:
        problems.append("the kernel file is not the one that was certified")
    digest = hashlib.sha256(content["canonical"].encode()).hexdigest()
    if digest != content["declaration_digest"]:
        problems.append("the declaration does not have the digest stated")
    if declaration is not None and digest != declaration:
        known = Path(declaration)
        if not known.is_file() or known.read_text("utf-8").strip() != content["canonical"]:
            problems.append("the certificate is for another declaration")
    rest = {k: v for k, v in content.items() if k != "seal"}
    sealed = json.dumps(rest, indent=2, sort_keys=True)
    if hashlib.sha256(sealed.encode()).hexdigest() != content["seal"]:
        problems.append("the certificate has been edited: its seal is broken")
    return problems


def _identity(kernel: Kernel, content: dict[str, Any]) -> list[str]:
    """Whether certificate, kernel and declaration speak of the same thing."""
    measure, *lines = content["canonical"].split("\n")
    own = itertools.takewhile(lambda line: not line.startswith(NESTED), lines)
    domains = [line.replace("inf", "math.inf") for line in own if line.startswith("(")]
    stated = [_literal(ast.parse(line, mode="eval").body) for line in domains]
    versions = {name: str(v) for name, v in content["versions"].items()}
    stamp = f"mechc {versions['mechc']}, sympy {versions['sympy']},"
    expected = {
        "name": content["name"] == kernel["NAME"],
        "measure": measure == kernel["MEASURE"],
        "kernel_digest": content["kernel_digest"] == kernel["DIGEST"] == kernel.digest,
        "parameters": [row[1:6] for row in kernel["PARAMETERS"]] == stated,
        "schema": content["schema"] == SCHEMA,
        "level": content["level"] in ("quick", "full"),
        "versions": stamp in kernel.about
        and all(re.fullmatch(r"[\w.+]+", v) for v in versions.values()),
        "seconds": 0 <= float(content["seconds"]) < 1e6,
    }
    return [
        f"{name}: not that of the kernel and its declaration"
        for name, right in expected.items()
        if not right
    ]


def _claims(kernel: Kernel, content: dict[str, Any]) -> list[str]:
    """Whether each check that is needed is there and says what such a check says."""
    problems, checks = [], {c["name"]: c for c in content["checks"]}
    needed = NEEDED if kernel["MEASURE"] == "finite" else NEEDED | BRANCHES
    needed = needed | {name for name in ("cgf", "cdf") if kernel.offers(name)}
    needed = needed | ({"unimodal"} if kernel["CLAIM"].get("theorem") == "T1" else set())
    problems += [f"{name} has not been checked" for name in sorted(needed - checks.keys())]
    if len(checks) != len(content["checks"]):
        problems.append("a check stands there twice")
    for name, check in checks.items():
        kind, tolerance, error = check["kind"], float(check["tolerance"]), float(check["max_error"])
        if check["failures"] or check["ok"] is not True or not error <= tolerance:
            problems.append(f"{name} failed")
        if kind != KINDS.get(name, kind) or not 0.0 <= tolerance <= LOOSEST[kind]:
            problems.append(
                f"{name}: the tolerance is wider than {LOOSEST[kind]:g} or of another kind"
            )
        if not 0 <= check["points"] <= MOST_POINTS or not error >= 0.0:
            problems.append(f"{name}: {check['points']} points, largest error {error}")
        if not all(isinstance(note, str) and note.isprintable() for note in check["notes"]):
            problems.append(f"{name}: notes that are no text")
        if name in {*VALUES, "cgf", "cdf"} and not (check["points"] and check["where"]):
            problems.append(f"{name}: has not been checked at any place")
        if check["points"] and kind == "values" and not check["where"]:
            problems.append(f"{name}: the place of its largest error is missing")
    vectors = [[float(v) for v in vector] for vector in content["vectors"]]
    thetas = [c["where"]["theta"] for c in checks.values() if "theta" in c["where"]]
    if not vectors or any([float(v) for v in theta] not in vectors for theta in thetas):
        problems.append("a place is at none of the parameter vectors stated")
    if any(not kernel.admits(vector) for vector in vectors):
        problems.append("a parameter vector is outside the domain")
    if content["ok"] is not True:
        problems.append("the verdict is not that of the checks")
    return problems


# the declaration


class Pair:
    """A declaration rebuilt from its canonical text.

    The first lines are the pair itself; a pair for the other direction or for an index that
    follows them has a kernel of its own.
    """

    def __init__(self, canonical: str) -> None:
        """Read the text line by line."""
        self.measure, *lines = canonical.split("\n")
        own = itertools.takewhile(lambda line: not line.startswith(NESTED), lines)
        exprs = [expression(line) for line in own if not line.startswith("(")]
        self.p, self.q, self.lo, self.hi = exprs[:4]
        rest = exprs[4:]
        self.atoms = [tuple(rest[i : i + 3]) for i in range(0, len(rest) // 3 * 3, 3)]
        domains = itertools.takewhile(lambda line: not line.startswith(NESTED), lines)
        self.whole = [line.endswith("True)") for line in domains if line.startswith("(")]

    def density(self, law: str, theta: Any, x: Any) -> Any:
        """Density or mass at x, without atoms."""
        lo, hi = self.ends(theta)
        if self.measure == "finite" or not lo <= x <= hi:
            return mpmath.mpf(0)
        return function(self.p if law == "p" else self.q, theta)(mpmath.mpf(x))

    def ends(self, theta: Any) -> tuple[Any, Any]:
        """Ends of the support."""
        return number(self.lo, theta), number(self.hi, theta)

    def points(self, theta: Any) -> list[tuple[Any, Any, Any]]:
        """Atoms: x, mass under P, mass under Q."""
        rows: dict[Any, list[Any]] = {}
        for atom in self.atoms:
            x, p, q = (number(e, theta) for e in atom)
            known = rows.setdefault(x, [x, mpmath.mpf(0), mpmath.mpf(0)])
            known[1], known[2] = known[1] + p, known[2] + q
        return [(x, p, q) for x, p, q in rows.values()]

    def log_density(self, law: str, theta: Any, x: Any) -> Any:
        """Log density by mpmath; log mass on a finite set."""
        value = self.density(law, theta, x)
        if self.measure == "finite":
            column = 1 if law == "p" else 2
            value = mpmath.fsum(row[column] for row in self.points(theta) if row[0] == x)
        return mpmath.log(value) if value > 0 else -mpmath.inf

    def value(self, name: str, theta: Any, x: Any) -> Any:
        """Log p, log q or the loss at x."""
        if name == "loss":
            return self.log_density("p", theta, x) - self.log_density("q", theta, x)
        return self.log_density(name[-1], theta, x)


def function(expr: Any, theta: Any) -> Any:
    """An expression as a function of x in mpmath, its parameters exact, its sums added up."""
    return _function(expr, tuple(map(mpmath.mpf, theta)), mpmath.mp.prec)


@lru_cache(maxsize=4096)
def _function(expr: Any, theta: tuple[Any, ...], precision: int) -> Any:
    compiled, names, sums = _compiled(expr)
    known = [theta[int(s.name.removeprefix("theta_"))] for s in names]
    known += [_total(node, theta) for node in sums]
    return lambda at: compiled(at, *known)


@lru_cache(maxsize=256)
def _compiled(expr: Any) -> Any:
    sums = sorted(expr.atoms(sympy.Sum), key=str)
    names = sorted((s for s in expr.free_symbols if s.name != "x_"), key=str)
    dummies = {node: sympy.Dummy() for node in sums}
    x = next((s for s in expr.free_symbols if s.name == "x_"), sympy.Symbol("x_"))
    arguments = [x, *names, *dummies.values()]
    compiled = sympy.lambdify(arguments, expr.xreplace(dummies), [{"exp": _exp}, "mpmath"])
    return compiled, names, sums


def _exp(value: Any) -> Any:
    """Zero where not even the logarithm is a double, which mpmath would take ages to tell."""
    return mpmath.exp(value) if value > LOWEST else mpmath.mpf(0)


def number(expr: Any, theta: Any) -> Any:
    """The value of an expression without x."""
    return function(expr, theta)(mpmath.mpf(0))


def _total(node: Any, theta: Any) -> Any:
    """A sum over integers, term by term."""
    index, lo, hi = node.limits[0]
    term = function(node.function.xreplace({index: sympy.Symbol("x_", real=True)}), theta)
    return summed(term, number(lo, theta), number(hi, theta))


def summed(term: Any, first: Any, last: Any) -> Any:
    """Sum over the integers from first to last, from 0 outwards until terms stay negligible."""
    middle = int(min(max(first, 0), last))
    total = mpmath.mpf(0)
    for step, start, end in ((1, middle, last), (-1, middle - 1, first)):
        idle = 0
        for n in range(start, start + step * MOST_TERMS, step):
            if idle > PATIENCE or step * n > step * end:
                break
            here = term(mpmath.mpf(n))
            total += here
            idle = idle + 1 if abs(here) <= mpmath.eps * abs(total) else 0
    return total


_SYMPY = {
    "Add",
    "Mul",
    "Pow",
    "Integer",
    "Rational",
    "Symbol",
    "exp",
    "log",
    "Abs",
    "Max",
    "Min",
    "sign",
    "Piecewise",
    "ExprCondPair",
    "And",
    "Or",
    "Not",
    "StrictLessThan",
    "LessThan",
    "StrictGreaterThan",
    "GreaterThan",
    "Equality",
    "Unequality",
    "Tuple",
    "Sum",
    "gamma",
    "loggamma",
    "erf",
    "erfc",
    "besseli",
    "binomial",
    "factorial",
    "sin",
    "cos",
    "tan",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "sech",
    "csch",
    "coth",
    "asinh",
    "Heaviside",
    "floor",
    "ceiling",
    "Half",
}
_CONSTANTS = {name: getattr(sympy, name) for name in ("pi", "oo", "E", "true", "false")}


def expression(text: str) -> Any:
    """SymPy's `srepr` text as an expression, by a whitelist; nothing is evaluated as Python."""
    return _build(ast.parse(text, mode="eval").body)


def _build(node: ast.AST) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, str, bool)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_build(node.operand)
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SYMPY:
        args = [_build(a) for a in node.args]
        named = {k.arg: _build(k.value) for k in node.keywords if k.arg is not None}
        made: Any = getattr(sympy, node.func.id, None)
        if node.func.id == "ExprCondPair":
            return tuple(args)
        return made(*args, **named)
    if isinstance(node, ast.Tuple):
        return tuple(_build(e) for e in node.elts)
    raise ValueError(f"not a declaration: {ast.dump(node)[:80]}")


# the kernel


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    def answer(*arguments: Any) -> Any:
        try:
            return np.float64(function(*map(float, arguments)))
        except OverflowError:
            return np.float64(math.inf)
        except ValueError:
            return np.float64(math.nan)

    return answer


_MATH = SimpleNamespace(
    inf=np.float64(math.inf),
    nan=np.float64(math.nan),
    pi=np.float64(math.pi),
    isinf=np.isinf,
    isnan=np.isnan,
    fabs=np.fabs,
    exp=np.exp,
    log=np.log,
    log1p=np.log1p,
    expm1=np.expm1,
    sqrt=np.sqrt,
    pow=np.power,
    sin=np.sin,
    cos=np.cos,
    tan=np.tan,
    asin=np.arcsin,
    acos=np.arccos,
    atan=np.arctan,
    atan2=np.arctan2,
    hypot=np.hypot,
    sinh=np.sinh,
    cosh=np.cosh,
    tanh=np.tanh,
    asinh=np.arcsinh,
    acosh=np.arccosh,
    atanh=np.arctanh,
    floor=np.floor,
    ceil=np.ceil,
    erf=_quiet(math.erf),
    erfc=_quiet(math.erfc),
    gamma=_quiet(math.gamma),
    lgamma=_quiet(math.lgamma),
)
_NODES = (
    ast.Assign,
    ast.AugAssign,
    ast.Return,
    ast.If,
    ast.For,
    ast.While,
    ast.Break,
    ast.Expr,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.Call,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Slice,
    ast.Tuple,
    ast.List,
    ast.Constant,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
    ast.arguments,
    ast.arg,
)
_FIELDS = {"real", "imag", "size", "shape", "array", "empty", *vars(_MATH)}
OF_THETA = ("branches", "breakpoints", "atoms", "strip", "lattice", "log_infinite_mass")
IMPORTS = 10  # lines between the docstring and DIGEST

SHARED = frozenset(
    """
    0207b290e757 1e63189f3a1c 22925868fc58 230521ac7554 2e1649acae48 2f51b9233560 318f5a18818c
    3218d73b0d9e 34c1f7ceaa28 373442895803 43e73ef489c3 441f3424de35 5037e109a700 53d2f1d4a384
    597ca9a9bb20 66901849ebb0 688c8b133f1c 704e64ec6f8b 7f72917a3893 86e5b4338b3f 8e2f7faeefd4
    9244bf5b1856 96d0a847a63b 973350af9834 991e4b922ba2 9adaf3fb74ef 9b9079c31b41 9b989e9f12f5
    9d1462e571ee a70ecd2c8f0f b5c35453276c bbc16700270d c01eff54dbe8 cb40e0f12fe1 cc148edfe96f
    d36974fdcd43 d4362aeec3a0 d7b2c96a1b0e dbda9298dd90 dda9b80a8ae9 e4c1e360f3cb ea118cf50f62
    f97aa686e641 fee7b9ab257b
    """.split()  # noqa: SIM905
)
"""Digests of the functions that kernels share, as mechc ships them."""


class Kernel:
    """The functions of a kernel text, run as plain Python that reports its comparisons.

    Attributes:
        about: the docstring.
        digest: of all but the imports, as `DIGEST` should state it.
        fingerprints: digests of the functions, by name.
        constants: every number in the text of the functions.
    """

    def __init__(self, text: str) -> None:
        """Read a text; nothing in it is run but functions of numbers, when they are called.

        Raises:
            ValueError: it holds something else.
        """
        tree = ast.parse(text)
        self.about = ast.get_docstring(tree, clean=False) or ""
        self.digest = _digest(text)
        self._named: dict[str, Any] = {}
        self._functions: dict[str, ast.FunctionDef] = {}
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if node.targets[0].id not in ("COMPILE", "CHECKS"):
                    self._named[node.targets[0].id] = _literal(node.value)
            elif isinstance(node, ast.FunctionDef) and node.name != "self_check":
                if node.name in self._functions or node.name in (
                    "math",
                    "np",
                    "max",
                    "min",
                    "range",
                ):
                    raise ValueError(f"{node.name} is defined twice")
                self._functions[node.name] = _plain(node)
        self.fingerprints = {name: _fingerprint(node) for name, node in self._functions.items()}
        marks = _Marks()
        body: list[ast.stmt] = [marks.visited(node) for node in self._functions.values()]
        self.constants = sorted(marks.constants)
        self.comparing = marks.comparing
        self._seen: set[tuple[int, bool]] = set()
        self._work, self._known = 0, dict[Any, Any]()
        self._space: dict[str, Any] = {
            "__builtins__": {},
            "math": _MATH,
            "np": SimpleNamespace(array=np.array, empty=np.empty),
            "range": _counted,
            "max": max,
            "min": min,
            "abs": abs,
            "float": np.float64,
            "int": int,
            "complex": lambda a, b=0.0: np.complex128(complex(a, b)),
            "_seen": self._see,
        }
        module = ast.fix_missing_locations(ast.Module(body, []))
        exec(compile(module, "kernel", "exec"), self._space)
        for name, node in self._functions.items():
            if [a.arg for a in node.args.args] == ["theta"]:
                self._space[name] = self._remembered(name, self._space[name])

    def __getitem__(self, name: str) -> Any:
        """A constant of the text."""
        return self._named[name]

    def __contains__(self, name: str) -> bool:
        """Whether there is such a function."""
        return name in self._functions

    @property
    def inverses(self) -> list[str]:
        """Names of the inverses of the loss, branch by branch."""
        return [name for name in self._functions if re.fullmatch(r"loss_inverse_\d+", name)]

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
        """What a function answers, nan where it fails; `outcomes` are those of this call."""
        self.outcomes: set[tuple[int, bool]] = set()
        self._seen, before = self.outcomes, self._work
        self._limit = before + WORK // 10
        typed = [np.array(a, dtype=float) if isinstance(a, (list, tuple)) else a for a in arguments]
        typed = [np.float64(a) if isinstance(a, float) else a for a in typed]
        typed = [np.complex128(a) if isinstance(a, complex) else a for a in typed]
        try:
            return self._space[name](*typed)
        except (ArithmeticError, TypeError, IndexError):
            return math.nan

    @property
    def work(self) -> int:
        """Comparisons made so far."""
        return self._work

    def many(self, name: str, xs: Sequence[float], theta: Any, *branch: int) -> Any:
        """What an array function writes."""
        out = np.full(len(xs), 0.123)
        self(name, *branch, list(xs), theta, out)
        return out

    def oddities(self) -> list[str]:
        """What is unlike any kernel, seen without running it."""
        problems = []
        for name, node in self._functions.items():
            arguments = [a.arg for a in node.args.args]
            shared = "theta" not in arguments or name.startswith(
                ("solve_", "series_", "breakpoints")
            )
            if shared and self.fingerprints[name] not in SHARED:
                problems.append(f"{name} is not the function that mechc ships under this name")
            if name.endswith("_many") and not _is_elementwise(node):
                problems.append(f"{name} does more than answer element by element")
        for name in (*VALUES, *(f"{v}_many" for v in VALUES), "loss_inverse_many", *OF_THETA):
            if name not in self._functions:
                problems.append(f"there is no {name}")
        for name in (
            *(("cgf",) if self.offers("cgf") else ()),
            *(TAILS if self.offers("cdf") else ()),
        ):
            if name not in self._functions:
                problems.append(f"there is no {name}")
        return problems

    def _see(self, mark: int, outcome: Any) -> Any:
        self._seen.add((mark, bool(outcome)))
        self._work += 1
        if self._work > self._limit:
            raise ArithmeticError("too long")
        return outcome

    def _remembered(self, name: str, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A function of the parameters alone, asked once for each."""

        def answer(theta: Any) -> Any:
            key = name, theta.tobytes()
            if key not in self._known:
                outer, self._seen = self._seen, set()
                try:
                    self._known[key] = run(theta), self._seen
                finally:
                    self._seen = outer
            value, outcomes = self._known[key]
            self._seen |= outcomes
            return value.copy() if isinstance(value, np.ndarray) else value

        return answer


def _digest(text: str) -> str:
    """What `DIGEST` should be: of the text without its imports and its seal."""
    text = text.rpartition("# sha256 of the text above: ")[0]
    head, found, rest = text.partition("\n\nimport math\n")
    constants, parted, body = rest.partition("\n\n\n")
    _, _, constants = constants.partition('\nDIGEST = "')
    whole = "\n".join((head, constants.partition("\n")[2], body.rstrip("\n")))
    return hashlib.sha256(whole.encode()).hexdigest()[:16] if found and parted else ""


def _counted(*ends: int) -> range:
    if len(found := range(*ends)) > WORK:
        raise ArithmeticError("too long")
    return found


def _literal(node: ast.expr) -> Any:
    """A constant that is written out."""
    if isinstance(node, ast.Attribute):
        return {"math.inf": math.inf, "math.nan": math.nan}[ast.unparse(node)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_literal(node.operand)
    if isinstance(node, ast.Tuple):
        return tuple(map(_literal, node.elts))
    if isinstance(node, ast.Dict):
        return {_literal(k): _literal(v) for k, v in zip(node.keys, node.values, strict=True) if k}
    return ast.literal_eval(node)


def _plain(node: ast.FunctionDef) -> ast.FunctionDef:
    """A function without decorator, annotations and docstring, of arithmetic alone."""
    body = node.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    arguments = [ast.arg(a.arg) for a in node.args.args]
    made = ast.parse(f"def {node.name}(): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.args.args, made.body = arguments, body
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
        self.count, self.constants, self.comparing = 0, set[float](), set[str]()

    def visited(self, node: ast.FunctionDef) -> ast.stmt:
        """A function that reports."""
        before = self.count
        marked: ast.stmt = self.visit(
            ast.parse(ast.unparse(ast.fix_missing_locations(node))).body[0]
        )
        if self.count > before:
            self.comparing.add(node.name)
        return marked

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Numbers are places to look at."""
        if not isinstance(node.value, (bool, str)):
            self.constants.add(abs(float(node.value)))  # type: ignore[arg-type]
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
        if (
            isinstance(node.func, ast.Name)
            and node.func.id in ("max", "min")
            and len(node.args) == 2
        ):
            a, b = node.args
            order: ast.cmpop = ast.GtE() if node.func.id == "max" else ast.LtE()
            return ast.IfExp(self._seen(ast.Compare(a, [order], [b])), a, b)
        return node

    def _seen(self, node: ast.expr) -> ast.Call:
        self.count += 1
        return ast.Call(ast.Name("_seen", ast.Load()), [ast.Constant(self.count), node], [])


def _fingerprint(node: ast.FunctionDef) -> str:
    """Digest of a function, numbered names without their numbers."""
    text = re.sub(r"\b(solve|residual|root|series|term_of_series)_\d+\b", r"\1", ast.unparse(node))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _is_elementwise(node: ast.FunctionDef) -> bool:
    """Whether arrays are read and written at the loop's index only, and the index is nothing else."""  # noqa: E501
    arguments = [a.arg for a in node.args.args]
    xs, out = arguments[-3], arguments[-1]
    loops = [n for n in ast.walk(node) if isinstance(n, ast.For)]
    fine: set[int] = set()
    for loop in loops:
        if ast.unparse(loop.iter) != f"range({xs}.size)" or ast.unparse(loop.target) != "i":
            return False
        fine |= {id(n) for n in (loop.target, *ast.walk(loop.iter))}
    for n in ast.walk(node):
        if isinstance(n, ast.Subscript) and ast.unparse(n) in (f"{xs}[i]", f"{out}[i]"):
            fine |= {id(n.value), id(n.slice)}
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in (xs, out, "i")]
    writes = [
        ast.unparse(n.value)
        for n in ast.walk(node)
        if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)
    ]
    return bool(loops) and all(id(n) in fine for n in names) and set(writes) == {out}


# integrals


class Integrals:
    """Integrals of powers of the two densities at one parameter vector, or sums over integers.

    Gauss-Legendre on panels that are short next to wherever formulas change, halved until the
    exponent moves by little on each. The log densities at nodes are kept for the next question.
    """

    def __init__(self, pair: Pair, theta: Any, ends: Sequence[float]) -> None:
        """Prepare panels around the ends of branches and around marks of the expressions."""
        self.pair, self.theta = pair, theta
        marks = {0.0, *(float(e) for e in ends if math.isfinite(e))}
        for expr in (pair.p, pair.q):
            marks |= {m for m in _marks(expr, theta) if math.isfinite(m)}
        self.marks = sorted(map(mpmath.mpf, marks))
        self.unit = max(
            [
                mpmath.mpf(1e-3),
                *(b - a for a, b in itertools.pairwise(self.marks)),
                *(abs(mpmath.mpf(v)) for v in theta),
            ]
        )
        self._known: dict[Any, Any] = {}

    def log(self, exponent: Callable[[Any, Any], Any], lo: Any, hi: Any) -> complex | None:
        """Log of the integral of exp(exponent(log p, log q)) from lo to hi; None: not settled."""
        lo, hi = mpmath.mpf(lo), mpmath.mpf(hi)
        if self.pair.measure == "lattice":
            return self._sum(exponent, lo, hi)
        done: list[Any] = []
        todo, top = list(self._panels(lo, hi)), -math.inf
        for a, b in todo:
            top = max(top, self._exponents(exponent, a, b)[1])
        while todo and len(done) < MOST_PANELS:
            a, b = todo.pop()
            logs, highest, spread = self._exponents(exponent, a, b)
            top = max(top, highest)
            middle = (a + b) / 2
            if highest < top - NEGLIGIBLE or spread <= RANGE or not a < middle < b:
                done.append(logs)
            else:
                todo += [(a, middle), (middle, b)]
        if todo:
            return None
        return _log_sum(np.concatenate(done) if done else np.array([]))

    def _panels(self, lo: Any, hi: Any) -> Iterator[tuple[Any, Any]]:
        """Panels that grow away from every mark and end."""
        inner = [m for m in self.marks if lo < m < hi]
        edges = [lo, *inner, hi]
        if mpmath.isinf(lo) and mpmath.isinf(hi) and not inner:
            edges = [lo, mpmath.mpf(0), hi]
        for a, b in itertools.pairwise(edges):
            if a == b:
                continue
            finite = mpmath.isfinite(a) and mpmath.isfinite(b)
            ends = [(a, 1), (b, -1)] if finite else [(a, 1) if mpmath.isfinite(a) else (b, -1)]
            reach = (b - a) / 2 if finite else self.unit * mpmath.mpf(2) ** OUTWARD
            for end, side in ends:
                scales = [
                    reach * mpmath.mpf(4) ** -k
                    for k in range(INWARD + (0 if finite else OUTWARD // 2))
                ]
                for far, near in itertools.pairwise([*scales, mpmath.mpf(0)]):
                    yield (end + near, end + far) if side > 0 else (end - far, end - near)

    def _nodes(self, a: Any, b: Any) -> Any:
        if (a, b) not in self._known:
            xs = [a + (b - a) * t for t in _NODES_AT]
            logs = [[float(self.pair.log_density(law, self.theta, x)) for x in xs] for law in "pq"]
            self._known[a, b] = (np.array(logs[0]), np.array(logs[1]), float(mpmath.log(b - a)))
        return self._known[a, b]

    def _exponents(
        self, exponent: Callable[[Any, Any], Any], a: Any, b: Any
    ) -> tuple[Any, float, float]:
        """Terms of the sum as logs, the largest exponent with the length, and how far it moves."""
        p, q, length = self._nodes(a, b)
        logs = exponent(p, q)
        there = logs[np.isfinite(logs.real)]
        if not there.size:
            return there, -math.inf, 0.0
        spread = float(np.ptp(there.real) + np.ptp(there.imag))
        if there.size < logs.size:
            spread = math.inf
        return logs + length + _LOG_WEIGHTS, float(there.real.max()) + length, spread

    def _sum(self, exponent: Callable[[Any, Any], Any], lo: Any, hi: Any) -> complex | None:
        """The same over integers, outwards from the marks."""
        inside = [n for m in self.marks for n in (int(mpmath.nint(m)),) if lo <= n <= hi]
        start = inside[len(inside) // 2] if inside else int(hi if mpmath.isfinite(hi) else lo)
        terms, top = [], -math.inf
        for step, first in ((1, start), (-1, start - 1)):
            idle, n = 0, first
            while lo <= n <= hi and idle <= PATIENCE + max(
                abs(m - start) for m in (*inside, start)
            ):
                if n not in self._known:
                    self._known[n] = tuple(
                        np.array([float(self.pair.log_density(law, self.theta, mpmath.mpf(n)))])
                        for law in "pq"
                    )
                log = exponent(*self._known[n])
                terms.append(log)
                top = max(top, float(log[0].real))
                idle = idle + 1 if not log[0].real > top - NEGLIGIBLE else 0
                n += step
                if len(terms) > MOST_SUMMED:
                    return None
        return _log_sum(np.concatenate(terms) if terms else np.array([]))


def _log_sum(logs: Any) -> complex | None:
    logs = logs[np.isfinite(logs.real)]
    if not logs.size:
        return complex(-math.inf)
    top = float(logs.real.max())
    parts = np.exp(logs - top)
    total = complex(math.fsum(parts.real), math.fsum(parts.imag))
    if abs(total) < CANCELLED * float(np.abs(parts).sum()):
        return None
    return top + cmath.log(total)


def power(z: complex) -> Callable[[Any, Any], Any]:
    """The exponent of p^(1+z) q^-z, where both have mass."""

    def exponent(p: Any, q: Any) -> Any:
        both = np.isfinite(p) & np.isfinite(q)
        p, q = np.where(both, p, 0.0), np.where(both, q, 0.0)
        return np.where(both, (1 + z) * p - z * q, -math.inf)

    return exponent


def density_of(law: str) -> Callable[[Any, Any], Any]:
    """The exponent of one of the densities."""
    return lambda p, q: (p if law == "p" else q) + 0j


# kernel and declaration


def _compared(kernel: Kernel, content: dict[str, Any]) -> list[str]:
    """What the kernel answers against the declaration: first what a query uses."""
    pair = Pair(content["canonical"])
    vectors = [tuple(float(v) for v in vector) for vector in content["vectors"]]
    problems: dict[str, None] = {}
    with np.errstate(all="ignore"), mpmath.workdps(DIGITS):
        problems |= dict.fromkeys(_recorded(kernel, pair, content["checks"]))
        search = Search(kernel, pair, vectors)
        search.run()
        for problem in itertools.chain(
            *(search.at_theta(theta, typical) for theta, typical in search.thetas_chosen),
            *(search.at_output(*place) for place in search.outputs_chosen),
            search.whole(vectors[0]),
            *(search.tail(*place) for place in search.tails_chosen),
            *(search.moment(*place) for place in search.tilts_chosen),
        ):
            problems[problem] = None
            if len(problems) >= ENOUGH:
                break
    return list(problems)


def _recorded(kernel: Kernel, pair: Pair, checks: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Whether recorded places say what the declaration and the kernel say there."""
    for check in checks:
        where, name = check["where"], check["name"]
        if check["kind"] != "values" or not where or name == "atoms":
            continue
        found, now = complex(where["found"]), complex(_again(kernel, name, where))
        if not (abs(now - found) <= 1e-11 * (1 + abs(found)) or now == found):
            yield f"{name} is {now}, and not {found} as the certificate says, at {where}"
        if name == "loss_inverse":
            continue
        if name == "infinite_mass" and cmath.isinf(found):
            continue
        if name in VALUES and cmath.isinf(found):
            truth = pair.value(name, where["theta"], mpmath.mpf(float(where["x"])))
            if truth != found.real:
                yield f"{name} is not {found.real} at the place stated"
            continue
        middle, radius = _ball(where["enclosure"])
        if not radius <= max(1e-10 * abs(middle), 0.0 if name == "cdf" else 1e-12):
            yield f"{name}: the enclosure {where['enclosure']} is wider than any needs"
        share, error = abs(found - middle), float(check["max_error"])
        if not error <= SLACK * share / (abs(middle) or 1) + 1e-16:
            yield f"{name}: the largest error is not {error} at the place stated"
        if name not in VALUES:
            continue
        x, theta = float(where["x"]), where["theta"]
        truth = pair.value(name, theta, mpmath.mpf(x))
        if not mpmath.isfinite(truth):
            continue
        if not abs(truth - middle) <= radius + abs(middle) * 1e-20:
            yield f"{name}: {mpmath.nstr(truth, 20)} is outside {where['enclosure']}"
        if not share / (_scale(pair, name, theta, x, truth) + 0.1) / SLACK <= error + 1e-18:
            yield f"{name}: the largest error is larger than {error} at the place stated"


def _again(kernel: Kernel, name: str, where: dict[str, Any]) -> Any:
    """What the kernel answers at a recorded place."""
    theta = where["theta"]
    if name == "cgf":
        return kernel("cgf", complex(where["z"]), theta)
    if name == "loss_inverse":
        single = f"loss_inverse_{int(where['branch'])}"
        return kernel(single, float(where["loss"]), theta)
    if name == "infinite_mass":
        return kernel("log_infinite_mass", theta)
    return kernel(where.get("function", name), float(where["x"]), theta)


def _scale(pair: Pair, name: str, theta: Any, x: float, truth: Any) -> Any:
    """The size of a value, and how far relative changes of its arguments move it."""
    step, scale = mpmath.mpf(10) ** -12, abs(truth)
    for i in range(-1, len(theta)):
        moved = list(map(mpmath.mpf, theta))
        at = mpmath.mpf(x)
        if i < 0:
            at *= 1 + step
        else:
            moved[i] *= 1 + step
        value = (
            truth
            if (i < 0 and pair.measure != "density") or (i >= 0 and pair.whole[i])
            else pair.value(name, moved, at)
        )
        if mpmath.isfinite(value):
            scale += abs(value - truth) / step
    if name == "loss":
        scale += sum(
            abs(v)
            for law in "pq"
            if mpmath.isfinite(v := pair.log_density(law, theta, mpmath.mpf(x)))
        )
    return scale


class Search:
    """Places at which every comparison of the kernel that can be reached is seen from both sides.

    Attributes:
        thetas_chosen: (parameters, whether they are typical) at which functions of these are held
            against the declaration.
        outputs_chosen: (function, output, parameters, typical), for densities, losses, inverses.
        tails_chosen: the same for distribution functions.
        tilts_chosen: (tilt, parameters, typical) for the generating function.
    """

    def __init__(self, kernel: Kernel, pair: Pair, vectors: list[tuple[float, ...]]) -> None:
        """Prepare a search that begins at the vectors of the certificate."""
        self.kernel, self.pair, self.vectors = kernel, pair, vectors
        self.rng = random.Random(f"{SEED}{kernel.digest}")
        self.seen: set[tuple[int, bool]] = set()
        self.thetas_chosen: list[Any] = []
        self.outputs_chosen: list[Any] = []
        self.tails_chosen: list[Any] = []
        self.tilts_chosen: list[Any] = []
        self._known: dict[Any, Integrals] = {}
        self.pointwise = [f for f in (*VALUES, *TAILS) if f in kernel]

    def run(self) -> None:
        """Look everywhere, as long as the allowance of work lasts."""
        for number, theta in enumerate(self._thetas()):
            typical = theta in self.vectors
            if self.kernel.work > WORK and not typical:
                break
            self._look(theta, typical, number)

    def _thetas(self) -> list[tuple[float, ...]]:
        """The vectors of the certificate; parameters moved far, onto one another, to constants."""
        rows, rng, base = self.kernel["PARAMETERS"], self.rng, self.vectors[0]
        found = [*self.vectors[:3]]
        moved: list[tuple[int, float]] = []
        for i, row in enumerate(rows):
            ends = [(v, s) for v, s in ((row[1], 1), (row[2], -1)) if math.isfinite(v)]
            moved += [(i, v + s * e) for v, s in ends for e in (0.0, 1e-15, 1e-8, 1e-3)]
            moved += [(i, base[i] * 10.0**k) for k in (-6, -4, -3, -2, -1, 1, 2, 3, 4, 6)]
            moved += [(i, v) for j, v in enumerate(base) if j != i]
            near = [c * (1 + s) for c in self.kernel.constants for s in (1e-3, -1e-3)]
            moved += [(i, v) for v in near if row[7][0] / 1e6 <= v <= row[7][1] * 1e6]
        for i, value in moved:
            whole = float(round(value)) if rows[i][5] and math.isfinite(value) else float(value)
            found.append((*base[:i], whole, *base[i + 1 :]))
        for _ in range(30):
            drawn = []
            for _, lo, hi, _, _, whole, _, (low, high) in rows:
                far = 10 ** rng.uniform(-2, 4) if math.isinf(hi) and lo >= 0 else 1.0
                value = min(max(rng.uniform(low, high) * far, lo), hi)
                drawn.append(float(round(value)) if whole else value)
            found.append(tuple(drawn))
        return [theta for theta in dict.fromkeys(found) if self.kernel.admits(theta)]

    def _new(self) -> bool:
        """Whether the last call showed a comparison from a side not seen before."""
        new = not self.kernel.outcomes <= self.seen
        self.seen |= self.kernel.outcomes
        return new

    def _look(self, theta: tuple[float, ...], typical: bool, number: int) -> None:
        kernel, pick = self.kernel, typical and number < 2
        shown = []
        for name in OF_THETA:
            kernel(name, theta)
            shown.append(self._new())
        if any(shown) or pick:
            self.thetas_chosen.append((theta, typical))
        xs, again = self._outputs(theta), dict[str, int]()
        rows = np.asarray(kernel("branches", theta))
        inverses = {name for name in kernel.inverses if name in kernel.comparing}
        for x in xs:
            for name in self.pointwise:
                if name not in kernel.comparing and not pick:
                    continue
                kernel(name, x, theta)
                again[name] = AGAIN if self._new() else again.get(name, 0) - 1
                if again[name] >= 0 and (again[name] == AGAIN or abs(x) < 1e7):
                    chosen = self.outputs_chosen if name in VALUES else self.tails_chosen
                    chosen.append((name, x, theta, typical))
            for lo, hi, kind, *_, index in rows if inverses else ():
                level, name = kernel("loss", x, theta), f"loss_inverse_{int(index)}"
                if abs(kind) == 1 and lo < x < hi and name in inverses and math.isfinite(level):
                    kernel(name, float(level), theta)
                    again[name] = AGAIN if self._new() else again.get(name, 0) - 1
                    if again[name] >= 0:
                        self.outputs_chosen.append(("loss_inverse", x, theta, typical))
        self._arrays(xs, theta, typical)
        near = [x for x in xs if kernel("log_p", x, theta) > FARTHEST]
        own = self.rng.sample(near, min(len(near), 9 if pick else 2))
        names = (*VALUES, "loss_inverse")
        self.outputs_chosen += [(name, x, theta, typical) for x in own for name in names]
        if pick and kernel.offers("cdf"):
            deep = [x for x in near if kernel("log_p", x, theta) < -60.0]
            some = [*own[:2], *deep[:1], *deep[-1:]]
            self.tails_chosen += [(name, x, theta, True) for x in some for name in TAILS]
        if kernel.offers("cgf"):
            for z in self._tilts(theta):
                found = complex(kernel("cgf", z, theta))
                again["cgf"] = AGAIN if self._new() else again.get("cgf", 0) - cmath.isfinite(found)
                if again["cgf"] >= 0 or (pick and number == 0 and self.rng.random() < 0.3):
                    self.tilts_chosen.append((z, theta, typical))

    def _outputs(self, theta: tuple[float, ...]) -> list[float]:
        """Ends of branches, and places at growing distance from them; constants of the text."""
        kernel = self.kernel
        if kernel["MEASURE"] == "finite":
            return [float(row[0]) for row in kernel("atoms", theta)]
        ends = [float(e) for e in np.atleast_1d(kernel("breakpoints", theta)) if math.isfinite(e)]
        unit = max([abs(a - b) for a, b in itertools.pairwise(ends)], default=0.0)
        unit = unit or max(map(abs, theta), default=1.0)
        away = [unit * 2.0**j * self.rng.uniform(0.8, 1.2) for j in range(-24, 25, 3)]
        found = {e + side * a for e in (ends or [0.0]) for a in away for side in (1.0, -1.0)}
        between = [a + (b - a) * f for a, b in itertools.pairwise(ends) for f in (0.02, 0.4, 0.7)]
        marks = [s * c * (1 + e) for c in kernel.constants for s in (1, -1) for e in (1e-3, -1e-3)]
        found |= {*ends, *between, *(m for m in marks if abs(m) < 1e12)}
        lo, hi = map(float, self.pair.ends(theta))
        inside = [x for x in found if lo <= x <= hi]
        if kernel["MEASURE"] == "lattice":
            inside = [float(round(x)) for x in inside if abs(x) < 1e9]
        return sorted(set(inside))

    def _tilts(self, theta: tuple[float, ...]) -> list[complex]:
        """Tilts inside the strip, real and complex, near its ends, and on both sides of constants."""  # noqa: E501
        lo, hi = (float(v) for v in self.kernel("strip", theta))
        low, high = max(lo, -40.0), min(hi, 40.0)
        real = [low + (high - low) * f for f in (1e-3, 0.2, 0.45, 0.8, 0.999)]
        real += [-1.0, 0.0, 1e-7, -1.0 + 1e-7]
        marks = [s * c * 1.001 for c in self.kernel.constants if 1e-3 <= c <= 1e6 for s in (1, -1)]
        real += marks
        found = [complex(r) for r in real]
        heights = [0.3, 3.0, *(abs(m) for m in marks if abs(m) < 50.0)]
        found += [complex(r, h) for r in real[:5] for h in heights]
        return [z for z in found if lo < z.real < hi]

    def _arrays(self, xs: list[float], theta: tuple[float, ...], typical: bool) -> None:
        """Array functions answer as the scalar ones do; where not, the declaration decides."""
        for name in VALUES:
            if self.kernel.comparing.isdisjoint((name, f"{name}_many")) and not typical:
                continue
            single = [self.kernel(name, x, theta) for x in xs]
            several = self.kernel.many(f"{name}_many", xs, theta)
            new = self._new()
            for x, a, b in zip(xs, single, several, strict=True):
                same = a == b or abs(a - b) <= CLOSE / 10 * max(1.0, abs(a)) or (a != a and b != b)
                if new or not same:
                    self.outputs_chosen.append((f"{name}_many", x, theta, typical))
                    new = False

    # what is found at the places

    def at_output(self, name: str, x: float, theta: Any, typical: bool) -> Iterator[str]:
        """Densities, losses and inverses at one output."""
        if name == "loss_inverse":
            yield from self._inverse(x, theta, typical)
            return
        plain, kernel = name.removesuffix("_many"), self.kernel
        many = name != plain
        found = kernel.many(name, [x], theta)[0] if many else kernel(name, x, theta)
        if not self._fits(plain, x, theta, float(found), CLOSE if typical else FAR, typical):
            truth = self.pair.value(plain, theta, mpmath.mpf(x))
            yield f"{name}({x!r}) is {float(found)!r}, not {mpmath.nstr(truth, 17)}, at {theta}"

    def _fits(
        self, name: str, x: float, theta: Any, found: float, enough: float, exact: bool
    ) -> bool:
        truth = self.pair.value(name, theta, mpmath.mpf(x))
        if mpmath.isnan(truth) or not (exact or math.isfinite(found)):
            return True
        logs = [self.pair.log_density(law, theta, mpmath.mpf(x)) for law in "pq"]
        if not exact and (min(logs) < FARTHEST or self._is_degenerate(theta)):
            return True
        if abs(found - truth) <= enough * abs(truth) or found == truth:
            return True
        if mpmath.isfinite(truth) and math.isfinite(found):
            scale = _scale(self.pair, name, theta, x, truth) + (0.1 if name != "loss" else 0.0)
            if abs(found - truth) <= enough * scale:
                return True
        # next to an end that is rounded
        ends = [e for e in self.kernel("breakpoints", theta) if math.isfinite(e)]
        reach = 8 * max(
            math.ulp(v) for v in (x, *(e for e in ends if abs(e - x) <= 1e-12 * abs(x)))
        )
        near = [self.pair.value(name, theta, mpmath.mpf(x) + s * reach) for s in (-1, 1)]
        if any(abs(found - v) <= enough * abs(v) or found == v for v in near):
            return True
        return bool(min(near) < found < max(near))

    def _inverse(self, x: float, theta: Any, typical: bool) -> Iterator[str]:
        """The inverse of the loss at an output is on its branch and has that loss."""
        kernel = self.kernel
        for lo, hi, kind, left, right, index in kernel("branches", theta):
            if abs(kind) != 1 or not lo < x < hi:
                continue
            level = float(kernel("loss", x, theta))
            if not min(left, right) < level < max(left, right) or not math.isfinite(level):
                continue
            several = kernel.many("loss_inverse_many", [level], theta, int(index))[0]
            single = f"loss_inverse_{int(index)}"
            answers = [several, kernel(single, level, theta)] if single in kernel else []
            if not answers and not math.isnan(several):
                yield f"loss_inverse_many answers {several!r} on branch {int(index)}, without inverse"  # noqa: E501
            for found in map(float, answers):
                if math.isnan(found) and not typical:
                    continue
                room = 1e-9 * (abs(found) + min(abs(lo), abs(hi)))
                if math.isinf(found) or not lo - room <= found <= hi + room:
                    fine = False
                else:
                    fine = self._fits("loss", found, theta, level, CLOSE if typical else FAR, True)
                if not fine and not self._critical(level, left, right, found, theta):
                    yield (
                        f"the inverse of the loss {level!r} on branch {int(index)} is {found!r}, "
                        f"at {theta}"
                    )

    def _critical(self, level: float, left: float, right: float, found: float, theta: Any) -> bool:
        """Where inverses may lose digits, and those who ask hold each against the loss itself."""
        reach = min(abs(right - left), 1.0)
        marks = (e for e in (0.0, left, right) if math.isfinite(e))
        if not any(abs(level - e) <= 1e-3 * reach for e in marks):
            return False
        back = float(self.kernel("loss", found, theta))
        return not abs(back - level) <= 1e-12 * (abs(level) + abs(back))

    def _is_degenerate(self, theta: Any) -> bool:
        """Whether branches are so short that rounding of their ends is most of them."""
        ends = [float(e) for e in self.kernel("breakpoints", theta) if math.isfinite(e)]
        return any(b - a <= 1e-6 * (abs(a) + abs(b)) for a, b in itertools.pairwise(ends))

    def at_theta(self, theta: Any, typical: bool) -> Iterator[str]:
        """Branches, breakpoints, atoms and mass at infinite loss at one parameter vector."""
        kernel, pair = self.kernel, self.pair
        if not typical and self._is_degenerate(theta):
            return
        rows = np.asarray(kernel("branches", theta))
        ends = sorted({float(e) for row in rows for e in row[:2]})
        if list(np.asarray(kernel("breakpoints", theta))) != ends:
            yield f"breakpoints are not the ends of branches, at {theta}"
        for row, after in itertools.pairwise(rows):
            if not row[1] <= after[0]:
                yield f"branches overlap or are out of order, at {theta}"
        for row in rows:
            yield from self._branch(row, theta, CLOSE if typical else FAR)
        stated = sorted(
            tuple(row) for row in np.asarray(kernel("atoms", theta)) if max(row[1:]) > -math.inf
        )
        points = sorted((x, p, q) for x, p, q in pair.points(theta) if p > 0 or q > 0)
        if len(stated) != len(points):
            if typical or abs(len(stated) - len(points)) > sum(p + q < 1e-12 for _, p, q in points):
                yield f"there are {len(points)} atoms, not {len(stated)}, at {theta}"
        else:
            for (at, *logs), (x, *masses) in zip(stated, points, strict=True):
                fine = abs(at - x) <= 1e-12 * max(abs(x), 1)
                for log, mass in zip(logs, masses, strict=True):
                    truth = mpmath.log(mass) if mass > 0 else -mpmath.inf
                    fine = fine and (log == truth or abs(log - truth) <= 1e-9 * max(1, abs(truth)))
                if not fine and typical:
                    yield f"the atom at {float(x)} is {(at, *logs)}, at {theta}"
        yield from self._infinite(rows, theta, typical)

    def _branch(self, row: Any, theta: Any, enough: float) -> Iterator[str]:
        """The loss on one branch is as it says."""
        lo, hi, kind, left, right, _ = map(float, row)
        what = f"the branch ({lo}, {hi}) of kind {kind:g}, at {theta}"
        width = hi - lo if math.isfinite(hi - lo) else max(1.0, *map(abs, theta))
        start = lo if math.isfinite(lo) else hi if math.isfinite(hi) else 0.0
        side = 1.0 if math.isfinite(lo) else -1.0
        if math.isfinite(hi - lo):
            xs = [lo + width * f for f in (1e-9, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-9)]
        else:
            xs = sorted(start + side * width * 2.0**j for j in range(-20, 13, 4))
            xs += [-x for x in xs] if math.isinf(lo) and math.isinf(hi) else []
        if self.pair.measure == "lattice":
            xs = [min(max(float(round(x)), lo), hi) for x in xs]
        xs = sorted(
            {x for x in xs if lo < x < hi or (self.pair.measure == "lattice" and lo <= x <= hi)}
        )
        logs = [[self.pair.log_density(law, theta, mpmath.mpf(x)) for law in "pq"] for x in xs]
        known = [
            (x, p - q, abs(p) + abs(q))
            for x, (p, q) in zip(xs, logs, strict=True)
            if max(p, q) > -mpmath.inf
        ]
        if kind in (2.0, 3.0):
            if any(loss != (mpmath.inf if kind == 2.0 else -mpmath.inf) for _, loss, _ in known):
                yield f"{what}: one law has no mass there, it says"
            return
        if kind == 4.0:
            return
        if kind not in (1.0, -1.0, 0.0):
            yield f"{what}: there is no such kind"
            return
        lowest, highest = min(left, right), max(left, right)
        for x, loss, size in known:
            room = enough * (size + abs(loss)) + 1e-15
            if math.isnan(left) or math.isnan(right):
                break
            if not (lowest - room <= loss <= highest + room or loss in (left, right)):
                yield f"{what}: the loss at {x} is {mpmath.nstr(loss, 17)}, not in [{left}, {right}]"  # noqa: E501
        for (x, loss, size), (_, after, more) in itertools.pairwise(known):
            if mpmath.isinf(loss) or mpmath.isinf(after):
                continue
            room = enough * (size + more)
            if kind * (after - loss) < -room or (kind == 0.0 and abs(after - loss) > room):
                yield f"{what}: the loss is not so near {x}"
        for (_, loss, size), limit, end in (
            ((known[0], left, lo), (known[-1], right, hi)) if known else ()
        ):
            near = math.isfinite(end) and len(known) > 2 and self.pair.measure == "density"
            if near and math.isfinite(limit) and kind and max(-p - q for p, q in logs) < 1e300:
                steep = (
                    abs(known[1][1] - known[0][1])
                    if end == lo
                    else abs(known[-1][1] - known[-2][1])
                )
                if abs(loss - limit) > 1e-3 * steep + 1e-6 * size * 1e-3 + room:
                    yield f"{what}: the limit at {end} is {limit!r}, the loss {mpmath.nstr(loss, 17)}"  # noqa: E501

    def _infinite(self, rows: Any, theta: Any, typical: bool) -> Iterator[str]:
        """P(q = 0) is the mass of atoms and branches on which Q has none."""
        stated = float(self.kernel("log_infinite_mass", theta))
        if math.isnan(stated):
            return
        total = mpmath.fsum(p for _, p, q in self.pair.points(theta) if q == 0)
        for lo, hi, kind, *_ in rows:
            if kind == 2:
                total += self._mass("p", theta, lo, hi)
        total = float(total)
        truth = math.log(total) if total > 0.0 else -math.inf
        room = 1e-9 * (1.0 + abs(truth)) if math.isfinite(truth) else 0.0
        fine = stated == truth or abs(stated - truth) <= room
        if not (fine or (not typical and abs(math.exp(min(stated, 1.0)) - total) <= 1e-12)):
            yield f"the log mass at infinite loss is {truth}, not {stated!r}, at {theta}"

    def whole(self, theta: Any) -> Iterator[str]:
        """Masses, coverage by branches, strip, symmetry and lattice at one parameter vector."""
        kernel, pair = self.kernel, self.pair
        rows = np.asarray(kernel("branches", theta))
        with mpmath.workdps(20):
            for column, law in enumerate("pq", start=1):
                total = covered = mpmath.fsum(row[column] for row in pair.points(theta))
                if pair.measure != "finite":
                    total += self._mass(law, theta, *pair.ends(theta))
                    covered += sum(self._mass(law, theta, lo, hi) for lo, hi, *_ in rows)
                if abs(total - 1) > MASS:
                    yield f"{law} has mass {mpmath.nstr(total, 12)}"
                if abs(covered - 1) > MASS:
                    yield f"branches and atoms carry {mpmath.nstr(covered, 12)} of {law}"
        offset, step = (float(v) for v in kernel("lattice", theta))
        losses = [pair.value("loss", theta, mpmath.mpf(x)) for x in self._outputs(theta)]
        ends = {float(e) for e in kernel("breakpoints", theta)}
        if pair.measure == "density":
            losses = [
                pair.value("loss", theta, mpmath.mpf(x))
                for x in self._outputs(theta)
                if x not in ends
            ]
        losses += [mpmath.log(p / q) for _, p, q in pair.points(theta) if p > 0 and q > 0]
        for loss in losses if not math.isnan(step) else ():
            place = (loss - offset) / step if mpmath.isfinite(loss) else mpmath.mpf(0)
            if abs(place - mpmath.nint(place)) > 1e-9 * max(1, abs(place)):
                yield f"the loss {mpmath.nstr(loss, 17)} is not on the lattice ({offset}, {step})"
        if kernel["SYMMETRIC"] is True:
            a, b = self._log_moment(0.75, theta), self._log_moment(-1.75, theta)
            if a is not None and b is not None and not abs(a - b) <= 1e-7 * max(1, abs(a)):
                yield "K(z) and K(-1-z) differ where symmetry is stated"
        yield from self._strip(theta)

    def _strip(self, theta: Any) -> Iterator[str]:
        """Moments exist inside the strip and, next to it, do not exist outside."""
        lo, hi = (float(v) for v in self.kernel("strip", theta))
        if not lo <= -1.0 <= 0.0 <= hi:
            yield f"the strip ({lo}, {hi}) does not hold [-1, 0]"
        for end, inward in ((lo, 1.0), (hi, -1.0)):
            if math.isinf(end):
                if (
                    self._converges(end if abs(end) < 100 else math.copysign(100.0, end), theta)
                    is False
                ):
                    yield f"M has no value far inside the strip ({lo}, {hi})"
                continue
            room = 0.02 * max(abs(end), 0.1)
            inside, outside = end + inward * room, end - inward * room
            if -1 < inside < 0:
                continue
            if self._converges(inside, theta) is False:
                yield f"M({inside}) is infinite, inside the strip ({lo}, {hi})"
            if self._converges(outside, theta) is True:
                yield f"M({outside}) is finite, outside the strip ({lo}, {hi})"

    def _converges(self, t: float, theta: Any) -> bool | None:
        """Whether E exp(tL) is finite, by the integrand far out and next to ends; None: no saying."""  # noqa: E501
        if self.pair.measure == "finite":
            return None
        lo, hi = self.pair.ends(theta)
        width = max([1.0, *(abs(v) for v in theta)])
        verdicts = []
        for end, inward in ((lo, 1), (hi, -1)):
            far = mpmath.isinf(end)
            if not far and self.pair.measure == "lattice":
                continue
            for j in (20, 12, 6, 3):  # densities of two exponentials are nothing far out
                logs = []
                for k in (j, j + 1):
                    away = mpmath.mpf(width) * mpmath.mpf(2) ** (k if far else -k)
                    x = inward * -away if far else end + inward * away
                    x = mpmath.nint(x) if self.pair.measure == "lattice" else x
                    p, q = (self.pair.log_density(law, theta, x) for law in "pq")
                    logs.append((1 + t) * p - t * q + mpmath.log(away))
                slope = (logs[1] - logs[0]) / mpmath.log(2)
                if mpmath.isfinite(slope):
                    verdicts.append(True if slope < -0.05 else False if slope > 0.05 else None)
                    break
            else:
                verdicts.append(None)
        if False in verdicts:
            return False
        return None if None in verdicts or not verdicts else True

    def tail(self, name: str, x: float, theta: Any, typical: bool) -> Iterator[str]:
        """A distribution function at one output: its log, so that small tails count too."""
        law, below, found = name[-1], name.startswith("cdf"), float(self.kernel(name, x, theta))
        if not typical and (math.isnan(found) or self._is_degenerate(theta)):
            return
        lo, hi = map(float, self.pair.ends(theta))
        beyond = (lo, x) if below else (x + (self.pair.measure == "lattice"), hi)
        log = (
            self._integrals(theta).log(density_of(law), *beyond) if beyond[0] <= beyond[1] else None
        )
        mass = [
            float(p if law == "p" else q)
            for at, p, q in self.pair.points(theta)
            if (at <= x) == below
        ]
        parts = [complex(math.log(m)) for m in mass if m > 0] + [
            complex(-math.inf) if log is None else log
        ]
        total = _log_sum(np.array(parts))
        truth = math.nan if total is None else total.real
        if truth < FARTHEST:
            fine = found <= math.exp(FARTHEST)
        else:
            height = float(self.pair.log_density(law, theta, mpmath.mpf(x)))
            steep = (1.0 + abs(x)) * math.exp(min(height - truth, 700.0)) + abs(truth) + 1.0
            rounded = 1e-14 * abs(x) * math.exp(min(height, 700.0))
            fine = abs(found - math.exp(truth)) <= rounded or (
                found > 0 and abs(math.log(found) - truth) <= (1e-11 if typical else FAR) * steep
            )
        if not fine:
            yield f"log {name}({x!r}) is {np.log(found)!r}, not {truth!r}, at {theta}"

    def moment(self, z: complex, theta: Any, typical: bool) -> Iterator[str]:
        """The generating function at one tilt."""
        found, truth = complex(self.kernel("cgf", z, theta)), self._log_moment(z, theta)
        if truth is None or not (typical or cmath.isfinite(found)):
            return
        if math.isinf(truth.real):
            fine = found.real == truth.real
        else:
            turned = abs(cmath.exp(1j * (found.imag - truth.imag)) - 1)
            room = (INTEGRAL if typical else FAR) * (1 + abs(truth.real) + abs(z))
            fine = abs(found.real - truth.real) + turned <= room
        if not fine:
            yield f"cgf({z}) is {found}, not {truth}, at {theta}"

    def _log_moment(self, z: complex, theta: Any) -> complex | None:
        """Log M(z), None where quadrature does not settle."""
        pair, points = self.pair, self.pair.points(theta)
        logs = [[float(mpmath.log(m)) if m > 0 else -math.inf for m in row[1:]] for row in points]
        terms = np.array([power(z)(*map(np.array, row)) for row in logs], dtype=complex)
        if pair.measure != "finite":
            part = self._integrals(theta).log(power(z), *pair.ends(theta))
            if part is None:
                return None
            terms = np.append(terms, part)
        return _log_sum(terms)

    def _mass(self, law: str, theta: Any, lo: Any, hi: Any) -> float:
        """Mass of a law on an interval, without atoms."""
        found = self._integrals(theta).log(density_of(law), lo, hi)
        if found is None:
            raise ValueError(f"no mass of {law} on ({lo}, {hi})")
        return math.exp(found.real) if found.real > -745.0 else 0.0

    def _integrals(self, theta: Any) -> Integrals:
        if theta not in self._known:
            self._known[theta] = Integrals(self.pair, theta, self.kernel("breakpoints", theta))
        return self._known[theta]


def _ball(text: str) -> tuple[Any, Any]:
    """Middle and radius of a ball as it is written in a certificate, real or complex."""
    middle, radius = mpmath.mpc(0), mpmath.mpf(0)
    for inner, turned in re.findall(r"\[?([^\[\]]+)\]?(j?)(?: \+ )?", text):
        centre, _, room = inner.partition("+/-")
        middle += mpmath.mpf(centre.strip() or 0) * (1j if turned else 1)
        radius = max(radius, mpmath.mpf(room.strip() or 0))
    return middle, radius


def _marks(expr: Any, theta: Any) -> list[float]:
    """Where switches turn, and centres of exponents: zeros of what is affine in x."""
    found = []
    for x in [s for s in expr.free_symbols if s.name == "x_"]:
        gaps = [r.lhs - r.rhs for r in expr.atoms(sympy.core.relational.Relational)]
        for part in (*gaps, *expr.atoms(sympy.Add)):
            slope = part.diff(x)
            if part.has(x) and not slope.has(x) and (rate := number(slope, theta)):
                found.append(float(-number(part.xreplace({x: sympy.S.Zero}), theta) / rate))
    return found


def main(arguments: list[str]) -> int:
    """Command line: print what is wrong; exit code 0 only if nothing is."""
    if len(arguments) not in (2, 3):
        sys.stderr.write(
            "usage: python -m mechc.verify.recheck KERNEL.py CERTIFICATE.json [DECLARATION]\n"
        )
        return 2
    problems = recheck(*arguments)
    sys.stdout.write("\n".join(problems) + "\n" if problems else "re-verified\n")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
