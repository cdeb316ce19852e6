"""WordPiece tokens: their byte forms, and the spans of text that they stand for."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator import ConservatorError
from conservator.vocabularies import BYTES, Tokens, WordPieceTokens
from conservator.vocabularies.hf_tokenizer import make_tokens
from support.tiny import word_pieces

CASED, UNCASED = make_tokens(word_pieces(), 300), make_tokens(word_pieces(lowercase=True), 300)
TEXTS = st.text("the quickFox,.\n\tÉé☃", max_size=30)
both = pytest.mark.parametrize("words", [CASED, UNCASED], ids=["cased", "uncased"])


def find_token(words, text, begins=True):
    (token,) = [token for token, word in enumerate(words.words) if (word.text, word.begins) == (text, begins)]
    return token


@both
@given(text=TEXTS)
def test_spans_are_the_bytes_of_tokens_with_white_space_between(words, text):
    data = text.encode()
    encoded = words.encode(data)
    ends = [0]
    for token, (start, stop) in zip(encoded.tokens, encoded.spans, strict=True):
        assert data[ends[-1] : start].decode().strip() == ""
        ends.append(stop)
        word = words.words[token]
        if word.text and data[start:stop].isascii():
            assert data[start:stop].decode().lower() == word.text.lower()
    assert data[ends[-1] :].decode().strip() == ""
    assert encoded.tokens.tolist() == words.tokenize(text)


@both
@given(text=TEXTS)
def test_neighbours_in_a_tokenization_follow_each_other(words, text):
    assert all(words.follows(first, second) for first, second in itertools.pairwise(words.tokenize(text)))


@both
def test_every_byte_form_is_tokenized_as_its_token(words):
    for form, token in words.byte_forms:
        word = words.words[token]
        before = "" if word.begins else "a"
        encoded = words.encode((before + form.decode()).encode())
        if word.begins:
            assert encoded.tokens.tolist() == [token]
    assert {token for _, token in words.byte_forms} == {token for token, word in enumerate(words.words) if word.text}


def test_byte_forms_have_a_space_or_none():
    the, fox = find_token(UNCASED, "the"), find_token(UNCASED, "fox")
    assert {form for form, token in UNCASED.byte_forms if token == the} == {
        before + case for before in (b"", b" ") for case in (b"the", b"The", b"THE")
    }
    assert {form for form, token in CASED.byte_forms if token == find_token(CASED, "the")} == {b"the", b" the"}
    inner = next(token for token, word in enumerate(UNCASED.words) if word.text and not word.begins)
    letters = UNCASED.token_bytes[inner]
    assert {form for form, token in UNCASED.byte_forms if token == inner} == {letters, letters.upper()}
    assert UNCASED.decode(np.array([the, fox, inner])) == b"the fox" + letters
    assert not UNCASED.follows(find_token(UNCASED, ","), inner)
    assert UNCASED.follows(the, fox)
    assert UNCASED.fingerprint != CASED.fingerprint
    rows = UNCASED.matching_rows([*b" Th", BYTES.mask])
    assert the in UNCASED.token_ids[rows]


def test_the_longest_token_is_taken_first():
    config = word_pieces()
    vocabulary = config["model"]["vocab"]
    for text in ("ab", "abc", "##c", "##d"):
        vocabulary.setdefault(text, len(vocabulary))
    words = make_tokens(config, 400)
    ab, c, d = find_token(words, "ab"), find_token(words, "c", False), find_token(words, "d", False)
    assert not words.follows(ab, c)
    assert words.follows(ab, d)
    assert words.tokenize("abc") == [find_token(words, "abc")]
    assert words.tokenize("abd") == [ab, d]


def test_tokens_that_the_tokenizer_never_produces_have_no_text():
    config = word_pieces()
    vocabulary = config["model"]["vocab"]
    vocabulary["[unused1]"] = len(vocabulary)
    words = make_tokens(config, 300)
    assert words.token_bytes[vocabulary["[unused1]"]] == b""
    for special in ("[MASK]", "[UNK]", "[CLS]"):
        assert words.token_bytes[vocabulary[special]] == b""
    assert words.tokenize("[MASK]") != [vocabulary["[MASK]"]]


def test_single_character_tokens_tokenize_every_character():
    config = word_pieces()
    specials = [token["content"] for token in config["added_tokens"]]
    vocabulary = {text: token for token, text in enumerate([*specials, *"ACDEFG"])}
    config["model"]["vocab"] = vocabulary
    tokens = make_tokens(config, 11)
    assert type(tokens) is Tokens
    assert not isinstance(tokens, WordPieceTokens)
    assert tokens.tokenize("GAG") == [vocabulary[character] for character in "GAG"]
    assert tokens.decode(tokens.encode(b"GACE").tokens) == b"GACE"
    assert tokens.follows(vocabulary["G"], vocabulary["A"])
    with pytest.raises(ConservatorError, match="characters without a token: 'B', 'g'; known: ACDEFG"):
        tokens.tokenize("AgB")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"normalizer": {"type": "Lowercase"}},
            "the normalizer of a WordPiece tokenizer must be BertNormalizer, got Lowercase",
        ),
        ({"pre_tokenizer": None}, "the pre_tokenizer .* must be BertPreTokenizer, got None"),
        ({"model": word_pieces()["model"] | {"continuing_subword_prefix": "@@"}}, "must be '##', got '@@'"),
    ],
)
def test_other_wordpiece_tokenizers_are_refused(change, message):
    with pytest.raises(ConservatorError, match=message):
        make_tokens(word_pieces() | change, 300)
    with pytest.raises(ConservatorError, match="the network has only 20 tokens"):
        make_tokens(word_pieces(), 20)
