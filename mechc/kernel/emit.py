"""KernelIR module in, the text of one Python module out.

The text holds only the statements of `statements`, in the form that `protocol` describes: header,
constants, prelude, kernels, self-check, seal, and one step's law where it is asked for. Every
callee stands before its callers; shared subexpressions have names, and array functions have what
does not depend on x in front of their loop. Equal modules give equal text; `DIGEST` is a digest of
all of it, versions included.
"""

from __future__ import annotations

import hashlib
import json
import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from itertools import groupby

from mechc import __version__
from mechc.errors import InternalError
from mechc.kernel import ir
from mechc.kernel.cache import MARK, seal
from mechc.kernel.ir import Check, Function, Module, Series, Table
from mechc.kernel.law import law_text
from mechc.kernel.passes.sharing import hoist, share, share_all
from mechc.kernel.prelude import closure
from mechc.kernel.printer import Printer, indent, literal
from mechc.kernel.statements import (
    DECORATOR,
    IMPORTS,
    SELF_CHECK,
    commentary,
    jitted,
    refusal,
)
from mechc.protocol import PROTOCOL, Measure

WIDTH = 96  # characters of an emitted line
LAW = "\ndef edgeworth_terms("
CHECKS = "# theta; x, log_p, log_q, loss, index of an inverse and the x that has this loss;"
SCALAR = "float64(float64, float64[::1])"
COMPLEX = "complex128(complex128, float64[::1])"
CONSTANT = "float64(float64[::1])"
BETWEEN = "float64(float64, float64, float64[::1])"
ARRAY = "void(float64[::1], float64[::1], float64[::1])"
SELECTED_ARRAY = "void(int64, float64[::1], float64[::1], float64[::1])"
SOLVER = "float64(float64, float64, float64, float64, float64[::1])"
TABLE = "float64[:, ::1](float64[::1])"
VECTOR = "float64[::1](float64[::1])"

# of a long sum the first terms may be too small for doubles: nothing but zeros says nothing,
# and where they are again, further out, there is another mode; sums that cancel are nothing
SERIES = """\
n, total, size = lo, 0.0, 0.0
while n <= hi:
    here = {term}(n, theta)
    total += here
    size += math.fabs(here)
    if not math.fabs(here) > 1e-18 * math.fabs(total) and n > lo + (65536.0 if total else 1e7):
        while n < min(hi, 1e16):
            n += math.floor(0.03 * (n - lo)) + 1.0
            if math.fabs({term}(n, theta)) > 1e-18 * math.fabs(total) and n <= hi:
                return math.nan
        return total if size < 1e3 * math.fabs(total) else math.nan
    n += 1.0
return total if size <= 1e3 * math.fabs(total) else math.nan"""

# where terms fall like powers, by Euler and Maclaurin, if twice as many terms change nothing
ENDLESS_SERIES = """\
n, look, total, before, last, size = lo, max(lo, 0.0) + 4096.0, 0.0, math.nan, 0.0, 0.0
while n < 1e8:
    here = {term}(n, theta)
    total += here
    size += math.fabs(here)
    if not math.fabs(here) > 1e-18 * math.fabs(total) and n > lo + (1000.0 if total else 1e7):
        while n < 1e16:
            n += math.floor(0.03 * (n - lo)) + 1.0
            if math.fabs({term}(n, theta)) > 1e-18 * math.fabs(total):
                return math.nan
        return total if size < 1e3 * math.fabs(total) else math.nan
    n += 1.0
    if n == look:
        if here == last != 0.0:
            return math.nan
        look, last = 2.0 * look, here
        if 0.0 < n * (here - {term}(n, theta)) < 64.0 * here:
            whole = total + {tail}(n, theta)
            if math.fabs(whole - before) <= 1e-14 * whole and size < 1e3 * whole:
                return whole
            before = whole
return math.nan"""

