"""The word expert: words that match a damaged word, scored by the words around it.

A word trigram model, counted in reference texts and in the document, on the word lists of the document's languages. Let
n be the counts, where counts of the document have the weight ``document_weight``; f the frequencies of the word lists,
mixed by the probabilities of the languages; a, b the words before the damaged word and c the word after it; t =
``trigram_strength``, s = ``bigram_strength`` and r = ``list_strength``. The score of a word v is

    score(v) = p(v | a b) p(c | b v),   p(v | a b) = (n(a b v) + t p(v | b)) / (n(a b) + t)
    p(v | b) = (n(b v) + s p(v)) / (n(b) + s),   p(v) = (n(v) + r f(v)) / (n + r)

A lost byte may be a letter, or a separator that splits the word in two. The distribution of a byte is its marginal
under the scores of all splits and all matching words (``DamagedWord``). Unseen words have a letter model.
"""

import math
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.arrays import Floats, Ints
from conservator.channels import CharacterMaskLikelihood, Observation
from conservator.errors import ConservatorError
from conservator.experts.expert import At, Context, Expert, ExpertSpec, GatePrior, check_context, copy_visible
from conservator.experts.word_ngram.counts import (
    HIDDEN_BYTE,
    ID_BITS,
    Bytes,
    Dictionary,
    Matches,
    NgramTables,
    Tokens,
    WordCounts,
    count_line_ends,
    count_separators,
    count_word_ngrams,
    is_letter,
    tokenize,
)
from conservator.experts.word_ngram.lists import WordList, identify_languages, load_word_list
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
    # words: weight of the lists and references beside the separators of the document [untuned]
    edge_strength: float = 300.0
    line_end_strength: float = 5.0  # lines: weight of LINE_END_PROBS beside the line ends of the document [untuned]
    list_strength: float = 50_000.0  # counts: weight of the word lists of the languages [untuned]
    unseen_count: float = 1.0  # counts: pseudo-count of a visible word that was not counted [untuned]
    unseen_prob: float = 0.005  # probability: a word is unseen and has a certain length [untuned]
    letter_nats: float = 2.2  # nats: surprisal of a visible letter of an unseen word [untuned]
    min_unseen_share: float = 0.003  # ratio: the letter model is used if unseen words have this share [untuned]
    min_segment_prob: float = 1e-4  # probability: the letters of less probable segments are ignored [numerical]
    max_hidden: int = 3  # bytes: words with more hidden bytes are not matched [untuned]
    letter_strength: float = 3.0  # counts: Dirichlet strength of the backoff between letter contexts [untuned]
    uniform_mix: float = 2.0**-10  # probability: mass of the uniform distribution in every prediction [untuned]


CONFIG = WordNgramConfig()
# weight, logit: prior means of the gate, and the standard deviation of their shift [LOG: word-expert]
GATE_PRIOR = GatePrior(others_uncertain=(0.7, 0.08), others_confident=(0.35, 0.08), shift_std=0.3)
LINE_END = ord("\n")
CONTEXT_BYTES = 2  # bytes: on either side of a byte, which decide how ``count_separators`` counts it [definition]
# probability: of a separator before a line end, in running text [untuned]
LINE_END_PROBS = {".": 0.75, ":": 0.06, "?": 0.04, ")": 0.04, "!": 0.03, '"': 0.03, ",": 0.02, ";": 0.02, " ": 0.01}
SPEC = ExpertSpec("words", BYTES, gate_prior=GATE_PRIOR)
NO_COUNTS = count_word_ngrams([])


@dataclass(frozen=True)
class WordModel:
    """Word counts of reference texts. ``condition`` adds the words of a document and creates its expert.

    Attributes:
        counts: word counts of the references.
        lists: whether to use the shipped word lists of the document's languages.
    """

    counts: WordCounts = NO_COUNTS
    lists: bool = True
    spec: ExpertSpec = SPEC

    @classmethod
    def of(cls, texts: Sequence[str]) -> "WordModel":
        """Count the words of texts."""
        return cls(count_word_ngrams(text.encode() for text in texts))

    def condition(self, document: Observation) -> Expert:
        """Create the expert for a document (1, L)."""
        if document.tokens.ndim != 2 or len(document.tokens) != 1 or document.excerpt is not None:
            raise ConservatorError(
                f"the word expert needs one complete document of shape (1, L), got {tuple(document.tokens.shape)}"
            )
        text = document.readable[0].masked_fill(document.hidden[0], HIDDEN_BYTE).numpy().astype(np.uint8)
        if isinstance(document.likelihood, CharacterMaskLikelihood):
            from conservator.experts.word_ngram.characters import CharacterWordExpert

            kinds = document.likelihood.kinds[0].numpy()
            return CharacterWordExpert.of(text, kinds, self.counts, self.spec, lists=self.lists)
        new_ids: dict[bytes, int] = {}
        tokens = tokenize(text.tobytes(), self.counts.ids, new_ids)
        languages = identify_languages(text.tobytes()) if self.lists else {}
        return WordExpert(
            self.counts,
            text,
            tokens,
            tokens.tables(),
            new_ids,
            Dictionary(new_ids),
            tuple((load_word_list(name), probability) for name, probability in languages.items()),
            self.spec,
        )


