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
from functools import cached_property, lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import sympy

SCHEMA = 2
VALUES = ("log_p", "log_q", "loss")
TAILS = ("cdf_p", "sf_p", "cdf_q", "sf_q")
KINDS = {
    **dict.fromkeys((*VALUES, "loss_inverse", "cgf", "cdf", "atoms", "infinite_mass"), "values"),
    **dict.fromkeys(("masses", "lattice", "strip", "reversal", "pieces", "coverage"), "identity"),
    **dict.fromkeys(("emission", "atom_errors"), "identity"),
    **dict.fromkeys(("branches", "unimodal", "words"), "proof"),
}
BRANCHES = {"branches", "coverage", "pieces"}  # of a pair that is not a few outcomes
NEEDED = KINDS.keys() - BRANCHES - {"cgf", "cdf", "unimodal"}
LOOSEST = {"values": 1e-13, "identity": 1e-12, "proof": 0.0}  # tolerances by kind
MOST_POINTS = 10**7
SLACK = 4.0  # room for the rounding of recorded errors

DIGITS, INTEGRAL_DIGITS = 50, 25
NESTED = ("tag ", "density", "lattice", "finite")  # begins another declaration
LOWEST = mpmath.mpf("-1e310")
MOST_TERMS = 50_000
PATIENCE = 50  # negligible terms after which a sum ends
RANGE = 8.0  # nats and radians over which 16 nodes integrate to the last digits
NEGLIGIBLE = 50.0  # nats below the largest term
NOTHING = -1e6  # log density next to which no power of a density counts
OUTWARD, INWARD = 80, 18  # powers of two, and of four, that panels reach out and in
MOST_PANELS, MOST_SUMMED = 600, 10_000
CANCELLED = 1e-7  # share of its terms below which a sum has lost too many digits
_ROOTS, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES_AT, _LOG_WEIGHTS = [mpmath.mpf(float(t)) / 2 + 0.5 for t in _ROOTS], np.log(_WEIGHTS / 2)

CLOSE, FAR = 1e-11, 1e-9  # relative to the value and its sensitivity: at typical parameters, beyond
MASS = 1e-9
INTEGRAL = 1e-10  # relative error of what mpmath integrates here
ROUNDING = 2.0**-50  # four roundings
WORK = 1_000_000  # comparisons made by the search
AGAIN = 3  # further places looked at where a comparison was seen from a new side
SAMPLES = 160  # places besides
VECTORS = 6  # vectors far from typical ones at which densities are integrated
ENOUGH = 3  # problems, after which no more are looked for
FARTHEST = -700.0  # log density beyond which nobody looks
LARGEST = 1e4  # value beside which a fault of 1e-4 would be missed
WIDEST = 40.0  # tilt beyond which a generating function may refuse
SEED = 20240229


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
        kernel, pair = Kernel(text), Pair(content["canonical"])
        problems = _digests(text, content, declaration) + _identity(kernel, pair, content)
        problems += _claims(kernel, content) + kernel.oddities()
        return problems or _compared(kernel, pair, content)
    except (
        LookupError, TypeError, AttributeError, ValueError, SyntaxError, ArithmeticError,
        RecursionError, MemoryError,
    ) as error:  # fmt: skip
        return [f"not a certificate of a kernel: {type(error).__name__}: {error}"]


def _digests(text: str, content: dict[str, Any], declaration: str | None) -> list[str]:
    problems = []
    if _sha256(text) != content["kernel_sha256"]:
        problems.append("the kernel file is not the one that was certified")
    digest = _sha256(content["canonical"])
    if digest != content["declaration_digest"]:
        problems.append("the declaration does not have the digest stated")
    if declaration is not None and digest != declaration:
        known = Path(declaration)
        if not known.is_file() or known.read_text("utf-8").strip() != content["canonical"]:
            problems.append("the certificate is for another declaration")
    rest = {k: v for k, v in content.items() if k != "seal"}
    if _sha256(json.dumps(rest, indent=2, sort_keys=True)) != content["seal"]:
        problems.append("the certificate has been edited: its seal is broken")
    return problems


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _identity(kernel: Kernel, pair: Pair, content: dict[str, Any]) -> list[str]:
    """Whether certificate, kernel and declaration speak of the same thing."""
    versions = {name: str(v) for name, v in content["versions"].items()}
    stamp = f"mechc {versions['mechc']}, sympy {versions['sympy']},"
    words = all(re.fullmatch(r"[\w.+]+", v) for v in versions.values())
    expected = {
        "name": content["name"] == kernel["NAME"],
        "measure": pair.measure == kernel["MEASURE"],
        "kernel_digest": content["kernel_digest"] == kernel["DIGEST"] == kernel.digest,
        "parameters": [row[1:6] for row in kernel["PARAMETERS"]] == pair.domains,
        "schema": content["schema"] == SCHEMA,
        "level": content["level"] in ("quick", "full"),
        "versions": stamp in kernel.about and words,
        "seconds": 0 <= float(content["seconds"]) < 1e6,
    }
    wrong = [name for name, right in expected.items() if not right]
    return [f"{name}: not that of the kernel and its declaration" for name in wrong]


