import os
import stat
import sys
from pathlib import Path

import pytest

from conservator import ConservatorError
from conservator.system import files
from conservator.system.files import (
    check_files,
    check_folder,
    check_writable,
    read_document,
    read_file,
    read_json,
    real_path,
    shown,
    write_atomically,
    write_document,
)


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


def test_a_device_or_a_pipe_is_no_file(tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "zero"
    os.mkfifo(pipe)  # to which nobody writes: opening it would wait forever
    link.symlink_to("/dev/zero")  # which has no end
    for path, what in ((pipe, "a pipe"), (link, "a device")):
        with pytest.raises(ConservatorError, match=rf"cannot read .*{path.name}: it is {what}; a file is needed"):
            read_file(path, 10)
    with pytest.raises(ConservatorError, match="it is a device"):
        read_document(str(link))
    with pytest.raises(ConservatorError, match=r"cannot read .*pipe: it is a device or a pipe"):
        check_files(tmp_path)
    pipe.unlink()
    link.unlink()
    check_files(tmp_path)


def test_files_are_read_up_to_a_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_file(path, 5) == read_document(str(path), 5) == b"12345"
    with pytest.raises(ConservatorError, match="file has 5 bytes; at most 4 are read"):
        read_file(path, 4)
    read, write = os.pipe()
    os.write(write, b"12345")
    os.close(write)
    with pytest.raises(ConservatorError, match="has more than 4 bytes; at most 4 are read"):
        read_document(f"/dev/fd/{read}", 4)  # as in a shell's <(...)
    os.close(read)


def test_json_that_is_none_is_said(tmp_path):
    path = tmp_path / "card.json"
    for data in (b"{", b"\xff", b"[" * 10**5):
        path.write_bytes(data)
        with pytest.raises(ConservatorError, match=r"card.json is not JSON"):
            read_json(path)


def test_names_that_cannot_be_are_said(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for name in ("loop", "a" * 300, "loop/inside"):
        for use in (check_writable, lambda path: write_atomically(path, b""), lambda path: read_file(path, 1)):
            with pytest.raises(ConservatorError, match=r"cannot (read|write)"):
                use(tmp_path / name)
    assert real_path(tmp_path / "loop").name == "loop"


def test_a_folder_that_may_not_be_entered_is_said(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied", "folder")

    monkeypatch.setattr("pathlib.Path.stat", refused)
    with pytest.raises(ConservatorError, match=r"cannot write .*file: Permission denied"):
        check_writable(tmp_path / "file")


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_writes_is_not(tmp_path):
    ours, theirs = tmp_path / ".conservator.tmp.dead_000", tmp_path / ".conservator.tmp.alive000"
    ours.write_bytes(b"half")
    other = tmp_path / ".other"
    other.write_bytes(b"")
    with theirs.open("wb") as handle:
        files._lock(handle)
        files._swept.clear()
        write_atomically(tmp_path / "file", b"whole")
        assert sorted(path.name for path in tmp_path.iterdir()) == [theirs.name, ".other", "file"]
    files._swept.clear()  # another process
    write_atomically(tmp_path / "file", b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other", "file"]


def test_only_temporary_files_are_swept(tmp_path):
    kept = [".conservator.sqlite", ".conservator.sqlite-wal", ".conservator.notes.txt", ".conservator.tmp.notes.txt"]
    for name in kept:
        (tmp_path / name).write_bytes(b"kept")
    (tmp_path / ".conservator.tmp.folder00").mkdir()
    (tmp_path / ".conservator.tmp.link0000").symlink_to(tmp_path / kept[0])
    before = sorted(tmp_path.iterdir())
    files._swept.clear()
    write_atomically(tmp_path / "file", b"whole")
    assert sorted(tmp_path.iterdir()) == [*before, tmp_path / "file"]
    assert all((tmp_path / name).read_bytes() == b"kept" for name in kept)


def test_a_file_is_on_disk_before_it_replaces_another(tmp_path, monkeypatch):
    calls, replace = [], Path.replace
    monkeypatch.setattr("os.fsync", lambda handle: calls.append("fsync"))
    monkeypatch.setattr(Path, "replace", lambda *given: calls.append("replace") or replace(*given))
    write_atomically(tmp_path / "file", b"whole")
    assert calls == ["fsync", "replace"]


def test_a_temporary_file_that_is_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    swept = []

    def lock(handle):
        if not swept:
            swept.append(handle.name)
            os.unlink(handle.name)  # noqa: PTH108
        return True

    monkeypatch.setattr(files, "_lock", lock)
    write_atomically(tmp_path / "file", b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert len(list(tmp_path.iterdir())) == len(swept) == 1


def test_half_a_surrogate_does_not_stop_a_write(tmp_path):
    write_atomically(tmp_path / "file", "caf\udce9")
    assert (tmp_path / "file").read_bytes() == b"caf?"
    assert shown("caf\udce9") == "caf\ufffd"
