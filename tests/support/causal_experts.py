"""Causal experts for tests: vocabularies in which a text can be spelt in several ways."""

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


class Remembering:
    """An expert whose law depends on the whole path, so that a wrong parent shows."""

    def __init__(self, pieces, seed, cut=None):
        self.spec = CausalSpec("remembering", Tokens(pieces, cut))
        self.seed = seed
        self.asked = 0

    def read(self):
        return RememberingReading(self)


class RememberingReading:
    def __init__(self, expert):
        self.expert = expert
        self.paths = {ROOT: ()}

    def grow(self, parents, tokens, asked):
        for parent, token in zip(parents, tokens, strict=True):
            self.paths[len(self.paths)] = (*self.paths[parent], token)
        self.expert.asked = max(self.expert.asked, len(asked))
        laws = [self.law(self.paths[node]) for node in asked]
        return torch.stack(laws) if laws else torch.empty(0, self.expert.spec.tokens.size)

    def law(self, path):
        seed = hash((self.expert.seed, path)) % 2**31  # of numbers alone: the same in every process
        return torch.randn(self.expert.spec.tokens.size, generator=seeded(seed)).log_softmax(-1)


def experts(pieces, seed):
    return [MarkovExpert.random(pieces, 1.5, seeded(seed)), Remembering(pieces, seed)]


EXPERTS = st.builds(
    lambda name, seed, which: experts(VOCABULARIES[name], seed)[which],
    st.sampled_from(sorted(VOCABULARIES)),
    SEEDS,
    st.integers(0, 1),
)


def spelt(expert, pattern):
    """The log-probability of every text that agrees with a pattern, summed over all cuts that end with it."""
    found, reading, size = {}, expert.read(), 1
    stack = [(b"", 0.0, ROOT)]
    while stack:
        text, score, node = stack.pop()
        if len(text) == len(pattern):
            found[text] = np.logaddexp(found.get(text, -math.inf), score)
            continue
        law = reading.grow([], [], [node])[0]
        for token, piece in enumerate(expert.spec.tokens.token_bytes):
            whole = text + piece
            fits = all(seen in (byte, BYTES.mask) for seen, byte in zip(pattern, whole, strict=False))
            if piece and fits and len(whole) <= len(pattern):
                reading.grow([node], [token], [])
                stack.append((whole, score + float(law[token]), size))
                size += 1
    return found


def random_energies(places, seed):
    generator = np.random.default_rng(seed)
    return {place: generator.normal(size=BYTES.size) for place in places}


def exact_scores(expert, text, region, energies):
    """The score of every fill of a region that is the whole text."""
    pattern = [BYTES.mask if place in region.open else byte for place, byte in enumerate(text)]
    return {
        region.fill_of(whole): score + sum(energies[place][whole[place]] for place in region.open)
        for whole, score in spelt(expert, pattern).items()
    }


class Bookworm:
    """Knows one text by heart: after four bytes of it, the next is likely. Its tokens are single bytes."""

    def __init__(self, text, name="bookworm"):
        self.spec = CausalSpec(name, Tokens([bytes([byte]) for byte in range(BYTES.size)]))
        self.after = {}
        for place in range(len(text)):
            self.after.setdefault(text[max(0, place - 4) : place], []).append(text[place])

    def read(self):
        return BookwormReading(self)


class BookwormReading:
    def __init__(self, worm):
        self.worm, self.paths = worm, {ROOT: b""}

    def grow(self, parents, tokens, asked):
        for parent, token in zip(parents, tokens, strict=True):
            self.paths[len(self.paths)] = (self.paths[parent] + bytes([token]))[-4:]
        laws = torch.full((len(asked), BYTES.size), 0.1)
        for row, node in enumerate(asked):
            for byte in self.worm.after.get(self.paths[node], []):
                laws[row, byte] += 1000.0
        return (laws / laws.sum(dim=1, keepdim=True)).log()
