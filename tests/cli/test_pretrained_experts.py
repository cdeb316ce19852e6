"""Pretrained token models in the commands, alone and together with built-in experts."""

import json

import pytest

from support.commands import call
from support.flows import UNIFORM, save_random
from support.pretrained import KINDS, TEXT, memorized_network, save

DAMAGED = "the qu\ufffd\ufffdk brown f\ufffdx jumps ov\ufffdr the l\ufffdzy dog"


def save_by_heart(kind, folder):
    folder.mkdir()
    save(kind, memorized_network(kind)[0], folder)
    return ["--trust-remote-code"] if KINDS[kind].code else []


@pytest.mark.parametrize("kind", ["bert", "roberta", "Dream", "duo"])
def test_a_token_model_restores_bytes(tmp_path, kind):
    allowed = save_by_heart(kind, tmp_path / "own")
    (tmp_path / "damaged.txt").write_text(DAMAGED)
    done = call("restore", "damaged.txt", "--experts", "hf:own", "--no-memory", *allowed, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == TEXT
    assert "hf:own needs 0 MB of memory" in done.stderr


@pytest.mark.parametrize("kind", ["bert", "Dream", "flow, uniform"])
def test_a_token_model_works_together_with_byte_experts(tmp_path, kind):
    allowed = []
    if kind == "flow, uniform":
        save_random(tmp_path / "own", UNIFORM)
    else:
        allowed = save_by_heart(kind, tmp_path / "own")
    (tmp_path / "damaged.txt").write_text(DAMAGED)
    words = ["restore", "damaged.txt", "--experts", "prose,hf:own", *allowed, "--json", "found.json"]
    done = call(*words, "--report", "report.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "found.json").read_text())
    assert record["experts"][:2] == ["prose", "own"]
    assert "own" in (tmp_path / "report.html").read_text()
    assert len(done.stdout) == len(TEXT)


def test_token_models_are_compared_in_nats_per_byte(tmp_path):
    for name in ("here", "there"):
        save_random(tmp_path / name, UNIFORM, seed=len(name))
        (tmp_path / f"{name}.txt").write_text(f"{name} and {TEXT}\n" * 20)
    save_by_heart("bert", tmp_path / "bert")
    words = ["check", "hf:here", "there", "hf:bert", "--data", "here=here.txt", "--data", "there=there.txt"]
    done = call(*words, "--windows", "4", "--length", "24", "--json", "-", cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert [row["expert"] for row in json.loads(done.stdout)["rows"][:3]] == ["here", "there", "bert"]


def test_invalid_models_and_options_are_reported(tmp_path):
    (tmp_path / "damaged.txt").write_text(DAMAGED)
    save_by_heart("Dream", tmp_path / "own")
    for name, message in (
        ("hf:own", "--trust-remote-code"),
        ("hf:nowhere", "no such folder"),
        ("hf:", "hf:OWNER/NAME"),
        ("nowhere", "hf:FOLDER"),
    ):
        done = call("restore", "damaged.txt", "--experts", name, cwd=tmp_path)
        assert done.returncode == 3
        assert message in " ".join(done.stderr.split())
    done = call("restore", "damaged.txt", "--experts", "hf:own", "--precision", "int3", cwd=tmp_path)
    assert done.returncode == 2


def test_token_experts_are_listed(tmp_path):
    save_by_heart("bert", tmp_path / "bert")
    save_random(tmp_path / "noisy", UNIFORM)
    done = call("experts", "prose", "hf:bert", "noisy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "nats per masked byte" in done.stdout
    assert [line.split()[:1] for line in done.stdout.splitlines()[-2:]] == [["bert"], ["noisy"]]
    assert done.stdout.splitlines()[-1].split()[-1] == "uniform"
    rows = json.loads(call("experts", "hf:bert", "noisy", "--json", cwd=tmp_path).stdout)
    assert [(row["name"], row["kind"], row["source"]) for row in rows] == [
        ("bert", "bert", "mask"),
        ("noisy", "conservator_flow", "uniform"),
    ]
