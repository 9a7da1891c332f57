"""Certificates: what was compared with what, where the largest error is, and what was proved.

Input: a mechanism. Output: a `Certificate`, readable JSON that an independent checker
(mechc.verify.recheck) can test again from the emitted file and the JSON alone, or a table.
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import json
import platform
import time
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rich.table import Table

from mechc import __version__
from mechc.accountants.bound import as_table
from mechc.errors import check_one_of, is_interrupt, library
from mechc.kernel import build, cache
from mechc.numeric.telling import Tell, telling
from mechc.verify.recheck import PLACES, SCHEMA, TYPICAL, VERSIONS, once, plain
from mechc.verify.recheck.kernel import STATED
from mechc.verify.result import Check

HEAD = ("check", "kind", "points", "largest error", "tolerance", "verdict", "remarks")
LEVELS = ("quick", "full")
PACKAGES = ("sympy", "numpy", "numba", "python-flint")


@dataclass(frozen=True, repr=False)
class Certificate:
    """The outcome of verifying one kernel.

    Attributes:
        name: of the mechanism.
        level: "quick" or "full".
        canonical: the declaration in canonical form (`Declaration.canonical`).
        declaration_digest: SHA-256 of `canonical`.
        kernel_digest: `DIGEST` of the kernel.
        kernel_sha256: SHA-256 of the emitted text.
        stated: constants of the kernel, its claim and parameters among them.
        vectors: parameter vectors.
        checks: outcomes, one for each function and identity.
        versions: of mechc and what it used.
        seconds: processor time.
        kept: made earlier, of this kernel and its machine code by this version (`verify`).
    """

    name: str
    level: str
    canonical: str
    declaration_digest: str
    kernel_digest: str
    kernel_sha256: str
    stated: dict[str, Any]
    vectors: tuple[tuple[float, ...], ...]
    checks: tuple[Check, ...]
    versions: dict[str, str]
    seconds: float
    kept: bool = False

    @property
    def ok(self) -> bool:
        """Every check passed."""
        return all(check.ok for check in self.checks)

    @property
    def max_rel_error(self) -> float:
        """The largest relative error of a function value."""
        return max((c.max_error for c in self.checks if c.kind == "values"), default=0.0)

    def __str__(self) -> str:
        """One line: whether it holds, and how that was checked."""
        when = "earlier, see --again" if self.kept else f"{self.seconds:.1f} s"
        return (
            f"{self.name}: {'verified' if self.ok else 'FAILED'} ({self.level}, {when}, "
            f"{len(self.vectors)} parameter vectors)"
        )

    __repr__ = __str__

    def rows(self) -> list[tuple[str, ...]]:
        """Return what `HEAD` names of every check."""
        return [
            (c.name, c.kind, str(c.points),
             f"{c.max_error:.1e}" if c.kind == "values" else "",
             f"{c.tolerance:.0e}" if c.kind == "values" else "",
             "ok" if c.ok else "FAILED", "; ".join((*c.failures, *c.notes)))
            for c in self.checks
        ]  # fmt: skip

    def _repr_html_(self) -> str:
        """Show the line and the checks in notebooks."""
        return f"<b>{html.escape(str(self))}</b>{as_table(self.rows(), HEAD)}"

    def differences(self, text: str) -> list[str]:
        """Where another certificate, as JSON, says something else: entries and names of checks.

        Processor time, and the seal that depends on it, may differ.
        """
        try:
            own, other = map(_entries, (self.to_json(), text))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return ["it is no certificate"]
        found = {key for key in {**own, **other} if own.get(key) != other.get(key)}
        return sorted(found - {"seconds", "seal"})

    def to_json(self) -> str:
        """Readable JSON with sorted keys, so that two certificates can be compared line by line.

        What the independent checker can tell stands at the top, all else under "remarks".
        """
        content = asdict(self)
        content["schema"], content["ok"] = SCHEMA, self.ok
        del content["kept"]
        remarks = {name: content.pop(name) for name in ("level", "seconds")}
        remarks["vectors"] = content["vectors"][TYPICAL:]
        content["vectors"] = content["vectors"][:TYPICAL]
        remarks["packages"] = content["versions"]
        content["versions"] = {name: remarks["packages"].pop(name) for name in VERSIONS}
        remarks["checks"] = {}
        for check, own in zip(content["checks"], self.checks, strict=True):
            check["ok"] = own.ok
            del check["far"]
            said = {name: check.pop(name) for name in ("notes", "points")}
            if not (own.name in PLACES and own.where):
                said |= {"max_error": check["max_error"], "where": check["where"]}
                check |= {"max_error": None, "where": {}}
            remarks["checks"][own.name] = said
        made = plain({**content, "remarks": remarks})
        made["seal"] = hashlib.sha256(_written(made).encode()).hexdigest()
        return _written(made) + "\n"


def _written(content: Any) -> str:
    return json.dumps(content, indent=2, sort_keys=True)


def verify(
    mechanism: Any, level: str = "quick", kernel: Any = None, *, again: bool = False,
    progress: Tell | None = None,
) -> Certificate:  # fmt: skip
    """Verify the kernel of a mechanism against its declaration.

    A certificate without failures is kept beside the kernel, for this text of it, the machine code
    that was verified, and the versions of mechc and all that it stands on; while these are the
    same, it is the answer.

    Args:
        mechanism: a `Mechanism`.
        level: "quick" (two parameter vectors, coarse grids) or "full" (ten or more, fine grids).
        kernel: a loaded kernel module to verify instead of the mechanism's own.
        again: verify, whatever is kept.
        progress: called with the name of each check that begins; by default a line says so.

    Returns:
        The certificate; `ok` says whether everything passed.

    Raises:
        UnsupportedError: python-flint is not installed.
        DeclarationError: an unknown level.
    """
    check_one_of("level", level, LEVELS)
    library("flint")
    made = mechanism.kernel if kernel is None else kernel
    text = build.source(made)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    name = cache.derived_key("certificate", mechanism.key, level, sha256, _versions())
    known: Any = None if again or kernel is not None else cache.recall(name)
    with contextlib.suppress(LookupError, TypeError, AttributeError, ValueError):  # nothing kept
        if known["code"].items() <= cache.digests(Path(made.__file__)).items():
            return _read(known["certificate"])
    with telling(f"verifying {made.NAME}", progress) as tell:
        found = _verified(mechanism, level, made, text, tell)
    if kernel is None and found.ok:
        code = cache.digests(Path(made.__file__))
        cache.keep(name, {"certificate": found.to_json(), "code": code})
    return found


def _versions() -> dict[str, str]:
    return {
        "mechc": __version__,
        **{name: metadata.version(name) for name in PACKAGES},
        "python": platform.python_version(),
    }


def _entries(text: str) -> dict[str, str]:
    """What a certificate's JSON says in each entry and of each check, remarks included."""
    content = json.loads(text, object_pairs_hook=once)
    remarks = content.pop("remarks")
    parts = [{**part, **{c["name"]: c for c in checks}} for part, checks in (
        (content, content.pop("checks")),
        (remarks, [{"name": name, **said} for name, said in remarks.pop("checks").items()]),
    )]  # fmt: skip
    return {key: _written([part.get(key) for part in parts]) for key in {**parts[0], **parts[1]}}


