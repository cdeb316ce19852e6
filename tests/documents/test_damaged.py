"""What is read of damaged documents, against a reading sign by sign."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.documents import LOST, read_damaged
from conservator.documents.damaged import ANY
from conservator.errors import ConservatorError
from conservator.vocabularies import BYTES

MARK, GAP = "\ufffd".encode(), b"[...]"


def everywhere(damaged):
    return np.arange(len(damaged.tokens))


def test_marks_and_gaps():
    found = read_damaged("a\ufffd[...]é")
    assert found.tokens.tolist() == [97, LOST, *b"[...]", 0xC3, 0xA9]
    assert found.origins(everywhere(found)).tolist()[:3] == [[0, 1], [1, 4], [4, 5]]
    found = read_damaged("a\ufffd[...]é", gap="[...]")
    assert found.tokens.tolist() == [97, LOST, 0xC3, 0xA9]
    assert found.lost.tolist() == [1]
    assert (found.places[found.gaps].tolist(), found.spans[found.gaps].tolist()) == ([2], [[4, 9]])
    longer = found.with_lengths([3])
    assert longer.tokens.tolist() == [97, LOST, LOST, LOST, LOST, 0xC3, 0xA9]
    assert longer.origins(everywhere(longer)).tolist() == [
        [0, 1],
        [1, 4],
        [4, 9],
        [4, 9],
        [4, 9],
        [9, 10],
        [10, 11],
    ]


def test_a_mark_inside_the_gap_is_not_a_mark():
    found = read_damaged("a.b[...]c", mark=".", gap="[...]")
    assert found.tokens.tolist() == [97, LOST, 98, 99]
    assert (found.places[found.gaps].tolist(), found.spans[found.gaps].tolist()) == ([3], [[3, 8]])


parts = st.lists(st.sampled_from([b"a", "é".encode(), MARK, b"\r\n", GAP]), max_size=12)


@given(parts)
def test_every_token_says_where_it_came_from(parts):
    data = b"".join(parts)
    found = read_damaged(data, gap="[...]")
    assert len(found.gaps) == parts.count(GAP)
    for token, (start, stop) in zip(found.tokens, found.origins(everywhere(found)), strict=True):
        assert data[start:stop] == (MARK if token == LOST else bytes([token]))


def sign_by_sign(parts, lengths):
    """The tokens with so many lost ones in each gap, with the origin and the gap of each, and where each gap begins."""
    tokens, origins, gap_of, places, done = [], [], [], [], 0
    for part in parts:
        if part == GAP:
            places.append(len(tokens))
            count = lengths[len(places) - 1]
            tokens += [LOST] * count
            origins += [[done, done + len(GAP)]] * count
            gap_of += [len(places) - 1] * count
        elif part == MARK:
            tokens.append(LOST)
            origins.append([done, done + len(MARK)])
            gap_of.append(-1)
        else:
            tokens += part
            origins += [[done + place, done + place + 1] for place in range(len(part))]
            gap_of += [-1] * len(part)
        done += len(part)
    return tokens, origins, gap_of, places


@given(parts, st.data())
def test_lengths_origins_and_gaps_are_those_of_a_reading_sign_by_sign(parts, data):
    count = parts.count(GAP)
    lengths = data.draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
    short = read_damaged(b"".join(parts), gap="[...]")
    for found, chosen in ((short, [0] * count), (short.with_lengths(lengths), lengths)):
        tokens, origins, gap_of, places = sign_by_sign(parts, chosen)
        assert found.tokens.tolist() == tokens
        assert found.tokens.dtype == np.int16
        assert found.lost.tolist() == [place for place, token in enumerate(tokens) if token == LOST]
        assert found.places[found.gaps].tolist() == places
        assert found.lengths[found.gaps].tolist() == chosen
        assert found.origins(everywhere(found)).tolist() == origins
        assert found.gap_of(everywhere(found)).tolist() == gap_of
        if tokens:  # some of the positions, in any order
            some = np.array(data.draw(st.lists(st.integers(0, len(tokens) - 1), max_size=6)), dtype=np.int64)
            assert found.origins(some).tolist() == [origins[place] for place in some]
            assert found.gap_of(some).tolist() == [gap_of[place] for place in some]


@given(parts.filter(lambda parts: GAP in parts), st.integers(0, 8), st.data())
def test_what_is_around_a_gap_is_a_part_of_the_document_with_the_lengths_so_far(parts, reach, data):
    found = read_damaged(b"".join(parts), gap="[...]")
    count = len(found.gaps)
    number = data.draw(st.integers(0, count - 1))
    chosen = data.draw(st.lists(st.integers(1, 5), min_size=number, max_size=number))
    tokens, _, _, places = sign_by_sign(parts, [*chosen, 0, *[ANY] * (count - number - 1)])
    start, stop = max(0, places[number] - reach), min(len(tokens), places[number] + reach)
    around = found.around_gap(number, chosen, reach)
    assert around.tokens.tolist() == tokens[start:stop]
    assert around.place == places[number] - start
    assert (around.goes_on_before, around.goes_on_after) == (start > 0, stop < len(tokens))


def test_half_a_character_beside_a_mark_is_fine():
    assert read_damaged(b"\xef\xbf\xbd\xa9").settled("bytes").tokens.tolist() == [LOST, 0xA9]
    assert read_damaged(b"\xc3[...]\xa9", gap="[...]").settled("bytes").tokens.tolist() == [0xC3, 0xA9]
    for data in (b"a \xf0[...] b", b"\xe2[...]\x82 b", b"\xf0\x9f[...]\x98\x80"):
        found = read_damaged(data, gap="[...]").settled("bytes")
        assert bytes(found.tokens.tolist()) == data.replace(b"[...]", b"")


def test_what_is_not_utf8_is_refused_with_the_place_or_counts_as_lost():
    found = read_damaged(b"\xef\xbf\xbd:)\xe9!")
    with pytest.raises(ConservatorError, match="byte 5 is 0xe9"):
        found.settled("bytes")
    assert found.settled("invalid").tokens.tolist() == [LOST, 58, 41, LOST, 33]
    assert found.settled("invalid").lost.tolist() == [0, 3]
    assert found.tokens.tolist() == [LOST, 58, 41, 0xE9, 33]


@given(st.binary(max_size=20))
def test_any_bytes_can_be_read_with_their_invalid_ones_lost(data):
    found = read_damaged(data).settled("invalid")
    assert not BYTES.constraint.violations(found.tokens).any()
    seen = found.tokens != LOST
    origin = found.origins(everywhere(found))
    assert (np.frombuffer(data, np.uint8)[origin[seen, 0]] == found.tokens[seen]).all()
    assert found.settled("bytes") is found.settled("invalid") is found


@pytest.mark.parametrize(
    ("document", "settings", "message"),
    [
        ("a", {"mark": ""}, "mark is empty"),
        ("a", {"gap": ""}, "gap is empty"),
        ("a", {"mark": "?", "gap": "?"}, "they must differ"),
        ("ab\ud800", {}, "character 2"),
    ],
)
def test_bad_marks_and_texts_are_said(document, settings, message):
    with pytest.raises(ConservatorError, match=message):
        read_damaged(document, **settings)
