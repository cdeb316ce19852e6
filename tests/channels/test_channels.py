"""Properties of every channel, in one list: a new channel is tested by adding it."""

import math

import pytest
import torch

from conservator.channels import ConfusionChannel, MaskChannel, ReplacementChannel, Status, TokenDependentMaskChannel
from conservator.errors import ConservatorError

SIZE = 5
MATRIX = torch.tensor(
    [
        [0.7, 0.1, 0.1, 0.0, 0.0, 0.1],
        [0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        [0.2, 0.2, 0.2, 0.2, 0.2, 0.0],
        [0.0, 0.0, 0.5, 0.5, 0.0, 0.0],
        [0.1, 0.0, 0.0, 0.0, 0.3, 0.6],
    ]
)
CHANNELS = {
    "mask": MaskChannel(SIZE, 0.3),
    "mask nothing": MaskChannel(SIZE, 0.0),
    "mask all": MaskChannel(SIZE, 1.0),
    "replacement": ReplacementChannel(SIZE, 0.4),
    "replace nothing": ReplacementChannel(SIZE, 0.0),
    "replace all": ReplacementChannel(SIZE, 1.0),
    "confusion": ConfusionChannel(MATRIX),
    "confusion into fewer symbols": ConfusionChannel(MATRIX[:, :3] / MATRIX[:, :3].sum(1, keepdim=True)),
    "confusion of one token": ConfusionChannel(torch.ones(1, 1)),
    "token-dependent mask": TokenDependentMaskChannel(torch.tensor([0.5, 0.1, 0.2, 0.01, 0.9])),
}
channels = pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS.keys())


def every_output(channel):
    """Observe all output symbols, one in each row: (outputs, 1)."""
    return channel.observe(torch.arange(channel.outputs)[:, None])


def random_log_probs(channel, generator, *shape):
    logits = torch.randn(*shape, channel.vocab_size, generator=generator, dtype=torch.float64)
    return torch.log_softmax(logits, dim=-1)


@channels
def test_likelihoods_normalise_over_outputs(channel):
    total = every_output(channel).likelihood.table()[:, 0].exp().sum(0)
    torch.testing.assert_close(total, torch.ones(channel.vocab_size, dtype=torch.float64))


@channels
def test_empirical_frequencies_match_the_likelihood(channel, generator):
    count = 40_000
    tokens = torch.arange(channel.vocab_size).expand(count, -1)
    outputs = channel.corrupt(tokens, generator).tokens
    expected = every_output(channel).likelihood.table()[:, 0].exp().T  # (V, outputs)
    for token, row in enumerate(expected):
        frequency = torch.bincount(outputs[:, token], minlength=channel.outputs) / count
        # Five standard deviations of a binomial frequency, and nothing where the likelihood is zero.
        assert ((frequency - row).abs() <= 5 * (row * (1 - row) / count).sqrt()).all()


@channels
def test_evidence_and_posterior_agree_with_the_table(channel, generator):
    observation = channel.corrupt(torch.randint(channel.vocab_size, (7, 11), generator=generator), generator)
    log_probs = random_log_probs(channel, generator, 11)
    joint = observation.likelihood.table() + log_probs
    evidence = observation.likelihood.log_evidence(log_probs)
    assert evidence.shape == (7, 11)
    torch.testing.assert_close(evidence, torch.logsumexp(joint, dim=-1))
    posterior = observation.likelihood.log_posterior(log_probs)
    torch.testing.assert_close(posterior.exp().sum(-1), torch.ones(7, 11, dtype=torch.float64))
    torch.testing.assert_close(posterior.exp() * evidence.exp()[..., None], joint.exp())


@channels
def test_the_same_seed_gives_the_same_damage(channel):
    tokens = torch.arange(100) % channel.vocab_size
    once, again = (channel.corrupt(tokens, torch.Generator().manual_seed(3)).tokens for _ in range(2))
    assert torch.equal(once, again)


@channels
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_an_observation_keeps_its_shape_for_every_integer_type(channel, dtype, generator):
    tokens = torch.zeros(2, 3, 4, dtype=dtype)
    observation = channel.corrupt(tokens, generator)
    assert observation.vocab_size == channel.vocab_size
    assert observation.tokens.shape == observation.status.shape == observation.lost.shape == tokens.shape
    assert observation.tokens.dtype == torch.int64
    assert observation.likelihood.table().shape == (2, 3, 4, channel.vocab_size)
    assert torch.equal(channel.observe(tokens).tokens, tokens.long())
    assert channel.corrupt(tokens[:0], generator).tokens.shape == (0, 3, 4)


@channels
def test_clean_tokens_outside_the_vocabulary_are_refused(channel, generator):
    tokens = torch.zeros(9, dtype=torch.long)
    tokens[4] = channel.vocab_size
    with pytest.raises(ConservatorError, match=rf"token {channel.vocab_size} at position 4 .* 0 ... "):
        channel.corrupt(tokens, generator)
    with pytest.raises(ConservatorError, match=r"token -1 at position \(0, 1\)"):
        channel.corrupt(torch.tensor([[0, -1]]), generator)
    with pytest.raises(ConservatorError, match="must be integers"):
        channel.corrupt(torch.zeros(3), generator)


