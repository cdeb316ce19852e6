"""Replacement of spans of a text."""

from collections.abc import Iterable
from typing import TypeVar

Text = TypeVar("Text", str, bytes)


def splice(source: Text, replacements: Iterable[tuple[int, int, Text]]) -> Text:
    """Return ``source`` with spans replaced.

    Args:
        source: A text, as characters or bytes.
        replacements: ``(start, stop, new)`` with half-open spans of ``source``, sorted and disjoint. An empty span is
            an insertion.

    Raises:
        ValueError: a span overlaps an earlier one, or is not within the source.
    """
    parts: list[Text] = []
    done = 0
    for start, stop, new in replacements:
        if not done <= start <= stop <= len(source):
            raise ValueError(f"the span {start} to {stop} overlaps an earlier one, or is outside of {len(source)}")
        parts += [source[done:start], new]
        done = stop
    parts.append(source[done:])
    return source[:0].join(parts)
