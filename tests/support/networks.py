"""Small networks for tests, with weights for which every layer affects the output."""

import torch

from conservator.experts import ByteNetwork, NetworkConfig

TINY = NetworkConfig(
    context=40,
    channels=8,
    convolutions=1,
    reach=2,
    hidden_channels=12,
    memory=97,
    memory_width=4,
    patch=4,
    width=16,
    layers=2,
    heads=2,
)
PLAIN = NetworkConfig(
    context=40, channels=16, convolutions=0, memory=0, patch=1, width=16, layers=2, heads=2, dropout=0.1
)


def random_network(config: NetworkConfig = TINY, seed: int = 0) -> ByteNetwork:
    """A network without zero weights; an untrained network predicts the uniform distribution for every input."""
    network = ByteNetwork(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * (0.5 if weight.ndim == 2 else 1.0))
    return network
