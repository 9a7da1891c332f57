"""The words of a mechanism file: `from mechc.declare import additive, positive, real`.

Names are imported when they are first used: the catalogue of this room is read without SymPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mechc.declare.declaration import Adjacency as Adjacency
    from mechc.declare.declaration import Claim as Claim
    from mechc.declare.declaration import Declaration as Declaration
    from mechc.declare.declaration import Derived as Derived
    from mechc.declare.declaration import Moves as Moves
    from mechc.declare.declaration import Parameter as Parameter
    from mechc.declare.declaration import Poisson as Poisson
    from mechc.declare.declaration import Shift as Shift
    from mechc.declare.declaration import additive as additive
    from mechc.declare.declaration import count as count
    from mechc.declare.declaration import dominates as dominates
    from mechc.declare.declaration import integer as integer
    from mechc.declare.declaration import lists as lists
    from mechc.declare.declaration import mechanism as mechanism
    from mechc.declare.declaration import numbers as numbers
    from mechc.declare.declaration import parameter as parameter
    from mechc.declare.declaration import positive as positive
    from mechc.declare.declaration import probabilities as probabilities
    from mechc.declare.declaration import probability as probability
    from mechc.declare.declaration import rate as rate
    from mechc.declare.declaration import real as real
    from mechc.declare.declaration import shape as shape

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
