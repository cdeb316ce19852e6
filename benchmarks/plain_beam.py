"""Baseline without composition: beam search with one causal language model, constrained by the visible bytes."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from conservator.experts.causal import ROOT, CausalExpert, TokenTree
from conservator.vocabularies import BYTES

BEAM_WIDTH = 8  # hypotheses per position
PRUNE_NATS = 10.0  # nats: a hypothesis this much below the best one is pruned
BATCH_TOKENS = 24  # tokens: target size of a batch; a single token takes almost as long


@dataclass(eq=False)
class Hypothesis:
    """A prefix of the text.

    Attributes:
        score: its log-probability.
        data: its bytes.
        parent: node of the prefix without its last token.
        token: its last token.
        node: its own node; -1 before the model has evaluated it.
        log_probs: (V,) log-probabilities of the next token; None before the model has evaluated it.
    """

    score: float
    data: bytes
    parent: int
    token: int
    node: int = -1
    log_probs: np.ndarray | None = None


class BeamSearch:
    """Beam search over token sequences whose bytes agree with every visible byte; any segmentation is allowed.

    Hypotheses that end at the same byte compete, and the shortest hypotheses are extended first. A hypothesis far below
    a longer one is also pruned, because extensions only lower its score.
    """

    def __init__(self, expert: CausalExpert, pattern: Sequence[int]) -> None:
        """Start with the empty hypothesis; ``pattern`` has the bytes of the text, and the mask where they are lost."""
        self.tokens, self.pattern = expert.spec.tokens, pattern
        self.tree: TokenTree = expert.read()
        self.nodes = 1
        log_probs = self.tree.extend([], [], [ROOT]).numpy()[0]
        self.ends = defaultdict(list, {0: [Hypothesis(0.0, b"", ROOT, ROOT, ROOT, log_probs)]})

    def run(self) -> bytes:
        """Return the best text of the search."""
        while (position := min(self.ends)) < len(self.pattern):
            hypotheses = self.prune(position)
            self.evaluate(hypotheses)
            del self.ends[position]
            self.extend(position, hypotheses)
        return self.prune(position)[0].data

    def prune(self, position: int) -> list[Hypothesis]:
        """Return the best hypotheses that end at a position."""
        best = max(hypothesis.score for hypothesis in chain(*self.ends.values()))
        candidates = [hypothesis for hypothesis in self.ends[position] if hypothesis.score >= best - PRUNE_NATS]
        return sorted(candidates, key=lambda hypothesis: -hypothesis.score)[:BEAM_WIDTH]

    def evaluate(self, hypotheses: Sequence[Hypothesis]) -> None:
        """Evaluate the model on hypotheses, and fill the batch with hypotheses of the next positions."""
        batch = [hypothesis for hypothesis in hypotheses if hypothesis.log_probs is None]
        if not batch:
            return
        for position in sorted(self.ends)[1:]:
            if len(batch) < BATCH_TOKENS and position < len(self.pattern):
                batch += [hypothesis for hypothesis in self.prune(position) if hypothesis.log_probs is None]
        nodes = range(self.nodes, self.nodes + len(batch))
        parents, tokens = [hypothesis.parent for hypothesis in batch], [hypothesis.token for hypothesis in batch]
        conditionals = self.tree.extend(parents, tokens, nodes).numpy()
        for hypothesis, node, log_probs in zip(batch, nodes, conditionals, strict=True):
            hypothesis.node, hypothesis.log_probs = node, log_probs
        self.nodes += len(batch)

    def extend(self, position: int, hypotheses: Sequence[Hypothesis]) -> None:
        """Append every token that matches the visible bytes; at most BEAM_WIDTH tokens of each length."""
        rows = self.tokens.matching_rows(self.pattern[position : position + self.tokens.max_length])
        lengths, token_ids = self.tokens.lengths[rows], self.tokens.token_ids[rows]
        for hypothesis in hypotheses:
            assert hypothesis.log_probs is not None
            scores = hypothesis.score + hypothesis.log_probs[token_ids]
            for length in np.unique(lengths).tolist():
                candidates = np.flatnonzero(lengths == length)
                for index in candidates[np.argsort(-scores[candidates], kind="stable")[:BEAM_WIDTH]].tolist():
                    token = int(token_ids[index])
                    data = hypothesis.data + self.tokens.token_bytes[token]
                    extended = Hypothesis(float(scores[index]), data, hypothesis.node, token)
                    self.ends[position + length].append(extended)


def as_pattern(data: bytes, lost: np.ndarray) -> list[int]:
    """Return the bytes of a text, with the mask where they are lost."""
    pattern: list[int] = np.where(lost, BYTES.mask, np.frombuffer(data, dtype=np.uint8).astype(np.int64)).tolist()
    return pattern
