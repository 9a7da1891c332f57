"""What an installed copy contains."""

import tomllib
from pathlib import Path

import mechc.mechanisms

import mechc

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_every_folder_with_modules_is_a_listed_package():
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "mechc").rglob("*.py")}
    found = {".".join(folder.parts) for folder in folders} | {"mechc.mechanisms"}
    assert found == set(PROJECT["tool"]["setuptools"]["packages"])


def test_versions_agree():
    assert PROJECT["project"]["version"] == mechc.__version__


def test_mechanisms_are_part_of_the_package():
    folder = Path(next(iter(mechc.mechanisms.__path__)))
    assert {"laplace.py", "gaussian.py"} <= {path.name for path in folder.iterdir()}


def test_data_files_are_shipped():
    folder = Path(mechc.__file__).parent
    files = (p for p in folder.rglob("*.*") if p.is_file() and "__pycache__" not in p.parts)
    data = {str(p.relative_to(folder)) for p in files if p.suffix != ".py"}
    assert data == set(PROJECT["tool"]["setuptools"]["package-data"]["mechc"])
    assert "py.typed" in data
