"""Enumerable experts with a uniform source, for tests."""

import torch

from conservator.experts import Context, ExpertSpec, UniformSource
from conservator.experts.uniform import check_uniform, log_channel
from conservator.reference import EnumeratedExpert, all_sequences
from conservator.vocabularies import NumberedVocabulary

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


class IndependentTokens:
    """Tokens that are drawn independently from ``logits`` (V,), at any length: its Bayes denoiser."""

    def __init__(self, logits, name="independent", vocabulary=None):
        self.log_probs = torch.log_softmax(logits.double(), dim=-1)
        vocabulary = vocabulary or NumberedVocabulary(len(logits))
        self.spec = ExpertSpec(name, vocabulary, source=UniformSource(), takes_time=True)

    def predict(self, context, at):
        kappa = check_uniform(self.spec, context).double()[at[0]]
        other, own = log_channel(kappa[:, None], len(self.log_probs))
        seen = torch.where(context.tokens[at][:, None] == torch.arange(len(self.log_probs)), own, other)
        return torch.log_softmax(self.log_probs + seen, dim=-1)
