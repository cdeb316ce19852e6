"""Retrieval: positions of a text whose surroundings match those of a byte, and their votes.

For a byte at l and a position j of the text, a is the number of bytes to the left of l and j that agree, and b the
number to the right, each at most ``max_match_bytes``. A hidden byte agrees with every byte and is not counted; a run of
more than ``max_hidden_run`` hidden bytes ends the match. Position j votes for its byte with the weight

    ((1 + a) (1 + b)) ** vote_exponent

The index proposes the positions: at most ``max_matches`` for each context of l.
"""

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.experts.memory.config import CONFIG
from conservator.experts.memory.index import Index, Text, context_hash
from conservator.numerics import compiled

SLOTS = 1024  # slots: hash table of visited positions; a power of two, above the number of matches [definition]
HASH_FACTOR = 40503  # factor: multiplicative hash of a position [definition]
_MAX_MATCH_BYTES = CONFIG.max_match_bytes
_MAX_HIDDEN_RUN = CONFIG.max_hidden_run
_VOTE_EXPONENT = CONFIG.vote_exponent
_MAX_MATCHES = CONFIG.max_matches


@compiled
def visible_byte(text: Text, position: int, window: Text, start: int) -> int:
    """Return the byte of the text at a position, or -1 if it is hidden. Inside the window, the window decides."""
    if start >= 0 and start <= position < start + len(window):
        return int(window[position - start])
    if 0 <= position < len(text):
        return int(text[position])
    return -1


@compiled
def match_length(text: Text, position: int, window: Text, start: int, target: int, side: int) -> int:
    """Count the bytes that agree on one side (-1 or 1) of ``target`` in the window and ``position`` in the text."""
    matched = skipped = 0
    for step in range(1, _MAX_MATCH_BYTES * (_MAX_HIDDEN_RUN + 1) + 1):
        in_window, in_text = target + side * step, position + side * step
        if in_window < 0 or in_window >= len(window) or in_text < 0 or in_text >= len(text):
            break
        window_byte, text_byte = window[in_window], visible_byte(text, in_text, window, start)
        if window_byte < 0 or text_byte < 0:
            skipped += 1
            if skipped > _MAX_HIDDEN_RUN:
                break
            continue
        if window_byte != text_byte:
            break
        skipped = 0
        matched += 1
        if matched == _MAX_MATCH_BYTES:
            break
    return matched


@compiled
def find_context(index: Index, shape: int, window: Text, target: int, side: int) -> tuple[int, np.int64]:
    """Find a context of the byte at ``target``: its position in the window and its hash, -1 if there is none.

    A surrounding context (``side`` 0) has the position of the byte. An n-gram context is the nearest visible one on the
    left (``side`` -1) or on the right (``side`` 1).
    """
    offsets, size = index.offsets[shape], index.sizes[shape]
    if side == 0:
        return target, context_hash(window, target, offsets, size, index.bits)
    position, hashed = target, np.int64(-1)
    for skipped in range(_MAX_HIDDEN_RUN + 1):
        position = target + 1 + skipped if side > 0 else target - size - skipped
        hashed = context_hash(window, position, offsets, size, index.bits)
        if hashed >= 0:
            break
    return position, hashed


