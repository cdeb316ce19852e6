import os
import stat
import sys
from pathlib import Path

import pytest

from conservator import ConservatorError
from conservator.files import check_folder, check_writable, read_document, write_atomically, write_document


def test_a_file_is_written_whole(tmp_path):
    path = tmp_path / "b.txt"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_nothing_is_overwritten_and_no_folder_made_unless_that_is_wanted(tmp_path):
    path, there = tmp_path / "a" / "b.txt", tmp_path / "there.txt"
    there.write_bytes(b"there")
    with pytest.raises(ConservatorError, match=r"there is no folder .*a; --parents makes it"):
        check_writable(path)
    with pytest.raises(ConservatorError, match="there is no folder"):
        write_atomically(path, b"")
    with pytest.raises(ConservatorError, match="exists already; --force overwrites it"):
        check_writable(there)
    with pytest.raises(ConservatorError, match=r"there is no folder .*deep; --parents makes it"):
        check_folder(tmp_path / "deep" / "er")
    assert list(tmp_path.iterdir()) == [there]
    assert check_writable(there, force=True) == there
    assert check_writable(path, parents=True).parent.is_dir()
    assert check_folder(tmp_path / "made").is_dir()
    assert check_folder(tmp_path / "deep" / "er", parents=True).is_dir()


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


def test_permissions_links_and_pipes_stay_what_they_are(tmp_path):
    path, link, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    write_atomically(path, b"one")
    path.chmod(0o600)
    link.symlink_to(path)
    write_atomically(link, b"two")
    assert link.is_symlink()
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(check_writable(pipe), b"three")
    assert os.read(reader, 10) == b"three"
    os.close(reader)
    assert pipe.is_fifo()


def test_closed_and_full_streams_are_said(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ConservatorError, match="standard input is closed"):
        read_document("-")
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(ConservatorError, match="cannot write standard output: No space left"):
            write_document("-", b"a")
        monkeypatch.setattr(sys, "stdout", None)
        with pytest.raises(ConservatorError, match="standard output is closed"):
            write_document("-", b"a")
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # what it holds has to go somewhere
