"""Typeset texts as page images, in the fonts of matplotlib."""

import io
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import matplotlib
from matplotlib.ft2font import FT2Font
from PIL import Image, ImageDraw, ImageFont

DPI = 300  # dots per inch: resolution of the images [untuned]
POINT = DPI / 72  # dots: one typographic point [definition]
ROWS, COLUMNS = 60, 90  # lines and characters: size of a page [untuned]
SIZE, LEADING, MARGIN = 10, 12.5, 45  # points: font size, line distance and margin [untuned]
FONTS = {"prose": "DejaVuSerif.ttf", "code": "DejaVuSansMono.ttf", "config": "DejaVuSansMono.ttf"}
PAPER, INK = 255, 0  # grey values


def paginate(text: str, kind: str) -> list[list[str]]:
    """Split a text into pages of typeset lines: prose is wrapped, code and config keep their lines.

    Characters that the font does not have are removed. A long line of code continues on the next line.
    """
    lines = list(break_lines(text, kind))
    return [lines[start : start + ROWS] for start in range(0, len(lines), ROWS)]


def break_lines(text: str, kind: str) -> Iterator[str]:
    """Split a text into typeset lines."""
    supported = font_characters(kind)
    for line in text.expandtabs(4).split("\n"):
        shown = "".join(char for char in line if char in supported).rstrip()
        if kind == "prose":
            yield from textwrap.wrap(shown, COLUMNS, break_on_hyphens=False) or [""]
        else:
            yield from (shown[start : start + COLUMNS].rstrip() for start in range(0, max(1, len(shown)), COLUMNS))


def draw(lines: Sequence[str], kind: str) -> bytes:
    """Draw a page as PNG: prose in a serif font, code and config in a monospaced font."""
    font = ImageFont.truetype(str(font_path(kind)), round(SIZE * POINT))
    margin, leading = round(MARGIN * POINT), LEADING * POINT
    width = font.getlength("M" * COLUMNS) if kind != "prose" else max(map(font.getlength, lines), default=0)
    image = Image.new("L", (round(width) + 2 * margin, round(ROWS * leading) + 2 * margin), PAPER)
    pen = ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        pen.text((margin, margin + round(row * leading)), line, fill=INK, font=font)
    return to_png(image, DPI)


def to_png(image: Image.Image, dpi: int) -> bytes:
    """Encode an image as PNG, with its resolution."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", dpi=(dpi, dpi))
    return buffer.getvalue()


def font_path(kind: str) -> Path:
    """Path of the font of a kind of text."""
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / FONTS[kind]


@cache
def font_characters(kind: str) -> frozenset[str]:
    """Characters that the font of a kind of text has."""
    return frozenset(map(chr, FT2Font(str(font_path(kind))).get_charmap()))
