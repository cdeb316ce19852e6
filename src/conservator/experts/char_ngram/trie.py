"""Counts of characters in a row, and the law of the next character by interpolated Kneser-Ney smoothing.

A node is a context: the characters just before a place, the nearest first. With n the counts of a context, n(c) those
of a character in it, k the number of characters seen in it, D the discount and p' the law in the next shorter context,

    p(c) = (max(n(c) - D, 0) + r p'(c)) / n,   r = D k

The longest contexts count characters; a shorter one counts in how many contexts, one character longer, a character was
seen. So a text is taken back as exactly as it was counted. If rare grams are left out, their counts go to r.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conservator.numerics import compiled

ORDER = 8  # the most characters in a row that are counted
DISCOUNT = 0.85  # of those from 0.7 to 0.95, the best on newspapers kept apart
UNIFORM = 1 / 0x110000  # the law in no context: all code points alike
BITS = 21  # of a character
FULL = 0.6  # the share of slots that may be taken
EMPTY = -1

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Trie(NamedTuple):
    """Contexts and the characters that follow them; all arrays are written in place.

    Attributes:
        longer: (S,) keys of a context and the character before it, by hash; EMPTY in free slots.
        nodes: (S,) the node of that longer context.
        keys: (T,) keys of a context and the character after it, by hash; EMPTY in free slots.
        counts: (T,) how often it was seen.
        totals: (N,) n of each node.
        rests: (N,) r of each node.
        used: (2,) how many nodes and how many keys there are.
        order: the most characters in a row that are counted.
    """

    longer: Ints
    nodes: Ints
    keys: Ints
    counts: Floats
    totals: Floats
    rests: Floats
    used: Ints
    order: int

    @classmethod
    def empty(cls, roots: int = 1, order: int = ORDER, room: int = 1 << 12) -> "Trie":
        """A trie with some roots, that is contexts of no characters, and no counts."""
        free = np.full(room, EMPTY, dtype=np.int64)
        counts, totals, rests = np.zeros((3, room))
        return cls(
            free, np.zeros(room, dtype=np.int64), free.copy(), counts, totals, rests, np.array([roots, 0]), order
        )

    def with_room(self) -> "Trie":
        """This trie with twice as many slots, which shares nothing with it."""
        room = 2 * max(len(self.longer), len(self.keys), len(self.totals))
        wider = Trie.empty(0, self.order, room)
        move(self.longer, self.nodes, wider.longer, wider.nodes)
        move(self.keys, self.counts, wider.keys, wider.counts)
        for old, new in ((self.totals, wider.totals), (self.rests, wider.rests)):
            new[: len(old)] = old
        wider.used[:] = self.used
        return wider

    def counting(self, characters: Ints, root: int = 0) -> "Trie":
        """Count a text, given by its code points; return the trie, which is another one if this one became too full."""
        trie, done = self, 0
        while done < len(characters):
            done = count_some(trie, characters, done, root)
            if done < len(characters):
                trie = trie.with_room()
        return trie

    def take_back(self, characters: Ints, root: int = 0) -> None:
        """Count a text no longer that was counted before."""
        take_back(self, characters, root)


@compiled
def slot(keys: Ints, key: int) -> int:
    """Where a key stands among ``keys``, whose number is a power of two, or the free slot where it would."""
    mixed = (np.uint64(key) ^ (np.uint64(key) >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    place = int(np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(len(keys) - 1)))
    while keys[place] != EMPTY and keys[place] != key:
        place = place + 1 if place + 1 < len(keys) else 0
    return place


@compiled
def move(keys: Ints, values: Ints | Floats, new_keys: Ints, new_values: Ints | Floats) -> None:
    """Copy keys and their values into other slots."""
    for place in range(len(keys)):
        if keys[place] != EMPTY:
            there = slot(new_keys, keys[place])
            new_keys[there] = keys[place]
            new_values[there] = values[place]


@compiled
def count_some(trie: Trie, characters: Ints, start: int, root: int) -> int:
    """Count characters from ``start`` on; return the place before which all are counted: the end, unless it is full."""
    path = np.zeros(trie.order, dtype=np.int64)
    for place in range(start, len(characters)):
        if trie.used[0] + trie.order > FULL * len(trie.totals) or trie.used[1] + trie.order > FULL * len(trie.keys):
            return place
        depth = min(trie.order - 1, place)
        path[0] = root
        for back in range(depth):
            key = (path[back] << BITS) | characters[place - 1 - back]
            there = slot(trie.longer, key)
            if trie.longer[there] == EMPTY:
                trie.longer[there] = key
                trie.nodes[there] = trie.used[0]
                trie.used[0] += 1
            path[back + 1] = trie.nodes[there]
        for back in range(depth, -1, -1):
            key = (path[back] << BITS) | characters[place]
            there = slot(trie.keys, key)
            if trie.keys[there] == EMPTY:
                trie.keys[there] = key
                trie.used[1] += 1
            seen = trie.counts[there]
            trie.counts[there] += 1
            trie.totals[path[back]] += 1
            if seen > 0:
                break
            trie.rests[path[back]] += DISCOUNT
    return len(characters)


@compiled
def take_back(trie: Trie, characters: Ints, root: int) -> None:
    """Count characters no longer."""
    path = np.zeros(trie.order, dtype=np.int64)
    for place in range(len(characters)):
        depth = min(trie.order - 1, place)
        path[0] = root
        for back in range(depth):
            key = (path[back] << BITS) | characters[place - 1 - back]
            path[back + 1] = trie.nodes[slot(trie.longer, key)]
        for back in range(depth, -1, -1):
            there = slot(trie.keys, (path[back] << BITS) | characters[place])
            trie.counts[there] -= 1
            trie.totals[path[back]] -= 1
            if trie.counts[there] > 0:
                break
            trie.rests[path[back]] -= DISCOUNT


@compiled
def find_contexts(trie: Trie, root: int, history: Ints, path: Ints) -> int:
    """Write the contexts of a place into ``path``, the shortest first, and return how many there are.

    The last of ``history`` stands just before the place. A context that was never seen ends the path.
    """
    node, count = root, 0
    for back in range(trie.order):
        if back > 0:
            if back > len(history):
                break
            there = slot(trie.longer, (node << BITS) | history[len(history) - back])
            if trie.longer[there] == EMPTY:
                break
            node = trie.nodes[there]
        if trie.totals[node] <= 0:
            break
        path[count] = node
        count += 1
    return count


@compiled
def probability(trie: Trie, path: Ints, character: int) -> float:
    """p(character) in the contexts of a place, the shortest first."""
    found = UNIFORM
    for node in path:
        there = slot(trie.keys, (node << BITS) | character)
        seen = trie.counts[there] if trie.keys[there] != EMPTY else 0.0
        found = (max(seen - DISCOUNT, 0.0) + trie.rests[node] * found) / trie.totals[node]
    return found
