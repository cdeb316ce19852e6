"""Token experts over bytes: their distributions against enumeration of all segmentations."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.experts import Context
from conservator.experts.segmentation import ByteMarginalExpert, MaskedSpan, SegmentationLattice, find_masked_spans
from conservator.experts.segmentation.config import SEGMENTATION_CONFIG
from conservator.experts.segmentation.masked_sequences import likely_counts, log_prior
from conservator.vocabularies import BYTES, Tokens
from support.token_experts import BigramTokenExpert

TOKEN_BYTES = [b"a", b"b", b"ab", b" a", b" ", b" bb"]
TOKENS = Tokens(TOKEN_BYTES)


def row_of(text):
    return np.array([BYTES.mask if char == "?" else ord(char) for char in text])


def segmentations(pattern, count):
    """Every segmentation of a pattern into ``count`` tokens: the tokens, and their bytes."""
    for tokens in product(range(len(TOKEN_BYTES)), repeat=count):
        data = b"".join(TOKEN_BYTES[token] for token in tokens)
        if len(data) == len(pattern) and all(
            seen in (BYTES.mask, byte) for seen, byte in zip(pattern, data, strict=True)
        ):
            yield tokens, data


def enumerate_marginals(span, log_probs):
    """The sums of the lattice by enumeration: log Z, and the distributions (hidden bytes, 256)."""
    marginals = np.zeros((len(span.hidden), BYTES.size))
    scores = [
        (data, sum(log_probs[index, token] for index, token in enumerate(tokens)))
        for tokens, data in segmentations(span.pattern, len(log_probs))
    ]
    if not scores:
        return -math.inf, marginals
    log_total = float(np.logaddexp.reduce([score for _, score in scores]))
    for data, score in scores:
        marginals[np.arange(len(span.hidden)), [data[index] for index in span.hidden]] += math.exp(score - log_total)
    return log_total, marginals


patterns = st.lists(st.sampled_from([ord("a"), ord("b"), ord(" "), BYTES.mask]), min_size=1, max_size=6).filter(
    lambda pattern: BYTES.mask in pattern
)


@given(patterns, st.integers(1, 4), st.integers(0, 2**16))
def test_segmentations_into_independent_tokens_are_summed_exactly(pattern, count, seed):
    log_probs = np.log(np.random.default_rng(seed).dirichlet(np.full(len(TOKEN_BYTES), 0.3), count))
    span = MaskedSpan(0, tuple(pattern))
    expected_total, expected = enumerate_marginals(span, log_probs)
    log_total, marginals = SegmentationLattice(span, TOKENS).byte_conditionals(log_probs)
    assert np.exp(log_total) == pytest.approx(np.exp(expected_total))
    if expected_total > -math.inf:
        np.testing.assert_allclose(marginals, expected, atol=1e-9)


@given(st.text("ab ?", min_size=1, max_size=12))
def test_spans_contain_every_hidden_byte_and_do_not_overlap(text):
    row = row_of(text)
    covered = np.zeros(len(row), dtype=int)
    for span in find_masked_spans(row, TOKENS):
        assert list(span.pattern) == row[span.start : span.stop].tolist()
        assert span.hidden
        covered[span.start : span.stop] += 1
    assert covered.max(initial=0) <= 1
    assert covered[row == BYTES.mask].all()


def test_a_span_is_extended_to_word_boundaries():
    spans = find_masked_spans(row_of("one t?o three, fo?r f?ve\nsi?"), TOKENS)
    assert [span.start for span in spans] == [3, 14, 19, 25]
    single = Tokens([b"o", b"n", b"e"])
    assert [(span.start, span.stop) for span in find_masked_spans(row_of("on?one?"), single)] == [(2, 3), (6, 7)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("text", ["ab a? ab", "ab ?b?", "?? a"])
def test_byte_conditionals_are_those_of_enumeration(text, seed):
    """For each number of masks, the expert predicts independent tokens; the numbers are weighted by prior and Z."""
    expert = BigramTokenExpert(TOKEN_BYTES, seed)
    row = row_of(text)
    (span,) = find_masked_spans(row, TOKENS)
    before, after = TOKENS.tokenize(text[: span.start]), TOKENS.tokenize(text[span.stop :])
    conditionals = ByteMarginalExpert(expert).byte_conditionals(row)
    probs, total = np.zeros((len(span.hidden), 256)), 0.0
    prior_bytes = SEGMENTATION_CONFIG.bytes_per_token * SEGMENTATION_CONFIG.prior_tokens
    bytes_per_token = (prior_bytes + len(row) - len(span.pattern)) / (
        SEGMENTATION_CONFIG.prior_tokens + len(before) + len(after)
    )
    counts = np.array(likely_counts(len(span.pattern), bytes_per_token, TOKENS, None))
    priors = np.exp(log_prior(counts, len(span.pattern) / bytes_per_token))
    for count, prior in zip(counts.tolist(), priors, strict=True):
        tokens = torch.tensor([[*before, *[TOKENS.mask] * count, *after]])
        at = torch.zeros(count, dtype=torch.long), len(before) + torch.arange(count)
        log_probs = expert.predict(Context(tokens, tokens == TOKENS.mask), at).numpy()
        log_total, marginals = enumerate_marginals(span, log_probs)
        probs += prior * math.exp(log_total) * marginals
        total += prior * math.exp(log_total)
    assert sorted(conditionals) == [span.start + index for index in span.hidden]
    for index, expected in zip(span.hidden, probs / total, strict=True):
        np.testing.assert_allclose(conditionals[span.start + index], expected, atol=1e-9)


@given(st.text("ab ?", min_size=30, max_size=60).filter(lambda text: "?" in text))
def test_a_long_row_is_evaluated_in_windows_of_the_expert(text):
    row = row_of(text)
    conditionals = ByteMarginalExpert(BigramTokenExpert(TOKEN_BYTES, 0, max_length=8)).byte_conditionals(row)
    for probs in conditionals.values():
        assert probs.sum() == pytest.approx(1)


def test_a_span_that_is_too_long_has_uniform_predictions():
    expert = ByteMarginalExpert(BigramTokenExpert(TOKEN_BYTES, 0, max_length=8))
    row = torch.from_numpy(row_of("ab a? ab" + "?" * 40 + "b ab"))[None]
    log_probs = expert.predict(Context(row, row == BYTES.mask), (torch.tensor([0, 0]), torch.tensor([4, 20])))
    assert log_probs[0].max() > log_probs[1].max() == pytest.approx(-np.log(256))
