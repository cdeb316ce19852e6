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
from conservator.results.config import RESULTS
from conservator.results.notices import NOT_COVERED, OUT_OF_DOMAIN, Notice

if TYPE_CHECKING:
    from conservator.pages import Picture

ENCODINGS = ("windows-1252", "windows-1250", "windows-1254", "windows-1257")  # candidates of ``find_encoding``

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Span:
    """A run of restored bytes.

    Attributes:
        start: Position of its first byte; every byte of the document, visible or lost, has one position.
        stop: Position after its last byte.
        origin: Half-open range of bytes of the damaged document.
        unfilled: Whether any of its bytes is unfilled.
    """

    start: int
    stop: int
    origin: tuple[int, int]
    unfilled: bool


@dataclass(frozen=True)
class Summary:
    """Counts of a restoration. If marks are characters, all counts but ``bytes`` are of characters.

    Attributes:
        bytes: Number of bytes of the document.
        lost: Number of bytes that were lost or changed.
        spans: Number of runs of such bytes.
        restored: Number of them that were filled.
        unfilled: Number of them that are unfilled, because of low confidence or of the time limit.
        confident: Number of them that were filled with a confidence of at least 0.9.
        expected_accuracy: Expected share of correct bytes among those filled, their mean confidence; None if none was.
        weights: Mean weight of each expert at lost or changed bytes.
        provenance: Number of filled bytes that the memory copied.
    """

    bytes: int
    lost: int
    spans: int
    restored: int
    unfilled: int
    confident: int
    expected_accuracy: float | None
    weights: tuple[float, ...]
    provenance: int = 0


