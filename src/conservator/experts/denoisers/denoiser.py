"""Pretrained masked models as experts: log p(x_l = v | visible tokens), with the inputs of each family."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from conservator.errors import ConservatorError
from conservator.experts.denoisers.families import Family
from conservator.experts.expert import IMPOSSIBLE, At, Context, ExpertSpec, check_context, copy_visible
from conservator.experts.language_models.precision import precision_of
from conservator.experts.team import TEAM_CONFIG
from conservator.vocabularies import Tokens

MIN_KAPPA = 1e-3  # kappa: lower clamp; networks with sigma input were trained no nearer to noise [definition]


class Denoiser:
    """A frozen masked or diffusion model over tokens. See ``Expert``.

    With a mask source, hidden positions have the mask of the network, and visible tokens are copied. With a uniform
    source, no token may be hidden, ``context.time`` is required, and the prediction is p(x_l = v | x_t) at every
    position. Special tokens, such as the mask and padding, are impossible. At padding, all other tokens are equally
    likely.
    """

    def __init__(
        self,
        network: nn.Module,
        family: Family,
        tokens: Tokens,
        *,
        max_positions: int,
        mask: int | None = None,
        start: int | None = None,
        end: int | None = None,
        name: str = "",
        fingerprint: str = "",
    ) -> None:
        """Freeze a network of a family.

        Args:
            network: maps ``input_ids`` (B, L) to an output with ``logits`` (B, L, V).
            family: inputs and outputs of the network.
            tokens: its vocabulary of V tokens.
            max_positions: maximum number of positions, including start and end tokens.
            mask: token id of the mask; None for a uniform source.
            start: id of the token before every text; None if the family has none.
            end: id of the token after every text; None if the family has none.
            name: name in tables and reports.
            fingerprint: hash of its weights.
        """
        self.network = network.eval().requires_grad_(False)
        self.family = family
        self._mask, self._uniform = mask, not family.source.shows_noise
        self._prefix, self._suffix = ([] if token is None else [token] for token in (start, end))
        if (mask is None) != self._uniform:
            raise ConservatorError(
                f"expert {name!r}: mask must be given for a mask source, and be None for a uniform source, got {mask}"
            )
        if family.shift > len(self._prefix):
            raise ConservatorError(
                f"expert {name!r}: start must be given, because the network predicts token i at position i - 1"
            )
        self.spec = ExpertSpec(
            name,
            tokens,
            max_length=max_positions - len(self._prefix) - len(self._suffix),
            source=family.source,
            takes_time=family.time == "sigma",
            fingerprint=fingerprint,
            precision=precision_of(network),
        )
        self._special = torch.tensor([not data for data in tokens.token_bytes])
        self._head = output_layer_of(network)
        self._lock = threading.Lock()  # the positions that the head computes are set for one pass at a time

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return sum(weight.numel() for weight in self.network.parameters())

    @torch.no_grad()
    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p(x_l = v | input tokens) at the positions ``at``: (n, V), float32."""
        check_context(self.spec, context)
        tokens, real = context.tokens.long().cpu(), context.real.cpu()
        hidden, row, column = context.hidden.cpu() & real, at[0].cpu(), at[1].cpu()
        self._check(tokens, hidden, real, context.time)
        log_probs = self._normalised(torch.zeros(1, self.spec.vocabulary.size, dtype=torch.float32)).repeat(len(row), 1)
        requested = real[row, column] if self._uniform else hidden[row, column]
        lengths = real.sum(-1)
        for length in lengths[row[requested]].unique().tolist():
            same_length = (requested & (lengths[row] == length)).nonzero()[:, 0]
            for part in row[same_length].unique().split(self._batch_size(length)):
                indices = same_length[torch.isin(row[same_length], part)]
                log_probs[indices] = self._evaluate(
                    tokens[part, :length],
                    hidden[part, :length],
                    None if context.time is None else context.time[part.to(context.time.device)],
                    torch.searchsorted(part, row[indices]),
                    column[indices],
                )
        if not self._uniform:
            log_probs = copy_visible(log_probs, Context(tokens, hidden | ~real), (row, column))
        return log_probs.to(context.tokens.device)

    def _check(self, tokens: Tensor, hidden: Tensor, real: Tensor, time: Tensor | None) -> None:
        """Raise a ConservatorError unless the network accepts this input."""
        size = self.spec.vocabulary.size
        invalid = real & ~hidden & ((tokens < 0) | (tokens >= size))
        if invalid.any():
            raise ConservatorError(f"visible tokens must be from 0 to {size - 1}, got {int(tokens[invalid][0])}")
        if self._uniform and hidden.any():
            raise ConservatorError(f"expert {self.spec.name!r} has a uniform source: no token may be hidden")
        if self.spec.takes_time and time is None:
            raise ConservatorError(f"expert {self.spec.name!r}: context.time (kappa) must be given")

    def _batch_size(self, length: int) -> int:
        """Return the number of rows whose logits at all positions fit the memory limit of a batch."""
        max_rows = TEAM_CONFIG.batch_bytes // (4 * length * self.spec.vocabulary.size)
        return max(1, min(max_rows, TEAM_CONFIG.batch_positions // length))

    def _evaluate(self, tokens: Tensor, hidden: Tensor, time: Tensor | None, row: Tensor, column: Tensor) -> Tensor:
        """Return log-probabilities (n, V) at n positions of a batch (B, length) without padding."""
        device = next(self.network.parameters()).device
        if self._mask is not None:
            tokens = tokens.masked_fill(hidden, self._mask)
        ends = [torch.tensor(part, dtype=torch.long).expand(len(tokens), -1) for part in (self._prefix, self._suffix)]
        inputs: dict[str, Any] = {"input_ids": torch.cat([ends[0], tokens, ends[1]], dim=1).to(device)}
        if self.family.time == "zeros":
            inputs["timesteps"] = torch.zeros(len(tokens), device=device, dtype=torch.float32)
        elif self.family.time == "sigma" and time is not None:
            inputs["timesteps"] = -time.to(device, torch.float32).clamp(MIN_KAPPA, 1.0).log()
        row, column = row.to(device), column.to(device) + len(self._prefix) - self.family.shift
        with self._lock, self._head_at(row, column):
            logits = self.network(**inputs, return_dict=True).logits
        if logits.ndim == 3:
            logits = logits[row, column]
        if logits.shape != (len(row), self.spec.vocabulary.size):
            raise ConservatorError(
                f"the network of {self.spec.name!r} has {logits.shape[-1]} tokens, its vocabulary "
                f"{self.spec.vocabulary.size}; they must be equal"
            )
        return self._normalised(logits.float()).cpu()

    @contextmanager
    def _head_at(self, row: Tensor, column: Tensor) -> Iterator[None]:
        """Compute the output layer of the network only at some positions of a batch, if the layer is known."""

        def select(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
            return (inputs[0][row, column],) if inputs and inputs[0].ndim == 3 else None

        if self._head is None:
            yield
            return
        hook = self._head.register_forward_pre_hook(select)
        try:
            yield
        finally:
            hook.remove()

    def _normalised(self, logits: Tensor) -> Tensor:
        """Return log-probabilities; special tokens are impossible. The logits are modified in place."""
        special = self._special.to(logits.device)
        return torch.log_softmax(logits.masked_fill_(special, -torch.inf), dim=-1).masked_fill_(special, IMPOSSIBLE)


def output_layer_of(network: nn.Module) -> nn.Linear | None:
    """Return the linear layer from hidden states to V logits; None if the network does not provide it."""
    getter = getattr(network, "get_output_embeddings", None)
    layer = getter() if getter is not None else None
    return layer if isinstance(layer, nn.Linear) else None
