"""Adaptors to other libraries, imported when they are asked for."""

from importlib import import_module
from typing import Any

__all__ = ["dp_accounting", "opacus"]
OF_DP_ACCOUNTING = ("from_dp_accounting", "from_event", "to_dp_accounting")


def __getattr__(name: str) -> Any:
    """Import an adaptor, or what there is one of, on first use."""
    if name in OF_DP_ACCOUNTING:
        return getattr(import_module(f"{__name__}.dp_accounting"), name)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    """List the adaptors."""
    return __all__
