"""Trainable models: byte experts, flow-matching experts over any vocabulary, and adapters.

A learner makes the network, computes the loss in nats per predicted token, and saves the expert. It has a vocabulary, a
source, a maximum window length in tokens (``context``), and a dropout probability; above 0, a step draws from the
global generator of torch.
"""

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from conservator.experts import ByteExpert, Expert, MaskSource, Source, save_expert
from conservator.experts.flow import SOURCES, FlowConfig, FlowExpert, FlowNetwork, SharedBackbone, save_flow
from conservator.experts.flow.adapters import TRAINING, save_adapter, start_adapter
from conservator.experts.flow.network import FlowBlock
from conservator.experts.network import HIDDEN, ByteNetwork, NetworkConfig
from conservator.training.path import noise, replace_uniformly
from conservator.vocabularies import BYTES, Vocabulary


class ByteLearner:
    """Byte expert: cross-entropy at hidden bytes."""

    def __init__(self, config: NetworkConfig, max_hidden: float = 1.0, start: ByteNetwork | None = None) -> None:
        """Configure the model.

        Args:
            config: architecture of the network.
            max_hidden: maximum fraction of hidden bytes; below 1, the model is trained for lightly damaged text only.
            start: network of the same architecture that provides the initial weights.
        """
        self.config, self.max_hidden, self.start = config, max_hidden, start
        self.vocabulary: Vocabulary = BYTES
        self.source: Source = MaskSource()
        self.context, self.dropout = config.context, config.dropout

    def make(self) -> ByteNetwork:
        """Create the network with random weights, or with the weights of ``start``."""
        network = ByteNetwork(self.config)
        if self.start is not None:
            network.load_state_dict(self.start.state_dict())
        return network

    def inner(self, name: str) -> bool:
        """Return whether Muon may train the weights of this name: all except the embedding and the head."""
        return not name.startswith(("embed.", "head."))

    def loss(self, network: ByteNetwork, windows: Tensor, generator: torch.Generator, device: torch.device) -> Tensor:
        """Compute the loss in nats per hidden byte."""
        _, hidden = noise(windows, generator, self.max_hidden)
        windows, hidden = windows.to(device), hidden.to(device)
        features = network.features(windows.masked_fill(hidden, HIDDEN), torch.ones_like(hidden))
        return functional.cross_entropy(network.logits(features[hidden]), windows[hidden])

    def freeze(self, network: ByteNetwork, name: str) -> Expert:
        """Return a frozen copy."""
        return ByteExpert(copy.deepcopy(network), name, "")

    def save(self, folder: Path, network: ByteNetwork, name: str, about: dict[str, Any]) -> None:
        """Save the expert."""
        save_expert(folder, network, name, about)


class FlowLearner:
    """Flow-matching expert: cross-entropy at hidden tokens (mask source), or at all positions (uniform source)."""

    def __init__(self, config: FlowConfig, vocabulary: Vocabulary, tokenizer: bytes | None) -> None:
        """Configure the model; ``tokenizer`` is the tokenizer.json that is saved with it."""
        self.config, self.vocabulary, self.tokenizer = config, vocabulary, tokenizer
        self.source = SOURCES[config.source]
        self.context, self.dropout = config.context, config.dropout

    def make(self) -> FlowNetwork:
        """Create the network; open gates before zero matrices learn faster than closed gates."""
        network = FlowNetwork(self.config)
        for block in network.blocks:
            assert isinstance(block, FlowBlock)
            block.open_gates()
        return network

    def inner(self, name: str) -> bool:
        """Return whether Muon may train the weights of this name: attention and perceptrons, not time conditioning."""
        return (
            name.startswith(("blocks.", "near."))
            and "adaLN" not in name
            and "norm" not in name
            and name.endswith("weight")
        )

    def loss(self, network: FlowNetwork, windows: Tensor, generator: torch.Generator, device: torch.device) -> Tensor:
        """Compute the loss in nats per hidden token (mask source) or per token (uniform source)."""
        config = network.config
        kappa, hidden = noise(windows, generator)
        if config.mask is not None:
            inputs, predicted = windows.masked_fill(hidden, config.mask), hidden
        else:
            inputs = replace_uniformly(windows, hidden, config.tokens, generator)
            predicted = torch.ones_like(hidden)
        inputs, windows, predicted = inputs.to(device), windows.to(device), predicted.to(device)
        kappa = kappa.to(device)
        features, times = network.features(inputs, kappa), kappa[:, None].expand(inputs.shape)
        log_probs = network.log_probs(features[predicted], inputs[predicted], times[predicted])
        return functional.nll_loss(log_probs, windows[predicted])

    def freeze(self, network: FlowNetwork, name: str) -> Expert:
        """Return an expert that shares the network; it predicts without gradients."""
        return FlowExpert(SharedBackbone(network, self.vocabulary), name)

    def save(self, folder: Path, network: FlowNetwork, name: str, about: dict[str, Any]) -> None:
        """Save the expert."""
        save_flow(folder, network, self.tokenizer, name, about)


class AdapterLearner(FlowLearner):
    """Low-rank adapter of a frozen flow-matching expert, trained with the loss of the expert."""

    def __init__(self, base: SharedBackbone, folder: Path, rank: int, alpha: int) -> None:
        """Configure the adapter; ``folder`` is the folder of the base."""
        super().__init__(base.network.config, base.vocabulary, tokenizer=None)
        self.base, self.folder, self.rank, self.alpha = base, folder, rank, alpha

    def make(self) -> FlowNetwork:
        """Add an adapter to the base; initially it changes nothing."""
        return start_adapter(self.base, self.rank, self.alpha)

    def inner(self, name: str) -> bool:
        """Return False: both matrices of a layer are trained by AdamW."""
        return False

    def loss(self, network: FlowNetwork, windows: Tensor, generator: torch.Generator, device: torch.device) -> Tensor:
        """Compute the loss in nats per hidden token (mask source) or per token (uniform source)."""
        with self.base.use(TRAINING):
            return super().loss(network, windows, generator, device)

    def freeze(self, network: FlowNetwork, name: str) -> Expert:
        """Return an expert that shares the network; it predicts without gradients."""
        return FlowExpert(self.base, name, adapter=TRAINING)

    def save(self, folder: Path, network: FlowNetwork, name: str, about: dict[str, Any]) -> None:
        """Save the adapter without the base."""
        settings = (self.rank, self.alpha, self.base.fingerprint)
        save_adapter(folder, self.folder, network, settings, name, about)


Learner = ByteLearner | FlowLearner
