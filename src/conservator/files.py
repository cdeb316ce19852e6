"""Files that are read whole, and written whole or not at all."""

import os
import sys
import tempfile
from pathlib import Path

from conservator.errors import ConservatorError


def make_folder(path: Path) -> Path:
    """Create ``path`` and its parents; a clear error where that is not possible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConservatorError(f"cannot create the folder {path}: {error.strerror}") from error
    return path


def check_writable(path: Path) -> Path:
    """Return ``path`` where a file could be written to it, creating its folder; a clear error where not."""
    make_folder(path.parent)
    if path.is_dir():
        raise ConservatorError(f"cannot write {path}: it is a folder")
    if not os.access(path.parent, os.W_OK):
        raise ConservatorError(f"cannot write {path}: no permission to write in {path.parent}")
    return path


def read_document(name: str) -> bytes:
    """The bytes of a file, or of standard input if its name is ``-``; a clear error where it cannot be read."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise ConservatorError(f"cannot read {name}: {error.strerror}") from error


def write_document(name: str, data: bytes) -> None:
    """Write a file whole or not at all, or to standard output if its name is ``-``."""
    if name != "-":
        write_atomically(Path(name), data)
        return
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to a temporary file beside ``path``, then rename it over ``path``.

    An interrupted write leaves the previous file, or none, but never half a file.
    """
    make_folder(path.parent)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as handle:
            temporary = Path(handle.name)
            handle.write(data)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise ConservatorError(f"cannot write {path}: {error.strerror}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    """The process's umask, which temporary files ignore (there is no way to read it but to set it)."""
    current = os.umask(0o077)
    os.umask(current)
    return current
