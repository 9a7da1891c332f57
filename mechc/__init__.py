"""mechc: a mechanism compiler for differential privacy.

The public names below are imported when they are first used: `import mechc` costs nothing, and
numeric work on a cached kernel never imports sympy.
"""

from __future__ import annotations

from importlib import import_module
from sys import modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mechc.accountants.bound import Bound as Bound
    from mechc.accountants.registry import methods as methods
    from mechc.adjacency import Adjacency as Adjacency
    from mechc.composition.allocation import random_allocation as random_allocation
    from mechc.composition.events import Composition as Composition
    from mechc.composition.events import Event as Event
    from mechc.composition.events import compose as compose
    from mechc.composition.mechanism import Mechanism as Mechanism
    from mechc.composition.mechanism import available as available
    from mechc.composition.mechanism import load as load
    from mechc.composition.operations import group as group
    from mechc.composition.operations import poisson as poisson
    from mechc.composition.operations import product as product
    from mechc.composition.operations import random_sensitivity as random_sensitivity
    from mechc.composition.operations import shift as shift
    from mechc.composition.operations import truncate as truncate
    from mechc.composition.operations import vector as vector
    from mechc.composition.operations import with_replacement as with_replacement
    from mechc.composition.operations import without_replacement as without_replacement
    from mechc.composition.queries.calibration import calibrate as calibrate
    from mechc.composition.queries.tournament import optimise as optimise
    from mechc.composition.queries.tournament import tournament as tournament
    from mechc.composition.radial import radial as radial
    from mechc.composition.renyi_curves import rdp as rdp
    from mechc.composition.renyi_curves import zcdp as zcdp
    from mechc.composition.run_file import open as open
    from mechc.composition.selection import repeat_and_select as repeat_and_select
    from mechc.composition.tables import from_losses as from_losses
    from mechc.composition.tables import from_pmfs as from_pmfs
    from mechc.composition.tables import mixture as mixture
    from mechc.composition.tables import post_process as post_process
    from mechc.composition.training import dpsgd as dpsgd
    from mechc.errors import MechcError as MechcError


__version__ = "0.1.0"

_HOME = {
    name: f"mechc.{module}"
    for module, names in {
        "accountants.bound": "Bound",
        "accountants.registry": "methods",
        "adjacency": "Adjacency",
        "composition.allocation": "random_allocation",
        "composition.queries.calibration": "calibrate",
        "composition.events": "Composition Event compose",
        "composition.mechanism": "Mechanism available load",
        "composition.operations": "group poisson product random_sensitivity shift "
        "truncate vector with_replacement without_replacement",
        "composition.radial": "radial",
        "composition.renyi_curves": "rdp zcdp",
        "composition.selection": "repeat_and_select",
        "composition.run_file": "open",
        "composition.tables": "from_losses from_pmfs mixture post_process",
        "composition.queries.tournament": "optimise tournament",
        "composition.training": "dpsgd",
        "errors": "MechcError",
    }.items()
    for name in names.split()
}
_MODULES = {
    "declare": "mechc.declare", "errors": "mechc.errors", "individual": "mechc.individual",
    "integrations": "mechc.integrations", "parse": "mechc.declare.text",
    "reductions": "mechc.reductions",
}  # fmt: skip
# without `open`, which `from mechc import *` would put in the place of Python's own
__all__ = sorted({*_HOME} - {"open"})


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(_MODULES[name])
    # Python adds what was meant, from the name and what `dir` says of the object
    here = modules[__name__]
    hint = "" if name[:1] == "_" else _meant(name, here)
    raise AttributeError(f"module 'mechc' has no attribute {name!r}{hint}", name=name, obj=here)


def _meant(name: str, here: Any) -> str:
    """What was meant by a name that there is not: a mechanism, a question, a word of others."""
    from mechc.hints import PACKAGE, QUESTIONS, meaning

    named = name.lower().removesuffix("mechanism").rstrip("_")
    if named in here.available():
        return f"; did you mean mechc.load({named!r})?"
    if elsewhere := meaning(name, (), PACKAGE):
        return f"; did you mean {elsewhere}?"
    questions = dir(here.Composition)
    asked = name if name in questions else meaning(name, questions, QUESTIONS)
    return f"; it is asked of a run, such as mechc.dpsgd(...).{asked}" if asked else ""


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(["__version__", *_HOME, *_MODULES])
