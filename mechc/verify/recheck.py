"""A small independent checker: re-verifies a certificate from the emitted file and the JSON alone.

Nothing of the compiler and no ball arithmetic: the declaration is rebuilt from its canonical text
against a whitelist of SymPy names, evaluated with mpmath, and compared with the kernel at the
places that the certificate names. What it tests:

* the digests of the declaration and of the kernel file;
* that every recorded enclosure of log p, log q and the loss contains the value mpmath finds, and
  that the kernel is as close to it as the certificate says;
* that the kernel is right at places of the checker's own choice;
* that the certificate claims success only if each of its checks does, that none that counts is
  missing, and that no tolerance is wider than any kernel needs;
* the masses of P and Q, by mpmath quadrature or summation.

    python -m mechc.verify.recheck KERNEL.py CERTIFICATE.json
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import sympy

DIGITS = 60
NESTED = ("tag ", "density", "lattice", "finite")  # begins another declaration
LOWEST = mpmath.mpf("-1e310")
MOST_TERMS = 1_000_000
PATIENCE = 50  # negligible terms after which a sum ends
VALUES = ("log_p", "log_q", "loss")
NEEDED = {*VALUES, "atoms", "infinite_mass", "lattice", "masses", "reversal", "strip"}
BRANCHES = {"branches", "coverage", "pieces"}  # of a pair that is not a few outcomes
LOOSEST = 1e-13  # tolerance of what is computed by special functions of the output
OWN, TRIED = 3, 2  # places of the checker's own, at so many of the parameter vectors
STRIDE = 17  # from one of these to the next, as they are sorted
FARTHEST = -700  # log density up to which certificates speak
SLACK = 4.0  # room for the rounding of recorded errors
MASS = 1e-9


def recheck(kernel_path: str | Path, certificate: str | Path) -> list[str]:
    """Return what is wrong; an empty list is success.

    Args:
        kernel_path: the emitted module.
        certificate: the JSON file.
    """
    text = Path(kernel_path).read_text("utf-8")
    try:
        content = json.loads(Path(certificate).read_text("utf-8"))
        problems = _digests(text, content) + _claims(content)
        return problems or _compared(text, content)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, SyntaxError) as error:
        return [f"not a certificate: {type(error).__name__}: {error}"]


def _compared(text: str, content: dict[str, Any]) -> list[str]:
    pair, problems = Pair(content["canonical"]), []
    checks = {c["name"]: c for c in content["checks"]}
    with _loaded(text) as kernel, mpmath.workdps(DIGITS):
        for name in VALUES:
            if checks[name]["where"]:
                problems += _enclosed(pair, name, checks[name]["where"])
                problems += _value(kernel, pair, checks[name], **_place(checks[name]["where"]))
        for theta in content["vectors"][:TRIED]:
            for x in _own_places(pair, theta):
                for name in VALUES:
                    problems += _value(kernel, pair, checks[name], x, theta)
        problems += _masses(pair, content["vectors"][0])
    return problems


def _digests(text: str, content: dict[str, Any]) -> list[str]:
    problems = []
    if hashlib.sha256(text.encode()).hexdigest() != content["kernel_sha256"]:
        problems.append("the kernel file is not the one that was certified")
    digest = hashlib.sha256(content["canonical"].encode()).hexdigest()
    if digest != content["declaration_digest"]:
        problems.append("the declaration does not have the digest stated")
    return problems


def _claims(content: dict[str, Any]) -> list[str]:
    failed = [c["name"] for c in content["checks"] if c["failures"] or not c["ok"]]
    loose = [
        c["name"]
        for c in content["checks"]
        if c["kind"] == "values" and not float(c["max_error"]) <= float(c["tolerance"])
    ]
    problems = [f"{name} failed" for name in dict.fromkeys(failed + loose)]
    needed = NEEDED if content["canonical"].startswith("finite") else NEEDED | BRANCHES
    missing = needed - {c["name"] for c in content["checks"]}
    problems += [f"{name} has not been checked" for name in sorted(missing)]
    for check in content["checks"]:
        if check["kind"] == "values" and not float(check["tolerance"]) <= LOOSEST:
            problems.append(f"the tolerance of {check['name']} is wider than {LOOSEST:g}")
    vectors = [[float(v) for v in vector] for vector in content["vectors"]]
    thetas = [c["where"]["theta"] for c in content["checks"] if "theta" in c["where"]]
    if not vectors or any([float(v) for v in theta] not in vectors for theta in thetas):
        problems.append("a place is at none of the parameter vectors stated")
    if content["ok"] != (not failed):
        problems.append("the verdict is not that of the checks")
    return problems


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

    def log_density(self, law: str, theta: Any, x: float) -> Any:
        """Log density by mpmath; log mass on a finite set."""
        if self.measure == "finite":
            column = 1 if law == "p" else 2
            rows = [row for row in self.atoms if number(row[0], theta) == x]
            value = mpmath.fsum(number(row[column], theta) for row in rows)
        elif number(self.lo, theta) <= x <= number(self.hi, theta):
            value = function(self.p if law == "p" else self.q, theta)(mpmath.mpf(x))
        else:
            value = mpmath.mpf(0)
        return mpmath.log(value) if value != 0 else -mpmath.inf


def function(expr: Any, theta: Any) -> Any:
    """An expression as a function of x in mpmath, its parameters exact, its sums added up."""
    sums = {node: sympy.Dummy() for node in expr.atoms(sympy.Sum)}
    known = {s: _parameter(s, theta) for s in expr.free_symbols if s.name != "x_"}
    known |= {name: _total(node, theta) for node, name in sums.items()}
    x = next((s for s in expr.free_symbols if s.name == "x_"), sympy.Symbol("x_"))
    compiled = sympy.lambdify([x, *known], expr.xreplace(sums), [{"exp": _exp}, "mpmath"])
    return lambda at: compiled(at, *known.values())


def _exp(value: Any) -> Any:
    """Zero where not even the logarithm is a double, which mpmath would take ages to tell."""
    return mpmath.exp(value) if value > LOWEST else mpmath.mpf(0)


def number(expr: Any, theta: Any) -> Any:
    """The value of an expression without x."""
    return function(expr, theta)(mpmath.mpf(0))


def _parameter(symbol: Any, theta: Any) -> Any:
    return mpmath.mpf(float(theta[int(symbol.name.removeprefix("theta_"))]))


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
    "Add", "Mul", "Pow", "Integer", "Rational", "Symbol", "exp", "log", "Abs", "Max", "Min",
    "sign", "Piecewise", "ExprCondPair", "And", "Or", "Not", "StrictLessThan", "LessThan",
    "StrictGreaterThan", "GreaterThan", "Equality", "Unequality", "Tuple", "Sum", "gamma",
    "loggamma", "erf", "erfc",
    "besseli", "binomial", "factorial", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "sech",
    "csch", "coth", "asinh", "Heaviside", "floor", "ceiling", "Half",
}  # fmt: skip
_CONSTANTS = {
    name: getattr(sympy, name) for name in ("pi", "oo", "E", "true", "false")
}  # fmt: skip


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


@contextmanager
def _loaded(text: str) -> Iterator[Any]:
    """The kernel, from a copy elsewhere: machine code that lies beside the file is not trusted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(text, "utf-8")
        spec = importlib.util.spec_from_file_location("mechc_rechecked_kernel", path)
        if spec is None or spec.loader is None:
            raise ValueError(f"{path} is not a module")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        yield module


