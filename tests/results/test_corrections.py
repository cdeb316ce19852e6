"""Corrections: observed text, summary, list of changes, record and report."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.decoders.edits import Change
from conservator.experts import Cost
from conservator.pages import Box, Picture
from conservator.pipelines.correction import Correction, as_restoration
from conservator.results import as_record, list_changes, summarize_changes

LETTERS = "ab é日\n"
TEXTS = st.text("abé日😀 ", max_size=3)


def corrected(observed, changes, rate=0.5):
    result = Correction(observed, tuple(changes), rate, ("prose", "code"), (0.75, 0.25))
    return as_restoration(result, Cost())


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


@given(corrections())
def test_every_change_is_in_a_piece_with_the_observed_text(correction):
    observed, changes = correction
    result = corrected(observed, changes)
    assert result.observed == observed
    assert result.is_correction
    record = as_record(result)
    pieces = record["pieces"]
    assert "".join(piece["text"] for piece in pieces) == result.text
    assert "".join(piece.get("observed", piece["text"]) for piece in pieces) == observed
    inside = [range(*piece["changes"]) for piece in pieces if "origin" in piece]
    assert [number for numbers in inside for number in numbers] == list(range(len(changes)))
    assert len(record["changes"]) == record["correction"]["changes"] == len(changes)
    json.loads(result.to_json())


def test_changes_are_summarised_and_listed():
    observed = "one\ntbe buming house,\n"
    changes = [Change(5, 6, "b", "h", 0.95, 3.25), Change(10, 11, "m", "rn", 0.5, math.inf)]
    numbers = summarize_changes(observed, changes)
    assert (numbers.characters, numbers.changed, numbers.changes, numbers.confident) == (22, 3, 2, 1)
    assert numbers.expected_accuracy == pytest.approx(0.725)
    listed = list_changes(observed, changes)
    assert listed[0] == {"at": [5, 6], "line": 2, "observed": "b", "text": "h", "probability": 0.95, "log_odds": 3.25}
    assert listed[1]["log_odds"] is None


def test_a_correction_without_changes_is_a_correction():
    result = corrected("nothing wrong", [])
    record = as_record(result)
    assert result.text == result.observed == "nothing wrong"
    assert record["changes"] == []
    assert record["correction"]["expected_accuracy"] is None
    assert record["unit"] == "character"
    assert record["lost_by"] is None
    assert "Nothing had to be changed" in result.to_html()


def test_only_the_report_contains_pictures():
    change = Change(0, 1, "b", "h", 0.9, 2.0)
    result = corrected("bis hat", [change])
    picture = Picture(b"\x89PNG", {(0, 1): Box(0.1, 0.2, 0.3, 0.4), (5, 6): Box(0, 0, 1, 1)})
    page = result.to_html("page", [picture])
    assert '"pictures":[{"image":"data:image/png;base64,iVBORw==","boxes":{"0":[0.1,0.2,0.3,0.4]}}]' in page
    assert "img-src data:" in page
    assert "pictures" not in json.loads(result.to_json())
