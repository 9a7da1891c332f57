"""What rooms know of each other: an emitted kernel, and what users hold, seen from below.

An emitted kernel is one ordered pair (P, Q) as numbers. All functions have explicit signatures, for
which numba compiles them on first use; constants of a query run as Python. `theta` is a
C-contiguous float64 array holding the parameters in the order of `PARAMETERS`. Arrays are one-
dimensional unless said otherwise. The law under the reversed pair needs no second kernel: swap
`log_p` and `log_q` and change the sign of the loss.

Branches are the rows of `branches(theta)`: intervals of the output on which the loss has one
formula and is strictly monotone (or constant, or infinite). Columns:

====  =========================================================================
 0    lo, left end (may be -inf)
 1    hi, right end (may be +inf); a lattice branch is the integers lo..hi, both included
 2    kind, one of the codes `INCREASING` ... below
 3    limit of the loss at lo+ (nan: not known in advance, evaluate)
 4    limit of the loss at hi- (nan likewise)
 5    index to pass to `loss_inverse_many`, for losses strictly between columns 3 and 4
====  =========================================================================

Rows with lo >= hi (lattice: lo > hi) never occur. Together with `atoms(theta)` they carry all the
mass of P and Q.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mechc.adjacency import Claim

PROTOCOL = 2  # version of the interface below; kernels of others are made again

# kinds of a branch
INCREASING, DECREASING, PLATEAU, P_ONLY, Q_ONLY, UNSPLIT = 1, -1, 0, 2, 3, 4

TAG = "tag"
"""Key of CAPABILITIES: the last parameter is an index that the output also tells."""

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Integers = NDArray[np.int64]


class Measure(StrEnum):
    """Where a pair has its mass: densities on the line, masses on the integers, a finite set."""

    DENSITY = "density"
    LATTICE = "lattice"
    FINITE = "finite"


class ParameterInfo(NamedTuple):
    """One parameter as it stands in an emitted module (plain numbers, no sympy)."""

    name: str
    lo: float
    hi: float
    lo_open: bool
    hi_open: bool
    integer: bool
    default: float | None
    typical: tuple[float, float]

    @property
    def usual(self) -> float:
        """The default, else the middle of the typical range, geometric if that is positive."""
        if self.default is not None:
            return self.default
        lo, hi = self.typical
        middle = float(np.sqrt(lo * hi)) if lo > 0.0 else 0.5 * (lo + hi)
        return float(round(middle)) if self.integer else middle


class Kernel(Protocol):
    """The module object that `mechc.kernel.cache.load` returns."""

    PROTOCOL: int
    NAME: str
    DIGEST: str
    PARAMETERS: tuple[tuple[Any, ...], ...]
    MEASURE: str
    SYMMETRIC: bool
    CAPABILITIES: dict[str, str]
    CLAIM: dict[str, Any]
    REFS: tuple[str, ...]
    ABOUT: str
    BRANCHES: tuple[str, ...]

    # scalar functions, float64(float64, float64[::1]); log 0 is -inf, loss is +-inf where one-sided
    log_p: Callable[[float, Floats], float]
    log_q: Callable[[float, Floats], float]
    loss: Callable[[float, Floats], float]
    # array forms, void(float64[::1] x, float64[::1] theta, float64[::1] out)
    log_p_many: Callable[[Floats, Floats, Floats], None]
    log_q_many: Callable[[Floats, Floats, Floats], None]
    loss_many: Callable[[Floats, Floats, Floats], None]
    # void(int64 branch index, float64[::1] loss, float64[::1] theta, float64[::1] out);
    # scalar forms are emitted as loss_inverse_<index>(loss, theta)
    loss_inverse_many: Callable[[int, Floats, Floats, Floats], None]

    branches: Callable[[Floats], Floats]  # (rows, 6), see the module docstring
    breakpoints: Callable[[Floats], Floats]  # sorted distinct ends of branches
    atoms: Callable[[Floats], Floats]  # (rows, 3): x, log mass under P, log mass under Q
    weights: Callable[[Floats], Floats]  # (rows, 1), of the words in CAPABILITIES["weights"]
    log_infinite_mass: Callable[[Floats], float]  # log P(q = 0); nan: only quadrature gives it
    strip: Callable[[Floats], Floats]  # (t_minus, t_plus)
    lattice: Callable[[Floats], Floats]  # (offset, step) of the loss; (nan, nan) when it is none
    cgf: Callable[[complex, Floats], complex]  # only if CAPABILITIES["cgf"] starts with "closed"
    # cdf_p, sf_p, cdf_q, sf_q: scalar functions, only if CAPABILITIES["cdf"] starts with "closed"


def is_closed(kernel: Kernel, name: str) -> bool:
    """Whether a kernel has a formula for "cgf", "cdf", "lattice" or "infinite_mass"."""
    return kernel.CAPABILITIES.get(name, "").startswith("closed")


LOG_CONCAVE = "every piece log-concave"
"""What is said of the shape of such noise, none of which is a peak on top of something wider."""


def of_log_concave_noise(kernel: Kernel) -> bool:
    """Whether P and Q are one noise at two places, or samples of it, proved to be log-concave."""
    claim = kernel.CLAIM  # of an edited kernel it may be anything; see mechc.calculus.claims
    if not isinstance(claim, dict) or claim.get("status") != "proven":
        return False
    theorem, conditions = claim.get("theorem"), claim.get("conditions")
    if not isinstance(conditions, tuple) or not any(LOG_CONCAVE in str(c) for c in conditions):
        return False
    based = str(conditions[:1]).endswith("(proven, T1)',)")
    return theorem == "T1" or (theorem in ("T6", "T7") and based)


class Described(Protocol):
    """A Mechanism; or a Table in the place of one, where nobody asks for a kernel."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def parameters(self) -> tuple[ParameterInfo, ...]: ...
    @property
    def bound(self) -> Mapping[str, float]: ...
    @property
    def claim(self) -> Claim: ...
    @property
    def symmetric(self) -> bool: ...
    @property
    def rates(self) -> tuple[str, ...]: ...
    @property
    def upper_only(self) -> str: ...
    @property
    def moved_by(self) -> str | None: ...
    @property
    def moving(self) -> Collection[str]: ...
    @property
    def references(self) -> tuple[str, ...]: ...
    @property
    def declaration(self) -> Any: ...
    def derived(self, what: str, make: Callable[[], Any]) -> Any: ...
    def record(self) -> dict[str, Any]: ...
    @property
    def kernel(self) -> Kernel: ...
    @property
    def law_kernel(self) -> Kernel: ...
    @property
    def reverse_kernel(self) -> Kernel | None: ...
    @property
    def tag_kernel(self) -> Kernel | None: ...
    @property
    def source(self) -> str: ...
    def unsampled(self, theta: tuple[float, ...]) -> Any: ...
    def explain(self, *, whole: bool = False) -> Any: ...
    def __call__(self, **values: Any) -> Use: ...


