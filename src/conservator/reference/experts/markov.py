"""A small causal expert with exact probabilities: a Markov chain over tokens."""

from collections.abc import Sequence

import torch
from torch import Tensor

from conservator.experts.causal.expert import ROOT, CausalSpec
from conservator.vocabularies import Tokens


class MarkovExpert:
    """A chain over V tokens, each with its token bytes; a text may have several tokenizations.

        q(t_1 ... t_n) = start[t_1] prod_i transition[t_{i-1}, t_i]

    There is no end token: a text is a prefix of an infinite stream of tokens, and its probability is the probability of
    this prefix.
    """

    def __init__(self, pieces: Sequence[bytes], start: Tensor, transition: Tensor, name: str = "markov") -> None:
        """Make the expert from the token bytes ``pieces`` and the energies ``start`` (V,), ``transition`` (V, V)."""
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
        """Return an empty token tree."""
        return MarkovTokenTree(self)


class MarkovTokenTree:
    """The token tree of a chain: each node has a row of the table of conditionals."""

    def __init__(self, expert: MarkovExpert) -> None:
        """Start at the root, where the conditional is the initial distribution."""
        self._log_probs = expert.log_probs
        self._rows = {ROOT: 0}

    def extend(self, parents: Sequence[int], tokens: Sequence[int], nodes: Sequence[int]) -> Tensor:
        """Append k tokens; the conditional after a node depends on its token alone."""
        for parent, token in zip(parents, tokens, strict=True):
            assert parent in self._rows, f"node {parent} was never read"
            self._rows[len(self._rows)] = 1 + token
        return self._log_probs[[self._rows[node] for node in nodes]]
