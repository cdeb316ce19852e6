"""Training: the loss decreases, runs are reproducible, and a resumed run equals an uninterrupted one."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save

from conservator.errors import ConservatorError
from conservator.experts import load_expert, save_expert
from conservator.training import runs, write_card
from conservator.training.corpus import Corpus, as_stream
from conservator.training.learners import ByteLearner
from conservator.training.path import noise
from conservator.training.runs import Plan, run_training
from conservator.training.trainer import PRESETS, Trainer, TrainingConfig
from support.networks import PLAIN, TINY

SMALL = TrainingConfig(network=TINY, batch=8, window=24, warmup=3)
ADAMW = replace(SMALL, network=PLAIN, muon=None, decay=0.0)
TEXTS = tuple(f"line {n}: the quick brown fox jumps over the lazy dog {n * n}\n".encode() for n in range(40))
CORPUS = Corpus(TEXTS, 0, "abc")
configs = pytest.mark.parametrize("config", [SMALL, ADAMW], ids=["muon", "adamw"])


def losses(config, seed, steps=30):
    trainer = Trainer(config, seed, torch.device("cpu"))
    return [trainer.step(as_stream(TEXTS), step / steps) for step in range(steps)], trainer


@configs
def test_the_loss_decreases_and_is_reproducible(config):
    first, trainer = losses(config, 0)
    assert first[0] == pytest.approx(torch.log(torch.tensor(256.0)).item(), abs=1e-4)
    assert sum(first[-5:]) / 5 < first[0] - 0.5
    again, same = losses(config, 0)
    assert first == again
    assert all(torch.equal(a, b) for a, b in zip(trainer.state().values(), same.state().values(), strict=True))
    assert losses(config, 1)[0] != first


def test_training_does_not_change_the_global_generator():
    before = torch.get_rng_state()
    losses(ADAMW, 0, steps=2)
    assert torch.equal(before, torch.get_rng_state())


def test_a_run_can_start_from_the_weights_of_another():
    _, trained = losses(SMALL, 0)
    before = [weight.clone() for weight in trained.network.state_dict().values()]
    learner = ByteLearner(TINY, start=trained.network)
    again = Trainer(SMALL, 1, torch.device("cpu"), learner)
    assert again.step(as_stream(TEXTS), 0.0) < 5
    after = trained.network.state_dict().values()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("max_noise", [1.0, 0.3])
def test_the_fraction_of_noise_is_bounded(max_noise):
    tokens = torch.zeros(8, 4000, dtype=torch.long)
    kappa, hidden = noise(tokens, torch.Generator().manual_seed(0), max_noise)
    assert ((kappa >= 1 - max_noise) & (kappa < 1)).all()
    assert (kappa.diff() > 0).all()
    torch.testing.assert_close(hidden.float().mean(-1), 1 - kappa, atol=0.04, rtol=0)


def test_learning_rates_increase_stay_and_decrease():
    trainer = Trainer(SMALL, 0, torch.device("cpu"))
    rates = []
    for step in range(10):
        trainer.step(as_stream(TEXTS), step / 10)
        rates.append(trainer.optimisers[0].param_groups[0]["lr"] / SMALL.muon)
    expected = [1 / 3, 2 / 3, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25]
    assert rates == pytest.approx(expected)


def test_every_weight_is_trained_by_exactly_one_optimiser():
    for config in (SMALL, ADAMW, PRESETS["small"]):
        trainer = Trainer(config, 0, torch.device("cpu"))
        optimised = [p for o in trainer.optimisers for group in o.param_groups for p in group["params"]]
        assert sorted(map(id, optimised)) == sorted(map(id, trainer.network.parameters()))


def contents(folder):
    names = ("model.safetensors", "config.json", "loss.csv")
    return {name: (folder / name).read_bytes() for name in names}


def without_clock(folder):
    """Return the files of a run without durations."""
    files = contents(folder)
    config = json.loads(files["config.json"])
    config["about"].pop("minutes")
    table = [line.split(",") for line in files["loss.csv"].decode().splitlines()]
    return files["model.safetensors"], config, [row[:2] + row[3:] for row in table]


@configs
def test_a_resumed_run_equals_an_uninterrupted_run(config, tmp_path):
    plan = Plan(config, 3, 50, None, CORPUS.fingerprint)
    result = run_training(plan, CORPUS, tmp_path / "a" / "x")
    assert result.finished
    assert (result.step, len(result.curve)) == (50, 40)
    stops = iter([False] * 20 + [True])
    stopped = run_training(plan, CORPUS, tmp_path / "b" / "x", stopped=lambda: next(stops))
    assert (stopped.finished, stopped.step) == (False, 21)
    load_expert(tmp_path / "b" / "x")  # the checkpoint is usable
    assert run_training(plan, CORPUS, tmp_path / "b" / "x", resume=True).finished
    assert without_clock(tmp_path / "a" / "x") == without_clock(tmp_path / "b" / "x")
    assert not (tmp_path / "b" / "x" / "training.safetensors").exists()


def test_a_killed_run_resumes_from_its_last_checkpoint(tmp_path, monkeypatch):
    plan = Plan(SMALL, 0, 12, None, CORPUS.fingerprint)
    run_training(plan, CORPUS, tmp_path / "a" / "x")
    monkeypatch.setattr("conservator.training.runs.CHECKPOINT_SECONDS", 0.0)

    def kill(progress):
        if progress.step == 8:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        run_training(plan, CORPUS, tmp_path / "b" / "x", report=kill)
    steps = []
    run_training(plan, CORPUS, tmp_path / "b" / "x", resume=True, report=lambda progress: steps.append(progress.step))
    assert steps == [8, 9, 10, 11, 12]
    assert without_clock(tmp_path / "a" / "x") == without_clock(tmp_path / "b" / "x")


def test_a_run_of_minutes_ends_and_reports_progress(tmp_path):
    reports = []
    plan = Plan(SMALL, 0, None, 0.005, CORPUS.fingerprint)
    result = run_training(plan, CORPUS, tmp_path / "x", report=reports.append)
    assert result.finished
    assert result.seconds >= 0.3
    progress = [report.progress for report in reports]
    assert progress == sorted(progress)
    assert progress[-1] == 1
    assert reports[-1].seconds_left == 0
    assert all(report.bytes_per_second > 0 for report in reports)


def test_a_folder_is_not_overwritten_and_another_run_is_not_resumed(tmp_path):
    plan = Plan(SMALL, 0, 3, None, CORPUS.fingerprint)
    with pytest.raises(ConservatorError, match="nothing to resume"):
        run_training(plan, CORPUS, tmp_path / "x", resume=True)
    run_training(plan, CORPUS, tmp_path / "x", stopped=lambda: True)
    with pytest.raises(ConservatorError, match="already contains an expert or a run"):
        run_training(plan, CORPUS, tmp_path / "x")
    for other in (replace(plan, seed=1), replace(plan, data="def"), replace(plan, config=ADAMW)):
        with pytest.raises(ConservatorError, match="is from another run: expected"):
            run_training(other, CORPUS, tmp_path / "x", resume=True)
    state = tmp_path / "x" / "training.safetensors"
    with safe_open(state, "pt") as handle:
        metadata = handle.metadata()
    complete = load_file(state)
    damages = {
        "not a state file": b"broken",
        "the state of an optimiser is missing": save(
            {k: v for k, v in complete.items() if k[:7] == "network"}, metadata
        ),
        "the metadata is missing": save(complete),
        "the curve is invalid": save(complete, {"run": metadata["run"].replace('"curve": [', '"curve": [1, ')}),
        "another optimiser": save({**complete, "optimiser.9.0.momentum": torch.ones(1)}, metadata),
    }
    for damage in damages.values():
        state.write_bytes(damage)
        with pytest.raises(ConservatorError, match="is damaged"):
            run_training(plan, CORPUS, tmp_path / "x", resume=True)


INVALID = st.sampled_from([None, True, -1, 0, 3, 10**30, 1.5, 1e400, float("nan"), "text", [], [1], {}, {"a": 1}])
PARTS = ["plan", "steps_done", "seconds", "curve", "recent", ("plan", "seed"), ("plan", "config"), ("curve", "step")]
TENSORS = ["missing", "shape", "nan", "integers", "another name", "another optimiser"]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped after two of four steps."""
    folder = tmp_path_factory.mktemp("stopped") / "x"
    stops = iter([False, True])
    run_training(Plan(SMALL, 0, 4, None, "abc"), CORPUS, folder, stopped=lambda: next(stops))
    return folder, (folder / "training.safetensors").read_bytes()


