"""Modified Bessel functions by downward recurrence against mpmath."""

import pytest

pytest.importorskip("flint")
pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("order", [0, 1, 63, 64, -65, 300])
@pytest.mark.parametrize("u", [0.015625, 2.5, 80.0])
def test_orders_of_a_block(order, u):
    import mpmath
    from flint import arb, ctx

    from mechc.verify.balls.functions import bessel_i

    with mpmath.workdps(60), ctx.workprec(72):
        ball = bessel_i(arb(order), arb(u))
        mantissa, exponent = mpmath.besseli(abs(order), u).man_exp
        assert ball.rad() < ball.mid() * 1e-18
        with ctx.workprec(220):  # 60 digits
            assert abs(arb(mantissa) * arb(2) ** exponent / ball - 1).contains(0)


def test_a_log_of_the_second_kind_is_not_analytic_across_its_cut():
    """K_0 on both sides of -0.2 has a positive real part, of which the log is finite."""
    from flint import acb, arb
    from sympy import Symbol

    from mechc.symbolic.functions import log_besselk
    from mechc.verify.balls.expressions import function

    x = Symbol("x")
    log_k = function(log_besselk(0, x), x, {})
    across, beside = acb(arb(-0.2, 0.05), arb(0, 0.01)), acb(arb(0.2, 0.05), arb(0, 0.01))
    assert not log_k(across, True).is_finite()
    assert log_k(across, False).is_finite() and log_k(beside, True).is_finite()
