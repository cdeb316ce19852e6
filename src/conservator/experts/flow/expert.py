"""Flow-matching experts: a network that knows the time, over bytes or tokens, with a mask or a uniform source."""

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


class Base:
    """A network in memory, which all experts that are adapters of it share.

    Attributes:
        network: the network; adapters become part of it, one is at work at a time.
        vocabulary: what its tokens stand for.
        fingerprint: a hash of its weights, or "" for one made in memory.
        adapters: the names of the adapters that it has.
        silent: (V,) True for a token that stands for no text, or None if every token stands for some.
    """

    def __init__(self, network: FlowNetwork, vocabulary: Vocabulary, fingerprint: str = "") -> None:
        """Take a network for the tokens of a vocabulary."""
        if network.config.tokens != vocabulary.size:
            raise ConservatorError(
                f"the network has {network.config.tokens} tokens, its vocabulary {vocabulary.size}; they must be equal"
            )
        self.network, self.vocabulary, self.fingerprint = network, vocabulary, fingerprint
        self.adapters: set[str] = set()
        empty = torch.tensor(
            [not piece for piece in vocabulary.token_bytes] if isinstance(vocabulary, Tokens) else [False]
        )
        self.silent = empty if bool(empty.any()) else None
        self._lock = threading.RLock()

    @contextmanager
    def use(self, adapter: str | None) -> Iterator[FlowNetwork]:
        """The network with one of its adapters at work, or with none; nobody else can switch meanwhile."""
        with self._lock:
            if self.adapters:
                from conservator.experts.flow.adapters import switch

                switch(self.network, adapter)
            yield self.network


class FlowExpert:
    """A denoiser of a network that reads the time.

    With a mask source, it predicts hidden tokens. With a uniform source, it reads all tokens, some of them wrong, and
    predicts the right token of any position; it cannot see what is hidden, and must be told the time.
    """

    def __init__(
        self,
        base: Base,
        name: str,
        *,
        adapter: str | None = None,
        fingerprint: str = "",
        about: dict[str, Any] | None = None,
    ) -> None:
        """Make an expert of a base and one of its adapters, or of the base alone; ``about`` is for its card."""
        config = base.network.config
        self.base, self.adapter, self.about = base, adapter, about or {}
        source = SOURCES[config.source]
        self.spec = ExpertSpec(name, base.vocabulary, config.context, source, True, fingerprint or base.fingerprint)

    @property
    def parameters(self) -> int:
        """The number of weights at work: those of the base, and of its own adapter."""
        named = self.base.network.named_parameters()
        return sum(weight.numel() for name, weight in named if "lora_" not in name or f".{self.adapter}." in name)

    @torch.no_grad()
    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p(x_l = v | what is read, time) at the positions ``at``: (n, V), float32."""
        check_context(self.spec, context)
        config = self.base.network.config
        device = self.base.network.output_layer.linear.weight.device
        tokens, hidden, real = context.tokens.to(device, torch.long), context.hidden.to(device), context.real.to(device)
        if config.mask is None and bool((hidden & real).any()):
            raise ConservatorError(f"the expert {self.spec.name!r} has a uniform source: it cannot read hidden tokens")
        if config.mask is None and context.time is None:
            raise ConservatorError(f"the expert {self.spec.name!r} has a uniform source: it must be told the time")
        hidden = hidden | ~real
        strange = ~hidden & ((tokens < 0) | (tokens >= config.tokens))
        if strange.any():
            raise ConservatorError(f"a visible token is {int(tokens[strange][0])}; they are 0 to {config.tokens - 1}")
        symbols = tokens.masked_fill(hidden, config.mask or 0)  # padding is not attended to, whatever stands there
        row, place = at[0].to(device), at[1].to(device)
        with self.base.use(self.adapter) as network:
            kappa = context.kappa.to(device)
            features = network.eval().features(symbols, kappa, real)
            log_probs = network.log_probs(features[row, place], symbols[row, place], kappa[row])
        if self.base.silent is not None:
            log_probs = torch.log_softmax(log_probs.masked_fill(self.base.silent.to(device), IMPOSSIBLE), dim=-1)
        if config.mask is not None:
            log_probs = copy_visible(log_probs, Context(tokens, hidden), (row, place))
        return log_probs.to(context.tokens.device)
