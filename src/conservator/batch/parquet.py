"""Parquet tables: one column of text, of which every row is a document."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from conservator.batch.items import DamagedInputError, InputFile, Item, Lookup, key_of, reading, too_large
from conservator.errors import ConservatorError

ROWS = 64  # that are read at a time, at most
BATCH = 2**26  # bytes of rows that are read at a time, and of a group of rows that is written, unless one row has more
LARGEST_CHUNK = 2**28  # uncompressed bytes of a column in a group of rows that are allowed at any ratio of compression
LARGEST_RATIO = 64  # of uncompressed to compressed bytes in a larger one


@dataclass(frozen=True)
class Parquet(InputFile):
    """A ``.parquet`` file; see ``InputFile``.

    Other columns, the schema and the compression of each column are kept, and the groups of rows that have at most
    ``BATCH`` bytes; larger ones are divided.
    """

    field: str

    def count(self) -> int:
        """Its rows."""
        with self._open() as table:
            return int(table.metadata.num_rows)

    def items(self) -> Iterator[Item]:
        """The rows of the column."""
        number = 0
        with self._open() as table, reading(self.path):
            for group in range(table.metadata.num_row_groups):
                for batch in self._batches(table, group, [self.field]):
                    for data in texts_of(batch.column(0)):
                        number += 1
                        yield self._item(data, number)

    def write(self, handle: BinaryIO, restored: Lookup) -> None:
        """The table with restored rows; no more than a part of a group of rows is in memory."""
        from pyarrow import Table, parquet

        with self._open() as table, reading(self.path):
            schema = table.schema_arrow
            with parquet.ParquetWriter(handle, schema, compression=compression_of(table.metadata)) as writer:
                for group in range(table.metadata.num_row_groups):
                    batches, size = list[Any](), 0
                    for batch in self._batches(table, group, None):
                        if batches and size + batch.nbytes > BATCH:
                            write_group(writer, Table.from_batches(batches, schema))
                            batches, size = [], 0
                        size += batch.nbytes
                        batches.append(self._replaced(batch, restored))
                    write_group(writer, Table.from_batches(batches, schema))

    def _replaced(self, batch: Any, restored: Lookup) -> Any:
        """A batch of rows with restored texts."""
        from pyarrow import RecordBatch, array

        place = batch.schema.get_field_index(self.field)
        old = texts_of(batch.column(place))
        texts = [restored(self._item(data, 0).key) for data in old]
        new = [before if after is None else after for before, after in zip(old, texts, strict=True)]
        kind = batch.schema.field(place).type
        column = array(new, type=binary_of(kind)).view(kind)  # without a check: what is not UTF-8 stays as it is
        columns = [column if number == place else one for number, one in enumerate(batch.columns)]
        return RecordBatch.from_arrays(columns, schema=batch.schema)

    def _item(self, data: bytes | None, number: int) -> Item:
        name = f"{self.path}#{number}"
        if data is None:
            return Item(name, 0, key_of(b"null"), None, problem="it is null")
        key = key_of(data, is_text=True)
        if len(data) > self.largest:
            return Item(name, len(data), key, None, True, too_large(len(data), self.largest))
        try:
            data.decode()
        except UnicodeDecodeError as error:
            return Item(name, len(data), key, None, True, f"it is not valid UTF-8: {error.reason} at {error.start}")
        return Item(name, len(data), key, data, is_text=True)

    def _batches(self, table: Any, group: int, columns: list[str] | None) -> Iterator[Any]:
        """The rows of a group, a few at a time, so that they fit into memory.

        A value is no larger than its column in the group, but each row may repeat it (a dictionary holds it once).
        """
        described = table.metadata.row_group(group)
        chunks = [described.column(number) for number in range(described.num_columns)]
        for chunk in chunks:
            limit = max(LARGEST_CHUNK, LARGEST_RATIO * chunk.total_compressed_size)
            if chunk.total_uncompressed_size > limit:
                raise DamagedInputError(
                    f"cannot read {self.path}: the column {chunk.path_in_schema!r} has "
                    f"{chunk.total_uncompressed_size:,} bytes in one group of rows; at most {limit:,} are read; write "
                    "the table with smaller groups"
                )
        values = max(1, *(chunk.num_values // max(1, described.num_rows) for chunk in chunks))  # in a row, of a list
        largest = values * sum(chunk.total_uncompressed_size for chunk in chunks)
        rows = min(ROWS, max(1, BATCH // max(1, largest)))
        yield from table.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False)

    def _open(self) -> Any:
        """The table, which has the column, and text in it."""
        try:
            from pyarrow import parquet, types
        except ImportError as error:
            problem = f'{self.path}: {error.name} is not installed; pip install "conservator[batch]" brings it'
            raise ConservatorError(problem) from error
        with reading(self.path):
            table = parquet.ParquetFile(self.path, buffer_size=2**16, pre_buffer=False)  # a page at a time
        schema = table.schema_arrow
        place = schema.get_field_index(self.field)
        if place < 0:
            names = ", ".join(schema.names[:12])
            raise ConservatorError(f"{self.path} has no column {self.field!r} ({names}); --field names another")
        kind = schema.field(place).type
        if not (types.is_string(kind) or types.is_large_string(kind)):
            raise ConservatorError(f"{self.path}: the column {self.field!r} holds {kind}, not text")
        return table


def texts_of(column: Any) -> list[bytes | None]:
    """The texts of a column as bytes, which need not be valid UTF-8."""
    found: list[bytes | None] = column.view(binary_of(column.type)).to_pylist()
    return found


def binary_of(kind: Any) -> Any:
    """The type of bytes that has the same layout as a type of text."""
    from pyarrow import binary, large_binary, types

    return binary() if types.is_string(kind) else large_binary()


def compression_of(described: Any) -> dict[str, str] | str:
    """The compression of each column, as a writer takes it; that of the first group of rows holds for all."""
    if not described.num_row_groups:
        return "SNAPPY"
    group = described.row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    return {one.path_in_schema: "NONE" if one.compression == "UNCOMPRESSED" else one.compression for one in chunks}


def write_group(writer: Any, table: Any) -> None:
    """Write rows as one group."""
    writer.write_table(table, max(1, len(table)))
