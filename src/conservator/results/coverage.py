"""Lost text that the visible text around it does not determine."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conservator.vocabularies import BYTES

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Tokens = NDArray[np.int16]


@dataclass(frozen=True)
class LossConfig:
    """Limits of ``find_mostly_lost``.

    In the tuning documents, texts of the experts' domains with up to 80 % of their bytes lost at random stay below both
    limits; texts in Russian, Greek or Arabic that lost all their letters exceed one of them.
    """

    radius_bytes: int = 64  # bytes: neighbourhood on either side of a lost byte [LOG: undetermined-text]
    max_lost_share: float = 0.85  # share: above it a position is mostly lost [LOG: undetermined-text]
    max_lost_share_words: float = 0.5  # share: the same if whole words are lost [LOG: undetermined-text]
    # share: lost runs are whole words if at most this share of their edges is next to a letter or digit
    # [LOG: undetermined-text]
    max_edges_in_words: float = 0.1
    min_edges: int = 4  # edges: fewer do not show whether whole words are lost [untuned]


LOSS = LossConfig()


def find_mostly_lost(tokens: Tokens) -> Bools:
    """(L,) True at the lost bytes of a document whose neighbourhood is mostly lost.

    If text loses all letters of a script, as in a conversion to ASCII, blanks and punctuation remain, and the edges of
    the lost runs are word boundaries. Damage that does not depend on the text mostly cuts through words.

    Args:
        tokens: (L,) bytes, or the mask at a lost one.
    """
    lost = tokens == BYTES.mask
    word = is_word_byte(tokens)
    edge, beside_word = np.zeros((2, len(tokens)), dtype=bool)
    edge[1:] = lost[1:] != lost[:-1]
    beside_word[1:] = edge[1:] & (word[1:] | word[:-1])
    lost_share = count_nearby(lost) / count_nearby(np.ones(len(tokens), dtype=bool))
    edges = count_nearby(edge)
    whole_words = (edges >= LOSS.min_edges) & (count_nearby(beside_word) <= LOSS.max_edges_in_words * edges)
    mostly: Bools = lost & (
        (lost_share > LOSS.max_lost_share) | ((lost_share > LOSS.max_lost_share_words) & whole_words)
    )
    # Next to visible text, lost runs that consist of whole words join the mostly lost text beside them.
    run = np.cumsum(edge)
    touched = np.zeros(len(tokens) + 1, dtype=bool)
    touched[run[beside_word]] = touched[run[beside_word] - 1] = True
    mostly |= lost & ~touched[run] & (2 * count_nearby(mostly) > count_nearby(lost))
    return mostly


def byte_odds(tokens: Tokens) -> Floats:
    """(L,) the odds that a mark at each position stands for a byte, not for a character of several bytes; at most 1.

    If bytes are lost among characters of several bytes, parts of characters stay visible; the odds are then 1. If there
    are none, the text was decoded before it was damaged, and a mark stands for a character. Its odds of being ASCII are
    those of the visible characters around it.

    Args:
        tokens: (L,) bytes, or the mask at a lost one.
    """
    lost = tokens == BYTES.mask
    try:
        np.where(lost, ord(" "), tokens).astype(np.uint8).tobytes().decode()
    except UnicodeDecodeError:
        return np.ones(len(tokens))
    starts = ~lost & ((tokens & 0xC0) != 0x80)
    ascii_count, other_count = count_nearby(starts & (tokens < 0x80)), count_nearby(starts & (tokens >= 0x80))
    odds: Floats = np.minimum(1.0, (ascii_count + 1) / (other_count + 1))
    return odds


def scale_odds(probability: Floats, factor: Floats) -> Floats:
    """Return the probabilities (n,) whose odds are those of ``probability`` (n,) times ``factor`` (n,)."""
    scaled: Floats = probability * factor / (probability * factor + 1 - probability)
    return scaled


def is_word_byte(tokens: Tokens) -> Bools:
    """(L,) True at visible ASCII letters and digits, and at visible non-ASCII bytes."""
    word_bytes = np.zeros(BYTES.size + 1, dtype=bool)
    word_bytes[[byte for byte in range(BYTES.size) if byte >= 0x80 or chr(byte).isalnum()]] = True
    word_bytes[BYTES.mask] = False
    return word_bytes[tokens]


def count_nearby(flags: Bools) -> NDArray[np.int64]:
    """(L,) the number of True flags within ``LOSS.radius_bytes`` of each position."""
    total = np.concatenate([[0], np.cumsum(flags)])
    position, radius = np.arange(len(flags)), LOSS.radius_bytes
    counts: NDArray[np.int64] = (
        total[np.minimum(position + radius + 1, len(flags))] - total[np.maximum(position - radius, 0)]
    )
    return counts
