"""Read files up to a size limit, write files atomically, and check names of encodings."""

import codecs
import errno
import io
import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from conservator.errors import ConservatorError, OptionError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

ENCODINGS = ("utf-8", "utf-16", "windows-1252", "iso-8859-15", "windows-1250", "windows-1251", "cp850", "mac-roman")
MAX_DOCUMENT_BYTES = 2**30  # bytes: size of a document [safety limit]
MAX_JSON_BYTES = 2**28  # bytes: size of a config, a model card or a tokenizer [safety limit]
CHUNK_BYTES = 2**20  # bytes: read at once [untuned]
TEMP_PREFIX = ".conservator.tmp."  # temporary file names: this prefix and eight characters of tempfile
TEMP_NAME = re.compile(re.escape(TEMP_PREFIX) + "[a-z0-9_]{8}")
ASCII_ESCAPES = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7")  # codecs that write ASCII


def cache_home() -> Path:
    """Return ``$CONSERVATOR_HOME``, else ``$XDG_CACHE_HOME/conservator``, else ``~/.cache/conservator``."""
    home, cache = os.environ.get("CONSERVATOR_HOME"), os.environ.get("XDG_CACHE_HOME")
    if home:
        return Path(home)
    return (Path(cache) if cache else Path("~/.cache").expanduser()) / "conservator"


def is_file(path: Path) -> bool:
    """Return whether a path is a file; False for a name that is too long, where ``Path.is_file`` raises an OSError."""
    return _exists(path.is_file)


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder; False for a name that is too long."""
    return _exists(path.is_dir)


def _exists(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise


def make_folder(path: Path) -> Path:
    """Create ``path`` and its parents; raise a ConservatorError if this fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConservatorError(f"cannot create the folder {path}: {error.strerror}") from error
    return path


def check_folder(path: Path, *, parents: bool = False) -> Path:
    """Create the folder ``path`` for results. Its parent is created only with ``parents``."""
    if not parents and not path.parent.is_dir():
        raise ConservatorError(
            f"cannot create the folder {path}: the folder {path.parent} does not exist; use --parents to create it"
        )
    return make_folder(path)


def check_writable(path: Path, *, force: bool = False, parents: bool = False) -> Path:
    """Return ``path`` if it is writable; raise a ConservatorError with the reason if not.

    An existing file needs ``force``. Missing folders are created with ``parents``.
    """
    try:
        return _writable(path, force=force, parents=parents)
    except OSError as error:  # a name that is too long, a loop of links, or missing permissions
        raise ConservatorError(f"cannot write {path}: {error.strerror}") from error


def _writable(path: Path, *, force: bool, parents: bool) -> Path:
    if is_special(path):
        return path
    if not path.parent.is_dir():
        if not parents:
            raise ConservatorError(
                f"cannot write {path}: the folder {path.parent} does not exist; use --parents to create it"
            )
        make_folder(path.parent)
    if path.is_dir():
        raise ConservatorError(f"cannot write {path}: it is a folder")
    if path.exists() and not force:
        raise ConservatorError(f"cannot write {path}: the file already exists; use --force to overwrite it")
    if not os.access(path.parent, os.W_OK):
        raise ConservatorError(f"cannot write {path}: no permission to write in {path.parent}")
    return path


def check_encoding(name: str) -> str:
    """Return the usual name of an encoding; raise an OptionError if it is unknown."""
    try:
        codec = codecs.lookup(name).name
        if codec in ASCII_ESCAPES:
            raise LookupError
        "a".encode(codec)  # some codecs convert bytes only
    except (LookupError, UnicodeError, ValueError, TypeError) as error:
        raise OptionError(
            "encoding", f"{name!r} is not known; known: {', '.join(ENCODINGS)}, and other encodings of Python"
        ) from error
    codec = "utf-8" if codec == "utf-8-sig" else codec
    return re.sub(r"^cp(?=125\d$)", "windows-", codec).replace("iso8859-", "iso-8859-")


