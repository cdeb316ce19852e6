"""The phrases that come with the package: words and stretches that many documents share, as one more reference.

The index of the phrases has 70 MB, too much to come with the package. The first process that needs it builds it and
keeps it in the folder of ``cache_home``; later processes map these files into memory instead of building it again.
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
from conservator.experts.memory.references import APART, SHAPES
from conservator.system.files import cache_home, make_folder, write_atomically

PHRASES = Path(__file__).parent / "phrases.gz"  # made by conservator.training.phrases
END = b"\0"  # between two phrases
LAYOUT = 1  # of the stored index; another number builds it anew
PARTS = ("text", "starts", "places")


@cache
def load_phrases() -> Index:
    """The index of the phrases: from the cache if it is there, else built and, if possible, stored there."""
    packed = PHRASES.read_bytes()
    key = hashlib.sha256(packed + repr((LAYOUT, SHAPES, len(APART))).encode()).hexdigest()[:16]
    try:
        folder = cache_home() / "phrases"
    except RuntimeError:  # this user has no home
        return build_index(separated(gzip.decompress(packed)), SHAPES)
    paths = [folder / f"{key}.{part}.npy" for part in PARTS]
    index = _read(paths)
    if index is None:
        index = build_index(separated(gzip.decompress(packed)), SHAPES)
        _write(paths, index)
    return index


def separated(phrases: bytes) -> Text:
    """The phrases one after the other, with as many unknown bytes after each that no match goes on into the next."""
    data = np.frombuffer(phrases, dtype=np.uint8)
    is_end = data == ord(END)
    shift = (len(APART) - 1) * (np.cumsum(is_end) - is_end)
    text = np.full(len(data) + (len(APART) - 1) * int(is_end.sum()) + len(APART), UNKNOWN, dtype=np.int16)
    text[(np.arange(len(data)) + shift)[~is_end]] = data[~is_end]
    return text


def _read(paths: list[Path]) -> Index | None:
    """The stored index; None if it is missing or not what was written."""
    try:
        # Mode "c" does not write to the file, and gives the kernels the same array type as an index that was built.
        text, starts, places = (np.asarray(np.load(path, mmap_mode="c")) for path in paths)
    except (OSError, ValueError):
        return None
    offsets, sizes = context_shapes(SHAPES)
    bits = hash_bits(len(text))
    types = [str(part.dtype) for part in (text, starts, places)]
    if (
        types != ["int16", "int32", "int32"]
        or starts.shape != (len(SHAPES), 2**bits + 1)
        or places.shape != (len(SHAPES), starts[:, -1].max())
    ):
        return None
    return Index(text, offsets, sizes, bits, starts, places)


def _write(paths: list[Path], index: Index) -> None:
    """Store an index. A folder that cannot be written is no error: the next process builds the index again."""
    parts: list[NDArray[Any]] = [
        index.text,
        index.starts,
        np.ascontiguousarray(index.places[:, : index.starts[:, -1].max()]),
    ]
    try:
        for path, part in zip(paths, parts, strict=True):
            buffer = io.BytesIO()
            np.save(buffer, part, allow_pickle=False)
            write_atomically(make_folder(path.parent) / path.name, buffer.getvalue())
    except ConservatorError:
        return
