"""Documents and the files that hold them: what every kind of input has in common."""

import gzip
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from conservator.errors import ConservatorError

CHUNK = 1 << 20
Lookup = Callable[[str], bytes | None]  # the key of a document -> its restored bytes; None where it stays as it was


class DamagedInputError(ConservatorError):
    """The content of an input cannot be read. Other inputs are not affected."""


@dataclass(frozen=True)
class Item:
    """A document of an input.

    Attributes:
        name: the path of its file; ``path#row`` in a table and ``path!member`` in an archive.
        size: its bytes.
        key: tells its content from any other: a document with the same key has the same restoration.
        data: its bytes; None if it cannot be restored.
        is_text: whether it is known to be text, as a field of a table is, so that it has no encoding to tell.
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
    """A file that holds documents, and becomes one file of the same kind.

    Attributes:
        path: the file.
        target: where the restored file goes, relative to the folder of the results.
        found: whether it was found in a folder, not named.
        largest: bytes of the largest document that is restored.
    """

    path: Path
    target: str
    found: bool
    largest: int

    @abstractmethod
    def count(self) -> int:
        """How many documents it holds."""

    @abstractmethod
    def items(self) -> Iterator[Item]:
        """Its documents, in order, read one after the other."""

    @abstractmethod
    def write(self, handle: BinaryIO, restored: Lookup) -> None:
        """Write the file with restored documents; everything else in it stays as it is."""

    def check(self, written: Path, restored: Lookup) -> None:  # noqa: B027  # most kinds need no check
        """Raise a ConservatorError if the file that ``write`` made at ``written`` does not hold what it should."""


def key_of(data: bytes, *, is_text: bool = False) -> str:
    """The key of a document: the hash of its content, and whether it is known to be text."""
    return hashlib.sha256(data).hexdigest() + ("t" if is_text else "")


def too_large(size: int, largest: int) -> str:
    """What is wrong with a document that is too large."""
    return f"it has {size:,} bytes; --max-bytes allows {largest:,}"


def hash_file(path: Path) -> str:
    """The sha256 of a file, which is never in memory as a whole."""
    with path.open("rb") as handle:
        return hash_handle(handle)


def hash_handle(handle: BinaryIO) -> str:
    """The sha256 of what can be read from here on."""
    digest = hashlib.sha256()
    while chunk := handle.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn everything that goes wrong while the content of an input is read into a DamagedInputError that names it."""
    try:
        yield
    except ConservatorError:
        raise
    except Exception as error:  # the readers of damaged archives and tables raise errors of many types
        raise DamagedInputError(f"cannot read {path}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """The first line of the message of an error, or the name of its type."""
    return (str(error).splitlines() or [type(error).__name__])[0]


@contextmanager
def packing(handle: BinaryIO, *, packed: bool) -> Iterator[BinaryIO]:
    """Where to write, so that it is compressed if it has to be; the same content gives the same bytes."""
    if not packed:
        yield handle
        return
    with gzip.GzipFile("", "wb", fileobj=handle, mtime=0) as out:
        yield cast(BinaryIO, out)
