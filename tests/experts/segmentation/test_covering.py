"""Token experts that speak about bytes: their laws against enumeration of all covers and all fills."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.experts import Context
from conservator.experts.segmentation import ByteMarginalExpert, SegmentationLattice, Stretch, find_stretches
from conservator.experts.segmentation.expert import PRIOR, USUAL
from conservator.experts.segmentation.masked_sequences import likely_counts, log_prior
from conservator.vocabularies import BYTES, Tokens
from support.token_experts import Spelt

PIECES = [b"a", b"b", b"ab", b" a", b" ", b" bb"]
TOKENS = Tokens(PIECES)
EVERY = len(PIECES) ** 4  # covers


def row_of(text):
    return np.array([BYTES.mask if sign == "?" else ord(sign) for sign in text])


def fills_of(pattern, count):
    """Every cover of a pattern by so many tokens: the tokens, and the bytes."""
    for cover in product(range(len(PIECES)), repeat=count):
        data = b"".join(PIECES[token] for token in cover)
        if len(data) == len(pattern) and all(
            one in (BYTES.mask, byte) for one, byte in zip(pattern, data, strict=True)
        ):
            yield cover, data


patterns = st.lists(st.sampled_from([ord("a"), ord("b"), ord(" "), BYTES.mask]), min_size=1, max_size=6).filter(
    lambda pattern: BYTES.mask in pattern
)


@given(patterns, st.integers(1, 4), st.integers(0, 2**16))
def test_covers_by_independent_tokens_are_summed_exactly(pattern, count, seed):
    log_probs = np.log(np.random.default_rng(seed).dirichlet(np.full(len(PIECES), 0.3), count))
    covers = SegmentationLattice(Stretch(0, tuple(pattern)), TOKENS)
    row_of_token = {token: row for row, token in enumerate(TOKENS.token_ids.tolist())}
    scores = {
        tuple(row_of_token[token] for token in cover): sum(log_probs[n, token] for n, token in enumerate(cover))
        for cover, _ in fills_of(pattern, count)
    }
    expected = covers.spelt(scores)
    found = covers.byte_conditionals(log_probs)
    assert np.exp(found[0]) == pytest.approx(np.exp(expected[0]))
    if scores:
        np.testing.assert_allclose(found[1], expected[1], atol=1e-9)
    every = covers.best(log_probs, EVERY)
    assert every == pytest.approx(scores)
    some = covers.best(log_probs, 2)
    assert sorted(some.values(), reverse=True) == pytest.approx(sorted(scores.values(), reverse=True)[:2])


@given(st.text("ab ?", min_size=1, max_size=12))
def test_stretches_have_all_that_is_hidden_and_nothing_twice(text):
    row = row_of(text)
    stretches = find_stretches(row, TOKENS)
    inside = np.zeros(len(row), dtype=int)
    for one in stretches:
        assert list(one.pattern) == row[one.start : one.stop].tolist()
        assert one.hidden
        inside[one.start : one.stop] += 1
    assert inside.max(initial=0) <= 1
    assert inside[row == BYTES.mask].all()


def test_a_stretch_is_the_words_around_what_is_hidden():
    found = [one.start for one in find_stretches(row_of("one t?o three, fo?r f?ve\nsi?"), TOKENS)]
    assert found == [3, 14, 19, 25]
    single = Tokens([b"o", b"n", b"e"])
    assert [(one.start, one.stop) for one in find_stretches(row_of("on?one?"), single)] == [(2, 3), (6, 7)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("text", ["ab a? ab", "ab ?b?", "?? a"])
def test_with_every_cover_the_law_of_bytes_is_that_of_enumeration(text, seed):
    """The joint of the tokens of one stretch, given how many there are; several numbers, by their prior."""
    expert = Spelt(PIECES, seed)
    row = row_of(text)
    (stretch,) = find_stretches(row, TOKENS)
    before, after = TOKENS.tokenize(text[: stretch.start]), TOKENS.tokenize(text[stretch.stop :])
    found = ByteMarginalExpert(expert, EVERY).byte_conditionals(row)
    law, total = np.zeros((len(stretch.hidden), 256)), 0.0
    size = (USUAL * PRIOR + len(row) - len(stretch.pattern)) / (PRIOR + len(before) + len(after))
    counts = np.array(likely_counts(len(stretch.pattern), size, TOKENS, None))
    for count, prior in zip(counts.tolist(), np.exp(log_prior(counts, len(stretch.pattern) / size)), strict=True):
        every = torch.tensor([[*before, *cover, *after] for cover in product(range(len(PIECES)), repeat=count)])
        norm = torch.logsumexp(expert.inner.log_density(every), 0)
        for cover, data in fills_of(stretch.pattern, count):
            weight = float(torch.exp(expert.inner.log_density(torch.tensor([[*before, *cover, *after]]))[0] - norm))
            law[np.arange(len(stretch.hidden)), [data[place] for place in stretch.hidden]] += prior * weight
            total += prior * weight
    for place, one in zip(stretch.hidden, law / total, strict=True):
        np.testing.assert_allclose(found[stretch.start + place], one, atol=1e-9)


@given(st.text("ab ?", min_size=30, max_size=60).filter(lambda text: "?" in text))
def test_a_long_row_is_read_in_windows_that_the_expert_takes(text):
    row = row_of(text)
    laws = ByteMarginalExpert(Spelt(PIECES, 0, max_length=8)).byte_conditionals(row)
    for law in laws.values():
        assert law.sum() == pytest.approx(1)


def test_of_a_stretch_that_is_too_long_nothing_is_said():
    expert = ByteMarginalExpert(Spelt(PIECES, 0, max_length=8))
    row = torch.from_numpy(row_of("ab a? ab" + "?" * 40 + "b ab"))[None]
    found = expert.predict(Context(row, row == BYTES.mask), (torch.tensor([0, 0]), torch.tensor([4, 20])))
    assert found[0].max() > found[1].max() == pytest.approx(-np.log(256))
