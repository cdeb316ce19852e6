"""Damaged documents: text with marks where bytes were lost, as tokens that experts read."""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from conservator.documents.utf8 import LOST, find_invalid
from conservator.errors import ConservatorError

MARK = "\ufffd"  # what software itself writes for a lost character
ANY = 4  # lost bytes that stand for any number of them: three may end a character, one begin the next
Tokens = NDArray[np.int64]
Invalid = Literal["refuse", "lost", "keep"]


@dataclass(frozen=True)
class Damaged:
    """A document as bytes, some of them lost.

    Attributes:
        tokens: (L,) bytes, or LOST.
        origin: (L, 2) where each token stands in the document that was read: from this byte up to that one.
        gap_of: (L,) the number of the gap that a token fills, -1 where it fills none.
        gaps: the places in ``tokens`` before which a stretch of unknown length is missing, in order, each with the
            place of its sign in the document that was read; empty once their lengths are known.
        mark: what stands for a lost byte.
        gap: what stands for a stretch of unknown length, or None.
    """

    tokens: Tokens
    origin: Tokens
    gap_of: Tokens
    gaps: tuple[tuple[int, tuple[int, int]], ...]
    mark: str
    gap: str | None

    @property
    def lost(self) -> NDArray[np.bool_]:
        """(L,) True where a byte is lost."""
        lost: NDArray[np.bool_] = self.tokens == LOST
        return lost

    def with_lengths(self, lengths: list[int]) -> "Damaged":
        """The document with so many lost bytes in each of its gaps."""
        places = np.repeat([place for place, _ in self.gaps], lengths).astype(np.int64)
        owners = np.array([sign for _, sign in self.gaps], dtype=np.int64).reshape(-1, 2)
        return Damaged(
            np.insert(self.tokens, places, LOST),
            np.insert(self.origin, places, np.repeat(owners, lengths, axis=0), axis=0),
            np.insert(self.gap_of, places, np.repeat(np.arange(len(lengths)), lengths)),
            (),
            self.mark,
            self.gap,
        )


def read_damaged(
    document: str | bytes, *, mark: str = MARK, gap: str | None = None, invalid: Invalid = "refuse"
) -> Damaged:
    """Find what was lost in a document.

    Half a character beside a mark fits into valid UTF-8, since the mark may be its other half.

    Args:
        document: text, or bytes.
        mark: stands for one lost byte.
        gap: stands for a stretch of unknown length; None for no such thing.
        invalid: what to do about bytes that fit into no valid UTF-8: ``refuse`` the document and say where they are,
            count them as ``lost``, or ``keep`` them, for a channel under which any byte may be wrong.
    """
    if not mark or gap == "":
        raise ConservatorError("the mark is empty; it must be at least one character")
    if gap == mark:
        raise ConservatorError(f"the mark and the gap are both {mark!r}; they must differ")
    one, many = encode(mark, "the mark"), encode(gap, "the gap") if gap is not None else None
    data = encode(document, "the document") if isinstance(document, str) else bytes(document)
    found = re.compile(b"|".join(re.escape(sign) for sign in sorted(filter(None, (one, many)), key=len, reverse=True)))
    tokens, starts, gaps, done, count = [], [], [], 0, 0
    for sign in [*found.finditer(data), None]:
        stop = sign.start() if sign else len(data)
        tokens.append(np.frombuffer(data, dtype=np.uint8, count=stop - done, offset=done).astype(np.int64))
        starts.append(np.arange(done, stop))
        count += stop - done
        if sign and sign.group() == many:
            gaps.append((count, sign.span()))
        elif sign:
            tokens.append(np.array([LOST]))
            starts.append(np.array([stop]))
            count += 1
        done = sign.end() if sign else stop
    joined, start = np.concatenate(tokens), np.concatenate(starts)
    origin = np.stack([start, start + np.where(joined == LOST, len(one), 1)], axis=1)
    settled = joined if invalid == "keep" else settle(joined, origin, [place for place, _ in gaps], invalid)
    return Damaged(settled, origin, np.full(len(joined), -1), tuple(gaps), mark, gap)


def settle(tokens: Tokens, origin: Tokens, gaps: list[int], what: Invalid) -> Tokens:
    """Return ``tokens`` without bytes that fit into no valid UTF-8, or say where the first of them is."""
    places = np.repeat(gaps, ANY).astype(np.int64)
    widened = np.insert(tokens, places, LOST)
    kept = np.insert(np.ones(len(tokens), dtype=bool), places, False)
    invalid = find_invalid(widened)[kept]
    if invalid.any() and what == "refuse":
        first = int(np.flatnonzero(invalid)[0])
        raise ConservatorError(
            f"the document is not UTF-8: byte {origin[first, 0]} is {tokens[first]:#04x}, which fits into no text; "
            "such bytes can be counted as lost (--lost invalid)"
        )
    return np.where(invalid, LOST, tokens)


def encode(text: str, name: str) -> bytes:
    """The UTF-8 of ``text``; a clear error where it has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ConservatorError(
            f"{name} has half a surrogate pair at character {error.start}, which is no text; give bytes instead"
        ) from error
