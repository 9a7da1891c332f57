"""The self-check at the end of an emitted kernel: reference values and the code that compares."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mechc.errors import VerificationError
from mechc.kernel.ir import Check
from mechc.kernel.printer import literal
from mechc.protocol import Kernel

Floats = NDArray[np.float64]

INVERSE = "loss_inverse_"
TOLERANCE = 1e-10
"""Far above what the kernels lose (1e-14 where nothing cancels), far below any wrong formula."""

CODE = '''
def self_check():
    """Return a list of (function, points, largest relative error) against CHECKS."""
    worst = {{}}
    for name, argument, theta, value in CHECKS:
        found = globals()[name](argument, np.array(theta))
        error = abs(found - value) / max(abs(value), 1e-300)
        points, largest = worst.get(name, (0, 0.0))
        worst[name] = points + 1, max(largest, error if error == error else math.inf)
    return [(name, points, error) for name, (points, error) in worst.items()]


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
    questions: dict[tuple[str, tuple[float, ...]], list[tuple[float, float]]] = {}
    for name, argument, theta, value in getattr(kernel, "CHECKS", ()):
        questions.setdefault((name, theta), []).append((argument, value))
    for (name, theta), rows in questions.items():
        arguments, values = np.array(rows).T.copy()
        at, found, back = np.array(theta), np.empty(len(rows)), np.full(len(rows), math.nan)
        if name.startswith(INVERSE):
            kernel.loss_inverse_many(int(name.removeprefix(INVERSE)), arguments, at, found)
            kernel.loss_many(found, at, back)
        else:
            getattr(kernel, f"{name}_many")(arguments, at, found)
        for i in np.flatnonzero(~(_agree(found, values) | _agree(back, arguments))):
            raise VerificationError(
                f"{kernel.NAME}: {name}({arguments[i]!r}) at parameters {theta} is {found[i]!r} in "
                f"the kernel and {values[i]!r} in the declaration; the kernel was discarded"
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
    lines = ["# function, argument, theta, value computed from the declaration to 50 digits"]
    lines += ["CHECKS = (", *map(_row, checks), ")"] if checks else ["CHECKS = ()"]
    return "\n".join(lines) + "\n\n" + CODE.format(tolerance=TOLERANCE).rstrip()


def _row(check: Check) -> str:
    theta = ", ".join(_text(v) for v in check.theta) + ("," if len(check.theta) == 1 else "")
    return f'    ("{check.function}", {_text(check.argument)}, ({theta}), {_text(check.value)}),'


def _text(value: float) -> str:
    return literal(value)[0]
