"""Tokens that lose text: which spellings stand for a token, and which bytes a token was cut from."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator import ConservatorError
from conservator.vocabularies import BYTES, Tokens, Words
from conservator.vocabularies.hf_tokenizer import make_tokens
from support.tiny import word_pieces

CASED, SMALL = make_tokens(word_pieces(), 300), make_tokens(word_pieces(lowercase=True), 300)
TEXTS = st.text("the quickFox,.\n\tÉé☃", max_size=30)
both = pytest.mark.parametrize("words", [CASED, SMALL], ids=["cased", "small"])


def number(words, text, begins=True):
    (found,) = [token for token, one in enumerate(words.words) if (one.text, one.begins) == (text, begins)]
    return found


@both
@given(text=TEXTS)
def test_spans_are_the_bytes_of_tokens_and_the_rest_is_white_space(words, text):
    data = text.encode()
    encoded = words.encode(data)
    ends = [0]
    for token, (start, stop) in zip(encoded.tokens, encoded.spans, strict=True):
        assert data[ends[-1] : start].decode().strip() == ""
        ends.append(stop)
        said = words.words[token]
        if said.text and data[start:stop].isascii():
            assert data[start:stop].decode().lower() == said.text.lower()
    assert data[ends[-1] :].decode().strip() == ""
    assert encoded.tokens.tolist() == words.cut(text)


@both
@given(text=TEXTS)
def test_neighbours_of_a_cut_follow_each_other(words, text):
    assert all(words.follows(first, second) for first, second in itertools.pairwise(words.cut(text)))


@both
def test_every_spelling_is_cut_into_its_token(words):
    for spelling, token in words.spellings:
        said = words.words[token]
        before = "" if said.begins else "a"
        found = words.encode((before + spelling.decode()).encode())
        if said.begins:
            assert found.tokens.tolist() == [token]
    assert {token for _, token in words.spellings} == {n for n, one in enumerate(words.words) if one.text}


def test_a_word_stands_with_or_without_a_space():
    the, fox = number(SMALL, "the"), number(SMALL, "fox")
    assert {spelling for spelling, token in SMALL.spellings if token == the} == {
        before + case for before in (b"", b" ") for case in (b"the", b"The", b"THE")
    }
    assert {spelling for spelling, token in CASED.spellings if token == number(CASED, "the")} == {b"the", b" the"}
    inner = next(token for token, one in enumerate(SMALL.words) if one.text and not one.begins)
    letters = SMALL.pieces[inner]
    assert {spelling for spelling, token in SMALL.spellings if token == inner} == {letters, letters.upper()}
    assert SMALL.decode(np.array([the, fox, inner])) == b"the fox" + letters
    assert not SMALL.follows(number(SMALL, ","), inner)
    assert SMALL.follows(the, fox)
    assert SMALL.fingerprint != CASED.fingerprint
    rows = SMALL.fitting([*b" Th", BYTES.mask])
    assert the in SMALL.numbers[rows]


def test_a_longer_token_is_taken_first():
    described = word_pieces()
    vocabulary = described["model"]["vocab"]
    for text in ("ab", "abc", "##c", "##d"):
        vocabulary.setdefault(text, len(vocabulary))
    words = make_tokens(described, 400)
    ab, c, d = number(words, "ab"), number(words, "c", False), number(words, "d", False)
    assert not words.follows(ab, c)
    assert words.follows(ab, d)
    assert words.cut("abc") == [number(words, "abc")]
    assert words.cut("abd") == [ab, d]


def test_what_no_text_is_cut_into_stands_for_none():
    described = word_pieces()
    vocabulary = described["model"]["vocab"]
    vocabulary["[unused1]"] = len(vocabulary)
    words = make_tokens(described, 300)
    assert words.pieces[vocabulary["[unused1]"]] == b""
    for special in ("[MASK]", "[UNK]", "[CLS]"):
        assert words.pieces[vocabulary[special]] == b""
    assert words.cut("[MASK]") != [vocabulary["[MASK]"]]


def test_where_every_token_is_a_character_each_character_is_one():
    described = word_pieces()
    specials = [token["content"] for token in described["added_tokens"]]
    vocabulary = {text: place for place, text in enumerate([*specials, *"ACDEFG"])}
    described["model"]["vocab"] = vocabulary
    tokens = make_tokens(described, 11)
    assert type(tokens) is Tokens
    assert not isinstance(tokens, Words)
    assert tokens.cut("GAG") == [vocabulary[sign] for sign in "GAG"]
    assert tokens.decode(tokens.encode(b"GACE").tokens) == b"GACE"
    assert tokens.follows(vocabulary["G"], vocabulary["A"])
    with pytest.raises(ConservatorError, match="characters without a token: 'B', 'g'; known: ACDEFG"):
        tokens.cut("AgB")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normalizer": {"type": "Lowercase"}}, "the normalizer of its words is Lowercase; accepted: BertNormalizer"),
        ({"pre_tokenizer": None}, "the pre_tokenizer of its words is None"),
        ({"model": word_pieces()["model"] | {"continuing_subword_prefix": "@@"}}, "begin with '@@'"),
    ],
)
def test_other_words_are_refused(change, message):
    with pytest.raises(ConservatorError, match=message):
        make_tokens(word_pieces() | change, 300)
    with pytest.raises(ConservatorError, match="the network only 20"):
        make_tokens(word_pieces(), 20)
