"""Privacy losses and reference values for the tests of the series accountants.

The losses are built here from their formulas, on fixed Gauss-Legendre panels; the reference values
are integrals of the definition on other nodes, closed forms, or the arbitrary-precision corpus.
"""

import functools
import json
import math
from pathlib import Path

import mpmath
import numpy as np

from mechc.loss.privacy_loss import PrivacyLoss

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
CORPUS = Path(__file__).parent.parent / "corpus" / "truth.json"


def truth(name):
    """Delta of one corpus entry, as a float."""
    values = json.loads(CORPUS.read_text())["values"]
    return float(next(v["delta"] for v in values if v["id"] == name))


def panels(edges):
    """Nodes and weights on the intervals between edges."""
    half = 0.5 * np.diff(edges)
    x = edges[:-1, None] + half[:, None] * (1 + _NODES)
    return x.ravel(), (half[:, None] * _WEIGHTS).ravel()


def law(loss, log_weight, support, *, atoms=((), ()), strip=(-math.inf, math.inf), label="test"):
    """A privacy loss from explicit nodes that claims to be good for every tilt."""
    order = np.argsort(atoms[0])
    return PrivacyLoss(
        loss=np.ascontiguousarray(loss),
        log_weight=np.ascontiguousarray(log_weight),
        atom_loss=np.asarray(atoms[0], float)[order],
        atom_log_mass=np.asarray(atoms[1], float)[order],
        log_infinite=-math.inf,
        log_minus_infinite=-math.inf,
        support=support,
        strip=strip,
        tilts=(-math.inf, math.inf),
        contour=0.0,
        frequency=math.inf,
        tolerance=1e-15,
        lattice=None,
        label=label,
    )


def gaussian_nodes(sigma, reach):
    x, w = panels(np.linspace(-reach * sigma, reach * sigma, int(4 * reach)))
    log_q = -0.5 * (x / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi))
    return x, np.log(w) + log_q


def subsampled_gaussian(q, sigma, reach=40.0):
    """Remove direction: P = (1-q) N(0, s^2) + q N(1, s^2), Q = N(0, s^2)."""
    x, log_q = gaussian_nodes(sigma, reach)
    loss = np.logaddexp(math.log1p(-q), math.log(q) + (x - 0.5) / sigma**2)
    return law(loss, log_q + loss, (math.log1p(-q), math.inf))


def subsampled_gaussian_add(q, sigma):
    """Add direction: the reversed pair."""
    x, log_p = gaussian_nodes(sigma, 40.0)
    loss = -np.logaddexp(math.log1p(-q), math.log(q) + (x - 0.5) / sigma**2)
    return law(loss, log_p, (-math.inf, -math.log1p(-q)))


def gaussian(sigma, reach=40.0, centre=0.0):
    """N(1, s^2) against N(0, s^2), with nodes around `centre` standard deviations."""
    x, w = panels(np.linspace((centre - reach) * sigma, (centre + reach) * sigma, int(4 * reach)))
    log_p = -0.5 * ((x - 1) / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi))
    return law((x - 0.5) / sigma**2, np.log(w) + log_p, (-math.inf, math.inf))


def laplace(d):
    """Laplace noise, sensitivity over scale d: atoms at -d and d, a density between."""
    x, w = panels(np.linspace(0.0, d, 4))
    atoms = ((d, -d), (math.log(0.5), math.log(0.5) - d))
    return law(2 * x - d, np.log(0.5 * w) + x - d, (-d, d), atoms=atoms)


def logistic(d):
    """Logistic noise, sensitivity over scale d: a density on (-d, d) and no atom."""
    x, w = panels(np.linspace(-60.0, 60.0, 120))
    log_q = -x - 2 * np.log1p(np.exp(-x))
    log_p = -(x - d) - 2 * np.log1p(np.exp(-(x - d)))
    return law(log_p - log_q, np.log(w) + log_p, (-d, d))


def randomized_response(epsilon):
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    return PrivacyLoss.from_atoms([epsilon, -epsilon], [p, 1 - p])


def worst_case(epsilon, delta):
    """The (epsilon, delta)-DP pair of Kairouz, Oh and Viswanath: masses at both infinities."""
    p = (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))
    return PrivacyLoss.from_atoms([epsilon, -epsilon], [p, 1 - delta - p], delta, delta)


def gaussian_log_delta(mu, epsilon):
    """Closed form of mu-GDP in 80 digits."""
    with mpmath.workdps(80):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        root = mpmath.sqrt(2)
        first = mpmath.erfc((epsilon / mu - mu / 2) / root) / 2
        second = mpmath.erfc((epsilon / mu + mu / 2) / root) / 2
        return float(mpmath.log(first - mpmath.exp(epsilon) * second))


def contour_delta(loss, log_weight, count, epsilon, c, height, points):
    """Inversion integral (I4) over Re z = c by the trapezoid rule on a fine grid."""
    seen = np.maximum(log_weight, log_weight + c * loss) > -90.0  # 1e-39 of what is summed
    loss, log_weight = loss[seen], log_weight[seen]
    y = (np.arange(points) + 0.5) * height / points
    z = c + 1j * y
    k = np.log1p(np.expm1(z[:, None] * loss[None, :]) @ np.exp(log_weight))
    terms = np.exp(count * k - epsilon * z) / (z * (z + 1))
    return float(terms.real.sum() * (height / points) / math.pi)


@functools.cache
def published():
    """Loss, count, epsilon and true delta of the compositions whose errors the tables state."""
    sgb, steep = subsampled_gaussian(0.1, 1.0), logistic(0.1732)
    return {
        "SGK": (subsampled_gaussian(0.01, 1.5), 10000, 1.0, truth("SGK_rem")),
        "SGS1": (subsampled_gaussian(0.01, 2.0), 3000, 1.0, truth("SGS1_rem")),
        "SGS3": (subsampled_gaussian(0.01, 2.0), 3000, 3.0, truth("SGS3_rem")),
        "SGB": (sgb, 200, 4.0, contour_delta(*sgb.nodes(), 200, 4.0, 1.0, 30.0, 3000)),
        "Laplace": (laplace(0.1), 20, 0.5, truth("L2")),
        "logistic": (steep, 20, 0.5, contour_delta(*steep.nodes(), 20, 0.5, 4.3, 200.0, 3000)),
    }
