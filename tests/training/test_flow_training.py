"""Training over tokens: sources, memorising, resuming, tokenizers; figures per byte."""

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
from conservator.training.scoring import cut_windows, score
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
def test_the_loss_starts_at_uniform_falls_and_follows_from_the_seed(network):
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
    read = Context(wrong, hidden, torch.tensor([1 - 1 / length]))
    found = expert.predict(read, (torch.zeros(length, dtype=torch.long), torch.arange(length)))
    assert torch.equal(found.argmax(-1), tokens[0])
    assert found[3].exp().max() > 0.8


def test_what_is_hidden_and_asked_follows_the_source(monkeypatch):
    """The network reads masks at noise and only there, or any tokens; the loss asks there, or everywhere."""
    windows = torch.randint(TOKENS, (400, 16), generator=torch.Generator().manual_seed(0))
    for network in (MASK, UNIFORM):
        trainer = Trainer(small(network), 0, torch.device("cpu"), learner(network))
        seen = {}

        def features(read, kappa, real=None, seen=seen):
            seen.update(read=read, kappa=kappa)
            return torch.zeros(*read.shape, 16)

        def logits(found, seen=seen):
            seen["asked"] = len(found)
            return torch.zeros(len(found), TOKENS)

        monkeypatch.setattr(trainer.network, "features", features)
        monkeypatch.setattr(trainer.network, "logits", logits)
        trainer.learner.loss(trainer.network, windows, torch.Generator().manual_seed(1), torch.device("cpu"))
        changed = seen["read"] != windows
        assert seen["asked"] == (changed.sum() if network is MASK else windows.numel())
        assert (seen["read"][changed] == TOKENS).all() == (network is MASK)
        # The times are stratified, and the share of noise at each is 1 - kappa.
        assert torch.equal((seen["kappa"] * 400).floor(), torch.arange(400.0))
        share = changed.float().mean(-1)
        assert (share - (1 - seen["kappa"])).mean().abs() < 0.02
        assert share[:40].mean() > 0.85
        assert share[-40:].mean() < 0.15


@both
def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(network, tmp_path):
    plan = Plan(small(network), 3, 12, None, CORPUS.fingerprint)
    outcome = run_training(plan, CORPUS, tmp_path / "a" / "x", learner=learner(network))
    assert outcome.finished
    asked = iter([False] * 5 + [True])
    stopped = run_training(plan, CORPUS, tmp_path / "b" / "x", learner=learner(network), stopped=lambda: next(asked))
    assert (stopped.finished, stopped.step) == (False, 6)
    load_flow(tmp_path / "b" / "x")  # usable as it is
    assert run_training(plan, CORPUS, tmp_path / "b" / "x", learner=learner(network), resume=True).finished
    first, second = (load_file(tmp_path / one / "x" / "model.safetensors") for one in "ab")
    assert all(torch.equal(first[name], second[name]) for name in first)
    about = json.loads((tmp_path / "a" / "x" / "config.json").read_text())["about"]
    assert about["finished"]
    assert about["held_out"]["bits_per_byte"]["value"] < 8


def test_half_precision_and_checkpointing_give_about_the_same_loss():
    plain, _ = train(small(MASK), TEXTS, 3)
    spared, _ = train(small(MASK, checkpointing=True), TEXTS, 3)
    assert plain == pytest.approx(spared, abs=1e-5)
    half, _ = train(small(MASK, half=True), TEXTS, 3)
    assert plain == pytest.approx(half, abs=0.1)
    assert plain != half


def test_blocks_do_not_overlap_and_windows_are_whole_blocks():
    stream = torch.arange(103)
    drawn = draw_blocks(stream, 7, 10, 0)
    assert len(drawn.unique()) == len(drawn) == 70
    windows = draw_windows(drawn, 50, 10, torch.Generator().manual_seed(0), aligned=True)
    assert (windows[:, 0] % 10 == 0).all()
    assert torch.equal(windows, windows[:, :1] + torch.arange(10))
    assert len(draw_blocks(stream, 99, 10, 0)) == 100


def test_windows_of_tokens_are_the_text_of_windows_of_bytes():
    texts = [*TEXTS, "naïve café — «déjà vu» ".encode() * 3]
    plain = cut_windows(texts, 60, 21, 0)
    cut = cut_windows(texts, 60, 21, 0, VOCABULARY)
    assert torch.equal(plain.documents, cut.documents)
    for one, two, sizes in zip(plain.tokens, cut.tokens, cut.bytes, strict=True):
        text = bytes(one[one != PAD].tolist()).decode(errors="ignore").encode()
        assert VOCABULARY.decode(two[two != PAD].numpy()) == text
        assert sizes.sum() == len(text)
    uniform = cut_windows(texts, 60, 21, 0, VOCABULARY, learner(UNIFORM).source)
    assert torch.equal(uniform.tokens, cut.tokens)
    assert not uniform.hidden.any()
    assert torch.equal(uniform.asked, uniform.tokens != PAD)
    assert ((uniform.read != uniform.tokens) <= cut.hidden).all()  # noise at the same places
    assert cut_windows(texts, 60, 21, 0, VOCABULARY, limit=4).tokens.shape[1] == 4


