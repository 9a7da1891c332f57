"""What a kernel answers, against the declaration: at recorded places and at those of a search."""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import mpmath
import numpy as np

from mechc.verify.recheck.declaration import At, Pair, log_of, number, worded
from mechc.verify.recheck.integrals import DIGITS, density_of, log_sum, power
from mechc.verify.recheck.kernel import TAILS, VALUES, Kernel
from mechc.verify.recheck.search import CLOSE, FAR, FARTHEST, WIDEST, Search, Vector

SLACK = 4.0  # room for the rounding of recorded errors
MASS = 1e-9  # room for the sum of masses, of doubles
INTEGRAL = 1e-10  # relative error of what mpmath integrates here
FAR_OUT, ROUGH = 1e9, 1e-6  # where it integrates less than the rest of a heavy tail, and how well
CANCELS = 1e-14  # of the sum of absolute values, in an integral of what turns
ROUNDING = 2.0**-50  # four roundings
FLAT = 1e-33  # of the room for a loss: to 50 digits it does not move
NOTHING = 1e-40  # of two logs with 50 digits whose difference is zero
MOST_LOST = 2.0**30  # relative changes of the mass of an atom by those of parameters
SAMPLES = 160  # places besides
NEXT = (0.02, 1e-4)  # to the ends of a strip, relative to them
LARGEST = 1.7976931348623157e308  # double
VECTORS = 6  # vectors far from typical ones at which densities are integrated
OUTWARD = (16, 24)  # powers of two of parameters, at which a loss is held against its limit
ENOUGH = 3  # problems, after which no more are looked for


def compared(kernel: Kernel, pair: Pair, content: dict[str, Any]) -> list[str]:
    """What the kernel answers against the declaration: first what a query uses."""
    with np.errstate(all="ignore"), mpmath.workdps(DIGITS):
        recorded = [*_recorded(kernel, pair, content["checks"]), *_references(kernel, pair)]
        if recorded:
            return recorded
        search = Search(kernel, pair, [tuple(map(float, v)) for v in content["vectors"]])
        drawn = search.rng.sample(search.samples, min(len(search.samples), SAMPLES))
        places, compare = [*search.places, *drawn], Comparison(kernel)
        found = itertools.chain(
            *(compare.place(*place) for place in places if place[0] not in SLOW),
            compare.unweighed(),
            compare.whole(search.vectors[0]),
            *(compare.place(*place) for place in places if place[0] in SLOW),
        )
        return list(itertools.islice(found, ENOUGH))


