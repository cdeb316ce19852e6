"""Reading files up to a limit, and atomic writes."""

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
    display_name,
    read_document,
    read_file,
    read_json,
    real_path,
    write_atomically,
    write_document,
)


def test_a_file_is_written_completely(tmp_path):
    path = tmp_path / "b.txt"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_files_are_overwritten_and_folders_created_only_on_request(tmp_path):
    path, existing = tmp_path / "a" / "b.txt", tmp_path / "existing.txt"
    existing.write_bytes(b"content")
    with pytest.raises(ConservatorError, match=r"the folder .*a does not exist; use --parents to create it"):
        check_writable(path)
    with pytest.raises(ConservatorError, match=r"the folder .*a does not exist"):
        write_atomically(path, b"")
    with pytest.raises(ConservatorError, match="the file already exists; use --force to overwrite it"):
        check_writable(existing)
    with pytest.raises(ConservatorError, match=r"the folder .*deep does not exist; use --parents to create it"):
        check_folder(tmp_path / "deep" / "er")
    assert list(tmp_path.iterdir()) == [existing]
    assert check_writable(existing, force=True) == existing
    assert check_writable(path, parents=True).parent.is_dir()
    assert check_folder(tmp_path / "made").is_dir()
    assert check_folder(tmp_path / "deep" / "er", parents=True).is_dir()


def test_a_file_has_the_usual_permissions(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_failed_write_leaves_the_old_file_and_no_temporary_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(ConservatorError, match=r"cannot write .*file: No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_cannot_be_overwritten(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(ConservatorError, match="cannot write"):
        write_atomically(tmp_path / "file", b"")


def test_permissions_links_and_pipes_are_preserved(tmp_path):
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


def test_closed_and_full_streams_are_reported(monkeypatch):
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # the buffered bytes are flushed on close


def test_devices_and_pipes_are_rejected(tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "zero"
    os.mkfifo(pipe)  # without a writer: opening it would wait forever
    link.symlink_to("/dev/zero")  # endless
    for path, kind in ((pipe, "a pipe"), (link, "a device")):
        with pytest.raises(ConservatorError, match=rf"cannot read .*{path.name}: expected a file, got {kind}"):
            read_file(path, 10)
    with pytest.raises(ConservatorError, match="expected a file, got a device"):
        read_document(str(link))
    with pytest.raises(ConservatorError, match=r"cannot read .*pipe: expected a file, got a device or a pipe"):
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
        read_document(f"/dev/fd/{read}", 4)  # as in <(...) of a shell
    os.close(read)


def test_invalid_json_is_reported(tmp_path):
    path = tmp_path / "card.json"
    for data in (b"{", b"\xff", b"[" * 10**5):
        path.write_bytes(data)
        with pytest.raises(ConservatorError, match=r"card.json is not JSON"):
            read_json(path)


def test_invalid_names_are_reported(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for name in ("loop", "a" * 300, "loop/inside"):
        for use in (check_writable, lambda path: write_atomically(path, b""), lambda path: read_file(path, 1)):
            with pytest.raises(ConservatorError, match=r"cannot (read|write)"):
                use(tmp_path / name)
    assert real_path(tmp_path / "loop").name == "loop"


def test_missing_permissions_are_reported(tmp_path, monkeypatch):
    def deny(*_, **__):
        raise PermissionError(13, "Permission denied", "folder")

    monkeypatch.setattr("pathlib.Path.stat", deny)
    with pytest.raises(ConservatorError, match=r"cannot write .*file: Permission denied"):
        check_writable(tmp_path / "file")


def test_temporary_files_of_a_killed_process_are_removed_and_those_of_a_running_one_are_not(tmp_path):
    stale, locked = tmp_path / ".conservator.tmp.dead_000", tmp_path / ".conservator.tmp.alive000"
    stale.write_bytes(b"half")
    other = tmp_path / ".other"
    other.write_bytes(b"")
    with locked.open("wb") as handle:
        files.lock_file(handle)
        files._cleaned.clear()
        write_atomically(tmp_path / "file", b"whole")
        assert sorted(path.name for path in tmp_path.iterdir()) == [locked.name, ".other", "file"]
    files._cleaned.clear()  # another process
    write_atomically(tmp_path / "file", b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other", "file"]


def test_only_temporary_files_are_removed(tmp_path):
    unrelated = [
        ".conservator.sqlite",
        ".conservator.sqlite-wal",
        ".conservator.notes.txt",
        ".conservator.tmp.notes.txt",
    ]
    for name in unrelated:
        (tmp_path / name).write_bytes(b"content")
    (tmp_path / ".conservator.tmp.folder00").mkdir()
    (tmp_path / ".conservator.tmp.link0000").symlink_to(tmp_path / unrelated[0])
    before = sorted(tmp_path.iterdir())
    files._cleaned.clear()
    write_atomically(tmp_path / "file", b"whole")
    assert sorted(tmp_path.iterdir()) == [*before, tmp_path / "file"]
    assert all((tmp_path / name).read_bytes() == b"content" for name in unrelated)


def test_a_file_is_on_disk_before_it_replaces_another(tmp_path, monkeypatch):
    calls, replace = [], Path.replace
    monkeypatch.setattr("os.fsync", lambda handle: calls.append("fsync"))
    monkeypatch.setattr(Path, "replace", lambda *arguments: calls.append("replace") or replace(*arguments))
    write_atomically(tmp_path / "file", b"whole")
    assert calls == ["fsync", "replace"]


def test_a_temporary_file_that_is_removed_before_it_is_locked_is_created_again(tmp_path, monkeypatch):
    removed = []

    def lock(handle):
        if not removed:
            removed.append(handle.name)
            os.unlink(handle.name)  # noqa: PTH108
        return True

    monkeypatch.setattr(files, "lock_file", lock)
    write_atomically(tmp_path / "file", b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert len(list(tmp_path.iterdir())) == len(removed) == 1


def test_a_lone_surrogate_is_replaced(tmp_path):
    write_atomically(tmp_path / "file", "caf\udce9")
    assert (tmp_path / "file").read_bytes() == b"caf?"
    assert display_name("caf\udce9") == "caf\ufffd"
