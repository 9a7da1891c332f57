"""What `mechc verify` is asked about: a mechanism, or an emitted kernel and what it came from."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import mechc
from mechc.adjacency import Adjacency
from mechc.composition.mechanism import Mechanism
from mechc.errors import VerificationError
from mechc.kernel.cache import MARK, load
from mechc.kernel.statements import refusal

SIGN_OF_A_KERNEL = re.compile(
    r"^\s*(PROTOCOL|DIGEST|CHECKS|CAPABILITIES)\b.*=|@\s*compiled\b|" + MARK.strip("# \n:"), re.M
)


def find(name: str) -> tuple[Mechanism, Any]:
    """Return the mechanism of a name or path, and the kernel module if a kernel file was named.

    A file in which anything is as in kernels is a kernel, and runs only if it is one altogether;
    any other is a mechanism file, and runs.
    """
    path = Path(os.path.expanduser(name))
    is_path = (name.endswith(".py") or os.sep in name) and path.is_file()
    text = path.read_text("utf-8", "replace") if is_path else ""
    if not text or (not SIGN_OF_A_KERNEL.search(text) and refusal(text) is not None):
        return mechc.load(name), None
    kernel = load(path)
    claim = vars(kernel).get("CLAIM")  # of a sample its name leaves the relation open
    replaces = isinstance(claim, dict) and claim.get("adjacency") == Adjacency.REPLACE
    adjacency = Adjacency.REPLACE if replaces else Adjacency.ADD_REMOVE  # found out if wrong
    return _source_of(str(getattr(kernel, "NAME", "")), adjacency), kernel


def _source_of(name: str, adjacency: Adjacency) -> Mechanism:
    """The mechanism of a kernel called "laplace" or "poisson(laplace)"."""
    sampled = re.fullmatch(r"poisson\((.*)\)", name)
    if sampled:
        return mechc.poisson(_source_of(sampled[1], adjacency), adjacency=adjacency)
    if name not in mechc.available():
        raise VerificationError(
            f"the kernel is called {name!r}, which is no known mechanism; add the folder of its "
            "declaration to MECHC_PATH"
        )
    return mechc.load(name)
