"""What the commands share: messages and progress, on standard error."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

messages = Console(stderr=True, highlight=False, markup=False)


def track(items: Iterable[Any], title: str) -> Iterable[Any]:
    """Show a progress bar on standard error while ``items`` are worked through, if that is a terminal."""
    if not messages.is_terminal:
        yield from items
        return
    columns = (
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=messages, transient=True) as progress:
        yield from progress.track(list(items))