def _place(where: dict[str, Any]) -> dict[str, Any]:
    return {"x": float(where["x"]), "theta": where["theta"]}


def _enclosed(pair: Pair, name: str, where: dict[str, Any]) -> list[str]:
    """Whether a recorded enclosure contains the value."""
    truth = _truth(pair, name, **_place(where))
    if not mpmath.isfinite(truth):
        return []
    middle, radius = _ball(where["enclosure"])
    inside = abs(truth - middle) <= radius + abs(middle) * mpmath.mpf(10) ** -20
    return [] if inside else [f"{name}: {mpmath.nstr(truth, 20)} is outside {where['enclosure']}"]


def _value(kernel: Any, pair: Pair, check: dict[str, Any], x: float, theta: Any) -> list[str]:
    """Whether a kernel is as close as the certificate says at one place."""
    name, tolerance = check["name"], float(check["tolerance"])
    truth = _truth(pair, name, x, theta)
    found = float(getattr(kernel, name)(x, np.array(theta, dtype=float)))
    if not mpmath.isfinite(truth):
        right = found == float(truth) or mpmath.isnan(truth)
        return [] if right else [f"{name}({x}) is {found}, not {truth}"]
    distance = abs(found - truth)
    allowed = SLACK * tolerance * max(abs(truth), 1 + abs(x))
    if not distance <= allowed and not distance <= SLACK * _moved(pair, name, x, theta, tolerance):
        return [f"{name}({x}) is {found!r}, mpmath says {mpmath.nstr(truth, 20)}"]
    return []


