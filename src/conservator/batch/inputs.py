"""The inputs of a batch: finds the input files in files and folders."""

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from io import BufferedReader
from pathlib import Path

from conservator.batch.items import CHUNK_BYTES, InputFile, Item, Lookup, OutputFile, content_key, oversize_problem
from conservator.batch.jsonl import JsonLinesFile
from conservator.batch.parquet import ParquetFile
from conservator.batch.tar import TarFile
from conservator.errors import ConservatorError

MAX_DOCUMENT_BYTES = 16 * 2**20  # bytes: default size limit of a document [safety limit]
TAR_SUFFIXES, JSONL_SUFFIXES, PARQUET_SUFFIXES = (".tar", ".tar.gz", ".tgz"), (".jsonl", ".jsonl.gz"), (".parquet",)


@dataclass(frozen=True)
class TextFile(InputFile):
    """A file that is one document; see ``InputFile``."""

    def inspect(self) -> int:
        """Return 1."""
        return 1

    def items(self, source: BufferedReader) -> Iterator[Item]:
        """Yield the document."""
        data = source.read(self.max_bytes + 1)
        if len(data) <= self.max_bytes:
            yield Item(str(self.path), len(data), content_key(data), data)
            return
        size, key = self.path.stat().st_size, hashlib.file_digest(source, lambda: hashlib.sha256(data)).hexdigest()
        yield Item(str(self.path), size, key, None, problem=oversize_problem(size, self.max_bytes))

    def write(self, source: BufferedReader, output: OutputFile, restored: Lookup) -> None:
        """Write the restored document, or the original."""
        data = source.read(self.max_bytes + 1)
        result = restored(content_key(data)) if len(data) <= self.max_bytes else None
        output.write(data if result is None else result)
        shutil.copyfileobj(source, output, CHUNK_BYTES)


@dataclass
class Inputs:
    """The inputs of a batch, and the output path of each file.

    A file of a folder keeps its relative path in the output folder. With several inputs, that path starts with the name
    of the folder.

    Attributes:
        paths: files and folders.
        out: the output folder; it is not read as an input.
        column: the field or column of a table that holds the text.
        include: patterns of names or relative paths; if given, a file of a folder must match one of them.
        ignore: patterns of files and folders to exclude.
        max_bytes: size limit of a document; larger ones are copied.
        hidden_count: number of hidden files and folders that the last ``input_files`` excluded.
        ignored_count: number of files that it excluded by ``include`` or ``ignore``.
    """

    paths: Sequence[Path]
    out: Path
    column: str = "text"
    include: Sequence[str] = ()
    ignore: Sequence[str] = ()
    max_bytes: int = MAX_DOCUMENT_BYTES
    hidden_count: int = field(default=0, init=False)
    ignored_count: int = field(default=0, init=False)

    def input_files(self) -> Iterator[InputFile]:
        """Yield the input files, sorted by name; folders are read lazily."""
        self.hidden_count = self.ignored_count = 0
        out = self.out.resolve()
        for path in self.paths:
            try:
                path.stat()
                if path.is_dir():
                    if path.resolve() == out:
                        raise ConservatorError(f"{path} is both an input and the output folder; choose another --out")
                    prefix = "" if len(self.paths) == 1 else f"{path.resolve().name}/"
                    for file in self._walk(path, path, out):
                        yield self._input_file(file, prefix + file.relative_to(path).as_posix(), from_folder=True)
                elif path.is_file():
                    yield self._input_file(path, path.name, from_folder=False)
                else:
                    raise ConservatorError(f"{path} is neither a file nor a folder")
            except OSError as error:
                raise ConservatorError(f"cannot read {path}: {error.strerror}") from error

    def _walk(self, folder: Path, root: Path, out: Path) -> Iterator[Path]:
        """Yield the files of a folder. Links to folders are not followed; the output folder is skipped."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise ConservatorError(f"cannot read {folder}: {error.strerror}") from error
        for entry in entries:
            path = Path(entry.path)
            relative = path.relative_to(root).as_posix()
            if entry.name.startswith("."):
                self.hidden_count += 1
            elif matches(relative, self.ignore):
                self.ignored_count += 1
            elif entry.is_dir(follow_symlinks=False):
                if path.resolve() != out:
                    yield from self._walk(path, root, out)
            elif is_file(entry):
                if self.include and not matches(relative, self.include):
                    self.ignored_count += 1
                else:
                    yield path

    def _input_file(self, path: Path, target: str, *, from_folder: bool) -> InputFile:
        name = path.name.lower()
        if name.endswith(JSONL_SUFFIXES):
            return JsonLinesFile(path, target, from_folder, self.max_bytes, self.column)
        if name.endswith(PARQUET_SUFFIXES):
            return ParquetFile(path, target, from_folder, self.max_bytes, self.column)
        if name.endswith(TAR_SUFFIXES):
            return TarFile(path, target, from_folder, self.max_bytes)
        return TextFile(path, target, from_folder, self.max_bytes)


def is_file(entry: "os.DirEntry[str]") -> bool:
    """Whether an entry is a regular file or a link to one; False for a link loop."""
    try:
        return entry.is_file()
    except OSError:
        return False


def matches(relative: str, patterns: Sequence[str]) -> bool:
    """Whether a relative path or its last component matches a pattern such as ``*.md`` or ``drafts/*``."""
    name = relative.rpartition("/")[2]
    stripped = [pattern.rstrip("/") for pattern in patterns]
    return any(fnmatchcase(relative, pattern) or fnmatchcase(name, pattern) for pattern in stripped)
