"""A declaration rebuilt from its canonical text, and evaluated with mpmath."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import mpmath
import sympy

from mechc.verify.recheck.kernel import literal, words

NESTED = ("tag ", "density", "lattice", "finite")  # begins another declaration
SPECIAL = (
    sympy.besseli, sympy.besselk, sympy.binomial, sympy.erf, sympy.erfc, sympy.factorial,
    sympy.gamma, sympy.loggamma,
)  # fmt: skip
LOWEST = mpmath.mpf("-1e310")  # log that is told from nothing
MOST_TERMS = 50_000  # of a sum
ATOM_DIGITS = 360  # beyond the smallest double
LONGEST = 20_000  # bits of a power, and the largest integer of a factorial
UNSETTLED = 1e-18  # relative error of an integral
PATIENCE = 50  # negligible terms after which a sum ends


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
        is_special: whether x stands in a special function.
    """

    def __init__(self, canonical: str) -> None:
        """Read the text line by line."""
        self.measure, *lines = canonical.split("\n")
        own = list(itertools.takewhile(lambda line: not line.startswith(NESTED), lines))
        exprs = [expression(line) for line in own if not line.startswith("(")]
        self.p, self.q, self.lo, self.hi = exprs[:4]
        self.atoms = list(zip(*[iter(exprs[4:])] * 3, strict=False))
        domains = [line.replace("inf", "math.inf") for line in own if line.startswith("(")]
        self.domains = [literal(ast.parse(line, mode="eval").body) for line in domains]
        self.affine = [found for e in (self.p, self.q) for found in _affine(e)]
        self.is_special = any(
            str(s) == "x_" for f in self.p.atoms(*SPECIAL) for s in f.free_symbols
        )
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
            with mpmath.workdps(ATOM_DIGITS):  # masses that are differences keep some
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
            self._known[key] = log_of(values[0]), log_of(values[1])
        return self._known[key]

    def sensitivity(self, x: Any, law: int) -> Any:
        """How far relative changes of parameters move the log mass of an atom."""
        step, found = mpmath.mpf(10) ** -12, mpmath.mpf(0)
        for i in range(len(self.theta)):
            theta = (*self.theta[:i], self.theta[i] * (1 + step), *self.theta[i + 1 :])
            masses = [at.points for at in (self, self.pair.at(theta))]
            here, there = (next((row[1 + law] for row in m if row[0] == x), 0) for m in masses)
            found += abs(log_of(there) - log_of(here)) / step
        return found if mpmath.isfinite(found) else mpmath.inf

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


def log_of(value: Any) -> Any:
    """The logarithm, -inf of zero."""
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
    """An expression as a function of x in mpmath, its sums added up once, term by term."""
    compiled, names, sums = _compiled(expr)
    known = [theta[_index(s)] for s in names] + [_total(node, theta) for node in sums]
    return lambda at: mpmath.mpf(compiled(at, *known))


def number(expr: Any, theta: Any) -> Any:
    """The value of an expression without x."""
    return function(expr, theta)(0)


@lru_cache(maxsize=1024)
def _compiled(expr: Any) -> Any:
    totals = sorted(expr.atoms(sympy.Sum, sympy.Integral), key=str)
    sums = {node: sympy.Dummy() for node in totals}
    body = expr.xreplace(sums)
    x = next((s for s in body.free_symbols if s.name == "x_"), sympy.Symbol("x_"))
    names = sorted(body.free_symbols - {x, *sums.values()}, key=str)
    arguments = [x, *names, *sums.values()]
    return sympy.lambdify(arguments, body, [{"exp": _exp}, "mpmath"]), names, list(sums)


def _index(symbol: Any) -> int:
    return int(symbol.name.removeprefix("theta_"))


def _exp(value: Any) -> Any:
    """Zero where not even the logarithm is a double, which mpmath would take ages to tell."""
    return mpmath.exp(value) if value > LOWEST else mpmath.mpf(0)


