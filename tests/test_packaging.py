"""What an installed copy contains."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import mechc.mechanisms
import pytest

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


def test_a_checkout_answers_from_its_root_without_being_installed(tmp_path):
    """Its folder `mechc` hides an installed copy, and has the mechanisms beside it."""
    code = "import mechc; print(mechc.__file__, mechc.available());"
    code += "mechc.load('gdp')(mu=0.5).mechanism.is_compiled"
    for folder in ("mechc", "mechanisms"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    hidden = "import importlib.metadata as m, sys; sys.meta_path = [f for f in sys.meta_path if "
    hidden += "'mechc' not in str(getattr(f, '__module__', ''))];"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", hidden + code],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith(str(tmp_path)) and "laplace" in done.stdout


def test_data_files_are_shipped():
    folder = Path(mechc.__file__).parent
    files = (p for p in folder.rglob("*.*") if p.is_file() and "__pycache__" not in p.parts)
    data = {str(p.relative_to(folder)) for p in files if p.suffix != ".py"}
    assert data == set(PROJECT["tool"]["setuptools"]["package-data"]["mechc"])
    assert "py.typed" in data


def test_a_source_distribution_has_tests_documentation_and_what_builds_it(tmp_path):
    pytest.importorskip("setuptools", "77")
    copy = tmp_path / "copy"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a repository")
    names = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    for name in names:
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    code = "import sys; sys.path.insert(0, '.ci'); import backend; print(backend.build_sdist('..'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    with tarfile.open(tmp_path / done.stdout.split()[-1]) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {name for name in names if not name.startswith(".git")}
    assert wanted - inside == set()
    assert not (copy / "MANIFEST.in").exists()


SMOKE = """
import mechc
run = mechc.dpsgd(dataset_size=60_000, batch_size=256, epochs=60, noise_multiplier=1.1)
assert abs(run.epsilon(1e-5).upper - 2.38169) < 1e-4
gaussian = mechc.load("gaussian")
found = mechc.calibrate(gaussian, solve_for="sigma", epsilon=1, delta=1e-5)
assert abs(found.value - 3.73063) < 1e-4
run.plot("figure.svg", kind="steps", counts=[1, 2])
gaussian.report("sheet.html", certificate="none")
assert gaussian.verify().ok
"""


@pytest.mark.slow
def test_the_lowest_versions_that_are_promised_work(tmp_path):
    """Needs a network, or an index that pip knows."""
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    promised = [*project["dependencies"], *extras["report"], *extras["verify"]]
    lowest = sorted({name.replace(">=", "==") for name in promised})
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", name) for name in lowest)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    done = subprocess.run([*pip, *lowest], capture_output=True, text=True)
    impossible = "No matching distribution" in done.stderr or "ResolutionImpossible" in done.stderr
    if done.returncode and not impossible:
        pytest.skip(f"pip: {done.stderr.strip()[-200:]}")
    if sys.version_info < (3, 12):  # later versions of Python have wheels of later versions only
        assert done.returncode == 0, done.stderr[-2000:]
    elif done.returncode:
        pytest.skip("no wheels of the lowest versions for this Python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", ROOT], check=True)
    env = {**os.environ, "MECHC_CACHE": str(tmp_path / "cache"), "PYTHONWARNINGS": "error",
           "NUMBA_CACHE_DIR": str(tmp_path / "numba")}  # fmt: skip
    env.pop("PYTHONPATH", None)
    for command in ([python, "-c", SMOKE], [python.with_name("mechc"), "list"]):
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
