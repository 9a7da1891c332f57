"""The errors mechc raises.

Every error a user can cause derives from `MechcError` and says which argument, which value, and
what would have been accepted. `InternalError` is the exception: it means a bug in mechc.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import Any, TypeVar

from mechc.hints import VALUES, suggestion

EXTRAS = {  # of the package, that have optional libraries; "dask" has the others
    "dp_accounting": "dp_accounting", "flint": "verify", "jinja2": "report", "matplotlib": "plot",
    "pyarrow": "parquet",
}  # fmt: skip
LONGEST_NAME = 200  # characters of a name
LONGEST_MESSAGE = 2000  # characters of an error: all lists of names fit, a list of events does not

T = TypeVar("T", bound=Callable[..., Any])


_LIST = re.compile(r"\[((?:[^][(),]+,){6,}[^][(),]+)]")  # of more than six: numpy shows seven


def _begun(found: re.Match[str]) -> str:
    """The beginning and the end of a list, on one line."""
    first, second, third, *_, last = map(str.strip, found[1].split(","))
    return f"[{first}, {second}, {third}, ..., {last}]"


class MechcError(Exception):
    """Base class of all errors that mechc raises on purpose.

    Of a message that shows a long value the middle is left out.
    """

    def __str__(self) -> str:
        """Return the message, of `LONGEST_MESSAGE` characters at most."""
        text = _LIST.sub(_begun, super().__str__())
        if len(text) <= LONGEST_MESSAGE:
            return text
        return f"{text[: LONGEST_MESSAGE // 2]} ... {text[-LONGEST_MESSAGE // 2 :]}"


class DeclarationError(MechcError, ValueError):
    """A declaration, parameter value or argument is not acceptable."""


class UnsupportedError(MechcError, ValueError):
    """The method or derivation asked for cannot do this; the message names the ones that can."""


class LoweringError(MechcError):
    """A symbolic expression contains something that has no kernel form."""


class VerificationError(MechcError):
    """A kernel disagrees with its declaration."""


class NumericError(MechcError, ArithmeticError):
    """A numerical procedure did not reach an answer it can stand behind."""


class CacheError(MechcError, OSError):
    """The kernel cache cannot be read or written."""


def in_words(error: Exception) -> str:
    """What an exception says, a file's in the words of the system alone."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def check_one_of(name: str, value: object, known: Iterable[str], owner: str = "") -> None:
    """Refuse what is none of the known words (of `owner`), with the one that is near or meant."""
    known = list(known)
    if isinstance(value, str) and value in known:
        return
    hint = suggestion(value, known, VALUES) if isinstance(value, str) else ""
    about = f"{owner}: {name}" if owner else name
    raise DeclarationError(
        f"{about}={value!r} is not known{hint} (expected one of {', '.join(known)})"
    )


def check_text(argument: str, value: object, most: int | None = None) -> None:
    """Refuse what would not be shown as it is: control and hidden characters, lone surrogates.

    All text stands in kernels, tables, terminals and pages. A name is one line of at `most` so many
    characters; prose may have lines.
    """
    if not isinstance(value, str) or (most and not value.strip()):
        raise DeclarationError(f"{argument}={value!r} is not text")
    if not value.isprintable() and (most or not re.sub(r"[\n\t]", " ", value).isprintable()):
        kind = "one line of " if most else ""
        raise DeclarationError(f"{argument}={value!r} is not {kind}printable text")
    if most and len(value) > most:
        raise DeclarationError(f"{argument}={value[:40]!r}... is longer than {most} characters")


def library(name: str) -> Any:
    """Import an optional library, or one of its modules, or say which extra has it."""
    try:
        return import_module(name)
    except ImportError as error:
        top = name.partition(".")[0]
        raise UnsupportedError(
            f"{top} is missing: pip install 'mechc[{EXTRAS.get(top, 'dask')}]' ({error})"
        ) from error