@given(st.sampled_from(PARTS) | st.none(), INVALID, st.sampled_from(TENSORS), st.integers(0, 10**6))
def test_a_changed_state_is_resumed_or_rejected(stopped, part, value, change, number):
    folder, data = stopped
    state = folder / "training.safetensors"
    state.write_bytes(data)
    with safe_open(state, "pt") as handle:
        record = json.loads(handle.metadata()["run"])
    tensors = load_file(state)
    if part is None:
        name = sorted(tensors)[number % len(tensors)]
        old = tensors.pop(name)
        added = {
            "missing": {},
            "shape": {name: torch.ones(3, 1, 2)},
            "nan": {name: torch.full_like(old, torch.nan)},
            "integers": {name: old.long()},
            "another name": {f"{name}.x": old},
            "another optimiser": {name: old, "optimiser.-1.0.momentum": torch.ones(1)},
        }
        tensors |= added[change]
    elif isinstance(part, str):
        record[part] = value
    elif part[0] == "curve":
        record["curve"] = [{"step": value, "bytes": 1, "seconds": 1.0, "loss": 1.0, "held_out": 1.0}]
    else:
        record[part[0]][part[1]] = value
    state.write_bytes(save(tensors, {"run": json.dumps(record)}))
    trainer = Trainer(SMALL, 0, torch.device("cpu"))
    try:
        seconds, curve, recent = runs._restore(state, Plan(SMALL, 0, 4, None, "abc"), trainer)
    except ConservatorError as error:
        assert "training.safetensors" in str(error)  # noqa: PT017
        return
    assert 1 <= trainer.steps_done <= 4
    assert seconds >= 0
    assert sum(recent) >= 0
    runs.format_curve(curve)
    trainer.step(as_stream(TEXTS), 0.5)


