"""``conservator restore``, ``damage`` and ``compare``."""

import json
import socket

import pytest

from commands import call, run_program
from conservator.experts import library, load_expert, save_expert
from networks import random_network

EXPERTS = ("--experts", "experts/one,experts/two")


@pytest.fixture
def folder(tmp_path):
    """A clean document, the same damaged, and two experts that were never trained."""
    clean = "Prose, and then\r\n  code: x = [1, 2]\r\nnaïve <b>café</b> €\n" * 3
    (tmp_path / "clean.txt").write_bytes(clean.encode())
    done = call("damage", "clean.txt", "--rate", 0.15, "-o", "damaged.txt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "bytes lost" in done.stderr
    for seed, name in enumerate(("one", "two")):
        save_expert(tmp_path / "experts" / name, random_network(seed=seed), name, {})
    return tmp_path


def test_a_document_is_restored_and_compared(folder):
    files = ("-o", "out/restored.txt", "--report", "r.html", "--json", "r.json")
    done = call("restore", "damaged.txt", *files, "--parents", *EXPERTS, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "bytes were lost" in done.stdout
    assert "network evaluations" in done.stdout
    assert done.stderr == ""  # no bar: it is no terminal
    text = (folder / "out" / "restored.txt").read_bytes().decode()
    record = json.loads((folder / "r.json").read_text())
    assert record["text"] == text
    assert "".join(piece["text"] for piece in record["pieces"]) == text
    assert next(len(piece["fills"]) for piece in record["pieces"] if "fills" in piece) == 4
    assert (folder / "r.html").read_text().startswith("<!doctype html>")
    done = call("compare", "clean.txt", "out/restored.txt", "damaged.txt", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "false changes: none" in done.stdout
    done = call("compare", "clean.txt", "clean.txt", "damaged.txt", "--json", "-", cwd=folder)
    assert json.loads(done.stdout)["accuracy"] == 1.0


def test_it_is_a_filter(folder):
    piped = call("restore", "-", *EXPERTS, cwd=folder, stdin=(folder / "damaged.txt").read_bytes())
    assert piped.returncode == 0, piped.stderr
    assert "bytes were lost" in piped.stderr
    call("restore", "damaged.txt", "-o", "restored.txt", *EXPERTS, cwd=folder)
    again = call("restore", "damaged.txt", "-o", "restored.txt", "--force", "--quiet", *EXPERTS, cwd=folder)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert piped.stdout.encode() == (folder / "restored.txt").read_bytes()


def test_help_has_examples_and_exit_codes():
    for command in ("restore", "damage", "compare", "serve"):
        done = call(command, "--help", cwd=".")
        assert f"conservator {command}" in done.stdout
        assert "Exit codes" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["restore"], 2, "Missing argument"),
        (["restore", "damaged.txt", "--lost", "all"], 2, "known: marked, invalid"),
        (["restore", "damaged.txt", "--mark", ""], 2, "at least one character"),
        (["restore", "damaged.txt", "--min-confidence", "2"], 2, "--min-confidence"),
        (["restore", "damaged.txt", "--mark", "?", "--gap", "?"], 2, "they must differ"),
        (["restore", "damaged.txt", "--json", "-"], 2, "--out goes to standard output, too"),
        (["restore", "damaged.txt", "-o", "x", "--report", "./x"], 2, "--out goes to ./x, too"),
        (["restore", "damaged.txt", "--channel", "replacement"], 2, "known: mask, or replacement:RATE"),
        (["restore", "damaged.txt", "--channel", "replacement:2"], 2, "between 0 and 1"),
        (["restore", "damaged.txt", "--channel", "replacement:0.1", "--alternatives", "2", *EXPERTS], 2, "marked gaps"),
        (["restore", "damaged.txt", "-o", "damaged.txt", *EXPERTS], 3, "it exists already; --force overwrites it"),
        (["restore", "damaged.txt", "-o", "no/such/file", *EXPERTS], 3, "no folder no/such; --parents makes it"),
        (["restore", "nowhere.txt"], 3, "cannot read nowhere.txt: No such file"),
        (["restore", "experts"], 3, "cannot read experts"),
        (["restore", "latin.txt", *EXPERTS], 3, "byte 3 is 0xe9"),
        (["restore", "damaged.txt", "-o", "experts", *EXPERTS], 3, "it is a folder"),
        (["restore", "damaged.txt", "--experts", "nobody"], 3, "no expert 'nobody'"),
        (["restore", "clean.txt", *EXPERTS], 4, "nothing to restore: clean.txt has no mark U+FFFD"),
        (["damage", "clean.txt", "--channel", "scratch"], 2, "known: mask, replacement"),
        (["damage", "clean.txt", "--rate", "1.5"], 2, "--rate"),
        (["damage", "damaged.txt"], 3, "already"),
        (["compare", "clean.txt", "latin.txt", "damaged.txt"], 3, "equally long"),
    ],
)
def test_what_is_wrong_is_said(folder, words, code, message):
    (folder / "latin.txt").write_bytes("café".encode("latin-1"))
    done = call(*words, cwd=folder)
    assert done.returncode == code
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_bytes_that_are_not_utf8_can_count_as_lost(folder):
    (folder / "latin.txt").write_bytes("café au lait".encode("latin-1"))
    done = call("restore", "latin.txt", "--lost", "invalid", "-o", "out.txt", *EXPERTS, cwd=folder)
    assert done.returncode == 0, done.stderr
    data = (folder / "out.txt").read_bytes()
    assert (data[:3], data[4:]) == (b"caf", b" au lait")
    assert data.decode()


