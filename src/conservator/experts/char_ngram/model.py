"""Models of characters by name, and the mixture of several, whose weights follow the text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from conservator.experts.char_ngram.trie import BITS, EMPTY, ORDER, Floats, Ints, Trie, find_contexts, probability, slot
from conservator.numerics import compiled

REFERENCES = "like"  # the name of the model of reference texts
SHARE = 0.1  # of the weights that returns to the mean weights at each character


def code_points(text: str) -> Ints:
    """(n,) the characters of a text as numbers."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)


@dataclass(frozen=True)
class CharNgramModel:
    """A model of characters in a row.

    Attributes:
        name: its name in reports.
        trie: its counts, with one root.
    """

    name: str
    trie: Trie

    @classmethod
    def of(cls, name: str, texts: Iterable[str], order: int = ORDER) -> "CharNgramModel":
        """Count texts; each begins a new line."""
        trie = Trie.empty(order=order)
        for text in texts:
            trie = trie.counting(code_points("\n" + text))
        return cls(name, trie)


@dataclass(frozen=True)
class CharNgramMixture:
    """Several models whose weights follow the text, position by position.

    The weight of a model at a character is its posterior after the characters before, of which a share returns to the
    mean weights: the field of causal experts, which is inferred from one side.

    Attributes:
        names: of the m models.
        trie: their counts.
        roots: (m,) the root of each model in it.
        weights: (m,) the mean weights.
        share: of the weights that returns to them at each character.
    """

    names: tuple[str, ...]
    trie: Trie
    roots: Ints
    weights: Floats
    share: float = SHARE

    @classmethod
    def of(cls, models: Sequence[CharNgramModel]) -> "CharNgramMixture":
        """The mixture of models, with equal weights."""
        count = len(models)
        trie, weights = join([one.trie for one in models]), np.full(count, 1 / count)
        return cls(tuple(one.name for one in models), trie, np.arange(count), weights)

    def only(self, numbers: Sequence[int]) -> "CharNgramMixture":
        """Some of the models, by their numbers, with equal weights."""
        names, weights = tuple(self.names[one] for one in numbers), np.full(len(numbers), 1 / len(numbers))
        return replace(self, names=names, roots=self.roots[list(numbers)], weights=weights)

    @cached_property
    def alphabet(self) -> str:
        """The characters that any of the models has seen, but for those that end a line."""
        keys = self.trie.keys[self.trie.keys != EMPTY]
        seen = np.unique(keys[np.isin(keys >> BITS, self.roots)] & ((1 << BITS) - 1))
        return "".join(one for one in map(chr, seen.tolist()) if one.splitlines() == [one])

    def log_probs(self, text: str, history: str = "\n") -> Floats:
        """(n,) log p of each character of a text, after a history and the characters before it."""
        return read(self.trie, self.roots, self.weights, self.share, code_points(history + text), len(history))[0]

    def fitted(self, text: str, rounds: int = 3) -> "CharNgramMixture":
        """The mixture with mean weights that are those which it has on average in a text."""
        found = self
        for _ in range(rounds):
            _, weights = read(found.trie, found.roots, found.weights, found.share, code_points("\n" + text), 1)
            found = replace(self, weights=0.98 * weights + 0.02 / len(weights))
        return found


@compiled
def read(trie: Trie, roots: Ints, weights: Floats, share: float, characters: Ints, start: int) -> tuple[Floats, Floats]:
    """Log p of each character from ``start`` on (n,), and the mean posterior weights (m,) of the models."""
    found = np.zeros(len(characters) - start)
    now, mean = weights.copy(), np.zeros(len(weights))
    paths, counts = np.zeros((len(roots), trie.order), dtype=np.int64), np.zeros(len(roots), dtype=np.int64)
    for place in range(start, len(characters)):
        find_all(trie, roots, characters[max(0, place - trie.order + 1) : place], paths, counts)
        found[place - start] = np.log(mix(trie, paths, counts, weights, share, characters[place], now))
        mean += now
    return found, mean / max(1, len(found))


@compiled
def find_all(trie: Trie, roots: Ints, history: Ints, paths: Ints, counts: Ints) -> None:
    """Write the contexts of a place in each model into ``paths`` (m, order), and how many there are into ``counts``."""
    for model in range(len(roots)):
        counts[model] = find_contexts(trie, roots[model], history, paths[model])


@compiled
def mix(trie: Trie, paths: Ints, counts: Ints, weights: Floats, share: float, character: int, now: Floats) -> float:
    """P of a character under the mixture with weights ``now`` (m,), which become those of the next character."""
    total = 0.0
    for model in range(len(now)):
        now[model] *= probability(trie, paths[model, : counts[model]], character)
        total += now[model]
    for model in range(len(now)):
        now[model] = (1 - share) * now[model] / total + share * weights[model]
    return total


def join(tries: Sequence[Trie]) -> Trie:
    """One trie with the counts of several, which have one root each."""
    nodes, keys = sum(int(one.used[0]) for one in tries), sum(int(one.used[1]) for one in tries)
    room = 1 << max(12, int(np.ceil(2 * max(nodes, keys))).bit_length())
    joined = Trie.empty(len(tries), max(one.order for one in tries), room)
    for root, one in enumerate(tries):
        copy_trie(one, joined, root)
    return joined


@compiled
def copy_trie(old: Trie, new: Trie, root: int) -> None:
    """Add the counts of a trie with one root to another, in which the root has a number."""
    first = new.used[0] - 1  # the old node 1 becomes the next free one
    for place in range(len(old.longer)):
        if old.longer[place] != EMPTY:
            node = old.longer[place] >> BITS
            key = ((root if node == 0 else node + first) << BITS) | (old.longer[place] & ((1 << BITS) - 1))
            there = slot(new.longer, key)
            new.longer[there] = key
            new.nodes[there] = old.nodes[place] + first
    for place in range(len(old.keys)):
        if old.keys[place] != EMPTY:
            node = old.keys[place] >> BITS
            key = ((root if node == 0 else node + first) << BITS) | (old.keys[place] & ((1 << BITS) - 1))
            there = slot(new.keys, key)
            new.keys[there] = key
            new.counts[there] = old.counts[place]
    for node in range(old.used[0]):
        there = root if node == 0 else node + first
        new.totals[there] = old.totals[node]
        new.rests[there] = old.rests[node]
    new.used[0] += old.used[0] - 1
    new.used[1] += old.used[1]
