"""IR to IR: the passes that make a frozen expression accurate, then cheap, then printable.

    frozen -> stability -> stable -> factored, arithmetic -> printable -> lift -> choices as if/else
    -> sharing -> temporaries; for array functions also -> hoisting -> loop-free parts in front

Each pass keeps the function the same in exact arithmetic. Canonical form on the way out: no `Pow`
with a constant integer exponent, no negative powers, every repeated operation named once within
its guard.
"""

from functools import lru_cache

from mechc.kernel.ir import Block, Expr, map_block
from mechc.kernel.passes.arithmetic import arithmetic, factored
from mechc.kernel.passes.guards import lift
from mechc.kernel.passes.sharing import hoist, share, share_all
from mechc.kernel.passes.stability import stabilise

__all__ = ["finish", "finish_expression", "hoist", "share", "share_all"]


def finish(block: Block) -> Block:
    """Make a frozen block, without assignments, accurate and printable."""
    return lift(map_block(block, finish_expression))


@lru_cache(maxsize=4096)  # of several forms of a formula one is printed
def finish_expression(expr: Expr) -> Expr:
    """Make one frozen expression accurate and printable."""
    return arithmetic(factored(stabilise(expr)))
