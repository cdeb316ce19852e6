"""GGUF files that are not what they say: each is refused with a ConservatorError, quickly."""

import random
import struct

import pytest

from conservator import ConservatorError
from conservator.experts.language_models.convert import convert_gguf
from conservator.experts.language_models.gguf_header import DEEPEST, check_gguf

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


def whole(pairs=PAIRS, tensors=TENSORS, data=DATA):
    """A GGUF file."""
    written = header(len(tensors), len(pairs)) + b"".join(pairs) + b"".join(tensors)
    return written + bytes(-len(written) % 32) + data


def with_pair(*given):
    return whole(pairs=(*PAIRS, pair(*given)))


def with_tensor(*given, **named):
    return whole(tensors=(*TENSORS, tensor(*given, **named)))


NESTED = b"".join(array(ARRAY, 1) for _ in range(DEEPEST)) + array(U8, 1, b"\0")
MALFORMED = {
    "empty": (b"", "it is empty"),
    "magic alone": (b"GGUF", "byte 4 needs 4 bytes more, and only 0 follow"),
    "another magic": (header(0, 0, magic=b"GGML"), "begins with b'GGML'"),
    "version": (header(0, 0, version=9), "its version is 9; accepted: 2, 3"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "its version is 50331648"),
    "no counts": (header(0, 0)[:12], "only 4 follow"),
    "too many pairs": (header(0, 1 << 60), "byte 24 needs"),
    "too many tensors": (header(1 << 60, 0), "byte 24 needs"),
    "long key": (header(0, 1) + u64(1 << 62), "bytes more"),
    "long text": (with_pair("a", STRING, u64((1 << 64) - 1)), "bytes more"),
    "array of 2^60 bytes": (header(0, 1) + pair("a", ARRAY, array(U8, 1 << 60)), r"arrays have \d+ items or more"),
    "array that is cut off": (header(0, 1) + pair("a", ARRAY, array(FLOAT, 1 << 20)), "needs 4194304 bytes more"),
    "array of texts": (header(0, 1) + pair("a", ARRAY, array(STRING, 1 << 20)), "bytes more"),
    "deep arrays": (with_pair("a", ARRAY, NESTED), "arrays within each other"),
    "very deep arrays": (header(0, 1) + pair("a", ARRAY, array(ARRAY, 1) * 5000), "arrays within each other"),
    "type of a value": (with_pair("a", 13, b""), "the type 13"),
    "type of items": (with_pair("a", ARRAY, array(99, 3)), "the type 99"),
    "key that is no text": (with_pair(b"\xff", U8, b"\0"), "is not UTF-8"),
    "key twice": (with_pair("llama.block_count", U32, u32(1)), "'llama.block_count' is there twice"),
    "key of the reader's own": (with_pair("GGUF.version", U32, u32(1)), "'GGUF.version' is there twice"),
    "alignment 0": (with_pair("general.alignment", U32, u32(0)), "the alignment is 0; a power of two"),
    "alignment 48": (with_pair("general.alignment", U32, u32(48)), "the alignment is 48; a power of two"),
    "alignment as a text": (with_pair("general.alignment", STRING, text("32")), "a power of two"),
    "tensor without dimensions": (with_tensor("a", []), "has 0 dimensions"),
    "tensor of many dimensions": (with_tensor("a", [1] * 5), "has 5 dimensions"),
    "tensor of size 0": (with_tensor("a", [0]), r"has the sizes \[0\]"),
    "tensor of another type": (with_tensor("a", [8], kind=77), "has the type 77"),
    "half a block": (with_tensor("a", [8], kind=Q8_0), "must be a multiple of 32"),
    "tensor twice": (with_tensor("token_embd.weight", [8]), "'token_embd.weight' is there twice"),
    "crooked offset": (with_tensor("a", [8], offset=4), "no multiple of 32"),
    "offset after the end": (with_tensor("a", [8], offset=1 << 40), "its tensors need"),
    "tensor larger than the file": (with_tensor("a", [1 << 40, 1 << 20]), "its tensors need"),
    "tensors on each other": (
        whole(tensors=(*TENSORS, *(tensor(f"a{one}", [80]) for one in range(9)))),
        "its tensors need",
    ),
    "data that is cut off": (whole(data=DATA[:-1]), "its tensors need"),
    "blocks that are not there": (
        whole(pairs=(PAIRS[0], pair("llama.block_count", U32, u32(1 << 31)))),
        "llama.block_count is 2147483648, and there are tensors of 1 blocks",
    ),
    "a network larger than its tensors": (
        with_pair("llama.feed_forward_length", U32, u32(1 << 31)),
        "llama.feed_forward_length is 2147483648, and no tensor is larger than 8",
    ),
}


def test_a_sound_file_passes(tmp_path):
    path = tmp_path / "sound.gguf"
    path.write_bytes(whole())
    check_gguf(path)


@pytest.mark.parametrize(("data", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_file_is_refused(tmp_path, data, message):
    path = tmp_path / "malformed.gguf"
    path.write_bytes(data)
    with pytest.raises(ConservatorError, match=message):
        convert_gguf(path, tmp_path)


def test_a_sound_file_of_no_network_is_refused(tmp_path):
    path = tmp_path / "sound.gguf"
    path.write_bytes(whole())
    with pytest.raises(ConservatorError, match="cannot read"):
        convert_gguf(path, tmp_path)


def mutated(data, draw):
    """The data with a few bytes or a number changed, or cut off."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(changed))
        way = draw.randrange(4)
        if way == 0:
            changed[place] = draw.randrange(256)
        elif way == 1:
            changed[place] ^= 1 << draw.randrange(8)
        elif way == 2:
            changed[place : place + 8] = u64(draw.choice([0, 1, 255, 1 << 31, 1 << 60, (1 << 64) - 1]))
        else:
            del changed[place:]
            break
    return bytes(changed) or b"\0"


def test_what_passes_the_check_is_read_by_the_package(tmp_path):
    """Of 1,000 mutants of a sound file, each is refused, or the package reads it."""
    from gguf import GGUFReader

    path, draw, passed = tmp_path / "mutant.gguf", random.Random(0), 0
    for _ in range(1000):
        path.write_bytes(mutated(whole(), draw))
        try:
            check_gguf(path)
        except ConservatorError:
            continue
        GGUFReader(str(path))
        passed += 1
    assert 100 < passed < 900
