"""Exact experts over tokens that have text."""

import torch

from conservator.experts import ExpertSpec, copy_visible
from conservator.reference import BigramExpert
from conservator.vocabularies import Tokens


class BigramTokenExpert:
    """An exact bigram expert over tokens with the given bytes."""

    def __init__(self, token_bytes, seed, max_length=None):
        self.inner = BigramExpert.random(len(token_bytes), 1.5, torch.Generator().manual_seed(seed))
        self.spec = ExpertSpec("bigram tokens", Tokens(token_bytes), max_length)

    def predict(self, context, at):
        assert self.spec.max_length is None or context.tokens.shape[1] <= self.spec.max_length
        return self.inner.predict(context, at)


class MaskedTokens:
    """Tokens that are drawn independently from ``logits`` (V,), with a mask source."""

    def __init__(self, logits, name, vocabulary):
        self.log_probs = torch.log_softmax(logits.float(), dim=-1)
        self.spec = ExpertSpec(name, vocabulary)

    def predict(self, context, at):
        return copy_visible(self.log_probs.expand(len(at[0]), -1).clone(), context, at)
