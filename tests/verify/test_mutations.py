"""Planted faults are found: in emitted kernels, one place at a time, and in derivations."""

import contextlib
from dataclasses import replace
from functools import wraps

import numpy as np
import pytest

pytest.importorskip("flint")

from sympy import Rational, Tuple, oo

import mechc
from mechc.calculus.types import Closed, Kind
from mechc.errors import MechcError
from mechc.kernel import compiler
from mechc.verify import checks, identities, kernel_checks
from mechc.verify.balls.oracle import Oracle
from mechc.verify.kernel_checks import inverses
from mechc.verify.result import Check

mutants = pytest.importorskip("mutants")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]


def is_caught(mechanism, text, folder):
    """Whether the quick verification fails, or the mutant does not even run."""
    kernel = mutants.run(text, folder / "mutant.py")
    runner = mutants.Planted(())
    with np.errstate(all="ignore"), contextlib.suppress(mutants.FoundError):
        _, places = checks.places(mechanism.declaration, kernel, False, runner)
        checks.compare(kernel, places, False, runner)
        return False
    return True


DEFAULT = ("exponential", "discrete_laplace")


def find_every_fault(name, folder):
    for kind, (_, _, missed) in mutants.survey(mechc.load(name), folder).items():
        assert not missed, kind


@pytest.mark.few(0)
@pytest.mark.parametrize("name", DEFAULT)
def test_every_fault_is_found(name, tmp_path):
    find_every_fault(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in mechc.available() if n not in DEFAULT])
def test_every_fault_is_found_in_any_mechanism(name, tmp_path):
    find_every_fault(name, tmp_path)


@pytest.mark.parametrize(
    "kind", ["branch", *(pytest.param(k, marks=pytest.mark.slow)
                         for k in ("sign", "constant", "case"))],
)  # fmt: skip
def test_faults_are_not_excused_as_changing_nothing(kind, tmp_path):
    """What is found in the Laplace kernel also differs from it in values."""
    mechanism = mechc.load("laplace")
    detector = mutants.Detector(mechanism, tmp_path)
    for where, text in mutants.Mutator(mechanism.source).mutants(kind):
        kernel = mutants.run(text, tmp_path / "mutant.py")
        if detector.finds(kernel) and "inverse" not in where:
            assert not detector.is_same(kernel, where.partition(":")[0]), where


@pytest.mark.slow
def test_a_branch_that_typical_parameters_lack_is_found(tmp_path):
    """Between 0 and sensitivity - halfwidth Q alone has mass, where the sensitivity is larger."""
    mechanism = mechc.load("truncated_laplace")
    (second,) = (
        line for line in mechanism.source.splitlines(keepends=True)
        if line.endswith("t1, 3.0, math.nan, math.nan, 1.0)\n")
    )  # fmt: skip
    assert is_caught(mechanism, mechanism.source.replace(second, ""), tmp_path)


class Changed:
    """A kernel of which one function answers otherwise."""

    def __init__(self, kernel, **functions):
        self.kernel = kernel
        self.__dict__.update(functions)

    def __getattr__(self, name):
        return getattr(self.kernel, name)


def test_inverses_on_the_other_side_are_found():
    """A root outside its branch is wrong, however steep or flat the loss is there."""
    mechanism, theta = mechc.load("student_t"), (4.15, 0.54, 0.54)

    def mirrored(branch, losses, at, out):
        mechanism.kernel.loss_inverse_many(branch, losses, at, out)
        out *= -1.0

    oracle, xs = Oracle(mechanism.declaration, theta), [-9.0, -3.0, -1.5, 2.0, 3.5, 9.5]
    for kernel, ok in (
        (mechanism.kernel, True), (Changed(mechanism.kernel, loss_inverse_many=mirrored), False)
    ):  # fmt: skip
        check = Check("loss_inverse", "values", kernel_checks.VALUES)
        inverses(kernel, oracle, xs, check)
        assert check.ok == ok


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "theta"), [("raised_cosine", (8.6, 0.8)), ("gaussian_scale", (1.0, 2.0))]
)
def test_strips_wider_by_little_are_found(name, theta):
    mechanism = mechc.load(name)
    oracle = Oracle(mechanism.declaration, theta)
    for factor, ok in ((1.0, True), (1.0 + mutants.RELATIVE, False)):
        kernel = Changed(
            mechanism.kernel, strip=lambda at, f=factor: f * mechanism.kernel.strip(at)
        )
        check = Check("strip", "identity", 0.0)
        identities.strip(kernel, oracle, check)
        assert check.ok == ok


def test_a_mass_at_infinity_that_is_denied_is_no_refusal():
    """Two uniform laws that do not meet, far from typical parameters."""
    mechanism = mechc.load("uniform")
    oracle = Oracle(mechanism.declaration, (0.125, 0.625))
    for kernel, ok in (
        (mechanism.kernel, True),
        (Changed(mechanism.kernel, log_infinite_mass=lambda theta: -np.inf), False),
    ):
        check = Check("infinite_mass", "values", kernel_checks.VALUES, far=True)
        identities.one_sided(kernel, oracle, check)
        assert check.ok == ok


