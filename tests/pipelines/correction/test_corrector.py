"""Correcting whole texts: what is wrong is put right, and what is right is left alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conservator
from conservator.channels import EditChannel, OcrConfidence
from conservator.decoders.edits import Beam
from conservator.errors import ConservatorError, OptionError
from conservator.experts import Cost
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel
from conservator.pipelines.correction import Corrector, as_restoration
from conservator.pipelines.correction.corrector import cut

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


def test_errors_are_put_right_and_layout_is_kept():
    seen = TEXT.replace("morning", "moming").replace("the house", "tbe housc").replace("was brought", "wasbrought")
    found = CORRECTOR.correct(seen.replace("\n", "\r\n\n"))
    assert found.text == TEXT.replace("\n", "\r\n\n")
    first = found.changes[0]
    assert (first.seen, first.text) == ("", " ")
    assert 0.5 < first.probability <= 1
    assert first.log_odds > 1


def test_blanks_that_are_layout_stay():
    channel = EditChannel({("", " "): 0.05, (" ", ""): 0.05, ("h", "b"): 0.02}, {}, 0.9)
    seen = "  " + TEXT.replace("house was", "house   was").replace("the burning", "theburning").replace("\n", " \n  ")
    found = Corrector(channel, CORRECTOR.prior, min_log_odds=0.0).correct(seen.replace("the pris", "tbe pris"))
    assert found.text == seen.replace("theburning", "the burning")


def test_a_change_must_be_probable_enough():
    seen = TEXT.replace("morning", "moming")
    assert CORRECTOR.correct(seen).changes
    assert not Corrector(CHANNEL, CORRECTOR.prior, min_confidence=1.01).correct(seen).changes


def test_a_clean_text_is_left_alone():
    found = CORRECTOR.correct(TEXT)
    assert found.text == TEXT
    assert not found.changes
    assert found.rate < 0.1


def test_a_change_must_gain_enough():
    wide = Corrector(CHANNEL, CORRECTOR.prior, Beam(width=100, margin=60.0))
    gains = [change.log_odds for change in wide.correct(TEXT.replace("morning", "moming")).changes]
    assert len(gains) == 2
    assert 1 < min(gains) < max(gains) < 60
    strict = Corrector(CHANNEL, CORRECTOR.prior, wide.beam, min_log_odds=float(np.mean(gains)))
    assert len(strict.correct(TEXT.replace("morning", "moming")).changes) == 1


@settings(max_examples=25, deadline=None)
@given(st.text(alphabet="the prison.\n\rbé—", max_size=60))
def test_a_restoration_shows_the_same_text(text):
    found = CORRECTOR.correct(text)
    whole = as_restoration(found, Cost())
    assert whole.text == found.text
    assert whole.changes == found.changes
    assert found.text.count("\n") == text.count("\n")
    assert "".join(piece["text"] for piece in conservator.results.record.as_record(whole)["pieces"]) == found.text
    kept = np.ones(len(text), dtype=bool)
    for one in found.changes:
        kept[one.start : one.stop] = False
        assert text[one.start : one.stop] == one.seen


@given(st.text(alphabet="ab \n\r", max_size=1200))
def test_pieces_are_stretches_of_lines(text):
    for start, piece in cut(text):
        assert text[start : start + len(piece)] == piece
        assert "\n" not in piece
    assert " ".join(piece for _, piece in cut(text)).split() == text.split()


def test_the_public_call():
    found = conservator.restore(
        "The prisoner was in tbe house. It was tbe moming of the trial.",
        channel=CHANNEL,
        references=[("court", TEXT * 5)],
    )
    assert found.text == "The prisoner was in the house. It was the morning of the trial."
    assert "references" in found.experts
    assert conservator.restore("", channel="ocr").text == ""
    for name, value in {"gap": "[...]", "lost": "bytes", "alternatives": 2}.items():
        with pytest.raises(OptionError, match=name):
            conservator.restore("x", channel="ocr", **{name: value})
    with pytest.raises(OptionError, match="experts"):
        conservator.restore("x", "prose", channel="ocr")
    with pytest.raises(OptionError, match="known"):
        conservator.restore("x", channel="ocr", fixed=[(0, 1, "y")])
    with pytest.raises(OptionError, match="3 characters"):
        conservator.restore("x", channel="ocr", ocr_confidence=OcrConfidence.uninformative(3))
    with pytest.raises(OptionError, match="ocr_confidence"):
        conservator.restore("x", ocr_confidence=OcrConfidence.uninformative(1))
    with pytest.raises(ConservatorError, match="UTF-8"):
        conservator.restore(conservator.documents.Source(b"a\xff"), channel="ocr")


def test_what_the_reader_said_counts():
    seen = "The prisoner was in tbe house."
    sure = OcrConfidence.uninformative(len(seen))
    place = seen.index("tbe") + 1
    assert (
        CORRECTOR.correct(seen).text == CORRECTOR.correct(seen, ocr_confidence=sure).text == seen.replace("tbe", "the")
    )
    sure.correct[place], sure.wrong[place] = 0.03, -30.0
    assert CORRECTOR.correct(seen, ocr_confidence=sure).text == seen
    other = "The prisoner was in tqe house."  # the channel has no such edit
    assert CORRECTOR.correct(other).text == other
    uncertain = replace(
        sure, correct=sure.wrong / 10, wrong=sure.correct, alternatives=tuple((("h", 0.5),) for _ in seen)
    )
    assert CORRECTOR.correct(other, ocr_confidence=uncertain).text == other.replace("tqe", "the")


def test_marks_are_filled_beside_what_is_doubtful():
    seen = TEXT.replace("prisoner", "pris_ner").replace("morning", "moming").replace("burnt", "bu__t")
    marked = Corrector(CHANNEL, CORRECTOR.prior, mark="_")
    assert marked.correct(seen).text == TEXT
    assert all(change.log_odds == np.inf for change in marked.correct(seen).changes if change.seen == "_")
    careful = Corrector(CHANNEL, CORRECTOR.prior, min_confidence=1.01, mark="_")
    assert careful.correct(seen).text == seen
    assert marked.correct("___").text == "___"  # nothing shows that the models cover the text


def test_marks_of_a_document():
    seen = "It was tbe mor\ufffding of the trial, and the prisoner was in the house."
    found = conservator.restore(seen, channel=CHANNEL, references=[("court", TEXT * 5)])
    assert found.text == "It was the morning of the trial, and the prisoner was in the house."
    again = conservator.restore(
        seen.replace("\ufffd", "[?]"), channel=CHANNEL, references=[("court", TEXT * 5)], mark="[?]"
    )
    assert again.text == found.text
