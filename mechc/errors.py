"""The errors mechc raises.

Every error a user can cause derives from `MechcError` and says which argument, which value, and
what would have been accepted. `InternalError` is the exception: it means a bug in mechc.
"""

from collections.abc import Iterable, Mapping
from typing import Any

MEANT = {  # words of other libraries, and what they are here
    "target_delta": "delta", "target_epsilon": "epsilon", "eps": "epsilon",
    "log_target": "log_delta", "fpr": "alpha", "alphas": "orders",
    "steps": "counts", "num_steps": "count", "noise_multiplier": "sigma", "std": "sigma",
    "noise_scale": "scale", "b": "scale", "sample_rate": "sampling_rate",
    "max_grad_norm": "sensitivity", "l2_norm_clip": "sensitivity", "clip_norm": "sensitivity",
}  # fmt: skip


def suggestion(word: str, known: Iterable[str], meant: Mapping[str, str] = MEANT) -> str:
    """Return "; did you mean ...?" where a wrong word is near a known one, else "".

    Args:
        word: the wrong word.
        known: the words that would be accepted.
        meant: words of other libraries, and what they are here if that is known.
    """
    from difflib import get_close_matches

    known = list(known)
    close = [meant[word]] if meant.get(word) in known else get_close_matches(word, known, 1)
    return f"; did you mean {close[0]}?" if close else ""


class MechcError(Exception):
    """Base class of all errors that mechc raises on purpose."""


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


def check_one_of(name: str, value: object, known: Iterable[str], owner: str = "") -> None:
    """Refuse what is none of the known words, of whatever type it is.

    Args:
        name: the argument.
        value: what was given for it.
        known: the words that would be accepted.
        owner: what the argument is of, for the message.

    Raises:
        DeclarationError: it is none of them.
    """
    known = list(known)
    if isinstance(value, str) and value in known:
        return
    hint = suggestion(value, known) if isinstance(value, str) else ""
    about = f"{owner}: {name}" if owner else name
    raise DeclarationError(
        f"{about}={value!r} is not known{hint} (expected one of {', '.join(known)})"
    )


def listed(name: str, value: Any, expected: str, size: int | None = None) -> tuple[Any, ...]:
    """Return the values of a list.

    Args:
        name: the argument.
        value: what was given for it.
        expected: what would be accepted, for the message.
        size: how many values there have to be.

    Raises:
        DeclarationError: it is no list, or one of another length.
    """
    try:
        found = tuple(value)
        if not isinstance(value, (str, bytes)) and size in (None, len(found)):
            return found
    except TypeError:
        pass
    raise DeclarationError(f"{name}={value!r} (expected {expected})")


class InternalError(MechcError):
    """A broken invariant inside mechc: please report it."""
