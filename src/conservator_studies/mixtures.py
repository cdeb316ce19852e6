"""Windows that mix domains by construction (appendix "Data"): adjacent segments without separators, known labels."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.errors import ConservatorError


@dataclass(frozen=True)
class Mixtures:
    """N windows of L tokens, which are bytes in most studies, each of two or three segments.

    Attributes:
        tokens: (N, L).
        labels: (N, L) the domain of each position, by its place in ``names``.
        documents: (N, L) the document of each position, numbered over all domains.
        names: the domains.
    """

    tokens: Tensor
    labels: Tensor
    documents: Tensor
    names: tuple[str, ...]

    @property
    def sure_labels(self) -> Tensor:
        """(N, L) the labels for metrics of regions, -1 where a token is of two of them."""
        return self.labels

    def first(self, count: int) -> "Mixtures":
        """The first windows alone."""
        return self.between(0, count)

    def between(self, start: int, stop: int) -> "Mixtures":
        """The windows from ``start`` up to ``stop`` alone."""
        part = slice(start, stop)
        return Mixtures(self.tokens[part], self.labels[part], self.documents[part], self.names)


def mix(
    domains: Mapping[str, Sequence[Sequence[int]]], count: int, *, length: int = 256, least: int = 64, seed: int = 0
) -> Mixtures:
    """Build windows with at least two domains each, and segments of at least ``least`` tokens, from documents of these.

    The number of segments (two, or three where they fit), their order and their lengths are drawn at random, then for
    each a document of its domain and a place in it.
    """
    names = tuple(domains)
    if len(names) < 2 or length < 2 * least or least < 1:
        raise ConservatorError(
            f"a window of {length} tokens of {', '.join(names) or 'nothing'} with at least {least} a segment: it takes "
            "two domains, and room for two segments"
        )
    generator = torch.Generator().manual_seed(seed)

    def draw(stop: int) -> int:
        return int(torch.randint(stop, (1,), generator=generator))

    first = {}  # the number of the first document of each domain
    total = 0
    for name in names:
        first[name] = total
        total += len(domains[name])
        if not any(len(document) >= length for document in domains[name]):
            raise ConservatorError(f"no document of {name} has {length} tokens")
    tokens, labels, documents = (torch.zeros(count, length, dtype=torch.long) for _ in range(3))
    for row in range(count):
        segments = 2 + draw(min(3, length // least) - 1)
        spare = length - segments * least
        cuts = sorted(draw(spare + 1) for _ in range(segments - 1))
        edges = [0, *(cut + least * (place + 1) for place, cut in enumerate(cuts)), length]
        label = draw(len(names))
        for start, stop in itertools.pairwise(edges):
            texts = domains[names[label]]
            number = draw(len(texts))
            while len(texts[number]) < stop - start:
                number = draw(len(texts))
            text = texts[number]
            place = draw(len(text) - (stop - start) + 1)
            tokens[row, start:stop] = torch.tensor(list(text[place : place + stop - start]))
            labels[row, start:stop] = label
            documents[row, start:stop] = first[names[label]] + number
            label = (label + 1 + draw(len(names) - 1)) % len(names)
    return Mixtures(tokens, labels, documents, names)
