"""Damaged documents: bytes with marks where some are lost, converted to the tokens that experts read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from conservator.errors import Advice, ConservatorError, OptionError
from conservator.vocabularies import BYTES

MARK = "\ufffd"  # what software writes for a character that it cannot decode
TWICE = MARK.encode().decode("latin-1")  # its bytes, read in the wrong encoding once more: it counts as a mark, too
LOST = BYTES.mask
ANY = 4  # lost bytes that fit wherever a longer gap would fit: three may end a character, and one may begin the next
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
FixedText = tuple[int, int, str]  # a half-open range of bytes of the document, and the text that stands there
# A complete character of UTF-8. Windows of bytes may begin anywhere: no match begins inside a character.
CHARACTER = re.compile(
    rb"[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}"
    rb"|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
NO_CHARACTER = b"\xff"  # a byte that CHARACTER never matches


@dataclass(frozen=True)
class DamagedDocument:
    """A document as bytes, some of them lost: L positions, one for each byte.

    The n signs are the marks and gap signs of the input document, in order. A mark has one position; a gap sign has
    none until its length is chosen. A stretch of which the text is given is a sign, too: it has the positions of that
    text.

    Attributes:
        tokens: (L,) int16, bytes, or LOST.
        places: (n,) the position of the first byte that each sign stands for.
        lengths: (n,) how many bytes each sign stands for.
        spans: (n, 2) the bytes of the input document that each sign consists of, as half-open ranges.
        is_gap: (n,) True for a gap sign, False for a mark.
        mark: the text that stands for a lost byte.
        gap: the text that stands for a stretch of unknown length, or None.
        fixed: the indices of the signs whose text is given.
        length_probability: (g,) the probability that each of the g gaps has the length that was chosen for it; None
            before that.
    """

    tokens: NDArray[np.int16]
    places: Ints
    lengths: Ints
    spans: Ints
    is_gap: NDArray[np.bool_]
    mark: str
    gap: str | None
    fixed: tuple[int, ...] = ()
    length_probability: Floats | None = None

    @property
    def lost(self) -> Ints:
        """The positions of the lost bytes."""
        return np.flatnonzero(self.tokens == LOST)

    @property
    def gaps(self) -> Ints:
        """The indices of the gap signs among the signs."""
        return np.flatnonzero(self.is_gap)

    def with_lengths(self, lengths: list[int], probability: Sequence[float] | None = None) -> "DamagedDocument":
        """The document with ``lengths`` lost bytes in its gaps, in order. The gaps must not have lengths yet.

        Args:
            lengths: of the g gaps.
            probability: (g,) of these lengths; 1 by default.
        """
        gaps = self.gaps
        places = np.repeat(self.places[gaps], lengths)
        chosen = self.lengths.copy()
        chosen[gaps] = lengths
        added = np.cumsum(chosen - self.lengths) - (chosen - self.lengths)  # bytes added by the gaps before each sign
        tokens = np.insert(self.tokens, places, LOST)
        sure = np.ones(len(lengths)) if probability is None else np.array(probability, dtype=np.float64)
        return replace(self, tokens=tokens, places=self.places + added, lengths=chosen, length_probability=sure)

    @property
    def marks(self) -> Ints:
        """The indices of the signs that are marks whose text is not known."""
        unknown = np.ones(len(self.places), dtype=bool)
        unknown[list(self.fixed)] = False
        return np.flatnonzero(unknown & ~self.is_gap)

    def with_widths(self, widths: Ints) -> "DamagedDocument":
        """The document whose n ``marks`` stand for ``widths`` (n,) lost bytes each; it must have no gaps."""
        lengths, repeats = self.lengths.copy(), np.ones(len(self.tokens), dtype=np.int64)
        lengths[self.marks], repeats[self.places[self.marks]] = widths, widths
        more = lengths - self.lengths
        return replace(
            self, tokens=np.repeat(self.tokens, repeats), places=self.places + np.cumsum(more) - more, lengths=lengths
        )

    def around_gap(self, number: int, lengths: list[int], reach: int) -> "Surroundings":
        """The text within ``reach`` bytes of the gap ``number``.

        Earlier gaps have the ``lengths`` that were chosen for them, later gaps have ANY bytes each, and this one none.
        """
        places = self.places[self.gaps]
        place, assumed = int(places[number]), np.array([*lengths, 0, *[ANY] * (len(places) - number - 1)])
        start, stop = max(0, place - reach), min(len(self.tokens), place + reach)
        near = (places >= start) & (places <= stop)
        tokens = np.insert(
            self.tokens[start:stop].astype(np.int64), np.repeat(places[near] - start, assumed[near]), LOST
        )
        before = place - start + int(assumed[:number][near[:number]].sum())
        first, last = max(0, before - reach), min(len(tokens), before + reach)
        cut = (start + first > 0, stop - len(tokens) + last < len(self.tokens))
        return Surroundings(tokens[first:last], before - first, *cut)

    @cached_property
    def _ends(self) -> tuple[Ints, Ints]:
        """(n,) where each sign ends, and (n + 1,) how many bytes longer the input is than the tokens before each."""
        longer = np.cumsum(self.spans[:, 1] - self.spans[:, 0] - self.lengths)
        return self.places + self.lengths, np.concatenate([[0], longer])

    def origins(self, positions: Ints) -> Ints:
        """(k, 2) the ranges of the input document that ``positions`` (k,) are from; for a lost byte, its whole sign."""
        ends, longer = self._ends
        before = np.searchsorted(ends, positions, side="right")  # how many signs end before each byte
        found = positions + longer[before]
        found = np.stack([found, found + 1], axis=1)
        within = before < len(ends)
        within[within] = self.places[before[within]] <= positions[within]
        found[within] = self.spans[before[within]]
        return found

    def gap_of(self, positions: Ints) -> Ints:
        """(k,) the number of the gap that each of ``positions`` (k,) is in; -1 for none."""
        return _owner(self.places[self.gaps], self.lengths[self.gaps], positions)

    def sign_of(self, positions: Ints) -> Ints:
        """(k,) the number of the sign that each of ``positions`` (k,) is in; -1 for none."""
        return _owner(self.places, self.lengths, positions)

    def settled(self, lost: str) -> "DamagedDocument":
        """The document, after a check that all its known bytes fit into valid UTF-8.

        Half a character beside a mark fits, because the mark may stand for its other half.

        Args:
            lost: what happens to bytes that do not fit: ``invalid`` counts them as lost; any other option raises an
                error that names the first of them.
        """
        gaps = self.places[self.gaps]
        places = np.repeat(gaps, ANY)
        widened = np.insert(self.tokens, places, LOST)
        invalid = BYTES.constraint.violations(widened)
        if len(places):
            invalid = invalid[np.insert(np.ones(len(self.tokens), dtype=bool), places, False)]
        if not invalid.any():
            return self
        if lost != "invalid":
            first = np.flatnonzero(invalid)[:1]
            number = int(invalid.sum())
            allow_invalid_utf8 = "1 byte that does not fit" if number == 1 else f"{number} bytes that do not fit"
            raise ConservatorError(
                f"the document is not UTF-8: byte {self.origins(first)[0, 0]} is {self.tokens[first[0]]:#04x}, which "
                "fits into no text",
                Advice("encoding", "NAME", "names its encoding, if it is another"),
                Advice("lost", "invalid", f"counts the {allow_invalid_utf8} as lost"),
            )
        return replace(self, tokens=np.where(invalid, np.int16(LOST), self.tokens))


@dataclass(frozen=True)
class Surroundings:
    """The text around a gap.

    Attributes:
        tokens: (L,) bytes, or LOST.
        place: the index in ``tokens`` before which the gap is.
        goes_on_before: whether the document has bytes before ``tokens``.
        goes_on_after: whether the document has bytes after ``tokens``.
    """

    tokens: Ints
    place: int
    goes_on_before: bool
    goes_on_after: bool


def read_damaged(
    document: str | bytes, *, mark: str = MARK, gap: str | None = None, fixed: Sequence[FixedText] = ()
) -> DamagedDocument:
    """Find the marks and the gap signs of a document.

    Args:
        document: text, or bytes.
        mark: the text that stands for one lost byte. Where it is the default, ``TWICE`` counts as a mark, too.
        gap: the text that stands for a lost stretch of unknown length; None for no such stretches.
        fixed: lost places of the document, in order, and the text that stands in each of them; signs in it are text. A
            place consists of marks, gap signs, bytes that are not valid UTF-8, and bytes of characters that are partly
            lost.

    Raises:
        OptionError: ``fixed`` covers visible text or a part of a sign, or its ranges are not in order.
    """
    if not mark or gap == "":
        raise ConservatorError(f"the {'gap' if mark else 'mark'} is empty; it must be at least one character")
    if gap == mark:
        raise ConservatorError(f"the mark and the gap are both {mark!r}; they must differ")
    one, many = encode(mark, "the mark"), encode(gap, "the gap") if gap is not None else None
    data = encode(document, "the document") if isinstance(document, str) else bytes(document)
    twice = TWICE.encode() if mark == MARK and gap != TWICE else None
    wanted = sorted(filter(None, (one, many, twice)), key=len, reverse=True)
    found = re.compile(b"|".join(map(re.escape, wanted)))
    given = _given(fixed, len(data))
    if given:
        _check_lost(given, data, read_damaged(data, mark=mark, gap=gap))
    signs: list[tuple[int, int, bool, bytes]] = [(start, stop, False, text) for start, stop, text in given]
    number = 0
    for match in found.finditer(data):
        while number < len(given) and given[number][1] <= match.start():
            number += 1
        if number == len(given) or match.end() <= given[number][0]:
            signs.append((*match.span(), match.group() == many, b""))
    signs.sort(key=lambda sign: sign[:2])
    spans = np.array([sign[:2] for sign in signs], dtype=np.int64).reshape(-1, 2)
    is_gap = np.array([sign[2] for sign in signs], dtype=bool)
    texts = [sign[3] for sign in signs]
    lengths = np.array(
        [len(text) or 1 - gap_sign for text, gap_sign in zip(texts, is_gap, strict=True)], dtype=np.int64
    )
    widths = spans[:, 1] - spans[:, 0]
    places = spans[:, 0] - (np.cumsum(widths - lengths) - (widths - lengths))
    filled = [token for text, length in zip(texts, lengths, strict=True) for token in text or [LOST] * length]
    tokens = np.insert(_without(data, spans), np.repeat(places - (np.cumsum(lengths) - lengths), lengths), filled)
    numbers = tuple(number for number, text in enumerate(texts) if text)
    return DamagedDocument(tokens, places, lengths, spans, is_gap, mark, gap, numbers)


def _given(fixed: Sequence[FixedText], length: int) -> list[tuple[int, int, bytes]]:
    """Stretches with their text as bytes, after a check that they are in order and within the document."""
    done, found = 0, []
    for start, stop, text in fixed:
        if not done <= start < stop <= length:
            raise OptionError(
                "fixed",
                f"the bytes {start} to {stop}; ranges must be in order, apart, not empty, and within {length} bytes",
            )
        if not text:
            raise OptionError("fixed", f"no text for the bytes {start} to {stop}; at least one character is needed")
        found.append((start, stop, encode(text, "known text")))
        done = stop
    return found


def _check_lost(given: list[tuple[int, int, bytes]], data: bytes, damaged: DamagedDocument) -> None:
    """Refuse known text for bytes that are not lost: ``damaged`` is the document ``data`` without known text."""
    masked = bytearray(data)
    for first, last in damaged.spans.tolist():
        masked[first:last] = NO_CHARACTER * (last - first)
    invalid = np.flatnonzero(damaged.tokens != damaged.settled("invalid").tokens)
    for first in damaged.origins(invalid)[:, 0].tolist():
        masked[first : first + 1] = NO_CHARACTER
    starts, stops = damaged.spans[:, 0], damaged.spans[:, 1]
    for start, stop, _ in given:
        edge = max(0, start - 3)  # a character has up to 4 bytes, so one that reaches into the range begins here
        for character in CHARACTER.finditer(masked, edge, min(len(data), stop + 3)):
            first, last = max(start, character.start()), min(stop, character.end())
            if first < last:
                raise OptionError(
                    "fixed",
                    f"the bytes {start} to {stop} are not all lost: {data[first:last]!r} at {first} to {last} is "
                    "visible text, which is never replaced; give the range of the marks or the gap alone",
                )
        for place in (start, stop):
            sign = int(np.searchsorted(stops, place, side="right"))
            if sign < len(starts) and starts[sign] < place:
                raise OptionError(
                    "fixed",
                    f"the bytes {start} to {stop} end inside the sign at {starts[sign]} to {stops[sign]}; give the "
                    "range of whole signs",
                )


def _owner(places: Ints, lengths: Ints, positions: Ints) -> Ints:
    """(k,) which of the ranges that begin at ``places`` and have ``lengths`` each position is in; -1 for none."""
    if not len(places):
        return np.full(len(positions), -1)
    owner = np.searchsorted(places, positions, side="right") - 1
    inside = (owner >= 0) & (positions < places[owner] + lengths[owner])
    found: Ints = np.where(inside, owner, -1)
    return found


def _without(data: bytes, spans: Ints) -> NDArray[np.int16]:
    """The bytes that are not part of a sign."""
    tokens: NDArray[np.int16] = np.frombuffer(data, dtype=np.uint8).astype(np.int16)
    if not len(spans):
        return tokens
    edges = [0, *spans.flatten().tolist(), len(data)]
    return np.concatenate([tokens[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)])


def encode(text: str, name: str) -> bytes:
    """The UTF-8 of ``text``; raise a ConservatorError for half a surrogate pair, which has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ConservatorError(
            f"{name} has half a surrogate pair at character {error.start}, which is no text; give bytes instead"
        ) from error
