"""Which of several exact forms of a formula keeps the most digits, by measurement.

Input: candidates from `exact`. Output: the frozen form with the smallest largest relative error
against the declared pair, at irrational and extreme typical parameters and far into the tails; the
one with fewer operations where errors are alike. Deterministic: equal input, equal choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import mpmath
from mpmath import mp
from sympy import Basic, Expr, Pow, Sum, expand, expand_log, log

from mechc.calculus.types import CalculusCase, Closed, Region
from mechc.errors import LoweringError
from mechc.kernel import ir
from mechc.kernel.lower.context import Context
from mechc.kernel.lower.forms import (
    candidates,
    factored,
    plain_factors,
    quotients,
    weights_factored,
)
from mechc.kernel.lower.freeze import Freezer, log_of_terms
from mechc.kernel.lower.samples import DIGITS, Sample, corners, moved, vectors
from mechc.kernel.passes import finish_expression
from mechc.kernel.printer import runnable
from mechc.numeric.rounding import EPS
from mechc.symbolic.evaluate import holds
from mechc.symbolic.facts import Facts, facts_of
from mechc.symbolic.signs import proved

VECTORS = 3  # parameter vectors at which forms are tried, beside corners
GOOD = 4 * EPS  # errors up to this one are as good as none: fewer operations decide
ENOUGH = 3  # binary digits that may be lost before a probability is factored, which takes long
LOST = 40  # binary digits that a loss may lose before it is computed as a difference of logs
LONG = 500  # operations that a loss may take before a more accurate difference of logs replaces it,
LENGTHY = 120  # the same of a constant, before its forms are not tried: of each it would take 1 s
INVERTIBLE = 1e-13  # a closed inverse with a larger error than this is replaced by bracketing
PROBABLE = 1e-12  # distribution functions and logs of masses with larger errors are not emitted
SMALLEST = 1e-290  # smaller probabilities are near underflow, where no relative accuracy is asked
TAIL_DIGITS = 360  # enough to see a tail probability of exp(-700) in one minus its complement
OVERFLOWING = 710.0  # exponentials of larger losses overflow; an inverse may not depend on them
GOOD_SIZE = 1e-6  # relative accuracy asked of inverses of such losses
MANY = 24  # outcomes from which on forms are not tried: of each mass they would take 50 ms
FAR_OUT = 1100.0  # a value of a parameter whose exponential is no double
NEXT_TO = 1.3e-3  # how far a parameter is from the upper end of its domain, such as a rate from one
LARGE = 300.0  # losses next to an end at zero above which quotients of powers may overflow

Measure = Callable[[float], float]
Measured = tuple[int, int, int, ir.Expr, float]


@dataclass(frozen=True)
class Trial:
    """One place to try a candidate: the arguments, and the error of a value there."""

    arguments: tuple[float, ...]
    error: Measure


@dataclass
class Chooser:
    """Chooses forms for one calculus; equal expressions get equal forms.

    Attributes:
        context: of the lowering.
    """

    context: Context
    _samples: dict[int, list[Sample]] = field(default_factory=dict)
    _ends: dict[tuple[int, bool], list[Sample]] = field(default_factory=dict)
    _chosen: dict[Expr, ir.Expr] = field(default_factory=dict)
    _constants: dict[tuple[Expr, int, bool], ir.Expr] = field(default_factory=dict)

    def loss(self, expr: Expr) -> ir.Expr:
        """The best form of a loss formula, over all regions where it holds."""
        if expr not in self._chosen:
            _, first = next(self._where(expr))
            name = self.context.calculus.pair.name
            place = self.context.at_x.at(f"{name}: loss on ({first.lo}, {first.hi})")
            trials, near = self._loss_trials(expr)
            measured = self._measured(self._candidates(expr), place, "x", trials, near)
            if all(grade >= LOST or length > LONG for grade, _, length, *_ in measured):
                # log p minus log q, each in log space: never wrong by more than their rounding
                x = self.context.calculus.pair.variable
                log_p, log_q = (log_of_terms(terms, x, place) for terms in (first.p, first.q))
                last = self._graded(ir.add(log_p, ir.negate(log_q)), "x", trials, near)
                if last[0] < min(grade for grade, *_ in measured):
                    measured.append(last)
            self._chosen[expr] = _first(measured)[0]
        return self._chosen[expr]

    def inverse(self, index: int, region: Region, case: CalculusCase) -> ir.Expr | None:
        """The best form of a closed inverse, None if no form is accurate enough."""
        assert isinstance(region.inverse, Closed)
        place = self.context.at_loss.at(f"{self.context.calculus.pair.name}: inverse {index}")
        trials = self._inverse_trials(region, case)
        forms = candidates(region.inverse.expr, self.context.calculus.ell)
        form, error = _first(self._measured(forms, place, "ell", trials))
        return form if error <= INVERTIBLE else None

    def constant(
        self, expr: Expr, case: CalculusCase, place: Freezer, far: bool = False
    ) -> ir.Expr:
        """The best form of an expression in parameters, if asked at large parameters too."""
        key = expr, id(case), far
        if key not in self._constants:
            self._constants[key] = self._constant(expr, case, place, far)
        return self._constants[key]

    def _constant(self, expr: Expr, case: CalculusCase, place: Freezer, far: bool) -> ir.Expr:
        if not expr.free_symbols or len(case.atoms) > MANY or expr.count_ops() > LENGTHY:
            return place(expr)
        variable = self.context.calculus.pair.variable
        forms = self._candidates(expr)
        whole = expr.replace(log, lambda inner: log(factored(inner)))
        plain, others = plain_factors(expr)
        apart = [plain + form for form in candidates(others, variable)] if plain != 0 else []
        facts = facts_of(self.context.calculus.pair.parameters, case.condition)
        powers = expr.replace(log, lambda inner: _log_of_power(inner, facts))
        forms = list(dict.fromkeys([*forms, whole, powers, *apart]))
        if len(forms) == 1:
            return place(expr)
        trials, samples = [], self.samples(case) + self._next_to_ends(case, wide=True)
        with mp.workdps(DIGITS):
            if far and not expr.has(Sum):
                samples = samples + moved(self.context.calculus, case, lambda _: FAR_OUT)
            for sample in samples:
                value = sample.value(expr)
                if not mpmath.isnan(value):  # the end of a region that is empty here
                    trials.append(_tried(sample, value))
        return _first(self._measured(forms, place, None, trials))[0]

    def log_tail(self, mass: Expr, case: CalculusCase) -> ir.Expr:
        """The best form of the log of a mass that may be a far tail; refused if not accurate."""
        trials, logs = [], []
        with mp.workdps(TAIL_DIGITS):
            for sample in self.samples(case):
                value = sample.value(mass)
                measure = _off(mpmath.log(value), least=1) if value > SMALLEST else _is_tiny
                trials.append(Trial(sample.arguments(), measure))
        lengthy = mass.count_ops() > LENGTHY
        for form in dict.fromkeys([mass] if lengthy else [mass, expand(mass), *quotients(mass)]):
            whole = expand_log(log(form), force=True)
            logs += [whole] if lengthy else candidates(whole, self.context.calculus.ell)
        forms = list(dict.fromkeys(logs))
        return _accurate(*_first(self._measured(forms, self.context.constant, None, trials)))

    def probability(self, expr: Expr, condition: Basic, case: CalculusCase) -> ir.Expr:
        """The best form of one arm of a distribution function; refused without accurate tails."""
        trials, variable = [], self.context.calculus.pair.variable
        with mp.workdps(TAIL_DIGITS):
            for region in case.regions:
                for sample, x in self._points(region, case):
                    if not holds(condition, {**sample.theta, variable: x}):
                        continue
                    value = sample.value(expr, x)
                    if value == 0 or abs(value) > SMALLEST:
                        trials.append(_tried(sample, value, x))
                for sample in self.samples(case):
                    for x in sample.remote_points(region):
                        if holds(condition, {**sample.theta, variable: x}):
                            trials.append(Trial(sample.arguments(x), _is_a_number))
        place = self.context.at_x
        measured = self._measured(quotients(expr), place, "x", trials)
        if all(grade > ENOUGH for grade, *_ in measured):
            measured += self._measured([factored(expr)], place, "x", trials)
        return _accurate(*_first(measured))

    def samples(self, case: CalculusCase) -> list[Sample]:
        """The parameter vectors of a case."""
        calculus = self.context.calculus
        if id(case) not in self._samples:
            with mp.workdps(DIGITS):
                found = [*vectors(calculus, case, VECTORS), *corners(calculus, case)]
            self._samples[id(case)] = [Sample(calculus, theta) for theta in found]
        return self._samples[id(case)]

    def _where(self, loss: Expr) -> Iterator[tuple[CalculusCase, Region]]:
        """The regions where a loss holds, and their cases."""
        for case in self.context.calculus.cases:
            yield from ((case, region) for region in case.regions if region.loss == loss)

    def _loss_trials(self, expr: Expr) -> tuple[list[Trial], list[Trial]]:
        """Where a loss is tried; and next to its zeros, where its terms may cancel."""
        trials, near, wide = list[Trial](), list[Trial](), self._has_powers(expr)
        with mp.workdps(DIGITS):
            for case, region in self._where(expr):
                samples = self.samples(case)
                places = [(s, x) for s in samples for x in s.points(region)]
                for sample in self._next_to_ends(case, wide):
                    places += [(sample, x) for x in sample.points_between(region)]
                places += [(s, x) for s in samples for x in s.points_beside_ends(region)]
                trials += [_tried(s, s.loss(region, x), x) for s, x in places]
                zeros = [(s, x) for s in samples for x in s.points_near_zero(region)]
                near += [_tried(s, s.loss(region, x), x) for s, x in zeros]
                for s in samples:
                    far = s.remote_points(region)
                    trials += [Trial(s.arguments(x), _is_a_number) for x in far]
                    beside = [sign * mpmath.mpf(5e-324) for sign, end in
                              ((1, region.lo), (-1, region.hi)) if end == 0]  # fmt: skip
                    for x, value in [(x, s.loss(region, x)) for x in beside]:
                        if mpmath.isfinite(value) and abs(value) > LARGE:
                            trials.append(Trial(s.arguments(x), _is_near(value)))
        return trials, near

    def _inverse_trials(self, region: Region, case: CalculusCase) -> list[Trial]:
        trials = []
        with mp.workdps(DIGITS):
            for sample, x in self._points(region, case):
                ell = float(sample.loss(region, x))
                root = sample.solved(region, ell, x)
                if root is not None and ell != 0.0:
                    error = _relative_or_residual(sample, region, ell, root)
                    trials.append(Trial(sample.arguments(ell), error))
            for sample in self.samples(case):
                for x in sample.remote_points(region):
                    ell = float(sample.loss(region, x))
                    if OVERFLOWING < abs(ell) < math.inf:
                        trials.append(Trial(sample.arguments(ell), _is_near(x)))
        return trials

    def _candidates(self, expr: Expr) -> list[Expr]:
        """Equal forms, those with factored weights where they may be needed."""
        forms = candidates(expr, self.context.calculus.pair.variable)
        more = map(weights_factored, forms) if self._has_powers(expr) else ()
        return list(dict.fromkeys([*forms, *more]))

    def _has_powers(self, expr: Expr) -> bool:
        """Whether weights are powers of rates, as those of groups, and cancel multiplied out."""
        parameters = self.context.calculus.pair.parameters
        rates = {p.symbol for p in parameters if math.isfinite(p.hi)}
        powers = (power.as_base_exp() for power in expr.atoms(Pow))
        return any(e.is_integer and (e - 1).is_nonpositive is not True and b.free_symbols & rates
                   for b, e in powers)  # fmt: skip

    def _next_to_ends(self, case: CalculusCase, wide: bool) -> list[Sample]:
        """Further vectors, at which a weight next to one may lose its complement."""
        key, calculus = (id(case), wide), self.context.calculus
        if key not in self._ends:
            with mp.workdps(DIGITS):
                self._ends[key] = moved(calculus, case, lambda p: p.hi - NEXT_TO, wide)
        return self._ends[key]

    def _points(self, region: Region, case: CalculusCase) -> Iterator[tuple[Sample, Any]]:
        for sample in self.samples(case):
            for x in sample.points(region):
                yield sample, x

    def _measured(
        self, forms: list[Expr], place: Freezer, variable: str | None, trials: list[Trial],
        near: Sequence[Trial] = (),
    ) -> list[Measured]:  # fmt: skip
        """What `_graded` says of each candidate."""
        return [self._graded(place(form), variable, trials, near) for form in forms]

    def _graded(
        self, frozen: ir.Expr, variable: str | None, trials: list[Trial],
        near: Sequence[Trial] = (),
    ) -> Measured:  # fmt: skip
        """Error class, that near a zero, number of operations, frozen form and error."""
        # Sums that only the finished module has are not tried, and taken as they are.
        printable = finish_expression(frozen)
        if any(isinstance(node, ir.Helper) for node in ir.walk(printable)):
            return 0, 0, 0, frozen, 0.0
        names = list(self.context.names)
        if variable is not None:
            names.insert(0, variable)
        errors = [_largest(printable, names, group) for group in (trials, near)]
        far, close = (
            math.ceil(math.log2(max(error, GOOD) / GOOD)) if error < math.inf else 10**6
            for error in errors
        )  # fmt: skip
        return far, close, ir.count_operations(ir.Block((), printable)), frozen, errors[0]


def _first(measured: list[Measured]) -> tuple[ir.Expr, float]:
    """The form with the smallest error classes, then with the fewest operations, and its error."""
    *_, best, error = min(measured, key=lambda entry: entry[:3])
    return best, error


def _accurate(form: ir.Expr, error: float) -> ir.Expr:
    """A form of a probability that has not lost its digits."""
    if error > PROBABLE:
        raise LoweringError(f"every closed form loses digits (relative error {error:.0e})")
    return form


def _largest(printable: ir.Expr, names: list[str], trials: Sequence[Trial]) -> float:
    """The largest error of a candidate; nan counts as infinite."""
    function = runnable(printable, names)
    worst = 0.0
    with mp.workdps(DIGITS):
        for trial in trials:
            error = trial.error(function(*trial.arguments))
            if not error < math.inf:
                return math.inf
            worst = max(worst, error)
    return worst


def _tried(sample: Sample, value: Any, *first: Any) -> Trial:
    return Trial(sample.arguments(*first), _off(value))


def _off(value: Any, least: float = 0.0) -> Measure:
    """Relative error, or of a value below `least` that of `least`; infinity is exact."""
    # of a log beyond its own rounding an error is a relative one of what it is the log of

    def error(found: float) -> float:
        if found == value:
            return 0.0
        if not (mpmath.isfinite(value) and math.isfinite(found)):
            return math.inf
        return float(abs(found - value) / (max(abs(value), least) or abs(found)))

    return error


def _is_tiny(found: float) -> float:
    """Below `SMALLEST` a log of a mass must still be a number."""
    return 0.0 if -math.inf < found <= math.log(SMALLEST) else math.inf


def _is_a_number(found: float) -> float:
    """Far out only nan is wrong: where root finding passes, accuracy does not matter."""
    return math.inf if math.isnan(found) else 0.0


def _is_near(x: Any) -> Measure:
    """Far out a value must be neither nan nor infinite, and of the right size."""

    def error(found: float) -> float:
        return 0.0 if abs(found - x) <= abs(x) * GOOD_SIZE else math.inf

    return error


def _relative_or_residual(sample: Sample, region: Region, ell: float, root: Any) -> Measure:
    """The error in x, or in the loss at x where that is smaller (an ill-conditioned inverse)."""

    def error(found: float) -> float:
        if not math.isfinite(found):
            return math.inf
        forward = abs(found - root) / abs(root)
        if forward < GOOD:
            return float(forward)
        value = sample.loss(region, mpmath.mpf(found))
        if not mpmath.isfinite(value):
            return float(forward)
        return float(min(forward, abs(value - ell) / abs(ell)))

    return error


def _log_of_power(inner: Expr, facts: Facts) -> Expr:
    """log(b^a) = a log(b) for b > 0; b^a may be next to one."""
    base, power = inner.as_base_exp()
    return log(inner) if power == 1 or proved(base, facts) != 1 else power * log(base)
