"""The result of a restoration."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from conservator.arrays import Bools, Floats, Ints
from conservator.decoders import Candidate
from conservator.documents import UTF8, encode_text, splice
from conservator.experts import Cost, MemorySource
from conservator.options import ANY_CHARACTER, are_marks_characters, encoding_of
from conservator.results.config import RESULTS
from conservator.results.edit import Edit, Gap
from conservator.results.notices import NOT_COVERED, OUT_OF_DOMAIN, Notice
from conservator.results.summary import CountedPart, Counts, Summary, summarize

if TYPE_CHECKING:
    from conservator.pages import Picture
    from conservator.results.record import Record

ENCODINGS = ("windows-1252", "windows-1250", "windows-1254", "windows-1257")  # candidates of ``find_encoding``


@dataclass(frozen=True, kw_only=True)
class Restoration:
    """A restored document: the damaged document, its edits, and the weights of m experts.

    The restored document has L positions, one for each byte, visible or edited. Text far from damage is not read. The
    arrays ``read_...`` describe the n ``positions`` that were read. ``tokens``, ``confidence``, ``field``, ``regions``,
    ``changed`` and ``unfilled`` describe the whole document, and are computed on first use.

    Attributes:
        observed: The damaged document in UTF-8, with its marks and gap markers.
        edits: All fills and corrections, in order.
        gaps: Gaps of unknown length that were not given a fixed text.
        experts: Names of the m experts.
        has_memory: Whether the last expert is the memory.
        ungated: Number of experts whose weight does not depend on their confidence; they are the first. None: all.
        positions: (n,) positions that were read, ascending.
        read_confidence: (n,) probability that each byte is correct; 1 where it was known.
        read_field: (n, m) weight of each expert, rows on the simplex.
        read_regions: (n,) expert whose domain each position belongs to, as a column of the field; -1 where no evidence
            was gathered.
        cross_entropy: Mean negative log-probability of hidden visible bytes, in nats per byte; None if not measured.
        local_gain: Improvement of local over global weights in predicting such bytes, in nats per byte; None if not
            measured.
        channels: Names of the channels whose errors in visible text were corrected, in order; empty if lost text was
            restored.
        rate: Error rate of this document, as a multiple of the channel's; None if the channel has no rate.
        lost_unit: What each mark stands for, as a value of the option ``lost``: ``any``, ``bytes``, ``invalid``,
            ``characters`` or ``encoding:NAME``.
        out_of_time: Stage that the time limit interrupted: ``decoding``, ``rescoring``, ``alternatives`` or
            ``correcting``; None if there was enough time.
        notices: Statements about this result for its user.
        cost: Network evaluations and seconds.
        precision: Name of a pretrained expert -> the number format of its arithmetic.
        encoding: Encoding that the document was read in.
        notation: Editorial notation of the document, a value of the option ``notation``.
    """

    observed: bytes
    edits: tuple[Edit, ...] = ()
    gaps: tuple[Gap, ...] = ()
    experts: tuple[str, ...]
    has_memory: bool = False
    ungated: int | None = None
    positions: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    read_confidence: Floats = field(default_factory=lambda: np.empty(0))
    read_field: Floats | None = None
    read_regions: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    cross_entropy: float | None = None
    local_gain: float | None = None
    channels: tuple[str, ...] = ()
    rate: float | None = None
    lost_unit: str = "bytes"
    out_of_time: str | None = None
    notices: tuple[Notice, ...] = ()
    cost: Cost
    precision: Mapping[str, str] = field(default_factory=dict)
    encoding: str = UTF8
    notation: str = "plain"

    @property
    def out_of_domain(self) -> bool:
        """Whether no expert predicts this text well."""
        return any(notice.kind == OUT_OF_DOMAIN for notice in self.notices)

    @property
    def not_covered(self) -> bool:
        """Whether text was left unchanged because the models do not cover it; ``notices`` gives the reasons."""
        return any(notice.kind in NOT_COVERED for notice in self.notices)

    @property
    def global_weight_suffices(self) -> bool | None:
        """Whether a global weight would have restored about as much; None if unknown."""
        return None if self.local_gain is None else self.local_gain < RESULTS.min_local_gain

    @property
    def is_correction(self) -> bool:
        """Whether visible text was corrected; otherwise lost text was restored."""
        return bool(self.channels)

    @property
    def unit(self) -> str:
        """Unit of the counts: ``byte``, ``character`` (marks that stand for characters) or ``correction``."""
        if self.is_correction:
            return "correction"
        return "character" if are_marks_characters(self.lost_unit) or self.lost_unit == ANY_CHARACTER else "byte"

    @cached_property
    def data(self) -> bytes:
        """The document as bytes: valid UTF-8, with known bytes unchanged and marks where it is unfilled."""
        return splice(self.observed, ((*edit.span, edit.written()) for edit in self.edits))

    @cached_property
    def text(self) -> str:
        """The document as text."""
        return self.data.decode()

    @cached_property
    def encoded(self) -> tuple[bytes, str]:
        """The text in the encoding of the document, and that encoding.

        If a restored character does not exist in it, the whole text is UTF-8.
        """
        return (self.data, UTF8) if self.encoding == UTF8 else encode_text(self.text, self.encoding)

    @cached_property
    def changes(self) -> tuple[Edit, ...]:
        """The edits without those whose text the user supplied."""
        return tuple(edit for edit in self.edits if not edit.is_fixed)

    @cached_property
    def corrections(self) -> tuple[Edit, ...]:
        """The edits that change the text, without those whose text the user supplied and those that stay unfilled."""
        return tuple(edit for edit in self.changes if not edit.placeholders)

    @cached_property
    def tokens(self) -> NDArray[np.int16]:
        """(L,) bytes; the best candidate where they are unfilled."""
        data = splice(self.observed, ((*edit.span, edit.data) for edit in self.edits))
        return np.frombuffer(data, dtype=np.uint8).astype(np.int16)

    @property
    def length(self) -> int:
        """L, the number of bytes."""
        return len(self.tokens)

    @cached_property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Half-open range of positions of each of ``edits``."""
        longer = accumulate((len(edit.data) - edit.span[1] + edit.span[0] for edit in self.edits), initial=0)
        starts = (edit.span[0] + shift for edit, shift in zip(self.edits, longer, strict=False))
        return tuple((start, start + len(edit.data)) for edit, start in zip(self.edits, starts, strict=True))

    def origin(self, position: int) -> tuple[int, int]:
        """Return the range of bytes of the damaged document for a position; for an edited one, that of its marker."""
        index = bisect_right(self.ranges, (position, self.length)) - 1
        if index < 0:
            return position, position + 1
        edit, (start, stop) = self.edits[index], self.ranges[index]
        if position < stop:
            return edit.byte_spans[position - start] if edit.byte_spans else edit.span
        return position - stop + edit.span[1], position - stop + edit.span[1] + 1

    @cached_property
    def confidence(self) -> Floats:
        """(L,) probability that each byte is correct; 1 where it was known."""
        confidence = np.ones(self.length)
        confidence[self.positions] = self.read_confidence
        return confidence

    @cached_property
    def field(self) -> Floats:
        """(L, m) weight of each expert, rows on the simplex.

        Where nothing was read, ungated experts have equal weights and the others have weight 0.
        """
        field = np.zeros((self.length, len(self.experts)))
        ungated = len(self.experts) if self.ungated is None else max(1, self.ungated)
        field[:, :ungated] = 1 / ungated
        if self.read_field is not None:
            field[self.positions] = self.read_field
        return field

    @cached_property
    def regions(self) -> Ints:
        """(L,) expert whose domain each position belongs to, as a column of ``field``; -1 without evidence."""
        regions = np.full(self.length, -1)
        regions[self.positions] = self.read_regions
        return regions

    @cached_property
    def changed(self) -> Bools:
        """(L,) True where a byte was lost or changed."""
        changed = np.zeros(self.length, dtype=bool)
        for edit, (start, stop) in zip(self.edits, self.ranges, strict=True):
            changed[start:stop] = not edit.is_fixed
        return changed

    @cached_property
    def unfilled(self) -> Bools:
        """(L,) True where a lost byte is unfilled."""
        unfilled = np.zeros(self.length, dtype=bool)
        for edit, (start, _) in zip(self.edits, self.ranges, strict=True):
            if edit.placeholders:
                unfilled[[start + index for index in edit.placeholders]] = True
        return unfilled

    @cached_property
    def counted(self) -> Bools:
        """(L,) True at the positions that a summary counts: every byte, or the first byte of every character."""
        if self.unit == "byte":
            return np.ones(self.length, dtype=bool)
        counted: Bools = (self.tokens & 0xC0) != 0x80
        return counted

    def counts(self, selected: Bools | slice) -> Counts:
        """Return the counts of the selected positions; ``selected`` is a mask (L,) or a range."""
        confidence = self.confidence[selected][(self.changed & self.counted)[selected]]
        return count(confidence)

    @cached_property
    def summary(self) -> Summary:
        """Counts of this restoration."""
        if self.is_correction:
            unfilled = [edit for edit in self.changes if edit.placeholders]
            parts = [
                CountedPart(
                    count(np.array([edit.probability for edit in edits])), is_unfilled, self.mean_weights.tolist()
                )
                for edits, is_unfilled in ((self.corrections, False), (unfilled, True))
                if edits
            ]
        else:
            lost = self.changed & self.counted
            masks = ((lost & ~self.unfilled, False), (lost & self.unfilled, True))
            parts = [
                CountedPart(self.counts(mask), unfilled, self.field[mask].mean(axis=0))
                for mask, unfilled in masks
                if mask.any()
            ]
        return summarize(
            parts,
            len(self.experts),
            length=self.length,
            spans=len(self.changes),
            provenance=sum(self.sources.values()),
            fixed=len(self.edits) - len(self.changes),
        )

    @property
    def mean_weights(self) -> Floats:
        """(m,) mean weight of each expert at changed positions; at the first position if text was only deleted."""
        weights: Floats = (self.field[self.changed] if self.changed.any() else self.field[:1]).mean(axis=0)
        return weights

    @cached_property
    def provenance(self) -> dict[int, MemorySource]:
        """Position -> the text and line that the memory copied its byte from."""
        return {
            start + index: source
            for edit, (start, _) in zip(self.edits, self.ranges, strict=True)
            for index, source in edit.sources.items()
        }

    @cached_property
    def sources(self) -> dict[str | None, int]:
        """Name of a text -> number of filled bytes that were copied from it, most used first.

        None is the document itself.
        """
        counts = Counter(
            source.name
            for edit in self.edits
            for index, source in edit.sources.items()
            if index not in edit.placeholders
        )
        return dict(counts.most_common())

    @cached_property
    def lost_by(self) -> str | None:
        """The encoding that lost the characters (``find_encoding``); None if marks are bytes."""
        if not are_marks_characters(self.lost_unit):
            return None
        return find_encoding("".join(edit.text for edit in self.changes), self.lost_unit)

    @property
    def expected_accuracy(self) -> float | None:
        """Expected share of correct units among those filled, their mean confidence; None if none was filled."""
        return self.summary.expected_accuracy

    def proposals(self, gap: Gap) -> list[tuple[str, float]]:
        """Return the best candidates of a gap, with their probabilities.

        Without ``alternatives`` there is one, the best candidate.
        """
        start, stop = gap.at
        edit, first = next(
            (edit, first)
            for edit, (first, last) in zip(self.edits, self.ranges, strict=True)
            if first <= start and stop <= last
        )
        inside = slice(start - first, stop - first)
        probability = float(self.confidence[start:stop].prod() * gap.length_probability)
        if (start, stop) == (first, first + len(edit.data)):
            probability, inside = edit.probability, slice(None)
        candidates = edit.alternatives or (Candidate(edit.data, probability),)
        return [(candidate.data[inside].decode(errors="replace"), candidate.probability) for candidate in candidates]

    @cached_property
    def record(self) -> "Record":
        """The result as typed plain values, for JSON, the report and the web page."""
        from conservator.results.pieces import make_record

        return make_record(self)

    def to_json(self) -> str:
        """Return the record and the text as JSON; the field is averaged over bins."""
        return self.record.to_json()

    def to_html(self, title: str = "Restored document", pictures: "Sequence[Picture]" = ()) -> str:
        """Return the report, with pictures of changed lines: one self-contained HTML file."""
        from conservator.results.html import as_page

        return as_page(self.record, title, pictures)

    def _repr_html_(self) -> str:
        """Return the report in an iframe, for notebooks."""
        from conservator.results.html import as_frame

        return as_frame(self.record)


def count(confidence: Floats) -> Counts:
    """Return the counts of units with these confidences (n,)."""
    return Counts(len(confidence), int((confidence >= RESULTS.min_confident).sum()), float(confidence.sum()))


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
