"""Faults planted in emitted kernels, one at a time, such kernels run as plain Python, and counted.

python tests/problems/mutants.py laplace gumbel     # a table; all mechanisms without names
"""

import ast
import itertools
import math
import re
import sys
import tempfile
import types
import warnings
from functools import cached_property, wraps
from pathlib import Path

import numpy as np
from built_in import as_python
from flint import ctx

import mechc
from mechc.verify import checks, kernel_checks
from mechc.verify.recheck.kernel import OF_LAW
from mechc.verify.result import Check

RELATIVE = 1e-9
HELPERS = ("solve_loss", "term_of_series", "series")  # called by other functions only
LOGS = ("log_p", "log_q")
SILENT = {"self_check", "breakpoints", "add_branch", "loss_inverse", *OF_LAW}
"""Functions that call others only, or that are the same in all kernels and known by digests."""


def run(text, path):
    """The kernel as a module without numba: a mutant is not worth compiling."""
    path.write_text(text)
    module = types.ModuleType("mutant")
    module.__file__ = str(path)
    as_python(text, module.__dict__)
    return module


def functions(tree):
    """Kernel functions: with `theta` among their arguments."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name not in SILENT:
            arguments = [a.arg for a in node.args.args]
            if "theta" in arguments and not re.fullmatch(r"loss_inverse_(\d+_)?many", node.name):
                yield node


class Mutator:
    """Applies change number `wanted` of one kind; knows how many there are."""

    def __init__(self, text):
        self.text = text

    def mutants(self, kind):
        """(where, text) for each place where a fault of this kind can be planted."""
        places = getattr(self, f"_{kind}")
        for number in range(sum(1 for _ in places(ast.parse(self.text)))):
            tree = ast.parse(self.text)
            for i, (where, plant) in enumerate(places(tree)):
                if i == number:
                    plant()
                    yield where, ast.unparse(ast.fix_missing_locations(tree)) + "\n"
                    break

    def _constant(self, tree):
        """A number changed by 1e-9 of its value."""
        for f in functions(tree):
            codes = _codes(f)
            for node in ast.walk(f):
                number = isinstance(node, ast.Constant) and isinstance(node.value, float)
                if number and node.value not in (0.0, math.inf) and id(node) not in codes:
                    yield f"{f.name}: {node.value!r}", lambda n=node: _scale(n)

    def _sign(self, tree):
        """A minus sign lost."""
        for f in functions(tree):
            codes = _codes(f)
            for node in ast.walk(f):
                for name, value in ast.iter_fields(node):
                    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
                        if id(value.operand) in codes or "inf" in ast.dump(value.operand):
                            continue
                        where = f"{f.name}: {ast.unparse(value)}"
                        yield where, lambda n=node, k=name, v=value: setattr(n, k, v.operand)

    def _swapped_difference(self, tree):
        """a - b written as b - a."""
        for f in functions(tree):
            for node in ast.walk(f):
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                    yield f"{f.name}: {ast.unparse(node)[:40]}", lambda n=node: _swap(n)

    def _branch(self, tree):
        """A branch of the loss left out."""
        for f in functions(tree):
            if f.name == "branches":
                for body in _bodies(f):
                    for node in body:
                        if isinstance(node, ast.Assign) and "add_branch(" in ast.unparse(node):
                            where = f"branches: {ast.unparse(node)[15:60]}"
                            yield where, lambda b=body, node=node: b.remove(node)

    def _case(self, tree):
        """A condition of a piecewise formula turned round."""
        for f in functions(tree):
            for node in ast.walk(f):
                if isinstance(node, ast.If) and "theta" not in ast.unparse(node.test):
                    where = f"{f.name}: if {ast.unparse(node.test)[:40]}"
                    yield where, lambda n=node: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))

    def _normaliser(self, tree):
        """An additive constant of a log density left out."""
        for f in functions(tree):
            if f.name.removesuffix("_many") in ("log_p", "log_q"):
                for node in ast.walk(f):
                    negative = isinstance(node, ast.UnaryOp)
                    negative = negative and isinstance(node.operand, ast.Constant)
                    if negative and node.operand.value > 0.6:
                        where = f"{f.name}: {ast.unparse(node)}"
                        yield where, lambda n=node: setattr(n.operand, "value", 0.0)

    def _atoms(self, tree):
        """Masses under P and Q exchanged."""
        for f in functions(tree):
            if f.name == "atoms" and "out[0, 1]" in ast.unparse(f):
                swap = ast.parse("out[:, [1, 2]] = out[:, [2, 1]]").body[0]
                yield "atoms: columns", lambda f=f, s=swap: f.body.insert(len(f.body) - 1, s)

    def _strip(self, tree):
        """A strip of convergence without ends."""
        for f in functions(tree):
            if f.name == "strip":
                wide = ast.parse("return np.array([-math.inf, math.inf])").body
                yield "strip", lambda f=f, wide=wide: setattr(f, "body", wide)


def _bodies(f):
    yield f.body
    for node in ast.walk(f):
        if isinstance(node, ast.If):
            yield node.body
            yield node.orelse


def _scale(node):
    node.value *= 1 + RELATIVE


def _swap(node):
    node.left, node.right = node.right, node.left


def _codes(f):
    """Numbers that are no numbers of mathematics: codes, rows and indices of branches."""
    found = set()
    for node in ast.walk(f):
        if isinstance(node, ast.Call) and "add_branch" in ast.unparse(node.func):
            for code in (node.args[4], node.args[7]):
                found |= {id(n) for n in ast.walk(code)}
    return found


class FoundError(BaseException):
    """A check failed: the rest need not run."""


class Stopping(Check):
    """A check that ends the verification when it fails."""

    def fail(self, message):
        raise FoundError(message)


class Detector:
    """Says whether verification finds a fault in a kernel of one mechanism.

    What depends on the declaration alone is computed once and remembered; the checks are those of
    `mechc verify`, without the ones that do not look at the kernel at all.
    """

    OF_THE_DECLARATION = ("pieces",)

    def __init__(self, mechanism, folder, level="quick"):
        self.mechanism, self.full = mechanism, level == "full"
        self.original = mechanism.kernel
        self.tolerance = kernel_checks.tolerance(mechanism.declaration, Check("", ""))
        self.plain = run(mechanism.source, folder / "original.py")
        runner = checks.Runner()
        _, found = checks.places(mechanism.declaration, self.original, self.full, runner)
        self.places = [place._replace(oracle=remembering(place.oracle)) for place in found]
        checks.compare(self.original, self.places, self.full, runner)
        assert all(check.ok for check in runner.checks.values()), mechanism.name

    def finds(self, kernel):
        """Whether a check fails."""
        runner = Planted(self.OF_THE_DECLARATION)
        with np.errstate(all="ignore"):
            try:
                checks.compare(kernel, self.places, self.full, runner)
            except FoundError:
                return True
            except (ArithmeticError, ValueError, IndexError, NameError):
                return True  # it does not even run
        return False

    def is_same(self, kernel, function):
        """Whether a function returns what the original does, to the tolerance of the checks.

        Compared on the places of the full level, hundreds of outputs for each.
        """
        with np.errstate(all="ignore"):
            return all(
                _agree(self.plain, kernel, name, place, self.tolerance)
                for place in self.many_places
                for name in self._public(function)
            )

    @cached_property
    def many_places(self):
        """Those of the full level."""
        runner = checks.Runner()
        return checks.places(self.mechanism.declaration, self.original, True, runner)[1]

    def _public(self, function):
        """The function itself; all that a kernel offers, for one that only others call."""
        if not function.startswith(HELPERS):
            return [function]
        tree = ast.parse(self.mechanism.source)
        return [f.name for f in functions(tree) if not f.name.startswith(HELPERS)]


class Planted(checks.Runner):
    """Runs the checks on a faulty kernel until one fails."""

    def __init__(self, left_out):
        super().__init__()
        self.left_out = left_out

    def __call__(self, name, kind, tolerance, run):
        if name not in self.left_out:
            self.checks.setdefault(name, Stopping(name, kind, tolerance))
            super().__call__(name, kind, tolerance, run)


def remembering(oracle):
    """The oracle, with a memory for what it was asked."""
    for name in ("raw_log_density", "moment", "mass", "part_mass", "infinite_mass", "is_bounded"):
        setattr(oracle, name, _remembered(getattr(oracle, name)))
    return oracle


def _remembered(method):
    known = {}

    @wraps(method)
    def answer(*arguments, **named):
        key = (*map(_key, arguments), *named.items(), ctx.prec)
        if key not in known:
            known[key] = method(*arguments, **named)
        return known[key]

    return answer


def _key(value):
    if hasattr(value, "man_exp"):
        return (value.mid().man_exp(), value.rad().man_exp())
    return (_key(value.real), _key(value.imag)) if hasattr(value, "rel_accuracy_bits") else value


def _agree(original, kernel, function, place, tolerance):
    """Whether two kernels agree in one function at one place."""
    theta = np.array(place.oracle.theta)
    if function == "lattice":
        return _on_lattice(original, kernel.lattice(theta), place, theta)
    for arguments in _arguments(original, function, place, theta):
        a, b = (_called(getattr(k, function), arguments) for k in (original, kernel))
        if a.shape != b.shape:
            return False
        scale = np.maximum(1.0, np.abs(a))
        if function.startswith("loss_inverse"):  # what counts is the loss at the place
            if abs(a - b) <= kernel_checks.NEAR_ENDS * np.spacing(np.abs(a)):
                continue  # as good where the loss is steep
            a, b = (np.array(original.loss(float(v), theta)) for v in (a, b))
        elif function.startswith("loss"):  # a difference of logs, to the accuracy of these
            xs = np.atleast_1d(arguments[0])
            scale += [sum(abs(original.__dict__[f](x, theta)) for f in LOGS) for x in xs]
        near = np.abs(a - b) <= tolerance * scale
        if not np.all(near | (a == b) | (np.isnan(a) & np.isnan(b))):
            return False
    return True


def _on_lattice(original, lattice, place, theta):
    """Whether all finite losses are where a lattice says."""
    if np.isnan(lattice[1]):
        return bool(np.isnan(original.lattice(theta)[1]))
    rows = np.asarray(original.atoms(theta))
    losses = [original.loss(x, theta) for x in _massive(original, place, theta)]
    losses = np.array([*losses, *(rows[:, 1] - rows[:, 2])])
    places = (losses[np.isfinite(losses)] - lattice[0]) / lattice[1]
    return bool(np.all(np.abs(places - np.rint(places)) <= 1e-12 * np.maximum(1.0, np.abs(places))))


def _called(function, arguments):
    """What a function returns, or writes."""
    out = function(*arguments)
    return np.array(arguments[-1] if out is None else out)


def _arguments(kernel, function, place, theta):
    """Arguments at which a function of two kernels is compared."""
    rng = np.random.default_rng(7)
    xs = _massive(kernel, place, theta, rng)
    if function in ("log_p", "log_q", "loss", "cdf_p", "sf_p", "cdf_q", "sf_q"):
        return [(x, theta) for x in xs]
    if function.endswith("_many"):
        return [(np.array(xs), theta, np.empty(len(xs)))]
    if function.startswith("loss_inverse"):
        return [(loss, theta) for loss in _range(kernel, function, xs, theta)[::9]]  # some iterate
    if function.startswith("cgf"):
        lo, hi = (float(end) for end in kernel.strip(theta))
        lo, hi = max(-8.0, lo), min(7.0, hi)
        places = [(lo + (hi - lo) * rng.random(), 10.0 ** rng.uniform(-2, 1.5)) for _ in range(20)]
        return [(complex(*z), theta) for z in places]
    return [(theta,)]  # of the parameters alone


def _range(kernel, function, xs, theta):
    """Losses within the range of the branch that an inverse belongs to: others it is not asked."""
    losses = []
    for lo, hi, _, *limits, index in np.asarray(kernel.branches(theta)):
        if index == int(function.rpartition("_")[2]):
            inside = [float(kernel.loss(x, theta)) for x in xs if lo <= x <= hi]
            losses += [v for v in inside if not (v <= min(limits) or v >= max(limits))]
    return losses


def _massive(kernel, place, theta, rng=None):
    """The outputs of a place, and some between them, where one of the laws has mass."""
    xs = sorted(place.outputs)
    if rng is not None:
        xs += [a + (b - a) * rng.random() for a, b in itertools.pairwise(xs) for _ in "abc"]
    if place.oracle.measure == "lattice":
        xs = [float(round(x)) for x in xs]
    return [x for x in xs if max(kernel.log_p(x, theta), kernel.log_q(x, theta)) > -np.inf]


KINDS = {
    "constant": "a constant changed by 1e-9 of its value",
    "sign": "a minus sign lost",
    "swapped_difference": "a - b written as b - a",
    "branch": "a branch of the loss left out",
    "case": "a condition of a piecewise formula turned round",
    "normaliser": "an additive constant of a log density left out",
    "atoms": "masses under P and Q exchanged",
    "strip": "a strip of convergence without ends",
}


def survey(mechanism, folder):
    """Plant every fault in a kernel: for each kind (found, changing nothing, places of missed)."""
    detector, rows = Detector(mechanism, folder), {}
    for kind in KINDS:
        found, same, missed = 0, 0, []
        for where, text in Mutator(mechanism.source).mutants(kind):
            kernel = run(text, folder / "mutant.py")
            if detector.finds(kernel):
                found += 1
            elif detector.is_same(kernel, where.partition(":")[0]):
                same += 1
            else:
                missed.append(where)
        rows[kind] = (found, same, missed)
    return rows


def main(names):
    """Print a row for each mechanism, then the sums as a table."""
    total = {kind: [0, 0, 0] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        for name in names or mechc.available():
            rows = survey(mechc.load(name), Path(folder))
            print(name, rows, flush=True)
            for kind, (found, same, missed) in rows.items():
                counts = (found, same, len(missed))
                total[kind] = [a + b for a, b in zip(total[kind], counts, strict=True)]
    print("\n| fault | planted | found | change nothing | missed |")
    print("| --- | --- | --- | --- | --- |")
    for kind, (found, same, missed) in total.items():
        print(f"| {KINDS[kind]} | {found + same + missed} | {found} | {same} | {missed} |")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])
