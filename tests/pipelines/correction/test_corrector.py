"""Correction of whole texts: errors are corrected, and correct text is unchanged."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conservator
from conservator.channels import EditChannel, OcrConfidence
from conservator.decoders.edits import Beam
from conservator.document import Document
from conservator.errors import ConservatorError, OptionError
from conservator.experts import Cost
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel
from conservator.pipelines.correction import Corrector, as_restoration
from conservator.pipelines.correction.corrector import split_lines

TEXT = (
    "The prisoner was brought before the magistrate in the morning.\n"
    "The constable said that the prisoner had been found in the burning house.\n"
    "He was remanded, and the house was burnt to the ground by the morning.\n"
)
CHANNEL = EditChannel(
    {("rn", "m"): 0.05, ("h", "b"): 0.02, ("e", "c"): 0.02, ("", "."): 0.002, (" ", ""): 0.01, ("n", "u"): 0.02},
    {},
    0.97,
)
CORRECTOR = Corrector(CHANNEL, CharNgramMixture.of([CharNgramModel.of("court", [TEXT * 20])]))


def test_errors_are_corrected_and_layout_is_kept():
    observed = TEXT.replace("morning", "moming").replace("the house", "tbe housc").replace("was brought", "wasbrought")
    result = CORRECTOR.correct(observed.replace("\n", "\r\n\n"))
    assert result.text == TEXT.replace("\n", "\r\n\n")
    first = result.changes[0]
    assert (first.seen, first.text) == ("", " ")
    assert 0.5 < first.probability <= 1
    assert first.log_odds > 1


def test_blanks_that_are_layout_stay():
    channel = EditChannel({("", " "): 0.05, (" ", ""): 0.05, ("h", "b"): 0.02}, {}, 0.9)
    observed = "  " + TEXT.replace("house was", "house   was").replace("the burning", "theburning").replace(
        "\n", " \n  "
    )
    result = Corrector(channel, CORRECTOR.prior, min_log_odds=0.0).correct(observed.replace("the pris", "tbe pris"))
    assert result.text == observed.replace("theburning", "the burning")


def test_a_change_must_be_probable_enough():
    observed = TEXT.replace("morning", "moming")
    assert CORRECTOR.correct(observed).changes
    assert not Corrector(CHANNEL, CORRECTOR.prior, min_confidence=1.01).correct(observed).changes


def test_a_clean_text_is_unchanged():
    result = CORRECTOR.correct(TEXT)
    assert result.text == TEXT
    assert not result.changes
    assert result.rate < 0.1


def test_a_change_must_have_enough_log_odds():
    wide = Corrector(CHANNEL, CORRECTOR.prior, Beam(width=100, prune_nats=60.0))
    log_odds = [change.log_odds for change in wide.correct(TEXT.replace("morning", "moming")).changes]
    assert len(log_odds) == 2
    assert 1 < min(log_odds) < max(log_odds) < 60
    strict = Corrector(CHANNEL, CORRECTOR.prior, wide.beam, min_log_odds=float(np.mean(log_odds)))
    assert len(strict.correct(TEXT.replace("morning", "moming")).changes) == 1


@settings(max_examples=25, deadline=None)
@given(st.text(alphabet="the prison.\n\rbé—", max_size=60))
def test_a_restoration_shows_the_same_text(text):
    result = CORRECTOR.correct(text)
    whole = as_restoration(result, Document(text.encode()), Cost())
    assert whole.text == whole.record.text == result.text
    assert [edit.text for edit in whole.edits] == [change.text for change in result.changes]
    assert [edit.probability for edit in whole.edits] == [change.probability for change in result.changes]
    assert result.text.count("\n") == text.count("\n")
    for change, edit in zip(result.changes, whole.edits, strict=True):
        assert text[change.start : change.stop] == change.seen
        assert whole.observed[slice(*edit.span)].decode() == change.seen


@given(st.text(alphabet="ab \n\r", max_size=1200))
def test_split_lines_yields_ranges_of_lines(text):
    for start, line in split_lines(text):
        assert text[start : start + len(line)] == line
        assert "\n" not in line
    assert " ".join(line for _, line in split_lines(text)).split() == text.split()


def test_the_public_call():
    result = conservator.restore(
        "The prisoner was in tbe house. It was tbe moming of the trial.",
        channel=CHANNEL,
        references=[("court", TEXT * 5)],
    )
    assert result.text == "The prisoner was in the house. It was the morning of the trial."
    assert "references" in result.experts
    assert conservator.restore("", channel="ocr").text == ""
    with pytest.raises(OptionError, match="one entry per character: the document has 1, got 3"):
        conservator.restore("x", channel="ocr", ocr_confidence=OcrConfidence.uninformative(3))
    with pytest.raises(OptionError, match="ocr_confidence"):
        conservator.restore("x", ocr_confidence=OcrConfidence.uninformative(1))
    with pytest.raises(OptionError, match="fixed: the bytes 1 to 2 split a character"):
        conservator.restore("ä", channel="ocr", fixed=[(1, 2, "y")])
    with pytest.raises(ConservatorError, match="UTF-8"):
        conservator.restore(Document(b"a\xff"), channel="ocr")


def test_ocr_confidences_are_used():
    observed = "The prisoner was in tbe house."
    confidence = OcrConfidence.uninformative(len(observed))
    position = observed.index("tbe") + 1
    assert (
        CORRECTOR.correct(observed).text
        == CORRECTOR.correct(observed, ocr_confidence=confidence).text
        == observed.replace("tbe", "the")
    )
    confidence.correct[position], confidence.wrong[position] = 0.03, -30.0
    assert CORRECTOR.correct(observed, ocr_confidence=confidence).text == observed
    other = "The prisoner was in tqe house."  # the channel has no such edit
    assert CORRECTOR.correct(other).text == other
    uncertain = replace(
        confidence,
        correct=confidence.wrong / 10,
        wrong=confidence.correct,
        alternatives=tuple((("h", 0.5),) for _ in observed),
    )
    assert CORRECTOR.correct(other, ocr_confidence=uncertain).text == other.replace("tqe", "the")


def test_marks_are_filled_beside_corrections():
    observed = TEXT.replace("prisoner", "pris_ner").replace("morning", "moming").replace("burnt", "bu__t")
    marked = Corrector(CHANNEL, CORRECTOR.prior, mark="_")
    assert marked.correct(observed).text == TEXT
    assert all(change.log_odds == np.inf for change in marked.correct(observed).changes if change.seen == "_")
    careful = Corrector(CHANNEL, CORRECTOR.prior, min_confidence=1.01, mark="_")
    assert careful.correct(observed).text == observed
    assert marked.correct("___").text == "___"  # nothing shows that the models cover the text


def test_marks_of_a_document():
    observed = "It was tbe mor\ufffding of the trial, and the prisoner was in the house."
    result = conservator.restore(observed, channel=CHANNEL, references=[("court", TEXT * 5)])
    assert result.text == "It was the morning of the trial, and the prisoner was in the house."
    again = conservator.restore(
        observed.replace("\ufffd", "[?]"), channel=CHANNEL, references=[("court", TEXT * 5)], mark="[?]"
    )
    assert again.text == result.text