TAIL = """\
a, total = n - 0.5, ({term}(n, theta) - {term}(n - 1.0, theta)) / 24.0
for k in range(-80, 105):
    away = a * math.exp({half_pi} * math.sinh(k / 16.0))
    total += {term}(a + away, theta) * away * {half_pi} / 16.0 * math.cosh(k / 16.0)
return total"""

# numba cannot pass functions cheaply, so the root finder is emitted around the one it solves. It
# always converges: infinite ends are approached geometrically, then Chandrupatla's method (Adv.
# Eng. Software 28, 1997), which bisects wherever interpolation is not trusted
SOLVE = '''\
def {name}(level, lo, hi, rising, theta):
    """Return x in (lo, hi) with {function}(x, theta) = level; rising is 1.0 or -1.0."""
    a, b, step, outside, turns = lo, hi, 1.0, 0.0, 0
    x1, f1, x2, f2, x3, f3, t = b, math.inf, a, -math.inf, a, -math.inf, 0.5
    while turns < 1200:
        far = 1.0 if math.isinf(b) else -1.0 if math.isinf(a) else 0.0
        if far == 0.0:
            # Chandrupatla: x1 is the latest point, x2 lies across the root, x3 is the one before
            x = x1 + t * (x2 - x1)
            turns += 1
        elif math.isinf(a) and math.isinf(b):
            x = 0.0
        else:
            x = a + step if far > 0.0 else b - step
            step *= 16.0
            if math.isinf(x):
                return x
        f = rising * ({function}(x, theta) - level)
        if far != 0.0:
            if math.isnan(f) and step > 1.0:
                # so far out that the function has no value: the root is nearer
                f = outside = far
            if f >= 0.0:
                b = x
            else:
                a = x
            x1, x2, x3 = b, a, a
            continue
        if f == 0.0 or (math.isnan(f) and outside == 0.0):
            return x + f
        if math.isnan(f):
            f = outside * math.inf
        if (f > 0.0) == (f1 > 0.0):
            x3, f3 = x1, f1
        else:
            x3, f3, x2, f2 = x2, f2, x1, f1
        x1, f1 = x, f
        shortest = 2.3e-16 * math.fabs(x1) / math.fabs(x2 - x1)
        if not shortest < 0.5:
            break
        xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
        t = 0.5
        if phi * phi < xi and (1.0 - phi) * (1.0 - phi) < 1.0 - xi:
            t = f1 / (f2 - f1) * f3 / (f2 - f3)
            t += (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
        t = min(max(t, shortest), 1.0 - shortest)
    return x1 if math.fabs(f1) < math.fabs(f2) else x2
'''

BREAKPOINTS = """\
def breakpoints(theta):
    \"\"\"Sorted distinct ends of the branches.\"\"\"
    return np.unique(branches(theta)[:, :2])"""


ADD_BRANCH = """\
def add_branch(out, n, lo, hi, kind, left, right, index):
    \"\"\"Write a branch to row n unless it is empty; return the next free row.\"\"\"
    if not lo {below} hi:
        return n
    out[n, 0], out[n, 1], out[n, 2] = lo, hi, kind
    out[n, 3], out[n, 4], out[n, 5] = left, right, index
    return n + 1"""

LOG_MASS = """\
def log_mass(x, column, rows):
    \"\"\"Log mass at x, of P in column 1, of Q in column 2; -inf where no atom is.\"\"\"
    for i in range(rows.shape[0]):
        if rows[i, 0] == x:
            return rows[i, column]
    return -math.inf"""

LOG_MASS_TYPE = "float64(float64, int64, float64[:, ::1])"
ADD_BRANCH_TYPE = f"int64(float64[:, ::1], int64{6 * ', float64'})"


def solver_text(name: str, function: str) -> str:
    """The text of `name`, which solves `function(x, theta) = level` where it is monotone."""
    return SOLVE.format(name=name, function=function)


