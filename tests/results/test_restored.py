"""Results: text, spans, unfilled positions, summary, provenance and record."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from conservator.cli.restore import summary
from conservator.decoders import Candidate, DecodedText
from conservator.documents import read_damaged
from conservator.experts import Cost, MemorySource
from conservator.numerics import runs
from conservator.pipelines.edits import find_gaps, make_edits
from conservator.pipelines.undetermined import find_unfilled
from conservator.results import Notice, Restoration
from conservator.results.notices import domain_notice
from conservator.results.record import Alternative, Reference


def restored(document, filled, confidence, min_confidence, **settings):
    """Return a restoration of which everything was read; gaps have two bytes each."""
    damaged = read_damaged(document, **settings)
    if len(damaged.gaps):
        damaged = damaged.with_lengths([2] * len(damaged.gaps))
    return restored_at(np.arange(len(damaged.tokens)), document, damaged, filled, confidence, min_confidence)


def restored_at(positions, document, damaged, filled, confidence, min_confidence):
    """Return a restoration of which some positions were read."""
    tokens = np.array(list(filled.encode()))[positions]
    lost = np.isin(np.arange(len(damaged.tokens)), damaged.lost)
    confident = np.where(lost, confidence, 1.0)[positions]
    decoded = DecodedText(tokens, confident, torch.zeros(0, 256), np.zeros(len(tokens)), Cost())
    unfilled = find_unfilled(damaged, positions, decoded, min_confidence)
    return Restoration(
        observed=document if isinstance(document, bytes) else document.encode(),
        edits=make_edits(damaged, positions, tokens, confident, unfilled),
        gaps=find_gaps(damaged),
        experts=("one", "two"),
        positions=positions,
        read_confidence=confident,
        read_field=np.tile([0.75, 0.25], (len(positions), 1)),
        read_regions=np.zeros(len(positions), dtype=np.int64),
        cost=Cost(),
    )


@pytest.mark.parametrize(
    ("document", "filled", "unfilled"),
    [
        (b"\xc3[...]b", "\u00e9xb", []),  # the gap completes a visible character, so it is filled as a whole
        (b"a[...]\xa9", "ax\u00e9", []),
        (b"a[...][...]\xa9", "ax\u00e9\u00e9", []),  # so does a gap that shares a character with it
        (b"a[...]b", "axyb", [1, 2]),
        (b"a[...]\xef\xbf\xbdb", "ax\u00e9b", [1, 2, 3]),
    ],
)
def test_a_gap_is_filled_as_a_whole_or_not_at_all(document, filled, unfilled):
    result = restored(document, filled, 0.5, 0.9, gap="[...]")
    assert np.flatnonzero(result.unfilled).tolist() == unfilled
    assert result.data == (document if unfilled else filled.encode())


def test_runs():
    assert runs(np.array([1, 0, 0, 1, 1], dtype=bool)) == [(0, 1), (3, 5)]
    assert runs(np.array([], dtype=bool)) == []


def test_edits_have_ranges_in_both_documents():
    result = restored("a\ufffd\ufffdb\ufffd", "a12b3", 0.5, 0.0)
    assert result.ranges == ((1, 3), (4, 5))
    assert [edit.span for edit in result.edits] == [(1, 7), (8, 11)]
    assert [edit.text for edit in result.edits] == ["12", "3"]
    assert [edit.probability for edit in result.edits] == [0.25, 0.5]
    assert [result.origin(position) for position in range(5)] == [(0, 1), (1, 4), (4, 7), (7, 8), (8, 11)]
    assert result.text == "a12b3"
    assert result.expected_accuracy == 0.5


def test_bytes_with_low_confidence_are_unfilled():
    result = restored("a?c?", "abcd", [1, 0.4, 1, 0.9], 0.5, mark="?")
    assert result.data == b"a?cd"
    assert [edit.placeholders for edit in result.edits] == [{0: b"?"}, {}]
    assert result.expected_accuracy == 0.9


def test_a_gap_stays_a_gap():
    result = restored("a[...]c?", "abbcd", [1, 0.9, 0.4, 1, 0.1], 0.5, mark="?", gap="[...]")
    assert result.data == b"a[...]c?"


def unfilled_in(document, filled, confidence, lengths, probability, **limits):
    """Return the unfilled positions of a document whose gaps have these lengths."""
    damaged = read_damaged(document, mark="?", gap="[...]").with_lengths(lengths, probability)
    positions = np.arange(len(damaged.tokens))
    tokens = np.array(list(filled.encode()))
    decoded = DecodedText(tokens, np.array(confidence), torch.zeros(0, 256), np.zeros(len(tokens)), Cost())
    return find_unfilled(damaged, positions, decoded, **limits).tolist()


def test_a_gap_is_filled_if_its_candidate_and_its_length_are_probable():
    document, filled, confidence = "a[...]b?[...]", "axybzuv", [1, 0.8, 0.7, 1, 0.2, 0.9, 0.9]
    assert (
        unfilled_in(document, filled, confidence, [2, 2], [1.0, 1.0], min_confidence=0.0, min_gap_confidence=0.5) == []
    )
    assert unfilled_in(
        document, filled, confidence, [2, 2], [0.8, 0.8], min_confidence=0.0, min_gap_confidence=0.5
    ) == [1, 2]
    assert unfilled_in(
        document, filled, confidence, [2, 2], [0.8, 0.6], min_confidence=0.0, min_gap_confidence=0.5
    ) == [1, 2, 5, 6]
    assert unfilled_in(
        document, filled, confidence, [2, 2], [0.8, 0.6], min_confidence=0.3, min_gap_confidence=0.0
    ) == [4]


def test_a_gap_that_completes_a_visible_byte_is_filled():
    half = b"a\xc3[...]b?"
    confidence = [1, 1, 0.9, 0.1, 0.1, 1, 0.1]
    assert unfilled_in(half, "aéxybz", confidence, [3], [1.0], min_confidence=0.5) == [6]
    assert unfilled_in(b"a[...]b?", "aéxbz", [1, 0.9, 0.9, 0.1, 1, 0.1], [3], [1.0], min_confidence=0.5) == [1, 2, 3, 5]


def test_an_unfilled_gap_has_proposals():
    result = restored("a[...]c?", "axycd", [1, 0.5, 0.4, 1, 0.9], 0.5, mark="?", gap="[...]")
    assert result.data == b"a[...]cd"
    assert result.proposals(result.gaps[0]) == [("xy", pytest.approx(0.2))]
    lines = [line for line in summary(result) if line.startswith("gap ")]
    assert lines == ['gap at byte 1 left unfilled; candidates: "xy" 20 %']
    gap, mark = result.edits
    candidates = (Candidate(b"xy", 0.16), Candidate(b"uv", 0.09))
    with_alternatives = replace(result, edits=(replace(gap, alternatives=candidates), mark))
    assert 'gap at byte 1 left unfilled; candidates: "xy" 16 %, "uv" 9 %' in summary(with_alternatives)
    piece = next(piece for piece in with_alternatives.record.pieces if piece.origin is not None)
    assert (piece.text, piece.unfilled, piece.guess) == ("[...]", True, "xy")
    assert piece.alternatives == (Alternative("xy", 0.16), Alternative("uv", 0.09))


def test_a_character_is_unfilled_as_a_whole_or_not_at_all():
    assert restored("a???", "a€", [1, 0.9, 0.1, 0.9], 0.5, mark="?").data == b"a???"
    half = b"a?\x82?"  # its middle byte is visible, and cannot be written by itself
    assert restored(half, "a€", [1, 0.9, 1, 0.1], 0.5, mark="?").text == "a€"


def test_an_untouched_document():
    result = Restoration(observed=b"as it is", experts=("one", "two"), cost=Cost())
    assert (result.text, result.edits, result.expected_accuracy) == ("as it is", (), None)
    assert result.field.shape == (8, 2)
    assert (result.field == 0.5).all()
    assert (result.regions == -1).all()
    assert (result.confidence == 1).all()
    assert not result.changed.any()
    assert result.summary.weights == (0.0, 0.0)


def test_text_that_was_not_read_is_unchanged():
    document, filled = "abc?é de?f", "abcxé deyf"
    damaged = read_damaged(document, mark="?")
    whole = restored_at(np.arange(11), document, damaged, filled, 0.8, 0.0)
    part = restored_at(np.array([2, 3, 4, 8, 9, 10]), document, damaged, filled, 0.8, 0.0)
    assert part.text == whole.text == filled
    assert part.edits == whole.edits
    assert part.summary == whole.summary
    for name in ("tokens", "confidence", "changed", "unfilled"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name))
    assert part.regions.tolist() == [-1, -1, 0, 0, 0, -1, -1, -1, 0, 0, 0]
    assert part.field.tolist() == [[0.75, 0.25] if region == 0 else [0.5, 0.5] for region in part.regions]
    rejected = restored_at(np.array([2, 3, 4, 8, 9, 10]), document, damaged, filled, 0.3, 0.5)
    assert rejected.text == document
    assert np.flatnonzero(rejected.unfilled).tolist() == [3, 9]


def test_a_summary_counts_restored_bytes():
    result = restored("a?c?e[...]", "abcdexy", [1, 0.4, 1, 0.95, 1, 0.6, 0.8], 0.5, mark="?", gap="[...]")
    summary = result.summary
    assert (summary.bytes, summary.lost, summary.spans) == (7, 4, 3)
    assert (summary.restored, summary.unfilled, summary.confident) == (3, 1, 1)
    assert summary.expected_accuracy == result.expected_accuracy == pytest.approx((0.95 + 0.6 + 0.8) / 3)
    assert summary.weights == (0.75, 0.25)


def test_parts_of_an_edit_are_written_like_the_whole_edit():
    result = restored("é??[...]b?", "é1234b5", 0.2, 0.5, mark="?", gap="[...]")
    assert result.data == "é??[...]b?".encode()
    edit = result.edits[0]
    assert (edit.data, edit.written()) == (b"1234", b"??[...]")
    for edge in range(len(edit.data) + 1):
        assert edit.written(0, edge) + edit.written(edge) == edit.written()


def with_memory(result, provenance):
    """Return the restoration by one expert and a memory, with the provenance of its bytes."""
    edits = []
    for edit, (start, stop) in zip(result.edits, result.ranges, strict=True):
        copied = {
            position - start: MemorySource(*provenance[position])
            for position in range(start, stop)
            if position in provenance
        }
        edits.append(replace(edit, sources=copied))
    return replace(result, edits=tuple(edits), experts=("one", "memory"), has_memory=True)


def test_copied_bytes_are_counted():
    result = restored("a?c?e??", "abcdexy", [1, 0.4, 1, 0.95, 1, 0.6, 0.8], 0.5, mark="?")
    result = with_memory(result, {1: ("x", 1), 3: (None, 2), 5: ("y", 3), 6: ("y", 3)})
    assert list(result.sources.items()) == [("y", 2), (None, 1)]  # unfilled bytes do not count
    assert result.summary.provenance == 3


def test_the_record_has_the_provenance_of_each_character():
    result = restored("?b????é", "abc€é", [0.9, 1, 0.3, 0.9, 0.9, 0.9, 1, 1], 0.5, mark="?")
    result = with_memory(result, {0: (None, 1), 2: ("small", 5), 4: ("large", 9), 5: ("large", 8)})
    record = result.record
    assert record.memory == 1
    assert record.references == (Reference("large", 2), Reference("small", 0))
    pieces = [(piece.guess, piece.sources) for piece in record.pieces if piece.origin is not None]
    assert pieces == [("a", ((None, 1),)), ("c", ((1, 5),)), ("€", ((0, 9),))]
    assert record.summary.provenance == 3
    assert [value for value in record.field.provenance if value is not None] == [0.25] * 5


def test_a_record_without_a_memory_has_no_provenance():
    record = restored("a?c", "abc", 0.9, 0.0, mark="?").record
    assert (record.memory, record.references, record.summary.provenance) == (None, (), 0)
    assert [piece.sources for piece in record.pieces if piece.origin is not None] == [(None,)]
    assert record.field.provenance == ()


def test_a_file_name_with_surrogates_can_be_written():
    result = with_memory(restored("a?c", "abc", 0.9, 0.0, mark="?"), {1: ("caf\udce9.txt", 1)})
    assert json.loads(result.to_json().encode())["references"][0]["name"] == "caf?.txt"


@pytest.mark.parametrize(("gain", "suffices"), [(None, None), (0.001, True), (-0.01, True), (0.3, False)])
def test_a_small_local_gain_means_that_a_global_weight_suffices(gain, suffices):
    result = replace(restored("a�c", "abc", 0.5, 0.0), local_gain=gain)
    assert result.global_weight_suffices is suffices
    assert result.record.global_weight_suffices is suffices


@pytest.mark.parametrize(
    ("cross_entropy", "error", "out_of_domain"),
    [(3.0, 0.1, True), (3.0, 0.5, False), (2.0, 0.01, False), (9.0, None, False), (None, None, False)],
)
def test_a_text_is_out_of_domain_only_if_the_sample_is_large_enough(cross_entropy, error, out_of_domain):
    result = restored("th\ufffd end", "the end", 0.9, 0.5)
    notices = domain_notice(cross_entropy, error, 1 / 7)  # one byte of seven is lost: the limit is 2.2 nats
    assert replace(result, notices=notices).out_of_domain is out_of_domain
    assert [notice.kind for notice in notices] == ["out_of_domain"] * out_of_domain


def test_notices_are_part_of_the_record():
    result = restored("th\ufffd end", "the end", 0.9, 0.5)
    assert result.record.notices == ()
    notices = (Notice("unknown_language", "no model covers this text"), *domain_notice(9.0, 0.1, 1 / 7))
    reported = replace(result, notices=notices)
    assert reported.not_covered
    assert reported.out_of_domain
    assert [notice.kind for notice in reported.record.notices] == ["unknown_language", "out_of_domain"]
    assert reported.record.notices[0].message == "no model covers this text"
