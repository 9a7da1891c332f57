"""What was derived from a declaration, in words and formulas.

In: a declaration. Out: an `Explanation` that prints as text, as HTML with LaTeX in notebooks, and
in colour on a terminal. Every entry says whether it is closed (and which rule found it), numeric
(and why) or unavailable. What is printed unasked is what a paper says: the densities as declared,
the loss and its inverse a line a branch, K, the first two cumulants, with a paper's symbols.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
from rich.text import Text

from mechc.calculus import derive, normalise
from mechc.calculus.cases import Atom, Pair, log_sum
from mechc.calculus.cgf import cumulants_of
from mechc.calculus.terms import total
from mechc.calculus.transform.listed import listed
from mechc.calculus.types import Calculus, CalculusCase, Closed, Entry, Kind, Numeric, Region
from mechc.protocol import Measure
from mechc.report.stages import printed
from mechc.symbolic.notation import typeset, written

if TYPE_CHECKING:
    from mechc.declare.declaration import Declaration


PAPER = {"sensitivity": "Delta", "scale": "b", "sampling_rate": "q"}
"""How papers call what parameters are called here."""
SHORT = 120  # of one that is printed beside others
UNSOLVED = (Kind.PLATEAU, Kind.UNSPLIT)  # regions on which no output belongs to a loss
LONGEST = 320  # characters of a formula that is printed unasked: four lines of a terminal


@dataclass(frozen=True)
class Line:
    """One statement: a label, words, a formula that may be typeset, and it solved for x."""

    label: str
    words: str = ""
    formula: Any = None
    inverse: Any = None

    @property
    def text(self) -> str:
        """The line as plain text."""
        parts = [self.words, "" if self.formula is None else written(self.formula)]
        solved = (
            "" if self.inverse is None else ", {} = {}".format(*map(written, self.inverse.args))
        )
        return re.sub(r"\boo\b", "inf", " ".join(part for part in parts if part) + solved)

    @property
    def latex(self) -> str:
        """The formulas."""
        return r",\quad ".join(typeset(f) for f in (self.formula, self.inverse) if f is not None)


@dataclass(frozen=True)
class Section:
    """A heading with its lines."""

    heading: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Explanation:
    """A derivation for people.

    Attributes:
        name: name of the mechanism.
        sections: headings with their lines, in reading order.
    """

    name: str
    sections: tuple[Section, ...]

    def __str__(self) -> str:
        """Plain text."""
        return self.__rich__().plain

    __repr__ = __str__

    def __rich__(self) -> Text:
        """Text with headings marked for a terminal."""
        return printed(self.rows)

    @property
    def rows(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Headings, with the label and the text of every line."""
        return [(s.heading, [(line.label, line.text) for line in s.lines]) for s in self.sections]

    def _repr_html_(self) -> str:
        parts = []
        for section in self.sections:
            parts.append(f"<b>{html.escape(section.heading)}</b><table>")
            for line in section.lines:
                cell = html.escape(line.words)
                cell += f" ${line.latex}$" if line.latex else ""
                parts.append(f"<tr><td>{html.escape(line.label)}</td><td>{cell}</td></tr>")
            parts.append("</table>")
        return "".join(parts)

    def _repr_latex_(self) -> str:
        rows = [
            rf"\text{{{line.label}}} & \text{{{line.words}}}\; {line.latex}"
            for section in self.sections
            for line in section.lines
            if line.latex or line.label == "branch"
        ]
        return r"$$\begin{array}{ll}" + r" \\ ".join(rows) + r"\end{array}$$"


def explain(declaration: Declaration, *, whole: bool = False) -> Explanation:
    """Derive everything about a declaration and put it into words; `whole` with long formulas."""
    calculus = derive(normalise(listed(declaration)))
    sections = list(_sections(calculus, declaration, whole))
    if declaration.reverse is not None:
        reverse = derive(normalise(listed(declaration.reverse)))
        for section in _sections(reverse, declaration.reverse, whole):
            sections.append(Section(f"add direction: {section.heading}", section.lines))
    return Explanation(declaration.name, tuple(sections))


def _sections(calculus: Calculus, declaration: Any, whole: bool) -> Iterator[Section]:
    pair = calculus.pair
    names = _symbols(pair)

    def section(heading: str, lines: Iterable[Line], names: Any = names) -> Section:
        return Section(heading, tuple(_printed(line, names, whole) for line in lines))

    heading = f"{pair.name}: {pair.about}" if pair.about else pair.name
    yield section(heading, _head(pair, declaration, names), {})
    for case in calculus.cases:
        where = "" if case.condition == sympy.true else f" if {case.condition.xreplace(names)}"
        atoms = [Line("atom", _atom(atom, whole)) for atom in case.atoms]
        branches = _regions(calculus, case) if whole else _branches(calculus, case)
        yield section(f"loss{where}", (*branches, *atoms))
        yield section(f"transforms{where}", _transforms(calculus, case, whole))
    notes = [Line("tail", words) for words in calculus.tails]
    notes += [Line("note", words) for words in (*pair.notes, *calculus.notes)]
    if notes:
        yield section("notes", notes)


def _symbols(pair: Pair) -> dict[Any, Any]:
    """A paper's symbols for those of the parameters that have one."""
    taken = {p.name for p in pair.parameters} | {str(pair.variable)}
    return {
        p.symbol: sympy.Symbol(PAPER[p.name], positive=True)
        for p in pair.parameters
        if p.name in PAPER and PAPER[p.name] not in taken
    }