class Writer:
    """Writes the functions of one module and remembers which primitives they use."""

    def __init__(self, module: Module) -> None:
        """Prepare to write the functions of `module`."""
        self.module = module
        self.is_list = module.measure is Measure.FINITE  # read once: not worth machine code
        self.printer = Printer()

    def kernels(self) -> Iterator[str]:
        """Every function of the module, callees first."""
        for helper in self.module.helpers:
            yield from self._series(helper)
        first = [table for table in self.module.tables if self.is_list and table.name == "atoms"]
        for table in first:  # whose masses are read from it
            yield from (self._table(table), jitted(LOG_MASS_TYPE, LOG_MASS, plain=True))
        for function in self.module.functions:
            yield self._scalar(function)
            if function.array:
                yield self._array(function)
        yield from self._inverses()
        below = "<=" if self.module.measure is Measure.LATTICE else "<"
        for table in self.module.tables:
            if table in first:
                continue
            if self._skips(table):
                yield jitted(ADD_BRANCH_TYPE, ADD_BRANCH.format(below=below), plain=True)
            yield self._table(table)
            if table.name == "branches":
                yield jitted(VECTOR, BREAKPOINTS, plain=True)

    def _define(
        self, signature: str, head: str, doc: str, lines: Iterable[str], *, plain: bool = False
    ) -> str:
        docstring = textwrap.wrap(commentary(doc), WIDTH - 8) or [""]
        quoted = [f'"""{docstring[0]}', *docstring[1:]]
        quoted[-1] += '"""'
        text = "\n".join([f"def {head}:", *indent([*quoted, *lines])])
        return jitted(signature, text, plain=plain)

    def _unpack(self, *blocks: ir.Block) -> list[str]:
        """Lines that name the parameters which the blocks use."""
        leaves = {
            node.name
            for block in blocks
            for expr in ir.expressions(block)
            for node in ir.walk(expr)
            if isinstance(node, ir.Param)
        }
        places = {name: f"theta[{i}]" for i, name in enumerate(self.module.names) if name in leaves}
        line = f"{', '.join(places)} = {', '.join(places.values())}"
        if len(line) < WIDTH - 4:
            return [line] * bool(places)
        return [f"{name} = {place}" for name, place in places.items()]

    def _returned(self, block: ir.Block) -> list[str]:
        """Lines that return the value of a block."""
        body = share(block)
        return [*self._unpack(body), *self.printer.block(body, "return {}")]

    def _scalar(self, function: Function) -> str:
        lines = self._returned(function.body)
        head = f"{function.name}({function.variable}, theta)".replace("(, ", "(")
        if not function.variable:
            return self._define(CONSTANT, head, function.doc, lines, plain=True)
        if function.complex:
            return self._define(COMPLEX, head, function.doc, lines)
        return self._define(SCALAR, head, function.doc, lines, plain=self.is_list)

    def _array(self, function: Function) -> str:
        body, tail, plain = function.body, function.body.tail, self.is_list
        if isinstance(tail, ir.Call) and tail.args[1:] == (ir.Local("theta"),):  # another, moved
            place = self.printer(ir.replaced(tail.args[0], {ir.Var("x"): ir.Local("xs")}))
            lines = [f"out[:] = {place}", f"{tail.name}_many(out, theta, out)"]
            plain = True
        else:
            lines = list(self._loops(body, function.variable))
        head = f"{function.name}_many({function.variable}s, theta, out)"
        doc = f"Write {function.name} of each element to out."
        return self._define(ARRAY, head, doc, [*self._unpack(body), *lines], plain=plain)

    def _loops(self, block: ir.Block, variable: str) -> Iterator[str]:
        """A loop in each parameter case, with what is free of the variable in front of it."""
        if isinstance(block.tail, ir.Chain) and not _switches(block.tail, variable):
            yield from self.printer.chain(
                (guard, list(self._loops(arm, variable))) for guard, arm in block.tail.arms
            )
            return
        before, body = hoist(block, variable)
        for local, value in before:
            yield f"{local.name} = {self.printer(value)}"
        yield f"for i in range({variable}s.size):"
        x, element = ir.Var(variable), ir.Local(f"{variable}s[i]")
        once = sum(node == x for expr in ir.expressions(body) for node in ir.walk(expr)) == 1
        if once:
            body = ir.map_block(body, lambda e: ir.replaced(e, {x: element}))
        assigned = [] if once else [f"{variable} = {element.name}"]
        yield from indent([*assigned, *self.printer.block(body, "out[i] = {}")])

    def _inverses(self) -> Iterator[str]:
        """The inverse on each branch, then on any."""
        if any(inverse.body is None for inverse in self.module.inverses):
            yield jitted(SOLVER, solver_text("solve_loss", "loss"))
        for inverse in self.module.inverses:
            name, body = f"loss_inverse_{inverse.index}", inverse.body
            if body is not None:
                lines = self._returned(body)
                loop = [*self._unpack(body), *self._loops(body, "ell")]
            else:
                ends = self._bracket(inverse.lo, inverse.hi)
                found = f"solve_loss({{}}, lo, hi, {1.0 if inverse.rising else -1.0}, theta)"
                lines = [*ends, f"return {found.format('ell')}"]
                loop = [
                    *ends,
                    "for i in range(ells.size):",
                    f"    out[i] = {found.format('ells[i]')}",
                ]
            yield self._define(SCALAR, f"{name}(ell, theta)", inverse.doc, lines)
            doc = f"Write {name} of each element to out."
            yield self._define(ARRAY, f"{name}_many(ells, theta, out)", doc, loop)
        arms: list[tuple[ir.Expr | None, list[str]]] = [
            (
                ir.Compare("==", ir.Var("branch"), ir.Local(str(inverse.index))),
                [f"loss_inverse_{inverse.index}_many(ells, theta, out)"],
            )
            for inverse in self.module.inverses
        ]
        arms.append((None, ["out[:] = math.nan"]))
        head = "loss_inverse_many(branch, ells, theta, out)"
        doc = "Write the outputs of a branch that have these losses to out; nan without an inverse."
        yield self._define(SELECTED_ARRAY, head, doc, self.printer.chain(arms), plain=True)

    def _bracket(self, lo: ir.Block, hi: ir.Block) -> list[str]:
        lines = self._unpack(lo, hi)
        for name, block in (("lo", lo), ("hi", hi)):
            lines += self.printer.block(share(block), f"{name} = {{}}")
        return lines

    def _series(self, helper: Series) -> Iterator[str]:
        series = helper.name.replace("sum_", "series_")
        term, lines, ends = f"term_of_{series}", self._returned(helper.term), helper.ends
        about = f"One term of {helper.name}."
        if ends is None:
            yield self._define(SCALAR, f"one_of_{series}(n, theta)", about, lines)
            about = f"The terms of {helper.name} at n and -n."
            ends = ir.Block((), ir.ZERO), ir.Block((), ir.INF)
            one = f"one_of_{series}(n, theta)"
            lines = [f"return {one} + {one.replace('(n', '(-n')} if n > 0.0 else {one}"]
        yield self._define(SCALAR, f"{term}(n, theta)", about, lines)
        text, tail = SERIES, f"tail_of_{series}"
        if ends[1].tail == ir.INF:
            text, doc = ENDLESS_SERIES, f"The terms of {helper.name} from n on, if they are smooth."
            lines = TAIL.format(term=term, half_pi=1.5707963267948966).splitlines()
            yield self._define(SCALAR, f"{tail}(n, theta)", doc, lines)
        doc = f"The terms of {helper.name} from lo to hi."
        lines = text.format(term=term, tail=tail).splitlines()
        yield self._define(BETWEEN, f"{series}(lo, hi, theta)", doc, lines)
        lines = [*self._bracket(*ends), f"return {series}(lo, hi, theta)"]
        yield self._define(CONSTANT, f"{helper.name}(theta)", helper.doc, lines)

    def _table(self, table: Table) -> str:
        """A function that returns rows; branches that are empty at some parameters are skipped."""
        head, skipping, arms = f"{table.name}(theta)", self._skips(table), []
        for guard, rows in table.cases:
            lets, values = share_all(tuple(v for row in rows for v in row.values))
            lines = [f"{local.name} = {self.printer(value)}" for local, value in lets]
            printed = [self.printer(value) for value in values]
            end = "return out[:n]" if skipping else "return out"
            if table.columns == 0:
                end = f"return np.array([{', '.join(printed)}])"
            elif rows and (skipping or len(rows) > 1):
                lines.append(f"out = np.empty(({len(rows)}, {table.columns}))")
                lines += ["n = 0"] * skipping
            else:
                end = f"return np.empty((0, {table.columns}))"
            for i, row in enumerate(rows if table.columns else ()):
                here = ", ".join(printed[i * table.columns :][: table.columns])
                where = ", ".join(f"out[{i}, {j}]" for j in range(table.columns))
                if len(table.cases) > 1 or table.name != "branches":  # these are all of BRANCHES
                    lines += textwrap.wrap(commentary(row.doc), WIDTH - 4, initial_indent="# ",
                                           subsequent_indent="#   ")  # fmt: skip
                if skipping:
                    lines.append(f"n = add_branch(out, n, {here})")
                elif len(rows) > 1:
                    lines.append(f"{where} = {here}")
                else:
                    end = f"return np.array([[{here}]])"
            arms.append((guard, [*lines, end]))
        blocks = [_block(v) for _, rows in table.cases for row in rows for v in row.values]
        blocks += [_block(guard) for guard, _ in table.cases if guard is not None]
        lines = [*self._unpack(*blocks), *self.printer.chain(arms)]
        return self._define(TABLE if table.columns else VECTOR, head, table.doc, lines, plain=True)

    def _skips(self, table: Table) -> bool:
        """Whether a row of a table may be empty; a branch beside which there is none never is."""
        return table.name == "branches" and any(len(rows) > 1 for _, rows in table.cases)


