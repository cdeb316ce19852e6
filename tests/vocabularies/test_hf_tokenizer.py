"""Token bytes: tokenization is lossless, even if the original tokenizer changes texts."""

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
    config = byte_level("<|endoftext|>")
    token = len(config["model"]["vocab"])
    config["added_tokens"].append(TABLE | {"id": token, "special": False})
    return config


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
def test_tokenization_is_lossless(tokens, parts):
    text = "".join(parts)
    assert b"".join(tokens.token_bytes[token] for token in tokens.tokenize(text)) == text.encode()


def test_every_token_of_the_network_has_bytes(tokens):
    assert tokens.size == 400
    assert tokens.token_bytes[-1] == b""
    assert {bytes([byte]) for byte in range(256)} <= set(tokens.token_bytes)


def test_an_added_word_is_one_token():
    tokens = make_tokens(STYLES["byte-level, an added word"], 400)
    assert [tokens.token_bytes[token] for token in tokens.tokenize("<table>")] == [b"<table>"]


def test_the_error_names_a_byte_without_a_token():
    config = byte_level("<|endoftext|>")
    vocabulary = config["model"]["vocab"]
    vocabulary["nothing"] = vocabulary.pop("Ā")  # stands for byte 0
    tokens = make_tokens(config, 400)
    with pytest.raises(ConservatorError, match="without a token: 0x00"):
        tokens.tokenize("a\x00b")
    assert tokens.tokenize("ab")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (byte_level("<s>") | {"model": {"type": "Unigram"}}, "must be 'BPE' or 'WordPiece', got 'Unigram'"),
        (byte_level("<s>", normalizer={"type": "Lowercase"}), "the normalizer Lowercase changes the text"),
        (byte_level("<s>", pre_tokenizer={"type": "Whitespace"}), "must be byte-level, or SentencePiece"),
        (
            byte_level(
                "<s>", pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, LEVEL]}
            ),
            "the pre-tokenizer WhitespaceSplit may lose text",
        ),
        (sentence_pieces("<s>", normalizer=None), "must be byte-level, or SentencePiece"),
        (
            byte_level("<s>", added_tokens=[TABLE | {"id": 5, "special": False, "lstrip": True}]),
            "strips adjacent spaces",
        ),
        ({"model": {"type": "BPE", "vocab": {}}}, "must be byte-level, or SentencePiece"),
        ({}, "not a tokenizer of the tokenizers library"),
    ],
)
def test_tokenizers_that_change_texts_are_refused(config, message):
    with pytest.raises(ConservatorError, match=message):
        make_tokens(config, 400)


def test_more_tokens_than_the_network_has_are_refused():
    with pytest.raises(ConservatorError, match="the network has only 20 tokens"):
        make_tokens(byte_level("<s>"), 20)


def test_the_error_names_a_file_that_is_not_a_tokenizer(tmp_path):
    path = tmp_path / "tokenizer.json"
    with pytest.raises(ConservatorError, match="cannot read"):
        load_tokens(path, 400)
    path.write_text("{")
    with pytest.raises(ConservatorError, match=r"tokenizer.json is not JSON"):
        load_tokens(path, 400)


@given(st.text(max_size=20))
def test_spans_and_decoding_match_the_text(tokens, text):
    data = text.encode()
    encoded = tokens.encode(data)
    assert [data[start:stop] for start, stop in encoded.spans] == [
        tokens.token_bytes[token] for token in encoded.tokens
    ]
    assert tokens.decode(encoded.tokens) == data
    assert tokens.mask == tokens.size
