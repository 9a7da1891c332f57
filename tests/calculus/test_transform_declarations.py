"""Poisson sampling of a declaration, against the formula applied to the declared densities."""

import mpmath
import pytest
import sympy
from front_evaluate import by_pieces, definition, irrational_vectors, normalised
from front_examples import ADDITIVE, BIMODAL, BY_NAME, PAIRS

from mechc.calculus.transform.sampling import poisson
from mechc.calculus.transform.sensitivity import truncate
from mechc.declare import mechanism, real
from mechc.errors import DeclarationError, UnsupportedError

POINTS = [mpmath.mpf(v) / 7 for v in range(-20, 30, 3)]


@pytest.mark.parametrize("declaration", [*ADDITIVE, *PAIRS], ids=lambda d: d.name)
def test_removal_mixes_p_into_q_and_keeps_q(declaration):
    sampled = poisson(declaration)
    assert sampled.q == declaration.q
    p, q = definition(declaration, declaration.p), definition(declaration, declaration.q)
    mixed = definition(sampled, sampled.p)
    points = range(-5, 9) if declaration.measure == "lattice" else POINTS
    for *base, r in irrational_vectors(sampled, 3):
        for point in points:
            expected = (1 - r) * q(point, base) + r * p(point, base)
            assert mpmath.almosteq(mixed(point, (*base, r)), expected, rel_eps=1e-13)


def test_the_rate_is_a_parameter_on_the_closed_unit_interval():
    added = poisson(BY_NAME["gumbel"]).parameters[-1]
    assert added.info[:6] == ("sampling_rate", 0.0, 1.0, False, False, False)


def test_sampling_twice_names_the_second_rate():
    twice = poisson(poisson(BY_NAME["gumbel"]))
    assert [p.name for p in twice.parameters][-2:] == ["sampling_rate", "sampling_rate_2"]
    assert twice.name == "poisson(poisson(gumbel))"
    theta = (mpmath.mpf(2), mpmath.mpf(1), mpmath.mpf("0.3"), mpmath.mpf("0.2"))
    once = (*theta[:2], theta[2] * theta[3])
    single = normalised(poisson(BY_NAME["gumbel"]))
    for point in POINTS:
        found = by_pieces(normalised(twice), theta, point)
        expected = by_pieces(single, once, point)
        for ours, theirs in zip(found, expected, strict=True):
            assert mpmath.almosteq(ours, theirs, rel_eps=1e-13)


def test_rate_zero_and_one_are_the_ends():
    sampled = normalised(poisson(BY_NAME["gumbel"]))
    base = normalised(BY_NAME["gumbel"])
    for point in POINTS:
        p, q = by_pieces(base, (2, 1), point)
        assert mpmath.almosteq(by_pieces(sampled, (2, 1, 0), point)[0], q)
        assert mpmath.almosteq(by_pieces(sampled, (2, 1, 1), point)[0], p)


def test_atoms_and_outcomes_are_mixed_too():
    sampled = poisson(BY_NAME["approximate_dp"])
    delta, r = (p.symbol for p in sampled.parameters[1:])
    leak, *_, unseen = sampled.atoms
    assert (leak[1], leak[2]) == (r * delta, 0)
    assert (unseen[1] - (1 - r) * delta).expand() == 0
    assert unseen[2] == delta


def test_the_declared_reverse_pair_holds_the_record_in_second_place():
    declaration = BY_NAME["own_reverse"]
    reverse = poisson(declaration).reverse
    r = reverse.parameters[-1].symbol
    assert reverse.p == declaration.reverse.p
    expected = (1 - r) * declaration.reverse.p + r * declaration.reverse.q
    assert (reverse.q - expected).expand() == 0
    normalised(poisson(declaration))


def test_replacement_mixes_both_shifts_into_the_centre():
    gaussian = BY_NAME["gaussian"]
    sampled = poisson(gaussian, adjacency="replace")
    x = sampled.variable
    d, r = (p.symbol for p in sampled.parameters[1:])
    noise = gaussian.q
    up, down = noise.subs(x, x - d), noise.subs(x, x + d)
    assert (sampled.p - ((1 - r) * noise + r * up)).expand() == 0
    assert (sampled.q - ((1 - r) * noise + r * down)).expand() == 0
    assert normalised(sampled).notes


def test_replacement_needs_additive_noise():
    with pytest.raises(UnsupportedError, match=r"additive\(\)"):
        poisson(BY_NAME["leaky"], adjacency="replace")


def test_unknown_adjacency_is_refused():
    with pytest.raises(DeclarationError, match="adjacency='both'"):
        poisson(BIMODAL, adjacency="both")


def test_outputs_beyond_a_window_are_folded_past_the_ends_of_the_support():
    """Exponential laws on (0, oo): what lies beyond 5 is P's alone there, and Q's below -1."""
    x = real("x")
    base = mechanism(
        "waiting", variable=x, p=sympy.exp(-x), q=2 * sympy.exp(-2 * x), support=(0, sympy.oo)
    )
    cut = truncate(base)
    for law, slope in ((cut.p, 1), (cut.q, 2)):
        density = definition(cut, law)
        for where, mass in (((0, 5), 1 - mpmath.exp(-5 * slope)),
                            ((5, mpmath.inf) if slope == 1 else (-mpmath.inf, -1),
                             mpmath.exp(-5 * slope))):  # fmt: skip
            found = mpmath.quad(lambda at, f=density: f(at, (-1, 5)), where)
            assert mpmath.almosteq(found, mass, rel_eps=1e-12)
        assert density(-2 if slope == 1 else 6, (-1, 5)) == 0
