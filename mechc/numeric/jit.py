"""Compilation of the package's own numeric functions, with declared types and on first use.

numba compiles a function with a declared signature when its module is imported, used or not. Most
queries use half of the functions, so a `Compiled` one waits for its first call, from Python or from
another compiled function. A caller has the code of all that it calls compiled with its own once
more, and half of a function's own compilation is its entry from Python: what runs a few times a
question is left to Python and NumPy, and what compiled functions call is a `subroutine`. The
types of a `Compiled` one stay the declared ones: arguments are converted to them or
refused, never met with a specialisation of its own (an integer where a float is meant overflows).
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from mechc.numeric.telling import is_watched

_OPTIONS: dict[str, Any] = {
    "error_model": "numpy", "cache": True, "no_cfunc_wrapper": True,
    "no_rewrites": True,  # of expressions on arrays, which have no place in compiled functions
}  # fmt: skip


class Compilable(functools.partial):  # type: ignore[type-arg]
    """A function that numba compiles, or loads from its cache, when it is first needed.

    To Python it is a partial function, of nothing but what is to run: a call takes no frame.

    Args:
        py_func: the function in Python.
        signatures: its types, in numba's notation; None for those of its calls.
        options: of `numba.njit`, beyond those that all functions have in common.
    """

    py_func: Callable[..., Any]
    _signatures: str | list[str] | None
    _made: Any
    _options: dict[str, Any]

    def __new__(
        cls, py_func: Callable[..., Any], signatures: str | list[str] | None,
        options: dict[str, Any],
    ) -> Self:  # fmt: skip
        """Remember what to compile."""
        self = super().__new__(cls, py_func)
        functools.update_wrapper(self, py_func)
        self.py_func = py_func
        self._signatures = signatures
        self._made = None
        self._options = {**_OPTIONS, **options}
        return self

    def __reduce__(self) -> str:
        """Copied and pickled as functions are, by name."""
        return self.py_func.__qualname__

    def _runs(self, function: Callable[..., Any]) -> None:
        """Let Python call another function from now on."""
        self.__setstate__((function, (), {}, vars(self)))  # type: ignore[attr-defined]

    @property
    def _numba_type_(self) -> Any:
        """What numba takes this object for, inside another compiled function: its dispatcher."""
        return self.machine_code._numba_type_

    @property
    def machine_code(self) -> Any:
        """What numba has made of the function, compiled or loaded now if it was not yet."""
        # No lock: numba has one of its own, and two in changing order would be a deadlock. Of two
        # threads that get here at once one compiles in vain: their dispatchers do the same.
        made = self._made
        if made is None:
            with uncollected():
                from mechc.numeric.machine_code import njit

                try:
                    made = njit(self._signatures, **self._options)(self.py_func)
                except Exception:  # a damaged file in numba's cache fails in any way
                    options = {**self._options, "cache": False}
                    made = njit(self._signatures, **options)(self.py_func)
            if made.stats.cache_misses:
                tell_of_compiling()
            self._made = made = self._made or made
            self._has_been_made()
        return made

    def _has_been_made(self) -> None:
        """There is machine code from now on."""


class Compiled(Compilable):
    """One that runs as machine code where Python calls it.

    What Ctrl-C comes out of that as is for `errors.public` to tell.
    """

    def __init__(self, *about: Any) -> None:
        """Compile at the first call."""
        self._runs(lambda *arguments: self.machine_code(*arguments))

    def _has_been_made(self) -> None:
        self._runs(self._made)


class Subroutine(Compilable):
    """One without an entry from Python, half of the work: where Python calls it, it runs as Python.

    There it raises where machine code goes on.
    """

    def __init__(self, *about: Any) -> None:
        """Run as it is."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the collection of garbage: it would pass over what a compiler makes again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:  # else a caller, or another thread, turns it on again
            gc.enable()


@functools.cache
def tell_of_compiling() -> None:
    """Say on a terminal or in a notebook, once a process, what its user waits for."""
    if is_watched():
        sys.stderr.write(
            "mechc: compiling numeric functions, once on this machine (3 to 10 s in all; "
            "`mechc warm` does so ahead)\n"
        )


def compiled(
    signatures: str | list[str] | None = None, *, makes_arrays: bool = False, **options: Any
) -> Callable[[Callable[..., Any]], Compiled]:
    """Decorate a function with the types that it is compiled for on first use.

    Args:
        signatures: one or several, in numba's notation; None for the types of its calls.
        makes_arrays: whether it makes arrays, or calls what returns some: else nobody counts who
            holds those that it is given, and there is less to compile.
        options: further ones of `numba.njit`, as `nogil`. Not `fastmath` with sums in any order: a
            function has a copy in the machine code of each that calls it, and which of them runs
            depends on what was loaded before, so that the same question would get other digits.
    """
    options = {"_nrt": makes_arrays, **options}
    return lambda py_func: Compiled(py_func, signatures, options)


def subroutine(
    signatures: str | list[str], *, makes_arrays: bool = False, **options: Any
) -> Callable[[Callable[..., Any]], Subroutine]:
    """Decorate a function that compiled ones call, or Python once or twice a question.

    For the arguments see `compiled`.
    """
    options = {"no_cpython_wrapper": True, "_nrt": makes_arrays, **options}
    return lambda py_func: Subroutine(py_func, signatures, options)
