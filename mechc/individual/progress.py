"""A progress bar of what is counted in people or in chunks of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


@contextmanager
def bar(label: str, total: int, shown: bool = True) -> Iterator[Callable[..., Any]]:
    """Show a bar while the body runs; yield what updates it, by `advance=` or `completed=`."""
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=not shown) as progress:
        yield partial(progress.update, progress.add_task(label, total=total))
