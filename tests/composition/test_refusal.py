"""A method that cannot answer says so: the method, the reason, and methods that do answer."""

import inspect
import math
import re

import pytest

import mechc
from mechc.accountants import registry
from mechc.declare.text import declaration_from_text
from mechc.errors import UnsupportedError


@pytest.fixture(scope="module")
def heavy():
    """Cauchy against normal: the loss, quadratic far out, has no moment at all under P."""
    text = {"p": "1/(pi*(1+(x-d)**2))", "q": "exp(-x**2/2)/sqrt(2*pi)"}
    return mechc.load(declaration_from_text("unseen", **text))(d=1.0)


def response(count):
    return count * mechc.load("randomized_response")(epsilon=1.0, categories=2)


def refusal(run, epsilon, method, direction, **options):
    """The reason of a refusal, whose named methods are asked and do answer."""
    with pytest.raises(UnsupportedError) as caught:
        run.log_delta(epsilon, method=method, direction=direction, **options)
    named, reason, others = re.fullmatch(r"(.*?): (.*); use (.*)", str(caught.value)).groups()
    assert method in named
    for other in re.split(", | or ", others):
        answer = run.log_delta(epsilon, method=other, direction=direction)
        assert answer.status.startswith("proven")
        assert 0.0 <= answer.upper - answer.lower < 1e-6
    return reason


NO_MOMENTS = [
    ("contour", {}, "no moment"),
    ("pld", {}, "no exponential moment"),
    ("prv", {}, "no exponential moments"),
    ("fourier", {}, "no exponential moments"),
    *(("saddlepoint", {"variant": f"msd{i}"}, "no tilt t > 0 exists") for i in range(3)),
    *(("saddlepoint", {"variant": v}, "no tilt") for v in ("clt", "moments", "edgeworth")),
    ("edgeworth", {}, "needs 4 moments"),
    ("edgeworth", {"interval": True}, "needs 4 moments"),
    ("edgeworth", {"interval": True, "error": "moments"}, "needs 4 moments"),
    ("edgeworth", {"tilted": True}, "no tilt"),
    ("renyi", {}, "no tilt"),
    ("clt", {}, "finite, positive variance"),
]


@pytest.mark.few(1, 6, 11, 20, 26, 31)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("method", "options", "reason"), NO_MOMENTS)
def test_a_loss_without_moments(heavy, method, options, reason, count):
    assert reason in refusal(count * heavy, 2.0, method, "remove", **options)


@pytest.mark.parametrize("variant", ["msd1", "clt", "edgeworth"])
def test_a_normal_law_for_a_coarse_lattice(variant):
    reason = refusal(response(4), 1.0, "saddlepoint", "remove", variant=variant)
    assert reason.startswith("the loss is a lattice of step 2")


@pytest.mark.parametrize(
    ("method", "options", "reason"),
    [
        ("pld", {"max_bytes": 2**16}, "max_bytes=65536"),
        ("pld", {"grid": 2**30}, "max_bytes=2147483648"),
        ("prv", {"eps_error": 1e-9}, "max_bytes=2147483648"),
        ("fourier", {"n": 2**27}, "max_bytes=2147483648"),
        ("lattice", {}, "not on one lattice"),
        ("direct", {}, "300 steps with a density"),
    ],
)
def test_what_a_gaussian_run_cannot_be_asked(gaussian, method, options, reason):
    assert reason in refusal(300 * gaussian(sigma=20.0), 1.0, method, "remove", **options)


def test_a_density_of_a_loss_with_atoms():
    assert "point masses" in refusal(response(3), 0.5, "fourier", "remove")


@pytest.mark.parametrize("method", ["pld", "prv", "fourier"])
def test_the_memory_limit_of_a_mesh_is_two_gibibytes(method):
    (found,) = (m for m in registry.methods() if m.name == method)
    assert inspect.signature(found.accountant()).parameters["max_bytes"].default == 2**31


def test_renyi_orders_outside_the_strip():
    """N(0, 4) against N(0, 1): E[exp(tL)] is finite for t < 1/3."""
    event = mechc.load("gaussian_scale")(sp=2.0, sq=1.0)
    truth = (1.2 * math.log(0.5) + 0.5 * math.log(1 / (1.2 / 4 - 0.2))) / 0.2
    assert event.renyi(1.2, direction="remove").estimate == pytest.approx(truth, rel=1e-9)
    with pytest.raises(UnsupportedError, match=r"renyi: order 1.4 is the tilt 0.4.* t < 0.333"):
        event.renyi(1.4, direction="remove")
