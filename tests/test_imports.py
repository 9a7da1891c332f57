"""The direction of imports, read from the source, and what a numeric query may import."""

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mechc"

# from the ground up: a room imports from its own floor's rooms below it, never from above
FLOORS = (
    "hints", "errors", "adjacency", "protocol", "numeric", "symbolic", "declare", "calculus",
    "kernel", "loss", "accountants", "verify", "report", "composition", "reductions", "individual",
    "integrations", "cli", "__main__",
)  # fmt: skip

# behind the kernel: nothing here may import SymPy when a query on a cached kernel runs
NUMERIC = ("numeric", "accountants", "loss", "individual", "composition", "protocol", "errors",
           "hints")  # fmt: skip
NUMERIC_LIBRARIES = {"numpy", "scipy", "numba", "mpmath"}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def imports(path: Path, *, lazy: bool = True) -> set[str]:
    """Full names of what a file imports; without `lazy`, only at import time and not for types."""
    found: set[str] = set()
    for node in statements(parsed(path), lazy):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = names & SOURCES.keys()
            found |= modules or {node.module}
    return found


def statements(tree: ast.AST, lazy: bool):
    """All statements; without `lazy` neither functions nor TYPE_CHECKING blocks."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            continue
        if not lazy and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if not lazy and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        yield node
        yield from statements(node, lazy)


SOURCES = {module_name(path): path for path in PACKAGE.rglob("*.py")}


@cache
def graph() -> dict[str, set[str]]:
    """Which of our files each of them imports."""
    return {
        name: (imports(path) & SOURCES.keys()) - {name, "mechc"} for name, path in SOURCES.items()
    }


def room(name: str) -> str:
    return name.split(".")[1]


def test_no_relative_imports():
    for path in SOURCES.values():
        for node in statements(parsed(path), True):
            assert not (isinstance(node, ast.ImportFrom) and node.level), path


def test_imports_go_down():
    """Late imports and imports for types count: a circle that hides in a function is a circle."""
    for name, wanted in graph().items():
        for other in wanted:
            if name != "mechc":
                high, low = FLOORS.index(room(name)), FLOORS.index(room(other))
                assert low <= high, f"{name} imports {other}, of a higher floor"


def test_no_circles_of_files():
    done: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name in done:
            return
        path.append(name)
        for other in sorted(graph()[name]):
            visit(other)
        path.pop()
        done.add(name)

    for name in sorted(SOURCES.keys() - {"mechc"}):
        visit(name)


@pytest.mark.parametrize("start", NUMERIC)
def test_numeric_rooms_are_free_of_sympy(start):
    todo = [name for name in SOURCES if name != "mechc" and room(name) == start]
    assert todo, f"no room {start}"
    seen = set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        wanted = imports(SOURCES[name], lazy=False)
        assert not any(w.partition(".")[0] == "sympy" for w in wanted), name
        for other in wanted & SOURCES.keys():
            parts = other.split(".")  # a module runs the packages that it lies in
            todo += [".".join(parts[: i + 1]) for i in range(1, len(parts))]


def test_accountants_know_losses_only():
    """Accountants and losses use numeric libraries; of mechc, losses and the kernel protocol.

    And functions of numbers that kernels are printed with.
    """
    for name, path in SOURCES.items():
        if name != "mechc" and room(name) in ("accountants", "loss"):
            wanted = imports(path)
            tops = {w.partition(".")[0] for w in wanted}
            assert tops - sys.stdlib_module_names <= NUMERIC_LIBRARIES | {"mechc"}, name
            for other in graph()[name]:
                known = room(other) in (*FLOORS[:5], "accountants", "loss")
                assert known or other == "mechc.kernel.prelude", (
                    name,
                    other,
                )


@pytest.mark.parametrize("path", sorted((ROOT / "mechanisms").glob("*.py")), ids=lambda p: p.stem)
def test_mechanism_files_only_declare(path):
    for wanted in imports(path):
        assert wanted.startswith(("sympy", "mechc.declare")), wanted


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_")


def test_tests_ask_what_a_room_says_of_itself():
    """No test reaches into an underscored name of the package: what is tested has a name."""
    own, reached = set(), []
    for path in SOURCES.values():
        for node in ast.walk(parsed(path)):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                own.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                own.add(node.attr)
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        for node in ast.walk(parsed(path)):
            names = []
            if isinstance(node, ast.Attribute):
                names = [node.attr] * (getattr(node.value, "id", "") not in ("self", "cls"))
            elif isinstance(node, ast.ImportFrom):
                names = [alias.name for alias in node.names]
            reached += [f"{path.name}: {n}" for n in names if n in own and private(n)]
    assert not reached
