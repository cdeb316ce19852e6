"""Parquet tables: one column of text, of which every row is a document."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from conservator.batch.items import Holder, Item, Lookup, key_of, too_large
from conservator.errors import ConservatorError

ROWS = 64  # that are read at a time


@dataclass(frozen=True)
class Parquet(Holder):
    """A ``.parquet`` file; see ``Holder``. Other columns, the schema and the groups of rows are kept."""

    field: str

    def count(self) -> int:
        """Its rows."""
        with self._open() as table:
            return int(table.metadata.num_rows)

    def items(self) -> Iterator[Item]:
        """The rows of the column."""
        number = 0
        with self._open() as table:
            for batch in reading(self.path, table.iter_batches(batch_size=ROWS, columns=[self.field])):
                for text in batch.column(0).to_pylist():
                    number += 1
                    yield self._item(text, number)

    def write(self, handle: BinaryIO, restored: Lookup) -> None:
        """The table with restored rows, a group of rows at a time."""
        from pyarrow import array, parquet

        with self._open() as table:
            schema, described = table.schema_arrow, table.metadata
            place = schema.get_field_index(self.field)
            groups = range(described.num_row_groups)
            packed = described.row_group(0).column(0).compression if groups else "SNAPPY"
            compression = "NONE" if packed == "UNCOMPRESSED" else packed
            with parquet.ParquetWriter(handle, schema, compression=compression) as writer:
                for group in reading(self.path, (table.read_row_group(number) for number in groups)):
                    texts = [self._replaced(text, restored) for text in group.column(place).to_pylist()]
                    column = array(texts, type=schema.field(place).type)
                    writer.write_table(group.set_column(place, schema.field(place), column), max(1, len(texts)))

    def _replaced(self, text: str | None, restored: Lookup) -> str | None:
        data = restored(self._item(text, 0).key)
        return text if data is None else data.decode()

    def _item(self, text: str | None, number: int) -> Item:
        name = f"{self.path}#{number}"
        if text is None:
            return Item(name, 0, key_of(b"null"), None, problem="it is null")
        data = text.encode()
        if len(data) > self.largest:
            return Item(name, len(data), key_of(data, is_text=True), None, True, too_large(len(data), self.largest))
        return Item(name, len(data), key_of(data, is_text=True), data, is_text=True)

    def _open(self) -> Any:
        """The table, which has the column, and text in it."""
        try:
            from pyarrow import lib, parquet, types
        except ImportError as error:
            problem = f'{self.path}: {error.name} is not installed; pip install "conservator[batch]" brings it'
            raise ConservatorError(problem) from error
        try:
            table = parquet.ParquetFile(self.path)
        except (lib.ArrowException, OSError) as error:
            raise ConservatorError(f"cannot read {self.path}: {first_line(error)}") from error
        schema = table.schema_arrow
        place = schema.get_field_index(self.field)
        if place < 0:
            names = ", ".join(schema.names[:12])
            raise ConservatorError(f"{self.path} has no column {self.field!r} ({names}); --field names another")
        kind = schema.field(place).type
        if not (types.is_string(kind) or types.is_large_string(kind)):
            raise ConservatorError(f"{self.path}: the column {self.field!r} holds {kind}, not text")
        return table


def reading(path: Path, parts: Iterator[Any]) -> Iterator[Any]:
    """The parts of a table; raise a ConservatorError where the file is damaged."""
    from pyarrow import lib

    try:
        yield from parts
    except (lib.ArrowException, OSError) as error:
        raise ConservatorError(f"cannot read {path}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """The first line of what an error says."""
    return (str(error).splitlines() or [type(error).__name__])[0]
