"""Documents and input files: the interface of all input formats."""

import gzip
import hashlib
import io
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, cast

from conservator.errors import ConservatorError
from conservator.system.files import make_folder

CHUNK_BYTES = 1 << 20  # bytes: read or copied at a time [untuned]
BUFFER_BYTES = 1 << 16  # bytes: buffer of an input file [untuned]
SPOOL_BYTES = 1 << 24  # bytes: of a copied input in memory; a larger one is a temporary file [untuned]
Lookup = Callable[[str], bytes | None]  # key of a document -> its restored bytes; None if it is unchanged


class DamagedInputError(ConservatorError):
    """The content of an input cannot be read. Other inputs are not affected."""


class UnwritableError(ConservatorError):
    """An output file or a temporary file cannot be written."""


@dataclass(frozen=True)
class Item:
    """A document of an input file.

    Attributes:
        name: the path of the file; ``path#row`` in a table and ``path!member`` in an archive.
        size: its number of bytes.
        key: identifies its content: documents with the same key have the same result.
        data: its bytes; None if it cannot be restored.
        is_text: whether it is UTF-8 text, as the field of a table is; otherwise the encoding is detected.
        problem: why it cannot be restored, or "".
    """

    name: str
    size: int
    key: str
    data: bytes | None
    is_text: bool = False
    problem: str = ""


@dataclass(frozen=True)
class InputFile(ABC):
    """A file with one or more documents; its output is one file of the same format.

    Attributes:
        path: the file.
        target: the path of the output, relative to the output folder.
        from_folder: whether it was found in a folder; False if the user named it.
        max_bytes: size limit of a document; larger ones are copied.
        random_access: whether its documents are not read in the order of its bytes.
    """

    random_access: ClassVar[bool] = False
    path: Path
    target: str
    from_folder: bool
    max_bytes: int

    @abstractmethod
    def inspect(self) -> int | None:
        """Check the start or the metadata of the file; count the documents; None if that needs a full read."""

    @abstractmethod
    def items(self, source: io.BufferedReader) -> Iterator[Item]:
        """Yield the documents of the open file in order; they are read one at a time."""

    @abstractmethod
    def write(self, source: io.BufferedReader, output: "OutputFile", restored: Lookup) -> None:
        """Write the open file with restored documents; everything else is unchanged."""

    def read(self) -> Iterator[Item]:
        """Open the file and yield its documents."""
        with as_damaged_input(self.path), self.path.open("rb") as source:
            yield from self.items(source)


class InputReader(io.RawIOBase):
    """One pass over an input file. Everything that is read is hashed.

    Attributes:
        source: the file, buffered; it can be read only from start to end before ``spool``, and at any position after.
    """

    def __init__(self, handle: io.FileIO) -> None:
        """Wrap a file that was opened without a buffer; it is closed with the reader."""
        self._handle, self._digest = handle, hashlib.sha256()
        self.source: io.BufferedReader = io.BufferedReader(cast(Any, self), BUFFER_BYTES)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes and add them to the hash."""
        size = self._handle.readinto(buffer) or 0
        self._digest.update(memoryview(buffer)[:size])
        return size

    def spool(self, folder: Path) -> None:
        """Copy the file into memory, or into a temporary file in ``folder`` if it is large."""
        copy = cast(Any, tempfile.SpooledTemporaryFile(SPOOL_BYTES, dir=str(make_folder(folder))))  # noqa: SIM115
        while chunk := self.source.read(CHUNK_BYTES):
            with as_unwritable(folder):
                copy.write(chunk)
        copy.seek(0)
        self.source.detach()  # a buffer that is not detached closes the file when it is deleted
        self.source = io.BufferedReader(copy, BUFFER_BYTES)

    def sha256(self) -> str:
        """Read the rest of the file; return the hash of the whole file."""
        while self.read(CHUNK_BYTES):
            pass
        return self._digest.hexdigest()

    def close(self) -> None:
        """Close the file and its copy."""
        if not self.closed:
            super().close()
            self.source.close()
            self._handle.close()


class OutputFile(io.RawIOBase):
    """An output file that is written once, from start to end. Everything that is written is hashed.

    Attributes:
        path: its temporary path.
    """

    def __init__(self, handle: BinaryIO) -> None:
        """Wrap an open file, which is not closed with this one."""
        self._handle, self._digest = handle, hashlib.sha256()
        self.path = Path(handle.name)

    @property
    def sha256(self) -> str:
        """The hash of everything written."""
        return self._digest.hexdigest()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes and add them to the hash."""
        self._digest.update(data)
        with as_unwritable(self.path):
            return self._handle.write(data)

    def tell(self) -> int:
        """Return the number of written bytes."""
        return self._handle.tell()

    def flush(self) -> None:
        """Flush the buffer of the wrapped file."""
        with as_unwritable(self.path):
            if not self._handle.closed:
                self._handle.flush()


@contextmanager
def as_unwritable(path: Path) -> Iterator[None]:
    """Convert an OSError into an UnwritableError that names the path."""
    try:
        yield
    except OSError as error:
        raise UnwritableError(f"cannot write {path}: {error.strerror}") from error


def content_key(data: bytes, *, is_text: bool = False) -> str:
    """Key of a document: the hash of its content, with a suffix for UTF-8 text."""
    return hashlib.sha256(data).hexdigest() + ("t" if is_text else "")


def oversize_problem(size: int, max_bytes: int) -> str:
    """Message for a document that exceeds the size limit."""
    return f"too large: {size:,} bytes; --max-bytes is {max_bytes:,}"


def hash_file(path: Path) -> str:
    """Compute the SHA-256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@contextmanager
def as_damaged_input(path: Path) -> Iterator[None]:
    """Convert every error while an input is read into a DamagedInputError that names the file."""
    try:
        yield
    except ConservatorError:
        raise
    except Exception as error:  # readers of damaged archives and tables raise many types of errors
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise DamagedInputError(f"cannot read {path}: {first_line}") from error


def gzip_writer(handle: BinaryIO, *, compress: bool) -> AbstractContextManager[BinaryIO]:
    """Wrap a file so that its content is gzip-compressed if needed; equal content gives equal bytes."""
    return cast(BinaryIO, gzip.GzipFile("", "wb", fileobj=handle, mtime=0)) if compress else nullcontext(handle)
