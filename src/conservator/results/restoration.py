"""The result of a restoration."""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from conservator.decoders import Candidate, DecodedText
from conservator.decoders.edits import Change
from conservator.documents import UTF8, DamagedDocument, write_text
from conservator.errors import ConservatorError
from conservator.experts import Cost, MemorySource
from conservator.numerics import runs
from conservator.options import are_marks_characters, encoding_of
from conservator.results.changes import picture_record, undo_changes
from conservator.results.notices import NOT_COVERED, OUT_OF_DOMAIN, Notice

if TYPE_CHECKING:
    from conservator.pages import Picture

ENCODINGS = ("windows-1252", "windows-1250", "windows-1254", "windows-1257")  # that may have lost characters
SURE = 0.9  # the confidence from which a byte is called sure
# A text is strange if a hidden byte of it takes more nats than this, plus so many for the share that is lost: texts of
# the experts' kinds, kept apart in training, stay below it; prose in other languages is above.
STRANGE = (1.9, 2.0)
ERRORS = 2.5  # how many standard errors the surprise has to be above that limit; the sample of a short text says little
# Weights that follow the regions bring hardly anything below this gain, in nats a byte. In documents kept apart in
# training a nat brought 0.05 of the lost bytes, beside the memory: so this is one byte of 400.
NO_GAIN = 0.05

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Span:
    """A run of restored bytes.

    Attributes:
        start: the position of its first byte; every byte of the document is one position, also a lost one.
        stop: the position after its last byte.
        origin: its half-open range of bytes in the damaged document.
        left_open: whether any of its bytes was left unfilled.
    """

    start: int
    stop: int
    origin: tuple[int, int]
    left_open: bool


@dataclass(frozen=True)
class Summary:
    """A restoration in a few numbers. Where marks are characters, all but the first count characters, not bytes.

    Attributes:
        bytes: the number of bytes of the document.
        lost: the number of bytes that were lost or overturned.
        places: the number of runs of such bytes.
        restored: how many of these bytes were filled in.
        left_open: how many were left unfilled, because their confidence was too low, or because time ran out.
        confident: how many were restored with a confidence of at least 0.9.
        expected_accuracy: the expected share of the restored bytes that are right: their mean confidence; None if no
            byte was restored.
        weights: the mean weight of each expert where something was lost.
        provenance: how many restored bytes owe much to the memory.
    """

    bytes: int
    lost: int
    places: int
    restored: int
    left_open: int
    confident: int
    expected_accuracy: float | None
    weights: tuple[float, ...]
    provenance: int = 0


