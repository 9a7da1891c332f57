"""Other ways to write a derived formula, equal in exact arithmetic, better in floating point.

Input: a SymPy expression such as a loss. Output: a few candidates, the given form among them;
`choose` measures which one keeps the most digits. The rewrites have one idea in common: a
difference of nearly equal things is replaced by a function that takes the difference, worked out
symbolically, as an argument of its own:

    log(n) - log(d)   log_ratio(n, d, n - d)
    a**k - b**k       power_difference(a, b, a - b, k)
    roots             (a - b) / (sqrt(a) + sqrt(b))
    polynomials       factored, squares completed

Sums of exponentials inside a logarithm are first scaled by their largest term, which depends on x:
that is a `Piecewise` with one form on either side of the point where two exponents cross.
"""

from __future__ import annotations

from collections.abc import Iterable

import sympy as sp
from sympy import Add, Basic, Dummy, Expr, Mul, Pow, S, Symbol, exp, log
from sympy.polys.polyerrors import PolynomialError

from mechc.symbolic import rewrite
from mechc.symbolic.functions import atan2, log_mix, spell_out

Exponentials = dict[Expr, Expr]  # a sum of exponentials as exponent -> coefficient
LARGEST = sp.Integer(700)  # exponentials of larger numbers are outside the range of doubles


class log_ratio(sp.Function):  # type: ignore[misc]
    """log_ratio(n, d, n - d) = log(n/d)."""

    nargs = 3


class log_erfcx(sp.Function):  # type: ignore[misc]
    """log_erfcx(u) = u**2 + log(erfc(u)), which has no large part for u > 0."""

    nargs = 1


class exp_difference(sp.Function):  # type: ignore[misc]
    """exp_difference(a, b, a - b) = exp(a) - exp(b)."""

    nargs = 3


class power_difference(sp.Function):  # type: ignore[misc]
    """power_difference(a, b, a - b, k) = a**k - b**k for a, b >= 0."""

    nargs = 4


def candidates(expr: Expr, variable: Symbol) -> list[Expr]:
    """Forms of one real function, the given one first, without repetitions."""
    forms = [_Rewriter(variable, fold).rewrite(expr) for fold in (False, True)]
    forms += [scaled_tails(expr, variable), completed(expr, variable)]
    return list(dict.fromkeys([expr, *forms]))


def weights_factored(expr: Expr) -> Expr:
    """Weights of exponentials inside logarithms as products: (1 - r)**k keeps its digits."""

    def log_of(inner: Expr) -> Expr:
        if not isinstance(inner, Add) or rewrite.monomials(inner) > rewrite.MOST_FACTORED:
            return log(inner)
        weights = exponentials(inner)
        if any(weight.has(exp) for weight in weights.values()):
            return log(inner)
        return log(Add(*(_weight(c) * exp(e) for e, c in weights.items())))

    return expr.replace(log, log_of) if expr.has(exp) else expr


def _weight(expr: Expr) -> Expr:
    """The expression factored, in a power such as (1 - r)**3 rather than less (r - 1)**3."""
    number, product = factored(expr).as_coeff_Mul()
    for part in Mul.make_args(product) if number < 0 else ():
        base, power = part.as_base_exp()
        if isinstance(base, Add) and power.is_odd:
            return -number * product.xreplace({part: (-base) ** power})
    return number * product


def completed(expr: Expr, variable: Symbol) -> Expr:
    """A polynomial of degree two with its square completed: only two terms may cancel."""
    if mixtures := expr.atoms(log_mix):  # of samples, inside the losses of what is sampled
        return expr.xreplace(
            {m: log_mix(m.args[0], completed(m.args[1], variable)) for m in mixtures}
        )
    if variable not in expr.free_symbols or not expr.is_polynomial(variable):
        return expr
    if sp.Poly(expr, variable).degree() != 2:
        return expr
    a, b, c = map(factored, sp.Poly(expr, variable).all_coeffs())
    return a * (variable + factored(b / (2 * a))) ** 2 + factored(c - b**2 / (4 * a))


