"""Whole texts written again: the posterior of fills, by one and by several causal experts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.decoders.rescoring import Limits, rewrite
from conservator.decoders.rescoring.score_texts import explain
from conservator.decoders.rescoring.search import Trunk
from conservator.decoders.rescoring.spans import Region
from conservator.experts import Meter
from conservator.reference import MarkovExpert
from conservator.vocabularies import BYTES
from support.causal_experts import EXPERTS, SEEDS, PathDependentExpert, exact_scores, random_potentials, seeded

EXACT = Limits(far=math.inf, width=10**9)
TEXTS = st.lists(st.sampled_from(b"abc"), min_size=1, max_size=6).map(bytes)


def ones(text, experts=1):
    return np.full((len(text), experts), 1 / experts)


@given(EXPERTS, TEXTS, SEEDS, st.data())
def test_a_text_of_one_region_gets_the_exact_posterior(expert, text, seed, data):
    places = sorted(data.draw(st.sets(st.integers(0, len(text) - 1), min_size=1, max_size=4)))
    energies = random_potentials(places, seed)
    region = Region(0, len(text), tuple(places))
    oracle = exact_scores(expert, text, region, energies)
    total = np.logaddexp.reduce(list(oracle.values()))
    found = rewrite([expert], ones(text), text, np.array(places), energies, Meter(), EXACT)
    posterior = found.judged[places[0]].fills
    if found.judged[places[0]].region != region:
        return  # the text has two regions
    assert posterior == pytest.approx({fill: math.exp(score - total) for fill, score in oracle.items()}, abs=1e-4)
    best = max(oracle, key=oracle.get)
    assert region.fill_of(found.text) == best or posterior[region.fill_of(found.text)] == pytest.approx(posterior[best])
    for number, place in enumerate(places):
        chosen = found.text[place]
        marginal = sum(share for fill, share in posterior.items() if fill[number] == chosen)
        assert found.confidence[place] == pytest.approx(marginal)


@given(EXPERTS, TEXTS.map(lambda text: text * 8), SEEDS, st.data())
def test_what_is_not_open_stays(expert, text, seed, data):
    places = sorted(data.draw(st.sets(st.integers(0, len(text) - 1), min_size=1, max_size=6)))
    found = rewrite([expert], ones(text), text, np.array(places), random_potentials(places, seed), Meter())
    assert len(found.text) == len(text)
    assert all(found.text[place] == text[place] for place in set(range(len(text))) - set(places))
    assert set(found.confidence) == set(found.judged) <= set(places)
    assert all(0 < share <= 1 + 1e-9 for share in found.confidence.values())
    assert (
        found.text
        == rewrite([expert], ones(text), text, np.array(places), random_potentials(places, seed), Meter()).text
    )


@given(SEEDS, st.floats(0, 1), st.data())
def test_experts_with_different_tokens_meet_at_bytes(seed, weight, data):
    one = MarkovExpert.random([b"a", b"b", b"ab"], 1.5, seeded(seed), "one")
    other = PathDependentExpert([b"a", b"b", b"ba", b"aba"], seed)
    text = data.draw(st.lists(st.sampled_from(b"ab"), min_size=2, max_size=6).map(bytes))
    places = sorted(data.draw(st.sets(st.integers(0, len(text) - 1), min_size=1, max_size=3)))
    energies = random_potentials(places, seed)
    weights = np.tile([weight, 1 - weight], (len(text), 1))
    found = rewrite([one, other], weights, text, np.array(places), energies, Meter(), EXACT)
    judged = found.judged[places[0]]
    if judged.region != Region(0, len(text), tuple(places)):
        return
    scores = {}
    for fill in judged.fills:
        whole = [(judged.region, judged.region.filled(text, fill))]
        rows = [explain(Trunk(expert, text, Meter()), whole)[0] for expert in (one, other)]
        own = sum(energies[place][byte] for place, byte in zip(places, fill, strict=True))
        scores[fill] = weight * rows[0] + (1 - weight) * rows[1] + own
    total = np.logaddexp.reduce(list(scores.values()))
    assert judged.fills == pytest.approx({fill: math.exp(score - total) for fill, score in scores.items()}, abs=1e-4)


def test_a_fill_that_is_no_text_is_never_chosen():
    pieces = [b"a", b"\xc3", b"\xa9", b"\xa8", b" "]
    expert = MarkovExpert.random(pieces, 1.0, seeded(0))
    text = "aé é".encode()
    energies = {2: np.zeros(BYTES.size), 5: np.zeros(BYTES.size)}
    energies[2][ord("a")] = energies[5][0xC3] = 50.0
    found = rewrite([expert], ones(text), text, np.array([2, 5]), energies, Meter())
    found.text.decode()


def test_fills_of_a_stretch_are_summed_over_the_rest_of_their_region():
    expert = MarkovExpert.random([b"a", b"b"], 1.0, seeded(1))
    text = b"aabab"
    places = np.array([1, 2, 4])
    found = rewrite([expert], ones(text), text, places, random_potentials(places.tolist(), 1), Meter(), EXACT)
    both = found.fills_of(1, 3)
    assert sum(both.values()) == pytest.approx(1.0)
    assert max(both, key=both.get) == next(iter(both))
    joint = found.judged[1].fills
    assert both[b"ab"] == pytest.approx(sum(share for fill, share in joint.items() if fill[:2] == b"ab"))
    assert found.fills_of(0, 2) == {}


def test_nothing_open_changes_nothing():
    expert = MarkovExpert.random([b"a"], 1.0, seeded(1))
    found = rewrite([expert], ones(b"aaa"), b"aaa", np.array([], dtype=np.int64), {}, Meter())
    assert (found.text, found.confidence) == (b"aaa", {})