@channels
def test_output_symbols_outside_the_alphabet_are_refused(channel):
    for symbol in {-1, *range(channel.outputs, SIZE + 4)} - {
        channel.vocab_size
    }:  # V stands for a lost token in every channel
        with pytest.raises(ConservatorError, match=f"token {symbol} at position 2 is outside the output alphabet"):
            channel.observe(torch.tensor([0, channel.vocab_size, symbol]))
    with pytest.raises(ConservatorError, match="must be integers"):
        channel.observe(torch.zeros(3))


def test_the_mask_channel_keeps_visible_tokens(generator):
    tokens = torch.randint(256, (50, 200), generator=generator)
    observation = MaskChannel(256, 0.3).corrupt(tokens, generator)
    assert torch.equal(observation.tokens[~observation.lost], tokens[~observation.lost])
    assert (observation.tokens[observation.lost] == 256).all()
    assert 0.25 < observation.lost.double().mean() < 0.35


def test_all_256_bytes_are_tokens(generator):
    every_byte = torch.arange(256, dtype=torch.uint8)
    for channel in (MaskChannel(256, 0.0), ReplacementChannel(256, 0.0), ConfusionChannel(torch.eye(256))):
        assert torch.equal(channel.corrupt(every_byte, generator).tokens, every_byte.long())
        assert torch.equal(channel.observe(every_byte).tokens, every_byte.long())


def test_only_the_mask_channel_shows_lost_positions(generator):
    tokens = torch.zeros(100, dtype=torch.long)
    for name in ("replacement", "confusion"):
        observation = CHANNELS[name].corrupt(tokens, generator)
        assert not observation.lost.any()
        assert observation.uncertain.all()
    masked = CHANNELS["mask"].corrupt(tokens, generator)
    assert 0 < masked.lost.sum() < 100
    assert ((masked.status == Status.KNOWN) == ~masked.lost).all()


def test_mask_and_replacement_are_confusion_matrices(generator):
    eye = torch.eye(SIZE, dtype=torch.float64)
    mask = torch.cat([0.7 * eye, torch.full((SIZE, 1), 0.3, dtype=torch.float64)], dim=1)
    for channel, matrix in (("mask", mask), ("replacement", 0.6 * eye + 0.4 / SIZE)):
        general, special = ConfusionChannel(matrix), CHANNELS[channel]
        torch.testing.assert_close(every_output(general).likelihood.table(), every_output(special).likelihood.table())


def test_a_large_vocabulary_needs_no_table(generator):
    """L = 512 and V = 50,257 in float32: the table alone would double the memory of the log-probabilities."""
    size = 50_257
    log_probs = torch.full((512, size), -math.log(size))
    observation = MaskChannel(size, 0.3).corrupt(torch.randint(size, (512,), generator=generator), generator)
    evidence = observation.likelihood.log_evidence(log_probs)
    assert evidence.dtype == torch.float32
    expected = torch.where(observation.lost, math.log(0.3), math.log(0.7 / size))
    torch.testing.assert_close(evidence, expected)


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
@pytest.mark.parametrize("kind", [MaskChannel, ReplacementChannel])
def test_a_rate_outside_0_1_is_refused(kind, rate):
    with pytest.raises(ConservatorError, match="between 0 and 1"):
        kind(SIZE, rate)


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_an_invalid_vocabulary_size_is_refused(size):
    with pytest.raises(ConservatorError, match="at least 1"):
        MaskChannel(size, 0.5)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.5], [0.5, 0.6]], "row 1 .*its sum is 1.1"),
        ([[1.5, -0.5], [0.5, 0.5]], "row 0"),
        ([[math.nan, 1.0]], "row 0"),
        ([0.5, 0.5], r"shape \(2,\)"),
        ([[]], "shape"),
    ],
)
def test_a_matrix_that_does_not_normalise_is_refused(matrix, message):
    with pytest.raises(ConservatorError, match=message):
        ConfusionChannel(torch.tensor(matrix))


@pytest.mark.parametrize("rate", [0.0, 1.0, float("nan")])
def test_a_token_dependent_rate_of_0_or_1_is_refused(rate):
    with pytest.raises(ConservatorError, match="strictly between 0 and 1"):
        TokenDependentMaskChannel(torch.tensor([0.5, rate]))


def test_only_the_mask_tells_nothing_about_lost_tokens():
    for channel in CHANNELS.values():
        informative = channel.observe(torch.tensor([channel.vocab_size])).likelihood.lost_is_informative
        assert informative != isinstance(channel, MaskChannel)


def test_observed_tokens_of_some_channels_may_be_wrong():
    for channel in CHANNELS.values():
        assert channel.may_overwrite == isinstance(channel, ReplacementChannel | ConfusionChannel)
