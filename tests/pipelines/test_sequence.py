"""Two restorations in sequence: texts, spans, probabilities and arrays of the composed result."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import OcrConfidence
from conservator.document import Document
from conservator.documents import splice
from conservator.experts import Cost
from conservator.pipelines.corrected_text import build_correction
from conservator.pipelines.sequence import compose, spliced_confidence, written_ranges
from conservator.results import Edit

OBSERVED = b"abcdefghij"


@st.composite
def edits(draw, length):
    """Draw edits of a text, in order: replacements, deletions, insertions and unfilled marks."""
    cuts = sorted(draw(st.lists(st.integers(0, length), max_size=8)))
    drawn = []
    for start, stop in zip(cuts[::2], cuts[1::2], strict=False):
        data = draw(st.binary(max_size=3).map(lambda value: bytes(97 + byte % 26 for byte in value)))
        unfilled = draw(st.booleans()) and stop > start and len(data) > 0
        if start == stop and not data:
            continue
        probability = draw(st.sampled_from([0.25, 0.5, 1.0]))
        placeholders = {index: OBSERVED[start:stop] * (not index) for index in range(len(data))} if unfilled else {}
        drawn.append(Edit((start, stop), data, probability, log_odds=1.0, placeholders=placeholders))
    return [edit for index, edit in enumerate(drawn) if index == 0 or edit.span[0] >= drawn[index - 1].span[1]]


def correction(text, drawn, name):
    chosen = []
    for edit in drawn:
        if edit.span[1] <= len(text) and (not chosen or edit.span[0] > chosen[-1].span[1] or not chosen):
            marker = text[slice(*edit.span)]
            placeholders = {index: marker * (not index) for index in edit.placeholders}
            chosen.append(Edit(edit.span, edit.data, edit.probability, edit.log_odds, placeholders=placeholders))
    return build_correction(Document(text), chosen, name, (name,), cost=Cost())


@given(edits(10), edits(10))
def test_the_composed_result_writes_the_text_of_the_second_one(first_edits, second_edits):
    first = correction(OBSERVED, first_edits, "first")
    second = correction(first.data, second_edits, "second")
    result = compose(first, second)
    assert result.observed == OBSERVED
    assert result.data == second.data
    assert splice(OBSERVED, ((*edit.span, edit.written()) for edit in result.edits)) == second.data
    assert result.channels == ("first", "second")
    assert (result.positions < result.length).all()
    assert (np.diff(result.positions) > 0).all()
    np.testing.assert_allclose(result.field[result.positions].sum(axis=1), 1)
    assert result.experts == ("first", "second")
    for edit in result.edits:
        assert edit.placeholders or edit.data != OBSERVED[slice(*edit.span)]


@given(edits(10))
def test_a_result_without_edits_changes_nothing(drawn):
    result = correction(OBSERVED, drawn, "some")
    nothing = correction(OBSERVED, [], "none")
    after = compose(result, correction(result.data, [], "none"))
    before = compose(nothing, result)
    for composed in (before, after):
        expected = tuple(edit for edit in result.edits if edit.placeholders or edit.data != OBSERVED[slice(*edit.span)])
        assert composed.edits == expected
        np.testing.assert_allclose(composed.confidence, correction(OBSERVED, expected, "some").confidence)


def test_edits_that_overlap_are_joined():
    first = correction(b"teh CAT sat", [Edit((0, 3), b"the", 0.5, 2.0)], "typing")
    second = correction(first.data, [Edit((0, 7), b"The cat", 0.5, 3.0), Edit((8, 11), b"Sat", 1.0, 1.0)], "case")
    result = compose(first, second)
    joined, other = result.edits
    assert (joined.span, joined.data, joined.probability, joined.log_odds) == ((0, 7), b"The cat", 0.25, 5.0)
    assert (other.span, other.data) == ((8, 11), b"Sat")
    assert result.confidence[0] == 0.25


def test_an_edit_that_is_reverted_is_dropped():
    first = correction(b"abc", [Edit((1, 2), b"xy", 0.5)], "one")
    second = correction(first.data, [Edit((1, 3), b"b", 0.5)], "two")
    assert compose(first, second).edits == ()


def test_a_filled_mark_replaces_an_unfilled_one():
    mark = "\ufffd".encode()
    unfilled = Edit((1, 4), b"x", 0.1, placeholders={0: mark})
    first = correction(b"a" + mark + b"c", [unfilled], "mask")
    second = correction(first.data, [Edit((1, 4), b"b", 0.9)], "best")
    result = compose(first, second)
    assert result.data == b"abc"
    assert result.edits == (Edit((1, 4), b"b", 0.9),)
    remaining = compose(first, correction(first.data, [Edit((4, 5), b"d", 0.9)], "best"))
    assert [edit.data for edit in remaining.edits] == [b"x", b"d"]
    assert remaining.data == b"a" + mark + b"d"
    assert remaining.tokens.tolist() == list(b"axd")
    assert remaining.confidence.tolist() == pytest.approx([1, 0.1, 0.9])


def test_ocr_confidences_follow_the_text():
    confidence = OcrConfidence(np.arange(4.0), np.arange(4.0), np.arange(5.0), ((), (("x", 0.5),), (), ()))
    result = correction("aébc".encode(), [Edit((1, 3), b"xyz", 0.5)], "one")
    moved = spliced_confidence(confidence, result)
    assert len(moved) == len(result.text)
    assert moved.correct.tolist() == [0, 0, 0, 0, 2, 3]
    assert moved.deletion.tolist() == [0, 0, 0, 0, 2, 3, 4]
    assert written_ranges(result) == [(1, 4)]