@dataclass(frozen=True, kw_only=True)
class Restoration:
    """A restored document with L positions, one for each byte, visible or lost, and m experts.

    Text far from damage is not read. The arrays ``read_...`` describe the n ``positions`` that were read. ``tokens``,
    ``confidence``, ``field``, ``regions``, ``changed`` and ``unfilled`` describe the whole document, and are computed
    on first use.

    Attributes:
        damaged: The damaged document.
        experts: Names of the m experts.
        has_memory: Whether the last expert is the memory.
        positions: (n,) positions that were read, ascending.
        read_tokens: (n,) bytes; the best candidate where they are unfilled.
        read_confidence: (n,) probability that each byte is correct; 1 where it was known.
        read_field: (n, m) weight of each expert, rows on the simplex.
        read_regions: (n,) expert whose domain each position belongs to, as a column of the field; -1 where no evidence
            was gathered.
        unfilled_positions: (k,) lost positions that are unfilled, because of low confidence or of the time limit.
        alternatives: Best candidates of each of ``spans``, if they were requested.
        provenance: Position -> the text and line that the memory copied its byte from, for lost bytes at which the
            memory has a large weight.
        cross_entropy: Mean negative log-probability of hidden visible bytes, in nats per byte; None if not measured.
        cross_entropy_error: Standard error of ``cross_entropy``; None if unknown.
        local_gain: Improvement of local over global weights in predicting such bytes, in nats per byte; None if not
            measured.
        changes: Corrections of a text with OCR errors.
        rate: OCR error rate of this document, as a multiple of the channel's; None if nothing was corrected.
        lost_unit: What each mark stands for, as a value of the option ``lost``: ``bytes``, ``invalid``, ``characters``
            or ``encoding:NAME``.
        out_of_time: Stage that the time limit interrupted: ``decoding``, ``rescoring``, ``alternatives`` or
            ``correcting``; None if there was enough time.
        reported: Notices of the pipeline; ``notices`` adds those that follow from the other attributes.
        cost: Network evaluations and seconds.
        precision: Name of a pretrained expert -> the number format of its arithmetic.
        encoding: Encoding that the document was read in.
    """

    damaged: DamagedDocument
    experts: tuple[str, ...]
    has_memory: bool = False
    positions: Ints
    read_tokens: Ints
    read_confidence: Floats
    read_field: Floats
    read_regions: Ints
    unfilled_positions: Ints
    alternatives: tuple[tuple[Candidate, ...], ...]
    provenance: Mapping[int, MemorySource] = field(default_factory=dict)
    cross_entropy: float | None = None
    cross_entropy_error: float | None = None
    local_gain: float | None = None
    changes: tuple[Change, ...] = ()
    rate: float | None = None
    lost_unit: str = "bytes"
    out_of_time: str | None = None
    reported: tuple[Notice, ...] = ()
    cost: Cost
    precision: Mapping[str, str] = field(default_factory=dict)
    encoding: str = UTF8

    @classmethod
    def untouched(
        cls, damaged: DamagedDocument, experts: tuple[str, ...], cost: Cost, *, has_memory: bool = False
    ) -> "Restoration":
        """Return the result for a document without damage, of which nothing was read."""
        empty = np.empty(0, dtype=np.int64)
        return cls(
            damaged=damaged,
            experts=experts,
            has_memory=has_memory,
            positions=empty,
            read_tokens=empty,
            read_confidence=np.empty(0),
            read_field=np.empty((0, len(experts))),
            read_regions=empty,
            unfilled_positions=empty,
            alternatives=(),
            cost=cost,
        )

    @property
    def out_of_domain(self) -> bool:
        """Whether no expert predicts this text well: its cross-entropy is above that of the experts' domains.

        False if the sample was too small to decide.
        """
        if self.cross_entropy is None or self.cross_entropy_error is None or self.unit == "character":
            return False
        lost_share = len(self.damaged.lost) / max(1, len(self.positions))
        lower_bound = self.cross_entropy - RESULTS.domain_standard_errors * self.cross_entropy_error
        return lower_bound > RESULTS.max_cross_entropy + RESULTS.cross_entropy_per_lost_share * min(lost_share, 1.0)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Statements about this result for its user."""
        if not self.out_of_domain:
            return self.reported
        message = (
            "this text differs from the training texts of every expert, so fewer bytes are restored correctly; "
            "reference texts of the same kind and language help"
        )
        return (*self.reported, Notice(OUT_OF_DOMAIN, message))

    @property
    def not_covered(self) -> bool:
        """Whether text was left unchanged because the models do not cover it; ``notices`` gives the reasons."""
        return any(notice.kind in NOT_COVERED for notice in self.reported)

    @property
    def global_weight_suffices(self) -> bool | None:
        """Whether a global weight would have restored about as much; None if unknown."""
        return None if self.local_gain is None else self.local_gain < RESULTS.min_local_gain

    @property
    def length(self) -> int:
        """L, the number of bytes."""
        return len(self.damaged.tokens)

    @cached_property
    def data(self) -> bytes:
        """The document as bytes: valid UTF-8, with known bytes unchanged and marks where it is unfilled."""
        return self.render(0, self.length)

    @cached_property
    def text(self) -> str:
        """The document as text."""
        return self.data.decode()

    @property
    def is_correction(self) -> bool:
        """Whether a text with OCR errors was corrected; otherwise lost text was restored."""
        return self.rate is not None

    @cached_property
    def observed(self) -> str:
        """The text before its ``changes``."""
        return undo_changes(self.text, self.changes)

    @cached_property
    def encoded(self) -> tuple[bytes, str]:
        """The document in its original encoding, and that encoding.

        If a restored character does not exist in it, the whole document is UTF-8.
        """
        if self.encoding != UTF8:
            with contextlib.suppress(ConservatorError):
                return write_text(self.text, self.encoding), self.encoding
        return self.data, UTF8

    @cached_property
    def tokens(self) -> NDArray[np.int16]:
        """(L,) bytes; the best candidate where they are unfilled."""
        tokens = self.damaged.tokens.copy()
        tokens[self.positions] = self.read_tokens
        return tokens

    @cached_property
    def confidence(self) -> Floats:
        """(L,) probability that each byte is correct; 1 where it was known."""
        confidence = np.ones(self.length)
        confidence[self.positions] = self.read_confidence
        return confidence

    @cached_property
    def field(self) -> Floats:
        """(L, m) weight of each expert, rows on the simplex.

        Where nothing was read, the memory has weight 0 and the other experts have equal weights.
        """
        field = np.zeros((self.length, len(self.experts)))
        model_count = max(1, len(self.experts) - self.has_memory)
        field[:, :model_count] = 1 / model_count
        field[self.positions] = self.read_field
        return field

    @cached_property
    def regions(self) -> Ints:
        """(L,) expert whose domain each position belongs to, as a column of ``field``; -1 without evidence."""
        regions = np.full(self.length, -1)
        regions[self.positions] = self.read_regions
        return regions

    @cached_property
    def changed(self) -> NDArray[np.bool_]:
        """(L,) True where a byte was lost or changed."""
        changed = np.zeros(self.length, dtype=bool)
        changed[self.positions[self._changed]] = True
        return changed

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """(L,) True at the positions that a summary counts: every byte, or the first byte of every character."""
        if self.unit == "byte":
            return np.ones(self.length, dtype=bool)
        counted: NDArray[np.bool_] = (self.tokens & 0xC0) != 0x80
        return counted

    @cached_property
    def unfilled(self) -> NDArray[np.bool_]:
        """(L,) True where a lost byte is unfilled."""
        unfilled = np.zeros(self.length, dtype=bool)
        unfilled[self.unfilled_positions] = True
        return unfilled

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The restored runs, in order."""
        changed = self.positions[self._changed]
        if not len(changed):
            return ()
        first = np.flatnonzero(np.diff(changed, prepend=-2) > 1)
        starts, stops = changed[first], changed[np.append(first[1:], len(changed)) - 1] + 1
        origin_starts, origin_stops = self.damaged.origins(starts)[:, 0], self.damaged.origins(stops - 1)[:, 1]
        unfilled = np.searchsorted(self.unfilled_positions, starts) < np.searchsorted(self.unfilled_positions, stops)
        columns = (starts, stops, origin_starts, origin_stops, unfilled)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return tuple(Span(start, stop, (first, last), is_unfilled) for start, stop, first, last, is_unfilled in rows)

    @cached_property
    def fixed(self) -> tuple[Span, ...]:
        """The spans with fixed text, in order."""
        starts, lengths, origins = self.damaged.positions, self.damaged.lengths, self.damaged.spans
        return tuple(
            Span(
                int(starts[marker]),
                int(starts[marker] + lengths[marker]),
                (int(origins[marker, 0]), int(origins[marker, 1])),
                False,
            )
            for marker in self.damaged.fixed
        )

    def count_fixed_line_ends(self, line: int) -> int:
        """Return the number of line ends before a line, counted from 1, that are part of fixed text."""
        ends = np.flatnonzero(self.damaged.tokens == ord("\n"))[: line - 1]
        return sum(int(np.searchsorted(ends, span.stop) - np.searchsorted(ends, span.start)) for span in self.fixed)

    @cached_property
    def summary(self) -> Summary:
        """Counts of this restoration."""
        changed = self._changed & self.counted[self.positions]
        unfilled = np.isin(self.positions, self.unfilled_positions)
        confidence = self.read_confidence[changed & ~unfilled]
        weights = self.read_field[changed].mean(axis=0) if changed.any() else np.zeros(len(self.experts))
        return Summary(
            self.length,
            int(changed.sum()),
            len(self.spans),
            len(confidence),
            int((changed & unfilled).sum()),
            int((confidence >= RESULTS.min_confident).sum()),
            float(confidence.mean()) if len(confidence) else None,
            tuple(weights.tolist()),
            sum(self.sources.values()),
        )

    @cached_property
    def sources(self) -> dict[str | None, int]:
        """Name of a text -> number of filled bytes that were copied from it, most used first.

        None is the document itself.
        """
        unfilled = set(self.unfilled_positions.tolist())
        counts = Counter(source.name for position, source in self.provenance.items() if position not in unfilled)
        return dict(counts.most_common())

    @property
    def unit(self) -> str:
        """Unit of loss or of errors: ``byte`` or ``character``."""
        return "character" if self.is_correction or are_marks_characters(self.lost_unit) else "byte"

    @cached_property
    def lost_by(self) -> str | None:
        """The encoding that lost the characters (``find_encoding``); None if marks are bytes."""
        if self.unit == "byte" or self.is_correction:
            return None
        return find_encoding(self.tokens[self.changed].astype(np.uint8).tobytes().decode(), self.lost_unit)

    @property
    def expected_accuracy(self) -> float | None:
        """Expected share of correct bytes among those filled, their mean confidence; None if none was filled."""
        return self.summary.expected_accuracy

    def render(self, start: int, stop: int) -> bytes:
        """Return the bytes from ``start`` to ``stop`` as they are written: marks and gap markers where unfilled."""
        tokens = self.tokens[start:stop].astype(np.uint8)
        inside = np.searchsorted(self.unfilled_positions, [start, stop])
        if inside[0] == inside[1]:
            return tokens.tobytes()
        unfilled = np.zeros(stop - start, dtype=bool)
        unfilled[self.unfilled_positions[inside[0] : inside[1]] - start] = True
        parts, done = [], 0
        for first, last in runs(unfilled):
            parts.append(tokens[done:first].tobytes())
            previous = -1
            for marker in self.damaged.marker_of(np.arange(start + first, start + last)).tolist():
                if marker < 0 or marker != previous:
                    is_gap = marker >= 0 and self.damaged.is_gap[marker]
                    parts.append((self.damaged.gap or "" if is_gap else self.damaged.mark).encode())
                previous = marker
            done = last
        return b"".join([*parts, tokens[done:].tobytes()])

    def proposals(self, marker: int) -> list[tuple[str, float]]:
        """Return the best candidates of a gap, with their probabilities.

        Without ``alternatives`` there is one, the best candidate.

        Args:
            marker: Index of the gap marker among the markers of ``damaged``.
        """
        start, gap = int(self.damaged.positions[marker]), int(np.searchsorted(self.damaged.gaps, marker))
        stop = start + int(self.damaged.lengths[marker])
        candidates: tuple[Candidate, ...] = ()
        for span, span_candidates in zip(self.spans, self.alternatives, strict=False):
            if span.start <= start and stop <= span.stop:
                candidates = tuple(
                    Candidate(candidate.data[start - span.start : stop - span.start], candidate.probability)
                    for candidate in span_candidates
                )
        if not candidates:
            best, confidence = self.tokens[start:stop].astype(np.uint8).tobytes(), self.confidence[start:stop].prod()
            length_prob = 1.0 if self.damaged.length_probability is None else self.damaged.length_probability[gap]
            candidates = (Candidate(best, float(confidence * length_prob)),)
        return [(candidate.data.decode(errors="replace"), candidate.probability) for candidate in candidates]

    def to_json(self) -> str:
        """Return the whole record as JSON; the field is averaged over bins."""
        from conservator.results.record import as_json

        return as_json(self)

    def to_html(self, title: str = "Restored document", pictures: "Sequence[Picture]" = ()) -> str:
        """Return the report: one self-contained HTML file.

        Args:
            title: Title of the page.
            pictures: Pictures of lines with changes.
        """
        from conservator.results.html import as_page
        from conservator.results.record import as_record

        return as_page({**as_record(self), **picture_record(pictures, self.changes)}, title)

    def _repr_html_(self) -> str:
        """Return the report in an iframe, for notebooks."""
        from conservator.results.html import as_frame
        from conservator.results.record import as_record

        return as_frame(as_record(self))

    @cached_property
    def _changed(self) -> NDArray[np.bool_]:
        """(n,) True at the read positions that were lost or changed."""
        changed: NDArray[np.bool_] = self.damaged.tokens[self.positions] != self.read_tokens
        return changed


