"""Texts like the documents, which the memory recalls and the models of characters learn from."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conservator.documents import DamagedDocument, read_damaged
from conservator.experts import References, load_phrases, make_references
from conservator.experts.char_ngram import REFERENCES, CharNgramMixture, CharNgramModel, load_char_ngram_models
from conservator.training import read_texts
from conservator.vocabularies import BYTES

ReferencePaths = str | Path | Sequence[str | Path | tuple[str, str]]  # files, folders, or texts with a name


def char_ngram_prior(texts: Sequence[tuple[str, str]]) -> CharNgramMixture:
    """The models of characters that come with the package, and one of texts, if there are any."""
    own = [CharNgramModel.of(REFERENCES, (one for _, one in texts))] if texts else []
    return CharNgramMixture.of([*load_char_ngram_models(), *own])


def read_reference_texts(references: ReferencePaths) -> list[tuple[str, str]]:
    """The texts of files and folders, or texts by name."""
    texts: list[tuple[str, str]] = []
    for one in [references] if isinstance(references, str | Path) else references:
        texts += [one] if isinstance(one, tuple) else read_texts(Path(one))
    return texts


def read_references(references: ReferencePaths, mark: str) -> References | None:
    """The texts of files and folders, or texts by name, as references for a memory; their marks are lost bytes."""
    return make_references(
        (name, np.where((tokens := read_damaged(text, mark=mark).tokens) == BYTES.mask, -1, tokens))
        for name, text in read_reference_texts(references)
    )


def known_texts(damaged: DamagedDocument, reference_index: References | None) -> list[NDArray[np.int16]]:
    """The texts that the memory recalls: the document, the references and the common phrases."""
    return [damaged.tokens, *([reference_index.index.text] if reference_index else []), load_phrases().text]
