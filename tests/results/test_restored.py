"""What is made of a restored document."""

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
from conservator.results import Notice, Restoration, as_record, find_unfilled


def restored(document, filled, confidence, least, **settings):
    """A document whose gaps have two bytes each, of which everything was read."""
    damaged = read_damaged(document, **settings)
    if len(damaged.gaps):
        damaged = damaged.with_lengths([2] * len(damaged.gaps))
    return restored_at(np.arange(len(damaged.tokens)), damaged, filled, confidence, least)


def restored_at(positions, damaged, filled, confidence, least):
    """The same of a document of which some positions were read."""
    tokens = np.array(list(filled.encode()))[positions]
    lost = np.isin(np.arange(len(damaged.tokens)), damaged.lost)
    confident = np.where(lost, confidence, 1.0)[positions]
    decoded = DecodedText(tokens, confident, torch.zeros(0, 256), np.zeros(len(tokens)), Cost())
    return Restoration(
        damaged=damaged,
        experts=("one", "two"),
        positions=positions,
        read_tokens=tokens,
        read_confidence=confident,
        read_field=np.tile([0.75, 0.25], (len(positions), 1)),
        read_regions=np.zeros(len(positions), dtype=np.int64),
        unfilled_positions=find_unfilled(damaged, positions, decoded, least),
        alternatives=(),
        cost=Cost(),
    )


@pytest.mark.parametrize(
    ("document", "filled", "opened"),
    [
        (b"\xc3[...]b", "\u00e9xb", []),  # the gap completes a visible character, so it is filled as a whole
        (b"a[...]\xa9", "ax\u00e9", []),
        (b"a[...][...]\xa9", "ax\u00e9\u00e9", []),  # so does a gap that shares a character with it
        (b"a[...]b", "axyb", [1, 2]),
        (b"a[...]\xef\xbf\xbdb", "ax\u00e9b", [1, 2, 3]),
    ],
)
def test_a_gap_is_filled_as_a_whole_or_not_at_all(document, filled, opened):
    found = restored(document, filled, 0.5, 0.9, gap="[...]")
    assert found.unfilled_positions.tolist() == opened
    assert found.data == (document if opened else filled.encode())


def test_runs():
    assert runs(np.array([1, 0, 0, 1, 1], dtype=bool)) == [(0, 1), (3, 5)]
    assert runs(np.array([], dtype=bool)) == []


def test_spans_say_where_they_stand_in_both_documents():
    found = restored("a\ufffd\ufffdb\ufffd", "a12b3", 0.5, 0.0)
    assert [(span.start, span.stop, span.origin) for span in found.spans] == [(1, 3, (1, 7)), (4, 5, (8, 11))]
    assert found.text == "a12b3"
    assert found.expected_accuracy == 0.5


def test_what_is_not_sure_stays_as_it_was():
    found = restored("a?c?", "abcd", [1, 0.4, 1, 0.9], 0.5, mark="?")
    assert found.data == b"a?cd"
    assert [span.left_open for span in found.spans] == [True, False]
    assert found.expected_accuracy == 0.9


def test_a_gap_stays_a_gap():
    found = restored("a[...]c?", "abbcd", [1, 0.9, 0.4, 1, 0.1], 0.5, mark="?", gap="[...]")
    assert found.data == b"a[...]c?"


def opened(document, filled, confidence, lengths, probability, **least):
    """The positions that are left open in a document whose gaps have these lengths."""
    damaged = read_damaged(document, mark="?", gap="[...]").with_lengths(lengths, probability)
    positions = np.arange(len(damaged.tokens))
    tokens = np.array(list(filled.encode()))
    decoded = DecodedText(tokens, np.array(confidence), torch.zeros(0, 256), np.zeros(len(tokens)), Cost())
    return find_unfilled(damaged, positions, decoded, **least).tolist()


def test_a_gap_is_filled_in_if_its_whole_fill_with_its_length_is_probable():
    document, filled, confidence = "a[...]b?[...]", "axybzuv", [1, 0.8, 0.7, 1, 0.2, 0.9, 0.9]
    assert opened(document, filled, confidence, [2, 2], [1.0, 1.0], least=0.0, least_gap=0.5) == []
    assert opened(document, filled, confidence, [2, 2], [0.8, 0.8], least=0.0, least_gap=0.5) == [1, 2]
    assert opened(document, filled, confidence, [2, 2], [0.8, 0.6], least=0.0, least_gap=0.5) == [1, 2, 5, 6]
    assert opened(document, filled, confidence, [2, 2], [0.8, 0.6], least=0.3, least_gap=0.0) == [4]


