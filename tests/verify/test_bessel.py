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
