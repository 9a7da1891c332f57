"""One side of a piece as a function on balls: log of a sum of weighted exponentials."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from itertools import combinations
from typing import Any

from flint import arb
from sympy import Add, Expr, Mul, S, Symbol, diff, exp, expand, log, powsimp

from mechc.calculus.terms import Term
from mechc.verify.balls import expressions
from mechc.verify.balls.functions import log_of


class Law:
    """One side of a piece: log of a sum of weighted exponentials, on balls."""

    def __init__(self, terms: tuple[Term, ...], x: Symbol, values: Any) -> None:
        """Compile the terms, those of weight zero left out."""
        self.x, self.values = x, values
        kept = []
        for term in (part for whole in terms for part in _parts(whole, x, values)):
            weight = expressions.constant(term.weight, values)
            if not weight.is_zero():
                kept.append((weight.log(), term.log_density))
        self.exprs: list[Expr] = [e for _, e in kept]
        self.weights = [w for w, _ in kept]
        self.logs = [expressions.function(e, x, values) for e in self.exprs]
        self._known_gaps: dict[int, list[tuple[Any, Callable[[Any, bool], Any]]]] = {}

    @property
    def is_zero(self) -> bool:
        """No term is left."""
        return not self.logs

    def log(self, x: Any, analytic: bool) -> Any:
        """Log density at a ball."""
        for base, first in enumerate(self.logs):  # beside the largest term none overflows
            value = first(x, analytic) + self.beside(x, analytic, base)
            if len(self.logs) == 1 or value.is_finite():
                return value
        # a term vanishes, and has no logarithm, but not all of them do
        return log_of(sum((w * f(x, analytic) for w, f in self._densities), start=arb(0)), analytic)

    @cached_property
    def _densities(self) -> list[tuple[Any, Callable[[Any, bool], Any]]]:
        rows = zip(self.weights, self.exprs, strict=True)
        return [(w.exp(), expressions.function(exp(e), self.x, self.values)) for w, e in rows]

    def beside(self, x: Any, analytic: bool, base: int = 0) -> Any:
        """Log of the density over exp of one term, of expanded differences."""
        own, others = self.weights[base], self._gaps(base)
        if not others:
            return own
        rises = ((w + f(x, analytic)).exp() for w, f in others)
        return log_of(sum(rises, start=own.exp()), analytic)

    def _gaps(self, base: int) -> list[tuple[Any, Callable[[Any, bool], Any]]]:
        """Weights of the other terms, and how far these are above one."""
        if base not in self._known_gaps:
            others = [i for i in range(len(self.exprs)) if i != base]
            gaps = (difference(self.exprs[i], self.exprs[base], self.x) for i in others)
            self._known_gaps[base] = [
                (self.weights[i], expressions.function(gap, self.x, self.values))
                for i, gap in zip(others, gaps, strict=True)
            ]
        return self._known_gaps[base]

    def term(self, i: int, x: Any) -> Any:
        """Log of one term at a real ball."""
        return self.weights[i] + self.logs[i](x, False)

    def slope(self, x: Any) -> Any:
        """Derivative of the log density at a real ball: slopes of the terms, by their shares."""
        slopes = [f(x, False) for f in self._slopes]
        if len(slopes) == 1:
            return slopes[0]
        logs = [self.term(i, x) for i in range(len(slopes))]
        first = slopes[0]
        # shares add up to one: only differences of slopes are spread out by their enclosures
        total = first
        for i in range(1, len(slopes)):
            rest = sum(((log - logs[i]).exp() for log in logs[:i] + logs[i + 1 :]), start=arb(1))
            total += (slopes[i] - first) / rest
        return total

    @cached_property
    def _slopes(self) -> list[Callable[[Any, bool], Any]]:
        return [expressions.function(diff(e, self.x), self.x, self.values) for e in self.exprs]


def difference(one: Expr, other: Expr, x: Symbol) -> Expr:
    """The difference, expanded, where logarithms are joined of which it keeps few digits.

    They are of polynomials with one leading term, or of 1 + exp(u) with exponents at a distance
    that does not depend on x: far out both are large and their difference is not, which enclosures
    of each of them cannot see.
    """
    rest, shares = S.Zero, defaultdict[Expr, Expr](lambda: S.Zero)
    for summand in Add.make_args(expand(one - other)):
        share, function = summand.as_independent(log)
        if isinstance(function, log) and not share.has(x):
            shares[function.args[0]] += share
        else:
            rest += summand
    for (top, share), (bottom, opposite) in combinations(list(shares.items()), 2):
        if share + opposite == 0 and (joined := _log_ratio(top, bottom, x)) is not None:
            rest += share * joined
            shares[top] = shares[bottom] = S.Zero
    return rest + Add(*(share * log(inside) for inside, share in shares.items()))


def _log_ratio(top: Expr, bottom: Expr, x: Symbol) -> Expr | None:
    """Log of A/B, of one occurrence of what grows, or None.

    A and B are positive on the real line, so that it is the same function there as the difference
    of their logarithms, and its continuation wherever it is analytic.
    """
    if top.is_polynomial(x) and bottom.is_polynomial(x):
        a, b = top.as_poly(x), bottom.as_poly(x)
        apart = a is not None and b is not None and (a - b).degree() < b.degree()
        return log(1 + (a - b).as_expr() / bottom) if apart else None
    u, v = powsimp(top - 1), powsimp(bottom - 1)
    if not (isinstance(u, exp) and isinstance(v, exp)):
        return None
    gap = expand(u.args[0] - v.args[0])
    if gap.is_negative:
        return -log(1 + (exp(-gap) - 1) / (1 + exp(-u.args[0])))
    return log(1 + (exp(gap) - 1) / (1 + exp(-v.args[0]))) if gap.is_positive else None


def _parts(term: Term, x: Symbol, values: Any) -> list[Term]:
    """Weighted exponentials of which a term is the sum, at parameters where all weights have signs.

    The calculus keeps a sum together where a weight, such as 1 - a - b, may be negative.
    """
    if not (isinstance(term.log_density, log) and isinstance(term.log_density.args[0], Add)):
        return [term]
    found = []
    for part in term.log_density.args[0].args:
        weight, rest = part.as_independent(x, as_Add=False)
        size = expressions.constant(weight, values)
        if not (size > 0 or size.is_zero()) or not all(
            isinstance(f, exp) for f in Mul.make_args(rest)
        ):
            return [term]
        found.append(Term(term.weight * weight, Add(*(f.args[0] for f in Mul.make_args(rest)))))
    return found
