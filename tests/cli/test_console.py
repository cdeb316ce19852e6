"""Progress bars: one display, and one bar for each running loop."""

import io

from rich.console import Console

from conservator.cli import console
from conservator.cli.console import ProgressBars


def test_a_nested_loop_has_its_own_bar(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(console, "messages", Console(file=screen, force_terminal=True, width=100))
    bars = ProgressBars()
    seen = [(a, b) for a in bars.track(range(2), "outer") for b in bars.track("xy", "inner")]
    assert seen == [(0, "x"), (0, "y"), (1, "x"), (1, "y")]
    assert bars.display is None
    assert "outer" in screen.getvalue()
    assert next(iter(bars.track(range(2), "left early"))) == 0
    assert bars.display is None
    assert list(bars.track(range(3), "again")) == [0, 1, 2]


def test_without_a_terminal_nothing_is_shown(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(console, "messages", Console(file=screen))
    assert list(ProgressBars().track(range(3), "quiet")) == [0, 1, 2]
    assert screen.getvalue() == ""
