"""Arcs from the observed to the clean text of a line: at each position, the edits that explain the next characters.

With OCR confidences, kept characters and edits also have the likelihood of the confidence, and OCR alternatives are
further arcs. A mark, which stands for one lost character, may be any character: its arcs have the same likelihood, so
the prior decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conservator.arrays import Floats, Ints
from conservator.channels.edits import MAX_EDIT_CHARS, EditChannel
from conservator.channels.ocr_confidence import MIN_PROB, OcrConfidence
from conservator.experts.char_ngram.model import code_points

MAX_CLEAN_STRINGS = 24  # strings: clean strings per observed string, most frequent edits first [LOG: ocr-correction]
MARK_START, MARK_INSIDE = 1, 2  # labels: characters of a mark, see ``find_marks`` [definition]


class LineArcs(NamedTuple):
    """The arcs of an observed line, ordered by the position where they start.

    Attributes:
        offsets: (L + 2,) index of the first arc of each position, and the number of arcs; there is a position after the
            last character.
        widths: (S,) the number of observed characters of each arc.
        texts: (S, MAX_EDIT_CHARS) the clean characters of each arc; 0 after them.
        lengths: (S,) the number of clean characters.
        log_probs: (S,) the log-probability of each arc.
        keep: (S,) whether an arc keeps a character.
        fills_mark: (S,) whether an arc replaces a mark by a character.
    """

    offsets: Ints
    widths: Ints
    texts: Ints
    lengths: Ints
    log_probs: Floats
    keep: NDArray[np.bool_]
    fills_mark: NDArray[np.bool_]


@dataclass(frozen=True)
class ArcTable:
    """The arcs of a channel for every observed string.

    Attributes:
        channel: the channel.
        mark: the text that stands for one lost character; None without marks.
        alphabet: the characters that may replace a mark.
    """

    channel: EditChannel
    mark: str | None = None
    alphabet: str = ""

    @cached_property
    def _cache(self) -> dict[str, LineArcs]:
        return {}

    def arcs_for(self, observed: str) -> LineArcs:
        """Return the arcs that explain exactly the string ``observed``."""
        arcs = self._cache.get(observed)
        if arcs is None:
            edits = self.channel.by_observed.get(observed, [])[:MAX_CLEAN_STRINGS]
            options = [(clean, probability, False) for clean, probability in edits]
            if len(observed) == 1:
                options.append((observed, self.channel.keep_prob(observed), True))
            arcs = make_arcs(
                [clean for clean, _, _ in options],
                len(observed),
                np.log([max(probability, MIN_PROB) for _, probability, _ in options]),
                np.array([keep for _, _, keep in options], dtype=bool),
            )
            self._cache[observed] = arcs
        return arcs

    @cached_property
    def mark_arcs(self) -> LineArcs:
        """The arcs that replace a mark."""
        arcs = make_arcs(self.alphabet, len(self.mark or ""), np.zeros(len(self.alphabet)))
        return arcs._replace(fills_mark=~arcs.fills_mark)

    def of(self, line: str, ocr_confidence: OcrConfidence | None = None) -> LineArcs:
        """Return the arcs of a line.

        Args:
            line: the observed line.
            ocr_confidence: the OCR confidence of each of its characters.
        """
        marks = find_marks(line, self.mark)
        parts, offsets = [], [0]
        for position in range(len(line) + 1):
            starting = []
            for width in range(min(MAX_EDIT_CHARS, len(line) - position) + 1):
                if any(marks[position : position + width]) or (width == 0 and marks[position] == MARK_INSIDE):
                    break  # edits may not overlap a mark
                arcs = self.arcs_for(line[position : position + width])
                starting.append(
                    arcs if ocr_confidence is None else self.with_confidence(arcs, width, ocr_confidence, position)
                )
            if marks[position] == MARK_START:
                starting.append(self.mark_arcs)
            parts += starting
            offsets.append(offsets[-1] + sum(len(arcs.widths) for arcs in starting))
        joined = [np.concatenate([part[field] for part in parts]) for field in range(1, len(LineArcs._fields))]
        return LineArcs(np.array(offsets), *joined)

    def with_confidence(self, arcs: LineArcs, width: int, ocr_confidence: OcrConfidence, position: int) -> LineArcs:
        """Condition the arcs of ``width`` characters at a position on their OCR confidences and OCR alternatives."""
        if not width:
            return arcs._replace(log_probs=arcs.log_probs + ocr_confidence.deletion[position])
        wrong = float(ocr_confidence.wrong[position : position + width].sum())
        rest = float(ocr_confidence.log_unlisted[position : position + width].sum())
        log_probs = arcs.log_probs + np.where(arcs.keep, ocr_confidence.correct[position], wrong + rest)
        row_of = {text: row for row, text in enumerate(arc_texts(arcs))}
        added: dict[str, float] = {}
        for text, probability in ocr_confidence.alternatives[position] if width == 1 else ():
            log_prob = float(np.log(max(MIN_PROB, (1 - self.channel.default_keep_prob) * probability))) + wrong
            if text in row_of:
                log_probs[row_of[text]] = np.logaddexp(log_probs[row_of[text]], log_prob)
            else:
                added[text] = float(np.logaddexp(added.get(text, -np.inf), log_prob))
        updated = arcs._replace(log_probs=log_probs)
        more = make_arcs(list(added), width, np.array(list(added.values())))
        return LineArcs(*(np.concatenate(pair) for pair in zip(updated, more, strict=True))) if added else updated


def arc_texts(arcs: LineArcs) -> list[str]:
    """Return the clean text of each arc."""
    lengths = arcs.lengths.tolist()
    return ["".join(map(chr, text[:length])) for text, length in zip(arcs.texts.tolist(), lengths, strict=True)]


def find_marks(line: str, mark: str | None) -> list[int]:
    """Label each position of a line, and the one after it: MARK_START, MARK_INSIDE, or 0 outside of marks."""
    labels = [0] * (len(line) + 1)
    start = line.find(mark) if mark else -1
    while mark and start >= 0:
        labels[start : start + len(mark)] = [MARK_START] + [MARK_INSIDE] * (len(mark) - 1)
        start = line.find(mark, start + len(mark))
    return labels


def make_arcs(texts: Sequence[str], width: int, log_probs: Floats, keep: NDArray[np.bool_] | None = None) -> LineArcs:
    """Make arcs with one start position and the same width."""
    characters = np.zeros((len(texts), MAX_EDIT_CHARS), dtype=np.int64)
    for row, text in enumerate(texts):
        characters[row, : len(text)] = code_points(text)
    none = np.zeros(len(texts), dtype=bool)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    offsets, widths = np.array([0, len(texts)]), np.full(len(texts), width)
    return LineArcs(offsets, widths, characters, lengths, log_probs, none if keep is None else keep, none)
