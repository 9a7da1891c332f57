"""Pieces and terms against the declaration itself, evaluated by mpmath."""

import random
from itertools import pairwise

import mpmath
import pytest
from front_evaluate import by_pieces, case_at, definition, irrational_vectors, normalised
from front_examples import BY_NAME
from sympy import (
    Abs,
    Eq,
    Heaviside,
    Integral,
    Max,
    Min,
    Piecewise,
    Symbol,
    erf,
    erfc,
    exp,
    floor,
    log,
    oo,
    pi,
    sign,
    sin,
    sqrt,
    true,
)

from mechc.calculus import derive, normalise
from mechc.calculus.transform.sampling import poisson
from mechc.declare import additive, count, integer, mechanism, positive, real
from mechc.errors import DeclarationError, UnsupportedError
from mechc.symbolic.evaluate import evaluate

EVERYTHING = list(BY_NAME.values())
SWITCHES = (Abs, Max, Min, sign, Piecewise, Heaviside)


@pytest.fixture(autouse=True)
def _fifty_digits():
    with mpmath.workdps(50):
        yield


def _points(declaration, rng):
    if declaration.measure == "lattice":
        return [rng.randint(-8, 12) for _ in range(8)]
    return [mpmath.mpf(rng.uniform(-4, 8)) for _ in range(8)]


@pytest.mark.few(0, 7, 13, 20, 27, 33, 38, 43, 49, 57, 64, 70, 75, 84, 90, 95, 100)
@pytest.mark.parametrize("declaration", EVERYTHING, ids=lambda d: d.name)
@pytest.mark.parametrize("transform", [lambda d: d, poisson], ids=["plain", "poisson"])
def test_pieces_agree_with_the_definition(declaration, transform):
    declaration = transform(declaration)
    pair = normalised(declaration)
    p, q = definition(declaration, declaration.p), definition(declaration, declaration.q)
    rng = random.Random(declaration.name)
    for theta in irrational_vectors(declaration, 5):
        if declaration.measure == "finite":
            continue
        for point in _points(declaration, rng):
            expected = (p(point, theta), q(point, theta))
            for ours, theirs in zip(by_pieces(pair, theta, point), expected, strict=True):
                assert abs(ours - theirs) <= 1e-15 * abs(theirs), (point, theta)


@pytest.mark.parametrize("declaration", EVERYTHING, ids=lambda d: d.name)
def test_atoms_agree_with_the_definition(declaration):
    pair = normalised(declaration)
    for theta in irrational_vectors(declaration, 5):
        given = {p.symbol: v for p, v in zip(declaration.parameters, theta, strict=True)}
        atoms = {a.x: a for a in case_at(pair, theta).atoms}
        for place, *masses in declaration.atoms:
            for side, mass in zip("pq", masses, strict=True):
                terms = getattr(atoms[place], side) if place in atoms else ()
                found = sum(t.weight * exp(t.log_density) for t in terms)
                assert abs((found - mass).subs(given).evalf() if terms else mass) < 1e-14


@pytest.mark.parametrize("declaration", EVERYTHING, ids=lambda d: d.name)
def test_no_switch_is_left_and_weights_are_constants(declaration):
    pair = normalised(poisson(declaration))
    for case in pair.cases:
        for piece in case.pieces:
            assert piece.p or piece.q
            for term in (*piece.p, *piece.q):
                assert not term.weight.has(pair.variable, *SWITCHES)
                assert not term.log_density.has(*SWITCHES)
                assert term.log_density.free_symbols <= {
                    pair.variable, *(p.symbol for p in pair.parameters)
                }  # fmt: skip


@pytest.mark.parametrize("declaration", EVERYTHING, ids=lambda d: d.name)
def test_conditions_exclude_each_other_and_cover(declaration):
    pair = normalised(declaration)
    for theta in irrational_vectors(declaration, 8):
        case_at(pair, theta)


def _built_in(name):
    return normalise(BY_NAME[name])


def test_gaussian_is_one_piece_with_the_expected_terms():
    pair = _built_in("gaussian")
    (case,) = pair.cases
    (piece,) = case.pieces
    x, sigma, d = pair.variable, *(p.symbol for p in pair.parameters)
    assert case.condition == true
    assert (piece.lo, piece.hi) == (-oo, oo)
    (term,) = piece.p
    assert term.log_density - (-((x - d) ** 2) / (2 * sigma**2)) == 0
    assert piece.q[0].log_density == -(x**2) / (2 * sigma**2)


def test_laplace_is_three_pieces_and_sampling_keeps_its_plateaus_visible():
    pair = normalise(poisson(BY_NAME["laplace"]))
    (case,) = pair.cases
    d = Symbol("sensitivity", positive=True, real=True)
    assert [str(p.hi) for p in case.pieces] == ["0", str(d), "oo"]
    # on the outer pieces P is one term with the shape of Q: the loss is constant there
    for piece in (case.pieces[0], case.pieces[-1]):
        (p,), (q,) = piece.p, piece.q
        assert not (p.log_density - q.log_density).expand().has(pair.variable)
    assert len(case.pieces[1].p) == 2


def test_a_lattice_is_cut_into_integer_ranges_that_meet():
    pair = _built_in("discrete_laplace")
    (case,) = pair.cases
    for left, right in zip(case.pieces[:-1], case.pieces[1:], strict=True):
        assert left.hi + 1 == right.lo


