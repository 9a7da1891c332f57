"""The demo runs through, and its numbers agree with independent ones."""

import re

import pytest
from typer.testing import CliRunner

from mechc.cli.commands import app


@pytest.mark.slow
def test_demo(tmp_path):
    shown = CliRunner().invoke(app, ["demo", "--folder", str(tmp_path)])
    assert shown.exit_code == 0, shown.exception
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["mechc_demo.png", "mechc_demo_kernel.py"]
    assert (tmp_path / "mechc_demo.png").stat().st_size > 10_000
    row = re.search(r"MNIST 2016 +([\d.]+) +([\d.]+) +contour", shown.output)
    # dp-accounting 0.6.0, pessimistic at mesh 1e-5: epsilon <= 0.9468683969716251
    assert float(row.group(1)) <= 0.9468684 < float(row.group(2)) + 2e-6