def _read(text: str) -> Certificate:
    """A certificate from its JSON, with its remarks where they belong."""
    content = json.loads(text)
    remarks = content.pop("remarks")
    vectors = tuple(map(tuple, content.pop("vectors") + remarks.pop("vectors")))
    content["versions"] |= remarks.pop("packages")
    said = remarks.pop("checks")
    for added in ("schema", "ok", "seal"):
        del content[added]
    checks = tuple(
        Check(**{k: v for k, v in {**check, **said[check["name"]]}.items() if k != "ok"})
        for check in content.pop("checks")
    )
    return Certificate(**content, **remarks, checks=checks, vectors=vectors, kept=True)


def _verified(
    mechanism: Any, level: str, kernel: Any, text: str, progress: Tell
) -> Certificate:  # fmt: skip
    from mechc.kernel.compiler import compile_declaration
    from mechc.kernel.emit import LAW, with_law
    from mechc.verify import checks

    started = time.process_time()
    declaration = build.compiled(mechanism.origin, mechanism.transforms)
    runner, full = checks.Runner(progress), level == "full"
    progress("emission")
    wanted = compile_declaration(declaration)
    wanted = with_law(wanted) if LAW in text else wanted
    runner("emission", "identity", 0.0, partial(emission, wanted, text))
    vectors: list[tuple[float, ...]] = []
    try:
        vectors, found = checks.places(declaration, kernel, full, runner)
        checks.compare(kernel, found, full, runner)
    except Exception as error:  # an edited kernel may do anything but answer
        if is_interrupt(error):
            raise KeyboardInterrupt from None
        reason = f"{type(error).__name__}: {error}"
        runner("grid", "proof", 0.0, lambda check: check.fail(reason))
    return Certificate(
        name=str(kernel.NAME),
        level=level,
        canonical=declaration.canonical,
        declaration_digest=declaration.digest,
        kernel_digest=str(kernel.DIGEST),
        kernel_sha256=hashlib.sha256(text.encode()).hexdigest(),
        stated={name: getattr(kernel, name, None) for name in STATED},
        vectors=tuple(vectors),
        checks=tuple(runner.checks.values()),
        versions=_versions(),
        seconds=round(time.process_time() - started, 3),
    )


def emission(wanted: str, text: str, check: Check) -> None:
    """The text of a kernel is what this version emits for the declaration, word for word.

    So are the claim, the literature, the parameters with domains and defaults, and the digest.
    """
    check.points = 1
    # by the newlines that Python ends a comment at, and no others
    lines = zip_longest(text.split("\n"), wanted.split("\n"), fillvalue="")
    for number, (found, line) in enumerate(lines, start=1):
        if found != line:
            check.fail(f"line {number}: {found.strip()[:60]!r}, emitted here {line.strip()[:60]!r}")
            return


def table(certificate: Certificate) -> Table:
    """One row for each check, with its largest error and what limits it."""
    made = Table(title=str(certificate))
    for heading in HEAD:
        right = heading in ("points", "largest error", "tolerance")
        how: Any = {"justify": "right" if right else "left", "overflow": "fold"}
        made.add_column(heading, no_wrap=heading == "check", **how)
    for row in certificate.rows():
        made.add_row(*row)
    return made
