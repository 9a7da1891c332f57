"""Faults planted in emitted kernels, one at a time, and such kernels run as plain Python."""

import ast
import contextlib
import math
import re
import types

import numpy as np

from mechc.kernel.run import IEEE

RELATIVE = 1e-9
SILENT = {"self_check", "breakpoints", "add_branch"}


def run(text, path):
    """The kernel as a module without numba: a mutant is not worth compiling."""
    path.write_text(text)
    module = types.ModuleType("mutant")
    module.__file__ = str(path)
    plain = re.sub(r"^import (math|numba|numpy as np)$", "", text, flags=re.M)
    plain = plain.replace("@numba.njit(", "@_njit(")
    namespace = module.__dict__
    namespace.update(math=IEEE, np=np, _njit=lambda *a, **k: lambda f: f)
    exec(compile(plain, str(path), "exec"), namespace)
    return module


def functions(tree):
    """Kernel functions: with `theta` among their arguments."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name not in SILENT:
            arguments = [a.arg for a in node.args.args]
            if "theta" in arguments and not node.name.startswith("loss_inverse_many"):
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


@contextlib.contextmanager
def quiet():
    with np.errstate(all="ignore"):
        yield
