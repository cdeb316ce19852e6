"""What can be trained: byte experts, and flow-matching experts over any vocabulary."""

import copy
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from conservator.experts import ByteExpert, Expert, MaskSource, Source, load_expert, save_expert
from conservator.experts.flow import SOURCES, FlowConfig, FlowExpert, FlowNetwork, SharedBackbone, load_flow, save_flow
from conservator.experts.flow.adapters import TRAINING, save_adapter, start_adapter
from conservator.experts.flow.network import FlowBlock
from conservator.experts.network import HIDDEN, ByteNetwork, NetworkConfig
from conservator.training.path import mislead, noise
from conservator.vocabularies import BYTES, Vocabulary


class Learner(Protocol):
    """A kind of network: how it is made, what its loss is, and how it is kept.

    Attributes:
        vocabulary: what it reads and predicts.
        source: the noise from which its path starts.
        context: the longest window it reads.
        dropout: the share of outputs that training drops; above 0, a step draws from torch's global generator.
    """

    vocabulary: Vocabulary
    source: Source
    context: int
    dropout: float

    def make(self) -> nn.Module:
        """Draw the initial weights, by torch's global generator; those that need a gradient are trained."""

    def inner(self, name: str) -> bool:
        """Whether the weights of this name are a matrix between others, which Muon may train."""

    def loss(self, network: Any, windows: Tensor, generator: torch.Generator, device: torch.device) -> Tensor:
        """The loss on windows (B, l), in nats per token that is predicted."""

    def freeze(self, network: Any, name: str) -> Expert:
        """The expert that the network is by now; training may go on."""

    def save(self, folder: Path, network: Any, name: str, about: dict[str, Any]) -> None:
        """Write the expert."""

    def load(self, folder: Path, device: str) -> Expert:
        """Read what ``save`` wrote."""


class ByteLearner:
    """A byte expert: cross-entropy at hidden bytes."""

    def __init__(self, config: NetworkConfig, most: float = 1.0, start: ByteNetwork | None = None) -> None:
        """Take what is trained.

        Args:
            config: the size of the network.
            most: the largest share of bytes that is hidden at a time; below 1, it learns what lightly damaged text
                needs, and no more.
            start: a network of the same size whose weights it starts from.
        """
        self.config, self.most, self.start = config, most, start
        self.vocabulary: Vocabulary = BYTES
        self.source: Source = MaskSource()
        self.context, self.dropout = config.context, config.dropout

    def make(self) -> ByteNetwork:
        """Draw the initial weights, or take those of another network."""
        network = ByteNetwork(self.config)
        if self.start is not None:
            network.load_state_dict(self.start.state_dict())
        return network

    def inner(self, name: str) -> bool:
        """All but the embedding and the head."""
        return not name.startswith(("embed.", "head."))

    def loss(self, network: ByteNetwork, windows: Tensor, generator: torch.Generator, device: torch.device) -> Tensor:
        """Nats per hidden byte."""
        _, hidden = noise(windows, generator, self.most)
        windows, hidden = windows.to(device), hidden.to(device)
        features = network.features(windows.masked_fill(hidden, HIDDEN), torch.ones_like(hidden))
        return functional.cross_entropy(network.logits(features[hidden]), windows[hidden])

    def freeze(self, network: ByteNetwork, name: str) -> Expert:
        """A frozen copy."""
        return ByteExpert(copy.deepcopy(network), name, "")

    def save(self, folder: Path, network: ByteNetwork, name: str, about: dict[str, Any]) -> None:
        """Write the expert."""
        save_expert(folder, network, name, about)

    def load(self, folder: Path, device: str) -> Expert:
        """Read the expert."""
        return load_expert(folder, device)