def test_a_gap_that_completes_a_visible_byte_is_filled_in_as_a_whole():
    half = b"a\xc3[...]b?"
    confidence = [1, 1, 0.9, 0.1, 0.1, 1, 0.1]
    assert opened(half, "aéxybz", confidence, [3], [1.0], least=0.5) == [6]
    assert opened(b"a[...]b?", "aéxbz", [1, 0.9, 0.9, 0.1, 1, 0.1], [3], [1.0], least=0.5) == [1, 2, 3, 5]


def test_a_gap_that_was_left_open_has_proposals():
    found = restored("a[...]c?", "axycd", [1, 0.5, 0.4, 1, 0.9], 0.5, mark="?", gap="[...]")
    assert found.data == b"a[...]cd"
    assert found.proposals(0) == [("xy", pytest.approx(0.2))]
    lines = [line for line in summary(found) if line.startswith("gap ")]
    assert lines == ['gap at byte 1 left open; proposals: "xy" 20 %']
    asked = replace(found, alternatives=((Candidate(b"xy", 0.16), Candidate(b"uv", 0.09)), ()))
    assert 'gap at byte 1 left open; proposals: "xy" 16 %, "uv" 9 %' in summary(asked)
    piece = next(piece for piece in as_record(asked)["pieces"] if "origin" in piece)
    assert (piece["text"], piece["open"], piece["guess"]) == ("[...]", True, "xy")
    assert piece["fills"] == [{"text": "xy", "probability": 0.16}, {"text": "uv", "probability": 0.09}]


def test_a_character_is_left_open_as_a_whole_or_not_at_all():
    assert restored("a???", "a€", [1, 0.9, 0.1, 0.9], 0.5, mark="?").data == b"a???"
    half = b"a?\x82?"  # its middle byte is visible, and cannot be written by itself
    assert restored(half, "a€", [1, 0.9, 1, 0.1], 0.5, mark="?").text == "a€"


def test_an_untouched_document():
    found = Restoration.untouched(read_damaged("as it is"), ("one", "two"), Cost())
    assert (found.text, found.spans, found.expected_accuracy) == ("as it is", (), None)
    assert found.field.shape == (8, 2)
    assert (found.field == 0.5).all()
    assert (found.regions == -1).all()
    assert (found.confidence == 1).all()
    assert not found.changed.any()
    assert found.summary.weights == (0.0, 0.0)


def test_what_was_not_read_is_as_it_was():
    damaged = read_damaged("abc?é de?f", mark="?")
    filled = "abcxé deyf"
    whole = restored_at(np.arange(11), damaged, filled, 0.8, 0.0)
    part = restored_at(np.array([2, 3, 4, 8, 9, 10]), damaged, filled, 0.8, 0.0)
    assert part.text == whole.text == filled
    assert part.spans == whole.spans
    assert part.summary == whole.summary
    for name in ("tokens", "confidence", "changed", "left_open"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name))
    assert part.regions.tolist() == [-1, -1, 0, 0, 0, -1, -1, -1, 0, 0, 0]
    assert part.field.tolist() == [[0.75, 0.25] if region == 0 else [0.5, 0.5] for region in part.regions]
    opened = restored_at(np.array([2, 3, 4, 8, 9, 10]), damaged, filled, 0.3, 0.5)
    assert opened.text == "abc?é de?f"
    assert opened.unfilled_positions.tolist() == np.flatnonzero(opened.left_open).tolist() == [3, 9]


def test_a_summary_counts_what_came_back():
    found = restored("a?c?e[...]", "abcdexy", [1, 0.4, 1, 0.95, 1, 0.6, 0.8], 0.5, mark="?", gap="[...]")
    summary = found.summary
    assert (summary.bytes, summary.lost, summary.places) == (7, 4, 3)
    assert (summary.restored, summary.left_open, summary.confident) == (3, 1, 1)
    assert summary.expected_accuracy == found.expected_accuracy == pytest.approx((0.95 + 0.6 + 0.8) / 3)
    assert summary.weights == (0.75, 0.25)


