"""Training over tokens: sources, overfitting, resuming, tokenizers, scores per byte."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from conservator.errors import ConservatorError
from conservator.experts import PAD, Context
from conservator.experts.flow import load_flow
from conservator.training import Corpus, Plan, Trainer, TrainingConfig, TrainingTarget, as_stream
from conservator.training.corpus import draw_blocks, draw_windows
from conservator.training.learners import FlowLearner
from conservator.training.presets import ADAPTERS, BASES
from conservator.training.runs import run_training
from conservator.training.scoring import draw_noisy_windows, score
from conservator.training.specialisation import check_specialisation
from conservator.training.tokenizer import read_tokenizer, tokens_of, train_tokenizer
from conservator.vocabularies import BYTES
from support.flows import MASK, TEXTS, TOKENIZER, TOKENS, UNIFORM, VOCABULARY

CORPUS = Corpus(TEXTS, 0, "abc")
both = pytest.mark.parametrize("network", [MASK, UNIFORM], ids=["mask", "uniform"])


def small(network, **changes):
    return TrainingConfig(network=network, batch=8, window=16, warmup=3, muon=0.05, adamw=0.02, **changes)


def learner(network):
    return FlowLearner(network, VOCABULARY, TOKENIZER)


def train(config, texts, steps, seed=0):
    trainer = Trainer(config, seed, torch.device("cpu"), learner(config.network))
    stream = as_stream(texts, VOCABULARY)
    return [trainer.step(stream, step / steps) for step in range(steps)], trainer


@both
def test_the_loss_starts_at_uniform_decreases_and_is_reproducible(network):
    losses, trainer = train(small(network), TEXTS, 25)
    assert losses[0] == pytest.approx(math.log(TOKENS), abs=1e-4)
    assert sum(losses[-5:]) / 5 < losses[0] - 1
    again, same = train(small(network), TEXTS, 25)
    assert losses == again
    assert all(torch.equal(a, b) for a, b in zip(trainer.state().values(), same.state().values(), strict=True))


@both
def test_a_short_text_is_memorised(network):
    text = b"the quick brown fox jumps over"
    tokens = torch.tensor([VOCABULARY.tokenize(text.decode())])
    length = tokens.shape[1]
    config = small(replace(network, context=length, width=32), long=0)
    _, trainer = train(replace(config, window=length), [text], 180)
    expert = trainer.learner.freeze(trainer.network, "memory")
    wrong = tokens.clone()
    wrong[0, 3] = (wrong[0, 3] + 1) % TOKENS
    hidden = torch.zeros_like(tokens, dtype=torch.bool)
    hidden[0, 3] = network is MASK
    context = Context(wrong, hidden, torch.tensor([1 - 1 / length]))
    log_probs = expert.predict(context, (torch.zeros(length, dtype=torch.long), torch.arange(length)))
    assert torch.equal(log_probs.argmax(-1), tokens[0])
    assert log_probs[3].exp().max() > 0.8


def test_inputs_and_predicted_positions_depend_on_the_source(monkeypatch):
    """Mask source: masks at noisy positions, which are predicted. Uniform source: any tokens, and all are predicted."""
    windows = torch.randint(TOKENS, (400, 16), generator=torch.Generator().manual_seed(0))
    for network in (MASK, UNIFORM):
        trainer = Trainer(small(network), 0, torch.device("cpu"), learner(network))
        calls = {}

        def features(inputs, kappa, real=None, calls=calls):
            calls.update(inputs=inputs, kappa=kappa)
            return torch.zeros(*inputs.shape, 16)

        def logits(features, calls=calls):
            calls["predicted"] = len(features)
            return torch.zeros(len(features), TOKENS)

        monkeypatch.setattr(trainer.network, "features", features)
        monkeypatch.setattr(trainer.network, "logits", logits)
        trainer.learner.loss(trainer.network, windows, torch.Generator().manual_seed(1), torch.device("cpu"))
        changed = calls["inputs"] != windows
        assert calls["predicted"] == (changed.sum() if network is MASK else windows.numel())
        assert (calls["inputs"][changed] == TOKENS).all() == (network is MASK)
        # The times are stratified, and the fraction of noise at each is 1 - kappa.
        assert torch.equal((calls["kappa"] * 400).floor(), torch.arange(400.0))
        fraction = changed.float().mean(-1)
        assert (fraction - (1 - calls["kappa"])).mean().abs() < 0.02
        assert fraction[:40].mean() > 0.85
        assert fraction[-40:].mean() < 0.15


@both
def test_a_resumed_run_equals_an_uninterrupted_run(network, tmp_path):
    plan = Plan(small(network), 3, 12, None, CORPUS.fingerprint)
    result = run_training(plan, CORPUS, tmp_path / "a" / "x", learner=learner(network))
    assert result.finished
    stops = iter([False] * 5 + [True])
    stopped = run_training(plan, CORPUS, tmp_path / "b" / "x", learner=learner(network), stopped=lambda: next(stops))
    assert (stopped.finished, stopped.step) == (False, 6)
    load_flow(tmp_path / "b" / "x")  # the checkpoint is usable
    assert run_training(plan, CORPUS, tmp_path / "b" / "x", learner=learner(network), resume=True).finished
    first, second = (load_file(tmp_path / name / "x" / "model.safetensors") for name in "ab")
    assert all(torch.equal(first[name], second[name]) for name in first)
    about = json.loads((tmp_path / "a" / "x" / "config.json").read_text())["about"]
    assert about["finished"]
    assert about["held_out"]["bits_per_byte"]["value"] < 8


def test_half_precision_and_checkpointing_give_about_the_same_loss():
    plain, _ = train(small(MASK), TEXTS, 3)
    checkpointed, _ = train(small(MASK, checkpointing=True), TEXTS, 3)
    assert plain == pytest.approx(checkpointed, abs=1e-5)
    half, _ = train(small(MASK, half=True), TEXTS, 3)
    assert plain == pytest.approx(half, abs=0.1)
    assert plain != half


def test_blocks_are_disjoint_and_windows_are_complete_blocks():
    stream = torch.arange(103)
    drawn = draw_blocks(stream, 7, 10, 0)
    assert len(drawn.unique()) == len(drawn) == 70
    windows = draw_windows(drawn, 50, 10, torch.Generator().manual_seed(0), aligned=True)
    assert (windows[:, 0] % 10 == 0).all()
    assert torch.equal(windows, windows[:, :1] + torch.arange(10))
    assert len(draw_blocks(stream, 99, 10, 0)) == 100


def test_token_windows_have_the_text_of_byte_windows():
    texts = [*TEXTS, "naïve café — «déjà vu» ".encode() * 3]
    byte_windows = draw_noisy_windows(texts, 60, 21, 0)
    windows = draw_noisy_windows(texts, 60, 21, 0, VOCABULARY)
    assert torch.equal(byte_windows.documents, windows.documents)
    for data, tokens, sizes in zip(byte_windows.tokens, windows.tokens, windows.bytes, strict=True):
        text = bytes(data[data != PAD].tolist()).decode(errors="ignore").encode()
        assert VOCABULARY.decode(tokens[tokens != PAD].numpy()) == text
        assert sizes.sum() == len(text)
    uniform = draw_noisy_windows(texts, 60, 21, 0, VOCABULARY, learner(UNIFORM).source)
    assert torch.equal(uniform.tokens, windows.tokens)
    assert not uniform.hidden.any()
    assert torch.equal(uniform.scored, uniform.tokens != PAD)
    assert ((uniform.inputs != uniform.tokens) <= windows.hidden).all()  # noise at the same positions
    assert draw_noisy_windows(texts, 60, 21, 0, VOCABULARY, limit=4).tokens.shape[1] == 4


@both
def test_the_scores_of_an_untrained_network_are_exact(network):
    """Uniform predictions have log V nats per token; so has the bound with a mask source."""
    expert = learner(network).freeze(learner(network).make(), "untrained")
    windows = draw_noisy_windows(TEXTS, 3000, 40, 0, VOCABULARY, expert.spec.source)
    scores = score(expert, windows, batch=500)
    tokens = float((windows.tokens != PAD).sum() / windows.bytes.sum())
    scored = float(windows.scored.sum() / (windows.bytes * windows.scored).sum())
    assert scores.per_hidden_byte().value == pytest.approx(math.log(TOKENS) * scored, rel=1e-5)
    if network is MASK:
        estimate = scores.bits_per_byte()
        assert estimate.low < math.log2(TOKENS) * tokens < estimate.high
    else:
        # [u != x] log V + [u = x] - 1/V has the mean (1 - kappa)(1 - 1/V) log V + kappa (1 - 1/V). Divided by
        # 1 - kappa, the second term has no finite integral, so the flow-matching bound is loose.
        assert scores.bits_per_byte().value > math.log2(TOKENS) * tokens


def test_a_byte_expert_and_token_experts_can_be_compared():
    experts = []
    for number, network in enumerate((MASK, UNIFORM)):
        _, trainer = train(small(network), TEXTS, 3)
        experts.append(trainer.learner.freeze(trainer.network, f"domain {number}"))
    domains = {"domain 0": TEXTS[:20], "domain 1": TEXTS[20:]}
    check = check_specialisation(experts, domains, windows=20, length=30)
    assert len(check.cells) == 4
    assert check.counts["domain 0"]["windows"] == 20
    assert all(math.isfinite(cell.energy.value) for cell in check.cells)


def test_a_trained_tokenizer_has_the_requested_size():
    assert VOCABULARY.size == TOKENS
    assert all(VOCABULARY.token_bytes)
    text = "the naïve café\n\n  — 12"
    assert b"".join(VOCABULARY.token_bytes[token] for token in VOCABULARY.tokenize(text)) == text.encode()
    with pytest.raises(ConservatorError, match="must have more than 256 tokens, got 256"):
        train_tokenizer(TEXTS, BYTES.size)
    with pytest.raises(ConservatorError, match=r"the texts are sufficient for \d+ of 5000 tokens"):
        train_tokenizer([b"short"], 5000)


def test_tokenizers_are_loaded_from_files_and_folders(tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(TOKENIZER)
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        assert tokens_of(read_tokenizer(path)).fingerprint == VOCABULARY.fingerprint
    gpt2 = tmp_path / "gpt2"
    gpt2.mkdir()
    model = json.loads(TOKENIZER)["model"]
    ids = {**model["vocab"], "<|endoftext|>": TOKENS}
    (gpt2 / "encoder.json").write_text(json.dumps(ids))
    merges = [" ".join(pair) for pair in model["merges"]]
    (gpt2 / "vocab.bpe").write_text("\n".join(["#version: 0.2", *merges]) + "\n", encoding="utf-8")
    loaded = tokens_of(read_tokenizer(gpt2))
    assert loaded.token_bytes == (*VOCABULARY.token_bytes, b"")
    assert loaded.tokenize("the <|endoftext|>") == VOCABULARY.tokenize(
        "the <|endoftext|>"
    )  # in a text, it is ordinary text
    (gpt2 / "vocab.bpe").write_text("one\n")
    with pytest.raises(ConservatorError, match="does not contain a tokenizer"):
        read_tokenizer(gpt2)
    with pytest.raises(ConservatorError, match="no tokenizer at"):
        read_tokenizer(tmp_path / "nowhere")
    with pytest.raises(ConservatorError, match="is not a byte-pair tokenizer"):
        tokens_of(b"{}")


def test_a_target_selects_presets_and_the_learner(tmp_path):
    assert "small" in TrainingTarget().presets
    assert TrainingTarget(source="uniform").presets is BASES
    assert TrainingTarget(vocabulary="300").presets is BASES
    assert TrainingTarget(base=tmp_path).presets is ADAPTERS
    target = TrainingTarget("uniform")
    config, created = target.learner(BASES["laptop"], TEXTS, tmp_path / "x", resume=False, device="cpu")
    assert (created.vocabulary, config.network.tokens, config.network.source) == (BYTES, BYTES.size, "uniform")
    target = TrainingTarget(vocabulary=str(TOKENS))
    _, created = target.learner(BASES["laptop"], TEXTS, tmp_path / "x", resume=False, device="cpu")
    assert created.vocabulary.fingerprint == VOCABULARY.fingerprint
    _, resumed = target.learner(BASES["laptop"], [b"other"], tmp_path / "x", resume=True, device="cpu")
    assert resumed.vocabulary.fingerprint == VOCABULARY.fingerprint
    with pytest.raises(ConservatorError, match="is not a base for an adapter"):
        TrainingTarget(base=Path(tmp_path)).learner(
            ADAPTERS["laptop"], TEXTS, tmp_path / "y", resume=False, device="cpu"
        )
