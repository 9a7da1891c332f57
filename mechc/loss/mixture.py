"""The privacy loss of a pair whose output also tells an index that both laws share.

In: the kernel of the pair given the index (its last parameter) and the kernel of the index's law.
Out: a discrete `PrivacyLoss`, the mixture of the losses given the index. Outcomes that are too
improbable to matter are dropped, and more than what they could hold is put at infinite loss.
"""

from __future__ import annotations

import math

import numpy as np

from mechc.errors import NumericError, UnsupportedError
from mechc.loss.atoms import formulas_apart
from mechc.loss.privacy_loss import PrivacyLoss
from mechc.loss.quadrature.rule import log_densities
from mechc.numeric.allowance import DENSITY, spend
from mechc.protocol import Floats, Kernel, Measure

_LEAST = -64.0  # log of the probability below which an outcome is dropped
_GRID = 4096  # points of the first look at the outcomes of one index
MOST_OUTCOMES = 20_000_000  # of all indices: 160 MB a column


def tagged_loss(kernel: Kernel, tag: Kernel, theta: Floats) -> PrivacyLoss:
    """Return the law of the loss under P.

    Args:
        kernel: masses on integers, given the index.
        tag: the law of the index.
        theta: parameters of `tag`; those of `kernel` are these and the index.

    Raises:
        UnsupportedError: masses that are not on integers.
        NumericError: too many outcomes, or masses that are no doubles.
    """
    values = zip((info[0] for info in tag.PARAMETERS), theta, strict=True)
    label = f"{kernel.NAME}({', '.join(f'{name}={value:g}' for name, value in values)})"
    if kernel.MEASURE != Measure.LATTICE or tag.MEASURE != Measure.LATTICE:
        raise UnsupportedError(f"{label}: an index in the output needs masses on integers")
    losses, masses, seen, apart, digits = [], [], 0, 0.0, 0.0
    index, weight = _outcomes(tag, theta, 0.0, label)[:2]
    for m, log_weight in zip(index, weight, strict=True):
        given = np.append(theta, m)
        x, log_p, log_q = _outcomes(kernel, given, float(log_weight), label)
        seen += x.size
        if seen > MOST_OUTCOMES:
            raise NumericError(f"{label}: more than {MOST_OUTCOMES} outcomes matter")
        spend(DENSITY * x.size)
        loss: Floats = np.empty(x.size)
        kernel.loss_many(x, given, loss)
        both = (log_p > -np.inf) & (log_q > -np.inf)
        if not both.all():
            raise NumericError(
                f"{label}: at index {m:g} there are outcomes of only one law, or their masses are "
                "no doubles"
            )
        gap, more = formulas_apart(log_p, log_q, loss, label)
        apart, digits = max(apart, gap), max(digits, more)
        # a formula for the loss may overflow where logs do not
        losses.append(np.where(np.isfinite(loss), loss, log_p - log_q))
        masses.append(log_p + log_weight)
    loss, log_mass = np.concatenate(losses), np.concatenate(masses)
    dropped = math.log(MOST_OUTCOMES) + _LEAST
    early = (dropped, dropped)  # they have any losses, and perhaps less mass
    return PrivacyLoss.from_log_atoms(
        loss, log_mass, *early, label, loss_error=apart, density_error=apart, early=early,
        digits=digits,
    )  # fmt: skip


def _outcomes(
    kernel: Kernel, theta: Floats, log_weight: float, label: str
) -> tuple[Floats, Floats, Floats]:
    """The integers that matter, and their log masses."""
    rows = np.asarray(kernel.branches(theta), np.float64).reshape(-1, 6)
    lo, hi = float(rows[:, 0].min()), float(rows[:, 1].max())
    if not math.isfinite(lo + hi):
        raise UnsupportedError(f"{label}: an index needs outcomes between known ends")
    stride = max(1.0, math.floor((hi - lo) / _GRID))
    while True:
        x: Floats = np.append(np.arange(lo, hi, stride), hi)
        log_p, log_q = log_densities(kernel, theta, x)
        larger = np.maximum(log_p, log_q)
        kept = np.flatnonzero(larger + log_weight >= _LEAST)
        if stride == 1.0:
            return x[kept], log_p[kept], log_q[kept]
        # look closer at what lies between those that matter, or around the most likely one
        near = kept if kept.size else np.array([np.argmax(larger)])
        before = hi - lo
        lo, hi = float(x[max(near[0] - 1, 0)]), float(x[min(near[-1] + 1, x.size - 1)])
        if hi - lo > max(0.5 * before, MOST_OUTCOMES):
            raise NumericError(f"{label}: {hi - lo:.1g} outcomes matter, too many to list")
        stride = 1.0 if hi - lo <= MOST_OUTCOMES else math.floor((hi - lo) / _GRID)
