"""``conservator batch`` with real experts."""

import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from conservator.batch import Batch, Inputs, LocalEngine, Totals, WorkerConfig
from conservator.cli.batch import summary
from conservator.options import RestoreOptions
from support.commands import call, run

DAMAGED = "The quick br\ufffdwn fox jumps over the l\ufffdzy dog.\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text(DAMAGED)
    (tmp_path / "in" / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "in" / "rows.jsonl").write_text(json.dumps({"text": DAMAGED, "n": 1}) + "\n")
    return tmp_path


def test_a_batch_gives_the_same_results_as_restore(folder):
    alone = call("restore", "in/a.txt", "--experts", "prose", "-o", "alone.txt", cwd=folder)
    assert alone.returncode == 0
    words = ("batch", "in", "--out", "out", "--experts", "prose", "--jobs", "1")
    done = call(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "2 documents: 2 restored" in done.stdout
    assert "1 not text" in done.stdout
    restored = (folder / "alone.txt").read_text()
    assert (folder / "out" / "a.txt").read_text() == restored
    assert json.loads((folder / "out" / "rows.jsonl").read_text()) == {"text": restored, "n": 1}
    page = (folder / "out" / "overview.html").read_text()
    assert "a.txt" in page
    assert not re.search(r"https?://|<script", page)
    again = call(*words, cwd=folder)
    assert again.returncode == 0
    assert "this run: 0 documents" in again.stdout


def test_documents_are_references_of_each_other_and_a_dry_run_writes_nothing(folder):
    (folder / "in" / "b.txt").write_text(DAMAGED.replace("br\ufffdwn", "brown"))
    words = ("batch", "in/a.txt", "in/b.txt", "--out", "out", "--experts", "prose", "--cross-reference", "--jobs", "1")
    dry = call(*words, "--dry-run", cwd=folder)
    assert dry.returncode == 0, dry.stderr
    assert "2 documents" in dry.stdout
    assert "3 marks" in dry.stdout
    assert not (folder / "out").exists()
    done = call(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "brown" in (folder / "out" / "a.txt").read_text()
    assert sorted(path.name for path in (folder / "out").iterdir() if path.name.startswith(".")) == [
        ".conservator.sqlite"
    ]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ("in", "--out", "out", "--no-memory", "--cross-reference"),
            2,
            "--cross-reference: has no effect with --no-memory",
        ),
        (("in", "--out", "out", "--reference", ""), 2, "expected a file or a folder, got an empty name"),
        (
            ("in", "--out", "out", "--channel", "ocr", "--cross-reference"),
            2,
            "--cross-reference: not available with channels that correct text",
        ),
        (("in", "--out", "out", "--precision", "int4"), 2, "'int4' is not one of 'float32', 'bfloat16'"),
        (("in", "--out", "out", "--channel", "nothing"), 2, "no channel"),
        (("in", "--out", "in"), 3, "both an input and the output folder"),
        (("none", "--out", "out"), 3, "cannot read none"),
        (("in", "--out", "no/out"), 3, "use --parents to create it"),
        (("in", "--out", "out", "--experts", "nobody"), 3, "no expert 'nobody'"),
        (("in/rows.jsonl", "--out", "out", "--field", "body"), 3, "--field selects the field"),
    ],
)
def test_invalid_usage_and_input_are_reported(folder, words, code, message):
    done = call("batch", *words, cwd=folder)
    assert done.returncode == code, done.stderr
    assert message in re.sub(r"[\s│]+", " ", done.stderr)
    assert "Traceback" not in done.stderr


def test_a_named_document_that_is_not_text_is_copied(folder, monkeypatch):
    monkeypatch.setattr("conservator.batch.summary.find_spec", lambda name: None)
    words = ("batch", "in/picture.png", "in/a.txt", "--out", "out", "--max-bytes", "20", "--experts", "prose")
    done = call(*words, "--jobs", "1", cwd=folder)
    assert done.returncode == 4, done.stderr
    rows = list(csv.DictReader((folder / "out" / "summary.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["outcome"] for row in rows] == ["copied", "copied"]
    assert (folder / "out" / "a.txt").read_text() == DAMAGED
    assert (folder / "out" / "picture.png").exists()


def test_help_is_instant_and_names_the_exit_codes():
    done = run("batch", "--help")
    assert done.returncode == 0
    assert "130 interrupted" in re.sub(r"\s+", " ", done.stdout)


def test_an_interrupted_batch_tells_how_to_resume(folder, monkeypatch):
    def stop(self):
        raise KeyboardInterrupt

    monkeypatch.setattr("conservator.batch.Batch.run", stop)
    done = call("batch", "in", "--out", "out", cwd=folder)
    assert done.returncode == 130
    assert "to resume, give the same command again" in done.stderr


def test_restore_into_the_output_folder_keeps_the_ledger(folder):
    words = ("batch", "in/a.txt", "--out", "out", "--experts", "prose", "--jobs", "1")
    assert call(*words, cwd=folder).returncode == 0
    (folder / "out" / ".conservator.notes.txt").write_text("mine")
    done = call("restore", "in/a.txt", "--experts", "prose", "-o", "out/single.txt", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert {".conservator.notes.txt", ".conservator.sqlite"} < {path.name for path in (folder / "out").iterdir()}
    assert "this run: 0 documents" in call(*words, cwd=folder).stdout


def test_changed_encodings_notices_and_protected_files_are_printed():
    totals = Totals(converted=Counter({("windows-1252", "utf-8"): 3}))
    totals.notices, totals.messages = Counter(unknown_language=5), {"unknown_language": "no model covers it"}
    run = Batch(Inputs([], Path("out")), LocalEngine(WorkerConfig(RestoreOptions())), "")
    run.protected_files = 2
    lines = summary(totals, run, 1.0)
    assert "3 read as windows-1252 and written as utf-8: a restored character does not exist in windows-1252" in lines
    assert "unknown language: 5 x no model covers it" in lines
    assert (
        "2 output files were created or changed by someone else and not overwritten; --force overwrites them" in lines
    )
