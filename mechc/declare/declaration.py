"""The words of a mechanism file, and the declaration they build.

A declaration is an ordered pair (P, Q) on one output variable: densities on the line or an
interval, masses on the integers, masses on a finite set, or densities with point masses. P is the
output law with the record present and Q the law without it; the reversed pair belongs to the "add"
direction, unless it is declared separately (`reverse`).

    from sympy import Abs, exp
    from mechc.declare import additive, positive, real

    x, scale, sensitivity = real("x"), positive("scale"), positive("sensitivity", default=1)
    laplace = additive("laplace", noise=exp(-Abs(x) / scale) / (2 * scale), variable=x,
                       sensitivity=sensitivity, parameters=(scale, sensitivity))

Nothing is derived here. `mechc.calculus` takes the expressions apart and checks them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any

import sympy as sp
from sympy import Basic, Expr, S, Symbol, oo
from sympy.core.function import AppliedUndef

from mechc.adjacency import Adjacency, Claim
from mechc.declare import transforms
from mechc.declare.integrals import integrated, with_constants
from mechc.declare.transforms import Transform
from mechc.errors import DeclarationError, as_flag, listed, public
from mechc.protocol import Measure
from mechc.symbolic.facts import facts_of
from mechc.symbolic.functions import shape
from mechc.symbolic.parameters import (
    Parameter,
    ParameterSymbol,
    as_length,
    check_variable,
    check_words,
    count,
    described_parameters,
    integer,
    numbers,
    parameter,
    positive,
    probabilities,
    probability,
    rate,
    real,
)
from mechc.symbolic.signs import proved

SPECIAL = (
    sp.erf, sp.erfc, sp.gamma, sp.loggamma, sp.besseli, sp.besselk, sp.zeta, sp.Heaviside,
)  # fmt: skip
"""Of SymPy's special functions, those that kernels compute."""

Masses = tuple[tuple[Expr, Expr, Expr], ...]


class Reader:
    """Turns what a file says into exact SymPy expressions in plain symbols, or says why not."""

    def __init__(self, name: str, variable: Symbol, parameters: tuple[Parameter, ...]) -> None:
        """Read for the mechanism `name`, in `variable` and `parameters`."""
        self.name = name
        self.variable = variable
        self.plain: dict[Basic, Symbol] = {ParameterSymbol(p): p.symbol for p in parameters}
        self.symbols = {p.symbol for p in parameters}
        self.facts = facts_of(parameters)

    def expression(self, label: str, value: Any, support: tuple[Expr, Expr] = (-oo, oo)) -> Expr:
        """`value` in the variable and the parameters, constants of shapes put in."""
        read = self._read(label, value, self.symbols | {self.variable})
        if not read.has(shape):
            return read
        where = f"{self.name}: {label}"
        found = with_constants(read, self.variable, support, self.facts, where)
        return _with_named_indices(found)

    def constant(self, label: str, value: Any) -> Expr:
        """`value` in the parameters alone."""
        return self._read(label, value, self.symbols)

    def ends(self, support: tuple[Any, Any]) -> tuple[Expr, Expr]:
        """The two ends of a support, in order."""
        pair = listed(f"{self.name}: support", support, "its two ends", 2)
        lo, hi = (self.constant("support", end) for end in pair)
        order = -1 if hi == -oo or lo == oo else proved(hi - lo, self.facts)
        if order == -1 or (order == 0 and not self.variable.is_integer):
            raise DeclarationError(
                f"{self.name}: support=({lo}, {hi}) is empty (expected the lower "
                "end, then the upper one)"
            )
        return lo, hi

    def atoms(self, atoms: Sequence[tuple[Any, Any, Any]]) -> Masses:
        """Point masses; every row must have a place and two masses."""
        found = []
        for row in listed(f"{self.name}: atoms", atoms, "a list of (x, mass_p, mass_q)"):
            x, p, q = listed(f"{self.name}: atom", row, "(x, mass_p, mass_q)", 3)
            found.append(tuple(self.constant("atoms", value) for value in (x, p, q)))
        return tuple(found)

    def _read(self, label: str, value: Any, allowed: set[Symbol]) -> Expr:
        where = f"{self.name}: {label}"
        try:
            read = sp.sympify(value, strict=True).xreplace(self.plain)
        except (TypeError, ValueError, AttributeError):
            read = None
        if not isinstance(read, Expr):
            raise DeclarationError(f"{where}={value!r} is not an expression")
        read = _with_named_indices(read.xreplace({f: exact(f) for f in read.atoms(sp.Float)}))
        read = read.replace(sp.beta, lambda a, b: sp.gamma(a) * sp.gamma(b) / sp.gamma(a + b))
        varies = {i for i in read.atoms(sp.Integral) if self.variable in i.free_symbols}
        read = read.xreplace({i: integrated(i, self.facts) for i in varies})
        for call in sorted(read.atoms(sp.Function), key=str):
            special = ".special." in (type(call).__module__ or "") or call.func is sp.LambertW
            if special and not isinstance(call, SPECIAL):
                known = ", ".join(function.__name__ for function in SPECIAL)
                raise DeclarationError(
                    f"{where} uses {call}, which no kernel can compute; of special functions, "
                    f"{known} and beta may stand here"
                )
        for sum_ in sorted(read.atoms(sp.Sum, sp.Product, sp.Integral, sp.Derivative), key=str):
            if self.variable in sum_.free_symbols:
                raise DeclarationError(
                    f"{where} uses {sum_}, which no kernel can compute; a Sum may stand in a "
                    f"constant, free of {self.variable}, and an Integral where SymPy knows what "
                    "it is; otherwise write that"
                )
        if read.has(sp.nan, sp.zoo, sp.I):
            raise DeclarationError(f"{where}={read} is not a real number or expression")
        unknown = {str(u) for u in read.atoms(AppliedUndef)}
        unknown |= {_described(s, allowed) for s in read.free_symbols - allowed}
        if unknown:
            raise DeclarationError(
                f"{where} uses {', '.join(sorted(unknown))}; known here are "
                f"{', '.join(sorted(map(str, allowed))) or 'no symbols'}"
            )
        return read