# faults in derivations: each a change of what one room hands to the next


def _cases(calculus, change):
    return replace(calculus, cases=tuple(change(case) for case in calculus.cases))


def _regions(calculus, change):
    return _cases(calculus, lambda c: replace(c, regions=tuple(map(change, c.regions))))


def inverse_off(calculus):
    """The inverse at a loss larger by 1e-9."""

    def change(region):
        if not isinstance(region.inverse, Closed):
            return region
        larger = calculus.ell * (1 + Rational(1, 10**9))
        moved = region.inverse.expr.xreplace({calculus.ell: larger})
        return replace(region, inverse=replace(region.inverse, expr=moved))

    return _regions(calculus, change)


def direction_lost(calculus):
    """Increasing branches called decreasing."""
    turned = {Kind.INCREASING: Kind.DECREASING, Kind.DECREASING: Kind.INCREASING}
    return _regions(calculus, lambda r: replace(r, kind=turned.get(r.kind, r.kind)))


def loss_negated(calculus):
    """log(q/p) for log(p/q)."""
    return _regions(calculus, lambda r: r if r.loss is None else replace(r, loss=-r.loss))


def region_dropped(calculus):
    """The last region forgotten."""
    return _cases(calculus, lambda c: replace(c, regions=c.regions[:-1]))


def generating_function_off(calculus):
    """K(z) + 1e-9."""

    def change(case):
        closed = isinstance(case.cgf, Closed)
        off = Rational(1, 10**9)
        return replace(case, cgf=replace(case.cgf, expr=case.cgf.expr + off)) if closed else case

    return _cases(calculus, change)


def normaliser_lost(calculus):
    """The density of P doubled, in the pair that everything is derived from."""

    def change(piece):
        return replace(piece, p=tuple(replace(t, weight=2 * t.weight) for t in piece.p))

    pair = calculus.pair
    cases = tuple(replace(c, pieces=tuple(map(change, c.pieces))) for c in pair.cases)
    return compiler.derive.__wrapped__(replace(pair, cases=cases))


def infinite_mass_forgotten(calculus):
    """P(q = 0) taken as zero."""
    zero = Closed(Tuple(), "planted")
    return _cases(calculus, lambda c: replace(c, infinite_mass=zero))


def atoms_swapped(calculus):
    """Masses of atoms under P and Q exchanged."""
    return _cases(
        calculus, lambda c: replace(c, atoms=tuple(replace(a, p=a.q, q=a.p) for a in c.atoms))
    )


def strip_widened(calculus):
    """A strip without ends."""
    return replace(calculus, strip=(-oo, oo))


def symmetry_claimed(calculus):
    """K(z) = K(-1-z) stated where it is not so."""
    return replace(calculus, symmetric=True)


def lattice_claimed(calculus):
    """Losses said to lie on a lattice."""
    return replace(calculus, lattice=Closed(Tuple(Rational(0), Rational(1, 3)), "planted"))


PLANTED = [
    ("gaussian", direction_lost),
    ("laplace", region_dropped), ("laplace", generating_function_off),
    ("gaussian", normaliser_lost),
    ("truncated_laplace", infinite_mass_forgotten), ("approximate_dp", atoms_swapped),
    ("gaussian_scale", strip_widened), ("exponential", symmetry_claimed),
    ("laplace", lattice_claimed),
]  # fmt: skip


@pytest.mark.few(5, 7)
@pytest.mark.parametrize(("name", "fault"), PLANTED, ids=lambda v: getattr(v, "__name__", v))
def test_faults_in_derivations_are_found(name, fault, tmp_path, monkeypatch):
    mechanism = mechc.load(name)
    try:
        text = compiled_with(fault, mechanism, monkeypatch)
    except MechcError:
        return  # the compiler itself refuses it
    assert is_caught(mechanism, text, tmp_path)


def compiled_with(fault, mechanism, monkeypatch):
    derive = compiler.derive

    @wraps(derive)
    def faulty(pair):
        return fault(derive(pair))

    monkeypatch.setattr(compiler, "derive", faulty)
    return compiler.compile_declaration(mechanism.declaration)


def test_a_wrong_inverse_is_repaired_by_the_compiler(tmp_path, monkeypatch):
    """Lowering compares every inverse with the loss, and solves where it is off."""
    gaussian = mechc.load("gaussian")
    text = compiled_with(inverse_off, gaussian, monkeypatch)
    assert "solve_loss" in text
    assert not is_caught(gaussian, text, tmp_path)


def test_a_wrong_loss_is_repaired_by_the_compiler(tmp_path, monkeypatch):
    """Lowering compares every form of the loss with log p - log q, and takes one that agrees."""
    gaussian = mechc.load("gaussian")
    text = compiled_with(loss_negated, gaussian, monkeypatch)
    kernel = mutants.run(text, tmp_path / "repaired.py")
    assert kernel.loss(3.0, np.array([2.0, 1.0])) == 0.625  # not its negative
    assert not is_caught(gaussian, text, tmp_path)
