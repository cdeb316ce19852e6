"""Inference of a text from several readings, by expectation maximisation.

Each iteration computes the posteriors of the candidates of all slots, and from them the expected counts of the errors
of each reading, and the best text, on which the prior of the next iteration is counted. The parts in which all readings
agree are evidence for the error rates as well.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from conservator.alignment import ErrorEvent, ReadingErrors, align_readings, find_events
from conservator.arrays import Floats
from conservator.documents import LOST_SYMBOLS, SymbolText
from conservator.experts import Meter
from conservator.experts.char_ngram import CharNgramModel
from conservator.experts.word_ngram import identify_languages
from conservator.pipelines.readings.prior import CONTEXT_CHARS, TextPrior, make_priors
from conservator.pipelines.readings.slots import ReadingSlot, SlotCandidate, make_slots, search, split_columns

ErrorCounts = dict[ErrorEvent, float]  # event -> its expected number


@dataclass(frozen=True)
class MergeConfig:
    """Parameters of the inference."""

    iterations: int = 5  # count: iterations of expectation maximisation [untuned]
    prior_iterations: int = 2  # count: iterations that count the prior; the text changes little after them [untuned]
    folds: int = 5  # count: parts of the text that the prior of each slot excludes, or not [untuned]
    block_chars: int = 80  # characters: shortest chunk of the text in one fold [untuned]
    document_weight: float = 0.5  # probability: weight of the model of the text in the prior [untuned]
    inverse_temperature: float = 0.5  # inverse temperature: of the posteriors [LOG: several-readings]
    min_posterior: float = 1e-3  # probability: candidates below it are not counted [untuned]


CONFIG = MergeConfig()


@dataclass(frozen=True)
class MergedSlot:
    """A slot, its candidates, and their posterior probabilities (c,)."""

    slot: ReadingSlot
    candidates: Sequence[SlotCandidate]
    posterior: Floats

    @property
    def best(self) -> str:
        """The most probable text."""
        return self.candidates[int(np.argmax(self.posterior))].text


class MergedText:
    """The slots of a text with several readings, and the current text of each."""

    def __init__(self, base: SymbolText, others: Sequence[str], references: Sequence[CharNgramModel] = ()) -> None:
        """Align the readings.

        Args:
            base: The first reading.
            others: The symbols of the additional readings.
            references: Character n-gram models of references.
        """
        segments = list(split_columns(align_readings(base.symbols, others)))
        self.base, self.count = base, 1 + len(others)
        self.slots = make_slots(base, segments)
        self.agreed = self.count_agreed()
        self.current = [slot.observed for slot in self.slots]
        self.texts, self.references = [base.symbols, *others], references
        self.blocks = list(self.find_blocks())

    def count_agreed(self) -> ErrorCounts:
        """Count the characters outside of all segments."""
        counts = Counter(self.base.symbols)
        for slot in self.slots:
            for segment in slot.segments:
                counts.subtract(segment.texts[0])
        return {(symbol, symbol): count for symbol, count in counts.items() if not LOST_SYMBOLS.match(symbol)}

    def find_blocks(self) -> Iterator[int]:
        """Yield the ends of the chunks of the base: blanks outside of slots."""
        start = 0
        edges = [0, *(edge for slot in self.slots for edge in (slot.start, slot.stop)), len(self.base.symbols)]
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            while True:
                blank = self.base.symbols.find(" ", max(begin, start + CONFIG.block_chars), end)
                if blank < 0:
                    break
                start = blank + 1
                yield start

    def folds(self, versions: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the text of each fold, given the texts of the slots in several versions of the text."""
        folds: list[list[str]] = [[] for _ in range(CONFIG.folds)]
        bounds = [0, *self.blocks, len(self.base.symbols)]
        first = 0
        for number, (start, stop) in enumerate(pairwise(bounds)):
            last = first
            while last < len(self.slots) and self.slots[last].start < max(stop, start + 1):
                last += 1
            for version in versions:
                parts, done = [], start
                for slot, text in zip(self.slots[first:last], version[first:last], strict=True):
                    parts += [self.base.symbols[done : slot.start], text]
                    done = slot.stop
                folds[number % CONFIG.folds].append("".join([*parts, self.base.symbols[done:stop]]))
            first = last
        return folds

    def fold_of(self, slot: ReadingSlot) -> int:
        """Return the fold of a slot."""
        return bisect_right(self.blocks, slot.start) % CONFIG.folds

    def infer(self, meter: Meter) -> list[MergedSlot]:
        """Return the candidates of all slots and their posteriors."""
        if not self.slots:
            return []
        languages = identify_languages("\n".join(self.texts).encode(errors="replace"))
        errors = [ReadingErrors(counts) for counts in self.initial_counts()]
        versions = [["\n"] * len(self.slots)]  # agreement
        versions += [[slot.text_of(reading) for slot in self.slots] for reading in range(self.count)]
        merged: list[MergedSlot] = []
        priors: list[TextPrior] = []
        for iteration in range(CONFIG.iterations):
            if iteration < CONFIG.prior_iterations:
                priors = make_priors(self.folds(versions), tuple(languages), self.references, CONFIG.document_weight)
            merged = [
                self.infer_slot(index, errors, priors[self.fold_of(slot)])
                for index, slot in meter.steps(list(enumerate(self.slots)))
            ]
            errors = [ReadingErrors(counts) for counts in self.expected_counts(merged)]
            versions = [self.current]
        return merged

    def infer_slot(self, index: int, errors: Sequence[ReadingErrors], prior: TextPrior) -> MergedSlot:
        """Compute the posteriors of the candidates of a slot, and make the best one its current text."""
        slot = self.slots[index]
        candidates = search(slot, errors, prior, self.text_before(index), self.text_after(index))
        scores = np.array([candidate.score for candidate in candidates])
        posterior = np.exp(CONFIG.inverse_temperature * (scores - scores.max()))
        merged = MergedSlot(slot, candidates, posterior / posterior.sum())
        self.current[index] = merged.best
        return merged

    def initial_counts(self) -> list[ErrorCounts]:
        """Return the expected counts of the errors of each reading, if all readings are equally reliable."""
        counts = [dict(self.agreed) for _ in range(self.count)]
        for slot in self.slots:
            for segment in slot.segments:
                for text in (text for text in segment.texts if not LOST_SYMBOLS.search(text)):
                    for reading, observed in enumerate(segment.texts):
                        add_events(counts[reading], text, observed, 1 / self.count)
        return counts

    def expected_counts(self, merged: Sequence[MergedSlot]) -> list[ErrorCounts]:
        """Return the expected counts of the errors of each reading."""
        counts = [dict(self.agreed) for _ in range(self.count)]
        for item in merged:
            for candidate, probability in zip(item.candidates, item.posterior.tolist(), strict=True):
                if probability < CONFIG.min_posterior:
                    continue
                for segment, text in zip(item.slot.segments, candidate.choices, strict=True):
                    for reading, observed in enumerate(segment.texts):
                        add_events(counts[reading], text, observed, probability)
        return counts

    def text_before(self, index: int) -> str:
        """Return the current text before a slot, as much as the prior reads."""
        text, start = "", self.slots[index].start
        while index > 0 and len(text) < CONTEXT_CHARS:
            index -= 1
            text = self.current[index] + self.base.symbols[self.slots[index].stop : start] + text
            start = self.slots[index].start
        if len(text) < CONTEXT_CHARS:
            text = self.base.symbols[max(0, start - CONTEXT_CHARS) : start] + text
        return text[-CONTEXT_CHARS:]

    def text_after(self, index: int) -> str:
        """Return the current text after a slot, as much as the prior reads."""
        text, stop = "", self.slots[index].stop
        while index + 1 < len(self.slots) and len(text) < CONTEXT_CHARS:
            index += 1
            text += self.base.symbols[stop : self.slots[index].start] + self.current[index]
            stop = self.slots[index].stop
        return (text + self.base.symbols[stop : stop + CONTEXT_CHARS])[:CONTEXT_CHARS]


def add_events(counts: ErrorCounts, clean: str, observed: str, weight: float) -> None:
    """Add the errors between a clean and an observed text to counts."""
    for event in find_events(clean, observed):
        counts[event] = counts.get(event, 0.0) + weight
