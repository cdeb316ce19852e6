"""Index of a text: the positions of every short context, built in linear time."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conservator.arrays import Ints
from conservator.numerics import compiled

Text = NDArray[np.int16]
UNKNOWN = -1  # byte: marks a lost byte, and the separator of two references [definition]
MAX_CONTEXT_BYTES = 8  # bytes: size of the largest context [definition]


def ngram_context(size: int) -> list[int]:
    """Return the offsets of ``size`` consecutive bytes; the position of the context is its first byte."""
    return list(range(size))


def surrounding_context(radius: int) -> list[int]:
    """Return the offsets of ``radius`` bytes on each side of a byte; the position of the context is that byte."""
    return [*range(-radius, 0), *range(1, radius + 1)]


class Index(NamedTuple):
    """Positions of the contexts of a text, by the hash of their bytes.

    Attributes:
        text: (N,) int16, bytes of the text; UNKNOWN where there is none.
        offsets: (S, MAX_CONTEXT_BYTES) offsets of the bytes of each of S context shapes, relative to its position.
        sizes: (S,) number of bytes of each context shape.
        bits: size of a hash in bits.
        starts: (S, 2 ** bits + 1) index in ``positions`` of the first position of each hash.
        positions: (S, up to N) positions of the contexts without UNKNOWN bytes: by hash, then ascending.
    """

    text: Text
    offsets: Ints
    sizes: Ints
    bits: int
    starts: NDArray[np.int32]
    positions: NDArray[np.int32]


def context_shapes(shapes: list[list[int]]) -> tuple[Ints, Ints]:
    """Return the offsets (S, MAX_CONTEXT_BYTES) and the sizes (S,) of context shapes."""
    sizes = np.array([len(shape) for shape in shapes])
    offsets = np.zeros((len(shapes), MAX_CONTEXT_BYTES), dtype=np.int64)
    for index, shape in enumerate(shapes):
        offsets[index, : len(shape)] = shape
    return offsets, sizes


def hash_bits(length: int) -> int:
    """Return the size of a hash in bits for a text of ``length`` bytes."""
    return max(8, length.bit_length() - 2)


def build_index(text: Text, shapes: list[list[int]]) -> Index:
    """Index a text by contexts of the given shapes."""
    offsets, sizes = context_shapes(shapes)
    bits = hash_bits(len(text))
    return Index(text, offsets, sizes, bits, *sort_contexts(text, offsets, sizes, bits))


@compiled
def context_hash(text: Text, position: int, offsets: Ints, size: int, bits: int) -> np.int64:
    """Compute the hash, of ``bits`` bits, of the context at a position; -1 if one of its bytes is unknown."""
    key = np.uint64(0)
    for number in range(size):
        byte_position = position + offsets[number]
        if byte_position < 0 or byte_position >= len(text) or text[byte_position] < 0:
            return np.int64(-1)
        key = (key << np.uint64(8)) | np.uint64(text[byte_position])
    mixed = (key ^ (key >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(64 - bits))


@compiled
def sort_contexts(text: Text, offsets: Ints, sizes: Ints, bits: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Sort the contexts of a text by hash, with counting sort; return ``starts`` and ``positions`` of an Index."""
    shapes, buckets = len(sizes), 1 << bits
    starts = np.zeros((shapes, buckets + 1), dtype=np.int32)
    positions = np.zeros((shapes, len(text)), dtype=np.int32)
    hashes = np.empty(len(text), dtype=np.int32)
    for shape in range(shapes):
        for position in range(len(text)):
            hashed = context_hash(text, position, offsets[shape], sizes[shape], bits)
            hashes[position] = hashed
            if hashed >= 0:
                starts[shape, hashed + 1] += 1
        for bucket in range(buckets):
            starts[shape, bucket + 1] += starts[shape, bucket]
        filled = starts[shape, :buckets].copy()
        for position in range(len(text)):
            bucket = hashes[position]
            if bucket >= 0:
                positions[shape, filled[bucket]] = position
                filled[bucket] += 1
    return starts, positions
