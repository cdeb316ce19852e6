"""Causal experts for tests, with vocabularies in which a text has several tokenizations."""

import math

import numpy as np
import torch
from hypothesis import strategies as st

from conservator.experts.causal import ROOT, CausalSpec
from conservator.reference import MarkovExpert
from conservator.vocabularies import BYTES, Tokens

VOCABULARIES = {
    "letters": [b"a", b"b", b"c"],
    "many cuts": [b"a", b"b", b"c", b"ab", b"ba", b"abc", b"aab"],
    "twice and empty": [b"ab", b"a", b"", b"a", b"b", b"c", b"bca", b""],
}
TEXTS = st.lists(st.sampled_from(b"abc"), max_size=6).map(bytes)
SEEDS = st.integers(0, 2**16)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


class PathDependentExpert:
    """An expert whose conditionals depend on the whole path, so that a wrong parent changes them.

    Attributes:
        max_rows: the largest number of conditionals that was requested at once.
    """

    def __init__(self, token_bytes, seed, tokenize=None):
        self.spec = CausalSpec("path dependent", Tokens(token_bytes, tokenize))
        self.seed = seed
        self.max_rows = 0

    def read(self):
        return PathDependentTree(self)


class PathDependentTree:
    def __init__(self, expert):
        self.expert = expert
        self.paths = {ROOT: ()}

    def extend(self, parents, tokens, nodes):
        for parent, token in zip(parents, tokens, strict=True):
            self.paths[len(self.paths)] = (*self.paths[parent], token)
        self.expert.max_rows = max(self.expert.max_rows, len(nodes))
        rows = [self.log_probs(self.paths[node]) for node in nodes]
        return torch.stack(rows) if rows else torch.empty(0, self.expert.spec.tokens.size)

    def log_probs(self, path):
        seed = hash((self.expert.seed, path)) % 2**31  # a hash of integers: the same in every process
        return torch.randn(self.expert.spec.tokens.size, generator=seeded(seed)).log_softmax(-1)


def experts(token_bytes, seed):
    return [MarkovExpert.random(token_bytes, 1.5, seeded(seed)), PathDependentExpert(token_bytes, seed)]


EXPERTS = st.builds(
    lambda name, seed, which: experts(VOCABULARIES[name], seed)[which],
    st.sampled_from(sorted(VOCABULARIES)),
    SEEDS,
    st.integers(0, 1),
)


def text_log_probs(expert, pattern):
    """The log-probability of every text that matches a pattern, summed over the tokenizations that end with it."""
    log_probs, tree, size = {}, expert.read(), 1
    stack = [(b"", 0.0, ROOT)]
    while stack:
        text, score, node = stack.pop()
        if len(text) == len(pattern):
            log_probs[text] = np.logaddexp(log_probs.get(text, -math.inf), score)
            continue
        next_token = tree.extend([], [], [node])[0]
        for token, data in enumerate(expert.spec.tokens.token_bytes):
            longer = text + data
            fits = all(seen in (byte, BYTES.mask) for seen, byte in zip(pattern, longer, strict=False))
            if data and fits and len(longer) <= len(pattern):
                tree.extend([node], [token], [])
                stack.append((longer, score + float(next_token[token]), size))
                size += 1
    return log_probs


def random_potentials(positions, seed):
    generator = np.random.default_rng(seed)
    return {position: generator.normal(size=BYTES.size) for position in positions}


def exact_scores(expert, text, span, potentials):
    """The score of every candidate of a span that is the whole text."""
    pattern = [BYTES.mask if position in span.positions else byte for position, byte in enumerate(text)]
    return {
        span.open_bytes(whole): score + sum(potentials[position][whole[position]] for position in span.positions)
        for whole, score in text_log_probs(expert, pattern).items()
    }


class MemorizingCausalExpert:
    """Predicts one memorized text: after four bytes of it, the next is likely. Its tokens are single bytes."""

    def __init__(self, text, name="bookworm"):
        self.spec = CausalSpec(name, Tokens([bytes([byte]) for byte in range(BYTES.size)]))
        self.after = {}
        for position in range(len(text)):
            self.after.setdefault(text[max(0, position - 4) : position], []).append(text[position])

    def read(self):
        return MemorizingTree(self)


class MemorizingTree:
    def __init__(self, expert):
        self.expert, self.paths = expert, {ROOT: b""}

    def extend(self, parents, tokens, nodes):
        for parent, token in zip(parents, tokens, strict=True):
            self.paths[len(self.paths)] = (self.paths[parent] + bytes([token]))[-4:]
        counts = torch.full((len(nodes), BYTES.size), 0.1)
        for row, node in enumerate(nodes):
            for byte in self.expert.after.get(self.paths[node], []):
                counts[row, byte] += 1000.0
        return (counts / counts.sum(dim=1, keepdim=True)).log()
