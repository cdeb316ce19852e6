"""Texts as pages on paper: typeset in the fonts that come with matplotlib."""

import io
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import matplotlib
from matplotlib.ft2font import FT2Font
from PIL import Image, ImageDraw, ImageFont

DPI = 300
POINT = DPI / 72
ROWS, COLUMNS = 60, 90
SIZE, LEADING, MARGIN = 10, 12.5, 45  # points
FONTS = {"prose": "DejaVuSerif.ttf", "code": "DejaVuSansMono.ttf", "config": "DejaVuSansMono.ttf"}
PAPER, INK = 255, 0


@dataclass(frozen=True)
class Sheet:
    """A page: its lines as they stand on it, and its image as PNG."""

    text: str
    image: bytes


def render(text: str, kind: str) -> list[Sheet]:
    """The pages of a text: prose filled, in a serif font; code and config line by line, in a monospaced one.

    A character that the font does not have is left out, of the text as well. A line of code that is too long goes on in
    the next one.
    """
    return [draw(lines, kind) for lines in paginate(text, kind)]


def paginate(text: str, kind: str) -> list[list[str]]:
    """The lines of the pages of a text."""
    lines = list(break_lines(text, kind))
    return [lines[start : start + ROWS] for start in range(0, len(lines), ROWS)]


def break_lines(text: str, kind: str) -> Iterator[str]:
    """The lines of a text on paper."""
    known = characters(kind)
    for line in text.expandtabs(4).split("\n"):
        shown = "".join(one for one in line if one in known).rstrip()
        if kind == "prose":
            yield from textwrap.wrap(shown, COLUMNS, break_on_hyphens=False) or [""]
        else:
            yield from (shown[at : at + COLUMNS].rstrip() for at in range(0, max(1, len(shown)), COLUMNS))


def draw(lines: Sequence[str], kind: str) -> Sheet:
    """A page with lines on it."""
    font = ImageFont.truetype(str(path_of(kind)), round(SIZE * POINT))
    margin, leading = round(MARGIN * POINT), LEADING * POINT
    width = font.getlength("M" * COLUMNS) if kind != "prose" else max(map(font.getlength, lines), default=0)
    image = Image.new("L", (round(width) + 2 * margin, round(ROWS * leading) + 2 * margin), PAPER)
    pen = ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        pen.text((margin, margin + round(row * leading)), line, fill=INK, font=font)
    return Sheet("".join(line + "\n" for line in lines), to_png(image, DPI))


def to_png(image: Image.Image, dpi: int) -> bytes:
    """An image as the bytes of a PNG file, with its resolution."""
    made = io.BytesIO()
    image.save(made, "PNG", dpi=(dpi, dpi))
    return made.getvalue()


def path_of(kind: str) -> Path:
    """The font of a kind of text."""
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / FONTS[kind]


@cache
def characters(kind: str) -> frozenset[str]:
    """The characters that the font of a kind of text has."""
    return frozenset(map(chr, FT2Font(str(path_of(kind))).get_charmap()))
