"""numba, imported when something is first compiled, without what it loads in vain.

Commands that compile nothing then never load it, 0.2 s of their time; and a module of its own is
loaded once, whatever thread asks first.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread


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


with _whole():
    import numba
    from numba.np import linalg

    # numba asks for SciPy's linear algebra when it loads its arrays, 0.2 s of every process, and
    # again where a function uses it: that is soon enough
    _ensure_blas, linalg.ensure_blas = linalg.ensure_blas, lambda: None
    try:
        import numba.np.arraymath
    finally:
        linalg.ensure_blas = _ensure_blas

njit = numba.njit
