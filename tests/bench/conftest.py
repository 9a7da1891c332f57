"""Rows of the comparison, printed as tables after pytest-benchmark's own."""

from dataclasses import dataclass, field

import pytest


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


REPORT = Report()


@pytest.fixture
def report():
    return REPORT


def pytest_terminal_summary(terminalreporter):
    if REPORT.notes:
        terminalreporter.section("mechc")
        for note in REPORT.notes:
            terminalreporter.write_line(note)
    own = {row.task: row for row in REPORT.rows if row.tool == "mechc"}
    if REPORT.rows:
        terminalreporter.section("beside other libraries, same run, ratios to mechc")
        head = ("task", "tool", "ms", "x time", "lower", "upper", "width", "x width")
        terminalreporter.write_line("{:<34}{:<26}{:>9}{:>9}{:>14}{:>14}{:>10}{:>10}".format(*head))
        for row in sorted(REPORT.rows, key=lambda r: (r.task, r.tool != "mechc", r.tool)):
            terminalreporter.write_line(_line(row, own.get(row.task)))


def _line(row, base):
    def text(value, form):
        return "-" if value is None else format(value, form)

    times = None if base is None else row.seconds / base.seconds
    widths = None
    if base is not None and row.width is not None and base.width:
        widths = row.width / base.width
    return (
        f"{row.task:<34}{row.tool:<26}{1e3 * row.seconds:>9.2f}{text(times, '.1f'):>9}"
        f"{text(row.lower, '.8g'):>14}{text(row.upper, '.8g'):>14}"
        f"{text(row.width, '.1e'):>10}{text(widths, '.0e'):>10}"
    )
