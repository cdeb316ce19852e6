"""JSON lines files: one field of each line is a document."""

import gzip
import hashlib
import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from io import BufferedReader
from itertools import groupby
from json.decoder import JSONDecoder
from typing import BinaryIO, NamedTuple, cast

from conservator.batch.items import (
    InputFile,
    Item,
    Lookup,
    OutputFile,
    as_damaged_input,
    content_key,
    gzip_writer,
    oversize_problem,
)
from conservator.errors import ConservatorError

WHITESPACE = " \t\r\n"
DECODER = JSONDecoder()
LISTED_FIELDS = 12  # fields: listed in an error message [untuned]


class LineChunk(NamedTuple):
    """A line, or a chunk of a line that exceeds the size limit.

    Attributes:
        number: the number of the line, from 1.
        data: its bytes, with the line ending.
        is_line: whether it is the whole line.
    """

    number: int
    data: bytes
    is_line: bool


@dataclass(frozen=True)
class JsonLinesFile(InputFile):
    """A ``.jsonl`` or ``.jsonl.gz`` file; see ``InputFile``. A line that is not restored is copied byte for byte.

    Attributes:
        field: the field of each line that holds the text.
    """

    field: str

    def inspect(self) -> int | None:
        """Check that the first line that is not blank has the field."""
        with as_damaged_input(self.path), self.path.open("rb") as source:
            first = next((chunk for chunk in self._chunks(source) if chunk.data.strip()), None)
        try:
            if first is not None and first.is_line:
                find_field(first.data.decode(), self.field)
        except (ValueError, RecursionError) as error:
            raise ConservatorError(f"{self.path}, first line: {error}; --field selects the field") from error
        return 0 if first is None else None

    def items(self, source: BufferedReader) -> Iterator[Item]:
        """Yield the field of every line that is not blank."""
        lines = (chunks for _, chunks in groupby(self._chunks(source), lambda chunk: chunk.number))
        for chunks in lines:
            chunk = next(chunks)
            if not chunk.is_line:
                yield self._oversized_item(chunk, chunks)
            elif chunk.data.strip():
                yield self._item(chunk.data, chunk.number)

    def write(self, source: BufferedReader, output: OutputFile, restored: Lookup) -> None:
        """Write the lines with restored fields."""
        with gzip_writer(cast(BinaryIO, output), compress=self._is_compressed) as out:
            for chunk in self._chunks(source):
                line, data = chunk.data, None
                if chunk.is_line and line.strip():
                    data = restored(self._item(line, chunk.number).key)
                out.write(line if data is None else with_field(line, self.field, data.decode()))

    @property
    def _is_compressed(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    def _item(self, line: bytes, number: int) -> Item:
        name = f"{self.path}#{number}"
        try:
            start, stop = find_field(line.decode(), self.field)
            data = json.loads(line.decode()[start:stop]).encode()
            return Item(name, len(data), content_key(data, is_text=True), data, is_text=True)
        except UnicodeError as error:
            problem = f"invalid Unicode: {error}"
        except (ValueError, RecursionError) as error:
            problem = str(error)
        return Item(name, len(line), content_key(line), None, problem=problem)

    def _oversized_item(self, first: LineChunk, rest: Iterator[LineChunk]) -> Item:
        """Hash a line that exceeds the size limit, one chunk at a time."""
        size, digest = len(first.data), hashlib.sha256(first.data)
        for chunk in rest:
            size += len(chunk.data)
            digest.update(chunk.data)
        name = f"{self.path}#{first.number}"
        return Item(name, size, digest.hexdigest(), None, problem=oversize_problem(size, self.max_bytes))

    def _chunks(self, source: BufferedReader) -> Iterator[LineChunk]:
        """Yield the lines with their endings; longer lines than ``max_bytes`` come in chunks."""
        with as_damaged_input(self.path), gzip.open(source) if self._is_compressed else nullcontext(source) as handle:
            number = 1
            while data := handle.readline(self.max_bytes + 1):
                ends = data.endswith(b"\n")
                is_line = len(data) <= self.max_bytes
                yield LineChunk(number, data, is_line)
                while not is_line and not ends and (data := handle.readline(self.max_bytes + 1)):
                    ends = data.endswith(b"\n")
                    yield LineChunk(number, data, is_line)
                number += 1


def find_field(line: str, field: str) -> tuple[int, int]:
    """Find the string value of a field in a JSON object, as (start, stop); the last one if the field is repeated.

    Raises:
        ValueError: if the line is not a JSON object, or the field is missing or not a string.
    """
    at, span = skip_whitespace(line, 0), None
    if line[at : at + 1] != "{":
        raise ValueError("expected a JSON object")
    names = []
    at = skip_whitespace(line, at + 1)
    while line[at : at + 1] == '"':
        name, at = DECODER.raw_decode(line, at)
        at = skip_whitespace(line, at)
        if line[at : at + 1] != ":":
            raise ValueError(f"expected a colon at character {at}")
        start = skip_whitespace(line, at + 1)
        value, stop = DECODER.raw_decode(line, start)
        names.append(name)
        if name == field:
            span = (start, stop) if isinstance(value, str) else None
        at = skip_whitespace(line, stop)
        if line[at : at + 1] != ",":
            break
        at = skip_whitespace(line, at + 1)
    if line[at : at + 1] != "}" or skip_whitespace(line, at + 1) != len(line):
        raise ValueError(f"invalid JSON at character {at}")
    if span is None:
        listed = ", ".join(names[:LISTED_FIELDS]) or "none"
        problem = f"the field {field!r} is not a string" if field in names else f"no field {field!r} (fields: {listed})"
        raise ValueError(problem)
    return span


def skip_whitespace(line: str, at: int) -> int:
    """Return the first position from ``at`` on that is not whitespace."""
    while at < len(line) and line[at] in WHITESPACE:
        at += 1
    return at


def with_field(line: bytes, field: str, value: str) -> bytes:
    """Replace the string of a field; the new string is ASCII if the old one was."""
    text = line.decode()
    start, stop = find_field(text, field)
    return (text[:start] + json.dumps(value, ensure_ascii=text[start:stop].isascii()) + text[stop:]).encode()
