"""The seal of a kernel text: its last line holds a digest of everything above it.

A kernel file that was edited, truncated or only half written does not pass `intact`.
"""

from __future__ import annotations

import hashlib

MARK = "# sha256 of the text above: "


def seal(text: str) -> str:
    """The text with its seal.

    Args:
        text: a module text that ends in a newline.
    """
    return f"{text}{MARK}{_digest(text)}\n"


def intact(text: str) -> bool:
    """Whether a sealed text is as it was written."""
    body, mark, digest = text.rpartition(MARK)
    return bool(mark) and digest == f"{_digest(body)}\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
