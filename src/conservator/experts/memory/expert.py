"""The memory expert: what stands in the document itself, in references or in common phrases, in the same context."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.experts.expert import At, Context, ExpertSpec, check_context, copy_visible
from conservator.experts.memory.index import UNKNOWN, Index, Ints, Text, around, build_index, gram
from conservator.experts.memory.phrases import load_phrases
from conservator.experts.memory.references import MemorySource, References, lines_before
from conservator.experts.memory.retrieval import best_places, count_votes
from conservator.vocabularies import BYTES

SHAPES = [around(3), around(1), gram(4), gram(2), [-2, 1], [-1, 2]]
SILENT = 1024.0  # votes: with none, the law is uniform, and with as many, half of it is
DOUBT = 2.0**-12  # the share of the law that is uniform, however many votes there are
REFERENCE = 0.01  # what a vote of another text counts, where one of the document itself counts 1
SPEC = ExpertSpec("memory", BYTES, is_retrieval=True)


@dataclass(frozen=True)
class Memory:
    """A memory of the document that is restored, and of other texts. It is made for each document, by ``condition``.

    Attributes:
        references: other texts that it recalls, or None.
        phrases: whether it also recalls the phrases that come with the package.
    """

    references: References | None = None
    phrases: bool = True
    spec: ExpertSpec = SPEC

    def condition(self, document: Observation) -> "MemoryExpert":
        """Remember a document (1, L): all that can be read of it."""
        if document.tokens.ndim != 2 or len(document.tokens) != 1 or document.excerpt is not None:
            raise ConservatorError(f"a memory is made of one whole document, not of {tuple(document.tokens.shape)}")
        text = document.readable[0].masked_fill(document.hidden[0], UNKNOWN).numpy().astype(np.int16)
        return MemoryExpert(build_index(text, SHAPES), self.references, load_phrases() if self.phrases else None)


@dataclass(frozen=True)
class MemoryExpert:
    """The expert for one document.

    Its law of a byte is, with the votes n(v) of ``retrieve`` and their sum n,

        p(v) = (n(v) + SILENT / V) / (n + SILENT),    and a share DOUBT of the uniform law

    It sees the document as the context shows it: what the context hides, neither votes nor is compared.

    Attributes:
        index: of the document.
        references: other texts, or None.
        phrases: the index of common phrases, or None.
    """

    index: Index
    references: References | None = None
    phrases: Index | None = None
    spec: ExpertSpec = field(default=SPEC)

    def predict(self, context: Context, at: At) -> Tensor:
        """Log p(v) at the positions ``at``: (n, V)."""
        check_context(self.spec, context)
        rows, starts = self._windows(context)
        row_of, asked = at[0].numpy(), at[1].numpy()
        votes = np.zeros((len(asked), BYTES.size))
        count_votes(self.index, rows, starts, row_of, asked, 1.0, votes)
        for other in (self.references.index if self.references else None, self.phrases):
            if other is not None:
                count_votes(other, rows, np.full_like(starts, -1), row_of, asked, REFERENCE, votes)
        law = (votes + SILENT / BYTES.size) / (votes.sum(axis=1, keepdims=True) + SILENT)
        law = (1 - DOUBT) * law + DOUBT / BYTES.size
        return copy_visible(torch.from_numpy(np.log(law)).float(), context, at)

    def sources(self, tokens: Ints, positions: Ints) -> list[MemorySource | None]:
        """Where the bytes at some positions of the restored document ``tokens`` (L,) are best remembered from.

        None stands for a byte that is remembered from nowhere, or best from a common phrase.
        """
        rows, here, row_of = tokens[None].astype(np.int16), np.zeros(1, np.int64), np.zeros(len(positions), np.int64)
        places, votes = best_places(self.index, rows, here, row_of, positions, tokens[positions])
        lines = 1 + lines_before(self.index.text, places)
        found = [
            MemorySource(None, line) if place >= 0 else None
            for place, line in zip(places.tolist(), lines.tolist(), strict=True)
        ]
        references = self.references
        for index, texts in ((references.index if references else None, references), (self.phrases, None)):
            if index is None:
                continue
            places, others = best_places(index, rows, here - 1, row_of, positions, tokens[positions])
            better = np.flatnonzero(REFERENCE * others > votes)
            votes[better] = REFERENCE * others[better]
            named = texts.sources(places[better]) if texts else [None] * len(better)
            for number, one in zip(better.tolist(), named, strict=True):
                found[number] = one
        return found

    def _windows(self, context: Context) -> tuple[Text, Ints]:
        """The windows that a context shows, and where they stand in the document: unknown places count as its start."""
        rows = context.tokens.masked_fill(context.hidden, UNKNOWN).numpy().astype(np.int16)
        starts = torch.zeros(len(rows), dtype=torch.long) if context.start is None else context.start
        return rows, starts.numpy()
