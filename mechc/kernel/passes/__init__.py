"""IR to IR: the passes that make a frozen expression accurate, then cheap, then printable.

    frozen [Block] -> stability -> [stable] -> arithmetic -> [printable] -> sharing -> [Block with
    temporaries], and for array functions -> hoisting -> [temporaries free of x outside the loop]

Each pass keeps the function the same in exact arithmetic. Canonical form on the way out: no `Pow`
with a constant integer exponent, no negative powers, every repeated operation named once within
its guard.
"""

from mechc.kernel.ir import Block, Expr, map_block
from mechc.kernel.passes.arithmetic import arithmetic
from mechc.kernel.passes.sharing import hoist, share, share_all
from mechc.kernel.passes.stability import stabilise

__all__ = ["finish", "finish_expression", "hoist", "share", "share_all"]


def finish(block: Block) -> Block:
    """Make a frozen block accurate and printable.

    Args:
        block: guards and expressions as `lower` made them, without assignments.

    Returns:
        The block in printable form, ready for `share` or `hoist`.
    """
    return map_block(block, finish_expression)


def finish_expression(expr: Expr) -> Expr:
    """Make one frozen expression accurate and printable."""
    return arithmetic(stabilise(expr))
