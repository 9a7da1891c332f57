"""The text of a root finder over one monotone kernel function.

numba cannot pass functions cheaply, so the loop is emitted around the function it solves. It always
converges: infinite ends are approached geometrically, then Chandrupatla's method (Adv. Eng.
Software 28, 1997), which bisects whenever interpolation is not trusted, non-finite values included.
"""

SIGNATURE = "float64(float64, float64, float64, float64, float64[::1])"

TEMPLATE = '''\
def {name}(level, lo, hi, rising, theta):
    """Return x in (lo, hi) with {function}(x, theta) = level; rising is 1.0 or -1.0."""
    a, b, step, outside, turns = lo, hi, 1.0, 0.0, 0
    x1, f1, x2, f2, x3, f3, t = b, math.inf, a, -math.inf, a, -math.inf, 0.5
    while turns < 1200:
        far = 1.0 if math.isinf(b) else -1.0 if math.isinf(a) else 0.0
        if far == 0.0:
            # Chandrupatla: x1 is the latest point, x2 lies across the root, x3 is the one before
            x = x1 + t * (x2 - x1)
            turns += 1
        elif math.isinf(a) and math.isinf(b):
            x = 0.0
        else:
            x = a + step if far > 0.0 else b - step
            step *= 16.0
            if math.isinf(x):
                return x
        f = rising * ({function}(x, theta) - level)
        if far != 0.0:
            if math.isnan(f) and step > 1.0:
                # so far out that the function has no value: the root is nearer
                f = outside = far
            if f >= 0.0:
                b = x
            else:
                a = x
            x1, x2, x3 = b, a, a
            continue
        if f == 0.0 or (math.isnan(f) and outside == 0.0):
            return x + f
        if math.isnan(f):
            f = outside * math.inf
        if (f > 0.0) == (f1 > 0.0):
            x3, f3 = x1, f1
        else:
            x3, f3, x2, f2 = x2, f2, x1, f1
        x1, f1 = x, f
        shortest = 2.3e-16 * math.fabs(x1) / math.fabs(x2 - x1)
        if not shortest < 0.5:
            break
        xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
        t = 0.5
        if phi * phi < xi and (1.0 - phi) * (1.0 - phi) < 1.0 - xi:
            t = f1 / (f2 - f1) * f3 / (f2 - f3)
            t += (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
        t = min(max(t, shortest), 1.0 - shortest)
    return x1 if math.fabs(f1) < math.fabs(f2) else x2
'''


def solver_text(name: str, function: str) -> str:
    """The text of `name`, which solves `function(x, theta) = level` where it is monotone."""
    return TEMPLATE.format(name=name, function=function)
