"""Characters as tokens: encoding, decoding, and the repertoires of encodings."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.vocabularies import BYTES, CHARACTERS, CharacterVocabulary

texts = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("éß“\r\n\tĄğ")))


@given(texts)
def test_the_spans_of_tokens_cover_every_text(text):
    data = text.encode()
    encoded = CHARACTERS.encode(data)
    assert encoded.spans.shape == (len(encoded.tokens), 2)
    assert b"".join(data[start:stop] for start, stop in encoded.spans) == data
    assert ((encoded.tokens >= 0) & (encoded.tokens < CHARACTERS.size)).all()
    assert len(encoded.tokens) == len(text) - text.count("\r\n")


@given(st.text(st.sampled_from([text for text in CHARACTERS.texts if text != "\ufffd"])))
def test_a_text_of_characters_with_tokens_round_trips(text):
    tokens = CHARACTERS.encode(text.encode()).tokens
    assert CHARACTERS.decode(tokens).decode() == text
    assert CHARACTERS.non_ascii[tokens].tolist() == [not character.isascii() for character in text]


@given(st.text(st.sampled_from("\t\n") | st.characters(min_codepoint=32, max_codepoint=126)))
def test_ascii_has_the_same_tokens_as_bytes(text):
    assert CHARACTERS.encode(text.encode()).tokens.tolist() == BYTES.encode(text.encode()).tokens.tolist()


def test_a_character_of_another_script_and_a_crlf_are_one_token():
    encoded = CHARACTERS.encode("Ж\r\n😀".encode())
    assert encoded.tokens.tolist() == [CHARACTERS.other, ord("\n"), CHARACTERS.other]
    assert encoded.spans.tolist() == [[0, 2], [2, 4], [4, 8]]


@pytest.mark.parametrize("encoding", ["windows-1252", "windows-1250", "windows-1254", "windows-1257", "iso-8859-15"])
def test_a_repertoire_contains_the_characters_of_the_encoding(encoding):
    contained = CHARACTERS.repertoire(encoding)
    for token, text in enumerate(CHARACTERS.texts):
        possible = CHARACTERS.non_ascii[token] and len(text.encode(encoding, errors="ignore")) == 1
        assert contained[token] == possible, text


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-16", "hex", "none such", "", "a\0b", "idna", "koi8-r", "big5", "ascii"]
)
def test_other_encodings_have_no_repertoire(encoding):
    with pytest.raises(LookupError):
        CHARACTERS.repertoire(encoding)


def test_predictions_are_renormalised_to_the_repertoire():
    allowed = np.zeros(CHARACTERS.size, dtype=bool)
    allowed[[200, 201, 202]] = True
    constraint = CharacterVocabulary(allowed).constraint
    log_probs = torch.log_softmax(torch.randn(5, CHARACTERS.size, generator=torch.Generator().manual_seed(0)), dim=-1)
    tokens = np.full(5, CHARACTERS.mask)
    chosen, confidence = constraint.best(tokens, constraint.make_candidates(log_probs))
    renormalised = log_probs[:, 200:203].double().softmax(dim=-1)
    assert chosen.tolist() == (200 + renormalised.argmax(-1)).tolist()
    np.testing.assert_allclose(confidence, renormalised.max(-1).values)
    assert np.flatnonzero(constraint.next_states(1)).tolist() == [200, 201, 202]
