"""The self-check at the end of an emitted kernel: reference values and the code that compares."""

from __future__ import annotations

from collections.abc import Sequence

from mechc.kernel.parts import Check
from mechc.kernel.printer import literal

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
