"""Lost text that the visible text around it does not determine."""

import numpy as np
from numpy.typing import NDArray

from conservator.vocabularies import BYTES

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Tokens = NDArray[np.int16]

REACH = 64  # bytes on either side of a lost byte: its surroundings
# In documents that were used for tuning, texts of the experts' kinds with up to 80 % of their bytes lost at random stay
# below both limits; texts in Russian, Greek or Arabic that lost all their letters exceed one of them.
NEARLY_ALL = 0.85  # the share of lost bytes above which a place is mostly lost
MOST = 0.5  # a smaller share, which counts if whole words are lost
TOUCHING = 0.1  # then at most this share of the edges of lost runs is beside a letter or digit
EDGES = 4  # the least number of such edges that tell


def find_mostly_lost(tokens: Tokens) -> Bools:
    """(L,) True at the lost bytes of a document whose surroundings are mostly lost.

    If text loses all letters of a script, as in a conversion to ASCII, blanks and punctuation remain, and the edges of
    the lost runs are the edges of words. Damage that does not depend on the text mostly cuts through words.

    Args:
        tokens: (L,) bytes, or the mask at a lost one.
    """
    lost = tokens == BYTES.mask
    word = is_word_byte(tokens)
    edge, beside_word = np.zeros((2, len(tokens)), dtype=bool)
    edge[1:] = lost[1:] != lost[:-1]
    beside_word[1:] = edge[1:] & (word[1:] | word[:-1])
    share = around(lost) / around(np.ones(len(tokens), dtype=bool))
    edges = around(edge)
    whole_words = (edges >= EDGES) & (around(beside_word) <= TOUCHING * edges)
    found: Bools = lost & ((share > NEARLY_ALL) | ((share > MOST) & whole_words))
    # At the edge of visible text, words that are lost as a whole belong to the lost text that they stand beside.
    run = np.cumsum(edge)
    touched = np.zeros(len(tokens) + 1, dtype=bool)
    touched[run[beside_word]] = touched[run[beside_word] - 1] = True
    found |= lost & ~touched[run] & (2 * around(found) > around(lost))
    return found


def byte_odds(tokens: Tokens) -> Floats:
    """(L,) the odds that a mark at each place stands for a byte, and not for a character of several bytes; at most 1.

    Where bytes are lost among characters of several bytes, halves of characters stay visible; then the odds are 1. If
    there are none, the text was decoded before it was damaged, and a mark stands for a character. It is as likely to be
    one of ASCII as the visible characters around it are.

    Args:
        tokens: (L,) bytes, or the mask at a lost one.
    """
    lost = tokens == BYTES.mask
    try:
        np.where(lost, ord(" "), tokens).astype(np.uint8).tobytes().decode()
    except UnicodeDecodeError:
        return np.ones(len(tokens))
    begins = ~lost & ((tokens & 0xC0) != 0x80)
    odds: Floats = np.minimum(1.0, (around(begins & (tokens < 0x80)) + 1) / (around(begins & (tokens >= 0x80)) + 1))
    return odds


def with_odds(confidence: Floats, odds: Floats) -> Floats:
    """The probabilities whose odds are those of ``confidence`` (n,) times ``odds`` (n,)."""
    found: Floats = confidence * odds / (confidence * odds + 1 - confidence)
    return found


def is_word_byte(tokens: Tokens) -> Bools:
    """(L,) True at visible letters and digits of ASCII, and at bytes of other characters."""
    letters = np.zeros(BYTES.size + 1, dtype=bool)
    letters[[byte for byte in range(BYTES.size) if byte >= 0x80 or chr(byte).isalnum()]] = True
    letters[BYTES.mask] = False
    return letters[tokens]


def around(flags: Bools) -> NDArray[np.int64]:
    """(L,) how many of the flags within REACH of each position are True."""
    total = np.concatenate([[0], np.cumsum(flags)])
    place = np.arange(len(flags))
    counts: NDArray[np.int64] = total[np.minimum(place + REACH + 1, len(flags))] - total[np.maximum(place - REACH, 0)]
    return counts
