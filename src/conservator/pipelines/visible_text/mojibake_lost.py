"""Choose the characters of mojibake with lost bytes, from the frequencies of words and characters.

With w the word without the symbols around it, p(w) its frequency, c_i its characters with lost bytes and e the
probability of a word that is not listed, a candidate has

    score = log(p(w) + e) + sum_i log prior(c_i) + log f(c_i | characters beside it)
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import log, prod
from unicodedata import category

from conservator.documents.codepages import LETTERS, SYMBOLS
from conservator.experts.word_ngram.counts import HIDDEN_BYTE, WordCounts
from conservator.experts.word_ngram.frequencies import WordFrequencies
from conservator.experts.word_ngram.lists import list_names
from conservator.pipelines.visible_text.mojibake_layers import FIRST_PLACEHOLDER

PLACEHOLDERS = re.compile(f"[{chr(FIRST_PLACEHOLDER)}-\U0010ffff]")
WORD = re.compile(rf"(?:\w|[{chr(FIRST_PLACEHOLDER)}-\U0010ffff])+")
NOT_LETTERS = re.compile(r"^\W+|\W+$")


@dataclass(frozen=True)
class LostConfig:
    """Constants of the choice."""

    unlisted: float = 1e-8  # probability: of a word that is not counted and that no list has [untuned]
    list_words: float = 2000.0  # words: weight of a word list among the counts of characters [untuned]
    pair_weight: float = 0.05  # ratio: of counts of pairs to counts of triples of characters [untuned]
    single_weight: float = 0.001  # ratio: of counts of single characters to counts of triples [untuned]
    base_weight: float = 1e-4  # counts: of a character by its rank among letters and symbols [untuned]
    unranked: float = 1e-3  # ratio: of a character without a rank to the most frequent one [untuned]
    max_members: int = 12  # characters: that are compared at one position [safety limit]
    max_candidates: int = 1024  # texts: that are compared for one word [safety limit]
    max_listed_words: int = 20_000  # words: of a list whose characters are counted [safety limit]


CONFIG = LostConfig()


@dataclass(frozen=True)
class LostCharacters:
    """Frequencies for the choice of characters with lost bytes.

    Attributes:
        text: The text with placeholders.
        sets: placeholder -> its characters with their prior probabilities.
        references: Counts of reference texts.
    """

    text: str
    sets: Mapping[str, Mapping[str, float]]
    references: WordCounts
    _scored: dict[tuple[str, str, str], dict[str, float]] = field(default_factory=dict)

    @cached_property
    def words(self) -> WordFrequencies:
        """The frequencies of words; those of all word lists if no language is identified."""
        hidden = bytes([HIDDEN_BYTE])
        data = hidden.join(part.encode(errors="replace") for part in PLACEHOLDERS.split(self.text))
        words = WordFrequencies.of(data, self.references)
        names = () if words.languages else list_names()
        return replace(words, languages=dict.fromkeys(names, 1 / len(names))) if names else words

    @cached_property
    def counts(self) -> Counter[str]:
        """Counts of one to three consecutive characters: of the text, and of the words of its languages."""
        counts: Counter[str] = Counter(self.text)
        counts.update(self.text[index : index + 2] for index in range(len(self.text) - 1))
        counts.update(self.text[index : index + 3] for index in range(len(self.text) - 2))
        for word_list, probability in self.words.lists:
            listed = sorted(word_list.probs.items(), key=lambda item: -item[1])[: CONFIG.max_listed_words]
            for word, frequency in listed:
                weight = CONFIG.list_words * probability * frequency
                padded = f" {word.decode()} "
                for size in (1, 2, 3):
                    for index in range(len(padded) - size + 1):
                        counts[padded[index : index + size]] += weight  # type: ignore[assignment]
        return counts

    def frequency(self, before: str, character: str, after: str) -> float:
        """Return f of a character between two others, up to a factor."""
        counts = self.counts
        triple = counts[before + character + after]
        pairs = counts[before + character] + counts[character + after]
        base = CONFIG.base_weight * RANKS.get(character, CONFIG.unranked)
        return triple + CONFIG.pair_weight * pairs + CONFIG.single_weight * counts[character] + base

    def score(self, start: int, stop: int) -> dict[str, float]:
        """Return the candidates of a word of the text with their scores, the best first; empty if there are none."""
        before, after = self.text[start - 1 : start] or " ", self.text[stop : stop + 1] or " "
        word = self.text[start:stop]
        key = (before, word, after)
        if key not in self._scored:
            self._scored[key] = dict(self._score(before, word, after))
        return self._scored[key]

    def _score(self, before: str, word: str, after: str) -> list[tuple[str, float]]:
        """Return the candidates of a word between two characters with their scores, the best first."""
        padded = before + word + after
        positions = [index for index, character in enumerate(padded) if character in self.sets]
        members = [self.members(padded, index) for index in positions]
        if not all(members) or prod(map(len, members)) > CONFIG.max_candidates:
            members = [choices[:2] for choices in members]
        if not all(members) or prod(map(len, members)) > CONFIG.max_candidates:
            return []
        scored: list[tuple[str, float]] = []
        for combination in product(*members):
            characters = list(padded)
            for index, character in zip(positions, combination, strict=True):
                characters[index] = character
            text = "".join(characters)
            letters = NOT_LETTERS.sub("", text[1:-1])
            score = log(self.words.prob(letters.encode()) + CONFIG.unlisted)
            for index in positions:
                prior = self.sets[padded[index]][text[index]]
                score += log(prior * self.frequency(text[index - 1], text[index], text[index + 1]))
            scored.append((text[1:-1], score))
        return sorted(scored, key=lambda item: (-item[1], item[0]))

    def members(self, padded: str, index: int) -> list[str]:
        """Return the most frequent characters of the placeholder at an index of a text."""
        before, after = padded[index - 1], padded[index + 1]
        scored = [
            (-prior * self.frequency(before, character, after), character)
            for character, prior in self.sets[padded[index]].items()
            if category(character) != "Cc"
        ]
        return [character for _, character in sorted(scored)[: CONFIG.max_members]]


def rank_characters() -> Iterator[tuple[str, float]]:
    """Yield characters with their frequency relative to the most frequent one, from the ranks in their alphabets."""
    for characters in (SYMBOLS, *LETTERS.values()):
        for rank, character in enumerate(characters):
            yield character, 1 / (1 + rank)
            if character.upper() != character and len(character.upper()) == 1:
                yield character.upper(), 0.1 / (1 + rank)


RANKS: dict[str, float] = {}
for _character, _frequency in rank_characters():
    RANKS[_character] = max(_frequency, RANKS.get(_character, 0.0))
