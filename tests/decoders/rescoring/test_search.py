"""The search for fills, against the enumeration of every sequence of tokens."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.decoders.rescoring.score_texts import explain
from conservator.decoders.rescoring.search import Limits, Trunk, search
from conservator.decoders.rescoring.spans import Region
from conservator.experts import Meter
from conservator.vocabularies import BYTES
from support.causal_experts import EXPERTS, SEEDS, Remembering, exact_scores, random_energies, spelt

EXACT = Limits(far=math.inf, width=10**9)
TEXTS = st.lists(st.sampled_from(b"abc"), min_size=1, max_size=6).map(bytes)


def draw_open(data, text):
    return tuple(sorted(data.draw(st.sets(st.integers(0, len(text) - 1), min_size=1, max_size=4))))


def found_by(expert, text, region, energies, limits):
    trunk = Trunk(expert, text, Meter())
    return search(trunk, text, [region], energies, limits)[0]


@given(EXPERTS, TEXTS, SEEDS, st.data())
def test_without_limits_every_fill_gets_its_exact_score(expert, text, seed, data):
    region = Region(0, len(text), draw_open(data, text))
    energies = random_energies(region.open, seed)
    found, oracle = found_by(expert, text, region, energies, EXACT), exact_scores(expert, text, region, energies)
    if len(oracle) == 1:  # then nothing is left to be decided
        assert set(found) == set(oracle)
    else:
        assert found == pytest.approx(oracle, abs=1e-4)


@given(EXPERTS, TEXTS, SEEDS, st.integers(1, 3), st.floats(0.5, 6), st.data())
def test_a_limited_search_never_overrates_a_fill_and_finds_some(expert, text, seed, width, far, data):
    region = Region(0, len(text), draw_open(data, text))
    energies = random_energies(region.open, seed)
    found = found_by(expert, text, region, energies, Limits(far, width))
    oracle = exact_scores(expert, text, region, energies)
    assert set(found) <= set(oracle)
    if len(found) > 1:  # a single fill may be scored before its end
        assert all(score <= oracle[fill] + 1e-4 for fill, score in found.items())


@given(EXPERTS, TEXTS, TEXTS, SEEDS, st.data())
def test_a_region_is_judged_given_the_text_before_it(expert, before, text, seed, data):
    start = len(before)
    whole = before + text
    trunk = Trunk(expert, whole, Meter())
    if start not in trunk.borders:
        return
    region = Region(start, len(whole), tuple(start + place for place in draw_open(data, text)))
    energies = random_energies(region.open, seed)
    found = search(trunk, whole, [region], energies, EXACT)[0]
    cut = trunk.tokens[: trunk.node_at(start)]

    class After:
        spec = expert.spec

        def read(self):
            return Shifted(expert.read(), cut)

    pattern = [BYTES.mask if place in region.open else whole[place] for place in range(start, len(whole))]
    oracle = {
        region.fill_of(written): score + sum(energies[place][written[place - start]] for place in region.open)
        for written, score in spelt(After(), pattern).items()
    }
    if len(oracle) > 1:
        assert found == pytest.approx(oracle, abs=1e-4)


class Shifted:
    """A reading in which some tokens stand before every text."""

    def __init__(self, reading, cut):
        self.reading, self.first = reading, len(cut)
        reading.grow(range(len(cut)), cut, [])

    def grow(self, parents, tokens, asked):
        move = lambda nodes: [node + self.first for node in nodes]  # noqa: E731
        return self.reading.grow(move(parents), tokens, move(asked))


@given(EXPERTS, TEXTS, st.lists(TEXTS, min_size=1, max_size=4))
def test_texts_are_explained_along_their_cut(expert, before, texts):
    trunk = Trunk(expert, before, Meter())
    end = len(before)
    scores = explain(trunk, [(Region(end, end + len(text), (end,)), text) for text in texts])
    for text, score in zip(texts, scores, strict=True):
        path = [*trunk.tokens, *expert.spec.tokens.tokenize(text.decode())]
        reading = expert.read()
        laws = reading.grow(range(len(path)), path, range(len(path)))
        expected = sum(float(laws[place][path[place]]) for place in range(len(trunk.tokens), len(path)))
        assert score == pytest.approx(expected, abs=1e-4)


def test_several_regions_are_searched_side_by_side_as_one_by_one():
    expert = Remembering([b"a", b"b", b"ab", b"ba"], 3)
    text = b"abbaabab"
    trunk = Trunk(expert, text, Meter())
    borders = trunk.borders.tolist()
    regions = [Region(borders[0], borders[2], (1,)), Region(borders[2], borders[-1], (borders[2], len(text) - 1))]
    energies = random_energies(range(len(text)), 0)
    both = search(trunk, text, regions, energies, EXACT)
    for region, fills in zip(regions, both, strict=True):
        assert fills == pytest.approx(search(Trunk(expert, text, Meter()), text, [region], energies, EXACT)[0])


def test_what_stands_in_the_text_is_not_read_twice():
    expert = Remembering([b"a", b"b"], 5)
    meter = Meter()
    trunk = Trunk(expert, b"aaaaaa", meter)
    search(
        trunk, b"aaaaaa", [Region(0, 6, (5,))], {5: np.where(np.arange(BYTES.size) == ord("a"), 0.0, -99.0)}, Limits()
    )
    assert meter.evaluations == len(trunk.tokens)
