"""From where a mechanism comes to its kernel: cache first, compiler only when there is no entry.

In: an origin (a mechanism file, a declaration, a loaded kernel) and a chain of transformations.
Out: a loaded kernel for each direction. Nothing here imports sympy unless a kernel has to be
compiled or a declaration is asked for.

Both directions of a mechanism have an entry in the cache. Where the declaration has no pair of its
own for "add", that entry is the kernel of "remove" again: so a missing entry is never mistaken for
"the same pair, reversed".
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

from mechc.declare import catalog
from mechc.declare.transforms import OfLength, Transform, Unlisted
from mechc.errors import CacheError, DeclarationError, UnsupportedError, in_words
from mechc.kernel import cache
from mechc.numeric.telling import Tell, telling
from mechc.protocol import PROTOCOL, TAG, Kernel

if TYPE_CHECKING:
    from mechc.declare.declaration import Declaration


Transforms = tuple[Transform, ...]


class Other(Enum):
    """A kernel that an origin has beside the one of the remove direction."""

    REVERSE = "add direction"
    INDEX = "law of the index"


@dataclass(frozen=True)
class LoadedKernel:
    """An origin that is a kernel module already: nothing to compile, nothing to transform."""

    module: Any

    @property
    def name(self) -> str:
        """Name of the mechanism."""
        return str(self.module.NAME)

    def __deepcopy__(self, memo: dict[int, Any]) -> LoadedKernel:
        """Return itself, as it never changes."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path of the file, which is loaded again."""
        return _loaded_from, (str(self.module.__file__),)


def _loaded_from(path: str) -> LoadedKernel:
    return LoadedKernel(cache.load(path))


Origin = Any  # catalog.MechanismFile | declare.Declaration | LoadedKernel


def origin(what: Any) -> Origin:
    """Return where a mechanism comes from.

    Raises:
        DeclarationError: it is none of these, or there is no such mechanism.
    """
    if isinstance(what, (str, os.PathLike)):
        return catalog.find(what)
    if getattr(what, "PROTOCOL", None) == PROTOCOL:
        return LoadedKernel(what)
    if hasattr(what, "canonical") and hasattr(what, "parameters"):
        return what
    raise DeclarationError(
        f"load({what!r}): expected the name of a mechanism, the path of a mechanism file, or a "
        "declaration"
    )


_loaded: dict[str, Kernel] = {}  # kernels of this process by request key
_one_at_a_time = RLock()  # threads that want the same kernel wait for the first to compile it


def key(origin: Origin, transforms: tuple[Any, ...]) -> str:
    """Return what identifies the kernel of an origin after its transformations."""
    if isinstance(origin, LoadedKernel):
        return f"{origin.name}-{origin.module.DIGEST}-{id(origin.module)}"
    if isinstance(origin, catalog.MechanismFile):
        # of several declarations in a file the one is taken that is named as the file
        return cache.request_key(f"{origin.path.stem} {origin.text_digest}", transforms)
    if transforms and isinstance(transforms[0], OfLength):  # not told by the length it has here
        origin = declaration(origin, transforms[:1])
    # words, defaults and the claim stand in the kernel, but not in the digest of the mathematics
    words = [origin.name, origin.about, origin.refs, origin.digest, origin.claim]
    words += [origin.construction, [p.info for p in origin.parameters]]
    return cache.request_key("\n".join(map(repr, words)), transforms)


def find(origin: Origin, transforms: tuple[Any, ...]) -> Kernel | None:
    """Return the kernel if there is one already, without importing sympy."""
    if not isinstance(origin, LoadedKernel):
        name = key(origin, transforms)
        found = _loaded.get(name) or cache.lookup(name)
        return None if found is None else _loaded.setdefault(name, found)
    if transforms:
        raise UnsupportedError(f"{origin.name}: a compiled kernel cannot be transformed further")
    return cast(Kernel, origin.module)


def kernel(origin: Origin, transforms: Transforms, progress: Tell | None = None) -> Kernel:
    """Return the kernel of the remove direction, compiled if need be."""
    return _made(origin, transforms, (), progress)


