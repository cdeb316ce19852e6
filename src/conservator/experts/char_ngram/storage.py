"""Character models on disk: rare grams left out, counts rounded, one gzip file of plain arrays.

Contexts are in the order of their length, then of the context they extend, then of their first character; so how many
contexts extend each one says which they are. Counts are kept to one part in twelve.
"""

import gzip
import io
import json
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conservator.errors import ConservatorError
from conservator.experts.char_ngram.model import CharNgramModel
from conservator.experts.char_ngram.trie import BITS, DISCOUNT, EMPTY, Trie, slot
from conservator.numerics import compiled
from conservator.system.files import read_document

FORMAT = "conservator character model 1"
LARGEST = 2**28  # bytes of all arrays
SCALE = 6  # levels of a count that is twice as large
SHORT = 3  # characters in a row that are kept however seldom they are
WIDEST_CHARACTER = 0xFFFF
PLANES = {"extended": "<u2", "before": "<u2", "grams": "<u2", "rests": "<u1", "after": "<u2", "counts": "<u1"}

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def write_model(model: CharNgramModel, least: int) -> bytes:
    """A model as a file, without grams of more than SHORT characters that were seen less than ``least`` times."""
    trie = model.trie
    nodes = int(trie.used[0])
    parents, before, depths = describe_nodes(trie.longer, trie.nodes, nodes)
    held = np.flatnonzero((trie.keys != EMPTY) & (trie.counts > 0))
    owner, after, counts = trie.keys[held] >> BITS, trie.keys[held] & ((1 << BITS) - 1), trie.counts[held]
    kept = ((depths[owner] < SHORT) | (counts >= least)) & (after <= WIDEST_CHARACTER)
    rests = trie.rests[:nodes].copy()
    np.add.at(rests, owner[~kept], np.maximum(counts[~kept] - DISCOUNT, 0.0))
    owner, after, counts = owner[kept], after[kept], counts[kept]
    used = find_used(parents, before, owner)
    numbers = number_by_length(parents, before, depths, used)
    order = np.argsort(numbers[used])
    chosen = np.flatnonzero(used)[order]
    by_node = np.lexsort((after, numbers[owner]))
    by_node = by_node[used[owner[by_node]]]
    extended = np.bincount(numbers[parents[chosen[1:]]], minlength=len(chosen))
    planes = {
        "extended": extended,
        "before": before[chosen],
        "grams": np.bincount(numbers[owner[by_node]], minlength=len(chosen)),
        "rests": as_levels(rests[chosen]),
        "after": after[by_node],
        "counts": as_levels(counts[by_node]),
    }
    head = {"format": FORMAT, "name": model.name, "order": trie.order}
    head |= {"sizes": {name: len(plane) for name, plane in planes.items()}}
    parts = [json.dumps(head).encode() + b"\n", *(planes[name].astype(kind).tobytes() for name, kind in PLANES.items())]
    return gzip.compress(b"".join(parts), mtime=0)


