"""What can be asked of an event or a composition.

In: numbers or arrays. Out: `Bound`s of the same shape with a proven lower and upper side (or nan
and a status where the chosen method proves nothing), with what the pairs are claimed to stand for.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mechc.accountants.bound import Bound, Quantity, as_table, folded
from mechc.composition.inputs import (
    Points,
    as_delta,
    as_epsilon,
    as_flag,
    as_log_delta,
    as_order,
    as_positive_delta,
    as_rate,
    as_rtol,
    as_work,
    checked,
    from_log,
    share,
)
from mechc.composition.question import asked
from mechc.errors import DeclarationError, UnsupportedError
from mechc.loss.allowance import MAX_WORK, limited

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mechc.composition.agreement import Report
    from mechc.composition.evaluation import Evaluation
    from mechc.protocol import Run
    from mechc.verify.certified import Answers


class Queries(ABC):
    """The queries that `Event` and `Composition` share.

    Keyword arguments of all of them:

    * method: a name from `mechc.methods()`, "auto" (its rule: see `mechc.accountants.registry`), or
      "name:option" such as "saddlepoint:msd1";
    * direction: "both" (the maximum over the directions, taken after composition), "remove" (P
      contains the record) or "add";
    * rtol: relative width of delta that "auto" aims at;
    * max_work: how much each number asked for may cost, in units of one exponential, some ten
      nanoseconds: a count of what is done, so that answers do not depend on the machine. Where it
      is used up "auto" answers by the bounds at hand and says so in `detail["max_work"]`, and any
      other method is refused;
    * certified: answer in ball arithmetic from the declaration, without any kernel (needs
      python-flint; delta, log_delta and epsilon only); `status` is then "certified";
    * further options go to the accountant.
    """

    __slots__ = ()

    @abstractmethod
    def composition(self) -> Run:
        """Return the composition the queries are about."""

    def log_delta(
        self,
        epsilon: Any = None,
        *,
        method: str = "auto",
        direction: str = "both",
        rtol: float = 1e-6,
        max_work: float = MAX_WORK,
        certified: bool = False,
        **options: Any,
    ) -> Bound:
        """Return bounds on log delta(epsilon), far below the smallest double if need be.

        Args:
            epsilon: any real number, negative and infinite ones included, or an array of them.
            method: see the class, as for the rest.
            direction: see the class.
            rtol: see the class.
            max_work: see the class.
            certified: see the class.
            **options: see the class.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: the method cannot do this composition.
        """
        how = self._how(method=method, direction=direction, rtol=rtol, **options)
        points = checked(as_epsilon, epsilon)
        if as_flag("certified", certified):
            found = points.ask(self._certified(method, direction, options).log_delta, max_work=inf)
            return self._answered(found, Quantity.LOG_DELTA)
        return self._ask(
            Quantity.LOG_DELTA, points, lambda found, e: found.log_delta(e), max_work, how
        )

    def delta(
        self,
        epsilon: Any = None,
        *,
        method: str = "auto",
        direction: str = "both",
        rtol: float = 1e-6,
        max_work: float = MAX_WORK,
        certified: bool = False,
        **options: Any,
    ) -> Bound:
        """Return bounds on delta, the hockey-stick divergence E_P[(1 - exp(epsilon - L))_+].

        Arguments and errors as for `log_delta`. Below the smallest double the lower side is 0 and
        the upper side the smallest positive double.
        """
        how = self._how(method=method, direction=direction, rtol=rtol, **options)
        points = checked(as_epsilon, epsilon)
        if as_flag("certified", certified):
            found = points.ask(self._certified(method, direction, options).delta, max_work=inf)
            return self._answered(found, Quantity.DELTA)
        return self._ask(
            Quantity.DELTA, points, lambda found, e: from_log(found.log_delta(e)), max_work, how
        )

    def epsilon(
        self,
        delta: Any = None,
        *,
        log_delta: Any = None,
        method: str = "auto",
        direction: str = "both",
        rtol: float = 1e-6,
        max_work: float = MAX_WORK,
        certified: bool = False,
        **options: Any,
    ) -> Bound:
        """Return bounds on the smallest epsilon >= 0 with delta(epsilon) <= delta.

        At the upper side the proven upper bound of delta is at most the target; at the lower side
        the proven lower bound exceeds it (or epsilon is 0). delta = 0 asks for pure differential
        privacy; a delta below the mass at infinite loss gives inf, one that
        rounding does not tell from it has no upper bound.

        Args:
            delta: target in [0, 1], or an array; or
            log_delta: its natural log, <= 0, for targets below the smallest double.
            method: see the class, as for the rest.
            direction: see the class.
            rtol: see the class.
            max_work: see the class.
            certified: see the class.
            **options: see the class.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: the method cannot do this composition.
            NumericError: the search does not settle.
        """
        from mechc.composition import epsilon

        how = self._how(method=method, direction=direction, rtol=rtol, **options)
        if (delta is None) == (log_delta is None):
            raise DeclarationError("epsilon: give exactly one of delta= and log_delta=")
        target, check = (delta, as_delta) if log_delta is None else (log_delta, as_log_delta)
        points = checked(check, target)
        if as_flag("certified", certified):
            with asked():
                evaluation = self.composition().evaluation(**how)
                answers = self._certified(method, direction, options)
                found = points.ask(
                    lambda t: answers.epsilon(t, float(epsilon.epsilon(evaluation, t).estimate)),
                    max_work=inf,
                )
            return self._answered(found, Quantity.EPSILON)
        return self._ask(Quantity.EPSILON, points, epsilon.epsilon, max_work, how, rising=True)

    def _repr_html_(self) -> str:
        """Show in notebooks what happens how often, for which neighbours, and by which theorem."""
        run = self.composition()
        rows = [(f"{n:,}", e, e.adjacency.words, e.claim.heading) for e, n in run.parts]
        table = as_table(rows, ("count", "event", "neighbours", "claim"))
        return table + folded("what has to be true", run.claim.assumptions)

    def check(self, epsilons: Iterable[float] = (0.1, 0.5, 1.0, 3.0)) -> Report:
        """Compare all bounded methods with each other and with what must hold.

        Args:
            epsilons: where to compare.

        Returns:
            The number of comparisons and the contradictions, each with its reproduction.
        """
        from mechc.composition.agreement import check

        return check(self.composition(), tuple(epsilons))

    def _how(self, **how: Any) -> dict[str, Any]:
        """The keyword arguments of a query, refused before its target if one is not known."""
        from mechc.accountants import registry

        named = {"method": "auto", "direction": "both", "rtol": 1e-6, **how}
        registry.resolve(
            named["method"],
            {k: v for k, v in how.items() if k not in ("method", "direction", "rtol")},
        )
        return {**named, "rtol": as_rtol(named["rtol"])}

    def _answered(self, bound: Bound, quantity: Quantity) -> Bound:
        """The bound with what the pairs stand for, as it is given to users."""
        return bound.stands_for(self.composition().claim, quantity)

    def _ask(
        self,
        quantity: Quantity,
        points: Points,
        question: Callable[[Evaluation, float], Bound],
        max_work: float,
        how: dict[str, Any],
        rising: bool = False,
    ) -> Bound:
        """Ask one evaluation about all points, each with so much work, the evaluation's included.

        Args:
            quantity: what the answer is about.
            points: where.
            question: what is asked.
            max_work: see the class.
            how: method, direction, rtol and options.
            rising: see `Points.ask`.
        """
        composition = self.composition()
        with asked():
            found = points.ask(
                lambda value: question(composition.evaluation(**how), value),
                rising,
                max_work,
                str(how.get("method", "auto")),
            )
        return self._answered(found, quantity)

    def _certified(self, method: str, direction: str, options: dict[str, Any]) -> Answers:
        """The same questions answered in ball arithmetic."""
        try:
            from mechc.verify.certified import RTOL, Answers
        except ImportError as error:
            raise UnsupportedError(
                f"certified=True needs python-flint: pip install 'mechc[verify]' ({error})"
            ) from error
        if method not in ("auto", "contour") or options:
            given = ", ".join((f"method={method!r}", *options))
            raise UnsupportedError(f"certified: method contour without options, not {given}")
        return Answers(self.composition(), direction, RTOL)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        delta: Any = 1e-5,
        epsilon: Any = None,
        append: bool = False,
    ) -> Path:
        """Write the run, and the answers to some questions, as a run file.

        The file is data: mechanisms by name and digest or as formulas, parameters, counts,
        adjacency, questions, answers and versions. `mechc.open(path)` gives the run again on any
        machine, and `mechc check path` asks its questions again and compares.

        Args:
            path: file to write; it appears complete or not at all.
            delta: where epsilon is asked, a number or several; None for nowhere.
            epsilon: where delta is asked, likewise.
            append: add this run, without questions, to what the file holds, as one line that is
                written whole: step by step from a training loop.

        Returns:
            The path written.

        Raises:
            UnsupportedError: an event is given by numbers alone.
            CacheError: the file cannot be written.
        """
        from mechc.composition import run_record

        run = self.composition()
        if append:
            return run_record.add(Path(path).expanduser(), run_record.line(run))
        asked = run_record.questions(delta, epsilon)
        return run_record.write(Path(path).expanduser(), run_record.line(run, asked))

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        kind: str = "profile",
        delta: float = 1e-5,
        counts: Iterable[int] | None = None,
        ax: Axes | None = None,
        label: str = "",
        beside: Mapping[str, Any] | None = None,
        methods: Iterable[str] = (),
        target: float | None = None,
        smallest: float = 1e-12,
        log: bool = False,
        epoch: float = 1.0,
        **how: Any,
    ) -> Figure:
        """Draw what is proven and return the matplotlib figure (optional extra `plot`).

        Args:
            path: file to write as well; its suffix decides the format (svg, pdf, png ...).
            kind: "profile" (epsilon against delta), "tradeoff" (false negative against false
                positive rate), "steps" (epsilon in the course of the run), "loss" (law of the
                privacy loss, an estimate) or "densities" (of one use of a mechanism). Between the
                points that were evaluated the first three are on the safe side too.
            delta: target for "steps".
            counts: repetitions of the whole run for "steps"; by default its own repetitions, from
                the first to the last, or 1 to 100 of a run that repeats nothing.
            ax: matplotlib axes to draw into; a figure of its own by default.
            label: name of this run, written next to its curve.
            beside: other runs or events by their names, drawn into the same figure.
            methods: names of accountants: one curve for each instead of one for the run.
            target: where to draw a horizontal line, such as the epsilon that is allowed.
            smallest: smallest delta of "profile", from 1e-300.
            log: "tradeoff" with the true positive rate on log axes.
            epoch: steps in an epoch, for "steps" to count epochs.
            how: keyword arguments of the query that is drawn.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: matplotlib is not installed, or the file cannot be written.
        """
        from mechc.composition.curve import as_counts
        from mechc.report import plot

        repeated = None if counts is None else as_counts(counts).tolist()
        return plot.run(
            self, path, kind=kind, delta=delta, counts=repeated, ax=ax, label=label, beside=beside,
            methods=methods, target=target, smallest=smallest, log=log, epoch=epoch, **how,
        )  # fmt: skip

    def cite(self) -> str:
        """Return BibTeX for the mechanisms and for the methods that have answered so far."""
        from mechc.report import cite

        return cite.bibtex(self.composition())

    def advantage(self, **how: Any) -> Bound:
        """Return bounds on the largest advantage of a membership test, delta(0).

        This is the total variation distance, the largest true positive rate minus false positive
        rate. Keyword arguments as for `delta`.
        """
        return self.delta(0.0, **how)

    def tradeoff(self, alpha: Any = None, *, max_work: float = MAX_WORK, **how: Any) -> Bound:
        """Return bounds on the smallest false negative rate at false positive rate alpha.

        f(alpha) = sup over epsilon of 1 - delta(epsilon) - e^epsilon alpha, over all real epsilon
        (Dong, Roth, Su 2022, Proposition 2.13); the smaller of the two directions. `lower` is the
        side that never under-reports what an attacker can do.

        Args:
            alpha: false positive rate in [0, 1], or an array.
            max_work: see the class.
            how: keyword arguments as for `delta`.
        """
        from mechc.composition import tradeoff

        how = self._how(**how)
        points = checked(as_rate, alpha)
        return self._ask(
            Quantity.FALSE_NEGATIVE_RATE, points, tradeoff.false_negative, max_work, how
        )

    def beta(self, alpha: Any = None, *, max_work: float = MAX_WORK, **how: Any) -> Bound:
        """Return bounds on the smallest false negative rate at false positive rate alpha.

        Another name of `tradeoff`, with its arguments; `lower` is the safe side.
        """
        return self.tradeoff(alpha, max_work=max_work, **how)

    def tpr(self, fpr: Any = None, *, max_work: float = MAX_WORK, **how: Any) -> Bound:
        """Return bounds on the largest true positive rate of an attack at a false positive rate.

        1 - f(fpr) for the trade-off function f of the run (Dong, Roth, Su 2022): no test of whether
        a record is present has more power.

        Args:
            fpr: false positive rate in [0, 1], or an array.
            max_work: see the class.
            how: keyword arguments as for `delta`.

        Returns:
            Bounds of which `upper` is the safe side.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: the method refuses where the answer is decided.
        """
        return self._attacked(Quantity.TRUE_POSITIVE_RATE, "fpr", fpr, max_work, how)

    def reconstruction(
        self, baseline: Any = None, *, max_work: float = MAX_WORK, **how: Any
    ) -> Bound:
        """Return bounds on the probability with which a record can be reconstructed.

        Whatever counts as success and whatever is known of the record beforehand: who succeeds with
        probability at most `baseline` without the output succeeds with probability at most
        1 - f(baseline) with it (Hayes, Mahloujifar, Balle 2023, Theorem 2). The lower side is for
        the worst prior, not for a given one.

        Args:
            baseline: probability of success without the output, in [0, 1], or an array.
            max_work: see the class.
            how: keyword arguments as for `delta`.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: the method refuses where the answer is decided.
        """
        return self._attacked(Quantity.RECONSTRUCTION, "baseline", baseline, max_work, how)

    def _attacked(
        self, quantity: Quantity, word: str, rates: Any, max_work: float, how: dict[str, Any]
    ) -> Bound:
        """Power at false positive rates, by its name."""
        from mechc.composition import tradeoff

        how = self._how(**how)
        points = checked(partial(share, quantity.words, word), rates)
        return self._ask(quantity, points, tradeoff.true_positive, max_work, how)

    def bayes_risk(self, prior: Any = 0.5, *, max_work: float = MAX_WORK, **how: Any) -> Bound:
        """Return bounds on the smallest probability of error of a guess whether a record is there.

        min over tests of prior FNR + (1 - prior) FPR = prior (1 - delta(log((1 - prior) / prior))).
        At prior 1/2 it is (1 - advantage) / 2.

        Args:
            prior: probability in [0, 1], before the output, that the record is present.
            max_work: see the class.
            how: keyword arguments as for `delta`.

        Returns:
            Bounds of which `lower` is the safe side.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: the method refuses where the answer is decided.
        """
        from mechc.composition import tradeoff

        how = self._how(**how)
        points = checked(partial(share, Quantity.BAYES_RISK.words, "prior"), prior)
        return self._ask(Quantity.BAYES_RISK, points, tradeoff.bayes_risk, max_work, how)

    def zcdp(self, *, direction: str = "both", max_work: float = MAX_WORK) -> Bound:
        """Return bounds on the smallest rho such that the run is rho-zCDP.

        The supremum of D_alpha / alpha over alpha > 1 (Bun, Steinke 2016). Proven from above where
        all orders are covered: normal laws, also discrete and on samples, in closed form, bounded
        losses by their largest one, parts added up. Otherwise `upper` is nan, and `lower` the
        largest value found. A mass at infinite loss makes rho infinite. Sampling does not lower
        the rho of Gaussian noise: `epsilon` and `renyi` say what it is good for.

        Args:
            direction: see the class.
            max_work: see the class.
        """
        from mechc.composition import divergences

        with limited(as_work(max_work), "renyi"):
            found = divergences.zcdp(self.composition(), direction)
        return self._answered(found, Quantity.RHO)

    def renyi(
        self, orders: Any = None, *, direction: str = "both", max_work: float = MAX_WORK
    ) -> Bound:
        """Return bounds on the Rényi divergence of the given orders, max over the directions.

        Args:
            orders: numbers > 0 (1 is the Kullback-Leibler divergence, inf the largest loss), or
                an array.
            direction: see the class.
            max_work: see the class.

        Raises:
            DeclarationError: an order is not positive.
            UnsupportedError: E[exp((order - 1) L)] is not known to be finite, or max_work is not
                enough.
        """
        from mechc.composition import divergences

        how = {"direction": direction}
        question = partial(divergences.renyi, self.composition())
        return self._ask(Quantity.RENYI, checked(as_order, orders), question, max_work, how)

    def gdp(
        self, *, epsilon_max: float | None = None, max_work: float = MAX_WORK, **how: Any
    ) -> Bound:
        """Return bounds on the smallest mu such that the run is mu-GDP up to `epsilon_max`.

        Args:
            epsilon_max: the comparison covers |epsilon| <= epsilon_max; by default up to where
                delta is 1e-12. It cannot cover all epsilon: the tails of a subsampled
                mechanism are those of the mechanism without sampling. `detail` states the range
                and delta at its end. Where delta(0) is one in doubles the order
                1/2 bounds mu from above, wider, and there is no estimate.
            max_work: see the class; for all epsilons together.
            how: keyword arguments as for `delta`.
        """
        from mechc.composition import divergences

        how = self._how(**how)
        with asked(), limited(as_work(max_work), str(how["method"])):
            found = divergences.gdp(self.composition(), epsilon_max, how)
        return self._answered(found, Quantity.MU)

    def epsilon_curve(
        self,
        delta: float | None = None,
        counts: Iterable[int] | None = None,
        *,
        max_work: float = MAX_WORK,
        **how: Any,
    ) -> Bound:
        """Return bounds on epsilon after each number of repetitions of this whole run.

        Args:
            delta: target in (0, 1].
            counts: repetitions, in any order.
            max_work: see the class; for what all counts share, and for each that is alone. All of
                these may take thirty times as much; then counts lie between their neighbours.
            how: keyword arguments as for `epsilon`.
        """
        from mechc.composition import curve

        how = self._how(**how)
        target, allowed = as_positive_delta(delta), as_work(max_work)
        with asked():
            found = curve.epsilon_curve(self.composition(), target, counts, allowed, how)
        return self._answered(found, Quantity.EPSILON)
