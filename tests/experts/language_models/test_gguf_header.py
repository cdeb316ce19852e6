"""Malformed GGUF files are rejected with a ConservatorError, quickly."""

import random
import struct

import pytest

from conservator import ConservatorError
from conservator.experts.language_models.convert import convert_gguf
from conservator.experts.language_models.gguf_header import MAX_DEPTH, check_gguf

U8, U32, FLOAT, STRING, ARRAY = 0, 4, 6, 8, 9
F32, Q8_0 = 0, 8


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return u64(len(data)) + data


def pair(key, kind, value):
    return text(key) + u32(kind) + value


def array(kind, count, items=b""):
    return u32(kind) + u64(count) + items


def tensor(name, shape, kind=F32, offset=0):
    return text(name) + u32(len(shape)) + b"".join(map(u64, shape)) + u32(kind) + u64(offset)


PAIRS = (
    pair("general.architecture", STRING, text("llama")),
    pair("llama.block_count", U32, u32(1)),
    pair("llama.context_length", U32, u32(1 << 20)),
    pair("llama.embedding_length", U32, u32(8)),
    pair("tokenizer.ggml.tokens", ARRAY, array(STRING, 2, text("a") + text("b"))),
    pair("tokenizer.ggml.token_type", ARRAY, array(U8, 2, b"\1\1")),
)
TENSORS = (tensor("token_embd.weight", [8, 2]), tensor("blk.0.attn_q.weight", [8, 8], offset=64))
DATA = bytes(64 + 256)


def header(tensors, pairs, magic=b"GGUF", version=3):
    return magic + u32(version) + u64(tensors) + u64(pairs)


def gguf_file(pairs=PAIRS, tensors=TENSORS, data=DATA):
    """Return the bytes of a GGUF file."""
    head = header(len(tensors), len(pairs)) + b"".join(pairs) + b"".join(tensors)
    return head + bytes(-len(head) % 32) + data


def with_pair(*given):
    return gguf_file(pairs=(*PAIRS, pair(*given)))


def with_tensor(*given, **named):
    return gguf_file(tensors=(*TENSORS, tensor(*given, **named)))


