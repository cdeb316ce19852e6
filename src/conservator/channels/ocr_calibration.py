"""Calibration of OCR engines: accuracy as a function of confidence.

Confidences of an engine are not probabilities: a character with confidence 0.9 in Tesseract is wrong as often as
correct. Calibration curves, fitted to pages with known text, convert them: by the confidence of the character, or of
its word if the engine reports no other, and for OCR alternatives by their rank and confidence.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conservator.channels.ocr_confidence import OcrAlternative, OcrConfidence
from conservator.errors import ConservatorError
from conservator.system.files import read_document

FORMAT = "conservator calibration"
VERSION = 1  # version: of the file format [definition]
MAX_ALTERNATIVES_PROB = 0.99  # probability: upper bound of all alternatives of a character together [untuned]
DEFAULT = Path(__file__).parent / "ocr_calibration.json"
GENERAL = "general"  # the calibration of engines without one


class CharacterConfidence(NamedTuple):
    """The report of an OCR engine about a character.

    Attributes:
        confidence: from 0 to 1; None if the engine reports none.
        of_word: whether it is the confidence of the word that contains the character.
        alternatives: OCR alternatives of the character and their confidences.
    """

    confidence: float | None = None
    of_word: bool = False
    alternatives: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class CalibrationCurve:
    """A probability as a piecewise constant function of a confidence.

    Attributes:
        ends: the largest confidence of each bin but the last, in ascending order.
        probabilities: the probability of each bin.
    """

    ends: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check the bins and the probabilities."""
        if len(self.probabilities) != len(self.ends) + 1 or list(self.ends) != sorted(self.ends):
            raise ConservatorError("a calibration curve needs ends in ascending order, and one more probability")
        if not all(0 < probability < 1 for probability in self.probabilities):
            raise ConservatorError("the probabilities of a calibration curve must be strictly between 0 and 1")

    def __call__(self, confidence: float) -> float:
        """Return the probability at a confidence."""
        return self.probabilities[int(np.searchsorted(self.ends, confidence))]


@dataclass(frozen=True)
class OcrCalibration:
    """The calibration of an OCR engine.

    Attributes:
        accuracy: the fraction of all characters that are correct.
        glyphs: the accuracy of a character by its confidence.
        words: the accuracy of a character by the confidence of its word.
        alternatives: for each rank of alternatives, by descending confidence, the probability that the alternative is
            the clean character, given that the observed character is wrong, by the confidence of the alternative.
        no_deletion_rate: the fraction of all boundaries between characters where no text is missing.
        no_deletion: this fraction by the lower of the confidences on both sides.
        weight: exponent of the confidence likelihood. Below 1, because OCR confidence and the prior err on the same
            rare words.
    """

    accuracy: float
    glyphs: CalibrationCurve
    words: CalibrationCurve
    alternatives: tuple[CalibrationCurve, ...]
    no_deletion_rate: float
    no_deletion: CalibrationCurve
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Check the rates."""
        if not (0 < self.accuracy < 1 and 0 < self.no_deletion_rate < 1):
            raise ConservatorError(
                "accuracy and no_deletion_rate must be strictly between 0 and 1, got "
                f"{self.accuracy} and {self.no_deletion_rate}"
            )

    def ocr_confidence(self, confidences: Sequence[CharacterConfidence]) -> OcrConfidence:
        """Convert the confidences of characters to likelihoods."""
        correct, wrong = np.zeros(len(confidences)), np.zeros(len(confidences))
        for index, character in enumerate(confidences):
            if character.confidence is not None:
                probability = (self.words if character.of_word else self.glyphs)(character.confidence)
                correct[index] = self.weight * np.log(probability / self.accuracy)
                wrong[index] = self.weight * np.log((1 - probability) / (1 - self.accuracy))
        no_deletion = [
            self.no_deletion(confidence) if confidence is not None else self.no_deletion_rate
            for confidence in min_neighbour_confidence(confidences)
        ]
        deletion = np.log((1 - np.array(no_deletion)) / (1 - self.no_deletion_rate))
        alternatives = tuple(self.alternative_probs(character.alternatives) for character in confidences)
        return OcrConfidence(correct, wrong, deletion, alternatives)

    def alternative_probs(self, alternatives: Sequence[tuple[str, float]]) -> tuple[OcrAlternative, ...]:
        """Return the alternatives of a character, and the probability of each if the character is wrong."""
        ranked = sorted(alternatives, key=lambda alternative: -alternative[1])
        probabilities = [curve(confidence) for curve, (_, confidence) in zip(self.alternatives, ranked, strict=False)]
        scale = max(1.0, sum(probabilities) / MAX_ALTERNATIVES_PROB)
        return tuple((text, probability / scale) for (text, _), probability in zip(ranked, probabilities, strict=False))

    def as_record(self) -> dict[str, Any]:
        """Return the calibration in the form of its file."""

        def rows(curve: CalibrationCurve) -> list[list[float]]:
            return [[round(value, 7) for value in row] for row in (curve.ends, curve.probabilities)]

        return {
            "right": round(self.accuracy, 5),
            "glyphs": rows(self.glyphs),
            "words": rows(self.words),
            "others": [rows(curve) for curve in self.alternatives],
            "whole": round(self.no_deletion_rate, 5),
            "beside": rows(self.no_deletion),
            "weight": self.weight,
        }


def min_neighbour_confidence(confidences: Sequence[CharacterConfidence]) -> list[float | None]:
    """Return (n + 1) the lower confidence on both sides of each boundary; confidences of words do not count."""
    glyphs = [None if character.of_word else character.confidence for character in confidences]
    neighbours = zip([None, *glyphs], [*glyphs, None], strict=True)
    return [min((confidence for confidence in pair if confidence is not None), default=None) for pair in neighbours]


def write_calibrations(engines: Mapping[str, OcrCalibration], source: str) -> str:
    """Return the calibrations of engines as a file; GENERAL is for all other engines."""
    record = {"format": FORMAT, "version": VERSION, "source": source}
    record |= {"engines": {name: calibration.as_record() for name, calibration in engines.items()}}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def read_calibrations(text: str, name: str = "the calibration") -> dict[str, OcrCalibration]:
    """Return the calibrations in a file, by engine."""
    try:
        record = json.loads(text)
        if record["format"] != FORMAT or record["version"] != VERSION or GENERAL not in record["engines"]:
            raise ValueError(f'"format": "{FORMAT}" and an engine "{GENERAL}" are required')
        return {
            engine: OcrCalibration(
                float(fields["right"]),
                read_curve(fields["glyphs"]),
                read_curve(fields["words"]),
                tuple(map(read_curve, fields["others"])),
                float(fields["whole"]),
                read_curve(fields["beside"]),
                float(fields["weight"]),
            )
            for engine, fields in record["engines"].items()
        }
    except (KeyError, TypeError, ValueError, RecursionError, ConservatorError) as error:
        raise ConservatorError(f"{name} is not a calibration: {error}") from error


def read_curve(rows: Sequence[Sequence[float]]) -> CalibrationCurve:
    """Return the curve with the rows of a file."""
    ends, probabilities = rows
    return CalibrationCurve(tuple(map(float, ends)), tuple(map(float, probabilities)))


@cache
def _built_in() -> dict[str, OcrCalibration]:
    return read_calibrations(read_document(str(DEFAULT)).decode(), str(DEFAULT))


def calibration_of(engine: str | None) -> OcrCalibration:
    """Return the calibration of an engine by its name in OCR files; GENERAL if it has none."""
    calibrations = _built_in()
    return next((calibrations[name] for name in calibrations if name in (engine or "").lower()), calibrations[GENERAL])
