"""Small flow-matching networks and vocabularies for tests."""

import torch

from conservator.experts.flow import FlowConfig, FlowNetwork, save_flow
from conservator.training.tokenizer import tokens_of, train_tokenizer

TEXTS = tuple(f"line {n}: the quick brown fox jumps over the lazy dog {n * n}\n".encode() for n in range(40))
TOKENS = 300
TOKENIZER = train_tokenizer(TEXTS, TOKENS)
VOCABULARY = tokens_of(TOKENIZER)
MASK = FlowConfig(TOKENS, "mask", context=24, width=16, layers=2, heads=2, conditioning=8)
NEAR = FlowConfig(TOKENS, "mask", context=24, width=16, layers=2, heads=2, conditioning=8, reach=2)
UNIFORM = FlowConfig(TOKENS, "uniform", context=24, width=16, layers=2, heads=2, conditioning=8)
APART = FlowConfig(TOKENS, "uniform", context=24, width=16, layers=2, heads=2, conditioning=8, apart=True)


def random_flow(config: FlowConfig = MASK, seed: int = 0, spread: float = 0.3) -> FlowNetwork:
    """A network without zero weights; an untrained network predicts the uniform distribution for every input."""
    network = FlowNetwork(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * (spread if weight.ndim == 2 else 1.0))
    return network


def save_random(folder, config: FlowConfig = MASK, seed: int = 0) -> None:
    """Write a random network over VOCABULARY."""
    save_flow(folder, random_flow(config, seed), TOKENIZER, folder.name)
