"""OCR confidences and alternatives of each character of a transcript."""

import numpy as np

from conservator.channels import CharacterConfidence
from conservator.pages import (
    Glyph,
    Line,
    Page,
    TextAlternative,
    Transcript,
    Word,
    character_confidences,
    ocr_confidence_of,
)


def make_transcript(*words):
    return Transcript("hOCR", "tesseract 5.3.0", "pixel", (Page((Line(tuple(words)),)),), b"", None)


def test_confidences_of_glyphs_take_precedence_over_those_of_words():
    glyphs = (
        Glyph("t", 0.99, None, (TextAlternative("f", 0.4), TextAlternative("t", 0.3), TextAlternative("|", 0.0))),
        Glyph("ﬁ", None),
        Glyph("xy", 0.8, None, (TextAlternative("z", 0.5),)),
    )
    transcript = make_transcript(Word("tﬁxy", 0.7, None, glyphs), Word("on", 0.6), Word("so", 0.9, original="se"))
    assert transcript.text == "tﬁxy on so\n"
    confidences = character_confidences(transcript)
    assert confidences[:4] == [
        CharacterConfidence(0.99, alternatives=(("f", 0.4),)),
        CharacterConfidence(),
        CharacterConfidence(0.8),
        CharacterConfidence(0.8),
    ]
    assert confidences[5:7] == [CharacterConfidence(0.6, of_word=True)] * 2
    assert confidences[4] == confidences[7] == confidences[8] == confidences[10] == CharacterConfidence()
    ocr_confidence = ocr_confidence_of(transcript)
    assert len(ocr_confidence) == len(transcript.text)
    assert ocr_confidence.correct[0] > ocr_confidence.correct[2]
    assert ocr_confidence.wrong[2] > 0
    assert np.all(ocr_confidence.correct[7:] == 0)


def test_a_file_without_confidences_has_none():
    assert ocr_confidence_of(make_transcript(Word("on"), Word("so", None, None, (Glyph("s"), Glyph("o"))))) is None
