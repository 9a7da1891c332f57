"""The machine code that numba keeps for a kernel, and its seal.

A kernel's text carries its own seal; what was compiled from it lies in other files, which a disk or
a hand may damage too, and machine code that was changed answers wrongly or crashes. So their digest
is kept in the cache, wherever numba puts them, and code whose digest is another one, or missing, is
compiled again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SEAL = "seal"  # suffix of the file with the digest
UNFINISHED = ".tmp."  # in names of files that numba is still writing, in some process


def files(path: Path) -> list[Path]:
    """All finished files of the kernel at `path` besides its text, the seal included."""
    made = {file for folder in _folders(path) for file in folder.glob(f"{path.stem}.*")}
    return sorted(file for file in made if UNFINISHED not in file.name)


def _folders(path: Path) -> Iterator[Path]:
    """Where machine code of a kernel may lie: in the cache, and where numba has been told to."""
    yield path.parent / "__pycache__"
    if os.environ.get("NUMBA_CACHE_DIR"):
        from numba.core.caching import UserProvidedCacheLocator

        find: Any = UserProvidedCacheLocator.get_suitable_cache_subpath
        yield Path(os.environ["NUMBA_CACHE_DIR"]) / find(str(path))


def seal_of(path: Path) -> Path:
    """Where the digest of a kernel's machine code is kept."""
    return path.parent / "__pycache__" / f"{path.stem}.{SEAL}"


def digest(path: Path) -> str:
    """Digest of the machine code as it is now.

    Raises:
        OSError: a file cannot be read.
    """
    total = hashlib.sha256()
    for file in files(path):
        if file.suffix != f".{SEAL}":
            content = file.read_bytes()
            total.update(f"{file.name} {len(content)}\n".encode() + content)
    return f"{total.hexdigest()}\n"


def intact(path: Path) -> bool:
    """Whether the machine code is what was sealed; True if there is none.

    Raises:
        OSError: a file cannot be read.
    """
    if not files(path):
        return True
    try:
        return seal_of(path).read_bytes() == digest(path).encode()
    except FileNotFoundError:
        return False


def forget(path: Path) -> None:
    """Remove it; numba will make it again.

    Raises:
        OSError: a file cannot be removed.
    """
    for file in files(path):
        file.unlink(missing_ok=True)
