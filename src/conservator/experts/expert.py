"""The expert contract: requirements of the composition on a frozen model (section "Expert requirements")."""

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.experts.source import MaskSource, Source
from conservator.vocabularies import Vocabulary

PAD = -1  # token id: padding after the end of a row that is shorter than its batch [definition]
# nats: log-probability of an impossible token. exp(-1e4) is 0 in every float type, and 0 * -1e4 is 0 where 0 * -inf
# is nan. [numerical]
IMPOSSIBLE = -1e4
At = tuple[Tensor, ...]  # n positions of a batch: row indices (n,) and column indices (n,)


@dataclass(frozen=True)
class GatePrior:
    """The prior mean of the weight of a gated expert: in its least confident class, and the increase per class.

    Attributes:
        others_uncertain: if the other experts are not confident.
        others_confident: if they are.
        shift_std: standard deviation of a shift of the logits of all means, which is inferred for each document; 0 for
            no shift.
    """

    others_uncertain: tuple[float, float]
    others_confident: tuple[float, float]
    shift_std: float = 0.0


@dataclass(frozen=True)
class ExpertSpec:
    """The properties of an expert that callers need. The expert states them; they are never derived from its name.

    Attributes:
        name: name in tables and reports.
        vocabulary: the tokens that it predicts; only experts with the same vocabulary can be composed.
        max_length: maximum sequence length; None for no limit.
        source: the noise from which its path to the data starts.
        takes_time: whether its predictions depend on kappa in addition to the context.
        fingerprint: hash of its weights; "" for an expert that was not loaded from files.
        gate_prior: for a gated expert. Its accuracy depends on the position and not on the domain, as for an expert
            that retrieves text or looks up words, so its weight is a function of its confidence. The gated experts of
            a team are its last members. None for other experts.
        precision: the number format that a pretrained network computes in, such as ``bfloat16``; "" for others.
    """

    name: str
    vocabulary: Vocabulary
    max_length: int | None = None
    source: Source = field(default_factory=MaskSource)
    takes_time: bool = False
    fingerprint: str = ""
    gate_prior: GatePrior | None = None
    precision: str = ""

    @property
    def is_gated(self) -> bool:
        """Whether the weight of the expert is a function of its confidence."""
        return self.gate_prior is not None

    def __post_init__(self) -> None:
        """Replace lone surrogates in the name by ``?``; the name of a folder that is not UTF-8 has them."""
        object.__setattr__(self, "name", self.name.encode(errors="replace").decode())


@dataclass(frozen=True)
class Context:
    """The input of an expert: a batch of B sequences with hidden positions.

    Attributes:
        tokens: (B, L) int64; any value where hidden, PAD after the end of a shorter sequence.
        hidden: (B, L) True where the token is hidden from the expert.
        time: (B,) kappa, the time on the path from noise (0) to data (1); None for the fraction of visible tokens.
        start: (B,) position in the document of the first token of each sequence, which document experts need; None
            if the sequences belong to no document.
    """

    tokens: Tensor
    hidden: Tensor
    time: Tensor | None = None
    start: Tensor | None = None

    @property
    def real(self) -> Tensor:
        """(B, L) False at padding."""
        return self.tokens != PAD

    @property
    def kappa(self) -> Tensor:
        """(B,) the time; for a mask source it is the expected fraction of visible tokens."""
        if self.time is not None:
            return self.time
        real = self.real
        return (real & ~self.hidden).sum(-1) / real.sum(-1).clamp_min(1)

    def everywhere(self) -> At:
        """All positions, row by row."""
        row, column = torch.ones_like(self.hidden).nonzero(as_tuple=True)
        return row, column


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
    """A factory of experts that are conditioned on the document to be restored, such as a memory of its text.

    ``condition`` is called with the whole document. The predictions of the resulting expert must not depend on the
    token of a position that the context hides, although the document contains that token.
    """

    @property
    def spec(self) -> ExpertSpec:
        """The description of the expert that ``condition`` returns."""

    def condition(self, document: Observation) -> Expert:
        """Return the expert for a document (1, L)."""


def check_context(spec: ExpertSpec, context: Context) -> None:
    """Raise a ConservatorError unless the context is a batch (B, L) of sequences that the expert accepts."""
    tokens, hidden = context.tokens, context.hidden
    if tokens.ndim != 2 or tokens.shape[1] < 1:
        shape = tuple(tokens.shape)
        raise ConservatorError(f"expert {spec.name!r}: tokens must have the shape (sequences, positions), got {shape}")
    if hidden.shape != tokens.shape or hidden.dtype != torch.bool:
        raise ConservatorError(
            f"expert {spec.name!r}: hidden must be bool of the shape {tuple(tokens.shape)}, got {hidden.dtype} of the "
            f"shape {tuple(hidden.shape)}"
        )
    if spec.max_length is not None and tokens.shape[1] > spec.max_length:
        raise ConservatorError(
            f"expert {spec.name!r}: sequences must have at most {spec.max_length} positions, got {tokens.shape[1]}"
        )


def checked_predict(expert: Expert, context: Context, at: At) -> Tensor:
    """Return ``expert.predict(context, at)``; raise a ConservatorError unless its shape is valid and it is finite."""
    rows: Any = expert.predict(context, at)
    name, shape = expert.spec.name, (len(at[0]), expert.spec.vocabulary.size)
    if not isinstance(rows, Tensor) or tuple(rows.shape) != shape or not rows.is_floating_point():
        actual = f"{rows.dtype} of the shape {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
        raise ConservatorError(
            f"expert {name!r}: predict() must return floating-point log-probabilities of the shape {shape} (requested "
            f"positions, tokens), got {actual}"
        )
    if not torch.isfinite(rows.sum()):
        raise ConservatorError(
            f"expert {name!r}: predict() must return finite log-probabilities, got nan or inf: its weights are damaged"
        )
    return rows


def copy_visible(log_probs: Tensor, context: Context, at: At) -> Tensor:
    """Replace the rows of ``log_probs`` (n, V) at visible positions by point masses at their tokens."""
    visible = ~context.hidden[at]
    if not visible.any():
        return log_probs
    tokens = context.tokens[at]
    point_masses = torch.full_like(log_probs[visible], IMPOSSIBLE)
    visible_tokens = tokens[visible].clamp_min(0).to(log_probs.device)
    return log_probs.index_put((visible.to(log_probs.device),), point_masses.scatter_(1, visible_tokens[:, None], 0.0))
