"""Check a GGUF file before it is handed to the ``gguf`` package, which trusts the lengths that a file declares.

The layout, all numbers little-endian (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md):

    "GGUF"  version u32  tensors u64  pairs u64
    pairs:    key string, type u32, value
    tensors:  name string, dimensions u32, sizes u64 each, type u32, offset u64
    padding up to the alignment, data of the tensors

A string is its length (u64) and UTF-8. An array is the type of its items (u32), their number (u64) and the items.
"""

import struct
from math import prod
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from conservator.errors import ConservatorError
from conservator.system.files import open_file

MAGIC, VERSIONS = b"GGUF", (2, 3)
STRING, ARRAY = 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
ALIGNMENT, LARGEST_ALIGNMENT = 32, 2**16
DEEPEST = 4  # arrays within arrays
MOST_ITEMS = 2**22  # of all arrays; a large vocabulary has a million, in several arrays
MOST_DIMENSIONS = 4
# Settings that are lengths of texts, not sizes of tensors.
LENGTHS = ("context_length", "sliding_window", "original_context_length")


class _Header:
    """Reads values one after the other, and raises a ValueError where the file is too short for one."""

    def __init__(self, data: mmap) -> None:
        """Begin at the first byte."""
        self.data, self.place, self.items = data, 0, 0

    def number(self, form: str) -> Any:
        """A number of a ``struct`` format."""
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def take(self, count: int) -> bytes:
        """So many bytes."""
        if count > len(self.data) - self.place:
            raise ValueError(
                f"byte {self.place} needs {count} bytes more, and only {len(self.data) - self.place} follow"
            )
        self.place += count
        return self.data[self.place - count : self.place]

    def string(self) -> str:
        """A string."""
        start = self.place
        try:
            return self.take(self.number("Q")).decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"the text at byte {start} is not UTF-8") from error

    def value(self, kind: int, depth: int = 0) -> Any:
        """A value of a type; None for an array."""
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            raise ValueError(f"the type {kind} before byte {self.place} is not known")
        if depth == DEEPEST:
            raise ValueError(f"more than {DEEPEST} arrays within each other before byte {self.place}")
        inner, count = self.number("I"), self.number("Q")
        self.items += count
        if self.items > MOST_ITEMS:
            raise ValueError(f"its arrays have {self.items} items or more; at most {MOST_ITEMS} are read")
        if inner in SCALARS:
            self.take(count * struct.calcsize("<" + SCALARS[inner]))
        else:
            for _ in range(count):
                self.value(inner, depth + 1)
        return None


def check_gguf(path: Path) -> None:
    """Raise a ConservatorError unless a file is a well-formed GGUF file whose tensors are all in it."""
    with open_file(path) as handle:
        if not path.stat().st_size:
            raise ConservatorError(f"cannot read {path}: it is empty; a GGUF file is needed")
        with mmap(handle.fileno(), 0, access=ACCESS_READ) as data:
            try:
                _check(data)
            except ValueError as error:
                raise ConservatorError(
                    f"cannot read {path}: it is no complete GGUF file ({error}); fetch or export it again"
                ) from error


def _check(data: mmap) -> None:
    header = _Header(data)
    magic, version = header.take(4), header.number("I")
    if magic != MAGIC:
        raise ValueError(f"it begins with {magic!r}, not with {MAGIC!r}")
    if version not in VERSIONS:
        raise ValueError(f"its version is {version}; accepted: {', '.join(map(str, VERSIONS))}")
    tensors, pairs = header.number("Q"), header.number("Q")
    settings = _read_settings(header, pairs)
    sizes = _check_tensors(header, tensors, settings.get("general.alignment", ALIGNMENT))
    _check_settings(settings, sizes)


def _read_settings(header: _Header, pairs: int) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for _ in range(pairs):
        key = header.string()
        if key in settings or key.startswith("GGUF."):
            raise ValueError(f"the key {key!r} is there twice")
        kind = header.number("I")
        settings[key] = header.value(kind)
        if key == "general.alignment":
            good = kind == 4 and settings[key].bit_count() == 1 and settings[key] <= LARGEST_ALIGNMENT
            if not good:
                raise ValueError(f"the alignment is {settings[key]!r}; a power of two is needed, as a u32")
    return settings


def _check_tensors(header: _Header, tensors: int, alignment: int) -> dict[str, list[int]]:
    """The sizes of each tensor by name; raise a ValueError unless the data of all fits into the file."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    forms = {int(kind): GGML_QUANT_SIZES[kind] for kind in GGMLQuantizationType if kind in GGML_QUANT_SIZES}
    found: dict[str, list[int]] = {}
    ends: list[int] = []
    total = 0
    for _ in range(tensors):
        name, dimensions = header.string(), header.number("I")
        if name in found:
            raise ValueError(f"the tensor {name!r} is there twice")
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise ValueError(f"the tensor {name!r} has {dimensions} dimensions; 1 to {MOST_DIMENSIONS} are accepted")
        shape = [header.number("Q") for _ in range(dimensions)]
        kind, offset = header.number("I"), header.number("Q")
        if kind not in forms:
            raise ValueError(f"the tensor {name!r} has the type {kind}, which is not known")
        block, block_bytes = forms[kind]
        if not all(shape) or shape[0] % block:
            raise ValueError(f"the tensor {name!r} has the sizes {shape}; the first must be a multiple of {block}")
        if offset % alignment:
            raise ValueError(f"the tensor {name!r} is at {offset}, which is no multiple of {alignment}")
        size = prod(shape) // block * block_bytes
        total += size
        ends.append(offset + size)
        found[name] = shape
    data = -(-header.place // alignment) * alignment
    if data + max(ends, default=0) > len(header.data) or total > len(header.data):
        raise ValueError(f"its tensors need {data + max([total, *ends])} bytes, and the file has {len(header.data)}")
    return found


def _check_settings(settings: dict[str, Any], tensors: dict[str, list[int]]) -> None:
    """Raise a ValueError if the settings are of a network that is larger than the tensors: it would fill the memory."""
    kind = settings.get("general.architecture")
    largest = max((size for shape in tensors.values() for size in shape), default=0)
    blocks = {name.split(".")[1] for name in tensors if name.startswith("blk.") and name.count(".") > 1}
    for key, value in settings.items():
        if not key.startswith(f"{kind}.") or not isinstance(value, int):
            continue
        name = key.rpartition(".")[2]
        if name == "block_count" and value != len(blocks):
            raise ValueError(f"{key} is {value}, and there are tensors of {len(blocks)} blocks")
        if name not in LENGTHS and value > largest:
            raise ValueError(f"{key} is {value}, and no tensor is larger than {largest}")
