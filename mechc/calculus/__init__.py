"""Symbolic derivation: Pair in, Calculus out."""

from mechc.calculus.types import (
    Calculus,
    CalculusCase,
    Closed,
    Entry,
    Numeric,
    Region,
    Unavailable,
)

__all__ = ["Calculus", "CalculusCase", "Closed", "Entry", "Numeric", "Region", "Unavailable"]
