"""Adaptors to other libraries, imported when they are asked for."""

from importlib import import_module
from typing import Any

__all__ = ["dp_accounting", "opacus"]


def __getattr__(name: str) -> Any:
    """Import an adaptor, or what that of dp_accounting exports, on first use."""
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    adaptor = import_module(f"{__name__}.dp_accounting")
    if name not in adaptor.__all__ or name == "MechcAccountant":  # each adaptor has one
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(adaptor, name)


def __dir__() -> list[str]:
    """List the adaptors."""
    return __all__
