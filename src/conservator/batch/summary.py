"""The table of all documents of a batch, as Parquet or CSV."""

import csv
import io
import json
from importlib.util import find_spec
from itertools import islice
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
    "confident": int,
    "unfilled": int,
    "expected_accuracy": float,
    "encoding": str,
    "written": str,
    "notices": str,
    "weights": str,
    "seconds": float,
    "cpu_seconds": float,
    "peak_bytes": int,
}
ROWS_PER_WRITE = 4096  # rows: of a Parquet row group [untuned]


def summary_name() -> str:
    """``summary.parquet``, or ``summary.csv`` if pyarrow is not installed."""
    return "summary.csv" if find_spec("pyarrow") is None else "summary.parquet"


def to_summary_row(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row of ``Ledger.rows`` into a row of the table."""
    result: DocumentResult = row["result"]
    summary = {name: row.get(name, getattr(result, name, None)) for name in COLUMNS}
    summary["weights"] = json.dumps(result.weights)
    summary["notices"] = ", ".join(result.notices)
    target = row["target"].encode(errors="surrogateescape").decode(errors="replace")
    summary["target"] = "" if result.binary else target
    return summary


def write_summary(handle: BinaryIO, ledger: Ledger) -> None:
    """Write the table of all documents."""
    rows = map(to_summary_row, ledger.rows())
    if summary_name().endswith(".csv"):
        text = io.TextIOWrapper(handle, encoding="utf-8", newline="", write_through=True)
        table = csv.DictWriter(text, list(COLUMNS))
        table.writeheader()
        table.writerows(rows)
        text.detach()
        return
    import pyarrow as arrow
    from pyarrow import parquet

    arrow_types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64()}
    schema = arrow.schema([(name, arrow_types[kind]) for name, kind in COLUMNS.items()])
    with parquet.ParquetWriter(handle, schema) as writer:
        while batch := list(islice(rows, ROWS_PER_WRITE)):
            writer.write_table(arrow.Table.from_pylist(batch, schema))
