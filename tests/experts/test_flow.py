"""Flow-matching experts: names of weights, time, source and mask, folders."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from conservator.errors import ConservatorError
from conservator.experts import PAD, Context, Team, UniformSource
from conservator.experts.flow import Base, FlowConfig, FlowExpert, FlowNetwork, is_flow, load_flow, save_flow
from conservator.experts.uniform import cavity
from conservator.vocabularies import BYTES, Tokens
from support.flows import APART, MASK, NEAR, TOKENIZER, TOKENS, UNIFORM, VOCABULARY, random_flow, save_random


def expert(config, seed=0):
    return FlowExpert(Base(random_flow(config, seed), VOCABULARY), "flow")


def batch(rows=4, length=9, seed=0):
    return torch.randint(TOKENS, (rows, length), generator=torch.Generator().manual_seed(seed))


def test_the_weights_have_the_public_names():
    block = [
        *("norm1.weight", "qw.weight", "kw.weight", "vw.weight", "attn_out.weight", "norm2.weight"),
        *("mlp.0.weight", "mlp.0.bias", "mlp.2.weight", "mlp.2.bias"),
        *("adaLN_modulation.weight", "adaLN_modulation.bias"),
    ]
    head = ["norm_final.weight", "linear.weight", "linear.bias", "adaLN_modulation.weight", "adaLN_modulation.bias"]
    names = [
        *("vocab_embed.weight", "rotary_emb.inv_freq"),
        *(f"time_embedding.mlp.{layer}.{part}" for layer in (0, 2) for part in ("weight", "bias")),
        *(f"blocks.{number}.{name}" for number in range(2) for name in block),
        *(f"output_layer.{name}" for name in head),
    ]
    assert sorted(FlowNetwork(MASK).state_dict()) == sorted(names)


def test_only_a_mask_source_has_a_row_for_the_mask():
    for config, symbols in ((MASK, TOKENS + 1), (UNIFORM, TOKENS)):
        network = FlowNetwork(config)
        assert network.vocab_embed.weight.shape[0] == network.output_layer.linear.weight.shape[0] == symbols
        assert network(batch(), torch.ones(4)).shape == (4, 9, TOKENS)


def test_the_paper_s_base_has_1_3_billion_weights():
    with torch.device("meta"):
        network = FlowNetwork(
            FlowConfig(50257, "uniform", context=1024, width=2048, layers=21, heads=32, conditioning=2 * 128)
        )
    assert 1.28e9 < sum(weight.numel() for weight in network.parameters()) < 1.38e9


@pytest.mark.parametrize("config", [MASK, UNIFORM], ids=["mask", "uniform"])
def test_an_untrained_network_is_exactly_uniform(config):
    logits = FlowNetwork(config)(batch(), torch.rand(4))
    assert torch.equal(logits, torch.zeros_like(logits))


@pytest.mark.parametrize("config", [MASK, UNIFORM], ids=["mask", "uniform"])
def test_the_time_matters(config):
    one = expert(config)
    assert one.spec.takes_time
    hidden = torch.rand(4, 9) < 0.5 if config is MASK else torch.zeros(4, 9, dtype=torch.bool)
    at = torch.ones(4, 9).nonzero(as_tuple=True)
    early, late = (one.predict(Context(batch(), hidden, torch.full((4,), kappa)), at) for kappa in (0.1, 0.9))
    assert (early - late).abs().max() > 0.01


def test_without_a_time_the_share_of_visible_tokens_is_it():
    one, tokens = expert(MASK), batch()
    hidden = torch.zeros(4, 9, dtype=torch.bool)
    hidden[:, :3] = True
    at = hidden.nonzero(as_tuple=True)
    told = one.predict(Context(tokens, hidden, torch.full((4,), 6 / 9)), at)
    assert torch.equal(one.predict(Context(tokens, hidden), at), told)


def test_a_uniform_source_reads_every_token_and_copies_none():
    one, tokens = expert(UNIFORM), batch()
    assert one.spec.source == UniformSource()
    nothing, at = torch.zeros(4, 9, dtype=torch.bool), torch.ones(4, 9).nonzero(as_tuple=True)
    log_probs = one.predict(Context(tokens, nothing, torch.full((4,), 0.5)), at)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(36))
    assert log_probs.max() < -1e-3  # nowhere certain
    other = tokens.clone()
    other[0, 4] = (other[0, 4] + 1) % TOKENS
    changed = one.predict(Context(other, nothing, torch.full((4,), 0.5)), at).view(4, 9, -1)
    assert not torch.equal(changed[0, 0], log_probs.view(4, 9, -1)[0, 0])
    torch.testing.assert_close(changed[1:], log_probs.view(4, 9, -1)[1:])
    short = tokens.clone()
    short[1, 5:] = PAD
    padded = one.predict(Context(short, nothing, torch.full((4,), 0.5)), at).view(4, 9, -1)
    alone = one.predict(
        Context(tokens[1:2, :5], nothing[:1, :5], torch.tensor([0.5])), torch.ones(1, 5).nonzero(as_tuple=True)
    )
    torch.testing.assert_close(padded[1, :5], alone)


def test_a_network_that_predicts_apart_has_the_cavity_as_its_own_law():
    one, tokens, times = expert(APART), batch(), torch.tensor([0.0, 0.3, 0.7, 0.99], dtype=torch.float64)
    at = torch.ones(4, 9).nonzero(as_tuple=True)
    log_probs = one.predict(Context(tokens, torch.zeros(4, 9, dtype=torch.bool), times), at)
    with torch.no_grad():
        own = one.base.network(tokens, times).log_softmax(-1)[at]
    torch.testing.assert_close(cavity(log_probs, tokens[at], times[at[0]]), own, atol=1e-4, rtol=1e-4)
    certain = one.predict(Context(tokens, torch.zeros(4, 9, dtype=torch.bool), torch.ones(4)), at)
    assert torch.equal(certain.argmax(-1), tokens[at])  # at the end of time every token is itself


def test_a_uniform_source_refuses_what_it_cannot_know():
    one, tokens = expert(UNIFORM), batch()
    at = (torch.tensor([0]), torch.tensor([0]))
    nothing = torch.zeros(4, 9, dtype=torch.bool)
    with pytest.raises(ConservatorError, match="it cannot read hidden tokens"):
        one.predict(Context(tokens, ~nothing, torch.ones(4)), at)
    with pytest.raises(ConservatorError, match="must be told the time"):
        one.predict(Context(tokens, nothing), at)
    with pytest.raises(ConservatorError, match="uniform source"):
        Team([one])


def test_tokens_without_text_are_impossible():
    silent = Tokens([b"", *VOCABULARY.token_bytes[1:]])
    one = FlowExpert(Base(random_flow(), silent), "flow")
    hidden = torch.ones(4, 9, dtype=torch.bool)
    log_probs = one.predict(Context(batch(), hidden, torch.zeros(4)), hidden.nonzero(as_tuple=True))
    assert log_probs[:, 0].max() < -1000
    assert torch.isfinite(log_probs).all()
    torch.testing.assert_close(log_probs[:, 1:].exp().sum(-1), torch.ones(36))


def test_strange_tokens_and_vocabularies_are_refused():
    one, nothing = expert(MASK), torch.zeros(4, 9, dtype=torch.bool)
    with pytest.raises(ConservatorError, match=f"a visible token is {TOKENS}"):
        one.predict(Context(torch.full((4, 9), TOKENS), nothing), (torch.tensor([0]), torch.tensor([0])))
    with pytest.raises(ConservatorError, match="they must be equal"):
        Base(random_flow(), BYTES)


@pytest.mark.parametrize("config", [MASK, NEAR, UNIFORM, APART], ids=["mask", "near", "uniform", "apart"])
def test_a_folder_gives_the_expert_back(config, tmp_path):
    save_random(tmp_path / "one", config)
    assert is_flow(tmp_path / "one")
    found = load_flow(tmp_path / "one")
    assert found.spec.name == "one"
    assert found.spec.vocabulary.fingerprint == VOCABULARY.fingerprint
    assert found.base.network.config == config
    expected = random_flow(config).half().float()
    for name, value in found.base.network.state_dict().items():
        torch.testing.assert_close(value, expected.state_dict()[name], rtol=1e-3, atol=1e-6)
    assert load_flow(tmp_path / "one").base is found.base  # in memory once
    stated = json.loads((tmp_path / "one" / "config.json").read_text())
    assert stated["model_type"] == "conservator_flow"
    assert stated["mask_token_id"] == (None if config.source == "uniform" else TOKENS)


def test_a_network_over_bytes_needs_no_tokenizer(tmp_path):
    config = FlowConfig(BYTES.size, "uniform", context=16, width=8, layers=1, heads=2, conditioning=4)
    save_flow(tmp_path / "one", random_flow(config), None, "one")
    assert not (tmp_path / "one" / "tokenizer.json").exists()
    assert load_flow(tmp_path / "one").spec.vocabulary is BYTES


def test_a_folder_that_is_wrong_is_refused(tmp_path):
    folder = tmp_path / "one"
    save_random(folder)
    config = json.loads((folder / "config.json").read_text())
    wrong = {
        "model_type": ("bert", "does not describe a flow-matching expert"),
        "source": ("gaussian", "the source is 'gaussian'; accepted: mask, uniform"),
        "mask_token_id": (7, "mask_token_id is 7"),
        "width": (15, "no even multiple of 2 heads"),
        "layers": (0, "layers is 0; expected a number from 1"),
        "heads": ("two", "heads is 'two'"),
        "context": (None, "context is None"),
        "vocabulary": ("words", "the vocabulary must be"),
        "apart": (True, "apart is True; true is for a uniform source"),
    }
    for key, (value, message) in wrong.items():
        (folder / "config.json").write_text(json.dumps({**config, key: value}))
        with pytest.raises(ConservatorError, match=message):
            load_flow(folder)
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "heads"}))
    with pytest.raises(ConservatorError, match="does not give heads"):
        load_flow(folder)
    (folder / "config.json").write_text(json.dumps(config))
    weights = load_file(folder / "model.safetensors")
    damages = {
        "does not fit config.json": {k: v for k, v in weights.items() if k != "vocab_embed.weight"},
        "not a finite number": {**weights, "vocab_embed.weight": weights["vocab_embed.weight"] * torch.inf},
        "not that of the base 10000": {**weights, "rotary_emb.inv_freq": weights["rotary_emb.inv_freq"] * 2},
    }
    for message, changed in damages.items():
        save_file(changed, folder / "model.safetensors")
        with pytest.raises(ConservatorError, match=message):
            load_flow(folder)
    (folder / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ConservatorError, match="not a safetensors file"):
        load_flow(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConservatorError, match="cannot read"):
        load_flow(folder)
    assert not is_flow(tmp_path)
    assert len(TOKENIZER) > 0
