"""Word lists of languages, and the identification of the language of a text by its most frequent words."""

import gzip
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from conservator.arrays import Floats
from conservator.experts.word_ngram.counts import (
    HIDDEN_BYTE,
    WORD,
    Dictionary,
    Matches,
    SpellingModel,
    count_separators,
)
from conservator.vocabularies import BYTES

FOLDER = Path(__file__).parent / "languages"  # written by conservator.training.word_lists
ENGLISH = "en"
COMMON = "common"  # file with the most frequent words of all languages


@dataclass(frozen=True)
class WordListConfig:
    """Constants of word lists and of the identification of languages."""

    capitalised_share: float = 0.03  # ratio: frequency of a capitalised form to the lower-case word [untuned]
    frequent: float = 4e-6  # probability: words that are matched with several hidden bytes [LOG: word-expert]
    unlisted_frequency: float = 2e-5  # probability: of a word that is not frequent, in every language [untuned]
    max_words: int = 400  # words: evenly spaced sample of a text [untuned]
    min_ratio: float = 0.02  # ratio: languages with a lower probability relative to the best are dropped [untuned]
    few_words: int = 30  # words: in a shorter text, the words of whole lists also count [untuned]
    rare_frequency: float = 1e-6  # probability: of a word that is in no list, in every language [untuned]
    few_nats: float = 8.0  # nats: languages whose frequent words are this far below the best are dropped [untuned]
    min_evidence: float = 6.0  # nats: with less evidence, no language is identified [untuned]


CONFIG = WordListConfig()


@dataclass(frozen=True)
class WordList:
    """Words of a language and their relative frequencies.

    Attributes:
        probs: word -> its relative frequency. Capitalised forms of lower-case words are included.
        separators: (2, 2, V) relative frequency per word of each byte between words, as in ``count_separators``.
        spelling: letter model of the words.
    """

    probs: Mapping[bytes, float]
    separators: Floats
    spelling: SpellingModel

    @classmethod
    def of(cls, counts: Mapping[bytes, int], separators: Floats) -> "WordList":
        """Make a word list from counts."""
        total = max(1, sum(counts.values()))
        probs = {word: count / total for word, count in counts.items()}
        for word, count in counts.items():
            text = word.decode()
            if text[0].islower():
                capitalised = (text[0].upper() + text[1:]).encode()
                probs[capitalised] = probs.get(capitalised, 0.0) + CONFIG.capitalised_share * count / total
        return cls(probs, separators / total, SpellingModel.of(list(counts)))

    @cached_property
    def words(self) -> Dictionary:
        """Words by length."""
        return Dictionary(self.probs)

    @cached_property
    def frequent_words(self) -> Dictionary:
        """Frequent words by length."""
        return Dictionary({word: prob for word, prob in self.probs.items() if prob >= CONFIG.frequent})

    def match(self, pattern: bytes) -> Matches | None:
        """Return the words that agree with a pattern; only frequent words if it has several hidden bytes."""
        is_lone = pattern.count(bytes([HIDDEN_BYTE])) == 1
        return (self.words if is_lone else self.frequent_words).match(pattern)

    def matched_prob(self, word: bytes, *, is_lone: bool) -> float:
        """Return the frequency of a word if ``match`` returns it for a pattern with one or several hidden bytes."""
        prob = self.probs.get(word, 0.0)
        return prob if is_lone or prob >= CONFIG.frequent else 0.0


def count_words(texts: Iterable[bytes], min_documents: int) -> tuple[Counter[bytes], Floats]:
    """Count the words that occur in at least ``min_documents`` texts, and the separators of all texts."""
    counts: Counter[bytes] = Counter()
    documents: Counter[bytes] = Counter()
    separators = np.zeros((2, 2, BYTES.size))
    for text in texts:
        words = Counter(match[0] for match in WORD.finditer(text) if is_word(match[0]))
        counts.update(words)
        documents.update(words.keys())
        separators += count_separators(np.frombuffer(text, dtype=np.uint8))
    return Counter({word: count for word, count in counts.items() if documents[word] >= min_documents}), separators


