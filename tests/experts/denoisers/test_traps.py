"""The trap of each family: networks that know a text by heart, read as their family says, and read otherwise."""

from dataclasses import replace

import pytest
import torch

from conservator import ConservatorError
from conservator.experts import PAD, Context, UniformSource
from conservator.experts.denoisers import FAMILIES, Denoiser
from conservator.experts.denoisers.families import longest_of
from support.pretrained import (
    KINDS,
    POSITIONS,
    around,
    by_heart,
    load,
    mask_of,
    network,
    numbers,
    random_denoiser,
    size_of,
)
from support.tables import table_of

every = pytest.mark.parametrize("kind", KINDS)
masked = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "duo"])


def read(kind, made, **changes):
    """An expert of a network as its family says, with some of that changed."""
    own, known = KINDS[kind], numbers(kind)
    given = {
        "mask": mask_of(kind),
        "start": known[own.before[0]] if own.before else None,
        "end": known[own.after[0]] if own.after else None,
    }
    given |= {name: changes.pop(name) for name in list(changes) if name in given}
    tokens = changes.pop("tokens", random_denoiser(kind).spec.vocabulary)
    return Denoiser(made, replace(FAMILIES[kind], **changes), tokens, longest=POSITIONS, name=kind, **given)


def cross_entropy(expert, text):
    """-log p of each token of a text that an expert knows by heart, on average, every other token hidden or noise."""
    total = 0.0
    for first in (0, 1):
        changed = torch.zeros(len(text), dtype=torch.bool)
        changed[first::2] = True
        noise = torch.where(changed, (text + 1) % expert.spec.vocabulary.size, text)[None]
        hidden = changed[None] & expert.spec.source.shows_noise
        law = table_of(expert, noise, hidden, 0.5)[0]
        total -= float(law[changed, text[changed]].sum())
    return total / len(text)


@every
def test_a_text_that_is_known_by_heart_comes_back(kind, tmp_path):
    made, text = by_heart(kind)
    expert = load(kind, made, tmp_path)
    assert cross_entropy(expert, text) < 0.1
    assert expert.spec.vocabulary.decode(text.numpy()) == b"the quick brown fox jumps over the lazy dog"