def _printed(line: Line, names: dict[Any, Any], whole: bool) -> Line:
    """A line in a paper's symbols, without a formula that fills a screen unless it is asked for."""
    words = re.sub(r"\boo\b", "inf", line.words)
    for symbol, other in names.items():
        words = re.sub(rf"\b{symbol}\b", str(other), words)
    formula, inverse = (
        f if f is None else sympy.sympify(f).xreplace(names) for f in (line.formula, line.inverse)
    )
    if not whole and formula is not None and len(written(formula)) > LONGEST:
        return Line(line.label, f"{words} a long formula, see explain(whole=True)")
    return Line(line.label, words, formula, inverse)


def _head(pair: Pair, declaration: Any, names: dict[Any, Any]) -> Iterator[Line]:
    for parameter in pair.parameters:
        default = "" if parameter.default is None else f", default {parameter.default:g}"
        symbol = f"{names[parameter.symbol]} = " if parameter.symbol in names else ""
        yield Line("parameter", f"{symbol}{parameter.name}: {parameter.domain}{default}")
    for law in ("p", "q") if declaration.measure is not Measure.FINITE else ():
        yield Line(law, formula=getattr(declaration, law).xreplace(names))
    if pair.claim is None:
        yield Line("claim", "none: the answers are about this pair and no other")
        return
    claim = pair.claim
    yield Line("claim", claim.heading)
    for words in claim.conditions:
        yield Line("checked", words)
    for words in claim.assumptions:
        yield Line("assumed", words)


def _branches(calculus: Calculus, case: CalculusCase) -> Iterator[Line]:
    """The loss, and the output that has it, a line a branch."""
    above = None
    for region in case.regions:
        label, solved = _where(calculus, region), None
        known = region.inverse.expr if isinstance(region.inverse, Closed) else None
        if known is not None and region.kind not in UNSOLVED and len(str(known)) < SHORT:
            solved = sympy.Eq(calculus.pair.variable, known, evaluate=False)
        again = region.loss is not None and region.loss == above
        label += "" if region.loss is None else ": L as above" if again else ": L ="
        yield Line("branch", label, None if again else region.loss, solved)
        above = region.loss


def _where(calculus: Calculus, region: Region) -> str:
    between = "{} on {} .. {}" if calculus.pair.measure is Measure.LATTICE else "{} on ({}, {})"
    ends = written(region.lo), written(region.hi)
    return between.format(region.kind.replace("_", " "), *ends)


def _regions(calculus: Calculus, case: CalculusCase) -> Iterator[Line]:
    for region in case.regions:
        yield Line("region", _where(calculus, region))
        for label, terms in (("  log p", region.p), ("  log q", region.q)):
            yield Line(label, formula=log_sum(terms) if terms else sympy.Symbol("-oo"))
        if region.loss is not None:
            yield Line("  loss", _range(region), region.loss)
            if region.kind not in UNSOLVED:
                yield _entry("  inverse", region.inverse)


def _range(region: Region) -> str:
    lo, hi = ("?" if end is None else written(end) for end in (region.loss_lo, region.loss_hi))
    return "constant:" if region.kind is Kind.PLATEAU else f"from {lo} to {hi}:"


def _atom(atom: Atom, whole: bool) -> str:
    p, q = (" + ".join(written(t.weight) for t in side) or "0" for side in (atom.p, atom.q))
    words = f"at x = {atom.x}: mass {p} under P, {q} under Q"
    if whole or len(words) <= LONGEST:
        return words
    ratio = total(atom.p) / total(atom.q) if atom.p and atom.q else None
    loss = written(sympy.log(ratio)) if ratio is not None else "inf" if atom.p else "-inf"
    return f"at x = {atom.x}: L = {loss}, of long masses, see explain(whole=True)"


def _transforms(calculus: Calculus, case: CalculusCase, whole: bool) -> Iterator[Line]:
    mass = case.infinite_mass
    if isinstance(mass, Closed):
        mass = Closed(sympy.Add(*mass.expr), mass.how)
    yield _entry("P(L = inf)", mass)
    yield _entry("K(z) = log E[exp(zL)]", case.cgf)
    lo, hi = map(written, calculus.strip)
    yield Line("finite for z in", f"({lo}, {hi})")
    yield _entry("lattice", calculus.lattice)
    cumulants = cumulants_of(case.cgf, calculus.z)
    if whole:
        yield _entry("cumulants", cumulants)
        yield _entry("cdf under P", case.cdf_p)
        yield _entry("cdf under Q", case.cdf_q)
    elif isinstance(cumulants, Closed):
        first = dict(zip(("mean", "variance"), cumulants.expr, strict=False))
        if max(len(str(value)) for value in first.values()) < SHORT:
            yield from (Line(f"{name} of L", formula=value) for name, value in first.items())
        else:
            yield Line("cumulants of L", "from K by differentiation, see explain(whole=True)")
    yield Line("symmetric", "yes, proved" if calculus.symmetric else "not proved: both directions")


def _entry(label: str, entry: Entry) -> Line:
    if isinstance(entry, Closed):
        return Line(label, f"closed ({entry.how}):", entry.expr)
    kind = "numeric" if isinstance(entry, Numeric) else "unavailable"
    return Line(label, f"{kind}: {entry.reason}")
