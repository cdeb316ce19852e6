"""Reference texts: undamaged texts for the memory, the character n-gram models and the lexicon."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conservator.documents import DamagedDocument, read_damaged, read_texts
from conservator.experts import References, load_phrases, make_references
from conservator.experts.char_ngram import REFERENCES, CharNgramMixture, CharNgramModel, load_char_ngram_models
from conservator.vocabularies import BYTES

EDGES = ".,;:!?'\"()[]{}<>\u2018\u2019\u201c\u201d\u00ab\u00bb\u2026-\u2013\u2014"  # punctuation around a word
ReferencePaths = str | Path | Sequence[str | Path | tuple[str, str]]  # files, folders, or (name, text)


@dataclass(frozen=True)
class ReferenceTexts:
    """Reference texts, and what the experts derive from them; both are read or computed on first use.

    Attributes:
        sources: Files, folders, or (name, text).
        mark: Text that stands for a lost byte in them.
        given_index: Index for the memory, if it exists already; the texts are then not indexed.
    """

    sources: tuple[str | Path | tuple[str, str], ...] = ()
    mark: str = "\ufffd"
    given_index: References | None = None

    @classmethod
    def of(cls, references: "ReferencePaths | References | ReferenceTexts | None", mark: str) -> "ReferenceTexts":
        """Read files and folders; texts and an index are used as they are."""
        if isinstance(references, ReferenceTexts):
            return references
        if references is None or isinstance(references, References):
            return cls((), mark, references)
        sources = (references,) if isinstance(references, str | Path) else tuple(references)
        return cls(tuple(cls(sources).texts), mark)  # reports unreadable files now, not at the first document

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
        """The built-in character n-gram models and, if there are references, a model of these."""
        if not self.texts:
            return load_char_ngram_prior()
        return CharNgramMixture.of(
            [*load_char_ngram_models(), CharNgramModel.of(REFERENCES, (text for _, text in self.texts))]
        )

    @cached_property
    def tokens(self) -> frozenset[str]:
        """The tokens of the references, which protected tokens may become."""
        return find_tokens(text for _, text in self.texts)

    @property
    def indexed_texts(self) -> tuple[str, ...]:
        """The indexed references as texts, for the lexicon."""
        if self.index is None:
            return ()
        text, starts = self.index.index.text, self.index.begins.tolist()
        parts = (text[start:stop] for start, stop in zip(starts, [*starts[1:], len(text)], strict=True))
        return tuple(part[part >= 0].astype(np.uint8).tobytes().decode(errors="replace") for part in parts)

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
