"""The memory expert: predicts bytes from matching contexts in the document, in references and in common phrases."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from conservator.arrays import Ints
from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.experts.expert import At, Context, ExpertSpec, GatePrior, check_context, copy_visible
from conservator.experts.memory.config import CONFIG
from conservator.experts.memory.index import (
    UNKNOWN,
    Index,
    Text,
    build_index,
    ngram_context,
    surrounding_context,
)
from conservator.experts.memory.phrases import load_phrases
from conservator.experts.memory.references import MemorySource, References, lines_before
from conservator.experts.memory.retrieval import best_positions, count_votes
from conservator.vocabularies import BYTES

SHAPES = [surrounding_context(3), surrounding_context(1), ngram_context(4), ngram_context(2), [-2, 1], [-1, 2]]
# weight: prior means of the gate [LOG: memory-expert]
GATE_PRIOR = GatePrior(others_uncertain=(0.20, 0.05), others_confident=(0.05, 0.06))
SPEC = ExpertSpec("memory", BYTES, gate_prior=GATE_PRIOR)


@dataclass(frozen=True)
class Memory:
    """Retrieval expert for any document. ``condition`` creates the expert for a document.

    Attributes:
        references: further texts to retrieve from, or None.
        phrases: whether to retrieve from the shipped phrases too.
        words: words of the user, or None.
    """

    references: References | None = None
    phrases: bool = True
    spec: ExpertSpec = SPEC
    words: References | None = None

    def condition(self, document: Observation) -> "MemoryExpert":
        """Index the visible bytes of a document (1, L)."""
        if document.tokens.ndim != 2 or len(document.tokens) != 1 or document.excerpt is not None:
            raise ConservatorError(
                f"the memory needs one complete document of shape (1, L), got {tuple(document.tokens.shape)}"
            )
        text = document.readable[0].masked_fill(document.hidden[0], UNKNOWN).numpy().astype(np.int16)
        phrases = load_phrases() if self.phrases else None
        return MemoryExpert(build_index(text, SHAPES), self.references, phrases, words=self.words)


@dataclass(frozen=True)
class MemoryExpert:
    """The memory expert of one document.

    With n(v) the votes of ``retrieve`` for byte v, n their sum, u = ``uniform_votes`` and e = ``uniform_mix``,

        p(v) = (1 - e) (n(v) + u / V) / (n + u) + e / V

    Positions that the context hides are excluded from matching and from voting.

    Attributes:
        index: index of the document.
        references: further texts, or None.
        phrases: index of the common phrases, or None.
        words: words of the user, or None.
    """

    index: Index
    references: References | None = None
    phrases: Index | None = None
    spec: ExpertSpec = field(default=SPEC)
    words: References | None = None

    @property
    def other_texts(self) -> Iterator[tuple[Index, References | None, float]]:
        """Yield the texts besides the document: index, the names of the texts if there are any, weight of a vote."""
        if self.references is not None:
            yield self.references.index, self.references, CONFIG.reference_weight
        if self.phrases is not None:
            yield self.phrases, None, CONFIG.reference_weight
        if self.words is not None:
            yield self.words.index, self.words, CONFIG.word_weight

    def predict(self, context: Context, at: At) -> Tensor:
        """Compute log p(v) at the positions ``at``: (n, V)."""
        check_context(self.spec, context)
        windows, starts = self._windows(context)
        window_of, targets = at[0].numpy(), at[1].numpy()
        votes = np.zeros((len(targets), BYTES.size))
        count_votes(self.index, windows, starts, window_of, targets, 1.0, votes)
        for index, _, weight in self.other_texts:
            count_votes(index, windows, np.full_like(starts, -1), window_of, targets, weight, votes)
        uniform_votes, uniform_mix = CONFIG.uniform_votes, CONFIG.uniform_mix
        probs = (votes + uniform_votes / BYTES.size) / (votes.sum(axis=1, keepdims=True) + uniform_votes)
        probs = (1 - uniform_mix) * probs + uniform_mix / BYTES.size
        return copy_visible(torch.from_numpy(np.log(probs)).float(), context, at)

    def sources(self, tokens: Ints, positions: Ints) -> list[MemorySource | None]:
        """Find the best source of the bytes at ``positions`` of the restored document ``tokens`` (L,).

        None stands for a byte without a match, or with its best match in a common phrase.
        """
        windows, start = tokens[None].astype(np.int16), np.zeros(1, np.int64)
        window_of = np.zeros(len(positions), np.int64)
        best, votes = best_positions(self.index, windows, start, window_of, positions, tokens[positions])
        lines = 1 + lines_before(self.index.text, best)
        sources = [
            MemorySource(None, line) if position >= 0 else None
            for position, line in zip(best.tolist(), lines.tolist(), strict=True)
        ]
        for index, texts, weight in self.other_texts:
            best, other_votes = best_positions(index, windows, start - 1, window_of, positions, tokens[positions])
            better = np.flatnonzero(weight * other_votes > votes)
            votes[better] = weight * other_votes[better]
            better_sources = texts.sources(best[better]) if texts else [None] * len(better)
            for number, source in zip(better.tolist(), better_sources, strict=True):
                sources[number] = source
        return sources

    def _windows(self, context: Context) -> tuple[Text, Ints]:
        """Return the windows (B, L) of a context and their positions (B,) in the document, 0 if not given."""
        windows = context.tokens.masked_fill(context.hidden, UNKNOWN).numpy().astype(np.int16)
        starts = torch.zeros(len(windows), dtype=torch.long) if context.start is None else context.start
        return windows, starts.numpy()
