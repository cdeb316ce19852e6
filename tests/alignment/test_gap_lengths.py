"""The lengths of gaps: what UTF-8 allows, and what is likely."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.alignment import choose_lengths
from conservator.alignment.gap_lengths import length_prior, possible_lengths, recalled_lengths
from conservator.documents import LOST, Surroundings, read_damaged
from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.vocabularies import BYTES
from support.fakes import FakeExpert, TextExpert

texts = st.text(max_size=4).map(str.encode)


def fits(tokens):
    return not BYTES.constraint.violations(np.array(tokens, dtype=np.int64)).any()


@given(texts, texts, st.integers(0, 3), st.integers(0, 3))
def test_the_lengths_of_a_gap_are_those_that_utf8_allows(left, right, cut, skip):
    tokens = np.array([*left[: len(left) - cut], *right[skip:]], dtype=np.int64)
    place = max(len(left) - cut, 0)
    found = possible_lengths(Surroundings(tokens, place, False, False), 6)
    for length in range(1, 7):
        assert (length in found) == fits(np.insert(tokens, np.full(length, place), LOST))


@given(texts, texts, st.integers(0, 3), st.integers(0, 3), st.integers(0, 12))
def test_text_that_is_left_out_may_hold_the_rest_of_a_character(left, right, cut, skip, reach):
    """No length that the whole document allows is excluded by what is near the gap alone."""
    left, right = (b"\xe6\x97\xa5" * 2 + left), (right + b"\xe6\x97\xa5" * 2)
    document = left[: len(left) - cut] + b"[...]" + right[skip:]
    damaged = read_damaged(document, gap="[...]")
    whole = possible_lengths(damaged.around_gap(0, [], 100), 6)
    near = possible_lengths(damaged.around_gap(0, [], reach), 6)
    assert set(whole) <= set(near)
    if reach >= 8:  # all of the two characters beside the gap
        assert near == whole


def test_the_length_of_what_is_known_is_found():
    text = "".join(chr(33 + 7 * place % 90) for place in range(90))
    for lengths in ([1], [7], [3, 5]):
        damaged = text[:20] + "[...]" + text[20 + lengths[0] :]
        if len(lengths) == 2:
            damaged = text[:20] + "[...]" + text[20 + lengths[0] : 60] + "[...]" + text[60 + lengths[1] :]
        team = Team([TextExpert(text)])
        found, probability = choose_lengths(
            team, read_damaged(damaged, gap="[...]"), 10, torch.Generator().manual_seed(0)
        )
        assert found == lengths
        assert all(0.5 < sure <= 1 for sure in probability)


def test_the_same_seed_gives_the_same_lengths():
    damaged = read_damaged("ab [...] cdé[...]fg" * 2, gap="[...]")
    team = Team([FakeExpert(0), FakeExpert(1)])
    once, again = (choose_lengths(team, damaged, 5, torch.Generator().manual_seed(3)) for _ in range(2))
    assert once == again
    lengths, probability = once
    assert all(1 <= length <= 5 for length in lengths)
    assert all(0.2 <= sure <= 1 for sure in probability)  # the likeliest of five


def test_what_no_length_makes_valid_is_said():
    team = Team([FakeExpert(0)])
    broken = read_damaged(b"ab \xf0[...] c", gap="[...]")
    with pytest.raises(ConservatorError, match="no length up to 2 makes valid UTF-8 of the gap at byte 4"):
        choose_lengths(team, broken, 2, torch.Generator())
    assert choose_lengths(team, broken, 3, torch.Generator().manual_seed(0)) == ([3], [1.0])
    with pytest.raises(ConservatorError, match="at least 1"):
        choose_lengths(team, broken, 0, torch.Generator())


def test_lengths_are_recalled_from_known_texts():
    damaged = read_damaged("The quick [...] fox jumps", gap="[...]")
    around = damaged.around_gap(0, [], 64)
    known = [b"the quick brown fox, The quick red fox jumps, The quick brown fox jumps", b"a quick brown fox jumps"]
    assert recalled_lengths(around, known, 10) == ({3: 1, 5: 1}, 0.4)  # with eight bytes on either side
    assert recalled_lengths(around, known[1:], 10) == ({5: 1}, 0.2)  # with six
    assert recalled_lengths(around, [b"The quick brown fox jumps"], 4) == ({}, 0.0)
    assert recalled_lengths(read_damaged("ab[...]cd", gap="[...]").around_gap(0, [], 64), known, 10) == ({}, 0.0)
    prior = length_prior([1, 3, 5], *recalled_lengths(around, known, 10))
    np.testing.assert_allclose(np.exp(prior).sum(), 1)
    assert prior[1] > prior[0] + 0.3
    assert (np.diff(length_prior([1, 2, 3], *recalled_lengths(around, [], 9))) < 0).all()


def test_what_is_known_decides_between_lengths_that_are_as_likely():
    damaged = read_damaged("one two three [...] five six seven", gap="[...]")
    known = [np.frombuffer(b"one two three four five six seven", dtype=np.uint8).astype(np.int16)]
    team = Team([FakeExpert(0, 64, sharpness=0.01)])
    assert choose_lengths(team, damaged, 12, torch.Generator().manual_seed(0), known)[0] == [4]
    assert choose_lengths(team, damaged, 12, torch.Generator().manual_seed(0))[0] == [1]
