"""numba, imported when something is first compiled, without what it loads in vain.

Commands that compile nothing then never load it, 0.2 s of their time; and a module of its own is
loaded once, whatever thread asks first. While it compiles a function it asks for the types of the
same calls again and again, and gets the answer that it has found.
"""

import functools
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, local, main_thread
from typing import Any


@contextmanager
def _whole() -> Iterator[None]:
    """Keep Ctrl-C until the end: an import that it cuts off leaves numba in pieces."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or current_thread() is not main_thread():
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def _remembered(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """Types of calls of built-in functions, found once in a function that is being compiled.

    For x[j] numba tries some twenty rules, for each place and twice or more: half of the time that
    it takes to infer types. What it finds depends on the flags of compilation as well, and calls
    for another function may be compiled in between: flags of their own then end what is known.
    What others compile in this process is compiled as ever.
    """
    known: dict[Any, Any] = {}
    flags: Any = None

    @functools.wraps(resolve)
    def resolved(function: Any, context: Any, args: Any, kws: Any) -> Any:
        nonlocal flags
        if not depth.value:
            return resolve(function, context, args, kws)
        here = flags_in_use()
        if here is not flags:
            known.clear()
            flags = here
        if here is None or kws:
            return resolve(function, context, args, kws)
        key = id(function), id(context), tuple(args)
        found = known.get(key)
        if found is None:
            found = resolve(function, context, args, kws), function, context
            if here is flags:  # nothing was compiled for it
                known[key] = found
        return found[0]

    return resolved


with _whole():
    import numba
    from numba.core import targetconfig
    from numba.core.types import functions
    from numba.np import linalg

    # numba asks for SciPy's linear algebra when it loads its arrays, 0.2 s of every process, and
    # again where a function uses it: that is soon enough
    _ensure_blas, linalg.ensure_blas = linalg.ensure_blas, lambda: None
    try:
        import numba.np.arraymath
    finally:
        linalg.ensure_blas = _ensure_blas

flags_in_use: Any = targetconfig.ConfigStack.top_or_none
builtin: Any = functions.BaseFunction
builtin.get_call_type = _remembered(builtin.get_call_type)


class _Depth(local):
    """How many functions this thread is compiling for `njit`, one for another."""

    value = 0


depth = _Depth()


def njit(signatures: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate as `numba.njit` does; functions with signatures compile in less time."""

    def make(function: Callable[..., Any]) -> Any:
        depth.value += 1
        try:
            return numba.njit(signatures, **options)(function)
        finally:
            depth.value -= 1

    return make
