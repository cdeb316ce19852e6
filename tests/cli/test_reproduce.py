"""``conservator reproduce``, and behaviour that all commands share."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from unittest import mock

import pytest

import conservator
from conservator_studies import STUDIES, contextual, execution
from support.commands import call, run


def test_version():
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"conservator {conservator.__version__}\n")


def test_help_has_examples(tmp_path):
    done = call("reproduce", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "conservator reproduce simulator" in done.stdout
    assert "Exit codes" in done.stdout


def test_the_list_names_every_study(tmp_path):
    done = call("reproduce", "--list", cwd=tmp_path)
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")] == list(STUDIES)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce", "nothing"], "unknown study 'nothing'"),
        (["reproduce"], "expected a study"),
        (["reproduce", "contextual", "--preset", "huge"], "unknown preset 'huge'"),
        (["reproduce", "all", "--json", "-"], "--json"),
        (["reproduce", "contextual", "--limit", "0"], "--limit"),
        (["reproduce", "contextual", "--seed", "-1"], "--seed"),
        (["reproduce", "contextual", "--seed", "99999999999999999"], "--seed"),
        (["restitute"], "restitute"),
    ],
)
def test_invalid_usage_has_exit_code_2(words, message, tmp_path):
    done = call(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_folder_that_cannot_be_created_is_reported_before_the_work(tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = call("reproduce", "contextual", "--out", "file/out", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("error: cannot create the folder")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("target", [".", "", "file/x.json"])
def test_a_result_file_that_cannot_be_written_is_reported_before_the_work(target, tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = call("reproduce", "contextual", "--json", target, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("error: cannot")
    assert done.stdout == ""


def test_brackets_in_a_path_are_not_markup(tmp_path):
    done = call("reproduce", "contextual", "--limit", 1, "--out", "[red]a[/]b", "--parents", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "wrote [red]a[/]b/contextual.json" in done.stderr
    (tmp_path / "file").write_text("in the way")
    done = call("reproduce", "contextual", "--out", "file/[/]z", cwd=tmp_path)
    assert done.returncode == 3
    assert "[/]z" in done.stderr


def test_a_terminal_without_unicode_shows_the_table(tmp_path):
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "conservator", "reproduce", "contextual", "--limit", "2"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "n=1024" in done.stdout


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduced")
    return call("reproduce", "contextual", "--limit", 2, "--seed", 5, "--pdf", cwd=folder), folder


def test_a_study_prints_its_tables_and_writes_its_files(reproduced):
    done, folder = reproduced
    assert done.returncode == 0, done.stderr
    assert "paper" in done.stdout
    assert "n=1024" in done.stdout
    assert {path.name for path in (folder / "out").iterdir()} == {
        "contextual.json",
        "contextual.md",
        "contextual.pdf",
        "contextual.png",
    }
    record = json.loads((folder / "out" / "contextual.json").read_text())
    assert (record["name"], record["preset"], record["seed"]) == ("contextual", "laptop", 5)
    assert record["config"]["repeats"] == 2
    assert {row["method"] for row in record["rows"]} >= {"exact_exact", "surrogate_meanfield", "n=1", "n=1024"}


def test_no_progress_bar_without_a_terminal(reproduced):
    done, _ = reproduced
    assert len(done.stderr.splitlines()) == 1
    assert "wrote out/contextual.json" in done.stderr


def test_standard_output_contains_only_json(reproduced, tmp_path):
    done = call("reproduce", "contextual", "--limit", 2, "--seed", 5, "--json", "-", cwd=tmp_path)
    record = json.loads(done.stdout)
    assert "paper" in done.stderr
    before = json.loads((reproduced[1] / "out" / "contextual.json").read_text())
    assert record["rows"] == before["rows"]


def test_json_to_a_file(tmp_path):
    done = call("reproduce", "contextual", "--limit", 1, "--json", "deep/copy.json", "--parents", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "deep" / "copy.json").read_bytes() == (tmp_path / "out" / "contextual.json").read_bytes()


def test_an_interrupt_leaves_no_partial_files(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(contextual, "STUDY", replace(contextual.STUDY, run=interrupted))
    done = call("reproduce", "contextual", cwd=tmp_path)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "this study needs texts: give --corpora PATH or set CONSERVATOR_CORPORA"),
        (["--corpora", "nowhere"], "there is no folder nowhere"),
        (["--corpora", "demo", "--experts", "prose=nowhere"], "no expert 'nowhere'"),
        (["--corpora", "demo", "--experts", "poems=x"], "expected ROLE=FOLDER"),
    ],
)
def test_missing_resources_of_a_byte_study_are_reported(words, message, tmp_path, monkeypatch):
    monkeypatch.delenv("CONSERVATOR_CORPORA", raising=False)
    done = call("reproduce", "byte3", *words, cwd=tmp_path)
    assert done.returncode == 3
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def run_all(tmp_path, monkeypatch):
    """Return a function that runs ``reproduce all`` with some studies."""
    monkeypatch.setattr(execution, "commit", lambda: "abc")

    def run_these(studies, corpora):
        with mock.patch.dict(STUDIES):  # restores the order of the studies
            for name in STUDIES.keys() - studies:
                del STUDIES[name]
            return call("reproduce", "all", "--limit", 1, "--corpora", corpora, "--out", "made", cwd=tmp_path)

    return run_these


def test_all_skips_a_study_without_texts(run_all, tmp_path):
    done = run_all({"contextual", "readme"}, ".")
    assert done.returncode == 0, done.stderr
    assert "readme: skipped, the corpora have no readme" in done.stderr
    assert "## readme" not in (tmp_path / "made" / "RESULTS.md").read_text()


def test_all_skips_a_study_without_language_models(run_all, tmp_path, monkeypatch):
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path))
    done = run_all({"contextual", "language-models"}, "demo")
    assert done.returncode == 0, done.stderr
    assert "language-models: skipped, " in done.stderr
    assert "## language-models" not in (tmp_path / "made" / "RESULTS.md").read_text()


def test_all_runs_missing_studies_and_writes_the_report(run_all, tmp_path):
    first, second = (run_all({"contextual", "recoverability"}, "demo") for _ in range(2))
    assert first.returncode == second.returncode == 0, first.stderr
    assert "recoverability: " in first.stderr
    assert "already done" not in first.stderr
    messages = ["recoverability: already done", "contextual: already done", "wrote made/RESULTS.md"]
    assert second.stderr.splitlines() == messages
    report = (tmp_path / "made" / "RESULTS.md").read_text()
    assert report.index("## recoverability") < report.index("## contextual")