@both
def test_the_figures_of_an_untrained_network_are_known(network):
    """Uniform predictions: log V a token; the bound is log V a token, or (uniform) the law of the noise's integral."""
    expert = learner(network).freeze(learner(network).make(), "untrained")
    windows = cut_windows(TEXTS, 3000, 40, 0, VOCABULARY, expert.spec.source)
    scores = score(expert, windows, batch=500)
    tokens = float((windows.tokens != PAD).sum() / windows.bytes.sum())
    asked = float(windows.asked.sum() / (windows.bytes * windows.asked).sum())
    assert scores.per_hidden_byte().value == pytest.approx(math.log(TOKENS) * asked, rel=1e-5)
    if network is MASK:
        found = scores.bits_per_byte()
        assert found.low < math.log2(TOKENS) * tokens < found.high
    else:
        # [u != x] log V + [u = x] - 1/V has the mean (1 - kappa)(1 - 1/V) log V + kappa (1 - 1/V): over 1 - kappa, the
        # second part has no finite integral, which is why the bound of flow matching is a bad one.
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


def test_a_tokenizer_has_the_size_that_is_asked_for():
    assert VOCABULARY.size == TOKENS
    assert all(VOCABULARY.token_bytes)
    text = "the naïve café\n\n  — 12"
    assert b"".join(VOCABULARY.token_bytes[token] for token in VOCABULARY.tokenize(text)) == text.encode()
    with pytest.raises(ConservatorError, match="the 256 bytes come first"):
        train_tokenizer(TEXTS, BYTES.size)
    with pytest.raises(ConservatorError, match="the texts give only"):
        train_tokenizer([b"short"], 5000)


def test_tokenizers_are_read_from_files_and_folders(tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(TOKENIZER)
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        assert tokens_of(read_tokenizer(path)).fingerprint == VOCABULARY.fingerprint
    old = tmp_path / "old"
    old.mkdir()
    described = json.loads(TOKENIZER)["model"]
    numbers = {**described["vocab"], "<|endoftext|>": TOKENS}
    (old / "encoder.json").write_text(json.dumps(numbers))
    merges = [" ".join(pair) for pair in described["merges"]]
    (old / "vocab.bpe").write_text("\n".join(["#version: 0.2", *merges]) + "\n", encoding="utf-8")
    found = tokens_of(read_tokenizer(old))
    assert found.token_bytes == (*VOCABULARY.token_bytes, b"")
    assert found.tokenize("the <|endoftext|>") == VOCABULARY.tokenize(
        "the <|endoftext|>"
    )  # spelt in a text, it is text
    (old / "vocab.bpe").write_text("one\n")
    with pytest.raises(ConservatorError, match="holds no tokenizer"):
        read_tokenizer(old)
    with pytest.raises(ConservatorError, match="no tokenizer at"):
        read_tokenizer(tmp_path / "nowhere")
    with pytest.raises(ConservatorError, match="no tokenizer by byte pairs"):
        tokens_of(b"{}")


def test_a_wish_says_what_is_trained(tmp_path):
    assert "small" in TrainingTarget().presets
    assert TrainingTarget(source="uniform").presets is BASES
    assert TrainingTarget(vocabulary="300").presets is BASES
    assert TrainingTarget(base=tmp_path).presets is ADAPTERS
    config, made = TrainingTarget("uniform").learner(BASES["laptop"], TEXTS, tmp_path / "x", resume=False, device="cpu")
    assert (made.vocabulary, config.network.tokens, config.network.source) == (BYTES, BYTES.size, "uniform")
    wish = TrainingTarget(vocabulary=str(TOKENS))
    _, made = wish.learner(BASES["laptop"], TEXTS, tmp_path / "x", resume=False, device="cpu")
    assert made.vocabulary.fingerprint == VOCABULARY.fingerprint
    _, again = wish.learner(BASES["laptop"], [b"other"], tmp_path / "x", resume=True, device="cpu")
    assert again.vocabulary.fingerprint == VOCABULARY.fingerprint
    with pytest.raises(ConservatorError, match="is no base for an adapter"):
        TrainingTarget(base=Path(tmp_path)).learner(
            ADAPTERS["laptop"], TEXTS, tmp_path / "y", resume=False, device="cpu"
        )