def read_model(path: Path) -> CharNgramModel:
    """The model in a file."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(read_document(str(path)))) as stream:
            head = json.loads(stream.readline(4096))
            if head["format"] != FORMAT:
                raise ValueError(head["format"])
            data = stream.read(LARGEST + 1)
        planes, begin = {}, 0
        for name, kind in PLANES.items():
            size = int(head["sizes"][name]) * np.dtype(kind).itemsize
            planes[name] = np.frombuffer(data[begin : begin + size], dtype=kind).astype(np.int64)
            begin += size
        nodes = len(planes["extended"])
        whole = (
            begin == len(data)
            and planes["extended"].sum() == nodes - 1
            and planes["grams"].sum() == len(planes["after"])
        )
        if not whole or not len(planes["before"]) == len(planes["grams"]) == len(planes["rests"]) == nodes:
            raise ValueError("its parts do not fit together")
        return CharNgramModel(str(head["name"]), build(planes, int(head["order"])))
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise ConservatorError(f"{path} is no character model: {error}") from error


def build(planes: dict[str, Ints], order: int) -> Trie:
    """The trie of a file's arrays."""
    nodes, grams = len(planes["extended"]), len(planes["after"])
    trie = Trie.empty(1, order, 1 << max(12, (2 * max(nodes, grams)).bit_length()))
    parents = np.repeat(np.arange(nodes), planes["extended"])
    fill_nodes(trie, parents, planes["before"][1:])
    owner, counts = np.repeat(np.arange(nodes), planes["grams"]), as_counts(planes["counts"])
    fill_grams(trie, owner, planes["after"], counts)
    trie.rests[:nodes] = as_counts(planes["rests"])
    trie.totals[:nodes] = trie.rests[:nodes] + np.bincount(owner, np.maximum(counts - DISCOUNT, 0.0), nodes)
    trie.used[:] = nodes, grams
    return trie


def as_levels(counts: Floats) -> Ints:
    """Counts as levels: 0 for none."""
    with np.errstate(divide="ignore"):
        levels = 1 + np.round(SCALE * np.log2(np.maximum(counts, 0.5) * 2))
    return np.where(counts > 0, levels, 0).clip(max=np.iinfo(np.uint8).max).astype(np.int64)


def as_counts(levels: Ints) -> Floats:
    """The counts of levels."""
    return np.where(levels > 0, 0.5 * 2.0 ** ((levels - 1) / SCALE), 0.0)


def describe_nodes(longer: Ints, numbers: Ints, nodes: int) -> tuple[Ints, Ints, Ints]:
    """The context that each node extends, by which character, and how many characters it has."""
    held = np.flatnonzero(longer != EMPTY)
    parents, before, depths = np.zeros((3, nodes), dtype=np.int64)
    parents[numbers[held]] = longer[held] >> BITS
    before[numbers[held]] = longer[held] & ((1 << BITS) - 1)
    for node in range(1, nodes):  # a context has a larger number than the one that it extends
        depths[node] = depths[parents[node]] + 1
    return parents, before, depths


def find_used(parents: Ints, before: Ints, owner: Ints) -> NDArray[np.bool_]:
    """Which contexts have grams, or are extended by some that have, and can be written."""
    writable, used = np.ones(len(parents), dtype=bool), np.zeros(len(parents), dtype=bool)
    for node in range(1, len(parents)):
        writable[node] = writable[parents[node]] and before[node] <= WIDEST_CHARACTER
    used[owner] = used[0] = True
    used &= writable
    for node in range(len(parents) - 1, 0, -1):
        used[parents[node]] |= used[node]
    return used


def number_by_length(parents: Ints, before: Ints, depths: Ints, used: NDArray[np.bool_]) -> Ints:
    """New numbers of used nodes: by length, then by the number of the node they extend, then by character."""
    numbers, done = np.zeros(len(parents), dtype=np.int64), 1
    for depth in range(1, int(depths.max(initial=0)) + 1):
        here = np.flatnonzero(used & (depths == depth))
        here = here[np.lexsort((before[here], numbers[parents[here]]))]
        numbers[here] = done + np.arange(len(here))
        done += len(here)
    return numbers


@compiled
def fill_nodes(trie: Trie, parents: Ints, before: Ints) -> None:
    """Add contexts, numbered from 1, that extend others."""
    for number in range(len(parents)):
        key = (parents[number] << BITS) | before[number]
        there = slot(trie.longer, key)
        trie.longer[there] = key
        trie.nodes[there] = number + 1


@compiled
def fill_grams(trie: Trie, owner: Ints, after: Ints, counts: Floats) -> None:
    """Add grams."""
    for number in range(len(owner)):
        key = (owner[number] << BITS) | after[number]
        there = slot(trie.keys, key)
        trie.keys[there] = key
        trie.counts[there] = counts[number]
