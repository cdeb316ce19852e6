"""Files with a JSON object a line: one field of each is a document."""

import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from json.decoder import JSONDecoder
from typing import BinaryIO, NamedTuple, cast

from conservator.batch.items import InputFile, Item, Lookup, key_of, packing, reading, too_large
from conservator.errors import ConservatorError

BLANK = " \t\r\n"
DECODER = JSONDecoder()


class Piece(NamedTuple):
    """A line, or a part of one that is too long to be read into memory.

    Attributes:
        number: of the line, from 1.
        data: its bytes, with the end of the line.
        is_line: whether it is the whole line.
    """

    number: int
    data: bytes
    is_line: bool


@dataclass(frozen=True)
class Lines(InputFile):
    """A ``.jsonl`` or ``.jsonl.gz`` file; see ``InputFile``. A line that is not restored stays byte for byte."""

    field: str

    def count(self) -> int:
        """The lines that are not blank; the first of them must have the field."""
        number = 0
        for pieces in self._lines():
            piece = next(pieces)
            if piece.data.strip():
                if not number and piece.is_line:
                    self._check(piece.data)
                number += 1
        return number

    def items(self) -> Iterator[Item]:
        """The field of every line that is not blank."""
        for pieces in self._lines():
            piece = next(pieces)
            if not piece.is_line:
                yield self._long(piece, pieces)
            elif piece.data.strip():
                yield self._item(piece.data, piece.number)

    def write(self, handle: BinaryIO, restored: Lookup) -> None:
        """The lines with restored fields."""
        with packing(handle, packed=self._is_packed) as out:
            for piece in self._pieces():
                line, data = piece.data, None
                if piece.is_line and line.strip():
                    data = restored(self._item(line, piece.number).key)
                out.write(line if data is None else with_field(line, self.field, data.decode()))

    @property
    def _is_packed(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    def _item(self, line: bytes, number: int) -> Item:
        name = f"{self.path}#{number}"
        try:
            start, stop = find_field(line.decode(), self.field)
            data = json.loads(line.decode()[start:stop]).encode()
            return Item(name, len(data), key_of(data, is_text=True), data, is_text=True)
        except UnicodeError as error:
            problem = f"it is not valid Unicode: {error}"
        except (ValueError, RecursionError) as error:
            problem = str(error)
        return Item(name, len(line), key_of(line), None, problem=problem)

    def _long(self, first: Piece, rest: Iterator[Piece]) -> Item:
        """A line that is too long, which is never in memory as a whole."""
        size, digest = len(first.data), hashlib.sha256(first.data)
        for piece in rest:
            size += len(piece.data)
            digest.update(piece.data)
        name = f"{self.path}#{first.number}"
        return Item(name, size, digest.hexdigest(), None, problem=too_large(size, self.largest))

    def _check(self, line: bytes) -> None:
        try:
            find_field(line.decode(), self.field)
        except (ValueError, RecursionError) as error:
            raise ConservatorError(f"{self.path}, its first line: {error}; --field names another") from error

    def _lines(self) -> Iterator[Iterator[Piece]]:
        """The pieces of each line."""
        return (pieces for _, pieces in groupby(self._pieces(), lambda piece: piece.number))

    def _pieces(self) -> Iterator[Piece]:
        """The lines with their ends; one of more than ``largest`` bytes in pieces of at most so many."""
        with reading(self.path), gzip.open(self.path) if self._is_packed else self.path.open("rb") as opened:
            handle, number = cast(BinaryIO, opened), 1
            while data := handle.readline(self.largest + 1):
                ends = data.endswith(b"\n")
                is_line = len(data) <= self.largest
                yield Piece(number, data, is_line)
                while not is_line and not ends and (data := handle.readline(self.largest + 1)):
                    ends = data.endswith(b"\n")
                    yield Piece(number, data, is_line)
                number += 1


def find_field(line: str, field: str) -> tuple[int, int]:
    """Where the string of a field stands in a line that is a JSON object; the last one, if it stands there twice."""
    at, found = skip(line, 0), None
    if line[at : at + 1] != "{":
        raise ValueError("a JSON object is needed")
    names = []
    at = skip(line, at + 1)
    while line[at : at + 1] == '"':
        name, at = DECODER.raw_decode(line, at)
        at = skip(line, at)
        if line[at : at + 1] != ":":
            raise ValueError(f"a colon is needed at character {at}")
        start = skip(line, at + 1)
        value, stop = DECODER.raw_decode(line, start)
        names.append(name)
        if name == field:
            found = (start, stop) if isinstance(value, str) else None
        at = skip(line, stop)
        if line[at : at + 1] != ",":
            break
        at = skip(line, at + 1)
    if line[at : at + 1] != "}" or skip(line, at + 1) != len(line):
        raise ValueError(f"the JSON object is broken at character {at}")
    if found is None:
        listed = ", ".join(names[:12]) or "none"
        raise ValueError(f"the field {field!r} is not a string" if field in names else f"no field {field!r} ({listed})")
    return found


def skip(line: str, at: int) -> int:
    """The first place from ``at`` on that is not blank."""
    while at < len(line) and line[at] in BLANK:
        at += 1
    return at


def with_field(line: bytes, field: str, value: str) -> bytes:
    """The line with another string in a field; in ASCII if it was."""
    text = line.decode()
    start, stop = find_field(text, field)
    return (text[:start] + json.dumps(value, ensure_ascii=text[start:stop].isascii()) + text[stop:]).encode()
