"""The errors mechc raises.

Every error a user can cause derives from `MechcError` and says which argument, which value, and
what would have been accepted. `InternalError` is the exception: it means a bug in mechc.
"""


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


class InternalError(MechcError):
    """A broken invariant inside mechc: please report it."""
