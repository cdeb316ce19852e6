"""Windows that mix domains by construction (appendix "Data"): adjacent segments without separators, with labels."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from conservator.errors import ConservatorError


@dataclass(frozen=True)
class Mixtures:
    """N windows of L tokens (bytes in most studies), each with two or three segments.

    Attributes:
        tokens: (N, L) clean tokens.
        labels: (N, L) domain of each position, as an index into ``names``.
        documents: (N, L) document of each position, numbered over all domains.
        names: names of the domains.
    """

    tokens: Tensor
    labels: Tensor
    documents: Tensor
    names: tuple[str, ...]

    @property
    def unambiguous_labels(self) -> Tensor:
        """Labels (N, L) for region metrics; -1 where a token belongs to two regions."""
        return self.labels

    def first(self, count: int) -> Self:
        """Keep the first ``count`` windows."""
        return self.between(0, count)

    def between(self, start: int, stop: int) -> Self:
        """Keep the windows from ``start`` up to ``stop``."""
        tables: dict[str, Any] = {key: table[start:stop] for key, table in vars(self).items() if key != "names"}
        return replace(self, **tables)


def mix(
    domains: Mapping[str, Sequence[Sequence[int]]],
    count: int,
    *,
    length: int = 256,
    min_segment: int = 64,
    seed: int = 0,
) -> Mixtures:
    """Build windows with at least two domains each from the documents of ``domains``.

    The number of segments (two, or three if they fit), their order and their lengths are drawn at random; then, for
    each segment, a document of its domain and a start position.

    Args:
        domains: domain -> documents.
        count: number of windows.
        length: tokens per window.
        min_segment: minimum number of tokens per segment.
        seed: random seed.
    """
    names = tuple(domains)
    if len(names) < 2 or length < 2 * min_segment or min_segment < 1:
        raise ConservatorError(
            f"a window needs at least two domains and two segments of at least one token, got the domains "
            f"{', '.join(names) or 'none'}, windows of {length} tokens and segments of at least {min_segment}"
        )
    generator = torch.Generator().manual_seed(seed)

    def draw(stop: int) -> int:  # an integer from 0 to stop - 1
        return int(torch.randint(stop, (1,), generator=generator))

    first_number = {}  # domain -> number of its first document
    total = 0
    for name in names:
        first_number[name] = total
        total += len(domains[name])
        if not any(len(document) >= length for document in domains[name]):
            raise ConservatorError(f"no document of the domain {name} has {length} tokens or more")
    tokens, labels, documents = (torch.zeros(count, length, dtype=torch.long) for _ in range(3))
    for row in range(count):
        segments = 2 + draw(min(3, length // min_segment) - 1)
        spare = length - segments * min_segment
        offsets = sorted(draw(spare + 1) for _ in range(segments - 1))
        edges = [0, *(offset + min_segment * (i + 1) for i, offset in enumerate(offsets)), length]
        label = draw(len(names))
        for start, stop in itertools.pairwise(edges):
            texts = domains[names[label]]
            number = draw(len(texts))
            while len(texts[number]) < stop - start:
                number = draw(len(texts))
            text = texts[number]
            first = draw(len(text) - (stop - start) + 1)
            tokens[row, start:stop] = torch.tensor(list(text[first : first + stop - start]))
            labels[row, start:stop] = label
            documents[row, start:stop] = first_number[names[label]] + number
            label = (label + 1 + draw(len(names) - 1)) % len(names)
    return Mixtures(tokens, labels, documents, names)
