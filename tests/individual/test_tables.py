"""Tables are made once and change no number; costs are said before, and progress on the way."""

import math

import numpy as np
import pytest

import mechc
from mechc.errors import DeclarationError
from mechc.individual import IndividualAccountant, inversion, ledger, singly
from mechc.individual.approximate import gdp_epsilon
from mechc.individual.contours import Contour
from mechc.individual.family import Family
from mechc.individual.splines import Grid
from mechc.individual.storage import Shelf, StateError
from mechc.individual.tilts import Members, Tilts

SPAN = (2.0, 50.0)


@pytest.fixture(scope="module")
def family():
    return Family.of(mechc.load("gaussian"), "sigma", SPAN)


def accountant(family, seed=0, people=30, **options):
    made = IndividualAccountant(
        family, parameter="sigma", people=people, span=SPAN, buckets=24, rtol=1e-2, **options
    )
    for row in np.exp(np.random.default_rng(seed).uniform(1.0, 3.5, (5, people))):
        made.step(row, count=20)
    return made


def test_shared_tables_give_the_same_bits(family, tmp_path):
    alone = accountant(family, journal=0).epsilon(1e-6)
    made = [accountant(family, tables=tmp_path, journal=0).epsilon(1e-6)]
    files = sorted(tmp_path.iterdir())
    assert files
    files[0].write_bytes(files[0].read_bytes()[:-1])  # damaged, so it is made again
    family.made.clear()
    made.append(accountant(family, tables=tmp_path, journal=0).epsilon(1e-6))
    assert sorted(tmp_path.iterdir()) == files
    for bound in made:
        assert np.array_equal(bound.lower, alone.lower)
        assert np.array_equal(bound.upper, alone.upper)


def test_other_people_before_change_nothing(family):
    first = accountant(family).epsilon(1e-6)
    accountant(family, seed=1).epsilon(1e-3)
    again = accountant(family).epsilon(1e-6)
    family.made.clear()
    fresh = accountant(family).epsilon(1e-6)
    for bound in (again, fresh):
        assert np.array_equal(bound.upper, first.upper)
        assert np.array_equal(bound.lower, first.lower)


@pytest.mark.parametrize("journal", [0, 1 << 20])
def test_people_with_the_same_steps_have_the_same_answer(family, journal):
    about = {"parameter": "sigma", "span": SPAN, "journal": journal}
    four, many = (IndividualAccountant(family, people=n, **about) for n in (4, 4000))
    kind = np.random.default_rng(0).integers(0, 4, 4000)
    kind[:4] = range(4)
    for values in ([3.0, 7.0, np.inf, 12.0], [5.0, 5.0, np.inf, 4.0]):
        four.step(values, count=50)
        many.step(np.array(values)[kind], count=50)
    few, bound = four.epsilon(1e-6), many.epsilon(1e-6)
    assert np.array_equal(bound.upper, bound.upper[:4][kind])
    assert np.array_equal(bound.lower, bound.lower[:4][kind])
    assert bound.detail["meshed"] == (4 if journal else 0)  # few laws: one by one, each once
    mu = 10.0 * np.hypot(1 / np.array([3.0, 7.0, np.inf, 12.0]), 1 / np.array([5, 5, np.inf, 4]))
    mu /= math.sqrt(2.0)
    for found in (few.upper, bound.upper[:4]):
        assert (gdp_epsilon(mu, 1e-6) <= found).all()
    for found in (few.lower, bound.lower[:4]):
        assert (found <= gdp_epsilon(mu, 1e-6)).all()


def test_people_who_are_alike_in_the_ledger_alone_are_told_apart(family):
    """Weights are rounded: two people have one row and two epsilons."""
    sigma = np.array([5.0, 5.0 * (1 + 1e-9), 5.0])
    made = IndividualAccountant(family, parameter="sigma", people=3, span=SPAN, rtol=1e-12)
    made.step(sigma)
    bound = made.epsilon(1e-6)
    assert (bound.lower <= gdp_epsilon(1.0 / sigma, 1e-6)).all()
    assert (bound.upper >= gdp_epsilon(1.0 / sigma, 1e-6) * (1 - 1e-13)).all()


