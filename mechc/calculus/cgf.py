"""The cumulant generating function log E_P[exp(zL); L finite] in closed form, where there is one.

Input: the regions of one case. Output: log M(z) in the complex symbol z, `Closed` after comparison
with quadrature at complex z, else `Numeric` with the first region that has no rule. Rules per
stretch of regions with one formula:

- plateau: mass * exp(z L);
- loss with density C exp(g l) on (l0, l1), where log p - log|L'| - g L is constant; this
  rule covers Laplace, logistic, Gumbel, one-sided and truncated exponentials;
- quadratic exponents on the whole line: completing the square;
- lattice: geometric sums.

Atoms and finite sets add finite sums. Removable singularities are expressed by `sinhc`, `expm1c`.

Cumulants of the finite loss under P, in closed form where the generating function is closed.

kappa_r is the r-th derivative of K(z) = log M(z) at z = 0, with M = exp(K) differentiated where K
is the logarithm of a sum: kappa_1 = m_1, kappa_2 = m_2 - m_1^2, ... for m_r = M^(r)(0)/M(0).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
from sympy import Add, Expr, Mul, S, Symbol, exp, log, oo

from mechc.calculus.integrals import LONGEST, exponential, mass
from mechc.calculus.loss import log_sum
from mechc.calculus.terms import total
from mechc.calculus.types import Closed, Entry, Kind, Numeric, Region, Unavailable, joined
from mechc.symbolic.facts import Facts, is_certain, sampled
from mechc.symbolic.functions import sinhc
from mechc.symbolic.rewrite import (
    affine_in,
    cancelled,
    expanded_log,
    factored,
    merge_constant_logs,
    polynomial_in,
    quotient,
    rational_in,
    split_exponent,
    tidy,
)
from mechc.symbolic.signs import proved, weak_sign

if TYPE_CHECKING:
    from mechc.calculus.cases import Atom


_VARIES = 1e-6  # a ratio with a slope above this at most points is not constant


class NoRule(Exception):
    """A stretch has no closed moment generating function."""


def cgf_of(
    regions: Sequence[Region], atoms: Sequence[Atom], x: Symbol, z: Symbol, facts: Facts,
    lattice: bool,
) -> Entry:  # fmt: skip
    """Closed log M(z), not yet verified."""
    try:
        parts = [_stretch(r, x, z, facts, lattice) for r in joined(regions) if r.loss is not None]
    except NoRule as reason:
        return Numeric(f"{reason}; summed over quadrature nodes")
    moments, length = list[Expr](), 0
    shared = (atom_moment(atom, z) for atom in atoms if atom.p and atom.q)
    hows = dict[str, None]()
    for moment, how in chain(parts, shared):
        hows[how] = None
        moments += [moment] if moment != 0 else []
        length += moment.count_ops()
        if length > LONGEST:
            return Numeric(f"a sum of more than {LONGEST} operations; summed over quadrature nodes")
    if not moments:
        return Closed(S.NegativeInfinity, "the loss is never finite")
    return Closed(_log(moments, z, facts), ", ".join(hows))


def _log(moments: list[Expr], z: Symbol, facts: Facts) -> Expr:
    """Log of a sum of products; of a single product, the sum of the logarithms."""
    if len(moments) > 1:
        return log(Add(*_evened(moments, z)))
    exponents, constant, varying = [], S.One, []
    for part in Mul.make_args(moments[0]):
        if isinstance(part, exp):
            exponents.append(part.args[0])
        elif part.has(z):
            ends, logarithm = _anchored(part, z, facts)
            constant *= ends
            varying.append(logarithm)
        else:
            constant *= part
    varying += [_log_positive(p, z, facts) for p in Mul.make_args(factored(constant))]
    exponent = _merged(exponents)
    return exponent + merge_constant_logs(Add(*varying))


def _evened(moments: list[Expr], z: Symbol) -> list[Expr]:
    """Pairs c exp(m + u) + c exp(m - u) as 2 c exp(m) cosh(u), which shares the work of sinhc."""
    found: list[Expr] = []
    for moment in moments if any(moment.has(sinhc) for moment in moments) else ():
        below, above = split_exponent(moment)
        for other in found:
            factor, exponent = split_exponent(other)
            middle = sp.expand(above + exponent) / 2
            if factor == below and above.has(z) and not middle.has(z):
                found.remove(other)
                moment = 2 * factor * exp(middle) * sp.cosh(sp.factor(sp.expand(exponent - middle)))
                break
        found.append(moment)
    return found or moments


def _merged(exponents: list[Expr]) -> Expr:
    """The sum of the exponents, as one product where that leaves fewer terms to cancel."""
    apart = Add(*(sp.factor(e) for e in exponents))
    together = sp.factor(Add(*exponents))
    return together if together.count_ops() < apart.count_ops() else apart


def _anchored(part: Expr, z: Symbol, facts: Facts) -> tuple[Expr, Expr]:
    """A constant c and log(part / c); what is affine in z is taken relative to an end of [-1, 0].

    f(z) = f(-1) (1 + (z + 1) (f(0) - f(-1)) / f(-1)) loses no digits between the two when f(-1) is
    the smaller one; otherwise f(z) = f(0) (1 - z (f(-1) - f(0)) / f(0)).
    """
    base, power = part.as_base_exp()
    while base.is_Pow and not base.exp.has(z):
        base, power = base.base, power * base.exp
    slope, start = sp.diff(base, z), base.subs(z, 0)
    if power.has(z) or slope.has(z):
        return S.One, _log_positive(part, z, facts)
    end = sp.factor(start - slope)
    signs = proved(start, facts), proved(slope, facts)
    if None in signs:
        return S.One, _log_positive(part, z, facts)
    if signs[0] == signs[1] or 0 in signs:
        return end**power, power * log(1 + (z + 1) * cancelled(slope / end))
    return sp.factor(start) ** power, power * log(1 + z * cancelled(slope / start))


def _log_positive(part: Expr, z: Symbol, facts: Facts) -> Expr:
    """Log of a factor that keeps its sign on the real part of the strip: its sign at 0 is removed.

    The signs of all factors cancel, because M is positive there.
    """
    if part.is_Pow and not part.exp.has(z):
        return part.exp * _log_positive(part.base, z, facts)
    side = weak_sign(part.subs(z, 0), facts)
    return log(part) if side is None else sp.expand_log(log(side * part or part))


def _stretch(region: Region, x: Symbol, z: Symbol, facts: Facts, lattice: bool) -> tuple[Expr, str]:
    if region.kind is Kind.PLATEAU:
        found = mass(region.p, x, region.lo, region.hi, facts, lattice)
        if found is not None:
            return found * exp(z * region.loss), "mass of a plateau"
        raise NoRule(f"no closed mass on {region.interval}")
    if len(region.p) != 1 or len(region.q) != 1:
        raise NoRule(f"a mixture with a varying loss on {region.interval}")
    rules = _LATTICE_RULES if lattice else _RULES
    for rule, name in rules.items():
        moment = rule(region, x, z, facts)
        if moment is not None:
            return moment, name
    raise NoRule(f"no rule for the integral over {region.interval}")


def _exponential_loss(region: Region, x: Symbol, z: Symbol, facts: Facts) -> Expr | None:
    """The loss has density C*exp(g*l) between its limits on a monotone region."""
    loss = region.loss
    if loss is None or not region.kind.moves:
        return None
    ends = (region.loss_lo, region.loss_hi)
    if None in ends or not (is_certain(region.lo, region.hi) or not {oo, -oo} & {*ends}):
        return None
    slope = sp.diff(loss, x)
    log_p = log_sum(region.p, x)
    ratio = (sp.diff(log_p, x) - sp.diff(slope, x) / slope) / slope
    trend = sampled(sp.diff(ratio, x), facts.within(x, region.lo, region.hi))
    if np.mean(np.abs(trend) > _VARIES) > 0.5:
        return None
    rate = _constant(ratio, x)
    if rate is None:
        return None
    middle = _inner_point(region)
    at = {x: middle}
    density = exp(log_p.subs(at)) / slope.subs(at) * exp(-rate * loss.subs(at))
    if region.kind is Kind.DECREASING:
        density = -density
    bottom, top = region.loss_lo, region.loss_hi
    if region.kind is Kind.DECREASING:
        bottom, top = top, bottom
    return _collect_exp(density) * _exponential_moment(z + rate, bottom, top)


def _constant(ratio: Expr, x: Symbol) -> Expr | None:
    rational = rational_in(ratio, x)
    if rational is None:
        return None
    value = cancelled(rational.expr)
    return None if value.has(x, rational.symbol) else value


def _inner_point(region: Region) -> Expr:
    if region.lo.is_infinite:
        return S.Zero if region.hi.is_infinite else region.hi
    return region.lo


def _collect_exp(expr: Expr) -> Expr:
    """Merge exponentials and cancel what is algebraic."""
    rest, exponent = split_exponent(factored(expr.powsimp()))
    return cancelled(rest) * exp(sp.factor(exponent))


def _exponential_moment(rate: Expr, bottom: Expr, top: Expr) -> Expr:
    """Integral of exp(rate*l) over (bottom, top), convergence left to the strip."""
    if top is oo and bottom is -oo:
        raise NoRule("an exponential density on the whole line")
    if top is oo:
        return exp(sp.expand(rate * bottom)) / (-rate)
    if bottom is -oo:
        return exp(sp.expand(rate * top)) / rate
    width, middle = sp.factor(top - bottom), sp.factor(top + bottom) / 2
    return width * exp(sp.expand(rate * middle)) * sinhc(sp.factor(rate * width / 2))


def _gaussian_moment(region: Region, x: Symbol, z: Symbol, facts: Facts) -> Expr | None:
    """Integral of exp of a quadratic over the whole line."""
    if not (region.lo is -oo and region.hi is oo):
        return None
    (p,), (q,) = region.p, region.q
    coefficients = []
    for term in (p, q):
        found = polynomial_in(term.log_density, x, 2)
        if found is None:
            return None
        coefficients.append((*found, S.Zero, S.Zero)[:3])
    if proved(coefficients[0][2], facts) != -1:
        return None
    c, b, a = ((1 + z) * m - z * n for m, n in zip(*coefficients, strict=True))
    spread = cancelled(a / coefficients[0][2])  # 1 at z = 0
    weight = p.weight * sp.sqrt(sp.pi / -coefficients[0][2])
    exponent = sp.factor(sp.expand(c - b**2 / (4 * a)))
    ratio = z * log(quotient(p.weight, q.weight))
    weight = weight.powsimp(force=True).cancel()
    return weight * exp(exponent) * exp(ratio) * sp.factor(spread) ** (-S.Half)


def _geometric_moment(region: Region, x: Symbol, z: Symbol, facts: Facts) -> Expr | None:
    """Affine exponents over a range of integers."""
    (p,), (q,) = region.p, region.q
    first, second = affine_in(p.log_density, x), affine_in(q.log_density, x)
    if first is None or second is None:
        return None
    slope = sp.expand((1 + z) * first[0] - z * second[0])
    intercept = sp.expand((1 + z) * first[1] - z * second[1])
    series = exponential(slope, intercept, region.lo, region.hi, facts, True, z)
    if series is None:
        return None
    return p.weight * exp(z * log(quotient(p.weight, q.weight))) * series


def atom_moment(atom: Atom, z: Symbol) -> tuple[Expr, str]:
    """p*exp(z*log(p/q)) of an atom with both masses positive."""
    p, q = total(atom.p), total(atom.q)
    return p * exp(z * expanded_log(log(quotient(p, q)))), "finite sum"


def _on_half_line(region: Region, x: Symbol, z: Symbol) -> tuple[Expr, Expr] | None:
    """Weight and exponent of p^(1+z) q^(-z) on (0, oo), None elsewhere."""
    if not (region.lo == 0 and region.hi is oo):
        return None
    (p,), (q,) = region.p, region.q
    exponent = sp.expand((1 + z) * tidy(p.log_density, x) - z * tidy(q.log_density, x))
    return p.weight * exp(z * log(quotient(p.weight, q.weight))), exponent


def _gamma_moment(region: Region, x: Symbol, z: Symbol, facts: Facts) -> Expr | None:
    """x**(k - 1) * exp(-c*x) on (0, oo) with a shape k that does not depend on z."""
    if (found := _on_half_line(region, x, z)) is None:
        return None
    weight, exponent = found
    power = exponent.coeff(log(x))
    linear = polynomial_in(sp.expand(exponent - power * log(x)), x, 1)
    if linear is None or len(linear) < 2 or sp.factor(power).has(z):
        return None
    shape, scale = sp.factor(power) + 1, cancelled(linear[1].subs(z, 0) / linear[1])
    first = sp.factor(-linear[1].subs(z, 0))
    return weight * sp.gamma(shape) * first**-shape * exp(linear[0]) * scale**shape


def _poisson_moment(region: Region, x: Symbol, z: Symbol, facts: Facts) -> Expr | None:
    """Sum of exp(k*n + m)/n! over n >= 0."""
    if (found := _on_half_line(region, x, z)) is None:
        return None
    weight, exponent = found
    linear = polynomial_in(sp.expand(exponent + sp.loggamma(x + 1)), x, 1)
    if linear is None or len(linear) < 2:
        return None
    return weight * exp(linear[0]) * exp(exp(linear[1]))


Rule = Callable[[Region, Symbol, Symbol, Facts], Expr | None]
_RULES: dict[Rule, str] = {
    _exponential_loss: "exponential density of the loss",
    _gaussian_moment: "completing the square",
    _gamma_moment: "gamma integral",
}
_LATTICE_RULES: dict[Rule, str] = {
    _geometric_moment: "geometric sums",
    _poisson_moment: "exponential series",
}


ORDER = 4  # of the highest cumulant


def cumulants_of(cgf: Entry, z: Symbol) -> Entry:
    """kappa_1, ..., kappa_4 of one case, from its log M(z)."""
    if cgf == Closed(S.NegativeInfinity, "the loss is never finite"):
        return Unavailable("the loss is never finite")
    if not isinstance(cgf, Closed):
        return Unavailable("no closed generating function; the numeric side differentiates its own")
    is_log = isinstance(cgf.expr, log)
    values = _from_moments(cgf.expr.args[0], z) if is_log else _derivatives(cgf.expr, z)
    return Closed(sp.Tuple(*values), "derivatives of the generating function at 0")


def _derivatives(expr: Expr, z: Symbol) -> list[Expr]:
    found, values = expr, []
    for _ in range(ORDER):
        found = sp.diff(found, z)
        values.append(found.subs(z, 0))
    return values


def _from_moments(moment: Expr, z: Symbol) -> list[Expr]:
    at_zero = moment.subs(z, 0)
    m1, m2, m3, m4 = (value / at_zero for value in _derivatives(moment, z))
    return [
        m1,
        m2 - m1**2,
        m3 - 3 * m2 * m1 + 2 * m1**3,
        m4 - 4 * m3 * m1 - 3 * m2**2 + 12 * m2 * m1**2 - 6 * m1**4,
    ]
