"""Certified delta of one epoch of random allocation, by the transform of a put (T11).

With phi(s) = prod_j E_Q[exp(-s X_j / t)]^n_j over the distinct steps j, period T > c, h = 2 pi / T,
and r = exp(-aT),

    (exp(ac) / T) sum_n phi(a + inh) e^(inhc) / (a + inh)^2 = sum_(m >= 0) r^m E_Q[(c + mT - W)_+],

of which m >= 1 lie between sum r^m (c + mT) and as much less r E W / (1 - r). Nodes beyond a
frequency y come to at most exp(ac) |phi| / (pi y), with the largest |phi| there. Far out that
follows from `decay`, in the middle from values at points and |phi'| <= E X, and near zero, with
f = phi / phi(a) of one step, from 1 - |f(2u)|^2 <= 4 (1 - |f(u)|^2), as
1 - cos 2v <= 4 (1 - cos v). Doubles choose a, T and y alone.

Where nothing lets phi fade, as steps are point masses or integers, it is that of W - U, U a small
normal variable of standard deviation v: phi(s) exp(v^2 s^2 / 2) fades. As in `puts_and_calls`,

    E f(c + U) - v^2 p_(W - U)(c) <= f(c) <= E f(c + U),     f(c) = E_Q[(c - W)_+],

the density from the same nodes, times s^2. Images m < 0 are then not zero, and at most
exp(a|m|T) v p(x / v) at x = |m|T - c, p the normal density. Few sums are added up one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import acb, arb, ctx

from mechc.errors import NumericError, UnsupportedError
from mechc.protocol import Use
from mechc.verify.balls.lattice import LatticeSum
from mechc.verify.balls.oracle import Oracle, reversed_pair
from mechc.verify.certified.contour import Law
from mechc.verify.certified.decay import decays, least
from mechc.verify.certified.discrete import merged
from mechc.verify.certified.integrand import Ratios
from mechc.verify.certified.moments import integers, moments

RTOLS = (1e-12, 1e-9, 1e-7, 1e-5, 1e-3)  # of delta, aimed at: the first that few nodes reach
TILTS = np.exp(np.arange(-4.0, 4.0, 0.1))  # real parts, over the standard deviation of W
MOST_NODES = 5000  # nodes, where phi fades
BLURRED = 200_000  # the same where W is blurred ...
PRODUCTS = 2e7, 1e8  # ... if as many with points of every X, with densities and without
FAINT = 1e-20  # mass that needs no points
SPACINGS = 0.25, 0.06  # of frequencies of phi, over what makes one step turn
EXTRA = 2.0  # nats that a bound is smaller than what is aimed at
TURN = 0.6  # points for a radian of a density
NARROWEST = 20.0  # standard deviations of U, at least, from c to T
LISTED = 20_000  # sums that are added up
ROOM = 4.0  # nats between the aim and each error
FREQUENCIES, HIGHEST = 1.1, 200  # ratio of those at which a bound is tried, and how many
FADED, BELOW, POINTS = 0.8, 32.0, 1024  # |f| from where on `decay` serves, and points before that
SMALLEST = -3000.0  # log of a delta that is aimed at; below it there is only an upper bound


class Allocated:
    """Certified delta of one epoch in one direction."""

    def __init__(self, event: Use, direction: str) -> None:
        """Bind the declarations of the steps.

        Args:
            event: the epoch; `allocated` are its distinct steps with counts.
            direction: "remove" or "add".

        Raises:
            UnsupportedError: some step has an index beside its output.
        """
        self.direction, self._event = direction, event
        self.t = sum(count for _, count in event.allocated)
        self._steps: list[Law] = []
        self._nodes = []
        for step, count in event.allocated:
            law = Law.of(step, direction, count)
            if direction == "add":  # P and Q as in the other one
                oracle = Oracle(reversed_pair(law.oracle.declaration), step.theta)
                law = Law(oracle, count)
            self._steps.append(law)
            rough = step.loss("remove").covering(-1.0, 0.0)
            loss, log_weight = rough.nodes()
            x = np.append(np.exp(np.minimum(loss, 300.0)), 0.0) / self.t
            log_q = np.append(log_weight - loss, rough.log_minus_infinite)
            self._nodes.append((x, np.exp(log_q), count))
        self._is_discrete = all(not _densities(law.oracle) for law in self._steps)
        self._faded: dict[float, list[Fading]] = {}

    def size(self, epsilon: float) -> float:
        """About log delta, in floating point."""
        known = self._event.log_delta(epsilon, direction=self.direction).estimate
        return max(float(known), SMALLEST)

    def slope(self, epsilon: float) -> float:
        """How fast log delta falls with epsilon, in floating point."""
        further = epsilon + 1e-3 * max(epsilon, 1e-3)
        return max((self.size(epsilon) - self.size(further)) / (further - epsilon), 1e-3)

    def delta(self, epsilon: float, enough: Any = None) -> tuple[Any, dict[str, Any]]:
        """Return a ball that contains the exact value at epsilon, and how it was found."""
        adding = self.direction == "add"
        size = self.size(epsilon) - (epsilon if adding else 0.0)
        for rtol in RTOLS[1:2] if self._is_discrete else RTOLS:
            wanted = size + math.log(rtol)
            a, period, last, top = self._plan(math.exp(-epsilon if adding else epsilon), wanted)
            if last * period < math.tau * MOST_NODES:
                break
        with ctx.workprec(int(60 + (top - wanted) / math.log(2.0) + 2.0 * math.log2(self.t))):
            exact = arb(epsilon)
            c = (-exact if adding else exact).exp()
            self._require_whole_q()
            detail: dict[str, Any] = {"route": "sums"}
            value = self._listed(exact, c, arb(wanted - ROOM).exp())
            if value is None:
                if self._event.drawn > 1:
                    raise UnsupportedError(
                        "certified: too many sums of an epoch with several steps selected; ask "
                        "without certified=True"
                    )
                put, detail = self._put(c, arb(a), arb(period), last, wanted, top, epsilon)
                value = exact.exp() * put if adding else self._whole() - c + put
            low = value.lower().max((1 - exact.exp()).lower()).max(arb(0))
            ball = low.union(value.upper().min(arb(1)))
            return ball, {**detail, "direction": self.direction}

    def _listed(self, epsilon: Any, c: Any, tiny: Any) -> Any:
        """Delta, sum by sum; None where these are too many."""
        if not self._is_discrete:
            return None
        drawn, kinds = self._event.drawn, list[tuple[list[Any], int]]()
        beyond, infinite, number = arb(0), arb(0), 1
        for law in self._steps:
            oracle = law.oracle
            at = _points(oracle, tiny / self.t)
            number *= math.comb(law.count + len(at) - 1, law.count)
            if number > LISTED:
                return None
            kinds.append((at, law.count))
            # under Q and P of integers that are in no list, which may have any X
            q, p = (sum((m * x**i for x, m in at), start=arb(0)) for i in (0, 1))
            rest = (oracle.mass("q") - q, oracle.mass("p") - oracle.infinite_mass() - p)
            q, p = (each.upper().max(arb(0)) for each in rest)
            share = arb(law.count) / self.t
            beyond += law.count * q + (0 if self.direction == "add" else drawn * share * p)
            infinite += share * oracle.infinite_mass()
        total = arb(0)
        for mass, (*_, product) in _sums(kinds, drawn):
            w = product / math.comb(self.t, drawn)
            total += mass * (c - w if self.direction == "add" else w - c).max(arb(0))
        if self.direction == "add":
            total *= epsilon.exp()
        else:
            total += 1 - (1 - infinite) ** drawn
        return total + arb(0).union(beyond)

    def _require_whole_q(self) -> None:
        """Refuse a Q that is proved, to the digits that delta needs, not to have mass one."""
        for law, (step, _) in zip(self._steps, self._event.allocated, strict=True):
            if not law.oracle.mass("q").contains(1):
                raise UnsupportedError(
                    f"certified: Q of {step} has not exactly mass one; ask without certified=True"
                )

    def _whole(self) -> Any:
        """E W and what is at infinity: nearly one, for weights that are doubles add up to that."""
        masses = (law.count * law.oracle.mass("p") for law in self._steps)
        return sum(masses, start=arb(0)) / self.t

    def _log_phi(self, s: Any) -> Any:
        """Log phi in floating point."""
        return sum(n * np.log(np.exp(-np.multiply.outer(s, x)) @ w) for x, w, n in self._nodes)

    def _plan(self, c: float, wanted: float) -> tuple[float, float, float, float]:
        """Real part, period, last frequency and log of exp(ac) phi(a)."""
        mean, square = (sum(n * (x**k @ w) for x, w, n in self._nodes) for k in (1, 2))
        sd = math.sqrt(square - sum(n * (x @ w) ** 2 for x, w, n in self._nodes))
        a = TILTS / max(sd, 1e-300)
        top = self._log_phi(a) + a * c
        period = np.maximum((ROOM + math.log(c + mean + 9.0 * sd) - wanted) / a, 1.01 * c)
        # as if tilted laws were normal near 0, and had jumps far out; variances by differences
        bent = (self._log_phi(1.01 * a) + self._log_phi(0.99 * a) - 2.0 * (top - a * c)) / 1e-4
        nats = np.maximum(top - wanted + ROOM, 1.0)
        far = math.sqrt(self.t) * np.expm1(np.minimum(nats / self.t, 300.0))
        y = a * np.maximum(np.sqrt(2.0 * nats), far) / np.sqrt(np.maximum(bent, 1e-300))
        if self._is_discrete:  # as U lets phi fade
            y = np.sqrt(nats)
        work = np.where(bent > 0.0, y * period, math.nan)
        if np.isnan(work).all():
            raise NumericError("certified: W is hardly ever another number than one")
        best = int(np.nanargmin(work))
        return float(a[best]), float(period[best]), float(y[best]), float(top[best])

    def _put(
        self, c: Any, a: Any, period: Any, last: float, wanted: float, top: float, epsilon: float
    ) -> tuple[Any, dict[str, Any]]:
        """E_Q[(c - W)_+], and how it was found."""
        h, front, aim = 2 * arb.pi() / period, (a * c).exp(), arb(wanted - ROOM).exp()
        faded = self._fading(a)

        v = arb(0)
        for _ in range(HIGHEST):
            count = min(math.ceil(last / float(h)), MOST_NODES)
            y = count * h
            cut = front / (arb.pi() * y)
            for fading, law in zip(faded, self._steps, strict=True):
                cut *= fading.bound(y / self.t) ** law.count
            if cut < aim or count == MOST_NODES:
                break
            last *= FREQUENCIES
        if not cut < aim:
            nats, known = max(top - wanted + ROOM, 1.0), count
            count = self._affordable(float(h))
            y, end, between = count * h, count * h, arb(0)
            if self._is_discrete and (found := self._sampled(a, nats)) and found[1] > y:
                y, end, between = found
                count = math.ceil(float(y / h))
            v = arb(math.sqrt(2.0 * nats) / float(end))
            # what U hides is about v^2 times the density of W, the second derivative
            adding = self.direction == "add"
            hidden = math.exp(self.size(epsilon) - (epsilon if adding else 0.0))
            hidden *= ((self.slope(epsilon) + adding) / float(c)) ** 2
            valid = period > c + NARROWEST * v and a * v < 1
            if not valid or cut < v**2 * hidden:
                count, v = known, arb(0)
        if v > 0:
            bent = (v**2 * (a**2 - end**2) / 2).exp() / arb.pi()
            for fading, law in zip(faded, self._steps, strict=True):
                bent *= fading.whole.upper() ** law.count
            between *= (v**2 * a**2 / 2).exp() / arb.pi()
            cut = front * (between / y + bent / end)
            beside = front * (between * end + bent / (v**2 * end))
        cut = cut.upper()
        tolerance = arb(wanted - top - ROOM).exp() / self.t
        share = Ratios(a / self.t)
        line = [acb(a, n * h) for n in range(count + 1)]
        terms = [(acb(0, n * h * c) + v**2 * s**2 / 2).exp() for n, s in enumerate(line)]
        for law, fading in zip(self._steps, faded, strict=True):
            found = moments(law.oracle, share, h / self.t, count, fading.whole, tolerance)
            terms = [term * m**law.count for term, m in zip(terms, found, strict=True)]

        def summed(terms: list[Any]) -> Any:
            whole = terms[0].real + 2 * sum((z.real for z in terms[1:]), start=arb(0))
            return front * whole / period

        r = (-a * period).exp()
        images = c * r / (1 - r) + period * r / (1 - r) ** 2
        less = (self._whole() * r / (1 - r)).upper()
        value = summed([z / s**2 for z, s in zip(terms, line, strict=True)])
        value += arb(0, cut) - images + arb(less / 2, less / 2)
        if v > 0:
            x, normal = period - c, (2 * arb.pi()).sqrt()
            first = v * (a * period - (x / v) ** 2 / 2).exp() / normal
            fall = (a * period - (2 * x + period) * period / (2 * v**2)).exp()
            # images on either side, the others as more than E (c + mT - W)
            images = first / (1 - fall) + v * r / (1 - r) * (-((period / v) ** 2) / 2).exp()
            density = summed(terms) + beside
            value -= arb(0).union((images + v**2 * density).upper())
        detail = {"contour": float(a), "period": float(period), "nodes": count + 1}
        return value, {"route": "put", **detail, "cut-off": float(cut)}

    def _sampled(self, a: Any, nats: float) -> Any:
        """Frequencies between which phi is proved to have faded by so many nats, and the bound.

        From values at points, as exp(iu) E exp(-(a + iu) X) moves by E |X - 1| exp(-aX) at most.
        None where it has not.
        """
        with ctx.workprec(64):
            share, best = Ratios(a / self.t), None
            moves = [self._move(law, share) for law in self._steps]
            sizes = [float(fading.whole.lower()) for fading in self._fading(a)]
            turns = [max(m / size, 1e-300) for m, size in zip(moves, sizes, strict=True)]
            for step in SPACINGS:
                h = step * self.t / max(turns)
                count = self._affordable(0.0)
                logs = np.zeros(count + 1)
                for law, fading, move in zip(self._steps, self._fading(a), moves, strict=True):
                    found = moments(
                        law.oracle, share, arb(h / self.t), count, fading.whole, arb(1e-9)
                    )
                    turn = 0.5 * move * h / self.t * (1.0 + 1e-9)
                    most = np.array([float(abs(value).upper()) for value in found]) + turn
                    most = np.minimum(most, float(fading.whole.upper()) * (1.0 + 1e-12))
                    logs += law.count * (np.log(most) + 1e-13)
                low = np.flatnonzero(logs <= float(self._log_phi(float(a))) - nats - EXTRA)
                if not low.size:
                    continue
                # the longest stretch of them
                runs = np.split(low, np.flatnonzero(np.diff(low) > 1) + 1)
                run = max(runs, key=lambda each: each[-1] / max(each[0], 1))
                first, last = (float(run[0]) - 0.5) * h, (float(run[-1]) + 0.5) * h
                bound = arb(float(logs[run].max()) + 1e-9).exp()
                if best is None or last > best[1]:
                    best = arb(max(first, 0.5 * h)), arb(last), bound
            return best

    def _move(self, law: Law, share: Ratios) -> float:
        """Upper bound on E_Q |X - 1| exp(-aX) of one step."""
        whole, rest = arb(0), arb(0)
        oracle = law.oracle
        for x, q in _points(oracle, arb(1e-12)):
            whole += abs(x - 1) * q * (-share.a * x).exp()
            rest += q * (1 + x)
        rest = oracle.mass("q") + oracle.mass("p") - rest  # of integers that are not listed
        return float((whole + rest.max(arb(0))).upper())

    def _affordable(self, h: float) -> int:
        """The number of nodes where W is blurred."""
        points, spread, count = sum(x.size for x, *_ in self._nodes), 0.0, BLURRED
        if not self._is_discrete:
            ranges = (float(np.ptp(x[mass > FAINT])) for x, mass, _ in self._nodes)
            spread = TURN * h * sum(ranges)
        while count * (points + count * spread) > PRODUCTS[self._is_discrete]:
            count = count * 4 // 5
        return count

    def _fading(self, a: Any) -> list[Fading]:
        """How every step's transform fades at a real part."""
        key = float(a)
        if key not in self._faded:
            with ctx.workprec(64):
                self._faded[key] = [Fading(law.oracle, a / self.t) for law in self._steps]
        return self._faded[key]


