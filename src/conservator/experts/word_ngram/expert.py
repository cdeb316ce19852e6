"""The word expert: words that match a damaged word, scored by the words around it.

A word trigram model, counted in reference texts and in the document. Let n be the counts, where counts of the document
have the weight ``document_weight``; a, b the words before the damaged word and c the word after it; t =
``trigram_strength`` and s = ``bigram_strength``. The score of a word v is

    score(v) = p(v | a b) p(c | b v),   p(v | a b) = (n(a b v) + t p(v | b)) / (n(a b) + t)
    p(v | b) = (n(b v) + s p(v)) / (n(b) + s),   p(v) = n(v) / n

Unseen words get ``unseen_count`` pseudo-counts and a letter model. The distribution of a byte is proportional to the
scores of the matching words, and of separators that split the word in two, raised to the power ``inverse_temperature``:
left and right context are correlated, so the product is tempered.
"""

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.arrays import Floats, Ints
from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.experts.expert import At, Context, ExpertSpec, check_context, copy_visible
from conservator.experts.word_ngram.counts import (
    HIDDEN_BYTE,
    UNSEEN_ID,
    Bytes,
    Dictionary,
    NgramTables,
    Tokens,
    WordCounts,
    count_word_ngrams,
    pair,
    tokenize,
)
from conservator.vocabularies import BYTES


@dataclass(frozen=True)
class WordNgramConfig:
    """Hyperparameters of the word expert."""

    # ratio: count of a word in the document relative to the references [LOG: illegible-letters-in-early-plays]
    document_weight: float = 10.0
    # counts: Dirichlet strength of the backoff from trigrams [LOG: illegible-letters-in-early-plays]
    trigram_strength: float = 300.0
    # counts: Dirichlet strength of the backoff from bigrams [LOG: illegible-letters-in-early-plays]
    bigram_strength: float = 1500.0
    unseen_count: float = 1.0  # counts: pseudo-count of all unseen words together [untuned]
    letter_strength: float = 3.0  # counts: Dirichlet strength of the backoff between letter contexts [untuned]
    inverse_temperature: float = 0.7  # exponent: of the product of left and right context [untuned]
    uniform_mix: float = 2.0**-10  # probability: mass of the uniform distribution in every prediction [untuned]


CONFIG = WordNgramConfig()
SPEC = ExpertSpec("words", BYTES, max_length=1024)


@dataclass(frozen=True)
class WordModel:
    """Word counts of reference texts. ``condition`` adds the words of a document and creates its expert.

    Attributes:
        counts: word counts of the references.
    """

    counts: WordCounts
    spec: ExpertSpec = SPEC

    @classmethod
    def of(cls, texts: Sequence[str]) -> "WordModel":
        """Count the words of texts."""
        return cls(count_word_ngrams(text.encode() for text in texts))

    def condition(self, document: Observation) -> "WordExpert":
        """Create the expert for a document (1, L)."""
        if document.tokens.ndim != 2 or len(document.tokens) != 1 or document.excerpt is not None:
            raise ConservatorError(
                f"the word expert needs one complete document of shape (1, L), got {tuple(document.tokens.shape)}"
            )
        text = document.readable[0].masked_fill(document.hidden[0], HIDDEN_BYTE).numpy().astype(np.uint8)
        new_ids: dict[bytes, int] = {}
        tokens = tokenize(text.tobytes(), self.counts.ids, new_ids)
        return WordExpert(self.counts, len(text), tokens, tokens.tables(), new_ids, Dictionary.of(new_ids))


@dataclass(frozen=True)
class WordExpert:
    """The word expert of one document. Words that a context hides are not counted.

    Attributes:
        reference_counts: word counts of the references.
        length: length of the document in bytes.
        tokens: tokens of the document.
        document_tables: n-gram counts of the document.
        new_ids: words that occur only in the document -> their ids.
        new_words: these words by length.
    """

    reference_counts: WordCounts
    length: int
    tokens: Tokens
    document_tables: NgramTables
    new_ids: dict[bytes, int]
    new_words: Dictionary
    spec: ExpertSpec = field(default=SPEC)

    def predict(self, context: Context, at: At) -> Tensor:
        """Compute log p(v) at the positions ``at``: (n, V)."""
        check_context(self.spec, context)
        hidden = (context.hidden | ~context.real).numpy()
        starts = torch.zeros(len(hidden), dtype=torch.long) if context.start is None else context.start
        probs = np.empty((len(at[0]), BYTES.size))
        row_of, positions = at[0].numpy(), at[1].numpy()
        for row in np.unique(row_of).tolist():
            data = np.where(hidden[row], HIDDEN_BYTE, context.tokens[row].numpy()).astype(np.uint8)
            scorer = ContextScorer(self, data, self.hidden_tables(hidden[row], int(starts[row])))
            for index in np.flatnonzero(row_of == row).tolist():
                probs[index] = scorer.distribution(int(positions[index]))
        probs = (1 - CONFIG.uniform_mix) * probs + CONFIG.uniform_mix / BYTES.size
        return copy_visible(torch.from_numpy(np.log(probs)).float(), context, at)

    def hidden_tables(self, hidden: NDArray[np.bool_], start: int) -> NgramTables:
        """Count the n-grams of the document that the hidden bytes (l,) of a window at ``start`` may change."""
        flags = np.zeros(self.length, dtype=bool)
        stop = min(self.length, start + len(hidden))
        flags[start:stop] = hidden[: stop - start]
        return self.tokens.tables(np.concatenate([[0], np.cumsum(flags)]))


