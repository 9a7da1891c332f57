"""Distance of the composed tilted loss from a normal law, by the Berry-Esseen theorem.

In: a composed loss and a tilt. Out: a number D with |F(x) - Phi(x)| <= D for all x, F the
distribution function of the standardised sum. Smallest published constants:

* identical summands, Shevtsova, "On the absolute constants in the Berry-Esseen inequality and its
  structural and nonuniform improvements", Informatics and Applications 7 (2013) 124-125: with b the
  standardised third absolute moment of one of n summands, D sqrt(n) = min(0.4690 b,
  0.3322 (b + 0.429), 0.3031 (b + 0.646));
* independent summands, the same article: 0.5583 sum E|X_j|^3 / (sum Var X_j)^(3/2).

They are used as published; the earlier 0.4748 (2011) and 0.5600 (2010) are within 1.3 % of them.
"""

from __future__ import annotations

import math

from mechc.accountants.contours.composed import ComposedLoss

_INDEPENDENT = 0.5583  # of the second theorem in the docstring; the next line: of the first
_IDENTICAL = ((0.4690, 0.0), (0.3322, 0.429), (0.3031, 0.646))  # (c, a) of c (b + a)


def identical_distance(b: float, n: float) -> float:
    """Return D for n identical summands whose standardised third absolute moment is b."""
    return min(c * (b + a) for c, a in _IDENTICAL) / math.sqrt(n)


def berry_esseen_distance(composed: ComposedLoss, t: float) -> float:
    """Return D for the composed loss tilted by t, at most one; it needs a third moment only."""
    fraction = composed.lyapunov(t)
    if composed.identical:
        n = float(composed.count)
        distance = identical_distance(fraction * math.sqrt(n), n)
    else:
        distance = _INDEPENDENT * fraction
    return min(1.0, distance * (1 + 1e-9))