def _total(node: Any, theta: Any) -> Any:
    """A sum over integers, from 0 outwards until terms stay negligible; an integral."""
    index, lo, hi = node.limits[0]
    term = function(node.function.xreplace({index: sympy.Symbol("x_", real=True)}), theta)
    first, last = number(lo, theta), number(hi, theta)
    if isinstance(node, sympy.Integral):
        total, error = mpmath.quad(term, [first, last], error=True)
        if not error <= UNSETTLED * abs(total):
            raise ArithmeticError("an integral that does not settle")
        return total
    middle, total = int(min(max(first, 0), last)), mpmath.mpf(0)
    for step, start, end in ((1, middle, last), (-1, middle - 1, first)) * (first <= last):
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


_SYMPY = words(
    "Add Mul Pow Integer Rational Symbol exp log Abs Max Min sign Piecewise ExprCondPair And Or",
    "Not StrictLessThan LessThan StrictGreaterThan GreaterThan Equality Unequality Tuple Sum gamma",
    "loggamma erf erfc besseli besselk zeta binomial factorial sin cos tan atan sinh cosh tanh",
    "sech csch coth asinh Integral Heaviside floor ceiling Half sqrt Eq Ne",
)
_CONSTANTS = {name: getattr(sympy, name) for name in ("pi", "oo", "E", "true", "false")}
GROWING = (operator.pow, sympy.Pow, *SPECIAL, sympy.zeta)
_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: operator.pow, ast.BitAnd: sympy.And, ast.BitOr: sympy.Or,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def expression(text: str) -> Any:
    """SymPy's `srepr` text as an expression, by a whitelist; nothing is evaluated as Python."""
    return _build(ast.parse(text, mode="eval").body)


def worded(text: str, names: Sequence[str]) -> Any:
    """A formula in parameters of these names, as SymPy writes it for readers."""
    found = expression(text)
    own = {s: sympy.Symbol(f"theta_{names.index(s.name)}")
           for s in found.free_symbols if s.name in names}  # fmt: skip
    return found.xreplace(own)


def _build(node: ast.AST) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, str, bool)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_build(node.operand)
    if isinstance(node, ast.Name):
        return _CONSTANTS[node.id] if node.id in _CONSTANTS else sympy.Symbol(node.id)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = (sympy.S(_build(side)) for side in (node.left, node.right))
        return _applied(_OPERATORS[type(node.op)], left, right)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
        left, right = (sympy.S(_build(side)) for side in (node.left, node.comparators[0]))
        return _OPERATORS[type(node.ops[0])](left, right)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "QuadratureSum":
        return _build(node.args[-1])  # what the sum stands for
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SYMPY:
        args = [_build(a) for a in node.args]
        if node.func.id == "ExprCondPair":
            return tuple(args)
        named = {k.arg: _build(k.value) for k in node.keywords if k.arg is not None}
        if named and node.func.id != "Symbol":
            raise ValueError(f"not a declaration: {node.func.id} with options")
        return _applied(getattr(sympy, node.func.id), *args, **named)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "clamped":
        cut, lo, hi = map(_build, node.args)  # for lo <= hi
        return sympy.Max(lo, sympy.Min(cut, hi, evaluate=False), evaluate=False)
    if isinstance(node, ast.Tuple):
        return tuple(_build(e) for e in node.elts)
    raise ValueError(f"not a declaration: {ast.dump(node)[:80]}")


def _applied(made: Any, *args: Any, **named: Any) -> Any:
    """A function of its arguments, but for numbers such as 9**9**9**9, which take ages."""
    sizes = [max(abs(a.p), a.q) for a in map(sympy.sympify, args) if isinstance(a, sympy.Rational)]
    if made in GROWING and len(sizes) == len(args):
        power = made in (operator.pow, sympy.Pow)
        if (sizes[0].bit_length() * sizes[1] if power else max(sizes)) > LONGEST:
            raise ValueError("not a declaration: a number that is too long")
    return made(*args, **named)
