"""One step's law in emitted kernels: against closed forms, and in accountants of a page's code."""

import importlib
import math
import re
from pathlib import Path

import mpmath
import numpy as np
import pytest
from built_in import as_python, source

import mechc
from mechc.kernel.emit import with_law

PAGE = Path(__file__).parents[2] / "docs" / "three-accountants.md"


def law(name, theta):
    """The functions of a kernel at one vector, run as Python: nothing is compiled."""
    kernel = as_python(with_law(source(name)), {"__name__": name})

    def ask(function, *arguments, shape=None):
        out = () if shape is None else (np.full(shape, math.nan),)
        with np.errstate(all="ignore"):
            value = kernel[function](*arguments, np.array(theta), *out)
        return float(value) if shape is None else out[0]

    return ask


@pytest.mark.parametrize("sigma", [0.3, 30.0])
def test_gaussian_law_is_that_of_a_normal_loss(sigma):
    ask, mu = law("gaussian", [sigma, 1.0]), 1 / mpmath.mpf(sigma)
    for epsilon in (-1.0, 0.05, 0.7, 20.0 * float(mu)):
        above = [mpmath.ncdf(s * mu / 2 - epsilon / mu) for s in (1, -1)]
        delta = above[0] - mpmath.exp(epsilon) * above[1]
        assert ask("log_delta", epsilon) == pytest.approx(float(mpmath.log(delta)), rel=1e-12)
        assert ask("loss_sf_q", epsilon) == pytest.approx(float(above[1]), rel=1e-12)
        below = mpmath.ncdf(epsilon / mu - mu / 2)
        assert ask("loss_cdf_p", epsilon) == pytest.approx(float(below), rel=1e-12)
    size = float(mu) ** np.arange(9)
    for t in (-3.0, 0.5, 40.0):
        truth = np.array([t * (t + 1) / 2, t + 0.5, 1.0, 0.0, 0.0, 0.0, 0.0]) * float(mu) ** 2
        found = ask("cgf_derivatives", t, shape=7)
        assert (
            np.abs(found - truth) <= 1e-12 * (1 + t) ** 2 * np.maximum(size[:7], abs(truth))
        ).all()
    found = ask("cumulants", shape=(2, 8))
    expected = np.zeros((2, 8))
    expected[:, :2] = [
        [float(mu) ** 2 / 2, float(mu) ** 2],
        [-(float(mu) ** 2) / 2, float(mu) ** 2],
    ]
    assert (np.abs(found - expected) <= 1e-11 * size[1:]).all()


def test_laplace_law_has_its_atoms_and_tails():
    ask = law("laplace", [2.0, 1.0])
    assert ask("delta", 0.2) == pytest.approx(-math.expm1((0.2 - 0.5) / 2), rel=1e-14)
    assert ask("delta", 0.5) == 0.0
    assert ask("loss_sf_p", 0.4) == pytest.approx(1 - 0.5 * math.exp(-0.05), rel=1e-13)
    masses = ask("loss_masses", np.array([-0.5, 0.0, 0.499, 0.5]), shape=(2, 5))
    assert masses.sum(axis=1) == pytest.approx([1.0, 1.0], abs=1e-14)
    assert masses[0, 0] == pytest.approx(0.5 * math.exp(-0.5), rel=1e-13)
    assert masses[1, 3] >= 0.5 * math.exp(-0.5) and masses[0, 4] == 0.0


def test_moments_of_a_binary_law_are_those_of_its_two_losses():
    ask, epsilon = law("randomized_response", [1.0, 2.0]), 1.0
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    shares = {epsilon: p, -epsilon: 1 - p}
    cumulants = mpmath.taylor(
        lambda t: mpmath.log(sum(w * mpmath.exp(t * ell) for ell, w in shares.items())), 0, 8
    )
    truth = [float(c * mpmath.factorial(n)) for n, c in enumerate(cumulants)][1:]
    assert ask("cumulants", shape=(2, 8))[0] == pytest.approx(truth, rel=1e-12)
    s = math.sqrt(truth[1])
    terms = ask("edgeworth_terms", shape=(2, 4, 12))[0]
    assert terms[0, 2] == pytest.approx(truth[2] / s**3 / 6)
    assert terms[1, [3, 5]] == pytest.approx([truth[3] / s**4 / 24, (truth[2] / s**3) ** 2 / 72])
    assert np.count_nonzero(terms) == 1 + 2 + 3 + 4


@pytest.mark.parametrize(
    ("a", "b"), [(-0.1, 0.1), *(pytest.param(*ends, marks=pytest.mark.slow)
                                for ends in ((-1.0, -0.1), (0.1, 1.0)))],
)  # fmt: skip
def test_levels_of_a_loss_that_turns_are_found(a, b):
    """Two scales of normal noise: four outputs may have one loss."""
    ask = law("gaussian_scale_mixture", [0.3, 1.0, 4.5, 1.0])
    delta = ask("loss_sf_p", a) - math.exp(a) * ask("loss_sf_q", a)
    assert ask("delta", a) == pytest.approx(delta, rel=1e-12)
    cell = ask("loss_cdf_p", b) - ask("loss_cdf_p", a)
    assert ask("loss_masses", np.array([a, b]), shape=(2, 3))[0, 1] == pytest.approx(cell)


def accountants():
    """The three of the page."""
    text = PAGE.read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names = {}
    for block in blocks[1:-1]:
        exec(block, names)
    return names["saddle_point"], names["edgeworth"], names["fft"]


SMOOTH = {
    "gaussian": ({"sigma": 20.0}, 1.0, 0.4),
    "laplace": ({"scale": 20.0}, 1.5, 0.06),
    "student_t": ({"nu": 5.0, "scale": 20.0}, 1.0, 0.2),
    "gumbel": ({"scale": 20.0}, 1.0, 0.8),
    "hyperbolic_secant": ({"scale": 20.0}, 1.5, 0.1),
    "subbotin": ({"beta": 1.5, "scale": 20.0}, 1.0, 0.6),
    "cauchy": ({"scale": 20.0}, 1.0, 0.06),
}
LATTICES = {
    "discrete_laplace": ({"a": 0.05}, 1.0, 0.06),
    "discrete_gaussian": ({"sigma": 20.0}, 1.0, 0.6),
    "randomized_response": ({"epsilon": 0.05}, 1.0, 0.06),
}


@pytest.mark.parametrize(
    "name",
    [n if n in ("randomized_response",) else pytest.param(n, marks=pytest.mark.slow)
     for n in (*SMOOTH, *LATTICES)],
)  # fmt: skip
def test_three_accountants_of_the_page(name, tmp_path):
    saddle_point, edgeworth, fft = accountants()
    values, epsilon, width = (SMOOTH | LATTICES)[name]
    mechanism = mechc.load(name)
    event, n = mechanism(**values), 100
    bound = (n * event).delta(epsilon, direction="remove")
    spec = importlib.util.spec_from_file_location(
        name, mechanism.emit(tmp_path / f"{name}.py", law=True)
    )
    kernel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernel)
    theta = np.array(event.theta)
    assert bound.lower <= fft(kernel, theta, n, epsilon, width) <= 1.01 * bound.upper
    if name in SMOOTH:
        assert saddle_point(kernel, theta, n, epsilon) == pytest.approx(bound.estimate, rel=0.02)
        assert edgeworth(kernel, theta, n, epsilon) == pytest.approx(bound.estimate, rel=0.05)
