"""mechc: a mechanism compiler for differential privacy.

The public names below are imported when they are first used: `import mechc` costs nothing, and
numeric work on a cached kernel never imports sympy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mechc.accountants.bound import Bound as Bound
    from mechc.adjacency import Adjacency as Adjacency
    from mechc.calibration import calibrate as calibrate
    from mechc.composition import Composition as Composition
    from mechc.composition import Event as Event
    from mechc.composition import compose as compose
    from mechc.curves import rdp as rdp
    from mechc.curves import zcdp as zcdp
    from mechc.imported import from_losses as from_losses
    from mechc.imported import from_pmfs as from_pmfs
    from mechc.mechanism import Mechanism as Mechanism
    from mechc.mechanism import available as available
    from mechc.mechanism import load as load
    from mechc.mixing import mixture as mixture
    from mechc.operations import group as group
    from mechc.operations import poisson as poisson
    from mechc.operations import product as product
    from mechc.operations import random_sensitivity as random_sensitivity
    from mechc.operations import shift as shift
    from mechc.operations import truncate as truncate
    from mechc.operations import vector as vector
    from mechc.operations import with_replacement as with_replacement
    from mechc.operations import without_replacement as without_replacement
    from mechc.outputs import post_process as post_process
    from mechc.registry import methods as methods

__version__ = "0.1.0"

_HOME = {
    "Adjacency": "mechc.adjacency",
    "Bound": "mechc.accountants.bound",
    "Composition": "mechc.composition",
    "Event": "mechc.composition",
    "Mechanism": "mechc.mechanism",
    "available": "mechc.mechanism",
    "calibrate": "mechc.calibration",
    "compose": "mechc.composition",
    "from_losses": "mechc.imported",
    "from_pmfs": "mechc.imported",
    "group": "mechc.operations",
    "load": "mechc.mechanism",
    "methods": "mechc.registry",
    "mixture": "mechc.mixing",
    "poisson": "mechc.operations",
    "post_process": "mechc.outputs",
    "product": "mechc.operations",
    "random_sensitivity": "mechc.operations",
    "rdp": "mechc.curves",
    "shift": "mechc.operations",
    "truncate": "mechc.operations",
    "vector": "mechc.operations",
    "with_replacement": "mechc.operations",
    "without_replacement": "mechc.operations",
    "zcdp": "mechc.curves",
}
__all__ = [
    "Adjacency", "Bound", "Composition", "Event", "Mechanism", "available", "calibrate", "compose",
    "from_losses", "from_pmfs", "group", "load", "methods", "mixture", "poisson", "post_process",
    "product", "random_sensitivity", "rdp", "shift", "truncate", "vector", "with_replacement",
    "without_replacement", "zcdp",
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