@dataclass(frozen=True)
class WordExpert:
    """The word expert of one document. Words that a context hides are not counted.

    Attributes:
        reference_counts: word counts of the references.
        text: (L,) bytes of the document, HIDDEN_BYTE at lost bytes.
        tokens: tokens of the document.
        document_tables: n-gram counts of the document.
        new_ids: words that occur only in the document -> their ids.
        new_words: these words by length.
        lists: word lists of the document's languages, and the probability of each.
        spec: specification of the expert.
    """

    reference_counts: WordCounts
    text: Bytes
    tokens: Tokens
    document_tables: NgramTables
    new_ids: dict[bytes, int]
    new_words: Dictionary
    lists: tuple[tuple[WordList, float], ...] = ()
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
            scorer = ContextScorer(self, data, self.hidden_tables(hidden[row], int(starts[row])), int(starts[row]))
            requested = np.flatnonzero(row_of == row)
            words = np.searchsorted(scorer.begins, positions[requested], side="right") - 1
            for word in np.unique(words).tolist():
                selected = requested[words == word]
                probs[selected] = DamagedWord(scorer, word).distributions(positions[selected])
        probs = (1 - CONFIG.uniform_mix) * probs + CONFIG.uniform_mix / BYTES.size
        return copy_visible(torch.from_numpy(np.log(probs)).float(), context, at)

    @cached_property
    def document_counts(self) -> list[dict[int, float]]:
        """The n-gram counts of the document as key -> count, for each order."""
        return [table.as_dict() for table in self.document_tables]

    @property
    def length(self) -> int:
        """L, the number of bytes."""
        return len(self.text)

    @cached_property
    def separators(self) -> Floats:
        """(2, 2, V) counts of the separators of the document, as in ``count_separators``."""
        return count_separators(self.text)

    @cached_property
    def line_ends(self) -> Floats:
        """(V,) counts of the separators before the line ends of the document."""
        return count_line_ends(self.text)

    def visible_separators(self, data: Bytes, start: int) -> tuple[Floats, Floats]:
        """Return ``separators`` and ``line_ends`` without the bytes that a window (l,) at ``start`` hides."""
        first, stop = max(0, start - CONTEXT_BYTES), min(self.length, start + len(data) + CONTEXT_BYTES)
        visible = self.text[first:stop]
        masked = visible.copy()
        window = masked[start - first : start - first + len(data)]
        window[data[: len(window)] == HIDDEN_BYTE] = HIDDEN_BYTE
        return (
            self.separators - count_separators(visible) + count_separators(masked),
            self.line_ends - count_line_ends(visible) + count_line_ends(masked),
        )

    def hidden_tables(self, hidden: NDArray[np.bool_], start: int) -> NgramTables:
        """Count the n-grams of the document that the hidden bytes (l,) of a window at ``start`` may change."""
        flags = np.zeros(self.length, dtype=bool)
        stop = min(self.length, start + len(hidden))
        flags[start:stop] = hidden[: stop - start]
        return self.tokens.tables(np.concatenate([[0], np.cumsum(flags)]))


@cache
def line_end_prior() -> Floats:
    """Return LINE_END_PROBS as (V,)."""
    probs = np.zeros(BYTES.size)
    probs[[ord(character) for character in LINE_END_PROBS]] = list(LINE_END_PROBS.values())
    return probs


