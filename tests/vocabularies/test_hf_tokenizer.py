"""The bytes of tokens: a cut gives a text back exactly, whatever the tokenizer would do to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator import ConservatorError
from conservator.vocabularies.hf_tokenizer import load_tokens, make_tokens
from support.tiny import byte_level, sentence_pieces

SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PREPEND = {"type": "Prepend", "prepend": "▁"}
LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
META = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
TABLE = {"content": "<table>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


def with_table():
    described = byte_level("<|endoftext|>")
    number = len(described["model"]["vocab"])
    described["added_tokens"].append(TABLE | {"id": number, "special": False})
    return described


STYLES = {
    "byte-level": byte_level("<|endoftext|>"),
    "byte-level, a space before": byte_level("<|endoftext|>", pre_tokenizer=LEVEL),
    "byte-level, normal form": byte_level("<|endoftext|>", normalizer={"type": "NFC"}),
    "byte-level, an added word": with_table(),
    "sentencepiece": sentence_pieces("<bos>"),
    "sentencepiece, a space before": sentence_pieces(
        "<s>", normalizer={"type": "Sequence", "normalizers": [PREPEND, SPACES]}
    ),
    "sentencepiece, metaspace": sentence_pieces("<s>", normalizer=None, pre_tokenizer=META),
}
HARD = [
    "<|endoftext|>",
    "<bos>",
    "<0x0A>",
    "▁",
    " ",
    "  ",
    "\n",
    "e\u0301",
    "<table>",
    "the quick",
    "\x00",
    "😀",
    "<unk>",
]


@pytest.fixture(scope="module", params=STYLES)
def tokens(request):
    return make_tokens(STYLES[request.param], 400)


@given(parts=st.lists(st.sampled_from(HARD) | st.text(max_size=5), max_size=8))
def test_a_cut_gives_the_bytes_back(tokens, parts):
    text = "".join(parts)
    assert b"".join(tokens.pieces[token] for token in tokens.cut(text)) == text.encode()


def test_every_token_that_the_network_has_has_a_piece(tokens):
    assert tokens.size == 400
    assert tokens.pieces[-1] == b""
    assert {bytes([byte]) for byte in range(256)} <= set(tokens.pieces)


def test_an_added_word_is_one_token():
    tokens = make_tokens(STYLES["byte-level, an added word"], 400)
    assert [tokens.pieces[token] for token in tokens.cut("<table>")] == [b"<table>"]


def test_a_byte_without_a_token_is_named():
    described = byte_level("<|endoftext|>")
    vocabulary = described["model"]["vocab"]
    vocabulary["nothing"] = vocabulary.pop("Ā")  # the sign of byte 0
    tokens = make_tokens(described, 400)
    with pytest.raises(ConservatorError, match="without a token: 0x00"):
        tokens.cut("a\x00b")
    assert tokens.cut("ab")


@pytest.mark.parametrize(
    ("described", "message"),
    [
        (byte_level("<s>") | {"model": {"type": "Unigram"}}, "accepted: 'BPE', 'WordPiece'"),
        (byte_level("<s>", normalizer={"type": "Lowercase"}), "changes a text by Lowercase"),
        (byte_level("<s>", pre_tokenizer={"type": "Whitespace"}), "neither byte-level"),
        (
            byte_level(
                "<s>", pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, LEVEL]}
            ),
            "by WhitespaceSplit",
        ),
        (sentence_pieces("<s>", normalizer=None), "neither byte-level"),
        (byte_level("<s>", added_tokens=[TABLE | {"id": 5, "special": False, "lstrip": True}]), "the spaces beside it"),
        ({"model": {"type": "BPE", "vocab": {}}}, "neither byte-level"),
        ({}, "no tokenizer of the tokenizers library"),
    ],
)
def test_what_may_change_a_text_is_refused(described, message):
    with pytest.raises(ConservatorError, match=message):
        make_tokens(described, 400)


def test_more_tokens_than_the_network_has_are_refused():
    with pytest.raises(ConservatorError, match="the network only 20"):
        make_tokens(byte_level("<s>"), 20)


def test_a_file_that_is_no_tokenizer_is_named(tmp_path):
    path = tmp_path / "tokenizer.json"
    with pytest.raises(ConservatorError, match="cannot read"):
        load_tokens(path, 400)
    path.write_text("{")
    with pytest.raises(ConservatorError, match=r"tokenizer.json is not JSON"):
        load_tokens(path, 400)


@given(st.text(max_size=20))
def test_a_text_as_tokens_has_spans_and_comes_back(tokens, text):
    data = text.encode()
    encoded = tokens.encode(data)
    assert [data[start:stop] for start, stop in encoded.spans] == [tokens.pieces[token] for token in encoded.tokens]
    assert tokens.decode(encoded.tokens) == data
    assert tokens.mask == tokens.size
