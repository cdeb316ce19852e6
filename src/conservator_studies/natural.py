"""Documents that naturally mix two kinds of text (appendix "Data"): labelled windows, and training texts.

The regions of a document are sorted disjoint byte spans. Text inside the spans is of one kind, text outside of the
other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.vocabularies import Vocabulary
from conservator_studies.mixtures import Mixtures

Span = tuple[int, int]  # half-open byte range


@dataclass(frozen=True)
class NaturalWindows(Mixtures):
    """N windows of L tokens from natural documents.

    Labels are 0 outside the spans and 1 inside. All positions of a window have the same document.

    Attributes:
        straddling: (N, L) True for a token with bytes of both kinds; region metrics exclude these tokens.
    """

    straddling: Tensor

    @property
    def unambiguous_labels(self) -> Tensor:
        """Labels (N, L); -1 for straddling tokens."""
        return self.labels.masked_fill(self.straddling, -1)

    def switch_rate(self) -> float:
        """Fraction of tokens whose kind differs from the kind of the previous token."""
        return float((self.labels[:, 1:] != self.labels[:, :-1]).double().mean())


@dataclass(frozen=True)
class LabelledDocument:
    """A tokenized document of L tokens.

    Attributes:
        tokens: (L,) token ids.
        labels: (L,) 0 outside the spans, 1 inside.
        straddling: (L,) True for a token with bytes of both kinds.
    """

    tokens: NDArray[np.int64]
    labels: NDArray[np.int64]
    straddling: NDArray[np.bool_]


def label_tokens(document: bytes, spans: Sequence[Span], vocabulary: Vocabulary) -> LabelledDocument:
    """Tokenize a document; a token is inside if at least half of its bytes are inside."""
    encoded = vocabulary.encode(document)
    inside = np.zeros(len(document) + 1, dtype=np.int64)
    for start, stop in spans:
        inside[start + 1 : stop + 1] = 1
    inside_before = np.cumsum(inside)  # number of inside bytes before each position
    starts, stops = encoded.spans.T
    count, size = inside_before[stops] - inside_before[starts], stops - starts
    labels = ((2 * count >= size) & (count > 0)).astype(np.int64)
    return LabelledDocument(encoded.tokens, labels, (count > 0) & (count < size))


def draw_windows(
    documents: Sequence[bytes],
    spans: Sequence[Sequence[Span]],
    vocabulary: Vocabulary,
    count: int,
    *,
    names: tuple[str, str],
    length: int = 512,
    min_fraction: float = 0.25,
    max_per_document: int = 8,
    seed: int = 0,
) -> NaturalWindows:
    """Draw disjoint windows in which each kind has at least ``min_fraction`` of the tokens.

    The first windows cover as many documents as possible: one window of each document in random order, then a second
    window of each document, and so on.

    Args:
        documents: complete texts.
        spans: spans of the second kind in each document.
        vocabulary: tokenizes the documents.
        count: number of windows.
        names: names of the kinds outside and inside the spans.
        length: tokens per window.
        min_fraction: minimum fraction of tokens of each kind.
        max_per_document: maximum number of windows per document.
        seed: random seed.
    """
    generator = np.random.default_rng(seed)
    labelled = [
        label_tokens(document, document_spans, vocabulary)
        for document, document_spans in zip(documents, spans, strict=True)
    ]
    starts = [_draw_starts(text.labels, length, min_fraction, max_per_document, generator) for text in labelled]
    windows: list[tuple[int, int]] = []  # document number and start of each window
    for turn in range(max_per_document):
        remaining = [number for number, document_starts in enumerate(starts) if len(document_starts) > turn]
        windows += [(int(number), starts[number][turn]) for number in generator.permutation(remaining)]
    if len(windows) < count:
        raise ConservatorError(
            f"expected {count} windows of {length} tokens with at least {min_fraction:.0%} {names[0]} and "
            f"{min_fraction:.0%} {names[1]}, at most {max_per_document} per document; found {len(windows)} in "
            f"{len(documents)} documents. Use more documents or fewer windows (--limit)"
        )
    windows = windows[:count]

    def stack(arrays: Sequence[NDArray[np.int64] | NDArray[np.bool_]]) -> Tensor:
        rows = [arrays[number][start : start + length] for number, start in windows]
        return torch.from_numpy(np.stack(rows))

    return NaturalWindows(
        stack([text.tokens for text in labelled]),
        stack([text.labels for text in labelled]),
        torch.tensor([number for number, _ in windows])[:, None].repeat(1, length),
        names,
        stack([text.straddling for text in labelled]),
    )


def _draw_starts(
    labels: NDArray[np.int64], length: int, min_fraction: float, max_count: int, generator: np.random.Generator
) -> list[int]:
    """Draw the starts of disjoint windows of a document one by one."""
    if len(labels) < length:
        return []
    inside_before = np.concatenate([[0], np.cumsum(labels)])
    inside = (inside_before[length:] - inside_before[:-length]) / length
    free = (inside >= min_fraction) & (inside <= 1 - min_fraction)
    starts: list[int] = []
    while len(starts) < max_count and free.any():
        start = int(generator.choice(np.flatnonzero(free)))
        free[max(start - length + 1, 0) : start + length] = False
        starts.append(start)
    return starts


def split_by_kind(documents: Sequence[bytes], spans: Sequence[Sequence[Span]]) -> tuple[list[bytes], list[bytes]]:
    """Split each document into a text of the kind outside its spans and a text of the kind inside.

    The parts of a text keep their order, and each part starts on a new line. Parts of white space and trailing blanks
    of parts are removed. A text is empty if the document has no text of its kind.
    """
    texts = [_split(document, document_spans) for document, document_spans in zip(documents, spans, strict=True)]
    return [_join(outside) for outside, _ in texts], [_join(inside) for _, inside in texts]


def _split(document: bytes, spans: Sequence[Span]) -> tuple[list[bytes], list[bytes]]:
    """Return the parts of a document outside its spans, and the parts inside."""
    edges = [0, *(edge for span in spans for edge in span), len(document)]
    parts = [document[start:stop] for start, stop in pairwise(edges)]
    return parts[::2], parts[1::2]


def _join(parts: Sequence[bytes]) -> bytes:
    """Join parts, each on a new line."""
    lines = [part.rstrip(b" \t") for part in parts if part.strip()]
    return b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)
