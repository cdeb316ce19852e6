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
    """A token has ended with the text: the next one begins after a node that is still to be read."""

    log_prob: float
    node: int
    last: int | None
    token: int


@dataclass(frozen=True, eq=False)
class ByteState:
    """What is known of a text that was spelt byte by byte. It never changes; ``ByteLm.advance`` makes new ones.

    Attributes:
        hypotheses: where the token in progress began, and after which tokens. None for a text that is impossible.
        lost: nats. What was dropped had the share 1 - exp(-lost) of the probability, were it to explain what came later
            as well as what was kept; 0 if nothing was dropped.
    """

    hypotheses: tuple[Hypothesis, ...]
    lost: float

    @cached_property
    def log_prob(self) -> float:
        """Log q(text), of the cuts that were kept: never above the truth, and exact if nothing was dropped."""
        return log_sum([hypothesis.log_prob for hypothesis in self.hypotheses])

    @cached_property
    def law(self) -> Tensor:
        """(256,) float64, log q(next byte | text), normalised; IMPOSSIBLE where no token has the byte.

        The sum of the laws of the bytes of a text is ``log_prob + lost``.
        """
        return torch.from_numpy(next_byte_log_probs(self.hypotheses))


class ByteLm:
    """Spells texts by a causal expert, many at once, and keeps what it has read of all of them."""

    def __init__(self, expert: CausalExpert, width: int | None = None, share: float = 0.0) -> None:
        """Take the expert, and how many hypotheses are kept.

        Besides those kept, the likeliest cut that ends with the text always is, so that any byte that is a token can
        come next. Where the expert's canonical cut is known, other cuts are dropped. Texts of more tokens than the
        expert reads are for ``byte_conditionals``.

        Args:
            expert: any.
            width: the largest number of hypotheses; None for all: then a state is exact if no canonical cut is known,
                and grows exponentially with the text.
            share: those with a smaller share of the probability are dropped.
        """
        self.expert = expert
        self.width = width
        self.share = share
        self._prefixes = Prefixes(expert.spec.tokens)
        self._reading = expert.read()
        self._size = 1  # nodes that are read

    def start(self) -> ByteState:
        """The state before the first byte."""
        law = self._prefixes.sort(self._reading.extend([], [], [ROOT]))[0]
        return ByteState((Hypothesis(0.0, ROOT, None, self._prefixes.find(b""), law),), 0.0)

    def advance(self, states: Sequence[ByteState], values: Sequence[int]) -> list[ByteState]:
        """Spell one byte more of each text. What was opened is read in one batch."""
        steps = [self._step(state, value) for state, value in zip(states, values, strict=True)]
        opened = self._read([opening for _, openings, _ in steps for opening in openings])
        return [
            ByteState((*kept, *(next(opened) for _ in openings)), state.lost + lost)
            for state, (kept, openings, lost) in zip(states, steps, strict=True)
        ]

    def _step(self, state: ByteState, byte: int) -> tuple[list[Hypothesis], list[NewToken], float]:
        """What goes on after a byte, what ends with it, and what of that is lost."""
        hypotheses: list[Hypothesis] = []
        openings: list[NewToken] = []
        for hypothesis in state.hypotheses:
            spelt = hypothesis.advance(byte, self._prefixes)
            if spelt.log_prob > -math.inf:
                hypotheses.append(spelt)
            for row, log_prob in enumerate(spelt.ended.tolist(), start=spelt.prefix.low):
                if log_prob > -math.inf:
                    openings.append(NewToken(log_prob, spelt.node, spelt.last, int(self._prefixes.numbers[row])))
        return self._prune(hypotheses, openings)

    def _prune(
        self, hypotheses: Sequence[Hypothesis], openings: Sequence[NewToken]
    ) -> tuple[list[Hypothesis], list[NewToken], float]:
        """What is kept, and how many nats that loses."""
        total = _total(hypotheses, openings)
        if total == -math.inf:
            return [], [], 0.0
        follows = self.expert.spec.tokens.follows
        canonical = [found for found in openings if found.last is None or follows(found.last, found.token)]
        openings = canonical or openings
        least = total + math.log(self.share) if self.share else -math.inf
        ranks = sorted([found.log_prob for found in hypotheses] + [found.log_prob for found in openings], reverse=True)
        if self.width is not None and len(ranks) > self.width:
            least = max(least, ranks[self.width - 1])
        ended = max(openings, key=lambda found: found.log_prob, default=None)
        kept = [found for found in hypotheses if found.log_prob >= least]
        opened = [found for found in openings if found.log_prob >= least or found is ended]
        return kept, opened, max(total - _total(kept, opened), 0.0)

    def _read(self, openings: Sequence[NewToken]) -> Iterator[Hypothesis]:
        """Read the token of each, and begin the next one."""
        root = self._prefixes.find(b"")
        for first in range(0, len(openings), MAX_ROWS):
            part = openings[first : first + MAX_ROWS]
            nodes = range(self._size, self._size + len(part))
            laws = self._reading.extend([opening.node for opening in part], [opening.token for opening in part], nodes)
            self._size += len(part)
            for opening, node, law in zip(part, nodes, self._prefixes.sort(laws), strict=True):
                yield Hypothesis(opening.log_prob, node, opening.token, root, law)


def score_bytes(expert: CausalExpert, text: bytes, width: int | None = None, share: float = 0.0) -> Tensor:
    """The local energies log q(x_l | x_<l) of a text, whose sum is log q(x): (L,) float64.

    Exact for small experts; with ``width`` or ``share``, as exact as ``ByteLm`` says. It reads at least one token
    for each byte, one byte after the other; ``byte_conditionals`` reads each token of the text once, all at a time.
    """
    speller = ByteLm(expert, width, share)
    state, scores = speller.start(), []
    for place, byte in enumerate(text):
        scores.append(float(state.law[byte]))
        (state,) = speller.advance([state], [byte])
        if not state.hypotheses:
            raise ConservatorError(f"byte {place} ({bytes([byte])!r}) of the text fits no token of {expert.spec.name}")
    return torch.tensor(scores, dtype=torch.float64)


def _total(hypotheses: Sequence[Hypothesis], openings: Sequence[NewToken]) -> float:
    return log_sum([found.log_prob for found in hypotheses] + [found.log_prob for found in openings])
