"""The expert contract: what the composition requires of a frozen model (section "Expert requirements")."""

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.experts.source import MaskSource, Source
from conservator.vocabularies import Vocabulary

PAD = -1  # the token that fills up a row that is shorter than the others of its batch
IMPOSSIBLE = -1e4  # exp(-1e4) is 0 in every float type, and 0 * IMPOSSIBLE is 0 where 0 * -inf is nan
At = tuple[Tensor, ...]  # n positions of a batch: their rows (n,), and their places in the rows (n,)


@dataclass(frozen=True)
class ExpertSpec:
    """The properties of an expert that callers need. An expert states them; they are never guessed from its name.

    Attributes:
        name: its name in tables and reports.
        vocabulary: the tokens that it predicts; only experts that share a vocabulary can be composed.
        max_length: the longest sequence it reads, or None for any.
        source: the noise from which its path to the data starts.
        takes_time: whether its predictions depend on kappa in addition to the context.
        fingerprint: a hash of its weights, or "" for an expert made in memory.
        is_retrieval: whether it recalls text instead of modelling it. Then it is good at some positions and knows nothing of
            others, whatever the region: its weight depends on how sure it is. A team has at most one, as its last.
        precision: the number format that a pretrained network computes in, such as ``bfloat16``; "" for others.
    """

    name: str
    vocabulary: Vocabulary
    max_length: int | None = None
    source: Source = field(default_factory=MaskSource)
    takes_time: bool = False
    fingerprint: str = ""
    is_retrieval: bool = False
    precision: str = ""

    def __post_init__(self) -> None:
        """A name is text: half a surrogate, as in the name of a folder that is not UTF-8, becomes ``?``."""
        object.__setattr__(self, "name", self.name.encode(errors="replace").decode())


@dataclass(frozen=True)
class Context:
    """What an expert reads: B sequences, some of their positions hidden.

    Attributes:
        tokens: (B, L) int64; any value where hidden, PAD after the end of a shorter sequence.
        hidden: (B, L) True where the expert does not see the token.
        time: (B,) kappa, the time on the path from noise (0) to data (1); None for the share of tokens that is visible.
        start: (B,) the position in the document of the first token of each sequence, which an expert made from the
            document needs; None if there is no document.
    """

    tokens: Tensor
    hidden: Tensor
    time: Tensor | None = None
    start: Tensor | None = None

    @property
    def real(self) -> Tensor:
        """(B, L) True up to the end of each sequence."""
        return self.tokens != PAD

    @property
    def kappa(self) -> Tensor:
        """(B,) the time; for a mask source it is the expected share of visible tokens."""
        if self.time is not None:
            return self.time
        real = self.real
        return (real & ~self.hidden).sum(-1) / real.sum(-1).clamp_min(1)

    def everywhere(self) -> At:
        """All positions, row by row."""
        row, place = torch.ones_like(self.hidden).nonzero(as_tuple=True)
        return row, place


class Expert(Protocol):
    """A frozen denoiser h_i.

    ``predict(context, at)`` returns log p_i(x_l = v | visible tokens) at the n positions ``at`` only: (n, V), float32
    (float64 from the exact experts), finite and normalised over v. It depends only on the tokens at visible positions.
    At a visible position, an expert with a mask source returns a point mass at the visible token. Such a row is not
    evidence: a position must be hidden to be scored. Padding does not change the predictions before it.
    """

    @property
    def spec(self) -> ExpertSpec:
        """The expert's description."""

    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p_i(x_l = v | visible tokens) at the positions ``at``: (n, V)."""


@runtime_checkable
class DocumentExpert(Protocol):
    """An expert that is made from the document to be restored, such as a memory of its text.

    ``condition`` is called with the whole document. When the expert that it returns predicts, it must not use the token
    of any position that the context hides, although the document contains that token.
    """

    @property
    def spec(self) -> ExpertSpec:
        """The description of the expert that ``condition`` makes."""

    def condition(self, document: Observation) -> Expert:
        """Make the expert for a document (1, L)."""


def check_context(spec: ExpertSpec, context: Context) -> None:
    """Raise unless the context is a batch (B, L) of sequences that the expert can read."""
    tokens, hidden = context.tokens, context.hidden
    if tokens.ndim != 2 or tokens.shape[1] < 1:
        shape = tuple(tokens.shape)
        raise ConservatorError(f"tokens have the shape {shape}; the expert {spec.name!r} reads (sequences, positions)")
    if hidden.shape != tokens.shape or hidden.dtype != torch.bool:
        raise ConservatorError(
            f"hidden is {hidden.dtype} of the shape {tuple(hidden.shape)}; it must be bool, {tuple(tokens.shape)}"
        )
    if spec.max_length is not None and tokens.shape[1] > spec.max_length:
        raise ConservatorError(
            f"the sequences have {tokens.shape[1]} positions; the expert {spec.name!r} reads at most {spec.max_length}"
        )


def ask(expert: Expert, context: Context, at: At) -> Tensor:
    """What an expert predicts at the positions ``at``; raise unless that is what the contract says, and finite."""
    rows: Any = expert.predict(context, at)
    name, shape = expert.spec.name, (len(at[0]), expert.spec.vocabulary.size)
    if not isinstance(rows, Tensor) or tuple(rows.shape) != shape or not rows.is_floating_point():
        found = f"{rows.dtype} of the shape {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
        raise ConservatorError(
            f"the expert {name!r} predicted {found}; it must be floating-point log-probabilities of the shape "
            f"{shape}: positions asked for, tokens"
        )
    if not torch.isfinite(rows.sum()):
        raise ConservatorError(f"the expert {name!r} predicted what is not a finite number: its weights are damaged")
    return rows


def copy_visible(log_probs: Tensor, context: Context, at: At) -> Tensor:
    """Make the rows of ``log_probs`` (n, V) at visible positions point masses at their token."""
    visible = ~context.hidden[at]
    if not visible.any():
        return log_probs
    tokens = context.tokens[at]
    copied = torch.full_like(log_probs[visible], IMPOSSIBLE)
    seen = tokens[visible].clamp_min(0).to(log_probs.device)
    return log_probs.index_put((visible.to(log_probs.device),), copied.scatter_(1, seen[:, None], 0.0))
