"""The search for candidates, against the enumeration of all token sequences."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.decoders.rescoring.score_texts import score_texts
from conservator.decoders.rescoring.search import PrefixTree, SearchLimits, search
from conservator.decoders.rescoring.spans import Span
from conservator.experts import Meter
from conservator.vocabularies import BYTES
from support.causal_experts import EXPERTS, SEEDS, PathDependentExpert, exact_scores, random_potentials, text_log_probs

EXACT = SearchLimits(prune_nats=math.inf, width=10**9)
TEXTS = st.lists(st.sampled_from(b"abc"), min_size=1, max_size=6).map(bytes)


def draw_open(data, text):
    return tuple(sorted(data.draw(st.sets(st.integers(0, len(text) - 1), min_size=1, max_size=4))))


def search_span(expert, text, span, log_potentials, limits):
    tree = PrefixTree(expert, text, Meter())
    return search(tree, text, [span], log_potentials, limits)[0]


@given(EXPERTS, TEXTS, SEEDS, st.data())
def test_without_limits_every_candidate_gets_its_exact_score(expert, text, seed, data):
    span = Span(0, len(text), draw_open(data, text))
    log_potentials = random_potentials(span.positions, seed)
    candidates, oracle = (
        search_span(expert, text, span, log_potentials, EXACT),
        exact_scores(expert, text, span, log_potentials),
    )
    if len(oracle) == 1:  # the search stops, because there is only one candidate
        assert set(candidates) == set(oracle)
    else:
        assert candidates == pytest.approx(oracle, abs=1e-4)


@given(EXPERTS, TEXTS, SEEDS, st.integers(1, 3), st.floats(0.5, 6), st.data())
def test_a_limited_search_never_overestimates_a_score(expert, text, seed, width, prune_nats, data):
    span = Span(0, len(text), draw_open(data, text))
    log_potentials = random_potentials(span.positions, seed)
    candidates = search_span(expert, text, span, log_potentials, SearchLimits(prune_nats, width))
    oracle = exact_scores(expert, text, span, log_potentials)
    assert set(candidates) <= set(oracle)
    if len(candidates) > 1:  # a single candidate may be scored before the end of the span
        assert all(score <= oracle[candidate] + 1e-4 for candidate, score in candidates.items())


@given(EXPERTS, TEXTS, TEXTS, SEEDS, st.data())
def test_a_span_is_scored_given_the_text_before_it(expert, before, text, seed, data):
    start = len(before)
    full_text = before + text
    tree = PrefixTree(expert, full_text, Meter())
    if start not in tree.boundaries:
        return
    span = Span(start, len(full_text), tuple(start + position for position in draw_open(data, text)))
    log_potentials = random_potentials(span.positions, seed)
    candidates = search(tree, full_text, [span], log_potentials, EXACT)[0]
    prefix = tree.tokens[: tree.node_at(start)]

    class After:
        spec = expert.spec

        def read(self):
            return Shifted(expert.read(), prefix)

    pattern = [
        BYTES.mask if position in span.positions else full_text[position] for position in range(start, len(full_text))
    ]
    oracle = {
        span.open_bytes(span_bytes): score
        + sum(log_potentials[position][span_bytes[position - start]] for position in span.positions)
        for span_bytes, score in text_log_probs(After(), pattern).items()
    }
    if len(oracle) > 1:
        assert candidates == pytest.approx(oracle, abs=1e-4)


class Shifted:
    """A token tree in which a fixed prefix precedes every text."""

    def __init__(self, token_tree, prefix):
        self.tree, self.first = token_tree, len(prefix)
        token_tree.extend(range(len(prefix)), prefix, [])

    def extend(self, parents, tokens, nodes):
        move = lambda nodes: [node + self.first for node in nodes]  # noqa: E731
        return self.tree.extend(move(parents), tokens, move(nodes))


@given(EXPERTS, TEXTS, st.lists(TEXTS, min_size=1, max_size=4))
def test_texts_are_scored_with_their_canonical_tokenization(expert, before, texts):
    tree = PrefixTree(expert, before, Meter())
    end = len(before)
    scores = score_texts(tree, [(Span(end, end + len(text), (end,)), text) for text in texts])
    for text, score in zip(texts, scores, strict=True):
        path = [*tree.tokens, *expert.spec.tokens.tokenize(text.decode())]
        token_tree = expert.read()
        log_probs = token_tree.extend(range(len(path)), path, range(len(path)))
        expected = sum(float(log_probs[position][path[position]]) for position in range(len(tree.tokens), len(path)))
        assert score == pytest.approx(expected, abs=1e-4)


def test_spans_in_a_batch_get_the_same_candidates_as_single_spans():
    expert = PathDependentExpert([b"a", b"b", b"ab", b"ba"], 3)
    text = b"abbaabab"
    tree = PrefixTree(expert, text, Meter())
    boundaries = tree.boundaries.tolist()
    spans = [
        Span(boundaries[0], boundaries[2], (1,)),
        Span(boundaries[2], boundaries[-1], (boundaries[2], len(text) - 1)),
    ]
    log_potentials = random_potentials(range(len(text)), 0)
    batched = search(tree, text, spans, log_potentials, EXACT)
    for span, candidates in zip(spans, batched, strict=True):
        assert candidates == pytest.approx(
            search(PrefixTree(expert, text, Meter()), text, [span], log_potentials, EXACT)[0]
        )


def test_tokens_of_the_text_are_evaluated_once():
    expert = PathDependentExpert([b"a", b"b"], 5)
    meter = Meter()
    tree = PrefixTree(expert, b"aaaaaa", meter)
    search(
        tree,
        b"aaaaaa",
        [Span(0, 6, (5,))],
        {5: np.where(np.arange(BYTES.size) == ord("a"), 0.0, -99.0)},
        SearchLimits(),
    )
    assert meter.evaluations == len(tree.tokens)
