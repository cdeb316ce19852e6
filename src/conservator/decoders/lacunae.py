"""Candidates for a lacuna: beam searches over characters in both directions, given the text on both sides.

With the text before the lacuna l and the text after it r, a candidate x of n characters has the log-score

    score(x) = log p(n) + (log p(x | l) + log p(r | l x)  +  log q(x | r) + log q(l | x r)) / (2 T)

with the temperature T. p is a mixture of character n-gram models that reads from left to right, and q one that reads
from right to left. Each search extends its best hypotheses by one character after the other, and adds the text at the
end; a candidate of either search is scored in both directions.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.experts.char_ngram import CharNgramMixture
from conservator.experts.char_ngram.model import code_points, find_all_contexts, mix
from conservator.experts.char_ngram.trie import Trie, probability
from conservator.numerics import compiled


@dataclass(frozen=True)
class Directions:
    """Mixtures of models that read a text in both directions.

    Attributes:
        forward: models that read from left to right.
        backward: models that read from right to left.
        letters: characters of their texts, the most frequent first.
        temperature: divides the log-scores of candidates.
    """

    forward: CharNgramMixture
    backward: CharNgramMixture
    letters: str
    temperature: float = 1.0


@dataclass(frozen=True)
class LacunaSearch:
    """Limits of the search.

    Attributes:
        width: hypotheses that are extended at each character.
        gap_width: the same for a lacuna of more than ``few_lengths`` possible lengths.
        few_lengths: largest number of lengths that are searched with the full width.
        before_characters: characters before the lacuna, in reading direction, that are read.
        after_characters: characters after the lacuna that are scored.
    """

    width: int = 200  # hypotheses: of the beam [LOG: lacunae]
    gap_width: int = 50  # hypotheses: the costs of a length are those of ``width`` hypotheses otherwise [untuned]
    few_lengths: int = 5  # lengths: of an estimate of two characters [untuned]
    before_characters: int = 64  # characters: farther ones affect only the weights [untuned]
    after_characters: int = 10  # characters: farther ones hardly depend on the lacuna [untuned]

    def candidates(
        self, models: Directions, alphabet: str, left: str, right: str, lengths: Mapping[int, float]
    ) -> dict[str, float]:
        """Return candidate -> its log-score.

        Args:
            models: the models.
            alphabet: characters of the candidates.
            left: text before the lacuna, up to the nearest unknown text.
            right: text after the lacuna, up to the nearest unknown text.
            lengths: number of characters -> its log-probability.
        """
        forward = self.search(models.forward, alphabet, left, right, set(lengths))
        log_scores = self.search(models.backward, alphabet, right[::-1], left[::-1], set(lengths))
        backward = {text[::-1]: score for text, score in log_scores.items()}
        forward |= self.score(models.forward, left, backward.keys() - forward.keys(), right)
        missing = {text[::-1] for text in forward.keys() - backward.keys()}
        scored = self.score(models.backward, right[::-1], missing, left[::-1])
        backward |= {text[::-1]: score for text, score in scored.items()}
        scale = 0.5 / models.temperature
        return {text: lengths[len(text)] + scale * (forward[text] + backward[text]) for text in forward}

    def search(
        self, mixture: CharNgramMixture, alphabet: str, left: str, right: str, lengths: set[int]
    ) -> dict[str, float]:
        """Return candidate -> its log-score in one direction, at most ``width`` of each length."""
        width = self.width if len(lengths) <= self.few_lengths else self.gap_width
        letters = code_points("".join(sorted(alphabet)))
        before, after = self._contexts(left, right)
        texts, scores = np.zeros((1, 0), dtype=np.int64), np.zeros(1)
        parameters = (mixture.trie, mixture.roots, mixture.weights, mixture.reset_prob)
        current = start_weights(*parameters, before)[None]
        log_scores: dict[str, float] = {}
        for length in range(1, max(lengths, default=0) + 1):
            steps, posteriors = extend(*parameters, before, texts, current, letters)
            totals = (scores[:, None] + steps).ravel()
            best = np.argsort(-totals, kind="stable")[:width]
            rows, columns = best // len(letters), best % len(letters)
            texts = np.hstack([texts[rows], letters[columns, None]])
            scores, current = totals[best], posteriors.reshape(-1, posteriors.shape[2])[best]
            if length in lengths:
                ends = finish(*parameters, before, texts, current, after, length)
                log_scores |= zip(as_texts(texts), (scores + ends).tolist(), strict=True)
        return log_scores

    def score(self, mixture: CharNgramMixture, left: str, texts: Iterable[str], right: str) -> dict[str, float]:
        """Return the log-scores of texts in one direction."""
        before, after = self._contexts(left, right)
        parameters = (mixture.trie, mixture.roots, mixture.weights, mixture.reset_prob)
        start = start_weights(*parameters, before)
        by_length: defaultdict[int, list[str]] = defaultdict(list)
        for text in sorted(texts):
            by_length[len(text)].append(text)
        log_scores: dict[str, float] = {}
        for length, listed in by_length.items():
            rows = code_points("".join(listed)).reshape(-1, length)
            current = np.tile(start, (len(rows), 1))
            log_scores |= zip(listed, finish(*parameters, before, rows, current, after, 0).tolist(), strict=True)
        return log_scores

    def _contexts(self, left: str, right: str) -> tuple[Ints, Ints]:
        """Return the code points of the text that is read before a lacuna, and of the text after it."""
        return code_points(left[-self.before_characters :]), code_points(right[: self.after_characters])


def as_texts(rows: Ints) -> list[str]:
    """Return rows (k, n) of code points as texts."""
    return ["".join(map(chr, row)) for row in rows.tolist()]


@compiled
def start_weights(trie: Trie, roots: Ints, weights: Floats, reset_prob: float, left: Ints) -> Floats:
    """Compute the weights (m,) of the models after the text ``left``."""
    current = weights.copy()
    paths, counts = np.zeros((len(roots), trie.order), dtype=np.int64), np.zeros(len(roots), dtype=np.int64)
    for position in range(len(left)):
        find_all_contexts(trie, roots, left[max(0, position - trie.order + 1) : position], paths, counts)
        mix(trie, paths, counts, weights, reset_prob, left[position], current)
    return current


@compiled
def extend(
    trie: Trie, roots: Ints, weights: Floats, reset_prob: float, left: Ints, texts: Ints, current: Floats, letters: Ints
) -> tuple[Floats, Floats]:
    """Score each next character of each hypothesis.

    Returns:
        (k, a) log-probabilities, and (k, a, m) weights of the models after each character.
    """
    count, size, models = len(texts), len(letters), len(roots)
    steps, posteriors = np.zeros((count, size)), np.zeros((count, size, models))
    paths, counts = np.zeros((models, trie.order), dtype=np.int64), np.zeros(models, dtype=np.int64)
    for row in range(count):
        history = np.concatenate((left[max(0, len(left) - trie.order + 1) :], texts[row]))
        find_all_contexts(trie, roots, history[max(0, len(history) - trie.order + 1) :], paths, counts)
        for column in range(size):
            total = 0.0
            for model in range(models):
                posterior = current[row, model] * probability(trie, paths[model, : counts[model]], letters[column])
                posteriors[row, column, model] = posterior
                total += posterior
            for model in range(models):
                posterior = posteriors[row, column, model] / total
                posteriors[row, column, model] = (1 - reset_prob) * posterior + reset_prob * weights[model]
            steps[row, column] = np.log(total)
    return steps, posteriors


@compiled
def finish(
    trie: Trie,
    roots: Ints,
    weights: Floats,
    reset_prob: float,
    left: Ints,
    texts: Ints,
    current: Floats,
    right: Ints,
    read: int,
) -> Floats:
    """Compute the log-probability (k,) of texts and of the text after them, without their first ``read`` characters."""
    scores = np.zeros(len(texts))
    models = len(roots)
    paths, counts = np.zeros((models, trie.order), dtype=np.int64), np.zeros(models, dtype=np.int64)
    known = left[max(0, len(left) - trie.order + 1) :]
    for row in range(len(texts)):
        text = np.concatenate((known, texts[row], right))
        mixed = current[row].copy()
        for position in range(len(known) + read, len(text)):
            find_all_contexts(trie, roots, text[max(0, position - trie.order + 1) : position], paths, counts)
            scores[row] += np.log(mix(trie, paths, counts, weights, reset_prob, text[position], mixed))
    return scores
