"""Documents that mix two kinds of text by nature (appendix "Data"): windows with known regions, and training texts.

The regions of a document are given as sorted disjoint spans of its bytes: what stands inside is one kind of text, what
stands outside is the other.
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

Span = tuple[int, int]  # a half-open range of bytes


@dataclass(frozen=True)
class NaturalWindows(Mixtures):
    """N windows of L tokens of whole documents.

    A label is 0 outside the spans and 1 inside, and every position of a window has the same document.

    Attributes:
        straddling: (N, L) True for a token with bytes of both kinds, which metrics of regions leave out.
    """

    straddling: Tensor

    def between(self, start: int, stop: int) -> "NaturalWindows":
        """The windows from ``start`` up to ``stop`` alone."""
        part = slice(start, stop)
        return NaturalWindows(
            self.tokens[part], self.labels[part], self.documents[part], self.names, self.straddling[part]
        )

    @property
    def unambiguous_labels(self) -> Tensor:
        """(N, L) the labels, -1 for straddling tokens."""
        return self.labels.masked_fill(self.straddling, -1)

    def switch_rate(self) -> float:
        """How often a token is of another kind than the token before it."""
        return float((self.labels[:, 1:] != self.labels[:, :-1]).double().mean())


@dataclass(frozen=True)
class Labelled:
    """A document as L tokens: their ids, their labels 0 and 1, and whether they have bytes of both kinds (each L)."""

    tokens: NDArray[np.int64]
    labels: NDArray[np.int64]
    straddling: NDArray[np.bool_]


def label(document: bytes, spans: Sequence[Span], vocabulary: Vocabulary) -> Labelled:
    """Cut a whole document into tokens; a token is inside if at least half of its bytes are."""
    encoded = vocabulary.encode(document)
    inside = np.zeros(len(document) + 1, dtype=np.int64)
    for start, stop in spans:
        inside[start + 1 : stop + 1] = 1
    before = np.cumsum(inside)  # how many bytes before each place are inside
    starts, stops = encoded.spans.T
    count, size = before[stops] - before[starts], stops - starts
    return Labelled(encoded.tokens, ((2 * count >= size) & (count > 0)).astype(np.int64), (count > 0) & (count < size))


def draw_windows(
    documents: Sequence[bytes],
    spans: Sequence[Sequence[Span]],
    vocabulary: Vocabulary,
    count: int,
    *,
    names: tuple[str, str],
    length: int = 512,
    share: float = 0.25,
    most: int = 8,
    seed: int = 0,
) -> NaturalWindows:
    """Draw windows in which both kinds have at least ``share`` of the tokens; no two overlap.

    A document gives at most ``most``. They are drawn in rounds: one of each document that has one, in random order,
    then a second one, and so on; so the first windows are of as many documents as there can be.

    Args:
        documents: whole texts.
        spans: of each document.
        vocabulary: cuts them into tokens.
        count: how many windows.
        names: of the kinds outside and inside.
        length: tokens of a window.
        share: the least share of either kind.
        most: the largest number of windows of one document.
        seed: of the draws.
    """
    generator = np.random.default_rng(seed)
    labelled = [label(document, inside, vocabulary) for document, inside in zip(documents, spans, strict=True)]
    starts = [_draw_starts(one.labels, length, share, most, generator) for one in labelled]
    chosen: list[Span] = []  # the document and the start of each window
    for turn in range(most):
        left = [number for number, found in enumerate(starts) if len(found) > turn]
        chosen += [(int(number), starts[number][turn]) for number in generator.permutation(left)]
    if len(chosen) < count:
        raise ConservatorError(
            f"{len(documents)} documents have {len(chosen)} of {count} windows of {length} tokens with {share:.0%} of "
            f"{names[0]} and of {names[1]} at least, {most} at most of one document"
        )
    chosen = chosen[:count]

    def stack(arrays: Sequence[NDArray[np.int64] | NDArray[np.bool_]]) -> Tensor:
        rows = [arrays[number][start : start + length] for number, start in chosen]
        return torch.from_numpy(np.stack(rows))

    return NaturalWindows(
        stack([one.tokens for one in labelled]),
        stack([one.labels for one in labelled]),
        torch.tensor([number for number, _ in chosen])[:, None].repeat(1, length),
        names,
        stack([one.straddling for one in labelled]),
    )


def _draw_starts(
    labels: NDArray[np.int64], length: int, share: float, most: int, generator: np.random.Generator
) -> list[int]:
    """Where windows of a document begin: drawn one by one of all that fit and overlap none drawn before."""
    if len(labels) < length:
        return []
    before = np.concatenate([[0], np.cumsum(labels)])
    inside = (before[length:] - before[:-length]) / length
    free = (inside >= share) & (inside <= 1 - share)
    found: list[int] = []
    while len(found) < most and free.any():
        start = int(generator.choice(np.flatnonzero(free)))
        free[max(start - length + 1, 0) : start + length] = False
        found.append(start)
    return found


def streams(documents: Sequence[bytes], spans: Sequence[Sequence[Span]]) -> tuple[list[bytes], list[bytes]]:
    """What stands outside the spans of each document, and what stands inside: a text each, to train an expert on.

    The pieces of a text stand as in the document, in their order, each on a new line; a piece of white space alone is
    left out, and so are the blanks at the end of a piece. A text is empty if the document has nothing of its kind.
    """
    texts = [_split(document, inside) for document, inside in zip(documents, spans, strict=True)]
    return [_join(outside) for outside, _ in texts], [_join(inside) for _, inside in texts]


def _split(document: bytes, spans: Sequence[Span]) -> tuple[list[bytes], list[bytes]]:
    """The pieces of a document outside spans, and those inside."""
    edges = [0, *(place for span in spans for place in span), len(document)]
    pieces = [document[start:stop] for start, stop in pairwise(edges)]
    return pieces[::2], pieces[1::2]


def _join(pieces: Sequence[bytes]) -> bytes:
    """One text of pieces, each on a new line."""
    kept = [piece.rstrip(b" \t") for piece in pieces if piece.strip()]
    return b"".join(piece if piece.endswith(b"\n") else piece + b"\n" for piece in kept)
