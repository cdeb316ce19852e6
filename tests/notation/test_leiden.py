"""Leiden conventions: which text is lost, and how the rest is read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.notation import Lacuna, damage_in_leiden, lacuna_of, read_leiden

EXACT = [(f"[{text}]", count) for text, count in [("...", 3), ("\u2026", 3), (". . .", 3), (".5", 5), (".", 1)]]
ESTIMATES = [(f"[{text}]", count) for text, count in [("-c.5-", 5), ("c. 5", 5), ("- c. 5 -", 5), ("\u00b15", 5)]]
ESTIMATES += [("[ca. 3]", 3), ("[circa 12]", 12), ("[ -ca. 5- ]", 5), ("[c. 5-7]", 6)]
UNKNOWN = [f"[{text}]" for text in ("---", "- - -", "\u2014 \u2014 \u2014", "\u2014", "-c.?-", "- - - - -", " - - - ")]


def lacunae_of(text):
    """The text of each lacuna in the source, and the lacuna."""
    reading = read_leiden(text.encode())
    return [(reading.source[part.start : part.stop].decode(), part.lacuna) for _, part in reading.lacunae]


@pytest.mark.parametrize(("text", "count"), EXACT)
def test_dots_are_lost_characters(text, count):
    assert [lacuna for _, lacuna in lacunae_of(f"vixit {text} annis")] == [Lacuna(count, is_exact=True)]


@pytest.mark.parametrize(("text", "count"), ESTIMATES)
def test_estimates(text, count):
    assert [lacuna for _, lacuna in lacunae_of(f"vixit{text}annis")] == [Lacuna(count)]


@pytest.mark.parametrize("text", UNKNOWN)
def test_dashes_are_of_unknown_length(text):
    assert [lacuna for _, lacuna in lacunae_of(f"vixit {text} annis")] == [Lacuna()]


def test_dots_beside_supplied_text():
    assert lacunae_of("an[nis ..] [vix..] [..]et [---fecit]") == [
        ("..", Lacuna(2, is_exact=True)),
        ("..", Lacuna(2, is_exact=True)),
        ("..", Lacuna(2, is_exact=True)),
        ("---", Lacuna()),
    ]


@pytest.mark.parametrize("text", ["[abc]", "...", "---", "a... b", "[a-b]", "[[abc]]", "(c. 5)", "vacat", "[1]", "["])
def test_other_text_is_not_lost(text):
    assert lacunae_of(f"vixit {text} annis") == []


def test_brackets_and_dots_below_letters_are_not_read():
    text = "D(is) M[anibu]s <et> {e}t a\u0323b\u1e05 \u27e8v\u27e9ixit an|nis"
    assert read_leiden(text.encode()).data.decode() == "Dis Manibus et et abb vixit annis"


def test_private_characters_are_refused():
    with pytest.raises(ConservatorError, match=r"U\+F0003"):
        read_leiden("\U000f0003".encode())
    with pytest.raises(ConservatorError, match="byte 1"):
        read_leiden(b"a\xff")


pieces = st.lists(st.sampled_from([*"ab\u03b1\u1ea1 []().<>\n", "[...]", "[c. 5]", "[---]", "\u0323"]), max_size=20)


def test_runs_of_marks_are_lacunae():
    reading = read_leiden("[a]\ufffd\ufffdb \ufffd[...]".encode()).with_marks("\ufffd")
    assert [part.lacuna.characters for _, part in reading.lacunae] == [2, 1, 3]
    assert b"".join(reading.source[part.start : part.stop] for part in reading.parts) == reading.source


@given(pieces)
def test_parts_cover_the_document_and_ranges_are_inverse(texts):
    source = "".join(texts).encode()
    reading = read_leiden(source)
    assert b"".join(reading.source[part.start : part.stop] for part in reading.parts) == source
    for (start, stop), part in reading.lacunae:
        assert lacuna_of(reading.data[start:stop].decode()) == part.lacuna
        assert reading.source_range(start, stop) == (part.start, part.stop)
        assert reading.reading_range(part.start, part.stop) == (start, stop)
    for start in range(len(reading.data)):
        span = reading.source_range(start, start + 1)
        if span is not None and span[1] - span[0] == 1:
            assert source[slice(*span)] == reading.data[start : start + 1]


def test_a_visible_character_maps_to_itself_across_brackets():
    reading = read_leiden(b"an[nis] b")
    assert reading.data == b"annis b"
    assert reading.source_range(0, 2) == (0, 2)
    assert reading.source_range(2, 5) == (3, 6)
    assert reading.source_range(1, 3) is None


@pytest.mark.parametrize("length", [1, 4, 10, 24])
def test_lengths_are_a_distribution(length):
    for lacuna in (Lacuna(length, is_exact=True), Lacuna(length), Lacuna()):
        assert lacuna_of(lacuna.marker) == lacuna
        log_probs = lacuna.log_lengths(24)
        assert np.isclose(np.exp(list(log_probs.values())).sum(), 1)
        if lacuna.characters:
            assert max(log_probs, key=log_probs.get) == length
    assert Lacuna(25, is_exact=True).log_lengths(24) == {}


def test_damage_in_leiden_is_readable_and_has_the_rate():
    text = "the harbour was quiet in the morning " * 200
    damaged = damage_in_leiden(text, 0.2, np.random.default_rng(0))
    lacunae = [lacuna for _, lacuna in lacunae_of(damaged)]
    assert {(lacuna.characters is None, lacuna.is_exact) for lacuna in lacunae} == {
        (True, False),
        (False, True),
        (False, False),
    }
    assert (
        0.15
        < 1 - len("".join(part for part in read_leiden(damaged.encode()).data.decode() if part < "\uf000")) / len(text)
        < 0.25
    )