def scaled_tails(expr: Expr, variable: Symbol) -> Expr:
    """The squares of the arguments taken out of log(erfc(u)) where u > 0, so that they cancel."""
    if isinstance(expr, log_mix):  # of a sample, inside the loss of what is sampled
        rate, inner = expr.args
        found = scaled_tails(inner, variable)
        arms = found.args if isinstance(found, sp.Piecewise) else ()
        return sp.Piecewise(*((log_mix(rate, f), when) for f, when in arms)) if arms else expr
    tails = [node for node in expr.atoms(log) if isinstance(node.args[0], sp.erfc)]
    moving = sorted((node for node in tails if node.has(variable)), key=sp.default_sort_key)
    if not moving or not isinstance(expr, Add):
        return expr
    arguments = {t: t.args[0].args[0] for t in moving}
    terms = expr.xreplace({t: -(u**2) for t, u in arguments.items()}).expand().args
    # a polynomial is a square, or cancels: constants beside it would keep it from being factored
    polynomial = factored(Add(*(term for term in terms if not term.has(log))))
    others = [term for term in terms if term.has(log)]
    scaled = [t.xreplace({t: log_erfcx(u) for t, u in arguments.items()}) for t in expr.args
              if t.has(*moving)]  # fmt: skip
    form = polynomial + Add(*others) + Add(*scaled)
    return sp.Piecewise((form, moving[0].args[0].args[0] > 0), (expr, True))


MOST_DIVISORS = 64  # exponentials that a quotient is divided by, one after another


def quotients(expr: Expr) -> list[Expr]:
    """Forms of a probability: as it is, quotients divided by exponentials, complements of atan."""
    top, bottom = (exponentials(part) for part in rewrite.fraction(expr))
    # each is as long as all are many: a thousand take minutes, and no sum of so many is short
    divisors = bottom if len(bottom) <= MOST_DIVISORS else {}
    scaled = [total(shifted(top, -e)) / total(shifted(bottom, -e)) for e in divisors]
    spelled = total(exponentials(spell_out(expr)))
    forms = [expr, spelled, *scaled, *_termwise(expr), *_complements(expr)]
    return list(dict.fromkeys(forms))


def _termwise(expr: Expr) -> list[Expr]:
    """Quotients of sums one by one: c e/(e + f) as c/(1 + f/e), and as c - c/(1 + e/f)."""
    # The exponential above is divided out, so that no quotient is inf/inf.
    plain, complement = [], []
    for term in Add.make_args(sp.expand(expr)):
        top, bottom = (exponentials(part) for part in rewrite.fraction(spell_out(term)))
        if len(top) != 1:
            return []
        ((exponent, coefficient),) = top.items()
        scaled = shifted(bottom, -exponent)
        plain.append(coefficient / total(scaled))
        other = scaled.pop(S.Zero, None)
        if other is None or len(scaled) != 1:
            complement.append(plain[-1])
            continue
        share = coefficient / other
        ((below, weight),) = scaled.items()
        complement += [share, -share / (1 + other / weight * exp(-below))]
    return [Add(*plain), Add(*complement)]


def _complements(expr: Expr) -> list[Expr]:
    """Arc tangents measured from pi/2 or from -pi/2, so that tails are not differences."""
    forms = []
    for sign in (1, -1):
        found = {
            node: sign * (sp.pi / 2 - atan2(1, sign * node.args[0])) for node in expr.atoms(sp.atan)
        }
        if found:
            forms.append(sp.expand(expr.xreplace(found)))
    return forms


def factored(expr: Expr) -> Expr:
    """The expression expanded, so that all cancels that can, and factored."""
    try:
        return rewrite.factored(sp.expand(expr))
    except PolynomialError:
        return sp.expand(expr)


