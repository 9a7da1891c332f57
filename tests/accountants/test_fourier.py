"""The Fourier accountant: tables 1 and 2 of the paper, containment, refusals."""

import math

import pytest
from written_kernels import gaussian, laplace, truth

import mechc
from mechc.accountants.classical.fourier import FourierAccountant
from mechc.errors import DeclarationError, UnsupportedError
from mechc.loss.privacy_loss import Step

SGK = gaussian(1.5, 0.01)
TABLE_1 = [(50_000, 0.0491228786423), (200_000, 0.0496013846114)]
TABLE_1_FINE = [(800_000, 0.0496014103252), (3_200_000, 0.0496014103163)]
TABLE_2 = [(2.0, 0.0422160172923), (6.0, 0.0496014103158), (10.0, 0.0496014103134)]


@pytest.mark.parametrize(("n", "value"), TABLE_1)
def test_table_1(n, value):
    """Values to the rounding of an untilted transform; column err(L, n) is not 2|I_n - I_2n|."""
    bound = FourierAccountant([Step(SGK.law(), 10_000)], n=n, window=12.0).log_delta(1.0)
    assert bound.detail["riemann_sum"] == pytest.approx(value, abs=2e-11)
    assert bound.lower <= truth("SGK_rem") <= bound.upper
    error = abs(bound.detail["riemann_sum"] - math.exp(truth("SGK_rem")))
    assert error <= bound.detail["discretisation"] + 1e-11


@pytest.mark.slow
def test_tables_at_full_size():
    law = SGK.law()
    for n, value in TABLE_1_FINE:
        accountant = FourierAccountant([Step(law, 10_000)], n=n, window=12.0)
        estimate = accountant.log_delta(1.0).detail["riemann_sum"]
        assert estimate == pytest.approx(value, abs=1e-11)
    for window, value in TABLE_2:
        accountant = FourierAccountant([Step(law, 10_000)], n=3_200_000, window=window)
        estimate = accountant.log_delta(1.0).detail["riemann_sum"]
        assert estimate == pytest.approx(value, abs=1e-7 if window == 2.0 else 1e-11)


def test_window_error_is_reported():
    """A window of 2 loses 15 percent of delta: the Chernoff tail says so, the bounds still hold."""
    bound = FourierAccountant([Step(SGK.law(), 10_000)], n=100_000, window=2.0).log_delta(1.0)
    lost = math.exp(truth("SGK_rem")) - bound.detail["riemann_sum"]
    assert 0 < lost < bound.detail["tail"]
    assert bound.lower <= truth("SGK_rem") <= bound.upper


@pytest.mark.few(0)
@pytest.mark.parametrize(
    ("name", "kernel", "reverse", "count", "eps"),
    [
        ("SGK_add", SGK, True, 10_000, 1.0),
        ("SGS1_rem", gaussian(2.0, 0.01), False, 3000, 1.0),
        ("G1", gaussian(1.0), False, 1, 1.0),
    ],
)
def test_corpus(name, kernel, reverse, count, eps):
    bound = FourierAccountant([Step(kernel.law(reverse), count)]).log_delta(eps)
    assert bound.lower <= truth(name) <= bound.upper <= bound.lower + 1e-4
    assert bound.estimate == pytest.approx(truth(name), abs=1e-7)


def test_bounds_close_in_quadratically():
    widths = [
        FourierAccountant([Step(SGK.law(), 1000)], n=n, window=4.0).log_delta(0.3).width
        for n in (2**16, 2**17)
    ]
    assert widths[0] / widths[1] == pytest.approx(4.0, rel=0.05)
    assert widths[1] < 1e-4


def test_refusals():
    law = SGK.law()
    with pytest.raises(UnsupportedError, match="point masses"):
        FourierAccountant([Step(laplace(1.0).law(), 1)])
    with pytest.raises(UnsupportedError, match="window"):
        FourierAccountant([Step(law, 10)], window=2.0).log_delta(2.5)
    with pytest.raises(UnsupportedError, match="max_bytes"):
        FourierAccountant([Step(law, 10)], n=2**26)
    with pytest.raises(DeclarationError, match="n=7"):
        FourierAccountant([Step(law, 10)], n=7)
    with pytest.raises(DeclarationError, match="window=0"):
        FourierAccountant([Step(law, 10)], window=0.0)


def test_losses_that_grow_towards_an_end_have_a_density():
    """Of a raised cosine, whose ends no double beside them resolves: one step by its branches."""
    run = mechc.load("raised_cosine")(halfwidth=9.7196)
    bound = run.delta(0.5, method="fourier")
    assert bound.estimate == pytest.approx(run.delta(0.5).estimate, abs=1e-4)
