"""numba, imported when something is first compiled, without what it loads in vain.

Commands that compile nothing then never load it, 0.2 s of their time; and a module of its own is
loaded once, whatever thread asks first.
"""

import numba
from numba.np import linalg

# numba asks for SciPy's linear algebra when it loads its arrays, 0.2 s of every process, and again
# where a function uses it: that is soon enough
_ensure_blas, linalg.ensure_blas = linalg.ensure_blas, lambda: None
try:
    import numba.np.arraymath
finally:
    linalg.ensure_blas = _ensure_blas

njit = numba.njit
