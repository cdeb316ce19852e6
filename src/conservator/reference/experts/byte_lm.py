"""Byte-level probabilities of a causal token expert, advanced byte by byte: the oracle of ``byte_conditionals``."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.causal.expert import ROOT, CausalExpert
from conservator.experts.causal.hypotheses import MAX_ROWS, Hypothesis, log_sum, next_byte_log_probs
from conservator.experts.causal.prefixes import Prefixes


class NewToken(NamedTuple):
    """A token that ends with the text; its node has not been evaluated yet."""

    log_prob: float
    node: int
    last: int | None
    token: int


@dataclass(frozen=True, eq=False)
class ByteState:
    """The state of a text after its bytes so far. It is immutable; ``ByteLm.advance`` makes new states.

    Attributes:
        hypotheses: tokenizations of the text with a token in progress; none for a text with probability 0.
        pruned_nats: the fraction 1 - exp(-pruned_nats) of the probability was pruned, assuming that pruned hypotheses
            would predict the later text as well as the others; 0 without pruning.
    """

    hypotheses: tuple[Hypothesis, ...]
    pruned_nats: float

    @cached_property
    def log_prob(self) -> float:
        """Log q(text), summed over the remaining tokenizations: a lower bound, exact without pruning."""
        return log_sum([hypothesis.log_prob for hypothesis in self.hypotheses])

    @cached_property
    def log_probs(self) -> Tensor:
        """(256,) float64, log q(next byte | text), normalised; IMPOSSIBLE if no token continues with the byte.

        The sum over the bytes of a text is ``log_prob + pruned_nats``.
        """
        return torch.from_numpy(next_byte_log_probs(self.hypotheses))


class ByteLm:
    """A byte-level language model from a causal expert; it advances many texts at once and shares their token tree."""

    def __init__(self, expert: CausalExpert, width: int | None = None, min_fraction: float = 0.0) -> None:
        """Take the expert and the limits of the beam.

        The most likely tokenization that ends with the text is always kept, so that any byte that is a token can come
        next. If canonical tokenizations are known, other tokenizations are pruned. For texts with more tokens than the
        context of the expert, use ``byte_conditionals``.

        Args:
            expert: any causal expert.
            width: the largest number of hypotheses; None for all. Without a limit a state is exact if canonical
                tokenizations are unknown, and grows exponentially with the text.
            min_fraction: hypotheses with a smaller fraction of the probability are pruned.
        """
        self.expert = expert
        self.width = width
        self.min_fraction = min_fraction
        self._prefixes = Prefixes(expert.spec.tokens)
        self._tree = expert.read()
        self._size = 1  # nodes of the tree

    def start(self) -> ByteState:
        """Return the state before the first byte."""
        log_probs = self._prefixes.sort(self._tree.extend([], [], [ROOT]))[0]
        return ByteState((Hypothesis(0.0, ROOT, None, self._prefixes.find(b""), log_probs),), 0.0)

    def advance(self, states: Sequence[ByteState], values: Sequence[int]) -> list[ByteState]:
        """Append one byte to each text. New tokens of all texts are evaluated in one batch."""
        steps = [self._step(state, value) for state, value in zip(states, values, strict=True)]
        evaluated = self._evaluate([token for _, new_tokens, _ in steps for token in new_tokens])
        return [
            ByteState((*continued, *(next(evaluated) for _ in new_tokens)), state.pruned_nats + pruned)
            for state, (continued, new_tokens, pruned) in zip(states, steps, strict=True)
        ]

    def _step(self, state: ByteState, byte: int) -> tuple[list[Hypothesis], list[NewToken], float]:
        """Return the hypotheses that continue after a byte, the tokens that end with it, and the pruned nats."""
        hypotheses: list[Hypothesis] = []
        new_tokens: list[NewToken] = []
        for hypothesis in state.hypotheses:
            advanced = hypothesis.advance(byte, self._prefixes)
            if advanced.log_prob > -math.inf:
                hypotheses.append(advanced)
            for row, log_prob in enumerate(advanced.ended.tolist(), start=advanced.prefix.low):
                if log_prob > -math.inf:
                    token = int(self._prefixes.numbers[row])
                    new_tokens.append(NewToken(log_prob, advanced.node, advanced.last, token))
        return self._prune(hypotheses, new_tokens)

    def _prune(
        self, hypotheses: Sequence[Hypothesis], new_tokens: Sequence[NewToken]
    ) -> tuple[list[Hypothesis], list[NewToken], float]:
        """Return the remaining hypotheses and new tokens, and the pruned nats."""
        total = _total(hypotheses, new_tokens)
        if total == -math.inf:
            return [], [], 0.0
        follows = self.expert.spec.tokens.follows
        canonical = [new for new in new_tokens if new.last is None or follows(new.last, new.token)]
        new_tokens = canonical or new_tokens
        min_log_prob = total + math.log(self.min_fraction) if self.min_fraction else -math.inf
        ranks = sorted([item.log_prob for item in hypotheses] + [item.log_prob for item in new_tokens], reverse=True)
        if self.width is not None and len(ranks) > self.width:
            min_log_prob = max(min_log_prob, ranks[self.width - 1])
        best_end = max(new_tokens, key=lambda new: new.log_prob, default=None)
        continued = [hypothesis for hypothesis in hypotheses if hypothesis.log_prob >= min_log_prob]
        ended = [new for new in new_tokens if new.log_prob >= min_log_prob or new is best_end]
        return continued, ended, max(total - _total(continued, ended), 0.0)

    def _evaluate(self, new_tokens: Sequence[NewToken]) -> Iterator[Hypothesis]:
        """Append each new token to the tree, and yield the hypothesis in which the next token starts."""
        root = self._prefixes.find(b"")
        for first in range(0, len(new_tokens), MAX_ROWS):
            batch = new_tokens[first : first + MAX_ROWS]
            nodes = range(self._size, self._size + len(batch))
            table = self._tree.extend([new.node for new in batch], [new.token for new in batch], nodes)
            self._size += len(batch)
            for new, node, log_probs in zip(batch, nodes, self._prefixes.sort(table), strict=True):
                yield Hypothesis(new.log_prob, node, new.token, root, log_probs)


def score_bytes(expert: CausalExpert, text: bytes, width: int | None = None, min_fraction: float = 0.0) -> Tensor:
    """Return the local energies log q(x_l | x_<l) of a text, whose sum is log q(x): (L,) float64.

    The result is exact for small experts; with ``width`` or ``min_fraction``, it is as exact as ``ByteLm``. At least
    one token per byte is evaluated, byte by byte; ``byte_conditionals`` evaluates each token of the text once, in one
    batch.
    """
    model = ByteLm(expert, width, min_fraction)
    state, scores = model.start(), []
    for position, byte in enumerate(text):
        scores.append(float(state.log_probs[byte]))
        (state,) = model.advance([state], [byte])
        if not state.hypotheses:
            name = expert.spec.name
            raise ConservatorError(f"byte {position} ({bytes([byte])!r}) of the text fits no token of {name}")
    return torch.tensor(scores, dtype=torch.float64)


def _total(hypotheses: Sequence[Hypothesis], new_tokens: Sequence[NewToken]) -> float:
    return log_sum([item.log_prob for item in hypotheses] + [item.log_prob for item in new_tokens])
