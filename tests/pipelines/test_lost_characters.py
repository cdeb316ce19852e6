"""Lost characters: detection, restoration, and their form in every output."""

import json
import re
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conservator import Restorer, restore
from conservator.cli.restore import summary
from conservator.document import Document
from conservator.documents import compare_documents, damage, read_damaged
from conservator.errors import ConservatorError, OptionError
from conservator.experts import Meter
from conservator.experts.lexicon.words import load_languages
from conservator.pipelines.lost_bytes import read_damage
from conservator.pipelines.lost_characters import as_characters, detect_lost_characters
from conservator.pipelines.task import PipelineTask
from conservator.vocabularies import CHARACTERS
from support.european import SENTENCES

MARK = "\ufffd"
TEXT = "It’s a naïve café in München."  # noqa: RUF001
LOST = re.sub(r"[^\x00-\x7f]", MARK, TEXT)
MIN_ACCURACY = 0.9  # share of the characters that are restored correctly
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
    """Return a text that was written in windows-1252, windows-1250 or windows-1254 and read as UTF-8."""
    for encoding in ("cp1252", "cp1250", "cp1254"):
        try:
            return text.encode(encoding).decode(errors="replace")
        except UnicodeEncodeError:
            continue
    return re.sub(r"[^\x00-\x7f]", MARK, text)


def lost_characters(restorer, document):
    """Return whether the marks of a document are detected as characters."""
    data = document.encode() if isinstance(document, str) else document
    task = PipelineTask(Document(data), restorer.options, restorer.models, restorer.references, (), Meter())
    return detect_lost_characters(task, read_damage(task)) is not None


@pytest.mark.parametrize("language", SENTENCES)
def test_lost_characters_are_detected_in_sentences_with_a_wrong_encoding(restorer, language):
    assert lost_characters(restorer, " ".join(map(decoded, SENTENCES[language])))


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.2])
@pytest.mark.parametrize("text", PLAIN, ids=["prose", "code", "config", "markdown"])
def test_lost_bytes_are_detected_as_bytes(restorer, text, rate):
    for seed in range(3):
        assert not lost_characters(restorer, damage(text.encode(), rate, seed=seed))


@pytest.mark.parametrize("language", ["German", "French", "Polish"])
def test_where_text_outside_ascii_is_intact_bytes_are_lost(restorer, language):
    text = " ".join(SENTENCES[language])
    assert not lost_characters(restorer, damage(text.encode(), 0.03, seed=2))


def test_utf8_that_was_read_as_ascii_lost_bytes(restorer):
    text = SENTENCES["German"][1].encode().decode("ascii", errors="replace")
    assert not lost_characters(restorer, text)


def test_most_characters_are_restored_and_wrong_ones_have_lower_confidence(restorer):
    right, confidence = [], []
    for truth in (sentence for sentences in SENTENCES.values() for sentence in sentences):
        result = restorer.restore(re.sub(r"[^\x00-\x7f]", MARK, truth), lost="characters")
        assert len(result.text) == len(truth)
        start = np.cumsum([0, *(len(character.encode()) for character in result.text)])[:-1]
        positions = [position for position, character in enumerate(truth) if not character.isascii()]
        right += [result.text[position] == truth[position] for position in positions]
        confidence += result.confidence[start[positions]].tolist()
    right, confidence = np.array(right), np.array(confidence)
    assert right.mean() > MIN_ACCURACY
    assert confidence[right].mean() > confidence[~right].mean() + 0.2


@pytest.fixture
def few_languages():
    """Text in no language has equal weights of all languages: three take less time than all."""
    languages = dict(list(load_languages().items())[:3])
    with mock.patch("conservator.experts.lexicon.expert.load_languages", return_value=languages):
        yield


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the fixture is constant
@given(
    st.lists(st.sampled_from(["a", "é", "\r\n", "\n", "Ж", "😀", MARK, "ï¿½"])).map("".join),
    st.floats(0, 1),
    st.booleans(),
)
def test_visible_text_is_kept_and_every_mark_is_one_character(few_languages, text, min_confidence, fill_undetermined):
    options = {"min_confidence": min_confidence, "fill_undetermined": fill_undetermined}
    result = RESTORER.restore(text, lost="characters", memory=False, **options)
    pieces = re.split(f"{MARK}|ï¿½", text)
    assert re.fullmatch("([^\x00-\x7f])".join(map(re.escape, pieces)), result.text, re.DOTALL)
    assert result.text.encode() == result.data
    assert (result.confidence[result.changed] > 0).all()
    assert (result.unfilled <= result.changed).all()
    assert not (fill_undetermined and min_confidence == 0 and result.unfilled.any())
    assert result.summary.lost == len(pieces) - 1


RESTORER = Restorer()


