"""Corrections: what was seen, the changes in numbers, in the record and in the report."""

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


def corrected(seen, changes, rate=0.5):
    found = Correction(seen, tuple(changes), rate, ("prose", "code"), (0.75, 0.25))
    return as_restoration(found, Cost())


@st.composite
def corrections(draw):
    """A text, and changes of it with a character between each two, as a path through a line has them."""
    seen = draw(st.text(LETTERS, min_size=1, max_size=30))
    changes, at = [], 0
    while at <= len(seen):
        start = draw(st.integers(at, len(seen)))
        stop = draw(st.integers(start, min(len(seen), start + 3)))
        text = draw(TEXTS)
        if "\n" not in seen[start:stop] and text != seen[start:stop] and stop - start < len(seen):
            changes.append(Change(start, stop, seen[start:stop], text, draw(st.floats(0, 1)), math.inf))
        at = stop + 1
    return seen, changes


@given(corrections())
def test_every_change_is_in_a_piece_with_what_was_seen(made):
    seen, changes = made
    found = corrected(seen, changes)
    assert found.seen == seen
    assert found.is_correction
    record = as_record(found)
    pieces = record["pieces"]
    assert "".join(piece["text"] for piece in pieces) == found.text
    assert "".join(piece.get("seen", piece["text"]) for piece in pieces) == seen
    inside = [range(*piece["changes"]) for piece in pieces if "origin" in piece]
    assert [number for numbers in inside for number in numbers] == list(range(len(changes)))
    assert len(record["changes"]) == record["correction"]["changes"] == len(changes)
    json.loads(found.to_json())


def test_changes_in_numbers_and_in_a_list():
    seen = "one\ntbe buming house,\n"
    changes = [Change(5, 6, "b", "h", 0.95, 3.25), Change(10, 11, "m", "rn", 0.5, math.inf)]
    numbers = summarize_changes(seen, changes)
    assert (numbers.characters, numbers.changed, numbers.changes, numbers.confident) == (22, 3, 2, 1)
    assert numbers.expected_accuracy == pytest.approx(0.725)
    listed = list_changes(seen, changes)
    assert listed[0] == {"at": [5, 6], "line": 2, "seen": "b", "text": "h", "probability": 0.95, "gain": 3.25}
    assert listed[1]["gain"] is None


def test_one_without_a_change_is_told_apart_from_one_without_marks():
    found = corrected("nothing wrong", [])
    record = as_record(found)
    assert found.text == found.seen == "nothing wrong"
    assert record["changes"] == []
    assert record["correction"]["expected_accuracy"] is None
    assert record["unit"] == "character"
    assert record["lost_by"] is None
    assert "Nothing had to be changed" in found.to_html()


def test_pictures_are_in_the_report_alone():
    change = Change(0, 1, "b", "h", 0.9, 2.0)
    found = corrected("bis hat", [change])
    picture = Picture(b"\x89PNG", {(0, 1): Box(0.1, 0.2, 0.3, 0.4), (5, 6): Box(0, 0, 1, 1)})
    page = found.to_html("page", [picture])
    assert '"pictures":[{"image":"data:image/png;base64,iVBORw==","spots":{"0":[0.1,0.2,0.3,0.4]}}]' in page
    assert "img-src data:" in page
    assert "pictures" not in json.loads(found.to_json())
