"""Documents and input files: the interface of all input formats."""

import gzip
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from conservator.errors import ConservatorError

CHUNK_BYTES = 1 << 20  # bytes: read or copied at a time [untuned]
Lookup = Callable[[str], bytes | None]  # key of a document -> its restored bytes; None if it is unchanged


class DamagedInputError(ConservatorError):
    """The content of an input cannot be read. Other inputs are not affected."""


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
    """

    path: Path
    target: str
    from_folder: bool
    max_bytes: int

    @abstractmethod
    def count(self) -> int:
        """Count the documents."""

    @abstractmethod
    def items(self) -> Iterator[Item]:
        """Yield the documents in order; they are read one at a time."""

    @abstractmethod
    def write(self, handle: BinaryIO, restored: Lookup) -> None:
        """Write the file with restored documents; everything else is unchanged."""

    def check(self, written: Path, restored: Lookup) -> None:  # noqa: B027  # most formats need no check
        """Raise a ConservatorError if the file at ``written`` is not what ``write`` should produce."""


def content_key(data: bytes, *, is_text: bool = False) -> str:
    """Key of a document: the hash of its content, with a suffix for UTF-8 text."""
    return hashlib.sha256(data).hexdigest() + ("t" if is_text else "")


def oversize_problem(size: int, max_bytes: int) -> str:
    """Message for a document that exceeds the size limit."""
    return f"too large: {size:,} bytes; --max-bytes is {max_bytes:,}"


def hash_file(path: Path) -> str:
    """Compute the SHA-256 of a file in chunks."""
    with path.open("rb") as handle:
        return hash_handle(handle)


def hash_handle(handle: BinaryIO) -> str:
    """Compute the SHA-256 of the rest of an open file in chunks."""
    digest = hashlib.sha256()
    while chunk := handle.read(CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def as_damaged_input(path: Path) -> Iterator[None]:
    """Convert every error while an input is read into a DamagedInputError that names the file."""
    try:
        yield
    except ConservatorError:
        raise
    except Exception as error:  # readers of damaged archives and tables raise many types of errors
        raise DamagedInputError(f"cannot read {path}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """The first line of the message of an error, or the name of its type."""
    return (str(error).splitlines() or [type(error).__name__])[0]


@contextmanager
def gzip_writer(handle: BinaryIO, *, compress: bool) -> Iterator[BinaryIO]:
    """Wrap a file so that its content is gzip-compressed if needed; equal content gives equal bytes."""
    if not compress:
        yield handle
        return
    with gzip.GzipFile("", "wb", fileobj=handle, mtime=0) as out:
        yield cast(BinaryIO, out)
