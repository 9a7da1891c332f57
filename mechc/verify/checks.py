"""Which checks a kernel has to pass, at which parameter vectors and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mechc.declare.declaration import Declaration
from mechc.errors import MechcError, is_interrupt
from mechc.kernel import build
from mechc.protocol import Measure, is_closed
from mechc.verify import identities, kernel_checks, shape_proofs
from mechc.verify.balls.oracle import Oracle
from mechc.verify.kernel_checks import CDF, CGF, VALUES
from mechc.verify.recheck.declaration import Pair
from mechc.verify.recheck.kernel import TAILS, Kernel
from mechc.verify.recheck.kernel import VALUES as VALUES_AT
from mechc.verify.recheck.search import Search
from mechc.verify.result import Check

SHARES = (0.27, 0.45, 0.61, 0.78)  # of the outputs, at which distribution functions are compared
HIGHEST = 50.0  # tilt at which balls stay narrow; the text is compared word by word besides
MORE_SHARES = (0.02, 0.12, 0.35, 0.9, 0.97)  # of a full certificate, besides

Row = tuple[str, str, float, Callable[[Check], None]]  # name, kind, tolerance, what to run


class Runner:
    """Collects checks by name over all parameter vectors."""

    def __init__(self, progress: Callable[[str], None] = lambda check: None) -> None:
        """Start without checks; each says its name when it begins."""
        self.checks: dict[str, Check] = {}
        self.progress = progress
        self.far = False

    def __call__(
        self, name: str, kind: str, tolerance: float, run: Callable[[Check], None]
    ) -> None:
        """Run one check at one vector; an error is a failure, not a crash."""
        check = self.checks.setdefault(name, Check(name, kind, tolerance))
        check.far = self.far
        self.progress(name)
        try:
            run(check)
        except Exception as error:  # of mechc's own, or of a kernel that was edited
            if is_interrupt(error):
                raise KeyboardInterrupt from None
            if self.far and isinstance(error, MechcError):
                check.note(f"no enclosure far from typical parameters: {error}")
            else:
                check.fail(f"{type(error).__name__}: {error}")


class Place(NamedTuple):
    """One parameter vector and the outputs at which a kernel is compared with its declaration.

    Attributes:
        oracle: the declaration at the vector.
        outputs: where densities and losses are compared.
        thorough: with every check of the level.
        of_values: far from what is typical: values are compared, identities are left out.
        tilts: where the generating function was seen from a new side.
    """

    oracle: Oracle
    outputs: list[float]
    thorough: bool
    of_values: bool = False
    tilts: tuple[complex, ...] = ()


@np.errstate(all="ignore")
def places(
    declaration: Declaration, kernel: Any, full: bool, runner: Runner
) -> tuple[list[tuple[float, ...]], list[Place]]:
    """Parameter vectors, and the oracle and the outputs for each of them that has any.

    Further ones are those at which comparisons of the kernel are seen from their other side.
    """
    vectors, found = kernel_checks.vectors(declaration, 5 if full else 2, corners=full), []
    search = Search(Kernel(build.source(kernel)), Pair(declaration.canonical), vectors)
    for number, vector in enumerate(search.vectors):
        own = [(name, argument) for name, argument, at in search.places if at is vector]
        if not own and not vector.typical:
            continue
        try:
            oracle = Oracle(declaration, vector.theta)
            xs = {x for name, x in own if name.removesuffix("_many") in (*VALUES_AT, *TAILS)}
            xs |= {search.inverse(at, vector) for name, at in own if name == "loss_inverse"}
            if vector.typical:
                some = search.outputs(vector)
                xs |= {*search.rng.sample(some, min(len(some), 120 if full else 40))}
                xs |= {*vector.ends}
            if oracle.measure is Measure.LATTICE:
                xs = {float(np.rint(x)) for x in xs}
            xs = {x for x in xs if kernel_checks.is_near(oracle, x)}
        except MechcError as error:
            runner("grid", "proof", 0.0, lambda check, e=error: check.fail(str(e)))  # type: ignore[misc]
            continue
        zs = tuple({z: 0 for name, z in own if name == "cgf" and abs(z.imag) <= HIGHEST})
        found.append(Place(oracle, sorted(xs), full or number == 0, not vector.typical, zs))
    return [place.oracle.theta for place in found], found


def compare(kernel: Any, where: Iterable[Place], full: bool, runner: Runner) -> None:
    """Run every check of a kernel that looks at its functions."""
    for place in where:
        runner.far = place.of_values
        for name, kind, tolerance, run in (
            *_functions(kernel, place, full), *_facts(kernel, place, full)
        ):  # fmt: skip
            runner(name, kind, tolerance, run)


def _functions(kernel: Any, place: Place, full: bool) -> Iterator[Row]:
    """Functions against their enclosures."""
    oracle, xs, thorough = place.oracle, place.outputs, place.thorough
    theta = np.array(oracle.theta)
    if xs:
        for name in ("log_p", "log_q", "loss"):
            yield name, "values", VALUES, partial(kernel_checks.values, kernel, oracle, xs, name)
        run = partial(kernel_checks.inverses, kernel, oracle, xs)
        yield "loss_inverse", "values", VALUES, run
    if is_closed(kernel, "cgf"):
        zs = kernel_checks.tilts(kernel.strip(theta), full)
        zs = zs[:1] if place.of_values else zs if thorough else zs[::2]
        run = partial(kernel_checks.generating_function, kernel, oracle, [*zs, *place.tilts])
        yield "cgf", "values", CGF, run
    if xs and oracle.measure is not Measure.FINITE and is_closed(kernel, "cdf"):
        shares = (*SHARES, *(MORE_SHARES if full else ())) if thorough else (0.66,)
        # between branches, and at their ends, distribution functions change
        inside = [[x for x in xs if lo < x < hi] for lo, hi, *_ in kernel.branches(theta)]
        some = [xs[int(s * len(xs))] for s in shares] + [xs[0], xs[-1]]
        some += [points[len(points) // 2] for points in inside if points]
        yield "cdf", "values", CDF, partial(kernel_checks.distributions, kernel, oracle, some)


def _facts(kernel: Any, place: Place, full: bool) -> Iterator[Row]:
    """What a kernel states, and identities."""
    oracle, xs = place.oracle, place.outputs
    yield "infinite_mass", "values", VALUES, partial(identities.one_sided, kernel, oracle)
    yield "atoms", "values", VALUES, partial(identities.atoms, kernel, oracle)
    run = partial(identities.coverage, kernel, oracle, place.of_values)
    yield "coverage", "identity", identities.WIDTH, run
    if place.of_values:
        return
    run = partial(identities.lattice, kernel, oracle, xs)
    yield "lattice", "identity", identities.LATTICE, run
    yield "strip", "identity", 0.0, partial(identities.strip, kernel, oracle)
    if place.thorough:
        zs = [complex(0.375, 1.25), complex(-0.75, 0.25)][: 2 if full else 1]
        yield "symmetry", "identity", 0.0, partial(identities.symmetry, kernel, oracle, zs)
    if oracle.measure is not Measure.FINITE:
        yield "pieces", "identity", 0.0, partial(identities.pieces, oracle, xs)
        if shape_proofs.noise_of(oracle.declaration) is not None:
            yield "unimodal", "proof", 0.0, partial(identities.unimodality, oracle, xs)
        yield "branches", "proof", 0.0, partial(identities.branches, kernel, oracle, xs)
