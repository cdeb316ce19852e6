"""Parquet tables: each row of a text column is a document."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, ClassVar

from conservator.batch.items import (
    DamagedInputError,
    InputFile,
    Item,
    Lookup,
    OutputFile,
    as_damaged_input,
    content_key,
    oversize_problem,
)
from conservator.errors import ConservatorError

MAX_ROWS = 64  # rows: read at a time [untuned]
# bytes: rows read at a time, and of a row group that is written; a single row may be larger [untuned]
MAX_BATCH_BYTES = 2**26
# bytes: uncompressed column chunk that is accepted at any compression ratio [safety limit]
MAX_CHUNK_BYTES = 2**28
# ratio: of uncompressed to compressed bytes in larger column chunks [safety limit]
MAX_COMPRESSION_RATIO = 64
LISTED_COLUMNS = 12  # columns: listed in an error message [untuned]


@dataclass(frozen=True)
class ParquetFile(InputFile):
    """A ``.parquet`` file; see ``InputFile``.

    Other columns, the schema and the compression of each column are preserved. Row groups of at most
    ``MAX_BATCH_BYTES`` are preserved; larger ones are split.

    Attributes:
        field: the column that holds the text.
    """

    random_access: ClassVar[bool] = True
    field: str

    def inspect(self) -> int:
        """Check the schema and count the rows; only the metadata at the end of the file is read."""
        with as_damaged_input(self.path), self.path.open("rb") as source, self._open(source) as table:
            return int(table.metadata.num_rows)

    def items(self, source: BufferedReader) -> Iterator[Item]:
        """Yield the rows of the column."""
        number = 0
        with self._open(source) as table, as_damaged_input(self.path):
            for group in range(table.metadata.num_row_groups):
                for batch in self._batches(table, group, [self.field]):
                    for data in column_bytes(batch.column(0)):
                        number += 1
                        yield self._item(data, number)

    def write(self, source: BufferedReader, output: OutputFile, restored: Lookup) -> None:
        """Write the table with restored rows; at most one row group is in memory."""
        from pyarrow import Table, parquet

        with self._open(source) as table, as_damaged_input(self.path):
            schema = table.schema_arrow
            with parquet.ParquetWriter(output, schema, compression=compression_of(table.metadata)) as writer:
                for group in range(table.metadata.num_row_groups):
                    batches, size = list[Any](), 0
                    for batch in self._batches(table, group, None):
                        if batches and size + batch.nbytes > MAX_BATCH_BYTES:
                            write_row_group(writer, Table.from_batches(batches, schema))
                            batches, size = [], 0
                        size += batch.nbytes
                        batches.append(self._with_restored(batch, restored))
                    write_row_group(writer, Table.from_batches(batches, schema))

    def _with_restored(self, batch: Any, restored: Lookup) -> Any:
        """Replace the texts of a batch of rows by restored ones."""
        from pyarrow import RecordBatch, array

        index = batch.schema.get_field_index(self.field)
        originals = column_bytes(batch.column(index))
        results = [restored(self._item(data, 0).key) for data in originals]
        texts = [original if result is None else result for original, result in zip(originals, results, strict=True)]
        text_type = batch.schema.field(index).type
        column = array(texts, type=binary_type(text_type)).view(text_type)  # a view keeps invalid UTF-8 unchanged
        columns = [column if number == index else other for number, other in enumerate(batch.columns)]
        return RecordBatch.from_arrays(columns, schema=batch.schema)

    def _item(self, data: bytes | None, number: int) -> Item:
        name = f"{self.path}#{number}"
        if data is None:
            return Item(name, 0, content_key(b"null"), None, problem="the text is null")
        key = content_key(data, is_text=True)
        if len(data) > self.max_bytes:
            return Item(name, len(data), key, None, True, oversize_problem(len(data), self.max_bytes))
        try:
            data.decode()
        except UnicodeDecodeError as error:
            problem = f"invalid UTF-8: {error.reason} at byte {error.start}"
            return Item(name, len(data), key, None, True, problem)
        return Item(name, len(data), key, data, is_text=True)

    def _batches(self, table: Any, group: int, columns: list[str] | None) -> Iterator[Any]:
        """Yield the rows of a row group in batches that fit into memory.

        A value is at most as large as its column chunk, but every row may repeat it (a dictionary stores it once).
        """
        row_group = table.metadata.row_group(group)
        chunks = [row_group.column(number) for number in range(row_group.num_columns)]
        for chunk in chunks:
            limit = max(MAX_CHUNK_BYTES, MAX_COMPRESSION_RATIO * chunk.total_compressed_size)
            if chunk.total_uncompressed_size > limit:
                raise DamagedInputError(
                    f"cannot read {self.path}: the column {chunk.path_in_schema!r} has "
                    f"{chunk.total_uncompressed_size:,} bytes in one row group; the limit is {limit:,}; write the "
                    "table with smaller row groups"
                )
        # A row of a list column has several values.
        values_per_row = max(1, *(chunk.num_values // max(1, row_group.num_rows) for chunk in chunks))
        max_row_bytes = values_per_row * sum(chunk.total_uncompressed_size for chunk in chunks)
        rows = min(MAX_ROWS, max(1, MAX_BATCH_BYTES // max(1, max_row_bytes)))
        yield from table.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False)

    def _open(self, source: BufferedReader) -> Any:
        """Open the table; raise a ConservatorError if the column is missing or not text."""
        try:
            from pyarrow import parquet, types
        except ImportError as error:
            problem = f'{self.path}: {error.name} is not installed; install it with pip install "conservator[batch]"'
            raise ConservatorError(problem) from error
        with as_damaged_input(self.path):
            table = parquet.ParquetFile(source, buffer_size=2**16, pre_buffer=False)  # reads one page at a time
        schema = table.schema_arrow
        index = schema.get_field_index(self.field)
        if index < 0:
            names = ", ".join(schema.names[:LISTED_COLUMNS])
            raise ConservatorError(
                f"{self.path} has no column {self.field!r} (columns: {names}); --field selects the column"
            )
        column_type = schema.field(index).type
        if not (types.is_string(column_type) or types.is_large_string(column_type)):
            raise ConservatorError(f"{self.path}: the column {self.field!r} must hold text, but holds {column_type}")
        return table


def column_bytes(column: Any) -> list[bytes | None]:
    """The texts of a column as bytes, which may be invalid UTF-8."""
    values: list[bytes | None] = column.view(binary_type(column.type)).to_pylist()
    return values


def binary_type(text_type: Any) -> Any:
    """The binary type with the same layout as a text type."""
    from pyarrow import binary, large_binary, types

    return binary() if types.is_string(text_type) else large_binary()


def compression_of(metadata: Any) -> dict[str, str] | str:
    """The compression of each column, as ParquetWriter expects it; that of the first row group is used for all."""
    if not metadata.num_row_groups:
        return "SNAPPY"
    group = metadata.row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    return {
        chunk.path_in_schema: "NONE" if chunk.compression == "UNCOMPRESSED" else chunk.compression for chunk in chunks
    }


def write_row_group(writer: Any, table: Any) -> None:
    """Write a table as one row group."""
    writer.write_table(table, max(1, len(table)))
