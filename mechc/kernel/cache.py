"""Kernels on disk: one immutable file a kernel, and an index of what was asked for.

    <directory>/kernels/<name>-<digest>.py       the text that `emit` wrote, sealed
    <directory>/kernels/__pycache__/             machine code, kept there by numba, and its seals
    <directory>/requests/<request key>           one line: the file name of the kernel

Invariants. A file appears complete or not at all (temporary name, then `os.replace`), and its name
holds the digest of its text, so that any number of processes may write at once and the last one
changes nothing. A file whose seal is broken (edited, truncated) is never loaded: `lookup` answers
None and the caller compiles again; machine code whose seal is broken is removed and made again.
Nothing here imports SymPy.

The directory is `MECHC_CACHE` if set, else the user's cache directory. If it cannot be written to
(or is full), a temporary directory takes its place for this process, with one `CacheWarning`.

The machine code that numba and CPython keep beside a kernel, and its seal.

A kernel's text carries its own seal; what was compiled from it lies in other files, which a disk or
a hand may damage too, and machine code that was changed answers wrongly or crashes. So their digest
is kept beside them, and code whose digest is another one, or missing, is compiled again.

The seal of a kernel text: its last line holds a digest of everything above it.

A kernel file that was edited, truncated or only half written does not pass `intact`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path
from threading import RLock
from typing import NamedTuple, cast

import platformdirs

from mechc.errors import CacheError, VerificationError
from mechc.kernel.selfcheck import require_agreement
from mechc.protocol import PROTOCOL, Kernel

SEAL = "seal"  # suffix of the file with the digest
UNFINISHED = ".tmp."  # in names of files that numba is still writing, in some process


def files(path: Path) -> list[Path]:
    """All finished files of the kernel at `path` besides its text, the seal included."""
    made = (path.parent / "__pycache__").glob(f"{path.stem}.*")
    return sorted(file for file in made if UNFINISHED not in file.name)


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


MARK = "# sha256 of the text above: "


def seal(text: str) -> str:
    """The text with its seal.

    Args:
        text: a module text that ends in a newline.
    """
    return f"{text}{MARK}{_digest(text)}\n"


def sealed(text: str) -> bool:
    """Whether a sealed text is as it was written."""
    body, mark, digest = text.rpartition(MARK)
    return bool(mark) and digest == f"{_digest(body)}\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


VARIABLE = "MECHC_CACHE"
ABANDONED = 3600.0  # seconds after which an unfinished file has no writer any more


class CacheWarning(UserWarning):
    """The cache directory cannot be used; kernels of this process live in a temporary one."""


class CacheEntry(NamedTuple):
    """One kernel in the cache: mechanism name, digest, path and size in bytes, code included."""

    name: str
    digest: str
    path: Path
    size: int


@functools.cache
def _versions() -> tuple[str, str]:
    return metadata.version("mechc"), metadata.version("sympy")


def request_key(origin: str, transforms: Iterable[object] = ()) -> str:
    """The key under which the answer to a request is found.

    Args:
        origin: digest of the text of the mechanism file, or of the canonical declaration.
        transforms: description of the transformations applied to it, in order.

    Returns:
        A digest that also covers the versions and the text of the compiler.
    """
    versions = [*_versions(), PROTOCOL, _compiler_digest()]
    text = json.dumps([origin, [repr(step) for step in transforms], versions])
    return hashlib.sha256(text.encode()).hexdigest()


def lookup(key: str) -> Kernel | None:
    """The kernel that was stored for a request, or None if there is none that is intact.

    Args:
        key: from `request_key`.
    """
    for home in _homes():
        with contextlib.suppress(OSError, UnicodeDecodeError):
            name = (home / "requests" / key).read_text(encoding="utf-8").strip()
            path = home / "kernels" / name
            if re.fullmatch(r"[\w.-]+\.py", name) and sealed(path.read_text(encoding="utf-8")):
                return _load(path)
    return None


def store(key: str, name: str, source: str) -> Kernel:
    """Write a kernel text, load it, and remember it as the answer to a request.

    Args:
        key: from `request_key`.
        name: of the mechanism.
        source: sealed text from `emit`.

    Returns:
        The loaded kernel.

    Raises:
        CacheError: the text is not sealed or does not load (then nothing of it is kept), or not
            even a temporary directory can be written.
        VerificationError: it computes other values than it was declared to (nothing is kept).
    """
    if not sealed(source):
        raise CacheError(f"{name}: the kernel text is damaged (its seal does not match)")
    try:
        return _store(_home(), key, name, source)
    except CacheError:
        raise
    except OSError as error:
        refusal = error
    try:
        _fall_back(refusal)
        return _store(_home(), key, name, source)
    except CacheError:
        raise
    except OSError as error:
        raise CacheError(f"{name}: cannot write the kernel anywhere: {error}") from error


def load(path: str | os.PathLike[str]) -> Kernel:
    """Load a kernel file from anywhere, unchecked: the caller vouches for it.

    Args:
        path: of an emitted module.

    Raises:
        CacheError: there is no such file, or it is not a kernel of this protocol.
    """
    if not Path(path).is_file():
        raise CacheError(f"{path} is not a file")
    module = _load(Path(path))
    if getattr(module, "PROTOCOL", None) != PROTOCOL:
        raise CacheError(f"{path} is not a kernel of protocol {PROTOCOL}")
    return module


def entries() -> list[CacheEntry]:
    """The kernels in the cache, sorted by name."""
    found = []
    for path in sorted((_home() / "kernels").glob("*.py")):
        name, _, digest = path.stem.rpartition("-")
        with contextlib.suppress(OSError):
            size = sum(file.stat().st_size for file in (path, *files(path)))
            found.append(CacheEntry(name, digest, path, size))
    return found


def size() -> int:
    """Bytes that the cache takes, machine code included."""
    return sum(entry.size for entry in entries())


def clear() -> int:
    """Remove every kernel, its machine code and the index.

    Returns:
        The number of kernels removed.

    Raises:
        CacheError: a file cannot be removed.
    """
    count = len(entries())
    try:
        for part in ("requests", "kernels"):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(_home() / part)
    except OSError as error:
        raise CacheError(f"cannot clear the cache: {error}") from error
    return count


def directory() -> Path:
    """The directory in use."""
    return _home()


def _store(home: Path, key: str, name: str, source: str) -> Kernel:
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    label = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "kernel"
    path = home / "kernels" / f"{label}-{digest}.py"
    try:
        present = path.read_text(encoding="utf-8") == source
    except (OSError, UnicodeDecodeError):
        present = False
    if not present:
        _write(path, source)
    try:
        kernel = _load(path)
        require_agreement(kernel)
    except (CacheError, VerificationError):
        path.unlink(missing_ok=True)
        forget(path)
        raise
    # the index last: a request never points at a kernel that did not load
    _write(home / "requests" / key, f"{path.name}\n")
    return kernel


def _write(path: Path, text: str) -> None:
    """Write a file so that it appears complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _sweep(folder: Path) -> None:
    """Remove what writers that were killed left unfinished, long enough ago to be sure."""
    for path in (*folder.glob(".writing-*"), *folder.glob(f"*{UNFINISHED}*")):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - ABANDONED:
                path.unlink()


