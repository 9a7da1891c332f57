"""Certificates: what was compared with what, where the largest error is, and what was proved.

Input: a mechanism. Output: a `Certificate`, readable JSON that an independent checker
(mechc.verify.recheck) can test again from the emitted file and the JSON alone, or a table.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table

from mechc.errors import DeclarationError, MechcError, UnsupportedError
from mechc.protocol import Measure, is_closed

if TYPE_CHECKING:
    from mechc.declare.declaration import Declaration
    from mechc.verify.balls.oracle import Oracle
    from mechc.verify.result import Check


SCHEMA = 2
LEVELS = ("quick", "full")
REFUSABLE = ("cgf", "cdf", "loss_inverse")  # where callers of a kernel take nan for a refusal
PACKAGES = ("mechc", "sympy", "numpy", "numba", "python-flint")


@dataclass(frozen=True)
class Certificate:
    """The outcome of verifying one kernel.

    Attributes:
        name: of the mechanism.
        level: "quick" or "full".
        canonical: the declaration in canonical form (`Declaration.canonical`).
        declaration_digest: SHA-256 of `canonical`.
        kernel_digest: `DIGEST` of the kernel.
        kernel_sha256: SHA-256 of the emitted text.
        vectors: parameter vectors.
        checks: outcomes, one for each function and identity.
        versions: of mechc and what it used.
        seconds: processor time.
    """

    name: str
    level: str
    canonical: str
    declaration_digest: str
    kernel_digest: str
    kernel_sha256: str
    vectors: tuple[tuple[float, ...], ...]
    checks: tuple[Check, ...]
    versions: dict[str, str]
    seconds: float

    @property
    def ok(self) -> bool:
        """Every check passed."""
        return all(check.ok for check in self.checks)

    @property
    def max_rel_error(self) -> float:
        """The largest relative error of a function value."""
        return max((c.max_error for c in self.checks if c.kind == "values"), default=0.0)

    def differences(self, text: str) -> list[str]:
        """Where another certificate, as JSON, says something else: entries and names of checks.

        Processor time, and the seal that depends on it, may differ.
        """
        own = json.loads(self.to_json())
        try:
            other = json.loads(text)
            kernel_checks = {check["name"]: check for check in other.pop("checks")}
        except (ValueError, TypeError, KeyError, AttributeError):
            return ["it is no certificate"]
        mine = {check["name"]: check for check in own.pop("checks")}
        both = ((own, other), (mine, kernel_checks))
        pairs = [(key, a.get(key), b.get(key)) for a, b in both for key in {**a, **b}]
        found = {key for key, a, b in pairs if _written(a) != _written(b)}
        return sorted(found - {"seconds", "seal"})

    def to_json(self) -> str:
        """Readable JSON with sorted keys, so that two certificates can be compared line by line."""
        content = asdict(self)
        content["schema"], content["ok"] = SCHEMA, self.ok
        for check, own in zip(content["checks"], self.checks, strict=True):
            check["ok"] = own.ok
            del check["nan_allowed"]
        plain = _plain(content)
        plain["seal"] = hashlib.sha256(_written(plain).encode()).hexdigest()
        return _written(plain) + "\n"


def _written(content: Any) -> str:
    return json.dumps(content, indent=2, sort_keys=True)


def _plain(value: Any) -> Any:
    """JSON without nan and infinities as numbers."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def verify(mechanism: Any, level: str = "quick", kernel: Any = None) -> Certificate:
    """Verify the kernel of a mechanism against its declaration.

    Args:
        mechanism: a `Mechanism`.
        level: "quick" (two parameter vectors, coarse grids) or "full" (ten or more, fine grids).
        kernel: a loaded kernel module to verify instead of the mechanism's own.

    Returns:
        The certificate; `ok` says whether everything passed.

    Raises:
        UnsupportedError: python-flint is not installed.
        DeclarationError: an unknown level.
    """
    if level not in LEVELS:
        raise DeclarationError(f"level={level!r} is not known (expected one of {LEVELS})")
    try:
        import flint  # noqa: F401
    except ImportError:
        raise UnsupportedError(
            "verification needs python-flint: pip install 'mechc[verify]'"
        ) from None
    from mechc.kernel.compiler import compile_declaration
    from mechc.verify import identities

    started = time.process_time()
    declaration = mechanism.declaration
    kernel = mechanism.kernel if kernel is None else kernel
    runner, full = Runner(), level == "full"
    text = _source(kernel)
    wanted = compile_declaration(declaration)
    runner("emission", "identity", 0.0, partial(emission, wanted, text))
    vectors: list[tuple[float, ...]] = []
    try:
        vectors, found = places(declaration, kernel, full, runner)
        compare(kernel, found, full, runner)
        _law(kernel, text, found, full, runner)
        runner("words", "proof", 0.0, partial(identities.words, declaration, kernel, text))
    except Exception as error:  # an edited kernel may do anything but answer
        reason = f"{type(error).__name__}: {error}"
        runner("grid", "proof", 0.0, lambda check: check.fail(reason))
    return Certificate(
        name=mechanism.name,
        level=level,
        canonical=declaration.canonical,
        declaration_digest=declaration.digest,
        kernel_digest=str(kernel.DIGEST),
        kernel_sha256=hashlib.sha256(text.encode()).hexdigest(),
        vectors=tuple(vectors),
        checks=tuple(runner.checks.values()),
        versions={
            **{name: metadata.version(name) for name in PACKAGES},
            "python": platform.python_version(),
        },
        seconds=round(time.process_time() - started, 3),
    )


