"""Per-person epsilon and delta after any number of adaptive steps of one family of mechanisms.

Each step has one scalar per person, such as the noise ratio of that person's gradient. What is
known after k steps is a row of totals per person (`ledger`); everything else is computed from it:

    log E_P[exp(zL)] of a person = sum over the person's steps of K(z; parameter)
                                 = row @ table(z),

and delta, or epsilon, follows from the contour integral with its bounds (Theorem A in
`accountants.contour`). Bounds hold for the dominating pair of each step, composed over the steps
that were taken; for a run whose steps depend on earlier outputs they are the individual (epsilon,
delta)-accountant of Koskela, Tobaben and Honkela (2023), section 5, not a filter.

Individual epsilons depend on the data of the person they belong to and must not be published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechc.accountants.bound import Bound, Quantity
from mechc.composition.inputs import as_array, as_path, as_rtol
from mechc.errors import DeclarationError, as_flag, check_one_of, listed, public
from mechc.individual import singly
from mechc.individual.budget import (
    Update,
    as_floats,
    dense,
    in_range,
    integer,
    log_target,
    number,
    real_array,
)
from mechc.individual.contours import Answers, Asked, Evaluator, Query, rare
from mechc.individual.cost import Cost, estimate, expected
from mechc.individual.family import Family, UnorderedError
from mechc.individual.inversion import STRIDE
from mechc.individual.ledger import Journal, Ledger
from mechc.individual.splines import SPACINGS, Grid
from mechc.individual.storage import PathLike, TakesTurns, in_turn
from mechc.numeric.rounding import EPS
from mechc.protocol import Floats, Integers

METHODS = ("contour", "plancherel", "renyi")
BUCKETS, CROWDING = 160, 14.0  # of knots for splines; it hardly matters but where noise is small
UNRESOLVED = 0.1  # share of delta lost on the contour beyond which no grid is fine enough
LOOKED_AT, TYPICAL = 4096, 64  # people of whom it is seen how many differ, to estimate a cost, and
# of whom it is seen which steps they have
ALONE = 0.25  # laws of steps that take as long as a member of tables elsewhere
MESHED = 10_000  # steps of all people together that are composed one by one
FARTHEST = 64.0  # times the noise of full contributions, beyond which ratios count as this one
NEAR = 0.99  # of a single setting: the other end of its span
BEYOND = 1e-3  # share of delta that may be due to losses beyond the grid of the paper's method ...
FARTHEST_LOSS = 1e4  # ... or beyond this
QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)  # of a group
_ANY = np.finfo(np.float64).max  # an upper bound that says nothing
_LESS = 1.0 - 4 * EPS  # less noise than three roundings can feign
_COARSE = 0.02  # width beyond which plain counts may do better than splines
_KIND = "individual-ledger"


@contextmanager
def bar(label: str, total: int, shown: bool = True) -> Iterator[Callable[..., Any]]:
    """Show a bar while the body runs; yield what updates it, by `advance=` or `completed=`."""
    if not shown:
        yield lambda **_: None
        return
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        yield partial(progress.update, progress.add_task(label, total=total))


@public
class IndividualAccountant(TakesTurns):
    """Accountant with one row per person.

    Attributes:
        family: the mechanism along its parameter.
        grid: the parameter grid of the ledger.
        rtol: relative width of answers that refinement aims for.
    """

    def __init__(
        self,
        mechanism: Any,
        *,
        parameter: str,
        people: int,
        span: tuple[float, float] | None = None,
        rtol: float = 1e-4,
        buckets: int = BUCKETS,
        spacing: str = "geometric",
        splines: bool = True,
        settings: ArrayLike | None = None,
        storage: PathLike | None = None,
        journal: int = 1 << 28,
        tables: PathLike | None = None,
        mesh: int = MESHED,
    ) -> None:
        """Start with nobody touched.

        Args:
            mechanism: a mechanism with all parameters bound but one, or a `Family`.
            parameter: the free parameter.
            people: population size.
            span: range of the parameter, both ends positive; of settings and of a `Family` it is
                known. Values on the side of more privacy loss are refused, be it by a rounding;
                those on the other side count as its end.
            rtol: relative width of epsilon to aim for.
            buckets: number of buckets of the grid.
            spacing: "geometric", with knots crowded towards the revealing end for splines, or
                "linear".
            splines: keep spline weights, which make bounds sharp within buckets. Without them
                steps are rounded to the safe side of their bucket, as in the paper.
            settings: the only values that steps will have, inside the span if there is one: a noise
                schedule that is the same for everybody who takes part. Steps are counted per value
                then, without rounding or interpolation; buckets, spacing, splines and journal do
                not matter.
            storage: path of a new directory to map the ledger from, if it should not live in
                memory.
            journal: bytes that recorded steps may take; as long as they fit, people whose bounds
                are wider than rtol may be composed one by one.
            tables: folder in which tables are kept for other processes; in memory they are
                shared by all accountants of a mechanism as long as one of them lives.
            mesh: steps of all people together that may be composed one person at a time (most often
                on a mesh) for those who cannot be answered otherwise; 0 for none.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: the family is not ordered, so that no side of a grid is safe.
        """
        integer("people", people, 1)  # before anything is compiled
        journal, self._meshed = integer("journal", journal), integer("mesh", mesh)
        self.rtol = as_rtol(rtol)
        listed = None if settings is None else as_floats(real_array("settings", settings))
        family = self.family = Family.of(mechanism, parameter, _spanned(mechanism, span, listed))
        check_one_of("spacing", spacing, SPACINGS)
        crowding = CROWDING if as_flag("splines", splines) and spacing == "geometric" else 0.0
        self.grid = Grid(family.worst, family.best, buckets, spacing, bool(splines), crowding)
        if listed is not None:
            self.grid = self._listed(listed)
        kept = journal if self.grid.splines else 0
        self._ledger = Ledger(people, self.grid, storage)
        self._journal = Journal(self.people, kept, family.untouched)
        self._tables = None if tables is None else as_path(tables, "tables")

    @property
    def _facts(self) -> dict[str, Any]:
        family = self.family
        return {"mechanism": family.name, "parameter": family.parameter, "people": self.people,
                "span": family.span, "steps": self.steps}  # fmt: skip

    def _listed(self, values: Floats) -> Grid:
        """Return the grid of listed settings."""
        low, high = self.family.span
        if values.ndim != 1 or not values.size or not ((values >= low) & (values <= high)).all():
            raise DeclarationError(f"settings: expected numbers in the span [{low:g}, {high:g}]")
        knots = np.unique(values)[:: 1 if self.family.worst == low else -1].tolist()
        worst, best = self.family.worst, self.family.best  # one knot does not tell the sides apart
        return Grid(worst, best, len(knots) - 1, "listed", False, listed=tuple(knots))

    @classmethod
    def from_norms(
        cls, norms: ArrayLike, clip: ArrayLike, noise: ArrayLike, *,
        sampling_rate: float | None = None, counts: Sequence[int] | None = None, **options: Any,
    ) -> IndividualAccountant:  # fmt: skip
        """Return an accountant of Gaussian steps that clip everybody's contribution.

        A contribution of norm g is scaled to min(g, clip) and noise of deviation noise * clip is
        added, so that the person's noise ratio is noise * clip / min(g, clip). Clipping norms and
        noise may differ between steps, as they do where the norm is adapted; what adapts it
        privately is a mechanism of its own and not accounted for here.

        Args:
            norms: norms of contributions, shape (people, steps) or (people,) for one step; 0 means
                not touched. With a sampling rate they are those that people have if they are drawn.
            clip: clipping norm of all steps, or of each, > 0.
            noise: deviation of the noise over the clipping norm, of all steps or of each, > 0.
            sampling_rate: of Poisson sampling; everybody takes part without it.
            counts: how often each step is repeated; once by default.
            **options: further arguments of the constructor. `settings` are for people who are all
                clipped, or not touched: other ratios are rounded down.

        Raises:
            DeclarationError: an argument is not acceptable.
        """
        from mechc.composition.mechanism import built_in
        from mechc.composition.operations import poisson

        if taken := options.keys() & {"mechanism", "parameter", "people"}:
            raise DeclarationError(f"{min(taken)} follows from the norms (expected other options)")
        given = as_floats(real_array("norms", norms))
        given = given[:, None] if given.ndim == 1 else given
        steps, wrong = given.shape[1] if given.ndim == 2 else 0, given[~(given >= 0.0)]
        if wrong.size or not steps or not given.size:
            what = f"has {wrong[0]:g}" if wrong.size else f"has shape {given.shape}"
            raise DeclarationError(f"norms {what} (expected numbers >= 0, shape (people, steps))")
        sizes = []
        for name, value in (("clip", clip), ("noise", noise)):
            size = as_floats(real_array(name, value), up=False)
            if size.shape not in ((), (steps,)) or not ((size > 0.0) & (size < math.inf)).all():
                raise DeclarationError(f"{name}={value!r} (expected numbers > 0, one or {steps})")
            sizes.append(np.broadcast_to(size, (steps,)))
        repeats = listed(
            "counts", [1] * steps if counts is None else counts, f"{steps} integers", steps
        )
        worst = float(sizes[1].min())
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            ratio = sizes[1] * _LESS / np.minimum(given / sizes[0], 1.0)
        ratio = np.maximum(ratio, sizes[1])  # of who is clipped, exactly
        ratio = np.where(given > 0.0, np.minimum(ratio, np.finfo(np.float64).max), np.inf)
        mechanism = built_in("gaussian")
        if sampling_rate is not None:
            mechanism = poisson(mechanism, sampling_rate=sampling_rate)
        if "settings" not in options:
            options.setdefault("span", (worst, FARTHEST * worst))
        made = cls(mechanism, parameter="sigma", people=given.shape[0], **options)
        for values, count in zip(ratio.T, repeats, strict=True):
            made.step(values, count=count)
        return made

    @property
    def people(self) -> int:
        """Population size."""
        return self._ledger.people

    @property
    def steps(self) -> int:
        """Number of steps recorded, repetitions included."""
        return self._ledger.steps

    @in_turn
    def step(self, values: Update, *, count: int = 1) -> None:
        """Record a step.

        Of a sampled mechanism everybody takes part in every step, drawn or not: what sampling gains
        is lost where only those who were drawn are charged.

        Args:
            values: the parameter of the step for each person: an array of shape (people,), or
                (indices, values), or (mask, values), when only some are touched. inf for a noise
                parameter (0 for one that grows with the privacy loss) means not touched.
            count: how often the step is repeated.

        Raises:
            DeclarationError: a value outside the span on the side of more privacy loss, negative
                or nan, a wrong shape, an index out of range or given twice. Nothing has been
                recorded then.
        """
        recorded = self._ledger.add(self.family.parameter, values, count)
        self._journal.add(*recorded, int(count))

    @in_turn
    def take_back(self, values: ArrayLike, people: ArrayLike) -> None:
        """Undo the last step for some people, before anything of it has been released.

        Args:
            values: what the last call of `step` was given, shape (people,), count being 1.
            people: indices of those for whom the step did not happen.

        Raises:
            DeclarationError: not that, as far as journal and totals tell. Nothing has been undone
                then.
        """
        rows, family = in_range("people", people, self.people), self.family
        given = dense(family.parameter, values, self.people, family.untouched == 0.0)
        self._journal.follow(self._ledger.steps)
        self._journal.require_last(rows, given[rows])
        self._ledger.take_back(rows, given[rows])
        self._journal.take_back(rows)

    @in_turn
    def epsilon(
        self, delta: float, *, method: str = "contour", rows: ArrayLike | None = None,
        rtol: float | None = None, progress: Callable[[int, int], object] | bool = False,
    ) -> Bound:  # fmt: skip
        """Return each person's epsilon at delta, the larger of both directions.

        Args:
            delta: in [1e-250, 1).
            method: "contour", "renyi" (upper bounds by Renyi divergences), or "plancherel" (the
                paper's FFT evaluation of the counts; an estimate).
            rows: indices of the people asked for, or a mask; everybody by default.
            rtol: relative width to aim for; that of the accountant by default.
            progress: True for a bar; or what is called with how many people one direction has
                been answered for, and of how many, whenever a group of them is done.

        Returns:
            Arrays of bounds; `detail["relative_width"]` says how wide, and `detail["sharp"]` who is
            within rtol.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: no such method.
        """
        query = Query(log_target(delta), math.nan, self.rtol if rtol is None else as_rtol(rtol))
        return self._answer(query, method, rows, progress, Quantity.EPSILON)

    @in_turn
    def delta(
        self, epsilon: float, *, method: str = "contour", rows: ArrayLike | None = None,
        rtol: float | None = None, progress: Callable[[int, int], object] | bool = False,
    ) -> Bound:  # fmt: skip
        """Return each person's delta at epsilon, the larger of both directions.

        Args:
            epsilon: finite, >= 0.
            method: as for `epsilon`.
            rows: as for `epsilon`.
            rtol: as for `epsilon`.
            progress: as for `epsilon`.

        Returns:
            As for `epsilon`.

        Raises:
            DeclarationError: an argument is not acceptable.
            UnsupportedError: no such method.
        """
        if not 0.0 <= (epsilon := number("epsilon", epsilon)) < math.inf:
            raise DeclarationError(f"epsilon={epsilon!r} (expected a finite number >= 0)")
        query = Query(math.nan, epsilon, self.rtol if rtol is None else as_rtol(rtol))
        return self._answer(query, method, rows, progress, Quantity.DELTA)

    @in_turn
    def cost(self, rows: ArrayLike | None = None) -> Cost:
        """Estimate what the next question costs, before it is asked.

        A few members of the family and a product are timed, in a tenth of a second to two; but for
        what finds people who are alike nothing is compiled for it. What is not compiled yet on a
        machine takes up to 30 seconds more, once.

        Args:
            rows: indices of the people it is for; everybody by default.

        Returns:
            Seconds of processor time and bytes.
        """
        who = self._asked_for(rows)
        people, some = who.size, who[:: -(-who.size // LOOKED_AT)]
        same = np.bincount(self._ledger.distinct(some)[1])
        # who is like nobody in a sample stands for others like that outside of it
        different = same.size + int((same == 1).sum() * (people / some.size - 1.0))
        known = any(e.grid == self.grid and e.asked for e in self.family.made.values())
        allowed = self._most if self._exact or not self.grid.splines else 0
        tables = not self._without_tables(different)
        few = self._ledger.counts(some[:: -(-some.size // TYPICAL)])
        steps = len(self._journal) if self._journal.complete else float((few > 0.0).sum(1).mean())
        alone, size = allowed if tables else different, self._ledger.nbytes
        about = (people, different, size, alone, steps, few, known, tables)
        return estimate(self.family, self.grid, *about)

    @in_turn
    def save(self, path: PathLike) -> None:
        """Write the ledger atomically, and the journal with it as long as it is complete.

        Args:
            path: the file to create or replace.
        """
        self._ledger.save(path, _KIND, self._identity(), self._journal.arrays())

    @in_turn
    def restore(self, path: PathLike) -> None:
        """Continue from a saved ledger of the same population, family and grid.

        Args:
            path: a file written by `save`.

        Raises:
            StateError: damaged, of another version, or of another accountant; the ledger is
                unchanged then.
        """
        self._journal.read(self._ledger.restore(path, _KIND, self._identity()))

    def _identity(self) -> dict[str, Any]:
        about = {"family": self.family.identity, "parameter": self.family.parameter}
        grid = {**asdict(self.grid), "buckets": int(self.grid.buckets)}
        return {**about, **grid, "listed": list(self.grid.listed) or None}

    def _answer(
        self, query: Query, method: str, rows: ArrayLike | None,
        progress: Callable[[int, int], object] | bool, quantity: Quantity,
    ) -> Bound:  # fmt: skip
        check_one_of("method", method, METHODS)
        if not (isinstance(progress, bool) or callable(progress)):
            raise DeclarationError(f"progress={progress!r} (expected True, False or a function)")
        who = self._asked_for(rows)
        self._journal.follow(self._ledger.steps)
        if method == "contour":
            told = None if isinstance(progress, bool) else progress
            with bar("people", who.size, progress is True) as tell:
                shown = told or (lambda done, of: tell(completed=done, total=of))
                found = self._by_contours(replace(query, tell=shown), who)
        else:
            found = (self._renyi if method == "renyi" else self._plancherel)(query, who)
        return replace(found.stands_for(self.family.claim, quantity), at=("row", who))

    def _plancherel(self, query: Query, rows: Integers) -> Bound:
        """The paper's evaluation of the counts."""
        knots, directions = self.grid.knots.tolist(), self.family.directions
        losses = {d: self.family.losses(knots, d) for d in directions}
        log_small = math.log(BEYOND) + (query.log_delta if query.inverse else -30.0)
        farthest = self._renyi(Query(log_small, math.nan, query.rtol), rows).upper
        length = 1.2 * float(np.clip(np.max(farthest), 1.0, FARTHEST_LOSS))
        estimate = singly.plancherel(self._ledger.counts(rows), losses, query, length)
        nan, detail = np.full(rows.size, np.nan), {"directions": directions}
        return Bound(nan, estimate, nan.copy(), "plancherel", "estimate", detail)

    def _by_contours(self, query: Query, who: Integers) -> Bound:
        some, place = self._ledger.distinct(who)
        found, composed, buckets = _nothing(who.size), 0, 0
        if self._without_tables(some.size) and self._journal.agree(who, some[place]):
            alone, composed = self._compose(query, some, np.arange(some.size))
            found = alone[:, place]
        if not (found[2] < _ANY).all():
            try:
                sides, buckets = self._coarse(query, some, place), self.grid.buckets
            except UnorderedError:  # without an order people have their own steps alone
                if composed or not self._alone(who):
                    raise
                found, composed = self._compose(query, who, np.arange(who.size))
                return self._bound(found, query, {"buckets": buckets, "meshed": composed})
            best = [np.where(np.isnan(a.estimate), a.upper, a.estimate) for a in sides.values()]
            lower, upper = _hull(sides)
            found = _narrowed(found, np.stack([lower, np.maximum.reduce(best), upper]))
            lost = np.maximum.reduce([a.numeric for a in sides.values()]) > UNRESOLVED
            if not composed:
                alone, composed = self._compose(query, who, self._wide(query, found, lost))
                found = _narrowed(found, alone)
        return self._bound(found, query, {"buckets": buckets, "meshed": composed})

    def _coarse(self, query: Query, rows: Integers, place: Integers) -> dict[str, Answers]:
        """Answer from the ledger, for everybody the direction with the larger Chernoff bound first.

        The other one needs no contour where its bound is below what the first has proven. Of people
        with the same row of the ledger, one is among `rows`, at the same `place`.
        """
        asked = Asked(self._ledger, replace(query, few=rare(rows.size)), rows)
        one, *others = self.family.directions  # most often the larger one
        found, laid, tilts = self._evaluator(one).first(asked)
        sides = {one: found, **self._chernoff(asked, others, STRIDE)}
        bounds = np.stack([a.upper for a in sides.values()])
        done = np.zeros(bounds.shape, np.bool_)
        for likely in (bounds == bounds.max(axis=0), np.ones(bounds.shape, np.bool_)):
            for i, (d, answers) in enumerate(sides.items()):
                who = np.flatnonzero(likely[i] & ~done[i] & (bounds[i] > _hull(sides)[0]))
                done[i, who] = True
                if not who.size:
                    continue
                how = self._evaluator(d).first(asked.some(who))[1:] if d != one else None
                found = self._evaluator(d).run(answers.at(who), *(how or (laid.some(who), tilts)))
                capped = np.flatnonzero(self._ledger.on_one_side(rows[who]))
                if capped.size:
                    better = asked.some(who[capped])._replace(better=True)
                    least = self._evaluator(d).run(*self._evaluator(d).first(better))
                    found.estimate[capped] = (found.estimate[capped] + least.estimate) / 2
                    found.lower[capped] = least.lower
                answers.meet(who, found)
        return {d: answers.at(place) for d, answers in sides.items()}

    def _without_tables(self, people: int) -> bool:
        """Whether people one by one take less than the members of tables for them would."""
        steps = people * self._different
        return self._exact and steps <= min(self._meshed, ALONE * expected(self.grid))

    @property
    def _most(self) -> int:
        """How many people are composed one by one at most."""
        return max(self._meshed // max(self._different, 32), min(8, self._meshed))

    @property
    def _exact(self) -> bool:
        """Whether the steps are known as they were."""
        return self._journal.complete or bool(self.grid.listed)

    @property
    def _different(self) -> int:
        """Different steps that a person may have."""
        return len(self._journal) if self._journal.complete else self.grid.buckets + 1

    def _alone(self, who: Integers) -> bool:
        """Whether people are few enough to be composed one by one, each step as it was."""
        beyond = bool(self._ledger.on_one_side(who).any())
        return self._exact and who.size <= self._most and not beyond

    def _wide(self, query: Query, found: Floats, open_: NDArray[np.bool_]) -> Integers:
        """Return who may be composed one by one: not sharp, and no better by tables."""
        # `open_` says for whom more nodes or buckets were no help
        exact, width = self._exact, _relative(found[2] - found[0], found[2], query)
        if self.grid.splines and not exact:
            return np.empty(0, np.int64)
        # without the steps as they were, what the buckets cost remains
        wide = width > query.rtol if exact else open_ & (width > max(_COARSE, query.rtol))
        who = np.flatnonzero(wide)
        if who.size <= rare(wide.size):
            return who[:0]
        who = who[np.argsort(-width[who], kind="stable")]
        if who.size > self._most and not self._without_tables(who.size):
            who = who[width[who] > _COARSE][: self._most]  # who have no answer to speak of
        return who

    def _compose(self, query: Query, rows: Integers, who: Integers) -> tuple[Floats, int]:
        """Compose the steps of some of the people one by one; return of how many as well."""
        found, left, done = _nothing(rows.size), singly.WORK, 0
        for person, sides in zip(who.tolist(), self._steps(rows[who]), strict=True):
            answers = []
            for steps in sides if sides[1] != sides[0] else sides[:1]:
                answer, spent = singly.answer(self.family, steps, query)
                answers.append(answer)
                left -= spent
            middle = (answers[0][1] + answers[-1][1]) / 2.0
            found[:, person] = answers[-1][0], middle, min(answers[0][2], _ANY)
            done += 1
            if left <= 0.0:
                break
        return found, done

    def _steps(self, rows: Integers) -> Iterator[tuple[singly.Counts, singly.Counts]]:
        """Yield the steps of some people, for an upper and for a lower bound."""
        if self._journal.complete:
            values, counts = self._journal.gather(rows)
            for own in values.T:
                yield singly.of_steps(self.grid, own, counts, self.family.untouched)
        else:
            for own in self._ledger.totals[rows]:
                yield singly.of_buckets(self.grid, own)

    def _evaluator(self, direction: str) -> Evaluator:
        key, made = (self.grid, direction, self._tables), self.family.made
        if key not in made:
            made.setdefault(key, Evaluator(self.family, self.grid, direction, self._tables))
        found: Evaluator = made[key]
        return found

    def _chernoff(
        self, asked: Asked, directions: Sequence[str], apart: int = 1
    ) -> dict[str, Answers]:
        """Chernoff's bounds in some directions, by tilts so far apart."""
        return {d: self._evaluator(d).first(asked, apart=apart)[0] for d in directions}

    def _renyi(self, query: Query, rows: Integers) -> Bound:
        """Upper bounds (C.3) from the divergences alone."""
        asked = Asked(self._ledger, query, rows)
        sides = self._chernoff(asked, self.family.directions)
        upper = np.maximum.reduce([answers.upper for answers in sides.values()])
        nan = np.full(upper.shape, np.nan)
        detail = {"directions": self.family.directions, "order": self.family.checked}
        return Bound(nan, upper, upper, "renyi", "upper bound only", detail)

    def _bound(self, found: Floats, query: Query, how: dict[str, Any]) -> Bound:
        lower, estimate, upper = found
        width = _relative(upper - lower, upper, query)
        detail = {
            "directions": self.family.directions,
            "order": self.family.checked,
            "relative_width": width,
            "within_rtol": bool((width <= query.rtol).all()),
            "sharp": width <= query.rtol,
            **how,
        }
        estimate = np.clip(np.where(np.isnan(estimate), upper, estimate), lower, upper)
        status = "proven"
        if how["meshed"]:
            status += "; some people composed one by one"
        if wide := int((width > query.rtol).sum()):
            status += f"; wider than rtol for {wide} of {width.size} (relative_width)"
        return Bound(lower, estimate, upper, "contour", status, detail)

    def _asked_for(self, rows: ArrayLike | None) -> Integers:
        """Return the people asked for, at least one."""
        who = np.arange(self.people) if rows is None else in_range("rows", rows, self.people)
        if not who.size:
            raise DeclarationError("rows is empty (expected indices of people)")
        return who


def _spanned(mechanism: Any, span: Any, settings: Floats | None) -> Any:
    """Return the span of the parameter, as it was given or as it follows from the rest."""
    if span is not None:
        return span
    if isinstance(mechanism, Family):
        return mechanism.span
    if settings is None:
        raise DeclarationError("span=None (expected two numbers, or settings=)")
    if not settings.size or not ((settings > 0.0) & (settings < math.inf)).all():
        raise DeclarationError("settings: expected finite numbers > 0")
    low, high = float(settings.min()), float(settings.max())
    return low if low < high else NEAR * low, high  # one tells which side is the private one


def _nothing(people: int) -> Floats:
    """Lower bound, estimate and upper bound of people of whom nothing is known."""
    return np.stack([np.full(people, value) for value in (0.0, np.nan, _ANY)])


def _narrowed(found: Floats, other: Floats) -> Floats:
    """Return the narrower bounds of each as they are: whole answers of one accountant."""
    return np.where(other[2] - other[0] < found[2] - found[0], other, found)


def _hull(sides: dict[str, Answers]) -> tuple[Floats, Floats]:
    """Bounds on the larger of the directions."""
    lower = np.maximum.reduce([a.lower for a in sides.values()])
    return lower, np.maximum.reduce([a.upper for a in sides.values()])


def _relative(gap: Floats, upper: Floats, query: Query) -> Floats:
    """Gaps relative to the upper bound; below 1e-9 of epsilon = 1 there is none."""
    floor = 1e-9 if query.inverse else 1e-300
    return np.asarray(np.where(gap > floor, gap / np.clip(upper, 1e-300, _ANY), 0.0))


@public
@dataclass(frozen=True)
class Group:
    """What a group of people has lost.

    Quantiles are functions of the data of the people in the group, not noisy answers about them:
    they are for those who may see the data, and must not be published.

    Attributes:
        label: what the members have in common, None for everybody.
        people: how many they are.
        at: the quantiles asked for.
        lower, upper: bounds on them.
    """

    label: Any
    people: int
    at: tuple[float, ...]
    lower: Floats
    upper: Floats


@public
def summary(
    bound: Bound, labels: ArrayLike | None = None, at: float | Sequence[float] = QUANTILES
) -> tuple[Group, ...]:
    """Return quantiles of individual bounds, of everybody or of every label.

    The k-th smallest of lower and of upper bounds enclose the k-th smallest value, so that
    quantiles are taken of both; they are data dependent, see `Group`.

    Args:
        bound: an answer of `IndividualAccountant`, with one value a person.
        labels: what the group of each person is called, shape (people,); one group without it.
        at: quantiles in [0, 1]; the value at rank ceil(q people) is taken, without interpolation.

    Raises:
        DeclarationError: shapes do not fit, or a quantile is outside [0, 1].
    """
    if not isinstance(bound, Bound):
        raise DeclarationError(f"bound={bound!r} (expected an answer of an IndividualAccountant)")
    lower, upper = np.atleast_1d(bound.lower), np.atleast_1d(bound.upper)
    wanted = np.atleast_1d(as_array("at", at))
    if wanted.ndim != 1 or not ((wanted >= 0.0) & (wanted <= 1.0)).all():
        raise DeclarationError(f"at={at!r} (expected numbers from 0 to 1)")
    if labels is None:
        return (_group(None, lower, upper, wanted),)
    given = np.asarray(labels)
    if given.shape != upper.shape:
        raise DeclarationError(f"labels has shape {given.shape} (expected {upper.shape})")
    try:
        names, place = np.unique(given, return_inverse=True)
    except TypeError as error:
        raise DeclarationError(f"labels cannot be told apart: {error}") from error
    parts = (np.flatnonzero(place == i) for i in range(names.size))
    groups = zip(names.tolist(), parts, strict=True)
    return tuple(_group(name, lower[part], upper[part], wanted) for name, part in groups)


def _group(label: Any, lower: NDArray[Any], upper: NDArray[Any], at: Floats) -> Group:
    rank = np.clip(np.ceil(at * upper.size).astype(np.int64) - 1, 0, upper.size - 1)
    return Group(label, upper.size, tuple(at.tolist()), np.sort(lower)[rank], np.sort(upper)[rank])
