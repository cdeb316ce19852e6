"""Pretrained models over tokens, by name, in the same commands and beside the built-in experts."""

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
def test_what_a_model_over_tokens_knows_is_restored_in_bytes(tmp_path, kind):
    allowed = save_by_heart(kind, tmp_path / "own")
    (tmp_path / "damaged.txt").write_text(DAMAGED)
    found = call("restore", "damaged.txt", "--experts", "hf:own", "--no-memory", *allowed, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert found.stdout == TEXT
    assert "hf:own: 0 MB of memory" in found.stderr


@pytest.mark.parametrize("kind", ["bert", "Dream", "flow, uniform"])
def test_a_model_over_tokens_works_beside_experts_over_bytes(tmp_path, kind):
    allowed = []
    if kind == "flow, uniform":
        save_random(tmp_path / "own", UNIFORM)
    else:
        allowed = save_by_heart(kind, tmp_path / "own")
    (tmp_path / "damaged.txt").write_text(DAMAGED)
    words = ["restore", "damaged.txt", "--experts", "prose,hf:own", *allowed, "--json", "found.json"]
    found = call(*words, "--report", "report.html", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    record = json.loads((tmp_path / "found.json").read_text())
    assert record["experts"][:2] == ["prose", "own"]
    assert "own" in (tmp_path / "report.html").read_text()
    assert len(found.stdout) == len(TEXT)


def test_models_over_tokens_are_compared_in_nats_per_byte(tmp_path):
    for name in ("here", "there"):
        save_random(tmp_path / name, UNIFORM, seed=len(name))
        (tmp_path / f"{name}.txt").write_text(f"{name} and {TEXT}\n" * 20)
    save_by_heart("bert", tmp_path / "bert")
    words = ["check", "hf:here", "there", "hf:bert", "--data", "here=here.txt", "--data", "there=there.txt"]
    found = call(*words, "--windows", "4", "--length", "24", "--json", "-", cwd=tmp_path)
    assert found.returncode in (0, 1), found.stderr
    assert [row["expert"] for row in json.loads(found.stdout)["rows"][:3]] == ["here", "there", "bert"]


def test_what_is_no_model_or_needs_more_is_said(tmp_path):
    (tmp_path / "damaged.txt").write_text(DAMAGED)
    save_by_heart("Dream", tmp_path / "own")
    for name, said in (
        ("hf:own", "--trust-remote-code"),
        ("hf:nowhere", "no such folder"),
        ("hf:", "hf:OWNER/NAME"),
        ("nowhere", "hf:FOLDER"),
    ):
        found = call("restore", "damaged.txt", "--experts", name, cwd=tmp_path)
        assert found.returncode == 3
        assert said in " ".join(found.stderr.split())
    found = call("restore", "damaged.txt", "--experts", "hf:own", "--precision", "int3", cwd=tmp_path)
    assert found.returncode == 2


def test_experts_over_tokens_are_listed(tmp_path):
    save_by_heart("bert", tmp_path / "bert")
    save_random(tmp_path / "noisy", UNIFORM)
    found = call("experts", "prose", "hf:bert", "noisy", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "nats per masked byte" in found.stdout
    assert [line.split()[:1] for line in found.stdout.splitlines()[-2:]] == [["bert"], ["noisy"]]
    assert found.stdout.splitlines()[-1].split()[-1] == "uniform"
    rows = json.loads(call("experts", "hf:bert", "noisy", "--json", cwd=tmp_path).stdout)
    assert [(row["name"], row["kind"], row["source"]) for row in rows] == [
        ("bert", "bert", "mask"),
        ("noisy", "conservator_flow", "uniform"),
    ]