@pytest.mark.parametrize(("halfwidth", "common"), [(2.0, (-1.0, 2.0)), (0.25, None)])
def test_a_piece_is_empty_where_other_breakpoints_overtake_its_ends(halfwidth, common):
    pair = _built_in("uniform")
    (case,) = pair.cases
    values = dict(zip((p.symbol for p in pair.parameters), (halfwidth, 1.0), strict=True))
    ends = [tuple(float(evaluate(end, values)) for end in (p.lo, p.hi)) for p in case.pieces]
    assert all(left[1] == right[0] for left, right in pairwise(ends[:2]))
    assert [p for p in ends if p[0] < p[1]] == (
        [(-2.0, -1.0), common, (2.0, 3.0)] if common else [(-0.25, 0.25), (0.75, 1.25)]
    )


def test_equal_neighbours_are_merged():
    x = real("x")
    q = Piecewise((exp(-Abs(x)) / 2, x < 1), (exp(-x) / 2, True))
    pair = normalise(mechanism("step", variable=x, p=exp(-Abs(x)) / 2, q=q))
    (case,) = pair.cases
    assert [p.hi for p in case.pieces] == [0, oo]


def test_zeros_of_a_formula_cut_where_it_holds():
    """3 - x**2 vanishes outside its arm, (2 - x)**2 inside: a pole of the loss."""
    x = real("x")
    q = Piecewise((3 - x**2, Abs(x) < 1), ((2 - x) ** 2, Abs(x - 2) < 1), (0, True)) / 6
    pair = normalise(mechanism("arms", variable=x, p=exp(-Abs(x)) / 2, q=q))
    (case,) = pair.cases
    assert [p.hi for p in case.pieces] == [-1, 0, 1, 2, 3, oo]


@pytest.mark.parametrize("switch", [x**3 - x for x in [real("x")]] + [sin(real("x"))])
def test_a_breakpoint_that_cannot_be_located_is_refused(switch):
    declared = mechanism("wild", variable=real("x"), p=exp(-Abs(switch)), q=exp(-Abs(switch)))
    with pytest.raises(UnsupportedError, match="linear and quadratic"):
        normalise(declared)


def test_steps_without_end_are_refused():
    x = real("x")
    with pytest.raises(UnsupportedError, match="neither smooth nor"):
        normalise(mechanism("stairs", variable=x, p=exp(-floor(x)), q=exp(-Abs(x)) / 2))


def test_a_double_zero_on_the_integers_is_refused_rather_than_missed():
    n, d = integer("n"), count("d", default=1)
    spike = Piecewise((1, Eq(n**2 - 2 * n + 1, 0)), (0, True))
    declared = additive("spike", noise=spike, variable=n, sensitivity=d, parameters=(d,),
                        lattice=True)  # fmt: skip
    with pytest.raises(UnsupportedError, match="touch zero"):
        normalise(declared)


def test_a_sign_that_depends_on_what_is_integrated_over_is_refused():
    t, c = Symbol("t", real=True), positive("c", typical=(0.5, 2))
    above = [
        Integral(exp(-Abs(t) - c) * Piecewise((1, t < at), (2, True)), (t, -oo, oo))
        for at in (0, 1)
    ]
    declared = mechanism("above", outcomes=[tuple(above)], parameters=(c,))
    with pytest.raises(UnsupportedError, match="integrated over"):
        normalise(declared)


def test_a_piecewise_without_default_is_refused_where_it_says_nothing():
    x = real("x")
    with pytest.raises(DeclarationError, match="no formula on 1"):
        normalise(mechanism("gap", variable=x, p=Piecewise((exp(x), x < 1)), q=exp(-Abs(x)) / 2))


def test_one_minus_cosine_stays_inside_a_logarithm():
    raised = BY_NAME["raised_cosine"]
    piece = normalise(raised).cases[0].pieces[0]
    assert "log(cos(" in str(piece.q[0].log_density)


def test_normal_tail_is_written_with_erfc():
    x, d = real("x"), positive("d", default=1)
    noise = exp(-(x**2) / 2) / sqrt(2 * pi)
    down = additive("down", noise=noise * (1 - erf(x)), variable=x, sensitivity=d, parameters=(d,))
    (piece,) = normalise(down).cases[0].pieces
    assert piece.q[0].log_density == -(x**2) / 2 + log(erfc(x))


def test_float_literals_become_exact():
    x, b = real("x"), positive("b")
    declared = additive("floats", noise=0.5 * exp(-Abs(x) / b) / b, variable=x, sensitivity=0.1,
                        parameters=(b,))  # fmt: skip
    pair = normalise(declared)
    assert str(pair.cases[0].pieces[0].hi) == "0"
    assert str(pair.cases[0].pieces[1].hi) == "1/10"


def test_a_density_is_not_cut_where_its_formula_is_zero_outside_the_support():
    """A sample of uniform against beta laws: at rate one these zeros are at infinity, 0/0."""
    x, a = real("x"), positive("a", typical=(0.5, 3))
    beta = 6 * x / a * (1 - x / a) / a
    pair = normalise(poisson(mechanism("beta", variable=x, p=1 / a, q=beta, support=(0, a),
                                       parameters=(a,))))  # fmt: skip
    ((piece,),) = (case.pieces for case in pair.cases)
    assert (piece.lo, piece.hi) == (0, pair.parameters[0].symbol)
    assert all(len(case.regions) <= 2 for case in derive(pair).cases)
