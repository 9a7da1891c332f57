"""What to cite: BibTeX of the mechanisms and methods behind an answer.

In: keys, as declarations (`refs=`) and accountants name them. Out: entries of `references.bib`,
as BibTeX or as one line for people.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from mechc import __version__
from mechc.accountants.registry import METHODS

if TYPE_CHECKING:
    from mechc.protocol import Run


COMPOSITION = "zhu2022optimal"  # products of dominating pairs dominate; Poisson sampling
SOFTWARE = f"""\
@software{{mechc,
  author    = {{{{The mechc developers}}}},
  title     = {{mechc: a mechanism compiler for differential privacy}},
  year      = {{2026}},
  version   = {{{__version__}}},
}}"""


def bibtex(run: Run) -> str:
    """Return BibTeX for a run and its methods; keys that are not known here are comments."""
    keys = {COMPOSITION} if run.parts else set()
    for event, _ in run.parts:
        keys.update(event.mechanism.references)
    used = run.methods_used
    for method in METHODS:
        if method.name in used:
            keys.update(method.refs)
    known = references()
    listed = [known.get(key, f"% {key}") for key in sorted(keys)]
    return "\n\n".join([SOFTWARE, *listed]) + "\n"


@cache
def references() -> dict[str, str]:
    """Return the BibTeX entries that come with mechc by key."""
    text = (files("mechc.report") / "references.bib").read_text("utf-8")
    entries = (entry.strip() for entry in re.split(r"\n(?=@)", text))
    return {entry[entry.index("{") + 1 : entry.index(",")]: entry for entry in entries}


def lines(keys: Iterable[str]) -> list[str]:
    """Return one line a key: authors, title, where, year; the key itself if it is not known."""
    known = references()
    return [_line(known[key]) if key in known else key for key in keys]


def _line(entry: str) -> str:
    fields = dict(re.findall(r"^\s*(\w+)\s*=\s*\{(.*)\},$", entry, re.MULTILINE))
    fields = {name: re.sub(r"[{}]", "", value).replace("--", "–") for name, value in fields.items()}
    authors = [
        name.partition(",")[0] for name in (fields.get("author") or fields["editor"]).split(" and ")
    ]
    people = f"{authors[0]} et al." if len(authors) > 3 else ", ".join(authors)
    places = ("journal", "booktitle", "publisher", "note")
    where = next((fields[name] for name in places if name in fields), "")
    return f"{people}: {fields['title']}. {where}, {fields['year']}."
