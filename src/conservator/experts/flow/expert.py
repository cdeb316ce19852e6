"""Flow-matching experts: a network with time input, over bytes or tokens, with a mask or a uniform source."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.expert import IMPOSSIBLE, At, Context, ExpertSpec, check_context, copy_visible
from conservator.experts.flow.network import SOURCES, FlowNetwork
from conservator.vocabularies import Tokens, Vocabulary


class SharedBackbone:
    """A network in memory that all experts that are adapters of it share.

    Attributes:
        network: the network; adapters are part of it, and at most one is active at a time.
        vocabulary: the vocabulary of the network.
        fingerprint: hash of its weights; "" for a network that was not loaded from files.
        adapters: the names of its adapters.
        special: (V,) True for special tokens, which have no text; None if there are none.
    """

    def __init__(self, network: FlowNetwork, vocabulary: Vocabulary, fingerprint: str = "") -> None:
        """Combine a network with its vocabulary."""
        if network.config.tokens != vocabulary.size:
            raise ConservatorError(
                f"the network has {network.config.tokens} tokens, its vocabulary {vocabulary.size}; they must be equal"
            )
        self.network, self.vocabulary, self.fingerprint = network, vocabulary, fingerprint
        self.adapters: set[str] = set()
        special = torch.tensor(
            [not data for data in vocabulary.token_bytes] if isinstance(vocabulary, Tokens) else [False]
        )
        self.special = special if bool(special.any()) else None
        self._lock = threading.RLock()

    @contextmanager
    def use(self, adapter: str | None) -> Iterator[FlowNetwork]:
        """Activate an adapter, or none, and return the network; a lock prevents other threads from switching."""
        with self._lock:
            if self.adapters:
                from conservator.experts.flow.adapters import activate_adapter

                activate_adapter(self.network, adapter)
            yield self.network


class FlowExpert:
    """A denoiser with time input.

    With a mask source, it predicts hidden tokens. With a uniform source, it reads all tokens, some of them noise, and
    predicts the clean token of any position; no token may be hidden, and the time is required.
    """

    def __init__(
        self,
        base: SharedBackbone,
        name: str,
        *,
        adapter: str | None = None,
        fingerprint: str = "",
        about: dict[str, Any] | None = None,
    ) -> None:
        """Combine a base with one of its adapters, or with none; ``about`` is the record of its training."""
        config = base.network.config
        self.base, self.adapter, self.about = base, adapter, about or {}
        source = SOURCES[config.source]
        self.spec = ExpertSpec(name, base.vocabulary, config.context, source, True, fingerprint or base.fingerprint)

    @property
    def parameters(self) -> int:
        """The number of weights of the base and the active adapter."""
        named = self.base.network.named_parameters()
        return sum(weight.numel() for name, weight in named if "lora_" not in name or f".{self.adapter}." in name)

    @torch.no_grad()
    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p(x_l = v | input tokens, time) at the positions ``at``: (n, V), float32."""
        check_context(self.spec, context)
        config = self.base.network.config
        device = self.base.network.output_layer.linear.weight.device
        tokens, hidden, real = context.tokens.to(device, torch.long), context.hidden.to(device), context.real.to(device)
        if config.mask is None and bool((hidden & real).any()):
            raise ConservatorError(f"expert {self.spec.name!r} has a uniform source: no token may be hidden")
        if config.mask is None and context.time is None:
            raise ConservatorError(f"expert {self.spec.name!r} has a uniform source: context.time must be given")
        hidden = hidden | ~real
        invalid = ~hidden & ((tokens < 0) | (tokens >= config.tokens))
        if invalid.any():
            raise ConservatorError(
                f"visible tokens must be from 0 to {config.tokens - 1}, got {int(tokens[invalid][0])}"
            )
        symbols = tokens.masked_fill(hidden, config.mask or 0)  # padding may have any symbol: it is masked in attention
        row, column = at[0].to(device), at[1].to(device)
        with self.base.use(self.adapter) as network:
            kappa = context.kappa.to(device)
            features = network.eval().features(symbols, kappa, real)
            log_probs = network.log_probs(features[row, column], symbols[row, column], kappa[row])
        if self.base.special is not None:
            log_probs = torch.log_softmax(log_probs.masked_fill(self.base.special.to(device), IMPOSSIBLE), dim=-1)
        if config.mask is not None:
            log_probs = copy_visible(log_probs, Context(tokens, hidden), (row, column))
        return log_probs.to(context.tokens.device)
