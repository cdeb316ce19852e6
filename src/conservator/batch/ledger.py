"""The ledger: what is done, in one SQLite file that the driver alone writes, in transactions.

A document is done when its row stands here, with its restored bytes. These stay until all files are whole: a file gets
its own row only then, and any other may hold the same document. So a run that was killed at any moment goes on where it
was.
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from conservator.batch.engine import COPIED, DocumentResult
from conservator.errors import ConservatorError

NAME = ".conservator.sqlite"
FORMAT = 2
TABLES = """
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
CHANGED = "its file changed while the batch was running; another run takes it as it is then"
MAPPINGS = {"notices": str, "shares": float | int}  # stored as JSON; the type of their values
NUMBERS: dict[str, Any] = {one.name: one.type for one in fields(DocumentResult) if one.name not in ("data", *MAPPINGS)}
UNUSABLE = (  # what SQLite says if it cannot write or read now; every other error means that the file is damaged
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
)


LONGEST = 100  # characters of what SQLite says that an error repeats


class LedgerError(ConservatorError):
    """The ledger cannot be used, so the run cannot go on."""


class Place(NamedTuple):
    """A document in a file: its name, size and key, and why it was not tried."""

    name: str
    size: int
    key: str
    problem: str


class WrittenFile(NamedTuple):
    """A file of the results.

    Attributes:
        source: the hash of the input; None if it is not complete.
        config: the hash of the configuration.
        gave_up: the limits under which documents in it were given up, or were too large; "" if none were.
        written: the hash of the file as it was written last, or None.
        coming: the hash of what was about to take its place.
    """

    source: str | None
    config: str | None
    gave_up: str
    written: str | None
    coming: str | None = None


