"""Scores of an expert against exact values, and the specialisation check."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.experts import PAD, Context
from conservator.reference import BigramExpert, CategoricalExpert, expected_denoising_score
from conservator.training.scoring import draw_noisy_windows, ratio, score
from conservator.training.specialisation import check_specialisation


def bigram(seed, name="bigram", scale=1.0):
    return BigramExpert.random(128, scale, torch.Generator().manual_seed(seed), name)


def test_scores_agree_with_the_expectation_over_all_maskings():
    """For many windows of the same three bytes the averages over time and masking are known exactly."""
    expert = bigram(0)
    scores = score(expert, draw_noisy_windows([b"abc"] * 50, 1000, 3, 0), batch=200)
    tokens = torch.tensor([list(b"abc")])
    energy = expected_denoising_score(expert, tokens, schedule_weight=False).sum().item() / 3
    bound = expected_denoising_score(expert, tokens, schedule_weight=True).sum().item() / 3
    estimate = scores.energy()
    assert estimate.low < energy < estimate.high
    assert estimate.high - estimate.low < 0.2 * energy
    assert scores.per_hidden_byte().value == pytest.approx(2 * energy, rel=0.05)  # half of all bytes are hidden
    assert scores.bits_per_byte().value == pytest.approx(bound / math.log(2), rel=0.1)
    # The bound of a Bayes-optimal expert is the code length.
    assert bound == pytest.approx(-expert.log_density(tokens).item() / 3)


def test_windows_do_not_extend_over_documents():
    documents = [b"aaaa", b"b", b"cccccccc"]
    windows = draw_noisy_windows(documents, 500, 3, 1)
    for tokens, document in zip(windows.tokens.tolist(), windows.documents.tolist(), strict=True):
        text = documents[document]
        assert tokens == (list(text[:3]) + [PAD] * 3)[:3]
    frequencies = torch.bincount(windows.documents) / 500
    torch.testing.assert_close(frequencies, torch.tensor([4.0, 1.0, 8.0]) / 13, rtol=0, atol=0.08)
    assert not windows.hidden[windows.tokens == PAD].any()
    assert torch.equal(windows.tokens, draw_noisy_windows(documents, 500, 3, 1).tokens)


def test_windows_are_drawn_from_every_position_of_a_document():
    windows = draw_noisy_windows([bytes(range(100))], 4000, 20, 0).tokens
    counts = torch.bincount(windows[:, 0], minlength=81).double()
    assert len(counts) == 81
    # 4000 draws of 81 positions: each about 49, with a standard deviation of 7.
    assert counts.min() > 49 - 5 * 7
    assert counts.max() < 49 + 5 * 7
    assert torch.equal(windows, windows[:, :1] + torch.arange(20))


def test_a_single_document_has_an_interval():
    scores = score(letters("one", a=0.5, b=0.1), draw_noisy_windows([b"abbabbaabbab" * 3], 50, 6, 0))
    assert scores.energy().low < scores.energy().value < scores.energy().high


def test_windows_without_text_or_without_scored_positions_are_rejected():
    for documents in ([], [b""]):
        with pytest.raises(ConservatorError, match="all documents are empty"):
            draw_noisy_windows(documents, 3, 4, 0)
    with pytest.raises(ConservatorError, match="no position of these windows is scored"):
        ratio(torch.zeros(3), torch.zeros(3), torch.arange(3))
    # A draw of documents without scored positions does not affect the interval.
    estimate = ratio(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.0]), torch.arange(2))
    assert (estimate.value, estimate.low, estimate.high) == (1, 1, 1)


@given(seed=st.integers(0, 50), clusters=st.integers(2, 30))
def test_an_interval_contains_its_value_and_vanishes_without_noise(seed, clusters):
    generator = torch.Generator().manual_seed(seed)
    denominators = 1 + torch.rand(60, generator=generator)
    documents = torch.arange(60) % clusters
    exact = ratio(3 * denominators, denominators, documents)
    assert (exact.value, exact.low, exact.high) == pytest.approx((3, 3, 3))
    noisy = ratio(3 * denominators + torch.randn(60, generator=generator), denominators, documents)
    assert noisy.low < noisy.value < noisy.high


def test_the_interval_agrees_with_the_normal_approximation():
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(400, generator=generator)
    estimate = ratio(values, torch.ones(400), torch.arange(400))
    half = 1.96 * values.std().item() / 20
    assert estimate.high - estimate.low == pytest.approx(2 * half, rel=0.1)


def sample(expert, count, length, seed):
    """Sample documents from a bigram expert, byte by byte."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.zeros(count, length, dtype=torch.long)
    for position in range(length):
        hidden = torch.arange(length).expand(count, -1) >= position
        at = torch.arange(count), torch.full((count,), position)
        probabilities = expert.predict(Context(tokens, hidden), at).exp()
        tokens[:, position] = torch.multinomial(probabilities, 1, generator=generator)[:, 0]
    return [bytes(row) for row in tokens.tolist()]


