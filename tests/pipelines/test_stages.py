"""Stages: each keeps the edits of the stages before it."""

import pytest

from conservator import Restorer
from conservator.cli.description import summary
from conservator.document import Document
from conservator.experts import OutOfTimeError
from conservator.pipelines import stages
from conservator.results.notices import TIME_LIMIT

MARK = "\ufffd"
OCR = "The prisoner was taken to the station hy the constable, and the [...] was sent home."
GAP = {"gap": "[...]", "min_gap_confidence": 0.0}


@pytest.fixture(scope="module")
def restorer():
    return Restorer()


def test_ocr_errors_and_gaps_are_restored_in_one_document(restorer):
    corrected = restorer.restore(OCR, channel="ocr")
    filled = restorer.restore(OCR, channel="ocr", **GAP)
    assert "by the constable" in filled.text
    assert "[...]" not in filled.text
    assert [edit for edit in filled.edits if edit.span in {edit.span for edit in corrected.edits}]
    assert filled.rate is not None
    assert filled.experts[-1] == "memory"
    start, stop = filled.gaps[0].at
    assert filled.tokens[start:stop].astype("uint8").tobytes() == filled.edits[-1].data
    assert (filled.field[start:stop].sum(axis=1) > 0.99).all()


def test_an_unfilled_gap_is_no_correction(restorer):
    result = restorer.restore(OCR, channel="ocr", gap="[...]", min_gap_confidence=1.0)
    assert "[...]" in result.text
    assert (result.summary.unfilled, result.summary.restored) == (1, len(result.corrections))
    assert result.record.correction.changed == sum(len(edit.text) for edit in result.corrections)
    assert any("left unfilled; candidates" in line for line in summary(result))
    assert "[...]" in "".join(piece.text for piece in result.record.pieces)


def test_a_gap_marker_is_no_text_for_a_correction(restorer):
    result = restorer.restore(OCR.replace("[...]", "tbe hy"), channel="ocr", gap="tbe hy")
    assert "by the constable" in result.text
    assert all(edit.span[0] < OCR.index("[") or edit.data != b"the by" for edit in result.edits)


def test_invalid_bytes_of_ocr_text_are_lost_bytes(restorer):
    document = OCR.replace("[...]", "man").encode().replace(b"taken", b"t\xffken")
    result = restorer.restore(Document(document), channel="ocr", lost="invalid")
    assert result.text.startswith("The prisoner was taken to the station by ")


def test_a_lost_byte_of_a_character_in_ocr_text(restorer):
    document = OCR.replace("[...]", "man").encode().replace(b"sent", b"s\xc3\xef\xbf\xbdnt")
    result = restorer.restore(Document(document), channel="ocr", lost="bytes", fill_undetermined=True)
    assert "by the constable" in result.text
    assert "".join(piece.text for piece in result.record.pieces) == result.text


def test_alternatives_of_corrections_are_in_the_record(restorer):
    result = restorer.restore(OCR, channel="ocr", alternatives=2)
    listed = [piece.alternatives for piece in result.record.pieces if piece.alternatives]
    assert len(listed) == len(result.corrections)
    assert all(alternatives[0].text == edit.text for alternatives, edit in zip(listed, result.edits, strict=True))


def test_marks_that_a_correction_leaves_are_left_by_the_other_stages(restorer):
    document = OCR.replace("prisoner", f"pri{MARK}oner")
    result = restorer.restore(document, channel="ocr", min_confidence=1.0, **GAP)
    assert f"pri{MARK}oner" in result.text
    assert not [edit for edit in result.edits if edit.is_fixed]


def test_the_time_limit_keeps_the_stages_that_were_reached(restorer, monkeypatch):
    def restore_masked(task):
        raise OutOfTimeError("inferring")

    monkeypatch.setattr(stages, "restore_masked", restore_masked)
    result = restorer.restore(OCR, channel="ocr", **GAP)
    assert "by the constable, and the [...]" in result.text
    assert result.out_of_time == "inferring"
    assert [notice.kind for notice in result.notices] == [TIME_LIMIT]