TRAPS = {
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


@pytest.mark.parametrize(("kind", "changes"), TRAPS.values(), ids=TRAPS)
def test_read_otherwise_the_text_does_not_come_back(kind, changes):
    made, text = by_heart(kind)
    assert cross_entropy(read(kind, made, **changes), text) > 1.0


def given_to(expert, context):
    """What the network was called with while an expert predicted every position."""
    seen = []
    hook = expert.network.register_forward_pre_hook(lambda _, args, given: seen.append(given), with_kwargs=True)
    expert.predict(context, context.everywhere())
    hook.remove()
    return seen


@every
def test_the_network_is_given_its_own_marks_and_no_padding(kind):
    """A start, an end, the mask and the times, as the family was trained; rows of other lengths stand apart."""
    expert, mask = random_denoiser(kind), mask_of(kind)
    tokens = torch.tensor([[5, 6, 7, 8], [9, 10, PAD, PAD], [11, 12, 13, 14]])
    hidden = torch.tensor([[True, False, True, False], [True, False, True, True], [False, True, False, False]])
    if mask is None:
        hidden = torch.zeros_like(hidden)
    kappa = torch.tensor([0.25, 0.5, 1.0])
    seen = given_to(expert, Context(tokens, hidden, kappa))
    expected = tokens if mask is None else tokens.masked_fill(hidden, mask)
    for given, rows, length in zip(seen, ([1], [0, 2]), (2, 4), strict=True):
        assert given["input_ids"].tolist() == around(kind, expected[rows, :length]).tolist()
        if KINDS[kind].time == "sigma":
            torch.testing.assert_close(given["timesteps"], -kappa[rows].log())
        elif KINDS[kind].time == "zeros":
            assert given["timesteps"].tolist() == [0.0] * len(rows)
        else:
            assert "timesteps" not in given


def test_padding_would_change_what_a_network_says():
    """Why rows of one length stand apart: what follows a text matters to these networks."""
    made, known = network("mdlm"), numbers("mdlm")
    row = around("mdlm", torch.tensor([[5, 6, 7]]))
    padded = torch.cat([row, torch.full((1, 4), known["<|endoftext|>"])], dim=1)
    times = torch.zeros(1)
    alone, beside = (made(one, times, return_dict=True).logits for one in (row, padded))
    assert not torch.allclose(alone, beside[:, : row.shape[1]], atol=1e-2)


@masked
def test_the_mask_and_other_tokens_without_text_are_forbidden_before_normalising(kind):
    """A head that prefers them all the same leaves the laws of the others as they were."""
    made, text = by_heart(kind)
    silent = torch.tensor([not piece for piece in random_denoiser(kind).spec.vocabulary.token_bytes])
    assert silent[mask_of(kind)]
    expert = read(kind, made)
    context = Context(text[None], torch.ones(1, len(text), dtype=torch.bool))
    found = expert.predict(context, context.everywhere())
    assert (found[:, silent] < -1e3).all()
    torch.testing.assert_close(found[:, ~silent].exp().sum(-1), torch.ones(len(text)))

    def prefer(module, given, output):
        output.logits[..., silent] += 50

    hook = made.register_forward_hook(prefer)
    try:
        torch.testing.assert_close(expert.predict(context, context.everywhere()), found)
        expert._silent = torch.zeros_like(silent)  # the trap
        assert (expert.predict(context, context.everywhere()).argmax(-1) != text).any()
    finally:
        hook.remove()


def test_mdlm_without_times_does_not_run():
    made, text = by_heart("mdlm")
    with pytest.raises(TypeError, match="zeros_like"):
        cross_entropy(read("mdlm", made, time="none"), text)


def test_a_uniform_source_reads_every_token_and_needs_a_time():
    expert = random_denoiser("duo")
    tokens = torch.tensor([[5, 6, 7]])
    nothing = torch.zeros_like(tokens, dtype=torch.bool)
    assert expert.spec.source == UniformSource()
    assert expert.spec.takes_time
    with pytest.raises(ConservatorError, match="none may be hidden"):
        table_of(expert, tokens, tokens == 6, 0.5)
    with pytest.raises(ConservatorError, match="needs the time kappa"):
        table_of(expert, tokens, nothing)
    early, late = table_of(expert, tokens, nothing, 0.1), table_of(expert, tokens, nothing, 0.9)
    assert not torch.allclose(early, late)
    assert torch.isfinite(table_of(expert, tokens, nothing, 0.0)).all()
    assert (late.argmax(-1) != tokens).any()  # it does not copy


def test_positions_that_are_counted_from_the_padding_token_on_are_fewer():
    """RoBERTa: of so many positions, two are never used, and two are its start and end."""
    expert = random_denoiser("roberta")
    assert expert.spec.max_length == POSITIONS - 2 - 2
    config = expert.network.config
    assert longest_of(replace(FAMILIES["roberta"], after_pad=False), config) == POSITIONS
    with pytest.raises((IndexError, RuntimeError)):  # the trap
        expert.network(input_ids=torch.full((1, POSITIONS), 5))


@pytest.mark.parametrize("kind", ["bert", "distilbert", "modernbert", "roberta", "Dream", "llada"])
def test_logits_are_computed_where_they_are_asked_for(kind):
    """At a large vocabulary, the last layer costs more than all others; its rows are as those of a plain call."""
    expert = random_denoiser(kind)
    seen = []
    hook = expert._head.register_forward_hook(lambda _, given, output: seen.append(output.shape))
    tokens = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])
    found = expert.predict(Context(tokens, tokens > 6), (torch.tensor([1, 0, 1]), torch.tensor([3, 2, 3])))
    hook.remove()
    assert seen == [(3, size_of(kind))]
    row = around(kind, tokens.masked_fill(tokens > 6, mask_of(kind)))
    plain = expert.network(input_ids=row).logits[[1, 0, 1], torch.tensor([3, 2, 3]) + bool(KINDS[kind].before)]
    if KINDS[kind].shift:
        plain = expert.network(input_ids=row).logits[[1, 0, 1], [3, 2, 3]]
    plain[:, expert._silent] = -torch.inf
    torch.testing.assert_close(found[:, ~expert._silent], plain.log_softmax(-1)[:, ~expert._silent])


def test_many_rows_are_read_in_parts(monkeypatch):
    expert = random_denoiser("mdlm")
    tokens = torch.randint(5, 100, (9, 4), generator=torch.Generator().manual_seed(0))
    whole = table_of(expert, tokens, tokens > 20)
    monkeypatch.setattr("conservator.experts.denoisers.denoiser.CHUNK", 4 * 4 * size_of("mdlm") * 2)
    assert len(given_to(expert, Context(tokens, tokens > 20))) == 5
    torch.testing.assert_close(table_of(expert, tokens, tokens > 20), whole)


def test_what_is_visible_costs_nothing():
    tokens = torch.tensor([[5, 6], [7, 8]])
    assert given_to(random_denoiser("bert"), Context(tokens, tokens < 0)) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"mask": None}, "needs a mask if its source is one"), ({"shift": 1, "start": None}, "needs a start token")],
)
def test_a_network_without_what_its_family_needs_is_refused(changes, message):
    with pytest.raises(ConservatorError, match=message):
        read("bert", network("bert"), **changes)


def test_tokens_that_are_not_in_the_vocabulary_are_refused():
    expert = random_denoiser("bert")
    mask = expert.spec.vocabulary.mask
    with pytest.raises(ConservatorError, match=f"a visible token is {mask}; tokens are 0 to {mask - 1}"):
        table_of(expert, torch.tensor([[mask]]), torch.tensor([[False]]))
    assert torch.isfinite(table_of(expert, torch.tensor([[mask]]), torch.tensor([[True]]))).all()
    other = random_denoiser("distilbert").spec.vocabulary
    wrong = read("bert", network("bert"), tokens=type(other)(other.words[:-1], other._spans))
    with pytest.raises(ConservatorError, match="tokens, its vocabulary"):
        table_of(wrong, torch.tensor([[5]]), torch.tensor([[True]]))