def test_stretches_are_rendered_as_the_whole_is():
    found = restored("é??[...]b?", "é1234b5", 0.2, 0.5, mark="?", gap="[...]")
    assert found.render(0, found.length) == found.data == "é??[...]b?".encode()
    for edge in range(found.length + 1):
        if edge != 5:  # the gap is one sign, which cannot be divided
            assert found.render(0, edge) + found.render(edge, found.length) == found.data


def remembering(found, provenance):
    """The restoration by one expert and a memory, with places that its bytes were remembered from."""
    places = {place: MemorySource(*source) for place, source in provenance.items()}
    return replace(found, experts=("one", "memory"), is_retrieval=True, provenance=places)


def test_what_was_remembered_is_counted():
    found = restored("a?c?e??", "abcdexy", [1, 0.4, 1, 0.95, 1, 0.6, 0.8], 0.5, mark="?")
    found = remembering(found, {1: ("x", 1), 3: (None, 2), 5: ("y", 3), 6: ("y", 3)})
    assert list(found.sources.items()) == [("y", 2), (None, 1)]  # what was left open was not restored
    assert found.summary.provenance == 3


def test_the_record_says_where_each_character_was_remembered_from():
    found = restored("?b????é", "abc€é", [0.9, 1, 0.3, 0.9, 0.9, 0.9, 1, 1], 0.5, mark="?")
    found = remembering(found, {0: (None, 1), 2: ("small", 5), 4: ("large", 9), 5: ("large", 8)})
    record = as_record(found)
    assert record["memory"] == 1
    assert record["references"] == [{"name": "large", "remembered": 2}, {"name": "small", "remembered": 0}]
    pieces = [(piece["guess"], piece["from"]) for piece in record["pieces"] if "origin" in piece]
    assert pieces == [("a", [[None, 1]]), ("c", [[1, 5]]), ("€", [[0, 9]])]
    assert record["summary"]["remembered"] == 3
    assert [value for value in record["field"]["remembered"] if value is not None] == [0.25] * 5


def test_a_record_without_a_memory_has_no_places():
    record = as_record(restored("a?c", "abc", 0.9, 0.0, mark="?"))
    assert (record["memory"], record["references"], record["summary"]["remembered"]) == (None, [], 0)
    assert [piece["from"] for piece in record["pieces"] if "origin" in piece] == [[None]]
    assert record["field"]["remembered"] == []


def test_a_name_that_is_no_text_can_be_written():
    found = remembering(restored("a?c", "abc", 0.9, 0.0, mark="?"), {1: ("caf\udce9.txt", 1)})
    assert json.loads(found.to_json().encode())["references"][0]["name"] == "caf?.txt"


@pytest.mark.parametrize(("gain", "said"), [(None, None), (0.001, True), (-0.01, True), (0.3, False)])
def test_a_restoration_says_when_one_weight_would_have_done_as_well(gain, said):
    found = replace(restored("a�c", "abc", 0.5, 0.0), gain=gain)
    assert found.global_weight_suffices is said
    assert as_record(found)["global_weight_suffices"] is said
    assert [line for line in summary(found) if "one weight" in line] == (
        ["one weight for the whole document would have done about as well: its regions tell little"] if said else []
    )


def test_a_text_is_out_of_domain_only_if_the_sample_is_large_enough_to_tell():
    found = restored("th\ufffd end", "the end", 0.9, 0.5)  # one byte of seven is lost: the limit is 2.2 nats
    for cross_entropy, error, out_of_domain in (
        (3.0, 0.1, True),
        (3.0, 0.5, False),
        (2.0, 0.01, False),
        (9.0, None, False),
    ):
        assert replace(found, cross_entropy=cross_entropy, cross_entropy_error=error).out_of_domain is out_of_domain


def test_notices_are_part_of_the_record():
    found = restored("th\ufffd end", "the end", 0.9, 0.5)
    assert as_record(replace(found, cross_entropy=0.5))["notices"] == []
    named = Notice("unknown_language", "no model covers this text")
    record = as_record(replace(found, cross_entropy=9.0, cross_entropy_error=0.1, reported=(named,)))
    assert [one["kind"] for one in record["notices"]] == ["unknown_language", "out_of_domain"]
    assert record["notices"][0]["message"] == "no model covers this text"