def _claims(kernel: Kernel, content: dict[str, Any]) -> list[str]:
    """Whether each check that is needed is there and says what such a check says."""
    checks = {c["name"]: c for c in content["checks"]}
    needed = {*NEEDED, *(name for name in ("cgf", "cdf") if kernel.offers(name))}
    needed |= set() if kernel["MEASURE"] == "finite" else BRANCHES
    needed |= {"unimodal"} if kernel["CLAIM"].get("theorem") == "T1" else set()
    problems = [f"{name} has not been checked" for name in sorted(needed - checks.keys())]
    problems += [f"{name} is no check" for name in sorted(checks.keys() - KINDS.keys())]
    if len(checks) != len(content["checks"]):
        problems.append("a check stands there twice")
    for name, check in checks.items():
        kind, tolerance, error = check["kind"], float(check["tolerance"]), float(check["max_error"])
        if check["failures"] or check["ok"] is not True or not error <= tolerance:
            problems.append(f"{name} failed")
        if kind != KINDS.get(name) or not 0.0 <= tolerance <= LOOSEST[kind]:
            problems.append(f"{name}: of another kind, or the tolerance is wider than any needs")
        if not 0 <= check["points"] <= MOST_POINTS or not error >= 0.0:
            problems.append(f"{name}: {check['points']} points, largest error {error}")
        if not all(isinstance(note, str) and note.isprintable() for note in check["notes"]):
            problems.append(f"{name}: notes that are no text")
        asked = check["points"] and kind == "values"
        if not check["where"] and (asked or name in {*VALUES, "cgf", "cdf"}):
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

    Attributes:
        measure: "density", "lattice" or "finite".
        p: density or mass of P without atoms; q of Q; lo and hi are the ends of the support.
        atoms: place, mass under P and under Q.
        domains: of the parameters: lo, hi, whether these are left out, whether only integers.
        affine: (slope, offset) of what is affine in x: switches, and centres of exponents.
    """

    def __init__(self, canonical: str) -> None:
        """Read the text line by line."""
        self.measure, *lines = canonical.split("\n")
        own = list(itertools.takewhile(lambda line: not line.startswith(NESTED), lines))
        exprs = [expression(line) for line in own if not line.startswith("(")]
        self.p, self.q, self.lo, self.hi = exprs[:4]
        self.atoms = list(zip(*[iter(exprs[4:])] * 3, strict=False))
        domains = [line.replace("inf", "math.inf") for line in own if line.startswith("(")]
        self.domains = [_literal(ast.parse(line, mode="eval").body) for line in domains]
        self.affine = [found for e in (self.p, self.q) for found in _affine(e)]
        self._known: dict[Any, At] = {}

    def at(self, theta: Sequence[Any]) -> At:
        """The pair at a parameter vector."""
        key = tuple(map(mpmath.mpf, theta))
        if key not in self._known:
            self._known[key] = At(self, key)
        return self._known[key]


class At:
    """A declaration at one parameter vector.

    Attributes:
        lo: end of the support; hi likewise.
        points: atoms: x, mass under P, mass under Q.
    """

    def __init__(self, pair: Pair, theta: tuple[Any, ...]) -> None:
        """Evaluate what does not depend on the output."""
        self.pair, self.theta = pair, theta
        self.lo, self.hi = number(pair.lo, theta), number(pair.hi, theta)
        self._laws = [function(e, theta) for e in (pair.p, pair.q)]
        rows: dict[Any, list[Any]] = {}
        for atom in pair.atoms:
            x, p, q = (number(e, theta) for e in atom)
            known = rows.setdefault(x, [mpmath.mpf(0), mpmath.mpf(0)])
            known[0], known[1] = known[0] + p, known[1] + q
        self.points = [(x, p, q) for x, (p, q) in rows.items()]
        self._known: dict[Any, tuple[Any, Any]] = {}

    def logs(self, x: Any) -> tuple[Any, Any]:
        """Log densities of P and Q at x without atoms; log masses on a finite set."""
        key = x, mpmath.mp.prec
        if key not in self._known:
            values: Sequence[Any] = [0, 0]
            if self.pair.measure == "finite":
                values = next(((p, q) for at, p, q in self.points if at == x), (0, 0))
            elif self.lo <= x <= self.hi:
                values = [law(mpmath.mpf(x)) for law in self._laws]
            self._known[key] = _log(values[0]), _log(values[1])
        return self._known[key]

    def value(self, name: str, x: Any) -> Any:
        """Log p, log q or the loss at x."""
        p, q = self.logs(x)
        return p - q if name == "loss" else p if name == "log_p" else q

    def scale(self, name: str, x: float) -> Any:
        """The size of a value, and how far relative changes of its arguments move it."""
        step, truth = mpmath.mpf(10) ** -12, self.value(name, x)
        moved = [self.value(name, mpmath.mpf(x) * (1 + step))] * (self.pair.measure == "density")
        for i, (*_, whole) in enumerate(self.pair.domains):
            theta = (*self.theta[:i], self.theta[i] * (1 + step), *self.theta[i + 1 :])
            moved += [] if whole else [self.pair.at(theta).value(name, x)]
        size = sum(map(abs, self.logs(x))) if name == "loss" else 0
        changes = (abs(v - truth) / step for v in moved if mpmath.isfinite(v))
        return abs(truth) + size + sum(changes)


def _log(value: Any) -> Any:
    return mpmath.log(value) if value > 0 else -mpmath.inf


def _affine(expr: Any) -> Iterator[tuple[Any, Any]]:
    """What switches or exponents hold that is affine in x: slope and offset."""
    for x in [s for s in expr.free_symbols if s.name == "x_"]:
        gaps = [r.lhs - r.rhs for r in expr.atoms(sympy.core.relational.Relational)]
        for part in dict.fromkeys((*gaps, *expr.atoms(sympy.Add))):
            slope = part.diff(x) if part.has(x) else sympy.S.Zero
            if slope != 0 and not slope.has(x):
                yield slope, part.xreplace({x: sympy.S.Zero})


def function(expr: Any, theta: Any) -> Any:
    """An expression as a function of x in mpmath: what is free of x is evaluated once."""
    compiled, names, parts = _compiled(expr)
    known = [theta[_index(s)] for s in names] + [number(part, theta) for part in parts]
    return lambda at: compiled(at, *known)


@lru_cache(maxsize=1024)
def _compiled(expr: Any) -> Any:
    parts: dict[Any, Any] = {}
    body = _split(expr, parts)
    x = next((s for s in body.free_symbols if s.name == "x_"), sympy.Symbol("x_"))
    names = sorted(body.free_symbols - {x, *parts.values()}, key=str)
    return _lambda([x, *names, *parts.values()], body), names, list(parts)


def _split(expr: Any, parts: dict[Any, Any]) -> Any:
    """The expression with a symbol for each part that is free of x and not a number or symbol."""
    if expr.is_Atom or not (expr.free_symbols or expr.has(sympy.Sum)):
        return expr
    if not any(s.name == "x_" for s in expr.free_symbols):
        return parts.setdefault(expr, sympy.Dummy(real=True))
    args = expr.args
    if expr.is_Add or expr.is_Mul:
        free = [a for a in args if all(s.name != "x_" for s in a.free_symbols)]
        args = [expr.func(*free), *(a for a in args if a not in free)] if len(free) > 1 else args
    return expr.func(*(_split(a, parts) for a in args))


def number(expr: Any, theta: Any) -> Any:
    """The value of an expression without x, its sums added up term by term."""
    compiled, names, sums = _constant(expr)
    return compiled(*(theta[_index(s)] for s in names), *(_total(node, theta) for node in sums))


@lru_cache(maxsize=1024)
def _constant(expr: Any) -> Any:
    sums = sorted(expr.atoms(sympy.Sum), key=str)
    names = sorted(expr.free_symbols, key=str)
    dummies = {node: sympy.Dummy() for node in sums}
    return _lambda([*names, *dummies.values()], expr.xreplace(dummies)), names, sums


def _lambda(arguments: Any, expr: Any) -> Any:
    """A function that answers numbers of mpmath."""
    made = sympy.lambdify(arguments, expr, [{"exp": _exp}, "mpmath"])
    return lambda *values: mpmath.mpf(made(*values))


def _index(symbol: Any) -> int:
    return int(symbol.name.removeprefix("theta_"))


def _exp(value: Any) -> Any:
    """Zero where not even the logarithm is a double, which mpmath would take ages to tell."""
    return mpmath.exp(value) if value > LOWEST else mpmath.mpf(0)


def _total(node: Any, theta: Any) -> Any:
    """A sum over integers, from 0 outwards until terms stay negligible."""
    index, lo, hi = node.limits[0]
    term = function(node.function.xreplace({index: sympy.Symbol("x_", real=True)}), theta)
    first, last = number(lo, theta), number(hi, theta)
    middle, total = int(min(max(first, 0), last)), mpmath.mpf(0)
    for step, start, end in ((1, middle, last), (-1, middle - 1, first)):
        idle = 0
        for n in itertools.count(start, step):
            if idle > PATIENCE or step * n > step * end:
                break
            if abs(n - start) > MOST_TERMS:
                raise ArithmeticError("a sum of too many terms")
            here = term(mpmath.mpf(n))
            total += here
            idle = idle + 1 if abs(here) <= mpmath.eps * abs(total) else 0
    return total


def _words(*lines: str) -> list[str]:
    return " ".join(lines).split()


_SYMPY = _words(
    "Add Mul Pow Integer Rational Symbol exp log Abs Max Min sign Piecewise ExprCondPair And Or",
    "Not StrictLessThan LessThan StrictGreaterThan GreaterThan Equality Unequality Tuple Sum gamma",
    "loggamma erf erfc besseli binomial factorial sin cos tan atan sinh cosh tanh sech csch coth",
    "asinh Heaviside floor ceiling Half",
)
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
        if node.func.id == "ExprCondPair":
            return tuple(args)
        named = {k.arg: _build(k.value) for k in node.keywords if k.arg is not None}
        return getattr(sympy, node.func.id)(*args, **named)
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


_NUMPY = _words(
    "isinf isnan fabs exp log log1p expm1 sqrt sin cos tan hypot sinh cosh tanh floor ceil"
) + _words("pow=power asin=arcsin acos=arccos atan=arctan atan2=arctan2 asinh=arcsinh",
           "acosh=arccosh atanh=arctanh")  # fmt: skip
_MATH = SimpleNamespace(
    **{name: np.float64(getattr(math, name)) for name in ("inf", "nan", "pi")},
    **{word.partition("=")[0]: getattr(np, word.rpartition("=")[2]) for word in _NUMPY},
    **{name: _quiet(getattr(math, name)) for name in ("erf", "erfc", "gamma", "lgamma")},
)
_NODES = tuple(
    getattr(ast, name)
    for name in _words(
        "Assign AugAssign Return If For While Break Expr BinOp UnaryOp BoolOp Compare IfExp Call",
        "Name Attribute Subscript Slice Tuple List Constant operator unaryop boolop cmpop",
        "expr_context arguments arg",
    )
)
_FIELDS = {"real", "imag", "size", "shape", "array", "empty", *vars(_MATH)}
_BUILTINS = {"math", "np", "max", "min", "range", "abs", "float", "int", "complex"}
OF_THETA = (
    "branches", "breakpoints", "atoms", "atom_errors", "strip", "lattice", "log_infinite_mass",
)  # fmt: skip
SHARED = _words("""
    0207b290e757 1e63189f3a1c 223869f6b28a 22925868fc58 230521ac7554 2416a73deaf4 2e1649acae48
    2f51b9233560 318f5a18818c 3218d73b0d9e 34c1f7ceaa28 373442895803 43e73ef489c3 441f3424de35
    501509bff09c 5037e109a700 53d2f1d4a384 597ca9a9bb20 66901849ebb0 688c8b133f1c 704e64ec6f8b
    7f72917a3893 86e5b4338b3f 8e2f7faeefd4 9244bf5b1856 96d0a847a63b 973350af9834 991e4b922ba2
    9adaf3fb74ef 9b9079c31b41 9b989e9f12f5 9d1462e571ee a70ecd2c8f0f b5c35453276c bbc16700270d
    c01eff54dbe8 cb40e0f12fe1 cc148edfe96f d36974fdcd43 d4362aeec3a0 d7b2c96a1b0e dbda9298dd90
    dda9b80a8ae9 e4c1e360f3cb ea118cf50f62 f97aa686e641 fee7b9ab257b
