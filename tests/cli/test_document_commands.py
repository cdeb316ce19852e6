"""``conservator restore``, ``damage`` and ``compare``."""

import contextlib
import json
import signal
import socket

import pytest

from conservator.cli.description import describe_sources
from conservator.experts import ByteExpert, library, load_expert, save_expert
from conservator.results.notices import STAGE_LABELS
from support.commands import call
from support.networks import random_network

EXPERTS = ("--experts", "experts/one,experts/two")


@pytest.fixture
def folder(tmp_path):
    """A clean document, its damaged version, and two untrained experts."""
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
    assert "bytes lost, in" in done.stdout
    assert "network evaluations" in done.stdout
    assert done.stderr == ""  # no progress bar: stderr is not a terminal
    text = (folder / "out" / "restored.txt").read_bytes().decode()
    record = json.loads((folder / "r.json").read_text())
    assert record["text"] == text
    assert "".join(piece["text"] for piece in record["pieces"]) == text
    assert next(len(piece["alternatives"]) for piece in record["pieces"] if "alternatives" in piece) == 4
    assert (folder / "r.html").read_text().startswith("<!doctype html>")
    done = call("compare", "clean.txt", "out/restored.txt", "damaged.txt", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "changes to undamaged text: none" in done.stdout
    done = call("compare", "clean.txt", "clean.txt", "damaged.txt", "--json", "-", cwd=folder)
    assert json.loads(done.stdout)["accuracy"] == 1.0


RUSSIAN = "Реклама молокоотсоса, которой кормящих сравнили, разделила мнения пользователей интернета. " * 4
LETTERS_LOST = "".join(letter if letter.isascii() else "\ufffd" for letter in RUSSIAN)


@pytest.mark.parametrize("options", [(), ("--min-confidence", 0.9), ("--lost", "bytes"), ("--lost", "characters")])
def test_text_that_is_mostly_lost_is_left_unchanged(folder, options):
    (folder / "lost.txt").write_text(LETTERS_LOST)
    experts = () if "characters" in options else EXPERTS
    done = call("restore", "lost.txt", "-o", "out.txt", "--json", "r.json", *options, *experts, cwd=folder)
    assert done.returncode == 5, done.stderr
    assert (folder / "out.txt").read_text() == LETTERS_LOST
    marks = LETTERS_LOST.count("\ufffd")
    assert f"warning: {marks} marks were left unfilled: most of the text around them is lost" in done.stdout
    record = json.loads((folder / "r.json").read_text())
    assert record["notices"][0]["kind"] == "mostly_lost"
    assert record["summary"]["unfilled"] >= marks


def test_the_help_explains_the_exit_code_of_unchanged_text(folder):
    text = " ".join(call("restore", "--help", cwd=folder).stdout.split())
    assert "5 unchanged: the models do not cover this text" in text


def test_restorable_text_next_to_mostly_lost_text_is_restored(folder):
    english = "The committee met on Tuesday in the old harbour hall, and voted at last. " * 4
    (folder / "part.txt").write_text(english.replace("voted", "vot\ufffdd", 1) + LETTERS_LOST)
    done = call("restore", "part.txt", "-o", "out.txt", *EXPERTS, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "most of the text around them is lost" in done.stdout
    text = (folder / "out.txt").read_text()
    assert "\ufffd" not in text[: len(english)]
    assert text.endswith(LETTERS_LOST)
    done = call("restore", "part.txt", "-o", "all.txt", "--fill-undetermined", *EXPERTS, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "\ufffd" not in (folder / "all.txt").read_text()


def test_a_gap_is_left_unfilled_by_default_and_has_candidates(folder):
    (folder / "gap.txt").write_text("received your [illegible] of the third instant, which was in good order")
    words = ("restore", "gap.txt", "--gap", "[illegible]", "--max-gap", 6, *EXPERTS)
    done = call(*words, "-o", "out.txt", "--json", "r.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "your [illegible] of" in (folder / "out.txt").read_text()
    assert 'gap at byte 14 left unfilled; candidates: "' in done.stdout
    piece = next(piece for piece in json.loads((folder / "r.json").read_text())["pieces"] if "origin" in piece)
    assert piece["unfilled"]
    assert len(piece["alternatives"]) > 1
    done = call(*words, "-o", "filled.txt", "--min-gap-confidence", 0, cwd=folder)
    assert "[illegible]" not in (folder / "filled.txt").read_text()
    assert "candidates" not in done.stdout


def test_restore_works_as_a_filter(folder):
    piped = call("restore", "-", *EXPERTS, cwd=folder, stdin=(folder / "damaged.txt").read_bytes())
    assert piped.returncode == 0, piped.stderr
    assert "bytes lost, in" in piped.stderr
    call("restore", "damaged.txt", "-o", "restored.txt", *EXPERTS, cwd=folder)
    again = call("restore", "damaged.txt", "-o", "restored.txt", "--force", "--quiet", *EXPERTS, cwd=folder)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert piped.stdout.encode() == (folder / "restored.txt").read_bytes()


def test_help_has_examples_and_exit_codes():
    for command in ("restore", "damage", "compare", "serve"):
        done = call(command, "--help", cwd=".")
        assert f"conservator {command}" in done.stdout
        assert "Exit codes" in done.stdout
    assert "--reference book/" in call("restore", "--help", cwd=".").stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["restore"], 2, "Missing argument"),
        (["restore", "damaged.txt", "--lost", "all"], 2, "must be one of auto, any, bytes, invalid, characters"),
        (["restore", "damaged.txt", "--mark", ""], 2, "at least one character"),
        (["restore", "damaged.txt", "--min-confidence", "2"], 2, "--min-confidence"),
        (["restore", "damaged.txt", "--mark", "?", "--gap", "?"], 2, "must differ, both are"),
        (["restore", "damaged.txt", "--json", "-"], 2, "--out is also written to standard output"),
        (["restore", "damaged.txt", "-o", "x", "--report", "./x"], 2, "--out is also written to ./x"),
        (["restore", "damaged.txt", "--channel", "auto,typing"], 2, "it must be the only one"),
        (["restore", "damaged.txt", "--channel", "replacement"], 2, "known: auto, mask, replacement:RATE"),
        (["restore", "damaged.txt", "--channel", "replacement:2"], 2, "between 0 and 1"),
        (
            ["restore", "damaged.txt", "-o", "damaged.txt", *EXPERTS],
            3,
            "the file already exists; use --force to overwrite it",
        ),
        (
            ["restore", "damaged.txt", "-o", "no/such/file", *EXPERTS],
            3,
            "the folder no/such does not exist; use --parents",
        ),
        (["restore", "nowhere.txt"], 3, "cannot read nowhere.txt: No such file"),
        (["restore", "experts"], 3, "cannot read experts"),
        (
            ["restore", "latin.txt", "-o", "x", *EXPERTS],
            4,
            "nothing to restore: latin.txt (read as windows-1252) contains no mark",
        ),
        (
            ["restore", "latin.txt", "--encoding", "utf-8", *EXPERTS],
            3,
            "byte 3 is 0xe9, which is invalid at this position; --enc",
        ),
        (
            ["restore", "latin.txt", "--encoding", "utf-8", *EXPERTS],
            3,
            "--lost invalid counts the 1 invalid byte as lost",
        ),
        (["restore", "latin.txt", "--encoding", "klingon", *EXPERTS], 2, "--encoding: 'klingon' is not known"),
        (["restore", "latin.txt", "--encoding", "ascii", *EXPERTS], 3, "latin.txt is not ascii: byte 3 is 0xe9"),
        *(
            pytest.param(["restore", name, *EXPERTS], 3, f"{name}: {message}", marks=pytest.mark.external_programs)
            for name, message in [
                ("photo.txt", "the PNG image is broken"),
                ("photo.tiff", "the TIFF image is broken"),
                ("photo.pdf", "the PDF document cannot be read: Failed to load"),
            ]
        ),
        (["restore", "damaged.txt", "--reference", "photo.txt", *EXPERTS], 3, "photo.txt is a PNG image, not text"),
        (["damage", "photo.txt"], 3, "photo.txt is a PNG image, not text; nothing was written"),
        (["compare", "clean.txt", "photo.txt", "damaged.txt"], 3, "photo.txt is a PNG image, not text"),
        (["restore", "damaged.txt", "-o", "experts", *EXPERTS], 3, "it is a folder"),
        (["restore", "damaged.txt", "--experts", "nobody"], 3, "no expert 'nobody'"),
        (["restore", "clean.txt", *EXPERTS], 4, "nothing to restore: clean.txt contains no mark U+FFFD"),
        (
            ["restore", "damaged.txt", "--reference", "clean.txt", "--no-memory"],
            2,
            "--reference: has no effect with --no-memory",
        ),
        (["restore", "damaged.txt", "--reference", ""], 2, "--reference: expected a file or a folder"),
        (
            ["restore", "damaged.txt", "--reference", "no/where.md", *EXPERTS],
            3,
            "the file or folder no/where.md does not exist",
        ),
        (["restore", "damaged.txt", "--reference", "-", *EXPERTS], 3, "standard input is not read here"),
        (["restore", "damaged.txt", "--reference", "empty.txt", *EXPERTS], 3, "empty.txt is empty"),
        (
            ["restore", "damaged.txt", "--reference", "binary.txt", *EXPERTS],
            3,
            "binary.txt is binary data, not text: 1 of its 3 bytes",
        ),
        (
            ["restore", "damaged.txt", "--reference", "halves.txt", *EXPERTS],
            3,
            "halves.txt is not UTF-8 text: byte 6 is 0xff",
        ),
        (["restore", "damaged.txt", "--reference", "image.png", *EXPERTS], 3, "image.png is binary data, not text"),
        (
            ["restore", "damaged.txt", "--reference", "wrong.jsonl", *EXPERTS],
            3,
            "line 1: expected a JSON object with a field",
        ),
        (["damage", "clean.txt", "--channel", "scratch"], 2, "expected one of mask, replacement"),
        (["damage", "clean.txt", "--rate", "1.5"], 2, "--rate"),
        (["damage", "damaged.txt"], 3, "occurs at byte 22 of the document"),
        (["compare", "clean.txt", "latin.txt", "damaged.txt"], 3, "must have the same length"),
    ],
)
def test_invalid_usage_and_input_are_reported(folder, words, code, message):
    files = {"latin.txt": "café".encode("latin-1"), "empty.txt": b"", "binary.txt": b"a\0b", "image.png": b"\0PNG\0",
             "wrong.jsonl": b"[]\n", "photo.txt": b"\x89PNG\r\n\x1a\n\0",
             "photo.tiff": b"II*\0", "photo.pdf": b"%PDF-1.4\n",
             "halves.txt": "été".encode() + b"e\xff"}  # fmt: skip
    for name, content in files.items():
        (folder / name).write_bytes(content)
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


@pytest.mark.parametrize("codec", ["cp1252", "utf-16"])
def test_the_output_has_the_encoding_of_the_input(folder, codec):
    text = "Le gar\u00e7on a mang\u00e9 une cr\u00eape \u00e0 la maison.\r\n" * 3
    (folder / "note.txt").write_bytes(text.encode(codec))
    done = call("damage", "note.txt", "--mark", "#", "--rate", 0.05, "-o", "lossy.txt", cwd=folder)
    assert done.returncode == 0, done.stderr
    damaged = (folder / "lossy.txt").read_bytes()
    assert f"{damaged.decode(codec).count('#')} of {len(text) + (codec == 'utf-16')} characters lost" in done.stderr
    done = call("restore", "lossy.txt", "--mark", "#", "-o", "out.txt", "--json", "r.json", *EXPERTS, cwd=folder)
    assert done.returncode == 0, done.stderr
    record = json.loads((folder / "r.json").read_text())
    assert record["encoding"] == {"cp1252": "windows-1252", "utf-16": "utf-16-le"}[codec]
    assert f"read as {record['encoding']} (detected); written as {record['encoding']}\n" in done.stderr
    assert (folder / "out.txt").read_bytes().decode(codec) == record["text"].removeprefix("\ufeff")
    again = call("restore", "lossy.txt", "--mark", "#", "--encoding", codec, "-o", "again.txt", *EXPERTS, cwd=folder)
    assert f"read as {record['encoding']}; written" in again.stderr
    assert (folder / "again.txt").read_bytes() == (folder / "out.txt").read_bytes()


def test_replaced_bytes_are_restored(folder):
    done = call("damage", "clean.txt", "--channel", "replacement", "--rate", 0.05, "-o", "wrong.txt", cwd=folder)
    assert done.returncode == 0, done.stderr
    done = call("restore", "wrong.txt", "--channel", "replacement:0.05", "--json", "r.json", "-o", "out.txt", *EXPERTS,
                cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (folder / "out.txt").read_bytes().decode()


STORY = "The committee met on Tuesday in the old harbour hall, and voted.\n"
LOSS = STORY.replace("Tuesday", "Tu\ufffd\ufffd\ufffday").replace("harbour", "harb\ufffdur")


def test_text_is_copied_from_references(folder):
    (folder / "story.txt").write_text(f"An account.\n\n{LOSS}")
    (folder / "other.txt").write_text(f"Minutes.\n{STORY}")
    files = ("--json", "r.json", "--report", "r.html", "-o", "out.txt")
    done = call("restore", "story.txt", "--reference", "other.txt", *files, *EXPERTS, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "out.txt").read_text() == f"An account.\n\n{STORY}"
    assert "4 copied by the memory: 4 from other.txt\n" in done.stdout
    assert "memory" in done.stdout
    record = json.loads((folder / "r.json").read_text())
    assert record["references"] == [{"name": "other.txt", "provenance": 4}]
    assert [piece["sources"] for piece in record["pieces"] if "origin" in piece] == [[[0, 2]] * 3, [[0, 2]]]
    assert '"name":"other.txt"' in (folder / "r.html").read_text()


def test_without_memory_nothing_is_copied(folder):
    (folder / "story.txt").write_text(f"{STORY}{LOSS}")
    done = call("restore", "story.txt", "-o", "with.txt", *EXPERTS, cwd=folder)
    assert "4 copied by the memory: 4 from the document\n" in done.stdout
    assert (folder / "with.txt").read_text() == 2 * STORY
    done = call("restore", "story.txt", "--no-memory", "--json", "r.json", "-o", "out.txt", *EXPERTS, cwd=folder)
    assert "copied" not in done.stdout
    assert "memory" not in done.stdout
    record = json.loads((folder / "r.json").read_text())
    assert (record["memory"], record["references"], record["summary"]["provenance"]) == (None, [], 0)


def test_a_folder_may_hold_the_document_itself(folder):
    (folder / "texts").mkdir()
    damaged = f"{LOSS}[...] na\u00efve caf\u00e9\n".encode().replace("\u00e9".encode(), "\ufffd".encode() + b"\xa9")
    (folder / "texts" / "story.txt").write_bytes(damaged)  # half a character is not valid text
    (folder / "texts" / "other.txt").write_text(STORY)
    (folder / "texts" / "empty.txt").write_text("")
    (folder / "texts" / "more.jsonl").write_text(json.dumps({"text": STORY.upper()}) + "\n")
    words = ("restore", "texts/story.txt", "--gap", "[...]", "--max-gap", 3, "-o", "out.txt", *EXPERTS)
    done = call(*words, "--reference", "texts", "--reference", "clean.txt", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "texts/other.txt" in done.stdout
    assert "story.txt" not in done.stdout
    assert (folder / "out.txt").read_text().startswith(STORY)
    done = call(*words, "--reference", "texts/story.txt", "--force", cwd=folder)
    assert done.returncode == 0, done.stderr


def test_the_most_used_references_are_listed():
    assert describe_sources({"b": 9, None: 5, "c": 3, "d": 2, "e": 2, "f": 1}) == [
        "5 from the document", "9 from b", "3 from c", "2 from d", "3 from 2 other references"]  # fmt: skip
    assert describe_sources({"b": 9, "c": 3, "d": 2, "e": 1})[-1] == "1 from 1 other reference"


def test_references_above_the_size_limit_are_rejected(folder, monkeypatch):
    monkeypatch.setattr("conservator.experts.memory.references.MAX_REFERENCE_BYTES", 100)
    done = call("restore", "damaged.txt", "--reference", "clean.txt", *EXPERTS, cwd=folder)
    assert done.returncode == 3
    assert "the references have more than 100 bytes, with clean.txt" in done.stderr


def test_references_change_no_visible_byte(folder):
    (folder / "upper.txt").write_text((folder / "clean.txt").read_text().upper())
    done = call("restore", "damaged.txt", "--reference", "upper.txt", "-o", "out.txt", *EXPERTS, cwd=folder)
    assert done.returncode == 0, done.stderr
    done = call("compare", "clean.txt", "out.txt", "damaged.txt", cwd=folder)
    assert "changes to undamaged text: none" in done.stdout


def test_the_progress_bar_shows_that_references_are_indexed(folder, monkeypatch):
    stages = []

    @contextlib.contextmanager
    def bar():
        yield lambda stage, share: stages.append(stage)

    monkeypatch.setattr("conservator.cli.restore.progress_bar", bar)
    call("restore", "damaged.txt", "--reference", "clean.txt", *EXPERTS, cwd=folder)
    assert stages[0] == "references"
    assert set(stages) <= set(STAGE_LABELS)


def test_singular_nouns_in_the_summary(folder):
    (folder / "one.txt").write_text("a lost l\ufffdtter")
    done = call("restore", "one.txt", "-o", "out.txt", *EXPERTS, cwd=folder)
    assert "1 mark, each for one lost character (--lost changes this)\n" in done.stdout
    done = call("restore", "one.txt", "-o", "bytes.txt", "--lost", "bytes", *EXPERTS, cwd=folder)
    assert "1 of 13 bytes lost, in 1 span\n" in done.stdout


def test_weights_are_loaded_once(folder, monkeypatch):
    loaded = []
    monkeypatch.setattr(library, "load_expert", lambda *args: loaded.append(args) or load_expert(*args))
    for _ in range(2):
        done = call("restore", "damaged.txt", *EXPERTS, cwd=folder)
        assert done.returncode == 0, done.stderr
    assert len(loaded) == 2  # each of the two experts once


def test_a_port_in_use_and_an_unknown_expert_are_reported(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = call("serve", "--port", taken.getsockname()[1], *EXPERTS, cwd=folder)
    assert done.returncode == 3
    assert "cannot listen on 127.0.0.1" in done.stderr
    done = call("serve", "--port", 0, "--experts", "nobody", cwd=folder)
    assert done.returncode == 3
    assert "no expert 'nobody'" in done.stderr


@pytest.mark.parametrize("host", ["192.0.2.1", "a" * 300, "a\0b", "\udc80"])
def test_an_invalid_host_is_reported(folder, host):
    done = call("serve", "--host", host, "--port", 0, *EXPERTS, cwd=folder)
    assert done.returncode == 3
    assert "cannot listen on" in done.stderr


def test_an_interrupt_leaves_no_file(folder, monkeypatch):
    predict, calls = ByteExpert.predict, []

    def interrupted(self, *rest):
        calls.append(1)
        if len(calls) == 5:
            signal.raise_signal(signal.SIGINT)
        return predict(self, *rest)

    monkeypatch.setattr(ByteExpert, "predict", interrupted)
    before = sorted(folder.iterdir())
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs may ignore the signal
    try:
        done = call("restore", "damaged.txt", "-o", "out.txt", "--report", "r.html", *EXPERTS, cwd=folder)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Herr M?ller sagt, dass die B?ume hoch sind.", "2 words with a question mark inside: --mark '?'"),
        ("The prisoner was taken to the station hy the constable, and tke man was alone.", "--channel ocr"),
        ("Why? Nobody knows. See example.org/?page=2 or a.example/list?sort=up.", None),
    ],
)
def test_damage_that_the_defaults_do_not_restore_is_named(tmp_path, text, message):
    (tmp_path / "letter.txt").write_text(text)
    done = call("restore", "letter.txt", cwd=tmp_path)
    assert done.returncode == 4
    assert done.stdout == text
    lines = done.stderr.splitlines()
    assert len(lines) == 1 + (message is not None)
    assert message is None or message in lines[1]
