"""Leiden conventions in plain text.

In square brackets, n dots are n lost characters, ``c. 5`` is an estimate, and ``---`` is an unknown length:

    [...]  [. . .]  [.3]  ab[..]  [fe..]t      3 or 2 characters
    [c. 5]  [-c.5-]  [- ca. 5 -]  [±5]         about 5 characters
    [---]  [- - -]  [— — —]  [-c.?-]           unknown

All other text in brackets of any kind is read without the brackets: text that the editor supplied ([abc]), expanded
abbreviations (D(is)), added (<abc>) and superfluous letters ({abc}). Dots below uncertain letters are not read.
"""

import re
import unicodedata
from collections.abc import Iterator

import numpy as np

from conservator.errors import ConservatorError
from conservator.notation.lacuna import Lacuna, check_markers
from conservator.notation.reading_text import Part, ReadingText

UNDERDOT = "\u0323"
BRACKETS = frozenset("[](){}<>\u27e6\u27e7\u27e8\u27e9\u2329\u232a|")
GROUP = re.compile(r"\[([^\[\]]*)\]")
DASH = "[-\u2010-\u2015\u2212]"
EDGE = rf"(?:{DASH}[-\u2010-\u2015\u2212\s]*)?"
ABOUT = r"(?:(?<![^\W\d_])(?:circa|ca?)\.?|±|~)"
LACUNA = re.compile(
    rf"{EDGE}{ABOUT}\s*(?P<low>\d{{1,3}})(?:\s*[-\u2013]\s*(?P<high>\d{{1,3}}))?\??(?:\s*{DASH}[-\u2010-\u2015\u2212\s]*)?"
    rf"|(?P<unknown>{EDGE}{ABOUT}\s*\?(?:\s*{DASH}[-\u2010-\u2015\u2212\s]*)?"
    rf"|{DASH}(?:\s?{DASH}){{2,}}|[\u2012-\u2015](?:\s?[\u2012-\u2015])+)"
    r"|(?<![.\u2026])\.(?P<exact>\d{1,3})(?!\d)"
    r"|(?P<dots>(?<![.\u2026])[.\u2026](?: [.\u2026])+(?![.\u2026])|[.\u2026]+)"
)
ONE_DASH = re.compile(rf"\s*{DASH}\s*[\u2012-\u2015]?\s*")


def read_leiden(source: bytes) -> ReadingText:
    """Read a document in Leiden conventions."""
    try:
        text = source.decode()
    except UnicodeDecodeError as error:
        raise ConservatorError(
            f"a document in Leiden conventions must be UTF-8, but byte {error.start} is not"
        ) from error
    check_markers(text)
    return ReadingText.of(source, _parts(text))


def _parts(text: str) -> Iterator[Part]:
    """Yield the parts of a text."""
    offset, done = 0, 0
    for start, stop, lacuna in find_lacunae(text):
        for part in _visible(text[done:start], offset):
            yield part
            offset = part.stop
        size = len(text[start:stop].encode())
        yield Part(offset, offset + size, lacuna.marker.encode(), lacuna)
        offset, done = offset + size, stop
    yield from _visible(text[done:], offset)


def _visible(text: str, offset: int) -> Iterator[Part]:
    """Yield the parts of text without lacunae, which begins at byte ``offset``."""
    for character in text:
        size = len(character.encode())
        yield Part(offset, offset + size, _as_read(character).encode())
        offset += size


def _as_read(character: str) -> str:
    """Return how models read a character: without brackets and dots below letters."""
    if character in BRACKETS or character == UNDERDOT:
        return ""
    if not character.isascii() and UNDERDOT in (parts := unicodedata.normalize("NFD", character)):
        return unicodedata.normalize("NFC", parts.replace(UNDERDOT, ""))
    return character


def find_lacunae(text: str) -> Iterator[tuple[int, int, Lacuna]]:
    """Yield the range of characters of each lacuna, without brackets around it, and the lacuna."""
    for group in GROUP.finditer(text):
        if ONE_DASH.fullmatch(group[1]) and any(dash in group[1] for dash in "\u2013\u2014\u2015"):
            yield *group.span(1), Lacuna()
            continue
        for match in LACUNA.finditer(text, *group.span(1)):
            yield *match.span(), _lacuna(match)


def _lacuna(match: re.Match[str]) -> Lacuna:
    """Return the lacuna of a match."""
    if match["low"]:
        high = int(match["high"] or match["low"])
        return Lacuna(max(1, round((int(match["low"]) + high) / 2)))
    if match["unknown"]:
        return Lacuna()
    if match["exact"]:
        return Lacuna(int(match["exact"]), is_exact=True)
    return Lacuna(match["dots"].count(".") + 3 * match["dots"].count("\u2026"), is_exact=True)


def damage_in_leiden(text: str, rate: float, generator: np.random.Generator) -> str:
    """Replace spans of letters and blanks by lacunae: a third each of known, estimated and unknown length.

    Args:
        text: A text without square brackets.
        rate: Expected share of the characters that are lost.
        generator: Source of randomness.
    """
    mean_length = 5.5  # characters: lacunae have 1 to 10 characters, evenly [definition]
    parts: list[str] = []
    position = 0
    while position < len(text):
        length = int(generator.integers(1, 11))
        lost = text[position : position + length]
        is_text = len(lost) == length and all(character.isalpha() or character == " " for character in lost)
        if is_text and generator.random() < rate / mean_length / max(1e-9, 1 - rate + rate / mean_length):
            kind = generator.integers(3)
            estimate = max(1, round(length + float(generator.normal(0, max(0.75, 0.2 * length)))))
            parts.append(f"[{'.' * length}]" if kind == 0 else f"[c. {estimate}]" if kind == 1 else "[---]")
            position += length
        else:
            parts.append(text[position])
            position += 1
    return "".join(parts)
