"""Transformations of declarations: from a pair to the pair of a larger mechanism, still symbolic.

Each function takes a declaration, with options that are words, and returns a declaration; what was
done is recorded in `construction`, so that a claim about the result can rest on the claim about its
base (mechc.claims).
"""

from mechc.transform.lists import of_length
from mechc.transform.output import truncate
from mechc.transform.random_shift import random_sensitivity, with_replacement
from mechc.transform.sampling import check_adjacency, poisson
from mechc.transform.shifts import group, shift
from mechc.transform.subset import without_replacement
from mechc.transform.vector import vector

__all__ = [
    "check_adjacency", "group", "of_length", "poisson", "random_sensitivity", "shift", "truncate",
    "vector", "with_replacement", "without_replacement",
]  # fmt: skip
