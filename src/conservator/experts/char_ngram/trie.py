"""Character n-gram counts in a trie, and interpolated Kneser-Ney smoothing.

A node is a context: the characters before a position, nearest first. Let n be the total count of a context, n(c) the
count of character c in it, k the number of distinct characters in it, D the discount and p' the distribution in the
next shorter context. Then

    p(c) = (max(n(c) - D, 0) + r p'(c)) / n,   r = D k

where r is the backoff mass. The longest contexts count occurrences. A shorter context counts the number of contexts,
one character longer, in which a character occurred. Counts of pruned n-grams are added to r.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.numerics import compiled


@dataclass(frozen=True)
class CharNgramConfig:
    """Hyperparameters of the character n-gram models."""

    order: int = 8  # characters: length of the longest n-gram [LOG: ocr-correction]
    # counts: Kneser-Ney discount D; the best of 0.7 to 0.95 on held-out newspapers [LOG: ocr-correction]
    discount: float = 0.85
    # probability: of a reset of the mixture weights to their mean at each character [LOG: ocr-correction]
    reset_prob: float = 0.1
    uniform_mix: float = 0.02  # probability: mass of the uniform distribution in fitted mean weights [untuned]


CONFIG = CharNgramConfig()
ORDER = CONFIG.order
DISCOUNT = CONFIG.discount
UNIFORM = 1 / 0x110000  # probability: of each code point in the empty model [definition]
BITS = 21  # bits: size of a code point in a key [definition]
MAX_LOAD = 0.6  # fraction: of the slots of a hash table that may be used [numerical]
EMPTY = -1  # key: marks an unused slot [definition]


class Trie(NamedTuple):
    """Contexts and the characters that follow them. All arrays are modified in place.

    Attributes:
        context_keys: (S,) hash table of keys (context, preceding character); EMPTY in unused slots.
        context_nodes: (S,) node of the context that is longer by that character.
        gram_keys: (T,) hash table of keys (context, following character); EMPTY in unused slots.
        gram_counts: (T,) count n(c) of each n-gram.
        totals: (N,) total count n of each node.
        backoff_mass: (N,) backoff mass r of each node.
        used: (2,) number of nodes and number of n-grams.
        order: length of the longest n-gram in characters.
    """

    context_keys: Ints
    context_nodes: Ints
    gram_keys: Ints
    gram_counts: Floats
    totals: Floats
    backoff_mass: Floats
    used: Ints
    order: int

    @classmethod
    def empty(cls, roots: int = 1, order: int = ORDER, capacity: int = 1 << 12) -> "Trie":
        """Create a trie with ``roots`` empty contexts and without counts. ``capacity`` must be a power of two."""
        keys = np.full(capacity, EMPTY, dtype=np.int64)
        counts, totals, backoff_mass = np.zeros((3, capacity))
        nodes, used = np.zeros(capacity, dtype=np.int64), np.array([roots, 0])
        return cls(keys, nodes, keys.copy(), counts, totals, backoff_mass, used, order)

    def double_capacity(self) -> "Trie":
        """Return a copy with twice the capacity."""
        capacity = 2 * max(len(self.context_keys), len(self.gram_keys), len(self.totals))
        wider = Trie.empty(0, self.order, capacity)
        rehash(self.context_keys, self.context_nodes, wider.context_keys, wider.context_nodes)
        rehash(self.gram_keys, self.gram_counts, wider.gram_keys, wider.gram_counts)
        for old, new in ((self.totals, wider.totals), (self.backoff_mass, wider.backoff_mass)):
            new[: len(old)] = old
        wider.used[:] = self.used
        return wider

    def add_text(self, characters: Ints, root: int = 0) -> "Trie":
        """Count a text, given as code points (n,). Return this trie, or a larger copy if its capacity was exceeded."""
        trie, done = self, 0
        while done < len(characters):
            done = count_characters(trie, characters, done, root)
            if done < len(characters):
                trie = trie.double_capacity()
        return trie


@compiled
def find_slot(keys: Ints, key: int) -> int:
    """Return the slot of a key in a hash table, or the unused slot for it. ``len(keys)`` must be a power of two."""
    mixed = (np.uint64(key) ^ (np.uint64(key) >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    slot = int(np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(len(keys) - 1)))
    while keys[slot] != EMPTY and keys[slot] != key:
        slot = slot + 1 if slot + 1 < len(keys) else 0
    return slot


@compiled
def insert(keys: Ints, values: Ints | Floats, key: int, value: float) -> None:
    """Insert a key with its value into a hash table, or replace its value."""
    slot = find_slot(keys, key)
    keys[slot] = key
    values[slot] = value


@compiled
def rehash(keys: Ints, values: Ints | Floats, new_keys: Ints, new_values: Ints | Floats) -> None:
    """Copy a hash table into a larger one."""
    for slot in range(len(keys)):
        if keys[slot] != EMPTY:
            insert(new_keys, new_values, keys[slot], values[slot])


@compiled
def count_characters(trie: Trie, characters: Ints, start: int, root: int) -> int:
    """Count characters from ``start`` on. Return the first position that is not counted, because the trie is full."""
    path = np.zeros(trie.order, dtype=np.int64)
    for position in range(start, len(characters)):
        if trie.used[0] + trie.order > MAX_LOAD * len(trie.totals) or trie.used[1] + trie.order > MAX_LOAD * len(
            trie.gram_keys
        ):
            return position
        depth = min(trie.order - 1, position)
        path[0] = root
        for back in range(depth):
            key = (path[back] << BITS) | characters[position - 1 - back]
            slot = find_slot(trie.context_keys, key)
            if trie.context_keys[slot] == EMPTY:
                trie.context_keys[slot] = key
                trie.context_nodes[slot] = trie.used[0]
                trie.used[0] += 1
            path[back + 1] = trie.context_nodes[slot]
        for back in range(depth, -1, -1):
            key = (path[back] << BITS) | characters[position]
            slot = find_slot(trie.gram_keys, key)
            if trie.gram_keys[slot] == EMPTY:
                trie.gram_keys[slot] = key
                trie.used[1] += 1
            previous_count = trie.gram_counts[slot]
            trie.gram_counts[slot] += 1
            trie.totals[path[back]] += 1
            if previous_count > 0:
                break
            trie.backoff_mass[path[back]] += DISCOUNT
    return len(characters)


@compiled
def find_contexts(trie: Trie, root: int, history: Ints, path: Ints) -> int:
    """Write the nodes of the contexts of a position into ``path``, shortest first, and return their number.

    The last character of ``history`` precedes the position. The path ends before the first context without counts.
    """
    node, count = root, 0
    for back in range(trie.order):
        if back > 0:
            if back > len(history):
                break
            slot = find_slot(trie.context_keys, (node << BITS) | history[len(history) - back])
            if trie.context_keys[slot] == EMPTY:
                break
            node = trie.context_nodes[slot]
        if trie.totals[node] <= 0:
            break
        path[count] = node
        count += 1
    return count


@compiled
def probability(trie: Trie, path: Ints, character: int) -> float:
    """Compute p(character) given the contexts of a position, shortest first."""
    prob = UNIFORM
    for node in path:
        slot = find_slot(trie.gram_keys, (node << BITS) | character)
        count = trie.gram_counts[slot] if trie.gram_keys[slot] != EMPTY else 0.0
        prob = (max(count - DISCOUNT, 0.0) + trie.backoff_mass[node] * prob) / trie.totals[node]
    return prob
