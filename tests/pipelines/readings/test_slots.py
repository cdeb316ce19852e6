"""Slots: candidates are all combinations, with exact scores."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.alignment import ReadingErrors, align_readings
from conservator.documents import SymbolText
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel
from conservator.pipelines.readings.prior import TextPrior
from conservator.pipelines.readings.slots import make_slots, search, split_columns

PRIOR = TextPrior(CharNgramMixture.of([CharNgramModel.of("tiny", ["abba bab aab "])]))
ERRORS = [ReadingErrors(Counter({("a", "a"): 50, ("a", "b"): 2 * number, ("b", "b"): 50})) for number in range(1, 4)]
TEXT = st.text("ab ", max_size=8)


def slots_of(base, others):
    text = SymbolText.of(base.encode(), "\ufffd")
    return make_slots(text, list(split_columns(align_readings(base, others))))


@given(TEXT.map(lambda text: " ".join(text.split())), st.lists(TEXT, min_size=1, max_size=2))
def test_the_search_finds_all_combinations(base, others):
    others = [" ".join(other.split()) for other in others]
    for slot in slots_of(base, others):
        candidates = search(slot, ERRORS[: 1 + len(others)], PRIOR, "b ", " a")
        expected = set()
        for choice in product(*(dict.fromkeys(segment.texts) for segment in slot.segments)):
            done, parts = slot.start, []
            for segment, text in zip(slot.segments, choice, strict=True):
                parts += [base[done : segment.start], text]
                done = segment.stop
            expected.add("".join([*parts, base[done : slot.stop]]))
        assert expected == {candidate.text for candidate in candidates} or len(candidates) >= 24
        assert candidates[0].text == slot.observed
        assert all(candidate.data.decode() == candidate.text for candidate in candidates)


@given(TEXT.map(lambda text: " ".join(text.split())), TEXT)
def test_a_score_is_that_of_the_readings_and_the_prior(base, other):
    other = " ".join(other.split())
    for slot in slots_of(base, [other]):
        for candidate in search(slot, ERRORS[:2], PRIOR, "b ", " a"):
            expected = PRIOR.score("b ", candidate.text + " a")
            for segment, text in zip(slot.segments, candidate.choices, strict=True):
                expected += sum(item.score(seen, text) for item, seen in zip(ERRORS, segment.texts, strict=False))
            assert candidate.score == pytest.approx(expected)


@given(TEXT, TEXT)
def test_slots_are_in_order_and_have_the_text_of_each_reading(base, other):
    base, other = " ".join(base.split()), " ".join(other.split())
    slots = slots_of(base, [other])
    parts, done = [], 0
    for slot in slots:
        assert slot.start >= done
        parts += [base[done : slot.start], slot.text_of(1)]
        done = slot.stop
    assert "".join([*parts, base[done:]]) == other
