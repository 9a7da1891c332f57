"""The text that a module's work depends on: its own, and that of all it imports, however deep.

Imports are read from the text and never run, so that the digest of the compiler costs milliseconds
and no SymPy. Imports inside functions count, those for type checkers do not.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

FOR_TYPES = re.compile(r"^([ \t]*)if TYPE_CHECKING:\n(?:\1[ \t]+.*\n|[ \t]*\n)+", re.M)
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|.*)|import[ \t]+([\w.]+))", re.M
)


def closure(package: Path, entry: str) -> dict[str, Path]:
    """The modules of a package that one of them imports, itself included.

    Returns:
        Files by full name. The package's own `__init__`, which every import runs, is left out: it
        only says what the package offers.

    Raises:
        KeyError: there is no such module.
    """
    files = {_name(package, path): path for path in package.rglob("*.py")}
    found, todo = {entry: files[entry]}, [entry]
    while todo:
        name = todo.pop()
        text = FOR_TYPES.sub("", files[name].read_text("utf-8"))
        wanted = [name.rpartition(".")[0]]
        for source, names, module in IMPORT.findall(text):
            parts = re.findall(r"\w+", names)
            wanted += [module or source, *(f"{source}.{part}" for part in parts)]
        for one in wanted:
            if one in files and one != package.name and one not in found:
                found[one] = files[one]
                todo.append(one)
    return found


def digest(package: Path, entry: str) -> str:
    """Digest of the texts of `closure`; arguments as there."""
    total = hashlib.sha256()
    for name, path in sorted(closure(package, entry).items()):
        content = path.read_bytes()
        total.update(f"{name} {len(content)}\n".encode() + content)
    return total.hexdigest()


def _name(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")
