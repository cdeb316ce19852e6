"""Lost characters: detection, restoration, and their form in every output."""

import json
import re
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conservator import Restorer, restore
from conservator.document import Document
from conservator.documents import compare_documents, damage, read_damaged
from conservator.errors import ConservatorError, OptionError
from conservator.experts import Meter
from conservator.experts.lexicon.words import load_languages
from conservator.pipelines.lost_bytes import read_damage
from conservator.pipelines.lost_characters import as_characters, detect_lost_characters
from conservator.pipelines.task import PipelineTask
from conservator.vocabularies import CHARACTERS
from support.causal_experts import MemorizingCausalExpert
from support.european import SENTENCES
from support.fakes import FakeExpert

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
        ({"lost": "marked"}, "must be one of auto, any, bytes, invalid, characters, encoding:NAME"),
    ],
)
def test_invalid_combinations_are_refused(options, problem):
    with pytest.raises(OptionError, match=problem):
        restore(LOST, **options)


def test_invalid_utf8_is_refused_with_lost_characters():
    with pytest.raises(ConservatorError, match="byte 4 is 0xe9"):
        restore(b"\xef\xbf\xbda\xe9b", lost="characters", encoding="utf-8")


def test_gaps_are_filled_after_the_characters(restorer):
    document = f"Die K{MARK}nigin w{MARK}nscht f{MARK}nf sch{MARK}ne [...] und geht zur T{MARK}r."
    result = restorer.restore(document, lost="characters", gap="[...]", min_gap_confidence=0.0, alternatives=2)
    assert result.text.startswith("Die Königin wünscht fünf schöne ")
    assert result.text.endswith(" und geht zur Tür.")
    assert "[...]" not in result.text
    assert result.unit == "character"
    assert result.experts[0] == "european"
    assert [edit.text for edit in result.edits if edit.span[0] < 30] == ["ö", "ü", "ü"]
    assert np.allclose(result.field.sum(axis=1), 1)
    assert all(edit.alternatives[0].data == edit.data for edit in result.edits)
    json.loads(result.to_json())


def test_unfilled_characters_stay_marks_when_gaps_are_filled(restorer):
    document = f"Die K{MARK}nigin w{MARK}nscht x{MARK}q [...] und geht zur T{MARK}r."
    result = restorer.restore(
        document, lost="characters", gap="[...]", min_gap_confidence=0.0, min_confidence=0.9, fill_undetermined=True
    )
    assert MARK in result.text
    assert "Königin wünscht" in result.text
    assert len(result.confidence) == len(result.tokens)


def test_byte_experts_are_not_used(restorer):
    assert restorer.restore(LOST).experts == ("european",)
    assert restorer.restore(LOST).text == TEXT
    assert restorer.restore(LOST, lost="bytes").unit == "byte"


def test_a_language_model_chooses_between_characters():
    truth = "Grüße aus Köln: große Bäume, schöne Äpfel, süße Möhren und Café-Gäste."
    document = re.sub(r"[^\x00-\x7f]", MARK, truth)
    model = MemorizingCausalExpert(truth.encode())
    restorer = Restorer(language_models=[model])
    fast, best = (
        restorer.restore(document, lost="characters", effort=effort, alternatives=3) for effort in ("fast", "best")
    )
    assert fast.text != best.text == truth
    assert best.experts == ("european", "bookworm")
    assert best.unit == "character"
    assert all(edit.alternatives[0].data == edit.data for edit in best.edits)
    assert best.confidence.min() > 0.9


def test_given_experts_score_the_characters_of_the_lexicon():
    truth = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich."
    document = re.sub(r"[^\x00-\x7f]", MARK, truth)
    result = restore(document, [FakeExpert(1)], lost="characters")
    assert result.experts == ("european", "fake1")
    assert len(result.text) == len(truth)
    assert np.allclose(result.field.sum(axis=1), 1)


def test_fixed_text_is_kept_and_other_marks_stay_characters(restorer):
    position = LOST.encode().index(MARK.encode(), 10)
    result = restorer.restore(LOST, lost="characters", fixed=[(position, position + 3, "ï")])
    assert result.text == TEXT
    assert result.summary.lost == 3
