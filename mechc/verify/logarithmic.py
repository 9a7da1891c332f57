"""Integrals over positive outputs in y = log x, where log densities hold powers of log x.

A log-normal density exp(-log(x)^2/2) is no power of x anywhere, neither next to zero nor far out;
in y it is Gaussian. Losses stay what they are, densities take the factor dx/dy = e^y.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flint import arb
from sympy import Dummy, Expr, Symbol, exp, expand, expand_log, log, oo

from mechc.cases import Piece
from mechc.terms import Term
from mechc.verify.integral import PieceIntegral


class LogarithmicIntegral(PieceIntegral):
    """Integrals over lo < log x < hi."""

    def __init__(self, piece: Piece, x: Symbol, values: Any) -> None:
        """Bind the parameters; see `PieceIntegral`."""
        y = Dummy("y", real=True)
        p, q = (tuple(_moved(term, x, y) for term in side) for side in (piece.p, piece.q))
        lo = -oo if piece.lo == 0 else log(piece.lo)
        super().__init__(replace(piece, lo=lo, hi=log(piece.hi), p=p, q=q), y, values)
        self.plain = PieceIntegral(piece, x, values)

    def place(self, x: float) -> Any:
        """Log x, for a bound of a mass."""
        return arb(x).log() if x > 0.0 else arb.neg_inf()


def is_logarithmic(piece: Piece, x: Symbol) -> bool:
    """Whether outputs are positive and a log density holds more than multiples of log x."""
    if not piece.lo.is_nonnegative:
        return False
    place = Dummy("place")
    logs = (expand(t.log_density).xreplace({log(x): place}) for t in (*piece.p, *piece.q))
    return any(f.has(place) and f.diff(place).has(place) for f in logs)


def _moved(term: Term, x: Symbol, y: Symbol) -> Term:
    moved: Expr = expand_log(term.log_density.xreplace({x: exp(y)}), force=True)
    return replace(term, log_density=expand(moved + y))
