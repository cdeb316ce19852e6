"""Fit a calibration of OCR confidences to characters with known truth: the fraction that is correct, by confidence."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

from conservator.channels.ocr_calibration import (
    CalibrationCurve,
    CharacterConfidence,
    OcrCalibration,
    min_neighbour_confidence,
)
from conservator.errors import ConservatorError

MAX_BINS = 16  # bins: of a calibration curve [untuned]
MIN_BIN_SIZE = 50  # characters: minimum size of a bin [untuned]
MAX_RANKS = 4  # ranks: of OCR alternatives with a curve of their own [untuned]
UNINFORMATIVE = CalibrationCurve((), (0.5,))  # without data

# Observed text, clean text, confidence of each observed character.
Line = tuple[str, str, Sequence[CharacterConfidence]]
# Confidence of an observed character, and the clean character: None if they agree, "" if it is unknown.
LabelledCharacter = tuple[CharacterConfidence, str | None]


def fit_calibration(lines: Iterable[Line]) -> OcrCalibration:
    """Fit the calibration that turns confidences into probabilities."""
    lines = list(lines)
    characters = [character for line in lines for character in label_characters(*line)]
    with_confidence = [character for character in characters if character[0].confidence is not None]
    if not with_confidence:
        raise ConservatorError("cannot fit a calibration: no character has an OCR confidence")
    by_glyph, by_word = (
        [character for character in with_confidence if character[0].of_word == of_word] for of_word in (False, True)
    )
    accuracy = _smoothed_fraction((sum(truth is None for _, truth in with_confidence), len(with_confidence)))
    gaps = [gap for line in lines for gap in label_gaps(*line)]
    if gaps:
        gap_curve = fit_curve([confidence for confidence, _ in gaps], [complete for _, complete in gaps])
    else:
        gap_curve = UNINFORMATIVE
    completeness = _smoothed_fraction((sum(complete for _, complete in gaps), len(gaps)))
    return OcrCalibration(
        accuracy,
        _accuracy_curve(by_glyph or with_confidence),
        _accuracy_curve(by_word or with_confidence),
        tuple(_alternative_curves(with_confidence)),
        completeness,
        gap_curve,
    )


def label_characters(
    observed: str, clean: str, confidences: Sequence[CharacterConfidence]
) -> Iterator[LabelledCharacter]:
    """Yield the confidence and the clean character of each observed character; None if they agree."""
    for step in Levenshtein.opcodes(clean, observed):
        for number in range(step.dest_end - step.dest_start):
            same_length = step.src_end - step.src_start == step.dest_end - step.dest_start
            truth = clean[step.src_start + number] if same_length else ""
            yield confidences[step.dest_start + number], None if step.tag == "equal" else truth


def label_gaps(observed: str, clean: str, confidences: Sequence[CharacterConfidence]) -> Iterator[tuple[float, bool]]:
    """Yield the lower confidence of the neighbours of each gap between characters, and whether nothing is missing."""
    missing = {step.dest_start for step in Levenshtein.opcodes(clean, observed) if step.tag == "delete"}
    for position, confidence in enumerate(min_neighbour_confidence(confidences)):
        if confidence is not None:
            yield confidence, position not in missing


def fit_curve(confidences: Sequence[float], holds: Sequence[bool]) -> CalibrationCurve:
    """Fit an isotonic regression on bins with equal counts of the minority class."""
    order = np.argsort(confidences, kind="stable")
    values, labels = np.asarray(confidences, dtype=np.float64)[order], np.asarray(holds, dtype=np.float64)[order]
    minority = labels if labels.mean() < 0.5 else 1 - labels
    per_bin = max(1.0, minority.sum() / MAX_BINS)
    bin_of = np.floor((np.cumsum(minority) - minority) / per_bin)
    bins: list[list[float]] = []  # number of True labels, size, largest confidence
    for number in np.unique(bin_of):
        members = bin_of == number
        if bins and values[members][-1] == bins[-1][2]:
            bins[-1] = [bins[-1][0] + labels[members].sum(), bins[-1][1] + members.sum(), bins[-1][2]]
        else:
            bins.append([float(labels[members].sum()), float(members.sum()), float(values[members][-1])])
        while len(bins) > 1 and (
            _smoothed_fraction(bins[-2]) >= _smoothed_fraction(bins[-1]) or bins[-2][1] < MIN_BIN_SIZE
        ):
            last = bins.pop()
            bins[-1] = [bins[-1][0] + last[0], bins[-1][1] + last[1], last[2]]
    return CalibrationCurve(tuple(block[2] for block in bins[:-1]), tuple(_smoothed_fraction(block) for block in bins))


def _smoothed_fraction(block: Sequence[float]) -> float:
    """Estimate a fraction from (number of True labels, size) with the Jeffreys prior."""
    return (block[0] + 0.5) / (block[1] + 1)


def _accuracy_curve(characters: Sequence[LabelledCharacter]) -> CalibrationCurve:
    """Fit the fraction of correct characters by confidence."""
    return fit_curve(
        [confidence.confidence or 0.0 for confidence, _ in characters], [truth is None for _, truth in characters]
    )


def _alternative_curves(characters: Sequence[LabelledCharacter]) -> Iterator[CalibrationCurve]:
    """Fit the fraction of correct OCR alternatives at wrong characters by confidence, for each rank."""
    wrong = [
        (sorted(confidence.alternatives, key=lambda alternative: -alternative[1]), truth)
        for confidence, truth in characters
        if truth is not None and confidence.alternatives
    ]
    for rank in range(MAX_RANKS):
        ranked = [(alternatives[rank], truth) for alternatives, truth in wrong if len(alternatives) > rank]
        if len(ranked) < MIN_BIN_SIZE:
            return
        yield fit_curve([confidence for (_, confidence), _ in ranked], [text == truth for (text, _), truth in ranked])
