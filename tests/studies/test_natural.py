"""Windows of natural documents, and the texts of their two kinds."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator import ConservatorError
from conservator.vocabularies import BYTES, Tokens
from conservator_studies.natural import draw_windows, label, streams

PAIRS = Tokens([bytes([letter]) for letter in range(BYTES.size)] + [b"ab", b"aB", b"Ba", b"AB", b"abA"])
NAMES = ("small", "capital")
TEXTS = st.text("abAB \n", max_size=60).map(str.encode)


def capitals(document):
    return [found.span() for found in re.finditer(rb"[AB]+", document)]


@given(document=TEXTS)
def test_a_token_has_the_label_of_most_of_its_bytes(document):
    found = label(document, capitals(document), PAIRS)
    assert PAIRS.decode(found.tokens) == document
    for token, kind, both in zip(found.tokens, found.labels, found.straddling, strict=True):
        piece = PAIRS.token_bytes[token]
        inside = sum(letter in b"AB" for letter in piece)
        assert both == (0 < inside < len(piece))
        assert kind == (inside > 0 and inside >= len(piece) - inside)


@given(document=TEXTS)
def test_a_byte_is_of_one_kind(document):
    found = label(document, capitals(document), BYTES)
    assert not found.straddling.any()
    assert found.labels.tolist() == [letter in b"AB" for letter in document]


DOCUMENTS = [b"aaaaBBBB" * 20, b"a" * 100, b"abAB" * 3 + b"a" * 50 + b"AB" * 20, b"aB" * 4, b"A" * 30 + b"ab" * 30]


def draw(count, **options):
    return draw_windows(DOCUMENTS, [capitals(text) for text in DOCUMENTS], PAIRS, count, names=NAMES, **options)


@given(seed=st.integers(0, 100), length=st.integers(2, 30), most=st.integers(1, 3), share=st.floats(0.1, 0.4))
def test_windows_are_parts_of_their_documents_with_enough_of_both(seed, length, most, share):
    drawn = draw(2, length=length, most=most, share=share, seed=seed)
    labelled = [label(text, capitals(text), PAIRS) for text in DOCUMENTS]
    for row in range(2):
        number = int(drawn.documents[row, 0])
        assert (drawn.documents[row] == number).all()
        one = labelled[number]
        assert any(
            np.array_equal(one.tokens[start : start + length], drawn.tokens[row])
            and np.array_equal(one.labels[start : start + length], drawn.labels[row])
            and np.array_equal(one.straddling[start : start + length], drawn.straddling[row])
            for start in range(len(one.tokens) - length + 1)
        )
        assert share <= drawn.labels[row].double().mean() <= 1 - share
    assert torch.equal(drawn.tokens, draw(2, length=length, most=most, share=share, seed=seed).tokens)


def test_documents_take_turns_and_no_two_windows_overlap():
    text = bytes(range(65, 65 + 60))  # every byte once
    spans = [(place, place + 1) for place in range(0, 60, 2)]
    for seed in range(10):
        drawn = draw_windows([text] * 3, [spans] * 3, BYTES, 6, names=NAMES, length=10, most=2, seed=seed)
        assert drawn.documents[:3, 0].sort().values.tolist() == [0, 1, 2]
        assert drawn.documents[:, 0].bincount().tolist() == [2, 2, 2]
        for number in range(3):
            assert len(drawn.tokens[drawn.documents == number].unique()) == 20
        part = drawn.first(3)
        assert part.names == NAMES
        assert len(part.straddling) == len(part.tokens) == 3
        assert drawn.switch_rate() == 1


def test_too_few_windows_are_said():
    with pytest.raises(ConservatorError, match=r"5 documents have \d+ of 40 windows of 16 tokens with 25% of small"):
        draw(40, length=16)


@given(documents=st.lists(TEXTS, max_size=4))
def test_streams_have_every_letter_once_and_in_order(documents):
    outside, inside = streams(documents, [capitals(text) for text in documents])
    for text, small, capital in zip(documents, outside, inside, strict=True):
        assert re.sub(rb"[AB\s]", b"", text) == re.sub(rb"\s", b"", small)
        assert capital == b"".join(piece + b"\n" for piece in re.findall(rb"[AB]+", text))


def test_pieces_stand_on_lines_of_their_own():
    text = b"Let $x$ be \t$y$\n$z$ so.\n$w$\n\nEnd"
    spans = [found.span() for found in re.finditer(rb"\$.\$", text)]
    assert streams([text], [spans]) == ([b"Let\n be\n so.\n\n\nEnd\n"], [b"$x$\n$y$\n$z$\n$w$\n"])
