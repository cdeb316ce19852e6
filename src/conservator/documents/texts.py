"""Texts of files and folders: references, and corpora for training."""

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from conservator.documents.encoding import read_input
from conservator.errors import ConservatorError
from conservator.system.files import open_file

TEXT_SUFFIXES = (
    *(".bib", ".c", ".cfg", ".conf", ".cpp", ".css", ".csv", ".go", ".h", ".html", ".ini", ".java", ".js", ".json"),
    *(".log", ".markdown", ".md", ".org", ".py", ".pyi", ".r", ".rb", ".rs", ".rst", ".sh", ".sql", ".tex", ".text"),
    *(".toml", ".ts", ".tsv", ".txt", ".xml", ".yaml", ".yml"),
)
MAX_TEXT_BYTES = 4 * 2**30  # bytes: decompressed size of a text or a corpus [safety limit]


def read_texts(path: Path, exclude: Path | None = None, *, strict: bool = False) -> Iterator[tuple[str, str]]:
    """Read the texts of a file or folder, and yield pairs (name, text).

    A ``.jsonl`` or ``.jsonl.gz`` file has a text in the field ``text`` of each line. In a folder, empty files and files
    without a text suffix are skipped.

    Args:
        path: the file or folder.
        exclude: a file to skip.
        strict: whether a file must have a text suffix and be UTF-8; else any suffix is accepted, and the encoding is
            detected.
    """
    try:
        path.stat()
    except FileNotFoundError:
        pass  # reported below with a hint
    except OSError as error:  # a name that is too long, or missing permissions
        raise ConservatorError(f"cannot read {path}: {error.strerror}") from error
    if path.is_dir():
        files = sorted(file for file in _walk(path) if _kind(file) is not None and file.is_file())
        if not files:
            raise ConservatorError(f"the folder {path} contains no text files; {_accepted()}")
        for file in files:
            if file.stat().st_size and not _same(file, exclude):
                yield from _texts_of_file(file, strict=strict)
        return
    if not path.exists():
        hint = "; standard input is not read here" if str(path) == "-" else ""
        raise ConservatorError(f"the file or folder {path} does not exist{hint}")
    if strict and _kind(path) is None:
        raise ConservatorError(f"{path}: the suffix {path.suffix!r} is not supported; {_accepted()}")
    if path.is_file() and not path.stat().st_size:
        raise ConservatorError(f"{path} is empty")
    if not _same(path, exclude):
        yield from _texts_of_file(path, strict=strict)


def _same(file: Path, other: Path | None) -> bool:
    """Return whether two paths refer to the same existing file."""
    return other is not None and file.samefile(other)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and its sub-folders, without hidden sub-folders (.git, .venv)."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(parent, name) for name in names)


def _kind(path: Path) -> str | None:
    """Return the format of a file: text, jsonl, jsonl.gz, or None if unsupported."""
    name = path.name.lower()
    for kind in ("jsonl", "jsonl.gz"):
        if name.endswith(f".{kind}"):
            return kind
    return "text" if path.suffix.lower() in TEXT_SUFFIXES else None


def _accepted() -> str:
    return f"accepted: folders, .jsonl, .jsonl.gz, {', '.join(TEXT_SUFFIXES)}"


def _texts_of_file(path: Path, *, strict: bool) -> Iterator[tuple[str, str]]:
    """Yield the texts of one file with their names; errors contain the file and the line or byte."""
    try:
        if _kind(path) in ("text", None):
            with open_file(path, pipes=True) as handle:
                yield str(path), _decode(handle.read(MAX_TEXT_BYTES + 1), path, strict=strict)
            return
        compressed = path.suffix.lower() == ".gz"
        with open_file(path, pipes=True) as handle:
            lines: IO[bytes] = gzip.GzipFile(fileobj=handle) if compressed else handle  # type: ignore[assignment]
            number = 0
            while line := lines.readline(MAX_TEXT_BYTES + 1):
                number += 1
                if len(line) > MAX_TEXT_BYTES:
                    raise ConservatorError(f"{path}: line {number} has more than {MAX_TEXT_BYTES} bytes")
                if line.strip():
                    yield f"{path}, line {number}", _record(line, path, number)
    except (OSError, EOFError, zlib.error) as error:  # gzip raises all three for a damaged file
        raise ConservatorError(f"cannot read {path}: {error}") from error


def _decode(data: bytes, path: Path, *, strict: bool) -> str:
    """Decode the text of a file, which must be UTF-8 if ``strict``."""
    source = read_input(data, "utf-8" if strict else None, name=str(path))
    if strict and b"\0" in data:
        raise ConservatorError(f"{path} is a binary file: byte {data.index(0)} is zero")
    try:
        return source.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConservatorError(f"{path} is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}") from error


def _record(line: bytes, path: Path, number: int) -> str:
    try:
        text = json.loads(line)["text"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConservatorError(f'{path}, line {number}: expected a JSON object with a field "text"') from error
    if not isinstance(text, str):
        raise ConservatorError(f'{path}, line {number}: the field "text" must be a string')
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConservatorError(f"{path}, line {number}: the text contains a lone surrogate") from error
    return text
