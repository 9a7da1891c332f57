"""Symbolic derivation: Pair in, Calculus out."""
