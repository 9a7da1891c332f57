"""The table of methods says what the accountants accept, and "auto" follows its rule."""

import inspect
import math
import warnings

import numpy as np
import pytest

import mechc
from mechc.accountants import auto, registry
from mechc.accountants.bound import Bound
from mechc.errors import DeclarationError, NumericError, UnsupportedError
from mechc.loss.privacy_loss import PrivacyLoss, Step


@pytest.fixture(scope="module")
def atoms():
    return PrivacyLoss.from_atoms([1.0, -1.0], [math.e / (1 + math.e), 1 / (1 + math.e)])


def test_all_methods_are_there():
    assert {m.name for m in mechc.methods()} == {m.name for m in registry.METHODS}
    assert len(repr(mechc.methods()).splitlines()) == len(registry.METHODS)


@pytest.mark.parametrize("method", registry.METHODS, ids=lambda m: m.name)
def test_options_are_those_of_the_accountant(method):
    parameters = inspect.signature(method.accountant()).parameters.values()
    keywords = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert keywords - {"rtol"} == set(method.options)
    assert method.answers in ("interval", "upper", "estimate", "depends")


def test_an_option_behind_a_colon():
    assert registry.resolve("saddlepoint:msd0", {}) == ("saddlepoint", (("variant", "msd0"),))
    assert registry.resolve("edgeworth:3", {}) == ("edgeworth", (("order", 3),))
    assert registry.resolve("contour", {}) == ("contour", ())
    with pytest.raises(DeclarationError, match="takes no option"):
        registry.resolve("clt:fast", {})
    with pytest.raises(DeclarationError, match="accepts the options"):
        registry.resolve("pld", {"mesh": 3})