def test_overwritten_bytes_are_restored_too(folder):
    done = call("damage", "clean.txt", "--channel", "replacement", "--rate", 0.05, "-o", "wrong.txt", cwd=folder)
    assert done.returncode == 0, done.stderr
    done = call("restore", "wrong.txt", "--channel", "replacement:0.05", "--json", "r.json", "-o", "out.txt", *EXPERTS,
                cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (folder / "out.txt").read_bytes().decode()


def test_one_is_said_as_one(folder):
    (folder / "one.txt").write_text("a lost l\ufffdtter")
    done = call("restore", "one.txt", "-o", "out.txt", *EXPERTS, cwd=folder)
    assert "1 of 13 bytes was lost, in 1 place\n" in done.stdout


def test_weights_are_loaded_once(folder, monkeypatch):
    loaded = []
    monkeypatch.setattr(library, "load_expert", lambda *words: loaded.append(words) or load_expert(*words))
    for _ in range(2):
        done = call("restore", "damaged.txt", *EXPERTS, cwd=folder)
        assert done.returncode == 0, done.stderr
    assert len(loaded) == 2  # one and two, each a single time


def test_a_page_that_cannot_be_served_is_said(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = call("serve", "--port", taken.getsockname()[1], *EXPERTS, cwd=folder)
    assert done.returncode == 3
    assert "cannot listen on 127.0.0.1" in done.stderr
    done = call("serve", "--port", 0, "--experts", "nobody", cwd=folder)
    assert done.returncode == 3
    assert "no expert 'nobody'" in done.stderr


def test_an_interrupt_leaves_no_file(folder):
    program = f"""
import signal, sys
from conservator.cli import main
from conservator.experts import ByteExpert

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
predict, asked = ByteExpert.predict, []

def interrupted(self, *rest):
    asked.append(1)
    if len(asked) == 5:
        signal.raise_signal(signal.SIGINT)
    return predict(self, *rest)

ByteExpert.predict = interrupted
sys.argv = ["conservator", "restore", "damaged.txt", "-o", "out.txt", "--report", "r.html", *{EXPERTS}]
main()
"""
    before = sorted(folder.iterdir())
    done = run_program(program, folder)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert sorted(folder.iterdir()) == before
