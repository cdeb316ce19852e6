"""Invalid and malicious input of the command line: one clear line and an exit code, never a traceback."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from conservator.cli import escaped_usage_errors
from conservator.cli.console import SafeConsole, printable
from conservator.experts import save_expert
from conservator.experts.byte import FORMAT
from support.commands import call, run_program
from support.networks import random_network

ESCAPE = "\x1b[31mred\x1b]0;title\x07"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with one expert."""
    path = tmp_path_factory.mktemp("adversaries")
    save_expert(path / "mine", random_network(), "mine", {"data": ["a.txt"], "steps": 3})
    return path


def card_of(folder):
    return json.loads((folder / "mine" / "config.json").read_text())


def with_card(folder, name, card):
    """Copy the expert with another card."""
    expert = folder / name
    expert.mkdir(exist_ok=True)
    (expert / "config.json").write_text(json.dumps(card))
    if not (expert / "model.safetensors").exists():
        (expert / "model.safetensors").hardlink_to(folder / "mine" / "model.safetensors")
    return expert


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([10**400, "\udc80"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = [(key,) for key in ("format", "name", "network", "weights", "about")]
FIELDS += [("about", key) for key in ("data", "steps", "held_out")]
FIELDS += [("about", "held_out", "nats_per_masked_byte"), ("about", "held_out", "nats_per_masked_byte", "low")]
FIELDS += [("weights", "bytes"), ("weights", "sha256"), ("network", "context"), ("network", "dropout")]


@given(st.sampled_from(FIELDS), ODD, st.booleans())
def test_cards_with_invalid_types_are_listed_or_rejected(folder, path, value, as_json):
    loss = {"value": 1.0, "low": 0.9, "high": 1.1}
    card = card_of(folder) | {"about": {"data": [], "steps": 1, "held_out": {"nats_per_masked_byte": loss}}}
    parent = card
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    expert = with_card(folder, "odd", card)
    done = call("experts", f"./{expert.name}", *["--json"] * as_json, cwd=folder)
    assert done.returncode in (0, 3), done.stderr
    assert done.returncode == 0 or "config.json" in done.stderr
    if as_json and not done.returncode:
        json.loads(done.stdout, parse_constant=pytest.fail)


@given(st.sampled_from(["name", "model_type", "base", "vocab_size", "source", "about"]), ODD)
def test_cards_of_flow_experts_with_invalid_types_are_listed_or_rejected(folder, key, value):
    card = {"model_type": "conservator_flow", "name": "flow", "vocab_size": 300, "source": "mask", "about": {}}
    expert = with_card(folder, "flow", card | {key: value})
    done = call("experts", f"./{expert.name}", cwd=folder)
    assert done.returncode in (0, 3), done.stderr


def test_an_invalid_card_is_rejected(folder):
    for data in (b"", b"[" * 10**5, b"\xff\xfe", b'{"format": 1e999}', b"null"):
        expert = with_card(folder, "broken", {})
        (expert / "config.json").write_bytes(data)
        done = call("experts", "./broken", cwd=folder)
        assert done.returncode == 3
        assert "config.json" in done.stderr


def test_weights_and_cards_that_are_devices_or_pipes_are_rejected(folder):
    for name in ("config.json", "model.safetensors"):
        for kind in ("zero", "pipe"):
            expert = with_card(folder, f"{kind}-{name}", card_of(folder))
            (expert / name).unlink()
            (expert / name).symlink_to("/dev/zero") if kind == "zero" else os.mkfifo(expert / name)
            done = call("restore", "-", "--experts", f"./{expert.name}", cwd=folder, stdin="a\ufffdb".encode())
            assert done.returncode == 3, done.stderr
            assert name in done.stderr


def test_control_characters_in_input_are_escaped(folder):
    with_card(folder, "escape", card_of(folder) | {"name": ESCAPE})
    done = call("experts", "./escape", cwd=folder)
    assert done.returncode == 0
    assert "\\x1b[31mred\\x1b]0;title" in done.stdout
    for words in (["experts", ESCAPE], ["compare", ESCAPE, "b", "c"], ["compare", "a", "b", "c", ESCAPE], [ESCAPE]):
        done = call(*words, cwd=folder)
        assert done.returncode in (2, 3)
        assert "\x1b" not in done.stdout + done.stderr
    document = folder / f"{ESCAPE}.txt".replace("/", "")
    document.write_text("a\ufffdb")
    done = call("restore", document.name, "--experts", "./escape", "--fill-undetermined", "-o", "out.txt", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_own_colours_are_not_escaped(capsys):
    console = SafeConsole(force_terminal=True, width=60, legacy_windows=False, color_system="standard")
    table = Table("\x1b[2Jname\u202e")
    table.add_row("\x9b1mtext\ttab\nline")
    console.print(table, style="red")
    written = capsys.readouterr().out
    assert "\x1b[31m" in written
    assert "\x1b[2J" not in written
    assert "\\x1b[2Jname\\u202e" in written
    assert "\x9b" not in written
    assert printable("plain ✓ text\n\t") == "plain ✓ text\n\t"


def test_usage_errors_are_escaped():
    import typer

    with pytest.raises(typer.BadParameter) as caught, escaped_usage_errors():
        raise typer.BadParameter(ESCAPE)
    assert caught.value.message == printable(ESCAPE)


@pytest.mark.parametrize(
    "words",
    [
        ["experts", "./" + "a" * 300],
        ["restore", "a" * 300],
        ["restore", "d.txt", "-o", "a" * 300],
        ["restore", "d.txt", "-o", "loop"],
        ["restore", "d.txt", "-o", "loop/x"],
        ["restore", "loop"],
        ["restore", "d.txt", "--experts", "loop", "-o", "x"],
        ["restore", "d.txt", "--reference", "loop", "-o", "x"],
        ["restore", "d.txt", "--reference", "a" * 300, "-o", "x"],
        ["restore", "d.txt", "--channel", "a" * 300 + ".json", "-o", "x"],
        ["damage", "loop", "-o", "x"],
        ["damage", "d.txt", "-o", "loop"],
        ["damage", "d.txt", "-o", "a" * 300],
        ["compare", "a" * 300, "d.txt", "d.txt"],
        ["compare", "d.txt", "d.txt", "d.txt", "--json", "loop"],
        ["channel", "fit", "loop", "d.txt", "-o", "x"],
        ["channel", "fit", "d.txt", "d.txt", "-o", "a" * 300],
        ["check", "./mine", "--data", "mine=loop"],
        ["check", "./mine", "--data", "mine=d.txt", "--out", "loop"],
        ["check", "a" * 300, "--data", "mine=d.txt"],
        ["convert", "loop", "--out", "x"],
        ["convert", "a" * 300, "--out", "x"],
        ["convert", "d.txt", "--out", "loop"],
        ["convert", "d.txt", "--out", "a" * 300],
        ["train", "--data", "d.txt", "--out", "a" * 300, "--steps", "1"],
        ["train", "--data", "d.txt", "--out", "loop", "--steps", "1"],
        ["train", "--data", "d.txt", "--out", "made", "--resume", "--base", "loop", "--steps", "1"],
        ["train", "--data", "d.txt", "--out", "made", "--vocabulary", "loop", "--steps", "1"],
        ["reproduce", "simulator", "--out", "a" * 300],
        ["reproduce", "simulator", "--json", "loop"],
        ["reproduce", "byte3", "--corpora", "a" * 300],
        ["restore", "/dev/zero"],
        ["restore", "d.txt", "--reference", "/dev/zero", "-o", "x"],
        ["restore", "."],
        ["damage", "d.txt", "--mark", "\udc80", "-o", "x"],
        ["compare", "d.txt", "d.txt", "d.txt", "--mark", "\udc80"],
    ],
    ids=lambda words: " ".join(words).replace("a" * 300, "LONG").replace("\udc80", "HALF"),
)
def test_invalid_names_are_an_error(folder, words):
    (folder / "d.txt").write_text("one mark: \ufffd, and some text around it that is long enough for a window\n" * 9)
    if not (folder / "loop").is_symlink():
        (folder / "loop").symlink_to("loop")
    done = call(*words, cwd=folder)
    assert done.returncode in (2, 3), (done.stdout, done.stderr)
    assert done.stderr.strip()
    assert not (folder / "x").exists()


def test_a_folder_without_permission_is_an_error(folder, monkeypatch):
    """The permission is simulated, because the tests may run as root."""
    stat = Path.stat

    def denied(self, **options):
        if "closed" in self.parts:
            raise PermissionError(13, "Permission denied", str(self))
        return stat(self, **options)

    monkeypatch.setattr(Path, "stat", denied)
    (folder / "d.txt").write_text("one \ufffd")
    for words in (["experts", "closed/x"], ["restore", "d.txt", "-o", "closed/x"], ["convert", "closed/x", "-o", "y"]):
        done = call(*words, cwd=folder)
        assert done.returncode == 3
        assert "Permission denied" in done.stderr


def test_a_full_standard_output_is_an_error(tmp_path):
    (tmp_path / "d.txt").write_text("text\n" * 9)
    for words in ("experts", "experts --json", "--version", "damage d.txt -q", "compare d.txt d.txt d.txt"):
        with Path("/dev/full").open("wb") as full:
            command = [sys.executable, "-m", "conservator", *words.split()]
            done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 3, (words, done.stderr)
        assert done.stderr == "error: cannot write standard output: No space left on device\n"


IMPORTING = """
import builtins, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
original = builtins.__import__
def interrupted(name, *rest, **named):
    if name == {name!r}:
        builtins.__import__ = original
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10**7): pass
    return original(name, *rest, **named)
builtins.__import__ = interrupted
sys.argv = ["conservator", "damage", "d.txt"]
from conservator.__main__ import main
main()
"""


@pytest.mark.parametrize("name", ["rich.console", "conservator.documents"])
def test_an_interrupt_during_imports_prints_one_line(tmp_path, name):
    (tmp_path / "d.txt").write_text("text\n" * 9)
    done = run_program(IMPORTING.format(name=name), tmp_path)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "interrupted\n"
    assert signal.getsignal(signal.SIGINT) is not None


def test_an_unpaired_surrogate_in_a_name_does_not_stop_a_report(folder):
    with_card(folder, "half", card_of(folder) | {"name": "half\ud800", "about": {"data": ["\udc80"]}})
    assert card_of(folder)["format"] == FORMAT
    (folder / "d.txt").write_text("one mark: \ufffd\n")
    words = ("restore", "d.txt", "--experts", "./half", "-f", "-o", "out.txt", "--report", "r.html", "--json", "r.json")
    done = call(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "half?" in (folder / "r.html").read_text(encoding="utf-8")
    assert json.loads((folder / "r.json").read_text(encoding="utf-8"))["experts"][0] in ("half?", {"name": "half?"})
    assert call("experts", "./half", cwd=folder).returncode == 0