def _with_named_indices(expr: Expr) -> Expr:
    """Give indices and variables of integration names that are equal in every process."""
    # A `Dummy` is numbered by the process that made it, which no digest may depend on.
    taken = {s.name for s in expr.free_symbols}

    def renamed(total: sp.Sum) -> sp.Sum:
        inner = len(total.function.atoms(sp.Sum))
        names = {}
        for i, symbol in enumerate(total.bound_symbols):
            letter, kind = ("k", "integer") if i < len(total.limits) else ("x", "real")
            name = f"{letter}_{inner + i}"
            while name in taken:
                name += "_"
            names[symbol] = Symbol(name, **{kind: True})
        return total.xreplace(names)

    return expr.replace(lambda e: isinstance(e, sp.Sum), renamed)


def exact(number: sp.Float) -> Expr:
    """The rational number that a float literal was written as, e.g. 0.1 -> 1/10."""
    return sp.Rational(repr(float(number))) if number.is_finite else S(number)


def _described(symbol: Symbol, allowed: set[Symbol]) -> str:
    """An unknown symbol in words: most often a second symbol of a known name."""
    if str(symbol) in {str(s) for s in allowed}:
        return f"another symbol named {symbol} (made by a different call)"
    return str(symbol)


__all__ = [
    "Adjacency", "Claim", "Declaration", "Derived", "Moves", "Parameter", "Poisson", "Shift",
    "additive", "count", "dominates", "integer", "lists", "mechanism", "numbers", "parameter",
    "positive", "probabilities", "probability", "rate", "real", "shape",
]  # fmt: skip


@dataclass(frozen=True)
class Shift:
    """The pair is one noise at two places: P = noise(x - sensitivity), Q = noise(x).

    Attributes:
        noise: the density or mass.
        sensitivity: the distance.
        group: number of records in which neighbours differ; None for one.
    """

    noise: Expr
    sensitivity: Expr
    group: Expr | None = None


@dataclass(frozen=True)
class Poisson:
    """The pair is `base` with every record kept with probability `rate`."""

    base: Declaration
    rate: Symbol
    adjacency: Adjacency

    @property
    def step(self) -> Transform:
        """The transformation that was applied."""
        return transforms.Poisson(self.adjacency)


@dataclass(frozen=True)
class Moves:
    """The pair is that of a query which moves up by a random distance.

    Attributes:
        base: the noise, perhaps on a sample.
        step: the transformation that was applied to it.
        moves: the distances, in words.
        group: number of records in which neighbours differ, in digits; "" for one.
    """

    base: Declaration
    step: Transform
    moves: str
    group: str = ""


