"""How often an OCR engine is right, by how sure it says that it is.

Confidences of an engine are no probabilities: a character that Tesseract gives 0.9 is wrong as often as right. Curves,
fitted to pages whose truth is known, say what they mean: by the confidence of the character, or of its word where there
is no other, and for other readings by their rank and confidence.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conservator.channels.ocr_confidence import OcrConfidence, Other
from conservator.errors import ConservatorError
from conservator.system.files import read_document

FORMAT = "conservator calibration"
VERSION = 1
MOST = 0.99  # the probability of all other readings of a character together, at most
DEFAULT = Path(__file__).parent / "ocr_trust.json"
GENERAL = "general"  # the calibration of engines that have none of their own


class CharacterConfidence(NamedTuple):
    """What a reader said of a character.

    Attributes:
        confidence: how sure it was, from 0 to 1; None if it did not say.
        of_word: whether that is of the word in which the character stands.
        others: other readings of the character and their confidences.
    """

    confidence: float | None = None
    of_word: bool = False
    others: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Curve:
    """A share that depends on a confidence, in steps.

    Attributes:
        ends: the largest confidence of each step but the last, in order.
        shares: of each step.
    """

    ends: tuple[float, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raise an error for what is no curve."""
        if len(self.shares) != len(self.ends) + 1 or list(self.ends) != sorted(self.ends):
            raise ConservatorError("a curve needs ends in order, and one share more")
        if not all(0 < share < 1 for share in self.shares):
            raise ConservatorError("the shares of a curve lie between 0 and 1")

    def __call__(self, confidence: float) -> float:
        """The share at a confidence."""
        return self.shares[int(np.searchsorted(self.ends, confidence))]


@dataclass(frozen=True)
class Calibration:
    """What the confidences of an engine mean.

    Attributes:
        right: the share of all characters that were read right.
        glyphs: that of characters by their confidence.
        words: that of characters by the confidence of their word.
        others: for each rank of other readings, the surest first, how many of them are what stood there, of characters
            that were read wrong, by their confidence.
        whole: the share of all places between characters where nothing is missing.
        beside: that of places by the confidence of the less sure of the characters beside them.
        weight: of what was said of a character. At 1 it is an observation beside all others; but a reader is unsure of
            rare words, too, and there the prior is sure of what is wrong.
    """

    right: float
    glyphs: Curve
    words: Curve
    others: tuple[Curve, ...]
    whole: float
    beside: Curve
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Raise an error for what is no calibration."""
        if not (0 < self.right < 1 and 0 < self.whole < 1):
            raise ConservatorError("the shares right and whole lie between 0 and 1")

    def ocr_confidence(self, said: Sequence[CharacterConfidence]) -> OcrConfidence:
        """What was said of characters, as likelihoods."""
        right, wrong = np.zeros(len(said)), np.zeros(len(said))
        for place, one in enumerate(said):
            if one.confidence is not None:
                share = (self.words if one.of_word else self.glyphs)(one.confidence)
                right[place] = self.weight * np.log(share / self.right)
                wrong[place] = self.weight * np.log((1 - share) / (1 - self.right))
        lesser = [self.beside(one) if one is not None else self.whole for one in less_sure(said)]
        missing = np.log((1 - np.array(lesser)) / (1 - self.whole))
        return OcrConfidence(right, wrong, missing, tuple(self.readings(one.others) for one in said))

    def readings(self, others: Sequence[tuple[str, float]]) -> tuple[Other, ...]:
        """Other readings of a character, and the probability of each if it was read wrong."""
        ranked = sorted(others, key=lambda one: -one[1])
        shares = [curve(confidence) for curve, (_, confidence) in zip(self.others, ranked, strict=False)]
        much = max(1.0, sum(shares) / MOST)
        return tuple((text, share / much) for (text, _), share in zip(ranked, shares, strict=False))

    def as_record(self) -> dict[str, Any]:
        """The calibration as it stands in a file."""

        def curve(one: Curve) -> list[list[float]]:
            return [[round(value, 7) for value in row] for row in (one.ends, one.shares)]

        return {
            "right": round(self.right, 5),
            "glyphs": curve(self.glyphs),
            "words": curve(self.words),
            "others": [curve(one) for one in self.others],
            "whole": round(self.whole, 5),
            "beside": curve(self.beside),
            "weight": self.weight,
        }


def less_sure(said: Sequence[CharacterConfidence]) -> list[float | None]:
    """The confidence of the less sure of the characters before and after each place; None if that is of words."""
    own = [None if one.of_word else one.confidence for one in said]
    beside = zip([None, *own], [*own, None], strict=True)
    return [min((one for one in both if one is not None), default=None) for both in beside]


def write_calibrations(engines: Mapping[str, Calibration], source: str) -> str:
    """The calibrations of some engines as a file; that of others is GENERAL."""
    record = {"format": FORMAT, "version": VERSION, "source": source}
    record |= {"engines": {name: one.as_record() for name, one in engines.items()}}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def read_calibrations(text: str, name: str = "the calibration") -> dict[str, Calibration]:
    """The calibrations in a file, by engine."""
    try:
        record = json.loads(text)
        if record["format"] != FORMAT or record["version"] != VERSION or GENERAL not in record["engines"]:
            raise ValueError(f'"format": "{FORMAT}" and an engine "{GENERAL}" are needed')
        return {
            engine: Calibration(
                float(one["right"]),
                curve(one["glyphs"]),
                curve(one["words"]),
                tuple(map(curve, one["others"])),
                float(one["whole"]),
                curve(one["beside"]),
                float(one["weight"]),
            )
            for engine, one in record["engines"].items()
        }
    except (KeyError, TypeError, ValueError, RecursionError, ConservatorError) as error:
        raise ConservatorError(f"{name} is no calibration: {error}") from error


def curve(rows: Sequence[Sequence[float]]) -> Curve:
    """A curve as it stands in a file."""
    ends, shares = rows
    return Curve(tuple(map(float, ends)), tuple(map(float, shares)))


@cache
def _built_in() -> dict[str, Calibration]:
    return read_calibrations(read_document(str(DEFAULT)).decode(), str(DEFAULT))


def calibration_of(engine: str | None) -> Calibration:
    """The calibration of an engine by its name, as files give it; the general one if it has none of its own."""
    known = _built_in()
    return next((known[name] for name in known if name in (engine or "").lower()), known[GENERAL])
