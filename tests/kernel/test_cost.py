"""What a kernel costs: compiling it cold, loading it warm, calling it (CPU seconds, one core)."""

import subprocess
import sys

import numpy as np
import pytest
from built_in import source

MEASURE = """
import sys, time
import numba
numba.njit("float64(float64)")(lambda x: x + 1.0)  # numba's own start is not the kernel's
sys.path.insert(0, {path!r})
start = time.process_time()
import measured
print(time.process_time() - start)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "laplace", "student_t", "poisson(logistic)"])
def test_cold_compile_and_warm_load(name, tmp_path):
    (tmp_path / "measured.py").write_text(source(name), encoding="utf-8")
    code = MEASURE.format(path=str(tmp_path))
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(2)
    ]
    assert seconds[0] < 6.0, "cold; 1.5 to 3 on an idle machine"
    assert seconds[1] < 0.5, "warm"


def test_few_functions_are_compiled():
    """Each costs about 80 ms once: the optional closed forms are what may add to these."""
    for name, most in (("gaussian", 22), ("poisson(gaussian)", 22), ("laplace", 30)):
        assert source(name).count("\n@compiled") <= most


def test_array_functions_are_cheap(kernel_of):
    """Under 200 ns an element even on a busy machine; nothing in the loop allocates."""
    import timeit

    kernel = kernel_of("poisson(gaussian)")
    x, theta = np.linspace(-8.0, 8.0, 4096), np.array([1.3, 1.0, 0.01])
    out = np.empty_like(x)
    for function in (kernel.log_p_many, kernel.log_q_many, kernel.loss_many):
        best = min(timeit.repeat(lambda f=function: f(x, theta, out), number=5, repeat=5)) / 5
        assert best / x.size < 200e-9