def _own_places(pair: Pair, theta: Any) -> list[float]:
    """Outputs inside the support, some of those at growing distance from where anything happens."""
    if pair.measure == "finite":
        return [float(number(row[0], theta)) for row in pair.atoms]
    lo, hi = (number(end, theta) for end in (pair.lo, pair.hi))
    marks = {0.0, *_marks(pair.p, theta), *_marks(pair.q, theta)}
    places = [m * (1 + 1e-3) for m in _spread(sorted(marks))]
    if pair.measure == "lattice":
        places = [float(round(m)) for m in places]
    inside = sorted({m for m in places if lo < m < hi}, key=abs)
    mixed = (inside[i * STRIDE % len(inside)] for i in range(len(inside)))
    near = (x for x in mixed if pair.log_density("p", theta, x) > FARTHEST)
    return list(itertools.islice(near, OWN))


def _truth(pair: Pair, name: str, x: float, theta: Any) -> Any:
    """Log p, log q or the loss at x."""
    if name == "loss":
        return pair.log_density("p", theta, x) - pair.log_density("q", theta, x)
    return pair.log_density(name[-1], theta, x)


def _moved(pair: Pair, name: str, x: float, theta: Any, share: float) -> Any:
    """How far a value moves when parameters do by a share: a kernel can be no more accurate."""
    truth, total = _truth(pair, name, x, theta), mpmath.mpf(0)
    for i, value in enumerate(theta):
        moved = [*theta[:i], float(value) * (1.0 + share), *theta[i + 1 :]]
        total += abs(_truth(pair, name, x, moved) - truth)
    return total


def _ball(text: str) -> tuple[Any, Any]:
    """Middle and radius of a ball as it is written in a certificate."""
    inner = text.strip("[]")
    if "+/-" not in inner:
        return mpmath.mpf(inner), mpmath.mpf(0)
    middle, _, radius = inner.partition("+/-")
    return mpmath.mpf(middle.strip() or 0), mpmath.mpf(radius.strip())


def _masses(pair: Pair, theta: Any) -> list[str]:
    """Total masses to quadrature accuracy."""
    problems = []
    with mpmath.workdps(20):
        for column, law in enumerate("pq", start=1):
            total = mpmath.fsum(number(row[column], theta) for row in pair.atoms)
            if pair.measure != "finite":
                total += _mass(pair, law, theta)
            if abs(total - 1) > MASS:
                problems.append(f"{law} has mass {mpmath.nstr(total, 12)}")
    return problems


def _mass(pair: Pair, law: str, theta: Any) -> Any:
    expr = pair.p if law == "p" else pair.q
    value, (lo, hi) = function(expr, theta), (number(e, theta) for e in (pair.lo, pair.hi))
    if pair.measure == "lattice":
        return summed(value, lo, hi)
    marks = sorted({0.0, *_marks(expr, theta)})
    edges = [lo, *(m for m in _spread(marks) if lo < m < hi), hi]
    return mpmath.quad(value, edges)


def _marks(expr: Any, theta: Any) -> list[float]:
    """Where switches turn, and centres of exponents: zeros of what is affine in x."""
    (x,) = (s for s in expr.free_symbols if s.name == "x_")
    found = []
    gaps = [r.lhs - r.rhs for r in expr.atoms(sympy.core.relational.Relational)]
    for part in (*gaps, *expr.atoms(sympy.Add)):
        slope = part.diff(x)
        if part.has(x) and not slope.has(x) and (rate := number(slope, theta)):
            found.append(float(-number(part.xreplace({x: sympy.S.Zero}), theta) / rate))
    return found


def _spread(marks: list[float]) -> list[float]:
    """Points at growing distance from every mark, so that no peak is missed."""
    away = [0.0] + [s * 4.0**k for k in range(-3, 9) for s in (-1, 1)]
    return sorted({m + a for m in marks for a in away})


def main(arguments: list[str]) -> int:
    """Command line: print what is wrong; exit code 0 only if nothing is."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m mechc.verify.recheck KERNEL.py CERTIFICATE.json\n")
        return 2
    problems = recheck(*arguments)
    sys.stdout.write("\n".join(problems) + "\n" if problems else "re-verified\n")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
