"""A mechanism file to start from: `mechc new NAME`."""

from __future__ import annotations

import keyword
from pathlib import Path

from mechc.errors import DeclarationError, in_words

TEMPLATE = '''"""Noise of my own on a real query: a file for mechc.

mechc show {name}.py                                       what is derived from it
mechc epsilon {name}.py --set scale=20 --count 100 --delta 1e-6
"""

from sympy import cosh

from mechc.declare import additive, positive, real

# The output, and the parameters. Each has a domain (positive, real, integer, probability), which
# proofs rest on, and a typical range, at which formulas are tested.
x = real("x")
scale = positive("scale", typical=(0.5, 50))
sensitivity = positive("sensitivity", default=1, typical=(0.1, 5))

# The density of the noise, which must have mass one. SymPy's functions may stand in it: exp, log,
# Abs, sqrt, erf, gamma ...; several formulas are Piecewise((formula, condition), (rest, True)).
# What P and Q are, where the loss rises and falls, its inverse and the claim follow from it.
# For a pair (P, Q) of another kind, see mechanism(...) in docs/adding-a-mechanism.md.
{name} = additive(
    "{name}",
    noise=1 / (4 * scale * cosh(x / (2 * scale)) ** 2),
    variable=x,
    sensitivity=sensitivity,
    parameters=(scale, sensitivity),
    about="Noise of density proportional to cosh(x / (2 scale))^-2 on a real query.",
)
'''
TAKEN = ("x", "scale", "sensitivity", "cosh", "additive", "positive", "real")


def write(name: str) -> Path:
    """Write NAME.py into the current folder, unless it is there or is no name of Python."""
    name = name.removesuffix(".py")
    if not name.isidentifier() or keyword.iskeyword(name) or name in TAKEN:
        raise DeclarationError(
            f"{name!r} cannot name a mechanism (expected letters, digits and underscores, no word "
            "of Python or of the file itself)"
        )
    path = Path(f"{name}.py")
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(TEMPLATE.format(name=name))
    except FileExistsError:
        raise DeclarationError(f"{path} is there already, and is not overwritten") from None
    except OSError as error:
        raise DeclarationError(f"cannot write {path}: {in_words(error)}") from None
    return path
