"""Kernels on disk: one immutable file a kernel, and an index of what was asked for.

    <directory>/kernels/<name>-<digest>.py       the text that `emit` wrote, sealed
    <directory>/kernels/__pycache__/             machine code, kept there by numba, and its seals
    <directory>/shared/                          what kernels paste, and its machine code
    <directory>/requests/<request key>           the key, the file name of the kernel, a seal
    <directory>/derived/<key>                    what else was derived of a declaration, likewise

Invariants. A file appears complete or not at all (temporary name, then `os.replace`), and its name
holds the digest of its text, so that any number of processes may write at once and the last one
changes nothing. A file whose seal is broken or whose digest is not that of its name (edited,
truncated), or that another user owns or can write to, is never loaded: `lookup` answers None and
the caller compiles again; machine code whose seal is broken is removed and made again. What is
loaded is the text that was read and found to hold only the statements of a kernel (`statements`),
never bytecode. Nothing here imports SymPy.

The directory is `MECHC_CACHE` if set, else the user's cache directory; it is made for its owner
alone. One that belongs to somebody else, or that others can write to, is not used: who writes there
chooses what is run. Nor is one that cannot be written to or is full. A temporary directory takes
its place for this process, with one `CacheWarning`.

The last line of a kernel text is its seal, a digest of everything above it. Machine code lies in
other files, and if it was changed it answers wrongly or crashes: so the digest of each of these
files is kept in the cache, wherever numba puts them, and code whose digest is another one, or
missing, is compiled again. An array form, which is what queries use, is held against the reference
values of the text when it is compiled, and sealed only then; if it differs, it never answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache, partial
from importlib import metadata
from itertools import starmap
from pathlib import Path
from threading import RLock
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import platformdirs

from mechc import __version__
from mechc.errors import CacheError, VerificationError, in_words
from mechc.kernel.statements import TOLERANCE, refusal
from mechc.protocol import PROTOCOL, Kernel

PARTS = ("requests", "kernels", "derived", "shared")  # of the directory
SEAL = "seal"  # suffix of the file with the digest
UNFINISHED = ".tmp."  # in names of files that numba is still writing, in some process
UNWRITTEN = ".writing-"  # begins those of files of ours


def files(path: Path, function: str = "") -> list[Path]:
    """Finished files of the kernel at `path`, or of one function; of all, the seal too."""
    begin, found = f"{path.stem}.{function}", set()
    for folder in _folders(path):
        found |= {folder / name for name in _names(folder) if name.startswith(begin)}
    return sorted(file for file in found if UNFINISHED not in file.name)


def _names(folder: Path) -> list[str]:
    """Names in a folder, of which there may be thousands, none where it cannot be read."""
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def _folders(path: Path) -> Iterator[Path]:
    """Where machine code of a kernel may lie: in the cache, and where numba has been told to."""
    yield path.parent / "__pycache__"
    if os.environ.get("NUMBA_CACHE_DIR"):
        from numba.core.caching import _CacheLocator  # its name in all versions since 0.60

        find: Any = _CacheLocator.get_suitable_cache_subpath
        yield Path(os.environ["NUMBA_CACHE_DIR"]) / find(str(path))


def seal_of(path: Path) -> Path:
    """Where the digest of a kernel's machine code is kept."""
    return path.parent / "__pycache__" / f"{path.stem}.{SEAL}"


def digests(path: Path, function: str = "") -> dict[str, str]:
    """Digests of the machine code as it is now, of one function or of all, by names of files."""
    return _digests_of(path, files(path, function))


