"""Where a kernel is looked at: on either side of every comparison in its text."""

from __future__ import annotations

import ast
import itertools
import math
import random
from functools import cached_property
from typing import Any

import mpmath
import numpy as np

from mechc.verify.recheck.declaration import At, Pair, number
from mechc.verify.recheck.integrals import INTEGRAL_DIGITS, Integrals
from mechc.verify.recheck.kernel import OF_THETA, TAILS, VALUES, WORK, Kernel

CLOSE, FAR = 1e-11, 1e-9  # relative to the value and its sensitivity: at typical parameters, beyond
AGAIN = 3  # further places looked at where a comparison was seen from a new side
SPREAD = 6  # places, near and far, beside the first ones
FARTHEST = -700.0  # log density beyond which nobody looks
LARGEST = 1e4  # value beside which a fault of 1e-4 would be missed
WIDEST = 40.0  # tilt beyond which a generating function may refuse
HEIGHTS = (0.3, 3.0, 20.0, 100.0, 300.0)  # of tilts, up to where M has faded
FADED = -13.8  # log of a share of M(Re z) that a quadrature of M(z) does not see
HEAVY = (50,)  # power of two of parameters, at which some tails have mass
HALVINGS = 45  # of a stretch in which a comparison turns
SEED = 20240229  # any number; the kernel decides as well


class Vector:
    """A parameter vector and what the kernel says of its branches.

    Attributes:
        theta: the parameters.
        typical: one of the certificate's: no refusals there, and smaller errors.
        enough: relative error of a value.
        at: the declaration there.
        rows: branches; ends are their finite ends.
    """

    def __init__(self, kernel: Kernel, pair: Pair, theta: tuple[float, ...], typical: bool) -> None:
        """Ask the kernel."""
        self.theta, self.typical, self.enough = theta, typical, CLOSE if typical else FAR
        self._pair = pair
        self.rows = np.asarray(kernel("branches", theta)).reshape(-1, 6)
        self.ends = [float(e) for e in np.ravel(kernel("breakpoints", theta)) if math.isfinite(e)]

    @cached_property
    def at(self) -> At:
        """The declaration."""
        return self._pair.at(self.theta)

    @cached_property
    def integrals(self) -> Integrals:
        """Its integrals."""
        with mpmath.workdps(INTEGRAL_DIGITS):
            return Integrals(self.at, self.ends)

    @property
    def is_degenerate(self) -> bool:
        """Whether branches are so short that rounding of their ends is most of them."""
        return any(b - a <= 1e-6 * (abs(a) + abs(b)) for a, b in itertools.pairwise(self.ends))


