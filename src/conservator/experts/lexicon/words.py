"""The words of languages with their frequencies, as they look when every character outside ASCII is a mark.

An encoding that is read as another loses every character outside ASCII, and nothing else. So a lost word still shows
its pattern: its letters in ASCII, and a mark for each other. Words are kept by their patterns.
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
FILE = Path(__file__).parent / "languages.gz"  # made by conservator.training.lexicon
LETTER = rf"(?:[^\W\d_]|{MARK})"
WORD = re.compile(rf"{LETTER}+(?:['\u2019]{LETTER}+)*")  # a word of any language, some of its characters lost
PUNCTUATION = ".!?\n"  # after which a sentence begins
BETWEEN = " \t\"'(" + MARK  # what may stand between the end of a sentence and the first word of the next

CONTEXTS = (1, 2, 3)  # characters of a word on either side of a lost one

Counts = Mapping[str, float]
Law = dict[str, float]
Words = tuple[tuple[str, float], ...]


def lose(text: str) -> str:
    """The text with a mark for every character outside ASCII."""
    return "".join(one if one.isascii() else MARK for one in text)


def neighbours(text: str, place: int) -> str:
    """The characters before and after a place; a newline beyond either end, and 0 for every digit."""
    before = text[place - 1] if place else "\n"
    after = text[place + 1] if place + 1 < len(text) else "\n"
    return ("0" if before.isdigit() else before) + ("0" if after.isdigit() else after)


class WordTable(Mapping[str, Words]):
    """The words of a language by their patterns, as they are stored: a line is parsed when it is looked up.

    A line is ``der 8`` for a word in ASCII, else a pattern and all its words with their counts, such as
    ``f\ufffdr fér 2 für 6``. Lines and the words of a line are sorted.
    """

    def __init__(self, lines: list[str]) -> None:
        """Take the sorted lines."""
        self._lines = lines

    def __getitem__(self, pattern: str) -> Words:
        """The words that look like a pattern, with their counts."""
        key = f"{pattern} "
        place = bisect_left(self._lines, key)
        if place == len(self._lines) or not self._lines[place].startswith(key):
            raise KeyError(pattern)
        fields = self._lines[place].split(" ")
        if len(fields) == 2:
            return ((pattern, int(fields[1])),)
        return tuple((word, int(count)) for word, count in zip(fields[1::2], fields[2::2], strict=True))

    def __iter__(self) -> Iterator[str]:
        """The patterns, in the order of their first words: sums over all words are the same as over sorted words."""
        fields = (line.split(" ", 2) for line in self._lines)
        pairs = sorted((one[0] if len(one) == 2 else one[1], one[0]) for one in fields)
        return iter([pattern for _, pattern in pairs])

    def __len__(self) -> int:
        """The number of patterns."""
        return len(self._lines)


@dataclass(frozen=True)
class Language:
    """What is known of a language.

    Attributes:
        words: pattern -> the words that look like it, with their counts: pairs, because there are very many of them.
        around: two characters -> the characters outside ASCII between them, with their counts.
        total: the sum of the counts of all words.
    """

    words: Mapping[str, Words]
    around: Mapping[str, Counts]
    total: float

    @classmethod
    def of(cls, words: Counts, around: Mapping[str, Counts]) -> "Language":
        """The language with these words."""
        patterns: dict[str, Words] = {}
        for word, count in words.items():
            pattern = word if word.isascii() else lose(word)
            patterns[pattern] = (*patterns.get(pattern, ()), (word, count))
        return cls(patterns, around, sum(words.values()))

    def like(self, pattern: str, *, first: bool) -> dict[str, float]:
        """The words that a pattern may stand for, with their counts.

        Marks of the pattern stand for characters outside ASCII; others that are outside ASCII are known. The ``first``
        word of a sentence may be one that is written small elsewhere.
        """
        lost = lose(pattern)
        found = dict(self.words.get(lost, ()))
        if first:
            for word, count in self.words.get(lost[0].lower() + lost[1:], ()):
                capital = word[0].upper() + word[1:]
                found[capital] = found.get(capital, 0.0) + count
        if lost != pattern:
            agrees = (one for one in found if all(a in (b, MARK) for a, b in zip(pattern, one, strict=True)))
            found = {one: found[one] for one in agrees}
        return {one: count for one, count in found.items() if len(one) == len(pattern)}

    def frequency(self, pattern: str, *, first: bool) -> float:
        """How frequent the words are that a pattern may stand for."""
        return sum(self.like(pattern, first=first).values()) / self.total if pattern else 0.0

    @cached_property
    def frequencies(self) -> Law:
        """The frequencies of its characters outside ASCII."""
        counts: Law = defaultdict(float)
        for known in self.around.values():
            for one, count in known.items():
                counts[one] += count
        total = sum(counts.values()) or 1.0
        return {one: count / total for one, count in counts.items()}

    @cached_property
    def by_kind(self) -> dict[str, Law]:
        """Its characters outside ASCII by the kinds of their neighbours, with their counts."""
        found: dict[str, Law] = defaultdict(lambda: defaultdict(float))
        for key, counts in self.around.items():
            for one, count in counts.items():
                found[kinds(key)][one] += count
        return found

    @cached_property
    def contexts(self) -> dict[str, Law]:
        """The characters outside ASCII in its words by what is around them, with their counts."""
        found: dict[str, Law] = defaultdict(lambda: defaultdict(float))
        for pattern, words in self.words.items():
            edged = f" {pattern} "
            for place in (place for place, one in enumerate(edged) if one == MARK):
                for size in CONTEXTS:
                    if place - size >= 0 and place + size < len(edged):
                        key = edged[place - size : place] + edged[place + 1 : place + size + 1]
                        for word, count in words:
                            found[key][word[place - 1]] += count
        return found


def kinds(characters: str) -> str:
    """The characters, with one letter for all letters, and a space for all that is blank."""
    return "".join("a" if one.isalpha() or one == MARK else " " if one.isspace() else one for one in characters)


def begins_sentence(text: str, place: int) -> bool:
    """Whether a word that begins at a place may be the first of a sentence."""
    before = text[:place][-40:].rstrip(BETWEEN)
    return not before or before[-1] in PUNCTUATION


def count_words(texts: Iterable[str]) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """The words of texts, and the characters outside ASCII by their neighbours, as ``Language.of`` takes them."""
    words: Counter[str] = Counter()
    around: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        words.update(one for one in WORD.findall(text) if MARK not in one and any(map(str.isalpha, one)))
        shown = lose(text)
        for place, one in enumerate(text):
            if not one.isascii() and one != MARK:
                around[neighbours(shown, place)][one] += 1
    return words, around


def write_language(name: str, words: Mapping[str, int], around: Mapping[str, Mapping[str, int]]) -> str:
    """A language as it is stored: a line of JSON, the lines of a WordTable, and an empty line."""
    head = {"name": name, "total": sum(words.values()), "around": around}
    groups: dict[str, list[str]] = defaultdict(list)
    for word in sorted(words):
        groups[lose(word)].append(str(words[word]) if word.isascii() else f"{word} {words[word]}")
    lines = sorted(" ".join([pattern, *found]) for pattern, found in groups.items())
    return "\n".join([json.dumps(head, ensure_ascii=False, separators=(",", ":")), *lines, "", ""])


def read_languages(stored: str) -> dict[str, Language]:
    """Languages by name, from what ``write_language`` wrote of each."""
    found = {}
    for part in stored.split("\n\n")[:-1]:
        head, *lines = part.split("\n")
        one = json.loads(head)
        found[one["name"]] = Language(WordTable(lines), one["around"], one["total"])
    return found


@cache
def load_languages() -> dict[str, Language]:
    """The languages that come with the package, by name, read once in a process."""
    return read_languages(gzip.decompress(FILE.read_bytes()).decode())
