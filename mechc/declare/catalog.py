"""Where mechanisms are found: a path, `MECHC_PATH`, entry points "mechc.mechanisms", the built-ins.

Earlier places win. Finding a file and its digest needs no SymPy, so that a kernel which is already
compiled can be used without importing it; `load_declaration` runs the file and does import it. A
mechanism file is Python: load only files that you would run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import metadata, resources
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from mechc.errors import DeclarationError, MechcError, in_words
from mechc.hints import PACKAGE, VALUES, suggestion

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from mechc.declare.declaration import Declaration


ENTRY_POINTS = "mechc.mechanisms"
PATH_VARIABLE = "MECHC_PATH"


class MechanismFile(NamedTuple):
    """A file that declares a mechanism."""

    name: str
    path: Path
    text_digest: str


def find(name_or_path: str | os.PathLike[str]) -> MechanismFile:
    """The file that declares a mechanism; a refusal lists the names there are."""
    text = os.fspath(name_or_path)
    if text.endswith(".json"):
        raise DeclarationError(f"no mechanism {text!r}; a run file is opened by mechc open")
    if text.endswith(".py") or os.sep in text:
        return _file(Path(text).stem, Path(os.path.expanduser(text)))  # of no user as it is
    place = _place(text)
    if place is None:
        known = _known()
        hint = (
            suggestion(text, known, VALUES | PACKAGE) or f"; there are {', '.join(sorted(known))}"
        )
        raise DeclarationError(
            f"no mechanism {text!r}{hint} (mechc list has all; a file of your own is given by a "
            f"path ending in .py, or lies in a folder of {PATH_VARIABLE})"
        )
    return _file(text, place)


def built_in(name: str) -> MechanismFile:
    """The file of that name that comes with the package, whatever others are called."""
    place = _own(name)
    assert place is not None, name
    return _file(name, place)


def available() -> tuple[str, ...]:
    """The names that `find` knows, sorted."""
    return tuple(sorted(_known()))


def load_declaration(file: MechanismFile) -> Declaration:
    """Run a mechanism file and return the declaration in it.

    Of several the one whose variable or name is the stem of the file. What goes wrong is refused
    with the file and the line.
    """
    from mechc.declare.declaration import Declaration

    module = _run(file)
    found = {k: v for k, v in vars(module).items() if isinstance(v, Declaration)}
    distinct = list({id(v): v for v in found.values()}.values())
    if len(distinct) == 1:
        return distinct[0]
    if not distinct:
        raise DeclarationError(f"{file.path}: declares no mechanism; expected a variable that "
                               "holds mechanism(...) or additive(...)")  # fmt: skip
    stem = file.path.stem
    chosen = found.get(stem) or next((d for d in distinct if d.name == stem), None)
    if chosen is None:
        raise DeclarationError(f"{file.path}: declares several mechanisms ({', '.join(found)}), "
                               f"none of them named {stem}")  # fmt: skip
    return chosen


def _place(name: str) -> Path | None:
    """The file of a name, as `_known` has it, without a look at all others that are built in."""
    others = {**dict(_from_entry_points()), **dict(_on_path())}
    if name in others:
        return others[name]
    return _own(name)


def _own(name: str) -> Path | None:
    """The file of a name among those that come with the package."""
    folder = _folder()
    if isinstance(folder, Path):
        known = f"{name}.py" in os.listdir(folder) and not name.startswith("_")
        return folder / f"{name}.py" if known else None
    return dict(_built_in()).get(name)


def _known() -> dict[str, Path]:
    """Name -> file, the first place winning."""
    return {**dict(_built_in()), **dict(_from_entry_points()), **dict(_on_path())}


def _on_path() -> Iterator[tuple[str, Path]]:
    folders = os.environ.get(PATH_VARIABLE, "").split(os.pathsep)
    for folder in reversed(folders):  # of two files of a name the last is taken
        if folder:
            yield from _in_folder(Path(folder))


def _from_entry_points() -> Iterator[tuple[str, Path]]:
    for name, module in reversed(_entry_points(tuple((p, _changed(p)) for p in sys.path))):
        # the module is located, not imported
        try:
            spec = importlib.util.find_spec(module)
        except ImportError:
            continue
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            yield name, Path(spec.origin)


@lru_cache(maxsize=4)
def _entry_points(places: tuple[tuple[str, int], ...]) -> list[tuple[str, str]]:
    """Names and modules that installed packages offer, for places as they are."""
    return [(point.name, point.module) for point in metadata.entry_points(group=ENTRY_POINTS)]


def _changed(folder: str | Path) -> int:
    """When files were last added to a folder or taken from it; 0 where there is none."""
    try:
        return os.stat(folder or os.curdir).st_mtime_ns
    except OSError:
        return 0


@cache
def _folder() -> Traversable:
    """Where the mechanisms are that come with the package."""
    try:
        return resources.files("mechc.mechanisms")
    except ModuleNotFoundError:  # a checkout that is imported from its root, installed or not
        return resources.files("mechc").joinpath("..", "mechanisms")


def _built_in() -> Iterator[tuple[str, Path]]:
    with resources.as_file(_folder()) as folder:
        yield from _in_folder(folder)


def _in_folder(folder: Path) -> list[tuple[str, Path]]:
    try:
        files = sorted(folder.glob("*.py"))
    except OSError:
        return []
    return [(path.stem, path) for path in files if not path.stem.startswith("_")]


def _read(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise DeclarationError(f"{path}: cannot be read (a folder, a pipe or a device)")
        return path.read_bytes()
    except OSError as error:
        raise DeclarationError(f"{path}: cannot be read ({in_words(error)})") from error


def _file(name: str, path: Path) -> MechanismFile:
    content = _read(path)
    # a link keeps its name, by which one of several declarations is taken
    whole = Path(os.path.abspath(path))
    return MechanismFile(name, whole, hashlib.sha256(content).hexdigest())


def _run(file: MechanismFile) -> ModuleType:
    """Execute a mechanism file as a module of its own, which is not registered anywhere."""
    path = file.path
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    source = _read(path)
    if hashlib.sha256(source).hexdigest() != file.text_digest:
        raise DeclarationError(f"{path}: changed since it was found; load it again")
    try:
        exec(compile(source, str(path), "exec"), vars(module))
    except SyntaxError as error:
        raise DeclarationError(f"{path}, line {error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        reason = f"{error}" if isinstance(error, MechcError) else f"{type(error).__name__}: {error}"
        raise DeclarationError(f"{path}, line {_line(error, path)}: {reason}") from error
    return module


def _line(error: BaseException, path: Path) -> int | str:
    """The line of the file in which the error arose."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return lines[-1] if lines and lines[-1] is not None else "?"