class Asked(Protocol):
    """What answers the queries of an Event and of a Composition."""

    @property
    def claim(self) -> Claim: ...
    def composition(self) -> Run: ...
    def delta(self, epsilon: Any = None, **how: Any) -> Any: ...
    def log_delta(self, epsilon: Any = None, **how: Any) -> Any: ...
    def epsilon(self, delta: Any = None, *, log_delta: Any = None, **how: Any) -> Any: ...
    def tradeoff(self, alpha: Any = None, **how: Any) -> Any: ...
    def __mul__(self, count: Any) -> Run: ...
    def __rmul__(self, count: Any) -> Run: ...
    def __add__(self, other: Any) -> Run: ...


class Use(Asked, Protocol):
    """An Event."""

    @property
    def mechanism(self) -> Described: ...
    @property
    def theta(self) -> tuple[float, ...]: ...
    @property
    def parameters(self) -> dict[str, float]: ...
    @property
    def allocated(self) -> Sequence[tuple[Any, int]]: ...
    @property
    def drawn(self) -> int: ...
    def at(self, **values: float) -> Use: ...
    def loss(self, direction: str = "remove") -> Any: ...
    def rho_bound(self) -> float: ...


class Run(Asked, Protocol):
    """A Composition."""

    @property
    def parts(self) -> Sequence[tuple[Any, int]]: ...
    @property
    def count(self) -> int: ...
    @property
    def symmetric(self) -> bool: ...
    @property
    def methods_used(self) -> frozenset[str]: ...
    def unit(self) -> tuple[Run, int]: ...
    def directions(self, direction: str) -> tuple[str, ...]: ...
    def steps(self, direction: str, *, resolved: bool = True) -> Any: ...
    def evaluation(self, setting: Any = ...) -> Any: ...
    def epsilon_curve(self, delta: Any = None, counts: Any = None, **how: Any) -> Any: ...