def _switches(chain: ir.Chain, variable: str) -> bool:
    """Whether guards depend on the variable."""
    at = frozenset((ir.Var(variable),))
    return any(guard is not None and ir.depends_on(guard, at) for guard, _ in chain.arms)


def _block(expr: ir.Expr) -> ir.Block:
    return ir.Block((), expr)


def emit(module: Module) -> str:
    """Write a kernel module.

    Returns:
        The source text. Running it as a script checks it against its reference values.

    Raises:
        InternalError: the text would hold other statements than a kernel does.
    """
    writer = Writer(module)
    kernels = list(writer.kernels())
    prelude = [p.text for p in closure(writer.printer.functions)]
    body = _joined(DECORATOR, *prelude, *kernels, _checks(module.checks), SELF_CHECK)
    header, constants = _header(module), _constants(module)
    digest = _digest(header, constants, body)
    text = f'{header}\n\n{IMPORTS}\n\nDIGEST = "{digest}"\n{constants}\n\n\n{body}\n'
    stranger = refusal(text)
    if stranger is not None:
        raise InternalError(f"{module.name}: the emitted text is no kernel: {stranger}")
    return seal(text)


def with_law(text: str) -> str:
    """A sealed text with one step's law before its checks: cumulants, masses of cells, delta."""
    measure = text.partition('\nMEASURE = "')[2].partition('"')[0]
    law, (kernels, mark, checks) = law_text(Measure(measure)), text.partition(CHECKS)
    if LAW in text:
        return text
    text = f"{kernels}{_joined(law)}\n\n{mark}{checks}".rpartition(MARK)[0]
    before, stated, rest = text.partition('DIGEST = "')
    return seal(f"{before}{stated}{digest_of(seal(text))}{rest[16:]}")


