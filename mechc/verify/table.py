"""A certificate as a table for people."""

from __future__ import annotations

from rich.table import Table

from mechc.verify.certificate import Certificate


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
