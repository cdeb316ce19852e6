"""The lexicon expert: restores lost non-ASCII characters from the words of the document's language.

A document has one main language k, which is inferred from its words. With P_k(pattern) the relative frequency in
language k of all words that match a pattern, and f the frequency of an unlisted word,

    p(k | document) proportional to  prod over words of  (1 - f) P_k(pattern) + f

The distribution of a lost character is a mixture over languages. Within a language it interpolates, from the most to
the least specific: the words that match the pattern, the characters in the same context within known words, the
characters between the same two neighbours, and the frequencies of all non-ASCII characters. If no word of the
document's languages matches, the words of all other languages are used (names and loan words).
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import Observation
from conservator.experts.expert import At, Context, ExpertSpec, check_context, copy_visible
from conservator.experts.lexicon.words import (
    CONTEXT_RADII,
    MARK,
    WORD,
    Counts,
    Distribution,
    Language,
    begins_sentence,
    char_classes,
    count_words,
    load_languages,
    mask_non_ascii,
    neighbours,
)
from conservator.vocabularies import CHARACTERS, CharacterVocabulary

NAME = "european"
APOSTROPHE = "\u2019"


@dataclass(frozen=True)
class LexiconConfig:
    """Hyperparameters of the lexicon expert."""

    unlisted_frequency: float = 2e-7  # probability: frequency f of a word that is in no list [untuned]
    max_language_words: int = 600  # words: evenly spaced sample of the document for language identification [untuned]
    # ratio: languages with a lower probability relative to the best language are dropped [untuned]
    min_language_prob: float = 1e-3
    context_strength: float = 4.0  # counts: Dirichlet strength of the backoff to a less specific context [untuned]
    word_strength: float = 0.5  # counts: Dirichlet strength of the backoff from words to contexts [untuned]
    # occurrences per million words: Dirichlet strength of the backoff from words of other languages [untuned]
    foreign_strength: float = 3.0
    min_ascii_letters: int = 3  # letters: ASCII letters that a word of another language must have [untuned]
    reference_weight: float = 20.0  # counts: weight of a word of the document or of a reference [untuned]
    uniform_mix: float = 0.005  # probability: mass of the uniform distribution in every prediction [untuned]


CONFIG = LexiconConfig()
UNLISTED_FREQUENCY = CONFIG.unlisted_frequency
MIN_ASCII_LETTERS = CONFIG.min_ascii_letters


@dataclass(frozen=True)
class Lexicon:
    """Words of languages. ``condition`` creates the expert for a document.

    Attributes:
        languages: name -> language; None for the shipped languages.
        texts: reference texts, whose words get a higher weight.
        vocabulary: the characters, and the subset that may be lost.
    """

    languages: Mapping[str, Language] | None = None
    texts: tuple[str, ...] = ()
    vocabulary: CharacterVocabulary = CHARACTERS

    @property
    def spec(self) -> ExpertSpec:
        """Specification of the expert."""
        return ExpertSpec(NAME, self.vocabulary)

    def condition(self, document: Observation) -> "LexiconExpert":
        """Create the expert for a document (1, L)."""
        languages = load_languages() if self.languages is None else dict(self.languages)
        text = decode_with_marks(document.readable[0].numpy(), document.hidden[0].numpy())
        language_probs = identify_languages(text, languages)
        undamaged = [] if text.replace(MARK, "").isascii() else [text]
        if self.texts or undamaged:
            words, by_neighbours = count_words([*self.texts, *undamaged])
            weighted = {word: CONFIG.reference_weight * count for word, count in words.items()}
            extra = Language.of(weighted, by_neighbours)
            languages = {
                name: merge(language, extra) if name in language_probs else language
                for name, language in languages.items()
            }
        return LexiconExpert(languages, language_probs, self.spec)


@dataclass(frozen=True)
class LexiconExpert:
    """The lexicon expert of one document.

    Attributes:
        languages: all languages by name.
        language_probs: name -> posterior probability that the document is in this language.
        spec: specification of the expert.
    """

    languages: Mapping[str, Language]
    language_probs: Mapping[str, float]
    spec: ExpertSpec = field(default_factory=lambda: Lexicon().spec)

    def predict(self, context: Context, at: At) -> Tensor:
        """Compute log p(character) at the positions ``at``: (n, V)."""
        check_context(self.spec, context)
        hidden = context.hidden | ~context.real
        rows = [
            decode_with_marks(row, flags) for row, flags in zip(context.tokens.numpy(), hidden.numpy(), strict=True)
        ]
        uniform_mix = CONFIG.uniform_mix
        probs = torch.full((len(at[0]), CHARACTERS.size), uniform_mix / CHARACTERS.size, dtype=torch.float64)
        words = [words_by_position(text) for text in rows]
        for index, (row, position) in enumerate(zip(at[0].tolist(), at[1].tolist(), strict=True)):
            distribution = self.distribution(rows[row], position, words[row].get(position))
            codes = [CHARACTERS.codes[char] for char in distribution if char in CHARACTERS.codes]
            values = [value for char, value in distribution.items() if char in CHARACTERS.codes]
            probs[index, codes] += (1 - uniform_mix) * torch.tensor(values, dtype=torch.float64)
        return copy_visible((probs / probs.sum(-1, keepdim=True)).log().float(), Context(context.tokens, hidden), at)

    def distribution(self, text: str, position: int, word: tuple[int, str] | None) -> Distribution:
        """Compute the distribution of the lost character at a position; ``word`` is (start, pattern) around it."""
        mixture: Distribution = defaultdict(float)
        for name, language_prob in self.language_probs.items():
            for char, prob in self.distribution_in(name, text, position, word).items():
                mixture[char] += language_prob * prob
        if word is None or any(self.candidates(name, text, word) for name in self.language_probs):
            return mixture
        if sum(char.isascii() for char in word[1]) < MIN_ASCII_LETTERS:
            return mixture
        foreign: dict[str, float] = defaultdict(float)
        for name in self.languages:
            for candidate, count in self.candidates(name, text, word).items():
                foreign[candidate[position - word[0]]] += 1e6 * count / self.languages[name].total
        return interpolate(foreign, CONFIG.foreign_strength, mixture)

    def distribution_in(self, name: str, text: str, position: int, word: tuple[int, str] | None) -> Distribution:
        """Compute the distribution of the lost character in one language."""
        language, strength = self.languages[name], CONFIG.context_strength
        key = neighbours(mask_non_ascii(text), position)
        by_classes = language.by_neighbour_classes.get(char_classes(key), {})
        distribution = interpolate(by_classes, strength, language.frequencies)
        distribution = interpolate(language.by_neighbours.get(key, {}), strength, distribution)
        if word is None:
            return distribution
        start, pattern = word
        padded, inside = f" {mask_non_ascii(pattern)} ", position - start + 1
        for radius in CONTEXT_RADII:
            if inside - radius >= 0 and inside + radius < len(padded):
                key = padded[inside - radius : inside] + padded[inside + 1 : inside + radius + 1]
                distribution = interpolate_letters(language.by_context.get(key, {}), distribution)
        letters: dict[str, float] = defaultdict(float)
        for candidate, count in self.candidates(name, text, word).items():
            letters[candidate[position - start]] += count
        return interpolate(letters, CONFIG.word_strength, distribution)

    def candidates(self, name: str, text: str, word: tuple[int, str]) -> dict[str, float]:
        """Return the words of a language that match a word of the text; a mark at either end may be a quote."""
        start, pattern = word
        if pattern == MARK:
            return {}
        first = begins_sentence(text, start)
        candidates = self.languages[name].match(pattern, first=first)
        if not candidates:
            for left, right in ((1, 0), (0, 1), (1, 1)):
                inner = pattern[left : len(pattern) - right]
                quotes = pattern[:left] + pattern[len(pattern) - right :]
                if MARK in inner and len(inner) > 1 and set(quotes) == {MARK}:
                    matches = self.languages[name].match(inner, first=first)
                    candidates |= {MARK * left + match + MARK * right: count / 2 for match, count in matches.items()}
        return candidates

    def frequency(self, name: str, text: str, word: tuple[int, str]) -> float:
        """Return the total relative frequency of the candidates of a word in a language."""
        return sum(self.candidates(name, text, word).values()) / self.languages[name].total


def decode_with_marks(tokens: NDArray[np.integer[Any]], hidden: NDArray[np.bool_]) -> str:
    """Decode character tokens (L,) to text, with a mark at each hidden position."""
    pairs = zip(tokens, hidden, strict=True)
    return "".join(MARK if is_hidden else CHARACTERS.texts[token] for token, is_hidden in pairs)


def words_by_position(text: str) -> dict[int, tuple[int, str]]:
    """Return position of each mark -> (start, pattern) of the word around it."""
    words: dict[int, tuple[int, str]] = {}
    for match in WORD.finditer(text):
        if MARK in match[0]:
            start, pattern = match.start(), match[0]
            words |= {start + offset: (start, pattern) for offset, char in enumerate(pattern) if char == MARK}
    return words


def identify_languages(text: str, languages: Mapping[str, Language]) -> dict[str, float]:
    """Compute the posterior probabilities of the languages of a text, without improbable languages."""
    unlisted = CONFIG.unlisted_frequency
    words = [word for word in WORD.finditer(text) if word[0].strip(MARK)]
    words = words[:: max(1, len(words) // CONFIG.max_language_words)]
    scores = {}
    for name, language in languages.items():
        counts = (sum(language.match(word[0], first=begins_sentence(text, word.start())).values()) for word in words)
        scores[name] = sum(math.log((1 - unlisted) * count / language.total + unlisted) for count in counts)
    best = max(scores.values())
    ratios = {name: math.exp(score - best) for name, score in scores.items()}
    selected = {name: ratio for name, ratio in ratios.items() if ratio >= CONFIG.min_language_prob}
    return {name: ratio / sum(selected.values()) for name, ratio in selected.items()}


def merge(language: Language, extra: Language) -> Language:
    """Add the counts of a small language to a large one, which is not copied word by word."""
    words, by_neighbours = dict(language.words), dict(language.by_neighbours)
    for pattern, extra_words in extra.words.items():
        words[pattern] = tuple(add_counts(dict(words.get(pattern, ())), dict(extra_words)).items())
    for key, counts in extra.by_neighbours.items():
        by_neighbours[key] = add_counts(by_neighbours.get(key, {}), counts)
    return Language(words, by_neighbours, language.total)


def add_counts(counts: Counts, extra: Counts) -> dict[str, float]:
    """Return the sums of two count tables."""
    return {**counts, **{key: counts.get(key, 0.0) + count for key, count in extra.items()}}


def interpolate(counts: Counts, strength: float, backoff: Distribution) -> Distribution:
    """Compute (counts + strength * backoff) / (sum of counts + strength)."""
    total = sum(counts.values()) + strength
    distribution = defaultdict(float, {char: strength * prob / total for char, prob in backoff.items()})
    for char, count in counts.items():
        distribution[char] += count / total
    return distribution


def interpolate_letters(counts: Counts, backoff: Distribution) -> Distribution:
    """Redistribute the mass of letters and apostrophes in ``backoff`` by their ``counts`` in a larger context."""
    letters = {char: prob for char, prob in backoff.items() if char.isalpha() or char == APOSTROPHE}
    mass = sum(letters.values())
    if not mass or not counts:
        return backoff
    normalised = {char: prob / mass for char, prob in letters.items()}
    conditional = interpolate(counts, CONFIG.context_strength, normalised)
    return defaultdict(float, backoff) | {char: mass * prob for char, prob in conditional.items()}
