"""The functions of an emitted kernel as text, one IR function or table at a time.

Input: a module in printable form. Output: decorated function texts in an order in which every
callee stands before its callers. Shared subexpressions are named here, and array functions get
what does not depend on x in front of their loop.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from mechc.kernel import ir
from mechc.kernel.bracketing import SIGNATURE as SOLVER
from mechc.kernel.bracketing import solver_text
from mechc.kernel.parts import Function, Inverse, Module, Root, Row, Series, Table
from mechc.kernel.passes import hoist, share, share_all
from mechc.kernel.printer import Printer, indent
from mechc.kernel.statements import commentary

WIDTH = 96
SCALAR = "float64(float64, float64[::1])"
COMPLEX = "complex128(complex128, float64[::1])"
CONSTANT = "float64(float64[::1])"
ARRAY = "void(float64[::1], float64[::1], float64[::1])"
SELECTED_ARRAY = "void(int64, float64[::1], float64[::1], float64[::1])"
TABLE = "float64[:, ::1](float64[::1])"
VECTOR = "float64[::1](float64[::1])"

SERIES = """\
total = {term}(0.0, theta)
n = 1.0
while n < 1e9:
    pair = {term}(n, theta) + {term}(-n, theta)
    total += pair
    if math.fabs(pair) <= 1e-18 * math.fabs(total):
        break
    n += 1.0
