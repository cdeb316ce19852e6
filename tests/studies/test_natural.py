"""Windows of natural documents, and the training texts of their two kinds."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator import ConservatorError
from conservator.vocabularies import BYTES, Tokens
from conservator_studies.natural import draw_windows, label_tokens, split_by_kind

PAIRS = Tokens([bytes([letter]) for letter in range(BYTES.size)] + [b"ab", b"aB", b"Ba", b"AB", b"abA"])
NAMES = ("small", "capital")
TEXTS = st.text("abAB \n", max_size=60).map(str.encode)


def capital_spans(document):
    return [match.span() for match in re.finditer(rb"[AB]+", document)]


@given(document=TEXTS)
def test_a_token_has_the_label_of_most_of_its_bytes(document):
    labelled = label_tokens(document, capital_spans(document), PAIRS)
    assert PAIRS.decode(labelled.tokens) == document
    for token, kind, straddling in zip(labelled.tokens, labelled.labels, labelled.straddling, strict=True):
        token_bytes = PAIRS.token_bytes[token]
        inside = sum(letter in b"AB" for letter in token_bytes)
        assert straddling == (0 < inside < len(token_bytes))
        assert kind == (inside > 0 and inside >= len(token_bytes) - inside)


@given(document=TEXTS)
def test_a_byte_is_of_one_kind(document):
    labelled = label_tokens(document, capital_spans(document), BYTES)
    assert not labelled.straddling.any()
    assert labelled.labels.tolist() == [letter in b"AB" for letter in document]


DOCUMENTS = [b"aaaaBBBB" * 20, b"a" * 100, b"abAB" * 3 + b"a" * 50 + b"AB" * 20, b"aB" * 4, b"A" * 30 + b"ab" * 30]


def draw(count, **options):
    return draw_windows(DOCUMENTS, [capital_spans(text) for text in DOCUMENTS], PAIRS, count, names=NAMES, **options)


@given(
    seed=st.integers(0, 100),
    length=st.integers(2, 30),
    max_per_document=st.integers(1, 3),
    min_fraction=st.floats(0.1, 0.4),
)
def test_windows_are_parts_of_their_documents_with_enough_of_both(seed, length, max_per_document, min_fraction):
    options = {"length": length, "max_per_document": max_per_document, "min_fraction": min_fraction, "seed": seed}
    drawn = draw(2, **options)
    labelled = [label_tokens(text, capital_spans(text), PAIRS) for text in DOCUMENTS]
    for row in range(2):
        number = int(drawn.documents[row, 0])
        assert (drawn.documents[row] == number).all()
        document = labelled[number]
        assert any(
            np.array_equal(document.tokens[start : start + length], drawn.tokens[row])
            and np.array_equal(document.labels[start : start + length], drawn.labels[row])
            and np.array_equal(document.straddling[start : start + length], drawn.straddling[row])
            for start in range(len(document.tokens) - length + 1)
        )
        assert min_fraction <= drawn.labels[row].double().mean() <= 1 - min_fraction
    assert torch.equal(drawn.tokens, draw(2, **options).tokens)


def test_documents_take_turns_and_no_two_windows_overlap():
    text = bytes(range(65, 65 + 60))  # every byte once
    spans = [(position, position + 1) for position in range(0, 60, 2)]
    for seed in range(10):
        drawn = draw_windows([text] * 3, [spans] * 3, BYTES, 6, names=NAMES, length=10, max_per_document=2, seed=seed)
        assert drawn.documents[:3, 0].sort().values.tolist() == [0, 1, 2]
        assert drawn.documents[:, 0].bincount().tolist() == [2, 2, 2]
        for number in range(3):
            assert len(drawn.tokens[drawn.documents == number].unique()) == 20
        part = drawn.first(3)
        assert part.names == NAMES
        assert len(part.straddling) == len(part.tokens) == 3
        assert drawn.switch_rate() == 1


def test_too_few_windows_are_an_error():
    with pytest.raises(ConservatorError, match=r"expected 40 windows of 16 tokens with at least 25% small .*\d+ in 5"):
        draw(40, length=16)


@given(documents=st.lists(TEXTS, max_size=4))
def test_split_texts_have_every_letter_once_and_in_order(documents):
    outside, inside = split_by_kind(documents, [capital_spans(text) for text in documents])
    for text, small, capital in zip(documents, outside, inside, strict=True):
        assert re.sub(rb"[AB\s]", b"", text) == re.sub(rb"\s", b"", small)
        assert capital == b"".join(part + b"\n" for part in re.findall(rb"[AB]+", text))


def test_each_part_starts_on_a_new_line():
    text = b"Let $x$ be \t$y$\n$z$ so.\n$w$\n\nEnd"
    spans = [match.span() for match in re.finditer(rb"\$.\$", text)]
    assert split_by_kind([text], [spans]) == ([b"Let\n be\n so.\n\n\nEnd\n"], [b"$x$\n$y$\n$z$\n$w$\n"])
