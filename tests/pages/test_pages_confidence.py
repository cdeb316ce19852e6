"""What the reader of a page said of each character of its text."""

import numpy as np

from conservator.channels import CharacterConfidence
from conservator.pages import Alternative, Glyph, Line, Page, Transcript, Word, character_confidences, ocr_confidence_of


def transcript(*words):
    return Transcript("hOCR", None, "tesseract 5.3.0", "pixel", (Page((Line(tuple(words)),)),), b"", None)


def test_characters_say_more_than_their_word():
    glyphs = (
        Glyph("t", 0.99, None, (Alternative("f", 0.4), Alternative("t", 0.3), Alternative("|", 0.0))),
        Glyph("ﬁ", None),
        Glyph("xy", 0.8, None, (Alternative("z", 0.5),)),
    )
    found = transcript(Word("tﬁxy", 0.7, None, glyphs), Word("on", 0.6), Word("so", 0.9, original="se"))
    assert found.text == "tﬁxy on so\n"
    said = character_confidences(found)
    assert said[:4] == [
        CharacterConfidence(0.99, others=(("f", 0.4),)),
        CharacterConfidence(),
        CharacterConfidence(0.8),
        CharacterConfidence(0.8),
    ]
    assert said[5:7] == [CharacterConfidence(0.6, of_word=True)] * 2
    assert said[4] == said[7] == said[8] == said[10] == CharacterConfidence()
    ocr_confidence = ocr_confidence_of(found)
    assert len(ocr_confidence) == len(found.text)
    assert ocr_confidence.right[0] > ocr_confidence.right[2]
    assert ocr_confidence.wrong[2] > 0
    assert np.all(ocr_confidence.right[7:] == 0)


def test_a_reader_that_says_nothing_is_not_asked():
    assert ocr_confidence_of(transcript(Word("on"), Word("so", None, None, (Glyph("s"), Glyph("o"))))) is None
