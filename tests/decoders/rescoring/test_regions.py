"""Regions and blocks: laws of how a text is cut up."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from conservator.decoders.rescoring.spans import (
    BACK,
    BLOCK,
    CHARACTER,
    JUDGES,
    Region,
    find_blocks,
    find_regions,
)

TEXTS = st.text(alphabet="ab é\n.", min_size=1, max_size=120).map(str.encode)


def drawn(data, text):
    places = data.draw(st.sets(st.integers(0, len(text) - 1), min_size=1, max_size=12))
    return np.array(sorted(places))


@given(TEXTS, st.data())
def test_every_open_place_is_in_one_region_between_borders(text, data):
    places = drawn(data, text)
    inner = data.draw(st.sets(st.integers(0, len(text))))
    borders = np.array(sorted({0, len(text)} | inner))
    regions = find_regions(places, text, borders)
    assert [place for region in regions for place in region.open] == places.tolist()
    for region, following in zip(regions, [*regions[1:], None], strict=True):
        assert region.start in borders
        assert region.end in borders
        assert region.start <= region.open[0]
        assert region.stop <= region.end
        if following is not None:
            assert region.stop <= following.start
        if region.open[0]:
            assert region.start < region.open[0], "the byte before an open one may belong to its token"
        assert region.end >= min(region.stop + JUDGES, len(text))


def test_regions_begin_and_end_at_words():
    text = b"one two three four five six"
    borders = np.array([0, 3, 7, 10, 13, 18, 23, 27])
    (region,) = find_regions(np.array([9]), text, borders)
    assert (region.start, region.end) == (7, 18)
    assert region.fill_of(text[region.start : region.end]) == b"h"
    assert region.filled(text, b"H") == b" tHree four"


@given(TEXTS, st.integers(1, 4000), st.data())
def test_blocks_hold_every_open_place_once_and_cut_no_character(text, longest, data):
    text = text * data.draw(st.integers(1, 60))
    places = drawn(data, text)
    blocks = find_blocks(places, text, longest)
    assert [place + block.begin for block in blocks for place in block.places.tolist()] == places.tolist()
    for block in blocks:
        text[block.begin : block.end].decode()
        assert block.end - block.begin <= max(longest, BACK + 2 * JUDGES + 2 * CHARACTER + 1)


def test_a_text_as_long_as_a_block_is_read_at_once():
    places = np.arange(0, BLOCK, 50)
    (block,) = find_blocks(places, b"x" * BLOCK, None)
    assert (block.begin, block.end) == (0, min(BLOCK, int(places[-1]) + 1 + 2 * JUDGES))


def test_a_fill_is_put_in_its_places():
    region = Region(2, 8, (3, 6))
    assert region.filled(b"0123456789", b"xy") == b"2x45y7"
    assert region.fill_of(b"2x45y7") == b"xy"
