"""Lengths of gaps: valid UTF-8, the prior and the evidence."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.alignment import choose_lengths
from conservator.alignment.gap_lengths import length_prior, possible_lengths, reference_lengths, word_lengths
from conservator.documents import LOST, GapContext, read_damaged
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
    position = max(len(left) - cut, 0)
    lengths = possible_lengths(GapContext(tokens, position, False, False), 6)
    for length in range(1, 7):
        assert (length in lengths) == fits(np.insert(tokens, np.full(length, position), LOST))


@given(texts, texts, st.integers(0, 3), st.integers(0, 3), st.integers(0, 12))
def test_omitted_text_may_contain_the_rest_of_a_character(left, right, cut, skip, radius):
    """The context of the gap excludes no length that the whole document allows."""
    left, right = (b"\xe6\x97\xa5" * 2 + left), (right + b"\xe6\x97\xa5" * 2)
    document = left[: len(left) - cut] + b"[...]" + right[skip:]
    damaged = read_damaged(document, gap="[...]")
    whole = possible_lengths(damaged.around_gap(0, [], 100), 6)
    local = possible_lengths(damaged.around_gap(0, [], radius), 6)
    assert set(whole) <= set(local)
    if radius >= 8:  # both characters beside the gap are complete
        assert local == whole


def test_the_length_of_predictable_text_is_found():
    text = "".join(chr(33 + 7 * position % 90) for position in range(90))
    for lengths in ([1], [7], [3, 5]):
        damaged = text[:20] + "[...]" + text[20 + lengths[0] :]
        if len(lengths) == 2:
            damaged = text[:20] + "[...]" + text[20 + lengths[0] : 60] + "[...]" + text[60 + lengths[1] :]
        team = Team([TextExpert(text)])
        chosen, probability = choose_lengths(
            team, read_damaged(damaged, gap="[...]"), 10, torch.Generator().manual_seed(0)
        )
        assert chosen == lengths
        assert all(0.5 < value <= 1 for value in probability)


def test_the_same_seed_gives_the_same_lengths():
    damaged = read_damaged("ab [...] cdé[...]fg" * 2, gap="[...]")
    team = Team([FakeExpert(0), FakeExpert(1)])
    once, again = (choose_lengths(team, damaged, 5, torch.Generator().manual_seed(3)) for _ in range(2))
    assert once == again
    lengths, probability = once
    assert all(1 <= length <= 5 for length in lengths)
    assert all(0.2 <= value <= 1 for value in probability)  # the most likely of five


def test_a_gap_without_a_valid_length_is_refused():
    team = Team([FakeExpert(0)])
    broken = read_damaged(b"ab \xf0[...] c", gap="[...]")
    with pytest.raises(ConservatorError, match="no length up to 2 makes the gap at byte 4 valid UTF-8"):
        choose_lengths(team, broken, 2, torch.Generator())
    assert choose_lengths(team, broken, 3, torch.Generator().manual_seed(0)) == ([3], [1.0])
    with pytest.raises(ConservatorError, match="at least 1"):
        choose_lengths(team, broken, 0, torch.Generator())


def test_lengths_are_counted_in_references():
    damaged = read_damaged("The quick [...] fox jumps", gap="[...]")
    context = damaged.around_gap(0, [], 64)
    references = [
        b"the quick brown fox, The quick red fox jumps, The quick brown fox jumps",
        b"a quick brown fox jumps",
    ]
    assert reference_lengths(context, references, 10) == (
        {3: 1, 5: 1},
        0.4,
    )  # with a match of eight bytes on either side
    assert reference_lengths(context, references[1:], 10) == ({5: 1}, 0.2)  # with six
    assert reference_lengths(context, [b"The quick brown fox jumps"], 4) == ({}, 0.0)
    assert reference_lengths(read_damaged("ab[...]cd", gap="[...]").around_gap(0, [], 64), references, 10) == ({}, 0.0)
    prior = length_prior([1, 3, 5], *reference_lengths(context, references, 10))
    np.testing.assert_allclose(np.exp(prior).sum(), 1)
    assert prior[1] > prior[0] + 0.3
    assert (np.diff(length_prior([1, 2, 3], *reference_lengths(context, [], 9))) < 0).all()


def test_references_decide_between_equally_likely_lengths():
    damaged = read_damaged("one two three [...] five six seven", gap="[...]")
    references = [np.frombuffer(b"one two three four five six seven", dtype=np.uint8).astype(np.int16)]
    team = Team([FakeExpert(0, 64, sharpness=0.01)])
    assert choose_lengths(team, damaged, 12, torch.Generator().manual_seed(0), references)[0] == [4]
    assert choose_lengths(team, damaged, 12, torch.Generator().manual_seed(0))[0] == [1]


def test_words_decide_the_length_of_a_gap_within_them():
    words = ("van der Berg", "Bergmann")
    for text, lengths in (
        ("to van de[...]rg, and", {4: 1}),
        ("to Be[...]nn.", {4: 1}),
        ("to Berg[...]", {4: 1}),
        ("to B[...]g", {}),
        ("to Ber[...]x", {}),
    ):
        assert word_lengths(read_damaged(text, gap="[...]").around_gap(0, [], 64), words)[0] == lengths
    damaged = read_damaged("one two van de[...]rg five", gap="[...]")
    team = Team([FakeExpert(0, 64, sharpness=0.01)])
    assert choose_lengths(team, damaged, 12, torch.Generator().manual_seed(0), words=words)[0] == [4]
    assert choose_lengths(team, damaged, 12, torch.Generator().manual_seed(0))[0] == [1]
