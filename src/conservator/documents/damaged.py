"""Damaged documents: bytes with marks for lost bytes, converted to the tokens that experts read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from conservator.arrays import Floats, Ints
from conservator.errors import Advice, ConservatorError, OptionError
from conservator.vocabularies import BYTES

MARK = "\ufffd"  # written by software for a character that it cannot decode
MOJIBAKE_MARK = MARK.encode().decode("latin-1")  # U+FFFD after another wrong decoding; it counts as a mark, too
STRAY_ENCODING = "windows-1252"  # of invalid bytes in a text in UTF-8, usually copied from another file
WARMUP_TEXT = f"A small document, in which a letter is l{MARK}st."  # restored by workers before their first task
LOST = BYTES.mask
# bytes: assumed length of a gap before its length is chosen; where a longer gap is valid UTF-8, four bytes are, because
# three can end a character and one can start the next [definition]
ASSUMED_GAP_BYTES = 4
FixedText = tuple[int, int, str]  # a half-open range of bytes of the document, and the text for it
Pin = tuple[int, int, bytes]  # a half-open range of bytes that was restored before, and the bytes for it
# A complete character of UTF-8. The search may start at any byte: no match starts inside a character.
CHARACTER = re.compile(
    rb"[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}"
    rb"|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
NO_CHARACTER = b"\xff"  # a byte that CHARACTER never matches


@dataclass(frozen=True)
class DamagedDocument:
    """A document as bytes with lost bytes: L positions, one for each byte.

    The n markers are the marks and the gap markers of the input document, in order. A mark has one position; a gap
    marker has none until its length is chosen. A span with fixed text is a marker, too: it has the positions of that
    text.

    Attributes:
        tokens: (L,) int16, bytes, or LOST.
        positions: (n,) the position of the first byte of each marker.
        lengths: (n,) the number of bytes that each marker stands for.
        spans: (n, 2) half-open byte ranges of the markers in the input document.
        is_gap: (n,) True for a gap marker, False for a mark.
        mark: the text that stands for a lost byte.
        gap_texts: (g,) the text of each of the g gap markers.
        fixed: the indices of the markers with fixed text.
        length_probability: (g,) the probability of the chosen length of each of the g gaps; None before the lengths are
            chosen.
    """

    tokens: NDArray[np.int16]
    positions: Ints
    lengths: Ints
    spans: Ints
    is_gap: NDArray[np.bool_]
    mark: str
    gap_texts: tuple[str, ...] = ()
    fixed: tuple[int, ...] = ()
    length_probability: Floats | None = None

    @classmethod
    def of_tokens(cls, tokens: NDArray[np.int16]) -> "DamagedDocument":
        """Return a document with lost bytes and no markers."""
        none = np.empty(0, dtype=np.int64)
        return cls(tokens, none, none, np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=bool), MARK)

    @property
    def lost(self) -> Ints:
        """The positions of the lost bytes."""
        return np.flatnonzero(self.tokens == LOST)

    @property
    def visible_counts(self) -> Floats:
        """The number of visible bytes of each value: (V,)."""
        return np.bincount(self.tokens[self.tokens != LOST], minlength=BYTES.size).astype(np.float64)

    @property
    def gaps(self) -> Ints:
        """The indices of the gap markers among the markers."""
        return np.flatnonzero(self.is_gap)

    def with_lengths(self, lengths: list[int], probability: Sequence[float] | None = None) -> "DamagedDocument":
        """Return the document with ``lengths`` lost bytes in its gaps, in order. The gaps must not have lengths yet.

        Args:
            lengths: the lengths of the g gaps.
            probability: (g,) the probabilities of these lengths; 1 by default.
        """
        probabilities = np.ones(len(lengths)) if probability is None else np.array(probability, dtype=np.float64)
        return replace(self._widened(self.gaps, lengths), length_probability=probabilities)

    @property
    def fixed_positions(self) -> Ints:
        """The positions of fixed text."""
        ranges = [
            np.arange(self.positions[marker], self.positions[marker] + self.lengths[marker]) for marker in self.fixed
        ]
        return np.concatenate(ranges) if ranges else np.empty(0, dtype=np.int64)

    @property
    def marks(self) -> Ints:
        """The indices of the markers that are marks without fixed text."""
        not_fixed = np.ones(len(self.positions), dtype=bool)
        not_fixed[list(self.fixed)] = False
        return np.flatnonzero(not_fixed & ~self.is_gap)

    def with_widths(self, widths: Ints) -> "DamagedDocument":
        """Return the document whose n ``marks`` stand for ``widths`` (n,) lost bytes each."""
        return self._widened(self.marks, widths)

    def _widened(self, markers: Ints, lengths: Ints | list[int]) -> "DamagedDocument":
        """Return the document whose ``markers`` (indices) have ``lengths`` lost bytes each, not fewer than now."""
        new_lengths = self.lengths.copy()
        new_lengths[markers] = lengths
        added = new_lengths - self.lengths
        return replace(
            self,
            tokens=np.insert(self.tokens, np.repeat(self.positions, added), LOST),
            positions=self.positions + np.cumsum(added) - added,
            lengths=new_lengths,
        )

    def around_gap(self, number: int, lengths: list[int], radius: int) -> "GapContext":
        """Return the text within ``radius`` bytes of the gap ``number``.

        Earlier gaps have the chosen ``lengths``, later gaps ASSUMED_GAP_BYTES each, and this gap has length 0.
        """
        gap_positions = self.positions[self.gaps]
        position = int(gap_positions[number])
        assumed = np.array([*lengths, 0, *[ASSUMED_GAP_BYTES] * (len(gap_positions) - number - 1)])
        start, stop = max(0, position - radius), min(len(self.tokens), position + radius)
        nearby = (gap_positions >= start) & (gap_positions <= stop)
        tokens = np.insert(
            self.tokens[start:stop].astype(np.int64), np.repeat(gap_positions[nearby] - start, assumed[nearby]), LOST
        )
        offset = position - start + int(assumed[:number][nearby[:number]].sum())
        first, last = max(0, offset - radius), min(len(tokens), offset + radius)
        continues = (start + first > 0, stop - len(tokens) + last < len(self.tokens))
        return GapContext(tokens[first:last], offset - first, *continues)

    def origins(self, positions: Ints) -> Ints:
        """Return (k, 2) the input ranges of ``positions`` (k,); for a lost byte, the range of its whole marker."""
        excess = np.concatenate([[0], np.cumsum(self.spans[:, 1] - self.spans[:, 0] - self.lengths)])
        starts = positions + excess[np.searchsorted(self.positions + self.lengths, positions, side="right")]
        ranges = np.stack([starts, starts + 1], axis=1)
        markers = self.marker_of(positions)
        ranges[markers >= 0] = self.spans[markers[markers >= 0]]
        return ranges

    def gap_of(self, positions: Ints) -> Ints:
        """Return (k,) the number of the gap that contains each of ``positions`` (k,); -1 for none."""
        gap_numbers = np.where(self.is_gap, np.cumsum(self.is_gap) - 1, -1)
        return np.append(gap_numbers, -1)[self.marker_of(positions)]

    def marker_of(self, positions: Ints) -> Ints:
        """Return (k,) the index of the marker that contains each of ``positions`` (k,); -1 for none."""
        markers = np.searchsorted(self.positions, positions, side="right") - 1
        ends = np.append(self.positions + self.lengths, 0)  # -1 is the index of a marker that contains no position
        containing: Ints = np.where(positions < ends[markers], markers, -1)
        return containing

    def check_utf8(self, lost: str) -> "DamagedDocument":
        """Check that all known bytes can be part of valid UTF-8, and return the document.

        Half a character beside a mark is valid, because the mark may stand for the other half.

        Args:
            lost: the treatment of invalid bytes: ``invalid`` counts them as lost; any other value raises an error with
                the position of the first invalid byte.
        """
        inserted = np.repeat(self.positions[self.gaps], ASSUMED_GAP_BYTES)
        widened = np.insert(self.tokens, inserted, LOST)
        invalid = BYTES.constraint.violations(widened)
        if len(inserted):
            invalid = invalid[np.insert(np.ones(len(self.tokens), dtype=bool), inserted, False)]
        if not invalid.any():
            return self
        if lost != "invalid":
            first = np.flatnonzero(invalid)[:1]
            count = int(invalid.sum())
            counted = "1 invalid byte" if count == 1 else f"{count} invalid bytes"
            raise ConservatorError(
                f"the document is not UTF-8: byte {self.origins(first)[0, 0]} is {self.tokens[first[0]]:#04x}, which "
                "is invalid at this position",
                Advice("encoding", "NAME", "selects another encoding"),
                Advice("lost", "invalid", f"counts the {counted} as lost"),
                *stray_advice(self.tokens[invalid].astype(np.uint8).tobytes(), counted),
            )
        return replace(self, tokens=np.where(invalid, np.int16(LOST), self.tokens))


@dataclass(frozen=True)
class GapContext:
    """The text around a gap.

    Attributes:
        tokens: (L,) bytes, or LOST.
        position: the index in ``tokens`` before which the gap is.
        continues_before: whether the document has bytes before ``tokens``.
        continues_after: whether the document has bytes after ``tokens``.
    """

    tokens: Ints
    position: int
    continues_before: bool
    continues_after: bool


def stray_advice(data: bytes, counted: str) -> tuple[Advice, ...]:
    """Return the advice to read invalid bytes as Windows-1252, if they are characters of it.

    Args:
        data: The invalid bytes.
        counted: Their number, for the message.
    """
    try:
        data.decode(STRAY_ENCODING)
    except UnicodeDecodeError:
        return ()
    return (Advice("channel", "mojibake", f"reads the {counted} as {STRAY_ENCODING}"),)


def read_damaged(
    document: str | bytes,
    *,
    mark: str = MARK,
    gap: str | Sequence[str] | None = None,
    fixed: Sequence[FixedText] = (),
    pins: Sequence[Pin] = (),
    fixes_visible: bool = False,
) -> DamagedDocument:
    """Find the marks and the gap markers of a document.

    Args:
        document: text, or bytes.
        mark: the text that stands for one lost byte. With the default, ``MOJIBAKE_MARK`` counts as a mark, too.
        gap: the text that stands for a lost span of unknown length, or several such texts, of which the longest is
            found first; None if there are no such spans.
        fixed: lost spans of the document, in order, with the text for each. Markers in this text are ordinary text. A
            span consists of marks, gap markers, bytes that are not valid UTF-8, and bytes of partly lost characters.
        pins: further spans with fixed text, of any content; a span or its text may be empty.
        fixes_visible: whether the spans may contain any other bytes, because visible bytes may be wrong.

    Raises:
        OptionError: ``fixed`` covers visible text or a part of a marker, or its spans are not in order.
    """
    gaps = () if gap is None else (gap,) if isinstance(gap, str) else tuple(gap)
    if not mark or "" in gaps:
        raise ConservatorError(f"the {'gap' if mark else 'mark'} is empty; it must have at least one character")
    if mark in gaps:
        raise ConservatorError(f"the mark and the gap are both {mark!r}; they must differ")
    mark_bytes, gap_bytes = encode(mark, "the mark"), {encode(marker, "the gap") for marker in gaps}
    data = encode(document, "the document") if isinstance(document, str) else bytes(document)
    mojibake_bytes = MOJIBAKE_MARK.encode() if mark == MARK and MOJIBAKE_MARK not in gaps else None
    alternatives = sorted(filter(None, (mark_bytes, *gap_bytes, mojibake_bytes)), key=len, reverse=True)
    pattern = re.compile(b"|".join(map(re.escape, alternatives)))
    fixed_bytes = encode_fixed(fixed, len(data))
    if fixed_bytes:
        without_fixed = read_damaged(data, mark=mark, gap=gaps)
        if not fixes_visible:
            _check_lost(fixed_bytes, data, without_fixed)
        _check_markers(fixed_bytes, without_fixed)
    fixed_bytes = sorted([*fixed_bytes, *pins])
    # Each marker: the start and the end of its bytes, whether it is a gap, its fixed text.
    markers: list[tuple[int, int, bool, bytes | None]] = [
        (start, stop, False, text) for start, stop, text in fixed_bytes
    ]
    index = 0
    for match in pattern.finditer(data):
        while index < len(fixed_bytes) and fixed_bytes[index][1] <= match.start():
            index += 1
        if index == len(fixed_bytes) or match.end() <= fixed_bytes[index][0]:
            markers.append((*match.span(), match.group() in gap_bytes, None))
    markers.sort(key=lambda marker: marker[:2])
    spans = np.array([marker[:2] for marker in markers], dtype=np.int64).reshape(-1, 2)
    is_gap = np.array([marker[2] for marker in markers], dtype=bool)
    texts = [marker[3] for marker in markers]
    lengths = np.array(
        [
            1 - is_gap_marker if text is None else len(text)
            for text, is_gap_marker in zip(texts, is_gap.tolist(), strict=True)
        ],
        dtype=np.int64,
    )
    widths = spans[:, 1] - spans[:, 0]
    positions = spans[:, 0] - (np.cumsum(widths - lengths) - (widths - lengths))
    visible: NDArray[np.int16] = np.frombuffer(data, dtype=np.uint8).astype(np.int16)
    parts, done = [], 0
    for (start, stop), text, length in zip(spans.tolist(), texts, lengths, strict=True):
        filling = [LOST] * length if text is None else list(text)
        parts += [visible[done:start], np.array(filling, dtype=np.int16)]
        done = stop
    tokens = np.concatenate([*parts, visible[done:]])
    with_text = tuple(index for index, text in enumerate(texts) if text is not None)
    gap_texts = tuple(data[start:stop].decode() for start, stop in spans[is_gap].tolist())
    return DamagedDocument(tokens, positions, lengths, spans, is_gap, mark, gap_texts, with_text)


def encode_fixed(fixed: Sequence[FixedText], length: int) -> list[Pin]:
    """Return the spans with their fixed text as bytes; check that they are in order and within the document."""
    previous_stop, encoded = 0, []
    for start, stop, text in fixed:
        if not previous_stop <= start < stop <= length:
            raise OptionError(
                "fixed",
                f"the bytes {start} to {stop}; ranges must be in order, disjoint, not empty, and within {length} bytes",
            )
        if not text:
            raise OptionError("fixed", f"the text for the bytes {start} to {stop} must have at least one character")
        encoded.append((start, stop, encode(text, "the fixed text")))
        previous_stop = stop
    return encoded


def _check_lost(fixed: list[tuple[int, int, bytes]], data: bytes, damaged: DamagedDocument) -> None:
    """Refuse fixed text for visible bytes. ``damaged`` is the document ``data`` without fixed text."""
    masked = bytearray(data)
    for first, last in damaged.spans.tolist():
        masked[first:last] = NO_CHARACTER * (last - first)
    invalid = np.flatnonzero(damaged.tokens != damaged.check_utf8("invalid").tokens)
    for first in damaged.origins(invalid)[:, 0].tolist():
        masked[first : first + 1] = NO_CHARACTER
    for start, stop, _ in fixed:
        search_start = max(0, start - 3)  # a character has up to 4 bytes, so one that overlaps the range starts here
        for character in CHARACTER.finditer(masked, search_start, min(len(data), stop + 3)):
            first, last = max(start, character.start()), min(stop, character.end())
            if first < last:
                raise OptionError(
                    "fixed",
                    f"the bytes {start} to {stop} are not all lost: {data[first:last]!r} at {first} to {last} is "
                    "visible text and cannot be replaced; give only the range of the marks or of the gap",
                )


def _check_markers(fixed: list[tuple[int, int, bytes]], damaged: DamagedDocument) -> None:
    """Refuse fixed text for a part of a marker."""
    starts, stops = damaged.spans[:, 0], damaged.spans[:, 1]
    for start, stop, _ in fixed:
        for boundary in (start, stop):
            marker = int(np.searchsorted(stops, boundary, side="right"))
            if marker < len(starts) and starts[marker] < boundary:
                raise OptionError(
                    "fixed",
                    f"the bytes {start} to {stop} split the marker at {starts[marker]} to {stops[marker]}; give the "
                    "range of complete markers",
                )


def encode(text: str, name: str) -> bytes:
    """Return ``text`` as UTF-8; raise a ConservatorError for an unpaired surrogate, which has no UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ConservatorError(
            f"{name} has an unpaired surrogate at character {error.start}, which cannot be encoded; pass bytes instead"
        ) from error
