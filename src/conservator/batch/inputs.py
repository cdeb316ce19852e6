"""The inputs of a batch: files and folders, as the files that hold documents."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from conservator.batch.files import TextFile
from conservator.batch.items import InputFile
from conservator.batch.jsonl import Lines
from conservator.batch.parquet import Parquet
from conservator.batch.tar import Archive
from conservator.errors import ConservatorError

LARGEST = 16 * 2**20  # bytes of a document, unless told otherwise
ARCHIVES, LINES, TABLES = (".tar", ".tar.gz", ".tgz"), (".jsonl", ".jsonl.gz"), (".parquet",)


@dataclass
class Inputs:
    """What is restored, and where each file goes.

    A file of a folder goes to the same place in the results. Of several inputs, a folder keeps its name there.

    Attributes:
        paths: files and folders.
        out: the folder of the results, which is no input.
        column: the field or column of a table that holds the text.
        include: patterns of names or relative paths; a file of a folder has to match one, if there are any.
        ignore: patterns of files and folders that are left out.
        largest: bytes of the largest document that is restored.
        hidden: how many hidden files and folders were left out by the last ``input_files``.
        ignored: how many files did not match, or were ignored.
    """

    paths: Sequence[Path]
    out: Path
    column: str = "text"
    include: Sequence[str] = ()
    ignore: Sequence[str] = ()
    largest: int = LARGEST
    hidden: int = field(default=0, init=False)
    ignored: int = field(default=0, init=False)

    def input_files(self) -> Iterator[InputFile]:
        """The files that hold documents, in the order of their names, found one after the other."""
        self.hidden = self.ignored = 0
        out = self.out.resolve()
        for path in self.paths:
            try:
                path.stat()
                if path.is_dir():
                    if path.resolve() == out:
                        raise ConservatorError(
                            f"{path} is both an input and the folder of the results; --out must be another"
                        )
                    inside = "" if len(self.paths) == 1 else f"{path.resolve().name}/"
                    for file in self._walk(path, path, out):
                        yield self._holder(file, inside + file.relative_to(path).as_posix(), found=True)
                elif path.is_file():
                    yield self._holder(path, path.name, found=False)
                else:
                    raise ConservatorError(f"{path} is neither a file nor a folder")
            except OSError as error:
                raise ConservatorError(f"cannot read {path}: {error.strerror}") from error

    def _walk(self, folder: Path, root: Path, out: Path) -> Iterator[Path]:
        """The files of a folder. Links to folders are not followed; the folder of the results is passed over."""
        try:
            entries = sorted(os.scandir(folder), key=lambda one: one.name)
        except OSError as error:
            raise ConservatorError(f"cannot read {folder}: {error.strerror}") from error
        for entry in entries:
            path = Path(entry.path)
            relative = path.relative_to(root).as_posix()
            if entry.name.startswith("."):
                self.hidden += 1
            elif matches(relative, self.ignore):
                self.ignored += 1
            elif entry.is_dir(follow_symlinks=False):
                if path.resolve() != out:
                    yield from self._walk(path, root, out)
            elif is_file(entry):
                if self.include and not matches(relative, self.include):
                    self.ignored += 1
                else:
                    yield path

    def _holder(self, path: Path, target: str, *, found: bool) -> InputFile:
        name = path.name.lower()
        if name.endswith(LINES):
            return Lines(path, target, found, self.largest, self.column)
        if name.endswith(TABLES):
            return Parquet(path, target, found, self.largest, self.column)
        if name.endswith(ARCHIVES):
            return Archive(path, target, found, self.largest)
        return TextFile(path, target, found, self.largest)


def is_file(entry: "os.DirEntry[str]") -> bool:
    """Whether an entry is a regular file, or a link to one; a link into a loop is none."""
    try:
        return entry.is_file()
    except OSError:
        return False


def matches(relative: str, patterns: Sequence[str]) -> bool:
    """Whether a relative path, or its last name, matches one of some patterns such as ``*.md`` or ``drafts/*``."""
    name = relative.rpartition("/")[2]
    return any(fnmatchcase(relative, one.rstrip("/")) or fnmatchcase(name, one.rstrip("/")) for one in patterns)
