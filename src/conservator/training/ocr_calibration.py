"""Fit a calibration to characters of which the truth is known: how many were read right, by confidence."""

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

STEPS = 16  # of a curve, at most
FEW = 50  # characters below which a step is none of its own
RANKS = 4  # of other readings that are told apart
EVEN = CalibrationCurve((), (0.5,))  # of which nothing is known

Line = tuple[
    str, str, Sequence[CharacterConfidence]
]  # what was seen, what is clean, what was said of each character that was seen
Judged = tuple[
    CharacterConfidence, str | None
]  # what was said of a character, and what stood there; "" if that is unknown


def fit_calibration(lines: Iterable[Line]) -> OcrCalibration:
    """The calibration under which confidences are probabilities."""
    lines = list(lines)
    judged = [one for line in lines for one in judge(*line)]
    glyphs = [one for one in judged if one[0].confidence is not None]
    if not glyphs:
        raise ConservatorError("there is no character with a confidence, to fit a calibration to")
    own, words = ([one for one in glyphs if one[0].of_word == of_word] for of_word in (False, True))
    right = _share((sum(truth is None for _, truth in glyphs), len(glyphs)))
    places = [one for line in lines for one in judge_places(*line)]
    beside = fit_curve([confidence for confidence, _ in places], [whole for _, whole in places]) if places else EVEN
    whole = _share((sum(whole for _, whole in places), len(places)))
    return OcrCalibration(right, _right(own or glyphs), _right(words or glyphs), tuple(_others(glyphs)), whole, beside)


def judge(seen: str, clean: str, said: Sequence[CharacterConfidence]) -> Iterator[Judged]:
    """What was said of each character that was seen, and what stood there; None if it was read right."""
    for step in Levenshtein.opcodes(clean, seen):
        for number in range(step.dest_end - step.dest_start):
            same = step.src_end - step.src_start == step.dest_end - step.dest_start
            stood = clean[step.src_start + number] if same else ""
            yield said[step.dest_start + number], None if step.tag == "equal" else stood


def judge_places(seen: str, clean: str, said: Sequence[CharacterConfidence]) -> Iterator[tuple[float, bool]]:
    """The confidence of the less sure of the characters beside each place, and whether nothing is missing there."""
    missing = {step.dest_start for step in Levenshtein.opcodes(clean, seen) if step.tag == "delete"}
    for place, confidence in enumerate(min_neighbour_confidence(said)):
        if confidence is not None:
            yield confidence, place not in missing


def fit_curve(confidences: Sequence[float], holds: Sequence[bool]) -> CalibrationCurve:
    """The curve of the share that holds, which never falls: equally many of the fewer in each step, then pooled."""
    order = np.argsort(confidences, kind="stable")
    values, held = np.asarray(confidences, dtype=np.float64)[order], np.asarray(holds, dtype=np.float64)[order]
    fewer = held if held.mean() < 0.5 else 1 - held
    every = max(1.0, fewer.sum() / STEPS)
    marks = np.floor((np.cumsum(fewer) - fewer) / every)
    blocks: list[list[float]] = []  # how many hold, how many there are, the largest confidence
    for mark in np.unique(marks):
        here = marks == mark
        if blocks and values[here][-1] == blocks[-1][2]:
            blocks[-1] = [blocks[-1][0] + held[here].sum(), blocks[-1][1] + here.sum(), blocks[-1][2]]
        else:
            blocks.append([float(held[here].sum()), float(here.sum()), float(values[here][-1])])
        while len(blocks) > 1 and (_share(blocks[-2]) >= _share(blocks[-1]) or blocks[-2][1] < FEW):
            last = blocks.pop()
            blocks[-1] = [blocks[-1][0] + last[0], blocks[-1][1] + last[1], last[2]]
    return CalibrationCurve(tuple(one[2] for one in blocks[:-1]), tuple(_share(one) for one in blocks))


def _share(block: Sequence[float]) -> float:
    """The share that holds, of as many again as if one more did and one more did not."""
    return (block[0] + 0.5) / (block[1] + 1)


def _right(judged: Sequence[Judged]) -> CalibrationCurve:
    """The curve of characters that were read right."""
    return fit_curve([said.confidence or 0.0 for said, _ in judged], [truth is None for _, truth in judged])


def _others(judged: Sequence[Judged]) -> Iterator[CalibrationCurve]:
    """The curves of other readings that are what stood there, by rank."""
    wrong = [
        (sorted(said.alternatives, key=lambda one: -one[1]), truth)
        for said, truth in judged
        if truth is not None and said.alternatives
    ]
    for rank in range(RANKS):
        there = [(others[rank], truth) for others, truth in wrong if len(others) > rank]
        if len(there) < FEW:
            return
        yield fit_curve([confidence for (_, confidence), _ in there], [text == truth for (text, _), truth in there])