def test_whole_numbers_are_integers_whatever_type_they_come_in():
    assert registry.resolve("pld", {"grid": 1024.0}) == ("pld", (("grid", 1024),))
    run = 10 * mechc.load("gaussian")(sigma=3.0)
    for method, option, value in (
        ("pld", "grid", 4096), ("fourier", "n", 1024), ("saddlepoint:edgeworth", "order", 2),
    ):  # fmt: skip
        answer = run.log_delta(1.0, method=method, **{option: float(value)})
        assert answer == run.log_delta(1.0, method=method, **{option: value})
    with pytest.raises(DeclarationError, match="power of two"):
        run.log_delta(1.0, method="pld", grid=2.5)
    with pytest.raises(UnsupportedError, match="max_bytes"):
        run.log_delta(1.0, method="prv", eps_error=5e-324)
    assert run.log_delta(1.0, method="prv", delta_error=5e-324).width < 0.1
    with pytest.raises(DeclarationError, match="a finite number"):
        run.log_delta(1.0, method="prv", eps_error=np.complex128(0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # float32 has no number as large as the largest double
        assert registry.resolve("pld", {"grid": np.float32(1024)}) == ("pld", (("grid", 1024),))


def test_what_many_kinds_of_steps_with_atoms_are_not_asked():
    """A recursion has too many kinks, and no mesh has all of their atoms on it."""
    beside = auto.Facts(total=60, distinct=30)
    assert beside.mixed and not beside.several
    assert auto.Facts(total=60, distinct=5).several
    assert not auto.Facts(total=60, distinct=30, plain=True).mixed


class Fixed(registry.Accountant):
    """An accountant that always answers with the same width, or refuses."""

    def __init__(self, width):
        self.width = width

    def log_delta(self, epsilon):
        if self.width is None:
            raise UnsupportedError("cannot")
        if self.width == "stuck":
            raise NumericError("did not settle")
        return Bound(-1.0 - self.width, -1.0, -1.0, "fixed", "proven")


class Given(registry.Accountant):
    """An accountant of functions."""

    def __init__(self, log_delta, at_hand=lambda epsilon: None):
        self._functions = log_delta, at_hand

    def log_delta(self, epsilon):
        return self._functions[0](epsilon)

    def at_hand(self, epsilon):
        return self._functions[1](epsilon)


def asked_in_order(names):
    return tuple(auto.Strategy(name, f"why {name}", lambda facts: True) for name in names)


@pytest.mark.parametrize(
    ("widths", "chosen"),
    [
        ([1e-9, 1e-12], 0),
        ([1e-3, 1e-9], 1),
        ([1e-3, 1e-2], 0),
        ([None, 1e-2], 1),
        (["stuck", 1e-2], 1),
        ([1e-3, math.nan], 0),
    ],
)
def test_auto_takes_the_first_narrow_answer(atoms, monkeypatch, widths, chosen):
    names = [f"method{i}" for i in range(len(widths))]
    built = dict(zip(names, map(Fixed, widths), strict=True))
    monkeypatch.setattr(auto, "STRATEGIES", asked_in_order(names))
    monkeypatch.setattr(registry, "build", lambda name, *rest: built[name])
    answer = auto.Auto([Step(atoms, 1)], 1e-6).log_delta(0.5)
    assert answer.detail["auto"] == f"why {names[chosen]}"


def test_a_refusal_at_one_epsilon_is_none_at_another(atoms, monkeypatch):
    def log_delta(epsilon):
        if epsilon < 1.0:
            raise UnsupportedError("the mesh is too large here")
        return Bound(-1.0, -1.0, -1.0, "fixed", "proven")

    built = {"wide": Fixed(0.1), "mesh": Given(log_delta)}
    monkeypatch.setattr(auto, "STRATEGIES", asked_in_order(built))
    monkeypatch.setattr(registry, "build", lambda name, *rest: built[name])
    asked = auto.Auto([Step(atoms, 1)], 1e-6)
    chosen = [asked.log_delta(epsilon).detail["auto"] for epsilon in (0.5, 2.0, 0.7)]
    assert chosen == ["why wide", "why mesh", "why wide"]


def test_what_the_method_that_settled_has_at_hand_comes_before_all_others(atoms, monkeypatch):
    asked = []

    def wide(epsilon):
        asked.append(epsilon)
        return Bound(-2.0, -1.5, -1.0, "wide", "proven")

    def mesh(epsilon):
        return Bound(-1.0, -1.0, -1.0, "mesh", "proven") if epsilon < 9.0 else None

    built = {
        "wide": Given(wide),
        "mesh": Given(lambda e: mesh(e - 9.0), mesh),
    }
    monkeypatch.setattr(auto, "STRATEGIES", asked_in_order(built))
    monkeypatch.setattr(registry, "build", lambda name, *rest: built[name])
    answering = auto.Auto([Step(atoms, 1)], 1e-6)
    chosen = [answering.log_delta(epsilon).detail["auto"] for epsilon in (0.5, 3.0, 10.0)]
    assert chosen == 3 * ["why mesh"] and asked == [0.5, 10.0]


def test_auto_bounds_delta_and_says_why_nothing_else_works(atoms, monkeypatch):
    monkeypatch.setattr(auto, "STRATEGIES", asked_in_order(["one"]))
    monkeypatch.setattr(registry, "build", lambda name, *rest: Fixed(None))
    answer = auto.Auto([Step(atoms, 1)], 1e-6).log_delta(0.5)
    truth = atoms.atom_log_mass[-1] + math.log(-math.expm1(-0.5))
    assert answer.lower <= truth <= answer.upper < -1.0  # Chernoff's bound
    assert "one: cannot" in answer.detail["refusals"]


@pytest.mark.parametrize("method", [m.name for m in registry.METHODS])
def test_proven_intervals_of_all_methods_hold_the_truth(method, gaussian):
    """200 Gaussians against the closed form, at a delta that every method reaches."""
    from scipy.stats import norm

    run = 200 * gaussian(sigma=30.0)
    mu = math.sqrt(200) / 30
    truth = norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu)
    try:
        answer = run.delta(1.0, method=method)
    except UnsupportedError:
        assert method in ("direct", "lattice")
        return
    assert not answer.lower > truth * (1 + 1e-13)
    assert not answer.upper < truth * (1 - 1e-13)
    assert answer.estimate == pytest.approx(truth, rel=2.0)
