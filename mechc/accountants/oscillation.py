"""The characteristic function at high frequencies, at a cost that does not grow with them.

On every panel of the quadrature the density of the loss is a polynomial in the loss, in Legendre's
basis; its Fourier transform is a sum of spherical Bessel functions (Filon's rule),

    int_{-1}^{1} P_n(u) e^(iwu) du = 2 i^n j_n(w),    j_{n+1} = (2n+1)/w j_n - j_{n-1},

for which a panel needs one sine and one cosine a frequency, however many waves it holds. The error
is the integral of |density - polynomial|, the same at all frequencies.
"""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from mechc.accountants.characteristic import Law, Tilted
from mechc.loss.rule import NODES, ORDER, WEIGHTS

Floats = NDArray[np.float64]

_JIT: dict[str, Any] = {"error_model": "numpy", "cache": True}
STABLE = 8.0  # smallest phase of half a panel at which the recurrence goes upward
SAFETY = 8.0  # on the size of the coefficients that are cut off, judged by the last two
_DEGREES = np.arange(ORDER)
_ANALYSIS = (legendre.legvander(NODES, ORDER - 1) * WEIGHTS[:, None]).T * (_DEGREES + 0.5)[:, None]
_AT_ENDS = np.stack([_ANALYSIS.T @ (-1.0) ** _DEGREES, _ANALYSIS.sum(axis=0)], axis=1)


@nb.njit("UniTuple(float64, 2)(float64[::1], float64)", **_JIT)
def _filon(coefficient, w):  # type: ignore[no-untyped-def]
    """Return sum_n coefficient_n i^n j_n(w)."""
    sine = math.sin(w)
    before = sine / w
    now = before / w - math.cos(w) / w
    re = coefficient[0] * before
    im = coefficient[1] * now
    sign = -1.0
    for n in range(2, coefficient.size):
        after = (2 * n - 1) / w * now - before
        before, now = now, after
        if n % 2 == 0:
            re += sign * coefficient[n] * now
        else:
            im += sign * coefficient[n] * now
            sign = -sign
    return re, im


@nb.njit(
    "void(int64[::1], int64[::1], float64[::1], float64[:,::1], float64[:,::1], float64[:,::1],"
    " float64[:,::1], float64[::1], float64[::1], float64, int64, float64[::1], float64[::1])",
    **_JIT,
)
def _log_phi(  # type: ignore[no-untyped-def]
    panels, atoms, counts, place, coefficient, centred, weight, at, mass, h, begin, re, im
):
    """Log of the composed characteristic function at y = n h from n = begin on."""
    for n in range(re.size):
        y = (begin + n) * h
        size = 0.0
        angle = 0.0
        for i in range(counts.size):
            a = 0.0
            b = 0.0
            for m in range(atoms[i], atoms[i + 1]):
                a += mass[m] * math.cos(y * at[m])
                b += mass[m] * math.sin(y * at[m])
            for m in range(panels[i], panels[i + 1]):
                w = y * place[m, 1]
                if w < STABLE:
                    for j in range(ORDER):
                        a += weight[m, j] * math.cos(y * centred[m, j])
                        b += weight[m, j] * math.sin(y * centred[m, j])
                else:
                    x, z = _filon(coefficient[m], w)
                    c = math.cos(y * place[m, 0])
                    s = math.sin(y * place[m, 0])
                    a += c * x - s * z
                    b += s * x + c * z
            size += counts[i] * 0.5 * math.log(max(a * a + b * b, 1e-300))
            angle += counts[i] * math.atan2(b, a)
        re[n] = size
        im[n] = angle


class Oscillation:
    """Tilted laws of all steps as atoms and piecewise polynomials on the loss axis.

    Attributes:
        error: bound on the error of phi of the composition that the polynomials make.
    """

    def __init__(self, law: Law, tilted: Tilted, floor: float) -> None:
        """Fit panels.

        Args:
            law: the composition, on panels that need not resolve any frequency.
            tilted: where it is tilted and centred.
            floor: tilted mass of a step that may be left out.
        """
        parts, self.error = [], 0.0
        weights = Tilted(law, tilted.c).weights
        for step, w, mean in zip(law.steps, weights, tilted.mean, strict=True):
            n = step.loss.loss.size
            shape = (-1, ORDER)
            fields = (w[:n], step.loss.loss - mean, step.loss.spacing)
            weight, centred, spacing = (v.reshape(shape) for v in fields)
            seen = weight.sum(axis=1) > floor / max(weight.shape[0], 1)
            place, coefficient, error = _fit(weight[seen], centred[seen], spacing[seen])
            self.error += step.count * (error + float(weight[~seen].sum()))
            atoms = (step.loss.atom_loss - mean, w[n:])
            parts.append((place, coefficient, centred[seen], weight[seen], *atoms))
        self._panels, self._atoms = (
            np.cumsum([0, *(part[i].shape[0] for part in parts)]).astype(np.int64) for i in (0, 4)
        )
        self._arrays = [
            np.ascontiguousarray(np.concatenate(column)) for column in zip(*parts, strict=True)
        ]
        self._counts = law.counts

    @property
    def cost(self) -> float:
        """Work of one frequency, in node evaluations of Tilted."""
        return 12.0 * float(self._panels[-1] + self._atoms[-1])

    def log_phi(self, h: float, begin: int, end: int) -> tuple[Floats, Floats]:
        """Return what Tilted.log_phi does: log phi at y = n h, begin <= n < end."""
        re, im = np.empty(end - begin), np.empty(end - begin)
        law = (self._panels, self._atoms, self._counts, *self._arrays)
        _log_phi(*law, h, begin, re, im)  # type: ignore[call-arg]  # an array each
        return re, im


def _fit(weight: Floats, loss: Floats, spacing: Floats) -> tuple[Floats, Floats, float]:
    """Return (middle, half length) and coefficients of every panel, and the integral error."""
    ends = loss @ _AT_ENDS
    place = np.stack([ends.mean(axis=1), 0.5 * np.abs(ends[:, 1] - ends[:, 0])], axis=1)
    u = (loss - place[:, :1]) / place[:, 1:]
    if not (np.diff(u, axis=1) * np.sign(u[:, -1:] - u[:, :1]) > 0.0).all():
        return place, np.zeros_like(weight), math.inf  # the loss turns inside a panel
    basis = legendre.legvander(u, ORDER - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        density = weight / spacing
    found = np.linalg.solve(basis, density[:, :, None])[:, :, 0]
    coefficient = 2.0 * place[:, 1:] * found
    error = SAFETY * float(np.abs(coefficient[:, -2:]).sum())
    return place, coefficient, error if math.isfinite(error) else math.inf