def reverse_kernel(origin: Origin, transforms: Transforms, forward: Kernel) -> Kernel | None:
    """Return the kernel declared for the add direction, or None if it is the reversed pair."""
    if isinstance(origin, LoadedKernel):
        return None
    found = _made(origin, transforms, (Other.REVERSE,))
    return None if found.DIGEST == forward.DIGEST else found


def tag_kernel(origin: Origin, transforms: Transforms, forward: Kernel) -> Kernel | None:
    """Return the kernel of the law of the index that the output tells, None without an index."""
    if TAG not in forward.CAPABILITIES or isinstance(origin, LoadedKernel):
        return None
    return _made(origin, transforms, (Other.INDEX,))


def _made(
    origin: Origin,
    transforms: Transforms,
    other: tuple[Other, ...],
    progress: Tell | None = None,
) -> Kernel:
    """One kernel of an origin: of this process, else of the cache, else compiled with the rest."""
    if isinstance(origin, LoadedKernel):
        return cast(Kernel, find(origin, transforms))
    name = key(origin, (*transforms, *other))
    with _one_at_a_time:
        if name not in _loaded:
            _loaded[name] = cache.lookup(name) or _compile(origin, transforms, progress)[other]
        return _loaded[name]


def declaration(origin: Origin, transforms: Transforms) -> Declaration:
    """Return the declaration with its transformations applied (imports sympy).

    Raises:
        UnsupportedError: the origin is a kernel, or a transformation is not possible.
    """
    from mechc.calculus import transform

    if isinstance(origin, LoadedKernel):
        raise UnsupportedError(f"{origin.name}: a compiled kernel has no declaration to go back to")
    is_file = isinstance(origin, catalog.MechanismFile)
    made: Declaration = catalog.load_declaration(origin) if is_file else origin
    for step in transforms:
        made = transform.apply(made, step)
    return made


def compiled(origin: Origin, transforms: Transforms) -> Declaration:
    """Return the declaration that the kernel is made of: many constant pieces are a list there."""
    from mechc.calculus.transform.listed import listed

    whole = declaration(origin, transforms)
    return whole if Unlisted() in transforms else listed(whole)


def derived(origin: Origin, transforms: Transforms, what: str, make: Callable[[], Any]) -> Any:
    """What is read off a declaration, as JSON holds it: found once, then kept beside the kernel."""
    if isinstance(origin, LoadedKernel):
        return make()
    name = cache.derived_key(key(origin, transforms), what)
    found = cache.recall(name)
    if found is None:
        cache.keep(name, found := make())
    return found


def source(kernel: Kernel) -> str:
    """Return the text of a kernel module as it was loaded, by mechc or from a file."""
    try:
        text = getattr(kernel, "__text__", "")
        return str(text) or Path(getattr(kernel, "__file__", "")).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise CacheError(f"the text of {kernel.NAME} cannot be read: {error}") from error


def write_atomically(path: Path, text: str) -> Path:
    """Write a text file so that it appears complete or not at all; or to a device or a pipe."""
    try:
        if path.exists() and not path.is_file():  # /dev/stdout, /dev/null: not to be replaced
            path.write_text(text, encoding="utf-8")
        else:
            cache.write_whole(path, text)
    except OSError as error:
        raise CacheError(f"cannot write {path}: {in_words(error)}") from error
    return path


def _compile(
    origin: Origin, transforms: Transforms, progress: Tell | None
) -> dict[tuple[Other, ...], Kernel]:
    """Compile and store both directions, the same kernel if there is one pair, and the index."""
    from mechc.kernel.compiler import compile_declaration

    forward = compiled(origin, transforms)
    laws: dict[tuple[Other, ...], Declaration | None] = {
        (): forward, (Other.REVERSE,): forward.reverse or forward, (Other.INDEX,): forward.tag
    }  # fmt: skip
    made, texts = {}, dict[int, str]()
    with telling(f"compiling {forward.name}", progress) as tell:
        for other, law in laws.items():
            if law is not None:
                if id(law) not in texts:
                    texts[id(law)] = compile_declaration(law, progress=tell)
                name = key(origin, (*transforms, *other))
                made[other] = cache.store(name, law.name, texts[id(law)])
    return made
