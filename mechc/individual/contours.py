"""log phi of every member at the nodes of a contour, as ledger columns.

log phi(y) = log M(c + iy) - log M(c) adds up over a person's steps, so all people on one contour
share one table. Along with it come what bounds the rest of the trapezoid sum: errors of the table
between knots, in bands of nodes, and how small |phi| stays beyond the last node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechc.accountants.characteristic import Law, Tilted
from mechc.errors import NumericError
from mechc.individual import decay
from mechc.individual.tilts import FORBIDDEN, Tilts
from mechc.loss.measure import PrivacyLoss, Step

Floats = NDArray[np.float64]

READINGS = ("splines", "worse", "better")
FURTHER = 8.0  # frequencies beyond the nodes that may be looked at to prove decay
PROVEN = 64  # knots at which decay is proven
_FLOOR = 1e-20  # share of a tilted law that need not resolve frequencies
SAMPLED = 0.9  # share of the proven decay that is relied on between those knots


@dataclass(frozen=True)
class _Tilt:
    """One member on a contour; `variation` only where its decay is to be proven."""

    loss: PrivacyLoss
    tilted: Tilted
    variation: Floats | None


class Contour:
    """All members tilted at one c, ready for any period.

    Attributes:
        at: index of c among the tilts.
        frequency: the |Im z| up to which members are resolved.
        key: what tells this contour from others of the same members.
    """

    def __init__(self, tilts: Tilts, at: int, octave: int, bucket: int) -> None:
        """Tilt the members that matter from `bucket` on, resolved up to |Im z| = 2**octave."""
        self.tilts, self.at, self.frequency = tilts, at, 2.0**octave
        self.key = (tilts.bucket, at, octave, bucket)
        self.c = float(tilts.t[at])
        members, counts = tilts.members, tilts.members.grid.counts
        # decay is proven at every so many knots: |phi| beyond the nodes varies slowly
        self._stride = max(1, members.grid.buckets // PROVEN)
        near = ~np.isnan(tilts.k[:, 0, at])
        proven = (np.arange(near.size) % self._stride == 0) & (np.arange(near.size) < counts)
        proven[counts - 1] = True
        proven &= near & members.needed(bucket, self._stride)
        chosen = [int(i) for i in np.flatnonzero((near & members.needed(bucket)) | proven)]
        self._tilted = {i: self._tilt(i, bool(proven[i])) for i in chosen}

    def _tilt(self, index: int, proven: bool) -> _Tilt | None:
        """Tilt one law; to prove decay, up to where the smoothness of its density takes over.

        None where the quadrature gives up: then there is no answer for those who used the member.
        """
        loss = self.tilts.members.loss(index)
        try:
            loss = loss.covering(-1.0, self.c, self.c, 1.01 * self.frequency, _FLOOR)
        except NumericError:
            return None
        variation = decay.variation(loss, self.c) if proven else None
        enough = decay.enough(variation) if variation is not None else 0.0
        if loss.frequency < enough < FURTHER * self.frequency:
            try:
                loss = loss.covering(-1.0, self.c, self.c, 1.01 * enough, _FLOOR)
                variation = decay.variation(loss, self.c)
            except NumericError:  # then nothing is proven about this step beyond the nodes
                pass
        return _Tilt(loss, Tilted(Law.of((Step(loss, 1),)), self.c), variation)

    def nodes(self, h: float, count: int) -> tuple[NDArray[np.complex128], Floats, Floats]:
        """Return log M(c), log phi(h), ..., log phi(count h) of the members, errors, log sup.

        Errors are those of log M.

        Returns:
            Shapes (members, count + 1), the same, and (buckets + 1,): a bound on log |phi| beyond
            the last node for all steps of a bucket. nan for members that are too far.
        """
        k = self.tilts.k
        values = np.full((k.shape[0], count + 1), np.nan, np.complex128)
        errors = np.full(values.shape, np.nan)
        sup = np.zeros(k.shape[0])
        for i, found in self._tilted.items():
            if found is None:
                continue
            loss, tilted = found.loss, found.tilted
            re, im = tilted.log_phi(h, 1, count + 1)
            drift = h * np.arange(1.0, count + 1.0) * loss.generating(self.c)[1]
            values[i, 0], errors[i, 0] = k[i, :2, self.at]
            values[i, 1:] = re + 1j * (np.unwrap(im) + drift)
            # log of the factor that |phi| may be larger by: products of factors bound products
            off = 4.0 * loss.tolerance + 2.0 * tilted.lost + 1e-15
            errors[i, 1:] = errors[i, 0] + np.logaddexp(0.0, math.log(off) - re)
            if found.variation is not None:
                sup[i] = decay.log_sup(
                    tilted.centred,
                    tilted.weight,
                    float(tilted.spread[0]),
                    float(tilted.slack[0]),
                    found.variation,
                    h * (count + 1),
                    loss.frequency,
                )
        return values, errors, self._per_bucket(sup)

    def _per_bucket(self, sup: Floats) -> Floats:
        """Take for each bucket the larger value of the knots around it, less a margin."""
        n = self.tilts.members.grid.buckets
        below = np.arange(n) // self._stride * self._stride
        above = np.minimum(below + self._stride, n)
        return SAMPLED * np.append(np.maximum(sup[below], sup[above]), sup[n])


@dataclass(frozen=True)
class ContourTable:
    """log phi at the nodes c + inh of one contour, as columns, and what bounds the rest.

    Attributes:
        c, period: the contour and T = 2 pi / h.
        nodes: number N of nodes with n >= 1.
        growth: |z(z+1)| / (c(c+1)) at n = 0 ... N.
        phase: argument of z(z+1) at n = 1 ... N.
        bands: first node of each error band, then N + 1.
        table: coefficients, shape (columns, 2 N + 3 + bands): Re log phi, Im log phi (with the
            mean), K(c), the bound on log |phi| beyond the last node, what lower bounds add to the
            error in every band, and the error of log M in each band; errors are multiples of
            `growth`.
    """

    c: float
    period: float
    nodes: int
    growth: Floats
    phase: Floats
    bands: NDArray[np.int64]
    table: Floats

    @classmethod
    def of(cls, contour: Contour, period: float, nodes: int) -> dict[str, ContourTable]:
        """Evaluate a contour; one table for each reading of the ledger."""
        members, grid, c = contour.tilts.members, contour.tilts.members.grid, contour.c
        h = 2.0 * math.pi / period
        z = c + 1j * h * np.arange(nodes + 1.0)
        growth = np.abs(z * (z + 1.0)) / (c * (c + 1.0))
        phase = np.angle(z[1:]) + np.angle(z[1:] + 1.0)
        bands = np.append(2 ** np.arange(int(math.log2(nodes)) + 1) - 1, nodes + 1)
        values, errors, log_sup = contour.nodes(h, nodes)
        tables = {}
        for reading in READINGS if grid.splines else READINGS[1:]:
            a, radius = members.columns(reading, values, errors, growth)
            gamma = np.maximum.reduceat(radius / growth, bands[:-1], axis=1)
            sup, beyond = np.zeros(a.shape[0]), np.zeros(a.shape[0])
            sup[: grid.counts] = log_sup
            if reading == "better":
                sup[grid.buckets] = 0.0
            if reading == "splines":
                beyond[grid.buckets] = _leave_out(values[grid.buckets], growth)
            parts = [a[:, 1:].real, a[:, 1:].imag, a[:, :1].real, sup[:, None], beyond[:, None]]
            table = np.concatenate([*parts, gamma], axis=1)
            # no table, no answer: an error this large leaves no bound behind
            table[np.isnan(table).any(axis=1)] = [0.0] * (table.shape[1] - 1) + [FORBIDDEN]
            full = np.ascontiguousarray(table)
            tables[reading] = cls(c, period, nodes, growth, phase, bands, full)
        return tables


def _leave_out(log_m: NDArray[np.complex128], growth: Floats) -> float:
    """Error of leaving a step out, as a multiple of `growth`.

    A dominated law has |M(z) - M_dominated(z)| <= growth (M(c) - 1), because the difference of
    their profiles is non-negative and its transform is (M - M_dominated) / (z (z+1)).
    """
    size = np.exp(log_m[0].real + np.concatenate([[0.0], log_m[1:].real]))
    share = growth * np.expm1(log_m[0].real) / size
    return float((-np.log1p(-np.minimum(share, 1.0 - 1e-12)) / growth).max())
