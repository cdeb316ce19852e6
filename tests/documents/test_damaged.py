"""Parsing of damaged documents, compared with a parser that reads part by part."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.documents import LOST, read_damaged
from conservator.documents.damaged import ASSUMED_GAP_BYTES
from conservator.errors import ConservatorError
from conservator.vocabularies import BYTES

MARK, GAP = "\ufffd".encode(), b"[...]"


def all_positions(damaged):
    return np.arange(len(damaged.tokens))


def test_marks_and_gaps():
    damaged = read_damaged("a\ufffd[...]é")
    assert damaged.tokens.tolist() == [97, LOST, *b"[...]", 0xC3, 0xA9]
    assert damaged.origins(all_positions(damaged)).tolist()[:3] == [[0, 1], [1, 4], [4, 5]]
    damaged = read_damaged("a\ufffd[...]é", gap="[...]")
    assert damaged.tokens.tolist() == [97, LOST, 0xC3, 0xA9]
    assert damaged.lost.tolist() == [1]
    assert (damaged.positions[damaged.gaps].tolist(), damaged.spans[damaged.gaps].tolist()) == ([2], [[4, 9]])
    longer = damaged.with_lengths([3])
    assert longer.tokens.tolist() == [97, LOST, LOST, LOST, LOST, 0xC3, 0xA9]
    assert longer.origins(all_positions(longer)).tolist() == [
        [0, 1],
        [1, 4],
        [4, 9],
        [4, 9],
        [4, 9],
        [9, 10],
        [10, 11],
    ]


def test_a_mark_inside_a_gap_marker_is_not_a_mark():
    damaged = read_damaged("a.b[...]c", mark=".", gap="[...]")
    assert damaged.tokens.tolist() == [97, LOST, 98, 99]
    assert (damaged.positions[damaged.gaps].tolist(), damaged.spans[damaged.gaps].tolist()) == ([3], [[3, 8]])


parts = st.lists(st.sampled_from([b"a", "é".encode(), MARK, b"\r\n", GAP]), max_size=12)


@given(parts)
def test_every_token_has_its_origin(parts):
    data = b"".join(parts)
    damaged = read_damaged(data, gap="[...]")
    assert len(damaged.gaps) == parts.count(GAP)
    for token, (start, stop) in zip(damaged.tokens, damaged.origins(all_positions(damaged)), strict=True):
        assert data[start:stop] == (MARK if token == LOST else bytes([token]))


def parse_parts(parts, lengths):
    """Return tokens with the given lengths of gaps, the origin and the gap of each, and the position of each gap."""
    tokens, origins, gap_of, positions, offset = [], [], [], [], 0
    for part in parts:
        if part == GAP:
            positions.append(len(tokens))
            count = lengths[len(positions) - 1]
            tokens += [LOST] * count
            origins += [[offset, offset + len(GAP)]] * count
            gap_of += [len(positions) - 1] * count
        elif part == MARK:
            tokens.append(LOST)
            origins.append([offset, offset + len(MARK)])
            gap_of.append(-1)
        else:
            tokens += part
            origins += [[offset + position, offset + position + 1] for position in range(len(part))]
            gap_of += [-1] * len(part)
        offset += len(part)
    return tokens, origins, gap_of, positions


@given(parts, st.data())
def test_lengths_origins_and_gaps_agree_with_parsing_by_parts(parts, data):
    count = parts.count(GAP)
    lengths = data.draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
    short = read_damaged(b"".join(parts), gap="[...]")
    for damaged, chosen in ((short, [0] * count), (short.with_lengths(lengths), lengths)):
        tokens, origins, gap_of, positions = parse_parts(parts, chosen)
        assert damaged.tokens.tolist() == tokens
        assert damaged.tokens.dtype == np.int16
        assert damaged.lost.tolist() == [position for position, token in enumerate(tokens) if token == LOST]
        assert damaged.positions[damaged.gaps].tolist() == positions
        assert damaged.lengths[damaged.gaps].tolist() == chosen
        assert damaged.origins(all_positions(damaged)).tolist() == origins
        assert damaged.gap_of(all_positions(damaged)).tolist() == gap_of
        if tokens:  # a subset of the positions, in any order
            subset = np.array(data.draw(st.lists(st.integers(0, len(tokens) - 1), max_size=6)), dtype=np.int64)
            assert damaged.origins(subset).tolist() == [origins[position] for position in subset]
            assert damaged.gap_of(subset).tolist() == [gap_of[position] for position in subset]


@given(parts.filter(lambda parts: GAP in parts), st.integers(0, 8), st.data())
def test_the_context_of_a_gap_is_a_part_of_the_document_with_the_chosen_lengths(parts, radius, data):
    damaged = read_damaged(b"".join(parts), gap="[...]")
    count = len(damaged.gaps)
    number = data.draw(st.integers(0, count - 1))
    chosen = data.draw(st.lists(st.integers(1, 5), min_size=number, max_size=number))
    tokens, _, _, positions = parse_parts(parts, [*chosen, 0, *[ASSUMED_GAP_BYTES] * (count - number - 1)])
    start, stop = max(0, positions[number] - radius), min(len(tokens), positions[number] + radius)
    context = damaged.around_gap(number, chosen, radius)
    assert context.tokens.tolist() == tokens[start:stop]
    assert context.position == positions[number] - start
    assert (context.continues_before, context.continues_after) == (start > 0, stop < len(tokens))


def test_half_a_character_beside_a_mark_is_valid():
    assert read_damaged(b"\xef\xbf\xbd\xa9").check_utf8("bytes").tokens.tolist() == [LOST, 0xA9]
    assert read_damaged(b"\xc3[...]\xa9", gap="[...]").check_utf8("bytes").tokens.tolist() == [0xC3, 0xA9]
    for data in (b"a \xf0[...] b", b"\xe2[...]\x82 b", b"\xf0\x9f[...]\x98\x80"):
        damaged = read_damaged(data, gap="[...]").check_utf8("bytes")
        assert bytes(damaged.tokens.tolist()) == data.replace(b"[...]", b"")


def test_invalid_utf8_is_refused_with_its_position_or_counts_as_lost():
    damaged = read_damaged(b"\xef\xbf\xbd:)\xe9!")
    with pytest.raises(ConservatorError, match="byte 5 is 0xe9"):
        damaged.check_utf8("bytes")
    assert damaged.check_utf8("invalid").tokens.tolist() == [LOST, 58, 41, LOST, 33]
    assert damaged.check_utf8("invalid").lost.tolist() == [0, 3]
    assert damaged.tokens.tolist() == [LOST, 58, 41, 0xE9, 33]


@given(st.binary(max_size=20))
def test_any_bytes_can_be_parsed_with_invalid_ones_lost(data):
    damaged = read_damaged(data).check_utf8("invalid")
    assert not BYTES.constraint.violations(damaged.tokens).any()
    visible = damaged.tokens != LOST
    origin = damaged.origins(all_positions(damaged))
    assert (np.frombuffer(data, np.uint8)[origin[visible, 0]] == damaged.tokens[visible]).all()
    assert damaged.check_utf8("bytes") is damaged.check_utf8("invalid") is damaged


@pytest.mark.parametrize(
    ("document", "settings", "message"),
    [
        ("a", {"mark": ""}, "mark is empty"),
        ("a", {"gap": ""}, "gap is empty"),
        ("a", {"mark": "?", "gap": "?"}, "they must differ"),
        ("ab\ud800", {}, "character 2"),
    ],
)
def test_invalid_marks_and_texts_are_refused(document, settings, message):
    with pytest.raises(ConservatorError, match=message):
        read_damaged(document, **settings)
