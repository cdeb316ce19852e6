"""Rescoring of whole texts: the posterior of candidates, by one and by several causal experts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.decoders.rescoring import SearchLimits, rescore
from conservator.decoders.rescoring.score_texts import score_texts
from conservator.decoders.rescoring.search import PrefixTree
from conservator.decoders.rescoring.spans import Span
from conservator.experts import Meter
from conservator.reference import MarkovExpert
from conservator.vocabularies import BYTES
from support.causal_experts import EXPERTS, SEEDS, PathDependentExpert, exact_scores, random_potentials, seeded

EXACT = SearchLimits(prune_nats=math.inf, width=10**9)
TEXTS = st.lists(st.sampled_from(b"abc"), min_size=1, max_size=6).map(bytes)


def equal_weights(text, experts=1):
    return np.full((len(text), experts), 1 / experts)


@given(EXPERTS, TEXTS, SEEDS, st.data())
def test_a_text_of_one_span_gets_the_exact_posterior(expert, text, seed, data):
    positions = sorted(data.draw(st.sets(st.integers(0, len(text) - 1), min_size=1, max_size=4)))
    log_potentials = random_potentials(positions, seed)
    span = Span(0, len(text), tuple(positions))
    oracle = exact_scores(expert, text, span, log_potentials)
    total = np.logaddexp.reduce(list(oracle.values()))
    rescored = rescore([expert], equal_weights(text), text, np.array(positions), log_potentials, Meter(), EXACT)
    candidates = rescored.posteriors[positions[0]].candidates
    if rescored.posteriors[positions[0]].span != span:
        return  # the text has two spans
    assert candidates == pytest.approx(
        {candidate: math.exp(score - total) for candidate, score in oracle.items()}, abs=1e-4
    )
    best = max(oracle, key=oracle.get)
    assert span.open_bytes(rescored.text) == best or candidates[span.open_bytes(rescored.text)] == pytest.approx(
        candidates[best]
    )
    for number, position in enumerate(positions):
        chosen = rescored.text[position]
        marginal = sum(probability for candidate, probability in candidates.items() if candidate[number] == chosen)
        assert rescored.confidence[position] == pytest.approx(marginal)


@given(EXPERTS, TEXTS.map(lambda text: text * 8), SEEDS, st.data())
def test_bytes_that_are_not_open_are_unchanged(expert, text, seed, data):
    positions = sorted(data.draw(st.sets(st.integers(0, len(text) - 1), min_size=1, max_size=6)))
    rescored = rescore(
        [expert], equal_weights(text), text, np.array(positions), random_potentials(positions, seed), Meter()
    )
    assert len(rescored.text) == len(text)
    assert all(rescored.text[position] == text[position] for position in set(range(len(text))) - set(positions))
    assert set(rescored.confidence) == set(rescored.posteriors) <= set(positions)
    assert all(0 < probability <= 1 + 1e-9 for probability in rescored.confidence.values())
    assert (
        rescored.text
        == rescore(
            [expert], equal_weights(text), text, np.array(positions), random_potentials(positions, seed), Meter()
        ).text
    )


@given(SEEDS, st.floats(0, 1), st.data())
def test_experts_with_different_tokens_are_combined_on_bytes(seed, weight, data):
    first = MarkovExpert.random([b"a", b"b", b"ab"], 1.5, seeded(seed), "one")
    second = PathDependentExpert([b"a", b"b", b"ba", b"aba"], seed)
    text = data.draw(st.lists(st.sampled_from(b"ab"), min_size=2, max_size=6).map(bytes))
    positions = sorted(data.draw(st.sets(st.integers(0, len(text) - 1), min_size=1, max_size=3)))
    log_potentials = random_potentials(positions, seed)
    weights = np.tile([weight, 1 - weight], (len(text), 1))
    rescored = rescore([first, second], weights, text, np.array(positions), log_potentials, Meter(), EXACT)
    posterior = rescored.posteriors[positions[0]]
    if posterior.span != Span(0, len(text), tuple(positions)):
        return
    scores = {}
    for candidate in posterior.candidates:
        whole = [(posterior.span, posterior.span.insert(text, candidate))]
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
    rescored = rescore([expert], equal_weights(text), text, np.array([2, 5]), log_potentials, Meter())
    rescored.text.decode()


def test_candidates_of_a_range_are_summed_over_the_rest_of_their_span():
    expert = MarkovExpert.random([b"a", b"b"], 1.0, seeded(1))
    text = b"aabab"
    positions = np.array([1, 2, 4])
    rescored = rescore(
        [expert], equal_weights(text), text, positions, random_potentials(positions.tolist(), 1), Meter(), EXACT
    )
    marginals = rescored.candidates_of(1, 3)
    assert sum(marginals.values()) == pytest.approx(1.0)
    assert max(marginals, key=marginals.get) == next(iter(marginals))
    joint = rescored.posteriors[1].candidates
    assert marginals[b"ab"] == pytest.approx(
        sum(probability for candidate, probability in joint.items() if candidate[:2] == b"ab")
    )
    assert rescored.candidates_of(0, 2) == {}


def test_without_open_bytes_the_text_is_unchanged():
    expert = MarkovExpert.random([b"a"], 1.0, seeded(1))
    rescored = rescore([expert], equal_weights(b"aaa"), b"aaa", np.array([], dtype=np.int64), {}, Meter())
    assert (rescored.text, rescored.confidence) == (b"aaa", {})
