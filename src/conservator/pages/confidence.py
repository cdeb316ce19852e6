"""What the reader of a transcript said of each character of its text."""

from conservator.channels.edits import MAX_EDIT_CHARS
from conservator.channels.ocr_calibration import CharacterConfidence, calibration_of
from conservator.channels.ocr_confidence import OcrConfidence
from conservator.pages.model import Glyph, Word
from conservator.pages.transcript import Transcript

SILENT = CharacterConfidence()


def ocr_confidence_of(transcript: Transcript) -> OcrConfidence | None:
    """What the reader said, by what that means for its engine; None if it said nothing at all."""
    said = character_confidences(transcript)
    return None if all(one == SILENT for one in said) else calibration_of(transcript.engine).ocr_confidence(said)


def character_confidences(transcript: Transcript) -> list[CharacterConfidence]:
    """What the reader said of each character of ``transcript.text``; nothing of blanks and line ends."""
    found = [SILENT] * len(transcript.text)
    for word, (start, stop) in zip(transcript.words, transcript.spans, strict=True):
        found[start:stop] = word_confidence(word)
    return found


def word_confidence(word: Word) -> list[CharacterConfidence]:
    """What the reader said of each character of a word, by its glyphs or of all alike; nothing if it was corrected."""
    if word.original is not None:
        return [SILENT] * len(word.text)
    if "".join(glyph.text for glyph in word.glyphs) == word.text and any(
        glyph.confidence is not None for glyph in word.glyphs
    ):
        return [said for glyph in word.glyphs for said in glyph_confidence(glyph)]
    return [SILENT if word.confidence is None else CharacterConfidence(word.confidence, of_word=True)] * len(word.text)


def glyph_confidence(glyph: Glyph) -> list[CharacterConfidence]:
    """What the reader said of the characters of a glyph; other readings only of a single one."""
    single = len(glyph.text) == 1
    others = tuple(
        (other.text, other.confidence)
        for other in (glyph.alternatives if single else ())
        if other.confidence and 0 < len(other.text) <= MAX_EDIT_CHARS and other.text != glyph.text
    )
    return [CharacterConfidence(glyph.confidence, alternatives=others)] * len(glyph.text)
