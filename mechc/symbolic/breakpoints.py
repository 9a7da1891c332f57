"""Cut the output axis where Abs, Max, Min, sign, Heaviside and Piecewise switch.

Input: expressions in the variable and an interval. Output: sorted intervals on each of which the
expressions are smooth. A switch is a function u whose sign selects a formula; its zeros must be
those of a linear or quadratic polynomial.

An interval is held as two cuts (a, b): the reals between them, or on a lattice the integers
a+1, ..., b. Zeros of u matter only on a lattice, where each switch says which side they belong to.
A cut whose place among others depends on the parameters is moved into each interval that it may
lie in (`clamped`): parts may be empty, and no order is ever enumerated. Inside a part it is known
that it is not empty, which rules out most combinations of cuts.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy import Basic, Expr, S, Symbol, oo
from sympy.core.relational import Relational

from mechc.errors import UnsupportedError
from mechc.symbolic.evaluate import Values, evaluate_array
from mechc.symbolic.facts import SAMPLES, Facts, Undecided, candidates, sampled
from mechc.symbolic.functions import clamped
from mechc.symbolic.signs import decide, weak_sign, without_exponentials

SWITCHES = (sp.Abs, sp.sign, sp.Max, sp.Min, sp.Heaviside, Relational)
ROUGH = (sp.floor, sp.ceiling, sp.frac, sp.Mod, sp.DiracDelta, sp.KroneckerDelta,
         sp.re, sp.im, sp.arg)  # fmt: skip
LIMIT = 400  # pieces of an expression, done and waiting
MANY = 16  # comparisons from which on those whose order is proved are cut at together


class Stretch(NamedTuple):
    """Smooth expressions between two cuts."""

    lo: Expr
    hi: Expr
    exprs: tuple[Expr, ...]


class _Cell(NamedTuple):
    """An interval; the facts say that it is not empty, and `always` what holds if it is."""

    lo: Expr
    hi: Expr
    facts: Facts
    always: Facts

    def parts(self, cuts: list[tuple[Expr, int]], first: int, ordered: bool) -> list[_Part]:
        """The parts between increasing cuts, with the signs before and after each of them."""
        lows, highs = candidates(self.lo, self.hi)
        inner = [(self._placed(cut), cut, after) for cut, after in cuts]
        found = []
        for (lo, low, s), (hi, high, _) in pairwise(
            [(self.lo, -oo, first), *inner, (self.hi, oo, 0)]
        ):
            pairs = list(product((*lows, low), (*highs, high)))
            orders = [_order(*pair, self.facts) for pair in pairs]
            if -1 in orders or 0 in orders:
                continue
            facts = self.facts
            for (a, b), order in zip(pairs, orders, strict=True):
                if order is None and ordered:
                    raise Undecided(sp.expand(b - a))
                facts = facts if order else facts.assume(sp.expand(b - a), 1)
            found.append((_Cell(lo, hi, facts, self.always), s))
        return found

    def _placed(self, cut: Expr) -> Expr:
        """A cut moved into the interval."""
        lows, highs = candidates(self.lo, self.hi)
        below = [_order(low, cut, self.facts) for low in lows]
        above = [_order(cut, high, self.facts) for high in highs]
        if -1 in below or 0 in below:
            return self.lo
        if -1 in above or 0 in above:
            return self.hi
        if self.facts != self.always:  # parts of an empty cell have to be empty too
            below = [_order(low, cut, self.always) for low in lows]
            above = [_order(cut, high, self.always) for high in highs]
        return clamped(
            cut, -oo if set(below) == {1} else self.lo, oo if set(above) == {1} else self.hi
        )


_Part = tuple[_Cell, int]


def _order(a: Expr, b: Expr, facts: Facts) -> int | None:
    """The sign of b - a for two cuts, which may be infinite; None where it is not proved."""
    if a == b:
        return 0
    if a.is_infinite or b.is_infinite:
        return 1 if a == -oo or b == oo else -1
    return weak_sign(sp.expand(b - a), facts)


class _Switch(NamedTuple):
    """u, and the side its zeros belong to: +1, -1, 0 for a side of their own, None for either."""

    u: Expr
    zero: int | None


def split(
    exprs: tuple[Expr, ...],
    variable: Symbol,
    lo: Expr,
    hi: Expr,
    facts: Facts,
    *,
    ordered: bool = False,
) -> list[Stretch]:
    """Split the interval between the cuts `lo` and `hi` until `exprs` are smooth on every part.

    Args:
        exprs: what is to become smooth.
        variable: the variable.
        lo: first cut.
        hi: last cut.
        facts: the parameter domains and what the case assumes.
        ordered: whether cuts in an unknown order are refused.

    Raises:
        Undecided: a sign depends on the parameters, or the order of two cuts if it must not.
        UnsupportedError: a switch is neither linear nor quadratic in the variable.
    """
    found = _split(exprs, variable, lo, hi, facts, ordered=False)
    if ordered and any(end.has(clamped) for stretch in found for end in (stretch.lo, stretch.hi)):
        return list(_split(exprs, variable, lo, hi, facts, ordered=True))
    return list(found)


@lru_cache(maxsize=64)  # noise is taken apart for its shape, its centre and its pair
def _split(
    exprs: tuple[Expr, ...], variable: Symbol, lo: Expr, hi: Expr, facts: Facts, *, ordered: bool
) -> tuple[Stretch, ...]:
    done: list[Stretch] = []
    waiting = _cut_together(
        _Cell(lo, hi, facts, facts), tuple(map(_without_absolutes, exprs)), variable
    )[::-1]
    while waiting:
        cell, formulas = waiting.pop()
        node = _innermost(formulas)
        if node is None:
            _check_smooth(formulas, variable)
            done.append(Stretch(cell.lo, cell.hi, formulas))
            continue
        if node.has(variable):
            parts = _signs(_switch(node), variable, cell, ordered)
        else:
            parts = [(cell, _parameter_sign(node, facts))]
        if len(done) + len(waiting) + len(parts) > LIMIT:
            raise UnsupportedError(f"more than {LIMIT} pieces; {node} switches too often")
        for part, s in reversed(parts):
            chosen = {node: _value(node, s)}
            waiting.append((part, tuple(e.xreplace(chosen) for e in formulas)))
    return tuple(done)


def _cut_together(
    cell: _Cell, formulas: tuple[Expr, ...], variable: Symbol
) -> list[tuple[_Cell, tuple[Expr, ...]]]:
    """The cell, or where much is compared its parts between cuts in a proved order.

    Cut one by one, formulas are rewritten as often as there are cuts, and each cut is compared with
    many; sorted by their values, neighbours alone have to be compared.
    """
    signs = _single_cuts(cell, formulas, variable)
    if len(signs) < MANY:
        return [(cell, formulas)]
    cuts = tuple(dict.fromkeys(cut for cut, *_ in signs.values()))
    order, values = in_order((cell.lo, cell.hi, *cuts), cell.facts)
    while len(order) > 1 and _order(order[-1], cell.hi, cell.facts) != 1:
        order.pop()
    place = {cut: i for i, cut in enumerate((*order, cell.hi))}
    parts = []
    for i, (lo, hi) in enumerate(pairwise((*order, cell.hi))):
        truth: dict[Basic, Basic] = {}
        for node, (cut, first, after) in signs.items():
            if cut in place:
                before = place[cut] > i
            elif (values[cut] >= values[hi]).all() and _order(hi, cut, cell.facts) in (0, 1):
                before = True
            elif (values[cut] <= values[lo]).all() and _order(cut, lo, cell.facts) in (0, 1):
                before = False
            else:
                continue
            truth[node] = _value(node, first if before else after)
        known: dict[Basic, Basic] = {}
        rest = tuple(_resolved(formula, truth, known) for formula in formulas)
        parts.append((_Cell(lo, hi, cell.facts, cell.always), rest))
    return parts


def _single_cuts(
    cell: _Cell, formulas: tuple[Expr, ...], variable: Symbol
) -> dict[Basic, tuple[Expr, int, int]]:
    """Comparisons that switch once and hold no other switch: where, the signs before and after."""
    nodes: set[Basic] = set().union(*(e.atoms(Relational) for e in formulas))
    found = {}
    for node in sorted(nodes, key=lambda n: n.sort_key()) if len(nodes) >= MANY else ():
        switch = _switch(node)
        u = switch.u
        if node.has(*SWITCHES[:-1]) or not (u.has(variable) and u.is_polynomial(variable)):
            continue
        try:
            zeros_matter = bool(variable.is_integer) and switch.zero is not None
            first, roots = _roots(u, variable, cell.facts, zeros_matter)
            cuts = _cuts(switch, variable, first, roots)
        except (Undecided, UnsupportedError):
            continue  # to be cut at alone, or refused
        if len(cuts) == 1:
            found[node] = cuts[0][0], first, cuts[0][1]
    return found


def in_order(
    ends: tuple[Expr, ...], facts: Facts
) -> tuple[list[Expr], dict[Expr, NDArray[np.float64]]]:
    """The first end and those whose order after it is proved, and the values of all.

    The second one is left out, as the end of the interval that the others are in.
    """
    values = _values_of(ends, facts)
    order = [ends[0]]
    for end in sorted(ends[2:], key=lambda end: (*values[end][:1], end.sort_key())):
        if (values[end] > values[order[-1]]).all() and _order(order[-1], end, facts) == 1:
            order.append(end)
    return order, values


def _values_of(ends: tuple[Expr, ...], facts: Facts) -> dict[Expr, NDArray[np.float64]]:
    """Ends at parameters spread over the domain."""

    def stacked(_: Expr, values: Values) -> NDArray[Any]:
        rows = [evaluate_array(end, values) for end in ends]
        return np.stack([np.broadcast_to(row, (SAMPLES, 1)) for row in rows])

    found = sampled(sp.Tuple(*ends), facts, stacked)
    found = np.broadcast_to(found, (len(ends), SAMPLES, 1))[:, :, 0]
    return dict(zip(ends, found[:, ~np.isnan(found).any(axis=0)], strict=True))


def _resolved(expr: Basic, truth: dict[Basic, Basic], known: dict[Basic, Basic]) -> Basic:
    """An expression where some comparisons are known."""
    if expr in truth:
        return truth[expr]
    if expr not in known:
        if isinstance(expr, sp.Piecewise):
            known[expr] = _first_arm(expr, truth, known)
        elif expr.args:
            args = [_resolved(arg, truth, known) for arg in expr.args]
            same = all(a is b for a, b in zip(args, expr.args, strict=True))
            known[expr] = expr if same else expr.func(*args)
        else:
            known[expr] = expr
    return known[expr]


def _first_arm(expr: sp.Piecewise, truth: dict[Basic, Basic], known: dict[Basic, Basic]) -> Basic:
    arms = []
    for value, condition in expr.args:
        held = _resolved(condition, truth, known)
        if held is not S.false:
            arms.append((_resolved(value, truth, known), held))
        if held is S.true:
            break
    if arms and arms[0][1] is S.true:
        return arms[0][0]
    if not arms:
        return S.NaN  # as SymPy has it, where no condition holds
    return sp.Piecewise(*arms, evaluate=False)  # of many arms SymPy compares all conditions


def _without_absolutes(expr: Expr) -> Expr:
    """The expression with abs(u) < c as u < c and -u < c, which do not switch at u = 0."""
    opened = {}
    for relation in expr.atoms(sp.Lt, sp.Le, sp.Gt, sp.Ge):
        kind = {sp.Gt: sp.Lt, sp.Ge: sp.Le}.get(relation.func, relation.func)
        gap = (relation.lhs - relation.rhs) * (1 if kind is relation.func else -1)
        sizes = gap.atoms(sp.Abs)
        size = sizes.pop() if len(sizes) == 1 else S.Zero
        factor = sp.expand(gap).coeff(size)
        if factor.is_positive or factor.is_negative:
            sides = (kind(gap.xreplace({size: s * size.args[0]}), 0) for s in (1, -1))
            opened[relation] = sp.And(*sides) if factor.is_positive else sp.Or(*sides)
    return _resolved(expr, opened, {}) if opened else expr


def _innermost(exprs: tuple[Expr, ...]) -> Basic | None:
    """A switching node that contains no other, chosen reproducibly."""
    nodes: set[Basic] = set().union(*(e.atoms(*SWITCHES) for e in exprs))
    sums = set().union(*(e.atoms(sp.Sum) for e in exprs))
    inside = set().union(*(s.bound_symbols for s in sums))  # Abs(n) under a sum over n stays
    nodes = {n for n in nodes if not n.free_symbols & inside}
    inner = [n for n in nodes if not any(a.has(*SWITCHES) for a in n.args)]
    # comparisons first: what is chosen may hold fewer switches
    return min(inner, key=lambda n: (not isinstance(n, Relational), n.sort_key()), default=None)


def _check_smooth(exprs: tuple[Expr, ...], variable: Symbol) -> None:
    """Refuse what is neither smooth nor a switch that can be cut at."""
    for rough in set().union(*(e.atoms(*ROUGH) for e in exprs)):
        if rough.has(variable):
            raise UnsupportedError(f"{rough} is neither smooth nor one of Abs, Max, Min, sign, "
                                   "Heaviside, Piecewise")  # fmt: skip


def _switch(node: Basic) -> _Switch:
    """The function whose sign selects the formula of `node`."""
    first = node.args[0]
    if isinstance(node, sp.Abs):
        return _Switch(first, None)
    if isinstance(node, (sp.sign, sp.Heaviside)):
        return _Switch(first, 0)
    u = first - node.args[1]
    if isinstance(node, (sp.Max, sp.Min)):
        return _Switch(u, None)
    return _Switch(u, {sp.Ge: 1, sp.Lt: 1, sp.Gt: -1, sp.Le: -1}.get(node.func, 0))


def _value(node: Basic, s: int) -> Basic:
    """What `node` is where its switch has the sign `s`."""
    if isinstance(node, sp.Abs):
        return s * node.args[0]
    if isinstance(node, sp.sign):
        return S(s)
    if isinstance(node, sp.Heaviside):
        return node.args[1] if s == 0 else S((1 + s) // 2)
    if isinstance(node, (sp.Max, sp.Min)):
        larger, smaller = node.args[:2] if s >= 0 else node.args[1::-1]
        return node.func(larger if isinstance(node, sp.Max) else smaller, *node.args[2:])
    # a zero of u was given to the side on which the relation has its value there
    truth = {sp.Ge: s > 0, sp.Gt: s > 0, sp.Le: s < 0, sp.Lt: s < 0, sp.Eq: s == 0, sp.Ne: s != 0}[
        node.func
    ]
    return S.true if truth else S.false


def _parameter_sign(node: Basic, facts: Facts) -> int:
    """The sign of a switch that does not depend on the variable."""
    switch = _switch(node)
    if switch.zero is None:
        return decide(switch.u, facts)
    # here zero is a value of its own, so a weak sign is not enough
    for known, s in facts.known:
        if known == switch.u and (s > 0 or switch.zero == -1):
            return s
        if known == -switch.u and (s > 0 or switch.zero == 1):
            return -s
    if switch.u.is_positive or switch.u.is_negative or switch.u.is_zero:
        return decide(switch.u, facts) or switch.zero
    if switch.zero == 0:
        raise UnsupportedError(f"{node}: whether {switch.u} = 0 depends on the parameters; "
                               "state it with <, <=, > or >=")  # fmt: skip
    raise Undecided(switch.u if switch.zero == -1 else -switch.u)


def _signs(switch: _Switch, variable: Symbol, cell: _Cell, ordered: bool) -> list[_Part]:
    """The parts of a cell on which u keeps its sign, in order."""
    u = _without_log(without_exponentials(switch.u), variable)
    if not u.has(variable):
        return [(cell, decide(u, cell.facts))]
    zeros_matter = bool(variable.is_integer) and switch.zero is not None
    first, roots = _roots(u, variable, cell.facts, zeros_matter)
    return cell.parts(_cuts(switch, variable, first, roots), first, ordered)


def _without_log(u: Expr, variable: Symbol) -> Expr:
    """An expression of the same sign: c (g - exp(-r / c)) for c log(g) + r; else itself."""
    rest, moving = u.as_independent(variable, as_Add=True)
    c, part = moving.as_independent(variable, as_Add=False)
    if isinstance(part, sp.log) and (c.is_positive or c.is_negative):
        return c * (part.args[0] - sp.exp(-rest / c))
    return u


def _roots(u: Expr, variable: Symbol, facts: Facts, zeros_matter: bool) -> tuple[int, list[Expr]]:
    """The sign of u far to the left, and its simple zeros in increasing order."""
    try:
        poly = sp.Poly(u, variable)
    except sp.PolynomialError:
        poly = None
    degree = poly.degree() if poly is not None else 0
    if degree not in (1, 2) or any(c.has(variable) for c in poly.all_coeffs()):
        raise UnsupportedError(f"cannot cut where {u} = 0: only linear and quadratic expressions "
                               f"in {variable} can switch")  # fmt: skip
    if degree == 1:
        a, b = poly.all_coeffs()
        return -decide(a, facts), [sp.expand(-b / a)]
    a, b, c = poly.all_coeffs()
    side, discriminant = decide(a, facts), sp.expand(b**2 - 4 * a * c)
    if decide(discriminant, facts) <= 0:
        if zeros_matter and not discriminant.is_negative:
            raise UnsupportedError(f"{u} may touch zero without changing sign; on the integers, "
                                   "state the value there by linear conditions")  # fmt: skip
        return side, []
    half, width = -b / (2 * a), side * sp.sqrt(discriminant) / (2 * a)
    return side, [sp.expand(half - width), sp.expand(half + width)]


def real_zeros(u: Expr, variable: Symbol, facts: Facts) -> list[Expr]:
    """Return the zeros of a linear or quadratic polynomial in order, or raise `Undecided`."""
    return _roots(u, variable, facts, False)[1]


def _cuts(
    switch: _Switch, variable: Symbol, first: int, roots: list[Expr]
) -> list[tuple[Expr, int]]:
    """Each cut with the sign after it."""
    cuts: list[tuple[Expr, int]] = []
    s = first
    for root in roots:
        if not variable.is_integer:
            cuts.append((root, -s))
        elif switch.zero in (None, s):
            cuts.append((sp.floor(root), -s))
        elif switch.zero == -s:
            cuts.append((sp.ceiling(root) - 1, -s))
        elif root.is_integer:
            cuts += [(root - 1, 0), (root, -s)]
        elif root.is_integer is False:
            cuts.append((sp.floor(root), -s))
        else:
            raise UnsupportedError(f"cannot tell whether {switch.u} = 0 happens on the integers; "
                                   "state the value there with an inequality")  # fmt: skip
        s = -s
    return cuts
