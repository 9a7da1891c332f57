"""Modified Bessel functions of many neighbouring orders at one argument, in ball arithmetic.

I_{n-1}(u) = I_{n+1}(u) + (2 n/u) I_n(u) downwards adds positive numbers only, so that relative
errors grow by a rounding or two with each step: a block of orders costs two evaluations.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from flint import arb, ctx

BLOCK = 64
LARGEST = 2**40  # order up to which neighbours are kept
GUARD_BITS = 12


def bessel_i(order: Any, u: Any) -> Any:
    """I_order(u), orders that are whole numbers by blocks."""
    if not (isinstance(u, arb) and u > 0 and order.is_integer() and abs(order) < LARGEST):
        return u.bessel_i(order)
    n = abs(int(order.unique_fmpz()))
    return +_block(n // BLOCK, u.mid().man_exp(), u.rad().man_exp(), ctx.prec)[n % BLOCK]


@lru_cache(maxsize=2048)
def _block(number: int, middle: Any, radius: Any, bits: int) -> list[Any]:
    """I_n(u) for the orders n of one block, u given by the words of its ball."""
    with ctx.workprec(bits + GUARD_BITS):
        u = arb(middle, radius)
        top = (number + 1) * BLOCK
        above, here = u.bessel_i(arb(top)), u.bessel_i(arb(top - 1))
        found = [here]
        for n in range(top - 1, number * BLOCK, -1):
            above, here = here, above + 2 * n / u * here
            found.append(here)
        return found[::-1]
