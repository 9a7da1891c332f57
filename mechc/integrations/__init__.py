"""Adaptors to other libraries, imported when they are asked for."""

from importlib import import_module
from typing import Any

__all__ = ["dp_accounting", "opacus"]


def __getattr__(name: str) -> Any:
    """Import an adaptor on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    """List the adaptors."""
    return __all__
