"""Reading files whole, up to a limit; writing them atomically; and the names of their encodings."""

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
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

ENCODINGS = ("utf-8", "utf-16", "windows-1252", "iso-8859-15", "windows-1250", "windows-1251", "cp850", "mac-roman")
LARGEST_DOCUMENT = 2**30  # bytes that are read at most
LARGEST_JSON = 2**28  # of a config, a card or a tokenizer
CHUNK = 2**20
TEMPORARY = ".conservator.tmp."  # the names of temporary files begin with it, and end with eight characters of tempfile
TEMPORARY_NAME = re.compile(re.escape(TEMPORARY) + "[a-z0-9_]{8}")
ESCAPES = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7")  # ways to write text in ASCII


def cache_home() -> Path:
    """``$CONSERVATOR_HOME``, else ``$XDG_CACHE_HOME/conservator``, else ``~/.cache/conservator``."""
    own, cache = os.environ.get("CONSERVATOR_HOME"), os.environ.get("XDG_CACHE_HOME")
    if own:
        return Path(own)
    return (Path(cache) if cache else Path("~/.cache").expanduser()) / "conservator"


def is_file(path: Path) -> bool:
    """Whether there is a file; False for a name that is too long for one, where ``Path.is_file`` raises an OSError."""
    return _exists(path.is_file)


def is_folder(path: Path) -> bool:
    """Whether there is a folder; False for a name that is too long for one."""
    return _exists(path.is_dir)


def _exists(asked: Callable[[], bool]) -> bool:
    try:
        return asked()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise


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
    try:
        return _writable(path, force=force, parents=parents)
    except OSError as error:  # a name that is too long, a loop of links, a folder that may not be entered
        raise ConservatorError(f"cannot write {path}: {error.strerror}") from error


def _writable(path: Path, *, force: bool, parents: bool) -> Path:
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


@contextmanager
def open_file(path: Path, *, pipes: bool = False) -> Iterator[IO[bytes]]:
    """Open a file to read it, and turn what goes wrong meanwhile into a ConservatorError that names it.

    A device may have no end, and a pipe no beginning, so that reading them would take forever: neither is a file. With
    ``pipes``, a pipe or a terminal may stand for one, for a document that the user named.
    """
    try:
        with path.open("rb") if pipes else open(path, "rb", opener=_at_once) as handle:
            mode = os.fstat(handle.fileno()).st_mode
            piped = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or handle.isatty()
            if not stat.S_ISREG(mode) and not (pipes and piped):
                what = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a pipe"
                raise ConservatorError(f"cannot read {path}: it is {what}; a file is needed")
            yield handle
    except OSError as error:
        raise ConservatorError(f"cannot read {path}: {error.strerror or error}") from error


def read_file(path: Path, limit: int) -> bytes:
    """The bytes of a file that has at most ``limit`` of them."""
    with open_file(path) as handle:
        return _read_up_to(handle, limit, path)


def read_json(path: Path, limit: int = LARGEST_JSON) -> Any:
    """What a file of JSON holds."""
    data = read_file(path, limit)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConservatorError(f"{path} is not JSON: {error}") from error


def check_files(folder: Path) -> None:
    """Raise a ConservatorError if something in ``folder``, which others will read, is a device or a pipe."""
    try:
        for path in sorted(folder.iterdir()):
            if is_special(path):
                raise ConservatorError(f"cannot read {path}: it is a device or a pipe; a file is needed")
    except OSError as error:
        raise ConservatorError(f"cannot read {folder}: {error.strerror}") from error


def read_document(name: str, limit: int = LARGEST_DOCUMENT) -> bytes:
    """The bytes of a file or a pipe, or of standard input if its name is ``-``; at most ``limit`` of them."""
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
    """The path without symbolic links, as far as these lead anywhere; what is wrong with it shows when it is used."""
    return Path(os.path.realpath(path))


def shown(name: str | Path) -> str:
    """A name as text: bytes of it that are not UTF-8 are replaced."""
    return os.fsencode(name).decode(errors="replace")