def _points(oracle: Oracle, tiny: Any) -> list[tuple[Any, Any]]:
    """X that have masses under Q, and these; what is left out of integers has about `tiny`."""
    own = Ratios(arb(0))
    rows = [row for _, p, q in oracle.atoms if (row := own.at(p, q)) is not None]
    for part in oracle.parts():
        if part.plateau is not None or not part.is_shared:
            rows += [row] if (row := own.constant(part)) is not None else []
        else:
            rows += integers(part, own, tiny)[0]
    return merged([(-phase, q) for q, phase in rows])


def _sums(kinds: Sequence[tuple[list[Any], int]], drawn: int) -> list[tuple[Any, list[Any]]]:
    """Masses, and sums of products of none to `drawn` X, of all choices of so many of each kind."""
    found = [(arb(1), [arb(1)])]
    for at, count in kinds:
        here = [(mass, products, count) for mass, products in found]
        for i, (x, q) in enumerate(at):
            last = i == len(at) - 1
            here = [
                (mass * math.comb(left, n) * q**n, _times(products, x, n, drawn), left - n)
                for mass, products, left in here
                for n in ((left,) if last else range(left + 1))
            ]
        found = [(mass, products) for mass, products, _ in here]
    return found


def _times(products: list[Any], x: Any, count: int, drawn: int) -> list[Any]:
    """The same with so many more X."""
    own = [math.comb(count, j) * x**j for j in range(min(count, drawn) + 1)]
    return [
        sum(
            (own[j] * products[m - j] for j in range(len(own)) if 0 <= m - j < len(products)),
            arb(0),
        )
        for m in range(drawn + 1)
    ]


