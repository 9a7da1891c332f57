"""Rigorous integrals over one piece of a pair: masses and moments of exp(L).

On a piece, p = sum a_i and q = sum b_j with a_i = w_i exp(f_i(x)). The integrand p^(1+z) q^(-z) is
integrated by `acb.integral`; an infinite end is cut where the majorants of
mechc.verify.balls.infinity fall below the working precision.

Next to a finite end where a density falls to zero log p has no enclosure, but a power has: if the
derivatives of p below the m-th vanish at the end and the m-th does not on the distance u from it,
then p = c u^m with c in the enclosure of that derivative over m!. So p^a q^b is at most C u^M, with
M = a m + b n, and its integral over (0, u) at most C u^(1+M) / (1+M), finite for M > -1. A density
that is a product of powers of such functions, as sqrt(w^2 - x^2), is taken factor by factor.

A log-normal density exp(-log(x)^2/2) is no power of x anywhere, neither next to zero nor far out;
over positive outputs whose log densities hold powers of log x the integral is one in y = log x,
where it is Gaussian. Losses stay what they are, densities take the factor dx/dy = e^y.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import pairwise
from math import factorial
from typing import Any

import sympy as sp
from flint import acb, arb, ctx
from sympy import Add, Dummy, Expr, Mul, S, Symbol, exp, log, oo

from mechc.calculus.cases import Piece
from mechc.calculus.terms import Term
from mechc.errors import NumericError, UnsupportedError
from mechc.verify.balls import expressions
from mechc.verify.balls.boxes import Boxes, Open
from mechc.verify.balls.density import difference
from mechc.verify.balls.functions import Function
from mechc.verify.balls.infinity import Unknown
from mechc.verify.balls.part import WHOLE, Part

HIGHEST = 6  # order of a zero


def _power_bound(
    sides: Sequence[tuple[Any, tuple[Term, ...]]], x: Symbol, end: Expr, values: Any, reach: Any
) -> Any:
    """Bound on the integral of a product of powers of densities up to a distance from an end."""
    here = expressions.constant(end, values)
    box, away = here.union(here + reach), abs(reach)
    height, order = arb(0), arb(1)
    for outer, terms in sides:
        for share, base in _factored(terms, x):
            m, c = _zero(base, x, end, values, box)
            exponent = outer * expressions.constant(share, values)
            height += exponent * c.log()
            order += exponent * m
    if not order > 0:
        raise Unknown("infinite next to a finite end")
    return (height.exp() * away**order / order).upper()


@lru_cache(maxsize=64)
def _factored(terms: tuple[Term, ...], x: Symbol) -> tuple[tuple[Expr, Expr], ...]:
    """The density as a product of powers, of factors of polynomials where there are any."""
    # Next to a zero that is close by, factors keep the digits that a polynomial loses.
    found = []
    for share, function in _factors(terms, x):
        polynomial = function.is_polynomial(x)
        for part in Mul.make_args(sp.factor(function) if polynomial else function):
            base, power = part.as_base_exp() if polynomial else (part, S.One)
            found.append((share * power, base))
    return tuple(found)


def _factors(terms: tuple[Term, ...], x: Symbol) -> list[tuple[Expr, Expr]]:
    """The density as a product of powers: (exponent, function) of each."""
    if len(terms) > 1:
        return [(S.One, _density(terms))]
    powers, rest = [], S.Zero
    for summand in Add.make_args(sp.expand(terms[0].log_density)):
        share, function = summand.as_independent(x, as_Add=False)
        if isinstance(function, log):
            powers.append((share, function.args[0]))
        else:
            rest += summand
    return [(S.One, terms[0].weight * exp(rest)), *powers]


def _density(terms: tuple[Term, ...]) -> Expr:
    return Add(*(t.weight * exp(t.log_density) for t in terms))


def _zero(base: Expr, x: Symbol, end: Expr, values: Any, box: Any) -> Any:
    """(m, c): a function of one sign inside is c u^m at distance u, for some c in the ball."""
    for m in range(HIGHEST + 1):
        derivative, vanishes = _derivative(base, x, end, m)
        size = abs(expressions.function(derivative, x, values)(box, False))
        if size > 0 and size.is_finite():
            return m, size / factorial(m)
        if vanishes:
            continue
        numbers = expressions.exact(values)  # ends of two laws may meet for these parameters
        if sp.simplify(derivative.xreplace(numbers).subs(x, end.xreplace(numbers))) != 0:
            break
    raise Unknown("the order of a zero at a finite end")


@lru_cache(maxsize=256)
def _derivative(function: Expr, x: Symbol, end: Expr, m: int) -> tuple[Expr, bool]:
    """The m-th derivative of a function, and whether it is zero at the end."""
    derivative = sp.diff(function, x, m)
    return derivative, sp.simplify(derivative.subs(x, end)) == 0


LARGEST_BISECTION = 500  # boxes
GUARD_BITS = 12  # tails are cut this far below the working precision
# log2 of distances at which a tail is looked at, from 2^-20 on, ever farther apart
DOUBLINGS = (*range(32), *(32 + n + n * n // 24 for n in range(1, 150)))
HALVINGS = 60  # of the distance to a peak
STRIDE = 6  # of places at which a tail is bounded
# distances from an end, as powers of 1/2 of the interval, at which a law is looked at
SAMPLED = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 23, 31, 42, 57, 77, 104, 140, 190, 256, 346)


class PieceIntegral(Part):
    """Integrals over lo < x < hi."""

    def __init__(self, piece: Piece, x: Symbol, values: Any) -> None:
        """Bind the parameters; see `Part`."""
        super().__init__(piece, x, values)
        self._cuts: dict[Any, tuple[Any, Any]] = {}

    @cached_property
    def is_empty(self) -> bool:
        """No mass, or no interior."""
        return bool(self.hi <= self.lo) or (self.p.is_zero and self.q.is_zero)

    def mass(self, law: str, lo: float, hi: float) -> Any:
        """Mass of (lo, hi] on this piece under P or Q."""
        a, b = self.place(lo).max(self.lo), self.place(hi).min(self.hi)
        if (self.p if law == "p" else self.q).is_zero or a >= b:
            return arb(0)
        weights = (acb(1), acb(0)) if law == "p" else (acb(0), acb(1))
        return self.integral(*weights, a, b).real

    def place(self, x: float) -> Any:
        """An output in the variable of integration."""
        return arb(x)

    def moment(self, z: Any) -> Any:
        """Int p^(1+z) q^(-z), zero unless both are positive."""
        if not self.is_shared:
            return acb(0)
        if self.plateau is not None:
            return self.plateau_mass * (z * self.plateau).exp()
        return self.integral(1 + z, -z, self.lo, self.hi)

    def is_bounded(self, z: Any) -> bool:
        """Whether p^(1+z) q^(-z) is proved to have a finite integral, for real z.

        Infinite ends are cut by their bounds; on what is left the exponents of all terms are
        enclosed, so that the integrand is bounded.
        """
        if not self.is_shared:
            return True
        ends = []
        for side, end in ((-1, self.lo), (1, self.hi)):
            place = end if end.is_finite() else self.cut(1 + z, -z, side)[0]
            if not all(law.log(place, False).is_finite() for law in (self.p, self.q)):
                place -= side * self._reach(1 + z, -z, -side, arb.pos_inf())[0]
            ends.append(place)
        lo, hi = ends
        return all(
            all(_bounded(log, lo, hi) for log in law.logs) or _bounded(law.log, lo, hi)
            for law in (self.p, self.q)
        )

    @cached_property
    def plateau(self) -> Any:
        """The loss where it is constant on the piece, else None."""
        if len(self.p.exprs) != 1 or len(self.q.exprs) != 1:
            return None
        gap = sp.expand(self.p.exprs[0] - self.q.exprs[0])
        if gap.has(self.x):
            return None
        return self.p.weights[0] - self.q.weights[0] + expressions.constant(gap, self.values)

    @cached_property
    def plateau_mass(self) -> Any:
        """Mass of the piece under P."""
        return self.mass("p", *WHOLE)

    def integral(self, a: Any, b: Any, lo: Any, hi: Any) -> Any:
        """int_lo^hi p^a q^b."""
        lo, hi, beyond = self.within(a, b, lo, hi)
        total = acb(arb(0, beyond), arb(0, beyond))
        if lo < 0 and hi > 0:
            # features sit near zero far more often than near the middle of a long range
            return total + self._quadrature(a, b, lo, arb(0)) + self._quadrature(a, b, arb(0), hi)
        return total + self._quadrature(a, b, lo, hi)

    def within(self, a: Any, b: Any, lo: Any, hi: Any) -> tuple[Any, Any, Any]:
        """Finite places between lo and hi, and a bound on the integral of p^a q^b beyond them."""
        (first, below), (last, above) = (
            self.beside(a, b, side, end) if end.is_finite() else self.cut(a, b, -side, other)
            for side, end, other in ((1, lo, hi), (-1, hi, lo))
        )
        return first, last, (below + above).upper()

    def beside(self, a: Any, b: Any, side: int, end: Any) -> tuple[Any, Any]:
        """The place to integrate from next to a finite end, and a bound on what is left out."""
        own = self.lo if side > 0 else self.hi
        if not end.overlaps(own) or self.height(a.real, b.real, end).is_finite():
            return end, arb(0)
        reach, bound = self._reach(a, b, side, arb(2) ** (-ctx.prec - GUARD_BITS))
        return end + side * reach, bound

    def _reach(self, a: Any, b: Any, side: int, tiny: Any) -> tuple[Any, Any]:
        """A distance from a finite end, and a bound on the integral up to there."""
        # The bound is below `tiny` if the precision allows a distance that short.
        best, reason = None, "no bound"
        sides = [
            (e.real, t) for e, t in ((a, self.piece.p), (b, self.piece.q)) if not e.real.is_zero()
        ]
        width, end = self.hi - self.lo, self.piece.lo if side > 0 else self.piece.hi
        for k in range(4, max(ctx.prec - 16, 5), 4):
            reach = (width if width.is_finite() else arb(1)) * arb(2) ** -k
            try:
                best = reach, _power_bound(sides, self.x, end, self.values, side * reach)
            except Unknown as error:
                reason = str(error)
                continue
            if best[1] <= tiny:
                return best
        if best is None:
            raise UnsupportedError(f"p^{a.str(5)} q^{b.str(5)} next to a finite end: {reason}")
        return best

    def _quadrature(self, a: Any, b: Any, lo: Any, hi: Any) -> Any:
        """int_lo^hi p^a q^b by `acb.integral`."""
        exponent, size = self.exponent(a, b), self._size(a.real, b.real, lo, hi)
        tolerance = arb(2) ** (-ctx.prec + GUARD_BITS)
        total = acb.integral(
            lambda x, analytic: exponent(x, analytic).exp(), lo, hi,
            rel_tol=tolerance, abs_tol=tolerance * size,
        )  # fmt: skip
        if not total.is_finite():
            raise NumericError(f"the integral from {lo.str(5)} to {hi.str(5)} did not settle")
        return total

    def _size(self, a: Any, b: Any, lo: Any, hi: Any) -> Any:
        """A lower guess at the integral of |p^a q^b|, which sets the accuracy that is asked alone.

        It is what lies between places that are seen; around the highest of them others are, until
        the top of a peak that is narrow beside the interval is.
        """
        height, steps = self.exponent(a, b), [(hi - lo) * arb(2) ** -k for k in SAMPLED]

        def seen(x: Any) -> tuple[Any, Any]:
            here = height(x.mid(), False)
            return x.mid(), here if here.is_finite() else arb.neg_inf()

        def between(rows: list[Any]) -> Any:
            return max(((y - x) * h.min(g).exp()).lower() for (x, h), (y, g) in pairwise(rows))

        places = (*(lo + step for step in reversed(steps)), *(hi - step for step in steps[1:]))
        rows = [*map(seen, (lo, *places, hi))]
        size = between(rows)
        for _ in range(HALVINGS):
            top = max(range(1, len(rows) - 1), key=lambda k: float(rows[k][1]))
            left, middle, right = rows[top - 1 : top + 2]
            rows = [left, middle, right]
            if left[1].min(right[1]) > middle[1] - 1:
                break
            near = [seen((x + middle[0]) / 2) for x, _ in (left, right)]
            rows = [left, near[0], middle, near[1], right]
        return size.max(between(rows))

    def height(self, a: Any, b: Any, x: Any) -> Any:
        """Log of p^a q^b at a point."""
        return self.exponent(a, b)(x, False)

    def exponent(self, a: Any, b: Any) -> Callable[[Any, bool], Any]:
        """Log of p^a q^b as (a + b) f + b (g - f) + a log(p/e^f) + b log(q/e^g), terms f and g."""
        if a.is_zero():
            return lambda x, analytic: self.q.log(x, analytic) * b
        if b.is_zero():
            return lambda x, analytic: self.p.log(x, analytic) * a
        rows = [(f, (a + b) * own + b * gap) for f, own, gap in self._functions]

        def exponent(x: Any, analytic: bool) -> Any:
            value = a * self.p.beside(x, analytic) + b * self.q.beside(x, analytic)
            for function, share in rows:
                value += function(x, analytic) * share
            if value.is_finite():
                return value
            return a * self.p.log(x, analytic) + b * self.q.log(x, analytic)

        return exponent

    @cached_property
    def _functions(self) -> list[tuple[Function, Any, Any]]:
        """Functions with their shares in the first term f of p, and in what that of q adds."""
        # of shares that nearly cancel in (a + b) f + b (g - f), next to an end of the strip, wide
        # balls keep no digit unless they are added up before the function is enclosed
        first, other = self.p.exprs[0], self.q.exprs[0]
        shares = defaultdict[Expr, list[Expr]](lambda: [S.Zero, S.Zero])
        for column, expr in enumerate((first, difference(other, first, self.x))):
            for summand in Add.make_args(expr):
                share, function = summand.as_independent(self.x, as_Add=False)
                shares[function][column] += share
        return [
            (expressions.function(f, self.x, self.values),
             *(expressions.constant(share, self.values) for share in both))
            for f, both in shares.items()
        ]  # fmt: skip

    def loss_on(self, box: Any) -> Any:
        """The loss on a box, by the mean value theorem where that is sharper, as at its extrema."""
        loss, middle = self.exponent(acb(1), acb(-1)), box.mid()
        plain = loss(box, False).real
        central = loss(middle, False).real + (self.p.slope(box) - self.q.slope(box)) * (
            box - middle
        )
        return central if central.is_finite() and central.rad() < plain.rad() else plain

    def cut(self, a: Any, b: Any, side: int, other: Any = None) -> tuple[Any, Any]:
        """Where an infinite end is cut for p^a q^b, and a bound on what lies beyond.

        It lies beyond the other end, that of the piece unless given.
        """
        if other is None:
            other = self.lo if side > 0 else self.hi
        key = *(v for e in (a.real, b.real) for v in (e.mid().man_exp(), e.rad().man_exp())), side
        first = (side * other).max(arb(0)) if other.is_finite() else arb(0)
        if (key := (*key, str(first))) not in self._cuts:
            self._cuts[key] = self._find_cut(a.real, b.real, side, first)
        return self._cuts[key]

    def _find_cut(self, a: Any, b: Any, side: int, first: Any) -> tuple[Any, Any]:
        tiny = arb(2) ** (-ctx.prec - GUARD_BITS)
        peak, reason, places = arb(0), "no bound", list[Any]()
        for k in DOUBLINGS:
            y = (first + arb(2) ** (k - 20)).upper()
            here = self.height(a, b, side * y)
            peak = peak.max(here.exp() * y) if here.is_finite() else peak
            places.append(y)
            if len(places) % STRIDE:
                continue
            if not here.exp() * y <= tiny * peak:  # nor is what lies beyond
                continue
            found = None
            for place in reversed(places[-STRIDE:]):
                try:
                    bound = self.tail(a, b, side, place).upper()
                except Unknown as error:
                    reason = str(error)
                    break
                if not bound <= tiny * peak:
                    break
                found = side * place, bound
            if found is not None:
                return found
        raise UnsupportedError(f"no bound on the tail of p^{a.str(5)} q^{b.str(5)}: {reason}")


def _bounded(log: Callable[[Any, bool], Any], lo: Any, hi: Any) -> bool:
    """Whether a log density has a finite enclosure on every part of a bisection of (lo, hi)."""
    todo = Boxes([(lo, hi)], LARGEST_BISECTION)
    try:
        for left, right in todo:
            if not log(left.union(right), False).is_finite():
                todo.halve(left, right)
    except Open:
        return False
    return True


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
    logs = (sp.expand(t.log_density).xreplace({log(x): place}) for t in (*piece.p, *piece.q))
    return any(f.has(place) and f.diff(place).has(place) for f in logs)


def _moved(term: Term, x: Symbol, y: Symbol) -> Term:
    moved: Expr = sp.expand_log(term.log_density.xreplace({x: exp(y)}), force=True)
    return replace(term, log_density=sp.expand(moved + y))
