"""What kernels share, as one text: special functions, root finders, series, rows of branches.

python tests/problems/shared_functions.py     # digests for SHARED of mechc.verify.recheck.kernel
"""

import textwrap

from mechc.kernel import ir
from mechc.kernel.emit import (
    ADD_BRANCH,
    ADD_BRANCH_TYPE,
    BREAKPOINTS,
    LOG_MASS,
    LOG_MASS_TYPE,
    SOLVER,
    VECTOR,
    Writer,
    solver_text,
)
from mechc.kernel.ir import Module, Series
from mechc.kernel.law import law_text
from mechc.kernel.prelude import PRIMITIVES, closure
from mechc.kernel.statements import DECORATOR, IMPORTS, SELF_CHECK, jitted
from mechc.protocol import Measure
from mechc.verify.recheck import Kernel


def texts():
    """Each text with a function that kernels share."""
    term, zero = (ir.Block((), e) for e in (ir.Var("n"), ir.ZERO))
    series, between = Series("sum_0", "", term), Series("sum_0", "", term, (zero, zero))
    nothing = dict.fromkeys(Module.__dataclass_fields__, ())
    summing = [
        text
        for total in (series, between)
        for text in Writer(Module(**{**nothing, "helpers": (total,)})).kernels()
        if "def series_0(" in text
    ]
    yield from (p.text for p in closure(PRIMITIVES))
    yield from (jitted(VECTOR, BREAKPOINTS), jitted(LOG_MASS_TYPE, LOG_MASS), *summing)
    for measure in Measure:
        below = "<=" if measure is Measure.LATTICE else "<"
        branches = jitted(ADD_BRANCH_TYPE, ADD_BRANCH.format(below=below))
        yield f'MEASURE = "{measure}"\n\n\n{branches}\n\n\n{law_text(measure)}'
    yield jitted(SOLVER, solver_text("solve_loss", "loss"))
    yield DECORATOR
    yield f"{IMPORTS}\n\n\n{SELF_CHECK}"


def digests():
    """The digests of all of them."""
    return {digest for text in texts() for digest in Kernel(text).fingerprints.values()}


if __name__ == "__main__":
    print(textwrap.indent(textwrap.fill(" ".join(sorted(digests())), 96), "    "))
