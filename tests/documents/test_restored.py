"""What is made of a restored document."""

import numpy as np

from conservator.documents.damaged import read_damaged
from conservator.documents.restored import Restoration, leave_open, runs
from conservator.field.cost import Cost


def restored(document, filled, confidence, least, **settings):
    damaged = read_damaged(document, **settings)
    if damaged.gaps:
        damaged = damaged.with_lengths([2] * len(damaged.gaps))
    tokens = np.array(list(filled.encode()))
    sure = np.where(damaged.lost, confidence, 1.0)
    opened = leave_open(tokens, sure, damaged, least)
    length = len(tokens)
    field, regions = np.full((length, 1), 1.0), np.zeros(length, dtype=np.int64)
    return Restoration(damaged, tokens, sure, opened, field, regions, ("one",), (), Cost())


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


def test_a_character_is_left_open_as_a_whole_or_not_at_all():
    assert restored("a???", "a€", [1, 0.9, 0.1, 0.9], 0.5, mark="?").data == b"a???"
    half = b"a?\x82?"  # its middle byte is visible, and cannot be written by itself
    assert restored(half, "a€", [1, 0.9, 1, 0.1], 0.5, mark="?").text == "a€"


def test_an_untouched_document():
    found = Restoration.untouched(read_damaged("as it is"), ("one", "two"), Cost())
    assert (found.text, found.spans, found.expected_accuracy) == ("as it is", (), None)
    assert found.field.shape == (8, 2)
