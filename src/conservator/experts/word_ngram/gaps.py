"""Spaces between words, numbers and punctuation: how often a space is between two kinds of units, by language.

A unit is a run of letters, a number, an abbreviation of capital letters with full stops, an address, or another
character. Straight quotation marks alternate between opening and closing ones in a line.
"""

import gzip
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parent / "gaps.gz"  # written by conservator.training.gaps
LETTERS, NUMBER, ABBREVIATION, ADDRESS, UNSPACED, BLANK = "L", "D", "A", "U", "C", " "  # kinds of units
DASHES = "-\u2010\u2013\u2014"
UNSPACED_SHARE = 0.3  # ratio: of such letters, in a text that is not changed [untuned]
PRIOR_COUNT = 4.0  # gaps: weight of all languages in the share of a language [untuned]

_MARKS = "".join(map(chr, filter(lambda code: unicodedata.category(chr(code))[0] == "M", range(0x300, 0xFE00))))
# Scripts that are written without spaces between words.
_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTER = rf"(?![{_NO_SPACES}])(?:[^\W\d_]|[{_MARKS}\u200c])"
UNIT = re.compile(
    rf"(?P<{ADDRESS}>(?:https?|ftp)://[\w./?=&%\#~+:@-]+)|(?P<{ABBREVIATION}>(?:[A-Z]\.){{2,}})"
    rf"|(?P<{NUMBER}>\d(?:[\d.,:/]*\d)?)|(?P<{LETTERS}>(?:{_LETTER})+(?:['\u2019](?:{_LETTER})+)*)"
    rf"|(?P<{UNSPACED}>[{_NO_SPACES}]+)"
)


class Unit(NamedTuple):
    """A unit of a text: its kind, its first character and its end."""

    kind: str
    start: int
    stop: int


def split_units(text: str) -> list[Unit]:
    """Return the units of a text; other characters than those of ``UNIT`` are units of one character."""
    units, at, is_closing = list[Unit](), 0, False
    for match in [*UNIT.finditer(text), None]:
        end = len(text) if match is None else match.start()
        for index in range(at, end):
            kind = text[index]
            if kind.isspace():
                is_closing = is_closing and kind != "\n"
                kind = BLANK
            elif kind == '"':
                kind, is_closing = '"1' if is_closing else '"0', not is_closing
            units.append(Unit(kind, index, index + 1))
        if match is not None:
            units.append(Unit(str(match.lastgroup), *match.span()))
            at = match.end()
    return units


def is_unspaced(text: str) -> bool:
    """Return whether a text is mostly in a script without spaces between words."""
    return len(re.findall(f"[{_NO_SPACES}]", text)) > UNSPACED_SHARE * sum(map(str.isalpha, text))


def count_gaps(text: str, counts: dict[str, list[int]]) -> None:
    """Add the gaps of a text to counts: kinds on both sides, joined by a tab -> number of gaps [without, with] space.

    The gaps on both sides of a dash between words or numbers are counted together: [none, right, left, both].
    Words that follow a number without a space, such as ``km``, are counted, too: [count].
    """
    units = split_units(text)
    kinds = [(unit.kind, False) for unit in units[:1]]
    for before, unit in pairwise(units):
        if (before.kind, unit.kind) == (NUMBER, LETTERS):
            counts.setdefault(f"{NUMBER}{text[unit.start : unit.stop]}", [0])[0] += 1
        if unit.kind != BLANK:
            kinds.append((unit.kind, before.kind == BLANK and text[before.start] == " "))
        elif text[unit.start] != " ":
            kinds.append((BLANK, False))
    for (left, _), (kind, space) in pairwise(kinds):
        if BLANK not in (left, kind) and (left, kind) != (LETTERS, LETTERS):
            counts.setdefault(f"{left}\t{kind}", [0, 0])[space] += 1
    for (left, _), (dash, is_before), (right, is_after) in zip(kinds, kinds[1:], kinds[2:], strict=False):
        if dash in DASHES and left in (LETTERS, NUMBER) and right in (LETTERS, NUMBER):
            counts.setdefault(dash, [0, 0, 0, 0])[2 * is_before + is_after] += 1


@dataclass(frozen=True)
class GapShares:
    """Shares of the gaps with a space.

    Attributes:
        counts: Counts of a language, as of ``count_gaps``.
        common: Counts of all languages.
    """

    counts: Mapping[str, list[int]]
    common: Mapping[str, list[int]]

    @cached_property
    def _cache(self) -> dict[str, list[float]]:
        return {}

    def shares(self, key: str, size: int) -> list[float]:
        """Return the smoothed shares of the counts of a key, which has ``size`` counts."""
        if key not in self._cache:
            common = self.common.get(key, [0] * size)
            base = [(count + 2 / size) / (sum(common) + 2) for count in common]
            counts = self.counts.get(key, [0] * size)
            total = sum(counts) + PRIOR_COUNT
            self._cache[key] = [(c + PRIOR_COUNT * b) / total for c, b in zip(counts, base, strict=True)]
        return self._cache[key]

    def space(self, left: str, right: str) -> float:
        """Return the probability of a space between two kinds of units."""
        return self.shares(f"{left}\t{right}", 2)[1]

    @cached_property
    def suffixes(self) -> Mapping[str, float]:
        """Words after a number without a space -> probability of the word and of no space, after a number."""
        total = sum(self.counts.get(f"{NUMBER}\t{LETTERS}", [])) + PRIOR_COUNT
        keys = (key for key, value in self.counts.items() if len(value) == 1)
        return {key.removeprefix(NUMBER): self.counts[key][0] / total for key in keys}

    @cached_property
    def after_number(self) -> tuple[float, float]:
        """Probabilities of no space before other words, and of a space, after a number."""
        none, space = self.shares(f"{NUMBER}\t{LETTERS}", 2)
        return max(0.02 * space, none - sum(self.suffixes.values())), space

    def dash(self, dash: str) -> list[float]:
        """Return the probabilities of spaces on both sides of a dash: none, right, left, both."""
        return self.shares(dash, 4)


@cache
def load_gap_shares(language: str) -> GapShares:
    """Load the shares of a language. The result is cached for the process."""
    counts: dict[str, dict[str, list[int]]] = json.loads(gzip.decompress(FILE.read_bytes()))
    return GapShares(counts.get(language, {}), counts[""])
