"""Frequencies choose the characters with lost bytes."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.experts.word_ngram.expert import NO_COUNTS
from conservator.pipelines.visible_text.commonness import commonness
from conservator.pipelines.visible_text.mojibake_layers import Placeholders
from conservator.pipelines.visible_text.mojibake_lost import CharacterModel, LostCharacters, count_ngrams

GERMAN = "Die Häuser in der Straße sind alt, und die Bücher stehen in den Regalen der Bibliothek. "


def choose(text, members):
    """The chosen text, where ``*`` stands for one of ``members``."""
    placeholders = Placeholders()
    placeholder = placeholders.add(dict.fromkeys(members, 1 / len(members)))
    lost = LostCharacters(text.replace("*", placeholder), placeholders.sets, NO_COUNTS)
    spans = list(lost.spans(0, len(text)))
    chosen = text
    for (start, stop), candidates in reversed(list(zip(spans, lost.choose(spans), strict=True))):
        assert sum(map(exp, candidates.values())) <= 1 + 1e-6
        chosen = chosen[:start] + max(candidates, key=candidates.get) + chosen[stop:]
    return chosen


@pytest.mark.parametrize(
    ("text", "members", "expected"),
    [
        (f"{GERMAN}Der K*nig kam.", "öäü", "König"),
        ("The “quoted* word was the last of the text that he had read.", "”\u2010\u2001", "“quoted” word"),
        ("Она сказала, что *то было правдой, потому что так было всегда.", "сэя", "что это было"),
    ],
)
def test_the_word_decides(text, members, expected):
    chosen = choose(text, members)
    assert expected in chosen
    assert "*" not in chosen


def test_a_long_run_without_spaces_is_split():
    text = "今*天*气*很*好*我*们*去*公*园*"
    chosen = choose(text, "的一是不")
    assert len(chosen) == len(text)
    assert "*" not in chosen


@given(st.lists(st.tuples(st.text("abcä", max_size=12), st.floats(0.1, 5.0)), max_size=5), st.text("abcä", max_size=4))
def test_the_model_is_a_distribution(texts, context):
    model = CharacterModel(count_ngrams(texts))
    assert sum(model.probability(context, character) for character in "abcä") <= 1 + 1e-9


def test_common_characters():
    assert commonness("é") > commonness("Ŗ") > 0
    assert commonness("は") > commonness("㍯")
    assert commonness("軍") > commonness("軁")
