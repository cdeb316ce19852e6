"""The word expert: which words fit what is seen of a damaged word, and which of them its neighbours call for.

A model of three words in a row, counted in texts like the document and in the document itself. With n the counts, where
those of the document count OWN times, and the words a, b before and c after the damaged one, the score of a word v is

    s(v) = p(v | a b) p(c | b v),   p(v | a b) = (n(a b v) + FAR p(v | b)) / (n(a b) + FAR)
    p(v | b) = (n(b v) + NEAR p(v)) / (n(b) + NEAR),   p(v) = n(v) / n

A word that was never seen counts as if it had been seen NEW times, and is spelt as words are. The law of a byte is that
of the scores of the words that fit, and of separators between two words, raised to the power SHARPNESS: neighbours on
both sides say the same twice.
"""

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.experts.expert import At, Context, ExpertSpec, check_context, copy_visible
from conservator.experts.word_ngram.counts import (
    GONE,
    UNSEEN,
    Bytes,
    Dictionary,
    Floats,
    Ints,
    Tables,
    Tokens,
    Usage,
    count_usage,
    cut,
    pair,
)
from conservator.vocabularies import BYTES

OWN = 10.0
FAR, NEAR = 300.0, 1500.0
NEW = 1.0
FIRM = 3.0  # letters that must have been seen in a context, so that it counts as much as the next smaller one
SHARPNESS = 0.7
DOUBT = 2.0**-10  # the share of the law that is uniform
SPEC = ExpertSpec("words", BYTES, max_length=1024)


@dataclass(frozen=True)
class WordModel:
    """Words of texts like the documents; for each document, ``condition`` makes the expert that knows its words too.

    Attributes:
        usage: what is known of the words of the texts.
    """

    usage: Usage
    spec: ExpertSpec = SPEC

    @classmethod
    def of(cls, texts: Sequence[str]) -> "WordModel":
        """The words of texts."""
        return cls(count_usage(text.encode() for text in texts))

    def condition(self, document: Observation) -> "WordReader":
        """The expert for a document (1, L)."""
        if document.tokens.ndim != 2 or len(document.tokens) != 1 or document.excerpt is not None:
            raise ConservatorError(f"words are counted in one whole document, not in {tuple(document.tokens.shape)}")
        text = document.readable[0].masked_fill(document.hidden[0], GONE).numpy().astype(np.uint8)
        new: dict[bytes, int] = {}
        tokens = cut(text.tobytes(), self.usage.numbers, new)
        return WordReader(self.usage, len(text), tokens, tokens.tables(), new, Dictionary.of(new))


@dataclass(frozen=True)
class WordReader:
    """The expert for one document. It counts nothing that a context hides.

    Attributes:
        usage: what is known of the words of other texts.
        length: of the document.
        tokens: of the document.
        own: their counts.
        new: the words that are in the document alone, with their numbers.
        words: these by their length.
    """

    usage: Usage
    length: int
    tokens: Tokens
    own: Tables
    new: dict[bytes, int]
    words: Dictionary
    spec: ExpertSpec = field(default=SPEC)

    def predict(self, context: Context, at: At) -> Tensor:
        """Log p(v) at the positions ``at``: (n, V)."""
        check_context(self.spec, context)
        hidden = (context.hidden | ~context.real).numpy()
        starts = torch.zeros(len(hidden), dtype=torch.long) if context.start is None else context.start
        laws = np.empty((len(at[0]), BYTES.size))
        asked_in, places = at[0].numpy(), at[1].numpy()
        for row in np.unique(asked_in).tolist():
            data = np.where(hidden[row], GONE, context.tokens[row].numpy()).astype(np.uint8)
            page = Page(self, data, self.hides(hidden[row], int(starts[row])))
            for number in np.flatnonzero(asked_in == row).tolist():
                laws[number] = page.law(int(places[number]))
        laws = (1 - DOUBT) * laws + DOUBT / BYTES.size
        return copy_visible(torch.from_numpy(np.log(laws)).float(), context, at)

    def hides(self, hidden: NDArray[np.bool_], start: int) -> Tables:
        """The counts of the document that a window, which begins at ``start`` and hides some bytes (l,), takes back."""
        flags = np.zeros(self.length, dtype=bool)
        stop = min(self.length, start + len(hidden))
        flags[start:stop] = hidden[: stop - start]
        return self.tokens.tables(np.concatenate([[0], np.cumsum(flags)]))


