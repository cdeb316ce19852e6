"""The causal expert that is exact and tiny: a Markov chain over tokens, for tests and for teaching."""

from collections.abc import Sequence

import torch
from torch import Tensor

from conservator.experts.causal.expert import ROOT, CausalSpec
from conservator.vocabularies import Tokens


class MarkovExpert:
    """A chain over V tokens, each of which stands for some bytes; several cuts can spell one text.

        q(t_1 ... t_n) = start[t_1] prod_i transition[t_{i-1}, t_i]

    There is no last token: a text is the beginning of an endless stream of tokens, and its probability is that the
    stream begins with it.
    """

    def __init__(self, pieces: Sequence[bytes], start: Tensor, transition: Tensor, name: str = "markov") -> None:
        """Make the expert of the bytes of each token and the energies ``start`` (V,), ``transition`` (V, V)."""
        self.spec = CausalSpec(name, Tokens(pieces))
        self.log_probs = torch.log_softmax(torch.cat([start[None], transition]).to(torch.float32), dim=-1)

    @classmethod
    def random(
        cls, pieces: Sequence[bytes], scale: float, generator: torch.Generator, name: str = "markov"
    ) -> "MarkovExpert":
        """Draw all energies from N(0, scale^2)."""
        energies = torch.randn(len(pieces) + 1, len(pieces), generator=generator) * scale
        return cls(pieces, energies[0], energies[1:], name)

    def read(self) -> "MarkovTokenTree":
        """Begin to read."""
        return MarkovTokenTree(self)


class MarkovTokenTree:
    """What a chain has read: of each node, the row of its law."""

    def __init__(self, expert: MarkovExpert) -> None:
        """Begin at the root, after which the law is that of the start."""
        self._log_probs = expert.log_probs
        self._rows = {ROOT: 0}

    def extend(self, parents: Sequence[int], tokens: Sequence[int], asked: Sequence[int]) -> Tensor:
        """Read k tokens more; the law after a node depends on its token alone."""
        for parent, token in zip(parents, tokens, strict=True):
            assert parent in self._rows, f"node {parent} was never read"
            self._rows[len(self._rows)] = 1 + token
        return self._log_probs[[self._rows[node] for node in asked]]
