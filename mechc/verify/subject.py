"""What `mechc verify` is asked about: a mechanism, or an emitted kernel and what it came from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mechc
from mechc.adjacency import Adjacency
from mechc.errors import VerificationError
from mechc.kernel.cache import load
from mechc.kernel.statements import refusal
from mechc.mechanism import Mechanism


def find(name: str) -> tuple[Mechanism, Any]:
    """Return the mechanism, and the kernel module if a kernel file was named.

    Args:
        name: of a mechanism, or the path of a mechanism file or of an emitted kernel.

    Raises:
        VerificationError: the kernel's name leads to no known declaration.
    """
    path = Path(name)
    text = path.read_text("utf-8", "replace") if path.suffix == ".py" and path.is_file() else ""
    if not text or ("\nPROTOCOL = " not in text and refusal(text) is not None):
        return mechc.load(name), None
    kernel = load(path)
    return _source(str(getattr(kernel, "NAME", "")), _adjacency(kernel)), kernel


def _adjacency(kernel: Any) -> Adjacency:
    """The relation of a sample, which its name leaves open; a wrong one is found to be wrong."""
    claim = vars(kernel).get("CLAIM")
    replaces = isinstance(claim, dict) and claim.get("adjacency") == Adjacency.REPLACE
    return Adjacency.REPLACE if replaces else Adjacency.ADD_REMOVE


def _source(name: str, adjacency: Adjacency) -> Mechanism:
    """The mechanism of a kernel called "laplace" or "poisson(laplace)"."""
    sampled = re.fullmatch(r"poisson\((.*)\)", name)
    if sampled:
        return mechc.poisson(_source(sampled[1], adjacency), adjacency=adjacency)
    if name not in mechc.available():
        raise VerificationError(
            f"the kernel is called {name!r}, which is no known mechanism; add the folder of its "
            "declaration to MECHC_PATH"
        )
    return mechc.load(name)