def test_a_state_that_is_a_pipe_is_rejected(stopped):
    folder, data = stopped
    state = folder / "training.safetensors"
    state.unlink()
    os.mkfifo(state)
    with pytest.raises(ConservatorError, match="expected a file, got a pipe"):
        run_training(Plan(SMALL, 0, 4, None, "abc"), CORPUS, folder, resume=True)
    state.unlink()
    state.write_bytes(data)


def test_a_folder_without_a_name_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "real_path", lambda _: Path("/"))
    with pytest.raises(ConservatorError, match="has no name for the expert"):
        run_training(Plan(SMALL, 0, 1, None, "abc"), CORPUS, tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_a_card_without_training_records_is_rejected(tmp_path):
    save_expert(tmp_path / "x", Trainer(SMALL, 0, torch.device("cpu")).network, "x", {"finished": True, "held_out": 3})
    for curve in (b"", b"step,loss\n1,2\n", b"\xff", b"step,loss,held_out\n1,x,y\n"):
        (tmp_path / "x" / "loss.csv").write_bytes(curve)
        with pytest.raises(ConservatorError, match="cannot write the model card"):
            write_card(tmp_path / "x")


def test_a_loss_that_is_not_finite_ends_the_training():
    trainer = Trainer(SMALL, 0, torch.device("cpu"))
    with torch.no_grad():
        trainer.network.head.weight.fill_(torch.nan)
    with pytest.raises(ConservatorError, match="the loss is nan at step 0"):
        trainer.step(as_stream(TEXTS), 0.0)


def test_too_little_text_is_reported(tmp_path):
    corpus = Corpus((b"short",), 0, "")
    with pytest.raises(ConservatorError, match="5 bytes are too little text"):
        run_training(Plan(SMALL, 0, 3, None, ""), corpus, tmp_path / "x")
    assert not (tmp_path / "x").exists()