def write_document(name: str, content: bytes | str) -> None:
    """Write ``content`` to a file, atomically, or to standard output if its name is ``-``."""
    if name != "-":
        write_atomically(Path(name), content)
        return
    if sys.stdout is None:
        raise ConservatorError("cannot write -: standard output is closed")
    try:
        sys.stdout.buffer.write(_as_bytes(content))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise  # the process at the other end has stopped reading, which is not an error of ours
    except OSError as error:
        raise ConservatorError(f"cannot write standard output: {error.strerror}") from error


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write ``content`` to a temporary file beside ``path``, then rename it over ``path``.

    An interrupted write leaves the previous file, or none, but never half a file. What a killed process left is removed
    by the next that writes into the same folder. An existing file keeps its permissions, and a symbolic link keeps its
    target. A device or a pipe cannot be replaced, so it is written to directly.
    """
    data = _as_bytes(content)
    try:
        if is_special(path):
            path.write_bytes(data)
            return
        target = real_path(path) if path.is_symlink() else path
        if not target.parent.is_dir():
            raise ConservatorError(f"cannot write {path}: there is no folder {target.parent}")
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask()
        _sweep(target.parent)
        with _temporary_in(target.parent) as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())  # a crash after the rename must not leave an empty file
            temporary = Path(handle.name)
            temporary.chmod(mode)
            if fcntl is None:
                handle.close()  # an open file cannot be renamed there
            temporary.replace(target)
    except OSError as error:
        raise ConservatorError(f"cannot write {path}: {error.strerror}") from error


@contextmanager
def _temporary_in(folder: Path) -> Iterator[IO[bytes]]:
    """A new file in ``folder``, locked by this process for as long as it is open, which is gone at the end."""
    while True:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=TEMPORARY, delete=False) as handle:
            try:
                _lock(handle)
                if not os.fstat(handle.fileno()).st_nlink:  # swept before it was locked: once more
                    continue
                yield handle
                return
            finally:
                Path(handle.name).unlink(missing_ok=True)


_swept: set[tuple[int, str]] = set()  # process and folder; a process cleans a folder before it first writes there


def _sweep(folder: Path) -> None:
    """Remove temporary files of ``write_atomically`` in ``folder`` that no living process has locked."""
    key = (os.getpid(), os.path.realpath(folder))
    if key in _swept or fcntl is None:
        return
    _swept.add(key)
    with os.scandir(folder) as entries:
        ours = [one for one in entries if TEMPORARY_NAME.fullmatch(one.name) and one.is_file(follow_symlinks=False)]
        found = [Path(one.path) for one in ours]
    for path in found:
        with suppress(OSError, ConservatorError), open_file(path) as handle:
            if _lock(handle):
                path.unlink(missing_ok=True)


def _lock(handle: Any) -> bool:
    """Lock a file until it is closed, or its process is gone; False if another has it, or files have no locks here."""
    try:
        fcntl.flock(handle.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, AttributeError):
        return False
    return True


def is_special(path: Path) -> bool:
    """Whether ``path`` exists and is neither a file nor a folder, such as a device or a pipe; OSError if it cannot."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _umask() -> int:
    """The process's umask, which temporary files ignore. It can only be read by setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current


def _at_once(name: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to does not make it wait."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _read_up_to(handle: IO[bytes], limit: int, name: object) -> bytes:
    """What is left of ``handle``; raise a ConservatorError if that is more than ``limit`` bytes."""
    try:
        size = os.fstat(handle.fileno()).st_size  # 0 for a pipe
    except io.UnsupportedOperation:  # a stream in memory
        size = 0
    if size > limit:
        raise ConservatorError(f"{name} has {size} bytes; at most {limit} are read")
    found = io.BytesIO()
    while chunk := handle.read(CHUNK):
        found.write(chunk)
        if found.tell() > limit:
            raise ConservatorError(f"{name} has more than {limit} bytes; at most {limit} are read")
    return found.getvalue()


def _as_bytes(content: bytes | str) -> bytes:
    """Text in UTF-8; half a surrogate, as in the name of a file that is not UTF-8, is no text and becomes ``?``."""
    return content.encode(errors="replace") if isinstance(content, str) else content
