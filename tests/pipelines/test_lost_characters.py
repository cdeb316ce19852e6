"""Marks that are characters: they are told from bytes, restored, and shown in every form."""

import json
import re
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conservator import Restorer, restore
from conservator.cli.restore import summary
from conservator.documents import compare_documents, damage, read_damaged
from conservator.errors import ConservatorError, OptionError
from conservator.experts.lexicon.words import load_languages
from conservator.pipelines.lost_characters import as_characters
from conservator.vocabularies import CHARACTERS
from support.european import SENTENCES

MARK = "\ufffd"
TEXT = "It’s a naïve café in München."  # noqa: RUF001
LOST = re.sub(r"[^\x00-\x7f]", MARK, TEXT)
SHARE = 0.9  # of the characters that come back, at least
PLAIN = (
    "The old bridge was built in the nineteenth century by engineers from the city, who used local stone.",
    "def total(values):\n    result = 0\n    for value in values:\n        result += value\n    return result\n",
    "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  ports:\n  - port: 80\n    targetPort: 8080\n",
    "## Installation\n\nRun `pip install package` and read the documentation of the options below.\n",
)


@pytest.fixture(scope="module")
def restorer():
    return Restorer()


def decoded(text):
    """A text that was written in windows-1252 (or, if it has other letters, windows-1250), and read as UTF-8."""
    for encoding in ("cp1252", "cp1250", "cp1254"):
        try:
            return text.encode(encoding).decode(errors="replace")
        except UnicodeEncodeError:
            continue
    return re.sub(r"[^\x00-\x7f]", MARK, text)


def lost_characters(restorer, document):
    """Whether the marks of a document are told to be characters."""
    damaged = read_damaged(document)
    return restorer.characters(damaged, restorer.options, uncertain=False) is not None


@pytest.mark.parametrize("language", SENTENCES)
def test_sentences_in_a_wrong_encoding_are_told_to_have_lost_characters(restorer, language):
    assert lost_characters(restorer, " ".join(map(decoded, SENTENCES[language])))


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.2])
@pytest.mark.parametrize("text", PLAIN, ids=["prose", "code", "config", "markdown"])
def test_lost_bytes_are_told_to_be_bytes(restorer, text, rate):
    for seed in range(3):
        assert not lost_characters(restorer, damage(text.encode(), rate, seed=seed))


@pytest.mark.parametrize("language", ["German", "French", "Polish"])
def test_where_text_outside_ascii_is_intact_bytes_are_lost(restorer, language):
    text = " ".join(SENTENCES[language])
    assert not lost_characters(restorer, damage(text.encode(), 0.03, seed=2))


def test_utf8_that_was_read_as_ascii_lost_bytes(restorer):
    text = SENTENCES["German"][1].encode().decode("ascii", errors="replace")
    assert not lost_characters(restorer, text)


def test_most_characters_of_the_sentences_come_back_and_wrong_ones_are_less_sure(restorer):
    right, sure = [], []
    for truth in (sentence for sentences in SENTENCES.values() for sentence in sentences):
        found = restorer.restore(re.sub(r"[^\x00-\x7f]", MARK, truth), lost="characters")
        assert len(found.text) == len(truth)
        start = np.cumsum([0, *(len(one.encode()) for one in found.text)])[:-1]
        places = [place for place, one in enumerate(truth) if not one.isascii()]
        right += [found.text[place] == truth[place] for place in places]
        sure += found.confidence[start[places]].tolist()
    right, sure = np.array(right), np.array(sure)
    assert right.mean() > SHARE
    assert sure[right].mean() > sure[~right].mean() + 0.2


@pytest.fixture
def few_languages():
    """Text that is in no language is in each of them a little: three take less time than all."""
    some = dict(list(load_languages().items())[:3])
    with mock.patch("conservator.experts.lexicon.expert.load_languages", return_value=some):
        yield


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # nothing of it changes between examples
@given(st.lists(st.sampled_from(["a", "é", "\r\n", "\n", "Ж", "😀", MARK, "ï¿½"])).map("".join), st.floats(0, 1))
def test_visible_text_is_kept_and_every_mark_is_one_character(few_languages, text, least):
    found = RESTORER.restore(text, lost="characters", min_confidence=least, memory=False)
    pieces = re.split(f"{MARK}|ï¿½", text)
    assert re.fullmatch("([^\x00-\x7f])".join(map(re.escape, pieces)), found.text, re.DOTALL)
    assert found.text.encode() == found.data
    assert (found.confidence[found.damaged.lost] > 0).all()
    assert len(found.open_positions) == 0 if least == 0 else set(found.open_positions) <= set(found.damaged.lost)
    assert found.summary.lost == len(pieces) - 1


RESTORER = Restorer()


