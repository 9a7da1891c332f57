"""The direction of imports, read from the source, and what a numeric query may import."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mechc"

# rooms that must never import SymPy, directly or through another room of mechc
NUMERIC = (
    "accountants", "loss", "individual", "kernel.ir", "kernel.passes", "kernel.emit",
    "kernel.prelude", "kernel.protocol", "kernel.cache", "composition", "queries", "evaluation",
    "search", "registry", "auto", "curve", "calibration", "tradeoff", "divergence", "binding",
    "inputs", "points",
    "adjacency", "errors",
)  # fmt: skip

# what else a room may import from mechc; rooms that are not listed are free but for the rules below
ALLOWED = {
    "accountants": ("accountants", "loss", "adjacency", "errors"),
    "loss": ("loss", "kernel.protocol", "errors"),
    "kernel.ir": ("kernel.ir", "kernel.protocol", "errors"),
    "kernel.passes": ("kernel", "errors"),
    "declare": ("parameters", "reading", "adjacency", "errors"),
    "pair": ("declare", "adjacency", "parameters", "cases", "claims", "masses", "terms", "pieces",
             "order", "shape", "numeric", "reading", "errors"),
}  # fmt: skip

NUMERIC_LIBRARIES = {"numpy", "scipy", "numba"}

# the lines where the application hands over to presentation, inside functions
HANDOVER = {
    ("mechanism", "present.explain"),
    ("mechanism", "present.report"),
    ("mechanism", "verify.certificate"),
    ("queries", "verify.certified"),
    ("queries", "verify.differential"),
    ("queries", "present"),
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports(path: Path, *, lazy: bool = True) -> set[str]:
    """Full names of the modules a file imports; without `lazy`, only those at import time."""
    found = set()
    for node in statements(ast.parse(path.read_text("utf-8")), lazy):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def statements(tree: ast.AST, lazy: bool):
    """All statements that run: TYPE_CHECKING blocks never do, functions only if `lazy`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if not lazy and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        yield node
        yield from statements(node, lazy)


SOURCES = {module_name(path): path for path in PACKAGE.rglob("*.py")}


def inside(name: str, room: str) -> bool:
    return name == f"mechc.{room}" or name.startswith(f"mechc.{room}.")


def test_no_relative_imports():
    for path in SOURCES.values():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            assert not (isinstance(node, ast.ImportFrom) and node.level), path


@pytest.mark.parametrize("room", NUMERIC)
def test_numeric_rooms_are_free_of_sympy(room):
    todo = [name for name in SOURCES if inside(name, room)]
    assert todo, f"no room {room}"
    seen = set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        wanted = imports(SOURCES[name], lazy=False)
        assert not any(w.partition(".")[0] == "sympy" for w in wanted), name
        todo += [w for w in wanted if w in SOURCES]


@pytest.mark.parametrize("room", ALLOWED)
def test_rooms_import_only_upstream(room):
    for name, path in SOURCES.items():
        if not inside(name, room):
            continue
        for wanted in imports(path):
            if wanted in SOURCES and wanted not in ("mechc", "mechc.kernel"):
                assert any(inside(wanted, allowed) for allowed in (room, *ALLOWED[room])), (
                    f"{name} imports {wanted}"
                )


def test_accountants_use_numeric_libraries_only():
    for name, path in SOURCES.items():
        if inside(name, "accountants") or inside(name, "loss"):
            tops = {wanted.partition(".")[0] for wanted in imports(path)}
            assert tops - sys.stdlib_module_names <= NUMERIC_LIBRARIES | {"mechc"}, name


def test_nothing_imports_the_outside():
    """`present`, `verify` and the command line may use everything; nothing uses them."""
    outside = ("present", "verify", "cli", "arguments")
    for name, path in SOURCES.items():
        if any(inside(name, room) for room in outside):
            continue
        for wanted in imports(path):
            for room in outside:
                pair = (name.removeprefix("mechc."), wanted.removeprefix("mechc."))
                if inside(wanted, room) and pair not in HANDOVER:
                    reached = wanted.rpartition(".")[0].removeprefix("mechc.")
                    assert (pair[0], reached) in HANDOVER, f"{name} imports {wanted}"


def test_symbolic_rooms_do_not_know_numbers():
    """Nothing symbolic imports losses, accountants or queries."""
    symbolic = (
        "declare",
        "parameters",
        "pair",
        "pieces",
        "terms",
        "transform",
        "calculus",
        "parse",
    )
    numeric = ("loss", "accountants", "composition", "queries", "individual")
    for name, path in SOURCES.items():
        if any(inside(name, room) for room in symbolic):
            for wanted in imports(path):
                assert not any(inside(wanted, room) for room in numeric), f"{name} imports {wanted}"


@pytest.mark.parametrize("path", sorted((ROOT / "mechanisms").glob("*.py")), ids=lambda p: p.stem)
def test_mechanism_files_only_declare(path):
    for wanted in imports(path):
        assert wanted.partition(".")[0] in {"sympy", "mechc"}
        assert wanted.startswith(("sympy", "mechc.declare")), wanted


def in_fresh_process(code: str) -> str:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_mechc_imports_nothing_heavy():
    loaded = in_fresh_process("import sys, mechc; print(*sys.modules)").split()
    for heavy in ("sympy", "numba", "scipy", "numpy", "rich", "typer", "matplotlib"):
        assert heavy not in loaded


def test_a_cached_query_does_not_import_sympy():
    code = (
        "import sys, mechc\n"
        "g = mechc.poisson(mechc.load('gaussian'), sampling_rate=0.01)\n"
        "print((1000 * g(sigma=1.0)).epsilon(1e-5).upper, 'sympy' in sys.modules)\n"
    )
    in_fresh_process(code)  # compiles, if no earlier test has
    epsilon, imported = in_fresh_process(code).split()
    assert float(epsilon) > 0
    assert imported == "False"


def test_public_names_exist():
    import mechc

    for name in mechc.__all__:
        assert getattr(mechc, name) is not None
    assert set(mechc.__all__) <= set(dir(mechc))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mechc.nothing  # noqa: B018
