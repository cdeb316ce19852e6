"""Spans and chunks: properties of the partition of a text."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from conservator.decoders.rescoring.slots import Draft, Slot, open_bytes
from conservator.decoders.rescoring.spans import CHUNK_BYTES, CONFIG, ChunkLimits, Span, find_listed_span, find_spans

TEXTS = st.text(alphabet="ab é\n.", min_size=1, max_size=120).map(str.encode)


def drawn(data, text):
    positions = data.draw(st.sets(st.integers(0, len(text) - 1), min_size=1, max_size=12))
    return np.array(sorted(positions))


@given(TEXTS, st.data())
def test_every_open_byte_is_in_one_span_between_boundaries(text, data):
    positions = drawn(data, text)
    inner = data.draw(st.sets(st.integers(0, len(text))))
    boundaries = np.array(sorted({0, len(text)} | inner))
    spans = find_spans(positions, text, boundaries)
    assert [position for span in spans for position in span.positions] == positions.tolist()
    for span, following in zip(spans, [*spans[1:], None], strict=True):
        assert span.start in boundaries
        assert span.end in boundaries
        assert span.start <= span.positions[0]
        assert span.stop <= span.end
        if following is not None:
            assert span.stop <= following.start
        if span.positions[0]:
            assert span.start < span.positions[0], "the byte before an open one may belong to its token"
        assert span.end >= min(span.stop + CONFIG.right_context_bytes, len(text))


def test_spans_begin_and_end_at_words():
    text = b"one two three four five six"
    boundaries = np.array([0, 3, 7, 10, 13, 18, 23, 27])
    (span,) = find_spans(np.array([9]), text, boundaries)
    assert (span.start, span.end) == (7, 18)
    assert span.open_bytes(text[span.start : span.end]) == b"h"
    assert span.insert(text, b"H") == b" tHree four"


def chunks_of(text, positions, max_bytes):
    draft = Draft.of(text, open_bytes(positions, np.zeros((len(positions), 256))))
    limits = ChunkLimits.of(max_bytes)
    groups = limits.group(draft, range(len(positions)))
    return [(limits.range_around(draft, group), positions[group].tolist()) for group in groups]


@given(TEXTS, st.integers(1, 4000), st.data())
def test_chunks_contain_every_open_byte_once_and_split_no_character(text, max_bytes, data):
    text = text * data.draw(st.integers(1, 60))
    positions = drawn(data, text)
    chunks = chunks_of(text, positions, max_bytes)
    assert [position for _, inside in chunks for position in inside] == positions.tolist()
    for (begin, end), inside in chunks:
        text[begin:end].decode()
        assert begin <= inside[0] <= inside[-1] < end
        assert end - begin <= max(
            max_bytes, CONFIG.max_left_bytes + 2 * CONFIG.right_context_bytes + 2 * CONFIG.max_character_bytes + 1
        )


def test_a_text_of_the_size_of_a_chunk_is_one_chunk():
    positions = np.arange(0, CHUNK_BYTES, 50)
    ((chunk, _),) = chunks_of(b"x" * CHUNK_BYTES, positions, None)
    assert chunk == (0, min(CHUNK_BYTES, int(positions[-1]) + 1 + 2 * CONFIG.right_context_bytes))


def test_a_slot_with_listed_candidates_extends_to_words():
    text = b"one two three four five"
    boundaries = np.array([0, 3, 7, 13, 18, 23])
    span = find_listed_span(7, 13, {b" three": 0.0, b" tree": 0.0}, text, boundaries)
    assert (span.start, span.end, span.insert(text, b" tree")) == (7, 23, b" tree four five")
    assert find_listed_span(7, 13, {b" three": 0.0, b"three": 0.0}, text, boundaries).start == 3


@given(TEXTS, st.data())
def test_a_draft_moves_the_slots_after_a_longer_text(text, data):
    positions = drawn(data, text).tolist()
    texts = data.draw(st.lists(st.binary(max_size=3), min_size=len(positions), max_size=len(positions)))
    draft = Draft.of(text, [Slot(position, position + 1, {}) for position in positions])
    changed = draft.replace(dict(enumerate(texts)))
    assert draft.text == text
    for start, stop, slot_text in zip(changed.starts, changed.stops, texts, strict=True):
        assert changed.text[start:stop] == slot_text
    assert len(changed.rows(np.zeros((len(text), 2)))) == len(changed.text)
    same = np.arange(len(text), dtype=float)
    unchanged = [byte for index, byte in enumerate(text) if index not in positions]
    visible = np.ones(len(changed.text), dtype=bool)
    for start, stop in zip(changed.starts, changed.stops, strict=True):
        visible[start:stop] = False
    assert [text[int(row)] for row in changed.rows(same)[visible]] == unchanged


def test_a_candidate_is_inserted_at_its_positions():
    span = Span(2, 8, (3, 6))
    assert span.insert(b"0123456789", b"xy") == b"2x45y7"
    assert span.open_bytes(b"2x45y7") == b"xy"
