"""An index of a text: the places of every short context in it, built in linear time."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conservator.numerics import compiled

Ints = NDArray[np.int64]
Text = NDArray[np.int16]
UNKNOWN = -1  # in a text: a byte that is lost, or the end of one reference before the next
WIDEST = 8  # the most bytes of a context


def gram(size: int) -> list[int]:
    """A context of ``size`` bytes in a row, counted from the first."""
    return list(range(size))


def around(size: int) -> list[int]:
    """A context of ``size`` bytes on either side of the byte that it is a context of."""
    return [*range(-size, 0), *range(1, size + 1)]


class Index(NamedTuple):
    """The places of contexts in a text, by the hash of their bytes.

    Attributes:
        text: (N,) int16, the bytes of the text; UNKNOWN where there is none.
        offsets: (S, WIDEST) for each of S shapes of contexts, where its bytes stand relative to its place.
        sizes: (S,) how many bytes a context of each shape has.
        bits: of a hash.
        starts: (S, 2 ** bits + 1) where the places of each hash begin in ``places``.
        places: (S, up to N) the places of the contexts whose bytes are all known: by hash, then ascending.
    """

    text: Text
    offsets: Ints
    sizes: Ints
    bits: int
    starts: NDArray[np.int32]
    places: NDArray[np.int32]


def context_shapes(shapes: list[list[int]]) -> tuple[Ints, Ints]:
    """The offsets (S, WIDEST) and sizes (S,) of contexts of some shapes."""
    offsets, sizes = np.zeros((len(shapes), WIDEST), dtype=np.int64), np.array([len(one) for one in shapes])
    for number, shape in enumerate(shapes):
        offsets[number, : len(shape)] = shape
    return offsets, sizes


def hash_bits(length: int) -> int:
    """The bits of a hash in the index of a text of so many bytes."""
    return max(8, length.bit_length() - 2)


def build_index(text: Text, shapes: list[list[int]]) -> Index:
    """Index a text by contexts of some shapes."""
    offsets, sizes = context_shapes(shapes)
    bits = hash_bits(len(text))
    return Index(text, offsets, sizes, bits, *sort_contexts(text, offsets, sizes, bits))


@compiled
def context_hash(text: Text, place: int, offsets: Ints, size: int, bits: int) -> np.int64:
    """The hash of the context at a place of a text, of ``bits`` bits; -1 if one of its bytes is unknown."""
    key = np.uint64(0)
    for number in range(size):
        where = place + offsets[number]
        if where < 0 or where >= len(text) or text[where] < 0:
            return np.int64(-1)
        key = (key << np.uint64(8)) | np.uint64(text[where])
    mixed = (key ^ (key >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(64 - bits))


@compiled
def sort_contexts(text: Text, offsets: Ints, sizes: Ints, bits: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Sort the contexts of a text by their hash, by counting: ``starts`` and ``places`` of an Index."""
    shapes, buckets = len(sizes), 1 << bits
    starts = np.zeros((shapes, buckets + 1), dtype=np.int32)
    places = np.zeros((shapes, len(text)), dtype=np.int32)
    hashes = np.empty(len(text), dtype=np.int32)
    for shape in range(shapes):
        for place in range(len(text)):
            found = context_hash(text, place, offsets[shape], sizes[shape], bits)
            hashes[place] = found
            if found >= 0:
                starts[shape, found + 1] += 1
        for bucket in range(buckets):
            starts[shape, bucket + 1] += starts[shape, bucket]
        filled = starts[shape, :buckets].copy()
        for place in range(len(text)):
            bucket = hashes[place]
            if bucket >= 0:
                places[shape, filled[bucket]] = place
                filled[bucket] += 1
    return starts, places