class Search:
    """Places at which every comparison of the kernel that can be reached is seen from both sides.

    Attributes:
        vectors: those that were looked at, the certificate's first.
        places: (function, argument, vector) of new sides; "theta" stands for those of parameters.
        samples: the same, drawn.
    """

    def __init__(self, kernel: Kernel, pair: Pair, certified: list[tuple[float, ...]]) -> None:
        """Look everywhere, as long as the allowance of work lasts."""
        self.kernel, self.pair, self.rng = kernel, pair, random.Random(f"{SEED}{kernel.digest}")
        self.vectors: list[Vector] = []
        self.places: list[tuple[str, Any, Vector]] = []
        self.samples: list[tuple[str, Any, Vector]] = []
        self._seen: set[tuple[int, bool]] = set()
        self._again: dict[str, int] = {}
        self._crossed: set[Any] = set()
        for theta in self._thetas(certified):
            vector = Vector(kernel, pair, theta, theta in certified)
            lost = kernel.work > WORK or vector.is_degenerate or self._is_noise(vector)
            if vector.typical or not lost:
                self._look(vector, len(self.vectors) < 2)
                self.vectors.append(vector)
        if kernel.offers("cgf"):  # where M fades latest most of it is seen
            latest = max(self.vectors, key=lambda v: self._rising(v)[-1].imag)
            self.places += [("cgf", z, latest) for z in self._rising(latest)]

    def _thetas(self, certified: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
        """The vectors of the certificate; parameters moved far, onto one another, to constants."""
        rows, rng, base = self.kernel["PARAMETERS"], self.rng, certified[0]
        moved: list[tuple[int, float]] = []
        found = list(certified)
        for i, row in enumerate(rows):
            near = [c * (1 + s) for c in self.kernel.constants for s in (1e-3, -1e-3)]
            moved += [(i, v) for v in near if row[7][0] / 1e6 <= v <= row[7][1] * 1e6]
            moved += [(i, v) for j, v in enumerate(base) if j != i]
            moved += [(i, base[i] * 10.0**k) for k in (-1, 1, -2, 2, -3, 3, -6, 6)]
            ends = [(v, s) for v, s in ((row[1], 1), (row[2], -1)) if math.isfinite(v)]
            moved += [(i, v + s * e) for v, s in ends for e in (0.0, 1e-8, 1e-3)]
        for other in certified[:4]:
            for i, value in moved:
                whole = rows[i][5] and math.isfinite(value)
                found.append((*other[:i], float(round(value) if whole else value), *other[i + 1 :]))
        for _ in range(20):
            drawn = []
            for _, lo, hi, _, _, whole, _, (low, high) in rows:
                far = 10 ** rng.uniform(-2, 4) if math.isinf(hi) and lo >= 0 else 1.0
                value = min(max(rng.uniform(low, high) * far, lo), hi)
                drawn.append(float(round(value)) if whole else value)
            found.append(tuple(drawn))
        return [theta for theta in dict.fromkeys(found) if self.kernel.admits(theta)]

    def _is_noise(self, vector: Vector) -> bool:
        """Whether last digits of the parameters move densities by more than is looked for."""
        for x in self.outputs(vector)[: 12 + len(vector.ends)]:
            if any(abs(x - e) <= 1e-6 * abs(x) for e in vector.ends):
                continue
            for name in ("log_p", "log_q"):
                here = float(self.kernel(name, x, vector.theta))
                for k in (-3, 2, 5):
                    theta = [t * (1 + k * i * 2.0**-52) for i, t in enumerate(vector.theta, 1)]
                    change = abs(float(self.kernel(name, x, theta)) - here)
                    if FAR * max(1.0, abs(here)) < change < math.inf:
                        return True
        return False

    def _is_new(self) -> bool:
        """Whether the last call showed a comparison from a side not seen before."""
        new = not self.kernel.outcomes <= self._seen
        self._seen |= self.kernel.outcomes
        return new

    def _try(self, name: str, argument: Any, vector: Vector, *call: Any) -> None:
        """Call a function, and note the place and a few further ones where it shows a new side."""
        if name == "cgf" and self._has_faded(argument, vector):
            return
        found = abs(self.kernel(*(call or (name, argument, vector.theta))))
        if name == "loss_inverse" and abs(argument[0]) > LARGEST:
            return  # it is the loss of what is found that is compared
        compared = vector.typical and found == math.inf
        if math.isnan(found) or (found > LARGEST and not compared):
            return  # a refusal shows nothing, nor does what hides small faults
        self._again[name] = AGAIN if self._is_new() else self._again.get(name, 0) - 1
        if self._again[name] >= 0:
            self.places.append((name, argument, vector))

    def _walk(self, name: str, xs: list[float], vector: Vector, function: str, *index: int) -> None:
        """Call at places in order, and next to wherever comparisons turn between two of them."""
        seen, before = [], len(self.places)
        for x in xs:
            at = (x, *index) if index else x
            self._try(name, at, vector, function, x, vector.theta)
            seen.append((x, frozenset(self.kernel.outcomes)))
        if len(self.places) > before:  # by a comparison of parameters, perhaps: all of the places
            for x in self.rng.sample(xs, min(len(xs), SPREAD)):
                self._again[name] = 1
                self._try(name, (x, *index) if index else x, vector, function, x, vector.theta)
        kind = self.kernel["MEASURE"]
        if kind == "finite" or not vector.typical:
            return
        if "solve_" in ast.unparse(self.kernel.functions[function]):  # root finders always turn
            return
        for (a, one), (b, other) in itertools.pairwise(sorted(seen, key=lambda row: row[0])):
            key = name, one ^ other
            if one == other or key in self._crossed:
                continue
            self._crossed.add(key)
            for _ in range(HALVINGS):
                middle = (
                    float(round((a + b) / 2)) if kind == "lattice" and not index else (a + b) / 2
                )
                self.kernel(function, middle, vector.theta)
                a, b = (middle, b) if self.kernel.outcomes == one else (a, middle)
            self.places += [(name, (x, *index) if index else x, vector) for x in (a, b)]

    def _levels(self, vector: Vector, xs: list[float], marked: bool) -> list[tuple[float, int]]:
        """Losses at outputs, and at constants of the text, with the monotone branch of each."""
        kernel, found = self.kernel, []
        for lo, hi, kind, left, right, index in vector.rows if xs else ():
            if abs(kind) != 1:
                continue
            levels = [float(kernel("loss", x, vector.theta)) for x in xs if lo < x < hi]
            levels += [s * c * 1.001 for c in kernel.constants for s in (1, -1) if marked]
            inside = [v for v in levels if min(left, right) < v < max(left, right)]
            found += [(v, int(index)) for v in inside if math.isfinite(v)]
        return found

    def inverse(self, at: tuple[float, int], vector: Vector) -> float:
        """The output with a loss on a branch, by the kernel; nan where it refuses."""
        level, index = at
        return float(self.kernel.many("loss_inverse_many", [level], vector.theta, index)[0])

    def _look(self, vector: Vector, thorough: bool) -> None:
        kernel, theta, rng = self.kernel, vector.theta, self.rng
        self._again = {}
        shown = [(kernel(name, theta), self._is_new())[1] for name in OF_THETA]
        if any(shown) or thorough:
            self.places.append(("theta", None, vector))
        xs = self.outputs(vector)
        names = {*VALUES, *TAILS} if thorough else {*VALUES, *TAILS} & kernel.marks.keys()
        for name in sorted(name for name in names if name in kernel):
            self._walk(name, xs, vector, name)
        for *_, index in vector.rows:
            name = f"loss_inverse_{int(index)}"
            if name in kernel:
                levels = [level for level, at in self._levels(vector, xs, thorough) if at == index]
                some = rng.sample(levels, min(len(levels), 60 if thorough else 4))
                self._walk("loss_inverse", some, vector, name, int(index))
                self._arrays(name, some, vector, int(index))
        for name in VALUES:
            self._arrays(name, xs, vector)
        near = [x for x in xs if kernel("log_p", x, theta) > FARTHEST]
        own = rng.sample(near, min(len(near), 9 if thorough else 1))
        self.samples += [(name, x, vector) for x in own for name in VALUES]
        self.samples += [("loss_inverse", at, vector) for at in self._levels(vector, own, False)]
        written = [x for x in near if thorough and abs(x) in kernel.constants]
        self.places += [(name, x, vector) for x in written for name in VALUES]
        if thorough and kernel.offers("cdf"):
            deep = [x for x in near if kernel("log_p", x, theta) < -60.0]
            heavy = [s * 2.0**j * max(map(abs, theta)) for j in HEAVY for s in (1, -1)]
            heavy = [x for x in heavy if kernel("log_p", x, theta) > FARTHEST]
            some = [*own[:2], *deep[:1], *deep[-1:], *heavy]
            self.places += [(name, x, vector) for x in some for name in TAILS]
        if kernel.offers("cgf"):
            tilts = self._tilts(theta)
            for z in tilts if thorough or "cgf" in kernel.marks else ():
                self._try("cgf", z, vector)
            inner = [z for z in tilts if abs(z) <= WIDEST]
            drawn = rng.sample(inner, min(len(inner), 6)) if thorough else ()
            self.places += [("cgf", z, vector) for z in drawn]

    def outputs(self, vector: Vector) -> list[float]:
        """Ends of branches, and places at growing distance from them; constants of the text."""
        kernel, ends, rng = self.kernel, vector.ends, self.rng
        if kernel["MEASURE"] == "finite":
            return [float(row[0]) for row in kernel("atoms", vector.theta)]
        unit = max([abs(a - b) for a, b in itertools.pairwise(ends)], default=0.0)
        unit = unit or max(map(abs, vector.theta), default=1.0)
        away = [unit * 2.0**j * rng.uniform(0.8, 1.2) for j in range(-24, 25, 3)]
        found = [e + side * a for e in (ends or [0.0]) for a in away for side in (1.0, -1.0)]
        sides = (0.0, 1e-3, -1e-3)
        marks = [s * c * (1 + e) for c in kernel.constants for s in (1, -1) for e in sides]
        found += [m for m in marks if abs(m) < 1e12]
        lo, hi = (float(number(e, vector.theta)) for e in (self.pair.lo, self.pair.hi))
        found = [x for x in found if lo <= x <= hi]
        found = found if vector.typical else rng.sample(found, min(len(found), 24))
        found += ends + [a + (b - a) * f for a, b in itertools.pairwise(ends) for f in (0.02, 0.4)]
        if kernel["MEASURE"] == "lattice":
            found = [float(round(x)) for x in found if abs(x) < 1e9]
        found = sorted({x for x in found if lo <= x <= hi})
        return sorted(found, key=lambda x: min((abs(x - e) for e in ends), default=abs(x)))

    def _tilts(self, theta: tuple[float, ...]) -> list[complex]:
        """Tilts inside the strip, near its ends, and on both sides of constants."""
        lo, hi = (float(v) for v in self.kernel("strip", theta))
        low, high = max(lo, -WIDEST), min(hi, WIDEST)
        marks = [s * c * 1.001 for c in self.kernel.constants if 1e-3 <= c <= 1e6 for s in (1, -1)]
        near = [-1.0, 0.0, 1e-7, -1.0 + 1e-7]
        real = [low + (high - low) * f for f in (0.45, 0.8, 0.2, 1e-3, 0.999)]
        heights = [-HEIGHTS[1], *HEIGHTS[:2], *(m for m in marks if 0.0 < m < HEIGHTS[-1])]
        found = [complex(r, h) for h in (0.0, *heights) for r in (*near, *real)]
        found += [complex(-0.3, m) for m in marks if m >= HEIGHTS[-1]]
        found += map(complex, marks)
        return [z for z in found if lo < z.real < hi]

    def _rising(self, vector: Vector) -> list[complex]:
        """The last tilts of growing height up to the first at which M has faded, by the kernel."""
        found = [complex(-0.3, h) for h in HEIGHTS[2:]]
        faded = [self._has_faded(z, vector) for z in found]
        return found[: [*faded, True].index(True) + 1][-2:]

    def _has_faded(self, z: complex, vector: Vector) -> bool:
        """Whether so little is left of M, by the kernel, that nothing can be compared."""
        if abs(z.imag) <= HEIGHTS[1]:
            return False
        here, real = (self.kernel("cgf", t, vector.theta) for t in (z, complex(z.real)))
        return bool(complex(here).real - complex(real).real < FADED)

    def _arrays(self, name: str, xs: list[float], vector: Vector, *index: int) -> None:
        """Array functions answer as the scalar ones do; where not, the declaration decides."""
        marked = not self.kernel.marks.keys().isdisjoint((name, f"{name}_many"))
        if not xs or not (vector.typical or (marked and not index)):
            return
        single = [self.kernel(name, x, vector.theta) for x in xs]
        many = "loss_inverse_many" if index else f"{name}_many"
        several = self.kernel.many(many, xs, vector.theta, *index)
        new = self._is_new()
        for x, a, b in zip(xs, single, several, strict=True):
            same = a == b or abs(a - b) <= CLOSE / 10 * max(1.0, abs(a)) or (a != a and b != b)
            if new or not same:
                self.places.append(("loss_inverse", (x, *index), vector) if index
                                   else (many, x, vector))  # fmt: skip
            new = False
