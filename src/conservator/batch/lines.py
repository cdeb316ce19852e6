"""Files with a JSON object a line: one field of each is a document."""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from json.decoder import JSONDecoder
from typing import BinaryIO, cast

from conservator.batch.items import Holder, Item, Lookup, key_of, packing, too_large
from conservator.errors import ConservatorError

BLANK = " \t\r\n"
DECODER = JSONDecoder()


@dataclass(frozen=True)
class Lines(Holder):
    """A ``.jsonl`` or ``.jsonl.gz`` file; see ``Holder``. A line that is not restored stays byte for byte."""

    field: str

    def count(self) -> int:
        """The lines that are not blank; the first of them must have the field."""
        number = 0
        for line in self._lines():
            if line.strip():
                if not number:
                    self._check(line)
                number += 1
        return number

    def items(self) -> Iterator[Item]:
        """The field of every line that is not blank."""
        for number, line in enumerate(self._lines(), 1):
            if line.strip():
                yield self._item(line, number)

    def write(self, handle: BinaryIO, restored: Lookup) -> None:
        """The lines with restored fields."""
        with packing(handle, packed=self._is_packed) as out:
            for number, line in enumerate(self._lines(), 1):
                data = restored(self._item(line, number).key) if line.strip() else None
                out.write(line if data is None else with_field(line, self.field, data.decode()))

    @property
    def _is_packed(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    def _item(self, line: bytes, number: int) -> Item:
        name = f"{self.path}#{number}"
        problem = too_large(len(line), self.largest) if len(line) > self.largest else ""
        if not problem:
            try:
                start, stop = find_field(line.decode(), self.field)
                data = json.loads(line.decode()[start:stop]).encode()
                return Item(name, len(data), key_of(data, is_text=True), data, is_text=True)
            except UnicodeError as error:
                problem = f"it is not valid Unicode: {error}"
            except (ValueError, RecursionError) as error:
                problem = str(error)
        return Item(name, len(line), key_of(line), None, problem=problem)

    def _check(self, line: bytes) -> None:
        try:
            find_field(line.decode(), self.field)
        except (ValueError, RecursionError) as error:
            raise ConservatorError(f"{self.path}, its first line: {error}; --field names another") from error

    def _lines(self) -> Iterator[bytes]:
        """The lines with their ends."""
        try:
            with gzip.open(self.path) if self._is_packed else self.path.open("rb") as handle:
                yield from cast(BinaryIO, handle)
        except (OSError, EOFError, zlib.error) as error:  # gzip raises all three for a damaged file
            raise ConservatorError(f"cannot read {self.path}: {error}") from error


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
