"""Temporary folders beside the models. One that a killed process left is removed by the next process that needs one.

A folder is ours if its name has our pattern and it holds our lock file. The process that made it holds a lock on that
file, which the system releases when the process ends, however it ends.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from conservator.system.files import make_folder

try:
    import fcntl
except ImportError:  # not on Windows, where nothing is swept
    fcntl = None  # type: ignore[assignment]

PREFIX = ".conservator-work."
PATTERN = re.compile(rf"{re.escape(PREFIX)}[a-z0-9_]{{8}}")  # as tempfile.mkdtemp makes it
LOCK = "lock"


@contextmanager
def work_folder(home: Path) -> Iterator[Path]:
    """A new folder in ``home``, which is created if it is missing. The folder is removed at the end."""
    sweep(make_folder(home))
    folder = Path(tempfile.mkdtemp(dir=home, prefix=PREFIX))
    with (folder / LOCK).open("wb") as lock:
        _lock(lock)
        try:
            yield folder
        finally:
            if fcntl is None:
                lock.close()  # an open file cannot be removed there
            _remove(folder)


def sweep(home: Path) -> None:
    """Remove the work folders in ``home`` whose processes have ended."""
    for folder in [path for path in home.iterdir() if PATTERN.fullmatch(path.name) and not path.is_symlink()]:
        with suppress(OSError), (folder / LOCK).open("rb") as lock:
            if _lock(lock):
                _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a work folder; its lock file goes last, so that what is left by an interruption can be swept."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()
    shutil.rmtree(folder)


def _lock(handle: IO[bytes]) -> bool:
    """Lock a file until it is closed; False if another process has it, or files have no locks here."""
    try:
        fcntl.flock(handle.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, AttributeError):
        return False
    return True
