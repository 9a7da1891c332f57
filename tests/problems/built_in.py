"""Built-in mechanisms, plain and transformed, as declarations and as emitted texts."""

import importlib
import math
import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from mechc import mechanisms
from mechc.calculus import transform
from mechc.kernel import build
from mechc.kernel.printer import IEEE

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
    """The emitted text of a built-in mechanism, out of the cache that all tests share."""
    return build.source(build.kernel(declaration(name), ()))


def as_python(text, namespace):
    """Run a kernel text without numba, its functions into a namespace: nothing is compiled."""
    plain = re.sub(r"^import (math|numba|numpy as np)$", "", text, flags=re.M)
    plain = plain.replace("@compiled(", "@_njit(")
    numbers = SimpleNamespace(**{**vars(math), **vars(IEEE)})
    namespace.update(math=numbers, np=np, _njit=lambda *a, **k: lambda f: f)
    exec(compile(plain, namespace.get("__file__", "kernel"), "exec"), namespace)
    return namespace


def built_in():
    """Names of all mechanisms that come with mechc."""
    files = Path(mechanisms.__file__).parent.glob("[!_]*.py")
    return sorted(path.stem for path in files)