def _recorded(kernel: Kernel, pair: Pair, checks: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Whether recorded places say what the declaration and the kernel say there."""
    for check in (check for check in checks if check["where"]):
        where, name = check["where"], check["name"]
        inverse, theta = name == "loss_inverse", [float(v) for v in where["theta"]]
        at, found = pair.at(theta), float(where["found"])
        now = (
            kernel(f"loss_inverse_{where['branch']}", float(where["loss"]), theta) if inverse
            else kernel(name, float(where["x"]), theta)
        )  # fmt: skip
        if not (abs(now - found) <= CLOSE * (1 + abs(found)) or now == found):
            yield f"{name} is {now}, and not {found} as the certificate says, at {where}"
        error, tolerance = float(check["max_error"]), float(check["tolerance"])
        if inverse:  # the loss of what was found is the one asked for
            of, x, found = "loss", found, float(where["loss"])
            middle, radius = _loss_at(kernel, at, x, int(where["branch"])), mpmath.mpf(0)
        else:
            of, x = name, float(where["x"])
            middle, radius = _ball(where["enclosure"])
        if math.isinf(found):
            if at.value(of, x) != found or "inf" not in where["enclosure"] or error:
                yield f"{name} is not {found} at the place stated"
            continue
        if not radius <= max(1e-10 * abs(middle), 1e-12):
            yield f"{name}: the enclosure {where['enclosure']} is wider than any needs"
        share = abs(found - middle)
        scale = next((s for s in (abs(middle), 0.1) if s and share <= tolerance * s), None)
        wrong = error > SLACK * share / (abs(middle) or 1) + 1e-16
        if scale is not None:  # else errors are relative to what changes of the arguments do
            wrong = not abs(error - share / scale) <= 1e-6 * error + 2 * radius / scale + 1e-18
        if math.isfinite(x) and mpmath.isfinite(truth := at.value(of, x)):
            if not abs(truth - middle) <= radius + abs(middle) * 1e-20:
                yield f"{name}: {mpmath.nstr(truth, 20)} is outside {where['enclosure']}"
            wrong = wrong or share / (at.scale(of, x) + 0.1) / SLACK > error + 1e-18
        if wrong:
            yield f"{name}: the largest error is not {error} at the place stated"


def _loss_at(kernel: Kernel, at: At, x: float, branch: int) -> Any:
    """The loss on a branch, its limit beyond."""
    rows = np.asarray(kernel("branches", [float(v) for v in at.theta])).reshape(-1, 6)
    (lo, hi, _, left, right, _), *_ = rows[rows[:, 5] == branch]  # of which there is one
    if math.isfinite(x) and lo <= x <= hi and mpmath.isfinite(found := at.value("loss", x)):
        return found
    return mpmath.mpf(float(left if x <= lo else right))


def _references(kernel: Kernel, pair: Pair) -> Iterator[str]:
    """Whether the reference values in the text are those of the declaration."""
    if not kernel["CHECKS"]:
        yield "there are no reference values"
    for theta, rows in kernel["CHECKS"]:
        at = pair.at(theta)
        for x, *stated, _, back in rows:
            for name, found in zip(VALUES, stated, strict=True):
                if found is None:
                    if mpmath.isfinite(at.value(name, x)):
                        yield f"there is no reference value of {name} at {x}, {theta}"
                    continue
                if abs(at.value(name, x) - found) > ROUNDING * abs(found) + NOTHING:
                    yield f"the reference value {found} of {name} is another, at {x}, {theta}"
            if back is not None:
                room = CLOSE * (at.scale("loss", back) + abs(stated[2]))
                if not abs(at.value("loss", back) - stated[2]) <= room:
                    yield f"the reference inverse {back} has another loss, at {theta}"


def _ball(text: str) -> tuple[Any, Any]:
    """Middle and radius of a ball as it is written in a certificate."""
    middle, _, radius = text.strip("[]").partition("+/-")
    return mpmath.mpf(middle.strip() or 0), mpmath.mpf(radius.strip() or 0)


SLOW = {*TAILS, "cgf"}
Ask = Callable[[Any, Vector], Iterator[str]]


class Comparison:
    """What a kernel answers at a place, against the declaration."""

    def __init__(self, kernel: Kernel) -> None:
        """Nothing has been integrated."""
        self.kernel = kernel
        self._integrated: set[Any] = set()
        self._weighed: set[str] = set()

    def place(self, name: str, argument: Any, vector: Vector) -> Iterator[str]:
        """One place of the search."""
        if name in SLOW and not vector.typical:
            self._integrated |= {vector.theta} if len(self._integrated) < VECTORS else set()
            if vector.theta not in self._integrated:
                return
        try:
            if name == "theta":
                yield from self._theta(vector)
            elif name in TAILS:
                yield from self._tail(name, argument, vector)
            else:
                known: dict[str, Ask] = {"cgf": self._moment, "loss_inverse": self._inverse}
                yield from known.get(name, partial(self._value, name))(argument, vector)
        except (ArithmeticError, mpmath.libmp.NoConvergence) as error:
            if vector.typical:
                yield f"{name}: {error}, at {vector.theta}"

    def _value(self, name: str, x: float, vector: Vector) -> Iterator[str]:
        """Densities and losses at one output."""
        plain, theta = name.removesuffix("_many"), vector.theta
        many = plain != name
        found = float(
            self.kernel.many(name, [x], theta)[0] if many else self.kernel(name, x, theta)
        )
        if not vector.typical and not math.isfinite(found):
            return
        if not self._fits(plain, x, vector, found):
            truth = mpmath.nstr(vector.at.value(plain, x), 17)
            yield f"{name}({x!r}) is {found!r}, not {truth}, at {vector.theta}"

    def _fits(self, name: str, x: float, vector: Vector, found: float) -> bool:
        at, enough = vector.at, vector.enough
        truth = at.value(name, x)
        if mpmath.isnan(truth):
            return True

        def is_near(value: Any) -> bool:
            gap = enough * abs(value) if mpmath.isfinite(value) else -1
            return bool(found == value or abs(found - value) <= gap)

        if is_near(truth):
            return True
        finite = mpmath.isfinite(truth) and math.isfinite(found)
        if finite and abs(found - truth) <= enough * (at.scale(name, x) + (name != "loss") / 10):
            return True
        # next to an end that is rounded
        close = [e for e in vector.ends if abs(e - x) <= 1e-12 * abs(x)]
        reach = 8 * max(map(math.ulp, (x, *close)))
        near = [at.value(name, mpmath.mpf(x) + s * reach) for s in (-1, 1)]
        if any(map(is_near, near)):
            return True
        if math.isinf(found) and found * truth > 0:
            if abs(truth) * (1 + enough) > LARGEST:
                return True
            with mpmath.workdps(2 * mpmath.mp.dps):  # a zero, up to the digits of pi
                return bool(abs(At(at.pair, at.theta).value(name, x)) > abs(truth) + 1)
        return bool(min(near) < found < max(near))

    def _inverse(self, at: tuple[float, int], vector: Vector) -> Iterator[str]:
        """The inverse of a loss is on its branch and has that loss."""
        kernel, theta, (level, index) = self.kernel, vector.theta, at
        single = f"loss_inverse_{index}"
        for lo, hi, _, left, right, _ in (row for row in vector.rows if row[5] == index):
            several = kernel.many("loss_inverse_many", [level], theta, index)[0]
            answers = [several, kernel(single, level, theta)] if single in kernel else []
            if not answers and not math.isnan(several):
                yield f"loss_inverse_many answers on the branch {index}, which has none"
            # there inverses may lose digits, and those who ask hold each against the loss itself
            reach = 1e-3 * min(abs(right - left), 1.0)
            critical = any(abs(level - e) <= reach for e in (0.0, left, right) if math.isfinite(e))
            for found in map(float, answers):
                if not (math.isfinite(found) or vector.typical):
                    continue
                room = 1e-9 * (abs(found) + min(abs(lo), abs(hi)))
                inside = math.isfinite(found) and lo - room <= found <= hi + room
                if inside and self._fits("loss", found, vector, level):
                    continue
                back = float(kernel("loss", found, theta))
                if not critical or abs(back - level) <= 1e-12 * (abs(level) + abs(back)):
                    yield (f"the inverse of the loss {level!r} on branch {index} is {found!r}, "
                           f"at {theta}")  # fmt: skip

    def _theta(self, vector: Vector) -> Iterator[str]:
        """What the kernel says of parameters alone."""
        kernel, theta, rows = self.kernel, vector.theta, vector.rows
        ends = sorted({float(e) for row in rows for e in row[:2]})
        if list(np.ravel(kernel("breakpoints", theta))) != ends:
            yield f"breakpoints are not the ends of branches, at {theta}"
        if any(not row[1] <= after[0] for row, after in itertools.pairwise(rows)):
            yield f"branches overlap or are out of order, at {theta}"
        for row in rows:
            yield from self.branch(row, vector)
        yield from self._gaps(vector)
        yield from self._atoms(vector)
        yield from self._weights(vector)
        yield from self._infinite(vector)
        yield from self._lattice(vector)
        yield from self._strip(vector)

    def _gaps(self, vector: Vector) -> Iterator[str]:
        """Neither law has a density outside the branches."""
        at, edge = vector.at, float(vector.at.pair.measure == "lattice")
        if at.pair.measure == "finite":
            return
        inner = [float(v) for row in vector.rows for v in (row[0] - edge, row[1] + edge)]
        for a, b in zip(*[iter([float(at.lo), *inner, float(at.hi)])] * 2, strict=True):
            if b + edge - a > 1e-9 * min(abs(a), abs(b)) and self._along(a, b, vector):
                yield f"no branch covers outputs between {a} and {b}, at {vector.theta}"

    def _atoms(self, vector: Vector) -> Iterator[str]:
        """Places and masses, up to what rounded parameters make of them."""
        rows = np.asarray(self.kernel("atoms", vector.theta)).reshape(-1, 3)
        stated = [tuple(row) for row in rows if max(row[1:]) > -math.inf]
        points = sorted((x, p, q) for x, p, q in vector.at.points if p > 0 or q > 0)
        if len(stated) != len(points):
            unsure = sum(p + q < 1e-12 for _, p, q in points)
            if vector.typical or abs(len(stated) - len(points)) > unsure:
                yield f"there are {len(points)} atoms, not {len(stated)}, at {vector.theta}"
            return
        for (at, *logs), (x, *masses) in zip(sorted(stated), points, strict=True):
            fine = abs(at - x) <= 1e-12 * max(abs(x), 1)
            for law, log, mass in zip((0, 1), logs, masses, strict=True):
                truth = log_of(mass)
                room = vector.enough / 10 * max(1, abs(truth))
                if not (log == truth or abs(log - truth) <= room):
                    room += ROUNDING * min(vector.at.sensitivity(x, law), MOST_LOST)
                    fine = fine and abs(log - truth) <= room
            if not fine:
                yield f"the atom at {float(x)} is {(at, *logs)}, at {vector.theta}"

    def _weights(self, vector: Vector) -> Iterator[str]:
        """Weights are what their words say; those of some cases are one in others."""
        kernel, theta = self.kernel, vector.theta
        stated, some = self._words("weights"), self._words("weights of some cases")
        found = np.ravel(kernel("weights", theta)).tolist()
        if len(found) != len(stated):
            yield f"there are {len(stated)} weights, not {len(found)}"
            return
        names = [row[0] for row in kernel["PARAMETERS"]]
        for text, weight in zip(stated, found, strict=True):
            value = partial(number, worded(text, names))
            truth, step = value(theta), mpmath.mpf(10) ** -12
            moved = [(*theta[:i], v * (1 + step), *theta[i + 1 :]) for i, v in enumerate(theta)]
            scale = abs(truth) + sum(abs(value(t) - truth) for t in moved) / step
            if abs(weight - truth) <= vector.enough * scale:
                self._weighed.add(text)
            elif weight != 1.0 or text not in some:
                yield f"the weight {text} is {weight!r}, at {theta}"

    def unweighed(self) -> Iterator[str]:
        """Weights that were one wherever they were looked at."""
        for text in self._words("weights of some cases"):
            if text not in self._weighed:
                yield f"the weight {text} is one everywhere"

    def _words(self, capability: str) -> list[str]:
        """Words of weights that a kernel states."""
        return [w for w in str(self.kernel["CAPABILITIES"].get(capability, "")).split("; ") if w]

    def branch(self, row: Any, vector: Vector) -> Iterator[str]:
        """The loss on one branch is as it says."""
        lo, hi, kind, left, right, _ = map(float, row)
        what = f"the branch ({lo}, {hi}) of kind {kind:g}, at {vector.theta}"
        known = [(x, p - q, abs(p) + abs(q)) for x, p, q in self._along(lo, hi, vector)]
        finite = [(x, loss, vector.enough * (abs(loss) + size) + 1e-15)
                  for x, loss, size in known if mpmath.isfinite(loss)]  # fmt: skip
        sure = {2.0: mpmath.inf, 3.0: -mpmath.inf}.get(kind)
        if sure is not None and any(loss != sure for _, loss, _ in known):
            yield f"{what}: one law has no mass there, it says"
        if kind not in (1.0, -1.0, 0.0, 2.0, 3.0, 4.0):
            yield f"{what}: there is no such kind"
        if kind not in (1.0, -1.0, 0.0):
            return
        lowest, highest = (left, right)[:: -1 if kind < 0 or (not kind and left < right) else 1]
        for x, loss, room in finite:
            if loss < lowest - room or loss > highest + room:
                yield f"{what}: the loss {mpmath.nstr(loss, 17)} at {x} is beyond {left}, {right}"
        for (x, loss, room), (_, after, more) in itertools.pairwise(finite):
            change = after - loss
            flat = abs(change) <= FLAT * (room + more) and math.isfinite(hi - lo)
            flat = flat and kind != 0.0 and vector.typical
            if flat or kind * change < -room - more or (not kind and abs(change) > room + more):
                yield f"{what}: the loss is not so near {x}"
        if len(finite) < 3 or self.kernel["MEASURE"] != "density" or kind == 0.0:
            return
        for limit, end, (_, loss, room), (_, further, _) in (
            (left, lo, finite[0], finite[1]), (right, hi, finite[-1], finite[-2]),
        ):  # fmt: skip
            if math.isinf(end):  # two places far out, where logs of densities are long numbers
                away = [math.copysign(2.0**j, end) * max(1.0, *map(abs, vector.theta))
                        for j in OUTWARD]  # fmt: skip
                further, loss = (p - q for p, q in map(vector.at.logs, away))
                room = vector.enough * abs(loss)
            near = math.isfinite(limit) and mpmath.isfinite(further - loss)
            if near and abs(loss - limit) > 4 * abs(further - loss) + 100 * room:
                yield f"{what}: the limit at {end} is {limit!r}, the loss {mpmath.nstr(loss, 17)}"

    def _along(self, lo: float, hi: float, vector: Vector) -> list[tuple[float, Any, Any]]:
        """Outputs of a branch with both log densities, where there is any."""
        lattice = self.kernel["MEASURE"] == "lattice"
        span = hi - lo if math.isfinite(hi - lo) else max(1.0, *map(abs, vector.theta))
        away = [span * 2.0**j for j in (-30, -20, -12, -7, -3, -1, 2, 5, 9)]
        ends = [(e, s) for e, s in ((lo, 1), (hi, -1)) if math.isfinite(e)] or [(0, 1), (0, -1)]
        xs = [end + side * a for end, side in ends for a in away]
        if lattice:
            xs = [min(max(float(round(x)), lo), hi) for x in xs]
        xs = sorted({x for x in xs if lo < x < hi or (lattice and lo <= x <= hi)})
        found = [(x, *vector.at.logs(x)) for x in xs]
        return [(x, p, q) for x, p, q in found if max(p, q) > -mpmath.inf]

    def _infinite(self, vector: Vector) -> Iterator[str]:
        """P(q = 0) is the mass of atoms and branches on which Q has none."""
        stated = float(self.kernel("log_infinite_mass", vector.theta))
        if math.isnan(stated):
            if vector.typical and self.kernel.offers("infinite_mass"):
                yield f"the mass at infinite loss is refused, at {vector.theta}"
            return
        total = float(mpmath.fsum(p for _, p, q in vector.at.points if q == 0))
        total += sum(self._mass("p", vector, *row[:2]) for row in vector.rows if row[2] == 2)
        truth = math.log(total) if total > 0.0 else -math.inf
        room = MASS * (1.0 + abs(truth)) if math.isfinite(truth) else 0.0
        fine = stated == truth or abs(stated - truth) <= room
        if not fine and (vector.typical or abs(math.exp(min(stated, 1.0)) - total) > 1e-12):
            yield f"the log mass at infinite loss is {truth}, not {stated!r}, at {vector.theta}"

    def _lattice(self, vector: Vector) -> Iterator[str]:
        """Losses are on the lattice that is stated."""
        offset, step = (float(v) for v in self.kernel("lattice", vector.theta))
        if math.isnan(step):
            return
        rows = [(p, q) for lo, hi, *_ in vector.rows for _, p, q in self._along(lo, hi, vector)]
        rows += [(log_of(p), log_of(q)) for _, p, q in vector.at.points]
        for loss in (p - q for p, q in rows if min(p, q) > -mpmath.inf):
            place = (loss - offset) / step
            if abs(place - mpmath.nint(place)) > 1e-9 * max(1, abs(place)):
                yield f"the loss {mpmath.nstr(loss, 17)} is not on the lattice ({offset}, {step})"

    def whole(self, vector: Vector) -> Iterator[str]:
        """Masses of both laws, by the declaration and by the branches; symmetry."""
        at = vector.at
        for column, law in enumerate("pq", start=1):
            atoms = float(mpmath.fsum(row[column] for row in at.points))
            density = at.pair.measure != "finite"
            total = atoms + (self._mass(law, vector, at.lo, at.hi) if density else 0.0)
            covered = atoms + sum(self._mass(law, vector, lo, hi) for lo, hi, *_ in vector.rows)
            if abs(total - 1) > MASS:
                yield f"{law} has mass {total!r}"
            if abs(covered - 1) > MASS:
                yield f"branches and atoms carry {covered!r} of {law}"
        if self.kernel["SYMMETRIC"] is True:
            away = min(1.25, 0.4 * (float(self.kernel("strip", vector.theta)[1]) + 0.5))
            a, b = (self._log_moment(-0.5 + s * away, vector) for s in (1, -1))
            if a is not None and b is not None and not abs(a - b) <= 1e-7 * max(1, abs(a)):
                yield "K(z) and K(-1-z) differ where symmetry is stated"

    def _strip(self, vector: Vector) -> Iterator[str]:
        """Moments exist inside the strip and, next to it, do not exist outside."""
        lo, hi = (float(v) for v in self.kernel("strip", vector.theta))
        if not lo <= -1.0 <= 0.0 <= hi:
            yield f"the strip ({lo}, {hi}) does not hold [-1, 0]"
        for end, inward, share in ((e, s, r) for e, s in ((lo, 1.0), (hi, -1.0)) for r in NEXT):
            room = inward * share * max(abs(end), 0.1)
            inside = math.copysign(100.0, end) if math.isinf(end) else end + room
            if not -1 < inside < 0 and self._converges(inside, vector) is False:
                yield f"M({inside}) is infinite, inside the strip ({lo}, {hi})"
            # up to there of any pair, if no direction of the loss is known
            least = end in (-1.0, 0.0) and any(row[2] == 4.0 for row in vector.rows)
            known = math.isfinite(end) and not least
            if known and self._converges(end - room, vector) is True:
                yield f"M({end - room}) is finite, outside the strip ({lo}, {hi})"

    def _converges(self, t: float, vector: Vector) -> bool | None:
        """Whether E exp(tL) is finite, by the integrand far out and next to ends; None: unknown."""
        at, measure = vector.at, vector.at.pair.measure
        if measure == "finite":
            return None
        whole, verdicts = mpmath.mpf(max([1.0, *map(abs, vector.theta)])), []
        inner = [row[:2] for row in vector.rows if row[2] not in (2.0, 3.0)]  # one law may end
        stretches = [(at.lo, at.hi), *(map(mpmath.mpf, row) for row in inner)]
        ends = ((e, s, min(whole, b - a)) for a, b in stretches for e, s in ((a, 1), (b, -1)))

        def slope(j: int, end: Any, inward: int, width: Any) -> Any:
            """Of the log of the integrand times the distance, by that of the distance."""
            far, logs = mpmath.isinf(end), []
            for k in (j, j + 1):
                away = width * mpmath.mpf(2) ** (k if far else -k)
                x = inward * -away if far else end + inward * away
                p, q = at.logs(mpmath.nint(x) if measure == "lattice" else x)
                logs.append((1 + t) * p - t * q + mpmath.log(away))
            return (logs[1] - logs[0]) / mpmath.log(2)

        for place in ends:
            far, verdict = mpmath.isinf(place[0]), None
            if not far and measure == "lattice":
                continue
            for j in (20, 12, 6, 3):  # densities of two exponentials are nothing far out
                if mpmath.isfinite(change := slope(j, *place)):
                    verdict = True if change < -0.05 else False if change > 0.05 else None
                    if verdict is False and not far and not slope(2 * j, *place) > 0.05:
                        verdict = None  # what grows next to an end, and not up to it
                    break
            verdicts.append(verdict)
        if False in verdicts:
            return False
        return None if None in verdicts or not verdicts else True

    def _tail(self, name: str, x: float, vector: Vector) -> Iterator[str]:
        """A distribution function at one output: its log, so that small tails count too."""
        law, below, at = name[-1], name.startswith("cdf"), vector.at
        found = float(self.kernel(name, x, vector.theta))
        if not vector.typical and math.isnan(found):
            return
        beyond = (at.lo, x) if below else (x + (at.pair.measure == "lattice"), at.hi)
        inside = beyond[0] <= beyond[1]
        log = vector.integrals.log(density_of(law), *beyond) if inside else -math.inf
        mass = [float(log_of((p, q)[law == "q"])) for e, p, q in at.points if (e <= x) == below]
        total = None if log is None else log_sum(np.array([*mass, log], dtype=complex))
        if total is None:
            return
        truth = total.real
        if truth < FARTHEST:
            fine = found <= math.exp(FARTHEST)
        else:
            height = float(at.logs(x)[law == "q"])
            steep = (1.0 + abs(x)) * math.exp(min(height - truth, 700.0)) + abs(truth) + 1.0
            fine = abs(found - math.exp(truth)) <= 1e-14 * abs(x) * math.exp(min(height, 700.0))
            enough = vector.enough if abs(x) < FAR_OUT else ROUGH
            fine |= found > 0 and abs(math.log(found) - truth) <= enough * steep
        if not fine:
            yield f"log {name}({x!r}) is {np.log(found)!r}, not {truth!r}, at {vector.theta}"

    def _moment(self, z: complex, vector: Vector) -> Iterator[str]:
        """The generating function at one tilt."""
        found, truth = complex(self.kernel("cgf", z, vector.theta)), self._log_moment(z, vector)
        if truth is None or (cmath.isnan(found) and not (vector.typical and abs(z) < WIDEST)):
            return
        turned = abs(cmath.exp(1j * (found.imag - truth.imag)) - 1)
        room = (INTEGRAL if vector.typical else FAR) * (1 + abs(truth.real))
        if z.imag and (whole := self._log_moment(complex(z.real), vector)) is not None:
            room += CANCELS * math.exp(min(whole.real - truth.real, 40.0))
        if found.real != truth.real and not abs(found.real - truth.real) + turned <= room:
            yield f"cgf({z}) is {found}, not {truth}, at {vector.theta}"

    def _log_moment(self, z: complex, vector: Vector) -> complex | None:
        """Log M(z), None where quadrature does not settle."""
        at, exponent = vector.at, power(z)
        logs = [np.array([float(log_of(m)) for m in row[1:]]) for row in at.points]
        terms = [complex(exponent(*row)) for row in logs]
        if at.pair.measure != "finite":
            part = vector.integrals.log(exponent, at.lo, at.hi)
            if part is None:
                return None
            terms.append(part)
        return log_sum(np.array(terms, dtype=complex))

    def _mass(self, law: str, vector: Vector, lo: Any, hi: Any) -> float:
        """Mass of a law on an interval, without atoms."""
        found = vector.integrals.log(density_of(law), lo, hi)
        if found is None:
            raise ArithmeticError(f"no mass of {law} on ({lo}, {hi})")
        return math.exp(found.real) if found.real > -745.0 else 0.0
