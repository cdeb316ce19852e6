"""Adapters: one base in memory, switched by name; trained, saved, rejected on another base."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from conservator.errors import ConservatorError
from conservator.experts import Context
from conservator.experts.flow import FlowNetwork, load_flow
from conservator.training import Corpus, Plan, TrainingTarget, run_training, write_card
from conservator.training.presets import ADAPTERS
from support.flows import TEXTS, TOKENS, UNIFORM, save_random

CORPUS = Corpus(TEXTS, 0, "abc")
DIGITS = Corpus(tuple(f"{n * 7919} {n * n * 31} {n + 12345}\n".encode() * 2 for n in range(40)), 0, "def")
RECORD = {"data": [], "documents": 1, "bytes": 1, "strip": [], "about": "", "command": ""}


def train(folder, base, corpus=CORPUS, preset="laptop", steps=6, rank=None, **options):
    target = TrainingTarget(base=base, rank=rank)
    config, learner = target.learner(target.presets[preset], corpus.documents, folder, resume=False, device="cpu")
    plan = Plan(replace(config, batch=8), 0, steps, None, corpus.fingerprint)
    return run_training(plan, corpus, folder, learner=learner, about=RECORD, **options)


def predict(expert, seed=0):
    tokens = torch.randint(TOKENS, (3, 9), generator=torch.Generator().manual_seed(seed))
    context = Context(tokens, torch.zeros(3, 9, dtype=torch.bool), torch.full((3,), 0.5))
    return expert.predict(context, context.everywhere())


@pytest.fixture(autouse=True)
def few_windows(monkeypatch):
    monkeypatch.setattr("conservator.training.runs.FINAL_WINDOWS", 16)  # these tests do not use the final scores


@pytest.fixture
def base(tmp_path):
    save_random(tmp_path / "base", UNIFORM)
    return tmp_path / "base"


def test_adapters_share_their_base_and_are_switched_by_name(base, tmp_path):
    base_only = predict(load_flow(base))
    train(tmp_path / "text", base)
    train(tmp_path / "digits", base, DIGITS, rank=2)
    text, digits, plain = (load_flow(path) for path in (tmp_path / "text", tmp_path / "digits", base))
    assert text.base is digits.base is plain.base
    assert (text.spec.name, digits.spec.name) == ("text", "digits")
    assert len({expert.spec.fingerprint for expert in (text, digits, plain)}) == 3
    pointers = {name: weight.data_ptr() for name, weight in text.base.network.named_parameters() if "lora_" not in name}
    assert len(pointers) == len(list(FlowNetwork(UNIFORM).named_parameters()))
    first = [predict(expert) for expert in (text, digits, plain)]
    torch.testing.assert_close(first[2], base_only)
    assert (first[0] - first[1]).abs().max() > 1e-3
    assert (first[0] - first[2]).abs().max() > 1e-3
    for expert, before in reversed(list(zip((text, digits, plain), first, strict=True))):
        assert torch.equal(predict(expert), before)
    after = {name: weight.data_ptr() for name, weight in text.base.network.named_parameters() if "lora_" not in name}
    assert pointers == after  # nothing was copied or merged
    assert text.parameters > plain.parameters


def test_the_loss_decreases_the_base_is_unchanged_and_the_folder_is_small(base, tmp_path):
    before = load_file(base / "model.safetensors")
    result = train(tmp_path / "one", base, steps=60)
    assert result.curve[-1].loss < result.curve[0].loss - 0.05
    assert all(torch.equal(value, before[name]) for name, value in load_file(base / "model.safetensors").items())
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == ["adapter_config.json", "adapter_model.safetensors", "config.json", "loss.csv"]
    config = json.loads((tmp_path / "one" / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 16, 32)
    assert json.loads((tmp_path / "one" / "config.json").read_text())["base"]["folder"] == "../base"
    weights = load_file(tmp_path / "one" / "adapter_model.safetensors")
    assert {"base_model.model.blocks.0.qw.lora_A.weight", "base_model.model.blocks.1.mlp.2.lora_B.weight"} <= {*weights}
    assert len(weights) == 24
    write_card(tmp_path / "one")
    assert "An adapter of the base" in (tmp_path / "one" / "README.md").read_text()


def test_a_resumed_run_equals_an_uninterrupted_run(base, tmp_path):
    train(tmp_path / "a", base)
    stops = iter([False] * 2 + [True])
    assert not train(tmp_path / "b", base, stopped=lambda: next(stops)).finished
    assert train(tmp_path / "b", base, resume=True).finished
    first, second = (load_file(tmp_path / name / "adapter_model.safetensors") for name in "ab")
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_preset_of_the_paper_runs(base, tmp_path):
    preset = ADAPTERS["paper"]
    numbers = (preset.lora.rank, preset.lora.alpha, preset.adamw, preset.batch, preset.steps, preset.blocks)
    assert numbers == (16, 32, 1e-4, 16, 6000, 12_000)
    assert (preset.window, preset.half, preset.checkpointing) == (512, True, True)
    assert train(tmp_path / "one", base, preset="paper", steps=3).finished


def test_another_base_is_rejected(base, tmp_path):
    train(tmp_path / "one", base, steps=1)
    save_random(base, UNIFORM, seed=5)
    with pytest.raises(ConservatorError, match="was trained on another base than the one at"):
        load_flow(tmp_path / "one")
    for path in base.iterdir():
        path.unlink()
    with pytest.raises(ConservatorError, match="; put the base with the fingerprint"):
        load_flow(tmp_path / "one")


def test_an_invalid_adapter_is_rejected(base, tmp_path):
    folder = tmp_path / "one"
    train(folder, base, steps=1)
    weights = load_file(folder / "adapter_model.safetensors")
    name = "base_model.model.blocks.0.qw.lora_A.weight"
    damages = {
        "lora_A.weight is missing": {key: value for key, value in weights.items() if key != name},
        "no such tensor": {**weights, "more": torch.ones(1)},
        "must have finite values": {**weights, name: weights[name] * torch.nan},
    }
    for message, changed in damages.items():
        save_file(changed, folder / "adapter_model.safetensors")
        with pytest.raises(ConservatorError, match=message):
            load_flow(folder)
    (folder / "adapter_model.safetensors").write_bytes(b"broken")
    with pytest.raises(ConservatorError, match="not a safetensors file"):
        load_flow(folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    wrong = {"peft_type": "IA3", "target_modules": ["qw"], "use_dora": True, "r": 0}
    for key, value in wrong.items():
        (folder / "adapter_config.json").write_text(json.dumps({**config, key: value}))
        with pytest.raises(ConservatorError, match=r"adapter_config\.json"):
            load_flow(folder)
    (folder / "adapter_config.json").write_text("[]")
    with pytest.raises(ConservatorError, match="expected r and lora_alpha"):
        load_flow(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "conservator_flow_adapter"}))
    with pytest.raises(ConservatorError, match=r"must have base.folder and base.fingerprint"):
        load_flow(folder)
