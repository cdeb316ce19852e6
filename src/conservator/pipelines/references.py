"""Reference texts: undamaged texts for the memory and the character n-gram models."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conservator.documents import DamagedDocument, read_damaged
from conservator.experts import References, load_phrases, make_references
from conservator.experts.char_ngram import REFERENCES, CharNgramMixture, CharNgramModel, load_char_ngram_models
from conservator.training import read_texts
from conservator.vocabularies import BYTES

ReferencePaths = str | Path | Sequence[str | Path | tuple[str, str]]  # files, folders, or (name, text)


def char_ngram_prior(texts: Sequence[tuple[str, str]]) -> CharNgramMixture:
    """Return the built-in character n-gram models and, if there are reference texts, a model of these.

    Args:
        texts: (name, text) of each reference.
    """
    reference_models = [CharNgramModel.of(REFERENCES, (text for _, text in texts))] if texts else []
    return CharNgramMixture.of([*load_char_ngram_models(), *reference_models])


def read_reference_texts(references: ReferencePaths) -> list[tuple[str, str]]:
    """Return (name, text) of each reference, read from files and folders or given as texts."""
    texts: list[tuple[str, str]] = []
    for reference in [references] if isinstance(references, str | Path) else references:
        texts += [reference] if isinstance(reference, tuple) else read_texts(Path(reference))
    return texts


def read_references(references: ReferencePaths, mark: str) -> References | None:
    """Read and index references for the memory; marks in them are lost bytes."""
    return make_references(
        (name, np.where((tokens := read_damaged(text, mark=mark).tokens) == BYTES.mask, -1, tokens))
        for name, text in read_reference_texts(references)
    )


def memory_texts(damaged: DamagedDocument, reference_index: References | None) -> list[NDArray[np.int16]]:
    """Return the texts that the memory copies from: the document, the references and the common phrases."""
    return [damaged.tokens, *([reference_index.index.text] if reference_index else []), load_phrases().text]
