"""Words of languages with their frequencies, indexed by pattern.

A text that is decoded with the wrong encoding loses exactly its non-ASCII characters. The pattern of a word has a mark
for each non-ASCII character, and is therefore known for a lost word too.
"""

import gzip
import json
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

MARK = "\ufffd"
FILE = Path(__file__).parent / "languages.gz"  # written by conservator.training.lexicon
LETTER = rf"(?:[^\W\d_]|{MARK})"
WORD = re.compile(rf"{LETTER}+(?:['\u2019]{LETTER}+)*")  # a word of any language, possibly with marks
SENTENCE_ENDS = ".!?\n"  # characters that end a sentence
SENTENCE_GAPS = " \t\"'(" + MARK  # characters between the end of a sentence and the first word of the next

CONTEXT_RADII = (1, 2, 3)  # characters: size of the context within a word, on each side [untuned]

Counts = Mapping[str, float]
Distribution = dict[str, float]
Words = tuple[tuple[str, float], ...]


def mask_non_ascii(text: str) -> str:
    """Replace every non-ASCII character by a mark."""
    return "".join(char if char.isascii() else MARK for char in text)


def neighbours(text: str, position: int) -> str:
    """Return the characters before and after a position: a newline beyond either end, 0 for every digit."""
    before = text[position - 1] if position else "\n"
    after = text[position + 1] if position + 1 < len(text) else "\n"
    return ("0" if before.isdigit() else before) + ("0" if after.isdigit() else after)


class WordTable(Mapping[str, Words]):
    """Words of a language by pattern, in the stored form; a line is parsed on lookup.

    A line is ``der 8`` for an ASCII word, else a pattern and all its words with their counts, such as
    ``f\ufffdr fér 2 für 6``. Lines and the words of a line are sorted.
    """

    def __init__(self, lines: list[str]) -> None:
        """Initialise the table from its sorted lines."""
        self._lines = lines

    def __getitem__(self, pattern: str) -> Words:
        """Return the words with a pattern, and their counts."""
        key = f"{pattern} "
        index = bisect_left(self._lines, key)
        if index == len(self._lines) or not self._lines[index].startswith(key):
            raise KeyError(pattern)
        fields = self._lines[index].split(" ")
        if len(fields) == 2:
            return ((pattern, int(fields[1])),)
        return tuple((word, int(count)) for word, count in zip(fields[1::2], fields[2::2], strict=True))

    def __iter__(self) -> Iterator[str]:
        """Iterate over the patterns, sorted by their first words: sums over words are then in the order of words."""
        lines = (line.split(" ", 2) for line in self._lines)
        pairs = sorted((fields[0] if len(fields) == 2 else fields[1], fields[0]) for fields in lines)
        return iter([pattern for _, pattern in pairs])

    def __len__(self) -> int:
        """Return the number of patterns."""
        return len(self._lines)