def as_flag(name: str, value: Any) -> bool:
    """Return True or False; nothing else is taken for either."""
    if type(value).__name__ not in ("bool", "bool_"):  # Python's and numpy's
        raise DeclarationError(f"{name}={value!r} (expected True or False)")
    return bool(value)


def as_named(name: str, value: Any) -> dict[str, Any]:
    """Return names with their values as a dictionary of its own, an empty one of None."""
    if isinstance(value, (Mapping, type(None))):
        found = dict(value or {})
        if all(isinstance(word, str) for word in found):
            return found
    raise DeclarationError(f"{name}={value!r} (expected names with their values)")


def listed(name: str, value: Any, expected: str, size: int | None = None) -> tuple[Any, ...]:
    """Return the values of a list, of this size if one is given; what is none is refused."""
    try:
        found = tuple(value)
        if not isinstance(value, (str, bytes)) and size in (None, len(found)):
            return found
    except TypeError:
        pass
    raise DeclarationError(f"{name}={value!r} (expected {expected})")


def public(what: T) -> T:
    """Return a function, or a class with its public methods, that says in words how it is called.

    Arguments that are missing, have no name, or one that is not known raise `DeclarationError`.
    What Python alone calls is left as it is.
    """
    if isinstance(what, type):
        for name, value in list(vars(what).items()):
            if name != "__init__" and name[:1] == "_":
                continue
            if isinstance(value, FunctionType):
                setattr(what, name, public(value))
            elif isinstance(value, classmethod):
                setattr(what, name, classmethod(public(value.__func__)))
        return what

    @wraps(what)
    def called(*given: Any, **named: Any) -> Any:
        try:
            return what(*given, **named)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # from inside
            raise DeclarationError(_misfit(what, given, named)) from None
        except SystemError as error:
            if is_interrupt(error):
                raise KeyboardInterrupt from None
            raise

    return called  # type: ignore[return-value]


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is what Ctrl-C comes out of machine code as."""
    while isinstance(error, SystemError):  # one for each call that machine code was in
        error = error.__cause__
    return isinstance(error, KeyboardInterrupt)


def _misfit(function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> str:
    """How a call differs from the parameters of a function."""
    from inspect import Parameter, signature

    known = dict(signature(function).parameters)
    owner = function.__name__
    if known and next(iter(known)) in ("self", "cls"):
        del known[next(iter(known))]
        owner = type(given[0]).__name__ if owner == "__init__" else owner
        given = given[1:]
    places = [p.name for p in known.values() if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    takes_any = any(p.kind is Parameter.VAR_KEYWORD for p in known.values())
    marks: dict[Any, str] = {Parameter.VAR_KEYWORD: "**{}", Parameter.KEYWORD_ONLY: "{}="}
    form = ", ".join(marks.get(p.kind, "{}").format(p.name) for p in known.values())
    said = f"expected {owner}({form})"
    if surplus := given[len(places) :]:
        named_only = [name for name in known if name not in places and name not in named]
        hint = f"; did you mean {named_only[0]}={surplus[0]!r}?" if named_only else ""
        shown = ", ".join(map(repr, surplus))
        word = "has no name" if len(surplus) == 1 else "have no names"
        return f"{owner}: {shown} {word}{hint} ({said})"
    for word in named:
        if word not in known and not takes_any:
            return f"{owner}: {word}={named[word]!r} is not known{suggestion(word, known)} ({said})"
        if word in places[: len(given)]:
            first = given[places.index(word)]
            return f"{owner}: {word} is given twice, {first!r} and {named[word]!r} ({said})"
    missing = [
        p.name for p in known.values()
        if p.default is p.empty
        and p.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
        and p.name not in (*named, *places[: len(given)])
    ]  # fmt: skip
    word = "is" if len(missing) == 1 else "are"
    return f"{owner}: {', '.join(missing)} {word} missing ({said})"


class InternalError(MechcError):
    """A broken invariant inside mechc: please report it."""
