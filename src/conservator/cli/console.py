"""What the commands share: messages and progress, on standard error; and terminals that show no foreign escapes."""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

# Controls but for newlines and tabs, and what turns the direction of a text: a terminal would obey them.
OBEYED = [*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
SHOWN = {code: f"\\x{code:02x}" if code < 160 else f"\\u{code:04x}" for code in OBEYED}


@contextmanager
def without_collection() -> Iterator[None]:
    """Import modules without garbage collection, and never search them for garbage afterwards.

    Imports make very many objects and no garbage; the collections that they trigger take a quarter of the time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def printable(text: str) -> str:
    """A text from anywhere (the name of a file, the card of an expert) with its controls as escapes that show."""
    return text.translate(SHOWN)


class SafeConsole(Console):
    """A terminal that obeys rich alone: controls in the texts that it is given are shown instead."""

    def render_str(self, text: str, **options: Any) -> Text:
        """A string as what is measured and written."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is written, in parts of one style each."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(printable(part.text), part.style)


messages = SafeConsole(stderr=True, highlight=False, markup=False)


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
