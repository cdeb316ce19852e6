"""OCR confidences and OCR alternatives of each character of a transcript."""

from conservator.channels.edits import MAX_EDIT_CHARS
from conservator.channels.ocr_calibration import CharacterConfidence, calibration_of
from conservator.channels.ocr_confidence import OcrConfidence
from conservator.pages.model import Glyph, Word
from conservator.pages.transcript import Transcript

NO_CONFIDENCE = CharacterConfidence()


def ocr_confidence_of(transcript: Transcript) -> OcrConfidence | None:
    """Return the calibrated OCR confidences of a transcript; None if the file has no confidences."""
    confidences = character_confidences(transcript)
    if all(confidence == NO_CONFIDENCE for confidence in confidences):
        return None
    return calibration_of(transcript.engine).ocr_confidence(confidences)


def character_confidences(transcript: Transcript) -> list[CharacterConfidence]:
    """Return the OCR confidence of each character of ``transcript.text``; spaces and newlines have none."""
    confidences = [NO_CONFIDENCE] * len(transcript.text)
    for word, (start, stop) in zip(transcript.words, transcript.spans, strict=True):
        confidences[start:stop] = word_confidence(word)
    return confidences


def word_confidence(word: Word) -> list[CharacterConfidence]:
    """Return the OCR confidence of each character of a word.

    The glyphs are used if the file lists them, else the confidence of the word. A corrected word has no confidences.
    """
    if word.original is not None:
        return [NO_CONFIDENCE] * len(word.text)
    if "".join(glyph.text for glyph in word.glyphs) == word.text and any(
        glyph.confidence is not None for glyph in word.glyphs
    ):
        return [confidence for glyph in word.glyphs for confidence in glyph_confidence(glyph)]
    if word.confidence is None:
        return [NO_CONFIDENCE] * len(word.text)
    return [CharacterConfidence(word.confidence, of_word=True)] * len(word.text)


def glyph_confidence(glyph: Glyph) -> list[CharacterConfidence]:
    """Return the OCR confidence of each character of a glyph, with alternatives if the glyph is one character."""
    alternatives = tuple(
        (alternative.text, alternative.confidence)
        for alternative in (glyph.alternatives if len(glyph.text) == 1 else ())
        if alternative.confidence and 0 < len(alternative.text) <= MAX_EDIT_CHARS and alternative.text != glyph.text
    )
    return [CharacterConfidence(glyph.confidence, alternatives=alternatives)] * len(glyph.text)