NESTED = b"".join(array(ARRAY, 1) for _ in range(MAX_DEPTH)) + array(U8, 1, b"\0")
MALFORMED = {
    "empty": (b"", "got an empty file"),
    "magic number only": (b"GGUF", "expected 4 more bytes at byte 4, got 0"),
    "another magic number": (header(0, 0, magic=b"GGML"), "got b'GGML'"),
    "version": (header(0, 0, version=9), "unsupported version 9; supported: 2, 3"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "unsupported version 50331648"),
    "no counts": (header(0, 0)[:12], "got 4"),
    "too many pairs": (header(0, 1 << 60), "more bytes at byte 24"),
    "too many tensors": (header(1 << 60, 0), "more bytes at byte 24"),
    "long key": (header(0, 1) + u64(1 << 62), "more bytes at byte"),
    "long text": (with_pair("a", STRING, u64((1 << 64) - 1)), "more bytes at byte"),
    "array of 2^60 bytes": (header(0, 1) + pair("a", ARRAY, array(U8, 1 << 60)), r"arrays have at least \d+ items"),
    "truncated array": (header(0, 1) + pair("a", ARRAY, array(FLOAT, 1 << 20)), "expected 4194304 more bytes"),
    "array of texts": (header(0, 1) + pair("a", ARRAY, array(STRING, 1 << 20)), "more bytes at byte"),
    "deep arrays": (with_pair("a", ARRAY, NESTED), "nested arrays"),
    "very deep arrays": (header(0, 1) + pair("a", ARRAY, array(ARRAY, 1) * 5000), "nested arrays"),
    "type of a value": (with_pair("a", 13, b""), "unknown type 13"),
    "type of items": (with_pair("a", ARRAY, array(99, 3)), "unknown type 99"),
    "key that is not UTF-8": (with_pair(b"\xff", U8, b"\0"), "is not UTF-8"),
    "duplicate key": (with_pair("llama.block_count", U32, u32(1)), "duplicate key 'llama.block_count'"),
    "reserved key": (with_pair("GGUF.version", U32, u32(1)), "duplicate key 'GGUF.version'"),
    "alignment 0": (with_pair("general.alignment", U32, u32(0)), "must be a power of two of type u32, got 0"),
    "alignment 48": (with_pair("general.alignment", U32, u32(48)), "must be a power of two of type u32, got 48"),
    "alignment as a string": (with_pair("general.alignment", STRING, text("32")), "a power of two"),
    "tensor without dimensions": (with_tensor("a", []), "dimensions, got 0"),
    "tensor of many dimensions": (with_tensor("a", [1] * 5), "dimensions, got 5"),
    "tensor of size 0": (with_tensor("a", [0]), r"has the shape \[0\]"),
    "tensor of another type": (with_tensor("a", [8], kind=77), "unknown type 77"),
    "half a block": (with_tensor("a", [8], kind=Q8_0), "must be a multiple of 32"),
    "duplicate tensor": (with_tensor("token_embd.weight", [8]), "duplicate tensor 'token_embd.weight'"),
    "unaligned offset": (with_tensor("a", [8], offset=4), "must be a multiple of 32, got 4"),
    "offset after the end": (with_tensor("a", [8], offset=1 << 40), "the tensors need"),
    "tensor larger than the file": (with_tensor("a", [1 << 40, 1 << 20]), "the tensors need"),
    "overlapping tensors": (
        gguf_file(tensors=(*TENSORS, *(tensor(f"a{number}", [80]) for number in range(9)))),
        "the tensors need",
    ),
    "truncated data": (gguf_file(data=DATA[:-1]), "the tensors need"),
    "missing blocks": (
        gguf_file(pairs=(PAIRS[0], pair("llama.block_count", U32, u32(1 << 31)))),
        "llama.block_count is 2147483648, but the file has tensors of 1 blocks",
    ),
    "a network larger than its tensors": (
        with_pair("llama.feed_forward_length", U32, u32(1 << 31)),
        "llama.feed_forward_length is 2147483648, but no tensor dimension is larger than 8",
    ),
}


def test_a_valid_file_is_accepted(tmp_path):
    path = tmp_path / "valid.gguf"
    path.write_bytes(gguf_file())
    check_gguf(path)


@pytest.mark.parametrize(("data", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_file_is_rejected(tmp_path, data, message):
    path = tmp_path / "malformed.gguf"
    path.write_bytes(data)
    with pytest.raises(ConservatorError, match=message):
        convert_gguf(path, tmp_path)


def test_a_valid_file_without_a_network_is_rejected(tmp_path):
    path = tmp_path / "valid.gguf"
    path.write_bytes(gguf_file())
    with pytest.raises(ConservatorError, match="cannot read"):
        convert_gguf(path, tmp_path)


def mutated(data, draw):
    """Change a few bytes or a number of the data, or truncate it."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        position = draw.randrange(len(changed))
        kind = draw.randrange(4)
        if kind == 0:
            changed[position] = draw.randrange(256)
        elif kind == 1:
            changed[position] ^= 1 << draw.randrange(8)
        elif kind == 2:
            changed[position : position + 8] = u64(draw.choice([0, 1, 255, 1 << 31, 1 << 60, (1 << 64) - 1]))
        else:
            del changed[position:]
            break
    return bytes(changed) or b"\0"


def test_an_accepted_file_is_read_by_the_package(tmp_path):
    """Each of 1,000 mutations of a valid file is either rejected or read by the package."""
    from gguf import GGUFReader

    path, draw, accepted = tmp_path / "mutant.gguf", random.Random(0), 0
    for _ in range(1000):
        path.write_bytes(mutated(gguf_file(), draw))
        try:
            check_gguf(path)
        except ConservatorError:
            continue
        GGUFReader(str(path))
        accepted += 1
    assert 100 < accepted < 900
