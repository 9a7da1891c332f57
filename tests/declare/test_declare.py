"""The words of a mechanism file: what they build, and what they refuse."""

import math
import pickle

import pytest
from sympy import Abs, Dummy, Function, I, Sum, Symbol, airyai, exp, nan, oo, sqrt

from mechc.declare import (
    additive,
    count,
    dominates,
    integer,
    mechanism,
    parameter,
    positive,
    probability,
    rate,
    real,
    shape,
)
from mechc.errors import DeclarationError
from mechc.protocol import ParameterInfo

x, scale, sensitivity = real("x"), positive("scale"), positive("sensitivity", default=1)


def _laplace(x, scale, sensitivity, **options):
    def density(centre):
        return exp(-Abs(x - centre) / scale) / (2 * scale)

    return mechanism(options.pop("name", "laplace"), variable=x, p=density(sensitivity),
                     q=density(0), parameters=(scale, sensitivity), **options)  # fmt: skip


def test_a_declaration_holds_plain_symbols_and_described_parameters():
    laplace = _laplace(x, scale, sensitivity, about="noise", refs=("a",))
    assert [p.name for p in laplace.parameters] == ["scale", "sensitivity"]
    assert all(type(s) is Symbol for s in laplace.p.free_symbols)
    assert laplace.parameters[1].default == 1
    assert (laplace.about, laplace.refs, laplace.measure) == ("noise", ("a",), "density")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (positive("a", default=2, typical=(1, 3)), (0, math.inf, True, True, False, 2, (1, 3))),
        (rate("a"), (0, 1, False, False, False, None, (0.001, 0.5))),
        (probability("a"), (0, 1, False, False, False, None, (0.001, 0.5))),
        (count("a", 2), (2, math.inf, False, True, True, None, (2, 6))),
        (parameter("a", -1, 1, hi_open=True), (-1, 1, False, True, False, None, (-0.8, 0.8))),
    ],
)
def test_parameters_become_plain_numbers(made, expected):
    assert made.parameter.info == ParameterInfo("a", *expected)


def test_assumptions_follow_from_the_domain():
    assert scale.is_positive
    assert rate("q").is_nonnegative
    assert rate("q").is_positive is None
    assert count("k").is_integer
    assert parameter("t", -2, 0, hi_open=True).is_negative


@pytest.mark.parametrize(
    ("value", "inside"),
    [(0.0, False), (1e-300, True), (math.inf, False), (math.nan, False), (-1.0, False)],
)
def test_domains_contain_finite_values_only(value, inside):
    assert scale.parameter.contains(value) is inside
    assert not count("k").parameter.contains(1.5)


@pytest.mark.parametrize(
    "build",
    [
        lambda: positive("two words"),
        lambda: positive("s", default=-1),
        lambda: positive("s", typical=(0, 1)),
        lambda: positive("s", typical=(2, 1)),
        lambda: positive("s", default=math.nan),
        lambda: positive("s", default="1"),
        lambda: count("k", default=1.5),
        lambda: parameter("t", 1, 1),
        lambda: parameter("t", math.nan, 1),
    ],
)
def test_bad_parameters_are_refused(build):
    with pytest.raises(DeclarationError):
        build()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": exp(-Symbol("y"))}, "uses y; known here are"),
        ({"p": airyai(x) ** 2}, "p uses airyai.*; of special functions, erf, "),
        ({"p": exp(-Symbol("x"))}, "another symbol named x"),
        ({"p": exp(-positive("scale", default=3))}, "another symbol named scale"),
        ({"p": nan}, "not a real number"),
        ({"p": math.nan}, "not a real number"),
        ({"q": I * x}, "not a real number"),
        ({"p": "exp(-x)"}, "not an expression"),
        ({"p": None}, "not an expression"),
        ({"p": True}, "not an expression"),
        ({"p": x > 0}, "not an expression"),
        ({"p": Function("f")(x)}, "uses f"),
        ({"parameters": (scale, scale)}, "declared twice"),
        ({"parameters": (positive("x"),)}, "both the variable and a parameter"),
        ({"parameters": (Symbol("b"),)}, "was not made by positive"),
        ({"parameters": 3}, "a list of them"),
        ({"variable": "x"}, "not a variable"),
        ({"variable": Symbol("x")}, "wrong kind"),
        ({"variable": integer("x")}, "wrong kind"),
        ({"variable": scale}, "not a variable"),
        ({"lattice": True}, "wrong kind"),
        ({"support": (x, 1)}, "known here are scale"),
        ({"support": (oo, -oo)}, "is empty"),
        ({"support": (5, -oo)}, "is empty"),
        ({"p": shape(0)}, "no mass"),
        ({"tag": (integer("m"), 1, (0, 3))}, "tag=m is not the last parameter"),
        ({"parameters": (), "p": 1, "q": 1, "tag": (1, 1, (0, 3))}, "tag=1 is not the last"),
        ({"atoms": [(0, 1)]}, "atom"),
        ({"atoms": [(x, 1, 1)]}, "uses x"),
        ({"outcomes": [(1, 1)]}, "outcomes stand alone"),
        ({"reverse": 1}, "reverse"),
        ({"claim": "proven"}, "is not a Claim"),
    ],
)
def test_bad_declarations_are_refused_and_named(change, message):
    given = {"variable": x, "p": exp(-x), "q": exp(-x), "parameters": (scale,)} | change
    with pytest.raises(DeclarationError, match=message) as caught:
        mechanism("bad", **given)
    assert str(caught.value).startswith("bad: ")


