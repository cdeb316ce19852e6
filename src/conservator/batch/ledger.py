"""The ledger: a SQLite file that records finished documents and output files, in transactions of the driver.

The row of a document holds its restored bytes until all output files are written: an output file gets its row only when
it is complete, and several files may hold the same document. A killed run can therefore be resumed at any point.
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from conservator.batch.engine import COPIED, DocumentResult
from conservator.batch.items import Item
from conservator.errors import ConservatorError

NAME = ".conservator.sqlite"
FORMAT = 2
SCHEMA = """
CREATE TABLE documents (
  key TEXT, config TEXT, outcome TEXT, reason TEXT, binary INTEGER, gave_up INTEGER, limits TEXT, lost INTEGER,
  restored INTEGER, sure INTEGER, left_open INTEGER, expected REAL, encoding TEXT, written TEXT, notices TEXT,
  shares TEXT, seconds REAL, cpu_seconds REAL, peak_bytes INTEGER, changed INTEGER, data BLOB, PRIMARY KEY (key, config)
) WITHOUT ROWID;
CREATE TABLE files (
  target BLOB PRIMARY KEY, source TEXT, config TEXT, gave_up INTEGER, written TEXT, coming TEXT
) WITHOUT ROWID;
CREATE TABLE places (
  target BLOB, number INTEGER, name TEXT, size INTEGER, key TEXT, config TEXT, problem TEXT,
  PRIMARY KEY (target, number)
) WITHOUT ROWID;
"""
# Fields of DocumentResult whose column has another name in FORMAT 2: "field column".
RENAMED_COLUMNS = dict(
    pair.split() for pair in ("confident sure", "unfilled left_open", "expected_accuracy expected", "weights shares")
)
JSON_FIELDS = {"notices": str, "weights": float | int}  # fields stored as JSON objects -> the type of their values
SCALAR_FIELDS: dict[str, Any] = {
    field.name: field.type for field in fields(DocumentResult) if field.name not in ("data", *JSON_FIELDS)
}
COLUMNS = [RENAMED_COLUMNS.get(name, name) for name in (*SCALAR_FIELDS, *JSON_FIELDS)]
TEMPORARY_ERRORS = (  # SQLite cannot use the file now; every other error code means that the file is damaged
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
)
MAX_MESSAGE_CHARACTERS = 100  # characters: of a SQLite message in an error [untuned]


class LedgerError(ConservatorError):
    """The ledger cannot be used, so the run cannot continue."""


class WrittenFile(NamedTuple):
    """An output file.

    Attributes:
        source_sha256: the hash of the input; None if the output is not complete.
        config_hash: the hash of the configuration.
        gave_up_under: the limits under which documents in it were given up, or were too large; "" if none were.
        written_sha256: the hash of the complete output; None if nothing was written.
        pending_sha256: the hash of a new version that was about to replace it; None without one.
    """

    source_sha256: str | None
    config_hash: str | None
    gave_up_under: str
    written_sha256: str | None
    pending_sha256: str | None = None


class Ledger:
    """The records of all runs with one output folder."""

    def __init__(self, folder: Path) -> None:
        """Open the ledger of a folder, or create it."""
        self.path = folder / NAME
        try:
            self.connection = sqlite3.connect(self.path, isolation_level=None)
        except sqlite3.Error as error:
            raise self._error(error) from error
        try:
            self._prepare()
        except ConservatorError:
            self.close()
            raise

    def _prepare(self) -> None:
        self._run("PRAGMA auto_vacuum=FULL")
        self._run("PRAGMA journal_mode=WAL")
        self._run("PRAGMA synchronous=NORMAL")
        version = self._first_row("PRAGMA user_version")
        if version == (0,):
            with self._as_ledger_error():
                self.connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version={FORMAT}; COMMIT;")
        elif version != (FORMAT,):
            raise LedgerError(f"{self.path} was written by another version of conservator; choose another --out")
        self._run("PRAGMA temp_store=FILE")
        self._run("CREATE TEMP TABLE targets (target BLOB PRIMARY KEY, path TEXT, owner TEXT)")
        self._run(
            "CREATE TEMP TABLE noted (target BLOB, number INTEGER, name TEXT, size INTEGER, key TEXT, problem TEXT, "
            "PRIMARY KEY (target, number)) WITHOUT ROWID"
        )

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def _run(self, query: str, values: Sequence[Any] | dict[str, Any] = ()) -> None:
        with self._as_ledger_error():
            self.connection.execute(query, values)

    def _rows(self, query: str, values: Sequence[Any] = ()) -> Generator[tuple[Any, ...], None, None]:
        with self._as_ledger_error(), closing(self.connection.execute(query, values)) as cursor:
            yield from cursor

    def _first_row(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        with closing(self._rows(query, values)) as rows:
            return next(rows, None)

    @contextmanager
    def _as_ledger_error(self) -> Iterator[None]:
        """Convert errors of SQLite into a LedgerError; its module raises UnicodeError for some damaged files."""
        try:
            yield
        except (sqlite3.Error, UnicodeError) as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> LedgerError:
        """Describe an error of SQLite, and what the user can do."""
        detail = display_text(str(error))[:MAX_MESSAGE_CHARACTERS]
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if code % 2**8 in TEMPORARY_ERRORS:  # the higher bits hold the extended error code
            return LedgerError(f"cannot use {self.path}: {detail}")
        return LedgerError(
            f"cannot use {self.path}: the file is damaged ({detail}); choose another --out, or delete this file and "
            "run once with --force: this restores all documents again and overwrites all results, including those that "
            "you have changed"
        )

    def register(self, target: str, path: str, owner: str) -> str | None:
        """Register an output file of this run.

        Args:
            target: the output file, relative to the output folder.
            path: its input.
            owner: the owner of the file that exists there now; see ``output_folder.Owner``.

        Returns:
            The input that is registered for the same output file, or None if there is no clash.
        """
        query = "SELECT path FROM targets WHERE target = ?"
        row = self._first_row(query, (os.fsencode(target),))
        if row is not None:
            return str(row[0])
        self._run("INSERT INTO targets VALUES (?, ?, ?)", (os.fsencode(target), display_text(path), owner))
        return None

    def owner(self, target: str) -> str | None:
        """The owner of an output file when the run started; None if the file is not registered."""
        row = self._first_row("SELECT owner FROM targets WHERE target = ?", (os.fsencode(target),))
        return None if row is None else str(row[0])

    def find(self, key: str, config_hash: str) -> tuple[DocumentResult, str] | None:
        """The result of a document without its bytes, and the limits under which it was tried.

        Returns:
            None if the document is not done, or if its restored bytes are not recorded any more.
        """
        query = (
            f"SELECT limits, {', '.join(COLUMNS)} FROM documents "
            "WHERE key = ? AND config = ? AND (data IS NOT NULL OR NOT changed)"
        )
        row = self._first_row(query, (key, config_hash))
        return None if row is None else (self._to_result(row[1:]), str(row[0]))

    def data(self, key: str, config_hash: str) -> bytes | None:
        """The restored bytes of a document; None if it is unchanged."""
        row = self._first_row("SELECT data FROM documents WHERE key = ? AND config = ?", (key, config_hash))
        if row is None or row[0] is None:
            return None
        try:
            return zlib.decompress(row[0])
        except (zlib.error, TypeError) as error:
            raise self._error(error) from error

    def record(self, key: str, config_hash: str, result: DocumentResult, limits: str) -> None:
        """Record the result of a document."""
        values = [getattr(result, name) for name in SCALAR_FIELDS]
        values += [json.dumps(getattr(result, name)) for name in JSON_FIELDS]
        row = dict(zip(COLUMNS, values, strict=True)) | {"reason": display_text(result.reason)}
        row |= {"key": key, "config": config_hash, "limits": limits}
        row |= {
            "changed": result.data is not None,
            "data": None if result.data is None else zlib.compress(result.data, 1),
        }
        names = ", ".join(row)
        parameters = ", ".join(f":{name}" for name in row)
        self._run(f"INSERT OR REPLACE INTO documents ({names}) VALUES ({parameters})", row)

    def file(self, target: str) -> WrittenFile | None:
        """The record of an output file; None without one."""
        query = "SELECT source, config, gave_up, written, coming FROM files WHERE target = ?"
        row = self._first_row(query, (os.fsencode(target),))
        if row is None:
            return None
        record = WrittenFile(*row)
        is_valid = all(value is None or isinstance(value, str) for value in row) and record.gave_up_under is not None
        self._check(is_valid, "files")
        return record

    def mark_pending(self, target: str, pending_sha256: str) -> None:
        """Record that a new version of an output file is about to be moved into place; it then belongs to the batch."""
        self._run(
            "INSERT INTO files (target, gave_up, coming) VALUES (?, '', ?) "
            "ON CONFLICT (target) DO UPDATE SET coming = excluded.coming",
            (os.fsencode(target), pending_sha256),
        )

    def note(self, target: str, number: int, item: Item) -> None:
        """Note a document of an output file until the file is complete; the notes are on disk."""
        key = item.key if item.data is not None else f"{item.key}-"  # a document without data has no result
        row = (os.fsencode(target), number, display_text(item.name), item.size, key, display_text(item.problem))
        self._run("INSERT INTO noted VALUES (?, ?, ?, ?, ?, ?)", row)

    def forget(self, target: str) -> None:
        """Delete the notes about the documents of an output file."""
        self._run("DELETE FROM noted WHERE target = ?", (os.fsencode(target),))

    def complete(self, target: str, record: WrittenFile) -> None:
        """Record that an output file is complete, and its documents, which were noted."""
        encoded_target = os.fsencode(target)
        self._run("BEGIN IMMEDIATE")
        try:
            self._run("DELETE FROM places WHERE target = ?", (encoded_target,))
            query = "INSERT INTO places SELECT target, number, name, size, key, ?, problem FROM noted WHERE target = ?"
            self._run(query, (record.config_hash, encoded_target))
            self._run("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", (encoded_target, *record))
            self.forget(target)
        except BaseException:
            with suppress(sqlite3.Error):  # after some errors SQLite has rolled back already
                self.connection.execute("ROLLBACK")
            raise
        self._run("COMMIT")

    def count_documents(self, target: str) -> int:
        """Number of documents in a complete output file."""
        row = self._first_row("SELECT count(*) FROM places WHERE target = ?", (os.fsencode(target),))
        return 0 if row is None else int(row[0])

    def drop_data(self) -> None:
        """Delete restored bytes when all files are written; keep those of files with a document that was given up."""
        self._run(
            "UPDATE documents SET data = NULL WHERE data IS NOT NULL AND key NOT IN (SELECT key FROM places "
            "WHERE target IN (SELECT places.target FROM places JOIN documents AS other ON other.key = places.key "
            "AND other.config = places.config WHERE other.gave_up))"
        )

    def rows(self, order: str = "targets.rowid, number") -> Iterator[dict[str, Any]]:
        """Yield the documents of this run as ``{"document", "target", "bytes", "result"}``.

        Args:
            order: the SQL order; by default that of the inputs.
        """
        columns = ", ".join(f"documents.{name}" for name in COLUMNS)
        query = (
            f"SELECT places.name, places.size, places.target, places.problem, {columns} FROM targets "
            "JOIN places ON places.target = targets.target LEFT JOIN documents "
            f"ON documents.key = places.key AND documents.config = places.config ORDER BY {order}"
        )
        for name, size, target, problem, *values in self._rows(query):
            is_valid = isinstance(target, bytes) and isinstance(size, int) and isinstance(problem, str)
            self._check(is_valid and isinstance(name, str), "places")
            missing = values[0] is None
            result = DocumentResult(COPIED, reason=problem) if missing else self._to_result(values)
            yield {"document": name, "target": os.fsdecode(target), "bytes": size, "result": result}

    def _to_result(self, row: Sequence[Any]) -> DocumentResult:
        values = dict(zip((*SCALAR_FIELDS, *JSON_FIELDS), row, strict=True))
        values |= {name: bool(values[name]) for name, kind in SCALAR_FIELDS.items() if kind is bool}
        for name, kind in SCALAR_FIELDS.items():
            self._check(isinstance(values[name], kind), "documents")
        for name, kind in JSON_FIELDS.items():
            try:
                values[name] = json.loads(values[name])
            except (ValueError, TypeError, RecursionError) as error:
                raise self._error(error) from error
            is_valid = isinstance(values[name], dict)
            self._check(is_valid and all(isinstance(value, kind) for value in values[name].values()), "documents")
        return DocumentResult(**values)

    def _check(self, is_valid: bool, table: str) -> None:
        """Raise a LedgerError if the values of a row have the wrong type."""
        if not is_valid:
            raise self._error(ValueError(f"invalid values in the table {table}"))


def display_text(text: str) -> str:
    """Replace invalid Unicode and control characters, so that a name or message can be displayed."""
    try:
        valid = text.encode(errors="surrogateescape").decode(errors="replace")
    except UnicodeEncodeError:  # a surrogate that does not encode a byte of a file name
        valid = ascii(text)
    return "".join(character if character.isprintable() else "\ufffd" for character in valid)
