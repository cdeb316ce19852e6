"""The contract of causal experts: log q(x) as an exact sum of local energies log q(token | tokens before it)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from conservator.vocabularies import Tokens

ROOT = 0  # the node of a reading at which every text begins


@dataclass(frozen=True)
class CausalSpec:
    """The properties of a causal expert that callers need.

    Attributes:
        name: its name in tables and reports.
        tokens: what its tokens stand for, and how it cuts a text into them.
        max_length: the longest path that it reads, in tokens; None for any.
        fingerprint: a hash of its weights, or "" for an expert made in memory.
        precision: the number format that it computes in, such as ``bfloat16``; "" if that is not known.
    """

    name: str
    tokens: Tokens
    max_length: int | None = None
    fingerprint: str = ""
    precision: str = ""


class CausalExpert(Protocol):
    """A frozen causal model over tokens. It knows nothing of damage: it reads texts, many at once."""

    @property
    def spec(self) -> CausalSpec:
        """The expert's description."""

    def read(self) -> "Reading":
        """Begin to read: an empty tree, in which ROOT is where texts begin."""


class Reading(Protocol):
    """What a causal expert has read: a tree of tokens, since texts that are compared share their beginnings.

    Nodes have numbers in the order in which they were read; ROOT, the first, stands before every text.
    """

    def extend(self, parents: Sequence[int], tokens: Sequence[int], asked: Sequence[int]) -> Tensor:
        """Read k tokens more, each after its parent node, which may be one of the tokens before it.

        Args:
            parents: k nodes.
            tokens: k tokens; they get the next k numbers as nodes.
            asked: n nodes, old or new.

        Returns:
            (n, V) float32, log q(token | the path to the node) after each node that is asked for, normalised.
        """