def is_word(token: bytes) -> bool:
    """Return whether a token has a letter."""
    return any(byte >= 0x80 or chr(byte).isalpha() for byte in token)


def write_word_list(counts: Mapping[bytes, int], separators: Floats) -> bytes:
    """Serialise a word list: a line of JSON with the separators, and a line ``word count`` for each word."""
    index = np.argwhere(separators > 0)
    header = json.dumps([[*row, int(separators[tuple(row)])] for row in index.tolist()], separators=(",", ":"))
    lines = [b"%s %d" % (word, counts[word]) for word in sorted(counts)]
    return gzip.compress(b"\n".join([header.encode(), *lines]), mtime=0)


def read_word_list(data: bytes) -> WordList:
    """Parse a word list, serialised by ``write_word_list``."""
    header, *lines = gzip.decompress(data).split(b"\n")
    separators = np.zeros((2, 2, BYTES.size))
    for before, after, byte, count in json.loads(header):
        separators[before, after, byte] = count
    pairs = (line.split(b" ") for line in lines)
    return WordList.of({word: int(count) for word, count in pairs}, separators)


@cache
def load_word_list(language: str) -> WordList:
    """Load a shipped word list. The result is cached for the process."""
    return read_word_list((FOLDER / f"{language}.gz").read_bytes())


def list_names() -> list[str]:
    """Return the languages of the shipped word lists."""
    return sorted(path.stem for path in FOLDER.glob("*.gz") if path.stem != COMMON)


@cache
def load_common_words() -> dict[bytes, dict[str, float]]:
    """Load the most frequent words: word -> language -> relative frequency. The result is cached for the process."""
    words: dict[bytes, dict[str, float]] = {}
    for language, frequencies in json.loads(gzip.decompress((FOLDER / f"{COMMON}.gz").read_bytes())).items():
        for word, frequency in frequencies.items():
            words.setdefault(word.encode(), {})[language] = frequency
    return words


def identify_languages(text: bytes, min_evidence: float | None = None) -> dict[str, float]:
    """Compute the posterior probabilities of the languages of a text; empty if no language is identified.

    With f the frequencies of the most frequent words and e that of all other words,

        p(k | text) proportional to  prod over words of  (f_k(word) + e) / e

    In a short text, the words of whole lists count, too, and words with a lost byte by the words that match: those of
    the languages whose frequent words are not much less probable than the best, and of English.

    Args:
        text: The text, with HIDDEN_BYTE at lost bytes. Words with lost bytes are ignored.
        min_evidence: Minimum score of the best language, in nats; by default that of the configuration.
    """
    common, hidden = load_common_words(), bytes([HIDDEN_BYTE])
    tokens = [match[0] for match in WORD.finditer(text)]
    words = [word for word in tokens if hidden not in word and is_word(word)]
    words = words[:: max(1, len(words) // CONFIG.max_words)]
    scores: defaultdict[str, float] = defaultdict(float)
    for word in words:
        for language, frequency in common.get(word.lower(), {}).items():
            scores[language] += math.log1p(frequency / CONFIG.unlisted_frequency)
    if 0 < len(words) <= CONFIG.few_words:
        best = max(scores.values(), default=0.0)
        likely = {language: score for language, score in scores.items() if score >= best - CONFIG.few_nats}
        scores = defaultdict(float, {ENGLISH: 0.0, **likely})
        for language in scores:
            rare = (word for word in words if language not in common.get(word.lower(), {}))
            probs = load_word_list(language).probs
            scores[language] += sum(math.log1p(probs.get(word, 0.0) / CONFIG.rare_frequency) for word in rare)
            matches = (load_word_list(language).match(word) for word in tokens if word.count(hidden) == 1)
            scores[language] += sum(math.log1p(match.total / CONFIG.rare_frequency) for match in matches if match)
    best = max(scores.values(), default=0.0)
    if best < (CONFIG.min_evidence if min_evidence is None else min_evidence):
        return {}
    ratios = {language: math.exp(score - best) for language, score in scores.items()}
    selected = {language: ratio for language, ratio in ratios.items() if ratio >= CONFIG.min_ratio}
    return {language: ratio / sum(selected.values()) for language, ratio in selected.items()}
