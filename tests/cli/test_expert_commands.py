"""``conservator train``, ``check`` and ``experts``."""

import csv
import json
import signal

import pytest
import torch

from conservator.cli.train import record_interrupts
from conservator.experts import load_expert, save_expert
from conservator.training.trainer import Trainer
from support.commands import call
from support.networks import random_network


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """Two domains of text, and an untrained expert for each."""
    monkeypatch.setattr(
        "conservator.cli.train.keep_memory", lambda: None
    )  # the setting cannot be undone in this process
    for windows in ("FINAL_WINDOWS", "CURVE_WINDOWS"):  # a few suffice for untrained experts
        monkeypatch.setattr(f"conservator.training.runs.{windows}", 4)
    (tmp_path / "digits").mkdir()
    (tmp_path / "letters.jsonl").write_text(
        "".join(json.dumps({"text": "the quick brown fox " * (20 + n)}) + "\n" for n in range(4))
    )
    for number in range(4):
        (tmp_path / "digits" / f"{number}.txt").write_text("31415926535 " * (40 + number))
    for seed, name in enumerate(("digits", "letters")):
        save_expert(tmp_path / "experts" / name, random_network(seed=seed), name, {})
    return tmp_path


def test_a_base_over_tokens_gets_adapters_that_are_checked(texts):
    options = ("--vocabulary", 270, "--source", "uniform", "--steps", 1)
    done = call("train", "--data", "digits", "--data", "letters.jsonl", "--out", "base", *options, cwd=texts)
    assert done.returncode == 0, done.stderr
    assert "nats per byte" in done.stdout
    assert "a uniform source" in (texts / "base" / "README.md").read_text()
    for name, data in (("letters", "letters.jsonl"), ("digits", "digits")):
        words = ("train", "--data", data, "--base", "base", "--lora-rank", 2, "--lora-alpha", 4, "--steps", 6)
        done = call(*words, "--out", name, cwd=texts)
        assert done.returncode == 0, done.stderr
        assert "is already finished" in call(*words, "--out", name, "--resume", cwd=texts).stderr
    data = ("--data", "digits=digits", "--data", "letters=letters.jsonl")
    checked = call("check", "./digits", "./letters", *data, "--windows", 4, "--length", 40, cwd=texts)
    assert checked.returncode in (0, 1), checked.stderr
    assert "row-wise" in checked.stdout


def test_an_expert_is_trained_listed_and_resumed(texts):
    words = ("train", "--data", "digits", "--data", "letters.jsonl", "--out", "experts/mine", "--steps", 2)
    done = call(*words, cwd=texts)
    assert done.returncode == 0, done.stderr
    assert "nats per masked byte" in done.stdout
    assert "bits per byte" in done.stdout
    assert done.stderr == "8 documents, 3712 bytes\n"  # no progress bar: stderr is not a terminal
    folder = texts / "experts" / "mine"
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.json",
        "loss.csv",
        "loss.png",
        "model.safetensors",
    ]
    assert len(list(csv.DictReader((folder / "loss.csv").read_text().splitlines()))) == 2
    about = load_expert(folder).about
    assert about["command"] == f"conservator {' '.join(map(str, words))}"
    assert about["finished"]
    card = (folder / "README.md").read_text()
    assert "digits, letters.jsonl: 8 documents, 3,712 bytes" in card
    listed = call("experts", "experts/mine", cwd=texts)
    assert listed.returncode == 0
    assert "mine" in listed.stdout
    again = call(*words, cwd=texts)
    assert again.returncode == 3
    assert "already contains an expert or a run" in again.stderr
    resumed = call(*words, "--resume", cwd=texts)
    assert resumed.returncode == 0
    assert "is already finished" in resumed.stderr
    (folder / "README.md").unlink()  # as after a kill before the card was written
    assert call(*words, "--resume", cwd=texts).returncode == 0
    assert (folder / "README.md").read_text() == card