class ContextScorer:
    """Scores words in a window, some of whose words are damaged."""

    def __init__(self, expert: WordExpert, data: Bytes, hidden: NgramTables) -> None:
        """Tokenize the window ``data`` (l,); the n-grams ``hidden`` are subtracted from the counts."""
        self.expert, self.reference_counts, self.data, self.hidden = expert, expert.reference_counts, data, hidden
        self.ids = ChainMap(expert.new_ids, expert.reference_counts.ids)
        self.token_ids, self.begins, self.ends = tokenize(data.tobytes(), self.ids)
        document_total = float(expert.document_tables.unigrams.counts.sum() - hidden.unigrams.counts.sum())
        self.total = max(1.0, self.reference_counts.total + CONFIG.document_weight * document_total)

    def distribution(self, position: int) -> Floats:
        """Compute the distribution (V,) of the byte at a position."""
        token = int(np.searchsorted(self.begins, position, side="right")) - 1
        begin, end = int(self.begins[token]), int(self.ends[token])
        pattern, offset = self.data[begin:end], position - begin
        before, after = [self.token_id(token - 2), self.token_id(token - 1)], self.token_id(token + 1)
        spelling = self.reference_counts.spelling.distribution(pattern, offset, CONFIG.letter_strength)
        probs = self.unseen_score(before, after) * spelling
        for dictionary in (self.reference_counts.words, self.expert.new_words):
            letters, ids = dictionary.match(pattern)
            probs += np.bincount(letters[:, offset], self.scores(before, ids, after), BYTES.size)
        if np.count_nonzero(pattern == HIDDEN_BYTE) == 1:
            probs += self.separator_scores(pattern, offset, before, after)
        probs = probs**CONFIG.inverse_temperature
        probs /= probs.sum()
        return probs

    def token_id(self, token: int) -> int:
        """Return the id of a token of the window; -1 if it has none, or if it is outside of the window."""
        return int(self.token_ids[token]) if 0 <= token < len(self.token_ids) else -1

    def counts(self, order: int, keys: Ints) -> Floats:
        """Return the weighted counts of n-grams: references and document, without hidden n-grams."""
        document_counts = self.expert.document_tables[order](keys) - self.hidden[order](keys)
        return self.reference_counts.tables[order](keys) + CONFIG.document_weight * document_counts

    def unigram_probs(self, ids: Ints) -> Floats:
        """Compute p(v): (n,)."""
        return self.counts(0, ids) / self.total

    def scores(self, before: Sequence[int], ids: Ints, after: int) -> Floats:
        """Compute score(v) of words: (n,), 0 for a word without counts."""
        counts = self.counts(0, ids)
        first, second = (np.full(len(ids), token_id) for token_id in before)
        score = self.trigram_probs(first, second, ids, counts / self.total)
        if after >= 0:
            last = np.full(len(ids), after)
            unigram = np.maximum(self.unigram_probs(last), CONFIG.unseen_count / self.total)
            score = score * self.trigram_probs(second, ids, last, unigram)
        return np.where(counts > 0, score, 0.0)

    def trigram_probs(self, first: Ints, second: Ints, third: Ints, unigram: Floats) -> Floats:
        """Compute p(third | first second) from p(third): (n,); -1 stands for an unknown token."""
        s, t = CONFIG.bigram_strength, CONFIG.trigram_strength
        bigram_counts = np.where(second >= 0, self.counts(1, pair(second, third)), 0.0)
        bigram = (bigram_counts + s * unigram) / (np.where(second >= 0, self.counts(0, second), 0.0) + s)
        both = (first >= 0) & (second >= 0)
        trigram_counts = np.where(both, self.counts(2, pair(pair(first, second), third)), 0.0)
        return (trigram_counts + t * bigram) / (np.where(both, self.counts(1, pair(first, second)), 0.0) + t)

    def unseen_score(self, before: Sequence[int], after: int) -> float:
        """Compute the score of all unseen words together."""
        first, second, unseen = np.array([before[0]]), np.array([before[1]]), np.array([UNSEEN_ID])
        unigram = CONFIG.unseen_count / self.total
        score = float(self.trigram_probs(first, second, unseen, np.array([unigram]))[0])
        if after >= 0:
            score *= float(np.maximum(self.unigram_probs(np.array([after])), unigram)[0])
        return score

    def separator_scores(self, pattern: Bytes, offset: int, before: Sequence[int], after: int) -> Floats:
        """Compute the scores (V,) of bytes that split a pattern into two words."""
        parts = [pattern[:offset].tobytes(), pattern[offset + 1 :].tobytes()]
        separators = self.reference_counts.separators[int(bool(parts[0])), int(bool(parts[1]))]
        score = self.unseen_score(before, after) / (CONFIG.unseen_count / self.total)
        for part in parts:
            if part:
                token_id = self.ids.get(part, -1)
                count = float(self.counts(0, np.array([token_id]))[0]) if token_id >= 0 else 0.0
                score *= (count + CONFIG.unseen_count) / self.total
        scores: Floats = score * separators / max(1, self.reference_counts.total)
        return scores