class FlowLearner:
    """A flow-matching expert: cross-entropy at hidden tokens (mask source), or at all positions (uniform source)."""

    def __init__(self, config: FlowConfig, vocabulary: Vocabulary, tokenizer: bytes | None) -> None:
        """Take the size of the network, its vocabulary, and the tokenizer.json to keep beside it."""
        self.config, self.vocabulary, self.tokenizer = config, vocabulary, tokenizer
        self.source = SOURCES[config.source]
        self.context, self.dropout = config.context, config.dropout

    def make(self) -> FlowNetwork:
        """Draw the initial weights; open gates before matrices that are 0 learn faster than gates that are shut."""
        network = FlowNetwork(self.config)
        for block in network.blocks:
            assert isinstance(block, FlowBlock)
            block.open_gates()
        return network

    def inner(self, name: str) -> bool:
        """The matrices of attention and perceptrons; not what the time does."""
        return (
            name.startswith(("blocks.", "near."))
            and "adaLN" not in name
            and "norm" not in name
            and name.endswith("weight")
        )

    def loss(self, network: FlowNetwork, windows: Tensor, generator: torch.Generator, device: torch.device) -> Tensor:
        """Nats per hidden token, or per token."""
        return flow_loss(network, windows, generator, device)

    def freeze(self, network: FlowNetwork, name: str) -> Expert:
        """The network itself: it predicts without gradients."""
        return FlowExpert(SharedBackbone(network, self.vocabulary), name)

    def save(self, folder: Path, network: FlowNetwork, name: str, about: dict[str, Any]) -> None:
        """Write the expert."""
        save_flow(folder, network, self.tokenizer, name, about)

    def load(self, folder: Path, device: str) -> Expert:
        """Read the expert."""
        return load_flow(folder, device)


def flow_loss(network: FlowNetwork, windows: Tensor, generator: torch.Generator, device: torch.device) -> Tensor:
    """Cross-entropy of windows (B, l) at stratified times, where the network has something to predict."""
    config = network.config
    kappa, hidden = noise(windows, generator)
    if config.mask is not None:
        read, asked = windows.masked_fill(hidden, config.mask), hidden
    else:
        read, asked = mislead(windows, hidden, config.tokens, generator), torch.ones_like(hidden)
    read, windows, asked = read.to(device), windows.to(device), asked.to(device)
    kappa = kappa.to(device)
    features, times = network.features(read, kappa), kappa[:, None].expand(read.shape)
    return functional.nll_loss(network.log_probs(features[asked], read[asked], times[asked]), windows[asked])


class AdapterLearner:
    """A low-rank adapter of a flow-matching expert, which stays as it is: the loss is that of its kind."""

    def __init__(self, base: SharedBackbone, folder: Path, rank: int, alpha: int) -> None:
        """Take a base, the folder that it was read from, and the size of the adapter."""
        self.base, self.folder, self.rank, self.alpha = base, folder, rank, alpha
        config = base.network.config
        self.vocabulary, self.source = base.vocabulary, SOURCES[config.source]
        self.context, self.dropout = config.context, config.dropout

    def make(self) -> FlowNetwork:
        """Put an adapter into the base; it starts as no change."""
        return start_adapter(self.base, self.rank, self.alpha)

    def inner(self, name: str) -> bool:
        """None: the two matrices of a layer are trained alike."""
        return False

    def loss(self, network: FlowNetwork, windows: Tensor, generator: torch.Generator, device: torch.device) -> Tensor:
        """Nats per hidden token, or per token."""
        with self.base.use(TRAINING):
            return flow_loss(network, windows, generator, device)

    def freeze(self, network: FlowNetwork, name: str) -> Expert:
        """The network itself: it predicts without gradients."""
        return FlowExpert(self.base, name, adapter=TRAINING)

    def save(self, folder: Path, network: FlowNetwork, name: str, about: dict[str, Any]) -> None:
        """Write the adapter alone."""
        settings = (self.rank, self.alpha, self.base.fingerprint)
        save_adapter(folder, self.folder, network, settings, name, about)

    def load(self, folder: Path, device: str) -> Expert:
        """Read the adapter; its base is in memory."""
        return load_flow(folder, device)
