"""Transformations of declarations: from a pair to the pair of a larger mechanism, still symbolic.

Each function takes a declaration, with options that are words, and returns a declaration; what was
done is recorded in `construction`, so that a claim about the result can rest on the claim about its
base (mechc.calculus.claims).
"""

from mechc.transform.base import of_length
from mechc.transform.sampling import check_adjacency, poisson, without_replacement
from mechc.transform.sensitivity import group, random_sensitivity, shift, vector, with_replacement
from mechc.transform.truncation import truncate

__all__ = [
    "check_adjacency", "group", "of_length", "poisson", "random_sensitivity", "shift", "truncate",
    "vector", "with_replacement", "without_replacement",
]  # fmt: skip
