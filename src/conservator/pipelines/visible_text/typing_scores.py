"""Scores of unknown words and of their candidates, and the shares of errors and of unknown words in a document.

The scores are log-linear, with weights w:

    score(v) = w_1 log p(y | v) + w_2 log p(v) + w_3 log p_letters(v) + w_4 log epsilon
    score(y) = w_5 log p_letters(y) + w_6 log omega + w_7 log(p_other + sum_v p(v) rate(v, y) + ...) + w_8

The terms in the last logarithm are ``Suspect.derived``, ``compound`` and ``english``. The weights are fitted by
``benchmarks/fit_typing_scores.py``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np


@dataclass(frozen=True)
class TypingConfig:
    """Parameters of the correction of typing errors."""

    min_letters: int = 3  # letters: shorter unknown words are not corrected
    min_repeats: int = 3  # occurrences: a form that a document has as often counts as intended
    min_name_repeats: int = 2  # occurrences: the same of a capitalised form
    max_near: int = 25  # words: candidates of an unknown word whose error model is computed
    distance_nats: float = 6.0  # nats: of an edit, for the selection of these candidates
    prior_errors: float = 0.05  # ratio: prior mean of epsilon
    prior_error_words: float = 4.0  # words: weight of this prior mean
    unknown_ratio: float = 6.0  # ratio: prior mean of omega to the share of the rarest words of the lists
    unknown_name_share: float = 0.05  # ratio: prior mean of the share of unknown names
    prior_unknown_words: float = 30.0  # words: weight of these prior means
    iterations: int = 8  # iterations of expectation maximisation
    other_share: float = 0.1  # probability: an unknown correct word does not follow the letter model
    other_nats: float = 3.0  # nats: surprisal of a letter of such a word
    other_prob: float = 1.7e-07  # probability p_other
    compound_share: float = 0.059  # ratio: of compounds and prefixed words, relative to derived words
    english_share: float = 0.095  # ratio: of English words, relative to derived words
    error_weight: float = 0.790  # w_1
    prob_weight: float = 0.915  # w_2
    near_letter_weight: float = 0.171  # w_3
    errors_weight: float = 0.742  # w_4
    letter_weight: float = 0.517  # w_5
    unknown_weight: float = 0.871  # w_6
    derived_weight: float = 0.360  # w_7
    constant: float = -0.445  # w_8
    name_constant: float = 0.835  # the same for a capitalised word within a sentence, added to the constant
    two_constant: float = 0.667  # nats: of a candidate with two edits
    compound_constant: float = -0.483  # nats: of a compound or prefixed word that no list has
    space_constant: float = 3.5  # nats: of two words that an error joins
    # nats: added to the scores of candidates: the option min_log_odds has a limit for OCR, where changes do more harm
    bonus: float = 1.0
    max_unlisted: float = 0.5  # ratio: of words of a document that no list has; with more, its language is not theirs
    unlisted_words: float = 10.0  # words: that are added to the listed words of a document, for short documents
    window: int = 10  # words: on either side of a word, whose words show whether the lists know the text
    max_unknown: float = 0.5  # ratio: of unknown words in the window; with more, a word is not corrected
    joined_prob: float = 0.01  # probability: an error joins two words; lists of misspelt words have few of them
    min_part: float = 2e-3  # probability: of the more frequent one of two words that an error joins
    min_joined: float = 1e-6  # probability: of the other one, and of a word that an error splits


CONFIG = TypingConfig()


@dataclass(frozen=True)
class Near:
    """A candidate of an unknown word y.

    Attributes:
        text: The candidate v.
        log_error: log p(y | v).
        log_prob: log p(v).
        edits: Number of edits; 0 if a blank is missing.
        is_compound: Whether the lists have only its parts.
        letters: log p_letters(v).
    """

    text: str
    log_error: float
    log_prob: float
    edits: int
    is_compound: bool = False
    letters: float = 0.0

    def score(self, errors: float) -> float:
        """Return the score of the candidate, given the share epsilon of errors."""
        kind = (CONFIG.space_constant, 0.0, CONFIG.two_constant)[self.edits]
        return (
            CONFIG.error_weight * self.log_error
            + CONFIG.prob_weight * self.log_prob
            + CONFIG.near_letter_weight * self.letters
            + CONFIG.errors_weight * log(errors)
            + kind
            + CONFIG.compound_constant * self.is_compound
        )


@dataclass(frozen=True)
class Suspect:
    """An unknown word y that may be an error.

    Attributes:
        start: First character.
        stop: End.
        text: The observed text.
        is_name: Whether it is capitalised within a sentence.
        near: Candidates.
        derived: Sum over v of p(v) rate(v, y).
        compound: p(y) as a first part and a word.
        english: p_English(y).
        letters: log p_letters(y).
    """

    start: int
    stop: int
    text: str
    is_name: bool
    near: Sequence[Near]
    derived: float
    compound: float
    english: float
    letters: float = 0.0

    def score(self, unknown: float) -> float:
        """Return the score of the observed text, given the share omega of unknown correct words of its kind."""
        others = CONFIG.other_prob + self.derived
        others += CONFIG.compound_share * self.compound + CONFIG.english_share * self.english
        return (
            CONFIG.letter_weight * self.letters
            + CONFIG.unknown_weight * log(unknown)
            + CONFIG.derived_weight * log(others)
            + CONFIG.constant
            + CONFIG.name_constant * self.is_name
        )

    def error_prob(self, errors: float, unknown: float) -> float:
        """Return the probability that the observed text is an error."""
        if not self.near:
            return 0.0
        log_sum = np.logaddexp.reduce([near.score(errors) for near in self.near])
        return float(1 / (1 + np.exp(min(500.0, self.score(unknown) - log_sum))))


def infer_shares(suspects: Sequence[Suspect], total: int, rare: float) -> tuple[float, Mapping[bool, float]]:
    """Return the share epsilon of errors, and the share omega of unknown words by whether they are names.

    Args:
        suspects: The unknown words of a document.
        total: Number of words of the document.
        rare: Share of the rarest words of the lists, which predicts that of unknown words.
    """
    count = Counter(suspect.is_name for suspect in suspects)
    prior = {False: CONFIG.unknown_ratio * rare, True: CONFIG.unknown_name_share}
    errors, unknown = CONFIG.prior_errors, prior
    for _ in range(CONFIG.iterations):
        expected = {False: 0.0, True: 0.0}
        for suspect in suspects:
            expected[suspect.is_name] += suspect.error_prob(errors, unknown[suspect.is_name])
        weight = CONFIG.prior_error_words
        errors = (sum(expected.values()) + weight * CONFIG.prior_errors) / (total + weight)
        weight = CONFIG.prior_unknown_words
        unknown = {
            name: (count[name] - expected[name] + weight * prior[name]) / (total + weight) for name in (False, True)
        }
    return errors, unknown
