"""Reading whole files, writing files atomically, and the names of their encodings."""

import codecs
import os
import re
import stat
import sys
import tempfile
from pathlib import Path

from conservator.errors import ConservatorError, OptionError

ENCODINGS = ("utf-8", "utf-16", "windows-1252", "iso-8859-15", "windows-1250", "windows-1251", "cp850", "mac-roman")
ESCAPES = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7")  # ways to write text in ASCII


def make_folder(path: Path) -> Path:
    """Create ``path`` and its parents; raise a ConservatorError if that is not possible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConservatorError(f"cannot create the folder {path}: {error.strerror}") from error
    return path


def check_folder(path: Path, *, parents: bool = False) -> Path:
    """Create the folder ``path``, which a user named for results. Its parent is created only with ``parents``."""
    if not parents and not path.parent.is_dir():
        raise ConservatorError(f"cannot create the folder {path}: there is no folder {path.parent}; --parents makes it")
    return make_folder(path)


def check_writable(path: Path, *, force: bool = False, parents: bool = False) -> Path:
    """Return ``path`` if a file may be written there; raise a ConservatorError with the reason if not.

    Args:
        path: the file.
        force: an existing file may be overwritten.
        parents: missing folders are created.
    """
    if is_special(path):
        return path
    if not path.parent.is_dir():
        if not parents:
            raise ConservatorError(f"cannot write {path}: there is no folder {path.parent}; --parents makes it")
        make_folder(path.parent)
    if path.is_dir():
        raise ConservatorError(f"cannot write {path}: it is a folder")
    if path.exists() and not force:
        raise ConservatorError(f"cannot write {path}: it exists already; --force overwrites it")
    if not os.access(path.parent, os.W_OK):
        raise ConservatorError(f"cannot write {path}: no permission to write in {path.parent}")
    return path


def check_encoding(name: str) -> str:
    """The usual name of an encoding; raise an OptionError if there is none of that name."""
    try:
        found = codecs.lookup(name).name
        if found in ESCAPES:
            raise LookupError
        "a".encode(found)  # some codecs are of bytes alone
    except (LookupError, UnicodeError, ValueError, TypeError) as error:
        raise OptionError(
            "encoding", f"{name!r} is not known; known: {', '.join(ENCODINGS)}, and others that Python knows"
        ) from error
    found = "utf-8" if found == "utf-8-sig" else found
    return re.sub(r"^cp(?=125\d$)", "windows-", found).replace("iso8859-", "iso-8859-")


def read_document(name: str) -> bytes:
    """The bytes of a file, or of standard input if its name is ``-``; raise a ConservatorError if it cannot be read."""
    try:
        if name != "-":
            return Path(name).read_bytes()
        if sys.stdin is None:
            raise ConservatorError("cannot read -: standard input is closed")
        return sys.stdin.buffer.read()
    except OSError as error:
        raise ConservatorError(f"cannot read {name}: {error.strerror}") from error


def write_document(name: str, data: bytes) -> None:
    """Write ``data`` to a file, atomically, or to standard output if its name is ``-``."""
    if name != "-":
        write_atomically(Path(name), data)
        return
    if sys.stdout is None:
        raise ConservatorError("cannot write -: standard output is closed")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise  # the process at the other end has stopped reading, which is not an error of ours
    except OSError as error:
        raise ConservatorError(f"cannot write standard output: {error.strerror}") from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to a temporary file beside ``path``, then rename it over ``path``.

    An interrupted write leaves the previous file, or none, but never half a file. An existing file keeps its
    permissions, and a symbolic link keeps its target. A device or a pipe cannot be replaced, so it is written to
    directly.
    """
    temporary = None
    try:
        if is_special(path):
            path.write_bytes(data)
            return
        target = path.resolve() if path.is_symlink() else path
        if not target.parent.is_dir():
            raise ConservatorError(f"cannot write {path}: there is no folder {target.parent}")
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask()
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".conservator.", delete=False) as handle:
            temporary = Path(handle.name)
            handle.write(data)
        temporary.chmod(mode)
        temporary.replace(target)
    except OSError as error:
        raise ConservatorError(f"cannot write {path}: {error.strerror}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def is_special(path: Path) -> bool:
    """Whether ``path`` exists and is neither a file nor a folder, such as a device or a pipe."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _umask() -> int:
    """The process's umask, which temporary files ignore. It can only be read by setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current
