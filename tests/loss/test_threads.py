"""Panels that somebody holds never change, so that threads may share a privacy loss."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mechc
from mechc.composition.events import forget_losses
from mechc.errors import NumericError
from mechc.loss import quadrature


def law(name="gaussian", **values):
    """A new law: of a sampled mechanism, or of one on a lattice."""
    mechanism = mechc.load(name)
    if name == "gaussian":
        mechanism = mechc.poisson(mechanism, sampling_rate=0.01)
    forget_losses()
    return mechanism(**values).loss("remove")


def test_wider_questions_leave_earlier_panels_alone():
    first = law(sigma=1.3)
    held = first.source.panels
    before = {name: np.copy(getattr(held, name)) for name in ("region", "lo", "hi", "x", "loss")}
    first.covering(-3.0, 40.0)
    assert first.source.panels is not held
    assert first.source.panels.region.size > held.region.size
    assert held.tilts == (-1.0, 0.0)
    assert all(np.array_equal(getattr(held, name), value) for name, value in before.items())


def test_a_question_that_fails_leaves_the_panels_as_they_were(monkeypatch):
    first = law(sigma=1.3)
    held = first.source.panels
    monkeypatch.setattr(quadrature, "MAX_WORK", 1)
    with pytest.raises(NumericError):
        first.covering(-1.0, 90.0)
    assert first.source.panels is held


def test_laws_claim_the_tilts_of_their_own_nodes():
    """Another thread may have widened the source meanwhile; here that is done in between."""
    first = law(sigma=1.3)
    wide = first.covering(-1.0, 60.0)
    narrow = first.covering(-1.0, 5.0)
    for made in (wide, narrow):
        t = made.tilts[1]
        with_all = law(sigma=1.3).covering(-1.0, t)
        assert made.log_mgf(0.99 * t) == pytest.approx(with_all.log_mgf(0.99 * t), abs=1e-12)


@pytest.mark.few(0)
@pytest.mark.parametrize("name, values", [("gaussian", {"sigma": 0.9}), ("skellam", {"rate": 30})])
def test_threads_share_a_law(name, values):
    tilts = [1.0, 30.0, 4.0, 12.0, 60.0, 2.0, 20.0, 8.0]
    expected = [law(name, **values).covering(-1.0, t).log_mgf(t) for t in tilts]
    for _ in range(3):
        shared = law(name, **values)
        with ThreadPoolExecutor(len(tilts)) as pool:
            found = list(pool.map(lambda t, s=shared: s.covering(-1.0, t).log_mgf(t), tilts))
        assert np.allclose(found, expected, rtol=1e-11, atol=1e-13)
