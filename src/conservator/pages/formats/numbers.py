"""Numbers in OCR files: coordinates and confidences; division of boxes."""

import re
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

from conservator.errors import ConservatorError
from conservator.pages.model import Box, Word, outer_box

NUMBER = re.compile(r"\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?\s*", re.ASCII)
# units of the file: largest coordinate, 200 metres of paper at 1200 dpi [safety limit]
MAX_COORDINATE = 10_000_000


def read_coordinate(value: str, location: Callable[[], str]) -> float:
    """Parse a coordinate.

    Args:
        value: text of the number.
        location: returns the position in the file, for the error message.
    """
    number = float(value) if len(value) < 100 and NUMBER.fullmatch(value) else None
    if number is None or abs(number) > MAX_COORDINATE:
        excerpt = value if len(value) < 40 else value[:40] + "..."
        raise ConservatorError(
            f"{location()}: coordinate must be a number between -{MAX_COORDINATE:,} and {MAX_COORDINATE:,}, "
            f"got {excerpt!r}"
        )
    return number


def read_confidence(value: str | None, scale: float = 1.0) -> float | None:
    """Parse a confidence between 0 and ``scale`` and divide it by ``scale``; None if it is missing or out of range."""
    if value is None or len(value) >= 100 or not NUMBER.fullmatch(value):
        return None
    number = float(value) / scale
    return number if 0 <= number <= 1 else None


def write_coordinate(value: float) -> str:
    """Format a coordinate, as an integer if it is within 0.005 of one."""
    return str(round(value)) if abs(value - round(value)) < 0.005 else f"{value:.2f}"


def divide_boxes(words: Sequence[Word], parts: Sequence[str]) -> list[Box | None]:
    """Return boxes for ``parts``, which replace ``words``.

    If the parts consist of whole glyphs with boxes, a part gets the box around its glyphs.
    Otherwise the box around all words is divided in proportion to the number of characters of each part; a space
    between two parts counts as one character.
    """
    outer = outer_box([word.box for word in words])
    if outer is None:
        return [None] * len(parts)
    glyphs = [glyph for word in words for glyph in word.glyphs if glyph.text]
    glyph_ends = list(accumulate(len(glyph.text) for glyph in glyphs))
    part_ends = list(accumulate(map(len, parts)))
    if "".join(glyph.text for glyph in glyphs) == "".join(parts) and set(part_ends) <= set(glyph_ends):
        bounds = [0, *(glyph_ends.index(end) + 1 for end in part_ends)]
        boxes = [outer_box([glyph.box for glyph in glyphs[start:stop]]) for start, stop in pairwise(bounds)]
        if None not in boxes:
            return boxes
    integral = all(value == round(value) for value in outer)
    total = sum(map(len, parts)) + len(parts) - 1
    divided: list[Box | None] = []
    offset = 0
    for part in parts:
        ends = [outer.left + (outer.right - outer.left) * count / total for count in (offset, offset + len(part))]
        left, right = [float(round(end)) for end in ends] if integral else ends
        divided.append(Box(left, outer.top, right, outer.bottom))
        offset += len(part) + 1
    return divided
