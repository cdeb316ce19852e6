"""Identification of the language of a text whose spaces are missing or wrong.

With f_k the frequencies of the most frequent words of language k, the text without spaces has the score

    score(k) = max over divisions of the text of  sum over frequent words of log f_k(word)  -  b * other characters

with b = ``other_nats``.
"""

from dataclasses import dataclass
from functools import cache
from math import exp, log

from conservator.experts.word_ngram.lists import load_common_words


@dataclass(frozen=True)
class UnspacedConfig:
    """Constants of the identification."""

    max_characters: int = 1500  # characters: of the text that are read [untuned]
    max_word: int = 12  # characters: of a frequent word [untuned]
    other_nats: float = 3.0  # nats: of a character that is not in a frequent word [untuned]
    min_ratio: float = 0.02  # ratio: languages with a lower probability relative to the best are dropped [untuned]
    min_evidence: float = 10.0  # nats: over no language at all [untuned]
    temperature: float = 10.0  # ratio: because frequent words inside of other words are no evidence [untuned]


CONFIG = UnspacedConfig()


@cache
def load_common_by_language() -> dict[str, dict[str, float]]:
    """Load the most frequent words: language -> word -> log of its relative frequency."""
    languages: dict[str, dict[str, float]] = {}
    for word, frequencies in load_common_words().items():
        for language, frequency in frequencies.items():
            languages.setdefault(language, {})[word.decode().lower()] = log(frequency)
    return languages


def identify_unspaced_languages(text: str) -> dict[str, float]:
    """Compute the posterior probabilities of the languages of a text without its spaces; empty if there is none."""
    letters = [character for character in text.lower() if not character.isspace()]
    middle = max(0, (len(letters) - CONFIG.max_characters) // 2)
    sample = "".join(letters[middle : middle + CONFIG.max_characters])
    scores = {language: best_division(sample, words) for language, words in load_common_by_language().items()}
    best = max(scores.values(), default=0.0)
    if best < CONFIG.min_evidence - CONFIG.other_nats * len(sample):
        return {}
    ratios = {language: exp((score - best) / CONFIG.temperature) for language, score in scores.items()}
    selected = {language: ratio for language, ratio in ratios.items() if ratio >= CONFIG.min_ratio}
    return {language: ratio / sum(selected.values()) for language, ratio in selected.items()}


def best_division(text: str, words: dict[str, float]) -> float:
    """Return the score of the best division of a text."""
    best = [0.0]
    for stop in range(1, len(text) + 1):
        score = best[-1] - CONFIG.other_nats
        for start in range(max(0, stop - CONFIG.max_word), stop):
            value = words.get(text[start:stop])
            if value is not None and best[start] + value > score:
                score = best[start] + value
        best.append(score)
    return best[-1]
