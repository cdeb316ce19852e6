"""Properties of every observation: indexing selects all fields, and lost positions carry no information."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import ConfusionChannel, Excerpt, MaskChannel, ReplacementChannel, Status, as_channel
from conservator.errors import OptionError

SIZE, ROWS, LENGTH = 4, 3, 6
MATRIX = torch.rand(SIZE, SIZE, generator=torch.Generator().manual_seed(0)).softmax(-1)
CHANNELS = {
    "mask": MaskChannel(SIZE, 0.3),
    "replacement": ReplacementChannel(SIZE, 0.3),
    "confusion": ConfusionChannel(MATRIX),
    "confusion into fewer symbols": ConfusionChannel(MATRIX[:, :2].softmax(-1)),
    "confusion into more symbols": ConfusionChannel(torch.cat([0.8 * MATRIX, torch.full((SIZE, 2), 0.1)], dim=1)),
}
channels = pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS.keys())
# In these channels the symbol V stands for a lost token; a matrix with more symbols has a column for it.
mixed = pytest.mark.parametrize(
    "channel", [channel for channel in CHANNELS.values() if not channel.outputs > SIZE + 1], ids=list(CHANNELS)[:4]
)


def symbols(channel):
    return st.sampled_from(sorted({*range(channel.outputs), channel.vocab_size}))


def batches(channel):
    rows = st.lists(symbols(channel), min_size=LENGTH, max_size=LENGTH)
    return st.lists(rows, min_size=ROWS, max_size=ROWS).map(torch.tensor)


def slices(size):
    edges = st.integers(-size - 1, size + 1) | st.none()
    return st.builds(slice, edges, edges, st.integers(1, 3) | st.none())


def tensors(size):
    numbers = st.lists(st.integers(0, size - 1), max_size=5).map(
        lambda indices: torch.tensor(indices, dtype=torch.long)
    )
    masks = st.lists(st.booleans(), min_size=size, max_size=size).map(torch.tensor)
    return numbers | masks


def position_indices(count):
    """Draw indices of single positions of a batch, as two lists of the same length."""
    row = st.lists(st.integers(0, ROWS - 1), min_size=count, max_size=count)
    column = st.lists(st.integers(0, LENGTH - 1), min_size=count, max_size=count)
    return st.tuples(row.map(torch.tensor), column.map(torch.tensor))


single = st.integers(-ROWS, ROWS - 1) | slices(ROWS) | tensors(ROWS)
pairs = st.tuples(
    st.integers(-ROWS, ROWS - 1) | slices(ROWS), st.integers(-LENGTH, LENGTH - 1) | slices(LENGTH) | tensors(LENGTH)
)
grids = st.lists(st.lists(st.booleans(), min_size=LENGTH, max_size=LENGTH), min_size=ROWS, max_size=ROWS)
indices = st.one_of(single, pairs, st.integers(1, 5).flatmap(position_indices), grids.map(torch.tensor), st.none())


@channels
@given(data=st.data(), index=indices)
def test_an_index_selects_tokens_status_and_likelihood(channel, data, index):
    tokens = data.draw(batches(channel))
    whole = channel.observe(tokens)
    part = whole[index]
    assert torch.equal(part.tokens, tokens[index])
    assert torch.equal(part.status, whole.status[index])
    assert torch.equal(part.likelihood.table(), whole.likelihood.table()[index])
    assert part.vocab_size == whole.vocab_size
    for view in ("lost", "uncertain", "hidden", "readable"):
        assert torch.equal(getattr(part, view), getattr(whole, view)[index])
    assert torch.equal(part.log_same(), whole.log_same()[index])
    if part.tokens.numel():
        assert part.likelihood.symbols == whole.likelihood.symbols
        log_probs = torch.randn(*part.tokens.shape, SIZE, dtype=torch.float64).log_softmax(-1)
        joint = whole.likelihood.table()[index] + log_probs
        torch.testing.assert_close(part.likelihood.log_evidence(log_probs), joint.logsumexp(-1))


@channels
@given(data=st.data())
def test_status_and_likelihood_agree_with_the_symbols(channel, data):
    tokens = data.draw(batches(channel))
    observation = channel.observe(tokens)
    statuses = (observation.status == Status.KNOWN).int() + observation.uncertain.int() + observation.lost.int()
    assert (statuses == 1).all()
    assert (observation.hidden == (observation.lost | (tokens >= SIZE))).all()
    assert torch.equal(observation.readable[~observation.hidden], tokens[~observation.hidden])
    assert (observation.readable[observation.hidden] == 0).all()
    same = observation.likelihood.table().gather(-1, tokens.clamp_max(SIZE - 1)[..., None])[..., 0]
    assert torch.equal(observation.log_same(), same.masked_fill(observation.hidden, -torch.inf))
    other = (tokens + 1) % SIZE
    torch.testing.assert_close(
        observation.likelihood.at(other), observation.likelihood.table().gather(-1, other[..., None])[..., 0]
    )


@mixed
@given(data=st.data(), seed=st.integers(0, 100))
def test_lost_positions_carry_no_information(channel, data, seed):
    """In a damaged document with additional marks, the likelihood is flat where a token is lost."""
    tokens = data.draw(batches(channel))
    observation = channel.observe(tokens)
    lost = tokens == SIZE
    assert torch.equal(observation.lost, lost)
    assert observation.hidden[lost].all()
    generator = torch.Generator().manual_seed(seed)
    log_probs = torch.randn(ROWS, LENGTH, SIZE, generator=generator, dtype=torch.float64).log_softmax(-1)
    others = torch.randn(ROWS, LENGTH, SIZE, generator=generator, dtype=torch.float64).log_softmax(-1)
    table = observation.likelihood.table()[lost]
    assert (table == table[:, :1]).all()
    assert torch.isfinite(table).all()
    first, second = (observation.likelihood.log_evidence(probs)[lost] for probs in (log_probs, others))
    torch.testing.assert_close(first, second)
    torch.testing.assert_close(observation.likelihood.log_posterior(log_probs)[lost], log_probs[lost])
    # Observed positions keep the likelihood that they have without the lost ones.
    torch.testing.assert_close(observation.likelihood.table()[~lost], channel.observe(tokens[~lost]).likelihood.table())


@mixed
@given(data=st.data())
def test_hidden_tokens_are_lost_and_keep_their_likelihood(channel, data):
    observation = channel.observe(data.draw(batches(channel)))
    hidden = torch.arange(LENGTH).expand(ROWS, -1) % 2 == 0
    decided = observation.with_hidden(hidden)
    assert not decided.uncertain.any()
    assert torch.equal(decided.lost, observation.lost | (observation.uncertain & hidden))
    assert torch.equal(decided.likelihood.table(), observation.likelihood.table())


def test_an_excerpt_is_kept_with_whole_sequences():
    excerpt = Excerpt(torch.tensor([0, 1, 4, 5, 6, 9]), 12)
    whole = CHANNELS["mask"].observe(torch.zeros(ROWS, LENGTH, dtype=torch.long), excerpt)
    for index in (1, slice(0, 2), torch.tensor([2, 0]), None):
        assert whole[index].excerpt is excerpt
    for index in ((0, slice(0, 3)), (torch.tensor([0]), torch.tensor([2]))):
        assert whole[index].excerpt is None
    assert whole[0][2:4].excerpt is None
    assert whole[0][None].excerpt is excerpt
    assert excerpt.cuts.tolist() == [2, 5, 6]
    assert Excerpt(torch.arange(3, 5), 5).cuts.tolist() == [0]
    assert Excerpt(torch.arange(5), 5).cuts.tolist() == []


def test_channels_have_names():
    assert isinstance(as_channel("mask", 256), MaskChannel)
    assert as_channel("replacement:0.05", 256).rate == 0.05
    for name in (
        "",
        "fire",
        "replacement",
        "replacement:",
        "replacement:x",
        "replacement:0",
        "replacement:1",
        "mask:1",
    ):
        with pytest.raises(OptionError, match="channel: "):
            as_channel(name, 256)
