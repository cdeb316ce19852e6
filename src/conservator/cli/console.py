"""Messages and progress bars on standard error, with control characters escaped; signals that end a command."""

import gc
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

# Control characters except newline and tab, and bidirectional controls: a terminal would execute them.
CONTROL_CODES = [*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
ESCAPES = {code: f"\\x{code:02x}" if code < 160 else f"\\u{code:04x}" for code in CONTROL_CODES}


@contextmanager
def without_collection() -> Iterator[None]:
    """Disable garbage collection during imports, and freeze the imported objects afterwards.

    Imports create many objects and no garbage; the collections that they trigger take a quarter of the time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def printable(text: str) -> str:
    """Escape control characters in a text such as a file name or the card of an expert."""
    return text.translate(ESCAPES)


class SafeConsole(Console):
    """A rich console that escapes control characters in all texts."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a string."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render an object into segments."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


messages = SafeConsole(stderr=True, highlight=False, markup=False)


@contextmanager
def exit_on_sigterm(code: int) -> Iterator[None]:
    """Raise SystemExit on SIGTERM in a ``with`` block, so that temporary files are removed and workers are stopped."""
    handler = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(code))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


def show_progress(*columns: Any) -> Progress:
    """Return a display of progress bars on standard error, which is hidden if that is not a terminal."""
    hidden = messages.quiet or not messages.is_terminal
    return Progress(*columns, console=messages, transient=True, disable=hidden)


def show_counts(*columns: str) -> Progress:
    """Return a display of bars that count items, with the time; further ``columns`` are between count and time."""
    times = (TimeElapsedColumn(), "remaining", TimeRemainingColumn())
    return show_progress("{task.description}", BarColumn(), MofNCompleteColumn(), *columns, *times)


class ProgressBars:
    """Progress bars on one display; the bar of an inner loop is below that of the outer loop."""

    def __init__(self) -> None:
        """Create an empty display."""
        self.display: Progress | None = None

    def track(self, items: Iterable[Any], title: str) -> Iterable[Any]:
        """Iterate over ``items`` with a progress bar on standard error, if that is a terminal."""
        if self.display is None:
            with show_counts() as self.display:
                try:
                    yield from self.track(items, title)
                finally:
                    self.display = None
            return
        display, item_list = self.display, list(items)
        task = display.add_task(title, total=len(item_list))
        try:
            for item in item_list:
                yield item
                display.advance(task)
        finally:
            display.remove_task(task)


track = ProgressBars().track
