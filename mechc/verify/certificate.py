"""Certificates: what was compared with what, where the largest error is, and what was proved.

Input: a mechanism. Output: a `Certificate`, readable JSON that an independent checker
(mechc.verify.recheck) can test again from the emitted file and the JSON alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any

from mechc.errors import DeclarationError, MechcError, UnsupportedError

if TYPE_CHECKING:
    from mechc.declare import Declaration
    from mechc.verify.result import Check

SCHEMA = 1
LEVELS = ("quick", "full")
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

    def to_json(self) -> str:
        """Readable JSON with sorted keys, so that two certificates can be compared line by line."""
        content = asdict(self)
        content["schema"], content["ok"] = SCHEMA, self.ok
        for check, own in zip(content["checks"], self.checks, strict=True):
            check["ok"] = own.ok
        return json.dumps(_plain(content), indent=2, sort_keys=True) + "\n"


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
    started = time.process_time()
    declaration = mechanism.declaration
    kernel = mechanism.kernel if kernel is None else kernel
    vectors, checks = _run(declaration, kernel, level == "full")
    text = _source(kernel)
    return Certificate(
        name=mechanism.name,
        level=level,
        canonical=declaration.canonical,
        declaration_digest=declaration.digest,
        kernel_digest=str(kernel.DIGEST),
        kernel_sha256=hashlib.sha256(text.encode()).hexdigest(),
        vectors=tuple(vectors),
        checks=tuple(checks),
        versions={
            **{name: metadata.version(name) for name in PACKAGES},
            "python": platform.python_version(),
        },
        seconds=round(time.process_time() - started, 3),
    )


def _source(kernel: Any) -> str:
    from mechc import build

    return build.source(kernel)


class _Runner:
    """Collects checks by name over all parameter vectors."""

    def __init__(self) -> None:
        self.checks: dict[str, Check] = {}

    def __call__(
        self, name: str, kind: str, tolerance: float, run: Callable[[Check], None]
    ) -> None:
        """Run one check at one vector; an error of mechc's own is a failure, not a crash."""
        from mechc.verify.result import Check

        check = self.checks.setdefault(name, Check(name, kind, tolerance))
        try:
            run(check)
        except MechcError as error:
            check.fail(f"{type(error).__name__}: {error}")


def _run(declaration: Declaration, kernel: Any, full: bool) -> tuple[list[Any], list[Check]]:
    import numpy as np

    from mechc.verify import grid
    from mechc.verify.ball import Oracle

    runner, rng = _Runner(), np.random.default_rng(20240229)
    vectors = grid.vectors(declaration, 5 if full else 2, corners=full)
    for number, theta in enumerate(vectors):
        try:
            oracle = Oracle(declaration, theta)
            ends = kernel.breakpoints(np.array(theta))
            xs = grid.outputs(oracle, ends, rng, 40 if full else 12)
        except MechcError as error:
            runner("grid", "proof", 0.0, lambda check, e=error: check.fail(str(e)))  # type: ignore[misc]
            continue
        thorough = full or number == 0
        _functions(runner, kernel, oracle, xs, full, thorough)
        _identities(runner, kernel, oracle, xs, full, thorough)
    return vectors, list(runner.checks.values())


def _functions(
    runner: _Runner, kernel: Any, oracle: Any, xs: list[float], full: bool, thorough: bool
) -> None:
    import numpy as np

    from mechc.verify import checks, grid

    continuous = oracle.measure != "finite"
    if xs:
        for name in ("log_p", "log_q", "loss"):
            runner(name, "values", checks.VALUES, partial(checks.values, kernel, oracle, xs, name))
        runner("loss_inverse", "values", checks.VALUES,
               lambda c: checks.inverses(kernel, oracle, xs, c))  # fmt: skip
    if kernel.CAPABILITIES.get("cgf", "").startswith("closed"):
        strip = tuple(float(v) for v in kernel.strip(np.array(oracle.theta)))
        zs = grid.tilts(strip, full)  # type: ignore[arg-type]
        runner("cgf", "values", checks.CGF,
               lambda c: checks.generating_function(kernel, oracle, zs, c))  # fmt: skip
    if continuous and kernel.CAPABILITIES.get("cdf", "").startswith("closed"):
        shares = (0.27, 0.45, 0.61, 0.78, *((0.02, 0.12, 0.35, 0.9, 0.97) if full else ()))
        some = [xs[int(s * len(xs))] for s in (shares if thorough else (0.38, 0.66))]
        runner("cdf", "values", checks.CDF,
               lambda c: checks.distributions(kernel, oracle, some, c))  # fmt: skip


def _identities(
    runner: _Runner, kernel: Any, oracle: Any, xs: list[float], full: bool, thorough: bool
) -> None:
    from mechc.verify import checks, identities

    runner("masses", "identity", identities.WIDTH, lambda c: identities.masses(oracle, c))
    runner("infinite_mass", "values", checks.VALUES,
           lambda c: identities.one_sided(kernel, oracle, c))  # fmt: skip
    runner("atoms", "values", checks.VALUES, lambda c: identities.atoms(kernel, oracle, c))
    runner("lattice", "identity", identities.LATTICE,
           lambda c: identities.lattice(kernel, oracle, xs, c))  # fmt: skip
    runner("strip", "identity", 0.0, lambda c: identities.strip(kernel, oracle, c))
    if thorough:
        zs = [complex(0.375, 1.25), complex(-0.75, 0.25)][: 2 if full else 1]
        runner("reversal", "identity", 0.0,
               lambda c: identities.reversal(oracle, kernel, zs, c))  # fmt: skip
    if oracle.measure != "finite":
        runner("pieces", "identity", 0.0, lambda c: identities.pieces(oracle, xs, c))
        runner("coverage", "identity", identities.WIDTH,
               lambda c: identities.coverage(kernel, oracle, c))  # fmt: skip
        runner("branches", "proof", 0.0, lambda c: identities.branches(kernel, oracle, xs, c))
