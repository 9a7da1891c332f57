"""Lowering, emission and caching of numba kernels."""
