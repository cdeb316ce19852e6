"""What the reader of a page said of each character of its text."""

import numpy as np

from conservator.channels import Said
from conservator.pages import Alternative, Glyph, Line, Page, Transcript, Word, said_of, trust_of


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
    said = said_of(found)
    assert said[:4] == [Said(0.99, others=(("f", 0.4),)), Said(), Said(0.8), Said(0.8)]
    assert said[5:7] == [Said(0.6, of_word=True)] * 2
    assert said[4] == said[7] == said[8] == said[10] == Said()
    trust = trust_of(found)
    assert len(trust) == len(found.text)
    assert trust.right[0] > trust.right[2]
    assert trust.wrong[2] > 0
    assert np.all(trust.right[7:] == 0)


def test_a_reader_that_says_nothing_is_not_asked():
    assert trust_of(transcript(Word("on"), Word("so", None, None, (Glyph("s"), Glyph("o"))))) is None
