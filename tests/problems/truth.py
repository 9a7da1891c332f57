"""Independent values of delta in ball arithmetic (python-flint), with no line of mechc inside.

Discrete laws are convolved term by term (`atoms`, `lattice`), losses that are uniform up to a
factor exp(l/2) beside two atoms (Laplace, logistic) are summed with Irwin-Hall polynomials
(`half_tilted_uniform`), sums of Gumbel losses are gamma variables (`gumbels`), and Gaussians have
a closed form (`gaussian`). Pairs of densities without one are integrated by `integrals`.

Every function returns log delta as a float, rounded from about 50 digits.
"""

import math

from flint import arb, arb_poly, ctx, fmpz

ctx.prec = 170


def ball(x):
    """An exact ball from a float, an int or a ball."""
    return x if isinstance(x, arb) else arb(x)


def narrow(value):
    """Log of a ball as a float, provided that the ball is narrow."""
    assert value > 0 and value.rel_accuracy_bits() > 50, f"only {value} is known"
    return float(value.log())


def normal_tail(x):
    """Phi(-x)."""
    return (ball(x) / arb(2).sqrt()).erfc() / 2


def gaussian(mu, epsilon):
    """Log delta of N(0, 1) against N(mu, 1), in closed form."""
    mu, epsilon = ball(mu), ball(epsilon)
    saved, ctx.prec = ctx.prec, 2000
    try:
        first = normal_tail(epsilon / mu - mu / 2)
        second = epsilon.exp() * normal_tail(epsilon / mu + mu / 2)
        return narrow(first - second)
    finally:
        ctx.prec = saved


def gumbels(scale, count, epsilon, direction):
    """Log delta of `count` Gumbel steps of sensitivity 1: sums of their losses are gamma variables.

    With u = exp(-x/scale), u is exponential of rate a = exp(1/scale) under P and of rate 1 under Q,
    and L = log a - (a - 1) u.
    """
    saved, ctx.prec = ctx.prec, 2000
    try:
        a, epsilon, k = (1 / ball(scale)).exp(), ball(epsilon), arb(count)
        side = 1 if direction == "remove" else -1
        edge = (k * a.log() - side * epsilon) / (a - 1)
        if edge <= 0:
            return -math.inf if side > 0 else narrow(1 - epsilon.exp())
        above = [(edge * rate).gamma_upper(k, regularized=1) for rate in (a, 1)]
        if side > 0:
            return narrow((1 - above[0]) - epsilon.exp() * (1 - above[1]))
        return narrow(above[1] - epsilon.exp() * above[0])
    finally:
        ctx.prec = saved


def atoms(law, count, epsilon, infinite=0):
    """Log delta of `count` steps of a finite law {loss: mass}, all multinomials listed."""
    law = [(ball(loss), ball(mass)) for loss, mass in law]
    infinite = ball(infinite)
    finite = arb(0)
    alpha = ball(epsilon)
    for shares in _compositions(count, len(law)):
        loss = sum((n * a for n, (a, _) in zip(shares, law, strict=True)), arb(0))
        if loss > alpha:
            mass = arb(math.factorial(count))
            for n, (_, m) in zip(shares, law, strict=True):
                mass *= m**n / arb(math.factorial(n))
            finite += mass * (1 - (alpha - loss).exp())
    return narrow(finite + 1 - (1 - infinite) ** count)


def _compositions(count, parts):
    if parts == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in _compositions(count - first, parts - 1):
            yield (first, *rest)


def lattice(offset, step, masses, count, epsilon, infinite=0):
    """Log delta of `count` steps on losses offset + n step, n = 0, 1, ..., by convolution."""
    power = arb_poly([ball(m) for m in masses]) ** count
    epsilon, infinite = ball(epsilon), ball(infinite)
    total = 1 - (1 - infinite) ** count
    for n in range(power.length()):
        loss = count * ball(offset) + n * ball(step)
        if loss > epsilon:
            total += power[n] * (1 - (epsilon - loss).exp())
    return narrow(total)


def half_tilted_uniform(count, width, density, up, down, epsilon, infinite=0):
    """Log delta of `count` steps with loss density e^(l/2) `density` on (-width, width).

    Atoms of mass `up` at +width and `down` at -width, `infinite` at infinity. The sum of m
    uniforms has an Irwin-Hall density, whose truncated powers are integrated one by one.
    """
    saved, ctx.prec = ctx.prec, 200 + 30 * count
    try:
        width, density, up, down, epsilon, infinite = map(
            ball, (width, density, up, down, epsilon, infinite)
        )
        total = 1 - (1 - infinite) ** count
        for m in range(count + 1):
            for i in range(count - m + 1):
                j = count - m - i
                ways = fmpz(math.factorial(count)) // (
                    math.factorial(i) * math.factorial(j) * math.factorial(m)
                )
                mass = arb(ways) * up**i * down**j * density**m
                total += mass * _irwin_hall(m, width, epsilon - (i - j) * width)
        return narrow(total)
    finally:
        ctx.prec = saved


def _irwin_hall(m, width, epsilon):
    """Integral of e^(s/2) (1 - e^(eps - s))_+ over the sum s of m variables on (-width, width)."""
    if m == 0:
        return 1 - epsilon.exp() if epsilon < 0 else arb(0)
    total = arb(0)
    for r in range(m + 1):
        top = (m - 2 * r) * width
        reach = top - epsilon
        if reach > 0:
            ways = (-1) ** r * math.comb(m, r)
            total += ways * (ramp(m, top, reach, arb(1) / 2))
            total -= ways * epsilon.exp() * ramp(m, top, reach, -arb(1) / 2)
    return total


def ramp(m, top, reach, a):
    """Integral of e^(as) (top - s)^(m-1) / (m-1)! over (top - reach, top)."""
    series = (-a * reach).hypgeom_1f1(arb(m), arb(m + 1))
    return (a * top).exp() * reach**m / math.factorial(m) * series