def test_families_are_told_apart_by_all_that_laws_depend_on():
    gaussian = mechc.load("gaussian")
    one, same = (Family.of(gaussian, "sigma", SPAN) for _ in range(2))
    assert one is same
    others = [
        Family.of(gaussian, "sigma", (2.0, 200.0)),
        Family.of(mechc.poisson(gaussian, sampling_rate=0.1), "sigma", SPAN),
        Family.of(mechc.poisson(gaussian, sampling_rate=0.2), "sigma", SPAN),
    ]
    assert len({f.key for f in (one, *others)}) == 4


def test_a_shelf_keeps_what_was_made(tmp_path):
    shelf = Shelf(tmp_path / "new", "about")
    made = []

    def make():
        made.append(1)
        return {"a": np.arange(6.0).reshape(2, 3), "z": np.array([1j])}

    for key in ((1, "x"), (1, "x"), (2, "x")):
        found = shelf.take(key, make)
        assert np.array_equal(found["a"], [[0, 1, 2], [3, 4, 5]]) and found["z"][0] == 1j
    assert len(made) == 2
    assert Shelf(tmp_path / "new", "other").take((1, "x"), make)["z"][0] == 1j and len(made) == 3


def test_tables_of_a_guess_are_not_taken_for_those_of_an_answer(family, tmp_path):
    """On the same contour, with as many nodes: a guess has errors of zero."""
    grid = Grid(family.worst, family.best, 8, "geometric", True)
    tilts = Tilts(Members(family, grid, "remove"), (0, 8), 20.0)
    guess, proven = (
        Contour(tilts, 20, 8.0, tilts.span, Shelf(tmp_path), proven=told).table(3.0, 16)
        for told in (False, True)
    )
    assert (proven.beside[:, -1] > 0.0).all() and np.array_equal(guess.nodes, proven.nodes)


def test_equal_people_cost_nothing_more(family):
    """Of those who are alike one is answered: costs follow how many differ, and who is asked."""
    people, rng = 20_000, np.random.default_rng(3)
    alike, apart = (
        IndividualAccountant(family, parameter="sigma", people=people, span=family.span, journal=0)
        for _ in "ab"
    )
    ratios = np.exp(rng.uniform(*np.log(family.span), people))
    apart.step(ratios, count=1000)  # so that nobody is composed alone
    alike.step(ratios[rng.integers(0, 64, people)], count=1000)
    few, all_ = alike.cost(), apart.cost()
    assert few.people < all_.people / 5 and few.memory == all_.memory  # seconds, on a busy machine
    assert apart.cost(rows=np.arange(100)).people < all_.people / 40


def test_a_cost_is_told_without_what_it_tells_the_cost_of(family, monkeypatch):
    """What estimates are about may have to be compiled yet."""
    made = accountant(family, people=40)
    for name in ("choose", "reach", "solve"):
        monkeypatch.delattr(inversion, name)
    monkeypatch.delattr(ledger, "multiply")
    monkeypatch.delattr(singly, "answer")
    cost = made.cost()
    assert cost.tables > 0.0 and cost.people > 0.0 and cost.mesh > 0.0 and not cost.at_least


def test_costs_progress_and_a_budget_for_the_mesh(family):
    made = accountant(family, people=40)
    cost, some = made.cost(), made.cost(rows=[1])
    assert cost.seconds > 0.0 and cost.memory > some.memory and cost.mesh > some.mesh
    assert "processor time" in str(cost) and "mesh" in str(cost)
    seen = []
    made.epsilon(1e-6, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (40, 40) and seen == sorted(seen)
    few = IndividualAccountant(family, parameter="sigma", people=2, span=SPAN, rtol=1e-9, mesh=0)
    few.step([3.0, 4.0])
    assert few.epsilon(1e-6).detail["meshed"] == 0 and few.cost().mesh == 0.0
    with pytest.raises(DeclarationError, match="mesh"):
        accountant(family, mesh=-1)
    with pytest.raises(DeclarationError, match="tables=5"):
        accountant(family, journal=0, tables=5)
    with pytest.raises(StateError, match="tables="):
        accountant(family, journal=0, tables=__file__).epsilon(1e-6)
