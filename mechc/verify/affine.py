"""Integrals of exponentials of affine functions in closed form, on balls."""

from __future__ import annotations

from typing import Any

from flint import acb


def exponential_integral(k: Any, c: Any, lo: Any, hi: Any) -> Any:
    """int_lo^hi exp(kx + c) dx, None where it is not decided."""
    if lo.is_finite() and hi.is_finite():
        middle, half = (lo + hi) / 2, (hi - lo) / 2
        return (k * middle + c).exp() * 2 * half * (acb(0, 1) * k * half).sinc()
    if hi.is_finite() and k.real > 0:
        return (k * hi + c).exp() / k
    if lo.is_finite() and k.real < 0:
        return -(k * lo + c).exp() / k
    return None