def _densities(oracle: Oracle) -> list[Any]:
    """The parts on which X varies and has a density."""
    parts = (part for part in oracle.parts() if part.is_shared and part.plateau is None)
    return [part for part in parts if not isinstance(part, LatticeSum)]


class Fading:
    """Bounds on |E_Q exp(-(a + iu) X)| for all frequencies beyond one.

    Attributes:
        whole: E_Q exp(-aX).
    """

    def __init__(self, oracle: Oracle, a: Any) -> None:
        """Prove them from where the transform has faded."""
        integrand = Ratios(a)
        self.whole = abs(moments(oracle, integrand, arb(1), 0, arb(1), arb(1e-12))[0])
        self._rows = decays(oracle, integrand) if _densities(oracle) else []
        self._from = arb(1)
        while self._rows and self._far(self._from) > FADED * self.whole:
            self._from *= 2
            if self._from > 1e12:  # point masses are too large
                self._rows = []
        if not self._rows:
            return
        while self._far(self._from / 2) < FADED * self.whole:
            self._from /= 2
        self._step = self._from / POINTS
        found = moments(oracle, integrand, self._step, POINTS, self.whole, arb(1e-9))
        # |phi'| is at most E X, and a point is half a step away
        largest, turn = self._far(self._from), self._step / 2 * oracle.mass("p")
        self._largest: list[Any] = [largest]
        for value in reversed(found):
            largest = largest.max((abs(value) + turn).upper())
            self._largest.append(largest)
        self._largest.reverse()

    def _far(self, u: Any) -> Any:
        return least(self._rows, u).upper()

    def bound(self, u: Any) -> Any:
        """The largest value at any frequency from u on."""
        if not self._rows:
            return self.whole.upper()
        far = self._far(u).min(self.whole)
        if not u < self._from:
            return far
        turns = max(0, math.ceil(math.log2(float(self._from / (BELOW * u)))))
        at = max(math.floor(float(u * 2**turns / self._step)) - 1, 0)
        f = (self._largest[min(at, POINTS + 1)] / self.whole).upper().min(arb(1))
        near = self.whole * (1 - (1 - f**2) / arb(4) ** turns).sqrt()
        return near.min(far).upper()
