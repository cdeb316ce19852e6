"""The table of all documents of a batch, as Parquet or CSV."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any, BinaryIO

from conservator.batch.engine import DocumentResult
from conservator.batch.ledger import Ledger

COLUMNS = {
    "document": str,
    "target": str,
    "outcome": str,
    "reason": str,
    "bytes": int,
    "lost": int,
    "restored": int,
    "sure": int,
    "left_open": int,
    "expected": float,
    "encoding": str,
    "written": str,
    "notices": str,
    "shares": str,
    "seconds": float,
    "cpu_seconds": float,
    "peak_bytes": int,
}
ROWS = 4096  # that are written at a time


def summary_name() -> str:
    """``summary.parquet``, or ``summary.csv`` where pyarrow is not installed."""
    return "summary.csv" if find_spec("pyarrow") is None else "summary.parquet"


def as_row(row: dict[str, Any]) -> dict[str, Any]:
    """A document as a row of the table."""
    done: DocumentResult = row["done"]
    found = {name: row.get(name, getattr(done, name, None)) for name in COLUMNS}
    found["shares"] = json.dumps(done.shares)
    found["notices"] = ", ".join(done.notices)
    found["target"] = "" if done.binary else row["target"].encode(errors="surrogateescape").decode(errors="replace")
    return found


def write_summary(handle: BinaryIO, ledger: Ledger) -> None:
    """Write the table of all documents."""
    rows = map(as_row, ledger.rows())
    if summary_name().endswith(".csv"):
        text = io.TextIOWrapper(handle, encoding="utf-8", newline="", write_through=True)
        table = csv.DictWriter(text, list(COLUMNS))
        table.writeheader()
        table.writerows(rows)
        text.detach()
        return
    import pyarrow as arrow
    from pyarrow import parquet

    kinds = {str: arrow.string(), int: arrow.int64(), float: arrow.float64()}
    schema = arrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    with parquet.ParquetWriter(handle, schema) as writer:
        for batch in batched(rows, ROWS):
            writer.write_table(arrow.Table.from_pylist(batch, schema))


def batched(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """The rows, ``size`` at a time."""
    batch = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
