"""Common subexpressions get a name; what does not depend on x leaves the loop.

`share` works within one guard: an operation is named where it is first certainly evaluated, never
in front of a guard or a `Select` that might protect it, but for ends of intervals, which are chosen
among parameters and protect nothing. `hoist` moves expressions in parameters
alone out of the loop of an array function. That may evaluate one that its guard would have
skipped, which costs a little time and nothing else: kernels are compiled without exceptions.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from mechc.kernel import ir
from mechc.kernel.ir import Block, Expr

LEAVES = (ir.Number, ir.Constant, ir.Param, ir.Var, ir.Local)

LARGE = 11  # nodes that a part of an expression may have before it gets a line of its own

Lets = tuple[tuple[ir.Local, Expr], ...]


@lru_cache(maxsize=64)
def share(block: Block, ends: int = 0) -> Block:
    """Name every operation that occurs twice within one guard, and parts of long lines.

    Also the choices among parameters alone that guards compare with, of which `ends` have names.
    """
    if not isinstance(block.tail, ir.Chain):
        lets, (tail,) = share_all((block.tail,))
        return Block((*block.lets, *lets), tail)
    choices = {
        node
        for guard, _ in block.tail.arms
        for node in ir.walk(guard or ir.ZERO)
        if isinstance(node, ir.Select) and not any(isinstance(n, ir.Var) for n in ir.walk(node))
    }
    names: dict[Expr, ir.Local] = {}
    for value in sorted(
        choices | _common(block.tail), key=lambda value: (_size(value), repr(value))
    ):
        names[ir.replaced(value, names)] = ir.Local(f"u{ends + len(names)}")
    arms = tuple(
        (
            guard and ir.replaced(guard, names),
            share(ir.map_block(arm, lambda e: ir.replaced(e, names)), ends + len(names)),
        )
        for guard, arm in block.tail.arms
    )
    lets = tuple((name, value) for value, name in names.items())
    return Block((*block.lets, *lets), ir.Chain(arms))


def _common(chain: ir.Chain) -> set[Expr]:
    """The largest operations that all arms of a chain are certain to evaluate."""
    blocks = [arm for _, arm in chain.arms if not arm.lets]
    values = [block.tail for block in blocks if not isinstance(block.tail, ir.Chain)]
    if chain.arms[-1][0] is not None or not 1 < len(values) == len(chain.arms):
        return set()
    found = [set[Expr]() for _ in values]
    for value, certain in zip(values, found, strict=True):
        _count(value, Counter(), certain)
    kept: dict[Expr, ir.Local] = {}
    for node in sorted(set.intersection(*found), key=lambda node: (-_size(node), repr(node))):
        if any(node in ir.walk(value) for value in values):
            kept[node] = ir.Local(f"kept{len(kept)}")
            values = [ir.replaced(value, {node: kept[node]}) for value in values]
    return set(kept)


@lru_cache(maxsize=2**16)
def _size(expr: Expr) -> int:
    return 1 + sum(map(_size, ir.children(expr)))


def share_all(values: tuple[Expr, ...]) -> tuple[Lets, tuple[Expr, ...]]:
    """Assignments for what is shared among values that are all evaluated, and the values then."""
    sharer = _Sharer(values)
    rewritten = tuple(map(sharer.value, values))
    return tuple(sharer.take()), rewritten


class _Sharer:
    """Rewrites expressions, collecting an assignment for each operation worth a name.

    Worth a name are operations used twice, the bases of integer powers, and parts so large that
    the line would be hard to read. `named` are operations that get a name from elsewhere.
    """

    def __init__(
        self, values: tuple[Expr, ...], prefix: str = "t", named: tuple[Expr, ...] = ()
    ) -> None:
        self.prefix = prefix
        self.names: dict[Expr, ir.Local] = {}
        self._lets: list[tuple[ir.Local, Expr]] = []
        self._count = 0
        uses: Counter[Expr] = Counter()
        self._certain: set[Expr] = set()
        for value in values:
            _count(value, uses, self._certain)
        twice = {node for node, times in uses.items() if times > 1}
        powers = {node.base for node in self._certain if isinstance(node, ir.IntPow)}
        self._wanted = ((twice | powers) & self._certain) - set(named)

    def take(self) -> list[tuple[ir.Local, Expr]]:
        """The assignments made since the last call."""
        taken, self._lets = self._lets, []
        return taken

    def value(self, expr: Expr) -> Expr:
        """A whole value, which has a name where it is a part of others, or another value."""
        return self._part(expr) if expr in self._wanted else self.rewrite(expr)

    def rewrite(self, expr: Expr) -> Expr:
        """The expression in terms of the named operations."""
        if expr in self.names:
            return self.names[expr]
        return ir.rebuild(expr, tuple(self._part(arg) for arg in ir.children(expr)))

    def _part(self, expr: Expr) -> Expr:
        """A part of an expression, or the name it deserves."""
        renewed = self.rewrite(expr)
        large = expr in self._certain and _size(renewed) > LARGE
        if isinstance(renewed, ir.Local) or not (large or expr in self._wanted):
            return renewed
        local = ir.Local(f"{self.prefix}{self._count}")
        self._count += 1
        self.names[expr] = local
        self._lets.append((local, renewed))
        return local


def _count(expr: Expr, uses: Counter[Expr], certain: set[Expr], sure: bool = True) -> None:
    """Count operations; `certain` are those evaluated whatever a `Select` decides."""
    if isinstance(expr, LEAVES):
        return
    if not isinstance(expr, ir.Neg):
        uses[expr] += 1
        seen = uses[expr] > 1 and (expr in certain or not sure)
        if sure:
            certain.add(expr)
        if seen:
            return
    for i, arg in enumerate(ir.children(expr)):
        _count(arg, uses, certain, sure and not (isinstance(expr, ir.Select) and i > 0))


def hoist(block: Block, variable: str) -> tuple[Lets, Block]:
    """Assignments of what depends on parameters alone, to run before a loop, and its body."""
    moving, names = frozenset((ir.Var(variable),)), dict[Expr, ir.Local]()

    def named(expr: Expr) -> Expr:
        """The expression with its largest operations free of the variable named."""
        if _is_plain(expr):
            return expr
        if isinstance(expr, ir.Neg):
            return ir.Neg(named(expr.arg))
        if not ir.depends_on(expr, moving):
            if not _calls(expr):  # which compilers take out of loops themselves
                return expr
            return names.setdefault(expr, ir.Local(f"c{len(names)}"))
        args = ir.children(expr)
        free = [arg for arg in args if not ir.depends_on(arg, moving)]
        if isinstance(expr, (ir.Add, ir.Mul)) and len(free) > 1 and any(map(_calls, free)):
            bound, one = tuple(arg for arg in args if arg not in free), type(expr)(tuple(free))
            args = (*bound, one) if isinstance(expr, ir.Add) else (one, *bound)
        return ir.rebuild(expr, tuple(map(named, args)))

    ir.map_block(block, named)
    # smaller ones first, so that larger ones can use their names
    ordered = tuple(sorted(names, key=_size))
    names.clear()
    names.update((value, ir.Local(f"c{i}")) for i, value in enumerate(ordered))
    body = ir.map_block(block, named)
    sharer = _Sharer(ordered, "s", ordered)
    before: list[tuple[ir.Local, Expr]] = []
    for value, name in names.items():
        renewed = sharer.rewrite(value)
        before.extend([*sharer.take(), (name, renewed)])
        sharer.names[value] = name
    return tuple(before), share(body)


def _calls(expr: Expr) -> bool:
    """Whether it is more than arithmetic."""
    return any(isinstance(node, (ir.Call, ir.Helper, ir.Pow, ir.Select)) for node in ir.walk(expr))


def _is_plain(expr: Expr) -> bool:
    return isinstance(expr.arg if isinstance(expr, ir.Neg) else expr, LEAVES)
