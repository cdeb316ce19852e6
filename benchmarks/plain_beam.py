"""The alternative to composing: a language model alone writes a damaged text again, from left to right, with a beam."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from conservator.experts.causal import ROOT, CausalExpert, Reading
from conservator.vocabularies import BYTES

WIDTH = 8  # hypotheses that are kept at a place
FAR = 10.0  # nats behind the best from which a hypothesis is dropped
BATCH = 24  # tokens that are read at once, if there are so many: one alone takes almost as long


@dataclass(eq=False)
class Hypothesis:
    """The first bytes of the text; its last token stands after the node ``parent`` and is ``node``, once it is read."""

    score: float
    data: bytes
    parent: int
    token: int
    node: int = -1
    law: np.ndarray | None = None


class Beam:
    """A language model writes a text again. Every visible byte must agree; any cut into tokens is allowed.

    Hypotheses that end at the same byte compete. Those that end first go on first. One that is far behind a longer one
    is dropped, too: it can only lose.
    """

    def __init__(self, expert: CausalExpert, pattern: Sequence[int]) -> None:
        """Take the model, and the bytes of the text with the mask where they are lost."""
        self.tokens, self.pattern = expert.spec.tokens, pattern
        self.reading: Reading = expert.read()
        self.nodes = 1
        law = self.reading.grow([], [], [ROOT]).numpy()[0]
        self.ends = defaultdict(list, {0: [Hypothesis(0.0, b"", ROOT, ROOT, ROOT, law)]})

    def write(self) -> bytes:
        """The likeliest text that is found."""
        while (place := min(self.ends)) < len(self.pattern):
            due = self.likely(place)
            self.read(due)
            del self.ends[place]
            self.extend(place, due)
        return self.likely(place)[0].data

    def likely(self, place: int) -> list[Hypothesis]:
        """The best hypotheses that end at a place."""
        best = max(one.score for one in chain(*self.ends.values()))
        kept = [one for one in self.ends[place] if one.score >= best - FAR]
        return sorted(kept, key=lambda one: -one.score)[:WIDTH]

    def read(self, due: Sequence[Hypothesis]) -> None:
        """Read what is due, and with it what will probably be due soon."""
        batch = [one for one in due if one.law is None]
        if not batch:
            return
        for place in sorted(self.ends)[1:]:
            if len(batch) < BATCH and place < len(self.pattern):
                batch += [one for one in self.likely(place) if one.law is None]
        nodes = range(self.nodes, self.nodes + len(batch))
        laws = self.reading.grow([one.parent for one in batch], [one.token for one in batch], nodes).numpy()
        for one, node, law in zip(batch, nodes, laws, strict=True):
            one.node, one.law = node, law
        self.nodes += len(batch)

    def extend(self, place: int, due: Sequence[Hypothesis]) -> None:
        """Append every token that fits; of each length, only so many can be kept."""
        rows = self.tokens.matching_rows(self.pattern[place : place + self.tokens.max_length])
        lengths, numbers = self.tokens.lengths[rows], self.tokens.token_ids[rows]
        for one in due:
            assert one.law is not None
            scores = one.score + one.law[numbers]
            for length in np.unique(lengths).tolist():
                here = np.flatnonzero(lengths == length)
                for choice in here[np.argsort(-scores[here], kind="stable")[:WIDTH]].tolist():
                    token = int(numbers[choice])
                    data = one.data + self.tokens.token_bytes[token]
                    self.ends[place + length].append(Hypothesis(float(scores[choice]), data, one.node, token))


def as_pattern(data: bytes, lost: np.ndarray) -> list[int]:
    """The bytes of a text, with the mask where they are lost."""
    pattern: list[int] = np.where(lost, BYTES.mask, np.frombuffer(data, dtype=np.uint8).astype(np.int64)).tolist()
    return pattern