@compiled
def retrieve(index: Index, window: Text, start: int, target: int, matches: Ints, votes: Floats, visited: Ints) -> int:
    """Find the positions of the text that match the surroundings of one byte, and return their number.

    Args:
        index: index of the text.
        window: (L,) the context; -1 at hidden positions.
        start: position of the window in the text; -1 if the window is from another text.
        target: position of the byte in the window.
        matches: (n,) output, the positions.
        votes: (n,) output, their votes.
        visited: (SLOTS,) scratch hash table of visited positions; all -1 before and after the call.
    """
    count, text = 0, index.text
    for shape in range(len(index.sizes)):
        size, offsets = index.sizes[shape], index.offsets[shape]
        surrounds = offsets[0] < 0
        for side in range(0 if surrounds else -1, 1 if surrounds else 2, 1 if surrounds else 2):
            anchor, bucket = find_context(index, shape, window, target, side)
            if bucket < 0:
                continue
            positions = index.positions[shape, index.starts[shape, bucket] : index.starts[shape, bucket + 1]]
            # In the same text, take the nearest positions on both sides in turn; in another text, spread over all.
            after = 0 if start < 0 else np.searchsorted(positions, start + anchor)
            step = max(1, len(positions) // _MAX_MATCHES) if start < 0 else 1
            before, taken = after - 1, 0
            while taken < _MAX_MATCHES and (before >= 0 or after < len(positions)):
                if before < 0:
                    candidate = positions[after]
                    after += step
                elif after >= len(positions) or start + anchor - positions[before] <= positions[after] - start - anchor:
                    candidate = positions[before]
                    before -= step
                else:
                    candidate = positions[after]
                    after += step
                position = candidate + target - anchor
                if (
                    position < 0
                    or position >= len(text)
                    or text[position] < 0
                    or visible_byte(text, position, window, start) < 0
                ):
                    continue
                same = True  # hashes may collide, and the window may hide bytes of the context
                for number in range(size):
                    if window[anchor + offsets[number]] != visible_byte(
                        text, candidate + offsets[number], window, start
                    ):
                        same = False
                        break
                if not same:
                    continue
                taken += 1
                slot = find_visited_slot(visited, position)
                if visited[slot] == position:
                    continue
                visited[slot] = position
                left = match_length(text, position, window, start, target, -1)
                right = match_length(text, position, window, start, target, 1)
                matches[count], votes[count] = position, float((1 + left) * (1 + right)) ** _VOTE_EXPONENT
                count += 1
    for number in range(count):
        slot = (matches[number] * HASH_FACTOR) & (SLOTS - 1)
        while visited[slot] >= 0:  # every entry belongs to this call, because the table was empty
            visited[slot] = -1
            slot = (slot + 1) & (SLOTS - 1)
    return count


@compiled
def find_visited_slot(visited: Ints, position: int) -> int:
    """Return the slot of a position in the table of visited positions, or the unused slot for it."""
    slot = (position * HASH_FACTOR) & (SLOTS - 1)
    while visited[slot] >= 0 and visited[slot] != position:
        slot = (slot + 1) & (SLOTS - 1)
    return slot


@compiled
def count_votes(
    index: Index, windows: Text, starts: Ints, window_of: Ints, targets: Ints, scale: float, votes: Floats
) -> None:
    """Add ``scale`` times the votes for each byte, at n targets, to ``votes`` (n, 256).

    Args:
        index: index of the text.
        windows: (B, L) contexts; -1 at hidden positions.
        starts: (B,) position of each window in the text; -1 if the window is from another text.
        window_of: (n,) window of each target.
        targets: (n,) position of each target in its window.
        scale: factor of the votes.
        votes: (n, 256) output.
    """
    max_votes = 2 * _MAX_MATCHES * len(index.sizes)
    matches, weights, visited = np.empty(max_votes, np.int64), np.empty(max_votes), np.full(SLOTS, -1)
    for number in range(len(targets)):
        row = window_of[number]
        count = retrieve(index, windows[row], starts[row], targets[number], matches, weights, visited)
        for match in range(count):
            votes[number, index.text[matches[match]]] += scale * weights[match]


@compiled
def best_positions(
    index: Index, windows: Text, starts: Ints, window_of: Ints, targets: Ints, tokens: Ints
) -> tuple[Ints, Floats]:
    """Find the position with the largest vote for the byte ``tokens`` (n,) at each target, or -1, and that vote.

    The other arguments are those of ``count_votes``.
    """
    max_votes = 2 * _MAX_MATCHES * len(index.sizes)
    matches, weights, visited = np.empty(max_votes, np.int64), np.empty(max_votes), np.full(SLOTS, -1)
    best, vote = np.full(len(targets), -1), np.zeros(len(targets))
    for number in range(len(targets)):
        row = window_of[number]
        count = retrieve(index, windows[row], starts[row], targets[number], matches, weights, visited)
        for match in range(count):
            if index.text[matches[match]] == tokens[number] and weights[match] > vote[number]:
                best[number], vote[number] = matches[match], weights[match]
    return best, vote
