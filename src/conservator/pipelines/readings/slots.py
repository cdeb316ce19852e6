"""Slots of a text with several readings: words in which some reading differs, and their candidates.

A slot has one or more segments with differing texts. Its candidates are all combinations of the texts of its segments,
found by a beam search. With y_r(s) the text of reading r in segment s, and t(s) the one that a candidate t has,

    score(t) = sum over s, r of log p_r(y_r(s) | t(s))  +  log p(t, text after the slot | text before it)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from conservator.alignment import ReadingErrors, Segment
from conservator.documents import LOST_SYMBOLS, SymbolText
from conservator.pipelines.readings.prior import TextPrior


@dataclass(frozen=True)
class SlotConfig:
    """Parameters of slots."""

    max_context: int = 16  # characters: of the word around a segment, on each side [untuned]
    max_chars: int = 64  # characters: a longer slot gets no further segments [untuned]
    beam: int = 24  # candidates: of a slot [untuned]


CONFIG = SlotConfig()


@dataclass(frozen=True)
class ReadingSlot:
    """A range of symbols of the base, and the segments in it."""

    base: SymbolText
    start: int
    stop: int
    segments: tuple[Segment, ...]

    @cached_property
    def observed(self) -> str:
        """The symbols of the base."""
        return self.base.symbols[self.start : self.stop]

    @cached_property
    def data(self) -> bytes:
        """The bytes of the base."""
        return self.base.bytes_of(self.start, self.stop)

    def pieces(self) -> Iterator[tuple[int, int, Segment | None]]:
        """Yield ``(start, stop, segment)`` of the parts of the slot, in order; None for a part without differences."""
        done = self.start
        for segment in self.segments:
            yield done, segment.start, None
            yield segment.start, segment.stop, segment
            done = segment.stop
        yield done, self.stop, None

    def text_of(self, reading: int) -> str:
        """Return the text of a reading."""
        return "".join(
            segment.texts[reading] if segment else self.base.symbols[start:stop]
            for start, stop, segment in self.pieces()
        )


@dataclass(frozen=True)
class SlotCandidate:
    """A candidate of a slot.

    Attributes:
        text: Its symbols.
        data: Its bytes.
        choices: The text of each segment.
        score: Log-score by the readings, and in ``search`` also by the prior.
    """

    text: str
    data: bytes
    choices: tuple[str, ...]
    score: float


def split_columns(segments: Sequence[Segment]) -> Iterator[Segment]:
    """Yield segments, divided into single characters where all texts have the same length."""
    for segment in segments:
        size = segment.stop - segment.start
        if size < 2 or len({len(text) for text in segment.texts}) > 1:
            yield segment
            continue
        for index, texts in enumerate(zip(*segment.texts, strict=True)):
            if len(set(texts)) > 1:
                yield Segment(segment.start + index, segment.start + index + 1, texts)


def make_slots(base: SymbolText, segments: Sequence[Segment]) -> list[ReadingSlot]:
    """Extend segments to words; those in the same word are one slot."""
    slots: list[ReadingSlot] = []
    symbols = base.symbols
    for segment in segments:
        start, stop = segment.start, segment.stop
        while start > max(0, segment.start - CONFIG.max_context) and symbols[start - 1] != " ":
            start -= 1
        while stop < min(len(symbols), segment.stop + CONFIG.max_context) and symbols[stop] != " ":
            stop += 1
        last = slots[-1] if slots else None
        if last and (segment.start < last.stop or (start <= last.stop and last.stop - last.start < CONFIG.max_chars)):
            slots[-1] = ReadingSlot(base, last.start, max(stop, last.stop), (*last.segments, segment))
        else:
            slots.append(ReadingSlot(base, max(start, last.stop if last else 0), stop, (segment,)))
    return slots


def search(
    slot: ReadingSlot, errors: Sequence[ReadingErrors], prior: TextPrior, before: str, after: str
) -> list[SlotCandidate]:
    """Return the best candidates of a slot, and always the base.

    Args:
        slot: The slot.
        errors: The errors of each reading.
        prior: Prior of the text.
        before: Text before the slot.
        after: Text after the slot.
    """
    beam = [SlotCandidate("", b"", (), 0.0)]
    for start, stop, segment in slot.pieces():
        base = slot.base.symbols[start:stop], slot.base.bytes_of(start, stop)
        options = [base] if segment is None else [base, *new_texts(segment)]
        scores = [0.0] if segment is None else [score(segment, text, errors) for text, _ in options]
        beam = [
            SlotCandidate(
                item.text + text, item.data + data, item.choices if segment is None else (*item.choices, text), added
            )
            for item in beam
            for (text, data), gain in zip(options, scores, strict=True)
            for added in (item.score + gain,)
        ]
        if len(beam) > CONFIG.beam:
            first = beam[0]  # the base
            beam.sort(key=lambda item: -(item.score + prior.score(before, item.text)))
            beam = [first, *(item for item in beam[: CONFIG.beam] if item is not first)]
    return [
        SlotCandidate(item.text, item.data, item.choices, item.score + prior.score(before, item.text + after))
        for item in beam
    ]


def new_texts(segment: Segment) -> list[tuple[str, bytes]]:
    """Return the different texts of a segment without lost symbols, except that of the base, and their bytes."""
    texts = dict.fromkeys(text for text in segment.texts[1:] if not LOST_SYMBOLS.search(text))
    return [(text, text.encode()) for text in texts if text != segment.texts[0]]


def score(segment: Segment, text: str, errors: Sequence[ReadingErrors]) -> float:
    """Return the sum over the readings of log p(text of the reading | text)."""
    return sum(item.score(observed, text) for item, observed in zip(errors, segment.texts, strict=True))
