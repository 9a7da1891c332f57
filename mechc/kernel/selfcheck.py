"""The self-check at the end of an emitted kernel: reference values and the code that compares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from mechc.errors import VerificationError
from mechc.kernel.ir import Check
from mechc.kernel.printer import literal
from mechc.protocol import Kernel

Floats = NDArray[np.float64]

NAMES = ("log_p", "log_q", "loss")
TOLERANCE = 1e-10
"""Far above what the kernels lose (1e-14 where nothing cancels), far below any wrong formula."""

CODE = '''
def self_check():
    """Return a list of (function, points, largest relative error) against CHECKS."""
    errors = {{}}
    for theta, rows in CHECKS:
        for x, *values, inverse in rows:
            asked = [(name, x, value) for name, value in zip(("log_p", "log_q", "loss"), values)]
            asked += [(f"loss_inverse_{{i}}", values[2], y) for i, y in inverse]
            for name, at, value in asked:
                if value is not None:
                    error = abs(globals()[name](at, np.array(theta)) - value)
                    error /= max(abs(value), 1e-300)
                    errors.setdefault(name, []).append(error if error == error else math.inf)
    return [(name, len(found), max(found)) for name, found in errors.items()]


if __name__ == "__main__":
    rows = self_check()
    print(f"{{NAME}} {{DIGEST}}: relative error against values to 50 digits")
    for name, points, error in rows:
        verdict = "ok" if error <= {tolerance} else "FAILED"
        print(f"  {{name:<18}} {{points:>3}} points  {{error:8.1e}}  {{verdict}}")
    raise SystemExit(any(error > {tolerance} for _, _, error in rows))
'''


def require_agreement(kernel: Kernel) -> None:
    """Hold the machine code of a kernel against the reference values in its own text.

    Asked are the array forms, which queries use: functions of one output compile when needed.
    Small values count as one: a loss may be 1e-17 where log p is 3. An inverse may also have the
    loss that it was asked for: where the loss is flat, x has few digits.

    Raises:
        VerificationError: a function differs from the declaration.
    """
    for theta, rows in getattr(kernel, "CHECKS", ()):
        at = np.array(theta)
        asked: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for x, *values, inverse in rows:
            for name, value in zip(NAMES, values, strict=True):
                if value is not None:
                    asked.setdefault((name, -1), []).append((x, value))
            for index, back in inverse:
                asked.setdefault(("loss_inverse", index), []).append((values[2], back))
        for (name, index), pairs in asked.items():
            arguments, expected = np.array(pairs).T.copy()
            found, loss = np.empty(len(pairs)), np.full(len(pairs), math.nan)
            if index >= 0:
                kernel.loss_inverse_many(index, arguments, at, found)
                kernel.loss_many(found, at, loss)
            else:
                getattr(kernel, f"{name}_many")(arguments, at, found)
            for i in np.flatnonzero(~(_agree(found, expected) | _agree(loss, arguments))):
                raise VerificationError(
                    f"{kernel.NAME}: {name}({arguments[i]!r}) at parameters {theta} is "
                    f"{found[i]!r} in the kernel and {expected[i]!r} in the declaration; the "
                    "kernel was discarded"
                )


def _agree(found: Floats, value: Floats) -> NDArray[np.bool_]:
    close: NDArray[np.bool_] = np.abs(found - value) <= TOLERANCE * np.maximum(1.0, np.abs(value))
    return close


def self_check_text(checks: Sequence[Check]) -> str:
    """The table of reference values, the comparison and the script part.

    Args:
        checks: reference values, those of one parameter vector next to each other.

    Returns:
        Source text without a final newline.
    """
    lines = [
        "# theta; x, log_p, log_q, loss, index of an inverse and the x that has this loss;",
        "# computed from the declaration to 50 digits, None where infinite",
    ]
    if not checks:
        lines.append("CHECKS = ()")
    else:
        lines.append("CHECKS = (")
        for theta, rows in groupby(checks, key=lambda check: check.theta):
            lines += [f"    ({_tuple(theta)}, (", *map(_row, rows), "    )),"]
        lines.append(")")
    return "\n".join(lines) + "\n\n" + CODE.format(tolerance=TOLERANCE).rstrip()


def _row(check: Check) -> str:
    known = (_text(v) if v is not None else "None" for v in (check.x, *check.values))
    inverse = f"(({check.inverse[0]}, {_text(check.inverse[1])}),)" if check.inverse else "()"
    return f"        ({', '.join(known)}, {inverse}),"


def _tuple(values: Sequence[float]) -> str:
    return f"({', '.join(map(_text, values))}{',' * (len(values) == 1)})"


def _text(value: float) -> str:
    return literal(value)[0]
