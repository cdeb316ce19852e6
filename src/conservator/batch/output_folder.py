"""The folder of the results: one driver at a time, files whole or not at all, nothing left behind."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from conservator.batch.items import hash_file
from conservator.batch.ledger import Ledger
from conservator.errors import ConservatorError
from conservator.system.files import make_folder

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

PARTS = ".conservator.parts"  # a folder inside, for what is being written; removed at the start and at the end
REFERENCES = ".conservator.references"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this process alone. The lock ends with the process, however it ends; Windows has none."""
    if fcntl is None:
        yield
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ConservatorError(f"cannot use {folder}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConservatorError(
                f"another run writes to {folder}; wait for its end, or choose another --out"
            ) from error
        except OSError as error:
            raise ConservatorError(f"cannot lock {folder}: {error.strerror}") from error
        yield
    finally:
        os.close(handle)


def clean(folder: Path, name: str = PARTS) -> None:
    """Remove a folder of ours inside the results, which a run that was killed may have left."""
    found = folder / name
    if found.is_symlink() or (found.exists() and not found.is_dir()):
        raise ConservatorError(f"{found} is not a folder of ours; remove it first")
    shutil.rmtree(found, ignore_errors=True)


class UnwritableError(ConservatorError):
    """A result cannot be written."""


class KeptError(ConservatorError):
    """A result was not written, because the file in its place is not ours."""


class Hashing:
    """A file that is written, and hashed on the way."""

    def __init__(self, handle: BinaryIO) -> None:
        """Nothing is written yet."""
        self.handle, self.digest = handle, hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Write some bytes."""
        self.digest.update(data)
        with self._writing():
            return self.handle.write(data)

    def tell(self) -> int:
        """How many bytes were written."""
        return self.handle.tell()

    def flush(self) -> None:
        """Write what is held back."""
        with self._writing():
            self.handle.flush()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UnwritableError(f"cannot write {self.handle.name}: {error.strerror}") from error

    def close(self) -> None:
        """The one who opened it closes it."""

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self.handle.closed

    def writable(self) -> bool:
        """It is."""
        return True

    def readable(self) -> bool:
        """It is not."""
        return False

    def seekable(self) -> bool:
        """It is not."""
        return False


@dataclass(frozen=True)
class Part:
    """A file of the results before it is put in its place.

    Attributes:
        handle: where to write it.
        path: where it is until then.
    """

    handle: BinaryIO
    path: Path


@contextmanager
def putting(folder: Path, target: str, ledger: Ledger, like: Path | None = None, *, force: bool) -> Iterator[Part]:
    """Write a file of the results: elsewhere first, then known to the ledger as ours, then in its place, whole.

    Args:
        folder: of the results.
        target: the file, relative to it.
        ledger: the ledger of the folder.
        like: the input, whose permissions the file gets.
        force: replace a file of somebody else; else it is kept, and a KeptError is raised.
    """
    parts = make_folder(folder / PARTS)
    part, place = parts / hashlib.sha256(target.encode(errors="surrogateescape")).hexdigest(), folder / target
    try:
        with part.open("wb") as handle:
            hashing = Hashing(handle)
            yield Part(cast(BinaryIO, hashing), part)
            handle.flush()
            os.fsync(handle.fileno())
        if like is not None:
            part.chmod(like.stat().st_mode & 0o777)
        # The survey at the start of the run has asked this, too, but a run may take days.
        if place.is_dir() or (not force and whose(folder, target, ledger) == "else"):
            raise KeptError(f"{place} was created or changed during the run, and is kept; --force replaces a file")
        ledger.announce(target, hashing.digest.hexdigest())
        make_folder(place.parent)
        part.replace(place)
    except OSError as error:
        raise ConservatorError(f"cannot write {place}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def whose(folder: Path, target: str, ledger: Ledger) -> str:
    """Whose file stands where a result goes: ``nobody``'s, ``ours`` as we wrote it, or that of somebody ``else``."""
    place = folder / target
    if place.is_dir():
        raise ConservatorError(f"cannot write {place}: it is a folder")
    if not os.path.lexists(place):
        return "nobody"
    known = ledger.file(target)
    if known is None or place.is_symlink() or not place.is_file():
        return "else"
    return "ours" if hash_file(place) in (known.written, known.coming) else "else"
