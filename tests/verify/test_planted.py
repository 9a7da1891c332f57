"""Faults beside the functions: in the law of one step, in the frame of a kernel, and what runs when
it is imported. Digests and seals are made good each time."""

import pytest

pytest.importorskip("flint")

import mechc
from mechc.kernel.cache import MARK, seal
from mechc.kernel.emit import with_law
from mechc.kernel.statements import refusal
from mechc.verify.recheck import Kernel, main

SCALAR = '@compiled("float64(float64, float64[::1])")\n'
LAW = {
    "cgf_derivatives": ("math.comb(k - 1, j - 1)", "math.comb(k, j - 1)"),
    "cumulants": ("cgf_derivatives(0.0 - law,", "cgf_derivatives(0.0 + law,"),
    "edgeworth_terms": ("a * a / 72.0", "a * a / 73.0"),
    "loss_cdf_q": ("log_masses(-1.0, np.array([ell]), theta)[0]",
                   "log_masses(0.0, np.array([ell]), theta)[0]"),
    "loss_masses": ("out[0], out[1] = ", "out[1], out[0] = "),
    "log_delta": ("epsilon - ell, 0.0", "epsilon - ell, -1e-9"),
    "nodes": ("- 60.0", "- 6.0"),
    "summed": ("top + np.log", "np.log"),
    "loss_sf_p": ("theta)[1])", "theta)[-1])"),
}  # fmt: skip
FRAME = {
    "a class called as the frame is": (SCALAR, f"class statements: open('ran')\n\n\n{SCALAR}"),
    "a function called so": (SCALAR, f"def statements(x=open('ran')): pass\n\n\n{SCALAR}"),
    "a decorator of the same name": (SCALAR, f"def compiled(t, *a): return print\n\n\n{SCALAR}"),
    "a class of the same name": (SCALAR, f"class Compiled: pass\n\n\n{SCALAR}"),
    "the law twice": (SCALAR, f"def log_delta(e, theta): return -9.0\n\n\n{SCALAR}"),
    "a default": ("def loss(x, theta)", "def loss(x, theta=open('ran'))"),
    "a keyword": ("def loss(x, theta)", "def loss(x, theta, *, y=open('ran'))"),
    "an annotation": ("def loss(x, theta)", "def loss(x: open('ran'), theta)"),
    "what is returned": ("def loss(x, theta):", "def loss(x, theta) -> open('ran'):"),
    "more arguments": ("def loss(x, theta)", "def loss(x, theta, *more)"),
    "a builtin": (SCALAR, SCALAR + "def zip(x, theta):\n    return x\n\n\n" + SCALAR),
    "an encoding": ('"""', '# coding: utf-7\n"""'),
    "an encoding in the second line": ('"""', '#\n# vim: set fileencoding=latin-1 :\n"""'),
}  # fmt: skip


@pytest.fixture(scope="module")
def text():
    return with_law(mechc.load("discrete_laplace").source)


def changed(text, old, new):
    assert old in text
    return seal(text.rpartition(MARK)[0].replace(old, new, 1))


@pytest.mark.parametrize("what", FRAME)
def test_what_an_import_would_run_or_a_name_would_hide_is_refused(what, text):
    faulty = changed(text, *FRAME[what])
    assert refusal(text) is None and Kernel(text).oddities() == []
    assert refusal(faulty) is not None
    try:
        assert Kernel(faulty).oddities()
    except ValueError as error:
        assert any(w in str(error) for w in ("twice", "arguments", "encoding"))


@pytest.mark.parametrize("name", LAW)
def test_constants_of_the_law_are_those_that_are_shipped(name, text):
    faulty = changed(text, *LAW[name])
    assert refusal(faulty) is not None
    assert f"{name} is not the one that mechc ships" in Kernel(faulty).oddities()


@pytest.mark.parametrize("content", [None, "", "{", "[]", "7", "null", '{"canonical": "\\ud800"}'])
def test_whatever_stands_in_two_files_is_no_crash(content, text, tmp_path):
    kernel, certificate = tmp_path / "kernel.py", tmp_path / "certificate.json"
    kernel.write_text(text)
    for path in (certificate, kernel):
        if content is not None:
            path.write_text(content)
        assert main([str(kernel), str(certificate)]) == 1
        assert main([str(tmp_path), str(certificate)]) == 1
