"""Rows of the comparison, printed as tables after pytest-benchmark's own.

`pytest tests/bench --table FILE` writes them as a page as well; docs/benchmarks.md quotes from it.
"""

import os
import platform
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import pytest

OURS = ("mechc", "auto")  # the default method, beside peers and beside the other methods


@dataclass
class Row:
    task: str
    tool: str
    seconds: float
    lower: float | None = None
    upper: float | None = None

    @property
    def width(self):
        return None if self.lower is None or self.upper is None else self.upper - self.lower


@dataclass
class Report:
    rows: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    refusals: list = field(default_factory=list)


REPORT = Report()


@pytest.fixture
def report():
    return REPORT


def pytest_addoption(parser):
    parser.addoption("--table", default=None, help="write the comparison to this Markdown file")


def pytest_terminal_summary(terminalreporter, config):
    if REPORT.notes:
        terminalreporter.section("mechc")
        for note in REPORT.notes:
            terminalreporter.write_line(note)
    own = {row.task: row for row in REPORT.rows if row.tool in OURS}
    if REPORT.rows:
        terminalreporter.section("beside other libraries, same run, ratios to mechc")
        head = ("task", "tool", "ms", "x time", "lower", "upper", "width", "x width")
        terminalreporter.write_line("{:<34}{:<26}{:>9}{:>9}{:>14}{:>14}{:>10}{:>10}".format(*head))
        for row in sorted(REPORT.rows, key=lambda r: (r.task, r.tool not in OURS, r.tool)):
            terminalreporter.write_line(_line(row, own.get(row.task)))
    if config.getoption("--table") and REPORT.rows:
        Path(config.getoption("--table")).write_text(page(own, _clock(config)))


def _line(row, base):
    form = "{:<34}{:<26}{:>9}{:>9}{:>14}{:>14}{:>10}{:>10}"
    return form.format(*_cells(row, base))


def _cells(row, base):
    def text(value, form):
        return "-" if value is None else format(value, form)

    times = None if base is None else row.seconds / base.seconds
    widths = None
    if base is not None and row.width is not None and base.width:
        widths = row.width / base.width
    return (
        row.task,
        row.tool,
        f"{1e3 * row.seconds:.2f}",
        text(times, ".1f"),
        text(row.lower, ".8g"),
        text(row.upper, ".8g"),
        text(row.width, ".1e"),
        text(widths, ".0e"),
    )


def _clock(config):
    return "processor" if "process" in str(config.getoption("--benchmark-timer")) else "wall-clock"


def _target(own):
    """Where the default method is a hundred times faster than a peer, and where it is not."""
    peers = [
        (row.seconds / own[row.task].seconds, row)
        for row in REPORT.rows
        if row.tool.startswith(("prv .", "dp-accounting h")) and row.task in own
    ]
    short = sorted((ratio, row.task, row.tool) for ratio, row in peers if ratio < 100.0)
    widths = [
        row.width / own[row.task].width
        for _, row in peers
        if row.width is not None and own[row.task].width
    ]
    yield (
        "The target is an answer at least 100 times faster than prv-accountant at eps_error=0.01"
        " and dp-accounting at its default grid, with an interval at least 1e6 times narrower."
        f" Intervals are {min(widths, default=0.0):.0e} to {max(widths, default=0.0):.0e} times"
        f" narrower. The time is reached in {len(peers) - len(short)} of {len(peers)} comparisons;"
        " it is not in:"
    )
    yield ""
    for ratio, task, tool in short:
        yield f"- {task}, {tool}: {ratio:.1f} times"
    yield ""
    yield (
        "The grid of these peers has few points there, so that they take no longer than"
        " 100 answers of 0.1 to 1 ms would; mechc builds the law of a step, places a contour and"
        " proves both sides in 1 to 4 ms."
    )


def page(own, clock):
    """The rows and notes of this run as Markdown."""
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("mechc", "dp-accounting", "prv-accountant")
    )
    lines = [
        "# Benchmarks",
        "",
        "Written by `pytest tests/bench --table FILE`: all rows of one task come from"
        f" the same run, in one process on one core, warm medians of {clock} time. {versions};"
        " Python"
        f" {platform.python_version()}, {platform.machine()}, {platform.system()}; other jobs were"
        f" running (load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores), so the ratios"
        " tell more than the milliseconds.",
        "",
        "Ratios are to mechc's default method. A dash under *lower* or *width* means that the tool"
        " states no lower bound in that task; estimates have width 0.",
        "",
        "| task | tool | ms | time ratio | lower | upper | width | width ratio |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in sorted(REPORT.rows, key=lambda r: (r.task, r.tool not in OURS, r.tool)):
        lines.append("| " + " | ".join(_cells(row, own.get(row.task))) + " |")
    lines += ["", "## Methods that refuse a task", "", *(f"- {why}" for why in REPORT.refusals)]
    lines += ["", "## The target", "", *_target(own)]
    lines += ["", "## mechc alone", "", *(f"- {' '.join(note.split())}" for note in REPORT.notes)]
    return "\n".join(lines) + "\n"