@given(st.lists(st.sampled_from(["a", "é", "\r\n", "Ж", MARK])).map("".join))
def test_characters_stand_where_their_bytes_stood(text):
    damaged = read_damaged(text)
    found = as_characters(damaged)
    assert int(found.widths.sum()) == len(damaged.tokens)
    assert np.flatnonzero(found.damaged.tokens == CHARACTERS.mask).tolist() == found.damaged.positions.tolist()
    wider = damaged.with_widths(np.full(len(damaged.positions), 2))
    assert len(wider.tokens) == len(damaged.tokens) + len(damaged.positions)
    assert wider.marker_of(wider.lost).tolist() == np.repeat(np.arange(len(damaged.positions)), 2).tolist()


def test_all_forms_of_a_restoration_speak_of_characters():
    found = restore(LOST, lost="encoding:windows-1252", alternatives=3)
    assert found.unit == "character"
    assert found.lost_by == "windows-1252"
    assert found.encoding == "utf-8"
    assert found.summary.lost == found.summary.places == 4
    record = json.loads(found.to_json())
    assert record["lost"] == "encoding:windows-1252"
    assert "".join(piece["text"] for piece in record["pieces"]) == found.text
    restored = [piece for piece in record["pieces"] if "origin" in piece]
    assert [len(piece["guess"]) for piece in restored] == [1] * 4
    for piece in restored:
        assert len(piece["fills"]) == 3
        assert all(fill["text"].encode("cp1252") for fill in piece["fills"])
        assert LOST.encode()[slice(*piece["origin"])].decode() == MARK
    assert "windows-1252" in found.to_html()


def test_an_encoding_bounds_what_is_restored():
    text = decoded(" ".join(SENTENCES["Turkish"]))
    for encoding in ("windows-1252", "windows-1254"):
        restore(text, lost=f"encoding:{encoding}", memory=False).text.encode(encoding)


def test_marks_stay_where_nothing_is_sure_enough():
    found = restore(LOST, lost="characters", min_confidence=1.0)
    assert found.text == LOST
    assert found.summary.left_open == 4
    assert found.summary.restored == 0


def test_another_mark_can_stand_for_characters():
    found = restore("M?nchen ist sch?n", lost="characters", mark="?")
    assert re.fullmatch("M.nchen ist sch.n", found.text)
    assert found.unit == "character"


def test_texts_like_the_document_are_remembered():
    names = [("names.txt", "Frau Žółćak und Herr Ñandú wohnen hier. " * 2)]
    found = restore(
        "Frau \ufffd\ufffd\ufffd\ufffdak und Herr \ufffdand\ufffd wohnen hier.", lost="characters", references=names
    )
    assert found.text == "Frau Žółćak und Herr Ñandú wohnen hier."


def test_the_comparison_counts_characters():
    truth = TEXT.encode()
    found = compare_documents(truth, "It’s a naive café in M\ufffdnchen.".encode(), LOST.encode())  # noqa: RUF001
    assert (found.unit, found.lost, found.filled, found.right) == ("character", 4, 3, 2)
    assert (found.false_changes, found.character_errors, found.characters) == (0, 2, len(TEXT))
    assert compare_documents(b"abc", b"abc", b"a\xef\xbf\xbdc").unit == "byte"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"lost": "encoding:utf-8"}, "one byte for each character, such as windows-1252"),
        ({"lost": "encoding:"}, "one byte for each character"),
        ({"lost": "marked"}, "known: auto, bytes, invalid, characters, encoding:NAME"),
        ({"lost": "characters", "channel": "replacement:0.1"}, "any byte may change"),
        ({"lost": "characters", "experts": "prose"}, "prose read bytes"),
        ({"lost": "characters", "effort": "best"}, "effort: language models are not used with lost='characters'"),
        ({"lost": "encoding:windows-1252", "effort": "best"}, "not used with lost='encoding:windows-1252'"),
    ],
)
def test_what_cannot_be_is_refused(options, problem):
    with pytest.raises(OptionError, match=problem):
        restore(LOST, **options)


def test_gaps_and_bytes_that_are_no_text_are_no_characters():
    with pytest.raises(ConservatorError, match="gap"):
        restore(f"a[...]b{MARK}", lost="characters", gap="[...]")
    with pytest.raises(ConservatorError, match="byte 4 is 0xe9"):
        restore(b"\xef\xbf\xbda\xe9b", lost="characters", encoding="utf-8")


def test_the_experts_of_bytes_are_not_asked(restorer):
    assert restorer.restore(LOST).experts == ("european",)
    assert restorer.restore(LOST).text == TEXT
    assert restorer.restore(LOST, lost="bytes").unit == "byte"


def test_a_notice_says_that_language_models_are_not_used(restorer):
    found = restorer.restore(LOST, effort="best")
    assert found.text == TEXT
    assert [notice.kind for notice in found.notices] == ["language_models_unused"]
    assert "effort 'best' had no effect" in "\n".join(summary(found))
    assert not restorer.restore(LOST).notices


def test_a_choice_is_known_and_the_rest_stays_characters(restorer):
    place = LOST.encode().index(MARK.encode(), 10)
    found = restorer.restore(LOST, lost="characters", fixed=[(place, place + 3, "ï")])
    assert found.text == TEXT
    assert found.summary.lost == 3