@pytest.fixture(scope="module")
def world():
    experts = [bigram(seed, name, 1.5) for seed, name in enumerate(("one", "two"))]
    return experts, {expert.spec.name: sample(expert, 8, 6, 0) for expert in experts}


def test_specialists_pass_in_both_directions(world):
    experts, domains = world
    check = check_specialisation(experts, domains, windows=40, length=6)
    assert check.passed
    record = check.as_record()
    assert [(row["domain"], row["expert"]) for row in record["rows"]] == [
        (domain, name) for domain in ("one", "two") for name in ("one", "two")
    ]
    for row in record["rows"]:
        assert row["low"] < row["energy"] < row["high"]
        assert (row["windows"], row["documents"]) == (40, 8)
    assert record["margins"]["one"] == pytest.approx(check.energy("one", "two") - check.energy("one", "one"))
    low, high = record["margin_intervals"]["one"]
    assert 0 < low < record["margins"]["one"] < high


def test_swapped_experts_fail_in_both_directions(world):
    (first, second), domains = world
    check = check_specialisation([first, second], {"one": domains["two"], "two": domains["one"]}, windows=40, length=6)
    assert (check.row_wise, check.column_wise) == (False, False)
    assert all(margin.value < 0 for margin in check.margins.values())


def letters(name, length=6, **probs):
    """Create an expert with fixed probabilities of letters at every position."""
    table = torch.full((length, 256), (1 - sum(probs.values())) / (256 - len(probs)))
    for letter, prob in probs.items():
        table[:, ord(letter)] = prob
    return CategoricalExpert(table.log(), name)


@pytest.mark.parametrize(
    ("first", "second", "row_wise", "column_wise"),
    [
        ({"a": 0.2, "b": 0.1}, {"a": 0.1, "b": 0.2}, True, True),
        ({"a": 0.2, "b": 0.1}, {"a": 0.4, "b": 0.5}, True, False),  # the second is better on both domains
        ({"a": 0.4, "b": 0.2}, {"a": 0.35, "b": 0.3}, False, True),  # both are better on the first domain
        ({"a": 0.4, "b": 0.3}, {"a": 0.3, "b": 0.2}, False, False),
    ],
)
def test_each_verdict_can_fail_independently(first, second, row_wise, column_wise):
    experts = [letters("one", **first), letters("two", **second)]
    check = check_specialisation(experts, {"one": [b"aaaaaa"] * 2, "two": [b"bbbbbb"] * 2}, windows=40, length=6)
    assert (check.row_wise, check.column_wise) == (row_wise, column_wise)


def test_a_generalist_is_scored_and_does_not_affect_the_verdicts(world):
    (first, second), domains = world
    best = BigramExpert(first.initial, first.transition, "generalist")
    check = check_specialisation([first, second, best], domains, windows=40, length=6)
    assert check.passed
    assert check.energy("one", "generalist") == check.energy("one", "one")
    assert list(check.margins) == ["one", "two"]


def test_missing_domains_and_duplicate_names_are_rejected(world):
    (first, second), domains = world
    with pytest.raises(ConservatorError, match="expected at least two experts with the name of a domain"):
        check_specialisation([first, second], {"one": domains["one"]})
    with pytest.raises(ConservatorError, match="names of the experts must be different"):
        check_specialisation([first, first], domains)
