"""The steps from what is seen to what may be clean: at each place, the edits that could have made what follows.

Where the reader said how sure it was, staying and edits have the likelihood of that too, and its other readings are
further steps. A mark, which stands for one lost character, may be any character: the prior alone decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conservator.channels.edits import MAX_EDIT_CHARS, EditChannel
from conservator.channels.ocr_confidence import MIN_PROB, OcrConfidence
from conservator.experts.char_ngram.model import code_points

WIDEST = 24  # clean strings that are tried for what is seen, the commonest first
BEGIN, INSIDE = 1, 2  # of a mark

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class LineArcs(NamedTuple):
    """Steps in a line that was seen, by the place where they begin.

    Attributes:
        begins: (L + 2,) where the steps of each place begin; there is a place after the last character, too.
        widths: (S,) how many characters of what is seen each step takes.
        texts: (S, MAX_EDIT_CHARS) the clean characters that it writes; 0 after them.
        sizes: (S,) how many they are.
        chances: (S,) its log-probability.
        stays: (S,) whether it leaves a character as it is.
        fills: (S,) whether it writes a character for a mark.
    """

    begins: Ints
    widths: Ints
    texts: Ints
    sizes: Ints
    chances: Floats
    stays: NDArray[np.bool_]
    fills: NDArray[np.bool_]


@dataclass(frozen=True)
class ArcTable:
    """The steps of a channel for every string that may be seen.

    Attributes:
        channel: the channel.
        mark: what stands for one lost character; None if nothing does.
        alphabet: the characters that may stand at a mark.
    """

    channel: EditChannel
    mark: str | None = None
    alphabet: str = ""

    @cached_property
    def _known(self) -> dict[str, LineArcs]:
        return {}

    def after(self, seen: str) -> LineArcs:
        """The steps that take exactly ``seen``."""
        found = self._known.get(seen)
        if found is None:
            options = [(clean, chance, False) for clean, chance in self.channel.by_observed.get(seen, [])[:WIDEST]]
            if len(seen) == 1:
                options.append((seen, self.channel.keep_prob(seen), True))
            found = make_steps(
                [clean for clean, _, _ in options],
                len(seen),
                np.log([max(chance, MIN_PROB) for _, chance, _ in options]),
                np.array([stays for _, _, stays in options], dtype=bool),
            )
            self._known[seen] = found
        return found

    @cached_property
    def filling(self) -> LineArcs:
        """The steps that take a mark."""
        made = make_steps(self.alphabet, len(self.mark or ""), np.zeros(len(self.alphabet)))
        return made._replace(fills=~made.fills)

    def of(self, line: str, ocr_confidence: OcrConfidence | None = None) -> LineArcs:
        """The steps in a line.

        Args:
            line: what is seen.
            ocr_confidence: what the reader said of each of its characters.
        """
        marks = find_marks(line, self.mark)
        parts, begins = [], [0]
        for place in range(len(line) + 1):
            here = []
            for width in range(min(MAX_EDIT_CHARS, len(line) - place) + 1):
                if any(marks[place : place + width]) or (width == 0 and marks[place] == INSIDE):
                    break  # of a mark, nothing is an edit
                found = self.after(line[place : place + width])
                here.append(
                    found if ocr_confidence is None else self.with_confidence(found, width, ocr_confidence, place)
                )
            if marks[place] == BEGIN:
                here.append(self.filling)
            parts += here
            begins.append(begins[-1] + sum(len(one.widths) for one in here))
        joined = [np.concatenate([part[field] for part in parts]) for field in range(1, len(LineArcs._fields))]
        return LineArcs(np.array(begins), *joined)

    def with_confidence(self, steps: LineArcs, width: int, ocr_confidence: OcrConfidence, place: int) -> LineArcs:
        """The steps that take some characters from a place on, given what the reader said of them."""
        if not width:
            return steps._replace(chances=steps.chances + ocr_confidence.deletion[place])
        wrong = float(ocr_confidence.wrong[place : place + width].sum())
        rest = float(ocr_confidence.log_unlisted[place : place + width].sum())
        chances = steps.chances + np.where(steps.stays, ocr_confidence.correct[place], wrong + rest)
        found = {text: row for row, text in enumerate(written(steps))}
        added: dict[str, float] = {}
        for text, share in ocr_confidence.alternatives[place] if width == 1 else ():
            chance = float(np.log(max(MIN_PROB, (1 - self.channel.default_keep_prob) * share))) + wrong
            if text in found:
                chances[found[text]] = np.logaddexp(chances[found[text]], chance)
            else:
                added[text] = float(np.logaddexp(added.get(text, -np.inf), chance))
        own, more = steps._replace(chances=chances), make_steps(list(added), width, np.array(list(added.values())))
        return LineArcs(*(np.concatenate(both) for both in zip(own, more, strict=True))) if added else own


def written(steps: LineArcs) -> list[str]:
    """What each step writes."""
    sizes = steps.sizes.tolist()
    return ["".join(map(chr, text[:size])) for text, size in zip(steps.texts.tolist(), sizes, strict=True)]


def find_marks(line: str, mark: str | None) -> list[int]:
    """For each place of a line, and the one after it, whether a mark begins there (BEGIN), or is open (INSIDE)."""
    found = [0] * (len(line) + 1)
    start = line.find(mark) if mark else -1
    while mark and start >= 0:
        found[start : start + len(mark)] = [BEGIN] + [INSIDE] * (len(mark) - 1)
        start = line.find(mark, start + len(mark))
    return found


def make_steps(texts: Sequence[str], width: int, chances: Floats, stays: NDArray[np.bool_] | None = None) -> LineArcs:
    """Steps from one place that take equally many characters."""
    characters = np.zeros((len(texts), MAX_EDIT_CHARS), dtype=np.int64)
    for row, text in enumerate(texts):
        characters[row, : len(text)] = code_points(text)
    none = np.zeros(len(texts), dtype=bool)
    sizes = np.array([len(text) for text in texts], dtype=np.int64)
    begins, widths = np.array([0, len(texts)]), np.full(len(texts), width)
    return LineArcs(begins, widths, characters, sizes, chances, none if stays is None else stays, none)