_importing = RLock()  # a module that another thread is still executing is of no use


def _load(path: Path) -> Kernel:
    """Import a kernel file under a name of its own, once a process.

    Raises:
        OSError: the file cannot be read, or its machine code neither read nor written.
        CacheError: the file does not work as a module.
    """
    text = path.read_bytes()
    name = f"mechc_kernel_{hashlib.sha256(str(path).encode() + text).hexdigest()[:24]}"
    with _importing:
        if name in sys.modules:
            return cast(Kernel, sys.modules[name])
        if not intact(path):
            forget(path)
        kernel = _import_twice(name, path)
        with contextlib.suppress(OSError):  # without a seal the code is compiled again next time
            if not intact(path):
                _write(seal_of(path), digest(path))
        return kernel


def _import_twice(name: str, path: Path) -> Kernel:
    """Import; if that fails, once more from the text alone."""
    try:
        return _import(name, path)
    except OSError:
        raise
    except Exception:  # machine code of another machine, or damaged since it was looked at
        forget(path)
    try:
        return _import(name, path)
    except RuntimeError as error:
        if "cannot cache" in str(error):
            raise OSError(f"no place for machine code: {error}") from error
        raise CacheError(f"{path} does not load: {error}") from error
    except Exception as error:
        raise CacheError(f"{path} does not load: {type(error).__name__}: {error}") from error


def _import(name: str, path: Path) -> Kernel:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CacheError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return cast(Kernel, module)


_fallback: list[Path] = []
"""The temporary directory of this process, once it was needed."""


def _homes() -> list[Path]:
    return [*_fallback, _configured()]


def _home() -> Path:
    return _homes()[0]


def _configured() -> Path:
    chosen = os.environ.get(VARIABLE)
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("mechc", appauthor=False))


def _fall_back(error: OSError) -> None:
    """Use a temporary directory from now on, and say so once."""
    if _fallback:
        return
    _fallback.append(Path(tempfile.mkdtemp(prefix="mechc-")))
    warnings.warn(
        f"the kernel cache {_configured()} cannot be written ({error.strerror or error}); "
        f"kernels of this process go to {_fallback[0]}. Set {VARIABLE} to a writable directory.",
        CacheWarning,
        stacklevel=4,
    )


@cache
def _compiler_digest() -> str:
    """Digest of the text of the compiler, so that a change to it makes every entry stale."""
    package = Path(__file__).parent.parent
    rooms = [*package.glob("*.py"), *(package / "calculus").glob("*.py")]
    rooms += (package / "kernel").rglob("*.py")
    digest = hashlib.sha256()
    for path in sorted(rooms):
        digest.update(path.read_bytes())
    return digest.hexdigest()