def _joined(*parts: str) -> str:
    return "\n\n\n".join(parts).replace("\n\n\n", "\n\n")


def digest_of(text: str) -> str:
    """Return what `DIGEST` of a sealed text has to be."""
    header, _, rest = text.rpartition(MARK)[0].partition(f"\n\n{IMPORTS}\n\nDIGEST = ")
    constants, _, body = rest.partition("\n")[2].partition("\n\n\n")
    return _digest(header, constants, body.removesuffix("\n"))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _header(module: Module) -> str:
    """The module docstring: what this is, its formulas, versions and cost."""
    operations = sum(ir.count_operations(share(f.body)) for f in module.functions)
    versions = f"mechc {__version__}, sympy {metadata.version('sympy')}"
    lines = [
        f"{module.name}: {module.about or 'a pair (P, Q).'}",
        "",
        f"Emitted by {versions}, kernel protocol {PROTOCOL}; do not edit.",
        f"Operations in the scalar functions: {operations}.",
        f"Parameters: theta = ({', '.join(module.names)}), in this order.",
        "Arrays are contiguous and of doubles; f_many writes f(x, theta) of each x of xs to out.",
        "",
        *_wrapped(module.formulas),
    ]
    return "\n".join(['"""' + "\n".join(map(commentary, lines)), '"""'])


