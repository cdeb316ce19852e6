"""Reference texts: undamaged texts for the memory, the character n-gram models and the lexicon."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conservator.decoders.lacunae import Directions
from conservator.documents import DamagedDocument, read_damaged, read_texts
from conservator.experts import References, load_phrases, make_references
from conservator.experts.char_ngram import (
    REFERENCES,
    WORDS,
    CharNgramMixture,
    CharNgramModel,
    load_char_ngram_models,
)
from conservator.experts.word_ngram import WordCounts, count_word_ngrams
from conservator.vocabularies import BYTES

EDGES = ".,;:!?'\"()[]{}<>\u2018\u2019\u201c\u201d\u00ab\u00bb\u2026-\u2013\u2014"  # punctuation around a word
CONTEXTS = "aednrst,."  # characters before the blank before a word, for the character n-gram model of words
STRAIGHT_QUOTES = str.maketrans("\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f", "'" * 4 + '"' * 4)
ReferencePaths = str | Path | Sequence[str | Path | tuple[str, str]]  # files, folders, or (name, text)


@dataclass(frozen=True)
class ReferenceTexts:
    """Reference texts, and what the experts derive from them; both are read or computed on first use.

    Attributes:
        sources: Files, folders, or (name, text).
        mark: Text that stands for a lost byte in them.
        given_index: Index for the memory, if it exists already; the texts are then not indexed.
        words: Words and phrases to prefer.
    """

    sources: tuple[str | Path | tuple[str, str], ...] = ()
    mark: str = "\ufffd"
    given_index: References | None = None
    words: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, references: "ReferencePaths | References | ReferenceTexts | None", mark: str, words: Sequence[str] = ()
    ) -> "ReferenceTexts":
        """Read files and folders; texts and an index are used as they are."""
        words = tuple(words)
        if isinstance(references, ReferenceTexts):
            return references if references.words == words else replace(references, words=words)
        if references is None or isinstance(references, References):
            return cls((), mark, references, words)
        sources = (references,) if isinstance(references, str | Path) else tuple(references)
        texts = tuple(cls(sources).texts)  # reports unreadable files now, not at the first document
        return cls(texts, mark, words=words)

    @cached_property
    def texts(self) -> list[tuple[str, str]]:
        """(name, text) of each reference."""
        texts: list[tuple[str, str]] = []
        for source in self.sources:
            texts += [source] if isinstance(source, tuple) else read_texts(Path(source))
        return texts

    @cached_property
    def index(self) -> References | None:
        """The index for the memory; marks are unknown bytes. None without references."""
        if self.given_index is not None or not self.texts:
            return self.given_index
        return make_references(
            (name, np.where((tokens := read_damaged(text, mark=self.mark).tokens) == BYTES.mask, -1, tokens))
            for name, text in self.texts
        )

    @cached_property
    def char_ngram_prior(self) -> CharNgramMixture:
        """The built-in character n-gram models and, if there are any, models of the references and of the words."""
        models = [CharNgramModel.of(REFERENCES, (text for _, text in self.texts))] if self.texts else []
        if self.words:
            words = [word.translate(STRAIGHT_QUOTES) for word in self.words]
            # The counts of a word in a single context would be below the discount of the model.
            texts = (f"{before} {word} " for word in words for before in CONTEXTS)
            models.append(CharNgramModel.of(WORDS, texts))
        return CharNgramMixture.of([*load_char_ngram_models(), *models]) if models else load_char_ngram_prior()

    @cached_property
    def lacuna_models(self) -> dict[tuple[str, ...], Directions]:
        """Cache of the models for lacunae: languages -> the models of the references and of these languages."""
        return {}

    @cached_property
    def word_index(self) -> References | None:
        """The index of the words for the memory; None without words."""
        text = "\n".join(f" {word} " for word in self.words)  # the line of a word is its number
        return make_references([(WORDS, np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int16))])

    @cached_property
    def word_counts(self) -> WordCounts:
        """The word n-grams of the references."""
        return count_word_ngrams(text.encode() for text in self.lexicon_texts)

    @cached_property
    def tokens(self) -> frozenset[str]:
        """The tokens of the references and of the words, which protected tokens may become."""
        return find_tokens(
            (*(text for _, text in self.texts), *(word.translate(STRAIGHT_QUOTES) for word in self.words))
        )

    @property
    def lexicon_texts(self) -> tuple[str, ...]:
        """The words and the indexed references as texts, for the lexicon."""
        if self.index is None:
            return self.words
        text, starts = self.index.index.text, self.index.begins.tolist()
        parts = (text[start:stop] for start, stop in zip(starts, [*starts[1:], len(text)], strict=True))
        texts = (part[part >= 0].astype(np.uint8).tobytes().decode(errors="replace") for part in parts)
        return (*self.words, *texts)

    def memory_texts(self, damaged: DamagedDocument) -> list[NDArray[np.int16]]:
        """Return the texts that the memory copies from: the document, the references and the common phrases."""
        return [damaged.tokens, *([self.index.index.text] if self.index else []), load_phrases().text]


@cache
def load_char_ngram_prior() -> CharNgramMixture:
    """Return the mixture of the built-in character n-gram models."""
    return CharNgramMixture.of(load_char_ngram_models())


def find_tokens(texts: Iterable[str]) -> frozenset[str]:
    """Return the tokens of texts, without the punctuation around them."""
    return frozenset(token.strip(EDGES) for text in texts for token in text.split())
