"""Rescoring of whole texts: the posterior of candidates, by one and by several causal experts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.decoders.rescoring import SearchLimits, Slot, open_bytes, rescore
from conservator.decoders.rescoring.score_texts import score_texts
from conservator.decoders.rescoring.search import PrefixTree
from conservator.decoders.rescoring.spans import Span
from conservator.errors import ConservatorError
from conservator.experts import Meter
from conservator.reference import MarkovExpert
from conservator.vocabularies import BYTES
from support.causal_experts import EXPERTS, SEEDS, PathDependentExpert, exact_scores, random_potentials, seeded

EXACT = SearchLimits(prune_nats=math.inf, width=10**9)
TEXTS = st.lists(st.sampled_from(b"abc"), min_size=1, max_size=6).map(bytes)


def slots_of(log_potentials):
    """The slots of open bytes, given position -> log-potentials."""
    return open_bytes(np.array(list(log_potentials), dtype=np.int64), np.array(list(log_potentials.values())))


def equal_weights(text, experts=1):
    return np.full((len(text), experts), 1 / experts)


@given(EXPERTS, TEXTS, SEEDS, st.data())
def test_a_text_of_one_span_gets_the_exact_posterior(expert, text, seed, data):
    positions = sorted(data.draw(st.sets(st.integers(0, len(text) - 1), min_size=1, max_size=4)))
    log_potentials = random_potentials(positions, seed)
    span = Span(0, len(text), tuple(positions))
    oracle = exact_scores(expert, text, span, log_potentials)
    total = np.logaddexp.reduce(list(oracle.values()))
    rescored = rescore([expert], equal_weights(text), text, slots_of(log_potentials), Meter(), EXACT)
    candidates = rescored.posteriors[0].candidates
    if len(rescored.posteriors[0].slots) < len(positions):
        return  # the text has two spans
    assert candidates == pytest.approx(
        {candidate: math.exp(score - total) for candidate, score in oracle.items()}, abs=1e-4
    )
    best = max(oracle, key=oracle.get)
    assert span.open_bytes(rescored.draft.text) == best or candidates[
        span.open_bytes(rescored.draft.text)
    ] == pytest.approx(candidates[best])
    for number, position in enumerate(positions):
        chosen = rescored.draft.text[position]
        marginal = sum(probability for candidate, probability in candidates.items() if candidate[number] == chosen)
        assert rescored.confidence[number] == pytest.approx(marginal)


@given(EXPERTS, TEXTS.map(lambda text: text * 8), SEEDS, st.data())
def test_bytes_that_are_not_open_are_unchanged(expert, text, seed, data):
    positions = sorted(data.draw(st.sets(st.integers(0, len(text) - 1), min_size=1, max_size=6)))
    rescored = rescore([expert], equal_weights(text), text, slots_of(random_potentials(positions, seed)), Meter())
    restored = rescored.draft.text
    assert len(restored) == len(text)
    assert all(restored[position] == text[position] for position in set(range(len(text))) - set(positions))
    assert set(rescored.confidence) == set(rescored.posteriors) <= set(range(len(positions)))
    assert all(0 < probability <= 1 + 1e-9 for probability in rescored.confidence.values())
    again = rescore([expert], equal_weights(text), text, slots_of(random_potentials(positions, seed)), Meter())
    assert again.draft.text == restored


@given(SEEDS, st.floats(0, 1), st.data())
def test_experts_with_different_tokens_are_combined_on_bytes(seed, weight, data):
    first = MarkovExpert.random([b"a", b"b", b"ab"], 1.5, seeded(seed), "one")
    second = PathDependentExpert([b"a", b"b", b"ba", b"aba"], seed)
    text = data.draw(st.lists(st.sampled_from(b"ab"), min_size=2, max_size=6).map(bytes))
    positions = sorted(data.draw(st.sets(st.integers(0, len(text) - 1), min_size=1, max_size=3)))
    log_potentials = random_potentials(positions, seed)
    weights = np.tile([weight, 1 - weight], (len(text), 1))
    rescored = rescore([first, second], weights, text, slots_of(log_potentials), Meter(), EXACT)
    posterior, span = rescored.posteriors[0], Span(0, len(text), tuple(positions))
    if len(posterior.slots) < len(positions):
        return
    scores = {}
    for candidate in posterior.candidates:
        whole = [(span, span.insert(text, candidate))]
        rows = [score_texts(PrefixTree(expert, text, Meter()), whole)[0] for expert in (first, second)]
        potential = sum(log_potentials[position][byte] for position, byte in zip(positions, candidate, strict=True))
        scores[candidate] = weight * rows[0] + (1 - weight) * rows[1] + potential
    total = np.logaddexp.reduce(list(scores.values()))
    assert posterior.candidates == pytest.approx(
        {candidate: math.exp(score - total) for candidate, score in scores.items()}, abs=1e-4
    )


def test_a_candidate_that_is_not_utf8_is_never_chosen():
    token_bytes = [b"a", b"\xc3", b"\xa9", b"\xa8", b" "]
    expert = MarkovExpert.random(token_bytes, 1.0, seeded(0))
    text = "aé é".encode()
    log_potentials = {2: np.zeros(BYTES.size), 5: np.zeros(BYTES.size)}
    log_potentials[2][ord("a")] = log_potentials[5][0xC3] = 50.0
    rescored = rescore([expert], equal_weights(text), text, slots_of(log_potentials), Meter())
    rescored.draft.text.decode()


def test_candidates_of_a_range_are_summed_over_the_rest_of_their_span():
    expert = MarkovExpert.random([b"a", b"b"], 1.0, seeded(1))
    text = b"aabab"
    potentials = random_potentials([1, 2, 4], 1)
    rescored = rescore([expert], equal_weights(text), text, slots_of(potentials), Meter(), EXACT)
    marginals = rescored.candidates_of([0, 1])
    assert sum(marginals.values()) == pytest.approx(1.0)
    assert max(marginals, key=marginals.get) == next(iter(marginals))
    joint = rescored.posteriors[0].candidates
    assert marginals[b"ab"] == pytest.approx(
        sum(probability for candidate, probability in joint.items() if candidate[:2] == b"ab")
    )
    assert rescored.candidates_of([-1, 0]) == {}


def test_without_slots_the_text_is_unchanged():
    expert = MarkovExpert.random([b"a"], 1.0, seeded(1))
    rescored = rescore([expert], equal_weights(b"aaa"), b"aaa", [], Meter())
    assert (rescored.draft.text, rescored.confidence) == (b"aaa", {})


@given(SEEDS, st.floats(0, 1), st.floats(0.1, 2))
def test_listed_candidates_of_different_lengths_get_their_exact_posterior(seed, weight, expert_weight):
    experts = [MarkovExpert.random([bytes([byte]) for byte in b"ab "], 1.0, seeded(seed + n)) for n in range(2)]
    text, candidates = b"ab ba ab aab ba", {b" ba": 0.0, b" a": 0.5, b" bab": -1.0}
    weights = np.tile([weight, 1 - weight], (len(text), 1))
    rescored = rescore(experts, weights, text, [Slot(2, 5, candidates)], Meter(), expert_weight=expert_weight)
    scores = []
    for candidate, prior in candidates.items():
        whole = text[:2] + candidate + text[5:]
        log_probs = [log_prob(expert, whole) for expert in experts]
        scores.append(expert_weight * (weight * log_probs[0] + (1 - weight) * log_probs[1]) + prior)
    exact = np.exp(np.array(scores) - np.logaddexp.reduce(scores))
    assert [rescored.posteriors[0].candidates[candidate] for candidate in candidates] == pytest.approx(exact, abs=1e-4)
    assert rescored.draft.text == text[:2] + rescored.posteriors[0].best + text[5:]
    assert rescored.confidence[0] == pytest.approx(exact.max(), abs=1e-4)


def log_prob(expert, text):
    tokens = [b"ab ".index(byte) for byte in text]
    rows = [0, *(token + 1 for token in tokens)]
    return sum(float(expert.log_probs[row, token]) for row, token in zip(rows, tokens, strict=False))


def test_open_bytes_and_listed_candidates_are_chosen_in_one_text():
    expert = MarkovExpert.random([bytes([byte]) for byte in b"ab "], 1.0, seeded(3))
    text = b"ab ba ab aab ba"
    preferred = np.where(np.arange(BYTES.size) == ord("b"), 0.0, -99.0)
    slots = [Slot(0, 1, preferred), Slot(2, 5, {b" ba": -99.0, b" abba": 0.0}), Slot(9, 10, preferred)]
    rescored = rescore([expert], equal_weights(text), text, slots, Meter())
    assert rescored.draft.text == b"bb abba ab bab ba"


def test_a_model_that_cannot_tokenize_the_text_has_no_effect():
    class FailingExpert(MarkovExpert):
        def read(self):
            raise ConservatorError("a control character")

    expert = FailingExpert.random([b"a", b"b"], 1.0, seeded(0))
    rescored = rescore([expert], equal_weights(b"abba"), b"abba", [Slot(2, 3, {b"b": 0.0, b"a": 9.0})], Meter())
    assert (rescored.draft.text, rescored.posteriors) == (b"abba", {})
