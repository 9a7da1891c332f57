"""How doubles round: the one home of the two constants from which every allowance is built."""

from __future__ import annotations

EPS = 2.0**-52
"""Distance from 1 to the next double: an operation on operands known to EPS stays within a few."""

U = 2.0**-53
"""Unit roundoff: what one correctly rounded operation may change, relatively."""

SQUARABLE = 1e150
"""Numbers up to this, and inverses of them, have a square that is a double."""

EXACT = 2.0**53
"""Integers up to this are doubles; beyond, not all."""

MOST_LOG = 700.0
"""exp of it and of minus it are normal doubles with a factor exp(8) to spare: logs are cut here."""

MASS_TOLERANCE = 1e-9
"""By which masses of a law may miss one, lest they are refused; the miss widens every answer."""

SHORT = 2.0**24
"""A literal in emitted text is exact if it is a multiple of a power of two by no more than this."""
