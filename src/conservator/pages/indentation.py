"""Indentation of monospaced pages, from the boxes of words; OCR formats do not store it.

On a monospaced page, the distances between the left edges of words are multiples of the character width, and so is the
distance of a line from the left margin. The skew of a scanned page is estimated from its lines and removed first. Pages
with proportional fonts get no indentation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from conservator.pages.model import Box, Line, Page
from conservator.pages.transcript import Transcript


@dataclass(frozen=True)
class IndentationConfig:
    """Thresholds of the detection of monospaced pages."""

    # relative width: interquartile range of character widths over their median, at most, on a monospaced page [untuned]
    max_width_spread: float = 0.1
    min_samples: int = 20  # count: lines, and pairs of words, that the detection needs [untuned]
    min_line_width: float = 10  # characters: shorter lines do not count for the skew [untuned]
    margin_quantile: float = 0.02  # quantile: left edges of lines that define the left margin [untuned]
    margin_search: float = 0.5  # characters: largest shift of the left margin that is tried [untuned]
    margin_steps: int = 41  # count: shifts of the left margin that are tried [untuned]


CONFIG = IndentationConfig()
MARGIN_SHIFTS = np.linspace(-CONFIG.margin_search, CONFIG.margin_search, CONFIG.margin_steps)


def add_indentation(transcript: Transcript, text: str) -> str:
    """Add the indentation of the pages to a text with the lines of ``transcript.text``, corrected or not."""
    space_counts = iter([count for page in transcript.pages for count in find_indentation(page)])
    lines = zip(transcript.text.split("\n"), text.split("\n"), strict=True)
    return "\n".join(" " * next(space_counts) + line if old_line else line for old_line, line in lines)


def find_indentation(page: Page) -> list[int]:
    """Return the number of spaces before each line of a page; all 0 if the page is not monospaced."""
    no_indentation = [0] * len(page.lines)
    boxes = [[word.box for word in line.words if word.box is not None] for line in page.lines]
    has_all_boxes = all(len(line_boxes) == len(line.words) for line_boxes, line in zip(boxes, page.lines, strict=True))
    if len(boxes) < CONFIG.min_samples or not has_all_boxes:
        return no_indentation
    widths = find_widths(page.lines, boxes)
    if len(widths) < CONFIG.min_samples:
        return no_indentation
    lower, width, upper = np.quantile(widths, [0.25, 0.5, 0.75]).tolist()
    if width <= 0 or (upper - lower) / width > CONFIG.max_width_spread:
        return no_indentation
    skew = find_skew(boxes, CONFIG.min_line_width * width)
    lefts = np.array([line_boxes[0].left + skew * line_boxes[0].bottom for line_boxes in boxes]) / width
    lefts -= np.quantile(lefts, CONFIG.margin_quantile)
    residuals = [float(np.abs(lefts - shift - np.round(lefts - shift)).mean()) for shift in MARGIN_SHIFTS]
    return [max(0, round(left)) for left in (lefts - MARGIN_SHIFTS[int(np.argmin(residuals))]).tolist()]


def find_widths(lines: Sequence[Line], boxes: Sequence[Sequence[Box]]) -> list[float]:
    """Estimate the character width from each pair of adjacent words."""
    return [
        (right_box.left - left_box.left) / (len(word.text) + 1)
        for line, line_boxes in zip(lines, boxes, strict=True)
        for word, (left_box, right_box) in zip(line.words, pairwise(line_boxes), strict=False)
    ]


def find_skew(boxes: Sequence[Sequence[Box]], min_width: float) -> float:
    """Return the median slope of the lines that are at least ``min_width`` wide; 0 if there are none."""
    slopes = []
    for line_boxes in boxes:
        centers = np.array([(box.left + box.right) / 2 for box in line_boxes])
        if np.ptp(centers) >= min_width:
            slopes.append(float(np.polyfit(centers, [box.bottom for box in line_boxes], 1)[0]))
    return float(np.median(slopes)) if slopes else 0.0
