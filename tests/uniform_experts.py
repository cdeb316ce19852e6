"""Enumerable experts with a uniform source, for tests."""

import torch

from conservator.experts import Context, EnumeratedExpert, UniformSource, all_sequences

SIZE, LENGTH = 3, 3
SEQUENCES = all_sequences(SIZE, LENGTH)


def random_expert(seed, scale=1.0, source=None):
    generator = torch.Generator().manual_seed(seed)
    table = scale * torch.randn([SIZE] * LENGTH, generator=generator, dtype=torch.float64)
    return EnumeratedExpert(table, source or UniformSource())


def uniform_table(expert, states, kappa):
    """(B, L, V) log p(x_l = v | x_t)."""
    time = torch.full((len(states),), kappa, dtype=torch.float64)
    context = Context(states, torch.zeros_like(states, dtype=torch.bool), time)
    return expert.predict(context, context.everywhere()).reshape(*states.shape, SIZE)


def channel(kappa):
    """(x, x_t) the probability of every noising of every sequence."""
    same = (SEQUENCES[:, None] == SEQUENCES).double()
    return (kappa * same + (1 - kappa) / SIZE).prod(-1)
