"""Temporary folders beside the models. The folder of a killed process is removed by the next process that needs one.

A work folder is recognised by the pattern of its name and by its lock file. Its process holds a lock on that file,
which the operating system releases when the process ends. Windows has no such lock: stale folders remain there.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from conservator.system.files import lock_file, make_folder

PREFIX = ".conservator-work."
PATTERN = re.compile(rf"{re.escape(PREFIX)}[a-z0-9_]{{8}}")  # names of tempfile.mkdtemp
LOCK = "lock"


@contextmanager
def work_folder(home: Path) -> Iterator[Path]:
    """Create a folder in ``home``, and remove it at the end. ``home`` is created if it is missing."""
    remove_stale(make_folder(home))
    folder = Path(tempfile.mkdtemp(dir=home, prefix=PREFIX))
    with (folder / LOCK).open("wb") as lock:
        lock_file(lock)
        try:
            yield folder
        finally:
            if os.name == "nt":
                lock.close()  # Windows cannot remove an open file
            _remove(folder)


def remove_stale(home: Path) -> None:
    """Remove the work folders in ``home`` whose processes have ended."""
    for folder in [path for path in home.iterdir() if PATTERN.fullmatch(path.name) and not path.is_symlink()]:
        with suppress(OSError), (folder / LOCK).open("rb") as lock:
            if lock_file(lock):
                _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a work folder; the lock file is removed last, so that the rest of an interrupted removal is recognised."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()
    shutil.rmtree(folder)
