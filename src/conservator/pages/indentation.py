"""Indentation, which no format of OCR has: from the boxes of words, where all characters are equally wide.

Of such a page, the distances between the beginnings of words are multiples of the width of a character, and so is the
distance of a line from the left margin. A page that was scanned at a slant is set upright by its lines first. On pages
with characters of other widths, where an indented line may mean anything, lines stay as they are.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from conservator.pages.model import Box, Line, Page
from conservator.pages.transcript import Transcript

EVEN = 0.1  # the range of the middle half of widths, over the median, up to which all characters are equally wide
FEW = 20  # pairs of words, and lines, without which that cannot be told
WIDE = 10  # characters: a shorter line tells no slant
MARGIN = 0.02  # of the lines may begin left of the margin
SHIFTS = np.linspace(-0.5, 0.5, 41)  # of the margin, in characters


def indented(transcript: Transcript, text: str) -> str:
    """A text with the lines of ``transcript.text``, corrected or not, and the indentation that the pages show."""
    spaces = iter([count for page in transcript.pages for count in find_indentation(page)])
    lines = zip(transcript.text.split("\n"), text.split("\n"), strict=True)
    return "\n".join(" " * next(spaces) + line if before else line for before, line in lines)


def find_indentation(page: Page) -> list[int]:
    """The number of blanks before each line of a page; none on a page whose characters are not equally wide."""
    none = [0] * len(page.lines)
    boxes = [[word.box for word in line.words if word.box is not None] for line in page.lines]
    if len(boxes) < FEW or any(len(own) < len(line.words) for own, line in zip(boxes, page.lines, strict=True)):
        return none
    widths = find_widths(page.lines, boxes)
    if len(widths) < FEW:
        return none
    low, width, high = np.quantile(widths, [0.25, 0.5, 0.75]).tolist()
    if width <= 0 or (high - low) / width > EVEN:
        return none
    slant = find_slant(boxes, WIDE * width)
    lefts = np.array([own[0].left + slant * own[0].bottom for own in boxes]) / width
    lefts -= np.quantile(lefts, MARGIN)
    off = [float(np.abs(lefts - shift - np.round(lefts - shift)).mean()) for shift in SHIFTS]
    return [max(0, round(left)) for left in (lefts - SHIFTS[int(np.argmin(off))]).tolist()]


def find_widths(lines: Sequence[Line], boxes: Sequence[Sequence[Box]]) -> list[float]:
    """The width of a character, by each pair of neighbouring words."""
    return [
        (after.left - before.left) / (len(word.text) + 1)
        for line, own in zip(lines, boxes, strict=True)
        for word, (before, after) in zip(line.words, pairwise(own), strict=False)
    ]


def find_slant(boxes: Sequence[Sequence[Box]], least: float) -> float:
    """How far lines fall for each step to the right: the median of those that are wide enough."""
    found = []
    for own in boxes:
        middles = np.array([(box.left + box.right) / 2 for box in own])
        if np.ptp(middles) >= least:
            found.append(float(np.polyfit(middles, [box.bottom for box in own], 1)[0]))
    return float(np.median(found)) if found else 0.0