@dataclass(frozen=True)
class Derived:
    """The pair was made from that of `base`, and dominates because that one does.

    Attributes:
        base: what it was made from.
        step: the transformation that was applied to it.
        theorem: by which theorem (see mechc.calculus.claims); None when no theorem covers the step.
        adjacency: neighbouring relation the new pair is for; "any" for that of the base.
        conditions: what was checked on the way, in words.
        assumptions: what must be true besides, in words.
    """

    base: Declaration
    step: Transform
    theorem: str | None
    adjacency: Adjacency
    conditions: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Declaration:
    """An ordered pair (P, Q) as its author wrote it.

    Attributes:
        name: name of the mechanism.
        variable: output variable; integer for a lattice.
        parameters: in the order in which kernels take them.
        measure: a density, masses on the integers, or atoms alone.
        p: density or mass of P at `variable`; 0 on a finite set.
        q: the same for Q.
        support: both are zero outside; a lattice includes both ends.
        atoms: (x, mass under P, mass under Q).
        reverse: the pair of the "add" direction when it is not (Q, P).
        about: one sentence for people.
        refs: literature.
        claim: what the author asserts; None asserts nothing.
        construction: how the pair was built, where a theorem can use it.
        tag: law of an index that the output also tells, the last parameter of p and q; both laws
            have the same index.
        of_length: for parameters that are lists, the same declaration for another length.
    """

    name: str
    variable: Symbol
    parameters: tuple[Parameter, ...]
    measure: Measure
    p: Expr
    q: Expr
    support: tuple[Expr, Expr]
    atoms: Masses = ()
    reverse: Declaration | None = None
    about: str = ""
    refs: tuple[str, ...] = ()
    claim: Claim | None = None
    construction: Shift | Poisson | Moves | Derived | None = field(default=None, compare=False)
    tag: Declaration | None = None
    of_length: Callable[[int], Declaration] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse such a claim at once."""
        self.check_claim()

    def check_claim(self) -> None:
        """Refuse a claim that says more than an author can assert.

        Copies and pickles may have been given one since they were made.

        Raises:
            DeclarationError: it is not a declared one.
        """
        if self.claim is None:
            return
        if not isinstance(self.claim, Claim):
            raise DeclarationError(
                f"{self.name}: claim={self.claim!r} is not a Claim, see dominates()"
            )
        if self.claim.status != "declared":
            raise DeclarationError(
                f"{self.name}: claim={self.claim!r}: only what mechc has checked is proven; "
                "declare the pair by dominates(adjacency, because=...)"
            )
        sizes = set(filter(None, self.claim.group.split("*")))
        if unknown := [w for w in sizes - {p.name for p in self.parameters} if not w.isdecimal()]:
            raise DeclarationError(
                f"{self.name}: group={self.claim.group!r} of a claim: {unknown[0]} is no number, "
                "and no parameter"
            )

    @property
    def symbols(self) -> set[Symbol]:
        """The variable and the parameters."""
        return {self.variable, *(p.symbol for p in self.parameters)}

    def check_symbols(self) -> None:
        """Refuse a copy with formulas that nobody has read, of other symbols."""
        formulas = [self.p, self.q, *self.support, *(e for row in self.atoms for e in row)]
        used = set().union(*(getattr(f, "free_symbols", set()) for f in formulas))
        if unknown := {_described(symbol, self.symbols) for symbol in used - self.symbols}:
            raise DeclarationError(f"{self.name} uses {', '.join(sorted(unknown))}")

    @cached_property
    def canonical(self) -> str:
        """The mathematics alone, with variable and parameters renumbered.

        Names, defaults, typical ranges and prose are left out: two declarations with equal text
        have the same densities and the same domains, parameter by parameter.
        """
        numbered = {
            p.symbol: Symbol(f"theta_{i}", **p.symbol._assumptions_orig)
            for i, p in enumerate(self.parameters)
        }
        numbered[self.variable] = Symbol("x_", **self.variable._assumptions_orig)
        parts: list[str] = [self.measure]
        parts += [sp.srepr(e.xreplace(numbered)) for e in (self.p, self.q, *self.support)]
        parts += [sp.srepr(e.xreplace(numbered)) for atom in self.atoms for e in atom]
        parts += [repr(p.info[1:6]) for p in self.parameters]
        parts += [self.reverse.canonical] if self.reverse else []
        parts += [f"tag {self.tag.canonical}"] if self.tag else []
        return "\n".join(parts)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `canonical`, in hexadecimal."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()


@public
def mechanism(
    name: str,
    *,
    variable: Symbol | None = None,
    p: Any = 0,
    q: Any = 0,
    parameters: Iterable[Symbol] = (),
    support: tuple[Any, Any] = (-oo, oo),
    lattice: bool = False,
    outcomes: Sequence[tuple[Any, Any]] = (),
    atoms: Sequence[tuple[Any, Any, Any]] = (),
    reverse: Any = None,
    tag: tuple[Symbol, Any, tuple[Any, Any]] | None = None,
    about: str = "",
    refs: Iterable[str] = (),
    claim: Claim | None = None,
) -> Declaration:
    """Declare a pair by its two densities, its masses, or its finite set of outcomes.

    Args:
        name: name of the mechanism.
        variable: output variable from `real` or `integer`; not needed with `outcomes`.
        p: density (lattice: mass) of the output with the record present.
        q: the same without the record.
        parameters: all parameter symbols, in order.
        support: ends outside which both are zero; a lattice includes them.
        lattice: p and q are masses on the integers.
        outcomes: a finite set instead of p and q: (mass under P, mass under Q) for each outcome.
        atoms: point masses beside the density: (x, mass under P, mass under Q).
        reverse: (p, q) of the "add" direction where it is not the reversed pair, or outcomes.
        tag: (m, mass of m, ends of m) for an index that the output tells besides the variable, and
            that has the same law under P and Q; m is an integer parameter, the last one, and p and
            q are the masses given m.
        about: one sentence for people.
        refs: literature.
        claim: which mechanism the pair dominates, see `dominates`.

    Raises:
        DeclarationError: unknown symbols, clashing names, nan, or values of the wrong type.
    """
    refs = listed(f"{name}: refs", refs, "a list of words")
    check_words(name, about, refs)
    described = described_parameters(name, parameters)
    outcomes = listed(f"{name}: outcomes", outcomes, "pairs of masses")
    lattice = as_flag(f"{name}: lattice", lattice)
    if outcomes:
        if variable is not None or p != 0 or q != 0 or lattice or atoms:
            raise DeclarationError(f"{name}: outcomes stand alone, without variable, p, q, atoms")
        variable = Symbol("x", integer=True)
        rows = (listed(f"{name}: outcome", row, "(mass_p, mass_q)", 2) for row in outcomes)
        atoms = [(i, *row) for i, row in enumerate(rows)]
        support = (0, len(atoms) - 1)
    check_variable(name, variable, lattice or bool(outcomes), described)
    reader = Reader(name, variable, described)
    ends = reader.ends(support)
    return Declaration(
        name=name,
        variable=variable,
        parameters=described,
        measure=(Measure.FINITE if outcomes else Measure.LATTICE if lattice else Measure.DENSITY),
        p=reader.expression("p", p, ends),
        q=reader.expression("q", q, ends),
        support=ends,
        atoms=reader.atoms(atoms),
        reverse=_reverse(
            name,
            reverse,
            parameters,
            bool(outcomes),
            variable=variable,
            support=support,
            lattice=lattice,
        ),
        tag=None if tag is None else _tag(name, tag, described),
        about=about,
        refs=refs,
        claim=claim,
    )


@public
def additive(
    name: str,
    *,
    noise: Any,
    variable: Symbol,
    sensitivity: Any,
    parameters: Iterable[Symbol],
    support: tuple[Any, Any] = (-oo, oo),
    lattice: bool = False,
    about: str = "",
    refs: Iterable[str] = (),
    claim: Claim | None = None,
) -> Declaration:
    """Declare noise added to a query: P = noise(x - sensitivity), Q = noise(x).

    Args:
        name: name of the mechanism.
        noise: density (lattice: mass) of the noise at `variable`.
        variable: output variable from `real` or `integer`.
        sensitivity: how far the query moves; an integer parameter or integer for a lattice.
        parameters: all parameter symbols, in order, the sensitivity among them.
        support: ends outside which the noise is zero; a lattice includes them.
        lattice: the noise lives on the integers.
        about: one sentence for people.
        refs: literature.
        claim: overrides what mechc derives from the shape of the noise (theorem T1).

    Raises:
        DeclarationError: as `mechanism`, or a sensitivity that is not positive.
    """
    parameters = listed(f"{name}: parameters", parameters, "a list of them")
    described = described_parameters(name, parameters)
    check_variable(name, variable, lattice, described)
    reader = Reader(name, variable, described)
    lo, hi = reader.ends(support)
    density = reader.expression("noise", noise, (lo, hi))
    shift = reader.constant("sensitivity", sensitivity)
    if not (shift.is_positive or shift.is_nonnegative):
        raise DeclarationError(f"{name}: sensitivity={shift} is not a positive number or parameter")
    if lattice and not shift.is_integer:
        raise DeclarationError(f"{name}: sensitivity={shift} is not an integer; on a lattice use "
                               'count("sensitivity", default=1)')  # fmt: skip
    density = sp.Piecewise((density, sp.And(lo <= variable, variable <= hi)), (0, True))
    made = mechanism(
        name, variable=variable, p=density.subs(variable, variable - shift), q=density,
        parameters=parameters, lattice=lattice, about=about, refs=refs, claim=claim,
    )  # fmt: skip
    return replace(made, construction=Shift(density, shift))


@dataclass(frozen=True)
class OfLength:
    """The declarations of one mechanism for lists of any length."""

    build: Callable[[int], Declaration]

    def __call__(self, wanted: int) -> Declaration:
        """Return the declaration for a length."""
        return replace(self.build(wanted), of_length=self)

    def __deepcopy__(self, memo: dict[int, Any]) -> OfLength:
        """Return itself, as it never changes."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where it is found: `lists` put the declaration in the place of the function."""
        return _of_length_at, (self.build.__module__, self.build.__qualname__)


