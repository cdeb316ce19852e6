"""A small flow-matching expert that is trained on samples: the surrogate of the simulator."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from conservator.experts import At, Context, ExpertSpec, check_context, copy_visible
from conservator.training import noise
from conservator.vocabularies import NumberedVocabulary


class Denoiser:
    """A mask-source denoiser: one hidden layer from the visible tokens to log p(x_l | visible tokens).

    All sequences must have the length that was passed to the constructor.

    h = relu(one_hot(z) W_1 + b_1),   logits_l = (h W_2 + b_2)_l
    """

    def __init__(self, vocab_size: int, length: int, width: int, generator: torch.Generator, name: str) -> None:
        """Draw the weights; the second layer starts at zero, which gives the uniform distribution."""
        self.spec = ExpertSpec(name, NumberedVocabulary(vocab_size), length)
        inputs, outputs = length * (vocab_size + 1), length * vocab_size
        first = torch.randn(inputs, width, generator=generator) / math.sqrt(length)
        self.parameters = [first, torch.zeros(width), torch.zeros(width, outputs), torch.zeros(outputs)]

    def logits(self, context: Context) -> Tensor:
        """Return (B, L, V) logits of the clean token; the network has no time input."""
        check_context(self.spec, context)
        first, first_bias, second, second_bias = self.parameters
        vocabulary = self.spec.vocabulary
        inputs = functional.one_hot(context.tokens.masked_fill(context.hidden, vocabulary.mask), vocabulary.size + 1)
        state = torch.relu(inputs.flatten(1).to(first.dtype) @ first + first_bias)
        return (state @ second + second_bias).reshape(*context.tokens.shape, vocabulary.size)

    @torch.no_grad()
    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p(x_l = v | visible tokens) at the positions ``at``: (n, V)."""
        return copy_visible(torch.log_softmax(self.logits(context)[at], dim=-1), context, at)


def train_denoiser(
    samples: Tensor, vocab_size: int, *, width: int, steps: int, batch: int, generator: torch.Generator, name: str
) -> Denoiser:
    """Fit a denoiser to ``samples`` (N, L) by the cross-entropy of hidden tokens at uniform times.

    AdamW with a cosine schedule; batches are drawn with replacement.
    """
    denoiser = Denoiser(vocab_size, samples.shape[1], width, generator, name)
    for parameter in denoiser.parameters:
        parameter.requires_grad_(True)
    optimiser = torch.optim.AdamW(denoiser.parameters, lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        tokens = samples[torch.randint(len(samples), (batch,), generator=generator)]
        _, hidden = noise(tokens, generator)
        loss = functional.cross_entropy(denoiser.logits(Context(tokens, hidden))[hidden], tokens[hidden])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    for parameter in denoiser.parameters:
        parameter.requires_grad_(False)
    return denoiser
