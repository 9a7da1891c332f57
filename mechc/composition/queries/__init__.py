"""What can be asked of an event or a composition.

In: numbers or arrays. Out: `Bound`s of the same shape with a proven lower and upper side (or nan
and a status where the chosen method proves nothing), with what the pairs are claimed to stand for.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mechc.accountants.bound import Bound, Quantity, as_table, folded
from mechc.composition.inputs import (
    SetOnce,
    Setting,
    as_delta,
    as_epsilon,
    as_log_delta,
    as_number,
    as_order,
    as_path,
    as_positive_delta,
    as_rate,
    as_work,
    asked,
    checked,
    collect,
    from_log,
    positive,
    share,
)
from mechc.errors import (
    DeclarationError,
    UnsupportedError,
    as_flag,
    check_text,
    library,
    listed,
    public,
)
from mechc.hints import QUESTIONS, of_package, suggestion
from mechc.numeric.allowance import MAX_WORK, limited
from mechc.numeric.telling import telling

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mechc.composition.queries.evaluation import Evaluation
    from mechc.protocol import Run
    from mechc.verify.agreement import Report
    from mechc.verify.certified import Answers

CERTIFIED = (Quantity.DELTA, Quantity.LOG_DELTA, Quantity.EPSILON)  # in ball arithmetic too

OF_MECHANISMS = {"bind", "emit", "explain", "report", "source", "verify"}


@public
class Queries(SetOnce, ABC):
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

    def __getattr__(self, name: str) -> Any:
        """Refuse what there is not, with what was meant."""
        kind = type(self)
        hint = "" if name.startswith("_") else suggestion(name, dir(kind), QUESTIONS)
        if name in OF_MECHANISMS:
            hint = f"; it is asked of a mechanism, mechc.load(...).{name}"
        hint = hint if name in QUESTIONS else of_package(name) or hint
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}{hint}")

    def log_delta(self, epsilon: Any = None, **how: Any) -> Bound:
        """Return bounds on log delta(epsilon), far below the smallest double if need be.

        Args:
            epsilon: any real number, negative and infinite ones included, or an array of them.
            **how: see the class.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: the method cannot do this composition.
        """
        at = ("epsilon", epsilon)
        return self._ask(
            Quantity.LOG_DELTA, as_epsilon, at, lambda found, e: found.log_delta(e), how
        )

    def delta(self, epsilon: Any = None, **how: Any) -> Bound:
        """Return bounds on delta, the hockey-stick divergence E_P[(1 - exp(epsilon - L))_+].

        Arguments and errors as for `log_delta`. Below the smallest double the lower side is 0 and
        the upper side the smallest positive double.
        """
        at = ("epsilon", epsilon)
        return self._ask(
            Quantity.DELTA, as_epsilon, at, lambda found, e: from_log(found.log_delta(e)), how
        )

    def epsilon(self, delta: Any = None, *, log_delta: Any = None, **how: Any) -> Bound:
        """Return bounds on the smallest epsilon >= 0 with delta(epsilon) <= delta.

        At the upper side the proven upper bound of delta is at most the target; at the lower side
        the proven lower bound exceeds it (or epsilon is 0). delta = 0 asks for pure differential
        privacy; a delta below the mass at infinite loss gives inf, one that
        rounding does not tell from it has no upper bound.

        Args:
            delta: target in [0, 1], or an array; or
            log_delta: its natural log, <= 0, for targets below the smallest double.
            **how: see the class.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: the method cannot do this composition.
            NumericError: the search does not settle.
        """
        from mechc.composition.queries.epsilon import epsilon

        at = ("delta", delta) if log_delta is None else ("log_delta", log_delta)
        check = as_delta if log_delta is None else as_log_delta
        if (delta is None) == (log_delta is None):
            check = _no_target
        return self._ask(Quantity.EPSILON, check, at, epsilon, how)

    def to_json(self) -> str:
        """Return what happens how often as JSON: the line of a run file, see `save`."""
        from mechc.composition import run_record

        return run_record.line(self.composition()).rstrip()

    def _repr_html_(self) -> str:
        """Show in notebooks what happens how often, for which neighbours, and by which theorem."""
        run = self.composition()
        rows = [(f"{n:,}", e, e.adjacency.words, e.claim.heading.partition(", adjacency")[0])
                for e, n in run.parts]  # fmt: skip
        table = as_table(rows, ("count", "event", "neighbours", "claim"))
        return table + folded("what has to be true", run.claim.assumptions)

    def check(self, epsilons: Iterable[float] = (0.1, 0.5, 1.0, 3.0)) -> Report:
        """Compare all bounded methods with each other and with what must hold.

        Args:
            epsilons: where to compare.

        Returns:
            The number of comparisons and the contradictions, each with its reproduction.
        """
        from mechc.verify.agreement import check

        return check(self.composition(), checked(as_epsilon, epsilons)[0])

    def _ask(
        self, quantity: Quantity, check: Callable[[Any], float], where: tuple[str, Any],
        question: Callable[[Evaluation, float], Bound], how: dict[str, Any],
    ) -> Bound:  # fmt: skip
        """Ask one evaluation about all points of `where`, each checked, each with so much work."""
        work = how.pop("max_work", MAX_WORK)
        balls = as_flag("certified", quantity in CERTIFIED and how.pop("certified", False))
        setting = Setting.of(**how)  # refused before its target if a word is not known
        points, shape = checked(check, where[1])
        run, allowed, evaluation = self.composition(), inf if balls else as_work(work), None
        answers = _certified(run, setting) if balls else None
        # from the largest epsilon down: a contour serves those below its own better
        order = points if shape is None else sorted(
            set(points), reverse=quantity is not Quantity.EPSILON  # which falls with the points
        )  # fmt: skip
        known = dict[float, Bound]()
        with asked() as kept, telling(str(quantity)) as tell:
            for at in order:
                tell(f"{len(known)} of {len(order)} points")
                if evaluation is not None and evaluation.is_stretched:
                    evaluation = None
                    kept.laws.clear()
                with limited(allowed, setting.method):
                    if answers is None or quantity is Quantity.EPSILON:
                        evaluation = evaluation or run.evaluation(setting)
                        known[at] = question(evaluation, at)
                    if answers is not None:
                        known[at] = (
                            answers.epsilon(at, float(known[at].estimate)) if at in known
                            else answers.delta(at) if quantity is Quantity.DELTA
                            else answers.log_delta(at)
                        )  # fmt: skip
        found = known[points[0]] if shape is None else collect([known[at] for at in points], *where)
        return found.stands_for(run.claim, quantity)

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
            DeclarationError: a file to append to has no lines as this writes them.
            CacheError: the file cannot be written.
        """
        from mechc.composition import run_record
        from mechc.kernel.build import write_atomically

        run, path = self.composition(), as_path(path)
        if as_flag("append", append):
            return run_record.add(path, run_record.line(run))
        asked = run_record.questions(delta, epsilon)
        return write_atomically(path, run_record.line(run, asked))

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
    ) -> Any:
        """Draw what is proven, with matplotlib (optional extra `plot`).

        Args:
            path: file to write as well; its suffix decides the format (svg, pdf, png ...).
            kind: "profile" (epsilon against delta), "tradeoff" (false negative against false
                positive rate), "steps" (epsilon in the course of the run), "loss" (law of the
                privacy loss, an estimate) or "densities" (of one use of a mechanism). Between the
                points that were evaluated the first three are on the safe side too.
            delta: target for "steps".
            counts: repetitions of the whole run for "steps"; by default its own repetitions, from
                the first to the last (240 of them, or 16 where `methods` or `method` name an
                accountant that shares nothing between counts), or 1 to 100 of a run that repeats
                nothing.
            ax: matplotlib axes to draw into, of a figure with `layout="constrained"` at best; a
                figure of its own by default.
            label: name of this run, written next to its curve.
            beside: other runs or events by their names, drawn into the same figure.
            methods: names of accountants: one curve for each instead of one for the run.
            target: where to draw a horizontal line, such as the epsilon that is allowed.
            smallest: smallest delta of "profile", from 1e-300.
            log: "tradeoff" with the true positive rate on log axes.
            epoch: steps in an epoch, for "steps" to count epochs.
            how: keyword arguments of the query that is drawn.

        Returns:
            The figure, which notebooks show; or `ax`, as they show the figure that it is in.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: matplotlib is not installed, or the file cannot be written.
        """
        from mechc.composition.queries.curve import as_counts
        from mechc.report import plot

        path = None if path is None else as_path(path)
        repeated = None if counts is None else as_counts(counts).tolist()
        target = None if target is None else as_number("target", target)
        smallest, epoch = as_number("smallest", smallest), positive("plot", "epoch", epoch)
        methods = listed("methods", methods, "names of accountants")
        check_text("label", label)
        others = beside.values() if isinstance(beside, Mapping) else () if beside is None else (0,)
        if not all(isinstance(other, Queries) for other in others):
            raise DeclarationError(f"beside={beside!r} (expected runs or events by their names)")
        log = as_flag("log", log)
        return plot.run(
            self, path, plot.Look(delta, repeated, smallest, log, epoch), kind=kind, ax=ax,
            label=label, beside=beside, methods=methods, target=target, **how,
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
        return replace(self.delta(0.0, **how), quantity=Quantity.ADVANTAGE)

    def tradeoff(self, alpha: Any = None, **how: Any) -> Bound:
        """Return bounds on the smallest false negative rate at false positive rate alpha.

        f(alpha) = sup over epsilon of 1 - delta(epsilon) - e^epsilon alpha, over all real epsilon
        (Dong, Roth, Su 2022, Proposition 2.13); the smaller of the two directions. `lower` is the
        side that never under-reports what an attacker can do.

        Args:
            alpha: false positive rate in [0, 1], or an array.
            **how: see the class.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: the method refuses where the answer is decided.
        """
        from mechc.composition.queries.divergences import false_negative

        return self._ask(
            Quantity.FALSE_NEGATIVE_RATE, as_rate, ("alpha", alpha), false_negative, how
        )

    beta = tradeoff  # the word of others

    def tpr(self, fpr: Any = None, **how: Any) -> Bound:
        """Return bounds on the largest true positive rate of an attack at a false positive rate.

        1 - f(fpr) for the trade-off function f of the run (Dong, Roth, Su 2022): no test of whether
        a record is present has more power. `upper` is the safe side; errors as for `tradeoff`.

        Args:
            fpr: false positive rate in [0, 1], or an array.
            **how: see the class.
        """
        from mechc.composition.queries.divergences import true_positive

        check = partial(share, "tpr", "fpr")
        return self._ask(Quantity.TRUE_POSITIVE_RATE, check, ("fpr", fpr), true_positive, how)

    def reconstruction(self, baseline: Any = None, **how: Any) -> Bound:
        """Return bounds on the probability with which a record can be reconstructed.

        Whatever counts as success and whatever is known of the record beforehand: who succeeds with
        probability at most `baseline` without the output succeeds with probability at most
        1 - f(baseline) with it (Hayes, Mahloujifar, Balle 2023, Theorem 2). The lower side is for
        the worst prior, not for a given one. Errors as for `tradeoff`.

        Args:
            baseline: probability of success without the output, in [0, 1], or an array.
            **how: see the class.
        """
        from mechc.composition.queries.divergences import true_positive

        check = partial(share, "reconstruction", "baseline")
        return self._ask(Quantity.RECONSTRUCTION, check, ("baseline", baseline), true_positive, how)

    def bayes_risk(self, prior: Any = 0.5, **how: Any) -> Bound:
        """Return bounds on the smallest probability of error of a guess whether a record is there.

        min over tests of prior FNR + (1 - prior) FPR = prior (1 - delta(log((1 - prior) / prior))).
        At prior 1/2 it is (1 - advantage) / 2. `lower` is the safe side; errors as for `tradeoff`.

        Args:
            prior: probability in [0, 1], before the output, that the record is present.
            **how: see the class.
        """
        from mechc.composition.queries.divergences import bayes_risk

        check = partial(share, "bayes_risk", "prior")
        return self._ask(Quantity.BAYES_RISK, check, ("prior", prior), bayes_risk, how)

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
        from mechc.composition.queries import divergences

        run = self.composition()
        with asked(), limited(as_work(max_work), "renyi"):
            return divergences.zcdp(run, direction).stands_for(run.claim, Quantity.RHO)

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
        from mechc.composition.queries import divergences

        question = partial(divergences.renyi, self.composition())
        how = {"direction": direction, "max_work": max_work}
        return self._ask(Quantity.RENYI, as_order, ("order", orders), question, how)

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
        from mechc.composition.queries import divergences

        setting, run = Setting.of(**how), self.composition()
        with asked(), limited(as_work(max_work), setting.method):
            return divergences.gdp(run, epsilon_max, setting).stands_for(run.claim, Quantity.MU)

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
        from mechc.composition.queries.curve import epsilon_curve

        setting, run = Setting.of(**how), self.composition()
        target, allowed = as_positive_delta(delta), as_work(max_work)
        with asked():
            found = epsilon_curve(run, target, counts, allowed, setting)
        return found.stands_for(run.claim, Quantity.EPSILON)


def _certified(run: Run, setting: Setting) -> Answers:
    """The same questions answered in ball arithmetic."""
    library("flint")
    from mechc.verify.certified import RTOL, Answers

    if setting.method not in ("auto", "contour") or setting.options:
        given = ", ".join((f"method={setting.method!r}", *(word for word, _ in setting.options)))
        raise UnsupportedError(f"certified: method contour without options, not {given}")
    return Answers(run, setting.direction, RTOL)


def _no_target(value: Any) -> float:
    raise DeclarationError("epsilon: give exactly one of delta= and log_delta=")