class Ledger:
    """The records of all runs with one folder of results."""

    def __init__(self, folder: Path) -> None:
        """Open the ledger of a folder, or make it."""
        self.path = folder / NAME
        try:
            self.base = sqlite3.connect(self.path, isolation_level=None)
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
        version = self._one("PRAGMA user_version")
        if version == (0,):
            with self._asking():
                self.base.executescript(f"BEGIN; {TABLES} PRAGMA user_version={FORMAT}; COMMIT;")
        elif version != (FORMAT,):
            raise LedgerError(f"{self.path} was written by another version; --out needs a new folder")
        self._run("CREATE TEMP TABLE present (target BLOB PRIMARY KEY, path TEXT, state TEXT)")

    def close(self) -> None:
        """Close the file."""
        self.base.close()

    def _run(self, query: str, values: Sequence[Any] | dict[str, Any] = ()) -> None:
        with self._asking():
            self.base.execute(query, values)

    def _rows(self, query: str, values: Sequence[Any] = ()) -> Generator[tuple[Any, ...], None, None]:
        with self._asking(), closing(self.base.execute(query, values)) as cursor:
            yield from cursor

    def _one(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        with closing(self._rows(query, values)) as rows:
            return next(rows, None)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Turn errors of SQLite into a LedgerError; its module cannot decode the message of some."""
        try:
            yield
        except (sqlite3.Error, UnicodeError) as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> LedgerError:
        """What is wrong with the file, and how to go on."""
        said = shown(str(error))[:LONGEST]
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if code % 2**8 in UNUSABLE:  # the higher bits tell more of the same error
            return LedgerError(f"cannot use {self.path}: {said}")
        return LedgerError(
            f"cannot use {self.path}: it is damaged ({said}); choose another --out, or remove this file and give "
            "--force once: all documents are restored again, and all results replaced, also those that you have changed"
        )

    def expect(self, target: str, path: str, state: str) -> str | None:
        """Note that a file is a result of this run; return the input that another one with this name is of.

        Args:
            target: the file.
            path: the input that it is made of.
            state: whose file stands there now.
        """
        query = "SELECT path FROM present WHERE target = ?"
        row = self._one(query, (os.fsencode(target),))
        if row is not None:
            return str(row[0])
        self._run("INSERT INTO present VALUES (?, ?, ?)", (os.fsencode(target), shown(path), state))
        return None

    def state(self, target: str) -> str | None:
        """Whose file stood there when the run began; None for a file that was not expected."""
        row = self._one("SELECT state FROM present WHERE target = ?", (os.fsencode(target),))
        return None if row is None else str(row[0])

    def find(self, key: str, config: str) -> DocumentResult | None:
        """What came of a document, without its bytes; None if it is not done."""
        columns = ", ".join((*NUMBERS, *MAPPINGS))
        query = f"SELECT {columns} FROM documents WHERE key = ? AND config = ?"
        row = self._one(query, (key, config))
        return None if row is None else self._done(row)

    def has_data(self, key: str, config: str) -> bool:
        """Whether the restored bytes of a document that is done are still here, or are those that it had."""
        query = "SELECT data IS NOT NULL OR NOT changed FROM documents WHERE key = ? AND config = ?"
        row = self._one(query, (key, config))
        return bool(row and row[0])

    def limits_of(self, key: str, config: str) -> str:
        """The limits under which a document was tried."""
        row = self._one("SELECT limits FROM documents WHERE key = ? AND config = ?", (key, config))
        return "" if row is None else str(row[0])

    def data(self, key: str, config: str) -> bytes | None:
        """The restored bytes of a document; None if it stays as it was."""
        row = self._one("SELECT data FROM documents WHERE key = ? AND config = ?", (key, config))
        if row is None or row[0] is None:
            return None
        try:
            return zlib.decompress(row[0])
        except (zlib.error, TypeError) as error:
            raise self._error(error) from error

    def record(self, key: str, config: str, done: DocumentResult, limits: str) -> None:
        """Write down what came of a document."""
        row = {name: getattr(done, name) for name in NUMBERS} | {"reason": shown(done.reason)}
        row |= {name: json.dumps(getattr(done, name)) for name in MAPPINGS}
        row |= {"key": key, "config": config, "limits": limits}
        row |= {"changed": done.data is not None, "data": None if done.data is None else zlib.compress(done.data, 1)}
        names = ", ".join(row)
        places = ", ".join(f":{name}" for name in row)
        self._run(f"INSERT OR REPLACE INTO documents ({names}) VALUES ({places})", row)

    def file(self, target: str) -> WrittenFile | None:
        """What is known of a file of the results."""
        query = "SELECT source, config, gave_up, written, coming FROM files WHERE target = ?"
        row = self._one(query, (os.fsencode(target),))
        if row is None:
            return None
        known = WrittenFile(*row)
        self._check(all(one is None or isinstance(one, str) for one in row) and known.gave_up is not None, "files")
        return known

    def announce(self, target: str, coming: str) -> None:
        """Write down that a file is about to be put in its place: from now on it is ours."""
        self._run(
            "INSERT INTO files (target, gave_up, coming) VALUES (?, '', ?) "
            "ON CONFLICT (target) DO UPDATE SET coming = excluded.coming",
            (os.fsencode(target), coming),
        )

    def complete(self, target: str, known: WrittenFile, places: Iterable[Place]) -> None:
        """Write down that a file is whole, and which documents are in it."""
        place, config = os.fsencode(target), known.config
        self._run("BEGIN IMMEDIATE")
        try:
            self._run("DELETE FROM places WHERE target = ?", (place,))
            for number, one in enumerate(places):
                row = (place, number, shown(one.name), one.size, one.key, config, shown(one.problem))
                self._run("INSERT INTO places VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            query = "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, NULL)"
            self._run(query, (place, known.source, config, known.gave_up, known.written))
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite has done so itself after some errors
                self.base.execute("ROLLBACK")
            raise
        self._run("COMMIT")

    def number_of(self, target: str) -> int:
        """How many documents are in a file that is whole."""
        row = self._one("SELECT count(*) FROM places WHERE target = ?", (os.fsencode(target),))
        return 0 if row is None else int(row[0])

    def forget_data(self) -> None:
        """Let go of restored bytes: every file is whole. Those beside a document that was given up stay for a retry."""
        self._run(
            "UPDATE documents SET data = NULL WHERE data IS NOT NULL AND key NOT IN (SELECT key FROM places "
            "WHERE target IN (SELECT places.target FROM places JOIN documents AS other ON other.key = places.key "
            "AND other.config = places.config WHERE other.gave_up))"
        )

    def rows(self, order: str = "present.rowid, number") -> Iterator[dict[str, Any]]:
        """The documents of the files of this run, in the order of the inputs, or another."""
        columns = ", ".join(f"documents.{name}" for name in (*NUMBERS, *MAPPINGS))
        query = (
            f"SELECT places.name, places.size, places.target, places.problem, {columns} FROM present "
            "JOIN places ON places.target = present.target LEFT JOIN documents "
            f"ON documents.key = places.key AND documents.config = places.config ORDER BY {order}"
        )
        for name, size, target, problem, *rest in self._rows(query):
            right = isinstance(target, bytes) and isinstance(size, int) and isinstance(problem, str)
            self._check(right and isinstance(name, str), "places")
            done = DocumentResult(COPIED, reason=problem or CHANGED) if rest[0] is None else self._done(rest)
            yield {"document": name, "target": os.fsdecode(target), "bytes": size, "done": done}

    def _done(self, row: Sequence[Any]) -> DocumentResult:
        found = dict(zip((*NUMBERS, *MAPPINGS), row, strict=True))
        found |= {name: bool(found[name]) for name, kind in NUMBERS.items() if kind is bool}
        for name, kind in NUMBERS.items():
            self._check(isinstance(found[name], kind), "documents")
        for name, kind in MAPPINGS.items():
            try:
                found[name] = json.loads(found[name])
            except (ValueError, TypeError, RecursionError) as error:
                raise self._error(error) from error
            right = isinstance(found[name], dict) and all(isinstance(one, kind) for one in found[name].values())
            self._check(right, "documents")
        return DocumentResult(**found)

    def _check(self, right: bool, table: str) -> None:
        """Raise a LedgerError if the values of a row are not what we write."""
        if not right:
            raise self._error(ValueError(f"wrong values in the table {table}"))


def shown(name: str) -> str:
    """A name as it can be shown: what is not valid Unicode, or controls a terminal, is replaced."""
    text = name.encode(errors="surrogateescape").decode(errors="replace") if not _has_halves(name) else ascii(name)
    return "".join(one if one.isprintable() else "\ufffd" for one in text)


def _has_halves(name: str) -> bool:
    """Whether a name has half a surrogate that no file name has."""
    try:
        name.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return True
    return False