def test_an_interrupted_training_leaves_a_working_expert_and_can_be_resumed(texts, monkeypatch):
    step = Trainer.step

    def interrupted(self, *rest):
        if self.steps_done == 1:
            signal.raise_signal(signal.SIGINT)
        return step(self, *rest)

    words = ("train", "--data", "digits", "--out", "mine", "--steps", 3)
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "step", interrupted)
        done = call(*words, cwd=texts)
    assert done.returncode == 130
    assert "interrupted at step 2; mine can be used, and --resume continues the training" in done.stderr
    assert "Traceback" not in done.stderr
    assert not load_expert(texts / "mine").about["finished"]
    other = call(*words, "--seed", 1, "--resume", cwd=texts)
    assert other.returncode == 3
    assert "expected seed 1, got 0" in other.stderr
    resumed = call(*words, "--resume", cwd=texts)
    assert resumed.returncode == 0, resumed.stderr
    assert load_expert(texts / "mine").about["steps"] == 3


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["train", "--data", "digits", "--out", "x", "--preset", "huge"], 2, "unknown preset 'huge'"),
        (
            ["train", "--data", "digits", "--out", "x", "--source", "salt"],
            2,
            "unknown source 'salt'; expected one of mask, uniform",
        ),
        (
            ["train", "--data", "digits", "--out", "x", "--source", "uniform", "--preset", "paper"],
            2,
            "expected one of laptop",
        ),
        (["train", "--data", "digits", "--out", "x", "--lora-rank", "4"], 2, "only available with --base"),
        (
            ["train", "--data", "digits", "--out", "x", "--base", "y", "--source", "uniform"],
            2,
            "an adapter uses those of its base",
        ),
        (["train", "--data", "digits", "--out", "x", "--base", "y"], 3, "y is not a base for an adapter"),
        (["train", "--data", "digits", "--out", "x", "--vocabulary", "y"], 3, "no tokenizer at y"),
        (
            ["train", "--data", "digits", "--out", "x", "--vocabulary", "7"],
            3,
            "the vocabulary must have more than 256 tokens, got 7",
        ),
        (["train", "--data", "digits", "--out", "x", "--strip", "c"], 2, "unknown filter 'c'"),
        (["train", "--data", "digits", "--out", "x", "--strip", "y=yaml-comments"], 2, "for one of the paths digits"),
        (["train", "--data", "digits", "--out", "x", "--steps", "1", "--minutes", "1"], 2, "not both"),
        (["train", "--out", "x"], 2, "--data"),
        (["train", "--data", "", "--out", "x"], 2, "expected a file or a folder, got an empty name"),
        (["train", "--data", "digits", "--out", "x", "--minutes", "inf"], 2, "--minutes"),
        (["train", "--data", "digits", "--out", "x", *["--strip", "yaml-comments"] * 2], 2, "two filters"),
        (["train", "--data", "digits", "--out", "x", "--device", "meta"], 3, "the device 'meta' is not available"),
        (
            ["train", "--data", "digits/0.txt", "--out", "x", "--device", "abacus"],
            3,
            "the device 'abacus' is not available",
        ),
        (["train", "--data", "nowhere", "--out", "x"], 3, "the file or folder nowhere does not exist"),
        (["train", "--data", "digits/0.txt", "--out", "x", "--strip", "python-comments"], 3, "no text in"),
        (["train", "--data", "digits", "--out", "digits/0.txt"], 3, "cannot create the folder"),
        (["check", "experts/digits", "--data", "digits"], 2, "expected NAME=VALUE"),
        (["check", "experts/digits", "--data", "digits=digits"], 3, "at least two experts"),
        (["check", "nobody", "--data", "digits=digits"], 3, "no expert 'nobody'"),
        (["check", "experts/digits", "--data", "digits=digits", "--strip", "x=y"], 2, "expected DOMAIN=FILTER"),
        (["experts", "nobody"], 3, "no expert 'nobody'"),
        (["check", "experts/digits", "--data", "digits=digits", *["--strip", "digits=yaml-comments"] * 2], 2, "one of"),
    ],
)
def test_invalid_usage_and_input_are_reported(words, code, message, texts):
    done = call(*words, cwd=texts)
    assert done.returncode == code, done.stderr
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_check_has_a_table_a_record_and_a_picture(texts):
    words = ["check", "experts/digits", "experts/letters", "--data", "digits=digits", "--data", "letters=letters.jsonl"]
    options = ["--windows", 20, "--length", 40, "--out", "checked"]
    done = call(*words, *options, cwd=texts)
    record = json.loads((texts / "checked" / "check.json").read_text())
    passed = record["row_wise"] and record["column_wise"]
    assert done.returncode == (0 if passed else 1), done.stderr
    assert [(row["domain"], row["expert"]) for row in record["rows"]] == [
        ("digits", "digits"),
        ("digits", "letters"),
        ("letters", "digits"),
        ("letters", "letters"),
    ]
    assert all(row["low"] <= row["energy"] <= row["high"] for row in record["rows"])
    assert list(record["margins"]) == ["digits", "letters"]
    assert (texts / "checked" / "check.png").read_bytes().startswith(b"\x89PNG")
    assert "| domain | digits | letters | margin |\n" in (texts / "checked" / "check.md").read_text()
    assert f"{record['rows'][0]['energy']:.3f}" in done.stdout
    piped = call(*words, *options[:4], "--json", "-", cwd=texts)
    assert json.loads(piped.stdout) == record
    assert "its lowest energy" in piped.stderr


def test_a_check_that_passes_has_exit_code_0(texts):
    """The experts predict only byte frequencies."""
    for name, text in (("digits", b"31415926535 "), ("letters", b"the quick brown fox ")):
        network = random_network(seed=0)
        with torch.no_grad():
            for weight in network.parameters():
                weight.zero_()
            network.embed.weight[:, 0] = 1.0
            network.head.weight[list(text), 0] = 5.0
        save_expert(texts / "known" / name, network, name, {})
    words = ["check", "known/digits", "known/letters", "--data", "digits=digits", "--data", "letters=letters.jsonl"]
    done = call(*words, "--windows", 20, "--length", 40, cwd=texts)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": yes") == 2


def test_a_second_interrupt_is_raised():
    handler = signal.getsignal(signal.SIGINT)  # a background job may ignore it
    with record_interrupts() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGTERM)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is handler


def test_help_has_examples_and_exit_codes(tmp_path):
    for command in ("train", "check", "experts"):
        done = call(command, "--help", cwd=tmp_path)
        assert done.returncode == 0
        assert f"  conservator {command}" in done.stdout
        assert "Exit codes" in done.stdout


def test_added_models_are_listed_and_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSERVATOR_HOME", str(tmp_path))
    folder = tmp_path / "models" / "small"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "conservator.json").write_text('{"licence": "Apache-2.0"}')
    listed = call("experts", cwd=tmp_path)
    assert "Apache-2.0" in listed.stdout
    assert "prose" in listed.stdout
    (row,) = json.loads(call("experts", "small", "--json", cwd=tmp_path).stdout)
    assert (row["name"], row["kind"], row["bytes"], row["licence"]) == ("small", "llama", 7, "Apache-2.0")
    assert call("experts", "remove", "small", cwd=tmp_path).returncode == 0
    assert not folder.exists()
    again = call("experts", "remove", "small", cwd=tmp_path)
    assert again.returncode == 3
    assert "model 'small' is not installed" in again.stderr
    unknown = call("experts", "add", "huge", cwd=tmp_path)
    assert unknown.returncode == 3
    assert "available: gemma3-270m, smollm2" in unknown.stderr
