"""What the commands share: messages and progress, on standard error."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

messages = Console(stderr=True, highlight=False, markup=False)


class Bars:
    """Progress bars on one display: a loop inside a loop has its bar below."""

    def __init__(self) -> None:
        """Nothing is shown yet."""
        self.display: Progress | None = None

    def track(self, items: Iterable[Any], title: str) -> Iterable[Any]:
        """Show a bar on standard error while ``items`` are worked through, if that is a terminal."""
        if messages.quiet or not messages.is_terminal:
            yield from items
            return
        if self.display is not None:
            yield from self.one(self.display, items, title)
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=messages, transient=True) as self.display:
            try:
                yield from self.one(self.display, items, title)
            finally:
                self.display = None

    def one(self, display: Progress, items: Iterable[Any], title: str) -> Iterable[Any]:
        """One bar, which goes when its loop is done."""
        listed = list(items)
        task = display.add_task(title, total=len(listed))
        try:
            for item in listed:
                yield item
                display.advance(task)
        finally:
            display.remove_task(task)


track = Bars().track
