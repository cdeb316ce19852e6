"""Texts like the documents, which the memory recalls and the models of characters learn from."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conservator.documents import Damaged, read_damaged
from conservator.experts import References, load_phrases, make_references
from conservator.experts.char_ngram import REFERENCES, CharacterModel, Mixture, load_characters
from conservator.training import read_texts
from conservator.vocabularies import BYTES

Like = str | Path | Sequence[str | Path | tuple[str, str]]  # files, folders, or texts with a name


def character_prior(texts: Sequence[tuple[str, str]]) -> Mixture:
    """The models of characters that come with the package, and one of texts, if there are any."""
    own = [CharacterModel.of(REFERENCES, (one for _, one in texts))] if texts else []
    return Mixture.of([*load_characters(), *own])


def like_texts(like: Like) -> list[tuple[str, str]]:
    """The texts of files and folders, or texts by name."""
    texts: list[tuple[str, str]] = []
    for one in [like] if isinstance(like, str | Path) else like:
        texts += [one] if isinstance(one, tuple) else read_texts(Path(one))
    return texts


def read_references(like: Like, mark: str) -> References | None:
    """The texts of files and folders, or texts by name, as references for a memory; their marks are lost bytes."""
    return make_references(
        (name, np.where((tokens := read_damaged(text, mark=mark).tokens) == BYTES.mask, -1, tokens))
        for name, text in like_texts(like)
    )


def known_texts(damaged: Damaged, references: References | None) -> list[NDArray[np.int16]]:
    """The texts that the memory recalls: the document, the references and the common phrases."""
    return [damaged.tokens, *([references.index.text] if references else []), load_phrases().text]