class ContextScorer:
    """Scores words in a window, some of whose words are damaged."""

    def __init__(self, expert: WordExpert, data: Bytes, hidden: NgramTables, start: int) -> None:
        """Tokenize the window ``data`` (l,) at ``start``; the n-grams ``hidden`` are subtracted from the counts."""
        self.expert, self.reference_counts, self.data, self.hidden = expert, expert.reference_counts, data, hidden
        self.start = start
        self.ids = ChainMap(expert.new_ids, expert.reference_counts.ids)
        self.token_ids, self.begins, self.ends = tokenize(data.tobytes(), self.ids)
        document_total = float(expert.document_tables.unigrams.counts.sum() - hidden.unigrams.counts.sum())
        self.list_strength = CONFIG.list_strength if expert.lists else 0.0
        counted = self.reference_counts.total + CONFIG.document_weight * document_total
        self.total = max(1.0, counted + self.list_strength)
        self.document_counts, self.hidden_counts = expert.document_counts, [table.as_dict() for table in hidden]
        self.dictionaries = [dictionary for dictionary in (self.reference_counts.words, expert.new_words) if dictionary]
        self.separators = self.reference_counts.separators + self.list_strength * sum(
            (probability * word_list.separators for word_list, probability in expert.lists), np.zeros(1)
        )
        self.separators /= max(1.0, self.reference_counts.total + self.list_strength)
        document_separators, line_ends = expert.visible_separators(data, start)
        words = document_separators[1].sum()  # nearly every word is followed by one of these separators
        edge = document_separators + CONFIG.edge_strength * self.separators + 1e-3
        self.edge_separators = edge / (words + CONFIG.edge_strength)
        self.line_ends = line_ends + CONFIG.line_end_strength * line_end_prior()
        self.line_ends /= self.line_ends.sum()

    def edge_factors(self, begin: int, end: int) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the factors of the visible separators before and after the token from ``begin`` to ``end``.

        With S the frequencies of ``count_separators`` per word, a separator c after the token has

            S[1, a, c] after a word,   S[0, a, c] / sum(S[0]) after a separator

        where a states whether a letter follows, and accordingly before the token.

        Returns:
            The factors if the token begins with a separator or with a word, and if it ends with one or the other.
        """
        edge, data = self.edge_separators, self.data
        between = edge[0].sum()
        before = after = (1.0, 1.0)
        if begin > 0 and data[begin - 1] != HIDDEN_BYTE:
            row = edge[int(begin > 1 and bool(is_letter(data[begin - 2 : begin - 1])[0])), :, data[begin - 1]]
            before = (float(row[0] / between), float(row[1]))
        if end < len(data) or self.ends_line(end):
            byte = int(data[end]) if end < len(data) else LINE_END
            letter_follows = end + 1 < len(data) and bool(is_letter(data[end + 1 : end + 2])[0])
            after = (float(edge[0, int(letter_follows), byte] / between), float(edge[1, int(letter_follows), byte]))
        return before, after

    def ends_line(self, end: int) -> bool:
        """Return whether a line or the document ends at a position of the window."""
        return bool(self.data[end] == LINE_END) if end < len(self.data) else self.start + end >= self.expert.length

    def token_id(self, token: int) -> int:
        """Return the id of a token of the window; -1 if it has none, or if it is outside of the window."""
        return int(self.token_ids[token]) if 0 <= token < len(self.token_ids) else -1

    def count(self, *ids: int) -> float:
        """Return the weighted count of an n-gram: references and document, without hidden n-grams; 0 with an id -1."""
        key = 0
        for token_id in ids:
            if token_id < 0:
                return 0.0
            key = (key << ID_BITS) | token_id
        order = len(ids) - 1
        document_count = self.document_counts[order].get(key, 0.0)
        if document_count:
            document_count -= self.hidden_counts[order].get(key, 0.0)
        reference_count = self.reference_counts.tables[order].at(key) if self.reference_counts.total else 0.0
        return reference_count + CONFIG.document_weight * document_count

    def list_frequency(self, word: bytes) -> float:
        """Return f(v) of a word."""
        return sum(probability * word_list.probs.get(word, 0.0) for word_list, probability in self.expert.lists)

    def match_lists(self, pattern: bytes) -> list[tuple[Matches, float]]:
        """Return the words of each word list that match a pattern, and the probability of its language."""
        matched = ((word_list.match(pattern), probability) for word_list, probability in self.expert.lists)
        return [(matches, probability) for matches, probability in matched if matches is not None]

    def matched_frequency(self, word: bytes, *, is_lone: bool) -> float:
        """Return f(v) of a word as in ``match_lists``, for a pattern with one or several hidden bytes."""
        return sum(
            probability * word_list.matched_prob(word, is_lone=is_lone) for word_list, probability in self.expert.lists
        )

    def spelling(self, pattern: bytes, offset: int) -> Floats:
        """Compute the distribution (V,) of a letter of an unseen word."""
        models = [(word_list.spelling, self.list_strength * weight) for word_list, weight in self.expert.lists]
        if self.reference_counts.total or not models:
            models = [*models, (self.reference_counts.spelling, max(1.0, self.reference_counts.total))]
        total, probs = sum(weight for _, weight in models), np.zeros(BYTES.size)
        for model, weight in models:
            probs += weight / total * model.distribution(pattern, offset, CONFIG.letter_strength)
        return probs

    def trigram_prob(self, first: int, second: int, third: int, unigram: float) -> float:
        """Compute p(third | first second) from p(third); -1 stands for an unknown token."""
        s, t = CONFIG.bigram_strength, CONFIG.trigram_strength
        bigram = (self.count(second, third) + s * unigram) / (self.count(second) + s)
        return (self.count(first, second, third) + t * bigram) / (self.count(first, second) + t)


class DamagedWord:
    """A token of a window with k hidden bytes, each of which is a letter or a separator.

    The separators split the token into segments. Segment (i, j) begins after the i-th possible separator and ends
    before the j-th, counted from 0 at the start of the token; it is empty, or a word. The score of a split is the
    product of the scores of its segments and of its separators; sums over splits are computed by forward-backward.
    """

    def __init__(self, scorer: ContextScorer, token: int) -> None:
        """Store the pattern of the token and its context."""
        self.scorer = scorer
        self.begin, self.end = int(scorer.begins[token]), int(scorer.ends[token])
        self.pattern = scorer.data[self.begin : self.end].tobytes()
        self.hidden = [offset for offset, byte in enumerate(self.pattern) if byte == HIDDEN_BYTE]
        self.before = (scorer.token_id(token - 2), scorer.token_id(token - 1))
        self.after = scorer.token_id(token + 1)
        self.after_prob = 1.0
        if self.after >= 0:
            self.after_prob = max(scorer.count(self.after), CONFIG.unseen_count) / scorer.total
        # p(v | a b) / p(v) of a word that was counted neither in the document nor in the references
        self.backoff = scorer.trigram_prob(*self.before, -1, 1.0)

    def distributions(self, positions: Ints) -> Floats:
        """Compute the distributions (n, V) of the bytes at ``positions`` (n,) of the window."""
        marginals = self.marginals()
        marginals /= marginals.sum(axis=1, keepdims=True)
        return marginals[np.searchsorted(self.hidden, positions - self.begin)]

    def marginals(self) -> Floats:
        """Compute the unnormalised marginals (k, V) of the hidden bytes.

        The letters of segments with a negligible posterior probability are ignored.
        """
        count, separators = len(self.hidden), self.scorer.separators
        before_factor, after_factor = self.scorer.edge_factors(self.begin, self.end)
        segments = {(i, j): self.segment(i, j) for i in range(count + 1) for j in range(i, count + 1)}
        size = {key: int(len(segment.pattern) > 0) for key, segment in segments.items()}
        mass = separators.sum(axis=-1).tolist()
        alpha: dict[tuple[int, int], float] = {}
        for i, j in segments:  # in the order of i
            ends = [(h, i - 1) for h in range(i)]
            before = (
                sum(alpha[left] * mass[size[left]][size[i, j]] for left in ends) if i else before_factor[size[i, j]]
            )
            alpha[i, j] = before * segments[i, j].score
        beta: dict[tuple[int, int], float] = {}
        for i, j in reversed(segments):
            starts = [(j + 1, end) for end in range(j + 1, count + 1)]
            after = (mass[size[i, j]][size[right]] * segments[right].score * beta[right] for right in starts)
            beta[i, j] = sum(after) if j < count else after_factor[size[i, j]]
        marginals = np.full((count, BYTES.size), np.finfo(np.float64).tiny)
        separator_weights = np.zeros((count, 2, 2))
        min_weight = CONFIG.min_segment_prob * sum(alpha[i, count] * beta[i, count] for i in range(count + 1))
        for (i, j), segment in segments.items():
            weight = alpha[i, j] * beta[i, j]
            if j > i and weight > min_weight:
                marginals[i:j] += weight / segment.score * self.letters(segment)
            for right in ((j + 1, end) for end in range(j + 1, count + 1)) if j < count else ():
                weight = alpha[i, j] * segments[right].score * beta[right]
                separator_weights[j, size[i, j], size[right]] += weight
        if self.hidden[-1] == len(self.pattern) - 1 and self.scorer.ends_line(self.end):
            marginals[-1] += separator_weights[-1, :, 0] @ separators[:, 0].sum(axis=-1) * self.scorer.line_ends
            separator_weights[-1, :, 0] = 0.0
        marginals += separator_weights.reshape(count, -1) @ separators.reshape(-1, BYTES.size)
        return marginals

    def edges(self, i: int, j: int) -> tuple[int, int]:
        """Return the first byte and the end of segment (i, j) in the token."""
        return self.hidden[i - 1] + 1 if i else 0, self.hidden[j] if j < len(self.hidden) else len(self.pattern)

    def segment(self, i: int, j: int) -> "Segment":
        """Score segment (i, j)."""
        start, stop = self.edges(i, j)
        pattern, scorer = self.pattern[start:stop], self.scorer
        before = self.before if i == 0 else (-1, -1)
        after = self.after if j == len(self.hidden) else -1
        factor = (self.backoff if i == 0 else 1.0) * (self.after_prob if after >= 0 else 1.0)
        if not pattern:
            return Segment(pattern, factor)
        unseen = factor * CONFIG.unseen_prob * math.exp(-CONFIG.letter_nats * (len(pattern) - (j - i)))
        if i == j:  # a visible word
            count = scorer.count(scorer.ids.get(pattern, -1)) + scorer.list_strength * scorer.list_frequency(pattern)
            return Segment(pattern, factor * count / scorer.total + unseen)
        if j - i > CONFIG.max_hidden:
            return Segment(pattern, unseen, unseen)
        scale = factor * scorer.list_strength / scorer.total
        listed = [(matches, scale * probability) for matches, probability in scorer.match_lists(pattern)]
        counted = self.counted_scores(pattern, before, after, scale)
        total = sum(weight * matches.total for matches, weight in listed) + sum(counted.values())
        return Segment(pattern, max(total, 0.0) + unseen, unseen, listed, counted)

    def counted_scores(self, pattern: bytes, before: tuple[int, int], after: int, scale: float) -> dict[bytes, float]:
        """Return word -> score(v), less its score by the word lists, of the counted words that match a pattern.

        Args:
            pattern: the damaged word.
            before: ids of the two tokens before it.
            after: id of the token after it.
            scale: score(v) / f(v) of words that were counted neither in the document nor in the references.
        """
        scorer, scores = self.scorer, dict[bytes, float]()
        is_lone = pattern.count(bytes([HIDDEN_BYTE])) == 1
        for matches in (dictionary.match(pattern) for dictionary in scorer.dictionaries):
            if matches is None:
                continue
            for word, value in zip(matches.words(), matches.values.tolist(), strict=True):
                token_id = int(value)
                count = scorer.count(token_id)
                if count > 0:
                    frequency = scorer.matched_frequency(word, is_lone=is_lone)
                    unigram = (count + scorer.list_strength * frequency) / scorer.total
                    score = scorer.trigram_prob(*before, token_id, unigram) if before[1] >= 0 else unigram
                    if after >= 0:
                        score *= scorer.trigram_prob(before[1], token_id, after, self.after_prob)
                    scores[word] = score - scale * frequency
        return scores

    def letters(self, segment: "Segment") -> Floats:
        """Compute the part of the score of a segment for each letter of its hidden bytes: (k, V)."""
        pattern, unseen = segment.pattern, segment.unseen
        offsets = [offset for offset, byte in enumerate(pattern) if byte == HIDDEN_BYTE]
        letters = np.zeros((len(offsets), BYTES.size))
        has_unseen = unseen > CONFIG.min_unseen_share * (segment.score - unseen)
        for row, offset in zip(letters, offsets, strict=True):
            for matches, weight in segment.listed:
                row += weight * matches.mass(offset)
            for word, score in segment.counted.items():
                row[word[offset]] += score
            if segment.counted:
                np.maximum(row, 0.0, out=row)  # rounding errors of differences
            row += unseen * self.scorer.spelling(pattern, offset) if has_unseen else unseen / BYTES.size
        return letters


class Segment(NamedTuple):
    """A segment of a damaged word.

    Attributes:
        pattern: its bytes.
        score: its score.
        unseen: the part of the score of unseen words.
        listed: matching words of the word lists, and the weight of their frequencies in the score.
        counted: matching word of the document or the references -> its score, less its score by the word lists.
    """

    pattern: bytes
    score: float
    unseen: float = 0.0
    listed: Sequence[tuple[Matches, float]] = ()
    counted: Mapping[bytes, float] = MappingProxyType({})
