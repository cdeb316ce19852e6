"""Networks that memorized a text predict it with the inputs of their family, and not with other inputs."""

from dataclasses import replace

import pytest
import torch

from conservator import ConservatorError
from conservator.experts import PAD, Context, UniformSource
from conservator.experts.denoisers import Denoiser
from conservator.experts.denoisers.families import FAMILIES, max_positions_of
from conservator.experts.team import TeamConfig
from support.pretrained import (
    KINDS,
    POSITIONS,
    around,
    load,
    mask_of,
    memorized_network,
    network,
    random_denoiser,
    size_of,
    token_ids,
)
from support.tables import table_of

every = pytest.mark.parametrize("kind", KINDS)
masked = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "duo"])


def make_denoiser(kind, model, **changes):
    """An expert with the inputs of its family, some of them changed."""
    inputs, ids = KINDS[kind], token_ids(kind)
    given = {
        "mask": mask_of(kind),
        "start": ids[inputs.before[0]] if inputs.before else None,
        "end": ids[inputs.after[0]] if inputs.after else None,
    }
    given |= {name: changes.pop(name) for name in list(changes) if name in given}
    tokens = changes.pop("tokens", random_denoiser(kind).spec.vocabulary)
    return Denoiser(model, replace(FAMILIES[kind], **changes), tokens, max_positions=POSITIONS, name=kind, **given)


def cross_entropy(expert, text):
    """Mean -log p of the tokens of a memorized text, with every other token hidden or noise."""
    total = 0.0
    for first in (0, 1):
        changed = torch.zeros(len(text), dtype=torch.bool)
        changed[first::2] = True
        noise = torch.where(changed, (text + 1) % expert.spec.vocabulary.size, text)[None]
        hidden = changed[None] & expert.spec.source.shows_noise
        log_probs = table_of(expert, noise, hidden, 0.5)[0]
        total -= float(log_probs[changed, text[changed]].sum())
    return total / len(text)


@every
def test_a_memorized_text_is_predicted(kind, tmp_path):
    model, text = memorized_network(kind)
    expert = load(kind, model, tmp_path)
    assert cross_entropy(expert, text) < 0.1
    assert expert.spec.vocabulary.decode(text.numpy()) == b"the quick brown fox jumps over the lazy dog"


WRONG_INPUTS = {
    "bert, no start": ("bert", {"start": None}),
    "bert, shifted": ("bert", {"shift": 1}),
    "distilbert, no start": ("distilbert", {"start": None}),
    "roberta, no start": ("roberta", {"start": None}),
    "modernbert, shifted": ("modernbert", {"shift": 1}),
    "Dream, not shifted": ("Dream", {"shift": 0}),
    "llada, a start": ("llada", {"start": 0}),
    "mdlm, no start": ("mdlm", {"start": None}),
    "duo, no start": ("duo", {"start": None}),
}


@pytest.mark.parametrize(("kind", "changes"), WRONG_INPUTS.values(), ids=WRONG_INPUTS)
def test_a_memorized_text_is_not_predicted_with_wrong_inputs(kind, changes):
    model, text = memorized_network(kind)
    assert cross_entropy(make_denoiser(kind, model, **changes), text) > 1.0


def network_inputs(expert, context):
    """The inputs of the network while an expert predicts every position."""
    calls = []
    hook = expert.network.register_forward_pre_hook(lambda _, args, inputs: calls.append(inputs), with_kwargs=True)
    expert.predict(context, context.everywhere())
    hook.remove()
    return calls


@every
def test_the_network_gets_the_special_tokens_of_its_family_and_no_padding(kind):
    """Start, end, mask and times as in training; rows of different lengths are in different batches."""
    expert, mask = random_denoiser(kind), mask_of(kind)
    tokens = torch.tensor([[5, 6, 7, 8], [9, 10, PAD, PAD], [11, 12, 13, 14]])
    hidden = torch.tensor([[True, False, True, False], [True, False, True, True], [False, True, False, False]])
    if mask is None:
        hidden = torch.zeros_like(hidden)
    kappa = torch.tensor([0.25, 0.5, 1.0])
    calls = network_inputs(expert, Context(tokens, hidden, kappa))
    expected = tokens if mask is None else tokens.masked_fill(hidden, mask)
    for inputs, rows, length in zip(calls, ([1], [0, 2]), (2, 4), strict=True):
        assert inputs["input_ids"].tolist() == around(kind, expected[rows, :length]).tolist()
        if KINDS[kind].time == "sigma":
            torch.testing.assert_close(inputs["timesteps"], -kappa[rows].log())
        elif KINDS[kind].time == "zeros":
            assert inputs["timesteps"].tolist() == [0.0] * len(rows)
        else:
            assert "timesteps" not in inputs


def test_padding_would_change_the_predictions_of_a_network():
    """The reason for batches of equal length: tokens after a text change the predictions of these networks."""
    model, ids = network("mdlm"), token_ids("mdlm")
    row = around("mdlm", torch.tensor([[5, 6, 7]]))
    padded = torch.cat([row, torch.full((1, 4), ids["<|endoftext|>"])], dim=1)
    times = torch.zeros(1)
    without, with_padding = (model(tokens, times, return_dict=True).logits for tokens in (row, padded))
    assert not torch.allclose(without, with_padding[:, : row.shape[1]], atol=1e-2)


