"""The output folder: one driver at a time, atomic writes, no leftovers."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path

from conservator.batch.items import OutputFile, hash_file
from conservator.batch.ledger import Ledger
from conservator.errors import ConservatorError
from conservator.system.files import make_folder

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

PARTS = ".conservator.parts"  # subfolder for files that are being written; exists only during a run
REFERENCES = ".conservator.references"  # subfolder for the reference index; exists only during a run


class Owner(StrEnum):
    """The owner of a file in the output folder."""

    NONE = "none"  # there is no file
    BATCH = "batch"  # a batch wrote the file, and it is unchanged
    USER = "user"  # no batch wrote the file, or it was changed since


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder for this process. The lock ends with the process; Windows has no lock."""
    if fcntl is None:
        yield
        return
    with ExitStack() as stack:
        try:
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConservatorError(
                f"another run is writing to {folder}; wait until it ends, or choose another --out"
            ) from error
        except OSError as error:
            raise ConservatorError(f"cannot lock {folder}: {error.strerror}") from error
        yield


def remove_leftovers(folder: Path, name: str = PARTS) -> None:
    """Remove a temporary subfolder of the output folder, which a killed run may have left."""
    path = folder / name
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise ConservatorError(f"{path} must be a temporary folder of the batch, but it is not a folder; delete it")
    shutil.rmtree(path, ignore_errors=True)


class ProtectedFileError(ConservatorError):
    """An output file was not written, because the existing file belongs to the user."""


@contextmanager
def atomic_output(
    folder: Path, target: str, ledger: Ledger, mode_from: Path | None = None, *, force: bool
) -> Iterator[OutputFile]:
    """Write an output file: to a temporary path, then mark it as pending in the ledger, then move it into place.

    Args:
        folder: the output folder.
        target: the file, relative to the folder.
        ledger: the ledger of the folder.
        mode_from: a file whose permissions are copied; None for the default permissions.
        force: replace a file that belongs to the user; otherwise raise a ProtectedFileError.
    """
    parts = make_folder(folder / PARTS)
    partial, path = parts / hashlib.sha256(target.encode(errors="surrogateescape")).hexdigest(), folder / target
    try:
        with partial.open("wb") as handle:
            output = OutputFile(handle)
            yield output
            handle.flush()
            os.fsync(handle.fileno())
        if mode_from is not None:
            partial.chmod(mode_from.stat().st_mode & 0o777)
        # The owner was checked at the start of the run, but a run may take days.
        if path.is_dir() or (not force and owner_of(folder, target, ledger) == Owner.USER):
            raise ProtectedFileError(
                f"{path} was created or changed during the run and was not overwritten; --force overwrites files"
            )
        ledger.mark_pending(target, output.sha256)
        make_folder(path.parent)
        partial.replace(path)
    except OSError as error:
        raise ConservatorError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def owner_of(folder: Path, target: str, ledger: Ledger) -> Owner:
    """Determine the owner of an output file."""
    path = folder / target
    if path.is_dir():
        raise ConservatorError(f"cannot write {path}: it is a folder")
    if not os.path.lexists(path):
        return Owner.NONE
    record = ledger.file(target)
    if record is None or path.is_symlink() or not path.is_file():
        return Owner.USER
    is_unchanged = hash_file(path) in (record.written_sha256, record.pending_sha256)
    return Owner.BATCH if is_unchanged else Owner.USER
