"""Integers of the branches of a law, listed as far as they matter at the tilts asked for.

A list begins at the finite end of its branch, or at 0, and grows fourfold until what is past it is
nothing beside the whole at every tilt. A heavy tail on which the loss has all but reached its limit
is kept as one atom instead.

What is past a list is not looked for but bounded. On a box of integers where a log mass falls by d
or more from one to the next, they have no more than its first one over 1 - exp(-d); on others as
many times the largest; short boxes are added up. Values and slopes on boxes are those of
`enclosure`. A box with more than anything that was seen is halved, so that a mode is found wherever
it is, and becomes a list of its own where it counts. Tilted laws are bounded with the loss, whose
formula is not a difference of two large numbers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechc import protocol
from mechc.errors import NumericError
from mechc.loss.atoms import SUMMANDS, spent, where_apart
from mechc.loss.enclosure import Enclosure, on_boxes
from mechc.loss.moments import log_total
from mechc.loss.quadrature.panels import OUTERMOST, climbed
from mechc.loss.quadrature.resolution import LOG_NEGLIGIBLE
from mechc.loss.quadrature.rule import NODES, ORDER, WEIGHTS, log_densities
from mechc.loss.running_error import FAILING, log_mass_errors
from mechc.numeric.logs import log_add
from mechc.numeric.rounding import EPS, EXACT, MOST_LOG
from mechc.protocol import Floats, Kernel

ONE_SIDED = (protocol.P_ONLY, protocol.Q_ONLY)
MAX_LATTICE = 2**22  # integers listed of a branch: 32 MB a column
FARTHEST = 2.0**52  # of integers around which others are doubles too
# integers listed of a heavy tail, and log of the mass for which the loss of its rest is not known
HEAVY = ((2**17, math.log(1e-5)), (2**12, math.log(1e-11)))
MOST_DECADES = 690.0  # log of the largest output that a tail is added up to
OPEN_GAP = 2.0  # allowed for losses beside those that are seen far out, of no known direction
LEAST_REACH = 64.0  # integers looked at on either side
KEPT, MOST_KEPT = 2**16, 64  # integers of a list that is kept, and how many of them
FADED = -1e5  # log of a share of the mass that no list holds
MOST_FOLLOWED = 1024  # integers at which the rounding of log masses is followed
SHORT = 64.0  # integers that are added up
SLACK = 4.0  # nats over what it is sure to have that a box may have, ...
FEW = 3.0  # ... unless that is so many below the sum
OFF = 64.0 * EPS  # of a log mass, relative to it and one
MOST_BOXES = 4096
GONE = -1e250  # log of both masses on a box that no delta changes by: k steps by k masses at most
BETWEEN, LEAST_TILT = 4.0, 0.25  # from one tilt to the next, and the least
GROWING = 1.12  # of integers looked at: one gap to the next
NOISE = 8.0 * EPS  # of a log mass, which is no rise


class Lists:
    """The lists of one law, and what they have left out; not to be shared.

    Attributes:
        tails: of branches of which a tail is kept as one atom, by their ends: log masses of P and Q
            and the distance of the loss from its limit, a row a tail.
        faded: whether integers were left out, as their masses are nothing.
        estimated: whether what is past a list was looked for, and not bounded.
    """

    def __init__(self, kernel: Kernel, theta: Floats, rows: Floats, label: str) -> None:
        """Keep a kernel, its parameters, its branches and how it is called in messages."""
        self._kernel, self._theta, self._rows, self._label = kernel, theta, rows, label
        self._most = MAX_LATTICE
        self.tails: dict[tuple[float, float], Floats] = {}
        self._wholes: Wholes = {}  # what is past the first lists, written when these are made
        self.faded = self.estimated = False
        self._longer: dict[Any, tuple[Floats, tuple[Listing, ...], bool, bool]] = {}
        self._hidden = -math.inf, -math.inf  # logs of masses of P and Q in modes of kept tails

    def points(
        self, lo: float, hi: float, listings: tuple[Listing, ...] = ()
    ) -> tuple[Floats, tuple[Listing, ...]]:
        """Return all integers that matter for tilts lo..hi, and how far they reach on each branch.

        `listings` are those that were enough for fewer tilts.
        """
        asked = lo, hi, listings, self._most
        if asked in self._longer:  # every epsilon asks for the same tilts, one after another
            x, longer, faded, estimated = self._longer[asked]
            self.faded, self.estimated = self.faded or faded, self.estimated or estimated
            return x, longer
        before = self.faded, self.estimated
        self.faded = self.estimated = False
        rows = self._rows.tolist()
        first = [Listing(LEAST_REACH)] * len(rows)
        try:
            found = [
                self._range(row, lo, hi, listing.reach, first=not listings)
                for row, listing in zip(rows, listings or first, strict=True)
            ]
        finally:
            own = self.faded, self.estimated
            self.faded, self.estimated = self.faded or before[0], self.estimated or before[1]
        x, longer = np.concatenate([x for x, _ in found]), tuple(each for _, each in found)
        if listings and x.size < KEPT and len(self._longer) < MOST_KEPT:
            self._longer[asked] = x, longer, *own
        return x, longer

    def at(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Log masses and losses at integers; differences of logs where these are known better.

        Far out, where a loss is a difference of large numbers, its formula has lost its digits.
        """
        (log_p, log_q), loss = log_densities(self._kernel, self._theta, x), np.empty(x.size)
        self._kernel.loss_many(x, self._theta, loss)
        off = np.flatnonzero(where_apart(log_p, log_q, loss))[:MOST_FOLLOWED]
        if off.size:
            error = log_mass_errors(self._kernel, self._theta, x[off])
            better = off[error <= SUMMANDS * EPS * (1.0 + np.abs(log_p) + np.abs(log_q))[off]]
            loss[better] = log_p[better] - log_q[better]
        return log_p, log_q, loss

    def stops(self, listings: tuple[Listing, ...]) -> list[Stop]:
        """Where lists stop that go on."""
        found = []
        for row, (reach, past, _) in zip(self._rows.tolist(), listings, strict=True):
            lo, hi, kind, left, right, _ = row
            if not hi - lo <= MAX_LATTICE and (lo, hi) not in self.tails:
                anchor = _anchor(lo, hi)
                if kind == protocol.UNSPLIT:  # nothing is known between the list and the limit
                    left = right = math.nan
                ends = Stop(anchor - reach, left, past[0]), Stop(anchor + reach, right, past[1])
                found += [end for end in ends if lo < end.last < hi]
        return found

    def log_left_out(self, ends: list[Stop], epsilon: float, reverse: bool) -> float:
        """Log of the mass left out where losses may exceed epsilon."""
        faded = FADED + math.log(MAX_LATTICE * len(self._rows))
        rest = [faded if self.faded else -math.inf, self._hidden[reverse]]
        for x, limit, log_masses in ends:
            loss = self._kernel.loss(x, self._theta)
            highest = -np.minimum(loss, limit) if reverse else np.maximum(loss, limit)
            if not highest <= epsilon:  # nan, which Python's max would drop: not known
                rest.append(log_masses[reverse])
        return float(np.logaddexp.reduce(rest))

    def _range(
        self, row: list[float], tilt_lo: float, tilt_hi: float, reach: float, first: bool
    ) -> tuple[Floats, Listing]:
        """Integers of one branch, extended from its finite end (or 0) until the tails are spent."""
        # Whether a tail is kept as an atom is decided at `first`, when masses are added up.
        lo, hi, kind = row[:3]
        anchor = _anchor(lo, hi)
        if not abs(anchor) < FARTHEST:
            raise NumericError(f"{self._label}: integers near {anchor:g} are not told apart")
        if hi - lo <= MAX_LATTICE:
            return np.arange(lo, hi + 1), Listing(reach)
        tilts = np.array([tilt_lo, -1.0, 0.0, tilt_hi])

        def logs(x: Floats) -> tuple[Floats, Floats]:
            log_p, log_q = log_densities(self._kernel, self._theta, x)
            if kind in ONE_SIDED:  # no tilts: the mass itself counts
                log_p = log_q = log_p if kind == protocol.P_ONLY else log_q
            return log_p, log_q

        def ends(reach: float) -> tuple[float, float]:
            return max(lo, anchor - reach), min(hi, anchor + reach)

        if first:  # else a list of millions would have to show that
            size = np.append(np.exp2(np.arange(math.log2(self._most) + 1.0)), self._most + 1.0)
            x = np.unique(np.clip(anchor + np.append(-size, size), lo, hi))
            for log in logs(x):
                at = x[log.argmax()]
                if log.max() < FADED and at in x[[0, -1]] and lo < at < hi:
                    raise NumericError(f"{self._label}: a law has no mass near {anchor:g}")
        while reach <= self._most:
            x = np.arange(ends(reach)[0], ends(reach)[1] + 1)
            log_p, log_q = logs(x)
            past = None
            if not first and (lo, hi) in self.tails:
                past = Listing(reach).past
            elif spent(log_p, log_q, tilts, x[0] > lo, x[-1] < hi, math.log(reach)):
                more, past = self._past(row, tilts, x, first)
                x = np.concatenate([x, *more])
                log_p, log_q = logs(x)
            if past is not None:
                return x[self._counts(log_p, log_q, tilts)], Listing(reach, past, x.size)
            if first and x.size >= HEAVY[-1][0]:
                longest = reach * 4.0 ** math.floor(math.log(self._most / reach, 4.0))
                a, b = ends(longest)
                far_p, far_q = (
                    np.insert(far, 1, near)
                    for far, near in zip(logs(np.array([a, b])), (log_p, log_q), strict=True)
                )
                if not spent(far_p, far_q, tilts, a > lo, b < hi, math.log(longest)):
                    allowed = next(log for size, log in HEAVY if x.size >= size)
                    if self._tail_is_known(row, float(x[0]), float(x[-1]), allowed):
                        return x, Listing(reach)
            reach *= 4
        tried = self._most
        self._most = max(tried // 16, 2**16)  # searches for a tilt try many in vain
        raise NumericError(
            f"{self._label}: more than {tried} lattice points carry mass for tilts "
            f"[{tilt_lo:g}, {tilt_hi:g}]"
        )

    def _past(
        self, row: list[float], tilts: Floats, x: Floats, first: bool
    ) -> tuple[list[Floats], Past | None]:
        """Further integers that count, and logs of what P and Q have past a list besides.

        Nothing where that is no matter of less.
        """
        lo, hi, kind, *limits, _ = row
        alone = {protocol.P_ONLY: "p", protocol.Q_ONLY: "q"}.get(int(kind), "")
        if alone or kind == protocol.UNSPLIT:
            limits = [math.nan, math.nan]
        both = Laws(self._kernel, self._theta, alone or "pq", tilts_between(tilts), self._wholes)
        psi = both.at(x)
        least = np.where(np.isfinite(psi), psi, -np.inf).max(axis=1) + 2.0 * LOG_NEGLIGIBLE
        more, past = [], []
        for side, last, limit, end in zip((-1, 1), (x[0], x[-1]), (lo, hi), limits, strict=True):
            laws = both.monotone(end, side)
            found = beyond(laws, last, limit, least, self._most - x.size)
            if found is None:
                self.estimated = True
                found = searched(laws, last, limit, least, self._theta)
            if not (found.log_masses <= least).all():
                return [], None
            for a, b in found.islands:
                more.append(np.arange(a, b + 1.0))
                if not first and where_apart(*self.at(more[-1])).any():
                    raise NumericError(f"{self._label}: integers near {a:g} carry mass, and losses "
                                       "have lost their digits there")  # fmt: skip
            p, q = (float(found.log_masses[laws.tilts == t].max()) for t in (0.0, -1.0))
            past.append((p if alone != "q" else -math.inf, q if alone != "p" else -math.inf))
        return more, (past[0], past[1])

    def _counts(self, log_p: Floats, log_q: Floats, tilts: Floats) -> NDArray[np.bool_]:
        """Which integers have masses worth a list, at any of the tilts.

        Others, as on the steep side of exp(-exp(-x)), have losses whose rounding is beyond measure.
        """
        with np.errstate(invalid="ignore"):
            tilted = log_p + tilts[:, None] * (log_p - log_q)
        most = np.where(np.isnan(tilted), -np.inf, tilted).max(axis=1, keepdims=True)
        faded = (tilted < most + FADED).all(axis=0) & np.isfinite(most).all()
        self.faded |= bool(faded.any())
        return np.asarray(~faded)

    def _tail_is_known(self, row: list[float], first: float, last: float, allowed: float) -> bool:
        """Keep the masses beyond a list on which the loss has all but reached its limits."""
        # The loss is monotone out there, so it is within d = abs(L(end) - limit) of the log of the
        # ratio of the masses m_p, m_q beyond the end. One atom with that loss stands for the tail:
        # with q exp(loss) in place of p no delta changes by more than m_p (exp(d) - 1), whatever
        # follows; that is counted as mass at infinite loss. Where nothing is known of the loss it
        # is all of m_p, which has to be small for that.
        # A loss whose direction is open is looked at wherever the masses are.
        lo, hi, kind, *limits, _ = row
        is_open = kind == protocol.UNSPLIT
        if kind not in (protocol.INCREASING, protocol.DECREASING, protocol.PLATEAU) and not is_open:
            return False
        found, hidden = [], list[Floats]()
        for end, outer, limit, side in ((first, lo, limits[0], -1.0), (last, hi, limits[1], 1.0)):
            if end == outer:
                continue
            gap = abs(float(self._kernel.loss(end, self._theta)) - limit)
            x, log_size = _beyond(end, outer)
            logs = log_densities(self._kernel, self._theta, x)
            known = int(np.append(~(logs < np.inf).all(axis=0), True).argmax())
            terms = (logs + log_size)[:, :known]
            masses = [log_total(row) for row in terms]
            if known < x.size or math.isinf(outer):  # there may be more further out
                farthest = [log_total(row[-ORDER:]) for row in terms]
                faded = np.all(farthest <= np.array(masses) + math.log(EPS))
                if known < ORDER or not faded:
                    return False
            # what sums are off their integrals, by slopes: the one here, and a smaller one outside
            beside = log_densities(self._kernel, self._theta, end + side * np.arange(2.0))
            for m, log in zip(masses, beside, strict=True):
                if m > -math.inf:
                    gap += float(np.ptp(np.exp(np.minimum(log - m, MOST_LOG)))) / 12.0
            if is_open:
                there = np.isfinite(logs).all(axis=0)
                losses_there = logs[0, there] - logs[1, there]
                gap = OPEN_GAP * float(np.abs(losses_there - limit).max(initial=gap))
                self.estimated |= gap < 1.0
            if not gap < 1.0:  # nothing is known of it, so that longer lists say more
                gap = math.log(2.0)
                allowed = HEAVY[-1][1] if 4.0 * (last - first) < self._most else allowed
            if not max(masses) + math.log(math.expm1(gap) + EPS) < allowed:
                return False
            found.append((*masses, gap))
            laws = Laws(self._kernel, self._theta, "pq", np.array([0.0, -1.0]))
            rest = beyond(laws, end, outer, np.full(2, np.inf))
            self.estimated |= rest is None
            hidden += [rest.risen] if rest is not None else []
        for p, q in hidden:
            self._hidden = log_add(self._hidden[0], float(p)), log_add(self._hidden[1], float(q))
        self.tails[lo, hi] = np.array(found)
        return True


def _beyond(end: float, outer: float) -> tuple[Floats, Floats]:
    """Places, and log weights of what has them instead of the integers past one, up to another."""
    # The sum over n > N of a function of the order of a power is its integral from N + 1/2 on, up
    # to 1/24 of the slopes at its ends; that is taken over log(n - N), wherever the origin is.
    start, stop = math.log(0.5), min(MOST_DECADES, math.log(abs(outer - end) + 0.5))
    panels = math.ceil(stop - start)
    width = (stop - start) / panels
    t = start + width * (np.arange(panels)[:, None] + 0.5 * (1.0 + NODES))
    log_size = t.ravel() + np.log(np.tile(0.5 * width * WEIGHTS, panels))
    return end + math.copysign(1.0, outer - end) * np.exp(t.ravel()), log_size


def _anchor(lo: float, hi: float) -> float:
    """The integer from which a branch is listed: its finite end, or 0."""
    return lo if math.isfinite(lo) else hi if math.isfinite(hi) else 0.0


class Unlisted(NamedTuple):
    """Logs of what each tilted law has at most past a list, and of that from a rise on."""

    log_masses: Floats
    risen: Floats
    islands: list[tuple[float, float]]  # first and last integers, which are not counted in both


Past = tuple[tuple[float, float], tuple[float, float]]
"""Logs of masses of P and Q past the lower and past the upper end of a list."""
Wholes = dict[tuple[float, float], tuple[Enclosure, ...]]
NOTHING = (-math.inf, -math.inf), (-math.inf, -math.inf)


class Listing(NamedTuple):
    """How far integers of a branch are listed, what P and Q have past that, and how many are."""

    reach: float
    past: Past = NOTHING
    size: int = 0


class Stop(NamedTuple):
    """Where a list stops, and goes on.

    The last integer, the limit of a monotone loss further out, else nan, and logs of what P and Q
    have there.
    """

    last: float
    limit: float
    log_masses: tuple[float, float]


class Laws:
    """Log masses of a kernel at some tilts, on integers and on boxes."""

    def __init__(
        self, kernel: Kernel, theta: Floats, laws: str, tilts: Floats, wholes: Wholes | None = None
    ) -> None:
        """Keep them; of `laws`, "p" or "q", there are no tilts. `wholes` are written to."""
        self.kernel, self.theta, self.laws, self.tilts = kernel, theta, laws, tilts
        self.wholes: Wholes = {} if wholes is None else wholes
        self.limit, self.side = math.nan, 0  # of a monotone loss

    def monotone(self, limit: float, side: int) -> Laws:
        """The same where the loss moves one way to a limit below, -1, or above, 1; nan: unknown."""
        found = Laws(self.kernel, self.theta, self.laws, self.tilts, self.wholes)
        found.limit, found.side = limit, side
        return found

    @np.errstate(all="ignore")  # fresh: another may be at work
    def at(self, x: Floats) -> Floats:
        """Upper bounds at integers, shape (tilts, n)."""
        logs = log_densities(self.kernel, self.theta, x, self.laws)
        if len(logs) == 1:
            logs = np.broadcast_to(logs, (self.tilts.size, x.size))
        else:
            logs = _mixed(self.tilts, logs[0], logs[1], logs[0] - logs[1])
        found: Floats = logs + OFF * (1.0 + np.abs(np.where(logs > -np.inf, logs, 0.0)))
        found[np.isnan(found)] = np.inf
        return found

    def on(
        self, a: Floats, b: Floats, whole: tuple[float, float] | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """Largest values, and ends of slopes on boxes, each of shape (tilts, n).

        With `whole`, a name, on one box with all that is past the first list of that name.

        Raises:
            One of `FAILING`: they cannot be told.
        """
        found = self.wholes.get(whole) if whole else None
        if found is None:
            found = self._run(a, b)
            if whole:
                self.wholes[whole] = found
        if len(found) == 1:
            rows = found[0].hi, found[0].least, found[0].most
            hi, least, most = (np.broadcast_to(row, (self.tilts.size, a.size)) for row in rows)
            return hi, least, most
        (p, q, loss), t = found, self.tilts[:, None]
        if not math.isnan(self.limit):
            loss = self._between(loss, a, b)
        ways = [
            _sum(p, 1.0, loss, t), _sum(q, 1.0, loss, 1.0 + t), _sum(p, 1.0 + t, q, -t)
        ]  # fmt: skip
        tops, lowest, highest = zip(*ways, strict=True)
        top = np.fmin.reduce(tops)
        # next to the largest doubles, as at integers where both logs overflow: the loss may as well
        top[:, (p.hi < GONE) & (q.hi < GONE)] = -np.inf
        return top, np.fmax.reduce(lowest), np.fmin.reduce(highest)

    def _between(self, loss: Enclosure, a: Floats, b: Floats) -> Enclosure:
        """A monotone loss, whose values are between those at the ends of a box."""
        x = np.concatenate([a, b] if self.side > 0 else [b, a])
        at, logs = np.empty(x.size), log_densities(self.kernel, self.theta, x)
        self.kernel.loss_many(x, self.theta, at)
        off = OFF * (1.0 + np.abs(logs).sum(axis=0))
        (near, far), (off_near, off_far) = at.reshape(2, -1), off.reshape(2, -1)
        some, known = np.isfinite(near + off_near), np.isfinite(far + off_far)
        far, off_far = np.where(known, far, self.limit), np.where(known, off_far, 0.0)
        low, high = (
            np.minimum(near - off_near, far - off_far),
            np.maximum(near + off_near, far + off_far),
        )
        lo = np.where(some, np.maximum(loss.lo, low), loss.lo)
        hi = np.where(some, np.minimum(loss.hi, high), loss.hi)
        return Enclosure(lo, hi, loss.least, loss.most, 0.0)

    def _run(self, a: Floats, b: Floats) -> tuple[Enclosure, ...]:
        """Both log masses and the loss, or the one."""
        of = {"p": self.kernel.log_p, "q": self.kernel.log_q}
        found = [on_boxes(of[law], self.theta, a, b) for law in self.laws]
        if len(found) == 2:
            try:
                found.append(on_boxes(self.kernel.loss, self.theta, a, b))
            except FAILING:
                found.append(found[0] - found[1])
        return tuple(found)


def _sum(one: Enclosure, u: Any, other: Enclosure, v: Any) -> tuple[Floats, Floats, Floats]:
    """Largest values and ends of slopes of a sum with weights; nan where nothing is known."""
    found = []
    for low, high in (("lo", "hi"), ("least", "most")):
        ends = []
        for weight, function in ((u, one), (v, other)):
            at = [np.where(weight == 0.0, 0.0, weight * getattr(function, w)) for w in (low, high)]
            ends.append((np.minimum(*at), np.maximum(*at)))
        for (a, b), side in zip(zip(*ends, strict=True), (-1.0, 1.0), strict=True):
            found.append(a + b + side * OFF * np.maximum(np.abs(a), np.abs(b)))
    return found[1], found[2], found[3]


def tilts_between(tilts: Floats) -> Floats:
    """Tilts, and more between them: what is nothing at two of them may be something there."""
    low, high = float(tilts[0]), float(tilts[-1])
    shares = 1.0 / BETWEEN ** np.arange(1.0, 4.0)
    more = np.concatenate([-1.0 + (low + 1.0) * shares, high * shares])
    return np.unique(np.concatenate([tilts, more[np.abs(more + 0.5) > 0.5 + LEAST_TILT]]))


def _mixed(tilts: Floats, log_p: Floats, log_q: Floats, loss: Floats) -> Floats:
    """Log masses at tilts; nothing where no law has any."""
    rows = [log_q if t == -1.0 else log_p if t == 0.0 else log_p + t * loss for t in tilts.tolist()]
    logs = np.array(rows)
    logs[:, (log_p == -np.inf) & (log_q == -np.inf)] = -np.inf
    return logs


def searched(laws: Laws, last: float, limit: float, least: Floats, places: Floats) -> Unlisted:
    """What is found past a list where nothing is proven, arguments as of `beyond`: no bound.

    Modes show by flanks at integers in geometric distance from both ends, and from `places` and
    their negatives; no further ones are looked for where one has more than `least`.
    """
    side, gap = math.copysign(1.0, limit - last), min(abs(limit - last), EXACT)
    steps = np.floor(GROWING ** np.arange(math.log(max(gap, 1.0), GROWING)))
    x = [np.append(last, last + side * steps)]
    if math.isfinite(limit):
        x.append(np.append(limit, limit - side * steps))
    places = np.append(places, -places)
    inner = (min(last, limit) < places) & (places < max(last, limit))
    around = np.concatenate([-steps, [0.0], steps])
    x += [np.round(place) + around for place in places[inner]]
    at: Floats = np.unique(np.concatenate(x))[:: int(side)]
    at = at[(side * (at - last) >= 0.0) & (side * (limit - at) >= 0.0)]
    with np.errstate(all="ignore"):
        gaps, found = np.log(np.abs(np.diff(at))), []
        for i, log in enumerate(laws.at(at)):

            def row(x: Floats, i: int = i) -> Floats:
                return np.asarray(laws.at(x)[i])

            rises = ~(log[1:] - log[:-1] <= NOISE * np.abs(np.maximum(log[:-1], -1e300)))
            rises[log[1:] == log[:-1]] = False
            most = np.maximum(log[1:], log[:-1])
            for k in np.flatnonzero(rises & np.append(~rises[1:], True)).tolist():
                ends = float(at[k]), float(at[min(k + 2, at.size - 1)])
                room, top = math.log(abs(ends[1] - ends[0])), float(log[k + 1])
                while top + room <= least[i] and abs(ends[1] - ends[0]) > 2.0:
                    inside, logs, (low, index, high) = climbed(row, *ends, whole=True)
                    top, ends = float(logs[index]), (float(inside[low]), float(inside[high]))
                if not top + room <= least[i]:
                    return Unlisted(np.full(least.size, np.inf), least, [])
                most[k : k + 2] = np.maximum(most[k : k + 2], top)
            first = int(np.append(rises, True).argmax())
            rest = log_total(most[first:] + gaps[first:])
            found.append((log_add(rest, float(log[0]) + math.log(SHORT + abs(last))), rest))
    masses, risen = np.array(found).T
    return Unlisted(masses, risen, [])


class _Boxes(NamedTuple):
    """Boxes by the distances of their ends from a list, and what is known of each."""

    near: Floats
    far: Floats
    first: Floats  # logs at the nearer end, shape (tilts, n)
    last: Floats
    least: Floats  # logs of what they are sure to have, ...
    most: Floats  # ... and of what they have at most
    falls: NDArray[np.bool_]  # whether logs do

    @classmethod
    def of(cls, *rows: Any) -> _Boxes:
        """Make them of their columns."""
        return cls(*rows)

    def taken(self, which: Any) -> _Boxes:
        """Some of them, in this order."""
        return self.of(*(row[..., which] for row in self))


def beyond(
    laws: Laws, last: float, limit: float, least: Floats, room: float = 0.0
) -> Unlisted | None:
    """Bound what integers past the last one of a list have; None where nothing is proven.

    Args:
        laws: kernel, parameters and tilts.
        last: the end of the list.
        limit: of the branch, on either side of it.
        least: logs of masses at each tilt above which integers are listed, ...
        room: ... if there are no more of them than these.
    """
    side, outermost = math.copysign(1.0, limit - last), abs(limit - last)
    if not outermost >= 1.0:
        none = np.full(laws.tilts.size, -np.inf)
        return Unlisted(none, none, [])
    if outermost > OUTERMOST[0]:
        known = laws.at(last + side * OUTERMOST).max(axis=0) < np.inf
        outermost = float(OUTERMOST[int(np.append(known[:-1], True).argmax())])

    def measured(near: Floats, far: Floats, *whole: tuple[float, float]) -> _Boxes:
        """What is known of boxes."""
        ends = last + side * near, last + side * far
        first, final = map(laws.at, ends)
        least, most = np.maximum(first, final), np.empty(first.shape)
        falls = np.empty(first.shape, np.bool_)
        short = (far - near < SHORT) & (np.abs(ends[1]) < EXACT)
        if short.any():
            sizes = (far - near)[short].astype(int) + 1
            starts = np.append(0, np.cumsum(sizes)[:-1])
            steps = np.arange(sizes.sum()) - starts.repeat(sizes)
            logs = laws.at(last + side * (near[short].repeat(sizes) + steps))
            top = np.maximum.reduceat(logs, starts, axis=1)
            unit = np.where(np.isfinite(top), top, 0.0)
            sums = np.add.reduceat(np.exp(logs - unit.repeat(sizes, axis=1)), starts, axis=1)
            least[:, short] = most[:, short] = unit + np.log(sums)
            rises = np.append(np.diff(logs) > 0.0, np.zeros((len(logs), 1), np.bool_), axis=1)
            rises[:, np.append(starts[1:], logs.shape[1]) - 1] = False
            falls[:, short] = ~np.logical_or.reduceat(rises, starts, axis=1)
        wide = ~short
        if wide.any():
            ends = np.minimum(*ends)[wide], np.maximum(*ends)[wide]
            top, lowest, highest = laws.on(*ends, *whole)
            n = (far - near + 1.0)[wide]
            fall, most_fall = (-highest, -lowest) if side > 0.0 else (lowest, highest)
            counted, sure = (
                first[:, wide] + np.log(np.minimum(n, -1.0 / np.expm1(-np.maximum(d, 0.0))))
                for d in (fall, most_fall)
            )
            steepest = np.maximum(np.abs(lowest), np.abs(highest))
            between = 0.5 * (first[:, wide] + final[:, wide] + steepest * (n - 1.0))
            top = np.fmin(top, between) + np.log(n)
            falls[:, wide] = fall >= 0.0
            sure = np.fmax(sure, final[:, wide] + np.log(n))
            least[:, wide] = np.where(fall >= 0.0, sure, least[:, wide])
            most[:, wide] = np.where(fall >= 0.0, counted, top)
        return _Boxes(near, far, first, final, least, most, falls)

    def halves(near: Floats, far: Floats) -> _Boxes:
        """Both parts of boxes, by ratios of distances as long as these are large."""
        middle = np.floor(np.where(far > 4.0 * near, np.sqrt(near) * np.sqrt(far),
                                   near + 0.5 * (far - near)))  # fmt: skip
        after = np.maximum(middle + 1.0, np.nextafter(middle, np.inf))
        return measured(np.concatenate([near, after]), np.concatenate([middle, far]))

    with np.errstate(all="ignore"):
        try:
            boxes = measured(np.ones(1), np.array([outermost]), (side, limit))
            while True:
                total = np.array([[log_total(row)] for row in boxes.least])
                known = np.maximum(boxes.least + SLACK, total - FEW)
                wide = _apart(last, side, boxes)
                more = boxes.most > least[:, None]
                above = np.minimum(boxes.first, boxes.last) > least[:, None]
                open_ = boxes.most > np.where(_counts(laws.tilts), known, least[:, None])
                split = wide & (open_ | (more & ~above)).any(axis=0)
                if not split.any() or boxes.near.size > MOST_BOXES:
                    break
                parts = halves(boxes.near[split], boxes.far[split])
                pairs = zip(boxes.taken(~split), parts, strict=True)
                boxes = _Boxes.of(*(np.concatenate(pair, axis=-1) for pair in pairs))
        except FAILING:
            return None
    return _counted(boxes, last, side, least, room)


def _counts(tilts: Floats) -> NDArray[np.bool_]:
    """Which are masses themselves, that are to be known however small they are."""
    found: NDArray[np.bool_] = ((tilts == 0.0) | (tilts == -1.0))[:, None]
    return found


def _apart(last: float, side: float, boxes: _Boxes) -> NDArray[np.bool_]:
    """Whether boxes are neither short nor without doubles between their ends."""
    near, far = last + side * boxes.near, last + side * boxes.far
    found: NDArray[np.bool_] = np.abs(far - near) >= np.maximum(SHORT, 4.0 * EPS * np.abs(far))
    return found


def _counted(boxes: _Boxes, last: float, side: float, least: Floats, room: float) -> Unlisted:
    """The sums, and boxes that have to be lists."""
    order = np.argsort(boxes.near)
    boxes = boxes.taken(order)
    wanted = (boxes.most > least[:, None]).any(axis=0)
    islands = []
    if (boxes.far - boxes.near + 1.0)[wanted].sum() <= room and last + side * boxes.far.max(
        where=wanted, initial=0.0
    ) < EXACT:
        ends = np.sort(last + side * np.stack([boxes.near, boxes.far]), axis=0)[:, wanted]
        islands = [(float(a), float(b)) for a, b in ends.T]
        boxes = boxes.taken(~wanted)
    falls = boxes.falls.copy()
    falls[:, :-1] &= boxes.first[:, 1:] <= boxes.last[:, :-1]
    risen = np.logical_or.accumulate(~falls, axis=1)
    rest = np.where(risen, boxes.most, -np.inf)
    masses, rest = (np.array([*map(log_total, rows)]) for rows in (boxes.most, rest))
    return Unlisted(masses, rest, islands)