class Page:
    """A window as words, some of which are damaged."""

    def __init__(self, reader: WordReader, data: Bytes, hidden: Tables) -> None:
        """Cut the window ``data`` (l,) into words; what is ``hidden`` does not count."""
        self.reader, self.usage, self.data, self.hidden = reader, reader.usage, data, hidden
        self.known = ChainMap(reader.new, reader.usage.numbers)
        self.numbers, self.begins, self.ends = cut(data.tobytes(), self.known)
        own = float(reader.own.singles.times.sum() - hidden.singles.times.sum())
        self.size = max(1.0, self.usage.size + OWN * own)

    def law(self, place: int) -> Floats:
        """(V,) the law of the byte at a place."""
        here = int(np.searchsorted(self.begins, place, side="right")) - 1
        begin, end = int(self.begins[here]), int(self.ends[here])
        pattern, place = self.data[begin:end], place - begin
        before, after = [self.number(here - 2), self.number(here - 1)], self.number(here + 1)
        law = self.unseen(before, after) * self.usage.spelling.law(pattern, place, FIRM)
        for dictionary in (self.usage.words, self.reader.words):
            letters, numbers = dictionary.like(pattern)
            law += np.bincount(letters[:, place], self.scores(before, numbers, after), BYTES.size)
        if np.count_nonzero(pattern == GONE) == 1:
            law += self.separators(pattern, place, before, after)
        law = law**SHARPNESS
        law /= law.sum()
        return law

    def number(self, token: int) -> int:
        """The number of a token of the window; -1 if it is unknown, or beyond the window."""
        return int(self.numbers[token]) if 0 <= token < len(self.numbers) else -1

    def seen(self, order: int, keys: Ints) -> Floats:
        """How often keys of so many tokens were seen: in the document too, but for what is hidden."""
        own = self.reader.own[order](keys) - self.hidden[order](keys)
        return self.usage.tables[order](keys) + OWN * own

    def single(self, numbers: Ints) -> Floats:
        """p(v)."""
        return self.seen(0, numbers) / self.size

    def scores(self, before: Sequence[int], numbers: Ints, after: int) -> Floats:
        """(n,) s(v) of words; 0 for one that was not seen."""
        singles = self.seen(0, numbers)
        first, second = (np.full(len(numbers), one) for one in before)
        score = self.follows(first, second, numbers, singles / self.size)
        if after >= 0:
            last = np.full(len(numbers), after)
            score = score * self.follows(second, numbers, last, np.maximum(self.single(last), NEW / self.size))
        return np.where(singles > 0, score, 0.0)

    def follows(self, first: Ints, second: Ints, third: Ints, single: Floats) -> Floats:
        """(n,) p(third | first second), from p(third); a number of -1 is not known."""
        near = np.where(second >= 0, self.seen(1, pair(second, third)), 0.0)
        law = (near + NEAR * single) / (np.where(second >= 0, self.seen(0, second), 0.0) + NEAR)
        both = (first >= 0) & (second >= 0)
        far = np.where(both, self.seen(2, pair(pair(first, second), third)), 0.0)
        return (far + FAR * law) / (np.where(both, self.seen(1, pair(first, second)), 0.0) + FAR)

    def unseen(self, before: Sequence[int], after: int) -> float:
        """The score of all words together that fit and were never seen."""
        first, second, none = np.array([before[0]]), np.array([before[1]]), np.array([UNSEEN])
        score = float(self.follows(first, second, none, np.array([NEW / self.size]))[0])
        if after >= 0:
            score *= float(np.maximum(self.single(np.array([after])), NEW / self.size)[0])
        return score

    def separators(self, pattern: Bytes, place: int, before: Sequence[int], after: int) -> Floats:
        """(V,) the scores of bytes that part a pattern into two words."""
        parts = [pattern[:place].tobytes(), pattern[place + 1 :].tobytes()]
        counts = self.usage.separators[int(bool(parts[0])), int(bool(parts[1]))]
        score = self.unseen(before, after) / (NEW / self.size)
        for one in parts:
            if one:
                number = self.known.get(one, -1)
                times = float(self.seen(0, np.array([number]))[0]) if number >= 0 else 0.0
                score *= (times + NEW) / self.size
        scores: Floats = score * counts / max(1, self.usage.size)
        return scores