""")
"""Digests of the functions that kernels share, as mechc ships them."""

FRAME = ("Compiled", "compiled")  # what has functions compiled


class Kernel:
    """The functions of a kernel text, run as plain Python that reports its comparisons.

    Attributes:
        about: the docstring.
        digest: of all but the imports, as `DIGEST` should state it.
        fingerprints: digests of the functions, by name.
        constants: every number in the text of the functions.
        comparing: names of functions with comparisons of their own.
        outcomes: the comparisons that the last call made, each with its outcome.
        work: comparisons made so far.
    """

    def __init__(self, text: str) -> None:
        """Read a text; nothing in it is run but functions of numbers, when they are called.

        Raises:
            ValueError: it holds something else.
        """
        tree = ast.parse(text)
        self.about, self.digest = ast.get_docstring(tree, clean=False) or "", _digest(text)
        self._named: dict[str, Any] = {}
        self._functions: dict[str, ast.FunctionDef] = {}
        frame: dict[str, str] = {}
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if (name := node.targets[0].id) not in ("COMPILE", "CHECKS"):
                    self._named[name] = _literal(node.value)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in FRAME:
                frame[node.name] = _sha256(ast.unparse(node))[:12]
            elif isinstance(node, ast.FunctionDef) and node.name != "self_check":
                if node.name in self._functions or node.name in _BUILTINS:
                    raise ValueError(f"{node.name} is defined twice")
                self._functions[node.name] = _plain(node)
        self.fingerprints = {name: _fingerprint(node) for name, node in self._functions.items()}
        self.fingerprints |= frame
        marks = _Marks()
        body: list[ast.stmt] = [marks.visited(node) for node in self._functions.values()]
        self.constants, self.comparing = sorted(marks.constants), marks.comparing
        self.outcomes: set[tuple[int, bool]] = set()
        self.work, self._limit, self._known = 0, 0, dict[Any, Any]()
        self._space: dict[str, Any] = {
            "__builtins__": {}, "math": _MATH, "max": max, "min": min, "abs": abs, "int": int,
            "float": np.float64, "complex": lambda a, b=0.0: np.complex128(complex(a, b)),
            "np": SimpleNamespace(array=np.array, empty=np.empty), "range": _counted,
            "_seen": self._see,
        }  # fmt: skip
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
        typed = [np.array(a, dtype=float) if isinstance(a, (list, tuple)) else a for a in arguments]
        typed = [np.float64(a) if isinstance(a, float) else a for a in typed]
        typed = [np.complex128(a) if isinstance(a, complex) else a for a in typed]
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
        frame = [name for name in FRAME if self.fingerprints.get(name) not in SHARED]
        problems = [f"{name} is not the one that mechc ships" for name in frame]
        for name, node in self._functions.items():
            shared = name.startswith(("solve_", "series_", "breakpoints"))
            shared |= "theta" not in (a.arg for a in node.args.args)
            if shared and self.fingerprints[name] not in SHARED:
                problems.append(f"{name} is not the function that mechc ships under this name")
            if name.endswith("_many") and not _is_elementwise(node):
                problems.append(f"{name} does more than answer element by element")
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
    return _sha256(whole)[:16] if found and parted else ""


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
    made = ast.parse(f"def {node.name}(): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    documented = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
    made.args.args, made.body = [ast.arg(a.arg) for a in node.args.args], node.body[documented:]
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
        """A copy of a function that reports."""
        before = self.count
        copy = ast.parse(ast.unparse(ast.fix_missing_locations(node))).body[0]
        marked: ast.stmt = self.visit(copy)
        self.comparing |= {node.name} if self.count > before else set()
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


def _fingerprint(node: ast.FunctionDef) -> str:
    """Digest of a function, numbered names without their numbers."""
    text = re.sub(r"\b(solve|residual|root|series|term_of_series)_\d+\b", r"\1", ast.unparse(node))
    return _sha256(text)[:12]


def _is_elementwise(node: ast.FunctionDef) -> bool:
    """Whether arrays are used at the loop's index only, and the index for nothing else."""
    xs, out = [a.arg for a in node.args.args if a.arg not in ("theta", "branch")]
    loop, body = f"for i in range({xs}.size):", ast.unparse(node).partition("\n")[2]
    rest = body.replace(loop, "").replace(f"{xs}[i]", "").replace(f"{out}[i]", "")
    parts = [n for n in ast.walk(node) if isinstance(n, ast.Subscript)]
    written = {ast.unparse(n) for n in parts if isinstance(n.ctx, ast.Store)}
    return loop in body and written == {f"{out}[i]"} and not re.search(rf"\b({xs}|{out}|i)\b", rest)


