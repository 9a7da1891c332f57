"""The table of mechanisms in the docs is what the catalogue says today."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mechc
from mechc.calculus.claims import claim_of
from mechc.cli import catalogue, commands
from mechc.cli.commands import app
from mechc.declare.catalog import find, load_declaration

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "mechanisms.md").read_text("utf-8")
LINES = [line for line in PAGE.splitlines() if line.startswith("| `")]
CELLS = {c[0].strip("`"): c for c in ([w.strip() for w in ln.split("|")[1:-1]] for ln in LINES)}


def test_every_mechanism_has_its_line():
    assert set(CELLS) == set(mechc.available())


@pytest.mark.parametrize("name", sorted(CELLS))
def test_names_and_claims_are_current(name):
    declaration = load_declaration(find(name))
    claim = claim_of(declaration)
    known = [p.name for p in declaration.parameters][: -1 if declaration.tag else None]
    assert CELLS[name][1] == ", ".join(known)
    assert CELLS[name][2] == claim.adjacency
    assert CELLS[name][3] == catalogue.claim_word(claim)


@pytest.mark.slow
def test_the_whole_table_is_current():
    assert catalogue.markdown() in PAGE


def test_the_list_shows_what_is_known(monkeypatch):
    mechc.load("laplace").compile()
    for room in (200, 80):
        monkeypatch.setattr(commands.out, "_width", room)
        shown = CliRunner().invoke(app, ["list", "--no-compile"])
        assert shown.exit_code == 0 and "\u2026" not in shown.output  # nothing is cut off
        line = next(ln for ln in shown.output.splitlines() if ln.strip().startswith("laplace "))
        assert "proven T1" in line and ("closed" in line) == (room == 200)
        assert "Laplace noise on a real query." in line
        assert all(name in shown.output for name in mechc.available())


@pytest.mark.parametrize("path", sorted((ROOT / "mechanisms").glob("*.py")), ids=lambda p: p.stem)
def test_mechanism_files_are_short(path):
    assert len(path.read_text("utf-8").splitlines()) <= 40


def test_no_code_branches_on_a_mechanism():
    """Names of mechanisms occur in mechc/ as data of reductions and the demo, never in a test."""
    names = "|".join(mechc.available())
    compared = re.compile(rf"""(==|!=|\bin\b|\bis\b|case)\s*[(\[{{]?\s*["']({names})["']""")
    started = re.compile(rf"""startswith\(\s*["']({names})["']""")
    for path in sorted((ROOT / "mechc").rglob("*.py")):
        for line in path.read_text("utf-8").splitlines():
            found = compared.search(line) or started.search(line)
            assert not found, f"{path.name}: {line.strip()}"
