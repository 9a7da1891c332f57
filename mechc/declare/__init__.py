"""The words of a mechanism file: `from mechc.declare import additive, positive, real`.

Names are imported when they are first used: the catalogue of this room is read without SymPy.
"""

# ruff: noqa: F403, F405 - the names below, for type checkers
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mechc.declare.declaration import *

__all__ = [
    "Adjacency", "Claim", "Declaration", "Derived", "Moves", "Parameter", "Poisson", "Shift",
    "additive", "count", "dominates", "integer", "lists", "mechanism", "numbers", "parameter",
    "positive", "probabilities", "probability", "rate", "real", "shape",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a word of mechanism files on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'mechc.declare' has no attribute {name!r}")
    value = getattr(import_module("mechc.declare.declaration"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the words of mechanism files."""
    return __all__
