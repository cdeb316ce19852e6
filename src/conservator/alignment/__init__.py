"""Alignment: choose the lengths of gaps, and fit edit channels to pairs of texts."""

from conservator.alignment.gap_lengths import choose_lengths
from conservator.alignment.reading_errors import ErrorEvent, ReadingErrors, find_events
from conservator.alignment.readings import Segment, align_readings, find_differences

__all__ = [
    "ErrorEvent",
    "ReadingErrors",
    "Segment",
    "align_readings",
    "choose_lengths",
    "find_differences",
    "find_events",
]
