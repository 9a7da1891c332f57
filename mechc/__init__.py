"""mechc: a mechanism compiler for differential privacy.

The public names below are imported when they are first used: `import mechc` costs nothing, and
numeric work on a cached kernel never imports sympy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mechc.accountants.bound import Bound as Bound
    from mechc.calibration import calibrate as calibrate
    from mechc.composition import Composition as Composition
    from mechc.composition import Event as Event
    from mechc.composition import compose as compose
    from mechc.mechanism import Mechanism as Mechanism
    from mechc.mechanism import available as available
    from mechc.mechanism import load as load
    from mechc.mechanism import poisson as poisson
    from mechc.registry import methods as methods

__version__ = "0.1.0"

_HOME = {
    "Bound": "mechc.accountants.bound",
    "Composition": "mechc.composition",
    "Event": "mechc.composition",
    "Mechanism": "mechc.mechanism",
    "available": "mechc.mechanism",
    "calibrate": "mechc.calibration",
    "compose": "mechc.composition",
    "load": "mechc.mechanism",
    "methods": "mechc.registry",
    "poisson": "mechc.mechanism",
}
__all__ = [
    "Bound", "Composition", "Event", "Mechanism", "available", "calibrate", "compose", "load",
    "methods", "poisson",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'mechc' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*globals(), *_HOME])
