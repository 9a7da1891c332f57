"""A small independent checker: re-verifies a certificate from the emitted file and the JSON alone.

Nothing of the compiler and no ball arithmetic: the declaration is rebuilt from its canonical text
against a whitelist of SymPy names and evaluated with mpmath; the kernel's functions are run as
plain Python, no statement of the file besides them. What it tests, and what it takes on trust, is
in docs/verification.md.

    python -m mechc.verify.recheck KERNEL.py CERTIFICATE.json [DECLARATION]

DECLARATION is the SHA-256 of the canonical text of a declaration you know, or a file with it:
without it, nothing says which declaration the two files speak of.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mpmath

from mechc.verify.recheck.kernel import SHARED, STATED, VALUES, Kernel, sha256

if TYPE_CHECKING:
    from mechc.verify.recheck.declaration import Pair

__all__ = ["SHARED", "Kernel", "main", "recheck"]

SCHEMA = 5  # of certificates
PROTOCOL = 2  # of kernels
TYPICAL = 4  # vectors of a certificate, the first ones, at which nothing is refused
VERSIONS = ("mechc", "sympy")  # that a kernel states too
KINDS = {
    **dict.fromkeys((*VALUES, "loss_inverse", "cgf", "cdf", "atoms", "infinite_mass"), "values"),
    **dict.fromkeys(("lattice", "strip", "symmetry", "pieces", "coverage"), "identity"),
    "emission": "identity",
    **dict.fromkeys(("branches", "unimodal"), "proof"),
}
BRANCHES = {"branches", "pieces"}  # of a pair that is not a few outcomes
NEEDED = KINDS.keys() - BRANCHES - {"cgf", "cdf", "unimodal"}
# tolerances of checks: where the variable stands in a special function, and elsewhere
TOLERANCES = {
    **dict.fromkeys(KINDS, (0.0, 0.0)),
    **dict.fromkeys((*VALUES, "loss_inverse", "atoms"), (1e-13, 1e-14)),
    **dict.fromkeys(("cgf", "cdf"), (1e-13, 1e-13)),
    **dict.fromkeys(("lattice", "coverage"), (1e-12, 1e-12)),
    "infinite_mass": (1e-14, 1e-14),
}
# what the place of a largest error is made of, where it is looked at again
PLACES = {
    **{name: {"theta", "x", "found", "enclosure"} for name in VALUES},
    "loss_inverse": {"theta", "loss", "branch", "found"},
}
ALL = {
    *("name", "canonical", "declaration_digest", "kernel_digest", "kernel_sha256", "stated"),
    *("vectors", "checks", "versions", "schema", "ok", "remarks", "seal"),
}
REMARKS = {"level", "seconds", "vectors", "packages", "checks"}
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
ENTRIES = {"name", "kind", "tolerance", "max_error", "where", "failures", "ok"}  # of a check


def recheck(
    kernel_path: str | Path, certificate: str | Path, declaration: str | None = None
) -> list[str]:
    """Return what is wrong; an empty list is success.

    Args:
        kernel_path: the emitted module.
        certificate: the JSON file.
        declaration: digest of the canonical text that is meant, or path of a file that holds it.
    """
    from mechc.verify.recheck.comparison import compared
    from mechc.verify.recheck.declaration import Pair

    try:
        text = Path(kernel_path).read_text("utf-8")
        content = json.loads(Path(certificate).read_text("utf-8"), object_pairs_hook=once)
        kernel, pair = Kernel(text), Pair(content["canonical"])
        problems = _digests(text, content, declaration) + _identity(kernel, pair, content)
        problems += _claims(kernel, pair, content) + kernel.oddities()
        return problems or compared(kernel, pair, content)
    except (
        LookupError, TypeError, AttributeError, ValueError, SyntaxError, ArithmeticError,
        RuntimeError, MemoryError, OSError,
    ) as error:  # fmt: skip
        return [f"not a certificate of a kernel: {type(error).__name__}: {error}"]


def once(rows: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, in which nothing is said twice."""
    if len(found := dict(rows)) != len(rows):
        raise ValueError("an entry stands there twice")
    return found


def _digests(text: str, content: dict[str, Any], declaration: str | None) -> list[str]:
    problems = []
    if sha256(text) != content["kernel_sha256"]:
        problems.append("the kernel file is not the one that was certified")
    digest = sha256(content["canonical"])
    if digest != content["declaration_digest"]:
        problems.append("the declaration does not have the digest stated")
    if declaration is not None and digest != declaration:
        known = Path(declaration)
        if not known.is_file() or known.read_text("utf-8").strip() != content["canonical"]:
            problems.append("the certificate is for another declaration")
    rest = {k: v for k, v in content.items() if k != "seal"}
    if sha256(json.dumps(rest, indent=2, sort_keys=True)) != content["seal"]:
        problems.append("the certificate has been edited: its seal is broken")
    return problems


def _identity(kernel: Kernel, pair: Pair, content: dict[str, Any]) -> list[str]:
    """Whether certificate, kernel and declaration speak of the same thing."""
    stamp = ", ".join(f"{name} {content['versions'][name]}" for name in VERSIONS) + ","
    expected = {
        "entries": content.keys() == ALL,
        "name": content["name"] == kernel["NAME"],
        "measure": pair.measure == kernel["MEASURE"],
        "kernel_digest": content["kernel_digest"] == kernel["DIGEST"] == kernel.digest,
        "parameters": [row[1:6] for row in kernel["PARAMETERS"]] == pair.domains,
        "schema": content["schema"] == SCHEMA,
        "versions": stamp in kernel.about and content["versions"].keys() == {*VERSIONS},
        "stated": content["stated"] == {name: plain(kernel[name]) for name in STATED},
        "protocol": kernel["PROTOCOL"] == PROTOCOL,
    }
    wrong = [name for name, right in expected.items() if not right]
    return [f"{name}: not that of the kernel and its declaration" for name in wrong]


