"""A damaged or unusable cache costs time, never an answer (fresh processes, private caches)."""

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mechc

QUERY = "import mechc; print(mechc.load('laplace')(scale=1.0).delta(0.5).upper)"
TRUTH = 0.22119921692859512  # 1 - exp((epsilon - 1 / scale) / 2)


def ask(cache, code=QUERY):
    environment = {**os.environ, "MECHC_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done


def test_an_edited_kernel_is_rebuilt(tmp_path):
    made = Path(mechc.load("laplace").kernel.__file__)
    shutil.copytree(made.parents[1] / "requests", tmp_path / "requests")
    kernel = tmp_path / "kernels" / made.name
    kernel.parent.mkdir()
    original = made.read_text("utf-8")
    kernel.write_text(original.replace("return ", "return 0.5 * ", 3), "utf-8")
    assert float(ask(tmp_path).stdout) == pytest.approx(TRUTH, rel=1e-9)
    assert kernel.read_text("utf-8") == original


def test_a_cache_that_cannot_be_written_is_replaced(tmp_path):
    blocked = tmp_path / "a_file"
    blocked.write_text("not a folder")
    question = (
        "import mechc; print(mechc.load('randomized_response')(epsilon=1.0).delta(0.5).upper)"
    )
    done = ask(blocked, question)
    assert float(done.stdout) == pytest.approx((math.e - math.exp(0.5)) / (1.0 + math.e), rel=1e-9)
    assert "CacheWarning" in done.stderr
    assert blocked.read_text() == "not a folder"


def test_a_refused_declaration_leaves_nothing(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from sympy import exp\n"
        "from mechc.declare import mechanism, real\n"
        'x = real("x")\n'
        'wrong = mechanism("wrong", variable=x, p=exp(-(x**2)), q=exp(-(x**2)))\n'
    )
    code = (
        "import mechc\n"
        "try:\n"
        f"    mechc.load({str(wrong)!r})()\n"
        "except mechc.errors.DeclarationError as error:\n"
        "    print(error)\n"
    )
    cache = tmp_path / "cache"
    assert "wrong" in ask(cache, code.replace("import mechc", "import mechc, mechc.errors")).stdout
    assert not list(cache.rglob("*.py"))