def find_encoding(restored: str, lost_unit: str) -> str | None:
    """Return the encoding that lost the ``restored`` characters; None if there is none.

    It is the encoding that ``lost_unit`` names, otherwise the first of ENCODINGS that has all the characters.
    """
    named, characters = encoding_of(lost_unit), set(restored)
    fitting = (
        encoding
        for encoding in ENCODINGS
        if all(character.encode(encoding, errors="ignore") for character in characters)
    )
    return named if named is not None else next(fitting, None)


def find_unfilled(
    damaged: DamagedDocument,
    positions: Ints,
    decoded: DecodedText,
    min_confidence: float,
    *,
    min_gap_confidence: float = 0.0,
    undetermined: NDArray[np.bool_] | None = None,
) -> Ints:
    """Return the lost positions that are not filled: their confidence is too low, or they were not read in time.

    A character and a gap of unknown length are filled as a whole or not at all. A part of a character cannot be
    written, so both are filled if they complete a visible byte.

    Args:
        damaged: The damaged document.
        positions: (n,) positions that were read.
        decoded: The decoded text at these positions.
        min_confidence: Minimum confidence of a byte.
        min_gap_confidence: Minimum probability of a gap: that of its length, times the confidences of its bytes.
        undetermined: (n,) True at positions that are unfilled in any case.
    """
    lost = np.isin(positions, damaged.lost)
    gap_of = damaged.gap_of(positions)
    rejected = decoded.confidence < min_confidence
    rejected[decoded.not_predicted] = True
    if undetermined is not None:
        rejected |= undetermined
    in_gap = gap_of >= 0
    if damaged.length_probability is not None:
        log_probs = np.log(np.maximum(decoded.confidence[in_gap], np.finfo(np.float64).tiny))
        total = np.bincount(gap_of[in_gap], weights=log_probs, minlength=len(damaged.length_probability))
        rejected |= in_gap & (damaged.length_probability * np.exp(total) < min_gap_confidence)[gap_of]
    same_character = (decoded.tokens & 0xC0) == 0x80
    same_gap = in_gap & (gap_of == np.concatenate([[-1], gap_of[:-1]]))
    group = np.cumsum(~(same_character | same_gap))  # index of the character, or of the characters of a gap
    unfilled = np.isin(group, group[rejected & lost]) & ~np.isin(group, group[~lost])
    return positions[unfilled]
