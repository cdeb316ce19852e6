"""Named character n-gram models, and a mixture whose weights adapt to the text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.experts.char_ngram.trie import (
    BITS,
    CONFIG,
    EMPTY,
    MAX_LOAD,
    ORDER,
    Trie,
    find_contexts,
    insert,
    probability,
)
from conservator.numerics import compiled

REFERENCES = "references"  # name of the model that is counted on the reference texts
WORDS = "words"  # name of the model that is counted on the words of the user


def code_points(text: str) -> Ints:
    """Return the code points (n,) of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)


@dataclass(frozen=True)
class CharNgramModel:
    """Character n-gram model.

    Attributes:
        name: name in reports.
        trie: counts, with one root.
    """

    name: str
    trie: Trie

    @classmethod
    def of(cls, name: str, texts: Iterable[str], order: int = ORDER) -> "CharNgramModel":
        """Count texts. Each text starts on a new line."""
        trie = Trie.empty(order=order)
        for text in texts:
            trie = trie.add_text(code_points("\n" + text))
        return cls(name, trie)


@dataclass(frozen=True)
class CharNgramMixture:
    """Mixture of character n-gram models with weights per position.

    The weight of a model at a character is its posterior given the preceding characters, interpolated with the mean
    weights: a composition field of causal experts that is inferred from the left only.

    Attributes:
        names: names of the m models.
        trie: counts of all models.
        roots: (m,) root of each model in the trie.
        weights: (m,) mean weights.
        reset_prob: weight of the mean weights in the interpolation.
    """

    names: tuple[str, ...]
    trie: Trie
    roots: Ints
    weights: Floats
    reset_prob: float = CONFIG.reset_prob

    @classmethod
    def of(cls, models: Sequence[CharNgramModel]) -> "CharNgramMixture":
        """Create a mixture with equal weights."""
        count = len(models)
        trie, weights = join([model.trie for model in models]), np.full(count, 1 / count)
        return cls(tuple(model.name for model in models), trie, np.arange(count), weights)

    def subset(self, indices: Sequence[int]) -> "CharNgramMixture":
        """Select models by index, with equal weights."""
        names, weights = tuple(self.names[index] for index in indices), np.full(len(indices), 1 / len(indices))
        return replace(self, names=names, roots=self.roots[list(indices)], weights=weights)

    def add(self, other: "CharNgramMixture", weight: float) -> "CharNgramMixture":
        """Add the models of a mixture with the same trie; ``weight``: the sum of their weights."""
        roots, weights = (
            np.append(self.roots, other.roots),
            np.append((1 - weight) * self.weights, weight * other.weights),
        )
        return replace(self, names=self.names + other.names, roots=roots, weights=weights)

    def append(self, model: CharNgramModel, weight: float) -> "CharNgramMixture":
        """Add a model, whose counts are copied into a copy of the trie, with the mean weight ``weight``."""
        trie = self.trie
        nodes, grams = int(trie.used[0] + model.trie.used[0]), int(trie.used[1] + model.trie.used[1])
        trie = Trie._make(value if isinstance(value, int) else value.copy() for value in trie)
        trie = trie._replace(order=max(trie.order, model.trie.order))
        while max(nodes + 1, grams) > MAX_LOAD * min(map(len, (trie.context_keys, trie.gram_keys, trie.totals))):
            trie = trie.double_capacity()
        root = int(trie.used[0])
        trie.used[0] += 1
        copy_trie(model.trie, trie, root)
        weights = np.append((1 - weight) * self.weights, weight)
        return replace(
            self, names=(*self.names, model.name), trie=trie, roots=np.append(self.roots, root), weights=weights
        )

    @cached_property
    def alphabet(self) -> str:
        """Characters with a count in any of the models, without line breaks."""
        keys = self.trie.gram_keys[self.trie.gram_keys != EMPTY]
        observed = np.unique(keys[np.isin(keys >> BITS, self.roots)] & ((1 << BITS) - 1))
        return "".join(char for char in map(chr, observed.tolist()) if char.splitlines() == [char])

    def log_probs(self, text: str, history: str = "\n") -> Floats:
        """Compute log p of each character of a text (n,) given the characters before it; ``history`` precedes it."""
        characters = code_points(history + text)
        return score_characters(self.trie, self.roots, self.weights, self.reset_prob, characters, len(history))[0]

    def fit_weights(self, text: str, iterations: int = 3) -> "CharNgramMixture":
        """Set the mean weights to the mean posterior weights on a text, mixed with the uniform distribution."""
        mixture, characters = self, code_points("\n" + text)
        for _ in range(iterations):
            _, weights = score_characters(
                mixture.trie, mixture.roots, mixture.weights, mixture.reset_prob, characters, 1
            )
            weights = (1 - CONFIG.uniform_mix) * weights + CONFIG.uniform_mix / len(weights)
            mixture = replace(self, weights=weights)
        return mixture


