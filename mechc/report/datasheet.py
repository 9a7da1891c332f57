"""The datasheet of a mechanism: one HTML file with no script and no link to a network.

In: a mechanism and, for the figures, parameter values. Out: text of the page, filled into
`report.html` with jinja2; formulas are MathML, figures inline SVG.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from mechc import __version__
from mechc.errors import DeclarationError, UnsupportedError, check_one_of, library
from mechc.numeric.telling import Tell, telling
from mechc.protocol import TAG
from mechc.report import cite, plot
from mechc.report.stages import kept

if TYPE_CHECKING:
    from mechc.protocol import Described, Kernel, Use
    from mechc.verify.certificate import Certificate


LEVELS = ("quick", "full", "none")
SIZE = 5.2, 3.4  # of a figure, inches


def check(path: str | os.PathLike[str]) -> None:
    """Refuse a file for a datasheet whose suffix says that it is no HTML."""
    if os.path.splitext(path)[1].lower() not in ("", ".html", ".htm"):
        raise DeclarationError(f"{path}: a datasheet is HTML (expected a name ending in .html)")


def report(mechanism: Described, values: Mapping[str, float], certificate: str = "quick") -> str:
    """Return the datasheet as HTML, with figures at these values, verified at this level or not."""
    jinja = library("jinja2")
    check_one_of("certificate", certificate, LEVELS)
    usual = {p.name: p.usual for p in mechanism.parameters if p.name not in mechanism.bound}
    event = mechanism(**{**usual, **values})
    template = (files("mechc.report") / "report.html").read_text("utf-8")
    page = jinja.Environment(autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True)
    kernel = mechanism.kernel
    with telling(f"datasheet of {mechanism.name}") as tell:
        proof, why = _certificate(mechanism, certificate, tell)
        tell("derivation")
        head, *sections = kept(mechanism, "datasheet", partial(_derived, mechanism))
        tell("figures")
        figures = _figures(event, kernel)
    text: str = page.from_string(template).render(
        mechanism=mechanism, kernel=kernel, claim=mechanism.claim, certificate=proof, why=why,
        parameters=head, sections=sections, event=repr(event), figures=figures,
        references=cite.lines(kernel.REFS), version=__version__,
    )  # fmt: skip
    return text


def _certificate(mechanism: Described, level: str, tell: Tell) -> tuple[Certificate | None, str]:
    """The certificate, or why there is none."""
    from mechc.verify.certificate import verify

    if level == "none":
        return None, "No certificate was asked for; mechc verify writes one."
    try:
        return verify(mechanism, level, progress=tell), ""
    except UnsupportedError as error:  # no ball arithmetic, or no declaration to go back to
        return None, str(error)


def _derived(mechanism: Described) -> list[Any]:
    """The parameters with their symbols and domains, and sections with formulas as MathML."""

    def typeset(formula: Any) -> dict[str, Any] | None:
        if formula is None:
            return None
        return {"size": len(str(formula)), "mathml": mathml(formula)}

    head, *sections = mechanism.explain(whole=True).sections
    parameters = [line.words.split(": ") for line in head.lines if line.label == "parameter"]
    symbols = [(_signs(name) if " = " in name else name, domain) for name, domain in parameters]
    return [symbols] + [
        {"heading": section.heading, "lines": [
            {"label": line.label, "words": _signs(line.words), "formula": typeset(line.formula)}
            for line in section.lines
        ]}
        for section in sections
    ]  # fmt: skip


def _signs(words: str) -> str:
    """Words with infinity, arrows and Greek letters as signs."""
    from sympy.printing.pretty.pretty_symbology import greek_unicode

    signs = {**greek_unicode, "oo": "\u221e", "inf": "\u221e", "->": "\u2192"}
    return re.sub(r"[A-Za-z]+(?![\w(])|->", lambda word: signs.get(word[0], word[0]), words)


def mathml(formula: Any) -> str:
    """Return a SymPy expression as presentation MathML."""
    body = _printer()({"mul_symbol": "dot"}).doprint(formula)
    for word, sign in (("<mi>ell</mi>", "<mi>\u2113</mi>"),  # a loss
                       ("&ExponentialE;", "e"), ("<mo>-</mo>", "<mo>\u2212</mo>")):  # fmt: skip
        body = body.replace(word, sign)
    return f'<math displaystyle="true">{body}</math>'


@cache
def _printer() -> Any:
    """SymPy's printer of MathML, with cases one below the other."""
    from sympy.printing.mathml import MathMLPresentationPrinter

    from mechc.symbolic.notation import AddedFirst

    class Printer(AddedFirst, MathMLPresentationPrinter):  # type: ignore[misc]
        def _print_Piecewise(self, formula: Any) -> Any:
            make = self.dom.createElement
            table = make("mtable")
            table.setAttribute("class", "cases")
            for value, where in formula.args:
                row, left, right, said = map(make, ("mtr", "mtd", "mtd", "mtext"))
                always = where == True  # noqa: E712
                said.appendChild(self.dom.createTextNode("otherwise" if always else "if\u00a0"))
                left.appendChild(self._print(value))
                for part in [said] if always else [said, self._print(where)]:
                    right.appendChild(part)
                row.appendChild(left)
                row.appendChild(right)
                table.appendChild(row)
            return table

    return Printer


def _figures(event: Use, kernel: Kernel) -> list[tuple[str, str]]:
    """Captions and SVG: the two distributions, the loss, and the profile of one use."""
    profile = "delta(epsilon) of one use, both directions", _profile(event)
    if TAG in kernel.CAPABILITIES:  # no output is a number alone
        return [profile]
    theta = np.array(event.theta)
    x = plot.outputs(kernel, theta)
    loss = np.empty_like(x)
    kernel.loss_many(x, theta, loss)
    both, densities = _blank()
    plot.densities(densities, kernel, theta)
    densities.legend(frameon=False)
    single, losses = _blank()
    plot.curve(losses, kernel, x, np.where(np.isfinite(loss), loss, np.nan), "", 0)
    losses.set(xlabel="output", ylabel="privacy loss")
    return [
        ("the two output distributions P and Q", plot.svg(both)),
        ("the privacy loss L = log(p/q) of an output", plot.svg(single)),
        profile,
    ]


def _blank() -> tuple[Any, Any]:
    """A figure with room for short tick labels: to lay out by what is drawn takes twice as long."""
    figure, axes = plot.blank(*SIZE, constrained=False)
    axes.set_position((0.15, 0.15, 0.82, 0.77))
    axes.ticklabel_format(scilimits=(-2, 4))
    return figure, axes


def _profile(event: Use) -> str:
    figure, axes = _blank()
    top = float(event.epsilon(1e-12).upper)
    points = np.linspace(0.0, top if 0 < top < np.inf else 10.0, 80)  # chords hang unseen
    directions = ("both",) if event.mechanism.symmetric else ("remove", "add")
    for index, direction in enumerate(directions):
        answer = event.delta(points, direction=direction)
        plot.draw(axes, points, answer, label=direction, index=index, between=plot.chords)
    axes.set(xlabel="\u03b5", ylabel="\u03b4", yscale="log")
    axes.yaxis.set_major_formatter(plot.power_of_ten)
    axes.set_ylim(bottom=1e-12)
    if len(directions) > 1:
        axes.legend(frameon=False)
    return plot.svg(figure)
