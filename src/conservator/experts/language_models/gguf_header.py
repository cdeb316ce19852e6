"""Validation of GGUF files for the ``gguf`` package, which does not check the lengths that a file declares.

The layout, all numbers little-endian (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md):

    "GGUF"  version u32  tensors u64  pairs u64
    pairs:    key string, type u32, value
    tensors:  name string, dimensions u32, sizes u64 each, type u32, offset u64
    padding up to the alignment, data of the tensors

A string consists of its length (u64) and UTF-8; an array of the type of its items (u32), their number (u64) and the
items.
"""

import struct
from math import prod
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from conservator.errors import ConservatorError
from conservator.system.files import open_file

MAGIC = b"GGUF"
VERSIONS = (2, 3)  # version: supported versions of the format [definition]
STRING, ARRAY = 8, 9  # code: of a value type [definition]
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
DEFAULT_ALIGNMENT = 32  # bytes: alignment of tensors unless the file declares another [definition]
MAX_ALIGNMENT = 2**16  # bytes: largest alignment [safety limit]
MAX_DEPTH = 4  # levels: nested arrays [safety limit]
MAX_ITEMS = 2**22  # items: of all arrays; a large vocabulary has several arrays of a million [safety limit]
MAX_DIMENSIONS = 4  # dimensions: of a tensor [definition]
# Settings that are text lengths, not tensor sizes.
TEXT_LENGTHS = ("context_length", "sliding_window", "original_context_length")


class _Header:
    """Sequential reader of values; raises a ValueError if the file is too short."""

    def __init__(self, data: mmap) -> None:
        """Start at the first byte."""
        self.data, self.position, self.items = data, 0, 0

    def number(self, form: str) -> Any:
        """Read a number in a ``struct`` format."""
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def take(self, count: int) -> bytes:
        """Read ``count`` bytes."""
        if count > len(self.data) - self.position:
            raise ValueError(
                f"expected {count} more bytes at byte {self.position}, got {len(self.data) - self.position}"
            )
        self.position += count
        return self.data[self.position - count : self.position]

    def string(self) -> str:
        """Read a string."""
        start = self.position
        try:
            return self.take(self.number("Q")).decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"the string at byte {start} is not UTF-8") from error

    def value(self, kind: int, depth: int = 0) -> Any:
        """Read a value of a type; return None for an array."""
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            raise ValueError(f"unknown type {kind} before byte {self.position}")
        if depth == MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} nested arrays before byte {self.position}")
        inner, count = self.number("I"), self.number("Q")
        self.items += count
        if self.items > MAX_ITEMS:
            raise ValueError(f"the arrays have at least {self.items} items; at most {MAX_ITEMS} are accepted")
        if inner in SCALARS:
            self.take(count * struct.calcsize("<" + SCALARS[inner]))
        else:
            for _ in range(count):
                self.value(inner, depth + 1)
        return None


def check_gguf(path: Path) -> dict[str, Any]:
    """Return the settings of a GGUF file, None for arrays; raise a ConservatorError unless the file is complete."""
    with open_file(path) as handle:
        if not path.stat().st_size:
            raise ConservatorError(f"cannot read {path}: expected a GGUF file, got an empty file")
        with mmap(handle.fileno(), 0, access=ACCESS_READ) as data:
            try:
                return _check(data)
            except ValueError as error:
                raise ConservatorError(
                    f"cannot read {path}: it is not a complete GGUF file ({error}); download or export it again"
                ) from error


def _check(data: mmap) -> dict[str, Any]:
    header = _Header(data)
    magic, version = header.take(4), header.number("I")
    if magic != MAGIC:
        raise ValueError(f"expected {MAGIC!r} at the start, got {magic!r}")
    if version not in VERSIONS:
        raise ValueError(f"unsupported version {version}; supported: {', '.join(map(str, VERSIONS))}")
    tensors, pairs = header.number("Q"), header.number("Q")
    settings = _read_settings(header, pairs)
    sizes = _check_tensors(header, tensors, settings.get("general.alignment", DEFAULT_ALIGNMENT))
    _check_settings(settings, sizes)
    return settings


def _read_settings(header: _Header, pairs: int) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for _ in range(pairs):
        key = header.string()
        if key in settings or key.startswith("GGUF."):
            raise ValueError(f"duplicate key {key!r}")
        kind = header.number("I")
        settings[key] = header.value(kind)
        if key == "general.alignment":
            valid = kind == 4 and settings[key].bit_count() == 1 and settings[key] <= MAX_ALIGNMENT
            if not valid:
                raise ValueError(f"the alignment must be a power of two of type u32, got {settings[key]!r}")
    return settings


def _check_tensors(header: _Header, tensors: int, alignment: int) -> dict[str, list[int]]:
    """Return the shape of each tensor by name; raise a ValueError if a tensor is invalid or not in the file."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    forms = {int(kind): GGML_QUANT_SIZES[kind] for kind in GGMLQuantizationType if kind in GGML_QUANT_SIZES}
    shapes: dict[str, list[int]] = {}
    ends: list[int] = []
    total = 0
    for _ in range(tensors):
        name, dimensions = header.string(), header.number("I")
        if name in shapes:
            raise ValueError(f"duplicate tensor {name!r}")
        if not 1 <= dimensions <= MAX_DIMENSIONS:
            raise ValueError(f"the tensor {name!r} must have 1 to {MAX_DIMENSIONS} dimensions, got {dimensions}")
        shape = [header.number("Q") for _ in range(dimensions)]
        kind, offset = header.number("I"), header.number("Q")
        if kind not in forms:
            raise ValueError(f"the tensor {name!r} has the unknown type {kind}")
        block, block_bytes = forms[kind]
        if not all(shape) or shape[0] % block:
            raise ValueError(f"the tensor {name!r} has the shape {shape}; the first size must be a multiple of {block}")
        if offset % alignment:
            raise ValueError(f"the offset of the tensor {name!r} must be a multiple of {alignment}, got {offset}")
        size = prod(shape) // block * block_bytes
        total += size
        ends.append(offset + size)
        shapes[name] = shape
    data_start = -(-header.position // alignment) * alignment
    if data_start + max(ends, default=0) > len(header.data) or total > len(header.data):
        raise ValueError(
            f"the tensors need {data_start + max([total, *ends])} bytes, but the file has {len(header.data)}"
        )
    return shapes


def _check_settings(settings: dict[str, Any], tensors: dict[str, list[int]]) -> None:
    """Raise a ValueError if the settings describe a network larger than the tensors, which would exhaust the memory."""
    architecture = settings.get("general.architecture")
    max_size = max((size for shape in tensors.values() for size in shape), default=0)
    blocks = {name.split(".")[1] for name in tensors if name.startswith("blk.") and name.count(".") > 1}
    for key, value in settings.items():
        if not key.startswith(f"{architecture}.") or not isinstance(value, int):
            continue
        name = key.rpartition(".")[2]
        if name == "block_count" and value != len(blocks):
            raise ValueError(f"{key} is {value}, but the file has tensors of {len(blocks)} blocks")
        if name not in TEXT_LENGTHS and value > max_size:
            raise ValueError(f"{key} is {value}, but no tensor dimension is larger than {max_size}")