def _digests_of(path: Path, listed: Iterable[Path]) -> dict[str, str]:
    """Those of some of a kernel's files, but for the seal."""
    found = {}
    for file in listed:
        if file != seal_of(path):
            with contextlib.suppress(FileNotFoundError):  # removed by another process just now
                found[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def _sealed_digests(path: Path) -> dict[str, str]:
    """Digests as they were sealed."""
    with contextlib.suppress(OSError, ValueError):
        lines = _own(seal_of(path)).splitlines()
        return dict(line.split(" ") for line in lines if line.count(" ") == 1)
    return {}


def seal_code(path: Path, function: str) -> None:
    """Seal the machine code of one function, which was made just now."""
    made = {**_sealed_digests(path), **digests(path, f"{function}-")}
    _write(seal_of(path), "".join(f"{name} {digest}\n" for name, digest in made.items()))


def forget(path: Path, function: str = "", *, damaged: bool = False) -> None:
    """Remove machine code, or only what is not as it was sealed; numba will make it again."""
    listed = files(path, function)
    sound = _sealed_digests(path).items() & _digests_of(path, listed).items() if damaged else set()
    kept = {name for name, _ in sound} | ({seal_of(path).name} if damaged else set())
    for file in listed:
        if file.name not in kept:
            file.unlink(missing_ok=True)


MARK = "# sha256 of the text above: "


def seal(text: str) -> str:
    """The text, which ends in a newline, with its seal."""
    return f"{text}{MARK}{_digest(text)}\n"


def sealed(text: str) -> bool:
    """Whether a sealed text is as it was written."""
    body, mark, digest = text.rpartition(MARK)
    return bool(mark) and digest == f"{_digest(body)}\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


COMPILER = (
    *(f"{name}.py" for name in ("adjacency", "errors", "hints", "protocol")),
    *(f"{room}/**/*.py" for room in ("numeric", "symbolic", "declare", "calculus", "kernel")),
)
"""What a kernel depends on: the compiler imports nothing else (`tests/test_imports.py`)."""
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


def request_key(origin: str, transforms: Iterable[object] = ()) -> str:
    """The key under which the answer to a request is found.

    Args:
        origin: digest of the text of the mechanism file, or of the canonical declaration.
        transforms: description of the transformations applied to it, in order.

    Returns:
        A digest that also covers the versions and the text of the compiler.
    """
    return _request_key(origin, tuple(transforms), PROTOCOL, _compiler_digest())


@lru_cache(maxsize=1024)
def _request_key(origin: str, transforms: tuple[object, ...], protocol: int, compiler: str) -> str:
    return _digest(json.dumps([origin, [*map(repr, transforms)], protocol, compiler]))


def lookup(key: str) -> Kernel | None:
    """The kernel that was stored for a request, or None if there is none that is intact."""
    for home in _homes():
        with contextlib.suppress(OSError, ValueError):  # what does not load is made again too
            name = _under_key(home / "requests" / key)
            path = home / "kernels" / name
            if not re.fullmatch(r"[\w.-]+\.py", name):
                continue
            text = _own(path)
            if sealed(text) and path.stem.endswith(f"-{_digest(text)[:16]}"):
                return _load(path, text)
    return None


def store(key: str, name: str, source: str) -> Kernel:
    """Write a kernel text, load it, and remember it as the answer to a request.

    Raises:
        CacheError: the text is not sealed or does not load (then nothing of it is kept), or not
            even a temporary directory can be written.
    """
    if not sealed(source):
        raise CacheError(f"{name}: the kernel text is damaged (its seal does not match)")
    return _anywhere(name, lambda home: _store(home, key, name, source))


def load(path: str | os.PathLike[str]) -> Kernel:
    """Load a kernel file from anywhere: from a copy, for machine code beside it is not trusted.

    It holds only statements of a kernel; whether they compute what they should is not looked at.

    Raises:
        CacheError: there is no such file, or it is not a kernel of this protocol.
    """
    try:
        text = Path(path).read_text("utf-8")
    except FileNotFoundError:
        raise CacheError(f"{path} is not a file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CacheError(f"{path} cannot be read: {error}") from error
    module = _anywhere(str(path), lambda home: _load(_written(home, Path(path).stem, text), text))
    if getattr(module, "PROTOCOL", None) != PROTOCOL:
        raise CacheError(f"{path} is not a kernel of protocol {PROTOCOL}")
    return module


def recall(key: str) -> Any:
    """What was kept under a key, or None if there is nothing that is intact."""
    for home in _homes():
        with contextlib.suppress(OSError, ValueError):
            if found := _under_key(home / "derived" / key):
                return json.loads(found)
    return None


def keep(key: str, found: Any) -> None:
    """Keep what JSON can hold; where it cannot be written it is found again next time."""
    with contextlib.suppress(OSError):
        _write_key(directory() / "derived" / key, json.dumps(found))


def _write_key(path: Path, text: str) -> None:
    """Write what is kept under a key: the key, the text, and a seal for both."""
    _write(path, seal(f"{path.name} {text}\n"))


def _own(path: Path) -> str:
    """The text of a file that is ours, and that nobody else can write, or an OSError."""
    with path.open(encoding="utf-8") as stream:
        if reason := _shared(os.fstat(stream.fileno())):
            raise PermissionError(f"{path} {reason}")
        return stream.read()


def _under_key(path: Path) -> str:
    """What was written so, "" where it is not intact, or was written under another key."""
    text = _own(path)
    key, _, found = text.rpartition(MARK)[0].partition(" ")
    return found.strip() if sealed(text) and key == path.name else ""


def derived_key(*asked: Any) -> str:
    """The key of what all of this version of mechc, and what it stands on, finds when asked."""
    return _digest(json.dumps([asked, _foundations()]))


def _anywhere(name: str, write: Callable[[Path], Kernel]) -> Kernel:
    """What `write` makes of the directory in use, or of a temporary one if there it cannot."""
    try:
        return write(directory())
    except CacheError:
        raise
    except OSError as error:
        if _fallback:
            raise CacheError(f"{name}: cannot write the kernel anywhere: {error}") from error
        _fall_back(f"cannot be written ({in_words(error)})")
    return _anywhere(name, write)


def entries() -> list[CacheEntry]:
    """The kernels in the cache, sorted by name."""
    found = []
    for path in sorted((directory() / "kernels").glob("*.py")):
        name, _, digest = path.stem.rpartition("-")
        with contextlib.suppress(OSError):
            size = sum(file.stat().st_size for file in (path, *files(path)))
            found.append(CacheEntry(name, digest, path, size))
    return found


def clear() -> int:
    """Remove all kernels, machine code, the index and what else was derived; how many kernels."""
    count = len(entries())
    try:
        for part in PARTS:
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(directory() / part)
    except OSError as error:
        raise CacheError(f"cannot clear the cache: {error}") from error
    return count


def _written(home: Path, name: str, source: str, part: str = "kernels") -> Path:
    """The file of a kernel text in a cache, written unless it is there."""
    label = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[:80] or "kernel"
    path = home / part / f"{label}-{_digest(source)[:16]}.py"
    try:
        present = _own(path) == source
    except (OSError, ValueError):
        present = False
    if not present:
        _write(path, source)
    return path


def _store(home: Path, key: str, name: str, source: str) -> Kernel:
    path = _written(home, name, source)
    try:
        kernel = _load(path, source)
    except CacheError:
        path.unlink(missing_ok=True)
        raise
    # the index last: a request never points at a kernel that did not load
    _write_key(home / "requests" / key, path.name)
    return kernel


def _require_agreement(kernel: Kernel, form: str, made: Callable[..., None]) -> None:
    """Hold the machine code of an array form against the reference values in the kernel's text."""
    # Small values count as one: a loss may be 1e-17 where log p is 3. An inverse may also have the
    # loss that it was asked for: where the loss is flat, x has few digits.
    name, _, many = form.rpartition("_")
    for theta, rows in getattr(kernel, "CHECKS", ()) if many == "many" else ():
        at, pairs = np.array(theta), []
        for x, p, q, ell, branch, back in rows:
            values = {"log_p": (x, p), "log_q": (x, q), "loss": (x, ell)}
            values[f"loss_inverse_{branch}"] = (ell, back)
            if values.get(name, (x, None))[1] is not None:
                pairs.append(values[name])
        if not pairs:
            continue
        arguments, expected = np.array(pairs).T.copy()
        answers, loss = np.empty((2, len(pairs)))
        made(arguments, at, answers)
        agree = np.isclose(answers, expected, 0.0, TOLERANCE * np.maximum(1.0, np.abs(expected)))
        if name.startswith("loss_inverse") and not agree.all():
            kernel.loss_many(answers, at, loss)
            agree |= np.isclose(loss, arguments, 0.0, TOLERANCE * np.maximum(1.0, abs(arguments)))
        for i in np.flatnonzero(~agree):
            at_x, found, truth = map(float, (arguments[i], answers[i], expected[i]))
            raise VerificationError(
                f"{kernel.NAME}: {name}({at_x!r}) at parameters {theta} is {found!r} in the kernel "
                f"and {truth!r} in the declaration; no answer is given. A part of the formula may "
                "overflow or cancel: write x + log(1 + exp(-2*x)) for log(2*cosh(x)), or report it"
            )


def _write(path: Path, text: str) -> None:
    """Write a file of the cache, and sweep its folder."""
    for folder in reversed((path.parent, *path.parent.parents)):
        if not folder.exists():
            folder.mkdir(0o700, exist_ok=True)
    for name in _names(path.parent):
        if name.startswith(UNWRITTEN) or UNFINISHED in name:
            left = path.parent / name
            with contextlib.suppress(OSError):  # of writers that were killed, long ago
                if left.stat().st_mtime < time.time() - ABANDONED:
                    left.unlink()
    write_whole(path, text, 0o600)


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a file so that it appears complete or not at all."""
    temporary = path.with_name(f"{UNWRITTEN}{secrets.token_hex(4)}")
    try:
        with open(temporary, "x", encoding="utf-8", opener=partial(os.open, mode=mode)) as stream:
            stream.write(text)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


_importing = RLock()  # a module that another thread is still executing is of no use


def _load(path: Path, text: str) -> Kernel:
    """Run a kernel text as the module of its file, under a name of its own, once a process."""
    name = f"mechc_kernel_{hashlib.sha256(f'{path}{text}'.encode()).hexdigest()[:24]}"
    with _importing:
        if name in sys.modules:
            return cast(Kernel, sys.modules[name])
        stranger = refusal(text)
        if stranger is not None:
            raise CacheError(f"{path} does not load: {stranger}")
        with contextlib.suppress(OSError):  # made here, for numba would make it as the umask says
            seal_of(path).parent.mkdir(0o700, exist_ok=True)
        module = KernelModule(name)
        module.__file__, module.__text__ = str(path), text  # type: ignore[attr-defined]
        sys.modules[name] = module
        try:
            exec(compile(text, str(path), "exec"), vars(module))
        except BaseException as error:
            del sys.modules[name]
            if not isinstance(error, Exception):
                raise
            raise CacheError(f"{path} does not load: {type(error).__name__}: {error}") from error
        kernel = cast(Kernel, module)
        numba = SimpleNamespace(njit=partial(_njit, path, kernel))
        module.numba = numba  # type: ignore[attr-defined]
        return kernel


class KernelModule(ModuleType):
    """A kernel that was loaded; laws that hold one can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path of the file, which is loaded again."""
        return load, (str(self.__file__),)


def _njit(path: Path, kernel: Kernel, types: str, **options: Any) -> Callable[[Any], Any]:
    """`numba.njit` for the functions of one kernel, which checks, keeps and seals machine code."""
    from mechc.numeric.machine_code import njit

    options["_nrt"] = "[" in types.partition("(")[0]  # others make no arrays

    def make(function: Any) -> Any:
        shared = _pasted(path, kernel, function.__name__)
        if shared is not None:
            return shared
        forget(path, f"{function.__name__}-", damaged=True)
        try:
            made = njit(types, **options)(function)
        except (OSError, RuntimeError):  # no place for machine code: it is made in every process
            made = njit(types, **{**options, "cache": False})(function)
        except Exception:  # machine code of another machine, or damaged since it was looked at
            forget(path)
            made = njit(types, **options)(function)
        if made.stats.cache_misses:
            try:
                _require_agreement(kernel, function.__name__, made)
            except VerificationError:
                forget(path)
                raise
            with contextlib.suppress(OSError):  # without a seal it is compiled again next time
                seal_code(path, function.__name__)
        return made

    return make


def _pasted(path: Path, kernel: Kernel, name: str) -> Any:
    """Machine code of what a kernel pasted word for word, made once for all kernels; or None."""
    from mechc.kernel.prelude import PRIMITIVES, closure, module_text

    if path.parent.name == "shared" or PRIMITIVES.keys().isdisjoint(vars(kernel)):
        return None
    try:  # whatever is asked for: machine code of what calls them is found only if it is there
        text = module_text()
        ours = _load(_written(path.parents[1], "prelude", text, "shared"), text)
    except (CacheError, OSError):  # no place for it: the kernel has its own
        return None
    if name not in PRIMITIVES:
        return None
    pairs = [(getattr(kernel, p.name, None), getattr(ours, p.name)) for p in closure([name])]
    return getattr(ours, name).machine_code if all(starmap(_alike, pairs)) else None


def _alike(one: Any, other: Any) -> bool:
    """Whether two functions of kernels have the same types, options and text."""
    if one is None or (one.types, one.options) != (other.types, other.options):
        return False
    codes = (each.py_func.__code__.replace(co_firstlineno=1) for each in (one, other))
    return len({*codes}) == 1


_fallback: list[Path] = []
"""The temporary directory of this process, once it was needed."""


def _homes() -> list[Path]:
    """Directories to read from, the one to write to first."""
    # of a process that has ended it is gone, and its name may be taken by somebody else
    _fallback[:] = [made for made in _fallback if _untrusted(made) is None]
    home = _configured()
    reason = _untrusted(home)
    if reason is None:
        return [*_fallback, home]
    _fall_back(reason)
    return [*_fallback]


def directory() -> Path:
    """The directory in use."""
    return _homes()[0]


def is_temporary() -> bool:
    """Whether that ends with this process, as the one that was chosen cannot be used."""
    _homes()  # which falls back
    return bool(_fallback)


def _configured() -> Path:
    """The directory that was chosen, by one name however it is spelled."""
    chosen = os.environ.get(VARIABLE)
    found = chosen or platformdirs.user_cache_dir("mechc", appauthor=False)
    return Path(os.path.realpath(os.path.expanduser(found)))  # a loop of links is no error yet


def _untrusted(home: Path) -> str | None:
    """Why what lies in a directory may be somebody else's, or None."""
    machine = (home / part / "__pycache__" for part in ("kernels", "shared"))
    for folder in (home, *(home / part for part in PARTS), *machine):
        with contextlib.suppress(OSError):
            if reason := _shared(folder.stat()):
                return f"{reason} ({folder})"
    return None


def _shared(found: os.stat_result) -> str | None:
    """Why a file or folder may hold what somebody else wrote, or None."""
    if not hasattr(os, "geteuid"):
        return None
    if found.st_uid != os.geteuid():
        return f"belongs to somebody else, user {found.st_uid}"
    writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return "can be written by others (chmod go-w if nobody else has)" if writable else None


def _fall_back(reason: str) -> None:
    """Use a temporary directory from now on, and say so once."""
    if _fallback:
        return
    try:
        made = Path(tempfile.mkdtemp(prefix="mechc-")).resolve()
    except OSError as error:
        raise CacheError(
            f"the kernel cache {_configured()} {reason}, and there is no temporary directory: "
            f"{in_words(error)}"
        ) from error
    _fallback.append(made)
    from multiprocessing.util import Finalize  # here, as hardly any process needs it

    # unlike `atexit` after the processes that this one began, and in those that are forked
    Finalize(None, shutil.rmtree, (made, True), exitpriority=-1)
    warnings.warn(
        f"the kernel cache {_configured()} {reason}; kernels of this process go to "
        f"{_fallback[0]}. Set {VARIABLE} to a writable directory of your own.",
        CacheWarning,
        stacklevel=4,
    )


def text_digest(patterns: Iterable[str] = ("**/*.py",), package: Path | None = None) -> str:
    """Digest of the text of mechc, or of the files of a package that patterns name."""
    package, total = package or Path(__file__).parents[1], hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in package.glob(pattern)}):
        content = path.read_bytes()
        total.update(f"{path.relative_to(package)} {len(content)}\n".encode() + content)
    return total.hexdigest()


@cache
def _compiler_digest() -> str:
    """Of the text of the compiler, and its version: a change to it makes every entry stale."""
    return f"{text_digest(COMPILER)} {__version__} {metadata.version('sympy')}"


@cache
def _foundations() -> list[str]:
    """Digest of the text of all of mechc, and the versions of what it stands on."""
    packages = ("sympy", "mpmath", "numpy", "scipy", "numba")
    return [text_digest(), sys.version, *map(metadata.version, packages)]
