"""The predictions of an expert at every position, as a table."""

import torch

from conservator.experts import Context


def table_of(expert, tokens, hidden, kappa=None):
    """(B, L, V) log p(x_l = v | visible tokens), with ``kappa`` as the time of all sequences."""
    time = None if kappa is None else torch.full((len(tokens),), float(kappa))
    context = Context(tokens, hidden, time)
    return expert.predict(context, context.everywhere()).reshape(*tokens.shape, expert.spec.vocabulary.size)
