"""mechc: a mechanism compiler for differential privacy."""

__version__ = "0.1.0"