@contextmanager
def open_file(path: Path, *, pipes: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for reading; errors inside the block become a ConservatorError that names the file.

    Devices and pipes are rejected, because reading them may never end. ``pipes`` accepts pipes and terminals, for a
    document that the user named.
    """
    try:
        with path.open("rb") if pipes else open(path, "rb", opener=_open_nonblocking) as handle:
            mode = os.fstat(handle.fileno()).st_mode
            piped = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or handle.isatty()
            if not stat.S_ISREG(mode) and not (pipes and piped):
                kind = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a pipe"
                raise ConservatorError(f"cannot read {path}: expected a file, got {kind}")
            yield handle
    except OSError as error:
        raise ConservatorError(f"cannot read {path}: {error.strerror or error}") from error


def read_file(path: Path, limit: int) -> bytes:
    """Read a file of at most ``limit`` bytes."""
    with open_file(path) as handle:
        return _read_up_to(handle, limit, path)


def read_json(path: Path, limit: int = MAX_JSON_BYTES) -> Any:
    """Read a JSON file."""
    data = read_file(path, limit)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConservatorError(f"{path} is not JSON: {error}") from error


def check_files(folder: Path) -> None:
    """Raise a ConservatorError if ``folder`` contains a device or a pipe, before other packages read it."""
    try:
        for path in sorted(folder.iterdir()):
            if is_special(path):
                raise ConservatorError(f"cannot read {path}: expected a file, got a device or a pipe")
    except OSError as error:
        raise ConservatorError(f"cannot read {folder}: {error.strerror}") from error


def read_document(name: str, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """Read at most ``limit`` bytes from a file or a pipe, or from standard input if the name is ``-``."""
    if name != "-":
        with open_file(Path(name), pipes=True) as handle:
            return _read_up_to(handle, limit, name)
    if sys.stdin is None:
        raise ConservatorError("cannot read -: standard input is closed")
    try:
        return _read_up_to(sys.stdin.buffer, limit, "standard input")
    except OSError as error:
        raise ConservatorError(f"cannot read {name}: {error.strerror}") from error


def real_path(path: Path) -> Path:
    """Resolve symbolic links without failing; errors surface when the path is opened."""
    return Path(os.path.realpath(path))


def display_name(name: str | Path) -> str:
    """Return a file name as text; bytes that are not UTF-8 are replaced."""
    return os.fsencode(name).decode(errors="replace")


def write_document(name: str, content: bytes | str) -> None:
    """Write ``content`` to a file, atomically, or to standard output if the name is ``-``."""
    if name != "-":
        write_atomically(Path(name), content)
        return
    if sys.stdout is None:
        raise ConservatorError("cannot write -: standard output is closed")
    try:
        sys.stdout.buffer.write(_as_bytes(content))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise  # the reading process has ended: handled by the caller
    except OSError as error:
        raise ConservatorError(f"cannot write standard output: {error.strerror}") from error


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write ``content`` to a temporary file beside ``path``, then rename it over ``path``.

    An interrupted write leaves the previous file, or none, but never a partial file. Temporary files of a killed
    process are removed by the next process that writes into the same folder. An existing file keeps its permissions,
    and a symbolic link keeps its target. A device or a pipe cannot be replaced and is written directly.
    """
    data = _as_bytes(content)
    try:
        if is_special(path):
            path.write_bytes(data)
            return
        target = real_path(path) if path.is_symlink() else path
        if not target.parent.is_dir():
            raise ConservatorError(f"cannot write {path}: the folder {target.parent} does not exist")
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask()
        _remove_stale(target.parent)
        with _temporary_in(target.parent) as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())  # a crash after the rename must not leave an empty file
            temporary = Path(handle.name)
            temporary.chmod(mode)
            if fcntl is None:
                handle.close()  # Windows cannot rename an open file
            temporary.replace(target)
    except OSError as error:
        raise ConservatorError(f"cannot write {path}: {error.strerror}") from error


@contextmanager
def _temporary_in(folder: Path) -> Iterator[IO[bytes]]:
    """Create a temporary file in ``folder``, locked by this process while it is open, and remove it at the end."""
    while True:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=TEMP_PREFIX, delete=False) as handle:
            try:
                lock_file(handle)
                if not os.fstat(handle.fileno()).st_nlink:  # removed by another process before it was locked: try again
                    continue
                yield handle
                return
            finally:
                Path(handle.name).unlink(missing_ok=True)


_cleaned: set[tuple[int, str]] = set()  # (process, folder): cleaned before the first write


def _remove_stale(folder: Path) -> None:
    """Remove temporary files of ``write_atomically`` in ``folder`` that no running process has locked."""
    key = (os.getpid(), os.path.realpath(folder))
    if key in _cleaned or fcntl is None:
        return
    _cleaned.add(key)
    with os.scandir(folder) as entries:
        paths = [
            Path(entry.path)
            for entry in entries
            if TEMP_NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        ]
    for path in paths:
        with suppress(OSError, ConservatorError), open_file(path) as handle:
            if lock_file(handle):
                path.unlink(missing_ok=True)


def lock_file(handle: Any) -> bool:
    """Lock a file until it is closed or the process ends; return False if it is locked, or locks are unsupported."""
    try:
        fcntl.flock(handle.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, AttributeError):
        return False
    return True


def is_special(path: Path) -> bool:
    """Return whether ``path`` exists and is neither a file nor a folder, such as a device or a pipe."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _umask() -> int:
    """Return the umask of the process, which temporary files ignore. It can only be read by setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current


def _open_nonblocking(name: str, flags: int) -> int:
    """Open a file without waiting for the writer of a pipe."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _read_up_to(handle: IO[bytes], limit: int, name: object) -> bytes:
    """Read the rest of ``handle``; raise a ConservatorError if it has more than ``limit`` bytes."""
    try:
        size = os.fstat(handle.fileno()).st_size  # 0 for a pipe
    except io.UnsupportedOperation:  # an in-memory stream
        size = 0
    if size > limit:
        raise ConservatorError(f"{name} has {size} bytes; at most {limit} are read")
    content = io.BytesIO()
    while chunk := handle.read(CHUNK_BYTES):
        content.write(chunk)
        if content.tell() > limit:
            raise ConservatorError(f"{name} has more than {limit} bytes; at most {limit} are read")
    return content.getvalue()


def _as_bytes(content: bytes | str) -> bytes:
    """Encode text as UTF-8; a lone surrogate, as in a file name that is not UTF-8, becomes ``?``."""
    return content.encode(errors="replace") if isinstance(content, str) else content