@dataclass(frozen=True)
class Language:
    """Word and character counts of a language.

    Attributes:
        words: pattern -> pairs (word, count). Pairs take less memory than dictionaries.
        by_neighbours: two characters -> counts of the non-ASCII characters between them.
        total: sum of the counts of all words.
    """

    words: Mapping[str, Words]
    by_neighbours: Mapping[str, Counts]
    total: float

    @classmethod
    def of(cls, words: Counts, by_neighbours: Mapping[str, Counts]) -> "Language":
        """Create a language from word counts."""
        patterns: dict[str, Words] = {}
        for word, count in words.items():
            pattern = word if word.isascii() else mask_non_ascii(word)
            patterns[pattern] = (*patterns.get(pattern, ()), (word, count))
        return cls(patterns, by_neighbours, sum(words.values()))

    def match(self, pattern: str, *, first: bool) -> dict[str, float]:
        """Return the words that match a pattern, with their counts.

        Args:
            pattern: a word. A mark matches any non-ASCII character; every other character matches itself.
            first: whether the word starts a sentence. It then also matches lower-case words.
        """
        masked = mask_non_ascii(pattern)
        matches = dict(self.words.get(masked, ()))
        if first:
            for word, count in self.words.get(masked[0].lower() + masked[1:], ()):
                capitalised = word[0].upper() + word[1:]
                matches[capitalised] = matches.get(capitalised, 0.0) + count
        if masked != pattern:
            agreeing = (word for word in matches if all(a in (b, MARK) for a, b in zip(pattern, word, strict=True)))
            matches = {word: matches[word] for word in agreeing}
        return {word: count for word, count in matches.items() if len(word) == len(pattern)}

    def frequency(self, pattern: str, *, first: bool) -> float:
        """Return the total relative frequency of the words that match a pattern."""
        return sum(self.match(pattern, first=first).values()) / self.total if pattern else 0.0

    @cached_property
    def frequencies(self) -> Distribution:
        """Relative frequencies of the non-ASCII characters."""
        totals: Distribution = defaultdict(float)
        for counts in self.by_neighbours.values():
            for char, count in counts.items():
                totals[char] += count
        total = sum(totals.values()) or 1.0
        return {char: count / total for char, count in totals.items()}

    @cached_property
    def by_neighbour_classes(self) -> dict[str, dict[str, float]]:
        """Classes of two neighbours -> counts of the non-ASCII characters between them."""
        totals: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for key, counts in self.by_neighbours.items():
            for char, count in counts.items():
                totals[char_classes(key)][char] += count
        return totals

    @cached_property
    def by_context(self) -> dict[str, dict[str, float]]:
        """Context within a word -> counts of the non-ASCII characters in its middle."""
        totals: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for pattern, words in self.words.items():
            padded = f" {pattern} "
            for position in (position for position, char in enumerate(padded) if char == MARK):
                for radius in CONTEXT_RADII:
                    if position - radius >= 0 and position + radius < len(padded):
                        key = padded[position - radius : position] + padded[position + 1 : position + radius + 1]
                        for word, count in words:
                            totals[key][word[position - 1]] += count
        return totals


def char_classes(characters: str) -> str:
    """Replace every letter and mark by ``a``, and all white space by a space."""
    return "".join("a" if char.isalpha() or char == MARK else " " if char.isspace() else char for char in characters)


def begins_sentence(text: str, position: int) -> bool:
    """Return whether a word at a position may start a sentence."""
    before = text[:position][-40:].rstrip(SENTENCE_GAPS)
    return not before or before[-1] in SENTENCE_ENDS


def count_words(texts: Iterable[str]) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """Count the words of texts, and their non-ASCII characters by neighbours: the arguments of ``Language.of``."""
    words: Counter[str] = Counter()
    by_neighbours: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        words.update(word for word in WORD.findall(text) if MARK not in word and any(map(str.isalpha, word)))
        masked = mask_non_ascii(text)
        for position, char in enumerate(text):
            if not char.isascii() and char != MARK:
                by_neighbours[neighbours(masked, position)][char] += 1
    return words, by_neighbours


def write_language(name: str, words: Mapping[str, int], by_neighbours: Mapping[str, Mapping[str, int]]) -> str:
    """Serialise a language: a line of JSON, the lines of a WordTable, and an empty line."""
    header = {"name": name, "total": sum(words.values()), "around": by_neighbours}
    groups: dict[str, list[str]] = defaultdict(list)
    for word in sorted(words):
        groups[mask_non_ascii(word)].append(str(words[word]) if word.isascii() else f"{word} {words[word]}")
    lines = sorted(" ".join([pattern, *fields]) for pattern, fields in groups.items())
    return "\n".join([json.dumps(header, ensure_ascii=False, separators=(",", ":")), *lines, "", ""])


def read_languages(stored: str) -> dict[str, Language]:
    """Parse languages, serialised by ``write_language``, into a dictionary by name."""
    languages = {}
    for part in stored.split("\n\n")[:-1]:
        first_line, *lines = part.split("\n")
        header = json.loads(first_line)
        languages[header["name"]] = Language(WordTable(lines), header["around"], header["total"])
    return languages


@cache
def load_languages() -> dict[str, Language]:
    """Load the shipped languages by name. The result is cached for the process."""
    return read_languages(gzip.decompress(FILE.read_bytes()).decode())
