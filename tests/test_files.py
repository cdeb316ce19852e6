import os
import stat

import pytest

from conservator import ConservatorError
from conservator.files import write_atomically


def test_a_file_is_written_with_its_folders(tmp_path):
    path = tmp_path / "a" / "b.txt"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_has_the_usual_permissions(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(ConservatorError, match=r"cannot write .*file: No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_in_the_way_is_said(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(ConservatorError, match="cannot write"):
        write_atomically(tmp_path / "file", b"")