def plain(value: Any) -> Any:
    """A constant as JSON holds it."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _claims(kernel: Kernel, pair: Pair, content: dict[str, Any]) -> list[str]:
    """Whether each check that is needed is there and says what such a check says."""
    checks = {c["name"]: c for c in content["checks"]}
    needed = {*NEEDED, *(name for name in ("cgf", "cdf") if kernel.offers(name))}
    needed |= set() if kernel["MEASURE"] == "finite" else BRANCHES
    needed |= {"unimodal"} if kernel["CLAIM"].get("theorem") == "T1" else set()
    problems = [f"{name} has not been checked" for name in sorted(needed - checks.keys())]
    problems += [f"{name} is no check" for name in sorted(checks.keys() - KINDS.keys())]
    if len(checks) != len(content["checks"]):
        problems.append("a check stands there twice")
    for name, check in ((n, c) for n, c in checks.items() if n in KINDS):
        where, error, tolerance = check["where"], check["max_error"], check["tolerance"]
        if check["failures"] != [] or check["ok"] is not True or float(error or 0) > tolerance:
            problems.append(f"{name} failed")
        if check["kind"] != KINDS[name] or tolerance != TOLERANCES[name][not pair.is_special]:
            problems.append(f"{name}: of another kind, or the tolerance is wider than any needs")
        if check.keys() != ENTRIES or where.keys() != (PLACES.get(name, set()) if where else set()):
            problems.append(f"{name}: entries that are not those of such a check")
        if where and not (float(error) >= 0.0 and kernel.admits(where["theta"])):
            problems.append(f"{name}: the largest error is {error} at {where['theta']}")
        if not where and (error is not None or name in VALUES):
            problems.append(f"{name}: the place of its largest error is missing")
    remarks, vectors = content["remarks"], [tuple(map(float, v)) for v in content["vectors"]]
    if remarks.keys() != REMARKS or remarks["checks"].keys() != checks.keys():
        problems.append("remarks that are not those of a certificate")
    problems += _vectors(kernel, vectors, remarks)
    if content["ok"] is not True:
        problems.append("the verdict is not that of the checks")
    return problems


def _vectors(
    kernel: Kernel, vectors: list[tuple[float, ...]], remarks: dict[str, Any]
) -> list[str]:
    """Whether these, and what is remarked, are those that the ranges of the kernel lead to."""
    rows, full = kernel["PARAMETERS"], remarks["level"] == "full"
    ends = list(itertools.product(*(map(float, row[7]) for row in rows)))
    drawn = _drawn([(row[5], *row[7]) for row in rows], 5 if full else 2)
    corners = ends[:8] if full else [ends[k * len(ends) // 3] for k in range(3)]
    usual = [*dict.fromkeys([*drawn, *corners])][:TYPICAL]
    more = [tuple(map(float, v)) for v in remarks["vectors"]]
    problems = []
    if vectors[: len(usual)] != usual or not len({*vectors}) == len(vectors) <= TYPICAL:
        problems.append(f"{len(vectors)} parameter vectors, not those that the ranges lead to")
    if not all(map(kernel.admits, [*vectors, *more])):
        problems.append("a parameter vector is outside the domain")
    return problems


def _drawn(ranges: list[tuple[bool, float, float]], how_many: int) -> list[tuple[float, ...]]:
    """Parameter vectors of a Kronecker sequence in typical ranges, of which some are integers."""
    found = []
    with mpmath.workprec(53):
        for index in range(1, how_many + 1):
            vector = []
            for j, (whole, *ends) in enumerate(ranges):
                lo, hi = map(mpmath.mpf, ends)
                share = index * (j + 1) * mpmath.sqrt(PRIMES[j % len(PRIMES)]) % 1
                value = lo * (hi / lo) ** share if lo > 0 else lo + (hi - lo) * share
                vector.append(float(mpmath.nint(value) if whole else value))
            found.append(tuple(vector))
    return found


def unchecked(kernel: Kernel) -> str:
    """What a kernel says that nothing here derives, in a line."""
    claim = kernel["CLAIM"]
    said = ", ".join(f"{word} {claim.get(word)!r}" for word in ("status", "theorem", "adjacency"))
    defaults = [f"{row[0]}={row[6]!r}" for row in kernel["PARAMETERS"] if row[6] is not None]
    return (
        f"not checked: the claim ({said}), its words, names, references, and defaults "
        f"({', '.join(defaults) or 'none'}), and the certificate's remarks; mechc verify derives "
        "them where it knows the mechanism"
    )


def main(arguments: list[str]) -> int:
    """Command line: print what is wrong, else what was not checked; exit code 0 if nothing is."""
    if len(arguments) not in (2, 3):
        sys.stderr.write(
            "usage: python -m mechc.verify.recheck KERNEL.py CERTIFICATE.json [DECLARATION]\n"
        )
        return 2
    found = recheck(*arguments)
    problems = ["".join(c if c.isprintable() else "?" for c in problem) for problem in found]
    if not problems:
        words = unchecked(Kernel(Path(arguments[0]).read_text("utf-8")))
        problems = ["re-verified", "".join(c if c.isprintable() else "?" for c in words)]
    sys.stdout.write("\n".join(problems) + "\n")
    return 1 if found else 0