def plain_factors(expr: Expr) -> tuple[Expr, Expr]:
    """Logs of factors beside exponentials, which keep their digits if not multiplied out; the rest.

    Nothing beside the rest where no log has both.
    """
    plain, rest = S.Zero, expr
    for term in Add.make_args(expr):
        if isinstance(term, log) and isinstance(term.args[0], Mul):
            factor, other = term.args[0].as_independent(sp.exp, as_Add=False)
            if factor.free_symbols and other.has(sp.exp):
                plain, rest = plain + log(factor), rest - term + log(other)
    return plain, rest


class _Rewriter:
    """Rewrites sums from the outside in; `fold` moves other terms of a sum into its logarithm."""

    def __init__(self, variable: Symbol, fold: bool) -> None:
        self.variable = variable
        self.fold = fold

    def rewrite(self, expr: Expr) -> Expr:
        if isinstance(expr, log):
            return self._sum([expr])
        if isinstance(expr, Add):
            return self._sum(expr.args)
        if isinstance(expr, Mul):
            sums = [arg for arg in expr.args if isinstance(arg, Add) and arg.has(log)]
            if len(sums) == 1:
                others = Mul(*(arg for arg in expr.args if arg is not sums[0]))
                return self._sum([others * term for term in sums[0].args])
        if expr.args and expr.has(log, Pow, Add):
            return expr.func(*(self.rewrite(arg) for arg in expr.args))
        return expr

    def _sum(self, terms: Iterable[Expr]) -> Expr:
        """Combine the logarithms and powers of a sum, and factor what is left."""
        logs: dict[Expr, tuple[Expr, Expr]] = {}
        rest: list[Expr] = []
        combined: list[Expr] = []
        for term in terms:
            if mixtures := term.atoms(log_mix):  # their exponents are sums of their own
                inside = {node: node.func(*map(self.rewrite, node.args)) for node in mixtures}
                combined.append(term.xreplace(inside))
                continue
            coefficient, argument = _as_log(term)
            if argument is None:
                rest.append(term)
                continue
            top, bottom = rewrite.fraction(argument)
            if coefficient.could_extract_minus_sign():
                coefficient, top, bottom = -coefficient, bottom, top
            n, d = logs.get(coefficient, (S.One, S.One))
            logs[coefficient] = (n * top, d * bottom)
        powers, rest = self._powers(rest)
        remainder = factored(Add(*rest)) if rest else S.Zero
        for coefficient, both in logs.items():
            above, below = map(Mul.make_args, both)
            n, d = (
                Mul(*(a for a in above if a not in below)),
                Mul(*(a for a in below if a not in above)),
            )
            remainder, ratio = self._log_ratio(coefficient, n, d, remainder)
            combined.append(coefficient * ratio)
        return Add(remainder, *powers, *combined)

    def _powers(self, terms: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        """Pair c*a**k with -c*b**k; return the differences and the other terms."""
        differences, rest = [], list(terms)
        for term in terms:
            c, a, k = _as_power(term, self.variable)
            if a is None or term not in rest:
                continue
            for other in rest:
                e, b, m = _as_power(other, self.variable)
                if b is not None and m == k and e == -c:
                    differences.append(c * _power_difference(a, b, k))
                    rest = [t for t in rest if t not in (term, other)]
                    break
        return differences, rest

    def _log_ratio(self, c: Expr, n: Expr, d: Expr, rest: Expr) -> tuple[Expr, Expr]:
        """What remains of `rest`, and a form of log(n/d), or of log(n/d) + rest/c if folded."""
        if not n.has(exp) and not d.has(exp):
            if n == 1 or d == 1:
                return rest, log(n) - log(d)
            return rest, log_ratio(_product(n), _product(d), factored(n - d))
        if max(map(rewrite.monomials, (n, d))) > rewrite.MOST_FACTORED:
            return rest, log(n) - log(d)
        top, bottom = exponentials(n), exponentials(d)
        if self.fold and (shift := sp.expand(rest / c)).is_polynomial(self.variable):
            rest, top = S.Zero, shifted(top, shift)
        if len(bottom) == 1:
            return rest, self._log_of_sum(top, bottom)
        if len(top) == 1:
            return rest, -self._log_of_sum(bottom, top)
        if len(bottom) == 2:
            return rest, self._two_sided(top, bottom)
        return rest, log(self._total(top)) - log(self._total(bottom))

    def _log_of_sum(self, top: Exponentials, bottom: Exponentials) -> Expr:
        """Log of a sum of exponentials over a single one."""
        ((exponent, coefficient),) = bottom.items()
        return log(self._total({e: c / coefficient for e, c in shifted(top, -exponent).items()}))

    def _total(self, sum_: Exponentials) -> Expr:
        """The sum as an expression whose exponents are powers where they can be."""
        return total({self._exponent(e): c for e, c in sum_.items()})

    def _exponent(self, expr: Expr) -> Expr:
        """Terms of one denominator factored: those of (x - a)**2/s**2 cancel where s is small."""
        parts: dict[Expr, Expr] = {}
        for term in Add.make_args(expr):
            below = sp.fraction(term)[1].as_coeff_Mul()[1]
            parts[below] = parts.get(below, S.Zero) + term
        return Add(*(factored(p) if p.has(self.variable) else p for p in parts.values()))

    def _two_sided(self, top: Exponentials, bottom: Exponentials) -> Expr:
        """log(top/bottom), on each side divided by the larger of the two exponentials below."""
        first, second = bottom
        arms = []
        for larger, condition in ((first, sp.Ge(first, second)), (second, S.true)):
            n, d = shifted(top, -larger), shifted(bottom, -larger)
            representable = _representable(n)
            difference = exponentials(total(top) - total(bottom))
            gap = self._gap(shifted(difference, -larger))
            n, d = self._total(n), self._total(d)
            arms.append((log_ratio(n, d, gap), sp.And(condition, representable)))
            arms.append((log(n) - log(d), condition))
        return sp.Piecewise(*arms)

    def _gap(self, sum_: Exponentials) -> Expr:
        """A sum of exponentials as a product, or with opposite ones as differences."""
        product = factored_exponentials(sum_, self.variable)
        if product != total(sum_):
            return product
        terms, left = S.Zero, dict(sum_)
        while left:
            a, c = left.popitem()
            b = next((e for e, other in left.items() if sp.expand(c + other) == 0), None)
            if b is None or S.Zero in (a, b):
                terms += c * exp(self._exponent(a))
            else:
                terms += c * exp_difference(*map(self._exponent, (a, b)), factored(a - b))
                del left[b]
        return terms


def _product(expr: Expr) -> Expr:
    """A sum that is a product of sums as such, which has digits next to its zeros."""
    form = factored(expr) if isinstance(expr, Add) else expr
    return form if len([a for a in Mul.make_args(form) if isinstance(a, Add)]) > 1 else expr


def _representable(sum_: Exponentials) -> Basic:
    """Where a sum of exponentials neither over- nor underflows."""
    exponents = [e for e in sum_ if e.free_symbols]
    below = sp.And(*(sp.Lt(e, LARGEST) for e in exponents))
    if any(not e.free_symbols and weight.is_number for e, weight in sum_.items()):
        return below
    return sp.And(below, sp.Or(*(sp.Gt(e, -LARGEST) for e in exponents)))


def _as_log(term: Expr) -> tuple[Expr, Expr | None]:
    """`(c, a)` for c*log(a), `(term, None)` for anything else."""
    logs = [factor for factor in Mul.make_args(term) if isinstance(factor, log)]
    return (term / logs[0], logs[0].args[0]) if len(logs) == 1 else (term, None)


def _power_difference(a: Expr, b: Expr, k: Expr) -> Expr:
    """a**k - b**k from a - b."""
    if k == S.Half:
        return factored(a - b) / (sp.sqrt(a) + sp.sqrt(b))
    return power_difference(a, b, factored(a - b), k)


def _as_power(term: Expr, x: Symbol) -> tuple[Expr, Expr | None, Expr]:
    """`(c, a, k)` for c*a**k where an exponent, or a base under a root, is no constant."""
    powers = [
        factor
        for factor in Mul.make_args(term)
        if isinstance(factor, Pow)
        and (factor.exp.free_symbols or (factor.exp == S.Half and factor.base.has(x)))
    ]
    if len(powers) != 1:
        return term, None, S.One
    return term / powers[0], powers[0].base, powers[0].exp


def exponentials(expr: Expr) -> Exponentials:
    """A sum of products with exponentials, by exponent."""
    collected: Exponentials = {}
    for term in Add.make_args(sp.expand(expr, power_exp=False)):
        exponent, coefficient = S.Zero, S.One
        for part in Mul.make_args(term):
            base, power = part.as_base_exp() if not isinstance(part, exp) else (S.Exp1, part.exp)
            if base is S.Exp1:
                exponent += power
            else:
                coefficient *= part
        exponent = sp.expand(exponent)
        collected[exponent] = collected.get(exponent, S.Zero) + coefficient
    return {e: c for e, c in collected.items() if c != 0}


def shifted(sum_: Exponentials, by: Expr) -> Exponentials:
    """The sum times exp(by)."""
    return {sp.expand(exponent + by): coefficient for exponent, coefficient in sum_.items()}


def total(sum_: Exponentials) -> Expr:
    """The sum as an expression."""
    return Add(*(coefficient * exp(exponent) for exponent, coefficient in sum_.items()))


def factored_exponentials(sum_: Exponentials, variable: Symbol) -> Expr:
    """A sum of exponentials as a product, if only one factor depends on the variable.

    The factor that depends on the variable takes all monomials, so that it stays bounded wherever
    the sum does. Otherwise the sum comes back as it is.
    """
    if rewrite.degree(total(sum_)) > rewrite.MAX_DEGREE:
        return total(sum_)
    generators, polynomial = _as_polynomial(sum_)
    back = {symbol: exponent for exponent, symbol in generators.items()}
    monomial, constant, dependent = S.Zero, S.One, []
    for part in Mul.make_args(rewrite.factored(polynomial)):
        base, power = part.as_base_exp()
        value = exponentials(part.xreplace({y: exp(e) for y, e in back.items()}))
        if base in back:
            monomial += power * back[base]
        elif any(e.has(variable) or c.has(variable) for e, c in value.items()):
            dependent.append((value, power))
        else:
            constant *= total(value)
    if len(dependent) != 1 or dependent[0][1] != 1:
        return total(sum_)
    return constant * total(shifted(dependent[0][0], monomial))


def _as_polynomial(sum_: Exponentials) -> tuple[dict[Expr, Symbol], Expr]:
    """Generators exp(g) = y, and the sum as a Laurent polynomial in them."""
    steps: dict[Expr, int] = {}
    for exponent in sum_:
        for term in Add.make_args(exponent):
            c, rest = term.as_coeff_Mul()
            if rest != 1 or c != 0:
                steps[rest] = sp.ilcm(steps.get(rest, 1), int(c.q) if c.is_Rational else 1)
    # SymPy orders generators by their names, and equal names by their hashes
    symbols = {
        rest / step: Dummy(f"y{index}", positive=True)
        for index, (rest, step) in enumerate(steps.items())
    }
    names = {rest: symbols[rest / step] for rest, step in steps.items()}
    polynomial = S.Zero
    for exponent, coefficient in sum_.items():
        for term in Add.make_args(exponent):
            c, rest = term.as_coeff_Mul()
            if rest in names:
                coefficient *= names[rest] ** (c * steps[rest])
        polynomial += coefficient
    return symbols, polynomial
