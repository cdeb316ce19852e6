"""Recall: the places of a text whose surroundings match those of a byte, and how much each of them counts.

For a byte at l and a place j of the text, a is how many bytes to the left of l and of j agree, b how many to the right,
each at most REACH. A byte that is hidden agrees with any and counts nothing; more than SKIPPED in a row end the match.
The byte that stands at j gets the vote

    ((1 + a) (1 + b)) ** POWER

The index finds the places: for each context of l, at most MOST of them.
"""

import numpy as np
from numpy.typing import NDArray

from conservator.experts.memory.index import Index, Ints, Text, context_hash
from conservator.numerics import compiled

REACH = 8  # bytes that are compared on either side
SKIPPED = 16  # hidden bytes in a row that a match may pass
POWER = 6
MOST = 32
SLOTS = 1024  # a power of two, well above the number of places that are looked at for a byte
Floats = NDArray[np.float64]


@compiled
def seen_at(text: Text, place: int, row: Text, start: int) -> int:
    """The byte of the text at a place. Where the window ``row`` covers it, the window tells what is visible."""
    if start >= 0 and start <= place < start + len(row):
        return int(row[place - start])
    if 0 <= place < len(text):
        return int(text[place])
    return -1


@compiled
def agreeing(text: Text, place: int, row: Text, start: int, asked: int, side: int) -> int:
    """How many bytes agree on one side (-1 or 1) of ``asked`` in the window and of ``place`` in the text."""
    found = skipped = 0
    for step in range(1, REACH * (SKIPPED + 1) + 1):
        here, there = asked + side * step, place + side * step
        if here < 0 or here >= len(row) or there < 0 or there >= len(text):
            break
        ours, theirs = row[here], seen_at(text, there, row, start)
        if ours < 0 or theirs < 0:
            skipped += 1
            if skipped > SKIPPED:
                break
            continue
        if ours != theirs:
            break
        skipped = 0
        found += 1
        if found == REACH:
            break
    return found


@compiled
def find_context(index: Index, shape: int, row: Text, asked: int, side: int) -> tuple[int, np.int64]:
    """A context of the byte at ``asked``: its place in the window, and its hash, which is -1 if there is none.

    A context around the byte stands there. A context of bytes in a row is taken from the left (``side`` -1) or from the
    right, as near to the byte as it is visible.
    """
    offsets, size = index.offsets[shape], index.sizes[shape]
    if side == 0:
        return asked, context_hash(row, asked, offsets, size, index.bits)
    place, found = asked, np.int64(-1)
    for skipped in range(SKIPPED + 1):
        place = asked + 1 + skipped if side > 0 else asked - size - skipped
        found = context_hash(row, place, offsets, size, index.bits)
        if found >= 0:
            break
    return place, found


@compiled
def retrieve(index: Index, row: Text, start: int, asked: int, found: Ints, votes: Floats, visited: Ints) -> int:
    """Find places of the text whose surroundings match those of one byte, and their votes; return how many.

    Args:
        index: of the text.
        row: (L,) the window that is read; -1 where it is hidden.
        start: where the window stands in the text; -1 if the text is another.
        asked: the place of the byte in the window.
        found: (n,) is filled with the places.
        votes: (n,) is filled with their votes.
        visited: (SLOTS,) all -1: a table of the places that were looked at. It is left as it was.
    """
    count, text = 0, index.text
    for shape in range(len(index.sizes)):
        size, offsets = index.sizes[shape], index.offsets[shape]
        around = offsets[0] < 0
        for side in range(0 if around else -1, 1 if around else 2, 1 if around else 2):
            anchor, bucket = find_context(index, shape, row, asked, side)
            if bucket < 0:
                continue
            places = index.places[shape, index.starts[shape, bucket] : index.starts[shape, bucket + 1]]
            # The nearest places of the same text, on both sides in turn; of another text, places all over it.
            after = 0 if start < 0 else np.searchsorted(places, start + anchor)
            step = max(1, len(places) // MOST) if start < 0 else 1
            before, taken = after - 1, 0
            while taken < MOST and (before >= 0 or after < len(places)):
                if before < 0:
                    there = places[after]
                    after += step
                elif after >= len(places) or start + anchor - places[before] <= places[after] - start - anchor:
                    there = places[before]
                    before -= step
                else:
                    there = places[after]
                    after += step
                place = there + asked - anchor
                if place < 0 or place >= len(text) or text[place] < 0 or seen_at(text, place, row, start) < 0:
                    continue
                same = True  # the hash only suggests it, and the window may hide it
                for number in range(size):
                    if row[anchor + offsets[number]] != seen_at(text, there + offsets[number], row, start):
                        same = False
                        break
                if not same:
                    continue
                taken += 1
                slot = find_slot(visited, place)
                if visited[slot] == place:
                    continue
                visited[slot] = place
                left = agreeing(text, place, row, start, asked, -1)
                right = agreeing(text, place, row, start, asked, 1)
                found[count], votes[count] = place, float((1 + left) * (1 + right)) ** POWER
                count += 1
    for number in range(count):
        slot = (found[number] * 40503) & (SLOTS - 1)
        while visited[slot] >= 0:  # this byte's own entries: the table was empty
            visited[slot] = -1
            slot = (slot + 1) & (SLOTS - 1)
    return count


@compiled
def find_slot(visited: Ints, place: int) -> int:
    """The slot of a place in the table of those that were looked at, or the one where it belongs."""
    slot = (place * 40503) & (SLOTS - 1)
    while visited[slot] >= 0 and visited[slot] != place:
        slot = (slot + 1) & (SLOTS - 1)
    return slot


@compiled
def count_votes(index: Index, rows: Text, starts: Ints, row_of: Ints, asked: Ints, scale: float, votes: Floats) -> None:
    """Add ``scale`` times the votes for each byte, at n positions, to ``votes`` (n, 256).

    Args:
        index: of the text.
        rows: (B, L) the windows that are read; -1 where they are hidden.
        starts: (B,) where each window stands in the text; -1 if the text is another.
        row_of: (n,) the window of each position.
        asked: (n,) the place of each position in its window.
        scale: what the votes are multiplied by.
        votes: (n, 256).
    """
    most = 2 * MOST * len(index.sizes)
    found, each, visited = np.empty(most, np.int64), np.empty(most), np.full(SLOTS, -1)
    for number in range(len(asked)):
        row = row_of[number]
        count = retrieve(index, rows[row], starts[row], asked[number], found, each, visited)
        for one in range(count):
            votes[number, index.text[found[one]]] += scale * each[one]


@compiled
def best_places(index: Index, rows: Text, starts: Ints, row_of: Ints, asked: Ints, tokens: Ints) -> tuple[Ints, Floats]:
    """The place with the largest vote for the byte ``tokens`` (n,) at each position, or -1, and that vote.

    The other arguments are those of ``count_votes``.
    """
    most = 2 * MOST * len(index.sizes)
    found, each, visited = np.empty(most, np.int64), np.empty(most), np.full(SLOTS, -1)
    best, vote = np.full(len(asked), -1), np.zeros(len(asked))
    for number in range(len(asked)):
        row = row_of[number]
        count = retrieve(index, rows[row], starts[row], asked[number], found, each, visited)
        for one in range(count):
            if index.text[found[one]] == tokens[number] and each[one] > vote[number]:
                best[number], vote[number] = found[one], each[one]
    return best, vote