def _of_length_at(module: str, name: str) -> Any:
    """The declarations of which one stands under a name of a module."""
    return getattr(import_module(module), name).of_length


@public
def lists(*, length: int) -> Callable[[Callable[[int], Declaration]], Declaration]:
    """Declare a mechanism some of whose parameters are lists, made by `numbers`.

    Decorates a function that builds the declaration for a given length; its name becomes the
    declaration for `length`, and values of other lengths are accepted where it is used.

    Args:
        length: the length that is compiled when none is given.
    """

    def build(of_length: Callable[[int], Declaration]) -> Declaration:
        return OfLength(of_length)(as_length("lists", length))

    return build


@public
def dominates(adjacency: Adjacency | str, *, because: str) -> Claim:
    """Assert that the pair dominates the mechanism: recorded, printed, and not checked.

    Args:
        adjacency: the neighbouring relation for which it does; "any" for the relation that the
            parameters refer to.
        because: the theorem or argument, in words.
    """
    return Claim("declared", None, Adjacency.of(adjacency), assumptions=(because,))


def _reverse(
    name: str, reverse: Any, parameters: Iterable[Symbol], finite: bool, **same: Any
) -> Declaration | None:
    """The separately declared pair of the "add" direction."""
    if reverse is None:
        return None
    if finite:
        return mechanism(f"{name} (add)", outcomes=reverse, parameters=parameters)
    p, q = listed(f"{name}: reverse", reverse, "(p, q)", 2)
    return mechanism(f"{name} (add)", p=p, q=q, parameters=parameters, **same)


def _tag(
    name: str, tag: tuple[Symbol, Any, tuple[Any, Any]], parameters: tuple[Parameter, ...]
) -> Declaration:
    """The law of an index: a lattice mechanism whose two masses are equal."""
    index, mass, support = listed(f"{name}: tag", tag, "(index, its mass, its ends)", 3)
    *others, last = map(ParameterSymbol, parameters) if parameters else (None,)
    if last is None or index != last or not index.is_integer:
        raise DeclarationError(f"{name}: tag={index} is not the last parameter, made by count()")
    variable = integer(index.name)
    try:
        mass = sp.sympify(mass, strict=True).xreplace({index: variable})
    except (TypeError, ValueError, AttributeError):
        raise DeclarationError(f"{name}: tag: mass={mass!r} is not an expression") from None
    return mechanism(
        f"{name} (tag)", variable=variable, p=mass, q=mass, parameters=others, support=support,
        lattice=True,
    )  # fmt: skip