def _wrapped(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        indentation = " " * (len(line) - len(line.lstrip()) + 4)
        yield from textwrap.wrap(line, WIDTH, subsequent_indent=indentation)


def _constants(module: Module) -> str:
    values = {
        "PROTOCOL": PROTOCOL,
        "NAME": module.name,
        "MEASURE": str(module.measure),
        "SYMMETRIC": module.symmetric,
        "BRANCHES": module.branches,
        "CAPABILITIES": module.capabilities,
        "CLAIM": module.claim,
        "REFS": module.refs,
        "ABOUT": module.about,
    }
    lines = [f"{name} = {_pretty(value)}" for name, value in values.items()]
    lines.insert(4, "# name, lo, hi, lo open, hi open, integer, default, typical range")
    rows = [f"    {_plain(row)}," for row in module.parameters]
    lines.insert(5, "\n".join(["PARAMETERS = (", *rows, ")"]))
    return "\n".join(lines)


def _pretty(value: object, indentation: float = 0) -> str:
    """A constant as text: one line if it fits, otherwise one entry a line."""
    if isinstance(value, dict):
        entries = [f"{_pretty(k)}: {_pretty(v, indentation + 4)}" for k, v in value.items()]
        opening, closing = "{", "}"
    elif isinstance(value, tuple):
        entries = [_pretty(v, indentation + 4) for v in value]
        opening, closing = "(", ",)" if len(value) == 1 else ")"
    elif isinstance(value, str):
        # quoted, in ASCII, with one escape a character: JSON has two beyond 16 bits
        return json.dumps(value, ensure_ascii=False).encode("ascii", "backslashreplace").decode()
    else:
        return literal(value)[0] if isinstance(value, float) else repr(value)
    line = f"{opening}{', '.join(entries)}{closing}"
    if len(line) + indentation < WIDTH - 20:
        return line
    outer = " " * int(indentation)
    lines = "".join(f"{outer}    {entry},\n" for entry in entries)
    return f"{opening}\n{lines}{outer}{closing[-1]}"


def _plain(value: object) -> str:
    return _pretty(value, -math.inf)


def _checks(checks: Sequence[Check]) -> str:
    """The reference values, those of one parameter vector next to each other."""
    lines = []
    for theta, rows in groupby(checks, key=lambda check: check.theta):
        lines += [f"    ({_plain(theta)}, (", *map(_check, rows), "    )),"]
    return "\n".join([
        CHECKS,
        "# computed from the declaration to 50 digits, None where infinite or unknown",
        *(["CHECKS = (", *lines, ")"] if lines else ["CHECKS = ()"]),
    ])  # fmt: skip


def _check(check: Check) -> str:
    return f"        {_plain((check.x, *check.values, *(check.inverse or (None, None))))},"
