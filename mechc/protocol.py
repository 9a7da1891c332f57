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

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mechc.adjacency import Claim

PROTOCOL = 2

INCREASING = 1
DECREASING = -1
PLATEAU = 0
P_ONLY = 2
Q_ONLY = 3
UNSPLIT = 4

TAG = "tag"
"""Key of CAPABILITIES: the last parameter is an index that the output also tells."""

Floats = NDArray[np.float64]


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
    atom_errors: Callable[[Floats], Floats]  # (rows, 2): of these masses, in roundings; or none
    log_infinite_mass: Callable[[Floats], float]  # log P(q = 0); nan: only quadrature gives it
    strip: Callable[[Floats], Floats]  # (t_minus, t_plus)
    lattice: Callable[[Floats], Floats]  # (offset, step) of the loss; (nan, nan) when it is none
    cgf: Callable[[complex, Floats], complex]  # only if CAPABILITIES["cgf"] starts with "closed"
    # cdf_p, sf_p, cdf_q, sf_q: scalar functions, only if CAPABILITIES["cdf"] starts with "closed"


def is_closed(kernel: Kernel, name: str) -> bool:
    """Whether a kernel has a formula for "cgf", "cdf", "lattice" or "infinite_mass"."""
    return kernel.CAPABILITIES.get(name, "").startswith("closed")


class Described(Protocol):
    """A mechanism as other rooms see it (`mechc.composition.mechanism.Mechanism`, a table)."""

    @property
    def name(self) -> str:
        """Name for people."""

    @property
    def key(self) -> str:
        """What identifies the kernel or the table."""

    @property
    def parameters(self) -> tuple[ParameterInfo, ...]:
        """The parameters in kernel order."""

    @property
    def bound(self) -> Mapping[str, float]:
        """Parameter values fixed so far."""

    @property
    def claim(self) -> Claim:
        """What the pair stands for."""

    @property
    def symmetric(self) -> bool:
        """Whether both directions are the same, proved."""

    @property
    def references(self) -> tuple[str, ...]:
        """Keys of the literature."""

    @property
    def kernel(self) -> Kernel:
        """The compiled kernel."""

    @property
    def law_kernel(self) -> Kernel:
        """The kernel that laws are made of."""

    @property
    def reverse_kernel(self) -> Kernel | None:
        """The kernel of the "add" direction if it was declared separately."""

    @property
    def tag_kernel(self) -> Kernel | None:
        """The kernel of the law of an index that the output tells."""

    @property
    def source(self) -> str:
        """Text of the kernel."""

    @property
    def declaration(self) -> Any:
        """The declaration (imports sympy)."""

    @property
    def moved_by(self) -> str | None:
        """Name of the parameter that says how far a query moves, None without additive noise."""

    def derived(self, what: str, make: Callable[[], Any]) -> Any:
        """What is read off the declaration, as JSON holds it; kept beside the kernel."""

    def explain(self, *, whole: bool = False) -> Any:
        """What was derived (imports sympy)."""

    def record(self) -> dict[str, Any]:
        """What a run file holds of it."""

    @property
    def rates(self) -> tuple[str, ...]:
        """Names of the parameters that are sampling rates."""

    @property
    def upper_only(self) -> str:
        """Why answers bound the mechanism from above alone, "" where they are exact."""

    def unsampled(self, theta: tuple[float, ...]) -> Any:
        """The event on all records where a sample keeps them all, else None."""

    def __call__(self, **values: Any) -> Any:
        """Bind all parameters; an event."""


class Asked(Protocol):
    """An event or a composition as a figure asks it."""

    def composition(self) -> Run:
        """The composition that the queries are about."""

    def delta(self, epsilon: Any, **how: Any) -> Any:
        """Bounds on delta."""

    def log_delta(self, epsilon: Any, **how: Any) -> Any:
        """Bounds on log delta."""

    def epsilon(self, delta: Any = None, **how: Any) -> Any:
        """Bounds on epsilon."""

    def tradeoff(self, alpha: Any, **how: Any) -> Any:
        """Bounds on the false negative rate."""

    def epsilon_curve(self, delta: float, counts: Iterable[int], **how: Any) -> Any:
        """Bounds on epsilon after each number of repetitions."""


class Use(Asked, Protocol):
    """An event as other rooms see it: a mechanism with its parameters bound."""

    mechanism: Described
    theta: tuple[float, ...]

    @property
    def allocated(self) -> tuple[tuple[Use, int], ...]:
        """Distinct steps with counts, where a record takes part in one of them."""

    @property
    def parameters(self) -> dict[str, float]:
        """Parameter values by name."""

    @property
    def claim(self) -> Claim:
        """What the pair stands for."""

    def record(self) -> dict[str, Any]:
        """What a run file holds of it."""

    def rho_bound(self) -> float:
        """A rho of zCDP known in closed form, nan where there is none."""

    def at(self, **values: float) -> Use:
        """The event with other values of some parameters."""

    def loss(self, direction: str = "remove") -> Any:
        """The law of the privacy loss in one direction."""

    def __mul__(self, count: Any) -> Run:
        """Repeat."""

    def __rmul__(self, count: Any) -> Run:
        """Repeat."""


class Run(Asked, Protocol):
    """A composition as the functions behind its queries see it."""

    @property
    def parts(self) -> tuple[tuple[Any, int], ...]:
        """Distinct events with their counts."""

    @property
    def symmetric(self) -> bool:
        """Whether both directions are the same, proved for every event."""

    @property
    def claim(self) -> Claim:
        """The weakest claim of the events."""

    @property
    def count(self) -> int:
        """Total number of steps."""

    def unit(self) -> tuple[Run, int]:
        """The shortest run that this one repeats, and how often."""

    @property
    def methods_used(self) -> frozenset[str]:
        """Names of the methods that have answered."""

    def steps(self, direction: str) -> tuple[Any, ...]:
        """The distinct privacy losses of one direction with their counts."""

    def directions(self, direction: str) -> tuple[str, ...]:
        """The directions to evaluate for "both", "remove" or "add"."""

    def evaluation(
        self, method: str = "auto", direction: str = "both", rtol: float = 1e-6, **options: Any
    ) -> Any:
        """Log delta as a function."""

    def __mul__(self, count: Any) -> Run:
        """Repeat everything."""

    def __rmul__(self, count: Any) -> Run:
        """Repeat everything."""

    def __add__(self, other: Any) -> Run:
        """Compose."""
