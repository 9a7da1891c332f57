"""Grid laws against laws whose delta is known for every epsilon."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy import special

import mechc
from mechc.loss import discretise
from mechc.loss.privacy_loss import PrivacyLoss


class Pieces:
    """A law of the loss with log-linear density pieces exp(a + b l) and atoms, all closed."""

    def __init__(self, pieces, atoms):
        self.pieces, self.atoms = pieces, atoms  # (lo, hi, a, b), (loss, mass)
        losses = [x for lo, hi, _, _ in pieces for x in (lo, hi)] + [x for x, _ in atoms]
        self.support = (min(losses), max(losses))
        self.tolerance, self.log_infinite, self.source = 0.0, -math.inf, None
        self.log_lost = self.log_unlisted = -math.inf
        self.atom_error = 0.0

    @staticmethod
    def integral(lo, hi, a, b):
        """Integral of exp(a + b l) over (lo, hi), elementwise, without cancellation."""
        width = np.maximum(hi - lo, 0.0)
        return np.exp(a + b * lo) * width * special.exprel(b * width)

    def cell_masses(self, edges):
        p, q = np.zeros(edges.size - 1), np.zeros(edges.size - 1)
        for lo, hi, a, b in self.pieces:
            left, right = np.clip(edges[:-1], lo, hi), np.clip(edges[1:], lo, hi)
            p += self.integral(left, right, a, b)
            q += self.integral(left, right, a, b - 1.0)
        for x, m in self.atoms:
            cell = np.searchsorted(edges, x, side="left") - 1
            if 0 <= cell < p.size:
                p[cell] += m
                q[cell] += m * math.exp(-x)
        return p, q

    def delta(self, eps):
        """E_P[(1 - exp(eps - L))_+]."""
        total = sum(m * -math.expm1(eps - x) for x, m in self.atoms if x > eps)
        for lo, hi, a, b in self.pieces:
            start = np.array(max(lo, min(eps, hi)))
            total += self.integral(start, hi, a, b) - math.exp(eps) * self.integral(
                start, hi, a, b - 1.0
            )
        return float(total)


def delta_of(law, eps):
    gap = np.minimum(eps - law.points(), 0.0)
    return float(law.mass @ -np.expm1(gap)) + math.exp(law.log_infinite)


def laplace_pieces(top):
    return Pieces(
        [(-top, top, math.log(0.25) - top / 2, 0.5)], [(-top, math.exp(-top) / 2), (top, 0.5)]
    )


def random_pieces(rng):
    edges = np.sort(rng.uniform(-1.5, 1.5, rng.integers(2, 6)))
    pieces = [
        (lo, hi, math.log(rng.uniform(0.05, 1.0)), rng.uniform(-3, 3))
        for lo, hi in itertools.pairwise(edges)
    ]
    atoms = [(float(rng.uniform(-1.5, 1.5)), float(rng.uniform(0.01, 0.3))) for _ in range(4)]
    return Pieces(pieces, atoms[: rng.integers(0, 5)])


NONE = (-math.inf, -math.inf)


def both(law, step, offset=0.0, tilt=1.0):
    first = math.floor((law.support[0] - offset) / step) - 1
    count = math.ceil((law.support[1] - offset) / step) + 2 - first
    cells = discretise.Cells.cut(law, offset, step, first, count)
    return discretise.dominated(cells, tilt), discretise.dominating(cells, NONE)


@pytest.mark.parametrize("seed", range(60))
def test_one_step_is_between_the_grid_laws_at_every_epsilon(seed):
    rng = np.random.default_rng(seed)
    law, step = random_pieces(rng), 10 ** rng.uniform(-3, -0.3)
    lower, upper = both(law, step, offset=rng.uniform(-1, 1))
    for eps in np.concatenate([rng.uniform(-2, 2, 40), upper.points()[::7]]):
        exact = law.delta(eps)
        assert delta_of(lower, eps + lower.slack) <= exact + 1e-14
        assert delta_of(upper, eps - upper.slack) >= exact - 1e-14


@pytest.mark.parametrize("seed", range(10))
def test_composition_keeps_the_order(seed):
    """Squares of the grid laws against the square of the law on a mesh 16 times finer."""
    rng = np.random.default_rng(100 + seed)
    law, step = random_pieces(rng), 0.05
    lower, upper = both(law, step)
    fine_lower, fine_upper = both(law, step / 16)

    def squared(g, eps):
        total = (g.points()[:, None] + g.points()[None, :]).ravel()
        mass = (g.mass[:, None] * g.mass[None, :]).ravel()
        return float(mass @ -np.expm1(np.minimum(eps - total, 0.0)))

    for eps in rng.uniform(-2, 2, 5):
        assert squared(lower, eps) <= squared(fine_upper, eps) + 1e-12
        assert squared(upper, eps) >= squared(fine_lower, eps) - 1e-12


def test_masses_under_p_and_q_are_kept():
    law = laplace_pieces(0.7)
    lower, upper = both(law, 0.01)
    assert math.isclose(lower.mass.sum(), 1.0, rel_tol=1e-12)
    assert math.isclose(upper.mass.sum(), 1.0, rel_tol=1e-12)
    assert math.isclose(upper.log_mgf(-1.0), 0.0, abs_tol=1e-11)


def test_the_error_of_both_laws_is_of_second_order():
    """Upper +h^2 t(t+1)/12 per step, lower between -h^2 t(t+1)/24, and twice that."""
    level = math.log(6.0) - math.log(-math.expm1(-12.0))
    law = Pieces([(-1.0, 0.0, level, 12.0), (0.0, 1.0, level, -12.0)], [])
    exact = math.log(sum(law.integral(lo, hi, a, b + 3.0) for lo, hi, a, b in law.pieces))
    for step in (0.005, 0.0025, 0.001):
        lower, upper = both(law, step)
        assert upper.log_mgf(3.0) - exact == pytest.approx(step**2, rel=1e-3)
        assert -(step**2) <= lower.log_mgf(3.0) - exact <= -0.45 * step**2


def test_atoms_on_mesh_points_cost_nothing():
    """Laplace with the atoms on the mesh: only the slope is discretised."""
    law = laplace_pieces(0.5)
    lower, upper = both(law, 0.5 / 50)
    slope = -math.expm1(-0.5) / 2  # mass of the slope under P
    width = delta_of(upper, 0.1) - delta_of(lower, 0.1)
    assert 0 < width < slope * 0.01**2
    assert upper.mass[np.argmin(np.abs(upper.points() - 0.5))] == pytest.approx(0.5, abs=0.01)


def test_the_top_atom_does_not_fall_with_the_half_cell_below_it():
    """No mass is above the top atom to balance the half cell below: that half goes down alone."""
    lower, _ = both(laplace_pieces(1.0), 0.25)
    top = np.argmin(np.abs(lower.points() - 1.0))
    assert lower.mass[top] >= 0.5 * (1 - 1e-9)


def test_tails_are_put_where_they_are_safe():
    law = Pieces([(-1.0, 1.0, math.log(0.5), 0.0)], [])
    upper = discretise.dominating(
        discretise.Cells.cut(law, 0.0, 0.1, -5, 11), (math.log(0.25), math.log(0.3))
    )
    assert math.exp(upper.log_infinite) == pytest.approx(0.3)
    assert upper.mass[0] > 0.25
    for eps in np.linspace(-1.5, 1.5, 31):
        assert delta_of(upper, eps) >= law.delta(eps)


def test_lattice_is_itself():
    loss = PrivacyLoss.from_atoms([-0.5, 0.5], [1 / (1 + math.exp(0.5)), 1 / (1 + math.exp(-0.5))])
    law = discretise.exact(loss)
    assert law.step == 1.0 and law.mass.size == 2
    assert delta_of(law, 0.1) == pytest.approx(-math.expm1(-0.4) / (1 + math.exp(-0.5)), rel=1e-14)
    finer = discretise.exact(loss, 0.25)
    assert np.count_nonzero(finer.mass) == 2 and finer.mass.size == 5


def test_gaussian_deep_in_the_tail():
    """Cells of mass 1e-200 keep relative accuracy: one-step delta at 30 standard deviations."""
    sigma = 1.0

    def cell_masses(edges):
        x = edges * sigma**2
        mass = [np.exp(special.log_ndtr(-(x[:-1] + c) / sigma)) for c in (-0.5, 0.5)]
        next_mass = [np.exp(special.log_ndtr(-(x[1:] + c) / sigma)) for c in (-0.5, 0.5)]
        return mass[0] - next_mass[0], mass[1] - next_mass[1]

    law = SimpleNamespace(
        log_lost=-math.inf,
        log_unlisted=-math.inf,
        atom_error=0.0,
        cell_masses=cell_masses,
        tolerance=1e-12,
        log_infinite=-math.inf,
        support=(25.0, 40.0),
        source=None,
    )
    cells = discretise.Cells.cut(law, 0.0, 0.01, 2600, 900)
    lower, upper = discretise.dominated(cells, 30.0), discretise.dominating(cells, NONE)
    eps = 29.0
    exact = np.exp(special.log_ndtr(-eps + 0.5)) - math.exp(
        eps + float(special.log_ndtr(-eps - 0.5))
    )
    assert delta_of(lower, eps) < exact < delta_of(upper, eps)
    assert delta_of(upper, eps) / delta_of(lower, eps) < 1.02


@pytest.mark.parametrize("offset", [0.0, 0.013, -3.0])
def test_a_mesh_that_is_laid_anew_reaches_as_far(offset):
    law, step = laplace_pieces(2.0), 0.05
    first = math.floor((-2.0 - offset) / step) - 1
    cells = discretise.Cells.cut(law, offset, step, first, 83, whole=True)
    lower = discretise.dominated(cells, 0.0, free=True)
    assert abs(lower.points()[-1] - 2.0) < 2.0 * step
    for eps in (-1.0, 0.3, 1.2):
        assert 0.97 * law.delta(eps) < delta_of(lower, eps) <= law.delta(eps)


def test_masses_at_infinity_are_rounded_with_their_error():
    only_q = 1.0 - 0.3 * math.exp(0.5) - 0.6 * math.exp(-0.7)
    law = PrivacyLoss.from_atoms([-0.5, 0.7], [0.3, 0.6], 0.1, only_q)
    law = replace(law, mass_errors=(0.01, 0.0))
    up, down = discretise.rounded_up(law, 0.01), discretise.rounded_down(law, 0.01)
    assert up.log_infinite >= math.log(0.1) + 0.01
    assert math.exp(down.log_infinite) - math.exp(down.log_early) <= 0.1 * math.exp(-0.01) + 1e-14


def test_integers_that_no_list_holds_are_counted():
    law = mechc.load("discrete_gaussian")(sigma=3.0).loss()
    ends = 0.5 + 9.0 * np.abs(law.atom_loss).max()  # L = (2x - 1) / 18
    with mpmath.workdps(80):
        rest = sum(mpmath.exp(-(mpmath.mpf(k) ** 2) / 18) for k in range(int(ends), int(ends) + 99))
        whole = mpmath.sqrt(18 * mpmath.pi)
        assert mpmath.mpf(law.log_unlisted) >= mpmath.log(rest / whole)
    up = discretise.rounded_up(law, 0.01)
    assert up.log_infinite >= law.log_unlisted and up.loss_error >= law.loss_rounding
    assert law.covering(-1.0, 30.0).log_unlisted < law.log_unlisted - 50.0
