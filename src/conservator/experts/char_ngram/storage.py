"""Character n-gram models on disk: pruned and quantised counts in one gzip file of plain arrays.

Contexts are sorted by length, then by the shorter context that they extend, then by their first character. The number
of extensions of each context therefore identifies the contexts. Counts are stored with a relative error of 1/12.
"""

import gzip
import io
import json
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conservator.arrays import Floats, Ints
from conservator.errors import ConservatorError
from conservator.experts.char_ngram.model import CharNgramModel
from conservator.experts.char_ngram.trie import BITS, DISCOUNT, EMPTY, Trie, insert
from conservator.numerics import compiled
from conservator.system.files import read_document

BUILTIN_FOLDER = Path(__file__).parent / "builtin"  # written by conservator.training.characters
FORMAT = "conservator character model 1"
MAX_BYTES = 2**28  # bytes: total size of the arrays of a file [safety limit]
LEVELS_PER_OCTAVE = 6  # levels: quantisation of counts, per factor of two [definition]
MAX_UNPRUNED_LENGTH = 3  # characters: n-grams up to this length are never pruned [LOG: ocr-correction]
MAX_CODE_POINT = 0xFFFF  # code point: the largest that the file format can store [definition]
# name of an array in the file -> data type
ARRAYS = {"extended": "<u2", "before": "<u2", "grams": "<u2", "rests": "<u1", "after": "<u2", "counts": "<u1"}


def write_model(model: CharNgramModel, min_count: int) -> bytes:
    """Serialise a model without n-grams longer than MAX_UNPRUNED_LENGTH that occur less than ``min_count`` times."""
    trie = model.trie
    nodes = int(trie.used[0])
    parents, before, depths = describe_nodes(trie.context_keys, trie.context_nodes, nodes)
    slots = np.flatnonzero((trie.gram_keys != EMPTY) & (trie.gram_counts > 0))
    contexts, after = trie.gram_keys[slots] >> BITS, trie.gram_keys[slots] & ((1 << BITS) - 1)
    counts = trie.gram_counts[slots]
    selected = ((depths[contexts] < MAX_UNPRUNED_LENGTH) | (counts >= min_count)) & (after <= MAX_CODE_POINT)
    backoff_mass = trie.backoff_mass[:nodes].copy()
    np.add.at(backoff_mass, contexts[~selected], np.maximum(counts[~selected] - DISCOUNT, 0.0))
    contexts, after, counts = contexts[selected], after[selected], counts[selected]
    used = find_used(parents, before, contexts)
    numbers = number_by_length(parents, before, depths, used)
    order = np.argsort(numbers[used])
    used_nodes = np.flatnonzero(used)[order]
    by_node = np.lexsort((after, numbers[contexts]))
    by_node = by_node[used[contexts[by_node]]]
    extended = np.bincount(numbers[parents[used_nodes[1:]]], minlength=len(used_nodes))
    arrays = {
        "extended": extended,
        "before": before[used_nodes],
        "grams": np.bincount(numbers[contexts[by_node]], minlength=len(used_nodes)),
        "rests": as_levels(backoff_mass[used_nodes]),
        "after": after[by_node],
        "counts": as_levels(counts[by_node]),
    }
    header = {"format": FORMAT, "name": model.name, "order": trie.order}
    header |= {"sizes": {name: len(array) for name, array in arrays.items()}}
    parts = [json.dumps(header).encode() + b"\n"]
    parts += [arrays[name].astype(dtype).tobytes() for name, dtype in ARRAYS.items()]
    return gzip.compress(b"".join(parts), mtime=0)


