"""Expressions: facts and signs, monotonicity, curvature, asymptotics, rewriting, evaluation.

This room knows expressions and parameters with their domains; it knows no mechanisms.
"""
