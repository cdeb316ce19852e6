"""Candidates for a lacuna: a beam search over characters, given the text on both sides.

With the text before the lacuna l and the text after it r, a candidate x of n characters has the log-score

    score(x) = log p(n) + log p(x | l) + log p(r | l x)

under a mixture of character n-gram models, of which the mean weights and the first ``CONTEXT`` characters of r matter.
The search extends the best candidates by one character after the other; r is added at the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.experts.char_ngram import CharNgramMixture
from conservator.experts.char_ngram.model import code_points, find_all_contexts, mix
from conservator.experts.char_ngram.trie import Trie, probability
from conservator.numerics import compiled


@dataclass(frozen=True)
class LacunaSearch:
    """Limits of the search.

    Attributes:
        width: hypotheses that are extended at each character.
        left_characters: characters before the lacuna that are read.
        right_characters: characters after the lacuna that are scored.
    """

    width: int = 200  # hypotheses: of the beam [untuned]
    left_characters: int = 64  # characters: before the lacuna; farther ones affect only the weights [untuned]
    right_characters: int = 10  # characters: after the lacuna; farther ones hardly depend on it [untuned]

    def candidates(
        self, mixture: CharNgramMixture, alphabet: str, left: str, right: str, lengths: Mapping[int, float]
    ) -> dict[str, float]:
        """Return candidate -> its log-score, at most ``width`` for each length.

        Args:
            mixture: the models.
            alphabet: characters of the candidates.
            left: text before the lacuna, up to the nearest unknown text.
            right: text after the lacuna, up to the nearest unknown text.
            lengths: number of characters -> its log-probability.
        """
        before, after = code_points(left), code_points(right[: self.right_characters])
        letters = code_points("".join(sorted(alphabet)))
        models = len(mixture.roots)
        texts, scores = np.zeros((1, 0), dtype=np.int64), np.zeros(1)
        current = start_weights(mixture.trie, mixture.roots, mixture.weights, mixture.reset_prob, before)[None]
        found: dict[str, float] = {}
        for length in range(1, max(lengths) + 1):
            steps, posteriors = extend(
                mixture.trie, mixture.roots, mixture.weights, mixture.reset_prob, before, texts, current, letters
            )
            totals = (scores[:, None] + steps).ravel()
            best = np.argsort(-totals, kind="stable")[: self.width]
            rows, columns = best // len(letters), best % len(letters)
            texts = np.hstack([texts[rows], letters[columns, None]])
            scores, current = totals[best], posteriors.reshape(-1, models)[best]
            if length in lengths:
                ends = finish(
                    mixture.trie, mixture.roots, mixture.weights, mixture.reset_prob, before, texts, current, after
                )
                for text, score in zip(texts.tolist(), (scores + ends + lengths[length]).tolist(), strict=True):
                    found["".join(map(chr, text))] = score
        return found


@compiled
def start_weights(trie: Trie, roots: Ints, weights: Floats, reset_prob: float, left: Ints) -> Floats:
    """Compute the weights (m,) of the models after the text ``left``."""
    current = weights.copy()
    paths, counts = np.zeros((len(roots), trie.order), dtype=np.int64), np.zeros(len(roots), dtype=np.int64)
    for position in range(max(0, len(left) - 64), len(left)):
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
    trie: Trie, roots: Ints, weights: Floats, reset_prob: float, left: Ints, texts: Ints, current: Floats, right: Ints
) -> Floats:
    """Compute the log-probability (k,) of the text after the lacuna given each hypothesis."""
    scores = np.zeros(len(texts))
    models = len(roots)
    paths, counts = np.zeros((models, trie.order), dtype=np.int64), np.zeros(models, dtype=np.int64)
    for row in range(len(texts)):
        text = np.concatenate((left[max(0, len(left) - trie.order + 1) :], texts[row], right))
        mixed = current[row].copy()
        for position in range(len(text) - len(right), len(text)):
            find_all_contexts(trie, roots, text[max(0, position - trie.order + 1) : position], paths, counts)
            scores[row] += np.log(mix(trie, paths, counts, weights, reset_prob, text[position], mixed))
    return scores
