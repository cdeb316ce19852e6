"""Vocabularies: bytes as text, and numbers that are none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.vocabularies import BYTES, Numbered


@given(st.binary(max_size=20))
def test_bytes_are_their_own_tokens(data):
    encoded = BYTES.encode(data)
    assert encoded.tokens.tolist() == list(data)
    assert [data[start:stop] for start, stop in encoded.spans] == [bytes([byte]) for byte in data]
    assert BYTES.decode(encoded.tokens) == data
    assert BYTES.mask == BYTES.size == 256


def test_numbers_stand_for_no_text():
    numbers = Numbered(5)
    assert (numbers.size, numbers.mask, numbers.constraint) == (5, 5, None)
    assert len({vocabulary.fingerprint for vocabulary in (numbers, Numbered(6), Numbered(256), BYTES)}) == 4
    for call in (lambda: numbers.encode(b"a"), lambda: numbers.decode(np.array([1]))):
        with pytest.raises(ConservatorError, match="no text"):
            call()


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "3"])
def test_a_size_that_is_no_whole_number_is_refused(size):
    with pytest.raises(ConservatorError, match="at least 1"):
        Numbered(size)
