"""A kernel seen through a window: outputs outside (lower, upper) count as revealing everything.

What P has outside is laid where Q has nothing, and what Q has where P has nothing; folding both
back gives the pair, so that this one dominates it (T9). Inside the branches are those of the
kernel, cut at the window, and outside two more stand for the masses, which are found by quadrature
whatever the density: nothing is derived or compiled again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mechc import protocol
from mechc.protocol import Floats, Kernel, Measure, ParameterInfo

ENDS = {
    "lower": ParameterInfo("lower", -math.inf, 0.0, True, True, False, None, (-30.0, -10.0)),
    "upper": ParameterInfo("upper", 0.0, math.inf, True, True, False, None, (10.0, 30.0)),
}
"""Parameters of a window, after those of the kernel."""


def fits(kernel: Kernel, theta: Floats) -> bool:
    """Whether a kernel has densities and nothing else, of which a window can be made."""
    return kernel.MEASURE == Measure.DENSITY and not np.asarray(kernel.atoms(theta)).size


class Offered:
    """What an emitted kernel offers, as far as it is the same of all that are made of others.

    They have densities, no point masses, and masses at infinite loss that quadrature finds.
    """

    PROTOCOL: ClassVar[int] = protocol.PROTOCOL
    DIGEST: Any = ""
    MEASURE: ClassVar[str] = Measure.DENSITY
    SYMMETRIC: ClassVar[bool] = False
    CAPABILITIES: ClassVar[dict[str, str]] = {"cgf": "none", "cdf": "none"}
    PARAMETERS: Any = ()
    CLAIM: ClassVar[dict[str, Any]] = {}
    REFS: ClassVar[tuple[str, ...]] = ()
    BRANCHES: ClassVar[tuple[str, ...]] = ()
    ABOUT: ClassVar[str] = ""

    def atoms(self, theta: Floats) -> Floats:
        """Return none."""
        return np.empty((0, 3))

    def log_infinite_mass(self, theta: Floats) -> float:
        """Return nan: it is found by quadrature."""
        return math.nan


@dataclass(frozen=True)
class Window(Offered):
    """The pair of a kernel in a window, offered as an emitted kernel is.

    Attributes:
        kernel: of densities, without point masses.
    """

    kernel: Any

    @property
    def NAME(self) -> str:
        """Name for messages."""
        return f"truncate({self.kernel.NAME})"

    @property
    def DIGEST(self) -> str:
        """What identifies the kernel."""
        return f"{self.kernel.DIGEST} in a window"

    @property
    def PARAMETERS(self) -> tuple[tuple[Any, ...], ...]:
        """Those of the kernel, and the ends."""
        return (*self.kernel.PARAMETERS, *map(tuple, ENDS.values()))

    def _own(self, theta: Floats) -> Floats:
        """The parameters of the kernel."""
        return np.ascontiguousarray(theta[: -len(ENDS)])

    def log_p_many(self, x: Floats, theta: Floats, out: Floats) -> None:
        """Write log p at x, inside and outside."""
        self.kernel.log_p_many(np.ascontiguousarray(x), self._own(theta), out)

    def log_q_many(self, x: Floats, theta: Floats, out: Floats) -> None:
        """Write log q at x, inside and outside."""
        self.kernel.log_q_many(np.ascontiguousarray(x), self._own(theta), out)

    def loss_many(self, x: Floats, theta: Floats, out: Floats) -> None:
        """Write the losses at x."""
        self.kernel.loss_many(np.ascontiguousarray(x), self._own(theta), out)

    def loss(self, x: float, theta: Floats) -> float:
        """Return the loss at x."""
        return float(self.kernel.loss(x, self._own(theta)))

    @property
    def solve_loss(self) -> Any:
        """What the kernel iterates with, if it has inverses without a closed form."""
        return self.kernel.solve_loss

    def loss_inverse_many(self, branch: int, loss: Floats, theta: Floats, out: Floats) -> None:
        """Write where a branch of the kernel has these losses."""
        self.kernel.loss_inverse_many(branch, np.ascontiguousarray(loss), self._own(theta), out)

    def branches(self, theta: Floats) -> Floats:
        """Return the branches inside, and P and Q apart outside."""
        lower, upper = theta[-len(ENDS) :].tolist()
        rows = []
        known = np.asarray(self.kernel.branches(self._own(theta)), np.float64)
        for lo, hi, kind, *limits, index in known.reshape(-1, 6).tolist():
            a, b = max(lo, lower), min(hi, upper)
            if a < b:
                first = limits[0] if a == lo else self._limit(a, kind, limits, theta)
                last = limits[1] if b == hi else self._limit(b, kind, limits, theta)
                rows.append([a, b, kind, first, last, index])
            for c, d in ((lo, min(hi, lower)), (max(lo, upper), hi)):
                for side, other, loss in (
                    (protocol.P_ONLY, protocol.Q_ONLY, math.inf),
                    (protocol.Q_ONLY, protocol.P_ONLY, -math.inf),
                ):
                    if c < d and kind != other:
                        rows.append([c, d, side, loss, loss, 0.0])
        return np.array(rows).reshape(-1, 6)

    def _limit(self, x: float, kind: float, limits: list[float], theta: Floats) -> float:
        """The loss where a branch is cut, which stays between its limits."""
        if kind in (protocol.PLATEAU, protocol.P_ONLY, protocol.Q_ONLY):
            return limits[0]
        return self.loss(x, theta)

    def strip(self, theta: Floats) -> Floats:
        """Return the whole line where losses are known to be bounded inside, else the kernel's."""
        rows = self.branches(theta)
        rows = rows[~np.isin(rows[:, 2], (protocol.P_ONLY, protocol.Q_ONLY))]
        if np.isfinite(rows[:, 3:5]).all() and not (rows[:, 2] == protocol.UNSPLIT).any():
            return np.array([-math.inf, math.inf])
        return np.asarray(self.kernel.strip(self._own(theta)))
