"""Corrections: observed text, summary, record and report."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.decoders.edits import Change
from conservator.document import Document
from conservator.experts import Cost
from conservator.pages import Box, Picture
from conservator.pipelines.correction import Correction, as_restoration
from conservator.results.record import CorrectionCounts

LETTERS = "ab é日\n"
TEXTS = st.text("abé日😀 ", max_size=3)


def corrected(observed, changes, rate=0.5):
    result = Correction(observed, tuple(changes), rate, ("prose", "code"), (0.75, 0.25))
    return as_restoration(result, Document(observed.encode()), Cost())


@st.composite
def corrections(draw):
    """Draw a text and changes of it that are separated by at least one character, as in a path of a lattice."""
    observed = draw(st.text(LETTERS, min_size=1, max_size=30))
    changes, at = [], 0
    while at <= len(observed):
        start = draw(st.integers(at, len(observed)))
        stop = draw(st.integers(start, min(len(observed), start + 3)))
        text = draw(TEXTS)
        if "\n" not in observed[start:stop] and text != observed[start:stop] and stop - start < len(observed):
            changes.append(Change(start, stop, observed[start:stop], text, draw(st.floats(0, 1)), math.inf))
        at = stop + 1
    return observed, changes


def corrected_pieces(result):
    """Return the pieces of a record that are corrections."""
    return [piece for piece in result.record.pieces if piece.origin is not None]


@given(corrections())
def test_every_change_is_a_piece_with_the_observed_text(correction):
    observed, changes = correction
    result = corrected(observed, changes)
    assert result.observed == observed.encode()
    assert result.is_correction
    record = result.record
    assert record.text == result.text
    assert "".join(piece.text if piece.observed is None else piece.observed for piece in record.pieces) == observed
    pieces = corrected_pieces(result)
    assert [(piece.observed, piece.text) for piece in pieces] == [(change.seen, change.text) for change in changes]
    offset = 0
    for piece, change in zip(pieces, changes, strict=True):
        start, stop = (len(observed[:end].encode()) for end in (change.start, change.stop))
        assert piece.origin == (start, stop)
        assert piece.at == (start + offset, start + offset + len(change.text.encode()))
        assert piece.line == observed.count("\n", 0, change.start) + 1
        assert piece.counts.lost == 1
        offset += len(change.text.encode()) - (stop - start)
    assert record.summary.lost == record.summary.restored == record.summary.spans == len(changes)
    assert record.summary.unfilled == 0
    json.loads(result.to_json())


def test_corrections_are_counted_and_listed():
    observed = "one\ntbe buming house,\n"
    result = corrected(observed, [Change(5, 6, "b", "h", 0.95, 3.25), Change(10, 11, "m", "rn", 0.5, math.inf)])
    assert result.record.correction == CorrectionCounts(channels=("ocr",), characters=22, changed=3, rate=0.5)
    assert result.unit == result.record.unit == "correction"
    assert (result.summary.lost, result.summary.confident) == (2, 1)
    assert result.summary.expected_accuracy == pytest.approx(0.725)
    assert result.summary.weights == (0.75, 0.25)
    first, second = corrected_pieces(result)
    assert (first.at, first.origin, first.line, first.observed, first.text) == ((5, 6), (5, 6), 2, "b", "h")
    assert (first.probability, first.log_odds) == (0.95, 3.25)
    assert (second.at, second.origin, second.probability, second.log_odds) == ((10, 12), (10, 11), 0.5, None)


def test_a_deletion_is_an_empty_piece():
    result = corrected("tthe end", [Change(0, 1, "t", "", 0.75, 2.0)])
    (piece,) = corrected_pieces(result)
    assert (piece.at, piece.origin, piece.text, piece.observed) == ((0, 0), (0, 1), "", "t")
    assert result.text == result.record.text == "the end"
    assert result.record.correction.changed == 1


def test_a_correction_without_changes_is_a_correction():
    result = corrected("nothing wrong", [])
    assert result.text == "nothing wrong"
    assert result.edits == ()
    assert result.record.summary.expected_accuracy is None
    assert result.record.unit == "correction"
    assert result.record.lost_by is None
    assert "Nothing had to be changed" in result.to_html()


def test_only_the_report_contains_pictures():
    change = Change(0, 1, "b", "h", 0.9, 2.0)
    result = corrected("bis hat", [change])
    picture = Picture(b"\x89PNG", {(0, 1): Box(0.1, 0.2, 0.3, 0.4), (5, 6): Box(0, 0, 1, 1)})
    page = result.to_html("page", [picture])
    assert '"pictures":[{"image":"data:image/png;base64,iVBORw==","boxes":{"0":[0.1,0.2,0.3,0.4]}}]' in page
    assert "img-src data:" in page
    assert "pictures" not in json.loads(result.to_json())