@pytest.mark.parametrize("mass", [[1], "1+", "exp(m)"])
def test_the_mass_of_an_index_is_an_expression(mass):
    m = count("m")
    with pytest.raises(DeclarationError, match=r"bad: tag: mass=.* is not an expression"):
        mechanism("bad", variable=x, p=exp(-x), q=exp(-x), parameters=(m,), tag=(m, mass, (0, 3)))


def test_a_name_is_needed():
    with pytest.raises(DeclarationError, match="name=''"):
        mechanism("", variable=x, p=1, q=1)


@pytest.mark.parametrize("move", [-1, 0.5 - sqrt(2), x, "one"])
def test_sensitivity_must_be_positive(move):
    with pytest.raises(DeclarationError, match="sensitivity"):
        additive("bad", noise=exp(-Abs(x)) / 2, variable=x, sensitivity=move, parameters=())


@pytest.mark.parametrize("move", [0.5, positive("s")])
def test_sensitivity_of_a_lattice_must_be_an_integer(move):
    n = integer("n")
    parameters = (move,) if isinstance(move, Symbol) else ()
    with pytest.raises(DeclarationError, match="is not an integer"):
        additive("bad", noise=exp(-Abs(n)), variable=n, sensitivity=move, lattice=True,
                 parameters=parameters)  # fmt: skip


def test_additive_is_the_pair_of_shifts():
    n, d = integer("n"), count("d", default=1)
    made = additive("a", noise=exp(-Abs(n)), variable=n, sensitivity=d, lattice=True,
                    parameters=(d,))  # fmt: skip
    assert made.p == exp(-Abs(n - d.parameter.symbol))
    assert made.q == made.construction.noise == exp(-Abs(n))


def test_equal_maths_has_equal_digests_whatever_the_names():
    other = _laplace(real("y"), positive("b", default=7, typical=(1, 2)), positive("d"), name="o")
    assert _laplace(x, scale, sensitivity).digest == other.digest


def test_other_maths_has_other_digests():
    base = _laplace(x, scale, sensitivity)
    swapped = _laplace(x, sensitivity, scale)
    narrow = _laplace(x, parameter("scale", 1, 2), sensitivity)
    bounded = _laplace(x, scale, sensitivity, support=(-5, 5))
    atoms = _laplace(x, scale, sensitivity, atoms=[(0, 0, 0)])
    reverse = _laplace(x, scale, sensitivity, reverse=(exp(-x), exp(-x)))
    digests = {d.digest for d in (base, narrow, bounded, atoms, reverse)}
    assert len(digests) == 5
    assert swapped.digest == base.digest  # only the names changed


def test_a_digest_does_not_depend_on_the_process():
    n, d = integer("n"), count("d", default=1)

    def made():
        k = Dummy("k", integer=True)
        return additive("a", noise=exp(-Abs(n)) / Sum(exp(-Abs(k)), (k, -oo, oo)), variable=n,
                        sensitivity=d, lattice=True, parameters=(d,))  # fmt: skip

    assert made().digest == made().digest
    assert made() == made()


def test_an_index_of_summation_never_captures_a_parameter():
    k = positive("k_0")
    i = Dummy("i", integer=True)
    made = mechanism("a", variable=x, p=Sum(exp(-k * i**2), (i, -oo, oo)), q=1, parameters=(k,))
    assert made.p.free_symbols == {k.parameter.symbol}


def test_declarations_survive_pickling():
    laplace = _laplace(x, scale, sensitivity)
    copy = pickle.loads(pickle.dumps(laplace))
    assert copy == laplace
    assert pickle.loads(pickle.dumps(scale)) == scale


def test_a_claim_is_for_a_known_relation():
    with pytest.raises(DeclarationError, match="adjacency='sometimes'"):
        dominates("sometimes", because="")


def test_words_that_no_declaration_has_are_named():
    with pytest.raises(DeclarationError, match="did you mean sensitivity"):
        additive("t", noise=1, sensitivty=1)
    with pytest.raises(DeclarationError, match="did you mean typical"):
        positive("b", typcal=(1, 2))
