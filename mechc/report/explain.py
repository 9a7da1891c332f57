"""What was derived from a declaration, in words and formulas.

In: a declaration. Out: an `Explanation` that prints as text, as HTML with LaTeX in notebooks, and
in colour on a terminal. Every entry says whether it is closed (and which rule found it), numeric
(and why) or unavailable.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
from rich.text import Text

from mechc.calculus import derive
from mechc.calculus.cases import Atom
from mechc.calculus.pair import Pair, normalise
from mechc.calculus.terms import Term
from mechc.calculus.types import Calculus, CalculusCase, Closed, Entry, Kind, Numeric, Region
from mechc.protocol import Measure

if TYPE_CHECKING:
    from mechc.declare.declaration import Declaration


LONGEST = 320  # characters of a formula that is printed unasked: four lines of a terminal


@dataclass(frozen=True)
class Line:
    """One statement: a label, words, and a formula that may be typeset."""

    label: str
    words: str = ""
    formula: Any = None

    @property
    def text(self) -> str:
        """The line as plain text."""
        parts = [self.words, "" if self.formula is None else sympy.sstr(self.formula)]
        return " ".join(part for part in parts if part)


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
        text = Text()
        for section in self.sections:
            text.append(f"{section.heading}\n", style="bold")
            width = max((len(line.label) for line in section.lines), default=0)
            for line in section.lines:
                text.append(f"  {line.label:<{width}}  ", style="cyan")
                text.append(f"{line.text}\n")
        text.rstrip()
        return text

    def _repr_html_(self) -> str:
        parts = []
        for section in self.sections:
            parts.append(f"<b>{html.escape(section.heading)}</b><table>")
            for line in section.lines:
                cell = html.escape(line.words)
                if line.formula is not None:
                    cell += f" ${sympy.latex(line.formula)}$"
                parts.append(f"<tr><td>{html.escape(line.label)}</td><td>{cell}</td></tr>")
            parts.append("</table>")
        return "".join(parts)

    def _repr_latex_(self) -> str:
        rows = [
            rf"\text{{{line.label}}} & \text{{{line.words}}}\; {sympy.latex(line.formula)}"
            for section in self.sections
            for line in section.lines
            if line.formula is not None
        ]
        return r"$$\begin{array}{ll}" + r" \\ ".join(rows) + r"\end{array}$$"


def explain(declaration: Declaration, *, whole: bool = False) -> Explanation:
    """Derive everything about a declaration and put it into words.

    Args:
        declaration: what was declared.
        whole: print formulas longer than `LONGEST` too, as those of high cumulants are.
    """
    calculus = derive(normalise(declaration))
    sections = list(_sections(calculus))
    if calculus.reverse is not None:
        for section in _sections(calculus.reverse):
            sections.append(Section(f"add direction: {section.heading}", section.lines))
    if not whole:
        sections = [
            Section(section.heading, tuple(_shortened(line) for line in section.lines))
            for section in sections
        ]
    return Explanation(declaration.name, tuple(sections))


def _shortened(line: Line) -> Line:
    """A line as it is, or without a formula that fills a screen."""
    if line.formula is None or len(sympy.sstr(line.formula)) <= LONGEST:
        return line
    return Line(line.label, f"{line.words} a long formula, see explain(whole=True)")


def _sections(calculus: Calculus) -> Iterator[Section]:
    pair = calculus.pair
    yield Section(f"{pair.name}: {pair.about}" if pair.about else pair.name, tuple(_head(pair)))
    for case in calculus.cases:
        where = "" if case.condition == sympy.true else f" if {case.condition}"
        yield Section(f"loss{where}", tuple(_loss(calculus, case)))
        yield Section(f"transforms{where}", tuple(_transforms(calculus, case)))
    notes = [Line("tail", words) for words in calculus.tails]
    notes += [Line("note", words) for words in (*pair.notes, *calculus.notes)]
    if notes:
        yield Section("notes", tuple(notes))


def _head(pair: Pair) -> Iterator[Line]:
    for parameter in pair.parameters:
        default = "" if parameter.default is None else f", default {parameter.default:g}"
        yield Line("parameter", f"{parameter.name}: {parameter.domain}{default}")
    if pair.claim is None:
        yield Line("claim", "none: the answers are about this pair and no other")
        return
    claim = pair.claim
    yield Line("claim", claim.heading)
    for words in claim.conditions:
        yield Line("checked", words)
    for words in claim.assumptions:
        yield Line("assumed", words)


def _loss(calculus: Calculus, case: CalculusCase) -> Iterator[Line]:
    bracket = "{} .. {}" if calculus.pair.measure is Measure.LATTICE else "({}, {})"
    for region in case.regions:
        ends = bracket.format(region.lo, region.hi)
        yield Line("region", f"{region.kind.replace('_', ' ')} on {ends}")
        yield Line("  log p", formula=_log_sum(region.p))
        yield Line("  log q", formula=_log_sum(region.q))
        if region.loss is not None:
            yield Line("  loss", _range(region), region.loss)
            if region.kind not in (Kind.PLATEAU, Kind.UNSPLIT):
                yield _entry("  inverse", region.inverse)
    for atom in case.atoms:
        yield Line("atom", _atom(atom))


def _log_sum(terms: tuple[Term, ...]) -> Any:
    if not terms:
        return sympy.Symbol("-oo")
    if len(terms) == 1:
        return sympy.log(terms[0].weight) + terms[0].log_density
    return sympy.log(sympy.Add(*(t.weight * sympy.exp(t.log_density) for t in terms)))


def _range(region: Region) -> str:
    lo, hi = ("?" if end is None else sympy.sstr(end) for end in (region.loss_lo, region.loss_hi))
    return "constant:" if region.kind is Kind.PLATEAU else f"from {lo} to {hi}:"


def _atom(atom: Atom) -> str:
    p, q = (" + ".join(sympy.sstr(t.weight) for t in side) or "0" for side in (atom.p, atom.q))
    return f"at x = {atom.x}: mass {p} under P, {q} under Q"


def _transforms(calculus: Calculus, case: CalculusCase) -> Iterator[Line]:
    mass = case.infinite_mass
    if isinstance(mass, Closed):
        mass = Closed(sympy.Add(*mass.expr), mass.how)
    yield _entry("P(L = inf)", mass)
    yield _entry("log E[exp(zL)]", case.cgf)
    lo, hi = (sympy.sstr(end) for end in calculus.strip)
    yield Line("finite for z in", f"({lo}, {hi})")
    yield _entry("lattice", calculus.lattice)
    yield _entry("cumulants", calculus.cumulants)
    yield _entry("cdf under P", case.cdf_p)
    yield _entry("cdf under Q", case.cdf_q)
    yield Line("symmetric", "yes, proved" if calculus.symmetric else "not proved: both directions")


def _entry(label: str, entry: Entry) -> Line:
    if isinstance(entry, Closed):
        return Line(label, f"closed ({entry.how}):", entry.expr)
    kind = "numeric" if isinstance(entry, Numeric) else "unavailable"
    return Line(label, f"{kind}: {entry.reason}")