@dataclass(frozen=True, kw_only=True)
class Restoration:
    """A restored document with L positions, one for each byte, visible or lost, and m experts.

    Text that is not near damage was not read. The arrays ``read_...`` are about the n ``positions`` that were read.
    ``tokens``, ``confidence``, ``field``, ``regions``, ``changed`` and ``left_open`` are about the whole document, and
    are computed on first use.

    Attributes:
        damaged: the document that was restored.
        experts: the names of the m experts.
        is_retrieval: whether the last of them recalls text.
        positions: (n,) the positions that were read, ascending.
        read_tokens: (n,) the bytes; the best guess where they are left open.
        read_confidence: (n,) the probability that each byte is right; 1 where it was known.
        read_field: (n, m) the weight of each expert, rows on the simplex.
        read_regions: (n,) the expert whose text each position is, as a column of the field; -1 where no evidence was
            gathered.
        open_positions: (k,) the lost positions that were left unfilled, because their confidence was too low, or time
            ran out before they were read.
        alternatives: for each of ``spans`` its best joint fills, if they were asked for.
        provenance: position -> where its byte was remembered from, for lost bytes that owe much to the memory.
        cross_entropy: how unlikely the experts found visible bytes that were hidden from them, in nats a byte; None if they
            were not asked.
        cross_entropy_error: the standard error of that mean; None if it is not known.
        local_gain: by how much weights that follow the regions predicted such bytes better than one weight for the whole
            document, in nats a byte; None if that was not asked.
        changes: what was changed, if a reader of pages had taken it for something else.
        rate: how often that reader erred, as a multiple of what the channel says; None if nothing could be wrong.
        loss: what each mark stands for, as the option ``lost`` names it: ``bytes``, ``invalid``, ``characters`` or
            ``encoding:NAME``.
        out_of_time: the stage in which time ran out: ``decoding``, ``writing again``, ``alternatives`` or
            ``correcting``; None if it did not.
        reported: notices that were set while the document was restored; ``notices`` adds those that follow from the
            other attributes.
        cost: network evaluations and seconds.
        precision: name of a pretrained expert -> the number format that it computed in.
        encoding: the encoding that the document was read in.
    """

    damaged: DamagedDocument
    experts: tuple[str, ...]
    is_retrieval: bool = False
    positions: Ints
    read_tokens: Ints
    read_confidence: Floats
    read_field: Floats
    read_regions: Ints
    open_positions: Ints
    alternatives: tuple[tuple[Candidate, ...], ...]
    provenance: Mapping[int, MemorySource] = field(default_factory=dict)
    cross_entropy: float | None = None
    cross_entropy_error: float | None = None
    local_gain: float | None = None
    changes: tuple[Change, ...] = ()
    rate: float | None = None
    loss: str = "bytes"
    out_of_time: str | None = None
    reported: tuple[Notice, ...] = ()
    cost: Cost
    precision: Mapping[str, str] = field(default_factory=dict)
    encoding: str = UTF8

    @classmethod
    def untouched(
        cls, damaged: DamagedDocument, experts: tuple[str, ...], cost: Cost, *, is_retrieval: bool = False
    ) -> "Restoration":
        """The result for a document in which nothing was lost, so that nothing was read."""
        nothing = np.empty(0, dtype=np.int64)
        return cls(
            damaged=damaged,
            experts=experts,
            is_retrieval=is_retrieval,
            positions=nothing,
            read_tokens=nothing,
            read_confidence=np.empty(0),
            read_field=np.empty((0, len(experts))),
            read_regions=nothing,
            open_positions=nothing,
            alternatives=(),
            cost=cost,
        )

    @property
    def out_of_domain(self) -> bool:
        """Whether the text is unlike every expert's: visible bytes of it surprise them more than bytes they know.

        False if too few bytes were sampled to tell.
        """
        if self.cross_entropy is None or self.cross_entropy_error is None or self.unit == "character":
            return False
        lost = len(self.damaged.lost) / max(1, len(self.positions))
        return self.cross_entropy - ERRORS * self.cross_entropy_error > STRANGE[0] + STRANGE[1] * min(lost, 1.0)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """The conditions that the user of this result should know."""
        if not self.out_of_domain:
            return self.reported
        message = (
            "this text differs from the training texts of every expert, so fewer bytes are restored correctly; "
            "reference texts of the same kind and language help"
        )
        return (*self.reported, Notice(OUT_OF_DOMAIN, message))

    @property
    def not_covered(self) -> bool:
        """Whether text was left as it was because the experts do not cover it; ``notices`` say why."""
        return any(notice.kind in NOT_COVERED for notice in self.reported)

    @property
    def global_weight_suffices(self) -> bool | None:
        """Whether one weight for the whole document would have restored about as much; None if that is not known."""
        return None if self.local_gain is None else self.local_gain < NO_GAIN

    @property
    def length(self) -> int:
        """L, the number of bytes."""
        return len(self.damaged.tokens)

    @cached_property
    def data(self) -> bytes:
        """The document as bytes: valid UTF-8, with known bytes unchanged and marks where it was left open."""
        return self.render(0, self.length)

    @cached_property
    def text(self) -> str:
        """The document as text."""
        return self.data.decode()

    @property
    def corrects(self) -> bool:
        """Whether text that may be wrong anywhere was corrected; else what is lost was restored."""
        return self.rate is not None

    @cached_property
    def seen(self) -> str:
        """The text before its ``changes``."""
        return undo_changes(self.text, self.changes)

    @cached_property
    def encoded(self) -> tuple[bytes, str]:
        """The document in the encoding that it was read in, and that encoding.

        If a restored character has no place in it, the whole document is UTF-8.
        """
        if self.encoding != UTF8:
            with contextlib.suppress(ConservatorError):
                return write_text(self.text, self.encoding), self.encoding
        return self.data, UTF8

    @cached_property
    def tokens(self) -> NDArray[np.int16]:
        """(L,) the bytes; the best guess where they are left open."""
        tokens = self.damaged.tokens.copy()
        tokens[self.positions] = self.read_tokens
        return tokens

    @cached_property
    def confidence(self) -> Floats:
        """(L,) the probability that each byte is right; 1 where it was known."""
        confidence = np.ones(self.length)
        confidence[self.positions] = self.read_confidence
        return confidence

    @cached_property
    def field(self) -> Floats:
        """(L, m) the weight of each expert, rows on the simplex.

        Where nothing was read, experts that model text have equal weights, and one that recalls it has none.
        """
        field = np.zeros((self.length, len(self.experts)))
        modelling = max(1, len(self.experts) - self.is_retrieval)
        field[:, :modelling] = 1 / modelling
        field[self.positions] = self.read_field
        return field

    @cached_property
    def regions(self) -> Ints:
        """(L,) the expert whose text each position is, as a column of ``field``; -1 where no evidence was gathered."""
        regions = np.full(self.length, -1)
        regions[self.positions] = self.read_regions
        return regions

    @cached_property
    def changed(self) -> NDArray[np.bool_]:
        """(L,) True where a byte was lost or overturned."""
        changed = np.zeros(self.length, dtype=bool)
        changed[self.positions[self._changed]] = True
        return changed

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """(L,) True at the positions that a summary counts: every byte, or the first of every character."""
        if self.unit == "byte":
            return np.ones(self.length, dtype=bool)
        counted: NDArray[np.bool_] = (self.tokens & 0xC0) != 0x80
        return counted

    @cached_property
    def left_open(self) -> NDArray[np.bool_]:
        """(L,) True where a lost byte was left unfilled."""
        left_open = np.zeros(self.length, dtype=bool)
        left_open[self.open_positions] = True
        return left_open

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The restored runs, in order."""
        places = self.positions[self._changed]
        if not len(places):
            return ()
        first = np.flatnonzero(np.diff(places, prepend=-2) > 1)
        starts, stops = places[first], places[np.append(first[1:], len(places)) - 1] + 1
        begin, end = self.damaged.origins(starts)[:, 0], self.damaged.origins(stops - 1)[:, 1]
        opened = np.searchsorted(self.open_positions, starts) < np.searchsorted(self.open_positions, stops)
        rows = zip(starts.tolist(), stops.tolist(), begin.tolist(), end.tolist(), opened.tolist(), strict=True)
        return tuple(Span(start, stop, (first, last), is_open) for start, stop, first, last, is_open in rows)

    @cached_property
    def fixed(self) -> tuple[Span, ...]:
        """The stretches whose text was given, in order."""
        places, lengths, spans = self.damaged.positions, self.damaged.lengths, self.damaged.spans
        return tuple(
            Span(int(places[one]), int(places[one] + lengths[one]), (int(spans[one, 0]), int(spans[one, 1])), False)
            for one in self.damaged.fixed
        )

    def lines_known_before(self, line: int) -> int:
        """How many of the line ends before a line, counted from 1, are in text that was given."""
        ends = np.flatnonzero(self.damaged.tokens == ord("\n"))[: line - 1]
        return sum(int(np.searchsorted(ends, one.stop) - np.searchsorted(ends, one.start)) for one in self.fixed)

    @cached_property
    def summary(self) -> Summary:
        """The restoration in a few numbers."""
        changed = self._changed & self.counted[self.positions]
        opened = np.isin(self.positions, self.open_positions)
        confidence = self.read_confidence[changed & ~opened]
        weights = self.read_field[changed].mean(axis=0) if changed.any() else np.zeros(len(self.experts))
        return Summary(
            self.length,
            int(changed.sum()),
            len(self.spans),
            len(confidence),
            int((changed & opened).sum()),
            int((confidence >= SURE).sum()),
            float(confidence.mean()) if len(confidence) else None,
            tuple(weights.tolist()),
            sum(self.sources.values()),
        )

    @cached_property
    def sources(self) -> dict[str | None, int]:
        """How many restored bytes were remembered from each text, None for the document itself; most used first."""
        opened = set(self.open_positions.tolist())
        counts = Counter(one.name for place, one in self.provenance.items() if place not in opened)
        return dict(counts.most_common())

    @property
    def unit(self) -> str:
        """What a mark stands for, or what was wrong: a byte, or a character."""
        return "character" if self.corrects or are_marks_characters(self.loss) else "byte"

    @cached_property
    def lost_by(self) -> str | None:
        """Where marks are characters, the encoding that lost them (``find_encoding``); None if marks are bytes."""
        if self.unit == "byte" or self.corrects:
            return None
        return find_encoding(self.tokens[self.changed].astype(np.uint8).tobytes().decode(), self.loss)

    @property
    def expected_accuracy(self) -> float | None:
        """The expected share of the restored bytes that are right: their mean confidence; None if there are none."""
        return self.summary.expected_accuracy

    def render(self, start: int, stop: int) -> bytes:
        """The bytes from ``start`` to ``stop`` as they are written: marks and gap signs where they are left open."""
        tokens = self.tokens[start:stop].astype(np.uint8)
        inside = np.searchsorted(self.open_positions, [start, stop])
        if inside[0] == inside[1]:
            return tokens.tobytes()
        opened = np.zeros(stop - start, dtype=bool)
        opened[self.open_positions[inside[0] : inside[1]] - start] = True
        parts, done = [], 0
        for first, last in runs(opened):
            parts.append(tokens[done:first].tobytes())
            previous = -1
            for sign in self.damaged.marker_of(np.arange(start + first, start + last)).tolist():
                if sign < 0 or sign != previous:
                    is_gap = sign >= 0 and self.damaged.is_gap[sign]
                    parts.append((self.damaged.gap or "" if is_gap else self.damaged.mark).encode())
                previous = sign
            done = last
        return b"".join([*parts, tokens[done:].tobytes()])

    def proposals(self, sign: int) -> list[tuple[str, float]]:
        """The best fills of a gap, which is a sign of ``damaged``, with their probabilities.

        Without ``alternatives`` there is one, the best guess.
        """
        start, gap = int(self.damaged.positions[sign]), int(np.searchsorted(self.damaged.gaps, sign))
        stop = start + int(self.damaged.lengths[sign])
        fills: tuple[Candidate, ...] = ()
        for span, found in zip(self.spans, self.alternatives, strict=False):
            if span.start <= start and stop <= span.stop:
                fills = tuple(
                    Candidate(one.data[start - span.start : stop - span.start], one.probability) for one in found
                )
        if not fills:
            guess, confident = self.tokens[start:stop].astype(np.uint8).tobytes(), self.confidence[start:stop].prod()
            length = 1.0 if self.damaged.length_probability is None else self.damaged.length_probability[gap]
            fills = (Candidate(guess, float(confident * length)),)
        return [(one.data.decode(errors="replace"), one.probability) for one in fills]

    def to_json(self) -> str:
        """The whole record as JSON; the field is averaged over bins."""
        from conservator.results.record import as_json

        return as_json(self)

    def to_html(self, title: str = "Restored document", pictures: "Sequence[Picture]" = ()) -> str:
        """The report: one HTML file that needs nothing else.

        Args:
            title: of the page.
            pictures: of lines in which something was changed.
        """
        from conservator.results.html import as_page
        from conservator.results.record import as_record

        return as_page({**as_record(self), **picture_record(pictures, self.changes)}, title)

    def _repr_html_(self) -> str:
        """The report in a frame, for notebooks."""
        from conservator.results.html import as_frame
        from conservator.results.record import as_record

        return as_frame(as_record(self))

    @cached_property
    def _changed(self) -> NDArray[np.bool_]:
        """(n,) True where a position that was read was lost or overturned."""
        changed: NDArray[np.bool_] = self.damaged.tokens[self.positions] != self.read_tokens
        return changed


def find_encoding(restored: str, loss: str) -> str | None:
    """The encoding that lost the ``restored`` characters: the one that ``loss`` names, else one that has them all.

    None if there is none.
    """
    named, characters = encoding_of(loss), set(restored)
    fitting = (one for one in ENCODINGS if all(character.encode(one, errors="ignore") for character in characters))
    return named if named is not None else next(fitting, None)


def leave_open(
    damaged: DamagedDocument,
    positions: Ints,
    decoded: DecodedText,
    least: float,
    *,
    least_gap: float = 0.0,
    undetermined: NDArray[np.bool_] | None = None,
) -> Ints:
    """The lost positions that are not filled in: their confidence is too low, or time ran out before they were read.

    A character and a gap of unknown length are filled in as a whole or not at all. Half a character cannot be written,
    so both are filled in if they complete a visible byte.

    Args:
        damaged: the document.
        positions: (n,) the positions that were read.
        decoded: what was decoded there.
        least: the least confidence of a byte.
        least_gap: the least probability of the fill of a gap: that of its length, times the confidence of its bytes.
        undetermined: (n,) True at positions that are left open in any case.
    """
    lost = np.isin(positions, damaged.lost)
    gap_of = damaged.gap_of(positions)
    unsure = decoded.confidence < least
    unsure[decoded.unread] = True
    if undetermined is not None:
        unsure |= undetermined
    in_gap = gap_of >= 0
    if damaged.length_probability is not None:
        nats = np.log(np.maximum(decoded.confidence[in_gap], np.finfo(np.float64).tiny))
        total = np.bincount(gap_of[in_gap], weights=nats, minlength=len(damaged.length_probability))
        unsure |= in_gap & (damaged.length_probability * np.exp(total) < least_gap)[gap_of]
    same_character = (decoded.tokens & 0xC0) == 0x80
    same_gap = in_gap & (gap_of == np.concatenate([[-1], gap_of[:-1]]))
    whole = np.cumsum(~(same_character | same_gap))  # the number of the character, or of the characters of a gap
    opened = np.isin(whole, whole[unsure & lost]) & ~np.isin(whole, whole[~lost])
    return positions[opened]