# integrals


class Integrals:
    """Integrals of powers of the two densities at one parameter vector, or sums over integers.

    Gauss-Legendre on panels that are short next to wherever formulas change, halved until the
    exponent moves by little on each. The log densities at nodes are kept for the next question.
    """

    def __init__(self, at: At, ends: Sequence[float]) -> None:
        """Prepare panels around the ends of branches and around marks of the expressions."""
        self._at, self._known = at, dict[Any, Any]()
        marks = {0.0, *map(float, ends)}
        for slope, offset in at.pair.affine:
            if rate := number(slope, at.theta):
                marks.add(float(-number(offset, at.theta) / rate))
        self.marks = sorted(mpmath.mpf(m) for m in marks if math.isfinite(m))
        gaps = [b - a for a, b in itertools.pairwise(self.marks)]
        self._reach = 2**OUTWARD * max([mpmath.mpf(1e-3), *gaps, *map(abs, at.theta)])
        inner = [m for m in self.marks if at.lo < m < at.hi]
        outer = [end for end in (at.lo, at.hi) if mpmath.isfinite(end)]
        pairs = itertools.pairwise([at.lo, *inner, at.hi])
        self._edges = sorted({*inner, *outer, *(e for pair in pairs for e in self._between(*pair))})

    def _between(self, a: Any, b: Any) -> Iterator[Any]:
        """Edges of panels that grow away from two marks next to each other."""
        finite = mpmath.isfinite(b - a)
        count = INWARD if finite else INWARD + OUTWARD // 2
        widest = (b - a) / 2 if finite else self._reach
        scales = [widest / mpmath.mpf(4) ** k for k in range(count)]
        yield from (a + s for s in scales if mpmath.isfinite(a))
        yield from (b - s for s in scales if mpmath.isfinite(b))

    def log(self, exponent: Callable[[Any, Any], Any], lo: Any, hi: Any) -> complex | None:
        """Log of the integral of exp(exponent(log p, log q)) from lo to hi; None: not settled."""
        with mpmath.workdps(INTEGRAL_DIGITS):
            found = (self._sum if self._at.pair.measure == "lattice" else self._integral)(
                exponent, mpmath.mpf(lo), mpmath.mpf(hi)
            )
        return None if found is None else _log_sum(np.concatenate([*found, np.array([-math.inf])]))

    def _integral(self, exponent: Any, lo: Any, hi: Any) -> list[Any] | None:
        lo, hi = max(lo, self._edges[0]), min(hi, self._edges[-1])
        todo = list(itertools.pairwise([lo, *(e for e in self._edges if lo < e < hi), hi]))
        top = max(self._terms(exponent, a, b)[1] for a, b in todo)
        done: list[Any] = []
        while todo:
            a, b = todo.pop()
            logs, highest, spread = self._terms(exponent, a, b)
            middle, top = (a + b) / 2, max(top, highest)
            if highest < top - NEGLIGIBLE or spread <= RANGE or not a < middle < b:
                done.append(logs)
            else:
                todo += [(a, middle), (middle, b)]
            if len(done) + len(todo) > MOST_PANELS:
                return None
        return done

    def _terms(self, exponent: Any, a: Any, b: Any) -> tuple[Any, float, float]:
        """Terms of the sum as logs, the largest exponent with the length, and how far it moves."""
        if not a < b:
            return np.array([]), -math.inf, 0.0
        if (a, b) not in self._known:
            xs = [a + (b - a) * t for t in _NODES_AT]
            ends = self._at.logs(xs[0]) + self._at.logs(xs[-1])
            logs = [(-math.inf,) * 2] if max(ends) < NOTHING else [self._at.logs(x) for x in xs]
            self._known[a, b] = np.array(logs, dtype=float), float(mpmath.log(b - a))
        table, length = self._known[a, b]
        logs = exponent(*table.T)
        there = logs[np.isfinite(logs.real)]
        if not there.size:
            return there, -math.inf, 0.0
        spread = float(np.ptp(there.real) + np.ptp(there.imag))
        spread = spread if there.size == logs.size else math.inf
        return logs + length + _LOG_WEIGHTS, float(there.real.max()) + length, spread

    def _sum(self, exponent: Any, lo: Any, hi: Any) -> list[Any] | None:
        """The same over integers, outwards from the marks."""
        inside = [n for m in self.marks for n in (int(mpmath.nint(m)),) if lo <= n <= hi]
        start = inside[len(inside) // 2] if inside else int(hi if mpmath.isfinite(hi) else lo)
        reach = PATIENCE + max(abs(m - start) for m in (*inside, start))
        terms, top = [], -math.inf
        for step, first in ((1, start), (-1, start - 1)):
            idle, n = 0, first
            while lo <= n <= hi and idle <= reach:
                terms.append(exponent(*np.array([self._at.logs(n)], dtype=float).T))
                top = max(top, float(terms[-1][0].real))
                idle = idle + 1 if not terms[-1][0].real > top - NEGLIGIBLE else 0
                n += step
                if len(terms) > MOST_SUMMED:
                    return None
        return terms


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


# places


class Vector:
    """A parameter vector and what the kernel says of its branches.

    Attributes:
        theta: the parameters.
        typical: one of the certificate's: no refusals there, and smaller errors.
        enough: relative error of a value.
        at: the declaration there.
        rows: branches; ends are their finite ends.
    """

    def __init__(self, kernel: Kernel, pair: Pair, theta: tuple[float, ...], typical: bool) -> None:
        """Ask the kernel."""
        self.theta, self.typical, self.enough = theta, typical, CLOSE if typical else FAR
        self._pair = pair
        self.rows = np.asarray(kernel("branches", theta)).reshape(-1, 6)
        self.ends = [float(e) for e in np.ravel(kernel("breakpoints", theta)) if math.isfinite(e)]

    @cached_property
    def at(self) -> At:
        """The declaration."""
        return self._pair.at(self.theta)

    @cached_property
    def integrals(self) -> Integrals:
        """Its integrals."""
        with mpmath.workdps(INTEGRAL_DIGITS):
            return Integrals(self.at, self.ends)

    @property
    def is_degenerate(self) -> bool:
        """Whether branches are so short that rounding of their ends is most of them."""
        return any(b - a <= 1e-6 * (abs(a) + abs(b)) for a, b in itertools.pairwise(self.ends))


class Search:
    """Places at which every comparison of the kernel that can be reached is seen from both sides.

    Attributes:
        vectors: those that were looked at, the certificate's first.
        places: (function, argument, vector) of new sides; "theta" stands for those of parameters.
        samples: the same, drawn.
    """

    def __init__(self, kernel: Kernel, pair: Pair, certified: list[tuple[float, ...]]) -> None:
        """Look everywhere, as long as the allowance of work lasts."""
        self.kernel, self.pair, self.rng = kernel, pair, random.Random(f"{SEED}{kernel.digest}")
        self.vectors: list[Vector] = []
        self.places: list[tuple[str, Any, Vector]] = []
        self.samples: list[tuple[str, Any, Vector]] = []
        self._seen: set[tuple[int, bool]] = set()
        self._again: dict[str, int] = {}
        for theta in self._thetas(certified):
            vector = Vector(kernel, pair, theta, theta in certified)
            lost = kernel.work > WORK or vector.is_degenerate or self._is_noise(vector)
            if vector.typical or not lost:
                self._look(vector, len(self.vectors) < 2)
                self.vectors.append(vector)

    def _thetas(self, certified: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
        """The vectors of the certificate; parameters moved far, onto one another, to constants."""
        rows, rng, base = self.kernel["PARAMETERS"], self.rng, certified[0]
        moved: list[tuple[int, float]] = []
        found = certified[:3]
        for i, row in enumerate(rows):
            near = [c * (1 + s) for c in self.kernel.constants for s in (1e-3, -1e-3)]
            moved += [(i, v) for v in near if row[7][0] / 1e6 <= v <= row[7][1] * 1e6]
            moved += [(i, v) for j, v in enumerate(base) if j != i]
            moved += [(i, base[i] * 10.0**k) for k in (-1, 1, -2, 2, -3, 3, -6, 6)]
            ends = [(v, s) for v, s in ((row[1], 1), (row[2], -1)) if math.isfinite(v)]
            moved += [(i, v + s * e) for v, s in ends for e in (0.0, 1e-8, 1e-3)]
        for other in certified[:4]:
            for i, value in moved:
                whole = rows[i][5] and math.isfinite(value)
                found.append((*other[:i], float(round(value) if whole else value), *other[i + 1 :]))
        for _ in range(20):
            drawn = []
            for _, lo, hi, _, _, whole, _, (low, high) in rows:
                far = 10 ** rng.uniform(-2, 4) if math.isinf(hi) and lo >= 0 else 1.0
                value = min(max(rng.uniform(low, high) * far, lo), hi)
                drawn.append(float(round(value)) if whole else value)
            found.append(tuple(drawn))
        return [theta for theta in dict.fromkeys(found) if self.kernel.admits(theta)]

    def _is_noise(self, vector: Vector) -> bool:
        """Whether last digits of the parameters move densities by more than is looked for."""
        for x in self._outputs(vector)[: 12 + len(vector.ends)]:
            if any(abs(x - e) <= 1e-6 * abs(x) for e in vector.ends):
                continue
            for name in ("log_p", "log_q"):
                here = float(self.kernel(name, x, vector.theta))
                for k in (-3, 2, 5):
                    theta = [t * (1 + k * i * 2.0**-52) for i, t in enumerate(vector.theta, 1)]
                    change = abs(float(self.kernel(name, x, theta)) - here)
                    if FAR * max(1.0, abs(here)) < change < math.inf:
                        return True
        return False

    def _is_new(self) -> bool:
        """Whether the last call showed a comparison from a side not seen before."""
        new = not self.kernel.outcomes <= self._seen
        self._seen |= self.kernel.outcomes
        return new

    def _try(self, name: str, argument: Any, vector: Vector, *call: Any) -> None:
        """Call a function, and note the place and a few further ones where it shows a new side."""
        found = abs(self.kernel(*(call or (name, argument, vector.theta))))
        if math.isnan(found) or LARGEST < found < math.inf:
            return  # a refusal shows nothing, nor does what hides small faults
        self._again[name] = AGAIN if self._is_new() else self._again.get(name, 0) - 1
        if self._again[name] >= 0:
            self.places.append((name, argument, vector))

    def _look(self, vector: Vector, thorough: bool) -> None:
        kernel, theta, rng = self.kernel, vector.theta, self.rng
        self._again = {}
        shown = [(kernel(name, theta), self._is_new())[1] for name in OF_THETA]
        if any(shown) or thorough:
            self.places.append(("theta", None, vector))
        xs = self._outputs(vector)
        names = {*VALUES, *TAILS} if thorough else {*VALUES, *TAILS} & kernel.comparing
        for x in xs:
            for name in sorted(name for name in names if name in kernel):
                self._try(name, x, vector)
        for lo, hi, kind, *_, index in vector.rows:
            name = f"loss_inverse_{int(index)}"
            inside = [x for x in xs if lo < x < hi] if abs(kind) == 1 and name in kernel else []
            for x in rng.sample(inside, min(len(inside), 40 if thorough else 4)):
                if math.isfinite(level := float(kernel("loss", x, theta))):
                    self._try("loss_inverse", x, vector, name, level, theta)
        for name in VALUES:
            self._arrays(name, xs, vector)
        near = [x for x in xs if kernel("log_p", x, theta) > FARTHEST]
        own = rng.sample(near, min(len(near), 9 if thorough else 1))
        self.samples += [(name, x, vector) for x in own for name in (*VALUES, "loss_inverse")]
        if thorough and kernel.offers("cdf"):
            deep = [x for x in near if kernel("log_p", x, theta) < -60.0]
            some = [*own[:2], *deep[:1], *deep[-1:]]
            self.places += [(name, x, vector) for x in some for name in TAILS]
        if kernel.offers("cgf"):
            tilts = self._tilts(theta)
            for z in tilts if thorough or "cgf" in kernel.comparing else ():
                self._try("cgf", z, vector)
            drawn = rng.sample(tilts, min(len(tilts), 6)) if thorough else ()
            self.places += [("cgf", z, vector) for z in drawn]

    def _outputs(self, vector: Vector) -> list[float]:
        """Ends of branches, and places at growing distance from them; constants of the text."""
        kernel, ends, rng = self.kernel, vector.ends, self.rng
        if kernel["MEASURE"] == "finite":
            return [float(row[0]) for row in kernel("atoms", vector.theta)]
        unit = max([abs(a - b) for a, b in itertools.pairwise(ends)], default=0.0)
        unit = unit or max(map(abs, vector.theta), default=1.0)
        away = [unit * 2.0**j * rng.uniform(0.8, 1.2) for j in range(-24, 25, 3)]
        found = [e + side * a for e in (ends or [0.0]) for a in away for side in (1.0, -1.0)]
        marks = [s * c * (1 + e) for c in kernel.constants for s in (1, -1) for e in (1e-3, -1e-3)]
        found += [m for m in marks if abs(m) < 1e12]
        lo, hi = (float(number(e, vector.theta)) for e in (self.pair.lo, self.pair.hi))
        found = [x for x in found if lo <= x <= hi]
        found = found if vector.typical else rng.sample(found, min(len(found), 24))
        found += ends + [a + (b - a) * f for a, b in itertools.pairwise(ends) for f in (0.02, 0.4)]
        if kernel["MEASURE"] == "lattice":
            found = [float(round(x)) for x in found if abs(x) < 1e9]
        found = sorted({x for x in found if lo <= x <= hi})
        return sorted(found, key=lambda x: min((abs(x - e) for e in ends), default=abs(x)))

    def _tilts(self, theta: tuple[float, ...]) -> list[complex]:
        """Tilts inside the strip, near its ends, and on both sides of constants."""
        lo, hi = (float(v) for v in self.kernel("strip", theta))
        low, high = max(lo, -WIDEST), min(hi, WIDEST)
        marks = [s * c * 1.001 for c in self.kernel.constants if 1e-3 <= c <= 1e6 for s in (1, -1)]
        near = [-1.0, 0.0, 1e-7, -1.0 + 1e-7]
        real = [low + (high - low) * f for f in (0.45, 0.8, 0.2, 1e-3, 0.999)]
        heights = [0.3, 3.0, *(m for m in marks if 0.0 < m < 50.0)]
        found = [complex(r, h) for h in (0.0, *heights) for r in (*near, *real)]
        found += map(complex, marks)
        return [z for z in found if lo < z.real < hi]

    def _arrays(self, name: str, xs: list[float], vector: Vector) -> None:
        """Array functions answer as the scalar ones do; where not, the declaration decides."""
        if self.kernel.comparing.isdisjoint((name, f"{name}_many")) and not vector.typical:
            return
        single = [self.kernel(name, x, vector.theta) for x in xs]
        several = self.kernel.many(f"{name}_many", xs, vector.theta)
        new = self._is_new()
        for x, a, b in zip(xs, single, several, strict=True):
            same = a == b or abs(a - b) <= CLOSE / 10 * max(1.0, abs(a)) or (a != a and b != b)
            if new or not same:
                self.places.append((f"{name}_many", x, vector))
            new = False


# comparisons


def _compared(kernel: Kernel, pair: Pair, content: dict[str, Any]) -> list[str]:
    """What the kernel answers against the declaration: first what a query uses."""
    with np.errstate(all="ignore"), mpmath.workdps(DIGITS):
        recorded = list(_recorded(kernel, pair, content["checks"]))
        if recorded:
            return recorded
        search = Search(kernel, pair, [tuple(map(float, v)) for v in content["vectors"]])
        drawn = search.rng.sample(search.samples, min(len(search.samples), SAMPLES))
        places, compare = [*search.places, *drawn], Comparison(kernel)
        found = itertools.chain(
            *(compare.place(*place) for place in places if place[0] not in SLOW),
            compare.whole(search.vectors[0]),
            *(compare.place(*place) for place in places if place[0] in SLOW),
        )
        return list(itertools.islice(found, ENOUGH))


def _recorded(kernel: Kernel, pair: Pair, checks: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Whether recorded places say what the declaration and the kernel say there."""
    for check in checks:
        where, name = check["where"], check["name"]
        if check["kind"] != "values" or not where or name == "atoms":
            continue
        found, now = complex(where["found"]), complex(_again(kernel, name, where))
        if not (abs(now - found) <= CLOSE * (1 + abs(found)) or now == found):
            yield f"{name} is {now}, and not {found} as the certificate says, at {where}"
        if name == "loss_inverse":
            continue
        at = pair.at(list(map(float, where["theta"])))
        if cmath.isinf(found):
            truth = at.value(name, float(where["x"])) if name in VALUES else found.real
            if truth != found.real or "inf" not in where["enclosure"]:
                yield f"{name} is not {found.real} at the place stated"
            continue
        middle, radius = _ball(where["enclosure"])
        if not radius <= max(1e-10 * abs(middle), 0.0 if name == "cdf" else 1e-12):
            yield f"{name}: the enclosure {where['enclosure']} is wider than any needs"
        share, error = abs(found - middle), float(check["max_error"])
        if not error <= SLACK * share / (abs(middle) or 1) + 1e-16:
            yield f"{name}: the largest error is not {error} at the place stated"
        if name in VALUES and mpmath.isfinite(truth := at.value(name, x := float(where["x"]))):
            if not abs(truth - middle) <= radius + abs(middle) * 1e-20:
                yield f"{name}: {mpmath.nstr(truth, 20)} is outside {where['enclosure']}"
            if not share / (at.scale(name, x) + 0.1) / SLACK <= error + 1e-18:
                yield f"{name}: the largest error is larger than {error} at the place stated"


def _again(kernel: Kernel, name: str, where: dict[str, Any]) -> Any:
    """What the kernel answers at a recorded place."""
    if name == "infinite_mass":
        return kernel("log_infinite_mass", where["theta"])
    if name == "cgf":
        return kernel("cgf", complex(where["z"]), where["theta"])
    if name == "loss_inverse":
        single = f"loss_inverse_{int(where['branch'])}"
        return kernel(single, float(where["loss"]), where["theta"])
    return kernel(where.get("function", name), float(where["x"]), where["theta"])


def _ball(text: str) -> tuple[Any, Any]:
    """Middle and radius of a ball as it is written in a certificate, real or complex."""
    middle, radius = mpmath.mpc(0), mpmath.mpf(0)
    for inner, turned in re.findall(r"\[?([^\[\]]+)\]?(j?)(?: \+ )?", text):
        centre, _, room = inner.partition("+/-")
        middle += mpmath.mpf(centre.strip() or 0) * (1j if turned else 1)
        radius = max(radius, mpmath.mpf(room.strip() or 0))
    return middle, radius


SLOW = {*TAILS, "cgf"}


class Comparison:
    """What a kernel answers at a place, against the declaration."""

    def __init__(self, kernel: Kernel) -> None:
        """Nothing has been integrated."""
        self.kernel = kernel
        self._integrated: set[Any] = set()

    def place(self, name: str, argument: Any, vector: Vector) -> Iterator[str]:
        """One place of the search."""
        if name in SLOW and not vector.typical:
            self._integrated |= {vector.theta} if len(self._integrated) < VECTORS else set()
            if vector.theta not in self._integrated:
                return
        try:
            if name == "theta":
                yield from self._theta(vector)
            elif name == "cgf":
                yield from self._moment(argument, vector)
            elif name == "loss_inverse":
                yield from self._inverse(argument, vector)
            else:
                yield from (self._tail if name in TAILS else self._value)(name, argument, vector)
        except (ArithmeticError, mpmath.libmp.NoConvergence) as error:
            if vector.typical:
                yield f"{name}: {error}, at {vector.theta}"

    def _value(self, name: str, x: float, vector: Vector) -> Iterator[str]:
        """Densities and losses at one output."""
        plain, found = name.removesuffix("_many"), self._answer(name, x, vector.theta)
        if not vector.typical and not math.isfinite(found):
            return
        if not self._fits(plain, x, vector, found):
            truth = mpmath.nstr(vector.at.value(plain, x), 17)
            yield f"{name}({x!r}) is {found!r}, not {truth}, at {vector.theta}"

    def _answer(self, name: str, x: float, theta: Any) -> float:
        if name.endswith("_many"):
            return float(self.kernel.many(name, [x], theta)[0])
        return float(self.kernel(name, x, theta))

    def _fits(self, name: str, x: float, vector: Vector, found: float) -> bool:
        at, enough = vector.at, vector.enough
        truth = at.value(name, x)
        if mpmath.isnan(truth):
            return True
        if abs(found - truth) <= enough * abs(truth) or found == truth:
            return True
        finite = mpmath.isfinite(truth) and math.isfinite(found)
        if finite and abs(found - truth) <= enough * (at.scale(name, x) + (name != "loss") / 10):
            return True
        # next to an end that is rounded
        close = [e for e in vector.ends if abs(e - x) <= 1e-12 * abs(x)]
        reach = 8 * max(map(math.ulp, (x, *close)))
        near = [at.value(name, mpmath.mpf(x) + s * reach) for s in (-1, 1)]
        if any(abs(found - v) <= enough * abs(v) or found == v for v in near):
            return True
        return bool(min(near) < found < max(near))

    def _inverse(self, x: float, vector: Vector) -> Iterator[str]:
        """The inverse of the loss at an output is on its branch and has that loss."""
        kernel, theta = self.kernel, vector.theta
        for lo, hi, kind, left, right, index in vector.rows:
            level, single = float(kernel("loss", x, theta)), f"loss_inverse_{int(index)}"
            if abs(kind) != 1 or not lo < x < hi or not min(left, right) < level < max(left, right):
                continue
            several = kernel.many("loss_inverse_many", [level], theta, int(index))[0]
            answers = [several, kernel(single, level, theta)] if single in kernel else []
            if not answers and not math.isnan(several):
                yield f"loss_inverse_many answers on the branch {int(index)}, which has none"
            for found in map(float, answers):
                if not (math.isfinite(found) or vector.typical):
                    continue
                room = 1e-9 * (abs(found) + min(abs(lo), abs(hi)))
                inside = math.isfinite(found) and lo - room <= found <= hi + room
                if inside and self._fits("loss", found, vector, level):
                    continue
                if not self._is_critical(level, (left, right), found, theta):
                    what = f"the inverse of the loss {level!r} on branch {int(index)}"
                    yield f"{what} is {found!r}, at {theta}"

    def _is_critical(self, level: float, limits: Sequence[float], found: float, theta: Any) -> bool:
        """Where inverses may lose digits, and those who ask hold each against the loss itself."""
        reach = 1e-3 * min(abs(limits[1] - limits[0]), 1.0)
        if not any(abs(level - e) <= reach for e in (0.0, *limits) if math.isfinite(e)):
            return False
        back = float(self.kernel("loss", found, theta))
        return not abs(back - level) <= 1e-12 * (abs(level) + abs(back))

    def _theta(self, vector: Vector) -> Iterator[str]:
        """What the kernel says of parameters alone."""
        kernel, theta, rows = self.kernel, vector.theta, vector.rows
        ends = sorted({float(e) for row in rows for e in row[:2]})
        if list(np.ravel(kernel("breakpoints", theta))) != ends:
            yield f"breakpoints are not the ends of branches, at {theta}"
        if any(not row[1] <= after[0] for row, after in itertools.pairwise(rows)):
            yield f"branches overlap or are out of order, at {theta}"
        for row in rows:
            yield from self._branch(row, vector)
        yield from self._atoms(vector)
        yield from self._infinite(vector)
        yield from self._lattice(vector)
        yield from self._strip(vector)

    def _atoms(self, vector: Vector) -> Iterator[str]:
        """Places and masses, up to what the kernel says that its sums lose."""
        rows = np.asarray(self.kernel("atoms", vector.theta)).reshape(-1, 3)
        lost = np.asarray(self.kernel("atom_errors", vector.theta)).reshape(-1, 2)
        lost = lost if lost.size else np.zeros((len(rows), 2))
        if len(lost) != len(rows) or (lost < 0.0).any():
            yield f"atom_errors do not speak of these atoms, at {vector.theta}"
            return
        stated = [(*row, *loss) for row, loss in zip(rows, lost, strict=True)]
        stated = [row for row in stated if max(row[1:3]) > -math.inf]
        points = sorted((x, p, q) for x, p, q in vector.at.points if p > 0 or q > 0)
        if len(stated) != len(points):
            unsure = sum(p + q < 1e-12 for _, p, q in points)
            if vector.typical or abs(len(stated) - len(points)) > unsure:
                yield f"there are {len(points)} atoms, not {len(stated)}, at {vector.theta}"
            return
        for (at, *logs, first, second), (x, *masses) in zip(sorted(stated), points, strict=True):
            fine = abs(at - x) <= 1e-12 * max(abs(x), 1)
            for log, mass, loss in zip(logs, masses, (first, second), strict=True):
                truth = _log(mass)
                room = vector.enough / 10 * max(1, abs(truth)) + ROUNDING * loss
                fine = fine and (log == truth or abs(log - truth) <= room)
            if not fine:
                yield f"the atom at {float(x)} is {(at, *logs)}, at {vector.theta}"

    def _branch(self, row: Any, vector: Vector) -> Iterator[str]:
        """The loss on one branch is as it says."""
        lo, hi, kind, left, right, _ = map(float, row)
        what = f"the branch ({lo}, {hi}) of kind {kind:g}, at {vector.theta}"
        known = [(x, p - q, abs(p) + abs(q)) for x, p, q in self._along(lo, hi, vector)]
        finite = [(x, loss, vector.enough * (abs(loss) + size) + 1e-15)
                  for x, loss, size in known if mpmath.isfinite(loss)]  # fmt: skip
        if kind in (2.0, 3.0):
            if any(loss != (mpmath.inf if kind == 2.0 else -mpmath.inf) for _, loss, _ in known):
                yield f"{what}: one law has no mass there, it says"
            return
        if kind not in (1.0, -1.0, 0.0, 4.0):
            yield f"{what}: there is no such kind"
        if kind not in (1.0, -1.0, 0.0):
            return
        lowest, highest = min(left, right), max(left, right)
        for x, loss, room in finite:
            if loss < lowest - room or loss > highest + room:
                yield f"{what}: the loss {mpmath.nstr(loss, 17)} at {x} is beyond {left}, {right}"
        for (x, loss, room), (_, after, more) in itertools.pairwise(finite):
            change = after - loss
            if kind * change < -room - more or (kind == 0.0 and abs(change) > room + more):
                yield f"{what}: the loss is not so near {x}"
        if len(finite) < 3 or self.kernel["MEASURE"] != "density" or kind == 0.0:
            return
        for limit, end, (_, loss, room), (_, further, _) in (
            (left, lo, finite[0], finite[1]), (right, hi, finite[-1], finite[-2]),
        ):  # fmt: skip
            near = math.isfinite(end) and math.isfinite(limit)
            if near and abs(loss - limit) > 4 * abs(further - loss) + 100 * room:
                yield f"{what}: the limit at {end} is {limit!r}, the loss {mpmath.nstr(loss, 17)}"

    def _along(self, lo: float, hi: float, vector: Vector) -> list[tuple[float, Any, Any]]:
        """Outputs of a branch with both log densities, where there is any."""
        lattice = self.kernel["MEASURE"] == "lattice"
        span = hi - lo if math.isfinite(hi - lo) else max(1.0, *map(abs, vector.theta))
        away = [span * 2.0**j for j in (-30, -20, -12, -7, -3, -1, 2, 5, 9)]
        ends = [(e, s) for e, s in ((lo, 1), (hi, -1)) if math.isfinite(e)] or [(0, 1), (0, -1)]
        xs = [end + side * a for end, side in ends for a in away]
        if lattice:
            xs = [min(max(float(round(x)), lo), hi) for x in xs]
        xs = sorted({x for x in xs if lo < x < hi or (lattice and lo <= x <= hi)})
        found = [(x, *vector.at.logs(x)) for x in xs]
        return [(x, p, q) for x, p, q in found if max(p, q) > -mpmath.inf]

    def _infinite(self, vector: Vector) -> Iterator[str]:
        """P(q = 0) is the mass of atoms and branches on which Q has none."""
        stated = float(self.kernel("log_infinite_mass", vector.theta))
        if math.isnan(stated):
            return
        total = float(mpmath.fsum(p for _, p, q in vector.at.points if q == 0))
        total += sum(self._mass("p", vector, *row[:2]) for row in vector.rows if row[2] == 2)
        truth = math.log(total) if total > 0.0 else -math.inf
        room = MASS * (1.0 + abs(truth)) if math.isfinite(truth) else 0.0
        fine = stated == truth or abs(stated - truth) <= room
        if not fine and (vector.typical or abs(math.exp(min(stated, 1.0)) - total) > 1e-12):
            yield f"the log mass at infinite loss is {truth}, not {stated!r}, at {vector.theta}"

    def _lattice(self, vector: Vector) -> Iterator[str]:
        """Losses are on the lattice that is stated."""
        offset, step = (float(v) for v in self.kernel("lattice", vector.theta))
        if math.isnan(step):
            return
        rows = [(p, q) for lo, hi, *_ in vector.rows for _, p, q in self._along(lo, hi, vector)]
        rows += [(_log(p), _log(q)) for _, p, q in vector.at.points]
        for loss in (p - q for p, q in rows if min(p, q) > -mpmath.inf):
            place = (loss - offset) / step
            if abs(place - mpmath.nint(place)) > 1e-9 * max(1, abs(place)):
                yield f"the loss {mpmath.nstr(loss, 17)} is not on the lattice ({offset}, {step})"

    def whole(self, vector: Vector) -> Iterator[str]:
        """Masses of both laws, by the declaration and by the branches; symmetry."""
        at = vector.at
        for column, law in enumerate("pq", start=1):
            atoms = float(mpmath.fsum(row[column] for row in at.points))
            density = at.pair.measure != "finite"
            total = atoms + (self._mass(law, vector, at.lo, at.hi) if density else 0.0)
            covered = atoms + sum(self._mass(law, vector, lo, hi) for lo, hi, *_ in vector.rows)
            if abs(total - 1) > MASS:
                yield f"{law} has mass {total!r}"
            if abs(covered - 1) > MASS:
                yield f"branches and atoms carry {covered!r} of {law}"
        if self.kernel["SYMMETRIC"] is True:
            away = min(1.25, 0.4 * (float(self.kernel("strip", vector.theta)[1]) + 0.5))
            a, b = (self._log_moment(-0.5 + s * away, vector) for s in (1, -1))
            if a is not None and b is not None and not abs(a - b) <= 1e-7 * max(1, abs(a)):
                yield "K(z) and K(-1-z) differ where symmetry is stated"

    def _strip(self, vector: Vector) -> Iterator[str]:
        """Moments exist inside the strip and, next to it, do not exist outside."""
        lo, hi = (float(v) for v in self.kernel("strip", vector.theta))
        if not lo <= -1.0 <= 0.0 <= hi:
            yield f"the strip ({lo}, {hi}) does not hold [-1, 0]"
        for end, inward in ((lo, 1.0), (hi, -1.0)):
            room = inward * 0.02 * max(abs(end), 0.1)
            inside = math.copysign(100.0, end) if math.isinf(end) else end + room
            if not -1 < inside < 0:
                if self._converges(inside, vector) is False:
                    yield f"M({inside}) is infinite, inside the strip ({lo}, {hi})"
                if math.isfinite(end) and self._converges(end - room, vector) is True:
                    yield f"M({end - room}) is finite, outside the strip ({lo}, {hi})"

    def _converges(self, t: float, vector: Vector) -> bool | None:
        """Whether E exp(tL) is finite, by the integrand far out and next to ends; None: unknown."""
        at, measure = vector.at, vector.at.pair.measure
        if measure == "finite":
            return None
        width, verdicts = mpmath.mpf(max([1.0, *map(abs, vector.theta)])), []
        for end, inward in ((at.lo, 1), (at.hi, -1)):
            far, verdict = mpmath.isinf(end), None
            if not far and measure == "lattice":
                continue
            for j in (20, 12, 6, 3):  # densities of two exponentials are nothing far out
                logs = []
                for k in (j, j + 1):
                    away = width * mpmath.mpf(2) ** (k if far else -k)
                    x = inward * -away if far else end + inward * away
                    p, q = at.logs(mpmath.nint(x) if measure == "lattice" else x)
                    logs.append((1 + t) * p - t * q + mpmath.log(away))
                slope = (logs[1] - logs[0]) / mpmath.log(2)
                if mpmath.isfinite(slope):
                    verdict = True if slope < -0.05 else False if slope > 0.05 else None
                    break
            verdicts.append(verdict)
        if False in verdicts:
            return False
        return None if None in verdicts or not verdicts else True

    def _tail(self, name: str, x: float, vector: Vector) -> Iterator[str]:
        """A distribution function at one output: its log, so that small tails count too."""
        law, below, at = name[-1], name.startswith("cdf"), vector.at
        found = float(self.kernel(name, x, vector.theta))
        if not vector.typical and math.isnan(found):
            return
        beyond = (at.lo, x) if below else (x + (at.pair.measure == "lattice"), at.hi)
        inside = beyond[0] <= beyond[1]
        log = vector.integrals.log(density_of(law), *beyond) if inside else -math.inf
        mass = [float(_log((p, q)[law == "q"])) for e, p, q in at.points if (e <= x) == below]
        total = None if log is None else _log_sum(np.array([*mass, log], dtype=complex))
        if total is None:
            return
        truth = total.real
        if truth < FARTHEST:
            fine = found <= math.exp(FARTHEST)
        else:
            height = float(at.logs(x)[law == "q"])
            steep = (1.0 + abs(x)) * math.exp(min(height - truth, 700.0)) + abs(truth) + 1.0
            fine = abs(found - math.exp(truth)) <= 1e-14 * abs(x) * math.exp(min(height, 700.0))
            fine |= found > 0 and abs(math.log(found) - truth) <= vector.enough * steep
        if not fine:
            yield f"log {name}({x!r}) is {np.log(found)!r}, not {truth!r}, at {vector.theta}"

    def _moment(self, z: complex, vector: Vector) -> Iterator[str]:
        """The generating function at one tilt."""
        found, truth = complex(self.kernel("cgf", z, vector.theta)), self._log_moment(z, vector)
        if truth is None or (cmath.isnan(found) and not (vector.typical and abs(z) < WIDEST)):
            return
        turned = abs(cmath.exp(1j * (found.imag - truth.imag)) - 1)
        room = (INTEGRAL if vector.typical else FAR) * (1 + abs(truth.real))
        if found.real != truth.real and not abs(found.real - truth.real) + turned <= room:
            yield f"cgf({z}) is {found}, not {truth}, at {vector.theta}"

    def _log_moment(self, z: complex, vector: Vector) -> complex | None:
        """Log M(z), None where quadrature does not settle."""
        at, exponent = vector.at, power(z)
        logs = [np.array([float(_log(m)) for m in row[1:]]) for row in at.points]
        terms = [complex(exponent(*row)) for row in logs]
        if at.pair.measure != "finite":
            part = vector.integrals.log(exponent, at.lo, at.hi)
            if part is None:
                return None
            terms.append(part)
        return _log_sum(np.array(terms, dtype=complex))

    def _mass(self, law: str, vector: Vector, lo: Any, hi: Any) -> float:
        """Mass of a law on an interval, without atoms."""
        found = vector.integrals.log(density_of(law), lo, hi)
        if found is None:
            raise ArithmeticError(f"no mass of {law} on ({lo}, {hi})")
        return math.exp(found.real) if found.real > -745.0 else 0.0


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