def _source(kernel: Any) -> str:
    from mechc.kernel import build

    return build.source(kernel)


def emission(wanted: str, text: str, check: Check) -> None:
    """The text of a kernel is what this version emits for the declaration, word for word."""
    check.points = 1
    lines = zip_longest(text.splitlines(), wanted.splitlines(), fillvalue="")
    for number, (found, line) in enumerate(lines, start=1):
        if found != line:
            check.fail(f"line {number}: {found.strip()[:60]!r}, emitted here {line.strip()[:60]!r}")
            return


class Runner:
    """Collects checks by name over all parameter vectors."""

    def __init__(self) -> None:
        """Start without checks."""
        self.checks: dict[str, Check] = {}
        self.nan_allowed = False

    def __call__(
        self, name: str, kind: str, tolerance: float, run: Callable[[Check], None]
    ) -> None:
        """Run one check at one vector; an error is a failure, not a crash."""
        from mechc.verify.result import Check

        check = self.checks.setdefault(name, Check(name, kind, tolerance))
        check.nan_allowed = self.nan_allowed and name in REFUSABLE
        try:
            run(check)
        except Exception as error:  # of mechc's own, or of a kernel that was edited
            check.fail(f"{type(error).__name__}: {error}")


class Place(NamedTuple):
    """One parameter vector and the outputs at which a kernel is compared with its declaration.

    Attributes:
        oracle: the declaration at the vector.
        outputs: where densities and losses are compared.
        thorough: with every check of the level.
        of_values: far from what is typical: values are compared, identities are left out.
    """

    oracle: Oracle
    outputs: list[float]
    thorough: bool
    of_values: bool = False


def places(
    declaration: Declaration, kernel: Any, full: bool, runner: Runner
) -> tuple[list[tuple[float, ...]], list[Place]]:
    """Parameter vectors, and the oracle and the outputs for each of them that has any."""
    import numpy as np

    from mechc.verify import kernel_checks
    from mechc.verify.balls.oracle import Oracle

    rng, found = np.random.default_rng(20240229), []
    vectors = kernel_checks.vectors(declaration, 5 if full else 2, corners=full)
    for number, theta in enumerate(vectors):
        try:
            oracle = Oracle(declaration, theta)
            ends = kernel.breakpoints(np.array(theta))
            xs = kernel_checks.outputs(oracle, ends, rng, 40 if full else 12)
        except MechcError as error:
            runner("grid", "proof", 0.0, lambda check, e=error: check.fail(str(e)))  # type: ignore[misc]
            continue
        found.append(Place(oracle, xs, full or number == 0))
    further = _further(declaration, kernel, found)
    return vectors + [place.oracle.theta for place in further], found + further


