"""Readings of one text: what they agree on stays, marks are filled, and the order of the readings has no effect."""

from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator import Restorer, restore
from conservator.document import Document

MARK = "\ufffd"
TEXT = (
    "The prisoner was taken to the station by the constable, and remained there until the following morning.\n"
    "The magistrate, who had been informed of the circumstances, committed him for trial at the next assizes.\n"
)


@pytest.fixture(scope="module")
def restorer():
    return Restorer()


def lose(text, share, seed):
    random = Random(seed)
    return "".join(MARK if character.isalpha() and random.random() < share else character for character in text)


@settings(max_examples=20, deadline=None)
@given(st.text("abc ,.\n\u00e9", max_size=60))
def test_identical_readings_change_nothing(restorer, text):
    assert restorer.restore(text, also=[text, text]).text == text


def test_no_additional_readings_change_nothing(restorer):
    assert restorer.restore(TEXT, also=[]).text == TEXT


def test_damaged_copies_complete_each_other(restorer):
    first, second = lose(TEXT, 0.1, 1), lose(TEXT, 0.1, 2)
    result = restorer.restore(first, also=[second], min_confidence=0.9)
    in_both = {index for index, pair in enumerate(zip(first, second, strict=True)) if pair == (MARK, MARK)}
    pairs = enumerate(zip(result.text, TEXT, strict=True))
    assert all(new == clean or index in in_both for index, (new, clean) in pairs)


def test_marks_that_all_readings_have_are_filled_afterwards(restorer):
    copy = TEXT.replace("magistrate", f"mag{MARK}strate")
    assert restorer.restore(copy, also=[copy]).text == TEXT


def test_the_order_of_the_additional_readings_has_no_effect(restorer):
    others = [TEXT.replace("prisoner", "prisouer"), TEXT.replace("trial", "triol"), TEXT.replace("by the", "hy tbe")]
    base = TEXT.replace("station", "slation")
    texts = {restorer.restore(base, also=order).text for order in list(permutations(others))[::2]}
    assert texts == {TEXT}


def test_an_error_of_one_reading_is_corrected_by_the_others(restorer):
    base, other = TEXT.replace("following", "folIovving"), TEXT.replace("morning", "rnorning")
    assert restorer.restore(base, also=[other]).text == TEXT
    assert restorer.restore(other, also=[base]).text == TEXT


def test_the_base_keeps_its_whitespace(restorer):
    other = TEXT.replace("\n", " ").replace(" by", "  by")
    assert restorer.restore(TEXT, also=[other]).text == TEXT


def test_another_text_is_not_used(restorer):
    result = restorer.restore(TEXT, also=["Completely different words about mathematics in the nineteenth century."])
    assert (result.text, result.channels) == (TEXT, ())
    assert [notice.kind for notice in result.notices] == ["unrelated_reading"]
    assert "reading 2" in result.notices[0].message


def test_a_gap_is_filled_from_another_reading(restorer):
    base = TEXT.replace("taken to the station", "[...]")
    assert restorer.restore(base, also=[TEXT], gap="[...]").text == TEXT


def test_invalid_bytes_are_filled_from_another_reading(restorer):
    base = TEXT.encode().replace(b"station", b"st\xfftion")
    assert restorer.restore(Document(base), also=[TEXT], lost="invalid").text == TEXT


def test_fixed_text_stays(restorer):
    base = TEXT.replace("station", f"st{MARK}tion")
    start = len(base[: base.index(MARK)].encode())
    result = restorer.restore(base, also=[TEXT], fixed=[(start, start + 3, "u")])
    assert "stution" in result.text


def test_the_ocr_channel_follows():
    base = TEXT.replace("by the constable", "hy tbe constable")
    result = restore(base, also=[base.replace("following", "foIlowing")], channel="ocr")
    assert result.text == TEXT
    assert result.channels == ("readings", "ocr")


def test_a_reading_in_another_encoding(tmp_path, restorer):
    other = "Les élèves étaient déjà arrivés à l'école, où le maître les attendait près de la fenêtre."
    path = tmp_path / "other.txt"
    path.write_bytes(other.encode("windows-1252"))
    base = other.replace("maître", f"ma{MARK}tre")
    assert restorer.restore(base, also=[path]).text == other


def test_alternatives_of_an_edit(restorer):
    base = TEXT.replace("prisoner", "prisouer")
    edit = restorer.restore(base, also=[TEXT], alternatives=3).edits[0]
    assert [candidate.data for candidate in edit.alternatives] == [b"prisoner", b"prisouer"]
    assert 0.5 < edit.probability <= 1
