"""State files come back whole or not at all."""

import os

import numpy as np
import pytest

from mechc.individual import GDPFilter, RenyiFilter, StateError, storage


@pytest.fixture
def saved(tmp_path):
    f = GDPFilter(people=1000, mu=1.5)
    f.step(np.linspace(0, 2, 1000))
    f.save(tmp_path / "state")
    return f, tmp_path / "state"


def test_round_trip(saved, tmp_path):
    f, path = saved
    g = GDPFilter.load(path, storage=tmp_path / "mapped")
    assert g.steps == f.steps and g.mu == f.mu
    assert np.array_equal(g.totals, f.totals)
    mu = np.full(1000, 0.7)
    assert np.array_equal(f.step(mu), g.step(mu))


def test_renyi_round_trip(tmp_path):
    f = RenyiFilter(people=10, epsilon=1.0, delta=1e-6)
    f.step(np.linspace(0, 0.1, 10))
    f.save(tmp_path / "state")
    g = RenyiFilter.load(tmp_path / "state")
    assert (g.order, g.budget, g.steps) == (f.order, f.budget, 1)
    assert np.array_equal(f.spent(), g.spent())
    with pytest.raises(StateError, match="holds a renyi-filter, expected a gdp-filter"):
        GDPFilter.load(tmp_path / "state")


@pytest.mark.parametrize("where", [0, 8, 12, 20, 100, 5000, -1])
def test_a_flipped_bit_anywhere_is_noticed(saved, where):
    _, path = saved
    content = bytearray(path.read_bytes())
    content[where] ^= 1
    path.write_bytes(content)
    with pytest.raises(StateError):
        GDPFilter.load(path)


@pytest.mark.parametrize("size", [0, 3, 15, 40, 1000, 16_000, -1])
def test_a_truncated_file_is_noticed(saved, size):
    _, path = saved
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(StateError):
        GDPFilter.load(path)


def test_another_version_is_named(saved):
    _, path = saved
    content = bytearray(path.read_bytes())
    content[8] = 99
    path.write_bytes(content)
    with pytest.raises(StateError, match="version 99"):
        GDPFilter.load(path)


@pytest.mark.parametrize("arguments", [{"people": 999, "mu": 1.5}, {"people": 1000, "mu": 1.25}])
def test_another_population_or_budget_leaves_the_state_alone(saved, arguments):
    _, path = saved
    f = GDPFilter(**arguments)
    f.step(np.full(f.people, 0.5))
    before = f.totals.copy()
    with pytest.raises(StateError, match="expected"):
        f.restore(path)
    assert np.array_equal(f.totals, before) and f.steps == 1


def test_a_failed_write_keeps_the_old_file(saved, monkeypatch):
    f, path = saved
    old = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    f.step(np.full(1000, 0.1))
    with pytest.raises(OSError, match="disk full"):
        f.save(path)
    assert path.read_bytes() == old
    assert [p.name for p in path.parent.iterdir()] == ["state"]


def test_large_arrays_are_mapped(tmp_path):
    array = np.arange(10_007, dtype=np.uint64).reshape(-1, 1)
    storage.write(tmp_path / "s", "test", {}, {"b": array[:3, 0].astype(">u2"), "a": array})
    out, found = np.zeros_like(array), storage.read(tmp_path / "s", "test")
    assert not any(held.flags.owndata for held in found.arrays.values())
    found.fill(out, "a")
    assert np.array_equal(out, array) and found.arrays["b"].tolist() == [0, 1, 2]
    with pytest.raises(StateError, match="expected"):
        found.fill(out.astype(np.uint32), "a")


def test_a_file_that_is_not_there_is_a_state_error(saved, tmp_path):
    f, _ = saved
    before = f.totals.copy()
    for missing in (tmp_path / "nothing", tmp_path):
        with pytest.raises(StateError, match="cannot be read"):
            GDPFilter.load(missing)
        with pytest.raises(StateError, match="cannot be read"):
            f.restore(missing)
    assert np.array_equal(f.totals, before)
    with pytest.raises(StateError, match="cannot be written"):
        f.save(tmp_path / "no" / "such" / "folder")
