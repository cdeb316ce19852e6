"""Vocabularies: bytes, and numbered tokens without text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.vocabularies import BYTES, NumberedVocabulary


@given(st.binary(max_size=20))
def test_bytes_are_their_own_tokens(data):
    encoded = BYTES.encode(data)
    assert encoded.tokens.tolist() == list(data)
    assert [data[start:stop] for start, stop in encoded.spans] == [bytes([byte]) for byte in data]
    assert BYTES.decode(encoded.tokens) == data
    assert BYTES.mask == BYTES.size == 256


def test_numbered_tokens_have_no_text():
    numbered = NumberedVocabulary(5)
    assert (numbered.size, numbered.mask, numbered.constraint) == (5, 5, None)
    vocabularies = (numbered, NumberedVocabulary(6), NumberedVocabulary(256), BYTES)
    assert len({vocabulary.fingerprint for vocabulary in vocabularies}) == 4
    for call in (lambda: numbered.encode(b"a"), lambda: numbered.decode(np.array([1]))):
        with pytest.raises(ConservatorError, match="have no text"):
            call()


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "3"])
def test_a_size_that_is_not_a_positive_integer_is_refused(size):
    with pytest.raises(ConservatorError, match="at least 1"):
        NumberedVocabulary(size)