def _further(declaration: Declaration, kernel: Any, known: list[Place]) -> list[Place]:
    """Places at which comparisons of the kernel are seen from their other side."""
    from mechc.verify import kernel_checks, switch_points
    from mechc.verify.balls.oracle import Oracle
    from mechc.verify.recheck.kernel import Kernel

    def tilts(theta: tuple[float, ...]) -> list[complex]:
        return kernel_checks.tilts(_strip(kernel, theta), False)[:1]

    compared = [(place.oracle.theta, place.outputs) for place in known]
    text = Kernel(_source(kernel))
    reached = switch_points.further(text, declaration.parameters, compared, tilts)
    return [Place(Oracle(declaration, theta), xs, False, True) for theta, xs in reached]


def _strip(kernel: Any, theta: tuple[float, ...]) -> tuple[float, float]:
    import numpy as np

    lo, hi = kernel.strip(np.array(theta))
    return float(lo), float(hi)


def compare(kernel: Any, where: Iterable[Place], full: bool, runner: Runner) -> None:
    """Run every check of a kernel."""
    for place in where:
        runner.nan_allowed = place.of_values
        _functions(runner, kernel, place, full)
        _identities(runner, kernel, place, full)


def _functions(runner: Runner, kernel: Any, place: Place, full: bool) -> None:
    from mechc.verify import kernel_checks
    from mechc.verify.kernel_checks import inverses

    oracle, xs, thorough = place.oracle, place.outputs, place.thorough
    continuous = oracle.measure is not Measure.FINITE
    if xs:
        for name in ("log_p", "log_q", "loss"):
            runner(
                name,
                "values",
                kernel_checks.VALUES,
                partial(kernel_checks.values, kernel, oracle, xs, name),
            )
        runner("loss_inverse", "values", kernel_checks.VALUES,
               lambda c: inverses(kernel, oracle, xs, c))  # fmt: skip
    if is_closed(kernel, "cgf"):
        zs = kernel_checks.tilts(_strip(kernel, oracle.theta), full)
        zs = zs[:1] if place.of_values else zs if thorough else zs[::2]
        runner("cgf", "values", kernel_checks.CGF,
               lambda c: kernel_checks.generating_function(kernel, oracle, zs, c))  # fmt: skip
    if xs and continuous and is_closed(kernel, "cdf"):
        shares = (0.27, 0.45, 0.61, 0.78, *((0.02, 0.12, 0.35, 0.9, 0.97) if full else ()))
        some = [xs[int(s * len(xs))] for s in (shares if thorough else (0.66,))]
        some += [x for x in (xs[0], xs[-1]) if oracle.log_density("p", x) == -math.inf]
        some += _inside_branches(kernel, oracle, xs)
        runner("cdf", "values", kernel_checks.CDF,
               lambda c: kernel_checks.distributions(kernel, oracle, some, c))  # fmt: skip


def _law(kernel: Any, text: str, where: Iterable[Place], full: bool, runner: Runner) -> None:
    """What the text says of one step's law, which no query asks, at the first vector or all."""
    from mechc.verify import kernel_checks
    from mechc.verify.recheck import Kernel

    run, runner.nan_allowed = Kernel(text), False
    for place in where:
        if place.thorough and not place.of_values:
            levels = _levels(kernel, place.oracle, place.outputs, 4 if full else 2)
            runner("law", "agreement", kernel_checks.LAW,
                   partial(kernel_checks.law_of_a_step, run, place.oracle, levels))  # fmt: skip


