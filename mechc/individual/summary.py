"""Individual epsilons of groups: how many people, and quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechc.accountants.bound import Bound
from mechc.errors import DeclarationError

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class Group:
    """What a group of people has lost.

    Quantiles are functions of the data of the people in the group, not noisy answers about them:
    they are for those who may see the data, and must not be published.

    Attributes:
        label: what the members have in common, None for everybody.
        people: how many they are.
        at: the quantiles asked for.
        lower, upper: bounds on them.
    """

    label: Any
    people: int
    at: tuple[float, ...]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


def summary(
    bound: Bound, labels: ArrayLike | None = None, at: Sequence[float] = QUANTILES
) -> tuple[Group, ...]:
    """Return quantiles of individual bounds, of everybody or of every label.

    The k-th smallest of lower and of upper bounds enclose the k-th smallest value, so that
    quantiles are taken of both; they are data dependent, see `Group`.

    Args:
        bound: an answer of `IndividualAccountant`, with one value a person.
        labels: what the group of each person is called, shape (people,); one group without it.
        at: quantiles in [0, 1]; the value at rank ceil(q people) is taken, without interpolation.

    Raises:
        DeclarationError: shapes do not fit, or a quantile is outside [0, 1].
    """
    lower, upper = np.atleast_1d(bound.lower), np.atleast_1d(bound.upper)
    wanted = np.asarray(at, np.float64)
    if wanted.ndim != 1 or not ((wanted >= 0.0) & (wanted <= 1.0)).all():
        raise DeclarationError(f"at={at!r} (expected numbers from 0 to 1)")
    if labels is None:
        return (_group(None, lower, upper, wanted),)
    given = np.asarray(labels)
    if given.shape != upper.shape:
        raise DeclarationError(f"labels has shape {given.shape} (expected {upper.shape})")
    names, place = np.unique(given, return_inverse=True)
    parts = (np.flatnonzero(place == i) for i in range(names.size))
    return tuple(
        _group(name, lower[part], upper[part], wanted)
        for name, part in zip(names.tolist(), parts, strict=True)
    )


def _group(label: Any, lower: NDArray[Any], upper: NDArray[Any], at: NDArray[np.float64]) -> Group:
    rank = np.clip(np.ceil(at * upper.size).astype(np.int64) - 1, 0, upper.size - 1)
    values = np.sort(lower)[rank], np.sort(upper)[rank]
    return Group(label, upper.size, tuple(at.tolist()), *values)
