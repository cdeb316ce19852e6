"""The contract of causal experts: log q(x) as an exact sum of local scores log q(token | tokens before it)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from conservator.vocabularies import Tokens

ROOT = 0  # node: the root of a token tree, before the first token of every text [definition]


@dataclass(frozen=True)
class CausalSpec:
    """The properties of a causal expert that callers need.

    Attributes:
        name: name in tables and reports.
        tokens: its vocabulary and tokenizer.
        max_length: maximum path length in tokens; None for no limit.
        fingerprint: hash of its weights; "" for an expert that was not loaded from files.
        precision: the number format that it computes in, such as ``bfloat16``; "" if unknown.
    """

    name: str
    tokens: Tokens
    max_length: int | None = None
    fingerprint: str = ""
    precision: str = ""


class CausalExpert(Protocol):
    """A frozen causal model over tokens. It evaluates many undamaged texts at once."""

    @property
    def spec(self) -> CausalSpec:
        """The expert's description."""

    def read(self) -> "TokenTree":
        """Return an empty token tree."""


class TokenTree(Protocol):
    """The prefix tree of the tokens that a causal expert has read; texts with a common prefix share its nodes.

    Nodes are numbered in the order in which they were added. Node 0 is ROOT, the empty prefix.
    """

    def extend(self, parents: Sequence[int], tokens: Sequence[int], nodes: Sequence[int]) -> Tensor:
        """Add k tokens to the tree, and return conditionals of the next token.

        Args:
            parents: k nodes, the parent of each token; a parent may be one of the tokens before it.
            tokens: k tokens; they get the next k node numbers.
            nodes: n nodes, old or new.

        Returns:
            (n, V) float32, log q(token | path to the node) of each of ``nodes``, normalised.
        """