def read_model(path: Path) -> CharNgramModel:
    """Load a model from a file."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(read_document(str(path)))) as stream:
            header = json.loads(stream.readline(4096))
            if header["format"] != FORMAT:
                raise ValueError(f"expected the format {FORMAT!r}, got {header['format']!r}")
            data = stream.read(MAX_BYTES + 1)
        arrays, begin = {}, 0
        for name, dtype in ARRAYS.items():
            size = int(header["sizes"][name]) * np.dtype(dtype).itemsize
            arrays[name] = np.frombuffer(data[begin : begin + size], dtype=dtype).astype(np.int64)
            begin += size
        nodes = len(arrays["extended"])
        complete = (
            begin == len(data)
            and arrays["extended"].sum() == nodes - 1
            and arrays["grams"].sum() == len(arrays["after"])
        )
        if not complete or not len(arrays["before"]) == len(arrays["grams"]) == len(arrays["rests"]) == nodes:
            raise ValueError("the sizes of its arrays are inconsistent")
        return CharNgramModel(str(header["name"]), build(arrays, int(header["order"])))
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise ConservatorError(f"{path} is not a character n-gram model: {error}") from error


@cache
def load_char_ngram_models() -> tuple[CharNgramModel, ...]:
    """Load the shipped models, sorted by file name. The result is cached for the process."""
    return tuple(read_model(path) for path in sorted(BUILTIN_FOLDER.glob("*.gz")))


def build(arrays: dict[str, Ints], order: int) -> Trie:
    """Build the trie from the arrays of a file."""
    nodes, grams = len(arrays["extended"]), len(arrays["after"])
    trie = Trie.empty(1, order, 1 << max(12, (2 * max(nodes, grams)).bit_length()))
    parents = np.repeat(np.arange(nodes), arrays["extended"])
    insert_all(trie.context_keys, trie.context_nodes, parents, arrays["before"][1:], np.arange(1, nodes))
    contexts, counts = np.repeat(np.arange(nodes), arrays["grams"]), as_counts(arrays["counts"])
    insert_all(trie.gram_keys, trie.gram_counts, contexts, arrays["after"], counts)
    trie.backoff_mass[:nodes] = as_counts(arrays["rests"])
    trie.totals[:nodes] = trie.backoff_mass[:nodes] + np.bincount(contexts, np.maximum(counts - DISCOUNT, 0.0), nodes)
    trie.used[:] = nodes, grams
    return trie


def as_levels(counts: Floats) -> Ints:
    """Quantise counts logarithmically; level 0 stands for a count of 0."""
    with np.errstate(divide="ignore"):
        levels = 1 + np.round(LEVELS_PER_OCTAVE * np.log2(np.maximum(counts, 0.5) * 2))
    return np.where(counts > 0, levels, 0).clip(max=np.iinfo(np.uint8).max).astype(np.int64)


def as_counts(levels: Ints) -> Floats:
    """Invert ``as_levels``."""
    return np.where(levels > 0, 0.5 * 2.0 ** ((levels - 1) / LEVELS_PER_OCTAVE), 0.0)


def describe_nodes(context_keys: Ints, context_nodes: Ints, nodes: int) -> tuple[Ints, Ints, Ints]:
    """Return the parent context of each node (N,), the character that extends it (N,), and the context length (N,)."""
    slots = np.flatnonzero(context_keys != EMPTY)
    parents, before, depths = np.zeros((3, nodes), dtype=np.int64)
    parents[context_nodes[slots]] = context_keys[slots] >> BITS
    before[context_nodes[slots]] = context_keys[slots] & ((1 << BITS) - 1)
    for node in range(1, nodes):  # a context has a larger number than its parent
        depths[node] = depths[parents[node]] + 1
    return parents, before, depths


def find_used(parents: Ints, before: Ints, contexts: Ints) -> NDArray[np.bool_]:
    """Flag the contexts (N,) that have n-grams or a descendant with n-grams, and that the format can store."""
    writable, used = np.ones(len(parents), dtype=bool), np.zeros(len(parents), dtype=bool)
    for node in range(1, len(parents)):
        writable[node] = writable[parents[node]] and before[node] <= MAX_CODE_POINT
    used[contexts] = used[0] = True
    used &= writable
    for node in range(len(parents) - 1, 0, -1):
        used[parents[node]] |= used[node]
    return used


def number_by_length(parents: Ints, before: Ints, depths: Ints, used: NDArray[np.bool_]) -> Ints:
    """Number the used nodes (N,) by context length, then by the number of the parent, then by character."""
    numbers, done = np.zeros(len(parents), dtype=np.int64), 1
    for depth in range(1, int(depths.max(initial=0)) + 1):
        nodes = np.flatnonzero(used & (depths == depth))
        nodes = nodes[np.lexsort((before[nodes], numbers[parents[nodes]]))]
        numbers[nodes] = done + np.arange(len(nodes))
        done += len(nodes)
    return numbers


@compiled
def insert_all(keys: Ints, values: Ints | Floats, contexts: Ints, characters: Ints, new_values: Ints | Floats) -> None:
    """Insert the values of contexts with a preceding or following character into a hash table of a trie."""
    for number in range(len(contexts)):
        insert(keys, values, (contexts[number] << BITS) | characters[number], new_values[number])
