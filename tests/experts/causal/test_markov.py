"""The exact causal expert, and the enumeration of its texts, by hand."""

import itertools
import math

import pytest
import torch

from conservator.errors import ConservatorError
from conservator.experts.causal import ROOT, enumeration
from conservator.reference import MarkovExpert, enumerate_texts
from conservator.vocabularies import BYTES

PIECES = [b"a", b"b", b"ab", b"ba", b"aab"]


@pytest.fixture
def expert(generator):
    return MarkovExpert.random(PIECES, 1.0, generator)


def test_the_laws_of_a_chain_are_those_of_the_token_before(expert):
    laws = expert.read().grow([ROOT, 1, ROOT], [2, 0, 2], [ROOT, 1, 2, 3])
    assert torch.allclose(laws.exp().sum(-1), torch.ones(4))
    assert torch.equal(laws, expert.log_probs[[0, 3, 1, 3]])


def test_a_reading_grows_from_nodes_that_it_has(expert):
    with pytest.raises(AssertionError, match="node 1 was never read"):
        expert.read().grow([1], [0], [])


def test_a_text_by_hand(expert):
    """ab is spelt by a then anything with b, by ab, and begins no other token."""
    start, after = expert.log_probs[0].exp(), expert.log_probs[1:].exp()
    exact = float(start[0] * (after[0, 1] + after[0, 3]) + start[2])
    assert enumerate_texts(expert, b"ab") == {b"ab": pytest.approx(math.log(exact), abs=1e-6)}
    assert enumerate_texts(expert, b"") == {b"": 0.0}


def test_texts_of_one_length_have_all_the_probability(expert):
    texts = enumerate_texts(expert, [BYTES.mask] * 4)
    assert set(texts) <= {bytes(text) for text in itertools.product(b"ab", repeat=4)}
    assert sum(map(math.exp, texts.values())) == pytest.approx(1, abs=1e-6)


def test_a_pattern_picks_the_texts_that_agree(expert):
    texts = enumerate_texts(expert, [BYTES.mask] * 4)
    chosen = enumerate_texts(expert, [BYTES.mask, ord("b"), BYTES.mask, ord("a")])
    assert chosen == {text: pytest.approx(texts[text]) for text in texts if text[1:2] == b"b" and text[3:] == b"a"}


def test_tokens_without_text_never_occur():
    expert = MarkovExpert([b"a", b"", b"b"], torch.zeros(3), torch.zeros(3, 3))
    assert enumerate_texts(expert, b"ab") == {b"ab": pytest.approx(-2 * math.log(2))}


def test_too_many_cuts_are_refused(monkeypatch):
    monkeypatch.setattr(enumeration, "LIMIT", 100)
    expert = MarkovExpert([b"a", b"aa"], torch.zeros(2), torch.zeros(2, 2))
    with pytest.raises(ConservatorError, match="more than 100 sequences"):
        enumerate_texts(expert, b"a" * 40)
