"""Built-in mechanisms, plain and transformed, as declarations and as emitted texts."""

import importlib
from functools import cache
from pathlib import Path

from mechc import mechanisms
from mechc.calculus import transform
from mechc.kernel.compiler import compile_declaration

LENGTHS = {"random_sensitivity": (3,), "with_replacement": (3,)}
GOLDEN = Path(__file__).parent.parent / "golden"


@cache
def declaration(name):
    """A built-in declaration; "poisson(laplace)" is the sampled one, and so on."""
    outer, opened, base = name.partition("(")
    if not opened:
        return getattr(importlib.import_module(f"mechc.mechanisms.{name}"), name)
    return getattr(transform, outer)(declaration(base[:-1]), *LENGTHS.get(outer, ()))


@cache
def source(name):
    """The emitted text of a built-in mechanism, compiled once a session."""
    return compile_declaration(declaration(name))


def built_in():
    """Names of all mechanisms that come with mechc."""
    files = Path(mechanisms.__file__).parent.glob("[!_]*.py")
    return sorted(path.stem for path in files)
