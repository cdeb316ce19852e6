"""Similarity of readings."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from conservator.pipelines.readings.similarity import is_same_text, similarity

TEXT = "The prisoner was taken to the station by the constable, and remained there until the following morning. "
OTHER = "A magistrate who knew nothing of these circumstances had committed him for trial at the next assizes there. "


@given(st.text(min_size=1))
def test_a_text_is_a_reading_of_itself(text):
    assert is_same_text(text, text)


@given(st.text(), st.text())
def test_the_relation_is_symmetric(first, second):
    if len(first) != len(second):
        assert is_same_text(first, second) == is_same_text(second, first)


def test_many_errors_and_losses_leave_a_text_the_same():
    random = Random(0)
    wrong = "".join(random.choice("abcde") if random.random() < 0.25 else character for character in TEXT)
    lost = "".join("\uffff" if random.random() < 0.4 else character for character in TEXT)
    assert is_same_text(TEXT, wrong)
    assert is_same_text(TEXT, lost)
    assert is_same_text(lost, wrong)
    assert is_same_text(TEXT * 5, TEXT * 3)


def test_another_text_is_not_the_same():
    assert not is_same_text(TEXT, OTHER)
    assert similarity(TEXT, OTHER) < 0.3
    assert not is_same_text(TEXT, OTHER * 50)
    assert not is_same_text(TEXT, "")