@given(st.lists(st.sampled_from(["a", "é", "\r\n", "Ж", MARK])).map("".join))
def test_characters_keep_the_positions_of_their_bytes(text):
    damaged = read_damaged(text)
    result = as_characters(damaged)
    assert int(result.widths.sum()) == len(damaged.tokens)
    assert np.flatnonzero(result.damaged.tokens == CHARACTERS.mask).tolist() == result.damaged.positions.tolist()
    wider = damaged.with_widths(np.full(len(damaged.positions), 2))
    assert len(wider.tokens) == len(damaged.tokens) + len(damaged.positions)
    assert wider.marker_of(wider.lost).tolist() == np.repeat(np.arange(len(damaged.positions)), 2).tolist()


def test_all_forms_of_a_restoration_count_characters():
    result = restore(LOST, lost="encoding:windows-1252", alternatives=3)
    assert result.unit == "character"
    assert result.lost_by == "windows-1252"
    assert result.encoding == "utf-8"
    assert result.summary.lost == result.summary.spans == 4
    record = json.loads(result.to_json())
    assert record["lost"] == "encoding:windows-1252"
    assert "".join(piece["text"] for piece in record["pieces"]) == result.text
    restored = [piece for piece in record["pieces"] if "origin" in piece]
    assert [len(piece["guess"]) for piece in restored] == [1] * 4
    for piece in restored:
        assert len(piece["alternatives"]) == 3
        assert all(alternative["text"].encode("cp1252") for alternative in piece["alternatives"])
        assert LOST.encode()[slice(*piece["origin"])].decode() == MARK
    assert "windows-1252" in result.to_html()


def test_an_encoding_restricts_the_restored_characters():
    text = decoded(" ".join(SENTENCES["Turkish"]))
    for encoding in ("windows-1252", "windows-1254"):
        restore(text, lost=f"encoding:{encoding}", memory=False).text.encode(encoding)


def test_marks_stay_if_the_confidence_is_too_low():
    result = restore(LOST, lost="characters", min_confidence=1.0)
    assert result.text == LOST
    assert result.summary.unfilled == 4
    assert result.summary.restored == 0


def test_another_mark_can_stand_for_characters():
    result = restore("M?nchen ist sch?n", lost="characters", mark="?")
    assert re.fullmatch("M.nchen ist sch.n", result.text)
    assert result.unit == "character"


def test_references_supply_words():
    names = [("names.txt", "Frau Žółćak und Herr Ñandú wohnen hier. " * 2)]
    result = restore(
        "Frau \ufffd\ufffd\ufffd\ufffdak und Herr \ufffdand\ufffd wohnen hier.", lost="characters", references=names
    )
    assert result.text == "Frau Žółćak und Herr Ñandú wohnen hier."


def test_the_comparison_counts_characters():
    truth = TEXT.encode()
    result = compare_documents(truth, "It’s a naive café in M\ufffdnchen.".encode(), LOST.encode())  # noqa: RUF001
    assert (result.unit, result.lost, result.filled, result.right) == ("character", 4, 3, 2)
    assert (result.false_changes, result.character_errors, result.characters) == (0, 2, len(TEXT))
    assert compare_documents(b"abc", b"abc", b"a\xef\xbf\xbdc").unit == "byte"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"lost": "encoding:utf-8"}, "one byte for each character, such as windows-1252"),
        ({"lost": "encoding:"}, "one byte for each character"),
        ({"lost": "marked"}, "must be one of auto, bytes, invalid, characters, encoding:NAME"),
        ({"lost": "characters", "channel": "replacement:0.1"}, "any byte may change"),
        (
            {"lost": "characters", "experts": "prose"},
            "experts: lost characters are restored by the built-in lexicon, remove the experts prose",
        ),
        ({"lost": "characters", "effort": "best"}, "effort: language models are not used with lost='characters'"),
        ({"lost": "encoding:windows-1252", "effort": "best"}, "not used with lost='encoding:windows-1252'"),
    ],
)
def test_invalid_combinations_are_refused(options, problem):
    with pytest.raises(OptionError, match=problem):
        restore(LOST, **options)


def test_gaps_and_invalid_utf8_are_refused_with_lost_characters():
    with pytest.raises(ConservatorError, match="gap"):
        restore(f"a[...]b{MARK}", lost="characters", gap="[...]")
    with pytest.raises(ConservatorError, match="byte 4 is 0xe9"):
        restore(b"\xef\xbf\xbda\xe9b", lost="characters", encoding="utf-8")


def test_byte_experts_are_not_used(restorer):
    assert restorer.restore(LOST).experts == ("european",)
    assert restorer.restore(LOST).text == TEXT
    assert restorer.restore(LOST, lost="bytes").unit == "byte"


def test_a_notice_reports_that_language_models_are_not_used(restorer):
    result = restorer.restore(LOST, effort="best")
    assert result.text == TEXT
    assert [notice.kind for notice in result.notices] == ["language_models_unused"]
    assert "effort 'best' had no effect" in "\n".join(summary(result))
    assert not restorer.restore(LOST).notices


def test_fixed_text_is_kept_and_other_marks_stay_characters(restorer):
    position = LOST.encode().index(MARK.encode(), 10)
    result = restorer.restore(LOST, lost="characters", fixed=[(position, position + 3, "ï")])
    assert result.text == TEXT
    assert result.summary.lost == 3
