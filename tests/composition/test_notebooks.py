"""What notebooks show: everything escaped and balanced, numbers as they are."""

from xml.etree import ElementTree

import numpy as np

import mechc


def shown(what):
    html = what._repr_html_()
    page = ElementTree.fromstring(f"<div>{html.replace('<br>', '<br/>')}</div>")
    return " ".join("".join(page.itertext()).split())


def test_bounds_runs_and_calibrations_show_their_numbers_and_claims(gaussian, laplace):
    run = 1000 * gaussian(sigma=50.0) + laplace(scale=20.0)
    words = shown(run)
    for expected in ("1,000", "gaussian(sigma=50, sensitivity=1)", "proven by T1", "at most"):
        assert expected in words
    answer = run.epsilon(1e-5)
    assert repr(answer.upper) in shown(answer) and "assumed" in shown(answer)
    found = mechc.calibrate(gaussian, solve_for="sigma", epsilon=1.0, delta=1e-5)
    assert shown(found).startswith(f"sigma = {found.value!r}")
    assert str(found).startswith("sigma = 3.7306316")
    many = gaussian(sigma=2.0).epsilon(np.logspace(-9, -1, 60))
    assert "the first 50 of 60" in shown(many) and "<b>" not in shown(many)


def test_whole_numbers_are_solved_for_as_such(gaussian):
    words = {"dataset_size": 1000, "batch_size": 10, "noise_multiplier": 2.0}
    found = mechc.calibrate(mechc.dpsgd, solve_for="steps", epsilon=1.0, delta=1e-5, **words)
    assert isinstance(found.value, int) and str(found.value) in str(found)
