"""What is read of damaged documents."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator import ConservatorError
from conservator.documents.damaged import read_damaged
from conservator.documents.utf8 import LOST, find_invalid


def test_marks_and_gaps():
    found = read_damaged("a\ufffd[...]é")
    assert found.tokens.tolist() == [97, LOST, *b"[...]", 0xC3, 0xA9]
    assert found.origin.tolist()[:3] == [[0, 1], [1, 4], [4, 5]]
    found = read_damaged("a\ufffd[...]é", gap="[...]")
    assert found.tokens.tolist() == [97, LOST, 0xC3, 0xA9]
    assert found.gaps == ((2, (4, 9)),)
    longer = found.with_lengths([3])
    assert longer.tokens.tolist() == [97, LOST, LOST, LOST, LOST, 0xC3, 0xA9]
    assert longer.origin.tolist() == [[0, 1], [1, 4], [4, 9], [4, 9], [4, 9], [9, 10], [10, 11]]


def test_a_mark_inside_the_gap_is_not_a_mark():
    found = read_damaged("a.b[...]c", mark=".", gap="[...]")
    assert found.tokens.tolist() == [97, LOST, 98, 99]
    assert found.gaps == ((3, (3, 8)),)


@given(st.lists(st.sampled_from([b"a", "é".encode(), "\ufffd".encode(), b"\r\n", b"[...]"]), max_size=12))
def test_every_token_says_where_it_came_from(parts):
    data = b"".join(parts)
    found = read_damaged(data, gap="[...]")
    assert len(found.gaps) == parts.count(b"[...]")
    for token, (start, stop) in zip(found.tokens, found.origin, strict=True):
        assert data[start:stop] == ("\ufffd".encode() if token == LOST else bytes([token]))


def test_half_a_character_beside_a_mark_is_fine():
    assert read_damaged(b"\xef\xbf\xbd\xa9").tokens.tolist() == [LOST, 0xA9]
    assert read_damaged(b"\xc3[...]\xa9", gap="[...]").tokens.tolist() == [0xC3, 0xA9]
    for data in (b"a \xf0[...] b", b"\xe2[...]\x82 b", b"\xf0\x9f[...]\x98\x80"):
        assert bytes(read_damaged(data, gap="[...]").tokens.tolist()) == data.replace(b"[...]", b"")


def test_what_is_not_utf8_is_refused_with_the_place_or_counts_as_lost():
    with pytest.raises(ConservatorError, match="byte 5 is 0xe9"):
        read_damaged(b"\xef\xbf\xbd:)\xe9!")
    assert read_damaged(b"\xef\xbf\xbd:)\xe9!", invalid="lost").tokens.tolist() == [LOST, 58, 41, LOST, 33]


@given(st.binary(max_size=20))
def test_any_bytes_can_be_read_with_their_invalid_ones_lost(data):
    found = read_damaged(data, invalid="lost")
    assert not find_invalid(found.tokens).any()
    seen = found.tokens != LOST
    assert (np.frombuffer(data, np.uint8)[found.origin[seen, 0]] == found.tokens[seen]).all()


@pytest.mark.parametrize(
    ("document", "settings", "message"),
    [
        ("a", {"mark": ""}, "mark is empty"),
        ("a", {"gap": ""}, "mark is empty"),
        ("a", {"mark": "?", "gap": "?"}, "they must differ"),
        ("ab\ud800", {}, "character 2"),
    ],
)
def test_bad_marks_and_texts_are_said(document, settings, message):
    with pytest.raises(ConservatorError, match=message):
        read_damaged(document, **settings)