return total"""

BREAKPOINTS = """\
def breakpoints(theta):
    \"\"\"Sorted distinct ends of the branches.\"\"\"
    rows = branches(theta)
    out = np.empty(2 * rows.shape[0])
    n = 0
    for i in range(rows.shape[0]):
        for j in range(2):
            if n == 0 or rows[i, j] > out[n - 1]:
                out[n] = rows[i, j]
                n += 1
    return out[:n]"""


ADD_BRANCH = """\
def add_branch(out, n, lo, hi, kind, left, right, index):
    \"\"\"Write a branch to row n unless it is empty; return the next free row.\"\"\"
    if not lo {below} hi:
        return n
    out[n, 0], out[n, 1], out[n, 2] = lo, hi, kind
    out[n, 3], out[n, 4], out[n, 5] = left, right, index
    return n + 1"""

ADD_BRANCH_TYPE = "int64(float64[:, ::1], int64" + 6 * ", float64" + ")"


def jitted(signature: str, text: str) -> str:
    """A function text under its compile decorator."""
    decorator = f'@numba.njit("{signature}", **COMPILE)'
    if len(decorator) > WIDTH:
        decorator = f'@numba.njit(\n    "{signature}",\n    **COMPILE,\n)'
    return f"{decorator}\n{text}"


class Writer:
    """Writes the functions of one module and remembers which primitives they use."""

    def __init__(self, module: Module) -> None:
        """Prepare to write the functions of `module`."""
        self.module = module
        self.printer = Printer()

    def used(self) -> list[str]:
        """The prelude functions that were printed."""
        return list(self.printer.functions)

    def kernels(self) -> Iterator[str]:
        """Every function of the module, callees first."""
        for helper in self.module.helpers:
            yield from self._root(helper) if isinstance(helper, Root) else self._series(helper)
        for function in self.module.functions:
            yield self._scalar(function)
            if function.array:
                yield self._array(function)
        yield from self._inverses()
        below = "<=" if self.module.measure == "lattice" else "<"
        for table in self.module.tables:
            if table.name == "branches":
                yield jitted(ADD_BRANCH_TYPE, ADD_BRANCH.format(below=below))
            yield self._vector(table) if table.columns == 0 else self._table(table)
            if table.name == "branches":
                yield jitted(VECTOR, BREAKPOINTS)

    def _define(self, signature: str, head: str, doc: str, lines: Iterable[str]) -> str:
        docstring = textwrap.wrap(commentary(doc), WIDTH - 8) or [""]
        quoted = [f'"""{docstring[0]}', *docstring[1:]]
        quoted[-1] += '"""'
        return jitted(signature, "\n".join([f"def {head}:", *indent([*quoted, *lines])]))

    def _unpack(self, *blocks: ir.Block) -> list[str]:
        """Lines that name the parameters which the blocks use."""
        leaves = {
            node.name
            for block in blocks
            for expr in ir.expressions(block)
            for node in ir.walk(expr)
            if isinstance(node, ir.Param)
        }
        return [
            f"{name} = theta[{i}]" for i, name in enumerate(self.module.names) if name in leaves
        ]

    def _scalar(self, function: Function) -> str:
        body = share(function.body)
        lines = [*self._unpack(body), *self.printer.block(body, "return {}")]
        head = f"{function.name}({function.variable}, theta)".replace("(, ", "(")
        signature = SCALAR if function.variable else CONSTANT
        return self._define(COMPLEX if function.complex else signature, head, function.doc, lines)

    def _array(self, function: Function) -> str:
        lines = [*self._unpack(function.body), *self._loops(function.body, function.variable)]
        head = f"{function.name}_many({function.variable}s, theta, out)"
        return self._define(ARRAY, head, f"Write {function.name} of each element to out.", lines)

    def _loops(self, block: ir.Block, variable: str) -> Iterator[str]:
        """A loop in each parameter case, with what is free of the variable in front of it."""
        if isinstance(block.tail, ir.Chain) and not any(
            guard is not None and ir.depends_on(guard, frozenset((ir.Var(variable),)))
            for guard, _ in block.tail.arms
        ):
            yield from self.printer.chain(
                (guard, list(self._loops(arm, variable))) for guard, arm in block.tail.arms
            )
            return
        before, body = hoist(block, variable)
        for local, value in before:
            yield f"{local.name} = {self.printer(value)}"
        yield f"for i in range({variable}s.size):"
        yield from indent(
            [f"{variable} = {variable}s[i]", *self.printer.block(body, "out[i] = {}")]
        )

    def _inverses(self) -> Iterator[str]:
        if any(inverse.body is None for inverse in self.module.inverses):
            yield jitted(SOLVER, solver_text("solve_loss", "loss"))
        for inverse in self.module.inverses:
            yield self._inverse(inverse)
        yield self._inverse_many()

    def _inverse(self, inverse: Inverse) -> str:
        head = f"loss_inverse_{inverse.index}(ell, theta)"
        if inverse.body is not None:
            body = share(inverse.body)
            lines = [*self._unpack(body), *self.printer.block(body, "return {}")]
        else:
            lines = self._bracket(inverse.lo, inverse.hi)
            lines.append(
                f"return solve_loss(ell, lo, hi, {1.0 if inverse.rising else -1.0}, theta)"
            )
        return self._define(SCALAR, head, inverse.doc, lines)

    def _bracket(self, lo: ir.Block, hi: ir.Block) -> list[str]:
        lines = self._unpack(lo, hi)
        for name, block in (("lo", lo), ("hi", hi)):
            lines += self.printer.block(share(block), f"{name} = {{}}")
        return lines

    def _inverse_many(self) -> str:
        lines, keyword = [], "if"
        for inverse in self.module.inverses:
            lines += [
                f"{keyword} branch == {inverse.index}:",
                "    for i in range(ells.size):",
                f"        out[i] = loss_inverse_{inverse.index}(ells[i], theta)",
            ]
            keyword = "elif"
        rest = ["for i in range(ells.size):", "    out[i] = math.nan"]
        lines += ["else:", *indent(rest)] if lines else rest
        return self._define(
            SELECTED_ARRAY,
            "loss_inverse_many(branch, ells, theta, out)",
            "Write the inverse of each loss on one branch to out; nan on branches without one.",
            lines,
        )

    def _root(self, helper: Root) -> Iterator[str]:
        suffix = helper.name.removeprefix("root_")
        residual, solver = f"residual_{suffix}", f"solve_{suffix}"
        body = share(helper.residual)
        lines = [*self._unpack(body), *self.printer.block(body, "return {}")]
        yield self._define(SCALAR, f"{residual}(x, theta)", f"Zero at {helper.name}.", lines)
        yield jitted(SOLVER, solver_text(solver, residual))
        lines = self._bracket(helper.lo, helper.hi)
        lines.append(f"return {solver}(0.0, lo, hi, 1.0, theta)")
        yield self._define(CONSTANT, f"{helper.name}(theta)", helper.doc, lines)

    def _series(self, helper: Series) -> Iterator[str]:
        body = share(helper.term)
        lines = [*self._unpack(body), *self.printer.block(body, "return {}")]
        term = f"term_of_{helper.name}"
        yield self._define(SCALAR, f"{term}(n, theta)", f"One term of {helper.name}.", lines)
        lines = SERIES.format(term=term).splitlines()
        yield self._define(CONSTANT, f"{helper.name}(theta)", helper.doc, lines)

    def _table(self, table: Table) -> str:
        arms = []
        for guard, rows in table.cases:
            lets, values = share_all(tuple(v for row in rows for v in row.values))
            lines = [f"{local.name} = {self.printer(value)}" for local, value in lets]
            lines.append(f"out = np.empty(({len(rows)}, {table.columns}))")
            if table.name == "branches" and rows:
                lines.append("n = 0")
            for i, row in enumerate(rows):
                printed = [self.printer(v) for v in values[i * table.columns :][: table.columns]]
                lines += self._row(table, i, row, printed)
            lines.append("return out[:n]" if table.name == "branches" and rows else "return out")
            arms.append((guard, lines))
        blocks = [_block(v) for guard, rows in table.cases for row in rows for v in row.values]
        blocks += [_block(guard) for guard, _ in table.cases if guard is not None]
        params, head = self._unpack(*blocks), f"{table.name}(theta)"
        return self._define(TABLE, head, table.doc, [*params, *self.printer.chain(arms)])

    def _row(self, table: Table, i: int, row: Row, values: list[str]) -> list[str]:
        """Lines that fill one row; a branch that is empty at these parameters is skipped."""
        comment = textwrap.wrap(
            commentary(row.doc), WIDTH - 12, initial_indent="# ", subsequent_indent="#   "
        )
        if table.name != "branches":
            return [*comment, *(f"out[{i}, {j}] = {v}" for j, v in enumerate(values))]
        return [*comment, f"n = add_branch(out, n, {', '.join(values)})"]

    def _vector(self, table: Table) -> str:
        ((_, (row,)),) = table.cases
        lets, values = share_all(row.values)
        lines = [f"{local.name} = {self.printer(value)}" for local, value in lets]
        lines.append(f"return np.array([{', '.join(self.printer(v) for v in values)}])")
        params = self._unpack(*map(_block, row.values))
        return self._define(VECTOR, f"{table.name}(theta)", table.doc, [*params, *lines])


def _block(expr: ir.Expr) -> ir.Block:
    return ir.Block((), expr)
