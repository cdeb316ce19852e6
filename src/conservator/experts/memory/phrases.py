"""The shipped phrases: words and spans that many documents share, used as an additional reference.

The index of the phrases has 70 MB and is therefore not shipped. The first process that needs it builds it and stores it
in the folder of ``cache_home``; later processes map these files into memory.
"""

import gzip
import hashlib
import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conservator.errors import ConservatorError
from conservator.experts.memory.index import UNKNOWN, Index, Text, build_index, context_shapes, hash_bits
from conservator.experts.memory.references import SEPARATOR, SHAPES
from conservator.system.files import cache_home, make_folder, write_atomically

PHRASES = Path(__file__).parent / "phrases.gz"  # written by conservator.training.phrases
END = b"\0"  # between two phrases
LAYOUT = 1  # version: of the stored index; a new number invalidates stored indexes [definition]
ARRAYS = ("text", "starts", "places")  # file names of the stored arrays


@cache
def load_phrases() -> Index:
    """Return the index of the phrases: from the cache if it is stored, else built and, if possible, stored."""
    packed = PHRASES.read_bytes()
    key = hashlib.sha256(packed + repr((LAYOUT, SHAPES, len(SEPARATOR))).encode()).hexdigest()[:16]
    try:
        folder = cache_home() / "phrases"
    except RuntimeError:  # the user has no home directory
        return build_index(separate(gzip.decompress(packed)), SHAPES)
    paths = [folder / f"{key}.{name}.npy" for name in ARRAYS]
    index = _read(paths)
    if index is None:
        index = build_index(separate(gzip.decompress(packed)), SHAPES)
        _write(paths, index)
    return index


def separate(phrases: bytes) -> Text:
    """Replace the END of each phrase by a separator that no match passes."""
    data = np.frombuffer(phrases, dtype=np.uint8)
    is_end = data == ord(END)
    shift = (len(SEPARATOR) - 1) * (np.cumsum(is_end) - is_end)
    length = len(data) + (len(SEPARATOR) - 1) * int(is_end.sum()) + len(SEPARATOR)
    text = np.full(length, UNKNOWN, dtype=np.int16)
    text[(np.arange(len(data)) + shift)[~is_end]] = data[~is_end]
    return text


def _read(paths: list[Path]) -> Index | None:
    """Load the stored index; None if it is missing or invalid."""
    try:
        # Mode "c" does not write to the file, and gives the kernels the same array type as an index that was built.
        text, starts, positions = (np.asarray(np.load(path, mmap_mode="c")) for path in paths)
    except (OSError, ValueError):
        return None
    offsets, sizes = context_shapes(SHAPES)
    bits = hash_bits(len(text))
    dtypes = [str(array.dtype) for array in (text, starts, positions)]
    if (
        dtypes != ["int16", "int32", "int32"]
        or starts.shape != (len(SHAPES), 2**bits + 1)
        or positions.shape != (len(SHAPES), starts[:, -1].max())
    ):
        return None
    return Index(text, offsets, sizes, bits, starts, positions)


def _write(paths: list[Path], index: Index) -> None:
    """Store an index. A write error is ignored: the next process builds the index again."""
    arrays: list[NDArray[Any]] = [
        index.text,
        index.starts,
        np.ascontiguousarray(index.positions[:, : index.starts[:, -1].max()]),
    ]
    try:
        for path, array in zip(paths, arrays, strict=True):
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            write_atomically(make_folder(path.parent) / path.name, buffer.getvalue())
    except ConservatorError:
        return