@masked
def test_special_tokens_are_removed_before_normalisation(kind):
    """A head that prefers them does not change the predictions of the other tokens."""
    model, text = memorized_network(kind)
    special = torch.tensor([not data for data in random_denoiser(kind).spec.vocabulary.token_bytes])
    assert special[mask_of(kind)]
    expert = make_denoiser(kind, model)
    context = Context(text[None], torch.ones(1, len(text), dtype=torch.bool))
    log_probs = expert.predict(context, context.everywhere())
    assert (log_probs[:, special] < -1e3).all()
    torch.testing.assert_close(log_probs[:, ~special].exp().sum(-1), torch.ones(len(text)))

    def prefer_special(module, inputs, output):
        output.logits[..., special] += 50

    hook = model.register_forward_hook(prefer_special)
    try:
        torch.testing.assert_close(expert.predict(context, context.everywhere()), log_probs)
        expert._special = torch.zeros_like(special)  # without the removal, the prediction is wrong
        assert (expert.predict(context, context.everywhere()).argmax(-1) != text).any()
    finally:
        hook.remove()


def test_mdlm_without_times_does_not_run():
    model, text = memorized_network("mdlm")
    with pytest.raises(TypeError, match="zeros_like"):
        cross_entropy(make_denoiser("mdlm", model, time="none"), text)


def test_a_uniform_source_reads_every_token_and_needs_a_time():
    expert = random_denoiser("duo")
    tokens = torch.tensor([[5, 6, 7]])
    none_hidden = torch.zeros_like(tokens, dtype=torch.bool)
    assert expert.spec.source == UniformSource()
    assert expert.spec.takes_time
    with pytest.raises(ConservatorError, match="no token may be hidden"):
        table_of(expert, tokens, tokens == 6, 0.5)
    with pytest.raises(ConservatorError, match=r"context.time \(kappa\) must be given"):
        table_of(expert, tokens, none_hidden)
    early, late = table_of(expert, tokens, none_hidden, 0.1), table_of(expert, tokens, none_hidden, 0.9)
    assert not torch.allclose(early, late)
    assert torch.isfinite(table_of(expert, tokens, none_hidden, 0.0)).all()
    assert (late.argmax(-1) != tokens).any()  # tokens are not copied


def test_positions_counted_from_the_padding_token_on_are_fewer():
    """RoBERTa: two positions are never used, and two are start and end."""
    expert = random_denoiser("roberta")
    assert expert.spec.max_length == POSITIONS - 2 - 2
    config = expert.network.config
    assert max_positions_of(replace(FAMILIES["roberta"], after_pad=False), config) == POSITIONS
    with pytest.raises((IndexError, RuntimeError)):  # more positions than it has
        expert.network(input_ids=torch.full((1, POSITIONS), 5))


@pytest.mark.parametrize("kind", ["bert", "distilbert", "modernbert", "roberta", "Dream", "llada"])
def test_logits_are_computed_only_at_requested_positions(kind):
    """With a large vocabulary, the output layer costs more than all others; its rows equal those of a full pass."""
    expert = random_denoiser(kind)
    shapes = []
    hook = expert._head.register_forward_hook(lambda _, inputs, output: shapes.append(output.shape))
    tokens = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])
    log_probs = expert.predict(Context(tokens, tokens > 6), (torch.tensor([1, 0, 1]), torch.tensor([3, 2, 3])))
    hook.remove()
    assert shapes == [(3, size_of(kind))]
    row = around(kind, tokens.masked_fill(tokens > 6, mask_of(kind)))
    plain = expert.network(input_ids=row).logits[[1, 0, 1], torch.tensor([3, 2, 3]) + bool(KINDS[kind].before)]
    if KINDS[kind].shift:
        plain = expert.network(input_ids=row).logits[[1, 0, 1], [3, 2, 3]]
    plain[:, expert._special] = -torch.inf
    torch.testing.assert_close(log_probs[:, ~expert._special], plain.log_softmax(-1)[:, ~expert._special])


def test_many_rows_are_evaluated_in_batches(monkeypatch):
    expert = random_denoiser("mdlm")
    tokens = torch.randint(5, 100, (9, 4), generator=torch.Generator().manual_seed(0))
    whole = table_of(expert, tokens, tokens > 20)
    config = TeamConfig(batch_bytes=4 * 4 * size_of("mdlm") * 2)
    monkeypatch.setattr("conservator.experts.denoisers.denoiser.TEAM_CONFIG", config)
    assert len(network_inputs(expert, Context(tokens, tokens > 20))) == 5
    torch.testing.assert_close(table_of(expert, tokens, tokens > 20), whole)


def test_visible_positions_cost_no_evaluation():
    tokens = torch.tensor([[5, 6], [7, 8]])
    assert network_inputs(random_denoiser("bert"), Context(tokens, tokens < 0)) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"mask": None}, "mask must be given for a mask source"), ({"shift": 1, "start": None}, "start must be given")],
)
def test_a_network_without_the_special_tokens_of_its_family_is_rejected(changes, message):
    with pytest.raises(ConservatorError, match=message):
        make_denoiser("bert", network("bert"), **changes)


def test_tokens_outside_the_vocabulary_are_rejected():
    expert = random_denoiser("bert")
    mask = expert.spec.vocabulary.mask
    with pytest.raises(ConservatorError, match=f"visible tokens must be from 0 to {mask - 1}, got {mask}"):
        table_of(expert, torch.tensor([[mask]]), torch.tensor([[False]]))
    assert torch.isfinite(table_of(expert, torch.tensor([[mask]]), torch.tensor([[True]]))).all()
    other = random_denoiser("distilbert").spec.vocabulary
    wrong = make_denoiser("bert", network("bert"), tokens=type(other)(other.words[:-1], other._tokenize_with_spans))
    with pytest.raises(ConservatorError, match="tokens, its vocabulary"):
        table_of(wrong, torch.tensor([[5]]), torch.tensor([[True]]))