@compiled
def score_characters(
    trie: Trie, roots: Ints, weights: Floats, reset_prob: float, characters: Ints, start: int
) -> tuple[Floats, Floats]:
    """Compute log p (n,) of each character from ``start`` on, and the mean posterior weights (m,) of the models."""
    log_probs = np.zeros(len(characters) - start)
    current, mean = weights.copy(), np.zeros(len(weights))
    paths, counts = np.zeros((len(roots), trie.order), dtype=np.int64), np.zeros(len(roots), dtype=np.int64)
    for position in range(start, len(characters)):
        find_all_contexts(trie, roots, characters[max(0, position - trie.order + 1) : position], paths, counts)
        log_probs[position - start] = np.log(
            mix(trie, paths, counts, weights, reset_prob, characters[position], current)
        )
        mean += current
    return log_probs, mean / max(1, len(log_probs))


@compiled
def find_all_contexts(trie: Trie, roots: Ints, history: Ints, paths: Ints, counts: Ints) -> None:
    """Write the contexts of a position in each model into ``paths`` (m, order), and their numbers into ``counts``."""
    for model in range(len(roots)):
        counts[model] = find_contexts(trie, roots[model], history, paths[model])


@compiled
def mix(
    trie: Trie, paths: Ints, counts: Ints, weights: Floats, reset_prob: float, character: int, current: Floats
) -> float:
    """Compute p(character) with the weights ``current`` (m,), and update them in place for the next character."""
    total = 0.0
    for model in range(len(current)):
        current[model] *= probability(trie, paths[model, : counts[model]], character)
        total += current[model]
    for model in range(len(current)):
        current[model] = (1 - reset_prob) * current[model] / total + reset_prob * weights[model]
    return total


def join(tries: Sequence[Trie]) -> Trie:
    """Join tries with one root each into one trie with several roots."""
    nodes, grams = sum(int(trie.used[0]) for trie in tries), sum(int(trie.used[1]) for trie in tries)
    capacity = 1 << max(12, int(np.ceil(2 * max(nodes, grams))).bit_length())
    joined = Trie.empty(len(tries), max(trie.order for trie in tries), capacity)
    for root, trie in enumerate(tries):
        copy_trie(trie, joined, root)
    return joined


@compiled
def move_key(key: int, root: int, shift: int) -> int:
    """Return the key of an entry of a trie with one root in a trie in which its nodes have other numbers."""
    node = key >> BITS
    return ((root if node == 0 else node + shift) << BITS) | (key & ((1 << BITS) - 1))


@compiled
def copy_trie(old: Trie, new: Trie, root: int) -> None:
    """Add the counts of a trie with one root to another trie, below ``root``."""
    shift = new.used[0] - 1  # node 1 of the old trie becomes the first unused node
    for slot in range(len(old.context_keys)):
        if old.context_keys[slot] != EMPTY:
            key = move_key(old.context_keys[slot], root, shift)
            insert(new.context_keys, new.context_nodes, key, old.context_nodes[slot] + shift)
    for slot in range(len(old.gram_keys)):
        if old.gram_keys[slot] != EMPTY:
            insert(new.gram_keys, new.gram_counts, move_key(old.gram_keys[slot], root, shift), old.gram_counts[slot])
    for old_node in range(old.used[0]):
        node = root if old_node == 0 else old_node + shift
        new.totals[node] = old.totals[old_node]
        new.backoff_mass[node] = old.backoff_mass[old_node]
    new.used[0] += old.used[0] - 1
    new.used[1] += old.used[1]
