"""Numbers in files: coordinates that a page can have, and confidences from 0 to 1."""

import re
from collections.abc import Callable, Sequence

from conservator.errors import ConservatorError
from conservator.pages.model import Box, Word

NUMBER = re.compile(r"\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?\s*", re.ASCII)
FAR = 10_000_000  # the largest coordinate: 200 metres of paper at 1200 dots an inch


def read_coordinate(value: str, where: Callable[[], str]) -> float:
    """A coordinate; raise a ConservatorError that says where it is, if it is not a number that a page can have."""
    number = float(value) if len(value) < 100 and NUMBER.fullmatch(value) else None
    if number is None or abs(number) > FAR:
        shown = value if len(value) < 40 else value[:40] + "..."
        raise ConservatorError(f"{where()}: the coordinate {shown!r} is not a number of at most {FAR:,}")
    return number


def read_confidence(value: str | None, scale: float = 1.0) -> float | None:
    """A confidence from 0 to ``scale``, as one from 0 to 1; None if there is none, such as -1."""
    if value is None or len(value) >= 100 or not NUMBER.fullmatch(value):
        return None
    number = float(value) / scale
    return number if 0 <= number <= 1 else None


def write_coordinate(value: float) -> str:
    """A coordinate without a needless fraction."""
    return str(round(value)) if abs(value - round(value)) < 0.005 else f"{value:.2f}"


def divide(words: Sequence[Word], parts: Sequence[str]) -> list[Box | None]:
    """The boxes of words that take the place of others.

    Glyphs say where the parts are, if the parts have their characters and they have boxes; else each part gets a share
    of the box around all by its number of characters, a space between parts counting as one.
    """
    boxes = [word.box for word in words if word.box is not None]
    if len(boxes) < len(words):
        return [None] * len(parts)
    glyphs = [glyph for word in words for glyph in word.glyphs]
    if "".join(glyph.text for glyph in glyphs) == "".join(parts) and all(glyph.box for glyph in glyphs):
        found = _by_glyphs([(len(glyph.text), glyph.box) for glyph in glyphs if glyph.box], parts)
        if found is not None:
            return list(found)
    around = boxes[0]
    for box in boxes[1:]:
        around = around.joined(box)
    integral = all(value == round(value) for value in around)
    total = sum(map(len, parts)) + len(parts) - 1
    made: list[Box | None] = []
    at = 0
    for part in parts:
        ends = [around.left + (around.right - around.left) * share / total for share in (at, at + len(part))]
        left, right = [float(round(end)) for end in ends] if integral else ends
        made.append(Box(left, around.top, right, around.bottom))
        at += len(part) + 1
    return made


def _by_glyphs(glyphs: Sequence[tuple[int, Box]], parts: Sequence[str]) -> list[Box] | None:
    """The boxes around the glyphs of each part; None if a part begins within a glyph."""
    made, at = [], 0
    for part in parts:
        box, length = None, 0
        while length < len(part):
            size, other = glyphs[at]
            box, length, at = box.joined(other) if box else other, length + size, at + 1
            while at < len(glyphs) and not glyphs[at][0]:
                at += 1
        if length > len(part) or box is None:
            return None
        made.append(box)
    return made