def _levels(kernel: Any, oracle: Oracle, xs: list[float], count: int) -> list[float]:
    """Some losses between those of outputs and of atoms; inverses lose digits next to 0."""
    import numpy as np

    theta = np.array(oracle.theta)
    out = np.empty(len(xs))
    kernel.loss_many(np.array(xs), theta, out)
    points = np.asarray(kernel.atoms(theta)).reshape(-1, 3)
    with np.errstate(invalid="ignore"):  # an outcome without mass under either law
        found = np.unique(np.append(out, points[:, 1] - points[:, 2]))
    found = found[np.isfinite(found)]
    steps = 0.5 * (found[1:] + found[:-1])[np.diff(found) > 1e-6 * np.abs(found[1:])]
    steps = steps[np.abs(steps) > 1e-3 * np.abs(steps).max(initial=0.0)]
    return [float(v) for v in steps[:: max(1, steps.size // count)][:count]]


def _inside_branches(kernel: Any, oracle: Oracle, xs: list[float]) -> list[float]:
    """An output from the middle of every branch: between them distribution functions change."""
    import numpy as np

    rows = np.asarray(kernel.branches(np.array(oracle.theta)))
    inside = [[x for x in xs if lo < x < hi] for lo, hi, *_ in rows]
    return [some[len(some) // 2] for some in inside if some]


def _identities(runner: Runner, kernel: Any, place: Place, full: bool) -> None:
    from mechc.verify import identities, kernel_checks, shape_proofs

    oracle, xs, thorough = place.oracle, place.outputs, place.thorough
    runner("infinite_mass", "values", kernel_checks.VALUES,
           lambda c: identities.one_sided(kernel, oracle, c))  # fmt: skip
    runner("atoms", "values", kernel_checks.VALUES, lambda c: identities.atoms(kernel, oracle, c))
    runner("atom_errors", "identity", 0.0, lambda c: identities.atom_errors(kernel, oracle, c))
    if place.of_values:
        return
    runner("masses", "identity", identities.WIDTH, lambda c: identities.masses(oracle, thorough, c))
    runner("lattice", "identity", identities.LATTICE,
           lambda c: identities.lattice(kernel, oracle, xs, c))  # fmt: skip
    runner("strip", "identity", 0.0, lambda c: identities.strip(kernel, oracle, c))
    if thorough:
        zs = [complex(0.375, 1.25), complex(-0.75, 0.25)][: 2 if full else 1]
        runner("reversal", "identity", 0.0,
               lambda c: identities.reversal(oracle, kernel, zs, c))  # fmt: skip
    if oracle.measure is not Measure.FINITE:
        runner("pieces", "identity", 0.0, lambda c: identities.pieces(oracle, xs, c))
        runner("coverage", "identity", identities.WIDTH,
               lambda c: identities.coverage(kernel, oracle, c))  # fmt: skip
        if shape_proofs.noise_of(oracle.declaration) is not None:
            runner("unimodal", "proof", 0.0,
                   lambda c: identities.unimodality(kernel, oracle, xs, c))  # fmt: skip
        runner("branches", "proof", 0.0, lambda c: identities.branches(kernel, oracle, xs, c))


def table(certificate: Certificate) -> Table:
    """One row for each check, with its largest error and what limits it."""
    verdict = "verified" if certificate.ok else "FAILED"
    made = Table(
        title=f"{certificate.name}: {verdict} ({certificate.level}, {certificate.seconds:.1f} s, "
        f"{len(certificate.vectors)} parameter vectors)"
    )
    for heading in ("check", "kind", "points", "largest error", "tolerance", "verdict", "remarks"):
        right = heading in ("points", "largest error", "tolerance")
        made.add_column(heading, justify="right" if right else "left", overflow="fold")
    for check in certificate.checks:
        numeric = check.kind == "values"
        made.add_row(
            check.name, check.kind, str(check.points),
            f"{check.max_error:.1e}" if numeric else "",
            f"{check.tolerance:.0e}" if numeric else "",
            "ok" if check.ok else "FAILED",
            "; ".join((*check.failures, *check.notes)),
        )  # fmt: skip
    return made
